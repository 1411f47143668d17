/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products of one shape, the work of dot: oneDNN for f32 and bf16, BLAS for f64 and complex.
 *
 * A matrix is [rows, cols], each at least 1, with one stride each, one of them 1 (of one element: any). Made at
 * load in the arena; running allocates nothing of ours. Thread: make one, run any. */
#ifndef TD_RUNTIME_HOST_MATMUL_H
#define TD_RUNTIME_HOST_MATMUL_H

#include "base/arena.h"
#include "runtime/shape.h"

typedef struct td_mat {
    int64_t rows, cols, row_stride, col_stride;
} td_mat_t;

typedef struct td_matmul td_matmul_t;

/* c[m,n] = a[m,k] b[k,n]. in: f32, f64, c64, c128 with out the same, or bf16 with out bf16 or f32.
 * NULL in *out: not of these types, or no such kernel on this machine. scratch: bytes of one run. */
td_status_t td_matmul_make(td_type_t in, td_type_t out_type, const td_mat_t *a, const td_mat_t *b, const td_mat_t *c,
                           td_arena_t *arena, td_matmul_t **out, uint64_t *scratch, td_err_t *err);
void td_matmul_run(const td_matmul_t *m, const void *a, const void *b, void *c, void *scratch);

#endif
