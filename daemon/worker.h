/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that run jobs from a bounded queue and hand them back to the loop.
 * Thread: the loop's, except td_job_t.run. */
#ifndef TD_DAEMON_WORKER_H
#define TD_DAEMON_WORKER_H

#include <uv.h>

#include "base/status.h"

typedef struct td_job td_job_t;
struct td_job {
    void (*run)(td_job_t *j);  /* on a worker thread */
    void (*done)(td_job_t *j); /* on the loop's thread, after run; may free the job */
    td_job_t *next;            /* the queue's */
};

typedef struct td_worker td_worker_t;

/* depth: jobs that may wait, beyond the one each thread runs. */
td_status_t td_worker_create(uv_loop_t *loop, uint32_t threads, uint32_t depth, td_worker_t **out, td_err_t *err);
/* TD_BUSY when the queue is full; then the job stays the caller's. */
td_status_t td_worker_submit(td_worker_t *w, td_job_t *j, td_err_t *err);
/* Runs what waits, joins, calls every outstanding done. The loop must run once more to close the handle. */
void td_worker_stop(td_worker_t *w);
/* After the loop has ended. NULL is fine. */
void td_worker_free(td_worker_t *w);

#endif
