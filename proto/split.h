/* SPDX-License-Identifier: Apache-2.0 */
/* Split protos: a Riegeli file whose record 0 is a manifest that says how the
 * other records make up one message (merge or replace one field). The message is
 * handed over part by part while the file is read. Thread: one. */
#ifndef TD_PROTO_SPLIT_H
#define TD_PROTO_SPLIT_H

#include "proto/codec.h"
#include "proto/feed.h"

enum { TD_SPLIT_TYPE_MAX = 128 };

/* Who takes the parts, in the file's order; together they are the wire bytes of the message. */
typedef struct td_split_sink {
    /* The full name of the message in the file, before any part. */
    td_status_t (*type)(void *ctx, const char *name, td_err_t *err);
    /* number 0: fields. Else: the bytes of that length-delimited field, which for a singular string or bytes field
     * means the same as replacing it. All bytes of the stream must be taken. */
    td_status_t (*part)(void *ctx, uint32_t number, td_feed_t *bytes, td_err_t *err);
    void *ctx;
} td_split_sink_t;

/* Reads the whole file. compression: type byte of the last data chunk. What was handed over counts only when
 * this is TD_OK. */
td_status_t td_split_read(td_feed_t *file, td_feed_env_t *env, const td_split_sink_t *sink, char *out_compression,
                          td_err_t *err);

#endif
