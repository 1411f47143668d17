/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"

#include <stdatomic.h>
#include <stdlib.h>

static void *heap_get(void *ctx, size_t size, size_t align) {
    (void)ctx;
    if (size == 0) size = 1;
    if (align <= 16) return malloc(size);
    void *p = NULL;
    return posix_memalign(&p, align, size) == 0 ? p : NULL;
}
static void heap_put(void *ctx, void *p, size_t size) {
    (void)ctx, (void)size;
    free(p);
}
const td_alloc_t *td_alloc_default(void) {
    static const td_alloc_t heap = {heap_get, heap_put, NULL};
    return &heap;
}

static void *counting_get(void *ctx, size_t size, size_t align) {
    td_counting_alloc_t *c = ctx;
    unsigned long long n = atomic_fetch_add(&c->gets, 1) + 1;
    if (atomic_load(&c->fail_at) == n) return NULL;
    void *p = c->under->get(c->under->ctx, size, align);
    if (!p) return NULL;
    unsigned long long live = atomic_fetch_add(&c->live_bytes, size) + size;
    unsigned long long peak = atomic_load(&c->peak_bytes);
    while (live > peak && !atomic_compare_exchange_weak(&c->peak_bytes, &peak, live)) {}
    return p;
}
static void counting_put(void *ctx, void *p, size_t size) {
    td_counting_alloc_t *c = ctx;
    if (!p) return;
    atomic_fetch_add(&c->puts, 1);
    atomic_fetch_sub(&c->live_bytes, size);
    c->under->put(c->under->ctx, p, size);
}
void td_counting_alloc_init(td_counting_alloc_t *c, const td_alloc_t *under) {
    *c = (td_counting_alloc_t){.base = {counting_get, counting_put, c}, .under = under};
}
