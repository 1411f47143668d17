/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/join.h"

#include <string.h>

enum { WINDOW = 16, RESULTS = 8 }; /* how far apart the two may stand; products of one kernel */

/* The number of products that the fusion makes, perhaps converted; 0: it makes anything else. */
static uint32_t products(const td_hlo_instr_t *in) {
    if (!in || in->opcode != TD_HLO_FUSION || in->n_called != 1) return 0;
    for (uint32_t i = 0; i < in->n_operands; i++)
        if (!td_type_is_array(in->operands[i]->shape->type)) return 0;
    const td_hlo_instr_t *root = in->called[0]->root;
    bool tuple = root->opcode == TD_HLO_TUPLE;
    uint32_t n = tuple ? root->n_operands : 1;
    for (uint32_t i = 0; i < n; i++) {
        const td_hlo_instr_t *r = tuple ? root->operands[i] : root;
        if (!td_type_is_array(r->shape->type)) return 0;
        while (r->opcode == TD_HLO_BITCAST || r->opcode == TD_HLO_CONVERT) r = r->operands[0];
        if (r->opcode != TD_HLO_MULTIPLY) return 0;
    }
    return n <= RESULTS ? n : 0;
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

/* The only reader of an instruction's result and which operand it is there; NULL if it is not the only one. */
static const td_hlo_instr_t *only_reader(const td_hlo_instr_t *in, uint32_t *operand) {
    const td_hlo_instr_t *reader = NULL;
    uint32_t n = 0;
    for (uint32_t i = 0; i < in->comp->n_instrs; i++)
        for (uint32_t j = 0; j < in->comp->instrs[i]->n_operands; j++)
            if (in->comp->instrs[i]->operands[j] == in) n++, reader = in->comp->instrs[i], *operand = j;
    return n == 1 && in->comp->root != in ? reader : NULL;
}

/* The kernel's instruction that reads result k of the fusion, through bitcasts, if nothing else does. */
static const td_hlo_instr_t *consumer(const td_hlo_instr_t *first, uint32_t k, uint32_t *operand) {
    const td_hlo_instr_t *cur = first;
    if (first->shape->type == TD_TUPLE) {
        const td_hlo_instr_t *element = NULL;
        for (uint32_t i = 0; i < first->comp->n_instrs; i++) {
            const td_hlo_instr_t *x = first->comp->instrs[i];
            bool reads = false;
            for (uint32_t j = 0; j < x->n_operands; j++) reads = reads || x->operands[j] == first;
            if (!reads) continue;
            if (x->opcode != TD_HLO_GET_TUPLE_ELEMENT) return NULL;
            if (x->tuple_index != k) continue;
            if (element) return NULL;
            element = x;
        }
        if (!element || first->comp->root == first) return NULL;
        cur = element;
    }
    td_type_t type = cur->shape->type;
    while ((cur = only_reader(cur, operand)) && cur->opcode == TD_HLO_BITCAST)
        if (cur->shape->type != type) return NULL;
    return cur;
}

/* Do thunks between the two leave the first's operands as they are? */
static bool undisturbed(const td_seq_t *s, uint32_t first, uint32_t second) {
    const td_thunk_t *a = &s->v[first];
    for (uint32_t i = first + 1; i < second; i++) {
        const td_thunk_t *t = &s->v[i];
        if (t->n_seqs || !t->n_args) return false;
        for (uint32_t k = 0; k < t->n_args; k++)
            for (uint32_t j = 0; j < a->instr->n_operands; j++)
                if (t->args[k].written && td_args_overlap(&t->args[k], &a->args[j])) return false;
    }
    return true;
}

static bool is_kernel(const td_thunk_t *t) { return t->kind->lower == td_kernel_thunk_lower && !t->skip && t->instr; }

/* Is it one of the arrays that the first makes? Once all are joined nobody stores or reads them. */
static bool is_product(const td_thunk_t *a, const td_kernel_arg_t *x) {
    for (uint32_t i = a->instr->n_operands; i < a->n_args; i++)
        if (a->args[i].allocation == x->allocation && a->args[i].offset == x->offset && a->args[i].size == x->size) return !x->written;
    return false;
}

/* May the second run in the first's place? Its operands, but the product, are there by then, and its results are in
 * nobody's way. */
static bool movable(const td_seq_t *s, uint32_t first, uint32_t second, uint32_t operand) {
    const td_thunk_t *b = &s->v[second];
    for (uint32_t i = first + 1; i < second; i++) {
        const td_thunk_t *t = &s->v[i];
        if (t->n_seqs || !t->n_args) return false;
        for (uint32_t k = 0; k < t->n_args; k++)
            for (uint32_t j = 0; j < b->n_args && !is_product(&s->v[first], &t->args[k]); j++)
                if (j != operand && (t->args[k].written || b->args[j].written) && td_args_overlap(&t->args[k], &b->args[j])) return false;
    }
    return true;
}

/* The thunk in reach that may take result k of the first, UINT32_MAX if there is none. early: in its place. */
static uint32_t taker(const td_seq_t *s, uint32_t first, uint32_t k, uint32_t *operand, bool *early) {
    const td_thunk_t *a = &s->v[first];
    const td_hlo_instr_t *in = consumer(a->instr, k, operand);
    if (!in || !sums_up(in, *operand)) return UINT32_MAX;
    for (uint32_t i = 0; i < in->n_operands; i++)
        if (!td_type_is_array(in->operands[i]->shape->type)) return UINT32_MAX;
    for (uint32_t i = first + 1; i < s->n && i <= first + WINDOW; i++) {
        const td_thunk_t *b = &s->v[i];
        if (!is_kernel(b) || b->instr != in) continue;
        if (b->producer || b->n_args <= in->n_operands) return UINT32_MAX;
        const td_kernel_arg_t *made = &a->args[a->instr->n_operands + k], *read = &b->args[*operand];
        bool same = made->allocation == read->allocation && made->offset == read->offset && made->size == read->size;
        *early = !undisturbed(s, first, i);
        return same && (!*early || movable(s, first, i, *operand)) ? i : UINT32_MAX;
    }
    return UINT32_MAX;
}

/* Does the kernel write what the first reads? Run in the first's place, it would before the others read that. */
static bool spoils(const td_thunk_t *a, const td_thunk_t *b) {
    for (uint32_t k = 0; k < b->n_args; k++)
        for (uint32_t j = 0; j < a->instr->n_operands; j++)
            if (b->args[k].written && td_args_overlap(&b->args[k], &a->args[j])) return true;
    return false;
}

static td_status_t join(const td_thunk_t *a, td_thunk_t *b, uint32_t operand, uint32_t output, td_arena_t *arena, td_err_t *err) {
    uint32_t mine = b->instr->n_operands, more = a->instr->n_operands;
    td_kernel_arg_t *v = TD_NEW_N(arena, td_kernel_arg_t, b->n_args + more);
    if (!v) return td_arena_fail(arena, err);
    memcpy(v, b->args, mine * sizeof *v);
    if (more) memcpy(v + mine, a->args, more * sizeof *v);
    for (uint32_t i = 0; i < more; i++) v[mine + i].written = false;
    memcpy(v + mine + more, b->args + mine, (b->n_args - mine) * sizeof *v);
    b->args = v, b->n_args += more, b->producer = a->instr, b->producer_operand = operand, b->producer_output = output;
    return TD_OK;
}

td_status_t td_join_products(const td_seq_t *seq, td_arena_t *arena, td_seq_t *out, td_err_t *err) {
    *out = *seq;
    for (uint32_t i = 0; i < seq->n; i++) {
        const td_thunk_t *a = &out->v[i];
        uint32_t n = is_kernel(a) && !a->producer ? products(a->instr) : 0, to[RESULTS], operand[RESULTS], found = 0;
        if (!n || a->n_args != a->instr->n_operands + n) continue;
        bool early[RESULTS] = {false}, moved = false;
        for (; found < n; found++) { /* all of its products, each by a kernel of its own, or none */
            to[found] = taker(out, i, found, &operand[found], &early[found]);
            bool ok = to[found] != UINT32_MAX && !(early[found] && (moved || (n > 1 && spoils(a, &out->v[to[found]]))));
            moved = moved || early[found];
            for (uint32_t k = 0; k < found; k++) ok = ok && to[k] != to[found];
            if (!ok) break;
        }
        if (found < n) continue;
        if (out->v == seq->v) {
            if (!(out->v = TD_NEW_N(arena, td_thunk_t, seq->n))) return td_arena_fail(arena, err);
            memcpy(out->v, seq->v, seq->n * sizeof *out->v);
        }
        for (uint32_t k = 0; k < n; k++) {
            td_status_t st = join(&out->v[i], &out->v[to[k]], operand[k], k, arena, err);
            if (st) return st;
        }
        out->v[i].skip = true;
        for (uint32_t k = 0; k < n; k++)
            if (early[k]) out->v[i] = out->v[to[k]], out->v[to[k]].skip = true;
    }
    return TD_OK;
}
