/* SPDX-License-Identifier: Apache-2.0 */
/* Element-wise operations of one native float type. Before including: T, I (signed integer as wide),
 * F(name) (libm function of T), NAME (the table), vec_sleef.h. */

PW_UN(f_abs, T, F(fabs)(x)) VEC_UN(f_acos, SLEEF(acos)(x)) VEC_UN(f_acosh, vec_checked(SLEEF(acosh)(x), x, F(acosh)))
PW_BIN(f_add, T, x + y) VEC_UN(f_asin, SLEEF(asin)(x)) VEC_UN(f_atan, SLEEF(atan)(x)) VEC_UN(f_asinh, vec_checked(SLEEF(asinh)(x), x, F(asinh)))
VEC_BIN(f_atan2, SLEEF(atan2)(x, y)) VEC_UN(f_atanh, SLEEF(atanh)(x)) VEC_UN(f_cbrt, SLEEF(cbrt)(x))
PW_UN(f_ceil, T, F(ceil)(x)) VEC_UN(f_cos, SLEEF(cos)(x)) VEC_UN(f_cosh, vec_checked(SLEEF(cosh)(x), x, F(cosh)))
PW_BIN(f_divide, T, x / y) VEC_UN(f_erf, SLEEF(erf)(x))
VEC_UN(f_exp, sizeof(T) == 4 ? SLEEF(exp)(x) : vec_checked(SLEEF(exp)(x), x, F(exp)))
VEC_UN(f_expm1, vec_checked(SLEEF(expm1)(x), x, F(expm1))) PW_UN(f_floor, T, F(floor)(x))
PW_UN2(f_finite, T, uint8_t, F(fabs)(x) <= T_MAX) VEC_UN(f_log, SLEEF(log)(x))
VEC_UN(f_log1p, vec_checked(SLEEF(log1p)(x), x, F(log1p))) VEC_UN(f_logistic, 1 / (1 + SLEEF(exp)(-x)))
PW_BIN(f_max, T, x != x ? x : y != y ? y : x >= y ? x : y) PW_BIN(f_min, T, x != x ? x : y != y ? y : x <= y ? x : y)
PW_BIN(f_multiply, T, x * y) PW_UN(f_negate, T, -x) VEC_BIN(f_power, vec_checked2(SLEEF(pow)(x, y), x, y, F(pow)))
PW_BIN(f_remainder, T, F(fmod)(x, y)) PW_UN(f_afz, T, F(round)(x)) PW_UN(f_even, T, F(nearbyint)(x))
PW_UN(f_rsqrt, T, 1 / F(sqrt)(x)) PW_UN(f_sign, T, x > 0 ? (T)1 : x < 0 ? (T)-1 : x) VEC_UN(f_sin, SLEEF(sin)(x))
VEC_UN(f_sinh, vec_checked(SLEEF(sinh)(x), x, F(sinh))) PW_UN(f_sqrt, T, F(sqrt)(x)) PW_BIN(f_subtract, T, x - y)
VEC_UN(f_tan, SLEEF(tan)(x)) VEC_UN(f_tanh, SLEEF(tanh)(x)) PW_UN(f_real, T, x) PW_UN(f_imag, T, 0 * (x != x))
PW_COMPARES(f, T)

static inline T f_clamp1(T lo, T x, T hi) {
    T m = lo != lo ? lo : x != x ? x : x >= lo ? x : lo;
    return m != m ? m : hi != hi ? hi : m <= hi ? m : hi;
}
PW_CLAMP(f_clamp, T, f_clamp1(lo, x, hi))

static void f_complex(void *d_, const void *a_, const void *b_, const void *c_, size_t n) {
    T *d = d_;
    const T *a = a_, *b = b_;
    (void)c_;
    for (size_t i = 0; i < n; i++) d[2 * i] = a[i], d[2 * i + 1] = b[i];
}

/* -NaN < -Inf < … < -0 < +0 < … < NaN */
static inline I f_key(T x) {
    I k;
    memcpy(&k, &x, sizeof k);
    return k < 0 ? k ^ I_MAX : k;
}
#define PW_TOTAL(name, op) PW_BIN2(name, T, uint8_t, f_key(x) op f_key(y))
PW_TOTAL(t_eq, ==) PW_TOTAL(t_ne, !=) PW_TOTAL(t_ge, >=) PW_TOTAL(t_gt, >) PW_TOTAL(t_le, <=) PW_TOTAL(t_lt, <)

const td_pw_table_t NAME = {
    .fn = {
        [TD_HLO_ABS] = f_abs, [TD_HLO_ACOS] = f_acos, [TD_HLO_ACOSH] = f_acosh, [TD_HLO_ADD] = f_add,
        [TD_HLO_ASIN] = f_asin, [TD_HLO_ASINH] = f_asinh, [TD_HLO_ATAN] = f_atan, [TD_HLO_ATAN2] = f_atan2, [TD_HLO_ATANH] = f_atanh,
        [TD_HLO_CBRT] = f_cbrt, [TD_HLO_CEIL] = f_ceil, [TD_HLO_CLAMP] = f_clamp, [TD_HLO_COMPLEX] = f_complex,
        [TD_HLO_COS] = f_cos, [TD_HLO_COSH] = f_cosh, [TD_HLO_DIVIDE] = f_divide, [TD_HLO_ERF] = f_erf,
        [TD_HLO_EXP] = f_exp, [TD_HLO_EXPM1] = f_expm1, [TD_HLO_FLOOR] = f_floor, [TD_HLO_IMAG] = f_imag,
        [TD_HLO_IS_FINITE] = f_finite, [TD_HLO_LOG] = f_log, [TD_HLO_LOG1P] = f_log1p,
        [TD_HLO_LOGISTIC] = f_logistic, [TD_HLO_MAXIMUM] = f_max, [TD_HLO_MINIMUM] = f_min,
        [TD_HLO_MULTIPLY] = f_multiply, [TD_HLO_NEGATE] = f_negate, [TD_HLO_POWER] = f_power,
        [TD_HLO_REAL] = f_real, [TD_HLO_REMAINDER] = f_remainder, [TD_HLO_ROUND_AFZ] = f_afz,
        [TD_HLO_ROUND_EVEN] = f_even, [TD_HLO_RSQRT] = f_rsqrt, [TD_HLO_SIGN] = f_sign, [TD_HLO_SIN] = f_sin,
        [TD_HLO_SINH] = f_sinh, [TD_HLO_SQRT] = f_sqrt, [TD_HLO_SUBTRACT] = f_subtract, [TD_HLO_TAN] = f_tan,
        [TD_HLO_TANH] = f_tanh,
    },
    .compare = PW_COMPARE_ROW(f),
    .total = PW_COMPARE_ROW(t),
};
