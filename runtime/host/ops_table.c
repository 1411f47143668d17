/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/host/box.h"

#pragma weak td_macro_concatenate
#pragma weak td_macro_pad
#pragma weak td_macro_dynamic_slice
#pragma weak td_macro_dynamic_update_slice
#pragma weak td_macro_gather
#pragma weak td_macro_scatter
#pragma weak td_macro_sort
#pragma weak td_macro_reduce_window

const td_host_op_kind_t *td_host_op_find(td_opcode_t op) {
    const td_host_op_kind_t *const table[] = {
        &td_macro_transpose, &td_macro_slice, &td_macro_reverse, &td_macro_broadcast, &td_macro_copy, &td_macro_reshape,
        &td_macro_concatenate, &td_macro_pad, &td_macro_dynamic_slice, &td_macro_dynamic_update_slice, &td_macro_gather,
        &td_macro_scatter, &td_macro_sort, &td_macro_reduce, &td_macro_reduce_window, &td_macro_dot,
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i] && table[i]->opcode == op) return table[i];
    return NULL;
}
