/* SPDX-License-Identifier: Apache-2.0 */
/* Scalar computations (reducers, comparators, map bodies) as pointwise programs. */
#include "runtime/host/pw.h"

#include <string.h>

#include "runtime/host/types.h"

typedef struct leaves {
    int32_t *v;
    uint32_t n;
} leaves_t;

static td_status_t unsupported(const td_hlo_instr_t *in, td_err_t *err) {
    return td_fail(err, TD_UNSUPPORTED, "%s: %s in a scalar computation is not supported", in->name,
                   in->opcode_name ? in->opcode_name : td_opcode_name(in->opcode));
}

static td_status_t walk(td_pw_builder_t *b, const td_hlo_comp_t *comp, const leaves_t *args, leaves_t *result,
                        int depth, td_err_t *err);

static td_status_t one(td_pw_builder_t *b, const td_hlo_instr_t *in, const leaves_t *vals, const leaves_t *args,
                       leaves_t *r, int depth, td_err_t *err) {
    td_arena_t *arena = b->arena;
    const leaves_t *first = in->n_operands ? &vals[in->operands[0]->index] : NULL;
    switch (in->opcode) {
    case TD_HLO_PARAMETER: *r = args[in->parameter_number]; return TD_OK;
    case TD_HLO_BROADCAST: case TD_HLO_RESHAPE: case TD_HLO_COPY: case TD_HLO_TRANSPOSE: case TD_HLO_OPT_BARRIER:
    case TD_HLO_ADD_DEPENDENCY: case TD_HLO_REVERSE: *r = *first; return TD_OK;
    case TD_HLO_TUPLE: {
        uint32_t n = 0, k = 0;
        for (uint32_t i = 0; i < in->n_operands; i++) n += vals[in->operands[i]->index].n;
        r->v = TD_NEW_N(arena, int32_t, n + 1), r->n = n;
        if (!r->v) return td_arena_fail(arena, err);
        for (uint32_t i = 0; i < in->n_operands; i++)
            for (uint32_t j = 0; j < vals[in->operands[i]->index].n; j++) r->v[k++] = vals[in->operands[i]->index].v[j];
        return TD_OK;
    }
    case TD_HLO_GET_TUPLE_ELEMENT: {
        uint32_t at = 0;
        for (int64_t i = 0; i < in->tuple_index; i++) at += td_shape_leaf_count(in->operands[0]->shape->elements[i]);
        *r = (leaves_t){first->v + at, td_shape_leaf_count(in->shape)};
        return TD_OK;
    }
    case TD_HLO_CALL: case TD_HLO_FUSION: case TD_HLO_MAP: {
        leaves_t *inner = TD_NEW_N(arena, leaves_t, in->n_operands + 1);
        if (!inner) return td_arena_fail(arena, err);
        if (in->n_called != 1 || depth <= 0 || in->called[0]->n_params != in->n_operands) return unsupported(in, err);
        for (uint32_t i = 0; i < in->n_operands; i++) inner[i] = vals[in->operands[i]->index];
        return walk(b, in->called[0], inner, r, depth - 1, err);
    }
    default: break;
    }
    if (!td_type_is_array(in->shape->type) || in->shape->count != 1) return unsupported(in, err);
    r->v = TD_NEW(arena, int32_t), r->n = 1;
    if (!r->v) return td_arena_fail(arena, err);
    td_type_t t = in->shape->type;
    if (in->opcode == TD_HLO_CONSTANT) {
        char element[16] = {0};
        if (!in->literal || in->literal->bytes.size < (in->shape->bits + 7) / 8) return unsupported(in, err);
        if (in->shape->bits < 8) td_subbyte_unpack(t, in->literal->bytes.data, element, 1);
        else memcpy(element, in->literal->bytes.data, td_type_bytes(t));
        r->v[0] = td_pw_const(b, t, element);
        return TD_OK;
    }
    if (in->opcode == TD_HLO_IOTA) {
        r->v[0] = td_pw_const(b, t, (char[16]){0});
        return TD_OK;
    }
    if (in->opcode == TD_HLO_BITCAST) {
        if (in->operands[0]->shape->bits != in->shape->bits) return unsupported(in, err);
        r->v[0] = td_pw_bitcast(b, t, first->v[0]);
        return TD_OK;
    }
    int32_t v[3];
    if (!in->n_operands || in->n_operands > 3) return unsupported(in, err);
    for (uint32_t i = 0; i < in->n_operands; i++) {
        if (vals[in->operands[i]->index].n != 1) return unsupported(in, err);
        v[i] = vals[in->operands[i]->index].v[0];
    }
    return td_pw_add(b, in, v, r->v, err);
}

static td_status_t walk(td_pw_builder_t *b, const td_hlo_comp_t *comp, const leaves_t *args, leaves_t *result,
                        int depth, td_err_t *err) {
    leaves_t *vals = TD_NEW_N(b->arena, leaves_t, comp->n_instrs + 1);
    if (!vals) return td_arena_fail(b->arena, err);
    for (uint32_t i = 0; i < comp->n_instrs; i++) {
        td_status_t s = one(b, comp->instrs[i], vals, args, &vals[i], depth, err);
        if (s) return s;
    }
    *result = vals[comp->root->index];
    return TD_OK;
}

td_status_t td_pw_compile_scalar(const td_hlo_comp_t *comp, td_arena_t *arena, td_pw_t **out, td_err_t *err) {
    td_pw_builder_t b;
    td_pw_begin(&b, arena);
    leaves_t *args = TD_NEW_N(arena, leaves_t, comp->n_params + 1), root;
    if (!args) return td_arena_fail(arena, err);
    for (uint32_t i = 0; i < comp->n_params; i++) {
        const td_hlo_instr_t *p = comp->params[i];
        if (!td_type_is_array(p->shape->type)) return unsupported(p, err);
        args[i].v = TD_NEW(arena, int32_t), args[i].n = 1;
        if (!args[i].v) return td_arena_fail(arena, err);
        args[i].v[0] = td_pw_input(&b, p->shape->type);
    }
    td_status_t s = walk(&b, comp, args, &root, 64, err);
    if (s) return s;
    for (uint32_t i = 0; i < root.n; i++) td_pw_output(&b, td_pw_copied(&b, root.v[i], root.n));
    return td_pw_finish(&b, out, err);
}

td_opcode_t td_pw_simple_op(const td_hlo_comp_t *comp) {
    const td_hlo_instr_t *r = comp->root;
    if (comp->n_params != 2 || r->n_operands != 2 || !td_pw_supported(r)) return TD_HLO_UNKNOWN;
    const td_hlo_instr_t *a = r->operands[0], *b = r->operands[1];
    if (a->opcode != TD_HLO_PARAMETER || b->opcode != TD_HLO_PARAMETER || a == b) return TD_HLO_UNKNOWN;
    if (r->opcode == TD_HLO_COMPARE) return TD_HLO_UNKNOWN;
    if (a->parameter_number == 0) return r->opcode;
    switch (r->opcode) { /* the order of the parameters does not matter to these */
    case TD_HLO_ADD: case TD_HLO_MULTIPLY: case TD_HLO_MAXIMUM: case TD_HLO_MINIMUM: case TD_HLO_AND: case TD_HLO_OR:
    case TD_HLO_XOR: return r->opcode;
    default: return TD_HLO_UNKNOWN;
    }
}
