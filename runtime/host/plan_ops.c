/* SPDX-License-Identifier: Apache-2.0 */
/* Opcodes that compute nothing: asynchronous pairs run at their start, sizes of dimensions, device numbers.
 *
 * Arrays are padded to their static bounds. set-dimension-size therefore passes its operand on, and
 * get-dimension-size gives what a set-dimension-size before it has set, else the bound. */
#include <string.h>

#include "runtime/host/plan.h"

const td_shape_t *td_shape_leaf(const td_shape_t *s, uint32_t i) {
    while (s->type == TD_TUPLE) {
        uint32_t k = 0;
        for (uint32_t n; i >= (n = td_shape_leaf_count(s->elements[k])); k++) i -= n;
        s = s->elements[k];
    }
    return s;
}

static td_status_t add_zero(td_plan_t *p, const td_hlo_instr_t *in, const td_shape_t *s, uint32_t *id, td_err_t *err) {
    static const _Alignas(64) char zeros[64];
    if (s->count != 1) return td_plan_unsupported(in, err);
    td_val_t *v = td_plan_add(p, TD_VAL_CONST, s->type, 1, id);
    if (!v) return td_arena_fail(p->arena, err);
    v->buf = (td_buf_t){.space = TD_BUF_CONST, .bytes = zeros};
    return TD_OK;
}

static td_status_t add_s32(td_plan_t *p, int64_t x, uint32_t *id, td_err_t *err) {
    int32_t *bytes = td_arena_align(p->arena, 64, 64);
    td_val_t *v = bytes ? td_plan_add(p, TD_VAL_CONST, TD_S32, 1, id) : NULL;
    if (!v) return td_arena_fail(p->arena, err);
    *bytes = x > INT32_MAX ? INT32_MAX : (int32_t)x;
    v->buf = (td_buf_t){.space = TD_BUF_CONST, .bytes = bytes};
    return TD_OK;
}

static td_status_t malformed(const td_hlo_instr_t *in, td_err_t *err) {
    return td_fail(err, TD_MALFORMED, "%s: %s of other shapes than its operands'", in->name,
                   td_opcode_name(in->opcode));
}

/* ((operands), result, contexts…): the body runs here. */
static td_status_t async_start(td_plan_t *p, const td_hlo_instr_t *in, const td_leaves_t *vals, td_leaves_t *r,
                               int depth, td_err_t *err) {
    const td_shape_t *s = in->shape;
    if (in->n_called != 1 || depth <= 0) return td_plan_unsupported(in, err);
    const td_hlo_comp_t *body = in->called[0];
    if (s->type != TD_TUPLE || s->rank < 2 || s->elements[0]->type != TD_TUPLE ||
        s->elements[0]->rank != in->n_operands || body->n_params != in->n_operands ||
        !td_shape_same_dims(s->elements[1], body->root->shape))
        return malformed(in, err);
    td_leaves_t *args = TD_NEW_N(p->arena, td_leaves_t, in->n_operands + 1), result = {0};
    if (!args) return td_arena_fail(p->arena, err);
    uint32_t k = 0;
    for (uint32_t i = 0; i < in->n_operands; i++) {
        const td_shape_t *o = in->operands[i]->shape;
        if (!td_shape_same_dims(o, body->params[i]->shape) || !td_shape_same_dims(o, s->elements[0]->elements[i]))
            return malformed(in, err);
        args[i] = vals[in->operands[i]->index];
        for (uint32_t j = 0; j < args[i].n; j++) r->v[k++] = args[i].v[j];
    }
    td_status_t st = td_plan_walk(p, body, args, &result, depth - 1, err);
    if (st) return st;
    for (uint32_t j = 0; j < result.n; j++) r->v[k++] = result.v[j];
    for (; k < r->n; k++)
        if ((st = add_zero(p, in, td_shape_leaf(s, k), &r->v[k], err))) return st;
    return TD_OK;
}

/* The leaves of element e of the only operand, a tuple. */
static td_status_t element(const td_hlo_instr_t *in, uint32_t e, const td_leaves_t *vals, td_leaves_t *r,
                           td_err_t *err) {
    const td_shape_t *s = in->n_operands == 1 ? in->operands[0]->shape : NULL;
    if (!s || s->type != TD_TUPLE || s->rank <= e || !td_shape_same_dims(s->elements[e], in->shape))
        return malformed(in, err);
    uint32_t at = 0;
    for (uint32_t i = 0; i < e; i++) at += td_shape_leaf_count(s->elements[i]);
    *r = (td_leaves_t){vals[in->operands[0]->index].v + at, td_shape_leaf_count(in->shape)};
    return TD_OK;
}

/* (copy, operand, context) */
static td_status_t copy_start(td_plan_t *p, const td_hlo_instr_t *in, const td_leaves_t *vals, td_leaves_t *r,
                              td_err_t *err) {
    const td_shape_t *s = in->shape, *o = in->n_operands == 1 ? in->operands[0]->shape : NULL;
    if (!o || !td_type_is_array(o->type) || s->type != TD_TUPLE || s->rank < 2 ||
        !td_shape_same_dims(s->elements[0], o) || !td_shape_same_dims(s->elements[1], o))
        return malformed(in, err);
    r->v[1] = vals[in->operands[0]->index].v[0];
    td_status_t st = td_plan_relayout(p, r->v[1], o, s->elements[0], &r->v[0], err);
    for (uint32_t k = 2; !st && k < r->n; k++) st = add_zero(p, in, td_shape_leaf(s, k), &r->v[k], err);
    return st;
}

static td_status_t dynamic_reshape(td_plan_t *p, const td_hlo_instr_t *in, uint32_t src, uint32_t *id, td_err_t *err) {
    const td_shape_t *from = in->operands[0]->shape, *a = NULL, *b = NULL;
    uint32_t row;
    td_status_t st;
    if (from->type != in->shape->type || from->count != in->shape->count) return td_plan_unsupported(in, err);
    if ((st = td_shape_with_default_layout(p->arena, from, &a, err)) ||
        (st = td_shape_with_default_layout(p->arena, in->shape, &b, err)) ||
        (st = td_plan_relayout(p, src, from, a, &row, err)))
        return st;
    return td_plan_relayout(p, row, b, in->shape, id, err);
}

/* What set-dimension-size made of dimension d of x, or NULL. */
static const td_hlo_instr_t *dimension_size(const td_hlo_instr_t *x, int64_t d) {
    for (;;) {
        switch (x->opcode) {
        case TD_HLO_SET_DIMENSION_SIZE:
            if (x->n_operands == 2 && x->dimensions.n == 1 && x->dimensions.v[0] == d) return x->operands[1];
            break;
        case TD_HLO_COPY: case TD_HLO_OPT_BARRIER: case TD_HLO_ADD_DEPENDENCY: case TD_HLO_DOMAIN: break;
        default: return NULL;
        }
        if (!x->n_operands || x->shape->type == TD_TUPLE) return NULL;
        x = x->operands[0];
    }
}

static td_status_t sizes(td_plan_t *p, const td_hlo_instr_t *in, const td_leaves_t *vals, td_leaves_t *r,
                         td_err_t *err) {
    bool get = in->opcode == TD_HLO_GET_DIMENSION_SIZE;
    const td_shape_t *o = in->n_operands ? in->operands[0]->shape : NULL;
    if (!o || !td_type_is_array(o->type) || !td_type_is_array(in->shape->type)) return malformed(in, err);
    uint32_t src = vals[in->operands[0]->index].v[0];
    if (in->opcode == TD_HLO_DYNAMIC_RESHAPE) return dynamic_reshape(p, in, src, r->v, err);
    int64_t d = in->dimensions.n == 1 ? in->dimensions.v[0] : -1;
    if (in->n_operands != (get ? 1u : 2u) || d < 0 || d >= o->rank) return malformed(in, err);
    if (!get)
        return td_shape_same_dims(o, in->shape) ? td_plan_relayout(p, src, o, in->shape, r->v, err)
                                                : malformed(in, err);
    if (in->shape->type != TD_S32 || in->shape->rank) return malformed(in, err);
    const td_hlo_instr_t *size = dimension_size(in->operands[0], d);
    if (!size) return add_s32(p, o->dims[d], r->v, err);
    if (size->shape->type != TD_S32 || size->shape->rank) return td_plan_unsupported(size, err);
    r->v[0] = vals[size->index].v[0];
    return TD_OK;
}

bool td_plan_is_structural(const td_hlo_instr_t *in) {
    switch (in->opcode) {
    case TD_HLO_ASYNC_START:
    case TD_HLO_ASYNC_UPDATE:
    case TD_HLO_ASYNC_DONE:
    case TD_HLO_COPY_START:
    case TD_HLO_COPY_DONE:
    case TD_HLO_PARTITION_ID: case TD_HLO_REPLICA_ID: case TD_HLO_GET_DIMENSION_SIZE: case TD_HLO_SET_DIMENSION_SIZE:
    case TD_HLO_DYNAMIC_RESHAPE: return true;
    default: return false;
    }
}

td_status_t td_plan_structural(td_plan_t *p, const td_hlo_instr_t *in, const td_leaves_t *vals, td_leaves_t *r,
                               int depth, td_err_t *err) {
    r->n = td_shape_leaf_count(in->shape);
    r->v = TD_NEW_N(p->arena, uint32_t, r->n + 1);
    if (!r->v) return td_arena_fail(p->arena, err);
    switch (in->opcode) {
    case TD_HLO_ASYNC_START: return async_start(p, in, vals, r, depth, err);
    case TD_HLO_ASYNC_UPDATE:
        if (in->n_operands != 1 || !td_shape_same_dims(in->operands[0]->shape, in->shape)) return malformed(in, err);
        *r = vals[in->operands[0]->index];
        return TD_OK;
    case TD_HLO_ASYNC_DONE: return element(in, 1, vals, r, err);
    case TD_HLO_COPY_START: return copy_start(p, in, vals, r, err);
    case TD_HLO_COPY_DONE: return element(in, 0, vals, r, err);
    case TD_HLO_PARTITION_ID:
    case TD_HLO_REPLICA_ID: /* inside a kernel there is one device: its own thunk kinds know more */
        if (!td_type_is_array(in->shape->type)) return malformed(in, err);
        return add_zero(p, in, in->shape, r->v, err);
    default: return sizes(p, in, vals, r, err);
    }
}
