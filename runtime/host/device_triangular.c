/* SPDX-License-Identifier: Apache-2.0 */
/* The triangular solve library operation: one trsm for each matrix of the batch. */
#include <cblas.h>
#include <limits.h>

#include "runtime/host/library.h"
#include "runtime/host/triangular.h"

td_status_t td_trsm_check(const td_triangular_desc_t *d, td_err_t *err) {
    if (d->type != TD_F32 && d->type != TD_F64 && d->type != TD_C64 && d->type != TD_C128)
        return td_fail(err, TD_UNSUPPORTED, "triangular solve of element type %s", td_type_name(d->type));
    if (d->transpose < TD_TRANSPOSE_NONE || d->transpose > TD_TRANSPOSE_ADJOINT)
        return td_fail(err, TD_UNSUPPORTED, "triangular solve with transpose_a %d", (int)d->transpose);
    if (d->m < 0 || d->n < 0 || d->batch < 0 || d->m > INT_MAX || d->n > INT_MAX)
        return td_fail(err, TD_LIMIT, "triangular solve of %lldx%lld", (long long)d->m, (long long)d->n);
    return TD_OK;
}

void td_trsm_one(const td_triangular_desc_t *d, const void *a, void *x) {
    static const float one_f[2] = {1, 0};
    static const double one_d[2] = {1, 0};
    blasint m = (blasint)d->m, n = (blasint)d->n, lda = d->left ? m : n;
    if (!m || !n) return;
    CBLAS_SIDE side = d->left ? CblasLeft : CblasRight;
    CBLAS_UPLO uplo = d->lower ? CblasLower : CblasUpper;
    CBLAS_DIAG diag = d->unit_diagonal ? CblasUnit : CblasNonUnit;
    CBLAS_TRANSPOSE op = d->transpose == TD_TRANSPOSE_NONE    ? CblasNoTrans
                         : d->transpose == TD_TRANSPOSE_PLAIN ? CblasTrans
                                                              : CblasConjTrans;
    switch (d->type) {
    case TD_F32: cblas_strsm(CblasColMajor, side, uplo, op, diag, m, n, 1, a, lda, x, m); break;
    case TD_F64: cblas_dtrsm(CblasColMajor, side, uplo, op, diag, m, n, 1, a, lda, x, m); break;
    case TD_C64: cblas_ctrsm(CblasColMajor, side, uplo, op, diag, m, n, one_f, a, lda, x, m); break;
    default: cblas_ztrsm(CblasColMajor, side, uplo, op, diag, m, n, one_d, a, lda, x, m); break;
    }
}

static td_status_t run(const td_kernel_t *k, void *const *bufs, void *scratch, td_err_t *err) {
    const td_triangular_desc_t *d = k->library;
    size_t elem = td_type_bytes(d->type), side = (size_t)(d->left ? d->m : d->n);
    size_t a_bytes = side * side * elem, x_bytes = (size_t)d->m * (size_t)d->n * elem;
    (void)scratch, (void)err;
    if (!x_bytes) return TD_OK;
    for (size_t i = 0; i < (size_t)d->batch; i++)
        td_trsm_one(d, (const char *)bufs[0] + i * a_bytes, (char *)bufs[1] + i * x_bytes);
    return TD_OK;
}

td_status_t td_host_triangular_lower(td_device_t *dev, const void *desc, td_arena_t *arena, td_kernel_t **out,
                                     uint64_t *out_scratch, td_err_t *err) {
    (void)dev;
    td_status_t s = td_trsm_check(desc, err);
    if (s) return s;
    td_kernel_t *k = TD_NEW(arena, td_kernel_t);
    td_triangular_desc_t *d = TD_NEW(arena, td_triangular_desc_t);
    if (!k || !d) return td_arena_fail(arena, err);
    *d = *(const td_triangular_desc_t *)desc;
    k->library = d;
    k->run = run;
    *out = k;
    *out_scratch = 0;
    return TD_OK;
}
