/* SPDX-License-Identifier: Apache-2.0 */
/* Split protos: a Riegeli file whose record 0 is a manifest that says how the
 * other records make up one message (merge or replace one field). */
#ifndef TD_PROTO_SPLIT_H
#define TD_PROTO_SPLIT_H

#include "proto/codec.h"

enum { TD_SPLIT_TYPE_MAX = 128 };

typedef struct td_split {
    char type[TD_SPLIT_TYPE_MAX]; /* full name of the message in the file */
    td_buffer_t wire;             /* the message: all records as one protobuf concatenation */
    char compression;             /* of the last data chunk */
} td_split_t;

/* Reads the whole file. An override stands in the concatenation as a length-delimited field, which
 * for a singular string or bytes field means the same. Release with td_split_deinit (also after failure). */
td_status_t td_split_read(td_span_t file, const td_alloc_t *alloc, td_split_t *out, td_err_t *err);
void td_split_deinit(td_split_t *s);

#endif
