/* SPDX-License-Identifier: Apache-2.0 */
/* sequential, conditional, while, async_start, async_done. */
#include <string.h>

#include "executable.pb-c.h"
#include "runtime/thunk/thunk.h"

td_status_t td_sequential_parse(td_parse_t *c, const td_thunk_msg_t *msg, td_thunk_t *t) {
    td_status_t st = td_thunk_seqs(c, t, 1);
    return st ? st : td_thunk_parse_seq(c, "thunks", msg->sequential_thunk->thunks, msg->sequential_thunk->n_thunks, &t->seqs[0]);
}
td_status_t td_sequential_enqueue(td_run_t *r, const td_thunk_t *t) { return td_thunk_run_seq(r, "thunks", &t->seqs[0]); }

static td_status_t seq(td_parse_t *c, const char *what, const Xla__Gpu__ThunkSequenceProto *s, td_seq_t *out) {
    return td_thunk_parse_seq(c, what, s ? s->thunks : NULL, s ? s->n_thunks : 0, out);
}

td_status_t td_conditional_parse(td_parse_t *c, const td_thunk_msg_t *msg, td_thunk_t *t) {
    const Xla__Gpu__ConditionalThunkProto *p = msg->conditional_thunk;
    td_status_t st = td_thunk_args(c, t, 1);
    if (st || (st = td_thunk_shaped(c, "branch index", p->branch_index_buffer, false, &t->args[0]))) return st;
    const td_shape_t *s = t->args[0].shape;
    if (!s || (s->type != TD_PRED && s->type != TD_S32) || s->count != 1 || s->bytes != t->args[0].size)
        return td_fail(c->err, TD_MALFORMED, "branch index is not one pred or s32 that fills its slice");
    t->index_is_pred = s->type == TD_PRED;
    if (!p->n_branch_thunks || (t->index_is_pred && p->n_branch_thunks != 2))
        return td_fail(c->err, TD_MALFORMED, "%zu branches for an index of type %s", p->n_branch_thunks, td_type_name(s->type));
    if ((st = td_thunk_seqs(c, t, (uint32_t)p->n_branch_thunks))) return st;
    for (uint32_t i = 0; i < t->n_seqs; i++)
        if ((st = seq(c, "thunks", p->branch_thunks[i], &t->seqs[i]))) return td_prefix(c->err, st, "branch %u", i);
    return TD_OK;
}

static td_status_t fetch(td_run_t *r, const td_thunk_t *t, void *out, size_t size) {
    td_status_t st = r->dev->ops->download(r->stream, out, td_thunk_addr(r, &t->args[0]), size, r->err);
    return st ? st : r->dev->ops->stream_sync(r->stream, r->err);
}

td_status_t td_conditional_enqueue(td_run_t *r, const td_thunk_t *t) {
    int32_t i = 0;
    uint8_t pred = 0;
    td_status_t st = t->index_is_pred ? fetch(r, t, &pred, 1) : fetch(r, t, &i, 4);
    if (st) return st;
    if (t->index_is_pred) i = pred ? 0 : 1;
    if (i < 0 || (uint32_t)i >= t->n_seqs) i = (int32_t)t->n_seqs - 1;
    return td_thunk_run_seq(r, "branch", &t->seqs[i]);
}

td_status_t td_while_parse(td_parse_t *c, const td_thunk_msg_t *msg, td_thunk_t *t) {
    const Xla__Gpu__WhileThunkProto *p = msg->while_thunk;
    td_status_t st = td_thunk_args(c, t, 1);
    if (st || (st = td_thunk_slice(c, "condition", p->condition_result_buffer_index, NULL, true, &t->args[0]))) return st;
    if (t->args[0].size != 1) return td_fail(c->err, TD_MISMATCH, "condition has %llu bytes instead of 1", (unsigned long long)t->args[0].size);
    t->has_trip_count = p->has_trip_count;
    t->trip_count = p->trip_count;
    if (t->has_trip_count && t->trip_count < 0) return td_fail(c->err, TD_MALFORMED, "trip count %lld", (long long)t->trip_count);
    if ((st = td_thunk_seqs(c, t, 2)) || (st = seq(c, "condition", p->condition_thunk_sequence, &t->seqs[0]))) return st;
    return seq(c, "body", p->body_thunk_sequence, &t->seqs[1]);
}

td_status_t td_while_enqueue(td_run_t *r, const td_thunk_t *t) {
    td_status_t st = TD_OK;
    int64_t *counter = &r->loops[r->n_loops++];
    for (*counter = 0;; ++*counter) {
        uint8_t go = 0;
        if (r->cancel && *r->cancel) {
            st = td_fail(r->err, TD_CANCELLED, "cancelled");
            break;
        }
        if (t->has_trip_count) {
            if (*counter >= t->trip_count) break;
        } else {
            if ((uint64_t)*counter >= TD_LIMIT_WHILE_ITERATIONS) {
                st = td_fail(r->err, TD_LIMIT, "more than %llu iterations", TD_LIMIT_WHILE_ITERATIONS);
                break;
            }
            if ((st = td_thunk_run_seq(r, "condition", &t->seqs[0])) || (st = fetch(r, t, &go, 1)) || !go) break;
        }
        if ((st = td_thunk_run_seq(r, "body", &t->seqs[1]))) break;
    }
    r->n_loops--;
    return st;
}

td_status_t td_async_start_parse(td_parse_t *c, const td_thunk_msg_t *msg, td_thunk_t *t) {
    const Xla__Gpu__AsyncStartThunkProto *p = msg->async_start_thunk;
    uint64_t id = p->execution_stream_id_case == XLA__GPU__ASYNC_START_THUNK_PROTO__EXECUTION_STREAM_ID_COMPUTATION_STREAM_ID     ? p->computation_stream_id
                  : p->execution_stream_id_case == XLA__GPU__ASYNC_START_THUNK_PROTO__EXECUTION_STREAM_ID_COMMUNICATION_STREAM_ID ? p->communication_stream_id
                  : p->execution_stream_id_case == XLA__GPU__ASYNC_START_THUNK_PROTO__EXECUTION_STREAM_ID_MEMCPY_STREAM_ID        ? p->memcpy_stream_id
                                                                                                                                  : 0;
    if (id >= TD_LIMIT_STREAMS)
        return td_fail(c->err, TD_LIMIT, "stream id %llu over the limit of %u", (unsigned long long)id, TD_LIMIT_STREAMS);
    t->stream = p->execution_stream_id_case ? (int64_t)id : -1;
    t->id = p->async_execution_id;
    for (uint32_t i = 0; i < c->n_async; i++)
        if (c->async[i].id == t->id) return td_fail(c->err, TD_MALFORMED, "async execution id %llu starts twice", (unsigned long long)t->id);
    if (c->n_async == c->cap_async) {
        uint32_t cap = c->cap_async ? 2 * c->cap_async : 16;
        void *v = td_arena_array(c->arena, cap, sizeof *c->async);
        if (!v) return td_arena_fail(c->arena, c->err);
        if (c->n_async) memcpy(v, c->async, c->n_async * sizeof *c->async);
        c->async = v;
        c->cap_async = cap;
    }
    c->async[c->n_async].id = t->id;
    c->async[c->n_async++].done = false;
    td_status_t st = td_thunk_seqs(c, t, 1);
    return st ? st : seq(c, "thunks", p->thunks, &t->seqs[0]);
}
/* One stream for all: the body runs where it starts, so its end needs no wait. */
td_status_t td_async_start_enqueue(td_run_t *r, const td_thunk_t *t) { return td_thunk_run_seq(r, "thunks", &t->seqs[0]); }

td_status_t td_async_done_parse(td_parse_t *c, const td_thunk_msg_t *msg, td_thunk_t *t) {
    t->id = msg->async_done_thunk->async_execution_id;
    for (uint32_t i = 0; i < c->n_async; i++)
        if (c->async[i].id == t->id) {
            if (c->async[i].done) return td_fail(c->err, TD_MALFORMED, "async execution id %llu is done twice", (unsigned long long)t->id);
            c->async[i].done = true;
            return TD_OK;
        }
    return td_fail(c->err, TD_MALFORMED, "async execution id %llu was never started", (unsigned long long)t->id);
}
td_status_t td_async_done_enqueue(td_run_t *r, const td_thunk_t *t) {
    (void)r, (void)t;
    return TD_OK;
}
