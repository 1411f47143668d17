/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution descriptions from shapes and dimension numbers, and their verification: what the
 * convolution thunk and the HLO opcode share. After td_conv_check all sizes fit each other, no
 * product of sizes or window positions overflows, and every offset lies inside its array.
 * Thread: any; writes only *d. */
#ifndef TD_RUNTIME_CONV_DESC_H
#define TD_RUNTIME_CONV_DESC_H

#include "runtime/library.h"

typedef enum td_conv_role { TD_CONV_X, TD_CONV_W, TD_CONV_Y } td_conv_role_t;

/* Shapes may have one dimension more than the numbers name: the vector of NCHW_VECT_C, fastest varying. */
td_status_t td_conv_set_array(td_conv_desc_t *d, td_conv_role_t role, const td_shape_t *shape,
                              const td_conv_dims_t *dims, td_err_t *err);
/* Number of spatial dimensions and the window; ranges of its fields are checked. */
td_status_t td_conv_set_window(td_conv_desc_t *d, const td_window_dim_t *dims, uint32_t n, td_err_t *err);
td_status_t td_conv_check(const td_conv_desc_t *d, td_err_t *err);

#endif
