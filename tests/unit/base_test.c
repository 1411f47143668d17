/* SPDX-License-Identifier: Apache-2.0 */
/* base/: error record, checked sums, arena budget, counting allocator, hash. */
#include <check.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/hash.h"

START_TEST(prefix_goes_in_front) {
    td_err_t e;
    ck_assert_int_eq(td_fail(&e, TD_LIMIT, "size %u over %u", 7u, 5u), TD_LIMIT);
    ck_assert_int_eq(td_prefix(&e, TD_LIMIT, "thunks[%d]", 3), TD_LIMIT);
    ck_assert_str_eq(e.text, "thunks[3]: size 7 over 5");
}
END_TEST

START_TEST(cause_survives_many_prefixes) {
    td_err_t e;
    td_fail(&e, TD_MALFORMED, "the cause");
    for (int i = 0; i < 200; i++) (void)td_prefix(&e, TD_MALFORMED, "level %d", i);
    size_t n = strlen(e.text);
    ck_assert_uint_lt(n, sizeof e.text);
    ck_assert_str_eq(e.text + n - strlen("the cause"), "the cause");
}
END_TEST

/* Texts quote names out of files. */
START_TEST(text_is_printable) {
    td_err_t e = {0};
    td_fail(&e, TD_MALFORMED, "a\xff%s\x1b[1m \xc3\xa4 \xe2\x82 \xed\xa0\x80 \xc0\x80 \xf0\x9f\x98\x80\xf0", "\x01");
    ck_assert_str_eq(e.text, "a???[1m \xc3\xa4 ?? ??? ?? \xf0\x9f\x98\x80?"); /* what is valid stays */
    td_prefix(&e, TD_MALFORMED, "\x80");
    ck_assert(!strncmp(e.text, "?: a", 4));
}
END_TEST

START_TEST(null_record_is_fine) {
    ck_assert_int_eq(td_fail(NULL, TD_BUSY, "x"), TD_BUSY);
    ck_assert_int_eq(td_prefix(NULL, TD_BUSY, "x"), TD_BUSY);
    ck_assert_str_eq(td_status_name((td_status_t)99), "unknown status");
}
END_TEST

START_TEST(sums_fail_on_overflow) {
    uint64_t r = 1;
    ck_assert(!td_add_u64(UINT64_MAX, 1, &r));
    ck_assert(!td_mul_u64(1ull << 33, 1ull << 31, &r));
    ck_assert_uint_eq(r, 1);
    ck_assert(td_mul_u64(1ull << 32, (1ull << 32) - 1, &r));
    ck_assert(td_range_ok(5, 5, 10));
    ck_assert(!td_range_ok(6, 5, 10));
    ck_assert(!td_range_ok(UINT64_MAX, 2, 10));
    ck_assert(td_range_ok(10, 0, 10));
}
END_TEST

START_TEST(arena_keeps_its_budget) {
    td_counting_alloc_t c;
    td_counting_alloc_init(&c, td_alloc_default());
    td_arena_t a;
    td_arena_init(&a, &c.base, 64 << 10);
    size_t got = 0;
    while (td_arena_zalloc(&a, 1000)) got++;
    ck_assert_uint_gt(got, 40);
    ck_assert_uint_le(a.reserved_bytes, 64 << 10);
    td_err_t e;
    ck_assert_int_eq(td_arena_fail(&a, &e), TD_LIMIT);
    ck_assert_ptr_null(td_arena_array(&a, SIZE_MAX / 2, 16));
    td_arena_deinit(&a);
    ck_assert_uint_eq(c.live_bytes, 0);
    ck_assert_uint_eq(c.gets, c.puts);
}
END_TEST

START_TEST(arena_memory_is_zeroed_aligned_and_disjoint) {
    td_arena_t a;
    td_arena_init(&a, td_alloc_default(), 0);
    unsigned char *p[300];
    for (int i = 0; i < 300; i++) {
        p[i] = i % 7 == 3 ? td_arena_align(&a, (size_t)(i * 37), 256) : td_arena_zalloc(&a, (size_t)(i * 37));
        ck_assert_ptr_nonnull(p[i]);
        ck_assert_uint_eq((uintptr_t)p[i] % (i % 7 == 3 ? 256 : 16), 0);
        memset(p[i], i & 255, (size_t)(i * 37));
    }
    for (int i = 0; i < 300; i++)
        for (int k = 0; k < i * 37; k++) ck_assert_int_eq(p[i][k], i & 255);
    td_arena_reset(&a);
    unsigned char *z = td_arena_zalloc(&a, 3000);
    for (int k = 0; k < 3000; k++) ck_assert_int_eq(z[k], 0);
    char *s = td_arena_printf(&a, "%d-%s", 42, "x");
    ck_assert_str_eq(s, "42-x");
    td_arena_deinit(&a);
}
END_TEST

static void note(void *ctx) {
    int *n = ctx;
    n[n[0]] = n[0] * 10;
    n[0]++;
}
static void drop_last(void *ctx) { ((int *)ctx)[0] = 7; }

START_TEST(arena_calls_back_once_newest_first) {
    td_arena_t a;
    td_arena_init(&a, td_alloc_default(), 8192);
    int n[4] = {1, 0, 0, 0};
    ck_assert(td_arena_on_end(&a, drop_last, n));
    ck_assert(td_arena_on_end(&a, note, n));
    ck_assert(td_arena_on_end(&a, note, n));
    td_arena_reset(&a);
    ck_assert_int_eq(n[0], 7); /* the first one ran last */
    ck_assert_int_eq(n[1], 10);
    ck_assert_int_eq(n[2], 20);
    n[0] = 3;
    td_arena_deinit(&a);
    ck_assert_int_eq(n[0], 3);
    td_arena_init(&a, td_alloc_default(), 16); /* too small for anything */
    ck_assert(!td_arena_on_end(&a, note, n));
    td_arena_deinit(&a);
    ck_assert_int_eq(n[0], 3);
}
END_TEST

START_TEST(counting_allocator_fails_on_demand) {
    td_counting_alloc_t c;
    td_counting_alloc_init(&c, td_alloc_default());
    c.fail_at = 2;
    void *p = c.base.get(c.base.ctx, 100, 16), *q = c.base.get(c.base.ctx, 100, 16);
    ck_assert_ptr_nonnull(p);
    ck_assert_ptr_null(q);
    ck_assert_uint_eq(c.live_bytes, 100);
    c.base.put(c.base.ctx, p, 100);
    ck_assert_uint_eq(c.live_bytes, 0);
    ck_assert_uint_eq(c.peak_bytes, 100);
}
END_TEST

/* XXH3 128 of the empty input: the published value of the reference implementation (seed 0). */
START_TEST(hash_matches_published_value) {
    td_hash_t h = td_hash_bytes("", 0);
    ck_assert_uint_eq(h.hi, 0x99aa06d3014798d8ull);
    ck_assert_uint_eq(h.lo, 0x6001c324468d497full);
    ck_assert(!td_hash_equal(h, td_hash_bytes("a", 1)));
    ck_assert(td_hash_equal(h, td_hash_bytes(NULL, 0)));
}
END_TEST

int main(void) {
    TCase *t = tcase_create("base");
    tcase_add_test(t, prefix_goes_in_front);
    tcase_add_test(t, cause_survives_many_prefixes);
    tcase_add_test(t, text_is_printable);
    tcase_add_test(t, null_record_is_fine);
    tcase_add_test(t, sums_fail_on_overflow);
    tcase_add_test(t, arena_keeps_its_budget);
    tcase_add_test(t, arena_memory_is_zeroed_aligned_and_disjoint);
    tcase_add_test(t, arena_calls_back_once_newest_first);
    tcase_add_test(t, counting_allocator_fails_on_demand);
    tcase_add_test(t, hash_matches_published_value);
    Suite *s = suite_create("base");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
