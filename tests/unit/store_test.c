/* SPDX-License-Identifier: Apache-2.0 */
/* States, versions, swaps, wants and commands, on models of tests/data. */
#include "tests/unit/store_fixture.h"

START_TEST(bad_models_keep_their_reasons) {
    make_file("stray", "x");
    shell("cd %s && mkdir -p .hidden no_version empty/1 garbage/1 key/1 fifo link gone/1 upload/1.partial", dir);
    shell("cd %s && mkfifo fifo/1 && ln -s /nonexistent link/1 && mkfifo gone/1/model.aot && mkdir -p sub/1/model.aot",
          dir);
    make_file("garbage/1/model.aot", "not an artifact");
    make_file("key/1/model.aot", "x");
    make_file("key/1/model.yaml", "inputs: [a]\nweight: [1]\n");
    put("rows_b1t4", "config/1", NULL);
    make_file("config/model.yaml", "labels: {stable: 1}\nversion: all\n");
    td_store_t *s = open_store();
    expect(s, "no_version", "", TD_MODEL_UNAVAILABLE, "no version");
    expect(s, "empty", "1", TD_MODEL_UNAVAILABLE, "no artifact");
    expect(s, "garbage", "1", TD_MODEL_UNAVAILABLE, "garbage/1/model.aot");
    expect(s, "key", "1", TD_MODEL_UNAVAILABLE, "model.yaml:2: unknown key weight");
    expect(s, "fifo", "1", TD_MODEL_UNAVAILABLE, "not a folder");
    expect(s, "link", "1", TD_MODEL_UNAVAILABLE, "link/1");
    expect(s, "gone", "1", TD_MODEL_UNAVAILABLE, "regular file");
    expect(s, "sub", "1", TD_MODEL_UNAVAILABLE, "regular file");
    expect(s, "config", "1", TD_MODEL_UNAVAILABLE, "model.yaml:2: unknown key version");
    ck_assert_ptr_null(row(s, "stray", "1"));
    ck_assert_ptr_null(row(s, "upload", "1.partial"));
    ck_assert_ptr_null(row(s, ".hidden", ""));
    answer_t a = {0};
    ck_assert_int_eq(ask(s, &a, "garbage", ""), TD_MALFORMED);
    ck_assert_ptr_nonnull(strstr(a.err.text, "garbage/1"));
    ck_assert_int_eq(ask(s, &a, "nobody", ""), TD_NOTFOUND);
    ck_assert_int_eq(ask(s, &a, "garbage", "2"), TD_NOTFOUND);
    make_file("config/model.yaml", "labels: {stable: 1}\n");
    again(s);
    expect(s, "config", "1", TD_MODEL_READY, "");
    td_store_close(s);
}
END_TEST

/* What files can be; each with a clear reason, or served. */
START_TEST(odd_files_are_survived) {
    put("rows_b1t4", "whole/1", NULL);
    shell("cd %s && mkdir -p cut/1 sparse/1 huge/1 empty/1 linked/1 loop/1", dir);
    shell("cd %s && head -c 3000 whole/1/model.aot > cut/1/model.aot", dir);
    shell("cd %s && truncate -s 1G sparse/1/model.aot && truncate -s 3G huge/1/model.aot && : > empty/1/model.aot",
          dir);
    shell("cd %s && ln -s ../../whole/1/model.aot linked/1/ && ln -s model.aot loop/1/model.aot", dir);
    shell("ln -s whole %s/link_to_model", dir);
    shell("cd %s && mkdir -p weights/1 && cp whole/1/model.aot weights/1/ && mkfifo weights/1/weights.safetensors",
          dir);
    shell("cd %s && mkdir -p short/1 && cp whole/1/model.aot short/1/", dir);
    shell("printf '\\377\\377' > %s/short/1/weights.safetensors", dir);
    td_store_t *s = open_store();
    expect(s, "whole", "1", TD_MODEL_READY, "");
    expect(s, "cut", "1", TD_MODEL_UNAVAILABLE, "cut/1/model.aot");
    expect(s, "sparse", "1", TD_MODEL_UNAVAILABLE, "no known form");
    expect(s, "huge", "1", TD_MODEL_UNAVAILABLE, "huge/1/model.aot");
    expect(s, "empty", "1", TD_MODEL_UNAVAILABLE, "empty/1/model.aot");
    expect(s, "linked", "1", TD_MODEL_READY, "");
    expect(s, "loop", "1", TD_MODEL_UNAVAILABLE, "ymbolic link");
    expect(s, "link_to_model", "1", TD_MODEL_READY, "");
    expect(s, "weights", "1", TD_MODEL_UNAVAILABLE, "regular file");
    expect(s, "short", "1", TD_MODEL_UNAVAILABLE, "weights.safetensors");
    if (geteuid() != 0) { /* root reads everything */
        shell("chmod 000 %s/whole/1/model.aot", dir);
        again(s);
        expect(s, "whole", "1", TD_MODEL_READY, "ermission denied");
    }
    td_store_close(s);
}
END_TEST

START_TEST(the_target_that_loads_is_chosen) {
    shell("mkdir -p %s/m/1 && cp tests/data/rows_b1t4.aot %s/m/1/z100.aot && echo x > %s/m/1/a100.aot", dir, dir, dir);
    td_store_t *s = open_store();
    ck_assert_str_eq(row(s, "m", "1")->artifact, "z100.aot");
    td_store_close(s);
    shell("cp tests/data/rows_b4t4.aot %s/m/1/b200.aot && cp tests/data/rows_b4t16.aot %s/m/1/model.aot", dir, dir);
    s = open_store(); /* the plain name, unless a target is asked for */
    ck_assert_str_eq(row(s, "m", "1")->artifact, "model.aot");
    td_store_close(s);
    s = open_with((td_store_opts_t){.target = "b200"});
    ck_assert_str_eq(row(s, "m", "1")->artifact, "b200.aot");
    td_store_close(s);
    s = open_with((td_store_opts_t){.target = "a100"}); /* it does not load */
    ck_assert_str_eq(row(s, "m", "1")->artifact, "model.aot");
    td_store_close(s);
}
END_TEST

START_TEST(a_missing_directory_is_an_error) {
    td_store_t *s = NULL;
    td_err_t err = {0};
    ck_assert_int_eq(td_store_open(&(td_store_opts_t){.dir = "/nonexistent/models", .device = device}, &s, &err),
                     TD_IO);
    ck_assert_ptr_nonnull(strstr(err.text, "/nonexistent/models"));
    ck_assert_ptr_null(s);
}
END_TEST

START_TEST(versions_follow_the_rule) {
    put("rows_b1t4", "m/9", NULL), put("rows_b4t4", "m/10", NULL), put("rows_b1t4", "m/2", NULL);
    shell("mkdir %s/m/x; touch %s/m/11", dir, dir);
    td_store_t *s = open_store(); /* the latest that loads: 11 is a file */
    expect(s, "m", "11", TD_MODEL_UNAVAILABLE, "not a folder");
    expect(s, "m", "10", TD_MODEL_READY, "");
    expect(s, "m", "9", TD_MODEL_UNAVAILABLE, "versions");
    ck_assert_str_eq(served(s, "m", ""), "10");
    ck_assert_str_eq(served(s, "m", "10"), "10");
    ck_assert_str_eq(served(s, "m", "9"), "");
    make_file("m/model.yaml", "versions: {latest: 2}\nlabels: {stable: 9}\n");
    again(s);
    expect(s, "m", "9", TD_MODEL_READY, "");
    ck_assert_str_eq(served(s, "m", "stable"), "9");
    make_file("m/model.yaml", "versions: [2]\ndefault: 9\nlabels: {old: 2, none: 7}\n");
    again(s);
    expect(s, "m", "10", TD_MODEL_UNAVAILABLE, "versions");
    expect(s, "m", "2", TD_MODEL_READY, "");
    ck_assert_str_eq(served(s, "m", ""), "9");
    ck_assert_str_eq(served(s, "m", "old"), "2");
    ck_assert_str_eq(served(s, "m", "none"), "");
    ck_assert_str_eq(row(s, "m", "2")->labels, "old");
    ck_assert(row(s, "m", "9")->is_default);
    make_file("m/model.yaml", "versions: all\n");
    again(s);
    expect(s, "m", "10", TD_MODEL_READY, "");
    expect(s, "m", "9", TD_MODEL_READY, "");
    ck_assert_uint_eq(row(s, "m", "9")->loads, 1); /* new labels and rules load nothing twice */
    td_store_close(s);
}
END_TEST

/* What cannot be loaded is not what a request without a version means. */
START_TEST(the_default_is_one_that_can_be_loaded) {
    put("rows_b1t4", "m/1", NULL);
    make_file("m/model.yaml", "versions: all\nload: on_demand\n");
    shell("touch %s/m/2", dir);
    td_store_t *s = open_store();
    expect(s, "m", "2", TD_MODEL_UNAVAILABLE, "not a folder");
    ck_assert_str_eq(served(s, "m", ""), "1");
    td_store_close(s);
}
END_TEST

START_TEST(a_new_version_takes_over_without_a_gap) {
    put("rows_b1t4", "m/1", NULL);
    td_store_t *s = open_store();
    answer_t old = {0};
    ck_assert_int_eq(ask(s, &old, "m", ""), TD_OK);
    shell("mkdir %s/m/2 && echo broken > %s/m/2/model.aot", dir, dir);
    again(s);
    expect(s, "m", "2", TD_MODEL_UNAVAILABLE, "m/2");
    expect(s, "m", "1", TD_MODEL_READY, "");
    ck_assert_str_eq(served(s, "m", ""), "1");
    shell("rm -r %s/m/2", dir);
    put("rows_b4t4", "m/2", NULL);
    again(s);
    expect(s, "m", "2", TD_MODEL_READY, "");
    expect(s, "m", "1", TD_MODEL_UNLOADING, ""); /* a lease is out */
    ck_assert_str_eq(served(s, "m", ""), "2");
    ck_assert_str_eq(td_resident_info(old.want.lease.resident)->version, "1");
    float x[4] = {1, 2, 3, 4}, m[4] = {1, 1, 1, 1};
    td_run_tensor_t in[2] = {{x, NULL}, {m, NULL}};
    td_run_slot_t *slot = NULL;
    td_err_t err = {0};
    ck_assert_msg(td_lease_run(&old.want.lease, &(td_run_request_t){.inputs = in}, &slot, &err) == TD_OK, "%s",
                  err.text);
    uint64_t bytes = 0;
    const float *sum = td_run_slot_output(slot, 1, &bytes).data;
    ck_assert_uint_eq(bytes, 4);
    ck_assert_float_eq(*sum, 10);
    td_run_slot_release(slot);
    let_go(&old);
    td_store_settle(s);
    expect(s, "m", "1", TD_MODEL_UNAVAILABLE, "versions");
    shell("rm -r %s/m/2", dir); /* the newest goes: the one before comes back */
    again(s);
    ck_assert_ptr_null(row(s, "m", "2"));
    expect(s, "m", "1", TD_MODEL_READY, "");
    td_store_close(s);
}
END_TEST

START_TEST(a_changed_folder_is_loaded_again) {
    put("rows_b1t4", "m/1", NULL);
    td_store_t *s = open_store();
    put("rows_b4t4", "m/1", NULL);
    again(s);
    ck_assert_uint_eq(row(s, "m", "1")->loads, 2);
    answer_t a = {0};
    ck_assert_int_eq(ask(s, &a, "m", ""), TD_OK);
    ck_assert_int_eq(td_resident_info(a.want.lease.resident)->inputs[0].dims[0], 4);
    let_go(&a);
    make_file("m/1/model.aot", "broken"); /* what serves goes on, and the reason is shown */
    again(s);
    expect(s, "m", "1", TD_MODEL_READY, "malformed");
    ck_assert_str_eq(served(s, "m", ""), "1");
    shell("rm -r %s/m", dir);
    again(s);
    ck_assert_ptr_null(row(s, "m", "1"));
    ck_assert_str_eq(served(s, "m", ""), "");
    td_store_close(s);
}
END_TEST

START_TEST(directory_events_are_seen) {
    put("rows_b1t4", "m/1", NULL);
    td_store_t *s = open_with((td_store_opts_t){.watch = true});
    put("rows_b4t4", "m/2", NULL);
    for (int i = 0; i < 2000 && !(row(s, "m", "2") && row(s, "m", "2")->state == TD_MODEL_READY); i++) usleep(5000);
    expect(s, "m", "2", TD_MODEL_READY, "");
    put("rows_b4t4", "other/1", NULL);
    for (int i = 0; i < 2000 && !(row(s, "other", "1") && row(s, "other",
                                                              "1")->state == TD_MODEL_READY); i++) usleep(5000);
    expect(s, "other", "1", TD_MODEL_READY, "");
    td_store_close(s);
}
END_TEST

/* ---- on demand ---- */

typedef struct asker {
    pthread_t thread;
    td_store_t *store;
    answer_t a;
} asker_t;

static void *ask_main(void *arg) {
    asker_t *x = arg;
    ask(x->store, &x->a, "m", "");
    return NULL;
}

START_TEST(many_wants_make_one_load) {
    put("rows_b1t4", "m/1", NULL);
    make_file("m/model.yaml", "load: on_demand\n");
    td_store_t *s = open_store();
    expect(s, "m", "1", TD_MODEL_UNAVAILABLE, "the first request");
    asker_t x[8] = {0};
    for (int i = 0; i < 8; i++) {
        x[i].store = s;
        ck_assert_int_eq(pthread_create(&x[i].thread, NULL, ask_main, &x[i]), 0);
    }
    for (int i = 0; i < 8; i++) pthread_join(x[i].thread, NULL);
    for (int i = 0; i < 8; i++) ck_assert_msg(x[i].a.status == TD_OK, "%s", x[i].a.err.text);
    const td_model_row_t *r = row(s, "m", "1");
    ck_assert_uint_eq(r->loads, 1);
    ck_assert_uint_eq(r->leases, 8);
    for (int i = 0; i < 8; i++) let_go(&x[i].a);
    ck_assert_uint_eq(row(s, "m", "1")->leases, 0);
    td_store_close(s);
}
END_TEST

START_TEST(idle_models_go_and_come_back) {
    put("rows_b1t4", "m/1", NULL);
    make_file("m/model.yaml", "load: on_demand\nidle_unload_ms: 30\n");
    td_store_t *s = open_store();
    ck_assert_str_eq(served(s, "m", ""), "1");
    for (int i = 0; i < 2000 && row(s, "m", "1")->state != TD_MODEL_UNAVAILABLE; i++) usleep(5000);
    expect(s, "m", "1", TD_MODEL_UNAVAILABLE, "nobody used it");
    ck_assert_str_eq(served(s, "m", ""), "1");
    td_store_close(s);
}
END_TEST

/* ---- commands ---- */

START_TEST(commands_load_and_unload) {
    put("rows_b1t4", "m/1", NULL), put("rows_b1t4", "e/1", NULL);
    make_file("e/model.yaml", "load: explicit\n");
    td_store_t *s = open_store();
    order_t o = {0};
    expect(s, "e", "1", TD_MODEL_UNAVAILABLE, "explicit");
    ck_assert_str_eq(served(s, "e", ""), "");
    ck_assert_int_eq(tell(s, &o, TD_COMMAND_LOAD, "e", ""), TD_OK);
    ck_assert_str_eq(served(s, "e", ""), "1");
    ck_assert_int_eq(tell(s, &o, TD_COMMAND_UNLOAD, "m", ""), TD_OK);
    expect(s, "m", "1", TD_MODEL_UNAVAILABLE, "by command");
    ck_assert_str_eq(served(s, "m", ""), "");
    again(s); /* looking does not bring it back */
    expect(s, "m", "1", TD_MODEL_UNAVAILABLE, "by command");
    ck_assert_int_eq(tell(s, &o, TD_COMMAND_LOAD, "m", "1"), TD_OK);
    ck_assert_str_eq(served(s, "m", ""), "1");
    uint64_t loads = row(s, "m", "1")->loads;
    ck_assert_int_eq(tell(s, &o, TD_COMMAND_LOAD, "m", ""), TD_OK); /* it is there: nothing to do */
    ck_assert_uint_eq(row(s, "m", "1")->loads, loads);
    ck_assert_int_eq(tell(s, &o, TD_COMMAND_RELOAD, "m", ""), TD_OK);
    ck_assert_uint_eq(row(s, "m", "1")->loads, loads + 1);
    ck_assert_int_eq(tell(s, &o, TD_COMMAND_LOAD, "nobody", ""), TD_NOTFOUND);
    ck_assert_int_eq(tell(s, &o, TD_COMMAND_LOAD, "m", "7"), TD_NOTFOUND);
    ck_assert_int_eq(tell(s, &o, TD_COMMAND_LOAD, "../m", ""), TD_USAGE);
    shell("mkdir -p %s/late/3 && cp tests/data/rows_b1t4.aot %s/late/3/x.aot", dir, dir);
    ck_assert_int_eq(tell(s, &o, TD_COMMAND_LOAD, "late", ""), TD_OK); /* it looks before it says no */
    ck_assert_str_eq(row(s, "late", "3")->artifact, "x.aot");
    shell("mkdir -p %s/bad/1 && echo x > %s/bad/1/x.aot", dir, dir);
    ck_assert_int_eq(tell(s, &o, TD_COMMAND_LOAD, "bad", ""), TD_MALFORMED);
    ck_assert_ptr_nonnull(strstr(o.answer.err.text, "bad/1"));
    td_store_close(s);
}
END_TEST

static void *slurp(const char *path, uint64_t *size) {
    FILE *f = fopen(path, "rb");
    ck_assert_ptr_nonnull(f);
    void *p = malloc(1 << 20);
    *size = fread(p, 1, 1 << 20, f);
    fclose(f);
    return p;
}

START_TEST(files_of_a_command_stand_in) {
    put("rows_b1t4", "m/1", NULL);
    td_store_t *s = open_store();
    order_t o = {0};
    td_override_t f[2] = {{.path = "3/model.aot"}, {.path = "3/model.yaml", .data = "inputs: [a, b]\n", .bytes = 15}};
    f[0].data = slurp("tests/data/rows_b4t4.aot", &f[0].bytes);
    o.command.files = f;
    o.command.n_files = 2;
    ck_assert_msg(tell(s, &o, TD_COMMAND_LOAD, "m", "") == TD_OK, "%s", o.answer.err.text);
    answer_t a = {0};
    ck_assert_int_eq(ask(s, &a, "m", "3"), TD_OK);
    ck_assert_str_eq(td_resident_info(a.want.lease.resident)->inputs[0].name, "a");
    let_go(&a);
    again(s); /* not on disk, and stays */
    expect(s, "m", "3", TD_MODEL_READY, "");
    ck_assert_int_eq(tell(s, &o, TD_COMMAND_LOAD, "fresh", ""), TD_OK);
    ck_assert_str_eq(served(s, "fresh", ""), "3");
    o.command.n_files = 0;
    ck_assert_int_eq(tell(s, &o, TD_COMMAND_UNLOAD, "fresh", ""), TD_OK);
    ck_assert_ptr_null(row(s, "fresh", "3"));
    static const char *const bad[] = {"model.aot", "3/../x", "x/model.aot", "3/.hidden", "/3/model.aot", "3/"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        f[0].path = bad[i];
        o.command.n_files = 1;
        ck_assert_int_eq(tell(s, &o, TD_COMMAND_LOAD, "fresh", ""), TD_USAGE);
    }
    free((void *)(uintptr_t)f[0].data);
    td_store_close(s);
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

/* The sample model: parameters but one are weights. */
START_TEST(the_sample_runs) {
    shell("cp -r samples/store/digits %s/", dir);
    td_store_t *s = open_with((td_store_opts_t){.concurrency = 1});
    answer_t a = {0};
    ck_assert_msg(ask(s, &a, "digits", "") == TD_OK, "%s", a.err.text);
    const td_model_info_t *m = td_resident_info(a.want.lease.resident);
    ck_assert_uint_eq(m->n_inputs, 1);
    ck_assert_str_eq(m->inputs[0].name, "image");
    ck_assert_str_eq(m->outputs[0].name, "probabilities");
    ck_assert_str_eq(m->outputs[0].datatype, "FP32");
    td_run_tensor_t in = {calloc(1, m->inputs[0].bytes), NULL};
    td_run_request_t q = {.inputs = &in};
    td_run_slot_t *slot = NULL, *second = NULL;
    td_err_t err = {0};
    ck_assert_msg(td_lease_run(&a.want.lease, &q, &slot, &err) == TD_OK, "%s", err.text);
    ck_assert_int_eq(td_lease_run(&a.want.lease, &q, &second, &err), TD_BUSY);
    uint64_t bytes = 0;
    td_run_tensor_t out = td_run_slot_output(slot, 0, &bytes);
    double sum = 0;
    for (uint64_t i = 0; i < bytes / 4; i++) sum += (double)((const float *)out.data)[i];
    ck_assert_double_eq_tol(sum, 1, 1e-4);
    ck_assert_int_eq(out.dims[1], 10);
    td_run_slot_release(slot);
    ck_assert_int_eq(td_lease_run(&a.want.lease, &q, &second, &err), TD_OK);
    td_run_slot_release(second);
    let_go(&a);
    free((void *)(uintptr_t)in.data);
    td_store_close(s);
}
END_TEST

int main(void) {
    Suite *s = suite_create("store");
    TCase *c = tcase_create("all");
    tcase_set_timeout(c, 60);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, bad_models_keep_their_reasons);
    tcase_add_test(c, odd_files_are_survived);
    tcase_add_test(c, the_target_that_loads_is_chosen);
    tcase_add_test(c, a_missing_directory_is_an_error);
    tcase_add_test(c, versions_follow_the_rule);
    tcase_add_test(c, the_default_is_one_that_can_be_loaded);
    tcase_add_test(c, a_new_version_takes_over_without_a_gap);
    tcase_add_test(c, a_changed_folder_is_loaded_again);
    tcase_add_test(c, directory_events_are_seen);
    tcase_add_test(c, many_wants_make_one_load);
    tcase_add_test(c, idle_models_go_and_come_back);
    tcase_add_test(c, commands_load_and_unload);
    tcase_add_test(c, files_of_a_command_stand_in);
    tcase_add_test(c, datatypes_have_names);
    tcase_add_test(c, the_sample_runs);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
