/* SPDX-License-Identifier: Apache-2.0 */
/* Protobuf wire bytes, one field at a time, bounded. */
#ifndef TD_PROTO_WIRE_H
#define TD_PROTO_WIRE_H

#include "base/span.h"
#include "base/status.h"

enum { TD_WIRE_VARINT = 0, TD_WIRE_I64 = 1, TD_WIRE_LEN = 2, TD_WIRE_I32 = 5 };

typedef struct td_wire_field {
    uint32_t number;
    uint8_t type;
    uint64_t value;  /* varint, fixed */
    td_span_t bytes; /* of a length-delimited field */
    td_span_t whole; /* tag to end */
} td_wire_field_t;

/* Takes a varint of at most 10 bytes off the front. */
bool td_wire_varint(td_span_t *in, uint64_t *out);
/* Takes one field off the front of *in (which must not be empty). Groups are refused. */
bool td_wire_next(td_span_t *in, td_wire_field_t *out);
/* Do the bytes split into fields to the last byte? out_first: the last occurrence of length-delimited
 * field `number` (data NULL if there is none). */
bool td_wire_scan(td_span_t in, uint32_t number, td_span_t *out_field);
/* Writes v into p (room for 10 bytes); returns the length. */
size_t td_wire_put_varint(uint8_t *p, uint64_t v);

#endif
