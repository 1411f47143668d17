/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of td_module_t, for verify, lowering and inspection. Thread: immutable once open. */
#ifndef TD_RUNTIME_MODULE_H
#define TD_RUNTIME_MODULE_H

#include "runtime/program.h"

typedef struct td_buffer {
    uint64_t size;
    bool is_param, is_constant, is_thread_local, is_tuple, live_out;
    bool written;  /* by some thunk */
    bool output;   /* an output lies in it */
    uint32_t input;              /* is_param: index of module->inputs */
    const td_literal_t *literal; /* constants that thunks may use */
} td_buffer_t;

typedef struct td_module_io {
    const char *name, *path; /* path: inputs only */
    const td_shape_t *shape;
    uint32_t slot; /* UINT32_MAX: unused parameter */
} td_module_io_t;

struct td_module {
    td_arena_t arena;
    const td_alloc_t *alloc;
    const td_artifact_t *artifact;
    const td_hlo_module_t *hlo;
    td_buffer_t *buffers; /* allocations, then private slots (size only) */
    uint32_t n_allocations, n_slots;
    td_module_io_t *inputs, *outputs;
    uint32_t n_inputs, n_outputs;
    struct td_seq *thunks;
    bool scheduled; /* thunks were made from the scheduled module; then: the literal of each constant allocation */
    const td_literal_t *const *literals;
};

struct td_parse;
/* verify.c: allocations, inputs, outputs, constants; before thunks. */
td_status_t td_verify_buffers(td_module_t *m, td_err_t *err);

#endif
