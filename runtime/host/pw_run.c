/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/host/pw_run.h"

#include <string.h>

#include "runtime/host/types.h"

uint64_t td_pw_scratch(const td_pw_t *p) {
    return p->table_bytes + (uint64_t)p->n_tiles * p->tile_bytes;
}

static void convert(const td_pw_op_t *o, void *d, const void *a, size_t n) {
    td_type_t to = (td_type_t)o->to;
    if (td_type_is_small_float(to)) {
        if (o->from == TD_F32) {
            td_small_round(to, a, d, n);
            return;
        }
        uint16_t half[TD_PW_TILE];
        td_convert_array((td_type_t)o->from, a, to, half, n);
        td_small_load(to, half, d, n);
    } else {
        td_convert_array((td_type_t)o->from, a, to, d, n);
    }
}

static void run_op(const td_pw_op_t *o, void **at, size_t n) {
    void *d = at[o->d];
    const void *a = at[o->a];
    switch ((td_pw_kind_t)o->kind) {
    case TD_PW_FN: o->fn(d, a, o->b < 0 ? NULL : at[o->b], o->c < 0 ? NULL : at[o->c], n); break;
    case TD_PW_LOAD: td_small_load((td_type_t)o->from, a, d, n); break;
    case TD_PW_STORE: td_small_store((td_type_t)o->to, a, d, n); break;
    case TD_PW_ROUND: td_small_round((td_type_t)o->to, a, d, n); break;
    case TD_PW_WRAP:
        memmove(d, a, n);
        td_subbyte_wrap((td_type_t)o->to, d, n);
        break;
    case TD_PW_CONVERT: convert(o, d, a, n); break;
    case TD_PW_BITCAST: memmove(d, a, n * td_type_bytes((td_type_t)o->to)); break;
    case TD_PW_DEAD: break;
    case TD_PW_REDUCE_PRECISION:
        if (o->from == TD_F64) td_pw_reduce_precision_f64(d, a, n, o->exponent, o->mantissa);
        else if (o->to == TD_F16) td_pw_reduce_precision_f16(d, a, n, o->exponent, o->mantissa);
        else td_pw_reduce_precision_f32(d, a, n, o->exponent > 8 ? 8 : o->exponent, o->mantissa);
        break;
    }
}

void td_pw_run(const td_pw_t *p, const void *const *in, void *const *out, size_t n, void *scratch) {
    if (!n) return;
    void **at = scratch;
    char *tiles = (char *)scratch + p->table_bytes;
    uint32_t k = 0;
    for (uint32_t i = 0; i < p->n_inputs; i++) at[k++] = (void *)(uintptr_t)in[i];
    for (uint32_t i = 0; i < p->n_consts; i++) at[k++] = (void *)(uintptr_t)p->consts[i];
    for (uint32_t i = 0; i < p->n_tiles; i++) at[k++] = tiles + i * p->tile_bytes;
    if (p->direct) at[k] = out[0];
    for (uint32_t i = 0; i < p->n_ops; i++) run_op(&p->ops[i], at, n);
    if (p->direct) return;
    for (uint32_t i = 0; i < p->n_outs; i++)
        if (out[i] != at[p->outs[i].place]) memcpy(out[i], at[p->outs[i].place], n * p->outs[i].bytes);
}

const void *td_pw_tapped(const td_pw_t *p, uint32_t k, const void *scratch) {
    return ((void *const *)scratch)[p->taps[k]];
}
