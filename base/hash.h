/* SPDX-License-Identifier: Apache-2.0 */
/* 128-bit content hash (XXH3) naming payloads. Not for trust decisions. */
#ifndef TD_BASE_HASH_H
#define TD_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct td_hash {
    uint64_t lo, hi;
} td_hash_t;

td_hash_t td_hash_bytes(const void *data, size_t size);

/* The same hash over bytes that come in pieces. Thread: one. */
typedef struct td_hasher {
    _Alignas(64) unsigned char state[576];
} td_hasher_t;
void td_hasher_init(td_hasher_t *h);
void td_hasher_add(td_hasher_t *h, const void *data, size_t size);
td_hash_t td_hasher_end(const td_hasher_t *h);

static inline bool td_hash_equal(td_hash_t a, td_hash_t b) {
    return a.lo == b.lo && a.hi == b.hi;
}

#endif
