/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of td_program_t, for run.c and tests. Immutable once created. */
#ifndef TD_RUNTIME_PROGRAM_IN_H
#define TD_RUNTIME_PROGRAM_IN_H

#include <stdatomic.h>

#include "runtime/thunk/thunk.h"

typedef struct td_slot {
    uint64_t size, offset; /* offset: in the binding's block, when owned */
    bool owned;            /* has memory in the binding's block */
    void *constant;        /* constants: their bytes on the device; never written */
} td_slot_t;

/* A stream of each binding: which logical one it stands for, and the scratch that its kernels need. */
typedef struct td_lane_plan {
    td_stream_use_t use;
    int64_t id; /* main: -1 */
    uint64_t scratch;
} td_lane_plan_t;

/* An argument that a kernel wants in a form of its own, made once. */
typedef struct td_pack {
    td_kernel_t *kernel;
    uint32_t arg;
    td_kernel_arg_t from;
    uint32_t slot;
} td_pack_t;

/* Bytes that follow from the module alone. */
typedef struct td_layout {
    uint64_t block_bytes;    /* binding: the allocations that have memory there */
    uint64_t convert_bytes;  /* binding: host-side outputs that are not the device's own memory */
    uint64_t stage_bytes;    /* binding: arrays as stored, on their way between a host-side tensor and the device */
    uint64_t constant_bytes; /* constants of the table, */
    uint64_t inline_bytes;   /* and small ones in the program's own block */
} td_layout_t;

struct td_program {
    td_arena_t arena;
    const td_alloc_t *alloc;
    td_device_t *dev;
    const td_charge_t *charge, *constant_charge;
    td_constants_t *constants, *own_constants; /* own: made here, as none was given */
    td_constant_t *shared;                     /* those of the table, a use each; room for one per input, too */
    uint32_t n_shared;
    void *inline_memory; /* the small ones, which are no payloads */
    const char *name;
    td_seq_t thunks;
    td_seq_t once;       /* fixed.c: what runs when inputs are bound, */
    td_pack_t *packs;    /* and what is packed then */
    uint32_t n_packs, first_made; /* slots from first_made on are theirs */
    uint32_t n_thunks; /* nested ones too */
    td_slot_t *slots;
    uint32_t n_slots;
    td_io_t *inputs, *outputs;
    uint32_t *input_slot, *output_slot;
    bool *bound;         /* NULL: no inputs are bound for good */
    bool *state_only;    /* always a state: no memory in bindings */
    bool *input_direct;  /* the caller's memory stands in for the allocation, which has none */
    bool *input_read_only; /* the program leaves the allocation as it is */
    void **input_copy;   /* bound, and not read-only: the device's copy, which each run copies from; NULL: none */
    uint32_t n_inputs, n_outputs, max_args;
    td_lane_plan_t lanes[TD_LIMIT_LANES]; /* 0: main */
    uint32_t n_lanes, n_pairs;
    uint32_t dropped_wait; /* tests only: a wait that runs leave out, else TD_NO_WAIT */
    td_layout_t layout;
    uint64_t made_bytes, bound_bytes; /* what td_program_bind made; of the shared ones, what it added */
    bool host;           /* device memory is host memory */
    bool apart;          /* kernels are not joined */
};

/* Whether the tensor on the host's side and the array as stored have the same bytes. */
static inline bool td_shape_plain(const td_shape_t *s) { return s->default_layout && !s->packed; }
/* What a tensor takes in convert or stage memory. */
static inline uint64_t td_io_room(uint64_t bytes) { return (bytes + 127) & ~63ull; }
/* What a small constant takes: compiled code relies on 256-byte alignment (kConstantBufferAlignBytes of XLA). */
static inline uint64_t td_constant_room(uint64_t bytes) { return (bytes + 511) & ~255ull; }

struct td_binding {
    const td_program_t *p;
    const td_alloc_t *alloc;
    td_arena_t arena;
    void *block;
    uint8_t *convert; /* host-side outputs */
    uint8_t *stage;   /* arrays as stored, on their way to or from the device */
    /* state.c; of the run that is on, else TD_NO_STATE, and false */
    uint32_t *state_of_input, *state_of_slot; /* number of the state whose memory it is */
    uint32_t *state_readers;                  /* by state: what has to be copied from its memory yet */
    bool *kept;                               /* by output: belongs to a state */
    struct td_graphs *graphs;                 /* NULL: the device has none */
    _Atomic(uint32_t) phase;                  /* where.c: td_phase_t; in the bits above 8: the lane that is drained */
    td_run_t run;
};
typedef enum td_phase { TD_PHASE_IDLE, TD_PHASE_INPUTS, TD_PHASE_THUNKS, TD_PHASE_DRAIN } td_phase_t;
static inline void td_binding_phase(td_binding_t *b, td_phase_t phase, uint32_t lane) {
    atomic_store_explicit(&b->phase, (uint32_t)phase | lane << 8, memory_order_relaxed);
}
#define TD_NO_STATE UINT32_MAX

/* program.c: the lane of an async body. When there are as many as may be, further logical streams share them: work on
 * one stream keeps the order in which it was enqueued, so that is never wrong. The main one is shared where it is the
 * only one. */
uint32_t td_lane_of(const td_device_t *dev, td_lane_plan_t *lanes, uint32_t *n, const td_thunk_t *t);
/* An async body that is done sooner than another thread is awake stays on the stream that starts it. */
bool td_thunk_light(const td_device_t *dev, const td_thunk_t *t);

/* need.c: host: device memory is host memory. states (NULL: none): inputs without memory in bindings. slots (NULL: not asked for): size, owned, offset of each. direct: of each
 * input, whether the caller's memory stands in for the allocation. */
td_status_t td_module_layout(const td_module_t *m, bool host, const bool *states, td_slot_t *slots, bool *direct,
                             td_layout_t *out, td_err_t *err);
bool td_input_direct(const td_module_t *m, uint32_t input, bool host);
/* Does nothing in the program write over it, and is it no output? */
bool td_input_read_only(const td_module_t *m, uint32_t input);
/* What an allocation takes in the block of a binding. */
static inline uint64_t td_block_room(uint64_t bytes) { return (bytes + 511) & ~255ull; }

/* run.c: between a host-side tensor (row-major, one element per byte or more) and an array as stored. */
void td_tensor_convert(const td_shape_t *s, uint8_t *stored, uint8_t *host, bool to_host);
/* A host-side tensor to device memory, as stored; stage moves on by what was needed of it. */
td_status_t td_binding_put(td_binding_t *b, const td_shape_t *s, void *to, const void *src, uint8_t **stage,
                           td_err_t *err);
/* state.c, in a run: the states' memory stands in for parameters; after the thunks, what the states shall hold is
 * copied there; whatever happened, the binding forgets them. */
td_status_t td_states_begin(td_binding_t *b, const td_run_args_t *a, td_err_t *err);
td_status_t td_states_keep(td_binding_t *b, const td_run_args_t *a, td_err_t *err);
void td_states_end(td_binding_t *b, const td_run_args_t *a);

/* fixed.c: what depends on the fixed inputs alone, on devices with host memory. */
td_status_t td_fixed_compute(td_program_t *p, const void *const *inputs, const bool *fixed, td_err_t *err);
/* run.c: runs `once` and the packs with the fixed inputs. */
td_status_t td_binding_run_once(td_binding_t *b, const void *const *inputs, const bool *fixed, td_err_t *err);

/* For tests of ordering: runs of bindings created later leave out wait k of td_program_wait_count. */
uint32_t td_program_wait_count(const td_program_t *p);
void td_program_drop_wait(td_program_t *p, uint32_t k);

#endif
