/* SPDX-License-Identifier: Apache-2.0 */
/* Targets that cuBLAS computes: LU and QR of batches of small matrices, rank-k updates. When a batch is one call and
 * when a call of cuSOLVER for each matrix follows jaxlib/gpu/solver_kernels_ffi.cc. */
#include "runtime/cuda/blas.h"
#include "runtime/cuda/custom.h"
#include "runtime/cuda/own.h"

enum { ROWS_PER_ITEM_MOST = 128 };

typedef struct factor {
    td_kernel_t base;
    td_cuda_device_t *device;
    td_blas_t *blas;
    td_linalg_t l;
    int t; /* number of the element type in tables of four */
    uint64_t elem, a_bytes, c_bytes; /* of one element, matrix */
    CUfunction pointers;
} factor_t;

static void *aligned(void *scratch) {
    return (void *)td_align_up((uintptr_t)scratch, TD_BLAS_WORKSPACE_ALIGNMENT);
}
static td_status_t make(td_cuda_device_t *d, const td_linalg_t *l, const char *what, td_arena_t *arena, factor_t **out,
                        td_err_t *err) {
    factor_t *f = TD_NEW(arena, factor_t);
    if (!f) return td_arena_fail(arena, err);
    *f = (factor_t){.device = d, .l = *l, .elem = td_type_bytes(l->a.type)};
    f->t = l->a.type == TD_F32 ? 0 : l->a.type == TD_F64 ? 1 : l->a.type == TD_C64 ? 2 : 3;
    f->a_bytes = (uint64_t)l->a.rows * (uint64_t)l->a.cols * f->elem;
    *out = f;
    return td_blas_get(d, what, &f->blas, err);
}

/* ---- LU and QR of batches ---- */
static td_status_t addresses(td_stream_t *s, const factor_t *f, void *to, void *first, uint64_t step, td_err_t *err) {
    uint64_t n = (uint64_t)f->l.a.batch;
    void *params[] = {&to, &first, &step, &n};
    return td_cuda_own_launch(s, f->pointers, n, params, "addresses of a batch", err);
}
static td_status_t launch_getrf(td_stream_t *s, const td_kernel_t *k, void *const *bufs, uint32_t n, void *scratch,
                                td_err_t *err) {
    static const char what[] = "cusolver_getrf_ffi";
    const factor_t *f = (const factor_t *)k;
    char *work = aligned(scratch);
    void **a = (void **)(void *)(work + TD_BLAS_WORKSPACE);
    int rows = f->l.a.rows, batch = (int)f->l.a.batch;
    (void)n;
    td_status_t st = td_cuda_copy(s, bufs[1], bufs[0], f->a_bytes * (uint64_t)batch, err);
    if (!st) st = addresses(s, f, a, bufs[1], f->a_bytes, err);
    if (st || (st = td_blas_begin(f->blas, s, work, what, err))) return st;
    cublasHandle_t h = f->blas->handle;
    cublasStatus_t r = f->t == 0   ? f->blas->cublasSgetrfBatched(h, rows, a, rows, bufs[2], bufs[3], batch)
                       : f->t == 1 ? f->blas->cublasDgetrfBatched(h, rows, a, rows, bufs[2], bufs[3], batch)
                       : f->t == 2 ? f->blas->cublasCgetrfBatched(h, rows, a, rows, bufs[2], bufs[3], batch)
                                   : f->blas->cublasZgetrfBatched(h, rows, a, rows, bufs[2], bufs[3], batch);
    td_blas_end(f->blas);
    return td_blas_call(f->blas, r, "getrfBatched", what, err);
}
static td_status_t launch_geqrf(td_stream_t *s, const td_kernel_t *k, void *const *bufs, uint32_t n, void *scratch,
                                td_err_t *err) {
    static const char what[] = "cusolver_geqrf_ffi";
    const factor_t *f = (const factor_t *)k;
    char *work = aligned(scratch);
    void **a = (void **)(void *)(work + TD_BLAS_WORKSPACE), **tau = a + f->l.a.batch;
    int m = f->l.a.rows, cols = f->l.a.cols, batch = (int)f->l.a.batch, info = 0;
    (void)n;
    td_status_t st = td_cuda_copy(s, bufs[1], bufs[0], f->a_bytes * (uint64_t)batch, err);
    if (!st) st = addresses(s, f, a, bufs[1], f->a_bytes, err);
    if (!st) st = addresses(s, f, tau, bufs[2], (uint64_t)f->l.k * f->elem, err);
    if (st || (st = td_blas_begin(f->blas, s, work, what, err))) return st;
    cublasHandle_t h = f->blas->handle;
    cublasStatus_t r = f->t == 0   ? f->blas->cublasSgeqrfBatched(h, m, cols, a, m, tau, &info, batch)
                       : f->t == 1 ? f->blas->cublasDgeqrfBatched(h, m, cols, a, m, tau, &info, batch)
                       : f->t == 2 ? f->blas->cublasCgeqrfBatched(h, m, cols, a, m, tau, &info, batch)
                                   : f->blas->cublasZgeqrfBatched(h, m, cols, a, m, tau, &info, batch);
    td_blas_end(f->blas);
    return td_blas_call(f->blas, r, "geqrfBatched", what, err);
}

static bool one_call(const td_linalg_t *l) {
    return l->k && l->a.batch > 1 && l->a.batch <= INT32_MAX && l->a.rows / l->a.batch <= ROWS_PER_ITEM_MOST &&
           l->a.cols / l->a.batch <= ROWS_PER_ITEM_MOST;
}
static td_status_t lower_batch(td_cuda_device_t *d, const td_linalg_t *l, const char *what, uint64_t arrays,
                               td_arena_t *arena, td_kernel_t **out, uint64_t *out_scratch, td_err_t *err) {
    factor_t *f = NULL;
    uint64_t at = 0, total = TD_BLAS_WORKSPACE;
    td_status_t st = make(d, l, what, arena, &f, err);
    if (st || (st = td_cuda_own_get(d, "td_pointers", &f->pointers, err)) ||
        (st = td_hc_scratch(&total, arrays * (uint64_t)l->a.batch, sizeof(void *), &at, err)))
        return st;
    f->base.launch = arrays == 1 ? launch_getrf : launch_geqrf;
    *out = &f->base;
    *out_scratch = total + TD_BLAS_WORKSPACE_ALIGNMENT;
    return TD_OK;
}
TD_CUDA_TARGET(getrf_any) {
    td_linalg_t l = {0};
    td_status_t st = td_linalg_getrf(desc, &l, err);
    if (st) return st;
    if (l.a.rows == l.a.cols && one_call(&l))
        return lower_batch(d, &l, "LU factorizations of batches", 1, arena, out, out_scratch, err);
    return td_cuda_solver_lower(d, td_cuda_getrf, desc, arena, out, out_scratch, err);
}
TD_CUDA_TARGET(geqrf_any) {
    td_linalg_t l = {0};
    td_status_t st = td_linalg_geqrf(desc, &l, err);
    if (st) return st;
    if (one_call(&l)) return lower_batch(d, &l, "QR factorizations of batches", 2, arena, out, out_scratch, err);
    return td_cuda_solver_lower(d, td_cuda_geqrf, desc, arena, out, out_scratch, err);
}

/* ---- rank-k updates ---- */
/* Row-major lower triangles are upper ones of the view. alpha and beta stay on the device. */
static cublasStatus_t syrk(const factor_t *f, const void *a, void *const *bufs, void *c) {
    static const char none[16];
    td_blas_t *b = f->blas;
    int trans = f->l.transpose ? CUBLAS_OP_N : CUBLAS_OP_T, n = f->l.c.rows, k = f->l.k;
    int lda = f->l.a.rows > 1 ? f->l.a.rows : 1;
    if (!k) a = none; /* nothing is read */
    const void *alpha = bufs[2], *beta = bufs[3];
    switch (f->t) {
    case 0: return b->cublasSsyrk_v2(b->handle, CUBLAS_FILL_MODE_UPPER, trans, n, k, alpha, a, lda, beta, c, n);
    case 1: return b->cublasDsyrk_v2(b->handle, CUBLAS_FILL_MODE_UPPER, trans, n, k, alpha, a, lda, beta, c, n);
    case 2: return b->cublasCsyrk_v2(b->handle, CUBLAS_FILL_MODE_UPPER, trans, n, k, alpha, a, lda, beta, c, n);
    default: return b->cublasZsyrk_v2(b->handle, CUBLAS_FILL_MODE_UPPER, trans, n, k, alpha, a, lda, beta, c, n);
    }
}
static td_status_t launch_syrk(td_stream_t *s, const td_kernel_t *k, void *const *bufs, uint32_t n, void *scratch,
                               td_err_t *err) {
    static const char what[] = "cusolver_syrk_ffi";
    const factor_t *f = (const factor_t *)k;
    uint64_t batch = (uint64_t)f->l.a.batch;
    (void)n;
    td_status_t st = td_cuda_copy(s, bufs[4], bufs[1], f->c_bytes * batch, err);
    if (st || !f->blas || (st = td_blas_begin(f->blas, s, aligned(scratch), what, err))) return st;
    st = TD_BLAS(f->blas, what, err, cublasSetPointerMode_v2, f->blas->handle, CUBLAS_POINTER_MODE_DEVICE);
    for (uint64_t i = 0; i < batch && !st; i++)
        st = td_blas_call(f->blas, syrk(f, td_at(bufs[0], i * f->a_bytes), bufs, td_at(bufs[4], i * f->c_bytes)),
                          "syrk", what, err);
    cublasStatus_t back = f->blas->cublasSetPointerMode_v2(f->blas->handle, CUBLAS_POINTER_MODE_HOST);
    td_blas_end(f->blas);
    return st ? st : td_blas_call(f->blas, back, "cublasSetPointerMode_v2", what, err);
}
TD_CUDA_TARGET(syrk) {
    td_linalg_t l = {0};
    factor_t *f = NULL;
    td_status_t st = td_linalg_syrk(desc, &l, err);
    if (st || (st = make(d, &l, "rank-k updates", arena, &f, err))) return st;
    f->base.launch = launch_syrk;
    f->c_bytes = (uint64_t)l.c.rows * (uint64_t)l.c.rows * f->elem;
    if (!l.c.rows) f->blas = NULL; /* nothing to compute */
    *out = &f->base;
    *out_scratch = f->blas ? TD_BLAS_WORKSPACE + TD_BLAS_WORKSPACE_ALIGNMENT : 0;
    return TD_OK;
}
