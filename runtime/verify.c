/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations, parameters, outputs and constants: every cross-reference, each checked once. */
#include <string.h>

#include "base/checked.h"
#include "base/limits.h"
#include "executable.pb-c.h"
#include "runtime/module.h"
#include "runtime/shape_parse.h"

#define LL(x) ((long long)(x))

static td_status_t allocations(td_module_t *m, td_err_t *err) {
    const Xla__Gpu__GpuExecutableProto *e = m->artifact->exe;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < m->n_allocations; i++) {
        const Xla__BufferAllocationProto *p = e->buffer_allocations->values[i];
        td_buffer_t *b = &m->buffers[i];
        if (p->index != i) return td_fail(err, TD_MALFORMED, "allocations[%u]: its index is %lld", i, LL(p->index));
        if (p->size < 0) return td_fail(err, TD_MALFORMED, "allocations[%u]: size %lld", i, LL(p->size));
        if ((uint64_t)p->size > TD_LIMIT_ALLOCATION_BYTES || !td_add_u64(sum, (uint64_t)p->size + 256, &sum) || sum > 2 * TD_LIMIT_ALLOCATION_BYTES)
            return td_fail(err, TD_LIMIT, "allocations[%u]: size %lld over the limit", i, LL(p->size));
        *b = (td_buffer_t){.size = (uint64_t)p->size, .is_param = p->is_entry_computation_parameter, .is_constant = p->is_constant,
                           .is_thread_local = p->is_thread_local, .is_tuple = p->is_tuple, .live_out = p->maybe_live_out, .input = UINT32_MAX};
        if (b->is_param && (b->is_constant || b->is_thread_local))
            return td_fail(err, TD_MALFORMED, "allocations[%u]: a parameter that is constant or thread-local", i);
    }
    return TD_OK;
}

static td_status_t inputs(td_module_t *m, td_err_t *err) {
    const Xla__Gpu__GpuExecutableProto *e = m->artifact->exe;
    const td_hlo_module_t *h = m->hlo;
    m->n_inputs = h->n_entry_params;
    if (!(m->inputs = TD_NEW_N(&m->arena, td_module_io_t, m->n_inputs))) return td_arena_fail(&m->arena, err);
    for (uint32_t i = 0; i < m->n_inputs; i++) {
        m->inputs[i] = (td_module_io_t){h->entry->params[i]->name, h->entry->params[i]->op_name, h->entry_params[i],
                                          UINT32_MAX};
        if (h->entry_params[i]->type == TD_TUPLE) return td_fail(err, TD_UNSUPPORTED, "parameter %u is a tuple", i);
    }
    for (uint32_t i = 0; i < m->n_allocations; i++) {
        const Xla__BufferAllocationProto *p = e->buffer_allocations->values[i];
        td_buffer_t *b = &m->buffers[i];
        if (!b->is_param) continue;
        if (p->parameter_number < 0 || p->parameter_number >= m->n_inputs)
            return td_fail(err, TD_MALFORMED, "allocations[%u]: parameter number %lld of %u", i, LL(p->parameter_number), m->n_inputs);
        if (p->n_parameter_shape_index)
            return td_fail(err, TD_MALFORMED, "allocations[%u]: shape index into parameter %lld, which is no tuple", i, LL(p->parameter_number));
        td_module_io_t *in = &m->inputs[p->parameter_number];
        if (in->slot != UINT32_MAX) return td_fail(err, TD_MALFORMED, "allocations[%u]: parameter %lld already has allocation %u", i, LL(p->parameter_number), in->slot);
        if (b->size != in->shape->bytes)
            return td_fail(err, TD_MISMATCH, "allocations[%u]: %llu bytes, parameter %lld %llu", i, (unsigned long long)b->size,
                           LL(p->parameter_number), (unsigned long long)in->shape->bytes);
        in->slot = i;
        b->input = (uint32_t)p->parameter_number;
    }
    return TD_OK;
}

static td_status_t outputs(td_module_t *m, td_err_t *err) {
    const Xla__Gpu__GpuExecutableProto *e = m->artifact->exe;
    const td_shape_t *r = m->hlo->entry_result;
    bool tuple = r->type == TD_TUPLE;
    m->n_outputs = tuple ? r->rank : 1;
    if (!(m->outputs = TD_NEW_N(&m->arena, td_module_io_t, m->n_outputs))) return td_arena_fail(&m->arena, err);
    for (uint32_t i = 0; i < m->n_outputs; i++) {
        const td_shape_t *s = tuple ? r->elements[i] : r;
        if (s->type == TD_TUPLE) return td_fail(err, TD_UNSUPPORTED, "output %u is a nested tuple", i);
        char *name = td_arena_printf(&m->arena, "output_%u", i);
        if (!name) return td_arena_fail(&m->arena, err);
        m->outputs[i] = (td_module_io_t){name, "", s, UINT32_MAX};
    }
    for (size_t k = 0; k < e->n_output_info_map; k++) {
        const Xla__ShapeIndexProto *ix = e->output_info_map[k]->shape_index;
        const Xla__Gpu__GpuExecutableProto__OutputInfoProto *o = e->output_info_map[k]->output_info;
        size_t depth = ix ? ix->n_indexes : 0;
        if (!o) return td_fail(err, TD_MALFORMED, "output_info_map[%zu]: output_info is missing", k);
        if (o->allocation_index < 0 || o->allocation_index >= m->n_allocations)
            return td_fail(err, TD_MALFORMED, "output_info_map[%zu]: allocation %lld of %u", k, LL(o->allocation_index), m->n_allocations);
        if (tuple && !depth) continue;
        if (depth != (size_t)tuple) return td_fail(err, TD_MALFORMED, "output_info_map[%zu]: shape index of depth %zu", k, depth);
        int64_t no = tuple ? ix->indexes[0] : 0;
        if (no < 0 || no >= m->n_outputs) return td_fail(err, TD_MALFORMED, "output_info_map[%zu]: output %lld of %u", k, LL(no), m->n_outputs);
        td_module_io_t *out = &m->outputs[no];
        td_buffer_t *b = &m->buffers[o->allocation_index];
        if (out->slot != UINT32_MAX) return td_fail(err, TD_MALFORMED, "output_info_map[%zu]: output %lld occurs twice", k, LL(no));
        if (b->size < out->shape->bytes)
            return td_fail(err, TD_MISMATCH, "output %lld: allocation %lld has %llu bytes, the shape %llu", LL(no), LL(o->allocation_index),
                           (unsigned long long)b->size, (unsigned long long)out->shape->bytes);
        if (b->is_thread_local) return td_fail(err, TD_MALFORMED, "output %lld: allocation %lld is thread-local", LL(no), LL(o->allocation_index));
        if (o->alias_config) {
            int kind = (int)o->alias_config->kind;
            if (kind != 1 && kind != 2) return td_fail(err, TD_MALFORMED, "output %lld: alias kind %d", LL(no), kind);
            if (!b->is_param || o->alias_config->parameter_number != b->input)
                return td_fail(err, TD_MISMATCH, "output %lld: aliases parameter %lld, its allocation holds parameter %lld", LL(no),
                               LL(o->alias_config->parameter_number), b->is_param ? LL(b->input) : -1ll);
        }
        out->slot = (uint32_t)o->allocation_index;
        b->output = true;
    }
    for (uint32_t i = 0; i < m->n_outputs; i++)
        if (m->outputs[i].slot == UINT32_MAX && td_type_is_array(m->outputs[i].shape->type))
            return td_fail(err, TD_MALFORMED, "output %u has no allocation", i);
    return TD_OK;
}

static td_status_t constants(td_module_t *m, td_err_t *err) {
    const Xla__Gpu__GpuExecutableProto *e = m->artifact->exe;
    if (!e->n_constants) return TD_OK;
    /* symbol = "buffer_for_" + instruction name with '.' and '-' as '_' */
    size_t n = 16, total = 0;
    for (uint32_t c = 0; c < m->hlo->n_comps; c++) total += m->hlo->comps[c]->n_instrs;
    while (n < 2 * total) n *= 2;
    struct { const char *key; const td_hlo_instr_t *in; } *t = td_arena_array(&m->arena, n, sizeof *t);
    if (!t) return td_arena_fail(&m->arena, err);
    for (uint32_t c = 0; c < m->hlo->n_comps; c++)
        for (uint32_t i = 0; i < m->hlo->comps[c]->n_instrs; i++) {
            const td_hlo_instr_t *in = m->hlo->comps[c]->instrs[i];
            if (in->opcode != TD_HLO_CONSTANT) continue;
            char *k = td_arena_printf(&m->arena, "buffer_for_%s", in->name);
            if (!k) return td_arena_fail(&m->arena, err);
            uint64_t h = 0;
            for (char *s = k; *s; s++) {
                if (*s == '.' || *s == '-') *s = '_';
                h = h * 31 + (uint8_t)*s;
            }
            size_t at = h & (n - 1);
            while (t[at].key && strcmp(t[at].key, k)) at = (at + 1) & (n - 1);
            if (!t[at].key) t[at].key = k, t[at].in = in;
        }
    for (size_t k = 0; k < e->n_constants; k++) {
        const Xla__Gpu__GpuExecutableProto__ConstantInfoProto *p = e->constants[k];
        if (p->allocation_index == -1) continue;
        if (p->allocation_index < 0 || p->allocation_index >= m->n_allocations)
            return td_fail(err, TD_MALFORMED, "constants[%zu]: allocation %lld of %u", k, LL(p->allocation_index), m->n_allocations);
        td_buffer_t *b = &m->buffers[p->allocation_index];
        if (!b->is_constant) return td_fail(err, TD_MALFORMED, "constants[%zu]: allocation %lld is not constant", k, LL(p->allocation_index));
        if (b->literal) return td_fail(err, TD_MALFORMED, "constants[%zu]: allocation %lld occurs twice", k, LL(p->allocation_index));
        const char *symbol = p->symbol_name ? p->symbol_name : "";
        uint64_t h = 0;
        for (const char *s = symbol; *s; s++) h = h * 31 + (uint8_t)*s;
        size_t at = h & (n - 1);
        while (t[at].key && strcmp(t[at].key, symbol)) at = (at + 1) & (n - 1);
        if (!t[at].key || !t[at].in->literal) return td_fail(err, TD_MALFORMED, "constants[%zu]: no constant instruction for symbol '%s'", k, symbol);
        b->literal = t[at].in->literal;
        if (b->literal->bytes.size != b->size)
            return td_fail(err, TD_MISMATCH, "constants[%zu]: literal has %zu bytes, allocation %llu", k, b->literal->bytes.size, (unsigned long long)b->size);
    }
    return TD_OK;
}

/* The static device assignment, where there is one, has a device for each replica of each partition. */
static td_status_t devices(const td_module_t *m, td_err_t *err) {
    const Xla__HloModuleProtoWithConfig *w = m->artifact->exe->hlo_module_with_config;
    const Xla__DeviceAssignmentProto *d = w && w->config ? w->config->static_device_assignment : NULL;
    if (!d) return TD_OK;
    if (d->replica_count < 1 || d->computation_count < 1 || d->n_computation_devices != (size_t)d->computation_count)
        return td_fail(err, TD_MALFORMED, "device assignment: %d replicas, %d computations, %zu device lists", d->replica_count,
                       d->computation_count, d->n_computation_devices);
    for (size_t i = 0; i < d->n_computation_devices; i++)
        if (d->computation_devices[i]->n_replica_device_ids != (size_t)d->replica_count)
            return td_fail(err, TD_MALFORMED, "device assignment: computation %zu has %zu devices for %d replicas", i,
                           d->computation_devices[i]->n_replica_device_ids, d->replica_count);
    return TD_OK;
}

td_status_t td_verify_buffers(td_module_t *m, td_err_t *err) {
    td_status_t st;
    if ((st = allocations(m, err)) || (st = inputs(m, err)) || (st = outputs(m, err))) return st;
    if ((st = constants(m, err))) return st;
    return devices(m, err);
}
