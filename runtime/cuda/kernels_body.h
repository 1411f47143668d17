/* SPDX-License-Identifier: Apache-2.0 */
/* What one thread of each kernel of kernels.cu computes, in the language that C and CUDA C++ share, so that tests run
 * the same code without a GPU (tests/fakecuda/builtin_cuda.c). Facts: Salmon et al., "Parallel random numbers: as easy
 * as 1, 2, 3" (2011); jaxlib/gpu/prng_kernels.cu.cc, linalg_kernels.cu.cc. */
#ifndef TD_RUNTIME_CUDA_KERNELS_BODY_H
#define TD_RUNTIME_CUDA_KERNELS_BODY_H

#include <stdint.h>

#ifdef __CUDACC__
#define TD_BODY static __device__ __forceinline__
#else
#define TD_BODY static inline
#endif

/* Threefry 2x32, 20 rounds. */
TD_BODY void td_body_threefry(uint32_t k0, uint32_t k1, uint32_t x, uint32_t y, uint32_t *out0, uint32_t *out1) {
    const unsigned rotations[8] = {13, 15, 26, 6, 17, 29, 16, 24};
    uint32_t key[3] = {k0, k1, 0x1BD11BDAu ^ k0 ^ k1};
    x += k0;
    y += k1;
#ifdef __CUDACC__
#pragma unroll
#endif
    for (uint32_t r = 0; r < 20; r++) {
        x += y;
        y = (y << rotations[r % 8] | y >> (32 - rotations[r % 8])) ^ x;
        if (r % 4 == 3) {
            uint32_t group = r / 4 + 1;
            x += key[group % 3];
            y += key[(group + 1) % 3] + group;
        }
    }
    *out0 = x;
    *out1 = y;
}

/* The transpositions in ascending order, applied to 0 ... q-1; a pivot outside changes nothing. */
TD_BODY void td_body_pivots(const int32_t *pivots, int32_t *permutation, int32_t p, int32_t q) {
    for (int32_t i = 0; i < q; i++) permutation[i] = i;
    for (int32_t i = 0; i < p; i++) {
        int32_t j = pivots[i];
        if (j < 0 || j >= q) continue;
        int32_t was = permutation[i];
        permutation[i] = permutation[j];
        permutation[j] = was;
    }
}

/* Order of top-k: an element's bits become a number, larger = earlier; equal ones by position. */
enum { TD_BODY_SIGNED = 1, TD_BODY_FLOAT = 2, TD_BODY_SMALLEST = 4, TD_BODY_ZEROS_EQUAL = 8 };
#define TD_BODY_NOWHERE 0xffffffffu
TD_BODY uint64_t td_body_key(const uint8_t *p, uint64_t i, uint32_t bytes, uint32_t order) {
    uint64_t sign = 1ull << (8 * bytes - 1), mask = sign | (sign - 1);
    uint64_t v = bytes == 1   ? p[i]
                 : bytes == 2 ? ((const uint16_t *)(const void *)p)[i]
                 : bytes == 4 ? ((const uint32_t *)(const void *)p)[i]
                              : ((const uint64_t *)(const void *)p)[i];
    if (order & TD_BODY_SIGNED) v ^= sign;
    if (order & TD_BODY_FLOAT) {
        if (order & TD_BODY_ZEROS_EQUAL && v == sign) v = 0;
        v = v & sign ? ~v & mask : v | sign;
    }
    return order & TD_BODY_SMALLEST ? ~v & mask : v;
}
/* Does a, at position i, come before b, at j? What is nowhere comes last. */
TD_BODY int td_body_before(uint64_t a, uint32_t i, uint64_t b, uint32_t j) {
    return i != TD_BODY_NOWHERE && (j == TD_BODY_NOWHERE || a > b || (a == b && i < j));
}

/* A rotation applied to element i of a row and of x. */
#define TD_BODY_ROTATE(T, row, x, i, c, s)                                   \
    do {                                                                     \
        T was_ = (row)[i];                                                   \
        (row)[i] = (c) * was_ + (s) * (x)[i];                                \
        (x)[i] = (c) * (x)[i] - (s) * was_;                                  \
    } while (0)

#endif
