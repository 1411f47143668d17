/* SPDX-License-Identifier: Apache-2.0 */
/* Element-wise operations of one complex type. Before including: R (its part), F(name), NAME. */
#define T R _Complex
PW_UN2(z_abs, T, R, FC(cabs)(x)) PW_BIN(z_add, T, x + y) PW_BIN(z_sub, T, x - y) PW_BIN(z_mul, T, x * y)
PW_BIN(z_div, T, x / y) PW_UN(z_neg, T, -x) PW_UN(z_exp, T, FC(cexp)(x)) PW_UN(z_log, T, FC(clog)(x))
PW_UN(z_sqrt, T, FC(csqrt)(x)) PW_UN(z_rsqrt, T, 1 / FC(csqrt)(x)) PW_UN(z_tanh, T, FC(ctanh)(x))
PW_UN(z_tan, T, FC(ctan)(x)) PW_UN(z_sin, T, FC(csin)(x)) PW_UN(z_cos, T, FC(ccos)(x)) PW_UN(z_sinh, T, FC(csinh)(x))
PW_UN(z_cosh, T, FC(ccosh)(x)) PW_UN(z_asin, T, FC(casin)(x)) PW_UN(z_acos, T, FC(cacos)(x))
PW_UN(z_asinh, T, FC(casinh)(x)) PW_UN(z_acosh, T, FC(cacosh)(x)) PW_UN(z_atanh, T, FC(catanh)(x)) PW_UN(z_atan, T, FC(catan)(x))
PW_UN2(z_real, T, R, FC(creal)(x)) PW_UN2(z_imag, T, R, FC(cimag)(x)) PW_BIN2(z_eq, T, uint8_t, x == y)
PW_BIN2(z_ne, T, uint8_t, x != y) PW_UN(z_logistic, T, 1 / (1 + FC(cexp)(-x)))

static inline T z_make(R re, R im) {
    T z;
    memcpy(&z, (R[2]){re, im}, sizeof z);
    return z;
}
static inline T z_log1p1(T x) {
    R re = FC(creal)(x), im = FC(cimag)(x);
    return z_make(FC(log1p)(re * (2 + re) + im * im) / 2, FC(atan2)(im, 1 + re));
}
static inline T z_expm11(T x) {
    R re = FC(creal)(x), im = FC(cimag)(x), h = FC(sin)(im / 2), e = FC(expm1)(re);
    return z_make(e * FC(cos)(im) - 2 * h * h, (e + 1) * FC(sin)(im));
}
static inline T z_pow1(T x, T y) {
    if (x == 0) return y == 0 ? z_make(1, 0) : FC(creal)(y) > 0 ? z_make(0, 0) : FC(cpow)(x, y);
    return FC(cpow)(x, y);
}
static inline T z_sign1(T x) {
    R a = FC(cabs)(x);
    return a == 0 ? x : x / a;
}
static inline T z_cbrt1(T x) {
    return x == 0 ? x : FC(cpow)(x, z_make((R)1 / 3, 0));
}
PW_UN(z_log1p, T, z_log1p1(x)) PW_UN(z_expm1, T, z_expm11(x)) PW_BIN(z_pow, T, z_pow1(x, y))
PW_UN(z_sign, T, z_sign1(x)) PW_UN(z_cbrt, T, z_cbrt1(x))

static void z_atan2(void *d_, const void *a_, const void *b_, const void *c_, size_t n) {
    T *d = d_;
    const T *a = a_, *b = b_;
    (void)c_;
    for (size_t i = 0; i < n; i++) { /* -i log((x + i y) / sqrt(x² + y²)) */
        T y = a[i], x = b[i], iy = z_make(-FC(cimag)(y), FC(creal)(y));
        T l = FC(clog)((x + iy) / FC(csqrt)(x * x + y * y));
        d[i] = z_make(FC(cimag)(l), -FC(creal)(l));
    }
}
static void z_finite(void *d_, const void *a_, const void *b_, const void *c_, size_t n) {
    uint8_t *d = d_;
    const R *a = a_;
    (void)b_, (void)c_;
    for (size_t i = 0; i < n; i++) d[i] = isfinite(a[2 * i]) && isfinite(a[2 * i + 1]);
}

const td_pw_table_t NAME = {
    .fn = {[TD_HLO_ABS] = z_abs, [TD_HLO_ADD] = z_add, [TD_HLO_SUBTRACT] = z_sub, [TD_HLO_MULTIPLY] = z_mul,
           [TD_HLO_DIVIDE] = z_div, [TD_HLO_NEGATE] = z_neg, [TD_HLO_EXP] = z_exp, [TD_HLO_LOG] = z_log,
           [TD_HLO_SQRT] = z_sqrt, [TD_HLO_RSQRT] = z_rsqrt, [TD_HLO_TANH] = z_tanh, [TD_HLO_TAN] = z_tan,
           [TD_HLO_SIN] = z_sin, [TD_HLO_COS] = z_cos, [TD_HLO_SINH] = z_sinh, [TD_HLO_COSH] = z_cosh,
           [TD_HLO_ASIN] = z_asin, [TD_HLO_ACOS] = z_acos, [TD_HLO_ASINH] = z_asinh, [TD_HLO_ACOSH] = z_acosh,
           [TD_HLO_ATAN] = z_atan, [TD_HLO_ATANH] = z_atanh, [TD_HLO_ATAN2] = z_atan2, [TD_HLO_REAL] = z_real, [TD_HLO_IMAG] = z_imag,
           [TD_HLO_LOGISTIC] = z_logistic, [TD_HLO_LOG1P] = z_log1p, [TD_HLO_EXPM1] = z_expm1,
           [TD_HLO_POWER] = z_pow, [TD_HLO_SIGN] = z_sign, [TD_HLO_CBRT] = z_cbrt, [TD_HLO_IS_FINITE] = z_finite},
    .compare = {[TD_CMP_EQ] = z_eq, [TD_CMP_NE] = z_ne},
    .total = {[TD_CMP_EQ] = z_eq, [TD_CMP_NE] = z_ne},
};
#undef T
