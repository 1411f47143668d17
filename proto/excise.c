/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/excise.h"

#include <inttypes.h>
#include <string.h>

#include "base/checked.h"
#include "base/limits.h"
#include "proto/canonical.h"
#include "proto/wire.h"

void td_excise_init(td_excise_t *x, td_payload_table_t *table, const td_alloc_t *alloc) {
    *x = (td_excise_t){.table = table, .alloc = alloc};
}
void td_excise_deinit(td_excise_t *x) {
    for (uint32_t i = 0; i < x->n_payloads; i++) td_payload_release(x->table, x->payloads[i]);
    if (x->alloc) {
        x->alloc->put(x->alloc->ctx, x->payloads, x->cap_payloads * sizeof *x->payloads);
        x->alloc->put(x->alloc->ctx, x->unknown, x->cap_unknown * sizeof *x->unknown);
    }
    *x = (td_excise_t){0};
}

/* Room for one more element in a list owned by x. */
static void *room(td_excise_t *x, void *list, uint32_t n, uint32_t *cap, size_t elem) {
    if (n < *cap) return list;
    uint32_t want = *cap ? *cap * 2 : 16;
    void *p = x->alloc->get(x->alloc->ctx, want * elem, 16);
    if (!p) return NULL;
    if (n) memcpy(p, list, n * elem);
    x->alloc->put(x->alloc->ctx, list, *cap * elem);
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

static td_status_t add_payload(td_excise_t *x, td_span_t bytes, uint32_t *out_id, td_err_t *err) {
    const td_payload_t **p = room(x, x->payloads, x->n_payloads, &x->cap_payloads, sizeof *p);
    if (!p) return td_fail(err, TD_NOMEM, "out of memory for the payload list");
    x->payloads = p;
    td_status_t s = td_payload_intern(x->table, bytes, &p[x->n_payloads], err);
    if (s == TD_OK) *out_id = x->n_payloads++;
    return s;
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

static td_status_t decode_varints(td_span_t in, size_t elem, td_buffer_t *out, td_err_t *err) {
    size_t count = 0;
    for (size_t i = 0; i < in.size; i++) count += !(in.data[i] & 128);
    td_status_t s = td_buffer_reserve(out, count * elem, err);
    while (s == TD_OK && in.size) {
        uint64_t v;
        if (!td_wire_varint(&in, &v)) return td_fail(err, TD_MALFORMED, "broken varint in a packed field");
        if (elem == 1) v = v != 0;
        memcpy(out->data + out->size, &v, elem); /* little-endian hosts only */
        out->size += elem;
    }
    return s;
}

typedef struct message {
    const ProtobufCMessageDescriptor *desc;
    uint64_t inline_seen, moved_seen; /* by field index, of fields that may be moved */
} message_t;

static td_status_t put_payload_field(td_buffer_t *out, uint32_t number, uint32_t id, td_err_t *err) {
    uint8_t b[20];
    size_t n = td_wire_put_varint(b, (uint64_t)number << 3 | TD_WIRE_VARINT);
    n += td_wire_put_varint(b + n, id);
    return td_buffer_append(out, b, n, err);
}

/* A field that may be moved. Pieces of one packed field must not be spread over payload and message. */
static td_status_t movable(td_excise_t *x, message_t *m, const ProtobufCFieldDescriptor *d, const td_wire_field_t *f,
                           td_buffer_t *out, td_err_t *err) {
    uint64_t bit = 1ull << ((size_t)(d - m->desc->fields) & 63);
    bool move = f->type == TD_WIRE_LEN && f->bytes.size > TD_LIMIT_INLINE_BYTES;
    bool again = d->label == PROTOBUF_C_LABEL_REPEATED && ((m->moved_seen & bit) || (move && (m->inline_seen & bit)));
    bool replaced = d->label != PROTOBUF_C_LABEL_REPEATED && ((m->moved_seen | m->inline_seen) & bit);
    if (again || replaced) return td_fail(err, TD_MALFORMED, "%s.%s comes in several pieces", m->desc->name, d->name);
    *(move ? &m->moved_seen : &m->inline_seen) |= bit;
    if (!move) return td_buffer_append(out, f->whole.data, f->whole.size, err);
    size_t elem = native_size(d->type);
    unsigned fixed = td_proto_wire_type(d->type) == TD_WIRE_I64 ? 8 : td_proto_wire_type(d->type) == TD_WIRE_I32 ? 4 : 1;
    if (f->bytes.size % fixed)
        return td_fail(err, TD_MALFORMED, "%s.%s: %zu bytes are no whole number of %u-byte elements", m->desc->name, d->name, f->bytes.size, fixed);
    uint32_t id = 0;
    td_status_t s;
    if (elem) {
        td_buffer_t tmp;
        td_buffer_init(&tmp, x->alloc);
        s = decode_varints(f->bytes, elem, &tmp, err);
        if (s == TD_OK) s = add_payload(x, td_buffer_span(&tmp), &id, err);
        td_buffer_deinit(&tmp);
    } else {
        s = add_payload(x, f->bytes, &id, err);
    }
    return s == TD_OK ? put_payload_field(out, TD_PAYLOAD_FIELD_BASE + d->id, id, err) : s;
}

static td_status_t walk(td_excise_t *x, const ProtobufCMessageDescriptor *desc, td_span_t in, unsigned depth, td_buffer_t *out,
                        td_err_t *err);

/* The length is known only afterwards, so it is written as a varint padded to five bytes. */
static td_status_t submessage(td_excise_t *x, const ProtobufCFieldDescriptor *d, const td_wire_field_t *f, unsigned depth,
                              td_buffer_t *out, td_err_t *err) {
    uint8_t head[16];
    size_t n = td_wire_put_varint(head, (uint64_t)d->id << 3 | TD_WIRE_LEN);
    memset(head + n, 0, 5);
    td_status_t s = td_buffer_append(out, head, n + 5, err);
    if (s != TD_OK) return s;
    size_t start = out->size;
    s = walk(x, d->descriptor, f->bytes, depth + 1, out, err);
    if (s != TD_OK) return s;
    uint64_t len = out->size - start;
    if (len > INT32_MAX) return td_fail(err, TD_LIMIT, "message of %" PRIu64 " bytes in %s", len, d->name);
    for (unsigned i = 0; i < 5; i++) out->data[start - 5 + i] = (uint8_t)(((len >> (7 * i)) & 127) | (i < 4 ? 128 : 0));
    return TD_OK;
}

static td_status_t one_field(td_excise_t *x, message_t *m, const td_wire_field_t *f, unsigned depth, td_buffer_t *out, td_err_t *err) {
    if (f->number >= TD_PAYLOAD_FIELD_BASE)
        return td_fail(err, TD_MALFORMED, "field number %u in %s is reserved", f->number, m->desc->name);
    const ProtobufCFieldDescriptor *d = protobuf_c_message_descriptor_get_field(m->desc, f->number);
    td_status_t s;
    if (!d) {
        s = note_unknown(x, m->desc->name, f->number, err);
        return s == TD_OK ? td_buffer_append(out, f->whole.data, f->whole.size, err) : s;
    }
    if (!wire_type_fits(d, f->type))
        return td_fail(err, TD_MALFORMED, "%s.%s has wire type %u, expected %u", m->desc->name, d->name, f->type, td_proto_wire_type(d->type));
    if (d->type == PROTOBUF_C_TYPE_MESSAGE) return submessage(x, d, f, depth, out, err);
    if (d->type == PROTOBUF_C_TYPE_STRING && f->bytes.size && memchr(f->bytes.data, 0, f->bytes.size)) x->n_cut_strings++;
    if (protobuf_c_message_descriptor_get_field(m->desc, TD_PAYLOAD_FIELD_BASE + d->id)) return movable(x, m, d, f, out, err);
    return td_buffer_append(out, f->whole.data, f->whole.size, err);
}

static td_status_t walk(td_excise_t *x, const ProtobufCMessageDescriptor *desc, td_span_t in, unsigned depth, td_buffer_t *out,
                        td_err_t *err) {
    if (depth > TD_LIMIT_PROTO_DEPTH)
        return td_fail(err, TD_LIMIT, "messages nest deeper than %d (in %s)", TD_LIMIT_PROTO_DEPTH, desc->name);
    if (++x->messages > TD_LIMIT_PROTO_MESSAGES) return td_fail(err, TD_LIMIT, "more than %u messages", TD_LIMIT_PROTO_MESSAGES);
    message_t m = {.desc = desc};
    td_wire_field_t f;
    while (in.size) {
        if (!td_wire_next(&in, &f)) return td_fail(err, TD_MALFORMED, "broken field in %s, %zu bytes from its end", desc->name, in.size);
        td_status_t s = one_field(x, &m, &f, depth, out, err);
        if (s != TD_OK) return s;
    }
    return TD_OK;
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

td_status_t td_excise_unpack(td_excise_t *x, const ProtobufCMessageDescriptor *desc, td_span_t wire, td_arena_t *arena,
                             ProtobufCMessage **out, td_err_t *err) {
    td_buffer_t buf;
    td_buffer_init(&buf, x->alloc);
    td_status_t s = walk(x, desc, wire, 0, &buf, err);
    if (s == TD_OK) {
        unpacking_t u = {arena, 0};
        ProtobufCAllocator a = {arena_alloc, arena_free, &u};
        static const uint8_t nothing[1] = {0};
        ProtobufCMessage *m = protobuf_c_message_unpack(desc, &a, buf.size, buf.size ? buf.data : nothing);
        if (m) *out = m;
        else if (u.refused)
            s = td_fail(err, TD_LIMIT, "%s: %zu wire bytes need more than the %zu bytes of memory allowed for them", desc->name, wire.size,
                        arena->budget_bytes);
        else s = td_fail(err, TD_MALFORMED, "cannot unpack %s from %zu bytes", desc->name, buf.size);
    }
    td_buffer_deinit(&buf);
    return s;
}
