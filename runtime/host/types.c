/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/host/types.h"

#include <math.h>

/* How the largest exponent and negative zero are used. */
typedef enum kind { IEEE, FN, FNUZ, FINITE, E8M0 } kind_t;
typedef struct format {
    uint8_t e, m, kind;
    int16_t bias;
} format_t;

static const format_t formats[TD_TYPE_COUNT] = {
    [TD_F16] = {5, 10, IEEE, 15}, [TD_BF16] = {8, 7, IEEE, 127}, [TD_F8E5M2] = {5, 2, IEEE, 15},
    [TD_F8E4M3] = {4, 3, IEEE, 7}, [TD_F8E3M4] = {3, 4, IEEE, 3}, [TD_F8E4M3FN] = {4, 3, FN, 7},
    [TD_F8E4M3B11FNUZ] = {4, 3, FNUZ, 11}, [TD_F8E5M2FNUZ] = {5, 2, FNUZ, 16}, [TD_F8E4M3FNUZ] = {4, 3, FNUZ, 8},
    [TD_F4E2M1FN] = {2, 1, FINITE, 1}, [TD_F6E3M2FN] = {3, 2, FINITE, 3}, [TD_F6E2M3FN] = {2, 3, FINITE, 1},
    [TD_F8E8M0FNU] = {8, 0, E8M0, 127},
};

bool td_type_is_small_float(td_type_t t) { return (unsigned)t < TD_TYPE_COUNT && formats[t].e; }

td_type_t td_type_register(td_type_t t) {
    if (td_type_is_small_float(t)) return TD_F32;
    if (t == TD_S4 || t == TD_S2 || t == TD_S1) return TD_S8;
    if (t == TD_U4 || t == TD_U2 || t == TD_U1) return TD_U8;
    return t;
}

float td_small_decode(td_type_t t, uint32_t u) {
    const format_t f = formats[t];
    if (t == TD_BF16) return td_bits_f32(u << 16);
    if (f.kind == E8M0) return u == 0xff ? NAN : ldexpf(1.0f, (int)u - 127);
    uint32_t width = 1u + f.e + f.m, sign = u >> (width - 1) & 1, ones = (1u << f.e) - 1;
    uint32_t man = u & ((1u << f.m) - 1), ex = u >> f.m & ones;
    uint32_t sbit = sign << 31;
    if (f.kind == FNUZ && sign && !ex && !man) return td_bits_f32(0xffc00000u);
    if (ex == ones) {
        if (f.kind == IEEE) return td_bits_f32(sbit | 0x7f800000u | (man ? man << (23 - f.m) | 0x400000u : 0));
        if (f.kind == FN && man == (1u << f.m) - 1) return td_bits_f32(sbit | 0x7fc00000u);
    }
    if (ex) return td_bits_f32(sbit | (ex + 127u - (uint32_t)f.bias) << 23 | man << (23 - f.m));
    float v = (float)man * td_bits_f32((uint32_t)(127 + 1 - f.bias - f.m) << 23);
    return sign ? -v : v;
}

static uint32_t encode_e8m0(double x) {
    if (!(x > 0) || isinf(x)) return 0xff; /* zero too: the format has none */
    int e;
    double m = frexp(x, &e); /* x = m * 2^e, m in [0.5, 1) */
    int p = e - 1;
    if (m >= 0.75 || (p == -127 && m > 0.5)) p++; /* ties go up, as ml_dtypes does */
    if (p < -127) return 0;
    return p > 127 ? 0xff : (uint32_t)(p + 127);
}

uint32_t td_small_encode(td_type_t t, double x) {
    const format_t f = formats[t];
    if (f.kind == E8M0) return encode_e8m0(x);
    uint32_t sign = signbit(x) ? 1u << (f.e + f.m) : 0, ones = (1u << f.e) - 1, mask = (1u << f.m) - 1;
    uint32_t inf = ones << f.m, nan = inf | 1u << (f.m ? f.m - 1 : 0), top;
    switch (f.kind) {
    case IEEE: top = inf - 1; break;
    case FN: top = inf | (mask - 1), nan = inf | mask; break;
    case FNUZ: top = inf | mask, nan = 1u << (f.e + f.m), sign = x == 0 ? 0 : sign; break;
    default: top = inf | mask, nan = 1u << (f.e + f.m); break; /* no NaN: negative zero, as ml_dtypes does */
    }
    if (x != x) return f.kind == FNUZ ? nan : f.kind == FINITE ? sign ^ nan : sign | nan;
    uint32_t over = f.kind == IEEE ? sign | inf : f.kind == FN ? sign | nan : f.kind == FNUZ ? nan : sign | top;
    if (isinf(x)) return over;
    double a = fabs(x);
    uint64_t d;
    memcpy(&d, &a, 8);
    int ex = (int)(d >> 52) - 1023 + f.bias; /* biased exponent in the small format */
    if (f.kind == FNUZ && ex < -f.m - 1) return 0;
    if (d >> 52 == 0) return sign;
    uint64_t man = (d & ((1ull << 52) - 1)) | 1ull << 52;
    int shift = 52 - f.m + (ex < 1 ? 1 - ex : 0);
    if (shift > 54) return f.kind == FNUZ ? 0 : sign;
    uint64_t q = man >> shift, rest = man & ((1ull << shift) - 1), half = 1ull << (shift - 1);
    if (rest > half || (rest == half && (q & 1))) q++;
    if (ex >= 1) q += (uint64_t)(ex - 1) << f.m; /* the hidden bit is the exponent's last step */
    if (ex > (int)ones + 1 || q > top) return over;
    return f.kind == FNUZ && !q ? 0 : sign | (uint32_t)q;
}

void td_subbyte_wrap(td_type_t t, void *p, size_t n) {
    unsigned bits = td_type_bits(t), up = 8 - bits;
    uint8_t *b = p;
    if (td_type_is_signed(t))
        for (size_t i = 0; i < n; i++) b[i] = (uint8_t)((int8_t)(uint8_t)(b[i] << up) >> up);
    else
        for (size_t i = 0; i < n; i++) b[i] = (uint8_t)(b[i] & (0xffu >> up));
}

void td_subbyte_unpack(td_type_t t, const void *packed, void *bytes, size_t n) {
    unsigned bits = td_type_bits(t), per = 8 / bits;
    const uint8_t *s = packed;
    uint8_t *d = bytes;
    for (size_t i = 0; i < n; i++) d[i] = (uint8_t)((unsigned)s[i / per] >> i % per * bits & ((1u << bits) - 1));
    if (td_type_is_signed(t)) td_subbyte_wrap(t, bytes, n);
}

void td_subbyte_pack(td_type_t t, const void *bytes, void *packed, size_t n) {
    unsigned bits = td_type_bits(t), per = 8 / bits;
    const uint8_t *s = bytes;
    uint8_t *d = packed;
    memset(d, 0, (n + per - 1) / per);
    for (size_t i = 0; i < n; i++) d[i / per] |= (uint8_t)((s[i] & ((1u << bits) - 1)) << i % per * bits);
}
