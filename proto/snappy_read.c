/* SPDX-License-Identifier: Apache-2.0 */
/* A raw snappy block as a stream. The library decompresses whole blocks only, and a compiler's file is one block of
 * the size of all its constants.
 *
 * A block is a length and elements: literals and copies of what came before. Compressors work on fragments of 64 KiB
 * that do not refer to each other, so that much is kept. A block that refers back further is possible: then
 * env->far_reference says so, and the artifact is read once more with more kept.
 * Format: google/snappy, format_description.txt. */
#include <inttypes.h>
#include <string.h>

#include "proto/codec.h"

enum {
    FRAGMENT = 64 << 10,
    SHOWN = 128 << 10,  /* bytes that are decoded at once */
    SHOWN_SKIPPING = 1 << 10, /* where most is passed over anyway */
    LARGE = 1 << 20,    /* of a block; smaller ones hold no contents worth skipping */
    JUMP = 16 << 10,    /* a shorter skip is no jump */
    SLOP = 64,          /* short copies write past their end */
    WORST = 32,         /* an element of 3 bytes gives 64 at most; a larger claim is a lie */
};

static td_status_t damaged(const char *what, td_err_t *err) {
    return td_fail(err, TD_MALFORMED, "damaged snappy block: %s", what);
}

static td_status_t length(td_decoder_t *d, uint64_t *out, td_err_t *err) {
    uint64_t v = 0;
    for (unsigned i = 0; i < 5; i++) {
        uint8_t b = 0;
        td_status_t s = td_feed_get(d->in, &b, 1, err);
        if (s != TD_OK) return s;
        v |= (uint64_t)(b & 127) << (7 * i);
        if (b & 128) continue;
        *out = v;
        return v <= UINT32_MAX ? TD_OK : damaged("length beyond 4 GiB", err);
    }
    return damaged("without a length", err);
}

td_status_t td_snappy_open(td_decoder_t *d, td_err_t *err) {
    uint64_t n = 0;
    td_status_t s = length(d, &n, err);
    if (s != TD_OK) return s;
    if (d->exact ? n != d->size : n > d->size)
        return td_fail(err, TD_MALFORMED, "snappy block of %" PRIu64 " bytes, %" PRIu64 " are due", n, d->size);
    if (d->in->end != UINT64_MAX && n / WORST > d->in->end)
        return td_fail(err, TD_MALFORMED, "snappy block of %" PRIu64 " bytes claims %" PRIu64, d->in->end, n);
    d->size = n;
    d->done = n == 0;
    if (d->env->skips && d->env->keep != TD_KEEP_ALL) d->s.skip = td_snappy_skip;
    size_t keep = d->env->keep == TD_KEEP_ALL && n > FRAGMENT ? (size_t)n : FRAGMENT;
    return td_decoder_reserve(d, keep + SHOWN + SLOP, err);
}

/* Bytes behind a tag byte. */
static unsigned tag_more(uint8_t tag) {
    static const uint8_t copies[4] = {0, 1, 2, 4};
    if (tag & 3) return copies[tag & 3];
    return tag >> 2 < 60 ? 0 : (tag >> 2) - 59;
}

static void tag_read(uint8_t tag, uint32_t more, uint64_t *len, uint32_t *distance) {
    *distance = 0;
    switch (tag & 3) {
    case 0: *len = (tag >> 2 < 60 ? tag >> 2 : (uint64_t)more) + 1; break;
    case 1:
        *len = 4 + (tag >> 2 & 7);
        *distance = (uint32_t)(tag >> 5) << 8 | more;
        break;
    default:
        *len = 1 + (tag >> 2);
        *distance = more;
    }
}

/* The next element's head, into pending and distance. */
static td_status_t element(td_decoder_t *d, td_err_t *err) {
    uint8_t tag = 0, more[4] = {0};
    td_status_t s = td_feed_get(d->in, &tag, 1, err);
    if (s == TD_OK) s = td_feed_get(d->in, more, tag_more(tag), err);
    if (s != TD_OK) return s;
    uint32_t v;
    memcpy(&v, more, 4); /* little-endian hosts only */
    tag_read(tag, v, &d->pending, &d->distance);
    if (tag & 3 && (!d->distance || d->distance > d->total)) return damaged("refers back to before its begin", err);
    return d->pending <= d->size - d->total ? TD_OK : damaged("more bytes than its length says", err);
}

static void copy_back(uint8_t *to, size_t distance, size_t n) {
    const uint8_t *from = to - distance;
    if (distance >= 16) {
        memcpy(to, from, 16);
        for (size_t i = 16; i < n; i += 16) memcpy(to + i, from + i, 16);
    } else if (distance >= 8) {
        for (size_t i = 0; i < n; i += 8) memcpy(to + i, from + i, 8);
    } else {
        for (size_t i = 0; i < n; i++) to[i] = from[i];
    }
}

/* Elements that lie whole in the input's window and fit before `end`; what does not is left to the slow path. */
static void fast(td_decoder_t *d, size_t end) {
    const uint8_t *in = d->in->at, *in_end = in + d->in->left;
    uint8_t *out = d->buf + d->used, *out_end = d->buf + end;
    while (in_end - in >= 5 && out < out_end) {
        uint64_t len = (uint64_t)(*in >> 2) + 1;
        uint32_t distance, v;
        if (!(*in & 3) && len <= 16 && in_end - in > 17 && out_end - out >= 16) { /* most literals */
            memcpy(out, in + 1, 16);
            in += 1 + len;
            out += len;
            continue;
        }
        unsigned more = tag_more(*in);
        memcpy(&v, in + 1, 4);
        if (more < 4) v &= (1u << (8 * more)) - 1;
        tag_read(*in, v, &len, &distance);
        if (len > (uint64_t)(out_end - out)) break;
        if (*in & 3) {
            if (!distance || distance > (size_t)(out - d->buf)) break;
            copy_back(out, distance, (size_t)len);
            in += 1 + more;
        } else {
            if (len > (uint64_t)(in_end - in) - 1 - more) break;
            memcpy(out, in + 1 + more, (size_t)len);
            in += 1 + more + len;
        }
        out += len;
    }
    d->total += (size_t)(out - d->buf) - d->used;
    d->used = (size_t)(out - d->buf);
    td_feed_take(d->in, (size_t)(in - d->in->at));
}

/* A part of the element at hand. */
static td_status_t part(td_decoder_t *d, size_t room, td_err_t *err) {
    size_t k = d->pending < room ? (size_t)d->pending : room;
    if (!d->distance) {
        td_status_t s = td_feed_more(d->in, err);
        if (s != TD_OK) return s;
        if (!d->in->left) return damaged("ends inside a literal", err);
        if (k > d->in->left) k = d->in->left;
        memcpy(d->buf + d->used, d->in->at, k);
        td_feed_take(d->in, k);
    } else if (d->distance <= d->used) {
        copy_back(d->buf + d->used, d->distance, k);
    } else {
        d->env->far_reference = true;
        return td_fail(err, TD_UNSUPPORTED, "snappy block refers back %" PRIu32 " bytes, %zu are kept", d->distance,
                       d->used);
    }
    d->used += k;
    d->total += k;
    d->pending -= k;
    return TD_OK;
}

/* Decodes n bytes behind what is in the buffer, less only at the block's end. */
static td_status_t decode(td_decoder_t *d, size_t n, td_err_t *err) {
    if (n > d->size - d->total) n = (size_t)(d->size - d->total);
    if (d->capacity - SLOP - d->used < n) {
        size_t keep = d->capacity - SLOP - SHOWN < d->used ? d->capacity - SLOP - SHOWN : d->used;
        memmove(d->buf, d->buf + d->used - keep, keep);
        d->used = keep;
    }
    size_t end = d->used + n;
    td_status_t s = TD_OK;
    while (s == TD_OK && d->used < end) {
        if (!d->pending) fast(d, end);
        if (d->used == end) break;
        if (!d->pending) s = element(d, err);
        if (s == TD_OK) s = part(d, end - d->used, err);
    }
    d->done = s == TD_OK && d->total == d->size;
    return s;
}

td_status_t td_snappy_fill(td_decoder_t *d, td_err_t *err) {
    uint64_t before = d->total;
    td_status_t s = decode(d, d->s.skip && d->size > LARGE ? SHOWN_SKIPPING : SHOWN, err);
    if (s != TD_OK) return s;
    d->s.left = (size_t)(d->total - before);
    d->s.at = d->buf + d->used - d->s.left;
    return TD_OK;
}

/* Elements are passed over up to the fragment in which the end lies, from where on bytes may be referred to; or up to
 * the end, in the hope that none is. */
td_status_t td_snappy_skip(td_feed_t *st, uint64_t n, td_err_t *err) {
    td_decoder_t *d = (td_decoder_t *)(void *)st;
    bool hope = d->env->keep == TD_KEEP_READ && n >= JUMP;
    uint64_t target = d->total + n, stop = hope ? target : target & ~(uint64_t)(FRAGMENT - 1);
    td_status_t s = TD_OK;
    if (stop > d->total) d->used = 0;
    while (s == TD_OK && d->total < stop) {
        if (!d->pending) s = element(d, err);
        uint64_t k = d->pending < stop - d->total ? d->pending : stop - d->total;
        if (s == TD_OK && !d->distance) s = td_feed_skip(d->in, k, err);
        d->pending -= k;
        d->total += k;
    }
    while (s == TD_OK && d->total < target) {
        uint64_t k = target - d->total;
        s = decode(d, k < SHOWN ? (size_t)k : SHOWN, err);
    }
    if (s == TD_OK) d->done = d->total == d->size;
    return s == TD_OK ? td_feed_cancelled(d->env, err) : s;
}
