/* SPDX-License-Identifier: Apache-2.0 */
/* One instruction set's table, and its reductions. Compiled once per instruction set. */
#include <math.h>

#include "runtime/host/types.h"
#include "runtime/host/vec_isa.h"

#define SELECT(T)                                                                                          \
    static void select_##T(void *d_, const void *a_, const void *b_, const void *c_, size_t n) {            \
        T *d = d_;                                                                                          \
        const uint8_t *a = a_;                                                                              \
        const T *b = b_, *c = c_;                                                                           \
        PW_LOOP(T y = b[i]; T z = c[i]; d[i] = a[i] ? y : z)                                                \
    }
typedef struct { uint64_t lo, hi; } u128_t;
SELECT(uint8_t) SELECT(uint16_t) SELECT(uint32_t) SELECT(uint64_t) SELECT(u128_t)

enum { LANES = 64 }; /* four of the widest registers */

/* Sums the lanes as a tree. */
static float fold(float *a) {
    for (int n = LANES / 2; n; n /= 2)
        for (int i = 0; i < n; i++) a[i] += a[i + n];
    return a[0];
}

#define LANE_LOOP(start, term)                                       \
    float a[LANES];                                                  \
    size_t i = 0;                                                    \
    for (size_t k = 0; k < LANES; k++) a[k] = start;                 \
    for (; i + LANES <= n; i += LANES)                               \
        for (size_t k = 0; k < LANES; k++) a[k] = (term(i + k)) + a[k]; \
    for (size_t k = 0; i + k < n; k++) a[k] = (term(i + k)) + a[k];     \
    return fold(a)

#define X_OF(j) x[j]
#define XY_OF(j) x[j] * y[j]
#define XB_OF(j) x[j] * td_bits_f32((uint32_t)y[j] << 16)
/* Short rows: eight lanes. */
static float sum_short(const float *x, size_t n) {
    float a[8];
    size_t i = 0;
    for (int k = 0; k < 8; k++) a[k] = -0.0f;
    for (; i + 8 <= n; i += 8)
        for (size_t k = 0; k < 8; k++) a[k] += x[i + k];
    for (size_t k = 0; i + k < n; k++) a[k] += x[i + k];
    return ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]));
}

static float sum_long(const float *x, size_t n) { LANE_LOOP(-0.0f, X_OF); } /* -0 + -0 is -0 */
static float sum(const float *x, size_t n) { return n <= LANES ? sum_short(x, n) : sum_long(x, n); }
__attribute__((optimize("fp-contract=fast"))) static float dot(const float *x, const float *y, size_t n) { LANE_LOOP(0, XY_OF); }
__attribute__((optimize("fp-contract=fast"))) static float dot_bf16(const float *x, const uint16_t *y, size_t n) { LANE_LOOP(0, XB_OF); }

static inline float rounded(float x) { return td_bits_f32((uint32_t)td_bf16_from_f32(x) << 16); }
#define XR_OF(j) rounded(x[j] * td_bits_f32((uint32_t)y[j] << 16))
static float dot_bf16_rounded(const float *x, const uint16_t *y, size_t n) { LANE_LOOP(0, XR_OF); }
static void axpy_bf16_rounded(float a, const uint16_t *restrict x, float *restrict y, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] += rounded(a * td_bits_f32((uint32_t)x[i] << 16));
}

__attribute__((optimize("fp-contract=fast"))) static void axpy(float a, const float *restrict x, float *restrict y, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] += a * x[i];
}
__attribute__((optimize("fp-contract=fast"))) static void axpy_bf16(float a, const uint16_t *restrict x, float *restrict y, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] += a * td_bits_f32((uint32_t)x[i] << 16);
}

static void add_wide(const float *restrict x, double *restrict y, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] += (double)x[i];
}

static void add_index(const int32_t *index, int64_t step, int32_t max, int32_t stride, int32_t *restrict at, size_t n) {
    for (size_t i = 0; i < n; i++) {
        int32_t x = index[(int64_t)i * step];
        at[i] += (x < 0 ? 0 : x > max ? max : x) * stride;
    }
}
static void take4(const uint32_t *restrict src, const int32_t *restrict at, size_t n, uint32_t *restrict dst) {
    for (size_t i = 0; i < n; i++) dst[i] = src[at[i]];
}

static inline float max2(float x, float y) { return x != x ? x : y != y ? y : x >= y ? x : y; }
static float max(const float *x, size_t n) {
    float a[LANES];
    for (int k = 0; k < LANES; k++) a[k] = x[0];
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t k = 0; k < LANES; k++) a[k] = max2(a[k], x[i + k]);
    for (size_t k = 0; i + k < n; k++) a[k] = max2(a[k], x[i + k]);
    for (int m = LANES / 2; m; m /= 2)
        for (int k = 0; k < m; k++) a[k] = max2(a[k], a[k + m]);
    return a[0];
}

const td_vec_t TD_V(td_vec) = {
    .name = TD_ISA_NAME,
    .tables = {[TD_PRED] = &td_pw_pred, [TD_S8] = &td_pw_s8, [TD_S16] = &td_pw_s16, [TD_S32] = &td_pw_s32,
               [TD_S64] = &td_pw_s64, [TD_U8] = &td_pw_u8, [TD_U16] = &td_pw_u16, [TD_U32] = &td_pw_u32,
               [TD_U64] = &td_pw_u64, [TD_F32] = &td_pw_f32, [TD_F64] = &td_pw_f64, [TD_C64] = &td_pw_c64,
               [TD_C128] = &td_pw_c128},
    .select = {select_uint8_t, select_uint16_t, select_uint32_t, select_uint64_t, select_u128_t},
    .pair = td_pairs_isa, .scalar = td_scalars_isa, .bf16 = td_bf16_isa, .transpose8 = td_transpose8_isa, .convert = td_convert_isa, .small_load = td_small_load_isa, .small_store = td_small_store_isa,
    .small_round = td_small_round_isa, .sum = sum, .dot = dot, .dot_bf16 = dot_bf16, .dot_bf16_rounded = dot_bf16_rounded, .axpy_bf16_rounded = axpy_bf16_rounded, .axpy = axpy,
    .axpy_bf16 = axpy_bf16, .add_wide = add_wide, .add_index = add_index, .take4 = take4, .max = max,
};
