/* SPDX-License-Identifier: Apache-2.0 */
/* Where the time of runs goes, thunk by thunk. A run without a profile pays one comparison a thunk.
 * Thread: the one that runs the binding. */
#ifndef TD_RUNTIME_PROFILE_H
#define TD_RUNTIME_PROFILE_H

#include "base/clock.h"
#include "runtime/thunk/thunk.h"

typedef struct td_profile {
    td_profile_row_t *rows; /* by td_thunk_t.number */
    uint32_t n;
    const td_clock_t *clock;
    uint64_t inner_ns; /* of the thunks that were run inside the one being run */
} td_profile_t;

/* Rows for the program's n thunks in *seq, in the arena, all zero. */
td_status_t td_profile_create(const td_seq_t *seq, uint32_t n, td_arena_t *arena, td_profile_t **out, td_err_t *err);

/* t->kind->enqueue(r, t), counted in r->profile. */
td_status_t td_profile_enqueue(td_run_t *r, const td_thunk_t *t);

#endif
