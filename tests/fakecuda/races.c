/* SPDX-License-Identifier: Apache-2.0 */
/* Who is ordered after whom, by vector clocks: a stream's clock says, for each stream, how many of its items are
 * certain to be done before the stream's next item starts. Events carry clocks, and so does the host: what it has
 * waited for is before all that it enqueues. Threads of the host count as one. A missing wait is thus found whether
 * or not the work did overlap. The lock is held. */
#include <stdlib.h>
#include <string.h>

#include "tests/fakecuda/stream.h"

struct fk_clock {
    uint32_t n;
    uint64_t v[]; /* by slot */
};
typedef struct fk_access {
    struct fk_access *next;
    uint64_t begin, end, seq;
    uint32_t slot;
    bool write;
    const char *who;
    unsigned arg;
} fk_access_t;

static struct slot {
    bool used;
    uint64_t count;
} *slots;
static uint32_t n_slots;

static void *must(void *p) {
    if (p) return p;
    fprintf(stderr, "fakecuda: out of memory\n");
    abort();
}
static uint64_t at(const fk_clock_t *c, uint32_t slot) { return c && slot < c->n ? c->v[slot] : 0; }

fk_clock_t *fk_clock_copy(const fk_clock_t *c) {
    fk_clock_t *d = NULL;
    fk_clock_join(&d, c);
    return d;
}
void fk_clock_free(fk_clock_t *c) { free(c); }

static fk_clock_t *grow(fk_clock_t *c, uint32_t n) {
    uint32_t old = c ? c->n : 0;
    if (n <= old) return c;
    c = must(realloc(c, sizeof *c + n * sizeof *c->v));
    memset(c->v + old, 0, (n - old) * sizeof *c->v);
    c->n = n;
    return c;
}
void fk_clock_join(fk_clock_t **into, const fk_clock_t *c) {
    if (!fk_config.races || !c || *into == c) return;
    *into = grow(*into, c->n);
    for (uint32_t i = 0; i < c->n; i++)
        if (c->v[i] > (*into)->v[i]) (*into)->v[i] = c->v[i];
}
void fk_clock_seen(fk_ctx_t *c, const fk_clock_t *clock) { fk_clock_join(&c->host, clock); }

static void take_slot(fk_stream_t *s) {
    uint32_t i = 0;
    while (i < n_slots && slots[i].used) i++;
    if (i == n_slots) {
        slots = must(realloc(slots, ++n_slots * sizeof *slots));
        slots[i].count = 0;
    }
    slots[i].used = true;
    s->slot = i + 1;
}
void fk_clock_tick(fk_stream_t *s) {
    if (!fk_config.races) return;
    if (!s->slot) take_slot(s);
    s->clock = grow(s->clock, s->slot);
    s->clock->v[s->slot - 1] = ++slots[s->slot - 1].count;
}
void fk_clock_leave(fk_stream_t *s) {
    if (s->slot) slots[s->slot - 1].used = false;
}

static void told(const fk_mem_t *m, const fk_access_t *a, const fk_access_t *b) {
    fk_fault(FK_RACE, 0, "%s (argument %u, %s) and %s (argument %u, %s) touch [%llu, %llu) and [%llu, %llu) of %s "
             "allocation %u, and nothing orders them", a->who, a->arg, a->write ? "written" : "read", b->who, b->arg,
             b->write ? "written" : "read", (unsigned long long)(a->begin - m->addr),
             (unsigned long long)(a->end - m->addr), (unsigned long long)(b->begin - m->addr),
             (unsigned long long)(b->end - m->addr), fk_mem_kind_name(m->kind), m->number);
}

void fk_access(fk_stream_t *s, const fk_use_t *use, const char *who) {
    fk_mem_t *m = use->mem;
    bool write = use->write;
    if (!fk_config.races || !use->bytes) return;
    if (!s->slot) take_slot(s);
    fk_access_t now = {.begin = use->addr, .end = use->addr + use->bytes, .seq = slots[s->slot - 1].count + 1,
                       .slot = s->slot - 1, .write = write, .who = who, .arg = use->arg};
    bool known = false;
    for (fk_access_t **p = &m->accesses, *a; (a = *p);) {
        bool before = a->slot == now.slot || at(s->clock, a->slot) >= a->seq;
        bool inside = a->begin >= now.begin && a->end <= now.end;
        if (!before && a->begin < now.end && now.begin < a->end && (a->write || write)) told(m, a, &now);
        bool same_item = a->slot == now.slot && a->seq == now.seq;
        known |= same_item && a->write >= write && a->begin <= now.begin && a->end >= now.end;
        /* what conflicts with it will conflict with this one, too */
        if (before && inside && (write || !a->write) && !same_item) {
            *p = a->next;
            free(a);
        } else {
            p = &a->next;
        }
    }
    if (known) return;
    fk_access_t *a = must(malloc(sizeof *a));
    *a = now;
    a->next = m->accesses;
    m->accesses = a;
}

void fk_accesses_free(fk_mem_t *m) {
    for (fk_access_t *a = m->accesses, *next; a; a = next) {
        next = a->next;
        free(a);
    }
    m->accesses = NULL;
}
bool fk_accesses_seen(const fk_mem_t *m) {
    for (const fk_access_t *a = m->accesses; a; a = a->next)
        if (at(m->ctx->host, a->slot) < a->seq) return false;
    return true;
}
