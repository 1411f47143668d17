/* SPDX-License-Identifier: Apache-2.0 */
/* The host device's library operations: one file and one row (library.c) each.
 * A lower function fills `run` and `library` of a kernel in the arena; what lies outside the arena is
 * given back by `release`. Running allocates nothing and writes nothing but outputs and scratch. */
#ifndef TD_RUNTIME_HOST_LIBRARY_H
#define TD_RUNTIME_HOST_LIBRARY_H

#include "runtime/host/plan.h"

#define TD_LIBRARY(name)                                                                                       \
    td_status_t td_host_##name##_lower(td_device_t *dev, const void *desc, td_arena_t *arena, td_kernel_t **out, \
                                       uint64_t *out_scratch, td_err_t *err)
TD_LIBRARY(gemm);
TD_LIBRARY(norm);
TD_LIBRARY(custom);
TD_LIBRARY(conv);
TD_LIBRARY(fft);
TD_LIBRARY(triangular);
TD_LIBRARY(topk);
TD_LIBRARY(attention);

#endif
