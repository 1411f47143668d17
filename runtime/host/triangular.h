/* SPDX-License-Identifier: Apache-2.0 */
/* Triangular systems of equations on BLAS: what the library operation and the HLO opcode share. Thread: any. */
#ifndef TD_RUNTIME_HOST_TRIANGULAR_H
#define TD_RUNTIME_HOST_TRIANGULAR_H

#include "runtime/library.h"

/* Element type, and sizes that BLAS can count. */
td_status_t td_trsm_check(const td_triangular_desc_t *d, td_err_t *err);
/* One matrix: x (m x n, column-major, dense) holds B and becomes X. d is checked. */
void td_trsm_one(const td_triangular_desc_t *d, const void *a, void *x);

#endif
