/* SPDX-License-Identifier: Apache-2.0 */
#include "store/safetensors.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Header text plus `data` zero bytes, opened. */
static td_status_t open_text(const char *header, size_t data, td_st_t **out, td_err_t *err) {
    static uint8_t buf[8192];
    size_t n = strlen(header);
    memset(buf, 0, sizeof buf);
    buf[0] = (uint8_t)n;
    buf[1] = (uint8_t)(n >> 8);
    memcpy(buf + 8, header, n);
    return td_st_open((td_span_t){buf, 8 + n + data}, NULL, out, err);
}

START_TEST(good) {
    td_st_t *st = NULL;
    td_err_t err = {0};
    ck_assert_int_eq(open_text("{\"__metadata__\":{\"a\":\"b\"},\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[2,26]},"
                               "\"e\":{\"dtype\":\"I64\",\"shape\":[0,7],\"data_offsets\":[2,2]},"
                               "\"b\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[0,2]}}   ",
                               26, &st, &err), TD_OK);
    ck_assert_uint_eq(td_st_count(st), 3);
    const td_st_tensor_t *w = td_st_find(st, "w");
    ck_assert_ptr_nonnull(w);
    ck_assert_str_eq(w->dtype, "F32");
    ck_assert_uint_eq(w->rank, 2);
    ck_assert_int_eq(w->dims[1], 3);
    ck_assert_uint_eq(w->bytes, 24);
    ck_assert_str_eq(td_st_tensor(st, 0)->name, "b");
    ck_assert_uint_eq(td_st_find(st, "b")->rank, 0);
    ck_assert_ptr_null(td_st_find(st, "__metadata__"));
    ck_assert_ptr_null(td_st_tensor(st, 3));
    td_st_close(st);
}
END_TEST

static const struct {
    const char *header;
    size_t data;
    const char *cause;
} bad[] = {
    {"", 0, "header"},
    {"[]", 0, "not an object"},
    {"{\"a\":", 0, "header"},
    {"{\"a\":1}", 0, "not an object"},
    {"{} x", 0, "header"},
    {"{}", 1, "behind the last"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 7, "outside"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "dtype and shape make 8"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "outside"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "not a size"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4, "not a size"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}", 0, "overflows"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0, "overflows"},
    {"{\"a\":{\"dtype\":\"F33\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "dtype F33"},
    {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "dtype is missing"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "shape is not"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "not two offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", 4, "not two offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4, "unknown key"},
    {"{\"__metadata__\":{\"a\":1}}", 0, "not a string"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
     3, "overlaps"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]}}",
     3, "hole"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
     2, "header"},
};

START_TEST(rejects) {
    td_st_t *st = NULL;
    td_err_t err = {0};
    ck_assert_int_ne(open_text(bad[_i].header, bad[_i].data, &st, &err), TD_OK);
    ck_assert_ptr_null(st);
    ck_assert_msg(strstr(err.text, bad[_i].cause) != NULL, "'%s' does not tell '%s'", err.text, bad[_i].cause);
}
END_TEST

START_TEST(truncated) {
    static const char header[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}";
    uint8_t buf[sizeof header + 16] = {sizeof header - 1};
    memcpy(buf + 8, header, sizeof header - 1);
    size_t full = 8 + sizeof header - 1 + 4;
    td_st_t *st = NULL;
    for (size_t n = 0; n < full; n++) {
        uint8_t *cut = malloc(n + 1); /* so that a sanitizer sees reads past the end */
        memcpy(cut, buf, n);
        ck_assert_int_ne(td_st_open((td_span_t){cut, n}, NULL, &st, NULL), TD_OK);
        free(cut);
    }
    ck_assert_int_eq(td_st_open((td_span_t){buf, full}, NULL, &st, NULL), TD_OK);
    td_st_close(st);
    memset(buf, 0xff, 8);
    ck_assert_int_eq(td_st_open((td_span_t){buf, full}, NULL, &st, NULL), TD_LIMIT);
}
END_TEST

START_TEST(no_memory) {
    td_counting_alloc_t c;
    td_counting_alloc_init(&c, td_alloc_default());
    td_status_t s = TD_NOMEM;
    for (unsigned k = 1; s == TD_NOMEM && k < 50; k++) {
        uint8_t buf[128] = {0};
        static const char header[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";
        td_st_t *st = NULL;
        buf[0] = sizeof header - 1;
        memcpy(buf + 8, header, sizeof header - 1);
        c.gets = 0;
        c.fail_at = k;
        s = td_st_open((td_span_t){buf, 8 + sizeof header}, &c.base, &st, NULL);
        if (s == TD_OK) td_st_close(st);
        ck_assert_uint_eq(c.live_bytes, 0);
    }
    ck_assert_int_eq(s, TD_OK);
}
END_TEST

START_TEST(round_trip) {
    char path[] = "/tmp/td_st_XXXXXX";
    close(mkstemp(path));
    int64_t dims[] = {2, 2}, none[] = {0};
    uint8_t a[4] = {1, 2, 3, 4};
    double d = 2.5;
    td_st_tensor_t t[] = {{"x\"y", "I8", 2, dims, a, 4}, {"1", "F64", 0, NULL, &d, 8}, {"empty", "C64", 1, none, NULL, 0}};
    td_err_t err = {0};
    ck_assert_int_eq(td_st_write(path, t, 3, &err), TD_OK);
    td_st_t *st = NULL;
    ck_assert_msg(td_st_open_file(path, NULL, &st, &err) == TD_OK, "%s", err.text);
    ck_assert_uint_eq(td_st_count(st), 3);
    ck_assert_mem_eq(td_st_find(st, "x\"y")->data, a, 4);
    ck_assert_mem_eq(td_st_find(st, "1")->data, &d, 8);
    ck_assert_uint_eq(td_st_find(st, "empty")->bytes, 0);
    td_st_close(st);
    unlink(path);
    ck_assert_int_eq(td_st_open_file(path, NULL, &st, &err), TD_IO);
    ck_assert_ptr_nonnull(strstr(err.text, path));
    ck_assert_int_eq(td_st_open_file("/tmp", NULL, &st, &err), TD_IO);
    ck_assert_int_eq(td_st_write("/nonexistent/x", t, 3, &err), TD_IO);
}
END_TEST

START_TEST(match) {
    td_arena_t arena;
    td_arena_init(&arena, td_alloc_default(), 0);
    int64_t dims[] = {2, 3}, other[] = {3, 2};
    const td_shape_t *s;
    td_err_t err = {0};
    ck_assert_int_eq(td_shape_make(&arena, TD_S4, 2, dims, NULL, &s, &err), TD_OK);
    td_st_tensor_t t = {"a", "I8", 2, dims, NULL, 6};
    ck_assert_int_eq(td_st_match(&t, s, &err), TD_OK);
    t.dims = other;
    ck_assert_int_eq(td_st_match(&t, s, &err), TD_MISMATCH);
    ck_assert_ptr_nonnull(strstr(err.text, "I8[3,2]"));
    ck_assert_ptr_nonnull(strstr(err.text, "s4[2,3]"));
    t.dims = dims;
    t.dtype = "U8";
    ck_assert_int_eq(td_st_match(&t, s, &err), TD_MISMATCH);
    td_arena_deinit(&arena);
}
END_TEST

int main(void) {
    Suite *s = suite_create("safetensors");
    TCase *c = tcase_create("all");
    tcase_add_test(c, good);
    tcase_add_loop_test(c, rejects, 0, (int)(sizeof bad / sizeof *bad));
    tcase_add_test(c, truncated);
    tcase_add_test(c, no_memory);
    tcase_add_test(c, round_trip);
    tcase_add_test(c, match);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
