/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/host/windows.h"

/* Window positions times places: padding makes windows of any size legal, and this many steps are hours. */
#define MAX_STEPS (1ull << 44)

static td_status_t check_dim(const td_hlo_instr_t *instr, uint32_t i, int64_t in, int64_t out, td_err_t *err) {
    const td_window_dim_t *w = &instr->window.dims[i];
    const int64_t far = 1ll << 56;
    TD_NEED(w->size >= 1 && w->stride >= 1 && w->window_dilation >= 1 && w->base_dilation >= 1 && w->size < far &&
                w->stride < far && w->window_dilation < far && w->base_dilation < far && w->pad_low > -far &&
                w->pad_low < far && w->pad_high > -far && w->pad_high < far, "window dimension %u", i);
    __int128 base = in ? (__int128)(in - 1) * w->base_dilation + 1 : 0;
    base += (__int128)w->pad_low + w->pad_high;
    __int128 size = (__int128)(w->size - 1) * w->window_dilation + 1;
    __int128 n = base < size ? 0 : (base - size) / w->stride + 1;
    TD_NEED(base < far && size < far && n == out, "window of dimension %u does not give %lld", i, (long long)out);
    return TD_OK;
}

td_status_t td_windows_make(td_windows_t *w, const td_hlo_instr_t *instr, const td_shape_t *base,
                            const td_shape_t *places, td_arena_t *arena, td_err_t *err) {
    uint64_t positions = 1, steps;
    TD_NEED(base->rank == instr->window.n && places->rank == base->rank, "window of rank %u over an array of rank %u",
            instr->window.n, base->rank);
    for (uint32_t i = 0; i < base->rank; i++) {
        td_status_t st = check_dim(instr, i, base->dims[i], places->dims[i], err);
        if (st) return st;
        TD_NEED(td_mul_u64(positions, (uint64_t)instr->window.dims[i].size, &positions) && positions < 1ull << 62,
                "window is too large");
    }
    TD_NEED_AS(TD_LIMIT, td_mul_u64(positions, (uint64_t)places->count, &steps) && steps <= MAX_STEPS,
               "window is too large");
    td_window_dim_t *dims = TD_NEW_N(arena, td_window_dim_t, base->rank + 1);
    int64_t *sizes = TD_NEW_N(arena, int64_t, 2 * base->rank + 1);
    if (!dims || !sizes) return td_arena_fail(arena, err);
    for (uint32_t i = 0; i < base->rank; i++) {
        dims[i] = instr->window.dims[i];
        sizes[i] = base->dims[i];
        sizes[base->rank + i] = places->dims[i];
    }
    *w = (td_windows_t){.rank = base->rank, .dims = dims, .base = sizes, .places = sizes + base->rank,
                        .positions = (int64_t)positions, .count = places->count};
    return TD_OK;
}

void td_windows_starts(const td_windows_t *w, int64_t first, size_t n, int64_t *at) {
    for (size_t i = 0; i < n; i++) {
        int64_t x = first + (int64_t)i;
        for (uint32_t d = w->rank; d-- > 0;) {
            at[d * TD_PW_TILE + i] = x % w->places[d] * w->dims[d].stride - w->dims[d].pad_low;
            x /= w->places[d];
        }
    }
}

size_t td_windows_offsets(const td_windows_t *w, const int64_t *strides, const int64_t *pos, const int64_t *at,
                          size_t n, int64_t *off) {
    size_t inside = 0;
    for (size_t i = 0; i < n; i++) off[i] = 0;
    for (uint32_t d = 0; d < w->rank; d++) {
        const td_window_dim_t *x = &w->dims[d];
        int64_t step = (x->reversal ? x->size - 1 - pos[d] : pos[d]) * x->window_dilation, dil = x->base_dilation;
        for (size_t i = 0; i < n; i++) {
            int64_t p = at[d * TD_PW_TILE + i] + step;
            bool hole = dil > 1 && p >= 0 && p % dil;
            if (dil > 1) p = p < 0 ? -1 : p / dil;
            bool in = !hole && p >= 0 && p < w->base[d];
            off[i] = in && off[i] >= 0 ? off[i] + p * strides[d] : -1;
        }
    }
    for (size_t i = 0; i < n; i++) inside += off[i] >= 0;
    return inside;
}

void td_windows_next(const td_windows_t *w, int64_t *pos) {
    for (uint32_t d = w->rank; d-- > 0 && ++pos[d] == w->dims[d].size;) pos[d] = 0;
}
