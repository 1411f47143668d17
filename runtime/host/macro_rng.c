/* SPDX-License-Identifier: Apache-2.0 */
/* rng and rng-get-and-update-state: random numbers whose state is hidden.
 *
 * XLA's GPU compiler expands rng into Philox over a seed of each run, so there is no sequence to agree with; the
 * distributions are those of its expansion (xla/hlo/builder/lib/prng.cc): uniform floats are multiples of 2^-23 or
 * 2^-52, integers are taken modulo the range, normal values come from the Box-Muller transform.
 * The state is 128 bits that start at 0x7012395 when the program is loaded, as a kernel's do, and go up by `delta`
 * whenever they are read; only their low half is kept here, which no program gets to the end of. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "runtime/host/macro_ops.h"
#include "runtime/host/random.h"
#include "runtime/host/types.h"

#define FIRST_STATE 0x7012395ull

typedef struct counter {
    _Atomic uint64_t *low; /* shared by all runs */
    uint64_t delta;
} counter_t;

static td_status_t counter(td_arena_t *arena, uint64_t delta, counter_t *c, td_err_t *err) {
    c->low = TD_NEW(arena, _Atomic uint64_t);
    if (!c->low) return td_arena_fail(arena, err);
    atomic_init(c->low, FIRST_STATE);
    c->delta = delta;
    return TD_OK;
}

td_status_t td_rng_state_prepare(const td_hlo_instr_t *instr, td_arena_t *arena, void **out_state,
                                 uint64_t *out_scratch, td_err_t *err) {
    const td_shape_t *o = instr->shape;
    TD_NEED(o->type == TD_U64 && o->rank == 1 && o->dims[0] == 2 && !instr->n_operands, "result is not u64[2]");
    counter_t *c = TD_NEW(arena, counter_t);
    if (!c) return td_arena_fail(arena, err);
    *out_state = c;
    *out_scratch = 0;
    return counter(arena, (uint64_t)instr->delta, c, err);
}

void td_rng_state_run(const void *state, const void *const *in, void *const *out, void *scratch) {
    const counter_t *c = state;
    uint64_t *o = out[0];
    (void)in, (void)scratch;
    o[0] = atomic_fetch_add(c->low, c->delta), o[1] = 0;
}

typedef struct rng {
    counter_t state;
    uint64_t key;
    td_type_t type, compute; /* f32 for small floats */
    bool normal;
    td_dims_t out;
    int64_t count, stride[TD_LIMIT_RANK]; /* normal: of pairs, in the halved array */
    uint32_t split;
} rng_t;

td_status_t td_rng_prepare(const td_hlo_instr_t *instr, td_arena_t *arena, void **out_state, uint64_t *out_scratch,
                           td_err_t *err) {
    const td_shape_t *o = instr->shape;
    TD_NEED(instr->n_operands == 2 && td_type_is_array(o->type), "%u operands", instr->n_operands);
    for (uint32_t i = 0; i < 2; i++)
        TD_NEED(td_operand(instr, i)->type == o->type && td_operand(instr, i)->rank == 0, "operand %u", i);
    bool normal = instr->rng_distribution == 2, real = td_type_is_float(o->type), wide = td_elem(o) >= 4;
    TD_NEED(normal || instr->rng_distribution == 1, "distribution %d", (int)instr->rng_distribution);
    TD_NEED_AS(TD_UNSUPPORTED,
               real ? wide || o->type == TD_F16 || o->type == TD_BF16 : td_type_is_integer(o->type) && wide && !normal,
               "random %s", td_type_name(o->type));
    rng_t *r = TD_NEW(arena, rng_t);
    if (!r) return td_arena_fail(arena, err);
    int64_t strides[TD_LIMIT_RANK], n = 1;
    td_shape_strides(o, strides);
    for (uint32_t i = 0; i < o->rank; i++) {
        td_dims_add(&r->out, o->dims[i], strides[i]);
        if (o->dims[i] > (o->rank ? o->dims[r->split] : 0)) r->split = i;
    }
    for (uint32_t i = o->rank; i-- > 0;)
        if (o->dims[i] % 2 == 0) r->split = i;
    for (uint32_t i = o->rank; o->count && i-- > 0;) {
        r->stride[i] = n;
        n *= i == r->split ? o->dims[i] / 2 + o->dims[i] % 2 : o->dims[i];
    }
    r->type = o->type, r->compute = td_type_register(o->type), r->normal = normal, r->count = o->count;
    r->key = (uint64_t)instr->id * 0x9e3779b97f4a7c15ull >> 32;
    *out_state = r;
    *out_scratch = 0;
    return counter(arena, (uint64_t)o->count * (td_elem(o) == 8 ? 2 : 1), &r->state, err);
}

static uint64_t word(const rng_t *r, uint64_t low, uint64_t at) {
    bool wide = td_type_bytes(r->compute) == 8;
    uint64_t first = wide ? 2 * at : at;
    uint32_t block[4];
    td_philox(r->key, low + first / 4, 0, block);
    return wide ? block[first % 4] | (uint64_t)block[first % 4 + 1] << 32 : block[first % 4];
}

/* In [0, 1). */
static double uniform(const rng_t *r, uint64_t low, uint64_t at) {
    uint64_t w = word(r, low, at);
    return r->compute == TD_F64 ? ldexp((double)(w >> 12), -52) : ldexp((double)(w >> 9), -23);
}

static double normal(const rng_t *r, uint64_t low, int64_t linear) {
    uint64_t pair = 0;
    bool second = false;
    for (uint32_t d = r->out.rank; d-- > 0; linear /= r->out.n[d]) {
        int64_t c = linear % r->out.n[d];
        if (d == r->split) second = c % 2, c /= 2;
        pair += (uint64_t)(c * r->stride[d]);
    }
    /* the pair's two values are neighbours along a dimension of two after the split one */
    uint64_t inner = r->out.rank ? (uint64_t)r->stride[r->split] : 1;
    uint64_t at = pair / inner * 2 * inner + pair % inner;
    double a = uniform(r, low, at), b = 2 * M_PI * uniform(r, low, at + inner);
    double radius = sqrt(-2 * log(a > 1e-7 ? a : 1e-7));
    return (second ? cos(b) : sin(b)) * radius;
}

static uint64_t integer(const rng_t *r, uint64_t low, uint64_t at, uint64_t from, uint64_t to) {
    uint64_t w = word(r, low, at), range = to - from;
    if (td_type_bytes(r->type) == 4) range = (uint32_t)range;
    return from + (range ? w % range : w);
}

void td_rng_run(const void *state, const void *const *in, void *const *out, void *scratch) {
    enum { TILE = 256 };
    const rng_t *r = state;
    uint64_t low = atomic_fetch_add(r->state.low, r->state.delta), whole[TILE], result[TILE], from, to;
    double a, b, real[TILE];
    int64_t off[TILE];
    uint32_t size = td_type_bytes(r->type);
    bool is_real = td_type_is_float(r->type);
    (void)scratch;
    td_convert_array(r->type, in[0], TD_F64, &a, 1);
    td_convert_array(r->type, in[1], TD_F64, &b, 1);
    td_convert_array(r->type, in[0], TD_U64, &from, 1);
    td_convert_array(r->type, in[1], TD_U64, &to, 1);
    for (int64_t first = 0; first < r->count; first += TILE) {
        size_t n = r->count - first < TILE ? (size_t)(r->count - first) : TILE;
        for (size_t i = 0; i < n; i++) {
            uint64_t at = (uint64_t)first + i;
            if (r->normal) real[i] = a + b * normal(r, low, (int64_t)at);
            else if (is_real) real[i] = a + uniform(r, low, at) * (b - a);
            else whole[i] = integer(r, low, at, from, to);
        }
        td_dims_offsets(&r->out, first, n, off);
        td_convert_array(is_real ? TD_F64 : TD_U64, is_real ? (const void *)real : whole, r->type, result, n);
        td_put(size, result, off, n, out[0]);
    }
}
