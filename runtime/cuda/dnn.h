/* SPDX-License-Identifier: Apache-2.0 */
/* cuDNN's graph interface, as far as thunkd calls it: our own declarations, in the terms of the public headers
 * (cudnn_graph_v9.h, cudnn_ops_v9.h), and kernels made of its graphs.
 *
 * An operation is a graph of tensors and operations. cuDNN names engines that can do it; the first that works becomes
 * the plan, once, when the program is loaded. A launch tells the plan the addresses. Enums are passed as int.
 * Thread: building belongs to one thread; launches may come from several (the library's lock orders them). */
#ifndef TD_RUNTIME_CUDA_DNN_H
#define TD_RUNTIME_CUDA_DNN_H

#include "runtime/cuda/lib.h"
#include "runtime/cuda/library.h"

typedef int cudnnStatus_t;
enum { /* thousands are classes: bad arguments, not supported, internal, execution */
    CUDNN_STATUS_SUCCESS = 0, CUDNN_STATUS_NOT_INITIALIZED = 1001, CUDNN_STATUS_BAD_PARAM = 2000,
    CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED = 2004, CUDNN_STATUS_NOT_SUPPORTED = 3000,
    CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED = 4003,
    CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED = 4004, CUDNN_STATUS_EXECUTION_FAILED = 5000
};
typedef struct cudnnContext *cudnnHandle_t;
typedef void *cudnnBackendDescriptor_t;
typedef struct cudnnFilterStruct *cudnnFilterDescriptor_t;

enum { CUDNN_DATA_FLOAT = 0, CUDNN_DATA_DOUBLE = 1, CUDNN_DATA_HALF = 2, CUDNN_DATA_INT8 = 3, CUDNN_DATA_INT32 = 4,
    CUDNN_DATA_INT8x32 = 8, CUDNN_DATA_BFLOAT16 = 9, CUDNN_DATA_BOOLEAN = 11,
    CUDNN_DATA_FP8_E4M3 = 12, CUDNN_DATA_FP8_E5M2 = 13 };
enum { CUDNN_TENSOR_NCHW_VECT_C = 2 };
enum { CUDNN_CONVOLUTION = 0, CUDNN_CROSS_CORRELATION = 1 };
enum { CUDNN_DEFAULT_REORDER = 0 };
enum { CUDNN_TENSOR_REORDERING_NONE = 0, CUDNN_TENSOR_REORDERING_INT8x32 = 1 };
enum { CUDNN_POINTWISE_ADD = 0, CUDNN_POINTWISE_MUL = 1, CUDNN_POINTWISE_DIV = 6, CUDNN_POINTWISE_SUB = 9,
    CUDNN_POINTWISE_EXP = 13, CUDNN_POINTWISE_LOG = 15, CUDNN_POINTWISE_RELU_FWD = 100, CUDNN_POINTWISE_TANH_FWD = 101,
    CUDNN_POINTWISE_SIGMOID_FWD = 102, CUDNN_POINTWISE_ELU_FWD = 103, CUDNN_POINTWISE_GELU_FWD = 104,
    CUDNN_POINTWISE_CMP_GT = 302, CUDNN_POINTWISE_CMP_GE = 303, CUDNN_POINTWISE_CMP_LT = 304,
    CUDNN_POINTWISE_LOGICAL_AND = 400, CUDNN_POINTWISE_GEN_INDEX = 501, CUDNN_POINTWISE_BINARY_SELECT = 601 };
enum { CUDNN_REDUCE_TENSOR_ADD = 0, CUDNN_REDUCE_TENSOR_MAX = 3 };
enum { CUDNN_LAYER_NORM = 0 };
enum { CUDNN_NORM_FWD_INFERENCE = 0, CUDNN_NORM_FWD_TRAINING = 1 };
enum { CUDNN_HEUR_MODE_B = 1, CUDNN_HEUR_MODE_FALLBACK = 2, CUDNN_HEUR_MODE_A = 3 };
enum { CUDNN_NUMERICAL_NOTE_TENSOR_CORE = 0, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS = 1,
    CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC = 4, CUDNN_NUMERICAL_NOTE_TYPE_COUNT = 10 };

enum { /* cudnnBackendAttributeType_t */
    CUDNN_TYPE_HANDLE = 0, CUDNN_TYPE_DATA_TYPE = 1, CUDNN_TYPE_BOOLEAN = 2, CUDNN_TYPE_INT64 = 3, CUDNN_TYPE_FLOAT = 4,
    CUDNN_TYPE_DOUBLE = 5, CUDNN_TYPE_VOID_PTR = 6, CUDNN_TYPE_CONVOLUTION_MODE = 7, CUDNN_TYPE_HEUR_MODE = 8,
    CUDNN_TYPE_KNOB_TYPE = 9, CUDNN_TYPE_NUMERICAL_NOTE = 11, CUDNN_TYPE_POINTWISE_MODE = 14,
    CUDNN_TYPE_BACKEND_DESCRIPTOR = 15, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE = 18,
    CUDNN_TYPE_TENSOR_REORDERING_MODE = 20, CUDNN_TYPE_NORM_MODE = 27, CUDNN_TYPE_NORM_FWD_PHASE = 28
};
enum { /* cudnnBackendDescriptorType_t */
    CUDNN_BACKEND_POINTWISE_DESCRIPTOR = 0, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR = 1,
    CUDNN_BACKEND_ENGINE_DESCRIPTOR = 2,
    CUDNN_BACKEND_ENGINECFG_DESCRIPTOR = 3, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR = 4,
    CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR = 5, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR = 7,
    CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR = 10,
    CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR = 11,
    CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR = 12,
    CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR = 13, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR = 15,
    CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR = 16, CUDNN_BACKEND_TENSOR_DESCRIPTOR = 17,
    CUDNN_BACKEND_MATMUL_DESCRIPTOR = 18, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR = 19,
    CUDNN_BACKEND_REDUCTION_DESCRIPTOR = 21, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR = 22,
    CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR = 29, CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR = 30
};
enum { /* cudnnBackendAttributeName_t */
    CUDNN_ATTR_POINTWISE_MODE = 0, CUDNN_ATTR_POINTWISE_MATH_PREC = 1, CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP = 4,
    CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE = 5, CUDNN_ATTR_POINTWISE_AXIS = 9,
    CUDNN_ATTR_CONVOLUTION_COMP_TYPE = 100,
    CUDNN_ATTR_CONVOLUTION_CONV_MODE = 101, CUDNN_ATTR_CONVOLUTION_DILATIONS = 102,
    CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES = 103, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS = 104,
    CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS = 105, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS = 106,
    CUDNN_ATTR_ENGINEHEUR_MODE = 200, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH = 201, CUDNN_ATTR_ENGINEHEUR_RESULTS = 202,
    CUDNN_ATTR_ENGINECFG_ENGINE = 300, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES = 302, CUDNN_ATTR_EXECUTION_PLAN_HANDLE = 400,
    CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG = 401, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE = 402,
    CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE = 600, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE = 601,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA = 700, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA = 701,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC = 702, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W = 703,
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X = 704, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y = 705,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA = 706, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA = 707,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC = 708, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W = 709,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX = 710, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY = 711,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA = 712, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA = 713,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC = 714, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW = 715,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X = 716, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY = 717,
    CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR = 750, CUDNN_ATTR_OPERATION_POINTWISE_XDESC = 751,
    CUDNN_ATTR_OPERATION_POINTWISE_BDESC = 752, CUDNN_ATTR_OPERATION_POINTWISE_YDESC = 753,
    CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1 = 754, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2 = 755,
    CUDNN_ATTR_OPERATION_POINTWISE_TDESC = 758,
    CUDNN_ATTR_OPERATIONGRAPH_HANDLE = 800, CUDNN_ATTR_OPERATIONGRAPH_OPS = 801, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT = 900,
    CUDNN_ATTR_TENSOR_DATA_TYPE = 901, CUDNN_ATTR_TENSOR_DIMENSIONS = 902, CUDNN_ATTR_TENSOR_STRIDES = 903,
    CUDNN_ATTR_TENSOR_VECTOR_COUNT = 904, CUDNN_ATTR_TENSOR_VECTORIZED_DIMENSION = 905,
    CUDNN_ATTR_TENSOR_UNIQUE_ID = 906, CUDNN_ATTR_TENSOR_IS_VIRTUAL = 907, CUDNN_ATTR_TENSOR_IS_BY_VALUE = 908,
    CUDNN_ATTR_TENSOR_REORDERING_MODE = 909, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS = 1000,
    CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS = 1001, CUDNN_ATTR_VARIANT_PACK_WORKSPACE = 1003,
    CUDNN_ATTR_ENGINE_OPERATION_GRAPH = 1300, CUDNN_ATTR_ENGINE_GLOBAL_INDEX = 1301,
    CUDNN_ATTR_ENGINE_NUMERICAL_NOTE = 1303, CUDNN_ATTR_MATMUL_COMP_TYPE = 1500,
    CUDNN_ATTR_OPERATION_MATMUL_ADESC = 1520,
    CUDNN_ATTR_OPERATION_MATMUL_BDESC = 1521, CUDNN_ATTR_OPERATION_MATMUL_CDESC = 1522,
    CUDNN_ATTR_OPERATION_MATMUL_DESC = 1523, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC = 1525,
    CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC = 1526, CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC = 1527,
    CUDNN_ATTR_REDUCTION_OPERATOR = 1600, CUDNN_ATTR_REDUCTION_COMP_TYPE = 1601,
    CUDNN_ATTR_OPERATION_REDUCTION_XDESC = 1610, CUDNN_ATTR_OPERATION_REDUCTION_YDESC = 1611,
    CUDNN_ATTR_OPERATION_REDUCTION_DESC = 1612, CUDNN_ATTR_OPERATION_NORM_FWD_MODE = 2000,
    CUDNN_ATTR_OPERATION_NORM_FWD_PHASE = 2001, CUDNN_ATTR_OPERATION_NORM_FWD_XDESC = 2002,
    CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC = 2003, CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC = 2004,
    CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC = 2005, CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC = 2006,
    CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC = 2007, CUDNN_ATTR_OPERATION_NORM_FWD_YDESC = 2013,
    CUDNN_ATTR_OPERATION_NORM_BWD_MODE = 2100, CUDNN_ATTR_OPERATION_NORM_BWD_XDESC = 2101,
    CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC = 2102, CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC = 2103,
    CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC = 2104, CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC = 2105,
    CUDNN_ATTR_OPERATION_NORM_BWD_EPSILON_DESC = 2106, CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC = 2107,
    CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC = 2108, CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC = 2109
};

#define TD_DNN_SYMBOLS(X)                                                                                              \
    X(1, size_t, cudnnGetVersion, (void))                                                                              \
    X(1, const char *, cudnnGetErrorString, (cudnnStatus_t status))                                                    \
    X(1, void, cudnnGetLastErrorString, (char *message, size_t bytes))                                                 \
    X(1, cudnnStatus_t, cudnnCreate, (cudnnHandle_t *handle))                                                          \
    X(1, cudnnStatus_t, cudnnDestroy, (cudnnHandle_t handle))                                                          \
    X(1, cudnnStatus_t, cudnnSetStream, (cudnnHandle_t handle, CUstream stream))                                       \
    X(1, cudnnStatus_t, cudnnBackendCreateDescriptor, (int type, cudnnBackendDescriptor_t *descriptor))                \
    X(1, cudnnStatus_t, cudnnBackendDestroyDescriptor, (cudnnBackendDescriptor_t descriptor))                          \
    X(1, cudnnStatus_t, cudnnBackendFinalize, (cudnnBackendDescriptor_t descriptor))                                   \
    X(1, cudnnStatus_t, cudnnBackendSetAttribute,                                                                      \
      (cudnnBackendDescriptor_t descriptor, int name, int type, int64_t count, const void *values))                    \
    X(1, cudnnStatus_t, cudnnBackendGetAttribute,                                                                      \
      (cudnnBackendDescriptor_t descriptor, int name, int type, int64_t requested, int64_t *count, void *values))      \
    X(1, cudnnStatus_t, cudnnBackendExecute,                                                                           \
      (cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack))                            \
    X(0, cudnnStatus_t, cudnnCreateFilterDescriptor, (cudnnFilterDescriptor_t *filter))                                \
    X(0, cudnnStatus_t, cudnnDestroyFilterDescriptor, (cudnnFilterDescriptor_t filter))                                \
    X(0, cudnnStatus_t, cudnnSetFilterNdDescriptor,                                                                    \
      (cudnnFilterDescriptor_t filter, int type, int format, int n, const int *dims))                                  \
    X(0, cudnnStatus_t, cudnnReorderFilterAndBias,                                                                     \
      (cudnnHandle_t handle, cudnnFilterDescriptor_t filter, int reorder, const void *filter_data, void *filter_out,   \
       int with_bias, const void *bias, void *bias_out))

typedef struct td_dnn {
    TD_DNN_SYMBOLS(TD_CUDA_LIB_MEMBER)
    cudnnHandle_t handle;
    pthread_mutex_t lock; /* from setting the handle's stream to the call that uses it */
} td_dnn_t;

enum { TD_DNN_TENSORS = 16, TD_DNN_OPS = 28, TD_DNN_MADE = 112, TD_DNN_VALUES = 6, TD_DNN_KNOBS = TD_CONV_KNOBS,
    TD_DNN_ALIGNMENT = 16 };
/* Where a tensor's bytes are at a launch, when they are in no buffer of it. */
enum { TD_DNN_VIRTUAL = -1, /* nowhere: between operations */
    TD_DNN_ZEROS = -2,      /* zeros, in the scratch */
    TD_DNN_SPARE = -3,      /* in the scratch: results that nobody reads */
    TD_DNN_VALUE = -16      /* this and below: numbers of the kernel's own, in host memory (td_dnn_number) */ };

typedef struct td_dnn_kernel {
    td_kernel_t base;
    td_cuda_device_t *device;
    td_dnn_t *dnn;
    char text[160]; /* for messages: "convolution of f32[8,3,224,224] by f32[64,3,7,7]" */
    uint32_t n_bufs; /* at least, of a launch */
    cudnnBackendDescriptor_t made[TD_DNN_MADE]; /* all but pack; given back by release */
    uint32_t n_made;
    cudnnBackendDescriptor_t ops[TD_DNN_OPS], plan; /* among made; no plan: nothing to compute */
    uint32_t n_ops;
    uint32_t n_tensors; /* with an address */
    int64_t uids[TD_DNN_TENSORS];
    int32_t from[TD_DNN_TENSORS]; /* their buffers, or TD_DNN_ZEROS ... */
    uint64_t values[TD_DNN_VALUES];
    uint32_t n_values;
    uint64_t zeros, spare, workspace; /* bytes; in the scratch, at multiples of 256, in this order */
    struct { uint32_t buffer; uint64_t bytes; } clear[2]; /* results that are zeros first */
    uint32_t n_clear;
    uint64_t fill;             /* bytes of buffer fill_buffer that are zeros, instead of any plan */
    uint32_t fill_buffer;
    cudnnBackendDescriptor_t pack; /* of the latest launch, for these addresses; under the library's lock */
    const void *packed[TD_DNN_TENSORS + 1];
    cudnnFilterDescriptor_t filter; /* of a reordering, with its bias or without */
} td_dnn_kernel_t;

/* A graph being built: after the first failure (st) all calls do nothing. */
typedef struct td_dnn_build {
    td_dnn_kernel_t *k;
    td_err_t *err;
    td_status_t st;
} td_dnn_build_t;

typedef struct td_dnn_tensor {
    td_type_t type;
    uint32_t n;
    int64_t dims[5], strides[5]; /* in vectors along dimension 1 of `vector` elements, if that is above 1 */
    int64_t vector;
    int32_t from; /* buffer of the launch, or TD_DNN_VIRTUAL ... */
    bool reordered;
} td_dnn_tensor_t;

/* What a plan should be like. */
typedef struct td_dnn_wish {
    bool has_engine; /* the compiler's choice, taken if this library has it */
    int64_t engine;
    uint32_t n_knobs;
    td_conv_knob_t knobs[TD_DNN_KNOBS];
    bool exact; /* f32 stays f32: no TF32 */
} td_dnn_wish_t;

/* dnn.c. who: "convolutions". The kernel has launch and release set; release it when building fails. */
td_status_t td_dnn_new(td_cuda_device_t *d, const char *who, td_arena_t *arena, td_dnn_kernel_t **out, td_err_t *err);
void td_dnn_release(td_kernel_t *k);
/* TD_OK for success; else "text: what: NAME (n): cuDNN's own words". */
td_status_t td_dnn_check(const td_dnn_kernel_t *k, cudnnStatus_t r, const char *what, td_err_t *err);
void td_dnn_reason(const td_dnn_t *dnn, char *out, size_t room); /* ": why" of the latest failure, or "" */
uint64_t td_dnn_scratch(const td_dnn_kernel_t *k);

/* dnn_graph.c */
bool td_dnn_type(td_type_t t, int *out); /* has cuDNN such elements? */
cudnnBackendDescriptor_t td_dnn_make(td_dnn_build_t *b, int type);
void td_dnn_set(td_dnn_build_t *b, cudnnBackendDescriptor_t to, int name, int type, int64_t count, const void *values);
void td_dnn_set_desc(td_dnn_build_t *b, cudnnBackendDescriptor_t to, int name, cudnnBackendDescriptor_t value);
void td_dnn_finish(td_dnn_build_t *b, cudnnBackendDescriptor_t d, const char *what);
/* One number of up to eight bytes, as a tensor's `from`. */
int32_t td_dnn_number(td_dnn_build_t *b, const void *value, size_t bytes);
void td_dnn_op(td_dnn_build_t *b, cudnnBackendDescriptor_t op, const char *what); /* finished, and part of the graph */
cudnnBackendDescriptor_t td_dnn_tensor(td_dnn_build_t *b, const td_dnn_tensor_t *t);
/* y = mode(alpha1 * x, alpha2 * b) in `type`; of a selection t says where x is taken. */
typedef struct td_dnn_pointwise {
    int mode;
    td_type_t type;
    cudnnBackendDescriptor_t x, b, t, y; /* b, t: NULL if there are none */
    bool scaled, has_axis, has_upper, has_slope;
    double alpha1, alpha2, upper, slope;
    int64_t axis; /* of CUDNN_POINTWISE_GEN_INDEX */
} td_dnn_pointwise_t;
void td_dnn_pointwise(td_dnn_build_t *b, const td_dnn_pointwise_t *p);
void td_dnn_set_factor(td_dnn_build_t *b, cudnnBackendDescriptor_t op, int name, bool f64, double value);
void td_dnn_plan(td_dnn_build_t *b, const td_dnn_wish_t *wish); /* of the operations so far */

td_status_t td_cuda_conv_lower(td_cuda_device_t *d, const void *desc, td_arena_t *arena, td_kernel_t **out,
                               uint64_t *out_scratch, td_err_t *err);
td_status_t td_cuda_norm_lower(td_cuda_device_t *d, const void *desc, td_arena_t *arena, td_kernel_t **out,
                               uint64_t *out_scratch, td_err_t *err);
td_status_t td_cuda_attention_lower(td_cuda_device_t *d, const void *desc, td_arena_t *arena, td_kernel_t **out,
                                    uint64_t *out_scratch, td_err_t *err);

#endif
