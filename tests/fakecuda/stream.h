/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: each a thread that runs items in the order they were pushed; a *mark* is done when the item it came
 * with is done, and events are marks. With a seed, every item waits before it runs, how long is the stream's
 * humour: some hurry, some dawdle, some do nothing until somebody waits for them, and they change their minds.
 * The lock is held by all callers; items run without it. */
#ifndef FAKECUDA_STREAM_H
#define FAKECUDA_STREAM_H

#include "tests/fakecuda/fake.h"

typedef struct fk_mark {
    unsigned refs;
    bool done;
    uint64_t at_ns;         /* when it was done */
    struct fk_clock *clock; /* races.c: what is behind it */
    struct fk_stream *stream;
} fk_mark_t;

typedef struct fk_item fk_item_t;
struct fk_item {
    fk_item_t *next;
    CUresult (*run)(fk_item_t *it); /* without the lock; an error ends the context. NULL: nothing to do */
    void (*drop)(fk_item_t *it);    /* with the lock, after it has run; frees what the item has of its own, or NULL */
    fk_mark_t *wait, *mark;         /* held; wait: not before that is done; mark: done after this */
    struct fk_use *uses;            /* memory it touches: in flight from the push on; allocated with malloc */
    uint32_t n_uses;
    const char *who;                /* kernel or call; lives on */
};
typedef struct fk_use {
    fk_mem_t *mem;
    uint64_t addr, bytes;
    bool write;
    unsigned arg;
} fk_use_t;

typedef struct fk_stream {
    fk_obj_t base;
    bool blocking; /* waits for the null stream, and it for this */
    bool null;
    bool stop, hurry; /* the thread ends when nothing is left; somebody waits */
    bool thread;
    uint64_t pushed, done;
    fk_item_t *head, **tail;
    uint64_t random, scale_ns;
    bool lazy;
    uint32_t slot;          /* races.c: its place in clocks, from 1; 0: none yet */
    struct fk_clock *clock; /* races.c: items that are ordered before the next one */
    struct fk_capture *capture; /* graph.c; NULL: not capturing */
} fk_stream_t;

fk_stream_t *fk_stream_new(fk_ctx_t *c, unsigned flags, bool null);
void fk_stream_end(fk_stream_t *s);
/* The stream of a handle in the current context (NULL: the null stream), or a fault. */
fk_stream_t *fk_stream_get(CUstream h, CUresult *r);
/* The same for a stream that gets work: after what the null stream's rules demand, and what the host waited for. */
fk_stream_t *fk_stream_for_work(CUstream h, CUresult *r);
/* Takes the item over, which was allocated with calloc. */
void fk_push(fk_stream_t *s, fk_item_t *it);
/* A mark behind all that was pushed; the caller holds a reference. NULL when memory ended. */
fk_mark_t *fk_stream_mark(fk_stream_t *s);
void fk_mark_put(fk_mark_t *m);
void fk_mark_await(fk_mark_t *m); /* gives the lock up meanwhile */
void fk_drain(fk_stream_t *s);
void fk_ctx_drain(fk_ctx_t *c);
uint64_t fk_now(void);
extern unsigned fk_streams_at_once; /* the most that have been at work at one time */

/* races.c: two accesses that touch one byte, one of them a write, need an order by streams, events or syncs. */
typedef struct fk_clock fk_clock_t;
fk_clock_t *fk_clock_copy(const fk_clock_t *c);
void fk_clock_free(fk_clock_t *c);
void fk_clock_join(fk_clock_t **into, const fk_clock_t *c);
/* The next item of the stream touches the range. who: as of an item. */
void fk_access(fk_stream_t *s, const fk_use_t *use, const char *who);
/* The stream has one item more. */
void fk_clock_tick(fk_stream_t *s);
/* The stream ends: another one may count in its place. */
void fk_clock_leave(fk_stream_t *s);
/* The host's thread knows of all that is before the mark. */
void fk_clock_seen(fk_ctx_t *c, const fk_clock_t *clock);
void fk_accesses_free(fk_mem_t *m);
/* Does the host's thread know that everything which used the memory is done? */
bool fk_accesses_seen(const fk_mem_t *m);

#endif
