/* SPDX-License-Identifier: Apache-2.0 */
/* Between the wire and protobuf-c: bounds what protobuf-c does not bound, and
 * moves large values into payloads.
 *
 * The walk follows the message descriptors. It refuses nesting deeper than
 * TD_LIMIT_PROTO_DEPTH, more than TD_LIMIT_PROTO_MESSAGES messages, wrong wire
 * types and field numbers that are ours. A field F whose schema declares
 * F_payload (number 536860000 + F's) and whose value is larger than
 * TD_LIMIT_INLINE_BYTES is replaced by that field, holding an index into the
 * payload list; packed varints become native little-endian elements (bool: one
 * byte). Then protobuf-c unpacks what is left into the arena. */
#ifndef TD_PROTO_EXCISE_H
#define TD_PROTO_EXCISE_H

#include <protobuf-c/protobuf-c.h>

#include "proto/artifact.h"
#include "proto/codec.h"

enum { TD_PAYLOAD_FIELD_BASE = 536860000 };

typedef struct td_excise {
    td_payload_table_t *table;
    const td_alloc_t *alloc;
    const td_payload_t **payloads; /* one reference each; grown with alloc */
    uint32_t n_payloads, cap_payloads;
    td_unknown_field_t *unknown;
    uint32_t n_unknown, cap_unknown;
    uint64_t messages;
    uint32_t n_cut_strings; /* protobuf-c's strings end at the first NUL */
} td_excise_t;

void td_excise_init(td_excise_t *x, td_payload_table_t *table, const td_alloc_t *alloc);
/* Releases all references and lists that were not taken over. */
void td_excise_deinit(td_excise_t *x);

/* Walks, rewrites and unpacks. The message lives in the arena; the input is not needed afterwards. */
td_status_t td_excise_unpack(td_excise_t *x, const ProtobufCMessageDescriptor *desc, td_span_t wire, td_arena_t *arena,
                             ProtobufCMessage **out, td_err_t *err);

#endif
