/* SPDX-License-Identifier: Apache-2.0 */
/* A resident that no catalog has. It is made through a store of its own, which has neither catalog nor threads: only
 * the other device, and the real store's budget and payload table, so that everything is charged, and equal payloads
 * are shared, as with any load. */
#include "store/reference.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/limits.h"
#include "runtime/module.h"
#include "runtime/tolerance.h"
#include "store/store_in.h"

/* An artifact, by bucket. */
typedef struct part {
    const char *path;
    bool draws;
    double *tolerances; /* by visible output */
} part_t;

struct td_reference {
    td_store_t *owner;
    td_store_t store; /* ours */
    _Atomic(int) cancel;
    _Atomic(bool) ended;
    /* The owner's reference_lock: */
    bool busy;
    /* The thread's, and while it is not busy whoever has the lock's: */
    td_resident_t *resident; /* NULL: none is kept */
    part_t *parts;           /* in its arena */
    const char *weights;
    char model[256], version[64];
    td_hash_t stamp;
};

td_hash_t td_resident_stamp(const td_resident_t *r) { return r->stamp; }

/* ---- beginning and end ---- */

td_status_t td_reference_create(td_store_t *s, td_device_t *device, td_reference_t **out, td_err_t *err) {
    td_reference_t *x = s->opts.alloc->get(s->opts.alloc->ctx, sizeof *x, 64);
    if (!x) return td_fail(err, TD_NOMEM, "out of memory");
    memset(x, 0, sizeof *x);
    x->owner = s;
    x->store.opts = (td_store_opts_t){.device = device, .alloc = s->opts.alloc, .concurrency = 1};
    x->store.budget = s->budget;
    x->store.payloads = s->payloads;
    x->store.payload_account = x->store.constant_account = s->payload_account; /* constants are the payloads there */
    x->store.clock = s->clock;
    td_status_t st = td_constants_create(device, s->payloads, s->opts.alloc, td_account_charge(s->payload_account),
                                         &x->store.constants, err);
    if (st != TD_OK) {
        s->opts.alloc->put(s->opts.alloc->ctx, x, sizeof *x);
        return st;
    }
    td_draw_init(&x->store.survey_draw, s->loading_account, NULL);
    pthread_mutex_init(&x->store.lock, NULL);
    pthread_mutex_init(&x->store.admission, NULL);
    pthread_mutex_init(&x->store.reference_lock, NULL);
    pthread_mutex_lock(&s->reference_lock);
    s->reference = x;
    pthread_mutex_unlock(&s->reference_lock);
    *out = x;
    return TD_OK;
}

static void drop(td_reference_t *x) {
    td_resident_destroy(x->resident);
    x->resident = NULL;
    x->parts = NULL;
}

void td_reference_destroy(td_reference_t *x) {
    if (!x) return;
    td_store_t *s = x->owner;
    pthread_mutex_lock(&s->reference_lock);
    s->reference = NULL;
    drop(x);
    pthread_mutex_unlock(&s->reference_lock);
    td_constants_destroy(x->store.constants);
    pthread_mutex_destroy(&x->store.lock);
    pthread_mutex_destroy(&x->store.admission);
    pthread_mutex_destroy(&x->store.reference_lock);
    s->opts.alloc->put(s->opts.alloc->ctx, x, sizeof *x);
}

void td_reference_drop(td_reference_t *x) {
    pthread_mutex_lock(&x->owner->reference_lock);
    drop(x);
    pthread_mutex_unlock(&x->owner->reference_lock);
}

void td_reference_cancel(td_reference_t *x) {
    atomic_store(&x->ended, true);
    atomic_store(&x->cancel, 1);
}

/* ---- giving way ---- */

static void begin(td_reference_t *x) {
    pthread_mutex_lock(&x->owner->reference_lock);
    x->busy = true;
    atomic_store(&x->cancel, atomic_load(&x->ended));
    pthread_mutex_unlock(&x->owner->reference_lock);
}

static void finish(td_reference_t *x) {
    pthread_mutex_lock(&x->owner->reference_lock);
    if (atomic_load(&x->cancel)) drop(x);
    x->busy = false;
    pthread_cond_broadcast(&x->owner->reference_free);
    pthread_mutex_unlock(&x->owner->reference_lock);
}

/* It ends between two thunks; one that is just being made may take longer, and is not waited for. */
bool td_reference_give_way(td_store_t *s) {
    struct timespec until;
    pthread_mutex_lock(&s->reference_lock);
    td_reference_t *x = s->reference;
    bool has = x && (x->resident || x->busy);
    if (has && x->busy) {
        atomic_store(&x->cancel, 1);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += TD_LIMIT_REFERENCE_WAIT_S;
        while (s->reference == x && x->busy)
            if (pthread_cond_timedwait(&s->reference_free, &s->reference_lock, &until) == ETIMEDOUT) break;
        has = s->reference != x || !x->busy;
    } else if (has) {
        drop(x);
    }
    pthread_mutex_unlock(&s->reference_lock);
    return has;
}

/* ---- making it ---- */

typedef struct source { /* what the catalog knows of it */
    char dir[PATH_MAX], model_dir[PATH_MAX], artifact[TD_STORE_REASON];
    td_files_t *files;
} source_t;

static td_status_t find(td_store_t *s, const td_reference_ask_t *q, source_t *out, td_err_t *err) {
    pthread_mutex_lock(&s->lock);
    td_named_t *m = td_catalog_find(s, q->model);
    td_version_t *v = m ? td_named_find(m, q->version) : NULL;
    const td_resident_t *r = v ? v->resident : NULL;
    bool same = r && td_hash_equal(r->stamp, q->stamp) && td_hash_equal(v->stamp, q->stamp);
    if (same) {
        snprintf(out->dir, sizeof out->dir, "%s", v->dir);
        snprintf(out->model_dir, sizeof out->model_dir, "%s", m->dir);
        snprintf(out->artifact, sizeof out->artifact, "%s", r->info.artifact);
        out->files = td_files_retain(v->files);
    }
    pthread_mutex_unlock(&s->lock);
    return same ? TD_OK : td_fail(err, TD_NOTFOUND, "%s/%s is not served any more as it was", q->model, q->version);
}

/* So that the artifacts chosen are the same: "h100.aot", or "small.h100.aot,large.h100.aot". */
static const char *target_of(const source_t *f, bool buckets, char out[256]) {
    size_t n = strcspn(f->artifact, ",");
    if (n < 4) return NULL;
    snprintf(out, 256, "%.*s", (int)(n - 4), f->artifact);
    char *point = buckets ? strrchr(out, '.') : NULL;
    return !buckets ? out : point ? memmove(out, point + 1, strlen(point)) : NULL;
}

static bool same_inputs(const td_module_t *m, const td_program_t *p) {
    bool same = m->n_inputs == td_program_input_count(p) && m->n_outputs == td_program_output_count(p);
    for (uint32_t i = 0; same && i < m->n_inputs; i++)
        same = td_shape_equal(m->inputs[i].shape, td_program_input(p, i)->shape);
    return same;
}

static td_status_t note_module(td_reference_t *x, const char *path, const td_module_t *m, td_err_t *err) {
    td_resident_t *r = x->resident;
    td_tolerance_t seen = {0};
    td_tolerance_see_module(&seen, m);
    for (uint32_t k = 0; k < r->n_buckets; k++) {
        part_t *p = &x->parts[k];
        if (p->path || !same_inputs(m, r->buckets[k].program)) continue;
        p->path = path;
        p->draws = seen.draws;
        p->tolerances = TD_NEW_N(&r->arena, double, r->info.n_outputs + 1u);
        if (!p->tolerances) return td_arena_fail(&r->arena, err);
        for (uint32_t i = 0; i < r->info.n_outputs; i++)
            p->tolerances[i] = TD_LIMIT_REFERENCE_TOLERANCES * td_tolerance_of(&seen, r->info.outputs[i].type);
        return TD_OK;
    }
    return td_fail(err, TD_MALFORMED, "%s changed while it was being loaded", path);
}

static td_status_t note_artifact(td_reference_t *x, const source_t *f, const char *name, td_err_t *err) {
    const td_alloc_t *alloc = td_heap_alloc(x->resident->heap);
    td_artifact_opts_t opts = {.table = x->store.payloads, .alloc = alloc, .headers_only = true, .cancel = &x->cancel};
    const char *path = td_file_path(f->dir, x->version, f->files, name, &x->resident->arena);
    td_artifact_t *a = NULL;
    td_module_t *m = NULL;
    if (!path) return td_arena_fail(&x->resident->arena, err);
    td_status_t st = td_artifact_open_path(path, &opts, &a, err);
    if (st == TD_OK) st = td_module_open(a, alloc, &m, err);
    if (st == TD_OK) st = note_module(x, path, m, err);
    td_module_close(m);
    td_artifact_close(a);
    return st;
}

static td_status_t note_all(td_reference_t *x, const source_t *f, td_err_t *err) {
    td_resident_t *r = x->resident;
    td_status_t st = TD_OK;
    if (strcmp(r->info.artifact, f->artifact) != 0)
        return td_fail(err, TD_UNSUPPORTED, "of its artifacts %s is served, but the device takes %s", f->artifact,
                       r->info.artifact);
    x->parts = TD_NEW_N(&r->arena, part_t, r->n_buckets + 1u);
    char *names = td_arena_strndup(&r->arena, f->artifact, strlen(f->artifact)), *rest = NULL;
    x->weights = td_arena_printf(&r->arena, "%s/weights.safetensors", f->dir);
    if (!x->parts || !names || !x->weights) return td_arena_fail(&r->arena, err);
    if (f->files || access(x->weights, R_OK)) x->weights = "";
    for (char *n = strtok_r(names, ",", &rest); n && st == TD_OK; n = strtok_r(NULL, ",", &rest))
        st = note_artifact(x, f, n, err);
    for (uint32_t k = 0; k < r->n_buckets && st == TD_OK; k++)
        if (!x->parts[k].path) st = td_fail(err, TD_MALFORMED, "%s changed while it was being loaded", f->dir);
    return st;
}

/* Requests take what is free, too. */
static td_status_t leave_room(const td_reference_t *x, td_err_t *err) {
    td_budget_totals_t t = td_budget_totals(x->store.budget, 0);
    uint64_t most = t.limit == UINT64_MAX ? t.limit : t.limit - t.limit / TD_LIMIT_REFERENCE_ROOM;
    if (t.charged <= most && t.reserved <= most - t.charged) return TD_OK;
    return td_fail(err, TD_LIMIT, "with it, of the budget of %llu bytes %llu would be taken, over %llu",
                   (unsigned long long)t.limit, (unsigned long long)(t.charged + t.reserved), (unsigned long long)most);
}

static td_status_t make(td_reference_t *x, const td_reference_ask_t *q, td_err_t *err) {
    static const char prefix[] = "check of ";
    _Atomic(uint64_t) done = 0, total = 0;
    char owner[sizeof prefix + sizeof x->model], target[256];
    source_t f = {.files = NULL};
    td_status_t st = find(x->owner, q, &f, err);
    if (st != TD_OK) return st;
    snprintf(x->model, sizeof x->model, "%s", q->model);
    snprintf(x->version, sizeof x->version, "%s", q->version);
    snprintf(owner, sizeof owner, "%s%s", prefix, q->model);
    x->stamp = q->stamp;
    x->store.opts.target = target_of(&f, strchr(f.artifact, ',') != NULL, target);
    td_load_order_t o = {.model = owner, .version = x->version, .dir = f.dir, .model_dir = f.model_dir,
                         .stamp = q->stamp, .files = f.files, .done = &done, .total = &total, .cancel = &x->cancel};
    st = td_resident_create(&x->store, &o, &x->resident, err);
    if (st == TD_OK) st = note_all(x, &f, err);
    if (st == TD_OK) st = leave_room(x, err);
    td_files_release(f.files);
    if (st != TD_OK) drop(x);
    return st;
}

/* ---- running it ---- */

static td_status_t bring(td_reference_t *x, const td_reference_ask_t *q, td_err_t *err) {
    bool kept = x->resident && !strcmp(x->model, q->model) && !strcmp(x->version, q->version) &&
                td_hash_equal(x->stamp, q->stamp);
    if (kept) return TD_OK;
    drop(x);
    td_status_t st = make(x, q, err);
    return st != TD_OK && atomic_load(&x->cancel) ? TD_CANCELLED : st;
}

static td_status_t run(td_reference_t *x, const td_reference_ask_t *q, td_reference_run_t *out, td_err_t *err) {
    td_resident_t *r = x->resident;
    td_lease_t lease = {.resident = r};
    td_run_request_t req = {.inputs = q->inputs, .cancel = &x->cancel};
    if (r->info.n_states) return td_fail(err, TD_USAGE, "it keeps state");
    for (uint32_t k = 0; k < r->n_buckets; k++)
        if (x->parts[k].draws) return td_fail(err, TD_USAGE, "it draws random numbers");
    td_status_t st = td_lease_run(&lease, &req, &out->slot, err);
    if (st != TD_OK) return st;
    const part_t *p = &x->parts[out->slot->bucket - r->buckets];
    out->info = &r->info;
    out->artifact = p->path;
    out->tolerances = p->tolerances;
    out->weights = x->weights;
    return TD_OK;
}

td_status_t td_reference_run(td_reference_t *x, const td_reference_ask_t *q, td_reference_run_t *out, bool *out_made,
                             td_err_t *err) {
    *out_made = false;
    begin(x);
    td_status_t st = bring(x, q, err);
    if (st == TD_OK) {
        *out_made = true;
        st = run(x, q, out, err);
    }
    if (st != TD_OK) finish(x);
    return st;
}

void td_reference_end(td_reference_t *x, td_reference_run_t *run) {
    td_run_slot_release(run->slot);
    *run = (td_reference_run_t){0};
    finish(x);
}
