/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/rope.h"

#include <string.h>

#include "proto/wire.h"

enum {
    COPY_MAX = 256,      /* pieces up to this size are copied: a reference costs 16 bytes and a walk */
    BLOCK_BYTES = 16384, /* of owned memory */
};

void td_rope_init(td_rope_t *r, const td_alloc_t *alloc) {
    *r = (td_rope_t){0};
    td_arena_init(&r->own, alloc, 0);
    r->memory = &r->own;
}

void td_rope_init_in(td_rope_t *r, const td_rope_t *owner) {
    td_rope_init(r, owner->own.alloc);
    r->memory = owner->memory;
}

void td_rope_deinit(td_rope_t *r) {
    const td_alloc_t *alloc = r->own.alloc;
    if (!alloc) return;
    alloc->put(alloc->ctx, r->pieces, r->cap * sizeof *r->pieces);
    td_arena_deinit(&r->own);
    *r = (td_rope_t){0};
}

static bool grow(td_rope_t *r) {
    const td_alloc_t *alloc = r->own.alloc;
    uint32_t cap = r->cap ? r->cap * 2 : 16;
    td_span_t *p = cap > r->cap ? alloc->get(alloc->ctx, cap * sizeof *p, 16) : NULL;
    if (!p) return false;
    if (r->n) memcpy(p, r->pieces, r->n * sizeof *p);
    alloc->put(alloc->ctx, r->pieces, r->cap * sizeof *p);
    r->pieces = p;
    r->cap = cap;
    return true;
}

static void add_piece(td_rope_t *r, td_span_t bytes) {
    if (!bytes.size || r->failed) return;
    td_span_t *last = r->n ? &r->pieces[r->n - 1] : NULL;
    if (last && last->data + last->size == bytes.data) {
        last->size += bytes.size;
    } else if (r->n == r->cap && !grow(r)) {
        r->failed = true;
        return;
    } else {
        r->pieces[r->n++] = bytes;
    }
    r->size += bytes.size;
}

uint8_t *td_rope_scratch(td_rope_t *r, size_t size) {
    uint8_t *p = r->failed ? NULL : td_arena_zalloc(r->memory, size ? size : 1);
    if (!p) r->failed = true;
    return p;
}

uint8_t *td_rope_room(td_rope_t *r, size_t size) {
    if (size > r->tail_bytes) {
        size_t block = size > BLOCK_BYTES / 4 ? size : BLOCK_BYTES;
        uint8_t *p = td_rope_scratch(r, block);
        if (!p) return NULL;
        if (block == size) { /* a block of its own; the tail stays for small pieces */
            add_piece(r, (td_span_t){p, size});
            return p;
        }
        r->tail = p;
        r->tail_bytes = block;
    }
    uint8_t *p = r->tail;
    add_piece(r, (td_span_t){p, size});
    r->tail += size;
    r->tail_bytes -= size;
    return r->failed ? NULL : p;
}

void td_rope_copy(td_rope_t *r, const void *data, size_t size) {
    uint8_t *p = size ? td_rope_room(r, size) : NULL;
    if (p) memcpy(p, data, size);
}

void td_rope_ref(td_rope_t *r, td_span_t bytes) {
    if (bytes.size <= COPY_MAX) td_rope_copy(r, bytes.data, bytes.size);
    else add_piece(r, bytes);
}

void td_rope_join(td_rope_t *r, const td_rope_t *other) {
    if (other->failed) r->failed = true;
    for (uint32_t i = 0; i < other->n; i++) td_rope_ref(r, other->pieces[i]);
}

void td_rope_varint(td_rope_t *r, uint64_t v) {
    uint8_t b[10];
    td_rope_copy(r, b, td_wire_put_varint(b, v));
}

void td_rope_tag_len(td_rope_t *r, uint32_t field, uint64_t size) {
    td_rope_varint(r, (uint64_t)field << 3 | TD_WIRE_LEN);
    td_rope_varint(r, size);
}

td_status_t td_rope_status(const td_rope_t *r, td_err_t *err) {
    return r->failed ? td_fail(err, TD_NOMEM, "out of memory while writing") : TD_OK;
}

td_status_t td_rope_write(const td_rope_t *r, const td_sink_t *sink, td_err_t *err) {
    td_status_t s = td_rope_status(r, err);
    for (uint32_t i = 0; s == TD_OK && i < r->n; i++)
        s = sink->write(sink->ctx, r->pieces[i].data, r->pieces[i].size, err);
    return s;
}

void td_rope_gather(const td_rope_t *r, uint8_t *dst) {
    for (uint32_t i = 0; i < r->n; i++) {
        memcpy(dst, r->pieces[i].data, r->pieces[i].size);
        dst += r->pieces[i].size;
    }
}

bool td_rope_equal(const td_rope_t *a, const td_rope_t *b) {
    if (a->failed || b->failed || a->size != b->size) return false;
    uint32_t i = 0, j = 0;
    size_t p = 0, q = 0; /* within piece i and j */
    while (i < a->n && j < b->n) {
        size_t x = a->pieces[i].size - p, y = b->pieces[j].size - q, k = x < y ? x : y;
        if (memcmp(a->pieces[i].data + p, b->pieces[j].data + q, k) != 0) return false;
        p += k, q += k;
        if (p == a->pieces[i].size) i++, p = 0;
        if (q == b->pieces[j].size) j++, q = 0;
    }
    return true;
}
