/* SPDX-License-Identifier: Apache-2.0 */
/* The excise walk over a stream. A field that lies whole in the window is walked there; a small one that does not is
 * gathered first; a large one is followed into. */
#include <inttypes.h>
#include <string.h>

#include "base/limits.h"
#include "proto/excise_in.h"

enum {
    GATHER = 64 << 10, /* fields up to this size are put together */
    HEAD_BYTES = 20,   /* tag and value or length */
};

/* A field's first bytes: what stands before a length-delimited value, or all of another field. */
typedef struct head {
    uint8_t bytes[HEAD_BYTES];
    size_t n;
    uint32_t number;
    uint8_t type;
    uint64_t size; /* of a length-delimited value */
} head_t;

static td_status_t broken(const td_seen_t *m, const td_feed_t *in, uint64_t end, td_err_t *err) {
    if (end == UINT64_MAX) return td_fail(err, TD_MALFORMED, "broken field in %s", m->desc->name);
    uint64_t at = td_feed_position(in);
    return td_fail(err, TD_MALFORMED, "broken field in %s, %" PRIu64 " bytes from its end", m->desc->name,
                   at < end ? end - at : 0);
}

static td_status_t head_get(head_t *h, td_feed_t *in, size_t n, uint64_t end, bool *fits, td_err_t *err) {
    *fits = n <= end - td_feed_position(in) && n <= HEAD_BYTES - h->n;
    if (!*fits) return TD_OK;
    td_status_t s = td_feed_get(in, h->bytes + h->n, n, err);
    h->n += n;
    return s;
}

static td_status_t head_varint(head_t *h, td_feed_t *in, uint64_t end, uint64_t *out, bool *fits, td_err_t *err) {
    size_t start = h->n;
    td_status_t s = TD_OK;
    do s = head_get(h, in, 1, end, fits, err);
    while (s == TD_OK && *fits && h->bytes[h->n - 1] & 128 && h->n - start < 10);
    td_span_t v = {h->bytes + start, h->n - start};
    if (s == TD_OK && *fits) *fits = td_wire_varint(&v, out);
    return s;
}

static td_status_t read_head(head_t *h, const td_seen_t *m, td_feed_t *in, uint64_t end, td_err_t *err) {
    uint64_t tag = 0, value = 0;
    bool fits = false;
    h->n = 0;
    td_status_t s = head_varint(h, in, end, &tag, &fits, err);
    if (s != TD_OK) return s;
    h->number = (uint32_t)(tag >> 3);
    h->type = (uint8_t)(tag & 7);
    if (!fits || tag > UINT32_MAX || !h->number) return broken(m, in, end, err);
    switch (h->type) {
    case TD_WIRE_VARINT: s = head_varint(h, in, end, &value, &fits, err); break;
    case TD_WIRE_I64: s = head_get(h, in, 8, end, &fits, err); break;
    case TD_WIRE_I32: s = head_get(h, in, 4, end, &fits, err); break;
    case TD_WIRE_LEN:
        s = head_varint(h, in, end, &h->size, &fits, err);
        fits = fits && h->size <= INT32_MAX && (end == UINT64_MAX || h->size <= end - td_feed_position(in));
        break;
    default: fits = false;
    }
    return s == TD_OK && !fits ? broken(m, in, end, err) : s;
}

/* The field whose head was read, put together in x->gathered. */
static td_status_t gathered(td_excise_t *x, const td_seen_t *m, const head_t *h, td_feed_t *in, unsigned depth,
                            td_buffer_t *out, td_err_t *err) {
    td_buffer_t *g = &x->gathered;
    g->size = 0;
    td_status_t s = td_buffer_append(g, h->bytes, h->n, err);
    if (s == TD_OK && h->type == TD_WIRE_LEN) s = td_buffer_append_feed(g, in, h->size, err);
    if (s != TD_OK) return s;
    td_span_t all = td_buffer_span(g);
    td_wire_field_t f;
    if (!td_wire_next(&all, &f)) return broken(m, in, td_feed_position(in), err);
    return td_excise_field(x, m, &f, depth, out, err);
}

static td_status_t walk(td_excise_t *x, const td_seen_t *m, td_feed_t *in, uint64_t end, unsigned depth,
                        td_buffer_t *out, td_err_t *err);

/* Bytes that stay in the message. */
static td_status_t copied(td_excise_t *x, const ProtobufCFieldDescriptor *d, const head_t *h, td_feed_t *in,
                          td_buffer_t *out, td_err_t *err) {
    td_status_t s = td_buffer_append(out, h->bytes, h->n, err);
    size_t start = out->size;
    if (s == TD_OK) s = td_buffer_append_feed(out, in, h->size, err);
    if (s == TD_OK && d && d->type == PROTOBUF_C_TYPE_STRING && memchr(out->data + start, 0, (size_t)h->size))
        x->n_cut_strings++;
    return s;
}

/* A large length-delimited field whose head was read. */
static td_status_t large(td_excise_t *x, const td_seen_t *m, const head_t *h, td_feed_t *in, unsigned depth,
                         td_buffer_t *out, td_err_t *err) {
    const ProtobufCFieldDescriptor *d = NULL;
    td_status_t s = td_excise_known(x, m, h->number, h->type, &d, err);
    if (s != TD_OK || !d) return s == TD_OK ? copied(x, d, h, in, out, err) : s;
    if (d->type == PROTOBUF_C_TYPE_MESSAGE) {
        uint64_t inline_seen = 0, moved_seen = 0, end = td_feed_position(in) + h->size;
        td_seen_t sub = {d->descriptor, &inline_seen, &moved_seen};
        size_t start = 0;
        s = td_excise_open(d, out, &start, err);
        if (s == TD_OK) s = td_excise_enter(x, sub.desc, depth + 1, err);
        if (s == TD_OK) s = walk(x, &sub, in, end, depth + 1, out, err);
        return s == TD_OK ? td_excise_close(d, out, start, err) : s;
    }
    bool move = false;
    if (td_excise_is_movable(m, d)) s = td_excise_moves(m, d, h->type, h->size, &move, err);
    if (s != TD_OK) return s;
    return move ? td_excise_move(x, d, in, h->size, out, err) : copied(x, d, h, in, out, err);
}

static td_status_t after_head(td_excise_t *x, const td_seen_t *m, const head_t *h, td_feed_t *in, unsigned depth,
                              td_buffer_t *out, td_err_t *err) {
    if (h->type != TD_WIRE_LEN || h->size <= GATHER) return gathered(x, m, h, in, depth, out, err);
    return large(x, m, h, in, depth, out, err);
}

/* Fields of one message while they lie in the window. *stopped: the next one does not. */
static td_status_t in_window(td_excise_t *x, const td_seen_t *m, td_feed_t *in, uint64_t end, unsigned depth,
                             uint32_t stop_at, td_buffer_t *out, td_err_t *err) {
    uint64_t left = end - td_feed_position(in);
    td_span_t w = {in->at, in->left < left ? in->left : (size_t)left};
    td_wire_field_t f;
    td_status_t s = TD_OK;
    while (s == TD_OK && w.size && td_wire_next(&w, &f) && f.number != stop_at) {
        td_feed_take(in, f.whole.size);
        s = td_excise_field(x, m, &f, depth, out, err);
    }
    return s;
}

static td_status_t at_end(td_feed_t *in, uint64_t end, bool *out, td_err_t *err) {
    td_status_t s = TD_OK;
    *out = end != UINT64_MAX && td_feed_position(in) >= end;
    if (*out || end != UINT64_MAX) return s;
    s = td_feed_more(in, err);
    *out = !in->left;
    return s;
}

static td_status_t walk(td_excise_t *x, const td_seen_t *m, td_feed_t *in, uint64_t end, unsigned depth,
                        td_buffer_t *out, td_err_t *err) {
    head_t h;
    bool ended = false;
    for (;;) {
        td_status_t s = in_window(x, m, in, end, depth, 0, out, err);
        if (s == TD_OK) s = at_end(in, end, &ended, err);
        if (s != TD_OK || ended) return s;
        if ((s = read_head(&h, m, in, end, err)) == TD_OK) s = after_head(x, m, &h, in, depth, out, err);
        if (s != TD_OK) return s;
    }
}

td_status_t td_walk_begin(td_walk_t *w, td_excise_t *x, const ProtobufCMessageDescriptor *desc, td_err_t *err) {
    *w = (td_walk_t){.x = x, .desc = desc};
    td_buffer_init(&w->rest, x->env.alloc);
    return td_excise_enter(x, desc, 0, err);
}

void td_walk_end(td_walk_t *w) {
    td_buffer_deinit(&w->rest);
}

static td_status_t take(td_walk_t *w, td_feed_t *in, uint64_t n, td_err_t *err) {
    td_limit_t bytes;
    td_limit_open(&bytes, in, n);
    td_status_t s = w->take(w->ctx, &bytes.s, err);
    return s == TD_OK ? td_limit_end(&bytes, err) : s;
}

/* As walk, for the message itself: one of its fields may be somebody else's. */
td_status_t td_walk_fields(td_walk_t *w, td_feed_t *in, td_err_t *err) {
    td_seen_t m = {w->desc, &w->inline_seen, &w->moved_seen};
    uint64_t begin = td_feed_position(in);
    head_t h;
    bool ended = false;
    td_status_t s = TD_OK;
    while (s == TD_OK) {
        s = in_window(w->x, &m, in, in->end, 0, w->take_number, &w->rest, err);
        if (s == TD_OK) s = at_end(in, in->end, &ended, err);
        if (s != TD_OK || ended) break;
        if ((s = read_head(&h, &m, in, in->end, err)) != TD_OK) break;
        if (w->take_number && h.number == w->take_number && h.type == TD_WIRE_LEN) s = take(w, in, h.size, err);
        else s = after_head(w->x, &m, &h, in, 0, &w->rest, err);
    }
    w->wire_bytes += td_feed_position(in) - begin;
    return s;
}

td_status_t td_walk_field(td_walk_t *w, uint32_t number, td_feed_t *in, td_err_t *err) {
    td_seen_t m = {w->desc, &w->inline_seen, &w->moved_seen};
    head_t h = {.number = number, .type = TD_WIRE_LEN, .size = in->end};
    h.n = td_wire_put_varint(h.bytes, (uint64_t)number << 3 | TD_WIRE_LEN);
    h.n += td_wire_put_varint(h.bytes + h.n, h.size);
    w->wire_bytes += h.n + h.size;
    if (h.size > INT32_MAX) return td_fail(err, TD_LIMIT, "field %u of %" PRIu64 " bytes", number, h.size);
    if (w->take_number && number == w->take_number) return take(w, in, in->end, err);
    return after_head(w->x, &m, &h, in, 0, &w->rest, err);
}

typedef struct unpacking {
    td_arena_t *arena;
    size_t refused; /* the request that found no room; protobuf-c itself reports nothing */
} unpacking_t;
static void *arena_alloc(void *ctx, size_t size) {
    unpacking_t *u = ctx;
    void *p = td_arena_align(u->arena, size, 16);
    if (!p) u->refused = size;
    return p;
}
static void arena_free(void *ctx, void *p) {
    (void)ctx, (void)p;
}

td_status_t td_walk_unpack(td_walk_t *w, td_arena_t *arena, ProtobufCMessage **out, td_err_t *err) {
    static const uint8_t nothing[1] = {0};
    unpacking_t u = {arena, 0};
    ProtobufCAllocator a = {arena_alloc, arena_free, &u};
    *out = protobuf_c_message_unpack(w->desc, &a, w->rest.size, w->rest.size ? w->rest.data : nothing);
    if (*out) return TD_OK;
    if (u.refused)
        return td_fail(err, TD_LIMIT,
                       "%s: %" PRIu64 " wire bytes need more than the %zu bytes of memory allowed for them",
                       w->desc->name, w->wire_bytes, arena->budget_bytes);
    return td_fail(err, TD_MALFORMED, "cannot unpack %s from %zu bytes", w->desc->name, w->rest.size);
}

td_status_t td_excise_unpack(td_excise_t *x, const ProtobufCMessageDescriptor *desc, td_span_t wire, td_arena_t *arena,
                             ProtobufCMessage **out, td_err_t *err) {
    td_walk_t w;
    td_feed_t in;
    td_feed_memory(&in, wire);
    td_status_t s = td_walk_begin(&w, x, desc, err);
    if (s == TD_OK) s = td_walk_fields(&w, &in, err);
    if (s == TD_OK) s = td_walk_unpack(&w, arena, out, err);
    td_walk_end(&w);
    return s;
}
