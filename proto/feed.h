/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds: streams of bytes that are pulled, of a file, memory, a decompressor, the data of a chunk, one record.
 *
 * A feed shows a window of bytes; who reads takes from its front (at, left) and asks for the next window when it
 * is empty. Windows belong to the feed and last until the next one is asked for. Feeds stand on each other, so
 * one window of a file may reach a payload with no copy between. A feed never owns the one below. Thread: one.
 *
 * source     where an artifact's bytes come from: an open file, whatever a test makes up
 * feed env   what all feeds of one opening share: memory, the cancel flag, whether contents are skipped */
#ifndef TD_PROTO_FEED_H
#define TD_PROTO_FEED_H

#include "base/alloc.h"
#include "base/span.h"
#include "base/status.h"

typedef struct td_source {
    /* Up to size bytes from offset; *got 0 only at the end. Errors carry no name of the source. */
    td_status_t (*read)(void *ctx, uint64_t offset, void *dst, size_t size, size_t *got, td_err_t *err);
    void *ctx;
    uint64_t size;
} td_source_t;

/* What is kept of a snappy block while it is read, for elements that refer back to it. Compressors work on fragments
 * of 64 KiB, so that much is enough for all that are known; nothing in a passed-over part is mostly enough, too. */
typedef enum td_keep { TD_KEEP_READ, TD_KEEP_FRAGMENT, TD_KEEP_ALL } td_keep_t;

typedef struct td_feed_env {
    const td_alloc_t *alloc;
    _Atomic(uint64_t) *progress;     /* bytes of the source that are done; or NULL */
    const _Atomic(int) *cancel;      /* not 0: reading ends with TD_CANCELLED; or NULL */
    bool skips;                      /* contents that nobody wants are passed over, their hashes too */
    td_keep_t keep;
    bool far_reference;              /* out: a snappy block refers back to what was not kept */
} td_feed_env_t;

typedef struct td_feed td_feed_t;
struct td_feed {
    const uint8_t *at;
    size_t left;    /* of the window */
    uint64_t given; /* bytes of all windows so far */
    uint64_t end;   /* how many bytes the stream has; UINT64_MAX: unknown */
    /* The next window, into at and left, which is 0; it stays 0 at the end. Called by td_feed_more only. */
    td_status_t (*fill)(td_feed_t *s, td_err_t *err);
    /* Passes over n bytes behind the window, at most those that are left. NULL: they are read and forgotten. */
    td_status_t (*skip)(td_feed_t *s, uint64_t n, td_err_t *err);
};

static inline uint64_t td_feed_position(const td_feed_t *s) { return s->given - s->left; }
static inline void td_feed_take(td_feed_t *s, size_t n) {
    s->at += n;
    s->left -= n;
}
/* Makes sure that the window is not empty, if there is more. */
td_status_t td_feed_more(td_feed_t *s, td_err_t *err);
/* Exactly n bytes; TD_MALFORMED when the stream ends before. */
td_status_t td_feed_get(td_feed_t *s, void *dst, size_t n, td_err_t *err);
td_status_t td_feed_skip(td_feed_t *s, uint64_t n, td_err_t *err);
/* A varint of at most 10 bytes. */
td_status_t td_feed_varint(td_feed_t *s, uint64_t *out, td_err_t *err);
/* TD_CANCELLED when somebody wishes so. */
td_status_t td_feed_cancelled(const td_feed_env_t *env, td_err_t *err);

/* Memory: one window. */
void td_feed_memory(td_feed_t *s, td_span_t bytes);

/* A source, through a window of its own. Release with td_file_feed_close. */
typedef struct td_file_feed {
    td_feed_t s;
    const td_source_t *source;
    td_feed_env_t *env;
    uint8_t *window;
    bool jumped; /* the last move was a skip: the next window is a small one */
} td_file_feed_t;
td_status_t td_file_feed_open(td_file_feed_t *f, const td_source_t *source, td_feed_env_t *env, td_err_t *err);
void td_file_feed_close(td_file_feed_t *f);

/* The next n bytes of another stream. */
typedef struct td_limit {
    td_feed_t s;
    td_feed_t *in;
} td_limit_t;
void td_limit_open(td_limit_t *l, td_feed_t *in, uint64_t n);
/* Passes over what was not read, so that `in` stands behind the n bytes. */
td_status_t td_limit_end(td_limit_t *l, td_err_t *err);

#endif
