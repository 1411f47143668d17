/* SPDX-License-Identifier: Apache-2.0 */
/* A device: a table of functions for memory, streams, events, kernels, copies
 * and library operations. Everything above this line is device-independent.
 *
 * Work is enqueued on streams; an ordering between streams is an event, never a
 * sync. Lowering may allocate (from the arena given); launching never does.
 * Thread: one owner thread per device at a time unless a member says otherwise. */
#ifndef TD_RUNTIME_DEVICE_H
#define TD_RUNTIME_DEVICE_H

#include "base/arena.h"
#include "runtime/launch.h"
#include "runtime/library.h"

typedef struct td_device td_device_t;
typedef struct td_stream td_stream_t;
typedef struct td_event td_event_t;
typedef struct td_tape td_tape_t;     /* times at which streams got somewhere */
typedef struct td_graph td_graph_t;   /* work that was captured once, to be launched as a whole */
typedef struct td_kernel td_kernel_t; /* a lowered kernel or library operation; lives in the arena of lowering */

/* One argument: a buffer slice and the array that lies in it. */
typedef struct td_kernel_arg {
    uint32_t allocation;
    uint64_t offset, size;
    const td_shape_t *shape; /* NULL if the artifact records none */
    bool written;
} td_kernel_arg_t;

/* Do the two share memory? */
static inline bool td_args_overlap(const td_kernel_arg_t *a, const td_kernel_arg_t *b) {
    return a->allocation == b->allocation && a->size && b->size &&
           (a->offset < b->offset ? b->offset - a->offset < a->size : a->offset - b->offset < b->size);
}

/* What a kernel thunk says. The host device compiles `instr`; a GPU runs `launch`.
 * args = operand leaves, then output leaves, in order. */
typedef struct td_kernel_desc {
    const td_hlo_module_t *module;
    const td_hlo_instr_t *instr; /* named by profile_annotation; NULL if there is none */
    const char *name;            /* kernel name, for messages */
    const td_kernel_arg_t *args;
    uint32_t n_args;
    const td_launch_t *launch;   /* for devices that load code; NULL: the thunk has none */
    /* With devices that join kernels: the fusion that makes operand `producer_operand`; its operands' arguments
     * come after those of instr, before the outputs, and the operand's own is not to be read. NULL: none. */
    const td_hlo_instr_t *producer;
    uint32_t producer_operand, producer_output; /* output: which of the fusion's results, if it has several */
} td_kernel_desc_t;

/* What a stream is for. The main stream of a run belongs to the thread that enqueues: a device whose kernels
 * need no thread of their own may run its work at once. Communication goes before computation. */
typedef enum td_stream_use { TD_STREAM_MAIN, TD_STREAM_COMPUTE, TD_STREAM_COMMUNICATION,
                            TD_STREAM_MEMCPY } td_stream_use_t;

typedef struct td_device_ops {
    const char *name; /* "host" */
    bool joins_kernels; /* kernel_lower takes a producer */
    bool compiles;      /* kernel_lower makes code from the instruction; else it needs the launch */
    void (*destroy)(td_device_t *dev);
    /* 256-byte aligned device memory; contents undefined. mem_put accepts NULL. Thread: any. */
    td_status_t (*mem_get)(td_device_t *dev, uint64_t bytes, void **out, td_err_t *err);
    void (*mem_put)(td_device_t *dev, void *p, uint64_t bytes);

    /* A stream is enqueued to by one thread at a time. All streams that wait for each other are synced before
     * the first of them is destroyed. Work enqueued may fail later: stream_sync then tells of the first failure
     * and the stream is usable again; what was enqueued behind the failure, or waits for that, did not run. */
    td_status_t (*stream_create)(td_device_t *dev, td_stream_use_t use, td_stream_t **out, td_err_t *err);
    void (*stream_destroy)(td_stream_t *s);
    td_status_t (*stream_sync)(td_stream_t *s, td_err_t *err); /* blocks the host until all work is done */
    /* stream_wait waits for the latest record at the time of the call; without one it waits for nothing. */
    td_status_t (*event_create)(td_device_t *dev, td_event_t **out, td_err_t *err);
    void (*event_destroy)(td_event_t *e);
    td_status_t (*event_record)(td_stream_t *s, td_event_t *e, td_err_t *err);
    td_status_t (*stream_wait)(td_stream_t *s, td_event_t *e, td_err_t *err);

    /* Host memory given to upload and download is in use until the stream is synced. */
    /* copy: may overlap exactly */
    td_status_t (*copy)(td_stream_t *s, void *dst, const void *src, uint64_t bytes, td_err_t *err);
    td_status_t (*upload)(td_stream_t *s, void *dst, const void *host, uint64_t bytes, td_err_t *err);
    td_status_t (*download)(td_stream_t *s, void *host, const void *src, uint64_t bytes, td_err_t *err);
    td_status_t (*memset32)(td_stream_t *s, void *dst, uint32_t value, uint64_t bytes, td_err_t *err);

    /* Compiles or loads. Errors name the instruction. out_scratch: bytes of scratch a launch needs. */
    td_status_t (*kernel_lower)(td_device_t *dev, const td_kernel_desc_t *desc, td_arena_t *arena, td_kernel_t **out,
                                uint64_t *out_scratch, td_err_t *err);
    td_status_t (*library_lower)(td_device_t *dev, td_library_op_t op, const void *desc, td_arena_t *arena,
                                 td_kernel_t **out, uint64_t *out_scratch, td_err_t *err);
    /* bufs: one address per argument, copied; scratch: 64-byte aligned, as large as lowering said, one per
     * stream. Never allocates. */
    td_status_t (*launch)(td_stream_t *s, const td_kernel_t *k, void *const *bufs, uint32_t n_bufs, void *scratch,
                          td_err_t *err);
    /* Bytes of argument `arg` in the form that the kernel likes best, 0: as it is. NULL: this device packs nothing.
     * pack: brings it into that form (scratch as for a launch); from then on launches get the packed one. */
    uint64_t (*pack_bytes)(const td_kernel_t *k, uint32_t arg);
    td_status_t (*pack)(td_stream_t *s, td_kernel_t *k, uint32_t arg, const void *from, void *to, void *scratch, td_err_t *err);
    void (*kernel_release)(td_kernel_t *k); /* frees what is not in the arena; NULL is fine */

    /* For traces. Stamp i of a tape, below `most`, is the time at which the stream has done all that was enqueued. Once
     * the streams are synced, tape_read tells the nanoseconds since stamp 0 of the first n; TD_NO_TIME: not reached. */
    td_status_t (*tape_create)(td_device_t *dev, uint32_t most, td_tape_t **out, td_err_t *err);
    void (*tape_destroy)(td_tape_t *t); /* NULL is fine */
    td_status_t (*stamp)(td_stream_t *s, td_tape_t *t, uint32_t i, td_err_t *err);
    td_status_t (*tape_read)(td_tape_t *t, uint32_t n, uint64_t *out_ns, td_err_t *err);
    /* Graphs. Between begin and end nothing that is enqueued on the stream, or on one that waits for an event of it,
     * runs: it is kept. All such streams must have been waited for by then. end: what was kept is what the graph does
     * from now on (*updated: in place, which is cheaper); keep false, or an error: it is forgotten, and the graph does
     * what it did, or nothing if that is lost. A graph is changed while it does not run. Only launching allocates
     * nothing. */
    td_status_t (*graph_create)(td_device_t *dev, td_graph_t **out, td_err_t *err);
    void (*graph_destroy)(td_graph_t *g); /* NULL is fine */
    td_status_t (*graph_begin)(td_graph_t *g, td_stream_t *s, td_err_t *err);
    td_status_t (*graph_end)(td_graph_t *g, td_stream_t *s, bool keep, bool *updated, td_err_t *err);
    td_status_t (*graph_launch)(td_graph_t *g, td_stream_t *s, td_err_t *err);
    /* Has it failed for good: will every call fail? cause (may be NULL): its first failure. NULL: never. Thread:
     * any. */
    bool (*failed)(td_device_t *dev, td_err_t *cause);
    /* Does work run on the stream now, and which kernel (NULL: none, or not known)? NULL: the device cannot tell.
     * Thread: any, while the stream exists. */
    bool (*stream_running)(td_stream_t *s, const td_kernel_t **out);
} td_device_ops_t;
#define TD_NO_TIME UINT64_MAX

struct td_device {
    const td_device_ops_t *ops;
    const td_alloc_t *alloc;
    bool host_memory;      /* device memory is host memory, and the main stream is done when enqueuing returns */
    uint64_t memory_bytes; /* of the device, all of it; 0 where it is the host's */
    bool graphs;           /* runs may be captured in graphs and replayed; what makes them is there */
    uint32_t lanes_most;   /* streams of one execution, at most; 0: TD_LIMIT_LANES */
    uint64_t stream_bytes; /* host memory of a stream that is not the main one */
    uint64_t light_bytes; /* async bodies that touch less stay on the stream that starts them: done sooner than
                             * another stream would begin */
    const struct td_ffi_registry *ffi; /* user handlers, borrowed; NULL: none */
    int ordinal; /* what user handlers are told: the number of a GPU; 0: the host */
};
struct td_stream {
    td_device_t *device;
};

/* Opens "host" (the plugin thunkd-host.so next to the executable or in $(PREFIX)/lib/thunkd) or "cuda", or either
 * with ":OPTIONS", which td_host_device_open and td_cuda_device_open take. */
td_status_t td_device_open(const char *spec, const td_alloc_t *alloc, td_device_t **out, td_err_t *err);
/* Entry point that the plugin exports. options: "" or some of these, with commas between them:
 * threads=N: threads that kernels may use (else one for each CPU of the process); all host devices that are open
 *   at a time share the count.
 * lanes=N: streams of one execution, at most (1 to TD_LIMIT_LANES, the default); others share them.
 * delay=SEED: for tests of ordering: every stream, the main one too, is a queue that holds each item back for up
 *   to 0.2 ms, and inputs are uploaded. */
td_status_t td_host_device_open(const char *options, const td_alloc_t *alloc, td_device_t **out, td_err_t *err);
td_status_t td_host_device_create(const td_alloc_t *alloc, td_device_t **out, td_err_t *err); /* without options */
/* A GPU through libcuda.so.1. options, with commas between them: the device first (a number, a UUID as "GPU-..." or "MIG-...", or
 * "auto": the best of them; without, the first), then cc=MAJOR.MINOR: only of that compute capability; graphs=off: none
 * (auto, the default: where programs allow it); lanes=N: as with the host; driver=FILE: instead of libcuda.so.1. TD_NOTFOUND: no driver, or no
 * such device. */
td_status_t td_cuda_device_open(const char *options, const td_alloc_t *alloc, td_device_t **out, td_err_t *err);
const char *td_cuda_device_choice(const td_device_t *dev); /* which one it is and why; "" if it is no CUDA device */
/* Device memory within a budget: mem_get after the charge (NULL: none) has agreed. A refusal is TD_LIMIT and says
 * what the memory was for. Give back what was taken, with the same charge; NULL is fine. Thread: any. */
td_status_t td_device_take(td_device_t *dev, const td_charge_t *charge, uint64_t bytes, const char *what, void **out,
                           td_err_t *err);
void td_device_give(td_device_t *dev, const td_charge_t *charge, void *memory, uint64_t bytes);
/* After an error that the device does not survive, only a new process helps. Thread: any. */
static inline bool td_device_failed(td_device_t *dev, td_err_t *cause) {
    return dev->ops->failed && dev->ops->failed(dev, cause);
}
static inline void td_device_destroy(td_device_t *d) {
    if (d) d->ops->destroy(d);
}

#endif
