/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/codec.h"

#include <brotli/decode.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "base/checked.h"

enum {
    WINDOW = 128 << 10, /* of decompressed bytes */
    GROW_STEP = 256 << 10,
};

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
td_status_t td_buffer_append_feed(td_buffer_t *b, td_feed_t *in, uint64_t n, td_err_t *err) {
    td_status_t s = TD_OK;
    while (s == TD_OK && n) {
        size_t k = n < GROW_STEP ? (size_t)n : GROW_STEP;
        s = td_buffer_reserve(b, k, err);
        if (s == TD_OK) s = td_feed_get(in, b->data + b->size, k, err);
        if (s == TD_OK) b->size += k;
        n -= k;
    }
    return s;
}
void td_buffer_deinit(td_buffer_t *b) {
    if (b->alloc) b->alloc->put(b->alloc->ctx, b->data, b->capacity);
    b->data = NULL;
    b->size = b->capacity = 0;
}

/* One step of a library: compressed bytes in, a part of the window out. Sets *done at the end of its stream. */
typedef struct step {
    const uint8_t *in;
    size_t in_left;
    uint8_t *out;
    size_t out_left;
} step_t;

static td_status_t zstd_open(td_decoder_t *d, td_err_t *err) {
    d->library = ZSTD_createDCtx();
    return d->library ? TD_OK : td_fail(err, TD_NOMEM, "out of memory for zstd");
}
static td_status_t zstd_step(td_decoder_t *d, step_t *p, td_err_t *err) {
    ZSTD_inBuffer ib = {p->in, p->in_left, 0};
    ZSTD_outBuffer ob = {p->out, p->out_left, 0};
    size_t left = ZSTD_decompressStream(d->library, &ob, &ib);
    if (ZSTD_isError(left)) return td_fail(err, TD_MALFORMED, "zstd: %s", ZSTD_getErrorName(left));
    p->in_left -= ib.pos;
    p->out_left -= ob.pos;
    d->done = left == 0;
    return TD_OK;
}
static void zstd_close(td_decoder_t *d) {
    ZSTD_freeDCtx(d->library);
}

static td_status_t brotli_open(td_decoder_t *d, td_err_t *err) {
    d->library = BrotliDecoderCreateInstance(NULL, NULL, NULL);
    return d->library ? TD_OK : td_fail(err, TD_NOMEM, "out of memory for brotli");
}
static td_status_t brotli_step(td_decoder_t *d, step_t *p, td_err_t *err) {
    BrotliDecoderResult r =
        BrotliDecoderDecompressStream(d->library, &p->in_left, &p->in, &p->out_left, &p->out, NULL);
    if (r == BROTLI_DECODER_RESULT_ERROR)
        return td_fail(err, TD_MALFORMED, "damaged brotli stream: %s",
                       BrotliDecoderErrorString(BrotliDecoderGetErrorCode(d->library)));
    d->done = r == BROTLI_DECODER_RESULT_SUCCESS;
    return TD_OK;
}
static void brotli_close(td_decoder_t *d) {
    BrotliDecoderDestroyInstance(d->library);
}

static td_status_t zlib_open(td_decoder_t *d, td_err_t *err) {
    z_stream *z = d->library = calloc(1, sizeof *z);
    if (z && inflateInit(z) == Z_OK) return TD_OK;
    free(z);
    d->library = NULL;
    return td_fail(err, TD_NOMEM, "out of memory for zlib");
}
static td_status_t zlib_step(td_decoder_t *d, step_t *p, td_err_t *err) {
    z_stream *z = d->library;
    z->next_in = (Bytef *)(uintptr_t)p->in;
    z->avail_in = (uInt)(p->in_left < UINT32_MAX ? p->in_left : UINT32_MAX);
    z->next_out = p->out;
    z->avail_out = (uInt)p->out_left;
    uInt given = z->avail_in;
    int r = inflate(z, Z_NO_FLUSH);
    if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR) return td_fail(err, TD_MALFORMED, "damaged zlib stream");
    p->in_left -= given - z->avail_in;
    p->out_left = z->avail_out;
    d->done = r == Z_STREAM_END;
    return TD_OK;
}
static void zlib_close(td_decoder_t *d) {
    if (d->library) inflateEnd(d->library);
    free(d->library);
}

static const struct library {
    char method;
    const char *name;
    td_status_t (*open)(td_decoder_t *d, td_err_t *err);
    td_status_t (*step)(td_decoder_t *d, step_t *p, td_err_t *err);
    void (*close)(td_decoder_t *d);
} libraries[] = {
    {'z', "zstd", zstd_open, zstd_step, zstd_close},
    {'b', "brotli", brotli_open, brotli_step, brotli_close},
    {'d', "zlib", zlib_open, zlib_step, zlib_close},
    {'s', "snappy", td_snappy_open, NULL, NULL},
};
enum { LIBRARIES = sizeof libraries / sizeof *libraries };

static const struct library *library_of(char method) {
    for (unsigned i = 0; i < LIBRARIES; i++)
        if (libraries[i].method == method) return &libraries[i];
    return NULL;
}

/* Runs the library until it has given something or is at its end. */
static td_status_t library_fill(td_decoder_t *d, const struct library *lib, td_err_t *err) {
    while (!d->done && !d->used) {
        td_status_t s = td_feed_more(d->in, err);
        if (s != TD_OK) return s;
        step_t p = {d->in->at, d->in->left, d->buf, WINDOW};
        size_t before = d->in->left;
        if ((s = lib->step(d, &p, err)) != TD_OK) return s;
        td_feed_take(d->in, before - p.in_left);
        d->used = WINDOW - p.out_left;
        if (!d->done && !d->used && !before)
            return td_fail(err, TD_MALFORMED, "%s stream ends early", lib->name);
    }
    d->s.at = d->buf;
    d->s.left = d->used;
    d->used = 0;
    return TD_OK;
}

static td_status_t fill(td_feed_t *s, td_err_t *err) {
    td_decoder_t *d = (td_decoder_t *)(void *)s;
    const struct library *lib = library_of(d->method);
    td_status_t st = td_feed_cancelled(d->env, err);
    if (st == TD_OK && !d->done) st = lib->step ? library_fill(d, lib, err) : td_snappy_fill(d, err);
    if (st != TD_OK) return st;
    if (s->left > d->size - s->given)
        return td_fail(err, TD_MALFORMED, "%s stream decompresses to more than the %" PRIu64 " bytes allowed here",
                       lib->name, d->size);
    if (!s->left && d->exact && s->given != d->size)
        return td_fail(err, TD_MALFORMED, "%s stream gives %" PRIu64 " bytes, its header says %" PRIu64, lib->name,
                       s->given, d->size);
    return TD_OK;
}

td_status_t td_decoder_reserve(td_decoder_t *d, size_t capacity, td_err_t *err) {
    const td_alloc_t *alloc = d->env->alloc;
    if (d->capacity >= capacity) return TD_OK;
    alloc->put(alloc->ctx, d->buf, d->capacity);
    d->capacity = 0;
    d->buf = alloc->get(alloc->ctx, capacity, 64);
    if (!d->buf) return td_fail(err, TD_NOMEM, "out of memory for a window of %zu bytes", capacity);
    d->capacity = capacity;
    return TD_OK;
}

static void close_library(td_decoder_t *d) {
    const struct library *lib = library_of(d->method);
    if (lib && lib->close) lib->close(d);
    d->library = NULL;
}

td_status_t td_decoder_open(td_decoder_t *d, char method, td_feed_t *in, uint64_t size, bool exact,
                            td_feed_env_t *env, td_err_t *err) {
    const struct library *lib = library_of(method);
    if (!lib) return td_fail(err, TD_UNSUPPORTED, "unknown compression type 0x%02x", (unsigned char)method);
    close_library(d);
    *d = (td_decoder_t){.s = {.end = exact ? size : UINT64_MAX, .fill = fill}, .in = in, .env = env, .method = method,
                        .exact = exact, .size = size, .buf = d->buf, .capacity = d->capacity};
    td_status_t s = td_decoder_reserve(d, WINDOW, err);
    return s == TD_OK ? lib->open(d, err) : s;
}

td_status_t td_decoder_end(td_decoder_t *d, td_err_t *err) {
    td_status_t s = TD_OK;
    do {
        d->s.left = 0;
        s = td_feed_more(&d->s, err);
    } while (s == TD_OK && d->s.left);
    if (s == TD_OK) s = td_feed_more(d->in, err);
    if (s == TD_OK && d->in->left)
        s = td_fail(err, TD_MALFORMED, "%zu bytes or more behind the %s stream", d->in->left,
                    library_of(d->method)->name);
    close_library(d);
    return s;
}

void td_decoder_close(td_decoder_t *d) {
    if (!d->env) return;
    close_library(d);
    d->env->alloc->put(d->env->alloc->ctx, d->buf, d->capacity);
    *d = (td_decoder_t){0};
}
