/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/check_store.h"

#include <errno.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

td_status_t ctl_paths_add(ctl_paths_t *p, const char *path, td_err_t *err) {
    if (p->n == p->cap) {
        uint32_t cap = p->cap ? 2 * p->cap : 16;
        char **v = cap < p->cap ? NULL : reallocarray(p->v, cap, sizeof *v);
        if (!v) return td_fail(err, TD_NOMEM, "out of memory");
        p->v = v;
        p->cap = cap;
    }
    if (!(p->v[p->n] = strdup(path))) return td_fail(err, TD_NOMEM, "out of memory");
    p->n++;
    return TD_OK;
}

static int by_name(const FTSENT **a, const FTSENT **b) { return strcmp((*a)->fts_name, (*b)->fts_name); }

static bool is_artifact(const FTSENT *e) {
    size_t n = strlen(e->fts_name);
    return e->fts_info == FTS_F && n > 4 && !strcmp(e->fts_name + n - 4, ".aot");
}

td_status_t ctl_paths_add_store(ctl_paths_t *p, const char *dir, td_err_t *err) {
    char *roots[2] = {strdup(dir), NULL};
    FTS *f = roots[0] ? fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, by_name) : NULL;
    td_status_t s = f ? TD_OK : td_fail(err, TD_IO, "%s: %s", dir, strerror(errno));
    for (FTSENT *e; s == TD_OK && (e = fts_read(f));) {
        if (e->fts_info == FTS_DNR || e->fts_info == FTS_ERR || e->fts_info == FTS_NS)
            s = td_fail(err, TD_IO, "%s: %s", e->fts_path, strerror(e->fts_errno));
        else if (e->fts_level == 0 && e->fts_info != FTS_D && e->fts_info != FTS_DP)
            s = td_fail(err, TD_IO, "%s: not a folder", dir);
        else if (is_artifact(e)) s = ctl_paths_add(p, e->fts_path, err);
    }
    if (f) fts_close(f);
    free(roots[0]);
    return s;
}

void ctl_paths_free(ctl_paths_t *p) {
    for (uint32_t i = 0; i < p->n; i++) free(p->v[i]);
    free(p->v);
    *p = (ctl_paths_t){0};
}

const char *ctl_source_beside(const char *path, char *out, size_t size) {
    const char *slash = strrchr(path, '/');
    int dir = slash ? (int)(slash - path) + 1 : 0;
    int n = snprintf(out, size, "%.*ssource.stablehlo", dir, path);
    return n > 0 && (size_t)n < size && access(out, R_OK) == 0 ? out : NULL;
}

void ctl_progress(uint32_t done, uint32_t all) {
    enum { WIDTH = 40 };
    static const char full[] = "########################################",
                      none[] = "                                        ";
    int n = all ? (int)((uint64_t)done * WIDTH / all) : WIDTH;
    if (done == all) fputs("\r\033[K", stderr);
    else fprintf(stderr, "\r\033[K[%.*s%.*s] %u of %u", n, full, WIDTH - n, none, done, all);
    fflush(stderr);
}
