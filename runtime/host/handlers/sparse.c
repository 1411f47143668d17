/* SPDX-License-Identifier: Apache-2.0 */
/* Sparse matrices in CSR (values, columns, row pointers) or COO form (values, rows, columns); dense ones are
 * row-major. Indices count from 0.
 * cusparse_{csr,coo}_todense_ffi: values, i1, i2 -> dense, buffer
 * cusparse_{csr,coo}_fromdense_ffi: dense -> values, i1, i2, buffer
 * cusparse_{csr,coo}_matvec_ffi, _matmat_ffi: values, i1, i2, B -> C = op(A) B, buffer; f32, f64, c64, c128
 * The attribute opaque is a C struct: the sparse matrix {value type, index type, rows, cols, nnz, batch count,
 * batch stride}, then for products the two dense operands {type, rows, cols, batch count, batch stride} or
 * vectors {type, size}, and op (0 none, 1 transpose, 2 conjugate transpose); all of them int32. Types are
 * cudaDataType and cusparseIndexType numbers. Only COO products have batches.
 * Entries outside the matrix are dropped, as JAX does (it pads so); of repeated ones todense keeps the last.
 * fromdense writes at most nnz entries and pads with zeros outside the matrix. The buffer is not used.
 * Facts: jaxlib/gpu/sparse_kernels.{h,cc}, jaxlib/gpu/sparse.cc. */
#include <complex.h>
#include <string.h>

#include "runtime/host/handlers/common.h"
#include "runtime/host/handlers/families.h"

typedef enum sparse_op { OP_TODENSE, OP_FROMDENSE, OP_MATVEC, OP_MATMAT } sparse_op_t;

typedef struct sparse {
    sparse_op_t op;
    bool csr, transpose, conjugate;
    td_type_t type, index;
    int64_t rows, cols, nnz, k; /* k: columns of B and C */
    int64_t batch, a_stride, b_stride, c_stride;
} sparse_t;

typedef struct dense {
    int32_t type, rows, cols, batch, stride;
} dense_t;

static td_type_t value_type(int32_t cuda) {
    switch (cuda) {
    case 0: return TD_F32;
    case 1: return TD_F64;
    case 2: return TD_F16;
    case 3: return TD_S8;
    case 4: return TD_C64;
    case 5: return TD_C128;
    case 8: return TD_U8;
    case 10: return TD_S32;
    case 12: return TD_U32;
    case 14: return TD_BF16;
    default: return TD_TYPE_INVALID;
    }
}

static void read_target(sparse_t *a, const char *target) {
    static const char *const ops[] = {"_todense_", "_fromdense_", "_matvec_", "_matmat_"};
    a->csr = strstr(target, "_csr_") != NULL;
    for (int i = 0; i < 4; i++)
        if (strstr(target, ops[i])) a->op = (sparse_op_t)i;
}

/* The struct as int32 words; a vector is a matrix of one column. */
static td_status_t read_opaque(sparse_t *a, const td_custom_call_desc_t *d, dense_t *b, dense_t *c, int32_t *op,
                               td_err_t *err) {
    static const size_t words[] = {7, 7, 12, 18};
    td_span_t raw = {0};
    int32_t w[18] = {0};
    if (!td_attr_string(d->attrs, "opaque", &raw)) return td_fail(err, TD_MISMATCH,
                                                                  "attribute 'opaque' is missing or no string");
    if (raw.size != 4 * words[a->op])
        return td_fail(err, TD_MISMATCH, "attribute 'opaque' has %zu bytes, expected %zu", raw.size, 4 * words[a->op]);
    memcpy(w, raw.data, raw.size);
    a->type = value_type(w[0]);
    a->index = w[1] == 1 ? TD_U16 : w[1] == 2 ? TD_S32 : w[1] == 3 ? TD_S64 : TD_TYPE_INVALID;
    a->rows = w[2];
    a->cols = w[3];
    a->nnz = w[4];
    a->batch = w[5];
    a->a_stride = w[6];
    if (a->op == OP_MATVEC) {
        *b = (dense_t){w[7], w[8], 1, 1, 0};
        *c = (dense_t){w[9], w[10], 1, 1, 0};
        *op = w[11];
    } else if (a->op == OP_MATMAT) {
        *b = (dense_t){w[7], w[8], w[9], w[10], w[11]};
        *c = (dense_t){w[12], w[13], w[14], w[15], w[16]};
        *op = w[17];
    }
    if (a->type == TD_TYPE_INVALID || a->index == TD_TYPE_INVALID)
        return td_fail(err, TD_UNSUPPORTED, "cudaDataType %d with cusparseIndexType %d", w[0], w[1]);
    if (a->rows < 0 || a->cols < 0 || a->nnz < 0 || a->batch < 1 || a->a_stride < 0)
        return td_fail(err, TD_MISMATCH, "sparse matrix of %d x %d, %d entries, batch %d, stride %d", w[2], w[3],
                       w[4], w[5], w[6]);
    if (a->batch > 1 && (a->csr || a->op != OP_MATMAT))
        return td_fail(err, TD_UNSUPPORTED, "a batch of %lld", (long long)a->batch);
    return TD_OK;
}

/* Elements that a strided batch spans: all factors are below 2^31. */
static int64_t span(int64_t batch, int64_t stride, int64_t n) { return (batch - 1) * stride + n; }

static td_status_t check_sparse(const sparse_t *a, const td_shape_t *values, const td_shape_t *i1,
                                const td_shape_t *i2, td_err_t *err) {
    int64_t n = span(a->batch, a->a_stride, a->nnz);
    td_status_t s = td_hc_array("values", values, a->type, n, err);
    if (s || (s = td_hc_array(a->csr ? "columns" : "rows", i1, a->index, n, err))) return s;
    return td_hc_array(a->csr ? "row pointers" : "columns", i2, a->index, a->csr ? a->rows + 1 : n, err);
}

static td_status_t check_product(sparse_t *a, const td_custom_call_desc_t *d, const dense_t *b, const dense_t *c,
                                 int32_t op, td_err_t *err) {
    td_status_t s = td_hc_solver_type(a->type, err);
    if (s) return s;
    if (op < 0 || op > 2) return td_fail(err, TD_MISMATCH, "cusparseOperation %d", op);
    a->transpose = op != 0;
    a->conjugate = op == 2;
    int64_t m = a->transpose ? a->cols : a->rows, n = a->transpose ? a->rows : a->cols;
    if (value_type(b->type) != a->type || value_type(c->type) != a->type)
        return td_fail(err, TD_UNSUPPORTED, "cudaDataTypes %d and %d with values of %s", b->type, c->type,
                       td_type_name(a->type));
    if (b->rows != n || c->rows != m || b->cols != c->cols || b->cols < 0)
        return td_fail(err, TD_MISMATCH, "a product of %lld x %lld with %d x %d gives %d x %d", (long long)m,
                       (long long)n, b->rows,
                       b->cols, c->rows, c->cols);
    if (b->batch != c->batch || (a->op == OP_MATMAT && !a->csr && b->batch != a->batch) || b->stride < 0 ||
        c->stride < 0)
        return td_fail(err, TD_MISMATCH, "batches of %lld, %d and %d matrices", (long long)a->batch, b->batch,
                       c->batch);
    a->k = b->cols;
    a->b_stride = b->stride;
    a->c_stride = c->stride;
    if (a->batch > 1 && a->c_stride < m * a->k) return td_fail(err, TD_MISMATCH, "result matrices overlap: stride %d",
                                                               c->stride);
    if ((s = td_hc_array("B", d->operands[3], a->type, span(a->batch, a->b_stride, n * a->k), err))) return s;
    return td_hc_array("C", d->results[0], a->type, span(a->batch, a->c_stride, m * a->k), err);
}

td_status_t td_sparse_prepare(const td_custom_call_desc_t *d, td_arena_t *arena, void **state, uint64_t *scratch,
                              td_err_t *err) {
    sparse_t a = {0};
    dense_t b = {0}, c = {0};
    int32_t op = 0;
    td_status_t s = TD_OK;
    read_target(&a, d->target);
    bool from = a.op == OP_FROMDENSE;
    if ((s = td_hc_arity(d, from ? 1 : a.op == OP_TODENSE ? 3 : 4, from ? 4 : 2, err)) ||
        (s = read_opaque(&a, d, &b, &c, &op, err)))
        return s;
    const td_shape_t *const *sparse = from ? d->results : d->operands;
    if ((s = check_sparse(&a, sparse[0], sparse[1], sparse[2], err))) return s;
    if (a.op >= OP_MATVEC) s = check_product(&a, d, &b, &c, op, err);
    else s = td_hc_array("the dense matrix", from ? d->operands[0] : d->results[0], a.type, a.rows * a.cols, err);
    if (s) return s;
    *scratch = 0;
    return td_hc_state(arena, &a, sizeof a, state, err);
}

static int64_t load(td_type_t t, const void *p, int64_t i) {
    return t == TD_S32 ? ((const int32_t *)p)[i] : t == TD_S64 ? ((const int64_t *)p)[i] : ((const uint16_t *)p)[i];
}
static void store(td_type_t t, void *p, int64_t i, int64_t v) {
    if (t == TD_S32) ((int32_t *)p)[i] = (int32_t)v;
    else if (t == TD_S64) ((int64_t *)p)[i] = v;
    else ((uint16_t *)p)[i] = (uint16_t)v;
}

/* Walks the entries inside the matrix in the order of storage. */
typedef struct walk {
    const sparse_t *a;
    const void *i1, *i2;
    int64_t at, end, row, col, next_row;
} walk_t;
static walk_t walk_start(const sparse_t *a, const void *i1, const void *i2) {
    return (walk_t){.a = a, .i1 = i1, .i2 = i2, .at = -1, .end = a->csr ? 0 : a->nnz};
}
static bool walk(walk_t *w) {
    const sparse_t *a = w->a;
    for (;;) {
        w->at++;
        while (w->at >= w->end) {
            if (!a->csr || w->next_row == a->rows) return false;
            w->row = w->next_row++;
            w->at = load(a->index, w->i2, w->row);
            w->end = load(a->index, w->i2, w->row + 1);
            if (w->at < 0) w->at = 0;
            if (w->end > a->nnz) w->end = a->nnz;
        }
        if (!a->csr) w->row = load(a->index, w->i1, w->at);
        w->col = load(a->index, a->csr ? w->i1 : w->i2, w->at);
        if (w->row >= 0 && w->row < a->rows && w->col >= 0 && w->col < a->cols) return true;
    }
}

#define PRODUCT(T, CONJ)                                                                       \
    do {                                                                                       \
        const T *v = values, *in = b;                                                          \
        T *out = c;                                                                            \
        while (walk(&w)) {                                                                     \
            T f = a->conjugate ? CONJ(v[w.at]) : v[w.at];                                      \
            const T *from = in + (a->transpose ? w.row : w.col) * a->k;                        \
            T *to = out + (a->transpose ? w.col : w.row) * a->k;                               \
            for (int64_t j = 0; j < a->k; j++) to[j] += f * from[j];                           \
        }                                                                                      \
    } while (0)

static void product(const sparse_t *a, const void *values, const void *i1, const void *i2, const void *b, void *c) {
    walk_t w = walk_start(a, i1, i2);
    switch (a->type) {
    case TD_F32: PRODUCT(float, ); break;
    case TD_F64: PRODUCT(double, ); break;
    case TD_C64: PRODUCT(float complex, conjf); break;
    default: PRODUCT(double complex, conj); break;
    }
}

static void products(const sparse_t *a, void *const *bufs) {
    uint64_t size = td_type_bytes(a->type), isize = td_type_bytes(a->index);
    int64_t m = a->transpose ? a->cols : a->rows;
    for (int64_t i = 0; i < a->batch; i++) {
        uint64_t at = (uint64_t)(i * a->a_stride);
        void *c = td_at(bufs[4], (uint64_t)(i * a->c_stride) * size);
        if (m * a->k > 0) memset(c, 0, (size_t)(m * a->k) * size);
        product(a, td_at(bufs[0], at * size), td_at(bufs[1], at * isize), td_at(bufs[2], at * (a->csr ? 0 : isize)),
                td_at(bufs[3], (uint64_t)(i * a->b_stride) * size), c);
    }
}

static void to_dense(const sparse_t *a, void *const *bufs) {
    size_t size = td_type_bytes(a->type);
    walk_t w = walk_start(a, bufs[1], bufs[2]);
    if (a->rows * a->cols > 0) memset(bufs[3], 0, (size_t)(a->rows * a->cols) * size);
    while (walk(&w)) memcpy((char *)bufs[3] + (size_t)(w.row * a->cols + w.col) * size,
                            (char *)bufs[0] + (size_t)w.at * size, size);
}

/* -0 is a zero too. */
static bool is_zero(td_type_t t, const unsigned char *p) {
    unsigned size = td_type_bytes(t), part = td_type_is_complex(t) ? size / 2 : size, any = 0;
    bool sign = td_type_is_float(t) || td_type_is_complex(t);
    for (unsigned i = 0; i < size; i++) any |= sign && i % part == part - 1 ? p[i] & 0x7fu : p[i]; /* little-endian */
    return any == 0;
}

static void from_dense(const sparse_t *a, void *const *bufs) {
    size_t size = td_type_bytes(a->type);
    int64_t n = 0;
    for (int64_t r = 0; r < a->rows; r++) {
        if (a->csr) store(a->index, bufs[3], r, n);
        for (int64_t c = 0; c < a->cols && n < a->nnz; c++) {
            const unsigned char *p = (const unsigned char *)bufs[0] + (size_t)(r * a->cols + c) * size;
            if (is_zero(a->type, p)) continue;
            memcpy((char *)bufs[1] + (size_t)n * size, p, size);
            store(a->index, bufs[2], n, a->csr ? c : r);
            if (!a->csr) store(a->index, bufs[3], n, c);
            n++;
        }
    }
    if (a->csr) store(a->index, bufs[3], a->rows, n);
    for (; n < a->nnz; n++) {
        memset((char *)bufs[1] + (size_t)n * size, 0, size);
        store(a->index, bufs[2], n, a->csr ? a->cols : a->rows);
        if (!a->csr) store(a->index, bufs[3], n, a->cols);
    }
}

td_status_t td_sparse_run(const void *state, void *const *bufs, void *scratch, td_err_t *err) {
    const sparse_t *a = state;
    (void)scratch, (void)err;
    switch (a->op) {
    case OP_TODENSE: to_dense(a, bufs); break;
    case OP_FROMDENSE: from_dense(a, bufs); break;
    default: products(a, bufs); break;
    }
    return TD_OK;
}
