/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's numbers in Prometheus' text format (0.0.4). docs/metrics.md describes each; a test compares the two.
 * Pure functions. */
#ifndef TD_DAEMON_METRICS_H
#define TD_DAEMON_METRICS_H

#include "daemon/process.h"
#include "daemon/stats.h"
#include "proto/pb.h"
#include "store/store.h"

#define TD_METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

typedef struct td_metrics {
    const char *version;
    int64_t started_s;
    bool ready;
    uint64_t slow_runs;
    const td_model_row_t *models;
    uint32_t n_models, n_domains, n_accounts;
    td_store_stats_t store;
    td_budget_totals_t domains[TD_BUDGET_DOMAINS];
    const td_budget_row_t *accounts;
    td_process_t process;
    const td_stats_t *requests;
} td_metrics_t;

void td_metrics_write(const td_metrics_t *m, td_pb_t *out);

/* "host", "device0"… Returns out. */
const char *td_domain_name(uint32_t domain, char out[24]);

#endif
