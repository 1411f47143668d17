/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/constants.h"

#include <pthread.h>
#include <string.h>

typedef struct entry {
    const td_payload_t *payload; /* a reference */
    void *memory;                /* on the device, payload->bytes.size bytes */
    uint64_t refs;
    struct entry *next;
} entry_t;

enum { BUCKETS = 1024 }; /* models have some hundred constants each; chains of a few are no matter */

struct td_constants {
    td_device_t *dev;
    td_payload_table_t *payloads;
    const td_alloc_t *alloc;
    const td_charge_t *charge;
    bool in_place; /* the payload is the constant; then no entries */
    pthread_mutex_t lock;
    uint64_t count, bytes;
    entry_t *buckets[]; /* BUCKETS of them, unless in_place */
};

static size_t table_bytes(bool in_place) {
    return sizeof(td_constants_t) + (in_place ? 0 : BUCKETS * sizeof(entry_t *));
}

td_status_t td_constants_create(td_device_t *dev, td_payload_table_t *payloads, const td_alloc_t *alloc,
                                const td_charge_t *charge, td_constants_t **out, td_err_t *err) {
    td_constants_t *c = alloc->get(alloc->ctx, table_bytes(dev->host_memory), 16);
    if (!c) return td_fail(err, TD_NOMEM, "no memory for the table of constants");
    memset(c, 0, table_bytes(dev->host_memory));
    *c = (td_constants_t){.dev = dev, .payloads = payloads, .alloc = alloc, .charge = charge,
                          .in_place = dev->host_memory};
    pthread_mutex_init(&c->lock, NULL);
    *out = c;
    return TD_OK;
}

static entry_t **find(td_constants_t *c, const td_payload_t *p) {
    entry_t **e = &c->buckets[p->hash.lo % BUCKETS];
    while (*e && (*e)->payload != p) e = &(*e)->next;
    return e;
}

static void drop(td_constants_t *c, entry_t **at) {
    entry_t *e = *at;
    *at = e->next;
    td_device_give(c->dev, c->charge, e->memory, e->payload->bytes.size);
    c->count--, c->bytes -= e->payload->bytes.size;
    td_payload_release(c->payloads, e->payload);
    c->alloc->put(c->alloc->ctx, e, sizeof *e);
}

void td_constants_destroy(td_constants_t *c) {
    if (!c) return;
    for (uint32_t i = 0; i < BUCKETS && !c->in_place; i++)
        while (c->buckets[i]) drop(c, &c->buckets[i]);
    pthread_mutex_destroy(&c->lock);
    c->alloc->put(c->alloc->ctx, c, table_bytes(c->in_place));
}

/* A new copy: memory now, the bytes when the stream gets there. */
static td_status_t add(td_constants_t *c, entry_t **at, const td_payload_t *p, td_stream_t **q, td_err_t *err) {
    td_status_t st = *q ? TD_OK : c->dev->ops->stream_create(c->dev, TD_STREAM_MAIN, q, err);
    if (st) return st;
    entry_t *e = c->alloc->get(c->alloc->ctx, sizeof *e, 16);
    if (!e) return td_fail(err, TD_NOMEM, "no memory for a constant");
    *e = (entry_t){.next = *at};
    if ((st = td_device_take(c->dev, c->charge, p->bytes.size, "constants", &e->memory, err))) {
        c->alloc->put(c->alloc->ctx, e, sizeof *e);
        return st;
    }
    e->payload = td_payload_retain(c->payloads, p);
    c->count++, c->bytes += p->bytes.size;
    *at = e;
    return p->bytes.size ? c->dev->ops->upload(*q, e->memory, p->bytes.data, p->bytes.size, err) : TD_OK;
}

static void put_locked(td_constants_t *c, const td_payload_t *const *payloads, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        entry_t **e = find(c, payloads[i]);
        if (*e && --(*e)->refs == 0) drop(c, e);
    }
}

/* Others see an entry only when its bytes are there: the lock is held until the stream is empty. */
static td_status_t get_locked(td_constants_t *c, const td_payload_t *const *payloads, uint32_t n, void **out_memory,
                              td_err_t *err) {
    td_stream_t *q = NULL;
    td_status_t st = TD_OK;
    uint32_t held = 0;
    for (; held < n && !st; held++) {
        entry_t **e = find(c, payloads[held]);
        if (!*e) st = add(c, e, payloads[held], &q, err);
        if (!*e) break;
        (*e)->refs++;
        out_memory[held] = (*e)->memory;
    }
    if (q) {
        td_status_t sync = c->dev->ops->stream_sync(q, st ? NULL : err);
        if (!st) st = sync;
        c->dev->ops->stream_destroy(q);
    }
    if (st) put_locked(c, payloads, held);
    return st;
}

td_status_t td_constants_get(td_constants_t *c, const td_payload_t *const *payloads, uint32_t n, void **out_memory,
                             td_err_t *err) {
    if (c->in_place) {
        for (uint32_t i = 0; i < n; i++)
            out_memory[i] = (void *)(uintptr_t)td_payload_retain(c->payloads, payloads[i])->bytes.data;
        return TD_OK;
    }
    pthread_mutex_lock(&c->lock);
    td_status_t st = get_locked(c, payloads, n, out_memory, err);
    pthread_mutex_unlock(&c->lock);
    return st;
}

void td_constants_put(td_constants_t *c, const td_payload_t *const *payloads, uint32_t n) {
    if (c->in_place) {
        for (uint32_t i = 0; i < n; i++) td_payload_release(c->payloads, payloads[i]);
        return;
    }
    pthread_mutex_lock(&c->lock);
    put_locked(c, payloads, n);
    pthread_mutex_unlock(&c->lock);
}

td_payload_table_t *td_constants_payloads(const td_constants_t *c) { return c->payloads; }

void td_constants_stats(td_constants_t *c, uint64_t *out_count, uint64_t *out_bytes) {
    pthread_mutex_lock(&c->lock);
    if (out_count) *out_count = c->count;
    if (out_bytes) *out_bytes = c->bytes;
    pthread_mutex_unlock(&c->lock);
}
