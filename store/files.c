/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a version: in its folder, or given by a command and kept in memory. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/limits.h"
#include "store/store_in.h"

/* "<version>/<file>", with nothing that leads elsewhere. */
static bool good_path(const char *p) {
    char version[40];
    size_t n = strcspn(p, "/");
    if (n >= sizeof version || p[n] != '/' || strlen(p) > 200) return false;
    snprintf(version, sizeof version, "%.*s", (int)n, p);
    const char *file = p + n + 1;
    return td_version_name_ok(version) && *file && *file != '.' && !strchr(file, '/');
}

static td_status_t write_all(int fd, const td_override_t *o, td_err_t *err) {
    const char *p = o->data;
    for (uint64_t left = o->bytes; left;) {
        ssize_t n = write(fd, p, left);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return td_fail(err, TD_NOMEM, "%.100s: %s", o->path, strerror(errno));
        p += n;
        left -= (uint64_t)n;
    }
    return TD_OK;
}

static td_status_t add(td_files_t *f, const td_override_t *o, td_err_t *err) {
    if (!good_path(o->path)) return td_fail(err, TD_USAGE, "'%.100s' is no <version>/<file name>", o->path);
    for (td_file_t *x = f->first; x; x = x->next)
        if (!strcmp(x->name, o->path)) return td_fail(err, TD_USAGE, "%s is given twice", o->path);
    td_file_t *x = f->alloc->get(f->alloc->ctx, sizeof *x, 16);
    if (!x) return td_fail(err, TD_NOMEM, "out of memory");
    *x = (td_file_t){.fd = -1, .next = f->first};
    f->first = x;
    size_t n = strlen(o->path) + 1;
    if (!(x->name = f->alloc->get(f->alloc->ctx, n, 16))) return td_fail(err, TD_NOMEM, "out of memory");
    memcpy(x->name, o->path, n);
    if (!td_charge_take(td_account_charge(f->account), o->bytes))
        return td_fail(err, TD_LIMIT, "%s: the budget of host memory has no %llu bytes for it", o->path,
                       (unsigned long long)o->bytes);
    x->bytes = o->bytes;
    x->fd = memfd_create(o->path, MFD_CLOEXEC);
    if (x->fd < 0) return td_fail(err, TD_IO, "%s: %s", o->path, strerror(errno));
    return write_all(x->fd, o, err);
}

td_status_t td_files_create(td_store_t *s, const td_override_t *v, uint32_t n, td_files_t **out, td_err_t *err) {
    const td_alloc_t *a = s->opts.alloc;
    if (n > TD_LIMIT_STORE_OVERRIDES) return td_fail(err, TD_LIMIT, "%u files, at most %u", n,
                                                     TD_LIMIT_STORE_OVERRIDES);
    td_files_t *f = a->get(a->ctx, sizeof *f, 16);
    if (!f) return td_fail(err, TD_NOMEM, "out of memory");
    *f = (td_files_t){.alloc = a, .account = s->file_account, .refs = 1};
    td_status_t st = TD_OK;
    for (uint32_t i = 0; i < n && st == TD_OK; i++) st = add(f, &v[i], err);
    if (st == TD_OK) *out = f;
    else td_files_release(f);
    return st;
}

td_files_t *td_files_retain(td_files_t *f) {
    if (f) atomic_fetch_add(&f->refs, 1);
    return f;
}

void td_files_release(td_files_t *f) {
    if (!f || atomic_fetch_sub(&f->refs, 1) > 1) return;
    while (f->first) {
        td_file_t *x = f->first;
        f->first = x->next;
        if (x->fd >= 0) close(x->fd);
        td_charge_give(td_account_charge(f->account), x->bytes);
        if (x->name) f->alloc->put(f->alloc->ctx, x->name, strlen(x->name) + 1);
        f->alloc->put(f->alloc->ctx, x, sizeof *x);
    }
    f->alloc->put(f->alloc->ctx, f, sizeof *f);
}

/* ---- artifacts ---- */

static bool is_artifact(const char *name) {
    size_t n = strlen(name);
    return n > 4 && n < 200 && name[0] != '.' && !strcmp(name + n - 4, ".aot");
}

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static td_status_t add_name(td_arena_t *a, const char *name, const char **list, uint32_t *n, td_err_t *err) {
    if (*n == TD_LIMIT_STORE_ARTIFACTS) return td_fail(err, TD_LIMIT, "over %d artifacts in one folder",
                                                       TD_LIMIT_STORE_ARTIFACTS);
    list[*n] = td_arena_strndup(a, name, strlen(name));
    return list[*n] ? ((*n)++, TD_OK) : td_arena_fail(a, err);
}

td_status_t td_artifact_names(const char *dir, const char *version, const td_files_t *files, td_arena_t *a,
                              const char ***out, uint32_t *out_n, td_err_t *err) {
    const char **list = TD_NEW_N(a, const char *, TD_LIMIT_STORE_ARTIFACTS);
    uint32_t n = 0;
    td_status_t st = TD_OK;
    if (!list) return td_arena_fail(a, err);
    size_t skip = strlen(version) + 1;
    for (const td_file_t *f = files ? files->first : NULL; f && st == TD_OK; f = f->next)
        if (!strncmp(f->name, version, skip - 1) && f->name[skip - 1] == '/' && is_artifact(f->name + skip))
            st = add_name(a, f->name + skip, list, &n, err);
    DIR *d = files ? NULL : opendir(dir);
    if (!files && !d) return td_fail(err, TD_IO, "%s: %s", dir, strerror(errno));
    for (struct dirent *e; d && st == TD_OK && (e = readdir(d));)
        if (is_artifact(e->d_name)) st = add_name(a, e->d_name, list, &n, err);
    if (d) closedir(d);
    qsort(list, n, sizeof *list, by_name);
    *out = list;
    *out_n = n;
    return st;
}

const char *td_file_path(const char *dir, const char *version, const td_files_t *files, const char *name,
                         td_arena_t *a) {
    if (!files) return td_arena_printf(a, "%s/%s", dir, name);
    size_t n = strlen(version);
    for (const td_file_t *f = files->first; f; f = f->next)
        if (!strncmp(f->name, version, n) && f->name[n] == '/' && !strcmp(f->name + n + 1, name))
            return td_arena_printf(a, "/proc/self/fd/%d", f->fd);
    return td_arena_printf(a, "/dev/null/%s", name); /* is not there */
}
