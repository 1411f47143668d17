/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/service.h"

#include <stdio.h>
#include <string.h>

#include "daemon/admin.h"
#include "daemon/infer.h"
#include "daemon/methods.h"
#include "proto/wire.h"

typedef td_status_t method_fn(td_service_t *s, td_span_t in, td_pb_t *out, td_err_t *err);

bool td_service_ready(const td_service_t *s) {
    return !s->draining && td_store_started(s->store);
}

td_status_t td_names_read(td_span_t in, td_names_t *n, td_err_t *err) {
    *n = (td_names_t){0};
    td_wire_field_t f;
    while (in.size) {
        if (!td_wire_next(&in, &f)) return td_fail(err, TD_MALFORMED, "the request is not a protobuf message");
        if (f.type != TD_WIRE_LEN || f.number < 1 || f.number > 2) continue;
        if (f.bytes.size >= sizeof n->v[0]) return td_fail(err, TD_NOTFOUND, "no name has %zu bytes", f.bytes.size);
        char *at = n->v[f.number - 1];
        if (f.bytes.size) memcpy(at, f.bytes.data, f.bytes.size);
        at[f.bytes.size] = 0;
    }
    return TD_OK;
}

td_status_t td_names_find(const td_rows_t *rows, const td_names_t *n, const td_model_row_t **out, td_err_t *err) {
    *out = td_rows_find(rows, n->v[0], n->v[1]);
    if (*out) return TD_OK;
    return td_fail(err, TD_NOTFOUND, "no model '%s'%s%s", n->v[0], n->v[1][0] ? " of version " : "", n->v[1]);
}

td_grpc_code_t td_service_failure_code(td_service_t *s, td_status_t status) {
    return status != TD_OK && td_ward_suspect(&s->ward) ? TD_GRPC_UNAVAILABLE : td_grpc_code(status);
}

td_grpc_code_t td_service_want_code(td_service_t *s, const char *model, const char *version, td_status_t status) {
    switch (status) {
    case TD_USAGE: /* of a sequence */
    case TD_LIMIT: /* the budget */
    case TD_BUSY:
    case TD_NOMEM: return td_grpc_code(status);
    case TD_NOTFOUND: break;
    default: return TD_GRPC_UNAVAILABLE; /* what is wrong is the model, not the request */
    }
    td_rows_t rows;
    bool known = td_rows_read(s->store, &rows, NULL) == TD_OK && td_rows_find(&rows, model, version);
    td_rows_free(&rows);
    return known || !td_store_started(s->store) ? TD_GRPC_UNAVAILABLE : TD_GRPC_NOT_FOUND;
}

static td_status_t server_live(td_service_t *s, td_span_t in, td_pb_t *out, td_err_t *err) {
    (void)s, (void)in, (void)err;
    td_pb_varint(out, 1, 1);
    return TD_OK;
}

static td_status_t server_ready(td_service_t *s, td_span_t in, td_pb_t *out, td_err_t *err) {
    (void)in, (void)err;
    if (td_service_ready(s)) td_pb_varint(out, 1, 1);
    return TD_OK;
}

static td_status_t server_metadata(td_service_t *s, td_span_t in, td_pb_t *out, td_err_t *err) {
    (void)s, (void)in, (void)err;
    td_pb_string(out, 1, "thunkd");
    td_pb_string(out, 2, TD_VERSION);
    td_pb_string(out, 3, "model_repository");
    td_pb_string(out, 3, "sequence");
    return TD_OK;
}

/* Is the model there (else TD_NOTFOUND), and ready? */
static td_status_t is_ready(td_service_t *s, const td_names_t *n, bool *out, td_err_t *err) {
    td_rows_t rows;
    const td_model_row_t *x = NULL;
    td_status_t r = td_rows_read(s->store, &rows, err);
    if (r == TD_OK) r = td_names_find(&rows, n, &x, err);
    *out = x && x->state == TD_MODEL_READY && !s->draining;
    td_rows_free(&rows);
    return r;
}

static td_status_t model_ready(td_service_t *s, td_span_t in, td_pb_t *out, td_err_t *err) {
    td_names_t n;
    bool ready = false;
    td_status_t r = td_names_read(in, &n, err);
    if (r == TD_OK) r = is_ready(s, &n, &ready, err);
    if (ready) td_pb_varint(out, 1, 1);
    return r;
}

/* service: "", the protocol's service, or a model's name. 1 = SERVING, 2 = NOT_SERVING. */
static td_status_t health_check(td_service_t *s, td_span_t in, td_pb_t *out, td_err_t *err) {
    td_names_t n;
    td_status_t r = td_names_read(in, &n, err);
    if (r != TD_OK) return r;
    n.v[1][0] = 0;
    bool up = td_service_ready(s);
    if (n.v[0][0] && strcmp(n.v[0], "inference.GRPCInferenceService")) r = is_ready(s, &n, &up, err);
    td_pb_varint(out, 1, up ? 1 : 2);
    return r;
}

static const struct {
    const char *path;
    method_fn *fn; /* answers at once */
    void (*start)(td_service_t *s, td_call_t *call);
} methods[] = {
    {"/inference.GRPCInferenceService/ServerLive", server_live, NULL},
    {"/inference.GRPCInferenceService/ServerReady", server_ready, NULL},
    {"/inference.GRPCInferenceService/ServerMetadata", server_metadata, NULL},
    {"/inference.GRPCInferenceService/ModelReady", model_ready, NULL},
    {"/inference.GRPCInferenceService/ModelMetadata", NULL, td_metadata_start},
    {"/inference.GRPCInferenceService/ModelInfer", NULL, td_infer_start},
    {"/inference.GRPCInferenceService/RepositoryIndex", td_repository_index, NULL},
    {"/inference.GRPCInferenceService/RepositoryModelLoad", NULL, td_repository_load},
    {"/inference.GRPCInferenceService/RepositoryModelUnload", NULL, td_repository_unload},
    {"/grpc.health.v1.Health/Check", health_check, NULL},
};

bool td_service_message(td_call_t *call, td_pb_t *body, td_span_t *out) {
    td_err_t err = {0};
    td_status_t r = td_grpc_unframe((td_span_t){body->data, body->size}, out, &err);
    if (r == TD_OK) return true;
    td_call_fail(call, r == TD_UNSUPPORTED ? TD_GRPC_UNIMPLEMENTED : td_grpc_code(r), err.text);
    return false;
}

bool td_service_allowed(const td_service_t *s, td_call_t *call, const char *doing) {
    if (td_call_admin(call)) return true;
    char text[320];
    snprintf(text, sizeof text, "%s is not allowed through this socket but to root and the daemon's own user%s%s",
             doing, s->admin_socket ? "; use the admin socket " : "", s->admin_socket ? s->admin_socket : "");
    td_call_fail(call, TD_GRPC_PERMISSION_DENIED, text);
    return false;
}

static void call_method(td_service_t *s, method_fn *fn, td_call_t *call) {
    td_err_t err = {0};
    td_span_t in;
    td_pb_t body = td_call_take_body(call), out = td_call_answer(call);
    if (!td_service_message(call, &body, &in)) {
        td_pb_free(&body);
        return;
    }
    td_pb_raw(&out, "\0\0\0\0", TD_GRPC_PREFIX);
    td_status_t r = fn(s, in, &out, &err);
    td_pb_free(&body);
    if (r == TD_OK) {
        td_call_reply(call, &out);
        return;
    }
    td_pb_free(&out);
    td_call_fail(call, td_grpc_code(r), err.text);
}

void td_service_call(td_service_t *s, td_call_t *call) {
    const char *path = td_call_path(call);
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (!strcmp(path, methods[i].path)) {
            if (methods[i].fn) call_method(s, methods[i].fn, call);
            else methods[i].start(s, call);
            return;
        }
    if (td_admin_call(s, call, path)) return;
    char text[192] = "unknown method ";
    strncat(text, path, sizeof text - strlen(text) - 1);
    td_call_fail(call, TD_GRPC_UNIMPLEMENTED, text);
}
