/* SPDX-License-Identifier: Apache-2.0 */
/* When each thunk of one run was at work, and on which stream: stamps of the device around it (runtime/device.h).
 *
 * A stamp is taken when its stream gets there, so on a stream that waits for another, the wait is the time of the
 * thunk that waits. A loop's thunks are told once for each iteration. Runs with a trace allocate on the device when
 * they are the first; runs of bindings without one pay nothing. Thread: that of the binding. */
#ifndef TD_RUNTIME_TRACE_H
#define TD_RUNTIME_TRACE_H

#include "runtime/thunk/thunk.h"

typedef struct td_trace {
    td_device_t *dev;
    const td_alloc_t *alloc;
    td_tape_t *tape;
    td_trace_event_t *events;
    uint64_t *stamps; /* as read from the tape: the start of the run, then two for each event */
    uint32_t n, most, depth;
    uint64_t left_out;
    td_status_t (*inner)(td_run_t *r, const td_thunk_t *t); /* what enqueued thunks before; NULL: they themselves */
} td_trace_t;

td_status_t td_trace_create(td_device_t *dev, const td_alloc_t *alloc, uint32_t most, td_trace_t **out, td_err_t *err);
void td_trace_destroy(td_trace_t *t); /* after the streams are synced; NULL is fine */
/* A run begins, on its main stream, with what brings the inputs: an event to end. */
td_status_t td_trace_start(td_run_t *r, uint32_t *out_inputs);
/* As td_run_t.each. */
td_status_t td_trace_enqueue(td_run_t *r, const td_thunk_t *t);
/* What is no thunk: begin gives the number for end, TD_NO_EVENT when there is no room. */
#define TD_NO_EVENT UINT32_MAX
td_status_t td_trace_begin(td_run_t *r, const char *kind, const char *name, uint32_t *out);
td_status_t td_trace_end(td_run_t *r, uint32_t event);
/* The streams are synced; after a failure (st) there are no events. Returns that, or its own. */
td_status_t td_trace_finish(td_trace_t *t, td_status_t st, td_err_t *err);

#endif
