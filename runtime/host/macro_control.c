/* SPDX-License-Identifier: Apache-2.0 */
/* while and conditional inside a kernel. (As thunks they are control flow of the program and never come here.)
 * A loop's state lies in the results from the start: the body updates it in place. */
#include <string.h>

#include "runtime/host/body.h"
#include "runtime/host/macro_ops.h"

typedef struct loop {
    td_body_t cond, body;
    size_t *bytes; /* of each state leaf */
    uint32_t n;
    uint64_t cond_at, body_at, pred_at;
} loop_t;

static bool reserve_body(uint64_t *total, const td_body_t *b, uint64_t *at) {
    return td_reserve(total, b->scratch, 1, at);
}

td_status_t td_while_prepare(const td_hlo_instr_t *instr, td_arena_t *arena, void **out_state, uint64_t *out_scratch,
                             td_err_t *err) {
    TD_NEED(instr->n_operands == 1 && instr->n_called == 2, "%u operands, %u computations", instr->n_operands,
            instr->n_called);
    const td_hlo_comp_t *body = instr->called[0], *cond = instr->called[1];
    const td_shape_t *s = instr->shape, *r = cond->root->shape;
    TD_NEED(body->n_params == 1 && cond->n_params == 1, "a computation of the loop does not have one parameter");
    TD_NEED(td_shape_equal(td_operand(instr, 0), s) && td_shape_equal(body->params[0]->shape, s) &&
                td_shape_equal(body->root->shape, s) && td_shape_equal(cond->params[0]->shape, s),
            "operand, body and condition differ in shape");
    TD_NEED(r->type == TD_PRED && r->rank == 0, "condition is not one predicate");
    loop_t *l = TD_NEW(arena, loop_t);
    if (!l) return td_arena_fail(arena, err);
    td_status_t st = td_body_make(cond, false, arena, &l->cond, err);
    if (!st) st = td_body_make(body, true, arena, &l->body, err);
    if (st) return td_prefix(err, st, "%s", instr->name);
    l->n = l->body.n_out;
    l->bytes = TD_NEW_N(arena, size_t, l->n + 1);
    if (!l->bytes) return td_arena_fail(arena, err);
    for (uint32_t i = 0; i < l->n; i++) l->bytes[i] = (size_t)l->body.shapes[i]->count * td_elem(l->body.shapes[i]);
    *out_scratch = 0;
    TD_NEED_AS(TD_LIMIT,
               reserve_body(out_scratch, &l->cond, &l->cond_at) && reserve_body(out_scratch, &l->body, &l->body_at) &&
                   td_reserve(out_scratch, 1, 1, &l->pred_at),
               "scratch overflows");
    *out_state = l;
    return TD_OK;
}

void td_while_run(const void *state, const void *const *in, void *const *out, void *scratch) {
    const loop_t *l = state;
    char *s = scratch;
    const void *const *now = (const void *const *)out;
    uint8_t *more = (uint8_t *)s + l->pred_at;
    for (uint32_t i = 0; i < l->n; i++)
        if (l->bytes[i]) memcpy(out[i], in[i], l->bytes[i]);
    for (;;) {
        td_body_run(&l->cond, now, (void *[]){more}, s + l->cond_at);
        if (!*more) return;
        td_body_run(&l->body, now, out, s + l->body_at);
    }
}

typedef struct branches {
    td_body_t *b;
    uint32_t *first; /* number of the branch's first operand leaf */
    uint32_t n;
    bool pred;
    uint64_t body_at;
} branches_t;

td_status_t td_conditional_prepare(const td_hlo_instr_t *instr, td_arena_t *arena, void **out_state,
                                   uint64_t *out_scratch, td_err_t *err) {
    uint32_t n = instr->n_called, leaf = 1;
    TD_NEED(n && instr->n_operands == n + 1, "%u operands for %u branches", instr->n_operands, n);
    const td_shape_t *which = td_operand(instr, 0);
    TD_NEED((which->type == TD_PRED || which->type == TD_S32) && which->rank == 0, "branch index is a %s",
            td_type_name(which->type));
    TD_NEED(which->type == TD_S32 || n == 2, "%u branches for a predicate", n);
    branches_t *c = TD_NEW(arena, branches_t);
    if (!c || !(c->b = TD_NEW_N(arena, td_body_t, n)) || !(c->first = TD_NEW_N(arena, uint32_t, n)))
        return td_arena_fail(arena, err);
    c->n = n;
    c->pred = which->type == TD_PRED;
    *out_scratch = 0;
    uint64_t most = 0;
    for (uint32_t i = 0; i < n; i++) {
        const td_hlo_comp_t *f = instr->called[i];
        const td_shape_t *arg = td_operand(instr, i + 1);
        TD_NEED(f->n_params == 1 && td_shape_equal(f->params[0]->shape, arg), "operand of branch %u", i);
        TD_NEED(td_shape_equal(f->root->shape, instr->shape), "result of branch %u", i);
        td_status_t st = td_body_make(f, false, arena, &c->b[i], err);
        if (st) return td_prefix(err, st, "%s", instr->name);
        c->first[i] = leaf;
        leaf += td_shape_leaf_count(arg);
        if (c->b[i].scratch > most) most = c->b[i].scratch; /* one branch runs */
    }
    TD_NEED_AS(TD_LIMIT, td_reserve(out_scratch, most, 1, &c->body_at), "scratch overflows");
    *out_state = c;
    return TD_OK;
}

/* True is branch 0; a number that names no branch is the last one. */
void td_conditional_run(const void *state, const void *const *in, void *const *out, void *scratch) {
    const branches_t *c = state;
    int64_t at;
    if (c->pred) at = *(const uint8_t *)in[0] ? 0 : 1;
    else at = *(const int32_t *)in[0];
    if (at < 0 || at >= c->n) at = c->n - 1;
    td_body_run(&c->b[at], in + c->first[at], out, (char *)scratch + c->body_at);
}
