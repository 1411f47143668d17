/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"

struct td_arena_block {
    td_arena_block_t *next;
    size_t size; /* of the data */
    size_t used;
    size_t pad_;
    _Alignas(16) unsigned char data[];
};

struct td_arena_hook {
    td_arena_hook_t *next;
    void (*fn)(void *ctx);
    void *ctx;
};

enum { BLOCK_MIN = 4096, BLOCK_MAX = 1 << 20 };

void td_arena_init(td_arena_t *a, const td_alloc_t *alloc, size_t budget_bytes) {
    *a = (td_arena_t){.alloc = alloc, .budget_bytes = budget_bytes ? budget_bytes : SIZE_MAX, .block_bytes = BLOCK_MIN};
}

static td_arena_block_t *grow(td_arena_t *a, size_t need) {
    size_t data = need > a->block_bytes ? need : a->block_bytes, total;
    if (!td_add_size(data, sizeof(td_arena_block_t), &total)) return NULL;
    size_t room = a->budget_bytes - a->reserved_bytes;
    if (total > room) {
        if (!td_add_size(need, sizeof(td_arena_block_t), &total) || total > room) return NULL;
        data = need;
    }
    td_arena_block_t *b = a->alloc->get(a->alloc->ctx, total, 16);
    if (!b) return NULL;
    b->size = data;
    b->used = 0;
    a->reserved_bytes += total;
    if (a->block_bytes < BLOCK_MAX) a->block_bytes *= 2;
    /* A block made for one large object goes behind the head, so the head's rest stays usable. */
    if (a->head && need > a->head->size - a->head->used && data == need && need >= BLOCK_MAX) {
        b->next = a->head->next;
        a->head->next = b;
    } else {
        b->next = a->head;
        a->head = b;
    }
    return b;
}

void *td_arena_align(td_arena_t *a, size_t size, size_t align) {
    if (align < 16) align = 16;
    td_arena_block_t *b = a->head;
    if (size > SIZE_MAX - align) return NULL;
    size_t skip = 0;
    if (b) skip = (size_t)(-(uintptr_t)(b->data + b->used)) & (align - 1);
    if (!b || b->size - b->used < skip || size > b->size - b->used - skip) {
        b = grow(a, size + align - 16);
        if (!b) return NULL;
        skip = (size_t)(-(uintptr_t)(b->data)) & (align - 1);
    }
    unsigned char *p = b->data + b->used + skip;
    b->used += skip + size;
    a->used_bytes += skip + size;
    return p;
}
void *td_arena_zalloc(td_arena_t *a, size_t size) {
    void *p = td_arena_align(a, size, 16);
    if (p && size) memset(p, 0, size);
    return p;
}
void *td_arena_array(td_arena_t *a, size_t count, size_t size) {
    size_t n;
    return td_mul_size(count, size, &n) ? td_arena_zalloc(a, n) : NULL;
}
char *td_arena_strndup(td_arena_t *a, const char *s, size_t n) {
    if (n == SIZE_MAX) return NULL;
    char *p = td_arena_align(a, n + 1, 16);
    if (!p) return NULL;
    if (n) memcpy(p, s, n);
    p[n] = '\0';
    return p;
}
char *td_arena_printf(td_arena_t *a, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0) return NULL;
    char *p = td_arena_align(a, (size_t)n + 1, 16);
    if (!p) return NULL;
    va_start(ap, fmt);
    vsnprintf(p, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return p;
}

bool td_arena_on_end(td_arena_t *a, void (*fn)(void *ctx), void *ctx) {
    td_arena_hook_t *h = TD_NEW(a, td_arena_hook_t);
    if (!h) return false;
    *h = (td_arena_hook_t){a->hooks, fn, ctx};
    a->hooks = h;
    return true;
}
static void run_hooks(td_arena_t *a) {
    for (td_arena_hook_t *h = a->hooks; h; h = h->next) h->fn(h->ctx);
    a->hooks = NULL;
}

static void free_blocks(td_arena_t *a, td_arena_block_t *b) {
    while (b) {
        td_arena_block_t *next = b->next;
        a->reserved_bytes -= b->size + sizeof *b;
        a->alloc->put(a->alloc->ctx, b, b->size + sizeof *b);
        b = next;
    }
}
void td_arena_reset(td_arena_t *a) {
    run_hooks(a);
    if (!a->head) return;
    free_blocks(a, a->head->next);
    a->head->next = NULL;
    a->head->used = 0;
    a->used_bytes = 0;
}
void td_arena_deinit(td_arena_t *a) {
    if (!a || !a->alloc) return;
    run_hooks(a);
    free_blocks(a, a->head);
    a->head = NULL;
    a->used_bytes = 0;
}
td_status_t td_arena_fail(const td_arena_t *a, td_err_t *err) {
    if (a->budget_bytes != SIZE_MAX && a->budget_bytes - a->reserved_bytes < BLOCK_MAX)
        return td_fail(err, TD_LIMIT, "arena budget of %zu bytes is used up (%zu reserved)", a->budget_bytes, a->reserved_bytes);
    return td_fail(err, TD_NOMEM, "out of memory (%zu bytes in this arena)", a->reserved_bytes);
}
