/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/trace.h"

#include <string.h>

#include "base/clock.h"

td_status_t td_trace_create(td_device_t *dev, const td_alloc_t *alloc, uint32_t most, td_trace_t **out, td_err_t *err) {
    if (!dev->ops->tape_create)
        return td_fail(err, TD_UNSUPPORTED, "the device '%s' tells no times, so there is no trace", dev->ops->name);
    if (!most || most > TD_LIMIT_TRACE_EVENTS)
        return td_fail(err, TD_USAGE, "a trace of %u events; 1 to %u are possible", most, TD_LIMIT_TRACE_EVENTS);
    td_trace_t *t = alloc->get(alloc->ctx, sizeof *t, 16);
    if (!t) return td_fail(err, TD_NOMEM, "out of memory");
    *t = (td_trace_t){.dev = dev, .alloc = alloc, .most = most};
    t->events = alloc->get(alloc->ctx, most * sizeof *t->events, 16);
    t->stamps = alloc->get(alloc->ctx, (2ull * most + 1) * sizeof *t->stamps, 16);
    td_status_t st = TD_OK;
    if (!t->events || !t->stamps) st = td_fail(err, TD_NOMEM, "no memory for a trace of %u events", most);
    if (!st) st = dev->ops->tape_create(dev, 2 * most + 1, &t->tape, err);
    if (st) td_trace_destroy(t);
    else *out = t;
    return st;
}

void td_trace_destroy(td_trace_t *t) {
    if (!t) return;
    if (t->tape) t->dev->ops->tape_destroy(t->tape);
    if (t->stamps) t->alloc->put(t->alloc->ctx, t->stamps, (2ull * t->most + 1) * sizeof *t->stamps);
    if (t->events) t->alloc->put(t->alloc->ctx, t->events, t->most * sizeof *t->events);
    t->alloc->put(t->alloc->ctx, t, sizeof *t);
}

td_status_t td_trace_begin(td_run_t *r, const char *kind, const char *name, uint32_t *out) {
    td_trace_t *t = r->trace;
    *out = TD_NO_EVENT;
    if (t->n == t->most) {
        t->left_out++;
        return TD_OK;
    }
    uint32_t k = t->n++;
    *out = k;
    t->events[k] = (td_trace_event_t){.kind = kind, .name = name, .lane = r->lane, .depth = t->depth,
                                      .enqueue_ns = td_now_ns(td_clock_system())};
    return r->dev->ops->stamp(r->stream, t->tape, 1 + 2 * k, r->err);
}

td_status_t td_trace_start(td_run_t *r, uint32_t *out_inputs) {
    td_trace_t *t = r->trace;
    t->n = 0;
    t->depth = 0;
    t->left_out = 0;
    td_status_t st = r->dev->ops->stamp(r->stream, t->tape, 0, r->err);
    return st ? st : td_trace_begin(r, "copy", "inputs", out_inputs);
}

td_status_t td_trace_end(td_run_t *r, uint32_t k) {
    td_trace_t *t = r->trace;
    if (k == TD_NO_EVENT) return TD_OK;
    td_status_t st = r->dev->ops->stamp(r->stream, t->tape, 2 + 2 * k, r->err);
    t->events[k].enqueue_ns = td_now_ns(td_clock_system()) - t->events[k].enqueue_ns;
    return st;
}

td_status_t td_trace_enqueue(td_run_t *r, const td_thunk_t *t) {
    td_trace_t *trace = r->trace;
    uint32_t k = TD_NO_EVENT;
    td_status_t st = td_trace_begin(r, t->kind->name, t->annotation, &k);
    if (st) return st;
    trace->depth++;
    st = trace->inner ? trace->inner(r, t) : t->kind->enqueue(r, t);
    trace->depth--;
    return st ? st : td_trace_end(r, k);
}

td_status_t td_trace_finish(td_trace_t *t, td_status_t st, td_err_t *err) {
    if (!st) st = t->dev->ops->tape_read(t->tape, 2 * t->n + 1, t->stamps, err);
    for (uint32_t i = 0; i < t->n && !st; i++) {
        uint64_t a = t->stamps[1 + 2 * i], b = t->stamps[2 + 2 * i];
        if (a == TD_NO_TIME || b == TD_NO_TIME)
            st = td_fail(err, TD_INTERNAL, "the stream did not get to %s '%s'", t->events[i].kind, t->events[i].name);
        t->events[i].start_ns = a;
        t->events[i].ns = b > a ? b - a : 0;
    }
    if (st) t->n = 0;
    return st;
}
