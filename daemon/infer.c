/* SPDX-License-Identifier: Apache-2.0 */
/* A request's life: want -> lease -> queue -> worker -> answer. The loop's thread moves it along:
 *
 *   WAITING   for the store: the model loads, or its sequence is executing
 *   QUEUED    in the worker's queue, or running
 *   FULL      has run into a model all of whose slots were taken; goes on when one of its requests has ended
 *
 * A client that leaves and a deadline that passes end the first and the last at once, and have the worker stop. */
#include "daemon/infer.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/clock.h"
#include "daemon/pending.h"
#include "daemon/verifier.h"

typedef enum state { WAITING, QUEUED, FULL } state_t;
enum { LEFT = 1, LATE = 2 }; /* of cancel */

typedef struct td_request {
    td_job_t job; /* first */
    td_pending_t pending;
    td_note_t wanted;
    td_want_t want; /* with the lease */
    struct td_request *prev, *next;
    state_t state;
    _Atomic(int) cancel;
    td_infer_head_t head;
    td_pb_t body, response;
    td_span_t message; /* in body */
    td_status_t status;
    td_err_t err;
    const td_resident_t *resident; /* the loop's, for comparing: the lease is the worker's while it is QUEUED */
    uint64_t since_ns, queue_ns, run_ns;
} request_t;

#define OF(type, member, p) ((request_t *)(void *)((char *)(p) - offsetof(type, member)))

static uint64_t now(void) {
    return td_now_ns(td_clock_system());
}

static void set_state(request_t *r, state_t state) {
    td_infer_queue_t *q = &r->pending.service->infer;
    q->n_waiting += (uint32_t)(state == WAITING) - (uint32_t)(r->state == WAITING);
    q->n_full += (uint32_t)(state == FULL) - (uint32_t)(r->state == FULL);
    r->state = state;
}

static void enlist(request_t *r) {
    td_infer_queue_t *q = &r->pending.service->infer;
    r->state = QUEUED;
    r->prev = q->last;
    if (r->prev) r->prev->next = r;
    else q->first = r;
    q->last = r;
}

/* The work's end: the answer has been given, or nobody waits for it. */
static void end(request_t *r) {
    td_infer_queue_t *q = &r->pending.service->infer;
    set_state(r, QUEUED);
    if (r->prev) r->prev->next = r->next;
    else q->first = r->next;
    if (r->next) r->next->prev = r->prev;
    else q->last = r->prev;
    if (r->want.lease.resident) td_lease_release(&r->want.lease);
    td_pb_free(&r->body);
    td_pending_drop(&r->pending);
}

static void on_free(td_pending_t *p) {
    request_t *r = OF(request_t, pending, p);
    td_pb_free(&r->body);
    td_pb_free(&r->response);
    free(r);
}

static td_grpc_code_t code_of(const request_t *r) {
    if (r->cancel) return r->cancel == LATE ? TD_GRPC_DEADLINE_EXCEEDED : TD_GRPC_CANCELLED;
    return td_service_failure_code(r->pending.service, r->status);
}

/* It came to no run. */
static void fail(request_t *r, td_grpc_code_t code, const char *text) {
    td_service_t *s = r->pending.service;
    const td_model_info_t *m = r->want.lease.resident ? td_resident_info(r->want.lease.resident) : NULL;
    td_stats_infer(s->stats, m ? m->name : NULL, m ? m->version : NULL, (int)code, 0, 0);
    if (m && r->head.sequence_start && r->want.lease.sequence) td_lease_spoil(&r->want.lease); /* it never began */
    td_pending_fail(&r->pending, code, text);
    end(r);
}

/* ---- on a worker ---- */
static td_status_t make_room(request_t *r, const td_infer_msg_t *m, uint64_t bytes, td_err_t *err) {
    td_service_t *s = r->pending.service;
    if (bytes > s->max_message_bytes)
        return td_fail(err, TD_LIMIT, "the response would hold %llu bytes, over max_message_bytes %llu",
                       (unsigned long long)bytes, (unsigned long long)s->max_message_bytes);
    uint64_t whole = TD_GRPC_PREFIX + bytes + td_infer_other_bytes(m);
    td_pb_reserve(&r->response, whole);
    if (r->response.refused) return td_memory_refuse(s->memory, "the response", whole, err);
    return r->response.failed ? td_fail(err, TD_NOMEM, "out of memory for the response") : TD_OK;
}

/* The answer's room is taken before the run where its size is known, or where a run cannot be repeated. */
static td_status_t execute(request_t *r, td_infer_msg_t *m, bool *ran) {
    td_err_t *err = &r->err;
    td_lease_t *lease = &r->want.lease;
    const td_model_info_t *info = td_resident_info(lease->resident);
    bool before = info->n_buckets <= 1 || lease->sequence;
    td_status_t s = td_infer_decode(info, &r->head, r->message, r->pending.service->memory, m, err);
    if (s == TD_OK && before) s = make_room(r, m, td_infer_output_bytes(m, NULL), err);
    if (s != TD_OK) return s;
    td_run_request_t q = {.inputs = m->inputs, .states = m->has_states ? m->states : NULL, .cancel = &r->cancel};
    td_run_slot_t *slot = NULL;
    uint64_t start = now();
    r->queue_ns = start - r->since_ns;
    s = td_lease_run(lease, &q, &slot, err);
    *ran = s != TD_BUSY && s != TD_MISMATCH;
    if (*ran) r->run_ns = now() - start;
    if (s != TD_OK) return s;
    if (!before) s = make_room(r, m, td_infer_output_bytes(m, slot), err);
    if (s == TD_OK) {
        td_pb_raw(&r->response, "\0\0\0\0", TD_GRPC_PREFIX);
        td_infer_encode(m, slot, &r->response);
    }
    td_verifier_t *v = r->pending.service->verifier;
    if (v && s == TD_OK) td_verifier_offer(v, lease->resident, m->inputs, slot);
    td_run_slot_release(slot);
    return s;
}

static void run(td_job_t *j) {
    request_t *r = (request_t *)(void *)j;
    td_lease_t *lease = &r->want.lease;
    td_infer_msg_t m = {0};
    bool ran = false;
    if (r->cancel) {
        r->status = td_fail(&r->err, TD_CANCELLED, "cancelled");
    } else {
        r->status = execute(r, &m, &ran);
        td_infer_msg_free(&m);
        if (r->status == TD_BUSY) return;
    }
    if (r->status != TD_OK) td_pb_free(&r->response);
    if (r->status != TD_OK && lease->sequence && (ran || r->head.sequence_start)) td_lease_spoil(lease);
    const td_model_info_t *info = td_resident_info(lease->resident);
    td_stats_infer(r->pending.service->stats, info->name, info->version, (int)code_of(r), r->queue_ns, r->run_ns);
    td_lease_release(lease);
    td_pb_free(&r->body);
}

/* ---- on the loop ---- */
static void wake(td_service_t *s, const td_resident_t *resident) {
    request_t *r = s->infer.n_full ? s->infer.first : NULL;
    while (r && (r->state != FULL || r->resident != resident)) r = r->next;
    if (!r) return;
    set_state(r, QUEUED);
    td_worker_resubmit(s->worker, &r->job);
}

static bool is_busy(td_service_t *s, const td_resident_t *resident) {
    request_t *r = s->infer.first;
    while (r && (r->state != QUEUED || r->resident != resident)) r = r->next;
    return r != NULL;
}

static void on_done(td_note_t *n) {
    request_t *r = (request_t *)(void *)((char *)n - offsetof(td_job_t, done));
    td_service_t *s = r->pending.service;
    const td_resident_t *resident = r->resident;
    if (r->status == TD_BUSY && !r->cancel) {
        set_state(r, FULL);
        if (!is_busy(s, resident)) wake(s, resident); /* the one that was in its way has ended meanwhile */
        return;
    }
    if (r->status == TD_OK) td_pending_reply(&r->pending, &r->response);
    else td_pending_fail(&r->pending, td_service_failure_code(s, r->status), r->err.text);
    end(r);
    wake(s, resident);
}

static void submit(request_t *r) {
    td_service_t *s = r->pending.service;
    td_err_t err = {0};
    set_state(r, QUEUED);
    r->resident = r->want.lease.resident;
    td_status_t e = td_worker_submit(s->worker, &r->job, s->infer.n_full, &err);
    if (e != TD_OK) fail(r, td_grpc_code(e), err.text);
}

/* The model is there, or it will not be. */
static void on_wanted(td_note_t *n) {
    request_t *r = OF(request_t, wanted, n);
    if (r->cancel) fail(r, code_of(r), "");
    else if (r->status == TD_OK) submit(r);
    else fail(r, td_service_want_code(r->pending.service, r->head.model, r->head.version, r->status), r->err.text);
}

/* On a thread of the store. */
static void on_want(td_want_t *w, td_status_t s, const td_err_t *err) {
    request_t *r = w->user;
    r->status = s;
    if (s != TD_OK && err) r->err = *err;
    td_inbox_post(r->pending.service->inbox, &r->wanted);
}

static void on_left(td_pending_t *p, bool late) {
    request_t *r = OF(request_t, pending, p);
    r->cancel = late ? LATE : LEFT;
    if (r->state == WAITING) td_pb_free(&r->body); /* nobody reads it any more */
    bool ours = r->state == FULL || (r->state == WAITING && td_store_unwant(p->service->store, &r->want));
    if (ours) fail(r, code_of(r), ""); /* else the worker or the store tells */
}

static void start(request_t *r) {
    td_service_t *s = r->pending.service;
    td_err_t err = {0};
    bool waiting = false;
    const char *cause = td_ward_cause(&s->ward);
    if (cause) {
        fail(r, TD_GRPC_UNAVAILABLE, cause);
        return;
    }
    td_status_t e = td_grpc_unframe((td_span_t){r->body.data, r->body.size}, &r->message, &err);
    if (e == TD_UNSUPPORTED) {
        fail(r, TD_GRPC_UNIMPLEMENTED, err.text);
        return;
    }
    if (e == TD_OK) e = td_infer_peek(r->message, &r->head, &err);
    if (e != TD_OK) {
        fail(r, td_grpc_code(e), err.text);
        return;
    }
    r->want = (td_want_t){.model = r->head.model, .version = r->head.version, .sequence = r->head.sequence,
                          .sequence_start = r->head.sequence_start, .sequence_end = r->head.sequence_end,
                          .done = on_want, .user = r};
    e = td_store_want(s->store, &r->want, &waiting, &err);
    if (e != TD_OK) {
        fail(r, td_service_want_code(s, r->head.model, r->head.version, e), err.text);
    } else if (!waiting) {
        submit(r);
    } else {
        set_state(r, WAITING);
        bool full = s->infer.n_waiting > s->queue_depth; /* with this one */
        if (full && td_store_unwant(s->store, &r->want))
            fail(r, TD_GRPC_RESOURCE_EXHAUSTED, "too many requests wait for models that load, or for their sequence");
    }
}

void td_infer_start(td_service_t *s, td_call_t *call) {
    request_t *r = calloc(1, sizeof *r);
    if (!r) {
        td_call_fail(call, TD_GRPC_RESOURCE_EXHAUSTED, "out of memory");
        return;
    }
    r->job = (td_job_t){.done.read = on_done, .run = run};
    r->wanted.read = on_wanted;
    r->pending.left = on_left;
    r->pending.free = on_free;
    r->pending.late = "the model had run";
    if (!td_pending_start(&r->pending, s, call)) {
        free(r);
        return;
    }
    r->since_ns = now();
    r->body = td_call_take_body(call);
    r->response = td_call_answer(call);
    enlist(r);
    start(r);
}
