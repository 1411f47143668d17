/* SPDX-License-Identifier: Apache-2.0 */
/* Payload table: every large byte string (literal, cubin, library graph) is
 * stored once by content, whoever refers to it. Reference counted; one table
 * per process (the store) or per offline run.
 *
 * Payloads of TD_PAYLOAD_MAP_BYTES and more lie in pages of their own, which go back to the system with the last
 * reference; smaller ones in memory of the table's allocator. Both are charged before they are taken: by the
 * charge that the opener of an artifact brings (NULL: the table's), and given back through the table's charge
 * (a table without one: through the opener's, which must then outlive the payload).
 *
 * A payload that comes as a stream is compared, while it comes, with one that the table holds already (same size,
 * same first bytes); memory is taken only when they differ. Bytes decide, never a hash: a crafted collision must not
 * hand out another artifact's bytes. Thread: any (a lock inside, not held while bytes are compared or copied). */
#ifndef TD_PROTO_PAYLOAD_H
#define TD_PROTO_PAYLOAD_H

#include <pthread.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/span.h"
#include "base/status.h"

enum {
    TD_PAYLOAD_HEAD_BYTES = 4096, /* so many first bytes find a candidate */
    TD_PAYLOAD_MAP_BYTES = 65536,
    TD_PAYLOAD_ALIGN = 64,
};

typedef struct td_payload_table td_payload_table_t;
typedef struct td_payload {
    td_span_t bytes; /* immutable; at a multiple of TD_PAYLOAD_ALIGN, but for td_payload_adopt's */
    td_hash_t hash;
} td_payload_t;

td_status_t td_payload_table_create(const td_alloc_t *alloc, td_payload_table_t **out_table, td_err_t *err);
/* All payloads must have been released. NULL is fine. */
void td_payload_table_destroy(td_payload_table_t *t);
/* The charge that payloads are given back through. Before the first payload; must outlive the table. */
void td_payload_table_set_charge(td_payload_table_t *t, const td_charge_t *charge);
/* The payload with these bytes, copied in when new; the caller holds one reference. Charges the table's charge. */
td_status_t td_payload_intern(td_payload_table_t *t, td_span_t bytes, const td_payload_t **out_payload, td_err_t *err);
/* The payload with these bytes, which, when it is new, stay where they are (in a mapped file) until the last reference
 * is gone: then release(ctx) is called, by any thread. When the table has equal bytes already, at a multiple of align,
 * those are the payload, and release(ctx) is called at once. Streams and td_payload_intern never give an adopted one:
 * a file may change. bytes are at a multiple of align. Charges `charge`
 * (NULL: the table's) with td_payload_cost, and gives back as said above. After an error release was not called. */
td_status_t td_payload_adopt(td_payload_table_t *t, td_span_t bytes, uint64_t align, const td_charge_t *charge,
                             void (*release)(void *ctx), void *ctx, const td_payload_t **out_payload, td_err_t *err);
/* The payload with these bytes that lies at a multiple of align, one reference; NULL: there is none. */
const td_payload_t *td_payload_find(td_payload_table_t *t, td_span_t bytes, uint64_t align);
const td_payload_t *td_payload_retain(td_payload_table_t *t, const td_payload_t *p);
void td_payload_release(td_payload_table_t *t, const td_payload_t *p);
/* What the table holds now: payloads, their bytes, and references. */
void td_payload_table_stats(td_payload_table_t *t, uint64_t *out_count, uint64_t *out_bytes, uint64_t *out_refs);
/* What a payload of that size is charged with. */
uint64_t td_payload_cost(uint64_t size);
/* Does the table hold a payload of that size with these first bytes (all, or TD_PAYLOAD_HEAD_BYTES)? A guess only. */
bool td_payload_seems_held(td_payload_table_t *t, uint64_t size, td_span_t head);

/* A payload whose bytes come in pieces. The struct must not move between begin and end or drop. Several builders
 * work on one table at once, each in one thread. */
typedef struct td_payload_builder {
    td_payload_table_t *table;
    const td_charge_t *charge;
    uint64_t max, done; /* bytes it may have, bytes written */
    bool exact;         /* it will have max bytes */
    const td_payload_t *twin; /* all bytes so far are this one's first; one reference */
    uint8_t *data;            /* its own memory, once there is no twin */
    uint64_t mapped, charged;
    pthread_t pager;          /* brings large memory's pages in, ahead of the writer */
    bool has_pager;
    _Atomic(uint64_t) reached; /* done, for the pager; UINT64_MAX: it may end */
    td_hasher_t hash; /* of data's first done bytes */
    uint8_t head[TD_PAYLOAD_HEAD_BYTES];
} td_payload_builder_t;

/* A payload of size bytes; with exact false, of at most size (its memory is then charged as it comes). */
void td_payload_begin(td_payload_builder_t *b, td_payload_table_t *t, const td_charge_t *charge, uint64_t size,
                      bool exact);
/* TD_LIMIT when the budget has no more, TD_NOMEM, TD_MALFORMED for more bytes than announced. */
td_status_t td_payload_write(td_payload_builder_t *b, const void *data, size_t size, td_err_t *err);
/* The payload, one reference. On failure too the builder holds nothing any more. */
td_status_t td_payload_end(td_payload_builder_t *b, const td_payload_t **out_payload, td_err_t *err);
/* Gives up; a builder that ended or was zeroed is fine. */
void td_payload_drop(td_payload_builder_t *b);

#endif
