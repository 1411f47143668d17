/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs of f32 operations in one pass over a tile. Compiled once per instruction set. */
#include "runtime/host/types.h"
#include "runtime/host/vec_isa.h"

#define F_ADD(x, y) ((x) + (y))
#define F_SUB(x, y) ((x) - (y))
#define F_MUL(x, y) ((x) * (y))
#define F_RSUB(x, y) ((y) - (x))
#define F_DIV(x, y) ((x) / (y))
#define F_RDIV(x, y) ((y) / (x))
#define F_MAX(x, y) ((x) != (x) ? (x) : (y) != (y) ? (y) : (x) >= (y) ? (x) : (y))
#define F_MIN(x, y) ((x) != (x) ? (x) : (y) != (y) ? (y) : (x) <= (y) ? (x) : (y))
#define F_RMAX(x, y) F_MAX(y, x) /* which of two zeros comes out depends on the order */
#define F_RMIN(x, y) F_MIN(y, x)

#define PAIR(name, f, g, B, C)                                                             \
    static void name(void *d_, const void *a_, const void *b_, const void *c_, size_t n) {  \
        float *d = d_;                                                                     \
        const float *a = a_, *b = b_, *c = c_;                                             \
        const float bs = *b, cs = *c;                                                      \
        (void)bs, (void)cs;                                                                \
        PW_LOOP(float t = f(a[i], B); d[i] = g(t, C))                                      \
    }
#define FOUR(name, f, g)                                                                    \
    PAIR(name##_vv, f, g, b[i], c[i]) PAIR(name##_sv, f, g, bs, c[i])                       \
    PAIR(name##_vs, f, g, b[i], cs) PAIR(name##_ss, f, g, bs, cs)
#define ROW(name, f) FOUR(name##_add, f, F_ADD) FOUR(name##_sub, f, F_SUB) FOUR(name##_mul, f, F_MUL) FOUR(name##_rsub, f, F_RSUB)
ROW(add, F_ADD) ROW(sub, F_SUB) ROW(mul, F_MUL)

#define CELL(name) {name##_vv, name##_sv, name##_vs, name##_ss}
#define LINE(name) {CELL(name##_add), CELL(name##_sub), CELL(name##_mul), CELL(name##_rsub)}
const td_pw_fn_t td_pairs_isa[3][TD_PAIRS][4] = {LINE(add), LINE(sub), LINE(mul)};

#define ONE(name, f)                                                                        \
    static void name(void *d_, const void *a_, const void *b_, const void *c_, size_t n) {   \
        float *d = d_;                                                                      \
        const float *a = a_, y = *(const float *)b_;                                        \
        (void)c_;                                                                           \
        PW_LOOP(float x = a[i]; d[i] = f(x, y))                                             \
    }
ONE(one_add, F_ADD) ONE(one_sub, F_SUB) ONE(one_mul, F_MUL) ONE(one_rsub, F_RSUB) ONE(one_div, F_DIV) ONE(one_rdiv, F_RDIV)
ONE(one_max, F_MAX) ONE(one_min, F_MIN) ONE(one_rmax, F_RMAX) ONE(one_rmin, F_RMIN)
const td_pw_fn_t td_scalars_isa[TD_ONES] = {one_add, one_sub, one_mul, one_rsub, one_div, one_rdiv,
                                             one_max, one_min, one_rmax, one_rmin};

PW_BIN(bf16_add, float, td_bits_f32((uint32_t)td_bf16_from_f32(x + y) << 16))
PW_BIN(bf16_sub, float, td_bits_f32((uint32_t)td_bf16_from_f32(x - y) << 16))
PW_BIN(bf16_mul, float, td_bits_f32((uint32_t)td_bf16_from_f32(x * y) << 16))
const td_pw_fn_t td_bf16_isa[3] = {bf16_add, bf16_sub, bf16_mul};
