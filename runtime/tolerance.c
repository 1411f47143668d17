/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tolerance.h"

#include <string.h>

#include "runtime/module.h"
#include "runtime/program_in.h"

enum { DEPTH = 8 }; /* of computations that call each other */

static void see_type(td_tolerance_t *r, td_type_t t) {
    if (td_type_is_complex(t)) t = t == TD_C64 ? TD_F32 : TD_F64;
    if (!td_type_is_float(t)) return;
    if (!r->narrow || td_compare_tolerance(t) > td_compare_tolerance(r->narrow)) r->narrow = t;
}

static void see_shape(td_tolerance_t *r, const td_shape_t *s) {
    if (s->type == TD_TUPLE)
        for (uint32_t i = 0; i < s->rank; i++) see_shape(r, s->elements[i]);
    else see_type(r, s->type);
}

static void see_instr(td_tolerance_t *r, const td_hlo_instr_t *in, unsigned depth) {
    see_shape(r, in->shape);
    for (uint32_t i = 0; i < in->n_operands; i++) see_shape(r, in->operands[i]->shape);
    r->multiplies |= in->dot || in->opcode == TD_HLO_CONVOLUTION || in->opcode == TD_HLO_CUSTOM_CALL;
    r->draws |= in->opcode == TD_HLO_RNG || in->opcode == TD_HLO_RNG_GET_AND_UPDATE_STATE;
    for (uint32_t c = 0; c < in->n_called && depth < DEPTH; c++)
        for (uint32_t i = 0; i < in->called[c]->n_instrs; i++) see_instr(r, in->called[c]->instrs[i], depth + 1);
}

void td_tolerance_see(td_tolerance_t *r, const td_hlo_module_t *hlo, const td_thunk_t *t) {
    const td_hlo_instr_t *in = t->instr ? t->instr : td_hlo_find(hlo, t->annotation, strlen(t->annotation));
    for (uint32_t i = 0; i < t->n_args; i++)
        if (t->args[i].shape) see_shape(r, t->args[i].shape);
    if (in) see_instr(r, in, 0);
    r->multiplies |= t->kind->lower && t->kind->lower != td_kernel_thunk_lower;
    r->draws |= t->kind->enqueue == td_rng_seed_enqueue;
}

static void see_seq(td_tolerance_t *r, const td_hlo_module_t *hlo, const td_seq_t *s) {
    for (uint32_t i = 0; i < s->n; i++) {
        td_tolerance_see(r, hlo, &s->v[i]);
        for (uint32_t k = 0; k < s->v[i].n_seqs; k++) see_seq(r, hlo, &s->v[i].seqs[k]); /* as deep as verify allows */
    }
}

void td_tolerance_see_module(td_tolerance_t *r, const td_module_t *m) { see_seq(r, m->hlo, m->thunks); }

double td_tolerance_of(const td_tolerance_t *r, td_type_t t) {
    if (!td_type_is_float(t) && !td_type_is_complex(t)) return 0;
    double own = td_compare_tolerance(t), most = r->narrow ? td_compare_tolerance(r->narrow) : 0;
    if (r->multiplies && td_type_bits(t) <= (td_type_is_complex(t) ? 64u : 32u) && most < 1.0 / 256) most = 1.0 / 256;
    return own > most ? own : most;
}
