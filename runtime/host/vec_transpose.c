/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of 8 x 8 elements transposed in registers: three rounds of exchanging halves between rows that are
 * 4, 2 and 1 apart. Compiled once per instruction set. */
#include <string.h>

#include "runtime/host/vec_isa.h"

#define TRANSPOSE(name, T)                                                                          \
    typedef T name##_row_t __attribute__((vector_size(8 * sizeof(T))));                             \
    static void name(const char *src, int64_t ss, char *dst, int64_t ds) {                          \
        name##_row_t r[8], t[8];                                                                    \
        for (int i = 0; i < 8; i++) memcpy(&r[i], src + i * ss, sizeof r[i]);                       \
        for (int i = 0; i < 4; i++) {                                                               \
            t[i] = __builtin_shufflevector(r[i], r[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);               \
            t[i + 4] = __builtin_shufflevector(r[i], r[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);         \
        }                                                                                           \
        for (int k = 0; k < 8; k += 4)                                                              \
            for (int i = k; i < k + 2; i++) {                                                       \
                r[i] = __builtin_shufflevector(t[i], t[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);           \
                r[i + 2] = __builtin_shufflevector(t[i], t[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);     \
            }                                                                                       \
        for (int i = 0; i < 8; i += 2) {                                                            \
            t[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);              \
            t[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);          \
        }                                                                                           \
        for (int i = 0; i < 8; i++) memcpy(dst + i * ds, &t[i], sizeof t[i]);                       \
    }
TRANSPOSE(block2, uint16_t)
TRANSPOSE(block4, uint32_t)
TRANSPOSE(block8, uint64_t)

void td_transpose8_isa(uint32_t size, const char *src, int64_t src_stride, char *dst, int64_t dst_stride) {
    if (size == 4) block4(src, src_stride, dst, dst_stride);
    else if (size == 2) block2(src, src_stride, dst, dst_stride);
    else block8(src, src_stride, dst, dst_stride);
}
