/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/model_config.h"

static char dir[64];

static void make_dir(const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    ck_assert_int_eq(mkdir(path, 0700), 0);
}

static void make_file(const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

static void setup(void) {
    strcpy(dir, "/tmp/td_store_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void teardown(void) {
    char cmd[128];
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", dir);
    ck_assert_int_eq(system(cmd), 0);
}

static td_store_t *open_store(void) {
    td_store_t *s = NULL;
    td_err_t err = {0};
    ck_assert_msg(td_store_open(&(td_store_opts_t){.dir = dir}, &s, &err) == TD_OK, "%s", err.text);
    return s;
}

static void expect_reason(td_store_t *s, const char *name, const char *cause) {
    td_model_t *m = td_store_find(s, name, NULL);
    ck_assert_msg(m != NULL, "%s is not listed", name);
    ck_assert_int_eq(td_model_state(m), TD_MODEL_UNAVAILABLE);
    ck_assert_msg(strstr(td_model_reason(m), cause) != NULL, "%s: '%s' does not tell '%s'", name, td_model_reason(m), cause);
    ck_assert_uint_eq(td_model_input_count(m), 0);
    ck_assert_ptr_null(td_model_output(m, 0));
    ck_assert_uint_eq(td_model_bytes(m), 0);
    td_slot_t *slot = NULL;
    td_err_t err = {0};
    ck_assert_int_eq(td_model_run(m, NULL, &slot, NULL, &err), TD_NOTFOUND);
}

START_TEST(bad_models_keep_their_reasons) {
    make_file("stray", "x");
    make_dir(".hidden");
    make_dir("no_version");
    make_dir("empty"), make_dir("empty/1");
    make_dir("garbage"), make_dir("garbage/1"), make_file("garbage/1/model.aot", "not an artifact");
    make_dir("two"), make_dir("two/1"), make_file("two/1/a.aot", "x"), make_file("two/1/b.aot", "x");
    make_dir("key"), make_dir("key/1"), make_file("key/1/model.aot", "x");
    make_file("key/1/model.yaml", "inputs: [a]\nweight: [1]\n");
    td_store_t *s = open_store();
    ck_assert_uint_eq(td_store_count(s), 5);
    expect_reason(s, "no_version", "no version directory");
    expect_reason(s, "empty", "no artifact");
    expect_reason(s, "garbage", "garbage/1/model.aot");
    expect_reason(s, "two", "several *.aot");
    expect_reason(s, "key", "model.yaml:2: unknown key weight");
    ck_assert_ptr_null(td_store_find(s, "stray", NULL));
    td_store_close(s);
}
END_TEST

START_TEST(versions_are_numbers) {
    make_dir("m"), make_dir("m/9"), make_dir("m/10"), make_dir("m/x"), make_file("m/11", "");
    td_store_t *s = open_store();
    ck_assert_uint_eq(td_store_count(s), 2);
    ck_assert_str_eq(td_model_version(td_store_find(s, "m", NULL)), "10");
    ck_assert_str_eq(td_model_version(td_store_find(s, "m", "")), "10");
    ck_assert_str_eq(td_model_version(td_store_find(s, "m", "9")), "9");
    ck_assert_ptr_null(td_store_find(s, "m", "11"));
    ck_assert_ptr_null(td_store_model(s, 2));
    td_store_close(s);
}
END_TEST

START_TEST(a_missing_directory_is_an_error) {
    td_store_t *s = NULL;
    td_err_t err = {0};
    ck_assert_int_eq(td_store_open(&(td_store_opts_t){.dir = "/nonexistent/models"}, &s, &err), TD_IO);
    ck_assert_ptr_nonnull(strstr(err.text, "/nonexistent/models"));
    ck_assert_ptr_null(s);
}
END_TEST

START_TEST(config_is_read) {
    static const char text[] = "# names\ninputs: [image, mask]\noutputs:\n  - logits\nweights: [1, 0]\n";
    td_arena_t arena;
    td_arena_init(&arena, td_alloc_default(), 0);
    td_model_config_t c;
    td_err_t err = {0};
    ck_assert_msg(td_model_config_parse(text, strlen(text), "f", &arena, &c, &err) == TD_OK, "%s", err.text);
    ck_assert_uint_eq(c.inputs.n, 2);
    ck_assert_str_eq(c.inputs.items[1], "mask");
    ck_assert_str_eq(c.outputs.items[0], "logits");
    ck_assert_str_eq(c.weights.items[0], "1");
    ck_assert_int_eq(td_model_config_parse("", 0, "f", &arena, &c, &err), TD_OK);
    ck_assert(!c.inputs.given);
    td_arena_deinit(&arena);
}
END_TEST

static const struct {
    const char *text, *cause;
} bad_config[] = {
    {"input: [a]\n", "f:1: unknown key input"},
    {"inputs: a\n", "f:1: inputs is not a list"},
    {"\ninputs: [a, [b]]\n", "f:2: inputs: an entry is not"},
    {"inputs: [a]\ninputs: [b]\n", "f:2: inputs stands twice"},
    {"inputs: [a, a]\n", "a stands twice"},
    {"outputs: ['']\n", "empty entry"},
    {"weights: [x]\n", "x is not a parameter index"},
    {"weights: [-1]\n", "not a parameter index"},
    {"weights: [12345678901]\n", "not a parameter index"},
    {"- a\n", "not a map"},
    {"inputs: [a\n", "f:"},
    {"[a]: b\n", "a key is not a plain value"},
    {"inputs: [a]\n---\ninputs: [b]\n", "more than one document"},
    {"inputs: *x\n", "f:1"},
};

START_TEST(config_errors_name_the_line) {
    td_arena_t arena;
    td_arena_init(&arena, td_alloc_default(), 0);
    td_model_config_t c;
    td_err_t err = {0};
    const char *t = bad_config[_i].text;
    ck_assert_int_ne(td_model_config_parse(t, strlen(t), "f", &arena, &c, &err), TD_OK);
    ck_assert_msg(strstr(err.text, bad_config[_i].cause) != NULL, "'%s' does not tell '%s'", err.text, bad_config[_i].cause);
    td_arena_deinit(&arena);
}
END_TEST

START_TEST(datatypes_have_names) {
    ck_assert_str_eq(td_datatype_name(TD_F32), "FP32");
    ck_assert_str_eq(td_datatype_name(TD_BF16), "BF16");
    ck_assert_str_eq(td_datatype_name(TD_PRED), "BOOL");
    ck_assert_str_eq(td_datatype_name(TD_S4), "INT8");
    ck_assert_str_eq(td_datatype_name(TD_U4), "UINT8");
    ck_assert_str_eq(td_datatype_name(TD_F8E4M3FN), "F8_E4M3");
    ck_assert_str_eq(td_datatype_name(TD_TUPLE), "");
}
END_TEST

/* The sample model, found from the repository's root. */
START_TEST(the_sample_runs) {
    if (access("samples/store/digits/1", R_OK) != 0) return;
    td_device_t *dev;
    td_store_t *s = NULL;
    td_err_t err = {0};
    ck_assert_msg(td_host_device_create(td_alloc_default(), &dev, &err) == TD_OK, "%s", err.text);
    td_store_opts_t opts = {.dir = "samples/store", .device = dev, .concurrency = 1};
    ck_assert_msg(td_store_open(&opts, &s, &err) == TD_OK, "%s", err.text);
    td_model_t *m = td_store_find(s, "digits", "1");
    ck_assert_msg(td_model_state(m) == TD_MODEL_READY, "%s", td_model_reason(m));
    ck_assert_uint_eq(td_model_input_count(m), 1); /* the others are weights */
    ck_assert_str_eq(td_model_input(m, 0)->name, "image");
    const td_tensor_info_t *out = td_model_output(m, 0);
    ck_assert_str_eq(out->name, "probabilities");
    ck_assert_str_eq(out->datatype, "FP32");
    void *image = calloc(1, td_model_input(m, 0)->bytes);
    const void *inputs[] = {image};
    td_slot_t *slot = NULL, *second = NULL;
    ck_assert_msg(td_model_run(m, inputs, &slot, NULL, &err) == TD_OK, "%s", err.text);
    ck_assert_int_eq(td_model_run(m, inputs, &second, NULL, &err), TD_BUSY);
    const float *p = td_slot_output(slot, 0);
    double sum = 0;
    for (int64_t i = 0; i < out->dims[out->rank - 1]; i++) sum += (double)p[i];
    ck_assert_double_eq_tol(sum, 1, 1e-4);
    ck_assert_ptr_null(td_slot_output(slot, 1));
    td_slot_release(slot);
    ck_assert_int_eq(td_model_run(m, inputs, &second, NULL, &err), TD_OK);
    td_slot_release(second);
    free(image);
    td_store_close(s);
    td_device_destroy(dev);
}
END_TEST

int main(void) {
    Suite *s = suite_create("store");
    TCase *c = tcase_create("all");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, bad_models_keep_their_reasons);
    tcase_add_test(c, versions_are_numbers);
    tcase_add_test(c, a_missing_directory_is_an_error);
    tcase_add_test(c, config_is_read);
    tcase_add_loop_test(c, config_errors_name_the_line, 0, (int)(sizeof bad_config / sizeof *bad_config));
    tcase_add_test(c, datatypes_have_names);
    tcase_add_test(c, the_sample_runs);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
