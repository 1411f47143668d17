/* SPDX-License-Identifier: Apache-2.0 */
/* Comparison of arrays: by type, layout and packing; errors computed by hand. */
#include <check.h>
#include <math.h>
#include <string.h>

#include "runtime/compare.h"

static td_arena_t arena;
static td_difference_t d;
static void setup(void) { td_arena_init(&arena, td_alloc_default(), 0); }
static void teardown(void) { td_arena_deinit(&arena); }

static const td_shape_t *shape(td_type_t t, uint32_t rank, const int64_t *dims, const int32_t *order) {
    const td_shape_t *s = NULL;
    ck_assert_int_eq(td_shape_make(&arena, t, rank, dims, order, &s, NULL), TD_OK);
    return s;
}
#define VECTOR(t, n) shape((t), 1, (const int64_t[]){n}, NULL)

START_TEST(tolerances) {
    ck_assert_double_eq(td_compare_tolerance(TD_S32), 0);
    ck_assert_double_eq(td_compare_tolerance(TD_PRED), 0);
    ck_assert_double_eq(td_compare_tolerance(TD_F32), 1e-4);
    ck_assert_double_eq(td_compare_tolerance(TD_C128), 1e-9);
    ck_assert_double_eq(td_compare_tolerance(TD_F16), 2 * 0x1p-10);
    ck_assert_double_eq(td_compare_tolerance(TD_BF16), 2 * 0x1p-7);
    ck_assert_double_eq(td_compare_tolerance(TD_F8E4M3FN), 2 * 0x1p-3);
}
END_TEST

START_TEST(floats) {
    const float want[] = {1, 2, 4, -8, 0, NAN, INFINITY, -0.0f}, same[] = {1, 2, 4, -8, -0.0f, -NAN, INFINITY, 0};
    float got[8];
    td_compare(VECTOR(TD_F32, 8), want, same, 0, &d);
    ck_assert_uint_eq(d.wrong, 0);
    ck_assert_double_eq(d.error, 0);
    memcpy(got, want, sizeof got);
    got[3] = -8.5f, got[0] = 1.0625f;
    td_compare(VECTOR(TD_F32, 8), want, got, 0.0625, &d); /* 0.5 of 8; 0.0625 of 2, the lower quartile of 1, 2, 4, 8 */
    ck_assert_uint_eq(d.elements, 8);
    ck_assert_uint_eq(d.wrong, 0);
    ck_assert_double_eq(d.error, 0.0625);
    ck_assert_int_eq(d.index[0], 3);
    td_compare(VECTOR(TD_F32, 8), want, got, 0.05, &d);
    ck_assert_uint_eq(d.wrong, 1);
    ck_assert_str_eq(d.want, "-8");
    ck_assert_str_eq(d.got, "-8.5");
    memcpy(got, want, sizeof got);
    got[4] = 0.5f; /* a sum that should cancel: against 2 */
    td_compare(VECTOR(TD_F32, 8), want, got, 1, &d);
    ck_assert_double_eq(d.error, 0.25);
    const float bad[] = {NAN, INFINITY, -INFINITY, 0};
    for (int i = 0; i < 4; i++) { /* for 1, NaN, infinity */
        const int at = (const int[]){0, 5, 6, 5}[i];
        memcpy(got, want, sizeof got);
        got[at] = bad[i];
        td_compare(VECTOR(TD_F32, 8), want, got, 1e30, &d);
        ck_assert_uint_eq(d.wrong, 1);
        ck_assert(isinf(d.error));
        ck_assert_int_eq(d.index[0], at);
    }
}
END_TEST

START_TEST(wholes) {
    const int64_t a[] = {INT64_MIN, 5, -1}, b[] = {INT64_MIN, 5, -2};
    td_compare(VECTOR(TD_S64, 3), a, b, 0, &d);
    ck_assert_uint_eq(d.wrong, 1);
    ck_assert_double_eq(d.error, 1);
    ck_assert_str_eq(d.want, "-1");
    ck_assert_str_eq(d.got, "-2");
    const uint64_t big[] = {UINT64_MAX}, near[] = {UINT64_MAX - 1}; /* one apart, though not as doubles */
    td_compare(VECTOR(TD_U64, 1), big, near, 0, &d);
    ck_assert_uint_eq(d.wrong, 1);
    ck_assert_str_eq(d.want, "18446744073709551615");
    const uint8_t t[] = {0, 1, 1}, u[] = {0, 1, 3};
    td_compare(VECTOR(TD_PRED, 3), t, u, 0, &d);
    ck_assert_uint_eq(d.wrong, 1);
    ck_assert_str_eq(d.want, "true");
    ck_assert_str_eq(d.got, "3");
    const int8_t x[] = {-128}, y[] = {127};
    td_compare(VECTOR(TD_S8, 1), x, y, 0, &d);
    ck_assert_str_eq(d.want, "-128");
    ck_assert_str_eq(d.got, "127");
}
END_TEST

START_TEST(small) {
    const uint8_t nibbles[] = {0x21, 0xf3}, others[] = {0x21, 0x73}; /* s4: 1 2 3 -1 and 1 2 3 7 */
    td_compare(VECTOR(TD_S4, 4), nibbles, others, 0, &d);
    ck_assert_uint_eq(d.wrong, 1);
    ck_assert_int_eq(d.index[0], 3);
    ck_assert_str_eq(d.want, "-1");
    ck_assert_str_eq(d.got, "7");
    const uint16_t b[] = {0x3f80, 0x4000}, c[] = {0x3f80, 0x4001}; /* bf16: 1, 2 and the next after 2 */
    td_compare(VECTOR(TD_BF16, 2), b, c, td_compare_tolerance(TD_BF16), &d);
    ck_assert_double_eq(d.error, 0x1p-7);
    ck_assert_uint_eq(d.wrong, 0);
    const uint8_t f8[] = {0x38, 0x38}, nan8[] = {0x38, 0x7f};
    td_compare(VECTOR(TD_F8E4M3FN, 2), f8, nan8, 1, &d);
    ck_assert_uint_eq(d.wrong, 1);
    ck_assert_str_eq(d.want, "1");
    ck_assert_str_eq(d.got, "nan");
    const float z[] = {3, 4, 3, 4}, w[] = {3, 4, 3, 4.5f}; /* c64: 0.5 of modulus 5 */
    td_compare(VECTOR(TD_C64, 2), z, w, 0.1, &d);
    ck_assert_double_eq(d.error, 0.1);
    ck_assert_str_eq(d.want, "3+4i");
}
END_TEST

START_TEST(places) {
    char text[64];
    const int64_t dims[] = {2, 3, 4};
    const int32_t order[] = {0, 2, 1}; /* dimension 0 varies fastest, then 2 */
    const td_shape_t *s = shape(TD_S32, 3, dims, order);
    int32_t a[24] = {0}, b[24] = {0};
    b[1 + 2 * 3 + 8 * 2] = 9; /* [1,2,3] */
    td_compare(s, a, b, 0, &d);
    ck_assert_str_eq(td_difference_index(&d, s, text, sizeof text), "[1,2,3]");
    s = shape(TD_S32, 0, dims, NULL);
    td_compare(s, a, b + 23, 0, &d);
    ck_assert_uint_eq(d.wrong, 1);
    ck_assert_str_eq(td_difference_index(&d, s, text, sizeof text), "[]");
    s = VECTOR(TD_F32, 0);
    td_compare(s, a, b, 0, &d);
    ck_assert_uint_eq(d.elements, 0);
    ck_assert_uint_eq(d.wrong, 0);
}
END_TEST

int main(void) {
    Suite *s = suite_create("compare");
    TCase *t = tcase_create("all");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, tolerances);
    tcase_add_test(t, floats);
    tcase_add_test(t, wholes);
    tcase_add_test(t, small);
    tcase_add_test(t, places);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
