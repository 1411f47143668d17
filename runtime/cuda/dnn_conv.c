/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions through cuDNN. One operation, and for fused ones: + side input, + bias, activation, as XLA builds them
 * (xla/stream_executor/cuda/cuda_dnn.cc). Features in blocks are vectors of cuDNN's, one spatial dimension is two, the
 * second of size 1. */
#include <stdio.h>
#include <string.h>

#include "runtime/cuda/dnn.h"

enum { SPATIAL_LEAST = 2, SPATIAL_MOST = 3, X = 0, W = 1, Y = 2, EXTRA = 3, VECTOR_REORDERED = 32 };
#define LL(x) ((long long)(x))

static int shape_text(char *to, size_t room, const td_conv_desc_t *d, const td_conv_array_t *a) {
    int n = snprintf(to, room, "%s[%lld,%lld", td_type_name(a->type), LL(a->outer), LL(a->feature));
    for (uint32_t i = 0; i < d->n && n > 0 && (size_t)n < room; i++)
        n += snprintf(to + n, room - (size_t)n, ",%lld", LL(a->spatial[i]));
    if (n > 0 && (size_t)n < room) n += snprintf(to + n, room - (size_t)n, "]");
    return n > 0 && (size_t)n < room ? n : (int)room - 1;
}
static void describe(td_dnn_kernel_t *k, const td_conv_desc_t *d) {
    static const char *const kinds[] = {"convolution", "gradient of a filter", "gradient of an input"};
    char x[60], w[60];
    shape_text(x, sizeof x, d, &d->x);
    shape_text(w, sizeof w, d, &d->w);
    if (d->kind == TD_CONV_REORDER)
        snprintf(k->text, sizeof k->text, "reordering of a filter %s", w);
    else
        snprintf(k->text, sizeof k->text, "%s, %s by %s", kinds[d->kind], x, w);
}

/* ---- what cuDNN's convolutions are ---- */
static td_status_t check(const td_dnn_kernel_t *k, const td_conv_desc_t *d, td_err_t *err) {
    if (d->n > SPATIAL_MOST)
        return td_fail(err, TD_UNSUPPORTED, "%s: cuDNN has up to %d spatial dimensions", k->text, SPATIAL_MOST);
    if (d->batch_groups > 1) return td_fail(err, TD_UNSUPPORTED, "%s: cuDNN has no batch groups", k->text);
    for (uint32_t i = 0; i < d->n; i++) {
        const td_window_dim_t *w = &d->window[i];
        if (w->base_dilation != 1)
            return td_fail(err, TD_UNSUPPORTED,
                           "%s: dimension %u has gaps in its input (dilation %lld); cuDNN has none", k->text, i,
                           LL(w->base_dilation));
        if (w->pad_low < 0 || w->pad_high < 0)
            return td_fail(err, TD_UNSUPPORTED, "%s: dimension %u is padded by %lld and %lld; cuDNN cuts nothing off",
                           k->text, i, LL(w->pad_low), LL(w->pad_high));
        if (w->reversal != d->window[0].reversal)
            return td_fail(err, TD_UNSUPPORTED, "%s: some dimensions of the window are reversed, others not", k->text);
    }
    return TD_OK;
}

static td_type_t sum_type(td_type_t x) { return x == TD_F64 ? TD_F64 : td_type_is_integer(x) ? TD_S32 : TD_F32; }
static td_type_t activation_type(td_type_t x) { return x == TD_F64 ? TD_F64 : TD_F32; }

static uint32_t spatial_dims(const td_conv_desc_t *d) { return d->n > SPATIAL_LEAST ? d->n : SPATIAL_LEAST; }

static td_dnn_tensor_t tensor_of(const td_conv_desc_t *d, const td_conv_array_t *a, td_type_t type, int32_t from) {
    td_dnn_tensor_t t = {.type = type, .n = 2 + spatial_dims(d), .vector = a->vector, .from = from};
    t.dims[0] = a->outer, t.dims[1] = a->feature / a->vector;
    t.strides[0] = a->outer_stride / a->vector, t.strides[1] = a->feature_stride / a->vector;
    for (uint32_t i = 0; i < spatial_dims(d); i++) {
        int64_t step = a->feature_stride == 1 ? a->feature : 1; /* of dimensions that are not there */
        if (i) step = t.strides[i + 1];
        t.dims[2 + i] = i < d->n ? a->spatial[i] : 1;
        t.strides[2 + i] = i < d->n ? a->spatial_stride[i] / a->vector : step;
    }
    return t;
}

/* One value for each feature; said to lie as the output does. */
static td_dnn_tensor_t bias_of(const td_conv_desc_t *d, int32_t from) {
    td_dnn_tensor_t t = {.type = d->bias, .n = 2 + spatial_dims(d), .vector = d->y.vector, .from = from};
    int64_t blocks = d->y.feature / d->y.vector;
    bool last = d->y.feature_stride == 1;
    for (uint32_t i = 0; i < t.n; i++) {
        t.dims[i] = i == 1 ? blocks : 1;
        t.strides[i] = i == 0 || (last && i != 1) ? blocks : 1;
    }
    t.reordered = d->reordered;
    return t;
}

/* ---- operations ---- */
static cudnnBackendDescriptor_t window(td_dnn_build_t *b, const td_conv_desc_t *d) {
    int64_t n = spatial_dims(d), stride[SPATIAL_MOST], dilation[SPATIAL_MOST], low[SPATIAL_MOST], high[SPATIAL_MOST];
    int mode = d->n && d->window[0].reversal ? CUDNN_CONVOLUTION : CUDNN_CROSS_CORRELATION, type = 0;
    (void)td_dnn_type(sum_type(d->x.type), &type);
    for (uint32_t i = 0; i < n; i++) {
        bool real = i < d->n;
        stride[i] = real ? d->window[i].stride : 1, dilation[i] = real ? d->window[i].window_dilation : 1;
        low[i] = real ? d->window[i].pad_low : 0, high[i] = real ? d->window[i].pad_high : 0;
    }
    cudnnBackendDescriptor_t c = td_dnn_make(b, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    td_dnn_set(b, c, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    td_dnn_set(b, c, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    td_dnn_set(b, c, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &n);
    td_dnn_set(b, c, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, n, stride);
    td_dnn_set(b, c, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, n, dilation);
    td_dnn_set(b, c, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, n, low);
    td_dnn_set(b, c, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, n, high);
    td_dnn_finish(b, c, "convolution");
    return c;
}

static void convolve(td_dnn_build_t *b, const td_conv_desc_t *d, cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t w,
                     cudnnBackendDescriptor_t y) {
    static const struct {
        int op, alpha, beta, window, x, w, y;
    } rows[] = {
        [TD_CONV_FORWARD] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
        [TD_CONV_BACKWARD_FILTER] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
                                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY},
        [TD_CONV_BACKWARD_DATA] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
    };
    bool f64 = d->x.type == TD_F64;
    cudnnBackendDescriptor_t win = window(b, d), op = td_dnn_make(b, rows[d->kind].op);
    td_dnn_set_desc(b, op, rows[d->kind].window, win);
    td_dnn_set_desc(b, op, rows[d->kind].x, x);
    td_dnn_set_desc(b, op, rows[d->kind].w, w);
    td_dnn_set_desc(b, op, rows[d->kind].y, y);
    td_dnn_set_factor(b, op, rows[d->kind].alpha, f64, 1);
    td_dnn_set_factor(b, op, rows[d->kind].beta, f64, 0);
    td_dnn_op(b, op, "convolution operation");
}

/* y = alpha1 * x + alpha2 * other */
static void add(td_dnn_build_t *b, const td_conv_desc_t *d, cudnnBackendDescriptor_t x, double alpha1,
                cudnnBackendDescriptor_t other, double alpha2, cudnnBackendDescriptor_t y) {
    const td_dnn_pointwise_t p = {.mode = CUDNN_POINTWISE_ADD,
                                  .type = activation_type(d->x.type),
                                  .x = x,
                                  .b = other,
                                  .y = y,
                                  .scaled = true,
                                  .alpha1 = alpha1,
                                  .alpha2 = alpha2};
    td_dnn_pointwise(b, &p);
}

static bool activation_mode(td_activation_t a, int *out) {
    switch (a) {
    case TD_ACT_RELU:
    case TD_ACT_RELU6:
    case TD_ACT_LEAKY_RELU: *out = CUDNN_POINTWISE_RELU_FWD; return true;
    case TD_ACT_ELU: *out = CUDNN_POINTWISE_ELU_FWD; return true;
    case TD_ACT_SIGMOID: *out = CUDNN_POINTWISE_SIGMOID_FWD; return true;
    case TD_ACT_TANH: *out = CUDNN_POINTWISE_TANH_FWD; return true;
    case TD_ACT_GELU: *out = CUDNN_POINTWISE_GELU_FWD; return true;
    default: return false;
    }
}
static void activate(td_dnn_build_t *b, const td_conv_desc_t *d, cudnnBackendDescriptor_t x,
                     cudnnBackendDescriptor_t y) {
    td_dnn_pointwise_t p = {.type = activation_type(d->x.type),
                            .x = x,
                            .y = y,
                            .upper = 6,
                            .slope = d->leaky_alpha,
                            .has_upper = d->activation == TD_ACT_RELU6,
                            .has_slope = d->activation == TD_ACT_LEAKY_RELU};
    if (activation_mode(d->activation, &p.mode))
        td_dnn_pointwise(b, &p);
    else if (!b->st)
        b->st = td_fail(b->err, TD_UNSUPPORTED, "%s: activation %d", b->k->text, (int)d->activation);
}

/* Without a side input a scale needs one all the same: the output, times 0, which is then not read. */
static void fused(td_dnn_build_t *b, const td_conv_desc_t *d, cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t w,
                  cudnnBackendDescriptor_t y) {
    td_type_t between = activation_type(d->x.type);
    td_dnn_tensor_t conv = tensor_of(d, &d->y, sum_type(d->x.type), TD_DNN_VIRTUAL);
    td_dnn_tensor_t later = tensor_of(d, &d->y, between, TD_DNN_VIRTUAL), bias = bias_of(d, EXTRA);
    td_dnn_tensor_t side = tensor_of(d, &d->y, d->y.type, d->has_side ? EXTRA + d->has_bias : Y);
    cudnnBackendDescriptor_t at = td_dnn_tensor(b, &conv), next = NULL;
    convolve(b, d, x, w, at);
    bool plain = d->activation == TD_ACT_NONE;
    if (d->scale != 1 || d->has_side) {
        cudnnBackendDescriptor_t z = td_dnn_tensor(b, &side);
        next = plain && !d->has_bias ? y : td_dnn_tensor(b, &later);
        add(b, d, at, d->scale, z, d->has_side ? d->side_scale : 0, next);
        at = next;
    }
    if (d->has_bias) {
        cudnnBackendDescriptor_t z = td_dnn_tensor(b, &bias);
        next = plain ? y : td_dnn_tensor(b, &later);
        add(b, d, at, 1, z, 1, next);
        at = next;
    }
    if (!plain) activate(b, d, at, y);
}

static void build(td_dnn_build_t *b, const td_conv_desc_t *d) {
    td_dnn_tensor_t x = tensor_of(d, &d->x, d->x.type, X), w = tensor_of(d, &d->w, d->w.type, W),
                    y = tensor_of(d, &d->y, d->y.type, Y);
    td_dnn_wish_t wish = {.has_engine = d->has_algorithm,
                          .engine = d->algorithm,
                          .n_knobs = d->n_knobs,
                          .exact = d->exact && d->x.type == TD_F32};
    w.reordered = d->reordered;
    memcpy(wish.knobs, d->knobs, sizeof wish.knobs);
    cudnnBackendDescriptor_t tx = td_dnn_tensor(b, &x), tw = td_dnn_tensor(b, &w), ty = td_dnn_tensor(b, &y);
    if (d->fused && (d->has_bias || d->has_side || d->scale != 1 || d->activation != TD_ACT_NONE))
        fused(b, d, tx, tw, ty);
    else
        convolve(b, d, tx, tw, ty);
    td_dnn_plan(b, &wish);
}

/* ---- reordering of int8x32 filters ---- */
static td_status_t launch_reorder(td_stream_t *s, const td_kernel_t *base, void *const *bufs, uint32_t n, void *scratch,
                                  td_err_t *err) {
    const td_dnn_kernel_t *k = (const td_dnn_kernel_t *)base;
    td_dnn_t *dnn = k->dnn;
    bool bias = n == 4;
    (void)scratch;
    if (n != k->n_bufs) return td_fail(err, TD_INTERNAL, "%s: %u buffers instead of %u", k->text, n, k->n_bufs);
    pthread_mutex_lock(&dnn->lock);
    td_status_t st =
        td_dnn_check(k, dnn->cudnnSetStream(dnn->handle, ((td_cuda_stream_t *)s)->handle), "cudnnSetStream", err);
    if (!st)
        st = td_dnn_check(k,
                          dnn->cudnnReorderFilterAndBias(dnn->handle, k->filter, CUDNN_DEFAULT_REORDER, bufs[0],
                                                         bufs[1], bias, bias ? bufs[2] : NULL, bias ? bufs[3] : NULL),
                          "cudnnReorderFilterAndBias", err);
    pthread_mutex_unlock(&dnn->lock);
    return st;
}

static td_status_t reorder(td_dnn_kernel_t *k, const td_conv_desc_t *d, td_err_t *err) {
    const td_dnn_t *dnn = k->dnn;
    const int64_t sizes[4] = {d->w.outer, d->w.feature, d->w.spatial[0], d->w.spatial[1]};
    int dims[4];
    if (!dnn->cudnnReorderFilterAndBias || !dnn->cudnnCreateFilterDescriptor || !dnn->cudnnSetFilterNdDescriptor ||
        !dnn->cudnnDestroyFilterDescriptor)
        return td_fail(err, TD_UNSUPPORTED, "%s: this cuDNN has no cudnnReorderFilterAndBias", k->text);
    for (int i = 0; i < 4; i++) {
        if (sizes[i] < 1 || sizes[i] > INT32_MAX)
            return td_fail(err, TD_UNSUPPORTED, "%s: a filter of size %lld in dimension %d", k->text, LL(sizes[i]), i);
        dims[i] = (int)sizes[i];
    }
    td_status_t st = td_dnn_check(k, dnn->cudnnCreateFilterDescriptor(&k->filter), "cudnnCreateFilterDescriptor", err);
    if (!st)
        st = td_dnn_check(
            k, dnn->cudnnSetFilterNdDescriptor(k->filter, CUDNN_DATA_INT8x32, CUDNN_TENSOR_NCHW_VECT_C, 4, dims),
            "cudnnSetFilterNdDescriptor", err);
    k->base.launch = launch_reorder;
    k->n_bufs = d->has_bias ? 4 : 2;
    return st;
}

/* ---- lowering ---- */
static td_status_t prepare(td_dnn_kernel_t *k, const td_conv_desc_t *d, td_err_t *err) {
    const td_conv_array_t *const arrays[] = {&d->x, &d->w, &d->y};
    const uint32_t result = d->kind == TD_CONV_BACKWARD_DATA ? X : d->kind == TD_CONV_BACKWARD_FILTER ? W : Y;
    td_dnn_build_t b = {k, err, TD_OK};
    describe(k, d);
    if (d->kind == TD_CONV_REORDER) return reorder(k, d, err);
    td_status_t st = check(k, d, err);
    if (st) return st;
    k->n_bufs = 3u + d->has_bias + d->has_side;
    if (!arrays[result]->count) return TD_OK;
    if (!d->x.count || !d->w.count || !d->y.count) { /* sums of nothing */
        if (d->fused) return td_fail(err, TD_UNSUPPORTED, "%s: sums of nothing, and more to do with them", k->text);
        k->fill_buffer = result;
        k->fill = (uint64_t)arrays[result]->count * td_type_bytes(arrays[result]->type);
        return TD_OK;
    }
    build(&b, d);
    return b.st;
}

td_status_t td_cuda_conv_lower(td_cuda_device_t *d, const void *desc, td_arena_t *arena, td_kernel_t **out,
                               uint64_t *out_scratch, td_err_t *err) {
    td_dnn_kernel_t *k = NULL;
    td_status_t st = td_dnn_new(d, "convolutions", arena, &k, err);
    if (!st) st = prepare(k, desc, err);
    if (st) {
        if (k) td_dnn_release(&k->base);
        return st;
    }
    *out_scratch = td_dnn_scratch(k);
    *out = &k->base;
    return TD_OK;
}
