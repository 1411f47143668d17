/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the payload table: what its two source files share. */
#ifndef TD_PROTO_PAYLOAD_IN_H
#define TD_PROTO_PAYLOAD_IN_H

#include <pthread.h>

#include "proto/payload.h"

/* In two chains: by the hash of all bytes, and by size and first bytes. Each link knows the pointer to itself. */
typedef struct td_payload_entry {
    td_payload_t pub; /* first: a payload pointer is an entry pointer */
    struct td_payload_entry *next[2], **at[2];
    uint64_t head; /* hash of the first bytes */
    uint64_t refs;
    uint64_t mapped; /* length of the mapping; 0: data is the allocator's */
    uint64_t charged;
    const td_charge_t *charge; /* gives it back */
    uint64_t align;            /* what its first user needs; 0: the table's own memory */
    void (*release)(void *ctx); /* adopted: data belongs to somebody else; NULL: to the table */
    void *ctx;
} td_payload_entry_t;

struct td_payload_table {
    const td_alloc_t *alloc;
    const td_charge_t *charge;
    pthread_mutex_t lock;
    td_payload_entry_t **buckets[2];
    size_t n_buckets; /* of each, a power of two */
    uint64_t count, bytes, refs;
};

/* The next payload behind `after` (NULL: the first) that begins with these bytes, has this size (UINT64_MAX: any) and
 * lies at a multiple of align (0: in the table's own memory); one reference, the one on `after` is given up. NULL:
 * none. */
const td_payload_t *td_payload_candidate(td_payload_table_t *t, const td_payload_t *after, uint64_t size,
                                         td_span_t head, uint64_t align);
/* Puts a complete entry into the table, or finds one with these bytes that lies as e->align says: then e stays
 * the caller's. NULL: e is in the table. */
td_payload_entry_t *td_payload_find_or_add(td_payload_table_t *t, td_payload_entry_t *e);
/* A payload of these bytes that the table holds, or the one made of them: data (mapped bytes, or the allocator's)
 * becomes the table's then. Else data stays the caller's: *taken says which. One reference. */
td_status_t td_payload_settle(td_payload_table_t *t, td_span_t bytes, td_hash_t hash, uint64_t mapped, uint64_t charged,
                              const td_charge_t *charge, bool *taken, const td_payload_t **out, td_err_t *err);
/* Memory of `size` bytes for data, charged before. mapped: 0 for the allocator's. */
td_status_t td_payload_memory(td_payload_table_t *t, const td_charge_t *charge, uint64_t size, uint8_t **out,
                              uint64_t *mapped, uint64_t *charged, td_err_t *err);
void td_payload_memory_free(td_payload_table_t *t, const td_charge_t *charge, uint8_t *data, uint64_t size,
                            uint64_t mapped, uint64_t charged);

#endif
