/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/codec.h"

#include <brotli/decode.h>
#include <snappy-c.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "base/checked.h"

void td_buffer_init(td_buffer_t *b, const td_alloc_t *alloc) {
    *b = (td_buffer_t){.alloc = alloc};
}
td_status_t td_buffer_reserve(td_buffer_t *b, size_t more, td_err_t *err) {
    if (more <= b->capacity - b->size) return TD_OK;
    size_t need;
    if (!td_add_size(b->size, more, &need)) return td_fail(err, TD_LIMIT, "buffer of %zu + %zu bytes", b->size, more);
    size_t half = b->capacity / 2;
    if (half < SIZE_MAX - b->capacity && b->capacity + half > need) need = b->capacity + half;
    uint8_t *p = b->alloc->get(b->alloc->ctx, need, 64);
    if (!p) return td_fail(err, TD_NOMEM, "out of memory for a buffer of %zu bytes", need);
    if (b->size) memcpy(p, b->data, b->size);
    b->alloc->put(b->alloc->ctx, b->data, b->capacity);
    b->data = p;
    b->capacity = need;
    return TD_OK;
}
td_status_t td_buffer_append(td_buffer_t *b, const void *data, size_t size, td_err_t *err) {
    td_status_t s = td_buffer_reserve(b, size, err);
    if (s != TD_OK) return s;
    if (size) memcpy(b->data + b->size, data, size);
    b->size += size;
    return TD_OK;
}
void td_buffer_deinit(td_buffer_t *b) {
    if (b->alloc) b->alloc->put(b->alloc->ctx, b->data, b->capacity);
    b->data = NULL;
    b->size = b->capacity = 0;
}

static td_status_t too_long(const char *what, size_t max, td_err_t *err) {
    return td_fail(err, TD_MALFORMED, "%s stream decompresses to more than the %zu bytes allowed here", what, max);
}

static td_status_t snappy(td_span_t in, size_t max, td_buffer_t *out, td_err_t *err) {
    size_t n = 0;
    if (snappy_uncompressed_length((const char *)in.data, in.size, &n) != SNAPPY_OK)
        return td_fail(err, TD_MALFORMED, "snappy block without a length");
    if (n > max) return too_long("snappy", max, err);
    /* A 3-byte element yields 64 bytes at most: a larger claim is a lie and is not allocated. */
    if (n / 32 > in.size) return td_fail(err, TD_MALFORMED, "snappy block of %zu bytes claims %zu", in.size, n);
    td_status_t s = td_buffer_reserve(out, n, err);
    if (s != TD_OK) return s;
    size_t got = n;
    char none[1];
    char *dst = n ? (char *)out->data + out->size : none;
    if (snappy_uncompress((const char *)in.data, in.size, dst, &got) != SNAPPY_OK || got != n)
        return td_fail(err, TD_MALFORMED, "damaged snappy block");
    out->size += n;
    return TD_OK;
}

enum { STEP = 256 << 10 };

static size_t room(const td_buffer_t *out, size_t start, size_t max) {
    size_t left = max - (out->size - start);
    return left < STEP ? left + 1 : STEP; /* one byte more, to see an overrun */
}

static td_status_t zstd(td_span_t in, size_t max, td_buffer_t *out, td_err_t *err) {
    ZSTD_DCtx *ctx = ZSTD_createDCtx();
    if (!ctx) return td_fail(err, TD_NOMEM, "out of memory for zstd");
    td_status_t s = TD_OK;
    size_t start = out->size, left = 1;
    ZSTD_inBuffer ib = {in.data, in.size, 0};
    while (s == TD_OK && left != 0) {
        size_t n = room(out, start, max);
        if ((s = td_buffer_reserve(out, n, err)) != TD_OK) break;
        ZSTD_outBuffer ob = {out->data + out->size, n, 0};
        size_t before = ib.pos;
        left = ZSTD_decompressStream(ctx, &ob, &ib);
        out->size += ob.pos;
        if (ZSTD_isError(left)) s = td_fail(err, TD_MALFORMED, "zstd: %s", ZSTD_getErrorName(left));
        else if (out->size - start > max) s = too_long("zstd", max, err);
        else if (left != 0 && ob.pos == 0 && ib.pos == before) s = td_fail(err, TD_MALFORMED, "zstd frame ends early");
    }
    if (s == TD_OK && ib.pos != in.size) s = td_fail(err, TD_MALFORMED, "%zu bytes behind the zstd frame", in.size - ib.pos);
    ZSTD_freeDCtx(ctx);
    return s;
}

static td_status_t brotli(td_span_t in, size_t max, td_buffer_t *out, td_err_t *err) {
    BrotliDecoderState *st = BrotliDecoderCreateInstance(NULL, NULL, NULL);
    if (!st) return td_fail(err, TD_NOMEM, "out of memory for brotli");
    td_status_t s = TD_OK;
    size_t start = out->size, avail_in = in.size;
    const uint8_t *next_in = in.data;
    BrotliDecoderResult r = BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT;
    while (s == TD_OK && r == BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT) {
        size_t n = room(out, start, max);
        if ((s = td_buffer_reserve(out, n, err)) != TD_OK) break;
        uint8_t *next_out = out->data + out->size;
        size_t avail_out = n;
        r = BrotliDecoderDecompressStream(st, &avail_in, &next_in, &avail_out, &next_out, NULL);
        out->size += n - avail_out;
        if (out->size - start > max) s = too_long("brotli", max, err);
    }
    if (s == TD_OK && r != BROTLI_DECODER_RESULT_SUCCESS) s = td_fail(err, TD_MALFORMED, "damaged or truncated brotli stream");
    if (s == TD_OK && avail_in) s = td_fail(err, TD_MALFORMED, "%zu bytes behind the brotli stream", avail_in);
    BrotliDecoderDestroyInstance(st);
    return s;
}

static td_status_t deflated(td_span_t in, size_t max, td_buffer_t *out, td_err_t *err) {
    z_stream z = {0};
    if (in.size > UINT32_MAX) return td_fail(err, TD_LIMIT, "zlib stream of %zu bytes", in.size);
    if (inflateInit(&z) != Z_OK) return td_fail(err, TD_NOMEM, "out of memory for zlib");
    td_status_t s = TD_OK;
    size_t start = out->size;
    z.next_in = (Bytef *)(uintptr_t)in.data;
    z.avail_in = (uInt)in.size;
    int r = Z_OK;
    while (s == TD_OK && r != Z_STREAM_END) {
        size_t n = room(out, start, max);
        if ((s = td_buffer_reserve(out, n, err)) != TD_OK) break;
        z.next_out = out->data + out->size;
        z.avail_out = (uInt)n;
        r = inflate(&z, Z_NO_FLUSH);
        out->size += n - z.avail_out;
        if (out->size - start > max) s = too_long("zlib", max, err);
        else if (r != Z_OK && r != Z_STREAM_END) s = td_fail(err, TD_MALFORMED, "damaged or truncated zlib stream");
    }
    inflateEnd(&z);
    return s;
}

td_status_t td_decompress(char method, td_span_t in, size_t max, td_buffer_t *out, td_err_t *err) {
    switch (method) {
    case 's': return snappy(in, max, out, err);
    case 'z': return zstd(in, max, out, err);
    case 'b': return brotli(in, max, out, err);
    case 'd': return deflated(in, max, out, err);
    default: return td_fail(err, TD_UNSUPPORTED, "unknown compression type 0x%02x", (unsigned char)method);
    }
}
