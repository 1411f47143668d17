/* SPDX-License-Identifier: Apache-2.0 */
/* Fused attention: softmax(scale * Q K^T + bias) V block by block over keys with a running maximum and sum, so
 * that no array of queries x keys exists; products through BLAS, everything in f32, one rounding into O. The
 * 8-bit form rounds the normalised weights to 8 bits between the products, which takes a second pass.
 * Source of the rules: cuDNN's attention graph nodes (SDPA, SDPA_FP8_FWD). */
#include <cblas.h>
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "runtime/host/attention.h"

static td_attention_range_t clip(td_attention_range_t r, int64_t from, int64_t to) {
    r.from = r.from < from ? from : r.from > to ? to : r.from;
    r.to = r.to < r.from ? r.from : r.to > to ? to : r.to;
    return r;
}

/* One row's scores become weights relative to the new maximum; returns what the row's earlier weights and sum
 * are multiplied with. */
static float weigh(float *s, int64_t n, float *max, float *sum) {
    float top = td_vec()->max(s, (size_t)n), now = top <= *max ? *max : top, factor;
    if (now == -INFINITY) {
        memset(s, 0, (size_t)n * sizeof *s);
        return 1;
    }
    factor = expf(*max - now);
    *max = now;
    for (int64_t j = 0; j < n; j++) s[j] -= now;
    td_attention_exp(s, n);
    *sum = *sum * factor + td_vec()->sum(s, (size_t)n);
    return factor;
}

/* acc += weights x V over keys [j, j + m). */
static void accumulate(const td_attention_run_t *a, int64_t n, int64_t j, int64_t m, float alpha) {
    blasint dv = (blasint)a->p->d.v_depth;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)n, dv, (blasint)m, alpha, a->score, TD_ATT_KEYS,
                a->v + j * dv, dv, 1, a->acc, dv);
}

/* The seen part of row i's scores; the rest becomes 0. */
static float *seen(const td_attention_run_t *a, int64_t r, int64_t i, int64_t j, int64_t m, int64_t *out_n) {
    td_attention_range_t s = clip(td_attention_sees(a, r + i), j, j + m);
    float *row = a->score + i * TD_ATT_KEYS;
    memset(row, 0, (size_t)(s.from - j) * sizeof *row);
    memset(row + (s.to - j), 0, (size_t)(j + m - s.to) * sizeof *row);
    *out_n = s.to - s.from;
    return row + (s.from - j);
}

static void first_pass(const td_attention_run_t *a, int64_t r, int64_t n, td_attention_range_t keys, bool products,
                       float *max, float *sum) {
    int64_t dv = a->p->d.v_depth;
    for (int64_t j = keys.from; j < keys.to; j += TD_ATT_KEYS) {
        int64_t m = keys.to - j < TD_ATT_KEYS ? keys.to - j : TD_ATT_KEYS;
        td_attention_scores(a, r, n, j, m);
        for (int64_t i = 0; i < n; i++) {
            int64_t count;
            float *s = seen(a, r, i, j, m, &count), factor = count ? weigh(s, count, &max[i], &sum[i]) : 1;
            if (factor != 1 && products)
                for (int64_t h = 0; h < dv; h++) a->acc[i * dv + h] *= factor;
        }
        if (products) accumulate(a, n, j, m, 1);
    }
}

/* 8 bits: weights normalised, then rounded. */
static void second_pass(td_attention_run_t *a, int64_t r, int64_t n, td_attention_range_t keys, const float *max,
                        const float *sum) {
    const float *f = a->f;
    for (int64_t j = keys.from; j < keys.to; j += TD_ATT_KEYS) {
        int64_t m = keys.to - j < TD_ATT_KEYS ? keys.to - j : TD_ATT_KEYS;
        td_attention_scores(a, r, n, j, m);
        for (int64_t i = 0; i < n; i++) {
            int64_t count;
            float *s = seen(a, r, i, j, m, &count), top;
            if (!count) continue;
            for (int64_t c = 0; c < count; c++) s[c] -= max[i];
            td_attention_exp(s, count);
            for (int64_t c = 0; c < count; c++) s[c] /= sum[i];
            top = td_attention_quantize(a->p->d.arrays[TD_ATT_V].type, f[TD_ATT_SCALE_S], s, count);
            if (!(top <= a->f[TD_ATT_AMAX_S])) a->f[TD_ATT_AMAX_S] = top;
        }
        accumulate(a, n, j, m, f[TD_ATT_DESCALE_S] * f[TD_ATT_DESCALE_V]);
    }
}

static void forward_block(td_attention_run_t *a, int64_t r, int64_t n) {
    const td_attention_desc_t *d = &a->p->d;
    int64_t dv = d->v_depth;
    float max[TD_ATT_ROWS], sum[TD_ATT_ROWS];
    td_attention_range_t keys = td_attention_block_sees(a, r, n);
    for (int64_t i = 0; i < n; i++) max[i] = -INFINITY, sum[i] = 0;
    memset(a->acc, 0, (size_t)(n * dv) * sizeof *a->acc);
    td_attention_load(a, TD_ATT_Q, r, n, a->q);
    first_pass(a, r, n, keys, !d->eight_bit, max, sum);
    if (d->eight_bit) second_pass(a, r, n, keys, max, sum);
    for (int64_t i = 0; i < n; i++) {
        float *o = a->acc + i * dv;
        if (!d->eight_bit && sum[i] != 0)
            for (int64_t h = 0; h < dv; h++) o[h] /= sum[i];
        if (d->arrays[TD_ATT_STATS].buffer) *td_attention_stat(a, r + i) = max[i] + logf(sum[i]);
    }
    if (d->eight_bit) {
        float top = td_attention_quantize(d->arrays[TD_ATT_O].type, a->f[TD_ATT_SCALE_O], a->acc, n * dv);
        if (!(top <= a->f[TD_ATT_AMAX_O])) a->f[TD_ATT_AMAX_O] = top;
    }
    td_attention_store(a, TD_ATT_O, r, n, a->acc);
}

static void forward(td_attention_run_t *a) {
    int64_t rows = a->p->group * a->q_len;
    td_attention_load_keys(a, TD_ATT_K, a->k);
    td_attention_load_keys(a, TD_ATT_V, a->v);
    for (int64_t r = 0; r < rows; r += TD_ATT_ROWS)
        forward_block(a, r, rows - r < TD_ATT_ROWS ? rows - r : TD_ATT_ROWS);
}

static const int32_t *ints(const td_attention_run_t *a, uint32_t buffer) { return buffer ? a->bufs[buffer - 1] : NULL; }

static int64_t length(const int32_t *lengths, int64_t seq, int64_t most) {
    if (!lengths) return most;
    return lengths[seq] < 0 ? 0 : lengths[seq] > most ? most : lengths[seq];
}

/* A packed sequence lies within its array. */
static td_status_t packed(const td_attention_array_t *t, const char *what, int64_t seq, int64_t offset, int64_t len,
                          td_err_t *err) {
    int64_t count = t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3], last = 1;
    for (int i = 1; i < 4; i++) last += ((i == 2 ? len : t->dims[i]) - 1) * t->strides[i];
    if (!t->buffer || !len || !count || (offset >= 0 && last <= count && offset <= count - last)) return TD_OK;
    return td_fail(err, TD_MISMATCH,
                   "attention: sequence %lld of %lld tokens at %s offset %lld does not fit into %lld elements",
                   (long long)seq, (long long)len, what, (long long)offset, (long long)count);
}

static td_status_t check_sequence(const td_attention_run_t *a, td_err_t *err) {
    const td_attention_desc_t *d = &a->p->d;
    static const int query[] = {TD_ATT_Q, TD_ATT_O, TD_ATT_DO, TD_ATT_DQ},
                     key[] = {TD_ATT_K, TD_ATT_V, TD_ATT_DK, TD_ATT_DV};
    td_status_t st = TD_OK;
    for (int i = 0; i < 4 && !st && d->q_offsets; i++) {
        st = packed(&d->arrays[query[i]], "query", a->seq, ints(a, d->q_offsets)[a->seq], a->q_len, err);
        if (!st) st = packed(&d->arrays[key[i]], "key", a->seq, ints(a, d->kv_offsets)[a->seq], a->kv_len, err);
    }
    for (int i = 0; i < 2 && !st && d->k_pages; i++) {
        const td_attention_array_t *t = &d->arrays[i ? TD_ATT_V : TD_ATT_K];
        const int32_t *pages = ints(a, i ? d->v_pages : d->k_pages) + a->seq * d->pages;
        for (int64_t p = 0; p * t->dims[2] < a->kv_len && !st; p++)
            if (pages[p] < 0 || pages[p] >= t->dims[0])
                st = td_fail(err, TD_MISMATCH, "attention: page %lld of sequence %lld is block %d of %lld",
                             (long long)p, (long long)a->seq, pages[p], (long long)t->dims[0]);
    }
    return st;
}

static void start(td_attention_run_t *a, char *s) {
    const td_attention_plan_t *p = a->p;
    float **to[] = {&a->k,   &a->v,     &a->dk,     &a->dv,  &a->q,   &a->dout,
                    &a->out, &a->score, &a->dscore, &a->acc, &a->row, &a->dbias};
    const uint64_t at[] = {p->k,   p->v,     p->dk,     p->dv,  p->q,   p->dout,
                           p->out, p->score, p->dscore, p->acc, p->row, p->dbias};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) *to[i] = (float *)(void *)(s + at[i]);
    for (int i = 0; i < TD_ATT_SCALARS; i++) {
        a->f[i] = i >= TD_ATT_AMAX_S ? 0 : 1;
        if (i < TD_ATT_AMAX_S && p->d.scalars[i]) memcpy(&a->f[i], a->bufs[p->d.scalars[i] - 1], 4);
    }
    static const int results[] = {TD_ATT_DQ, TD_ATT_DK, TD_ATT_DV, TD_ATT_O, TD_ATT_STATS};
    for (int i = 0; i < 5; i++)
        if (p->d.backward ? i < 3 : i >= 3) td_attention_zero(a, results[i]);
    if (p->d.arrays[TD_ATT_DBIAS].buffer) {
        const int64_t *n = p->d.arrays[TD_ATT_DBIAS].dims;
        memset(a->dbias, 0, (size_t)(n[0] * n[1] * n[2] * n[3]) * sizeof(float));
    }
}

static td_status_t run(const td_kernel_t *k, void *const *bufs, void *scratch, td_err_t *err) {
    td_attention_run_t a = {.p = k->library, .bufs = bufs};
    const td_attention_desc_t *d = &a.p->d;
    start(&a, scratch);
    for (a.seq = 0; a.seq < d->batch; a.seq++) {
        a.q_len = length(ints(&a, d->q_lengths), a.seq, d->q_tokens);
        a.kv_len = length(ints(&a, d->kv_lengths), a.seq, d->kv_tokens);
        td_status_t st = check_sequence(&a, err);
        if (st) return st;
        if (!a.q_len || !a.kv_len) continue;
        for (a.kv_head = 0; a.kv_head < d->kv_heads; a.kv_head++) {
            if (d->backward) td_attention_backward(&a);
            else forward(&a);
        }
    }
    if (d->arrays[TD_ATT_DBIAS].buffer) td_attention_store_dbias(&a);
    for (int i = TD_ATT_AMAX_S; i < TD_ATT_SCALARS; i++)
        if (d->scalars[i]) memcpy(bufs[d->scalars[i] - 1], &a.f[i], 4);
    return TD_OK;
}

static bool reserve(td_attention_plan_t *p, uint64_t *at, int64_t rows, int64_t cols) {
    uint64_t n;
    *at = p->bytes;
    return td_mul_u64((uint64_t)rows, (uint64_t)cols, &n) && n < 1ull << 50 &&
           td_add_u64(p->bytes, (n * 4 + 127) & ~63ull, &p->bytes);
}

td_status_t td_host_attention_lower(td_device_t *dev, const void *desc, td_arena_t *arena, td_kernel_t **out,
                                    uint64_t *out_scratch, td_err_t *err) {
    const td_attention_desc_t *d = desc;
    (void)dev;
    for (int i = 0; i < TD_ATT_ARRAYS; i++)
        if (d->arrays[i].buffer &&
            (!td_type_is_float(d->arrays[i].type) || (i == TD_ATT_STATS && d->arrays[i].type != TD_F32)))
            return td_fail(err, TD_UNSUPPORTED, "attention with an array of %s", td_type_name(d->arrays[i].type));
    if (d->kv_heads < 1 || d->heads % d->kv_heads || d->qk_depth < 1 || d->v_depth < 1 || d->qk_depth > INT32_MAX ||
        d->v_depth > INT32_MAX)
        return td_fail(err, TD_UNSUPPORTED, "attention: %lld query heads and %lld key heads of depths %lld and %lld",
                       (long long)d->heads, (long long)d->kv_heads, (long long)d->qk_depth, (long long)d->v_depth);
    td_kernel_t *k = TD_NEW(arena, td_kernel_t);
    td_attention_plan_t *p = TD_NEW(arena, td_attention_plan_t);
    if (!k || !p) return td_arena_fail(arena, err);
    p->d = *d;
    p->group = d->heads / d->kv_heads;
    int64_t n = d->backward ? TD_ATT_ROWS : 0, m = d->backward ? d->kv_tokens : 0,
            wide = d->qk_depth > d->v_depth ? d->qk_depth : d->v_depth;
    const int64_t *b = d->arrays[TD_ATT_DBIAS].dims;
    if (!reserve(p, &p->k, d->kv_tokens, d->qk_depth) || !reserve(p, &p->v, d->kv_tokens, d->v_depth) ||
        !reserve(p, &p->dk, m, d->qk_depth) || !reserve(p, &p->dv, m, d->v_depth) ||
        !reserve(p, &p->q, TD_ATT_ROWS, d->qk_depth) || !reserve(p, &p->dout, n, d->v_depth) ||
        !reserve(p, &p->out, n, d->v_depth) || !reserve(p, &p->score, TD_ATT_ROWS, TD_ATT_KEYS) ||
        !reserve(p, &p->dscore, n, TD_ATT_KEYS) || !reserve(p, &p->acc, TD_ATT_ROWS, wide) ||
        !reserve(p, &p->row, 1, TD_ATT_KEYS) ||
        (d->arrays[TD_ATT_DBIAS].buffer && !reserve(p, &p->dbias, b[0] * b[1], b[2] * b[3])))
        return td_fail(err, TD_LIMIT, "attention over %lld keys is too large", (long long)d->kv_tokens);
    k->library = p, k->run = run;
    *out = k;
    *out_scratch = p->bytes;
    return TD_OK;
}
