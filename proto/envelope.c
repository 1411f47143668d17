/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/envelope.h"

#include <string.h>

#include "base/limits.h"
#include "proto/pickle.h"
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

/* A plain ExecutableAndOptionsProto: splits into fields to the last byte, field 1 is not empty,
 * and nothing but fields 1 to 3 (a later schema may add a few) stands in it. */
static bool is_plain_outer(td_span_t in) {
    td_wire_field_t f;
    bool exe = false;
    while (in.size) {
        if (!td_wire_next(&in, &f) || f.number > 64 || f.type != TD_WIRE_LEN) return false;
        exe |= f.number == 1 && f.bytes.size > 1;
    }
    return exe;
}

static bool is_pickle(td_span_t b) {
    return b.size > 2 && b.data[0] == 0x80 && b.data[1] >= 2 && b.data[1] <= 5;
}
static td_status_t open_pickle(td_span_t in, const td_alloc_t *alloc, td_envelope_t *e, td_err_t *err) {
    (void)alloc;
    return td_pickle_find_exec(in, &e->bytes, err);
}

static bool is_zstd(td_span_t b) {
    return b.size > 4 && memcmp(b.data, "\x28\xb5\x2f\xfd", 4) == 0;
}
static bool is_zlib(td_span_t b) {
    return b.size > 2 && b.data[0] == 0x78 && (b.data[0] * 256u + b.data[1]) % 31 == 0 && !(b.data[1] & 0x20);
}
static bool is_cache(td_span_t b) {
    return is_zstd(b) || is_zlib(b);
}
/* JAX's persistent cache: compressed( u32 big-endian compile seconds || IFRT bytes ). */
static td_status_t open_cache(td_span_t in, const td_alloc_t *alloc, td_envelope_t *e, td_err_t *err) {
    td_buffer_t *storage = &e->storage;
    if (storage->data) return td_fail(err, TD_MALFORMED, "a cache entry inside a cache entry");
    td_buffer_init(storage, alloc);
    td_status_t s = td_decompress(is_zstd(in) ? 'z' : 'd', in, TD_LIMIT_ARTIFACT_BYTES, storage, err);
    if (s != TD_OK) return td_prefix(err, s, "cache entry");
    if (storage->size < 4) return td_fail(err, TD_MALFORMED, "cache entry of %zu bytes", storage->size);
    e->bytes = (td_span_t){storage->data + 4, storage->size - 4};
    return TD_OK;
}

/* varint length, SerializedXlaExecutableMetadata, PJRT bytes. */
static bool ifrt_body(td_span_t b, td_span_t *out) {
    uint64_t n;
    td_span_t rest = b;
    if (!td_wire_varint(&rest, &n) || n >= rest.size || n > (1u << 20)) return false;
    if (!td_wire_scan((td_span_t){rest.data, (size_t)n}, 0, NULL)) return false;
    rest.data += n;
    rest.size -= (size_t)n;
    if (!td_riegeli_is(rest) && !is_plain_outer(rest)) return false;
    *out = rest;
    return true;
}
static bool is_ifrt(td_span_t b) {
    td_span_t body;
    return !is_plain_outer(b) && ifrt_body(b, &body);
}
static td_status_t open_ifrt(td_span_t in, const td_alloc_t *alloc, td_envelope_t *e, td_err_t *err) {
    (void)alloc;
    return ifrt_body(in, &e->bytes) ? TD_OK : td_fail(err, TD_MALFORMED, "broken IFRT header");
}

/* HumanReadableAotExecutable. */
static td_status_t open_text(td_span_t in, const td_alloc_t *alloc, td_envelope_t *e, td_err_t *err) {
    if (e->storage.data) return td_fail(err, TD_MALFORMED, "text inside a cache entry");
    td_buffer_init(&e->storage, alloc);
    td_text_notes_t notes = {0};
    td_status_t s = td_text_read_artifact(in, &e->storage, &notes, err);
    if (s != TD_OK) return td_prefix(err, s, "text");
    e->n_skipped_names = notes.n_skipped;
    e->bytes = td_buffer_span(&e->storage);
    return TD_OK;
}

static const struct {
    td_form_t form;
    bool (*is)(td_span_t b);
    td_status_t (*open)(td_span_t in, const td_alloc_t *alloc, td_envelope_t *e, td_err_t *err);
} envelopes[] = {
    {TD_FORM_IFRT, is_ifrt, open_ifrt}, /* first: a metadata length of 256 looks like a pickle's first bytes */
    {TD_FORM_PICKLE, is_pickle, open_pickle},
    {TD_FORM_CACHE, is_cache, open_cache},
    {TD_FORM_TEXT, td_text_is_artifact, open_text},
};

td_status_t td_envelope_peel(td_span_t in, const td_alloc_t *alloc, td_envelope_t *out, td_err_t *err) {
    *out = (td_envelope_t){.bytes = in};
    while (!td_riegeli_is(out->bytes)) {
        size_t i = 0, n = sizeof envelopes / sizeof *envelopes;
        while (i < n && !envelopes[i].is(out->bytes)) i++;
        if (i == n && is_plain_outer(out->bytes)) return TD_OK;
        if (i == n)
            return td_fail(err, TD_MALFORMED, "no known form: %zu bytes that are neither Riegeli, plain proto, IFRT, JAX pickle, cache entry nor text",
                           out->bytes.size);
        if (out->n_forms == sizeof out->forms / sizeof *out->forms) return td_fail(err, TD_MALFORMED, "envelopes nest too deeply");
        out->forms[out->n_forms++] = envelopes[i].form;
        td_status_t s = envelopes[i].open(out->bytes, alloc, out, err);
        if (s != TD_OK) return s;
    }
    return TD_OK;
}

void td_envelope_deinit(td_envelope_t *e) {
    td_buffer_deinit(&e->storage);
}
