/* SPDX-License-Identifier: Apache-2.0 */
/* How far two correct devices may be apart in what a thunk, or a whole program, computes: what the types and the
 * operations in it allow. Thread: any; immutable once all has been seen. */
#ifndef TD_RUNTIME_TOLERANCE_H
#define TD_RUNTIME_TOLERANCE_H

#include "runtime/compare.h"
#include "runtime/program.h"

struct td_thunk;

/* Zeroed: nothing seen. */
typedef struct td_tolerance {
    td_type_t narrow; /* the coarsest of its floats; TD_TYPE_INVALID: none */
    bool multiplies;  /* matrices: GPUs may round them to TF32 */
    bool draws;       /* random numbers, from a seed or a state that is each device's own */
} td_tolerance_t;

/* The thunk itself, without those inside it. */
void td_tolerance_see(td_tolerance_t *t, const td_hlo_module_t *hlo, const struct td_thunk *thunk);
/* All thunks of it, with those inside. */
void td_tolerance_see_module(td_tolerance_t *t, const td_module_t *m);
/* Of an array of that type which it wrote: td_compare_tolerance of the type or of the coarsest that was seen, and 1/256
 * where matrices of 32 bits and fewer are multiplied. 0: must be equal. */
double td_tolerance_of(const td_tolerance_t *t, td_type_t type);

#endif
