/* SPDX-License-Identifier: Apache-2.0 */
/* The payload table: sharing by content, streams against candidates, charges, failing memory, many threads. */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/payload.h"

enum { BIG = 300000 };

static td_counting_alloc_t counter;
static td_payload_table_t *table;
static uint8_t *noise;

/* A budget that counts. */
static _Atomic(uint64_t) taken, limit, takes, refuse_at, peak;
static bool take(void *ctx, uint64_t bytes) {
    (void)ctx;
    if (atomic_fetch_add(&takes, 1) + 1 == refuse_at) return false;
    uint64_t now = atomic_fetch_add(&taken, bytes) + bytes;
    if (now > limit) {
        atomic_fetch_sub(&taken, bytes);
        return false;
    }
    uint64_t p = peak;
    while (now > p && !atomic_compare_exchange_weak(&peak, &p, now)) {}
    return true;
}
static void give(void *ctx, uint64_t bytes) {
    (void)ctx;
    ck_assert_uint_ge(taken, bytes);
    atomic_fetch_sub(&taken, bytes);
}
static const td_charge_t charge = {take, give, NULL};

static void setup(void) {
    td_counting_alloc_init(&counter, td_alloc_default());
    ck_assert_int_eq(td_payload_table_create(&counter.base, &table, NULL), TD_OK);
    td_payload_table_set_charge(table, &charge);
    taken = takes = refuse_at = peak = 0;
    limit = UINT64_MAX;
    noise = malloc(2 * BIG);
    uint64_t x = 42;
    for (size_t i = 0; i < 2 * BIG; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        noise[i] = (uint8_t)x;
    }
}
static void teardown(void) {
    uint64_t n = 1, bytes = 1, refs = 1;
    td_payload_table_stats(table, &n, &bytes, &refs);
    ck_assert_uint_eq(n + bytes + refs, 0);
    ck_assert_uint_eq(taken, 0);
    td_payload_table_destroy(table);
    ck_assert_uint_eq(counter.live_bytes, 0);
    free(noise);
}

static td_status_t stream(const uint8_t *data, size_t size, size_t step, bool exact, const td_payload_t **out,
                          td_err_t *err) {
    td_payload_builder_t b;
    td_payload_begin(&b, table, &charge, exact ? size : size + BIG, exact);
    for (size_t at = 0, k; at < size; at += k) {
        k = size - at < step ? size - at : step;
        td_status_t s = td_payload_write(&b, data + at, k, err);
        if (s != TD_OK) {
            td_payload_drop(&b);
            return s;
        }
    }
    return td_payload_end(&b, out, err);
}

static const size_t sizes[] = {0, 1, 63, 4095, 4096, 4097, 65535, 65536, 65537, BIG};

START_TEST(sizes_and_steps) {
    static const size_t steps[] = {1, 4096, 5000, 65536, BIG};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t k = 0; k < sizeof steps / sizeof *steps; k++)
            for (int exact = 0; exact < 2; exact++) {
                const td_payload_t *a, *b;
                size_t n = sizes[i];
                ck_assert_int_eq(stream(noise, n, steps[k], exact, &a, NULL), TD_OK);
                ck_assert_uint_eq(a->bytes.size, n);
                ck_assert_uint_eq((uintptr_t)a->bytes.data % 64, 0);
                ck_assert(n == 0 || memcmp(a->bytes.data, noise, n) == 0);
                ck_assert(td_hash_equal(a->hash, td_hash_bytes(noise, n)));
                ck_assert_uint_eq(taken, td_payload_cost(n));
                uint64_t before = takes;
                ck_assert_int_eq(stream(noise, n, steps[k], exact, &b, NULL), TD_OK);
                ck_assert_ptr_eq(a, b);
                ck_assert_uint_eq(takes, before); /* the second took nothing, not even for a moment */
                ck_assert_int_eq(td_payload_intern(table, (td_span_t){noise, n}, &b, NULL), TD_OK);
                ck_assert_ptr_eq(a, b);
                td_payload_release(table, a);
                td_payload_release(table, a);
                td_payload_release(table, a);
                ck_assert_uint_eq(taken, 0);
            }
}
END_TEST

/* Payloads that differ in one byte at one place, in any order, are told apart and each found again. */
START_TEST(late_differences) {
    static const size_t places[] = {0, 4095, 4096, 70000, 200000, BIG - 1};
    enum { N = sizeof places / sizeof *places };
    const td_payload_t *p[N], *q;
    for (int i = 0; i < N; i++) {
        noise[places[i]] ^= 1;
        ck_assert_int_eq(stream(noise, BIG, 10000, true, &p[i], NULL), TD_OK);
        noise[places[i]] ^= 1;
    }
    for (int i = 0; i < N; i++)
        for (int k = 0; k < i; k++) ck_assert_ptr_ne(p[i], p[k]);
    uint64_t before = takes;
    for (int i = 0; i < N; i++) {
        noise[places[i]] ^= 1;
        ck_assert_int_eq(stream(noise, BIG, 10000, i & 1, &q, NULL), TD_OK);
        ck_assert_ptr_eq(q, p[i]);
        ck_assert_mem_eq(q->bytes.data, noise, BIG);
        noise[places[i]] ^= 1;
        td_payload_release(table, q);
    }
    ck_assert_uint_eq(takes, before);
    for (int i = 0; i < N; i++) td_payload_release(table, p[i]);
}
END_TEST

START_TEST(prefixes_of_each_other) {
    const td_payload_t *a, *b, *c;
    ck_assert_int_eq(stream(noise, 200000, 7777, false, &a, NULL), TD_OK);
    ck_assert_int_eq(stream(noise, 100000, 7777, false, &b, NULL), TD_OK);
    ck_assert_int_eq(stream(noise, BIG, 7777, false, &c, NULL), TD_OK);
    ck_assert_uint_eq(a->bytes.size, 200000);
    ck_assert_uint_eq(b->bytes.size, 100000);
    ck_assert_mem_eq(c->bytes.data, noise, BIG);
    ck_assert_uint_eq(taken, td_payload_cost(200000) + td_payload_cost(100000) + td_payload_cost(BIG));
    ck_assert(td_payload_seems_held(table, 100000, (td_span_t){noise, 4096}));
    ck_assert(!td_payload_seems_held(table, 100001, (td_span_t){noise, 4096}));
    ck_assert(!td_payload_seems_held(table, 100000, (td_span_t){noise + 1, 4096}));
    td_payload_release(table, a);
    td_payload_release(table, b);
    td_payload_release(table, c);
}
END_TEST

START_TEST(wrong_lengths) {
    td_payload_builder_t b;
    const td_payload_t *p = NULL;
    td_payload_begin(&b, table, NULL, 100000, true);
    ck_assert_int_eq(td_payload_write(&b, noise, 99999, NULL), TD_OK);
    ck_assert_int_eq(td_payload_write(&b, noise, 2, NULL), TD_MALFORMED);
    ck_assert_int_eq(td_payload_end(&b, &p, NULL), TD_MALFORMED);
    ck_assert_ptr_null(p);
    td_payload_drop(&b);
}
END_TEST

/* Every allocation fails once, every charge is refused once: an error, and nothing is left behind. */
START_TEST(failing_memory) {
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int way = 0; way < 4; way++) {
            td_status_t s = TD_NOMEM;
            for (unsigned n = 1; s != TD_OK; n++) {
                const td_payload_t *p;
                td_err_t err = {0};
                takes = 0;
                if (way & 1) refuse_at = n;
                else counter.fail_at = counter.gets + n;
                s = stream(noise, sizes[i], 4000, way >> 1, &p, &err);
                refuse_at = counter.fail_at = 0;
                if (s == TD_OK) td_payload_release(table, p);
                else ck_assert_int_eq(s, way & 1 ? TD_LIMIT : TD_NOMEM);
                if (s == TD_LIMIT) ck_assert_ptr_nonnull(strstr(err.text, "budget"));
                ck_assert_uint_eq(taken, 0);
                ck_assert_uint_lt(n, 20);
            }
        }
}
END_TEST

enum { THREADS = 4, ROUNDS = 40, KINDS = 7 };
static void *work(void *arg) {
    unsigned x = (unsigned)(uintptr_t)arg * 2654435761u + 1;
    for (int i = 0; i < ROUNDS; i++) {
        x = x * 1664525u + 1013904223u;
        const td_payload_t *p = NULL;
        size_t kind = x >> 8 & 0xff, size = kind % 3 == 0 ? 5000 : 90000, start = kind % KINDS * 100;
        if (stream(noise + start, size, 8000, x & 1, &p, NULL) != TD_OK) abort();
        if (memcmp(p->bytes.data, noise + start, size) != 0) abort();
        td_payload_release(table, p);
    }
    return NULL;
}
static uint64_t resident(void) {
    unsigned long long size = 0, pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    ck_assert_int_eq(fscanf(f, "%llu %llu", &size, &pages), 2);
    fclose(f);
    return pages * 4096;
}

/* Pages are brought in ahead of the writer, but not all that a file announces. */
START_TEST(pages_come_ahead_of_the_writer) {
    enum { SIZE = 256 << 20, STEP = 1 << 20 };
    uint64_t before = resident();
    uint8_t *step = calloc(1, STEP);
    for (int stop = 0; stop <= 256; stop += 64) {
        td_payload_builder_t b;
        const td_payload_t *p = NULL;
        td_payload_begin(&b, table, NULL, SIZE, true);
        for (int i = 0; i < stop; i++) {
            memset(step, i + 1, STEP);
            ck_assert_int_eq(td_payload_write(&b, step, STEP, NULL), TD_OK);
        }
        usleep(20000);
        if (stop < 256) {
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__) /* their shadows count too */
            ck_assert_uint_le(resident(), before + (uint64_t)stop * STEP + (80u << 20));
#else
            (void)before;
#endif
            td_payload_drop(&b);
            continue;
        }
        ck_assert_int_eq(td_payload_end(&b, &p, NULL), TD_OK);
        for (int i = 0; i < stop; i++) ck_assert_uint_eq(p->bytes.data[(size_t)i * STEP + 77], (uint8_t)(i + 1));
        td_payload_release(table, p);
    }
    free(step);
}
END_TEST

START_TEST(many_threads) {
    pthread_t t[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) ck_assert_int_eq(pthread_create(&t[i], NULL, work, (void *)i), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    ck_assert_uint_gt(peak, 0);
}
END_TEST

int main(void) {
    TCase *t = tcase_create("payload");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, sizes_and_steps);
    tcase_add_test(t, late_differences);
    tcase_add_test(t, prefixes_of_each_other);
    tcase_add_test(t, wrong_lengths);
    tcase_add_test(t, failing_memory);
    tcase_add_test(t, pages_come_ahead_of_the_writer);
    tcase_add_test(t, many_threads);
    Suite *s = suite_create("payload");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
