/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/feed.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

enum {
    WINDOW = 128 << 10, /* of a file: a few reads per mebibyte, and still inside the cache */
    JUMP_WINDOW = 4 << 10, /* behind a skip, where only a few fields are wanted */
};

td_status_t td_feed_cancelled(const td_feed_env_t *env, td_err_t *err) {
    if (!env->cancel || !atomic_load_explicit(env->cancel, memory_order_relaxed)) return TD_OK;
    return td_fail(err, TD_CANCELLED, "cancelled");
}

td_status_t td_feed_more(td_feed_t *s, td_err_t *err) {
    if (s->left) return TD_OK;
    td_status_t st = s->fill(s, err);
    if (st == TD_OK) s->given += s->left;
    else s->left = 0;
    return st;
}

static td_status_t too_short(const td_feed_t *s, uint64_t n, td_err_t *err) {
    return td_fail(err, TD_MALFORMED, "%" PRIu64 " bytes are missing at the end, which is at %" PRIu64, n,
                   td_feed_position(s));
}

td_status_t td_feed_get(td_feed_t *s, void *dst, size_t n, td_err_t *err) {
    uint8_t *p = dst;
    while (n) {
        td_status_t st = td_feed_more(s, err);
        if (st != TD_OK) return st;
        if (!s->left) return too_short(s, n, err);
        size_t k = s->left < n ? s->left : n;
        memcpy(p, s->at, k);
        td_feed_take(s, k);
        p += k, n -= k;
    }
    return TD_OK;
}

td_status_t td_feed_skip(td_feed_t *s, uint64_t n, td_err_t *err) {
    while (n) {
        size_t k = s->left < n ? s->left : (size_t)n;
        td_feed_take(s, k);
        if (!(n -= k)) break;
        td_status_t st;
        if (s->skip) {
            if (s->end != UINT64_MAX && n > s->end - s->given) return too_short(s, n - (s->end - s->given), err);
            st = s->skip(s, n, err);
            if (st == TD_OK) s->given += n;
            return st;
        }
        if ((st = td_feed_more(s, err)) != TD_OK) return st;
        if (!s->left) return too_short(s, n, err);
    }
    return TD_OK;
}

td_status_t td_feed_varint(td_feed_t *s, uint64_t *out, td_err_t *err) {
    uint64_t v = 0;
    for (unsigned i = 0; i < 10; i++) {
        uint8_t b = 0;
        td_status_t st = td_feed_get(s, &b, 1, err);
        if (st != TD_OK) return st;
        if (i == 9 && b > 1) break;
        v |= (uint64_t)(b & 127) << (7 * i);
        if (b & 128) continue;
        *out = v;
        return TD_OK;
    }
    return td_fail(err, TD_MALFORMED, "varint of more than 64 bits");
}

static td_status_t no_more(td_feed_t *s, td_err_t *err) {
    (void)s, (void)err;
    return TD_OK;
}

void td_feed_memory(td_feed_t *s, td_span_t bytes) {
    *s = (td_feed_t){.at = bytes.data, .left = bytes.size, .given = bytes.size, .end = bytes.size, .fill = no_more};
}

static td_status_t file_fill(td_feed_t *s, td_err_t *err) {
    td_file_feed_t *f = (td_file_feed_t *)(void *)s;
    if (f->env->progress) atomic_store_explicit(f->env->progress, s->given, memory_order_relaxed);
    td_status_t st = td_feed_cancelled(f->env, err);
    uint64_t left = s->end - s->given;
    if (st != TD_OK || !left) return st;
    size_t want = f->jumped ? JUMP_WINDOW : WINDOW, got = 0;
    if (want > left) want = (size_t)left;
    f->jumped = false;
    st = f->source->read(f->source->ctx, s->given, f->window, want, &got, err);
    if (st != TD_OK) return st;
    if (!got || got > want)
        return td_fail(err, TD_IO, "shrank from %" PRIu64 " to %" PRIu64 " bytes while being read", s->end, s->given);
    s->at = f->window;
    s->left = got;
    return TD_OK;
}

static td_status_t file_skip(td_feed_t *s, uint64_t n, td_err_t *err) {
    (void)n, (void)err;
    ((td_file_feed_t *)(void *)s)->jumped = true;
    return TD_OK;
}

td_status_t td_file_feed_open(td_file_feed_t *f, const td_source_t *source, td_feed_env_t *env, td_err_t *err) {
    *f = (td_file_feed_t){.source = source, .env = env};
    f->s = (td_feed_t){.end = source->size, .fill = file_fill, .skip = file_skip};
    f->window = env->alloc->get(env->alloc->ctx, WINDOW, 64);
    return f->window ? TD_OK : td_fail(err, TD_NOMEM, "out of memory for a window of %d bytes", WINDOW);
}

void td_file_feed_close(td_file_feed_t *f) {
    if (f->env) f->env->alloc->put(f->env->alloc->ctx, f->window, WINDOW);
    f->window = NULL;
}

static td_status_t limit_fill(td_feed_t *s, td_err_t *err) {
    td_feed_t *in = ((td_limit_t *)(void *)s)->in;
    uint64_t left = s->end - s->given;
    if (!left) return TD_OK;
    td_status_t st = td_feed_more(in, err);
    if (st != TD_OK) return st;
    if (!in->left) return too_short(in, left, err);
    s->at = in->at;
    s->left = in->left < left ? in->left : (size_t)left;
    td_feed_take(in, s->left);
    return TD_OK;
}

static td_status_t limit_skip(td_feed_t *s, uint64_t n, td_err_t *err) {
    return td_feed_skip(((td_limit_t *)(void *)s)->in, n, err);
}

void td_limit_open(td_limit_t *l, td_feed_t *in, uint64_t n) {
    *l = (td_limit_t){.s = {.end = n, .fill = limit_fill, .skip = limit_skip}, .in = in};
}

td_status_t td_limit_end(td_limit_t *l, td_err_t *err) {
    return td_feed_skip(&l->s, l->s.end - td_feed_position(&l->s), err);
}
