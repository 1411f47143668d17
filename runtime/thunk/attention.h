/* SPDX-License-Identifier: Apache-2.0 */
/* From cuDNN's fused-attention custom calls (__cudnn$fmha…) to td_attention_desc_t. */
#ifndef TD_RUNTIME_THUNK_ATTENTION_H
#define TD_RUNTIME_THUNK_ATTENTION_H

#include "runtime/library.h"

/* Is it one of the targets described below? */
bool td_attention_target(const char *target);
/* Buffers are numbered operands first, then the elements of the result tuple. Refuses by name what the device
 * cannot do: dropout, alibi, score functions. Thread: any. */
td_status_t td_attention_describe(const td_hlo_instr_t *instr, td_attention_desc_t *out, td_err_t *err);

#endif
