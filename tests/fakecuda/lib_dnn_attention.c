/* SPDX-License-Identifier: Apache-2.0 */
/* The one form of attention that the stand-in for cuDNN knows, operation by operation: Q K^T, scale, bias, masks,
 * softmax with its logarithms, times V. */
#include "tests/fakecuda/lib_dnn.h"

#define UNKNOWN(why) dn_refuse(CUDNN_STATUS_NOT_SUPPORTED, why)
enum { QUERIES = 2, KEYS = 3 };

/* Where we are in the graph. */
typedef struct walk {
    const dn_attr_t *ops;
    int64_t at;
    dn_work_t *w;
    const dn_desc_t *scores, *q_lengths, *kv_lengths;
} walk_t;

static const dn_desc_t *op_at(const walk_t *k, int64_t at) {
    return at < k->ops->n ? dn_get((const void *)(uintptr_t)k->ops->v[at], -1) : NULL;
}
/* The mode of a pointwise operation or a reduction; -1: another, or none. */
static int64_t mode_of(const dn_desc_t *op, bool reduction) {
    int kind = reduction ? CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR : CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR;
    if (!op || op->kind != kind) return -1;
    const dn_desc_t *d = dn_get(
        dn_ptr(op, reduction ? CUDNN_ATTR_OPERATION_REDUCTION_DESC : CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR), -1);
    return d ? dn_int(d, reduction ? CUDNN_ATTR_REDUCTION_OPERATOR : CUDNN_ATTR_POINTWISE_MODE, -1) : -1;
}
/* The next operation is y = mode(x, b) of virtual y; NULL if it is not. b may be anything if it is NULL. */
static const dn_desc_t *next(walk_t *k, int64_t mode, const dn_desc_t *x, const dn_desc_t *b) {
    const dn_desc_t *op = op_at(k, k->at);
    if (mode_of(op, false) != mode || dn_tensor(op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC) != x) return NULL;
    if (b && dn_tensor(op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC) != b) return NULL;
    k->at++;
    return dn_tensor(op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
}
static const dn_desc_t *next_reduction(walk_t *k, int64_t mode, const dn_desc_t *x) {
    const dn_desc_t *op = op_at(k, k->at), *y = NULL;
    if (mode_of(op, true) != mode || dn_tensor(op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC) != x) return NULL;
    k->at++;
    y = dn_tensor(op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
    return y && dn_dim(y, KEYS) == 1 && dn_dim(y, QUERIES) == dn_dim(x, QUERIES) ? y : NULL;
}
/* An operand of the latest operation. */
static const dn_desc_t *operand(const walk_t *k) {
    return dn_tensor(op_at(k, k->at - 1), CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
}

static td_attention_array_t *take(walk_t *k, int which, const dn_desc_t *t, bool swapped, bool write) {
    td_attention_array_t *a = &k->w->d.attention.arrays[which];
    dn_buffer(k->w, t, write);
    a->buffer = k->w->n;
    a->type = dn_type(t);
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t from = swapped && i > 1 ? 5 - i : i;
        a->dims[i] = dn_dim(t, from), a->strides[i] = dn_stride(t, from);
    }
    return a;
}
static bool shaped(const td_attention_array_t *a, int64_t b, int64_t h, int64_t t, int64_t d) {
    return a->dims[0] == b && a->dims[1] == h && a->dims[2] == t && a->dims[3] == d;
}

static cudnnStatus_t first_product(walk_t *k) {
    const dn_desc_t *op = op_at(k, k->at++), *q = dn_tensor(op, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
    const dn_desc_t *keys = dn_tensor(op, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
    td_attention_desc_t *d = &k->w->d.attention;
    k->scores = dn_tensor(op, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
    if (!q || !keys || !k->scores || dn_rank(q) != 4 || dn_rank(keys) != 4 || !dn_virtual(k->scores))
        return UNKNOWN("the first product");
    *d = (td_attention_desc_t){.batch = dn_dim(q, 0),
                               .heads = dn_dim(q, 1),
                               .q_tokens = dn_dim(q, 2),
                               .qk_depth = dn_dim(q, 3),
                               .kv_heads = dn_dim(keys, 1),
                               .kv_tokens = dn_dim(keys, 3)};
    take(k, TD_ATT_Q, q, false, false);
    if (!shaped(take(k, TD_ATT_K, keys, true, false), d->batch, d->kv_heads, d->kv_tokens, d->qk_depth))
        return dn_fault("sizes of Q and K", dn_dim(q, 3), dn_dim(keys, 2));
    k->q_lengths = dn_tensor(op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC);
    k->kv_lengths = dn_tensor(op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC);
    return 0;
}

static cudnnStatus_t bias(walk_t *k, const dn_desc_t *t) {
    td_attention_array_t *a = take(k, TD_ATT_BIAS, t, false, false);
    const int64_t full[4] = {k->w->d.attention.batch, k->w->d.attention.heads, k->w->d.attention.q_tokens,
                             k->w->d.attention.kv_tokens};
    for (int i = 0; i < 4; i++) {
        if (a->dims[i] != 1 && a->dims[i] != full[i])
            return dn_fault("size of the bias in a dimension", a->dims[i], full[i]);
        if (a->dims[i] == 1) a->strides[i] = 0;
    }
    return 0;
}

/* Places of queries and keys, then what is seen, then a choice by that. */
static cudnnStatus_t mask(walk_t *k) {
    td_attention_desc_t *d = &k->w->d.attention;
    const dn_desc_t *rows = next(k, CUDNN_POINTWISE_GEN_INDEX, k->scores, NULL),
                    *cols = next(k, CUDNN_POINTWISE_GEN_INDEX, k->scores, NULL), *seen;
    for (int64_t i = 1; i <= 2; i++) {
        const dn_desc_t *p = dn_get(dn_ptr(op_at(k, k->at - i), CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR), -1);
        if (!p || dn_int(p, CUDNN_ATTR_POINTWISE_AXIS, -1) != (i == 2 ? QUERIES : KEYS))
            return UNKNOWN("places along another axis");
    }
    if ((seen = next(k, CUDNN_POINTWISE_CMP_GE, rows, cols))) {
        d->causal = true;
    } else if ((seen = next(k, CUDNN_POINTWISE_ADD, cols, NULL))) {
        if (!dn_by_value(k->w, operand(k), TD_S32, DN_WINDOW)) return UNKNOWN("a window that is no number");
        seen = next(k, CUDNN_POINTWISE_CMP_GT, seen, rows);
    } else if ((seen = next(k, CUDNN_POINTWISE_CMP_LT, rows, k->q_lengths))) {
        const dn_desc_t *in_keys = next(k, CUDNN_POINTWISE_CMP_LT, cols, k->kv_lengths);
        if (!k->q_lengths || !k->kv_lengths) return UNKNOWN("lengths that the products do not have");
        seen = in_keys ? next(k, CUDNN_POINTWISE_LOGICAL_AND, seen, in_keys) : NULL;
        dn_buffer(k->w, k->q_lengths, false), d->q_lengths = k->w->n;
        dn_buffer(k->w, k->kv_lengths, false), d->kv_lengths = k->w->n;
    }
    const dn_desc_t *kept = seen ? next(k, CUDNN_POINTWISE_BINARY_SELECT, k->scores, NULL) : NULL;
    if (!kept || dn_tensor(op_at(k, k->at - 1), CUDNN_ATTR_OPERATION_POINTWISE_TDESC) != seen) return UNKNOWN("a mask");
    if (!dn_by_value(k->w, operand(k), TD_F32, DN_LOWEST)) return UNKNOWN("a mask's value");
    k->scores = kept;
    return 0;
}

static cudnnStatus_t softmax(walk_t *k, const dn_desc_t **weights) {
    const dn_desc_t *most = next_reduction(k, CUDNN_REDUCE_TENSOR_MAX, k->scores);
    const dn_desc_t *below = most ? next(k, CUDNN_POINTWISE_SUB, k->scores, most) : NULL;
    const dn_desc_t *e = below ? next(k, CUDNN_POINTWISE_EXP, below, NULL) : NULL;
    const dn_desc_t *sum = e ? next_reduction(k, CUDNN_REDUCE_TENSOR_ADD, e) : NULL;
    const dn_desc_t *log_sum = sum ? next(k, CUDNN_POINTWISE_LOG, sum, NULL) : NULL;
    const dn_desc_t *stats = log_sum ? next(k, CUDNN_POINTWISE_ADD, most, log_sum) : NULL;
    const td_attention_desc_t *d = &k->w->d.attention;
    *weights = stats ? next(k, CUDNN_POINTWISE_DIV, e, sum) : NULL;
    if (!*weights || dn_virtual(stats)) return UNKNOWN("a softmax, or one without its logarithms");
    if (dn_type(*weights) != d->arrays[TD_ATT_Q].type) return UNKNOWN("weights of another type than Q");
    const td_attention_array_t *a = take(k, TD_ATT_STATS, stats, false, true);
    return shaped(a, d->batch, d->heads, d->q_tokens, 1)
               ? 0
               : dn_fault("shape of the softmax's logarithms", a->dims[2], d->q_tokens);
}

static cudnnStatus_t second_product(walk_t *k, const dn_desc_t *weights) {
    const dn_desc_t *op = op_at(k, k->at++);
    td_attention_desc_t *d = &k->w->d.attention;
    if (!op || op->kind != CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR || k->at != k->ops->n)
        return UNKNOWN("the second product");
    const dn_desc_t *v = dn_tensor(op, CUDNN_ATTR_OPERATION_MATMUL_BDESC),
                    *o = dn_tensor(op, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
    if (!v || !o || dn_tensor(op, CUDNN_ATTR_OPERATION_MATMUL_ADESC) != weights) return UNKNOWN("the second product");
    if (dn_tensor(op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC) != k->q_lengths ||
        dn_tensor(op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC) != k->kv_lengths ||
        !k->q_lengths != !d->q_lengths)
        return dn_fault("lengths of one product and of the other, or of the mask", 0, 0);
    d->v_depth = dn_dim(v, 3);
    if (!shaped(take(k, TD_ATT_V, v, false, false), d->batch, d->kv_heads, d->kv_tokens, d->v_depth) ||
        !shaped(take(k, TD_ATT_O, o, false, true), d->batch, d->heads, d->q_tokens, d->v_depth))
        return dn_fault("sizes of V and the result", dn_dim(v, 2), dn_dim(o, 2));
    return dn_stride(o, 3) == 1 && dn_stride(v, 3) == 1 ? 0 : UNKNOWN("a depth that does not lie innermost");
}

cudnnStatus_t dn_attention(const dn_attr_t *ops, dn_work_t *w) {
    walk_t k = {.ops = ops, .w = w};
    const dn_desc_t *weights = NULL, *next_scores;
    cudnnStatus_t r = first_product(&k);
    w->op = TD_OP_ATTENTION;
    if (r) return r;
    if (!(next_scores = next(&k, CUDNN_POINTWISE_MUL, k.scores, NULL)) ||
        !dn_by_value(w, operand(&k), TD_F32, DN_SCALE))
        return UNKNOWN("scores without a scale");
    k.scores = next_scores;
    if ((next_scores = next(&k, CUDNN_POINTWISE_ADD, k.scores, NULL))) {
        if ((r = bias(&k, operand(&k)))) return r;
        k.scores = next_scores;
    }
    while (!r && mode_of(op_at(&k, k.at), false) == CUDNN_POINTWISE_GEN_INDEX) r = mask(&k);
    if (!r) r = softmax(&k, &weights);
    return r ? r : second_product(&k, weights);
}
