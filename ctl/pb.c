/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/pb.h"

#include <stdlib.h>
#include <string.h>

void pb_raw(pb_buf_t *b, const void *data, size_t size) {
    if (b->failed || !size) return;
    if (size > b->capacity - b->size) {
        size_t cap = b->capacity ? b->capacity : 256;
        while (cap - b->size < size && cap <= SIZE_MAX / 2) cap *= 2;
        uint8_t *p = cap - b->size < size ? NULL : realloc(b->data, cap);
        if (!p) {
            b->failed = true;
            return;
        }
        b->data = p;
        b->capacity = cap;
    }
    memcpy(b->data + b->size, data, size);
    b->size += size;
}

void pb_free(pb_buf_t *b) {
    free(b->data);
    *b = (pb_buf_t){0};
}

static size_t put_varint(uint8_t *p, uint64_t v) {
    size_t n = 0;
    for (; v >= 128; v >>= 7) p[n++] = (uint8_t)(v | 128);
    p[n++] = (uint8_t)v;
    return n;
}

static void raw_varint(pb_buf_t *b, uint64_t v) {
    uint8_t p[10];
    pb_raw(b, p, put_varint(p, v));
}

void pb_varint(pb_buf_t *b, uint32_t field, uint64_t v) {
    raw_varint(b, (uint64_t)field << 3);
    raw_varint(b, v);
}

void pb_bytes(pb_buf_t *b, uint32_t field, const void *data, size_t size) {
    raw_varint(b, (uint64_t)field << 3 | 2);
    raw_varint(b, size);
    pb_raw(b, data, size);
}

void pb_string(pb_buf_t *b, uint32_t field, const char *s) {
    if (s && *s) pb_bytes(b, field, s, strlen(s));
}

void pb_packed_i64(pb_buf_t *b, uint32_t field, const int64_t *v, uint32_t n) {
    pb_buf_t inner = {0};
    for (uint32_t i = 0; i < n; i++) raw_varint(&inner, (uint64_t)v[i]);
    if (n) pb_bytes(b, field, inner.data, inner.size);
    b->failed |= inner.failed;
    pb_free(&inner);
}

bool pb_read_varint(td_span_t *in, uint64_t *out) {
    uint64_t v = 0;
    for (unsigned i = 0; i < 10 && i < in->size; i++) {
        v |= (uint64_t)(in->data[i] & 127) << (7 * i);
        if (in->data[i] & 128) continue;
        in->data += i + 1;
        in->size -= i + 1;
        *out = v;
        return true;
    }
    return false;
}

static bool take(td_span_t *in, uint64_t n, td_span_t *out) {
    if (n > in->size) return false;
    *out = (td_span_t){in->data, (size_t)n};
    in->data += n;
    in->size -= (size_t)n;
    return true;
}

static bool read_value(td_span_t *in, pb_field_t *f) {
    uint64_t n;
    switch (f->wire) {
    case 0: return pb_read_varint(in, &f->value);
    case 1: return take(in, 8, &f->bytes);
    case 2: return pb_read_varint(in, &n) && take(in, n, &f->bytes);
    case 5: return take(in, 4, &f->bytes);
    default: return false;
    }
}

bool pb_next(td_span_t *in, pb_field_t *out, bool *bad) {
    uint64_t tag;
    if (!in->size) return false;
    *out = (pb_field_t){0};
    bool ok = pb_read_varint(in, &tag) && tag >> 3 != 0 && tag >> 3 < 1u << 29;
    if (ok) {
        out->number = (uint32_t)(tag >> 3);
        out->wire = (uint32_t)(tag & 7);
        ok = read_value(in, out);
    }
    if (!ok) *bad = true;
    return ok;
}
