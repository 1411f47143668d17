/* SPDX-License-Identifier: Apache-2.0 */
/* convolution: the HLO opcode, by the direct path of conv.h (nothing to release). Integer results wrap. */
#include "runtime/host/conv.h"

td_status_t td_convolution_prepare(const td_hlo_instr_t *instr, td_arena_t *arena, void **out_state,
                                   uint64_t *out_scratch, td_err_t *err) {
    td_conv_desc_t d = {.kind = TD_CONV_FORWARD,
                        .groups = instr->feature_group_count,
                        .batch_groups = instr->batch_group_count,
                        .scale = 1};
    td_conv_plan_t *p = NULL;
    TD_NEED(instr->conv && instr->n_operands == 2, "%u operands", instr->n_operands);
    const td_shape_t *x = td_operand(instr, 0), *w = td_operand(instr, 1), *y = instr->shape;
    TD_NEED(x->rank == instr->window.n + 2 && w->rank == x->rank && y->rank == x->rank,
            "rank %u for %u spatial dimensions", x->rank, instr->window.n);
    td_status_t st = td_conv_set_window(&d, instr->window.dims, instr->window.n, err);
    if (st || (st = td_conv_set_array(&d, TD_CONV_X, x, instr->conv, err)) ||
        (st = td_conv_set_array(&d, TD_CONV_W, w, instr->conv, err)) ||
        (st = td_conv_set_array(&d, TD_CONV_Y, y, instr->conv, err)) || (st = td_conv_check(&d, err)) ||
        (st = td_conv_plan_make(&d, false, arena, &p, out_scratch, err)))
        return td_prefix(err, st, "%s", instr->name);
    *out_state = p;
    return TD_OK;
}

void td_convolution_run(const void *state, const void *const *in, void *const *out, void *scratch) {
    td_conv_bufs_t b = {.x = (void *)(uintptr_t)in[0], .w = (void *)(uintptr_t)in[1], .y = out[0]};
    td_conv_direct_run(state, &b, scratch);
}
