/* SPDX-License-Identifier: Apache-2.0 */
/* sequential, conditional, while. */
#include <stdio.h>

#include "executable.pb-c.h"
#include "runtime/thunk/thunk.h"

td_status_t td_sequential_parse(td_parse_t *c, const td_thunk_msg_t *msg, td_thunk_t *t) {
    td_status_t st = td_thunk_seqs(c, t, 1);
    return st ? st : td_thunk_parse_seq(c, "thunks", msg->sequential_thunk->thunks, msg->sequential_thunk->n_thunks,
                                        &t->seqs[0]);
}
td_status_t td_sequential_enqueue(td_run_t *r, const td_thunk_t *t) {
    return td_thunk_run_seq(r, "thunks", &t->seqs[0]);
}

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
        return td_fail(c->err, TD_MALFORMED, "%zu branches for an index of type %s", p->n_branch_thunks,
                       td_type_name(s->type));
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
    st = td_thunk_run_seq(r, "thunks", &t->seqs[i]);
    return !st || st == TD_CANCELLED ? st : td_prefix(r->err, st, "branch %d", (int)i);
}

td_status_t td_while_parse(td_parse_t *c, const td_thunk_msg_t *msg, td_thunk_t *t) {
    const Xla__Gpu__WhileThunkProto *p = msg->while_thunk;
    td_status_t st = td_thunk_args(c, t, 1);
    if (st || (st = td_thunk_slice(c, "condition", p->condition_result_buffer_index, NULL, true, &t->args[0])))
        return st;
    if (t->args[0].size != 1)
        return td_fail(c->err, TD_MISMATCH, "condition has %llu bytes instead of 1",
                       (unsigned long long)t->args[0].size);
    t->has_trip_count = p->has_trip_count;
    t->trip_count = p->trip_count;
    if (t->has_trip_count && t->trip_count < 0)
        return td_fail(c->err, TD_MALFORMED, "trip count %lld", (long long)t->trip_count);
    if ((st = td_thunk_seqs(c, t, 2)) || (st = seq(c, "condition", p->condition_thunk_sequence, &t->seqs[0])))
        return st;
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

void td_thunk_seq_name(const td_thunk_t *t, uint32_t k, char out[24]) {
    if (t->kind->enqueue == td_conditional_enqueue) snprintf(out, 24, "branch %u", k);
    else if (t->kind->enqueue == td_while_enqueue) snprintf(out, 24, "%s", k ? "body" : "condition");
    else snprintf(out, 24, "thunks");
}
