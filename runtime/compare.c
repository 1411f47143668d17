/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/compare.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/host/types.h"

enum { SAMPLES = 1024 };

/* An element: a number with an imaginary part, or bits. */
typedef struct value {
    double re, im;
    uint64_t bits;
} value_t;

double td_compare_tolerance(td_type_t type) {
    switch (type) {
    case TD_F64: case TD_C128: return 1e-9;
    case TD_F32: case TD_C64: return 1e-4;
    default: break;
    }
    if (!td_type_is_small_float(type)) return 0;
    double step = (double)td_small_decode(type, td_small_encode(type, 1) + 1) - 1; /* from 1 to the next value */
    return 2 * step;
}

static uint64_t load(const void *p, size_t bytes) {
    uint64_t v = 0;
    memcpy(&v, p, bytes);
    return v;
}

static value_t element(const td_shape_t *s, const uint8_t *p, uint64_t i) {
    value_t v = {0};
    float f[2] = {0};
    unsigned bytes = td_type_bytes(s->type);
    if (s->packed) {
        uint64_t bit = i * s->bits;
        v.bits = p[bit / 8] >> bit % 8 & ((1u << s->bits) - 1);
    } else if (bytes <= 8) {
        v.bits = load(p + i * bytes, bytes);
    }
    switch (s->type) {
    case TD_F32: memcpy(f, p + i * 4, 4), v.re = f[0]; break;
    case TD_F64: memcpy(&v.re, p + i * 8, 8); break;
    case TD_C64: memcpy(f, p + i * 8, 8), v.re = f[0], v.im = f[1]; break;
    case TD_C128: memcpy(&v.re, p + i * 16, 8), memcpy(&v.im, p + i * 16 + 8, 8); break;
    default:
        if (td_type_is_small_float(s->type)) v.re = td_small_decode(s->type, (uint32_t)v.bits);
    }
    return v;
}

static bool has_number(td_type_t t) { return td_type_is_float(t) || td_type_is_complex(t); }

static int by_size(const void *pa, const void *pb) {
    double a = *(const double *)pa, b = *(const double *)pb;
    return (a > b) - (a < b);
}

/* The lower quartile of the sizes, from elements spread over the array. */
static double scale_of(const td_shape_t *s, const uint8_t *want) {
    double v[SAMPLES];
    uint64_t count = (uint64_t)s->count, step = count / SAMPLES + 1;
    unsigned n = 0;
    for (uint64_t i = 0; i < count && n < SAMPLES; i += step) {
        value_t e = element(s, want, i);
        double size = hypot(e.re, e.im);
        if (isfinite(size) && size > 0) v[n++] = size;
    }
    if (!n) return 1;
    qsort(v, n, sizeof *v, by_size);
    return v[n / 4];
}

static double part(double want, double got) { /* |got - want| of one real part; INFINITY: not to be compared */
    if (want == got || (isnan(want) && isnan(got))) return 0;
    return isfinite(want) && isfinite(got) ? fabs(got - want) : INFINITY;
}

static double error_of(td_type_t t, const value_t *want, const value_t *got, double scale) {
    if (!has_number(t)) {
        double a = (double)want->bits, b = (double)got->bits;
        if (want->bits == got->bits) return 0;
        if (td_type_is_signed(t) && td_type_bits(t) == 64)
            a = (double)(int64_t)want->bits, b = (double)(int64_t)got->bits;
        return fmax(fabs(a - b), 1);
    }
    double e = hypot(part(want->re, got->re), part(want->im, got->im)), size = hypot(want->re, want->im);
    if (e == 0 || isinf(e)) return e;
    return e / (isfinite(size) && size > scale ? size : scale);
}

static void print(const td_shape_t *s, const value_t *v, char out[64]) {
    unsigned bits = td_type_bits(s->type);
    int digits = s->type == TD_F64 || s->type == TD_C128 ? 17 : 9;
    if (td_type_is_complex(s->type)) snprintf(out, 64, "%.*g%+.*gi", digits, v->re, digits, v->im);
    else if (td_type_is_float(s->type)) snprintf(out, 64, "%.*g", digits, v->re);
    else if (s->type == TD_PRED && v->bits <= 1) snprintf(out, 64, "%s", v->bits ? "true" : "false");
    else if (td_type_is_signed(s->type) && bits < 64 && v->bits >> (bits - 1) & 1)
        snprintf(out, 64, "%" PRId64, (int64_t)(v->bits | ~0ull << bits));
    else if (td_type_is_signed(s->type)) snprintf(out, 64, "%" PRId64, (int64_t)v->bits);
    else snprintf(out, 64, "%" PRIu64, v->bits);
}

static void locate(const td_shape_t *s, uint64_t at, int64_t *index) {
    for (uint32_t k = 0; k < s->rank; k++) {
        int32_t dim = s->minor_to_major ? s->minor_to_major[k] : (int32_t)(s->rank - 1 - k);
        uint64_t size = (uint64_t)s->dims[dim];
        index[dim] = (int64_t)(at % size);
        at /= size;
    }
}

void td_compare(const td_shape_t *s, const void *want, const void *got, double tolerance, td_difference_t *out) {
    uint64_t worst = 0;
    *out = (td_difference_t){.elements = (uint64_t)s->count, .tolerance = tolerance};
    if (!s->count || !memcmp(want, got, (size_t)s->bytes)) return;
    double scale = has_number(s->type) ? scale_of(s, want) : 1;
    for (uint64_t i = 0; i < (uint64_t)s->count; i++) {
        value_t a = element(s, want, i), b = element(s, got, i);
        double e = error_of(s->type, &a, &b, scale);
        out->wrong += e > tolerance;
        if (e > out->error) out->error = e, worst = i;
    }
    if (out->error == 0) return;
    value_t a = element(s, want, worst), b = element(s, got, worst);
    print(s, &a, out->want);
    print(s, &b, out->got);
    locate(s, worst, out->index);
}

char *td_difference_index(const td_difference_t *d, const td_shape_t *s, char *buf, size_t size) {
    size_t n = (size_t)snprintf(buf, size, "[");
    for (uint32_t i = 0; i < s->rank && n < size; i++)
        n += (size_t)snprintf(buf + n, size - n, "%s%" PRId64, i ? "," : "", d->index[i]);
    if (n < size) snprintf(buf + n, size - n, "]");
    return buf;
}
