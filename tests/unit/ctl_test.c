/* SPDX-License-Identifier: Apache-2.0 */
/* The client's wire format, answers and connection errors. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/grpc_client.c"
#include "ctl/oip.c"
#include "ctl/pb.h"

START_TEST(fields_round_trip) {
    td_pb_t b = {0};
    int64_t dims[] = {2, -1, 300};
    td_pb_string(&b, 1, "x");
    td_pb_string(&b, 2, "");
    td_pb_varint(&b, 16, UINT64_MAX);
    td_pb_packed_i64(&b, 3, dims, 3);
    td_span_t in = {b.data, b.size};
    td_wire_field_t f;
    bool bad = false;
    ck_assert(pb_next(&in, &f, &bad));
    ck_assert_uint_eq(f.number, 1);
    ck_assert_uint_eq(f.bytes.size, 1);
    ck_assert(pb_next(&in, &f, &bad));
    ck_assert_uint_eq(f.number, 16);
    ck_assert_uint_eq(f.value, UINT64_MAX);
    ck_assert(pb_next(&in, &f, &bad));
    ck_assert_uint_eq(f.bytes.size, 1 + 10 + 2);
    ck_assert(!pb_next(&in, &f, &bad));
    ck_assert(!bad);
    td_pb_free(&b);
}
END_TEST

static const struct {
    const char *bytes;
    size_t size;
} broken[] = {{"\x80", 1}, {"\x0a\x05" "ab", 4}, {"\x00\x01", 2}, {"\x0b", 1}, {"\x09" "abc", 4}, {"\x08", 1},
              {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11}};

START_TEST(broken_fields_are_bad) {
    td_span_t in = {(const uint8_t *)broken[_i].bytes, broken[_i].size};
    td_wire_field_t f;
    bool bad = false;
    while (pb_next(&in, &f, &bad)) continue;
    ck_assert(bad);
}
END_TEST

START_TEST(tensors_are_decoded) {
    td_pb_t b = {0};
    int64_t dims[] = {2, 3};
    td_pb_string(&b, 1, "x");
    td_pb_string(&b, 2, "FP32");
    td_pb_packed_i64(&b, 3, dims, 2);
    td_pb_varint(&b, 3, 4); /* unpacked, too */
    oip_tensors_t t = {0};
    td_err_t err = {0};
    ck_assert_int_eq(oip_tensors_add(&t, (td_span_t){b.data, b.size}, &err), TD_OK);
    uint64_t n;
    ck_assert(oip_bytes(&t.items[0], &n));
    ck_assert_uint_eq(n, 96);
    t.items[0].dims[1] = -1;
    ck_assert(!oip_bytes(&t.items[0], &n));
    ck_assert_int_eq(oip_tensors_add(&t, (td_span_t){(const uint8_t *)"\x0a\x05", 2}, &err), TD_MALFORMED);
    oip_tensors_free(&t);
    td_pb_free(&b);
}
END_TEST

START_TEST(messages_are_unescaped) {
    char out[8];
    decode_message((const uint8_t *)"a%20b%zz%", 9, out, sizeof out);
    ck_assert_str_eq(out, "a b%zz%");
}
END_TEST

START_TEST(replies_are_checked) {
    uint8_t bytes[] = {0, 0, 0, 0, 2, 'h', 'i'};
    grpc_reply_t r = {.body = {.data = bytes, .size = sizeof bytes}};
    td_span_t m;
    td_err_t err = {0};
    ck_assert_int_eq(grpc_reply_message(&r, &m, &err), TD_OK);
    ck_assert_uint_eq(m.size, 2);
    r.body.size--;
    ck_assert_int_eq(grpc_reply_message(&r, &m, &err), TD_MALFORMED);
    r.body.size = 4;
    ck_assert_int_eq(grpc_reply_message(&r, &m, &err), TD_MALFORMED);
    r.body.size = sizeof bytes;
    bytes[0] = 1;
    ck_assert_int_eq(grpc_reply_message(&r, &m, &err), TD_UNSUPPORTED);
}
END_TEST

START_TEST(no_daemon_is_an_error) {
    grpc_reply_t r;
    td_err_t err = {0};
    ck_assert_int_ne(grpc_call("/nonexistent/s.sock", "/x/Y", (td_span_t){0}, 100, &r, &err), TD_OK);
    ck_assert_ptr_nonnull(strstr(err.text, "/nonexistent/s.sock"));
    grpc_reply_free(&r);
    char longer[300];
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    ck_assert_int_eq(grpc_call(longer, "/x/Y", (td_span_t){0}, 100, &r, &err), TD_USAGE);
    grpc_reply_free(&r);
}
END_TEST

int main(void) {
    Suite *s = suite_create("ctl");
    TCase *c = tcase_create("all");
    tcase_add_test(c, fields_round_trip);
    tcase_add_loop_test(c, broken_fields_are_bad, 0, (int)(sizeof broken / sizeof *broken));
    tcase_add_test(c, tensors_are_decoded);
    tcase_add_test(c, messages_are_unescaped);
    tcase_add_test(c, replies_are_checked);
    tcase_add_test(c, no_daemon_is_an_error);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
