/* SPDX-License-Identifier: Apache-2.0 */
/* Artifacts without thunks: the thunks that the compiler would have written, made from the scheduled module and its
 * buffer assignment.
 *
 * Releases before 0.10 recorded no thunks: loading compiled the scheduled module once more. Here each instruction of
 * the schedule becomes the thunk message that newer releases write for it (kernel, copy, loop, branch, library call),
 * with slices from the buffer assignment; what follows (parsing, every check of sizes and ranges, lowering) is that of
 * all other artifacts. Kernels have no code of their own, so only a device that compiles instructions runs them.
 * Sources: xla/service/buffer_assignment.cc (ToProto), xla/hlo/analysis/hlo_dataflow_analysis.cc (which instructions
 * pass values on), xla/service/gpu/thunk_emitter.cc (which thunk an instruction becomes).
 * Thread: that of td_module_open. */
#ifndef TD_RUNTIME_SCHEDULED_H
#define TD_RUNTIME_SCHEDULED_H

#include "runtime/module.h"

/* Does the artifact hold a scheduled module and a buffer assignment instead of thunks? */
bool td_scheduled_is(const td_artifact_t *a);
/* m->hlo is there, nothing else is. *out: the artifact with allocations, outputs, constants and thunks added, in m's
 * arena; it borrows everything else from a. */
td_status_t td_scheduled_make(td_module_t *m, const td_artifact_t *a, const td_artifact_t **out, td_err_t *err);

#endif
