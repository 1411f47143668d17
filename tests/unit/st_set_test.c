/* SPDX-License-Identifier: Apache-2.0 */
/* Indexes and their shards, and what is no safetensors file. */
#include "store/st_set.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"

static char dir[32], path_buf[4][128];
static td_st_set_t *set;
static td_err_t err;
static td_counting_alloc_t counter;

static const char *in_dir(const char *name) {
    static int i;
    char *p = path_buf[i++ & 3];
    snprintf(p, sizeof path_buf[0], "%s/%s", dir, name);
    return p;
}

static void make_file(const char *name, const char *text, size_t size) {
    FILE *f = fopen(in_dir(name), "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(text, 1, size, f), size);
    fclose(f);
}

/* A file with one-byte tensors of these names; their value is the name's first letter. */
static void make_st(const char *name, const char *const *tensors, uint32_t n) {
    td_st_tensor_t t[8];
    for (uint32_t i = 0; i < n; i++) t[i] = (td_st_tensor_t){tensors[i], "U8", 0, NULL, tensors[i], 1};
    ck_assert_msg(td_st_write(in_dir(name), t, n, &err) == TD_OK, "%s", err.text);
}

static void make_index(const char *map) {
    char text[1024];
    int n = snprintf(text, sizeof text, "{\"metadata\": {\"total_size\": 4}, \"weight_map\": %s}", map);
    make_file("m.index.json", text, (size_t)n);
}

static void setup(void) {
    strcpy(dir, "/tmp/td_set_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    make_st("1.safetensors", (const char *[]){"a", "b"}, 2);
    make_st("2.safetensors", (const char *[]){"c"}, 1);
    td_counting_alloc_init(&counter, td_alloc_default());
    ck_assert_int_eq(td_st_set_create(&counter.base, &set, &err), TD_OK);
}

static void teardown(void) {
    char cmd[64];
    td_st_set_destroy(set);
    ck_assert_uint_eq(counter.live_bytes, 0);
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", dir);
    ck_assert_int_eq(system(cmd), 0);
}

static void expect_value(const char *name, char value, const char *file) {
    const td_st_tensor_t *t = NULL;
    uint32_t i = 99;
    ck_assert_int_eq(td_st_set_find(set, name, &t, &i, &err), TD_OK);
    ck_assert_msg(t != NULL, "no %s", name);
    ck_assert_int_eq(*(const char *)t->data, value);
    ck_assert_str_eq(td_st_set_path(set, i), in_dir(file));
    ck_assert_ptr_eq(td_st_find(td_st_set_file(set, i), name), t);
}

START_TEST(index_with_shards) {
    make_index("{\"a\": \"1.safetensors\", \"c\": \"2.safetensors\", \"b\": \"1.safetensors\"}");
    ck_assert_msg(td_st_set_add(set, in_dir("m.index.json"), &err) == TD_OK, "%s", err.text);
    ck_assert_uint_eq(td_st_set_count(set), 2);
    expect_value("a", 'a', "1.safetensors");
    expect_value("b", 'b', "1.safetensors");
    expect_value("c", 'c', "2.safetensors");
    const td_st_tensor_t *t = NULL;
    uint32_t i;
    ck_assert_int_eq(td_st_set_find(set, "d", &t, &i, &err), TD_OK);
    ck_assert_ptr_null(t);
}
END_TEST

START_TEST(several_files) {
    make_st("3.safetensors", (const char *[]){"c", "d"}, 2);
    ck_assert_int_eq(td_st_set_add(set, in_dir("2.safetensors"), &err), TD_OK);
    ck_assert_int_eq(td_st_set_add(set, in_dir("3.safetensors"), &err), TD_OK);
    expect_value("d", 'd', "3.safetensors");
    const td_st_tensor_t *t = NULL;
    uint32_t i;
    ck_assert_int_eq(td_st_set_find(set, "c", &t, &i, &err), TD_MISMATCH);
    ck_assert_ptr_nonnull(strstr(err.text, in_dir("2.safetensors")));
    ck_assert_ptr_nonnull(strstr(err.text, in_dir("3.safetensors")));
}
END_TEST

static const struct {
    const char *map;
    td_status_t code;
    const char *cause, *too;
} bad[] = {
    {"[]", TD_MALFORMED, "no weight_map", "m.index.json"},
    {"{\"a\": 1}", TD_MALFORMED, "tensor a is not a text", "m.index.json"},
    {"{\"a\": \"../1.safetensors\"}", TD_MALFORMED, "no file name", "../1.safetensors"},
    {"{\"a\": \"/etc/passwd\"}", TD_MALFORMED, "no file name", "/etc/passwd"},
    {"{\"a\": \"..\"}", TD_MALFORMED, "no file name", "tensor a"},
    {"{\"a\": \".\"}", TD_MALFORMED, "no file name", "tensor a"},
    {"{\"a\": \"\"}", TD_MALFORMED, "no file name", "tensor a"},
    {"{\"a\": \"1.safetensors\", \"b\": \"1.safetensors\", \"x\": \"9.safetensors\"}", TD_IO,
     "No such file", "9.safetensors"},
    {"{\"a\": \"1.safetensors\", \"b\": \"1.safetensors\", \"x\": \"2.safetensors\"}", TD_MISMATCH,
     "gives tensor x to 2.safetensors", "does not have it"},
    {"{\"a\": \"1.safetensors\"}", TD_MISMATCH, "1.safetensors has tensor b", "not in weight_map"},
    {"{\"a\": \"1.safetensors\", \"b\": \"2.safetensors\"}", TD_MISMATCH, "tensor b", "2.safetensors"},
    {"{\"a\": \"1.safetensors\", \"a\": \"1.safetensors\"}", TD_MALFORMED, "m.index.json", "duplicate"},
    {"{\"a\": \"m.index.json\"}", TD_LIMIT, "header", "m.index.json"},
};

START_TEST(rejects) {
    make_index(bad[_i].map);
    td_status_t s = td_st_set_add(set, in_dir("m.index.json"), &err);
    ck_assert_msg(s == bad[_i].code, "%s: %s", bad[_i].map, err.text);
    ck_assert_msg(strstr(err.text, bad[_i].cause) != NULL, "'%s' does not tell '%s'", err.text, bad[_i].cause);
    ck_assert_msg(strstr(err.text, bad[_i].too) != NULL, "'%s' does not tell '%s'", err.text, bad[_i].too);
}
END_TEST

START_TEST(a_tensor_in_two_shards) {
    make_st("2.safetensors", (const char *[]){"c", "a"}, 2);
    make_index("{\"a\": \"1.safetensors\", \"b\": \"1.safetensors\", \"c\": \"2.safetensors\"}");
    ck_assert_int_eq(td_st_set_add(set, in_dir("m.index.json"), &err), TD_MISMATCH);
    ck_assert_msg(strstr(err.text, "2.safetensors has it too") != NULL, "%s", err.text);
}
END_TEST

START_TEST(out_of_memory) {
    make_index("{\"a\": \"1.safetensors\", \"c\": \"2.safetensors\", \"b\": \"1.safetensors\"}");
    td_status_t s = TD_NOMEM;
    for (unsigned k = 1; s != TD_OK && k < 50; k++) {
        td_st_set_t *x = NULL;
        counter.gets = 0;
        counter.fail_at = k;
        s = td_st_set_create(&counter.base, &x, &err);
        if (s == TD_OK) s = td_st_set_add(x, in_dir("m.index.json"), &err);
        ck_assert(s == TD_OK || s == TD_NOMEM);
        td_st_set_destroy(x);
    }
    counter.fail_at = 0;
    ck_assert_int_eq(s, TD_OK);
}
END_TEST

static void expect_file(const char *name, td_status_t code, const char *cause) {
    td_st_t *st = NULL;
    ck_assert_int_eq(td_st_open_file(in_dir(name), td_alloc_default(), &st, &err), code);
    ck_assert_ptr_null(st);
    ck_assert_msg(strstr(err.text, cause) && strstr(err.text, name), "'%s' does not tell '%s'", err.text, cause);
}

START_TEST(what_is_no_file) {
    ck_assert_int_eq(mkfifo(in_dir("fifo"), 0600), 0);
    expect_file("fifo", TD_IO, "not a regular file");
    ck_assert_int_eq(mkdir(in_dir("folder"), 0700), 0);
    expect_file("folder", TD_IO, "not a regular file");
    ck_assert_int_eq(symlink("folder", in_dir("to_folder")), 0);
    expect_file("to_folder", TD_IO, "not a regular file");
    ck_assert_int_eq(symlink("nowhere", in_dir("dangling")), 0);
    expect_file("dangling", TD_IO, "No such file");
    make_file("empty", "", 0);
    expect_file("empty", TD_MALFORMED, "empty");
    make_file("sparse", "", 0);
    if (truncate(in_dir("sparse"), (off_t)1 << 40) == 0) expect_file("sparse", TD_MALFORMED, "header of 0 bytes");
    ck_assert_int_eq(symlink("1.safetensors", in_dir("link")), 0);
    td_st_t *st = NULL;
    ck_assert_int_eq(td_st_open_file(in_dir("link"), td_alloc_default(), &st, &err), TD_OK);
    td_st_close(st);
}
END_TEST

/* 60 MiB of JSON that would take some GiB. */
START_TEST(huge_headers) {
    size_t n = 60u << 20;
    char *b = malloc(8 + n);
    ck_assert_ptr_nonnull(b);
    for (int i = 0; i < 8; i++) b[i] = (char)((uint64_t)n >> (8 * i));
    for (size_t i = 0; i < n; i += 2) b[8 + i] = '0', b[9 + i] = ',';
    b[8] = '[', b[8 + n - 1] = ']';
    make_file("big", b, 8 + n);
    expect_file("big", TD_LIMIT, "would take");
    memset(b + 8, ' ', n); /* nothing but space is no trouble */
    memcpy(b + 8, "{}", 2);
    make_file("wide", b, 8 + n);
    td_st_t *st = NULL;
    ck_assert_msg(td_st_open_file(in_dir("wide"), td_alloc_default(), &st, &err) == TD_OK, "%s", err.text);
    td_st_close(st);
    free(b);
}
END_TEST

int main(void) {
    Suite *s = suite_create("st_set");
    TCase *t = tcase_create("set");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, index_with_shards);
    tcase_add_test(t, several_files);
    tcase_add_loop_test(t, rejects, 0, sizeof bad / sizeof *bad);
    tcase_add_test(t, a_tensor_in_two_shards);
    tcase_add_test(t, out_of_memory);
    tcase_add_test(t, what_is_no_file);
    tcase_add_test(t, huge_headers);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
