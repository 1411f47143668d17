/* SPDX-License-Identifier: Apache-2.0 */
/* --ffi: the user's handler libraries of run and check. */
#include <argp.h>

#include "ctl/ctl.h"

void ctl_ffi_option(ctl_ffi_t *f, const char *arg, struct argp_state *state) {
    if (f->n == CTL_FILES_MAX) argp_error(state, "more than %d handler libraries", CTL_FILES_MAX);
    f->libraries[f->n++] = arg;
}

td_status_t ctl_ffi_open(ctl_ffi_t *f, td_err_t *err) {
    td_status_t s = f->n ? td_ffi_registry_create(td_alloc_default(), &f->registry, err) : TD_OK;
    for (uint32_t i = 0; s == TD_OK && i < f->n; i++) s = td_ffi_registry_load_text(f->registry, f->libraries[i], err);
    return s;
}

void ctl_ffi_close(ctl_ffi_t *f) {
    td_ffi_registry_destroy(f->registry);
    f->registry = NULL;
}
