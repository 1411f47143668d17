/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/checked.h"
#include "runtime/graph.h"
#include "runtime/join.h"
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

uint32_t td_lane_of(const td_device_t *dev, td_lane_plan_t *lanes, uint32_t *n, const td_thunk_t *t) {
    uint32_t most = dev->lanes_most && dev->lanes_most < TD_LIMIT_LANES ? dev->lanes_most : TD_LIMIT_LANES;
    for (uint32_t i = 0; i < *n; i++)
        if (lanes[i].use == t->stream_use && lanes[i].id == t->stream) return i;
    if (*n >= most) return most > 1 ? 1 + (uint32_t)(t->stream % (most - 1)) : 0;
    lanes[*n] = (td_lane_plan_t){t->stream_use, t->stream, 0};
    return (*n)++;
}

/* Bytes that the thunks touch; UINT64_MAX for what may take long whatever it touches. */
static uint64_t touched(const td_seq_t *s) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        const td_thunk_t *t = &s->v[i];
        if (t->kind->enqueue == td_slice_fusion_enqueue) { /* moves slices, not its arguments */
            if (td_add_u64(sum, touched(&t->seqs[0]), &sum)) continue;
            return UINT64_MAX;
        }
        if (t->n_seqs || t->kind->enqueue == td_custom_call_enqueue) return UINT64_MAX;
        for (uint32_t k = 0; k < t->n_args; k++)
            if (!td_add_u64(sum, t->args[k].size, &sum)) return UINT64_MAX;
    }
    return sum;
}

bool td_thunk_light(const td_device_t *dev, const td_thunk_t *t) {
    return t->kind->enqueue == td_async_start_enqueue && touched(&t->seqs[0]) < dev->light_bytes;
}

static td_status_t lower(td_program_t *p, const td_module_t *m, uint32_t lane, const char *what, const td_seq_t *from,
                         td_seq_t *to, td_err_t *err) {
    td_seq_t joined = *from;
    if (p->dev->ops->joins_kernels && !p->apart) {
        td_status_t st = td_join_products(from, &p->arena, &joined, err);
        if (st) return st;
        from = &joined;
    }
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
        t->number = p->n_thunks++;
        t->instr = t->producer = NULL;
        t->launch = NULL;
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
        if (scratch > p->lanes[lane].scratch) p->lanes[lane].scratch = scratch;
        if (td_thunk_light(p->dev, f)) t->stream_use = TD_STREAM_MAIN;
        t->lane = t->stream_use == TD_STREAM_MAIN ? lane : td_lane_of(p->dev, p->lanes, &p->n_lanes, f);
        if (f->kind->enqueue == td_async_start_enqueue && f->pair >= p->n_pairs) p->n_pairs = f->pair + 1;
        for (uint32_t k = 0; k < f->n_seqs && !st; k++) {
            char name[24];
            td_thunk_seq_name(f, k, name);
            st = lower(p, m, t->lane, name, &f->seqs[k], &t->seqs[k], err);
        }
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

/* A literal's bytes as a payload, one reference; NULL: so small that it goes into the program's own block. */
static td_status_t payload_of(td_program_t *p, const td_literal_t *l, const td_payload_t **out, td_err_t *err) {
    td_payload_table_t *t = td_constants_payloads(p->constants);
    *out = NULL;
    if (l->payload) *out = td_payload_retain(t, l->payload);
    else if (l->bytes.size > TD_LIMIT_INLINE_BYTES) return td_payload_intern(t, l->bytes, out, err);
    return TD_OK;
}

static td_status_t shared_constants(td_program_t *p, const td_module_t *m, uint32_t *slot_of, const td_payload_t **v,
                                    td_err_t *err) {
    td_payload_table_t *t = td_constants_payloads(p->constants);
    td_status_t st = TD_OK;
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->n_allocations && !st; i++) {
        const td_payload_t *l = NULL;
        if (!m->buffers[i].literal) continue;
        if ((st = payload_of(p, m->buffers[i].literal, &l, err))) break;
        if (l) slot_of[n] = i, v[n++] = l;
    }
    if (!st) st = td_constants_get(p->constants, v, n, p->constant_charge, p->shared, err);
    for (uint32_t k = 0; k < n; k++) td_payload_release(t, v[k]); /* the table of constants has what it needs */
    if (st) return st;
    p->n_shared = n;
    for (uint32_t k = 0; k < n; k++) p->slots[slot_of[k]].constant = p->shared[k].memory;
    return TD_OK;
}

/* The small ones, in one block that is uploaded at once. */
static td_status_t inline_constants(td_program_t *p, const td_module_t *m, td_err_t *err) {
    td_stream_t *q = NULL;
    uint64_t at = 0;
    if (!p->layout.inline_bytes) return TD_OK;
    td_status_t st =
        td_device_take(p->dev, p->charge, p->layout.inline_bytes, "small constants", &p->inline_memory, err);
    uint8_t *host = st ? NULL : p->alloc->get(p->alloc->ctx, (size_t)p->layout.inline_bytes, 64);
    if (!st && !host) st = td_fail(err, TD_NOMEM, "out of memory");
    if (st) return st;
    memset(host, 0, (size_t)p->layout.inline_bytes);
    for (uint32_t i = 0; i < m->n_allocations; i++) {
        const td_literal_t *l = m->buffers[i].literal;
        if (!l || p->slots[i].constant) continue;
        if (l->bytes.size) memcpy(host + at, l->bytes.data, l->bytes.size);
        p->slots[i].constant = (char *)p->inline_memory + at;
        at += td_constant_room(l->bytes.size);
    }
    st = p->dev->ops->stream_create(p->dev, TD_STREAM_MAIN, &q, err);
    if (!st) st = p->dev->ops->upload(q, p->inline_memory, host, p->layout.inline_bytes, err);
    if (q) {
        td_status_t sync = p->dev->ops->stream_sync(q, st ? NULL : err);
        if (!st) st = sync;
        p->dev->ops->stream_destroy(q);
    }
    p->alloc->put(p->alloc->ctx, host, (size_t)p->layout.inline_bytes);
    return st;
}

static td_status_t constants(td_program_t *p, const td_module_t *m, td_err_t *err) {
    td_payload_table_t *t = m->artifact->table;
    td_status_t st = TD_OK;
    if (p->constants && td_constants_payloads(p->constants) != t)
        return td_fail(err, TD_USAGE, "the table of constants and the artifact have different payload tables");
    if (!p->constants && (st = td_constants_create(p->dev, t, p->alloc, p->charge, &p->own_constants, err))) return st;
    if (!p->constants) p->constants = p->own_constants;
    uint32_t *slot_of = TD_NEW_N(&p->arena, uint32_t, m->n_allocations);
    p->shared = TD_NEW_N(&p->arena, td_constant_t, (size_t)m->n_allocations + m->n_inputs);
    const td_payload_t **v = TD_NEW_N(&p->arena, const td_payload_t *, m->n_allocations);
    if (!slot_of || !p->shared || !v) return td_arena_fail(&p->arena, err);
    if ((st = shared_constants(p, m, slot_of, v, err))) return td_prefix(err, st, "constants");
    return inline_constants(p, m, err);
}

static td_status_t create(td_program_t *p, const td_module_t *m, const bool *states, td_err_t *err) {
    td_arena_t *a = &p->arena;
    td_status_t st = TD_OK;
    if (m->artifact->headers_only)
        return td_fail(err, TD_USAGE, "the artifact was opened for its headers; a program needs all of it");
    if (m->hlo->replica_count * m->hlo->num_partitions > 1)
        return td_fail(err, TD_UNSUPPORTED, "program for %lld devices; this build runs programs for one device",
                       (long long)(m->hlo->replica_count * m->hlo->num_partitions));
    if (m->scheduled && !p->dev->ops->compiles)
        return td_fail(err, TD_UNSUPPORTED,
                       "holds no thunks (written before 0.10), so only a device that compiles instructions runs it, and "
                       "'%s' loads compiled code: export the model anew with a newer release",
                       p->dev->ops->name);
    p->n_slots = m->n_slots;
    p->n_inputs = m->n_inputs;
    p->n_outputs = m->n_outputs;
    p->slots = TD_NEW_N(a, td_slot_t, p->n_slots);
    p->inputs = TD_NEW_N(a, td_io_t, p->n_inputs);
    p->outputs = TD_NEW_N(a, td_io_t, p->n_outputs);
    p->input_slot = TD_NEW_N(a, uint32_t, p->n_inputs);
    p->output_slot = TD_NEW_N(a, uint32_t, p->n_outputs);
    p->input_direct = TD_NEW_N(a, bool, p->n_inputs);
    p->input_read_only = TD_NEW_N(a, bool, p->n_inputs);
    p->input_copy = TD_NEW_N(a, void *, p->n_inputs);
    p->state_only = TD_NEW_N(a, bool, p->n_inputs);
    p->name = td_arena_strndup(a, m->hlo->name, strlen(m->hlo->name));
    if (!p->slots || !p->inputs || !p->outputs || !p->input_slot || !p->output_slot || !p->input_direct ||
        !p->input_read_only || !p->input_copy || !p->state_only || !p->name)
        return td_arena_fail(a, err);
    if (states && p->n_inputs) memcpy(p->state_only, states, p->n_inputs * sizeof *states);
    for (uint32_t i = 0; i < p->n_inputs; i++) {
        const td_module_io_t *in = &m->inputs[i];
        p->inputs[i].name = td_arena_strndup(a, in->name, strlen(in->name));
        if (!p->inputs[i].name) return td_arena_fail(a, err);
        p->inputs[i].path = td_arena_strndup(a, in->path, strlen(in->path));
        if (!p->inputs[i].path) return td_arena_fail(a, err);
        if ((st = shape_copy(a, in->shape, &p->inputs[i].shape, err))) return st;
        p->input_slot[i] = in->slot;
        p->input_read_only[i] = td_input_read_only(m, i);
    }
    for (uint32_t i = 0; i < p->n_outputs; i++) {
        p->outputs[i].name = td_arena_strndup(a, m->outputs[i].name, strlen(m->outputs[i].name));
        if (!p->outputs[i].name) return td_arena_fail(a, err);
        p->outputs[i].path = "";
        if ((st = shape_copy(a, m->outputs[i].shape, &p->outputs[i].shape, err))) return st;
        p->output_slot[i] = m->outputs[i].slot;
    }
    if ((st = td_module_layout(m, p->host, p->state_only, p->slots, p->input_direct, &p->layout, err))) return st;
    if ((st = constants(p, m, err))) return st;
    return lower(p, m, 0, "thunks", m->thunks, &p->thunks, err);
}

td_status_t td_program_create(const td_module_t *m, const td_program_opts_t *opts, td_program_t **out, td_err_t *err) {
    const td_alloc_t *alloc = opts->alloc ? opts->alloc : td_alloc_default();
    td_program_t *p = alloc->get(alloc->ctx, sizeof *p, 16);
    if (!p) return td_fail(err, TD_NOMEM, "out of memory");
    memset(p, 0, sizeof *p);
    p->alloc = alloc;
    p->dev = opts->dev;
    p->charge = opts->charge;
    p->constants = opts->constants;
    p->constant_charge = opts->constants ? opts->constant_charge : NULL;
    p->apart = opts->apart;
    p->host = p->dev->host_memory;
    p->lanes[0] = (td_lane_plan_t){TD_STREAM_MAIN, -1, 0};
    p->n_lanes = 1;
    p->dropped_wait = TD_NO_WAIT;
    td_arena_init(&p->arena, alloc, 0);
    td_status_t st = create(p, m, opts->states, err);
    if (st) td_program_destroy(p);
    else *out = p;
    return st;
}

void td_program_destroy(td_program_t *p) {
    if (!p) return;
    release(p, &p->thunks);
    release(p, &p->once);
    for (uint32_t i = p->first_made; p->first_made && i < p->n_slots; i++)
        td_device_give(p->dev, p->charge, p->slots[i].constant, p->slots[i].size);
    td_device_give(p->dev, p->charge, p->inline_memory, p->layout.inline_bytes);
    if (p->constants) td_constants_put(p->constants, p->shared, p->n_shared);
    td_constants_destroy(p->own_constants);
    td_arena_deinit(&p->arena);
    p->alloc->put(p->alloc->ctx, p, sizeof *p);
}

uint32_t td_program_input_count(const td_program_t *p) { return p->n_inputs; }
uint32_t td_program_output_count(const td_program_t *p) { return p->n_outputs; }
const td_io_t *td_program_input(const td_program_t *p, uint32_t i) { return i < p->n_inputs ? &p->inputs[i] : NULL; }
const td_io_t *td_program_output(const td_program_t *p, uint32_t i) { return i < p->n_outputs ? &p->outputs[i] : NULL; }
const char *td_program_name(const td_program_t *p) { return p->name; }
uint64_t td_program_bytes(const td_program_t *p) {
    return sizeof *p + p->arena.reserved_bytes + p->layout.inline_bytes + p->made_bytes;
}
uint64_t td_program_constant_bytes(const td_program_t *p) { return p->layout.constant_bytes + p->bound_bytes; }
const td_constant_t *td_program_constants(const td_program_t *p, uint32_t *out_n) {
    *out_n = p->n_shared;
    return p->shared;
}
uint64_t td_program_stream_bytes(const td_program_t *p) { return (p->n_lanes - p->host) * p->dev->stream_bytes; }
uint64_t td_program_binding_bytes(const td_program_t *p) {
    uint64_t sum = p->layout.block_bytes + p->layout.convert_bytes + p->layout.stage_bytes + 1024;
    sum += (p->n_slots + p->max_args) * sizeof(void *);
    for (uint32_t i = 0; i < p->n_lanes; i++)
        sum += p->lanes[i].scratch + 256;
    if (p->dev->graphs) sum += td_graphs_bytes(p->n_thunks);
    return sum + td_program_stream_bytes(p) + p->n_pairs * (sizeof(void *) + 64);
}
uint32_t td_program_lane_count(const td_program_t *p) { return p->n_lanes; }
td_stream_use_t td_program_lane(const td_program_t *p, uint32_t lane, int64_t *id) {
    *id = lane < p->n_lanes ? p->lanes[lane].id : -1;
    return lane < p->n_lanes ? p->lanes[lane].use : TD_STREAM_MAIN;
}
const char *td_stream_use_name(td_stream_use_t use) {
    static const char *const names[] = {"main", "compute", "communication", "memcpy"};
    return (unsigned)use < sizeof names / sizeof *names ? names[use] : "unknown";
}
uint32_t td_program_wait_count(const td_program_t *p) { return 2 * p->n_pairs; }
void td_program_drop_wait(td_program_t *p, uint32_t k) { p->dropped_wait = k; }
uint64_t td_io_host_bytes(const td_shape_t *s) {
    return td_type_is_array(s->type) ? (uint64_t)s->count * td_type_bytes(s->type) : 0;
}
uint64_t td_io_align(const td_shape_t *s) {
    uint64_t n = td_type_is_array(s->type) ? td_type_bytes(s->type) : 1;
    return n > 8 ? 8 : n ? n : 1;
}
