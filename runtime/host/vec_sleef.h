/* SPDX-License-Identifier: Apache-2.0 */
/* SLEEF's functions (1 ulp) over arrays, at the width of the instruction set this file is compiled for.
 * Before including: T float or double, T_MAX, TD_F64_VECTORS for double. */
#include <sleef.h>
#include <string.h>

#if defined __AVX512F__
#ifdef TD_F64_VECTORS
typedef __m512d vec_t;
#define SLEEF(fn) Sleef_##fn##d8_u10avx512f
#else
typedef __m512 vec_t;
#define SLEEF(fn) Sleef_##fn##f16_u10avx512f
#endif
#elif defined __AVX2__
#ifdef TD_F64_VECTORS
typedef __m256d vec_t;
#define SLEEF(fn) Sleef_##fn##d4_u10avx2
#else
typedef __m256 vec_t;
#define SLEEF(fn) Sleef_##fn##f8_u10avx2
#endif
#elif defined __SSE2__
#ifdef TD_F64_VECTORS
typedef __m128d vec_t;
#define SLEEF(fn) Sleef_##fn##d2_u10
#else
typedef __m128 vec_t;
#define SLEEF(fn) Sleef_##fn##f4_u10
#endif
#else
typedef T vec_t;
#ifdef TD_F64_VECTORS
#define SLEEF(fn) Sleef_##fn##_u10
#else
#define SLEEF(fn) Sleef_##fn##f_u10
#endif
#endif
enum { VEC = sizeof(vec_t) / sizeof(T) };

static inline vec_t vec_at(const T *p) {
    vec_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
/* Some of the functions overflow before their results do: what is not finite is asked of libm. */
static inline vec_t vec_checked(vec_t r, vec_t x, T (*libm)(T)) {
    T rs[VEC], xs[VEC];
    int odd = 0;
    memcpy(rs, &r, sizeof r);
    for (int i = 0; i < VEC; i++) odd |= !(rs[i] >= -T_MAX && rs[i] <= T_MAX);
    if (__builtin_expect(!odd, 1)) return r;
    memcpy(xs, &x, sizeof x);
    for (int i = 0; i < VEC; i++)
        if (!(rs[i] >= -T_MAX && rs[i] <= T_MAX)) rs[i] = libm(xs[i]);
    memcpy(&r, rs, sizeof r);
    return r;
}
static inline vec_t vec_checked2(vec_t r, vec_t x, vec_t y, T (*libm)(T, T)) {
    T rs[VEC], xs[VEC], ys[VEC];
    int odd = 0;
    memcpy(rs, &r, sizeof r);
    for (int i = 0; i < VEC; i++) odd |= !(rs[i] >= -T_MAX && rs[i] <= T_MAX);
    if (__builtin_expect(!odd, 1)) return r;
    memcpy(xs, &x, sizeof x);
    memcpy(ys, &y, sizeof y);
    for (int i = 0; i < VEC; i++)
        if (!(rs[i] >= -T_MAX && rs[i] <= T_MAX)) rs[i] = libm(xs[i], ys[i]);
    memcpy(&r, rs, sizeof r);
    return r;
}
#define VEC_UN(name, expr)                                                                   \
    static void name(void *d_, const void *a_, const void *b_, const void *c_, size_t n) {   \
        T *d = d_, rest[VEC] = {0};                                                          \
        const T *a = a_;                                                                     \
        size_t i = 0;                                                                        \
        (void)b_, (void)c_;                                                                  \
        for (; i + VEC <= n; i += VEC) {                                                     \
            vec_t x = vec_at(a + i), r = expr;                                               \
            memcpy(d + i, &r, sizeof r);                                                     \
        }                                                                                    \
        if (i == n) return;                                                                  \
        memcpy(rest, a + i, (n - i) * sizeof(T));                                            \
        vec_t x = vec_at(rest), r = expr;                                                    \
        memcpy(d + i, &r, (n - i) * sizeof(T));                                              \
    }
#define VEC_BIN(name, expr)                                                                  \
    static void name(void *d_, const void *a_, const void *b_, const void *c_, size_t n) {   \
        T *d = d_, ra[VEC] = {0}, rb[VEC] = {0};                                             \
        const T *a = a_, *b = b_;                                                            \
        size_t i = 0;                                                                        \
        (void)c_;                                                                            \
        for (; i + VEC <= n; i += VEC) {                                                     \
            vec_t x = vec_at(a + i), y = vec_at(b + i), r = expr;                            \
            memcpy(d + i, &r, sizeof r);                                                     \
        }                                                                                    \
        if (i == n) return;                                                                  \
        memcpy(ra, a + i, (n - i) * sizeof(T));                                              \
        memcpy(rb, b + i, (n - i) * sizeof(T));                                              \
        vec_t x = vec_at(ra), y = vec_at(rb), r = expr;                                      \
        memcpy(d + i, &r, (n - i) * sizeof(T));                                              \
    }
