/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and events of the host device, with kernels that note when they ran. Every case runs on queues as
 * they are and on delayed ones (_i: the seed). Waits in a test end by a gate that another thread opens. */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/limits.h"
#include "runtime/host/plan.h"
#include "runtime/host/pool.h"

static td_counting_alloc_t counter;
static td_device_t *dev;
static const td_device_ops_t *ops;
static td_stream_t *a, *b, *inl; /* two queues and a main stream */
static td_event_t *e;

static atomic_int clock_now, gate;
/* bufs[0]: int that receives the time; more are added up into bufs[1], a uintptr_t. */
static td_status_t note_run(const td_kernel_t *k, void *const *bufs, void *scratch, td_err_t *err) {
    (void)k, (void)scratch, (void)err;
    *(int *)bufs[0] = atomic_fetch_add(&clock_now, 1) + 1;
    return TD_OK;
}
static td_status_t sum_run(const td_kernel_t *k, void *const *bufs, void *scratch, td_err_t *err) {
    (void)k, (void)err;
    uint32_t n = *(const uint32_t *)scratch;
    for (uint32_t i = 1; i < n; i++) *(uintptr_t *)bufs[0] += (uintptr_t)bufs[i];
    return TD_OK;
}
static td_status_t gate_run(const td_kernel_t *k, void *const *bufs, void *scratch, td_err_t *err) {
    while (!atomic_load(&gate)) nanosleep(&(struct timespec){0, 100000}, NULL);
    return note_run(k, bufs, scratch, err);
}
static td_status_t bad_run(const td_kernel_t *k, void *const *bufs, void *scratch, td_err_t *err) {
    (void)k, (void)scratch;
    return td_fail(err, TD_DEVICE, "kernel %s gave up", (const char *)bufs[0]);
}
static const td_kernel_t note = {.run = note_run}, sum = {.run = sum_run};
static const td_kernel_t gated = {.run = gate_run}, bad = {.run = bad_run};

static void *open_later(void *ms) {
    nanosleep(&(struct timespec){0, (long)(uintptr_t)ms * 1000000}, NULL);
    atomic_store(&gate, 1);
    return NULL;
}
static td_status_t run(td_stream_t *s, const td_kernel_t *k, const void *p, td_err_t *err) {
    return ops->launch(s, k, (void *[]){(void *)(uintptr_t)p}, 1, NULL, err);
}

static void setup_seed(int seed) {
    td_err_t err = {0};
    char options[32] = "";
    if (seed) snprintf(options, sizeof options, "delay=%d", seed);
    td_counting_alloc_init(&counter, td_alloc_default());
    ck_assert_msg(!td_host_device_open(options, &counter.base, &dev, &err), "%s", err.text);
    ops = dev->ops;
    ck_assert(!ops->stream_create(dev, TD_STREAM_COMPUTE, &a, &err));
    ck_assert(!ops->stream_create(dev, TD_STREAM_COMMUNICATION, &b, &err));
    ck_assert(!ops->stream_create(dev, TD_STREAM_MAIN, &inl, &err));
    ck_assert(!ops->event_create(dev, &e, &err));
    atomic_store(&clock_now, 0);
    atomic_store(&gate, 0);
}
static void finish(void) {
    ops->event_destroy(e);
    ops->stream_destroy(a);
    ops->stream_destroy(b);
    ops->stream_destroy(inl);
    td_device_destroy(dev);
    ck_assert_uint_eq(counter.live_bytes, 0);
}

START_TEST(items_run_in_order) {
    enum { N = 200 };
    int at[N] = {0};
    setup_seed(_i);
    for (int i = 0; i < N; i++) ck_assert(!run(a, &note, &at[i], NULL));
    ck_assert(!ops->stream_sync(a, NULL));
    for (int i = 0; i < N; i++) ck_assert_int_eq(at[i], i + 1);
    finish();
}
END_TEST

START_TEST(addresses_are_copied_and_the_ring_wraps) {
    enum { N = 60 };
    static void *bufs[TD_LIMIT_KERNEL_ARGS];
    uintptr_t total = 0, want = 0;
    uint32_t counts[N];
    setup_seed(_i);
    unsigned long long before = counter.gets;
    for (uint32_t k = 0; k < N; k++) { /* of all lengths, among them the longest: more than the ring holds */
        uint32_t n = counts[k] = k % 3 ? TD_LIMIT_KERNEL_ARGS - k % 7 : 1 + k;
        bufs[0] = &total;
        for (uint32_t i = 1; i < n; i++) bufs[i] = (void *)(uintptr_t)(i * 7 + k), want += i * 7 + k;
        ck_assert(!ops->launch(a, &sum, bufs, n, &counts[k], NULL));
        memset(bufs, 0xee, sizeof bufs);
    }
    ck_assert(!ops->stream_sync(a, NULL));
    ck_assert_uint_eq(total, want);
    ck_assert_uint_eq(counter.gets, before);
    td_err_t err = {0};
    ck_assert_int_eq(ops->launch(a, &sum, bufs, TD_LIMIT_KERNEL_ARGS + 1, counts, &err), TD_LIMIT);
    finish();
}
END_TEST

START_TEST(full_ring_holds_the_pusher) {
    static void *bufs[TD_LIMIT_KERNEL_ARGS];
    uintptr_t total = 0;
    uint32_t n = TD_LIMIT_KERNEL_ARGS;
    int opened = 0;
    pthread_t t;
    setup_seed(_i);
    ck_assert(!run(a, &gated, &opened, NULL));
    ck_assert(!pthread_create(&t, NULL, open_later, (void *)20));
    for (uint32_t i = 0; i < n; i++) bufs[i] = i ? (void *)1 : &total;
    for (int k = 0; k < 9; k++) ck_assert(!ops->launch(a, &sum, bufs, n, &n, NULL));
    ck_assert_int_eq(atomic_load(&gate), 1);
    ck_assert(!ops->stream_sync(a, NULL));
    ck_assert_uint_eq(total, 9 * (n - 1));
    ck_assert_int_eq(opened, 1);
    pthread_join(t, NULL);
    finish();
}
END_TEST

START_TEST(event_orders_two_queues) {
    int opened = 0, after = 0;
    pthread_t t;
    setup_seed(_i);
    ck_assert(!ops->stream_wait(b, e, NULL)); /* never recorded: no wait */
    ck_assert(!run(a, &gated, &opened, NULL));
    ck_assert(!ops->event_record(a, e, NULL));
    ck_assert(!ops->stream_wait(b, e, NULL));
    ck_assert(!run(b, &note, &after, NULL));
    ck_assert(!pthread_create(&t, NULL, open_later, (void *)5));
    ck_assert(!ops->stream_sync(b, NULL));
    ck_assert_int_eq(opened, 1);
    ck_assert_int_eq(after, 2);
    ck_assert(!ops->stream_sync(a, NULL));
    pthread_join(t, NULL);
    finish();
}
END_TEST

START_TEST(wait_is_for_the_record_before_it) {
    int first = 0, opened = 0, after = 0;
    setup_seed(_i);
    ck_assert(!run(a, &note, &first, NULL));
    ck_assert(!ops->event_record(a, e, NULL));
    ck_assert(!ops->stream_wait(b, e, NULL));
    ck_assert(!run(b, &note, &after, NULL));
    ck_assert(!run(a, &gated, &opened, NULL));
    ck_assert(!ops->event_record(a, e, NULL)); /* later: b has nothing to do with it */
    ck_assert(!ops->stream_sync(b, NULL));
    ck_assert_int_eq(first, 1);
    ck_assert_int_eq(after, 2);
    ck_assert_int_eq(opened, 0);
    atomic_store(&gate, 1);
    ck_assert(!ops->stream_wait(b, e, NULL)); /* this one waits for the later record */
    ck_assert(!run(b, &note, &after, NULL));
    ck_assert(!ops->stream_sync(b, NULL));
    ck_assert_int_eq(opened, 3);
    ck_assert_int_eq(after, 4);
    ck_assert(!ops->stream_sync(a, NULL));
    finish();
}
END_TEST

START_TEST(copies_and_fills_are_items) {
    uint32_t x[5] = {1, 2, 3, 4, 5}, y[5] = {0}, z[5] = {0};
    setup_seed(_i);
    ck_assert(!ops->upload(a, y, x, sizeof x, NULL));
    ck_assert(!ops->memset32(a, y, 0x01020304, 10, NULL)); /* two words and a half */
    ck_assert(!ops->copy(a, z, y, sizeof z, NULL));
    ck_assert(!ops->copy(a, z, z, sizeof z, NULL));
    ck_assert(!ops->download(a, x, z, sizeof x, NULL));
    ck_assert(!ops->stream_sync(a, NULL));
    ck_assert_uint_eq(x[0], 0x01020304);
    ck_assert_uint_eq(x[1], 0x01020304);
    ck_assert_uint_eq(x[2], 0x0304);
    ck_assert_uint_eq(x[4], 5);
    finish();
}
END_TEST

START_TEST(first_failure_is_kept_and_spreads) {
    int before = 0, skipped = 0, dependent = 0, again = 0;
    td_err_t err = {0};
    setup_seed(_i);
    ck_assert(!run(a, &note, &before, NULL));
    ck_assert(!ops->event_record(a, e, NULL));
    ck_assert(!ops->stream_wait(b, e, NULL)); /* before the failure: none of b's business */
    ck_assert(!run(b, &note, &dependent, NULL));
    ck_assert(!run(a, &bad, "one", NULL));
    ck_assert(!run(a, &bad, "two", NULL));
    ck_assert(!run(a, &note, &skipped, NULL));
    ck_assert(!ops->stream_sync(b, NULL));
    ck_assert_int_ne(dependent, 0);
    dependent = 0;
    ck_assert(!ops->event_record(a, e, NULL));
    ck_assert(!ops->stream_wait(b, e, NULL));
    ck_assert(!run(b, &note, &dependent, NULL));
    ck_assert_int_eq(ops->stream_sync(b, &err), TD_DEVICE);
    ck_assert_str_eq(err.text, "kernel one gave up");
    err = (td_err_t){0};
    ck_assert_int_eq(ops->stream_sync(a, &err), TD_DEVICE);
    ck_assert_str_eq(err.text, "kernel one gave up");
    ck_assert_int_eq(dependent, 0);
    ck_assert_int_eq(skipped, 0);
    ck_assert(!ops->stream_sync(a, &err)); /* told once; both are of use again */
    ck_assert(!run(a, &note, &again, NULL));
    ck_assert(!ops->stream_sync(a, NULL));
    ck_assert(!ops->stream_sync(b, NULL));
    ck_assert_int_ne(again, 0);
    finish();
}
END_TEST

/* Only without delays is a main stream one that runs at once. */
START_TEST(main_stream_runs_at_once) {
    int x = 0, y = 0;
    td_err_t err = {0};
    setup_seed(0);
    ck_assert(!run(inl, &note, &x, NULL));
    ck_assert_int_eq(x, 1);
    ck_assert_int_eq(run(inl, &bad, "here", &err), TD_DEVICE);
    ck_assert(!ops->event_record(inl, e, NULL));
    ck_assert(!ops->stream_wait(a, e, NULL));
    ck_assert(!run(a, &note, &y, NULL));
    ck_assert(!ops->event_record(a, e, NULL));
    ck_assert(!ops->stream_wait(inl, e, NULL));
    ck_assert_int_eq(y, 2);
    ck_assert(!run(a, &bad, "there", NULL));
    ck_assert(!ops->event_record(a, e, NULL));
    ck_assert_int_eq(ops->stream_wait(inl, e, &err), TD_DEVICE);
    ck_assert_str_eq(err.text, "kernel there gave up");
    ck_assert_int_eq(ops->stream_sync(a, NULL), TD_DEVICE);
    finish();
}
END_TEST

/* Work gets going when its owner turns to another stream, without anyone waiting for it. */
START_TEST(work_starts_by_itself) {
    static int x[2];
    int y = 0;
    setup_seed(_i);
    memset(x, 0, sizeof x);
    ck_assert(!run(a, &note, &x[0], NULL));
    ck_assert(!run(b, &note, &x[1], NULL));
    ck_assert(!run(inl, &note, &y, NULL));
    for (int i = 0; atomic_load(&clock_now) < 3; i++) {
        ck_assert_int_lt(i, 5000);
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    ck_assert(!ops->stream_sync(inl, NULL));
    ck_assert(!ops->stream_sync(a, NULL));
    ck_assert(!ops->stream_sync(b, NULL));
    finish();
}
END_TEST

/* Eight queues in a ring of events, each waiting for the one before: a chain of waits across all. */
START_TEST(chain_through_many_queues) {
    enum { Q = 8, ROUNDS = 25 };
    td_stream_t *s[Q];
    int at[ROUNDS][Q] = {{0}};
    setup_seed(_i);
    for (int q = 0; q < Q; q++) ck_assert(!ops->stream_create(dev, TD_STREAM_COMPUTE, &s[q], NULL));
    for (int r = 0; r < ROUNDS; r++)
        for (int q = 0; q < Q; q++) {
            if (r || q) ck_assert(!ops->stream_wait(s[q], e, NULL));
            ck_assert(!run(s[q], &note, &at[r][q], NULL));
            ck_assert(!ops->event_record(s[q], e, NULL));
        }
    for (int q = 0; q < Q; q++) ck_assert(!ops->stream_sync(s[q], NULL));
    for (int r = 0; r < ROUNDS; r++)
        for (int q = 0; q < Q; q++) ck_assert_int_eq(at[r][q], r * Q + q + 1);
    for (int q = 0; q < Q; q++) ops->stream_destroy(s[q]);
    finish();
}
END_TEST

START_TEST(destroying_runs_what_is_left) {
    int x = 0, y = 0;
    setup_seed(_i);
    ck_assert(!run(a, &note, &x, NULL));
    ck_assert(!run(a, &note, &y, NULL));
    ck_assert(!run(inl, &note, &(int){0}, NULL));
    ck_assert(!ops->stream_sync(inl, NULL));
    ops->stream_destroy(a);
    a = NULL;
    ck_assert(x && y);
    finish();
}
END_TEST

START_TEST(options_are_checked) {
    static const char *const refused[] = {"delay", "delay=", "delay=x", "delay=-1", "delay=1x",
                                          "delay=99999999999999999999", "fast",
                                          "threads", "threads=0", "threads=65", "threads=x", "threads=2x",
                                          "delay=1,", "delay=1,fast", ","};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        td_err_t err = {0};
        td_device_t *d = NULL;
        ck_assert_msg(td_host_device_open(refused[i], td_alloc_default(), &d, &err) == TD_USAGE, "%s", refused[i]);
        ck_assert(err.text[0]);
    }
    td_err_t err = {0};
    td_device_t *d = NULL;
    ck_assert_int_eq(td_device_open("hosts", td_alloc_default(), &d, &err), TD_USAGE);
    ck_assert_int_eq(td_device_open("host:fast", td_alloc_default(), &d, &err), TD_USAGE);
    ck_assert(!td_device_open("host:delay=18446744073709551615", td_alloc_default(), &d, &err));
    ck_assert(!d->host_memory);
    td_device_destroy(d);
    ck_assert(!td_device_open("host", td_alloc_default(), &d, &err));
    ck_assert(d->host_memory);
    td_device_destroy(d);
}
END_TEST

#ifndef __SANITIZE_THREAD__
START_TEST(open_devices_share_the_thread_count) {
    td_err_t err = {0};
    td_device_t *first = NULL, *second = NULL;
    int cpus = td_host_threads();
    ck_assert(!td_device_open("host:threads=3", td_alloc_default(), &first, &err));
    ck_assert_int_eq(td_host_threads(), 3);
    ck_assert_int_eq(td_device_open("host:threads=2", td_alloc_default(), &second, &err), TD_USAGE);
    ck_assert_str_eq(err.text, "a host device with 3 threads is open, so there cannot be one with 2");
    ck_assert(!td_device_open("host:delay=1,threads=3", td_alloc_default(), &second, &err));
    ck_assert(!second->host_memory);
    td_device_destroy(first);
    ck_assert_int_eq(td_host_threads(), 3);
    ck_assert(!td_device_open("host", td_alloc_default(), &first, &err));
    td_device_destroy(second);
    ck_assert_int_eq(td_host_threads(), 3);
    td_device_destroy(first);
    ck_assert_int_eq(td_host_threads(), cpus);
    ck_assert(!td_device_open("host:threads=2", td_alloc_default(), &first, &err));
    ck_assert_int_eq(td_host_threads(), 2);
    td_device_destroy(first);
}
END_TEST
#endif

int main(void) {
    TCase *t = tcase_create("queue");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, items_run_in_order, 0, 3);
    tcase_add_loop_test(t, addresses_are_copied_and_the_ring_wraps, 0, 2);
    tcase_add_loop_test(t, full_ring_holds_the_pusher, 0, 2);
    tcase_add_loop_test(t, event_orders_two_queues, 0, 3);
    tcase_add_loop_test(t, wait_is_for_the_record_before_it, 0, 3);
    tcase_add_loop_test(t, copies_and_fills_are_items, 0, 2);
    tcase_add_loop_test(t, first_failure_is_kept_and_spreads, 0, 3);
    tcase_add_test(t, main_stream_runs_at_once);
    tcase_add_loop_test(t, work_starts_by_itself, 0, 2);
    tcase_add_loop_test(t, chain_through_many_queues, 0, 3);
    tcase_add_loop_test(t, destroying_runs_what_is_left, 0, 2);
    tcase_add_test(t, options_are_checked);
#ifndef __SANITIZE_THREAD__ /* then there is one thread: pool.o is built without OpenMP */
#ifndef __SANITIZE_THREAD__ /* then there is one thread: pool.o is built without OpenMP */
    tcase_add_test(t, open_devices_share_the_thread_count);
#endif
#endif
    Suite *s = suite_create("queue");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
