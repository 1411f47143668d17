/* SPDX-License-Identifier: Apache-2.0 */
/* QR by Householder reflections, H = I - tau v v^H, in LAPACK's storage (the same as cuSOLVER's).
 * cusolver_geqrf_ffi: a [B,m,n] -> out (R and reflectors), tau [B,min(m,n)].
 * cusolver_orgqr_ffi: a [B,m,n], tau [B,k], m >= n >= k -> Q [B,m,n].
 * cusolver_ormqr_ffi: a [B,q,>=k], tau [B,k], c [B,m,n] -> op(Q) c (left, q = m) or c op(Q) (q = n);
 *   attributes left, transpose (the conjugate transpose for complex types).
 * cuhybrid_geqp3: x [B,m,n], jpvt s32 [B,n] -> x, jpvt (from 1), tau; 0 marks a free column. The attribute
 *   magma only chooses a library. Facts: jaxlib/gpu/{solver_kernels_ffi,hybrid_kernels}.cc. */
#include "runtime/host/handlers/families.h"
#include "runtime/host/handlers/lapack.h"

typedef struct qr {
    td_mats_t a;
    int k, lwork;
    uint64_t bytes, tau_bytes;  /* per item */
    uint64_t work_at, extra_at; /* extra: a copy of a (ormqr), rwork (geqp3) */
    int c_rows, c_cols;         /* ormqr */
    uint64_t c_bytes;
    char side, trans;
} qr_t;

static void sizes(qr_t *q) {
    q->bytes = (uint64_t)q->a.rows * (uint64_t)q->a.cols * td_type_bytes(q->a.type);
    q->tau_bytes = (uint64_t)q->k * td_type_bytes(q->a.type);
}
static td_status_t finish(qr_t *q, td_arena_t *arena, void **state, uint64_t *scratch, td_err_t *err) {
    td_status_t s = td_hc_scratch(scratch, (uint64_t)q->lwork, td_type_bytes(q->a.type), &q->work_at, err);
    return s ? s : td_hc_state(arena, q, sizeof *q, state, err);
}
/* 2^31 work elements are the limit of a 32-bit LAPACK; its block size is at most 64 here. */
static td_status_t check_work(const td_mats_t *a, td_err_t *err) {
    return td_lwork_fits(66.0 * ((double)a->rows > a->cols ? a->rows : a->cols) + 66 * 64, err);
}

td_status_t td_geqrf_prepare(const td_custom_call_desc_t *d, td_arena_t *arena, void **state, uint64_t *scratch,
                             td_err_t *err) {
    td_linalg_t l = {0};
    td_status_t s = td_linalg_geqrf(d, &l, err);
    if (s || (s = check_work(&l.a, err))) return s;
    qr_t q = {.a = l.a, .k = l.k};
    sizes(&q);
    *scratch = 0;
    if (q.k) {
        td_query_t w = {{0}};
        lapack_int info = TD_LAPACK(q.a.type, sgeqrf, dgeqrf, cgeqrf, zgeqrf, q.a.rows, q.a.cols, (void *)&w, q.a.rows,
                                    (void *)&w, (void *)&w, -1);
        if ((s = td_lwork(q.a.type, &w, info, &q.lwork, err))) return s;
    }
    return finish(&q, arena, state, scratch, err);
}

td_status_t td_geqrf_run(const void *state, void *const *bufs, void *scratch, td_err_t *err) {
    const qr_t *q = state;
    td_copy_bytes(bufs[1], bufs[0], q->bytes * (uint64_t)q->a.batch);
    if (!q->k) return TD_OK;
    for (int64_t b = 0; b < q->a.batch; b++) {
        lapack_int info = TD_LAPACK(q->a.type, sgeqrf, dgeqrf, cgeqrf, zgeqrf, q->a.rows, q->a.cols,
                                    td_at(bufs[1], (uint64_t)b * q->bytes), q->a.rows,
                                    td_at(bufs[2], (uint64_t)b * q->tau_bytes),
                                    td_at(scratch, q->work_at), q->lwork);
        if (info) return td_fail(err, TD_INTERNAL, "geqrf: argument %d", -(int)info);
    }
    return TD_OK;
}

td_status_t td_orgqr_prepare(const td_custom_call_desc_t *d, td_arena_t *arena, void **state, uint64_t *scratch,
                             td_err_t *err) {
    td_linalg_t l = {0};
    td_status_t s = td_linalg_orgqr(d, &l, err);
    if (s || (s = check_work(&l.a, err))) return s;
    qr_t q = {.a = l.a, .k = l.k};
    sizes(&q);
    *scratch = 0;
    if (q.a.cols) {
        td_query_t w = {{0}};
        lapack_int info = TD_LAPACK(q.a.type, sorgqr, dorgqr, cungqr, zungqr, q.a.rows, q.a.cols, q.k, (void *)&w,
                                    q.a.rows,
                                    (void *)&w, (void *)&w, -1);
        if ((s = td_lwork(q.a.type, &w, info, &q.lwork, err))) return s;
    }
    return finish(&q, arena, state, scratch, err);
}

td_status_t td_orgqr_run(const void *state, void *const *bufs, void *scratch, td_err_t *err) {
    const qr_t *q = state;
    td_copy_bytes(bufs[2], bufs[0], q->bytes * (uint64_t)q->a.batch);
    if (!q->a.cols) return TD_OK;
    for (int64_t b = 0; b < q->a.batch; b++) {
        lapack_int info = TD_LAPACK(q->a.type, sorgqr, dorgqr, cungqr, zungqr, q->a.rows, q->a.cols, q->k,
                                    td_at(bufs[2], (uint64_t)b * q->bytes), q->a.rows,
                                    td_at(bufs[1], (uint64_t)b * q->tau_bytes),
                                    td_at(scratch, q->work_at), q->lwork);
        if (info) return td_fail(err, TD_INTERNAL, "orgqr: argument %d", -(int)info);
    }
    return TD_OK;
}

static td_status_t ormqr_shapes(const td_custom_call_desc_t *d, qr_t *q, td_err_t *err) {
    td_linalg_t l = {0};
    td_status_t s = td_linalg_ormqr(d, &l, err);
    if (s || (s = check_work(&l.a, err)) || (s = check_work(&l.c, err))) return s;
    q->a = l.a;
    q->k = l.k;
    q->c_rows = l.c.rows;
    q->c_cols = l.c.cols;
    q->c_bytes = (uint64_t)l.c.rows * (uint64_t)l.c.cols * td_type_bytes(l.c.type);
    q->side = l.left ? 'L' : 'R';
    q->trans = !l.transpose ? 'N' : td_type_is_complex(q->a.type) ? 'C' : 'T';
    return TD_OK;
}

td_status_t td_ormqr_prepare(const td_custom_call_desc_t *d, td_arena_t *arena, void **state, uint64_t *scratch,
                             td_err_t *err) {
    qr_t q = {0};
    td_status_t s = ormqr_shapes(d, &q, err);
    if (s) return s;
    sizes(&q);
    *scratch = 0;
    if (q.k && q.c_bytes) {
        td_query_t w = {{0}};
        lapack_int info = TD_LAPACK(q.a.type, sormqr, dormqr, cunmqr, zunmqr, q.side, q.trans, q.c_rows, q.c_cols, q.k,
                                    (void *)&w, q.a.rows, (void *)&w, (void *)&w, q.c_rows, (void *)&w, -1);
        if ((s = td_lwork(q.a.type, &w, info, &q.lwork, err)) || (s = td_hc_scratch(scratch, q.bytes, 1, &q.extra_at,
                                                                                    err)))
            return s;
    }
    return finish(&q, arena, state, scratch, err);
}

/* The routine writes to a while it works and restores it: a copy keeps the operand read-only. */
td_status_t td_ormqr_run(const void *state, void *const *bufs, void *scratch, td_err_t *err) {
    const qr_t *q = state;
    td_copy_bytes(bufs[3], bufs[2], q->c_bytes * (uint64_t)q->a.batch);
    if (!q->k || !q->c_bytes) return TD_OK;
    void *a = td_at(scratch, q->extra_at);
    for (int64_t b = 0; b < q->a.batch; b++) {
        td_copy_bytes(a, td_at(bufs[0], (uint64_t)b * q->bytes), q->bytes);
        lapack_int info = TD_LAPACK(q->a.type, sormqr, dormqr, cunmqr, zunmqr, q->side, q->trans, q->c_rows,
                                    q->c_cols, q->k, a,
                                    q->a.rows, td_at(bufs[1], (uint64_t)b * q->tau_bytes),
                                    td_at(bufs[3], (uint64_t)b * q->c_bytes),
                                    q->c_rows, td_at(scratch, q->work_at), q->lwork);
        if (info) return td_fail(err, TD_INTERNAL, "ormqr: argument %d", -(int)info);
    }
    return TD_OK;
}

static lapack_int geqp3(const qr_t *q, void *a, int32_t *jpvt, void *tau, void *work, int lwork, void *rwork) {
    int m = q->a.rows, n = q->a.cols;
    if (td_type_is_complex(q->a.type)) return TD_LAPACK2(q->a.type, cgeqp3, zgeqp3, m, n, a, td_ld(m), jpvt, tau,
                                                         work, lwork, rwork);
    return TD_LAPACK2(q->a.type, sgeqp3, dgeqp3, m, n, a, td_ld(m), jpvt, tau, work, lwork);
}

td_status_t td_geqp3_prepare(const td_custom_call_desc_t *d, td_arena_t *arena, void **state, uint64_t *scratch,
                             td_err_t *err) {
    qr_t q = {0};
    td_status_t s = td_hc_arity(d, 2, 3, err);
    if (s || (s = td_hc_mats("x", d->operands[0], TD_COL_MAJOR, &q.a, err))) return s;
    q.k = (int)td_min64(q.a.rows, q.a.cols);
    if ((s = td_hc_vec("jpvt", d->operands[1], TD_S32, q.a.batch, q.a.cols, err)) ||
        (s = td_hc_expect("x_out", d->results[0], q.a.type, TD_COL_MAJOR, q.a.batch, 2, q.a.rows, q.a.cols, err)) ||
        (s = td_hc_vec("jpvt_out", d->results[1], TD_S32, q.a.batch, q.a.cols, err)) ||
        (s = td_hc_vec("tau", d->results[2], q.a.type, q.a.batch, q.k, err)) || (s = check_work(&q.a, err)))
        return s;
    sizes(&q);
    td_query_t w = {{0}};
    int32_t j = 0;
    *scratch = 0;
    if ((s = td_lwork(q.a.type, &w, geqp3(&q, &w, &j, &w, &w, -1, &w), &q.lwork, err)) ||
        (s = td_hc_scratch(scratch, 2 * (uint64_t)q.a.cols, td_type_bytes(td_real_of(q.a.type)), &q.extra_at, err)))
        return s;
    return finish(&q, arena, state, scratch, err);
}

td_status_t td_geqp3_run(const void *state, void *const *bufs, void *scratch, td_err_t *err) {
    const qr_t *q = state;
    uint64_t n = (uint64_t)q->a.cols;
    td_copy_bytes(bufs[2], bufs[0], q->bytes * (uint64_t)q->a.batch);
    td_copy_bytes(bufs[3], bufs[1], 4 * n * (uint64_t)q->a.batch);
    if (!q->k) { /* columns without rows: nothing to choose */
        for (uint64_t i = 0; i < n * (uint64_t)q->a.batch; i++) ((int32_t *)bufs[3])[i] = (int32_t)(i % n) + 1;
        return TD_OK;
    }
    for (int64_t b = 0; b < q->a.batch; b++) {
        lapack_int info = geqp3(q, td_at(bufs[2], (uint64_t)b * q->bytes), td_at(bufs[3], 4 * n * (uint64_t)b),
                                td_at(bufs[4], (uint64_t)b * q->tau_bytes), td_at(scratch, q->work_at), q->lwork,
                                td_at(scratch, q->extra_at));
        if (info) return td_fail(err, TD_INTERNAL, "geqp3: argument %d", -(int)info);
    }
    return TD_OK;
}
