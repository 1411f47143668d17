/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing. */
#include "store/store.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>

#include "base/limits.h"
#include "store/store_in.h"

void td_store_event(td_store_t *s, td_store_event_kind_t kind, const char *model, const char *version, const char *text,
                    uint64_t bytes, uint64_t ns) {
    td_store_event_t e = {.kind = kind, .model = model, .version = version, .text = text, .bytes = bytes, .ns = ns};
    if (s->opts.on_event) s->opts.on_event(s->opts.ctx, &e);
}

/* For each load thread; small budgets have small models. */
static uint64_t survey_bytes(const td_store_t *s) {
    uint64_t most = TD_LIMIT_STORE_SURVEY_BYTES, share = s->opts.host_bytes / 16;
    uint64_t each = s->opts.host_bytes && share < most ? share : most;
    return each * (s->opts.load_threads ? s->opts.load_threads : 1);
}

static td_status_t open_budget(td_store_t *s, td_err_t *err) {
    uint64_t limits[2] = {s->opts.host_bytes ? s->opts.host_bytes : UINT64_MAX,
                          s->opts.device_bytes ? s->opts.device_bytes : UINT64_MAX};
    uint32_t n = s->opts.device->host_memory ? 1 : 2;
    td_status_t st = td_budget_create(limits, n, s->opts.alloc, &s->budget, err);
    if (st == TD_OK) st = td_account_open(s->budget, 0, TD_CHARGE_PAYLOADS, "payloads", &s->payload_account, err);
    if (st == TD_OK) st = td_account_open(s->budget, n - 1, TD_CHARGE_PAYLOADS, "constants", &s->constant_account, err);
    if (st == TD_OK) st = td_account_open(s->budget, 0, TD_CHARGE_OVERHEAD, "loading", &s->loading_account, err);
    if (st == TD_OK) st = td_budget_reserve(s->budget, (uint64_t[TD_BUDGET_DOMAINS]){survey_bytes(s)},
                                            "the loading of models", &s->survey_memory, err);
    td_draw_init(&s->survey_draw, s->loading_account, &s->survey_memory);
    if (st == TD_OK) st = td_account_open(s->budget, 0, TD_CHARGE_OVERHEAD, "replaced files", &s->file_account, err);
    return st;
}

static td_status_t open_in(td_store_t *s, td_err_t *err) {
    td_status_t st = open_budget(s, err);
    if (st == TD_OK)
        st = td_payload_table_create(s->opts.alloc, &s->payloads, err);
    if (st == TD_OK) td_payload_table_set_charge(s->payloads, td_account_charge(s->payload_account));
    if (st == TD_OK)
        st = td_constants_create(s->opts.device, s->payloads, s->opts.alloc, td_account_charge(s->constant_account),
                                 &s->constants, err);
    DIR *d = st == TD_OK ? opendir(s->opts.dir) : NULL;
    if (st == TD_OK && !d) st = td_fail(err, TD_IO, "%s: %s", s->opts.dir, strerror(errno));
    if (d) closedir(d);
    if (st == TD_OK) st = td_load_start_threads(s, err);
    if (st == TD_OK) st = td_keeper_start(s, err);
    return st;
}

td_status_t td_store_open(const td_store_opts_t *opts, td_store_t **out, td_err_t *err) {
    const td_alloc_t *alloc = opts->alloc ? opts->alloc : td_alloc_default();
    td_store_t *s = alloc->get(alloc->ctx, sizeof *s, 64);
    if (!s) return td_fail(err, TD_NOMEM, "out of memory");
    memset(s, 0, sizeof *s);
    s->opts = *opts;
    s->opts.alloc = alloc;
    if (!s->opts.concurrency) s->opts.concurrency = 1;
    s->clock = opts->clock ? opts->clock : td_clock_system();
    s->wake_fd = s->watch_fd = -1;
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->admission, NULL);
    pthread_cond_init(&s->work, NULL);
    pthread_cond_init(&s->quiet, NULL);
    pthread_mutex_init(&s->reference_lock, NULL);
    pthread_cond_init(&s->reference_free, NULL);
    td_status_t st = open_in(s, err);
    if (st == TD_OK) *out = s;
    else td_store_close(s);
    return st;
}

/* Takes everything that waits out of the catalog, and what is loaded; lock held. */
static td_want_t *give_up(td_store_t *s) {
    td_want_t *all = NULL;
    for (uint32_t i = 0; i < s->n_models; i++)
        for (uint32_t k = 0; k < s->models[i]->n; k++) {
            td_version_t *v = s->models[i]->versions[k];
            td_load_unqueue(s, v);
            while (v->wants) {
                td_want_t *w = v->wants;
                v->wants = w->next;
                w->waits_for = NULL;
                w->next = all;
                all = w;
            }
            td_version_retire(s, v);
        }
    td_sequence_drop_all(s);
    pthread_cond_broadcast(&s->work);
    return all;
}

void td_store_close(td_store_t *s) {
    if (!s) return;
    td_err_t err = {0};
    td_command_t *done = NULL;
    pthread_mutex_lock(&s->lock);
    s->closing = true;
    td_want_t *waited = give_up(s);
    pthread_mutex_unlock(&s->lock);
    td_want_answer(s, waited, td_fail(&err, TD_CANCELLED, "the store is closing"), &err);
    td_keeper_stop(s);
    pthread_mutex_lock(&s->lock);
    td_command_run_all(s, &done); /* with an error */
    pthread_mutex_unlock(&s->lock);
    td_command_done(done);
    td_store_quiet(s);
    for (uint32_t i = 0; i < s->n_threads; i++) pthread_join(s->threads[i], NULL);
    const td_alloc_t *alloc = s->opts.alloc;
    if (s->threads) alloc->put(alloc->ctx, s->threads, s->cap_threads * sizeof *s->threads);
    td_catalog_free(s);
    td_constants_destroy(s->constants);
    td_payload_table_destroy(s->payloads);
    td_account_close(s->payload_account);
    td_account_close(s->constant_account);
    td_reservation_end(&s->survey_memory);
    td_account_close(s->loading_account);
    td_account_close(s->file_account);
    td_budget_destroy(s->budget);
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->admission);
    pthread_cond_destroy(&s->work);
    pthread_cond_destroy(&s->quiet);
    pthread_mutex_destroy(&s->reference_lock);
    pthread_cond_destroy(&s->reference_free);
    alloc->put(alloc->ctx, s, sizeof *s);
}

void td_store_settle(td_store_t *s) {
    pthread_mutex_lock(&s->lock);
    while (s->scan_wanted || s->scanning || s->commands || s->queue || s->running || s->dead)
        pthread_cond_wait(&s->quiet, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

bool td_store_started(const td_store_t *s) { return atomic_load(&s->started); }
td_budget_t *td_store_budget(td_store_t *s) { return s->budget; }
