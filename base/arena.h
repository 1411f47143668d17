/* SPDX-License-Identifier: Apache-2.0 */
/* Bump allocator: one per artifact, one recycled per request. Everything in it
 * dies with it. It has a byte budget, so that hostile input cannot amplify.
 * Thread: one at a time. */
#ifndef TD_BASE_ARENA_H
#define TD_BASE_ARENA_H

#include "base/alloc.h"
#include "base/status.h"

typedef struct td_arena_block td_arena_block_t;
typedef struct td_arena_hook td_arena_hook_t;
typedef struct td_arena {
    const td_alloc_t *alloc;
    td_arena_block_t *head;
    size_t used_bytes;     /* handed out */
    size_t reserved_bytes; /* taken from alloc */
    size_t budget_bytes;   /* reserved_bytes never passes this */
    size_t block_bytes;    /* next block's size; doubles up to 1 MiB */
    td_arena_hook_t *hooks;
} td_arena_t;

/* Takes no memory yet. budget_bytes 0 means no limit. */
void td_arena_init(td_arena_t *a, const td_alloc_t *alloc, size_t budget_bytes);
/* Zeroed memory, aligned to 16, or NULL (budget or memory gone). size 0 gives a valid pointer. */
void *td_arena_zalloc(td_arena_t *a, size_t size);
/* count * size, checked. */
void *td_arena_array(td_arena_t *a, size_t count, size_t size);
void *td_arena_align(td_arena_t *a, size_t size, size_t align);
/* A copy with a NUL behind it. */
char *td_arena_strndup(td_arena_t *a, const char *s, size_t n);
char *td_arena_printf(td_arena_t *a, const char *fmt, ...) TD_PRINTF(2, 3);
/* Calls fn(ctx) when the arena is reset or deinitialised, newest first, while its memory is still there:
 * for what a library keeps outside it. False when memory ended; then fn is not called. */
bool td_arena_on_end(td_arena_t *a, void (*fn)(void *ctx), void *ctx);
/* Keeps one block for reuse. */
void td_arena_reset(td_arena_t *a);
void td_arena_deinit(td_arena_t *a);
/* The error for a NULL from this arena: TD_LIMIT when the budget ended, else TD_NOMEM. */
td_status_t td_arena_fail(const td_arena_t *a, td_err_t *err);

#define TD_NEW(arena, type) ((type *)td_arena_zalloc((arena), sizeof(type)))
#define TD_NEW_N(arena, type, n) ((type *)td_arena_array((arena), (n), sizeof(type)))

#endif
