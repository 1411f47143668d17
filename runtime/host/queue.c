/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/host/queue.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/limits.h"

/* In words of 8 bytes. Twice the largest item, so that one fits behind any padding. */
enum { ITEM_WORDS = sizeof(td_item_t) / 8, ENTRY_WORDS = ITEM_WORDS + 1, RING_WORDS = 16384 };
_Static_assert(sizeof(td_item_t) % 8 == 0, "items are made of words");
_Static_assert(RING_WORDS >= 2 * (ENTRY_WORDS + TD_LIMIT_KERNEL_ARGS), "the longest launch fits");

typedef struct entry { /* in the ring; n_bufs addresses follow */
    uint32_t words;
    uint32_t n_bufs; /* PAD: nothing until the ring begins again, not even an item */
    td_item_t item;
} entry_t;
#define PAD UINT32_MAX
_Static_assert(sizeof(entry_t) == ENTRY_WORDS * 8, "no padding");

struct td_queue {
    const td_alloc_t *alloc;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work;     /* for the worker: an item, or the end */
    pthread_cond_t progress; /* for all others: an item is done */
    uint64_t head, tail;     /* words taken and put, since ever */
    uint64_t pushed, done;   /* items, since ever; pushed is the owner's */
    uint32_t waiting;        /* threads that wait for progress */
    bool busy, idle, stop;   /* an item runs; the worker sleeps; the queue ends */
    uint64_t failed_at;      /* number of the item that failed, 1-based; 0: none */
    td_err_t error;
    bool delayed;            /* fixed at creation: the worker alone runs items, each after a delay */
    uint64_t random;         /* the worker's */
    uint64_t ring[RING_WORDS];
};

/* The queue whose worker this thread has not woken yet. */
static _Thread_local td_queue_t *held;

td_status_t td_item_run(const td_item_t *item, void *const *bufs, td_err_t *err) {
    uint64_t n = item->u.move.bytes;
    switch (item->kind) {
    case TD_ITEM_COPY:
        if (n && item->u.move.dst != item->u.move.src) memmove(item->u.move.dst, item->u.move.src, n);
        return TD_OK;
    case TD_ITEM_FILL: {
        uint32_t *d = item->u.move.dst;
        for (uint64_t i = 0; i < n / 4; i++) d[i] = item->value;
        if (n % 4) memcpy(d + n / 4, &item->value, n % 4);
        return TD_OK;
    }
    case TD_ITEM_LAUNCH: return item->u.launch.kernel->run(item->u.launch.kernel, bufs, item->u.launch.scratch, err);
    case TD_ITEM_WAIT: return td_position_wait(item->u.wait, err);
    case TD_ITEM_STAMP: *item->u.stamp = td_now_ns(td_clock_system()); return TD_OK;
    }
    return TD_OK;
}

static void delay(td_queue_t *q) {
    q->random ^= q->random << 13, q->random ^= q->random >> 7, q->random ^= q->random << 17;
    struct timespec t = {0, (long)((q->random >> 20) % TD_QUEUE_DELAY_NS)};
    nanosleep(&t, NULL);
}

/* Runs the next item. The lock is held before and after, not meanwhile; the entry stays in the ring until
 * it is done. */
static void step(td_queue_t *q) {
    entry_t *e = (entry_t *)(void *)&q->ring[q->head % RING_WORDS];
    if (e->n_bufs == PAD) {
        q->head += e->words;
        e = (entry_t *)(void *)&q->ring[q->head % RING_WORDS];
    }
    td_err_t err = {0};
    td_status_t st = TD_OK;
    bool skip = q->failed_at;
    q->busy = true;
    pthread_mutex_unlock(&q->lock);
    if (q->delayed && e->item.kind != TD_ITEM_STAMP) delay(q);
    if (!skip) st = td_item_run(&e->item, (void **)(void *)(e + 1), &err);
    pthread_mutex_lock(&q->lock);
    q->busy = false;
    q->head += e->words;
    q->done++;
    if (st) {
        q->failed_at = q->done;
        if (!err.code) td_fail(&err, st, "no cause given");
        q->error = err;
    }
    if (q->waiting) pthread_cond_broadcast(&q->progress);
}

static void *work(void *arg) {
    td_queue_t *q = arg;
    pthread_mutex_lock(&q->lock);
    while (!q->stop || q->done < q->pushed) {
        if (q->done < q->pushed && !q->busy) {
            step(q);
            continue;
        }
        q->idle = true;
        pthread_cond_wait(&q->work, &q->lock);
        q->idle = false;
    }
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

/* With the lock held: one step nearer to whatever the caller waits for. */
static void progress(td_queue_t *q) {
    if (!q->delayed && !q->busy && q->done < q->pushed) {
        step(q);
        return;
    }
    q->waiting++;
    pthread_cond_wait(&q->progress, &q->lock);
    q->waiting--;
}

/* A waiter that ran items leaves the rest to the worker, which may have gone to sleep meanwhile. */
static void leave(td_queue_t *q) {
    bool wake = q->idle && !q->busy && q->done < q->pushed;
    pthread_mutex_unlock(&q->lock);
    if (wake) pthread_cond_signal(&q->work);
}

void td_queue_turn(const td_queue_t *to) {
    td_queue_t *q = held;
    if (!q || q == to) return;
    held = NULL;
    pthread_mutex_lock(&q->lock);
    leave(q);
}

td_status_t td_queue_push(td_queue_t *q, const td_item_t *item, void *const *bufs, uint32_t n, td_err_t *err) {
    if (n > TD_LIMIT_KERNEL_ARGS)
        return td_fail(err, TD_LIMIT, "%u arguments over the limit of %u", n, TD_LIMIT_KERNEL_ARGS);
    uint32_t words = ENTRY_WORDS + n, at = (uint32_t)(q->tail % RING_WORDS);
    uint32_t pad = at + words > RING_WORDS ? RING_WORDS - at : 0;
    td_queue_turn(q);
    pthread_mutex_lock(&q->lock);
    while (RING_WORDS - (q->tail - q->head) < pad + words) progress(q);
    if (pad) {
        memcpy(&q->ring[at], (uint32_t[]){pad, PAD}, 8);
        q->tail += pad;
        at = 0;
    }
    entry_t *e = (entry_t *)(void *)&q->ring[at];
    *e = (entry_t){words, n, *item};
    if (n) memcpy(e + 1, bufs, n * sizeof *bufs);
    q->tail += words;
    q->pushed++;
    if (q->delayed) {
        leave(q);
        return TD_OK;
    }
    pthread_mutex_unlock(&q->lock);
    held = q;
    return TD_OK;
}

td_position_t td_queue_record(const td_queue_t *q) { return (td_position_t){(td_queue_t *)(uintptr_t)q, q->pushed}; }

td_status_t td_position_wait(td_position_t p, td_err_t *err) {
    td_queue_t *q = p.queue;
    td_status_t st = TD_OK;
    if (!q) return TD_OK;
    td_queue_turn(q);
    pthread_mutex_lock(&q->lock);
    while (q->done < p.items) progress(q);
    if (q->failed_at && q->failed_at <= p.items) {
        st = q->error.code;
        if (err) *err = q->error;
    }
    leave(q);
    return st;
}

td_status_t td_queue_sync(td_queue_t *q, td_err_t *err) {
    td_status_t st = td_position_wait(td_queue_record(q), err);
    if (held == q) held = NULL;
    if (!st) return TD_OK;
    pthread_mutex_lock(&q->lock);
    q->failed_at = 0;
    pthread_mutex_unlock(&q->lock);
    return st;
}

bool td_queue_running(td_queue_t *q, const td_kernel_t **out) {
    *out = NULL;
    pthread_mutex_lock(&q->lock);
    bool busy = q->busy;
    if (busy) { /* the entry of a running item is the ring's first, and no padding any more */
        const entry_t *e = (const entry_t *)(void *)&q->ring[q->head % RING_WORDS];
        if (e->item.kind == TD_ITEM_LAUNCH) *out = e->item.u.launch.kernel;
    }
    pthread_mutex_unlock(&q->lock);
    return busy;
}

/* Signals belong to the threads of the program, so the worker is born with all of them blocked. */
static int start(td_queue_t *q) {
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&q->thread, NULL, work, q);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!rc) pthread_setname_np(q->thread, "td-stream");
    return rc;
}

td_status_t td_queue_create(const td_alloc_t *alloc, uint64_t delay_seed, td_queue_t **out, td_err_t *err) {
    td_queue_t *q = alloc->get(alloc->ctx, sizeof *q, 64);
    if (!q) return td_fail(err, TD_NOMEM, "no %zu bytes for a stream's queue", sizeof *q);
    memset(q, 0, offsetof(td_queue_t, ring));
    q->alloc = alloc;
    q->delayed = delay_seed != 0;
    q->random = delay_seed;
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->work, NULL);
    pthread_cond_init(&q->progress, NULL);
    int rc = start(q);
    if (!rc) {
        *out = q;
        return TD_OK;
    }
    alloc->put(alloc->ctx, q, sizeof *q);
    return td_fail(err, TD_NOMEM, "no thread for a stream: %s", strerror(rc));
}

void td_queue_destroy(td_queue_t *q) {
    if (!q) return;
    if (held == q) held = NULL;
    pthread_mutex_lock(&q->lock);
    q->stop = true;
    pthread_mutex_unlock(&q->lock);
    pthread_cond_signal(&q->work);
    pthread_join(q->thread, NULL);
    pthread_cond_destroy(&q->progress);
    pthread_cond_destroy(&q->work);
    pthread_mutex_destroy(&q->lock);
    q->alloc->put(q->alloc->ctx, q, sizeof *q);
}

uint64_t td_queue_bytes(void) { return sizeof(td_queue_t); }
