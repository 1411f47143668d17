/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/hlo/hlo_parse.h"

#include <string.h>

#include "base/limits.h"
#include "executable.pb-c.h"
#include "proto/wire.h"
#include "runtime/shape_parse.h"

/* (computation, id) -> pointer, open addressing. Computations themselves use owner UINT32_MAX. */
typedef struct slot {
    uint32_t owner;
    int64_t id;
    void *p;
} slot_t;
typedef struct ctx {
    td_arena_t *arena;
    const td_artifact_t *a;
    const Xla__HloModuleProto *msg;
    td_hlo_module_t *m;
    td_hlo_comp_t **comps;
    slot_t *slots;
    size_t mask;
    td_err_t *err;
} ctx_t;

static slot_t *find(ctx_t *c, uint32_t owner, int64_t id) {
    uint64_t h = ((uint64_t)id ^ (uint64_t)owner << 40) * 0x9e3779b97f4a7c15ull;
    size_t at = (size_t)(h >> 20) & c->mask;
    while (c->slots[at].p && (c->slots[at].owner != owner || c->slots[at].id != id)) at = (at + 1) & c->mask;
    return &c->slots[at];
}

static bool insert(ctx_t *c, uint32_t owner, int64_t id, void *p) {
    slot_t *s = find(c, owner, id);
    if (s->p) return false;
    *s = (slot_t){owner, id, p};
    return true;
}

static const char *str(ctx_t *c, const char *s) { return td_arena_strndup(c->arena, s ? s : "", s ? strlen(s) : 0); }

static td_status_t config(ctx_t *c, const Xla__HloInstructionProto *p, td_hlo_instr_t *in) {
    td_span_t b = {p->backend_config.data, p->backend_config.len};
    const Xla__Payload *pl = p->backend_config_payload;
    in->backend_config = "";
    if (pl) {
        if (pl->payload_source_case == XLA__PAYLOAD__PAYLOAD_SOURCE_ID) {
            if (pl->id < 0 || (uint64_t)pl->id >= c->msg->n_payloads)
                return td_fail(c->err, TD_MALFORMED, "backend config payload %lld of %zu", (long long)pl->id, c->msg->n_payloads);
            b = (td_span_t){c->msg->payloads[pl->id].data, c->msg->payloads[pl->id].len};
        } else if (pl->payload_source_case == XLA__PAYLOAD__PAYLOAD_SOURCE_VALUE) {
            b = (td_span_t){pl->value.data, pl->value.len};
        }
    }
    if (b.size && !(in->backend_config = td_arena_strndup(c->arena, (const char *)b.data, b.size)))
        return td_arena_fail(c->arena, c->err);
    return TD_OK;
}

/* op_name of a parameter's metadata (OpMetadata, xla_data.proto); "" if there is none that can be read. */
static const char *op_name(ctx_t *c, td_span_t metadata) {
    enum { OP_NAME = 2 };
    td_span_t name = {0};
    if (!td_wire_scan(metadata, OP_NAME, &name)) name.size = 0;
    return td_arena_strndup(c->arena, name.size ? (const char *)name.data : "", name.size);
}

static td_status_t instr(ctx_t *c, uint32_t ci, const Xla__HloInstructionProto *p, td_hlo_instr_t *in) {
    td_status_t st;
    if (!(in->name = str(c, p->name)) || !(in->opcode_name = str(c, p->opcode))) return td_arena_fail(c->arena, c->err);
    in->opcode = td_opcode_from_name(in->opcode_name, strlen(in->opcode_name));
    in->id = p->id;
    if ((st = td_shape_parse(c->arena, p->shape, &in->shape, c->err))) return st;
    td_hlo_instr_t **ops = TD_NEW_N(c->arena, td_hlo_instr_t *, p->n_operand_ids);
    const td_hlo_comp_t **called = TD_NEW_N(c->arena, const td_hlo_comp_t *, p->n_called_computation_ids);
    if (!ops || !called) return td_arena_fail(c->arena, c->err);
    for (size_t i = 0; i < p->n_operand_ids; i++)
        if (!(ops[i] = find(c, ci, p->operand_ids[i])->p))
            return td_fail(c->err, TD_MALFORMED, "operand %zu: no earlier instruction has id %lld", i, (long long)p->operand_ids[i]);
    for (size_t i = 0; i < p->n_called_computation_ids; i++)
        if (!(called[i] = find(c, UINT32_MAX, p->called_computation_ids[i])->p))
            return td_fail(c->err, TD_MALFORMED, "no computation has id %lld", (long long)p->called_computation_ids[i]);
    in->operands = ops;
    in->n_operands = (uint32_t)p->n_operand_ids;
    in->called = called;
    in->n_called = (uint32_t)p->n_called_computation_ids;
    if ((st = td_hlo_parse_attrs(c->arena, p, in, c->err)) || (st = config(c, p, in))) return st;
    if (in->opcode == TD_HLO_PARAMETER &&
        !(in->op_name = op_name(c, (td_span_t){p->metadata.data, p->has_metadata ? p->metadata.len : 0})))
        return td_arena_fail(c->arena, c->err);
    if (in->opcode == TD_HLO_CONSTANT && p->literal &&
        (st = td_hlo_parse_literal(c->arena, c->a, p->literal, in->shape, &in->literal, c->err))) return st;
    if (!insert(c, ci, p->id, in)) return td_fail(c->err, TD_MALFORMED, "id %lld occurs twice", (long long)p->id);
    return TD_OK;
}

static td_status_t comp(ctx_t *c, uint32_t ci) {
    const Xla__HloComputationProto *p = c->msg->computations[ci];
    td_hlo_comp_t *k = c->comps[ci];
    td_status_t st;
    size_t n = p->n_instructions;
    td_hlo_instr_t *all = TD_NEW_N(c->arena, td_hlo_instr_t, n);
    td_hlo_instr_t **v = TD_NEW_N(c->arena, td_hlo_instr_t *, n);
    if (!all || !v) return td_arena_fail(c->arena, c->err);
    k->instrs = v;
    k->n_instrs = (uint32_t)n;
    for (uint32_t i = 0; i < n; i++) {
        v[i] = &all[i];
        all[i].index = i;
        all[i].comp = k;
        if ((st = instr(c, ci, p->instructions[i], v[i])))
            return td_prefix(c->err, st, "instruction '%s'", v[i]->name ? v[i]->name : "");
        k->n_params += v[i]->opcode == TD_HLO_PARAMETER;
    }
    td_hlo_instr_t **params = TD_NEW_N(c->arena, td_hlo_instr_t *, k->n_params);
    if (!params) return td_arena_fail(c->arena, c->err);
    for (uint32_t i = 0; i < n; i++) {
        if (v[i]->opcode != TD_HLO_PARAMETER) continue;
        int64_t no = v[i]->parameter_number;
        if (no < 0 || no >= k->n_params || params[no])
            return td_fail(c->err, TD_MALFORMED, "instruction '%s': parameter number %lld of %u", v[i]->name, (long long)no, k->n_params);
        params[no] = v[i];
    }
    k->params = params;
    if (!(k->root = find(c, ci, p->root_id)->p)) return td_fail(c->err, TD_MALFORMED, "root id %lld is not in it", (long long)p->root_id);
    return TD_OK;
}

/* Heights without recursion: repeat passes; a call graph has at most TD_LIMIT_COMP_DEPTH levels. */
static td_status_t heights(ctx_t *c) {
    bool changed = true;
    for (unsigned pass = 0; changed; pass++) {
        if (pass > TD_LIMIT_COMP_DEPTH)
            return td_fail(c->err, TD_MALFORMED, "computations call each other in a circle or deeper than %u", TD_LIMIT_COMP_DEPTH);
        changed = false;
        for (uint32_t i = 0; i < c->m->n_comps; i++) {
            td_hlo_comp_t *k = c->comps[i];
            for (uint32_t j = 0; j < k->n_instrs; j++)
                for (uint32_t q = 0; q < k->instrs[j]->n_called; q++)
                    if (k->instrs[j]->called[q]->height >= k->height) {
                        k->height = k->instrs[j]->called[q]->height + 1;
                        changed = true;
                    }
        }
    }
    return TD_OK;
}

static td_status_t entry(ctx_t *c, const Xla__HloModuleConfigProto *cfg) {
    td_status_t st;
    td_hlo_module_t *m = c->m;
    if (!(m->entry = find(c, UINT32_MAX, c->msg->entry_computation_id)->p))
        return td_fail(c->err, TD_MALFORMED, "no computation has the entry's id %lld", (long long)c->msg->entry_computation_id);
    m->replica_count = cfg && cfg->replica_count ? cfg->replica_count : 1;
    m->num_partitions = cfg && cfg->num_partitions ? cfg->num_partitions : 1;
    if (m->replica_count < 0 || m->num_partitions < 0 || m->replica_count > TD_LIMIT_DEVICES || m->num_partitions > TD_LIMIT_DEVICES)
        return td_fail(c->err, TD_MALFORMED, "%lld replicas, %lld partitions", (long long)m->replica_count, (long long)m->num_partitions);
    const Xla__ProgramShapeProto *ps = cfg && cfg->entry_computation_layout ? cfg->entry_computation_layout : c->msg->host_program_shape;
    size_t n = ps ? ps->n_parameters : m->entry->n_params;
    if (n != m->entry->n_params) return td_fail(c->err, TD_MISMATCH, "entry layout has %zu parameters, the entry computation %u", n, m->entry->n_params);
    const td_shape_t **params = TD_NEW_N(c->arena, const td_shape_t *, n);
    if (!params) return td_arena_fail(c->arena, c->err);
    m->entry_params = params;
    m->n_entry_params = (uint32_t)n;
    m->entry_result = m->entry->root->shape;
    for (size_t i = 0; i < n; i++) {
        params[i] = m->entry->params[i]->shape;
        if (!ps) continue;
        if ((st = td_shape_parse(c->arena, ps->parameters[i], &params[i], c->err))) return td_prefix(c->err, st, "entry parameter %zu", i);
        if (!td_shape_same_dims(params[i], m->entry->params[i]->shape))
            return td_fail(c->err, TD_MISMATCH, "entry parameter %zu: layout and instruction differ in shape", i);
    }
    if (ps) {
        if ((st = td_shape_parse(c->arena, ps->result, &m->entry_result, c->err))) return td_prefix(c->err, st, "entry result");
        if (!td_shape_same_dims(m->entry_result, m->entry->root->shape))
            return td_fail(c->err, TD_MISMATCH, "entry result: layout and root differ in shape");
    }
    return TD_OK;
}

td_status_t td_hlo_parse(td_arena_t *arena, const td_artifact_t *a, const td_hlo_module_t **out, td_err_t *err) {
    const Xla__HloModuleProtoWithConfig *wc = a->exe->hlo_module_with_config;
    if (!wc || !wc->hlo_module || !wc->hlo_module->n_computations)
        return td_fail(err, TD_MALFORMED, "artifact holds no HLO module");
    td_hlo_module_t *m = TD_NEW(arena, td_hlo_module_t);
    ctx_t c = {.arena = arena, .a = a, .msg = wc->hlo_module, .m = m, .err = err};
    size_t total = wc->hlo_module->n_computations, n = 16;
    td_status_t st;
    for (size_t i = 0; i < wc->hlo_module->n_computations; i++) total += wc->hlo_module->computations[i]->n_instructions;
    while (n < 2 * total) n *= 2;
    c.slots = TD_NEW_N(arena, slot_t, n);
    c.mask = n - 1;
    c.comps = TD_NEW_N(arena, td_hlo_comp_t *, wc->hlo_module->n_computations);
    if (!m || !c.slots || !c.comps || !(m->name = str(&c, c.msg->name))) return td_arena_fail(arena, err);
    m->comps = c.comps;
    m->n_comps = (uint32_t)c.msg->n_computations;
    for (uint32_t i = 0; i < m->n_comps; i++) {
        td_hlo_comp_t *k = c.comps[i] = TD_NEW(arena, td_hlo_comp_t);
        if (!k || !(k->name = str(&c, c.msg->computations[i]->name))) return td_arena_fail(arena, err);
        k->id = c.msg->computations[i]->id;
        if (!insert(&c, UINT32_MAX, k->id, k)) return td_fail(err, TD_MALFORMED, "computation id %lld occurs twice", (long long)k->id);
    }
    for (uint32_t i = 0; i < m->n_comps; i++)
        if ((st = comp(&c, i))) return td_prefix(err, st, "computation '%s'", c.comps[i]->name);
    if ((st = heights(&c))) return st;
    for (uint32_t i = 0; i < m->n_comps; i++)
        for (uint32_t j = 0; j < c.comps[i]->n_instrs; j++)
            if ((st = td_hlo_check_instr(c.comps[i]->instrs[j], err)))
                return td_prefix(err, st, "instruction '%s' (%s)", c.comps[i]->instrs[j]->name, c.comps[i]->instrs[j]->opcode_name);
    if ((st = entry(&c, wc->config))) return st;
    if (!td_hlo_name_table(arena, m, total)) return td_arena_fail(arena, err);
    *out = m;
    return TD_OK;
}
