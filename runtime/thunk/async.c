/* SPDX-License-Identifier: Apache-2.0 */
/* async_start and async_done: work on a second stream, between two events.
 *
 * start: the body's stream waits for what the current one has enqueued so far, receives the body, and is
 * marked behind it. done: the current stream waits for that mark. Nothing else orders streams. A start may
 * stand in the body of another one, a loop or a branch; the "current" stream is then that one's. */
#include <string.h>

#include "executable.pb-c.h"
#include "runtime/thunk/thunk.h"

#define CASE(x) XLA__GPU__ASYNC_START_THUNK_PROTO__EXECUTION_STREAM_ID_##x
/* The three kinds of streams are numbered apart. Without a number the body stays on the current stream. */
static td_status_t logical_stream(td_parse_t *c, const Xla__Gpu__AsyncStartThunkProto *p, td_thunk_t *t) {
    uint64_t id = 0;
    switch (p->execution_stream_id_case) {
    case CASE(COMPUTATION_STREAM_ID): id = p->computation_stream_id, t->stream_use = TD_STREAM_COMPUTE; break;
    case CASE(COMMUNICATION_STREAM_ID): id = p->communication_stream_id, t->stream_use = TD_STREAM_COMMUNICATION; break;
    case CASE(MEMCPY_STREAM_ID): id = p->memcpy_stream_id, t->stream_use = TD_STREAM_MEMCPY; break;
    default: t->stream_use = TD_STREAM_MAIN; break;
    }
    if (id >= TD_LIMIT_STREAMS)
        return td_fail(c->err, TD_LIMIT, "stream id %llu over the limit of %u", (unsigned long long)id,
                       TD_LIMIT_STREAMS);
    t->stream = t->stream_use == TD_STREAM_MAIN ? -1 : (int64_t)id;
    return TD_OK;
}

static td_status_t add_pair(td_parse_t *c, td_thunk_t *t) {
    for (uint32_t i = 0; i < c->n_async; i++)
        if (c->async[i].id == t->id)
            return td_fail(c->err, TD_MALFORMED, "async execution id %llu starts twice", (unsigned long long)t->id);
    if (c->n_async == TD_LIMIT_ASYNC_PAIRS)
        return td_fail(c->err, TD_LIMIT, "more than %u async pairs", TD_LIMIT_ASYNC_PAIRS);
    if (c->n_async == c->cap_async) {
        uint32_t cap = c->cap_async ? 2 * c->cap_async : 16;
        void *v = td_arena_array(c->arena, cap, sizeof *c->async);
        if (!v) return td_arena_fail(c->arena, c->err);
        if (c->n_async) memcpy(v, c->async, c->n_async * sizeof *c->async);
        c->async = v;
        c->cap_async = cap;
    }
    t->pair = c->n_async;
    c->async[c->n_async].id = t->id;
    c->async[c->n_async++].done = false;
    return TD_OK;
}

td_status_t td_async_start_parse(td_parse_t *c, const td_thunk_msg_t *msg, td_thunk_t *t) {
    const Xla__Gpu__AsyncStartThunkProto *p = msg->async_start_thunk;
    td_status_t st;
    t->id = p->async_execution_id;
    if ((st = logical_stream(c, p, t)) || (st = add_pair(c, t)) || (st = td_thunk_seqs(c, t, 1))) return st;
    return td_thunk_parse_seq(c, "thunks", p->thunks ? p->thunks->thunks : NULL, p->thunks ? p->thunks->n_thunks : 0,
                              &t->seqs[0]);
}

/* On an error too, the end is recorded: whoever waits for it must not go ahead of what is running already. */
td_status_t td_async_start_enqueue(td_run_t *r, const td_thunk_t *t) {
    const td_device_ops_t *ops = r->dev->ops;
    uint32_t here = r->lane, there = t->stream_use == TD_STREAM_MAIN ? here : t->lane;
    td_status_t st = ops->event_record(r->stream, r->fork, r->err);
    if (!st && r->dropped != 2 * t->pair) st = ops->stream_wait(r->lanes[there].stream, r->fork, r->err);
    if (st) return st;
    td_run_lane(r, there);
    st = td_thunk_run_seq(r, "thunks", &t->seqs[0]);
    td_status_t recorded = ops->event_record(r->stream, r->ends[t->pair], st ? NULL : r->err);
    td_run_lane(r, here);
    return st ? st : recorded;
}

td_status_t td_async_done_parse(td_parse_t *c, const td_thunk_msg_t *msg, td_thunk_t *t) {
    t->id = msg->async_done_thunk->async_execution_id;
    for (uint32_t i = 0; i < c->n_async; i++)
        if (c->async[i].id == t->id) {
            if (c->async[i].done)
                return td_fail(c->err, TD_MALFORMED, "async execution id %llu is done twice",
                               (unsigned long long)t->id);
            c->async[i].done = true;
            t->pair = i;
            return TD_OK;
        }
    return td_fail(c->err, TD_MALFORMED, "async execution id %llu was never started", (unsigned long long)t->id);
}

td_status_t td_async_done_enqueue(td_run_t *r, const td_thunk_t *t) {
    if (r->dropped == 2 * t->pair + 1) return TD_OK;
    td_status_t st = r->dev->ops->stream_wait(r->stream, r->ends[t->pair], r->err);
    return st ? td_prefix(r->err, st, "body of '%s'", t->annotation) : TD_OK;
}
