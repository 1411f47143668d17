/* SPDX-License-Identifier: Apache-2.0 */
/* reduce-window: vectors over result elements, one step per window position.
 * The initial value comes in once; positions in the padding or in holes of a dilated base contribute nothing. */
#include <string.h>

#include "runtime/host/window_rows.h"

typedef struct array {
    td_type_t type;
    uint32_t size, reg_size;
    int64_t stride[TD_LIMIT_RANK]; /* of the operand */
    td_dims_t result;
    uint64_t acc_at, x_at, raw_at;
} array_t;

typedef struct window {
    td_combiner_t f;
    td_windows_t w;
    td_window_rows_t rows;
    array_t *arrays;
    bool convert;
    uint64_t at_at, off_at, pw_at; /* coordinates per dimension; offsets */
} window_t;

static td_status_t array(const td_hlo_instr_t *instr, uint32_t k, array_t *a, td_err_t *err) {
    const td_shape_t *s = td_operand(instr, k), *o = td_result(instr, k),
                     *init = td_operand(instr, instr->n_operands / 2 + k);
    const td_shape_t *s0 = td_operand(instr, 0), *o0 = td_result(instr, 0);
    int64_t os[TD_LIMIT_RANK];
    TD_NEED(td_type_is_array(s->type) && s->type == o->type && s->type == init->type && init->rank == 0,
            "operand, initial value and result %u differ in type", k);
    TD_NEED(s->rank == instr->window.n && o->rank == s->rank && s0->rank == s->rank && o0->rank == s->rank,
            "rank of operand %u", k);
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
    td_status_t st = td_reduction_arity(instr, &n, err);
    if (st) return st;
    td_type_t types[TD_MACRO_ARRAYS];
    window_t *w = TD_NEW(arena, window_t);
    if (!w || !(w->arrays = TD_NEW_N(arena, array_t, n))) return td_arena_fail(arena, err);
    for (uint32_t k = 0; k < n; k++) {
        if ((st = array(instr, k, &w->arrays[k], err))) return st;
        types[k] = w->arrays[k].type;
    }
    st = td_combiner_make(&w->f, instr->called[0], n, types, true, arena, err);
    if (st) return td_prefix(err, st, "%s", instr->name);
    if ((st = td_windows_make(&w->w, instr, td_operand(instr, 0), td_result(instr, 0), arena, err))) return st;
    w->convert = w->f.fn && w->f.reg != types[0];
    *out_scratch = 0;
    if (td_window_rows_fit(&w->rows, &w->w, &w->f, td_operand(instr, 0), td_result(instr, 0), out_scratch)) {
        *out_state = w;
        return TD_OK;
    }
    bool ok = td_reserve(out_scratch, w->w.rank + 1, 8 * TD_PW_TILE, &w->at_at) &&
              td_reserve(out_scratch, TD_PW_TILE, 8, &w->off_at) && td_reserve(out_scratch, w->f.scratch, 1, &w->pw_at);
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

/* The elements at off, in register form; zero where there is none. */
static const void *fetch(const window_t *w, const array_t *a, const void *base, const int64_t *off, size_t n, bool all,
                         char *s) {
    char *x = s + a->raw_at;
    if (all) td_take(a->size, base, off, n, x);
    for (size_t i = 0; i < n && !all; i++)
        if (off[i] >= 0) memcpy(x + i * a->size, (const char *)base + off[i] * a->size, a->size);
        else memset(x + i * a->size, 0, a->size);
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

/* One window position: accumulators of places that have an element there move on. */
static void step(const window_t *w, const void *const *in, const int64_t *pos, const int64_t *at, size_t n, char *s) {
    const void *x[TD_MACRO_ARRAYS];
    void *acc[TD_MACRO_ARRAYS], *next[TD_MACRO_ARRAYS];
    int64_t *off = (int64_t *)(void *)(s + w->off_at);
    size_t inside = 0;
    for (uint32_t k = 0; k < w->f.n; k++) {
        const array_t *a = &w->arrays[k];
        inside = td_windows_offsets(&w->w, a->stride, pos, at, n, off);
        if (!inside) return;
        x[k] = fetch(w, a, in[k], off, n, inside == n, s);
        acc[k] = s + a->acc_at;
        next[k] = inside == n ? acc[k] : (char *)(uintptr_t)x[k];
    }
    td_combine(&w->f, acc, x, next, n, s + w->pw_at);
    for (uint32_t k = 0; k < w->f.n && inside < n; k++) {
        uint32_t size = w->arrays[k].reg_size;
        for (size_t i = 0; i < n; i++)
            if (off[i] >= 0) memcpy((char *)acc[k] + i * size, (char *)next[k] + i * size, size);
    }
}

void td_window_run(const void *state, const void *const *in, void *const *out, void *scratch) {
    const window_t *w = state;
    char *s = scratch;
    int64_t *at = (int64_t *)(void *)(s + w->at_at);
    if (w->rows.cols) {
        td_window_rows_run(&w->rows, &w->w, &w->f, in[0], in[1], out[0], s);
        return;
    }
    for (int64_t first = 0; first < w->w.count; first += TD_PW_TILE) {
        size_t n = w->w.count - first < TD_PW_TILE ? (size_t)(w->w.count - first) : TD_PW_TILE;
        int64_t pos[TD_LIMIT_RANK] = {0};
        td_windows_starts(&w->w, first, n, at);
        for (uint32_t k = 0; k < w->f.n; k++) start(w, &w->arrays[k], in[w->f.n + k], n, s);
        for (int64_t p = 0; p < w->w.positions; p++, td_windows_next(&w->w, pos)) step(w, in, pos, at, n, s);
        for (uint32_t k = 0; k < w->f.n; k++) finish(w, &w->arrays[k], out[k], first, n, s);
    }
}
