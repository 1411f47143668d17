/* SPDX-License-Identifier: Apache-2.0 */
/* Triton's repository extension. RepositoryModelLoad and RepositoryModelUnload: repository_name 1, model_name 2,
 * parameters 3 (a map: key 1, value 2), a value is a ModelRepositoryParameter: bool 1, int64 2, string 3, bytes 4.
 *
 *   config          a JSON object, which must be empty: model.yaml says how a model is served
 *   version         a string, our own: only this version
 *   file:<path>     bytes, loads only: the file's contents, instead of all that lies in the model's folder
 *   unload_dependents  says nothing here */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "daemon/command.h"
#include "daemon/methods.h"
#include "proto/wire.h"

/* "why; verdict", one of them, or "". */
static void put_reason(td_pb_t *out, const td_model_row_t *x) {
    bool both = *x->reason && *x->verdict && !strstr(x->reason, x->verdict);
    size_t n = strlen(x->reason), v = strlen(x->verdict);
    if (!both) {
        td_pb_string(out, 4, n ? x->reason : x->verdict);
        return;
    }
    td_pb_tag_len(out, 4, n + 2 + v);
    td_pb_raw(out, x->reason, n);
    td_pb_raw(out, "; ", 2);
    td_pb_raw(out, x->verdict, v);
}

td_status_t td_repository_index(td_service_t *s, td_span_t in, td_pb_t *out, td_err_t *err) {
    bool only_ready = false;
    td_wire_field_t f;
    while (in.size) {
        if (!td_wire_next(&in, &f)) return td_fail(err, TD_MALFORMED, "the request is not a protobuf message");
        if (f.number == 2 && f.type == TD_WIRE_VARINT) only_ready = f.value != 0;
    }
    td_rows_t rows;
    td_status_t r = td_rows_read(s->store, &rows, err);
    for (uint32_t i = 0; r == TD_OK && i < rows.n; i++) {
        const td_model_row_t *x = &rows.v[i];
        if (only_ready && x->state != TD_MODEL_READY) continue;
        td_pb_t m = {0};
        td_pb_string(&m, 1, x->name);
        td_pb_string(&m, 2, x->version);
        td_pb_string(&m, 3, td_model_state_name(x->state));
        put_reason(&m, x);
        td_pb_message(out, 1, &m);
    }
    td_rows_free(&rows);
    return r;
}

typedef struct request {
    char model[256], version[256];
    td_override_t files[TD_LIMIT_STORE_OVERRIDES];
    char paths[TD_LIMIT_STORE_OVERRIDES][256];
    uint32_t n_files;
    bool load;
} request_t;

static td_status_t put_text(td_span_t from, const char *what, char to[256], td_err_t *err) {
    bool good = from.size < 256 && !(from.size && memchr(from.data, 0, from.size));
    if (!good) return td_fail(err, TD_USAGE, "%s: expected at most 255 bytes without NUL, got %zu", what, from.size);
    if (from.size) memcpy(to, from.data, from.size);
    to[from.size] = 0;
    return TD_OK;
}

static td_status_t check_config(td_span_t text, td_err_t *err) {
    json_t *j = text.size ? json_loadb((const char *)text.data, text.size, JSON_REJECT_DUPLICATES, NULL) : NULL;
    bool good = !text.size || (json_is_object(j) && !json_object_size(j));
    json_decref(j);
    if (good) return TD_OK;
    return td_fail(err, TD_USAGE, "parameter config: expected {} or nothing; put what you want to say into the model's "
                   "model.yaml");
}

static td_status_t put_file(request_t *r, td_span_t path, const td_wire_field_t *v, td_err_t *err) {
    uint32_t i = r->n_files;
    if (!r->load) return td_fail(err, TD_USAGE, "parameter file:…: an unload takes no files");
    if (i == TD_LIMIT_STORE_OVERRIDES) return td_fail(err, TD_LIMIT, "more than %u files", TD_LIMIT_STORE_OVERRIDES);
    td_status_t s = put_text(path, "parameter file:…", r->paths[i], err);
    if (s != TD_OK) return s;
    if (v->number != 4 || v->type != TD_WIRE_LEN)
        return td_fail(err, TD_USAGE, "parameter file:%s: expected bytes_param", r->paths[i]);
    r->files[i] = (td_override_t){r->paths[i], v->bytes.size ? v->bytes.data : (const void *)"", v->bytes.size};
    r->n_files++;
    return TD_OK;
}

static td_status_t take_parameter(request_t *r, td_span_t entry, td_err_t *err) {
    td_span_t key = {0}, value = {0};
    td_wire_field_t f, v = {0};
    while (entry.size) {
        if (!td_wire_next(&entry, &f)) return td_fail(err, TD_MALFORMED, "the request is not a protobuf message");
        if (f.type == TD_WIRE_LEN && f.number == 1) key = f.bytes;
        if (f.type == TD_WIRE_LEN && f.number == 2) value = f.bytes;
    }
    while (value.size)
        if (!td_wire_next(&value, &v)) return td_fail(err, TD_MALFORMED, "the request is not a protobuf message");
    char name[256];
    td_status_t s = put_text(key, "a parameter's name", name, err);
    if (s != TD_OK) return s;
    bool text = v.number == 3 && v.type == TD_WIRE_LEN;
    if (!strncmp(name, "file:", 5)) return put_file(r, (td_span_t){key.data + 5, key.size - 5}, &v, err);
    if (!strcmp(name, "unload_dependents")) return TD_OK;
    if (strcmp(name, "config") && strcmp(name, "version"))
        return td_fail(err, TD_USAGE, "unknown parameter '%.100s': expected config, version or file:<version>/<name>",
                       name);
    if (!text) return td_fail(err, TD_USAGE, "parameter %s: expected string_param", name);
    return name[0] == 'c' ? check_config(v.bytes, err) : put_text(v.bytes, "parameter version", r->version, err);
}

static td_status_t read_request(td_span_t in, request_t *r, td_err_t *err) {
    td_wire_field_t f;
    td_status_t s = TD_OK;
    while (s == TD_OK && in.size) {
        if (!td_wire_next(&in, &f)) return td_fail(err, TD_MALFORMED, "the request is not a protobuf message");
        if (f.type != TD_WIRE_LEN) continue;
        if (f.number == 1 && f.bytes.size)
            return td_fail(err, TD_USAGE, "repository_name: there is one repository, without a name");
        if (f.number == 2) s = put_text(f.bytes, "model_name", r->model, err);
        if (f.number == 3) s = take_parameter(r, f.bytes, err);
    }
    if (s == TD_OK && !r->model[0]) return td_fail(err, TD_USAGE, "model_name is missing");
    return s;
}

static void command(td_service_t *s, td_call_t *call, bool load) {
    static request_t r; /* the loop's; nothing of it is kept */
    td_err_t err = {0};
    td_span_t in;
    if (!td_service_allowed(s, call, load ? "loading a model" : "unloading a model")) return;
    td_pb_t body = td_call_take_body(call);
    if (td_service_message(call, &body, &in)) {
        r.load = load;
        r.n_files = 0;
        r.model[0] = r.version[0] = 0;
        td_command_t what = {.kind = load ? TD_COMMAND_LOAD : TD_COMMAND_UNLOAD, .model = r.model, .version = r.version,
                             .files = r.files};
        td_status_t e = read_request(in, &r, &err);
        what.n_files = r.n_files;
        if (e == TD_OK) td_command_start(s, call, &what);
        else td_call_fail(call, td_grpc_code(e), err.text);
    }
    td_pb_free(&body);
}

void td_repository_load(td_service_t *s, td_call_t *call) {
    command(s, call, true);
}

void td_repository_unload(td_service_t *s, td_call_t *call) {
    command(s, call, false);
}
