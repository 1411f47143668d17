/* SPDX-License-Identifier: Apache-2.0 */
#include "executable.pb-c.h"
#include "runtime/thunk/thunk.h"

#define KIND(name, WIRE, f, low) {name, XLA__GPU__THUNK_PROTO__IMPL_##WIRE, td_##f##_parse, low, td_##f##_enqueue, false}
#define ON_HOST(name, WIRE, f, low) {name, XLA__GPU__THUNK_PROTO__IMPL_##WIRE, td_##f##_parse, low, td_##f##_enqueue, true}
const td_thunk_kind_t td_thunk_kinds[] = {
    KIND("kernel", KERNEL_THUNK, kernel, td_kernel_thunk_lower),
    KIND("custom_kernel", CUSTOM_KERNEL_THUNK, custom_kernel, td_kernel_thunk_lower),
    KIND("device_to_device_copy", DEVICE_TO_DEVICE_COPY_THUNK, copy, NULL),
    KIND("device_to_host_copy", DEVICE_TO_HOST_COPY_THUNK, copy_to_host, NULL),
    KIND("host_to_device_copy", HOST_TO_DEVICE_COPY_THUNK, copy_to_device, NULL),
    KIND("copy", COPY_THUNK, copy_base, NULL),
    /* Fallback copy-done: a kind of its own for the end of a copy. Can be removed in November 2026. */
    KIND("copy_done", COPY_DONE_THUNK, copy_done, NULL),
    ON_HOST("rng_seed", RNG_SEED_THUNK, rng_seed, NULL),
    KIND("infeed", INFEED_THUNK, host_io, NULL),
    KIND("outfeed", OUTFEED_THUNK, host_io, NULL),
    KIND("host_send", HOST_SEND_THUNK, host_io, NULL),
    KIND("host_send_done", HOST_SEND_DONE_THUNK, host_io, NULL),
    KIND("host_recv", HOST_RECV_THUNK, host_io, NULL),
    KIND("host_recv_done", HOST_RECV_DONE_THUNK, host_io, NULL),
    KIND("host_execute_start", HOST_EXECUTE_START_THUNK, host_io, NULL),
    KIND("host_execute_done", HOST_EXECUTE_DONE_THUNK, host_io, NULL),
    KIND("memzero", MEMZERO_THUNK, memzero, NULL),
    KIND("memset32", MEMSET32BIT_VALUE_THUNK, memset32, NULL),
    KIND("sequential", SEQUENTIAL_THUNK, sequential, NULL),
    ON_HOST("conditional", CONDITIONAL_THUNK, conditional, NULL),
    KIND("while", WHILE_THUNK, while, NULL),
    KIND("replica_id", REPLICA_ID_THUNK, replica_id, NULL),
    KIND("partition_id", PARTITION_ID_THUNK, partition_id, NULL),
    KIND("async_start", ASYNC_START_THUNK, async_start, NULL),
    KIND("async_done", ASYNC_DONE_THUNK, async_done, NULL),
    KIND("cublas_lt_matmul", CUBLAS_LT_MATMUL_THUNK, gemm, td_gemm_lower),
    KIND("gemm", GEMM_THUNK, gemm_legacy, td_gemm_lower),
    ON_HOST("custom_call", CUSTOM_CALL_THUNK, custom_call, td_custom_call_lower),
    KIND("norm", NORM_THUNK, norm, td_norm_lower),
    KIND("cudnn", CUDNN_THUNK, cudnn, td_cudnn_lower),
    KIND("convolution", CONVOLUTION_THUNK, convolution, td_convolution_lower),
    KIND("convolution_reorder", CONVOLUTION_REORDER_THUNK, convolution_reorder, td_convolution_lower),
    KIND("fft", FFT_THUNK, fft, td_fft_lower),
    KIND("triangular_solve", TRIANGULAR_SOLVE_THUNK, triangular_solve, td_triangular_solve_lower),
    /* Fallback select-k: a kind of its own for top-k. Can be removed in April 2027. */
    KIND("select_k", SELECT_K_THUNK, select_k, td_select_k_lower),
    KIND("dynamic_slice_fusion", DYNAMIC_SLICE_FUSION_THUNK, slice_fusion, NULL),
    /* Fallback dynamic-memcpy: the slice is copied, not passed on. Can be removed in December 2026. */
    KIND("dynamic_memcpy", DYNAMIC_MEMCPY_THUNK, dynamic_memcpy, NULL),
};
const unsigned td_thunk_kind_count = sizeof td_thunk_kinds / sizeof *td_thunk_kinds;

const td_thunk_kind_t *td_thunk_kind_find(unsigned wire) {
    for (unsigned i = 0; i < td_thunk_kind_count; i++)
        if (td_thunk_kinds[i].wire == wire) return &td_thunk_kinds[i];
    return NULL;
}
