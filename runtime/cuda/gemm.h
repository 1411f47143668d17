/* SPDX-License-Identifier: Apache-2.0 */
/* A matrix product as cuBLASLt has it. The library's results are column-major: a row-major D is the column-major
 * D^T = B^T A^T, so the operands change places. Matrices that lie the other way than D are transposed by the call. */
#ifndef TD_RUNTIME_CUDA_GEMM_H
#define TD_RUNTIME_CUDA_GEMM_H

#include "runtime/cuda/blas.h"

/* Matrices of programs lie at multiples of this; slices of them need not. The library's fast kernels ask for it. */
enum { TD_GEMM_ALIGNMENT = 16, TD_GEMM_WORKSPACE_ALIGNMENT = 256, TD_GEMM_POINTERS = 7 };

typedef struct td_gemm_choice {
    bool valid;
    cublasLtMatmulAlgo_t algo;
    size_t workspace;
} td_gemm_choice_t;

typedef struct td_cuda_gemm {
    td_kernel_t base;
    td_cuda_device_t *device;
    td_blaslt_t *lt;
    char text[96]; /* for messages: "matrix product bf16[512,1024] x bf16[1024,64] -> f32, 8 times" */
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t layouts[4]; /* of the first and second operand, C, D */
    uint32_t operands[2];              /* their buffers: 0, 1 or 1, 0 */
    uint32_t n_bufs, n_pointers, amax; /* amax: its buffer, 0: none */
    struct { int attribute; uint32_t buffer; } pointers[TD_GEMM_POINTERS]; /* part of desc, set by each launch */
    bool empty;   /* no result */
    bool reads_c;
    _Alignas(16) char alpha[16], beta[16]; /* of the scale type */
    td_gemm_choice_t choices[2]; /* for matrices at multiples of TD_GEMM_ALIGNMENT, and for any */
    pthread_mutex_t lock; /* desc, from setting its pointers to the call */
} td_cuda_gemm_t;

#define TD_LT(g, err, name, ...) td_cuda_gemm_check((g), (g)->lt->name(__VA_ARGS__), #name, (err))
static inline td_status_t td_cuda_gemm_check(const td_cuda_gemm_t *g, cublasStatus_t r, const char *call,
                                             td_err_t *err) {
    return r ? td_blas_check(r, g->lt->cublasLtGetStatusName(r), call, g->text, err) : TD_OK;
}

/* Makes descriptors and choices; device and lt are set. What it made stays in g when it fails. */
td_status_t td_cuda_gemm_plan(td_cuda_gemm_t *g, const td_gemm_desc_t *d, td_err_t *err);

#endif
