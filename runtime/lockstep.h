/* SPDX-License-Identifier: Apache-2.0 */
/* One program on two devices, thunk by thunk: a device is held against one that is trusted, the reference.
 *
 * The reference runs the program; before each thunk its arguments, as they are there, go to the other device; then both
 * run the thunk, all streams run empty, and what it wrote is compared (compare.h). So errors do not accumulate, and
 * each thunk is judged alone. Loops and branches follow the reference. Bodies of async pairs run where they start.
 * What the two devices differ in without a fault is not compared: seeds, and workspaces. A sort that several kernels do
 * is compared behind the last of them. Thread: one, which owns both devices. */
#ifndef TD_RUNTIME_LOCKSTEP_H
#define TD_RUNTIME_LOCKSTEP_H

#include "runtime/compare.h"
#include "runtime/program.h"

/* One array that a thunk wrote. */
typedef struct td_finding {
    char thunk[224];       /* where it stands: "thunks[3] (while) body[0] (custom_kernel)" */
    char instruction[128]; /* "" if the artifact says none */
    int64_t loops[TD_LIMIT_THUNK_DEPTH]; /* counters of the loops around it, innermost last */
    uint32_t n_loops;
    uint32_t argument;     /* of the thunk, in the order of the artifact */
    char shape[160], index[160]; /* of the array; of the worst element in it */
    td_difference_t difference;
} td_finding_t;

typedef struct td_lockstep_report {
    uint64_t thunks;    /* that ran; those in loops each time */
    uint64_t arrays, elements; /* compared */
    uint64_t unjudged;  /* arrays that were not */
    uint64_t differing; /* thunks with an array that differs */
    td_finding_t first; /* of the first of them, if any: its worst array */
    td_finding_t worst; /* of all others that have an error within the tolerance: the nearest to it; n/a: error 0 */
} td_lockstep_report_t;

typedef struct td_lockstep_opts {
    td_device_t *reference, *device;
    double tolerance;        /* for floats of all types; negative: td_compare_tolerance of the narrowest type that the
                              * thunk's instruction has, and for f32 1/256 where it multiplies matrices, which GPUs may
                              * round to TF32 */
    const td_alloc_t *alloc; /* NULL: the heap */
} td_lockstep_opts_t;

/* inputs: as td_program_run. TD_OK when the program ran to its end, whether anything differs or not. Errors name the
 * device, "reference" or "device", that could not be given the program or failed. */
td_status_t td_lockstep(const td_module_t *m, const td_lockstep_opts_t *opts, const void *const *inputs,
                        td_lockstep_report_t *out, td_err_t *err);

#endif
