/* SPDX-License-Identifier: Apache-2.0 */
/* reduce-window: vectors over result elements, one step per window position.
 * Positions in the padding or in holes of a dilated base contribute the initial value. */
#include <string.h>

#include "runtime/host/macro_ops.h"

/* Window positions times results: padding makes windows of any size legal, and this many steps are hours. */
#define MAX_STEPS (1ull << 44)

typedef struct array {
    td_type_t type;
    uint32_t size, reg_size;
    int64_t stride[TD_LIMIT_RANK]; /* of the operand */
    td_dims_t result;
    uint64_t acc_at, x_at, raw_at;
} array_t;

typedef struct window {
    td_combiner_t f;
    array_t *arrays;
    uint32_t rank;
    const td_window_dim_t *dims;
    int64_t *in_dims;
    int64_t count, positions;
    bool convert;
    uint64_t at_at, off_at, pw_at; /* coordinates per dimension; offsets */
} window_t;

static td_status_t window_dim(const td_hlo_instr_t *instr, uint32_t i, td_err_t *err) {
    const td_window_dim_t *w = &instr->window.dims[i];
    const int64_t far = 1ll << 56;
    int64_t in = td_operand(instr, 0)->dims[i], out = td_result(instr, 0)->dims[i];
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

static td_status_t array(const td_hlo_instr_t *instr, uint32_t k, array_t *a, td_err_t *err) {
    const td_shape_t *s = td_operand(instr, k), *o = td_result(instr, k), *init = td_operand(instr, instr->n_operands / 2 + k);
    const td_shape_t *s0 = td_operand(instr, 0), *o0 = td_result(instr, 0);
    int64_t os[TD_LIMIT_RANK];
    TD_NEED(td_type_is_array(s->type) && s->type == o->type && s->type == init->type && init->rank == 0,
            "operand, initial value and result %u differ in type", k);
    TD_NEED(s->rank == instr->window.n && o->rank == s->rank && s0->rank == s->rank && o0->rank == s->rank, "rank of operand %u", k);
    td_shape_strides(s, a->stride);
    td_shape_strides(o, os);
    for (uint32_t i = 0; i < s->rank; i++) {
        TD_NEED(s->dims[i] == s0->dims[i] && o->dims[i] == o0->dims[i], "dimension %u of operand %u", i, k);
        td_dims_add(&a->result, o->dims[i], os[i]);
    }
    a->type = s->type;
    a->size = td_elem(s);
    return TD_OK;
}

td_status_t td_window_prepare(const td_hlo_instr_t *instr, td_arena_t *arena, void **out_state, uint64_t *out_scratch,
                              td_err_t *err) {
    uint32_t n = 0;
    td_status_t arity = td_reduction_arity(instr, &n, err);
    if (arity) return arity;
    td_type_t types[TD_MACRO_ARRAYS];
    window_t *w = TD_NEW(arena, window_t);
    if (!w || !(w->arrays = TD_NEW_N(arena, array_t, n))) return td_arena_fail(arena, err);
    for (uint32_t k = 0; k < n; k++) {
        td_status_t st = array(instr, k, &w->arrays[k], err);
        if (st) return st;
        types[k] = w->arrays[k].type;
    }
    td_status_t st = td_combiner_make(&w->f, instr->called[0], n, types, true, arena, err);
    if (st) return td_prefix(err, st, "%s", instr->name);
    w->rank = instr->window.n;
    w->dims = instr->window.dims;
    w->in_dims = TD_NEW_N(arena, int64_t, w->rank);
    if (!w->in_dims) return td_arena_fail(arena, err);
    uint64_t positions = 1;
    for (uint32_t i = 0; i < w->rank; i++) {
        if ((st = window_dim(instr, i, err))) return st;
        w->in_dims[i] = td_operand(instr, 0)->dims[i];
        TD_NEED(td_mul_u64(positions, (uint64_t)w->dims[i].size, &positions) && positions < 1ull << 62, "window is too large");
    }
    w->positions = (int64_t)positions;
    w->count = td_result(instr, 0)->count;
    uint64_t steps;
    TD_NEED_AS(TD_LIMIT, td_mul_u64(positions, (uint64_t)w->count, &steps) && steps <= MAX_STEPS, "window is too large");
    w->convert = w->f.fn && w->f.reg != types[0];
    *out_scratch = 0;
    bool ok = td_reserve(out_scratch, w->rank + 1, 8 * TD_PW_TILE, &w->at_at) && td_reserve(out_scratch, TD_PW_TILE, 8, &w->off_at) &&
              td_reserve(out_scratch, w->f.scratch, 1, &w->pw_at);
    for (uint32_t k = 0; k < n && ok; k++) {
        array_t *a = &w->arrays[k];
        a->reg_size = w->f.fn ? td_type_bytes(w->f.reg) : a->size;
        ok = td_reserve(out_scratch, TD_PW_TILE, 16, &a->acc_at) && td_reserve(out_scratch, TD_PW_TILE, 16, &a->x_at) &&
             td_reserve(out_scratch, TD_PW_TILE, 16, &a->raw_at);
    }
    TD_NEED_AS(TD_LIMIT, ok, "scratch overflows");
    *out_state = w;
    return TD_OK;
}

/* at[d][i] = where the window of result element first+i starts along d, in the dilated base. */
static void starts(const window_t *w, int64_t first, size_t n, int64_t *at) {
    for (size_t i = 0; i < n; i++) {
        int64_t x = first + (int64_t)i;
        for (uint32_t d = w->rank; d-- > 0;) {
            int64_t size = w->arrays[0].result.n[d];
            at[d * TD_PW_TILE + i] = x % size * w->dims[d].stride - w->dims[d].pad_low;
            x /= size;
        }
    }
}

/* off[i] = the operand's element, or -1. */
static void places(const window_t *w, const array_t *a, const int64_t *pos, const int64_t *at, size_t n, int64_t *off) {
    for (size_t i = 0; i < n; i++) off[i] = 0;
    for (uint32_t d = 0; d < w->rank; d++) {
        const td_window_dim_t *x = &w->dims[d];
        int64_t step = (x->reversal ? x->size - 1 - pos[d] : pos[d]) * x->window_dilation, dil = x->base_dilation;
        for (size_t i = 0; i < n; i++) {
            int64_t p = at[d * TD_PW_TILE + i] + step;
            bool hole = dil > 1 && p >= 0 && p % dil;
            if (dil > 1) p = p < 0 ? -1 : p / dil;
            bool in = !hole && p >= 0 && p < w->in_dims[d];
            off[i] = in && off[i] >= 0 ? off[i] + p * a->stride[d] : -1;
        }
    }
}

static const void *fetch(const window_t *w, const array_t *a, const void *base, const void *init, const int64_t *off,
                         size_t n, char *s) {
    char *x = s + a->raw_at;
    for (size_t i = 0; i < n; i++)
        memcpy(x + i * a->size, off[i] < 0 ? init : (const char *)base + off[i] * a->size, a->size);
    if (!w->convert) return x;
    td_convert_array(a->type, x, w->f.reg, s + a->x_at, n);
    return s + a->x_at;
}

static void start(const window_t *w, const array_t *a, const void *init, size_t n, char *s) {
    char one[16];
    if (w->convert) {
        td_convert_array(a->type, init, w->f.reg, one, 1);
        init = one;
    }
    td_fill(a->reg_size, init, n, s + a->acc_at);
}

static void finish(const window_t *w, const array_t *a, void *out, int64_t first, size_t n, char *s) {
    int64_t *off = (int64_t *)(void *)(s + w->off_at);
    const char *p = s + a->acc_at;
    if (w->convert) {
        td_convert_array(w->f.reg, p, a->type, s + a->raw_at, n);
        p = s + a->raw_at;
    }
    td_dims_offsets(&a->result, first, n, off);
    td_put(a->size, p, off, n, out);
}

void td_window_run(const void *state, const void *const *in, void *const *out, void *scratch) {
    const window_t *w = state;
    char *s = scratch;
    int64_t *at = (int64_t *)(void *)(s + w->at_at), *off = (int64_t *)(void *)(s + w->off_at);
    for (int64_t first = 0; first < w->count; first += TD_PW_TILE) {
        size_t n = w->count - first < TD_PW_TILE ? (size_t)(w->count - first) : TD_PW_TILE;
        int64_t pos[TD_LIMIT_RANK] = {0};
        const void *x[TD_MACRO_ARRAYS];
        void *acc[TD_MACRO_ARRAYS];
        starts(w, first, n, at);
        for (uint32_t k = 0; k < w->f.n; k++) {
            start(w, &w->arrays[k], in[w->f.n + k], n, s);
            acc[k] = s + w->arrays[k].acc_at;
        }
        for (int64_t p = 0; p < w->positions; p++) {
            for (uint32_t k = 0; k < w->f.n; k++) {
                places(w, &w->arrays[k], pos, at, n, off);
                x[k] = fetch(w, &w->arrays[k], in[k], in[w->f.n + k], off, n, s);
            }
            td_combine(&w->f, acc, x, acc, n, s + w->pw_at);
            for (uint32_t d = w->rank; d-- > 0 && ++pos[d] == w->dims[d].size;) pos[d] = 0;
        }
        for (uint32_t k = 0; k < w->f.n; k++) finish(w, &w->arrays[k], out[k], first, n, s);
    }
}
