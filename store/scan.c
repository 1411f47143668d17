/* SPDX-License-Identifier: Apache-2.0 */
/* The store's directory, read without the lock, then compared with the catalog under it. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/limits.h"
#include "store/store_in.h"

typedef struct found_version {
    const char *name;
    td_hash_t stamp;
    char trouble[200];
    struct found_version *next;
} found_version_t;
typedef struct found_model {
    const char *name;
    td_hash_t yaml;
    bool yaml_read; /* config is new */
    td_arena_t config_arena;
    td_model_yaml_t config;
    char trouble[TD_STORE_REASON];
    found_version_t *versions;
    struct found_model *next;
} found_model_t;
typedef struct scan {
    td_store_t *s;
    td_arena_t arena;
    found_model_t *models;
    td_err_t *err;
} scan_t;

bool td_version_name_ok(const char *s) {
    size_t n = strlen(s);
    return n > 0 && n <= 32 && strspn(s, "0123456789") == n;
}

int td_version_order(const char *a, const char *b) {
    const char *x = a + strspn(a, "0"), *y = b + strspn(b, "0");
    size_t n = strlen(x), m = strlen(y);
    if (n != m) return n < m ? -1 : 1;
    int c = strcmp(x, y);
    return c ? c : strcmp(a, b);
}

/* Being written, or not ours. */
static bool passed_over(const char *name) {
    size_t n = strlen(name);
    return name[0] == '.' || n > 200 || (n > 8 && !strcmp(name + n - 8, ".partial"));
}

static void fold(td_hash_t *h, const void *data, size_t size) {
    td_hash_t two[2] = {*h, td_hash_bytes(data, size)};
    *h = td_hash_bytes(two, sizeof two);
}
static void fold_text(td_hash_t *h, const char *t) { fold(h, t ? t : "", t ? strlen(t) : 0); }

static void fold_stat(td_hash_t *h, const char *name, const struct stat *b) {
    uint64_t v[8] = {(uint64_t)b->st_dev, (uint64_t)b->st_ino, (uint64_t)b->st_size, (uint64_t)b->st_mode,
                     (uint64_t)b->st_mtim.tv_sec, (uint64_t)b->st_mtim.tv_nsec,
                     (uint64_t)b->st_ctim.tv_sec, (uint64_t)b->st_ctim.tv_nsec};
    fold_text(h, name);
    fold(h, v, sizeof v);
}

static void fold_words(td_hash_t *h, const td_words_t *w) {
    fold(h, &w->n, sizeof w->n);
    for (uint32_t i = 0; i < w->n; i++) fold_text(h, w->items[i].text);
}
static void fold_tensors(td_hash_t *h, const td_tensor_configs_t *t) {
    fold(h, &t->n, sizeof t->n);
    for (uint32_t i = 0; i < t->n; i++) {
        fold_text(h, t->items[i].name.text);
        fold_text(h, t->items[i].datatype.text);
        fold(h, t->items[i].dims, t->items[i].rank * sizeof *t->items[i].dims);
    }
}

/* What of the model's own settings a loaded version depends on; labels, pins and the like change without a load. */
static td_hash_t fold_config(const td_model_yaml_t *c) {
    td_hash_t h = {0};
    fold(&h, &c->concurrency, sizeof c->concurrency);
    fold_tensors(&h, &c->inputs);
    fold_tensors(&h, &c->outputs);
    fold_words(&h, &c->weight_files);
    fold_words(&h, &c->weights_only);
    fold_words(&h, &c->buckets);
    for (uint32_t i = 0; i < c->weights_bind.n; i++) {
        fold_text(&h, c->weights_bind.items[i].key.text);
        fold_text(&h, c->weights_bind.items[i].value.text);
    }
    for (uint32_t i = 0; i < c->n_axes; i++) {
        fold_text(&h, c->axes[i].tensor.text);
        fold_words(&h, &c->axes[i].names);
    }
    for (uint32_t i = 0; i < c->n_pads; i++) {
        fold_text(&h, c->pads[i].tensor.text);
        fold(&h, &c->pads[i].number, sizeof c->pads[i].number);
    }
    for (uint32_t i = 0; i < c->n_states; i++) {
        fold_text(&h, c->states[i].input.text);
        fold_text(&h, c->states[i].output.text);
    }
    fold(&h, &c->sequence_idle_ms, sizeof c->sequence_idle_ms);
    fold(&h, &c->sequence_max, sizeof c->sequence_max);
    return h;
}

/* Everything in the folder that could matter; subfolders do not. */
static void stamp_version(const char *dir, found_version_t *f) {
    DIR *d = opendir(dir);
    if (!d) {
        snprintf(f->trouble, sizeof f->trouble, errno == ENOTDIR ? "%s is not a folder" : "%s cannot be read", dir);
        if (errno != ENOTDIR) snprintf(f->trouble, sizeof f->trouble, "%s: %s", dir, strerror(errno));
        return;
    }
    td_hash_t sum = {0};
    uint32_t n = 0;
    for (struct dirent *e; (e = readdir(d)) && n < TD_LIMIT_STORE_ENTRIES; n++) {
        struct stat b;
        td_hash_t h = {0};
        if (passed_over(e->d_name)) continue;
        if (fstatat(dirfd(d), e->d_name, &b, 0) == 0) fold_stat(&h, e->d_name, &b);
        else fold_text(&h, e->d_name);
        sum.lo += h.lo, sum.hi += h.hi; /* in any order */
    }
    closedir(d);
    if (n == TD_LIMIT_STORE_ENTRIES)
        snprintf(f->trouble, sizeof f->trouble, "%s has over %d entries", dir, TD_LIMIT_STORE_ENTRIES);
    f->stamp = sum;
}

static td_status_t scan_versions(scan_t *x, const char *dir, found_model_t *m, DIR *d) {
    uint32_t n = 0;
    for (struct dirent *e; (e = readdir(d));) {
        if (passed_over(e->d_name) || !td_version_name_ok(e->d_name)) continue;
        if (++n > TD_LIMIT_STORE_ENTRIES) {
            snprintf(m->trouble, sizeof m->trouble, "%s has over %d versions", dir, TD_LIMIT_STORE_ENTRIES);
            break;
        }
        found_version_t *f = TD_NEW(&x->arena, found_version_t);
        const char *path = td_arena_printf(&x->arena, "%s/%s", dir, e->d_name);
        if (!f || !path || !(f->name = td_arena_strndup(&x->arena, e->d_name, strlen(e->d_name))))
            return td_arena_fail(&x->arena, x->err);
        stamp_version(path, f);
        f->next = m->versions;
        m->versions = f;
    }
    return TD_OK;
}

static td_hash_t stamp_file(const char *path) {
    struct stat b;
    td_hash_t h = {0};
    if (stat(path, &b) == 0) fold_stat(&h, "", &b);
    return h;
}

/* The model's own settings, read again when the file is another. */
static void read_config(scan_t *x, const char *path, found_model_t *m, td_hash_t known) {
    td_err_t err = {0};
    m->yaml = stamp_file(path);
    if (td_hash_equal(m->yaml, known)) return;
    m->yaml_read = true;
    td_arena_init(&m->config_arena, x->s->opts.alloc, 0);
    td_model_yaml_defaults(&m->config);
    m->config.load = x->s->opts.load;
    if (td_model_yaml_read(path, true, &m->config_arena, &m->config, &err) != TD_OK)
        snprintf(m->trouble, sizeof m->trouble, "%s", err.text);
}

static td_status_t scan_model(scan_t *x, const char *name) {
    found_model_t *m = TD_NEW(&x->arena, found_model_t);
    const char *dir = td_arena_printf(&x->arena, "%s/%s", x->s->opts.dir, name);
    const char *yaml = dir ? td_arena_printf(&x->arena, "%s/model.yaml", dir) : NULL;
    if (!m || !yaml || !(m->name = td_arena_strndup(&x->arena, name, strlen(name)))) return td_arena_fail(&x->arena,
            x->err);
    DIR *d = opendir(dir);
    if (!d && errno == ENOTDIR) return TD_OK; /* a stray file beside the models */
    m->next = x->models;
    x->models = m;
    pthread_mutex_lock(&x->s->lock);
    td_named_t *old = td_catalog_find(x->s, name);
    td_hash_t known = old ? old->stamp : (td_hash_t){1, 1};
    pthread_mutex_unlock(&x->s->lock);
    if (!d) {
        snprintf(m->trouble, sizeof m->trouble, "%s: %s", dir, strerror(errno));
        m->yaml = known;
        return TD_OK;
    }
    read_config(x, yaml, m, known);
    td_status_t st = scan_versions(x, dir, m, d);
    closedir(d);
    return st;
}

static td_status_t scan_all(scan_t *x) {
    DIR *d = opendir(x->s->opts.dir);
    if (!d) return td_fail(x->err, TD_IO, "%s: %s", x->s->opts.dir, strerror(errno));
    td_status_t st = TD_OK;
    uint32_t n = 0;
    for (struct dirent *e; st == TD_OK && (e = readdir(d));) {
        if (passed_over(e->d_name)) continue;
        if (++n > TD_LIMIT_STORE_ENTRIES)
            st = td_fail(x->err, TD_LIMIT, "%s has over %d entries", x->s->opts.dir, TD_LIMIT_STORE_ENTRIES);
        else st = scan_model(x, e->d_name);
    }
    closedir(d);
    return st;
}

/* ---- under the lock ---- */

static td_status_t take_version(scan_t *x, td_named_t *m, const found_version_t *f, td_hash_t config) {
    td_version_t *v = td_named_find(m, f->name);
    td_status_t st = v ? TD_OK : td_named_add(x->s, m, f->name, &v, x->err);
    if (st != TD_OK) return st;
    td_hash_t stamp = f->stamp;
    fold(&stamp, &config, sizeof config);
    v->on_disk = true;
    if (v->files) return TD_OK; /* a command's files stand in for them */
    if (!td_hash_equal(stamp, v->stamp)) v->evicted = false; /* another content is another try */
    v->stamp = stamp;
    memcpy(v->trouble, f->trouble, sizeof v->trouble);
    return TD_OK;
}

static td_status_t take_model(scan_t *x, found_model_t *f) {
    td_named_t *m = td_catalog_find(x->s, f->name);
    td_status_t st = m ? TD_OK : td_catalog_add(x->s, f->name, &m, x->err);
    if (st != TD_OK) return st;
    m->on_disk = true;
    if (f->yaml_read || *f->trouble) memcpy(m->trouble, f->trouble, sizeof m->trouble);
    if (*f->trouble && !f->yaml_read) m->stamp = (td_hash_t){1, 1}; /* read it when the folder can be read */
    if (f->yaml_read) {
        m->stamp = f->yaml;
        if (!*f->trouble) {
            td_arena_deinit(&m->arena);
            m->arena = f->config_arena;
            m->config = f->config;
            f->yaml_read = false; /* moved */
        }
    }
    td_hash_t config = fold_config(&m->config);
    for (found_version_t *v = f->versions; v && st == TD_OK; v = v->next) st = take_version(x, m, v, config);
    return st;
}

td_status_t td_store_scan(td_store_t *s, td_err_t *err) {
    scan_t x = {.s = s, .err = err};
    td_arena_init(&x.arena, s->opts.alloc, 0);
    td_status_t st = scan_all(&x);
    pthread_mutex_lock(&s->lock);
    if (st == TD_OK) {
        for (uint32_t i = 0; i < s->n_models; i++) {
            s->models[i]->on_disk = false;
            for (uint32_t k = 0; k < s->models[i]->n; k++) s->models[i]->versions[k]->on_disk = false;
        }
        for (found_model_t *f = x.models; f && st == TD_OK; f = f->next) st = take_model(&x, f);
        for (uint32_t i = 0; i < s->n_models; i++) td_named_plan(s, s->models[i]);
        td_catalog_tidy(s);
    }
    s->stats.rescans++;
    pthread_mutex_unlock(&s->lock);
    for (found_model_t *f = x.models; f; f = f->next)
        if (f->yaml_read) td_arena_deinit(&f->config_arena);
    td_arena_deinit(&x.arena);
    return st;
}
