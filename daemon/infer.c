/* SPDX-License-Identifier: Apache-2.0 */
/* A request's life: loop -> queue -> worker -> loop. The object has two owners, the
 * job and the deadline's timer, and goes when both are done; the call goes earlier
 * when the client leaves or the deadline passes. */
#include "daemon/infer.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct request {
    td_job_t job; /* first */
    td_service_t *service;
    td_call_t *call; /* NULL once answered or gone; the loop's */
    uv_timer_t timer;
    int owners; /* the loop's */
    bool has_timer;
    _Atomic(int) cancel;
    td_pb_t body, response;
    td_status_t status;
    bool compressed;
    td_err_t err;
} request_t;

static void drop(request_t *r) {
    if (--r->owners) return;
    td_pb_free(&r->body);
    td_pb_free(&r->response);
    free(r);
}

static void on_timer_closed(uv_handle_t *h) {
    drop(h->data);
}

static void stop_timer(request_t *r) {
    if (!r->has_timer) return;
    r->has_timer = false;
    uv_close((uv_handle_t *)&r->timer, on_timer_closed);
}

static void on_gone(void *user) {
    request_t *r = user;
    r->call = NULL;
    r->cancel = 1;
    stop_timer(r);
}

static void on_deadline(uv_timer_t *t) {
    request_t *r = t->data;
    td_call_t *call = r->call;
    r->call = NULL;
    r->cancel = 1;
    stop_timer(r);
    if (call) td_call_fail(call, TD_GRPC_DEADLINE_EXCEEDED, "the deadline passed before the model had run");
}

static td_status_t execute(request_t *r, td_infer_msg_t *m) {
    td_span_t msg;
    td_err_t *err = &r->err;
    td_status_t s = td_grpc_unframe((td_span_t){r->body.data, r->body.size}, &msg, err);
    r->compressed = s == TD_UNSUPPORTED;
    if (s == TD_OK) s = td_infer_decode(r->service->store, msg, m, err);
    if (s != TD_OK) return s;
    uint64_t bytes = td_infer_output_bytes(m);
    if (bytes > r->service->max_message_bytes)
        return td_fail(err, TD_LIMIT, "the response would hold %llu bytes, over max_message_bytes %llu",
                       (unsigned long long)bytes, (unsigned long long)r->service->max_message_bytes);
    td_slot_t *slot = NULL;
    s = td_model_run(m->model, m->inputs, &slot, &r->cancel, err);
    if (s != TD_OK) return s;
    td_pb_reserve(&r->response, bytes + 4096);
    td_pb_raw(&r->response, "\0\0\0\0", TD_GRPC_PREFIX);
    td_infer_encode(m, slot, &r->response);
    td_slot_release(slot);
    return TD_OK;
}

static void run(td_job_t *j) {
    request_t *r = (request_t *)(void *)j;
    td_infer_msg_t m = {0};
    if (r->cancel) {
        r->status = td_fail(&r->err, TD_CANCELLED, "cancelled");
    } else {
        r->status = execute(r, &m);
        td_infer_msg_free(&m);
    }
    td_pb_free(&r->body);
}

static void done(td_job_t *j) {
    request_t *r = (request_t *)(void *)j;
    td_call_t *call = r->call;
    r->call = NULL;
    stop_timer(r);
    if (call && r->status == TD_OK) td_call_reply(call, &r->response);
    else if (call) td_call_fail(call, r->compressed ? TD_GRPC_UNIMPLEMENTED : td_grpc_code(r->status), r->err.text);
    drop(r);
}

static void start_timer(request_t *r, uint64_t ns) {
    if (ns == UINT64_MAX || uv_timer_init(r->service->loop, &r->timer)) return;
    r->timer.data = r;
    uv_update_time(r->service->loop);
    r->has_timer = true;
    r->owners++;
    uv_timer_start(&r->timer, on_deadline, ns / 1000000u + (ns % 1000000u != 0), 0);
}

void td_infer_start(td_service_t *s, td_call_t *call) {
    td_err_t err = {0};
    request_t *r = calloc(1, sizeof *r);
    if (!r) {
        td_call_fail(call, TD_GRPC_RESOURCE_EXHAUSTED, "out of memory");
        return;
    }
    if (!td_call_timeout(call)) {
        free(r);
        td_call_fail(call, TD_GRPC_DEADLINE_EXCEEDED, "the deadline passed before the request came");
        return;
    }
    *r = (request_t){.job = {.run = run, .done = done}, .service = s, .call = call, .owners = 1};
    r->body = td_call_take_body(call);
    td_status_t e = td_worker_submit(s->worker, &r->job, &err);
    if (e != TD_OK) {
        drop(r);
        td_call_fail(call, td_grpc_code(e), err.text);
        return;
    }
    start_timer(r, td_call_timeout(call)); /* done runs on this thread, so not before */
    td_call_on_gone(call, on_gone, r);
}
