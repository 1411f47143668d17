/* SPDX-License-Identifier: Apache-2.0 */
/* Integers wrap at their own width: arithmetic is done on unsigned 64-bit values and cut back. */
#include <stdint.h>
#include <string.h>

#include "runtime/host/vec_isa.h"

#define POW_LOOP(T, U, NEGATIVE)                                                                        \
    static inline T ipow_##T(T x, T y) {                                                      \
        U r = 1, b = (U)x, e = (U)y;                                                          \
        if (NEGATIVE(y)) return (T)(x == 1 ? 1 : x == (T)-1 ? (y & 1 ? -1 : 1) : 0);          \
        for (; e; e = (U)(e >> 1)) {                                                          \
            if (e & 1) r = (U)((uint64_t)r * b);                                              \
            b = (U)((uint64_t)b * b);                                                         \
        }                                                                                     \
        return (T)r;                                                                          \
    }

#define BELOW_ZERO(y) ((y) < 0)
#define NEVER(y) false
#define COMMON(p, T, U, BITS, NEGATIVE, WIDE)                                                                                     \
    POW_LOOP(T, U, NEGATIVE)                                                                                                \
    PW_BIN(p##_add, T, (uint64_t)x + (uint64_t)y) PW_BIN(p##_sub, T, (uint64_t)x - (uint64_t)y)                   \
    PW_BIN(p##_mul, T, (uint64_t)x * (uint64_t)y) PW_UN(p##_neg, T, 0 - (uint64_t)x) PW_UN(p##_not, T, ~(uint64_t)x) \
    PW_BIN(p##_and, T, x & y) PW_BIN(p##_or, T, x | y) PW_BIN(p##_xor, T, x ^ y)                                  \
    PW_BIN(p##_max, T, x >= y ? x : y) PW_BIN(p##_min, T, x <= y ? x : y) PW_BIN(p##_pow, T, ipow_##T(x, y))      \
    PW_UN(p##_pop, T, __builtin_popcountll((uint64_t)(U)x))                                                       \
    PW_UN(p##_clz, T, (U)x ? __builtin_clzll((uint64_t)(U)x) - (64 - BITS) : BITS)                                \
    PW_BIN(p##_mulhi, T, (U)((WIDE)x * (WIDE)y >> BITS))                                                          \
    PW_BIN(p##_shl, T, (U)y < BITS ? (uint64_t)(U)x << ((U)y & (BITS - 1)) : 0)                                   \
    PW_BIN(p##_shr, T, (U)y < BITS ? (U)x >> ((U)y & (BITS - 1)) : 0)                                             \
    PW_CLAMP(p##_clamp, T, x < lo ? (lo > hi ? hi : lo) : x > hi ? hi : x) PW_COMPARES(p, T)
#define SIGNED(p, T, U, BITS)                                                                                     \
    COMMON(p, T, U, BITS, BELOW_ZERO, __int128)                                                                                         \
    PW_UN(p##_abs, T, x < 0 ? 0 - (uint64_t)x : (uint64_t)x) PW_UN(p##_sign, T, (x > 0) - (x < 0))                \
    PW_BIN(p##_div, T, y == 0 ? (uint64_t)-1 : y == -1 ? 0 - (uint64_t)x : (uint64_t)(x / y))                     \
    PW_BIN(p##_rem, T, y == 0 ? x : y == -1 ? 0 : x % y) PW_BIN(p##_sar, T, x >> ((U)y < BITS ? (U)y : BITS - 1))
#define UNSIGNED(p, T, BITS)                                                                                      \
    typedef int##BITS##_t p##_signed;                                                                             \
    COMMON(p, T, T, BITS, NEVER, unsigned __int128)                                                                                         \
    PW_UN(p##_abs, T, x) PW_UN(p##_sign, T, x != 0) PW_BIN(p##_div, T, y == 0 ? (T)-1 : x / y)                    \
    PW_BIN(p##_rem, T, y == 0 ? x : x % y) PW_BIN(p##_sar, T, (p##_signed)x >> (y < BITS ? y : BITS - 1))
#define TABLE(name, p)                                                                                            \
    const td_pw_table_t name = {                                                                                  \
        .fn = {[TD_HLO_ABS] = p##_abs, [TD_HLO_ADD] = p##_add, [TD_HLO_AND] = p##_and, [TD_HLO_CLAMP] = p##_clamp, \
               [TD_HLO_CLZ] = p##_clz, [TD_HLO_DIVIDE] = p##_div, [TD_HLO_MAXIMUM] = p##_max,                     \
               [TD_HLO_MINIMUM] = p##_min, [TD_HLO_MULHI] = p##_mulhi, [TD_HLO_MULTIPLY] = p##_mul, [TD_HLO_NEGATE] = p##_neg, \
               [TD_HLO_NOT] = p##_not, [TD_HLO_OR] = p##_or, [TD_HLO_POPCNT] = p##_pop, [TD_HLO_POWER] = p##_pow, \
               [TD_HLO_REMAINDER] = p##_rem, [TD_HLO_SHIFT_LEFT] = p##_shl,                                       \
               [TD_HLO_SHIFT_RIGHT_ARITHMETIC] = p##_sar, [TD_HLO_SHIFT_RIGHT_LOGICAL] = p##_shr,                 \
               [TD_HLO_SIGN] = p##_sign, [TD_HLO_SUBTRACT] = p##_sub, [TD_HLO_XOR] = p##_xor},                    \
        .compare = PW_COMPARE_ROW(p), .total = PW_COMPARE_ROW(p)}

SIGNED(s8, int8_t, uint8_t, 8)
SIGNED(s16, int16_t, uint16_t, 16)
SIGNED(s32, int32_t, uint32_t, 32)
SIGNED(s64, int64_t, uint64_t, 64)
UNSIGNED(u8, uint8_t, 8)
UNSIGNED(u16, uint16_t, 16)
UNSIGNED(u32, uint32_t, 32)
UNSIGNED(u64, uint64_t, 64)
TABLE(td_pw_s8, s8);
TABLE(td_pw_s16, s16);
TABLE(td_pw_s32, s32);
TABLE(td_pw_s64, s64);
TABLE(td_pw_u8, u8);
TABLE(td_pw_u16, u16);
TABLE(td_pw_u32, u32);
TABLE(td_pw_u64, u64);

PW_UN(p_not, uint8_t, !x)
PW_BIN(p_and, uint8_t, (x != 0) & (y != 0))
PW_BIN(p_or, uint8_t, (x != 0) | (y != 0))
PW_BIN(p_xor, uint8_t, (x != 0) ^ (y != 0))
const td_pw_table_t td_pw_pred = {
    .fn = {[TD_HLO_NOT] = p_not, [TD_HLO_AND] = p_and, [TD_HLO_OR] = p_or, [TD_HLO_XOR] = p_xor, [TD_HLO_ADD] = p_or,
           [TD_HLO_MULTIPLY] = p_and, [TD_HLO_MAXIMUM] = p_or, [TD_HLO_MINIMUM] = p_and, [TD_HLO_CLAMP] = u8_clamp},
    .compare = PW_COMPARE_ROW(u8), .total = PW_COMPARE_ROW(u8)};
