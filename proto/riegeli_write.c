/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/riegeli_write.h"

#include <inttypes.h>
#include <string.h>

#include "base/limits.h"
#include "proto/highway.h"
#include "proto/riegeli.h"
#include "proto/wire.h"

enum { BLOCK = 65536, BLOCK_HEADER = 24, CHUNK_HEADER = 40, USABLE = BLOCK - BLOCK_HEADER };
#define CHUNK_BYTES (1ull << 20)

static void put64(uint8_t *p, uint64_t v) {
    memcpy(p, &v, 8); /* little-endian hosts only */
}

/* A chunk that is being laid over the blocks. Positions count from the file's begin. */
typedef struct laying {
    td_rope_t *out;
    uint64_t base, begin, end;
} laying_t;

static uint64_t position(const laying_t *l) {
    return l->out->size - l->base;
}

static void block_header(laying_t *l) {
    uint8_t h[BLOCK_HEADER];
    put64(h + 8, position(l) - l->begin);
    put64(h + 16, l->end - position(l));
    put64(h, td_riegeli_hash(h + 8, 16));
    td_rope_copy(l->out, h, sizeof h);
}

/* Appends bytes, with a block header wherever a block begins. */
static void lay(laying_t *l, td_span_t bytes, bool copy) {
    while (bytes.size && !l->out->failed) {
        if (position(l) % BLOCK == 0) block_header(l);
        uint64_t room = BLOCK - position(l) % BLOCK;
        size_t k = bytes.size < room ? bytes.size : (size_t)room;
        if (copy) td_rope_copy(l->out, bytes.data, k);
        else td_rope_ref(l->out, (td_span_t){bytes.data, k});
        bytes.data += k;
        bytes.size -= k;
    }
}

static void pad(laying_t *l) {
    static const uint8_t zeros[4096];
    while (position(l) < l->end && !l->out->failed) {
        uint64_t left = l->end - position(l);
        if (position(l) % BLOCK == 0) left -= BLOCK_HEADER;
        uint64_t room = position(l) % BLOCK ? BLOCK - position(l) % BLOCK : USABLE;
        if (left > room) left = room;
        lay(l, (td_span_t){zeros, left < sizeof zeros ? (size_t)left : sizeof zeros}, true);
    }
}

/* Where a chunk of that many bytes that begins at p ends; header included in len. */
static uint64_t chunk_end(uint64_t p, uint64_t len, uint64_t n_records) {
    uint64_t end = p + len + BLOCK_HEADER * ((len + (p + USABLE - 1) % BLOCK) / USABLE);
    uint64_t least = p + n_records, left = (BLOCK - least % BLOCK) % BLOCK;
    if (left >= USABLE) least += left - (USABLE - 1); /* never inside or right behind a block header */
    return end > least ? end : least;
}

static void put_chunk(td_rope_t *out, uint64_t base, char type, const td_rope_t *data, uint64_t n_records,
                      uint64_t decoded) {
    td_highway_t hash;
    td_highway_init(&hash);
    for (uint32_t i = 0; i < data->n; i++) td_highway_add(&hash, data->pieces[i].data, data->pieces[i].size);
    uint8_t h[CHUNK_HEADER];
    put64(h + 8, data->size);
    put64(h + 16, td_highway_end(&hash));
    put64(h + 24, (uint64_t)(uint8_t)type | n_records << 8);
    put64(h + 32, decoded);
    put64(h, td_riegeli_hash(h + 8, 32));
    laying_t l = {.out = out, .base = base, .begin = out->size - base};
    l.end = chunk_end(l.begin, CHUNK_HEADER + data->size, n_records);
    lay(&l, (td_span_t){h, sizeof h}, true);
    for (uint32_t i = 0; i < data->n; i++) lay(&l, data->pieces[i], false);
    pad(&l);
}

void td_riegeli_writer_init(td_riegeli_writer_t *w, td_compression_t c, uint64_t chunk_bytes, td_rope_t *out) {
    *w = (td_riegeli_writer_t){.out = out, .base = out->size, .compression = c};
    w->chunk_bytes = chunk_bytes ? chunk_bytes : CHUNK_BYTES;
    td_rope_init_in(&w->sizes, out);
    td_rope_init_in(&w->values, out);
    td_rope_t none = {0};
    put_chunk(out, w->base, 's', &none, 0, 0);
}

/* One compressed field of a chunk: with a method, its decompressed size stands in front. */
static td_status_t put_field(td_compression_t c, const td_rope_t *in, td_rope_t *out, td_err_t *err) {
    if (c.method) td_rope_varint(out, in->size);
    return td_compress(c, in, out, err);
}

static void restart(td_rope_t *r, const td_rope_t *owner) {
    td_rope_deinit(r);
    td_rope_init_in(r, owner);
}

static td_status_t close_chunk(td_riegeli_writer_t *w, td_err_t *err) {
    if (!w->n_records) return TD_OK;
    td_rope_t sizes, data;
    td_rope_init_in(&sizes, w->out);
    td_rope_init_in(&data, w->out);
    td_status_t s = put_field(w->compression, &w->sizes, &sizes, err);
    td_rope_copy(&data, &w->compression.method, 1);
    td_rope_varint(&data, sizes.size);
    td_rope_join(&data, &sizes);
    if (s == TD_OK) s = put_field(w->compression, &w->values, &data, err);
    if (s == TD_OK) s = td_rope_status(&data, err);
    if (s == TD_OK) put_chunk(w->out, w->base, 'r', &data, w->n_records, w->values.size);
    td_rope_deinit(&data);
    td_rope_deinit(&sizes);
    restart(&w->sizes, w->out);
    restart(&w->values, w->out);
    w->n_records = w->chunk_so_far = 0;
    return s == TD_OK ? td_rope_status(w->out, err) : s;
}

td_status_t td_riegeli_writer_add(td_riegeli_writer_t *w, const td_rope_t *record, td_err_t *err) {
    if (record->size > TD_LIMIT_ARTIFACT_BYTES)
        return td_fail(err, TD_LIMIT, "record of %" PRIu64 " bytes, at most %llu", record->size,
                       TD_LIMIT_ARTIFACT_BYTES);
    uint64_t added = record->size + sizeof(uint64_t);
    td_status_t s = w->chunk_so_far && added > w->chunk_bytes - w->chunk_so_far ? close_chunk(w, err) : TD_OK;
    if (s != TD_OK) return s;
    td_rope_varint(&w->sizes, record->size);
    td_rope_join(&w->values, record);
    w->n_records++;
    w->chunk_so_far = added < w->chunk_bytes - w->chunk_so_far ? w->chunk_so_far + added : w->chunk_bytes;
    return td_rope_status(&w->values, err);
}

td_status_t td_riegeli_writer_end(td_riegeli_writer_t *w, td_err_t *err) {
    td_status_t s = td_rope_status(w->out, err);
    return s == TD_OK ? close_chunk(w, err) : s;
}

void td_riegeli_writer_deinit(td_riegeli_writer_t *w) {
    td_rope_deinit(&w->sizes);
    td_rope_deinit(&w->values);
}
