/* SPDX-License-Identifier: Apache-2.0 */
/* verify_sample: some requests are checked in the background. What such a request was given and what was answered is
 * kept, within the budget as a request; a thread of its own, at the lowest priority, runs the same program on the host
 * device and compares. One at a time; what comes meanwhile is skipped, and counted. Nothing that serves waits for it.
 * A difference is told in the log, once an hour for each version of a model. */
#ifndef TD_DAEMON_VERIFIER_H
#define TD_DAEMON_VERIFIER_H

#include "daemon/memory.h"
#include "daemon/stats.h"
#include "store/store.h"

typedef struct td_verifier td_verifier_t;

typedef struct td_verifier_opts { /* all of it outlives the verifier */
    td_store_t *store;
    td_memory_t *memory;
    td_stats_t *stats;
    td_device_t *device; /* the one that serves; checks run on it where it is the host, else on one of their own */
    const char *device_spec; /* as configured, for messages */
    double share;            /* of the requests, over 0 to 1 */
} td_verifier_opts_t;

/* Thread: the loop's. Errors: the host device cannot be opened. */
td_status_t td_verifier_create(const td_verifier_opts_t *o, td_verifier_t **out, td_err_t *err);
/* Ends what is being checked; nobody offers any more. Before the store closes. NULL is fine. */
void td_verifier_destroy(td_verifier_t *v);

/* A request has run on a slot that is still held. Thread: any. */
void td_verifier_offer(td_verifier_t *v, const td_resident_t *r, const td_run_tensor_t *inputs,
                       const td_run_slot_t *slot);

#endif
