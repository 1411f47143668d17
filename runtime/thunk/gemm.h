/* SPDX-License-Identifier: Apache-2.0 */
/* What the thunks that multiply matrices share. */
#ifndef TD_RUNTIME_THUNK_GEMM_H
#define TD_RUNTIME_THUNK_GEMM_H

#include "runtime/thunk/thunk.h"

struct Xla__GemmConfigProto;

/* Reads the layouts, alpha and beta; a transposed layout becomes the other order. C is read only if beta is not 0.
 * All matrices get D's batch count (a single one: stride 0). Checks sizes against each other. */
td_status_t td_gemm_config(td_parse_t *c, const struct Xla__GemmConfigProto *g, td_gemm_desc_t *d);
/* Every element of the matrix lies in the slice. */
td_status_t td_gemm_fits(td_parse_t *c, const char *what, const td_matrix_t *m, const td_kernel_arg_t *a);

#endif
