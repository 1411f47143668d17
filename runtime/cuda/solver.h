/* SPDX-License-Identifier: Apache-2.0 */
/* cuSOLVER as far as thunkd calls it, and the built-in linear algebra targets that it computes.
 *
 * The names, arguments and values are facts of the public headers (cusolverDn.h, cusolver_common.h). Typed functions
 * are tables of four, in the order f32, f64, c64, c128; their array arguments are void * here. Workspaces of the typed
 * functions are counted in elements, those of the 64-bit ones in bytes. A handle has one stream at a time, so calls
 * that depend on it go under the library's lock. */
#ifndef TD_RUNTIME_CUDA_SOLVER_H
#define TD_RUNTIME_CUDA_SOLVER_H

#include "runtime/cuda/lib.h"
#include "runtime/cuda/library.h"
#include "runtime/ffi/linalg.h"

typedef struct cusolverDnContext *cusolverDnHandle_t;
typedef struct cusolverDnParams *cusolverDnParams_t;
typedef struct syevjInfo *syevjInfo_t;
typedef struct gesvdjInfo *gesvdjInfo_t;
enum { CUSOLVER_STATUS_SUCCESS = 0, CUSOLVER_STATUS_NOT_INITIALIZED = 1, CUSOLVER_STATUS_ALLOC_FAILED = 2,
    CUSOLVER_STATUS_INVALID_VALUE = 3, CUSOLVER_STATUS_NOT_SUPPORTED = 9 };
enum { CUSOLVER_EIG_MODE_NOVECTOR = 0, CUSOLVER_EIG_MODE_VECTOR = 1 };
/* Fill modes, sides, operations and data types are cuBLAS's. */
enum {
    TD_FILL_LOWER = 0,
    TD_FILL_UPPER = 1,
    TD_SIDE_LEFT = 0,
    TD_SIDE_RIGHT = 1,
    TD_OP_N = 0,
    TD_OP_T = 1,
    TD_OP_C = 2
};

/* X(needed, name, (arguments)): the untyped functions; all return a status. */
#define TD_X_WORK size_t *device_bytes, size_t *host_bytes
#define TD_X_BUFFERS void *device, size_t device_bytes, void *host, size_t host_bytes, int *info
#define TD_SOLVER_SYMBOLS(X)                                                                                           \
    X(1, int, cusolverGetVersion, (int *version))                                                                      \
    X(1, int, cusolverDnCreate, (cusolverDnHandle_t *handle))                                                          \
    X(1, int, cusolverDnDestroy, (cusolverDnHandle_t handle))                                                          \
    X(1, int, cusolverDnSetStream, (cusolverDnHandle_t handle, CUstream stream))                                       \
    X(1, int, cusolverDnCreateParams, (cusolverDnParams_t *params))                                                    \
    X(1, int, cusolverDnDestroyParams, (cusolverDnParams_t params))                                                    \
    X(1, int, cusolverDnCreateSyevjInfo, (syevjInfo_t *info))                                                          \
    X(1, int, cusolverDnDestroySyevjInfo, (syevjInfo_t info))                                                          \
    X(1, int, cusolverDnCreateGesvdjInfo, (gesvdjInfo_t *info))                                                        \
    X(1, int, cusolverDnDestroyGesvdjInfo, (gesvdjInfo_t info))                                                        \
    X(1, int, cusolverDnXsyevd_bufferSize, (cusolverDnHandle_t handle, cusolverDnParams_t params, int jobz, int uplo,  \
      int64_t n, int type, const void *a, int64_t lda, int w_type, const void *w, int compute, TD_X_WORK))             \
    X(1, int, cusolverDnXsyevd, (cusolverDnHandle_t handle, cusolverDnParams_t params, int jobz, int uplo, int64_t n,  \
      int type, void *a, int64_t lda, int w_type, void *w, int compute, TD_X_BUFFERS))                                 \
    X(1, int, cusolverDnXgesvd_bufferSize, (cusolverDnHandle_t handle, cusolverDnParams_t params, signed char jobu,    \
      signed char jobvt, int64_t m, int64_t n, int type, const void *a, int64_t lda, int s_type, const void *s,        \
      int u_type, const void *u, int64_t ldu, int vt_type, const void *vt, int64_t ldvt, int compute, TD_X_WORK))      \
    X(1, int, cusolverDnXgesvd, (cusolverDnHandle_t handle, cusolverDnParams_t params, signed char jobu,               \
      signed char jobvt, int64_t m, int64_t n, int type, void *a, int64_t lda, int s_type, void *s, int u_type,        \
      void *u, int64_t ldu, int vt_type, void *vt, int64_t ldvt, int compute, TD_X_BUFFERS))                           \
    X(1, int, cusolverDnXgesvdp_bufferSize, (cusolverDnHandle_t handle, cusolverDnParams_t params, int jobz, int econ, \
      int64_t m, int64_t n, int type, const void *a, int64_t lda, int s_type, const void *s, int u_type,               \
      const void *u, int64_t ldu, int v_type, const void *v, int64_t ldv, int compute, TD_X_WORK))                     \
    X(1, int, cusolverDnXgesvdp, (cusolverDnHandle_t handle, cusolverDnParams_t params, int jobz, int econ, int64_t m, \
      int64_t n, int type, void *a, int64_t lda, int s_type, void *s, int u_type, void *u, int64_t ldu, int v_type,    \
      void *v, int64_t ldv, int compute, TD_X_BUFFERS, double *h_err_sigma))                                           \
    X(0, int, cusolverDnXgeev_bufferSize, (cusolverDnHandle_t handle, cusolverDnParams_t params, int jobvl, int jobvr, \
      int64_t n, int type, const void *a, int64_t lda, int w_type, const void *w, int vl_type, const void *vl,         \
      int64_t ldvl, int vr_type, const void *vr, int64_t ldvr, int compute, TD_X_WORK))                                \
    X(0, int, cusolverDnXgeev, (cusolverDnHandle_t handle, cusolverDnParams_t params, int jobvl, int jobvr, int64_t n, \
      int type, void *a, int64_t lda, int w_type, void *w, int vl_type, void *vl, int64_t ldvl, int vr_type, void *vr, \
      int64_t ldvr, int compute, TD_X_BUFFERS))

/* X(member, name of the real functions, of the complex ones, (arguments)): cusolverDn followed by S, D or C, Z. */
#define TD_SOLVER_TYPED(X)                                                                                             \
    X(potrf_size, potrf_bufferSize, potrf_bufferSize,                                                                  \
      (cusolverDnHandle_t handle, int uplo, int n, void *a, int lda, int *lwork))                                      \
    X(potrf, potrf, potrf,                                                                                             \
      (cusolverDnHandle_t handle, int uplo, int n, void *a, int lda, void *work, int lwork, int *info))                \
    X(potrf_batched, potrfBatched, potrfBatched,                                                                       \
      (cusolverDnHandle_t handle, int uplo, int n, void **a, int lda, int *info, int batch))                           \
    X(getrf_size, getrf_bufferSize, getrf_bufferSize,                                                                  \
      (cusolverDnHandle_t handle, int m, int n, void *a, int lda, int *lwork))                                         \
    X(getrf, getrf, getrf,                                                                                             \
      (cusolverDnHandle_t handle, int m, int n, void *a, int lda, void *work, int *pivots, int *info))                 \
    X(geqrf_size, geqrf_bufferSize, geqrf_bufferSize,                                                                  \
      (cusolverDnHandle_t handle, int m, int n, void *a, int lda, int *lwork))                                         \
    X(geqrf, geqrf, geqrf,                                                                                             \
      (cusolverDnHandle_t handle, int m, int n, void *a, int lda, void *tau, void *work, int lwork, int *info))        \
    X(orgqr_size, orgqr_bufferSize, ungqr_bufferSize,                                                                  \
      (cusolverDnHandle_t handle, int m, int n, int k, const void *a, int lda, const void *tau, int *lwork))           \
    X(orgqr, orgqr, ungqr,                                                                                             \
      (cusolverDnHandle_t handle, int m, int n, int k, void *a, int lda, const void *tau, void *work, int lwork,       \
       int *info))                                                                                                     \
    X(ormqr_size, ormqr_bufferSize, unmqr_bufferSize,                                                                  \
      (cusolverDnHandle_t handle, int side, int trans, int m, int n, int k, const void *a, int lda, const void *tau,   \
       const void *c, int ldc, int *lwork))                                                                            \
    X(ormqr, ormqr, unmqr,                                                                                             \
      (cusolverDnHandle_t handle, int side, int trans, int m, int n, int k, const void *a, int lda, const void *tau,   \
       void *c, int ldc, void *work, int lwork, int *info))                                                            \
    X(sytrd_size, sytrd_bufferSize, hetrd_bufferSize,                                                                  \
      (cusolverDnHandle_t handle, int uplo, int n, const void *a, int lda, const void *d, const void *e,               \
       const void *tau, int *lwork))                                                                                   \
    X(sytrd, sytrd, hetrd,                                                                                             \
      (cusolverDnHandle_t handle, int uplo, int n, void *a, int lda, void *d, void *e, void *tau, void *work,          \
       int lwork, int *info))                                                                                          \
    X(syevj_size, syevj_bufferSize, heevj_bufferSize,                                                                  \
      (cusolverDnHandle_t handle, int jobz, int uplo, int n, const void *a, int lda, const void *w, int *lwork,        \
       syevjInfo_t params))                                                                                            \
    X(syevj, syevj, heevj,                                                                                             \
      (cusolverDnHandle_t handle, int jobz, int uplo, int n, void *a, int lda, void *w, void *work, int lwork,         \
       int *info, syevjInfo_t params))                                                                                 \
    X(syevj_batched_size, syevjBatched_bufferSize, heevjBatched_bufferSize,                                            \
      (cusolverDnHandle_t handle, int jobz, int uplo, int n, const void *a, int lda, const void *w, int *lwork,        \
       syevjInfo_t params, int batch))                                                                                 \
    X(syevj_batched, syevjBatched, heevjBatched,                                                                       \
      (cusolverDnHandle_t handle, int jobz, int uplo, int n, void *a, int lda, void *w, void *work, int lwork,         \
       int *info, syevjInfo_t params, int batch))                                                                      \
    X(gesvdj_size, gesvdj_bufferSize, gesvdj_bufferSize,                                                               \
      (cusolverDnHandle_t handle, int jobz, int econ, int m, int n, const void *a, int lda, const void *s,             \
       const void *u, int ldu, const void *v, int ldv, int *lwork, gesvdjInfo_t params))                               \
    X(gesvdj, gesvdj, gesvdj,                                                                                          \
      (cusolverDnHandle_t handle, int jobz, int econ, int m, int n, void *a, int lda, void *s, void *u, int ldu,       \
       void *v, int ldv, void *work, int lwork, int *info, gesvdjInfo_t params))                                       \
    X(gesvdj_batched_size, gesvdjBatched_bufferSize, gesvdjBatched_bufferSize,                                         \
      (cusolverDnHandle_t handle, int jobz, int m, int n, const void *a, int lda, const void *s, const void *u,        \
       int ldu, const void *v, int ldv, int *lwork, gesvdjInfo_t params, int batch))                                   \
    X(gesvdj_batched, gesvdjBatched, gesvdjBatched,                                                                    \
      (cusolverDnHandle_t handle, int jobz, int m, int n, void *a, int lda, void *s, void *u, int ldu, void *v,        \
       int ldv, void *work, int lwork, int *info, gesvdjInfo_t params, int batch))

typedef struct td_solver_lib {
    TD_SOLVER_SYMBOLS(TD_CUDA_LIB_MEMBER)
#define TD_SOLVER_MEMBER(member, real, complex, args) int(*member[4]) args;
    TD_SOLVER_TYPED(TD_SOLVER_MEMBER)
#undef TD_SOLVER_MEMBER
    cusolverDnHandle_t handle;
    cusolverDnParams_t params;
    syevjInfo_t syevj_info;
    gesvdjInfo_t gesvdj_info;
    pthread_mutex_t lock;
} td_solver_lib_t;

/* One call of a target. run enqueues it under the library's lock, the handle has the stream; work: the scratch,
 * aligned to 256 bytes. An empty batch does not come that far. */
typedef struct td_solver_call td_solver_call_t;
struct td_solver_call {
    td_kernel_t base;
    td_cuda_device_t *device;
    td_solver_lib_t *lib;
    td_linalg_t l;
    int t, data, real; /* number of the element type in tables of four; cudaDataType of elements, of real values */
    uint64_t elem, real_bytes; /* bytes of one */
    uint64_t a_bytes;  /* of one matrix */
    int from, to;      /* what is copied before: operand's and result's buffer */
    uint64_t copy_bytes;
    td_status_t (*run)(const td_solver_call_t *c, td_stream_t *s, void *const *bufs, void *work, td_err_t *err);
    int lwork;         /* elements */
    uint64_t work_at, more_at; /* in the scratch */
    size_t device_bytes, host_bytes; /* of the 64-bit functions */
    void *host;        /* in the arena; used during calls only, so under the lock */
    CUfunction pointers; /* with batched functions that take them */
    bool batched;
    uint64_t u_bytes, v_bytes; /* of one item's singular or eigenvectors */
    uint64_t u_all, v_all;     /* of the results that hold them */
    bool w_real;               /* geev: eigenvalues of real matrices as 2n reals */
    double sigma;              /* gesvdp: an error bound that nobody reads */
};

/* Checks, sizes, queries for one target; fills run and *scratch. */
typedef td_status_t (*td_solver_prepare_fn)(td_solver_call_t *c, const td_custom_call_desc_t *d, td_arena_t *arena,
                                            uint64_t *scratch, td_err_t *err);
td_status_t td_cuda_solver_lower(td_cuda_device_t *d, td_solver_prepare_fn prepare, const td_custom_call_desc_t *desc,
                                 td_arena_t *arena, td_kernel_t **out, uint64_t *out_scratch, td_err_t *err);
#define TD_SOLVER_TARGET(name)                                                                         \
    td_status_t td_cuda_##name(td_solver_call_t *c, const td_custom_call_desc_t *d, td_arena_t *arena, \
                               uint64_t *scratch, td_err_t *err)
TD_SOLVER_TARGET(potrf);
TD_SOLVER_TARGET(getrf);
TD_SOLVER_TARGET(geqrf);
TD_SOLVER_TARGET(orgqr);
TD_SOLVER_TARGET(ormqr);
TD_SOLVER_TARGET(sytrd);
TD_SOLVER_TARGET(syevd);
TD_SOLVER_TARGET(gesvd);
TD_SOLVER_TARGET(gesvdj);
TD_SOLVER_TARGET(gesvdp);
TD_SOLVER_TARGET(geev);

/* TD_OK, or "call: CUSOLVER_STATUS_... (n)". */
td_status_t td_solver_check(int r, const char *call, td_err_t *err);
/* After c->l is known: types, sizes, the copy of operand 0 to result 0. */
void td_solver_sizes(td_solver_call_t *c, const td_custom_call_desc_t *d);
/* The same for device_bytes, and host_bytes in the arena. */
td_status_t td_solver_work64(td_solver_call_t *c, td_arena_t *arena, uint64_t *scratch, td_err_t *err);
/* Room for lwork elements and, at more_at, for an info that nobody reads. */
td_status_t td_solver_work(td_solver_call_t *c, uint64_t *scratch, td_err_t *err);
/* Item b of an array with that many bytes per item. */
static inline void *td_solver_at(void *base, int64_t b, uint64_t bytes) { return td_at(base, (uint64_t)b * bytes); }
static inline int td_solver_ld(int n) { return n > 1 ? n : 1; }

#endif
