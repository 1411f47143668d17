/* SPDX-License-Identifier: Apache-2.0 */
/* A heap of its own: one jemalloc arena, whose memory goes back to the system when it is destroyed, whatever
 * lies in it. Every block is charged at what it really takes: the allocator's size of it, and from 1 MiB on its
 * pages and one more. Freed memory goes back to the system within some seconds, by a thread of jemalloc that the
 * first heap starts; so a process that forks does so before. Without jemalloc (sanitizer builds) blocks come from
 * malloc and must be put back one by one.
 *
 * Thread: alloc any; create and destroy one. */
#ifndef TD_BASE_HEAP_H
#define TD_BASE_HEAP_H

#include "base/alloc.h"
#include "base/status.h"

typedef struct td_heap td_heap_t;

/* charge (may be NULL) outlives the heap. TD_LIMIT: 4094 heaps are there. */
td_status_t td_heap_create(const td_charge_t *charge, td_heap_t **out, td_err_t *err);
const td_alloc_t *td_heap_alloc(td_heap_t *h);
uint64_t td_heap_bytes(const td_heap_t *h); /* live blocks, as charged */
void td_heap_destroy(td_heap_t *h);         /* gives back what is still charged; NULL is fine */

/* What a block of that size is charged; 0: too large to be. For planning. */
uint64_t td_heap_block_bytes(size_t size, size_t align);

/* What the process's allocator holds: live blocks of all heaps, and memory it has from the system (resident).
 * Zeros without jemalloc. */
typedef struct td_heap_stats {
    uint64_t allocated, resident, metadata;
} td_heap_stats_t;
td_heap_stats_t td_heap_process_stats(void);
/* Gives unused memory back to the system. */
void td_heap_purge(void);

#endif
