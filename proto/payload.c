/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/payload.h"

#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "proto/payload_in.h"

typedef td_payload_entry_t entry_t;
enum { BUCKETS_MIN = 64, DATA_ALIGN = TD_PAYLOAD_ALIGN, PAGE = 4096, HUGE_BYTES = 4 << 20, COLLISIONS = 8 };
enum { BY_CONTENT, BY_HEAD };

td_status_t td_payload_table_create(const td_alloc_t *alloc, td_payload_table_t **out_table, td_err_t *err) {
    td_payload_table_t *t = alloc->get(alloc->ctx, sizeof *t, 16);
    size_t bytes = 2 * BUCKETS_MIN * sizeof(entry_t *);
    entry_t **b = alloc->get(alloc->ctx, bytes, 16);
    if (!t || !b) {
        alloc->put(alloc->ctx, t, sizeof *t);
        alloc->put(alloc->ctx, b, bytes);
        return td_fail(err, TD_NOMEM, "out of memory for the payload table");
    }
    memset(b, 0, bytes);
    *t = (td_payload_table_t){.alloc = alloc, .buckets = {b, b + BUCKETS_MIN}, .n_buckets = BUCKETS_MIN};
    pthread_mutex_init(&t->lock, NULL);
    *out_table = t;
    return TD_OK;
}

void td_payload_table_set_charge(td_payload_table_t *t, const td_charge_t *charge) {
    t->charge = charge;
}

uint64_t td_payload_cost(uint64_t size) {
    if (size > UINT64_MAX - PAGE) return UINT64_MAX;
    if (size >= TD_PAYLOAD_MAP_BYTES) return (size + PAGE - 1) & ~(uint64_t)(PAGE - 1);
    return td_align_up((size_t)size, DATA_ALIGN) + sizeof(entry_t);
}

td_status_t td_payload_memory(td_payload_table_t *t, const td_charge_t *charge, uint64_t size, uint8_t **out,
                              uint64_t *mapped, uint64_t *charged, td_err_t *err) {
    uint64_t cost = td_payload_cost(size);
    if (!td_charge_take(charge, cost))
        return td_fail(err, TD_LIMIT, "the budget has no %" PRIu64 " bytes more for a payload", cost);
    void *p = NULL;
    *mapped = size >= TD_PAYLOAD_MAP_BYTES ? cost : 0;
    if (*mapped) {
        p = mmap(NULL, (size_t)cost, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED) p = NULL;
        else if (cost >= HUGE_BYTES) (void)madvise(p, (size_t)cost, MADV_HUGEPAGE);
    } else {
        p = t->alloc->get(t->alloc->ctx, size ? (size_t)size : 1, DATA_ALIGN);
    }
    if (!p) {
        td_charge_give(charge, cost);
        return td_fail(err, TD_NOMEM, "out of memory for a payload of %" PRIu64 " bytes", size);
    }
    *out = p;
    *charged = cost;
    return TD_OK;
}

void td_payload_memory_free(td_payload_table_t *t, const td_charge_t *charge, uint8_t *data, uint64_t size,
                            uint64_t mapped, uint64_t charged) {
    if (mapped) munmap(data, (size_t)mapped);
    else t->alloc->put(t->alloc->ctx, data, size ? (size_t)size : 1);
    td_charge_give(charge, charged);
}

static void free_entry(td_payload_table_t *t, entry_t *e) {
    uint8_t *data = (uint8_t *)(uintptr_t)e->pub.bytes.data;
    if (e->release) {
        e->release(e->ctx);
        td_charge_give(e->charge, e->charged);
    } else {
        td_payload_memory_free(t, e->charge, data, e->pub.bytes.size, e->mapped, e->charged);
    }
    t->alloc->put(t->alloc->ctx, e, sizeof *e);
}

void td_payload_table_destroy(td_payload_table_t *t) {
    if (!t) return;
    for (size_t i = 0; i < t->n_buckets; i++)
        for (entry_t *e = t->buckets[BY_CONTENT][i], *next; e; e = next) {
            next = e->next[BY_CONTENT];
            free_entry(t, e);
        }
    t->alloc->put(t->alloc->ctx, t->buckets[0], 2 * t->n_buckets * sizeof(entry_t *));
    pthread_mutex_destroy(&t->lock);
    t->alloc->put(t->alloc->ctx, t, sizeof *t);
}

static td_span_t head_of(td_span_t bytes) {
    if (bytes.size > TD_PAYLOAD_HEAD_BYTES) bytes.size = TD_PAYLOAD_HEAD_BYTES;
    return bytes;
}

uint64_t td_payload_head_hash(td_span_t bytes) {
    td_span_t head = head_of(bytes);
    return td_hash_bytes(head.data, head.size).lo;
}

static uint64_t key(const entry_t *e, int chain) {
    return chain == BY_HEAD ? e->head : e->pub.hash.lo;
}
static entry_t **slot(const td_payload_table_t *t, int chain, uint64_t k) {
    return &t->buckets[chain][k & (t->n_buckets - 1)];
}

static void link_in(td_payload_table_t *t, entry_t *e, int chain) {
    entry_t **at = slot(t, chain, key(e, chain));
    e->next[chain] = *at;
    if (*at) (*at)->at[chain] = &e->next[chain];
    e->at[chain] = at;
    *at = e;
}
static void link_out(entry_t *e, int chain) {
    *e->at[chain] = e->next[chain];
    if (e->next[chain]) e->next[chain]->at[chain] = e->at[chain];
}

/* Doubles the buckets; when memory is short the chains just get longer. */
static void grow(td_payload_table_t *t) {
    size_t n = t->n_buckets * 2, n_old = t->n_buckets;
    entry_t **b = t->alloc->get(t->alloc->ctx, 2 * n * sizeof *b, 16), **old = t->buckets[0];
    if (!b) return;
    memset(b, 0, 2 * n * sizeof *b);
    t->buckets[0] = b;
    t->buckets[1] = b + n;
    t->n_buckets = n;
    for (int chain = 0; chain < 2; chain++)
        for (size_t i = 0; i < n_old; i++)
            for (entry_t *e = old[chain ? n_old + i : i], *next; e; e = next) {
                next = e->next[chain];
                link_in(t, e, chain);
            }
    t->alloc->put(t->alloc->ctx, old, 2 * n_old * sizeof *old);
}

static void hold(td_payload_table_t *t, entry_t *e) {
    e->refs++;
    t->refs++;
}

static bool begins_with(const entry_t *e, uint64_t size, td_span_t head) {
    td_span_t own = head_of(e->pub.bytes);
    if (size != UINT64_MAX && e->pub.bytes.size != size) return false;
    return own.size >= head.size && (head.size == 0 || memcmp(own.data, head.data, head.size) == 0);
}

static bool lies_at(const entry_t *e, uint64_t align) {
    return align ? (uintptr_t)e->pub.bytes.data % align == 0 : !e->release;
}

static entry_t *next_like(td_payload_table_t *t, entry_t *after, uint64_t size, td_span_t head, uint64_t align) {
    uint64_t h = td_payload_head_hash(head);
    entry_t *e = after ? after->next[BY_HEAD] : *slot(t, BY_HEAD, h);
    while (e && !(e->head == h && lies_at(e, align) && begins_with(e, size, head))) e = e->next[BY_HEAD];
    return e;
}

const td_payload_t *td_payload_candidate(td_payload_table_t *t, const td_payload_t *after, uint64_t size,
                                         td_span_t head, uint64_t align) {
    pthread_mutex_lock(&t->lock);
    entry_t *e = next_like(t, (entry_t *)(uintptr_t)after, size, head, align);
    if (e) hold(t, e);
    pthread_mutex_unlock(&t->lock);
    td_payload_release(t, after);
    return e ? &e->pub : NULL;
}

bool td_payload_seems_held(td_payload_table_t *t, uint64_t size, td_span_t head) {
    pthread_mutex_lock(&t->lock);
    bool held = next_like(t, NULL, size, head_of(head), 1) != NULL;
    pthread_mutex_unlock(&t->lock);
    return held;
}

static bool one_of(const entry_t *e, entry_t *const *v, unsigned n) {
    for (unsigned i = 0; i < n; i++)
        if (v[i] == e) return true;
    return false;
}

/* An entry with these bytes; or NULL, and fresh is in the table. Bytes are compared without the lock; whoever has
 * the same hash and other bytes is remembered, and beyond a few of those nothing is shared any more. */
entry_t *td_payload_find_or_add(td_payload_table_t *t, entry_t *fresh) {
    entry_t *others[COLLISIONS], *e = NULL;
    unsigned n = 0;
    td_span_t bytes = fresh->pub.bytes;
    for (;;) {
        pthread_mutex_lock(&t->lock);
        e = n < COLLISIONS ? *slot(t, BY_CONTENT, fresh->pub.hash.lo) : NULL;
        while (e && !(td_hash_equal(e->pub.hash, fresh->pub.hash) && e->pub.bytes.size == bytes.size &&
                      lies_at(e, fresh->align) && !one_of(e, others, n)))
            e = e->next[BY_CONTENT];
        if (e) {
            hold(t, e);
        } else {
            for (int chain = 0; chain < 2; chain++) link_in(t, fresh, chain);
            t->count++, t->refs++, t->bytes += bytes.size;
            if (t->count > t->n_buckets) grow(t);
        }
        pthread_mutex_unlock(&t->lock);
        if (!e || bytes.size == 0 || memcmp(e->pub.bytes.data, bytes.data, bytes.size) == 0) break;
        others[n++] = e;
    }
    while (n) td_payload_release(t, &others[--n]->pub);
    return e;
}

td_status_t td_payload_settle(td_payload_table_t *t, td_span_t bytes, td_hash_t hash, uint64_t mapped, uint64_t charged,
                              const td_charge_t *charge, bool *taken, const td_payload_t **out, td_err_t *err) {
    entry_t *e = t->alloc->get(t->alloc->ctx, sizeof *e, 16);
    *taken = false;
    if (!e) return td_fail(err, TD_NOMEM, "out of memory for a payload of %zu bytes", bytes.size);
    *e = (entry_t){.pub = {bytes, hash}, .head = td_payload_head_hash(bytes), .refs = 1, .mapped = mapped,
                   .charged = charged, .charge = t->charge ? t->charge : charge};
    entry_t *found = td_payload_find_or_add(t, e);
    *taken = !found;
    if (found) t->alloc->put(t->alloc->ctx, e, sizeof *e);
    *out = found ? &found->pub : &e->pub;
    return TD_OK;
}

const td_payload_t *td_payload_retain(td_payload_table_t *t, const td_payload_t *p) {
    pthread_mutex_lock(&t->lock);
    hold(t, (entry_t *)(uintptr_t)p);
    pthread_mutex_unlock(&t->lock);
    return p;
}

void td_payload_release(td_payload_table_t *t, const td_payload_t *p) {
    if (!p) return;
    entry_t *e = (entry_t *)(uintptr_t)p;
    pthread_mutex_lock(&t->lock);
    t->refs--;
    bool dead = --e->refs == 0;
    if (dead) {
        for (int chain = 0; chain < 2; chain++) link_out(e, chain);
        t->count--, t->bytes -= p->bytes.size;
    }
    pthread_mutex_unlock(&t->lock);
    if (dead) free_entry(t, e);
}

void td_payload_table_stats(td_payload_table_t *t, uint64_t *out_count, uint64_t *out_bytes, uint64_t *out_refs) {
    pthread_mutex_lock(&t->lock);
    if (out_count) *out_count = t->count;
    if (out_bytes) *out_bytes = t->bytes;
    if (out_refs) *out_refs = t->refs;
    pthread_mutex_unlock(&t->lock);
}
