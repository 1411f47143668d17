/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fakecuda/stream.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>

enum { LAZY_NS = 3000000 };

uint64_t fk_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- marks ---- */
void fk_mark_put(fk_mark_t *m) {
    if (!m || --m->refs) return;
    fk_clock_free(m->clock);
    free(m);
}
static fk_mark_t *mark_ref(fk_mark_t *m) {
    if (m) m->refs++;
    return m;
}
fk_mark_t *fk_stream_mark(fk_stream_t *s) {
    fk_item_t *last = s->done < s->pushed ? (fk_item_t *)((char *)s->tail - offsetof(fk_item_t, next)) : NULL;
    if (last && last->mark) return mark_ref(last->mark);
    fk_mark_t *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    *m = (fk_mark_t){.refs = 1, .done = !last, .at_ns = fk_now(), .clock = fk_clock_copy(s->clock), .stream = s};
    if (last) last->mark = mark_ref(m);
    return m;
}
static void hurry(fk_stream_t *s) {
    if (s->hurry) return;
    s->hurry = true;
    pthread_cond_broadcast(&fk_change);
}
void fk_mark_await(fk_mark_t *m) {
    while (!m->done) {
        hurry(m->stream);
        pthread_cond_wait(&fk_change, &fk_lock);
    }
}

/* ---- items ---- */
static void finish(fk_stream_t *s, fk_item_t *it, CUresult r) {
    if (r) fk_poison(s->base.ctx, r);
    for (uint32_t i = 0; i < it->n_uses; i++) {
        it->uses[i].mem->in_flight--;
        fk_mem_unuse(it->uses[i].mem);
    }
    if (it->drop) it->drop(it);
    if (it->mark) {
        it->mark->done = true;
        it->mark->at_ns = fk_now();
    }
    fk_mark_put(it->mark);
    fk_mark_put(it->wait);
    free(it->uses);
    free(it);
}

static uint64_t next_random(fk_stream_t *s) {
    s->random ^= s->random << 13, s->random ^= s->random >> 7, s->random ^= s->random << 17;
    return s->random >> 11;
}
static void rest(uint64_t ns) { /* the lock is given up meanwhile */
    struct timespec t = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    if (!ns) return;
    pthread_mutex_unlock(&fk_lock);
    nanosleep(&t, NULL);
    pthread_mutex_lock(&fk_lock);
}
/* The lock is held, and given up while the stream dawdles. */
static void dawdle(fk_stream_t *s) {
    if (!fk_config.seed) return;
    if (next_random(s) % 8 == 0) {
        static const uint64_t scales[] = {0, 20000, 100000, 400000};
        s->scale_ns = scales[next_random(s) % 4];
        s->lazy = next_random(s) % 4 == 0;
    }
    if (s->lazy) {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        t.tv_nsec += LAZY_NS;
        if (t.tv_nsec >= 1000000000) t.tv_sec++, t.tv_nsec -= 1000000000;
        while (!s->hurry)
            if (pthread_cond_timedwait(&fk_change, &fk_lock, &t)) break;
    }
    if (s->scale_ns) rest(next_random(s) % s->scale_ns);
}

static unsigned busy;
unsigned fk_streams_at_once;

static void step(fk_stream_t *s) {
    fk_item_t *it = s->head;
    if (it->wait && !it->wait->done) {
        if (s->hurry) hurry(it->wait->stream);
        pthread_cond_wait(&fk_change, &fk_lock);
        return;
    }
    CUresult r = CUDA_SUCCESS;
    dawdle(s);
    if (it->run && !s->base.ctx->sticky) {
        if (++busy > fk_streams_at_once) fk_streams_at_once = busy;
        rest(fk_config.slow_us * 1000);
        pthread_mutex_unlock(&fk_lock);
        r = it->run(it);
        pthread_mutex_lock(&fk_lock);
        busy--;
    }
    s->head = it->next;
    s->done++;
    if (!s->head) s->tail = &s->head, s->hurry = false;
    finish(s, it, r);
    pthread_cond_broadcast(&fk_change);
}

static void *work(void *arg) {
    fk_stream_t *s = arg;
    pthread_mutex_lock(&fk_lock);
    while (s->head || !s->stop)
        if (s->head) step(s);
        else pthread_cond_wait(&fk_change, &fk_lock);
    s->base.ctx->threads--;
    pthread_cond_broadcast(&fk_change);
    pthread_mutex_unlock(&fk_lock);
    return NULL;
}

/* Signals belong to the threads of the program. The thread is made when the first item comes. */
static bool start(fk_stream_t *s) {
    sigset_t all, old;
    pthread_t t;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    s->thread = !pthread_create(&t, NULL, work, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!s->thread) return false;
    pthread_setname_np(t, "fake-stream");
    pthread_detach(t);
    s->base.ctx->threads++;
    return true;
}

void fk_push(fk_stream_t *s, fk_item_t *it) {
    for (uint32_t i = 0; i < it->n_uses; i++) {
        it->uses[i].mem->in_flight++;
        fk_access(s, &it->uses[i], it->who);
    }
    fk_clock_tick(s);
    if (fk_config.run_inline || (!s->thread && !start(s))) { /* all that it may wait for is done */
        CUresult r = it->run && !s->base.ctx->sticky ? it->run(it) : CUDA_SUCCESS;
        finish(s, it, r);
        return;
    }
    it->next = NULL;
    *s->tail = it;
    s->tail = &it->next;
    s->pushed++;
    pthread_cond_broadcast(&fk_change);
}

static void order_after(fk_stream_t *s, fk_stream_t *before) {
    fk_mark_t *m = fk_stream_mark(before);
    fk_item_t *it = calloc(1, sizeof *it);
    if (!m || !it) abort();
    fk_clock_join(&s->clock, m->clock);
    it->wait = m;
    if (m->done) finish(s, it, CUDA_SUCCESS);
    else fk_push(s, it);
}

/* ---- streams ---- */
fk_stream_t *fk_stream_new(fk_ctx_t *c, unsigned flags, bool null) {
    fk_stream_t *s = fk_obj_new(FK_STREAM, sizeof *s, c);
    if (!s) return NULL;
    s->null = null;
    s->blocking = !null && !(flags & CU_STREAM_NON_BLOCKING);
    s->tail = &s->head;
    uint64_t x = (fk_config.seed + 1) * 0x9e3779b97f4a7c15u + s->base.number * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 31) * 0x94d049bb133111ebu;
    s->random = (x ^ x >> 29) | 1;
    s->scale_ns = 100000;
    s->lazy = next_random(s) % 4 == 0;
    return s;
}
void fk_stream_end(fk_stream_t *s) {
    fk_obj_end(&s->base);
    s->stop = true;
    fk_clock_leave(s);
    pthread_cond_broadcast(&fk_change);
}
fk_stream_t *fk_stream_get(CUstream h, CUresult *r) {
    return h ? fk_get(h, FK_STREAM, true, r) : fk_current()->null_stream;
}
static void null_stream_rules(fk_stream_t *s) {
    fk_obj_t *o;
    if (s->null) { /* rare, so all objects are looked through */
        for (uint32_t i = 0; (o = fk_obj_at(i)); i++)
            if (o->kind == FK_STREAM && o->live && o->ctx == s->base.ctx && ((fk_stream_t *)o)->blocking)
                order_after(s, (fk_stream_t *)o);
    } else if (s->blocking) {
        order_after(s, s->base.ctx->null_stream);
    }
}
fk_stream_t *fk_stream_for_work(CUstream h, CUresult *r) {
    fk_stream_t *s = fk_stream_get(h, r);
    if (!s || s->capture) return s;
    null_stream_rules(s);
    fk_clock_join(&s->clock, s->base.ctx->host);
    return s;
}
void fk_drain(fk_stream_t *s) {
    uint64_t all = s->pushed;
    while (s->done < all) {
        hurry(s);
        pthread_cond_wait(&fk_change, &fk_lock);
    }
    fk_clock_seen(s->base.ctx, s->clock);
}
void fk_ctx_drain(fk_ctx_t *c) {
    fk_obj_t *o;
    for (uint32_t i = 0; (o = fk_obj_at(i)); i++)
        if (o->kind == FK_STREAM && o->ctx == c && !((fk_stream_t *)o)->capture) fk_drain((fk_stream_t *)o);
}
