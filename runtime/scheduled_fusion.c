/* SPDX-License-Identifier: Apache-2.0 */
/* Fusions. Nearly all are one kernel each. A fusion around a library call (dynamic-slice fusions: slices, the call,
 * updates) is taken apart instead: its instructions become thunks of their own, with temporary memory between them. */
#include <string.h>

#include "base/checked.h"
#include "runtime/scheduled_in.h"

static td_status_t add_allocation(td_sched_t *s, uint64_t bytes, const td_literal_t *literal, td_place_t *out) {
    Xla__BufferAllocationProto *p = TD_NEW(s->arena, Xla__BufferAllocationProto);
    if (!p) return td_arena_fail(s->arena, s->err);
    if (s->n_allocations == UINT32_MAX || bytes > TD_LIMIT_ALLOCATION_BYTES)
        return td_fail(s->err, TD_LIMIT, "temporary array of %llu bytes", (unsigned long long)bytes);
    if (s->n_allocations == s->cap_allocations) {
        size_t cap = 2 * (size_t)s->cap_allocations + 8;
        Xla__BufferAllocationProto **v = TD_NEW_N(s->arena, Xla__BufferAllocationProto *, cap);
        const td_literal_t **l = (const td_literal_t **)td_arena_array(s->arena, cap, sizeof *l);
        if (!v || !l) return td_arena_fail(s->arena, s->err);
        memcpy(v, s->allocations, s->n_allocations * sizeof *v);
        memcpy(l, s->literals, s->n_allocations * sizeof *l);
        s->allocations = v, s->literals = l, s->cap_allocations = (uint32_t)(cap < UINT32_MAX ? cap : UINT32_MAX);
    }
    xla__buffer_allocation_proto__init(p);
    p->has_index = p->has_size = p->has_is_constant = true;
    p->index = s->n_allocations;
    p->size = (int64_t)bytes;
    p->is_constant = literal != NULL;
    *out = (td_place_t){true, s->n_allocations, 0, bytes};
    s->literals[s->n_allocations] = literal;
    s->allocations[s->n_allocations++] = p;
    return TD_OK;
}

/* Does it pass values on, or have its place from elsewhere? */
static bool makes_nothing(const td_hlo_instr_t *in) {
    switch (in->opcode) {
    case TD_HLO_PARAMETER: case TD_HLO_TUPLE: case TD_HLO_GET_TUPLE_ELEMENT: case TD_HLO_BITCAST:
    case TD_HLO_OPT_BARRIER: case TD_HLO_ADD_DEPENDENCY: case TD_HLO_AFTER_ALL: return true;
    default: return false;
    }
}

/* The sizes of i's arrays, as temporary memory for those that have no place yet. */
static td_status_t temporaries(td_sched_t *s, td_sched_instr_t *i, const td_shape_t *shape, uint32_t *leaf) {
    td_status_t st = TD_OK;
    if (shape->type == TD_TUPLE) {
        for (uint32_t k = 0; k < shape->rank && !st; k++) st = temporaries(s, i, shape->elements[k], leaf);
        return st;
    }
    if (!td_type_is_array(shape->type)) return TD_OK;
    td_place_t *p = &i->places[(*leaf)++];
    const td_literal_t *l = i->in->opcode == TD_HLO_CONSTANT ? i->in->literal : NULL;
    return p->set ? TD_OK : add_allocation(s, shape->bytes, l, p);
}

/* The last instruction that computes may write the fusion's own results: whatever it overwrites has been read. Only
 * where it, or its elements in order, is the root. */
static void aim(td_sched_instr_t *last, const td_hlo_instr_t *root, const td_place_t *places, uint32_t n) {
    if (root == last->in && n == last->n_leaves) {
        memcpy(last->places, places, n * sizeof *places);
    } else if (root->opcode == TD_HLO_GET_TUPLE_ELEMENT && root->operands[0] == last->in &&
               root->operands[0]->shape->type == TD_TUPLE) {
        const td_shape_t *shape = last->in->shape;
        uint32_t at = td_sched_leaves_before(shape, (uint32_t)root->tuple_index);
        if (n == td_shape_leaf_count(root->shape) && at <= last->n_leaves && n <= last->n_leaves - at)
            memcpy(last->places + at, places, n * sizeof *places);
    } else if (root->opcode == TD_HLO_BITCAST) {
        aim(last, root->operands[0], places, n);
    } else if (root->opcode == TD_HLO_TUPLE) {
        for (uint32_t k = 0, at = 0; k < root->n_operands; k++) {
            uint32_t m = td_shape_leaf_count(root->operands[k]->shape);
            if (m > n - at) return;
            if (root->operands[k]->opcode != TD_HLO_TUPLE) aim(last, root->operands[k], places + at, m);
            at += m;
        }
    }
}

static td_status_t take_apart(td_sched_t *s, td_sched_out_t *out, td_sched_instr_t *i) {
    td_sched_comp_t *k = td_sched_comp(s, i->in->called[0]);
    td_sched_instr_t *last = NULL;
    td_status_t st;
    if (k->used) return td_fail(s->err, TD_UNSUPPORTED, "'%s' is called from two places", k->comp->name);
    k->used = true;
    for (uint32_t n = 0; n < k->comp->n_instrs; n++) {
        td_sched_instr_t *p = &k->instrs[n];
        p->places = TD_NEW_N(s->arena, td_place_t, p->n_leaves); /* not those of the buffer assignment, if any */
        if (!p->places) return td_arena_fail(s->arena, s->err);
        if (!makes_nothing(p->in) && p->in->opcode != TD_HLO_CONSTANT) last = p;
    }
    if ((st = td_sched_bind(s, i, 0, k->comp))) return st;
    if (last) aim(last, k->comp->root, i->places, i->n_leaves);
    for (uint32_t n = 0; n < k->comp->n_instrs; n++) {
        uint32_t leaf = 0;
        td_sched_instr_t *p = &k->instrs[n];
        if (!makes_nothing(p->in) && (st = temporaries(s, p, p->in->shape, &leaf))) return st;
        if ((st = td_sched_instruction(s, out, p))) return st;
    }
    const td_sched_instr_t *root = td_sched_instr(s, k->comp->root);
    if (root->n_leaves != i->n_leaves)
        return td_fail(s->err, TD_MISMATCH, "'%s' has %u results, its computation %u", i->in->name, i->n_leaves,
                       root->n_leaves);
    for (uint32_t n = 0; n < i->n_leaves; n++)
        if ((st = td_sched_copy(s, out, root, n, i, n))) return st;
    return TD_OK;
}

/* A call that no kernel can take in. */
static bool has_library_call(const td_hlo_comp_t *comp) {
    for (uint32_t k = 0; k < comp->n_instrs; k++) {
        const td_hlo_instr_t *in = comp->instrs[k];
        if (in->opcode == TD_HLO_CUSTOM_CALL && in->custom_call_target && strcmp(in->custom_call_target, "__gpu$TopK"))
            return true;
    }
    return false;
}

td_status_t td_sched_fusion(td_sched_t *s, td_sched_out_t *out, td_sched_instr_t *i) {
    json_t *j = NULL;
    td_status_t st = *i->in->backend_config == '{' ? td_sched_config(s, i, "fusion_backend_config", &j) : TD_OK;
    if (st) return st;
    const char *kind = json_string_value(json_object_get(j, "kind"));
    bool cudnn = kind && !strcmp(kind, "__cudnn$fusion");
    json_decref(j);
    if (i->in->n_called != 1) return td_fail(s->err, TD_MALFORMED, "fusion '%s' without computation", i->in->name);
    if (cudnn) return td_sched_cudnn(s, out, i);
    return has_library_call(i->in->called[0]) ? take_apart(s, out, i) : td_sched_kernel(s, out, i);
}
