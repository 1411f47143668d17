/* SPDX-License-Identifier: Apache-2.0 */
/* Payloads whose bytes stay where they are. */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "proto/payload.h"

enum { BIG = 100000 };

static td_counting_alloc_t counter;
static td_payload_table_t *table;
static _Alignas(64) uint8_t a[BIG + 64], b[BIG + 64];
static _Atomic(uint64_t) taken, limit;
static _Atomic(int) released;

static bool take(void *ctx, uint64_t bytes) {
    (void)ctx;
    if (atomic_fetch_add(&taken, bytes) + bytes <= limit) return true;
    atomic_fetch_sub(&taken, bytes);
    return false;
}
static void give(void *ctx, uint64_t bytes) {
    (void)ctx;
    atomic_fetch_sub(&taken, bytes);
}
static const td_charge_t charge = {take, give, NULL};
static void let_go(void *ctx) {
    (void)ctx;
    released++;
}

static void setup(void) {
    td_counting_alloc_init(&counter, td_alloc_default());
    ck_assert_int_eq(td_payload_table_create(&counter.base, &table, NULL), TD_OK);
    atomic_store(&taken, 0);
    atomic_store(&released, 0);
    limit = UINT64_MAX;
    for (size_t i = 0; i < sizeof a; i++) a[i] = (uint8_t)(i * i >> 3);
    memcpy(b, a, sizeof a);
}
static void teardown(void) {
    uint64_t n = 1, bytes = 1, refs = 1;
    td_payload_table_stats(table, &n, &bytes, &refs);
    ck_assert_uint_eq(n + bytes + refs, 0);
    ck_assert_uint_eq(taken, 0);
    td_payload_table_destroy(table);
    ck_assert_uint_eq(counter.live_bytes, 0);
}

static const td_payload_t *adopt(const uint8_t *p, size_t size, uint64_t align) {
    const td_payload_t *out = NULL;
    td_err_t err = {0};
    ck_assert_msg(td_payload_adopt(table, (td_span_t){p, size}, align, &charge, let_go, NULL, &out, &err) == TD_OK, "%s",
                  err.text);
    return out;
}

START_TEST(stays_where_it_is) {
    const td_payload_t *p = adopt(a, BIG, 8), *q = adopt(b, BIG, 8), *same = adopt(a, BIG, 8);
    ck_assert_ptr_eq(p->bytes.data, a);
    ck_assert(td_hash_equal(p->hash, td_hash_bytes(a, BIG)));
    ck_assert_ptr_eq(p, q);
    ck_assert_ptr_eq(p, same);
    ck_assert_int_eq(released, 2);
    ck_assert_uint_eq(taken, td_payload_cost(BIG));
    td_payload_release(table, p);
    td_payload_release(table, q);
    ck_assert_int_eq(released, 2);
    td_payload_release(table, same);
    ck_assert_int_eq(released, 3);
}
END_TEST

START_TEST(late_difference) {
    b[BIG - 1] ^= 1;
    const td_payload_t *p = adopt(a, BIG, 8), *q = adopt(b, BIG, 8);
    ck_assert_ptr_ne(p, q);
    ck_assert_ptr_eq(q->bytes.data, b);
    td_payload_release(table, p);
    td_payload_release(table, q);
}
END_TEST

START_TEST(shares_the_table_s_own) {
    const td_payload_t *own = NULL;
    ck_assert_int_eq(td_payload_intern(table, (td_span_t){a, BIG}, &own, NULL), TD_OK);
    const td_payload_t *p = adopt(b, BIG, 8);
    ck_assert_ptr_eq(p, own);
    ck_assert_int_eq(released, 1);
    ck_assert_uint_eq(taken, 0);
    td_payload_release(table, own);
    td_payload_release(table, p);
}
END_TEST

/* Constants must not depend on a file. */
START_TEST(copies_do_not_share_adopted_ones) {
    const td_payload_t *p = adopt(a, BIG, 8), *own = NULL;
    ck_assert_int_eq(td_payload_intern(table, (td_span_t){b, BIG}, &own, NULL), TD_OK);
    ck_assert_ptr_ne(own, p);
    memset(a, 0, sizeof a);
    ck_assert_mem_eq(own->bytes.data, b, BIG);
    td_payload_release(table, p);
    td_payload_release(table, own);
}
END_TEST

START_TEST(alignment) {
    memmove(b + 1, a, BIG); /* the same bytes at an odd address, and at an even one */
    const td_payload_t *odd = adopt(b + 1, BIG, 1), *even = adopt(a, BIG, 4), *any = NULL;
    ck_assert_ptr_ne(odd, even);
    ck_assert_ptr_eq(even->bytes.data, a);
    any = adopt(a, BIG, 1);
    ck_assert(any == odd || any == even);
    td_payload_release(table, odd);
    td_payload_release(table, even);
    td_payload_release(table, any);
}
END_TEST

START_TEST(nothing_and_little) {
    const td_payload_t *p = adopt(a, 0, 8), *q = adopt(b + 8, 0, 8), *one = adopt(a, 1, 1);
    ck_assert_ptr_eq(p, q);
    ck_assert_ptr_ne(p, one);
    td_payload_release(table, p);
    td_payload_release(table, q);
    td_payload_release(table, one);
    ck_assert_int_eq(released, 3);
}
END_TEST

START_TEST(failures_release_nothing) {
    const td_payload_t *p = NULL;
    td_err_t err = {0};
    limit = BIG - 1;
    ck_assert_int_eq(td_payload_adopt(table, (td_span_t){a, BIG}, 8, &charge, let_go, NULL, &p, &err), TD_LIMIT);
    ck_assert_ptr_nonnull(strstr(err.text, "budget"));
    limit = UINT64_MAX;
    counter.fail_at = counter.gets + 1;
    ck_assert_int_eq(td_payload_adopt(table, (td_span_t){a, BIG}, 8, &charge, let_go, NULL, &p, &err), TD_NOMEM);
    ck_assert_int_eq(released, 0);
    ck_assert_uint_eq(taken, 0);
    ck_assert_ptr_null(p);
}
END_TEST

static void *work(void *arg) {
    const uint8_t *mine = arg;
    for (int i = 0; i < 50; i++) {
        const td_payload_t *p = NULL, *q = NULL;
        size_t size = i % 3 ? 5000 : 90000;
        if (td_payload_adopt(table, (td_span_t){mine, size}, 8, &charge, let_go, NULL, &p, NULL) != TD_OK) abort();
        if (td_payload_intern(table, (td_span_t){mine, size}, &q, NULL) != TD_OK) abort();
        if (memcmp(p->bytes.data, q->bytes.data, size) != 0) abort();
        td_payload_release(table, p);
        td_payload_release(table, q);
    }
    return NULL;
}

START_TEST(many_threads) {
    pthread_t t[4];
    for (int i = 0; i < 4; i++) ck_assert_int_eq(pthread_create(&t[i], NULL, work, i & 1 ? a : b), 0);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    ck_assert_int_eq(released, 4 * 50);
}
END_TEST

int main(void) {
    Suite *s = suite_create("payload_adopt");
    TCase *t = tcase_create("adopt");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, stays_where_it_is);
    tcase_add_test(t, late_difference);
    tcase_add_test(t, shares_the_table_s_own);
    tcase_add_test(t, copies_do_not_share_adopted_ones);
    tcase_add_test(t, alignment);
    tcase_add_test(t, nothing_and_little);
    tcase_add_test(t, failures_release_nothing);
    tcase_add_test(t, many_threads);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
