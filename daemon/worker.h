/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that run jobs from a bounded queue and hand them back to the loop.
 * Thread: the loop's, except td_job_t.run. */
#ifndef TD_DAEMON_WORKER_H
#define TD_DAEMON_WORKER_H

#include "daemon/inbox.h"

typedef struct td_job td_job_t;
struct td_job {
    td_note_t done;            /* posted after run; first */
    void (*run)(td_job_t *j);  /* on a worker thread */
    td_job_t *next;            /* the queue's */
};

typedef struct td_worker td_worker_t;

/* depth: jobs that may wait, beyond the one each thread runs. The inbox must outlive it. */
td_status_t td_worker_create(td_inbox_t *inbox, uint32_t threads, uint32_t depth, td_worker_t **out, td_err_t *err);
/* TD_BUSY when the queue is full; then the job stays the caller's. others: jobs that wait elsewhere and count too. */
td_status_t td_worker_submit(td_worker_t *w, td_job_t *j, uint32_t others, td_err_t *err);
/* A job that has waited elsewhere, and been counted; it has its place. */
void td_worker_resubmit(td_worker_t *w, td_job_t *j);
/* Runs what waits, and joins. NULL is fine. */
void td_worker_stop(td_worker_t *w);
void td_worker_free(td_worker_t *w); /* after td_worker_stop; NULL is fine */

#endif
