/* SPDX-License-Identifier: Apache-2.0 */
/* What the host's built-in handlers share: arrays of the solver types. Checks: runtime/ffi/shapes.h. Thread: any. */
#ifndef TD_RUNTIME_HOST_HANDLERS_COMMON_H
#define TD_RUNTIME_HOST_HANDLERS_COMMON_H

#include "runtime/ffi/linalg.h"
#include "runtime/host/handlers/handlers.h"

/* memcpy that accepts equal pointers and nothing to do. */
void td_copy_bytes(void *dst, const void *src, uint64_t bytes);
bool td_all_finite(td_type_t t, const void *p, uint64_t n);
void td_fill_nan(td_type_t t, void *p, uint64_t n);
/* dst (cols x rows) = conjugate transpose of src (rows x cols), both column-major and dense. */
void td_adjoint(td_type_t t, const void *src, void *dst, int rows, int cols);

#endif
