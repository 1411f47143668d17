/* SPDX-License-Identifier: Apache-2.0 */
/* ragged-dot, scaled-dot, batch norms, stochastic-convert. Values: numpy in f64 on the definitions. */
#include <math.h>

#include "hlo_build.h"

static void seq(float *x, int n, int a, int m) {
    for (int i = 0; i < n; i++) x[i] = (float)(i * a % m - m / 2);
}
static td_hlo_instr_t *ragged(const td_shape_t *l, const td_shape_t *r, const td_shape_t *sizes, const td_shape_t *o,
                              td_dot_dims_t *d) {
    comp_begin();
    td_hlo_instr_t *i = NODE(TD_HLO_RAGGED_DOT, o, param(0, l), param(1, r), param(2, sizes));
    i->dot = d;
    return i;
}

START_TEST(ragged_rows) {
    float l[30], r[36], y[20];
    const int32_t sizes[6] = {2, 0, 2, 1, 3, 1};
    seq(l, 30, 7, 11);
    seq(r, 36, 5, 13);
    td_dot_dims_t d = {.lhs_batch = INTS(0),
                       .rhs_batch = INTS(0),
                       .lhs_contracting = INTS(2),
                       .rhs_contracting = INTS(2),
                       .lhs_ragged = INTS(1),
                       .rhs_group = INTS(1)};
    td_hlo_instr_t *i =
        ragged(SHAPE(TD_F32, 2, 5, 3), SHAPE(TD_F32, 2, 3, 3, 2), SHAPE(TD_S32, 2, 3), SHAPE(TD_F32, 2, 5, 2), &d);
    ck_assert_int_eq(RUN(i, y, l, r, sizes), TD_OK);
    EXPECT(y, 36, -15, -29, -27, 24, -28, 27, -27, 0, 0, -3, 33, 36, -8, 41, -5, -20, -13, -11, -6);
    i = ragged(SHAPE(TD_F32, 2, 5, 3), SHAPE(TD_F32, 2, 3, 3, 2), SHAPE(TD_S32, 2, 4), SHAPE(TD_F32, 2, 5, 2), &d);
    ck_assert_int_eq(RUN(i, y, l, r, sizes), TD_MALFORMED);
    d.rhs_group.n = 0;
    ck_assert_int_eq(RUN(i, y, l, r, sizes), TD_MALFORMED);
}
END_TEST

/* Dimensions before and after the ragged one; the last group is larger than what is left. */
START_TEST(ragged_between) {
    float l[24], r[4], y[12];
    const int64_t sizes[4] = {1, 2, 2, 9};
    seq(l, 24, 7, 11);
    seq(r, 4, 5, 13);
    td_dot_dims_t d = {
        .lhs_contracting = INTS(3), .rhs_contracting = INTS(1), .lhs_ragged = INTS(1), .rhs_group = INTS(0)};
    td_hlo_instr_t *i =
        ragged(SHAPE(TD_F32, 2, 3, 2, 2), SHAPE(TD_F32, 2, 2, 1), SHAPE(TD_S64, 2, 2), SHAPE(TD_F32, 2, 3, 2, 1), &d);
    ck_assert_int_eq(RUN(i, y, l, r, sizes), TD_OK);
    EXPECT(y, 28, 7, 16, 16, -28, 16, -10, -31, 14, 4, 16, -28);
}
END_TEST

START_TEST(ragged_sums) {
    float l[16], r[24], y[12];
    int32_t li[16], ri[24], yi[12];
    const uint8_t sizes[4] = {1, 2, 3, 1};
    seq(l, 16, 7, 11);
    seq(r, 24, 5, 13);
    for (int i = 0; i < 24; i++) ri[i] = (int32_t)r[i], li[i % 16] = (int32_t)l[i % 16];
    td_dot_dims_t d = {.lhs_contracting = INTS(1, 2), .rhs_contracting = INTS(0, 1), .lhs_ragged = INTS(2)};
    td_hlo_instr_t *i =
        ragged(SHAPE(TD_F32, 2, 2, 4), SHAPE(TD_F32, 2, 4, 3), SHAPE(TD_U8, 2, 2), SHAPE(TD_F32, 2, 2, 3), &d);
    ck_assert_int_eq(RUN(i, y, l, r, sizes), TD_OK);
    EXPECT(y, 44, 3, -12, 50, -10, -5, -4, -4, 22, -15, 0, 28);
    i = ragged(SHAPE(TD_S32, 2, 2, 4), SHAPE(TD_S32, 2, 4, 3), SHAPE(TD_U8, 2, 2), SHAPE(TD_S32, 2, 2, 3), &d);
    ck_assert_int_eq(RUN(i, yi, li, ri, sizes), TD_OK);
    EXPECT(yi, 44, 3, -12, 50, -10, -5, -4, -4, 22, -15, 0, 28);
    i->shape = shape(TD_S32, LAYOUT(0, 1, 2), DIMS(2, 2, 3));
    ck_assert_int_eq(RUN(i, yi, li, ri, sizes), TD_OK);
    EXPECT(yi, 44, -4, 50, -15, 3, -4, -10, 0, -12, 22, -5, 28);
}
END_TEST

START_TEST(ragged_batches) {
    float l[12], r[6], y[6];
    seq(l, 12, 7, 11);
    seq(r, 6, 5, 13);
    td_dot_dims_t d = {.lhs_batch = INTS(0),
                       .rhs_batch = INTS(0),
                       .lhs_contracting = INTS(2),
                       .rhs_contracting = INTS(1),
                       .lhs_ragged = INTS(0)};
    td_hlo_instr_t *i =
        ragged(SHAPE(TD_F32, 3, 2, 2), SHAPE(TD_F32, 3, 2, 1), SHAPE(TD_S32, 2), SHAPE(TD_F32, 3, 2, 1), &d);
    ck_assert_int_eq(RUN(i, y, l, r, (const int32_t[]){1, 2}), TD_OK);
    EXPECT(y, 28, 7, 16, 16, 14, -31);
    i = ragged(SHAPE(TD_F32, 3, 2, 0), SHAPE(TD_F32, 3, 0, 1), SHAPE(TD_S32, 2), SHAPE(TD_F32, 3, 2, 1), &d);
    ck_assert_int_eq(RUN(i, y, l, r, (const int32_t[]){1, 2}), TD_OK);
    EXPECT(y, 0, 0, 0, 0, 0, 0);
}
END_TEST

START_TEST(scaled) {
    float lf[8], y[6];
    const float lsf[4] = {0.5f, 4, 1, 2}, rf[12] = {1, -0.5f, 3, 6, 0.5f, 1.5f, -2, -6, 4, 0, 1, 2},
                rsf[2] = {1.5f, 0.375f};
    uint8_t l[8], ls[4], r[12];
    uint16_t rs[2];
    seq(lf, 8, 7, 11);
    td_convert_array(TD_F32, lf, TD_F8E4M3FN, l, 8);
    td_convert_array(TD_F32, lsf, TD_F8E8M0FNU, ls, 4);
    td_convert_array(TD_F32, rf, TD_F4E2M1FN, r, 12);
    td_convert_array(TD_F32, rsf, TD_BF16, rs, 2);
    td_dot_dims_t d = {.lhs_contracting = INTS(1), .rhs_contracting = INTS(1)};
    comp_begin();
    td_hlo_instr_t *a = param(0, SHAPE(TD_F8E4M3FN, 2, 4)), *b = param(1, SHAPE(TD_F4E2M1FN, 3, 4)),
                   *none = param(2, SHAPE(TD_BF16));
    td_hlo_instr_t *i = NODE(TD_HLO_SCALED_DOT, SHAPE(TD_F32, 2, 3), a, b, param(2, SHAPE(TD_F8E8M0FNU, 2, 2)),
                             param(3, SHAPE(TD_BF16, 1, 2)));
    i->dot = &d;
    ck_assert_int_eq(RUN(i, y, l, r, ls, rs), TD_OK);
    EXPECT(y, 31.5f, -38.625f, -3, 12.75f, -12, 9);
    i = NODE(TD_HLO_SCALED_DOT, i->shape, a, b, none, none); /* rank 0: no scale */
    i->dot = &d;
    ck_assert_int_eq(RUN(i, y, l, r, rs, rs), TD_OK);
    EXPECT(y, 18, -25.5f, -12, 14.5f, -12, 8);
    i = NODE(TD_HLO_SCALED_DOT, i->shape, a, b, none, param(3, SHAPE(TD_BF16, 1, 3)));
    i->dot = &d;
    ck_assert_int_eq(RUN(i, y, l, r, rs, rs), TD_MALFORMED);
}
END_TEST

static td_hlo_instr_t *norm(td_opcode_t op, uint32_t n, const td_shape_t *x, const td_shape_t *last) {
    const td_shape_t *v = SHAPE(TD_F32, 3);
    comp_begin();
    td_hlo_instr_t *p[5] = {param(0, x), param(1, v), param(2, v), n > 3 ? param(3, v) : NULL,
                            n > 3 ? param(4, last) : NULL};
    td_hlo_instr_t *i = node(op, op == TD_HLO_BATCH_NORM_INFERENCE ? x : TUPLE(x, v, v), n, p);
    i->epsilon = 0.25f;
    i->feature_index = 1;
    return i;
}

START_TEST(batch_norms) {
    float x[12], dy[12], y[12], m[3], v[3];
    const float scale[3] = {1, 2, -1}, offset[3] = {0.5f, 0, 1};
    const td_shape_t *s = SHAPE(TD_F32, 2, 3, 2), *f = SHAPE(TD_F32, 3);
    seq(x, 12, 7, 11);
    seq(dy, 12, 5, 13);
    for (int i = 0; i < 12; i++) x[i] /= 2;
    ck_assert_int_eq(
        run_op(norm(TD_HLO_BATCH_NORM_TRAINING, 3, s, f), (const void *[]){x, scale, offset}, (void *[]){y, m, v}),
        TD_OK);
    NEAR(y, 1e-6, -1.00384124, 1.00128041, -1.32453236, 2.38415824, -0.224744871, 1.40824829, 1.57417231, 0.428388513,
         -2.38415824, 1.32453236, 0.59175171, 2.22474487);
    NEAR(m, 1e-6, 0.125, 0.25, -1);
    NEAR(v, 1e-6, 2.796875, 3.3125, 1.25);
    ck_assert_int_eq(RUN(norm(TD_HLO_BATCH_NORM_INFERENCE, 5, s, f), dy, x, scale, offset, m, v), TD_OK);
    ck_assert_int_eq(RUN(norm(TD_HLO_BATCH_NORM_INFERENCE, 5, s, f), y, x, scale, offset, m, v), TD_OK);
    ck_assert_mem_eq(dy, y, sizeof y);
    seq(dy, 12, 5, 13);
    float ds[3], db[3];
    ck_assert_int_eq(
        run_op(norm(TD_HLO_BATCH_NORM_GRAD, 5, s, s), (const void *[]){x, scale, m, v, dy}, (void *[]){y, ds, db}),
        TD_OK);
    NEAR(y, 1e-6, -1.25154846, -0.15570908, 5.30742439, -2.45387047, 2.14330352, -3.43608978, -1.23392101, 2.64117855,
         -4.43369778, 1.58014386, -1.871138, 3.16392425);
    NEAR(ds, 1e-6, 6.15858792, -1.45698559, 4.4907312);
    NEAR(db, 1e-6, -6, -5, 9);
    td_hlo_instr_t *bad = norm(TD_HLO_BATCH_NORM_GRAD, 5, s, f);
    ck_assert_int_eq(run_op(bad, (const void *[]){x, scale, m, v, dy}, (void *[]){y, ds, db}), TD_MALFORMED);
    bad = norm(TD_HLO_BATCH_NORM_TRAINING, 3, s, f);
    bad->feature_index = 3;
    ck_assert_int_eq(run_op(bad, (const void *[]){x, scale, offset}, (void *[]){y, m, v}), TD_MALFORMED);
}
END_TEST

START_TEST(stochastic) {
    const float x[8] = {2.25f, 2.25f, -2.25f, -2.25f, 1000, -1000, NAN, 3};
    const uint32_t r[8] = {0x3fffffff, 0x40000000, 0x3fffffff, 0x40000000, 0, 0, 0, 0};
    int8_t y[8];
    comp_begin();
    td_hlo_instr_t *i =
        NODE(TD_HLO_STOCHASTIC_CONVERT, SHAPE(TD_S8, 8), param(0, SHAPE(TD_F32, 8)), param(1, SHAPE(TD_U32, 8)));
    ck_assert_int_eq(RUN(i, y, x, r), TD_OK);
    EXPECT(y, 3, 2, -3, -2, 127, -128, 0, 3);
    i->shape = SHAPE(TD_BF16, 8);
    ck_assert_int_eq(RUN(i, y, x, r), TD_UNSUPPORTED);
    i = NODE(TD_HLO_STOCHASTIC_CONVERT, SHAPE(TD_S8, 8), param(0, SHAPE(TD_F32, 8)), param(1, SHAPE(TD_U16, 8)));
    ck_assert_int_eq(RUN(i, y, x, r), TD_MALFORMED);
}
END_TEST

SUITE("host_dots", ragged_rows, ragged_between, ragged_sums, ragged_batches, scaled, batch_norms, stochastic)
