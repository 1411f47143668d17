/* SPDX-License-Identifier: Apache-2.0 */
/* Conversion between any two element types, with the meaning of HLO's convert. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "runtime/host/host_op.h"
#include "runtime/host/types.h"
#include "runtime/host/vec_isa.h"

typedef void (*conv_fn_t)(const void *src, void *dst, size_t n);

#define LOOP(name, S, D, expr)                                    \
    static void name(const void *src, void *dst, size_t n) {      \
        const S *s = src;                                         \
        D *d = dst;                                               \
        for (size_t i = 0; i < n; i++) {                          \
            S x = s[i];                                           \
            d[i] = (D)(expr);                                     \
        }                                                         \
    }
#define TO_INT(s, S, d, D, LO, HI)                               \
    static void s##_to_##d(const void *src, void *dst, size_t n) { \
        const S *p = src;                                        \
        D *q = dst;                                              \
        for (size_t i = 0; i < n; i++) {                         \
            S x = p[i];                                          \
            q[i] = x != x ? (D)0 : x <= (S)(LO) ? (D)(LO) : x >= (S)(HI) ? (D)(HI) : (D)x; \
        }                                                        \
    }
#define FROM_INT(s, S)                                                                                             \
    LOOP(s##_to_pred, S, uint8_t, x != 0) LOOP(s##_to_i8, S, uint8_t, x) LOOP(s##_to_i16, S, uint16_t, x)          \
    LOOP(s##_to_i32, S, uint32_t, x) LOOP(s##_to_i64, S, uint64_t, x) LOOP(s##_to_f32, S, float, x)                \
    LOOP(s##_to_f64, S, double, x)
#define FROM_FLOAT(s, S)                                                                                           \
    LOOP(s##_to_pred, S, uint8_t, x != 0)                                                                          \
    TO_INT(s, S, s8, int8_t, INT8_MIN, INT8_MAX) TO_INT(s, S, s16, int16_t, INT16_MIN, INT16_MAX)                  \
    TO_INT(s, S, s32, int32_t, INT32_MIN, INT32_MAX) TO_INT(s, S, s64, int64_t, INT64_MIN, INT64_MAX)              \
    TO_INT(s, S, u8, uint8_t, 0, UINT8_MAX) TO_INT(s, S, u16, uint16_t, 0, UINT16_MAX)                             \
    TO_INT(s, S, u32, uint32_t, 0, UINT32_MAX) TO_INT(s, S, u64, uint64_t, 0, UINT64_MAX)                          \
    LOOP(s##_to_f32, S, float, x) LOOP(s##_to_f64, S, double, x)

FROM_INT(s8, int8_t) FROM_INT(s16, int16_t) FROM_INT(s32, int32_t) FROM_INT(s64, int64_t)
FROM_INT(u8, uint8_t) FROM_INT(u16, uint16_t) FROM_INT(u32, uint32_t) FROM_INT(u64, uint64_t)
FROM_FLOAT(f32, float) FROM_FLOAT(f64, double)

#define INT_ROW(T, s)                                                                                      \
    [T] = {[TD_PRED] = s##_to_pred, [TD_S8] = s##_to_i8, [TD_S16] = s##_to_i16, [TD_S32] = s##_to_i32,      \
           [TD_S64] = s##_to_i64, [TD_U8] = s##_to_i8, [TD_U16] = s##_to_i16, [TD_U32] = s##_to_i32,        \
           [TD_U64] = s##_to_i64, [TD_F32] = s##_to_f32, [TD_F64] = s##_to_f64}
#define FLOAT_ROW(T, s)                                                                                    \
    [T] = {[TD_PRED] = s##_to_pred, [TD_S8] = s##_to_s8, [TD_S16] = s##_to_s16, [TD_S32] = s##_to_s32,      \
           [TD_S64] = s##_to_s64, [TD_U8] = s##_to_u8, [TD_U16] = s##_to_u16, [TD_U32] = s##_to_u32,        \
           [TD_U64] = s##_to_u64, [TD_F32] = s##_to_f32, [TD_F64] = s##_to_f64}

static const conv_fn_t table[TD_F64 + 1][TD_F64 + 1] = {
    INT_ROW(TD_PRED, u8), INT_ROW(TD_S8, s8), INT_ROW(TD_S16, s16), INT_ROW(TD_S32, s32), INT_ROW(TD_S64, s64),
    INT_ROW(TD_U8, u8), INT_ROW(TD_U16, u16), INT_ROW(TD_U32, u32), INT_ROW(TD_U64, u64),
    FLOAT_ROW(TD_F32, f32), FLOAT_ROW(TD_F64, f64),
};

/* A double that rounds to any format of at most 51 bits as the integer itself would: rounded to odd. */
static double odd_double(bool negative, uint64_t u) {
    if (u >> 53) u = (u & ~0x7ffull) | ((u & 0x7ffull) ? 0x800ull : 0);
    return negative ? -(double)u : (double)u;
}

enum { CHUNK = 512 };
static bool is_native(td_type_t t) { return t <= TD_F64 && table[t][t]; }

/* Real source in its register type -> small float. */
static void to_small(td_type_t from, const void *src, td_type_t to, void *dst, size_t n) {
    double wide[CHUNK];
    if (from == TD_F32) {
        td_small_store_isa(to, src, dst, n);
        return;
    }
    if (from == TD_S64)
        for (size_t i = 0; i < n; i++) {
            int64_t v = ((const int64_t *)src)[i];
            wide[i] = odd_double(v < 0, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
        }
    else if (from == TD_U64)
        for (size_t i = 0; i < n; i++) wide[i] = odd_double(false, ((const uint64_t *)src)[i]);
    else
        table[from][TD_F64](src, wide, n);
    if (td_type_bits(to) == 16)
        for (size_t i = 0; i < n; i++) ((uint16_t *)dst)[i] = (uint16_t)td_small_encode(to, wide[i]);
    else
        for (size_t i = 0; i < n; i++) ((uint8_t *)dst)[i] = (uint8_t)td_small_encode(to, wide[i]);
}

static void to_subbyte(td_type_t from, const void *src, td_type_t to, void *dst, size_t n) {
    td_type_t reg = td_type_register(to);
    table[from][reg](src, dst, n);
    if (from == TD_F32 || from == TD_F64) {
        int bits = (int)td_type_bits(to);
        if (reg == TD_S8) {
            int8_t *d = dst;
            int lo = -(1 << (bits - 1)), hi = -lo - 1;
            for (size_t i = 0; i < n; i++) d[i] = (int8_t)(d[i] < lo ? lo : d[i] > hi ? hi : d[i]);
        } else {
            uint8_t *d = dst;
            int hi = (1 << bits) - 1;
            for (size_t i = 0; i < n; i++) d[i] = (uint8_t)(d[i] > hi ? hi : d[i]);
        }
    } else {
        td_subbyte_wrap(to, dst, n);
    }
}

static void real_chunk(td_type_t from, const void *src, td_type_t to, void *dst, size_t n) {
    float low[CHUNK];
    double wide[CHUNK];
    if (td_type_is_small_float(from)) {
        td_small_load_isa(from, src, low, n);
        src = low, from = TD_F32;
    } else {
        from = td_type_register(from);
    }
    if (to == TD_C64) {
        table[from][TD_F32](src, wide, n);
        const float *w = (const float *)wide;
        for (size_t i = 0; i < n; i++) ((float *)dst)[2 * i] = w[i], ((float *)dst)[2 * i + 1] = 0;
    } else if (to == TD_C128) {
        table[from][TD_F64](src, wide, n);
        for (size_t i = 0; i < n; i++) ((double *)dst)[2 * i] = wide[i], ((double *)dst)[2 * i + 1] = 0;
    } else if (td_type_is_small_float(to)) {
        to_small(from, src, to, dst, n);
    } else if (is_native(to)) {
        table[from][to](src, dst, n);
    } else {
        to_subbyte(from, src, to, dst, n);
    }
}

static void complex_chunk(td_type_t from, const void *src, td_type_t to, void *dst, size_t n) {
    double wide[CHUNK];
    if (to == TD_C64) {
        for (size_t i = 0; i < 2 * n; i++) ((float *)dst)[i] = (float)((const double *)src)[i];
    } else if (to == TD_C128) {
        for (size_t i = 0; i < 2 * n; i++) ((double *)dst)[i] = (double)((const float *)src)[i];
    } else if (to == TD_PRED) {
        for (size_t i = 0; i < n; i++)
            ((uint8_t *)dst)[i] = from == TD_C64
                                      ? ((const float *)src)[2 * i] != 0 || ((const float *)src)[2 * i + 1] != 0
                                      : ((const double *)src)[2 * i] != 0 || ((const double *)src)[2 * i + 1] != 0;
    } else if (from == TD_C64) {
        float *low = (float *)wide;
        for (size_t i = 0; i < n; i++) low[i] = ((const float *)src)[2 * i];
        real_chunk(TD_F32, low, to, dst, n);
    } else {
        for (size_t i = 0; i < n; i++) wide[i] = ((const double *)src)[2 * i];
        real_chunk(TD_F64, wide, to, dst, n);
    }
}

void td_convert_isa(td_type_t from, const void *src, td_type_t to, void *dst, size_t n) {
    if (!n) return;
    if (from == to) {
        memmove(dst, src, n * td_type_bytes(to));
        return;
    }
    if (is_native(from) && is_native(to)) {
        table[from][to](src, dst, n);
        return;
    }
    if (to == TD_F32 && td_type_is_small_float(from)) {
        td_small_load_isa(from, src, dst, n);
        return;
    }
    if (from == TD_F32 && td_type_is_small_float(to)) {
        td_small_store_isa(to, src, dst, n);
        return;
    }
    const char *s = src;
    char *d = dst;
    size_t sb = td_type_bytes(from), db = td_type_bytes(to);
    for (size_t at = 0; at < n; at += CHUNK) {
        size_t m = n - at < CHUNK ? n - at : CHUNK;
        if (td_type_is_complex(from)) complex_chunk(from, s + at * sb, to, d + at * db, m);
        else real_chunk(from, s + at * sb, to, d + at * db, m);
    }
}
