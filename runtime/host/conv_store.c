/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a convolution: side input, bias and activation, rounding to the result's type, and the store into
 * its layout. Rows are positions, batch first, then spatial dimensions, last fastest. */
#include <math.h>
#include <string.h>

#include "runtime/host/conv.h"

bool td_conv_store_make(td_conv_store_t *s, const td_conv_desc_t *d, const td_conv_form_t *f, td_type_t work,
                        int64_t rows, uint64_t *scratch) {
    *s = (td_conv_store_t){.n = f->n,
                           .batch = f->batch,
                           .out = f->out,
                           .y = f->y,
                           .work = work,
                           .math = work == TD_F64 ? TD_F64 : TD_F32,
                           .side = d->side,
                           .bias = d->bias,
                           .fused = d->fused,
                           .has_side = d->has_side,
                           .has_bias = d->has_bias,
                           .permuted_bias = d->reordered,
                           .saturate = d->saturate,
                           .activation = d->activation,
                           .scale = d->scale,
                           .side_scale = d->side_scale,
                           .leaky_alpha = d->leaky_alpha,
                           .rows_max = rows};
    memcpy(s->positions, f->positions, sizeof s->positions);
    uint64_t cells;
    if (!td_mul_u64((uint64_t)rows, (uint64_t)f->out, &cells)) return false;
    return td_reserve(scratch, (uint64_t)rows, 8, &s->at_at) &&
           td_reserve(scratch, s->fused ? cells : 0, 8, &s->math_at) &&
           td_reserve(scratch, s->fused ? (cells > (uint64_t)f->out ? cells : (uint64_t)f->out) : 0, 16,
                      &s->extra_at) &&
           td_reserve(scratch, cells, 16, &s->out_at);
}

/* at[i] = where row first+i begins in the result. */
static void row_places(const td_conv_store_t *s, int64_t first, int64_t n, int64_t *at) {
    int64_t p[TD_CONV_SPATIAL + 1], rest = first;
    for (uint32_t k = s->n; k-- > 0; rest /= s->positions[k]) p[k + 1] = rest % s->positions[k];
    p[0] = rest;
    for (int64_t i = 0; i < n; i++) {
        int64_t off = s->y.base + p[0] * s->y.outer;
        for (uint32_t k = 0; k < s->n; k++) off += p[k + 1] * s->y.spatial[k];
        at[i] = off;
        uint32_t k = s->n;
        while (k > 0 && ++p[k] == s->positions[k - 1]) p[k--] = 0;
        if (k == 0) p[0]++;
    }
}

static int64_t feature_at(const td_conv_view_t *v, int64_t f) {
    return v->vector == 1 ? f * v->feature : f / v->vector * v->feature + f % v->vector * v->lane;
}

#define CELLS(T, TO, FROM)                                                                          \
    case sizeof(T):                                                                                 \
        for (int64_t f = 0; f < s->out; f++) {                                                      \
            int64_t o = feature_at(&s->y, f);                                                       \
            for (int64_t i = 0; i < n; i++) memcpy((T *)(TO), (const T *)(FROM), sizeof(T));        \
        }                                                                                           \
        break;
typedef struct { uint64_t v[2]; } wide_t;

static bool rows_dense(const td_conv_store_t *s) { return s->out == 1 || (s->y.vector == 1 && s->y.feature == 1); }

static void put_rows(const td_conv_store_t *s, uint32_t size, const int64_t *at, int64_t n, const char *rows, char *y) {
    if (rows_dense(s)) {
        for (int64_t i = 0; i < n; i++) memcpy(y + at[i] * size, rows + i * s->out * size, (size_t)s->out * size);
        return;
    }
    switch (size) {
        CELLS(uint8_t, y + at[i] + o, rows + i * s->out + f)
        CELLS(uint16_t, y + (at[i] + o) * 2, rows + (i * s->out + f) * 2)
        CELLS(uint32_t, y + (at[i] + o) * 4, rows + (i * s->out + f) * 4)
        CELLS(uint64_t, y + (at[i] + o) * 8, rows + (i * s->out + f) * 8)
        CELLS(wide_t, y + (at[i] + o) * 16, rows + (i * s->out + f) * 16)
    }
}

static void get_rows(const td_conv_store_t *s, uint32_t size, const int64_t *at, int64_t n, const char *y, char *rows) {
    if (rows_dense(s)) {
        for (int64_t i = 0; i < n; i++) memcpy(rows + i * s->out * size, y + at[i] * size, (size_t)s->out * size);
        return;
    }
    switch (size) {
        CELLS(uint8_t, rows + i * s->out + f, y + at[i] + o)
        CELLS(uint16_t, rows + (i * s->out + f) * 2, y + (at[i] + o) * 2)
        CELLS(uint32_t, rows + (i * s->out + f) * 4, y + (at[i] + o) * 4)
        CELLS(uint64_t, rows + (i * s->out + f) * 8, y + (at[i] + o) * 8)
        CELLS(wide_t, rows + (i * s->out + f) * 16, y + (at[i] + o) * 16)
    }
}

static double activate(td_activation_t a, double v, double alpha) {
    switch (a) {
    case TD_ACT_SIGMOID: return 1 / (1 + exp(-v));
    case TD_ACT_RELU6: return v > 6 ? 6 : v < 0 ? 0 : v;
    case TD_ACT_TANH: return tanh(v);
    case TD_ACT_ELU: return v > 0 ? v : expm1(v);
    case TD_ACT_LEAKY_RELU: return v > 0 ? v : alpha * v;
    case TD_ACT_GELU: return 0.5 * v * (1 + erf(v * 0.7071067811865476));
    default: return v;
    }
}

/* NaN stays NaN in every activation. */
#define MATH(T)                                                                                               \
    static void scale_##T(T *v, size_t n, T scale) {                                                          \
        for (size_t i = 0; i < n; i++) v[i] *= scale;                                                         \
    }                                                                                                         \
    static void add_##T(T *v, const T *x, size_t n, T scale) {                                                \
        for (size_t i = 0; i < n; i++) v[i] += scale * x[i];                                                  \
    }                                                                                                         \
    static void act_##T(T *v, size_t n, td_activation_t a, double alpha) {                                    \
        if (a == TD_ACT_RELU)                                                                                 \
            for (size_t i = 0; i < n; i++) v[i] = v[i] < 0 ? 0 : v[i];                                        \
        else if (a != TD_ACT_NONE)                                                                            \
            for (size_t i = 0; i < n; i++) v[i] = (T)activate(a, (double)v[i], alpha);                        \
    }                                                                                                         \
    static void round_##T(T *v, size_t n) {                                                                   \
        for (size_t i = 0; i < n; i++) v[i] = (T)rint((double)v[i]);                                          \
    }
MATH(float) MATH(double)

/* Bias o of a reordered filter: blocks of 32 kept as 2 x 4 x 4 instead of 4 x 2 x 4. */
static int64_t bias_at(const td_conv_store_t *s, int64_t o) {
    return s->permuted_bias ? o / 32 * 32 + o / 4 % 2 * 16 + o / 8 % 4 * 4 + o % 4 : o;
}

static void add_bias(const td_conv_store_t *s, int64_t g, int64_t n, void *v, const char *bias, char *extra) {
    size_t bb = td_type_bytes(s->bias), out = (size_t)s->out;
    char *raw = extra + out * 8;
    for (int64_t f = 0; f < s->out; f++)
        memcpy(raw + (size_t)f * bb, bias + (size_t)bias_at(s, g * s->out + f) * bb, bb);
    td_convert_array(s->bias, raw, s->math, extra, out);
    for (size_t i = 0; i < (size_t)n; i++)
        if (s->math == TD_F64) add_double((double *)v + i * out, (const double *)(void *)extra, out, 1);
        else add_float((float *)v + i * out, (const float *)(void *)extra, out, 1);
}

/* Returns the rows in s->math. */
static void *fuse(const td_conv_store_t *s, int64_t g, const int64_t *at, int64_t n, void *r, const td_conv_bufs_t *b,
                  char *scratch) {
    size_t cells = (size_t)(n * s->out);
    bool wide = s->math == TD_F64;
    char *extra = scratch + s->extra_at;
    if (s->work != s->math) {
        td_convert_array(s->work, r, s->math, scratch + s->math_at, cells);
        r = scratch + s->math_at;
    }
    if (s->scale != 1) wide ? scale_double(r, cells, s->scale) : scale_float(r, cells, (float)s->scale);
    if (s->has_side) {
        uint32_t size = td_type_bytes(s->side);
        get_rows(s, size, at, n, (const char *)b->side + g * s->y.group * size,
                 s->side == s->math ? extra : extra + cells * 8);
        if (s->side != s->math) td_convert_array(s->side, extra + cells * 8, s->math, extra, cells);
        wide ? add_double(r, (double *)(void *)extra, cells, s->side_scale)
             : add_float(r, (float *)(void *)extra, cells, (float)s->side_scale);
    }
    if (s->has_bias) add_bias(s, g, n, r, b->bias, extra);
    wide ? act_double(r, cells, s->activation, s->leaky_alpha) : act_float(r, cells, s->activation, s->leaky_alpha);
    if (td_type_is_integer(s->y.type)) wide ? round_double(r, cells) : round_float(r, cells);
    return r;
}

static int64_t clamp(int64_t x, int64_t lo, int64_t hi) { return x < lo ? lo : x > hi ? hi : x; }

static void saturate(const td_conv_store_t *s, size_t n, void *r) {
    unsigned bits = td_type_bits(s->y.type);
    bool is_signed = td_type_is_signed(s->y.type);
    if (bits >= td_type_bits(s->work)) return;
    int64_t hi = is_signed ? (1ll << (bits - 1)) - 1 : (1ll << bits) - 1, lo = is_signed ? -hi - 1 : 0;
    if (s->work == TD_S64)
        for (size_t i = 0; i < n; i++) ((int64_t *)r)[i] = clamp(((int64_t *)r)[i], lo, hi);
    else
        for (size_t i = 0; i < n; i++) ((int32_t *)r)[i] = (int32_t)clamp(((int32_t *)r)[i], lo, hi);
}

void td_conv_store_rows(const td_conv_store_t *s, int64_t g, int64_t first, int64_t n, void *r, const td_conv_bufs_t *b,
                        void *y, char *scratch) {
    int64_t *at = (int64_t *)(void *)(scratch + s->at_at);
    size_t cells = (size_t)(n * s->out);
    uint32_t size = td_type_bytes(s->y.type);
    td_type_t type = s->work;
    if (!cells) return;
    row_places(s, first, n, at);
    if (s->fused) {
        r = fuse(s, g, at, n, r, b, scratch);
        type = s->math;
    } else if (s->saturate && td_type_is_integer(s->work) && td_type_is_integer(s->y.type)) {
        saturate(s, cells, r);
    }
    if (type != s->y.type) {
        td_convert_array(type, r, s->y.type, scratch + s->out_at, cells);
        r = scratch + s->out_at;
    }
    put_rows(s, size, at, n, r, (char *)y + g * s->y.group * size);
}
