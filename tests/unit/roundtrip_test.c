/* SPDX-License-Identifier: Apache-2.0 */
/* Read, write, read: every form and compression gives back the same messages (compared in canonical form), on small
 * messages made here and, with THUNKD_CORPUS and THUNKD_XLA_GOLDENS, on the artifacts of released compilers. */
#include <check.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "executable.pb-c.h"
#include "full.pb-c.h"
#include "proto/artifact.h"
#include "proto/canonical.h"
#include "proto/excise.h"
#include "proto/pack.h"
#include "proto/text.h"
#include "proto/write.h"

static td_counting_alloc_t counter;
static td_payload_table_t *table;

static void setup(void) {
    td_counting_alloc_init(&counter, td_alloc_default());
    ck_assert_int_eq(td_payload_table_create(&counter.base, &table, NULL), TD_OK);
}
static void teardown(void) {
    td_payload_table_destroy(table);
    ck_assert_uint_eq(counter.live_bytes, 0);
}

static void canonical_of(const td_artifact_t *a, td_buffer_t *out) {
    td_err_t err = {0};
    td_buffer_init(out, &counter.base);
    ck_assert_msg(td_artifact_canonical(a, out, &err) == TD_OK, "%s", err.text);
}

/* Writes a in that form, opens it, compares. strict: the outer message comes back, too. */
static void through(const td_artifact_t *a, const td_buffer_t *want, td_write_form_t form, const char *compression,
                    const char *name) {
    td_err_t err = {0};
    td_compression_t c = {0};
    td_rope_t file;
    td_artifact_t *b = NULL;
    td_buffer_t got;
    ck_assert_int_eq(td_compression_parse(compression, &c, NULL), TD_OK);
    td_rope_init(&file, &counter.base);
    ck_assert_msg(td_artifact_write(a, form, c, &file, &err) == TD_OK, "%s: %s", name, err.text);
    uint8_t *flat = malloc(file.size + 1);
    td_rope_gather(&file, flat);
    td_status_t s = td_artifact_open((td_span_t){flat, (size_t)file.size}, table, &counter.base, &b, &err);
    ck_assert_msg(s == TD_OK, "%s as %s %s: %s", name, td_write_form_name(form), compression, err.text);
    ck_assert_uint_eq(b->n_skipped_names, 0);
    canonical_of(b, &got);
    bool equal = got.size == want->size && (!got.size || memcmp(got.data, want->data, got.size) == 0);
    /* The inner form has no options: its messages are the end of the whole. */
    if (form == TD_WRITE_INNER)
        equal = got.size <= want->size && memcmp(got.data, want->data + (want->size - got.size), got.size) == 0;
    ck_assert_msg(equal, "%s as %s %s: %zu bytes, %zu before", name, td_write_form_name(form), compression, got.size,
                  want->size);
    td_buffer_deinit(&got);
    td_artifact_close(b);
    free(flat);
    td_rope_deinit(&file);
}

static const struct {
    td_write_form_t form;
    const char *compression;
} ways[] = {
    {TD_WRITE_RIEGELI_SPLIT, "none"},   {TD_WRITE_RIEGELI_SPLIT, "snappy"},
    {TD_WRITE_RIEGELI_SPLIT, "zstd:1"}, {TD_WRITE_RIEGELI, "brotli:1"},
    {TD_WRITE_PLAIN, "snappy"},         {TD_WRITE_PLAIN_PLAIN, "none"},
    {TD_WRITE_INNER, "zstd:1"},         {TD_WRITE_TEXT, "none"},
};
enum { WAYS = sizeof ways / sizeof *ways };

static void all_ways(const char *path) {
    td_err_t err = {0};
    td_artifact_t *a = NULL;
    ck_assert_msg(td_artifact_open_file(path, table, &counter.base, &a, &err) == TD_OK, "%s", err.text);
    td_buffer_t want;
    canonical_of(a, &want);
    for (int i = 0; i < WAYS; i++) through(a, &want, ways[i].form, ways[i].compression, path);
    td_buffer_deinit(&want);
    td_artifact_close(a);
}

static void all_files(const char *folder, const char *const *patterns, unsigned n, unsigned part, unsigned parts) {
    for (unsigned k = 0; k < n; k++) {
        char pattern[4096];
        glob_t g;
        snprintf(pattern, sizeof pattern, "%s/%s", folder, patterns[k]);
        ck_assert_int_eq(glob(pattern, 0, NULL, &g), 0);
        for (size_t i = part; i < g.gl_pathc; i += parts)
            if (!strstr(g.gl_pathv[i], "/0.8.0/")) all_ways(g.gl_pathv[i]); /* holds another message */
        globfree(&g);
    }
}

enum { PARTS = 4 };
/* Every artifact with THUNKD_ROUNDTRIP=all; else every 16th. */
START_TEST(corpus) {
    static const char *const patterns[] = {"*/*/*.aot", "*/*/*.ifrt", "*/*/*.jax-pickle"};
    const char *folder = getenv("THUNKD_CORPUS"), *mode = getenv("THUNKD_ROUNDTRIP");
    if (!folder) return;
    bool all = mode && strcmp(mode, "all") == 0;
    all_files(folder, patterns, 3, (unsigned)_i, all ? PARTS : PARTS * 16);
}
END_TEST

START_TEST(goldens) {
    static const char *const patterns[] = {"*/*/*.pbtxt"};
    const char *folder = getenv("THUNKD_XLA_GOLDENS");
    if (folder) all_files(folder, patterns, 1, 0, 1);
}
END_TEST

START_TEST(sample) {
    all_ways("tests/data/ffi_user_handler.aot");
}
END_TEST

/* ---- payloads put back ---- */

/* Packs a literal's wire bytes after excise has taken them apart. */
static void literal_again(const uint8_t *wire, size_t size, uint32_t payloads) {
    td_err_t err = {0};
    td_arena_t arena;
    td_excise_t x;
    ProtobufCMessage *m = NULL;
    td_arena_init(&arena, &counter.base, 0);
    td_excise_init(&x, table, &counter.base);
    ck_assert_msg(td_excise_unpack(&x, &xla__literal_proto__descriptor, (td_span_t){wire, size}, &arena, &m, &err) ==
                      TD_OK,
                  "%s", err.text);
    ck_assert_uint_eq(x.n_payloads, payloads);
    td_rope_t out;
    td_rope_init(&out, &counter.base);
    ck_assert_msg(td_pack(m, x.payloads, x.n_payloads, &out, &err) == TD_OK, "%s", err.text);
    ck_assert_uint_eq(out.size, size);
    uint8_t *flat = malloc(size);
    td_rope_gather(&out, flat);
    ck_assert_mem_eq(flat, wire, size);
    free(flat);
    td_rope_deinit(&out);
    td_excise_deinit(&x);
    td_arena_deinit(&arena);
}

/* LiteralProto: s32s = 4, s64s = 5, u32s = 6, f32s = 8, preds = 2, u8s = 3; nested in tuple_literals = 10. */
START_TEST(literals) {
    uint8_t b[4096];
    static const uint8_t minus_one[10] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01};
    size_t n = 0;
    b[n++] = 0x12, b[n++] = 100; /* preds */
    for (int i = 0; i < 100; i++) b[n++] = (uint8_t)(i % 3 == 0);
    b[n++] = 0x1a, b[n++] = 70; /* u8s */
    for (int i = 0; i < 70; i++) b[n++] = (uint8_t)(200 + i);
    b[n++] = 0x22, b[n++] = 0xac, b[n++] = 0x02; /* s32s: 30 times -1, 300 bytes */
    for (int i = 0; i < 30; i++, n += 10) memcpy(b + n, minus_one, 10);
    b[n++] = 0x2a, b[n++] = 100; /* s64s: ten times -1 */
    for (int i = 0; i < 10; i++, n += 10) memcpy(b + n, minus_one, 10);
    b[n++] = 0x32, b[n++] = 100; /* u32s: twenty times 2^32 - 1 */
    for (int i = 0; i < 20; i++, n += 5) memcpy(b + n, "\xff\xff\xff\xff\x0f", 5);
    b[n++] = 0x42, b[n++] = 80; /* f32s */
    for (int i = 0; i < 80; i++) b[n++] = (uint8_t)i;
    literal_again(b, n, 6);
    uint8_t t[4096]; /* the same inside a tuple, twice, with an unknown field behind */
    size_t k = 0;
    for (int i = 0; i < 2; i++) {
        t[k++] = 0x52, t[k++] = (uint8_t)(n & 127) | 128, t[k++] = (uint8_t)(n >> 7);
        memcpy(t + k, b, n);
        k += n;
    }
    memcpy(t + k, "\xc0\x3e\x07", 3); /* field 1000 */
    literal_again(t, k + 3, 12);
    literal_again((const uint8_t *)"", 0, 0);
}
END_TEST

START_TEST(payload_without_bytes) {
    Xla__LiteralProto m = XLA__LITERAL_PROTO__INIT;
    m.has_f32s_payload = 1;
    m.f32s_payload = 3;
    td_rope_t out;
    td_rope_init(&out, &counter.base);
    ck_assert_int_eq(td_pack(&m.base, NULL, 0, &out, NULL), TD_MALFORMED);
    td_rope_deinit(&out);
}
END_TEST

/* ---- canonical form ---- */

static void canonical_is(const ProtobufCMessageDescriptor *d, const char *in, size_t n, const char *want, size_t m) {
    td_buffer_t out;
    td_err_t err = {0};
    td_buffer_init(&out, &counter.base);
    ck_assert_msg(td_canonical(d, (td_span_t){(const uint8_t *)in, n}, &out, &err) == TD_OK, "%s", err.text);
    ck_assert_uint_eq(out.size, m);
    if (m) ck_assert_mem_eq(out.data, want, m);
    td_buffer_deinit(&out);
}
#define CANONICAL(d, in, want) canonical_is(d, in, sizeof(in) - 1, want, sizeof(want) - 1)

START_TEST(canonical) {
    /* ShapeProto: element_type 2, dimensions 3 (packed), tuple_shapes 4, layout 5, is_dynamic_dimension 6 (packed). */
    const ProtobufCMessageDescriptor *shape = &full__xla__shape_proto__descriptor;
    CANONICAL(shape, "", "");
    CANONICAL(shape, "\x18\x05\x10\x0b\x1a\x02\x06\x07\x18\x08", "\x10\x0b\x1a\x04\x05\x06\x07\x08");
    CANONICAL(shape, "\x10\x0b\x10\x8c\x80\x00", "\x10\x0c"); /* the last one, in a short varint */
    CANONICAL(shape, "\x32\x02\x05\x00", "\x32\x02\x01\x00");
    CANONICAL(shape, "\x2a\x02\x08\x01\x2a\x02\x10\x02", "\x2a\x05\x0a\x01\x01\x10\x02");
}
END_TEST

START_TEST(canonical_maps) {
    /* GpuExecutableProto.dnn_compiled_graphs = 5, map<string, bytes>. */
    const ProtobufCMessageDescriptor *exe = &full__xla_gpu__gpu_executable_proto__descriptor;
    ck_assert(td_proto_is_map(exe, protobuf_c_message_descriptor_get_field(exe, 5)));
    ck_assert(!td_proto_is_map(exe, protobuf_c_message_descriptor_get_field(exe, 11))); /* output_info_map is a list */
    CANONICAL(exe,
              "\x2a\x06\x0a\x01z\x12\x01Z\x2a\x06\x12\x01x\x0a\x01"
              "a\x2a\x06\x0a\x01z\x12\x01Y",
              "\x2a\x06\x0a\x01"
              "a\x12\x01x\x2a\x06\x0a\x01z\x12\x01Y");
}
END_TEST

START_TEST(canonical_refuses) {
    td_buffer_t out;
    td_buffer_init(&out, &counter.base);
    static const char *const bad[] = {"\x18", "\x12\x01", "\x15\x01\x02\x03\x04", "\x1a\x01\xff"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        td_span_t in = {(const uint8_t *)bad[i], strlen(bad[i])};
        ck_assert_int_eq(td_canonical(&full__xla__shape_proto__descriptor, in, &out, NULL), TD_MALFORMED);
    }
    td_buffer_deinit(&out);
}
END_TEST

START_TEST(form_words) {
    td_write_form_t f = TD_WRITE_COUNT;
    for (int i = 0; i < TD_WRITE_COUNT; i++) {
        ck_assert_int_eq(td_write_form_parse(td_write_form_name((td_write_form_t)i), &f, NULL), TD_OK);
        ck_assert_int_eq(f, i);
    }
    ck_assert_int_eq(td_write_form_parse("pickle", &f, NULL), TD_USAGE);
    ck_assert_int_eq(td_write_form_parse("", &f, NULL), TD_USAGE);
}
END_TEST

int main(void) {
    Suite *s = suite_create("roundtrip");
    TCase *t = tcase_create("all");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 1200);
    tcase_add_test(t, literals);
    tcase_add_test(t, payload_without_bytes);
    tcase_add_test(t, canonical);
    tcase_add_test(t, canonical_maps);
    tcase_add_test(t, canonical_refuses);
    tcase_add_test(t, form_words);
    tcase_add_test(t, sample);
    tcase_add_loop_test(t, corpus, 0, PARTS);
    tcase_add_test(t, goldens);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
