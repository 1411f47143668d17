/* SPDX-License-Identifier: Apache-2.0 */
/* Tile loops inside fusions: several reductions beside element-wise results, results in the memory of operands,
 * broadcasts, iotas and scalars. Expected values come from plain loops in f64. */
#include "runtime/host/pool.h"
#include "tests/unit/kernel_run.h"

enum { MOST = 300000 };
static float x[MOST], y[MOST], z[MOST], keep[MOST];
static const int threads[] = {1, 2, 5};
static const struct {
    int64_t rows, cols;
} sizes[] = {{3, 2}, {1, 63}, {50, 64}, {2, 65}, {40, 1000}, {33, 1024}, {33, 1025}, {8, 5000}, {2000, 20}};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

static void fill(float *p, size_t n, uint64_t seed) {
    for (size_t i = 0; i < n; i++) p[i] = (float)(dice(&seed, 2001) - 1000) / 256;
}
static void near(double got, double want, double eps, const char *what, int64_t at) {
    ck_assert_msg(fabs(got - want) <= eps * (1 + fabs(want)), "%s: element %lld is %.9g, not %.9g", what, (long long)at,
                  got, want);
}

/* (x - mean) * rsqrt(var + e) * gamma + beta, with sum, sum of squares and 2 x as further results. */
static td_hlo_instr_t *layer_norm(int64_t rows, int64_t cols) {
    comp_begin();
    const td_shape_t *m = SHAPE(TD_F32, rows, cols), *v = SHAPE(TD_F32, rows);
    td_hlo_instr_t *a = param(0, m), *gamma = param(1, SHAPE(TD_F32, cols)), *beta = param(2, SHAPE(TD_F32, cols)),
                   *zero = scalar(TD_F32, 0);
    td_hlo_instr_t *sum = reduce(a, zero, TD_HLO_ADD, v, LIST(1));
    td_hlo_instr_t *squares = reduce(NODE(TD_HLO_MULTIPLY, m, a, a), zero, TD_HLO_ADD, v, LIST(1));
    td_hlo_instr_t *twice = NODE(TD_HLO_ADD, m, a, a), *by = SPLAT(scalar(TD_F32, 1.0 / (double)cols), v);
    td_hlo_instr_t *mean = NODE(TD_HLO_MULTIPLY, v, sum, by), *mean2 = NODE(TD_HLO_MULTIPLY, v, mean, mean);
    td_hlo_instr_t *var = NODE(TD_HLO_SUBTRACT, v, NODE(TD_HLO_MULTIPLY, v, squares, by), mean2);
    td_hlo_instr_t *inv = NODE(TD_HLO_RSQRT, v, NODE(TD_HLO_ADD, v, var, SPLAT(scalar(TD_F32, 1e-3), v)));
    td_hlo_instr_t *d = NODE(TD_HLO_SUBTRACT, m, a, broadcast(mean, m, LIST(0)));
    td_hlo_instr_t *n = NODE(TD_HLO_MULTIPLY, m, d, broadcast(inv, m, LIST(0)));
    td_hlo_instr_t *r =
        NODE(TD_HLO_ADD, m, NODE(TD_HLO_MULTIPLY, m, n, broadcast(gamma, m, LIST(1))), broadcast(beta, m, LIST(1)));
    return NODE(TD_HLO_TUPLE, TUPLE(m, v, v, m), r, sum, squares, twice);
}
START_TEST(layer_norms) {
    int64_t rows = sizes[_i].rows, cols = sizes[_i].cols;
    size_t n = (size_t)(rows * cols);
    float *gamma = malloc(4 * (size_t)cols), *beta = malloc(4 * (size_t)cols), *s = malloc(4 * (size_t)rows),
          *q = malloc(4 * (size_t)rows);
    fill(gamma, (size_t)cols, 2), fill(beta, (size_t)cols, 3), fill(keep, n, 1);
    const td_hlo_comp_t *c = comp_of(layer_norm(rows, cols));
    for (int k = 0; k < 6; k++) { /* the result in memory of its own, then over x */
        td_host_set_threads(threads[k % 3]);
        memcpy(x, keep, 4 * n);
        kernel_t f = kernel_of(c, k < 3 ? NULL : SLOTS(0, 1, 2, 0, 4, 5, 6));
        const td_step_t *step = step_of(&f, TD_STEP_LOOP, 0);
        ck_assert(step && step->loop->n_sinks == 2 && step->loop->n_out == 1 && !step_of(&f, TD_STEP_MACRO, 0));
        float *r = k < 3 ? z : x;
        kernel_run(&f, ON(x, gamma, beta, r, s, q, y));
        for (int64_t i = 0; i < rows; i++) {
            double sum = 0, squares = 0;
            for (int64_t j = 0; j < cols; j++)
                sum += (double)keep[i * cols + j], squares += (double)keep[i * cols + j] * (double)keep[i * cols + j];
            double mean = sum / (double)cols, inv = 1 / sqrt(squares / (double)cols - mean * mean + 1e-3);
            near((double)s[i], sum, 1e-5, "sum", i), near((double)q[i], squares, 1e-5, "squares", i);
            for (int64_t j = 0; j < cols; j++) {
                double e = (double)keep[i * cols + j];
                near((double)y[i * cols + j], 2 * e, 0, "twice", j);
                near((double)r[i * cols + j], (e - mean) * inv * (double)gamma[j] + (double)beta[j], 1e-3, "norm", j);
            }
        }
    }
    free(gamma), free(beta), free(s), free(q);
}
END_TEST

/* Sums by rows and by columns of one product: one of them stays a macro op. */
START_TEST(two_geometries) {
    int64_t rows = sizes[_i].rows, cols = sizes[_i].cols;
    size_t n = (size_t)(rows * cols);
    float *s = malloc(4 * (size_t)rows), *t = malloc(4 * (size_t)cols);
    fill(keep, n, 4), fill(y, n, 5);
    for (int k = 0; k < 3; k++) {
        td_host_set_threads(threads[k]);
        comp_begin();
        const td_shape_t *m = SHAPE(TD_F32, rows, cols);
        td_hlo_instr_t *a = param(0, m), *b = param(1, m), *p = NODE(TD_HLO_MULTIPLY, m, a, b),
                       *zero = scalar(TD_F32, 0);
        td_hlo_instr_t *by_row = reduce(p, zero, TD_HLO_ADD, SHAPE(TD_F32, rows), LIST(1)),
                       *by_col = reduce(p, zero, TD_HLO_ADD, SHAPE(TD_F32, cols), LIST(0));
        kernel_t f = kernel_of(comp_of(NODE(TD_HLO_TUPLE, TUPLE(by_row->shape, by_col->shape, m), by_row, by_col, p)),
                               SLOTS(0, 1, 2, 3, 0));
        ck_assert(rows == 1 || step_of(&f, TD_STEP_MACRO, 0));
        memcpy(x, keep, 4 * n);
        kernel_run(&f, ON(x, y, s, t, x));
        for (size_t i = 0; i < n; i++) ck_assert(x[i] == keep[i] * y[i]);
        for (int64_t i = 0; i < rows; i++) {
            double w = 0;
            for (int64_t j = 0; j < cols; j++) w += (double)x[i * cols + j];
            near((double)s[i], w, 1e-5, "row", i);
        }
        for (int64_t j = 0; j < cols; j++) {
            double w = 0;
            for (int64_t i = 0; i < rows; i++) w += (double)x[i * cols + j];
            near((double)t[j], w, 1e-5, "column", j);
        }
    }
    free(s), free(t);
}
END_TEST

/* The negative over an operand that is summed up too; the sums over the row operand that is added to each row. */
START_TEST(results_over_operands) {
    int64_t rows = sizes[_i].rows, cols = sizes[_i].cols;
    size_t n = (size_t)(rows * cols);
    fill(keep, n, 6);
    for (int k = 0; k < 12; k++) {
        int axis = k / 3 % 2, mode = k / 6; /* mode 1: sums of the operand itself */
        td_host_set_threads(threads[k % 3]);
        int64_t m_out = axis ? rows : cols;
        float init = 1.5f, *v = malloc(4 * (size_t)m_out), *v0 = malloc(4 * (size_t)m_out);
        fill(v0, (size_t)m_out, 7), memcpy(v, v0, 4 * (size_t)m_out), memcpy(x, keep, 4 * n);
        comp_begin();
        const td_shape_t *m = SHAPE(TD_F32, rows, cols), *o = SHAPE(TD_F32, m_out);
        td_hlo_instr_t *a = param(0, m), *b = param(1, o), *i = param(2, SHAPE(TD_F32));
        td_hlo_instr_t *e = NODE(TD_HLO_ADD, m, a, broadcast(b, m, LIST(axis ? 0 : 1))),
                       *neg = NODE(TD_HLO_NEGATE, m, a);
        td_hlo_instr_t *sum = reduce(mode ? a : e, i, TD_HLO_ADD, o, LIST(axis ? 1 : 0));
        td_hlo_instr_t *plus = NODE(TD_HLO_ADD, m, neg, e); /* = the broadcast row or column */
        run_slots(comp_of(NODE(TD_HLO_TUPLE, TUPLE(m, o, m), neg, sum, mode ? plus : e)), SLOTS(0, 1, 2, 0, 1, 5),
                  ON(x, v, &init, x, v, z));
        for (int64_t j = 0; j < m_out; j++) {
            double w = (double)init;
            for (int64_t r = 0; r < (axis ? cols : rows); r++)
                w += (double)keep[axis ? j * cols + r : r * cols + j] + (mode ? 0 : (double)v0[j]);
            near((double)v[j], w, 1e-5, "sum", j);
        }
        for (size_t j = 0; j < n; j++) {
            float at = v0[axis ? j / (size_t)cols : j % (size_t)cols], with = keep[j] + at;
            ck_assert(x[j] == -keep[j] && z[j] == (mode ? -keep[j] + with : with));
        }
        free(v), free(v0);
        td_arena_reset(&arena);
    }
}
END_TEST

/* max(scalar parameter, iota * row) - column, without and with a sum: broadcasts that every tile reads alike. */
START_TEST(broadcasts) {
    int64_t rows = sizes[_i].rows, cols = sizes[_i].cols;
    size_t n = (size_t)(rows * cols);
    float *row = malloc(4 * (size_t)cols), *col = malloc(4 * (size_t)rows), *s = malloc(4 * (size_t)rows), floor_at = 3;
    fill(row, (size_t)cols, 8), fill(col, (size_t)rows, 9);
    for (int k = 0; k < 12; k++) {
        td_host_set_threads(threads[k % 3]);
        int dim = k / 3 % 2, summed = k / 6;
        comp_begin();
        const td_shape_t *m = SHAPE(TD_F32, rows, cols);
        td_hlo_instr_t *p = param(0, SHAPE(TD_F32, cols)), *q = param(1, SHAPE(TD_F32, rows)),
                       *low = param(2, SHAPE(TD_F32)), *io = node(TD_HLO_IOTA, m, 0, NULL);
        io->dimensions = LIST(dim);
        td_hlo_instr_t *t = NODE(TD_HLO_MULTIPLY, m, io, broadcast(p, m, LIST(1)));
        t = NODE(TD_HLO_SUBTRACT, m, NODE(TD_HLO_MAXIMUM, m, SPLAT(low, m), t), broadcast(q, m, LIST(0)));
        td_hlo_instr_t *sum = reduce(t, scalar(TD_F32, 0), TD_HLO_ADD, SHAPE(TD_F32, rows), LIST(1));
        run_slots(comp_of(summed ? NODE(TD_HLO_TUPLE, TUPLE(m, sum->shape), t, sum) : t), NULL,
                  ON(row, col, &floor_at, x, s));
        for (int64_t i = 0; i < rows; i++) {
            double w = 0;
            for (int64_t j = 0; j < cols; j++) {
                float e = (float)(dim ? j : i) * row[j];
                e = (e > floor_at ? e : floor_at) - col[i], w += (double)e;
                ck_assert_msg(x[i * cols + j] == e, "[%d][%d]: %g, not %g", (int)i, (int)j, (double)x[i * cols + j],
                              (double)e);
            }
            if (summed) near((double)s[i], w, 1e-5, "sum", i);
        }
        td_arena_reset(&arena);
    }
    ck_assert_uint_le(n, MOST);
    free(row), free(col), free(s);
}
END_TEST

/* Broadcasts across reduced rows of an array seen as [outer][reduced][inner], and of one outer index only. */
START_TEST(broadcast_columns) {
    static const int64_t shapes[][3] = {{3, 4, 5},    {2, 70, 64},   {5, 3, 1024},
                                        {2, 9, 1025}, {1, 600, 128}, {4, 2000, 2}};
    for (size_t k = 0; k < 18; k++) {
        const int64_t *d = shapes[k / 3];
        td_host_set_threads(threads[k % 3]);
        size_t n = (size_t)(d[0] * d[1] * d[2]), kept = (size_t)(d[0] * d[2]);
        fill(keep, n, 10), fill(y, (size_t)d[2], 11), fill(z, kept, 12);
        float *r = malloc(4 * (size_t)d[1]), *got = malloc(4 * kept);
        fill(r, (size_t)d[1], 13);
        comp_begin();
        const td_shape_t *m = SHAPE(TD_F32, d[0], d[1], d[2]);
        td_hlo_instr_t *a = param(0, m), *b = param(1, SHAPE(TD_F32, d[2])), *c = param(2, SHAPE(TD_F32, d[0], d[2])),
                       *e = param(3, SHAPE(TD_F32, d[1]));
        td_hlo_instr_t *t =
            NODE(TD_HLO_SUBTRACT, m, NODE(TD_HLO_ADD, m, a, broadcast(b, m, LIST(2))), broadcast(c, m, LIST(0, 2)));
        t = NODE(TD_HLO_ADD, m, t, broadcast(e, m, LIST(1)));
        td_hlo_instr_t *max = reduce(t, scalar(TD_F32, -9), TD_HLO_MAXIMUM, c->shape, LIST(1));
        run_slots(comp_of(NODE(TD_HLO_TUPLE, TUPLE(m, c->shape), t, max)), SLOTS(0, 1, 2, 3, 0, 5),
                  ON(memcpy(x, keep, 4 * n), y, z, r, x, got));
        for (size_t o = 0; o < (size_t)d[0]; o++)
            for (size_t i = 0; i < (size_t)d[2]; i++) {
                float w = -9;
                for (size_t j = 0; j < (size_t)d[1]; j++) {
                    size_t at = (o * (size_t)d[1] + j) * (size_t)d[2] + i;
                    float v = keep[at] + y[i] - z[o * (size_t)d[2] + i] + r[j];
                    ck_assert(x[at] == v);
                    w = v > w ? v : w;
                }
                ck_assert(got[o * (size_t)d[2] + i] == w);
            }
        free(r), free(got);
        td_arena_reset(&arena);
    }
}
END_TEST

/* bf16: a sum of iota and an operand, whose own memory the rounded result takes; row sums of what was rounded. */
START_TEST(bf16_in_place) {
    enum { R = 40, C = 1100 };
    static uint16_t h[R * C], before[R * C], s[R];
    for (int k = 0; k < 3; k++) {
        td_host_set_threads(threads[k]);
        for (int i = 0; i < R * C; i++) keep[i] = (float)(i % 7);
        td_convert_array(TD_F32, keep, TD_BF16, h, R * C), memcpy(before, h, sizeof h);
        comp_begin();
        const td_shape_t *m = SHAPE(TD_BF16, R, C);
        td_hlo_instr_t *a = param(0, m), *io = node(TD_HLO_IOTA, m, 0, NULL), *sum;
        io->dimensions = LIST(0);
        td_hlo_instr_t *t = NODE(TD_HLO_ADD, m, a, io);
        sum = reduce(a, scalar(TD_BF16, 1), TD_HLO_ADD, SHAPE(TD_BF16, R), LIST(1));
        run_slots(comp_of(NODE(TD_HLO_TUPLE, TUPLE(m, sum->shape), t, sum)), SLOTS(0, 0, 2), ON(h, h, s));
        for (int i = 0; i < R * C; i++) ck_assert(number(TD_BF16, h, (size_t)i) == (double)(keep[i] + (float)(i / C)));
        for (int i = 0; i < R; i++) {
            float w = 1;
            for (int j = 0; j < C; j++) w += keep[i * C + j];
            ck_assert(s[i] == td_bf16_from_f32(w));
        }
    }
}
END_TEST

int main(void) {
    TCase *t = tcase_create("host_loop_fusion");
    tcase_set_timeout(t, 300);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, layer_norms, 0, N_SIZES);
    tcase_add_loop_test(t, two_geometries, 0, N_SIZES);
    tcase_add_loop_test(t, results_over_operands, 0, N_SIZES);
    tcase_add_loop_test(t, broadcasts, 0, N_SIZES);
    tcase_add_test(t, broadcast_columns);
    tcase_add_test(t, bf16_in_place);
    Suite *s = suite_create("host_loop_fusion");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
