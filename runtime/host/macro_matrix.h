/* SPDX-License-Identifier: Apache-2.0 */
/* Batches of matrices in any layout, as LAPACK wants them: one at a time, dense and column-major, f16 and
 * smaller floats in f32. Made at prepare, immutable afterwards. Thread: any. */
#ifndef TD_RUNTIME_HOST_MACRO_MATRIX_H
#define TD_RUNTIME_HOST_MACRO_MATRIX_H

#include "runtime/host/macro_ops.h"

typedef struct td_matrices {
    td_type_t type, work; /* as stored; as computed: f32, f64, c64 or c128 */
    int64_t rows, cols, batch;
    td_dims_t first; /* where each matrix starts */
    td_strided_t load, store;
} td_matrices_t;

/* The two innermost dimensions are the matrix. False: rank below 2, or not a type to compute with. */
bool td_matrices_init(td_matrices_t *m, const td_shape_t *shape);
static inline uint64_t td_matrix_count(const td_matrices_t *m) { return (uint64_t)m->rows * (uint64_t)m->cols; }
/* Matrix i to and from `dense` (elements of type work); raw: room for one matrix of type `type`, unused if
 * the types are the same. */
void td_matrix_load(const td_matrices_t *m, const void *base, int64_t i, void *dense, void *raw);
void td_matrix_store(const td_matrices_t *m, void *base, int64_t i, const void *dense, void *raw);

#endif
