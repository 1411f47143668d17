/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/host/library.h"

typedef td_status_t (*lower_fn)(td_device_t *dev, const void *desc, td_arena_t *arena, td_kernel_t **out,
                                uint64_t *out_scratch, td_err_t *err);
static const lower_fn rows[TD_LIBRARY_OP_COUNT] = {
    [TD_OP_GEMM] = td_host_gemm_lower,
    [TD_OP_NORM] = td_host_norm_lower,
    [TD_OP_CONV] = td_host_conv_lower,
    [TD_OP_FFT] = td_host_fft_lower,
    [TD_OP_TRIANGULAR_SOLVE] = td_host_triangular_lower,
    [TD_OP_TOPK] = td_host_topk_lower,
    [TD_OP_ATTENTION] = td_host_attention_lower,
    [TD_OP_CUSTOM_CALL] = td_host_custom_lower,
};

td_status_t td_host_library_lower(td_device_t *dev, td_library_op_t op, const void *desc, td_arena_t *arena,
                                  td_kernel_t **out, uint64_t *out_scratch, td_err_t *err) {
    if (op >= TD_LIBRARY_OP_COUNT || !rows[op])
        return td_fail(err, TD_UNSUPPORTED, "library operation %d is not supported by the host device", (int)op);
    return rows[op](dev, desc, arena, out, out_scratch, err);
}
