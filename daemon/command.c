/* SPDX-License-Identifier: Apache-2.0 */
/* A command's object has up to two owners on the loop: the handle by which the store's thread wakes the loop, and the
 * deadline's timer. It goes when both are closed. */
#include "daemon/command.h"

#include <stdlib.h>

typedef struct pending {
    td_command_t command;
    td_service_t *service;
    td_call_t *call; /* NULL once answered or gone */
    uv_async_t woken;
    uv_timer_t timer;
    bool has_timer, ended; /* ended: the store will not call any more, and woken is closing */
    int owners;
    td_status_t status; /* the store's; read after woken */
    td_err_t err;
} pending_t;

static void drop(pending_t *p) {
    if (!--p->owners) free(p);
}

static void on_closed(uv_handle_t *h) {
    drop(h->data);
}

static void end(pending_t *p) {
    if (p->ended) return;
    p->ended = true;
    uv_close((uv_handle_t *)&p->woken, on_closed);
    if (p->has_timer) uv_close((uv_handle_t *)&p->timer, on_closed);
}

/* On a thread of the store. */
static void done(td_command_t *c, td_status_t status, const td_err_t *err) {
    pending_t *p = c->user;
    p->status = status;
    if (status != TD_OK && err) p->err = *err;
    uv_async_send(&p->woken);
}

static void reply(td_call_t *call) {
    td_pb_t out = {0};
    td_pb_raw(&out, "\0\0\0\0", TD_GRPC_PREFIX);
    td_call_reply(call, &out);
}

static void on_woken(uv_async_t *a) {
    pending_t *p = a->data;
    td_call_t *call = p->call;
    p->call = NULL;
    end(p);
    if (call && p->status == TD_OK) reply(call);
    else if (call) td_call_fail(call, td_grpc_code(p->status), p->err.text);
}

static void on_gone(void *user) {
    pending_t *p = user;
    p->call = NULL;
    if (!p->ended && td_store_cancel(p->service->store, &p->command)) end(p); /* else woken will come */
}

static void on_deadline(uv_timer_t *t) {
    pending_t *p = t->data;
    td_call_t *call = p->call;
    if (!call || !td_store_cancel(p->service->store, &p->command)) return; /* woken answers */
    p->call = NULL;
    end(p);
    td_call_fail(call, TD_GRPC_DEADLINE_EXCEEDED, "the deadline passed before it was done; what it waited for is cancelled");
}

static bool start_timer(pending_t *p, uint64_t ns) {
    if (ns == UINT64_MAX) return true;
    if (uv_timer_init(p->service->loop, &p->timer)) return false;
    p->timer.data = p;
    p->has_timer = true;
    p->owners++;
    uv_update_time(p->service->loop);
    return !uv_timer_start(&p->timer, on_deadline, ns / 1000000u + (ns % 1000000u != 0), 0);
}

void td_command_start(td_service_t *s, td_call_t *call, const td_command_t *what) {
    td_err_t err = {0};
    if (!td_call_timeout(call)) {
        td_call_fail(call, TD_GRPC_DEADLINE_EXCEEDED, "the deadline passed before the request came");
        return;
    }
    pending_t *p = calloc(1, sizeof *p);
    if (!p || uv_async_init(s->loop, &p->woken, on_woken)) {
        free(p);
        td_call_fail(call, TD_GRPC_RESOURCE_EXHAUSTED, "out of memory");
        return;
    }
    p->woken.data = p;
    p->service = s;
    p->owners = 1;
    p->command = (td_command_t){.kind = what->kind, .model = what->model, .version = what->version,
                                .files = what->files, .n_files = what->n_files, .done = done, .user = p};
    td_status_t r = start_timer(p, td_call_timeout(call)) ? td_store_command(s->store, &p->command, &err)
                                                          : td_fail(&err, TD_INTERNAL, "the deadline's timer failed");
    if (r != TD_OK) {
        end(p);
        td_call_fail(call, td_grpc_code(r), err.text);
        return;
    }
    p->call = call;
    td_call_on_gone(call, on_gone, p);
}
