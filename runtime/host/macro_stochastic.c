/* SPDX-License-Identifier: Apache-2.0 */
/* stochastic-convert: a float to a signed integer, rounded away from zero if the fraction, scaled to the range of
 * the random number given along, is above that number. Saturates; NaN is 0. As XLA's decomposition of it does
 * (xla/hlo/transforms/expanders/stochastic_convert_decomposer.cc); it knows no float results either. */
#include <math.h>

#include "runtime/host/macro_ops.h"

typedef struct stochastic {
    td_type_t from, random, to;
    td_dims_t x, r, y;
    int64_t count;
} stochastic_t;

static void walk(const td_shape_t *s, td_dims_t *d) {
    int64_t strides[TD_LIMIT_RANK];
    td_shape_strides(s, strides);
    for (uint32_t i = 0; i < s->rank; i++) td_dims_add(d, s->dims[i], strides[i]);
}

td_status_t td_stochastic_prepare(const td_hlo_instr_t *instr, td_arena_t *arena, void **out_state,
                                  uint64_t *out_scratch, td_err_t *err) {
    TD_NEED(instr->n_operands == 2, "%u operands", instr->n_operands);
    const td_shape_t *x = td_operand(instr, 0), *r = td_operand(instr, 1), *y = instr->shape;
    TD_NEED(td_type_is_float(x->type) && td_type_is_integer(r->type) && !td_type_is_signed(r->type) &&
                td_type_bits(r->type) == td_type_bits(x->type),
            "%s with random %s", td_type_name(x->type), td_type_name(r->type));
    TD_NEED_AS(TD_UNSUPPORTED, td_type_is_signed(y->type), "stochastic conversion to %s", td_type_name(y->type));
    TD_NEED(r->rank == x->rank && y->rank == x->rank, "ranks");
    for (uint32_t i = 0; i < x->rank; i++)
        TD_NEED(r->dims[i] == x->dims[i] && y->dims[i] == x->dims[i], "dimension %u", i);
    stochastic_t *s = TD_NEW(arena, stochastic_t);
    if (!s) return td_arena_fail(arena, err);
    walk(x, &s->x);
    walk(r, &s->r);
    walk(y, &s->y);
    s->from = x->type, s->random = r->type, s->to = y->type, s->count = x->count;
    *out_state = s;
    *out_scratch = 0;
    return TD_OK;
}

static int64_t round_one(double x, uint64_t random, unsigned random_bits, unsigned to_bits) {
    int64_t max = (int64_t)((1ull << (to_bits - 1)) - 1), min = -max - 1;
    if (x != x) return 0;
    if (x <= (double)min) return min;
    if (x >= (double)max) return max;
    double whole = floor(fabs(x)), fraction = ldexp(fabs(x) - whole, (int)random_bits);
    int64_t n = (int64_t)whole + (random < (uint64_t)fraction);
    return x < 0 ? -n : n;
}

void td_stochastic_run(const void *state, const void *const *in, void *const *out, void *scratch) {
    enum { TILE = 256 };
    const stochastic_t *s = state;
    uint64_t raw[TILE], random[TILE];
    int64_t off[TILE], y[TILE];
    double x[TILE];
    (void)scratch;
    for (int64_t first = 0; first < s->count; first += TILE) {
        size_t n = s->count - first < TILE ? (size_t)(s->count - first) : TILE;
        td_dims_offsets(&s->x, first, n, off);
        td_take(td_type_bytes(s->from), in[0], off, n, raw);
        td_convert_array(s->from, raw, TD_F64, x, n);
        td_dims_offsets(&s->r, first, n, off);
        td_take(td_type_bytes(s->random), in[1], off, n, raw);
        td_convert_array(s->random, raw, TD_U64, random, n);
        for (size_t i = 0; i < n; i++) y[i] = round_one(x[i], random[i], td_type_bits(s->random), td_type_bits(s->to));
        td_dims_offsets(&s->y, first, n, off);
        td_convert_array(TD_S64, y, s->to, raw, n);
        td_put(td_type_bytes(s->to), raw, off, n, out[0]);
    }
}
