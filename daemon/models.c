/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/models.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "contract/day.h"
#include "daemon/log.h"
#include "daemon/verifier.h"

/* The threads of the device, the store and the user's libraries take no signals. */
static void hold_signals(sigset_t *old) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, old);
}

static void read_note(td_note_t *n) {
    td_models_t *m = (td_models_t *)(void *)((char *)n - offsetof(td_models_t, note));
    m->started(m->ctx);
}

/* On a thread of the store. */
static void on_event(void *ctx, const td_store_event_t *e) {
    td_models_t *m = ctx;
    const char *colon = *e->text ? ": " : "", *semicolon = *e->text ? "; " : "";
    switch (e->kind) {
    case TD_EVENT_LOADING: return;
    case TD_EVENT_READY:
        td_log("%s/%s: ready, %llu bytes in %.1f ms%s%s", e->model, e->version, (unsigned long long)e->bytes,
               (double)e->ns / 1e6, semicolon, e->text);
        return;
    case TD_EVENT_FAILED:
        td_log("%s/%s: unavailable: %s", e->model, e->version, e->text);
        (void)td_ward_suspect(&m->service->ward);
        return;
    case TD_EVENT_UNLOADED: td_log("%s/%s: unloaded%s%s", e->model, e->version, colon, e->text); return;
    case TD_EVENT_EVICTED: td_log("%s/%s: evicted%s%s", e->model, e->version, colon, e->text); return;
    case TD_EVENT_STORE: td_log("store: %s", e->text); return;
    case TD_EVENT_GRAPHS: td_log("%s/%s: not all of it runs as graphs: %s", e->model, e->version, e->text); return;
    case TD_EVENT_STARTED: td_inbox_post(m->service->inbox, &m->note); return;
    }
}

static td_status_t load_handlers(td_service_t *v, const td_config_t *c, td_err_t *err) {
    td_status_t s = c->n_ffi_libraries ? td_ffi_registry_create(td_alloc_default(), &v->ffi, err) : TD_OK;
    for (uint32_t i = 0; s == TD_OK && i < c->n_ffi_libraries; i++) {
        const td_config_library_t *l = &c->ffi_libraries[i];
        td_ffi_symbol_t *x = calloc(l->n_handlers + 1u, sizeof *x);
        if (!x) return td_fail(err, TD_NOMEM, "out of memory");
        for (uint32_t k = 0; k < l->n_handlers; k++)
            x[k] = (td_ffi_symbol_t){l->handlers[k].target, l->handlers[k].symbol};
        td_ffi_library_t lib = {.path = l->path, .symbols = x, .n_symbols = l->n_handlers};
        s = td_ffi_registry_load(v->ffi, &lib, err);
        free(x);
    }
    return s;
}

/* 0: no limit, as the store has it. */
static td_status_t budget(const char *key, const char *text, uint64_t total, uint64_t *out, td_err_t *err) {
    td_status_t s = td_budget_parse(text, total, out, err);
    if (s != TD_OK) return td_prefix(err, s, "%s", key);
    if (*out == UINT64_MAX) *out = 0;
    return TD_OK;
}

/* What loads leave to requests. */
static td_status_t request_bytes(const td_service_t *v, const td_config_t *c, uint64_t *out, td_err_t *err) {
    uint64_t host = td_budget_totals(td_store_budget(v->store), 0).limit;
    if (host == UINT64_MAX) return TD_OK; /* nothing that they could be short of */
    if (strcmp(c->store_budget_requests, "auto") != 0)
        return budget("store.budget.requests", c->store_budget_requests, host, out, err);
    *out = host / 16 < 8 * c->max_message_bytes ? host / 16 : 8 * c->max_message_bytes;
    return TD_OK;
}

static td_status_t open_store(td_models_t *m, const td_config_t *c, td_err_t *err) {
    td_service_t *v = m->service;
    td_store_opts_t o = {.dir = c->store, .device = v->device, .concurrency = c->threads,
                         .load_threads = c->load_threads, .rescan_ms = c->rescan_ms, .watch = true,
                         .load = (td_load_mode_t)c->store_load,
                         .on_event = on_event, .ctx = m};
    v->contract_day = c->contract_date ? (int32_t)c->contract_date : td_day_of(time(NULL));
    o.contract = (td_contract_policy_t){.day = v->contract_day, .play = c->contract_date != 0,
                                        .strict = c->enforce_strict != 0};
    td_status_t s = budget("store.budget.host", c->store_budget_host, td_budget_host_memory(""), &o.host_bytes, err);
    uint64_t memory = v->device->memory_bytes ? v->device->memory_bytes : td_budget_host_memory("");
    if (s == TD_OK && !v->device->host_memory)
        s = budget("store.budget.device", c->store_budget_device, memory, &o.device_bytes, err);
    return s == TD_OK ? td_store_open(&o, &v->store, err) : s;
}

/* The device as `device` names it; what has a key of its own is added. */
static td_status_t open_device(td_service_t *v, const td_config_t *c, td_err_t *err) {
    char spec[320]; /* `device` has 255 bytes at most */
    bool cuda = !strncmp(c->device, "cuda", 4) && (!c->device[4] || c->device[4] == ':');
    snprintf(spec, sizeof spec, "%s", c->device);
    if (cuda && c->cuda_graphs_off)
        snprintf(spec, sizeof spec, "%s%sgraphs=off", c->device, !c->device[4] ? ":" : c->device[5] ? "," : "");
    return td_device_open(spec, td_alloc_default(), &v->device, err);
}

static td_status_t start_verifier(td_service_t *v, const td_config_t *c, td_err_t *err) {
    td_verifier_opts_t o = {.store = v->store, .memory = v->memory, .stats = v->stats, .device = v->device,
                            .device_spec = c->device, .share = c->verify_sample};
    return td_verifier_create(&o, &v->verifier, err);
}

td_status_t td_models_open(td_models_t *m, const td_config_t *c, td_err_t *err) {
    td_service_t *v = m->service;
    sigset_t old;
    m->note.read = read_note;
    hold_signals(&old);
    td_status_t s = load_handlers(v, c, err);
    if (s == TD_OK) s = open_device(v, c, err);
    if (s == TD_OK) {
        v->device->ffi = v->ffi;
        v->ward.device = v->device;
        const char *choice = td_cuda_device_choice(v->device);
        if (*choice) td_log("device %s: %s", c->device, choice);
        s = open_store(m, c, err);
    }
    v->ward.store = v->store;
    uint64_t aside = 0;
    if (s == TD_OK) s = request_bytes(v, c, &aside, err);
    if (s == TD_OK) s = td_memory_create(td_store_budget(v->store), aside, &v->memory, err);
    if (s == TD_OK && c->verify_sample > 0) s = start_verifier(v, c, err);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return s;
}

void td_models_close(td_models_t *m) {
    td_service_t *v = m->service;
    td_verifier_destroy(v->verifier);
    td_memory_destroy(v->memory);
    td_store_close(v->store);
    td_device_destroy(v->device);
    td_ffi_registry_destroy(v->ffi);
}
