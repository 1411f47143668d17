/* SPDX-License-Identifier: Apache-2.0 */
/* cu_threefry2x32_ffi: key0, key1, data0, data1 -> out0, out1; u32, all of one shape. Threefry 2x32 with 20
 * rounds, element by element. Facts: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011);
 * jaxlib/gpu/prng_kernels.cu.cc. */
#include "runtime/host/handlers/common.h"
#include "runtime/host/handlers/families.h"

typedef struct threefry {
    int64_t n;
} threefry_t;

td_status_t td_threefry_prepare(const td_custom_call_desc_t *d, td_arena_t *arena, void **state, uint64_t *scratch,
                                td_err_t *err) {
    threefry_t t = {0};
    td_status_t s = td_linalg_threefry(d, &t.n, err);
    if (s) return s;
    *scratch = 0;
    return td_hc_state(arena, &t, sizeof t, state, err);
}

td_status_t td_threefry_run(const void *state, void *const *bufs, void *scratch, td_err_t *err) {
    static const unsigned rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    const threefry_t *t = state;
    const uint32_t *key0 = bufs[0], *key1 = bufs[1], *data0 = bufs[2], *data1 = bufs[3];
    uint32_t *out0 = bufs[4], *out1 = bufs[5];
    (void)scratch, (void)err;
    for (int64_t i = 0; i < t->n; i++) {
        uint32_t key[3] = {key0[i], key1[i], 0x1BD11BDAu ^ key0[i] ^ key1[i]};
        uint32_t x = data0[i] + key[0], y = data1[i] + key[1];
        for (uint32_t group = 1; group <= 5; group++) {
            for (unsigned r = 0; r < 4; r++) {
                unsigned by = rotations[(group - 1) % 2][r];
                x += y;
                y = (y << by | y >> (32 - by)) ^ x;
            }
            x += key[group % 3];
            y += key[(group + 1) % 3] + group;
        }
        out0[i] = x;
        out1[i] = y;
    }
    return TD_OK;
}
