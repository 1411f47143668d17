/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/ffi/linalg.h"

#include <limits.h>

static td_status_t square(const td_mats_t *a, td_err_t *err) {
    if (a->rows == a->cols) return TD_OK;
    return td_fail(err, TD_MISMATCH, "a matrix of %d x %d is not square", a->rows, a->cols);
}
/* A result that is a matrix like a. */
static td_status_t like(const char *what, const td_shape_t *s, const td_mats_t *a, td_err_t *err) {
    return td_hc_expect(what, s, a->type, TD_COL_MAJOR, a->batch, 2, a->rows, a->cols, err);
}
/* The first operand and the first result: square, alike, with the attribute lower. */
static td_status_t symmetric(const td_custom_call_desc_t *d, td_linalg_t *l, td_err_t *err) {
    td_status_t s = td_hc_bool(d, "lower", &l->lower, err);
    if (s || (s = td_hc_mats("a", d->operands[0], TD_COL_MAJOR, &l->a, err)) || (s = square(&l->a, err))) return s;
    l->k = l->a.rows;
    return like("out", d->results[0], &l->a, err);
}

td_status_t td_linalg_potrf(const td_custom_call_desc_t *d, td_linalg_t *l, td_err_t *err) {
    td_status_t s = td_hc_arity(d, 1, 2, err);
    *l = (td_linalg_t){0};
    if (s || (s = symmetric(d, l, err))) return s;
    return td_hc_batch("info", d->results[1], TD_S32, l->a.batch, err);
}

/* The first operand, any matrix, and the first result like it. */
static td_status_t general(const td_custom_call_desc_t *d, td_linalg_t *l, td_err_t *err) {
    *l = (td_linalg_t){0};
    td_status_t s = td_hc_mats("a", d->operands[0], TD_COL_MAJOR, &l->a, err);
    if (s) return s;
    l->k = (int)td_min64(l->a.rows, l->a.cols);
    return like("out", d->results[0], &l->a, err);
}

td_status_t td_linalg_getrf(const td_custom_call_desc_t *d, td_linalg_t *l, td_err_t *err) {
    td_status_t s = td_hc_arity(d, 1, 3, err);
    if (s || (s = general(d, l, err)) || (s = td_hc_vec("ipiv", d->results[1], TD_S32, l->a.batch, l->k, err)))
        return s;
    return td_hc_batch("info", d->results[2], TD_S32, l->a.batch, err);
}

td_status_t td_linalg_geqrf(const td_custom_call_desc_t *d, td_linalg_t *l, td_err_t *err) {
    td_status_t s = td_hc_arity(d, 1, 2, err);
    if (s || (s = general(d, l, err))) return s;
    return td_hc_vec("tau", d->results[1], l->a.type, l->a.batch, l->k, err);
}

/* The reflectors' factors, operand 1; how many there are. */
static td_status_t tau(const td_custom_call_desc_t *d, const td_linalg_t *l, int64_t *k, td_err_t *err) {
    int64_t batch = 0;
    td_status_t s = td_hc_split("tau", d->operands[1], &batch, k, err);
    return s ? s : td_hc_vec("tau", d->operands[1], l->a.type, l->a.batch, *k, err);
}

td_status_t td_linalg_orgqr(const td_custom_call_desc_t *d, td_linalg_t *l, td_err_t *err) {
    int64_t k = 0;
    td_status_t s = td_hc_arity(d, 2, 1, err);
    if (s || (s = general(d, l, err)) || (s = tau(d, l, &k, err))) return s;
    if (k > l->a.cols || l->a.cols > l->a.rows)
        return td_fail(err, TD_MISMATCH, "%lld reflectors for a matrix of %d x %d, expected k <= n <= m", (long long)k,
                       l->a.rows, l->a.cols);
    l->k = (int)k;
    return TD_OK;
}

td_status_t td_linalg_ormqr(const td_custom_call_desc_t *d, td_linalg_t *l, td_err_t *err) {
    int64_t k = 0;
    *l = (td_linalg_t){0};
    td_status_t s = td_hc_arity(d, 3, 1, err);
    if (s || (s = td_hc_bool(d, "left", &l->left, err)) || (s = td_hc_bool(d, "transpose", &l->transpose, err)) ||
        (s = td_hc_mats("a", d->operands[0], TD_COL_MAJOR, &l->a, err)) || (s = tau(d, l, &k, err)) ||
        (s = td_hc_mats("c", d->operands[2], TD_COL_MAJOR, &l->c, err)) ||
        (s = td_hc_expect("c", d->operands[2], l->a.type, TD_COL_MAJOR, l->a.batch, 2, l->c.rows, l->c.cols, err)) ||
        (s = like("out", d->results[0], &l->c, err)))
        return s;
    int order = l->left ? l->c.rows : l->c.cols;
    if (l->a.rows != order || k > order || k > l->a.cols)
        return td_fail(err, TD_MISMATCH, "%lld reflectors in %d x %d for c of %d x %d", (long long)k, l->a.rows,
                       l->a.cols, l->c.rows, l->c.cols);
    l->k = (int)k;
    return TD_OK;
}

td_status_t td_linalg_syevd(const td_custom_call_desc_t *d, td_linalg_t *l, td_err_t *err) {
    int64_t algorithm = 0;
    *l = (td_linalg_t){0};
    td_status_t s = td_hc_arity(d, 1, 3, err);
    if (s || (s = td_hc_int(d, "algorithm", &algorithm, err)) || (s = symmetric(d, l, err)) ||
        (s = td_hc_vec("w", d->results[1], td_real_of(l->a.type), l->a.batch, l->a.rows, err)) ||
        (s = td_hc_batch("info", d->results[2], TD_S32, l->a.batch, err)))
        return s;
    if (algorithm < 0 || algorithm > 2)
        return td_fail(err, TD_UNSUPPORTED, "algorithm %lld, expected 0, 1 or 2", (long long)algorithm);
    l->algorithm = (int)algorithm;
    return TD_OK;
}

td_status_t td_linalg_sytrd(const td_custom_call_desc_t *d, td_linalg_t *l, td_err_t *err) {
    *l = (td_linalg_t){0};
    td_status_t s = td_hc_arity(d, 1, 5, err);
    if (s || (s = symmetric(d, l, err))) return s;
    int64_t n = l->a.rows, off = n ? n - 1 : 0;
    td_type_t real = td_real_of(l->a.type);
    if ((s = td_hc_vec("d", d->results[1], real, l->a.batch, n, err)) ||
        (s = td_hc_vec("e", d->results[2], real, l->a.batch, off, err)) ||
        (s = td_hc_vec("tau", d->results[3], l->a.type, l->a.batch, off, err)))
        return s;
    return td_hc_batch("info", d->results[4], TD_S32, l->a.batch, err);
}

td_status_t td_linalg_syrk(const td_custom_call_desc_t *d, td_linalg_t *l, td_err_t *err) {
    *l = (td_linalg_t){0};
    td_status_t s = td_hc_arity(d, 4, 1, err);
    if (s || (s = td_hc_bool(d, "transpose", &l->transpose, err)) ||
        (s = td_hc_mats("a", d->operands[0], TD_ROW_MAJOR, &l->a, err)))
        return s;
    int n = l->transpose ? l->a.rows : l->a.cols; /* the view is the array's transpose */
    l->k = l->transpose ? l->a.cols : l->a.rows;
    if ((s = td_hc_mats("c_in", d->operands[1], TD_ROW_MAJOR, &l->c, err)) ||
        (s = td_hc_expect("c_in", d->operands[1], l->a.type, TD_ROW_MAJOR, l->a.batch, 2, n, n, err)) ||
        (s = td_hc_expect("alpha", d->operands[2], l->a.type, TD_ROW_MAJOR, 1, 0, 0, 0, err)) ||
        (s = td_hc_expect("beta", d->operands[3], l->a.type, TD_ROW_MAJOR, 1, 0, 0, 0, err)))
        return s;
    return td_hc_expect("c_out", d->results[0], l->a.type, TD_ROW_MAJOR, l->a.batch, 2, n, n, err);
}

static td_status_t svd_attrs(const td_custom_call_desc_t *d, td_linalg_t *l, td_err_t *err) {
    *l = (td_linalg_t){0};
    td_status_t s = td_hc_arity(d, 1, 5, err);
    if (s || (s = td_hc_bool(d, "full_matrices", &l->full, err))) return s;
    return td_hc_bool(d, "compute_uv", &l->vectors, err);
}

td_status_t td_linalg_gesvd(const td_custom_call_desc_t *d, td_linalg_t *l, td_err_t *err) {
    td_status_t s = svd_attrs(d, l, err);
    if (s || (s = td_hc_bool(d, "transposed", &l->transpose, err))) return s;
    td_order_t order = l->transpose ? TD_ROW_MAJOR : TD_COL_MAJOR;
    bool t = l->transpose;
    if ((s = td_hc_mats("a", d->operands[0], order, &l->a, err))) return s;
    int m = l->a.rows, n = l->a.cols, u = l->full ? m : n;
    if (m < n) return td_fail(err, TD_UNSUPPORTED, "%d x %d, expected at least as many rows as columns", m, n);
    l->k = n;
    if ((s = td_hc_expect("out", d->results[0], l->a.type, order, l->a.batch, 2, t ? n : m, t ? m : n, err)) ||
        (s = td_hc_vec("s", d->results[1], td_real_of(l->a.type), l->a.batch, n, err)) ||
        (s = td_hc_batch("info", d->results[4], TD_S32, l->a.batch, err)) || !l->vectors)
        return s;
    if ((s = td_hc_expect("u", d->results[2], l->a.type, order, l->a.batch, 2, t ? u : m, t ? m : u, err))) return s;
    return td_hc_expect("vt", d->results[3], l->a.type, order, l->a.batch, 2, n, n, err);
}

td_status_t td_linalg_gesvdj(const td_custom_call_desc_t *d, td_linalg_t *l, td_err_t *err) {
    td_linalg_t flags = {0};
    td_status_t s = svd_attrs(d, &flags, err);
    if (s || (s = general(d, l, err))) return s;
    l->full = flags.full, l->vectors = flags.vectors;
    int m = l->a.rows, n = l->a.cols, k = l->k;
    if ((s = td_hc_vec("s", d->results[1], td_real_of(l->a.type), l->a.batch, k, err)) ||
        (s = td_hc_expect("u", d->results[2], l->a.type, TD_COL_MAJOR, l->a.batch, 2, m, l->full ? m : k, err)) ||
        (s = td_hc_expect("v", d->results[3], l->a.type, TD_COL_MAJOR, l->a.batch, 2, n, l->full ? n : k, err)))
        return s;
    return td_hc_batch("info", d->results[4], TD_S32, l->a.batch, err);
}

td_status_t td_linalg_tridiagonal(const td_custom_call_desc_t *d, td_linalg_t *l, td_err_t *err) {
    static const char *const names[] = {"dl", "d", "du"};
    *l = (td_linalg_t){0};
    td_status_t s = td_hc_arity(d, 4, 1, err);
    if (s || (s = td_hc_mats("b", d->operands[3], TD_COL_MAJOR, &l->a, err)) ||
        (s = like("x", d->results[0], &l->a, err)))
        return s;
    for (uint32_t i = 0; i < 3; i++)
        if ((s = td_hc_vec(names[i], d->operands[i], l->a.type, l->a.batch, l->a.rows, err))) return s;
    return TD_OK;
}

td_status_t td_linalg_cholesky_update(const td_custom_call_desc_t *d, td_linalg_t *l, td_err_t *err) {
    td_mats_t *r = &l->a;
    *l = (td_linalg_t){0};
    td_status_t s = td_hc_arity(d, 2, 2, err);
    if (s || (s = td_hc_mats("R", d->operands[0], TD_ROW_MAJOR, r, err))) return s;
    if (r->type != TD_F32 && r->type != TD_F64)
        return td_fail(err, TD_UNSUPPORTED, "element type %s, expected f32 or f64", td_type_name(r->type));
    if ((s = square(r, err))) return s;
    if (r->batch > 1) return td_fail(err, TD_UNSUPPORTED, "a batch of %lld, expected one matrix", (long long)r->batch);
    if ((s = td_hc_vec("x", d->operands[1], r->type, r->batch, r->rows, err)) ||
        (s = td_hc_expect("R'", d->results[0], r->type, TD_ROW_MAJOR, r->batch, 2, r->rows, r->cols, err)))
        return s;
    return td_hc_vec("x'", d->results[1], r->type, r->batch, r->rows, err);
}

td_status_t td_linalg_pivots(const td_custom_call_desc_t *d, td_pivots_t *v, td_err_t *err) {
    int64_t batch = 0;
    td_status_t s = td_hc_arity(d, 1, 1, err);
    if (s || (s = td_hc_split("pivots", d->operands[0], &v->batch, &v->p, err)) ||
        (s = td_hc_split("permutation", d->results[0], &batch, &v->q, err)) ||
        (s = td_hc_vec("pivots", d->operands[0], TD_S32, v->batch, v->p, err)) ||
        (s = td_hc_vec("permutation", d->results[0], TD_S32, v->batch, v->q, err)))
        return s;
    if (v->q >= v->p && v->q <= INT_MAX) return TD_OK;
    return td_fail(err, TD_MISMATCH, "a permutation of %lld for %lld pivots", (long long)v->q, (long long)v->p);
}

td_status_t td_linalg_csrlsvqr(const td_custom_call_desc_t *d, td_spsolve_t *p, td_err_t *err) {
    int64_t reorder = 0;
    *p = (td_spsolve_t){0};
    td_status_t s = td_hc_arity(d, 4, 1, err);
    if (s || (s = td_hc_int(d, "reorder", &reorder, err))) return s;
    if (!td_attr_f64(d->attrs, "tol", &p->tol))
        return td_fail(err, TD_MISMATCH, "attribute 'tol' is missing or no float");
    p->reorder = (int)reorder;
    p->type = d->operands[0]->type;
    p->nnz = d->operands[0]->count;
    p->n = d->operands[3]->count;
    if ((s = td_hc_solver_type(p->type, err)) || (s = td_hc_vec("values", d->operands[0], p->type, 1, p->nnz, err)) ||
        (s = td_hc_vec("columns", d->operands[1], TD_S32, 1, p->nnz, err)) ||
        (s = td_hc_vec("row pointers", d->operands[2], TD_S32, 1, p->n + 1, err)) ||
        (s = td_hc_vec("b", d->operands[3], p->type, 1, p->n, err)))
        return s;
    return td_hc_vec("x", d->results[0], p->type, 1, p->n, err);
}

td_status_t td_linalg_threefry(const td_custom_call_desc_t *d, int64_t *out, td_err_t *err) {
    static const char *const names[] = {"key0", "key1", "data0", "data1", "out0", "out1"};
    td_status_t s = td_hc_arity(d, 4, 2, err);
    if (s) return s;
    const td_shape_t *same = d->results[0];
    for (uint32_t i = 0; i < 6; i++) {
        const td_shape_t *a = i < 4 ? d->operands[i] : d->results[i - 4];
        if (a->type == TD_U32 && (a == same || td_shape_equal(a, same))) continue;
        char have[160], want[160];
        return td_fail(err, TD_MISMATCH, "%s is %s, expected u32 in the shape of out0, %s", names[i],
                       td_shape_print(a, true, have, sizeof have), td_shape_print(same, true, want, sizeof want));
    }
    *out = same->count;
    return TD_OK;
}

td_status_t td_linalg_geev(const td_custom_call_desc_t *d, td_linalg_t *l, td_err_t *err) {
    bool left = false, right = false;
    td_status_t s = td_hc_arity(d, 1, 5, err);
    if (s || (s = td_hc_bool(d, "left", &left, err)) || (s = td_hc_bool(d, "right", &right, err)) ||
        (s = td_hc_mats("a", d->operands[0], TD_COL_MAJOR, &l->a, err)) || (s = square(&l->a, err)) ||
        (s = general(d, l, err)))
        return s;
    l->left = left, l->vectors = right;
    td_type_t t = l->a.type, complex_type = td_real_of(t) == TD_F32 ? TD_C64 : TD_C128;
    int n = l->a.rows;
    bool real = d->results[1]->type == t && !td_type_is_complex(t);
    l->algorithm = real;
    if ((s = td_hc_vec("w", d->results[1], real ? t : complex_type, l->a.batch, real ? 2 * (int64_t)n : n, err)) ||
        (left && (s = td_hc_expect("vl", d->results[2], t, TD_COL_MAJOR, l->a.batch, 2, n, n, err))) ||
        (right && (s = td_hc_expect("vr", d->results[3], t, TD_COL_MAJOR, l->a.batch, 2, n, n, err))))
        return s;
    return td_hc_batch("info", d->results[4], TD_S32, l->a.batch, err);
}
