/* SPDX-License-Identifier: Apache-2.0 */
/* Library operations: what a library thunk asks of a device, one struct per operation.
 * Made by a thunk's parse function (then checked), read by td_device_ops.library_lower.
 * Plain values only, so that a thunk's copy is a memcpy; pointers say who owns what. */
#ifndef TD_RUNTIME_LIBRARY_H
#define TD_RUNTIME_LIBRARY_H

#include "runtime/hlo/hlo.h"

typedef enum td_library_op { TD_OP_GEMM, TD_OP_NORM, TD_OP_CONV, TD_OP_FFT, TD_OP_TRIANGULAR_SOLVE, TD_OP_TOPK,
    TD_OP_ATTENTION, TD_OP_CUSTOM_CALL, TD_LIBRARY_OP_COUNT } td_library_op_t;

/* A row- or column-major (batched) matrix: element (b,i,j) at b*batch_stride + i*ld + j (row-major)
 * or + j*ld + i (column-major). batch_stride 0 repeats one matrix. */
typedef struct td_matrix {
    td_type_t type;
    bool column_major;
    int64_t rows, cols, ld, batch, batch_stride;
} td_matrix_t;

typedef enum td_epilogue {
    TD_EPI_NONE = 0, TD_EPI_RELU = 1, TD_EPI_BIAS = 2, TD_EPI_BIAS_RELU = 3, TD_EPI_GELU = 4, TD_EPI_BIAS_GELU = 8
} td_epilogue_t;

/* D = epilogue(alpha * A x B * a_scale * b_scale + beta * C + bias). Buffers of the launch, in order:
 * a, b, c, d, then bias, a_scale, b_scale as the has_ flags say. */
typedef struct td_gemm_desc {
    td_matrix_t a, b, c, d;
    double alpha_real, alpha_imag, beta;
    td_epilogue_t epilogue;
    bool has_bias, has_a_scale, has_b_scale;
} td_gemm_desc_t;

/* Layer norm of rows x cols. Buffers: x, scale, bias, y, and with training the rows' means and
 * 1/sqrt(var + epsilon) in f32. */
typedef struct td_norm_desc {
    td_type_t x, scale, bias, y;
    int64_t rows, cols;
    double epsilon;
    bool training;
} td_norm_desc_t;

/* An array of a convolution. X and Y: outer = batch, feature = features of all groups. W: outer = output
 * features of all groups, feature = input features of one group. Strides count elements; the array is dense.
 * vector > 1: a feature dimension kept as blocks (NCHW_VECT_C): feature f is at (f / vector) * feature_stride +
 * (f % vector) * vector_stride, and `feature` counts features, not blocks. */
enum { TD_CONV_SPATIAL = 8 };
typedef struct td_conv_array {
    td_type_t type;
    int64_t count; /* elements in all */
    int64_t outer, outer_stride, feature, feature_stride, vector, vector_stride;
    int64_t spatial[TD_CONV_SPATIAL], spatial_stride[TD_CONV_SPATIAL];
} td_conv_array_t;

typedef enum td_conv_kind { TD_CONV_FORWARD, TD_CONV_BACKWARD_FILTER, TD_CONV_BACKWARD_DATA, TD_CONV_REORDER } td_conv_kind_t;
typedef enum td_activation { /* numbers of stream_executor.dnn.ActivationMode */
    TD_ACT_NONE = 0, TD_ACT_SIGMOID = 1, TD_ACT_RELU = 2, TD_ACT_RELU6 = 3, TD_ACT_TANH = 5, TD_ACT_ELU = 7,
    TD_ACT_LEAKY_RELU = 8, TD_ACT_GELU = 9
} td_activation_t;

/* Y = X * W over zero padding; x, w, y and window always describe the forward relation, kind says which of the
 * three is computed. fused: Y = act(scale * conv + side_scale * side + bias), in f32 or f64, rounded once.
 * Buffers of the launch, in order: x, w, y, then bias (one value per output feature) and side (laid out as y) as
 * the has_ flags say. REORDER only permutes a filter (and bias) for int8x32 convolutions: in x, out w, [bias in, bias out]. */
typedef struct td_conv_desc {
    td_conv_kind_t kind;
    uint32_t n; /* spatial dimensions */
    td_window_dim_t window[TD_CONV_SPATIAL];
    int64_t groups, batch_groups; /* at least 1; not both above 1 */
    td_conv_array_t x, w, y;
    td_type_t bias, side;
    bool fused, has_bias, has_side;
    bool reordered; /* filter and bias are permuted as REORDER does */
    bool saturate;  /* integer results saturate; else they wrap */
    td_activation_t activation;
    double scale, side_scale, leaky_alpha;
} td_conv_desc_t;

#endif
