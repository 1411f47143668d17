/* SPDX-License-Identifier: Apache-2.0 */
/* What thunkctl run says about times. Thread: one. */
#ifndef TD_CTL_TIMES_H
#define TD_CTL_TIMES_H

#include "ctl/ctl.h"

typedef struct ctl_times {
    const char *name; /* of the program */
    const double *ms, *cpu_ms; /* each run, in order: elapsed, and of all the process's threads */
    uint32_t n;                /* at least 1 */
    const td_profile_row_t *rows; /* NULL: no profile */
    uint32_t n_rows;
    const td_graph_stats_t *graphs; /* NULL: the device has none */
} ctl_times_t;

/* Minimum and median, then the slowest thunks. */
td_status_t ctl_times_print(const ctl_times_t *t, td_err_t *err);
/* The same as one JSON object with name, runs, min_ms, median_ms, times_ms, cpu_ms, graphs and profile: all
 * thunks that ran, slowest first. */
td_status_t ctl_times_json(const ctl_times_t *t, td_err_t *err);

#endif
