/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in for cuSOLVER's eigenvalues and singular values: LAPACK's syevd, gesdd and geev. Inputs that are not
 * finite give NaN and info -4. */
#include "tests/fakecuda/lib_solver.h"

enum { JACOBI_MOST = 32 };
static uint64_t matrix(int t, int lda, int n) { return (uint64_t)lda * (uint64_t)n * sv_elem(t); }
static void *item(void *p, int i, uint64_t bytes) { return (char *)p + (uint64_t)i * bytes; }
static int handle_ok(cusolverDnHandle_t h) {
    CUstream s = NULL;
    return sv_stream(h, &s) ? 0 : CUSOLVER_STATUS_NOT_INITIALIZED;
}
static void spoil(void *work, uint64_t bytes) {
    if (bytes) memset(work, 0xfe, bytes);
}

/* ---- symmetric and Hermitian matrices ---- */
static bool triangle_finite(const sv_job_t *j, const void *a) {
    for (int c = 0; c < j->n; c++) {
        int from = j->uplo ? 0 : c, n = j->uplo ? c + 1 : j->n - c;
        if (!sv_finite(j->t, (const char *)a + ((uint64_t)c * (uint64_t)j->lda + (uint64_t)from) * sv_elem(j->t),
                       (uint64_t)n))
            return false;
    }
    return true;
}
static int eigh(const sv_job_t *j, void *a, void *w) {
    int info = -4;
    if (triangle_finite(j, a))
        info = SV_LAPACK(j->t, ssyevd, dsyevd, cheevd, zheevd, 'V', j->uplo ? 'U' : 'L', j->n, a, j->lda, w);
    if (info) sv_nan(j->t, a, (uint64_t)j->lda * (uint64_t)j->n), sv_nan(j->t & 1, w, (uint64_t)j->n);
    return info;
}
static CUresult run_eigh(const void *args, void *const *m) {
    const sv_job_t *j = args;
    spoil(m[2], j->work_bytes);
    for (int i = 0; i < (j->batch ? j->batch : 1); i++)
        ((int *)m[3])[i] =
            eigh(j, item(m[0], i, matrix(j->t, j->lda, j->n)), item(m[1], i, (uint64_t)j->n * sv_real(j->t)));
    return CUDA_SUCCESS;
}
static int do_eigh(cusolverDnHandle_t h, const char *who, int t, int jobz, int uplo, int n, void *a, int lda, void *w,
                   void *work, uint64_t work_bytes, uint64_t need, int *info, int batch) {
    uint64_t items = (uint64_t)(batch ? batch : 1);
    if (jobz != CUSOLVER_EIG_MODE_VECTOR) return sv_bad(who, "jobz", jobz, CUSOLVER_EIG_MODE_VECTOR);
    if (n < 1 || lda < n) return sv_bad(who, "leading dimension", lda, n);
    if (work_bytes < need) return sv_bad(who, "workspace", (long long)work_bytes, (long long)need);
    sv_job_t j = {.t = t, .uplo = uplo, .n = n, .lda = lda, .batch = batch, .work_bytes = need};
    fk_range_t r[] = {sv_range(a, items * matrix(t, lda, n), true), sv_range(w, items * (uint64_t)n * sv_real(t), true),
                      sv_range(work, need, true), sv_range(info, 4 * items, true)};
    return sv_enqueue(h, who, r, 4, run_eigh, &j);
}
static int eigh_size(cusolverDnHandle_t h, const char *who, int n, int lda, int *lwork, int batch) {
    if (n < 1 || lda < n) return sv_bad(who, "leading dimension", lda, n);
    if (batch && n > JACOBI_MOST) return sv_bad(who, "n", n, JACOBI_MOST);
    *lwork = sv_lwork(n, n) + batch;
    return handle_ok(h);
}
FOUR(syevj_bufferSize, heevj_bufferSize,
     (cusolverDnHandle_t handle, int jobz, int uplo, int n, const void *a, int lda, const void *w, int *lwork,
      syevjInfo_t params),
     ((void)t, (void)jobz, (void)uplo, (void)a, (void)w, (void)params, eigh_size(handle, __func__, n, lda, lwork, 0)))
FOUR(syevjBatched_bufferSize, heevjBatched_bufferSize,
     (cusolverDnHandle_t handle, int jobz, int uplo, int n, const void *a, int lda, const void *w, int *lwork,
      syevjInfo_t params, int batch),
     ((void)t, (void)jobz, (void)uplo, (void)a, (void)w, (void)params,
      eigh_size(handle, __func__, n, lda, lwork, batch)))
FOUR(syevj, heevj,
     (cusolverDnHandle_t handle, int jobz, int uplo, int n, void *a, int lda, void *w, void *work, int lwork, int *info,
      syevjInfo_t params),
     ((void)params, do_eigh(handle, __func__, t, jobz, uplo, n, a, lda, w, work, (uint64_t)lwork * sv_elem(t),
                            (uint64_t)sv_lwork(n, n) * sv_elem(t), info, 0)))
FOUR(syevjBatched, heevjBatched,
     (cusolverDnHandle_t handle, int jobz, int uplo, int n, void *a, int lda, void *w, void *work, int lwork, int *info,
      syevjInfo_t params, int batch),
     ((void)params, do_eigh(handle, __func__, t, jobz, uplo, n, a, lda, w, work, (uint64_t)lwork * sv_elem(t),
                            (uint64_t)(sv_lwork(n, n) + batch) * sv_elem(t), info, batch)))

/* The 64-bit functions: bytes, and a host workspace that the call itself uses up. */
static uint64_t x_bytes(int64_t m, int64_t n, int t) { return (uint64_t)sv_lwork((int)m, (int)n) * sv_elem(t); }
enum { HOST_BYTES = 200 };
static int x_host(const char *who, void *host, size_t bytes) {
    if (bytes < HOST_BYTES || !host) return sv_bad(who, "host workspace", (long long)bytes, HOST_BYTES);
    memset(host, 0xfe, HOST_BYTES);
    return 0;
}
static int x_size(cusolverDnHandle_t h, const char *who, int64_t m, int64_t n, int64_t lda, int t, size_t *device,
                  size_t *host) {
    if (m < 1 || n < 1 || lda < m) return sv_bad(who, "leading dimension", lda, m);
    *device = x_bytes(m, n, t);
    *host = HOST_BYTES;
    return handle_ok(h);
}
/* cudaDataTypes of a real or complex problem. */
static int x_types(const char *who, int t, int type, int real, int compute) {
    if (real != (t & 1)) return sv_bad(who, "type of real values", real, t & 1);
    return compute != type ? sv_bad(who, "compute type", compute, type) : 0;
}

int cusolverDnXsyevd_bufferSize(cusolverDnHandle_t handle, cusolverDnParams_t params, int jobz, int uplo, int64_t n,
                                int type, const void *a, int64_t lda, int w_type, const void *w, int compute,
                                TD_X_WORK) {
    FK_ENTER(cusolverDnXsyevd_bufferSize, 0);
    (void)params, (void)jobz, (void)uplo, (void)a, (void)w;
    int st = x_types(__func__, sv_type_of(type), type, w_type, compute);
    return fk_leave(st ? st : x_size(handle, __func__, n, n, lda, sv_type_of(type), device_bytes, host_bytes));
}
int cusolverDnXsyevd(cusolverDnHandle_t handle, cusolverDnParams_t params, int jobz, int uplo, int64_t n, int type,
                     void *a, int64_t lda, int w_type, void *w, int compute, TD_X_BUFFERS) {
    FK_ENTER(cusolverDnXsyevd, 0);
    int t = sv_type_of(type), st = x_types(__func__, t, type, w_type, compute);
    (void)params;
    if (!st) st = x_host(__func__, host, host_bytes);
    return fk_leave(st ? st : do_eigh(handle, "Xsyevd", t, jobz, uplo, (int)n, a, (int)lda, w, device, device_bytes,
                                      x_bytes(n, n, t), info, 0));
}

/* ---- singular values ---- */
static void adjoint(int t, const void *from, void *to, int rows, int cols) {
    uint64_t size = sv_elem(t);
    for (int c = 0; c < cols; c++)
        for (int r = 0; r < rows; r++) {
            char *d = (char *)to + ((uint64_t)r * (uint64_t)cols + (uint64_t)c) * size;
            memcpy(d, (const char *)from + ((uint64_t)c * (uint64_t)rows + (uint64_t)r) * size, size);
            if (t == 2) ((float *)(void *)d)[1] *= -1;
            if (t == 3) ((double *)(void *)d)[1] *= -1;
        }
}
static int svd(const sv_job_t *j, void *a, void *s, void *u, void *v) {
    int k = j->m < j->n ? j->m : j->n, full = !j->econ, vr = full ? j->n : k, info = -4;
    char job = !j->job ? 'N' : full ? 'A' : 'S';
    void *vt = malloc(matrix(j->t, vr, j->n) + 16), *own_u = u ? u : malloc(matrix(j->t, j->m, j->m) + 16);
    if (sv_finite(j->t, a, (uint64_t)j->lda * (uint64_t)j->n))
        info = SV_LAPACK(j->t, sgesdd, dgesdd, cgesdd, zgesdd, job, j->m, j->n, a, j->lda, s, own_u, j->ldu, vt, vr);
    if (info) sv_nan(j->t & 1, s, (uint64_t)k);
    if (info && j->job) {
        sv_nan(j->t, own_u, (uint64_t)j->m * (uint64_t)(full ? j->m : k));
        sv_nan(j->t, vt, (uint64_t)vr * (uint64_t)j->n);
    }
    if (j->job && j->v_adjoint) memcpy(v, vt, matrix(j->t, vr, j->n));
    else if (j->job) adjoint(j->t, vt, v, vr, j->n);
    free(vt);
    if (!u) free(own_u);
    return info;
}
static CUresult run_svd(const void *args, void *const *m) {
    const sv_job_t *j = args;
    int k = j->m < j->n ? j->m : j->n;
    uint64_t u = matrix(j->t, j->m, j->econ ? k : j->m), v = matrix(j->t, j->n, j->econ ? k : j->n);
    spoil(m[4], j->work_bytes);
    for (int i = 0; i < (j->batch ? j->batch : 1); i++)
        ((int *)m[5])[i] = svd(j, item(m[0], i, matrix(j->t, j->lda, j->n)), item(m[1], i, (uint64_t)k * sv_real(j->t)),
                               j->job ? item(m[2], i, u) : NULL, j->job ? item(m[3], i, v) : NULL);
    return CUDA_SUCCESS;
}
static int do_svd(cusolverDnHandle_t h, const char *who, sv_job_t j, void *a, void *s, void *u, void *v, void *work,
                  uint64_t work_bytes, int *info) {
    int k = j.m < j.n ? j.m : j.n;
    uint64_t items = (uint64_t)(j.batch ? j.batch : 1);
    if (j.m < 1 || j.n < 1 || j.lda < j.m) return sv_bad(who, "leading dimension", j.lda, j.m);
    if (j.ldu < j.m) return sv_bad(who, "ldu", j.ldu, j.m);
    int ldv = j.v_adjoint ? (j.econ ? k : j.n) : j.n;
    if (j.ldv < ldv) return sv_bad(who, "ldv", j.ldv, ldv);
    if (work_bytes < j.work_bytes) return sv_bad(who, "workspace", (long long)work_bytes, (long long)j.work_bytes);
    fk_range_t r[] = {sv_range(a, items * matrix(j.t, j.lda, j.n), true),
                      sv_range(s, items * (uint64_t)k * sv_real(j.t), true),
                      sv_range(u, j.job ? items * matrix(j.t, j.m, j.econ ? k : j.m) : 0, true),
                      sv_range(v, j.job ? items * matrix(j.t, j.n, j.econ ? k : j.n) : 0, true),
                      sv_range(work, j.work_bytes, true),
                      sv_range(info, 4 * items, true)};
    return sv_enqueue(h, who, r, 6, run_svd, &j);
}
static int svd_size(cusolverDnHandle_t h, const char *who, int m, int n, int lda, int *lwork, int batch) {
    if (m < 1 || n < 1 || lda < m) return sv_bad(who, "leading dimension", lda, m);
    if (batch && (n > JACOBI_MOST || m > JACOBI_MOST)) return sv_bad(who, "larger side", m > n ? m : n, JACOBI_MOST);
    *lwork = sv_lwork(m, n) + batch;
    return handle_ok(h);
}
FOUR(gesvdj_bufferSize, gesvdj_bufferSize,
     (cusolverDnHandle_t handle, int jobz, int econ, int m, int n, const void *a, int lda, const void *s, const void *u,
      int ldu, const void *v, int ldv, int *lwork, gesvdjInfo_t params),
     ((void)t, (void)jobz, (void)econ, (void)a, (void)s, (void)u, (void)ldu, (void)v, (void)ldv, (void)params,
      svd_size(handle, __func__, m, n, lda, lwork, 0)))
FOUR(gesvdjBatched_bufferSize, gesvdjBatched_bufferSize,
     (cusolverDnHandle_t handle, int jobz, int m, int n, const void *a, int lda, const void *s, const void *u, int ldu,
      const void *v, int ldv, int *lwork, gesvdjInfo_t params, int batch),
     ((void)t, (void)jobz, (void)a, (void)s, (void)u, (void)ldu, (void)v, (void)ldv, (void)params,
      svd_size(handle, __func__, m, n, lda, lwork, batch)))
FOUR(gesvdj, gesvdj,
     (cusolverDnHandle_t handle, int jobz, int econ, int m, int n, void *a, int lda, void *s, void *u, int ldu, void *v,
      int ldv, void *work, int lwork, int *info, gesvdjInfo_t params),
     ((void)params, do_svd(handle, __func__,
                           (sv_job_t){.t = t,
                                      .m = m,
                                      .n = n,
                                      .lda = lda,
                                      .job = jobz,
                                      .econ = econ,
                                      .ldu = ldu,
                                      .ldv = ldv,
                                      .work_bytes = (uint64_t)sv_lwork(m, n) * sv_elem(t)},
                           a, s, u, v, work, (uint64_t)lwork *sv_elem(t), info)))
FOUR(gesvdjBatched, gesvdjBatched,
     (cusolverDnHandle_t handle, int jobz, int m, int n, void *a, int lda, void *s, void *u, int ldu, void *v, int ldv,
      void *work, int lwork, int *info, gesvdjInfo_t params, int batch),
     ((void)params, do_svd(handle, __func__,
                           (sv_job_t){.t = t,
                                      .m = m,
                                      .n = n,
                                      .lda = lda,
                                      .job = jobz,
                                      .ldu = ldu,
                                      .ldv = ldv,
                                      .batch = batch,
                                      .work_bytes = (uint64_t)(sv_lwork(m, n) + batch) * sv_elem(t)},
                           a, s, u, v, work, (uint64_t)lwork *sv_elem(t), info)))

int cusolverDnXgesvd_bufferSize(cusolverDnHandle_t handle, cusolverDnParams_t params, signed char jobu,
                                signed char jobvt, int64_t m, int64_t n, int type, const void *a, int64_t lda,
                                int s_type, const void *s, int u_type, const void *u, int64_t ldu, int vt_type,
                                const void *vt, int64_t ldvt, int compute, TD_X_WORK) {
    FK_ENTER(cusolverDnXgesvd_bufferSize, 0);
    (void)params, (void)jobu, (void)jobvt, (void)a, (void)s, (void)u_type, (void)u, (void)ldu, (void)vt_type, (void)vt,
        (void)ldvt;
    int st = x_types(__func__, sv_type_of(type), type, s_type, compute);
    if (!st && m < n) st = sv_bad(__func__, "rows", m, n);
    return fk_leave(st ? st : x_size(handle, __func__, m, n, lda, sv_type_of(type), device_bytes, host_bytes));
}
int cusolverDnXgesvd(cusolverDnHandle_t handle, cusolverDnParams_t params, signed char jobu, signed char jobvt,
                     int64_t m, int64_t n, int type, void *a, int64_t lda, int s_type, void *s, int u_type, void *u,
                     int64_t ldu, int vt_type, void *vt, int64_t ldvt, int compute, TD_X_BUFFERS) {
    FK_ENTER(cusolverDnXgesvd, 0);
    int t = sv_type_of(type), st = x_types(__func__, t, type, s_type, compute);
    (void)params;
    if (!st && (u_type != type || vt_type != type)) st = sv_bad(__func__, "type of vectors", u_type, type);
    if (!st && jobu != jobvt) st = sv_bad(__func__, "jobvt", jobvt, jobu);
    if (!st) st = x_host(__func__, host, host_bytes);
    sv_job_t j = {.t = t,
                  .m = (int)m,
                  .n = (int)n,
                  .lda = (int)lda,
                  .job = jobu != 'N',
                  .econ = jobu != 'A',
                  .ldu = (int)ldu,
                  .ldv = (int)ldvt,
                  .v_adjoint = true,
                  .work_bytes = x_bytes(m, n, t)};
    return fk_leave(st ? st : do_svd(handle, "Xgesvd", j, a, s, u, vt, device, device_bytes, info));
}
int cusolverDnXgesvdp_bufferSize(cusolverDnHandle_t handle, cusolverDnParams_t params, int jobz, int econ, int64_t m,
                                 int64_t n, int type, const void *a, int64_t lda, int s_type, const void *s, int u_type,
                                 const void *u, int64_t ldu, int v_type, const void *v, int64_t ldv, int compute,
                                 TD_X_WORK) {
    FK_ENTER(cusolverDnXgesvdp_bufferSize, 0);
    (void)params, (void)jobz, (void)econ, (void)a, (void)s, (void)u_type, (void)u, (void)ldu, (void)v_type, (void)v,
        (void)ldv;
    int st = x_types(__func__, sv_type_of(type), type, s_type, compute);
    return fk_leave(st ? st : x_size(handle, __func__, m, n, lda, sv_type_of(type), device_bytes, host_bytes));
}
int cusolverDnXgesvdp(cusolverDnHandle_t handle, cusolverDnParams_t params, int jobz, int econ, int64_t m, int64_t n,
                      int type, void *a, int64_t lda, int s_type, void *s, int u_type, void *u, int64_t ldu, int v_type,
                      void *v, int64_t ldv, int compute, TD_X_BUFFERS, double *h_err_sigma) {
    FK_ENTER(cusolverDnXgesvdp, 0);
    int t = sv_type_of(type), st = x_types(__func__, t, type, s_type, compute);
    (void)params;
    if (!st && (u_type != type || v_type != type)) st = sv_bad(__func__, "type of vectors", u_type, type);
    if (!st) st = x_host(__func__, host, host_bytes);
    if (!st) *h_err_sigma = 0;
    sv_job_t j = {.t = t,
                  .m = (int)m,
                  .n = (int)n,
                  .lda = (int)lda,
                  .job = jobz,
                  .econ = econ,
                  .ldu = (int)ldu,
                  .ldv = (int)ldv,
                  .work_bytes = x_bytes(m, n, t)};
    return fk_leave(st ? st : do_svd(handle, "Xgesvdp", j, a, s, u, v, device, device_bytes, info));
}

/* ---- eigenvalues of general matrices ---- */
/* The first n reals of wr and wi, side by side; or all of wr, then all of wi. */
static void put_w(const sv_job_t *j, const void *wr, const void *wi, void *out) {
    uint64_t r = sv_real(j->t), n = (uint64_t)j->n;
    for (uint64_t i = 0; i < n; i++) {
        memcpy((char *)out + (j->w_real ? i : 2 * i) * r, (const char *)wr + i * r, r);
        memcpy((char *)out + (j->w_real ? n + i : 2 * i + 1) * r, (const char *)wi + i * r, r);
    }
}
static CUresult run_geev(const void *args, void *const *m) {
    const sv_job_t *j = args;
    char right = j->job ? 'V' : 'N';
    uint64_t n = (uint64_t)j->n;
    void *wr = calloc(2 * n, 8), *wi = calloc(n, 8);
    int info = -4;
    double none[2];
    spoil(m[3], j->work_bytes);
    void *vr = m[2] ? m[2] : none;
    if (sv_finite(j->t, m[0], n * n)) {
        if (j->t == 0)
            info =
                LAPACKE_sgeev(LAPACK_COL_MAJOR, 'N', right, j->n, m[0], j->lda, wr, wi, (void *)none, j->n, vr, j->n);
        else if (j->t == 1)
            info = LAPACKE_dgeev(LAPACK_COL_MAJOR, 'N', right, j->n, m[0], j->lda, wr, wi, none, j->n, vr, j->n);
        else if (j->t == 2)
            info = LAPACKE_cgeev(LAPACK_COL_MAJOR, 'N', right, j->n, m[0], j->lda, m[1], (void *)none, j->n, vr, j->n);
        else info = LAPACKE_zgeev(LAPACK_COL_MAJOR, 'N', right, j->n, m[0], j->lda, m[1], (void *)none, j->n, vr, j->n);
    }
    if (j->t < 2) put_w(j, wr, wi, m[1]);
    if (info) sv_nan(j->t & 1, m[1], 2 * n);
    if (info && j->job) sv_nan(j->t, m[2], n * n);
    *(int *)m[4] = info;
    free(wr);
    free(wi);
    return CUDA_SUCCESS;
}
int cusolverDnXgeev_bufferSize(cusolverDnHandle_t handle, cusolverDnParams_t params, int jobvl, int jobvr, int64_t n,
                               int type, const void *a, int64_t lda, int w_type, const void *w, int vl_type,
                               const void *vl, int64_t ldvl, int vr_type, const void *vr, int64_t ldvr, int compute,
                               TD_X_WORK) {
    FK_ENTER(cusolverDnXgeev_bufferSize, 0);
    (void)params, (void)jobvl, (void)jobvr, (void)a, (void)w_type, (void)w, (void)vl_type, (void)vl, (void)ldvl,
        (void)vr_type;
    (void)vr, (void)ldvr, (void)compute;
    return fk_leave(x_size(handle, __func__, n, n, lda, sv_type_of(type), device_bytes, host_bytes));
}
int cusolverDnXgeev(cusolverDnHandle_t handle, cusolverDnParams_t params, int jobvl, int jobvr, int64_t n, int type,
                    void *a, int64_t lda, int w_type, void *w, int vl_type, void *vl, int64_t ldvl, int vr_type,
                    void *vr, int64_t ldvr, int compute, TD_X_BUFFERS) {
    FK_ENTER(cusolverDnXgeev, 0);
    int t = sv_type_of(type), st = x_host(__func__, host, host_bytes), real = t & 1;
    (void)params, (void)vl, (void)ldvl;
    if (!st && jobvl) st = sv_bad(__func__, "jobvl", jobvl, 0);
    if (!st && (vl_type != type || vr_type != type || compute != type))
        st = sv_bad(__func__, "type of vectors", vr_type, type);
    if (!st && w_type != real + 4 && (t > 1 || w_type != real)) st = sv_bad(__func__, "type of w", w_type, real + 4);
    if (!st && (lda < n || ldvr < n)) st = sv_bad(__func__, "leading dimension", lda, n);
    if (!st && device_bytes < x_bytes(n, n, t))
        st = sv_bad(__func__, "workspace", (long long)device_bytes, (long long)x_bytes(n, n, t));
    if (st) return fk_leave(st);
    sv_job_t j = {
        .t = t, .n = (int)n, .lda = (int)lda, .job = jobvr, .w_real = w_type < 2, .work_bytes = x_bytes(n, n, t)};
    fk_range_t r[] = {sv_range(a, matrix(t, (int)lda, (int)n), true), sv_range(w, 2 * (uint64_t)n * sv_real(t), true),
                      sv_range(vr, jobvr ? matrix(t, (int)ldvr, (int)n) : 0, true),
                      sv_range(device, j.work_bytes, true), sv_range(info, 4, true)};
    return fk_leave(sv_enqueue(handle, "Xgeev", r, 5, run_geev, &j));
}
