/* SPDX-License-Identifier: Apache-2.0 */
/* One thunk kind = one row of td_thunk_kinds: how its message is read and checked, lowered, and run.
 *
 * A module's thunks and a program's are the same struct; lowering copies it, fills `kernel` and drops
 * what points into the artifact. Buffers are slots: allocations first, then private entries of
 * dynamic-slice fusions. Thread: that of the module, program or binding. */
#ifndef TD_RUNTIME_THUNK_H
#define TD_RUNTIME_THUNK_H

#include "base/limits.h"
#include "runtime/module.h"

typedef struct Xla__Gpu__ThunkProto td_thunk_msg_t;
typedef struct td_thunk td_thunk_t;
typedef struct td_thunk_kind td_thunk_kind_t;

typedef struct td_seq {
    td_thunk_t *v;
    uint32_t n;
} td_seq_t;

struct td_thunk {
    const td_thunk_kind_t *kind;
    const char *annotation;
    uint32_t depth;
    uint32_t number;          /* program only: counts all its thunks, nested ones too */
    bool skip;                /* a repeat of the kernel before it */
    td_kernel_arg_t *args;    /* .allocation is the slot */
    uint32_t n_args;
    td_seq_t *seqs;           /* while: condition, body; conditional: branches */
    uint32_t n_seqs;
    bool has_trip_count, index_is_pred;
    int64_t trip_count;
    uint64_t id;              /* async: execution id */
    uint64_t bytes;           /* copies */
    uint32_t value;           /* memset32 */
    int64_t stream;           /* async: logical stream, else -1 */
    td_stream_use_t stream_use; /* async: what the logical stream's number counts */
    uint32_t pair;            /* async: number of the pair, the same in start and done */
    uint32_t lane;            /* async start, program only */
    const void *extra;        /* the kind's own */
    size_t extra_bytes;
    const char *kernel_name;
    const td_hlo_instr_t *instr; /* module only */
    const td_hlo_instr_t *producer; /* lowering only: the kernel joined to this one (join.h), */
    uint32_t producer_operand;      /* the operand that it makes, */
    uint32_t producer_output;       /* and as which of its results */
    const td_launch_t *launch;   /* module only */
    td_kernel_t *kernel;         /* program only */
};

typedef struct td_parse { /* state of td_module_open */
    td_module_t *m;
    td_arena_t *arena;
    const td_artifact_t *a;
    uint32_t slot_base, slot_count; /* what buffer indices mean here */
    uint32_t slot_cap;
    uint32_t depth;
    struct { uint64_t id; bool done; } *async;
    uint32_t n_async, cap_async;
    const td_global_t *globals; /* launch.c: variables of the module-wide image, once asked for */
    uint32_t n_globals;
    td_err_t *err;
} td_parse_t;

/* A stream of a binding and what belongs to it. Lane 0 is the main one. */
typedef struct td_lane {
    td_stream_t *stream;
    void *scratch;
    _Atomic(const td_thunk_t *) at; /* enqueued last, or being enqueued; read by other threads; NULL: none yet */
} td_lane_t;

/* State of one execution. One thread enqueues everything, in the order of the thunks, whatever stream it is
 * for; so slots, bufs and loops are the same for all streams: what is enqueued holds addresses, not these. */
typedef struct td_run {
    td_device_t *dev;
    td_stream_t *stream; /* of the thunk that is being enqueued, with its scratch */
    void **slots;
    const uint64_t *slot_sizes;
    void **bufs; /* as long as the longest argument list */
    void *scratch;
    td_lane_t *lanes;
    uint32_t lane;       /* of stream */
    td_event_t *fork;    /* for waits that follow the record at once */
    td_event_t **ends;   /* of each async pair's body */
    int64_t loops[TD_LIMIT_THUNK_DEPTH + 1]; /* innermost last */
    uint32_t n_loops;
    const _Atomic(int) *cancel;
    uint32_t dropped;    /* number of a wait that is left out, in tests; TD_NO_WAIT: none */
    td_status_t (*each)(struct td_run *r, const td_thunk_t *t); /* instead of a thunk's enqueue; NULL: that */
    struct td_profile *profile;   /* NULL: not asked for */
    struct td_graphs *graphs;     /* of this run; NULL: thunks are enqueued one by one */
    struct td_trace *trace;       /* NULL: not asked for */
    struct td_lockstep *lockstep; /* NULL: no other device */
    td_err_t *err;
} td_run_t;

/* What is enqueued next goes to that lane. */
static inline void td_run_lane(td_run_t *r, uint32_t lane) {
    r->lane = lane;
    r->stream = r->lanes[lane].stream;
    r->scratch = r->lanes[lane].scratch;
}

/* Waits are numbered: 2 * pair is the start's, 2 * pair + 1 the done's. */
#define TD_NO_WAIT UINT32_MAX

struct td_thunk_kind {
    const char *name;
    unsigned wire; /* the oneof's case */
    td_status_t (*parse)(td_parse_t *c, const td_thunk_msg_t *msg, td_thunk_t *t);
    td_status_t (*lower)(td_device_t *dev, const td_hlo_module_t *hlo, const td_thunk_t *from, td_thunk_t *t,
                         td_arena_t *arena, uint64_t *out_scratch, td_err_t *err); /* NULL: nothing to do */
    td_status_t (*enqueue)(td_run_t *r, const td_thunk_t *t);
    bool on_host; /* what is enqueued depends on the run, or the host waits meanwhile: no graph can hold it */
};
extern const td_thunk_kind_t td_thunk_kinds[];
extern const unsigned td_thunk_kind_count;
const td_thunk_kind_t *td_thunk_kind_find(unsigned wire);

struct Xla__BufferAssignment__BufferAllocationSliceProto;
struct Xla__ShapedSliceProto;
struct Xla__ShapeProto;
td_status_t td_thunk_slice(td_parse_t *c, const char *what,
                           const struct Xla__BufferAssignment__BufferAllocationSliceProto *s,
                           const struct Xla__ShapeProto *shape, bool written, td_kernel_arg_t *out);
td_status_t td_thunk_shaped(td_parse_t *c, const char *what, const struct Xla__ShapedSliceProto *s, bool written,
                            td_kernel_arg_t *out);
/* Arguments from *at on against the arrays of a shape of t->instr: as large (exact) or large enough. */
td_status_t td_thunk_leaves(td_parse_t *c, const td_shape_t *s, bool exact, td_thunk_t *t, uint32_t *at);
td_status_t td_thunk_args(td_parse_t *c, td_thunk_t *t, uint32_t n);
td_status_t td_thunk_seqs(td_parse_t *c, td_thunk_t *t, uint32_t n);
td_status_t td_thunk_parse_seq(td_parse_t *c, const char *what, td_thunk_msg_t *const *msgs, size_t n, td_seq_t *out);
td_status_t td_thunk_run_seq(td_run_t *r, const char *what, const td_seq_t *s);
/* The i-th of them alone, thunk by thunk whatever the graphs. */
td_status_t td_thunk_run_one(td_run_t *r, const char *what, const td_seq_t *s, uint32_t i);
/* What the k-th sequence of a thunk is: "body", "branch 2". */
void td_thunk_seq_name(const td_thunk_t *t, uint32_t k, char out[24]);
/* slices.c: private slots where the loop counters say, as enqueuing does first; the slot that stands for an argument. */
void td_slice_fusion_move(td_run_t *r, const td_thunk_t *t);
uint32_t td_slice_fusion_slot(const td_thunk_t *t, uint32_t arg);
static inline void *td_thunk_addr(const td_run_t *r, const td_kernel_arg_t *a) {
    return r->slots[a->allocation] ? (char *)r->slots[a->allocation] + a->offset : NULL;
}
td_status_t td_thunk_launch(td_run_t *r, const td_thunk_t *t);
/* launch.c: t->launch from the message; after t->args. */
struct Xla__Gpu__KernelThunkProto;
struct Xla__Gpu__CustomKernelThunkProto;
td_status_t td_launch_parse_kernel(td_parse_t *c, const struct Xla__Gpu__KernelThunkProto *k, td_thunk_t *t);
td_status_t td_launch_parse_custom(td_parse_t *c, const struct Xla__Gpu__CustomKernelThunkProto *k, td_thunk_t *t);

#define TD_THUNK_KIND(x)                                                            \
    td_status_t td_##x##_parse(td_parse_t *c, const td_thunk_msg_t *msg, td_thunk_t *t); \
    td_status_t td_##x##_enqueue(td_run_t *r, const td_thunk_t *t)
TD_THUNK_KIND(kernel);
TD_THUNK_KIND(custom_kernel);
TD_THUNK_KIND(copy);
TD_THUNK_KIND(copy_to_host);
TD_THUNK_KIND(copy_to_device);
TD_THUNK_KIND(copy_base);
TD_THUNK_KIND(copy_done);
TD_THUNK_KIND(rng_seed);
TD_THUNK_KIND(host_io);
TD_THUNK_KIND(memzero);
TD_THUNK_KIND(memset32);
TD_THUNK_KIND(sequential);
TD_THUNK_KIND(conditional);
TD_THUNK_KIND(while);
TD_THUNK_KIND(replica_id);
TD_THUNK_KIND(partition_id);
TD_THUNK_KIND(async_start);
TD_THUNK_KIND(async_done);
TD_THUNK_KIND(gemm);
TD_THUNK_KIND(gemm_legacy);
TD_THUNK_KIND(norm);
TD_THUNK_KIND(custom_call);
TD_THUNK_KIND(cudnn);
TD_THUNK_KIND(fft);
TD_THUNK_KIND(triangular_solve);
TD_THUNK_KIND(select_k);
TD_THUNK_KIND(convolution);
TD_THUNK_KIND(convolution_reorder);
TD_THUNK_KIND(slice_fusion);
TD_THUNK_KIND(dynamic_memcpy);
td_status_t td_kernel_thunk_lower(td_device_t *dev, const td_hlo_module_t *hlo, const td_thunk_t *from, td_thunk_t *t,
                                  td_arena_t *arena, uint64_t *out_scratch, td_err_t *err);
td_status_t td_cudnn_lower(td_device_t *dev, const td_hlo_module_t *hlo, const td_thunk_t *from, td_thunk_t *t,
                           td_arena_t *arena, uint64_t *out_scratch, td_err_t *err);
td_status_t td_norm_lower(td_device_t *dev, const td_hlo_module_t *hlo, const td_thunk_t *from, td_thunk_t *t,
                          td_arena_t *arena, uint64_t *out_scratch, td_err_t *err);
td_status_t td_convolution_lower(td_device_t *dev, const td_hlo_module_t *hlo, const td_thunk_t *from, td_thunk_t *t,
                                 td_arena_t *arena, uint64_t *out_scratch, td_err_t *err);
td_status_t td_triangular_solve_lower(td_device_t *dev, const td_hlo_module_t *hlo, const td_thunk_t *from, td_thunk_t *t,
                                      td_arena_t *arena, uint64_t *out_scratch, td_err_t *err);
td_status_t td_select_k_lower(td_device_t *dev, const td_hlo_module_t *hlo, const td_thunk_t *from, td_thunk_t *t,
                              td_arena_t *arena, uint64_t *out_scratch, td_err_t *err);
td_status_t td_fft_lower(td_device_t *dev, const td_hlo_module_t *hlo, const td_thunk_t *from, td_thunk_t *t,
                         td_arena_t *arena, uint64_t *out_scratch, td_err_t *err);
td_status_t td_gemm_lower(td_device_t *dev, const td_hlo_module_t *hlo, const td_thunk_t *from, td_thunk_t *t,
                          td_arena_t *arena, uint64_t *out_scratch, td_err_t *err);
td_status_t td_custom_call_lower(td_device_t *dev, const td_hlo_module_t *hlo, const td_thunk_t *from, td_thunk_t *t,
                                 td_arena_t *arena, uint64_t *out_scratch, td_err_t *err);

#endif
