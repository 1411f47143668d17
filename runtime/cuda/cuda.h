/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the CUDA device: one GPU through the Driver API.
 *
 * The device holds the GPU's primary context, which libraries loaded into the process share. Every entry makes it
 * current on the calling thread. After an error that the context does not survive the device is poisoned: all later
 * calls fail at once with that first cause. Thread: as runtime/device.h says; members below name their own rules. */
#ifndef TD_RUNTIME_CUDA_CUDA_H
#define TD_RUNTIME_CUDA_CUDA_H

#include <pthread.h>
#include <stdatomic.h>

#include "proto/content.h"
#include "runtime/cuda/driver.h"
#include "runtime/cuda/elf.h"
#include "runtime/device.h"

typedef struct td_cuda_pool td_cuda_pool_t;
typedef struct td_cuda_module td_cuda_module_t;
typedef struct td_cuda_lib_open td_cuda_lib_open_t;

typedef struct td_cuda_device {
    td_device_t base;
    td_cuda_t cu;
    CUdevice handle;
    CUcontext context;
    uint64_t serial; /* no two devices of a process have the same */
    int ordinal, major, minor;
    int threads_most, block_most[3], grid_most[3]; /* of a launch */
    int shared_most; /* static and dynamic, per block, when asked for */
    int priority;    /* of communication streams */
    char name[96];
    char choice[384]; /* which device was chosen and why */
    td_cuda_pool_t *pool;
    pthread_mutex_t lock; /* modules, cause */
    td_cuda_module_t *modules;
    pthread_mutex_t lib_lock;
    td_cuda_lib_open_t *libs; /* lib.h: those that programs have needed */
    CUmodule own;             /* own.h; under lib_lock; NULL until then */
    td_device_t *host;        /* on_host.c; under lib_lock; NULL until then */
    atomic_bool poisoned;
    td_err_t cause;
} td_cuda_device_t;

/* Makes the context current on this thread; fails when the device is poisoned. */
td_status_t td_cuda_enter(td_cuda_device_t *d, td_err_t *err);
/* No context is current on this thread any more. */
void td_cuda_leave(td_cuda_device_t *d);
/* TD_OK for success; else the error, and the device is poisoned if it does not survive that. what: "stream". */
td_status_t td_cuda_check(td_cuda_device_t *d, CUresult r, const char *call, const char *what, td_err_t *err);
#define TD_CU(d, what, err, name, ...) td_cuda_check((d), (d)->cu.name(__VA_ARGS__), #name, (what), (err))

/* choose.c: fills ordinal, handle, capability, name, choice. selector: "", "0", "auto", "GPU-<uuid>" or its digits;
 * capability: "9.0" or NULL: any. */
td_status_t td_cuda_choose(td_cuda_device_t *d, const char *selector, const char *capability, td_err_t *err);

/* pool.c: device memory, aligned to 256 bytes. Small blocks share chunks, large ones are the driver's own. Thread: any
 * (a lock inside); the context is current. */
td_status_t td_cuda_pool_create(td_cuda_device_t *d, td_err_t *err);
void td_cuda_pool_destroy(td_cuda_device_t *d); /* what was not put back goes too */
td_status_t td_cuda_pool_get(td_cuda_device_t *d, uint64_t bytes, void **out, td_err_t *err);
void td_cuda_pool_put(td_cuda_device_t *d, void *p, uint64_t bytes);
void td_cuda_pool_stats(td_cuda_device_t *d, uint64_t *out_used, uint64_t *out_reserved);

/* stream.c */
typedef struct td_cuda_stage td_cuda_stage_t;
typedef struct td_cuda_stream {
    td_stream_t base;
    CUstream handle;
    td_cuda_stage_t *stage;
} td_cuda_stream_t;
struct td_event {
    td_cuda_device_t *device;
    CUevent handle;
};
uint64_t td_cuda_stream_bytes(void); /* host memory of one */
td_status_t td_cuda_stream_create(td_device_t *dev, td_stream_use_t use, td_stream_t **out, td_err_t *err);
void td_cuda_stream_destroy(td_stream_t *s);
td_status_t td_cuda_stream_sync(td_stream_t *s, td_err_t *err);
td_status_t td_cuda_upload(td_stream_t *s, void *dst, const void *host, uint64_t bytes, td_err_t *err);
td_status_t td_cuda_download(td_stream_t *s, void *host, const void *src, uint64_t bytes, td_err_t *err);
td_status_t td_cuda_copy(td_stream_t *s, void *dst, const void *src, uint64_t bytes, td_err_t *err);
td_status_t td_cuda_memset32(td_stream_t *s, void *dst, uint32_t value, uint64_t bytes, td_err_t *err);

/* stage.c: pinned memory through which copies between pageable host memory and the device go. Belongs to a stream and
 * its thread. Errors: what the driver says. */
td_status_t td_cuda_stage_create(td_cuda_device_t *d, uint64_t bytes, td_cuda_stage_t **out, td_err_t *err);
void td_cuda_stage_destroy(td_cuda_device_t *d, td_cuda_stage_t *s);
td_status_t td_cuda_stage_up(td_cuda_device_t *d, td_cuda_stage_t *s, CUstream q, CUdeviceptr dst, const void *host,
                             uint64_t bytes, td_err_t *err);
td_status_t td_cuda_stage_down(td_cuda_device_t *d, td_cuda_stage_t *s, CUstream q, void *host, CUdeviceptr src,
                               uint64_t bytes, td_err_t *err);
/* After the stream ran empty: what came down goes to its places; with failed, it is dropped. */
void td_cuda_stage_flush(td_cuda_stage_t *s, bool failed);

/* tape.c: as runtime/device.h says */
td_status_t td_cuda_tape_create(td_device_t *dev, uint32_t most, td_tape_t **out, td_err_t *err);
void td_cuda_tape_destroy(td_tape_t *t);
td_status_t td_cuda_stamp(td_stream_t *s, td_tape_t *t, uint32_t i, td_err_t *err);
td_status_t td_cuda_tape_read(td_tape_t *t, uint32_t n, uint64_t *out_ns, td_err_t *err);

/* graph.c: as runtime/device.h says. ready: does the driver have what it takes? */
bool td_cuda_graphs_ready(const td_cuda_device_t *d);
td_status_t td_cuda_graph_create(td_device_t *dev, td_graph_t **out, td_err_t *err);
void td_cuda_graph_destroy(td_graph_t *g);
td_status_t td_cuda_graph_begin(td_graph_t *g, td_stream_t *s, td_err_t *err);
td_status_t td_cuda_graph_end(td_graph_t *g, td_stream_t *s, bool keep, bool *updated, td_err_t *err);
td_status_t td_cuda_graph_launch(td_graph_t *g, td_stream_t *s, td_err_t *err);

/* module.c: images loaded into the context. Equal images are one module while it is in use, except those with
 * variables that kernels change: of such, each kernel has its own, or each program if the image is the artifact's one
 * binary. program: identifies it as long as it lives. Thread: any (a lock inside). */
struct td_cuda_module {
    td_cuda_module_t *next;
    td_content_t content;
    td_image_kind_t kind;
    const void *scope; /* of what it is shared within; NULL: the device */
    CUmodule handle;
    td_arena_t arena;
    td_cubin_t cubin;  /* no kernels: not an ELF file */
    uint64_t refs;
};
td_status_t td_cuda_module_get(td_cuda_device_t *d, const td_launch_t *l, const void *program, td_cuda_module_t **out,
                               td_err_t *err);
void td_cuda_module_put(td_cuda_device_t *d, td_cuda_module_t *m);

/* kernel.c. A td_kernel_t of this device begins with these; library operations have launches of their own. */
struct td_kernel {
    td_status_t (*launch)(td_stream_t *s, const td_kernel_t *k, void *const *bufs, uint32_t n_bufs, void *scratch,
                          td_err_t *err);
    void (*release)(td_kernel_t *k); /* NULL: nothing to do */
};
td_status_t td_cuda_kernel_lower(td_device_t *dev, const td_kernel_desc_t *desc, td_arena_t *arena, td_kernel_t **out,
                                 uint64_t *out_scratch, td_err_t *err);
/* library.c */
td_status_t td_cuda_library_lower(td_device_t *dev, td_library_op_t op, const void *desc, td_arena_t *arena,
                                  td_kernel_t **out, uint64_t *out_scratch, td_err_t *err);

static inline td_cuda_device_t *td_cuda_of(td_stream_t *s) { return (td_cuda_device_t *)s->device; }
static inline CUdeviceptr td_cuda_ptr(const void *p) { return (CUdeviceptr)(uintptr_t)p; }

#endif
