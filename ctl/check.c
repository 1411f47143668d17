/* SPDX-License-Identifier: Apache-2.0 */
/* thunkctl check: decodes and verifies artifacts. Nothing is compiled and nothing runs; the host device is only asked
 * who handles the custom calls, if there are any. */
#include <argp.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/ctl.h"
#include "ctl/print.h"

typedef struct check_args {
    bool json;
    int code;
    int n;
    json_t *list; /* with --json */
    ctl_ffi_t ffi;
    td_device_t *device; /* opened for the first custom call */
} check_args_t;

static const struct argp_option options[] = {
    {"json", 'j', NULL, 0, "Print a JSON array", 0},
    CTL_FFI_OPTION,
    {0},
};

static error_t parse_opt(int key, char *arg, struct argp_state *state) {
    check_args_t *a = state->input;
    switch (key) {
    case 'j': a->json = true; return 0;
    case 'f': ctl_ffi_option(&a->ffi, arg, state); return 0;
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
        json_array_append_new(a->list, json_pack("{s:o, s:b, s:s, s:o}", "path", ctl_json_text(path), "loads", s == TD_OK, "status",
                                                 td_status_name(s), "reason", ctl_json_text(s == TD_OK ? "" : err->text)));
    else if (s == TD_OK)
        printf("%s: will load\n", path);
    else
        printf("%s: %s\n", td_status_name(s), err->text);
}

static td_status_t check_calls(check_args_t *a, const td_module_t *m, const char *path, td_err_t *err) {
    td_status_t s = a->device ? TD_OK : td_device_open("host", td_alloc_default(), &a->device, err);
    if (s != TD_OK) return s;
    a->device->ffi = a->ffi.registry;
    s = td_module_check_calls(m, a->device, err);
    return s == TD_OK ? s : td_prefix(err, s, "%s", path);
}

static void check_one(check_args_t *a, const char *path) {
    ctl_load_t l = {0};
    td_err_t err = {0};
    td_status_t s = ctl_load_open(&l, path, &err);
    if (s == TD_OK && td_module_has_calls(l.module)) s = check_calls(a, l.module, path, &err);
    ctl_load_close(&l);
    tell(a, path, s, &err);
    int code = ctl_exit_code(s);
    if (code > a->code) a->code = code;
}

int ctl_check(int argc, char **argv) {
    check_args_t a = {0};
    int first = 0;
    argp_parse(&argp, argc, argv, 0, &first, &a);
    td_err_t err = {0};
    if (ctl_ffi_open(&a.ffi, &err) != TD_OK) {
        ctl_ffi_close(&a.ffi);
        return ctl_report(&err);
    }
    a.list = json_array();
    first = argc - a.n;
    for (int i = first; i < argc; i++) check_one(&a, argv[i]);
    if (a.json) {
        json_dumpf(a.list, stdout, JSON_INDENT(2));
        putchar('\n');
    }
    json_decref(a.list);
    td_device_destroy(a.device);
    ctl_ffi_close(&a.ffi);
    return a.code;
}
