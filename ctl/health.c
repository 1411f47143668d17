/* SPDX-License-Identifier: Apache-2.0 */
/* thunkctl health and thunkctl ls. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>

#include "ctl/ctl.h"
#include "ctl/online.h"

typedef struct online_args {
    const char *socket;
    const char *model;
    int timeout_ms;
    bool takes_model;
} online_args_t;

static const struct argp_option options[] = {
    {"socket", 's', "PATH", 0, "The daemon's socket (default " CTL_DEFAULT_SOCKET ")", 0},
    {"timeout", 'T', "MS", 0, "Give up after so many milliseconds (default 10000)", 0},
    {0},
};

static error_t parse_opt(int key, char *arg, struct argp_state *state) {
    online_args_t *a = state->input;
    switch (key) {
    case 's': a->socket = arg; return 0;
    case 'T':
        a->timeout_ms = atoi(arg);
        if (a->timeout_ms < 1) argp_error(state, "--timeout %s is not a number of milliseconds", arg);
        return 0;
    case ARGP_KEY_ARG:
        if (!a->takes_model || a->model) argp_error(state, "too many arguments");
        a->model = arg;
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp health_argp = {
    options, parse_opt, "[MODEL]",
    "Ask a daemon, or one of its models, whether it serves.\vExit code 0 only if the answer is SERVING.", NULL, NULL, NULL};
static const struct argp ls_argp = {options, parse_opt, "", "List a daemon's models and their states.", NULL, NULL, NULL};

int ctl_health(int argc, char **argv) {
    static const char *const names[] = {"UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"};
    online_args_t a = {.socket = CTL_DEFAULT_SOCKET, .timeout_ms = 10000, .takes_model = true};
    argp_parse(&health_argp, argc, argv, 0, NULL, &a);
    td_pb_t q = {0};
    td_pb_string(&q, 1, a.model);
    grpc_reply_t r = {0};
    td_span_t msg;
    td_err_t err = {0};
    td_status_t s = oip_call(a.socket, "/grpc.health.v1.Health/Check", (td_span_t){q.data, q.size}, a.timeout_ms, &r, &msg, &err);
    uint64_t status = 0;
    td_wire_field_t f;
    bool bad = false;
    while (s == TD_OK && pb_next(&msg, &f, &bad))
        if (f.number == 1 && f.type == 0) status = f.value;
    if (s == TD_OK && bad) s = td_fail(&err, TD_MALFORMED, "the daemon's answer is broken");
    if (s == TD_OK) puts(names[status < 4 ? status : 0]);
    grpc_reply_free(&r);
    td_pb_free(&q);
    if (s != TD_OK) return ctl_report(&err);
    return status == 1 ? 0 : 1;
}

static td_status_t print_entry(td_span_t msg, td_err_t *err) {
    td_span_t v[5] = {0};
    td_wire_field_t f;
    bool bad = false;
    while (pb_next(&msg, &f, &bad))
        if (f.number < 5 && f.type == 2) v[f.number] = f.bytes;
    if (bad) return td_fail(err, TD_MALFORMED, "the daemon's answer is broken");
    for (int i = 1; i <= 4; i++) printf("%s%.*s", i == 1 ? "" : "\t", (int)v[i].size, v[i].size ? (const char *)v[i].data : "");
    putchar('\n');
    return TD_OK;
}

/* One line per model and version: name, version, state, reason, separated by tabs. */
int ctl_ls(int argc, char **argv) {
    online_args_t a = {.socket = CTL_DEFAULT_SOCKET, .timeout_ms = 10000};
    argp_parse(&ls_argp, argc, argv, 0, NULL, &a);
    grpc_reply_t r = {0};
    td_span_t msg = {0};
    td_err_t err = {0};
    td_status_t s = oip_call(a.socket, OIP_SERVICE "RepositoryIndex", (td_span_t){0}, a.timeout_ms, &r, &msg, &err);
    if (r.code == GRPC_UNIMPLEMENTED) s = td_fail(&err, TD_UNSUPPORTED, "%s: this daemon cannot list its models", a.socket);
    td_wire_field_t f;
    bool bad = false;
    while (s == TD_OK && pb_next(&msg, &f, &bad))
        if (f.number == 1 && f.type == 2) s = print_entry(f.bytes, &err);
    if (s == TD_OK && bad) s = td_fail(&err, TD_MALFORMED, "the daemon's answer is broken");
    grpc_reply_free(&r);
    return s == TD_OK ? 0 : ctl_report(&err);
}
