/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/canonical.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "proto/wire.h"

bool td_proto_is_map(const ProtobufCMessageDescriptor *desc, const ProtobufCFieldDescriptor *d) {
    if (d->label != PROTOBUF_C_LABEL_REPEATED || d->type != PROTOBUF_C_TYPE_MESSAGE) return false;
    const ProtobufCMessageDescriptor *e = d->descriptor;
    size_t n = strlen(desc->name);
    if (e->n_fields != 2 || strcmp(e->fields[0].name, "key") != 0) return false;
    if (strcmp(e->fields[1].name, "value") != 0 || strncmp(e->name, desc->name, n) != 0) return false;
    const char *p = e->name + n;
    if (*p++ != '.') return false;
    bool upper = true;
    for (const char *f = d->name; *f; f++) {
        if (*f == '_') {
            upper = true;
            continue;
        }
        if (*p++ != (upper ? toupper((unsigned char)*f) : *f)) return false;
        upper = false;
    }
    return strcmp(p, "Entry") == 0;
}

uint8_t td_proto_wire_type(ProtobufCType t) {
    switch (t) {
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT: return TD_WIRE_I32;
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE: return TD_WIRE_I64;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE: return TD_WIRE_LEN;
    default: return TD_WIRE_VARINT;
    }
}

uint64_t td_proto_varint(ProtobufCType t, uint64_t v) {
    switch (t) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_ENUM: return (uint64_t)(int64_t)(int32_t)(uint32_t)v;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_SINT32: return (uint32_t)v;
    case PROTOBUF_C_TYPE_BOOL: return v != 0;
    default: return v;
    }
}

typedef struct entry {
    td_wire_field_t f;
    size_t order;
} entry_t;

static int by_number(const void *pa, const void *pb) {
    const entry_t *a = pa, *b = pb;
    if (a->f.number != b->f.number) return a->f.number < b->f.number ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

static td_status_t put_varint(td_buffer_t *out, uint64_t v, td_err_t *err) {
    uint8_t b[10];
    return td_buffer_append(out, b, td_wire_put_varint(b, v), err);
}
static td_status_t put_tag(td_buffer_t *out, uint32_t number, uint8_t type, td_err_t *err) {
    return put_varint(out, (uint64_t)number << 3 | type, err);
}

/* Puts the length of what was appended since start in front of it. */
static td_status_t close_length(td_buffer_t *out, size_t start, td_err_t *err) {
    uint8_t b[10];
    size_t len = out->size - start, n = td_wire_put_varint(b, len);
    td_status_t s = td_buffer_reserve(out, n, err);
    if (s != TD_OK) return s;
    memmove(out->data + start + n, out->data + start, len);
    memcpy(out->data + start, b, n);
    out->size += n;
    return TD_OK;
}

static td_status_t put_value(const ProtobufCFieldDescriptor *d, uint64_t v, td_buffer_t *out, td_err_t *err) {
    uint8_t type = td_proto_wire_type(d->type);
    if (type == TD_WIRE_VARINT) return put_varint(out, td_proto_varint(d->type, v), err);
    return td_buffer_append(out, &v, type == TD_WIRE_I64 ? 8 : 4, err); /* little-endian hosts only */
}

/* Every element of a repeated scalar, from packed pieces and single values alike. */
static td_status_t put_elements(const ProtobufCFieldDescriptor *d, const td_wire_field_t *f, bool packed,
                                td_buffer_t *out, td_err_t *err) {
    uint8_t own = td_proto_wire_type(d->type);
    td_span_t in = f->bytes;
    bool single = f->type != TD_WIRE_LEN;
    td_status_t s = TD_OK;
    while (s == TD_OK && (single || in.size)) {
        uint64_t v = f->value;
        size_t n = own == TD_WIRE_I64 ? 8 : 4;
        if (!single && own == TD_WIRE_VARINT) {
            if (!td_wire_varint(&in, &v)) return td_fail(err, TD_MALFORMED, "%s: broken varint", d->name);
        } else if (!single) {
            if (in.size < n) return td_fail(err, TD_MALFORMED, "%s: %zu bytes of an element", d->name, in.size);
            v = 0;
            memcpy(&v, in.data, n);
            in.data += n;
            in.size -= n;
        }
        if (!packed) s = put_tag(out, d->id, own, err);
        if (s == TD_OK) s = put_value(d, v, out, err);
        if (single) break;
    }
    return s;
}

static td_status_t message(const ProtobufCMessageDescriptor *desc, td_span_t in, unsigned depth, td_buffer_t *out,
                           td_err_t *err);

static td_status_t repeated_scalar(const ProtobufCFieldDescriptor *d, const entry_t *e, size_t n, td_buffer_t *out,
                                   td_err_t *err) {
    bool packed = (d->flags & PROTOBUF_C_FIELD_FLAG_PACKED) != 0;
    bool any = false;
    for (size_t i = 0; i < n; i++) any |= e[i].f.type != TD_WIRE_LEN || e[i].f.bytes.size > 0;
    if (!any) return TD_OK;
    td_status_t s = packed ? put_tag(out, d->id, TD_WIRE_LEN, err) : TD_OK;
    size_t start = out->size;
    for (size_t i = 0; s == TD_OK && i < n; i++) s = put_elements(d, &e[i].f, packed, out, err);
    return s == TD_OK && packed ? close_length(out, start, err) : s;
}

static td_status_t one_message(const ProtobufCFieldDescriptor *d, td_span_t in, unsigned depth, td_buffer_t *out,
                               td_err_t *err) {
    td_status_t s = put_tag(out, d->id, TD_WIRE_LEN, err);
    size_t start = out->size;
    if (s == TD_OK) s = message(d->descriptor, in, depth + 1, out, err);
    return s == TD_OK ? close_length(out, start, err) : s;
}

/* Pieces of a singular message are one message. */
static td_status_t merged(const ProtobufCFieldDescriptor *d, const entry_t *e, size_t n, unsigned depth,
                          td_buffer_t *out, td_err_t *err) {
    if (n == 1) return one_message(d, e->f.bytes, depth, out, err);
    td_buffer_t all;
    td_buffer_init(&all, out->alloc);
    td_status_t s = TD_OK;
    for (size_t i = 0; s == TD_OK && i < n; i++) s = td_buffer_append(&all, e[i].f.bytes.data, e[i].f.bytes.size, err);
    if (s == TD_OK) s = one_message(d, td_buffer_span(&all), depth, out, err);
    td_buffer_deinit(&all);
    return s;
}

typedef struct map_entry {
    td_span_t whole;
    td_wire_field_t key; /* the first field of the canonical entry; zero if absent */
    size_t order;
} map_entry_t;

/* Strings by their bytes, integers by their value. */
static int compare_keys(const td_wire_field_t *a, const td_wire_field_t *b) {
    size_t n = a->bytes.size < b->bytes.size ? a->bytes.size : b->bytes.size;
    int c = n ? memcmp(a->bytes.data, b->bytes.data, n) : 0;
    if (c) return c;
    if (a->bytes.size != b->bytes.size) return a->bytes.size < b->bytes.size ? -1 : 1;
    int64_t x = (int64_t)a->value, y = (int64_t)b->value;
    return (x > y) - (x < y);
}

static int by_key(const void *pa, const void *pb) {
    const map_entry_t *a = pa, *b = pb;
    int c = compare_keys(&a->key, &b->key);
    return c ? c : a->order < b->order ? -1 : 1;
}

static td_status_t sort_map(td_span_t in, size_t n, td_buffer_t *out, td_err_t *err) {
    map_entry_t *m = calloc(n, sizeof *m);
    if (!m) return td_fail(err, TD_NOMEM, "out of memory for a map of %zu entries", n);
    td_wire_field_t f, key;
    for (size_t i = 0; i < n && in.size && td_wire_next(&in, &f); i++) {
        m[i] = (map_entry_t){.whole = f.whole, .order = i};
        td_span_t body = f.bytes;
        if (body.size && td_wire_next(&body, &key) && key.number == 1) m[i].key = key;
    }
    qsort(m, n, sizeof *m, by_key);
    td_status_t s = TD_OK;
    for (size_t i = 0; s == TD_OK && i < n; i++) {
        bool again = i + 1 < n && compare_keys(&m[i].key, &m[i + 1].key) == 0;
        if (!again) s = td_buffer_append(out, m[i].whole.data, m[i].whole.size, err);
    }
    free(m);
    return s;
}

static td_status_t map(const ProtobufCFieldDescriptor *d, const entry_t *e, size_t n, unsigned depth, td_buffer_t *out,
                       td_err_t *err) {
    td_buffer_t tmp;
    td_buffer_init(&tmp, out->alloc);
    td_status_t s = TD_OK;
    for (size_t i = 0; s == TD_OK && i < n; i++) s = one_message(d, e[i].f.bytes, depth, &tmp, err);
    if (s == TD_OK) s = sort_map(td_buffer_span(&tmp), n, out, err);
    td_buffer_deinit(&tmp);
    return s;
}

/* All occurrences of one field. */
static td_status_t field(const ProtobufCMessageDescriptor *desc, const entry_t *e, size_t n, unsigned depth,
                         td_buffer_t *out, td_err_t *err) {
    const ProtobufCFieldDescriptor *d = protobuf_c_message_descriptor_get_field(desc, e->f.number);
    td_status_t s = TD_OK;
    if (!d) {
        for (size_t i = 0; s == TD_OK && i < n; i++)
            s = td_buffer_append(out, e[i].f.whole.data, e[i].f.whole.size, err);
        return s;
    }
    uint8_t own = td_proto_wire_type(d->type);
    bool repeated = d->label == PROTOBUF_C_LABEL_REPEATED;
    for (size_t i = 0; i < n; i++)
        if (e[i].f.type != own && !(repeated && own != TD_WIRE_LEN && e[i].f.type == TD_WIRE_LEN))
            return td_fail(err, TD_MALFORMED, "%s.%s has wire type %u, expected %u", desc->name, d->name, e[i].f.type,
                           own);
    if (own != TD_WIRE_LEN && repeated) return repeated_scalar(d, e, n, out, err);
    if (d->type == PROTOBUF_C_TYPE_MESSAGE && !repeated) return merged(d, e, n, depth, out, err);
    if (td_proto_is_map(desc, d)) return map(d, e, n, depth, out, err);
    for (size_t i = repeated ? 0 : n - 1; s == TD_OK && i < n; i++) {
        if (d->type == PROTOBUF_C_TYPE_MESSAGE) {
            s = one_message(d, e[i].f.bytes, depth, out, err);
            continue;
        }
        s = put_tag(out, d->id, own, err);
        if (s == TD_OK && own != TD_WIRE_LEN) s = put_value(d, e[i].f.value, out, err);
        else if (s == TD_OK) s = put_varint(out, e[i].f.bytes.size, err);
        if (s == TD_OK && own == TD_WIRE_LEN) s = td_buffer_append(out, e[i].f.bytes.data, e[i].f.bytes.size, err);
    }
    return s;
}

static td_status_t message(const ProtobufCMessageDescriptor *desc, td_span_t in, unsigned depth, td_buffer_t *out,
                           td_err_t *err) {
    if (depth > TD_LIMIT_PROTO_DEPTH)
        return td_fail(err, TD_LIMIT, "messages nest deeper than %d", TD_LIMIT_PROTO_DEPTH);
    td_buffer_t list;
    td_buffer_init(&list, out->alloc);
    td_status_t s = TD_OK;
    size_t n = 0;
    bool sorted = true;
    while (s == TD_OK && in.size) {
        entry_t e = {.order = n};
        if (!td_wire_next(&in, &e.f)) {
            s = td_fail(err, TD_MALFORMED, "broken field in %s, %zu bytes from its end", desc->name, in.size);
            break;
        }
        if (n) sorted &= ((entry_t *)(void *)list.data)[n - 1].f.number <= e.f.number;
        s = td_buffer_append(&list, &e, sizeof e, err);
        n++;
    }
    entry_t *e = (entry_t *)(void *)list.data;
    if (s == TD_OK && !sorted) qsort(e, n, sizeof *e, by_number);
    for (size_t i = 0, k; s == TD_OK && i < n; i = k) {
        for (k = i + 1; k < n && e[k].f.number == e[i].f.number;) k++;
        s = field(desc, e + i, k - i, depth, out, err);
    }
    td_buffer_deinit(&list);
    return s;
}

td_status_t td_canonical(const ProtobufCMessageDescriptor *desc, td_span_t in, td_buffer_t *out, td_err_t *err) {
    return message(desc, in, 0, out, err);
}
