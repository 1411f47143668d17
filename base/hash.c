/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"

#include <xxhash.h>

td_hash_t td_hash_bytes(const void *data, size_t size) {
    XXH128_hash_t h = XXH3_128bits(data ? data : "", size);
    return (td_hash_t){h.low64, h.high64};
}
