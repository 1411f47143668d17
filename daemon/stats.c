/* SPDX-License-Identifier: Apache-2.0 */
/* A hash table that only grows: an entry is put into its place by one compare-and-swap, and never moves. */
#include "daemon/stats.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/limits.h"

/* Twice the entries: probes stay short. */
#define SLOTS (2 * TD_LIMIT_STATS_ENTRIES)

const uint64_t td_stats_bounds_ns[TD_STATS_BUCKETS - 1] = {
    10000, 25000, 50000, 100000, 250000, 500000, 1000000, 2500000, 5000000,
    10000000, 25000000, 50000000, 100000000, 250000000, 1000000000, 10000000000};

struct td_stats {
    _Atomic(uint32_t) n;
    td_stats_entry_t none; /* of requests that came to no model */
    _Atomic(td_stats_entry_t *) slots[SLOTS];
};

td_status_t td_stats_create(td_stats_t **out, td_err_t *err) {
    *out = calloc(1, sizeof **out);
    if (!*out) return td_fail(err, TD_NOMEM, "out of memory");
    (*out)->none.model = (*out)->none.version = "";
    return TD_OK;
}

void td_stats_destroy(td_stats_t *s) {
    for (uint32_t i = 0; s && i < SLOTS; i++) free(atomic_load(&s->slots[i]));
    free(s);
}

/* The entry with its names behind it. */
static td_stats_entry_t *make(const char *model, const char *version) {
    size_t m = strlen(model) + 1, v = strlen(version) + 1;
    td_stats_entry_t *e = calloc(1, sizeof *e + m + v);
    if (!e) return NULL;
    char *names = (char *)(e + 1);
    memcpy(names, model, m);
    memcpy(names + m, version, v);
    e->model = names;
    e->version = names + m;
    return e;
}

static bool is(const td_stats_entry_t *e, const char *model, const char *version) {
    return !strcmp(e->model, model) && !strcmp(e->version, version);
}

static td_stats_entry_t *find(td_stats_t *s, const char *model, const char *version) {
    uint64_t h = td_hash_bytes(model, strlen(model)).lo + 3 * td_hash_bytes(version, strlen(version)).lo;
    td_stats_entry_t *made = NULL, *e = NULL;
    for (uint32_t i = 0; i < SLOTS; i++) {
        _Atomic(td_stats_entry_t *) *slot = &s->slots[(h + i) % SLOTS];
        e = atomic_load_explicit(slot, memory_order_acquire);
        if (!e) {
            if (!made && atomic_load(&s->n) < TD_LIMIT_STATS_ENTRIES) made = make(model, version);
            if (!made) return &s->none;
            if (atomic_compare_exchange_strong(slot, &e, made)) {
                atomic_fetch_add(&s->n, 1);
                return made;
            }
        }
        if (is(e, model, version)) break;
        e = NULL;
    }
    free(made); /* another thread was faster */
    return e ? e : &s->none;
}

static void add(_Atomic(uint64_t) *at, uint64_t n) {
    atomic_fetch_add_explicit(at, n, memory_order_relaxed);
}

static void observe(td_stats_times_t *t, uint64_t ns) {
    uint32_t i = 0;
    while (i < TD_STATS_BUCKETS - 1 && ns > td_stats_bounds_ns[i]) i++;
    add(&t->buckets[i], 1);
    add(&t->sum_ns, ns);
}

void td_stats_infer(td_stats_t *s, const char *model, const char *version, int code, uint64_t queue_ns,
                    uint64_t run_ns) {
    td_stats_entry_t *e = model && *model ? find(s, model, version ? version : "") : &s->none;
    add(&e->requests[code >= 0 && code < TD_STATS_CODES ? code : 2], 1); /* 2: UNKNOWN */
    if (!run_ns) return;
    observe(&e->queue, queue_ns);
    observe(&e->run, run_ns);
}

td_stats_entry_t *td_stats_entry(td_stats_t *s, const char *model, const char *version) {
    return find(s, model, version);
}

const td_stats_entry_t *td_stats_next(const td_stats_t *s, uint32_t *at) {
    if (!*at) return ++*at, &s->none;
    while (*at <= SLOTS) {
        const td_stats_entry_t *e = atomic_load_explicit(&s->slots[(*at)++ - 1], memory_order_acquire);
        if (e) return e;
    }
    return NULL;
}
