/* SPDX-License-Identifier: Apache-2.0 */
/* Symmetric and Hermitian matrices; only the triangle that `lower` names is read.
 * cusolver_syevd_ffi: a [B,n,n] -> vectors in columns, w [B,n] ascending (real), info; attributes lower,
 *   algorithm u8 (0 default, 1 QR, 2 Jacobi: the host takes divide and conquer for all).
 * cusolver_sytrd_ffi: a -> out, d [B,n], e [B,n-1] (real), tau [B,n-1], info; attribute lower.
 * cusolver_syrk_ffi: a [B,m,k], c [B,m,m], alpha, beta -> alpha a a^T + beta c in the row-major lower
 *   triangle, c elsewhere; row-major; transpose: a is [B,k,m] and a^T a. No conjugate.
 * Inputs that are not finite give NaN and info -4. Facts: jaxlib/gpu/solver_kernels_ffi.cc. */
#include <cblas.h>

#include "runtime/host/handlers/families.h"
#include "runtime/host/handlers/lapack.h"

typedef struct eigh {
    td_mats_t a;
    char uplo;
    int lwork, lrwork, liwork;
    uint64_t bytes, real_bytes; /* one matrix; one real number */
    uint64_t work_at, rwork_at, iwork_at;
} eigh_t;

static eigh_t of(const td_linalg_t *l) {
    return (eigh_t){.a = l->a, .uplo = l->lower ? 'L' : 'U',
                    .bytes = (uint64_t)l->a.rows * (uint64_t)l->a.cols * td_type_bytes(l->a.type),
                    .real_bytes = td_type_bytes(td_real_of(l->a.type))};
}

static lapack_int syevd(const eigh_t *e, void *a, void *w, void *work, int lwork, void *rwork, int lrwork,
                        int32_t *iwork,
                        int liwork) {
    int n = e->a.rows;
    if (td_type_is_complex(e->a.type))
        return TD_LAPACK2(e->a.type, cheevd, zheevd, 'V', e->uplo, n, a, n, w, work, lwork, rwork, lrwork, iwork,
                          liwork);
    return TD_LAPACK2(e->a.type, ssyevd, dsyevd, 'V', e->uplo, n, a, n, w, work, lwork, iwork, liwork);
}

static td_status_t syevd_work(eigh_t *e, td_err_t *err) {
    double n = e->a.rows;
    td_query_t w = {{0}}, r = {{0}}, ev = {{0}};
    int32_t iw = 0;
    td_status_t s = td_lwork_fits(2 * n * n + 64 * n + 64, err); /* 1+6n+2n² is the documented least */
    if (s) return s;
    lapack_int info = syevd(e, &ev, &ev, &w, -1, &r, -1, &iw, -1);
    if ((s = td_lwork(e->a.type, &w, info, &e->lwork, err))) return s;
    e->lrwork = 1;
    if (td_type_is_complex(e->a.type) && (s = td_lwork(e->a.type, &r, 0, &e->lrwork, err))) return s;
    e->liwork = iw > 1 ? iw : 1;
    return TD_OK;
}

td_status_t td_syevd_prepare(const td_custom_call_desc_t *d, td_arena_t *arena, void **state, uint64_t *scratch,
                             td_err_t *err) {
    td_linalg_t l = {0};
    td_status_t s = td_linalg_syevd(d, &l, err);
    if (s) return s;
    eigh_t e = of(&l);
    *scratch = 0;
    if (e.a.rows && ((s = syevd_work(&e, err)) ||
                     (s = td_hc_scratch(scratch, (uint64_t)e.lwork, td_type_bytes(e.a.type), &e.work_at, err)) ||
                     (s = td_hc_scratch(scratch, (uint64_t)e.lrwork, e.real_bytes, &e.rwork_at, err)) ||
                     (s = td_hc_scratch(scratch, (uint64_t)e.liwork, 4, &e.iwork_at, err))))
        return s;
    return td_hc_state(arena, &e, sizeof e, state, err);
}

/* Is the triangle that will be read finite? */
static bool triangle_finite(const eigh_t *e, void *a) {
    uint64_t n = (uint64_t)e->a.rows, size = td_type_bytes(e->a.type);
    for (uint64_t j = 0; j < n; j++) {
        uint64_t from = e->uplo == 'L' ? j : 0, len = e->uplo == 'L' ? n - j : j + 1;
        if (!td_all_finite(e->a.type, td_at(a, (j * n + from) * size), len)) return false;
    }
    return true;
}

td_status_t td_syevd_run(const void *state, void *const *bufs, void *scratch, td_err_t *err) {
    const eigh_t *e = state;
    uint64_t n = (uint64_t)e->a.rows;
    int32_t *info = bufs[3];
    (void)err;
    td_copy_bytes(bufs[1], bufs[0], e->bytes * (uint64_t)e->a.batch);
    for (int64_t b = 0; b < e->a.batch; b++) {
        void *a = td_at(bufs[1], (uint64_t)b * e->bytes), *w = td_at(bufs[2], (uint64_t)b * n * e->real_bytes);
        info[b] = 0;
        if (!n) continue;
        info[b] = !triangle_finite(e, a)
                      ? -4
                      : syevd(e, a, w, td_at(scratch, e->work_at), e->lwork, td_at(scratch, e->rwork_at), e->lrwork,
                              td_at(scratch, e->iwork_at), e->liwork);
        if (!info[b]) continue;
        td_fill_nan(e->a.type, a, n * n);
        td_fill_nan(td_real_of(e->a.type), w, n);
    }
    return TD_OK;
}

static lapack_int sytrd(const eigh_t *e, void *a, void *d, void *f, void *tau, void *work, int lwork) {
    int n = e->a.rows;
    return TD_LAPACK(e->a.type, ssytrd, dsytrd, chetrd, zhetrd, e->uplo, n, a, td_ld(n), d, f, tau, work, lwork);
}

td_status_t td_sytrd_prepare(const td_custom_call_desc_t *d, td_arena_t *arena, void **state, uint64_t *scratch,
                             td_err_t *err) {
    td_linalg_t l = {0};
    td_query_t w = {{0}}, x = {{0}};
    td_status_t s = td_linalg_sytrd(d, &l, err);
    if (s) return s;
    eigh_t e = of(&l);
    if ((s = td_lwork_fits(66.0 * (double)e.a.rows, err)) ||
        (s = td_lwork(e.a.type, &w, sytrd(&e, &x, &x, &x, &x, &w, -1), &e.lwork, err)))
        return s;
    *scratch = 0;
    if ((s = td_hc_scratch(scratch, (uint64_t)e.lwork, td_type_bytes(e.a.type), &e.work_at, err))) return s;
    return td_hc_state(arena, &e, sizeof e, state, err);
}

td_status_t td_sytrd_run(const void *state, void *const *bufs, void *scratch, td_err_t *err) {
    const eigh_t *e = state;
    uint64_t n = (uint64_t)e->a.rows, off = n ? n - 1 : 0;
    int32_t *info = bufs[5];
    (void)err;
    td_copy_bytes(bufs[1], bufs[0], e->bytes * (uint64_t)e->a.batch);
    for (int64_t i = 0; i < e->a.batch; i++) {
        uint64_t b = (uint64_t)i;
        info[b] = sytrd(e, td_at(bufs[1], b * e->bytes), td_at(bufs[2], b * n * e->real_bytes),
                        td_at(bufs[3], b * off * e->real_bytes), td_at(bufs[4], b * off * td_type_bytes(e->a.type)),
                        td_at(scratch, e->work_at), e->lwork);
    }
    return TD_OK;
}

typedef struct syrk {
    td_mats_t a; /* as written: rows x cols, row-major */
    bool transpose;
    int n, k;
    uint64_t a_bytes, c_bytes;
} syrk_t;

td_status_t td_syrk_prepare(const td_custom_call_desc_t *d, td_arena_t *arena, void **state, uint64_t *scratch,
                            td_err_t *err) {
    td_linalg_t l = {0};
    td_status_t s = td_linalg_syrk(d, &l, err);
    if (s) return s;
    syrk_t r = {.a = l.a, .transpose = l.transpose, .n = l.c.rows, .k = l.k};
    r.a_bytes = (uint64_t)l.a.rows * (uint64_t)l.a.cols * td_type_bytes(r.a.type);
    r.c_bytes = (uint64_t)r.n * (uint64_t)r.n * td_type_bytes(r.a.type);
    *scratch = 0;
    return td_hc_state(arena, &r, sizeof r, state, err);
}

td_status_t td_syrk_run(const void *state, void *const *bufs, void *scratch, td_err_t *err) {
    const syrk_t *r = state;
    const void *alpha = bufs[2], *beta = bufs[3];
    CBLAS_TRANSPOSE t = r->transpose ? CblasTrans : CblasNoTrans;
    int n = r->n, k = r->k, lda = td_ld(r->a.rows);
    (void)scratch, (void)err;
    td_copy_bytes(bufs[4], bufs[1], r->c_bytes * (uint64_t)r->a.batch);
    if (!n) return TD_OK;
    for (int64_t b = 0; b < r->a.batch; b++) {
        const void *a = td_at(bufs[0], (uint64_t)b * r->a_bytes);
        void *c = td_at(bufs[4], (uint64_t)b * r->c_bytes);
        switch (r->a.type) {
        case TD_F32: cblas_ssyrk(CblasRowMajor, CblasLower, t, n, k, *(const float *)alpha, a, lda,
                                 *(const float *)beta, c, n); break;
        case TD_F64: cblas_dsyrk(CblasRowMajor, CblasLower, t, n, k, *(const double *)alpha, a, lda,
                                 *(const double *)beta, c, n); break;
        case TD_C64: cblas_csyrk(CblasRowMajor, CblasLower, t, n, k, alpha, a, lda, beta, c, n); break;
        default: cblas_zsyrk(CblasRowMajor, CblasLower, t, n, k, alpha, a, lda, beta, c, n); break;
        }
    }
    return TD_OK;
}
