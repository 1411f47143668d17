/* SPDX-License-Identifier: Apache-2.0 */
/* thunkctl load, unload, reload, pin, unpin, rescan: what changes a daemon's models. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ctl/admin.h"
#include "ctl/convert.h"
#include "ctl/ctl.h"
#include "ctl/print.h"
#include "schema/admin.pb-c.h"

#define POLL_NS 200000000
#define LOAD_MS 600000
#define QUICK_MS 10000

static const struct argp_option options[] = {ADMIN_OPTIONS, ADMIN_JSON, {0}};

/* A bar while the call waits: another connection asks how far the loads are. */
typedef struct progress {
    const admin_args_t *args;
    pthread_t thread;
    bool started;
    _Atomic(bool) stop;
} progress_t;

static void draw(const progress_t *p, ctl_bar_t *bar) {
    Thunkd__V1__ModelsRequest q = THUNKD__V1__MODELS_REQUEST__INIT;
    ProtobufCMessage *m = NULL;
    admin_args_t a = *p->args;
    a.timeout_ms = 2000;
    q.model = (char *)(uintptr_t)a.model;
    if (admin_call(&a, "Models", &q.base, &thunkd__v1__models_response__descriptor, &m, NULL) != TD_OK) return;
    const Thunkd__V1__ModelsResponse *r = (const Thunkd__V1__ModelsResponse *)(void *)m;
    uint64_t done = 0, total = 0;
    for (size_t i = 0; i < r->n_models; i++) {
        if (strcmp(r->models[i]->state, "LOADING")) continue;
        done += r->models[i]->done_bytes;
        total += r->models[i]->total_bytes;
    }
    protobuf_c_message_free_unpacked(m, NULL);
    if (!total) return;
    bar->total = total;
    bar->done = done;
    ctl_bar_tick(bar, 0);
}

static void *watch(void *arg) {
    progress_t *p = arg;
    ctl_bar_t bar;
    ctl_bar_begin(&bar, 1);
    while (!p->stop) {
        nanosleep(&(struct timespec){0, POLL_NS}, NULL);
        if (!p->stop) draw(p, &bar);
    }
    ctl_bar_end(&bar);
    return NULL;
}

static void progress_begin(progress_t *p) {
    if (isatty(STDERR_FILENO)) p->started = !pthread_create(&p->thread, NULL, watch, p);
}

static void progress_end(progress_t *p) {
    p->stop = true;
    if (p->started) pthread_join(p->thread, NULL);
}

/* ---- what is told with --json ---- */

/* {"model": …, "versions": [{"version": …, "state": …, "reason": …}]} of the rows [at, *end) that are one model's. */
static json_t *model_json(const char *name, const Thunkd__V1__ModelsResponse *r, size_t at, size_t *end) {
    json_t *versions = json_array();
    for (*end = at; *end < r->n_models && !strcmp(r->models[*end]->name, name); ++*end) {
        const Thunkd__V1__Model *m = r->models[*end];
        json_array_append_new(versions, json_pack("{s:s, s:s, s:o}", "version", m->version, "state", m->state, "reason",
                                                  ctl_json_text(m->reason)));
    }
    return json_pack("{s:o, s:o}", "model", ctl_json_text(name), "versions", versions);
}

static json_t *models_json(const admin_args_t *a, const Thunkd__V1__ModelsResponse *r) {
    size_t at = 0;
    if (a->model) return model_json(a->model, r, 0, &at);
    json_t *models = json_array();
    while (at < r->n_models) json_array_append_new(models, model_json(r->models[at]->name, r, at, &at));
    return json_pack("{s:o}", "models", models);
}

/* How the models stand after the command. A model that is gone has no versions. */
static td_status_t print_models(const admin_args_t *a, td_err_t *err) {
    Thunkd__V1__ModelsRequest q = THUNKD__V1__MODELS_REQUEST__INIT;
    ProtobufCMessage *m = NULL;
    admin_args_t ask = *a;
    ask.timeout_ms = QUICK_MS;
    if (a->model) q.model = (char *)(uintptr_t)a->model;
    td_status_t s = admin_call(&ask, "Models", &q.base, &thunkd__v1__models_response__descriptor, &m, err);
    if (s == TD_OK) s = admin_print_json(models_json(a, (const Thunkd__V1__ModelsResponse *)(void *)m), err);
    else if (s == TD_NOTFOUND && a->model)
        s = admin_print_json(json_pack("{s:o, s:[]}", "model", ctl_json_text(a->model), "versions"), err);
    if (m) protobuf_c_message_free_unpacked(m, NULL);
    return s;
}

static int finish(const admin_args_t *a, td_status_t s, ProtobufCMessage *m, td_err_t *err) {
    if (m) protobuf_c_message_free_unpacked(m, NULL);
    if (s == TD_OK && a->json) s = print_models(a, err);
    if (s == TD_OK) return 0;
    td_err_t printing = {0};
    if (!a->json || admin_print_json(json_pack("{s:o}", "error", ctl_json_text(err->text)), &printing) != TD_OK)
        return ctl_report(err);
    return ctl_exit_code(s);
}

static int command(int argc, char **argv, const char *method, const char *doc) {
    const struct argp argp = {options, admin_parse_opt, "MODEL [VERSION]", doc, NULL, NULL, NULL};
    admin_args_t a = {.timeout_ms = LOAD_MS, .least = 1, .most = 2};
    argp_parse(&argp, argc, argv, 0, NULL, &a);
    Thunkd__V1__ModelRequest q = THUNKD__V1__MODEL_REQUEST__INIT;
    q.model = (char *)(uintptr_t)a.model;
    if (a.version) q.version = (char *)(uintptr_t)a.version;
    ProtobufCMessage *m = NULL;
    td_err_t err = {0};
    progress_t p = {.args = &a};
    progress_begin(&p);
    td_status_t s = admin_call(&a, method, &q.base, &thunkd__v1__change_response__descriptor, &m, &err);
    progress_end(&p);
    return finish(&a, s, m, &err);
}

int ctl_load_model(int argc, char **argv) {
    return command(argc, argv, "Load",
                   "Have a daemon load a model, and wait until it is ready.\vVERSION is a number or a label; without "
                   "it, the versions that the model's model.yaml wants.");
}

int ctl_unload(int argc, char **argv) {
    return command(argc, argv, "Unload", "Have a daemon unload a model, and wait until its memory is free.\v"
                                         "Without VERSION: all of its versions.");
}

int ctl_reload(int argc, char **argv) {
    return command(argc, argv, "Reload", "Have a daemon read a model's files again. The loaded one serves until the "
                                         "new one is ready, and goes on if that fails.");
}

static int pin(int argc, char **argv, bool pinned, const char *doc) {
    const struct argp argp = {options, admin_parse_opt, "MODEL [VERSION]", doc, NULL, NULL, NULL};
    admin_args_t a = {.timeout_ms = QUICK_MS, .least = 1, .most = 2};
    argp_parse(&argp, argc, argv, 0, NULL, &a);
    Thunkd__V1__PinRequest q = THUNKD__V1__PIN_REQUEST__INIT;
    q.model = (char *)(uintptr_t)a.model;
    if (a.version) q.version = (char *)(uintptr_t)a.version;
    q.pinned = pinned;
    ProtobufCMessage *m = NULL;
    td_err_t err = {0};
    td_status_t s = admin_call(&a, "Pin", &q.base, &thunkd__v1__change_response__descriptor, &m, &err);
    return finish(&a, s, m, &err);
}

int ctl_pin(int argc, char **argv) {
    return pin(argc, argv, true, "Keep a model in memory, whatever else needs room, until the daemon's next start.");
}

int ctl_unpin(int argc, char **argv) {
    return pin(argc, argv, false, "Let a model go when others need room.");
}

int ctl_rescan(int argc, char **argv) {
    static const struct argp argp = {options, admin_parse_opt, "", "Have a daemon look at its store's folder now.",
                                     NULL, NULL, NULL};
    admin_args_t a = {.timeout_ms = QUICK_MS};
    argp_parse(&argp, argc, argv, 0, NULL, &a);
    Thunkd__V1__RescanRequest q = THUNKD__V1__RESCAN_REQUEST__INIT;
    ProtobufCMessage *m = NULL;
    td_err_t err = {0};
    td_status_t s = admin_call(&a, "Rescan", &q.base, &thunkd__v1__change_response__descriptor, &m, &err);
    return finish(&a, s, m, &err);
}
