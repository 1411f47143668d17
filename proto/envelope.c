/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/envelope.h"

#include <inttypes.h>
#include <string.h>

#include "base/limits.h"
#include "proto/riegeli.h"
#include "proto/text.h"
#include "proto/wire.h"

static const char *const form_names[TD_FORM_COUNT] = {
    [TD_FORM_UNKNOWN] = "unknown",           [TD_FORM_PICKLE] = "pickle",         [TD_FORM_CACHE] = "cache-entry",
    [TD_FORM_IFRT] = "ifrt",                 [TD_FORM_PJRT_RIEGELI] = "pjrt-riegeli", [TD_FORM_PJRT_PLAIN] = "pjrt-plain",
    [TD_FORM_INNER_RIEGELI] = "inner-riegeli", [TD_FORM_INNER_PLAIN] = "inner-plain", [TD_FORM_TEXT] = "text",
};
const char *td_form_name(td_form_t f) {
    return (unsigned)f < TD_FORM_COUNT ? form_names[f] : "unknown";
}

/* The first bytes are enough to tell the forms apart. IFRT's metadata may be that long, and what stands behind it is
 * looked at too. */
enum { METADATA_MAX = 1 << 20, FIRST_BYTES = METADATA_MAX + 4096 };

/* ---- looking ahead ---- */

static td_status_t peek_fill(td_feed_t *s, td_err_t *err) {
    td_peek_t *p = (td_peek_t *)(void *)s;
    if (!p->shown && p->first.size) {
        p->shown = true;
        s->at = p->first.data;
        s->left = p->first.size;
        return TD_OK;
    }
    td_status_t st = td_feed_more(p->in, err);
    s->at = p->in->at;
    s->left = p->in->left;
    td_feed_take(p->in, s->left);
    return st;
}

static td_status_t peek_skip(td_feed_t *s, uint64_t n, td_err_t *err) {
    td_peek_t *p = (td_peek_t *)(void *)s;
    if (!p->shown && p->first.size) { /* looked at, not read */
        p->shown = true;
        size_t k = p->first.size < n ? p->first.size : (size_t)n;
        if ((n -= k) == 0) {
            s->at = p->first.data + k;
            s->left = p->first.size - k;
            s->given += s->left;
            return TD_OK;
        }
    }
    return td_feed_skip(p->in, n, err);
}

/* The first n bytes, or less where the stream ends. Before anything is read. */
static td_status_t peek(td_peek_t *p, size_t n, td_span_t *out, td_err_t *err) {
    td_status_t s = TD_OK;
    while (s == TD_OK && p->first.size < n) {
        s = td_feed_more(p->in, err);
        if (s != TD_OK || !p->in->left) break;
        /* What lies in one window to the end need not be copied. */
        if (!p->first.size && (p->in->left >= n || td_feed_position(p->in) + p->in->left == p->in->end)) {
            *out = (td_span_t){p->in->at, p->in->left};
            return TD_OK;
        }
        size_t k = p->in->left < n - p->first.size ? p->in->left : n - p->first.size;
        s = td_buffer_append(&p->first, p->in->at, k, err);
        if (s == TD_OK) td_feed_take(p->in, k);
    }
    *out = td_buffer_span(&p->first);
    return s;
}

td_status_t td_peek_open(td_peek_t *p, td_feed_t *in, td_feed_env_t *env, bool *out_riegeli, td_err_t *err) {
    uint64_t begin = td_feed_position(in);
    *p = (td_peek_t){.s = {.end = in->end == UINT64_MAX ? UINT64_MAX : in->end - begin, .fill = peek_fill,
                           .skip = peek_skip}, .in = in, .begin = begin};
    td_buffer_init(&p->first, env->alloc);
    td_span_t first = {0};
    td_status_t s = peek(p, TD_RIEGELI_SIGNATURE_BYTES, &first, err);
    *out_riegeli = td_riegeli_is(first);
    return s;
}

void td_peek_close(td_peek_t *p) {
    td_buffer_deinit(&p->first);
}

/* ---- the forms, told by first bytes b of `all` (UINT64_MAX: unknown) ---- */

/* A plain ExecutableAndOptionsProto: splits into fields, as far as can be seen, field 1 is not empty,
 * and nothing but fields 1 to 3 (a later schema may add a few) stands in it. */
static bool is_plain_outer(td_span_t b, uint64_t all) {
    td_span_t in = b;
    bool exe = false;
    while (in.size) {
        uint64_t tag = 0, n = 0, at;
        if (!td_wire_varint(&in, &tag) || !td_wire_varint(&in, &n)) return exe && all > b.size;
        if (tag >> 3 == 0 || tag >> 3 > 64 || (tag & 7) != TD_WIRE_LEN || n > INT32_MAX) return false;
        at = b.size - in.size;
        if (n > all - at) return false;
        exe |= tag >> 3 == 1 && n > 1;
        if (n > in.size) return exe;
        in.data += n;
        in.size -= (size_t)n;
    }
    return exe;
}

static bool is_pickle(td_span_t b, uint64_t all) {
    (void)all;
    return b.size > 2 && b.data[0] == 0x80 && b.data[1] >= 2 && b.data[1] <= 5;
}
static td_status_t open_pickle(td_envelope_t *e, td_layer_t *l, td_feed_t **out, td_err_t *err) {
    (void)e;
    *out = &l->pickle.object.s;
    return td_pickle_open(&l->pickle, &l->peek.s, err);
}
static td_status_t end_pickle(td_layer_t *l, td_err_t *err) {
    return td_pickle_end(&l->pickle, err);
}

static bool is_zstd(td_span_t b) {
    return b.size > 4 && memcmp(b.data, "\x28\xb5\x2f\xfd", 4) == 0;
}
static bool is_zlib(td_span_t b) {
    return b.size > 2 && b.data[0] == 0x78 && (b.data[0] * 256u + b.data[1]) % 31 == 0 && !(b.data[1] & 0x20);
}
static bool is_cache(td_span_t b, uint64_t all) {
    (void)all;
    return is_zstd(b) || is_zlib(b);
}
/* JAX's persistent cache: compressed( u32 big-endian compile seconds || IFRT bytes ). */
static td_status_t open_cache(td_envelope_t *e, td_layer_t *l, td_feed_t **out, td_err_t *err) {
    td_span_t first = {0};
    td_status_t s = peek(&l->peek, 5, &first, err);
    if (s == TD_OK)
        s = td_decoder_open(&l->decoder, is_zstd(first) ? 'z' : 'd', &l->peek.s, TD_LIMIT_ARTIFACT_BYTES, false, e->env,
                            err);
    if (s == TD_OK) s = td_feed_skip(&l->decoder.s, 4, err);
    *out = &l->decoder.s;
    return s == TD_OK ? s : td_prefix(err, s, "cache entry");
}
static td_status_t end_cache(td_layer_t *l, td_err_t *err) {
    td_status_t s = td_decoder_end(&l->decoder, err);
    return s == TD_OK ? s : td_prefix(err, s, "cache entry");
}

/* varint length, SerializedXlaExecutableMetadata, PJRT bytes. */
static bool is_ifrt(td_span_t b, uint64_t all) {
    uint64_t n;
    td_span_t rest = b;
    if (!td_wire_varint(&rest, &n) || n >= rest.size || n > METADATA_MAX) return false;
    if (!td_wire_scan((td_span_t){rest.data, (size_t)n}, 0, NULL)) return false;
    rest.data += n;
    rest.size -= (size_t)n;
    if (td_riegeli_is(rest)) return true;
    uint64_t before = b.size - rest.size;
    return !is_plain_outer(b, all) && is_plain_outer(rest, all == UINT64_MAX ? all : all - before);
}
static td_status_t open_ifrt(td_envelope_t *e, td_layer_t *l, td_feed_t **out, td_err_t *err) {
    (void)e;
    uint64_t n = 0;
    *out = &l->peek.s;
    td_status_t s = td_feed_varint(&l->peek.s, &n, err);
    return s == TD_OK ? td_feed_skip(&l->peek.s, n, err) : s;
}

static bool is_text(td_span_t b, uint64_t all) {
    (void)all;
    return td_text_is_artifact(b);
}
/* HumanReadableAotExecutable. */
static td_status_t open_text(td_envelope_t *e, td_layer_t *l, td_feed_t **out, td_err_t *err) {
    td_text_notes_t notes = {0};
    td_buffer_t all;
    td_buffer_init(&all, e->env->alloc);
    td_buffer_init(&l->text, e->env->alloc);
    if (l->peek.s.end == UINT64_MAX) return td_fail(err, TD_MALFORMED, "text inside a cache entry");
    td_status_t s = td_buffer_append_feed(&all, &l->peek.s, l->peek.s.end, err);
    if (s == TD_OK) s = td_text_read_artifact(td_buffer_span(&all), &l->text, &notes, err);
    td_buffer_deinit(&all);
    if (s != TD_OK) return td_prefix(err, s, "text");
    e->n_skipped_names = notes.n_skipped;
    td_feed_memory(&l->memory, td_buffer_span(&l->text));
    *out = &l->memory;
    return TD_OK;
}

static const struct row {
    td_form_t form;
    bool (*is)(td_span_t b, uint64_t all);
    td_status_t (*open)(td_envelope_t *e, td_layer_t *l, td_feed_t **out, td_err_t *err);
    td_status_t (*end)(td_layer_t *l, td_err_t *err); /* NULL: nothing stands behind the body */
} rows[] = {
    {TD_FORM_IFRT, is_ifrt, open_ifrt, NULL}, /* first: a metadata length of 256 looks like a pickle's first bytes */
    {TD_FORM_PICKLE, is_pickle, open_pickle, end_pickle},
    {TD_FORM_CACHE, is_cache, open_cache, end_cache},
    {TD_FORM_TEXT, is_text, open_text, NULL},
};
enum { ROWS = sizeof rows / sizeof *rows };

static td_status_t no_form(uint64_t all, td_err_t *err) {
    static const char forms[] = "bytes that are neither Riegeli, plain proto, IFRT, JAX pickle, cache entry nor text";
    if (all == UINT64_MAX) return td_fail(err, TD_MALFORMED, "no known form inside a cache entry: %s", forms);
    return td_fail(err, TD_MALFORMED, "no known form: %" PRIu64 " %s", all, forms);
}

td_status_t td_envelope_peel(td_feed_t *in, td_feed_env_t *env, td_envelope_t *e, td_err_t *err) {
    *e = (td_envelope_t){.env = env};
    for (;;) {
        td_layer_t *l = &e->layers[e->n_layers++];
        td_span_t first = {0};
        td_status_t s = td_peek_open(&l->peek, in, env, &e->riegeli, err);
        e->body = &l->peek.s;
        if (s != TD_OK || e->riegeli) return s;
        if ((s = peek(&l->peek, FIRST_BYTES, &first, err)) != TD_OK) return s;
        size_t i = 0;
        while (i < ROWS && !rows[i].is(first, l->peek.s.end)) i++;
        if (i == ROWS) return is_plain_outer(first, l->peek.s.end) ? TD_OK : no_form(l->peek.s.end, err);
        if (e->n_forms == TD_ENVELOPES_MAX) return td_fail(err, TD_MALFORMED, "envelopes nest too deeply");
        if (rows[i].form == TD_FORM_CACHE && l->peek.s.end == UINT64_MAX)
            return td_fail(err, TD_MALFORMED, "a cache entry inside a cache entry");
        e->forms[e->n_forms++] = rows[i].form;
        if ((s = rows[i].open(e, l, &in, err)) != TD_OK) return s;
    }
}

td_status_t td_envelope_end(td_envelope_t *e, td_err_t *err) {
    td_status_t s = TD_OK;
    for (uint32_t i = e->n_forms; s == TD_OK && i-- > 0;)
        for (unsigned k = 0; k < ROWS; k++)
            if (rows[k].form == e->forms[i] && rows[k].end) s = rows[k].end(&e->layers[i], err);
    return s;
}

void td_envelope_deinit(td_envelope_t *e) {
    for (uint32_t i = 0; i < e->n_layers; i++) {
        td_peek_close(&e->layers[i].peek);
        td_decoder_close(&e->layers[i].decoder);
        td_buffer_deinit(&e->layers[i].text);
    }
    e->n_layers = 0;
}
