/* SPDX-License-Identifier: Apache-2.0 */
/* concatenate and pad. */
#include "runtime/host/macro_ops.h"

typedef struct piece {
    td_strided_t plan;
    int64_t at; /* bytes into the result */
} piece_t;
typedef struct concat {
    uint32_t n;
    piece_t *pieces;
} concat_t;

td_status_t td_concat_prepare(const td_hlo_instr_t *instr, td_arena_t *arena, void **out_state, uint64_t *out_scratch,
                              td_err_t *err) {
    const td_shape_t *o = instr->shape;
    TD_NEED(td_type_is_array(o->type) && instr->n_operands && instr->dimensions.n == 1, "no operands or dimension");
    int64_t d = instr->dimensions.v[0], os[TD_LIMIT_RANK], as[TD_LIMIT_RANK], at = 0;
    TD_NEED(d >= 0 && d < o->rank, "dimension %lld of rank %u", (long long)d, o->rank);
    concat_t *c = TD_NEW(arena, concat_t);
    if (!c || !(c->pieces = TD_NEW_N(arena, piece_t, instr->n_operands))) return td_arena_fail(arena, err);
    td_shape_strides(o, os);
    for (uint32_t k = 0; k < instr->n_operands; k++) {
        const td_shape_t *a = td_operand(instr, k);
        TD_NEED(a->type == o->type && a->rank == o->rank, "operand %u differs in type or rank", k);
        for (uint32_t i = 0; i < o->rank; i++) TD_NEED(i == d || a->dims[i] == o->dims[i], "dimension %u of operand %u", i, k);
        TD_NEED(a->dims[d] <= o->dims[d] - at, "operands are longer than the result");
        td_shape_strides(a, as);
        td_strided_plan(&c->pieces[k].plan, td_elem(o), o->rank, a->dims, os, as);
        c->pieces[k].at = a->count ? at * os[d] * td_elem(o) : 0;
        at += a->dims[d];
    }
    TD_NEED(at == o->dims[d], "operands are shorter than the result");
    c->n = instr->n_operands;
    *out_state = c;
    *out_scratch = 0;
    return TD_OK;
}

void td_concat_run(const void *state, const void *const *in, void *const *out, void *scratch) {
    const concat_t *c = state;
    (void)scratch;
    for (uint32_t k = 0; k < c->n; k++)
        td_strided_copy(&c->pieces[k].plan, (char *)out[0] + c->pieces[k].at, in[k]);
}

typedef struct pad {
    td_strided_t plan; /* the part of the operand that stays */
    int64_t from, to;  /* bytes */
    size_t fill;       /* elements of the result; 0: nothing to pad */
    uint32_t size;
} pad_t;

/* Operand elements lo..hi (exclusive) of one dimension land inside the result; the first at *to. */
static void kept_range(int64_t n, int64_t out, const td_pad_dim_t *p, int64_t *lo, int64_t *hi, int64_t *to) {
    __int128 step = (__int128)p->interior + 1, low = p->low;
    __int128 first = low < 0 ? (-low + step - 1) / step : 0;
    __int128 last = (__int128)out - 1 - low < 0 ? 0 : ((__int128)out - 1 - low) / step + 1;
    if (last > n) last = n;
    if (first > last) first = last;
    *lo = (int64_t)first;
    *hi = (int64_t)last;
    *to = first < last ? (int64_t)(low + first * step) : 0;
}

td_status_t td_pad_prepare(const td_hlo_instr_t *instr, td_arena_t *arena, void **out_state, uint64_t *out_scratch,
                           td_err_t *err) {
    TD_NEED(instr->n_operands == 2, "%u operands", instr->n_operands);
    const td_shape_t *a = td_operand(instr, 0), *v = td_operand(instr, 1), *o = instr->shape;
    TD_NEED(td_type_is_array(o->type) && a->type == o->type && v->type == o->type && v->rank == 0 && a->rank == o->rank &&
                instr->n_pad == o->rank, "operands and result differ");
    int64_t as[TD_LIMIT_RANK], os[TD_LIMIT_RANK], dims[TD_LIMIT_RANK], from = 0, to = 0, kept = 1;
    pad_t *p = TD_NEW(arena, pad_t);
    if (!p) return td_arena_fail(arena, err);
    td_shape_strides(a, as);
    td_shape_strides(o, os);
    for (uint32_t i = 0; i < o->rank; i++) {
        int64_t lo, hi, at;
        TD_NEED(instr->pad[i].interior >= 0, "interior padding %lld", (long long)instr->pad[i].interior);
        kept_range(a->dims[i], o->dims[i], &instr->pad[i], &lo, &hi, &at);
        dims[i] = hi - lo;
        if (!dims[i] || !a->count || !o->count) {
            kept = 0;
            continue;
        }
        from += lo * as[i];
        to += at * os[i];
        if (dims[i] > 1) os[i] *= instr->pad[i].interior + 1; /* two fit, so the step is below the size */
        kept *= dims[i];
    }
    p->size = td_elem(o);
    td_strided_plan(&p->plan, p->size, o->rank, dims, os, as);
    if (!kept) p->plan.empty = true;
    p->from = kept ? from * p->size : 0;
    p->to = kept ? to * p->size : 0;
    p->fill = kept == o->count ? 0 : (size_t)o->count;
    *out_state = p;
    *out_scratch = 0;
    return TD_OK;
}

void td_pad_run(const void *state, const void *const *in, void *const *out, void *scratch) {
    const pad_t *p = state;
    (void)scratch;
    td_fill(p->size, in[1], p->fill, out[0]);
    td_strided_copy(&p->plan, (char *)out[0] + p->to, (const char *)in[0] + p->from);
}
