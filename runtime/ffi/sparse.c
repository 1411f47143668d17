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
 * Facts: jaxlib/gpu/sparse_kernels.{h,cc}, jaxlib/gpu/sparse.cc. */
#include <string.h>

#include "runtime/ffi/linalg.h"

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

static void read_target(td_sparse_t *a, const char *target) {
    static const char *const ops[] = {"_todense_", "_fromdense_", "_matvec_", "_matmat_"};
    a->csr = strstr(target, "_csr_") != NULL;
    for (int i = 0; i < 4; i++)
        if (strstr(target, ops[i])) a->op = (td_sparse_op_t)i;
}

/* The struct as int32 words; a vector is a matrix of one column. */
static td_status_t read_opaque(td_sparse_t *a, const td_custom_call_desc_t *d, dense_t *b, dense_t *c, int32_t *op,
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
    if (a->op == TD_SPARSE_MATVEC) {
        *b = (dense_t){w[7], w[8], 1, 1, 0};
        *c = (dense_t){w[9], w[10], 1, 1, 0};
        *op = w[11];
    } else if (a->op == TD_SPARSE_MATMAT) {
        *b = (dense_t){w[7], w[8], w[9], w[10], w[11]};
        *c = (dense_t){w[12], w[13], w[14], w[15], w[16]};
        *op = w[17];
    }
    if (a->type == TD_TYPE_INVALID || a->index == TD_TYPE_INVALID)
        return td_fail(err, TD_UNSUPPORTED, "cudaDataType %d with cusparseIndexType %d", w[0], w[1]);
    if (a->rows < 0 || a->cols < 0 || a->nnz < 0 || a->batch < 1 || a->a_stride < 0)
        return td_fail(err, TD_MISMATCH, "sparse matrix of %d x %d, %d entries, batch %d, stride %d", w[2], w[3],
                       w[4], w[5], w[6]);
    if (a->batch > 1 && (a->csr || a->op != TD_SPARSE_MATMAT))
        return td_fail(err, TD_UNSUPPORTED, "a batch of %lld", (long long)a->batch);
    return TD_OK;
}

/* Elements that a strided batch spans: all factors are below 2^31. */
static int64_t span(int64_t batch, int64_t stride, int64_t n) { return (batch - 1) * stride + n; }

static td_status_t check_sparse(const td_sparse_t *a, const td_shape_t *values, const td_shape_t *i1,
                                const td_shape_t *i2, td_err_t *err) {
    int64_t n = span(a->batch, a->a_stride, a->nnz);
    td_status_t s = td_hc_array("values", values, a->type, n, err);
    if (s || (s = td_hc_array(a->csr ? "columns" : "rows", i1, a->index, n, err))) return s;
    return td_hc_array(a->csr ? "row pointers" : "columns", i2, a->index, a->csr ? a->rows + 1 : n, err);
}

static td_status_t check_product(td_sparse_t *a, const td_custom_call_desc_t *d, const dense_t *b, const dense_t *c,
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
    if (b->batch != c->batch || (a->op == TD_SPARSE_MATMAT && !a->csr && b->batch != a->batch) || b->stride < 0 ||
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

td_status_t td_linalg_sparse(const td_custom_call_desc_t *d, td_sparse_t *a, td_err_t *err) {
    dense_t b = {0}, c = {0};
    int32_t op = 0;
    *a = (td_sparse_t){0};
    read_target(a, d->target);
    bool from = a->op == TD_SPARSE_FROMDENSE;
    td_status_t s = td_hc_arity(d, from ? 1 : a->op == TD_SPARSE_TODENSE ? 3 : 4, from ? 4 : 2, err);
    if (s || (s = read_opaque(a, d, &b, &c, &op, err))) return s;
    const td_shape_t *const *sparse = from ? d->results : d->operands;
    if ((s = check_sparse(a, sparse[0], sparse[1], sparse[2], err))) return s;
    if (a->op >= TD_SPARSE_MATVEC) return check_product(a, d, &b, &c, op, err);
    return td_hc_array("the dense matrix", from ? d->operands[0] : d->results[0], a->type, a->rows * a->cols, err);
}
