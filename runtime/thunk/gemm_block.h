/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_RUNTIME_THUNK_GEMM_BLOCK_H
#define TD_RUNTIME_THUNK_GEMM_BLOCK_H

#include "runtime/library.h"

/* From the custom call __cudnn$blockScaledDot: operands lhs, rhs, lhs scales, rhs scales, [global scale]; result 0 is
 * D, result 1 a workspace. Thread: any. */
td_status_t td_gemm_block_describe(const td_hlo_instr_t *instr, td_gemm_desc_t *out, td_err_t *err);

#endif
