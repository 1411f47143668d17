/* SPDX-License-Identifier: Apache-2.0 */
/* thunkctl check: decodes and verifies artifacts without a device. */
#include <argp.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "ctl/ctl.h"

typedef struct check_args {
    bool json;
    int code;
    int n;
    json_t *list; /* with --json */
} check_args_t;

static const struct argp_option options[] = {
    {"json", 'j', NULL, 0, "Print a JSON array", 0},
    {0},
};

static error_t parse_opt(int key, char *arg, struct argp_state *state) {
    check_args_t *a = state->input;
    (void)arg;
    switch (key) {
    case 'j': a->json = true; return 0;
    case ARGP_KEY_ARGS: a->n = state->argc - state->next; return 0;
    case ARGP_KEY_NO_ARGS: argp_error(state, "no artifact given"); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    options, parse_opt, "ARTIFACT...",
    "Tell whether artifacts will load.\vExit code 0: all will load; 1: at least one will not; "
    "2: at least one cannot be read, or usage.",
    NULL, NULL, NULL};

static void tell(check_args_t *a, const char *path, td_status_t s, const td_err_t *err) {
    if (a->json)
        json_array_append_new(a->list, json_pack("{s:s, s:b, s:s, s:s}", "path", path, "loads", s == TD_OK, "status",
                                                 td_status_name(s), "reason", s == TD_OK ? "" : err->text));
    else if (s == TD_OK)
        printf("%s: will load\n", path);
    else
        printf("%s: %s\n", td_status_name(s), err->text);
}

static void check_one(check_args_t *a, const char *path) {
    ctl_load_t l = {0};
    td_err_t err = {0};
    td_status_t s = ctl_load_open(&l, path, &err);
    ctl_load_close(&l);
    tell(a, path, s, &err);
    int code = ctl_exit_code(s);
    if (code > a->code) a->code = code;
}

int ctl_check(int argc, char **argv) {
    check_args_t a = {0};
    int first = 0;
    argp_parse(&argp, argc, argv, 0, &first, &a);
    a.list = json_array();
    first = argc - a.n;
    for (int i = first; i < argc; i++) check_one(&a, argv[i]);
    if (a.json) {
        json_dumpf(a.list, stdout, JSON_INDENT(2));
        putchar('\n');
    }
    json_decref(a.list);
    return a.code;
}
