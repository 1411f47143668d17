/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/excise.h"

#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#include "base/limits.h"
#include "proto/canonical.h"
#include "proto/excise_in.h"

void td_excise_init(td_excise_t *x, td_payload_table_t *table, const td_alloc_t *alloc) {
    *x = (td_excise_t){.table = table, .env = {.alloc = alloc}};
    td_arena_init(&x->apart, alloc, 0);
    td_buffer_init(&x->gathered, alloc);
}
void td_excise_deinit(td_excise_t *x) {
    const td_alloc_t *alloc = x->env.alloc;
    if (!alloc) return;
    for (uint32_t i = 0; i < x->n_payloads && !x->env.skips; i++) td_payload_release(x->table, x->payloads[i]);
    alloc->put(alloc->ctx, x->payloads, x->cap_payloads * sizeof *x->payloads);
    alloc->put(alloc->ctx, x->unknown, x->cap_unknown * sizeof *x->unknown);
    td_arena_deinit(&x->apart);
    td_buffer_deinit(&x->gathered);
    if (x->zeros) munmap(x->zeros, TD_ZEROS_BYTES);
    *x = (td_excise_t){0};
}

/* Room for one more element in a list owned by x. */
static void *room(td_excise_t *x, void *list, uint32_t n, uint32_t *cap, size_t elem) {
    if (n < *cap) return list;
    uint32_t want = *cap ? *cap * 2 : 16;
    void *p = x->env.alloc->get(x->env.alloc->ctx, want * elem, 16);
    if (!p) return NULL;
    if (n) memcpy(p, list, n * elem);
    x->env.alloc->put(x->env.alloc->ctx, list, *cap * elem);
    *cap = want;
    return p;
}

static td_status_t note_unknown(td_excise_t *x, const char *message, uint32_t number, td_err_t *err) {
    for (uint32_t i = 0; i < x->n_unknown; i++)
        if (x->unknown[i].number == number && x->unknown[i].message == message) {
            x->unknown[i].count++;
            return TD_OK;
        }
    if (x->n_unknown >= TD_LIMIT_UNKNOWN_FIELDS)
        return td_fail(err, TD_LIMIT, "more than %u different unknown fields", TD_LIMIT_UNKNOWN_FIELDS);
    td_unknown_field_t *u = room(x, x->unknown, x->n_unknown, &x->cap_unknown, sizeof *u);
    if (!u) return td_fail(err, TD_NOMEM, "out of memory for the list of unknown fields");
    x->unknown = u;
    u[x->n_unknown++] = (td_unknown_field_t){message, number, 1};
    return TD_OK;
}

static bool wire_type_fits(const ProtobufCFieldDescriptor *d, uint8_t type) {
    uint8_t own = td_proto_wire_type(d->type);
    return type == own || (d->label == PROTOBUF_C_LABEL_REPEATED && own != TD_WIRE_LEN && type == TD_WIRE_LEN);
}

/* Bytes per native element of a packed varint field; 0 = the bytes are native already. */
static size_t native_size(ProtobufCType t) {
    switch (t) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_UINT32: return 4;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT64: return 8;
    case PROTOBUF_C_TYPE_BOOL: return 1;
    default: return 0;
    }
}

static unsigned element_bytes(ProtobufCType t) {
    uint8_t w = td_proto_wire_type(t);
    return w == TD_WIRE_I64 ? 8 : w == TD_WIRE_I32 ? 4 : 1;
}

/* ---- payloads whose contents are not read ---- */

static td_status_t zeros(td_excise_t *x, uint64_t size, td_span_t *out, td_err_t *err) {
    if (!x->zeros) {
        void *p = mmap(NULL, TD_ZEROS_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED) return td_fail(err, TD_NOMEM, "no address space for %llu bytes", TD_ZEROS_BYTES);
        x->zeros = p;
    }
    *out = (td_span_t){x->zeros, (size_t)size};
    return TD_OK;
}

/* Its size is true, its bytes are so where they are few. */
static td_status_t apart(td_excise_t *x, td_feed_t *in, uint64_t n, td_span_t native, const td_payload_t **out,
                         td_err_t *err) {
    uint64_t size = native.data ? native.size : n;
    td_payload_t *p = TD_NEW(&x->apart, td_payload_t);
    size_t keep = size < TD_PAYLOAD_MAP_BYTES ? (size_t)size : TD_PAYLOAD_HEAD_BYTES;
    uint8_t head[TD_PAYLOAD_HEAD_BYTES], *bytes = keep == size ? td_arena_align(&x->apart, keep, 64) : head;
    if (!p || !bytes) return td_arena_fail(&x->apart, err);
    td_status_t s = TD_OK;
    if (native.data) memcpy(bytes, native.data, keep);
    else s = td_feed_get(in, bytes, keep, err);
    if (s == TD_OK && !native.data) s = td_feed_skip(in, n - keep, err);
    p->bytes = (td_span_t){bytes, keep};
    if (td_payload_seems_held(x->table, size, p->bytes)) x->held_bytes += td_payload_cost(size);
    if (s == TD_OK) p->hash = (td_hash_t){.lo = td_payload_head_hash(p->bytes)};
    if (s == TD_OK && keep != size) s = zeros(x, size, &p->bytes, err);
    *out = p;
    return s;
}

/* ---- payloads ---- */

static td_status_t copy_stream(td_payload_builder_t *b, td_feed_t *in, uint64_t n, td_err_t *err) {
    while (n) {
        td_status_t s = td_feed_more(in, err);
        if (s == TD_OK && !in->left) s = td_fail(err, TD_MALFORMED, "%" PRIu64 " bytes are missing at the end", n);
        size_t k = in->left < n ? in->left : (size_t)n;
        if (s == TD_OK) s = td_payload_write(b, in->at, k, err);
        if (s != TD_OK) return s;
        td_feed_take(in, k);
        n -= k;
    }
    return TD_OK;
}

/* Where the native elements of packed varints go: a payload, or memory while only their size is wanted. */
typedef struct natives {
    td_payload_builder_t *builder;
    td_buffer_t head; /* when contents are skipped: the first bytes */
    uint64_t size;
} natives_t;

static td_status_t natives_put(natives_t *t, const uint8_t *data, size_t n, td_err_t *err) {
    t->size += n;
    if (t->builder) return td_payload_write(t->builder, data, n, err);
    size_t k = TD_PAYLOAD_MAP_BYTES - t->head.size;
    return td_buffer_append(&t->head, data, k < n ? k : n, err);
}

static td_status_t decode_varints(td_feed_t *in, uint64_t n, size_t elem, natives_t *to, td_err_t *err) {
    uint8_t block[4096];
    size_t used = 0;
    uint64_t v = 0;
    unsigned bits = 0;
    td_status_t s = TD_OK;
    for (; n; n--) {
        if (!in->left && (s = td_feed_more(in, err)) != TD_OK) return s;
        if (!in->left) return td_fail(err, TD_MALFORMED, "%" PRIu64 " bytes are missing at the end", n);
        uint8_t b = *in->at;
        td_feed_take(in, 1);
        if (bits > 63 || (bits == 63 && b > 1)) return td_fail(err, TD_MALFORMED, "broken varint in a packed field");
        v |= (uint64_t)(b & 127) << bits;
        bits += 7;
        if (b & 128) continue;
        if (elem == 1) v = v != 0;
        memcpy(block + used, &v, elem); /* little-endian hosts only */
        used += elem;
        v = bits = 0;
        if (used == sizeof block && (s = natives_put(to, block, used, err)) != TD_OK) return s;
        used %= sizeof block;
    }
    if (bits) return td_fail(err, TD_MALFORMED, "broken varint in a packed field");
    return used ? natives_put(to, block, used, err) : TD_OK;
}

static td_status_t move_varints_apart(td_excise_t *x, td_feed_t *in, uint64_t n, size_t elem, const td_payload_t **out,
                                      td_err_t *err) {
    natives_t to = {0};
    td_buffer_init(&to.head, x->env.alloc);
    td_status_t s = td_buffer_reserve(&to.head, 1, err);
    if (s == TD_OK) s = decode_varints(in, n, elem, &to, err);
    if (s == TD_OK) s = apart(x, NULL, 0, (td_span_t){to.head.data, (size_t)to.size}, out, err);
    td_buffer_deinit(&to.head);
    return s;
}

static td_status_t build(td_excise_t *x, td_feed_t *in, uint64_t n, size_t elem, const td_payload_t **out,
                         td_err_t *err) {
    if (x->env.skips && elem) return move_varints_apart(x, in, n, elem, out, err);
    if (x->env.skips) return apart(x, in, n, (td_span_t){0}, out, err);
    td_payload_builder_t b;
    td_payload_begin(&b, x->table, x->charge, elem ? n * elem : n, !elem);
    natives_t to = {.builder = &b};
    td_status_t s = elem ? decode_varints(in, n, elem, &to, err) : copy_stream(&b, in, n, err);
    if (s == TD_OK) return td_payload_end(&b, out, err);
    td_payload_drop(&b);
    return s;
}

static td_status_t put_payload_field(td_buffer_t *out, uint32_t number, uint32_t id, td_err_t *err) {
    uint8_t b[20];
    size_t n = td_wire_put_varint(b, (uint64_t)number << 3 | TD_WIRE_VARINT);
    n += td_wire_put_varint(b + n, id);
    return td_buffer_append(out, b, n, err);
}

td_status_t td_excise_move(td_excise_t *x, const ProtobufCFieldDescriptor *d, td_feed_t *in, uint64_t n,
                           td_buffer_t *out, td_err_t *err) {
    const td_payload_t **p = room(x, x->payloads, x->n_payloads, &x->cap_payloads, sizeof *p);
    if (!p) return td_fail(err, TD_NOMEM, "out of memory for the payload list");
    x->payloads = p;
    td_status_t s = build(x, in, n, native_size(d->type), &p[x->n_payloads], err);
    if (s != TD_OK) return s;
    return put_payload_field(out, TD_PAYLOAD_FIELD_BASE + d->id, x->n_payloads++, err);
}

/* ---- the walk in memory ---- */

bool td_excise_is_movable(const td_seen_t *m, const ProtobufCFieldDescriptor *d) {
    return protobuf_c_message_descriptor_get_field(m->desc, TD_PAYLOAD_FIELD_BASE + d->id) != NULL;
}

/* Pieces of one packed field must not be spread over payload and message. */
td_status_t td_excise_moves(const td_seen_t *m, const ProtobufCFieldDescriptor *d, uint8_t type, uint64_t size,
                            bool *out_move, td_err_t *err) {
    uint64_t bit = 1ull << ((size_t)(d - m->desc->fields) & 63);
    bool move = type == TD_WIRE_LEN && size > TD_LIMIT_INLINE_BYTES;
    bool again = d->label == PROTOBUF_C_LABEL_REPEATED && ((*m->moved_seen & bit) || (move && (*m->inline_seen & bit)));
    bool replaced = d->label != PROTOBUF_C_LABEL_REPEATED && ((*m->moved_seen | *m->inline_seen) & bit);
    if (again || replaced) return td_fail(err, TD_MALFORMED, "%s.%s comes in several pieces", m->desc->name, d->name);
    *(move ? m->moved_seen : m->inline_seen) |= bit;
    *out_move = move;
    if (move && size % element_bytes(d->type))
        return td_fail(err, TD_MALFORMED, "%s.%s: %" PRIu64 " bytes are no whole number of %u-byte elements",
                       m->desc->name,
                       d->name, size, element_bytes(d->type));
    return TD_OK;
}

static td_status_t movable(td_excise_t *x, const td_seen_t *m, const ProtobufCFieldDescriptor *d,
                           const td_wire_field_t *f, td_buffer_t *out, td_err_t *err) {
    bool move = false;
    td_status_t s = td_excise_moves(m, d, f->type, f->bytes.size, &move, err);
    if (s != TD_OK) return s;
    if (!move) return td_buffer_append(out, f->whole.data, f->whole.size, err);
    td_feed_t in;
    td_feed_memory(&in, f->bytes);
    return td_excise_move(x, d, &in, f->bytes.size, out, err);
}

/* The length is known only afterwards, so it is written as a varint padded to five bytes. */
td_status_t td_excise_open(const ProtobufCFieldDescriptor *d, td_buffer_t *out, size_t *start, td_err_t *err) {
    uint8_t head[16];
    size_t n = td_wire_put_varint(head, (uint64_t)d->id << 3 | TD_WIRE_LEN);
    memset(head + n, 0, 5);
    td_status_t s = td_buffer_append(out, head, n + 5, err);
    *start = out->size;
    return s;
}
td_status_t td_excise_close(const ProtobufCFieldDescriptor *d, td_buffer_t *out, size_t start, td_err_t *err) {
    uint64_t len = out->size - start;
    if (len > INT32_MAX) return td_fail(err, TD_LIMIT, "message of %" PRIu64 " bytes in %s", len, d->name);
    for (unsigned i = 0; i < 5; i++)
        out->data[start - 5 + i] = (uint8_t)(((len >> (7 * i)) & 127) | (i < 4 ? 128 : 0));
    return TD_OK;
}

td_status_t td_excise_known(td_excise_t *x, const td_seen_t *m, uint32_t number, uint8_t type,
                            const ProtobufCFieldDescriptor **out, td_err_t *err) {
    if (number >= TD_PAYLOAD_FIELD_BASE)
        return td_fail(err, TD_MALFORMED, "field number %u in %s is reserved", number, m->desc->name);
    const ProtobufCFieldDescriptor *d = protobuf_c_message_descriptor_get_field(m->desc, number);
    *out = d;
    if (!d) return note_unknown(x, m->desc->name, number, err);
    if (!wire_type_fits(d, type))
        return td_fail(err, TD_MALFORMED, "%s.%s has wire type %u, expected %u", m->desc->name, d->name, type,
                       td_proto_wire_type(d->type));
    return TD_OK;
}

td_status_t td_excise_enter(td_excise_t *x, const ProtobufCMessageDescriptor *desc, unsigned depth, td_err_t *err) {
    if (depth > TD_LIMIT_PROTO_DEPTH)
        return td_fail(err, TD_LIMIT, "messages nest deeper than %d (in %s)", TD_LIMIT_PROTO_DEPTH, desc->name);
    if (++x->messages > TD_LIMIT_PROTO_MESSAGES)
        return td_fail(err, TD_LIMIT, "more than %u messages", TD_LIMIT_PROTO_MESSAGES);
    return TD_OK;
}

static td_status_t submessage(td_excise_t *x, const ProtobufCFieldDescriptor *d, td_span_t in, unsigned depth,
                              td_buffer_t *out, td_err_t *err) {
    uint64_t inline_seen = 0, moved_seen = 0;
    td_seen_t m = {d->descriptor, &inline_seen, &moved_seen};
    size_t start = 0;
    td_wire_field_t f;
    td_status_t s = td_excise_open(d, out, &start, err);
    if (s == TD_OK) s = td_excise_enter(x, m.desc, depth, err);
    while (s == TD_OK && in.size) {
        if (!td_wire_next(&in, &f))
            return td_fail(err, TD_MALFORMED, "broken field in %s, %zu bytes from its end", m.desc->name, in.size);
        s = td_excise_field(x, &m, &f, depth, out, err);
    }
    return s == TD_OK ? td_excise_close(d, out, start, err) : s;
}

td_status_t td_excise_field(td_excise_t *x, const td_seen_t *m, const td_wire_field_t *f, unsigned depth,
                            td_buffer_t *out, td_err_t *err) {
    const ProtobufCFieldDescriptor *d = NULL;
    td_status_t s = td_excise_known(x, m, f->number, f->type, &d, err);
    if (s != TD_OK) return s;
    if (d && d->type == PROTOBUF_C_TYPE_MESSAGE) return submessage(x, d, f->bytes, depth + 1, out, err);
    if (d && d->type == PROTOBUF_C_TYPE_STRING && f->bytes.size && memchr(f->bytes.data, 0, f->bytes.size))
        x->n_cut_strings++;
    if (d && td_excise_is_movable(m, d)) return movable(x, m, d, f, out, err);
    return td_buffer_append(out, f->whole.data, f->whole.size, err);
}
