/* SPDX-License-Identifier: Apache-2.0 */
/* Wants and leases. */
#include <string.h>

#include "store/store_in.h"

void td_want_lease(td_store_t *s, td_want_t *w, td_resident_t *r) {
    r->refs++;
    r->leases++;
    r->used_ns = td_store_now(s);
    w->lease = (td_lease_t){.resident = r};
}

void td_want_answer(td_store_t *s, td_want_t *list, td_status_t st, const td_err_t *err) {
    for (td_want_t *w = list, *next; w; w = next) {
        next = w->next;
        td_err_t own = {0};
        td_status_t mine = st;
        bool waits = false;
        if (st == TD_OK && w->sequence_name[0] && !w->lease.sequence) {
            pthread_mutex_lock(&s->lock);
            mine = td_sequence_join(s, w, &waits, &own);
            pthread_mutex_unlock(&s->lock);
        }
        if (!waits) w->done(w, mine, st == TD_OK ? &own : err);
    }
}

static td_status_t refuse(const td_version_t *v, td_err_t *err) {
    return td_fail(err, v->failed ? v->code : TD_NOTFOUND, "model %s/%s is unavailable: %s", v->model->name, v->name,
                   *v->reason ? v->reason : "it is not loaded");
}

/* Joins the load that is on its way, or begins one. */
static td_status_t wait_for_load(td_store_t *s, td_version_t *v, td_want_t *w, bool *out_waiting, td_err_t *err) {
    if (!v->has_task && !td_version_loadable(v)) return refuse(v, err);
    td_load_queue(s, v, true, false);
    w->waits_for = v;
    w->next = v->wants;
    v->wants = w;
    *out_waiting = true;
    return TD_OK;
}

static td_status_t want(td_store_t *s, td_want_t *w, bool *out_waiting, td_err_t *err) {
    td_named_t *m = s->closing ? NULL : td_catalog_find(s, w->model ? w->model : "");
    if (!m) return td_fail(err, TD_NOTFOUND, "there is no model %.100s", w->model ? w->model : "");
    if (w->sequence_name[0]) {
        bool found = false;
        td_status_t st = td_sequence_want(s, m, w, &found, out_waiting, err);
        if (st != TD_OK || found) return st;
    }
    td_version_t *v = td_named_resolve(m, w->version);
    if (!v) {
        if (w->version && *w->version) return td_fail(err, TD_NOTFOUND, "model %s has no version %.60s", m->name,
                                                      w->version);
        return td_fail(err, TD_NOTFOUND, "model %s has no version%s%s", m->name, *m->trouble ? ": " : "", m->trouble);
    }
    if (!v->resident) return wait_for_load(s, v, w, out_waiting, err);
    td_want_lease(s, w, v->resident);
    if (!w->sequence_name[0]) return TD_OK;
    td_status_t st = td_sequence_join(s, w, out_waiting, err);
    return st;
}

td_status_t td_store_want(td_store_t *s, td_want_t *w, bool *out_waiting, td_err_t *err) {
    *out_waiting = false;
    w->lease = (td_lease_t){0};
    w->next = NULL;
    w->waits_for = NULL;
    w->sequence_name[0] = 0;
    if (w->sequence && *w->sequence) {
        size_t n = strlen(w->sequence);
        if (n >= sizeof w->sequence_name)
            return td_fail(err, TD_USAGE, "the sequence's id has %zu bytes, at most %zu are possible", n,
                           sizeof w->sequence_name - 1);
        memcpy(w->sequence_name, w->sequence, n + 1);
        w->sequence_hash = td_hash_bytes(w->sequence, n).lo;
    } else if (w->sequence_start || w->sequence_end) {
        return td_fail(err, TD_USAGE, "a sequence starts or ends, but has no id");
    }
    pthread_mutex_lock(&s->lock);
    td_status_t st = want(s, w, out_waiting, err);
    pthread_mutex_unlock(&s->lock);
    return st;
}

static bool drop(td_want_t **list, td_want_t *w) {
    for (; *list; list = &(*list)->next) {
        if (*list != w) continue;
        *list = w->next;
        return true;
    }
    return false;
}

/* A load that only requests wanted ends with the last of them, if it has not begun. */
bool td_store_unwant(td_store_t *s, td_want_t *w) {
    pthread_mutex_lock(&s->lock);
    bool found = false;
    for (uint32_t i = 0; i < s->n_models && w->waits_for && !found; i++) {
        td_named_t *m = s->models[i];
        for (uint32_t k = 0; k < m->n && !found; k++) {
            td_version_t *v = m->versions[k];
            if (v != w->waits_for || !(found = drop(&v->wants, w)) || v->wants) continue;
            bool own = m->config.load == TD_LOAD_STARTUP && !v->evicted;
            if (v->has_task && !v->task.running && !v->task.commanded && !own) td_load_unqueue(s, v);
        }
        for (td_sequence_t *q = m->sequences; q && !found; q = q->next)
            if (q == w->waits_for && (found = drop(&q->wants, w)) && w->lease.resident) {
                w->lease.resident->leases--;
                td_resident_unref(w->lease.resident);
                w->lease = (td_lease_t){0};
            }
    }
    if (found) w->waits_for = NULL;
    pthread_mutex_unlock(&s->lock);
    return found;
}

void td_lease_spoil(td_lease_t *l) {
    if (l->sequence) l->sequence->spoiled = true; /* this lease alone has it */
}

void td_lease_release(td_lease_t *l) {
    td_resident_t *r = l->resident;
    td_want_t *next = NULL;
    if (!r) return;
    td_store_t *s = r->store;
    pthread_mutex_lock(&s->lock);
    r->used_ns = td_store_now(s);
    r->leases--;
    if (l->sequence) next = td_sequence_release(s, l->sequence);
    td_resident_unref(r);
    pthread_mutex_unlock(&s->lock);
    *l = (td_lease_t){0};
    if (next) next->done(next, TD_OK, &(td_err_t){0});
}
