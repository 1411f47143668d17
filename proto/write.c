/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/write.h"

#include <stdio.h>
#include <string.h>

#include "executable.pb-c.h"
#include "full.pb-c.h"
#include "proto/canonical.h"
#include "proto/pack.h"
#include "proto/split_write.h"
#include "proto/text.h"

enum { SERIALIZED_EXECUTABLE = 1 }; /* of ExecutableAndOptionsProto */

static const char *const names[TD_WRITE_COUNT] = {
    [TD_WRITE_RIEGELI_SPLIT] = "riegeli-split", [TD_WRITE_RIEGELI] = "riegeli", [TD_WRITE_PLAIN] = "plain",
    [TD_WRITE_PLAIN_PLAIN] = "plain-plain",     [TD_WRITE_INNER] = "inner",     [TD_WRITE_TEXT] = "text",
};

const char *td_write_form_name(td_write_form_t f) {
    return (unsigned)f < TD_WRITE_COUNT ? names[f] : "unknown";
}

td_status_t td_write_form_parse(const char *name, td_write_form_t *out, td_err_t *err) {
    for (unsigned i = 0; i < TD_WRITE_COUNT; i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (td_write_form_t)i;
            return TD_OK;
        }
    return td_fail(err, TD_USAGE, "form \"%.32s\": expected riegeli-split, riegeli, plain, plain-plain, inner or text",
                   name);
}

td_status_t td_artifact_pack_outer(const td_artifact_t *a, td_rope_t *out, td_err_t *err) {
    return a->outer ? td_pack(&a->outer->base, a->payloads, a->n_payloads, out, err) : TD_OK;
}

td_status_t td_artifact_pack_inner(const td_artifact_t *a, td_rope_t *out, td_err_t *err) {
    return td_pack(&a->exe->base, a->payloads, a->n_payloads, out, err);
}

/* A rope's bytes in one block of its own memory. */
static td_status_t flatten(td_rope_t *r, td_span_t *out, td_err_t *err) {
    uint8_t *p = td_rope_scratch(r, (size_t)r->size);
    if (!p) return td_rope_status(r, err);
    td_rope_gather(r, p);
    *out = (td_span_t){p, (size_t)r->size};
    return TD_OK;
}

static td_status_t canonical(const ProtobufCMessageDescriptor *desc, td_rope_t *wire, td_buffer_t *out, td_err_t *err) {
    td_span_t flat = {0};
    td_status_t s = flatten(wire, &flat, err);
    return s == TD_OK ? td_canonical(desc, flat, out, err) : s;
}

td_status_t td_artifact_canonical(const td_artifact_t *a, td_buffer_t *out, td_err_t *err) {
    td_rope_t wire;
    td_rope_init(&wire, out->alloc);
    td_status_t s = td_artifact_pack_outer(a, &wire, err);
    if (s == TD_OK) s = canonical(&full__xla__executable_and_options_proto__descriptor, &wire, out, err);
    td_rope_deinit(&wire);
    td_rope_init(&wire, out->alloc);
    if (s == TD_OK) s = td_artifact_pack_inner(a, &wire, err);
    if (s == TD_OK) s = canonical(&full__xla_gpu__gpu_executable_proto__descriptor, &wire, out, err);
    td_rope_deinit(&wire);
    return s;
}

static td_status_t write_text(const td_artifact_t *a, td_rope_t *out, td_err_t *err) {
    td_rope_t outer, inner;
    td_rope_init(&outer, out->own.alloc);
    td_rope_init(&inner, out->own.alloc);
    td_span_t o = {0}, i = {0};
    td_status_t s = td_artifact_pack_outer(a, &outer, err);
    if (s == TD_OK) s = td_artifact_pack_inner(a, &inner, err);
    if (s == TD_OK) s = flatten(&outer, &o, err);
    if (s == TD_OK) s = flatten(&inner, &i, err);
    if (s == TD_OK) s = td_text_print_artifact(o, i, out, err);
    td_rope_deinit(&inner);
    td_rope_deinit(&outer);
    return s;
}

/* The executable's bytes as they stand in the outer message, or alone. */
static td_status_t write_inner(const td_artifact_t *a, td_write_form_t form, td_compression_t c, td_rope_t *out,
                               td_err_t *err) {
    if (form != TD_WRITE_RIEGELI && form != TD_WRITE_PLAIN_PLAIN) return td_split_write_inner(a, c, out, err);
    if (form == TD_WRITE_PLAIN_PLAIN) return td_artifact_pack_inner(a, out, err);
    td_rope_t wire;
    td_rope_init_in(&wire, out);
    td_status_t s = td_artifact_pack_inner(a, &wire, err);
    if (s == TD_OK) s = td_split_write_whole(xla__gpu__gpu_executable_proto__descriptor.name, &wire, c, out, err);
    td_rope_deinit(&wire);
    return s;
}

/* Plain: field 1 and behind it all others. */
static void join_outer(const td_rope_t *inner, const td_rope_t *rest, td_rope_t *out) {
    td_rope_tag_len(out, SERIALIZED_EXECUTABLE, inner->size);
    td_rope_join(out, inner);
    td_rope_join(out, rest);
}

static td_status_t write_outer(const td_rope_t *inner, const td_rope_t *rest, td_write_form_t form, td_compression_t c,
                               td_rope_t *out, td_err_t *err) {
    if (form == TD_WRITE_RIEGELI_SPLIT) return td_split_write_outer(inner, rest, c, out, err);
    if (form != TD_WRITE_RIEGELI) {
        join_outer(inner, rest, out);
        return td_rope_status(out, err);
    }
    td_rope_t wire;
    td_rope_init_in(&wire, out);
    join_outer(inner, rest, &wire);
    td_status_t s = td_split_write_whole(xla__executable_and_options_proto__descriptor.name, &wire, c, out, err);
    td_rope_deinit(&wire);
    return s;
}

td_status_t td_artifact_write(const td_artifact_t *a, td_write_form_t form, td_compression_t c, td_rope_t *out,
                              td_err_t *err) {
    if (a->n_cut_strings)
        return td_fail(err, TD_UNSUPPORTED, "%u strings hold NUL bytes, which would be lost", a->n_cut_strings);
    if (form == TD_WRITE_TEXT) return write_text(a, out, err);
    if (form == TD_WRITE_INNER) return write_inner(a, form, c, out, err);
    td_rope_t inner, rest;
    td_rope_init_in(&inner, out);
    td_rope_init_in(&rest, out);
    td_status_t s = write_inner(a, form, c, &inner, err);
    if (s == TD_OK) s = td_artifact_pack_outer(a, &rest, err);
    if (s == TD_OK) s = write_outer(&inner, &rest, form, c, out, err);
    td_rope_deinit(&rest);
    td_rope_deinit(&inner);
    return s;
}
