/* SPDX-License-Identifier: Apache-2.0 */
/* thunkd: serves ahead-of-time compiled models over a Unix socket. */
#include <argp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "config/config.h"
#include "contract/day.h"
#include "daemon/listen.h"
#include "daemon/service.h"
#include "runtime/ffi/registry.h"

#define DEFAULT_CONFIG "/etc/thunkd/thunkd.yaml"

typedef struct args {
    const char *config;
    bool check;
} args_t;

typedef struct daemon {
    td_config_t config;
    uv_loop_t loop;
    td_ffi_registry_t *ffi; /* NULL without libraries */
    td_device_t *device;
    td_service_t service;
    td_server_t *server;
    uv_signal_t term, interrupt;
    uv_timer_t drain;
    bool owns_socket;
} daemon_t;

static void print_version(FILE *f, struct argp_state *state) {
    (void)state;
    fputs("thunkd " TD_VERSION "\n", f);
}

static const struct argp_option options[] = {
    {"config", 'c', "FILE", 0, "Settings (default " DEFAULT_CONFIG ")", 0},
    {"check-config", 'C', NULL, 0, "Read the settings, tell what is wrong with them, and stop", 0},
    {0},
};

static error_t parse_opt(int key, char *arg, struct argp_state *state) {
    args_t *a = state->input;
    switch (key) {
    case 'c': a->config = arg; return 0;
    case 'C': a->check = true; return 0;
    case ARGP_KEY_ARG: argp_error(state, "too many arguments"); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static void on_call(void *ctx, td_call_t *call) {
    daemon_t *d = ctx;
    td_service_call(&d->service, call);
}

/* In this thread, and in those that it starts. */
static void hold_signals(bool hold) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    pthread_sigmask(hold ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
}

static void on_drained(void *ctx) {
    daemon_t *d = ctx;
    hold_signals(true); /* without handlers they would kill what is left to do */
    uv_close((uv_handle_t *)&d->drain, NULL);
    uv_close((uv_handle_t *)&d->term, NULL);
    uv_close((uv_handle_t *)&d->interrupt, NULL);
    uv_stop(&d->loop);
}

static void on_drain_timeout(uv_timer_t *t) {
    daemon_t *d = t->data;
    fprintf(stderr, "thunkd: requests still run after %u ms; they are cancelled\n", d->config.drain_timeout_ms);
    td_server_abort(d->server);
}

static void on_signal(uv_signal_t *h, int number) {
    daemon_t *d = h->data;
    if (d->service.draining) {
        td_server_abort(d->server); /* asked twice */
        return;
    }
    fprintf(stderr, "thunkd: %s: finishing\n", strsignal(number));
    td_notify("STOPPING=1\nSTATUS=finishing");
    d->service.draining = true;
    if (d->owns_socket) unlink(d->config.socket);
    d->owns_socket = false;
    uv_timer_start(&d->drain, on_drain_timeout, d->config.drain_timeout_ms, 0);
    td_server_drain(d->server);
}

static void watch_signals(daemon_t *d) {
    uv_timer_init(&d->loop, &d->drain);
    uv_signal_init(&d->loop, &d->term);
    uv_signal_init(&d->loop, &d->interrupt);
    d->drain.data = d->term.data = d->interrupt.data = d;
    uv_signal_start(&d->term, on_signal, SIGTERM);
    uv_signal_start(&d->interrupt, on_signal, SIGINT);
}

static void print_served(const daemon_t *d, bool inherited) {
    td_store_t *s = d->service.store;
    for (uint32_t i = 0; i < td_store_count(s); i++) {
        const td_model_t *m = td_store_model(s, i);
        if (td_model_state(m) == TD_MODEL_READY)
            fprintf(stderr, "thunkd: %s/%s: ready, %llu bytes%s%s\n", td_model_name(m), td_model_version(m),
                    (unsigned long long)td_model_bytes(m), *td_model_verdict(m) ? "; " : "", td_model_verdict(m));
        else
            fprintf(stderr, "thunkd: %s/%s: unavailable: %s\n", td_model_name(m), td_model_version(m), td_model_reason(m));
    }
    fprintf(stderr, "thunkd: listening on %s\n", inherited ? "the inherited socket" : d->config.socket);
}

static void notify_ready(td_store_t *s) {
    char text[96];
    uint32_t ready = 0;
    for (uint32_t i = 0; i < td_store_count(s); i++) ready += td_model_state(td_store_model(s, i)) == TD_MODEL_READY;
    snprintf(text, sizeof text, "READY=1\nSTATUS=%u of %u models ready", ready, td_store_count(s));
    td_notify(text);
}

static td_status_t load_handlers(daemon_t *d, td_err_t *err) {
    const td_config_t *c = &d->config;
    td_status_t s = c->n_ffi_libraries ? td_ffi_registry_create(td_alloc_default(), &d->ffi, err) : TD_OK;
    for (uint32_t i = 0; s == TD_OK && i < c->n_ffi_libraries; i++) {
        const td_config_library_t *l = &c->ffi_libraries[i];
        td_ffi_symbol_t *v = calloc(l->n_handlers + 1u, sizeof *v);
        if (!v) return td_fail(err, TD_NOMEM, "out of memory");
        for (uint32_t k = 0; k < l->n_handlers; k++) v[k] = (td_ffi_symbol_t){l->handlers[k].target, l->handlers[k].symbol};
        td_ffi_library_t lib = {.path = l->path, .symbols = v, .n_symbols = l->n_handlers};
        s = td_ffi_registry_load(d->ffi, &lib, err);
        free(v);
    }
    return s;
}

static td_status_t open_models(daemon_t *d, td_err_t *err) {
    const td_config_t *c = &d->config;
    hold_signals(true); /* not for threads of the device's and the user's libraries */
    td_status_t s = load_handlers(d, err);
    if (s == TD_OK) s = td_device_open(c->device, td_alloc_default(), &d->device, err);
    hold_signals(false);
    if (s != TD_OK) return s;
    d->device->ffi = d->ffi;
    td_store_opts_t opts = {.dir = c->store, .device = d->device, .concurrency = c->threads};
    opts.contract = (td_contract_policy_t){.day = c->contract_date ? (int32_t)c->contract_date : td_day_of(time(NULL)),
                                           .play = c->contract_date != 0, .strict = c->enforce_strict != 0};
    return td_store_open(&opts, &d->service.store, err);
}

static td_status_t serve(daemon_t *d, td_err_t *err) {
    const td_config_t *c = &d->config;
    int fd = td_listen_inherited();
    bool inherited = fd >= 0;
    td_status_t s = open_models(d, err);
    if (s == TD_OK && !inherited) s = td_listen_bind(c->socket, c->socket_mode, &fd, err);
    if (s != TD_OK) return s;
    d->owns_socket = !inherited;
    d->service.loop = &d->loop;
    d->service.max_message_bytes = c->max_message_bytes;
    s = td_worker_create(&d->loop, c->threads, c->queue_depth, &d->service.worker, err);
    if (s != TD_OK) return s;
    td_server_opts_t opts = {.loop = &d->loop, .fd = fd, .max_message_bytes = c->max_message_bytes,
                             .max_concurrent_streams = c->max_concurrent_streams, .on_call = on_call,
                             .on_drained = on_drained, .ctx = d};
    s = td_server_create(&opts, &d->server, err);
    if (s != TD_OK) return s;
    watch_signals(d);
    print_served(d, inherited);
    notify_ready(d->service.store);
    uv_run(&d->loop, UV_RUN_DEFAULT);
    return TD_OK;
}

static int report(const td_err_t *err) {
    fprintf(stderr, "thunkd: %s\n", err->text);
    return err->code == TD_USAGE || err->code == TD_IO ? 2 : 1;
}

int main(int argc, char **argv) {
    static const struct argp argp = {
        options, parse_opt, NULL, "Serve ahead-of-time compiled XLA programs over a Unix socket.", NULL, NULL, NULL};
    args_t a = {.config = DEFAULT_CONFIG};
    td_err_t err = {0};
    static daemon_t d;
    argp_program_version_hook = print_version;
    argp_err_exit_status = 2;
    argp_parse(&argp, argc, argv, 0, NULL, &a);
    signal(SIGPIPE, SIG_IGN);
    if (td_config_load(a.config, &d.config, &err) != TD_OK) return report(&err);
    td_status_t s = TD_OK;
    if (!a.check) {
        uv_loop_init(&d.loop);
        s = serve(&d, &err);
        if (d.owns_socket) unlink(d.config.socket);
        td_worker_stop(d.service.worker);
        if (s == TD_OK) { /* what is left are handles that close */
            uv_run(&d.loop, UV_RUN_DEFAULT);
            uv_loop_close(&d.loop);
        }
        td_worker_free(d.service.worker);
        td_server_free(d.server);
        td_store_close(d.service.store);
        td_device_destroy(d.device);
        td_ffi_registry_destroy(d.ffi);
    }
    td_config_free(&d.config);
    return s == TD_OK ? 0 : report(&err);
}
