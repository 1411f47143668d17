/* SPDX-License-Identifier: Apache-2.0 */
/* Bound parameters: which tensor of which file. */
#include <unistd.h>

#include "weights_case.h"

/* ---- configurations ---- */

static td_word_t word(const char *text, uint32_t line) { return (td_word_t){text, "model.yaml", line}; }

static td_model_yaml_t with_bind(td_word_pair_t *pairs, uint32_t n) {
    return (td_model_yaml_t){.weights_bind = {pairs, n, true}};
}
static td_model_yaml_t with_only(td_word_t *words, uint32_t n) {
    return (td_model_yaml_t){.weights_only = {.items = words, .n = n, .given = true}};
}

/* ---- which tensor ---- */

START_TEST(index_name_and_path) {
    WRITE("weights.safetensors", tensor_x("unused"), tensor_w("params['w']"), tensor_b("bias"), tensor_f("3"));
    td_weights_t *w = open_with(NULL, NULL);
    bool bound[4];
    ck_assert_int_eq(td_weights_match(w, params, 4, bound, &err), TD_OK);
    ck_assert(!bound[0] && bound[1] && bound[2] && bound[3]);
    uint64_t bytes = 0, resident = 1;
    td_weights_need(w, &bytes, &resident);
    ck_assert_uint_eq(bytes, td_payload_cost(4 * BIG) + td_payload_cost(6) + td_payload_cost(2));
    ck_assert_uint_eq(resident, 0);
    ck_assert_uint_eq(taken, 0);
    ck_assert_uint_eq(td_weights_bytes(w), 0);
    const void *at[4];
    bind(w, at);
    ck_assert_ptr_null(at[0]);
    ck_assert_mem_eq(at[1], big, sizeof big);
    ck_assert_mem_eq(at[2], b_data, sizeof b_data);
    ck_assert_mem_eq(at[3], f_data, sizeof f_data);
    for (int i = 1; i < 4; i++) ck_assert_uint_eq((uintptr_t)at[i] % td_io_align(params[i].shape), 0);
    ck_assert_uint_eq(taken, bytes);
    ck_assert_uint_eq(td_weights_bytes(w), sizeof big + 6 + 2);
    const void *again[4];
    bind(w, again); /* the same for a second program */
    ck_assert_mem_eq(at, again, sizeof at);
    ck_assert_uint_eq(taken, bytes);
    ck_assert_uint_eq(td_weights_bytes(w), sizeof big + 6 + 2);
    td_weights_need(w, &bytes, &resident);
    ck_assert_uint_eq(resident, bytes);
    td_weights_close(w);
}
END_TEST

START_TEST(the_index_wins_over_the_name) {
    float other[4] = {9, 9, 9, 9};
    WRITE("weights.safetensors", {"x", "F32", 1, dims_x, other, 16}, tensor_x("0"));
    td_weights_t *w = open_with(NULL, NULL);
    const void *at[4];
    bind(w, at);
    ck_assert_mem_eq(at[0], x_data, 16);
    td_weights_close(w);
    td_word_pair_t pairs[] = {{word("0", 4), word("x", 4)}};
    td_model_yaml_t c = with_bind(pairs, 1);
    w = open_with(&c, NULL);
    bind(w, at);
    ck_assert_mem_eq(at[0], other, 16);
    td_weights_close(w);
}
END_TEST

START_TEST(bound_by_the_configuration) {
    WRITE("weights.safetensors", tensor_x("layer.x"), tensor_w("layer.w"), tensor_b("layer.b"));
    td_word_pair_t pairs[] = {{word("0", 4), word("layer.x", 4)}, {word("params['w']", 5), word("layer.w", 5)},
                              {word("bias", 6), word("layer.b", 6)}};
    td_model_yaml_t c = with_bind(pairs, 3);
    td_weights_t *w = open_with(&c, NULL);
    const void *at[4];
    bind(w, at);
    ck_assert_mem_eq(at[0], x_data, 16);
    ck_assert_mem_eq(at[1], big, sizeof big);
    ck_assert_mem_eq(at[2], b_data, 6);
    ck_assert_ptr_null(at[3]);
    td_weights_close(w);
}
END_TEST

START_TEST(only_these) {
    WRITE("weights.safetensors", tensor_x("0"), tensor_w("params['w']"), tensor_b("bias"));
    td_word_t only[] = {word("params['w']", 3), word("2", 3)};
    td_model_yaml_t c = with_only(only, 2);
    td_weights_t *w = open_with(&c, NULL);
    const void *at[4];
    bind(w, at);
    ck_assert(!at[0] && at[1] && at[2] && !at[3]);
    td_weights_close(w);
    c = with_only(NULL, 0); /* none at all */
    w = open_with(&c, NULL);
    bind(w, at);
    ck_assert(!at[0] && !at[1] && !at[2] && !at[3]);
    td_weights_close(w);
}
END_TEST

START_TEST(no_file_binds_nothing) {
    td_weights_t *w = open_with(NULL, NULL);
    const void *at[4];
    bind(w, at);
    ck_assert(!at[0] && !at[1] && !at[2] && !at[3]);
    ck_assert(!td_weights_damaged(w, &err));
    td_weights_close(w);
    td_weights_close(NULL);
}
END_TEST

static void expect_bad(const td_model_yaml_t *c, td_status_t code, const char *a, const char *b, const char *d) {
    td_weights_t *w = open_with(c, NULL);
    bool bound[4];
    td_status_t s = td_weights_match(w, params, 4, bound, &err);
    ck_assert_msg(s == code, "%d: %s", (int)s, err.text);
    expect_text(a, b, d);
    const void *at[4];
    ck_assert_int_eq(td_weights_bind(w, params, 4, at, &err), code);
    td_weights_close(w);
}

START_TEST(wrong_words) {
    WRITE("weights.safetensors", tensor_x("a"), tensor_w("w"));
    td_word_pair_t twice[] = {{word("1", 4), word("w", 4)}, {word("Arg_1.2", 7), word("a", 7)}};
    td_model_yaml_t c = with_bind(twice, 2);
    expect_bad(&c, TD_USAGE, "model.yaml:7", "bound twice", "line 4");
    td_word_pair_t unknown[] = {{word("9", 5), word("a", 5)}};
    c = with_bind(unknown, 1);
    expect_bad(&c, TD_MISMATCH, "model.yaml:5", "9 is no parameter", "has 4");
    unknown[0].key.text = "99999999999999999999";
    expect_bad(&c, TD_MISMATCH, "model.yaml:5", "is no parameter", "has 4");
    unknown[0].key.text = "";
    expect_bad(&c, TD_USAGE, "model.yaml:5", "empty", "");
    td_word_pair_t missing[] = {{word("0", 5), word("zz", 6)}};
    c = with_bind(missing, 1);
    expect_bad(&c, TD_NOTFOUND, "model.yaml:6", "no tensor zz", "parameter 0 (x)");
    td_word_t only[] = {word("0", 3), word("x", 4)};
    c = with_only(only, 2);
    expect_bad(&c, TD_USAGE, "model.yaml:4", "stands twice", "line 3");
    only[0].text = "params['b']";
    c = with_only(only, 1);
    expect_bad(&c, TD_NOTFOUND, "model.yaml:3", "no tensor for parameter 2 (bias, params['b'])", dir);
    td_word_pair_t outside[] = {{word("0", 5), word("a", 5)}};
    c.weights_bind = (td_word_pairs_t){outside, 1, true};
    expect_bad(&c, TD_USAGE, "model.yaml:5", "parameter 0 (x)", "not in the list");
}
END_TEST

START_TEST(wrong_tensors) {
    uint8_t two[2] = {0, 2};
    WRITE("weights.safetensors", {"0", "F16", 1, dims_x, x_data, 8});
    expect_bad(NULL, TD_MISMATCH, "weights.safetensors: tensor 0 for parameter 0 (x)", "F16[4]", "f32[4]");
    WRITE("weights.safetensors", {"bias", "BF16", 1, dims_f, b_data, 4});
    expect_bad(NULL, TD_MISMATCH, "tensor bias for parameter 2 (bias, params['b'])", "BF16[2]", "bf16[3]");
    WRITE("weights.safetensors", {"flag", "BOOL", 1, dims_f, two, 2});
    td_weights_t *w = open_with(NULL, NULL);
    const void *at[4];
    ck_assert_int_eq(td_weights_bind(w, params, 4, at, &err), TD_MALFORMED);
    expect_text("parameter 3", "weights.safetensors: tensor flag", "neither 0 nor 1");
    td_weights_close(w);
}
END_TEST

/* ---- files ---- */

static void expect_no_open(const td_model_yaml_t *c, td_status_t code, const char *a, const char *b) {
    td_weights_t *w = NULL;
    td_status_t s = try_open(c, NULL, &w);
    ck_assert_msg(s == code, "%d: %s", (int)s, err.text);
    ck_assert_ptr_null(w);
    expect_text(a, b, "");
}

START_TEST(shards) {
    WRITE("a.safetensors", tensor_x("0"), tensor_b("2"));
    WRITE("b.safetensors", tensor_w("1"));
    write_text("model.safetensors.index.json",
               "{\"weight_map\": {\"0\": \"a.safetensors\", \"1\": \"b.safetensors\", \"2\": \"a.safetensors\"}}");
    td_weights_t *w = open_with(NULL, NULL);
    const void *at[4];
    bind(w, at);
    ck_assert_mem_eq(at[0], x_data, 16);
    ck_assert_mem_eq(at[1], big, sizeof big);
    ck_assert_mem_eq(at[2], b_data, 6);
    td_weights_close(w);
    unlink(in_dir("b.safetensors"));
    expect_no_open(NULL, TD_IO, "b.safetensors", "No such file");
    WRITE("weights.safetensors", tensor_x("0"));
    expect_no_open(NULL, TD_MISMATCH, "weights.safetensors", "model.safetensors.index.json");
}
END_TEST

START_TEST(listed_files) {
    WRITE("a.safetensors", tensor_x("0"));
    WRITE("b.safetensors", tensor_w("1"));
    WRITE("weights.safetensors", tensor_b("2"));
    td_word_t files[] = {word("a.safetensors", 3), word("b.safetensors", 4)};
    td_model_yaml_t c = {.weight_files = {.items = files, .n = 2, .given = true}};
    td_weights_t *w = open_with(&c, NULL);
    const void *at[4];
    bind(w, at);
    ck_assert(at[0] && at[1] && !at[2]);
    td_weights_close(w);
    w = open_with(&c, in_dir("weights.safetensors")); /* instead of them */
    bind(w, at);
    ck_assert(!at[0] && !at[1] && at[2]);
    td_weights_close(w);
    files[1].text = "a.safetensors";
    expect_no_open(&c, TD_USAGE, "model.yaml:4", "twice");
    files[1].text = "../a.safetensors";
    expect_no_open(&c, TD_USAGE, "model.yaml:4", "no file name");
    files[1].text = "c.safetensors";
    expect_no_open(&c, TD_IO, "model.yaml:4", "c.safetensors");
    WRITE("b.safetensors", tensor_x("0"));
    files[1].text = "b.safetensors";
    expect_bad(&c, TD_MISMATCH, "tensor 0 is in both", "a.safetensors", "b.safetensors");
    symlink("nowhere", in_dir("weights.safetensors.x"));
    ck_assert_int_eq(rename(in_dir("weights.safetensors.x"), in_dir("weights.safetensors")), 0);
    expect_no_open(NULL, TD_IO, "weights.safetensors", "No such file");
}
END_TEST

int main(void) {
    Suite *s = suite_create("weights");
    TCase *t = tcase_create("weights");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, index_name_and_path);
    tcase_add_test(t, the_index_wins_over_the_name);
    tcase_add_test(t, bound_by_the_configuration);
    tcase_add_test(t, only_these);
    tcase_add_test(t, no_file_binds_nothing);
    tcase_add_test(t, wrong_words);
    tcase_add_test(t, wrong_tensors);
    tcase_add_test(t, shards);
    tcase_add_test(t, listed_files);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
