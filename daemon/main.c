/* SPDX-License-Identifier: Apache-2.0 */
/* thunkd: serves ahead-of-time compiled models over a Unix socket. */
#include <argp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "config/config.h"
#include "daemon/listen.h"
#include "daemon/log.h"
#include "daemon/models.h"
#include "daemon/rest.h"
#include "daemon/rows.h"

#define DEFAULT_CONFIG "/etc/thunkd/thunkd.yaml"

typedef struct args {
    const char *config;
    bool check;
} args_t;

enum { INFER, ADMIN, SOCKETS };
enum { EXIT_DEVICE = 75 }; /* the device has failed: a new process will have it again (EX_TEMPFAIL) */

typedef struct daemon {
    td_config_t config;
    uv_loop_t loop;
    td_service_t service;
    td_models_t models;
    td_server_t *servers[SOCKETS]; /* ADMIN: NULL without an admin socket */
    uint32_t n_servers; /* that have not drained */
    const char *bound[SOCKETS]; /* the socket file that is ours to remove */
    uv_signal_t term, interrupt, hangup;
    uv_timer_t drain;
    int exit_code; /* of an end that is none of the start's errors */
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

static void on_http(void *ctx, const td_http_request_t *request, td_http_answer_t *out) {
    daemon_t *d = ctx;
    td_rest_answer(&d->service, request, out);
}

static void remove_sockets(daemon_t *d) {
    for (int i = 0; i < SOCKETS; i++) {
        if (d->bound[i]) unlink(d->bound[i]);
        d->bound[i] = NULL;
    }
}

static void on_drained(void *ctx) {
    daemon_t *d = ctx;
    if (--d->n_servers) return;
    sigset_t set; /* without handlers they would kill what is left to do */
    sigfillset(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    uv_close((uv_handle_t *)&d->drain, NULL);
    uv_close((uv_handle_t *)&d->term, NULL);
    uv_close((uv_handle_t *)&d->interrupt, NULL);
    uv_close((uv_handle_t *)&d->hangup, NULL);
    td_ward_stop(&d->service.ward);
    uv_stop(&d->loop);
}

static void abort_servers(daemon_t *d) {
    for (int i = 0; i < SOCKETS; i++)
        if (d->servers[i]) td_server_abort(d->servers[i]);
}

static void on_drain_timeout(uv_timer_t *t) {
    daemon_t *d = t->data;
    td_log("requests still run after %u ms; they are cancelled", d->config.drain_timeout_ms);
    abort_servers(d);
}

/* Takes no more; what is under way is answered. */
static void drain(daemon_t *d) {
    d->service.draining = true;
    remove_sockets(d);
    uv_timer_start(&d->drain, on_drain_timeout, d->config.drain_timeout_ms, 0);
    for (int i = 0; i < SOCKETS; i++)
        if (d->servers[i]) td_server_drain(d->servers[i]);
}

static void on_stop(uv_signal_t *h, int number) {
    daemon_t *d = h->data;
    if (d->service.draining) {
        abort_servers(d); /* asked twice */
        return;
    }
    td_log("%s: finishing", strsignal(number));
    td_notify("STOPPING=1\nSTATUS=finishing");
    drain(d);
}

/* What is under way fails with that cause. */
static void on_device_failed(void *ctx, const char *cause) {
    daemon_t *d = ctx;
    td_log("the device has failed, so a new process must begin: %s", cause);
    d->exit_code = EXIT_DEVICE;
    if (d->service.draining) return;
    td_notify("STOPPING=1\nSTATUS=the device has failed");
    drain(d);
}

static void on_hangup(uv_signal_t *h, int number) {
    daemon_t *d = h->data;
    td_log("%s: looking at the store", strsignal(number));
    td_store_rescan(d->service.store);
}

static void watch_signals(daemon_t *d) {
    uv_timer_init(&d->loop, &d->drain);
    uv_signal_init(&d->loop, &d->term);
    uv_signal_init(&d->loop, &d->interrupt);
    uv_signal_init(&d->loop, &d->hangup);
    d->drain.data = d->term.data = d->interrupt.data = d->hangup.data = d;
    uv_signal_start(&d->term, on_stop, SIGTERM);
    uv_signal_start(&d->interrupt, on_stop, SIGINT);
    uv_signal_start(&d->hangup, on_hangup, SIGHUP);
}

static void on_started(void *ctx) {
    daemon_t *d = ctx;
    td_rows_t rows;
    uint32_t ready = 0;
    if (d->service.draining) return;
    td_status_t s = td_rows_read(d->service.store, &rows, NULL);
    uint32_t n = s == TD_OK ? rows.n : 0;
    for (uint32_t i = 0; i < n; i++) ready += rows.v[i].state == TD_MODEL_READY;
    td_rows_free(&rows);
    char text[96];
    snprintf(text, sizeof text, "READY=1\nSTATUS=%u of %u models ready", ready, n);
    td_log("%u of %u models ready", ready, n);
    td_notify(text);
}

/* path NULL: fd is the service manager's. */
static td_status_t listen_on(daemon_t *d, int which, const char *path, uint32_t mode, int fd, td_err_t *err) {
    const td_config_t *c = &d->config;
    td_status_t s = path ? td_listen_bind(path, mode, &fd, err) : TD_OK;
    if (s != TD_OK) return s;
    d->bound[which] = path;
    td_server_opts_t o = {.loop = &d->loop, .fd = fd, .admin = which == ADMIN, .memory = d->service.memory,
                          .max_message_bytes = c->max_message_bytes,
                          .max_concurrent_streams = c->max_concurrent_streams,
                          .on_call = on_call, .on_http = on_http, .on_drained = on_drained, .ctx = d};
    s = td_server_create(&o, &d->servers[which], err);
    if (s != TD_OK) return s;
    d->n_servers++;
    td_log("listening on %s%s", path ? path : "the inherited socket", which == ADMIN ? " (admin)" : "");
    return TD_OK;
}

/* Its folder may be the service manager's: without the socket, root and we ourselves still may do all. */
static void listen_for_admin(daemon_t *d, int fd) {
    const td_config_t *c = &d->config;
    td_err_t err = {0};
    if (fd < 0 && !*c->admin_socket) return;
    if (listen_on(d, ADMIN, fd < 0 ? c->admin_socket : NULL, c->admin_socket_mode, fd, &err) == TD_OK)
        d->service.admin_socket = *c->admin_socket ? c->admin_socket : "of the service manager";
    else
        td_log("no admin socket: %s", err.text);
}

static td_status_t serve(daemon_t *d, td_err_t *err) {
    const td_config_t *c = &d->config;
    td_service_t *v = &d->service;
    int fd[SOCKETS];
    td_listen_inherited(&fd[INFER], &fd[ADMIN]);
    v->loop = &d->loop;
    v->max_message_bytes = c->max_message_bytes;
    v->queue_depth = c->queue_depth;
    v->metrics = c->metrics;
    v->started_s = (int64_t)time(NULL);
    d->models = (td_models_t){.service = v, .started = on_started, .ctx = d};
    td_status_t s = td_inbox_create(&d->loop, &v->inbox, err);
    if (s == TD_OK) s = td_stats_create(&v->stats, err);
    v->ward = (td_ward_t){.inbox = v->inbox, .slow_run_ms = c->slow_run_ms, .failed = on_device_failed, .ctx = d};
    if (s == TD_OK) td_ward_start(&v->ward, &d->loop);
    if (s == TD_OK) s = td_models_open(&d->models, c, err);
    if (s == TD_OK) s = td_worker_create(v->inbox, c->threads, c->queue_depth, &v->worker, err);
    if (s == TD_OK) listen_for_admin(d, fd[ADMIN]);
    if (s == TD_OK) s = listen_on(d, INFER, fd[INFER] < 0 ? c->socket : NULL, c->socket_mode, fd[INFER], err);
    if (s != TD_OK) return s;
    watch_signals(d);
    uv_run(&d->loop, UV_RUN_DEFAULT);
    while (v->n_pending) uv_run(&d->loop, UV_RUN_ONCE); /* calls that nobody waits for, but the store or a worker has */
    return TD_OK;
}

/* clean: the loop has run to its end; what is left there are handles that close. */
static void finish(daemon_t *d, bool clean) {
    td_service_t *v = &d->service;
    remove_sockets(d);
    td_worker_stop(v->worker);
    td_models_close(&d->models);
    if (clean) {
        td_inbox_close(v->inbox);
        uv_run(&d->loop, UV_RUN_DEFAULT);
        uv_loop_close(&d->loop);
    }
    td_inbox_free(v->inbox);
    td_worker_free(v->worker);
    for (int i = 0; i < SOCKETS; i++) td_server_free(d->servers[i]);
    td_stats_destroy(v->stats);
}

static int report(const td_err_t *err) {
    td_log("%s", err->text);
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
        finish(&d, s == TD_OK);
    }
    td_config_free(&d.config);
    return s == TD_OK ? d.exit_code : report(&err);
}
