/* SPDX-License-Identifier: Apache-2.0 */
/* Writing protobuf's wire format into a buffer that grows. Thread: one. */
#ifndef TD_PROTO_PB_H
#define TD_PROTO_PB_H

#include "base/alloc.h"
#include "base/span.h"
#include "base/status.h"

/* Grows by realloc; failed stays set once memory was gone. Free with td_pb_free. Moved by copying the struct. */
typedef struct td_pb {
    uint8_t *data;
    size_t size, capacity;
    const td_charge_t *charge; /* what capacity grows by from here on is charged to it; NULL: to nobody */
    size_t charged;            /* given back by td_pb_free */
    bool failed;
    bool refused; /* it failed for the charge */
} td_pb_t;

void td_pb_reserve(td_pb_t *b, size_t more);
/* As td_pb_reserve, but a buffer that could not grow is as good as before. */
bool td_pb_try(td_pb_t *b, size_t more);
void td_pb_raw(td_pb_t *b, const void *data, size_t size);
void td_pb_tag_len(td_pb_t *b, uint32_t field, size_t size); /* the payload follows by td_pb_raw */
void td_pb_varint(td_pb_t *b, uint32_t field, uint64_t v);
void td_pb_bytes(td_pb_t *b, uint32_t field, const void *data, size_t size);
void td_pb_string(td_pb_t *b, uint32_t field, const char *s); /* "" is left out */
void td_pb_packed_i64(td_pb_t *b, uint32_t field, const int64_t *v, uint32_t n);
/* A submessage; inner is freed. */
void td_pb_message(td_pb_t *b, uint32_t field, td_pb_t *inner);
void td_pb_free(td_pb_t *b); /* the charge goes too */

#endif
