/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in for cuBLAS: factorizations of batches by LAPACK, rank-k updates. */
#include <cblas.h>
#include <lapacke.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fakecuda/lib_blas.h"

typedef struct job {
    int t, m, n, k, lda, ldc, batch, uplo, trans;
    size_t workspace;
} job_t;
static uint64_t elem(int t) { return t == 0 ? 4 : t == 3 ? 16 : 8; }
static cublasStatus_t bad(const char *who, const char *what, long long have) {
    return (cublasStatus_t)fk_fault(FK_ARGUMENTS, CUBLAS_STATUS_INVALID_VALUE, "%s: %s is %lld", who, what, have);
}
/* The handle with what a call needs, or NULL after a fault. */
static const blas_handle_t *ready(cublasHandle_t handle, const char *who, int mode) {
    const blas_handle_t *h = fk_library_get(handle, BLAS_HANDLE);
    if (!h) return NULL;
    if (!h->has_stream || !h->workspace) bad(who, "stream or workspace", 0);
    else if (h->pointer_mode != mode) bad(who, "pointer mode", h->pointer_mode);
    else return h;
    return NULL;
}
static cublasStatus_t enqueue(const blas_handle_t *h, const char *who, fk_range_t *r, uint32_t n, fk_library_fn run,
                              job_t *j) {
    j->workspace = h->workspace_bytes;
    r[n] = (fk_range_t){(uintptr_t)h->workspace, h->workspace_bytes, true};
    return fk_library_enqueue(h->stream, who, r, n + 1, run, j, sizeof *j) ? CUBLAS_STATUS_EXECUTION_FAILED
                                                                           : CUBLAS_STATUS_SUCCESS;
}
/* Matrix i of an array of addresses. */
static void *item(const void *addresses, int i, uint64_t bytes, const char *who) {
    uint64_t at = 0;
    memcpy(&at, (const char *)addresses + 8 * (size_t)i, 8);
    return fk_library_memory(at, bytes, who);
}

static CUresult run_getrf(const void *args, void *const *m) {
    const job_t *j = args;
    memset(m[3], 0xfe, j->workspace);
    for (int i = 0; i < j->batch; i++) {
        int *pivots = (int *)m[1] + i * j->n, *info = (int *)m[2] + i;
        void *a = item(m[0], i, (uint64_t)j->lda * (uint64_t)j->n * elem(j->t), "A of getrfBatched");
        if (!a) return CUDA_ERROR_ILLEGAL_ADDRESS;
        *info = j->t == 0   ? LAPACKE_sgetrf_work(LAPACK_COL_MAJOR, j->n, j->n, a, j->lda, pivots)
                : j->t == 1 ? LAPACKE_dgetrf_work(LAPACK_COL_MAJOR, j->n, j->n, a, j->lda, pivots)
                : j->t == 2 ? LAPACKE_cgetrf_work(LAPACK_COL_MAJOR, j->n, j->n, a, j->lda, pivots)
                            : LAPACKE_zgetrf_work(LAPACK_COL_MAJOR, j->n, j->n, a, j->lda, pivots);
    }
    return CUDA_SUCCESS;
}
static cublasStatus_t getrf(int t, cublasHandle_t handle, int n, void *const *a, int lda, int *pivots, int *info,
                            int batch) {
    const blas_handle_t *h = ready(handle, "getrfBatched", CUBLAS_POINTER_MODE_HOST);
    if (!h) return CUBLAS_STATUS_INVALID_VALUE;
    if (n < 1 || lda < n || batch < 1) return bad("getrfBatched", "leading dimension", lda);
    job_t j = {.t = t, .n = n, .lda = lda, .batch = batch};
    fk_range_t r[4] = {{(uintptr_t)a, 8 * (uint64_t)batch, false},
                       {(uintptr_t)pivots, 4 * (uint64_t)batch * (uint64_t)n, true},
                       {(uintptr_t)info, 4 * (uint64_t)batch, true}};
    return enqueue(h, "getrfBatched", r, 3, run_getrf, &j);
}

static CUresult run_geqrf(const void *args, void *const *m) {
    const job_t *j = args;
    int k = j->m < j->n ? j->m : j->n;
    memset(m[2], 0xfe, j->workspace);
    for (int i = 0; i < j->batch; i++) {
        void *a = item(m[0], i, (uint64_t)j->lda * (uint64_t)j->n * elem(j->t), "A of geqrfBatched");
        void *tau = item(m[1], i, (uint64_t)k * elem(j->t), "tau of geqrfBatched");
        if (!a || !tau) return CUDA_ERROR_ILLEGAL_ADDRESS;
        if (j->t == 0) LAPACKE_sgeqrf(LAPACK_COL_MAJOR, j->m, j->n, a, j->lda, tau);
        else if (j->t == 1) LAPACKE_dgeqrf(LAPACK_COL_MAJOR, j->m, j->n, a, j->lda, tau);
        else if (j->t == 2) LAPACKE_cgeqrf(LAPACK_COL_MAJOR, j->m, j->n, a, j->lda, tau);
        else LAPACKE_zgeqrf(LAPACK_COL_MAJOR, j->m, j->n, a, j->lda, tau);
    }
    return CUDA_SUCCESS;
}
static cublasStatus_t geqrf(int t, cublasHandle_t handle, int m, int n, void *const *a, int lda, void *const *tau,
                            int *info, int batch) {
    const blas_handle_t *h = ready(handle, "geqrfBatched", CUBLAS_POINTER_MODE_HOST);
    if (!h) return CUBLAS_STATUS_INVALID_VALUE;
    if (m < 1 || n < 1 || lda < m || batch < 1) return bad("geqrfBatched", "leading dimension", lda);
    *info = 0;
    job_t j = {.t = t, .m = m, .n = n, .lda = lda, .batch = batch};
    fk_range_t r[3] = {{(uintptr_t)a, 8 * (uint64_t)batch, false}, {(uintptr_t)tau, 8 * (uint64_t)batch, false}};
    return enqueue(h, "geqrfBatched", r, 2, run_geqrf, &j);
}

/* ---- rank-k updates: alpha, a, beta, c ---- */
cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, int mode) {
    FK_ENTER(cublasSetPointerMode_v2, 0);
    blas_handle_t *h = fk_library_get(handle, BLAS_HANDLE);
    if (h) h->pointer_mode = mode;
    return fk_leave(h ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE);
}
static CUresult run_syrk(const void *args, void *const *m) {
    const job_t *j = args;
    CBLAS_UPLO uplo = j->uplo ? CblasUpper : CblasLower;
    CBLAS_TRANSPOSE trans = j->trans ? CblasTrans : CblasNoTrans;
    static const char none[16];
    const void *a = m[1] ? m[1] : none;
    memset(m[4], 0xfe, j->workspace);
    if (j->t == 0)
        cblas_ssyrk(CblasColMajor, uplo, trans, j->n, j->k, *(float *)m[0], a, j->lda, *(float *)m[2], m[3], j->ldc);
    else if (j->t == 1)
        cblas_dsyrk(CblasColMajor, uplo, trans, j->n, j->k, *(double *)m[0], a, j->lda, *(double *)m[2], m[3], j->ldc);
    else if (j->t == 2) cblas_csyrk(CblasColMajor, uplo, trans, j->n, j->k, m[0], a, j->lda, m[2], m[3], j->ldc);
    else cblas_zsyrk(CblasColMajor, uplo, trans, j->n, j->k, m[0], a, j->lda, m[2], m[3], j->ldc);
    return CUDA_SUCCESS;
}
static cublasStatus_t syrk(int t, cublasHandle_t handle, int uplo, int trans, int n, int k, const void *alpha,
                           const void *a, int lda, const void *beta, void *c, int ldc) {
    const blas_handle_t *h = ready(handle, "syrk", CUBLAS_POINTER_MODE_DEVICE);
    if (!h) return CUBLAS_STATUS_INVALID_VALUE;
    int rows = trans ? k : n, cols = trans ? n : k;
    if (n < 1 || k < 0 || trans < 0 || trans > 1 || lda < rows || lda < 1 || ldc < n)
        return bad("syrk", "leading dimension", lda);
    job_t j = {.t = t, .n = n, .k = k, .lda = lda, .ldc = ldc, .uplo = uplo, .trans = trans};
    uint64_t a_bytes = k ? (uint64_t)lda * (uint64_t)cols * elem(t) : 0;
    fk_range_t r[5] = {{(uintptr_t)alpha, elem(t), false},
                       {(uintptr_t)a, a_bytes, false},
                       {(uintptr_t)beta, elem(t), false},
                       {(uintptr_t)c, (uint64_t)ldc * (uint64_t)n * elem(t), true}};
    return enqueue(h, "syrk", r, 4, run_syrk, &j);
}

#define TYPE(letter, t)                                                                                                \
    cublasStatus_t cublas##letter##syrk_v2 TD_BLAS_SYRK {                                                              \
        FK_ENTER(cublas##letter##syrk_v2, 0);                                                                          \
        return fk_leave(syrk(t, handle, uplo, trans, n, k, alpha, a, lda, beta, c, ldc));                              \
    }                                                                                                                  \
    cublasStatus_t cublas##letter##getrfBatched TD_BLAS_GETRF_BATCHED {                                                \
        FK_ENTER(cublas##letter##getrfBatched, 0);                                                                     \
        return fk_leave(getrf(t, handle, n, a, lda, pivots, info, batch));                                             \
    }                                                                                                                  \
    cublasStatus_t cublas##letter##geqrfBatched TD_BLAS_GEQRF_BATCHED {                                                \
        FK_ENTER(cublas##letter##geqrfBatched, 0);                                                                     \
        return fk_leave(geqrf(t, handle, m, n, a, lda, tau, info, batch));                                             \
    }
TYPE(S, 0)
TYPE(D, 1)
TYPE(C, 2)
TYPE(Z, 3)
