/* SPDX-License-Identifier: Apache-2.0 */
/* Tridiagonal systems: dl, d, du [B,m], b [B,m,n] -> x [B,m,n]; b and x column-major. dl[0] and du[m-1] are
 * not used.
 * cusparse_gtsv2_ffi: LAPACK's gtsv (partial pivoting); an exactly singular matrix gives NaN. gtsv needs no
 *   workspace but destroys the diagonals: copies lie in scratch.
 * cu_tridiagonal_solve_perturbed: tiny pivots are perturbed, so that singular matrices have solutions.
 * Facts: jaxlib/gpu/sparse_kernels.cc, jaxlib/tridiagonal_solve_perturbed.h. */
#include <complex.h>
#include <float.h>
#include <math.h>

#include "runtime/host/handlers/families.h"
#include "runtime/host/handlers/lapack.h"

typedef struct tridiagonal {
    td_mats_t b;
    uint64_t d_bytes, b_bytes; /* of one item */
    uint64_t dl_at, d_at, du_at;
} tridiagonal_t;

static td_status_t shapes(const td_custom_call_desc_t *d, tridiagonal_t *t, td_err_t *err) {
    td_linalg_t l = {0};
    td_status_t s = td_linalg_tridiagonal(d, &l, err);
    if (s) return s;
    t->b = l.a;
    t->d_bytes = (uint64_t)t->b.rows * td_type_bytes(t->b.type);
    t->b_bytes = t->d_bytes * (uint64_t)t->b.cols;
    return TD_OK;
}

td_status_t td_gtsv2_prepare(const td_custom_call_desc_t *d, td_arena_t *arena, void **state, uint64_t *scratch,
                             td_err_t *err) {
    tridiagonal_t t = {0};
    td_status_t s = shapes(d, &t, err);
    if (s) return s;
    *scratch = 0;
    if ((s = td_hc_scratch(scratch, t.d_bytes, 1, &t.dl_at, err)) || (s = td_hc_scratch(scratch, t.d_bytes, 1,
                                                                                        &t.d_at, err)) ||
        (s = td_hc_scratch(scratch, t.d_bytes, 1, &t.du_at, err)))
        return s;
    return td_hc_state(arena, &t, sizeof t, state, err);
}

td_status_t td_gtsv2_run(const void *state, void *const *bufs, void *scratch, td_err_t *err) {
    const tridiagonal_t *t = state;
    int m = t->b.rows, n = t->b.cols;
    void *dl = td_at(scratch, t->dl_at), *d = td_at(scratch, t->d_at), *du = td_at(scratch, t->du_at);
    (void)err;
    td_copy_bytes(bufs[4], bufs[3], t->b_bytes * (uint64_t)t->b.batch);
    if (!m || !n) return TD_OK;
    for (int64_t i = 0; i < t->b.batch; i++) {
        void *x = td_at(bufs[4], (uint64_t)i * t->b_bytes);
        td_copy_bytes(dl, td_at(bufs[0], (uint64_t)i * t->d_bytes), t->d_bytes);
        td_copy_bytes(d, td_at(bufs[1], (uint64_t)i * t->d_bytes), t->d_bytes);
        td_copy_bytes(du, td_at(bufs[2], (uint64_t)i * t->d_bytes), t->d_bytes);
        void *below = td_at(dl, td_type_bytes(t->b.type)); /* from row 1 on */
        lapack_int info = TD_LAPACK(t->b.type, sgtsv, dgtsv, cgtsv, zgtsv, m, n, below, d, du, x, m);
        if (info) td_fill_nan(t->b.type, x, (uint64_t)m * (uint64_t)n);
    }
    return TD_OK;
}

td_status_t td_tridiagonal_perturbed_prepare(const td_custom_call_desc_t *d, td_arena_t *arena, void **state,
                                             uint64_t *scratch,
                                             td_err_t *err) {
    tridiagonal_t t = {0};
    td_status_t s = shapes(d, &t, err);
    if (s) return s;
    *scratch = 0;
    if ((s = td_hc_scratch(scratch, t.d_bytes, 3, &t.d_at, err)) ||
        (s = td_hc_scratch(scratch, (uint64_t)t.b.cols, td_type_bytes(t.b.type), &t.dl_at, err)))
        return s;
    return td_hc_state(arena, &t, sizeof t, state, err);
}

#define T float
#define R float
#define ABS fabsf
#define REAL_PART(x) (x)
#define R_MIN FLT_MIN
#define R_MAX FLT_MAX
#define R_EPS FLT_EPSILON
#define NAME(f) f##_f32
#include "runtime/host/handlers/tridiagonal_perturbed.h"
#define T double
#define R double
#define ABS fabs
#define REAL_PART(x) (x)
#define R_MIN DBL_MIN
#define R_MAX DBL_MAX
#define R_EPS DBL_EPSILON
#define NAME(f) f##_f64
#include "runtime/host/handlers/tridiagonal_perturbed.h"
#define T float complex
#define R float
#define ABS cabsf
#define REAL_PART crealf
#define R_MIN FLT_MIN
#define R_MAX FLT_MAX
#define R_EPS FLT_EPSILON
#define NAME(f) f##_c64
#include "runtime/host/handlers/tridiagonal_perturbed.h"
#define T double complex
#define R double
#define ABS cabs
#define REAL_PART creal
#define R_MIN DBL_MIN
#define R_MAX DBL_MAX
#define R_EPS DBL_EPSILON
#define NAME(f) f##_c128
#include "runtime/host/handlers/tridiagonal_perturbed.h"

td_status_t td_tridiagonal_perturbed_run(const void *state, void *const *bufs, void *scratch, td_err_t *err) {
    const tridiagonal_t *t = state;
    int64_t n = t->b.rows, k = t->b.cols;
    void *u = td_at(scratch, t->d_at), *row = td_at(scratch, t->dl_at);
    (void)err;
    if (!n || !k) return TD_OK;
    for (int64_t i = 0; i < t->b.batch; i++) {
        uint64_t vec = (uint64_t)i * t->d_bytes, mat = (uint64_t)i * t->b_bytes;
        const void *dl = td_at(bufs[0], vec), *d = td_at(bufs[1], vec), *du = td_at(bufs[2], vec), *b = td_at(bufs[3],
                                                                                                              mat);
        void *x = td_at(bufs[4], mat);
        switch (t->b.type) {
        case TD_F32: solve_f32(n, k, dl, d, du, b, x, u, row); break;
        case TD_F64: solve_f64(n, k, dl, d, du, b, x, u, row); break;
        case TD_C64: solve_c64(n, k, dl, d, du, b, x, u, row); break;
        default: solve_c128(n, k, dl, d, du, b, x, u, row); break;
        }
    }
    return TD_OK;
}
