/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/ffi/shapes.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"

td_status_t td_hc_arity(const td_custom_call_desc_t *d, uint32_t n_operands, uint32_t n_results, td_err_t *err) {
    if (d->n_operands != n_operands || d->n_results != n_results)
        return td_fail(err, TD_MISMATCH, "%u operands and %u results, expected %u and %u", d->n_operands,
                       d->n_results, n_operands, n_results);
    for (uint32_t i = 0; i < n_operands + n_results; i++) {
        const td_shape_t *s = i < n_operands ? d->operands[i] : d->results[i - n_operands];
        if (!s || !td_type_is_array(s->type))
            return td_fail(err, TD_MISMATCH, "%s %u is not an array", i < n_operands ? "operand" : "result",
                           i < n_operands ? i : i - n_operands);
    }
    return TD_OK;
}

td_status_t td_hc_solver_type(td_type_t t, td_err_t *err) {
    if (t == TD_F32 || t == TD_F64 || t == TD_C64 || t == TD_C128) return TD_OK;
    return td_fail(err, TD_UNSUPPORTED, "element type %s, expected f32, f64, c64 or c128", td_type_name(t));
}

/* Dimensions of size 1 lie anywhere; an empty array lies in every order. */
static bool in_order(const td_shape_t *s, td_order_t order) {
    uint32_t k = 0;
    if (s->count == 0) return true;
    for (uint32_t i = 0; i < s->rank; i++) {
        uint32_t dim = s->rank - 1 - i;
        if (order == TD_COL_MAJOR && i < 2 && s->rank >= 2) dim = s->rank - 2 + i;
        if (s->dims[dim] == 1) continue;
        while (k < s->rank && s->dims[s->minor_to_major[k]] == 1) k++;
        if (k == s->rank || s->minor_to_major[k++] != (int32_t)dim) return false;
    }
    return true;
}

static td_status_t wrong(const char *what, const td_shape_t *s, const char *why, td_err_t *err) {
    char text[160];
    return td_fail(err, TD_MISMATCH, "%s is %s, %s", what, td_shape_print(s, true, text, sizeof text), why);
}

static td_status_t check_order(const char *what, const td_shape_t *s, td_order_t order,
                               td_err_t *err) {
    if (in_order(s, order)) return TD_OK;
    return wrong(what, s, order == TD_COL_MAJOR ? "expected column-major matrices" : "expected the row-major layout",
                 err);
}

/* Product of all dimensions but the last `tail`; a shape's count is checked, but zeros may hide a large product. */
static bool batch_of(const td_shape_t *s, uint32_t tail, int64_t *out) {
    int64_t n = 1;
    if (s->rank < tail) return false;
    for (uint32_t i = 0; i < s->rank - tail; i++)
        if (__builtin_mul_overflow(n, s->dims[i], &n)) return false;
    *out = n;
    return true;
}

td_status_t td_hc_mats(const char *what, const td_shape_t *s, td_order_t order, td_mats_t *out,
                       td_err_t *err) {
    td_status_t st = td_hc_solver_type(s->type, err);
    if (st != TD_OK) return st;
    if (s->rank < 2) return wrong(what, s, "expected a matrix or a batch of them", err);
    int64_t m = s->dims[s->rank - 2], n = s->dims[s->rank - 1], batch = 0;
    if (!batch_of(s, 2, &batch)) return wrong(what, s, "the batch is too large", err);
    if (m > INT_MAX || n > INT_MAX) return wrong(what, s, "a matrix may have 2^31-1 rows and columns", err);
    if ((st = check_order(what, s, order, err)) != TD_OK) return st;
    *out = (td_mats_t){s->type, batch, (int)(order == TD_COL_MAJOR ? m : n), (int)(order == TD_COL_MAJOR ? n : m)};
    return TD_OK;
}

td_status_t td_hc_expect(const char *what, const td_shape_t *s, td_type_t type, td_order_t order,
                         int64_t batch, uint32_t n_dims, int64_t dim0, int64_t dim1, td_err_t *err) {
    char why[160];
    int64_t have = 0, dims[2] = {dim0, dim1};
    bool ok = s->type == type && batch_of(s, n_dims, &have) && have == batch;
    for (uint32_t i = 0; ok && i < n_dims; i++) ok = s->dims[s->rank - n_dims + i] == dims[i];
    if (ok) return check_order(what, s, order, err);
    if (n_dims == 0) snprintf(why, sizeof why, "expected %s for a batch of %lld", td_type_name(type), (long long)batch);
    if (n_dims == 1)
        snprintf(why, sizeof why, "expected %s[%lld] for a batch of %lld", td_type_name(type), (long long)dim0,
                 (long long)batch);
    if (n_dims == 2)
        snprintf(why, sizeof why, "expected %s[%lld,%lld] for a batch of %lld", td_type_name(type), (long long)dim0,
                 (long long)dim1, (long long)batch);
    return wrong(what, s, why, err);
}

td_status_t td_hc_split(const char *what, const td_shape_t *s, int64_t *out_batch, int64_t *out_n,
                        td_err_t *err) {
    if (s->rank < 1 || !batch_of(s, 1, out_batch)) return wrong(what, s, "expected at least one dimension", err);
    *out_n = s->dims[s->rank - 1];
    return check_order(what, s, TD_ROW_MAJOR, err);
}

td_status_t td_hc_array(const char *what, const td_shape_t *s, td_type_t type, int64_t count, td_err_t *err) {
    char why[96];
    snprintf(why, sizeof why, "expected %s and at least %lld elements", td_type_name(type), (long long)count);
    if (s->type != type || s->count < count) return wrong(what, s, why, err);
    return check_order(what, s, TD_ROW_MAJOR, err);
}

td_status_t td_hc_scratch(uint64_t *total, uint64_t count, uint64_t bytes, uint64_t *out_at,
                          td_err_t *err) {
    uint64_t size = 0, end = 0, at = *total;
    if (!td_mul_u64(count, bytes, &size) || size > TD_LIMIT_ALLOCATION_BYTES || !td_add_u64(at, size, &end) ||
        end > TD_LIMIT_ALLOCATION_BYTES)
        return td_fail(err, TD_LIMIT, "%llu work elements of %llu bytes are too many", (unsigned long long)count,
                       (unsigned long long)bytes);
    *out_at = at;
    *total = td_align_up((size_t)end, 64);
    return TD_OK;
}

td_status_t td_hc_state(td_arena_t *arena, const void *state, size_t bytes, void **out, td_err_t *err) {
    void *p = td_arena_zalloc(arena, bytes);
    if (!p) return td_arena_fail(arena, err);
    memcpy(p, state, bytes);
    *out = p;
    return TD_OK;
}

td_type_t td_real_of(td_type_t t) { return t == TD_C64 ? TD_F32 : t == TD_C128 ? TD_F64 : t; }

td_status_t td_hc_bool(const td_custom_call_desc_t *d, const char *name, bool *out, td_err_t *err) {
    if (td_attr_bool(d->attrs, name, out)) return TD_OK;
    return td_fail(err, TD_MISMATCH, "attribute '%s' is %s, expected a boolean", name,
                   td_attr_find(d->attrs, name) < 0 ? "missing" : "of another kind");
}

td_status_t td_hc_int(const td_custom_call_desc_t *d, const char *name, int64_t *out, td_err_t *err) {
    if (td_attr_int(d->attrs, name, out)) return TD_OK;
    return td_fail(err, TD_MISMATCH, "attribute '%s' is %s, expected an integer", name,
                   td_attr_find(d->attrs, name) < 0 ? "missing" : "of another kind");
}
