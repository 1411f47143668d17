/* SPDX-License-Identifier: Apache-2.0 */
/* Admission: a load's need is reserved before anything is taken, after idle models have made room if they must.
 *
 * A plan is a prefix of the models that may go, least recently used first. What two of them share is free only
 * when both are gone, and never while a model that stays has it. A plan that would not make enough room is not
 * begun. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "store/store_in.h"

typedef struct victim {
    td_version_t *version;
    td_resident_t *resident;
    uint64_t frees[TD_BUDGET_DOMAINS]; /* when it and all before it are gone */
} victim_t;
typedef struct holder {
    const void *what;
    uint64_t bytes;
    uint32_t rank, domain; /* rank: of the victim; UINT32_MAX: it stays */
} holder_t;
typedef struct plan {
    td_arena_t arena;
    victim_t *victims;
    uint32_t n, n_holders;
    holder_t *holders;
} plan_t;

/* Idle, and of lower or the same priority; a model never makes way for a new version of itself. */
static bool may_go(const td_version_t *v, const td_load_order_t *o) {
    const td_resident_t *r = v->resident;
    return r && r->refs == 1 && !td_version_pinned(v) && v->model->config.priority <= o->priority &&
           strcmp(v->model->name, o->model) != 0;
}

static int by_use(const void *pa, const void *pb) {
    const victim_t *a = pa, *b = pb;
    if (a->resident->used_ns != b->resident->used_ns) return a->resident->used_ns < b->resident->used_ns ? -1 : 1;
    return a->resident < b->resident ? -1 : a->resident > b->resident;
}

static int by_what(const void *pa, const void *pb) {
    const holder_t *a = pa, *b = pb;
    if (a->what != b->what) return (uintptr_t)a->what < (uintptr_t)b->what ? -1 : 1;
    return a->rank > b->rank ? -1 : a->rank < b->rank; /* the last to go first */
}

static uint32_t rank_of(const plan_t *p, const td_resident_t *r) {
    for (uint32_t i = 0; i < p->n; i++)
        if (p->victims[i].resident == r) return i;
    return UINT32_MAX;
}

static void add_holders(plan_t *p, const td_resident_t *r) {
    uint32_t rank = rank_of(p, r);
    for (uint32_t i = 0; i < r->n_held; i++)
        p->holders[p->n_holders++] = (holder_t){r->held[i].what, r->held[i].bytes, rank, r->held_domain};
}

/* Lists of all residents there are; lock held. */
static td_status_t collect(td_store_t *s, const td_load_order_t *o, plan_t *p, td_err_t *err) {
    size_t n = 0, held = 0;
    for (td_resident_t *r = s->live; r; r = r->next_live) held += r->n_held, n++;
    p->victims = TD_NEW_N(&p->arena, victim_t, n + 1);
    p->holders = TD_NEW_N(&p->arena, holder_t, held + 1);
    if (!p->victims || !p->holders) return td_arena_fail(&p->arena, err);
    for (uint32_t i = 0; i < s->n_models; i++)
        for (uint32_t k = 0; k < s->models[i]->n; k++)
            if (may_go(s->models[i]->versions[k], o))
                p->victims[p->n++] = (victim_t){.version = s->models[i]->versions[k],
                                                .resident = s->models[i]->versions[k]->resident};
    qsort(p->victims, p->n, sizeof *p->victims, by_use);
    for (td_resident_t *r = s->live; r; r = r->next_live) add_holders(p, r);
    qsort(p->holders, p->n_holders, sizeof *p->holders, by_what);
    return TD_OK;
}

static void sum_up(plan_t *p) {
    for (uint32_t i = 0; i < p->n; i++) {
        const td_resident_t *r = p->victims[i].resident;
        p->victims[i].frees[0] += td_account_bytes(r->programs);
        p->victims[i].frees[r->held_domain] += td_account_bytes(r->bindings);
    }
    for (uint32_t i = 0; i < p->n_holders; i++) {
        const holder_t *h = &p->holders[i];
        bool first = !i || p->holders[i - 1].what != h->what; /* the one that goes last */
        if (first && h->rank != UINT32_MAX) p->victims[h->rank].frees[h->domain] += h->bytes;
    }
    for (uint32_t i = 1; i < p->n; i++)
        for (uint32_t d = 0; d < TD_BUDGET_DOMAINS; d++) p->victims[i].frees[d] += p->victims[i - 1].frees[d];
}

static bool enough(const td_store_t *s, const uint64_t need[TD_BUDGET_DOMAINS], const uint64_t *frees) {
    for (uint32_t d = 0; d < td_budget_domains(s->budget); d++) {
        td_budget_totals_t t = td_budget_totals(s->budget, d);
        uint64_t taken = t.charged + t.reserved, room = t.limit > taken ? t.limit - taken : 0;
        if (need[d] > room && need[d] - room > frees[d]) return false;
    }
    return true;
}

/* Takes them out of the catalog; lock held. */
static void detach(td_store_t *s, const plan_t *p, uint32_t n, const td_load_order_t *o) {
    for (uint32_t i = 0; i < n; i++) {
        td_version_t *v = p->victims[i].version;
        v->resident->refs = 0;
        v->resident = NULL;
        v->evicted = true;
        v->dying++;
        v->evictions++;
        s->stats.evictions++;
        snprintf(v->reason, sizeof v->reason, "evicted to make room for %s/%s; the next request loads it again",
                 o->model, o->version);
        td_version_set_state(v);
    }
}

static void destroy(td_store_t *s, const plan_t *p, uint32_t n, const td_load_order_t *o) {
    for (uint32_t i = 0; i < n; i++) {
        td_version_t *v = p->victims[i].version;
        uint64_t bytes = p->victims[i].resident->info.bytes;
        td_resident_destroy(p->victims[i].resident);
        char text[300];
        snprintf(text, sizeof text, "to make room for %s/%s", o->model, o->version);
        td_store_event(s, TD_EVENT_EVICTED, v->model->name, v->name, text, bytes, 0);
        pthread_mutex_lock(&s->lock);
        v->dying--;
        td_version_set_state(v);
        pthread_mutex_unlock(&s->lock);
    }
}

/* One round: *out_gone models have gone. 0: no plan would do. */
static td_status_t evict(td_store_t *s, const td_load_order_t *o, const uint64_t need[TD_BUDGET_DOMAINS],
                         uint32_t *out_gone,
                         td_err_t *err) {
    plan_t p = {.n = 0};
    *out_gone = 0;
    td_arena_init(&p.arena, s->opts.alloc, 0);
    pthread_mutex_lock(&s->lock);
    td_status_t st = collect(s, o, &p, err);
    uint32_t n = 0;
    if (st == TD_OK) {
        sum_up(&p);
        while (n < p.n && !enough(s, need, p.victims[n].frees)) n++;
        n = n < p.n ? n + 1 : 0;
        detach(s, &p, n, o);
    }
    pthread_mutex_unlock(&s->lock);
    destroy(s, &p, n, o);
    *out_gone = n;
    td_arena_deinit(&p.arena);
    return st;
}

td_status_t td_admit(td_store_t *s, const td_load_order_t *o, const uint64_t need[TD_BUDGET_DOMAINS],
                     td_reservation_t *out,
                     td_err_t *err) {
    char what[300];
    snprintf(what, sizeof what, "%s/%s", o->model, o->version);
    pthread_mutex_lock(&s->admission);
    td_status_t st;
    bool asked = false;
    for (;;) { /* what others take or give meanwhile makes another round, and each round ends models */
        uint32_t gone = 0;
        st = td_budget_reserve(s->budget, need, what, out, err);
        if (st == TD_LIMIT && !asked) {
            asked = true;
            if (td_reference_give_way(s)) continue;
        }
        if (st != TD_LIMIT || !o->may_evict) break;
        td_err_t e = {0};
        if ((evict(s, o, need, &gone, &e)) != TD_OK || !gone) break;
    }
    pthread_mutex_unlock(&s->admission);
    return st == TD_LIMIT ? td_prefix(err, st, "over the budget") : st;
}
