/* SPDX-License-Identifier: Apache-2.0 */
/* The built-in handlers' functions, one pair per row of table.c. prepare checks every shape and attribute
 * and fills the state (in the arena); run computes and allocates nothing. Thread: that of the kernel. */
#ifndef TD_RUNTIME_HOST_HANDLERS_FAMILIES_H
#define TD_RUNTIME_HOST_HANDLERS_FAMILIES_H

#include "runtime/host/handlers/handlers.h"

#define TD_HANDLER(name)                                                                                             \
    td_status_t td_##name##_prepare(const td_custom_call_desc_t *d, td_arena_t *arena, void **state, uint64_t *scratch,\
                                    td_err_t *err);                                                                  \
    td_status_t td_##name##_run(const void *state, void *const *bufs, void *scratch, td_err_t *err)
TD_HANDLER(potrf);
TD_HANDLER(cholesky_update);
TD_HANDLER(getrf);
TD_HANDLER(lu_pivots);
TD_HANDLER(geqrf);
TD_HANDLER(orgqr);
TD_HANDLER(ormqr);
TD_HANDLER(geqp3);
TD_HANDLER(syevd);
TD_HANDLER(sytrd);
TD_HANDLER(syrk);
TD_HANDLER(gesvd);
TD_HANDLER(gesvdj);
TD_HANDLER(geev);
TD_HANDLER(eig);
TD_HANDLER(gtsv2);
TD_HANDLER(tridiagonal_perturbed);
TD_HANDLER(sparse);
TD_HANDLER(csrlsvqr);
TD_HANDLER(threefry);
TD_HANDLER(dce_sink);
TD_HANDLER(assert);
TD_HANDLER(cub_sort);
TD_HANDLER(cub_scan);

#endif
