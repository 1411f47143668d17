/* SPDX-License-Identifier: Apache-2.0 */
/* cuSPARSE as far as thunkd calls it: our own declarations of facts of the public header cusparse.h, in the form that
 * takes pointers to constants for what is only read (CUDA 12 and 13). Typed functions are tables of four, in the order
 * f32, f64, c64, c128. The stand-in for tests defines its entry points from the same lists. */
#ifndef TD_RUNTIME_CUDA_SPARSE_H
#define TD_RUNTIME_CUDA_SPARSE_H

#include "runtime/cuda/kernels_body.h"
#include "runtime/cuda/lib.h"
#include "runtime/ffi/linalg.h"

typedef struct cusparseContext *cusparseHandle_t;
typedef struct cusparseSpMatDescr *cusparseSpMatDescr_t;
typedef struct cusparseDnMatDescr *cusparseDnMatDescr_t;
typedef struct cusparseDnVecDescr *cusparseDnVecDescr_t;
enum { CUSPARSE_STATUS_SUCCESS = 0, CUSPARSE_STATUS_NOT_INITIALIZED = 1, CUSPARSE_STATUS_ALLOC_FAILED = 2,
    CUSPARSE_STATUS_INVALID_VALUE = 3, CUSPARSE_STATUS_ARCH_MISMATCH = 4, CUSPARSE_STATUS_EXECUTION_FAILED = 6,
    CUSPARSE_STATUS_NOT_SUPPORTED = 10 };
enum { CUSPARSE_INDEX_16U = 1, CUSPARSE_INDEX_32I = 2, CUSPARSE_INDEX_64I = 3, CUSPARSE_ORDER_ROW = 2,
    CUSPARSE_ALG_DEFAULT = 0 /* of all operations used here */ };

#define TD_SPARSE_SYMBOLS(X)                                                                                           \
    X(1, int, cusparseCreate, (cusparseHandle_t *handle))                                                              \
    X(1, int, cusparseDestroy, (cusparseHandle_t handle))                                                              \
    X(1, int, cusparseGetVersion, (cusparseHandle_t handle, int *version))                                             \
    X(1, int, cusparseSetStream, (cusparseHandle_t handle, CUstream stream))                                           \
    X(1, const char *, cusparseGetErrorName, (int status))                                                             \
    X(1, int, cusparseCreateCsr, (cusparseSpMatDescr_t *out, int64_t rows, int64_t cols, int64_t nnz,                  \
      void *row_offsets, void *columns, void *values, int offsets_type, int columns_type, int base, int type))         \
    X(1, int, cusparseCreateCoo, (cusparseSpMatDescr_t *out, int64_t rows, int64_t cols, int64_t nnz, void *row_index, \
      void *columns, void *values, int index_type, int base, int type))                                                \
    X(1, int, cusparseDestroySpMat, (cusparseSpMatDescr_t m))                                                          \
    X(1, int, cusparseCsrSetPointers, (cusparseSpMatDescr_t m, void *row_offsets, void *columns, void *values))        \
    X(1, int, cusparseCooSetPointers, (cusparseSpMatDescr_t m, void *rows, void *columns, void *values))               \
    X(1, int, cusparseCooSetStridedBatch, (cusparseSpMatDescr_t m, int count, int64_t stride))                         \
    X(1, int, cusparseCreateDnMat, (cusparseDnMatDescr_t *out, int64_t rows, int64_t cols, int64_t ld, void *values,   \
      int type, int order))                                                                                            \
    X(1, int, cusparseDestroyDnMat, (cusparseDnMatDescr_t m))                                                          \
    X(1, int, cusparseDnMatSetValues, (cusparseDnMatDescr_t m, void *values))                                          \
    X(1, int, cusparseDnMatSetStridedBatch, (cusparseDnMatDescr_t m, int count, int64_t stride))                       \
    X(1, int, cusparseCreateDnVec, (cusparseDnVecDescr_t *out, int64_t size, void *values, int type))                  \
    X(1, int, cusparseDestroyDnVec, (cusparseDnVecDescr_t v))                                                          \
    X(1, int, cusparseDnVecSetValues, (cusparseDnVecDescr_t v, void *values))                                          \
    X(1, int, cusparseSpMV_bufferSize, (cusparseHandle_t handle, int op, const void *alpha, cusparseSpMatDescr_t a,    \
      cusparseDnVecDescr_t x, const void *beta, cusparseDnVecDescr_t y, int compute, int algorithm, size_t *bytes))    \
    X(1, int, cusparseSpMV, (cusparseHandle_t handle, int op, const void *alpha, cusparseSpMatDescr_t a,               \
      cusparseDnVecDescr_t x, const void *beta, cusparseDnVecDescr_t y, int compute, int algorithm, void *buffer))     \
    X(1, int, cusparseSpMM_bufferSize, (cusparseHandle_t handle, int op_a, int op_b, const void *alpha,                \
      cusparseSpMatDescr_t a, cusparseDnMatDescr_t b, const void *beta, cusparseDnMatDescr_t c, int compute,           \
      int algorithm, size_t *bytes))                                                                                   \
    X(1, int, cusparseSpMM, (cusparseHandle_t handle, int op_a, int op_b, const void *alpha, cusparseSpMatDescr_t a,   \
      cusparseDnMatDescr_t b, const void *beta, cusparseDnMatDescr_t c, int compute, int algorithm, void *buffer))

/* X(member, name, (arguments)): cusparse followed by S, D, C, Z. */
#define TD_SPARSE_TYPED(X)                                                                                             \
    X(gtsv2_size, gtsv2_bufferSizeExt, (cusparseHandle_t handle, int m, int n, const void *dl, const void *d,          \
      const void *du, const void *b, int ldb, size_t *bytes))                                                          \
    X(gtsv2, gtsv2, (cusparseHandle_t handle, int m, int n, const void *dl, const void *d, const void *du, void *b,    \
      int ldb, void *buffer))

typedef struct td_sparse_lib {
    TD_SPARSE_SYMBOLS(TD_CUDA_LIB_MEMBER)
#define TD_SPARSE_MEMBER(member, name, args) int(*member[4]) args;
    TD_SPARSE_TYPED(TD_SPARSE_MEMBER)
#undef TD_SPARSE_MEMBER
    cusparseHandle_t handle;
    pthread_mutex_t lock; /* from setting the stream and the addresses to the call that uses them */
} td_sparse_lib_t;

td_status_t td_sparse_lib_get(td_cuda_device_t *d, const char *what, td_sparse_lib_t **out, td_err_t *err);
/* TD_OK, or "call: CUSPARSE_STATUS_... (n)". */
td_status_t td_sparse_check(const td_sparse_lib_t *l, int r, const char *call, td_err_t *err);
/* The matrix as kernels take it, without addresses. */
td_body_sparse_t td_sparse_body(const td_sparse_t *s);

#endif
