/* SPDX-License-Identifier: Apache-2.0 */
/* General matrix products: f32, f64 and complex through BLAS straight from and into the caller's arrays; smaller
 * floats widened to f32 and rounded once into D; integers exactly (8-bit ones as f32 products over pieces of k short
 * enough to be exact). Epilogues, scales and conversions run over D's lines afterwards. */
#include <cblas.h>
#include <dnnl.h>
#include <string.h>

#include "base/checked.h"
#include "runtime/host/gemm.h"
#include "runtime/host/pool.h"

static td_type_t work_type(const td_gemm_desc_t *d) {
    td_type_t a = d->a.type, b = d->b.type;
    if (a == TD_C128 || b == TD_C128) return TD_C128;
    if (a == TD_C64 || b == TD_C64) return TD_C64;
    if (a == TD_F64 || b == TD_F64) return TD_F64;
    return td_type_is_integer(a) && td_type_is_integer(b) && td_type_is_integer(d->d.type) ? TD_S32 : TD_F32;
}

/* X or Y where it lies or in scratch; `lead`: the row length there. */
typedef struct input {
    const char *p;
    int64_t lead;
    bool turned;
} input_t;

static void blas(td_type_t work, const input_t *x, const input_t *y, int64_t lines, int64_t len, int64_t depth,
                 const double *alpha, double beta, void *r, int64_t ldr) {
    CBLAS_TRANSPOSE tx = x->turned ? CblasTrans : CblasNoTrans, ty = y->turned ? CblasTrans : CblasNoTrans;
    blasint m = (blasint)lines, n = (blasint)len, k = (blasint)depth, lx = (blasint)x->lead, ly = (blasint)y->lead,
            lr = (blasint)ldr;
    const float af[2] = {(float)alpha[0], (float)alpha[1]}, bf[2] = {(float)beta, 0};
    const double bd[2] = {beta, 0};
    if (alpha[0] == 0 && alpha[1] == 0) k = 0; /* X and Y do not count then, NaN or not */
    switch (work) {
    case TD_F32: {
        if (!k) { /* oneDNN would leave C as it is */
            cblas_sgemm(CblasRowMajor, tx, ty, m, n, k, af[0], (const void *)x->p, lx, (const void *)y->p, ly, bf[0], r, lr);
            break;
        }
        int team = td_pool_enter((double)lines * (double)len * (double)depth);
        dnnl_sgemm(x->turned ? 'T' : 'N', y->turned ? 'T' : 'N', m, n, k, af[0], (const void *)x->p, lx, (const void *)y->p,
                   ly, bf[0], r, lr);
        td_pool_leave(team);
        break;
    }
    case TD_F64:
        cblas_dgemm(CblasRowMajor, tx, ty, m, n, k, alpha[0], (const void *)x->p, lx, (const void *)y->p, ly, beta, r,
                    lr);
        break;
    case TD_C64: cblas_cgemm(CblasRowMajor, tx, ty, m, n, k, af, x->p, lx, y->p, ly, bf, r, lr); break;
    default: cblas_zgemm(CblasRowMajor, tx, ty, m, n, k, alpha, x->p, lx, y->p, ly, bd, r, lr); break;
    }
}

/* sum = X Y by pieces of k whose sums are exact in f32. */
static void pieces(const td_gemm_t *g, const input_t *x, const input_t *y, float *part, uint32_t *sum) {
    int64_t n = g->lines * g->len;
    memset(sum, 0, (size_t)n * sizeof *sum);
    for (int64_t k = 0; k < g->k; k += g->chunk) {
        input_t a = *x, b = *y;
        a.p += (x->turned ? k * x->lead : k) * 4;
        b.p += (y->turned ? k : k * y->lead) * 4;
        blas(TD_F32, &a, &b, g->lines, g->len, g->k - k < g->chunk ? g->k - k : g->chunk, (const double[]){1, 0}, 0,
             part, g->len);
        for (int64_t i = 0; i < n; i++) sum[i] += (uint32_t)(int32_t)part[i];
    }
}

/* sum = X Y in 32-bit integers, which wrap like the device's accumulator. */
static void integers(const td_gemm_t *g, const input_t *x, const input_t *y, uint32_t *sum) {
    const uint32_t *a = (const void *)x->p, *b = (const void *)y->p;
    memset(sum, 0, (size_t)(g->lines * g->len) * sizeof *sum);
    for (int64_t i = 0; i < g->lines; i++)
        for (int64_t k = 0; k < g->k; k++) {
            uint32_t f = x->turned ? a[k * x->lead + i] : a[i * x->lead + k], *row = sum + i * g->len;
            if (y->turned)
                for (int64_t j = 0; j < g->len; j++) row[j] += f * b[j * y->lead + k];
            else
                for (int64_t j = 0; j < g->len; j++) row[j] += f * b[k * y->lead + j];
        }
}

static void integer_product(const td_gemm_t *g, const input_t *x, const input_t *y, void *const *bufs, int64_t batch,
                            double alpha, double beta, char *s) {
    uint32_t *r = (uint32_t *)(void *)(s + g->r_at), *line = (uint32_t *)(void *)(s + g->line_at);
    if (g->chunk) pieces(g, x, y, (float *)(void *)(s + g->part_at), r);
    else integers(g, x, y, r);
    for (int64_t i = 0; i < g->lines && alpha != 1; i++)
        for (int64_t j = 0; j < g->len; j++) r[i * g->len + j] *= (uint32_t)(int32_t)alpha;
    for (int64_t i = 0; i < g->lines && beta != 0; i++) {
        td_gemm_load_c(g, bufs, batch, i, line);
        for (int64_t j = 0; j < g->len; j++) r[i * g->len + j] += (uint32_t)(int32_t)beta * line[j];
    }
}

static bool in_place(const td_gemm_t *g, void *const *bufs) {
    const td_matrix_t *c = &g->d.c, *d = &g->d.d;
    return bufs[2] == bufs[3] && c->type == d->type && c->column_major == d->column_major &&
           (c->ld == d->ld || g->lines < 2) && (c->batch_stride == d->batch_stride || d->batch < 2);
}

static void one(const td_gemm_t *g, void *const *bufs, int64_t batch, const double *alpha, double beta, float d_scale,
                float *amax, char *s) {
    const td_gemm_side_t *side[2] = {&g->x, &g->y};
    input_t in[2];
    for (int i = 0; i < 2; i++) {
        const td_gemm_side_t *t = side[i];
        in[i] = (input_t){s + t->at, t->direct ? t->ld : t->minor, t->turned};
        if (t->direct)
            in[i].p = (const char *)bufs[t->buffer] + batch * t->m->batch_stride * (int64_t)td_type_bytes(t->m->type);
        else if (!batch || t->m->batch_stride || g->d.scale_block) td_gemm_pack(g, t, bufs, batch, s + t->at);
        if (in[i].lead < 1) in[i].lead = 1;
    }
    size_t wide = td_type_bytes(g->work);
    char *r = g->direct ? (char *)bufs[3] + td_gemm_line(&g->d.d, batch, 0) * (int64_t)wide : s + g->r_at;
    int64_t ldr = g->direct ? g->d.d.ld : g->len;
    if (g->work == TD_S32) {
        integer_product(g, &in[0], &in[1], bufs, batch, alpha[0], beta, s);
    } else {
        for (int64_t i = 0; i < g->lines && beta != 0 && !(g->direct && in_place(g, bufs)); i++)
            td_gemm_load_c(g, bufs, batch, i, r + (size_t)(i * ldr) * wide);
        blas(g->work, &in[0], &in[1], g->lines, g->len, g->k, alpha, beta, r, ldr);
    }
    for (int64_t i = 0; i < g->lines && g->finishes; i++)
        td_gemm_finish(g, bufs, batch, i, r + (size_t)(i * ldr) * wide, s + g->line_at, d_scale, amax);
}

static float scalar(void *const *bufs, uint32_t buffer) {
    float f = 1;
    if (buffer) memcpy(&f, bufs[buffer], 4);
    return f;
}

static td_status_t run(const td_kernel_t *k, void *const *bufs, void *scratch, td_err_t *err) {
    (void)err;
    const td_gemm_t *g = k->library;
    double scale = g->d.scale_block ? 1 : (double)scalar(bufs, g->a_scale) * (double)scalar(bufs, g->b_scale);
    double alpha[2] = {g->d.alpha_real * scale, g->d.alpha_imag * scale},
           beta = g->d.beta * (double)scalar(bufs, g->c_scale);
    float amax = 0, d_scale = scalar(bufs, g->d_scale);
    if (g->lines && g->len)
        for (int64_t batch = 0; batch < g->d.d.batch; batch++)
            one(g, bufs, batch, alpha, beta, d_scale, &amax, scratch);
    if (g->amax) memcpy(bufs[g->amax], &amax, 4);
    return TD_OK;
}

static td_status_t check(const td_matrix_t *m, const char *which, bool blocks, td_err_t *err) {
    int64_t minor = m->column_major ? m->rows : m->cols, major = m->column_major ? m->cols : m->rows;
    if (!td_type_is_array(m->type) || (td_type_bits(m->type) < 8 && !(blocks && td_type_bits(m->type) == 4)))
        return td_fail(err, TD_UNSUPPORTED, "matrix product: %s of type %s", which, td_type_name(m->type));
    if (m->rows < 0 || m->cols < 0 || m->batch < 0 || m->batch_stride < 0 || (m->ld < minor && major > 1) ||
        m->rows > INT32_MAX || m->cols > INT32_MAX || m->ld > INT32_MAX)
        return td_fail(err, TD_MISMATCH, "matrix product: %s has rows %lld, columns %lld, leading dimension %lld",
                       which, (long long)m->rows, (long long)m->cols, (long long)m->ld);
    return TD_OK;
}

static td_status_t check_all(const td_gemm_desc_t *d, td_err_t *err) {
    bool block = d->scale_block != 0, alone = d->epilogue == TD_EPI_NONE || d->epilogue == TD_EPI_BIAS;
    td_status_t s;
    if ((s = check(&d->a, "A", block, err)) || (s = check(&d->b, "B", block, err)) ||
        (s = check(&d->d, "D", false, err)))
        return s;
    if (d->beta != 0 && (s = check(&d->c, "C", false, err))) return s;
    if (d->a.cols != d->b.rows || d->d.rows != d->a.rows || d->d.cols != d->b.cols ||
        (d->beta != 0 && (d->c.rows != d->d.rows || d->c.cols != d->d.cols)))
        return td_fail(err, TD_MISMATCH, "matrix product: sizes do not agree");
    td_type_t work = work_type(d);
    if (!alone &&
        (td_type_is_complex(work) || (work == TD_S32 && d->epilogue != TD_EPI_RELU && d->epilogue != TD_EPI_BIAS_RELU)))
        return td_fail(err, TD_UNSUPPORTED, "matrix product: epilogue %d of type %s", (int)d->epilogue,
                       td_type_name(work));
    if ((d->has_d_scale || d->has_amax || block) && work != TD_F32)
        return td_fail(err, TD_UNSUPPORTED, "matrix product: scaled results of type %s", td_type_name(work));
    if (block && (d->scale_block < 1 || d->a.column_major || !d->b.column_major || td_type_bits(d->scale_type) != 8))
        return td_fail(err, TD_UNSUPPORTED, "matrix product: blocks of %lld scaled by %s, or not along rows",
                       (long long)d->scale_block, td_type_name(d->scale_type));
    return TD_OK;
}

/* The largest piece of k whose sums stay below 2^24, for types of 8 bits. */
static int64_t exact_chunk(td_type_t a, td_type_t b) {
    int64_t x = td_type_is_signed(a) ? 128 : 255, y = td_type_is_signed(b) ? 128 : 255;
    return td_type_bits(a) == 8 && td_type_bits(b) == 8 ? (1 << 24) / (x * y) : 0;
}

static td_gemm_side_t side(const td_gemm_t *g, const td_matrix_t *m, uint32_t buffer, bool conjugate) {
    td_gemm_side_t s = {.m = m,
                        .buffer = buffer,
                        .turned = m->column_major != g->d.d.column_major,
                        .conjugate = conjugate && td_type_is_complex(m->type)};
    s.major = m->column_major ? m->cols : m->rows;
    s.minor = m->column_major ? m->rows : m->cols;
    s.ld = s.major < 2 && m->ld < s.minor ? s.minor : m->ld;
    s.direct = m->type == g->work && g->work != TD_S32 && !s.conjugate && !g->d.scale_block;
    return s;
}

static bool reserve(uint64_t *total, uint64_t *at, int64_t rows, int64_t cols, td_type_t type) {
    uint64_t n;
    *at = *total;
    if (!td_mul_u64((uint64_t)rows, (uint64_t)cols, &n) || n > 1ull << 50) return false;
    return td_add_u64(*total, (n * td_type_bytes(type) + 127) & ~63ull, total);
}

td_status_t td_host_gemm_lower(td_device_t *dev, const void *desc, td_arena_t *arena, td_kernel_t **out,
                               uint64_t *out_scratch, td_err_t *err) {
    (void)dev;
    td_status_t s = check_all(desc, err);
    if (s) return s;
    td_kernel_t *k = TD_NEW(arena, td_kernel_t);
    td_gemm_t *g = TD_NEW(arena, td_gemm_t);
    if (!k || !g) return td_arena_fail(arena, err);
    g->d = *(const td_gemm_desc_t *)desc;
    const td_gemm_desc_t *d = &g->d;
    uint32_t next = 4;
    g->bias = d->has_bias ? next++ : 0, g->a_scale = d->has_a_scale ? next++ : 0,
    g->b_scale = d->has_b_scale ? next++ : 0;
    g->c_scale = d->has_c_scale ? next++ : 0, g->d_scale = d->has_d_scale ? next++ : 0,
    g->aux = d->has_aux ? next++ : 0, g->amax = d->has_amax ? next++ : 0;
    g->work = g->pack = work_type(d);
    g->lines = d->d.column_major ? d->d.cols : d->d.rows, g->len = d->d.column_major ? d->d.rows : d->d.cols,
    g->k = d->a.cols;
    if (g->d.d.ld < g->len) g->d.d.ld = g->len; /* one line */
    if (g->work == TD_S32 && (g->chunk = exact_chunk(d->a.type, d->b.type))) g->pack = TD_F32;
    td_gemm_side_t a = side(g, &d->a, 0, d->conjugate_a), b = side(g, &d->b, 1, d->conjugate_b);
    /* a column-major D is the row-major D^T = B^T A^T */
    g->x = d->d.column_major ? b : a, g->y = d->d.column_major ? a : b;
    g->direct = d->d.type == g->work && g->work != TD_S32;
    g->finishes =
        !g->direct || d->epilogue != TD_EPI_NONE || d->has_bias || d->has_aux || d->has_d_scale || d->has_amax;
    uint64_t total = 0;
    if ((!g->x.direct && !reserve(&total, &g->x.at, g->x.major, g->x.minor, g->pack)) ||
        (!g->y.direct && !reserve(&total, &g->y.at, g->y.major, g->y.minor, g->pack)) ||
        (!g->direct && !reserve(&total, &g->r_at, g->lines, g->len, g->work)) ||
        (g->chunk && !reserve(&total, &g->part_at, g->lines, g->len, TD_F32)) ||
        !reserve(&total, &g->line_at, 1, g->len, g->work))
        return td_fail(err, TD_LIMIT, "matrix product is too large");
    *out_scratch = total;
    k->library = g, k->run = run;
    *out = k;
    return TD_OK;
}
