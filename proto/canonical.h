/* SPDX-License-Identifier: Apache-2.0 */
/* Canonical wire form of a message: two messages that say the same have the same bytes.
 *
 * Fields by number, unknown ones among them as they are; varints minimal; repeated scalars packed or not as the
 * descriptor says; pieces of a singular message merged, the last of a singular scalar kept; map entries sorted by
 * key, of equal keys the last kept. A map is what protoc makes of one: field foo_bar with entries FooBarEntry. */
#ifndef TD_PROTO_CANONICAL_H
#define TD_PROTO_CANONICAL_H

#include <protobuf-c/protobuf-c.h>

#include "proto/codec.h"

/* Appends the canonical form of in to out. TD_MALFORMED where the bytes do not fit the descriptor. */
td_status_t td_canonical(const ProtobufCMessageDescriptor *desc, td_span_t in, td_buffer_t *out, td_err_t *err);

/* Is this field a map? */
bool td_proto_is_map(const ProtobufCMessageDescriptor *desc, const ProtobufCFieldDescriptor *d);
/* Wire type of a single value of this type. */
uint8_t td_proto_wire_type(ProtobufCType t);
/* The value a varint field of this type stands for, as the wire's 64 bits. */
uint64_t td_proto_varint(ProtobufCType t, uint64_t v);

#endif
