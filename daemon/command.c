/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/command.h"

#include <stdlib.h>

#include "daemon/inbox.h"
#include "daemon/pending.h"

typedef struct waiting {
    td_pending_t pending; /* first */
    td_note_t note;
    td_command_t command;
    td_status_t status; /* the store's */
    td_err_t err;
} waiting_t;

static void release(td_pending_t *p) {
    free((waiting_t *)(void *)p);
}

static void left(td_pending_t *p, bool late) {
    (void)late;
    waiting_t *w = (waiting_t *)(void *)p;
    if (td_store_cancel(p->service->store, &w->command)) td_pending_drop(p); /* else the note comes */
}

/* On a thread of the store. */
static void done(td_command_t *c, td_status_t status, const td_err_t *err) {
    waiting_t *w = c->user;
    w->status = status;
    if (status != TD_OK && err) w->err = *err;
    td_inbox_post(w->pending.service->inbox, &w->note);
}

static void read_note(td_note_t *n) {
    waiting_t *w = (waiting_t *)(void *)((char *)n - offsetof(waiting_t, note));
    td_call_t *call = td_pending_take(&w->pending);
    if (call && w->status == TD_OK) {
        td_pb_t out = td_call_answer(call);
        td_pb_raw(&out, "\0\0\0\0", TD_GRPC_PREFIX);
        td_call_reply(call, &out);
    } else if (call) {
        td_call_fail(call, td_service_failure_code(w->pending.service, w->status), w->err.text);
    }
    td_pending_drop(&w->pending);
}

void td_command_start(td_service_t *s, td_call_t *call, const td_command_t *what) {
    td_err_t err = {0};
    waiting_t *w = calloc(1, sizeof *w);
    if (!w) {
        td_call_fail(call, TD_GRPC_RESOURCE_EXHAUSTED, "out of memory");
        return;
    }
    w->pending = (td_pending_t){.left = left, .free = release,
                                .late = "it was done; loads that it alone wanted are cancelled"};
    w->note.read = read_note;
    w->command = (td_command_t){.kind = what->kind, .model = what->model, .version = what->version,
                                .files = what->files, .n_files = what->n_files, .done = done, .user = w};
    if (!td_pending_start(&w->pending, s, call)) {
        free(w);
        return;
    }
    td_status_t r = td_store_command(s->store, &w->command, &err);
    if (r == TD_OK) return;
    td_pending_fail(&w->pending, td_grpc_code(r), err.text);
    td_pending_drop(&w->pending);
}
