/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/service.h"

#include <string.h>

#include "daemon/infer.h"
#include "proto/wire.h"

typedef td_status_t method_fn(td_service_t *s, td_span_t in, td_pb_t *out, td_err_t *err);

/* String fields 1 and 2 of a small request. */
typedef struct names {
    char v[2][256];
} names_t;

static td_status_t read_names(td_span_t in, names_t *n, td_err_t *err) {
    *n = (names_t){0};
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

static td_status_t find(td_service_t *s, const names_t *n, td_model_t **out, td_err_t *err) {
    *out = td_store_find(s->store, n->v[0], n->v[1]);
    if (*out) return TD_OK;
    return td_fail(err, TD_NOTFOUND, "no model '%s'%s%s", n->v[0], n->v[1][0] ? " of version " : "", n->v[1]);
}

static td_status_t server_live(td_service_t *s, td_span_t in, td_pb_t *out, td_err_t *err) {
    (void)s, (void)in, (void)err;
    td_pb_varint(out, 1, 1);
    return TD_OK;
}

static td_status_t server_ready(td_service_t *s, td_span_t in, td_pb_t *out, td_err_t *err) {
    (void)in, (void)err;
    if (!s->draining) td_pb_varint(out, 1, 1);
    return TD_OK;
}

static td_status_t server_metadata(td_service_t *s, td_span_t in, td_pb_t *out, td_err_t *err) {
    (void)s, (void)in, (void)err;
    td_pb_string(out, 1, "thunkd");
    td_pb_string(out, 2, TD_VERSION);
    td_pb_string(out, 3, "model_repository");
    return TD_OK;
}

static td_status_t model_ready(td_service_t *s, td_span_t in, td_pb_t *out, td_err_t *err) {
    names_t n;
    td_model_t *m;
    td_status_t r = read_names(in, &n, err);
    if (r == TD_OK) r = find(s, &n, &m, err);
    if (r == TD_OK && td_model_state(m) == TD_MODEL_READY && !s->draining) td_pb_varint(out, 1, 1);
    return r;
}

static void put_tensor(td_pb_t *out, uint32_t field, const td_tensor_info_t *t) {
    td_pb_t m = {0};
    td_pb_string(&m, 1, t->name);
    td_pb_string(&m, 2, t->datatype);
    td_pb_packed_i64(&m, 3, t->dims, t->rank);
    td_pb_message(out, field, &m);
}

static td_status_t model_metadata(td_service_t *s, td_span_t in, td_pb_t *out, td_err_t *err) {
    names_t n;
    td_model_t *m;
    td_status_t r = read_names(in, &n, err);
    if (r == TD_OK) r = find(s, &n, &m, err);
    if (r != TD_OK) return r;
    td_pb_string(out, 1, td_model_name(m));
    for (uint32_t i = 0; i < td_store_count(s->store); i++) {
        td_model_t *x = td_store_model(s->store, i);
        bool listed = n.v[1][0] ? x == m : !strcmp(td_model_name(x), n.v[0]);
        if (listed) td_pb_string(out, 2, td_model_version(x));
    }
    td_pb_string(out, 3, "xla_gpu_aot");
    for (uint32_t i = 0; i < td_model_input_count(m); i++) put_tensor(out, 4, td_model_input(m, i));
    for (uint32_t i = 0; i < td_model_output_count(m); i++) put_tensor(out, 5, td_model_output(m, i));
    return TD_OK;
}

static td_status_t repository_index(td_service_t *s, td_span_t in, td_pb_t *out, td_err_t *err) {
    bool only_ready = false;
    td_wire_field_t f;
    while (in.size) {
        if (!td_wire_next(&in, &f)) return td_fail(err, TD_MALFORMED, "the request is not a protobuf message");
        if (f.number == 2 && f.type == TD_WIRE_VARINT) only_ready = f.value != 0;
    }
    for (uint32_t i = 0; i < td_store_count(s->store); i++) {
        const td_model_t *x = td_store_model(s->store, i);
        bool ready = td_model_state(x) == TD_MODEL_READY;
        if (only_ready && !ready) continue;
        td_pb_t m = {0};
        td_pb_string(&m, 1, td_model_name(x));
        td_pb_string(&m, 2, td_model_version(x));
        td_pb_string(&m, 3, ready ? "READY" : "UNAVAILABLE");
        td_pb_string(&m, 4, ready ? td_model_verdict(x) : td_model_reason(x));
        td_pb_message(out, 1, &m);
    }
    return TD_OK;
}

/* service: "", the protocol's service, or a model's name. 1 = SERVING, 2 = NOT_SERVING. */
static td_status_t health_check(td_service_t *s, td_span_t in, td_pb_t *out, td_err_t *err) {
    names_t n;
    td_status_t r = read_names(in, &n, err);
    if (r != TD_OK) return r;
    n.v[1][0] = 0;
    bool up = !s->draining;
    if (n.v[0][0] && strcmp(n.v[0], "inference.GRPCInferenceService")) {
        td_model_t *m;
        r = find(s, &n, &m, err);
        if (r != TD_OK) return r;
        up &= td_model_state(m) == TD_MODEL_READY;
    }
    td_pb_varint(out, 1, up ? 1 : 2);
    return TD_OK;
}

static const struct {
    const char *path;
    method_fn *fn;
} methods[] = {
    {"/inference.GRPCInferenceService/ServerLive", server_live},
    {"/inference.GRPCInferenceService/ServerReady", server_ready},
    {"/inference.GRPCInferenceService/ServerMetadata", server_metadata},
    {"/inference.GRPCInferenceService/ModelReady", model_ready},
    {"/inference.GRPCInferenceService/ModelMetadata", model_metadata},
    {"/inference.GRPCInferenceService/RepositoryIndex", repository_index},
    {"/grpc.health.v1.Health/Check", health_check},
};

static void call_method(td_service_t *s, method_fn *fn, td_call_t *call) {
    td_err_t err = {0};
    td_span_t in;
    td_pb_t body = td_call_take_body(call), out = {0};
    td_status_t r = td_grpc_unframe((td_span_t){body.data, body.size}, &in, &err);
    bool compressed = r == TD_UNSUPPORTED;
    td_pb_raw(&out, "\0\0\0\0", TD_GRPC_PREFIX);
    if (r == TD_OK) r = fn(s, in, &out, &err);
    td_pb_free(&body);
    if (r == TD_OK) {
        td_call_reply(call, &out);
        return;
    }
    td_pb_free(&out);
    td_call_fail(call, compressed ? TD_GRPC_UNIMPLEMENTED : td_grpc_code(r), err.text);
}

void td_service_call(td_service_t *s, td_call_t *call) {
    const char *path = td_call_path(call);
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (!strcmp(path, methods[i].path)) {
            call_method(s, methods[i].fn, call);
            return;
        }
    if (!strcmp(path, "/inference.GRPCInferenceService/ModelInfer")) {
        td_infer_start(s, call);
        return;
    }
    char text[192] = "unknown method ";
    strncat(text, path, sizeof text - strlen(text) - 1);
    td_call_fail(call, TD_GRPC_UNIMPLEMENTED, text);
}
