/* SPDX-License-Identifier: Apache-2.0 */
/* Library operations, each by a library of its own that is loaded when a program needs it. */
#include "runtime/cuda/library.h"

#include "runtime/cuda/blas.h"
#include "runtime/cuda/dnn.h"

static const struct {
    td_cuda_lower_fn lower; /* NULL: this build does not have it */
    const char *op, *library;
} rows[TD_LIBRARY_OP_COUNT] = {
    [TD_OP_GEMM] = {td_cuda_gemm_lower, "matrix products", "cuBLASLt"},
    [TD_OP_NORM] = {td_cuda_norm_lower, "normalisations", "cuDNN"},
    [TD_OP_CONV] = {td_cuda_conv_lower, "convolutions", "cuDNN"},
    [TD_OP_FFT] = {td_cuda_fft_lower, "Fourier transforms", "cuFFT"},
    [TD_OP_TRIANGULAR_SOLVE] = {td_cuda_triangular_lower, "triangular systems", "cuBLAS"},
    [TD_OP_TOPK] = {td_cuda_topk_lower, "top-k", "a kernel of our own"},
    [TD_OP_ATTENTION] = {td_cuda_attention_lower, "attention", "cuDNN"},
    [TD_OP_CUSTOM_CALL] = {td_cuda_custom_lower, "custom calls", "the handler of that name"},
};

td_status_t td_cuda_library_lower(td_device_t *dev, td_library_op_t op, const void *desc, td_arena_t *arena,
                                  td_kernel_t **out, uint64_t *out_scratch, td_err_t *err) {
    td_cuda_device_t *d = (td_cuda_device_t *)dev;
    if ((unsigned)op >= TD_LIBRARY_OP_COUNT) return td_fail(err, TD_INTERNAL, "library operation %d", (int)op);
    if (rows[op].lower) {
        td_status_t st = td_cuda_enter(d, err);
        return st ? st : rows[op].lower(d, desc, arena, out, out_scratch, err);
    }
    return td_fail(err, TD_UNSUPPORTED, "%s take %s, which this build does not call yet on CUDA devices", rows[op].op,
                   rows[op].library);
}
