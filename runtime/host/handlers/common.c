/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/host/handlers/common.h"

#include <complex.h>
#include <math.h>
#include <string.h>

void td_copy_bytes(void *dst, const void *src, uint64_t bytes) {
    if (dst != src && bytes) memmove(dst, src, (size_t)bytes);
}

bool td_all_finite(td_type_t t, const void *p, uint64_t n) {
    const float *f = p;
    const double *g = p;
    uint64_t k = n * (td_type_is_complex(t) ? 2 : 1);
    for (uint64_t i = 0; i < k; i++)
        if (td_real_of(t) == TD_F32 ? !isfinite(f[i]) : !isfinite(g[i])) return false;
    return true;
}

void td_fill_nan(td_type_t t, void *p, uint64_t n) {
    float *f = p;
    double *g = p;
    uint64_t k = n * (td_type_is_complex(t) ? 2 : 1);
    for (uint64_t i = 0; i < k; i++)
        if (td_real_of(t) == TD_F32) f[i] = NAN;
        else g[i] = NAN;
}

#define ADJOINT(T, CONJ)                                                                             \
    do {                                                                                             \
        const T *a = src;                                                                            \
        T *b = dst;                                                                                  \
        for (size_t j = 0; j < n; j++)                                                               \
            for (size_t i = 0; i < m; i++) b[i * n + j] = CONJ(a[j * m + i]);                        \
    } while (0)

void td_adjoint(td_type_t t, const void *src, void *dst, int rows, int cols) {
    size_t m = (size_t)rows, n = (size_t)cols;
    switch (t) {
    case TD_F32: ADJOINT(float, ); break;
    case TD_F64: ADJOINT(double, ); break;
    case TD_C64: ADJOINT(float complex, conjf); break;
    default: ADJOINT(double complex, conj); break;
    }
}
