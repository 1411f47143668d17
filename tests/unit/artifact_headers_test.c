/* SPDX-License-Identifier: Apache-2.0 */
/* Artifacts opened for the headers only: sizes are true, nothing enters the table, modules open. */
#include <glob.h>

#include "feed_case.h"
#include "runtime/program.h"

static void headers_say(file_t *f, uint64_t held, const char *what) {
    td_artifact_t *a = NULL;
    td_module_t *m = NULL;
    td_err_t err = {0};
    uint64_t total = 0, resident = 0, before = 0, after = 0;
    td_payload_table_stats(table, NULL, NULL, &before);
    uint64_t takes = budget.takes;
    td_status_t s = open_with(f, (td_artifact_opts_t){.charge = &charge, .headers_only = true}, &a, &err);
    ck_assert_msg(s == TD_OK, "%s: %s", what, err.text);
    ck_assert(a->headers_only);
    ck_assert_uint_eq(budget.takes, takes);
    td_payload_table_stats(table, NULL, NULL, &after);
    ck_assert_uint_eq(before, after);
    td_artifact_payloads(a, &total, &resident);
    ck_assert_uint_eq(total, N * td_payload_cost(M * 4));
    ck_assert_uint_eq(resident, held * td_payload_cost(M * 4));
    for (unsigned i = 0; i < N; i++) {
        td_span_t b = a->payloads[literal(a, i)->f32s_payload]->bytes;
        ck_assert_uint_eq(b.size, M * 4);
        ck_assert_uint_eq(b.data[0] | b.data[b.size - 1] | b.data[b.size / 2], 0);
    }
    s = td_module_open(a, &counter.base, &m, &err);
    ck_assert_msg(s == TD_OK, "%s: %s", what, err.text);
    td_module_close(m);
    td_artifact_close(a);
}

START_TEST(headers_only) {
    td_write_form_t form = forms[_i / COMPRESSIONS];
    file_t f = file_of(form, compressions[_i % COMPRESSIONS]);
    td_artifact_t *a = NULL;
    td_err_t err = {0};
    headers_say(&f, 0, td_write_form_name(form));
    ck_assert_int_eq(open_with(&f, (td_artifact_opts_t){0}, &a, &err), TD_OK);
    headers_say(&f, N, td_write_form_name(form));
    free(f.data);
    made_fill(numbers[1], M, 8, 1); /* one constant is another now */
    f = file_of(form, compressions[_i % COMPRESSIONS]);
    headers_say(&f, N - 1, td_write_form_name(form));
    td_artifact_close(a);
    free(f.data);
}
END_TEST

/* Contents that compress, so that snappy refers back to them right behind the skipped part. */
START_TEST(headers_of_compressible) {
    for (int i = 0; i < N; i++)
        for (int k = 0; k < M; k++) numbers[i][k] = _i & 1 ? 0.0f : (float)(k % 100 + i);
    file_t f = file_of(forms[_i / 2 / COMPRESSIONS], compressions[_i / 2 % COMPRESSIONS]);
    headers_say(&f, 0, "compressible");
    td_artifact_t *a = NULL;
    td_err_t err = {0};
    f.step = 777;
    ck_assert_msg(open_with(&f, (td_artifact_opts_t){0}, &a, &err) == TD_OK, "%s", err.text);
    if (!(_i & 1)) holds_numbers(a);
    td_artifact_close(a);
    free(f.data);
}
END_TEST

/* Real artifacts: for headers the module opens whenever it opens whole, with payloads of the same sizes. */
static void compare_with_headers(const char *name) {
    td_artifact_t *a = NULL, *h = NULL;
    td_module_t *m = NULL, *mh = NULL;
    td_err_t err = {0};
    td_artifact_opts_t o = {.table = table, .alloc = &counter.base};
    ck_assert_msg(td_artifact_open_path(name, &o, &a, &err) == TD_OK, "%s", err.text);
    o.headers_only = true;
    ck_assert_msg(td_artifact_open_path(name, &o, &h, &err) == TD_OK, "%s", err.text);
    ck_assert_uint_eq(a->n_payloads, h->n_payloads);
    uint64_t total = 0, resident = 0;
    td_artifact_payloads(h, &total, &resident);
    ck_assert_uint_eq(total, resident);
    for (uint32_t i = 0; i < a->n_payloads; i++) {
        td_span_t x = a->payloads[i]->bytes, y = h->payloads[i]->bytes;
        ck_assert_uint_eq(x.size, y.size);
        ck_assert(x.size >= TD_PAYLOAD_MAP_BYTES || memcmp(x.data, y.data, x.size) == 0);
    }
    td_status_t s = td_module_open(a, &counter.base, &m, NULL);
    ck_assert_msg(td_module_open(h, &counter.base, &mh, &err) == s, "%s: %s", name, err.text);
    td_module_close(m);
    td_module_close(mh);
    td_artifact_close(a);
    td_artifact_close(h);
}

START_TEST(corpus_headers) {
    char pattern[4096];
    snprintf(pattern, sizeof pattern, "%s/*/*/*.*", getenv("THUNKD_CORPUS"));
    glob_t g;
    ck_assert_int_eq(glob(pattern, 0, NULL, &g), 0);
    for (size_t i = 0; i < g.gl_pathc; i++)
        if (!strstr(g.gl_pathv[i], "/0.8.0/")) compare_with_headers(g.gl_pathv[i]);
    globfree(&g);
}
END_TEST

int main(void) {
    TCase *t = tcase_create("headers");
    tcase_set_timeout(t, 300);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, headers_only, 0, FORMS * COMPRESSIONS);
    tcase_add_loop_test(t, headers_of_compressible, 0, 2 * FORMS * COMPRESSIONS);
    if (getenv("THUNKD_CORPUS")) tcase_add_test(t, corpus_headers);
    else puts("THUNKD_CORPUS is unset: headers of real artifacts skipped");
    Suite *s = suite_create("artifact_headers");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
