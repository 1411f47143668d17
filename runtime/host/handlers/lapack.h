/* SPDX-License-Identifier: Apache-2.0 */
/* LAPACK through LAPACKE's *work* routines: no allocation, no NaN check, column-major, 32-bit integers.
 * Workspaces are asked for at prepare (lwork -1) and lie in the launch's scratch. Thread: any. */
#ifndef TD_RUNTIME_HOST_HANDLERS_LAPACK_H
#define TD_RUNTIME_HOST_HANDLERS_LAPACK_H

#include <lapacke.h>
#include <limits.h>

#include "runtime/host/handlers/common.h"

_Static_assert(sizeof(lapack_int) == 4, "info and pivots of XLA are s32");

/* One routine by element type; pointers may be void *. */
#define TD_LAPACK(type, s, d, c, z, ...)                                             \
    ((type) == TD_F32   ? LAPACKE_##s##_work(LAPACK_COL_MAJOR, __VA_ARGS__)          \
     : (type) == TD_F64 ? LAPACKE_##d##_work(LAPACK_COL_MAJOR, __VA_ARGS__)          \
     : (type) == TD_C64 ? LAPACKE_##c##_work(LAPACK_COL_MAJOR, __VA_ARGS__)          \
                        : LAPACKE_##z##_work(LAPACK_COL_MAJOR, __VA_ARGS__))
/* Routines whose real and complex forms take different arguments. */
#define TD_LAPACK2(type, s, d, ...)                                                  \
    (td_real_of(type) == TD_F32 ? LAPACKE_##s##_work(LAPACK_COL_MAJOR, __VA_ARGS__)  \
                                : LAPACKE_##d##_work(LAPACK_COL_MAJOR, __VA_ARGS__))

/* The answer to a workspace query: work[0], of the element type. A float may have been rounded down. */
typedef union td_query {
    float f[2];
    double g[2];
} td_query_t;
static inline td_status_t td_lwork(td_type_t t, const td_query_t *q, lapack_int info, int *out,
                                   td_err_t *err) {
    double w = td_real_of(t) == TD_F32 ? (double)q->f[0] * (1 + 1.2e-7) + 1 : q->g[0];
    if (info != 0 || !(w >= 0 && w < INT_MAX))
        return td_fail(err, TD_LIMIT, "a workspace of %g elements (info %d)", w, (int)info);
    *out = w > 1 ? (int)w : 1;
    return TD_OK;
}
/* LAPACK counts workspaces in 32 bits: the documented least size must fit before it is asked for the best. */
static inline td_status_t td_lwork_fits(double least, td_err_t *err) {
    if (least < INT_MAX) return TD_OK;
    return td_fail(err, TD_LIMIT, "a workspace of %g elements, at most 2^31-1 are possible", least);
}
/* Leading dimensions are at least 1. */
static inline int td_ld(int n) { return n > 1 ? n : 1; }

#endif
