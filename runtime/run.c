/* SPDX-License-Identifier: Apache-2.0 */
/* Bindings, and one run: inputs to the device, thunks enqueued, outputs back, all streams drained. */
#include <string.h>

#include "runtime/graph.h"
#include "runtime/profile.h"
#include "runtime/trace.h"

void td_tensor_convert(const td_shape_t *s, uint8_t *stored, uint8_t *host, bool to_host) {
    int64_t stride[TD_LIMIT_RANK], idx[TD_LIMIT_RANK] = {0};
    size_t hb = td_type_bytes(s->type);
    td_shape_strides(s, stride);
    if (!to_host && s->packed) memset(stored, 0, s->bytes);
    for (int64_t k = 0; k < s->count; k++) {
        int64_t at = 0;
        for (uint32_t i = 0; i < s->rank; i++) at += idx[i] * stride[i];
        if (s->packed) {
            unsigned sh = (unsigned)(at * s->bits % 8), mask = (1u << s->bits) - 1;
            uint8_t *b = &stored[at * s->bits / 8];
            if (!to_host) *b |= (uint8_t)((host[k] & mask) << sh);
            else {
                unsigned v = *b >> sh & mask;
                if (td_type_is_signed(s->type) && v >> (s->bits - 1)) v |= ~mask;
                host[k] = (uint8_t)v;
            }
        } else if (to_host) {
            memcpy(host + (size_t)k * hb, stored + (size_t)at * hb, hb);
        } else {
            memcpy(stored + (size_t)at * hb, host + (size_t)k * hb, hb);
        }
        for (uint32_t i = s->rank; i-- > 0;) {
            if (++idx[i] < s->dims[i]) break;
            idx[i] = 0;
        }
    }
}

static td_status_t create_lanes(td_binding_t *b, td_err_t *err) {
    const td_program_t *p = b->p;
    const td_device_ops_t *ops = p->dev->ops;
    td_status_t st = TD_OK;
    for (uint32_t i = 0; i < p->n_lanes && !st; i++) {
        st = ops->stream_create(p->dev, p->lanes[i].use, &b->run.lanes[i].stream, err);
        if (!st)
            st = td_device_take(p->dev, p->charge, p->lanes[i].scratch + 256, "scratch", &b->run.lanes[i].scratch, err);
    }
    if (!st && p->n_pairs) st = ops->event_create(p->dev, &b->run.fork, err);
    for (uint32_t i = 0; i < p->n_pairs && !st; i++) st = ops->event_create(p->dev, &b->run.ends[i], err);
    return st;
}

static td_status_t create(td_binding_t *b, td_err_t *err) {
    const td_program_t *p = b->p;
    td_run_t *r = &b->run;
    td_status_t st;
    r->dev = p->dev;
    r->dropped = p->dropped_wait;
    r->slots = TD_NEW_N(&b->arena, void *, p->n_slots);
    r->bufs = TD_NEW_N(&b->arena, void *, p->max_args);
    r->lanes = TD_NEW_N(&b->arena, td_lane_t, p->n_lanes);
    r->ends = TD_NEW_N(&b->arena, td_event_t *, p->n_pairs);
    b->state_of_input = TD_NEW_N(&b->arena, uint32_t, p->n_inputs);
    b->state_of_slot = TD_NEW_N(&b->arena, uint32_t, p->n_slots);
    b->state_readers = TD_NEW_N(&b->arena, uint32_t, p->n_inputs);
    b->kept = TD_NEW_N(&b->arena, bool, p->n_outputs);
    b->convert = td_arena_align(&b->arena, p->layout.convert_bytes + 64, 64);
    b->stage = td_arena_align(&b->arena, p->layout.stage_bytes + 64, 64);
    if (!r->slots || !r->bufs || !r->lanes || !r->ends || !b->convert || !b->stage ||
        !b->state_of_input || !b->state_of_slot || !b->state_readers || !b->kept)
        return td_arena_fail(&b->arena, err);
    for (uint32_t i = 0; i < p->n_inputs; i++) b->state_of_input[i] = TD_NO_STATE;
    for (uint32_t i = 0; i < p->n_slots; i++) b->state_of_slot[i] = TD_NO_STATE;
    if ((st = create_lanes(b, err))) return st;
    if ((st = td_device_take(p->dev, p->charge, p->layout.block_bytes + 256, "the arrays of a run", &b->block, err)))
        return st;
    for (uint32_t i = 0; i < p->n_slots; i++)
        r->slots[i] = p->slots[i].constant ? p->slots[i].constant
                      : p->slots[i].owned  ? (char *)b->block + p->slots[i].offset
                                           : NULL;
    return td_graphs_create(p, &b->arena, &b->graphs, err);
}

td_status_t td_binding_create(const td_program_t *p, const td_alloc_t *alloc, td_binding_t **out, td_err_t *err) {
    td_binding_t *b = alloc->get(alloc->ctx, sizeof *b, 16);
    if (!b) return td_fail(err, TD_NOMEM, "out of memory");
    memset(b, 0, sizeof *b);
    b->p = p;
    b->alloc = alloc;
    td_arena_init(&b->arena, alloc, 0);
    td_status_t st = create(b, err);
    if (st) td_binding_destroy(b);
    else *out = b;
    return st;
}

void td_binding_destroy(td_binding_t *b) {
    if (!b) return;
    const td_program_t *p = b->p;
    const td_device_ops_t *ops = p->dev->ops;
    td_graphs_destroy(b->graphs);
    for (uint32_t i = 0; b->run.ends && i < p->n_pairs; i++) ops->event_destroy(b->run.ends[i]);
    ops->event_destroy(b->run.fork);
    for (uint32_t i = 0; b->run.lanes && i < p->n_lanes; i++) {
        ops->stream_destroy(b->run.lanes[i].stream);
        td_device_give(p->dev, p->charge, b->run.lanes[i].scratch, p->lanes[i].scratch + 256);
    }
    td_device_give(p->dev, p->charge, b->block, p->layout.block_bytes + 256);
    td_trace_destroy(b->run.trace);
    td_arena_deinit(&b->arena);
    b->alloc->put(b->alloc->ctx, b, sizeof *b);
}

td_status_t td_binding_profile(td_binding_t *b, td_err_t *err) {
    if (b->run.profile) return TD_OK;
    td_status_t st = td_profile_create(&b->p->thunks, b->p->n_thunks, &b->arena, &b->run.profile, err);
    if (!st) b->run.each = td_profile_enqueue;
    return st;
}

const td_profile_row_t *td_binding_profile_rows(const td_binding_t *b, uint32_t *n) {
    *n = b->run.profile ? b->run.profile->n : 0;
    return b->run.profile ? b->run.profile->rows : NULL;
}

td_status_t td_binding_trace(td_binding_t *b, uint32_t most, td_err_t *err) {
    if (b->run.trace) return TD_OK;
    td_status_t st = td_trace_create(b->p->dev, b->alloc, most, &b->run.trace, err);
    if (st) return st;
    b->run.trace->inner = b->run.each;
    b->run.each = td_trace_enqueue;
    return TD_OK;
}

const td_trace_event_t *td_binding_trace_events(const td_binding_t *b, uint32_t *n, uint64_t *left_out) {
    const td_trace_t *t = b->run.trace;
    *n = t ? t->n : 0;
    *left_out = t ? t->left_out : 0;
    return t ? t->events : NULL;
}

td_status_t td_binding_put(td_binding_t *b, const td_shape_t *s, void *to, const void *src, uint8_t **stage,
                           td_err_t *err) {
    bool same = td_shape_plain(s);
    if (b->p->host) {
        if (same) memcpy(to, src, s->bytes);
        else td_tensor_convert(s, to, (uint8_t *)(uintptr_t)src, false);
        return TD_OK;
    }
    if (!same) {
        td_tensor_convert(s, *stage, (uint8_t *)(uintptr_t)src, false);
        src = *stage;
        *stage += td_io_room(s->bytes);
    }
    return b->p->dev->ops->upload(b->run.stream, to, src, s->bytes, err);
}

/* The device has it already. */
static td_status_t bind_held(td_binding_t *b, uint32_t i, td_err_t *err) {
    const td_program_t *p = b->p;
    uint32_t slot = p->input_slot[i];
    if (!p->input_copy[i]) return TD_OK; /* its slot is a constant */
    b->run.slots[slot] = (char *)b->block + p->slots[slot].offset;
    return p->dev->ops->copy(b->run.stream, b->run.slots[slot], p->input_copy[i], p->inputs[i].shape->bytes, err);
}

static td_status_t bind_input(td_binding_t *b, uint32_t i, const void *src, uint8_t **stage, td_err_t *err) {
    const td_program_t *p = b->p;
    const td_shape_t *s = p->inputs[i].shape;
    uint32_t slot = p->input_slot[i];
    if (slot == UINT32_MAX) return TD_OK;
    if (!p->host && p->bound && p->bound[i]) return bind_held(b, i, err);
    if (p->state_only[i])
        return td_fail(err, TD_USAGE, "input %u ('%s') is kept on the device: runs need a state for it", i,
                       p->inputs[i].name);
    void *own = (char *)b->block + p->slots[slot].offset;
    b->run.slots[slot] = own;
    if (!s->count) return TD_OK;
    if (!src) return td_fail(err, TD_USAGE, "input %u ('%s') is missing", i, p->inputs[i].name);
    if (p->input_direct[i]) {
        if ((uintptr_t)src % td_io_align(s))
            return td_fail(err, TD_USAGE, "input %u ('%s') is not aligned to %u bytes", i, p->inputs[i].name,
                           (unsigned)td_io_align(s));
        b->run.slots[slot] = (void *)(uintptr_t)src;
        return TD_OK;
    }
    return td_binding_put(b, s, own, src, stage, err);
}

/* Where output i will lie on the host's side, and the download that is needed for it; stage moves on. */
static td_status_t fetch_output(td_binding_t *b, uint32_t i, uint8_t *to, uint8_t *stage, const void **out,
                                td_err_t *err) {
    const td_program_t *p = b->p;
    const td_shape_t *s = p->outputs[i].shape;
    *out = to;
    if (!td_type_is_array(s->type) || !s->count) return TD_OK;
    void *at = b->run.slots[p->output_slot[i]];
    if (!p->host) return p->dev->ops->download(b->run.stream, td_shape_plain(s) ? to : stage, at, s->bytes, err);
    if (td_shape_plain(s)) *out = at;
    return TD_OK;
}

static void convert_output(td_binding_t *b, uint32_t i, uint8_t *to, uint8_t *stage) {
    const td_program_t *p = b->p;
    const td_shape_t *s = p->outputs[i].shape;
    if (td_type_is_array(s->type) && s->count && !td_shape_plain(s))
        td_tensor_convert(s, p->host ? b->run.slots[p->output_slot[i]] : stage, to, true);
}

/* Every output in turn: enqueues what brings it to the host (finish false), or converts it. */
static td_status_t outputs_pass(td_binding_t *b, uint8_t *stage, bool finish, const void **outputs, td_err_t *err) {
    const td_program_t *p = b->p;
    uint8_t *to = b->convert;
    td_status_t st = TD_OK;
    for (uint32_t i = 0; i < p->n_outputs && !st; i++) {
        const td_shape_t *s = p->outputs[i].shape;
        if (b->kept[i]) {
            outputs[i] = NULL;
            continue;
        }
        if (finish) convert_output(b, i, to, stage);
        else st = fetch_output(b, i, to, stage, &outputs[i], err);
        if (!td_type_is_array(s->type) || (p->host && td_shape_plain(s))) continue;
        to += td_io_room(td_io_host_bytes(s));
        if (!p->host && !td_shape_plain(s)) stage += td_io_room(s->bytes);
    }
    return st;
}

/* Every stream runs empty, whatever happened; the first failure is kept. */
static td_status_t drain(td_binding_t *b, td_status_t st, td_err_t *err) {
    for (uint32_t i = b->p->n_lanes; i-- > 0;) {
        td_binding_phase(b, TD_PHASE_DRAIN, i);
        td_status_t sync = b->p->dev->ops->stream_sync(b->run.lanes[i].stream, st ? NULL : err);
        if (!st) st = sync;
    }
    return st;
}

static td_status_t run(td_binding_t *b, const td_run_args_t *a, td_err_t *err) {
    const td_program_t *p = b->p;
    td_run_t *r = &b->run;
    td_status_t st = TD_OK;
    uint8_t *stage = b->stage;
    uint32_t event = TD_NO_EVENT;
    if (r->trace && (st = td_trace_start(r, &event))) return drain(b, st, err);
    for (uint32_t i = 0; i < p->n_inputs && !st; i++)
        if (b->state_of_input[i] == TD_NO_STATE) st = bind_input(b, i, a->inputs[i], &stage, err);
    if (r->trace && !st) st = td_trace_end(r, event);
    td_binding_phase(b, TD_PHASE_THUNKS, 0);
    if (b->graphs) td_graphs_start(b->graphs, r->slots);
    r->graphs = r->each ? NULL : b->graphs;
    if (!st) st = td_thunk_run_seq(r, "thunks", &p->thunks);
    r->graphs = NULL;
    if (r->trace && !st) st = td_trace_begin(r, "copy", "outputs", &event);
    if (!st && a->n_states) st = td_states_keep(b, a, err);
    if (!st) st = outputs_pass(b, stage, false, a->outputs, err);
    if (r->trace && !st) st = td_trace_end(r, event);
    st = drain(b, st, err);
    if (b->graphs) b->graphs->spoilt = st != TD_OK;
    if (r->trace) st = td_trace_finish(r->trace, st, err);
    return st ? st : outputs_pass(b, stage, true, a->outputs, err);
}

/* On the main stream, with nothing enqueued. */
static void begin(td_binding_t *b) {
    td_run_lane(&b->run, 0);
    for (uint32_t i = 0; i < b->p->n_lanes; i++)
        atomic_store_explicit(&b->run.lanes[i].at, (const td_thunk_t *)NULL, memory_order_relaxed);
    td_binding_phase(b, TD_PHASE_INPUTS, 0);
}

td_status_t td_program_run_with(td_binding_t *b, const td_run_args_t *a, td_err_t *err) {
    td_run_t *r = &b->run;
    r->cancel = a->cancel;
    r->err = err;
    r->n_loops = 0;
    begin(b);
    td_status_t st = td_states_begin(b, a, err);
    if (!st) st = run(b, a, err);
    td_states_end(b, a);
    td_binding_phase(b, TD_PHASE_IDLE, 0);
    r->err = NULL;
    r->cancel = NULL;
    return st;
}

td_status_t td_program_run(td_binding_t *b, const void *const *inputs, const void **outputs,
                           const _Atomic(int) *cancel, td_err_t *err) {
    return td_program_run_with(b, &(td_run_args_t){.inputs = inputs, .outputs = outputs, .cancel = cancel}, err);
}

td_status_t td_binding_run_once(td_binding_t *b, const void *const *inputs, const bool *fixed, td_err_t *err) {
    const td_program_t *p = b->p;
    const td_device_ops_t *ops = p->dev->ops;
    td_run_t *r = &b->run;
    td_status_t st = TD_OK;
    uint8_t *stage = b->stage;
    r->err = err;
    r->n_loops = 0;
    begin(b);
    for (uint32_t i = 0; i < p->n_inputs && !st; i++)
        if (fixed[i]) st = bind_input(b, i, inputs[i], &stage, err);
    td_binding_phase(b, TD_PHASE_THUNKS, 0);
    if (!st) st = td_thunk_run_seq(r, "bound thunks", &p->once);
    for (uint32_t i = 0; i < p->n_packs && !st; i++) {
        const td_pack_t *k = &p->packs[i];
        st = ops->pack(r->stream, k->kernel, k->arg, td_thunk_addr(r, &k->from), r->slots[k->slot], r->scratch, err);
    }
    st = drain(b, st, err);
    td_binding_phase(b, TD_PHASE_IDLE, 0);
    r->err = NULL;
    return st;
}
