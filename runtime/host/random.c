/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/host/random.h"

static uint32_t rotate(uint32_t x, unsigned n) { return x << n | x >> (32 - n); }

uint64_t td_threefry(uint64_t key, uint64_t counter) {
    static const uint8_t turns[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    const uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32), k[3] = {k0, k1, k0 ^ k1 ^ 0x1bd11bdau};
    uint32_t a = (uint32_t)counter + k[0], b = (uint32_t)(counter >> 32) + k[1];
    for (unsigned group = 0; group < 5; group++) { /* four rounds, then the key moves on */
        for (unsigned i = 0; i < 4; i++) {
            a += b;
            b = rotate(b, turns[group & 1][i]) ^ a;
        }
        a += k[(group + 1) % 3];
        b += k[(group + 2) % 3] + group + 1;
    }
    return a | (uint64_t)b << 32;
}

void td_philox(uint64_t key, uint64_t low, uint64_t high, uint32_t out[4]) {
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t x0 = (uint32_t)low, x1 = (uint32_t)(low >> 32), x2 = (uint32_t)high, x3 = (uint32_t)(high >> 32);
    for (unsigned round = 0; round < 10; round++, k0 += 0x9e3779b9u, k1 += 0xbb67ae85u) {
        uint64_t p = (uint64_t)x0 * 0xd2511f53u, q = (uint64_t)x2 * 0xcd9e8d57u;
        x0 = (uint32_t)(q >> 32) ^ x1 ^ k0, x1 = (uint32_t)q;
        x2 = (uint32_t)(p >> 32) ^ x3 ^ k1, x3 = (uint32_t)p;
    }
    out[0] = x0, out[1] = x1, out[2] = x2, out[3] = x3;
}
