/* SPDX-License-Identifier: Apache-2.0 */
/* A stream as a worker queue: items run in the order they were pushed, on the queue's own thread.
 *
 * Items lie in a ring of fixed size that is allocated with the queue, a launch's addresses with it, so
 * pushing allocates nothing; while the ring is full, the pusher waits. A *position* is a place between
 * two items, and all there is to an event: recording takes the position behind the last item pushed,
 * waiting holds that position and not the event, so a later record changes nothing for it.
 *
 * Whoever waits for a position lends a hand: if the worker has not begun with the next item, the waiter
 * runs it itself. And a sleeping worker is woken only when the owner turns to another stream; should he wait
 * for this one next, there is nothing to overlap with, and no change of threads is paid for. One thread at
 * a time runs a queue's items, whichever it is. No cycle of waits arises: an item waits only for what was
 * pushed before it.
 *
 * The first failure of a queue is kept; what follows it is skipped, and a queue that waits for a position
 * behind the failure fails with the same words. td_queue_sync reports it and makes the queue usable again.
 *
 * Thread: push, record and sync belong to one thread at a time, the owner, who syncs before he hands the
 * queue on. A queue outlives every item, of any queue, that waits for one of its positions: sync all before
 * the first is destroyed. */
#ifndef TD_RUNTIME_HOST_QUEUE_H
#define TD_RUNTIME_HOST_QUEUE_H

#include "runtime/host/plan.h"

typedef struct td_queue td_queue_t;
typedef struct td_position {
    td_queue_t *queue; /* NULL: passed already */
    uint64_t items;    /* that were pushed before it */
} td_position_t;

typedef struct td_item {
    enum { TD_ITEM_COPY, TD_ITEM_FILL, TD_ITEM_LAUNCH, TD_ITEM_WAIT, TD_ITEM_STAMP } kind;
    uint32_t value; /* FILL */
    union {
        struct { void *dst; const void *src; uint64_t bytes; } move; /* COPY, FILL */
        struct { const td_kernel_t *kernel; void *scratch; } launch; /* the bufs follow in the ring */
        td_position_t wait;
        uint64_t *stamp; /* receives the time, in nanoseconds of the system's clock */
    } u;
} td_item_t;

/* Delays for tests: with a seed other than 0 each item waits up to TD_QUEUE_DELAY_NS before it runs, and
 * waiters lend no hand. */
#define TD_QUEUE_DELAY_NS 200000u
td_status_t td_queue_create(const td_alloc_t *alloc, uint64_t delay_seed, td_queue_t **out, td_err_t *err);
void td_queue_destroy(td_queue_t *q); /* runs what is left; NULL is fine */
uint64_t td_queue_bytes(void);        /* memory of one queue, its thread's stack aside */

/* bufs: n addresses, copied. Fails when they are more than a ring has room for. */
td_status_t td_queue_push(td_queue_t *q, const td_item_t *item, void *const *bufs, uint32_t n, td_err_t *err);
/* The calling thread is about to work on something else than q (NULL: than any queue): its items get going. */
void td_queue_turn(const td_queue_t *q);
td_position_t td_queue_record(const td_queue_t *q);
/* Blocks the calling thread; fails as the queue did before the position. */
td_status_t td_position_wait(td_position_t p, td_err_t *err);
td_status_t td_queue_sync(td_queue_t *q, td_err_t *err);
/* Does an item run now, and which kernel (NULL: it is none)? Thread: any. */
bool td_queue_running(td_queue_t *q, const td_kernel_t **out);

/* One item in the calling thread. */
td_status_t td_item_run(const td_item_t *item, void *const *bufs, td_err_t *err);

#endif
