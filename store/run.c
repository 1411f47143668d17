/* SPDX-License-Identifier: Apache-2.0 */
/* Slots, and one run on one of them. */
#include <string.h>

#include "base/guard.h"
#include "store/store_in.h"

const td_model_info_t *td_resident_info(const td_resident_t *r) { return &r->info; }

static bool any_axis(const uint8_t *axes, uint32_t rank) {
    for (uint32_t d = 0; d < rank; d++)
        if (axes[d] != TD_NO_AXIS) return true;
    return false;
}

static td_status_t make_inputs(td_resident_t *r, td_run_slot_t *s, td_err_t *err) {
    const td_program_t *p = s->bucket->program;
    uint32_t n = td_program_input_count(p);
    s->inputs = TD_NEW_N(&r->arena, const void *, n + 1u);
    s->room = TD_NEW_N(&r->arena, uint8_t *, n + 1u);
    s->states = TD_NEW_N(&r->arena, td_run_state_t, r->info.n_states + 1u);
    if (!s->inputs || !s->room || !s->states) return td_arena_fail(&r->arena, err);
    for (uint32_t i = 0; i < n; i++) s->inputs[i] = s->bucket->weights[i];
    for (uint32_t i = 0; i < r->info.n_inputs; i++) {
        const td_tensor_info_t *t = &r->info.inputs[i];
        const td_shape_t *sh = td_program_input(p, r->visible_inputs[i])->shape;
        if (t->type != TD_PRED && !any_axis(r->input_axes[i], t->rank)) continue;
        s->room[i] = td_arena_align(&r->arena, td_io_host_bytes(sh) + 1, 64);
        if (!s->room[i]) return td_arena_fail(&r->arena, err);
    }
    for (uint32_t k = 0; k < r->info.n_states; k++) s->states[k] = (td_run_state_t){.input = r->state_inputs[k],
            .output = r->state_outputs[k]};
    return TD_OK;
}

static td_status_t make_outputs(td_resident_t *r, td_run_slot_t *s, td_err_t *err) {
    const td_program_t *p = s->bucket->program;
    uint32_t n = r->info.n_outputs;
    s->outputs = TD_NEW_N(&r->arena, const void *, td_program_output_count(p) + 1u);
    s->cut = TD_NEW_N(&r->arena, uint8_t *, n + 1u);
    s->dims = TD_NEW_N(&r->arena, int64_t *, n + 1u);
    s->answers = TD_NEW_N(&r->arena, td_run_tensor_t, n + 1u);
    s->answer_bytes = TD_NEW_N(&r->arena, uint64_t, n + 1u);
    if (!s->outputs || !s->cut || !s->dims || !s->answers || !s->answer_bytes) return td_arena_fail(&r->arena, err);
    for (uint32_t i = 0; i < n; i++) {
        const td_tensor_info_t *t = &r->info.outputs[i];
        const td_shape_t *sh = td_program_output(p, r->visible_outputs[i])->shape;
        s->dims[i] = TD_NEW_N(&r->arena, int64_t, t->rank + 1u);
        if (!s->dims[i]) return td_arena_fail(&r->arena, err);
        if (!any_axis(r->output_axes[i], t->rank)) continue;
        s->cut[i] = td_arena_align(&r->arena, td_io_host_bytes(sh) + 1, 64);
        if (!s->cut[i]) return td_arena_fail(&r->arena, err);
    }
    return TD_OK;
}

/* It stays in the account until that is closed. */
static td_status_t charge_streams(td_resident_t *r, const td_bucket_t *b, td_err_t *err) {
    uint64_t n = td_program_stream_bytes(b->program);
    if (!n || td_charge_take(&r->program_draw.charge, n)) return TD_OK;
    return td_fail(err, TD_LIMIT, "the budget has no %llu bytes more for streams", (unsigned long long)n);
}

td_status_t td_resident_make_slots(td_resident_t *r, uint32_t n, td_err_t *err) {
    td_status_t st = TD_OK;
    for (uint32_t k = 0; k < r->n_buckets && st == TD_OK; k++) {
        td_bucket_t *b = &r->buckets[k];
        b->slots = TD_NEW_N(&r->arena, td_run_slot_t, n);
        if (!b->slots) return td_arena_fail(&r->arena, err);
        while (b->n_slots < n && st == TD_OK) {
            td_run_slot_t *s = &b->slots[b->n_slots++];
            s->resident = r;
            s->bucket = b;
            st = make_inputs(r, s, err);
            if (st == TD_OK) st = make_outputs(r, s, err);
            if (st == TD_OK) st = charge_streams(r, b, err);
            if (st == TD_OK) st = td_binding_create(b->program, td_heap_alloc(r->heap), &s->binding, err);
        }
    }
    return st;
}

static td_run_slot_t *take_slot(td_bucket_t *b) {
    for (uint32_t i = 0; i < b->n_slots; i++)
        if (!atomic_exchange(&b->slots[i].busy, true)) return &b->slots[i];
    return NULL;
}

void td_run_slot_release(td_run_slot_t *s) {
    if (s) atomic_store(&s->busy, false);
}

/* ---- one run ---- */

/* Programs may rely on booleans being 0 or 1. */
static const void *normalised(const uint8_t *p, uint64_t n, uint8_t *room) {
    uint64_t k = 0;
    while (k < n && p[k] <= 1) k++;
    if (k == n) return p;
    for (k = 0; k < n; k++) room[k] = p[k] != 0;
    return room;
}

static const void *take_input(const td_resident_t *r, td_run_slot_t *s, uint32_t i, const td_run_tensor_t *in) {
    const td_tensor_info_t *t = &r->info.inputs[i];
    const td_shape_t *sh = td_program_input(s->bucket->program, r->visible_inputs[i])->shape;
    const void *p = in->data;
    const int64_t *from = in->dims ? in->dims : t->max_dims;
    bool whole = true;
    for (uint32_t d = 0; d < t->rank; d++) whole &= from[d] == sh->dims[d];
    if (!whole) {
        td_corner_copy(s->room[i], sh->dims, p, from, t->rank, td_type_bytes(t->type), r->pads[i]);
        p = s->room[i];
    }
    return t->type == TD_PRED ? normalised(p, td_io_host_bytes(sh), s->room[i]) : p;
}

static void give_output(const td_resident_t *r, td_run_slot_t *s, uint32_t i, const int64_t *sizes) {
    const td_tensor_info_t *t = &r->info.outputs[i];
    const td_shape_t *sh = td_program_output(s->bucket->program, r->visible_outputs[i])->shape;
    const void *p = s->outputs[r->visible_outputs[i]];
    uint64_t bytes = td_type_bytes(t->type);
    bool whole = true;
    for (uint32_t d = 0; d < t->rank; d++) {
        uint32_t a = r->output_axes[i][d];
        s->dims[i][d] = a == TD_NO_AXIS ? sh->dims[d] : sizes[a];
        whole &= s->dims[i][d] == sh->dims[d];
        bytes *= (uint64_t)s->dims[i][d];
    }
    if (!whole) {
        td_corner_copy(s->cut[i], s->dims[i], p, sh->dims, t->rank, td_type_bytes(t->type), NULL);
        p = s->cut[i];
    }
    s->answers[i] = (td_run_tensor_t){p, s->dims[i]};
    s->answer_bytes[i] = bytes;
}

/* Some mapped file lost pages during the run: one of ours? */
static td_status_t check_damage(const td_resident_t *r, uint64_t faults, td_err_t *err) {
    td_err_t why = {0};
    if (td_guard_faults() == faults || !td_weights_damaged(r->weights, &why)) return TD_OK;
    return td_fail(err, TD_IO, "its weights are damaged: %s; reload it", why.text);
}

/* After a run. Its first is plain, so what cannot be captured is known after the second. */
static void count_graphs(td_run_slot_t *s) {
    td_resident_t *r = s->resident;
    td_version_t *v = r->version; /* stays while there is a lease */
    td_graph_stats_t now;
    if (!r->store->opts.device->graphs || !v) return;
    td_binding_graphs(s->binding, &now);
    atomic_fetch_add_explicit(&v->graph_replays, now.launches - s->graphs.replays, memory_order_relaxed);
    atomic_fetch_add_explicit(&v->graph_captures, now.captures - s->graphs.captures, memory_order_relaxed);
    atomic_fetch_add_explicit(&v->graph_refused, now.refused - s->graphs.refused, memory_order_relaxed);
    s->graphs = (td_graph_counts_t){now.launches, now.captures, now.refused};
    s->runs += s->runs < 2;
    if (s->runs < 2 || !*now.reason || atomic_exchange(&r->graphs_told, true)) return;
    td_store_event(r->store, TD_EVENT_GRAPHS, r->info.name, r->info.version, now.reason, 0, 0);
}

static td_status_t run_on(td_lease_t *l, const td_run_request_t *q, td_run_slot_t *s, const int64_t *sizes,
                          td_err_t *err) {
    td_resident_t *r = l->resident;
    td_status_t st = TD_OK;
    for (uint32_t i = 0; i < r->info.n_inputs; i++) s->inputs[r->visible_inputs[i]] = take_input(r, s, i,
            &q->inputs[i]);
    if (l->sequence) {
        st = td_sequence_prepare(l->sequence, s->binding, q->states, err);
        for (uint32_t k = 0; k < r->info.n_states && st == TD_OK; k++) s->states[k].memory = l->sequence->memory[k];
    }
    td_run_args_t args = {.inputs = s->inputs, .outputs = s->outputs, .states = s->states, .n_states = r->info.n_states,
                          .cancel = q->cancel};
    uint64_t faults = td_guard_faults();
    if (st == TD_OK) {
        atomic_store_explicit(&s->since_ns, td_now_ns(td_clock_system()), memory_order_relaxed);
        st = td_program_run_with(s->binding, &args, err);
        atomic_store_explicit(&s->since_ns, 0, memory_order_relaxed);
        count_graphs(s);
        if (st != TD_OK) td_lease_spoil(l);
    }
    if (st == TD_OK) st = check_damage(r, faults, err);
    for (uint32_t i = 0; i < r->info.n_outputs && st == TD_OK; i++) give_output(r, s, i, sizes);
    return st;
}

td_status_t td_lease_run(td_lease_t *l, const td_run_request_t *q, td_run_slot_t **out, td_err_t *err) {
    td_resident_t *r = l->resident;
    int64_t sizes[TD_AXES_MOST];
    td_bucket_t *b = NULL;
    if (r->info.n_states && !l->sequence)
        return td_fail(err, TD_USAGE, "model %s keeps state: a request must belong to a sequence (sequence_id, "
                       "sequence_start)", r->info.name);
    td_status_t st = td_bucket_pick(r, q->inputs, sizes, &b, err);
    if (st != TD_OK) return td_prefix(err, st, "model %s", r->info.name);
    td_run_slot_t *s = take_slot(b);
    if (!s) return td_fail(err, TD_BUSY, "model %s: all %u slots are taken", r->info.name, b->n_slots);
    st = run_on(l, q, s, sizes, err);
    if (st != TD_OK) {
        td_run_slot_release(s);
        return td_prefix(err, st, "model %s", r->info.name);
    }
    *out = s;
    return TD_OK;
}

/* ---- runs that take long ---- */
static void tell_slow(td_run_slot_t *s, uint64_t now, uint64_t ns, td_slow_run_fn *f, void *ctx) {
    char where[1024];
    uint64_t since = atomic_load_explicit(&s->since_ns, memory_order_relaxed);
    if (!since || now < since || now - since < ns || !td_binding_where(s->binding, where, sizeof where)) return;
    /* Another run may have begun meanwhile: that one has not been told. */
    if (atomic_compare_exchange_strong(&s->since_ns, &since, 0))
        f(ctx, s->resident->info.name, s->resident->info.version, now - since, where);
}

void td_store_slow_runs(td_store_t *s, uint64_t ns, td_slow_run_fn *f, void *ctx) {
    uint64_t now = td_now_ns(td_clock_system());
    pthread_mutex_lock(&s->lock);
    for (td_resident_t *r = s->live; r; r = r->next_live)
        for (uint32_t k = 0; k < r->n_buckets; k++)
            for (uint32_t i = 0; i < r->buckets[k].n_slots; i++) tell_slow(&r->buckets[k].slots[i], now, ns, f, ctx);
    pthread_mutex_unlock(&s->lock);
}

td_run_tensor_t td_run_slot_output(const td_run_slot_t *s, uint32_t i, uint64_t *out_bytes) {
    *out_bytes = s->answer_bytes[i];
    return s->answers[i];
}
