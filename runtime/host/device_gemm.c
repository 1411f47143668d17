/* SPDX-License-Identifier: Apache-2.0 */
/* General matrix products: f32, f64 and complex through BLAS; smaller floats
 * widened to f32 and rounded once into D; integers exactly. A and B are packed
 * row-major first when widened; C, the epilogue and the scales are applied to a
 * dense row-major result before it is stored in D's order and type. */
#include <cblas.h>
#include <complex.h>
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "runtime/host/library.h"
#include "runtime/host/types.h"

enum { CHUNK = 256 };
typedef struct gemm {
    td_gemm_desc_t d;
    td_type_t work; /* f32, f64, c64, c128 or s32 */
    uint64_t a_at, b_at, r_at, total;
} gemm_t;

static td_type_t work_type(const td_gemm_desc_t *d) {
    td_type_t a = d->a.type, b = d->b.type;
    if (a == TD_C128 || b == TD_C128) return TD_C128;
    if (a == TD_C64 || b == TD_C64) return TD_C64;
    if (a == TD_F64 || b == TD_F64) return TD_F64;
    if (td_type_is_integer(a) && td_type_is_integer(b)) return td_type_is_integer(d->d.type) ? TD_S32 : TD_F32;
    return TD_F32;
}

static int64_t place(const td_matrix_t *m, int64_t batch, int64_t i, int64_t j) {
    return batch * m->batch_stride + (m->column_major ? i + j * m->ld : i * m->ld + j);
}

/* One matrix, row-major and dense, in the working type. */
static void widen(const td_matrix_t *m, const void *src, int64_t batch, td_type_t work, char *dst) {
    size_t sb = td_type_bytes(m->type), wb = td_type_bytes(work);
    int64_t outer = m->column_major ? m->cols : m->rows, inner = m->column_major ? m->rows : m->cols;
    if (!m->column_major) {
        for (int64_t i = 0; i < outer; i++)
            td_convert_array(m->type, (const char *)src + (size_t)place(m, batch, i, 0) * sb, work, dst + (size_t)(i * inner) * wb, (size_t)inner);
        return;
    }
    char line[CHUNK * 16];
    for (int64_t j = 0; j < outer; j++)
        for (int64_t i = 0; i < inner; i += CHUNK) {
            int64_t n = inner - i < CHUNK ? inner - i : CHUNK;
            td_convert_array(m->type, (const char *)src + (size_t)place(m, batch, i, j) * sb, work, line, (size_t)n);
            for (int64_t k = 0; k < n; k++) memcpy(dst + (size_t)((i + k) * outer + j) * wb, line + (size_t)k * wb, wb);
        }
}

static void multiply(const gemm_t *g, const void *a, const td_matrix_t *ma, const void *b, const td_matrix_t *mb, void *r) {
    const td_gemm_desc_t *d = &g->d;
    blasint m = (blasint)d->a.rows, n = (blasint)d->b.cols, k = (blasint)d->a.cols;
    CBLAS_TRANSPOSE ta = ma->column_major ? CblasTrans : CblasNoTrans, tb = mb->column_major ? CblasTrans : CblasNoTrans;
    blasint la = (blasint)ma->ld, lb = (blasint)mb->ld;
    const float af[2] = {(float)d->alpha_real, (float)d->alpha_imag}, zf[2] = {0, 0};
    const double ad[2] = {d->alpha_real, d->alpha_imag}, zd[2] = {0, 0};
    if (!m || !n) return;
    if (!k) {
        memset(r, 0, (size_t)m * (size_t)n * td_type_bytes(g->work));
        return;
    }
    switch (g->work) {
    case TD_F32: cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, af[0], a, la, b, lb, 0, r, n); break;
    case TD_F64: cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, ad[0], a, la, b, lb, 0, r, n); break;
    case TD_C64: cblas_cgemm(CblasRowMajor, ta, tb, m, n, k, af, a, la, b, lb, zf, r, n); break;
    case TD_C128: cblas_zgemm(CblasRowMajor, ta, tb, m, n, k, ad, a, la, b, lb, zd, r, n); break;
    default: { /* exact; wraps like the device's accumulator */
        const int32_t *x = a, *y = b;
        uint32_t *z = r;
        for (int64_t i = 0; i < m; i++) {
            uint32_t *row = z + i * n;
            memset(row, 0, (size_t)n * sizeof *row);
            for (int64_t l = 0; l < k; l++) {
                uint32_t f = (uint32_t)x[i * la + l];
                const int32_t *col = y + l * lb;
                for (int64_t j = 0; j < n; j++) row[j] += f * (uint32_t)col[j];
            }
            if (d->alpha_real != 1)
                for (int64_t j = 0; j < n; j++) row[j] = (uint32_t)(int32_t)((double)(int32_t)row[j] * d->alpha_real);
        }
    }
    }
}

static double gelu(double x) { return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); }

#define FINISH(T)                                                                                   \
    static void finish_##T(T *r, size_t n, const T *c, const T *bias, T beta, T scale, int epilogue) { \
        for (size_t i = 0; i < n; i++) {                                                            \
            T v = r[i] * scale;                                                                     \
            if (c) v += beta * c[i];                                                                \
            if (bias) v += bias[i];                                                                 \
            if (epilogue == 1) v = v > 0 || v != v ? v : 0;                                         \
            if (epilogue == 2) v = (T)gelu((double)v);                                              \
            r[i] = v;                                                                               \
        }                                                                                           \
    }
FINISH(float) FINISH(double)

/* n results of one line of D, starting at bias element `at`, finished where they lie. */
static void finish(const gemm_t *g, void *r, size_t n, const void *c, const void *bias, double scale) {
    td_epilogue_t e = g->d.epilogue;
    int kind = e == TD_EPI_RELU || e == TD_EPI_BIAS_RELU ? 1 : e == TD_EPI_GELU || e == TD_EPI_BIAS_GELU ? 2 : 0;
    switch (g->work) {
    case TD_F32: finish_float(r, n, c, bias, (float)g->d.beta, (float)scale, kind); break;
    case TD_F64: finish_double(r, n, c, bias, g->d.beta, scale, kind); break;
    case TD_C64: finish_float(r, 2 * n, c, bias, (float)g->d.beta, (float)scale, 0); break;
    case TD_C128: finish_double(r, 2 * n, c, bias, g->d.beta, scale, 0); break;
    default:
        for (size_t i = 0; i < n; i++) {
            uint32_t *v = (uint32_t *)r + i;
            if (c) *v += (uint32_t)(int32_t)(g->d.beta * ((const int32_t *)c)[i]);
            if (bias) *v += ((const uint32_t *)bias)[i];
            if (kind == 1 && (int32_t)*v < 0) *v = 0;
        }
    }
}

/* The bias runs along the fastest dimension of D: one value per row if D is column-major, per column if row-major. */
static void store(const gemm_t *g, int64_t batch, char *r, void *const *bufs, double scale) {
    const td_gemm_desc_t *d = &g->d;
    const td_matrix_t *md = &d->d, *mc = &d->c;
    const char *bias = d->has_bias ? bufs[4] : NULL;
    size_t wb = td_type_bytes(g->work), db = td_type_bytes(md->type), cb = td_type_bytes(mc->type);
    int64_t rows = d->a.rows, cols = d->b.cols, outer = md->column_major ? cols : rows, inner = md->column_major ? rows : cols;
    _Alignas(16) char line[CHUNK * 16], cl[CHUNK * 16], bl[CHUNK * 16];
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i += CHUNK) {
            int64_t n = inner - i < CHUNK ? inner - i : CHUNK;
            for (int64_t k = 0; k < n; k++) {
                int64_t row = md->column_major ? i + k : o, col = md->column_major ? o : i + k;
                memcpy(line + (size_t)k * wb, r + (size_t)(row * cols + col) * wb, wb);
                if (d->beta != 0) td_convert_array(mc->type, (const char *)bufs[2] + (size_t)place(mc, batch, row, col) * cb, g->work, cl + (size_t)k * wb, 1);
            }
            if (bias) td_convert_array(md->type, bias + (size_t)i * db, g->work, bl, (size_t)n);
            finish(g, line, (size_t)n, d->beta != 0 ? cl : NULL, bias ? bl : NULL, scale);
            int64_t row = md->column_major ? i : o, col = md->column_major ? o : i;
            td_convert_array(g->work, line, md->type, (char *)bufs[3] + (size_t)place(md, batch, row, col) * db, (size_t)n);
        }
}

static bool direct(const gemm_t *g, const td_matrix_t *m) { return m->type == g->work && g->work != TD_S32; }

static td_status_t run(const td_kernel_t *k, void *const *bufs, void *scratch, td_err_t *err) {
    (void)err;
    const gemm_t *g = k->library;
    const td_gemm_desc_t *d = &g->d;
    char *s = scratch, *r = s + g->r_at;
    double scale = 1;
    uint32_t next = 4 + d->has_bias;
    float f;
    if (d->has_a_scale) memcpy(&f, bufs[next++], 4), scale *= (double)f;
    if (d->has_b_scale) memcpy(&f, bufs[next++], 4), scale *= (double)f;
    for (int64_t batch = 0; batch < d->d.batch; batch++) {
        const void *in[2] = {bufs[0], bufs[1]};
        const td_matrix_t *m[2] = {&d->a, &d->b};
        td_matrix_t dense[2] = {d->a, d->b};
        for (int i = 0; i < 2; i++) {
            char *packed = s + (i ? g->b_at : g->a_at);
            if (direct(g, m[i])) {
                in[i] = (const char *)in[i] + (size_t)(batch * m[i]->batch_stride) * td_type_bytes(m[i]->type);
            } else {
                if (!batch || m[i]->batch_stride) widen(m[i], in[i], batch, g->work, packed);
                dense[i].column_major = false, dense[i].ld = m[i]->cols;
                in[i] = packed;
            }
        }
        multiply(g, in[0], &dense[0], in[1], &dense[1], r);
        store(g, batch, r, bufs, scale);
    }
    return TD_OK;
}

static td_status_t check(const td_matrix_t *m, const char *which, td_err_t *err) {
    int64_t span = m->column_major ? m->rows : m->cols;
    if (!td_type_is_array(m->type) || td_type_bits(m->type) < 8) return td_fail(err, TD_UNSUPPORTED, "matrix product: %s of type %s", which, td_type_name(m->type));
    if (m->rows < 0 || m->cols < 0 || m->batch < 0 || m->batch_stride < 0 || m->ld < span || m->rows > INT32_MAX || m->cols > INT32_MAX || m->ld > INT32_MAX)
        return td_fail(err, TD_MISMATCH, "matrix product: %s has rows %lld, columns %lld, leading dimension %lld", which, (long long)m->rows, (long long)m->cols, (long long)m->ld);
    return TD_OK;
}

td_status_t td_host_gemm_lower(td_device_t *dev, const void *desc, td_arena_t *arena, td_kernel_t **out, uint64_t *out_scratch,
                               td_err_t *err) {
    const td_gemm_desc_t *d = desc;
    (void)dev;
    const td_matrix_t *m[4] = {&d->a, &d->b, &d->d, &d->c};
    static const char *const names[4] = {"A", "B", "D", "C"};
    td_status_t s;
    for (int i = 0; i < (d->beta != 0 ? 4 : 3); i++)
        if ((s = check(m[i], names[i], err))) return s;
    if (d->a.cols != d->b.rows || d->d.rows != d->a.rows || d->d.cols != d->b.cols || (d->beta != 0 && (d->c.rows != d->d.rows || d->c.cols != d->d.cols)))
        return td_fail(err, TD_MISMATCH, "matrix product: sizes do not agree");
    td_kernel_t *k = TD_NEW(arena, td_kernel_t);
    gemm_t *g = TD_NEW(arena, gemm_t);
    if (!k || !g) return td_arena_fail(arena, err);
    g->d = *d;
    g->work = work_type(d);
    uint64_t w = td_type_bytes(g->work), a = 0, b = 0, r;
    if (!direct(g, &d->a)) a = (uint64_t)d->a.rows * (uint64_t)d->a.cols;
    if (!direct(g, &d->b)) b = (uint64_t)d->b.rows * (uint64_t)d->b.cols;
    r = (uint64_t)d->d.rows * (uint64_t)d->d.cols;
    if (a > 1ull << 50 || b > 1ull << 50 || r > 1ull << 50) return td_fail(err, TD_LIMIT, "matrix product is too large");
    g->b_at = td_align_up(a * w, 64), g->r_at = g->b_at + td_align_up(b * w, 64);
    *out_scratch = g->r_at + td_align_up(r * w, 64);
    k->library = g, k->run = run;
    *out = k;
    return TD_OK;
}
