/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays of small floats to f32 and back. Compiled once per instruction set. */
#include "runtime/host/types.h"
#include "runtime/host/vec_isa.h"

static uint16_t f16_from_f32(float x) {
    uint32_t u = td_f32_bits(x), s = u >> 16 & 0x8000u, a = u & 0x7fffffffu;
    uint32_t normal = (a - 0x38000000u + 0xfffu + (a >> 13 & 1)) >> 13;
    /* below 2^-14: adding 0.5 lines the last bit up with f16's, and the FPU rounds */
    uint32_t sub = td_f32_bits(td_bits_f32(a) + 0.5f) - 0x3f000000u;
    uint32_t r = a >= 0x477ff000u ? 0x7c00u : a < 0x38800000u ? sub : normal;
    r = a > 0x7f800000u ? (0x7e00u | (a >> 13 & 0x3ffu)) : r;
    return (uint16_t)(s | r);
}
static float f16_to_f32(uint16_t h) {
    uint32_t s = (uint32_t)(h & 0x8000u) << 16, a = h & 0x7fffu;
    uint32_t normal = (a << 13) + 0x38000000u, sub = td_f32_bits((float)(int32_t)a * 0x1p-24f);
    uint32_t special = 0x7f800000u | (a & 0x3ffu) << 13 | (a > 0x7c00u ? 0x400000u : 0);
    return td_bits_f32(s | (a >= 0x7c00u ? special : a < 0x400u ? sub : normal));
}

void td_small_load_isa(td_type_t t, const void *src, float *dst, size_t n) {
    if (t == TD_BF16) {
        const uint16_t *s = src;
        for (size_t i = 0; i < n; i++) dst[i] = td_bits_f32((uint32_t)s[i] << 16);
    } else if (t == TD_F16) {
        const uint16_t *s = src;
        for (size_t i = 0; i < n; i++) dst[i] = f16_to_f32(s[i]);
    } else {
        const uint8_t *s = src;
        for (size_t i = 0; i < n; i++) dst[i] = td_small_decode(t, s[i]);
    }
}

void td_small_store_isa(td_type_t t, const float *src, void *dst, size_t n) {
    if (t == TD_BF16) {
        uint16_t *d = dst;
        for (size_t i = 0; i < n; i++) d[i] = td_bf16_from_f32(src[i]);
    } else if (t == TD_F16) {
        uint16_t *d = dst;
        for (size_t i = 0; i < n; i++) d[i] = f16_from_f32(src[i]);
    } else {
        uint8_t *d = dst;
        for (size_t i = 0; i < n; i++) d[i] = (uint8_t)td_small_encode(t, (double)src[i]);
    }
}

void td_small_round_isa(td_type_t t, const float *src, float *dst, size_t n) {
    if (t == TD_BF16) {
#pragma GCC ivdep
        for (size_t i = 0; i < n; i++) dst[i] = td_bits_f32((uint32_t)td_bf16_from_f32(src[i]) << 16);
    } else if (t == TD_F16) {
#pragma GCC ivdep
        for (size_t i = 0; i < n; i++) dst[i] = f16_to_f32(f16_from_f32(src[i]));
    } else {
        for (size_t i = 0; i < n; i++) dst[i] = td_small_decode(t, td_small_encode(t, (double)src[i]));
    }
}
