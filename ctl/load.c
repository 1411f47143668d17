/* SPDX-License-Identifier: Apache-2.0 */
/* What the verbs share: errors, artifacts, tensor files. */
#include <stdio.h>

#include "ctl/ctl.h"

int ctl_exit_code(td_status_t s) {
    switch (s) {
    case TD_OK: return 0;
    case TD_IO:
    case TD_USAGE: return 2;
    default: return 1;
    }
}

int ctl_report(const td_err_t *err) {
    fflush(stdout);
    fprintf(stderr, "thunkctl: %s\n", err->text);
    return ctl_exit_code(err->code);
}

td_status_t ctl_load_open(ctl_load_t *l, const char *path, td_err_t *err) {
    const td_alloc_t *alloc = td_alloc_default();
    td_status_t s = td_payload_table_create(alloc, &l->table, err);
    if (s != TD_OK) return s;
    s = td_artifact_open_file(path, l->table, alloc, &l->artifact, err);
    if (s == TD_NOTFOUND) s = err->code = TD_IO; /* a file we cannot read, as any other */
    if (s != TD_OK) return s;
    s = td_module_open(l->artifact, alloc, &l->module, err);
    return s == TD_OK ? TD_OK : td_prefix(err, s, "%s", path);
}

void ctl_load_close(ctl_load_t *l) {
    td_module_close(l->module);
    td_artifact_close(l->artifact);
    td_payload_table_destroy(l->table);
    *l = (ctl_load_t){0};
}

td_status_t ctl_tensors_add(ctl_tensors_t *t, const char *path, td_err_t *err) {
    if (t->n == CTL_FILES_MAX) return td_fail(err, TD_USAGE, "more than %d input files", CTL_FILES_MAX);
    td_status_t s = td_st_open_file(path, td_alloc_default(), &t->files[t->n], err);
    if (s == TD_OK) t->n++;
    return s;
}

const td_st_tensor_t *ctl_tensors_find(const ctl_tensors_t *t, const char *name) {
    for (uint32_t i = 0; i < t->n; i++) {
        const td_st_tensor_t *x = td_st_find(t->files[i], name);
        if (x) return x;
    }
    return NULL;
}

void ctl_tensors_close(ctl_tensors_t *t) {
    for (uint32_t i = 0; i < t->n; i++) td_st_close(t->files[i]);
    t->n = 0;
}
