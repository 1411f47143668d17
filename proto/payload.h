/* SPDX-License-Identifier: Apache-2.0 */
/* Payload table: every large byte string (literal, cubin, library graph) is
 * stored once by content hash, whoever refers to it. Reference counted; one table
 * per process (the store) or per offline run. Thread: any (a lock inside). */
#ifndef TD_PROTO_PAYLOAD_H
#define TD_PROTO_PAYLOAD_H

#include "base/alloc.h"
#include "base/hash.h"
#include "base/span.h"
#include "base/status.h"

typedef struct td_payload_table td_payload_table_t;
typedef struct td_payload {
    td_span_t bytes; /* 64-byte aligned, immutable */
    td_hash_t hash;
} td_payload_t;

td_status_t td_payload_table_create(const td_alloc_t *alloc, td_payload_table_t **out_table, td_err_t *err);
/* All payloads must have been released. NULL is fine. */
void td_payload_table_destroy(td_payload_table_t *t);
/* The payload with these bytes, copied in when new; the caller holds one reference. */
td_status_t td_payload_intern(td_payload_table_t *t, td_span_t bytes, const td_payload_t **out_payload, td_err_t *err);
const td_payload_t *td_payload_retain(td_payload_table_t *t, const td_payload_t *p);
void td_payload_release(td_payload_table_t *t, const td_payload_t *p);
/* What the table holds now: payloads, their bytes, and references. */
void td_payload_table_stats(td_payload_table_t *t, uint64_t *out_count, uint64_t *out_bytes, uint64_t *out_refs);

#endif
