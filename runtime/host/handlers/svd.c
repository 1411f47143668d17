/* SPDX-License-Identifier: Apache-2.0 */
/* Singular values, descending, by divide and conquer (gesdd) for every target.
 * cusolver_gesvd_ffi: a [B,m,n], m >= n -> out (junk), s [B,n] real, u [B,m,m or n], vt [B,n,n], info s32 [B];
 *   attributes full_matrices, compute_uv, transposed. transposed: all arrays are row-major and hold the
 *   column-major view's transposes, so a [B,m,n] is a problem of n x m.
 * cusolver_gesvdj_ffi, cusolver_gesvdp_ffi: any m, n; u [B,m,m or k], V (not its transpose) [B,n,n or k],
 *   k = min(m,n); u and V are there even without compute_uv; attributes full_matrices, compute_uv.
 * Without compute_uv u and V are set to zero. A failure (info > 0, or -4 for an input that is not finite)
 * gives NaN. Facts: jaxlib/gpu/solver_kernels_ffi.cc. */
#include <string.h>

#include "runtime/host/handlers/families.h"
#include "runtime/host/handlers/lapack.h"

typedef struct svd {
    td_mats_t a;
    int k, u_cols, vt_rows, lwork;
    char job;
    bool wants_v; /* V instead of V^H */
    uint64_t a_bytes, s_bytes, u_bytes, v_bytes;   /* per item; u and v 0 when not computed */
    uint64_t u_all, v_all;                         /* whole buffers */
    uint64_t work_at, rwork_at, iwork_at, vt_at;
} svd_t;

static lapack_int gesdd(const svd_t *v, void *a, void *s, void *u, void *vt, void *work, int lwork, void *rwork,
                        int32_t *iwork) {
    int m = v->a.rows, n = v->a.cols, ldu = td_ld(m), ldvt = td_ld(v->vt_rows);
    if (td_type_is_complex(v->a.type))
        return TD_LAPACK2(v->a.type, cgesdd, zgesdd, v->job, m, n, a, td_ld(m), s, u, ldu, vt, ldvt, work, lwork,
                          rwork, iwork);
    return TD_LAPACK2(v->a.type, sgesdd, dgesdd, v->job, m, n, a, td_ld(m), s, u, ldu, vt, ldvt, work, lwork, iwork);
}

/* Sizes from a, the job and the order; then the workspace. */
static td_status_t plan(const td_custom_call_desc_t *d, svd_t *v, bool full, bool vectors, uint64_t *scratch,
                        td_err_t *err) {
    int m = v->a.rows, n = v->a.cols;
    uint64_t size = td_type_bytes(v->a.type), real = td_type_bytes(td_real_of(v->a.type));
    double mn = v->k, mx = m > n ? m : n;
    v->job = !vectors ? 'N' : full ? 'A' : 'S';
    v->u_cols = full ? m : v->k;
    v->vt_rows = full ? n : v->k;
    v->a_bytes = (uint64_t)m * (uint64_t)n * size;
    v->s_bytes = (uint64_t)v->k * real;
    v->u_bytes = vectors ? (uint64_t)m * (uint64_t)v->u_cols * size : 0;
    v->v_bytes = vectors ? (uint64_t)n * (uint64_t)v->vt_rows * size : 0;
    v->u_all = d->results[2]->bytes;
    v->v_all = d->results[3]->bytes;
    *scratch = 0;
    if (!v->k) return TD_OK;
    td_query_t w = {{0}}, x = {{0}};
    int32_t iw = 0;
    td_status_t s = td_lwork_fits(4 * mn * mn + 66 * (mn + mx) + 64, err); /* documented: 4mn²+7mn */
    if (s) return s;
    lapack_int info = gesdd(v, &x, &x, &x, &x, &w, -1, &x, &iw);
    uint64_t k = (uint64_t)v->k, big = (uint64_t)mx, rwork = 0;
    if (td_type_is_complex(v->a.type)) {
        uint64_t one = 5 * k * k + 7 * k, two = 2 * big * k + 2 * k * k + k; /* documented */
        rwork = one > two ? one : two;
    }
    if ((s = td_lwork(v->a.type, &w, info, &v->lwork, err)) ||
        (s = td_hc_scratch(scratch, (uint64_t)v->lwork, size, &v->work_at, err)) ||
        (s = td_hc_scratch(scratch, rwork, real, &v->rwork_at, err)) ||
        (s = td_hc_scratch(scratch, 8 * k, 4, &v->iwork_at, err)) ||
        (s = td_hc_scratch(scratch, v->wants_v ? v->v_bytes : 0, 1, &v->vt_at, err)))
        return s;
    return TD_OK;
}

td_status_t td_gesvd_prepare(const td_custom_call_desc_t *d, td_arena_t *arena, void **state, uint64_t *scratch,
                             td_err_t *err) {
    td_linalg_t l = {0};
    td_status_t s = td_linalg_gesvd(d, &l, err);
    if (s) return s;
    svd_t v = {.a = l.a, .k = l.k};
    if ((s = plan(d, &v, l.full, l.vectors, scratch, err))) return s;
    return td_hc_state(arena, &v, sizeof v, state, err);
}

td_status_t td_gesvdj_prepare(const td_custom_call_desc_t *d, td_arena_t *arena, void **state, uint64_t *scratch,
                              td_err_t *err) {
    td_linalg_t l = {0};
    td_status_t s = td_linalg_gesvdj(d, &l, err);
    if (s) return s;
    svd_t v = {.a = l.a, .k = l.k, .wants_v = true};
    if ((s = plan(d, &v, l.full, l.vectors, scratch, err))) return s;
    return td_hc_state(arena, &v, sizeof v, state, err);
}

/* The real parts lie first in a complex number. */
static void identity(td_type_t t, void *p, int n) {
    uint64_t size = td_type_bytes(t);
    if (n == 0) return;
    memset(p, 0, (size_t)((uint64_t)n * (uint64_t)n * size));
    for (uint64_t i = 0; i < (uint64_t)n; i++) {
        void *e = td_at(p, i * ((uint64_t)n + 1) * size);
        if (td_real_of(t) == TD_F32) *(float *)e = 1;
        else *(double *)e = 1;
    }
}

static int32_t one_item(const svd_t *v, void *a, void *s, void *u, void *vt, void *scratch) {
    td_type_t t = v->a.type;
    int m = v->a.rows, n = v->a.cols;
    void *vh = v->wants_v ? td_at(scratch, v->vt_at) : vt;
    int32_t info = -4;
    if (td_all_finite(t, a, (uint64_t)m * (uint64_t)n))
        info = gesdd(v, a, s, u, vh, td_at(scratch, v->work_at), v->lwork,
                     td_at(scratch, v->rwork_at), td_at(scratch, v->iwork_at));
    if (info == 0) {
        if (v->wants_v && v->v_bytes) td_adjoint(t, vh, vt, v->vt_rows, n);
        return 0;
    }
    td_fill_nan(td_real_of(t), s, (uint64_t)v->k);
    td_fill_nan(t, u, v->u_bytes / td_type_bytes(t));
    td_fill_nan(t, vt, v->v_bytes / td_type_bytes(t));
    return info;
}

static td_status_t run(const svd_t *v, void *const *bufs, void *scratch) {
    int32_t *info = bufs[5];
    td_copy_bytes(bufs[1], bufs[0], v->a_bytes * (uint64_t)v->a.batch);
    if (v->job == 'N') {
        if (v->u_all) memset(bufs[3], 0, (size_t)v->u_all);
        if (v->v_all) memset(bufs[4], 0, (size_t)v->v_all);
    }
    for (int64_t i = 0; i < v->a.batch; i++) {
        uint64_t b = (uint64_t)i;
        void *u = td_at(bufs[3], b * v->u_bytes), *vt = td_at(bufs[4], b * v->v_bytes);
        info[b] = 0;
        if (v->k) {
            info[b] = one_item(v, td_at(bufs[1], b * v->a_bytes), td_at(bufs[2], b * v->s_bytes), u, vt, scratch);
        } else if (v->job == 'A') {
            identity(v->a.type, u, v->a.rows);
            identity(v->a.type, vt, v->a.cols);
        }
    }
    return TD_OK;
}

td_status_t td_gesvd_run(const void *state, void *const *bufs, void *scratch, td_err_t *err) {
    (void)err;
    return run(state, bufs, scratch);
}
td_status_t td_gesvdj_run(const void *state, void *const *bufs, void *scratch, td_err_t *err) {
    (void)err;
    return run(state, bufs, scratch);
}
