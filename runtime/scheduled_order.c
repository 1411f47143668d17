/* SPDX-License-Identifier: Apache-2.0 */
/* The schedule of a module: which instruction comes after which, and tables to find instructions.
 * The wire form is HloScheduleProto: field 1, one entry per computation, {1: id of the computation, 2: {1: packed ids
 * of its instructions in order}}. Source: xla/service/hlo.proto, xla/hlo/ir/hlo_schedule.cc (CreateFromProto). */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "proto/wire.h"
#include "runtime/scheduled_in.h"

#define LL(x) ((long long)(x))

static int by_address(const void *a, const void *b) {
    uintptr_t x = (uintptr_t)(*(const td_sched_comp_t *const *)a)->comp;
    uintptr_t y = (uintptr_t)(*(const td_sched_comp_t *const *)b)->comp;
    return x < y ? -1 : x > y;
}

static int by_number(const void *a, const void *b) {
    int64_t x = (*(const td_sched_comp_t *const *)a)->comp->id, y = (*(const td_sched_comp_t *const *)b)->comp->id;
    return x < y ? -1 : x > y;
}

td_sched_comp_t *td_sched_comp(const td_sched_t *s, const td_hlo_comp_t *comp) {
    const td_sched_comp_t key = {.comp = comp}, *p = &key;
    const td_sched_comp_t **at = bsearch(&p, s->by_comp, s->m->hlo->n_comps, sizeof *s->by_comp, by_address);
    return at ? &s->comps[*at - s->comps] : NULL;
}

td_sched_instr_t *td_sched_instr(const td_sched_t *s, const td_hlo_instr_t *in) {
    td_sched_comp_t *c = td_sched_comp(s, in->comp);
    return c ? &c->instrs[in->index] : NULL;
}

/* Ids are unique in the module: (computation << 32) + number in it. The module may keep only the lower half, where
 * the buffer assignment has it all. */
static int64_t full_id(const td_sched_t *s, const td_hlo_comp_t *c, int64_t id) {
    if (s->plain_ids) return id;
    return id >= 0 && id <= UINT32_MAX && c->id >= 0 && c->id <= INT32_MAX
               ? (int64_t)((uint64_t)c->id << 32 | (uint64_t)id)
               : id;
}

static size_t slot_of(const td_sched_t *s, int64_t id) {
    uint64_t h = (uint64_t)id * 0x9e3779b97f4a7c15ull;
    size_t at = (size_t)(h >> 20) & s->id_mask;
    while (s->by_id[at] && full_id(s, s->by_id[at]->in->comp, s->by_id[at]->in->id) != id) at = (at + 1) & s->id_mask;
    return at;
}

td_sched_instr_t *td_sched_find(const td_sched_t *s, const Xla__LogicalBufferProto__Location *at) {
    if (!at) return NULL;
    if (!at->has_instruction_id && at->instruction_name && *at->instruction_name) {
        const td_hlo_instr_t *in = td_hlo_find(s->m->hlo, at->instruction_name, strlen(at->instruction_name));
        return in ? td_sched_instr(s, in) : NULL;
    }
    return s->by_id[slot_of(s, at->has_instruction_id ? at->instruction_id : 0)];
}

/* The first leaf of each element, counted once: state tuples are large and are taken apart element by element. */
static bool count_leaves(td_sched_t *s, td_sched_instr_t *p) {
    const td_shape_t *shape = p->in->shape;
    if (shape->type != TD_TUPLE) return p->n_leaves = td_shape_leaf_count(shape), true;
    uint32_t *first = TD_NEW_N(s->arena, uint32_t, (size_t)shape->rank + 1);
    if (!first) return false;
    for (uint32_t k = 0; k < shape->rank; k++) first[k + 1] = first[k] + td_shape_leaf_count(shape->elements[k]);
    p->first = first;
    p->n_leaves = first[shape->rank];
    return true;
}

static td_status_t index_comp(td_sched_t *s, uint32_t c) {
    td_sched_comp_t *k = &s->comps[c];
    k->comp = s->m->hlo->comps[c];
    k->instrs = TD_NEW_N(s->arena, td_sched_instr_t, k->comp->n_instrs);
    if (!k->instrs) return td_arena_fail(s->arena, s->err);
    for (uint32_t i = 0; i < k->comp->n_instrs; i++) {
        td_sched_instr_t *p = &k->instrs[i];
        p->in = k->comp->instrs[i];
        p->msg = s->hlo->computations[c]->instructions[i];
        if (!count_leaves(s, p)) return td_arena_fail(s->arena, s->err);
        size_t at = slot_of(s, full_id(s, k->comp, p->in->id));
        if (s->by_id[at])
            return td_fail(s->err, TD_MALFORMED, "instructions '%s' and '%s' have one id", s->by_id[at]->in->name,
                           p->in->name);
        s->by_id[at] = p;
    }
    return TD_OK;
}

/* One instruction of a sequence: it exists, is new, and what it reads came before it. seen[i]: position + 1. */
static td_status_t place_in_order(td_sched_t *s, td_sched_comp_t *k, uint32_t *seen, uint32_t *n, uint64_t id) {
    td_sched_instr_t *p = s->by_id[slot_of(s, full_id(s, k->comp, (int64_t)id))];
    if (!p || p->in->comp != k->comp)
        return td_fail(s->err, TD_MALFORMED, "schedule of '%s': it has no instruction %lld", k->comp->name, LL(id));
    if (seen[p->in->index])
        return td_fail(s->err, TD_MALFORMED, "schedule of '%s': '%s' occurs twice", k->comp->name, p->in->name);
    for (uint32_t j = 0; j < p->in->n_operands; j++)
        if (!seen[p->in->operands[j]->index])
            return td_fail(s->err, TD_MALFORMED, "schedule of '%s': '%s' comes before its operand '%s'", k->comp->name,
                           p->in->name, p->in->operands[j]->name);
    k->order[*n] = p->in->index;
    seen[p->in->index] = ++*n;
    return TD_OK;
}

static td_status_t sequence(td_sched_t *s, td_sched_comp_t *k, td_span_t in) {
    td_wire_field_t f;
    uint32_t n = 0, *seen = TD_NEW_N(s->arena, uint32_t, k->comp->n_instrs);
    td_status_t st;
    if (!seen || !(k->order = TD_NEW_N(s->arena, uint32_t, k->comp->n_instrs))) return td_arena_fail(s->arena, s->err);
    while (in.size) {
        if (!td_wire_next(&in, &f)) return td_fail(s->err, TD_MALFORMED, "schedule of '%s' is cut off", k->comp->name);
        if (f.number != 1) continue;
        if (f.type == TD_WIRE_VARINT && (st = place_in_order(s, k, seen, &n, f.value))) return st;
        while (f.type == TD_WIRE_LEN && f.bytes.size) {
            uint64_t id;
            if (!td_wire_varint(&f.bytes, &id))
                return td_fail(s->err, TD_MALFORMED, "schedule of '%s' is cut off", k->comp->name);
            if ((st = place_in_order(s, k, seen, &n, id))) return st;
        }
    }
    if (n != k->comp->n_instrs)
        return td_fail(s->err, TD_MALFORMED, "schedule of '%s' has %u of its %u instructions", k->comp->name, n,
                       k->comp->n_instrs);
    return TD_OK;
}

/* One entry of the map; a later one for the same computation would replace it, so a second is refused. */
static td_status_t entry(td_sched_t *s, const td_sched_comp_t **by_id, td_span_t in) {
    td_wire_field_t f;
    td_span_t seq = {0};
    uint64_t id = 0;
    while (in.size) {
        if (!td_wire_next(&in, &f)) return td_fail(s->err, TD_MALFORMED, "the schedule is cut off");
        if (f.number == 1 && f.type == TD_WIRE_VARINT) id = f.value;
        if (f.number == 2 && f.type == TD_WIRE_LEN) seq = f.bytes;
    }
    td_hlo_comp_t like = {.id = (int64_t)id};
    const td_sched_comp_t key = {.comp = &like}, *p = &key;
    const td_sched_comp_t **at = bsearch(&p, by_id, s->m->hlo->n_comps, sizeof *by_id, by_number);
    if (!at) return td_fail(s->err, TD_MALFORMED, "schedule of computation %lld, which the module has not", LL(id));
    td_sched_comp_t *k = &s->comps[*at - s->comps];
    if (k->order) return td_fail(s->err, TD_MALFORMED, "computation '%s' is scheduled twice", k->comp->name);
    return sequence(s, k, seq);
}

static td_status_t schedule(td_sched_t *s) {
    td_span_t in = {s->hlo->schedule.data, s->hlo->schedule.len};
    uint32_t n = s->m->hlo->n_comps;
    td_wire_field_t f;
    td_status_t st;
    const td_sched_comp_t **by_id = (const td_sched_comp_t **)td_arena_array(s->arena, n, sizeof *by_id);
    if (!by_id) return td_arena_fail(s->arena, s->err);
    for (uint32_t c = 0; c < n; c++) by_id[c] = &s->comps[c];
    qsort(by_id, n, sizeof *by_id, by_number);
    while (in.size) {
        if (!td_wire_next(&in, &f)) return td_fail(s->err, TD_MALFORMED, "the schedule is cut off");
        if (f.number == 1 && f.type == TD_WIRE_LEN && (st = entry(s, by_id, f.bytes))) return st;
    }
    return TD_OK;
}

static bool plain_ids(const Xla__BufferAssignmentProto *p) {
    for (size_t k = 0; k < p->n_logical_buffers; k++)
        if (p->logical_buffers[k]->defined_at && p->logical_buffers[k]->defined_at->instruction_id > UINT32_MAX)
            return false;
    return true;
}

td_status_t td_sched_index(td_sched_t *s) {
    uint32_t n_comps = s->m->hlo->n_comps;
    size_t n = 16, total = 0;
    td_status_t st;
    for (uint32_t c = 0; c < n_comps; c++) total += s->m->hlo->comps[c]->n_instrs;
    while (n < 2 * total) n *= 2;
    s->plain_ids = plain_ids(s->a->exe->buffer_assignment);
    s->id_mask = n - 1;
    s->comps = TD_NEW_N(s->arena, td_sched_comp_t, n_comps);
    s->by_comp = (const td_sched_comp_t **)td_arena_array(s->arena, n_comps, sizeof *s->by_comp);
    s->by_id = TD_NEW_N(s->arena, td_sched_instr_t *, n);
    if (!s->comps || !s->by_comp || !s->by_id) return td_arena_fail(s->arena, s->err);
    for (uint32_t c = 0; c < n_comps; c++) {
        if ((st = index_comp(s, c))) return st;
        s->by_comp[c] = &s->comps[c];
    }
    qsort(s->by_comp, n_comps, sizeof *s->by_comp, by_address);
    return schedule(s);
}
