/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/riegeli.h"

#include <highwayhash/c_bindings.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "base/checked.h"
#include "base/limits.h"
#include "proto/wire.h"

/* Where contents are passed over, chunks of more bytes are not worth hashing: they hold contents. */
enum { HASHED_CHUNK = 4 << 20 };
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

static td_status_t block_header(td_records_t *r, td_err_t *err) {
    uint64_t at = r->pos;
    uint8_t h[BLOCK_HEADER];
    if (r->in->end != UINT64_MAX && !td_range_ok(at, BLOCK_HEADER, r->in->end))
        return td_fail_at(err, TD_MALFORMED, at, "Riegeli file ends inside the block header at %" PRIu64, at);
    td_status_t s = td_feed_get(r->in, h, sizeof h, err);
    if (s != TD_OK) return s;
    if (td_riegeli_hash(h + 8, 16) != load64(h))
        return td_fail_at(err, TD_MALFORMED, at, "block header hash at %" PRIu64 " does not match", at);
    uint64_t previous = load64(h + 8), next = load64(h + 16);
    if (previous != at - r->chunk_begin)
        return td_fail_at(err, TD_MALFORMED, at,
                          "block at %" PRIu64 " says its chunk began %" PRIu64 " bytes before, it is %" PRIu64,
                          at, previous, at - r->chunk_begin);
    if (r->chunk_end && next != r->chunk_end - at)
        return td_fail_at(err, TD_MALFORMED, at,
                          "block at %" PRIu64 " says its chunk ends %" PRIu64 " bytes on, it is %" PRIu64, at,
                          next, r->chunk_end - at);
    if (!r->chunk_end && r->n_pending < 2) {
        r->pending[r->n_pending * 2] = at;
        r->pending[r->n_pending * 2 + 1] = next;
        r->n_pending++;
    }
    r->pos += BLOCK_HEADER;
    return TD_OK;
}

/* The next bytes of the chunk, up to the block's end: *n of them lie at *at and are taken. */
static td_status_t piece(td_records_t *r, uint64_t most, const uint8_t **at, size_t *n, td_err_t *err) {
    if (r->pos % BLOCK == 0) {
        td_status_t s = block_header(r, err);
        if (s != TD_OK) return s;
    }
    td_status_t s = td_feed_more(r->in, err);
    if (s != TD_OK) return s;
    if (!r->in->left)
        return td_fail_at(err, TD_MALFORMED, r->chunk_begin,
                          "truncated: chunk at %" PRIu64 " runs past the end of %" PRIu64 " bytes",
                          r->chunk_begin, r->pos);
    uint64_t in_block = BLOCK - r->pos % BLOCK, k = most < in_block ? most : in_block;
    *at = r->in->at;
    *n = r->in->left < k ? r->in->left : (size_t)k;
    td_feed_take(r->in, *n);
    r->pos += *n;
    return TD_OK;
}

static td_status_t data_fill(td_feed_t *s, td_err_t *err) {
    td_records_t *r = (td_records_t *)(void *)((char *)s - offsetof(td_records_t, data));
    if (s->given == s->end) return TD_OK;
    td_status_t st = piece(r, s->end - s->given, &s->at, &s->left, err);
    if (st == TD_OK && !r->passed_over) td_highway_add(&r->hash, s->at, s->left);
    return st;
}

/* Over block headers too: where the bytes end is a matter of arithmetic. */
static td_status_t data_skip(td_feed_t *s, uint64_t n, td_err_t *err) {
    td_records_t *r = (td_records_t *)(void *)((char *)s - offsetof(td_records_t, data));
    /* Right behind a block header is the same place as in front of it. */
    uint64_t to = 0, from = r->pos % BLOCK == BLOCK_HEADER ? r->pos - BLOCK_HEADER : r->pos;
    if (!add_with_overhead(from, n, &to)) return td_fail(err, TD_INTERNAL, "skip of %" PRIu64 " bytes", n);
    r->passed_over = true;
    td_status_t st = td_feed_skip(r->in, to - r->pos, err);
    r->pos = to;
    return st;
}

/* Reads a chunk's header. The chunk's data comes from r->data then. */
static td_status_t chunk_header(td_records_t *r, td_err_t *err) {
    uint8_t h[CHUNK_HEADER];
    td_chunk_t *c = &r->chunk;
    uint64_t file_end = r->in->end;
    *c = (td_chunk_t){.begin = r->pos};
    r->chunk_begin = r->pos;
    r->chunk_end = 0;
    r->n_pending = 0;
    for (size_t have = 0, n = 0; have < sizeof h; have += n) {
        const uint8_t *at = NULL;
        td_status_t s = piece(r, sizeof h - have, &at, &n, err);
        if (s != TD_OK) return s;
        memcpy(h + have, at, n);
    }
    if (td_riegeli_hash(h + 8, 32) != load64(h))
        return td_fail_at(err, TD_MALFORMED, c->begin, "chunk header hash at %" PRIu64 " does not match", c->begin);
    c->data_size = load64(h + 8);
    c->data_hash = load64(h + 16);
    c->type = h[24];
    c->num_records = load64(h + 24) >> 8;
    c->decoded_size = load64(h + 32);
    uint64_t whole, end, floor_end;
    if (!td_add_u64(c->data_size, CHUNK_HEADER, &whole) || !add_with_overhead(c->begin, whole, &end) ||
        !td_add_u64(c->begin, c->num_records, &floor_end) || floor_end > UINT64_MAX - BLOCK)
        return td_fail_at(err, TD_MALFORMED, c->begin, "chunk at %" PRIu64 " claims %" PRIu64 " bytes", c->begin,
                          c->data_size);
    floor_end = round_up_boundary(floor_end);
    c->end = end > floor_end ? end : floor_end;
    if (c->end > file_end)
        return td_fail_at(err, TD_MALFORMED, c->begin,
                          "truncated: chunk at %" PRIu64 " ends at %" PRIu64 ", the file at %" PRIu64,
                          c->begin, c->end, file_end);
    r->chunk_end = c->end;
    for (uint32_t i = 0; i < r->n_pending; i++)
        if (r->pending[i * 2 + 1] != c->end - r->pending[i * 2])
            return td_fail_at(err, TD_MALFORMED, c->begin,
                              "block header at %" PRIu64 " disagrees on the end of its chunk", r->pending[i * 2]);
    r->data = (td_feed_t){.end = c->data_size, .fill = data_fill, .skip = r->env->skips ? data_skip : NULL};
    r->passed_over = r->env->skips && c->data_size > HASHED_CHUNK;
    td_highway_init(&r->hash);
    return TD_OK;
}

/* A compressed field's stated size. */
static td_status_t stated_size(td_records_t *r, uint64_t max, uint64_t *out, td_err_t *err) {
    td_status_t s = td_feed_varint(&r->data, out, err);
    if (s == TD_OK && *out > max) s = td_fail(err, TD_MALFORMED, "bad decompressed size (at most %" PRIu64 ")", max);
    return s;
}

/* The sizes of the records, which stand in front of their bytes. */
static td_status_t read_sizes(td_records_t *r, char method, td_err_t *err) {
    uint64_t n = 0, max = r->chunk.num_records * 10, plain = 0;
    td_status_t s = td_feed_varint(&r->data, &n, err);
    if (s == TD_OK && n > r->data.end - td_feed_position(&r->data)) s = td_fail(err, TD_MALFORMED, "bad size of sizes");
    if (s != TD_OK) return s;
    uint64_t end = td_feed_position(&r->data) + n;
    r->sizes.size = 0;
    if (!method) {
        s = n > max ? td_fail(err, TD_MALFORMED, "%" PRIu64 " bytes of sizes for %" PRIu64 " records", n,
                              r->chunk.num_records)
                    : td_buffer_append_feed(&r->sizes, &r->data, n, err);
    } else if ((s = stated_size(r, max, &plain, err)) == TD_OK) {
        if (td_feed_position(&r->data) > end) return td_fail(err, TD_MALFORMED, "bad size of sizes");
        td_limit_t l;
        td_limit_open(&l, &r->data, end - td_feed_position(&r->data));
        s = td_decoder_open(&r->decoder, method, &l.s, plain, true, r->env, err);
        if (s == TD_OK) s = td_buffer_append_feed(&r->sizes, &r->decoder.s, plain, err);
        if (s == TD_OK) s = td_decoder_end(&r->decoder, err);
    }
    r->sizes_left = td_buffer_span(&r->sizes);
    return s;
}

static td_status_t open_simple(td_records_t *r, td_err_t *err) {
    const td_chunk_t *c = &r->chunk;
    uint8_t method = 0;
    uint64_t stated = 0;
    if (c->num_records > TD_LIMIT_RECORDS)
        return td_fail(err, TD_LIMIT, "%" PRIu64 " records, at most %u", c->num_records, TD_LIMIT_RECORDS);
    if (c->decoded_size > TD_LIMIT_ARTIFACT_BYTES)
        return td_fail(err, TD_LIMIT, "%" PRIu64 " decoded bytes, at most %llu", c->decoded_size,
                       TD_LIMIT_ARTIFACT_BYTES);
    if (!c->data_size) return td_fail(err, TD_MALFORMED, "empty data");
    td_status_t s = td_feed_get(&r->data, &method, 1, err);
    if (s == TD_OK) s = read_sizes(r, (char)method, err);
    if (s != TD_OK) return s;
    r->compression = (char)method;
    r->records_left = c->num_records;
    if (method) {
        if ((s = stated_size(r, c->decoded_size, &stated, err)) != TD_OK) return s;
        r->values = &r->decoder.s;
    } else {
        r->values = &r->data;
        stated = r->data.end - td_feed_position(&r->data);
    }
    if (stated != c->decoded_size)
        return td_fail(err, TD_MALFORMED, "%" PRIu64 " decoded bytes, the header says %" PRIu64, stated,
                       c->decoded_size);
    if (method) s = td_decoder_open(&r->decoder, (char)method, &r->data, stated, true, r->env, err);
    r->values_begin = td_feed_position(r->values);
    return s;
}

static td_status_t open_chunk(td_records_t *r, td_err_t *err) {
    const td_chunk_t *c = &r->chunk;
    r->records_left = 0;
    r->values = NULL;
    switch (c->type) {
    case 's':
        if (!c->data_size && !c->num_records && !c->decoded_size) return TD_OK;
        return td_fail(err, TD_MALFORMED, "signature chunk is not empty");
    case 'm':
    case 'p': return c->num_records ? td_fail(err, TD_MALFORMED, "chunk of type '%c' with records", c->type) : TD_OK;
    case 'r': return open_simple(r, err);
    case 't': return td_fail(err, TD_UNSUPPORTED,
                             "transposed chunk: no compiler writes one; rewrite the file without transposition");
    default: return c->num_records ? td_fail(err, TD_UNSUPPORTED, "unknown chunk type 0x%02x", c->type) : TD_OK;
    }
}

static bool hash_right(td_records_t *r) {
    return r->passed_over || td_highway_end(&r->hash) == r->chunk.data_hash;
}
static td_status_t wrong_hash(const td_records_t *r, td_err_t *err) {
    return td_fail_at(err, TD_MALFORMED, r->chunk.begin, "chunk data hash does not match");
}

static uint64_t values_left(const td_records_t *r) {
    return r->chunk.decoded_size - (td_feed_position(r->values) - r->values_begin);
}

/* All records were read: nothing may be left over, and the data was what its hash says. */
static td_status_t close_chunk(td_records_t *r, td_err_t *err) {
    td_status_t s = TD_OK;
    if (r->values) {
        uint64_t left = values_left(r);
        if (r->sizes_left.size || left)
            return td_fail(err, TD_MALFORMED, "%zu bytes of sizes and %" PRIu64 " of values are left over",
                           r->sizes_left.size, left);
        if (r->values == &r->decoder.s && !(r->env->skips && r->passed_over)) s = td_decoder_end(&r->decoder, err);
    }
    if (s == TD_OK) s = td_feed_skip(&r->data, r->data.end - td_feed_position(&r->data), err);
    if (s == TD_OK && !hash_right(r)) s = wrong_hash(r, err);
    if (s == TD_OK && r->pos < r->chunk.end) s = td_feed_skip(r->in, r->chunk.end - r->pos, err);
    if (s != TD_OK) return s;
    r->pos = r->chunk.end;
    r->in_chunk = false;
    return TD_OK;
}

static td_status_t next_record(td_records_t *r, td_feed_t **out, td_err_t *err) {
    uint64_t n = 0, left = values_left(r), i = r->chunk.num_records - r->records_left;
    if (!td_wire_varint(&r->sizes_left, &n))
        return td_fail(err, TD_MALFORMED, "size of record %" PRIu64 " is missing", i);
    if (n > left)
        return td_fail(err, TD_MALFORMED, "record %" PRIu64 " of %" PRIu64 " bytes, %" PRIu64 " are left", i, n, left);
    td_limit_open(&r->record, r->values, n);
    r->in_record = true;
    r->records_left--;
    r->index++;
    *out = &r->record.s;
    return TD_OK;
}

static td_status_t step(td_records_t *r, td_feed_t **out, td_err_t *err) {
    td_status_t s = TD_OK;
    if (r->in_record) s = td_limit_end(&r->record, err);
    r->in_record = false;
    if (s == TD_OK && r->records_left) return next_record(r, out, err);
    if (s == TD_OK && r->in_chunk) s = close_chunk(r, err);
    return s;
}

void td_records_open(td_records_t *r, td_feed_t *in, td_feed_env_t *env) {
    *r = (td_records_t){.in = in, .env = env};
    td_buffer_init(&r->sizes, env->alloc);
}

td_status_t td_records_next(td_records_t *r, td_feed_t **out, td_err_t *err) {
    *out = NULL;
    for (;;) {
        td_status_t s = step(r, out, err);
        if (s != TD_OK) return td_records_blame(r, s, err);
        if (*out) return TD_OK;
        if ((s = td_feed_more(r->in, err)) != TD_OK || !r->in->left) return s;
        if ((s = chunk_header(r, err)) != TD_OK) return s;
        r->in_chunk = true;
        if ((s = open_chunk(r, err)) != TD_OK) return td_records_blame(r, s, err);
    }
}

td_status_t td_records_blame(td_records_t *r, td_status_t s, td_err_t *err) {
    if (!r->in_chunk || s == TD_OK) return s;
    bool about_bytes = s == TD_MALFORMED || s == TD_UNSUPPORTED || s == TD_LIMIT || s == TD_MISMATCH;
    r->in_chunk = r->in_record = false;
    r->records_left = 0;
    uint64_t left = r->data.end - td_feed_position(&r->data);
    if (about_bytes && td_feed_skip(&r->data, left, NULL) == TD_OK && !hash_right(r))
        s = wrong_hash(r, err);
    return td_prefix(err, s, "chunk at offset %" PRIu64, r->chunk.begin);
}

void td_records_close(td_records_t *r) {
    td_decoder_close(&r->decoder);
    td_buffer_deinit(&r->sizes);
}
