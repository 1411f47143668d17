/* SPDX-License-Identifier: Apache-2.0 */
/* The k first of a row: what the library operation and the HLO opcode share. Thread: any. */
#ifndef TD_RUNTIME_HOST_TOPK_H
#define TD_RUNTIME_HOST_TOPK_H

#include "runtime/library.h"

/* Element type and sizes; out_scratch: bytes td_topk_row needs. */
td_status_t td_topk_check(const td_topk_desc_t *d, uint64_t *out_scratch, td_err_t *err);
/* Element i of the row is at row + i * stride elements, results likewise. Sub-byte types: one byte each. */
void td_topk_row(const td_topk_desc_t *d, const void *row, int64_t stride, void *values, int64_t value_stride,
                 int32_t *positions, int64_t position_stride, void *scratch);

#endif
