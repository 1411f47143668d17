/* SPDX-License-Identifier: Apache-2.0 */
/* Triangular systems through cuBLAS: one matrix by trsm, several by trsmBatched, which reads the matrices' addresses
 * from device memory; a kernel writes them there. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "runtime/cuda/blas.h"
#include "runtime/cuda/own.h"

typedef cublasStatus_t(*trsm_fn) TD_BLAS_TRSM;
typedef cublasStatus_t(*batched_fn) TD_BLAS_TRSM_BATCHED;

typedef struct triangular {
    td_kernel_t base;
    td_blas_t *blas;
    CUfunction pointers; /* NULL: one matrix, or none */
    trsm_fn one;
    batched_fn many;
    const char *call;
    char text[64];
    int side, uplo, trans, diag, m, n, ld, batch;
    uint64_t a_bytes, b_bytes; /* of one matrix */
    _Alignas(16) char unit[16]; /* 1 of the type */
} triangular_t;

/* ---- launch ---- */
static td_status_t write_pointers(td_stream_t *s, const triangular_t *t, void *to, void *first, uint64_t step,
                                  td_err_t *err) {
    uint64_t n = (uint64_t)t->batch;
    void *params[] = {&to, &first, &step, &n};
    return td_cuda_own_launch(s, t->pointers, n, params, t->text, err);
}

static td_status_t solve(td_stream_t *s, const triangular_t *t, void *const *bufs, char *scratch, td_err_t *err) {
    void *workspace = scratch, **a = (void **)(void *)(scratch + TD_BLAS_WORKSPACE), **b = a + t->batch;
    td_status_t st = TD_OK;
    if (t->pointers) {
        st = write_pointers(s, t, a, bufs[0], t->a_bytes, err);
        if (!st) st = write_pointers(s, t, b, bufs[1], t->b_bytes, err);
    }
    if (st || (st = td_blas_begin(t->blas, s, workspace, t->text, err))) return st;
    cublasHandle_t h = t->blas->handle;
    cublasStatus_t r = t->pointers ? t->many(h, t->side, t->uplo, t->trans, t->diag, t->m, t->n, t->unit,
                                             (const void *const *)a, t->ld, b, t->m, t->batch)
                                   : t->one(h, t->side, t->uplo, t->trans, t->diag, t->m, t->n, t->unit, bufs[0], t->ld,
                                            bufs[1], t->m);
    td_blas_end(t->blas);
    return td_blas_call(t->blas, r, t->call, t->text, err);
}

static td_status_t launch(td_stream_t *s, const td_kernel_t *k, void *const *bufs, uint32_t n, void *scratch,
                          td_err_t *err) {
    const triangular_t *t = (const triangular_t *)k;
    if (n != 2) return td_fail(err, TD_INTERNAL, "%s: %u buffers instead of 2", t->text, n);
    if (!t->batch) return TD_OK;
    uintptr_t at =
        ((uintptr_t)scratch + TD_BLAS_WORKSPACE_ALIGNMENT - 1) & ~(uintptr_t)(TD_BLAS_WORKSPACE_ALIGNMENT - 1);
    return solve(s, t, bufs, (char *)at, err);
}

/* ---- lowering ---- */
static void functions(triangular_t *t, td_type_t type) {
    static const struct {
        const char *one, *many;
    } names[] = {{"cublasStrsm", "cublasStrsmBatched"},
                 {"cublasDtrsm", "cublasDtrsmBatched"},
                 {"cublasCtrsm", "cublasCtrsmBatched"},
                 {"cublasZtrsm", "cublasZtrsmBatched"}};
    const td_blas_t *b = t->blas;
    const trsm_fn one[] = {b->cublasStrsm_v2, b->cublasDtrsm_v2, b->cublasCtrsm_v2, b->cublasZtrsm_v2};
    const batched_fn many[] = {b->cublasStrsmBatched, b->cublasDtrsmBatched, b->cublasCtrsmBatched,
                               b->cublasZtrsmBatched};
    const float f = 1;
    const double v = 1;
    int i = type == TD_F32 ? 0 : type == TD_F64 ? 1 : type == TD_C64 ? 2 : 3;
    if (i % 2) memcpy(t->unit, &v, sizeof v);
    else memcpy(t->unit, &f, sizeof f);
    t->one = one[i], t->many = many[i];
    t->call = t->batch > 1 ? names[i].many : names[i].one;
}

static td_status_t check(const triangular_t *t, const td_triangular_desc_t *d, td_err_t *err) {
    uint64_t side = (uint64_t)(d->left ? d->m : d->n), x = 0;
    if (d->type != TD_F32 && d->type != TD_F64 && d->type != TD_C64 && d->type != TD_C128)
        return td_fail(err, TD_UNSUPPORTED, "%s: cuBLAS has none of that type", t->text);
    if (d->transpose < TD_TRANSPOSE_NONE || d->transpose > TD_TRANSPOSE_ADJOINT)
        return td_fail(err, TD_UNSUPPORTED, "%s with transpose_a %d", t->text, (int)d->transpose);
    if (d->m < 0 || d->n < 0 || d->batch < 0 || d->m > INT_MAX || d->n > INT_MAX || d->batch > INT_MAX ||
        !td_mul_u64(side * side, td_type_bytes(d->type), &x) ||
        !td_mul_u64((uint64_t)d->m * (uint64_t)d->n, td_type_bytes(d->type), &x))
        return td_fail(err, TD_LIMIT, "%s: too large", t->text);
    return TD_OK;
}

static td_status_t fill(triangular_t *t, td_cuda_device_t *d, const td_triangular_desc_t *desc, td_err_t *err) {
    snprintf(t->text, sizeof t->text, "triangular system %s[%lld,%lld], %lld times", td_type_name(desc->type),
             (long long)desc->m, (long long)desc->n, (long long)desc->batch);
    td_status_t st = check(t, desc, err);
    if (st) return st;
    t->side = desc->left ? CUBLAS_SIDE_LEFT : CUBLAS_SIDE_RIGHT;
    t->uplo = desc->lower ? CUBLAS_FILL_MODE_LOWER : CUBLAS_FILL_MODE_UPPER;
    t->diag = desc->unit_diagonal ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT;
    t->trans = desc->transpose == TD_TRANSPOSE_NONE    ? CUBLAS_OP_N
               : desc->transpose == TD_TRANSPOSE_PLAIN ? CUBLAS_OP_T
                                                       : CUBLAS_OP_C;
    t->m = (int)desc->m, t->n = (int)desc->n, t->ld = desc->left ? t->m : t->n;
    t->batch = t->m && t->n ? (int)desc->batch : 0;
    t->a_bytes = (uint64_t)t->ld * (uint64_t)t->ld * td_type_bytes(desc->type);
    t->b_bytes = (uint64_t)t->m * (uint64_t)t->n * td_type_bytes(desc->type);
    if (!t->batch) return TD_OK;
    if ((st = td_blas_get(d, "triangular systems", &t->blas, err))) return st;
    functions(t, desc->type);
    return t->batch > 1 ? td_cuda_own_get(d, "td_pointers", &t->pointers, err) : TD_OK;
}

td_status_t td_cuda_triangular_lower(td_cuda_device_t *d, const void *desc, td_arena_t *arena, td_kernel_t **out,
                                     uint64_t *out_scratch, td_err_t *err) {
    triangular_t *t = TD_NEW(arena, triangular_t);
    if (!t) return td_arena_fail(arena, err);
    t->base = (td_kernel_t){.launch = launch};
    td_status_t st = fill(t, d, desc, err);
    if (st) return st;
    *out_scratch = t->batch ? TD_BLAS_WORKSPACE + TD_BLAS_WORKSPACE_ALIGNMENT : 0;
    if (t->pointers) *out_scratch += 2 * sizeof(void *) * (uint64_t)t->batch;
    *out = &t->base;
    return TD_OK;
}
