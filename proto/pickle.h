/* SPDX-License-Identifier: Apache-2.0 */
/* JAX pickles, read by opcode and never executed: jax.experimental.serialize_executable
 * writes the executable as the persistent id ("exec", bytes). Thread: one. */
#ifndef TD_PROTO_PICKLE_H
#define TD_PROTO_PICKLE_H

#include "proto/feed.h"

typedef struct td_pickle {
    td_feed_t *in;
    td_limit_t object; /* the bytes of that object, once it is found */
    bool found;
    bool after_exec;
} td_pickle_t;

/* Walks the opcodes up to the object; its bytes are p->object.s. */
td_status_t td_pickle_open(td_pickle_t *p, td_feed_t *in, td_err_t *err);
/* Passes over what was not read of the object and walks on to STOP, checking lengths. */
td_status_t td_pickle_end(td_pickle_t *p, td_err_t *err);

#endif
