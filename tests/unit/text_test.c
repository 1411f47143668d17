/* SPDX-License-Identifier: Apache-2.0 */
/* proto/text: reader and printer. Wire bytes and printed text of the valid cases are what protobuf's own Python
 * text_format gives for the same schema (text_format.Parse, SerializeToString, MessageToString); fields by number and
 * skipped names are ours. Floats are printed as protobuf's C++ does: six digits or more. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "full.pb-c.h"
#include "proto/artifact.h"
#include "proto/text.h"

static td_counting_alloc_t counter;

static void setup(void) {
    td_counting_alloc_init(&counter, td_alloc_default());
}
static void teardown(void) {
    ck_assert_uint_eq(counter.live_bytes, 0);
}

/* ShapeProto: element_type 2, dimensions 3 (packed), tuple_shapes 4, layout 5, is_dynamic_dimension 6 (packed). */
#define SHAPE (&full__xla__shape_proto__descriptor)
/* LiteralProto: shape 1, s32s 4, u32s 6, u64s 7, f32s 8, f64s 9, tuple_literals 10, u8s 3. */
#define LITERAL (&full__xla__literal_proto__descriptor)

static td_status_t read_text(const ProtobufCMessageDescriptor *d, const char *text, td_buffer_t *out,
                             td_text_notes_t *notes, td_err_t *err) {
    td_buffer_init(out, &counter.base);
    return td_text_read(d, (td_span_t){(const uint8_t *)text, strlen(text)}, out, notes, err);
}

static void reads(const ProtobufCMessageDescriptor *d, const char *text, const char *wire, size_t size,
                  uint32_t skipped) {
    td_buffer_t out;
    td_err_t err = {0};
    td_text_notes_t notes;
    ck_assert_msg(read_text(d, text, &out, &notes, &err) == TD_OK, "%s: %s", text, err.text);
    ck_assert_msg(out.size == size, "%s: %zu bytes, expected %zu", text, out.size, size);
    if (size) ck_assert_mem_eq(out.data, wire, size);
    ck_assert_uint_eq(notes.n_skipped, skipped);
    td_buffer_deinit(&out);
}
#define READS(d, text, wire)    reads(d, text, wire, sizeof(wire) - 1, 0)
#define SKIPS(n, d, text, wire) reads(d, text, wire, sizeof(wire) - 1, n)

START_TEST(syntax) {
    READS(SHAPE, "", "");
    READS(SHAPE, " # nothing\n\t\r\n# at all", "");
    READS(SHAPE, "element_type: F32", "\x10\x0b");
    READS(SHAPE, "element_type: 11", "\x10\x0b");
    READS(SHAPE, "element_type :0xb", "\x10\x0b");
    READS(SHAPE, "element_type:013;", "\x10\x0b");
    READS(SHAPE, "dimensions: 2 dimensions: 300, dimensions: -1",
          "\x1a\x0d\x02\xac\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    READS(SHAPE, "dimensions: [2, 300 # two\n]", "\x1a\x03\x02\xac\x02");
    READS(SHAPE, "dimensions: []", "");
    READS(SHAPE, "dimensions: - 1", "\x1a\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    READS(SHAPE, "is_dynamic_dimension: [true, false, t, f, 1, 0, True, False]",
          "\x32\x08\x01\x00\x01\x00\x01\x00\x01\x00");
    READS(SHAPE, "tuple_shapes { element_type: S32 } tuple_shapes: < element_type: F32 >",
          "\x22\x02\x10\x04\x22\x02\x10\x0b");
    READS(SHAPE, "tuple_shapes: [{element_type: S32}, <>]", "\x22\x02\x10\x04\x22\x00");
    READS(SHAPE, "tuple_shapes{tuple_shapes{}}", "\x22\x02\x22\x00");
    READS(SHAPE, "2: F32 4 { 2: S32 }", "\x10\x0b\x22\x02\x10\x04"); /* known fields by number */
}
END_TEST

START_TEST(strings) {
    READS(LITERAL, "u8s: \"abc\"",
          "\x1a\x03"
          "abc");
    READS(LITERAL, "u8s: 'a' \"b\" # and\n 'c'",
          "\x1a\x03"
          "abc");
    READS(LITERAL, "u8s: \"\\n\\r\\t\\\"\\'\\\\\\a\\b\\f\\v\\?\"", "\x1a\x0b\n\r\t\"'\\\a\b\f\v?");
    READS(LITERAL, "u8s: \"\\0\\12\\377\\x41\\x7\\1234\"", "\x1a\x07\x00\x0a\xff\x41\x07S4");
    READS(LITERAL, "u8s: \"\\u00e9\\U0001F600\\ud83d\\ude00\"", "\x1a\x0a\xc3\xa9\xf0\x9f\x98\x80\xf0\x9f\x98\x80");
    READS(LITERAL, "u8s: \"\"", "\x1a\x00");
    READS(LITERAL, "u8s: \"{ # <\"", "\x1a\x05{ # <");
}
END_TEST

START_TEST(numbers) {
    READS(LITERAL, "f32s: 1 f32s: 1.5 f32s: -2e3 f32s: 1.f f32s: .5",
          "\x42\x14\x00\x00\x80\x3f\x00\x00\xc0\x3f\x00\x00\xfa\xc4\x00\x00\x80\x3f\x00\x00\x00\x3f");
    READS(LITERAL, "f32s: [inf, -inf, nan, Infinity, 1e50]",
          "\x42\x14\x00\x00\x80\x7f\x00\x00\x80\xff\x00\x00\xc0\x7f\x00\x00\x80\x7f\x00\x00\x80\x7f");
    READS(LITERAL, "f64s: 0.1", "\x4a\x08\x9a\x99\x99\x99\x99\x99\xb9\x3f");
    READS(LITERAL, "f32s: 0x10", "\x42\x04\x00\x00\x80\x41");
    READS(LITERAL, "u64s: 18446744073709551615", "\x3a\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    READS(LITERAL, "u32s: 4294967295", "\x32\x05\xff\xff\xff\xff\x0f");
    READS(LITERAL, "s32s: -2147483648", "\x22\x0a\x80\x80\x80\x80\xf8\xff\xff\xff\xff\x01");
}
END_TEST

START_TEST(unknown_names) {
    SKIPS(1, SHAPE, "was_here: 5 element_type: F32", "\x10\x0b");
    SKIPS(1, SHAPE, "was { a: 1 b { c: \"}\" } d: [1, {x: 2}] } element_type: F32", "\x10\x0b");
    SKIPS(1, SHAPE, "was: [1, 2.5, foo, -inf, \"s\" 's'] element_type: F32", "\x10\x0b");
    SKIPS(1, SHAPE, "was: < a <> > element_type: F32", "\x10\x0b");
    SKIPS(1, SHAPE, "element_type: NO_SUCH_TYPE dimensions: 1", "\x1a\x01\x01");
    SKIPS(2, SHAPE, "[some.extension]: 5 [type.googleapis.com/a.B] { x: 1 } element_type: F32", "\x10\x0b");
    td_buffer_t out;
    td_text_notes_t notes;
    ck_assert_int_eq(read_text(SHAPE, "\n\nfirst_name: 1 second: 2", &out, &notes, NULL), TD_OK);
    ck_assert_str_eq(notes.first, "first_name");
    ck_assert_uint_eq(notes.first_line, 3);
    td_buffer_deinit(&out);
}
END_TEST

/* Fields by numbers that the schema does not have: kept, the way the printer writes them. */
START_TEST(unknown_numbers) {
    READS(SHAPE, "1000: 5", "\xc0\x3e\x05");
    READS(SHAPE, "1000: 0x00000005", "\xc5\x3e\x05\x00\x00\x00");
    READS(SHAPE, "1000: 0x0000000000000005", "\xc1\x3e\x05\x00\x00\x00\x00\x00\x00\x00");
    READS(SHAPE, "1000: \"ab\"",
          "\xc2\x3e\x02"
          "ab");
    READS(SHAPE, "1000 { 1: 2 3 { } }", "\xc2\x3e\x04\x08\x02\x1a\x00");
}
END_TEST

static void refuses(const ProtobufCMessageDescriptor *d, const char *text, const char *where) {
    td_buffer_t out;
    td_err_t err = {0};
    ck_assert_msg(read_text(d, text, &out, NULL, &err) == TD_MALFORMED, "read: %s", text);
    ck_assert_msg(strncmp(err.text, where, strlen(where)) == 0, "%s: %s", text, err.text);
    td_buffer_deinit(&out);
}

START_TEST(errors) {
    refuses(SHAPE, "element_type", "line 1, column 13");
    refuses(SHAPE, "element_type F32", "line 1, column 14");
    refuses(SHAPE, "\n  element_type: ", "line 2, column 17");
    refuses(SHAPE, "tuple_shapes {", "line 1, column 15");
    refuses(SHAPE, "tuple_shapes { >", "line 1, column 16");
    refuses(SHAPE, "}", "line 1, column 1");
    refuses(SHAPE, "tuple_shapes: 5", "line 1");
    refuses(SHAPE, "element_type: \"F32\"", "line 1");
    refuses(SHAPE, "element_type: [F32]", "line 1"); /* not repeated */
    refuses(SHAPE, "dimensions: [1, 2", "line 1");
    refuses(SHAPE, "dimensions: [1 2]", "line 1");
    refuses(SHAPE, "dimensions: [1,]", "line 1");
    refuses(SHAPE, "dimensions: 9223372036854775808", "line 1");
    refuses(SHAPE, "dimensions: 1.5", "line 1");
    refuses(SHAPE, "dimensions: 08", "line 1");
    refuses(SHAPE, "dimensions: 0x", "line 1");
    refuses(SHAPE, "is_dynamic_dimension: yes", "line 1");
    refuses(SHAPE, "is_dynamic_dimension: -1", "line 1");
    refuses(LITERAL, "u32s: -1", "line 1");
    refuses(LITERAL, "u32s: 4294967296", "line 1");
    refuses(LITERAL, "s32s: 2147483648", "line 1");
    refuses(LITERAL, "f32s: one", "line 1");
    refuses(LITERAL, "f32s: 1.5.5", "line 1");
    refuses(LITERAL, "u8s: abc", "line 1");
    refuses(LITERAL, "u8s: \"abc", "line 1");
    refuses(LITERAL, "u8s: \"a\nb\"", "line 1, column 8");
    refuses(LITERAL, "u8s: \"\\q\"", "line 1");
    refuses(LITERAL, "u8s: \"\\777\"", "line 1");
    refuses(LITERAL, "u8s: \"\\x\"", "line 1");
    refuses(LITERAL, "u8s: \"\\ud83d\"", "line 1");
    refuses(LITERAL, "u8s: \"\\U00110000\"", "line 1");
    refuses(LITERAL, "u8s: \"\\", "line 1");
    refuses(SHAPE, "[never ends", "line 1");
    refuses(SHAPE, "0: 1", "line 1");
    refuses(SHAPE, "536870912: 1", "line 1");
    refuses(SHAPE, "unknown: {", "line 1");
    refuses(SHAPE, "unknown: }", "line 1");
}
END_TEST

START_TEST(depth) {
    enum { DEPTH = 100000 };
    static char text[DEPTH * 13 + 1];
    for (int i = 0; i < DEPTH; i++) memcpy(text + i * 13, "tuple_shapes{", 13);
    refuses(SHAPE, text, "line 1");
    for (int i = 0; i < DEPTH; i++) memcpy(text + i * 13, "unknown_name{", 13);
    refuses(SHAPE, text, "line 1");
    for (int i = 0; i < DEPTH; i++) memcpy(text + i * 13, "[[[[[[[[[[[[[", 13);
    memcpy(text, "unknown: ", 9);
    refuses(SHAPE, text, "line 1");
}
END_TEST

static void prints(const ProtobufCMessageDescriptor *d, const char *wire, size_t size, const char *want) {
    td_rope_t out;
    td_err_t err = {0};
    char got[2048];
    td_rope_init(&out, &counter.base);
    ck_assert_msg(td_text_print(d, (td_span_t){(const uint8_t *)wire, size}, &out, &err) == TD_OK, "%s", err.text);
    ck_assert_uint_lt(out.size, sizeof got);
    td_rope_gather(&out, (uint8_t *)got);
    got[out.size] = '\0';
    ck_assert_str_eq(got, want);
    td_rope_deinit(&out);
}
#define PRINTS(d, wire, want) prints(d, wire, sizeof(wire) - 1, want)

START_TEST(printing) {
    PRINTS(SHAPE, "", "");
    PRINTS(SHAPE, "\x10\x0b\x1a\x03\x02\xac\x02\x22\x04\x22\x02\x10\x04\x32\x02\x01\x00",
           "element_type: F32\ndimensions: 2\ndimensions: 300\ntuple_shapes {\n  tuple_shapes {\n    element_type: "
           "S32\n  }\n}\n"
           "is_dynamic_dimension: true\nis_dynamic_dimension: false\n");
    PRINTS(SHAPE, "\x10\xe8\x07", "element_type: 1000\n"); /* an enum value that the schema does not have */
    PRINTS(LITERAL, "\x1a\x0cq\"'\\\n\t\r\x00\x01\x7f\xffz", "u8s: \"q\\\"\\'\\\\\\n\\t\\r\\000\\001\\177\\377z\"\n");
    PRINTS(LITERAL,
           "\x42\x18\x00\x00\x80\x3f\xcd\xcc\xcc\x3d\x00\x00\x80\x7f\x00\x00\x80\xff\x00\x00\xc0\x7f\x00\x00\x00\x80",
           "f32s: 1\nf32s: 0.1\nf32s: inf\nf32s: -inf\nf32s: nan\nf32s: -0\n");
    PRINTS(LITERAL, "\x42\x08\xff\xff\x7f\x7f\x01\x00\x00\x00", "f32s: 3.4028235e+38\nf32s: 1.4013e-45\n");
    PRINTS(LITERAL, "\x4a\x08\x9a\x99\x99\x99\x99\x99\xb9\x3f", "f64s: 0.1\n");
    PRINTS(SHAPE,
           "\xc0\x3e\x05\xc5\x3e\x05\x00\x00\x00\xc1\x3e\x05\x00\x00\x00\x00\x00\x00\x00\xc2\x3e\x02"
           "ab",
           "1000: 5\n1000: 0x00000005\n1000: 0x0000000000000005\n1000: \"ab\"\n");
}
END_TEST

START_TEST(printing_refuses) {
    static const char *const bad[] = {"\x18", "\x12\x01x", "\x15\x01\x02\x03\x04", "\x1a\x01\xff", "\x22\x01\x08"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        td_rope_t out;
        td_rope_init(&out, &counter.base);
        td_span_t wire = {(const uint8_t *)bad[i], strlen(bad[i])};
        ck_assert_int_eq(td_text_print(SHAPE, wire, &out, NULL), TD_MALFORMED);
        td_rope_deinit(&out);
    }
}
END_TEST

/* All single-precision powers and neighbours read back bit by bit. */
START_TEST(floats_come_back) {
    for (uint32_t e = 0; e < 255; e++)
        for (uint32_t m = 0; m < 4; m++) {
            static const uint32_t low[4] = {0, 1, 0x2aaaaa, 0x7fffff};
            uint8_t wire[6] = {0x42, 4};
            uint32_t bits = e << 23 | low[m];
            memcpy(wire + 2, &bits, 4);
            td_rope_t text;
            td_buffer_t back;
            char flat[64] = "";
            td_rope_init(&text, &counter.base);
            td_buffer_init(&back, &counter.base);
            ck_assert_int_eq(td_text_print(LITERAL, (td_span_t){wire, 6}, &text, NULL), TD_OK);
            td_rope_gather(&text, (uint8_t *)flat);
            ck_assert_int_eq(td_text_read(LITERAL, (td_span_t){(uint8_t *)flat, (size_t)text.size}, &back, NULL, NULL),
                             TD_OK);
            ck_assert_msg(back.size == 6 && memcmp(back.data, wire, 6) == 0, "%08x: %s", bits, flat);
            td_buffer_deinit(&back);
            td_rope_deinit(&text);
        }
}
END_TEST

START_TEST(detection) {
    static const char *const yes[] = {"executable_and_options {", "\n # c\n gpu_executable: {", "gpu_executable<",
                                      "cpu_executable {"};
    static const char *const no[] = {"", "# only", "executable_and_options", "gpu_executables {", "hello: 1"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        ck_assert_msg(td_text_is_artifact((td_span_t){(const uint8_t *)yes[i], strlen(yes[i])}), "%s", yes[i]);
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        ck_assert_msg(!td_text_is_artifact((td_span_t){(const uint8_t *)no[i], strlen(no[i])}), "%s", no[i]);
}
END_TEST

static td_status_t opens(const char *text, size_t n, td_payload_table_t *table, td_artifact_t **a, td_err_t *err) {
    return td_artifact_open((td_span_t){(const uint8_t *)text, n}, table, &counter.base, a, err);
}

/* A whole artifact: as it is, cut at every place, and with each byte changed; nothing crashes, nothing leaks. */
START_TEST(artifacts) {
    static const char text[] =
        "# proto-message: xla.HumanReadableAotExecutable\n"
        "executable_and_options { compile_options { executable_build_options { num_replicas: 2 "
        "debug_options { xla_gpu_autotune_level: 4 gone_flag: true } } } }\n"
        "gpu_executable { module_name: \"m\\303\\251\" thunks { thunk_info { thunk_id: 7 } } }\n";
    td_payload_table_t *table;
    td_artifact_t *a = NULL;
    td_err_t err = {0};
    ck_assert_int_eq(td_payload_table_create(&counter.base, &table, NULL), TD_OK);
    ck_assert_msg(opens(text, sizeof text - 1, table, &a, &err) == TD_OK, "%s", err.text);
    ck_assert_int_eq(a->forms[0], TD_FORM_TEXT);
    ck_assert_uint_eq(a->n_skipped_names, 1);
    td_artifact_close(a);
    for (size_t n = 0; n + 3 < sizeof text; n++) ck_assert_int_ne(opens(text, n, table, &a, &err), TD_OK);
    char copy[sizeof text];
    for (size_t i = 0; i < sizeof text - 1; i++)
        for (int k = 0; k < 8; k++) {
            memcpy(copy, text, sizeof text);
            copy[i] ^= (char)(1 << k);
            if (opens(copy, sizeof text - 1, table, &a, &err) == TD_OK) td_artifact_close(a);
        }
    td_payload_table_destroy(table);
}
END_TEST

int main(void) {
    Suite *s = suite_create("text");
    TCase *t = tcase_create("all");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, syntax);
    tcase_add_test(t, strings);
    tcase_add_test(t, numbers);
    tcase_add_test(t, unknown_names);
    tcase_add_test(t, unknown_numbers);
    tcase_add_test(t, errors);
    tcase_add_test(t, depth);
    tcase_add_test(t, printing);
    tcase_add_test(t, printing_refuses);
    tcase_add_test(t, floats_come_back);
    tcase_add_test(t, detection);
    tcase_add_test(t, artifacts);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
