/* SPDX-License-Identifier: Apache-2.0 */
/* cuBLASLt and cuBLAS as far as thunkd calls them: our own declarations, in the terms of the public headers
 * (cublasLt.h, cublas_api.h, library_types.h; their values are the same in CUDA 12 and 13). Enums are passed as int.
 * The stand-ins for tests define their entry points from the same lists. */
#ifndef TD_RUNTIME_CUDA_BLAS_H
#define TD_RUNTIME_CUDA_BLAS_H

#include "runtime/cuda/lib.h"
#include "runtime/cuda/library.h"

typedef int cublasStatus_t;
enum {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_STATUS_NOT_INITIALIZED = 1,
    CUBLAS_STATUS_ALLOC_FAILED = 3,
    CUBLAS_STATUS_INVALID_VALUE = 7,
    CUBLAS_STATUS_ARCH_MISMATCH = 8,
    CUBLAS_STATUS_MAPPING_ERROR = 11,
    CUBLAS_STATUS_EXECUTION_FAILED = 13,
    CUBLAS_STATUS_INTERNAL_ERROR = 14,
    CUBLAS_STATUS_NOT_SUPPORTED = 15,
    CUBLAS_STATUS_LICENSE_ERROR = 16
};
enum { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1, CUBLAS_OP_C = 2 };
enum { CUBLAS_FILL_MODE_LOWER = 0, CUBLAS_FILL_MODE_UPPER = 1 };
enum { CUBLAS_DIAG_NON_UNIT = 0, CUBLAS_DIAG_UNIT = 1 };
enum { CUBLAS_SIDE_LEFT = 0, CUBLAS_SIDE_RIGHT = 1 };
enum { CUBLAS_COMPUTE_16F = 64, CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_64F = 70, CUBLAS_COMPUTE_32I = 72,
    CUBLAS_COMPUTE_32F_FAST_16F = 74, CUBLAS_COMPUTE_32F_FAST_16BF = 75, CUBLAS_COMPUTE_32F_FAST_TF32 = 77 };
enum { CUDA_R_32F = 0, CUDA_R_64F = 1, CUDA_R_16F = 2, CUDA_R_8I = 3, CUDA_C_32F = 4, CUDA_C_64F = 5, CUDA_R_32I = 10,
    CUDA_R_16BF = 14, CUDA_R_8F_E4M3 = 28, CUDA_R_8F_E5M2 = 29, CUDA_R_4F_E2M1 = 33 }; /* cudaDataType */

/* ---- cuBLASLt ---- */
typedef struct cublasLtContext *cublasLtHandle_t;
typedef struct cublasLtMatmulDescOpaque *cublasLtMatmulDesc_t;
typedef struct cublasLtMatrixLayoutOpaque *cublasLtMatrixLayout_t;
typedef struct cublasLtMatmulPreferenceOpaque *cublasLtMatmulPreference_t;
typedef struct cublasLtMatmulAlgo { uint64_t data[8]; } cublasLtMatmulAlgo_t;
typedef struct cublasLtMatmulHeuristicResult {
    cublasLtMatmulAlgo_t algo;
    size_t workspaceSize;
    cublasStatus_t state; /* the rest counts only if this is SUCCESS */
    float wavesCount;
    int reserved[4];
} cublasLtMatmulHeuristicResult_t;
_Static_assert(sizeof(cublasLtMatmulHeuristicResult_t) == 96, "layout of cublasLt.h");

enum { /* cublasLtMatrixLayoutAttribute_t; with the type of the value */
    CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5,          /* int32_t */
    CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6, /* int64_t, elements */
};
enum { /* cublasLtMatmulDescAttributes_t */
    CUBLASLT_MATMUL_DESC_TRANSA = 3,                    /* int32_t */
    CUBLASLT_MATMUL_DESC_TRANSB = 4,                    /* int32_t */
    CUBLASLT_MATMUL_DESC_EPILOGUE = 7,                  /* uint32_t */
    CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8,              /* pointers, all of them */
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER = 11,
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD = 12,          /* int64_t */
    CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE = 13, /* int64_t */
    CUBLASLT_MATMUL_DESC_A_SCALE_POINTER = 17,
    CUBLASLT_MATMUL_DESC_B_SCALE_POINTER = 18,
    CUBLASLT_MATMUL_DESC_C_SCALE_POINTER = 19,
    CUBLASLT_MATMUL_DESC_D_SCALE_POINTER = 20,
    CUBLASLT_MATMUL_DESC_AMAX_D_POINTER = 21,
    CUBLASLT_MATMUL_DESC_FAST_ACCUM = 25,               /* int8_t */
    CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE = 26,           /* int32_t */
    CUBLASLT_MATMUL_DESC_A_SCALE_MODE = 31,             /* int32_t; 12.8 and newer */
    CUBLASLT_MATMUL_DESC_B_SCALE_MODE = 32,
};
enum { CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3 = 1, CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0 = 2 };
enum { /* the other epilogues are sums of these */
    CUBLASLT_EPILOGUE_DEFAULT = 1, CUBLASLT_EPILOGUE_RELU = 2, CUBLASLT_EPILOGUE_BIAS = 4, CUBLASLT_EPILOGUE_GELU = 32,
    CUBLASLT_EPILOGUE_AUX = 128
};
enum { /* cublasLtMatmulPreferenceAttributes_t */
    CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1, /* uint64_t */
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5, /* uint32_t; B 6, C 7, D 8 */
};

#define TD_BLASLT_SYMBOLS(X)                                                                                           \
    X(1, size_t, cublasLtGetVersion, (void))                                                                           \
    X(1, const char *, cublasLtGetStatusName, (cublasStatus_t status))                                                 \
    X(1, cublasStatus_t, cublasLtCreate, (cublasLtHandle_t *handle))                                                   \
    X(1, cublasStatus_t, cublasLtDestroy, (cublasLtHandle_t handle))                                                   \
    X(1, cublasStatus_t, cublasLtMatrixLayoutCreate,                                                                   \
      (cublasLtMatrixLayout_t *layout, int type, uint64_t rows, uint64_t cols, int64_t ld))                            \
    X(1, cublasStatus_t, cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t layout))                                 \
    X(1, cublasStatus_t, cublasLtMatrixLayoutSetAttribute,                                                             \
      (cublasLtMatrixLayout_t layout, int attribute, const void *value, size_t bytes))                                 \
    X(1, cublasStatus_t, cublasLtMatmulDescCreate, (cublasLtMatmulDesc_t *desc, int compute_type, int scale_type))     \
    X(1, cublasStatus_t, cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t desc))                                       \
    X(1, cublasStatus_t, cublasLtMatmulDescSetAttribute,                                                               \
      (cublasLtMatmulDesc_t desc, int attribute, const void *value, size_t bytes))                                     \
    X(1, cublasStatus_t, cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t *preference))                     \
    X(1, cublasStatus_t, cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t preference))                     \
    X(1, cublasStatus_t, cublasLtMatmulPreferenceSetAttribute,                                                         \
      (cublasLtMatmulPreference_t preference, int attribute, const void *value, size_t bytes))                         \
    X(1, cublasStatus_t, cublasLtMatmulAlgoGetHeuristic,                                                               \
      (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,         \
       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference, int requested,       \
       cublasLtMatmulHeuristicResult_t *results, int *returned))                                                       \
    X(1, cublasStatus_t, cublasLtMatmul,                                                                               \
      (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,                           \
       cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout, const void *beta,              \
       const void *c, cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,                       \
       const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspace_bytes, CUstream stream))

typedef struct td_blaslt { /* thread: any for all that it holds */
    TD_BLASLT_SYMBOLS(TD_CUDA_LIB_MEMBER)
    cublasLtHandle_t handle;
} td_blaslt_t;

/* ---- cuBLAS ---- */
typedef struct cublasContext *cublasHandle_t;
#define TD_BLAS_TRSM                                                                                                   \
    (cublasHandle_t handle, int side, int uplo, int trans, int diag, int m, int n, const void *alpha, const void *a,   \
     int lda, void *b, int ldb)
#define TD_BLAS_TRSM_BATCHED (cublasHandle_t handle, int side, int uplo, int trans, int diag, int m, int n,            \
                              const void *alpha, const void *const *a, int lda, void *const *b, int ldb, int batch)
#define TD_BLAS_SYRK                                                                                                   \
    (cublasHandle_t handle, int uplo, int trans, int n, int k, const void *alpha, const void *a, int lda,              \
     const void *beta, void *c, int ldc)
#define TD_BLAS_GETRF_BATCHED                                                                                          \
    (cublasHandle_t handle, int n, void *const *a, int lda, int *pivots, int *info, int batch)
/* info: one, on the host */
#define TD_BLAS_GEQRF_BATCHED                                                                                          \
    (cublasHandle_t handle, int m, int n, void *const *a, int lda, void *const *tau, int *info, int batch)
enum { CUBLAS_POINTER_MODE_HOST = 0, CUBLAS_POINTER_MODE_DEVICE = 1 }; /* of alpha and beta */
#define TD_BLAS_SYMBOLS(X)                                                                                             \
    X(1, cublasStatus_t, cublasCreate_v2, (cublasHandle_t *handle))                                                    \
    X(1, cublasStatus_t, cublasDestroy_v2, (cublasHandle_t handle))                                                    \
    X(1, cublasStatus_t, cublasGetVersion_v2, (cublasHandle_t handle, int *version))                                   \
    X(1, const char *, cublasGetStatusName, (cublasStatus_t status))                                                   \
    X(1, cublasStatus_t, cublasSetStream_v2, (cublasHandle_t handle, CUstream stream))                                 \
    X(1, cublasStatus_t, cublasSetWorkspace_v2, (cublasHandle_t handle, void *workspace, size_t bytes))                \
    X(1, cublasStatus_t, cublasStrsm_v2, TD_BLAS_TRSM)                                                                 \
    X(1, cublasStatus_t, cublasDtrsm_v2, TD_BLAS_TRSM)                                                                 \
    X(1, cublasStatus_t, cublasCtrsm_v2, TD_BLAS_TRSM)                                                                 \
    X(1, cublasStatus_t, cublasZtrsm_v2, TD_BLAS_TRSM)                                                                 \
    X(1, cublasStatus_t, cublasStrsmBatched, TD_BLAS_TRSM_BATCHED)                                                     \
    X(1, cublasStatus_t, cublasDtrsmBatched, TD_BLAS_TRSM_BATCHED)                                                     \
    X(1, cublasStatus_t, cublasCtrsmBatched, TD_BLAS_TRSM_BATCHED)                                                     \
    X(1, cublasStatus_t, cublasZtrsmBatched, TD_BLAS_TRSM_BATCHED)                                                     \
    X(1, cublasStatus_t, cublasSetPointerMode_v2, (cublasHandle_t handle, int mode))                                   \
    X(1, cublasStatus_t, cublasSsyrk_v2, TD_BLAS_SYRK)                                                                 \
    X(1, cublasStatus_t, cublasDsyrk_v2, TD_BLAS_SYRK)                                                                 \
    X(1, cublasStatus_t, cublasCsyrk_v2, TD_BLAS_SYRK)                                                                 \
    X(1, cublasStatus_t, cublasZsyrk_v2, TD_BLAS_SYRK)                                                                 \
    X(1, cublasStatus_t, cublasSgetrfBatched, TD_BLAS_GETRF_BATCHED)                                                   \
    X(1, cublasStatus_t, cublasDgetrfBatched, TD_BLAS_GETRF_BATCHED)                                                   \
    X(1, cublasStatus_t, cublasCgetrfBatched, TD_BLAS_GETRF_BATCHED)                                                   \
    X(1, cublasStatus_t, cublasZgetrfBatched, TD_BLAS_GETRF_BATCHED)                                                   \
    X(1, cublasStatus_t, cublasSgeqrfBatched, TD_BLAS_GEQRF_BATCHED)                                                   \
    X(1, cublasStatus_t, cublasDgeqrfBatched, TD_BLAS_GEQRF_BATCHED)                                                   \
    X(1, cublasStatus_t, cublasCgeqrfBatched, TD_BLAS_GEQRF_BATCHED)                                                   \
    X(1, cublasStatus_t, cublasZgeqrfBatched, TD_BLAS_GEQRF_BATCHED)

typedef struct td_blas {
    TD_BLAS_SYMBOLS(TD_CUDA_LIB_MEMBER)
    cublasHandle_t handle;
    pthread_mutex_t lock; /* from td_blas_begin to td_blas_end */
} td_blas_t;

td_status_t td_blaslt_get(td_cuda_device_t *d, td_blaslt_t **out, td_err_t *err);
td_status_t td_blas_get(td_cuda_device_t *d, const char *what, td_blas_t **out, td_err_t *err);
/* Takes the handle for calls on that stream, with a workspace that belongs to it until they are done; td_blas_end after
 * the last one, also when they fail, but not when td_blas_begin did. The workspace lies at a multiple of 256 bytes. */
enum { TD_BLAS_WORKSPACE = 4 << 20, TD_BLAS_WORKSPACE_ALIGNMENT = 256 };
td_status_t td_blas_begin(td_blas_t *b, td_stream_t *s, void *workspace, const char *what, td_err_t *err);
void td_blas_end(td_blas_t *b);
#define TD_BLAS(b, what, err, name, ...) td_blas_call((b), (b)->name(__VA_ARGS__), #name, (what), (err))
td_status_t td_blas_call(const td_blas_t *b, cublasStatus_t r, const char *call, const char *what, td_err_t *err);
/* TD_OK for success; else "what: call: NAME (n)", TD_NOMEM, TD_UNSUPPORTED or TD_DEVICE. name: the
 * library's of r. */
td_status_t td_blas_check(cublasStatus_t r, const char *name, const char *call, const char *what, td_err_t *err);

td_status_t td_cuda_gemm_lower(td_cuda_device_t *d, const void *desc, td_arena_t *arena, td_kernel_t **out,
                               uint64_t *out_scratch, td_err_t *err);
td_status_t td_cuda_triangular_lower(td_cuda_device_t *d, const void *desc, td_arena_t *arena, td_kernel_t **out,
                                     uint64_t *out_scratch, td_err_t *err);

#endif
