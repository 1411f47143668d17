/* SPDX-License-Identifier: Apache-2.0 */
/* jemalloc's non-standard calls (jemalloc(3)) are bound weakly: a program that is linked without it gets malloc.
 *
 * Sizes: up to LARGE_BYTES jemalloc's size classes, at most a quarter over what is asked. Larger blocks would be
 * rounded up likewise, which is much memory; their tail is never touched, so it is taken back from the system (it
 * may hold pages of an earlier block), and a large block costs its own pages only. */
#include "base/heap.h"

#include <jemalloc/jemalloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/checked.h"

#pragma weak mallocx
#pragma weak dallocx
#pragma weak sallocx
#pragma weak nallocx
#pragma weak mallctl

#define LARGE_BYTES ((size_t)1 << 20)
/* Where pages are larger, the system refuses to take a tail that is no whole page, and nothing else happens. */
#define PAGE_BYTES ((size_t)4096)
/* Freed pages stay with the heap that long, for the next request; then a thread of jemalloc gives them back. */
#define DECAY_MS 1000

struct td_heap {
    td_alloc_t alloc;
    const td_charge_t *charge;
    _Atomic(uint64_t) bytes;
    unsigned arena; /* of jemalloc */
    int flags;      /* of mallocx */
};

static bool have_jemalloc(void) { return mallocx && dallocx && sallocx && nallocx && mallctl; }

/* ---- sizes ---- */

static int with_align(int flags, size_t align) {
    return flags | (align > 16 ? MALLOCX_ALIGN(align) : MALLOCX_ALIGN((size_t)16));
}
/* A large block lies on its own pages and on one more where it does not begin with a page. */
static uint64_t large_bytes(size_t size) { return (uint64_t)td_align_up(size, PAGE_BYTES) + PAGE_BYTES; }

uint64_t td_heap_block_bytes(size_t size, size_t align) {
    if (size > PTRDIFF_MAX - PAGE_BYTES * 2 || align > PTRDIFF_MAX / 2) return 0;
    if (size == 0) size = 1;
    if (size >= LARGE_BYTES) return large_bytes(size);
    return have_jemalloc() ? nallocx(size, with_align(0, align)) : td_align_up(size, 16);
}

static uint64_t live_bytes(void *p, size_t size) {
    if (size >= LARGE_BYTES) return large_bytes(size);
    return have_jemalloc() ? sallocx(p, 0) : td_align_up(size ? size : 1, 16);
}

/* ---- blocks ---- */

static void give_tail_back(void *p, size_t size) {
    char *end = (char *)p + sallocx(p, 0), *tail = (char *)td_align_up((size_t)p + size, PAGE_BYTES);
    end = (char *)((size_t)end & ~(PAGE_BYTES - 1));
    if (tail < end) (void)madvise(tail, (size_t)(end - tail), MADV_DONTNEED);
}

static void *get_block(const td_heap_t *h, size_t size, size_t align) {
    if (size == 0) size = 1;
    if (have_jemalloc()) {
        void *p = mallocx(size, with_align(h->flags, align));
        if (p && size >= LARGE_BYTES) give_tail_back(p, size);
        return p;
    }
    return td_alloc_default()->get(NULL, size, align);
}

static void *heap_get(void *ctx, size_t size, size_t align) {
    td_heap_t *h = ctx;
    uint64_t n = td_heap_block_bytes(size, align);
    if (!n || !td_charge_take(h->charge, n)) return NULL;
    void *p = get_block(h, size, align);
    if (p) atomic_fetch_add_explicit(&h->bytes, n, memory_order_relaxed);
    else td_charge_give(h->charge, n);
    return p;
}

static void heap_put(void *ctx, void *p, size_t size) {
    td_heap_t *h = ctx;
    if (!p) return;
    uint64_t n = live_bytes(p, size);
    if (have_jemalloc()) dallocx(p, h->flags);
    else td_alloc_default()->put(NULL, p, size);
    atomic_fetch_sub_explicit(&h->bytes, n, memory_order_relaxed);
    td_charge_give(h->charge, n);
}

/* ---- where jemalloc's arenas have their memory: jemalloc(3), arena.<i>.extent_hooks ----
 * Its own hooks never unmap an arena's bookkeeping (2 MiB of addresses for each heap that ever was, and the page
 * tables of that); these do. They return true for "no". */

static void *map_extent(extent_hooks_t *hooks, void *at, size_t size, size_t align, bool *zero, bool *commit,
                        unsigned arena) {
    (void)hooks, (void)arena;
    size_t room = 0;
    if (align < PAGE_BYTES) align = PAGE_BYTES;
    if (at || !td_add_size(size, align - PAGE_BYTES, &room)) return NULL;
    char *p = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return NULL;
    size_t before = (size_t)-(uintptr_t)p & (align - 1), behind = room - size - before;
    if (before) munmap(p, before);
    if (behind) munmap(p + before + size, behind);
    *zero = *commit = true;
    return p + before;
}
static bool unmap_extent(extent_hooks_t *hooks, void *p, size_t size, bool committed, unsigned arena) {
    (void)hooks, (void)committed, (void)arena;
    return munmap(p, size) != 0;
}
static void end_extent(extent_hooks_t *hooks, void *p, size_t size, bool committed, unsigned arena) {
    (void)unmap_extent(hooks, p, size, committed, arena);
}
static bool purge_extent(extent_hooks_t *hooks, void *p, size_t size, size_t at, size_t n, unsigned arena) {
    (void)hooks, (void)size, (void)arena;
    return madvise((char *)p + at, n, MADV_DONTNEED) != 0;
}
static bool split_extent(extent_hooks_t *hooks, void *p, size_t size, size_t a, size_t b, bool committed,
                         unsigned arena) {
    (void)hooks, (void)p, (void)size, (void)a, (void)b, (void)committed, (void)arena;
    return false;
}
static bool merge_extents(extent_hooks_t *hooks, void *p, size_t a, void *q, size_t b, bool committed,
                          unsigned arena) {
    (void)hooks, (void)p, (void)a, (void)q, (void)b, (void)committed, (void)arena;
    return false;
}
static extent_hooks_t extent_hooks = {.alloc = map_extent, .dalloc = unmap_extent, .destroy = end_extent,
                                      .purge_forced = purge_extent, .split = split_extent, .merge = merge_extents};

/* ---- heaps ---- */

/* mallctl "arena.<i>.NAME" with a value to write. */
static int arena_ctl(unsigned arena, const char *name, void *v, size_t n) {
    char key[64];
    snprintf(key, sizeof key, "arena.%u.%s", arena, name);
    return mallctl(key, NULL, NULL, v, n);
}

/* One thread of jemalloc gives unused pages back, also those of heaps that nobody uses at the time. It sleeps for as
 * long as the slowest arena lets it, so malloc's own arenas (10 s by default) get the heaps' time too. Where the
 * thread cannot be had, each heap gives back as it is used. */
static void start_giving_back(void) {
    bool on = true;
    size_t one = 1, size = sizeof(unsigned);
    unsigned n = 0;
    ssize_t decay = DECAY_MS;
    (void)mallctl("arenas.narenas", &n, &size, NULL, 0);
    for (unsigned i = 0; i < n; i++) (void)arena_ctl(i, "dirty_decay_ms", &decay, sizeof decay);
    (void)mallctl("arenas.dirty_decay_ms", NULL, NULL, &decay, sizeof decay);
    (void)mallctl("max_background_threads", NULL, NULL, &one, sizeof one);
    (void)mallctl("background_thread", NULL, NULL, &on, sizeof on);
}

static td_status_t make_arena(td_heap_t *h, td_err_t *err) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    size_t n = sizeof h->arena, never = SIZE_MAX;
    ssize_t decay = DECAY_MS, none = 0;
    extent_hooks_t *hooks = &extent_hooks;
    pthread_once(&once, start_giving_back);
    if (mallctl("arenas.create", &h->arena, &n, &hooks, sizeof hooks))
        return td_fail(err, TD_LIMIT, "no further heap: out of memory, or %d are there", (1 << 12) - 2);
    (void)arena_ctl(h->arena, "dirty_decay_ms", &decay, sizeof decay);
    (void)arena_ctl(h->arena, "muzzy_decay_ms", &none, sizeof none);
    (void)arena_ctl(h->arena, "oversize_threshold", &never, sizeof never); /* else 8 MiB are unmapped at each free */
    h->flags = MALLOCX_ARENA(h->arena) | MALLOCX_TCACHE_NONE;
    return TD_OK;
}

td_status_t td_heap_create(const td_charge_t *charge, td_heap_t **out, td_err_t *err) {
    td_heap_t *h = calloc(1, sizeof *h);
    if (!h) return td_fail(err, TD_NOMEM, "out of memory");
    h->alloc = (td_alloc_t){heap_get, heap_put, h};
    h->charge = charge;
    td_status_t s = have_jemalloc() ? make_arena(h, err) : TD_OK;
    if (s != TD_OK) free(h);
    else *out = h;
    return s;
}

const td_alloc_t *td_heap_alloc(td_heap_t *h) { return &h->alloc; }
uint64_t td_heap_bytes(const td_heap_t *h) { return atomic_load(&h->bytes); }

void td_heap_destroy(td_heap_t *h) {
    if (!h) return;
    if (have_jemalloc()) (void)arena_ctl(h->arena, "destroy", NULL, 0);
    td_charge_give(h->charge, atomic_load(&h->bytes));
    free(h);
}

/* ---- the process ---- */

static uint64_t statistic(const char *name) {
    size_t v = 0, n = sizeof v;
    return mallctl(name, &v, &n, NULL, 0) ? 0 : v;
}

td_heap_stats_t td_heap_process_stats(void) {
    uint64_t epoch = 1;
    if (!have_jemalloc()) return (td_heap_stats_t){0};
    (void)mallctl("epoch", NULL, NULL, &epoch, sizeof epoch); /* the numbers are those of now */
    return (td_heap_stats_t){statistic("stats.allocated"), statistic("stats.resident"), statistic("stats.metadata")};
}

void td_heap_purge(void) {
    if (!have_jemalloc()) return;
    (void)mallctl("thread.tcache.flush", NULL, NULL, NULL, 0);
    (void)arena_ctl(MALLCTL_ARENAS_ALL, "purge", NULL, 0);
}
