/* SPDX-License-Identifier: Apache-2.0 */
/* A heap buffer that grows, and decompression as a stream over a stream. */
#ifndef TD_PROTO_CODEC_H
#define TD_PROTO_CODEC_H

#include "base/alloc.h"
#include "base/span.h"
#include "base/status.h"
#include "proto/feed.h"

typedef struct td_buffer {
    uint8_t *data;
    size_t size, capacity;
    const td_alloc_t *alloc;
} td_buffer_t;

void td_buffer_init(td_buffer_t *b, const td_alloc_t *alloc);
/* Room for `more` bytes behind size; grows by half at least. */
td_status_t td_buffer_reserve(td_buffer_t *b, size_t more, td_err_t *err);
td_status_t td_buffer_append(td_buffer_t *b, const void *data, size_t size, td_err_t *err);
/* Appends n bytes of a stream; what was not read is not allocated. */
td_status_t td_buffer_append_feed(td_buffer_t *b, td_feed_t *in, uint64_t n, td_err_t *err);
void td_buffer_deinit(td_buffer_t *b);
static inline td_span_t td_buffer_span(const td_buffer_t *b) {
    return (td_span_t){b->data, b->size};
}

/* What a compressed stream decompresses to. method: 's' raw snappy block, 'z' zstd frame, 'b' brotli stream,
 * 'd' zlib stream. It holds a window of its own and what the library needs to look back, not the bytes. */
typedef struct td_decoder {
    td_feed_t s;
    td_feed_t *in; /* the compressed bytes, up to its end */
    td_feed_env_t *env;
    char method;
    bool done;      /* the compressed stream said that it is at its end */
    bool exact;     /* it has size bytes, else at most */
    uint64_t size;
    void *library;  /* its state */
    uint8_t *buf;   /* what s shows lies in here */
    size_t capacity, used;
    uint64_t total;    /* snappy: bytes decoded, shown or passed over */
    uint64_t pending;  /* bytes of the element at hand that are still to come */
    uint32_t distance; /* of a copy; 0: a literal */
} td_decoder_t;

/* Appends to nobody: d is read. Release with td_decoder_close (also after failure); a zeroed or closed decoder may be
 * opened again and keeps its buffer between. */
td_status_t td_decoder_open(td_decoder_t *d, char method, td_feed_t *in, uint64_t size, bool exact,
                            td_feed_env_t *env, td_err_t *err);
/* Reads to the end, forgetting the bytes: more than size, bytes behind the compressed stream or an early end is
 * TD_MALFORMED. */
td_status_t td_decoder_end(td_decoder_t *d, td_err_t *err);
void td_decoder_close(td_decoder_t *d);

/* Inside: a buffer of at least that many bytes; raw snappy, snappy_read.c. */
td_status_t td_decoder_reserve(td_decoder_t *d, size_t capacity, td_err_t *err);
td_status_t td_snappy_open(td_decoder_t *d, td_err_t *err);
td_status_t td_snappy_fill(td_decoder_t *d, td_err_t *err);
td_status_t td_snappy_skip(td_feed_t *s, uint64_t n, td_err_t *err);

#endif
