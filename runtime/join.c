/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/join.h"

#include <string.h>

/* Is the fusion's result a product, perhaps converted? One array out, arrays in. */
static bool makes_products(const td_hlo_instr_t *in) {
    if (!in || in->opcode != TD_HLO_FUSION || in->n_called != 1 || !td_type_is_array(in->shape->type)) return false;
    for (uint32_t i = 0; i < in->n_operands; i++)
        if (!td_type_is_array(in->operands[i]->shape->type)) return false;
    const td_hlo_instr_t *r = in->called[0]->root;
    while (r->opcode == TD_HLO_BITCAST || r->opcode == TD_HLO_CONVERT) r = r->operands[0];
    return r->opcode == TD_HLO_MULTIPLY;
}

static const td_hlo_instr_t *strip(const td_hlo_instr_t *in) {
    while (in->opcode == TD_HLO_BITCAST || in->opcode == TD_HLO_CONVERT) in = in->operands[0];
    return in;
}

/* Does the fusion sum up its operand k, and read it nowhere else? */
static bool sums_up(const td_hlo_instr_t *in, uint32_t k) {
    if (in->opcode != TD_HLO_FUSION || in->n_called != 1 || in->called[0]->n_params != in->n_operands) return false;
    const td_hlo_comp_t *c = in->called[0];
    const td_hlo_instr_t *p = c->params[k];
    uint32_t readers = 0;
    bool summed = false;
    for (uint32_t i = 0; i < c->n_instrs; i++) {
        const td_hlo_instr_t *x = c->instrs[i];
        for (uint32_t j = 0; j < x->n_operands; j++) readers += x->operands[j] == p;
        if (x->opcode == TD_HLO_REDUCE && x->n_operands == 2 && strip(x->operands[0]) == p) summed = true;
    }
    return summed && readers == 1 && c->root != p;
}

/* The operand of `second` that is `first`, through bitcasts; no other instruction reads first. */
static bool only_reader(const td_hlo_instr_t *first, const td_hlo_instr_t *second, uint32_t *operand) {
    const td_hlo_instr_t *cur = first;
    for (;;) {
        const td_hlo_instr_t *reader = NULL;
        uint32_t n = 0, at = 0;
        if (cur->comp->root == cur || cur->comp != second->comp || cur->shape->type != first->shape->type) return false;
        for (uint32_t i = 0; i < cur->comp->n_instrs; i++)
            for (uint32_t j = 0; j < cur->comp->instrs[i]->n_operands; j++)
                if (cur->comp->instrs[i]->operands[j] == cur) n++, reader = cur->comp->instrs[i], at = j;
        if (n != 1) return false;
        *operand = at;
        if (reader == second) return true;
        if (reader->opcode != TD_HLO_BITCAST) return false;
        cur = reader;
    }
}

static bool overlap(const td_kernel_arg_t *a, const td_kernel_arg_t *b) {
    return a->allocation == b->allocation && a->size && b->size && (a->offset < b->offset ? b->offset - a->offset < a->size : a->offset - b->offset < b->size);
}

/* Do thunks between the two leave the first's operands as they are? */
static bool undisturbed(const td_seq_t *s, uint32_t first, uint32_t second) {
    const td_thunk_t *a = &s->v[first];
    for (uint32_t i = first + 1; i < second; i++) {
        const td_thunk_t *t = &s->v[i];
        if (t->n_seqs || !t->n_args) return false;
        for (uint32_t k = 0; k < t->n_args; k++)
            for (uint32_t j = 0; j + 1 < a->n_args; j++)
                if (t->args[k].written && overlap(&t->args[k], &a->args[j])) return false;
    }
    return true;
}

static bool is_kernel(const td_thunk_t *t) { return t->kind->lower == td_kernel_thunk_lower && !t->skip && t->instr; }

static bool joinable(const td_seq_t *s, uint32_t first, uint32_t second, uint32_t *operand) {
    const td_thunk_t *a = &s->v[first], *b = &s->v[second];
    const td_hlo_instr_t *in = b->instr;
    if (!only_reader(a->instr, in, operand) || !sums_up(in, *operand)) return false;
    for (uint32_t i = 0; i < in->n_operands; i++)
        if (!td_type_is_array(in->operands[i]->shape->type)) return false;
    if (a->n_args != a->instr->n_operands + 1 || b->n_args <= in->n_operands) return false;
    const td_kernel_arg_t *made = &a->args[a->n_args - 1], *read = &b->args[*operand];
    return made->allocation == read->allocation && made->offset == read->offset && made->size == read->size && undisturbed(s, first, second);
}

static td_status_t join(td_thunk_t *a, td_thunk_t *b, uint32_t operand, td_arena_t *arena, td_err_t *err) {
    uint32_t mine = b->instr->n_operands, more = a->instr->n_operands;
    td_kernel_arg_t *v = TD_NEW_N(arena, td_kernel_arg_t, b->n_args + more);
    if (!v) return td_arena_fail(arena, err);
    memcpy(v, b->args, mine * sizeof *v);
    if (more) memcpy(v + mine, a->args, more * sizeof *v);
    for (uint32_t i = 0; i < more; i++) v[mine + i].written = false;
    memcpy(v + mine + more, b->args + mine, (b->n_args - mine) * sizeof *v);
    b->args = v, b->n_args += more, b->producer = a->instr, b->producer_operand = operand;
    a->skip = true;
    return TD_OK;
}

enum { WINDOW = 16 }; /* how far apart the two may stand */

td_status_t td_join_products(const td_seq_t *seq, td_arena_t *arena, td_seq_t *out, td_err_t *err) {
    *out = *seq;
    for (uint32_t i = 0; i < seq->n; i++) {
        if (!is_kernel(&out->v[i]) || out->v[i].producer || !makes_products(out->v[i].instr)) continue;
        for (uint32_t k = i + 1; k < seq->n && k <= i + WINDOW; k++) {
            uint32_t operand = 0;
            if (!is_kernel(&out->v[k]) || out->v[k].producer || !joinable(out, i, k, &operand)) continue;
            if (out->v == seq->v) {
                if (!(out->v = TD_NEW_N(arena, td_thunk_t, seq->n))) return td_arena_fail(arena, err);
                memcpy(out->v, seq->v, seq->n * sizeof *out->v);
            }
            td_status_t st = join(&out->v[i], &out->v[k], operand, arena, err);
            if (st) return st;
            break;
        }
    }
    return TD_OK;
}
