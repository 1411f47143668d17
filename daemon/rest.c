/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/rest.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/metrics.h"
#include "daemon/rows.h"

#define NAME_MAX_BYTES 256

/* A JSON string; null for what is no UTF-8. */
static json_t *text(const char *s) {
    json_t *j = json_string(s);
    return j ? j : json_null();
}

static void put_json(td_http_answer_t *out, int status, json_t *j) {
    char *s = j ? json_dumps(j, JSON_COMPACT) : NULL;
    out->status = status;
    out->type = "application/json";
    if (s) td_pb_raw(&out->body, s, strlen(s));
    else out->body.failed = true;
    free(s);
    json_decref(j);
}

static void failed(td_http_answer_t *out, const td_err_t *err) {
    td_http_error(out, err->code == TD_NOMEM ? 503 : 500, err->text);
}

static void metrics(td_service_t *s, const td_http_request_t *r, td_http_answer_t *out) {
    (void)r;
    td_err_t err = {0};
    td_rows_t rows;
    td_budget_row_t *accounts = NULL;
    td_budget_t *b = td_store_budget(s->store);
    td_metrics_t m = {.version = TD_VERSION, .started_s = s->started_s, .ready = td_service_ready(s),
                      .slow_runs = atomic_load_explicit(&s->ward.n_slow, memory_order_relaxed),
                      .requests = s->stats, .store = td_store_stats(s->store), .process = td_process_read()};
    if (!s->metrics) {
        td_http_error(out, 404, "metrics are off: `metrics: true` in the configuration turns them on");
        return;
    }
    m.n_domains = td_budget_domains(b);
    for (uint32_t d = 0; d < m.n_domains; d++) m.domains[d] = td_budget_totals(b, d);
    td_status_t e = td_rows_read(s->store, &rows, &err);
    if (e == TD_OK) e = td_budget_rows(b, &rows.arena, &accounts, &m.n_accounts, &err);
    m.models = rows.v;
    m.n_models = rows.n;
    m.accounts = accounts;
    out->status = 200;
    out->type = TD_METRICS_TYPE;
    if (e == TD_OK) td_metrics_write(&m, &out->body);
    else failed(out, &err);
    td_rows_free(&rows);
}

static void live(td_service_t *s, const td_http_request_t *r, td_http_answer_t *out) {
    (void)s, (void)r;
    put_json(out, 200, json_pack("{s:b}", "live", 1));
}

static void ready(td_service_t *s, const td_http_request_t *r, td_http_answer_t *out) {
    (void)r;
    bool up = td_service_ready(s);
    put_json(out, up ? 200 : 503, json_pack("{s:b}", "ready", up));
}

static void server(td_service_t *s, const td_http_request_t *r, td_http_answer_t *out) {
    (void)s, (void)r;
    put_json(out, 200, json_pack("{s:s, s:s, s:[s]}", "name", "thunkd", "version", TD_VERSION, "extensions",
                                 "model_repository"));
}

/* The body of a POST may say {"ready": true}. False: it is no JSON object; out is filled in. */
static bool wants_ready(const td_http_request_t *r, bool *out_ready, td_http_answer_t *out) {
    *out_ready = false;
    if (!r->body.size) return true;
    json_error_t why;
    json_t *j = json_loadb((const char *)r->body.data, r->body.size, JSON_REJECT_DUPLICATES, &why);
    json_t *flag = json_object_get(j, "ready");
    bool good = json_is_object(j) && (!flag || json_is_boolean(flag));
    *out_ready = json_is_true(flag);
    json_decref(j);
    if (!good) td_http_error(out, 400, "the body is no JSON object as {\"ready\": true}");
    return good;
}

static void repository_index(td_service_t *s, const td_http_request_t *r, td_http_answer_t *out) {
    td_err_t err = {0};
    td_rows_t rows;
    bool only_ready;
    if (!wants_ready(r, &only_ready, out)) return;
    if (td_rows_read(s->store, &rows, &err) == TD_OK) {
        json_t *list = json_array();
        for (uint32_t i = 0; list && i < rows.n; i++) {
            const td_model_row_t *x = &rows.v[i];
            if (only_ready && x->state != TD_MODEL_READY) continue;
            const char *why = *x->reason || x->state != TD_MODEL_READY ? x->reason : x->verdict;
            json_array_append_new(list, json_pack("{s:o, s:o, s:s, s:o}", "name", text(x->name), "version",
                                                  text(x->version), "state", td_model_state_name(x->state), "reason",
                                                  text(why)));
        }
        put_json(out, 200, list);
    } else {
        failed(out, &err);
    }
    td_rows_free(&rows);
}

static void model_ready(td_service_t *s, const char *model, const char *version, td_http_answer_t *out) {
    td_err_t err = {0};
    td_rows_t rows;
    if (td_rows_read(s->store, &rows, &err) == TD_OK) {
        const td_model_row_t *x = td_rows_find(&rows, model, version);
        bool up = x && x->state == TD_MODEL_READY && !s->draining;
        if (!x) td_http_error(out, 404, "no such model or version");
        else put_json(out, up ? 200 : 503, json_pack("{s:o, s:o, s:b}", "name", text(model), "version",
                                                     text(x->version), "ready", up));
    } else {
        failed(out, &err);
    }
    td_rows_free(&rows);
}

/* /v2/models/NAME/ready and /v2/models/NAME/versions/V/ready. */
static bool model_path(const char *path, char model[NAME_MAX_BYTES], char version[NAME_MAX_BYTES]) {
    int end = 0;
    version[0] = 0;
    if (sscanf(path, "/v2/models/%255[^/]/ready%n", model, &end) == 1 && end && !path[end]) return true;
    end = 0;
    int n = sscanf(path, "/v2/models/%255[^/]/versions/%255[^/]/ready%n", model, version, &end);
    return n == 2 && end && !path[end];
}

static const struct {
    const char *path;
    void (*fn)(td_service_t *s, const td_http_request_t *r, td_http_answer_t *out);
    bool post; /* POST is fine, too */
} routes[] = {
    {"/metrics", metrics, false},
    {"/v2", server, false},
    {"/v2/health/live", live, false},
    {"/v2/health/ready", ready, false},
    {"/v2/repository/index", repository_index, true},
};

static bool allowed(td_http_method_t m, bool post, td_http_answer_t *out) {
    if (m == TD_HTTP_GET || (m == TD_HTTP_POST && post)) return true;
    td_http_error(out, 405, post ? "expected GET, HEAD or POST" : "expected GET or HEAD");
    out->allow = post ? "GET, HEAD, POST" : "GET, HEAD";
    return false;
}

void td_rest_answer(td_service_t *s, const td_http_request_t *r, td_http_answer_t *out) {
    char model[NAME_MAX_BYTES], version[NAME_MAX_BYTES];
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        if (strcmp(r->path, routes[i].path)) continue;
        if (allowed(r->method, routes[i].post, out)) routes[i].fn(s, r, out);
        return;
    }
    if (model_path(r->path, model, version)) {
        if (allowed(r->method, false, out)) model_ready(s, model, version, out);
        return;
    }
    td_http_error(out, 404, "no such path; inference is gRPC's (inference.GRPCInferenceService)");
}
