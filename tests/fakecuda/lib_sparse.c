/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for cuSPARSE: entry by entry, in double; lib_gtsv.c has tridiagonal systems. An index outside its matrix
 * is a fault: the real library would read or write there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/sparse.h"
#include "tests/fakecuda/library.h"

#define DECLARE(needed, type, name, args) FK_EXPORT type name args;
TD_SPARSE_SYMBOLS(DECLARE)

static const char HANDLE[] = "cuSPARSE handle", SPMAT[] = "sparse matrix", DNMAT[] = "dense matrix",
                  DNVEC[] = "dense vector";
enum { OK = 0, NOT_INITIALIZED = 1, ALLOC_FAILED = 2, INVALID = 3, FAILED = 6, ALIGN = 16 };
typedef struct spmat {
    bool csr;
    int64_t rows, cols, nnz, stride;
    int index, type, batch;
    const void *i1, *i2, *values; /* CSR: columns, offsets; COO: rows, columns */
} spmat_t;
typedef struct dense { /* a vector has one column */
    int64_t rows, cols, ld, stride;
    int type, batch;
    const void *values;
} dense_t;

static int made(void *h, void *out) {
    if (!h) return ALLOC_FAILED;
    memcpy(out, &h, sizeof h);
    return OK;
}
static int ended(void *h, const char *what) { return fk_library_end(h, what) ? OK : INVALID; }
const char *cusparseGetErrorName(int status) {
    return status == INVALID ? "CUSPARSE_STATUS_INVALID_VALUE" : "CUSPARSE_STATUS_OTHER";
}
int cusparseCreate(cusparseHandle_t *out) {
    FK_ENTER(cusparseCreate, 0);
    return fk_leave(made(fk_library_new(HANDLE, sizeof(CUstream)), out));
}
int cusparseDestroy(cusparseHandle_t h) {
    FK_ENTER(cusparseDestroy, 0);
    return fk_leave(ended(h, HANDLE));
}
int cusparseGetVersion(cusparseHandle_t h, int *version) {
    FK_ENTER(cusparseGetVersion, 0);
    *version = 12603;
    return fk_leave(fk_library_get(h, HANDLE) ? OK : NOT_INITIALIZED);
}
int cusparseSetStream(cusparseHandle_t h, CUstream stream) {
    FK_ENTER(cusparseSetStream, 0);
    CUstream *s = fk_library_get(h, HANDLE);
    if (s) *s = stream;
    return fk_leave(s ? OK : NOT_INITIALIZED);
}

/* ---- descriptors ---- */
static int bad(const char *who, const char *what, int64_t have) {
    return (int)fk_fault(FK_ARGUMENTS, INVALID, "%s: %s is %lld", who, what, (long long)have);
}
static int sparse(const char *who, cusparseSpMatDescr_t *out, spmat_t m) {
    if (m.rows < 0 || m.cols < 0 || m.nnz < 0) return bad(who, "a size below 0", m.nnz);
    if (m.index < 1 || m.index > 3) return bad(who, "index type", m.index);
    if (!m.values || !m.i1 || !m.i2) return bad(who, "an address of 0", 0);
    void *h = fk_library_new(SPMAT, sizeof m);
    if (h) *(spmat_t *)fk_library_get(h, SPMAT) = m;
    return made(h, out);
}
int cusparseCreateCsr(cusparseSpMatDescr_t *out, int64_t rows, int64_t cols, int64_t nnz, void *row_offsets,
                      void *columns, void *values, int offsets_type, int columns_type, int base, int type) {
    FK_ENTER(cusparseCreateCsr, 0);
    if (base || offsets_type != columns_type) return fk_leave(bad("cusparseCreateCsr", "base or type", base));
    return fk_leave(sparse("cusparseCreateCsr", out,
                           (spmat_t){true, rows, cols, nnz, 0, columns_type, type, 1, columns, row_offsets, values}));
}
int cusparseCreateCoo(cusparseSpMatDescr_t *out, int64_t rows, int64_t cols, int64_t nnz, void *row_index,
                      void *columns, void *values, int index_type, int base, int type) {
    FK_ENTER(cusparseCreateCoo, 0);
    if (base) return fk_leave(bad("cusparseCreateCoo", "base", base));
    return fk_leave(sparse("cusparseCreateCoo", out,
                           (spmat_t){false, rows, cols, nnz, 0, index_type, type, 1, row_index, columns, values}));
}
int cusparseDestroySpMat(cusparseSpMatDescr_t m) {
    FK_ENTER(cusparseDestroySpMat, 0);
    return fk_leave(ended(m, SPMAT));
}
static int set(cusparseSpMatDescr_t h, bool csr, const void *i1, const void *i2, const void *values) {
    spmat_t *m = fk_library_get(h, SPMAT);
    if (!m) return INVALID;
    if (m->csr != csr) return bad("SetPointers", "another form", csr);
    m->i1 = i1, m->i2 = i2, m->values = values;
    return OK;
}
int cusparseCsrSetPointers(cusparseSpMatDescr_t m, void *row_offsets, void *columns, void *values) {
    FK_ENTER(cusparseCsrSetPointers, 0);
    return fk_leave(set(m, true, columns, row_offsets, values));
}
int cusparseCooSetPointers(cusparseSpMatDescr_t m, void *rows, void *columns, void *values) {
    FK_ENTER(cusparseCooSetPointers, 0);
    return fk_leave(set(m, false, rows, columns, values));
}
int cusparseCooSetStridedBatch(cusparseSpMatDescr_t h, int count, int64_t stride) {
    FK_ENTER(cusparseCooSetStridedBatch, 0);
    spmat_t *m = fk_library_get(h, SPMAT);
    if (!m || m->csr || count < 1) return fk_leave(INVALID);
    m->batch = count, m->stride = stride;
    return fk_leave(OK);
}
static int dense(const char *what, void *out, dense_t d) {
    if (d.rows < 0 || d.cols < 0 || d.ld < d.cols || !d.values) return bad(what, "leading dimension", d.ld);
    void *h = fk_library_new(what, sizeof d);
    if (h) *(dense_t *)fk_library_get(h, what) = d;
    return made(h, out);
}
int cusparseCreateDnMat(cusparseDnMatDescr_t *out, int64_t rows, int64_t cols, int64_t ld, void *values, int type,
                        int order) {
    FK_ENTER(cusparseCreateDnMat, 0);
    if (order != CUSPARSE_ORDER_ROW) return fk_leave(bad("cusparseCreateDnMat", "order", order));
    return fk_leave(dense(DNMAT, out, (dense_t){rows, cols, ld, 0, type, 1, values}));
}
int cusparseDestroyDnMat(cusparseDnMatDescr_t m) {
    FK_ENTER(cusparseDestroyDnMat, 0);
    return fk_leave(ended(m, DNMAT));
}
int cusparseDnMatSetValues(cusparseDnMatDescr_t h, void *values) {
    FK_ENTER(cusparseDnMatSetValues, 0);
    dense_t *d = fk_library_get(h, DNMAT);
    if (d) d->values = values;
    return fk_leave(d ? OK : INVALID);
}
int cusparseDnMatSetStridedBatch(cusparseDnMatDescr_t h, int count, int64_t stride) {
    FK_ENTER(cusparseDnMatSetStridedBatch, 0);
    dense_t *d = fk_library_get(h, DNMAT);
    if (d) d->batch = count, d->stride = stride;
    return fk_leave(d ? OK : INVALID);
}
int cusparseCreateDnVec(cusparseDnVecDescr_t *out, int64_t size, void *values, int type) {
    FK_ENTER(cusparseCreateDnVec, 0);
    return fk_leave(dense(DNVEC, out, (dense_t){size, 1, 1, 0, type, 1, values}));
}
int cusparseDestroyDnVec(cusparseDnVecDescr_t v) {
    FK_ENTER(cusparseDestroyDnVec, 0);
    return fk_leave(ended(v, DNVEC));
}
int cusparseDnVecSetValues(cusparseDnVecDescr_t h, void *values) {
    FK_ENTER(cusparseDnVecSetValues, 0);
    dense_t *d = fk_library_get(h, DNVEC);
    if (d) d->values = values;
    return fk_leave(d ? OK : INVALID);
}

/* ---- what all operations have ---- */
typedef struct job {
    int op;
    spmat_t a;
    dense_t b, c;
    uint64_t work;
    const char *who;
} job_t;
enum { A_VALUES, A_1, A_2, B_VALUES, C_VALUES, WORK, RANGES };

static uint64_t elem(int type) {
    switch (type) {
    case 0: case 10: case 12: return 4;
    case 1: case 4: return 8;
    case 5: return 16;
    case 2: case 14: return 2;
    default: return 1;
    }
}
static uint64_t index_bytes(int t) { return 1u << t; }
static int64_t load(int t, const void *p, int64_t i) {
    return t == 2 ? ((const int32_t *)p)[i] : t == 3 ? ((const int64_t *)p)[i] : ((const uint16_t *)p)[i];
}
static void get(int type, const void *p, int64_t i, double out[2]) {
    out[1] = 0;
    if (type == 0) out[0] = (double)((const float *)p)[i];
    else if (type == 1) out[0] = ((const double *)p)[i];
    else if (type == 4) out[0] = (double)((const float *)p)[2 * i], out[1] = (double)((const float *)p)[2 * i + 1];
    else out[0] = ((const double *)p)[2 * i], out[1] = ((const double *)p)[2 * i + 1];
}
static void put(int type, void *p, int64_t i, const double v[2]) {
    if (type == 0) ((float *)p)[i] = (float)v[0];
    else if (type == 1) ((double *)p)[i] = v[0];
    else if (type == 4) ((float *)p)[2 * i] = (float)v[0], ((float *)p)[2 * i + 1] = (float)v[1];
    else ((double *)p)[2 * i] = v[0], ((double *)p)[2 * i + 1] = v[1];
}
static CUresult outside(const char *who, int64_t row, int64_t col) {
    pthread_mutex_lock(&fk_lock);
    fk_fault(FK_KERNEL, 0, "%s: an entry at row %lld, column %lld is outside its matrix", who, (long long)row,
             (long long)col);
    pthread_mutex_unlock(&fk_lock);
    return CUDA_ERROR_ILLEGAL_ADDRESS;
}

/* ---- computing ---- */
/* The row of entry i. */
static int64_t row_of(const job_t *j, const void *i1, const void *i2, int64_t i) {
    if (!j->a.csr) return load(j->a.index, i1, i);
    int64_t r = 0;
    while (r < j->a.rows && load(j->a.index, i2, r + 1) <= i) r++;
    return r;
}
static CUresult one_product(const job_t *j, int64_t b, void *const *m) {
    int64_t k = j->b.cols, cells = j->c.rows * k, a_at = b * j->a.stride, b_at = b * j->b.stride,
            c_at = b * j->c.stride;
    double *sum = calloc((size_t)(2 * cells + 2), sizeof *sum);
    const char *i1 = (const char *)m[A_1] + (uint64_t)a_at * index_bytes(j->a.index);
    const char *i2 = (const char *)m[A_2] + (uint64_t)(j->a.csr ? 0 : a_at) * index_bytes(j->a.index);
    CUresult status = CUDA_SUCCESS;
    for (int64_t i = 0; i < j->a.nnz && !status; i++) {
        int64_t r = row_of(j, i1, i2, i), c = load(j->a.index, j->a.csr ? i1 : i2, i);
        if (r < 0 || r >= j->a.rows || c < 0 || c >= j->a.cols) status = outside(j->who, r, c);
        int64_t from = j->op ? r : c, to = j->op ? c : r;
        double v[2], x[2];
        get(j->a.type, m[A_VALUES], a_at + i, v);
        if (j->op == 2) v[1] = -v[1];
        for (int64_t q = 0; q < k && !status; q++) {
            get(j->a.type, m[B_VALUES], b_at + from * j->b.ld + q, x);
            sum[2 * (to * k + q)] += v[0] * x[0] - v[1] * x[1];
            sum[2 * (to * k + q) + 1] += v[0] * x[1] + v[1] * x[0];
        }
    }
    for (int64_t i = 0; i < cells && !status; i++)
        put(j->a.type, m[C_VALUES], c_at + i / k * j->c.ld + i % k, sum + 2 * i);
    free(sum);
    return status;
}
static CUresult run(const void *args, void *const *m) {
    const job_t *j = args;
    CUresult r = CUDA_SUCCESS;
    if (m[WORK]) memset(m[WORK], 0xfe, j->work);
    for (int64_t b = 0; b < j->a.batch && !r; b++) r = one_product(j, b, m);
    return r;
}

static uint64_t span(const dense_t *d) {
    return d->rows && d->cols ? (uint64_t)((d->batch - 1) * d->stride + (d->rows - 1) * d->ld + d->cols) * elem(d->type)
                              : 0;
}
static int enqueue(cusparseHandle_t h, job_t j, void *buffer) {
    CUstream *s = fk_library_get(h, HANDLE);
    if (!s) return NOT_INITIALIZED;
    if (j.b.type != j.a.type || j.c.type != j.a.type) return bad(j.who, "another type", j.b.type);
    if ((uintptr_t)buffer % ALIGN) return bad(j.who, "alignment of the buffer", (int64_t)((uintptr_t)buffer % ALIGN));
    uint64_t entries = (uint64_t)((j.a.batch - 1) * j.a.stride + j.a.nnz), index = index_bytes(j.a.index);
    fk_range_t r[RANGES] = {
        [A_VALUES] = {(uintptr_t)j.a.values, entries * elem(j.a.type), false},
        [A_1] = {(uintptr_t)j.a.i1, entries * index, false},
        [A_2] = {(uintptr_t)j.a.i2, (j.a.csr ? (uint64_t)j.a.rows + 1 : entries) * index, false},
        [B_VALUES] = {(uintptr_t)j.b.values, span(&j.b), false},
        [C_VALUES] = {(uintptr_t)j.c.values, span(&j.c), true},
        [WORK] = {(uintptr_t)buffer, j.work, true}};
    return fk_library_enqueue(*s, j.who, r, RANGES, run, &j, sizeof j) ? FAILED : OK;
}
static uint64_t work_bytes(const spmat_t *a) { return 64 + (uint64_t)a->nnz * 4; }
static int ask(cusparseHandle_t h, cusparseSpMatDescr_t a, size_t *bytes) {
    spmat_t *m = fk_library_get(a, SPMAT);
    if (!m || !fk_library_get(h, HANDLE)) return INVALID;
    *bytes = work_bytes(m);
    return OK;
}

/* ---- operations ---- */
static int multiply(cusparseHandle_t h, const char *who, int op, const void *alpha, spmat_t *a, dense_t *b,
                    const void *beta, dense_t *c, int compute, void *buffer) {
    double one[2], zero[2];
    if (!a || !b || !c) return INVALID;
    if (compute != a->type) return bad(who, "compute type", compute);
    get(a->type, alpha, 0, one);
    get(a->type, beta, 0, zero);
    if (one[0] != 1 || one[1] != 0 || zero[0] != 0 || zero[1] != 0)
        return bad(who, "alpha is not 1, or beta not 0", (int64_t)one[0]);
    int64_t m = op ? a->cols : a->rows, n = op ? a->rows : a->cols;
    if (b->rows != n || c->rows != m || b->cols != c->cols) return bad(who, "rows", b->rows);
    if (a->batch != b->batch || b->batch != c->batch) return bad(who, "batch", b->batch);
    return enqueue(h, (job_t){.op = op, .a = *a, .b = *b, .c = *c, .work = work_bytes(a), .who = who}, buffer);
}
int cusparseSpMV_bufferSize(cusparseHandle_t handle, int op, const void *alpha, cusparseSpMatDescr_t a,
                            cusparseDnVecDescr_t x, const void *beta, cusparseDnVecDescr_t y, int compute,
                            int algorithm, size_t *bytes) {
    FK_ENTER(cusparseSpMV_bufferSize, 0);
    (void)op, (void)alpha, (void)x, (void)beta, (void)y, (void)compute, (void)algorithm;
    return fk_leave(ask(handle, a, bytes));
}
int cusparseSpMV(cusparseHandle_t handle, int op, const void *alpha, cusparseSpMatDescr_t a, cusparseDnVecDescr_t x,
                 const void *beta, cusparseDnVecDescr_t y, int compute, int algorithm, void *buffer) {
    FK_ENTER(cusparseSpMV, 0);
    (void)algorithm;
    return fk_leave(multiply(handle, "SpMV", op, alpha, fk_library_get(a, SPMAT), fk_library_get(x, DNVEC), beta,
                             fk_library_get(y, DNVEC), compute, buffer));
}
int cusparseSpMM_bufferSize(cusparseHandle_t handle, int op_a, int op_b, const void *alpha, cusparseSpMatDescr_t a,
                            cusparseDnMatDescr_t b, const void *beta, cusparseDnMatDescr_t c, int compute,
                            int algorithm, size_t *bytes) {
    FK_ENTER(cusparseSpMM_bufferSize, 0);
    (void)op_a, (void)op_b, (void)alpha, (void)b, (void)beta, (void)c, (void)compute, (void)algorithm;
    return fk_leave(ask(handle, a, bytes));
}
int cusparseSpMM(cusparseHandle_t handle, int op_a, int op_b, const void *alpha, cusparseSpMatDescr_t a,
                 cusparseDnMatDescr_t b, const void *beta, cusparseDnMatDescr_t c, int compute, int algorithm,
                 void *buffer) {
    FK_ENTER(cusparseSpMM, 0);
    (void)algorithm;
    if (op_b) return fk_leave(bad("SpMM", "op_b", op_b));
    return fk_leave(multiply(handle, "SpMM", op_a, alpha, fk_library_get(a, SPMAT), fk_library_get(b, DNMAT), beta,
                             fk_library_get(c, DNMAT), compute, buffer));
}
