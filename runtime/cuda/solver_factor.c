/* SPDX-License-Identifier: Apache-2.0 */
/* Cholesky, LU and QR factorizations, products with Q, reduction to tridiagonal form. Batches of matrices are one call
 * where the library has one, else a call each. What is chosen when follows jaxlib/gpu/solver_kernels_ffi.cc. */
#include "runtime/cuda/own.h"
#include "runtime/cuda/solver.h"

#define CALL(c, fn, ...) td_solver_check((c)->lib->fn[(c)->t]((c)->lib->handle, __VA_ARGS__), #fn, err)

static int32_t *info_of(void *const *bufs, uint32_t i, int64_t b) { return (int32_t *)bufs[i] + b; }
static int uplo_of(const td_solver_call_t *c) { return c->l.lower ? TD_FILL_LOWER : TD_FILL_UPPER; }
/* Nothing is computed: info is 0. */
static td_status_t no_info(const td_solver_call_t *c, td_stream_t *s, void *info, td_err_t *err) {
    return td_cuda_memset32(s, info, 0, 4 * (uint64_t)c->l.a.batch, err);
}
/* The addresses of a batch's matrices, on the device, for functions that take them so. */
static td_status_t pointers(const td_solver_call_t *c, td_stream_t *s, void *out, void *base, uint64_t step,
                            td_err_t *err) {
    uint64_t n = (uint64_t)c->l.a.batch;
    void *params[] = {&out, &base, &step, &n};
    return td_cuda_own_launch(s, c->pointers, n, params, "addresses of a batch", err);
}

/* ---- Cholesky ---- */
static td_status_t run_potrf(const td_solver_call_t *c, td_stream_t *s, void *const *bufs, void *work, td_err_t *err) {
    int n = c->l.a.rows;
    td_status_t st = TD_OK;
    if (!n) return no_info(c, s, bufs[2], err);
    if (c->batched) {
        st = pointers(c, s, work, bufs[1], c->a_bytes, err);
        return st ? st : CALL(c, potrf_batched, uplo_of(c), n, work, n, bufs[2], (int)c->l.a.batch);
    }
    for (int64_t b = 0; b < c->l.a.batch && !st; b++)
        st =
            CALL(c, potrf, uplo_of(c), n, td_solver_at(bufs[1], b, c->a_bytes), n, work, c->lwork, info_of(bufs, 2, b));
    return st;
}
td_status_t td_cuda_potrf(td_solver_call_t *c, const td_custom_call_desc_t *d, td_arena_t *arena, uint64_t *scratch,
                          td_err_t *err) {
    td_status_t st = td_linalg_potrf(d, &c->l, err);
    (void)arena;
    if (st) return st;
    td_solver_sizes(c, d);
    c->run = run_potrf;
    if (!c->l.a.rows) return TD_OK;
    c->batched = c->l.a.batch > 1 && c->l.a.batch <= INT32_MAX;
    if (c->batched) {
        st = td_cuda_own_get(c->device, "td_pointers", &c->pointers, err);
        return st ? st : td_hc_scratch(scratch, (uint64_t)c->l.a.batch, 8, &c->work_at, err);
    }
    st = CALL(c, potrf_size, uplo_of(c), c->l.a.rows, NULL, c->l.a.rows, &c->lwork);
    return st ? st : td_solver_work(c, scratch, err);
}

/* ---- LU ---- */
static td_status_t run_getrf(const td_solver_call_t *c, td_stream_t *s, void *const *bufs, void *work, td_err_t *err) {
    int m = c->l.a.rows, n = c->l.a.cols;
    td_status_t st = TD_OK;
    if (!c->l.k) return no_info(c, s, bufs[3], err);
    for (int64_t b = 0; b < c->l.a.batch && !st; b++)
        st = CALL(c, getrf, m, n, td_solver_at(bufs[1], b, c->a_bytes), m, work, (int32_t *)bufs[2] + b * c->l.k,
                  info_of(bufs, 3, b));
    return st;
}
td_status_t td_cuda_getrf(td_solver_call_t *c, const td_custom_call_desc_t *d, td_arena_t *arena, uint64_t *scratch,
                          td_err_t *err) {
    td_status_t st = td_linalg_getrf(d, &c->l, err);
    (void)arena;
    if (st) return st;
    td_solver_sizes(c, d);
    c->run = run_getrf;
    if (!c->l.k) return TD_OK;
    st = CALL(c, getrf_size, c->l.a.rows, c->l.a.cols, NULL, c->l.a.rows, &c->lwork);
    return st ? st : td_solver_work(c, scratch, err);
}

/* ---- QR ---- */
static td_status_t run_geqrf(const td_solver_call_t *c, td_stream_t *s, void *const *bufs, void *work, td_err_t *err) {
    int m = c->l.a.rows, n = c->l.a.cols;
    td_status_t st = TD_OK;
    (void)s;
    for (int64_t b = 0; b < c->l.a.batch && !st; b++)
        st = CALL(c, geqrf, m, n, td_solver_at(bufs[1], b, c->a_bytes), m,
                  td_solver_at(bufs[2], b, (uint64_t)c->l.k * c->elem), work, c->lwork, td_at(work, c->more_at));
    return st;
}
td_status_t td_cuda_geqrf(td_solver_call_t *c, const td_custom_call_desc_t *d, td_arena_t *arena, uint64_t *scratch,
                          td_err_t *err) {
    td_status_t st = td_linalg_geqrf(d, &c->l, err);
    (void)arena;
    if (st) return st;
    td_solver_sizes(c, d);
    if (!c->l.k) return TD_OK;
    c->run = run_geqrf;
    st = CALL(c, geqrf_size, c->l.a.rows, c->l.a.cols, NULL, c->l.a.rows, &c->lwork);
    return st ? st : td_solver_work(c, scratch, err);
}

static td_status_t run_orgqr(const td_solver_call_t *c, td_stream_t *s, void *const *bufs, void *work, td_err_t *err) {
    int m = c->l.a.rows, n = c->l.a.cols, k = c->l.k;
    td_status_t st = TD_OK;
    (void)s;
    for (int64_t b = 0; b < c->l.a.batch && !st; b++)
        st = CALL(c, orgqr, m, n, k, td_solver_at(bufs[2], b, c->a_bytes), m,
                  td_solver_at(bufs[1], b, (uint64_t)k * c->elem), work, c->lwork, td_at(work, c->more_at));
    return st;
}
td_status_t td_cuda_orgqr(td_solver_call_t *c, const td_custom_call_desc_t *d, td_arena_t *arena, uint64_t *scratch,
                          td_err_t *err) {
    td_status_t st = td_linalg_orgqr(d, &c->l, err);
    (void)arena;
    if (st) return st;
    td_solver_sizes(c, d);
    if (!c->l.a.cols) return TD_OK;
    c->run = run_orgqr;
    st = CALL(c, orgqr_size, c->l.a.rows, c->l.a.cols, c->l.k, NULL, c->l.a.rows, NULL, &c->lwork);
    return st ? st : td_solver_work(c, scratch, err);
}

static td_status_t run_ormqr(const td_solver_call_t *c, td_stream_t *s, void *const *bufs, void *work, td_err_t *err) {
    int m = c->l.c.rows, n = c->l.c.cols, k = c->l.k;
    int side = c->l.left ? TD_SIDE_LEFT : TD_SIDE_RIGHT, op = !c->l.transpose ? TD_OP_N : c->t < 2 ? TD_OP_T : TD_OP_C;
    uint64_t c_bytes = (uint64_t)m * (uint64_t)n * c->elem;
    td_status_t st = TD_OK;
    (void)s;
    for (int64_t b = 0; b < c->l.a.batch && !st; b++)
        st = CALL(c, ormqr, side, op, m, n, k, td_solver_at(bufs[0], b, c->a_bytes), c->l.a.rows,
                  td_solver_at(bufs[1], b, (uint64_t)k * c->elem), td_solver_at(bufs[3], b, c_bytes), m, work, c->lwork,
                  td_at(work, c->more_at));
    return st;
}
/* cuSOLVER leaves the reflectors as they are. */
td_status_t td_cuda_ormqr(td_solver_call_t *c, const td_custom_call_desc_t *d, td_arena_t *arena, uint64_t *scratch,
                          td_err_t *err) {
    td_status_t st = td_linalg_ormqr(d, &c->l, err);
    (void)arena;
    if (st) return st;
    td_solver_sizes(c, d);
    int m = c->l.c.rows, n = c->l.c.cols;
    c->from = 2;
    c->copy_bytes = (uint64_t)m * (uint64_t)n * c->elem * (uint64_t)c->l.a.batch;
    c->run = run_ormqr;
    if (!c->l.k || !m || !n) { /* Q is the identity: the copy is all */
        c->l.k = 0;
        c->run = NULL;
        return TD_OK;
    }
    int side = c->l.left ? TD_SIDE_LEFT : TD_SIDE_RIGHT, op = !c->l.transpose ? TD_OP_N : c->t < 2 ? TD_OP_T : TD_OP_C;
    st = CALL(c, ormqr_size, side, op, m, n, c->l.k, NULL, c->l.a.rows, NULL, NULL, m, &c->lwork);
    return st ? st : td_solver_work(c, scratch, err);
}

/* ---- tridiagonal form ---- */
static td_status_t run_sytrd(const td_solver_call_t *c, td_stream_t *s, void *const *bufs, void *work, td_err_t *err) {
    uint64_t n = (uint64_t)c->l.a.rows, off = n ? n - 1 : 0;
    td_status_t st = TD_OK;
    if (!n) return no_info(c, s, bufs[5], err);
    for (int64_t b = 0; b < c->l.a.batch && !st; b++)
        st = CALL(c, sytrd, uplo_of(c), (int)n, td_solver_at(bufs[1], b, c->a_bytes), (int)n,
                  td_solver_at(bufs[2], b, n * c->real_bytes), td_solver_at(bufs[3], b, off * c->real_bytes),
                  td_solver_at(bufs[4], b, off * c->elem), work, c->lwork, info_of(bufs, 5, b));
    return st;
}
td_status_t td_cuda_sytrd(td_solver_call_t *c, const td_custom_call_desc_t *d, td_arena_t *arena, uint64_t *scratch,
                          td_err_t *err) {
    td_status_t st = td_linalg_sytrd(d, &c->l, err);
    (void)arena;
    if (st) return st;
    td_solver_sizes(c, d);
    c->run = run_sytrd;
    if (!c->l.a.rows) return TD_OK;
    st = CALL(c, sytrd_size, uplo_of(c), c->l.a.rows, NULL, c->l.a.rows, NULL, NULL, NULL, &c->lwork);
    return st ? st : td_solver_work(c, scratch, err);
}
