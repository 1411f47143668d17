/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of td_program_t, for run.c. Immutable once created. */
#ifndef TD_RUNTIME_PROGRAM_IN_H
#define TD_RUNTIME_PROGRAM_IN_H

#include "runtime/thunk/thunk.h"

typedef struct td_slot {
    uint64_t size, offset; /* offset: in the binding's block, when owned */
    bool owned;            /* has memory in the binding's block */
    void *constant;        /* constants: device memory of the program */
} td_slot_t;

struct td_program {
    td_arena_t arena;
    const td_alloc_t *alloc;
    td_device_t *dev;
    const char *name;
    td_seq_t thunks;
    td_slot_t *slots;
    uint32_t n_slots;
    td_io_t *inputs, *outputs;
    uint32_t *input_slot, *output_slot;
    bool *input_direct;  /* the caller's memory may stand in for the allocation */
    uint32_t n_inputs, n_outputs, max_args;
    uint64_t scratch, block_bytes, constant_bytes, convert_bytes;
    bool host; /* device memory is host memory */
};

#endif
