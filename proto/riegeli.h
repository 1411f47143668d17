/* SPDX-License-Identifier: Apache-2.0 */
/* Reader of Riegeli/records files: blocks of 64 KiB, chunks with hashed headers
 * and data, records compressed with nothing, snappy, zstd or brotli. Every hash
 * is checked; an error names the offset of the chunk. Transposed chunks are
 * refused. Format: riegeli's records file format document and reader.
 *
 * Records come as streams, while their chunk is read: a chunk's data hash is known to be right only when the next
 * record (or the end) was asked for without an error, and until then nothing may be believed for good. Where an
 * environment skips, chunks that were not read whole have no hash to check. Thread: one. */
#ifndef TD_PROTO_RIEGELI_H
#define TD_PROTO_RIEGELI_H

#include "proto/codec.h"
#include "proto/highway.h"
#include "proto/feed.h"

enum { TD_RIEGELI_SIGNATURE_BYTES = 64 };

/* Do the bytes start with the fixed signature of a Riegeli file? */
bool td_riegeli_is(td_span_t bytes);

typedef struct td_chunk {
    uint64_t begin, end, data_size, data_hash, decoded_size, num_records;
    uint8_t type;
} td_chunk_t;

typedef struct td_records {
    td_feed_t *in; /* the file, to its end */
    td_feed_env_t *env;
    uint64_t pos; /* in the file */
    uint64_t chunk_begin, chunk_end; /* end 0 until the chunk's header is known */
    uint64_t pending[4];             /* next_chunk claims of block headers read before the end was known */
    uint32_t n_pending;
    td_chunk_t chunk;
    bool in_chunk;
    td_feed_t data; /* the chunk's, without block headers */
    td_highway_t hash;
    bool passed_over; /* some of the data was, or may be */
    td_decoder_t decoder;
    td_feed_t *values; /* data or decoder */
    uint64_t values_begin; /* its position at the first record */
    td_buffer_t sizes;
    td_span_t sizes_left;
    uint64_t records_left;
    td_limit_t record;
    bool in_record;
    uint64_t index;   /* of the next record */
    char compression; /* type byte of the last data chunk */
} td_records_t;

/* The file begins where `in` stands. Takes no memory yet; release with td_records_close. */
void td_records_open(td_records_t *r, td_feed_t *in, td_feed_env_t *env);
/* The next record, which lasts until the next call; NULL at the end of the file, whose hashes were right then. What
 * is left of the record before is passed over. */
td_status_t td_records_next(td_records_t *r, td_feed_t **out, td_err_t *err);
/* A failure s while a record was read. When the chunk's hash is wrong, that is the cause, and damaged bytes made the
 * rest; else the chunk's offset is put in front. Returns the status; no record is read afterwards. */
td_status_t td_records_blame(td_records_t *r, td_status_t s, td_err_t *err);
void td_records_close(td_records_t *r);

/* HighwayHash-64 with Riegeli's key. */
uint64_t td_riegeli_hash(const void *data, size_t size);

#endif
