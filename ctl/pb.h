/* SPDX-License-Identifier: Apache-2.0 */
/* The little of protobuf's wire format that the client needs. Thread: one. */
#ifndef TD_CTL_PB_H
#define TD_CTL_PB_H

#include "base/span.h"
#include "base/status.h"

/* Grows by realloc; failed stays set once memory was gone. Free with pb_free. */
typedef struct pb_buf {
    uint8_t *data;
    size_t size, capacity;
    bool failed;
} pb_buf_t;
void pb_varint(pb_buf_t *b, uint32_t field, uint64_t v);
void pb_bytes(pb_buf_t *b, uint32_t field, const void *data, size_t size);
void pb_string(pb_buf_t *b, uint32_t field, const char *s);
/* A packed repeated int64. */
void pb_packed_i64(pb_buf_t *b, uint32_t field, const int64_t *v, uint32_t n);
void pb_raw(pb_buf_t *b, const void *data, size_t size);
void pb_free(pb_buf_t *b);

typedef struct pb_field {
    uint32_t number;
    uint32_t wire; /* 0 varint, 1 fixed64, 2 bytes, 5 fixed32 */
    uint64_t value;
    td_span_t bytes;
} pb_field_t;
/* Cuts the next field off *in. False at the end, and, with *bad set, on malformed bytes. */
bool pb_next(td_span_t *in, pb_field_t *out, bool *bad);
bool pb_read_varint(td_span_t *in, uint64_t *out);

#endif
