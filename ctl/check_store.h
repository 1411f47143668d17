/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of artifacts: given, or found in a folder of models. Thread: one. */
#ifndef TD_CTL_CHECK_STORE_H
#define TD_CTL_CHECK_STORE_H

#include "base/status.h"

/* Zero it first; owns its strings. */
typedef struct ctl_paths {
    char **v;
    uint32_t n, cap;
} ctl_paths_t;
td_status_t ctl_paths_add(ctl_paths_t *p, const char *path, td_err_t *err);
/* Every *.aot below the folder, by name. Links are not followed. */
td_status_t ctl_paths_add_store(ctl_paths_t *p, const char *dir, td_err_t *err);
void ctl_paths_free(ctl_paths_t *p);

/* What the artifact was compiled from (source.stablehlo), when it lies in the same folder; else NULL. */
const char *ctl_source_beside(const char *path, char *out, size_t size);
/* A bar on stderr: done of all. Erased when all are. */
void ctl_progress(uint32_t done, uint32_t all);

#endif
