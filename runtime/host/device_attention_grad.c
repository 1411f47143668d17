/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of attention, block by block, from the forward pass' stats:
 * P = exp(S - stats), dV = P^T dO, dP = dO V^T, D = rowsum(dO * O), dB = P * (dP - D), dS = scale * dB,
 * dQ = dS K, dK = dS^T Q. A key head's gradients are the sums over its query heads. In the 8-bit form P and dS are
 * scaled and rounded to 8 bits before they are multiplied on. */
#include <cblas.h>
#include <math.h>
#include <string.h>

#include "runtime/host/attention.h"

/* c (+)= alpha * op(a) b, row-major, dense except for a and c's row lengths. */
static void product(bool transposed, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
                    const float *b, float beta, float *c) {
    cblas_sgemm(CblasRowMajor, transposed ? CblasTrans : CblasNoTrans, CblasNoTrans, (blasint)m, (blasint)n, (blasint)k,
                alpha, a, (blasint)lda, b, (blasint)n, beta, c, (blasint)n);
}

static void add_dbias(const td_attention_run_t *a, int64_t r, int64_t j, const float *g, td_attention_range_t s) {
    const td_attention_array_t *t = &a->p->d.arrays[TD_ATT_DBIAS];
    if (!t->buffer) return;
    int64_t seq = t->dims[0] == 1 ? 0 : a->seq, head = t->dims[1] == 1 ? 0 : a->kv_head * a->p->group + r / a->q_len;
    int64_t token = t->dims[2] == 1 ? 0 : r % a->q_len;
    float *to = a->dbias + ((seq * t->dims[1] + head) * t->dims[2] + token) * t->dims[3];
    for (int64_t c = s.from; c < s.to; c++) to[t->dims[3] == 1 ? 0 : c] += g[c - j];
}

/* Row i of the block: P into score, dS into dscore (which holds dP); unseen keys become 0. */
static void row_gradient(td_attention_run_t *a, int64_t r, int64_t i, int64_t j, int64_t m, float sum) {
    const td_attention_desc_t *d = &a->p->d;
    td_attention_range_t s = td_attention_sees(a, r + i);
    float *p = a->score + i * TD_ATT_KEYS, *g = a->dscore + i * TD_ATT_KEYS, stat = *td_attention_stat(a, r + i),
          scale = (float)d->scale;
    if (s.from < j) s.from = j;
    if (s.to > j + m) s.to = j + m;
    if (s.to <= s.from || stat == -INFINITY) s.from = s.to = j;
    int64_t lo = s.from - j, hi = s.to - j;
    memset(p, 0, (size_t)lo * sizeof *p), memset(p + hi, 0, (size_t)(m - hi) * sizeof *p);
    memset(g, 0, (size_t)lo * sizeof *g), memset(g + hi, 0, (size_t)(m - hi) * sizeof *g);
    for (int64_t c = lo; c < hi; c++) p[c] -= stat;
    td_attention_exp(p + lo, hi - lo);
    for (int64_t c = lo; c < hi; c++) g[c] = p[c] * (g[c] - sum);
    add_dbias(a, r + i, j, g, s);
    for (int64_t c = lo; c < hi; c++) g[c] *= scale;
    if (!d->eight_bit) return;
    td_type_t type = d->arrays[TD_ATT_Q].type;
    td_attention_quantize(type, a->f[TD_ATT_SCALE_S], p + lo, hi - lo);
    float top = td_attention_quantize(type, a->f[TD_ATT_SCALE_DP], g + lo, hi - lo);
    if (!(top <= a->f[TD_ATT_AMAX_DP])) a->f[TD_ATT_AMAX_DP] = top;
}

static void finish(td_attention_run_t *a, int which, int scale, int amax, float *x, int64_t n) {
    const td_attention_desc_t *d = &a->p->d;
    if (!d->eight_bit) return;
    float top = td_attention_quantize(d->arrays[which].type, a->f[scale], x, n);
    if (!(top <= a->f[amax])) a->f[amax] = top;
}

static void block(td_attention_run_t *a, int64_t r, int64_t n) {
    const td_attention_desc_t *d = &a->p->d;
    const float *f = a->f;
    int64_t dq = d->qk_depth, dv = d->v_depth;
    float sum[TD_ATT_ROWS];
    td_attention_range_t keys = td_attention_block_sees(a, r, n);
    td_attention_load(a, TD_ATT_Q, r, n, a->q);
    td_attention_load(a, TD_ATT_DO, r, n, a->dout);
    td_attention_load(a, TD_ATT_O, r, n, a->out);
    for (int64_t i = 0; i < n; i++) {
        double s = 0;
        for (int64_t h = 0; h < dv; h++) s += (double)a->dout[i * dv + h] * (double)a->out[i * dv + h];
        sum[i] = (float)s * f[TD_ATT_DESCALE_O] * f[TD_ATT_DESCALE_DO];
    }
    memset(a->acc, 0, (size_t)(n * dq) * sizeof *a->acc);
    for (int64_t j = keys.from; j < keys.to; j += TD_ATT_KEYS) {
        int64_t m = keys.to - j < TD_ATT_KEYS ? keys.to - j : TD_ATT_KEYS;
        td_attention_scores(a, r, n, j, m);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)n, (blasint)m, (blasint)dv,
                    f[TD_ATT_DESCALE_DO] * f[TD_ATT_DESCALE_V], a->dout, (blasint)dv, a->v + j * dv, (blasint)dv, 0,
                    a->dscore, TD_ATT_KEYS);
        for (int64_t i = 0; i < n; i++) row_gradient(a, r, i, j, m, sum[i]);
        product(true, m, dv, n, f[TD_ATT_DESCALE_S] * f[TD_ATT_DESCALE_DO], a->score, TD_ATT_KEYS, a->dout, 1,
                a->dv + j * dv);
        product(false, n, dq, m, f[TD_ATT_DESCALE_DP] * f[TD_ATT_DESCALE_K], a->dscore, TD_ATT_KEYS, a->k + j * dq, 1,
                a->acc);
        product(true, m, dq, n, f[TD_ATT_DESCALE_DP] * f[TD_ATT_DESCALE_Q], a->dscore, TD_ATT_KEYS, a->q, 1,
                a->dk + j * dq);
    }
    finish(a, TD_ATT_DQ, TD_ATT_SCALE_DQ, TD_ATT_AMAX_DQ, a->acc, n * dq);
    td_attention_store(a, TD_ATT_DQ, r, n, a->acc);
}

void td_attention_backward(td_attention_run_t *a) {
    const td_attention_desc_t *d = &a->p->d;
    int64_t rows = a->p->group * a->q_len;
    td_attention_load_keys(a, TD_ATT_K, a->k);
    td_attention_load_keys(a, TD_ATT_V, a->v);
    memset(a->dk, 0, (size_t)(a->kv_len * d->qk_depth) * sizeof *a->dk);
    memset(a->dv, 0, (size_t)(a->kv_len * d->v_depth) * sizeof *a->dv);
    for (int64_t r = 0; r < rows; r += TD_ATT_ROWS) block(a, r, rows - r < TD_ATT_ROWS ? rows - r : TD_ATT_ROWS);
    finish(a, TD_ATT_DK, TD_ATT_SCALE_DK, TD_ATT_AMAX_DK, a->dk, a->kv_len * d->qk_depth);
    finish(a, TD_ATT_DV, TD_ATT_SCALE_DV, TD_ATT_AMAX_DV, a->dv, a->kv_len * d->v_depth);
    td_attention_store_keys(a, TD_ATT_DK, a->dk);
    td_attention_store_keys(a, TD_ATT_DV, a->dv);
}

void td_attention_store_dbias(const td_attention_run_t *a) {
    const td_attention_array_t *t = &a->p->d.arrays[TD_ATT_DBIAS];
    const float *from = a->dbias;
    for (int64_t b = 0; b < t->dims[0]; b++)
        for (int64_t h = 0; h < t->dims[1]; h++)
            for (int64_t i = 0; i < t->dims[2]; i++)
                for (int64_t c = 0; c < t->dims[3]; c++, from++) {
                    int64_t at = b * t->strides[0] + h * t->strides[1] + i * t->strides[2] + c * t->strides[3];
                    td_convert_array(TD_F32, from, t->type,
                                     (char *)a->bufs[t->buffer - 1] + at * (int64_t)td_type_bytes(t->type), 1);
                }
}
