/* SPDX-License-Identifier: Apache-2.0 */
/* Reader of Riegeli/records files: blocks of 64 KiB, chunks with hashed headers
 * and data, records compressed with nothing, snappy, zstd or brotli. Every hash
 * is checked; an error names the offset of the chunk. Transposed chunks are
 * refused. Format: riegeli's records file format document and reader. */
#ifndef TD_PROTO_RIEGELI_H
#define TD_PROTO_RIEGELI_H

#include "base/alloc.h"
#include "base/span.h"
#include "base/status.h"

enum { TD_RIEGELI_SIGNATURE_BYTES = 64 };

/* Do the bytes start with the fixed signature of a Riegeli file? */
bool td_riegeli_is(td_span_t bytes);

/* One record; the bytes are valid during the call only. *done = true ends the
 * reading early (what follows is then not looked at). */
typedef td_status_t (*td_riegeli_record_fn)(void *ctx, uint64_t index, td_span_t record, bool *done, td_err_t *err);

/* Delivers all records in order. out_compression: type byte of the last data chunk (may be NULL). */
td_status_t td_riegeli_read(td_span_t file, const td_alloc_t *alloc, td_riegeli_record_fn fn, void *ctx,
                            char *out_compression, td_err_t *err);

/* HighwayHash-64 with Riegeli's key. */
uint64_t td_riegeli_hash(const void *data, size_t size);

#endif
