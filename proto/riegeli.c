/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/riegeli.h"

#include <highwayhash/c_bindings.h>
#include <inttypes.h>
#include <string.h>

#include "base/checked.h"
#include "base/limits.h"
#include "proto/codec.h"
#include "proto/wire.h"

enum { BLOCK = 65536, BLOCK_HEADER = 24, CHUNK_HEADER = 40, USABLE = BLOCK - BLOCK_HEADER };

static const uint8_t signature[TD_RIEGELI_SIGNATURE_BYTES] = {
    0x83, 0xaf, 0x70, 0xd1, 0x0d, 0x88, 0x4a, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0,
    0x91, 0xba, 0xc2, 0x3c, 0x92, 0x87, 0xe1, 0xa9, 0, 0, 0, 0, 0, 0, 0, 0, 0xe1, 0x9f, 0x13, 0xc0, 0xe9, 0xb1, 0xc3, 0x72,
    0x73, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
};

bool td_riegeli_is(td_span_t b) {
    return b.size >= sizeof signature && memcmp(b.data, signature, sizeof signature) == 0;
}

uint64_t td_riegeli_hash(const void *data, size_t size) {
    /* The bytes of "Riegeli/records\n", twice. */
    static const uint64_t key[4] = {0x2f696c6567656952u, 0x0a7364726f636572u, 0x2f696c6567656952u, 0x0a7364726f636572u};
    return HighwayHash64(key, size ? (const char *)data : "", size);
}

static uint64_t load64(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, 8); /* little-endian hosts only */
    return v;
}

typedef struct chunk {
    uint64_t begin, end, data_size, data_hash, decoded_size, num_records;
    uint8_t type;
} chunk_t;

/* Bytes from position p to p + len of payload, with the block headers between counted in. */
static bool add_with_overhead(uint64_t p, uint64_t len, uint64_t *out) {
    uint64_t blocks, sum;
    if (!td_add_u64(len, (p + USABLE - 1) % BLOCK, &sum)) return false;
    blocks = sum / USABLE;
    uint64_t over;
    return td_mul_u64(blocks, BLOCK_HEADER, &over) && td_add_u64(p, len, &sum) && td_add_u64(sum, over, out);
}
static uint64_t round_up_boundary(uint64_t p) {
    uint64_t left = (BLOCK - p % BLOCK) % BLOCK;
    return left >= USABLE ? p + left - (USABLE - 1) : p;
}

typedef struct reader {
    td_span_t file;
    uint64_t pos;
    uint64_t chunk_begin;
    uint64_t chunk_end;       /* 0 until the chunk's header is known */
    uint64_t pending[4];      /* next_chunk claims of block headers read before the end was known */
    uint32_t n_pending;
} reader_t;

static td_status_t block_header(reader_t *r, td_err_t *err) {
    uint64_t at = r->pos;
    if (!td_range_ok(at, BLOCK_HEADER, r->file.size))
        return td_fail_at(err, TD_MALFORMED, at, "Riegeli file ends inside the block header at %" PRIu64, at);
    const uint8_t *h = r->file.data + at;
    if (td_riegeli_hash(h + 8, 16) != load64(h))
        return td_fail_at(err, TD_MALFORMED, at, "block header hash at %" PRIu64 " does not match", at);
    uint64_t previous = load64(h + 8), next = load64(h + 16);
    if (previous != at - r->chunk_begin)
        return td_fail_at(err, TD_MALFORMED, at, "block at %" PRIu64 " says its chunk began %" PRIu64 " bytes before, it is %" PRIu64,
                          at, previous, at - r->chunk_begin);
    if (r->chunk_end && next != r->chunk_end - at)
        return td_fail_at(err, TD_MALFORMED, at, "block at %" PRIu64 " says its chunk ends %" PRIu64 " bytes on, it is %" PRIu64, at,
                          next, r->chunk_end - at);
    if (!r->chunk_end && r->n_pending < 2) {
        r->pending[r->n_pending * 2] = at;
        r->pending[r->n_pending * 2 + 1] = next;
        r->n_pending++;
    }
    r->pos += BLOCK_HEADER;
    return TD_OK;
}

/* Copies n payload bytes, checking the block headers on the way. */
static td_status_t take(reader_t *r, uint8_t *dst, uint64_t n, td_err_t *err) {
    while (n) {
        if (r->pos % BLOCK == 0) {
            td_status_t s = block_header(r, err);
            if (s != TD_OK) return s;
        }
        uint64_t in_block = BLOCK - r->pos % BLOCK, k = n < in_block ? n : in_block;
        if (!td_range_ok(r->pos, k, r->file.size))
            return td_fail_at(err, TD_MALFORMED, r->chunk_begin, "truncated: chunk at %" PRIu64 " runs past the end of %zu bytes",
                              r->chunk_begin, r->file.size);
        memcpy(dst, r->file.data + r->pos, k);
        dst += k;
        r->pos += k;
        n -= k;
    }
    return TD_OK;
}

static td_status_t chunk_header(reader_t *r, chunk_t *c, td_err_t *err) {
    uint8_t h[CHUNK_HEADER];
    r->chunk_begin = c->begin = r->pos;
    r->chunk_end = 0;
    r->n_pending = 0;
    td_status_t s = take(r, h, sizeof h, err);
    if (s != TD_OK) return s;
    if (td_riegeli_hash(h + 8, 32) != load64(h))
        return td_fail_at(err, TD_MALFORMED, c->begin, "chunk header hash at %" PRIu64 " does not match", c->begin);
    c->data_size = load64(h + 8);
    c->data_hash = load64(h + 16);
    c->type = h[24];
    c->num_records = load64(h + 24) >> 8;
    c->decoded_size = load64(h + 32);
    uint64_t whole, end, floor_end;
    if (!td_add_u64(c->data_size, CHUNK_HEADER, &whole) || !add_with_overhead(c->begin, whole, &end) ||
        !td_add_u64(c->begin, c->num_records, &floor_end))
        return td_fail_at(err, TD_MALFORMED, c->begin, "chunk at %" PRIu64 " claims %" PRIu64 " bytes", c->begin, c->data_size);
    floor_end = round_up_boundary(floor_end);
    c->end = end > floor_end ? end : floor_end;
    if (c->end > r->file.size)
        return td_fail_at(err, TD_MALFORMED, c->begin, "truncated: chunk at %" PRIu64 " ends at %" PRIu64 ", the file at %zu", c->begin,
                          c->end, r->file.size);
    r->chunk_end = c->end;
    for (uint32_t i = 0; i < r->n_pending; i++)
        if (r->pending[i * 2 + 1] != c->end - r->pending[i * 2])
            return td_fail_at(err, TD_MALFORMED, c->begin, "block header at %" PRIu64 " disagrees on the end of its chunk", r->pending[i * 2]);
    return TD_OK;
}

/* One compressed field: varint decompressed size, then the stream; plain bytes for type 0. */
static td_status_t field(char method, td_span_t in, uint64_t max, td_buffer_t *buf, td_span_t *out, td_err_t *err) {
    if (method == 0) {
        *out = in;
        return TD_OK;
    }
    uint64_t stated;
    if (!td_wire_varint(&in, &stated) || stated > max) return td_fail(err, TD_MALFORMED, "bad decompressed size (at most %" PRIu64 ")", max);
    td_status_t s = td_decompress(method, in, (size_t)stated, buf, err);
    if (s == TD_OK && buf->size != stated)
        s = td_fail(err, TD_MALFORMED, "stream gives %zu bytes, its header says %" PRIu64, buf->size, stated);
    *out = td_buffer_span(buf);
    return s;
}

typedef struct sink {
    td_riegeli_record_fn fn;
    void *ctx;
    uint64_t index;
    bool done;
} sink_t;

static td_status_t deliver(const chunk_t *c, td_span_t sizes, td_span_t values, sink_t *k, td_err_t *err) {
    for (uint64_t i = 0; i < c->num_records; i++) {
        uint64_t n;
        if (!td_wire_varint(&sizes, &n)) return td_fail(err, TD_MALFORMED, "size of record %" PRIu64 " is missing", i);
        if (n > values.size) return td_fail(err, TD_MALFORMED, "record %" PRIu64 " of %" PRIu64 " bytes, %zu are left", i, n, values.size);
        if (!k->done) {
            td_status_t s = k->fn(k->ctx, k->index++, (td_span_t){values.data, (size_t)n}, &k->done, err);
            if (s != TD_OK) return s;
        }
        values.data += n;
        values.size -= n;
    }
    if (sizes.size || values.size)
        return td_fail(err, TD_MALFORMED, "%zu bytes of sizes and %zu of values are left over", sizes.size, values.size);
    return TD_OK;
}

/* Frees the chunk's bytes as soon as they are decompressed. */
static td_status_t simple_chunk(const chunk_t *c, td_buffer_t *chunk, const td_alloc_t *alloc, sink_t *k, char *method, td_err_t *err) {
    uint64_t sizes_size, sizes_max;
    td_span_t data = td_buffer_span(chunk);
    if (c->num_records > TD_LIMIT_RECORDS)
        return td_fail(err, TD_LIMIT, "%" PRIu64 " records, at most %u", c->num_records, TD_LIMIT_RECORDS);
    if (c->decoded_size > TD_LIMIT_ARTIFACT_BYTES)
        return td_fail(err, TD_LIMIT, "%" PRIu64 " decoded bytes, at most %llu", c->decoded_size, TD_LIMIT_ARTIFACT_BYTES);
    if (data.size < 1) return td_fail(err, TD_MALFORMED, "empty data");
    *method = (char)data.data[0];
    data.data++, data.size--;
    if (!td_wire_varint(&data, &sizes_size) || sizes_size > data.size) return td_fail(err, TD_MALFORMED, "bad size of sizes");
    sizes_max = c->num_records * 10;
    td_buffer_t sb, vb;
    td_buffer_init(&sb, alloc);
    td_buffer_init(&vb, alloc);
    td_span_t sizes, values;
    td_status_t s = field(*method, (td_span_t){data.data, (size_t)sizes_size}, sizes_max, &sb, &sizes, err);
    if (s == TD_OK)
        s = field(*method, (td_span_t){data.data + sizes_size, data.size - (size_t)sizes_size}, c->decoded_size, &vb, &values, err);
    if (s == TD_OK && values.size != c->decoded_size)
        s = td_fail(err, TD_MALFORMED, "%zu decoded bytes, the header says %" PRIu64, values.size, c->decoded_size);
    if (s == TD_OK && *method) td_buffer_deinit(chunk);
    if (s == TD_OK) s = deliver(c, sizes, values, k, err);
    td_buffer_deinit(&sb);
    td_buffer_deinit(&vb);
    return s;
}

static td_status_t chunk_body(reader_t *r, const chunk_t *c, const td_alloc_t *alloc, sink_t *k, char *method, td_err_t *err) {
    td_buffer_t data;
    td_buffer_init(&data, alloc);
    td_status_t s = td_buffer_reserve(&data, (size_t)c->data_size, err);
    if (s == TD_OK) s = take(r, data.data, c->data_size, err);
    if (s == TD_OK) data.size = (size_t)c->data_size;
    if (s == TD_OK && td_riegeli_hash(data.data, data.size) != c->data_hash)
        s = td_fail_at(err, TD_MALFORMED, c->begin, "chunk data hash does not match");
    if (s == TD_OK) switch (c->type) {
        case 's':
            if (c->data_size || c->num_records || c->decoded_size) s = td_fail(err, TD_MALFORMED, "signature chunk is not empty");
            break;
        case 'm':
        case 'p':
            if (c->num_records) s = td_fail(err, TD_MALFORMED, "chunk of type '%c' with records", c->type);
            break;
        case 'r': s = simple_chunk(c, &data, alloc, k, method, err); break;
        case 't': s = td_fail(err, TD_UNSUPPORTED, "transposed chunk: no compiler writes one; rewrite the file without transposition"); break;
        default:
            if (c->num_records) s = td_fail(err, TD_UNSUPPORTED, "unknown chunk type 0x%02x", c->type);
        }
    td_buffer_deinit(&data);
    return s == TD_OK ? s : td_prefix(err, s, "chunk at offset %" PRIu64, c->begin);
}

td_status_t td_riegeli_read(td_span_t file, const td_alloc_t *alloc, td_riegeli_record_fn fn, void *ctx, char *out_compression,
                            td_err_t *err) {
    if (!td_riegeli_is(file)) return td_fail(err, TD_MALFORMED, "no Riegeli signature");
    reader_t r = {.file = file};
    sink_t k = {.fn = fn, .ctx = ctx};
    char method = 0;
    td_status_t s = TD_OK;
    while (s == TD_OK && !k.done && r.pos < file.size) {
        chunk_t c = {0};
        if ((s = chunk_header(&r, &c, err)) != TD_OK) break;
        s = chunk_body(&r, &c, alloc, &k, &method, err);
        r.pos = c.end;
    }
    if (s == TD_OK && out_compression) *out_compression = method;
    return s;
}
