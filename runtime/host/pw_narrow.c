/* SPDX-License-Identifier: Apache-2.0 */
/* Integers of 1, 2 and 4 bits are held sign- or zero-extended in bytes, and most operations on bytes are right for
 * them once the result is wrapped. These are not: they see the bits above. */
#include "runtime/host/pw.h"

#define NARROW(p, T, BITS, MASK)                                                                     \
    PW_UN(p##_pop, T, __builtin_popcount((unsigned)x & MASK))                                        \
    PW_UN(p##_clz, T, (x & MASK) ? __builtin_clz((unsigned)x & MASK) - (32 - BITS) : BITS)           \
    PW_BIN(p##_shl, T, (y & MASK) < BITS ? (unsigned)x << (y & MASK) : 0)                            \
    PW_BIN(p##_shr, T, (y & MASK) < BITS ? ((unsigned)x & MASK) >> (y & MASK) : 0)                   \
    PW_BIN(p##_sar, T, narrow_##BITS(x) >> ((y & MASK) < BITS ? (y & MASK) : BITS - 1))              \
    PW_BIN(p##_mulhi, T, x * y >> BITS)

#define EXTEND(BITS) \
    static inline int narrow_##BITS(int x) { return (int)((unsigned)x << (32 - BITS)) >> (32 - BITS); }
EXTEND(1)
EXTEND(2)
EXTEND(4)
NARROW(s1, int8_t, 1, 1)
NARROW(s2, int8_t, 2, 3)
NARROW(s4, int8_t, 4, 15)
NARROW(u1, uint8_t, 1, 1)
NARROW(u2, uint8_t, 2, 3)
NARROW(u4, uint8_t, 4, 15)

#define ROW(T, p) [T] = {p##_pop, p##_clz, p##_shl, p##_shr, p##_sar, p##_mulhi}
static const td_pw_fn_t rows[TD_TYPE_COUNT][6] = {ROW(TD_S1, s1), ROW(TD_S2, s2), ROW(TD_S4, s4),
                                                  ROW(TD_U1, u1), ROW(TD_U2, u2), ROW(TD_U4, u4)};

td_pw_fn_t td_pw_narrow(td_type_t t, td_opcode_t op) {
    if ((unsigned)t >= TD_TYPE_COUNT) return NULL;
    switch (op) {
    case TD_HLO_POPCNT: return rows[t][0];
    case TD_HLO_CLZ: return rows[t][1];
    case TD_HLO_SHIFT_LEFT: return rows[t][2];
    case TD_HLO_SHIFT_RIGHT_LOGICAL: return rows[t][3];
    case TD_HLO_SHIFT_RIGHT_ARITHMETIC: return rows[t][4];
    case TD_HLO_MULHI: return rows[t][5];
    default: return NULL;
    }
}
