/* SPDX-License-Identifier: Apache-2.0 */
/* What consumers index with, checked once. Numbers that only affect a result's value are left alone. */
#include "base/limits.h"
#include "runtime/hlo/hlo_parse.h"

static const td_shape_t *op(const td_hlo_instr_t *in, uint32_t i) { return in->operands[i]->shape; }

/* Each entry in [0, rank), none twice. */
static td_status_t list(const char *what, td_ints_t v, uint32_t rank, td_err_t *err) {
    uint64_t seen = 0;
    for (uint32_t i = 0; i < v.n; i++) {
        if (v.v[i] < 0 || v.v[i] >= rank || (seen >> v.v[i] & 1))
            return td_fail(err, TD_MALFORMED, "%s[%u] is %lld of rank %u", what, i, (long long)v.v[i], rank);
        seen |= 1ull << v.v[i];
    }
    return TD_OK;
}
#define NEED(c, ...) do { if (!(c)) return td_fail(err, TD_MALFORMED, __VA_ARGS__); } while (0)
#define LIST(what, v, rank) do { td_status_t st_ = list(what, v, rank, err); if (st_) return st_; } while (0)

static bool all_arrays(const td_hlo_instr_t *in) {
    for (uint32_t i = 0; i < in->n_operands; i++)
        if (!td_type_is_array(op(in, i)->type)) return false;
    return true;
}

static bool dims_equal(const td_shape_t *a, const td_shape_t *b) {
    if (!td_type_is_array(a->type) || !td_type_is_array(b->type) || a->rank != b->rank) return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i]) return false;
    return true;
}

static td_status_t elementwise(const td_hlo_instr_t *in, uint32_t n, td_err_t *err) {
    NEED(in->n_operands == n, "%u operands instead of %u", in->n_operands, n);
    NEED(all_arrays(in) && td_type_is_array(in->shape->type), "an operand or the result is not an array");
    for (uint32_t i = 0; i < n; i++) {
        bool scalar_ok = in->opcode == TD_HLO_CLAMP || in->opcode == TD_HLO_SELECT;
        NEED(dims_equal(op(in, i), in->shape) || (scalar_ok && op(in, i)->rank == 0),
             "dimensions of operand %u differ from the result's", i);
    }
    return TD_OK;
}

static td_status_t array_args(const td_hlo_instr_t *in, uint32_t min, uint32_t max, td_err_t *err) {
    NEED(in->n_operands >= min && in->n_operands <= max, "%u operands", in->n_operands);
    NEED(all_arrays(in), "an operand is not an array");
    return TD_OK;
}

static td_status_t gather_like(const td_hlo_instr_t *in, td_err_t *err) {
    td_status_t st;
    if (in->opcode == TD_HLO_GATHER) {
        if ((st = array_args(in, 2, 2, err))) return st;
        const td_gather_dims_t *g = in->gather;
        NEED(g, "gather without dimension numbers");
        uint32_t r = op(in, 0)->rank, ir = op(in, 1)->rank;
        NEED(g->index_vector_dim >= 0 && g->index_vector_dim <= ir, "index_vector_dim %lld of rank %u", (long long)g->index_vector_dim, ir);
        LIST("offset_dims", g->offset_dims, in->shape->rank);
        LIST("collapsed_slice_dims", g->collapsed_slice_dims, r);
        LIST("operand_batching_dims", g->operand_batching_dims, r);
        LIST("start_index_map", g->start_index_map, r);
        LIST("start_indices_batching_dims", g->start_indices_batching_dims, ir);
        NEED(in->gather_slice_sizes.n == r, "%u slice sizes for rank %u", in->gather_slice_sizes.n, r);
        for (uint32_t i = 0; i < r; i++)
            NEED(in->gather_slice_sizes.v[i] >= 0 && in->gather_slice_sizes.v[i] <= op(in, 0)->dims[i], "slice size %u is %lld of %lld", i,
                 (long long)in->gather_slice_sizes.v[i], (long long)op(in, 0)->dims[i]);
        NEED(g->offset_dims.n + g->collapsed_slice_dims.n + g->operand_batching_dims.n == r, "offset and collapsed dimensions do not make up rank %u", r);
        int64_t comps = g->index_vector_dim == ir ? 1 : op(in, 1)->dims[g->index_vector_dim];
        NEED(comps == g->start_index_map.n, "start_index_map has %u entries for %lld index components", g->start_index_map.n, (long long)comps);
        NEED(in->shape->rank == g->offset_dims.n + ir - (g->index_vector_dim < ir), "result rank %u", in->shape->rank);
        NEED(g->start_indices_batching_dims.n == g->operand_batching_dims.n, "batching dimensions differ in number");
        return TD_OK;
    }
    const td_scatter_dims_t *s = in->scatter;
    NEED(s, "scatter without dimension numbers");
    NEED(in->n_operands >= 3 && in->n_operands % 2 == 1 && all_arrays(in), "%u operands", in->n_operands);
    NEED(in->n_called == 1, "%u called computations", in->n_called);
    uint32_t n = in->n_operands / 2, r = op(in, 0)->rank, ir = op(in, n)->rank, ur = op(in, n + 1)->rank;
    NEED(s->index_vector_dim >= 0 && s->index_vector_dim <= ir, "index_vector_dim %lld of rank %u", (long long)s->index_vector_dim, ir);
    LIST("update_window_dims", s->update_window_dims, ur);
    LIST("inserted_window_dims", s->inserted_window_dims, r);
    LIST("input_batching_dims", s->input_batching_dims, r);
    LIST("scatter_dims_to_operand_dims", s->scatter_dims_to_operand_dims, r);
    LIST("scatter_indices_batching_dims", s->scatter_indices_batching_dims, ir);
    NEED(s->update_window_dims.n + s->inserted_window_dims.n + s->input_batching_dims.n == r, "window dimensions do not make up rank %u", r);
    int64_t comps = s->index_vector_dim == ir ? 1 : op(in, n)->dims[s->index_vector_dim];
    NEED(comps == s->scatter_dims_to_operand_dims.n, "%u scatter dimensions for %lld index components", s->scatter_dims_to_operand_dims.n, (long long)comps);
    NEED(ur == s->update_window_dims.n + ir - (s->index_vector_dim < ir), "updates have rank %u", ur);
    NEED(s->scatter_indices_batching_dims.n == s->input_batching_dims.n, "batching dimensions differ in number");
    for (uint32_t i = 1; i < n; i++)
        NEED(dims_equal(op(in, i), op(in, 0)) && dims_equal(op(in, n + 1 + i), op(in, n + 1)), "operands differ in dimensions");
    return TD_OK;
}

static td_status_t conv(const td_hlo_instr_t *in, td_err_t *err) {
    const td_conv_dims_t *c = in->conv;
    if (!c) return in->opcode == TD_HLO_CONVOLUTION ? td_fail(err, TD_MALFORMED, "convolution without dimension numbers") : TD_OK;
    NEED(in->n_operands >= 2, "%u operands", in->n_operands);
    uint32_t n = c->input_spatial.n;
    NEED(c->kernel_spatial.n == n && c->output_spatial.n == n && in->window.n == n, "spatial dimensions: %u, %u, %u, window %u", n,
         c->kernel_spatial.n, c->output_spatial.n, in->window.n);
    if (in->opcode != TD_HLO_CONVOLUTION) return TD_OK;
    int64_t a[3][2] = {{c->input_batch, c->input_feature}, {c->kernel_input_feature, c->kernel_output_feature}, {c->output_batch, c->output_feature}};
    const td_ints_t *sp[3] = {&c->input_spatial, &c->kernel_spatial, &c->output_spatial};
    const td_shape_t *s[3] = {op(in, 0), op(in, 1), in->shape};
    for (int k = 0; k < 3; k++) {
        uint64_t seen = 0;
        NEED(td_type_is_array(s[k]->type) && s[k]->rank == n + 2, "rank %u for %u spatial dimensions", s[k]->rank, n);
        for (uint32_t i = 0; i < n + 2; i++) {
            int64_t d = i < 2 ? a[k][i] : sp[k]->v[i - 2];
            NEED(d >= 0 && d < n + 2 && !(seen >> d & 1), "dimension number %lld of rank %u", (long long)d, n + 2);
            seen |= 1ull << d;
        }
    }
    return TD_OK;
}

static td_status_t dot(const td_hlo_instr_t *in, td_err_t *err) {
    const td_dot_dims_t *d = in->dot;
    NEED(d && in->n_operands >= 2 && td_type_is_array(op(in, 0)->type) && td_type_is_array(op(in, 1)->type), "dot without dimension numbers or operands");
    const td_shape_t *l = op(in, 0), *r = op(in, 1);
    LIST("lhs_contracting", d->lhs_contracting, l->rank);
    LIST("rhs_contracting", d->rhs_contracting, r->rank);
    LIST("lhs_batch", d->lhs_batch, l->rank);
    LIST("rhs_batch", d->rhs_batch, r->rank);
    NEED(d->lhs_batch.n == d->rhs_batch.n, "batch dimensions differ in number");
    if (in->opcode != TD_HLO_DOT) return TD_OK;
    NEED(d->lhs_contracting.n == d->rhs_contracting.n, "contracting dimensions differ in number");
    for (uint32_t i = 0; i < d->lhs_contracting.n; i++)
        NEED(l->dims[d->lhs_contracting.v[i]] == r->dims[d->rhs_contracting.v[i]], "contracting dimension %u: %lld and %lld", i,
             (long long)l->dims[d->lhs_contracting.v[i]], (long long)r->dims[d->rhs_contracting.v[i]]);
    for (uint32_t i = 0; i < d->lhs_batch.n; i++)
        NEED(l->dims[d->lhs_batch.v[i]] == r->dims[d->rhs_batch.v[i]], "batch dimension %u differs", i);
    /* Result: batch, then lhs free, then rhs free dimensions. */
    uint64_t lu = 0, ru = 0;
    uint32_t at = 0;
    const td_shape_t *o = in->shape;
    NEED(td_type_is_array(o->type) && o->rank == l->rank + r->rank - 2 * d->lhs_contracting.n - d->lhs_batch.n, "result rank %u", o->rank);
    for (uint32_t i = 0; i < d->lhs_batch.n; i++) {
        lu |= 1ull << d->lhs_batch.v[i];
        ru |= 1ull << d->rhs_batch.v[i];
        NEED(o->dims[at] == l->dims[d->lhs_batch.v[i]], "result dimension %u", at);
        at++;
    }
    for (uint32_t i = 0; i < d->lhs_contracting.n; i++) {
        NEED(!(lu >> d->lhs_contracting.v[i] & 1) && !(ru >> d->rhs_contracting.v[i] & 1), "a dimension is batch and contracting");
        lu |= 1ull << d->lhs_contracting.v[i];
        ru |= 1ull << d->rhs_contracting.v[i];
    }
    for (uint32_t i = 0; i < l->rank; i++)
        if (!(lu >> i & 1)) { NEED(o->dims[at] == l->dims[i], "result dimension %u", at); at++; }
    for (uint32_t i = 0; i < r->rank; i++)
        if (!(ru >> i & 1)) { NEED(o->dims[at] == r->dims[i], "result dimension %u", at); at++; }
    return TD_OK;
}

static td_status_t reduce(const td_hlo_instr_t *in, td_err_t *err) {
    NEED(in->n_operands >= 2 && in->n_operands % 2 == 0 && all_arrays(in), "%u operands", in->n_operands);
    NEED(in->n_called == 1, "%u called computations", in->n_called);
    uint32_t n = in->n_operands / 2;
    const td_shape_t *o = in->shape;
    NEED(n == 1 ? td_type_is_array(o->type) : o->type == TD_TUPLE && o->rank == n, "result does not have %u arrays", n);
    NEED(in->called[0]->n_params == 2 * n, "reducer has %u parameters for %u operands", in->called[0]->n_params, n);
    for (uint32_t i = 0; i < n; i++) {
        NEED(dims_equal(op(in, i), op(in, 0)) && op(in, n + i)->rank == 0, "operand %u", i);
        if (n > 1) NEED(td_type_is_array(o->elements[i]->type), "result %u is not an array", i);
    }
    if (in->opcode == TD_HLO_REDUCE_WINDOW) {
        NEED(in->window.n == op(in, 0)->rank, "window has %u dimensions for rank %u", in->window.n, op(in, 0)->rank);
        for (uint32_t i = 0; i < n; i++)
            NEED((n > 1 ? o->elements[i] : o)->rank == in->window.n, "result rank");
        return TD_OK;
    }
    LIST("dimensions", in->dimensions, op(in, 0)->rank);
    uint64_t red = 0;
    for (uint32_t i = 0; i < in->dimensions.n; i++) red |= 1ull << in->dimensions.v[i];
    for (uint32_t k = 0; k < n; k++) {
        const td_shape_t *r = n > 1 ? o->elements[k] : o;
        uint32_t at = 0;
        NEED(r->rank == op(in, 0)->rank - in->dimensions.n, "result rank %u", r->rank);
        for (uint32_t i = 0; i < op(in, 0)->rank; i++)
            if (!(red >> i & 1)) { NEED(r->dims[at] == op(in, 0)->dims[i], "result dimension %u", at); at++; }
    }
    return TD_OK;
}

static td_status_t movement(const td_hlo_instr_t *in, td_err_t *err) {
    td_status_t st;
    const td_shape_t *o = in->shape, *a;
    NEED(td_type_is_array(o->type), "result is not an array");
    if (in->opcode == TD_HLO_IOTA) {
        NEED(in->dimensions.n == 1, "%u dimensions", in->dimensions.n);
        LIST("dimensions", in->dimensions, o->rank);
        return TD_OK;
    }
    if ((st = array_args(in, 1, UINT32_MAX, err))) return st;
    a = op(in, 0);
    switch (in->opcode) {
    case TD_HLO_BROADCAST:
        NEED(in->n_operands == 1 && in->dimensions.n == a->rank, "%u dimensions for rank %u", in->dimensions.n, a->rank);
        LIST("dimensions", in->dimensions, o->rank);
        for (uint32_t i = 0; i < a->rank; i++) NEED(a->dims[i] == o->dims[in->dimensions.v[i]], "dimension %u differs", i);
        break;
    case TD_HLO_TRANSPOSE:
        NEED(in->n_operands == 1 && in->dimensions.n == a->rank && o->rank == a->rank, "%u dimensions for rank %u", in->dimensions.n, a->rank);
        LIST("dimensions", in->dimensions, a->rank);
        for (uint32_t i = 0; i < a->rank; i++) NEED(o->dims[i] == a->dims[in->dimensions.v[i]], "dimension %u differs", i);
        break;
    case TD_HLO_REVERSE:
        NEED(in->n_operands == 1 && dims_equal(a, o), "dimensions differ");
        LIST("dimensions", in->dimensions, a->rank);
        break;
    case TD_HLO_RESHAPE:
        NEED(in->n_operands == 1 && a->count == o->count, "%lld and %lld elements", (long long)a->count, (long long)o->count);
        break;
    case TD_HLO_BITCAST:
        NEED(in->n_operands == 1 && a->bytes == o->bytes, "%llu and %llu bytes", (unsigned long long)a->bytes, (unsigned long long)o->bytes);
        break;
    case TD_HLO_BITCAST_CONVERT:
        NEED(in->n_operands == 1 && (uint64_t)a->count * a->bits == (uint64_t)o->count * o->bits, "sizes differ");
        break;
    case TD_HLO_CONCATENATE: {
        NEED(in->dimensions.n == 1, "%u dimensions", in->dimensions.n);
        LIST("dimensions", in->dimensions, o->rank);
        int64_t sum = 0, d = in->dimensions.v[0];
        for (uint32_t k = 0; k < in->n_operands; k++) {
            NEED(op(in, k)->rank == o->rank, "rank of operand %u", k);
            for (uint32_t i = 0; i < o->rank; i++) NEED(i == d || op(in, k)->dims[i] == o->dims[i], "dimension %u of operand %u", i, k);
            NEED(op(in, k)->dims[d] <= o->dims[d] - sum, "operands are longer than the result");
            sum += op(in, k)->dims[d];
        }
        NEED(sum == o->dims[d], "operands make %lld of %lld", (long long)sum, (long long)o->dims[d]);
        break;
    }
    case TD_HLO_SLICE:
        NEED(in->n_operands == 1 && in->n_slice == a->rank && o->rank == a->rank, "%u slices for rank %u", in->n_slice, a->rank);
        for (uint32_t i = 0; i < a->rank; i++) {
            const td_slice_dim_t *s = &in->slice[i];
            NEED(s->start >= 0 && s->limit >= s->start && s->limit <= a->dims[i] && s->stride >= 1, "slice %u: [%lld:%lld:%lld] of %lld", i,
                 (long long)s->start, (long long)s->limit, (long long)s->stride, (long long)a->dims[i]);
            int64_t len = s->limit - s->start, n = len / s->stride + (len % s->stride != 0);
            NEED(n == o->dims[i], "slice %u has %lld elements, result %lld", i, (long long)n, (long long)o->dims[i]);
        }
        break;
    case TD_HLO_PAD:
        NEED(in->n_operands == 2 && op(in, 1)->rank == 0 && in->n_pad == a->rank && o->rank == a->rank, "%u paddings for rank %u", in->n_pad, a->rank);
        for (uint32_t i = 0; i < a->rank; i++) {
            const td_pad_dim_t *p = &in->pad[i];
            __int128 n = a->dims[i];
            NEED(p->interior >= 0, "interior padding %lld", (long long)p->interior);
            if (n > 0) n += (n - 1) * (__int128)p->interior;
            n += (__int128)p->low + p->high;
            NEED(n == o->dims[i], "padding of dimension %u does not give %lld", i, (long long)o->dims[i]);
        }
        break;
    case TD_HLO_DYNAMIC_SLICE:
        NEED(o->rank == a->rank, "rank %u and %u", a->rank, o->rank);
        NEED(in->n_operands == 1 + a->rank || (in->n_operands == 2 && op(in, 1)->rank == 1 && op(in, 1)->dims[0] == a->rank), "%u operands for rank %u", in->n_operands, a->rank);
        for (uint32_t i = 0; i < a->rank; i++) NEED(o->dims[i] <= a->dims[i], "slice is larger than the operand");
        break;
    case TD_HLO_DYNAMIC_UPDATE_SLICE:
        NEED(in->n_operands == 2 + a->rank || (in->n_operands == 3 && op(in, 2)->rank == 1), "%u operands for rank %u", in->n_operands, a->rank);
        NEED(dims_equal(a, o) && op(in, 1)->rank == a->rank, "operand and result differ");
        for (uint32_t i = 0; i < a->rank; i++) NEED(op(in, 1)->dims[i] <= a->dims[i], "update is larger than the operand");
        break;
    default: break;
    }
    return TD_OK;
}

static td_status_t other(const td_hlo_instr_t *in, td_err_t *err) {
    const td_shape_t *o = in->shape;
    switch (in->opcode) {
    case TD_HLO_PARAMETER: NEED(!in->n_operands, "parameter with operands"); break;
    case TD_HLO_CONSTANT: NEED(!in->n_operands && (in->literal || o->bytes == 0 || o->type == TD_TOKEN), "constant without a literal"); break;
    case TD_HLO_TUPLE:
        NEED(o->type == TD_TUPLE && o->rank == in->n_operands, "%u operands for a tuple of %u", in->n_operands, o->rank);
        for (uint32_t i = 0; i < in->n_operands; i++) NEED(td_shape_same_dims(o->elements[i], op(in, i)), "element %u differs from its operand", i);
        break;
    case TD_HLO_GET_TUPLE_ELEMENT:
        NEED(in->n_operands == 1 && op(in, 0)->type == TD_TUPLE, "operand is not a tuple");
        NEED(in->tuple_index >= 0 && in->tuple_index < op(in, 0)->rank, "index %lld of a tuple of %u", (long long)in->tuple_index, op(in, 0)->rank);
        NEED(td_shape_same_dims(o, op(in, 0)->elements[in->tuple_index]), "result differs from element %lld", (long long)in->tuple_index);
        break;
    case TD_HLO_FUSION:
    case TD_HLO_CALL:
        NEED(in->n_called == 1, "%u called computations", in->n_called);
        NEED(in->called[0]->n_params == in->n_operands, "%u operands for %u parameters", in->n_operands, in->called[0]->n_params);
        for (uint32_t i = 0; i < in->n_operands; i++)
            NEED(td_shape_same_dims(op(in, i), in->called[0]->params[i]->shape), "operand %u differs from its parameter", i);
        NEED(td_shape_same_dims(o, in->called[0]->root->shape), "result differs from the root");
        break;
    case TD_HLO_MAP:
        NEED(in->n_called == 1 && in->called[0]->n_params == in->n_operands, "operands and parameters differ in number");
        return elementwise(in, in->n_operands, err);
    case TD_HLO_SORT: {
        NEED(in->n_operands && all_arrays(in) && in->n_called == 1 && in->called[0]->n_params == 2 * in->n_operands, "operands and comparator do not fit");
        LIST("dimensions", in->dimensions, op(in, 0)->rank);
        NEED(in->dimensions.n == 1, "%u dimensions", in->dimensions.n);
        NEED(in->n_operands == 1 ? td_type_is_array(o->type) : o->type == TD_TUPLE && o->rank == in->n_operands, "results and operands differ in number");
        for (uint32_t i = 0; i < in->n_operands; i++) {
            NEED(dims_equal(op(in, i), op(in, 0)), "operands differ in dimensions");
            NEED(td_shape_same_dims(in->n_operands == 1 ? o : o->elements[i], op(in, i)), "result %u differs from its operand", i);
        }
        NEED(td_type_is_array(in->called[0]->root->shape->type) && in->called[0]->root->shape->rank == 0, "comparator is not scalar");
        break;
    }
    case TD_HLO_OPT_BARRIER: case TD_HLO_ADD_DEPENDENCY: case TD_HLO_DOMAIN:
        NEED(in->n_operands && td_shape_same_dims(o, op(in, 0)), "result differs from the operand");
        break;
    case TD_HLO_AFTER_ALL: NEED(o->type == TD_TOKEN, "result is not a token"); break;
    case TD_HLO_WHILE: NEED(in->n_called == 2 && in->n_operands == 1, "while with %u computations", in->n_called); break;
    case TD_HLO_CONDITIONAL: NEED(in->n_called >= 1 && in->n_operands == in->n_called + 1, "%u operands for %u branches", in->n_operands, in->n_called); break;
    case TD_HLO_SELECT_AND_SCATTER:
        NEED(in->n_operands == 3 && all_arrays(in) && in->n_called == 2 && in->window.n == op(in, 0)->rank && op(in, 1)->rank == op(in, 0)->rank && dims_equal(o, op(in, 0)), "operands and window do not fit");
        break;
    default: break;
    }
    return TD_OK;
}

td_status_t td_hlo_check_instr(const td_hlo_instr_t *in, td_err_t *err) {
    switch (in->opcode) {
    case TD_HLO_ABS: case TD_HLO_ACOS: case TD_HLO_ACOSH: case TD_HLO_ASIN: case TD_HLO_ASINH: case TD_HLO_ATAN: case TD_HLO_ATANH:
    case TD_HLO_CBRT: case TD_HLO_CEIL: case TD_HLO_CLZ: case TD_HLO_CONVERT: case TD_HLO_COS: case TD_HLO_COSH:
    case TD_HLO_ERF: case TD_HLO_EXP: case TD_HLO_EXPM1: case TD_HLO_FLOOR: case TD_HLO_IMAG: case TD_HLO_IS_FINITE:
    case TD_HLO_LOG: case TD_HLO_LOG1P: case TD_HLO_LOGISTIC: case TD_HLO_NEGATE: case TD_HLO_NOT: case TD_HLO_POPCNT:
    case TD_HLO_REAL: case TD_HLO_REDUCE_PRECISION: case TD_HLO_ROUND_AFZ: case TD_HLO_ROUND_EVEN: case TD_HLO_RSQRT:
    case TD_HLO_SIGN: case TD_HLO_SIN: case TD_HLO_SINH: case TD_HLO_SQRT: case TD_HLO_TAN: case TD_HLO_TANH:
        return elementwise(in, 1, err);
    case TD_HLO_COPY:
        NEED(in->n_operands == 1 && td_shape_same_dims(op(in, 0), in->shape), "operand differs from the result");
        return TD_OK;
    case TD_HLO_ADD: case TD_HLO_AND: case TD_HLO_ATAN2: case TD_HLO_COMPARE: case TD_HLO_COMPLEX: case TD_HLO_DIVIDE:
    case TD_HLO_MAXIMUM: case TD_HLO_MINIMUM: case TD_HLO_MULHI: case TD_HLO_MULTIPLY: case TD_HLO_OR: case TD_HLO_POWER:
    case TD_HLO_REMAINDER: case TD_HLO_SHIFT_LEFT: case TD_HLO_SHIFT_RIGHT_ARITHMETIC:
    case TD_HLO_SHIFT_RIGHT_LOGICAL: case TD_HLO_STOCHASTIC_CONVERT: case TD_HLO_SUBTRACT: case TD_HLO_XOR:
        return elementwise(in, 2, err);
    case TD_HLO_CLAMP: case TD_HLO_SELECT: return elementwise(in, 3, err);
    case TD_HLO_BITCAST:
        if (in->shape->type == TD_TUPLE) return TD_OK;
        return movement(in, err);
    case TD_HLO_BROADCAST: case TD_HLO_TRANSPOSE: case TD_HLO_REVERSE: case TD_HLO_RESHAPE: case TD_HLO_IOTA:
    case TD_HLO_BITCAST_CONVERT: case TD_HLO_CONCATENATE: case TD_HLO_SLICE: case TD_HLO_PAD:
    case TD_HLO_DYNAMIC_SLICE: case TD_HLO_DYNAMIC_UPDATE_SLICE:
        return movement(in, err);
    case TD_HLO_GATHER: case TD_HLO_SCATTER: return gather_like(in, err);
    case TD_HLO_CONVOLUTION: case TD_HLO_CUSTOM_CALL: return conv(in, err);
    case TD_HLO_DOT: case TD_HLO_RAGGED_DOT: case TD_HLO_SCALED_DOT: return dot(in, err);
    case TD_HLO_REDUCE: case TD_HLO_REDUCE_WINDOW: return reduce(in, err);
    default: return other(in, err);
    }
}
