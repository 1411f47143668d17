/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/constants.h"

#include <pthread.h>
#include <string.h>

#include "base/guard.h"
#include "proto/content.h"

typedef struct name {
    td_content_t content;
    uint64_t size, head;
} name_t;

typedef struct entry {
    name_t key;
    void *memory; /* on the device, key.size bytes */
    uint64_t refs;
    struct entry *next[2];
} entry_t;

/* Two chains: by the hash of all bytes, and by that of the first ones. */
enum { BY_CONTENT, BY_HEAD, CHAINS };
enum { BUCKETS = 512 }; /* models have some hundred constants and weights each; chains of some tens are no matter */

struct td_constants {
    td_device_t *dev;
    td_payload_table_t *payloads;
    const td_alloc_t *alloc;
    const td_charge_t *charge;
    bool in_place; /* the payload is the constant; then no entries */
    pthread_mutex_t lock;
    uint64_t count, bytes;
    entry_t *buckets[]; /* CHAINS * BUCKETS of them, unless in_place */
};

static size_t table_bytes(bool in_place) {
    return sizeof(td_constants_t) + (in_place ? 0 : CHAINS * BUCKETS * sizeof(entry_t *));
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

/* ---- entries; with the lock held ---- */

static entry_t **bucket(td_constants_t *c, const name_t *k, int chain) {
    return &c->buckets[chain * BUCKETS + (chain == BY_HEAD ? k->head : k->content.name[0]) % BUCKETS];
}

static entry_t *find(td_constants_t *c, const name_t *k) {
    entry_t *e = *bucket(c, k, BY_CONTENT);
    while (e && (e->key.size != k->size || !td_content_equal(&e->key.content, &k->content))) e = e->next[BY_CONTENT];
    return e;
}

static void drop(td_constants_t *c, entry_t *e) {
    for (int chain = 0; chain < CHAINS; chain++) {
        entry_t **at = bucket(c, &e->key, chain);
        while (*at != e) at = &(*at)->next[chain];
        *at = e->next[chain];
    }
    td_device_give(c->dev, c->charge, e->memory, e->key.size);
    c->count--, c->bytes -= e->key.size;
    c->alloc->put(c->alloc->ctx, e, sizeof *e);
}

void td_constants_destroy(td_constants_t *c) {
    if (!c) return;
    for (uint32_t i = 0; i < BUCKETS && !c->in_place; i++)
        while (c->buckets[i]) drop(c, c->buckets[i]);
    pthread_mutex_destroy(&c->lock);
    c->alloc->put(c->alloc->ctx, c, table_bytes(c->in_place));
}

/* A new copy: memory now, the bytes when the stream gets there. */
static td_status_t add(td_constants_t *c, const name_t *k, td_span_t bytes, const td_charge_t *charge, td_stream_t **q,
                       entry_t **out, td_err_t *err) {
    td_status_t st = *q ? TD_OK : c->dev->ops->stream_create(c->dev, TD_STREAM_MAIN, q, err);
    if (st) return st;
    entry_t *e = c->alloc->get(c->alloc->ctx, sizeof *e, 16);
    if (!e) return td_fail(err, TD_NOMEM, "no memory for a constant");
    *e = (entry_t){.key = *k};
    if ((st = td_device_take(c->dev, charge ? charge : c->charge, bytes.size, "constants", &e->memory, err))) {
        c->alloc->put(c->alloc->ctx, e, sizeof *e);
        return st;
    }
    for (int chain = 0; chain < CHAINS; chain++) {
        entry_t **at = bucket(c, k, chain);
        e->next[chain] = *at;
        *at = e;
    }
    c->count++, c->bytes += bytes.size;
    *out = e;
    return bytes.size ? c->dev->ops->upload(*q, e->memory, bytes.data, bytes.size, err) : TD_OK;
}

static void put_locked(td_constants_t *c, const td_constant_t *v, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        entry_t *e = (entry_t *)(uintptr_t)v[i].what;
        if (--e->refs == 0) drop(c, e);
    }
}

/* ---- getting ---- */

typedef struct request {
    const td_payload_t *const *payloads; /* or */
    const td_span_t *spans;
    uint32_t n;
    const td_charge_t *charge;
} request_t;

static td_span_t bytes_of(const request_t *r, uint32_t i) { return r->spans ? r->spans[i] : r->payloads[i]->bytes; }

/* What was hashed is what was uploaded, if the file is the same as ever. */
static td_status_t check_files(const request_t *r, td_err_t *err) {
    const td_guard_t *last = NULL;
    for (uint32_t i = 0; i < r->n; i++) {
        td_span_t b = bytes_of(r, i);
        const td_guard_t *g = b.size ? td_guard_find(b.data) : NULL;
        td_status_t st = g && g != last ? td_guard_check(g, err) : TD_OK;
        if (st) return st;
        last = g;
    }
    return TD_OK;
}

/* Others see an entry only when its bytes are there: the lock is held until the stream is empty. */
static td_status_t get_locked(td_constants_t *c, const request_t *r, const name_t *keys, td_constant_t *out,
                              td_err_t *err) {
    td_stream_t *q = NULL;
    td_status_t st = TD_OK;
    uint32_t held = 0;
    for (; held < r->n && !st; held++) {
        entry_t *e = find(c, &keys[held]);
        if (!e) st = add(c, &keys[held], bytes_of(r, held), r->charge, &q, &e, err);
        if (!e) break;
        e->refs++;
        out[held] = (td_constant_t){.memory = e->memory, .bytes = e->key.size, .what = e};
    }
    if (q) {
        td_status_t sync = c->dev->ops->stream_sync(q, st ? NULL : err);
        if (!st) st = sync;
        c->dev->ops->stream_destroy(q);
    }
    if (!st) st = check_files(r, err);
    if (st) put_locked(c, out, held);
    return st;
}

static td_status_t get(td_constants_t *c, const request_t *r, td_constant_t *out, td_err_t *err) {
    if (!r->n) return TD_OK;
    name_t *keys = c->alloc->get(c->alloc->ctx, r->n * sizeof *keys, 16);
    if (!keys) return td_fail(err, TD_NOMEM, "no memory for %u constants", r->n);
    td_status_t st = TD_OK;
    for (uint32_t i = 0; i < r->n && !st; i++) {
        td_span_t b = bytes_of(r, i);
        keys[i].size = b.size;
        keys[i].head = td_payload_head_hash(b);
        st = td_content_of(b, &keys[i].content, err);
    }
    if (!st) {
        pthread_mutex_lock(&c->lock);
        st = get_locked(c, r, keys, out, err);
        pthread_mutex_unlock(&c->lock);
    }
    c->alloc->put(c->alloc->ctx, keys, r->n * sizeof *keys);
    return st;
}

td_status_t td_constants_get(td_constants_t *c, const td_payload_t *const *payloads, uint32_t n,
                             const td_charge_t *charge, td_constant_t *out, td_err_t *err) {
    if (!c->in_place) return get(c, &(request_t){.payloads = payloads, .n = n, .charge = charge}, out, err);
    for (uint32_t i = 0; i < n; i++) {
        const td_payload_t *p = td_payload_retain(c->payloads, payloads[i]);
        out[i] = (td_constant_t){.memory = (void *)(uintptr_t)p->bytes.data, .bytes = td_payload_cost(p->bytes.size),
                                 .what = p};
    }
    return TD_OK;
}

td_status_t td_constants_get_bytes(td_constants_t *c, const td_span_t *bytes, uint32_t n, const td_charge_t *charge,
                                   td_constant_t *out, td_err_t *err) {
    if (c->in_place) return td_fail(err, TD_INTERNAL, "the device keeps no copies of constants");
    return get(c, &(request_t){.spans = bytes, .n = n, .charge = charge}, out, err);
}

void td_constants_put(td_constants_t *c, const td_constant_t *v, uint32_t n) {
    if (c->in_place) {
        for (uint32_t i = 0; i < n; i++) td_payload_release(c->payloads, v[i].what);
        return;
    }
    pthread_mutex_lock(&c->lock);
    put_locked(c, v, n);
    pthread_mutex_unlock(&c->lock);
}

bool td_constants_seem_held(td_constants_t *c, uint64_t size, uint64_t head) {
    if (c->in_place) return false;
    name_t k = {.size = size, .head = head};
    pthread_mutex_lock(&c->lock);
    const entry_t *e = *bucket(c, &k, BY_HEAD);
    while (e && (e->key.size != size || e->key.head != head)) e = e->next[BY_HEAD];
    pthread_mutex_unlock(&c->lock);
    return e != NULL;
}

td_payload_table_t *td_constants_payloads(const td_constants_t *c) { return c->payloads; }

void td_constants_stats(td_constants_t *c, uint64_t *out_count, uint64_t *out_bytes) {
    pthread_mutex_lock(&c->lock);
    if (out_count) *out_count = c->count;
    if (out_bytes) *out_bytes = c->bytes;
    pthread_mutex_unlock(&c->lock);
}
