/* SPDX-License-Identifier: Apache-2.0 */
/* cusolver_potrf_ffi: a [B,n,n] -> out, info s32 [B]; attribute lower. The other triangle of out is a's.
 * info > 0: the order of the leading minor that is not positive definite.
 * cu_cholesky_update_ffi: R upper [n,n] row-major, x [n] -> R', x'; R'^T R' = R^T R + x x^T, f32 and f64.
 * Facts: jaxlib/gpu/solver_kernels_ffi.cc, jaxlib/gpu/linalg_kernels.cu.cc. */
#include "runtime/host/handlers/families.h"

#include <math.h>

#include "runtime/host/handlers/lapack.h"

typedef struct chol {
    td_mats_t a;
    bool lower;
    uint64_t bytes; /* of one matrix */
} chol_t;

td_status_t td_potrf_prepare(const td_custom_call_desc_t *d, td_arena_t *arena, void **state, uint64_t *scratch,
                             td_err_t *err) {
    td_linalg_t l = {0};
    td_status_t s = td_linalg_potrf(d, &l, err);
    if (s) return s;
    chol_t c = {.a = l.a, .lower = l.lower};
    c.bytes = (uint64_t)c.a.rows * (uint64_t)c.a.cols * td_type_bytes(c.a.type);
    *scratch = 0;
    return td_hc_state(arena, &c, sizeof c, state, err);
}

td_status_t td_potrf_run(const void *state, void *const *bufs, void *scratch, td_err_t *err) {
    const chol_t *c = state;
    int n = c->a.rows;
    int32_t *info = bufs[2];
    (void)scratch, (void)err;
    td_copy_bytes(bufs[1], bufs[0], c->bytes * (uint64_t)c->a.batch);
    for (int64_t b = 0; b < c->a.batch; b++) {
        void *a = td_at(bufs[1], (uint64_t)b * c->bytes);
        info[b] = n == 0 ? 0 : TD_LAPACK(c->a.type, spotrf, dpotrf, cpotrf, zpotrf, c->lower ? 'L' : 'U', n, a, n);
    }
    return TD_OK;
}

typedef struct update {
    td_type_t type;
    int64_t n;
} update_t;

td_status_t td_cholesky_update_prepare(const td_custom_call_desc_t *d, td_arena_t *arena, void **state,
                                       uint64_t *scratch,
                                       td_err_t *err) {
    td_linalg_t l = {0};
    td_status_t s = td_linalg_cholesky_update(d, &l, err);
    if (s) return s;
    *scratch = 0;
    update_t u = {l.a.type, l.a.batch ? l.a.rows : 0};
    return td_hc_state(arena, &u, sizeof u, state, err);
}

/* One Givens rotation per row makes x vanish; the diagonal keeps hypot(R[k,k], x[k]). */
#define UPDATE(T, HYPOT)                                                             \
    do {                                                                             \
        T *r = bufs[2], *x = bufs[3];                                                \
        for (int64_t k = 0; k < n; k++) {                                            \
            T *row = r + k * n, h = HYPOT(row[k], x[k]), c = 1, s = 0;               \
            if (x[k] != 0) c = row[k] / h, s = x[k] / h;                             \
            for (int64_t i = k; i < n; i++) {                                        \
                T was = row[i];                                                      \
                row[i] = c * was + s * x[i];                                         \
                x[i] = c * x[i] - s * was;                                           \
            }                                                                        \
        }                                                                            \
    } while (0)

td_status_t td_cholesky_update_run(const void *state, void *const *bufs, void *scratch, td_err_t *err) {
    const update_t *u = state;
    int64_t n = u->n;
    (void)scratch, (void)err;
    td_copy_bytes(bufs[2], bufs[0], (uint64_t)n * (uint64_t)n * td_type_bytes(u->type));
    td_copy_bytes(bufs[3], bufs[1], (uint64_t)n * td_type_bytes(u->type));
    if (u->type == TD_F32) UPDATE(float, hypotf);
    else UPDATE(double, hypot);
    return TD_OK;
}
