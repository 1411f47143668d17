/* SPDX-License-Identifier: Apache-2.0 */
/* Models and versions by name, and what a model's rules want of them. */
#include <stdio.h>
#include <string.h>

#include "store/store_in.h"

/* The place of name among the models: that of its equal, or where it belongs. */
static uint32_t place(const td_store_t *s, const char *name, bool *there) {
    uint32_t lo = 0, hi = s->n_models;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (strcmp(s->models[mid]->name, name) < 0) lo = mid + 1;
        else hi = mid;
    }
    *there = lo < s->n_models && !strcmp(s->models[lo]->name, name);
    return lo;
}

td_named_t *td_catalog_find(td_store_t *s, const char *name) {
    bool there;
    uint32_t i = place(s, name, &there);
    return there ? s->models[i] : NULL;
}

static char *copy_text(const td_store_t *s, const char *text) {
    size_t n = strlen(text) + 1;
    char *p = s->opts.alloc->get(s->opts.alloc->ctx, n, 16);
    return p ? memcpy(p, text, n) : NULL;
}
static void free_text(const td_store_t *s, const char *text) {
    if (text) s->opts.alloc->put(s->opts.alloc->ctx, (void *)(uintptr_t)text, strlen(text) + 1);
}

/* Room for one more pointer in a list. */
static bool grow(const td_store_t *s, void *list, uint32_t n, uint32_t *cap) {
    const td_alloc_t *a = s->opts.alloc;
    if (n < *cap) return true;
    uint32_t want = *cap ? *cap * 2 : 8;
    void **p = a->get(a->ctx, want * sizeof *p, 16), **old = *(void ***)list;
    if (!p) return false;
    if (n) memcpy(p, old, n * sizeof *p);
    a->put(a->ctx, old, *cap * sizeof *p);
    *(void ***)list = p;
    *cap = want;
    return true;
}

static void free_model(td_store_t *s, td_named_t *m) {
    const td_alloc_t *a = s->opts.alloc;
    td_arena_deinit(&m->arena);
    a->put(a->ctx, m->versions, m->cap * sizeof *m->versions);
    free_text(s, m->name);
    free_text(s, m->dir);
    a->put(a->ctx, m, sizeof *m);
}

static char *join(const td_store_t *s, const char *dir, const char *name) {
    size_t n = strlen(dir) + strlen(name) + 2;
    char *p = s->opts.alloc->get(s->opts.alloc->ctx, n, 16);
    if (p) snprintf(p, n, "%s/%s", dir, name);
    return p;
}

td_status_t td_catalog_add(td_store_t *s, const char *name, td_named_t **out, td_err_t *err) {
    bool there;
    const td_alloc_t *a = s->opts.alloc;
    td_named_t *m = a->get(a->ctx, sizeof *m, 16);
    if (!m) return td_fail(err, TD_NOMEM, "out of memory");
    *m = (td_named_t){.name = copy_text(s, name), .dir = join(s, s->opts.dir, name)};
    td_arena_init(&m->arena, a, 0);
    td_model_yaml_defaults(&m->config);
    m->config.load = s->opts.load;
    if (!m->name || !m->dir || !grow(s, &s->models, s->n_models, &s->cap_models)) {
        free_model(s, m);
        return td_fail(err, TD_NOMEM, "out of memory");
    }
    uint32_t i = place(s, name, &there);
    memmove(&s->models[i + 1], &s->models[i], (s->n_models - i) * sizeof *s->models);
    s->models[i] = m;
    s->n_models++;
    *out = m;
    return TD_OK;
}

td_version_t *td_named_find(td_named_t *m, const char *version) {
    for (uint32_t i = 0; i < m->n; i++)
        if (!strcmp(m->versions[i]->name, version)) return m->versions[i];
    return NULL;
}

static void free_version(td_store_t *s, td_version_t *v) {
    td_files_release(v->files);
    free_text(s, v->name);
    free_text(s, v->dir);
    s->opts.alloc->put(s->opts.alloc->ctx, v, sizeof *v);
}

td_status_t td_named_add(td_store_t *s, td_named_t *m, const char *version, td_version_t **out, td_err_t *err) {
    const td_alloc_t *a = s->opts.alloc;
    td_version_t *v = a->get(a->ctx, sizeof *v, 16);
    if (!v) return td_fail(err, TD_NOMEM, "out of memory");
    memset(v, 0, sizeof *v);
    v->model = m;
    v->name = copy_text(s, version);
    v->dir = join(s, m->dir, version);
    if (!v->name || !v->dir || !grow(s, &m->versions, m->n, &m->cap)) {
        free_version(s, v);
        return td_fail(err, TD_NOMEM, "out of memory");
    }
    uint32_t i = m->n;
    while (i > 0 && td_version_order(m->versions[i - 1]->name, version) > 0) i--;
    memmove(&m->versions[i + 1], &m->versions[i], (m->n - i) * sizeof *m->versions);
    m->versions[i] = v;
    m->n++;
    *out = v;
    return TD_OK;
}

bool td_version_pinned(const td_version_t *v) { return v->pinned || v->model->config.pin; }

bool td_version_loadable(const td_version_t *v) {
    bool there = (v->on_disk || v->files) && v->wanted && !v->stopped && !v->failed;
    bool trouble = *v->trouble || *v->model->trouble;
    return there && !trouble && (v->model->config.load != TD_LOAD_EXPLICIT || v->asked);
}

/* May a request have it: now, or by loading it? */
static bool can_serve(const td_version_t *v) { return v->resident || td_version_loadable(v); }

static td_version_t *highest(td_named_t *m) {
    td_version_t *ready = NULL, *could = NULL, *any = NULL;
    for (uint32_t i = 0; i < m->n; i++) {
        td_version_t *v = m->versions[i];
        if (v->resident) ready = v;
        else if (can_serve(v)) could = v;
        if (v->on_disk || v->files || v->resident) any = v;
    }
    return ready ? ready : could ? could : any;
}

td_version_t *td_named_resolve(td_named_t *m, const char *version) {
    if (version && *version) {
        for (uint32_t i = 0; i < m->config.labels.n; i++)
            if (!strcmp(m->config.labels.items[i].key.text, version))
                return td_named_find(m, m->config.labels.items[i].value.text);
        return td_named_find(m, version);
    }
    td_version_t *v = m->config.default_version.text ? td_named_find(m, m->config.default_version.text) : NULL;
    return v && can_serve(v) ? v : highest(m);
}

/* ---- rules ---- */

static bool named_by_rules(const td_named_t *m, const td_version_t *v) {
    const td_model_yaml_t *c = &m->config;
    if (c->default_version.text && !strcmp(c->default_version.text, v->name)) return true;
    for (uint32_t i = 0; i < c->labels.n; i++)
        if (!strcmp(c->labels.items[i].value.text, v->name)) return true;
    for (uint32_t i = 0; c->versions == TD_VERSIONS_LISTED && i < c->listed.n; i++)
        if (!strcmp(c->listed.items[i].text, v->name)) return true;
    return false;
}

/* Failed with what is there now, in a way that trying again would not change. */
static bool hopeless(const td_version_t *v) {
    return !v->resident && (*v->trouble || (v->failed && td_hash_equal(v->tried, v->stamp)));
}

/* The latest N are those that load: a newest one that fails leaves its place to the one before. */
static void mark_wanted(td_named_t *m) {
    uint32_t left = m->config.versions == TD_VERSIONS_LATEST ? m->config.latest : 0;
    for (uint32_t i = m->n; i-- > 0;) {
        td_version_t *v = m->versions[i];
        bool there = v->on_disk || v->files;
        v->wanted = there && (v->files || m->config.versions == TD_VERSIONS_ALL || named_by_rules(m, v) ||
                              (m->config.versions == TD_VERSIONS_LATEST && left > 0));
        if (there && left > 0 && !hopeless(v) && !v->stopped) left--;
    }
}

/* Should it be loaded without being asked by a request? */
static bool load_by_itself(const td_version_t *v, bool active) {
    if (!v->wanted || v->stopped || v->has_task || *v->trouble || *v->model->trouble) return false;
    bool failed = v->failed && td_hash_equal(v->tried, v->stamp);
    if (v->resident) return !failed && !td_hash_equal(v->stamp, v->resident->stamp);
    if (hopeless(v) || v->evicted) return false;
    return v->asked || active || v->model->config.load == TD_LOAD_STARTUP;
}

/* Do the rules want a version that can serve now, or none at all? Else what serves goes on, wanted or not. */
static bool replaced(const td_named_t *m) {
    bool any = false;
    for (uint32_t i = 0; i < m->n; i++) {
        if (m->versions[i]->wanted && m->versions[i]->resident) return true;
        any |= m->versions[i]->wanted;
    }
    return !any;
}

static void why_not(td_version_t *v) {
    if (v->state != TD_MODEL_UNAVAILABLE || v->has_task) return;
    const char *why = NULL;
    if (*v->trouble) why = v->trouble;
    else if (*v->model->trouble) why = v->model->trouble;
    else if (v->stopped) why = "unloaded by command";
    else if (!v->wanted) why = "not served: the model's rule for versions leaves it out";
    else if (!v->failed && !v->evicted) why = "not loaded yet: the first request loads it";
    if (!v->failed && !v->evicted && v->model->config.load == TD_LOAD_EXPLICIT && !v->asked && why && v->wanted &&
        !*v->trouble)
        why = "not loaded: `load: explicit` waits for a command";
    if (why) snprintf(v->reason, sizeof v->reason, "%s", why);
}

void td_named_plan(td_store_t *s, td_named_t *m) {
    if (s->closing) return;
    mark_wanted(m);
    bool active = false; /* a model in use gets its new versions without being asked */
    for (uint32_t i = 0; i < m->n; i++) active |= m->versions[i]->resident != NULL;
    for (uint32_t i = m->n; i-- > 0;)
        if (load_by_itself(m->versions[i], active))
            td_load_queue(s, m->versions[i], active || atomic_load(&s->started), false);
    bool others = replaced(m);
    for (uint32_t i = 0; i < m->n; i++) {
        td_version_t *v = m->versions[i];
        bool gone = !v->on_disk && !v->files;
        if (v->has_task && (gone || v->stopped || !v->wanted)) td_load_unqueue(s, v);
        if (v->resident && (v->stopped || (!v->wanted && (gone || others)))) td_version_retire(s, v);
        why_not(v);
    }
}

static bool empty(const td_version_t *v) {
    return !v->on_disk && !v->files && !v->resident && !v->has_task && !v->wants && !v->dying;
}

void td_catalog_tidy(td_store_t *s) {
    for (uint32_t i = s->n_models; i-- > 0;) {
        td_named_t *m = s->models[i];
        for (uint32_t k = m->n; k-- > 0;) {
            bool held = false;
            for (td_pending_t *p = s->pending; p; p = p->next) held |= p->version == m->versions[k];
            if (held || !empty(m->versions[k])) continue;
            free_version(s, m->versions[k]);
            memmove(&m->versions[k], &m->versions[k + 1], (m->n - k - 1) * sizeof *m->versions);
            m->n--;
        }
        if (m->n || m->sequences || m->on_disk) continue;
        free_model(s, m);
        memmove(&s->models[i], &s->models[i + 1], (s->n_models - i - 1) * sizeof *s->models);
        s->n_models--;
    }
}

void td_catalog_free(td_store_t *s) {
    for (uint32_t i = 0; i < s->n_models; i++) {
        for (uint32_t k = 0; k < s->models[i]->n; k++) free_version(s, s->models[i]->versions[k]);
        free_model(s, s->models[i]);
    }
    s->opts.alloc->put(s->opts.alloc->ctx, s->models, s->cap_models * sizeof *s->models);
}
