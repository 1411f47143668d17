/* SPDX-License-Identifier: Apache-2.0 */
/* Combiners of reduce, reduce-window and scatter: one table function, or any scalar computation. */
#include "runtime/host/macro_ops.h"

#include "runtime/host/types.h"

static bool fast_op(td_opcode_t op) {
    return op == TD_HLO_ADD || op == TD_HLO_MULTIPLY || op == TD_HLO_MAXIMUM || op == TD_HLO_MINIMUM ||
           op == TD_HLO_AND || op == TD_HLO_OR || op == TD_HLO_XOR;
}

static td_status_t check_types(const td_hlo_comp_t *comp, uint32_t n, const td_type_t *types, td_err_t *err) {
    if (n > TD_MACRO_ARRAYS) return td_fail(err, TD_UNSUPPORTED, "%u arrays at once", n);
    if (comp->n_params != 2 * n) return td_fail(err, TD_MALFORMED, "%s has %u parameters", comp->name, comp->n_params);
    for (uint32_t i = 0; i < 2 * n; i++) {
        const td_shape_t *s = comp->params[i]->shape;
        if (s->rank || s->type != types[i % n])
            return td_fail(err, s->rank ? TD_MALFORMED : TD_UNSUPPORTED, "%s: type of parameter %u", comp->name, i);
    }
    const td_shape_t *r = comp->root->shape;
    if (r->type == TD_TUPLE ? r->rank != n : n != 1) return td_fail(err, TD_MALFORMED, "%s: number of results", comp->name);
    for (uint32_t i = 0; i < n; i++) {
        const td_shape_t *s = r->type == TD_TUPLE ? r->elements[i] : r;
        if (s->rank || s->type != types[i]) return td_fail(err, TD_MALFORMED, "%s: type of result %u", comp->name, i);
    }
    return TD_OK;
}

td_status_t td_combiner_make(td_combiner_t *c, const td_hlo_comp_t *comp, uint32_t n, const td_type_t *types, bool wide,
                             td_arena_t *arena, td_err_t *err) {
    td_status_t st = check_types(comp, n, types, err);
    if (st) return st;
    td_opcode_t op = td_pw_simple_op(comp);
    *c = (td_combiner_t){.n = n};
    if (n == 1 && fast_op(op) && (wide || td_type_register(types[0]) == types[0])) {
        c->reg = td_type_register(types[0]);
        if (c->reg == TD_F32 && types[0] == TD_F32 && op == TD_HLO_ADD && wide) c->reg = TD_F64;
        bool sub_byte = td_type_is_integer(types[0]) && td_type_bits(types[0]) < 8;
        const td_pw_table_t *t = sub_byte ? NULL : td_pw_table(c->reg);
        c->fn = t ? t->fn[op] : NULL;
        if (c->fn) return TD_OK;
    }
    if ((st = td_pw_compile_scalar(comp, arena, &c->pw, err))) return st;
    c->reg = types[0];
    c->scratch = td_pw_scratch(c->pw);
    return TD_OK;
}

void td_combine(const td_combiner_t *c, void *const *acc, const void *const *x, void *const *out, size_t n,
                void *scratch) {
    if (c->fn) {
        c->fn(out[0], acc[0], x[0], NULL, n);
        return;
    }
    const void *in[2 * TD_MACRO_ARRAYS];
    for (uint32_t i = 0; i < c->n; i++) {
        in[i] = acc[i];
        in[c->n + i] = x[i];
    }
    td_pw_run(c->pw, in, out, n, scratch);
}
