/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products: packing of inputs and finishing of result lines. */
#include <math.h>
#include <string.h>

#include "runtime/host/gemm.h"
#include "runtime/host/saturate.h"
#include "runtime/host/vec.h"

enum { CHUNK = 256 };

/* n elements from element `at` on; 4-bit ones are packed, the first in the low half. */
static void load(td_type_t type, const void *src, int64_t at, td_type_t to, void *dst, int64_t n) {
    size_t wide = td_type_bytes(to);
    if (td_type_bits(type) != 4) {
        td_convert_array(type, (const char *)src + at * (int64_t)td_type_bytes(type), to, dst, (size_t)n);
        return;
    }
    for (int64_t i = 0; i < n; i += CHUNK) {
        uint8_t one[CHUNK];
        int64_t m = n - i < CHUNK ? n - i : CHUNK;
        for (int64_t j = 0; j < m; j++)
            one[j] = (uint8_t)(((const uint8_t *)src)[(at + i + j) / 2] >> ((at + i + j) % 2 * 4) & 15);
        td_convert_array(type, one, to, (char *)dst + (size_t)i * wide, (size_t)m);
    }
}

static void negate_imaginary(td_type_t type, void *p, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        if (type == TD_C64) ((float *)p)[2 * i + 1] = -((float *)p)[2 * i + 1];
        else ((double *)p)[2 * i + 1] = -((double *)p)[2 * i + 1];
    }
}

/* Block scales of one line (see td_gemm_desc_t for their order). */
static void scale_line(const td_gemm_t *g, const td_gemm_side_t *s, const void *scales, int64_t batch, int64_t r,
                       float *line) {
    int64_t block = g->d.scale_block, blocks = (s->minor + block - 1) / block, across = (blocks + 3) / 4,
            down = (s->major + 127) / 128;
    for (int64_t b = 0; b < blocks; b++) {
        int64_t at = ((batch * down + r / 128) * across + b / 4) * 512 + r % 32 * 16 + r % 128 / 32 * 4 + b % 4;
        int64_t end = (b + 1) * block < s->minor ? (b + 1) * block : s->minor;
        float f;
        td_convert_array(g->d.scale_type, (const char *)scales + at, TD_F32, &f, 1);
        for (int64_t i = b * block; i < end; i++) line[i] *= f;
    }
}

void td_gemm_pack(const td_gemm_t *g, const td_gemm_side_t *s, void *const *bufs, int64_t batch, void *dst) {
    size_t wide = td_type_bytes(g->pack);
    for (int64_t i = 0; i < s->major; i++) {
        char *line = (char *)dst + (size_t)(i * s->minor) * wide;
        load(s->m->type, bufs[s->buffer], batch * s->m->batch_stride + i * s->ld, g->pack, line, s->minor);
        if (s->conjugate) negate_imaginary(g->pack, line, s->minor);
        if (g->d.scale_block)
            scale_line(g, s, bufs[s->buffer ? g->b_scale : g->a_scale], batch, i, (float *)(void *)line);
    }
}

void td_gemm_load_c(const td_gemm_t *g, void *const *bufs, int64_t batch, int64_t i, void *dst) {
    const td_matrix_t *c = &g->d.c;
    if (c->column_major == g->d.d.column_major) {
        load(c->type, bufs[2], td_gemm_line(c, batch, i), g->work, dst, g->len);
        return;
    }
    for (int64_t j = 0; j < g->len; j++)
        load(c->type, bufs[2], batch * c->batch_stride + j * c->ld + i, g->work,
             (char *)dst + (size_t)j * td_type_bytes(g->work), 1);
}

typedef enum activation { NONE, RELU, GELU, SILU } activation_t;
static activation_t activation(td_epilogue_t e) {
    switch (e) {
    case TD_EPI_RELU: case TD_EPI_BIAS_RELU: return RELU;
    case TD_EPI_GELU: case TD_EPI_GELU_AUX: case TD_EPI_BIAS_GELU: case TD_EPI_BIAS_GELU_AUX: return GELU;
    case TD_EPI_SILU: case TD_EPI_SILU_AUX: case TD_EPI_BIAS_SILU: case TD_EPI_BIAS_SILU_AUX: return SILU;
    default: return NONE;
    }
}

/* gelu(x) = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))), in pieces for the vector functions. */
#define ACTIVATE(T, TYPE)                                                                                      \
    static void activate_##T(T *x, int64_t n, activation_t a) {                                                \
        T y[CHUNK];                                                                                            \
        for (int64_t at = 0; at < n && a != NONE; at += CHUNK, x += CHUNK) {                                   \
            int64_t m = n - at < CHUNK ? n - at : CHUNK;                                                       \
            if (a == RELU)                                                                                     \
                for (int64_t i = 0; i < m; i++) x[i] = x[i] > 0 || x[i] != x[i] ? x[i] : 0;                    \
            if (a == GELU)                                                                                     \
                for (int64_t i = 0; i < m; i++)                                                                \
                    y[i] = (T)0.7978845608028654 * (x[i] + (T)0.044715 * x[i] * x[i] * x[i]);                  \
            if (a == GELU) td_vec()->tables[TYPE]->fn[TD_HLO_TANH](y, y, NULL, NULL, (size_t)m);               \
            if (a == GELU)                                                                                     \
                for (int64_t i = 0; i < m; i++) x[i] = (T)0.5 * x[i] * (1 + y[i]);                             \
            if (a == SILU) td_vec()->tables[TYPE]->fn[TD_HLO_LOGISTIC](y, x, NULL, NULL, (size_t)m);           \
            if (a == SILU)                                                                                     \
                for (int64_t i = 0; i < m; i++) x[i] *= y[i];                                                  \
        }                                                                                                      \
    }
ACTIVATE(float, TD_F32) ACTIVATE(double, TD_F64)

static void add(td_type_t work, void *x, const void *y, int64_t n) {
    if (work == TD_S32)
        for (int64_t i = 0; i < n; i++) ((uint32_t *)x)[i] += ((const uint32_t *)y)[i];
    else if (work == TD_F32 || work == TD_C64)
        for (int64_t i = 0; i < (work == TD_C64 ? 2 * n : n); i++) ((float *)x)[i] += ((const float *)y)[i];
    else
        for (int64_t i = 0; i < (work == TD_C128 ? 2 * n : n); i++) ((double *)x)[i] += ((const double *)y)[i];
}

static void scale_and_saturate(const td_gemm_t *g, float *x, float scale, float *amax) {
    float limit = td_type_saturation(g->d.d.type), top = *amax;
    for (int64_t i = 0; i < g->len; i++) {
        float m = fabsf(x[i]);
        if (!(m <= top)) top = m;
        x[i] *= scale;
    }
    for (int64_t i = 0; i < g->len && limit > 0; i++) x[i] = td_saturate(x[i], limit);
    *amax = top;
}

void td_gemm_finish(const td_gemm_t *g, void *const *bufs, int64_t batch, int64_t i, void *r, void *tmp, float d_scale,
                    float *amax) {
    const td_matrix_t *d = &g->d.d;
    int64_t at = td_gemm_line(d, batch, i) * (int64_t)td_type_bytes(d->type);
    activation_t a = activation(g->d.epilogue);
    if (g->bias) {
        td_type_t type = g->d.bias_type != TD_TYPE_INVALID ? g->d.bias_type : d->type;
        td_convert_array(type, bufs[g->bias], g->work, tmp, (size_t)g->len);
        add(g->work, r, tmp, g->len);
    }
    if (g->aux) td_convert_array(g->work, r, d->type, (char *)bufs[g->aux] + at, (size_t)g->len);
    if (g->work == TD_S32) {
        for (int64_t j = 0; j < g->len && a == RELU; j++)
            if (((int32_t *)r)[j] < 0) ((int32_t *)r)[j] = 0;
    } else if (g->work == TD_F64) {
        activate_double(r, g->len, a);
    } else if (g->work == TD_F32) {
        activate_float(r, g->len, a);
        if (g->d_scale || g->amax || td_type_saturation(d->type) > 0) scale_and_saturate(g, r, d_scale, amax);
    }
    if (!g->direct) td_convert_array(g->work, r, d->type, (char *)bufs[3] + at, (size_t)g->len);
}
