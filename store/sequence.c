/* SPDX-License-Identifier: Apache-2.0 */
/* Sequences: state that stays on the device between the requests of one client's conversation.
 *
 * A sequence belongs to the resident that it began with, which stays while it lasts. One request of it runs at a
 * time; others wait in the order in which they came. It ends with a request that says so, after a run that
 * failed, or when nothing has come for the model's idle time. */
#include <string.h>

#include "store/store_in.h"

static td_sequence_t *find(td_named_t *m, const td_want_t *w) {
    td_sequence_t *q = m->sequences;
    while (q && !(q->hash == w->sequence_hash && !q->ends && !strcmp(q->name, w->sequence_name))) q = q->next;
    return q;
}

static void free_memory(td_sequence_t *q) {
    td_resident_t *r = q->resident;
    for (uint32_t i = 0; q->memory && i < r->info.n_states; i++) {
        if (!q->memory[i]) continue;
        r->store->opts.device->ops->mem_put(r->store->opts.device, q->memory[i], r->state_bytes[i]);
        td_charge_give(td_account_charge(r->state), r->state_bytes[i]);
        q->memory[i] = NULL;
    }
}

static void unlink_sequence(td_sequence_t *q) {
    td_sequence_t **p = &q->model->sequences;
    while (*p && *p != q) p = &(*p)->next;
    if (*p) *p = q->next;
}

/* Nobody has it and nobody waits for it. */
static void end(td_store_t *s, td_sequence_t *q) {
    unlink_sequence(q);
    free_memory(q);
    q->resident->sequences--;
    td_resident_unref(q->resident);
    const td_alloc_t *a = s->opts.alloc;
    if (q->memory) a->put(a->ctx, q->memory, q->n_memory * sizeof *q->memory);
    a->put(a->ctx, q, sizeof *q);
}

static void hand_over(td_sequence_t *q, td_want_t *w) {
    q->busy = true;
    q->ran = false;
    w->waits_for = NULL;
    w->lease.sequence = q;
    if (w->sequence_end) q->ends = true;
}

static void wait_for(td_sequence_t *q, td_want_t *w) {
    td_want_t **p = &q->wants;
    while (*p) p = &(*p)->next;
    *p = w;
    w->next = NULL;
    w->waits_for = q;
}

/* A request that goes on with a sequence finds its resident here, whatever versions there are by now. */
td_status_t td_sequence_want(td_store_t *s, td_named_t *m, td_want_t *w, bool *found, bool *out_waiting,
                             td_err_t *err) {
    td_sequence_t *q = find(m, w);
    if (w->sequence_start) { /* a new one in its place */
        if (q && (q->busy || q->wants))
            return td_fail(err, TD_USAGE, "model %s: sequence %s is executing; it cannot start again", m->name,
                           q->name);
        if (q) end(s, q);
        return TD_OK;
    }
    if (!q)
        return td_fail(err, TD_USAGE, "model %s: sequence %s has not been started, or has ended; send sequence_start",
                       m->name,
                       w->sequence_name);
    *found = true;
    td_want_lease(s, w, q->resident);
    if (!q->busy) hand_over(q, w);
    else wait_for(q, w), *out_waiting = true;
    return TD_OK;
}

static td_status_t create(td_store_t *s, td_want_t *w, td_sequence_t **out, td_err_t *err) {
    const td_alloc_t *a = s->opts.alloc;
    td_resident_t *r = w->lease.resident;
    uint32_t n = r->info.n_states;
    if (r->sequences >= r->sequence_max)
        return td_fail(err, TD_LIMIT, "model %s has %u sequences, as many as its `sequence: max` allows", r->info.name,
                       r->sequences);
    td_sequence_t *q = a->get(a->ctx, sizeof *q, 16);
    void **memory = a->get(a->ctx, n * sizeof *memory, 16);
    if (!q || !memory) {
        if (q) a->put(a->ctx, q, sizeof *q);
        if (memory) a->put(a->ctx, memory, n * sizeof *memory);
        return td_fail(err, TD_NOMEM, "out of memory");
    }
    memset(memory, 0, n * sizeof *memory);
    *q = (td_sequence_t){.resident = r, .model = r->version->model, .hash = w->sequence_hash, .memory = memory,
                         .n_memory = n,
                         .fresh = true, .used_ns = td_store_now(s)};
    memcpy(q->name, w->sequence_name, sizeof q->name);
    q->next = q->model->sequences;
    q->model->sequences = q;
    r->refs++;
    r->sequences++;
    td_keeper_wake(s); /* for its idle time */
    *out = q;
    return TD_OK;
}

/* On failure the lease is given back. */
td_status_t td_sequence_join(td_store_t *s, td_want_t *w, bool *out_waiting, td_err_t *err) {
    td_resident_t *r = w->lease.resident;
    td_named_t *m = r->version->model;
    td_sequence_t *q = find(m, w);
    td_status_t st = TD_OK;
    if (!r->info.n_states)
        st = td_fail(err, TD_USAGE, "model %s keeps no state (its model.yaml has no `state`), so it has no sequences",
                     m->name);
    else if (q) st = td_fail(err, TD_USAGE, "model %s: sequence %s has been started twice", m->name, q->name);
    else st = create(s, w, &q, err);
    if (st != TD_OK) {
        r->leases--;
        td_resident_unref(r);
        w->lease = (td_lease_t){0};
        return st;
    }
    hand_over(q, w);
    *out_waiting = false;
    return TD_OK;
}

/* The next one that waits and may run now. */
td_want_t *td_sequence_release(td_store_t *s, td_sequence_t *q) {
    q->used_ns = td_store_now(s);
    q->busy = false;
    if (!q->ran) q->ends = false; /* a request that was refused on its way has ended nothing */
    q->ends |= q->spoiled;
    td_want_t *w = q->wants;
    if (w && !q->spoiled) {
        q->ends = false; /* more was sent than the request that ended it knew of */
        q->wants = w->next;
        hand_over(q, w);
        return w;
    }
    if (!w && q->ends) end(s, q);
    if (w) { /* spoiled: they run into the same error, one after the other */
        q->wants = w->next;
        hand_over(q, w);
        q->ends = true;
    }
    return w;
}

void td_sequence_expire(td_store_t *s, uint64_t now, uint64_t *next) {
    for (uint32_t i = 0; i < s->n_models; i++)
        for (td_sequence_t *q = s->models[i]->sequences, *after; q; q = after) {
            after = q->next;
            uint64_t idle = q->resident->sequence_idle_ns;
            if (!idle) continue;
            bool busy = q->busy || q->wants;
            uint64_t used = busy ? now : q->used_ns;
            if (!busy && now - used >= idle) end(s, q);
            else if (used + idle < *next) *next = used + idle;
        }
}

void td_sequence_drop_all(td_store_t *s) {
    for (uint32_t i = 0; i < s->n_models; i++)
        while (s->models[i]->sequences) end(s, s->models[i]->sequences);
}

td_status_t td_sequence_prepare(td_sequence_t *q, td_binding_t *b, const td_run_tensor_t *initial, td_err_t *err) {
    td_resident_t *r = q->resident;
    td_device_t *dev = r->store->opts.device;
    if (q->spoiled) return td_fail(err, TD_USAGE, "sequence %s has ended: a run of it failed; start it again", q->name);
    q->ran = true;
    if (!q->fresh) {
        if (initial) return td_fail(err, TD_USAGE, "initial state is possible at a sequence's start only");
        return TD_OK;
    }
    td_status_t st = TD_OK;
    for (uint32_t i = 0; i < r->info.n_states && st == TD_OK; i++) {
        if (q->memory[i]) continue;
        if (!td_charge_take(td_account_charge(r->state), r->state_bytes[i]))
            return td_fail(err, TD_LIMIT, "the budget has no %llu bytes for the state of another sequence of model %s",
                           (unsigned long long)r->state_bytes[i], r->info.name);
        st = dev->ops->mem_get(dev, r->state_bytes[i], &q->memory[i], err);
        if (st != TD_OK) {
            q->memory[i] = NULL;
            td_charge_give(td_account_charge(r->state), r->state_bytes[i]);
        }
    }
    for (uint32_t i = 0; i < r->info.n_states && st == TD_OK; i++)
        st = td_state_reset(b, r->state_inputs[i], q->memory[i], initial ? initial[i].data : NULL, err);
    q->fresh = st != TD_OK;
    return st;
}
