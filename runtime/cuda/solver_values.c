/* SPDX-License-Identifier: Apache-2.0 */
/* Eigenvalues and singular values. Small symmetric matrices and JAX's default for small singular value problems take
 * Jacobi's method, batches of at most 32 x 32 in one call; the rest the 64-bit functions, a call each, whose host
 * workspace is used up when they return. What is chosen when follows jaxlib/gpu/solver_kernels_ffi.cc. */
#include "runtime/cuda/custom.h"

enum { JACOBI_MOST = 32 };
#define CALL(c, fn, ...) td_solver_check((c)->lib->fn[(c)->t]((c)->lib->handle, __VA_ARGS__), #fn, err)
#define CALL64(c, fn, ...) td_solver_check((c)->lib->fn((c)->lib->handle, (c)->lib->params, __VA_ARGS__), #fn, err)
#define BUFFERS(c, work, info) work, (c)->device_bytes, (c)->host, (c)->host_bytes, info

static int32_t *info_of(void *const *bufs, uint32_t i, int64_t b) { return (int32_t *)bufs[i] + b; }
static int uplo_of(const td_solver_call_t *c) { return c->l.lower ? TD_FILL_LOWER : TD_FILL_UPPER; }

/* ---- symmetric and Hermitian matrices ---- */
static td_status_t run_syevj(const td_solver_call_t *c, td_stream_t *s, void *const *bufs, void *work, td_err_t *err) {
    int n = c->l.a.rows;
    (void)s;
    if (c->batched)
        return CALL(c, syevj_batched, CUSOLVER_EIG_MODE_VECTOR, uplo_of(c), n, bufs[1], n, bufs[2], work, c->lwork,
                    bufs[3], c->lib->syevj_info, (int)c->l.a.batch);
    td_status_t st = TD_OK;
    for (int64_t b = 0; b < c->l.a.batch && !st; b++)
        st = CALL(c, syevj, CUSOLVER_EIG_MODE_VECTOR, uplo_of(c), n, td_solver_at(bufs[1], b, c->a_bytes), n,
                  td_solver_at(bufs[2], b, (uint64_t)n * c->real_bytes), work, c->lwork, info_of(bufs, 3, b),
                  c->lib->syevj_info);
    return st;
}
static td_status_t run_syevd(const td_solver_call_t *c, td_stream_t *s, void *const *bufs, void *work, td_err_t *err) {
    int64_t n = c->l.a.rows;
    td_status_t st = TD_OK;
    (void)s;
    for (int64_t b = 0; b < c->l.a.batch && !st; b++)
        st = CALL64(c, cusolverDnXsyevd, CUSOLVER_EIG_MODE_VECTOR, uplo_of(c), n, c->data,
                    td_solver_at(bufs[1], b, c->a_bytes), n, c->real,
                    td_solver_at(bufs[2], b, (uint64_t)n * c->real_bytes), c->data,
                    BUFFERS(c, work, info_of(bufs, 3, b)));
    return st;
}
static td_status_t no_info(const td_solver_call_t *c, td_stream_t *s, void *const *bufs, void *work, td_err_t *err) {
    (void)work;
    return td_cuda_memset32(s, bufs[3], 0, 4 * (uint64_t)c->l.a.batch, err);
}
td_status_t td_cuda_syevd(td_solver_call_t *c, const td_custom_call_desc_t *d, td_arena_t *arena, uint64_t *scratch,
                          td_err_t *err) {
    enum { DEFAULT = 0, JACOBI = 2 };
    td_status_t st = td_linalg_syevd(d, &c->l, err);
    if (st) return st;
    td_solver_sizes(c, d);
    int n = c->l.a.rows;
    c->run = no_info;
    if (!n) return TD_OK;
    if (c->l.algorithm != JACOBI && (c->l.algorithm != DEFAULT || n > JACOBI_MOST)) {
        c->run = run_syevd;
        st = CALL64(c, cusolverDnXsyevd_bufferSize, CUSOLVER_EIG_MODE_VECTOR, uplo_of(c), n, c->data, NULL, n, c->real,
                    NULL, c->data, &c->device_bytes, &c->host_bytes);
        return st ? st : td_solver_work64(c, arena, scratch, err);
    }
    c->run = run_syevj;
    c->batched = c->l.a.batch > 1 && c->l.a.batch <= INT32_MAX && n <= JACOBI_MOST;
    if (c->batched)
        st = CALL(c, syevj_batched_size, CUSOLVER_EIG_MODE_VECTOR, uplo_of(c), n, NULL, n, NULL, &c->lwork,
                  c->lib->syevj_info, (int)c->l.a.batch);
    else
        st = CALL(c, syevj_size, CUSOLVER_EIG_MODE_VECTOR, uplo_of(c), n, NULL, n, NULL, &c->lwork, c->lib->syevj_info);
    return st ? st : td_solver_work(c, scratch, err);
}

/* ---- singular values ---- */
/* The square identity: zeros, then a one in each column. For matrices without rows or columns. */
static td_status_t identity(const td_solver_call_t *c, td_stream_t *s, void *p, int n, td_err_t *err) {
    uint32_t one = c->real_bytes == 4 ? 0x3f800000u : 0x3ff00000u; /* 1.0, or its upper half */
    td_status_t st = td_cuda_memset32(s, p, 0, (uint64_t)n * (uint64_t)n * c->elem, err);
    for (int64_t i = 0; i < n && !st; i++)
        st = td_cuda_memset32(s, td_at(td_solver_at(p, i * ((int64_t)n + 1), c->elem), c->real_bytes - 4), one, 4, err);
    return st;
}
static td_status_t run_empty(const td_solver_call_t *c, td_stream_t *s, void *const *bufs, void *work, td_err_t *err) {
    int m = c->l.a.rows, n = c->l.a.cols;
    td_status_t st = td_cuda_memset32(s, bufs[5], 0, 4 * (uint64_t)c->l.a.batch, err);
    (void)work;
    for (int64_t b = 0; b < c->l.a.batch && !st && c->l.vectors && c->l.full; b++) {
        st = identity(c, s, td_solver_at(bufs[3], b, c->u_bytes), m, err);
        if (!st) st = identity(c, s, td_solver_at(bufs[4], b, c->v_bytes), n, err);
    }
    return st;
}
/* Vectors that are not wanted are zeros. */
static td_status_t zero(const td_solver_call_t *c, td_stream_t *s, void *const *bufs, td_err_t *err) {
    if (c->l.vectors) return TD_OK;
    td_status_t st = td_cuda_memset32(s, bufs[3], 0, c->u_all, err);
    return st ? st : td_cuda_memset32(s, bufs[4], 0, c->v_all, err);
}
static void svd_sizes(td_solver_call_t *c, const td_custom_call_desc_t *d) {
    uint64_t m = (uint64_t)c->l.a.rows, n = (uint64_t)c->l.a.cols, k = (uint64_t)c->l.k;
    td_solver_sizes(c, d);
    c->u_bytes = m * (c->l.full ? m : k) * c->elem;
    c->v_bytes = n * (c->l.full ? n : k) * c->elem;
    c->u_all = d->results[2]->bytes;
    c->v_all = d->results[3]->bytes;
}

static td_status_t run_gesvd(const td_solver_call_t *c, td_stream_t *s, void *const *bufs, void *work, td_err_t *err) {
    signed char job = !c->l.vectors ? 'N' : c->l.full ? 'A' : 'S';
    int64_t m = c->l.a.rows, n = c->l.a.cols;
    td_status_t st = zero(c, s, bufs, err);
    for (int64_t b = 0; b < c->l.a.batch && !st; b++) {
        void *u = c->l.vectors ? td_solver_at(bufs[3], b, c->u_bytes) : NULL;
        void *vt = c->l.vectors ? td_solver_at(bufs[4], b, c->v_bytes) : NULL;
        st = CALL64(c, cusolverDnXgesvd, job, job, m, n, c->data, td_solver_at(bufs[1], b, c->a_bytes), m, c->real,
                    td_solver_at(bufs[2], b, (uint64_t)c->l.k * c->real_bytes), c->data, u, m, c->data, vt, n, c->data,
                    BUFFERS(c, work, info_of(bufs, 5, b)));
    }
    return st;
}
td_status_t td_cuda_gesvd(td_solver_call_t *c, const td_custom_call_desc_t *d, td_arena_t *arena, uint64_t *scratch,
                          td_err_t *err) {
    td_status_t st = td_linalg_gesvd(d, &c->l, err);
    if (st) return st;
    svd_sizes(c, d);
    int64_t m = c->l.a.rows, n = c->l.a.cols;
    signed char job = !c->l.vectors ? 'N' : c->l.full ? 'A' : 'S';
    c->run = c->l.k ? run_gesvd : run_empty;
    if (!c->l.k) return TD_OK;
    st = CALL64(c, cusolverDnXgesvd_bufferSize, job, job, m, n, c->data, NULL, m, c->real, NULL, c->data, NULL, m,
                c->data, NULL, n, c->data, &c->device_bytes, &c->host_bytes);
    return st ? st : td_solver_work64(c, arena, scratch, err);
}

static int mode_of(const td_solver_call_t *c) {
    return c->l.vectors ? CUSOLVER_EIG_MODE_VECTOR : CUSOLVER_EIG_MODE_NOVECTOR;
}
static td_status_t run_gesvdj(const td_solver_call_t *c, td_stream_t *s, void *const *bufs, void *work, td_err_t *err) {
    int m = c->l.a.rows, n = c->l.a.cols;
    td_status_t st = zero(c, s, bufs, err);
    if (!st && c->batched)
        return CALL(c, gesvdj_batched, mode_of(c), m, n, bufs[1], m, bufs[2], bufs[3], m, bufs[4], n, work, c->lwork,
                    bufs[5], c->lib->gesvdj_info, (int)c->l.a.batch);
    for (int64_t b = 0; b < c->l.a.batch && !st; b++)
        st = CALL(c, gesvdj, mode_of(c), !c->l.full, m, n, td_solver_at(bufs[1], b, c->a_bytes), m,
                  td_solver_at(bufs[2], b, (uint64_t)c->l.k * c->real_bytes), td_solver_at(bufs[3], b, c->u_bytes), m,
                  td_solver_at(bufs[4], b, c->v_bytes), n, work, c->lwork, info_of(bufs, 5, b), c->lib->gesvdj_info);
    return st;
}
td_status_t td_cuda_gesvdj(td_solver_call_t *c, const td_custom_call_desc_t *d, td_arena_t *arena, uint64_t *scratch,
                           td_err_t *err) {
    td_status_t st = td_linalg_gesvdj(d, &c->l, err);
    (void)arena;
    if (st) return st;
    svd_sizes(c, d);
    int m = c->l.a.rows, n = c->l.a.cols;
    c->run = c->l.k ? run_gesvdj : run_empty;
    if (!c->l.k) return TD_OK;
    c->batched = c->l.a.batch > 1 && c->l.a.batch <= INT32_MAX && m <= JACOBI_MOST && n <= JACOBI_MOST && c->l.full;
    if (c->batched)
        st = CALL(c, gesvdj_batched_size, mode_of(c), m, n, NULL, m, NULL, NULL, m, NULL, n, &c->lwork,
                  c->lib->gesvdj_info, (int)c->l.a.batch);
    else
        st = CALL(c, gesvdj_size, mode_of(c), !c->l.full, m, n, NULL, m, NULL, NULL, m, NULL, n, &c->lwork,
                  c->lib->gesvdj_info);
    return st ? st : td_solver_work(c, scratch, err);
}

static td_status_t run_gesvdp(const td_solver_call_t *c, td_stream_t *s, void *const *bufs, void *work, td_err_t *err) {
    int64_t m = c->l.a.rows, n = c->l.a.cols;
    td_status_t st = zero(c, s, bufs, err);
    for (int64_t b = 0; b < c->l.a.batch && !st; b++)
        st = CALL64(c, cusolverDnXgesvdp, mode_of(c), !c->l.full, m, n, c->data, td_solver_at(bufs[1], b, c->a_bytes),
                    m, c->real, td_solver_at(bufs[2], b, (uint64_t)c->l.k * c->real_bytes), c->data,
                    td_solver_at(bufs[3], b, c->u_bytes), m, c->data, td_solver_at(bufs[4], b, c->v_bytes), n, c->data,
                    BUFFERS(c, work, info_of(bufs, 5, b)), (double *)(uintptr_t)&c->sigma);
    return st;
}
td_status_t td_cuda_gesvdp(td_solver_call_t *c, const td_custom_call_desc_t *d, td_arena_t *arena, uint64_t *scratch,
                           td_err_t *err) {
    td_status_t st = td_linalg_gesvdj(d, &c->l, err);
    if (st) return st;
    svd_sizes(c, d);
    int64_t m = c->l.a.rows, n = c->l.a.cols;
    c->run = c->l.k ? run_gesvdp : run_empty;
    if (!c->l.k) return TD_OK;
    st = CALL64(c, cusolverDnXgesvdp_bufferSize, mode_of(c), !c->l.full, m, n, c->data, NULL, m, c->real, NULL, c->data,
                NULL, m, c->data, NULL, n, c->data, &c->device_bytes, &c->host_bytes);
    return st ? st : td_solver_work64(c, arena, scratch, err);
}

/* ---- eigenvalues of general matrices ---- */
static int w_type(const td_solver_call_t *c) {
    return c->w_real ? c->real : c->real + 4;
} /* CUDA_C_32F is 4, CUDA_C_64F 5 */
static td_status_t run_geev(const td_solver_call_t *c, td_stream_t *s, void *const *bufs, void *work, td_err_t *err) {
    int64_t n = c->l.a.rows;
    td_status_t st = td_cuda_memset32(s, bufs[3], 0, c->u_all, err);
    if (!st && !c->l.vectors) st = td_cuda_memset32(s, bufs[4], 0, c->v_all, err);
    if (!n) return st ? st : td_cuda_memset32(s, bufs[5], 0, 4 * (uint64_t)c->l.a.batch, err);
    for (int64_t b = 0; b < c->l.a.batch && !st; b++)
        st = CALL64(c, cusolverDnXgeev, CUSOLVER_EIG_MODE_NOVECTOR, mode_of(c), n, c->data,
                    td_solver_at(bufs[1], b, c->a_bytes), n, w_type(c),
                    td_solver_at(bufs[2], b, 2 * (uint64_t)n * c->real_bytes), c->data, NULL, n, c->data,
                    c->l.vectors ? td_solver_at(bufs[4], b, c->a_bytes) : NULL, n, c->data,
                    BUFFERS(c, work, info_of(bufs, 5, b)));
    return st;
}
td_status_t td_cuda_geev(td_solver_call_t *c, const td_custom_call_desc_t *d, td_arena_t *arena, uint64_t *scratch,
                         td_err_t *err) {
    td_status_t st = td_linalg_geev(d, &c->l, err);
    if (st) return st;
    if (!c->lib->cusolverDnXgeev || !c->lib->cusolverDnXgeev_bufferSize)
        return td_fail(err, TD_UNSUPPORTED, "this cuSOLVER has no cusolverDnXgeev; install that of CUDA 12.6 or newer");
    td_solver_sizes(c, d);
    c->u_all = d->results[2]->bytes;
    c->v_all = d->results[3]->bytes;
    c->w_real = c->l.algorithm;
    c->run = run_geev;
    int64_t n = c->l.a.rows;
    if (!n) return TD_OK;
    st = CALL64(c, cusolverDnXgeev_bufferSize, CUSOLVER_EIG_MODE_NOVECTOR, mode_of(c), n, c->data, NULL, n, w_type(c),
                NULL, c->data, NULL, n, c->data, NULL, n, c->data, &c->device_bytes, &c->host_bytes);
    return st ? st : td_solver_work64(c, arena, scratch, err);
}

/* cuSOLVER has no left vectors. */
TD_CUDA_TARGET(geev_or_host) {
    td_linalg_t l = {0};
    td_status_t st = td_linalg_geev(desc, &l, err);
    if (st) return st;
    if (l.left) return td_cuda_on_host(d, desc, arena, out, out_scratch, err);
    return td_cuda_solver_lower(d, td_cuda_geev, desc, arena, out, out_scratch, err);
}
