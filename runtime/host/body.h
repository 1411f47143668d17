/* SPDX-License-Identifier: Apache-2.0 */
/* A computation compiled for a macro op that calls it: loops, branches, scans.
 *
 * Arrays are passed as macro ops see them: dense, in the layouts of the computation's
 * parameters and root, one byte per sub-byte element. Made at load, in the arena,
 * immutable; running allocates nothing. Thread: any, each with its scratch. */
#ifndef TD_RUNTIME_HOST_BODY_H
#define TD_RUNTIME_HOST_BODY_H

#include "runtime/device.h"
#include "runtime/host/host_op.h"

typedef struct td_body_leaf {
    td_type_t type;
    size_t count;
    uint64_t packed_at; /* sub-byte types: where it lies packed in scratch; else TD_BODY_PLAIN */
} td_body_leaf_t;
typedef struct td_body {
    const td_kernel_t *kernel;
    const td_shape_t **shapes;  /* input leaves, then output leaves; of the module, for preparing only */
    td_body_leaf_t *leaves;
    uint32_t n_in, n_out;
    uint64_t table_at, scratch; /* addresses; bytes in all */
} td_body_t;
#define TD_BODY_PLAIN UINT64_MAX

/* state: output leaf i may lie exactly where input leaf i does (same type, dimensions and layout);
 * otherwise outputs and inputs never overlap. */
td_status_t td_body_make(const td_hlo_comp_t *comp, bool state, td_arena_t *arena, td_body_t *out, td_err_t *err);
/* in, out: one address per leaf. scratch: b->scratch bytes, 64-byte aligned. */
void td_body_run(const td_body_t *b, const void *const *in, void *const *out, void *scratch);

#endif
