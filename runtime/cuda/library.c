/* SPDX-License-Identifier: Apache-2.0 */
/* Library operations, each by a library of its own that is loaded when a program needs it. */
#include "runtime/cuda/cuda.h"

static const struct { const char *op, *library; } names[TD_LIBRARY_OP_COUNT] = {
    [TD_OP_GEMM] = {"matrix products", "cuBLASLt"}, [TD_OP_NORM] = {"normalisations", "cuDNN"},
    [TD_OP_CONV] = {"convolutions", "cuDNN"}, [TD_OP_FFT] = {"Fourier transforms", "cuFFT"},
    [TD_OP_TRIANGULAR_SOLVE] = {"triangular systems", "cuBLAS"}, [TD_OP_TOPK] = {"top-k", "a kernel of XLA's own"},
    [TD_OP_ATTENTION] = {"attention", "cuDNN"}, [TD_OP_CUSTOM_CALL] = {"custom calls", "the handler of that name"},
};

td_status_t td_cuda_library_lower(td_device_t *dev, td_library_op_t op, const void *desc, td_arena_t *arena,
                                  td_kernel_t **out, uint64_t *out_scratch, td_err_t *err) {
    (void)dev, (void)desc, (void)arena, (void)out, (void)out_scratch;
    if ((unsigned)op >= TD_LIBRARY_OP_COUNT) return td_fail(err, TD_INTERNAL, "library operation %d", (int)op);
    if (op == TD_OP_CUSTOM_CALL) {
        const td_custom_call_desc_t *c = desc;
        return td_fail(err, TD_UNSUPPORTED, "custom call '%s': this build has no CUDA handlers", c->target);
    }
    return td_fail(err, TD_UNSUPPORTED, "%s take %s, which this build does not call yet on CUDA devices", names[op].op,
                   names[op].library);
}
