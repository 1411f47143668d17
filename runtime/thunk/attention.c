/* SPDX-License-Identifier: Apache-2.0 */
/* Attention as XLA hands it to cuDNN: what an operand or result is follows from the target and from the backend
 * config's JSON (CudnnfMHABackendConfig); which dimension means what from its dot dimension numbers.
 * Sources: xla/service/gpu/backend_configs.proto, transforms/cudnn_custom_call_compiler.cc, jax's
 * fused_attention_stablehlo (order of operands). */
#include "runtime/thunk/attention.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

typedef struct call {
    const td_hlo_instr_t *in;
    const json_t *config;
    td_attention_desc_t *d;
    uint32_t operand, result; /* next ones */
    int64_t segments;         /* packed sequences per batch entry */
    bool bias, padding, paged;
    td_err_t *err;
} call_t;

static const struct target {
    const char *name;
    bool bias, backward, eight_bit;
} targets[] = {
    {"__cudnn$fmhaSoftmax", false, false, false},
    {"__cudnn$fmhaScaleBiasSoftmax", true, false, false},
    {"__cudnn$fmhaSoftmaxDropout", false, false, false},
    {"__cudnn$fmhaScaleBiasSoftmaxDropout", true, false, false},
    {"__cudnn$fmhaSoftmaxF8", false, false, true},
    {"__cudnn$fmhaSoftmaxBackward", false, true, false},
    {"__cudnn$fmhaScaleBiasSoftmaxBackward", true, true, false},
    {"__cudnn$fmhaSoftmaxDropoutBackward", false, true, false},
    {"__cudnn$fmhaScaleBiasSoftmaxDropoutBackward", true, true, false},
    {"__cudnn$fmhaSoftmaxBackwardF8", false, true, true},
};

static const struct target *find(const char *name) {
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        if (!strcmp(targets[i].name, name)) return &targets[i];
    return NULL;
}
bool td_attention_target(const char *target) { return find(target) != NULL; }

/* protobuf's JSON writes 64-bit integers as text. */
static double number(const json_t *v, double otherwise) {
    if (json_is_number(v)) return json_number_value(v);
    return json_is_string(v) ? strtod(json_string_value(v), NULL) : otherwise;
}
static int64_t integer(const json_t *v) {
    if (json_is_integer(v)) return json_integer_value(v);
    double x = number(v, 0);
    return x > -1e15 && x < 1e15 ? (int64_t)x : -1;
}

static td_status_t dims_of(call_t *c, const char *dots, const char *list, int n, int64_t *out) {
    const json_t *v = json_object_get(json_object_get(c->config, dots), list);
    if (!json_is_array(v) || json_array_size(v) != (size_t)n)
        return td_fail(c->err, TD_MALFORMED, "attention: %s.%s does not have %d entries", dots, list, n);
    for (int i = 0; i < n; i++) out[i] = integer(json_array_get(v, (size_t)i));
    return TD_OK;
}

static td_status_t next(call_t *c, bool result, const char *what, const td_shape_t **shape, uint32_t *buffer) {
    uint32_t *at = result ? &c->result : &c->operand, n = result ? c->in->shape->rank : c->in->n_operands;
    if (*at >= n)
        return td_fail(c->err, TD_MISMATCH, "attention: %s is missing: only %u %s", what, n,
                       result ? "results" : "operands");
    *shape = result ? c->in->shape->elements[*at] : c->in->operands[*at]->shape;
    *buffer = (result ? c->in->n_operands : 0) + ++*at;
    if (!td_type_is_array((*shape)->type)) return td_fail(c->err, TD_MISMATCH, "attention: %s is no array", what);
    return TD_OK;
}

/* The array's dimensions in the order given; dimensions of size 1 where a broadcast is meant get stride 0. */
static td_status_t fill(call_t *c, int which, const char *what, bool result, const int64_t *order) {
    td_attention_array_t *a = &c->d->arrays[which];
    const td_shape_t *s = NULL;
    int64_t strides[4];
    uint32_t seen = 0;
    td_status_t st = next(c, result, what, &s, &a->buffer);
    if (st) return st;
    if (s->rank != 4 || !td_type_is_float(s->type))
        return td_fail(c->err, TD_UNSUPPORTED, "attention: %s is %s of rank %u", what, td_type_name(s->type), s->rank);
    td_shape_strides(s, strides);
    a->type = s->type;
    for (int i = 0; i < 4; i++) {
        if (order[i] < 0 || order[i] > 3 || (seen >> order[i] & 1))
            return td_fail(c->err, TD_MALFORMED, "attention: dimension %lld of %s", (long long)order[i], what);
        seen |= 1u << order[i];
        a->dims[i] = s->dims[order[i]];
        a->strides[i] = which == TD_ATT_BIAS && a->dims[i] == 1 ? 0 : strides[order[i]];
    }
    return TD_OK;
}

/* An operand of one of the dots: two batch dimensions, the contracted one (depth or token) and the one left. */
static td_status_t operand(call_t *c, int which, const char *what, const char *dots, bool left, bool contracts_depth) {
    int64_t order[4], x = 0;
    td_status_t st = dims_of(c, dots, left ? "lhs_batch_dimensions" : "rhs_batch_dimensions", 2, order);
    if (st || (st = dims_of(c, dots, left ? "lhs_contracting_dimensions" : "rhs_contracting_dimensions", 1, &x)))
        return st;
    int64_t other = 6 - order[0] - order[1] - x;
    order[2] = contracts_depth ? other : x;
    order[3] = contracts_depth ? x : other;
    return fill(c, which, what, false, order);
}
static td_status_t in_order(call_t *c, int which, const char *what, bool result) {
    return fill(c, which, what, result, (const int64_t[]){0, 1, 2, 3});
}

static td_status_t expect(call_t *c, int which, const char *what, int64_t b, int64_t n, int64_t t, int64_t h) {
    const int64_t *d = c->d->arrays[which].dims;
    if (d[0] == b && d[1] == n && d[2] == t && d[3] == h) return TD_OK;
    return td_fail(c->err, TD_MISMATCH, "attention: %s is [%lld,%lld,%lld,%lld], not [%lld,%lld,%lld,%lld]", what,
                   (long long)d[0], (long long)d[1], (long long)d[2], (long long)d[3], (long long)b, (long long)n,
                   (long long)t, (long long)h);
}

/* An s32 operand with at least so many elements. */
static td_status_t list(call_t *c, const char *what, int64_t least, uint32_t *buffer) {
    const td_shape_t *s = NULL;
    td_status_t st = next(c, false, what, &s, buffer);
    if (st) return st;
    if (s->type != TD_S32 || s->count < least)
        return td_fail(c->err, TD_MISMATCH, "attention: %s is %lld elements of %s, not %lld of s32", what,
                       (long long)s->count, td_type_name(s->type), (long long)least);
    return TD_OK;
}

static td_status_t scalars(call_t *c, bool result, const int *which, int n) {
    for (int i = 0; i < n; i++) {
        const td_shape_t *s = NULL;
        td_status_t st = next(c, result, "scale", &s, &c->d->scalars[which[i]]);
        if (st) return st;
        if (s->type != TD_F32 || s->count != 1)
            return td_fail(c->err, TD_MISMATCH, "attention: a scale is %lld elements of %s", (long long)s->count,
                           td_type_name(s->type));
    }
    return TD_OK;
}

/* [batch, heads, tokens] in f32, perhaps with a 1 behind. */
static td_status_t stats(call_t *c, bool result) {
    td_attention_desc_t *d = c->d;
    td_attention_array_t *a = &d->arrays[TD_ATT_STATS];
    const td_shape_t *s = NULL;
    td_status_t st = next(c, result, "softmax stats", &s, &a->buffer);
    if (st) return st;
    int64_t strides[4];
    if (s->type != TD_F32 || (s->rank != 3 && !(s->rank == 4 && s->dims[3] == 1)) || s->dims[0] != d->batch ||
        s->dims[1] != d->heads || s->dims[2] != d->q_tokens)
        return td_fail(c->err, TD_MISMATCH, "attention: softmax stats are not f32[%lld,%lld,%lld]", (long long)d->batch,
                       (long long)d->heads, (long long)d->q_tokens);
    td_shape_strides(s, strides);
    a->type = TD_F32;
    for (int i = 0; i < 3; i++) a->dims[i] = s->dims[i], a->strides[i] = strides[i];
    a->dims[3] = 1;
    return TD_OK;
}

/* Q, K and V have been read: sizes of everything, checked against each other. */
static td_status_t sizes(call_t *c) {
    td_attention_desc_t *d = c->d;
    const td_attention_array_t *q = &d->arrays[TD_ATT_Q], *k = &d->arrays[TD_ATT_K], *v = &d->arrays[TD_ATT_V];
    td_status_t st;
    if (__builtin_mul_overflow(q->dims[0], c->segments, &d->batch))
        return td_fail(c->err, TD_LIMIT, "attention: too many sequences");
    d->heads = q->dims[1], d->kv_heads = k->dims[1], d->q_tokens = q->dims[2], d->kv_tokens = k->dims[2];
    d->qk_depth = q->dims[3], d->v_depth = v->dims[3];
    if ((st = expect(c, TD_ATT_K, "K", c->paged ? k->dims[0] : q->dims[0], k->dims[1], k->dims[2], q->dims[3])) ||
        (st = expect(c, TD_ATT_V, "V", c->paged ? v->dims[0] : q->dims[0], k->dims[1], k->dims[2], v->dims[3])))
        return st;
    if (d->kv_heads < 1 || d->heads % d->kv_heads)
        return td_fail(c->err, TD_MISMATCH, "attention: %lld query heads for %lld key heads", (long long)d->heads,
                       (long long)d->kv_heads);
    return TD_OK;
}

static td_status_t bias(call_t *c) {
    td_attention_desc_t *d = c->d;
    const int64_t full[4] = {d->batch, d->heads, d->q_tokens, d->kv_tokens};
    td_status_t st = in_order(c, TD_ATT_BIAS, "bias", false);
    for (int i = 0; i < 4 && !st; i++)
        if (d->arrays[TD_ATT_BIAS].dims[i] != 1 && d->arrays[TD_ATT_BIAS].dims[i] != full[i])
            return td_fail(c->err, TD_MISMATCH, "attention: bias dimension %d is %lld, not %lld", i,
                           (long long)d->arrays[TD_ATT_BIAS].dims[i], (long long)full[i]);
    return st;
}

/* Lengths, offsets of packed sequences, page tables. */
static td_status_t lists(call_t *c) {
    td_attention_desc_t *d = c->d;
    td_status_t st;
    int64_t least;
    if (!c->padding && c->segments == 1 && !c->paged) return TD_OK;
    if ((st = list(c, "query lengths", d->batch, &d->q_lengths)) ||
        (st = list(c, "key lengths", d->batch, &d->kv_lengths)))
        return st;
    if (c->segments > 1 && ((st = list(c, "query offsets", d->batch + 1, &d->q_offsets)) ||
                            (st = list(c, "key offsets", d->batch + 1, &d->kv_offsets)))) return st;
    if (!c->paged) return TD_OK;
    if (d->batch < 1 || c->operand >= c->in->n_operands)
        return td_fail(c->err, TD_MISMATCH, "attention: no page table");
    d->pages = c->in->operands[c->operand]->shape->count / d->batch;
    if (__builtin_mul_overflow(d->pages, d->batch, &least) ||
        __builtin_mul_overflow(d->pages, d->arrays[TD_ATT_K].dims[2], &d->kv_tokens))
        return td_fail(c->err, TD_LIMIT, "attention: too many pages");
    if ((st = list(c, "key pages", least, &d->k_pages))) return st;
    return list(c, "value pages", least, &d->v_pages);
}

static td_status_t forward(call_t *c, bool eight_bit) {
    td_attention_desc_t *d = c->d;
    td_status_t st;
    if ((st = operand(c, TD_ATT_Q, "Q", "bmm1_dot_dimension_numbers", true, true)) ||
        (st = operand(c, TD_ATT_K, "K", "bmm1_dot_dimension_numbers", false, true)) ||
        (st = operand(c, TD_ATT_V, "V", "bmm2_dot_dimension_numbers", false, false)) || (st = sizes(c))) return st;
    uint32_t at = c->operand;
    if (c->paged) { /* the tables come last, but say how many keys there are */
        c->operand = at + (c->bias ? 1 : 0);
        if ((st = lists(c))) return st;
        uint32_t end = c->operand;
        c->operand = at;
        if (c->bias && (st = bias(c))) return st;
        c->operand = end;
    } else if ((c->bias && (st = bias(c))) || (st = lists(c))) {
        return st;
    }
    if (eight_bit && (st = scalars(c, false,
                                   (const int[]){TD_ATT_DESCALE_Q, TD_ATT_DESCALE_K, TD_ATT_DESCALE_V, TD_ATT_DESCALE_S,
                                                 TD_ATT_SCALE_S, TD_ATT_SCALE_O},
                                   6)))
        return st;
    if ((st = in_order(c, TD_ATT_O, "output", true)) ||
        (st = expect(c, TD_ATT_O, "output", d->arrays[TD_ATT_Q].dims[0], d->heads, d->q_tokens, d->v_depth))) return st;
    if (eight_bit && (st = scalars(c, true, (const int[]){TD_ATT_AMAX_S, TD_ATT_AMAX_O}, 2))) return st;
    return c->in->shape->rank - c->result == 2 ? stats(c, true) : TD_OK;
}

static td_status_t results_backward(call_t *c, bool eight_bit) {
    td_attention_desc_t *d = c->d;
    const int64_t *q = d->arrays[TD_ATT_Q].dims, *k = d->arrays[TD_ATT_K].dims, *v = d->arrays[TD_ATT_V].dims,
                  *b = d->arrays[TD_ATT_BIAS].dims;
    td_status_t st;
    if ((st = in_order(c, TD_ATT_DQ, "dQ", true)) || (st = expect(c, TD_ATT_DQ, "dQ", q[0], q[1], q[2], q[3])) ||
        (st = in_order(c, TD_ATT_DK, "dK", true)) || (st = expect(c, TD_ATT_DK, "dK", k[0], k[1], k[2], k[3])) ||
        (st = in_order(c, TD_ATT_DV, "dV", true)) || (st = expect(c, TD_ATT_DV, "dV", v[0], v[1], v[2], v[3])))
        return st;
    if (eight_bit)
        return scalars(c, true, (const int[]){TD_ATT_AMAX_DQ, TD_ATT_AMAX_DK, TD_ATT_AMAX_DV, TD_ATT_AMAX_DP}, 4);
    if (c->in->shape->rank - c->result < 2) return TD_OK;
    if (!c->bias) return td_fail(c->err, TD_MISMATCH, "attention: a bias gradient without a bias");
    if ((st = in_order(c, TD_ATT_DBIAS, "dbias", true))) return st;
    return expect(c, TD_ATT_DBIAS, "dbias", b[0], b[1], b[2], b[3]);
}

static td_status_t backward(call_t *c, bool eight_bit) {
    td_attention_desc_t *d = c->d;
    td_status_t st;
    if ((st = operand(c, TD_ATT_Q, "Q", "bmm1_grad_gemm1_dot_dimension_numbers", false, false)) ||
        (st = operand(c, TD_ATT_K, "K", "bmm1_grad_gemm2_dot_dimension_numbers", false, false)) ||
        (st = operand(c, TD_ATT_V, "V", "bmm2_grad_gemm2_dot_dimension_numbers", false, true)) || (st = sizes(c)))
        return st;
    if (!eight_bit && (st = stats(c, false))) return st;
    if (eight_bit && (st = operand(c, TD_ATT_O, "O", "bmm2_grad_gemm1_dot_dimension_numbers", false, false))) return st;
    if ((st = operand(c, TD_ATT_DO, "dO", "bmm2_grad_gemm1_dot_dimension_numbers", false, false))) return st;
    if (eight_bit && (st = stats(c, false))) return st;
    if (c->bias && (st = bias(c))) return st;
    if (!eight_bit && (st = operand(c, TD_ATT_O, "O", "bmm2_grad_gemm1_dot_dimension_numbers", false, false)))
        return st;
    if ((st = lists(c))) return st;
    if (eight_bit && (st = scalars(c, false,
                                   (const int[]){TD_ATT_DESCALE_Q, TD_ATT_DESCALE_K, TD_ATT_DESCALE_V, TD_ATT_DESCALE_O,
                                                 TD_ATT_DESCALE_DO, TD_ATT_DESCALE_S, TD_ATT_DESCALE_DP, TD_ATT_SCALE_S,
                                                 TD_ATT_SCALE_DQ, TD_ATT_SCALE_DK, TD_ATT_SCALE_DV, TD_ATT_SCALE_DP},
                                   12)))
        return st;
    int64_t b = d->arrays[TD_ATT_Q].dims[0];
    if ((st = expect(c, TD_ATT_DO, "dO", b, d->heads, d->q_tokens, d->v_depth)) ||
        (st = expect(c, TD_ATT_O, "O", b, d->heads, d->q_tokens, d->v_depth))) return st;
    return results_backward(c, eight_bit);
}

/* One offset serves Q, O and their gradients (K, V and theirs), so tokens must be as far apart in each. */
static td_status_t packed(call_t *c) {
    static const int arrays[8] = {TD_ATT_Q, TD_ATT_O, TD_ATT_DO, TD_ATT_DQ, TD_ATT_K, TD_ATT_V, TD_ATT_DK, TD_ATT_DV};
    const td_attention_array_t *a = c->d->arrays;
    for (int i = 0; i < 8 && c->segments > 1; i++)
        if (a[arrays[i]].buffer && a[arrays[i]].strides[2] != a[i < 4 ? TD_ATT_Q : TD_ATT_K].strides[2])
            return td_fail(c->err, TD_UNSUPPORTED, "attention: packed sequences with different token strides");
    return TD_OK;
}

static td_status_t settings(call_t *c) {
    const json_t *mask = json_object_get(c->config, "mask_type");
    const char *m = json_is_string(mask) ? json_string_value(mask) : "NO_MASK";
    td_attention_desc_t *d = c->d;
    d->scale = number(json_object_get(c->config, "fmha_scale"), 0);
    d->window = integer(json_object_get(c->config, "sliding_window_length"));
    c->segments = integer(json_object_get(c->config, "max_seg_per_batch"));
    c->paged = json_is_true(json_object_get(c->config, "is_paged_attention"));
    if (c->segments < 1) c->segments = 1;
    if (d->window < 0) d->window = 0;
    d->causal = !strcmp(m, "CAUSAL") || !strcmp(m, "PADDING_CAUSAL");
    c->padding = !strcmp(m, "PADDING") || !strcmp(m, "PADDING_CAUSAL");
    if (!d->causal && !c->padding && strcmp(m, "NO_MASK"))
        return td_fail(c->err, TD_UNSUPPORTED, "attention with mask %.40s", m);
    if (number(json_object_get(c->config, "dropout_rate"), 0) > 0)
        return td_fail(c->err, TD_UNSUPPORTED, "attention with dropout: its random numbers are the GPU library's own");
    if (c->in->n_called)
        return td_fail(c->err, TD_UNSUPPORTED, "attention with a score function ('%s')", c->in->called[0]->name);
    if (c->segments > 1 && c->paged)
        return td_fail(c->err, TD_UNSUPPORTED, "attention with both packed sequences and pages");
    return TD_OK;
}

td_status_t td_attention_describe(const td_hlo_instr_t *instr, td_attention_desc_t *out, td_err_t *err) {
    const struct target *t = find(instr->custom_call_target ? instr->custom_call_target : "");
    td_attention_desc_t d = {0};
    call_t c = {.in = instr, .d = &d, .err = err};
    if (!t || instr->shape->type != TD_TUPLE)
        return td_fail(err, TD_UNSUPPORTED, "'%s' is no attention with a result tuple", instr->name);
    json_t *root = json_loads(instr->backend_config, 0, NULL);
    c.config = json_object_get(root, "cudnn_fmha_backend_config");
    c.bias = t->bias, d.backward = t->backward, d.eight_bit = t->eight_bit;
    td_status_t st = json_is_object(c.config)
                         ? settings(&c)
                         : td_fail(err, TD_MALFORMED, "attention '%s' has no cudnn_fmha_backend_config", instr->name);
    if (!st) st = t->backward ? backward(&c, t->eight_bit) : forward(&c, t->eight_bit);
    if (!st) st = packed(&c);
    if (!st && (c.operand != instr->n_operands || instr->shape->rank - c.result > 1))
        st = td_fail(err, TD_UNSUPPORTED, "attention: %u of %u operands and %u of %u results understood", c.operand,
                     instr->n_operands, c.result, instr->shape->rank);
    json_decref(root);
    if (!st) *out = d;
    return st;
}
