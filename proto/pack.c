/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/pack.h"

#include <inttypes.h>
#include <string.h>

#include "base/checked.h"
#include "base/limits.h"
#include "proto/excise.h"
#include "proto/wire.h"

/* Two passes over the packed bytes: measure notes the new size of every message that changes, emit uses it. */
typedef struct packing {
    const td_payload_t *const *payloads;
    uint32_t n_payloads;
    td_rope_t *out;
    uint64_t *sizes; /* of messages below the top, in the order of the walk; UNCHANGED where nothing moves */
    size_t n_sizes, cap_sizes, next;
} packing_t;

#define UNCHANGED UINT64_MAX
enum { MOVED_MAX = 64 }; /* fields of one message that may be payloads; literals have 32 */

/* A payload field of one message and the field it stands for. */
typedef struct moved {
    const ProtobufCFieldDescriptor *field;
    td_span_t bytes;
    uint64_t size; /* of the value on the wire */
} moved_t;

static unsigned varint_size(uint64_t v) {
    unsigned n = 1;
    while (v > 127) v >>= 7, n++;
    return n;
}

/* Element i of a payload that excise decoded from packed varints, as the wire's 64-bit value. */
static uint64_t element(ProtobufCType t, const uint8_t *p, size_t i) {
    int32_t s;
    uint32_t u;
    uint64_t v;
    switch (t) {
    case PROTOBUF_C_TYPE_INT32: return memcpy(&s, p + 4 * i, 4), (uint64_t)(int64_t)s;
    case PROTOBUF_C_TYPE_UINT32: return memcpy(&u, p + 4 * i, 4), u;
    default: return memcpy(&v, p + 8 * i, 8), v;
    }
}
/* Bytes per element where the payload is not the wire's bytes; 0 where it is (bool's bytes are its varints). */
static size_t decoded_size(ProtobufCType t) {
    switch (t) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_UINT32: return 4;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT64: return 8;
    default: return 0;
    }
}

static uint64_t value_size(const ProtobufCFieldDescriptor *d, td_span_t bytes) {
    size_t elem = decoded_size(d->type);
    uint64_t n = 0;
    if (!elem) return bytes.size;
    for (size_t i = 0; i < bytes.size / elem; i++) n += varint_size(element(d->type, bytes.data, i));
    return n;
}

static void put_value(td_rope_t *out, const moved_t *m) {
    td_rope_tag_len(out, m->field->id, m->size);
    size_t elem = decoded_size(m->field->type);
    if (!elem) {
        td_rope_ref(out, m->bytes);
        return;
    }
    uint8_t *p = td_rope_room(out, (size_t)m->size);
    if (!p) return;
    for (size_t i = 0; i < m->bytes.size / elem; i++)
        p += td_wire_put_varint(p, element(m->field->type, m->bytes.data, i));
}

/* The payload fields of a message. */
static td_status_t find_moved(const packing_t *k, const ProtobufCMessageDescriptor *desc, td_span_t in, moved_t *out,
                              unsigned *out_n, td_err_t *err) {
    td_wire_field_t f;
    *out_n = 0;
    while (in.size) {
        if (!td_wire_next(&in, &f)) return td_fail(err, TD_INTERNAL, "broken field in a packed %s", desc->name);
        if (f.number < TD_PAYLOAD_FIELD_BASE) continue;
        uint32_t number = f.number - TD_PAYLOAD_FIELD_BASE;
        const ProtobufCFieldDescriptor *d = protobuf_c_message_descriptor_get_field(desc, number);
        if (!d || f.value >= k->n_payloads || *out_n == MOVED_MAX)
            return td_fail(err, TD_MALFORMED, "%s: field %u names payload %" PRIu64 " of %u", desc->name, f.number,
                           f.value, k->n_payloads);
        moved_t *m = &out[(*out_n)++];
        *m = (moved_t){.field = d, .bytes = k->payloads[f.value]->bytes};
        m->size = value_size(d, m->bytes);
        if (m->size > INT32_MAX)
            return td_fail(err, TD_LIMIT, "%s.%s: %" PRIu64 " bytes", desc->name, d->name, m->size);
    }
    return TD_OK;
}

static td_status_t note_size(packing_t *k, size_t *out_index, td_err_t *err) {
    if (k->n_sizes == k->cap_sizes) {
        size_t cap = k->cap_sizes ? k->cap_sizes * 2 : 256;
        uint64_t *p = (uint64_t *)(void *)td_rope_scratch(k->out, cap * sizeof *p);
        if (!p) return td_rope_status(k->out, err);
        if (k->n_sizes) memcpy(p, k->sizes, k->n_sizes * sizeof *p);
        k->sizes = p;
        k->cap_sizes = cap;
    }
    *out_index = k->n_sizes++;
    return TD_OK;
}

static const ProtobufCFieldDescriptor *message_field(const ProtobufCMessageDescriptor *desc, const td_wire_field_t *f) {
    const ProtobufCFieldDescriptor *d = protobuf_c_message_descriptor_get_field(desc, f->number);
    return d && d->type == PROTOBUF_C_TYPE_MESSAGE && f->type == TD_WIRE_LEN ? d : NULL;
}

/* *out_size: the message's size with payloads in place; *out_changed: does it differ anywhere? */
static td_status_t measure(packing_t *k, const ProtobufCMessageDescriptor *desc, td_span_t in, unsigned depth,
                           uint64_t *out_size, bool *out_changed, td_err_t *err) {
    moved_t moved[MOVED_MAX];
    unsigned n;
    if (depth > TD_LIMIT_PROTO_DEPTH)
        return td_fail(err, TD_LIMIT, "messages nest deeper than %d", TD_LIMIT_PROTO_DEPTH);
    td_status_t s = find_moved(k, desc, in, moved, &n, err);
    uint64_t size = 0;
    bool changed = n > 0;
    for (unsigned i = 0; i < n; i++)
        size += varint_size((uint64_t)moved[i].field->id << 3) + varint_size(moved[i].size) + moved[i].size;
    td_wire_field_t f;
    while (s == TD_OK && in.size && td_wire_next(&in, &f)) {
        const ProtobufCFieldDescriptor *d = message_field(desc, &f);
        if (f.number >= TD_PAYLOAD_FIELD_BASE) continue;
        if (!d) {
            size += f.whole.size;
            continue;
        }
        size_t index = 0;
        uint64_t sub = 0;
        bool differs = false;
        if ((s = note_size(k, &index, err)) != TD_OK) break;
        if ((s = measure(k, d->descriptor, f.bytes, depth + 1, &sub, &differs, err)) != TD_OK) break;
        k->sizes[index] = differs ? sub : UNCHANGED;
        if (!differs) k->n_sizes = index + 1; /* emit takes the whole of it at once */
        changed |= differs;
        size += differs ? varint_size((uint64_t)f.number << 3) + varint_size(sub) + sub : f.whole.size;
    }
    *out_size = size;
    *out_changed = changed;
    return s;
}

static td_status_t emit(packing_t *k, const ProtobufCMessageDescriptor *desc, td_span_t in, td_err_t *err) {
    moved_t moved[MOVED_MAX];
    unsigned n, next = 0;
    td_status_t s = find_moved(k, desc, in, moved, &n, err);
    td_wire_field_t f;
    while (s == TD_OK && in.size && td_wire_next(&in, &f)) {
        bool known = protobuf_c_message_descriptor_get_field(desc, f.number) && f.number < TD_PAYLOAD_FIELD_BASE;
        while (next < n && (!known || moved[next].field->id < f.number)) put_value(k->out, &moved[next++]);
        const ProtobufCFieldDescriptor *d = message_field(desc, &f);
        if (f.number >= TD_PAYLOAD_FIELD_BASE) continue;
        uint64_t size = d ? k->sizes[k->next++] : UNCHANGED;
        if (size == UNCHANGED) {
            td_rope_ref(k->out, f.whole);
        } else {
            td_rope_tag_len(k->out, f.number, size);
            s = emit(k, d->descriptor, f.bytes, err);
        }
    }
    while (s == TD_OK && next < n) put_value(k->out, &moved[next++]);
    return s;
}

td_status_t td_pack(const ProtobufCMessage *m, const td_payload_t *const *payloads, uint32_t n_payloads, td_rope_t *out,
                    td_err_t *err) {
    packing_t k = {.payloads = payloads, .n_payloads = n_payloads, .out = out};
    size_t n = protobuf_c_message_get_packed_size(m);
    uint8_t *buf = td_rope_scratch(out, n);
    if (!buf) return td_rope_status(out, err);
    td_span_t packed = {buf, protobuf_c_message_pack(m, buf)};
    uint64_t size = 0;
    bool changed = false;
    td_status_t s = measure(&k, m->descriptor, packed, 0, &size, &changed, err);
    if (s == TD_OK && size > TD_LIMIT_ARTIFACT_BYTES)
        s = td_fail(err, TD_LIMIT, "%s: %" PRIu64 " bytes, at most %llu", m->descriptor->name, size,
                    TD_LIMIT_ARTIFACT_BYTES);
    uint64_t before = out->size;
    if (s == TD_OK) s = emit(&k, m->descriptor, packed, err);
    if (s == TD_OK) s = td_rope_status(out, err);
    if (s == TD_OK && out->size - before != size)
        s = td_fail(err, TD_INTERNAL, "%s: %" PRIu64 " bytes written, %" PRIu64 " announced", m->descriptor->name,
                    out->size - before, size);
    return s;
}
