/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes in pieces: a message or a file put together without copying what is large.
 *
 * A rope owns small pieces (copied in) and refers to large ones, whose memory must
 * stay until the rope is gone. Errors stick: a rope whose memory ended stays failed
 * and is reported by td_rope_status and by whoever reads it. Thread: one. */
#ifndef TD_PROTO_ROPE_H
#define TD_PROTO_ROPE_H

#include "base/arena.h"
#include "base/span.h"
#include "base/status.h"

typedef struct td_rope {
    td_span_t *pieces;
    uint32_t n, cap;
    uint64_t size;     /* sum of the pieces */
    uint8_t *tail;     /* free bytes behind the last owned piece */
    size_t tail_bytes;
    td_arena_t own;
    td_arena_t *memory; /* &own, or another rope's */
    bool failed;
} td_rope_t;

/* Where bytes go. ctx belongs to the sink. */
typedef struct td_sink {
    td_status_t (*write)(void *ctx, const void *data, size_t size, td_err_t *err);
    void *ctx;
} td_sink_t;

void td_rope_init(td_rope_t *r, const td_alloc_t *alloc);
/* A rope whose owned pieces live in owner's memory, until owner is gone. */
void td_rope_init_in(td_rope_t *r, const td_rope_t *owner);
void td_rope_deinit(td_rope_t *r); /* a zeroed or initialised rope */
/* Copies the bytes in. */
void td_rope_copy(td_rope_t *r, const void *data, size_t size);
/* Refers to the bytes; small ones are copied all the same. */
void td_rope_ref(td_rope_t *r, td_span_t bytes);
/* Refers to all pieces of another rope, which must outlive this one. */
void td_rope_join(td_rope_t *r, const td_rope_t *other);
/* Owned memory of that size, appended; the caller fills it before anybody reads. NULL when memory ended. */
uint8_t *td_rope_room(td_rope_t *r, size_t size);
/* Owned memory of that size that is not (yet) part of the rope. NULL when memory ended. */
uint8_t *td_rope_scratch(td_rope_t *r, size_t size);
void td_rope_varint(td_rope_t *r, uint64_t v);
/* Tag and length of a length-delimited field whose bytes follow. */
void td_rope_tag_len(td_rope_t *r, uint32_t field, uint64_t size);
/* TD_OK, or TD_NOMEM when memory ended. */
td_status_t td_rope_status(const td_rope_t *r, td_err_t *err);
td_status_t td_rope_write(const td_rope_t *r, const td_sink_t *sink, td_err_t *err);
/* All bytes in one block at dst, which has room for r->size. */
void td_rope_gather(const td_rope_t *r, uint8_t *dst);
bool td_rope_equal(const td_rope_t *a, const td_rope_t *b);

#endif
