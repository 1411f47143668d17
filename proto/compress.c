/* SPDX-License-Identifier: Apache-2.0 */
/* The compressing half of the Riegeli writer: pieces in, pieces out. */
#include <brotli/encode.h>
#include <snappy-c.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "proto/riegeli_write.h"
#include "proto/wire.h"

enum {
    STEP = 256 << 10,
    SNAPPY_FRAGMENT = 65536, /* snappy compresses in fragments of this size that do not refer to each other */
};

static const struct {
    const char *name;
    char method;
    int least, most, usual;
} methods[] = {
    {"none", 0, 0, 0, 0},
    {"snappy", 's', 0, 0, 0},
    {"brotli", 'b', BROTLI_MIN_QUALITY, BROTLI_MAX_QUALITY, 6},
    {"zstd", 'z', -7, 22, 3},
};

td_status_t td_compression_parse(const char *text, td_compression_t *out, td_err_t *err) {
    size_t n = strcspn(text, ":");
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        if (strlen(methods[i].name) != n || strncmp(text, methods[i].name, n) != 0) continue;
        td_compression_t c = {.method = methods[i].method, .level = methods[i].usual};
        if (text[n]) {
            char *end;
            long v = strtol(text + n + 1, &end, 10);
            if (methods[i].least == methods[i].most) return td_fail(err, TD_USAGE, "%s has no levels", methods[i].name);
            if (end == text + n + 1 || *end || v < methods[i].least || v > methods[i].most)
                return td_fail(err, TD_USAGE, "level \"%.16s\" of %s: expected %d to %d", text + n + 1, methods[i].name,
                               methods[i].least, methods[i].most);
            c.level = (int)v;
        }
        *out = c;
        return TD_OK;
    }
    return td_fail(err, TD_USAGE, "compression \"%.32s\": expected none, snappy, brotli[:0-11] or zstd[:-7-22]", text);
}

/* Copies up to n bytes from the rope at (*piece, *at) and moves on. */
static size_t fill(const td_rope_t *in, uint32_t *piece, size_t *at, uint8_t *dst, size_t n) {
    size_t got = 0;
    while (got < n && *piece < in->n) {
        td_span_t p = in->pieces[*piece];
        size_t k = p.size - *at < n - got ? p.size - *at : n - got;
        memcpy(dst + got, p.data + *at, k);
        got += k;
        *at += k;
        if (*at == p.size) ++*piece, *at = 0;
    }
    return got;
}

static void tick(td_compression_t c, uint64_t bytes) {
    if (c.tick) c.tick(c.ctx, bytes);
}

/* A snappy block is a length and elements; the elements of the fragments simply follow each other. */
static td_status_t snappy(td_compression_t c, const td_rope_t *in, td_rope_t *out, uint8_t *tmp, size_t tmp_size,
                          td_err_t *err) {
    uint8_t *raw = malloc(SNAPPY_FRAGMENT);
    if (!raw) return td_fail(err, TD_NOMEM, "out of memory for snappy");
    if (in->size > UINT32_MAX) {
        free(raw);
        return td_fail(err, TD_LIMIT, "snappy blocks hold at most 4 GiB");
    }
    td_rope_varint(out, in->size);
    uint32_t piece = 0;
    size_t at = 0, n;
    td_status_t s = TD_OK;
    while (s == TD_OK && (n = fill(in, &piece, &at, raw, SNAPPY_FRAGMENT))) {
        size_t got = tmp_size;
        td_span_t block = {tmp, 0};
        uint64_t length;
        if (snappy_compress((const char *)raw, n, (char *)tmp, &got) != SNAPPY_OK) {
            s = td_fail(err, TD_INTERNAL, "snappy refuses %zu bytes", n);
            break;
        }
        block.size = got;
        if (td_wire_varint(&block, &length)) td_rope_copy(out, block.data, block.size);
        tick(c, n);
    }
    free(raw);
    return s;
}

static td_status_t zstd(td_compression_t c, const td_rope_t *in, td_rope_t *out, uint8_t *tmp, size_t tmp_size,
                        td_err_t *err) {
    ZSTD_CCtx *ctx = ZSTD_createCCtx();
    if (!ctx) return td_fail(err, TD_NOMEM, "out of memory for zstd");
    ZSTD_CCtx_setParameter(ctx, ZSTD_c_compressionLevel, c.level);
    ZSTD_CCtx_setPledgedSrcSize(ctx, in->size);
    size_t left = 1;
    for (uint32_t i = 0; left && !ZSTD_isError(left) && i <= in->n; i++) {
        bool last = i == in->n;
        ZSTD_inBuffer ib = {last ? NULL : in->pieces[i].data, last ? 0 : in->pieces[i].size, 0};
        do {
            ZSTD_outBuffer ob = {tmp, tmp_size, 0};
            size_t before = ib.pos;
            left = ZSTD_compressStream2(ctx, &ob, &ib, last ? ZSTD_e_end : ZSTD_e_continue);
            if (!ZSTD_isError(left)) td_rope_copy(out, tmp, ob.pos);
            tick(c, ib.pos - before);
        } while (!ZSTD_isError(left) && (last ? left != 0 : ib.pos < ib.size));
        if (!last && !left) left = 1; /* nothing is waiting now; the end is still to come */
    }
    ZSTD_freeCCtx(ctx);
    return ZSTD_isError(left) ? td_fail(err, TD_INTERNAL, "zstd: %s", ZSTD_getErrorName(left)) : TD_OK;
}

static td_status_t brotli(td_compression_t c, const td_rope_t *in, td_rope_t *out, uint8_t *tmp, size_t tmp_size,
                          td_err_t *err) {
    BrotliEncoderState *st = BrotliEncoderCreateInstance(NULL, NULL, NULL);
    if (!st) return td_fail(err, TD_NOMEM, "out of memory for brotli");
    BrotliEncoderSetParameter(st, BROTLI_PARAM_QUALITY, (uint32_t)c.level);
    BrotliEncoderSetParameter(st, BROTLI_PARAM_SIZE_HINT, in->size < UINT32_MAX ? (uint32_t)in->size : UINT32_MAX);
    bool ok = true;
    for (uint32_t i = 0; ok && i <= in->n; i++) {
        bool last = i == in->n;
        const uint8_t *p = last ? NULL : in->pieces[i].data;
        size_t n = last ? 0 : in->pieces[i].size;
        bool more = true;
        while (ok && more) {
            uint8_t *q = tmp;
            size_t room = tmp_size, before = n;
            BrotliEncoderOperation op = last ? BROTLI_OPERATION_FINISH : BROTLI_OPERATION_PROCESS;
            ok = BrotliEncoderCompressStream(st, op, &n, &p, &room, &q, NULL);
            td_rope_copy(out, tmp, tmp_size - room);
            tick(c, before - n);
            more = n || BrotliEncoderHasMoreOutput(st) || (last && !BrotliEncoderIsFinished(st));
        }
    }
    BrotliEncoderDestroyInstance(st);
    return ok ? TD_OK : td_fail(err, TD_INTERNAL, "brotli refuses the bytes");
}

td_status_t td_compress(td_compression_t c, const td_rope_t *in, td_rope_t *out, td_err_t *err) {
    td_status_t s = td_rope_status(in, err);
    if (s != TD_OK) return s;
    if (!c.method) {
        td_rope_join(out, in);
        return TD_OK;
    }
    size_t need = snappy_max_compressed_length(SNAPPY_FRAGMENT), size = need > STEP ? need : STEP;
    uint8_t *tmp = malloc(size);
    if (!tmp) return td_fail(err, TD_NOMEM, "out of memory for compression");
    switch (c.method) {
    case 's': s = snappy(c, in, out, tmp, size, err); break;
    case 'z': s = zstd(c, in, out, tmp, size, err); break;
    case 'b': s = brotli(c, in, out, tmp, size, err); break;
    default: s = td_fail(err, TD_INTERNAL, "unknown compression type 0x%02x", (unsigned char)c.method);
    }
    free(tmp);
    return s == TD_OK ? td_rope_status(out, err) : s;
}
