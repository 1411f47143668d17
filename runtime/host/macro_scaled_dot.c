/* SPDX-License-Identifier: Apache-2.0 */
/* scaled-dot: operands lhs, rhs, lhs_scale, rhs_scale; a dot of the operands multiplied by their scales.
 *
 * A scale has its operand's rank, and each of its elements stands for a block of dims / scale_dims along every
 * dimension; one of rank 0 means no scale. Products are taken in the wider of both types, bf16 at least, and
 * rounded, as XLA's expansion does (xla/backends/gpu/transforms/scaled_dot_rewriter.cc). */
#include "runtime/host/macro_ops.h"

typedef struct side {
    td_type_t type, scale_type, to;
    bool scaled;
    int64_t count;
    td_dims_t blocks; /* in the operand's memory order: the scale's stride per block, 0 within one */
    uint64_t at;
} side_t;
typedef struct scaled {
    side_t side[2];
    void *dot;
    uint64_t dot_at;
} scaled_t;

static td_type_t product_type(td_type_t a, td_type_t b) {
    uint32_t x = td_type_bits(a), y = td_type_bits(b);
    if (x < 16 && y < 16) return TD_BF16;
    return a == b ? a : x == y ? TD_F32 : x > y ? a : b;
}

static td_status_t side(const td_hlo_instr_t *instr, uint32_t i, side_t *s, td_err_t *err) {
    const td_shape_t *x = td_operand(instr, i), *k = td_operand(instr, i + 2);
    TD_NEED(td_type_is_array(x->type) && td_type_is_array(k->type), "operand %u is not an array", i);
    s->type = s->to = x->type, s->scale_type = k->type, s->count = x->count;
    if (!k->rank) return TD_OK;
    TD_NEED_AS(TD_UNSUPPORTED, td_type_is_float(x->type) && td_type_is_float(k->type), "%s scaled by %s",
               td_type_name(x->type), td_type_name(k->type));
    TD_NEED(k->rank == x->rank, "operand %u has rank %u, its scale %u", i, x->rank, k->rank);
    int64_t strides[TD_LIMIT_RANK];
    td_shape_strides(k, strides);
    for (uint32_t n = x->rank; n-- > 0;) {
        uint32_t d = (uint32_t)x->minor_to_major[n];
        bool fits = k->dims[d] ? x->dims[d] % k->dims[d] == 0 : !x->dims[d];
        TD_NEED(fits, "dimension %u: %lld elements, %lld scales", d, (long long)x->dims[d], (long long)k->dims[d]);
        int64_t block = k->dims[d] ? x->dims[d] / k->dims[d] : 1;
        td_dims_add(&s->blocks, k->dims[d], strides[d]);
        td_dims_add(&s->blocks, block, 0);
    }
    s->scaled = true;
    s->to = product_type(x->type, k->type);
    return TD_OK;
}

td_status_t td_scaled_dot_prepare(const td_hlo_instr_t *instr, td_arena_t *arena, void **out_state,
                                  uint64_t *out_scratch, td_err_t *err) {
    TD_NEED(instr->n_operands == 4, "%u operands", instr->n_operands);
    TD_NEED_AS(TD_UNSUPPORTED,
               td_operand(instr, 0)->rank <= TD_LIMIT_RANK / 2 && td_operand(instr, 1)->rank <= TD_LIMIT_RANK / 2,
               "rank");
    scaled_t *s = TD_NEW(arena, scaled_t);
    td_hlo_instr_t *dot = TD_NEW_N(arena, td_hlo_instr_t, 3);
    td_hlo_instr_t **operands = TD_NEW_N(arena, td_hlo_instr_t *, 2);
    if (!s || !dot || !operands) return td_arena_fail(arena, err);
    dot[0] = (td_hlo_instr_t){.opcode = TD_HLO_DOT,
                              .opcode_name = "dot",
                              .name = instr->name,
                              .shape = instr->shape,
                              .dot = instr->dot,
                              .operands = operands,
                              .n_operands = 2};
    *out_scratch = 0;
    for (uint32_t i = 0; i < 2; i++) {
        const td_shape_t *x = td_operand(instr, i);
        td_status_t st = side(instr, i, &s->side[i], err);
        if (st) return st;
        operands[i] = &dot[i + 1];
        *operands[i] = *instr->operands[i];
        if (!s->side[i].scaled) continue;
        if ((st = td_shape_make(arena, s->side[i].to, x->rank, x->dims, x->minor_to_major, &operands[i]->shape, err)))
            return st;
        TD_NEED_AS(TD_LIMIT, td_reserve(out_scratch, (uint64_t)x->count, td_type_bytes(s->side[i].to), &s->side[i].at),
                   "scratch overflows");
    }
    uint64_t need = 0;
    td_status_t st = td_dot_prepare(dot, arena, &s->dot, &need, err);
    if (st) return st;
    TD_NEED_AS(TD_LIMIT, td_reserve(out_scratch, need, 1, &s->dot_at), "scratch overflows");
    *out_state = s;
    return TD_OK;
}

/* Operand times scale, in the operand's memory order. */
static void scale(const side_t *s, const void *x, const void *k, char *to) {
    enum { TILE = 256 };
    int64_t off[TILE];
    uint64_t raw[TILE];
    double a[TILE], b[TILE];
    uint32_t xs = td_type_bytes(s->type), ks = td_type_bytes(s->scale_type), ts = td_type_bytes(s->to);
    for (int64_t first = 0; first < s->count; first += TILE) {
        size_t n = s->count - first < TILE ? (size_t)(s->count - first) : TILE;
        td_dims_offsets(&s->blocks, first, n, off);
        td_take(ks, k, off, n, raw);
        td_convert_array(s->scale_type, raw, TD_F64, b, n);
        td_convert_array(s->type, (const char *)x + first * xs, TD_F64, a, n);
        for (size_t i = 0; i < n; i++) a[i] *= b[i];
        td_convert_array(TD_F64, a, s->to, to + first * ts, n);
    }
}

void td_scaled_dot_run(const void *state, const void *const *in, void *const *out, void *scratch) {
    const scaled_t *s = state;
    char *m = scratch;
    const void *x[2];
    for (uint32_t i = 0; i < 2; i++) {
        x[i] = in[i];
        if (!s->side[i].scaled) continue;
        scale(&s->side[i], in[i], in[i + 2], m + s->side[i].at);
        x[i] = m + s->side[i].at;
    }
    td_dot_run(s->dot, x, out, m + s->dot_at);
}
