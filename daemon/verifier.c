/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/verifier.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "daemon/log.h"
#include "daemon/sample.h"
#include "runtime/compare.h"
#include "store/reference.h"

enum { LEAST_PRIORITY = 19 }; /* of a thread: nice(2) */
static const uint64_t HOUR_NS = 3600ull * 1000000000u;
static const uint64_t IDLE_MS = 60000; /* then the program that is kept goes */

/* What is known of a version; the thread's. As many as versions that were ever checked. */
typedef struct memo {
    struct memo *next;
    char *model, *version;
    td_hash_t stamp;         /* of the content that cannot be checked */
    bool cannot;
    td_stats_skip_t why;
    uint64_t told_ns;        /* when a difference was told last */
} memo_t;

struct td_verifier {
    td_verifier_opts_t o;
    td_device_t *own; /* NULL: checks run on the device that serves */
    td_reference_t *reference;
    memo_t *memos;
    _Atomic(uint64_t) n;   /* requests that have been offered */
    _Atomic(bool) taken;   /* one waits or is being checked */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    td_sample_t *waiting; /* by lock */
    bool stop;
    bool has_thread;
    pthread_t thread;
};

static void count(_Atomic(uint64_t) *n) { atomic_fetch_add_explicit(n, 1, memory_order_relaxed); }

/* ---- the request's side ---- */

void td_verifier_offer(td_verifier_t *v, const td_resident_t *r, const td_run_tensor_t *inputs,
                       const td_run_slot_t *slot) {
    if (!td_sample_due(v->o.share, atomic_fetch_add_explicit(&v->n, 1, memory_order_relaxed))) return;
    const td_model_info_t *info = td_resident_info(r);
    td_stats_entry_t *e = td_stats_entry(v->o.stats, info->name, info->version);
    td_sample_t *s = NULL;
    if (info->n_states) {
        count(&e->skipped[TD_SKIP_STATE]);
    } else if (atomic_exchange(&v->taken, true)) {
        count(&e->skipped[TD_SKIP_BUSY]);
    } else if (td_sample_keep(r, inputs, slot, td_memory_charge(v->o.memory), &s, NULL) != TD_OK) {
        count(&e->skipped[TD_SKIP_MEMORY]);
        atomic_store(&v->taken, false);
    } else {
        pthread_mutex_lock(&v->lock);
        v->waiting = s;
        pthread_cond_signal(&v->wake);
        pthread_mutex_unlock(&v->lock);
    }
}

/* ---- what is remembered ---- */

static memo_t *memo_of(td_verifier_t *v, const td_sample_t *s) {
    memo_t *m = v->memos;
    while (m && (strcmp(m->model, s->model) != 0 || strcmp(m->version, s->version) != 0)) m = m->next;
    if (m || !(m = calloc(1, sizeof *m))) return m;
    m->model = strdup(s->model);
    m->version = strdup(s->version);
    if (!m->model || !m->version) {
        free(m->model);
        free(m->version);
        free(m);
        return NULL;
    }
    m->next = v->memos;
    v->memos = m;
    return m;
}

static void free_memos(td_verifier_t *v) {
    for (memo_t *m = v->memos, *next; m; m = next) {
        next = m->next;
        free(m->model);
        free(m->version);
        free(m);
    }
}

/* ---- comparing ---- */

typedef struct finding {
    uint32_t output;
    td_difference_t d;
    char index[160];
} finding_t;

static bool differs(const td_tensor_info_t *t, const td_run_tensor_t *want, const td_run_tensor_t *got,
                    double tolerance, finding_t *f) {
    td_shape_t s = {.type = t->type, .rank = t->rank, .dims = want->dims, .default_layout = true, .count = 1,
                    .bits = 8 * td_type_bytes(t->type)};
    for (uint32_t d = 0; d < t->rank; d++) s.count *= want->dims[d];
    s.bytes = (uint64_t)s.count * td_type_bytes(t->type);
    td_compare(&s, want->data, got->data, tolerance, &f->d);
    td_difference_index(&f->d, &s, f->index, sizeof f->index);
    return f->d.wrong;
}

/* The first output that differs, if any. */
static bool compare(const td_sample_t *s, const td_reference_run_t *run, finding_t *f) {
    for (uint32_t i = 0; i < s->n_outputs; i++) {
        uint64_t bytes;
        td_run_tensor_t want = td_run_slot_output(run->slot, i, &bytes);
        const td_tensor_info_t *t = &run->info->outputs[i];
        f->output = i;
        bool same = bytes == s->output_bytes[i] && !memcmp(want.dims, s->outputs[i].dims, t->rank * sizeof *want.dims);
        if (!same) {
            f->d = (td_difference_t){.error = INFINITY};
            snprintf(f->index, sizeof f->index, "its shape");
            return true;
        }
        if (differs(t, &want, &s->outputs[i], run->tolerances[i], f)) return true;
    }
    return false;
}

/* ---- what is said ---- */

/* "'%s'" for a shell, if the path has nothing in it that would end the quotes. */
static void hint(const td_verifier_t *v, const td_reference_run_t *run, char *out, size_t size) {
    if (!strncmp(run->artifact, "/proc/", 6)) {
        snprintf(out, size, "`thunkctl verify` on the artifact that the load command gave finds the thunk");
        return;
    }
    const char *with = *run->weights ? " --inputs " : "";
    snprintf(out, size, "`thunkctl verify %s --device %s%s%s` finds the thunk", run->artifact, v->o.device_spec, with,
             run->weights);
}

static void tell(const td_verifier_t *v, memo_t *m, const td_sample_t *s, const td_reference_run_t *run,
                 const finding_t *f) {
    char text[1024];
    uint64_t now = td_now_ns(td_clock_system());
    if (m && m->told_ns && now - m->told_ns < HOUR_NS) return;
    if (m) m->told_ns = now;
    hint(v, run, text, sizeof text);
    td_log("%s/%s: an answer differs from the host's: output %u ('%.100s') at %s is %s, not %s; error %.3g, "
           "tolerance %.3g; %llu of %llu elements differ. %s. More of them are counted, and told in an hour",
           s->model, s->version, f->output, run->info->outputs[f->output].name, f->index, f->d.got, f->d.want,
           f->d.error, f->d.tolerance, (unsigned long long)f->d.wrong, (unsigned long long)f->d.elements, text);
}

/* ---- one check ---- */

/* remember: it would be so the next time, with the same content. */
static td_stats_skip_t reason(td_status_t st, bool made, bool *remember) {
    *remember = false;
    switch (st) {
    case TD_CANCELLED: return TD_SKIP_YIELDED;
    case TD_LIMIT: case TD_NOMEM: return TD_SKIP_MEMORY;
    case TD_NOTFOUND: case TD_IO: return TD_SKIP_GONE;
    default: *remember = true;
    }
    return made && st == TD_USAGE ? TD_SKIP_RANDOM : TD_SKIP_HOST;
}

/* Returns what counts it, for when the next one may come. */
static _Atomic(uint64_t) *check(td_verifier_t *v, const td_sample_t *s) {
    td_stats_entry_t *e = td_stats_entry(v->o.stats, s->model, s->version);
    memo_t *m = memo_of(v, s);
    td_reference_ask_t ask = {.model = s->model, .version = s->version, .stamp = s->stamp, .inputs = s->inputs};
    td_reference_run_t run = {0};
    finding_t f = {0};
    td_err_t err = {0};
    bool made, remember;
    if (m && m->cannot && td_hash_equal(m->stamp, s->stamp)) return &e->skipped[m->why];
    td_status_t st = td_reference_run(v->reference, &ask, &run, &made, &err);
    if (st == TD_OK) {
        if (compare(s, &run, &f)) {
            tell(v, m, s, &run, &f);
            count(&e->differed);
        }
        td_reference_end(v->reference, &run);
        return &e->checked;
    }
    td_stats_skip_t why = reason(st, made, &remember);
    if (m && remember) *m = (memo_t){m->next, m->model, m->version, s->stamp, true, why, m->told_ns};
    if (remember) td_log("%s/%s: its requests are not checked on the host: %s", s->model, s->version, err.text);
    return &e->skipped[why];
}

/* ---- the thread ---- */

/* Waits for a sample; NULL: the end. */
static td_sample_t *next(td_verifier_t *v) {
    struct timespec until;
    pthread_mutex_lock(&v->lock);
    bool kept = true;
    while (!v->waiting && !v->stop) {
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += IDLE_MS / 1000;
        if (!kept) {
            pthread_cond_wait(&v->wake, &v->lock);
        } else if (pthread_cond_timedwait(&v->wake, &v->lock, &until)) {
            pthread_mutex_unlock(&v->lock);
            td_reference_drop(v->reference);
            kept = false;
            pthread_mutex_lock(&v->lock);
        }
    }
    td_sample_t *s = v->stop ? NULL : v->waiting;
    if (s) v->waiting = NULL;
    pthread_mutex_unlock(&v->lock);
    return s;
}

static void *thread_main(void *arg) {
    td_verifier_t *v = arg;
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), LEAST_PRIORITY); /* on Linux of this thread alone */
    for (td_sample_t *s; (s = next(v));) {
        _Atomic(uint64_t) *counter = check(v, s);
        td_sample_free(s);
        atomic_store(&v->taken, false);
        count(counter);
    }
    return NULL;
}

static td_status_t start(td_verifier_t *v, td_err_t *err) {
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals belong to the loop's thread */
    td_status_t st = TD_OK;
    if (!v->o.device->host_memory) {
        st = td_device_open("host:threads=1", td_alloc_default(), &v->own, err);
        if (st == TD_OK) v->own->ffi = v->o.device->ffi;
        else td_prefix(err, st, "verify_sample");
    }
    if (st == TD_OK) st = td_reference_create(v->o.store, v->own ? v->own : v->o.device, &v->reference, err);
    int e = st == TD_OK ? pthread_create(&v->thread, NULL, thread_main, v) : 0;
    v->has_thread = st == TD_OK && !e;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return e ? td_fail(err, TD_NOMEM, "thread: %s", strerror(e)) : st;
}

td_status_t td_verifier_create(const td_verifier_opts_t *o, td_verifier_t **out, td_err_t *err) {
    td_verifier_t *v = calloc(1, sizeof *v);
    if (!v) return td_fail(err, TD_NOMEM, "out of memory");
    v->o = *o;
    pthread_mutex_init(&v->lock, NULL);
    pthread_cond_init(&v->wake, NULL);
    td_status_t st = start(v, err);
    if (st == TD_OK) *out = v;
    else td_verifier_destroy(v);
    return st;
}

void td_verifier_destroy(td_verifier_t *v) {
    if (!v) return;
    if (v->has_thread) {
        td_reference_cancel(v->reference);
        pthread_mutex_lock(&v->lock);
        v->stop = true;
        pthread_cond_signal(&v->wake);
        pthread_mutex_unlock(&v->lock);
        pthread_join(v->thread, NULL);
    }
    td_sample_free(v->waiting);
    td_reference_destroy(v->reference);
    td_device_destroy(v->own);
    free_memos(v);
    pthread_mutex_destroy(&v->lock);
    pthread_cond_destroy(&v->wake);
    free(v);
}
