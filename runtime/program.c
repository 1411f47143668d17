/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/checked.h"
#include "runtime/program_in.h"

static td_status_t shape_copy(td_arena_t *a, const td_shape_t *s, const td_shape_t **out, td_err_t *err) {
    if (!td_type_is_array(s->type)) {
        td_shape_t *t = TD_NEW(a, td_shape_t);
        if (!t) return td_arena_fail(a, err);
        t->type = s->type;
        *out = t;
        return TD_OK;
    }
    return td_shape_make(a, s->type, s->rank, s->dims, s->minor_to_major, out, err);
}

static td_status_t lower(td_program_t *p, const td_module_t *m, const char *what, const td_seq_t *from, td_seq_t *to, td_err_t *err) {
    to->n = from->n;
    td_thunk_t *v = TD_NEW_N(&p->arena, td_thunk_t, from->n);
    if (!v) return td_arena_fail(&p->arena, err);
    to->v = v;
    for (uint32_t i = 0; i < from->n; i++) {
        const td_thunk_t *f = &from->v[i];
        td_thunk_t *t = &v[i];
        td_status_t st = TD_OK;
        uint64_t scratch = 0;
        *t = *f;
        t->instr = NULL;
        t->image = (td_span_t){0};
        t->seqs = TD_NEW_N(&p->arena, td_seq_t, f->n_seqs);
        t->args = TD_NEW_N(&p->arena, td_kernel_arg_t, f->n_args);
        t->annotation = td_arena_strndup(&p->arena, f->annotation, strlen(f->annotation));
        void *extra = td_arena_zalloc(&p->arena, f->extra_bytes);
        t->kernel_name = NULL;
        if (!t->seqs || !t->args || !t->annotation || !extra) return td_arena_fail(&p->arena, err);
        if (f->extra_bytes) memcpy(extra, f->extra, f->extra_bytes);
        t->extra = extra;
        for (uint32_t k = 0; k < f->n_args; k++) {
            t->args[k] = f->args[k];
            t->args[k].shape = NULL;
        }
        if (f->n_args > p->max_args) p->max_args = f->n_args;
        if (f->kind->lower) st = f->kind->lower(p->dev, m->hlo, f, t, &p->arena, &scratch, err);
        if (scratch > p->scratch) p->scratch = scratch;
        for (uint32_t k = 0; k < f->n_seqs && !st; k++) st = lower(p, m, f->n_seqs > 1 ? (k ? "body" : "condition") : "thunks", &f->seqs[k], &t->seqs[k], err);
        if (st) return td_prefix(err, st, "%s[%u] (%s)", what, i, f->kind->name);
    }
    return TD_OK;
}

static void release(td_program_t *p, const td_seq_t *s) {
    for (uint32_t i = 0; s->v && i < s->n; i++) {
        if (s->v[i].kernel) p->dev->ops->kernel_release(s->v[i].kernel);
        for (uint32_t k = 0; s->v[i].seqs && k < s->v[i].n_seqs; k++) release(p, &s->v[i].seqs[k]);
    }
}

static td_status_t constant(td_program_t *p, td_slot_t *s, const td_literal_t *l, td_stream_t *q, td_err_t *err) {
    td_status_t st = p->dev->ops->mem_get(p->dev, s->size ? s->size : 1, &s->constant, err);
    p->constant_bytes += s->size;
    return st || !s->size ? st : p->dev->ops->upload(q, s->constant, l->bytes.data, s->size, err);
}

static td_status_t create(td_program_t *p, const td_module_t *m, td_err_t *err) {
    td_arena_t *a = &p->arena;
    td_status_t st = TD_OK;
    if (m->hlo->replica_count * m->hlo->num_partitions > 1)
        return td_fail(err, TD_UNSUPPORTED, "program for %lld devices; this build runs programs for one device",
                       (long long)(m->hlo->replica_count * m->hlo->num_partitions));
    p->n_slots = m->n_slots;
    p->n_inputs = m->n_inputs;
    p->n_outputs = m->n_outputs;
    p->slots = TD_NEW_N(a, td_slot_t, p->n_slots);
    p->inputs = TD_NEW_N(a, td_io_t, p->n_inputs);
    p->outputs = TD_NEW_N(a, td_io_t, p->n_outputs);
    p->input_slot = TD_NEW_N(a, uint32_t, p->n_inputs);
    p->output_slot = TD_NEW_N(a, uint32_t, p->n_outputs);
    p->input_direct = TD_NEW_N(a, bool, p->n_inputs);
    p->name = td_arena_strndup(a, m->hlo->name, strlen(m->hlo->name));
    if (!p->slots || !p->inputs || !p->outputs || !p->input_slot || !p->output_slot || !p->input_direct || !p->name) return td_arena_fail(a, err);
    for (uint32_t i = 0; i < p->n_inputs; i++) {
        const td_module_io_t *in = &m->inputs[i];
        p->inputs[i].name = td_arena_strndup(a, in->name, strlen(in->name));
        if (!p->inputs[i].name) return td_arena_fail(a, err);
        if ((st = shape_copy(a, in->shape, &p->inputs[i].shape, err))) return st;
        p->input_slot[i] = in->slot;
        const td_buffer_t *b = in->slot == UINT32_MAX ? NULL : &m->buffers[in->slot];
        p->input_direct[i] = b && p->host && in->shape->default_layout && !in->shape->packed && !b->written && !b->output;
    }
    for (uint32_t i = 0; i < p->n_outputs; i++) {
        p->outputs[i].name = td_arena_strndup(a, m->outputs[i].name, strlen(m->outputs[i].name));
        if (!p->outputs[i].name) return td_arena_fail(a, err);
        if ((st = shape_copy(a, m->outputs[i].shape, &p->outputs[i].shape, err))) return st;
        p->output_slot[i] = m->outputs[i].slot;
        p->convert_bytes += (td_io_host_bytes(p->outputs[i].shape) + 127) & ~63ull;
    }
    td_stream_t *q = NULL;
    if ((st = p->dev->ops->stream_create(p->dev, TD_STREAM_MAIN, &q, err))) return st;
    for (uint32_t i = 0; i < m->n_allocations && !st; i++) {
        const td_buffer_t *b = &m->buffers[i];
        p->slots[i].size = b->size;
        if (b->is_thread_local || (b->is_constant && !b->literal)) continue;
        if (b->literal) {
            st = constant(p, &p->slots[i], b->literal, q, err);
            continue;
        }
        p->slots[i].owned = true;
        p->slots[i].offset = p->block_bytes;
        p->block_bytes += (b->size + 511) & ~255ull;
    }
    for (uint32_t i = m->n_allocations; i < m->n_slots; i++) p->slots[i].size = m->buffers[i].size;
    if (!st) st = p->dev->ops->stream_sync(q, err);
    p->dev->ops->stream_destroy(q);
    return st ? st : lower(p, m, "thunks", m->thunks, &p->thunks, err);
}

td_status_t td_program_create(const td_module_t *m, td_device_t *dev, const td_alloc_t *alloc, td_program_t **out, td_err_t *err) {
    td_program_t *p = alloc->get(alloc->ctx, sizeof *p, 16);
    if (!p) return td_fail(err, TD_NOMEM, "out of memory");
    memset(p, 0, sizeof *p);
    p->alloc = alloc;
    p->dev = dev;
    p->host = dev->host_memory;
    td_arena_init(&p->arena, alloc, 0);
    td_status_t st = create(p, m, err);
    if (st) td_program_destroy(p);
    else *out = p;
    return st;
}

void td_program_destroy(td_program_t *p) {
    if (!p) return;
    release(p, &p->thunks);
    for (uint32_t i = 0; p->slots && i < p->n_slots; i++)
        if (p->slots[i].constant) p->dev->ops->mem_put(p->dev, p->slots[i].constant, p->slots[i].size ? p->slots[i].size : 1);
    td_arena_deinit(&p->arena);
    p->alloc->put(p->alloc->ctx, p, sizeof *p);
}

uint32_t td_program_input_count(const td_program_t *p) { return p->n_inputs; }
uint32_t td_program_output_count(const td_program_t *p) { return p->n_outputs; }
const td_io_t *td_program_input(const td_program_t *p, uint32_t i) { return i < p->n_inputs ? &p->inputs[i] : NULL; }
const td_io_t *td_program_output(const td_program_t *p, uint32_t i) { return i < p->n_outputs ? &p->outputs[i] : NULL; }
const char *td_program_name(const td_program_t *p) { return p->name; }
uint64_t td_program_bytes(const td_program_t *p) { return sizeof *p + p->arena.reserved_bytes + p->constant_bytes; }
uint64_t td_program_binding_bytes(const td_program_t *p) {
    return p->block_bytes + p->scratch + p->convert_bytes + p->n_slots * sizeof(void *) + p->max_args * sizeof(void *) + 1024;
}
uint64_t td_io_host_bytes(const td_shape_t *s) { return td_type_is_array(s->type) ? (uint64_t)s->count * td_type_bytes(s->type) : 0; }
