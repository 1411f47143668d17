/* SPDX-License-Identifier: Apache-2.0 */
/* Which order a top-k instruction asks for: the opcode topk, or the custom call __gpu$TopK, which always takes the
 * largest; its text config may say `order = "TOTAL"` or `"PARTIAL"` (-0 equals +0). An attached comparator is that order
 * again and not needed. Thread: any; writes only smallest and zeros_equal. */
#ifndef TD_RUNTIME_TOPK_DESC_H
#define TD_RUNTIME_TOPK_DESC_H

#include "runtime/library.h"

bool td_is_topk_call(const td_hlo_instr_t *instr);
td_status_t td_topk_order(const td_hlo_instr_t *instr, td_topk_desc_t *out, td_err_t *err);

#endif
