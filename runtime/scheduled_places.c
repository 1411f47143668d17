/* SPDX-License-Identifier: Apache-2.0 */
/* Where values lie: what the buffer assignment records, and what instructions pass on.
 * Source: xla/service/buffer_assignment.cc (ToProto), xla/hlo/analysis/hlo_dataflow_analysis.cc. */
#include <string.h>

#include "base/checked.h"
#include "runtime/scheduled_in.h"

#define LL(x) ((long long)(x))

uint32_t td_sched_leaves_before(const td_shape_t *s, uint32_t k) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < k && i < s->rank; i++) n += td_shape_leaf_count(s->elements[i]);
    return n;
}

/* The leaves below a shape index: *n from *first on. */
static td_status_t leaves_at(td_sched_t *s, const td_sched_instr_t *i, const int64_t *index, size_t n_index,
                             const td_shape_t **out_shape, uint32_t *first, uint32_t *n) {
    const td_shape_t *shape = i->in->shape;
    *first = 0;
    for (size_t k = 0; k < n_index; k++) {
        if (shape->type != TD_TUPLE || index[k] < 0 || index[k] >= shape->rank)
            return td_fail(s->err, TD_MALFORMED, "a shape index does not fit '%s'", i->in->name);
        *first += k ? td_sched_leaves_before(shape, (uint32_t)index[k]) : i->first[index[k]];
        shape = shape->elements[index[k]];
    }
    *out_shape = shape;
    *n = td_shape_leaf_count(shape);
    return TD_OK;
}

static td_status_t record(td_sched_t *s, const Xla__LogicalBufferProto *b, const td_place_t *place) {
    td_sched_instr_t *i = td_sched_find(s, b->defined_at);
    const td_shape_t *shape = NULL;
    uint32_t leaf = 0, n = 0;
    if (!i)
        return td_fail(s->err, TD_MALFORMED, "logical buffer %lld is of an instruction that is not there", LL(b->id));
    td_status_t st = leaves_at(s, i, b->defined_at->shape_index, b->defined_at->n_shape_index, &shape, &leaf, &n);
    if (st || !td_type_is_array(shape->type)) return st; /* a tuple's table, or a token */
    if (!i->places && !(i->places = TD_NEW_N(s->arena, td_place_t, i->n_leaves)))
        return td_arena_fail(s->arena, s->err);
    return td_sched_same(s, "a value", i, &i->places[leaf], 1, place, 1);
}

typedef struct logical { /* open addressing by id */
    const Xla__LogicalBufferProto *b;
} logical_t;

static logical_t *find(logical_t *v, size_t mask, int64_t id) {
    size_t at = (size_t)((uint64_t)id * 0x9e3779b97f4a7c15ull >> 20) & mask;
    while (v[at].b && v[at].b->id != id) at = (at + 1) & mask;
    return &v[at];
}

static td_status_t allocation(td_sched_t *s, logical_t *v, size_t mask, const Xla__BufferAllocationProto *p) {
    for (size_t k = 0; k < p->n_assigned; k++) {
        const Xla__BufferAllocationProto__Assigned *g = p->assigned[k];
        const Xla__LogicalBufferProto *b = find(v, mask, g->logical_buffer_id)->b;
        if (!b)
            return td_fail(s->err, TD_MALFORMED, "assigned[%zu]: there is no logical buffer %lld", k,
                           LL(g->logical_buffer_id));
        if (g->offset < 0 || g->size < 0 || p->size < 0 ||
            !td_range_ok((uint64_t)g->offset, (uint64_t)g->size, (uint64_t)p->size))
            return td_fail(s->err, TD_MALFORMED, "assigned[%zu]: [%lld, +%lld) outside its %lld bytes", k,
                           LL(g->offset), LL(g->size), LL(p->size));
        if (b->size != g->size)
            return td_fail(s->err, TD_MISMATCH, "assigned[%zu]: %lld bytes for logical buffer %lld of %lld", k,
                           LL(g->size), LL(b->id), LL(b->size));
        td_place_t place = {true, (uint32_t)p->index, (uint64_t)g->offset, (uint64_t)g->size};
        td_status_t st = record(s, b, &place);
        if (st) return td_prefix(s->err, st, "assigned[%zu]", k);
    }
    return TD_OK;
}

td_status_t td_sched_places(td_sched_t *s) {
    const Xla__BufferAssignmentProto *p = s->a->exe->buffer_assignment;
    size_t n = 16;
    while (n < 2 * p->n_logical_buffers) n *= 2;
    logical_t *v = TD_NEW_N(s->arena, logical_t, n);
    if (!v) return td_arena_fail(s->arena, s->err);
    for (size_t k = 0; k < p->n_logical_buffers; k++) {
        logical_t *at = find(v, n - 1, p->logical_buffers[k]->id);
        if (at->b) return td_fail(s->err, TD_MALFORMED, "logical buffer %lld occurs twice", LL(at->b->id));
        at->b = p->logical_buffers[k];
    }
    for (size_t k = 0; k < p->n_buffer_allocations; k++) {
        const Xla__BufferAllocationProto *q = p->buffer_allocations[k];
        if (q->index < 0 || (uint64_t)q->index != k || k >= UINT32_MAX)
            return td_fail(s->err, TD_MALFORMED, "allocations[%zu]: its index is %lld", k, LL(q->index));
        td_status_t st = allocation(s, v, n - 1, q);
        if (st) return td_prefix(s->err, st, "allocations[%zu]", k);
    }
    return TD_OK;
}

td_status_t td_sched_same(td_sched_t *s, const char *what, const td_sched_instr_t *of, td_place_t *to, uint32_t n_to,
                          const td_place_t *from, uint32_t n_from) {
    if (n_to != n_from)
        return td_fail(s->err, TD_MISMATCH, "'%s': %s of %u arrays where %u are expected", of->in->name, what, n_from,
                       n_to);
    for (uint32_t k = 0; k < n_to; k++) {
        if (!from[k].set) continue;
        if (to[k].set && (to[k].allocation != from[k].allocation || to[k].offset != from[k].offset))
            return td_fail(s->err, TD_MISMATCH,
                           "'%s': array %u of %s lies at %llu of allocation %u and at %llu of allocation %u",
                           of->in->name, k, what, (unsigned long long)to[k].offset, to[k].allocation,
                           (unsigned long long)from[k].offset, from[k].allocation);
        if (!to[k].set) to[k] = from[k];
    }
    return TD_OK;
}

static td_status_t operand(td_sched_t *s, td_sched_instr_t *i, uint32_t k, uint32_t at, uint32_t n) {
    const td_sched_instr_t *from = td_sched_instr(s, i->in->operands[k]);
    return td_sched_same(s, "a value passed on", i, i->places + at, n, from->places, from->n_leaves);
}

/* copy-start: (copy, operand, context). */
static td_status_t copy_start(td_sched_t *s, td_sched_instr_t *i) {
    if (i->in->n_operands < 1 || i->in->shape->type != TD_TUPLE || i->in->shape->rank < 2)
        return td_fail(s->err, TD_MALFORMED, "'%s': copy-start without operand or pair of results", i->in->name);
    uint32_t n = td_shape_leaf_count(i->in->shape->elements[0]);
    return operand(s, i, 0, n, td_shape_leaf_count(i->in->shape->elements[1]));
}

/* Element k of the operand. */
static td_status_t element(td_sched_t *s, td_sched_instr_t *i, int64_t k) {
    if (i->in->n_operands < 1 || i->in->operands[0]->shape->type != TD_TUPLE || k < 0 ||
        k >= i->in->operands[0]->shape->rank)
        return td_fail(s->err, TD_MALFORMED, "'%s': its operand has no element %lld", i->in->name, LL(k));
    const td_sched_instr_t *from = td_sched_instr(s, i->in->operands[0]);
    return td_sched_same(s, "a value passed on", i, i->places, i->n_leaves, from->places + from->first[k],
                         from->first[k + 1] - from->first[k]);
}

static td_status_t tuple(td_sched_t *s, td_sched_instr_t *i) {
    uint32_t at = 0;
    for (uint32_t k = 0; k < i->in->n_operands; k++) {
        uint32_t n = td_shape_leaf_count(i->in->operands[k]->shape);
        if (n > i->n_leaves - at)
            return td_fail(s->err, TD_MISMATCH, "tuple '%s' has %u arrays, its operands more", i->in->name,
                           i->n_leaves);
        td_status_t st = operand(s, i, k, at, n);
        if (st) return st;
        at += n;
    }
    return TD_OK;
}

/* Results of calls and fusions that are an operand's memory by agreement may have no logical buffer of their own. */
static td_status_t aliased_results(td_sched_t *s, td_sched_instr_t *i) {
    for (size_t k = 0; k < i->msg->n_output_operand_aliasing; k++) {
        const Xla__OutputOperandAliasing *a = i->msg->output_operand_aliasing[k];
        const td_shape_t *shape = NULL;
        uint32_t to = 0, n_to = 0, from = 0, n_from = 0;
        if (a->operand_index < 0 || a->operand_index >= i->in->n_operands)
            return td_fail(s->err, TD_MALFORMED, "'%s': a result aliases operand %lld of %u", i->in->name,
                           LL(a->operand_index), i->in->n_operands);
        const td_sched_instr_t *o = td_sched_instr(s, i->in->operands[a->operand_index]);
        td_status_t st = leaves_at(s, i, a->output_shape_index, a->n_output_shape_index, &shape, &to, &n_to);
        if (!st) st = leaves_at(s, o, a->operand_shape_index, a->n_operand_shape_index, &shape, &from, &n_from);
        if (!st && n_to != n_from)
            st = td_fail(s->err, TD_MISMATCH, "'%s': results of %u arrays alias %u", i->in->name, n_to, n_from);
        if (st) return st;
        for (uint32_t m = 0; m < n_to && o->places; m++)
            if (!i->places[to + m].set) i->places[to + m] = o->places[from + m];
    }
    return TD_OK;
}

td_status_t td_sched_pass_on(td_sched_t *s, td_sched_instr_t *i) {
    if (!i->places && !(i->places = TD_NEW_N(s->arena, td_place_t, i->n_leaves)))
        return td_arena_fail(s->arena, s->err);
    bool one = i->in->n_operands >= 1;
    switch (i->in->opcode) {
    case TD_HLO_TUPLE: return tuple(s, i);
    case TD_HLO_GET_TUPLE_ELEMENT: return element(s, i, i->in->tuple_index);
    case TD_HLO_COPY_START: return copy_start(s, i);
    case TD_HLO_COPY_DONE: return element(s, i, 0);
    case TD_HLO_ASYNC_DONE: return element(s, i, 1);
    case TD_HLO_BITCAST:
    case TD_HLO_OPT_BARRIER:
    case TD_HLO_DOMAIN:
    case TD_HLO_ADD_DEPENDENCY:
    case TD_HLO_ASYNC_UPDATE:
        return one ? operand(s, i, 0, 0, i->n_leaves)
                   : td_fail(s->err, TD_MALFORMED, "'%s' has no operand", i->in->name);
    case TD_HLO_CUSTOM_CALL: case TD_HLO_FUSION: return aliased_results(s, i);
    default: return TD_OK;
    }
}
