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

/* Numbers of BlasLtEpilogueProto; gelu is the tanh form, aux = what goes into the activation. */
typedef enum td_epilogue {
    TD_EPI_NONE = 0, TD_EPI_RELU = 1, TD_EPI_BIAS = 2, TD_EPI_BIAS_RELU = 3, TD_EPI_GELU = 4, TD_EPI_SILU = 5,
    TD_EPI_SILU_AUX = 6, TD_EPI_GELU_AUX = 7, TD_EPI_BIAS_GELU = 8, TD_EPI_BIAS_SILU = 9, TD_EPI_BIAS_GELU_AUX = 10,
    TD_EPI_BIAS_SILU_AUX = 11
} td_epilogue_t;

/* How a product may be computed: the type of its sums, and whether its inputs may be rounded further (numbers of
 * BlasComputationTypeProto). */
typedef enum td_compute {
    TD_COMPUTE_F16 = 1, TD_COMPUTE_F32 = 2, TD_COMPUTE_F64 = 3, TD_COMPUTE_S32 = 4, TD_COMPUTE_F32_BY_F16 = 5,
    TD_COMPUTE_F32_BY_BF16 = 6, TD_COMPUTE_F32_BY_TF32 = 7
} td_compute_t;

/* D = d_scale * epilogue(alpha * a_scale * b_scale * A x B + beta * c_scale * C + bias), rounded once; amax = the
 * largest |value| before d_scale. The bias runs along D's fastest dimension. C may be D. Buffers of the launch, in
 * order: a, b, c, d, then bias, a_scale, b_scale, c_scale, d_scale, aux, amax as the has_ flags say. Scales and amax
 * are one f32; aux is an array like D. With scale_block, a_scale and b_scale are arrays instead, one value for each
 * scale_block elements along K, batch after batch, in tiles of 128 rows x 4 blocks: value (r, k) of a tile is at
 * r % 32 * 16 + r / 32 * 4 + k, tiles row-major, rows = those of A, columns of B. */
typedef struct td_gemm_desc {
    td_matrix_t a, b, c, d;
    double alpha_real, alpha_imag, beta;
    td_epilogue_t epilogue;
    bool has_bias, has_a_scale, has_b_scale, has_c_scale, has_d_scale, has_aux, has_amax;
    bool conjugate_a, conjugate_b; /* complex inputs: the values' conjugates */
    td_type_t bias_type; /* TD_TYPE_INVALID: that of D */
    int64_t scale_block; /* 0: scales are scalars */
    td_type_t scale_type;
    /* The compiler's choices for a GPU; others may compute better. */
    td_compute_t compute; /* 0: not given */
    bool fast_sums;       /* sums of 8-bit floats may be less exact */
    int64_t algorithm;    /* number in the library's list of choices; 0: the first */
    uint64_t workspace;   /* bytes that the list was made with; 0: not given */
} td_gemm_desc_t;

/* Layer norm of rows x cols. Buffers: x, scale, bias, y, and with training the rows' means and
 * 1/sqrt(var + epsilon) in f32. Backward: x, scale, dy, mean, factor, dx, dscale, dbias; the `y` type is that of dx. */
typedef struct td_norm_desc {
    td_type_t x, scale, bias, y;
    int64_t rows, cols;
    double epsilon;
    bool training, has_bias, backward;
    td_type_t dy, dscale, dbias;
} td_norm_desc_t;

/* One array of an attention: element (sequence, head, token, depth) at the sum of index * stride, in elements.
 * buffer: number of the launch's buffer + 1; 0 if absent. */
typedef struct td_attention_array {
    uint32_t buffer;
    td_type_t type;
    int64_t dims[4], strides[4];
} td_attention_array_t;

enum { TD_ATT_Q, TD_ATT_K, TD_ATT_V, TD_ATT_O, TD_ATT_STATS, TD_ATT_BIAS, TD_ATT_DO, TD_ATT_DQ, TD_ATT_DK, TD_ATT_DV,
    TD_ATT_DBIAS, TD_ATT_ARRAYS };
/* f32 scalars of the 8-bit forms; amax ones are results. */
enum { TD_ATT_DESCALE_Q, TD_ATT_DESCALE_K, TD_ATT_DESCALE_V, TD_ATT_DESCALE_S, TD_ATT_SCALE_S, TD_ATT_SCALE_O,
    TD_ATT_DESCALE_O, TD_ATT_DESCALE_DO, TD_ATT_DESCALE_DP, TD_ATT_SCALE_DQ, TD_ATT_SCALE_DK, TD_ATT_SCALE_DV,
    TD_ATT_SCALE_DP, TD_ATT_AMAX_S, TD_ATT_AMAX_O, TD_ATT_AMAX_DQ, TD_ATT_AMAX_DK, TD_ATT_AMAX_DV, TD_ATT_AMAX_DP,
    TD_ATT_SCALARS };

/* O = softmax(scale * Q K^T + bias) V over the keys a query sees, or its gradients. Query head h uses key head
 * h / (heads / kv_heads). causal: query i sees keys up to i; window > 0: keys after i - window. Stats are the
 * logarithms of the softmax's sums. Tokens from the sequence's length on see nothing, are not seen, and give zeros.
 * Buffers are given by number; lengths s32 [batch], offsets s32 [batch + 1] (first element of a sequence in Q, dO, O,
 * dQ or in K, V, dK, dV), pages s32 [batch, pages]: token t of a sequence lies in block pages[t / block] of K or V, whose
 * dims then are (blocks, kv_heads, tokens of a block, depth). */
typedef struct td_attention_desc {
    td_attention_array_t arrays[TD_ATT_ARRAYS];
    uint32_t scalars[TD_ATT_SCALARS];
    uint32_t q_lengths, kv_lengths, q_offsets, kv_offsets, k_pages, v_pages; /* buffer + 1, or 0 */
    int64_t batch, heads, kv_heads, q_tokens, kv_tokens, qk_depth, v_depth, pages;
    double scale;
    int64_t window;
    bool causal, backward, eight_bit;
} td_attention_desc_t;

/* An array of a convolution. X and Y: outer = batch, feature = features of all groups. W: outer = output
 * features of all groups, feature = input features of one group. Strides count elements; the array is dense.
 * vector > 1: a feature dimension kept as blocks (NCHW_VECT_C): feature f is at (f / vector) * feature_stride +
 * (f % vector) * vector_stride, and `feature` counts features, not blocks. */
enum { TD_CONV_SPATIAL = 8, TD_CONV_KNOBS = 16 };
typedef struct td_conv_array {
    td_type_t type;
    int64_t count; /* elements in all */
    int64_t outer, outer_stride, feature, feature_stride, vector, vector_stride;
    int64_t spatial[TD_CONV_SPATIAL], spatial_stride[TD_CONV_SPATIAL];
} td_conv_array_t;

typedef struct td_conv_knob {
    int64_t type, value;
} td_conv_knob_t;
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
    /* The compiler's choices for a GPU; others may compute better. */
    bool exact;         /* f32 is not to be rounded on the way in */
    bool has_algorithm; /* number of an engine of cuDNN's, and its settings */
    int64_t algorithm;
    uint32_t n_knobs;
    td_conv_knob_t knobs[TD_CONV_KNOBS];
} td_conv_desc_t;

/* n-dimensional Fourier transform of the innermost `rank` dimensions, batch after batch; strides count elements.
 * Forward e^(-2 pi i jk/n), unscaled; inverse e^(+2 pi i jk/n) times 1/(product of n). n is the length of the real
 * (or only) array; on the complex side of the real kinds the last dimension has n/2+1 elements. Buffers: in, out. */
enum { TD_FFT_RANK = 3, TD_FFT_BATCHES = 64 };
typedef enum td_fft_kind { /* numbers of xla.FftType */
    TD_FFT_FORWARD, TD_FFT_INVERSE, TD_FFT_REAL, TD_FFT_REAL_INVERSE
} td_fft_kind_t;
typedef struct td_fft_desc {
    td_fft_kind_t kind;
    bool f64; /* f64 and c128 instead of f32 and c64 */
    uint32_t rank, n_batches;
    int64_t n[TD_FFT_RANK], in_stride[TD_FFT_RANK], out_stride[TD_FFT_RANK];
    int64_t batch[TD_FFT_BATCHES], in_batch[TD_FFT_BATCHES], out_batch[TD_FFT_BATCHES]; /* sizes, strides */
    int64_t in_count, out_count; /* elements of the arrays, which are dense */
} td_fft_desc_t;

/* op(A) X = B, or X op(A) = B if not left: X (m x n) overwrites B. A is square, m or n wide; only its `lower` or upper
 * triangle is read, without the diagonal if that is taken for ones. Column-major and dense, batch after batch.
 * Buffers: a, b. Types: f32, f64, c64, c128. */
typedef enum td_transpose { /* numbers of xla.TriangularSolveOptions.Transpose */
    TD_TRANSPOSE_NONE = 1, TD_TRANSPOSE_PLAIN = 2, TD_TRANSPOSE_ADJOINT = 3
} td_transpose_t;
typedef struct td_triangular_desc {
    td_type_t type;
    bool left, lower, unit_diagonal;
    td_transpose_t transpose;
    int64_t m, n, batch;
} td_triangular_desc_t;

/* The k first of each row of n in descending order (ascending: smallest first), equal ones by position. Floats
 * in total order: -NaN < -Inf < ... < -0 < +0 < ... < +Inf < +NaN; zeros_equal: -0 = +0.
 * Buffers: x [batch, n], values [batch, k], positions s32 [batch, k]. */
typedef struct td_topk_desc {
    td_type_t type;
    int64_t batch, n, k;
    bool smallest, zeros_equal;
} td_topk_desc_t;

/* A custom call of the typed FFI. Buffers: one per operand, then one per result; a token's is NULL.
 * Pointers are the caller's and end with the call of library_lower. */
struct td_ffi_attrs;
struct td_ffi_handler;
typedef struct td_custom_call_desc {
    const char *target, *instruction;
    const td_shape_t *const *operands, *const *results; /* a token has type TD_TOKEN */
    uint32_t n_operands, n_results;
    const struct td_ffi_attrs *attrs;     /* never NULL */
    const struct td_ffi_handler *handler; /* the user's (runtime/ffi/registry.h); NULL: none */
} td_custom_call_desc_t;

#endif
