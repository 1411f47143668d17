/* SPDX-License-Identifier: Apache-2.0 */
/* scan: (outputs…, carries…) = to_apply(slices of the inputs…, carries…) along one dimension.
 * Results: the outputs of all steps side by side, then the last carries. */
#include <string.h>

#include "runtime/host/body.h"
#include "runtime/host/macro_ops.h"

typedef struct sliced {
    td_strided_t copy;
    int64_t step; /* bytes from one step's slice to the next */
    uint64_t tile_at;
} sliced_t;
typedef struct scan {
    td_body_t body;
    sliced_t *in, *out; /* inputs, outputs */
    size_t *carry_bytes;
    uint64_t *carry_at; /* two copies: before and after a step */
    uint32_t n_in, n_out, n_carry;
    int64_t steps;
    bool reverse;
    uint64_t body_at, table_at;
} scan_t;

/* Slice of `s` without dimension d, lying as `own`. */
static bool slice(const td_shape_t *s, int64_t d, const td_shape_t *own, bool into, sliced_t *x) {
    int64_t all[TD_LIMIT_RANK], part[TD_LIMIT_RANK], st[TD_LIMIT_RANK];
    if (s->type != own->type || own->rank + 1 != s->rank) return false;
    td_shape_strides(s, all);
    td_shape_strides(own, part);
    for (uint32_t i = 0, k = 0; i < s->rank; i++) {
        if (i == d) continue;
        if (own->dims[k] != s->dims[i]) return false;
        st[k++] = all[i];
    }
    x->step = all[d] * td_elem(s);
    td_strided_plan(&x->copy, td_elem(s), own->rank, own->dims, into ? st : part, into ? part : st);
    return true;
}

static td_status_t shapes(const td_hlo_instr_t *instr, scan_t *s, int64_t d, uint64_t *total, td_err_t *err) {
    bool ok = true;
    for (uint32_t i = 0; i < s->n_in; i++) {
        const td_shape_t *a = td_operand(instr, i);
        TD_NEED(td_type_is_array(a->type) && d < a->rank && a->dims[d] == s->steps, "input %u", i);
        TD_NEED(slice(a, d, s->body.shapes[i], false, &s->in[i]), "slice of input %u", i);
        ok = ok && td_reserve(total, (uint64_t)s->body.shapes[i]->count, 16, &s->in[i].tile_at);
    }
    for (uint32_t i = 0; i < s->n_out; i++) {
        const td_shape_t *o = td_result(instr, i), *own = s->body.shapes[s->body.n_in + i];
        TD_NEED(td_type_is_array(o->type) && d < o->rank && o->dims[d] == s->steps, "output %u", i);
        TD_NEED(slice(o, d, own, true, &s->out[i]), "slice of output %u", i);
        ok = ok && td_reserve(total, (uint64_t)own->count, 16, &s->out[i].tile_at);
    }
    for (uint32_t i = 0; i < s->n_carry; i++) {
        const td_shape_t *c = td_operand(instr, s->n_in + i);
        TD_NEED(td_shape_equal(c, s->body.shapes[s->n_in + i]) &&
                    td_shape_equal(c, s->body.shapes[s->body.n_in + s->n_out + i]) &&
                    td_shape_equal(c, td_result(instr, s->n_out + i)),
                "carry %u", i);
        s->carry_bytes[i] = (size_t)c->count * td_elem(c);
        ok = ok && td_reserve(total, 2, (s->carry_bytes[i] + 63) & ~63ull, &s->carry_at[i]);
    }
    TD_NEED_AS(TD_LIMIT, ok, "scratch overflows");
    return TD_OK;
}

td_status_t td_scan_prepare(const td_hlo_instr_t *instr, td_arena_t *arena, void **out_state, uint64_t *out_scratch,
                            td_err_t *err) {
    uint32_t results = instr->shape->type == TD_TUPLE ? instr->shape->rank : 1;
    int64_t carries = instr->scan.num_carries, d = instr->dimensions.n == 1 ? instr->dimensions.v[0] : -1;
    TD_NEED(carries >= 0 && carries <= results && carries < instr->n_operands, "%lld carries", (long long)carries);
    TD_NEED(instr->n_called == 1 && td_shape_leaf_count(instr->shape) == results, "results are not arrays");
    TD_NEED(d >= 0 && td_type_is_array(td_operand(instr, 0)->type) && d < td_operand(instr, 0)->rank, "dimension %lld",
            (long long)d);
    scan_t *s = TD_NEW(arena, scan_t);
    if (!s) return td_arena_fail(arena, err);
    s->n_carry = (uint32_t)carries, s->n_in = instr->n_operands - s->n_carry, s->n_out = results - s->n_carry;
    s->steps = td_operand(instr, 0)->dims[d], s->reverse = instr->scan.is_reverse;
    td_status_t st = td_body_make(instr->called[0], false, arena, &s->body, err);
    if (st) return td_prefix(err, st, "%s", instr->name);
    TD_NEED(s->body.n_in == instr->n_operands && s->body.n_out == results, "%s has %u parameters and %u results",
            instr->called[0]->name, s->body.n_in, s->body.n_out);
    s->in = TD_NEW_N(arena, sliced_t, s->n_in + 1), s->out = TD_NEW_N(arena, sliced_t, s->n_out + 1);
    s->carry_bytes = TD_NEW_N(arena, size_t, s->n_carry + 1), s->carry_at = TD_NEW_N(arena, uint64_t, s->n_carry + 1);
    if (!s->in || !s->out || !s->carry_bytes || !s->carry_at) return td_arena_fail(arena, err);
    *out_scratch = 0;
    if ((st = shapes(instr, s, d, out_scratch, err))) return st;
    TD_NEED_AS(TD_LIMIT,
               td_reserve(out_scratch, s->body.scratch, 1, &s->body_at) &&
                   td_reserve(out_scratch, s->body.n_in + s->body.n_out, sizeof(void *), &s->table_at),
               "scratch overflows");
    *out_state = s;
    return TD_OK;
}

static char *carry(const scan_t *s, char *base, uint32_t i, int64_t which) {
    return base + s->carry_at[i] + (which & 1) * (int64_t)((s->carry_bytes[i] + 63) & ~63ull);
}

void td_scan_run(const void *state, const void *const *in, void *const *out, void *scratch) {
    const scan_t *s = state;
    char *b = scratch;
    const void **x = (const void **)(void *)(b + s->table_at);
    void **y = (void **)(void *)(b + s->table_at) + s->body.n_in;
    for (uint32_t i = 0; i < s->n_carry; i++)
        if (s->carry_bytes[i]) memcpy(carry(s, b, i, 0), in[s->n_in + i], s->carry_bytes[i]);
    for (int64_t t = 0; t < s->steps; t++) {
        int64_t at = s->reverse ? s->steps - 1 - t : t;
        for (uint32_t i = 0; i < s->n_in; i++) {
            td_strided_copy(&s->in[i].copy, b + s->in[i].tile_at, (const char *)in[i] + at * s->in[i].step);
            x[i] = b + s->in[i].tile_at;
        }
        for (uint32_t i = 0; i < s->n_out; i++) y[i] = b + s->out[i].tile_at;
        for (uint32_t i = 0; i < s->n_carry; i++)
            x[s->n_in + i] = carry(s, b, i, t), y[s->n_out + i] = carry(s, b, i, t + 1);
        td_body_run(&s->body, x, y, b + s->body_at);
        for (uint32_t i = 0; i < s->n_out; i++)
            td_strided_copy(&s->out[i].copy, (char *)out[i] + at * s->out[i].step, y[i]);
    }
    for (uint32_t i = 0; i < s->n_carry; i++)
        if (s->carry_bytes[i]) memcpy(out[s->n_out + i], carry(s, b, i, s->steps), s->carry_bytes[i]);
}
