/* SPDX-License-Identifier: Apache-2.0 */
/* The budget: admission, eviction in the order of use, sharing, and that everything comes back. */
#include "tests/unit/store_fixture.h"

static uint64_t charged(td_store_t *s) { return td_budget_totals(td_store_budget(s), 0).charged; }

/* What the model takes when it is alone. */
static uint64_t size_of(const char *artifact) {
    put(artifact, "probe/1", NULL);
    td_store_t *s = open_store();
    expect(s, "probe", "1", TD_MODEL_READY, "");
    uint64_t n = row(s, "probe", "1")->bytes;
    td_store_close(s);
    shell("rm -r %s/probe", dir);
    return n;
}

static void put_many(int n, const char *yaml) {
    char where[32];
    for (int i = 0; i < n; i++) {
        snprintf(where, sizeof where, "m%d/1", i);
        put("big", where, NULL);
        snprintf(where, sizeof where, "m%d/model.yaml", i);
        if (yaml) make_file(where, yaml);
    }
}

static td_model_state_t state(td_store_t *s, int i) {
    char name[16];
    snprintf(name, sizeof name, "m%d", i);
    return row(s, name, "1")->state;
}

static td_status_t use(td_store_t *s, int i, td_err_t *err) {
    char name[16];
    answer_t a = {0};
    snprintf(name, sizeof name, "m%d", i);
    td_status_t st = ask(s, &a, name, "");
    if (st == TD_OK) let_go(&a);
    else if (err) *err = a.err;
    return st;
}

/* Room for three and a bit, beside what a survey takes. */
static td_store_t *open_for_three(void) {
    uint64_t one = size_of("big");
    ck_assert_uint_ge(one, 4 << 20); /* its output alone */
    return open_with((td_store_opts_t){.host_bytes = 3 * one + one / 2});
}

START_TEST(the_least_recently_used_goes) {
    td_err_t err = {0};
    put_many(5, "load: on_demand\n");
    td_store_t *s = open_for_three();
    for (int i = 0; i < 3; i++) ck_assert_msg(use(s, i, &err) == TD_OK, "%s", err.text);
    ck_assert_int_eq(use(s, 0, &err), TD_OK); /* now m1 is the oldest */
    ck_assert_msg(use(s, 3, &err) == TD_OK, "%s", err.text);
    ck_assert_int_eq(state(s, 0), TD_MODEL_READY);
    ck_assert_int_eq(state(s, 1), TD_MODEL_UNAVAILABLE);
    ck_assert_int_eq(state(s, 2), TD_MODEL_READY);
    expect(s, "m1", "1", TD_MODEL_UNAVAILABLE, "evicted to make room for m3/1");
    ck_assert_int_eq(use(s, 1, &err), TD_OK); /* and it comes back, in m2's place */
    ck_assert_int_eq(state(s, 2), TD_MODEL_UNAVAILABLE);
    ck_assert_uint_eq(td_store_stats(s).evictions, 2);
    td_store_close(s);
}
END_TEST

START_TEST(used_pinned_and_preferred_models_stay) {
    td_err_t err = {0};
    put_many(4, "load: on_demand\n");
    make_file("m1/model.yaml", "load: on_demand\npriority: 5\n");
    td_store_t *s = open_for_three();
    answer_t held = {0};
    ck_assert_int_eq(ask(s, &held, "m0", ""), TD_OK);
    ck_assert_int_eq(use(s, 1, NULL), TD_OK);
    ck_assert_int_eq(use(s, 2, NULL), TD_OK);
    ck_assert_int_eq(td_store_pin(s, "m2", "", true, &err), TD_OK);
    uint64_t before = charged(s);
    ck_assert_int_eq(use(s, 3, &err), TD_LIMIT); /* none may go: none goes */
    ck_assert_msg(strstr(err.text, "m3/1") && strstr(err.text, "free") && strstr(err.text, "m2/1"), "%s", err.text);
    for (int i = 0; i < 3; i++) ck_assert_int_eq(state(s, i), TD_MODEL_READY);
    ck_assert_uint_eq(charged(s), before);
    ck_assert_uint_eq(td_store_stats(s).evictions, 0);
    ck_assert_int_eq(td_store_pin(s, "m2", "1", false, &err), TD_OK);
    ck_assert_int_eq(use(s, 3, &err), TD_OK);
    ck_assert_int_eq(state(s, 2), TD_MODEL_UNAVAILABLE);
    let_go(&held);
    ck_assert_int_eq(td_store_pin(s, "nobody", "", true, &err), TD_NOTFOUND);
    td_store_close(s);
}
END_TEST

START_TEST(a_plan_that_cannot_succeed_evicts_nothing) {
    td_err_t err = {0};
    put_many(2, "load: on_demand\n");
    uint64_t one = size_of("big"), small = size_of("rows_b1t4");
    put("big", "huge/1", NULL);
    make_file("huge/model.yaml", "load: on_demand\nconcurrency: 4\n");
    td_store_t *s = open_with((td_store_opts_t){.host_bytes = 2 * one + one / 2 + small, .concurrency = 4});
    (void)err;
    make_file("m0/model.yaml", "load: on_demand\nconcurrency: 1\n");
    make_file("m1/model.yaml", "load: on_demand\nconcurrency: 1\n");
    again(s);
    ck_assert_int_eq(use(s, 0, &err), TD_OK);
    ck_assert_int_eq(use(s, 1, &err), TD_OK);
    answer_t a = {0};
    ck_assert_int_eq(ask(s, &a, "huge", ""), TD_LIMIT);
    ck_assert_int_eq(state(s, 0), TD_MODEL_READY);
    ck_assert_int_eq(state(s, 1), TD_MODEL_READY);
    td_store_close(s);
}
END_TEST

START_TEST(a_start_does_not_evict) {
    put_many(5, NULL);
    td_store_t *s = open_for_three();
    int ready = 0;
    for (int i = 0; i < 5; i++) ready += state(s, i) == TD_MODEL_READY;
    ck_assert_int_eq(ready, 3);
    ck_assert_uint_eq(td_store_stats(s).evictions, 0);
    ck_assert(td_store_stats(s).refusals >= 2);
    for (int i = 0; i < 5; i++) ck_assert_int_eq(use(s, i, NULL), TD_OK); /* a request may */
    td_store_close(s);
}
END_TEST

/* A budget so small that even finding out needs room that others have. */
START_TEST(small_budgets_swap_too) {
    td_err_t err = {0};
    for (int i = 0; i < 6; i++) {
        char where[32];
        snprintf(where, sizeof where, "m%d/1", i);
        put("constant_0", where, NULL);
        snprintf(where, sizeof where, "m%d/model.yaml", i);
        make_file(where, "load: on_demand\n");
    }
    uint64_t one = size_of("constant_0");
    for (uint64_t room = 2 * one; room < 16 * one; room += one) {
        td_store_t *s = open_with((td_store_opts_t){.host_bytes = room});
        int fine = 0;
        for (int i = 0; i < 12; i++) {
            err.text[0] = 0;
            td_status_t st = use(s, i % 6, &err);
            ck_assert_msg(st == TD_OK || (st == TD_LIMIT && strstr(err.text, "budget")), "%llu: %s",
                          (unsigned long long)room, err.text);
            fine += st == TD_OK;
        }
        ck_assert_msg(fine == 12 || room < 14 * one, "%d of 12 in %llu", fine, (unsigned long long)room);
        ck_assert_uint_le(td_budget_totals(td_store_budget(s), 0).peak, room);
        td_store_close(s);
    }
}
END_TEST

START_TEST(a_swap_keeps_what_serves) {
    uint64_t one = size_of("big");
    put("big", "m/1", NULL);
    td_store_t *s = open_with((td_store_opts_t){.host_bytes = one + one / 2});
    expect(s, "m", "1", TD_MODEL_READY, "");
    put("big", "m/2", NULL);
    again(s); /* no room for both */
    expect(s, "m", "1", TD_MODEL_READY, "");
    expect(s, "m", "2", TD_MODEL_UNAVAILABLE, "budget");
    ck_assert_str_eq(served(s, "m", ""), "1");
    td_store_close(s);
}
END_TEST

START_TEST(equal_constants_are_there_once) {
    put("constant_0", "a/1", NULL), put("constant_0", "b/1", NULL), put("constant_1", "c/1", NULL);
    td_store_t *s = open_store();
    td_store_stats_t st = td_store_stats(s);
    ck_assert_uint_eq(st.payloads, 2);
    ck_assert_uint_ge(st.payload_bytes, 2 * 20480 * 4);
    ck_assert_uint_lt(st.payload_bytes, 2 * 20480 * 4 + 8192);
    order_t o = {0};
    ck_assert_int_eq(tell(s, &o, TD_COMMAND_UNLOAD, "a", ""), TD_OK);
    ck_assert_uint_eq(td_store_stats(s).payloads, 2); /* b has it */
    ck_assert_int_eq(tell(s, &o, TD_COMMAND_UNLOAD, "b", ""), TD_OK);
    ck_assert_uint_eq(td_store_stats(s).payloads, 1);
    td_store_close(s);
}
END_TEST

/* One file under four shape buckets and two versions. */
START_TEST(equal_weights_are_there_once) {
    shell("mkdir -p %s/m && cp -r samples/store/digits/1 %s/m/1 && cp -r %s/m/1 %s/m/2", dir, dir, dir, dir);
    td_store_t *s = open_store();
    td_store_stats_t one = td_store_stats(s);
    ck_assert_uint_eq(one.payloads, 6);
    td_store_close(s);
    shell("cd %s/m/2 && for b in b1 b2 b3 b4; do cp *_sxm.aot $b.aot; done", dir);
    shell("echo 'buckets: [b1, b2, b3, b4]' >> %s/m/2/model.yaml", dir);
    make_file("m/model.yaml", "versions: all\n");
    s = open_store();
    expect(s, "m", "1", TD_MODEL_READY, "");
    expect(s, "m", "2", TD_MODEL_READY, "");
    td_store_stats_t five = td_store_stats(s);
    ck_assert_uint_eq(five.payloads, 6);
    ck_assert_uint_eq(five.payload_bytes, one.payload_bytes);
    td_store_close(s);
}
END_TEST

START_TEST(everything_comes_back) {
    put("constant_0", "a/1", NULL), put("big", "b/1", NULL), put("rows_b4t16", "c/1", NULL);
    td_store_t *s = open_store();
    order_t o = {0};
    uint64_t aside = td_budget_totals(td_store_budget(s), 0).reserved;
    for (const char *m = "abc"; *m; m++) ck_assert_int_eq(tell(s, &o, TD_COMMAND_UNLOAD, (char[]){*m, 0}, ""), TD_OK);
    ck_assert_uint_eq(charged(s), 0);
    ck_assert_uint_eq(td_budget_totals(td_store_budget(s), 0).reserved, aside); /* for surveys */
    for (int i = 0; i < 30; i++)
        for (const char *m = "abc"; *m; m++) {
            ck_assert_int_eq(tell(s, &o, TD_COMMAND_LOAD, (char[]){*m, 0}, ""), TD_OK);
            ck_assert_int_eq(tell(s, &o, TD_COMMAND_UNLOAD, (char[]){*m, 0}, ""), TD_OK);
        }
    ck_assert_uint_eq(charged(s), 0);
    td_store_close(s);
}
END_TEST

/* The k-th get of the store's allocator fails: a clear state, no leak, and the next try works. */
START_TEST(memory_that_ends_is_survived) {
    put("constant_0", "m/1", NULL);
    for (unsigned long long k = 1; k < 200; k++) {
        td_counting_alloc_t count;
        td_store_t *s = NULL;
        td_err_t err = {0};
        td_counting_alloc_init(&count, td_alloc_default());
        count.fail_at = k;
        td_store_opts_t o = {.dir = dir, .device = device, .alloc = &count.base};
        if (td_store_open(&o, &s, &err) == TD_OK) {
            td_store_settle(s);
            bool done = count.gets < k;
            count.fail_at = 0;
            td_store_rescan(s);
            td_store_settle(s);
            ck_assert_msg(!strcmp(served(s, "m", ""), "1"), "after failure %llu", k);
            td_store_close(s);
            if (done) k = 200;
        }
        ck_assert_msg(count.live_bytes == 0, "failure %llu leaks %llu bytes", k, (unsigned long long)count.live_bytes);
    }
}
END_TEST

int main(void) {
    Suite *s = suite_create("store_budget");
    TCase *c = tcase_create("all");
    tcase_set_timeout(c, 120);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, the_least_recently_used_goes);
    tcase_add_test(c, used_pinned_and_preferred_models_stay);
    tcase_add_test(c, a_plan_that_cannot_succeed_evicts_nothing);
    tcase_add_test(c, a_start_does_not_evict);
    tcase_add_test(c, small_budgets_swap_too);
    tcase_add_test(c, a_swap_keeps_what_serves);
    tcase_add_test(c, equal_constants_are_there_once);
    tcase_add_test(c, equal_weights_are_there_once);
    tcase_add_test(c, everything_comes_back);
    tcase_add_test(c, memory_that_ends_is_survived);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
