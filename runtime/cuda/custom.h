/* SPDX-License-Identifier: Apache-2.0 */
/* Custom calls on the CUDA device: a user's handler, a built-in target through a library or a kernel of the runtime's
 * own, or, for what neither has, the host device. The context is current. */
#ifndef TD_RUNTIME_CUDA_CUSTOM_H
#define TD_RUNTIME_CUDA_CUSTOM_H

#include "runtime/cuda/cuda.h"
#include "runtime/cuda/solver.h"

typedef td_status_t (*td_cuda_custom_fn)(td_cuda_device_t *d, const td_custom_call_desc_t *desc, td_arena_t *arena,
                                         td_kernel_t **out, uint64_t *out_scratch, td_err_t *err);
typedef struct td_cuda_target {
    const char *target;
    td_solver_prepare_fn solver; /* one of these two */
    td_cuda_custom_fn lower;
    const char *how; /* for the documentation */
} td_cuda_target_t;
/* NULL past the last row. */
const td_cuda_target_t *td_cuda_target_at(uint32_t i);

#define TD_CUDA_TARGET(name)                                                                                           \
    td_status_t td_cuda_##name(td_cuda_device_t *d, const td_custom_call_desc_t *desc, td_arena_t *arena,              \
                               td_kernel_t **out, uint64_t *out_scratch, td_err_t *err)
/* builtin.c: kernels of own.h */
TD_CUDA_TARGET(threefry);
TD_CUDA_TARGET(lu_pivots);
TD_CUDA_TARGET(cholesky_update);
TD_CUDA_TARGET(nothing);
/* blas_factor.c: cuBLAS, or cuSOLVER where a batch is no one call */
TD_CUDA_TARGET(getrf_any);
TD_CUDA_TARGET(geqrf_any);
TD_CUDA_TARGET(syrk);
/* sparse.c, tridiagonal.c: cuSPARSE; sparse_convert.c: own kernels; geev_or_host: solver_values.c */
TD_CUDA_TARGET(sparse_product);
TD_CUDA_TARGET(sparse_convert);
TD_CUDA_TARGET(gtsv2);
TD_CUDA_TARGET(geev_or_host);
/* on_host.c: the stream is waited for, operands come down, the host device computes, results go up. One launch at a
 * time of each call. */
TD_CUDA_TARGET(on_host);

#endif
