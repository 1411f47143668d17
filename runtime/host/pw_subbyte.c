/* SPDX-License-Identifier: Apache-2.0 */
/* Integers of fewer than 8 bits are held sign- or zero-extended in a byte. That is right for arithmetic,
 * whose result is wrapped afterwards, but not for operations that count or move the bits of the type. */
#include <stdint.h>

#include "runtime/host/pw_subbyte.h"

#define SUBBYTE(BITS)                                                                                       \
    enum { MASK_##BITS = (1 << BITS) - 1, SIGN_##BITS = 1 << (BITS - 1) };                                  \
    static inline int low_##BITS(uint8_t v) { return v & MASK_##BITS; }                                     \
    static inline int signed_##BITS(uint8_t v) { return (low_##BITS(v) ^ SIGN_##BITS) - SIGN_##BITS; }      \
    static inline int at_most_##BITS(uint8_t y, int most) { return low_##BITS(y) < most ? low_##BITS(y) : most; } \
    PW_UN(clz_##BITS, uint8_t, low_##BITS(x) ? __builtin_clz((unsigned)low_##BITS(x)) - (32 - BITS) : BITS) \
    PW_UN(pop_##BITS, uint8_t, __builtin_popcount((unsigned)low_##BITS(x)))                                 \
    PW_BIN(shl_##BITS, uint8_t, low_##BITS(y) < BITS ? low_##BITS(x) << at_most_##BITS(y, BITS - 1) : 0)    \
    PW_BIN(shr_##BITS, uint8_t, low_##BITS(y) < BITS ? low_##BITS(x) >> at_most_##BITS(y, BITS - 1) : 0)    \
    PW_BIN(sar_##BITS, uint8_t, signed_##BITS(x) >> at_most_##BITS(y, BITS - 1))                            \
    static td_pw_fn_t find_##BITS(td_opcode_t op) {                                                         \
        switch (op) {                                                                                       \
        case TD_HLO_CLZ: return clz_##BITS;                                                                 \
        case TD_HLO_POPCNT: return pop_##BITS;                                                              \
        case TD_HLO_SHIFT_LEFT: return shl_##BITS;                                                          \
        case TD_HLO_SHIFT_RIGHT_LOGICAL: return shr_##BITS;                                                 \
        case TD_HLO_SHIFT_RIGHT_ARITHMETIC: return sar_##BITS;                                              \
        default: return NULL;                                                                               \
        }                                                                                                   \
    }

SUBBYTE(1)
SUBBYTE(2)
SUBBYTE(4)

td_pw_fn_t td_pw_subbyte(td_type_t t, td_opcode_t op) {
    if (!td_type_is_integer(t)) return NULL;
    switch (td_type_bits(t)) {
    case 1: return find_1(op);
    case 2: return find_2(op);
    case 4: return find_4(op);
    default: return NULL;
    }
}
