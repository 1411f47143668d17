/* SPDX-License-Identifier: Apache-2.0 */
/* The table of macro ops. */
#include "runtime/host/macro_ops.h"

static const td_host_op_kind_t kinds[] = {
    {TD_HLO_BROADCAST, td_move_prepare, td_move_run, false},
    {TD_HLO_TRANSPOSE, td_move_prepare, td_move_run, false},
    {TD_HLO_SLICE, td_move_prepare, td_move_run, false},
    {TD_HLO_REVERSE, td_move_prepare, td_move_run, false},
    {TD_HLO_COPY, td_move_prepare, td_move_run, false},
    {TD_HLO_RESHAPE, td_reshape_prepare, td_reshape_run, false},
    {TD_HLO_CONCATENATE, td_concat_prepare, td_concat_run, false},
    {TD_HLO_PAD, td_pad_prepare, td_pad_run, false},
    {TD_HLO_DYNAMIC_SLICE, td_dynamic_slice_prepare, td_dynamic_slice_run, false},
    {TD_HLO_DYNAMIC_UPDATE_SLICE, td_dynamic_update_prepare, td_dynamic_update_run, true},
    {TD_HLO_GATHER, td_gather_prepare, td_gather_run, false},
    {TD_HLO_SCATTER, td_scatter_prepare, td_scatter_run, true},
    {TD_HLO_REDUCE, td_reduce_prepare, td_reduce_run, false},
    {TD_HLO_REDUCE_WINDOW, td_window_prepare, td_window_run, false},
    {TD_HLO_DOT, td_dot_prepare, td_dot_run, false},
    {TD_HLO_CONVOLUTION, td_convolution_prepare, td_convolution_run, false},
    {TD_HLO_SORT, td_sort_prepare, td_sort_run, false},
    {TD_HLO_FFT, td_fft_op_prepare, td_fft_op_run, false},
    {TD_HLO_TRIANGULAR_SOLVE, td_triangular_prepare, td_triangular_run, false},
    {TD_HLO_CHOLESKY, td_cholesky_prepare, td_cholesky_run, false},
    {TD_HLO_TOPK, td_topk_prepare, td_topk_run, false},
    {TD_HLO_WHILE, td_while_prepare, td_while_run, false},
    {TD_HLO_CONDITIONAL, td_conditional_prepare, td_conditional_run, false},
    {TD_HLO_SCAN, td_scan_prepare, td_scan_run, false},
    {TD_HLO_MAP, td_map_prepare, td_map_run, false},
    {TD_HLO_SELECT_AND_SCATTER, td_select_scatter_prepare, td_select_scatter_run, false},
    {TD_HLO_RNG, td_rng_prepare, td_rng_run, false},
    {TD_HLO_RNG_BIT_GENERATOR, td_random_bits_prepare, td_random_bits_run, false},
    {TD_HLO_RNG_GET_AND_UPDATE_STATE, td_rng_state_prepare, td_rng_state_run, false},
    {TD_HLO_BATCH_NORM_TRAINING, td_batch_norm_prepare, td_batch_norm_run, false},
    {TD_HLO_BATCH_NORM_INFERENCE, td_batch_norm_prepare, td_batch_norm_run, false},
    {TD_HLO_BATCH_NORM_GRAD, td_batch_norm_prepare, td_batch_norm_run, false},
    {TD_HLO_RAGGED_DOT, td_ragged_dot_prepare, td_ragged_dot_run, false},
    {TD_HLO_SCALED_DOT, td_scaled_dot_prepare, td_scaled_dot_run, false},
    {TD_HLO_STOCHASTIC_CONVERT, td_stochastic_prepare, td_stochastic_run, false},
    {TD_HLO_BITCAST, td_bitcast_prepare, td_bitcast_run, false},
    {TD_HLO_BITCAST_CONVERT, td_bitcast_prepare, td_bitcast_run, false},
};

const td_host_op_kind_t *td_host_op_find(td_opcode_t op) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].opcode == op) return &kinds[i];
    return NULL;
}
