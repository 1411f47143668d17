/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of single opcodes and library operations of the host device: shapes, instructions, runs, comparisons.
 * Everything lives in one arena per test. */
#ifndef TD_TESTS_HOST_CASE_H
#define TD_TESTS_HOST_CASE_H

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/host/host_op.h"
#include "runtime/host/library.h"

static td_arena_t arena;
static void setup(void) { td_arena_init(&arena, td_alloc_default(), 0); }
static void teardown(void) { td_arena_deinit(&arena); }

#define DIMS(...) (sizeof((int64_t[]){0, ##__VA_ARGS__}) / 8 - 1), (const int64_t[]){0, ##__VA_ARGS__} + 1
#define LAYOUT(...) \
    (const int32_t[]) { __VA_ARGS__ }
#define INTS(...) ((td_ints_t){(const int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / 8})

static inline const td_shape_t *shape(td_type_t t, const int32_t *layout, size_t rank, const int64_t *dims) {
    const td_shape_t *s = NULL;
    ck_assert_int_eq(td_shape_make(&arena, t, (uint32_t)rank, dims, layout, &s, NULL), TD_OK);
    return s;
}
static inline const td_shape_t *tuple(const td_shape_t *a, const td_shape_t *b) {
    const td_shape_t **e = TD_NEW_N(&arena, const td_shape_t *, 2);
    td_shape_t *s = TD_NEW(&arena, td_shape_t);
    e[0] = a, e[1] = b;
    *s = (td_shape_t){.type = TD_TUPLE, .rank = 2, .elements = e};
    return s;
}
static inline td_hlo_instr_t *node(td_opcode_t op, const td_shape_t *s, const td_shape_t *a, const td_shape_t *b) {
    td_hlo_instr_t *i = TD_NEW_N(&arena, td_hlo_instr_t, 3), **o = TD_NEW_N(&arena, td_hlo_instr_t *, 2);
    i[1] = (td_hlo_instr_t){.opcode = TD_HLO_PARAMETER, .shape = a, .name = "a"};
    i[2] = (td_hlo_instr_t){.opcode = TD_HLO_PARAMETER, .shape = b, .name = "b"};
    o[0] = &i[1], o[1] = &i[2];
    i[0] = (td_hlo_instr_t){.opcode = op,
                            .shape = s,
                            .name = "x",
                            .opcode_name = td_opcode_name(op),
                            .operands = o,
                            .n_operands = b ? 2 : 1,
                            .backend_config = ""};
    return i;
}
static inline td_status_t run(td_hlo_instr_t *i, const void *a, const void *b, void *out, void *out2) {
    const td_host_op_kind_t *k = td_host_op_find(i->opcode == TD_HLO_CUSTOM_CALL ? TD_HLO_TOPK : i->opcode);
    ck_assert_ptr_nonnull(k);
    void *state = NULL;
    uint64_t scratch = 0;
    td_err_t err = {0};
    td_status_t st = k->prepare(i, &arena, &state, &scratch, &err);
    if (st) return st;
    void *s = aligned_alloc(64, (scratch + 127) & ~63ull);
    memset(s, 0xff, scratch);
    k->run(state, (const void *[]){a, b}, (void *[]){out, out2}, s);
    free(s);
    return TD_OK;
}
static inline td_status_t launch(td_library_op_t op, const void *desc, void *const *bufs) {
    td_kernel_t *k = NULL;
    uint64_t scratch = 0;
    td_err_t err = {0};
    td_status_t st = td_host_library_lower(NULL, op, desc, &arena, &k, &scratch, &err);
    if (st) return st;
    void *s = aligned_alloc(64, (scratch + 127) & ~63ull);
    st = k->run(k, bufs, s, &err);
    free(s);
    return st;
}

static inline void close_to(const void *got, td_type_t t, const double *want, size_t n) {
    for (size_t i = 0; i < n; i++) {
        double g = t == TD_F32 ? (double)((const float *)got)[i] : ((const double *)got)[i];
        ck_assert_msg(fabs(g - want[i]) <= (t == TD_F32 ? 2e-6 : 1e-9) * (1 + fabs(want[i])),
                      "element %zu: %.10g instead of %.10g", i, g, want[i]);
    }
}
#define CLOSE(got, t, want) close_to(got, t, want, sizeof(want) / sizeof *(want))
static inline void narrow(const double *x, float *y, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] = (float)x[i];
}

static inline int run_tests(const char *suite, const TTest *const *tests, size_t n) {
    Suite *s = suite_create(suite);
    TCase *t = tcase_create("all");
    tcase_add_checked_fixture(t, setup, teardown);
    for (size_t i = 0; i < n; i++) tcase_add_test(t, tests[i]);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}

#endif
