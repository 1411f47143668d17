/* SPDX-License-Identifier: Apache-2.0 */
/* gRPC's framing, timeouts, status messages; the protobuf writer. */
#include "daemon/grpc.c"
#include "proto/pb.h"

#include <check.h>

static const struct {
    const char *bytes;
    size_t size;
    td_status_t status;
    size_t message;
} frames[] = {
    {"\0\0\0\0\0", 5, TD_OK, 0},
    {"\0\0\0\0\2ab", 7, TD_OK, 2},
    {"", 0, TD_MALFORMED, 0},
    {"\0\0\0\0", 4, TD_MALFORMED, 0},
    {"\0\0\0\0\3ab", 7, TD_MALFORMED, 0},
    {"\0\0\0\0\1ab", 7, TD_MALFORMED, 0},
    {"\0\xff\xff\xff\xff" "ab", 7, TD_MALFORMED, 0},
    {"\2\0\0\0\2ab", 7, TD_MALFORMED, 0},
    {"\1\0\0\0\2ab", 7, TD_UNSUPPORTED, 0},
    {"\0\0\0\0\1a\0\0\0\0\1b", 12, TD_MALFORMED, 0},
};

START_TEST(unframe) {
    td_err_t err = {0};
    td_span_t m = {0};
    td_span_t in = {(const uint8_t *)frames[_i].bytes, frames[_i].size};
    ck_assert_int_eq(td_grpc_unframe(in, &m, &err), frames[_i].status);
    if (frames[_i].status == TD_OK) {
        ck_assert_uint_eq(m.size, frames[_i].message);
        ck_assert_ptr_eq(m.data, in.data + 5);
    } else {
        ck_assert_int_gt((int)strlen(err.text), 0);
    }
}
END_TEST

START_TEST(prefix) {
    uint8_t p[TD_GRPC_PREFIX];
    td_grpc_prefix(p, 0x01020304);
    ck_assert_mem_eq(p, "\0\1\2\3\4", 5);
}
END_TEST

static const struct {
    const char *text;
    bool ok;
    uint64_t ns;
} timeouts[] = {
    {"1n", true, 1}, {"13m", true, 13000000}, {"1998677u", true, 1998677000}, {"99S", true, 99000000000},
    {"0S", true, 0}, {"1670M", true, 100200000000000}, {"2778H", true, 10000800000000000},
    {"99999999H", true, UINT64_MAX}, {"99999999n", true, 99999999},
    {"", false, 0}, {"m", false, 0}, {"5", false, 0}, {"12x", false, 0}, {"-1S", false, 0}, {" 1S", false, 0},
    {"1.5S", false, 0}, {"123456789n", false, 0}, {"1s", false, 0}, {"1SS", false, 0},
};

START_TEST(timeout_text) {
    uint64_t ns = 7;
    ck_assert_int_eq(td_grpc_timeout(timeouts[_i].text, strlen(timeouts[_i].text), &ns), timeouts[_i].ok);
    if (timeouts[_i].ok) ck_assert_uint_eq(ns, timeouts[_i].ns);
}
END_TEST

static const struct {
    const char *text, *encoded;
} messages[] = {
    {"", ""}, {"plain ~", "plain ~"}, {"bad arg: caf\xc3\xa9 % \n x", "bad arg: caf%C3%A9 %25 %0A x"}, {"\x7f\x01", "%7F%01"},
};

START_TEST(percent_encoding) {
    char out[64];
    size_t n = td_grpc_encode(messages[_i].text, out, sizeof out);
    ck_assert_str_eq(out, messages[_i].encoded);
    ck_assert_uint_eq(n, strlen(messages[_i].encoded));
}
END_TEST

/* Whatever the room, the text ends inside it and no escape is cut. */
START_TEST(percent_encoding_is_cut) {
    char out[16];
    for (size_t room = 1; room <= sizeof out; room++) {
        memset(out, '#', sizeof out);
        size_t n = td_grpc_encode("a%b%c%d%e%f", out, room);
        ck_assert_uint_lt(n, room);
        ck_assert_int_eq(out[n], 0);
        ck_assert_uint_eq(n, strlen(out));
        const char *last = strrchr(out, '%');
        if (last) ck_assert_uint_ge(strlen(last), 3);
        for (size_t i = room; i < sizeof out; i++) ck_assert_int_eq(out[i], '#');
    }
}
END_TEST

START_TEST(every_status_has_a_code) {
    for (int s = 0; s < TD_STATUS_COUNT; s++) {
        td_grpc_code_t c = td_grpc_code((td_status_t)s);
        ck_assert((c == TD_GRPC_OK) == (s == TD_OK));
        ck_assert_int_le(c, 16);
    }
    ck_assert_int_eq(td_grpc_code(TD_BUSY), TD_GRPC_RESOURCE_EXHAUSTED);
    ck_assert_int_eq(td_grpc_code(TD_MISMATCH), TD_GRPC_INVALID_ARGUMENT);
    ck_assert_int_eq(td_grpc_code(TD_DEADLINE), TD_GRPC_DEADLINE_EXCEEDED);
}
END_TEST

START_TEST(writer) {
    td_pb_t b = {0}, inner = {0};
    int64_t dims[] = {1, -1, 300};
    td_pb_string(&b, 1, "ab");
    td_pb_string(&b, 2, "");
    td_pb_string(&b, 2, NULL);
    td_pb_varint(&b, 3, 300);
    td_pb_varint(&inner, 1, 1);
    td_pb_message(&b, 16, &inner);
    ck_assert(!b.failed);
    ck_assert_ptr_null(inner.data);
    ck_assert_uint_eq(b.size, 4 + 3 + 5);
    ck_assert_mem_eq(b.data, "\x0a\x02" "ab\x18\xac\x02\x82\x01\x02\x08\x01", 12);
    b.size = 0;
    td_pb_packed_i64(&b, 3, dims, 3);
    ck_assert_uint_eq(b.size, 2 + 1 + 10 + 2);
    td_pb_packed_i64(&b, 3, dims, 0);
    ck_assert_uint_eq(b.size, 15);
    td_pb_free(&b);
    ck_assert_ptr_null(b.data);
}
END_TEST

START_TEST(writer_without_memory) {
    td_pb_t b = {0};
    td_pb_string(&b, 1, "ab");
    td_pb_reserve(&b, SIZE_MAX - 1);
    ck_assert(b.failed);
    ck_assert_uint_eq(b.size, 4);
    td_pb_string(&b, 1, "a string that comes later is dropped, however often the buffer was big enough before");
    ck_assert(b.failed);
    td_pb_free(&b);
}
END_TEST

typedef struct purse {
    uint64_t left, taken;
} purse_t;

static bool purse_take(void *ctx, uint64_t n) {
    purse_t *p = ctx;
    if (n > p->left - p->taken) return false;
    p->taken += n;
    return true;
}

static void purse_give(void *ctx, uint64_t n) {
    purse_t *p = ctx;
    ck_assert_uint_le(n, p->taken);
    p->taken -= n;
}

START_TEST(writer_with_a_charge) {
    purse_t p = {.left = 1000};
    td_charge_t charge = {purse_take, purse_give, &p};
    td_pb_t b = {.charge = &charge};
    uint8_t text[700] = {0};
    td_pb_raw(&b, text, 300);
    ck_assert_uint_eq(p.taken, 300); /* exact at first */
    td_pb_raw(&b, text, 1);
    ck_assert_uint_eq(p.taken, 600);
    ck_assert(!td_pb_try(&b, 700)); /* 1001 */
    ck_assert(!b.failed);
    ck_assert_uint_eq(p.taken, 600);
    td_pb_t moved = b;
    td_pb_raw(&moved, text, 700);
    ck_assert(moved.failed && moved.refused);
    ck_assert_uint_eq(moved.size, 301);
    td_pb_free(&moved);
    ck_assert_uint_eq(p.taken, 0);
    /* what it held before it had a charge is nobody's */
    b = (td_pb_t){0};
    td_pb_reserve(&b, 256);
    b.charge = &charge;
    td_pb_reserve(&b, 400);
    ck_assert_uint_eq(p.taken, 256);
    td_pb_free(&b);
    ck_assert_uint_eq(p.taken, 0);
}
END_TEST

int main(void) {
    Suite *s = suite_create("grpc");
    TCase *t = tcase_create("grpc");
    tcase_add_loop_test(t, unframe, 0, sizeof frames / sizeof *frames);
    tcase_add_test(t, prefix);
    tcase_add_loop_test(t, timeout_text, 0, sizeof timeouts / sizeof *timeouts);
    tcase_add_loop_test(t, percent_encoding, 0, sizeof messages / sizeof *messages);
    tcase_add_test(t, percent_encoding_is_cut);
    tcase_add_test(t, every_status_has_a_code);
    tcase_add_test(t, writer);
    tcase_add_test(t, writer_without_memory);
    tcase_add_test(t, writer_with_a_charge);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
