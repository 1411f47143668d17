/* SPDX-License-Identifier: Apache-2.0 */
/* JAX pickles, read by opcode and never executed: jax.experimental.serialize_executable
 * writes the executable as the persistent id ("exec", bytes). */
#ifndef TD_PROTO_PICKLE_H
#define TD_PROTO_PICKLE_H

#include "base/span.h"
#include "base/status.h"

/* The bytes of that object, a view of the input. Walks every opcode to STOP, checking lengths. */
td_status_t td_pickle_find_exec(td_span_t pickle, td_span_t *out, td_err_t *err);

#endif
