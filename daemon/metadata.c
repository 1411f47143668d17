/* SPDX-License-Identifier: Apache-2.0 */
/* ModelMetadata: name 1, versions 2, platform 3, inputs 4, outputs 5; a tensor: name 1, datatype 2, shape 3. */
#include <stdlib.h>
#include <string.h>

#include "daemon/methods.h"
#include "daemon/pending.h"

typedef struct ask {
    td_pending_t pending; /* first */
    td_note_t wanted;
    td_want_t want;
    td_names_t names;
    td_status_t status; /* the store's */
    td_err_t err;
} ask_t;

static void release(td_pending_t *p) {
    ask_t *a = (ask_t *)(void *)p;
    free(a);
}

static void end(ask_t *a) {
    if (a->want.lease.resident) td_lease_release(&a->want.lease);
    td_pending_drop(&a->pending);
}

static void put_tensor(td_pb_t *out, uint32_t field, const td_tensor_info_t *t) {
    td_pb_t m = {0};
    td_pb_string(&m, 1, t->name);
    td_pb_string(&m, 2, t->datatype);
    td_pb_packed_i64(&m, 3, t->dims, t->rank);
    td_pb_message(out, field, &m);
}

/* With a version asked for, that one; else all there are. */
static td_status_t put_versions(const ask_t *a, const td_model_info_t *m, td_pb_t *out, td_err_t *err) {
    td_rows_t rows;
    td_status_t s = a->names.v[1][0] ? TD_OK : td_rows_read(a->pending.service->store, &rows, err);
    if (a->names.v[1][0]) {
        td_pb_string(out, 2, m->version);
        return TD_OK;
    }
    for (uint32_t i = 0; s == TD_OK && i < rows.n; i++)
        if (!strcmp(rows.v[i].name, m->name)) td_pb_string(out, 2, rows.v[i].version);
    td_rows_free(&rows);
    return s;
}

static void answer(ask_t *a) {
    td_err_t err = {0};
    const td_model_info_t *m = td_resident_info(a->want.lease.resident);
    td_pb_t out = td_call_answer(a->pending.call);
    td_pb_raw(&out, "\0\0\0\0", TD_GRPC_PREFIX);
    td_pb_string(&out, 1, m->name);
    td_status_t s = put_versions(a, m, &out, &err);
    td_pb_string(&out, 3, "xla_gpu_aot");
    for (uint32_t i = 0; i < m->n_inputs; i++) put_tensor(&out, 4, &m->inputs[i]);
    for (uint32_t i = 0; i < m->n_outputs; i++) put_tensor(&out, 5, &m->outputs[i]);
    if (s == TD_OK) {
        td_pending_reply(&a->pending, &out);
        return;
    }
    td_pb_free(&out);
    td_pending_fail(&a->pending, td_grpc_code(s), err.text);
}

static void wanted(ask_t *a, td_status_t s, const char *text) {
    td_service_t *v = a->pending.service;
    if (a->pending.call && s == TD_OK) answer(a);
    else if (a->pending.call)
        td_pending_fail(&a->pending, td_service_want_code(v, a->names.v[0], a->names.v[1], s), text);
    end(a);
}

static void on_wanted(td_note_t *n) {
    ask_t *a = (ask_t *)(void *)((char *)n - offsetof(ask_t, wanted));
    wanted(a, a->status, a->err.text);
}

/* On a thread of the store. */
static void on_want(td_want_t *w, td_status_t s, const td_err_t *err) {
    ask_t *a = w->user;
    a->status = s;
    if (s != TD_OK && err) a->err = *err;
    td_inbox_post(a->pending.service->inbox, &a->wanted);
}

static void on_left(td_pending_t *p, bool late) {
    ask_t *a = (ask_t *)(void *)p;
    (void)late;
    if (td_store_unwant(p->service->store, &a->want)) end(a); /* else the note comes */
}

static td_status_t read_call(td_call_t *call, td_names_t *names, bool *failed, td_err_t *err) {
    td_span_t in;
    td_pb_t body = td_call_take_body(call);
    *failed = !td_service_message(call, &body, &in);
    td_status_t s = *failed ? TD_OK : td_names_read(in, names, err);
    td_pb_free(&body);
    return s;
}

void td_metadata_start(td_service_t *s, td_call_t *call) {
    td_err_t err = {0};
    ask_t *a = calloc(1, sizeof *a);
    bool failed = false, waits = false;
    td_status_t r = a ? read_call(call, &a->names, &failed, &err) : td_fail(&err, TD_NOMEM, "out of memory");
    if (r != TD_OK) td_call_fail(call, td_grpc_code(r), err.text);
    if (r != TD_OK || failed) {
        free(a);
        return;
    }
    a->pending = (td_pending_t){.left = on_left, .free = release, .late = "the model had loaded"};
    a->wanted.read = on_wanted;
    if (!td_pending_start(&a->pending, s, call)) {
        free(a);
        return;
    }
    a->want = (td_want_t){.model = a->names.v[0], .version = a->names.v[1], .done = on_want, .user = a};
    r = td_store_want(s->store, &a->want, &waits, &err);
    if (!waits) wanted(a, r, err.text);
}
