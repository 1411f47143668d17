/* SPDX-License-Identifier: Apache-2.0 */
/* What cuDNN's graphs mean: one convolution or gradient; a convolution, then additions and an activation; one layer
 * norm or its gradient; attention (lib_dnn_attention.c). Sizes that do not fit each other are faults, graphs of another
 * form are not supported. */
#include "runtime/conv_desc.h"
#include "tests/fakecuda/lib_dnn.h"

#define UNKNOWN(why) dn_refuse(CUDNN_STATUS_NOT_SUPPORTED, why)
enum { X, W, Y, CONV_BUFFERS };

static td_type_t type_of(int64_t t) {
    switch (t) {
    case CUDNN_DATA_FLOAT: return TD_F32;
    case CUDNN_DATA_DOUBLE: return TD_F64;
    case CUDNN_DATA_HALF: return TD_F16;
    case CUDNN_DATA_BFLOAT16: return TD_BF16;
    case CUDNN_DATA_INT8: return TD_S8;
    case CUDNN_DATA_INT32: return TD_S32;
    case CUDNN_DATA_BOOLEAN: return TD_PRED;
    default: return TD_TYPE_INVALID;
    }
}
const dn_desc_t *dn_tensor(const dn_desc_t *op, int name) {
    const void *h = dn_ptr(op, name);
    return h ? dn_get(h, CUDNN_BACKEND_TENSOR_DESCRIPTOR) : NULL;
}
bool dn_virtual(const dn_desc_t *t) { return dn_int(t, CUDNN_ATTR_TENSOR_IS_VIRTUAL, 0) & 1; }
td_type_t dn_type(const dn_desc_t *t) { return type_of(dn_int(t, CUDNN_ATTR_TENSOR_DATA_TYPE, -1)); }
static int64_t vector_of(const dn_desc_t *t) { return dn_int(t, CUDNN_ATTR_TENSOR_VECTOR_COUNT, 1); }
int64_t dn_dim(const dn_desc_t *t, uint32_t i) { return (int64_t)dn_attr(t, CUDNN_ATTR_TENSOR_DIMENSIONS)->v[i]; }
int64_t dn_stride(const dn_desc_t *t, uint32_t i) { return (int64_t)dn_attr(t, CUDNN_ATTR_TENSOR_STRIDES)->v[i]; }
uint32_t dn_rank(const dn_desc_t *t) { return (uint32_t)dn_attr(t, CUDNN_ATTR_TENSOR_DIMENSIONS)->n; }
static bool reordered(const dn_desc_t *t) {
    return dn_int(t, CUDNN_ATTR_TENSOR_REORDERING_MODE, 0) == CUDNN_TENSOR_REORDERING_INT8x32;
}

static int64_t elements(const dn_desc_t *t) { /* from the first to the last, with gaps */
    int64_t n = 1;
    for (uint32_t i = 0; i < dn_rank(t); i++) n += (dn_dim(t, i) - 1) * dn_stride(t, i);
    return n * vector_of(t);
}
void dn_buffer(dn_work_t *w, const dn_desc_t *t, bool write) {
    w->b[w->n++] = (dn_buffer_t){dn_int(t, CUDNN_ATTR_TENSOR_UNIQUE_ID, 0),
                                 (uint64_t)elements(t) * td_type_bytes(dn_type(t)), write};
}

bool dn_by_value(dn_work_t *w, const dn_desc_t *t, td_type_t type, dn_meaning_t meaning) {
    if (!t || !(dn_int(t, CUDNN_ATTR_TENSOR_IS_BY_VALUE, 0) & 1) || dn_type(t) != type || elements(t) != 1 ||
        w->n_numbers == DN_NUMBERS)
        return false;
    w->numbers[w->n_numbers++] = (dn_number_t){dn_int(t, CUDNN_ATTR_TENSOR_UNIQUE_ID, 0), meaning};
    return true;
}

/* ---- convolutions ---- */
static cudnnStatus_t array_of(const dn_desc_t *t, td_conv_array_t *a, uint32_t n) {
    int64_t v = vector_of(t);
    if (dn_rank(t) != n + 2) return dn_fault("dimensions of a tensor, of the convolution", dn_rank(t), n);
    if (v > 1 && dn_int(t, CUDNN_ATTR_TENSOR_VECTORIZED_DIMENSION, -1) != 1)
        return dn_fault("vectors along a dimension", v, -1);
    *a = (td_conv_array_t){.type = dn_type(t),
                           .outer = dn_dim(t, 0),
                           .outer_stride = dn_stride(t, 0) * v,
                           .feature = dn_dim(t, 1) * v,
                           .feature_stride = dn_stride(t, 1) * v,
                           .vector = v,
                           .vector_stride = 1,
                           .count = v};
    for (uint32_t i = 0; i < n; i++) a->spatial[i] = dn_dim(t, 2 + i), a->spatial_stride[i] = dn_stride(t, 2 + i) * v;
    for (uint32_t i = 0; i < n + 2; i++) a->count *= dn_dim(t, i);
    return a->type == TD_TYPE_INVALID ? UNKNOWN("data type") : 0;
}

static cudnnStatus_t window_of(const dn_desc_t *c, td_conv_desc_t *d) {
    const dn_attr_t *steps = dn_attr(c, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES),
                    *gaps = dn_attr(c, CUDNN_ATTR_CONVOLUTION_DILATIONS);
    const dn_attr_t *low = dn_attr(c, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS),
                    *high = dn_attr(c, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
    int64_t n = dn_int(c, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 0);
    if (n < 2 || n > 3) return UNKNOWN("spatial dimensions");
    if (steps->n != n || gaps->n != n || low->n != n || high->n != n)
        return dn_fault("values for each spatial dimension", n, steps->n);
    d->n = (uint32_t)n;
    for (uint32_t i = 0; i < d->n; i++)
        d->window[i] =
            (td_window_dim_t){.stride = (int64_t)steps->v[i],
                              .window_dilation = (int64_t)gaps->v[i],
                              .base_dilation = 1,
                              .pad_low = (int64_t)low->v[i],
                              .pad_high = (int64_t)high->v[i],
                              .reversal = dn_int(c, CUDNN_ATTR_CONVOLUTION_CONV_MODE, -1) == CUDNN_CONVOLUTION};
    return CUDNN_STATUS_SUCCESS;
}

static const struct {
    int op, alpha, beta, window, t[3];
    td_conv_kind_t kind;
} forms[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
     {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
     TD_CONV_FORWARD},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
     TD_CONV_BACKWARD_DATA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY},
     TD_CONV_BACKWARD_FILTER},
};

/* Sums of f16 in f32, of f64 in f64, of s8 in s32; inputs of one type. */
static cudnnStatus_t types_ok(const td_conv_desc_t *d, const dn_desc_t *c, bool is_fused) {
    td_type_t sums = type_of(dn_int(c, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, -1)), x = d->x.type, y = d->y.type;
    if (sums != (x == TD_F64 ? TD_F64 : x == TD_S8 ? TD_S32 : TD_F32))
        return dn_fault("types of inputs and sums", x, sums);
    if (d->w.type != x) return dn_fault("types of input and filter", x, d->w.type);
    if (x == TD_S8)
        return d->kind == TD_CONV_FORWARD && (is_fused || y == TD_S8 || y == TD_F32) ? 0
                                                                                     : UNKNOWN("a convolution of s8");
    return is_fused || y == x ? 0 : dn_fault("types of input and output", x, y);
}

static cudnnStatus_t convolution(const dn_desc_t *op, td_conv_desc_t *d, const dn_desc_t *t[3], bool is_fused) {
    size_t f = 0;
    td_err_t err = {0};
    cudnnStatus_t r = 0;
    while (f < sizeof forms / sizeof *forms && forms[f].op != op->kind) f++;
    if (f == sizeof forms / sizeof *forms) return UNKNOWN("the first operation is no convolution");
    const dn_desc_t *c = dn_get(dn_ptr(op, forms[f].window), CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    if (!c) return CUDNN_STATUS_BAD_PARAM;
    if (dn_real(op, forms[f].alpha, 0) != 1 || dn_real(op, forms[f].beta, 1) != 0)
        return UNKNOWN("a scaled convolution");
    *d = (td_conv_desc_t){.kind = forms[f].kind, .batch_groups = 1, .scale = 1, .saturate = true};
    td_conv_array_t *const arrays[] = {&d->x, &d->w, &d->y};
    if ((r = window_of(c, d))) return r;
    for (int i = 0; i < 3; i++) {
        if (!(t[i] = dn_tensor(op, forms[f].t[i]))) return CUDNN_STATUS_BAD_PARAM;
        if ((r = array_of(t[i], arrays[i], d->n))) return r;
    }
    for (uint32_t i = 0; i < d->n; i++) d->window[i].size = d->w.spatial[i];
    d->groups = d->w.feature ? d->x.feature / d->w.feature : 1;
    d->reordered = reordered(t[W]);
    if (td_conv_check(d, &err)) return dn_fault(err.text, 0, 0);
    return types_ok(d, c, is_fused);
}

/* One value for each feature? */
static bool is_bias(const dn_desc_t *b, const td_conv_desc_t *d) {
    for (uint32_t i = 0; i < dn_rank(b); i++)
        if (dn_dim(b, i) != (i == 1 ? d->y.feature / d->y.vector : 1)) return false;
    return dn_stride(b, 1) == 1 && vector_of(b) == d->y.vector;
}
static bool like(const dn_desc_t *a, const dn_desc_t *b) {
    if (dn_rank(a) != dn_rank(b) || vector_of(a) != vector_of(b)) return false;
    for (uint32_t i = 0; i < dn_rank(a); i++)
        if (dn_dim(a, i) != dn_dim(b, i) || dn_stride(a, i) != dn_stride(b, i)) return false;
    return true;
}

static cudnnStatus_t addition(const dn_desc_t *op, td_conv_desc_t *d, const dn_desc_t *y, const dn_desc_t **bias,
                              const dn_desc_t **side) {
    const dn_desc_t *b = dn_tensor(op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    double one = dn_real(op, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, 1),
           two = dn_real(op, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, 1);
    if (!b) return dn_fault("an addition of one thing", 0, 0);
    if (dn_virtual(b)) return UNKNOWN("a graph that is no chain");
    if (is_bias(b, d) && one == 1 && two == 1 && !*bias) {
        *bias = b, d->has_bias = true, d->bias = dn_type(b);
        return reordered(b) == d->reordered ? 0 : dn_fault("filter and bias are reordered", d->reordered, reordered(b));
    }
    if (*side || *bias) return UNKNOWN("additions in another order");
    if (!like(b, y)) return dn_fault("a side input that lies otherwise than the output", dn_dim(b, 1), dn_dim(y, 1));
    d->scale = one;
    if (two == 0) return 0; /* not read */
    *side = b, d->has_side = true, d->side = dn_type(b), d->side_scale = two;
    return 0;
}

static cudnnStatus_t activation(const dn_desc_t *p, td_conv_desc_t *d) {
    double most = dn_real(p, CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, -1),
           slope = dn_real(p, CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, 0);
    if (d->activation != TD_ACT_NONE) return UNKNOWN("two activations");
    d->leaky_alpha = slope;
    switch (dn_int(p, CUDNN_ATTR_POINTWISE_MODE, -1)) {
    case CUDNN_POINTWISE_RELU_FWD:
        if (most >= 0 && most != 6) return UNKNOWN("a clip other than 6");
        d->activation = most == 6 ? TD_ACT_RELU6 : slope != 0 ? TD_ACT_LEAKY_RELU : TD_ACT_RELU;
        return 0;
    case CUDNN_POINTWISE_ELU_FWD: d->activation = TD_ACT_ELU; return 0;
    case CUDNN_POINTWISE_SIGMOID_FWD: d->activation = TD_ACT_SIGMOID; return 0;
    case CUDNN_POINTWISE_TANH_FWD: d->activation = TD_ACT_TANH; return 0;
    case CUDNN_POINTWISE_GELU_FWD: d->activation = TD_ACT_GELU; return 0;
    default: return UNKNOWN("a pointwise operation");
    }
}

/* Each operation takes what the one before makes, which lies as the output does. */
static cudnnStatus_t chain(const dn_attr_t *ops, dn_work_t *w) {
    const dn_desc_t *t[CONV_BUFFERS] = {NULL}, *bias = NULL, *side = NULL, *at = NULL, *out = NULL;
    td_conv_desc_t *d = &w->d.conv;
    cudnnStatus_t r = convolution(dn_get((const void *)(uintptr_t)ops->v[0], -1), d, t, ops->n > 1);
    if (r) return r;
    for (int64_t i = 1; i < ops->n; i++) {
        const dn_desc_t *op = dn_get((const void *)(uintptr_t)ops->v[i], CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
        const dn_desc_t *p =
            op ? dn_get(dn_ptr(op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR), CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
               : NULL;
        if (!p || d->kind != TD_CONV_FORWARD) return CUDNN_STATUS_BAD_PARAM;
        at = out ? out : t[Y];
        if (dn_tensor(op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC) != at || !dn_virtual(at))
            return UNKNOWN("a graph that is no chain");
        out = dn_tensor(op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
        if (!out || !like(out, t[Y])) return dn_fault("results that lie otherwise than the convolution's", i, ops->n);
        d->fused = true;
        bool adds = dn_int(p, CUDNN_ATTR_POINTWISE_MODE, -1) == CUDNN_POINTWISE_ADD;
        if ((r = adds ? addition(op, d, out, &bias, &side) : activation(p, d))) return r;
    }
    if (out) d->y.type = dn_type(out);
    const dn_desc_t *const result = out ? out : t[Y];
    if (dn_virtual(result) || dn_virtual(t[X]) || dn_virtual(t[W]))
        return dn_fault("an input or output that is virtual", 0, 0);
    const td_conv_kind_t k = d->kind;
    w->op = TD_OP_CONV;
    dn_buffer(w, t[X], k == TD_CONV_BACKWARD_DATA), dn_buffer(w, t[W], k == TD_CONV_BACKWARD_FILTER),
        dn_buffer(w, result, k == TD_CONV_FORWARD);
    if (bias) dn_buffer(w, bias, false);
    if (side) dn_buffer(w, side, false);
    return 0;
}

/* ---- norms ---- */
static bool shaped(const dn_desc_t *t, int64_t rows, int64_t cols) {
    return t && dn_rank(t) == 4 && dn_dim(t, 0) == rows && dn_dim(t, 1) == cols && dn_dim(t, 2) == 1 &&
           dn_dim(t, 3) == 1 && (rows == 1 || dn_stride(t, 0) == cols) && (cols == 1 || dn_stride(t, 1) == 1);
}
static cudnnStatus_t norm(const dn_desc_t *op, dn_work_t *w) {
    enum { ROW = 1, COL = 2 };
    static const struct {
        int name, shape;
        bool write, training;
    } fwd[] = {{CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, ROW | COL, false, false},
               {CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, COL, false, false},
               {CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, COL, false, false},
               {CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, ROW | COL, true, false},
               {CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, ROW, true, true},
               {CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, ROW, true, true}},
      bwd[] = {{CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, ROW | COL, false, false},
               {CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, COL, false, false},
               {CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC, ROW | COL, false, false},
               {CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, ROW, false, false},
               {CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, ROW, false, false},
               {CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, ROW | COL, true, false},
               {CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, COL, true, false},
               {CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, COL, true, false}};
    bool back = op->kind == CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR;
    const dn_desc_t *x =
                        dn_tensor(op, back ? CUDNN_ATTR_OPERATION_NORM_BWD_XDESC : CUDNN_ATTR_OPERATION_NORM_FWD_XDESC),
                    *t[8] = {NULL};
    const dn_desc_t *eps =
        dn_tensor(op, back ? CUDNN_ATTR_OPERATION_NORM_BWD_EPSILON_DESC : CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC);
    td_norm_desc_t *d = &w->d.norm;
    if (!x || dn_int(op, back ? CUDNN_ATTR_OPERATION_NORM_BWD_MODE : CUDNN_ATTR_OPERATION_NORM_FWD_MODE, -1) !=
                  CUDNN_LAYER_NORM)
        return UNKNOWN("a norm");
    *d = (td_norm_desc_t){.rows = dn_dim(x, 0),
                          .cols = dn_dim(x, 1),
                          .has_bias = !back,
                          .backward = back,
                          .training =
                              !back && dn_int(op, CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, -1) == CUDNN_NORM_FWD_TRAINING};
    for (int i = 0; i < (back ? 8 : d->training ? 6 : 4); i++) {
        int shape = back ? bwd[i].shape : fwd[i].shape;
        t[i] = dn_tensor(op, back ? bwd[i].name : fwd[i].name);
        if (!shaped(t[i], shape & ROW ? d->rows : 1, shape & COL ? d->cols : 1))
            return dn_fault("shape of a norm's tensor", i, d->rows);
        dn_buffer(w, t[i], back ? bwd[i].write : fwd[i].write);
    }
    if (!dn_by_value(w, eps, TD_F64, DN_EPSILON)) return dn_fault("no epsilon by value", 0, 0);
    w->op = TD_OP_NORM;
    d->x = dn_type(t[0]), d->scale = dn_type(t[1]);
    if (back)
        d->dy = dn_type(t[2]), d->y = dn_type(t[5]), d->dscale = dn_type(t[6]), d->dbias = dn_type(t[7]);
    else
        d->bias = dn_type(t[2]), d->y = dn_type(t[3]);
    if (back) d->bias = d->scale;
    return 0;
}

cudnnStatus_t dn_work(const dn_desc_t *graph, dn_work_t *w) {
    const dn_attr_t *ops = dn_attr(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    const dn_desc_t *first = dn_get((const void *)(uintptr_t)ops->v[0], -1);
    *w = (dn_work_t){0};
    if (!first) return CUDNN_STATUS_BAD_PARAM;
    bool is_norm = first->kind == CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR ||
                   first->kind == CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR;
    if (is_norm) return ops->n == 1 ? norm(first, w) : UNKNOWN("more than a norm");
    if (first->kind == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) return dn_attention(ops, w);
    return chain(ops, w);
}
