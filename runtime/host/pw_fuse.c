/* SPDX-License-Identifier: Apache-2.0 */
/* Fewer passes over tiles: an operation and its only user become one, a constant operand a scalar. Results do
 * not change by a bit: each function computes what the two did, rounding in between. */
#include "runtime/host/pw.h"
#include "runtime/host/vec.h"

enum { ADD, SUB, MUL, OTHER };

static int kind_of(const td_pw_op_t *o) {
    const td_pw_table_t *t = td_pw_table(TD_F32);
    if (o->kind != TD_PW_FN) return OTHER;
    return o->fn == t->fn[TD_HLO_ADD] ? ADD : o->fn == t->fn[TD_HLO_SUBTRACT] ? SUB : o->fn == t->fn[TD_HLO_MULTIPLY] ? MUL : OTHER;
}

static bool is_const(const td_pw_builder_t *b, int32_t v) { return v >= 0 && b->values[v].tile; }

/* The op's function with a scalar second operand; the constant is made the second. */
static void make_scalar(const td_pw_builder_t *b, td_pw_op_t *o) {
    const td_pw_table_t *t = td_pw_table(TD_F32);
    if (o->kind != TD_PW_FN || o->b < 0 || o->c >= 0 || is_const(b, o->a) == is_const(b, o->b)) return;
    bool left = is_const(b, o->a);
    int k = o->fn == t->fn[TD_HLO_ADD]        ? TD_ONE_ADD
            : o->fn == t->fn[TD_HLO_MULTIPLY] ? TD_ONE_MUL
            : o->fn == t->fn[TD_HLO_SUBTRACT] ? left ? TD_ONE_RSUB : TD_ONE_SUB
            : o->fn == t->fn[TD_HLO_DIVIDE]   ? left ? TD_ONE_RDIV : TD_ONE_DIV
            : o->fn == t->fn[TD_HLO_MAXIMUM]  ? left ? TD_ONE_RMAX : TD_ONE_MAX
            : o->fn == t->fn[TD_HLO_MINIMUM]  ? left ? TD_ONE_RMIN : TD_ONE_MIN
                                              : -1;
    if (k < 0) return;
    if (left) {
        int32_t swap = o->a;
        o->a = o->b, o->b = swap;
    }
    o->fn = td_vec()->scalar[k];
}

/* f at `first` into g at `second`, its only user. */
static bool make_pair(const td_pw_builder_t *b, td_pw_op_t *first, td_pw_op_t *second) {
    int f = kind_of(first), g = kind_of(second);
    if (f == OTHER || g == OTHER || second->a == second->b) return false;
    if (f != SUB && is_const(b, first->a)) {
        int32_t swap = first->a;
        first->a = first->b, first->b = swap;
    }
    if (is_const(b, first->a)) return false; /* only the second may be a scalar */
    bool right = second->b == first->d;
    int32_t c = right ? second->a : second->b;
    int pair = g == ADD ? TD_PAIR_ADD : g == MUL ? TD_PAIR_MUL : right ? TD_PAIR_RSUB : TD_PAIR_SUB;
    second->fn = td_vec()->pair[f][pair][(is_const(b, first->b) ? 1 : 0) + (is_const(b, c) ? 2 : 0)];
    second->a = first->a, second->b = first->b, second->c = c;
    return true;
}

static bool make_rounded(td_pw_op_t *first, const td_pw_op_t *second, td_pw_op_t *out) {
    int f = kind_of(first);
    if (f == OTHER || second->kind != TD_PW_ROUND || second->to != TD_BF16) return false;
    *out = *first;
    out->fn = td_vec()->bf16[f];
    out->d = second->d;
    return true;
}

/* How often each value is read, then who makes it. */
static void count(const td_pw_builder_t *b, uint32_t *uses, int32_t *maker) {
    for (uint32_t i = 0; i < b->n_values; i++) uses[i] = 0, maker[i] = -1;
    for (uint32_t i = 0; i < b->n_ops; i++) {
        const int32_t r[3] = {b->ops[i].a, b->ops[i].b, b->ops[i].c};
        for (int k = 0; k < 3; k++)
            if (r[k] >= 0) uses[r[k]]++;
        maker[b->ops[i].d] = (int32_t)i;
    }
    for (uint32_t i = 0; i < b->n_outs; i++)
        if (b->outs[i] >= 0) uses[b->outs[i]] += 2;
    for (uint32_t i = 0; i < b->n_taps; i++)
        if (b->taps[i] >= 0) uses[b->taps[i]] += 2;
}

void td_pw_fuse(td_pw_builder_t *b) {
    uint32_t *uses = TD_NEW_N(b->arena, uint32_t, b->n_values + 1), kept = 0;
    int32_t *maker = TD_NEW_N(b->arena, int32_t, b->n_values + 1);
    if (!uses || !maker) return; /* slower, not wrong; finishing reports the end of memory */
    count(b, uses, maker);
    for (uint32_t i = 0; i < b->n_ops; i++) {
        td_pw_op_t *o = &b->ops[i];
        for (int k = 0; k < 2; k++) {
            int32_t v = k ? o->b : o->a, m = v >= 0 ? maker[v] : -1;
            if (m < 0 || uses[v] != 1 || b->ops[m].kind == TD_PW_DEAD) continue;
            td_pw_op_t *first = &b->ops[m], merged;
            if (make_pair(b, first, o)) {
                first->kind = TD_PW_DEAD;
                break;
            }
            if (make_rounded(first, o, &merged)) {
                *o = merged;
                first->kind = TD_PW_DEAD;
                break;
            }
        }
    }
    for (uint32_t i = 0; i < b->n_ops; i++) {
        if (b->ops[i].kind == TD_PW_DEAD) continue;
        make_scalar(b, &b->ops[i]);
        b->ops[kept++] = b->ops[i];
    }
    b->n_ops = kept;
}
