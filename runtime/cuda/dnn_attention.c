/* SPDX-License-Identifier: Apache-2.0 */
/* Attention, forward, through cuDNN's fused engines. They know it by the graph that it is written as: Q K^T, scale,
 * bias, masks, the softmax operation by operation, times V; the softmax's logarithms are always a result (without them
 * no engine of cuDNN 9 takes the graph). Source: the graphs that cudnn-frontend 1.x makes
 * (node/scaled_dot_product_flash_attention.h); tried on cuDNN 9.19.
 * Not here: gradients, 8-bit floats, packed sequences, pages. */
#include <float.h>
#include <stdio.h>

#include "base/checked.h"
#include "runtime/cuda/dnn.h"

typedef cudnnBackendDescriptor_t desc_t;
typedef struct attention {
    td_dnn_build_t b;
    const td_attention_desc_t *d;
    desc_t scores;                /* as far as they are computed */
    desc_t q_lengths, kv_lengths; /* NULL: all tokens count */
} attention_t;

/* ---- tensors ---- */
static desc_t virtual_of(attention_t *a, td_type_t type, int64_t keys) {
    const td_attention_desc_t *d = a->d;
    const td_dnn_tensor_t t = {.type = type,
                               .n = 4,
                               .vector = 1,
                               .from = TD_DNN_VIRTUAL,
                               .dims = {d->batch, d->heads, d->q_tokens, keys},
                               .strides = {d->heads * d->q_tokens * keys, d->q_tokens * keys, keys, 1}};
    return td_dnn_tensor(&a->b, &t);
}
static desc_t single(attention_t *a, td_type_t type, int64_t n, int32_t from) {
    const td_dnn_tensor_t t = {
        .type = type, .n = 4, .vector = 1, .from = from, .dims = {n, 1, 1, 1}, .strides = {1, 1, 1, 1}};
    return td_dnn_tensor(&a->b, &t);
}
static desc_t number(attention_t *a, td_type_t type, const void *value) {
    return single(a, type, 1, td_dnn_number(&a->b, value, td_type_bytes(type)));
}
/* [batch, heads, tokens, depth], or with the last two swapped. */
static desc_t array(attention_t *a, int which, bool swapped) {
    const td_attention_array_t *v = &a->d->arrays[which];
    td_dnn_tensor_t t = {.type = v->type, .n = 4, .vector = 1, .from = (int32_t)v->buffer - 1};
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t from = swapped && i > 1 ? 5 - i : i;
        t.dims[i] = v->dims[from];
        t.strides[i] = v->strides[from] ? v->strides[from] : 1; /* of dimensions of size 1 */
    }
    return td_dnn_tensor(&a->b, &t);
}

/* ---- operations ---- */
static void matmul(attention_t *a, desc_t x, desc_t y, desc_t out, int columns) {
    int type = CUDNN_DATA_FLOAT;
    desc_t m = td_dnn_make(&a->b, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    td_dnn_set(&a->b, m, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    td_dnn_finish(&a->b, m, "product");
    desc_t op = td_dnn_make(&a->b, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    td_dnn_set_desc(&a->b, op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, x);
    td_dnn_set_desc(&a->b, op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, y);
    td_dnn_set_desc(&a->b, op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, out);
    td_dnn_set_desc(&a->b, op, CUDNN_ATTR_OPERATION_MATMUL_DESC, m);
    if (a->q_lengths) {
        td_dnn_set_desc(&a->b, op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, a->q_lengths);
        td_dnn_set_desc(&a->b, op, columns, a->kv_lengths);
    }
    td_dnn_op(&a->b, op, "product operation");
}
static desc_t pointwise(attention_t *a, int mode, td_type_t type, desc_t x, desc_t other, desc_t y) {
    const td_dnn_pointwise_t p = {.mode = mode, .type = type, .x = x, .b = other, .y = y};
    td_dnn_pointwise(&a->b, &p);
    return y;
}
/* Along the keys, which are one afterwards. */
static desc_t reduce(attention_t *a, int mode, desc_t x) {
    int type = CUDNN_DATA_FLOAT;
    desc_t y = virtual_of(a, TD_F32, 1), r = td_dnn_make(&a->b, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    td_dnn_set(&a->b, r, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &mode);
    td_dnn_set(&a->b, r, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    td_dnn_finish(&a->b, r, "reduction");
    desc_t op = td_dnn_make(&a->b, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    td_dnn_set_desc(&a->b, op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    td_dnn_set_desc(&a->b, op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    td_dnn_set_desc(&a->b, op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, r);
    td_dnn_op(&a->b, op, "reduction operation");
    return y;
}

/* ---- masks ---- */
enum { QUERIES = 2, KEYS = 3 };
static desc_t places(attention_t *a, int64_t axis) {
    const td_dnn_pointwise_t p = {.mode = CUDNN_POINTWISE_GEN_INDEX,
                                  .type = TD_F32,
                                  .x = a->scores,
                                  .has_axis = true,
                                  .axis = axis,
                                  .y = virtual_of(a, TD_S32, a->d->kv_tokens)};
    td_dnn_pointwise(&a->b, &p);
    return p.y;
}
static desc_t compare(attention_t *a, int mode, desc_t x, desc_t other) {
    return pointwise(a, mode, TD_PRED, x, other, virtual_of(a, TD_PRED, a->d->kv_tokens));
}
static void keep_where(attention_t *a, desc_t seen) {
    const float lowest = -FLT_MAX;
    const td_dnn_pointwise_t p = {.mode = CUDNN_POINTWISE_BINARY_SELECT,
                                  .type = TD_F32,
                                  .x = a->scores,
                                  .b = number(a, TD_F32, &lowest),
                                  .t = seen,
                                  .y = virtual_of(a, TD_F32, a->d->kv_tokens)};
    td_dnn_pointwise(&a->b, &p);
    a->scores = p.y;
}
static void masks(attention_t *a) {
    const td_attention_desc_t *d = a->d;
    if (a->q_lengths) {
        desc_t q = places(a, QUERIES), k = places(a, KEYS);
        desc_t in_q = compare(a, CUDNN_POINTWISE_CMP_LT, q, a->q_lengths);
        desc_t in_k = compare(a, CUDNN_POINTWISE_CMP_LT, k, a->kv_lengths);
        keep_where(a, compare(a, CUDNN_POINTWISE_LOGICAL_AND, in_q, in_k));
    }
    if (d->causal) {
        desc_t q = places(a, QUERIES), k = places(a, KEYS);
        keep_where(a, compare(a, CUDNN_POINTWISE_CMP_GE, q, k));
    }
    if (d->window) {
        const int32_t width = (int32_t)d->window;
        desc_t q = places(a, QUERIES), k = places(a, KEYS), later = virtual_of(a, TD_S32, d->kv_tokens);
        pointwise(a, CUDNN_POINTWISE_ADD, TD_S32, k, number(a, TD_S32, &width), later);
        keep_where(a, compare(a, CUDNN_POINTWISE_CMP_GT, later, q));
    }
}

/* ---- the graph ---- */
static desc_t stats_of(attention_t *a) {
    const td_attention_desc_t *d = a->d;
    td_dnn_tensor_t t = {.type = TD_F32,
                         .n = 4,
                         .vector = 1,
                         .from = TD_DNN_SPARE,
                         .dims = {d->batch, d->heads, d->q_tokens, 1},
                         .strides = {d->heads * d->q_tokens, d->q_tokens, 1, 1}};
    const td_attention_array_t *s = &d->arrays[TD_ATT_STATS];
    for (uint32_t i = 0; i < 3 && s->buffer; i++) t.strides[i] = s->strides[i];
    if (s->buffer)
        t.from = (int32_t)s->buffer - 1;
    else
        a->b.k->spare = (uint64_t)(d->batch * d->heads * d->q_tokens) * sizeof(float);
    return td_dnn_tensor(&a->b, &t);
}
static void softmax(attention_t *a, desc_t stats, desc_t weights) {
    int64_t n = a->d->kv_tokens;
    desc_t most = reduce(a, CUDNN_REDUCE_TENSOR_MAX, a->scores);
    desc_t below = pointwise(a, CUDNN_POINTWISE_SUB, TD_F32, a->scores, most, virtual_of(a, TD_F32, n));
    desc_t e = pointwise(a, CUDNN_POINTWISE_EXP, TD_F32, below, NULL, virtual_of(a, TD_F32, n));
    desc_t sum = reduce(a, CUDNN_REDUCE_TENSOR_ADD, e);
    desc_t log_sum = pointwise(a, CUDNN_POINTWISE_LOG, TD_F32, sum, NULL, virtual_of(a, TD_F32, 1));
    pointwise(a, CUDNN_POINTWISE_ADD, TD_F32, most, log_sum, stats);
    pointwise(a, CUDNN_POINTWISE_DIV, TD_F32, e, sum, weights);
}
static void build(attention_t *a) {
    const td_attention_desc_t *d = a->d;
    const td_dnn_wish_t wish = {0};
    const float scale = (float)d->scale;
    desc_t q = array(a, TD_ATT_Q, false), k = array(a, TD_ATT_K, true), v = array(a, TD_ATT_V, false);
    desc_t o = array(a, TD_ATT_O, false), stats = stats_of(a), products = virtual_of(a, TD_F32, d->kv_tokens);
    if (d->q_lengths) {
        a->q_lengths = single(a, TD_S32, d->batch, (int32_t)d->q_lengths - 1);
        a->kv_lengths = single(a, TD_S32, d->batch, (int32_t)d->kv_lengths - 1);
    }
    matmul(a, q, k, products, CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC);
    a->scores = pointwise(a, CUDNN_POINTWISE_MUL, TD_F32, products, number(a, TD_F32, &scale),
                          virtual_of(a, TD_F32, d->kv_tokens));
    if (d->arrays[TD_ATT_BIAS].buffer)
        a->scores = pointwise(a, CUDNN_POINTWISE_ADD, TD_F32, a->scores, array(a, TD_ATT_BIAS, false),
                              virtual_of(a, TD_F32, d->kv_tokens));
    masks(a);
    desc_t weights = virtual_of(a, d->arrays[TD_ATT_Q].type, d->kv_tokens);
    softmax(a, stats, weights);
    matmul(a, weights, v, o, CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC);
    td_dnn_plan(&a->b, &wish);
}

/* ---- lowering ---- */
static td_status_t check(td_dnn_kernel_t *k, const td_attention_desc_t *d, td_err_t *err) {
    const td_type_t type = d->arrays[TD_ATT_Q].type;
    const struct {
        bool not_here;
        const char *what;
    } rows[] = {{d->backward, "gradients"},
                {d->eight_bit, "8-bit floats"},
                {d->q_offsets || d->kv_offsets, "packed sequences"},
                {d->k_pages || d->v_pages, "pages"},
                {!d->q_lengths != !d->kv_lengths, "lengths of queries or keys alone"}};
    snprintf(k->text, sizeof k->text, "attention of %s[%lld,%lld,%lld,%lld] over %lld keys", td_type_name(type),
             (long long)d->batch, (long long)d->heads, (long long)d->q_tokens, (long long)d->qk_depth,
             (long long)d->kv_tokens);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].not_here)
            return td_fail(err, TD_UNSUPPORTED, "%s: %s are not supported on CUDA devices yet", k->text, rows[i].what);
    if (type != TD_F16 && type != TD_BF16)
        return td_fail(err, TD_UNSUPPORTED, "%s: cuDNN's fused attention takes f16 and bf16", k->text);
    uint64_t n = 1;
    if (!td_mul_u64(n, (uint64_t)d->batch, &n) || !td_mul_u64(n, (uint64_t)d->heads, &n) ||
        !td_mul_u64(n, (uint64_t)d->q_tokens, &n) || !td_mul_u64(n, (uint64_t)d->kv_tokens, &n) || n > 1ull << 50 ||
        d->window > INT32_MAX)
        return td_fail(err, TD_LIMIT, "%s: too large", k->text);
    return TD_OK;
}
/* Results of tokens that are none are zeros, and cuDNN may leave them alone. */
static void clear(td_dnn_kernel_t *k, const td_attention_array_t *a) {
    uint64_t bytes = td_type_bytes(a->type);
    for (int i = 0; i < 4; i++) bytes *= (uint64_t)a->dims[i];
    k->clear[k->n_clear].buffer = a->buffer - 1;
    k->clear[k->n_clear++].bytes = bytes;
}

static td_status_t prepare(td_dnn_kernel_t *k, const td_attention_desc_t *d, td_err_t *err) {
    attention_t a = {.b = {k, err, TD_OK}, .d = d};
    const td_attention_array_t *o = &d->arrays[TD_ATT_O], *s = &d->arrays[TD_ATT_STATS];
    td_status_t st = check(k, d, err);
    if (st) return st;
    for (int i = 0; i < TD_ATT_ARRAYS; i++)
        if (d->arrays[i].buffer > k->n_bufs) k->n_bufs = d->arrays[i].buffer;
    if (!d->batch || !d->heads || !d->q_tokens || !d->v_depth) return TD_OK;
    if (!d->kv_tokens || !d->qk_depth) return td_fail(err, TD_UNSUPPORTED, "%s: nothing to attend to", k->text);
    if (d->q_lengths) clear(k, o);
    if (d->q_lengths && s->buffer) clear(k, s);
    build(&a);
    return a.b.st;
}

td_status_t td_cuda_attention_lower(td_cuda_device_t *d, const void *desc, td_arena_t *arena, td_kernel_t **out,
                                    uint64_t *out_scratch, td_err_t *err) {
    td_dnn_kernel_t *k = NULL;
    td_status_t st = td_dnn_new(d, "fused attentions", arena, &k, err);
    if (!st) st = prepare(k, desc, err);
    if (st) {
        if (k) td_dnn_release(&k->base);
        return st;
    }
    *out_scratch = td_dnn_scratch(k);
    *out = &k->base;
    return TD_OK;
}
