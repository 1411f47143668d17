/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptions of convolutions and norms for tests of cuDNN. */
#ifndef TESTS_UNIT_CUDA_DNN_CASE_H
#define TESTS_UNIT_CUDA_DNN_CASE_H

#include <stdlib.h>

#include "runtime/library.h"

typedef enum dnn_order { DNN_FIRST, DNN_LAST } dnn_order_t; /* features before the spatial dimensions, or last */

static inline td_conv_array_t dnn_array(td_type_t type, dnn_order_t order, int64_t outer, int64_t feature, uint32_t n,
                                        const int64_t *spatial, int64_t vector) {
    td_conv_array_t a = {.type = type, .outer = outer, .feature = feature, .vector = vector, .vector_stride = 1};
    int64_t step = vector;
    if (order == DNN_LAST) a.feature_stride = step, step *= feature / vector;
    for (uint32_t i = n; i-- > 0;) a.spatial[i] = spatial[i], a.spatial_stride[i] = step, step *= spatial[i];
    if (order == DNN_FIRST) a.feature_stride = step, step *= feature / vector;
    a.outer_stride = step;
    a.count = step * outer;
    return a;
}

typedef struct dnn_conv {
    td_conv_kind_t kind;
    td_type_t type;
    dnn_order_t order;
    uint32_t n;
    int64_t batch, in, out, size, window, groups, stride, dilation, pad, vector; /* 0: 1, of pad: 0 */
} dnn_conv_t;

static inline td_conv_desc_t dnn_conv(const dnn_conv_t *c) {
    int64_t x[TD_CONV_SPATIAL], w[TD_CONV_SPATIAL], y[TD_CONV_SPATIAL];
    int64_t groups = c->groups ? c->groups : 1, stride = c->stride ? c->stride : 1;
    int64_t dilation = c->dilation ? c->dilation : 1, vector = c->vector ? c->vector : 1;
    td_conv_desc_t d = {.kind = c->kind, .n = c->n, .groups = groups, .batch_groups = 1, .scale = 1, .saturate = true};
    for (uint32_t i = 0; i < c->n; i++) { /* no two sizes are the same */
        x[i] = c->size + i, w[i] = c->window + (i & 1);
        y[i] = (x[i] + 2 * c->pad - (w[i] - 1) * dilation - 1) / stride + 1;
        d.window[i] = (td_window_dim_t){w[i], stride, c->pad, c->pad, dilation, 1, false};
    }
    d.x = dnn_array(c->type, c->order, c->batch, c->in, c->n, x, vector);
    d.w = dnn_array(c->type, c->order, c->out, c->in / groups, c->n, w, vector);
    d.y = dnn_array(c->type, c->order, c->batch, c->out, c->n, y, vector);
    return d;
}
static inline td_conv_desc_t dnn_fuse(td_conv_desc_t d, td_activation_t activation, double scale, double side) {
    d.fused = d.has_bias = true;
    d.bias = d.x.type == TD_S8 ? TD_F32 : d.y.type;
    d.activation = activation, d.leaky_alpha = 0.125;
    d.scale = scale, d.side = d.y.type, d.has_side = side != 0, d.side_scale = side;
    return d;
}
static inline td_norm_desc_t dnn_norm(td_type_t type, td_type_t scale, int64_t rows, int64_t cols) {
    return (td_norm_desc_t){.x = type, .scale = scale, .bias = scale, .y = type, .dy = type, .dscale = scale,
                            .dbias = scale, .rows = rows, .cols = cols, .epsilon = 1e-5, .has_bias = true};
}

#endif
