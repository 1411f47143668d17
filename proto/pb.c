/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/pb.h"

#include <stdlib.h>
#include <string.h>

#include "proto/wire.h"

/* Twice the room, or as much as is needed: exact where the size is known beforehand. */
static bool grow(td_pb_t *b, size_t more, bool *out_refused) {
    if (more > SIZE_MAX / 2 - b->size) return false;
    size_t cap = b->capacity < SIZE_MAX / 4 ? 2 * b->capacity : 0;
    if (cap < 256) cap = 256;
    if (cap < b->size + more) cap = b->size + more;
    size_t growth = cap - b->capacity;
    if (!td_charge_take(b->charge, growth)) {
        *out_refused = true;
        return false;
    }
    uint8_t *p = realloc(b->data, cap);
    if (!p) {
        td_charge_give(b->charge, growth);
        return false;
    }
    b->data = p;
    b->capacity = cap;
    if (b->charge) b->charged += growth;
    return true;
}

bool td_pb_try(td_pb_t *b, size_t more) {
    bool refused = false;
    return !b->failed && (more <= b->capacity - b->size || grow(b, more, &refused));
}

void td_pb_reserve(td_pb_t *b, size_t more) {
    if (b->failed || more <= b->capacity - b->size) return;
    b->failed = !grow(b, more, &b->refused);
}

void td_pb_raw(td_pb_t *b, const void *data, size_t size) {
    if (!size) return;
    td_pb_reserve(b, size);
    if (b->failed) return;
    memcpy(b->data + b->size, data, size);
    b->size += size;
}

static void raw_varint(td_pb_t *b, uint64_t v) {
    uint8_t p[10];
    td_pb_raw(b, p, td_wire_put_varint(p, v));
}

void td_pb_tag_len(td_pb_t *b, uint32_t field, size_t size) {
    raw_varint(b, (uint64_t)field << 3 | TD_WIRE_LEN);
    raw_varint(b, size);
}

void td_pb_varint(td_pb_t *b, uint32_t field, uint64_t v) {
    raw_varint(b, (uint64_t)field << 3);
    raw_varint(b, v);
}

void td_pb_bytes(td_pb_t *b, uint32_t field, const void *data, size_t size) {
    td_pb_tag_len(b, field, size);
    td_pb_raw(b, data, size);
}

void td_pb_string(td_pb_t *b, uint32_t field, const char *s) {
    if (s && *s) td_pb_bytes(b, field, s, strlen(s));
}

void td_pb_packed_i64(td_pb_t *b, uint32_t field, const int64_t *v, uint32_t n) {
    td_pb_t inner = {0};
    for (uint32_t i = 0; i < n; i++) raw_varint(&inner, (uint64_t)v[i]);
    if (n) td_pb_message(b, field, &inner);
}

void td_pb_message(td_pb_t *b, uint32_t field, td_pb_t *inner) {
    td_pb_bytes(b, field, inner->data, inner->size);
    b->failed |= inner->failed;
    td_pb_free(inner);
}

void td_pb_free(td_pb_t *b) {
    free(b->data);
    if (b->charged) td_charge_give(b->charge, b->charged);
    *b = (td_pb_t){0};
}
