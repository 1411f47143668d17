/* SPDX-License-Identifier: Apache-2.0 */
/* transpose, slice, reverse, broadcast, copy (one strided copy each) and reshape. */
#include <string.h>

#include "runtime/host/macro_ops.h"

typedef struct move {
    td_strided_t plan;
    int64_t offset; /* bytes into the operand */
} move_t;

/* The operand's stride along each result dimension, and the offset of the first element. */
static td_status_t source(const td_hlo_instr_t *instr, const int64_t *as, int64_t *src, int64_t *offset, td_err_t *err) {
    const td_shape_t *a = td_operand(instr, 0), *o = instr->shape;
    uint32_t n = instr->dimensions.n;
    const int64_t *v = instr->dimensions.v;
    bool same_rank = instr->opcode != TD_HLO_BROADCAST;
    TD_NEED(!same_rank || a->rank == o->rank, "operand has rank %u, result %u", a->rank, o->rank);
    if (instr->opcode == TD_HLO_BROADCAST || instr->opcode == TD_HLO_TRANSPOSE)
        TD_NEED(n == a->rank, "%u dimensions for rank %u", n, a->rank);
    for (uint32_t i = 0; i < n; i++) TD_NEED(v[i] >= 0 && v[i] < (same_rank ? a->rank : o->rank), "dimension %u", i);
    for (uint32_t i = 0; i < o->rank; i++) src[i] = same_rank ? as[i] : 0;
    switch (instr->opcode) {
    case TD_HLO_BROADCAST:
        for (uint32_t i = 0; i < n; i++) {
            TD_NEED(a->dims[i] == o->dims[v[i]] && !src[v[i]], "dimension %u differs", i);
            src[v[i]] = as[i];
        }
        return TD_OK;
    case TD_HLO_TRANSPOSE:
        for (uint32_t i = 0; i < n; i++) {
            TD_NEED(o->dims[i] == a->dims[v[i]], "dimension %u differs", i);
            src[i] = as[v[i]];
        }
        return TD_OK;
    case TD_HLO_SLICE:
        TD_NEED(instr->n_slice == a->rank, "%u slices for rank %u", instr->n_slice, a->rank);
        for (uint32_t i = 0; i < a->rank; i++) {
            const td_slice_dim_t *s = &instr->slice[i];
            TD_NEED(s->start >= 0 && s->stride >= 1 && s->limit <= a->dims[i] &&
                        (!o->dims[i] || (s->start < s->limit && o->dims[i] - 1 <= (s->limit - 1 - s->start) / s->stride)),
                    "slice %u leaves the operand", i);
            if (!o->count) continue;
            *offset += s->start * as[i];
            src[i] = o->dims[i] > 1 ? as[i] * s->stride : 0;
        }
        return TD_OK;
    default: break;
    }
    for (uint32_t i = 0; i < o->rank; i++) TD_NEED(a->dims[i] == o->dims[i], "dimension %u differs", i);
    if (instr->opcode != TD_HLO_REVERSE || !o->count) return TD_OK;
    uint64_t seen = 0;
    for (uint32_t i = 0; i < n; i++) {
        TD_NEED(!(seen >> v[i] & 1), "dimension %lld twice", (long long)v[i]);
        seen |= 1ull << v[i];
        *offset += (a->dims[v[i]] - 1) * as[v[i]];
        src[v[i]] = -as[v[i]];
    }
    return TD_OK;
}

td_status_t td_move_prepare(const td_hlo_instr_t *instr, td_arena_t *arena, void **out_state, uint64_t *out_scratch,
                            td_err_t *err) {
    int64_t as[TD_LIMIT_RANK], src[TD_LIMIT_RANK], dst[TD_LIMIT_RANK], offset = 0;
    TD_NEED(instr->n_operands == 1, "%u operands", instr->n_operands);
    const td_shape_t *a = td_operand(instr, 0), *o = instr->shape;
    TD_NEED(td_type_is_array(a->type) && a->type == o->type, "operand and result differ in type");
    move_t *m = TD_NEW(arena, move_t);
    if (!m) return td_arena_fail(arena, err);
    td_shape_strides(a, as);
    td_shape_strides(o, dst);
    td_status_t st = source(instr, as, src, &offset, err);
    if (st) return st;
    td_strided_plan(&m->plan, td_elem(o), o->rank, o->dims, dst, src);
    m->offset = o->count ? offset * td_elem(o) : 0;
    *out_state = m;
    *out_scratch = 0;
    return TD_OK;
}

void td_move_run(const void *state, const void *const *in, void *const *out, void *scratch) {
    const move_t *m = state;
    (void)scratch;
    td_strided_copy(&m->plan, out[0], (const char *)in[0] + m->offset);
}

/* Logical order in between: operand -> row-major -> result. Either copy may be absent. */
typedef struct reshape {
    td_strided_t first, second;
    bool one; /* first alone, operand to result */
} reshape_t;

static void row_major(const td_shape_t *s, int64_t *strides) {
    int64_t n = 1;
    for (uint32_t i = s->rank; i-- > 0;) {
        strides[i] = n;
        if (s->count) n *= s->dims[i];
    }
}

td_status_t td_reshape_prepare(const td_hlo_instr_t *instr, td_arena_t *arena, void **out_state, uint64_t *out_scratch,
                               td_err_t *err) {
    int64_t as[TD_LIMIT_RANK], ar[TD_LIMIT_RANK], os[TD_LIMIT_RANK], orow[TD_LIMIT_RANK];
    TD_NEED(instr->n_operands == 1, "%u operands", instr->n_operands);
    const td_shape_t *a = td_operand(instr, 0), *o = instr->shape;
    TD_NEED(td_type_is_array(a->type) && a->type == o->type && a->count == o->count, "operand and result differ");
    reshape_t *r = TD_NEW(arena, reshape_t);
    if (!r) return td_arena_fail(arena, err);
    td_shape_strides(a, as);
    td_shape_strides(o, os);
    row_major(a, ar);
    row_major(o, orow);
    r->one = a->default_layout || o->default_layout;
    *out_scratch = 0;
    if (o->default_layout) {
        td_strided_plan(&r->first, td_elem(a), a->rank, a->dims, ar, as);
    } else if (a->default_layout) {
        td_strided_plan(&r->first, td_elem(a), o->rank, o->dims, os, orow);
    } else {
        td_strided_plan(&r->first, td_elem(a), a->rank, a->dims, ar, as);
        td_strided_plan(&r->second, td_elem(a), o->rank, o->dims, os, orow);
        *out_scratch = (uint64_t)a->count * td_elem(a);
    }
    *out_state = r;
    return TD_OK;
}

void td_reshape_run(const void *state, const void *const *in, void *const *out, void *scratch) {
    const reshape_t *r = state;
    td_strided_copy(&r->first, r->one ? out[0] : scratch, in[0]);
    if (!r->one) td_strided_copy(&r->second, out[0], scratch);
}
