/* SPDX-License-Identifier: Apache-2.0 */
/* reduce-window where the contiguous dimension is not windowed (pooling over channels-last images): whole rows
 * are combined at once, on all cores. */
#ifndef TD_RUNTIME_HOST_WINDOW_ROWS_H
#define TD_RUNTIME_HOST_WINDOW_ROWS_H

#include "runtime/host/windows.h"

typedef struct td_window_rows {
    int64_t cols;                  /* of a row; 0: the instruction is not of this form */
    uint32_t size, reg_size, outer; /* bytes of an element and of an accumulator; dimensions but the row's */
    td_type_t type;
    uint32_t dim[TD_LIMIT_RANK];   /* logical numbers of the outer dimensions */
    int64_t in_stride[TD_LIMIT_RANK], out_stride[TD_LIMIT_RANK], rows;
    uint64_t worker;               /* bytes of one worker's scratch, from `at` on */
    uint64_t at;
} td_window_rows_t;

/* Fills r; adds to *scratch what it needs. Single arrays with a plain combiner only. */
bool td_window_rows_fit(td_window_rows_t *r, const td_windows_t *w, const td_combiner_t *f, const td_shape_t *in,
                        const td_shape_t *out, uint64_t *scratch);
void td_window_rows_run(const td_window_rows_t *r, const td_windows_t *w, const td_combiner_t *f, const void *in,
                        const void *init, void *out, char *scratch);

#endif
