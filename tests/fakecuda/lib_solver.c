/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for cuSOLVER: objects, and factorizations. lib_solver_values.c has the rest. */
#include "tests/fakecuda/lib_solver.h"

#include <math.h>

static const char HANDLE[] = "cuSOLVER handle", PARAMS[] = "cuSOLVER parameters", SYEVJ[] = "syevj information",
                  GESVDJ[] = "gesvdj information";

static int made(void *h, void *out) {
    if (!h) return CUSOLVER_STATUS_ALLOC_FAILED;
    memcpy(out, &h, sizeof h);
    return 0;
}
static int ended(void *h, const char *what) { return fk_library_end(h, what) ? 0 : CUSOLVER_STATUS_NOT_INITIALIZED; }
int cusolverGetVersion(int *version) {
    *version = 12004;
    return 0;
}
#define OBJECT(create, destroy, type, what)                                   \
    int create(type *out) {                                                   \
        FK_ENTER(create, 0);                                                  \
        return fk_leave(made(fk_library_new(what, 16), out));                 \
    }                                                                         \
    int destroy(type h) {                                                     \
        FK_ENTER(destroy, 0);                                                 \
        return fk_leave(ended(h, what));                                      \
    }
OBJECT(cusolverDnCreate, cusolverDnDestroy, cusolverDnHandle_t, HANDLE)
OBJECT(cusolverDnCreateParams, cusolverDnDestroyParams, cusolverDnParams_t, PARAMS)
OBJECT(cusolverDnCreateSyevjInfo, cusolverDnDestroySyevjInfo, syevjInfo_t, SYEVJ)
OBJECT(cusolverDnCreateGesvdjInfo, cusolverDnDestroyGesvdjInfo, gesvdjInfo_t, GESVDJ)
int cusolverDnSetStream(cusolverDnHandle_t h, CUstream stream) {
    FK_ENTER(cusolverDnSetStream, 0);
    CUstream *s = fk_library_get(h, HANDLE);
    if (s) *s = stream;
    return fk_leave(s ? 0 : CUSOLVER_STATUS_NOT_INITIALIZED);
}

bool sv_stream(cusolverDnHandle_t h, CUstream *out) {
    CUstream *s = fk_library_get(h, HANDLE);
    if (s) *out = *s;
    return s;
}
int sv_bad(const char *who, const char *what, long long have, long long want) {
    return (int)fk_fault(FK_ARGUMENTS, CUSOLVER_STATUS_INVALID_VALUE, "%s: %s is %lld, expected %lld", who, what, have,
                         want);
}
int sv_enqueue(cusolverDnHandle_t h, const char *who, const fk_range_t *ranges, uint32_t n, fk_library_fn run,
               const sv_job_t *job) {
    CUstream s = NULL;
    if (!sv_stream(h, &s)) return CUSOLVER_STATUS_NOT_INITIALIZED;
    return fk_library_enqueue(s, who, ranges, n, run, job, sizeof *job) ? 7 : 0;
}
bool sv_finite(int t, const void *p, uint64_t n) {
    for (uint64_t i = 0; i < n * (t < 2 ? 1 : 2); i++)
        if (t & 1 ? !isfinite(((const double *)p)[i]) : !isfinite(((const float *)p)[i])) return false;
    return true;
}
void sv_nan(int t, void *p, uint64_t n) {
    for (uint64_t i = 0; i < n * (t < 2 ? 1 : 2); i++)
        if (t & 1) ((double *)p)[i] = NAN;
        else ((float *)p)[i] = NAN;
}

/* Answers a query: a status. */
static int size(cusolverDnHandle_t h, const char *who, int t, int m, int n, int lda, int *lwork) {
    CUstream s = NULL;
    (void)t;
    if (!sv_stream(h, &s)) return CUSOLVER_STATUS_NOT_INITIALIZED;
    if (m < 1 || n < 1 || lda < m) return sv_bad(who, "leading dimension", lda, m);
    *lwork = sv_lwork(m, n);
    return 0;
}
static void spoil(void *work, uint64_t bytes) {
    if (bytes) memset(work, 0xfe, bytes);
}
/* Checks what all calls have. */
static int check(const char *who, int m, int n, int lda, int lwork, int need) {
    if (m < 1 || n < 1 || lda < m) return sv_bad(who, "leading dimension", lda, m);
    return lwork < need ? sv_bad(who, "lwork", lwork, need) : 0;
}
static uint64_t matrix(int t, int lda, int n) { return (uint64_t)lda * (uint64_t)n * sv_elem(t); }

/* ---- Cholesky ---- */
FOUR(potrf_bufferSize, potrf_bufferSize, (cusolverDnHandle_t handle, int uplo, int n, void *a, int lda, int *lwork),
     ((void)uplo, (void)a, size(handle, __func__, t, n, n, lda, lwork)))
static lapack_int potrf(int t, int uplo, int n, void *a, int lda) {
    return SV_LAPACK(t, spotrf_work, dpotrf_work, cpotrf_work, zpotrf_work, uplo ? 'U' : 'L', n, a, lda);
}
static CUresult run_potrf(const void *args, void *const *m) {
    const sv_job_t *j = args;
    spoil(m[1], j->work_bytes);
    *(int *)m[2] = potrf(j->t, j->uplo, j->n, m[0], j->lda);
    return CUDA_SUCCESS;
}
static int do_potrf(cusolverDnHandle_t h, const char *who, int t, int uplo, int n, void *a, int lda, void *work,
                    int lwork, int *info) {
    int st = check(who, n, n, lda, lwork, sv_lwork(n, n));
    if (st) return st;
    sv_job_t j = {.t = t, .uplo = uplo, .n = n, .lda = lda, .work_bytes = (uint64_t)sv_lwork(n, n) * sv_elem(t)};
    fk_range_t r[] = {sv_range(a, matrix(t, lda, n), true), sv_range(work, j.work_bytes, true),
                      sv_range(info, 4, true)};
    return sv_enqueue(h, who, r, 3, run_potrf, &j);
}
FOUR(potrf, potrf, (cusolverDnHandle_t handle, int uplo, int n, void *a, int lda, void *work, int lwork, int *info),
     do_potrf(handle, __func__, t, uplo, n, a, lda, work, lwork, info))

/* Addresses are read when the stream gets there, so they are no ranges. */
static CUresult run_potrf_batched(const void *args, void *const *m) {
    const sv_job_t *j = args;
    for (int i = 0; i < j->batch; i++) {
        uint64_t at = 0;
        memcpy(&at, (const char *)m[0] + 8 * (size_t)i, 8);
        void *a = fk_library_memory(at, matrix(j->t, j->lda, j->n), "matrix of potrfBatched");
        if (!a) return CUDA_ERROR_ILLEGAL_ADDRESS;
        ((int *)m[1])[i] = potrf(j->t, j->uplo, j->n, a, j->lda);
    }
    return CUDA_SUCCESS;
}
static int do_potrf_batched(cusolverDnHandle_t h, const char *who, int t, int uplo, int n, void **a, int lda, int *info,
                            int batch) {
    int st = check(who, n, n, lda, 0, 0);
    if (st) return st;
    sv_job_t j = {.t = t, .uplo = uplo, .n = n, .lda = lda, .batch = batch};
    fk_range_t r[] = {sv_range(a, 8 * (uint64_t)batch, false), sv_range(info, 4 * (uint64_t)batch, true)};
    return sv_enqueue(h, who, r, 2, run_potrf_batched, &j);
}
FOUR(potrfBatched, potrfBatched, (cusolverDnHandle_t handle, int uplo, int n, void **a, int lda, int *info, int batch),
     do_potrf_batched(handle, __func__, t, uplo, n, a, lda, info, batch))

/* ---- LU ---- */
FOUR(getrf_bufferSize, getrf_bufferSize, (cusolverDnHandle_t handle, int m, int n, void *a, int lda, int *lwork),
     ((void)a, size(handle, __func__, t, m, n, lda, lwork)))
static CUresult run_getrf(const void *args, void *const *m) {
    const sv_job_t *j = args;
    spoil(m[1], j->work_bytes);
    *(int *)m[3] = SV_LAPACK(j->t, sgetrf_work, dgetrf_work, cgetrf_work, zgetrf_work, j->m, j->n, m[0], j->lda, m[2]);
    return CUDA_SUCCESS;
}
static int do_getrf(cusolverDnHandle_t h, const char *who, int t, int m, int n, void *a, int lda, void *work,
                    int *pivots, int *info) {
    int st = check(who, m, n, lda, 0, 0);
    if (st) return st;
    sv_job_t j = {.t = t, .m = m, .n = n, .lda = lda, .work_bytes = (uint64_t)sv_lwork(m, n) * sv_elem(t)};
    fk_range_t r[] = {sv_range(a, matrix(t, lda, n), true), sv_range(work, j.work_bytes, true),
                      sv_range(pivots, 4 * (uint64_t)(m < n ? m : n), true), sv_range(info, 4, true)};
    return sv_enqueue(h, who, r, 4, run_getrf, &j);
}
FOUR(getrf, getrf, (cusolverDnHandle_t handle, int m, int n, void *a, int lda, void *work, int *pivots, int *info),
     do_getrf(handle, __func__, t, m, n, a, lda, work, pivots, info))

/* ---- QR ---- */
FOUR(geqrf_bufferSize, geqrf_bufferSize, (cusolverDnHandle_t handle, int m, int n, void *a, int lda, int *lwork),
     ((void)a, size(handle, __func__, t, m, n, lda, lwork)))
static CUresult run_geqrf(const void *args, void *const *m) {
    const sv_job_t *j = args;
    spoil(m[1], j->work_bytes);
    *(int *)m[3] = SV_LAPACK(j->t, sgeqrf, dgeqrf, cgeqrf, zgeqrf, j->m, j->n, m[0], j->lda, m[2]);
    return CUDA_SUCCESS;
}
static int do_geqrf(cusolverDnHandle_t h, const char *who, int t, int m, int n, void *a, int lda, void *tau, void *work,
                    int lwork, int *info) {
    int st = check(who, m, n, lda, lwork, sv_lwork(m, n));
    if (st) return st;
    sv_job_t j = {.t = t, .m = m, .n = n, .lda = lda, .work_bytes = (uint64_t)sv_lwork(m, n) * sv_elem(t)};
    fk_range_t r[] = {sv_range(a, matrix(t, lda, n), true), sv_range(work, j.work_bytes, true),
                      sv_range(tau, (uint64_t)(m < n ? m : n) * sv_elem(t), true), sv_range(info, 4, true)};
    return sv_enqueue(h, who, r, 4, run_geqrf, &j);
}
FOUR(geqrf, geqrf,
     (cusolverDnHandle_t handle, int m, int n, void *a, int lda, void *tau, void *work, int lwork, int *info),
     do_geqrf(handle, __func__, t, m, n, a, lda, tau, work, lwork, info))

FOUR(orgqr_bufferSize, ungqr_bufferSize,
     (cusolverDnHandle_t handle, int m, int n, int k, const void *a, int lda, const void *tau, int *lwork),
     ((void)a, (void)tau, (void)k, size(handle, __func__, t, m, n, lda, lwork)))
static CUresult run_orgqr(const void *args, void *const *m) {
    const sv_job_t *j = args;
    spoil(m[1], j->work_bytes);
    *(int *)m[3] = SV_LAPACK(j->t, sorgqr, dorgqr, cungqr, zungqr, j->m, j->n, j->k, m[0], j->lda, m[2]);
    return CUDA_SUCCESS;
}
static int do_orgqr(cusolverDnHandle_t h, const char *who, int t, int m, int n, int k, void *a, int lda,
                    const void *tau, void *work, int lwork, int *info) {
    int st = check(who, m, n, lda, lwork, sv_lwork(m, n));
    if (st) return st;
    if (k > n || n > m) return sv_bad(who, "number of columns", n, k);
    sv_job_t j = {.t = t, .m = m, .n = n, .k = k, .lda = lda, .work_bytes = (uint64_t)sv_lwork(m, n) * sv_elem(t)};
    fk_range_t r[] = {sv_range(a, matrix(t, lda, n), true), sv_range(work, j.work_bytes, true),
                      sv_range(tau, (uint64_t)k * sv_elem(t), false), sv_range(info, 4, true)};
    return sv_enqueue(h, who, r, 4, run_orgqr, &j);
}
FOUR(orgqr, ungqr,
     (cusolverDnHandle_t handle, int m, int n, int k, void *a, int lda, const void *tau, void *work, int lwork,
      int *info),
     do_orgqr(handle, __func__, t, m, n, k, a, lda, tau, work, lwork, info))

FOUR(ormqr_bufferSize, unmqr_bufferSize,
     (cusolverDnHandle_t handle, int side, int trans, int m, int n, int k, const void *a, int lda, const void *tau,
      const void *c, int ldc, int *lwork),
     ((void)a, (void)tau, (void)c, (void)trans, (void)ldc, (void)k,
      size(handle, __func__, t, side ? n : m, side ? m : n, lda, lwork)))
static CUresult run_ormqr(const void *args, void *const *m) {
    const sv_job_t *j = args;
    char op = j->op == 0 ? 'N' : j->t < 2 ? 'T' : 'C';
    spoil(m[1], j->work_bytes);
    *(int *)m[4] = SV_LAPACK(j->t, sormqr, dormqr, cunmqr, zunmqr, j->side ? 'R' : 'L', op, j->m, j->n, j->k, m[0],
                             j->lda, m[2], m[3], j->ldu);
    return CUDA_SUCCESS;
}
static int do_ormqr(cusolverDnHandle_t h, const char *who, int t, int side, int trans, int m, int n, int k,
                    const void *a, int lda, const void *tau, void *c, int ldc, void *work, int lwork, int *info) {
    int order = side ? n : m, st = check(who, order, k, lda, lwork, sv_lwork(m, n));
    if (st) return st;
    if (ldc < m) return sv_bad(who, "ldc", ldc, m);
    if (trans && trans != (t < 2 ? 1 : 2)) return sv_bad(who, "trans", trans, t < 2 ? 1 : 2);
    sv_job_t j = {.t = t, .side = side, .op = trans, .m = m, .n = n, .k = k, .lda = lda, .ldu = ldc,
                  .work_bytes = (uint64_t)sv_lwork(m, n) * sv_elem(t)};
    fk_range_t r[] = {sv_range(a, matrix(t, lda, k), false), sv_range(work, j.work_bytes, true),
                      sv_range(tau, (uint64_t)k * sv_elem(t), false), sv_range(c, matrix(t, ldc, n), true),
                      sv_range(info, 4, true)};
    return sv_enqueue(h, who, r, 5, run_ormqr, &j);
}
FOUR(ormqr, unmqr,
     (cusolverDnHandle_t handle, int side, int trans, int m, int n, int k, const void *a, int lda, const void *tau,
      void *c, int ldc, void *work, int lwork, int *info),
     do_ormqr(handle, __func__, t, side, trans, m, n, k, a, lda, tau, c, ldc, work, lwork, info))

/* ---- tridiagonal form ---- */
FOUR(sytrd_bufferSize, hetrd_bufferSize,
     (cusolverDnHandle_t handle, int uplo, int n, const void *a, int lda, const void *d, const void *e, const void *tau,
      int *lwork),
     ((void)uplo, (void)a, (void)d, (void)e, (void)tau, size(handle, __func__, t, n, n, lda, lwork)))
static CUresult run_sytrd(const void *args, void *const *m) {
    const sv_job_t *j = args;
    char uplo = j->uplo ? 'U' : 'L';
    double none[2];
    spoil(m[1], j->work_bytes);
    *(int *)m[5] = SV_LAPACK(j->t, ssytrd, dsytrd, chetrd, zhetrd, uplo, j->n, m[0], j->lda, m[2], m[3] ? m[3] : none,
                             m[4] ? m[4] : none);
    return CUDA_SUCCESS;
}
static int do_sytrd(cusolverDnHandle_t h, const char *who, int t, int uplo, int n, void *a, int lda, void *d, void *e,
                    void *tau, void *work, int lwork, int *info) {
    int st = check(who, n, n, lda, lwork, sv_lwork(n, n));
    if (st) return st;
    sv_job_t j = {.t = t, .uplo = uplo, .n = n, .lda = lda, .work_bytes = (uint64_t)sv_lwork(n, n) * sv_elem(t)};
    uint64_t off = (uint64_t)n - 1;
    fk_range_t r[] = {sv_range(a, matrix(t, lda, n), true), sv_range(work, j.work_bytes, true),
                      sv_range(d, (uint64_t)n * sv_real(t), true), sv_range(e, off * sv_real(t), true),
                      sv_range(tau, off * sv_elem(t), true), sv_range(info, 4, true)};
    return sv_enqueue(h, who, r, 6, run_sytrd, &j);
}
FOUR(sytrd, hetrd,
     (cusolverDnHandle_t handle, int uplo, int n, void *a, int lda, void *d, void *e, void *tau, void *work, int lwork,
      int *info),
     do_sytrd(handle, __func__, t, uplo, n, a, lda, d, e, tau, work, lwork, info))
