/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/worker.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

typedef struct fifo {
    td_job_t *head, *tail;
} fifo_t;

struct td_worker {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    fifo_t waiting, finished; /* by lock */
    uint32_t n_waiting, n_idle, depth;
    bool stop;
    uv_async_t async;
    uint32_t n_threads;
    pthread_t threads[];
};

static void push(fifo_t *f, td_job_t *j) {
    j->next = NULL;
    if (f->tail) f->tail->next = j;
    else f->head = j;
    f->tail = j;
}

static td_job_t *pop(fifo_t *f) {
    td_job_t *j = f->head;
    if (!j) return NULL;
    f->head = j->next;
    if (!f->head) f->tail = NULL;
    j->next = NULL;
    return j;
}

static void *thread_main(void *arg) {
    td_worker_t *w = arg;
    pthread_mutex_lock(&w->lock);
    for (;;) {
        td_job_t *j;
        w->n_idle++;
        while (!(j = pop(&w->waiting)) && !w->stop) pthread_cond_wait(&w->wake, &w->lock);
        w->n_idle--;
        if (!j) break;
        w->n_waiting--;
        pthread_mutex_unlock(&w->lock);
        j->run(j);
        pthread_mutex_lock(&w->lock);
        push(&w->finished, j);
        uv_async_send(&w->async);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static void finish_all(td_worker_t *w) {
    pthread_mutex_lock(&w->lock);
    fifo_t f = w->finished;
    w->finished = (fifo_t){0};
    pthread_mutex_unlock(&w->lock);
    for (td_job_t *j; (j = pop(&f));) j->done(j);
}

static void on_async(uv_async_t *a) {
    finish_all(a->data);
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

td_status_t td_worker_create(uv_loop_t *loop, uint32_t threads, uint32_t depth, td_worker_t **out, td_err_t *err) {
    td_worker_t *w = calloc(1, sizeof *w + threads * sizeof *w->threads);
    *out = NULL;
    if (!w) return td_fail(err, TD_NOMEM, "out of memory");
    w->depth = depth;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->wake, NULL);
    int e = uv_async_init(loop, &w->async, on_async);
    if (e) {
        td_worker_free(w);
        return td_fail(err, TD_INTERNAL, "async handle: %s", uv_strerror(e));
    }
    w->async.data = w;
    *out = w;
    for (uint32_t i = 0; i < threads; i++)
        if ((e = start_thread(w))) return td_fail(err, TD_NOMEM, "thread %u: %s", i, strerror(e));
    return TD_OK;
}

td_status_t td_worker_submit(td_worker_t *w, td_job_t *j, td_err_t *err) {
    pthread_mutex_lock(&w->lock);
    bool full = w->stop || w->n_waiting >= (uint64_t)w->depth + w->n_idle;
    if (!full) {
        push(&w->waiting, j);
        w->n_waiting++;
        pthread_cond_signal(&w->wake);
    }
    pthread_mutex_unlock(&w->lock);
    return full ? td_fail(err, TD_BUSY, "the queue is full: %u requests wait", w->depth) : TD_OK;
}

void td_worker_stop(td_worker_t *w) {
    if (!w) return;
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_broadcast(&w->wake);
    pthread_mutex_unlock(&w->lock);
    for (uint32_t i = 0; i < w->n_threads; i++) pthread_join(w->threads[i], NULL);
    w->n_threads = 0;
    finish_all(w);
    uv_close((uv_handle_t *)&w->async, NULL);
}

void td_worker_free(td_worker_t *w) {
    if (!w) return;
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->wake);
    free(w);
}
