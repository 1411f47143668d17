/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of a custom call's operands, results and attributes, which every device makes before it lowers a built-in
 * target, and the layout of the call's scratch.
 *
 * Matrices lie as jaxlib's GPU handlers want them: the last two dimensions are one matrix, the leading
 * ones count a batch of them, one dense matrix after the other. Column-major unless a function says
 * otherwise, so that LAPACK's leading dimension is the number of rows. Checks name the buffer and both
 * values. Source of the facts: jaxlib/gpu/solver_kernels_ffi.cc, jaxlib/ffi_helpers.h.
 * Thread: any. */
#ifndef TD_RUNTIME_FFI_SHAPES_H
#define TD_RUNTIME_FFI_SHAPES_H

#include "base/arena.h"
#include "base/checked.h"
#include "runtime/ffi/attrs.h"
#include "runtime/library.h"

typedef struct td_mats {
    td_type_t type;
    int64_t batch;
    int rows, cols; /* of the column-major view */
} td_mats_t;

typedef enum td_order { TD_ROW_MAJOR, TD_COL_MAJOR } td_order_t;

/* Exactly so many operands and results. */
td_status_t td_hc_arity(const td_custom_call_desc_t *d, uint32_t n_operands, uint32_t n_results, td_err_t *err);
/* f32, f64, c64 or c128. */
td_status_t td_hc_solver_type(td_type_t t, td_err_t *err);
/* Matrices of a solver type. A row-major m x n array is the column-major view n x m. */
td_status_t td_hc_mats(const char *what, const td_shape_t *s, td_order_t order,
                       td_mats_t *out, td_err_t *err);
/* The last n_dims (0, 1 or 2) dimensions are dim0, dim1 as the shape writes them, the others' product is batch,
 * and the array is dense in that order (TD_COL_MAJOR swaps the last two). */
td_status_t td_hc_expect(const char *what, const td_shape_t *s, td_type_t type,
                         td_order_t order, int64_t batch, uint32_t n_dims, int64_t dim0, int64_t dim1, td_err_t *err);
static inline td_status_t td_hc_batch(const char *what, const td_shape_t *s, td_type_t type,
                                      int64_t batch, td_err_t *err) { /* one per item: info */
    return td_hc_expect(what, s, type, TD_ROW_MAJOR, batch, 0, 0, 0, err);
}
static inline td_status_t td_hc_vec(const char *what, const td_shape_t *s, td_type_t type,
                                    int64_t batch, int64_t n, td_err_t *err) {
    return td_hc_expect(what, s, type, TD_ROW_MAJOR, batch, 1, n, 0, err);
}
/* Splits [B..., n]: the leading dimensions' product and the last one (both from a dense row-major array). */
td_status_t td_hc_split(const char *what, const td_shape_t *s, int64_t *out_batch,
                        int64_t *out_n, td_err_t *err);

/* A dense row-major array of at least count elements, whatever its dimensions. */
td_status_t td_hc_array(const char *what, const td_shape_t *s, td_type_t type, int64_t count, td_err_t *err);

/* Attributes: present and of that type, else an error that names both. */
td_status_t td_hc_bool(const td_custom_call_desc_t *d, const char *name, bool *out, td_err_t *err);
td_status_t td_hc_int(const td_custom_call_desc_t *d, const char *name, int64_t *out, td_err_t *err);

/* Scratch: count elements at the returned, 64-byte aligned offset; the total grows. */
td_status_t td_hc_scratch(uint64_t *total, uint64_t count, uint64_t bytes, uint64_t *out_at,
                          td_err_t *err);

/* A copy of a handler's state in the arena. */
td_status_t td_hc_state(td_arena_t *arena, const void *state, size_t bytes, void **out, td_err_t *err);

td_type_t td_real_of(td_type_t t); /* c64 -> f32, c128 -> f64 */
static inline void *td_at(void *base, uint64_t bytes) { return (char *)base + bytes; }
static inline int64_t td_min64(int64_t a, int64_t b) { return a < b ? a : b; }

#endif
