/* SPDX-License-Identifier: Apache-2.0 */
/* cuBLAS and cuBLASLt products from custom calls.
 *
 * Operands: a, b, [c where beta is not 0], for $f8 [a_scale, b_scale], [bias], for $f8 with 8-bit results [d_scale].
 * Results: d, [aux], [amax], [scratch]. Matrices come from the shapes' layouts: batch, row and column dimensions each
 * lie one behind the other, so that each group has one stride.
 * Source: xla/service/gpu/matmul_utils.cc (GemmConfig::For, MatrixLayout::For), transforms/gemm_rewriter.cc. */
#include <string.h>

#include "base/checked.h"
#include "runtime/scheduled_in.h"

typedef Xla__GemmConfigProto__MatrixLayout layout_t;

typedef struct group {
    int64_t size, stride;
} group_t;

/* Several dimensions as one; those of size 1 lie anywhere. */
static bool collapse(const td_shape_t *s, const int64_t *strides, const int64_t *dims, uint32_t n, group_t *g) {
    bool first = true;
    uint64_t size = 1, next = 0;
    *g = (group_t){1, 1};
    for (uint32_t k = n; k-- > 0;) {
        int64_t len = s->dims[dims[k]], stride = strides[dims[k]];
        if (len == 1) continue;
        if (!s->count) next = (uint64_t)stride; /* an empty array lies anywhere */
        if (first) g->stride = stride;
        else if ((uint64_t)stride != next) return false;
        first = false;
        if (!td_mul_u64(size, (uint64_t)len, &size) || size > INT64_MAX ||
            !td_mul_u64((uint64_t)g->stride, size, &next)) return false;
    }
    g->size = (int64_t)size;
    return true;
}

static td_status_t matrix(td_sched_t *s, const char *what, const td_shape_t *shape, td_ints_t batch, td_ints_t rows,
                          td_ints_t cols, layout_t **out) {
    int64_t strides[TD_LIMIT_RANK];
    group_t b, r, c;
    layout_t *m = TD_NEW(s->arena, layout_t);
    if (!m) return td_arena_fail(s->arena, s->err);
    xla__gemm_config_proto__matrix_layout__init(m);
    if (!td_type_is_array(shape->type) || batch.n + rows.n + cols.n != shape->rank)
        return td_fail(s->err, TD_MISMATCH, "%s: %u batch, %u row and %u column dimensions of an array of rank %u",
                       what, batch.n, rows.n, cols.n, shape->rank);
    td_shape_strides(shape, strides);
    if (!collapse(shape, strides, batch.v, batch.n, &b) || !collapse(shape, strides, rows.v, rows.n, &r) ||
        !collapse(shape, strides, cols.v, cols.n, &c))
        return td_fail(s->err, TD_UNSUPPORTED, "%s: its dimensions do not lie as batches, rows and columns", what);
    if (!shape->count) b.stride = 0, r.stride = c.size, c.stride = 1;
    bool by_rows = c.size == 1 || c.stride == 1, by_columns = r.size == 1 || r.stride == 1;
    if (!by_rows && !by_columns) return td_fail(s->err, TD_UNSUPPORTED, "%s: neither rows nor columns are dense", what);
    m->has_order = m->has_num_rows = m->has_num_cols = m->has_batch_size = m->has_leading_dim_stride =
        m->has_batch_stride = m->has_dtype = true;
    m->order = by_rows ? XLA__GEMM_CONFIG_PROTO__MATRIX_LAYOUT__ORDER__ORDER_ROW_MAJOR
                       : XLA__GEMM_CONFIG_PROTO__MATRIX_LAYOUT__ORDER__ORDER_COLUMN_MAJOR;
    m->num_rows = r.size, m->num_cols = c.size, m->batch_size = b.size;
    m->leading_dim_stride = by_rows ? (r.size == 1 ? c.size : r.stride) : (c.size == 1 ? r.size : c.stride);
    m->batch_stride = b.size > 1 ? b.stride : 0;
    m->dtype = (Xla__PrimitiveType)shape->type;
    *out = m;
    return TD_OK;
}

/* The dimensions below rank in neither of two lists. */
static td_status_t others(td_sched_t *s, uint32_t rank, td_ints_t a, td_ints_t b, td_ints_t *out) {
    bool taken[TD_LIMIT_RANK] = {false};
    int64_t *v = TD_NEW_N(s->arena, int64_t, rank);
    uint32_t n = 0;
    if (!v) return td_arena_fail(s->arena, s->err);
    for (uint32_t k = 0; k < a.n; k++) taken[a.v[k]] = true;
    for (uint32_t k = 0; k < b.n; k++) {
        if (taken[b.v[k]])
            return td_fail(s->err, TD_MALFORMED, "dimension %lld is one of batches and summed over", (long long)b.v[k]);
        taken[b.v[k]] = true;
    }
    for (uint32_t k = 0; k < rank; k++)
        if (!taken[k]) v[n++] = k;
    *out = (td_ints_t){v, n};
    return TD_OK;
}

static td_status_t range(td_sched_t *s, uint32_t from, uint32_t n, td_ints_t *out) {
    int64_t *v = TD_NEW_N(s->arena, int64_t, n);
    if (!v) return td_arena_fail(s->arena, s->err);
    for (uint32_t k = 0; k < n; k++) v[k] = from + k;
    *out = (td_ints_t){v, n};
    return TD_OK;
}

/* Sizes of paired dimensions agree; contracted ones are then collapsed in the same order on both sides. */
static td_status_t paired(td_sched_t *s, const td_shape_t *a, td_ints_t x, const td_shape_t *b, td_ints_t y) {
    bool same = x.n == y.n;
    for (uint32_t k = 0; k < x.n && same; k++) same = a->dims[x.v[k]] == b->dims[y.v[k]];
    return same ? TD_OK : td_fail(s->err, TD_MISMATCH, "dot dimensions of a and b do not fit each other");
}

/* The four matrices. c: NULL where there is none. */
static td_status_t matrices(td_sched_t *s, json_t *j, const td_shape_t *a, const td_shape_t *b, const td_shape_t *c,
                            const td_shape_t *d, Xla__GemmConfigProto *g) {
    json_t *dn = json_object_get(j, "dot_dimension_numbers");
    td_ints_t ab, ac, bb, bc, ar, bcols, db, dr, dc;
    td_status_t st;
    if (!td_type_is_array(a->type) || !td_type_is_array(b->type) || !td_type_is_array(d->type) ||
        (c && !td_type_is_array(c->type)))
        return td_fail(s->err, TD_MALFORMED, "a matrix is no array");
    if (!json_is_object(dn)) return td_fail(s->err, TD_MALFORMED, "backend configuration has no dot_dimension_numbers");
    if ((st = td_sched_dims(s, dn, "lhs_batch_dimensions", a->rank, &ab)) ||
        (st = td_sched_dims(s, dn, "lhs_contracting_dimensions", a->rank, &ac)) ||
        (st = td_sched_dims(s, dn, "rhs_batch_dimensions", b->rank, &bb)) ||
        (st = td_sched_dims(s, dn, "rhs_contracting_dimensions", b->rank, &bc)) ||
        (st = paired(s, a, ab, b, bb)) || (st = paired(s, a, ac, b, bc)) || (st = others(s, a->rank, ab, ac, &ar)) ||
        (st = others(s, b->rank, bb, bc, &bcols)) || (st = range(s, 0, ab.n, &db)) ||
        (st = range(s, ab.n, ar.n, &dr)) || (st = range(s, ab.n + ar.n, bcols.n, &dc)))
        return st;
    if ((st = matrix(s, "a", a, ab, ar, ac, &g->lhs_layout)) ||
        (st = matrix(s, "b", b, bb, bc, bcols, &g->rhs_layout)) ||
        (st = matrix(s, "d", d, db, dr, dc, &g->output_layout)))
        return st;
    return c ? matrix(s, "c", c, db, dr, dc, &g->c_layout) : TD_OK;
}

/* Names of GemmBackendConfig.Epilogue, which is numbered differently from the thunk's. */
static const struct {
    const char *name;
    td_epilogue_t epilogue;
    bool bias, aux;
} epilogues[] = {
    {"DEFAULT", TD_EPI_NONE, false, false}, {"BIAS", TD_EPI_BIAS, true, false}, {"RELU", TD_EPI_RELU, false, false},
    {"BIAS_RELU", TD_EPI_BIAS_RELU, true, false}, {"GELU", TD_EPI_GELU, false, false},
    {"GELU_AUX", TD_EPI_GELU_AUX, false, true}, {"BIAS_GELU", TD_EPI_BIAS_GELU, true, false},
    {"BIAS_GELU_AUX", TD_EPI_BIAS_GELU_AUX, true, true}, {"SILU", TD_EPI_SILU, false, false},
    {"BIAS_SILU", TD_EPI_BIAS_SILU, true, false},
};
enum { N_EPILOGUES = sizeof epilogues / sizeof *epilogues };

typedef struct call { /* what remains to be handed out, in order */
    const td_sched_instr_t *i;
    uint32_t operand, result;
} call_t;

static td_status_t next_operand(td_sched_t *s, call_t *c, const char *what, Xla__ShapedSliceProto **out) {
    if (c->operand >= c->i->in->n_operands)
        return td_fail(s->err, TD_MALFORMED, "%u operands, %s is missing", c->i->in->n_operands, what);
    return td_sched_shaped(s, td_sched_instr(s, c->i->in->operands[c->operand++]), 0, out);
}
static td_status_t next_result(td_sched_t *s, call_t *c, const char *what, Xla__ShapedSliceProto **out) {
    if (c->result >= c->i->n_leaves)
        return td_fail(s->err, TD_MALFORMED, "%u results, %s is missing", c->i->n_leaves, what);
    return td_sched_shaped(s, c->i, c->result++, out);
}

static td_status_t slices(td_sched_t *s, const td_sched_instr_t *i, int e, bool beta, bool amax,
                          Xla__Gpu__CublasLtMatmulThunkProto *p) {
    call_t c = {.i = i};
    bool f8 = !strcmp(i->in->custom_call_target, "__cublas$lt$matmul$f8");
    td_status_t st;
    if ((st = next_operand(s, &c, "a", &p->a)) || (st = next_operand(s, &c, "b", &p->b)) ||
        (beta && (st = next_operand(s, &c, "c", &p->c))) || (st = next_result(s, &c, "d", &p->d)))
        return st;
    if (f8 &&
        ((st = next_operand(s, &c, "a_scale", &p->a_scale)) || (st = next_operand(s, &c, "b_scale", &p->b_scale))))
        return st;
    if (epilogues[e].bias && (st = next_operand(s, &c, "bias", &p->bias))) return st;
    if (f8 && c.operand < i->in->n_operands && (st = next_operand(s, &c, "d_scale", &p->d_scale))) return st;
    if (c.operand != i->in->n_operands)
        return td_fail(s->err, TD_MALFORMED, "%u operands instead of %u", i->in->n_operands, c.operand);
    if ((epilogues[e].aux && (st = next_result(s, &c, "the auxiliary result", &p->aux))) ||
        (amax && (st = next_result(s, &c, "the largest value", &p->d_amax))))
        return st;
    if (!beta) p->c = p->d;
    return TD_OK;
}

static td_status_t numbers(td_sched_t *s, json_t *j, const td_shape_t *d, Xla__GemmConfigProto *g, int *e, bool *amax) {
    const char *names[N_EPILOGUES];
    td_status_t st;
    for (int k = 0; k < N_EPILOGUES; k++) names[k] = epilogues[k].name;
    if ((st = td_sched_number(s, j, "alpha_real", 0, &g->alpha_real)) ||
        (st = td_sched_number(s, j, "alpha_imag", 0, &g->alpha_imag)) ||
        (st = td_sched_number(s, j, "beta", 0, &g->beta)) ||
        (st = td_sched_bool(s, j, "damax_output", false, amax)) ||
        (st = td_sched_enum(s, j, "epilogue", names, N_EPILOGUES, 0, e)))
        return st;
    if (!td_type_is_complex(d->type)) g->alpha_imag = 0;
    g->has_alpha_real = g->has_alpha_imag = g->has_beta = true;
    return TD_OK;
}

/* How exact the product has to be: the higher of the operands' precisions, or an algorithm. */
static td_status_t precision(td_sched_t *s, json_t *j, Xla__GemmConfigProto *g) {
    static const char *const precisions[] = {"DEFAULT", "HIGH", "HIGHEST", "PACKED_NIBBLE"};
    static const char *const algorithms[] = {
        "ALG_UNSET", "ALG_DOT_ANY_F8_ANY_F8_F32", "ALG_DOT_ANY_F8_ANY_F8_F32_FAST_ACCUM", "ALG_DOT_F16_F16_F16",
        "ALG_DOT_F16_F16_F32", "ALG_DOT_BF16_BF16_BF16", "ALG_DOT_BF16_BF16_F32", "ALG_DOT_BF16_BF16_F32_X3",
        "ALG_DOT_BF16_BF16_F32_X6", "ALG_DOT_TF32_TF32_F32", "ALG_DOT_TF32_TF32_F32_X3", "ALG_DOT_F32_F32_F32",
        "ALG_DOT_F64_F64_F64", "ALG_DOT_BF16_BF16_F32_X9"};
    json_t *c = json_object_get(j, "precision_config"), *each = json_object_get(c, "operand_precision");
    int algorithm = 0;
    for (size_t k = 0; k < json_array_size(each); k++)
        for (int64_t v = 0; v < 4; v++) {
            const char *text = json_string_value(json_array_get(each, k));
            if (text && !strcmp(text, precisions[v]) && v > g->compute_precision) g->compute_precision = v;
        }
    td_status_t st = td_sched_enum(s, c, "algorithm", algorithms, sizeof algorithms / sizeof *algorithms, 0, &algorithm);
    g->has_compute_precision = g->has_precision_algorithm = true;
    g->precision_algorithm = algorithm;
    return st;
}

/* The compiler's choice of an algorithm, which is a number in a list made for that workspace; below 0: none. */
static td_status_t choice(td_sched_t *s, json_t *j, Xla__Gpu__CublasLtMatmulThunkProto *p) {
    td_status_t st = td_sched_integer(s, j, "selected_algorithm", 0, &p->algorithm_idx);
    if (!st) st = td_sched_integer(s, j, "autotune_workspace_size", 0, &p->autotune_workspace_size);
    p->has_algorithm_idx = p->has_autotune_workspace_size = true;
    if (p->algorithm_idx < 0) p->algorithm_idx = 0;
    return st;
}

static td_status_t gemm(td_sched_t *s, td_sched_out_t *out, const td_sched_instr_t *i, json_t *j) {
    Xla__Gpu__CublasLtMatmulThunkProto *p = TD_NEW(s->arena, Xla__Gpu__CublasLtMatmulThunkProto);
    Xla__GemmConfigProto *g = TD_NEW(s->arena, Xla__GemmConfigProto);
    Xla__Gpu__ThunkProto *t;
    bool amax = false;
    int e = 0;
    td_status_t st;
    if (!p || !g) return td_arena_fail(s->arena, s->err);
    xla__gpu__cublas_lt_matmul_thunk_proto__init(p);
    xla__gemm_config_proto__init(g);
    const td_shape_t *d = i->in->shape;
    if (d->type == TD_TUPLE) d = d->rank ? d->elements[0] : NULL;
    if (!d || i->in->n_operands < 2) return td_fail(s->err, TD_MALFORMED, "a product without operands or result");
    if ((st = numbers(s, j, d, g, &e, &amax)) || (st = precision(s, j, g)) || (st = choice(s, j, p)) ||
        (st = slices(s, i, e, g->beta != 0, amax, p))) return st;
    const td_shape_t *c = g->beta != 0 ? i->in->operands[2]->shape : NULL;
    if ((st = matrices(s, j, i->in->operands[0]->shape, i->in->operands[1]->shape, c, d, g)) ||
        (st = td_sched_add(s, out, i->in->name, XLA__GPU__THUNK_PROTO__IMPL_CUBLAS_LT_MATMUL_THUNK, &t)))
        return st;
    p->has_epilogue = true;
    p->epilogue = (Xla__BlasLtEpilogueProto)epilogues[e].epilogue;
    p->impl_case = XLA__GPU__CUBLAS_LT_MATMUL_THUNK_PROTO__IMPL_GEMM_CONFIG;
    p->gemm_config = g;
    t->cublas_lt_matmul_thunk = p;
    return TD_OK;
}

td_status_t td_sched_gemm(td_sched_t *s, td_sched_out_t *out, const td_sched_instr_t *i) {
    json_t *j = NULL;
    td_status_t st = td_sched_config(s, i, "gemm_backend_config", &j);
    if (st) return st;
    st = gemm(s, out, i, j);
    json_decref(j);
    return st ? td_prefix(s->err, st, "'%s'", i->in->name) : TD_OK;
}
