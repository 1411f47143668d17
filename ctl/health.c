/* SPDX-License-Identifier: Apache-2.0 */
/* thunkctl health. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>

#include "ctl/ctl.h"
#include "ctl/online.h"

typedef struct online_args {
    const char *socket;
    const char *model;
    int timeout_ms;
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
        if (a->model) argp_error(state, "too many arguments");
        a->model = arg;
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    options, parse_opt, "[MODEL]",
    "Ask a daemon, or one of its models, whether it serves.\vExit code 0 only if the answer is SERVING.", NULL, NULL, NULL};

int ctl_health(int argc, char **argv) {
    static const char *const names[] = {"UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"};
    online_args_t a = {.socket = CTL_DEFAULT_SOCKET, .timeout_ms = 10000};
    argp_parse(&argp, argc, argv, 0, NULL, &a);
    td_pb_t q = {0};
    td_pb_string(&q, 1, a.model);
    grpc_reply_t r = {0};
    td_span_t msg;
    td_err_t err = {0};
    td_status_t s = oip_call(a.socket, "/grpc.health.v1.Health/Check", (td_span_t){q.data, q.size}, a.timeout_ms, &r,
                             &msg, &err);
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
