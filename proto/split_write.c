/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/split_write.h"

#include <string.h>

#include "executable.pb-c.h"
#include "proto/pack.h"

enum { EXECUTABLE = 1, ASM_TEXT = 3, BINARY = 4 }; /* fields that stand in a record of their own */

/* The records of a file and the manifest's entries for them. */
typedef struct split {
    td_rope_t manifest;
    td_rope_t *records;
    uint32_t n, cap;
} split_t;

static td_status_t split_init(split_t *s, const char *type, uint32_t cap, td_rope_t *out, td_err_t *err) {
    *s = (split_t){.cap = cap};
    td_rope_init_in(&s->manifest, out);
    s->records = (td_rope_t *)(void *)td_rope_scratch(out, cap * sizeof *s->records);
    if (!s->records) return td_rope_status(out, err);
    for (uint32_t i = 0; i < cap; i++) td_rope_init_in(&s->records[i], out);
    td_rope_tag_len(&s->manifest, 1, strlen(type)); /* result_proto_type */
    td_rope_copy(&s->manifest, type, strlen(type));
    return TD_OK;
}
static void split_deinit(split_t *s) {
    td_rope_deinit(&s->manifest);
    for (uint32_t i = 0; s->records && i < s->cap; i++) td_rope_deinit(&s->records[i]);
}

/* records { proto_merge_record {} }. Returns the record to fill. */
static td_rope_t *merge(split_t *s) {
    td_rope_copy(&s->manifest, "\x12\x02\x12\x00", 4);
    return &s->records[s->n++];
}
/* records { field_override_record { field_path { field_number: F } field_type: TYPE_STRING } } */
static td_rope_t *override(split_t *s, uint8_t field) {
    uint8_t entry[] = {0x12, 0x08, 0x1a, 0x06, 0x0a, 0x02, 0x08, field, 0x10, 0x01};
    td_rope_copy(&s->manifest, entry, sizeof entry);
    return &s->records[s->n++];
}

static td_status_t write_file(const split_t *s, td_compression_t c, td_rope_t *out, td_err_t *err) {
    td_riegeli_writer_t w;
    td_riegeli_writer_init(&w, c, 0, out);
    td_status_t st = td_riegeli_writer_add(&w, &s->manifest, err);
    for (uint32_t i = 0; st == TD_OK && i < s->n; i++) st = td_riegeli_writer_add(&w, &s->records[i], err);
    if (st == TD_OK) st = td_riegeli_writer_end(&w, err);
    td_riegeli_writer_deinit(&w);
    return st;
}

td_status_t td_split_write_whole(const char *type, const td_rope_t *wire, td_compression_t c, td_rope_t *out,
                                 td_err_t *err) {
    split_t s;
    td_status_t st = split_init(&s, type, 1, out, err);
    if (st == TD_OK) {
        td_rope_join(merge(&s), wire);
        st = write_file(&s, c, out, err);
    }
    split_deinit(&s);
    return st;
}

td_status_t td_split_write_outer(const td_rope_t *executable, const td_rope_t *rest, td_compression_t c, td_rope_t *out,
                                 td_err_t *err) {
    split_t s;
    td_status_t st = split_init(&s, xla__executable_and_options_proto__descriptor.name, 2, out, err);
    if (st == TD_OK) {
        td_rope_join(override(&s, EXECUTABLE), executable);
        td_rope_join(merge(&s), rest);
        st = write_file(&s, c, out, err);
    }
    split_deinit(&s);
    return st;
}

static td_status_t inner_records(split_t *s, const td_artifact_t *a, td_err_t *err) {
    Xla__Gpu__GpuExecutableProto rest = *a->exe, part = XLA__GPU__GPU_EXECUTABLE_PROTO__INIT;
    td_span_t text = td_artifact_bytes(a, rest.has_asm_text_payload, rest.asm_text_payload, rest.asm_text.data,
                                       rest.asm_text.len);
    td_span_t binary = td_artifact_bytes(a, rest.has_binary_payload, rest.binary_payload, rest.binary.data,
                                         rest.binary.len);
    if (rest.has_asm_text || rest.has_asm_text_payload) td_rope_ref(override(s, ASM_TEXT), text);
    if (rest.has_binary || rest.has_binary_payload) td_rope_ref(override(s, BINARY), binary);
    part.n_dnn_compiled_graphs = rest.n_dnn_compiled_graphs;
    part.dnn_compiled_graphs = rest.dnn_compiled_graphs;
    td_status_t st = td_pack(&part.base, a->payloads, a->n_payloads, merge(s), err);
    part.n_dnn_compiled_graphs = 0;
    for (size_t i = 0; st == TD_OK && i < rest.n_constants; i++) {
        part.n_constants = 1;
        part.constants = rest.constants + i;
        st = td_pack(&part.base, a->payloads, a->n_payloads, merge(s), err);
    }
    rest.has_asm_text = rest.has_asm_text_payload = rest.has_binary = rest.has_binary_payload = 0;
    rest.n_dnn_compiled_graphs = rest.n_constants = 0;
    return st == TD_OK ? td_pack(&rest.base, a->payloads, a->n_payloads, merge(s), err) : st;
}

td_status_t td_split_write_inner(const td_artifact_t *a, td_compression_t c, td_rope_t *out, td_err_t *err) {
    split_t s;
    uint32_t cap = (uint32_t)a->exe->n_constants + 4;
    td_status_t st = split_init(&s, xla__gpu__gpu_executable_proto__descriptor.name, cap, out, err);
    if (st == TD_OK) st = inner_records(&s, a, err);
    if (st == TD_OK) st = write_file(&s, c, out, err);
    split_deinit(&s);
    return st;
}
