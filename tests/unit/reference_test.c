/* SPDX-License-Identifier: Apache-2.0 */
/* A model held against another device: made from the same files within the budget, and gone when a load needs that. */
#include "store/reference.h"

#include "base/clock.h"
#include "daemon/sample.c"
#include "store/store_in.h"
#include "tests/unit/store_fixture.h"

static td_store_t *store;
static td_reference_t *reference;

static void open_within(uint64_t host_bytes) {
    td_err_t err = {0};
    td_store_opts_t o = {.dir = dir, .device = device, .host_bytes = host_bytes};
    ck_assert_msg(!td_store_open(&o, &store, &err), "%s", err.text);
    td_store_settle(store);
    ck_assert_msg(!td_reference_create(store, device, &reference, &err), "%s", err.text);
}

static void close_all(void) {
    td_reference_destroy(reference);
    td_store_close(store);
}

static td_lease_t lease(const char *model) {
    td_want_t w = {.model = model};
    td_err_t err = {0};
    bool waiting = true;
    ck_assert_msg(!td_store_want(store, &w, &waiting, &err), "%s", err.text);
    ck_assert(!waiting);
    return w.lease;
}

/* rows_b4t4: y = 2x + m, s = row sums of x * m. */
static float x[16], m[16];
static const td_run_tensor_t inputs[] = {{x, NULL}, {m, NULL}};

static void fill(void) {
    for (int i = 0; i < 16; i++) x[i] = (float)i, m[i] = 1.5f;
}

static td_reference_ask_t ask_of(const td_resident_t *r) {
    const td_model_info_t *i = td_resident_info(r);
    return (td_reference_ask_t){i->name, i->version, td_resident_stamp(r), inputs};
}

static uint64_t charged(void) { return td_budget_totals(td_store_budget(store), 0).charged; }

START_TEST(gives_the_same) {
    td_err_t err = {0};
    td_reference_run_t run = {0};
    bool made = false;
    fill();
    put("rows_b4t4", "rows/1", NULL);
    open_within(0);
    td_lease_t l = lease("rows");
    td_reference_ask_t ask = ask_of(l.resident);
    td_lease_release(&l);
    uint64_t before = charged();
    for (int k = 0; k < 2; k++) {
        ck_assert_msg(!td_reference_run(reference, &ask, &run, &made, &err), "%s", err.text);
        uint64_t bytes = 0;
        const float *y = td_run_slot_output(run.slot, 0, &bytes).data;
        ck_assert(made);
        ck_assert_uint_eq(bytes, sizeof x);
        for (int i = 0; i < 16; i++) ck_assert(y[i] == 2 * x[i] + m[i]);
        ck_assert(run.tolerances[0] > 0 && run.tolerances[0] < 0.01);
        ck_assert_ptr_nonnull(strstr(run.artifact, "/rows/1/model.aot"));
        ck_assert_str_eq(run.weights, "");
        td_reference_end(reference, &run);
        ck_assert_uint_gt(charged(), before);
    }
    td_reference_drop(reference);
    ck_assert_uint_eq(charged(), before);
    close_all();
}
END_TEST

START_TEST(only_what_serves) {
    td_err_t err = {0};
    td_reference_run_t run = {0};
    bool made = true;
    put("rows_b4t4", "rows/1", NULL);
    open_within(0);
    td_lease_t l = lease("rows");
    td_reference_ask_t ask = ask_of(l.resident);
    td_lease_release(&l);
    ask.stamp.lo++;
    ck_assert_int_eq(td_reference_run(reference, &ask, &run, &made, &err), TD_NOTFOUND);
    ck_assert(!made);
    ask.stamp.lo--;
    ask.version = "2";
    ck_assert_int_eq(td_reference_run(reference, &ask, &run, &made, &err), TD_NOTFOUND);
    ask.version = "1";
    td_reference_cancel(reference);
    ck_assert_int_eq(td_reference_run(reference, &ask, &run, &made, &err), TD_CANCELLED);
    close_all();
}
END_TEST

static void *end_late(void *arg) {
    nanosleep(&(struct timespec){0, 100000000}, NULL);
    td_reference_end(reference, arg);
    return NULL;
}

/* What is kept goes, also what is just being used, when that ends. */
START_TEST(gives_way) {
    td_err_t err = {0};
    td_reference_run_t run = {0};
    pthread_t t;
    bool made;
    put("rows_b4t4", "rows/1", NULL);
    open_within(0);
    td_lease_t l = lease("rows");
    td_reference_ask_t ask = ask_of(l.resident);
    td_lease_release(&l);
    uint64_t before = charged();
    ck_assert(!td_reference_give_way(store));
    ck_assert_msg(!td_reference_run(reference, &ask, &run, &made, &err), "%s", err.text);
    pthread_create(&t, NULL, end_late, &run);
    ck_assert(td_reference_give_way(store)); /* waits */
    ck_assert_uint_eq(charged(), before);
    pthread_join(t, NULL);
    ck_assert_msg(!td_reference_run(reference, &ask, &run, &made, &err), "%s", err.text);
    td_reference_end(reference, &run);
    ck_assert(td_reference_give_way(store));
    ck_assert(!td_reference_give_way(store));
    ck_assert_uint_eq(charged(), before);
    /* one that does not end is waited for so long and no longer, and goes when it ends */
    ck_assert_msg(!td_reference_run(reference, &ask, &run, &made, &err), "%s", err.text);
    uint64_t began = td_now_ns(td_clock_system());
    ck_assert(!td_reference_give_way(store));
    ck_assert_uint_lt(td_now_ns(td_clock_system()) - began, 1500000000ull * TD_LIMIT_REFERENCE_WAIT_S);
    td_reference_end(reference, &run);
    ck_assert_uint_eq(charged(), before);
    close_all();
}
END_TEST

/* A load that does not fit beside it does once it has gone; nobody is evicted for that. */
START_TEST(a_load_comes_first) {
    td_err_t err = {0};
    td_reference_run_t run = {0};
    td_reservation_t rest = {0};
    bool made;
    put("rows_b4t4", "rows/1", NULL);
    open_within(64 << 20);
    td_lease_t l = lease("rows");
    td_reference_ask_t ask = ask_of(l.resident);
    td_lease_release(&l);
    ck_assert_msg(!td_reference_run(reference, &ask, &run, &made, &err), "%s", err.text);
    td_reference_end(reference, &run);
    td_budget_totals_t t = td_budget_totals(td_store_budget(store), 0);
    uint64_t need[TD_BUDGET_DOMAINS] = {t.limit - t.charged - t.reserved + 1};
    td_load_order_t o = {.model = "other", .version = "1", .may_evict = true};
    ck_assert_msg(!td_admit(store, &o, need, &rest, &err), "%s", err.text);
    td_reservation_end(&rest);
    ck_assert_uint_eq(td_store_stats(store).evictions, 0);
    /* and it takes nothing that requests would be short of */
    t = td_budget_totals(td_store_budget(store), 0);
    need[0] = t.limit - t.charged - t.reserved - t.limit / 10;
    ck_assert_msg(!td_budget_reserve(td_store_budget(store), need, "requests", &rest, &err), "%s", err.text);
    ck_assert_int_eq(td_reference_run(reference, &ask, &run, &made, &err), TD_LIMIT);
    td_reservation_end(&rest);
    close_all();
}
END_TEST

/* The share is met, and the same requests are chosen each time. */
START_TEST(a_share) {
    static const struct { double share; uint32_t low, high; } cases[] = {
        {0, 0, 0}, {1, 100000, 100000}, {0.5, 49500, 50500}, {0.001, 70, 130}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        uint32_t n = 0;
        for (uint64_t i = 0; i < 100000; i++) n += td_sample_due(cases[c].share, i);
        ck_assert_uint_ge(n, cases[c].low);
        ck_assert_uint_le(n, cases[c].high);
    }
}
END_TEST

static uint64_t room;
static bool take_room(void *ctx, uint64_t n) {
    (void)ctx;
    if (n > room) return false;
    room -= n;
    return true;
}
static void give_room(void *ctx, uint64_t n) {
    (void)ctx;
    room += n;
}

START_TEST(a_sample) {
    static const td_charge_t charge = {take_room, give_room, NULL};
    td_err_t err = {0};
    td_run_slot_t *slot = NULL;
    td_sample_t *s = NULL;
    fill();
    put("rows_b4t4", "rows/1", NULL);
    open_within(0);
    td_lease_t l = lease("rows");
    td_run_request_t q = {.inputs = inputs};
    ck_assert_msg(!td_lease_run(&l, &q, &slot, &err), "%s", err.text);
    room = 100;
    ck_assert_int_eq(td_sample_keep(l.resident, inputs, slot, &charge, &s, &err), TD_LIMIT);
    ck_assert_uint_eq(room, 100);
    room = 1 << 20;
    ck_assert_msg(!td_sample_keep(l.resident, inputs, slot, &charge, &s, &err), "%s", err.text);
    ck_assert_uint_eq(room, (1 << 20) - s->charged);
    ck_assert_str_eq(s->model, "rows");
    ck_assert(td_hash_equal(s->stamp, td_resident_stamp(l.resident)));
    ck_assert_uint_eq(s->n_inputs, 2);
    ck_assert_mem_eq(s->inputs[0].data, x, sizeof x);
    ck_assert_mem_eq(s->inputs[1].data, m, sizeof m);
    ck_assert(s->inputs[0].dims[0] == 4 && s->inputs[0].dims[1] == 4);
    ck_assert_uint_eq(s->output_bytes[0], sizeof x);
    ck_assert(((const float *)s->outputs[0].data)[3] == 2 * x[3] + m[3]);
    td_run_slot_release(slot);
    td_lease_release(&l);
    td_sample_free(s);
    td_sample_free(NULL);
    ck_assert_uint_eq(room, 1 << 20);
    close_all();
}
END_TEST

int main(void) {
    Suite *s = suite_create("reference");
    TCase *t = tcase_create("reference");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, gives_the_same);
    tcase_add_test(t, only_what_serves);
    tcase_add_test(t, gives_way);
    tcase_add_test(t, a_load_comes_first);
    tcase_add_test(t, a_share);
    tcase_add_test(t, a_sample);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
