/* SPDX-License-Identifier: Apache-2.0 */
/* How attention reads and writes its arrays, and the scores both directions need. */
#include <cblas.h>
#include <math.h>
#include <string.h>

#include "runtime/host/attention.h"
#include "runtime/host/saturate.h"

td_attention_range_t td_attention_sees(const td_attention_run_t *a, int64_t r) {
    const td_attention_desc_t *d = &a->p->d;
    int64_t i = r % a->q_len;
    td_attention_range_t s = {d->window > 0 && i >= d->window ? i - d->window + 1 : 0,
                              d->causal && i + 1 < a->kv_len ? i + 1 : a->kv_len};
    if (s.from > s.to) s.from = s.to;
    return s;
}

td_attention_range_t td_attention_block_sees(const td_attention_run_t *a, int64_t r, int64_t n) {
    td_attention_range_t all = td_attention_sees(a, r);
    for (int64_t i = 1; i < n; i++) {
        td_attention_range_t s = td_attention_sees(a, r + i);
        if (s.from < all.from) all.from = s.from;
        if (s.to > all.to) all.to = s.to;
    }
    return all;
}

static char *query_row(const td_attention_run_t *a, int which, int64_t r) {
    const td_attention_desc_t *d = &a->p->d;
    const td_attention_array_t *t = &d->arrays[which];
    int64_t head = a->kv_head * a->p->group + r / a->q_len, token = r % a->q_len;
    int64_t base = d->q_offsets && which != TD_ATT_STATS ? ((const int32_t *)a->bufs[d->q_offsets - 1])[a->seq]
                                                         : a->seq * t->strides[0];
    return (char *)a->bufs[t->buffer - 1] +
           (base + head * t->strides[1] + token * t->strides[2]) * (int64_t)td_type_bytes(t->type);
}

static char *key_row(const td_attention_run_t *a, int which, int64_t token) {
    const td_attention_desc_t *d = &a->p->d;
    const td_attention_array_t *t = &d->arrays[which];
    int64_t base = d->kv_offsets ? ((const int32_t *)a->bufs[d->kv_offsets - 1])[a->seq] : a->seq * t->strides[0];
    if (d->k_pages) {
        const int32_t *pages = a->bufs[(which == TD_ATT_K ? d->k_pages : d->v_pages) - 1];
        base = pages[a->seq * d->pages + token / t->dims[2]] * t->strides[0];
        token %= t->dims[2];
    }
    return (char *)a->bufs[t->buffer - 1] +
           (base + a->kv_head * t->strides[1] + token * t->strides[2]) * (int64_t)td_type_bytes(t->type);
}

static void load(td_type_t type, const char *src, int64_t stride, float *dst, int64_t n) {
    if (stride == 1) td_convert_array(type, src, TD_F32, dst, (size_t)n);
    else
        for (int64_t i = 0; i < n; i++)
            td_convert_array(type, src + i * stride * (int64_t)td_type_bytes(type), TD_F32, dst + i, 1);
}
static void store(td_type_t type, char *dst, int64_t stride, const float *src, int64_t n) {
    if (stride == 1) td_convert_array(TD_F32, src, type, dst, (size_t)n);
    else
        for (int64_t i = 0; i < n; i++)
            td_convert_array(TD_F32, src + i, type, dst + i * stride * (int64_t)td_type_bytes(type), 1);
}

void td_attention_load(const td_attention_run_t *a, int which, int64_t r, int64_t n, float *dst) {
    const td_attention_array_t *t = &a->p->d.arrays[which];
    for (int64_t i = 0; i < n; i++)
        load(t->type, query_row(a, which, r + i), t->strides[3], dst + i * t->dims[3], t->dims[3]);
}
void td_attention_store(const td_attention_run_t *a, int which, int64_t r, int64_t n, const float *src) {
    const td_attention_array_t *t = &a->p->d.arrays[which];
    for (int64_t i = 0; i < n; i++)
        store(t->type, query_row(a, which, r + i), t->strides[3], src + i * t->dims[3], t->dims[3]);
}
void td_attention_load_keys(const td_attention_run_t *a, int which, float *dst) {
    const td_attention_array_t *t = &a->p->d.arrays[which];
    for (int64_t i = 0; i < a->kv_len; i++)
        load(t->type, key_row(a, which, i), t->strides[3], dst + i * t->dims[3], t->dims[3]);
}
void td_attention_store_keys(const td_attention_run_t *a, int which, const float *src) {
    const td_attention_array_t *t = &a->p->d.arrays[which];
    for (int64_t i = 0; i < a->kv_len; i++)
        store(t->type, key_row(a, which, i), t->strides[3], src + i * t->dims[3], t->dims[3]);
}
float *td_attention_stat(const td_attention_run_t *a, int64_t r) {
    return (float *)(void *)query_row(a, TD_ATT_STATS, r);
}

void td_attention_zero(const td_attention_run_t *a, int which) {
    const td_attention_array_t *t = &a->p->d.arrays[which];
    if (t->buffer)
        memset(a->bufs[t->buffer - 1], 0,
               (size_t)(t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3]) * td_type_bytes(t->type));
}

void td_attention_exp(float *x, int64_t n) { td_vec()->tables[TD_F32]->fn[TD_HLO_EXP](x, x, NULL, NULL, (size_t)n); }

float td_attention_quantize(td_type_t type, float factor, float *x, int64_t n) {
    float top = 0, limit = td_type_saturation(type);
    for (int64_t i = 0; i < n; i++) {
        float m = fabsf(x[i]);
        if (!(m <= top)) top = m;
        x[i] *= factor;
        if (limit > 0) x[i] = td_saturate(x[i], limit);
    }
    if (limit > 0) td_small_round(type, x, x, (size_t)n);
    return top;
}

void td_attention_scores(const td_attention_run_t *a, int64_t r, int64_t n, int64_t j, int64_t m) {
    const td_attention_desc_t *d = &a->p->d;
    const td_attention_array_t *t = &d->arrays[TD_ATT_BIAS];
    blasint depth = (blasint)d->qk_depth;
    float alpha = (float)d->scale * a->f[TD_ATT_DESCALE_Q] * a->f[TD_ATT_DESCALE_K];
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)n, (blasint)m, depth, alpha, a->q, depth,
                a->k + j * depth, depth, 0, a->score, TD_ATT_KEYS);
    for (int64_t i = 0; i < n && t->buffer; i++) {
        int64_t head = a->kv_head * a->p->group + (r + i) / a->q_len, token = (r + i) % a->q_len;
        int64_t at = a->seq * t->strides[0] + head * t->strides[1] + token * t->strides[2] + j * t->strides[3];
        float *s = a->score + i * TD_ATT_KEYS;
        load(t->type, (const char *)a->bufs[t->buffer - 1] + at * (int64_t)td_type_bytes(t->type), t->strides[3],
             a->row, m);
        for (int64_t c = 0; c < m; c++) s[c] += a->row[c];
    }
}
