/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire.h"

#include <string.h>

bool td_wire_varint(td_span_t *in, uint64_t *out) {
    uint64_t v = 0;
    for (unsigned i = 0; i < 10 && i < in->size; i++) {
        uint8_t b = in->data[i];
        if (i == 9 && b > 1) return false;
        v |= (uint64_t)(b & 127) << (7 * i);
        if (!(b & 128)) {
            in->data += i + 1;
            in->size -= i + 1;
            *out = v;
            return true;
        }
    }
    return false;
}

static bool fixed(td_span_t *in, size_t n, uint64_t *out) {
    if (in->size < n) return false;
    uint64_t v = 0;
    memcpy(&v, in->data, n); /* little-endian hosts only */
    *out = v;
    in->data += n;
    in->size -= n;
    return true;
}

bool td_wire_next(td_span_t *in, td_wire_field_t *out) {
    td_span_t s = *in;
    uint64_t tag;
    if (!td_wire_varint(&s, &tag) || tag > UINT32_MAX || tag >> 3 == 0) return false;
    td_wire_field_t f = {.number = (uint32_t)(tag >> 3), .type = (uint8_t)(tag & 7)};
    switch (f.type) {
    case TD_WIRE_VARINT:
        if (!td_wire_varint(&s, &f.value)) return false;
        break;
    case TD_WIRE_I64:
        if (!fixed(&s, 8, &f.value)) return false;
        break;
    case TD_WIRE_I32:
        if (!fixed(&s, 4, &f.value)) return false;
        break;
    case TD_WIRE_LEN: {
        uint64_t n;
        if (!td_wire_varint(&s, &n) || n > s.size || n > INT32_MAX) return false;
        f.bytes = (td_span_t){s.data, (size_t)n};
        s.data += n;
        s.size -= (size_t)n;
        break;
    }
    default: return false;
    }
    f.whole = (td_span_t){in->data, in->size - s.size};
    *in = s;
    *out = f;
    return true;
}

bool td_wire_scan(td_span_t in, uint32_t number, td_span_t *out_field) {
    td_span_t found = {0};
    td_wire_field_t f;
    while (in.size) {
        if (!td_wire_next(&in, &f)) return false;
        if (f.number == number && f.type == TD_WIRE_LEN) found = f.bytes;
    }
    if (out_field) *out_field = found;
    return true;
}

size_t td_wire_put_varint(uint8_t *p, uint64_t v) {
    size_t n = 0;
    while (v > 127) {
        p[n++] = (uint8_t)(v | 128);
        v >>= 7;
    }
    p[n++] = (uint8_t)v;
    return n;
}
