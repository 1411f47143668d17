/* SPDX-License-Identifier: Apache-2.0 */
/* reduce-precision. */
#include <math.h>
#include <string.h>

#include "runtime/host/pw.h"

/* Rounds to `mantissa` bits, then fits the exponent's range: too large is infinite, subnormal is zero. */
void td_pw_reduce_precision_f32(float *d, const float *s, size_t n, int exponent, int mantissa) {
    int bias = (1 << (exponent - 1)) - 1;
    for (size_t i = 0; i < n; i++) {
        uint32_t u, sign;
        memcpy(&u, &s[i], 4);
        sign = u & 0x80000000u, u &= 0x7fffffffu;
        if (u > 0x7f800000u) {
            d[i] = s[i];
            continue;
        }
        if (mantissa < 23) {
            uint32_t last = 1u << (23 - mantissa);
            u = (u + (last >> 1) - 1 + ((u & last) != 0)) & ~(last - 1);
        }
        if (exponent < 8) {
            if ((int)(u >> 23) - 127 > bias) u = 0x7f800000u;
            else if ((int)(u >> 23) - 127 < 1 - bias) u = 0;
        }
        u |= sign;
        memcpy(&d[i], &u, 4);
    }
}

void td_pw_reduce_precision_f16(float *d, const float *s, size_t n, int exponent, int mantissa) {
    float step = ldexpf(1, -14 - (mantissa < 10 ? mantissa : 10)); /* between subnormals of so many bits */
    for (size_t i = 0; i < n; i++) d[i] = fabsf(s[i]) < 0x1p-14f ? nearbyintf(s[i] / step) * step : s[i];
    td_pw_reduce_precision_f32(d, d, n, exponent < 5 ? exponent : 8, mantissa);
}

void td_pw_reduce_precision_f64(double *d, const double *s, size_t n, int exponent, int mantissa) {
    int bias = (1 << (exponent - 1)) - 1;
    const uint64_t inf = 0x7ffull << 52;
    for (size_t i = 0; i < n; i++) {
        uint64_t u, sign;
        memcpy(&u, &s[i], 8);
        sign = u & 1ull << 63, u &= ~(1ull << 63);
        if (u > inf) {
            d[i] = s[i];
            continue;
        }
        if (mantissa < 52) {
            uint64_t last = 1ull << (52 - mantissa);
            u = (u + (last >> 1) - 1 + ((u & last) != 0)) & ~(last - 1);
        }
        if (exponent < 11) {
            if ((int)(u >> 52) - 1023 > bias) u = inf;
            else if ((int)(u >> 52) - 1023 < 1 - bias) u = 0;
        }
        u |= sign;
        memcpy(&d[i], &u, 8);
    }
}
