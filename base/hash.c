/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"

#define XXH_STATIC_LINKING_ONLY /* for the size of the state */
#include <xxhash.h>

_Static_assert(sizeof(td_hasher_t) >= sizeof(XXH3_state_t) && _Alignof(td_hasher_t) >= _Alignof(XXH3_state_t),
               "td_hasher_t holds the library's state");

td_hash_t td_hash_bytes(const void *data, size_t size) {
    XXH128_hash_t h = XXH3_128bits(data ? data : "", size);
    return (td_hash_t){h.low64, h.high64};
}

static XXH3_state_t *state(td_hasher_t *h) {
    return (XXH3_state_t *)(void *)h->state;
}
void td_hasher_init(td_hasher_t *h) {
    XXH3_128bits_reset(state(h));
}
void td_hasher_add(td_hasher_t *h, const void *data, size_t size) {
    if (size) XXH3_128bits_update(state(h), data, size);
}
td_hash_t td_hasher_end(const td_hasher_t *h) {
    XXH128_hash_t v = XXH3_128bits_digest((const XXH3_state_t *)(const void *)h->state);
    return (td_hash_t){v.low64, v.high64};
}
