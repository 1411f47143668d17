/* SPDX-License-Identifier: Apache-2.0 */
/* Two kernels into one: a compiler often splits a one-row matrix product into a kernel that multiplies and one
 * that sums up. A device that compiles kernels itself may take both at once and never store the products. */
#ifndef TD_RUNTIME_JOIN_H
#define TD_RUNTIME_JOIN_H

#include "runtime/thunk/thunk.h"

/* A copy of the sequence's thunks in the arena in which such pairs are joined: the first is skipped, the second
 * has `producer` and, after its operands, the first's operands as arguments. *out = the sequence itself if there
 * is none. */
td_status_t td_join_products(const td_seq_t *seq, td_arena_t *arena, td_seq_t *out, td_err_t *err);

#endif
