/* SPDX-License-Identifier: Apache-2.0 */
/* A call that is not answered at once. It is answered once: with a reply or a failure, or by its deadline, or not at
 * all when the client leaves. The object that it is part of lives on until the last of its owners has let go: the work
 * itself, and the deadline's timer. Thread: the loop's. */
#ifndef TD_DAEMON_PENDING_H
#define TD_DAEMON_PENDING_H

#include "daemon/service.h"

typedef struct td_pending td_pending_t;
struct td_pending {
    td_service_t *service;
    td_call_t *call; /* NULL once answered or gone */
    /* The client has left, or (late) the deadline has passed and the call has been answered. */
    void (*left)(td_pending_t *p, bool late);
    void (*free)(td_pending_t *p);
    const char *late; /* what has not happened before the deadline: "the model had run" */
    uv_timer_t timer;
    int owners;
    bool has_timer;
};

/* p: zero but for left, free and late. False: the deadline has passed, the call is answered, and p is still the
 * caller's alone; else it has one owner. */
bool td_pending_start(td_pending_t *p, td_service_t *s, td_call_t *call);
/* For the answer; NULL: it is too late for one. */
td_call_t *td_pending_take(td_pending_t *p);
/* Answers if it is not too late; message moves. */
void td_pending_reply(td_pending_t *p, td_pb_t *message);
void td_pending_fail(td_pending_t *p, td_grpc_code_t code, const char *text);
/* The work's end. */
void td_pending_drop(td_pending_t *p);

#endif
