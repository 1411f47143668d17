/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/worker.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct td_worker {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    td_job_t *head, *tail; /* by lock */
    uint32_t n_waiting, n_idle, depth;
    bool stop;
    td_inbox_t *inbox;
    uint32_t n_threads;
    pthread_t threads[];
};

static void push(td_worker_t *w, td_job_t *j) {
    j->next = NULL;
    if (w->tail) w->tail->next = j;
    else w->head = j;
    w->tail = j;
    w->n_waiting++;
}

static td_job_t *pop(td_worker_t *w) {
    td_job_t *j = w->head;
    if (!j) return NULL;
    w->head = j->next;
    if (!w->head) w->tail = NULL;
    j->next = NULL;
    w->n_waiting--;
    return j;
}

static void *thread_main(void *arg) {
    td_worker_t *w = arg;
    pthread_mutex_lock(&w->lock);
    for (;;) {
        td_job_t *j;
        w->n_idle++;
        while (!(j = pop(w)) && !w->stop) pthread_cond_wait(&w->wake, &w->lock);
        w->n_idle--;
        if (!j) break;
        pthread_mutex_unlock(&w->lock);
        j->run(j);
        td_inbox_post(w->inbox, &j->done);
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* Signals belong to the loop's thread. */
static int start_thread(td_worker_t *w) {
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int e = pthread_create(&w->threads[w->n_threads], NULL, thread_main, w);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!e) w->n_threads++;
    return e;
}

td_status_t td_worker_create(td_inbox_t *inbox, uint32_t threads, uint32_t depth, td_worker_t **out, td_err_t *err) {
    td_worker_t *w = calloc(1, sizeof *w + threads * sizeof *w->threads);
    *out = NULL;
    if (!w) return td_fail(err, TD_NOMEM, "out of memory");
    w->depth = depth;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->wake, NULL);
    w->inbox = inbox;
    *out = w;
    int e;
    for (uint32_t i = 0; i < threads; i++)
        if ((e = start_thread(w))) return td_fail(err, TD_NOMEM, "thread %u: %s", i, strerror(e));
    return TD_OK;
}

td_status_t td_worker_submit(td_worker_t *w, td_job_t *j, uint32_t others, td_err_t *err) {
    pthread_mutex_lock(&w->lock);
    bool full = w->stop || (uint64_t)w->n_waiting + others >= (uint64_t)w->depth + w->n_idle;
    if (!full) {
        push(w, j);
        pthread_cond_signal(&w->wake);
    }
    pthread_mutex_unlock(&w->lock);
    return full ? td_fail(err, TD_BUSY, "the queue is full: %u requests wait", w->depth) : TD_OK;
}

void td_worker_resubmit(td_worker_t *w, td_job_t *j) {
    pthread_mutex_lock(&w->lock);
    push(w, j);
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
}

void td_worker_stop(td_worker_t *w) {
    if (!w) return;
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_broadcast(&w->wake);
    pthread_mutex_unlock(&w->lock);
    for (uint32_t i = 0; i < w->n_threads; i++) pthread_join(w->threads[i], NULL);
    w->n_threads = 0;
}

void td_worker_free(td_worker_t *w) {
    if (!w) return;
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->wake);
    free(w);
}
