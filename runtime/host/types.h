/* SPDX-License-Identifier: Apache-2.0 */
/* Small floating formats (16 bits and fewer): exact decoding to f32, and rounding
 * to nearest even in one step from f32 or f64. Thread: any. */
#ifndef TD_RUNTIME_HOST_TYPES_H
#define TD_RUNTIME_HOST_TYPES_H

#include <string.h>

#include "runtime/shape.h"

/* Is it a float of 16 bits or fewer (computed in f32)? */
bool td_type_is_small_float(td_type_t t);
/* The type a value has while computing: f32 for small floats, s8/u8 for sub-byte integers, else itself. */
td_type_t td_type_register(td_type_t t);

float td_small_decode(td_type_t t, uint32_t bits);
uint32_t td_small_encode(td_type_t t, double x);

void td_small_load(td_type_t t, const void *src, float *dst, size_t n);
void td_small_store(td_type_t t, const float *src, void *dst, size_t n);
/* dst[i] = the nearest value of type t; dst may equal src. */
void td_small_round(td_type_t t, const float *src, float *dst, size_t n);

/* Wraps bytes to a sub-byte integer type: sign- or zero-extended in its byte. */
void td_subbyte_wrap(td_type_t t, void *p, size_t n);
void td_subbyte_unpack(td_type_t t, const void *packed, void *bytes, size_t n);
void td_subbyte_pack(td_type_t t, const void *bytes, void *packed, size_t n);

static inline uint32_t td_f32_bits(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}
static inline float td_bits_f32(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
}
static inline uint16_t td_bf16_from_f32(float f) {
    uint32_t u = td_f32_bits(f);
    uint32_t r = (u + 0x7fffu + (u >> 16 & 1)) >> 16;
    uint32_t nan = (u >> 16) | 0x40u;
    return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? nan : r);
}

#endif
