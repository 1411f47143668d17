/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/host/plan.h"

#include <string.h>

#include "base/limits.h"
#include "runtime/host/types.h"
#include "runtime/topk_desc.h"

td_status_t td_plan_unsupported(const td_hlo_instr_t *in, td_err_t *err) {
    return td_fail(err, TD_UNSUPPORTED, "%s: %s is not supported by the host device", in->name,
                   in->opcode_name ? in->opcode_name : td_opcode_name(in->opcode));
}

td_val_t *td_plan_add(td_plan_t *p, td_val_kind_t kind, td_type_t type, int64_t count, uint32_t *id) {
    if (p->n_vals == p->cap_vals) {
        uint32_t cap = p->cap_vals ? 2 * p->cap_vals : 64;
        td_val_t *v = TD_NEW_N(p->arena, td_val_t, cap);
        if (!v) return NULL;
        if (p->n_vals) memcpy(v, p->vals, p->n_vals * sizeof *v);
        p->vals = v, p->cap_vals = cap;
    }
    td_val_t *v = &p->vals[*id = p->n_vals++];
    *v = (td_val_t){.kind = kind, .type = type, .count = count, .def = -1, .last = -1};
    return v;
}

/* Dimensions of `to` in memory order with the source's strides; adjacent ones merged where they are one run. */
static td_status_t add_map(td_plan_t *p, uint32_t src, const td_shape_t *to, const int64_t *strides, uint32_t *id, td_err_t *err) {
    td_map_t m = {.sizes = TD_NEW_N(p->arena, int64_t, to->rank + 1), .strides = TD_NEW_N(p->arena, int64_t, to->rank + 1)};
    if (!m.sizes || !m.strides) return td_arena_fail(p->arena, err);
    for (uint32_t i = to->rank; i-- > 0;) { /* slowest first */
        int32_t d = to->minor_to_major[i];
        int64_t size = to->dims[d], st = strides[d];
        if (size == 1) continue;
        if (m.rank && m.strides[m.rank - 1] == st * size) m.sizes[m.rank - 1] *= size, m.strides[m.rank - 1] = st;
        else m.sizes[m.rank] = size, m.strides[m.rank++] = st;
    }
    const td_val_t s = p->vals[src];
    if (to->count == s.count && (!m.rank || (m.rank == 1 && m.strides[0] == 1))) {
        *id = src;
        return TD_OK;
    }
    m.splat = m.rank == 1 && m.strides[0] == 0;
    if (s.count == 1) m.splat = true;
    if (m.splat && s.kind == TD_VAL_MAP && s.map.splat) src = s.src[0];
    td_val_t *v = td_plan_add(p, TD_VAL_MAP, s.type, to->count, id);
    if (!v) return td_arena_fail(p->arena, err);
    v->map = m, v->src[0] = src, v->n_src = 1;
    return TD_OK;
}

/* The value that lies as `from`, laid out as `to` (same dimensions). */
td_status_t td_plan_relayout(td_plan_t *p, uint32_t src, const td_shape_t *from, const td_shape_t *to, uint32_t *id, td_err_t *err) {
    int64_t strides[TD_LIMIT_RANK];
    if (from->rank != to->rank || from->count != to->count) return td_fail(err, TD_MISMATCH, "operand and result have different dimensions");
    *id = src;
    if (!from->rank || !memcmp(from->minor_to_major, to->minor_to_major, from->rank * sizeof(int32_t))) return TD_OK;
    td_shape_strides(from, strides);
    return add_map(p, src, to, strides, id, err);
}

static td_status_t add_const(td_plan_t *p, const td_hlo_instr_t *in, uint32_t *id, td_err_t *err) {
    const td_shape_t *s = in->shape;
    if (!in->literal || !td_type_is_array(s->type)) return td_plan_unsupported(in, err);
    const td_span_t b = in->literal->bytes;
    if (b.size < s->bytes) return td_fail(err, TD_MISMATCH, "%s: constant has %zu bytes, its shape %llu", in->name, b.size, (unsigned long long)s->bytes);
    /* A copy: the kernel outlives the module and its artifact. */
    size_t n = (size_t)s->count * td_type_bytes(s->type);
    void *bytes = td_arena_align(p->arena, n + 16, 64);
    if (!bytes) return td_arena_fail(p->arena, err);
    if (s->bits < 8) td_subbyte_unpack(s->type, b.data, bytes, (size_t)s->count);
    else if (n) memcpy(bytes, b.data, n);
    td_val_t *v = td_plan_add(p, TD_VAL_CONST, s->type, s->count, id);
    if (!v) return td_arena_fail(p->arena, err);
    v->buf = (td_buf_t){.space = TD_BUF_CONST, .bytes = bytes};
    return TD_OK;
}

/* The macro op of an instruction; some custom calls are opcodes by another name. */
static const td_host_op_kind_t *macro_of(const td_hlo_instr_t *in) {
    bool topk = td_is_topk_call(in);
    return td_host_op_find(topk ? TD_HLO_TOPK : in->opcode);
}

static td_status_t add_macro(td_plan_t *p, const td_hlo_instr_t *in, const td_leaves_t *vals, td_leaves_t *r, td_err_t *err) {
    const td_host_op_kind_t *kind = macro_of(in);
    if (!kind) return td_plan_unsupported(in, err);
    if (p->n_macros == p->cap_macros) {
        uint32_t cap = p->cap_macros ? 2 * p->cap_macros : 16;
        td_macro_t *m = TD_NEW_N(p->arena, td_macro_t, cap);
        if (!m) return td_arena_fail(p->arena, err);
        if (p->n_macros) memcpy(m, p->macros, p->n_macros * sizeof *m);
        p->macros = m, p->cap_macros = cap;
    }
    td_macro_t *m = &p->macros[p->n_macros];
    *m = (td_macro_t){.instr = in, .kind = kind};
    td_status_t s = kind->prepare(in, p->arena, &m->state, &m->scratch, err);
    if (s) return s;
    for (uint32_t i = 0; i < in->n_operands; i++) m->n_in += vals[in->operands[i]->index].n;
    m->in = TD_NEW_N(p->arena, uint32_t, m->n_in + 1);
    if (!m->in) return td_arena_fail(p->arena, err);
    uint32_t k = 0;
    for (uint32_t i = 0; i < in->n_operands; i++)
        for (uint32_t j = 0; j < vals[in->operands[i]->index].n; j++) m->in[k++] = vals[in->operands[i]->index].v[j];
    m->first_out = p->n_vals, m->n_out = r->n;
    for (uint32_t i = 0; i < r->n; i++) {
        const td_shape_t *leaf = td_shape_leaf(in->shape, i);
        td_val_t *v = td_plan_add(p, TD_VAL_MACRO, leaf->type, leaf->count, &r->v[i]);
        if (!v) return td_arena_fail(p->arena, err);
        v->macro = p->n_macros, v->mat = true, v->instr = in;
    }
    p->n_macros++;
    return TD_OK;
}

static td_status_t array_op(td_plan_t *p, const td_hlo_instr_t *in, const td_leaves_t *vals, td_leaves_t *r, td_err_t *err) {
    const td_shape_t *to = in->shape, *from = in->n_operands ? in->operands[0]->shape : NULL;
    const td_leaves_t *first = in->n_operands ? &vals[in->operands[0]->index] : NULL;
    int64_t strides[TD_LIMIT_RANK], source[TD_LIMIT_RANK];
    td_val_t *v;
    td_status_t s;
    uint32_t id;
    switch (in->opcode) {
    case TD_HLO_CONSTANT: return add_const(p, in, &r->v[0], err);
    case TD_HLO_COPY: return td_plan_relayout(p, first->v[0], from, to, &r->v[0], err);
    case TD_HLO_RESHAPE: {
        const td_shape_t *a, *b;
        if ((s = td_shape_with_default_layout(p->arena, from, &a, err)) || (s = td_shape_with_default_layout(p->arena, to, &b, err)) ||
            (s = td_plan_relayout(p, first->v[0], from, a, &id, err)))
            return s;
        return td_plan_relayout(p, id, b, to, &r->v[0], err);
    }
    case TD_HLO_BROADCAST:
        td_shape_strides(from, source);
        memset(strides, 0, sizeof strides);
        if (in->dimensions.n != from->rank) return td_plan_unsupported(in, err);
        for (uint32_t i = 0; i < from->rank; i++)
            if (from->dims[i] != 1) strides[in->dimensions.v[i]] = source[i];
        return add_map(p, first->v[0], to, strides, &r->v[0], err);
    case TD_HLO_IOTA:
        td_shape_strides(to, strides);
        if (!(v = td_plan_add(p, TD_VAL_IOTA, to->type, to->count, &r->v[0]))) return td_arena_fail(p->arena, err);
        v->iota_inner = v->iota_size = 1;
        if (in->dimensions.n == 1 && to->count) v->iota_inner = strides[in->dimensions.v[0]], v->iota_size = to->dims[in->dimensions.v[0]];
        return TD_OK;
    case TD_HLO_BITCAST: {
        uint32_t src = first->v[0];
        if (from->type == to->type && from->count == to->count) {
            r->v[0] = src;
            return TD_OK;
        }
        if (from->count * td_type_bytes(from->type) != to->count * td_type_bytes(to->type) || from->bits < 8 || to->bits < 8)
            return add_macro(p, in, vals, r, err);
        if (p->vals[src].kind == TD_VAL_ALIAS) src = p->vals[src].src[0];
        if (!(v = td_plan_add(p, TD_VAL_ALIAS, to->type, to->count, &r->v[0]))) return td_arena_fail(p->arena, err);
        v->src[0] = src, v->n_src = 1;
        return TD_OK;
    }
    default: break;
    }
    if (!td_pw_supported(in)) return add_macro(p, in, vals, r, err);
    uint32_t src[3] = {0};
    for (uint32_t i = 0; i < in->n_operands; i++) {
        const td_shape_t *os = in->operands[i]->shape;
        src[i] = vals[in->operands[i]->index].v[0];
        if (os->rank == 0 && to->rank > 0) s = add_map(p, src[i], to, memset(strides, 0, sizeof strides), &src[i], err);
        else s = td_plan_relayout(p, src[i], os, to, &src[i], err);
        if (s) return td_prefix(err, s, "%s", in->name);
    }
    if (!(v = td_plan_add(p, TD_VAL_PW, to->type, to->count, &r->v[0]))) return td_arena_fail(p->arena, err);
    v->instr = in, v->n_src = in->n_operands;
    memcpy(v->src, src, sizeof src);
    return TD_OK;
}

static td_status_t one(td_plan_t *p, const td_hlo_instr_t *in, const td_leaves_t *vals, const td_leaves_t *args, td_leaves_t *r, int depth, td_err_t *err) {
    const td_leaves_t *first = in->n_operands ? &vals[in->operands[0]->index] : NULL;
    uint32_t k = 0, at = 0;
    switch (in->opcode) {
    case TD_HLO_PARAMETER: *r = args[in->parameter_number]; return TD_OK;
    case TD_HLO_OPT_BARRIER: case TD_HLO_ADD_DEPENDENCY: case TD_HLO_DOMAIN: *r = *first; return TD_OK;
    case TD_HLO_GET_TUPLE_ELEMENT:
        for (int64_t i = 0; i < in->tuple_index; i++) at += td_shape_leaf_count(in->operands[0]->shape->elements[i]);
        *r = (td_leaves_t){first->v + at, td_shape_leaf_count(in->shape)};
        return TD_OK;
    case TD_HLO_AFTER_ALL: return TD_OK;
    default: break;
    }
    if (td_plan_is_structural(in)) return td_plan_structural(p, in, vals, r, depth, err);
    r->n = td_shape_leaf_count(in->shape);
    r->v = TD_NEW_N(p->arena, uint32_t, r->n + 1);
    if (!r->v) return td_arena_fail(p->arena, err);
    switch (in->opcode) {
    case TD_HLO_TUPLE:
        for (uint32_t i = 0; i < in->n_operands; i++)
            for (uint32_t j = 0; j < vals[in->operands[i]->index].n && k < r->n; j++) r->v[k++] = vals[in->operands[i]->index].v[j];
        return TD_OK;
    case TD_HLO_CALL: case TD_HLO_FUSION: {
        td_leaves_t *inner = TD_NEW_N(p->arena, td_leaves_t, in->n_operands + 1);
        if (!inner) return td_arena_fail(p->arena, err);
        if (in->n_called != 1 || depth <= 0 || in->called[0]->n_params != in->n_operands) return td_plan_unsupported(in, err);
        for (uint32_t i = 0; i < in->n_operands; i++) inner[i] = vals[in->operands[i]->index];
        return td_plan_walk(p, in->called[0], inner, r, depth - 1, err);
    }
    case TD_HLO_CUSTOM_CALL:
        if (!macro_of(in)) return td_fail(err, TD_UNSUPPORTED, "%s: custom call %s is not supported by the host device", in->name, in->custom_call_target ? in->custom_call_target : "");
        /* fallthrough */
    default:
        for (uint32_t i = 0; i < in->n_operands; i++)
            if (!vals[in->operands[i]->index].n && in->operands[i]->shape->type != TD_TUPLE) return td_plan_unsupported(in, err);
        if (in->shape->type != TD_TUPLE && r->n != 1) return td_plan_unsupported(in, err);
        return in->shape->type == TD_TUPLE ? add_macro(p, in, vals, r, err) : array_op(p, in, vals, r, err);
    }
}

/* The value of one instruction of the computation, and of what it needs. */
static td_status_t walk_to(td_plan_t *p, const td_hlo_comp_t *comp, const td_hlo_instr_t *target, const td_leaves_t *args, td_leaves_t *root,
                           int depth, td_err_t *err) {
    td_leaves_t *vals = TD_NEW_N(p->arena, td_leaves_t, comp->n_instrs + 1);
    bool *live = TD_NEW_N(p->arena, bool, comp->n_instrs + 1);
    if (!vals || !live) return td_arena_fail(p->arena, err);
    live[target->index] = true;
    for (uint32_t i = comp->n_instrs; i-- > 0;)
        for (uint32_t j = 0; live[i] && j < comp->instrs[i]->n_operands; j++) live[comp->instrs[i]->operands[j]->index] = true;
    for (uint32_t i = 0; i < comp->n_instrs; i++) {
        if (!live[i]) continue;
        td_status_t s = one(p, comp->instrs[i], vals, args, &vals[i], depth, err);
        if (s) return s;
        if (vals[i].n != td_shape_leaf_count(comp->instrs[i]->shape)) return td_plan_unsupported(comp->instrs[i], err);
    }
    *root = vals[target->index];
    return TD_OK;
}

td_status_t td_plan_walk(td_plan_t *p, const td_hlo_comp_t *comp, const td_leaves_t *args, td_leaves_t *root, int depth, td_err_t *err) {
    return walk_to(p, comp, comp->root, args, root, depth, err);
}

static td_status_t add_params(td_plan_t *p, const td_shape_t *s, td_leaves_t *r, td_err_t *err) {
    if (s->type == TD_TUPLE) {
        for (uint32_t i = 0; i < s->rank; i++) {
            td_status_t st = add_params(p, s->elements[i], r, err);
            if (st) return st;
        }
        return TD_OK;
    }
    if (!td_type_is_array(s->type)) return TD_OK;
    td_val_t *v = td_plan_add(p, TD_VAL_PARAM, s->type, s->count, &r->v[r->n]);
    if (!v) return td_arena_fail(p->arena, err);
    v->shape = s, v->mat = true, v->packed = s->bits < 8;
    v->buf = (td_buf_t){.space = TD_BUF_ARG, .offset = p->n_params++};
    r->n++;
    return TD_OK;
}

/* Parameters of every operand; an operand named twice is two arguments. */
static td_status_t add_operands(td_plan_t *p, const td_hlo_instr_t *in, td_leaves_t *mine, td_err_t *err) {
    for (uint32_t i = 0; i < in->n_operands; i++) {
        td_leaves_t *l = &mine[i];
        l->v = TD_NEW_N(p->arena, uint32_t, td_shape_leaf_count(in->operands[i]->shape) + 1);
        if (!l->v) return td_arena_fail(p->arena, err);
        td_status_t s = add_params(p, in->operands[i]->shape, l, err);
        if (s) return s;
    }
    return TD_OK;
}

/* The joined kernel's result in the place of the operand that it makes. */
static td_status_t add_producer(td_plan_t *p, const td_kernel_desc_t *d, td_leaves_t *mine, td_err_t *err) {
    const td_hlo_instr_t *in = d->producer;
    td_leaves_t *args = TD_NEW_N(p->arena, td_leaves_t, in->n_operands + 1), root = {0};
    if (!args) return td_arena_fail(p->arena, err);
    td_status_t s = add_operands(p, in, args, err);
    const td_hlo_instr_t *result = in->called[0]->root;
    if (result->opcode == TD_HLO_TUPLE) result = result->operands[d->producer_output];
    if (!s) s = walk_to(p, in->called[0], result, args, &root, TD_LIMIT_COMP_DEPTH, err);
    if (s) return s;
    td_leaves_t *place = &mine[d->producer_operand];
    const td_val_t *made = root.n == 1 ? &p->vals[root.v[0]] : NULL, *read = &p->vals[place->v[0]];
    if (!made || made->type != read->type || made->count != read->count) return td_fail(err, TD_MISMATCH, "%s and %s do not fit together", in->name, d->instr->name);
    *place = root;
    return TD_OK;
}

td_status_t td_plan_build(const td_kernel_desc_t *d, td_arena_t *arena, td_plan_t *p, td_err_t *err) {
    const td_hlo_instr_t *in = d->instr;
    *p = (td_plan_t){.arena = arena};
    uint32_t top = 0;
    for (uint32_t i = 0; i < in->n_operands; i++)
        if (in->operands[i]->index > top) top = in->operands[i]->index;
    td_leaves_t *vals = TD_NEW_N(arena, td_leaves_t, top + 1), root = {0};
    td_leaves_t *mine = TD_NEW_N(arena, td_leaves_t, in->n_operands + 1);
    if (!vals || !mine) return td_arena_fail(arena, err);
    td_status_t s = add_operands(p, in, mine, err);
    if (!s && d->producer) s = add_producer(p, d, mine, err);
    if (s) return s;
    for (uint32_t i = 0; i < in->n_operands; i++) vals[in->operands[i]->index] = mine[i];
    s = (in->opcode == TD_HLO_FUSION || in->opcode == TD_HLO_CALL) && in->n_called == 1 && in->called[0]->n_params == in->n_operands
            ? td_plan_walk(p, in->called[0], mine, &root, TD_LIMIT_COMP_DEPTH, err)
            : one(p, in, vals, mine, &root, TD_LIMIT_COMP_DEPTH, err);
    p->roots = root.v, p->n_roots = root.n;
    return s;
}
