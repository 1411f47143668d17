/* SPDX-License-Identifier: Apache-2.0 */
/* Directory names to models: <dir>/<model>/<version>. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "store/store_internal.h"

static bool is_version(const char *s) {
    size_t n = strlen(s);
    return n > 0 && strspn(s, "0123456789") == n;
}

/* As numbers of any length. */
static int by_number(const struct dirent **pa, const struct dirent **pb) {
    const char *a = (*pa)->d_name, *b = (*pb)->d_name;
    a += strspn(a, "0");
    b += strspn(b, "0");
    size_t n = strlen(a), m = strlen(b);
    if (n != m) return n < m ? -1 : 1;
    int c = strcmp(a, b);
    return c ? c : strcmp((*pa)->d_name, (*pb)->d_name);
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int not_hidden(const struct dirent *e) {
    return e->d_name[0] != '.';
}
static int version_only(const struct dirent *e) {
    return is_version(e->d_name);
}

static bool is_dir(const char *path) {
    struct stat sb;
    return stat(path, &sb) == 0 && S_ISDIR(sb.st_mode);
}

static void free_list(struct dirent **list, int n) {
    for (int i = 0; i < n; i++) free(list[i]);
    free(list);
}

static td_status_t append(td_store_t *s, const char *name, const char *version, const char *dir, td_err_t *err) {
    if (s->n_models == s->capacity) {
        uint32_t cap = s->capacity ? 2 * s->capacity : 16;
        td_model_t **p = TD_NEW_N(&s->arena, td_model_t *, cap);
        if (!p) return td_arena_fail(&s->arena, err);
        if (s->n_models) memcpy(p, s->models, s->n_models * sizeof *p);
        s->models = p;
        s->capacity = cap;
    }
    td_model_t *m = TD_NEW(&s->arena, td_model_t);
    if (!m) return td_arena_fail(&s->arena, err);
    m->alloc = s->opts.alloc;
    td_arena_init(&m->arena, m->alloc, 0);
    pthread_mutex_init(&m->lock, NULL);
    m->name = td_arena_strndup(&m->arena, name, strlen(name));
    m->version = td_arena_strndup(&m->arena, version, strlen(version));
    m->dir = td_arena_strndup(&m->arena, dir, strlen(dir));
    s->models[s->n_models++] = m;
    return m->name && m->version && m->dir ? TD_OK : td_arena_fail(&m->arena, err);
}

static td_status_t scan_model(td_store_t *s, const char *name, const char *dir, td_err_t *err) {
    struct dirent **list;
    int n = scandir(dir, &list, version_only, by_number);
    if (n < 0) return append(s, name, "", dir, err); /* loading tells why */
    td_status_t st = TD_OK;
    uint32_t before = s->n_models;
    for (int i = 0; st == TD_OK && i < n; i++) {
        const char *path = td_arena_printf(&s->arena, "%s/%s", dir, list[i]->d_name);
        if (!path) st = td_arena_fail(&s->arena, err);
        else if (is_dir(path)) st = append(s, name, list[i]->d_name, path, err);
    }
    free_list(list, n);
    if (st == TD_OK && s->n_models == before) st = append(s, name, "", dir, err);
    return st;
}

td_status_t td_store_scan(td_store_t *s, td_err_t *err) {
    struct dirent **list;
    int n = scandir(s->opts.dir, &list, not_hidden, by_name);
    if (n < 0) return td_fail(err, TD_IO, "%s: %s", s->opts.dir, strerror(errno));
    td_status_t st = TD_OK;
    for (int i = 0; st == TD_OK && i < n; i++) {
        const char *path = td_arena_printf(&s->arena, "%s/%s", s->opts.dir, list[i]->d_name);
        if (!path) st = td_arena_fail(&s->arena, err);
        else if (is_dir(path)) st = scan_model(s, list[i]->d_name, path, err);
    }
    free_list(list, n);
    return st;
}
