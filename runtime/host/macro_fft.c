/* SPDX-License-Identifier: Apache-2.0 */
/* The opcode fft. */
#include "runtime/fft_desc.h"
#include "runtime/host/fft.h"
#include "runtime/host/macro_ops.h"

td_status_t td_fft_op_prepare(const td_hlo_instr_t *instr, td_arena_t *arena, void **out_state, uint64_t *out_scratch,
                              td_err_t *err) {
    td_fft_desc_t d;
    const td_fft_t *f = NULL;
    TD_NEED(instr->n_operands == 1, "%u operands", instr->n_operands);
    td_status_t s = td_fft_describe(instr->fft_type, instr->fft_length.v, instr->fft_length.n, td_operand(instr, 0),
                                    instr->shape, &d, err);
    if (!s) s = td_fft_make(&d, arena, &f, out_scratch, err);
    if (s) return td_prefix(err, s, "%s", instr->name);
    *out_state = (void *)(uintptr_t)f;
    return TD_OK;
}

void td_fft_op_run(const void *state, const void *const *in, void *const *out, void *scratch) {
    td_fft_run(state, in[0], out[0], scratch);
}
