/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/payload.h"

#include <pthread.h>
#include <string.h>

#include "base/checked.h"

typedef struct entry {
    td_payload_t pub; /* first: a payload pointer is an entry pointer */
    struct entry *next;
    uint64_t refs;
    size_t block_bytes;
} entry_t;

struct td_payload_table {
    const td_alloc_t *alloc;
    pthread_mutex_t lock;
    entry_t **buckets;
    size_t n_buckets; /* a power of two */
    uint64_t count, bytes, refs;
};

enum { BUCKETS_MIN = 64, DATA_ALIGN = 64 };

td_status_t td_payload_table_create(const td_alloc_t *alloc, td_payload_table_t **out_table, td_err_t *err) {
    td_payload_table_t *t = alloc->get(alloc->ctx, sizeof *t, 16);
    entry_t **b = alloc->get(alloc->ctx, BUCKETS_MIN * sizeof *b, 16);
    if (!t || !b) {
        alloc->put(alloc->ctx, t, sizeof *t);
        alloc->put(alloc->ctx, b, BUCKETS_MIN * sizeof *b);
        return td_fail(err, TD_NOMEM, "out of memory for the payload table");
    }
    memset(b, 0, BUCKETS_MIN * sizeof *b);
    *t = (td_payload_table_t){.alloc = alloc, .buckets = b, .n_buckets = BUCKETS_MIN};
    pthread_mutex_init(&t->lock, NULL);
    *out_table = t;
    return TD_OK;
}

static void free_entry(td_payload_table_t *t, entry_t *e) {
    t->alloc->put(t->alloc->ctx, e, e->block_bytes);
}

void td_payload_table_destroy(td_payload_table_t *t) {
    if (!t) return;
    for (size_t i = 0; i < t->n_buckets; i++)
        for (entry_t *e = t->buckets[i], *next; e; e = next) {
            next = e->next;
            free_entry(t, e);
        }
    t->alloc->put(t->alloc->ctx, t->buckets, t->n_buckets * sizeof *t->buckets);
    pthread_mutex_destroy(&t->lock);
    t->alloc->put(t->alloc->ctx, t, sizeof *t);
}

static entry_t **slot(td_payload_table_t *t, td_hash_t h) {
    return &t->buckets[h.lo & (t->n_buckets - 1)];
}

/* Doubles the buckets; when memory is short the chains just get longer. */
static void grow(td_payload_table_t *t) {
    size_t n = t->n_buckets * 2;
    entry_t **b = t->alloc->get(t->alloc->ctx, n * sizeof *b, 16), **old = t->buckets;
    if (!b) return;
    memset(b, 0, n * sizeof *b);
    size_t n_old = t->n_buckets;
    t->buckets = b;
    t->n_buckets = n;
    for (size_t i = 0; i < n_old; i++)
        for (entry_t *e = old[i], *next; e; e = next) {
            next = e->next;
            entry_t **s = slot(t, e->pub.hash);
            e->next = *s;
            *s = e;
        }
    t->alloc->put(t->alloc->ctx, old, n_old * sizeof *old);
}

static entry_t *make_entry(td_payload_table_t *t, td_span_t bytes, td_hash_t hash) {
    size_t head = td_align_up(sizeof(entry_t), DATA_ALIGN), total;
    if (!td_add_size(head, bytes.size, &total)) return NULL;
    entry_t *e = t->alloc->get(t->alloc->ctx, total, DATA_ALIGN);
    if (!e) return NULL;
    uint8_t *data = (uint8_t *)e + head;
    if (bytes.size) memcpy(data, bytes.data, bytes.size);
    *e = (entry_t){.pub = {{data, bytes.size}, hash}, .refs = 1, .block_bytes = total};
    return e;
}

td_status_t td_payload_intern(td_payload_table_t *t, td_span_t bytes, const td_payload_t **out_payload, td_err_t *err) {
    td_hash_t hash = td_hash_bytes(bytes.data, bytes.size);
    pthread_mutex_lock(&t->lock);
    entry_t *e = *slot(t, hash);
    /* The bytes decide, not the hash: a crafted collision must not hand out another artifact's bytes. */
    while (e && !(td_hash_equal(e->pub.hash, hash) && e->pub.bytes.size == bytes.size &&
                  (bytes.size == 0 || memcmp(e->pub.bytes.data, bytes.data, bytes.size) == 0)))
        e = e->next;
    if (e) {
        e->refs++;
        t->refs++;
    } else if ((e = make_entry(t, bytes, hash))) {
        entry_t **s = slot(t, hash);
        e->next = *s;
        *s = e;
        t->count++, t->refs++, t->bytes += bytes.size;
        if (t->count > t->n_buckets) grow(t);
    }
    pthread_mutex_unlock(&t->lock);
    if (!e) return td_fail(err, TD_NOMEM, "out of memory for a payload of %zu bytes", bytes.size);
    *out_payload = &e->pub;
    return TD_OK;
}

const td_payload_t *td_payload_retain(td_payload_table_t *t, const td_payload_t *p) {
    pthread_mutex_lock(&t->lock);
    ((entry_t *)(uintptr_t)p)->refs++;
    t->refs++;
    pthread_mutex_unlock(&t->lock);
    return p;
}

void td_payload_release(td_payload_table_t *t, const td_payload_t *p) {
    if (!p) return;
    entry_t *dead = NULL;
    pthread_mutex_lock(&t->lock);
    entry_t *e = (entry_t *)(uintptr_t)p;
    t->refs--;
    if (--e->refs == 0) {
        entry_t **s = slot(t, p->hash);
        while (*s != e) s = &(*s)->next;
        *s = e->next;
        t->count--, t->bytes -= p->bytes.size;
        dead = e;
    }
    pthread_mutex_unlock(&t->lock);
    if (dead) free_entry(t, dead);
}

void td_payload_table_stats(td_payload_table_t *t, uint64_t *out_count, uint64_t *out_bytes, uint64_t *out_refs) {
    pthread_mutex_lock(&t->lock);
    if (out_count) *out_count = t->count;
    if (out_bytes) *out_bytes = t->bytes;
    if (out_refs) *out_refs = t->refs;
    pthread_mutex_unlock(&t->lock);
}
