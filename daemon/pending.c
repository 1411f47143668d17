/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/pending.h"

#include <stdio.h>

void td_pending_drop(td_pending_t *p) {
    if (--p->owners) return;
    p->service->n_pending--;
    p->free(p);
}

static void on_timer_closed(uv_handle_t *h) {
    td_pending_drop(h->data);
}

static void stop_timer(td_pending_t *p) {
    if (!p->has_timer) return;
    p->has_timer = false;
    uv_close((uv_handle_t *)&p->timer, on_timer_closed);
}

td_call_t *td_pending_take(td_pending_t *p) {
    td_call_t *call = p->call;
    p->call = NULL;
    stop_timer(p);
    if (call) td_call_on_gone(call, NULL, NULL);
    return call;
}

static void on_gone(void *user) {
    td_pending_t *p = user;
    p->call = NULL;
    stop_timer(p);
    p->left(p, false);
}

static void on_deadline(uv_timer_t *t) {
    td_pending_t *p = t->data;
    char text[96];
    snprintf(text, sizeof text, "the deadline passed before %s", p->late);
    td_pending_fail(p, TD_GRPC_DEADLINE_EXCEEDED, text); /* the timer's own part keeps p */
    p->left(p, true);
}

bool td_pending_start(td_pending_t *p, td_service_t *s, td_call_t *call) {
    uint64_t ns = td_call_timeout(call);
    if (!ns) {
        td_call_fail(call, TD_GRPC_DEADLINE_EXCEEDED, "the deadline passed before the request came");
        return false;
    }
    p->service = s;
    p->call = call;
    p->owners = 1;
    s->n_pending++;
    td_call_on_gone(call, on_gone, p);
    if (ns == UINT64_MAX || uv_timer_init(s->loop, &p->timer)) return true;
    p->timer.data = p;
    p->has_timer = true;
    p->owners++;
    uv_update_time(s->loop);
    uv_timer_start(&p->timer, on_deadline, ns / 1000000u + (ns % 1000000u != 0), 0);
    return true;
}

void td_pending_reply(td_pending_t *p, td_pb_t *message) {
    td_call_t *call = td_pending_take(p);
    if (call) td_call_reply(call, message);
    else td_pb_free(message);
}

void td_pending_fail(td_pending_t *p, td_grpc_code_t code, const char *text) {
    td_call_t *call = td_pending_take(p);
    if (call) td_call_fail(call, code, text);
}
