/* SPDX-License-Identifier: Apache-2.0 */
/* What thunkctl's admin verbs share: times, sizes, messages as JSON, tables. */
#include <check.h>

#include "ctl/admin.c"
#include "ctl/grpc_client.c"
#include "ctl/oip.c"
#include "ctl/print.c"
#include "schema/admin.pb-c.h"

START_TEST(times) {
    static const struct {
        const char *text;
        int ms; /* 0: refused */
    } cases[] = {{"30", 30000}, {"1", 1000}, {"500ms", 500}, {"2m", 120000}, {"7s", 7000}, {"0", 0}, {"", 0}, {"-1", 0},
                 {"x", 0}, {"1h", 0}, {" 1", 0}, {"1 s", 0}, {"2147483647ms", 2147483647}, {"2147483648ms", 0},
                 {"2147484", 0}, {"99999999999999999999", 0}, {"+5", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int ms = 0;
        ck_assert_msg(admin_timeout(cases[i].text, 1000, &ms) == (cases[i].ms != 0), "%s", cases[i].text);
        ck_assert_int_eq(ms, cases[i].ms);
    }
}
END_TEST

START_TEST(sizes) {
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {{0, "0 B"}, {1, "1 B"}, {1023, "1023 B"}, {1024, "1.0 KiB"}, {1536, "1.5 KiB"}, {1048575, "1.0 MiB"},
                 {1ull << 30, "1.0 GiB"}, {UINT64_MAX, "16.0 EiB"}};
    char buf[24];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_str_eq(admin_size(cases[i].bytes, buf), cases[i].text);
}
END_TEST

START_TEST(messages_as_json) {
    Thunkd__V1__Model m = THUNKD__V1__MODEL__INIT;
    Thunkd__V1__Model *list[] = {&m};
    char *labels[] = {"one", "t\"wo", "\xff"};
    m.name = "mlp";
    m.labels = labels;
    m.n_labels = 3;
    m.is_default = 1;
    m.priority = 9;
    m.charged_bytes = 1ull << 40;
    m.total_bytes = UINT64_MAX;
    Thunkd__V1__ModelsResponse r = THUNKD__V1__MODELS_RESPONSE__INIT;
    r.models = list;
    r.n_models = 1;
    json_t *j = admin_json(&r.base);
    ck_assert_ptr_nonnull(j);
    json_t *x = json_array_get(json_object_get(j, "models"), 0);
    ck_assert_str_eq(json_string_value(json_object_get(x, "name")), "mlp");
    ck_assert_str_eq(json_string_value(json_object_get(x, "reason")), "");
    ck_assert_uint_eq(json_array_size(json_object_get(x, "labels")), 3);
    ck_assert_str_eq(json_string_value(json_array_get(json_object_get(x, "labels"), 1)), "t\"wo");
    ck_assert_str_eq(json_string_value(json_array_get(json_object_get(x, "labels"), 2)), "?");
    ck_assert(json_is_true(json_object_get(x, "is_default")));
    ck_assert(json_is_false(json_object_get(x, "pinned")));
    ck_assert_int_eq(json_integer_value(json_object_get(x, "priority")), 9);
    ck_assert_int_eq(json_integer_value(json_object_get(x, "charged_bytes")), 1ll << 40);
    ck_assert(json_is_null(json_object_get(x, "total_bytes")));
    ck_assert_uint_eq(json_object_size(x), thunkd__v1__model__descriptor.n_fields);
    json_decref(j);
    Thunkd__V1__BudgetResponse b = THUNKD__V1__BUDGET_RESPONSE__INIT;
    j = admin_json(&b.base);
    ck_assert(json_is_null(json_object_get(j, "process"))); /* a message that is not there */
    ck_assert_uint_eq(json_array_size(json_object_get(j, "accounts")), 0);
    json_decref(j);
}
END_TEST

START_TEST(cells_do_not_command_the_terminal) {
    static const char *const heads[] = {"A", ">B"};
    admin_table_t t = {.heads = heads, .n_columns = 2};
    for (int i = 0; i < 100; i++) {
        admin_cell(&t, "\x1b[2Jx\n\x7f");
        admin_cell(&t, "1");
    }
    ck_assert_uint_eq(t.n, 200);
    ck_assert_str_eq(t.cells[0], "?[2Jx??");
    ck_assert_int_eq(admin_table_print(&t, NULL), TD_OK);
    admin_table_free(&t);
    t.failed = true;
    ck_assert_int_eq(admin_table_print(&t, NULL), TD_NOMEM);
}
END_TEST

START_TEST(no_daemon) {
    admin_args_t a = {.socket = "/nowhere/s.sock", .timeout_ms = 100};
    Thunkd__V1__BudgetRequest q = THUNKD__V1__BUDGET_REQUEST__INIT;
    ProtobufCMessage *m = NULL;
    td_err_t err = {0};
    ck_assert_int_eq(admin_call(&a, "Budget", &q.base, &thunkd__v1__budget_response__descriptor, &m, &err), TD_IO);
    ck_assert_ptr_null(m);
    ck_assert_ptr_nonnull(strstr(err.text, "/nowhere/s.sock"));
}
END_TEST

int main(void) {
    Suite *s = suite_create("ctl_admin");
    TCase *t = tcase_create("ctl_admin");
    tcase_add_test(t, times);
    tcase_add_test(t, sizes);
    tcase_add_test(t, messages_as_json);
    tcase_add_test(t, cells_do_not_command_the_terminal);
    tcase_add_test(t, no_daemon);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
