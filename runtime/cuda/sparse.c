/* SPDX-License-Identifier: Apache-2.0 */
/* Products with sparse matrices through cuSPARSE: the library, and the targets that runtime/ffi/sparse.c describes.
 * Descriptors are made at load; a launch gives them the addresses. The buffer comes from the launch's scratch, not from
 * the artifact, whose compiler asked another version of the library how large it is. */
#include "runtime/cuda/sparse.h"

#include <stdio.h>

#include "runtime/cuda/custom.h"
#include "runtime/cuda/own.h"

enum { LEAST = 12000, WORK_ALIGN = 256 };

#define ROW(needed, type, name, args) TD_CUDA_LIB_ROW(td_sparse_lib_t, needed, name)
#define FOUR(member, name, args)                                              \
    {"cusparseS" #name, offsetof(td_sparse_lib_t, member[0]), true},          \
    {"cusparseD" #name, offsetof(td_sparse_lib_t, member[1]), true},          \
    {"cusparseC" #name, offsetof(td_sparse_lib_t, member[2]), true},          \
    {"cusparseZ" #name, offsetof(td_sparse_lib_t, member[3]), true},
static const td_cuda_symbol_t symbols[] = {TD_SPARSE_SYMBOLS(ROW) TD_SPARSE_TYPED(FOUR)};

static td_status_t start(td_cuda_device_t *d, void *lib, const char *file, td_err_t *err);
static void stop(td_cuda_device_t *d, void *lib) {
    td_sparse_lib_t *l = lib;
    (void)d;
    l->cusparseDestroy(l->handle);
    pthread_mutex_destroy(&l->lock);
}
static const td_cuda_lib_t library = {
    .name = "cuSPARSE", .package = "the cuSPARSE library of CUDA 12 or 13", .files = {{"libcusparse.so.12", 0}},
    .symbols = symbols, .n_symbols = sizeof symbols / sizeof *symbols, .bytes = sizeof(td_sparse_lib_t),
    .start = start, .stop = stop};

td_status_t td_sparse_check(const td_sparse_lib_t *l, int r, const char *call, td_err_t *err) {
    if (!r) return TD_OK;
    const char *name = l->cusparseGetErrorName(r);
    td_status_t st = r == CUSPARSE_STATUS_ALLOC_FAILED    ? TD_NOMEM
                     : r == CUSPARSE_STATUS_NOT_SUPPORTED ? TD_UNSUPPORTED
                                                          : TD_DEVICE;
    return td_fail(err, st, "%s: %s (%d)", call, name ? name : "an error without a name", r);
}
static td_status_t start(td_cuda_device_t *d, void *lib, const char *file, td_err_t *err) {
    td_sparse_lib_t *l = lib;
    int version = 0;
    char have[24];
    td_status_t st = td_sparse_check(l, l->cusparseCreate(&l->handle), "cusparseCreate", err);
    if (st) return st;
    if (l->cusparseGetVersion(l->handle, &version)) version = 0;
    snprintf(have, sizeof have, "%d.%d", version / 1000, version % 1000 / 100);
    pthread_mutex_init(&l->lock, NULL);
    st = td_cuda_lib_version(&library, file, version, LEAST, have, "12.0", err);
    if (st) stop(d, l);
    return st;
}
td_status_t td_sparse_lib_get(td_cuda_device_t *d, const char *what, td_sparse_lib_t **out, td_err_t *err) {
    return td_cuda_lib_get(d, &library, what, out, err);
}

typedef union one { /* 1 or 0 in each of the types */
    float f[2];
    double d[2];
} one_t;
typedef struct product {
    td_kernel_t base;
    td_cuda_device_t *device;
    td_sparse_lib_t *lib; /* NULL: nothing to multiply */
    td_sparse_t s;
    cusparseSpMatDescr_t a;
    cusparseDnMatDescr_t b, c;
    cusparseDnVecDescr_t x, y; /* instead of b and c */
    one_t one, zero;
    int op, data;
    uint64_t out_bytes, entries;
    td_body_sparse_t body;
    CUfunction clean;
    uint64_t values_at, i1_at, i2_at, work_at; /* in the scratch */
} product_t;
#define CALL(k, err, fn, ...) td_sparse_check((k)->lib, (k)->lib->fn(__VA_ARGS__), #fn, err)

static void release(td_kernel_t *base) {
    product_t *k = (product_t *)base;
    if (!k->a && !k->b && !k->c && !k->x && !k->y) return;
    (void)td_cuda_enter(k->device, NULL);
    if (k->a) k->lib->cusparseDestroySpMat(k->a);
    if (k->b) k->lib->cusparseDestroyDnMat(k->b);
    if (k->c) k->lib->cusparseDestroyDnMat(k->c);
    if (k->x) k->lib->cusparseDestroyDnVec(k->x);
    if (k->y) k->lib->cusparseDestroyDnVec(k->y);
    k->a = NULL, k->b = k->c = NULL, k->x = k->y = NULL;
}

/* ---- the launch ---- */
static td_status_t point(const product_t *k, void *const *bufs, char *scratch, td_err_t *err) {
    void *values = scratch + k->values_at, *i1 = scratch + k->i1_at, *i2 = scratch + k->i2_at;
    td_status_t st = k->s.csr ? CALL(k, err, cusparseCsrSetPointers, k->a, i2, i1, values)
                              : CALL(k, err, cusparseCooSetPointers, k->a, i1, i2, values);
    if (!st && k->b) st = CALL(k, err, cusparseDnMatSetValues, k->b, bufs[3]);
    if (!st && k->c) st = CALL(k, err, cusparseDnMatSetValues, k->c, bufs[4]);
    if (!st && k->x) st = CALL(k, err, cusparseDnVecSetValues, k->x, bufs[3]);
    if (!st && k->y) st = CALL(k, err, cusparseDnVecSetValues, k->y, bufs[4]);
    return st;
}
static td_status_t multiply(const product_t *k, void *work, td_err_t *err) {
    cusparseHandle_t h = k->lib->handle;
    if (k->x)
        return CALL(k, err, cusparseSpMV, h, k->op, &k->one, k->a, k->x, &k->zero, k->y, k->data, CUSPARSE_ALG_DEFAULT,
                    work);
    return CALL(k, err, cusparseSpMM, h, k->op, 0, &k->one, k->a, k->b, &k->zero, k->c, k->data, CUSPARSE_ALG_DEFAULT,
                work);
}
/* The library trusts indices, which may be a request's: it gets a copy without those outside the matrix. */
static td_status_t clean(td_stream_t *s, const product_t *k, void *const *bufs, char *scratch, td_err_t *err) {
    td_body_sparse_t a = k->body;
    uint64_t entries = k->entries, rows = (uint64_t)a.rows + 1;
    void *to[] = {scratch + k->values_at, scratch + k->i1_at, scratch + k->i2_at};
    void *params[] = {(void *)(uintptr_t)&bufs[0], (void *)(uintptr_t)&bufs[1], (void *)(uintptr_t)&bufs[2], &a,
                      &to[0], &to[1], &to[2], &entries};
    return td_cuda_own_launch(s, k->clean, a.csr && rows > entries ? rows : entries, params,
                              "indices of a sparse matrix", err);
}
static td_status_t launch(td_stream_t *s, const td_kernel_t *base, void *const *bufs, uint32_t n, void *scratch,
                          td_err_t *err) {
    const product_t *k = (const product_t *)base;
    (void)n;
    if (!k->lib) return td_cuda_memset32(s, bufs[4], 0, k->out_bytes, err);
    char *at = (char *)td_align_up((uintptr_t)scratch, WORK_ALIGN);
    td_status_t st = clean(s, k, bufs, at, err);
    if (st) return st;
    pthread_mutex_lock(&k->lib->lock);
    st = CALL(k, err, cusparseSetStream, k->lib->handle, ((td_cuda_stream_t *)s)->handle);
    if (!st) st = point(k, bufs, at, err);
    if (!st) st = multiply(k, at + k->work_at, err);
    pthread_mutex_unlock(&k->lib->lock);
    return st;
}

/* ---- descriptors ---- */
/* Addresses come with the launch; until then there must be some. */
#define NOWHERE ((void *)(uintptr_t)WORK_ALIGN)
static td_status_t dense(const product_t *k, cusparseDnMatDescr_t *out, int64_t rows, int64_t stride, td_err_t *err) {
    td_status_t st = CALL(k, err, cusparseCreateDnMat, out, rows, k->s.k, k->s.k, NOWHERE, k->data, CUSPARSE_ORDER_ROW);
    if (st || k->s.batch == 1) return st;
    return CALL(k, err, cusparseDnMatSetStridedBatch, *out, (int)k->s.batch, stride);
}
static td_status_t describe(product_t *k, td_err_t *err) {
    const td_sparse_t *s = &k->s;
    int index = s->index == TD_U16 ? CUSPARSE_INDEX_16U : s->index == TD_S32 ? CUSPARSE_INDEX_32I : CUSPARSE_INDEX_64I;
    int64_t m = s->transpose ? s->cols : s->rows, n = s->transpose ? s->rows : s->cols;
    td_status_t st = s->csr ? CALL(k, err, cusparseCreateCsr, &k->a, s->rows, s->cols, s->nnz, NOWHERE, NOWHERE,
                                   NOWHERE, index, index, 0, k->data)
                            : CALL(k, err, cusparseCreateCoo, &k->a, s->rows, s->cols, s->nnz, NOWHERE, NOWHERE,
                                   NOWHERE, index, 0, k->data);
    if (!st && s->batch > 1) st = CALL(k, err, cusparseCooSetStridedBatch, k->a, (int)s->batch, s->a_stride);
    if (st) return st;
    if (s->op == TD_SPARSE_MATVEC) {
        st = CALL(k, err, cusparseCreateDnVec, &k->x, n, NOWHERE, k->data);
        return st ? st : CALL(k, err, cusparseCreateDnVec, &k->y, m, NOWHERE, k->data);
    }
    st = dense(k, &k->b, n, s->b_stride, err);
    return st ? st : dense(k, &k->c, m, s->c_stride, err);
}
static td_status_t buffer(const product_t *k, size_t *bytes, td_err_t *err) {
    cusparseHandle_t h = k->lib->handle;
    if (k->x)
        return CALL(k, err, cusparseSpMV_bufferSize, h, k->op, &k->one, k->a, k->x, &k->zero, k->y, k->data,
                    CUSPARSE_ALG_DEFAULT, bytes);
    return CALL(k, err, cusparseSpMM_bufferSize, h, k->op, 0, &k->one, k->a, k->b, &k->zero, k->c, k->data,
                CUSPARSE_ALG_DEFAULT, bytes);
}

/* Each part begins at a multiple of 256 bytes. */
static td_status_t room(uint64_t *total, uint64_t count, uint64_t bytes, uint64_t *at, td_err_t *err) {
    td_status_t st = td_hc_scratch(total, count, bytes, at, err);
    *total = td_align_up(*total, WORK_ALIGN);
    return st;
}
static td_status_t prepare(product_t *k, uint64_t *out_scratch, td_err_t *err) {
    static const int data[] = {0, 1, 4, 5}; /* CUDA_R_32F, CUDA_R_64F, CUDA_C_32F, CUDA_C_64F */
    td_type_t t = k->s.type;
    size_t bytes = 0;
    if (td_real_of(t) == TD_F64) k->one.d[0] = 1;
    else k->one.f[0] = 1;
    k->op = k->s.conjugate ? 2 : k->s.transpose ? 1 : 0;
    k->data = data[t == TD_F32 ? 0 : t == TD_F64 ? 1 : t == TD_C64 ? 2 : 3];
    pthread_mutex_lock(&k->lib->lock);
    td_status_t st = describe(k, err);
    if (!st) st = buffer(k, &bytes, err);
    pthread_mutex_unlock(&k->lib->lock);
    uint64_t total = 0, elem = (uint64_t)k->body.elem, index = (uint64_t)k->body.index;
    k->entries = (uint64_t)((k->s.batch - 1) * k->s.a_stride + k->s.nnz);
    if (st || (st = room(&total, k->entries, elem, &k->values_at, err)) ||
        (st = room(&total, k->entries, index, &k->i1_at, err)) ||
        (st = room(&total, k->s.csr ? (uint64_t)k->s.rows + 1 : k->entries, index, &k->i2_at, err)) ||
        (st = room(&total, bytes, 1, &k->work_at, err)))
        return st;
    *out_scratch = total + WORK_ALIGN;
    return td_cuda_own_get(k->device, "td_sparse_clean", &k->clean, err);
}

td_body_sparse_t td_sparse_body(const td_sparse_t *s) {
    int32_t elem = (int32_t)td_type_bytes(s->type);
    bool sign = td_type_is_float(s->type) || td_type_is_complex(s->type);
    return (td_body_sparse_t){.rows = s->rows, .cols = s->cols, .nnz = s->nnz, .csr = s->csr, .elem = elem,
                              .index = (int32_t)td_type_bytes(s->index),
                              .part = !sign ? 0 : td_type_is_complex(s->type) ? elem / 2 : elem};
}

TD_CUDA_TARGET(sparse_product) {
    product_t *k = TD_NEW(arena, product_t);
    if (!k) return td_arena_fail(arena, err);
    k->base = (td_kernel_t){.launch = launch, .release = release};
    k->device = d;
    td_status_t st = td_linalg_sparse(desc, &k->s, err);
    if (st) return st;
    const td_sparse_t *s = &k->s;
    int64_t m = s->transpose ? s->cols : s->rows;
    k->body = td_sparse_body(s);
    k->out_bytes = (uint64_t)((s->batch - 1) * s->c_stride + m * s->k) * td_type_bytes(s->type);
    *out = &k->base;
    *out_scratch = 0;
    if (!s->nnz || !s->rows || !s->cols || !s->k) return TD_OK;
    st = td_sparse_lib_get(d, "sparse matrices", &k->lib, err);
    if (!st) st = prepare(k, out_scratch, err);
    if (st) release(&k->base);
    return st;
}
