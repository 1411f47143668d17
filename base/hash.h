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
static inline bool td_hash_equal(td_hash_t a, td_hash_t b) {
    return a.lo == b.lo && a.hi == b.hi;
}

#endif
