/* SPDX-License-Identifier: Apache-2.0 */
/* Commands: what an operator tells the store to do, and when it has been done. */
#include <stdio.h>
#include <string.h>

#include "store/store_in.h"

static td_status_t await(td_store_t *s, td_command_t *c, td_version_t *v, bool unload, td_err_t *err) {
    td_pending_t *p = s->opts.alloc->get(s->opts.alloc->ctx, sizeof *p, 16);
    if (!p) return td_fail(err, TD_NOMEM, "out of memory");
    *p = (td_pending_t){.command = c, .version = v, .unload = unload, .next = s->pending};
    s->pending = p;
    c->pending++;
    return TD_OK;
}

static void forget(td_store_t *s, td_pending_t **p) {
    td_pending_t *dead = *p;
    *p = dead->next;
    s->opts.alloc->put(s->opts.alloc->ctx, dead, sizeof *dead);
}

static bool through(const td_pending_t *p) {
    if (!p->unload) return !p->version->has_task;
    return !p->version->dying && (p->overtaken || (!p->version->resident && !p->version->has_task));
}

void td_command_collect(td_store_t *s, td_command_t **out) {
    for (td_pending_t **p = &s->pending; *p;) {
        td_command_t *c = (*p)->command;
        if (!through(*p) && !s->closing) {
            p = &(*p)->next;
            continue;
        }
        if (!through(*p) && c->status == TD_OK) c->status = td_fail(&c->err, TD_CANCELLED, "the store is closing");
        forget(s, p);
        if (--c->pending) continue;
        c->next = *out;
        *out = c;
    }
}

void td_command_failed(td_store_t *s, td_version_t *v, td_status_t st, const td_err_t *err) {
    for (td_pending_t *p = s->pending; p; p = p->next) {
        td_command_t *c = p->command;
        if (p->version != v || p->unload || c->status != TD_OK) continue;
        c->err = *err;
        c->status = td_prefix(&c->err, st, "%s/%s", v->model->name, v->name);
    }
}

/* ---- load ---- */

static td_status_t add_overrides(td_store_t *s, td_command_t *c, td_named_t **m, td_err_t *err) {
    td_files_t *f = c->kept;
    td_status_t st = *m ? TD_OK : td_catalog_add(s, c->model_name, m, err);
    for (const td_file_t *x = f->first; x && st == TD_OK; x = x->next) {
        char version[40];
        td_version_t *v;
        snprintf(version, sizeof version, "%.*s", (int)strcspn(x->name, "/"), x->name);
        if (!(v = td_named_find(*m, version))) st = td_named_add(s, *m, version, &v, err);
        if (st != TD_OK || v->files == f) continue;
        td_files_release(v->files);
        v->files = td_files_retain(f);
        v->stamp = td_hash_bytes(&s->order, sizeof s->order); /* like nothing before */
        s->order++;
        v->trouble[0] = 0;
    }
    return st;
}

/* Which versions a LOAD without a version means: those that the rules want, or that were told to go. */
static bool meant(const td_command_t *c, const td_version_t *v) {
    if (*c->version_name) return !strcmp(v->name, c->version_name);
    if (c->kept) return v->files == c->kept;
    return v->on_disk || v->files;
}

static td_status_t load(td_store_t *s, td_command_t *c, td_named_t *m, td_err_t *err) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        td_version_t *v = m->versions[i];
        if (!meant(c, v)) continue;
        v->stopped = v->evicted = v->failed = false;
        n++;
    }
    if (!n) return td_fail(err, TD_NOTFOUND, "model %s has no version%s%s", m->name, *c->version_name ? " " : "",
                           c->version_name);
    td_named_plan(s, m); /* which of them are wanted now */
    for (uint32_t i = 0; i < m->n; i++) {
        td_version_t *v = m->versions[i];
        bool named = *c->version_name;
        if (!meant(c, v) || (!v->wanted && !named)) continue;
        if (!v->wanted)
            return td_fail(err, TD_USAGE, "model %s: the rule `versions` of its model.yaml leaves version %s out",
                           m->name, v->name);
        if (*v->trouble || *m->trouble) return td_fail(err, TD_IO, "%s", *v->trouble ? v->trouble : m->trouble);
        v->asked = true;
        bool current = v->resident && td_hash_equal(v->resident->stamp, v->stamp);
        if (c->kind == TD_COMMAND_RELOAD || !current) td_load_queue(s, v, true, true);
        if (c->deadline_ns > v->task.deadline_ns) v->task.deadline_ns = c->deadline_ns;
        td_status_t st = await(s, c, v, false, err);
        if (st != TD_OK) return st;
    }
    return TD_OK;
}

static td_status_t unload(td_store_t *s, td_command_t *c, td_named_t *m, td_err_t *err) {
    bool named = *c->version_name, found = false;
    for (uint32_t i = 0; i < m->n; i++) {
        td_version_t *v = m->versions[i];
        if (named && strcmp(v->name, c->version_name) != 0) continue;
        found = true;
        v->asked = false;
        v->stopped = m->config.load == TD_LOAD_STARTUP; /* others come back when they are asked for */
        if (v->files) { /* overrides end with what they were given for */
            td_files_release(v->files);
            v->files = NULL;
            v->stamp = (td_hash_t){0};
        }
        td_load_unqueue(s, v);
        td_version_retire(s, v);
        td_status_t st = await(s, c, v, true, err);
        if (st != TD_OK) return st;
    }
    if (!found) return td_fail(err, TD_NOTFOUND, "model %s has no version %s", m->name, c->version_name);
    /* Others must not take their place: they were told to go, not to make way. */
    for (uint32_t i = 0; !named && i < m->n; i++) m->versions[i]->stopped |= m->config.load == TD_LOAD_STARTUP;
    td_named_plan(s, m);
    return TD_OK;
}

static td_status_t run(td_store_t *s, td_command_t *c, td_err_t *err) {
    td_named_t *m = td_catalog_find(s, c->model_name);
    if (c->kept) {
        td_status_t st = add_overrides(s, c, &m, err);
        if (st != TD_OK) return st;
    }
    if (!m) return td_fail(err, TD_NOTFOUND, "there is no model %.100s", c->model_name);
    return c->kind == TD_COMMAND_UNLOAD ? unload(s, c, m, err) : load(s, c, m, err);
}

static void forget_all(td_store_t *s, const td_command_t *c) {
    for (td_pending_t **p = &s->pending; *p;)
        if ((*p)->command == c) forget(s, p);
        else p = &(*p)->next;
}

void td_command_run_all(td_store_t *s, td_command_t **out_done) {
    while (s->commands) {
        td_command_t *c = s->commands;
        td_err_t err = {0};
        s->commands = c->next;
        c->pending = 0;
        td_status_t st = s->closing ? td_fail(&err, TD_CANCELLED, "the store is closing") : run(s, c, &err);
        td_files_release(c->kept);
        c->kept = NULL;
        if (st != TD_OK) {
            forget_all(s, c);
            c->pending = 0;
            c->status = st;
            c->err = err;
        }
        if (c->pending) continue;
        c->next = *out_done;
        *out_done = c;
    }
    td_catalog_tidy(s);
}

td_status_t td_store_command(td_store_t *s, td_command_t *c, td_err_t *err) {
    c->status = TD_OK;
    c->err = (td_err_t){0};
    c->kept = NULL;
    c->next = NULL;
    const char *version = c->version ? c->version : "";
    if (!c->model || !*c->model || strchr(c->model, '/') || c->model[0] == '.' ||
        strlen(c->model) >= sizeof c->model_name)
        return td_fail(err, TD_USAGE, "'%.100s' is no name of a model", c->model ? c->model : "");
    if (*version && !td_version_name_ok(version)) return td_fail(err, TD_USAGE, "'%.60s' is no version: a number",
                                                                 version);
    snprintf(c->model_name, sizeof c->model_name, "%s", c->model);
    snprintf(c->version_name, sizeof c->version_name, "%s", version);
    td_status_t st = c->n_files ? td_files_create(s, c->files, c->n_files, &c->kept, err) : TD_OK;
    if (st != TD_OK) return st;
    pthread_mutex_lock(&s->lock);
    td_command_t **p = &s->commands;
    while (*p) p = &(*p)->next;
    *p = c;
    s->scan_wanted = true; /* what has been put there just now */
    pthread_mutex_unlock(&s->lock);
    td_keeper_wake(s);
    return TD_OK;
}

bool td_store_cancel(td_store_t *s, td_command_t *c) {
    bool found = false;
    pthread_mutex_lock(&s->lock);
    for (td_command_t **p = &s->commands; *p && !found; p = &(*p)->next)
        if (*p == c) {
            *p = c->next;
            td_files_release(c->kept);
            c->kept = NULL;
            found = true;
            break;
        }
    for (td_pending_t **p = &s->pending; *p;) {
        if ((*p)->command != c) {
            p = &(*p)->next;
            continue;
        }
        td_version_t *v = (*p)->version;
        bool others = v->wants != NULL;
        for (td_pending_t *q = s->pending; q; q = q->next) others |= q != *p && q->version == v && !q->unload;
        if (!(*p)->unload && v->has_task && !others) td_load_unqueue(s, v);
        forget(s, p);
        found = true;
    }
    pthread_mutex_unlock(&s->lock);
    return found;
}

td_status_t td_store_pin(td_store_t *s, const char *model, const char *version, bool pinned, td_err_t *err) {
    td_status_t st = TD_OK;
    pthread_mutex_lock(&s->lock);
    td_named_t *m = td_catalog_find(s, model);
    bool found = false;
    for (uint32_t i = 0; m && i < m->n; i++) {
        if (version && *version && strcmp(m->versions[i]->name, version) != 0) continue;
        m->versions[i]->pinned = pinned;
        found = true;
    }
    if (!m) st = td_fail(err, TD_NOTFOUND, "there is no model %.100s", model);
    else if (!found) st = td_fail(err, TD_NOTFOUND, "model %s has no version %.60s", m->name, version ? version : "");
    else if (!pinned && m->config.pin) st = td_fail(err, TD_USAGE, "model %s is pinned by its model.yaml", m->name);
    pthread_mutex_unlock(&s->lock);
    return st;
}
