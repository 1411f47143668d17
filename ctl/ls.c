/* SPDX-License-Identifier: Apache-2.0 */
/* thunkctl ls: the models of a daemon. */
#include <stdio.h>
#include <string.h>

#include "ctl/admin.h"
#include "ctl/ctl.h"
#include "schema/admin.pb-c.h"

static const struct argp_option options[] = {ADMIN_OPTIONS, ADMIN_JSON, {0}};
static const struct argp argp = {options, admin_parse_opt, "[MODEL]",
                                 "List a daemon's models, their versions and states.", NULL, NULL, NULL};

static void join(const Thunkd__V1__Model *m, char *out, size_t size) {
    size_t n = 0;
    out[0] = 0;
    for (size_t i = 0; i < m->n_labels && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%s", i ? "," : "", m->labels[i]);
}

/* What a reader wants to know beside the state. */
static void note(const Thunkd__V1__Model *m, char *out, size_t size) {
    char done[24], total[24];
    if (!strcmp(m->state, "LOADING") && m->total_bytes)
        snprintf(out, size, "%s of %s", admin_size(m->done_bytes, done), admin_size(m->total_bytes, total));
    else
        snprintf(out, size, "%s", *m->reason ? m->reason : m->verdict);
}

static td_status_t print_table(const Thunkd__V1__ModelsResponse *r, td_err_t *err) {
    static const char *const heads[] = {"MODEL", "VERSION", "STATE", "DEFAULT", "LABELS",
                                        "PINNED", "LOAD", ">SIZE", "NOTE"};
    admin_table_t t = {.heads = heads, .n_columns = sizeof heads / sizeof *heads};
    for (size_t i = 0; i < r->n_models; i++) {
        const Thunkd__V1__Model *m = r->models[i];
        char labels[1024], text[1024], size[24];
        join(m, labels, sizeof labels);
        note(m, text, sizeof text);
        const char *const cells[] = {m->name, m->version, m->state, m->is_default ? "yes" : "-", *labels ? labels : "-",
                                     m->pinned ? "yes" : "-", m->load_mode,
                                     m->charged_bytes ? admin_size(m->charged_bytes, size) : "-", text};
        for (size_t k = 0; k < sizeof cells / sizeof *cells; k++) admin_cell(&t, cells[k]);
    }
    td_status_t s = admin_table_print(&t, err);
    admin_table_free(&t);
    return s;
}

int ctl_ls(int argc, char **argv) {
    admin_args_t a = {.timeout_ms = 10000, .most = 1};
    argp_parse(&argp, argc, argv, 0, NULL, &a);
    Thunkd__V1__ModelsRequest q = THUNKD__V1__MODELS_REQUEST__INIT;
    if (a.model) q.model = (char *)(uintptr_t)a.model;
    ProtobufCMessage *m = NULL;
    td_err_t err = {0};
    td_status_t s = admin_call(&a, "Models", &q.base, &thunkd__v1__models_response__descriptor, &m, &err);
    if (s == TD_OK && a.json) s = admin_print_json(admin_json(m), &err);
    else if (s == TD_OK) s = print_table((const Thunkd__V1__ModelsResponse *)(void *)m, &err);
    if (m) protobuf_c_message_free_unpacked(m, NULL);
    return s == TD_OK ? 0 : ctl_report(&err);
}
