/* SPDX-License-Identifier: Apache-2.0 */
/* Custom-call targets that the host device implements itself: one row each (handlers.c).
 *
 * prepare runs when a program is lowered: it checks operands, results and attributes (see td_attr_* of
 * runtime/ffi/attrs.h), and puts what run needs into the arena; nothing of *d outlives it. *scratch: bytes that run
 * needs (64-byte aligned there). run allocates nothing and writes results and scratch only. bufs holds one address
 * per operand, then one per result; a token's is NULL, an empty array's undefined.
 * Errors need not name target or instruction: the caller does. Thread: run is called by many at once. */
#ifndef TD_RUNTIME_HOST_HANDLERS_HANDLERS_H
#define TD_RUNTIME_HOST_HANDLERS_HANDLERS_H

#include "runtime/ffi/attrs.h"
#include "runtime/library.h"

typedef struct td_handler {
    const char *target;
    td_status_t (*prepare)(const td_custom_call_desc_t *d, td_arena_t *arena, void **state, uint64_t *scratch, td_err_t *err);
    td_status_t (*run)(const void *state, void *const *bufs, void *scratch, td_err_t *err);
    const char *what; /* one line for the documentation */
} td_handler_t;

/* NULL: not built in. */
const td_handler_t *td_handler_find(const char *target);

#endif
