/* SPDX-License-Identifier: Apache-2.0 */
/* The built-in linear algebra targets as plain values: operands, results and attributes of a custom call, checked.
 * Both devices lower from these, so a program that one refuses for its shapes the other refuses too. What each
 * target's buffers are stands at its function; matrices as in shapes.h. Facts: jaxlib/gpu/solver_kernels_ffi.cc,
 * linalg_kernels.cu.cc, prng_kernels.cu.cc, sparse_kernels.{h,cc}. Thread: any. */
#ifndef TD_RUNTIME_FFI_LINALG_H
#define TD_RUNTIME_FFI_LINALG_H

#include "runtime/ffi/shapes.h"

typedef struct td_linalg {
    td_mats_t a; /* the matrices, in the column-major view; their batch is the call's */
    td_mats_t c; /* ormqr: what is multiplied */
    int k;       /* reflectors; where a result has min(rows, cols) values, that */
    bool lower, left, transpose;
    bool full, vectors; /* singular vectors: square U and V; wanted at all */
    int algorithm;      /* syevd */
} td_linalg_t;

#define TD_LINALG(name) td_status_t td_linalg_##name(const td_custom_call_desc_t *d, td_linalg_t *out, td_err_t *err)
/* a [B,n,n] -> out, info s32 [B]; attribute lower */
TD_LINALG(potrf);
/* a [B,m,n] -> LU, pivots s32 [B,min(m,n)], info s32 [B] */
TD_LINALG(getrf);
/* a [B,m,n] -> out, tau [B,min(m,n)] */
TD_LINALG(geqrf);
/* a [B,m,n], tau [B,k] -> Q [B,m,n], m >= n >= k */
TD_LINALG(orgqr);
/* a [B,q,>=k], tau [B,k], c [B,m,n] -> [B,m,n]; attributes left (then q = m, else q = n), transpose */
TD_LINALG(ormqr);
/* a [B,n,n] -> vectors, w real [B,n], info s32 [B]; attributes lower, algorithm 0, 1 or 2 */
TD_LINALG(syevd);
/* a [B,n,n] -> out, d real [B,n], e real [B,n-1], tau [B,n-1], info s32 [B]; attribute lower */
TD_LINALG(sytrd);
/* a [B,m,k] or with transpose [B,k,m], c [B,m,m], alpha, beta -> [B,m,m]; all row-major, so `a` has the view's
 * rows and cols: k = its rows without transpose */
TD_LINALG(syrk);
/* a [B,m,n], m >= n -> out, s real [B,n], u [B,m,m or n], vt [B,n,n], info s32 [B]; attributes full_matrices,
 * compute_uv, transposed: then all arrays are row-major and hold the view's transposes */
TD_LINALG(gesvd);
/* a [B,m,n] -> out, s real [B,k], u [B,m,m or k], v [B,n,n or k], info s32 [B]; attributes full_matrices, compute_uv */
TD_LINALG(gesvdj);
/* a [B,n,n] -> out, w complex [B,n] (of a real a also real [B,2n]: `algorithm` is then 1), vl, vr [B,n,n], info s32
 * [B]; attributes left, right: vectors that are wanted (`left`, `vectors`) */
TD_LINALG(geev);
/* dl, d, du [B,m], b [B,m,n] -> x [B,m,n]: `a` is b */
TD_LINALG(tridiagonal);
/* R [n,n] row-major, x [n] -> R', x'; f32 and f64, no batch but 0 or 1 */
TD_LINALG(cholesky_update);

/* pivots s32 [B,p] -> permutation s32 [B,q], q >= p */
typedef struct td_pivots {
    int64_t batch, p, q;
} td_pivots_t;
td_status_t td_linalg_pivots(const td_custom_call_desc_t *d, td_pivots_t *out, td_err_t *err);

/* values [nnz], columns s32 [nnz], row pointers s32 [n+1], b [n] -> x [n]; attributes tol f64, reorder s32 */
typedef struct td_spsolve {
    td_type_t type;
    int64_t n, nnz;
    double tol;
    int reorder;
} td_spsolve_t;
td_status_t td_linalg_csrlsvqr(const td_custom_call_desc_t *d, td_spsolve_t *out, td_err_t *err);

/* key0, key1, data0, data1 -> out0, out1; u32, all of one shape. out: elements of each. */
td_status_t td_linalg_threefry(const td_custom_call_desc_t *d, int64_t *out, td_err_t *err);

/* cusparse_{csr,coo}_{todense,fromdense,matvec,matmat}_ffi: runtime/ffi/sparse.c tells the buffers. */
typedef enum td_sparse_op { TD_SPARSE_TODENSE, TD_SPARSE_FROMDENSE, TD_SPARSE_MATVEC, TD_SPARSE_MATMAT } td_sparse_op_t;
typedef struct td_sparse {
    td_sparse_op_t op;
    bool csr, transpose, conjugate;
    td_type_t type, index;
    int64_t rows, cols, nnz, k; /* k: columns of B and C */
    int64_t batch, a_stride, b_stride, c_stride;
} td_sparse_t;
td_status_t td_linalg_sparse(const td_custom_call_desc_t *d, td_sparse_t *out, td_err_t *err);

#endif
