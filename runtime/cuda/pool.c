/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory. The driver hands out whole pages (2 MiB) and its calls wait for the device, so small blocks are cut
 * from chunks: a bit per unit of 256 bytes, first fit. A block is given back with its size, so blocks need no records.
 * An empty chunk goes back to the driver, but for one, which spares the next small block a call. */
#include <string.h>

#include "runtime/cuda/cuda.h"

enum { UNIT = 256, CHUNK = 4 << 20, UNITS = CHUNK / UNIT, WORDS = UNITS / 64, LARGE = CHUNK / 4 };

typedef struct chunk {
    struct chunk *next;
    CUdeviceptr at;
    uint32_t used; /* units */
    uint64_t bits[WORDS];
} chunk_t;

struct td_cuda_pool {
    pthread_mutex_t lock;
    chunk_t *chunks;
    uint64_t used, reserved; /* bytes */
};

td_status_t td_cuda_pool_create(td_cuda_device_t *d, td_err_t *err) {
    td_cuda_pool_t *p = d->base.alloc->get(d->base.alloc->ctx, sizeof *p, 16);
    if (!p) return td_fail(err, TD_NOMEM, "no memory for the pool of device memory");
    *p = (td_cuda_pool_t){0};
    pthread_mutex_init(&p->lock, NULL);
    d->pool = p;
    return TD_OK;
}

void td_cuda_pool_destroy(td_cuda_device_t *d) {
    td_cuda_pool_t *p = d->pool;
    if (!p) return;
    for (chunk_t *c = p->chunks, *next; c; c = next) {
        next = c->next;
        d->cu.cuMemFree_v2(c->at);
        d->base.alloc->put(d->base.alloc->ctx, c, sizeof *c);
    }
    pthread_mutex_destroy(&p->lock);
    d->base.alloc->put(d->base.alloc->ctx, p, sizeof *p);
    d->pool = NULL;
}

static td_status_t take(td_cuda_device_t *d, uint64_t bytes, CUdeviceptr *out, td_err_t *err) {
    size_t free_bytes = 0, total = 0;
    CUresult r = d->cu.cuMemAlloc_v2(out, bytes);
    if (!r && !(*out % UNIT)) return TD_OK;
    if (!r) {
        d->cu.cuMemFree_v2(*out);
        return td_fail(err, TD_INTERNAL, "the driver gave memory at %#llx, which is not a multiple of %d",
                       (unsigned long long)*out, UNIT);
    }
    if (r != CUDA_ERROR_OUT_OF_MEMORY) return td_cuda_check(d, r, "cuMemAlloc_v2", "device memory", err);
    d->cu.cuMemGetInfo_v2(&free_bytes, &total);
    return td_fail(err, TD_NOMEM, "no %llu bytes of device memory: %s has %zu free of %zu", (unsigned long long)bytes,
                   d->name, free_bytes, total);
}

static bool bit(const chunk_t *c, uint32_t i) { return c->bits[i / 64] >> (i % 64) & 1; }
static void turn(chunk_t *c, uint32_t from, uint32_t n) {
    for (uint32_t i = from; i < from + n; i++) c->bits[i / 64] ^= 1ull << (i % 64);
}

/* The first n free units in a row; UNITS: there are none. */
static uint32_t find(const chunk_t *c, uint32_t n) {
    if (UNITS - c->used < n) return UNITS;
    for (uint32_t i = 0, run = 0; i < UNITS; i++) {
        if (!(i % 64) && c->bits[i / 64] == UINT64_MAX) {
            run = 0, i += 63;
            continue;
        }
        run = bit(c, i) ? 0 : run + 1;
        if (run == n) return i + 1 - n;
    }
    return UNITS;
}

static td_status_t grow(td_cuda_device_t *d, td_err_t *err) {
    chunk_t *c = d->base.alloc->get(d->base.alloc->ctx, sizeof *c, 16);
    if (!c) return td_fail(err, TD_NOMEM, "no memory for the pool of device memory");
    memset(c, 0, sizeof *c);
    td_status_t st = take(d, CHUNK, &c->at, err);
    if (st) {
        d->base.alloc->put(d->base.alloc->ctx, c, sizeof *c);
        return st;
    }
    c->next = d->pool->chunks;
    d->pool->chunks = c;
    d->pool->reserved += CHUNK;
    return TD_OK;
}

static td_status_t get_small(td_cuda_device_t *d, uint32_t n, void **out, td_err_t *err) {
    td_cuda_pool_t *p = d->pool;
    for (int tries = 0; tries < 2; tries++) {
        for (chunk_t *c = p->chunks; c; c = c->next) {
            uint32_t i = find(c, n);
            if (i == UNITS) continue;
            turn(c, i, n);
            c->used += n;
            p->used += (uint64_t)n * UNIT;
            *out = (void *)(uintptr_t)(c->at + (uint64_t)i * UNIT);
            return TD_OK;
        }
        td_status_t st = tries ? TD_OK : grow(d, err);
        if (st) return st;
    }
    return td_fail(err, TD_INTERNAL, "no %u units in an empty chunk", n);
}

td_status_t td_cuda_pool_get(td_cuda_device_t *d, uint64_t bytes, void **out, td_err_t *err) {
    td_cuda_pool_t *p = d->pool;
    CUdeviceptr at = 0;
    if (!bytes) bytes = 1;
    if (bytes > SIZE_MAX - UNIT) return td_fail(err, TD_NOMEM, "no %llu bytes of device memory",
                                                (unsigned long long)bytes);
    if (bytes < LARGE) {
        pthread_mutex_lock(&p->lock);
        td_status_t st = get_small(d, (uint32_t)((bytes + UNIT - 1) / UNIT), out, err);
        pthread_mutex_unlock(&p->lock);
        return st;
    }
    td_status_t st = take(d, bytes, &at, err);
    if (st) return st;
    pthread_mutex_lock(&p->lock);
    p->used += bytes, p->reserved += bytes;
    pthread_mutex_unlock(&p->lock);
    *out = (void *)(uintptr_t)at;
    return TD_OK;
}

/* Gives a chunk back that has become empty, if another one is empty too. */
static void shrink(td_cuda_device_t *d, chunk_t **at) {
    chunk_t *c = *at;
    uint32_t empty = 0;
    for (chunk_t *x = d->pool->chunks; x; x = x->next) empty += !x->used;
    if (c->used || empty < 2) return;
    *at = c->next;
    d->cu.cuMemFree_v2(c->at);
    d->pool->reserved -= CHUNK;
    d->base.alloc->put(d->base.alloc->ctx, c, sizeof *c);
}

static void put_small(td_cuda_device_t *d, CUdeviceptr at, uint32_t n) {
    for (chunk_t **c = &d->pool->chunks; *c; c = &(*c)->next) {
        if (at < (*c)->at || at - (*c)->at >= CHUNK) continue;
        uint32_t from = (uint32_t)((at - (*c)->at) / UNIT);
        for (uint32_t i = from; i < from + n; i++)
            if (i >= UNITS || !bit(*c, i)) return; /* not what was given: leaving it taken is the lesser evil */
        turn(*c, from, n);
        (*c)->used -= n;
        d->pool->used -= (uint64_t)n * UNIT;
        shrink(d, c);
        return;
    }
}

void td_cuda_pool_put(td_cuda_device_t *d, void *p, uint64_t bytes) {
    if (!p) return;
    if (!bytes) bytes = 1;
    pthread_mutex_lock(&d->pool->lock);
    if (bytes < LARGE) put_small(d, td_cuda_ptr(p), (uint32_t)((bytes + UNIT - 1) / UNIT));
    else d->pool->used -= bytes, d->pool->reserved -= bytes;
    pthread_mutex_unlock(&d->pool->lock);
    if (bytes >= LARGE) d->cu.cuMemFree_v2(td_cuda_ptr(p));
}

void td_cuda_pool_stats(td_cuda_device_t *d, uint64_t *out_used, uint64_t *out_reserved) {
    pthread_mutex_lock(&d->pool->lock);
    *out_used = d->pool->used;
    *out_reserved = d->pool->reserved;
    pthread_mutex_unlock(&d->pool->lock);
}
