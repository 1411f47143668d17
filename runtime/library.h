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

#endif
