/* SPDX-License-Identifier: Apache-2.0 */
/* thunkctl check: decodes and verifies artifacts and gives the contract's verdict. Nothing is compiled and nothing
 * runs; the host device is only asked who handles the custom calls, if there are any. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "contract/day.h"
#include "ctl/check_store.h"
#include "ctl/judge.h"

typedef struct check_args {
    ctl_judge_t judge;
    ctl_ffi_t ffi;
    ctl_paths_t paths;
    const char *schema, *store;
    long expiring; /* days; -1: all are listed */
    bool json, brief;
    int code;
    json_t *list; /* with --json */
} check_args_t;

enum { KEY_STRICT = 256, KEY_EXPIRING };
static const struct argp_option options[] = {
    {"json", 'j', NULL, 0, "Print a JSON array", 0},
    {"brief", 'b', NULL, 0, "Print one line for each artifact", 0},
    {"all", 'a', "STORE", 0, "Check every artifact (*.aot) in a folder of models", 0},
    CTL_CONTRACT_DATE,
    {"strict", KEY_STRICT, NULL, 0, "What is outside the window will not load", 0},
    {"expiring-within", KEY_EXPIRING, "DAYS", 0,
     "List only what leaves the window in so many days (30d), or has left it", 0},
    {"environment", 'e', "KEY=VALUE,...", 0,
     "Where it is to run, compared with what the artifact asks for: cc=9.0a, "
     "toolkit=X.Y.Z, cudnn=X.Y.Z, cub=X.Y.Z, devices=N",
     0},
    {"schema", 's', "FILE", 0, "A newer schema (FileDescriptorSet) that names what is unknown here", 0},
    CTL_FFI_OPTION,
    {0},
};

static void add(check_args_t *a, const char *path, struct argp_state *state) {
    td_err_t err = {0};
    if (ctl_paths_add(&a->paths, path, &err) != TD_OK) argp_failure(state, 2, 0, "%s", err.text);
}

static error_t parse_opt(int key, char *arg, struct argp_state *state) {
    check_args_t *a = state->input;
    char *end;
    switch (key) {
    case 'j': a->json = true; return 0;
    case 'b': a->brief = true; return 0;
    case 'a': a->store = arg; return 0;
    case 's': a->schema = arg; return 0;
    case 'D': ctl_judge_date(&a->judge, arg, state); return 0;
    case 'e': ctl_judge_environment(&a->judge, arg, state); return 0;
    case 'f': ctl_ffi_option(&a->ffi, arg, state); return 0;
    case KEY_STRICT: a->judge.policy.strict = true; return 0;
    case KEY_EXPIRING:
        a->expiring = strtol(arg, &end, 10);
        if (end == arg || (*end && strcmp(end, "d")) || a->expiring < 0 || a->expiring > 36500)
            argp_error(state, "--expiring-within %s is no number of days", arg);
        return 0;
    case ARGP_KEY_ARG: add(a, arg, state); return 0;
    case ARGP_KEY_END:
        if (!a->paths.n && !a->store) argp_error(state, "no artifact given");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    options,
    parse_opt,
    "ARTIFACT...",
    "Tell whether artifacts will load, and how long.\vExit code 0: all will load; 1: at least one will not; "
    "2: at least one cannot be read, or usage.",
    NULL,
    NULL,
    NULL};

static bool listed(const check_args_t *a, const td_verdict_t *v) {
    return a->expiring < 0 || (v->leaves && td_day_between(v->day, v->leaves) <= a->expiring);
}

static void tell(check_args_t *a, const char *path, const td_verdict_t *v) {
    char line[1024], beside[4096];
    const char *source = ctl_source_beside(path, beside, sizeof beside);
    if (a->json) json_array_append_new(a->list, ctl_verdict_json(&a->judge, path, source, v));
    else if (a->brief) printf("%s: %s\n", path, td_verdict_line(v, line, sizeof line));
    else ctl_verdict_print(&a->judge, path, source, v);
}

static void check_one(check_args_t *a, const char *path) {
    ctl_load_t l = {0};
    td_verdict_t v = {0};
    ctl_judge_file(&a->judge, path, &l, &v);
    if (listed(a, &v)) tell(a, path, &v);
    int code = v.kind == TD_VERDICT_UNREADABLE ? 2 : !v.loads;
    if (code > a->code) a->code = code;
    td_verdict_deinit(&v);
    ctl_load_close(&l);
}

static void check_all(check_args_t *a) {
    bool bar = a->store && isatty(STDERR_FILENO);
    for (uint32_t i = 0; i < a->paths.n; i++) {
        if (bar) ctl_progress(i, a->paths.n);
        check_one(a, a->paths.v[i]);
        fflush(stdout);
    }
    if (bar) ctl_progress(a->paths.n, a->paths.n);
}

static td_status_t prepare(check_args_t *a, td_err_t *err) {
    td_status_t s = ctl_ffi_open(&a->ffi, err);
    if (s == TD_OK && a->schema) s = ctl_judge_schema(&a->judge, a->schema, err);
    if (s == TD_OK && a->store) s = ctl_paths_add_store(&a->paths, a->store, err);
    ctl_judge_today(&a->judge);
    a->judge.ask_device = true;
    a->judge.ffi = a->ffi.registry;
    return s;
}

int ctl_check(int argc, char **argv) {
    check_args_t a = {.expiring = -1};
    argp_parse(&argp, argc, argv, 0, NULL, &a);
    td_err_t err = {0};
    td_status_t s = prepare(&a, &err);
    if (s == TD_OK) {
        a.list = json_array();
        check_all(&a);
        if (a.json) {
            json_dumpf(a.list, stdout, JSON_INDENT(2));
            putchar('\n');
        }
        json_decref(a.list);
    }
    ctl_judge_close(&a.judge);
    ctl_paths_free(&a.paths);
    ctl_ffi_close(&a.ffi);
    return s == TD_OK ? a.code : ctl_report(&err);
}
