/* SPDX-License-Identifier: Apache-2.0 */
/* Small HLO instructions built by hand, for tests of the host device. One arena per test. */
#ifndef TD_TESTS_HLO_BUILD_H
#define TD_TESTS_HLO_BUILD_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/host/body.h"

static td_arena_t arena;
static inline void setup(void) { td_arena_init(&arena, td_alloc_default(), 0); }
static inline void teardown(void) { td_arena_deinit(&arena); }

#define DIMS(...) (sizeof((int64_t[]){0, ##__VA_ARGS__}) / 8 - 1), (const int64_t[]){0, ##__VA_ARGS__} + 1
#define INTS(...) ((td_ints_t){(const int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / 8})
#define LAYOUT(...) (const int32_t[]){__VA_ARGS__}
#define SHAPE(t, ...) shape(t, NULL, DIMS(__VA_ARGS__))

static inline const td_shape_t *shape(td_type_t t, const int32_t *layout, size_t rank, const int64_t *dims) {
    const td_shape_t *s = NULL;
    ck_assert_int_eq(td_shape_make(&arena, t, (uint32_t)rank, dims, layout, &s, NULL), TD_OK);
    return s;
}
static inline const td_shape_t *tuple_of(uint32_t n, const td_shape_t *const *e) {
    td_shape_t *s = TD_NEW(&arena, td_shape_t);
    const td_shape_t **list = TD_NEW_N(&arena, const td_shape_t *, n + 1);
    for (uint32_t i = 0; i < n; i++) list[i] = e[i];
    *s = (td_shape_t){.type = TD_TUPLE, .rank = n, .elements = list, .bytes = 8 * n, .bits = 64};
    return s;
}
#define TUPLE(...) tuple_of(sizeof((const td_shape_t *[]){__VA_ARGS__}) / 8, (const td_shape_t *[]){__VA_ARGS__})

/* Instructions are numbered in the order of their making; comp_of makes a computation of those since comp_begin. */
static td_hlo_instr_t *made[64];
static uint32_t n_made;
static inline void comp_begin(void) { n_made = 0; }

static inline td_hlo_instr_t *node(td_opcode_t op, const td_shape_t *s, uint32_t n, td_hlo_instr_t *const *operands) {
    td_hlo_instr_t *i = TD_NEW(&arena, td_hlo_instr_t);
    td_hlo_instr_t **o = TD_NEW_N(&arena, td_hlo_instr_t *, n + 1);
    for (uint32_t k = 0; k < n; k++) o[k] = operands[k];
    *i = (td_hlo_instr_t){.opcode = op,
                          .shape = s,
                          .name = td_opcode_name(op),
                          .opcode_name = td_opcode_name(op),
                          .operands = o,
                          .n_operands = n,
                          .index = n_made,
                          .feature_group_count = 1,
                          .batch_group_count = 1};
    ck_assert_uint_lt(n_made, 64);
    made[n_made++] = i;
    return i;
}
#define NODE(op, s, ...) node(op, s, sizeof((td_hlo_instr_t *[]){__VA_ARGS__}) / 8, (td_hlo_instr_t *[]){__VA_ARGS__})
static inline td_hlo_instr_t *param(int64_t number, const td_shape_t *s) {
    td_hlo_instr_t *p = node(TD_HLO_PARAMETER, s, 0, NULL);
    p->parameter_number = number;
    return p;
}
static inline td_hlo_instr_t *element(td_hlo_instr_t *t, int64_t i) {
    td_hlo_instr_t *g = NODE(TD_HLO_GET_TUPLE_ELEMENT, t->shape->elements[i], t);
    g->tuple_index = i;
    return g;
}
static inline td_hlo_instr_t *constant(const td_shape_t *s, const void *bytes) {
    td_hlo_instr_t *c = node(TD_HLO_CONSTANT, s, 0, NULL);
    td_literal_t *l = TD_NEW(&arena, td_literal_t);
    void *copy = td_arena_align(&arena, s->bytes + 1, 16);
    memcpy(copy, bytes, s->bytes);
    *l = (td_literal_t){.shape = s, .bytes = {copy, s->bytes}};
    c->literal = l;
    return c;
}
static inline const td_hlo_comp_t *comp_of(td_hlo_instr_t *root) {
    td_hlo_comp_t *c = TD_NEW(&arena, td_hlo_comp_t);
    td_hlo_instr_t **all = TD_NEW_N(&arena, td_hlo_instr_t *, n_made),
                   **params = TD_NEW_N(&arena, td_hlo_instr_t *, n_made);
    *c = (td_hlo_comp_t){.name = "f", .instrs = all, .n_instrs = n_made, .root = root, .params = params};
    for (uint32_t i = 0; i < n_made; i++) {
        all[i] = made[i];
        all[i]->comp = c;
        if (all[i]->opcode == TD_HLO_PARAMETER) params[all[i]->parameter_number] = all[i], c->n_params++;
    }
    n_made = 0;
    return c;
}
/* op(p0, p1) of scalars; order 1: op(p1, p0). */
static inline const td_hlo_comp_t *scalar2(td_opcode_t op, td_type_t t, td_type_t result, int order,
                                           td_cmp_dir_t direction) {
    comp_begin();
    td_hlo_instr_t *a = param(0, SHAPE(t)), *b = param(1, SHAPE(t));
    td_hlo_instr_t *r = NODE(op, SHAPE(result), order ? b : a, order ? a : b);
    r->direction = direction;
    return comp_of(r);
}
static inline void call(td_hlo_instr_t *i, uint32_t n, const td_hlo_comp_t *const *f) {
    const td_hlo_comp_t **v = TD_NEW_N(&arena, const td_hlo_comp_t *, n);
    for (uint32_t k = 0; k < n; k++) v[k] = f[k];
    i->called = v;
    i->n_called = n;
}
#define CALL(i, ...) call(i, sizeof((const td_hlo_comp_t *[]){__VA_ARGS__}) / 8, (const td_hlo_comp_t *[]){__VA_ARGS__})

/* One macro op; sub-byte elements one per byte. */
static inline td_status_t run_op(td_hlo_instr_t *i, const void *const *in, void *const *out) {
    const td_host_op_kind_t *k = td_host_op_find(i->opcode);
    ck_assert_ptr_nonnull(k);
    void *state = NULL;
    uint64_t scratch = 0;
    td_err_t err = {0};
    td_status_t st = k->prepare(i, &arena, &state, &scratch, &err);
    if (st) return st;
    void *s = aligned_alloc(64, (scratch + 127) & ~63ull);
    memset(s, 0xa5, (scratch + 127) & ~63ull);
    k->run(state, in, out, s);
    free(s);
    return TD_OK;
}
#define RUN(i, out, ...) run_op(i, (const void *const[]){__VA_ARGS__}, (void *const[]){out})
/* The computation as a kernel of its own; sub-byte elements one per byte. */
static inline td_status_t run_comp(const td_hlo_comp_t *c, const void *const *in, void *const *out, td_err_t *err) {
    td_body_t b;
    td_status_t st = td_body_make(c, false, &arena, &b, err);
    if (st) return st;
    void *s = aligned_alloc(64, b.scratch + 64);
    memset(s, 0xa5, b.scratch + 64);
    td_body_run(&b, in, out, s);
    free(s);
    return TD_OK;
}
#define COMP(root, out, ...) run_comp(comp_of(root), (const void *const[]){__VA_ARGS__}, (void *const[]){out}, NULL)

#define EXPECT(got, ...)                                    \
    do {                                                    \
        const __typeof__((got)[0]) want_[] = {__VA_ARGS__}; \
        ck_assert_mem_eq(got, want_, sizeof want_);         \
    } while (0)
#define NEAR(got, eps, ...)                                                                           \
    do {                                                                                              \
        const double want_[] = {__VA_ARGS__};                                                         \
        for (size_t i_ = 0; i_ < sizeof want_ / sizeof *want_; i_++)                                  \
            ck_assert_double_le(fabs((double)(got)[i_] - want_[i_]), (eps) * (1 + fabs(want_[i_])));  \
    } while (0)

static inline int run_suite(const char *name, const TTest *const *tests, size_t n) {
    TCase *t = tcase_create(name);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 120);
    for (size_t i = 0; i < n; i++) tcase_add_test(t, tests[i]);
    Suite *s = suite_create(name);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
#define SUITE(name, ...)                                                        \
    int main(void) {                                                            \
        const TTest *const all_[] = {__VA_ARGS__};                              \
        return run_suite(name, all_, sizeof all_ / sizeof *all_);               \
    }

#endif
