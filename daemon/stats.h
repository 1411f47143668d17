/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of requests, per model and version, for the metrics. Entries are made by the first request of a model and
 * stay: a counter must not fall. Thread: any, no locks; td_stats_infer allocates only for a model that is new. */
#ifndef TD_DAEMON_STATS_H
#define TD_DAEMON_STATS_H

#include "base/status.h"

#define TD_STATS_CODES 17   /* gRPC's status codes, 0 to 16 */
#define TD_STATS_BUCKETS 17 /* of the two histograms; the last one has no upper bound */
/* Upper bounds in nanoseconds of all but the last. */
extern const uint64_t td_stats_bounds_ns[TD_STATS_BUCKETS - 1];

typedef struct td_stats td_stats_t;

typedef struct td_stats_times {
    _Atomic(uint64_t) buckets[TD_STATS_BUCKETS]; /* not added up */
    _Atomic(uint64_t) sum_ns;
} td_stats_times_t;

/* Why a request that verify_sample chose was not checked (daemon/verifier.h). */
typedef enum td_stats_skip {
    TD_SKIP_BUSY, TD_SKIP_MEMORY, TD_SKIP_STATE, TD_SKIP_RANDOM, TD_SKIP_HOST, TD_SKIP_GONE, TD_SKIP_YIELDED, TD_SKIPS
} td_stats_skip_t;

typedef struct td_stats_entry {
    const char *model, *version; /* "" and "": requests that came to no model */
    _Atomic(uint64_t) requests[TD_STATS_CODES];
    td_stats_times_t queue, run; /* of requests that ran */
    _Atomic(uint64_t) checked, differed, skipped[TD_SKIPS]; /* by verify_sample; differed: of the checked ones */
} td_stats_entry_t;

td_status_t td_stats_create(td_stats_t **out, td_err_t *err);
void td_stats_destroy(td_stats_t *s); /* NULL is fine */

/* One request has been answered. model and version are those of the resident; NULL or "" for a request that came to
 * none: never words of a client, which have no end. code: gRPC's. queue_ns: from the whole request to the start of
 * its run, run_ns: of the run; run_ns 0: it did not run. */
void td_stats_infer(td_stats_t *s, const char *model, const char *version, int code, uint64_t queue_ns,
                    uint64_t run_ns);

/* The entry of a resident, made if need be; for verify_sample's counters. */
td_stats_entry_t *td_stats_entry(td_stats_t *s, const char *model, const char *version);

/* The entries, in no order. NULL behind the last one. */
const td_stats_entry_t *td_stats_next(const td_stats_t *s, uint32_t *at); /* *at begins with 0 */

#endif
