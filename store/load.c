/* SPDX-License-Identifier: Apache-2.0 */
/* The load threads: one load of a version at a time, whoever asked for it; and the end of residents. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "store/store_in.h"

/* ---- the queue; lock held ---- */

static bool goes_before(const td_task_t *a, const td_task_t *b) {
    if (a->priority != b->priority) return a->priority > b->priority;
    if (a->commanded != b->commanded) return a->commanded;
    return a->order < b->order;
}

static void insert(td_store_t *s, td_task_t *t) {
    td_task_t **p = &s->queue;
    while (*p && !goes_before(t, *p)) p = &(*p)->next;
    t->next = *p;
    *p = t;
    s->stats.queued++;
    pthread_cond_signal(&s->work);
}

static bool take_out(td_store_t *s, td_task_t *t) {
    for (td_task_t **p = &s->queue; *p; p = &(*p)->next) {
        if (*p != t) continue;
        *p = t->next;
        s->stats.queued--;
        return true;
    }
    return false;
}

void td_version_set_state(td_version_t *v) {
    v->state = v->resident   ? TD_MODEL_READY
               : v->has_task ? TD_MODEL_LOADING
               : v->dying    ? TD_MODEL_UNLOADING
                             : TD_MODEL_UNAVAILABLE;
}

void td_load_queue(td_store_t *s, td_version_t *v, bool may_evict, bool commanded) {
    td_task_t *t = &v->task;
    if (v->has_task) {
        t->may_evict |= may_evict;
        t->again |= t->running && atomic_load(&t->cancel);
        if (t->running || (t->commanded || !commanded)) return;
        take_out(s, t);
        t->commanded = true;
        insert(s, t);
        return;
    }
    *t = (td_task_t){.version = v, .priority = v->model->config.priority, .order = s->order++, .may_evict = may_evict,
                     .commanded = commanded};
    for (td_pending_t *p = s->pending; p; p = p->next) p->overtaken |= p->unload && p->version == v;
    v->has_task = true;
    atomic_store(&v->done, 0);
    atomic_store(&v->total, 0);
    if (!v->resident) v->reason[0] = 0;
    td_version_set_state(v);
    insert(s, t);
}

void td_load_unqueue(td_store_t *s, td_version_t *v) {
    if (!v->has_task) return;
    atomic_store(&v->task.cancel, 1);
    v->task.again = false;
    if (v->task.running || !take_out(s, &v->task)) return;
    v->has_task = false;
    td_version_set_state(v);
    if (v->state == TD_MODEL_UNAVAILABLE) snprintf(v->reason, sizeof v->reason, "the load was cancelled");
    pthread_cond_broadcast(&s->quiet);
}

/* ---- residents' ends; lock held ---- */

void td_resident_unref(td_resident_t *r) {
    if (--r->refs) return;
    r->next_dead = r->store->dead;
    r->store->dead = r;
    pthread_cond_signal(&r->store->work);
}

void td_version_retire(td_store_t *s, td_version_t *v) {
    td_resident_t *r = v->resident;
    if (!r) return;
    v->resident = NULL;
    v->dying++;
    s->stats.unloads++;
    td_version_set_state(v);
    td_resident_unref(r);
}

/* Takes the lock when the resident is gone. */
static void bury(td_store_t *s, td_resident_t *r) {
    char model[256], version[64];
    uint64_t bytes = r->info.bytes;
    td_version_t *v = r->version; /* stays while it is dying */
    snprintf(model, sizeof model, "%s", r->info.name);
    snprintf(version, sizeof version, "%s", r->info.version);
    td_resident_destroy(r);
    td_store_event(s, TD_EVENT_UNLOADED, model, version, "", bytes, 0);
    pthread_mutex_lock(&s->lock);
    v->dying--;
    td_version_set_state(v);
    td_named_plan(s, v->model);
    td_catalog_tidy(s);
    pthread_mutex_unlock(&s->lock);
}

/* ---- one load ---- */

static void fill_order(td_version_t *v, td_load_order_t *o) {
    *o = (td_load_order_t){.model = v->model->name, .version = v->name, .dir = v->dir, .model_dir = v->model->dir,
                           .stamp = v->stamp, .files = td_files_retain(v->files), .may_evict = v->task.may_evict,
                           .priority = v->model->config.priority, .done = &v->done, .total = &v->total,
                           .cancel = &v->task.cancel};
}

/* Would it fail in the same way again, as long as the files stay? */
static bool lasting(td_status_t st) {
    return st == TD_MALFORMED || st == TD_UNSUPPORTED || st == TD_MISMATCH || st == TD_NOTFOUND || st == TD_USAGE;
}

static td_want_t *take_wants(td_version_t *v) {
    td_want_t *w = v->wants;
    v->wants = NULL;
    for (td_want_t *x = w; x; x = x->next) x->waits_for = NULL;
    return w;
}

/* Lock held. The wants that waited, with their leases on success. */
static td_want_t *loaded(td_store_t *s, td_version_t *v, td_hash_t stamp, td_resident_t *r, td_status_t st,
                         const td_err_t *err) {
    v->has_task = false;
    v->tried = stamp;
    v->failed = st != TD_OK && lasting(st);
    v->code = st;
    if (st == TD_OK) {
        if (v->resident) td_version_retire(s, v);
        v->resident = r;
        r->version = v;
        r->refs = 1;
        r->used_ns = td_store_now(s);
        v->evicted = false;
        v->loads++;
        if (v->model->config.idle_unload_ms) td_keeper_wake(s);
        s->stats.loads++;
        v->reason[0] = 0;
        snprintf(v->verdict, sizeof v->verdict, "%s", r->info.verdict);
    } else {
        s->stats.failed_loads += st != TD_CANCELLED;
        s->stats.refusals += st == TD_LIMIT;
        v->evicted = !lasting(st) && !v->resident; /* a request may try again */
        snprintf(v->reason, sizeof v->reason, "%s: %s", td_status_name(st), err->text);
        td_command_failed(s, v, st, err);
    }
    td_version_set_state(v);
    td_want_t *w = take_wants(v);
    for (td_want_t *x = w; x && st == TD_OK; x = x->next) td_want_lease(s, x, r);
    td_named_plan(s, v->model);
    return w;
}

static void run_load(td_store_t *s, td_version_t *v) { /* lock held, and when it returns */
    td_load_order_t o;
    td_err_t err = {0};
    td_resident_t *r = NULL;
    char model[256], version[64];
    fill_order(v, &o);
    pthread_mutex_unlock(&s->lock);
    snprintf(model, sizeof model, "%s", o.model);
    snprintf(version, sizeof version, "%s", o.version);
    td_store_event(s, TD_EVENT_LOADING, model, version, "", 0, 0);
    uint64_t began = td_store_now(s);
    td_status_t st = td_resident_create(s, &o, &r, &err);
    uint64_t took = td_store_now(s) - began;
    td_files_release((td_files_t *)(uintptr_t)o.files);
    uint64_t bytes = r ? r->info.bytes : 0;
    char text[TD_STORE_REASON];
    snprintf(text, sizeof text, "%s", r ? r->info.verdict : err.text);
    pthread_mutex_lock(&s->lock);
    s->stats.load_ns += took;
    if (st == TD_OK && atomic_load(&v->task.cancel)) { /* too late to stop it, but nobody wants it any more */
        pthread_mutex_unlock(&s->lock);
        td_resident_destroy(r);
        st = td_fail(&err, TD_CANCELLED, "the load was cancelled");
        pthread_mutex_lock(&s->lock);
    }
    if (st == TD_CANCELLED && v->task.again && !s->closing) {
        v->has_task = false;
        td_load_queue(s, v, v->task.may_evict, v->task.commanded);
        return;
    }
    td_want_t *waited = loaded(s, v, o.stamp, r, st, &err);
    pthread_mutex_unlock(&s->lock);
    if (st == TD_OK) td_store_event(s, TD_EVENT_READY, model, version, text, bytes, took);
    else td_store_event(s, TD_EVENT_FAILED, model, version, err.text, 0, took);
    td_want_answer(s, waited, st, &err);
    pthread_mutex_lock(&s->lock);
}

/* ---- the threads ---- */

static void *load_main(void *arg) {
    td_store_t *s = arg;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (!s->dead && (!s->queue || s->closing) && !(s->closing && !s->running)) pthread_cond_wait(&s->work,
                &s->lock);
        td_resident_t *r = s->dead;
        td_task_t *t = s->queue;
        if (!r && s->closing) break;
        s->running++;
        if (r) {
            s->dead = r->next_dead;
            pthread_mutex_unlock(&s->lock);
            bury(s, r);
            pthread_mutex_lock(&s->lock);
        } else {
            s->queue = t->next;
            s->stats.queued--;
            t->running = true;
            run_load(s, t->version);
        }
        s->running--;
        if (s->closing) pthread_cond_broadcast(&s->work);
        pthread_mutex_unlock(&s->lock);
        td_store_quiet(s);
        pthread_mutex_lock(&s->lock);
    }
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* Signals belong to the daemon's main thread. */
td_status_t td_load_start_threads(td_store_t *s, td_err_t *err) {
    sigset_t all, old;
    uint32_t n = s->opts.load_threads ? s->opts.load_threads : 1;
    s->threads = s->opts.alloc->get(s->opts.alloc->ctx, n * sizeof *s->threads, 16);
    if (!s->threads) return td_fail(err, TD_NOMEM, "out of memory");
    s->cap_threads = n;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int e = 0;
    while (!e && s->n_threads < n)
        if (!(e = pthread_create(&s->threads[s->n_threads], NULL, load_main, s))) s->n_threads++;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return e ? td_fail(err, TD_NOMEM, "load thread: %s", strerror(e)) : TD_OK;
}

void td_command_done(td_command_t *list) {
    for (td_command_t *c = list, *next; c; c = next) {
        next = c->next;
        c->done(c, c->status, &c->err);
    }
}

void td_store_quiet(td_store_t *s) {
    td_command_t *done = NULL;
    pthread_mutex_lock(&s->lock);
    td_command_collect(s, &done);
    td_catalog_tidy(s);
    bool first = s->looked && !s->queue && !s->running && !atomic_load(&s->started);
    if (first) atomic_store(&s->started, true);
    pthread_cond_broadcast(&s->quiet);
    pthread_mutex_unlock(&s->lock);
    td_command_done(done);
    if (first) td_store_event(s, TD_EVENT_STARTED, "", "", "", 0, 0);
}
