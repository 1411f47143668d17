/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/scheduled.h"

#include <string.h>

#include "runtime/scheduled_in.h"

static td_status_t computation(td_sched_t *s, td_sched_comp_t *k, td_sched_out_t *out);

bool td_scheduled_is(const td_artifact_t *a) {
    const Xla__Gpu__GpuExecutableProto *e = a->exe;
    return !e->n_thunks && !e->buffer_allocations && e->buffer_assignment && e->buffer_assignment->n_buffer_allocations;
}

td_status_t td_sched_bind(td_sched_t *s, const td_sched_instr_t *i, uint32_t first, const td_hlo_comp_t *comp) {
    if (first > i->in->n_operands || comp->n_params != i->in->n_operands - first)
        return td_fail(s->err, TD_MISMATCH, "'%s' passes %u values to '%s', which takes %u", i->in->name,
                       i->in->n_operands - first, comp->name, comp->n_params);
    for (uint32_t k = 0; k < comp->n_params; k++) {
        const td_sched_instr_t *from = td_sched_instr(s, i->in->operands[first + k]);
        td_sched_instr_t *to = td_sched_instr(s, comp->params[k]);
        td_status_t st = td_sched_pass_on(s, to); /* makes room */
        if (!st) st = td_sched_same(s, "a parameter", to, to->places, to->n_leaves, from->places, from->n_leaves);
        if (st) return td_prefix(s->err, st, "'%s'", i->in->name);
    }
    return TD_OK;
}

/* A called computation: its thunks, and its root's places, which must be those of i from leaf `at` on. */
static td_status_t call(td_sched_t *s, td_sched_instr_t *i, const char *what, const td_hlo_comp_t *comp, uint32_t at,
                        td_sched_out_t *out) {
    td_status_t st = computation(s, td_sched_comp(s, comp), out);
    const td_sched_instr_t *root = td_sched_instr(s, comp->root);
    if (st) return td_prefix(s->err, st, "'%s': %s", i->in->name, what);
    if (root->n_leaves > i->n_leaves - at)
        return td_fail(s->err, TD_MISMATCH, "'%s': %s gives %u arrays, its own result has %u", i->in->name, what,
                       root->n_leaves, i->n_leaves - at);
    return td_sched_same(s, what, i, i->places + at, root->n_leaves, root->places, root->n_leaves);
}

static Xla__Gpu__ThunkSequenceProto *sequence(td_sched_t *s, const td_sched_out_t *o) {
    Xla__Gpu__ThunkSequenceProto *m = TD_NEW(s->arena, Xla__Gpu__ThunkSequenceProto);
    if (!m) return NULL;
    xla__gpu__thunk_sequence_proto__init(m);
    m->n_thunks = o->n;
    m->thunks = o->v;
    return m;
}

/* The trip count where the compiler found one: {"known_trip_count":{"n":"3"}}. */
static td_status_t trip_count(td_sched_t *s, const td_sched_instr_t *i, Xla__Gpu__WhileThunkProto *w) {
    json_t *j = NULL;
    int64_t n = -1;
    if (!*i->in->backend_config) return TD_OK;
    td_status_t st = td_sched_config(s, i, NULL, &j);
    if (st) return st;
    json_t *known = json_object_get(j, "known_trip_count");
    if (known) st = td_sched_integer(s, known, "n", 0, &n);
    json_decref(j);
    if (!st && known && n < 0) st = td_fail(s->err, TD_MALFORMED, "'%s': trip count %lld", i->in->name, (long long)n);
    w->has_trip_count = !st && known;
    if (w->has_trip_count) w->trip_count = n;
    return st;
}

/* The state stays where it is: the initial value, the parameters of both computations and the body's result share
 * one place. called: body, condition. */
static td_status_t while_loop(td_sched_t *s, td_sched_out_t *out, td_sched_instr_t *i) {
    Xla__Gpu__WhileThunkProto *w = TD_NEW(s->arena, Xla__Gpu__WhileThunkProto);
    td_sched_out_t body = {0}, condition = {0};
    Xla__Gpu__ThunkProto *t;
    td_status_t st;
    if (!w) return td_arena_fail(s->arena, s->err);
    xla__gpu__while_thunk_proto__init(w);
    if (i->in->n_called != 2 || i->in->n_operands != 1)
        return td_fail(s->err, TD_MALFORMED, "'%s': a loop without state, body or condition", i->in->name);
    const td_sched_instr_t *init = td_sched_instr(s, i->in->operands[0]);
    if ((st = td_sched_same(s, "the loop's state", i, i->places, i->n_leaves, init->places, init->n_leaves)) ||
        (st = td_sched_bind(s, i, 0, i->in->called[0])) || (st = td_sched_bind(s, i, 0, i->in->called[1])) ||
        (st = call(s, i, "the body", i->in->called[0], 0, &body)))
        return st;
    td_sched_comp_t *c = td_sched_comp(s, i->in->called[1]);
    const td_sched_instr_t *root = td_sched_instr(s, c->comp->root);
    if ((st = computation(s, c, &condition))) return td_prefix(s->err, st, "'%s': the condition", i->in->name);
    if (root->in->shape->type != TD_PRED || root->in->shape->count != 1)
        return td_fail(s->err, TD_MALFORMED, "'%s': its condition gives no single pred", i->in->name);
    if ((st = td_sched_slice(s, root, 0, &w->condition_result_buffer_index)) || (st = trip_count(s, i, w)) ||
        (st = td_sched_add(s, out, i->in->name, XLA__GPU__THUNK_PROTO__IMPL_WHILE_THUNK, &t)))
        return st;
    t->while_thunk = w;
    w->condition_thunk_sequence = sequence(s, &condition);
    w->body_thunk_sequence = sequence(s, &body);
    return w->condition_thunk_sequence && w->body_thunk_sequence ? TD_OK : td_arena_fail(s->arena, s->err);
}

/* Operands: index, then one value per branch, its computation's only parameter. */
static td_status_t conditional(td_sched_t *s, td_sched_out_t *out, td_sched_instr_t *i) {
    Xla__Gpu__ConditionalThunkProto *c = TD_NEW(s->arena, Xla__Gpu__ConditionalThunkProto);
    uint32_t n = i->in->n_called;
    Xla__Gpu__ThunkProto *t;
    td_status_t st;
    if (!c) return td_arena_fail(s->arena, s->err);
    xla__gpu__conditional_thunk_proto__init(c);
    if (!n || i->in->n_operands != n + 1)
        return td_fail(s->err, TD_MALFORMED, "'%s': %u branches with %u operands", i->in->name, n, i->in->n_operands);
    c->n_branch_thunks = n;
    if (!(c->branch_thunks = TD_NEW_N(s->arena, Xla__Gpu__ThunkSequenceProto *, n)))
        return td_arena_fail(s->arena, s->err);
    if ((st = td_sched_shaped(s, td_sched_instr(s, i->in->operands[0]), 0, &c->branch_index_buffer))) return st;
    for (uint32_t k = 0; k < n; k++) {
        const td_hlo_comp_t *b = i->in->called[k];
        td_sched_out_t branch = {0};
        if (b->n_params != 1)
            return td_fail(s->err, TD_MALFORMED, "'%s': branch '%s' takes %u values", i->in->name, b->name,
                           b->n_params);
        const td_sched_instr_t *from = td_sched_instr(s, i->in->operands[k + 1]);
        td_sched_instr_t *to = td_sched_instr(s, b->params[0]);
        if ((st = td_sched_pass_on(s, to)) ||
            (st = td_sched_same(s, "a branch's parameter", to, to->places, to->n_leaves, from->places,
                                from->n_leaves)) ||
            (st = call(s, i, "a branch", b, 0, &branch)))
            return st;
        if (!(c->branch_thunks[k] = sequence(s, &branch))) return td_arena_fail(s->arena, s->err);
    }
    if ((st = td_sched_add(s, out, i->in->name, XLA__GPU__THUNK_PROTO__IMPL_CONDITIONAL_THUNK, &t))) return st;
    t->conditional_thunk = c;
    return TD_OK;
}

/* async-start: ((operands), results, …). What it starts runs where it starts, which is never too early: its buffers
 * are held until the done. */
static td_status_t async_start(td_sched_t *s, td_sched_out_t *out, td_sched_instr_t *i) {
    const td_shape_t *shape = i->in->shape;
    td_status_t st = TD_OK;
    uint32_t at = 0;
    if (i->in->n_called != 1 || shape->type != TD_TUPLE || shape->rank < 2)
        return td_fail(s->err, TD_MALFORMED, "'%s': async-start without computation or pair of values", i->in->name);
    uint32_t before = td_sched_leaves_before(shape, 1);
    for (uint32_t k = 0; k < i->in->n_operands && !st; k++) {
        const td_sched_instr_t *from = td_sched_instr(s, i->in->operands[k]);
        if (from->n_leaves > before - at)
            return td_fail(s->err, TD_MISMATCH, "'%s': its operands have more than %u arrays", i->in->name, before);
        st = td_sched_same(s, "an operand", i, i->places + at, from->n_leaves, from->places, from->n_leaves);
        at += from->n_leaves;
    }
    if (st || (st = td_sched_bind(s, i, 0, i->in->called[0]))) return st;
    return call(s, i, "its computation", i->in->called[0], before, out);
}

static td_status_t id_thunk(td_sched_t *s, td_sched_out_t *out, const td_sched_instr_t *i) {
    bool replica = i->in->opcode == TD_HLO_REPLICA_ID;
    Xla__Gpu__ReplicaIdThunkProto *r = TD_NEW(s->arena, Xla__Gpu__ReplicaIdThunkProto);
    Xla__Gpu__PartitionIdThunkProto *p = TD_NEW(s->arena, Xla__Gpu__PartitionIdThunkProto);
    Xla__Gpu__ThunkProto *t;
    if (!r || !p) return td_arena_fail(s->arena, s->err);
    xla__gpu__replica_id_thunk_proto__init(r);
    xla__gpu__partition_id_thunk_proto__init(p);
    td_status_t st = td_sched_add(s, out, i->in->name,
                                  replica ? XLA__GPU__THUNK_PROTO__IMPL_REPLICA_ID_THUNK
                                          : XLA__GPU__THUNK_PROTO__IMPL_PARTITION_ID_THUNK, &t);
    if (st) return st;
    if (replica) t->replica_id_thunk = r;
    else t->partition_id_thunk = p;
    return td_sched_slice(s, i, 0, replica ? &r->dest_buffer : &p->dest_buffer);
}

static td_status_t refuse(td_sched_t *s, const td_sched_instr_t *i, const char *why) {
    return td_fail(s->err, TD_UNSUPPORTED, "'%s': %s %s", i->in->name, i->in->opcode_name, why);
}

/* A change of layout is a kernel. */
static td_status_t copy(td_sched_t *s, td_sched_out_t *out, const td_sched_instr_t *i) {
    if (i->in->n_operands != 1 || !td_shape_equal(i->in->shape, i->in->operands[0]->shape))
        return td_sched_kernel(s, out, i);
    for (uint32_t k = 0; k < i->n_leaves; k++) {
        td_status_t st = td_sched_copy(s, out, td_sched_instr(s, i->in->operands[0]), k, i, k);
        if (st) return st;
    }
    return TD_OK;
}

static td_status_t copy_start(td_sched_t *s, td_sched_out_t *out, const td_sched_instr_t *i) {
    const td_sched_instr_t *from = td_sched_instr(s, i->in->operands[0]);
    if (!td_shape_equal(i->in->shape->elements[0], from->in->shape))
        return refuse(s, i, "that changes shape or layout is not supported");
    for (uint32_t k = 0; k < from->n_leaves; k++) {
        td_status_t st = td_sched_copy(s, out, from, k, i, k);
        if (st) return st;
    }
    return TD_OK;
}

td_status_t td_sched_instruction(td_sched_t *s, td_sched_out_t *out, td_sched_instr_t *i) {
    td_status_t st = td_sched_pass_on(s, i);
    if (st) return st;
    switch (i->in->opcode) {
    case TD_HLO_PARAMETER: case TD_HLO_CONSTANT: case TD_HLO_TUPLE: case TD_HLO_GET_TUPLE_ELEMENT: case TD_HLO_BITCAST:
    case TD_HLO_OPT_BARRIER: case TD_HLO_DOMAIN: case TD_HLO_ADD_DEPENDENCY: case TD_HLO_AFTER_ALL:
    case TD_HLO_ASYNC_UPDATE: case TD_HLO_ASYNC_DONE: case TD_HLO_COPY_DONE: return TD_OK;
    case TD_HLO_FUSION: return td_sched_fusion(s, out, i);
    case TD_HLO_COPY: return copy(s, out, i);
    case TD_HLO_COPY_START: return copy_start(s, out, i);
    case TD_HLO_CUSTOM_CALL: return td_sched_custom_call(s, out, i);
    case TD_HLO_WHILE: return while_loop(s, out, i);
    case TD_HLO_CONDITIONAL: return conditional(s, out, i);
    case TD_HLO_CALL:
        if (i->in->n_called != 1) return td_fail(s->err, TD_MALFORMED, "'%s' calls nothing", i->in->name);
        if ((st = td_sched_bind(s, i, 0, i->in->called[0]))) return st;
        return call(s, i, "its computation", i->in->called[0], 0, out);
    case TD_HLO_ASYNC_START: return async_start(s, out, i);
    case TD_HLO_REPLICA_ID: case TD_HLO_PARTITION_ID: return id_thunk(s, out, i);
    case TD_HLO_INFEED: return refuse(s, i, "waits for data from the client's infeed queue; make it a parameter");
    case TD_HLO_OUTFEED: return refuse(s, i, "hands data to the client's outfeed queue; make it a result");
    case TD_HLO_SEND: case TD_HLO_SEND_DONE: case TD_HLO_RECV: case TD_HLO_RECV_DONE:
        return refuse(s, i, "exchanges data with the client's process or another device, which is not supported");
    case TD_HLO_ALL_GATHER: case TD_HLO_ALL_GATHER_DONE: case TD_HLO_ALL_GATHER_START: case TD_HLO_ALL_REDUCE:
    case TD_HLO_ALL_REDUCE_DONE: case TD_HLO_ALL_REDUCE_START: case TD_HLO_ALL_TO_ALL: case TD_HLO_COLLECTIVE_BROADCAST:
    case TD_HLO_COLLECTIVE_PERMUTE: case TD_HLO_COLLECTIVE_PERMUTE_DONE: case TD_HLO_COLLECTIVE_PERMUTE_START:
    case TD_HLO_COLLECTIVE_REDUCE: case TD_HLO_RAGGED_ALL_TO_ALL: case TD_HLO_REDUCE_SCATTER:
        return refuse(s, i, "is a collective, which is not supported in a program without thunks");
    case TD_HLO_UNKNOWN: return refuse(s, i, "is an opcode that this build does not know");
    default: return td_sched_kernel(s, out, i);
    }
}

/* Without a schedule there may be one instruction that does something, so that no order can be wrong. */
static bool computes(td_opcode_t op) {
    return op != TD_HLO_PARAMETER && op != TD_HLO_CONSTANT && op != TD_HLO_TUPLE && op != TD_HLO_GET_TUPLE_ELEMENT &&
           op != TD_HLO_BITCAST;
}

static td_status_t computation(td_sched_t *s, td_sched_comp_t *k, td_sched_out_t *out) {
    uint32_t n = 0;
    if (k->used) return td_fail(s->err, TD_UNSUPPORTED, "'%s' is called from two places", k->comp->name);
    k->used = true;
    for (uint32_t i = 0; i < k->comp->n_instrs; i++) n += computes(k->comp->instrs[i]->opcode);
    if (!k->order && n > 1) return td_fail(s->err, TD_MALFORMED, "computation '%s' is not scheduled", k->comp->name);
    for (uint32_t i = 0; i < k->comp->n_instrs; i++) {
        td_status_t st = td_sched_instruction(s, out, &k->instrs[k->order ? k->order[i] : i]);
        if (st) return st;
    }
    return TD_OK;
}

/* Outputs are the leaves of the entry's root, each at the start of an allocation of its own. */
static td_status_t outputs(td_sched_t *s, Xla__Gpu__GpuExecutableProto *e) {
    const td_sched_instr_t *root = td_sched_instr(s, s->m->hlo->entry->root);
    const td_shape_t *shape = root->in->shape;
    bool tuple = shape->type == TD_TUPLE;
    uint32_t n = tuple ? shape->rank : 1;
    e->output_info_map = TD_NEW_N(s->arena, Xla__Gpu__GpuExecutableProto__OutputInfoMapEntry *, n);
    if (!e->output_info_map) return td_arena_fail(s->arena, s->err);
    for (uint32_t k = 0, leaf = 0; k < n; k++) {
        if (!td_type_is_array(tuple ? shape->elements[k]->type : shape->type)) {
            leaf += tuple ? td_shape_leaf_count(shape->elements[k]) : 0;
            continue;
        }
        Xla__Gpu__GpuExecutableProto__OutputInfoMapEntry *m =
            TD_NEW(s->arena, Xla__Gpu__GpuExecutableProto__OutputInfoMapEntry);
        Xla__Gpu__GpuExecutableProto__OutputInfoProto *o =
            TD_NEW(s->arena, Xla__Gpu__GpuExecutableProto__OutputInfoProto);
        Xla__ShapeIndexProto *x = TD_NEW(s->arena, Xla__ShapeIndexProto);
        Xla__BufferAssignment__BufferAllocationSliceProto *at = NULL;
        int64_t *index = TD_NEW(s->arena, int64_t);
        if (!m || !o || !x || !index) return td_arena_fail(s->arena, s->err);
        td_status_t st = td_sched_slice(s, root, leaf++, &at);
        if (st) return td_prefix(s->err, st, "output %u", k);
        if (at->offset)
            return td_fail(s->err, TD_MALFORMED, "output %u lies at %lld of allocation %lld instead of its start", k,
                           (long long)at->offset, (long long)at->buffer_allocation_index);
        xla__gpu__gpu_executable_proto__output_info_map_entry__init(m);
        xla__gpu__gpu_executable_proto__output_info_proto__init(o);
        xla__shape_index_proto__init(x);
        *index = k;
        x->n_indexes = tuple, x->indexes = index;
        o->has_allocation_index = true, o->allocation_index = at->buffer_allocation_index;
        m->shape_index = x, m->output_info = o;
        e->output_info_map[e->n_output_info_map++] = m;
    }
    return TD_OK;
}

/* The literal of each constant allocation, found by the value assigned to it. */
static td_status_t literals(td_sched_t *s) {
    const Xla__BufferAssignmentProto *p = s->a->exe->buffer_assignment;
    const td_literal_t **v = (const td_literal_t **)td_arena_array(s->arena, p->n_buffer_allocations, sizeof *v);
    s->allocations = p->buffer_allocations;
    s->n_allocations = s->cap_allocations = (uint32_t)p->n_buffer_allocations;
    if (!v) return td_arena_fail(s->arena, s->err);
    for (uint32_t c = 0; c < s->m->hlo->n_comps; c++)
        for (uint32_t i = 0; i < s->comps[c].comp->n_instrs; i++) {
            const td_sched_instr_t *k = &s->comps[c].instrs[i];
            if (k->in->opcode != TD_HLO_CONSTANT || !k->in->literal || !k->places || !k->n_leaves || !k->places[0].set)
                continue;
            uint32_t at = k->places[0].allocation;
            if (!p->buffer_allocations[at]->is_constant) continue;
            if (v[at] || k->places[0].offset)
                return td_fail(s->err, TD_MALFORMED, "constant '%s' shares allocation %u", k->in->name, at);
            v[at] = k->in->literal;
        }
    s->literals = v;
    return TD_OK;
}

td_status_t td_scheduled_make(td_module_t *m, const td_artifact_t *a, const td_artifact_t **out, td_err_t *err) {
    td_sched_t s = {.m = m, .a = a, .arena = &m->arena, .err = err,
                    .hlo = a->exe->hlo_module_with_config->hlo_module};
    td_sched_out_t thunks = {0};
    td_artifact_t *b = TD_NEW(s.arena, td_artifact_t);
    Xla__Gpu__GpuExecutableProto *e = TD_NEW(s.arena, Xla__Gpu__GpuExecutableProto);
    Xla__Gpu__GpuExecutableProto__RepeatedBufferAllocations *r =
        TD_NEW(s.arena, Xla__Gpu__GpuExecutableProto__RepeatedBufferAllocations);
    td_status_t st;
    if (!b || !e || !r) return td_arena_fail(s.arena, err);
    if ((st = td_sched_index(&s)) || (st = td_sched_places(&s)) || (st = literals(&s))) return st;
    if ((st = computation(&s, td_sched_comp(&s, m->hlo->entry), &thunks))) return st;
    *b = *a;
    *e = *a->exe;
    xla__gpu__gpu_executable_proto__repeated_buffer_allocations__init(r);
    r->n_values = s.n_allocations;
    r->values = s.allocations;
    m->literals = s.literals;
    e->buffer_allocations = r;
    e->n_output_info_map = e->n_constants = 0;
    e->n_thunks = thunks.n, e->thunks = thunks.v;
    b->exe = e;
    *out = b;
    return outputs(&s, e);
}
