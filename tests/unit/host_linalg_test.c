/* SPDX-License-Identifier: Apache-2.0 */
/* Triangular solves, Cholesky factors and top-k of the host device. Expected numbers: scipy 1.17
 * (linalg.solve_triangular) and numpy 2.4 (linalg.cholesky), printed with %.10g; orders by hand. */
#include "tests/unit/host_case.h"

static td_hlo_instr_t *solve(bool left, bool lower, bool unit, int transpose, const td_shape_t *a,
                             const td_shape_t *b) {
    td_hlo_instr_t *i = node(TD_HLO_TRIANGULAR_SOLVE, b, a, b);
    i->triangular.left_side = left, i->triangular.lower = lower, i->triangular.unit_diagonal = unit;
    i->triangular.transpose_a = transpose;
    return i;
}
#define N NAN /* where nothing may be read */

START_TEST(solve_real) {
    const double a[9] = {2, N, N, 3, 6, N, 4, 7, 9}, unit[9] = {N, N, N, 3, N, N, 4, 7, N},
                 upper[9] = {2, 3, 4, N, 6, 7, N, N, 9};
    const double b[6] = {1, 2, 3, 4, 5, 6}, c[6] = {1, 3, 5, 2, 4, 6};
    const double left[] = {0.5, 1, 0.25, 0.1666666667, 0.1388888889, 0.09259259259};
    const double left_t[] = {-0.3888888889, -0.1666666667, -0.1481481481, -0.1111111111, 0.5555555556, 0.6666666667};
    const double left_unit[] = {1, 2, 0, -2, 1, 12};
    const double right[] = {-0.3888888889, -0.1481481481, 0.5555555556, -0.1666666667, -0.1111111111, 0.6666666667};
    const double right_t[] = {0.5, 0.25, 0.1388888889, 1, 0.1666666667, 0.09259259259};
    double x[6];
    float af[9], bf[6], xf[6];
    narrow(a, af, 9), narrow(b, bf, 6);
    const td_shape_t *m = shape(TD_F64, NULL, DIMS(3, 3)), *mc = shape(TD_F64, LAYOUT(0, 1), DIMS(3, 3));
    const td_shape_t *s = shape(TD_F64, NULL, DIMS(3, 2)), *t = shape(TD_F64, NULL, DIMS(2, 3)),
                     *tc = shape(TD_F64, LAYOUT(0, 1), DIMS(2, 3));
    ck_assert_int_eq(run(solve(true, true, false, 1, m, s), a, b, x, NULL), TD_OK);
    CLOSE(x, TD_F64, left);
    ck_assert_int_eq(run(solve(true, true, false, 0, m, s), a, b, x, NULL), TD_OK);
    CLOSE(x, TD_F64, left);
    ck_assert_int_eq(run(solve(true, true, false, 2, m, s), a, b, x, NULL), TD_OK);
    CLOSE(x, TD_F64, left_t);
    ck_assert_int_eq(run(solve(true, false, false, 1, m, s), upper, b, x, NULL), TD_OK);
    CLOSE(x, TD_F64, left_t);
    ck_assert_int_eq(run(solve(true, false, false, 1, mc, s), a, b, x, NULL),
                     TD_OK); /* a read column by column is upper */
    CLOSE(x, TD_F64, left_t);
    ck_assert_int_eq(run(solve(true, true, true, 1, m, s), unit, b, x, NULL), TD_OK);
    CLOSE(x, TD_F64, left_unit);
    ck_assert_int_eq(run(solve(false, true, false, 1, m, t), a, c, x, NULL), TD_OK);
    CLOSE(x, TD_F64, right);
    ck_assert_int_eq(run(solve(false, true, false, 3, m, t), a, c, x, NULL), TD_OK);
    CLOSE(x, TD_F64, right_t);
    ck_assert_int_eq(run(solve(false, true, false, 2, m, tc), a, b, x, NULL),
                     TD_OK); /* b read column by column is c, x likewise */
    CLOSE(x, TD_F64, left);
    ck_assert_int_eq(run(solve(true, true, false, 1, shape(TD_F32, NULL, DIMS(3, 3)), shape(TD_F32, NULL, DIMS(3, 2))),
                         af, bf, xf, NULL),
                     TD_OK);
    CLOSE(xf, TD_F32, left);
}
END_TEST

START_TEST(solve_complex_and_small) {
    const double a[8] = {2, 0, N, N, 3, 1, 6, 0}, b[8] = {1, 0, 0, 2, 4, 0, 5, 1};
    const double adjoint[] = {-0.5, 0.3333333333, -1.333333333, 1.166666667, 0.6666666667,
                              0,    0.8333333333, 0.1666666667};
    const double plain[] = {-0.5, -0.3333333333, -1.166666667, 0.3333333333, 0.6666666667,
                            0,    0.8333333333,  0.1666666667};
    double x[8];
    float af[8], bf[8], xf[8];
    narrow(a, af, 8), narrow(b, bf, 8);
    const td_shape_t *d = shape(TD_C128, NULL, DIMS(2, 2)), *s = shape(TD_C64, NULL, DIMS(2, 2)),
                     *h = shape(TD_BF16, NULL, DIMS(2, 2, 2));
    ck_assert_int_eq(run(solve(true, true, false, 3, d, d), a, b, x, NULL), TD_OK);
    CLOSE(x, TD_F64, adjoint);
    ck_assert_int_eq(run(solve(true, true, false, 2, s, s), af, bf, xf, NULL), TD_OK);
    CLOSE(xf, TD_F32, plain);
    /* bf16, two matrices: [[2,nan],[1,4]] X = [[2,4],[9,6]] and the identity */
    const uint16_t ah[8] = {0x4000, 0x7fc0, 0x3f80, 0x4080, 0x3f80, 0x7fc0, 0, 0x3f80},
                   bh[8] = {0x4000, 0x4080, 0x4110, 0x40c0, 1, 2, 3, 4};
    const uint16_t want[8] = {0x3f80, 0x4000, 0x4000, 0x3f80, 1, 2, 3, 4};
    uint16_t xh[8];
    ck_assert_int_eq(run(solve(true, true, false, 1, h, h), ah, bh, xh, NULL), TD_OK);
    ck_assert_mem_eq(xh, want, sizeof want);
    const td_shape_t *integers = shape(TD_S32, NULL, DIMS(2, 2)), *narrow_b = shape(TD_C64, NULL, DIMS(3, 2)),
                     *flat = shape(TD_C64, NULL, DIMS(2));
    ck_assert_int_eq(run(solve(true, true, false, 1, integers, integers), ah, bh, xh, NULL), TD_UNSUPPORTED);
    ck_assert_int_eq(run(solve(true, true, false, 1, s, narrow_b), ah, bh, xh, NULL), TD_MALFORMED);
    ck_assert_int_eq(run(solve(true, true, false, 1, s, flat), ah, bh, xh, NULL), TD_UNSUPPORTED);
    ck_assert_int_eq(run(solve(true, true, false, 4, s, s), af, bf, xf, NULL), TD_UNSUPPORTED);
    ck_assert_int_eq(run(solve(true, true, false, 1, d, s), af, bf, xf, NULL), TD_MALFORMED);
    const td_shape_t *none = shape(TD_F32, NULL, DIMS(0, 0)), *no_rows = shape(TD_F32, NULL, DIMS(0, 10));
    ck_assert_int_eq(run(solve(true, true, false, 1, none, no_rows), NULL, NULL, NULL, NULL), TD_OK);
}
END_TEST

/* Every option on two column-major matrices as large as BLAS's blocked code: op(A) X must give B back. */
START_TEST(solve_library) {
    enum { M = 70, COLS = 33, BATCH = 2, MAX = M * M };
    static double a[BATCH * MAX], b[BATCH * M * COLS], x[BATCH * M * COLS];
    for (int option = 0; option < 24; option++) {
        td_triangular_desc_t d = {.type = TD_F64,
                                  .left = option & 1,
                                  .lower = option & 2,
                                  .unit_diagonal = option & 4,
                                  .transpose = (td_transpose_t)(option / 8 + 1),
                                  .m = M,
                                  .n = COLS,
                                  .batch = BATCH};
        int side = d.left ? M : COLS;
        for (int k = 0; k < BATCH * side * side; k++) {
            int i = k % side, j = k / side % side;
            bool read = d.lower ? i > j : i < j;
            a[k] = i == j ? (d.unit_diagonal ? N : 2 + k % 3) : read ? (double)(k * 7 % 11 - 5) / 100 : N;
        }
        for (int k = 0; k < BATCH * M * COLS; k++) x[k] = b[k] = k % 17 - 8;
        ck_assert_int_eq(launch(TD_OP_TRIANGULAR_SOLVE, &d, (void *[]){a, x}), TD_OK);
        for (int k = 0; k < BATCH * M * COLS; k++) {
            int m = k / (M * COLS), i = k % M, j = k / M % COLS;
            double sum = 0;
            for (int l = 0; l < side; l++) {
                int r = d.left ? i : l, c = d.left ? l : j, row = d.transpose == TD_TRANSPOSE_NONE ? r : c,
                    col = row == r && d.transpose == TD_TRANSPOSE_NONE ? c : r;
                if (row != col && (row > col) != d.lower) continue;
                double v = row == col && d.unit_diagonal ? 1 : a[m * side * side + col * side + row];
                sum += v * x[m * M * COLS + (d.left ? j * M + l : l * M + i)];
            }
            ck_assert_double_eq_tol(sum, b[k], 1e-9);
        }
    }
    td_triangular_desc_t d = {.type = TD_F16, .transpose = TD_TRANSPOSE_NONE, .m = 2, .n = 2, .batch = 1};
    ck_assert_int_eq(launch(TD_OP_TRIANGULAR_SOLVE, &d, NULL), TD_UNSUPPORTED);
    d.type = TD_F32, d.m = 1ll << 31;
    ck_assert_int_eq(launch(TD_OP_TRIANGULAR_SOLVE, &d, NULL), TD_LIMIT);
}
END_TEST

START_TEST(cholesky) {
    const double a[9] = {4, N, N, 12, 37, N, -16, -43, 98}, l[] = {2, 0, 0, 6, 1, 0, -8, 5, 3},
                 u[] = {2, 6, -8, 0, 1, 5, 0, 0, 3};
    const double upper[9] = {4, 12, -16, N, 37, -43, N, N, 98};
    const double h[8] = {4, 0, N, N, 2, 2, 11, 0}, lh[] = {2, 0, 0, 0, 1, 1, 3, 0};
    double y[9];
    const td_shape_t *s = shape(TD_F64, NULL, DIMS(3, 3)), *c = shape(TD_F64, LAYOUT(0, 1), DIMS(3, 3)),
                     *z = shape(TD_C128, NULL, DIMS(2, 2));
    td_hlo_instr_t *i = node(TD_HLO_CHOLESKY, s, s, NULL);
    ck_assert_int_eq(run(i, upper, NULL, y, NULL), TD_OK);
    CLOSE(y, TD_F64, u);
    i->cholesky_lower = true;
    ck_assert_int_eq(run(i, a, NULL, y, NULL), TD_OK);
    CLOSE(y, TD_F64, l);
    i->shape = c;
    ck_assert_int_eq(run(i, a, NULL, y, NULL), TD_OK);
    CLOSE(y, TD_F64, u);
    i = node(TD_HLO_CHOLESKY, z, z, NULL);
    i->cholesky_lower = true;
    ck_assert_int_eq(run(i, h, NULL, y, NULL), TD_OK);
    CLOSE(y, TD_F64, lh);
    /* a batch with one matrix that has no factor, one with NaN, and a good one */
    const float bad[12] = {1, 2, 2, 1, 9, NAN, NAN, 4, 4, 0, 0, 9};
    float yf[12];
    const td_shape_t *b = shape(TD_F32, NULL, DIMS(3, 2, 2));
    i = node(TD_HLO_CHOLESKY, b, b, NULL);
    i->cholesky_lower = true;
    ck_assert_int_eq(run(i, bad, NULL, yf, NULL), TD_OK);
    for (int k = 0; k < 8; k++) ck_assert_float_nan(yf[k]);
    ck_assert(yf[8] == 2 && yf[9] == 0 && yf[10] == 0 && yf[11] == 3);
    ck_assert_int_eq(run(node(TD_HLO_CHOLESKY, shape(TD_F32, NULL, DIMS(2, 3)), shape(TD_F32, NULL, DIMS(2, 3)), NULL),
                         bad, NULL, yf, NULL),
                     TD_MALFORMED);
    ck_assert_int_eq(run(node(TD_HLO_CHOLESKY, s, b, NULL), bad, NULL, yf, NULL), TD_MALFORMED);
    ck_assert_int_eq(run(node(TD_HLO_CHOLESKY, shape(TD_S8, NULL, DIMS(2, 2)), shape(TD_S8, NULL, DIMS(2, 2)), NULL),
                         bad, NULL, yf, NULL),
                     TD_UNSUPPORTED);
}
END_TEST

static td_hlo_instr_t *topk(td_opcode_t op, const td_shape_t *x, const td_shape_t *values, const td_shape_t *positions,
                            bool largest) {
    td_hlo_instr_t *i = node(op, tuple(values, positions), x, NULL);
    i->largest = largest;
    return i;
}
#define EXPECT(got, ...) \
    do { \
        const __typeof__((got)[0]) want_[] = {__VA_ARGS__}; \
        ck_assert_mem_eq(got, want_, sizeof want_); \
    } while (0)

START_TEST(topk_order) {
    /* -inf, +NaN, -0, +0, -NaN, 2, inf, +0, 2, larger NaN */
    const uint32_t x[10] = {0xff800000, 0x7fc00000, 0x80000000, 0,          0xffc00000,
                            0x40000000, 0x7f800000, 0,          0x40000000, 0x7fe00000};
    uint32_t v[10];
    int32_t p[10];
    const td_shape_t *s = shape(TD_F32, NULL, DIMS(10)), *i10 = shape(TD_S32, NULL, DIMS(10)),
                     *s3 = shape(TD_F32, NULL, DIMS(3)), *i3 = shape(TD_S32, NULL, DIMS(3));
    ck_assert_int_eq(run(topk(TD_HLO_TOPK, s, s, i10, true), x, NULL, v, p), TD_OK);
    EXPECT(p, 9, 1, 6, 5, 8, 3, 7, 2, 0, 4);
    for (int i = 0; i < 10; i++) ck_assert_uint_eq(v[i], x[p[i]]);
    ck_assert_int_eq(run(topk(TD_HLO_TOPK, s, s, i10, false), x, NULL, v, p), TD_OK);
    EXPECT(p, 4, 0, 2, 3, 7, 5, 8, 6, 1, 9);
    ck_assert_int_eq(run(topk(TD_HLO_TOPK, s, s3, i3, false), x, NULL, v, p), TD_OK);
    EXPECT(p, 4, 0, 2);
    td_hlo_instr_t *call = topk(TD_HLO_CUSTOM_CALL, s, s, i10, false);
    ck_assert_int_eq(run(call, x, NULL, v, p), TD_OK);
    EXPECT(p, 9, 1, 6, 5, 8, 3, 7, 2, 0, 4);
    call->backend_config = "{is_stable = true, order = \"TOTAL\"}";
    ck_assert_int_eq(run(call, x, NULL, v, p), TD_OK);
    EXPECT(p, 9, 1, 6, 5, 8, 3, 7, 2, 0, 4);
    call->backend_config = "{is_stable = true, order = \"PARTIAL\"}";
    ck_assert_int_eq(run(call, x, NULL, v, p), TD_OK);
    EXPECT(p, 9, 1, 6, 5, 8, 2, 3, 7, 0, 4);
    ck_assert_uint_eq(v[5], 0x80000000);
    call->backend_config = "{order = \"WEAK\"}";
    ck_assert_int_eq(run(call, x, NULL, v, p), TD_UNSUPPORTED);
}
END_TEST

START_TEST(topk_types_and_layouts) {
    const int8_t b[6] = {-128, 127, 0, -1, 127, 5};
    const uint64_t q[4] = {1, UINT64_MAX, 0, UINT64_MAX - 1};
    const uint16_t h[4] = {0xc000, 0x3c00, 0x3c00, 0x7c00}; /* -2, 1, 1, inf */
    const int32_t m[6] = {1, 4, 2, 5, 3, 6};                /* [[1,2,3],[4,5,6]] column by column */
    int8_t vb[6];
    uint64_t vq[2];
    uint16_t vh[4];
    int32_t p[6], vm[4];
    ck_assert_int_eq(run(topk(TD_HLO_TOPK, shape(TD_S8, NULL, DIMS(6)), shape(TD_S8, NULL, DIMS(4)),
                              shape(TD_S32, NULL, DIMS(4)), true),
                         b, NULL, vb, p),
                     TD_OK);
    EXPECT(vb, 127, 127, 5, 0);
    EXPECT(p, 1, 4, 5, 2);
    ck_assert_int_eq(run(topk(TD_HLO_TOPK, shape(TD_U8, NULL, DIMS(6)), shape(TD_U8, NULL, DIMS(2)),
                              shape(TD_S32, NULL, DIMS(2)), true),
                         b, NULL, vb, p),
                     TD_OK);
    EXPECT(p, 3, 0);
    ck_assert_int_eq(run(topk(TD_HLO_TOPK, shape(TD_U64, NULL, DIMS(4)), shape(TD_U64, NULL, DIMS(2)),
                              shape(TD_S32, NULL, DIMS(2)), true),
                         q, NULL, vq, p),
                     TD_OK);
    EXPECT(p, 1, 3);
    ck_assert_int_eq(run(topk(TD_HLO_TOPK, shape(TD_F16, NULL, DIMS(4)), shape(TD_F16, NULL, DIMS(4)),
                              shape(TD_S32, NULL, DIMS(4)), true),
                         h, NULL, vh, p),
                     TD_OK);
    EXPECT(p, 3, 1, 2, 0);
    const td_shape_t *x = shape(TD_S32, LAYOUT(0, 1), DIMS(2, 3)), *v = shape(TD_S32, NULL, DIMS(2, 2)),
                     *w = shape(TD_S32, LAYOUT(0, 1), DIMS(2, 2));
    ck_assert_int_eq(run(topk(TD_HLO_TOPK, x, v, w, true), m, NULL, vm, p), TD_OK);
    EXPECT(vm, 3, 2, 6, 5);
    EXPECT(p, 2, 2, 1, 1);
    const td_shape_t *k7 = shape(TD_S8, NULL, DIMS(7)), *i7 = shape(TD_S32, NULL, DIMS(7)),
                     *u2 = shape(TD_S64, NULL, DIMS(2)), *c = shape(TD_C64, NULL, DIMS(2));
    ck_assert_int_eq(run(topk(TD_HLO_TOPK, shape(TD_S8, NULL, DIMS(6)), k7, i7, true), b, NULL, vb, p), TD_MALFORMED);
    ck_assert_int_eq(run(topk(TD_HLO_TOPK, k7, shape(TD_S8, NULL, DIMS(2)), u2, true), b, NULL, vb, p), TD_UNSUPPORTED);
    ck_assert_int_eq(run(topk(TD_HLO_TOPK, c, c, shape(TD_S32, NULL, DIMS(2)), true), b, NULL, vb, p), TD_UNSUPPORTED);
    ck_assert_int_eq(run(topk(TD_HLO_TOPK, k7, i7, i7, true), b, NULL, vb, p), TD_MALFORMED);
}
END_TEST

/* Against a stable sort of pairs, many equal values. */
START_TEST(topk_library) {
    enum { ROWS = 3, WIDE = 1000 };
    static float x[ROWS * WIDE], v[ROWS * WIDE];
    static int32_t p[ROWS * WIDE];
    uint32_t seed = 1;
    for (int i = 0; i < ROWS * WIDE; i++) x[i] = (float)((seed = seed * 1664525u + 1013904223u) >> 25);
    for (int k = 0; k <= WIDE; k = k * 3 + 1) {
        td_topk_desc_t d = {.type = TD_F32, .batch = ROWS, .n = WIDE, .k = k};
        ck_assert_int_eq(launch(TD_OP_TOPK, &d, (void *[]){x, v, p}), TD_OK);
        for (int r = 0; r < ROWS; r++)
            for (int i = 0; i < k; i++) {
                int at = p[r * k + i], rank = 0;
                const float *row = x + r * WIDE;
                for (int j = 0; j < WIDE; j++) rank += row[j] > row[at] || (row[j] == row[at] && j < at);
                ck_assert_int_eq(rank, i);
                ck_assert(v[r * k + i] == row[at]);
            }
    }
    td_topk_desc_t d = {.type = TD_F32, .batch = 1, .n = 4, .k = 5};
    ck_assert_int_eq(launch(TD_OP_TOPK, &d, NULL), TD_MALFORMED);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {solve_real, solve_complex_and_small, solve_library, cholesky,
                                  topk_order, topk_types_and_layouts,  topk_library};
    return run_tests("host linear algebra", tests, sizeof tests / sizeof *tests);
}
