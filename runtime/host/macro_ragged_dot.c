/* SPDX-License-Identifier: Apache-2.0 */
/* ragged-dot: one dimension of the left operand is cut into groups of the sizes given as third operand.
 *
 * By where that dimension stands:
 *   non-contracting  [b,p,R,f,k] . [b,g,k,n] -> [b,p,R,f,n], each row by its group's matrix
 *   contracting      [b,q,m,R,s] . [b,q,R,s,n] -> [g,b,m,n], each group's part of the sum
 *   batch            an ordinary dot
 * Group sizes are [g] or have the dimensions before the ragged one (b,p or b,q) in front. Rows after the last group
 * belong to none: their results are 0. Operands are brought into the forms above first, in the type of the sums. */
#include <cblas.h>
#include <string.h>

#include "runtime/host/macro_ops.h"

enum { NON_CONTRACTING, CONTRACTING, BATCH };

typedef struct array {
    td_type_t type;
    size_t count;
    bool convert;
    td_strided_t form; /* to the form above; of the result, from it */
    uint64_t wide_at, form_at;
} array_t;
typedef struct ragged {
    int mode;
    td_type_t type, index;
    array_t a, b, c;
    td_dims_t sizes; /* prefix, groups */
    int64_t batches, prefix, rows, inner, groups, m, n, k; /* inner: f or s; m: contracting and batch */
} ragged_t;

/* Dimensions of one operand by their part in the product. */
typedef struct parts {
    td_dims_t batch, before, ragged, after, free, contract, group;
} parts_t;

/* One of the list's dimensions is the ragged one: those before and after it, in order. */
static void cut(const td_shape_t *s, const int64_t *st, td_ints_t list, uint32_t at, parts_t *p) {
    for (uint32_t i = 0; i < list.n; i++) {
        td_dims_t *to = i < at ? &p->before : i == at ? &p->ragged : &p->after;
        td_dims_add(to, s->dims[list.v[i]], st[list.v[i]]);
    }
}

static uint32_t position(td_ints_t v, int64_t d) {
    uint32_t i = 0;
    while (i < v.n && v.v[i] != d) i++;
    return i;
}

static bool has(td_ints_t v, int64_t d) { return position(v, d) < v.n; }

static td_status_t split(const td_hlo_instr_t *instr, parts_t *l, parts_t *r, int *mode, td_err_t *err) {
    const td_dot_dims_t *d = instr->dot;
    const td_shape_t *a = td_operand(instr, 0), *b = td_operand(instr, 1);
    int64_t as[TD_LIMIT_RANK], bs[TD_LIMIT_RANK], x = d->lhs_ragged.v[0], f[TD_LIMIT_RANK];
    uint64_t sa = 0, sb = 0;
    td_shape_strides(a, as);
    td_shape_strides(b, bs);
    td_status_t st = td_dims_take(instr, d->lhs_batch, a, as, &sa, &l->batch, err);
    if (!st) st = td_dims_take(instr, d->lhs_contracting, a, as, &sa, &l->contract, err);
    if (!st) st = td_dims_take(instr, d->rhs_batch, b, bs, &sb, &r->batch, err);
    if (!st) st = td_dims_take(instr, d->rhs_contracting, b, bs, &sb, &r->contract, err);
    if (!st) st = td_dims_take(instr, d->rhs_group, b, bs, &sb, &r->group, err);
    if (st) return st;
    TD_NEED(x >= 0 && x < a->rank, "ragged dimension %lld", (long long)x);
    td_ints_t free_dims = {f, 0};
    for (uint32_t i = 0; i < a->rank; i++)
        if (!(sa >> i & 1)) f[free_dims.n++] = i;
    *mode = has(d->lhs_batch, x) ? BATCH : has(d->lhs_contracting, x) ? CONTRACTING : NON_CONTRACTING;
    if (*mode == NON_CONTRACTING) {
        cut(a, as, free_dims, position(free_dims, x), l);
    } else {
        for (uint32_t i = 0; i < free_dims.n; i++) td_dims_add(&l->free, a->dims[f[i]], as[f[i]]);
        if (*mode == CONTRACTING) {
            uint32_t at = position(d->lhs_contracting, x);
            cut(a, as, d->lhs_contracting, at, l);
            cut(b, bs, d->rhs_contracting, at, r);
        }
    }
    TD_NEED(r->group.rank == (*mode == NON_CONTRACTING ? 1u : 0u), "%u group dimensions", r->group.rank);
    for (uint32_t i = 0; i < b->rank; i++)
        if (!(sb >> i & 1)) td_dims_add(&r->free, b->dims[i], bs[i]);
    bool same = l->batch.rank == r->batch.rank && l->contract.rank == r->contract.rank;
    for (uint32_t i = 0; same && i < l->batch.rank; i++) same = l->batch.n[i] == r->batch.n[i];
    for (uint32_t i = 0; same && i < l->contract.rank; i++) same = l->contract.n[i] == r->contract.n[i];
    TD_NEED(same, "batch or contracting dimensions differ");
    return TD_OK;
}

static void append(td_dims_t *to, const td_dims_t *from) {
    for (uint32_t i = 0; i < from->rank; i++) td_dims_add(to, from->n[i], from->stride[i]);
}

/* The form: these dimensions, row-major. */
static bool form(const td_shape_t *s, td_type_t type, const td_dims_t *d, bool into, array_t *a, uint64_t *total) {
    int64_t row[TD_LIMIT_RANK], n = 1;
    for (uint32_t i = d->rank; i-- > 0;) {
        row[i] = n;
        if (s->count) n *= d->n[i];
    }
    a->type = s->type, a->count = (size_t)s->count, a->convert = s->type != type;
    if (into) td_strided_plan(&a->form, td_type_bytes(type), d->rank, d->n, row, d->stride);
    else td_strided_plan(&a->form, td_type_bytes(type), d->rank, d->n, d->stride, row);
    return td_reserve(total, (uint64_t)s->count, td_type_bytes(type), &a->form_at) &&
           (!a->convert || td_reserve(total, (uint64_t)s->count, td_type_bytes(type), &a->wide_at));
}

static td_type_t sum_type(td_type_t a, td_type_t b, td_type_t c) {
    const td_type_t t[3] = {a, b, c};
    bool wide = false, pair = false, real = false;
    for (int i = 0; i < 3; i++) {
        wide |= t[i] == TD_F64 || t[i] == TD_C128;
        pair |= td_type_is_complex(t[i]);
        real |= td_type_is_float(t[i]);
    }
    if (pair) return wide ? TD_C128 : TD_C64;
    return real ? wide ? TD_F64 : TD_F32 : TD_S64;
}

static td_status_t group_sizes(const td_hlo_instr_t *instr, const parts_t *l, ragged_t *x, td_err_t *err) {
    const td_shape_t *s = td_operand(instr, 2);
    td_dims_t prefix = l->batch;
    int64_t st[TD_LIMIT_RANK];
    append(&prefix, &l->before);
    TD_NEED(td_is_index_type(s->type) && s->rank && (s->rank == 1 || s->rank == prefix.rank + 1),
            "group sizes of rank %u", s->rank);
    td_shape_strides(s, st);
    for (uint32_t i = 0; i < prefix.rank; i++) {
        TD_NEED(s->rank == 1 || s->dims[i] == prefix.n[i], "dimension %u of the group sizes", i);
        td_dims_add(&x->sizes, prefix.n[i], s->rank == 1 ? 0 : st[i]);
    }
    x->groups = s->dims[s->rank - 1], x->index = s->type;
    td_dims_add(&x->sizes, x->groups, st[s->rank - 1]);
    return TD_OK;
}

/* Result dimensions are those of the form; gives them the result's strides. */
static td_status_t result(const td_hlo_instr_t *instr, td_dims_t *d, td_err_t *err) {
    const td_shape_t *o = instr->shape;
    TD_NEED(td_type_is_array(o->type) && o->rank == d->rank, "result rank %u", o->rank);
    td_shape_strides(o, d->stride);
    for (uint32_t i = 0; i < o->rank; i++) TD_NEED(o->dims[i] == d->n[i], "result dimension %u", i);
    return TD_OK;
}

td_status_t td_ragged_dot_prepare(const td_hlo_instr_t *instr, td_arena_t *arena, void **out_state,
                                  uint64_t *out_scratch, td_err_t *err) {
    TD_NEED(instr->dot && instr->n_operands == 3 && instr->dot->lhs_ragged.n == 1,
            "%u operands, or not one ragged dimension", instr->n_operands);
    const td_shape_t *a = td_operand(instr, 0), *b = td_operand(instr, 1), *o = instr->shape;
    TD_NEED(td_type_is_array(a->type) && td_type_is_array(b->type), "not arrays");
    TD_NEED_AS(TD_UNSUPPORTED, a->rank + b->rank < TD_LIMIT_RANK, "ranks %u and %u", a->rank, b->rank);
    parts_t *p = TD_NEW_N(arena, parts_t, 2);
    td_dims_t *d = TD_NEW_N(arena, td_dims_t, 3);
    ragged_t *x = TD_NEW(arena, ragged_t);
    if (!p || !d || !x) return td_arena_fail(arena, err);
    td_status_t st = split(instr, &p[0], &p[1], &x->mode, err);
    if (!st && x->mode != BATCH) st = group_sizes(instr, &p[0], x, err);
    if (st) return st;
    bool rows = x->mode == NON_CONTRACTING, sums = x->mode == CONTRACTING;
    TD_NEED(!rows || x->groups == p[1].group.n[0], "%lld group sizes for %lld groups", (long long)x->groups,
            rows ? (long long)p[1].group.n[0] : 0);
    bool empty = !a->count || !b->count || !o->count; /* then zeros are all there is */
    if (empty) x->mode = BATCH;
    else
        x->batches = td_dims_count(&p[0].batch), x->prefix = td_dims_count(&p[0].before),
        x->inner = td_dims_count(&p[0].after);
    if (!empty)
        x->rows = td_dims_count(&p[0].ragged), x->m = td_dims_count(&p[0].free), x->n = td_dims_count(&p[1].free),
        x->k = td_dims_count(&p[0].contract);
    if (sums) td_dims_add(&d[2], x->groups, 0);
    append(&d[0], &p[0].batch), append(&d[1], &p[1].batch), append(&d[2], &p[0].batch);
    append(&d[0], &p[0].before), append(&d[1], &p[1].before), append(&d[0], &p[0].free);
    append(&d[0], &p[0].ragged), append(&d[1], &p[1].ragged), append(&d[0], &p[0].after), append(&d[1], &p[1].after);
    append(&d[1], &p[1].group);
    if (!sums) append(&d[0], &p[0].contract), append(&d[1], &p[1].contract);
    append(&d[1], &p[1].free);
    if (rows) append(&d[2], &p[0].before), append(&d[2], &p[0].ragged), append(&d[2], &p[0].after);
    else append(&d[2], &p[0].free);
    append(&d[2], &p[1].free);
    if ((st = result(instr, &d[2], err))) return st;
    x->type = sum_type(a->type, b->type, o->type);
    *out_scratch = 0;
    TD_NEED_AS(TD_LIMIT,
               form(a, x->type, &d[0], true, &x->a, out_scratch) && form(b, x->type, &d[1], true, &x->b, out_scratch) &&
                   form(o, x->type, &d[2], false, &x->c, out_scratch),
               "scratch overflows");
    const int64_t all[4] = {x->m, x->n, x->k, x->rows * x->inner};
    for (int i = 0; i < 4; i++)
        TD_NEED_AS(TD_UNSUPPORTED, all[i] <= INT32_MAX, "a matrix is larger than BLAS can index");
    *out_state = x;
    return TD_OK;
}

/* C[m,n] += A[m,k] B[k,n], row-major with these leading dimensions. */
static void multiply(td_type_t t, int64_t m, int64_t n, int64_t k, const void *a, int64_t la, const void *b, int64_t lb,
                     void *c) {
    static const double one[2] = {1, 0};
    static const float onef[2] = {1, 0};
    int M = (int)m, N = (int)n, K = (int)k, A = (int)la, B = (int)lb;
    if (!m || !n || !k) return;
    switch (t) {
    case TD_F32: cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, M, N, K, 1, a, A, b, B, 1, c, N); return;
    case TD_F64: cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, M, N, K, 1, a, A, b, B, 1, c, N); return;
    case TD_C64: cblas_cgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, M, N, K, onef, a, A, b, B, onef, c, N); return;
    case TD_C128: cblas_zgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, M, N, K, one, a, A, b, B, one, c, N); return;
    default: break;
    }
    const uint64_t *x = a, *y = b;
    uint64_t *z = c;
    for (int64_t i = 0; i < m; i++)
        for (int64_t l = 0; l < k; l++)
            for (int64_t j = 0; j < n; j++) z[i * n + j] += x[i * la + l] * y[l * lb + j];
}

/* Calls for each group of batch and prefix number `at`: rows [from, from + count). */
static int64_t group(const ragged_t *x, const void *sizes, int64_t at, int64_t g, int64_t *from) {
    int64_t off, size, left = x->rows - *from;
    td_dims_offsets(&x->sizes, at * x->groups + g, 1, &off);
    size = td_index_at(x->index, sizes, off);
    return size < 0 ? 0 : size > left ? left : size;
}

static void run_groups(const ragged_t *x, const char *a, const char *b, char *c, const void *sizes) {
    int64_t e = td_type_bytes(x->type);
    bool rows = x->mode == NON_CONTRACTING;
    for (int64_t i = 0; i < x->batches * x->prefix; i++) {
        int64_t from = 0, batch = i / x->prefix;
        for (int64_t g = 0; g < x->groups; g++) {
            int64_t count = group(x, sizes, i, g, &from), len = count * x->inner, at = from * x->inner,
                    whole = x->rows * x->inner;
            from += count;
            if (rows) /* one matrix for the group's rows */
                multiply(x->type, len, x->n, x->k, a + (i * whole + at) * x->k * e, x->k,
                         b + (batch * x->groups + g) * x->k * x->n * e, x->n, c + (i * whole + at) * x->n * e);
            else
                multiply(x->type, x->m, x->n, len, a + (i * x->m * whole + at) * e, whole,
                         b + (i * whole + at) * x->n * e, x->n, c + (g * x->batches + batch) * x->m * x->n * e);
        }
    }
}

static const char *ready(const ragged_t *x, const array_t *s, const void *p, char *scratch) {
    if (s->convert) {
        td_convert_array(s->type, p, x->type, scratch + s->wide_at, s->count);
        p = scratch + s->wide_at;
    }
    td_strided_copy(&s->form, scratch + s->form_at, p);
    return scratch + s->form_at;
}

void td_ragged_dot_run(const void *state, const void *const *in, void *const *out, void *scratch) {
    const ragged_t *x = state;
    char *s = scratch, *c = s + x->c.form_at;
    int64_t e = td_type_bytes(x->type);
    if (!x->c.count) return;
    memset(c, 0, x->c.count * (size_t)e);
    const char *a = ready(x, &x->a, in[0], s), *b = ready(x, &x->b, in[1], s);
    if (x->mode != BATCH) run_groups(x, a, b, c, in[2]);
    for (int64_t i = 0; x->mode == BATCH && i < x->batches; i++)
        multiply(x->type, x->m, x->n, x->k, a + i * x->m * x->k * e, x->k, b + i * x->k * x->n * e, x->n,
                 c + i * x->m * x->n * e);
    void *wide = x->c.convert ? s + x->c.wide_at : out[0];
    td_strided_copy(&x->c.form, wide, c);
    if (x->c.convert) td_convert_array(x->type, wide, x->c.type, out[0], x->c.count);
}
