/* SPDX-License-Identifier: Apache-2.0 */
/* Shape buckets and sequences, on models of tests/data; expected values by hand. */
#include <stdatomic.h>

#include "tests/unit/store_fixture.h"

/* rows: y = 2x + m, s = row sums of x*m. */
static void put_rows(const char *yaml) {
    shell("mkdir -p %s/rows/1", dir);
    shell("for k in b1t4 b4t4 b4t16; do cp tests/data/rows_$k.aot %s/rows/1/$k.aot; done", dir);
    make_file("rows/1/model.yaml", yaml);
}

static td_status_t run_rows(td_lease_t *l, int64_t b, int64_t t, td_run_slot_t **slot, td_err_t *err) {
    static float x[64], m[64];
    static int64_t dims[2];
    dims[0] = b, dims[1] = t;
    for (int i = 0; i < 64; i++) x[i] = (float)i + 1, m[i] = (float)(i % 3);
    td_run_tensor_t in[2] = {{x, dims}, {m, dims}};
    return td_lease_run(l, &(td_run_request_t){.inputs = in}, slot, err);
}

static void check_rows(const td_run_slot_t *slot, int64_t b, int64_t t) {
    uint64_t bytes = 0;
    td_run_tensor_t y = td_run_slot_output(slot, 0, &bytes);
    ck_assert_uint_eq(bytes, (uint64_t)(b * t * 4));
    ck_assert_int_eq(y.dims[0], b);
    ck_assert_int_eq(y.dims[1], t);
    for (int64_t i = 0; i < b * t; i++) ck_assert_float_eq(((const float *)y.data)[i],
                                                           2 * ((float)i + 1) + (float)(i % 3));
    td_run_tensor_t s = td_run_slot_output(slot, 1, &bytes);
    ck_assert_uint_eq(bytes, (uint64_t)(b * 4));
    for (int64_t r = 0; r < b; r++) {
        float sum = 0;
        for (int64_t i = r * t; i < (r + 1) * t; i++) sum += ((float)i + 1) * (float)(i % 3);
        ck_assert_float_eq(((const float *)s.data)[r], sum);
    }
}

START_TEST(the_smallest_bucket_takes_it) {
    put_rows("buckets: [b4t16, b1t4, b4t4]\ninputs: [x, m]\noutputs: [y, s]\n");
    td_store_t *s = open_store();
    answer_t a = {0};
    ck_assert_msg(ask(s, &a, "rows", "") == TD_OK, "%s", a.err.text);
    const td_model_info_t *m = td_resident_info(a.want.lease.resident);
    ck_assert_uint_eq(m->n_buckets, 3);
    ck_assert_int_eq(m->inputs[0].dims[0], -1);
    ck_assert_int_eq(m->inputs[0].max_dims[1], 16);
    ck_assert_uint_eq(m->outputs[1].rank, 1);
    td_err_t err = {0};
    for (int64_t b = 1; b <= 4; b++)
        for (int64_t t = 1; t <= 16; t++) {
            td_run_slot_t *slot = NULL;
            ck_assert_msg(run_rows(&a.want.lease, b, t, &slot, &err) == TD_OK, "%s", err.text);
            check_rows(slot, b, t);
            td_run_slot_release(slot);
        }
    td_run_slot_t *slot = NULL;
    ck_assert_int_eq(run_rows(&a.want.lease, 5, 4, &slot, &err), TD_MISMATCH);
    ck_assert_msg(strstr(err.text, "largest bucket has 4") != NULL, "%s", err.text);
    ck_assert_int_eq(run_rows(&a.want.lease, 4, 17, &slot, &err), TD_MISMATCH);
    ck_assert_int_eq(run_rows(&a.want.lease, -1, 4, &slot, &err), TD_MISMATCH);
    let_go(&a);
    td_store_close(s);
}
END_TEST

START_TEST(inputs_are_filled_up_as_told) {
    put_rows("buckets: [b4t4]\ninputs: [x, m]\noutputs: [y, s]\npad: {x: 1, m: 1}\n");
    shell("sed -i 's/b4t4./b1t4, b4t4]/' %s/rows/1/model.yaml", dir);
    td_store_t *s = open_store();
    answer_t a = {0};
    ck_assert_msg(ask(s, &a, "rows", "") == TD_OK, "%s", a.err.text);
    td_run_slot_t *slot = NULL;
    td_err_t err = {0};
    ck_assert_msg(run_rows(&a.want.lease, 2, 4, &slot, &err) == TD_OK, "%s", err.text);
    check_rows(slot, 2, 4); /* rows do not see each other */
    td_run_slot_release(slot);
    let_go(&a);
    td_store_close(s);
}
END_TEST

static const struct {
    const char *yaml, *cause;
} bad_buckets[] = {
    {"buckets: [b1t4, nowhere]\n", "model.yaml:1: "},
    {"buckets: [b1t4, other]\n", "differ in"},
    {"buckets: [b1t4, b4t4]\naxes: {z: [b]}\n", "model.yaml:2: axes: there is no input or output z"},
    {"buckets: [b1t4, b4t4]\ninputs: [x, m]\naxes: {x: [b]}\n", "1 names, x has 2 dims"},
    {"buckets: [b1t4, b4t4]\npad: {z: 1}\n", "model.yaml:2: pad: there is no input z"},
    {"buckets: [b1t4, b4t4]\ninputs: [x]\n", "model.yaml:2: inputs names 1, the artifact has 2"},
    {"buckets: [b1t4]\ninputs: [{name: x, shape: [1, 5]}, m]\n",
     "model.yaml:2: x: shape [1, 5], the artifact has [1, 4]"},
    {"buckets: [b1t4]\noutputs: [{name: y, datatype: INT8}, s]\n",
     "model.yaml:2: y: datatype INT8, the artifact has FP32"},
    {"buckets: [b1t4]\noutputs: [y, y]\n", "y"},
    {"buckets: [b1t4]\nstate: [{input: nix, output: 0}]\n", "model.yaml:2: state: the artifact has no parameter nix"},
    {"buckets: [b1t4]\nstate: [{input: 0, output: 1}]\n", "model.yaml:2: state: "},
    {"buckets: [b1t4]\nweights: [0]\n", "0"},
};

START_TEST(settings_are_checked_against_the_artifact) {
    put_rows(bad_buckets[_i].yaml);
    shell("cp tests/data/counter.aot %s/rows/1/other.aot", dir);
    td_store_t *s = open_store();
    expect(s, "rows", "1", TD_MODEL_UNAVAILABLE, bad_buckets[_i].cause);
    td_store_close(s);
}
END_TEST

/* ---- sequences: count' = count + x, out = 10 * count' ---- */

static td_status_t step(td_store_t *s, const char *id, bool start, bool end, float add, float *out,
                        const float *initial, td_err_t *err) {
    answer_t a = {.want = {.sequence = id, .sequence_start = start, .sequence_end = end}};
    td_status_t st = ask(s, &a, "counter", "");
    if (st != TD_OK) {
        *err = a.err;
        return st;
    }
    float x[4] = {add, add, add, add};
    td_run_tensor_t in = {x, NULL}, state = {initial, NULL};
    td_run_slot_t *slot = NULL;
    st = td_lease_run(&a.want.lease, &(td_run_request_t){.inputs = &in, .states = initial ? &state : NULL}, &slot, err);
    if (st == TD_OK) {
        uint64_t bytes = 0;
        *out = ((const float *)td_run_slot_output(slot, 0, &bytes).data)[3];
        ck_assert_uint_eq(bytes, 16);
        td_run_slot_release(slot);
    }
    let_go(&a);
    return st;
}

#define COUNTER "inputs: [x]\noutputs: [out]\nstate: [{input: 0, output: 0}]\nsequence: {idle_timeout_ms: %d, max: 2}\n"

static td_store_t *open_counter(const char *artifact, int idle, const char *options) {
    char yaml[256];
    snprintf(yaml, sizeof yaml, COUNTER, idle);
    put(artifact, "counter/1", yaml);
    td_err_t err = {0};
    td_device_destroy(device);
    ck_assert_msg(td_host_device_open(options, td_alloc_default(), &device, &err) == TD_OK, "%s", err.text);
    td_store_t *s = open_store();
    expect(s, "counter", "1", TD_MODEL_READY, "");
    return s;
}

static const struct {
    const char *artifact, *options;
} counters[] = {{"counter", ""}, {"counter_plain", ""}, {"counter", "delay=5"}, {"counter_plain", "delay=6"}};

START_TEST(state_stays_between_requests) {
    td_store_t *s = open_counter(counters[_i].artifact, 60000, counters[_i].options);
    td_err_t err = {0};
    float out = 0, initial[4] = {100, 100, 100, 100};
    ck_assert_msg(step(s, "a", true, false, 1, &out, NULL, &err) == TD_OK, "%s", err.text);
    ck_assert_float_eq(out, 10);
    ck_assert_int_eq(step(s, "b", true, false, 5, &out, initial, &err), TD_OK);
    ck_assert_float_eq(out, 1050);
    ck_assert_int_eq(step(s, "a", false, false, 2, &out, NULL, &err), TD_OK);
    ck_assert_float_eq(out, 30);
    ck_assert_int_eq(step(s, "b", false, true, 1, &out, NULL, &err), TD_OK);
    ck_assert_float_eq(out, 1060);
    ck_assert_int_eq(step(s, "b", false, false, 1, &out, NULL, &err), TD_USAGE); /* it has ended */
    ck_assert_int_eq(step(s, "a", true, false, 7, &out, NULL, &err), TD_OK);     /* from the beginning */
    ck_assert_float_eq(out, 70);
    ck_assert_int_eq(step(s, "b", true, false, 0, &out, NULL, &err), TD_OK);
    ck_assert_int_eq(step(s, "c", true, false, 0, &out, NULL, &err), TD_LIMIT); /* max: 2 */
    ck_assert_int_eq(step(s, NULL, false, false, 0, &out, NULL, &err), TD_USAGE);
    ck_assert_uint_eq(row(s, "counter", "1")->sequences, 2);
    td_store_close(s);
}
END_TEST

START_TEST(a_request_that_did_not_run_ends_nothing) {
    td_store_t *s = open_counter("counter", 60000, "");
    td_err_t err = {0};
    float out = 0;
    ck_assert_int_eq(step(s, "a", true, false, 1, &out, NULL, &err), TD_OK);
    answer_t a = {.want = {.sequence = "a", .sequence_end = true}};
    ck_assert_int_eq(ask(s, &a, "counter", ""), TD_OK);
    let_go(&a); /* as when a queue is full */
    ck_assert_int_eq(step(s, "a", false, true, 2, &out, NULL, &err), TD_OK);
    ck_assert_float_eq(out, 30);
    ck_assert_int_eq(step(s, "a", false, false, 2, &out, NULL, &err), TD_USAGE);
    td_store_close(s);
}
END_TEST

START_TEST(a_sequence_ends_when_nothing_comes) {
    td_store_t *s = open_counter("counter", 50, "");
    td_err_t err = {0};
    float out = 0;
    ck_assert_int_eq(step(s, "a", true, false, 1, &out, NULL, &err), TD_OK);
    for (int i = 0; i < 2000 && row(s, "counter", "1")->sequences; i++) usleep(5000);
    ck_assert_uint_eq(row(s, "counter", "1")->sequences, 0);
    ck_assert_int_eq(step(s, "a", false, false, 1, &out, NULL, &err), TD_USAGE);
    td_store_close(s);
}
END_TEST

typedef struct worker {
    pthread_t thread;
    td_store_t *store;
    _Atomic(bool) stop;
} worker_t;

static void *rescan_main(void *arg) {
    worker_t *w = arg;
    while (!atomic_load(&w->stop)) td_store_rescan(w->store);
    return NULL;
}

/* The system's, but for threads of the store: what they are told is old when they have it. */
static pthread_t test_thread;
static uint64_t late_now(void *ctx) {
    (void)ctx;
    uint64_t now = td_now_ns(td_clock_system());
    if (!pthread_equal(pthread_self(), test_thread)) usleep(300);
    return now;
}

/* The keeper, always looking, must not take a sequence that has just been used for one that is idle for long. */
START_TEST(a_sequence_in_use_does_not_expire) {
    static const td_clock_t late = {late_now, NULL};
    test_thread = pthread_self();
    td_store_close(open_counter("counter", 60000, ""));
    td_store_t *s = open_with((td_store_opts_t){.clock = &late});
    td_err_t err = {0};
    float out = 0;
    worker_t w = {.store = s};
    ck_assert_int_eq(pthread_create(&w.thread, NULL, rescan_main, &w), 0);
    ck_assert_int_eq(step(s, "a", true, false, 0, &out, NULL, &err), TD_OK);
    for (int i = 1; i <= 1000; i++) 
        ck_assert_msg(step(s, "a", false, false, 1, &out, NULL, &err) == TD_OK, "%d: %s", i, err.text);
    atomic_store(&w.stop, true);
    pthread_join(w.thread, NULL);
    ck_assert_float_eq(out, 10000);
    td_store_close(s);
}
END_TEST

START_TEST(a_sequence_keeps_its_version) {
    td_store_t *s = open_counter("counter", 60000, "");
    td_err_t err = {0};
    float out = 0;
    char yaml[256];
    snprintf(yaml, sizeof yaml, COUNTER, 60000);
    ck_assert_int_eq(step(s, "a", true, false, 1, &out, NULL, &err), TD_OK);
    put("counter_plain", "counter/2", yaml);
    again(s);
    expect(s, "counter", "2", TD_MODEL_READY, "");
    expect(s, "counter", "1", TD_MODEL_UNLOADING, "");
    ck_assert_int_eq(step(s, "a", false, true, 2, &out, NULL, &err), TD_OK);
    ck_assert_float_eq(out, 30);
    td_store_settle(s);
    expect(s, "counter", "1", TD_MODEL_UNAVAILABLE, "");
    td_store_close(s);
}
END_TEST

static void *add_one(void *arg) {
    worker_t *w = arg;
    for (int i = 0; i < 50; i++) {
        float out = 0;
        td_err_t err = {0};
        ck_assert_msg(step(w->store, "a", false, false, 1, &out, NULL, &err) == TD_OK, "%s", err.text);
    }
    return NULL;
}

START_TEST(one_request_of_a_sequence_runs_at_a_time) {
    td_store_t *s = open_counter("counter", 60000, "");
    td_err_t err = {0};
    float out = 0;
    worker_t w[4];
    ck_assert_int_eq(step(s, "a", true, false, 0, &out, NULL, &err), TD_OK);
    for (int i = 0; i < 4; i++) {
        w[i].store = s;
        ck_assert_int_eq(pthread_create(&w[i].thread, NULL, add_one, &w[i]), 0);
    }
    for (int i = 0; i < 4; i++) pthread_join(w[i].thread, NULL);
    ck_assert_int_eq(step(s, "a", false, true, 0, &out, NULL, &err), TD_OK);
    ck_assert_float_eq(out, 2000);
    td_store_close(s);
}
END_TEST

int main(void) {
    Suite *s = suite_create("store_shapes");
    TCase *c = tcase_create("all");
    tcase_set_timeout(c, 60);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, the_smallest_bucket_takes_it);
    tcase_add_test(c, inputs_are_filled_up_as_told);
    tcase_add_loop_test(c, settings_are_checked_against_the_artifact, 0,
                        (int)(sizeof bad_buckets / sizeof *bad_buckets));
    tcase_add_loop_test(c, state_stays_between_requests, 0, (int)(sizeof counters / sizeof *counters));
    tcase_add_test(c, a_request_that_did_not_run_ends_nothing);
    tcase_add_test(c, a_sequence_ends_when_nothing_comes);
    tcase_add_test(c, a_sequence_in_use_does_not_expire);
    tcase_add_test(c, a_sequence_keeps_its_version);
    tcase_add_test(c, one_request_of_a_sequence_runs_at_a_time);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
