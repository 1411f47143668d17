/* SPDX-License-Identifier: Apache-2.0 */
/* The injected allocator: libc/jemalloc in production, counting or failing in
 * tests. Everything that loads or runs artifacts takes its memory through one. */
#ifndef TD_BASE_ALLOC_H
#define TD_BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct td_alloc {
    /* Returns memory aligned to `align` (a power of two, at least 16), or NULL. */
    void *(*get)(void *ctx, size_t size, size_t align);
    /* Takes back memory from get; NULL is fine. size is the size asked for. */
    void (*put)(void *ctx, void *p, size_t size);
    void *ctx;
} td_alloc_t;

/* Leave to take memory, from a budget. take returns false when the budget has no more; what was taken is given
 * back by the same charge. A NULL charge stands for "no budget". Thread: any. */
typedef struct td_charge {
    bool (*take)(void *ctx, uint64_t bytes);
    void (*give)(void *ctx, uint64_t bytes);
    void *ctx;
} td_charge_t;
static inline bool td_charge_take(const td_charge_t *c, uint64_t bytes) { return !c || c->take(c->ctx, bytes); }
static inline void td_charge_give(const td_charge_t *c, uint64_t bytes) {
    if (c) c->give(c->ctx, bytes);
}

/* The process's heap. Thread: any. */
const td_alloc_t *td_alloc_default(void);

/* A counting allocator over another one, for tests and accounting.
 * fail_at: the get whose running number (gets, 1-based) equals it returns NULL; 0 = never. Thread: any. */
typedef struct td_counting_alloc {
    td_alloc_t base; /* pass &x.base on */
    const td_alloc_t *under;
    _Atomic(unsigned long long) gets, puts, live_bytes, peak_bytes, fail_at;
} td_counting_alloc_t;
void td_counting_alloc_init(td_counting_alloc_t *c, const td_alloc_t *under);

#endif
