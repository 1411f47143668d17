/* SPDX-License-Identifier: Apache-2.0 */
/* One custom call bound to a user's handler.
 *
 * Creating it copies types, dimensions and attributes into the arena and runs the instantiate stage, whose state lives
 * as long as the call. Running builds a call frame in the scratch given (no allocation) and runs the prepare,
 * initialize and execute stages, in this order, each at most once; states of the first two end with the run. If execute
 * leaves a future, the run waits for it. Errors of a handler become statuses that name target and stage.
 * Thread: running the same call from many threads is fine, each with its own scratch. */
#ifndef TD_RUNTIME_FFI_CALL_H
#define TD_RUNTIME_FFI_CALL_H

#include "runtime/device.h"
#include "runtime/ffi/registry.h"

typedef struct td_ffi_call td_ffi_call_t;

/* Device memory that a handler has given back while work it enqueued may still use it: kept until flush, which waits
 * for the stream and gives it back to the device. The owner's; a run calls flush when it is full. */
typedef struct td_ffi_held {
    struct { void *p; uint64_t bytes; } *v;
    uint32_t n, most;
    void (*flush)(struct td_ffi_held *h); /* leaves it empty */
} td_ffi_held_t;

/* d->handler is not NULL. *out_scratch: bytes, for a 64-byte aligned block. */
td_status_t td_ffi_call_create(td_device_t *dev, const td_custom_call_desc_t *d, td_arena_t *arena, td_ffi_call_t **out,
                               uint64_t *out_scratch, td_err_t *err);
/* stream: what the platform calls one (CUstream), and held, which may be full afterwards; both NULL on a host.
 * bufs: operands, then results; a token's is NULL. */
td_status_t td_ffi_call_run(const td_ffi_call_t *c, void *stream, td_ffi_held_t *held, void *const *bufs, void *scratch,
                            td_err_t *err);
/* Deletes the state; the rest is the arena's. */
void td_ffi_call_destroy(td_ffi_call_t *c);

#endif
