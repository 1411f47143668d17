/* SPDX-License-Identifier: Apache-2.0 */
/* Windows sliding over a padded, dilated array: which element lies at each window position.
 *
 * Worked on in tiles of window places (row-major in the windowed result), one window position at a time.
 * Positions in the padding or in the holes of a dilated base have no element. Thread: any, read only. */
#ifndef TD_RUNTIME_HOST_WINDOWS_H
#define TD_RUNTIME_HOST_WINDOWS_H

#include "runtime/host/macro_ops.h"

typedef struct td_windows {
    uint32_t rank;
    const td_window_dim_t *dims;
    const int64_t *base, *places; /* sizes of the array and of the windowed result */
    int64_t positions;            /* in one window */
    int64_t count;                /* places */
} td_windows_t;

/* Checks the instruction's window of `base` against `places`; what w needs of them is copied. */
td_status_t td_windows_make(td_windows_t *w, const td_hlo_instr_t *instr, const td_shape_t *base,
                            const td_shape_t *places, td_arena_t *arena, td_err_t *err);
/* at[d * TD_PW_TILE + i] = where the window at place first+i starts along d, in the dilated base. */
void td_windows_starts(const td_windows_t *w, int64_t first, size_t n, int64_t *at);
/* off[i] = offset of the element at window position pos, by strides of the base; -1 if there is none.
 * Returns how many have one. */
size_t td_windows_offsets(const td_windows_t *w, const int64_t *strides, const int64_t *pos, const int64_t *at,
                          size_t n, int64_t *off);
/* The next position, row-major; from the last, the first. */
void td_windows_next(const td_windows_t *w, int64_t *pos);

#endif
