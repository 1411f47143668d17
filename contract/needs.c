/* SPDX-License-Identifier: Apache-2.0 */
/* The libraries of a GPU runtime that an artifact's thunks call. The host device has its own. */
#include <string.h>

#include "contract/verdict.h"

static const struct {
    const char *library, *kind;
} needs[] = {
    {"cuBLASLt", "cublas_lt_matmul_thunk"},
    {"cuBLAS", "gemm_thunk"},
    {"cuBLAS", "triangular_solve_thunk"},
    {"cuDNN", "convolution_thunk"},
    {"cuDNN", "convolution_reorder_thunk"},
    {"cuDNN", "norm_thunk"},
    {"cuDNN", "cudnn_thunk"},
    {"cuFFT", "fft_thunk"},
    {"CUB", "cub_sort_thunk"},
    {"CUB", "cub_scan_thunk"},
    {"NCCL", "all_gather_thunk"},
    {"NCCL", "all_reduce_thunk"},
    {"NCCL", "reduce_scatter_thunk"},
    {"NCCL", "all_to_all_thunk"},
    {"NCCL", "ragged_all_to_all_thunk"},
    {"NCCL", "collective_permute_thunk"},
    {"NCCL", "collective_broadcast_thunk"},
    {"NCCL", "collective_group_thunk"},
    {"NCCL", "collective_kernel_thunk"},
    {"NCCL", "collective_reduce_thunk"},
    {"NCCL", "send_thunk"},
    {"NCCL", "recv_thunk"},
    {"NVSHMEM", "nvshmem_all_reduce_thunk"},
    {"NVSHMEM", "nvshmem_collective_permute_thunk"},
    {"NVSHMEM", "nvshmem_send_thunk"},
    {"NVSHMEM", "nvshmem_recv_thunk"},
};
enum { N = sizeof needs / sizeof *needs };

static bool needed(const td_scan_t *s, size_t i) {
    const td_ledger_item_t *it = td_ledger_named(td_ledger_type("xla.gpu.ThunkProto"), needs[i].kind);
    return it && s->found[td_ledger_index(it)].count;
}

const char *td_needed_library(const td_scan_t *s, uint32_t k) {
    const char *last = NULL;
    for (size_t i = 0; i < N; i++) { /* rows of one library stand together */
        if ((last && !strcmp(last, needs[i].library)) || !needed(s, i)) continue;
        last = needs[i].library;
        if (!k--) return last;
    }
    return NULL;
}
