/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the macro-op table, one per opcode; each is defined in its family's file. */
#ifndef TD_RUNTIME_HOST_BOX_H
#define TD_RUNTIME_HOST_BOX_H

#include "runtime/host/host_op.h"

extern const td_host_op_kind_t td_macro_transpose, td_macro_slice, td_macro_reverse, td_macro_broadcast, td_macro_copy,
    td_macro_reshape, td_macro_concatenate, td_macro_pad, td_macro_dynamic_slice, td_macro_dynamic_update_slice,
    td_macro_gather, td_macro_scatter, td_macro_sort, td_macro_reduce, td_macro_reduce_window, td_macro_dot;

/* Copies an n-dimensional box of elements: dst and src have strides in bytes per dimension (may be
 * negative or 0). Dimensions are reordered and merged at prepare time. */
typedef struct td_box {
    uint32_t rank;
    uint32_t elem;        /* bytes per element: 1, 2, 4, 8 or 16 */
    const int64_t *dims;  /* outermost first; the last is the inner run */
    const int64_t *dst, *src; /* strides in bytes */
    int64_t dst_offset, src_offset;
} td_box_t;
td_status_t td_box_make(td_arena_t *arena, uint32_t rank, const int64_t *dims, uint32_t elem, const int64_t *dst,
                        const int64_t *src, int64_t dst_offset, int64_t src_offset, const td_box_t **out, td_err_t *err);
void td_box_copy(const td_box_t *b, void *dst, const void *src);

enum { TD_BOX_RANK_MAX = 64 };

#endif
