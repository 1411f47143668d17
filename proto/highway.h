/* SPDX-License-Identifier: Apache-2.0 */
/* HighwayHash over bytes that come in pieces: 64 bits with Riegeli's key, or 256 bits with a key of one's own. The
 * library's C interface hashes one block only, to 64 bits; td_riegeli_hash (which uses it) gives the same value at the
 * same speed. Algorithm: google/highwayhash, the portable description. Thread: one. */
#ifndef TD_PROTO_HIGHWAY_H
#define TD_PROTO_HIGHWAY_H

#include <stddef.h>
#include <stdint.h>

typedef struct td_highway {
    uint64_t v0[4], v1[4], mul0[4], mul1[4];
    uint8_t rest[32]; /* bytes not yet taken in */
    size_t n_rest;
} td_highway_t;

void td_highway_init(td_highway_t *h); /* with Riegeli's key */
void td_highway_init_key(td_highway_t *h, const uint64_t key[4]);
void td_highway_add(td_highway_t *h, const void *data, size_t size);
/* h needs a new init afterwards. */
uint64_t td_highway_end(td_highway_t *h);
void td_highway_end256(td_highway_t *h, uint64_t out[4]);

#endif
