/* SPDX-License-Identifier: Apache-2.0 */
/* Writer of Riegeli/records files: simple chunks with hashed block and chunk headers,
 * values uncompressed or compressed with brotli, zstd or snappy.
 *
 * The file grows at the end of a rope; uncompressed values stay references to the
 * caller's memory, so a large record is never copied. A record stands whole in one
 * chunk; chunks are closed when chunk_bytes would be passed, as Riegeli's own writer does.
 * Format: riegeli's records file format document, block.h and simple_encoder. Thread: one. */
#ifndef TD_PROTO_RIEGELI_WRITE_H
#define TD_PROTO_RIEGELI_WRITE_H

#include "proto/rope.h"

typedef struct td_compression {
    char method; /* type byte: 0 none, 'b' brotli, 'z' zstd, 's' snappy */
    int level;   /* brotli 0 to 11, zstd -7 to 22 */
    void (*tick)(void *ctx, uint64_t bytes); /* NULL, or told how many bytes went in since the last call */
    void *ctx;
} td_compression_t;

/* "none", "brotli[:0-11]", "zstd[:-7-22]", "snappy". Without a level: brotli 6, zstd 3, Riegeli's defaults. */
td_status_t td_compression_parse(const char *text, td_compression_t *out, td_err_t *err);

/* Appends the compressed bytes of in, without a length in front, to out. Method 0 refers to in's pieces. */
td_status_t td_compress(td_compression_t c, const td_rope_t *in, td_rope_t *out, td_err_t *err);

typedef struct td_riegeli_writer {
    td_rope_t *out;
    uint64_t base; /* out->size where the file begins */
    td_compression_t compression;
    uint64_t chunk_bytes, chunk_so_far;
    td_rope_t sizes, values; /* of the open chunk */
    uint64_t n_records;
} td_riegeli_writer_t;

/* Writes the signature. chunk_bytes 0: 1 MiB. All memory is out's. End with td_riegeli_writer_deinit. */
void td_riegeli_writer_init(td_riegeli_writer_t *w, td_compression_t c, uint64_t chunk_bytes, td_rope_t *out);
/* One record; its large pieces must outlive the out rope. */
td_status_t td_riegeli_writer_add(td_riegeli_writer_t *w, const td_rope_t *record, td_err_t *err);
/* Closes the last chunk; the file is complete afterwards. */
td_status_t td_riegeli_writer_end(td_riegeli_writer_t *w, td_err_t *err);
void td_riegeli_writer_deinit(td_riegeli_writer_t *w);

#endif
