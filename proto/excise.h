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
 * byte). Then protobuf-c unpacks what is left into the arena.
 *
 * The message comes in parts, as streams. Small fields are gathered and walked in memory; large values go from the
 * stream into their payload with nothing between. Thread: one. */
#ifndef TD_PROTO_EXCISE_H
#define TD_PROTO_EXCISE_H

#include <protobuf-c/protobuf-c.h>

#include "proto/artifact.h"
#include "proto/codec.h"

enum { TD_PAYLOAD_FIELD_BASE = 536860000 };

/* What all walks of one artifact have in common. */
typedef struct td_excise {
    td_payload_table_t *table;
    const td_charge_t *charge;
    td_feed_env_t env;
    const td_payload_t **payloads; /* one reference each; grown with env.alloc */
    uint32_t n_payloads, cap_payloads;
    td_unknown_field_t *unknown;
    uint32_t n_unknown, cap_unknown;
    uint64_t messages;
    uint32_t n_cut_strings; /* protobuf-c's strings end at the first NUL */
    /* Where contents are skipped (env.skips): payloads that are in no table. */
    td_arena_t apart;     /* they, and the bytes of those below TD_PAYLOAD_MAP_BYTES */
    void *zeros;          /* what the others' bytes are: TD_ZEROS_BYTES that take no memory */
    uint64_t held_bytes;  /* cost of those that the table seems to hold */
    td_buffer_t gathered; /* one field that does not lie in one window */
} td_excise_t;

/* A varint of one byte becomes an element of eight. */
#define TD_ZEROS_BYTES (8 * TD_LIMIT_ARTIFACT_BYTES)

void td_excise_init(td_excise_t *x, td_payload_table_t *table, const td_alloc_t *alloc);
/* Releases all references and lists that were not taken over. */
void td_excise_deinit(td_excise_t *x);

/* One message that is being walked. */
typedef struct td_walk {
    td_excise_t *x;
    const ProtobufCMessageDescriptor *desc;
    uint64_t inline_seen, moved_seen; /* by field index, of its fields that may be moved */
    td_buffer_t rest;                 /* what protobuf-c will see */
    uint64_t wire_bytes;
    /* A bytes field of this message that somebody else takes, all of its bytes; number 0: none. */
    uint32_t take_number;
    td_status_t (*take)(void *ctx, td_feed_t *bytes, td_err_t *err);
    void *ctx;
} td_walk_t;

td_status_t td_walk_begin(td_walk_t *w, td_excise_t *x, const ProtobufCMessageDescriptor *desc, td_err_t *err);
/* Fields, up to the stream's end. */
td_status_t td_walk_fields(td_walk_t *w, td_feed_t *in, td_err_t *err);
/* The bytes of one length-delimited field, whose end is known. */
td_status_t td_walk_field(td_walk_t *w, uint32_t number, td_feed_t *in, td_err_t *err);
/* The message, in the arena. */
td_status_t td_walk_unpack(td_walk_t *w, td_arena_t *arena, ProtobufCMessage **out, td_err_t *err);
void td_walk_end(td_walk_t *w); /* a zeroed one is fine */

/* A whole message in memory: walks, rewrites and unpacks. The input is not needed afterwards. */
td_status_t td_excise_unpack(td_excise_t *x, const ProtobufCMessageDescriptor *desc, td_span_t wire, td_arena_t *arena,
                             ProtobufCMessage **out, td_err_t *err);

#endif
