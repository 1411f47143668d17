/* SPDX-License-Identifier: Apache-2.0 */
/* Computations that call others inside a kernel, and the opcodes that only say which value is meant. */
#include <math.h>

#include "hlo_build.h"

static const td_shape_t *state(void) { return TUPLE(SHAPE(TD_S32), SHAPE(TD_F32, 3), SHAPE(TD_F32, 3)); }

static const td_hlo_comp_t *below(int32_t limit) {
    comp_begin();
    td_hlo_instr_t *c =
        NODE(TD_HLO_COMPARE, SHAPE(TD_PRED), element(param(0, state()), 0), constant(SHAPE(TD_S32), &limit));
    c->direction = TD_CMP_LT;
    return comp_of(c);
}

/* (i, a, b) -> (i + 1, b, a + b): every leaf moves or swaps in place. */
static const td_hlo_comp_t *fibonacci(void) {
    const int32_t one = 1;
    comp_begin();
    td_hlo_instr_t *p = param(0, state()), *i = element(p, 0), *a = element(p, 1), *b = element(p, 2);
    td_hlo_instr_t *r = NODE(TD_HLO_TUPLE, state(), NODE(TD_HLO_ADD, i->shape, i, constant(i->shape, &one)), b,
                             NODE(TD_HLO_ADD, a->shape, a, b));
    return comp_of(r);
}

START_TEST(loops) {
    const int32_t zero = 0;
    const float a[3] = {0, 1, 2}, b[3] = {1, 1, 1};
    int32_t n = -1;
    float x[3], y[3];
    for (int32_t limit = 0; limit < 8; limit += 7) {
        const td_hlo_comp_t *body = fibonacci(), *cond = below(limit);
        comp_begin();
        td_hlo_instr_t *t = NODE(TD_HLO_TUPLE, state(), param(0, SHAPE(TD_S32)), param(1, SHAPE(TD_F32, 3)),
                                 param(2, SHAPE(TD_F32, 3)));
        td_hlo_instr_t *w = NODE(TD_HLO_WHILE, state(), t);
        CALL(w, body, cond);
        ck_assert_int_eq(run_comp(comp_of(w), (const void *[]){&zero, a, b}, (void *[]){&n, x, y}, NULL), TD_OK);
        ck_assert_int_eq(n, limit);
        if (limit) {
            EXPECT(x, 13, 21, 29);
            EXPECT(y, 21, 34, 47);
        } else {
            ck_assert_mem_eq(x, a, sizeof a);
            ck_assert_mem_eq(y, b, sizeof b);
        }
        CALL(w, cond, cond);
        ck_assert_int_eq(td_host_op_find(TD_HLO_WHILE)->prepare(w, &arena, &(void *){0}, &(uint64_t){0}, NULL),
                         TD_MALFORMED);
    }
}
END_TEST

/* Branch k multiplies by k + 2. */
static const td_hlo_comp_t *branch(float by) {
    comp_begin();
    td_hlo_instr_t *p = param(0, SHAPE(TD_F32));
    return comp_of(NODE(TD_HLO_MULTIPLY, p->shape, p, constant(p->shape, &by)));
}

START_TEST(branches) {
    static const struct {
        int32_t index;
        float want;
    } s32[] = {{0, 20}, {1, 300}, {2, 4000}, {3, 4000}, {-1, 4000}, {INT32_MIN, 4000}};
    const float x[3] = {10, 100, 1000};
    float y = 0;
    const td_hlo_comp_t *f[3] = {branch(2), branch(3), branch(4)};
    for (size_t i = 0; i < sizeof s32 / sizeof *s32; i++) { /* a number that names no branch is the last */
        comp_begin();
        td_hlo_instr_t *c = NODE(TD_HLO_CONDITIONAL, SHAPE(TD_F32), param(0, SHAPE(TD_S32)), param(1, SHAPE(TD_F32)),
                                 param(2, SHAPE(TD_F32)), param(3, SHAPE(TD_F32)));
        call(c, 3, f);
        ck_assert_int_eq(COMP(c, &y, &s32[i].index, &x[0], &x[1], &x[2]), TD_OK);
        ck_assert_float_eq(y, s32[i].want);
    }
    for (uint8_t p = 0; p < 2; p++) { /* true is branch 0 */
        comp_begin();
        td_hlo_instr_t *c = NODE(TD_HLO_CONDITIONAL, SHAPE(TD_F32), param(0, SHAPE(TD_PRED)), param(1, SHAPE(TD_F32)),
                                 param(2, SHAPE(TD_F32)));
        call(c, 2, f);
        ck_assert_int_eq(COMP(c, &y, &p, &x[0], &x[1]), TD_OK);
        ck_assert_float_eq(y, p ? 20 : 300);
        call(c, 3, f);
        ck_assert_int_eq(td_host_op_find(TD_HLO_CONDITIONAL)->prepare(c, &arena, &(void *){0}, &(uint64_t){0}, NULL),
                         TD_MALFORMED);
    }
}
END_TEST

/* Branches without operands: an empty tuple. */
START_TEST(empty_operands) {
    const float one = 1, two = 2;
    const td_hlo_comp_t *f[2];
    float y = 0;
    for (int i = 0; i < 2; i++) {
        comp_begin();
        (void)param(0, tuple_of(0, NULL));
        f[i] = comp_of(constant(SHAPE(TD_F32), i ? &two : &one));
    }
    comp_begin();
    td_hlo_instr_t *p = param(0, SHAPE(TD_PRED)), *e = node(TD_HLO_TUPLE, tuple_of(0, NULL), 0, NULL);
    td_hlo_instr_t *c = NODE(TD_HLO_CONDITIONAL, SHAPE(TD_F32), p, e, e);
    call(c, 2, f);
    ck_assert_int_eq(COMP(c, &y, (const uint8_t[]){0}), TD_OK);
    ck_assert_float_eq(y, 2);
}
END_TEST

/* cumulative sum and its running maximum, forwards and backwards, over rows of either layout */
START_TEST(scans) {
    const td_shape_t *row = SHAPE(TD_S32, 2);
    for (int back = 0; back < 2; back++) {
        comp_begin();
        td_hlo_instr_t *x = param(0, row), *c = param(1, row), *sum = NODE(TD_HLO_ADD, row, x, c);
        const td_hlo_comp_t *f = comp_of(NODE(TD_HLO_TUPLE, TUPLE(row, row), NODE(TD_HLO_MAXIMUM, row, sum, x), sum));
        const td_shape_t *in = SHAPE(TD_S32, 2, 3), *out = shape(TD_S32, LAYOUT(0, 1), DIMS(2, 3));
        const int32_t a[6] = {1, -2, 3, 10, 20, -30}, init[2] = {0, 100};
        int32_t y[6], last[2];
        comp_begin();
        td_hlo_instr_t *s = NODE(TD_HLO_SCAN, TUPLE(out, row), param(0, in), param(1, row));
        s->dimensions = INTS(1);
        s->scan.num_carries = 1;
        s->scan.is_reverse = back;
        CALL(s, f);
        ck_assert_int_eq(run_op(s, (const void *[]){a, init}, (void *[]){y, last}), TD_OK);
        if (back) {
            EXPECT(y, 2, 100, 1, 90, 3, 70);
            EXPECT(last, 2, 100);
        } else {
            EXPECT(y, 1, 110, -1, 130, 3, 100);
            EXPECT(last, 2, 100);
        }
        s->scan.num_carries = 2;
        ck_assert_int_eq(run_op(s, (const void *[]){a, init}, (void *[]){y, last}), TD_MALFORMED);
    }
}
END_TEST

START_TEST(maps) {
    const float a[6] = {1, 2, 3, 4, 5, 6}, b[6] = {10, 20, 30, 40, 50, 60};
    float y[6];
    const td_hlo_comp_t *f = scalar2(TD_HLO_SUBTRACT, TD_F32, TD_F32, 1, 0);
    td_hlo_instr_t *m = NODE(TD_HLO_MAP, SHAPE(TD_F32, 2, 3), param(0, SHAPE(TD_F32, 2, 3)),
                             param(1, shape(TD_F32, LAYOUT(0, 1), DIMS(2, 3))));
    CALL(m, f);
    ck_assert_int_eq(RUN(m, y, a, b), TD_OK);
    EXPECT(y, 9, 28, 47, 16, 35, 54);
    CALL(m, scalar2(TD_HLO_COMPARE, TD_F32, TD_PRED, 1, 0));
    ck_assert_int_eq(RUN(m, y, a, b), TD_MALFORMED);
}
END_TEST

START_TEST(asynchronous) {
    const float x = 5, by = 7;
    float y = 0, z = 0;
    const td_hlo_comp_t *f = branch(by);
    comp_begin();
    const td_shape_t *s = SHAPE(TD_F32), *t = TUPLE(TUPLE(s), s, SHAPE(TD_U32));
    td_hlo_instr_t *start = NODE(TD_HLO_ASYNC_START, t, param(0, s));
    CALL(start, f);
    td_hlo_instr_t *update = NODE(TD_HLO_ASYNC_UPDATE, t, start), *done = NODE(TD_HLO_ASYNC_DONE, s, update);
    td_hlo_instr_t *copy = NODE(TD_HLO_COPY_START, TUPLE(s, s, SHAPE(TD_U32)), done);
    td_hlo_instr_t *r = NODE(TD_HLO_TUPLE, TUPLE(s, s), NODE(TD_HLO_COPY_DONE, s, copy), done);
    ck_assert_int_eq(run_comp(comp_of(r), (const void *[]){&x}, (void *[]){&y, &z}, NULL), TD_OK);
    ck_assert_float_eq(y, 35);
    ck_assert_float_eq(z, 35);
    comp_begin();
    start = NODE(TD_HLO_ASYNC_START, TUPLE(TUPLE(s), SHAPE(TD_F32, 2)), param(0, s));
    CALL(start, f);
    ck_assert_int_eq(COMP(NODE(TD_HLO_ASYNC_DONE, SHAPE(TD_F32, 2), start), &y, &x), TD_MALFORMED);
}
END_TEST

START_TEST(dimension_sizes) {
    const float x[4] = {1, 2, 3, 4};
    const int32_t two = 2;
    int32_t n[3];
    float y[4];
    const td_shape_t *s = SHAPE(TD_F32, 4), *z = SHAPE(TD_S32);
    comp_begin();
    td_hlo_instr_t *p = param(0, s), *set = NODE(TD_HLO_SET_DIMENSION_SIZE, s, p, param(1, z));
    td_hlo_instr_t *get = NODE(TD_HLO_GET_DIMENSION_SIZE, z, set), *bound = NODE(TD_HLO_GET_DIMENSION_SIZE, z, p);
    set->dimensions = get->dimensions = bound->dimensions = INTS(0);
    td_hlo_instr_t *shaped = NODE(TD_HLO_DYNAMIC_RESHAPE, SHAPE(TD_F32, 2, 2), set, get, get);
    td_hlo_instr_t *id = node(TD_HLO_PARTITION_ID, SHAPE(TD_U32), 0, NULL);
    td_hlo_instr_t *r = NODE(TD_HLO_TUPLE, TUPLE(z, z, shaped->shape, id->shape), get, bound, shaped, id);
    ck_assert_int_eq(run_comp(comp_of(r), (const void *[]){x, &two}, (void *[]){&n[0], &n[1], y, &n[2]}, NULL), TD_OK);
    EXPECT(n, 2, 4, 0);
    EXPECT(y, 1, 2, 3, 4);
    comp_begin();
    get = NODE(TD_HLO_GET_DIMENSION_SIZE, z, param(0, s));
    get->dimensions = INTS(1);
    ck_assert_int_eq(COMP(get, n, x), TD_MALFORMED);
}
END_TEST

/* Packed types cross the border of a body and of a kernel. */
START_TEST(narrow_state) {
    const uint8_t x[5] = {1, 0xf8, 7, 0xff, 3};
    uint8_t y[5];
    const td_shape_t *s = SHAPE(TD_S4, 5), *t = TUPLE(s, SHAPE(TD_S32));
    const int32_t zero = 0, one = 1, three = 3;
    int32_t n = 0;
    comp_begin();
    td_hlo_instr_t *p = param(0, t), *a = element(p, 0), *i = element(p, 1);
    const td_hlo_comp_t *body = comp_of(
        NODE(TD_HLO_TUPLE, t, NODE(TD_HLO_ADD, s, a, a), NODE(TD_HLO_ADD, i->shape, i, constant(i->shape, &one))));
    comp_begin();
    td_hlo_instr_t *c = NODE(TD_HLO_COMPARE, SHAPE(TD_PRED), element(param(0, t), 1), constant(SHAPE(TD_S32), &three));
    c->direction = TD_CMP_LT;
    const td_hlo_comp_t *cond = comp_of(c);
    comp_begin();
    td_hlo_instr_t *w = NODE(TD_HLO_WHILE, t, NODE(TD_HLO_TUPLE, t, param(0, s), param(1, SHAPE(TD_S32))));
    CALL(w, body, cond);
    ck_assert_int_eq(run_comp(comp_of(w), (const void *[]){x, &zero}, (void *[]){y, &n}, NULL), TD_OK);
    EXPECT(y, 0xf8, 0, 0xf8, 0xf8, 0xf8); /* times 8, wrapped to 4 bits */
}
END_TEST

SUITE("host_calls", loops, branches, empty_operands, scans, maps, asynchronous, dimension_sizes, narrow_state)
