/* SPDX-License-Identifier: Apache-2.0 */
/* select-and-scatter: each source value goes to the element its window selects, combined with what is there.
 *
 * The first element of a window is selected, then each next one x for which select(selected, x) is false. A window
 * that lies in the padding altogether selects nothing. Values arrive in row-major order of the source. */
#include <string.h>

#include "runtime/host/types.h"
#include "runtime/host/windows.h"

typedef struct state {
    td_windows_t w;
    td_pw_t *select;
    td_combiner_t scatter;
    td_dims_t source;
    td_type_t type;
    uint32_t size;
    int64_t in_stride[TD_LIMIT_RANK], out_stride[TD_LIMIT_RANK];
    int64_t elements;
    uint64_t at_at, off_at, to_at, chosen_at, best_at, x_at, keep_at, pw_at;
} state_t;

static td_status_t check_select(const td_hlo_instr_t *instr, td_type_t type, td_err_t *err) {
    const td_hlo_comp_t *f = instr->called[0];
    TD_NEED(f->n_params == 2 && f->root->shape->type == TD_PRED && f->root->shape->rank == 0, "%s does not select",
            f->name);
    for (uint32_t i = 0; i < 2; i++) {
        const td_shape_t *p = f->params[i]->shape;
        TD_NEED(p->type == type && p->rank == 0, "parameter %u of %s", i, f->name);
    }
    return TD_OK;
}

td_status_t td_select_scatter_prepare(const td_hlo_instr_t *instr, td_arena_t *arena, void **out_state,
                                      uint64_t *out_scratch, td_err_t *err) {
    TD_NEED(instr->n_operands == 3 && instr->n_called == 2, "%u operands, %u computations", instr->n_operands,
            instr->n_called);
    const td_shape_t *a = td_operand(instr, 0), *src = td_operand(instr, 1), *init = td_operand(instr, 2),
                     *o = instr->shape;
    TD_NEED(td_type_is_array(a->type) && src->type == a->type && init->type == a->type && init->rank == 0,
            "operands differ in type");
    TD_NEED(td_shape_same_dims(a, o), "operand and result differ");
    state_t *s = TD_NEW(arena, state_t);
    if (!s) return td_arena_fail(arena, err);
    td_status_t st = td_windows_make(&s->w, instr, a, src, arena, err);
    if (!st) st = check_select(instr, a->type, err);
    if (st) return st;
    if ((st = td_pw_compile_scalar(instr->called[0], arena, &s->select, err)) ||
        (st = td_combiner_make(&s->scatter, instr->called[1], 1, &a->type, false, arena, err)))
        return td_prefix(err, st, "%s", instr->name);
    td_shape_strides(a, s->in_stride);
    td_shape_strides(o, s->out_stride);
    int64_t strides[TD_LIMIT_RANK];
    td_shape_strides(src, strides);
    for (uint32_t i = 0; i < src->rank; i++) td_dims_add(&s->source, src->dims[i], strides[i]);
    s->type = a->type, s->size = td_elem(a), s->elements = o->count;
    uint64_t pw = td_pw_scratch(s->select) > s->scatter.scratch ? td_pw_scratch(s->select) : s->scatter.scratch;
    *out_scratch = 0;
    TD_NEED_AS(
        TD_LIMIT,
        td_reserve(out_scratch, s->w.rank + 1, 8 * TD_PW_TILE, &s->at_at) &&
            td_reserve(out_scratch, TD_PW_TILE, 8, &s->off_at) && td_reserve(out_scratch, TD_PW_TILE, 8, &s->to_at) &&
            td_reserve(out_scratch, TD_PW_TILE, 8, &s->chosen_at) &&
            td_reserve(out_scratch, TD_PW_TILE, 16, &s->best_at) && td_reserve(out_scratch, TD_PW_TILE, 16, &s->x_at) &&
            td_reserve(out_scratch, TD_PW_TILE, 1, &s->keep_at) && td_reserve(out_scratch, pw, 1, &s->pw_at),
        "scratch overflows");
    *out_state = s;
    return TD_OK;
}

/* chosen[i] = the selected element of window first+i, by strides of the result; -1: none. */
static void choose(const state_t *s, const void *in, int64_t first, size_t n, char *m) {
    int64_t *at = (int64_t *)(void *)(m + s->at_at), *off = (int64_t *)(void *)(m + s->off_at);
    int64_t *to = (int64_t *)(void *)(m + s->to_at), *chosen = (int64_t *)(void *)(m + s->chosen_at);
    int64_t pos[TD_LIMIT_RANK] = {0};
    char *best = m + s->best_at, *x = m + s->x_at;
    uint8_t *keep = (uint8_t *)m + s->keep_at;
    td_windows_starts(&s->w, first, n, at);
    for (size_t i = 0; i < n; i++) chosen[i] = -1;
    memset(best, 0, n * s->size);
    for (int64_t p = 0; p < s->w.positions; p++, td_windows_next(&s->w, pos)) {
        if (!td_windows_offsets(&s->w, s->in_stride, pos, at, n, off)) continue;
        (void)td_windows_offsets(&s->w, s->out_stride, pos, at, n, to);
        for (size_t i = 0; i < n; i++)
            if (off[i] >= 0) memcpy(x + i * s->size, (const char *)in + off[i] * s->size, s->size);
            else memcpy(x + i * s->size, best + i * s->size, s->size);
        td_pw_run(s->select, (const void *[]){best, x}, (void *[]){keep}, n, m + s->pw_at);
        for (size_t i = 0; i < n; i++) {
            if (off[i] < 0 || (chosen[i] >= 0 && keep[i])) continue;
            chosen[i] = to[i];
            memcpy(best + i * s->size, x + i * s->size, s->size);
        }
    }
}

void td_select_scatter_run(const void *state, const void *const *in, void *const *out, void *scratch) {
    const state_t *s = state;
    char *m = scratch;
    const int64_t *chosen = (const int64_t *)(const void *)(m + s->chosen_at);
    int64_t *off = (int64_t *)(void *)(m + s->off_at);
    if (!s->elements) return;
    td_fill(s->size, in[2], (size_t)s->elements, out[0]);
    for (int64_t first = 0; first < s->w.count; first += TD_PW_TILE) {
        size_t n = s->w.count - first < TD_PW_TILE ? (size_t)(s->w.count - first) : TD_PW_TILE;
        choose(s, in[0], first, n, m);
        td_dims_offsets(&s->source, first, n, off);
        for (size_t i = 0; i < n; i++) {
            if (chosen[i] < 0) continue;
            char one[16]; /* 16: the widest element; operations want aligned tiles no more than that */
            char *to = (char *)out[0] + chosen[i] * s->size;
            const char *from = (const char *)in[1] + off[i] * s->size;
            td_combine(&s->scatter, (void *[]){to}, (const void *[]){from}, (void *[]){one}, 1, m + s->pw_at);
            memcpy(to, one, s->size);
        }
    }
}
