/* SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "runtime/host/pw.h"

#define T double
#define T_MAX DBL_MAX
#define I int64_t
#define I_MAX INT64_MAX
#define F(name) name
#define NAME td_pw_f64
#include "runtime/host/pw_float.h"

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
