/* SPDX-License-Identifier: Apache-2.0 */
/* One-row matrix products written as multiply and reduce: the form that reads the matrix in place against plain
 * loops in f64, and against the same sums written so that the form does not apply. */
#include "runtime/host/pool.h"
#include "tests/unit/kernel_run.h"

enum { MOST = 700000 };
static float w[MOST], x[MOST], other[MOST];
static uint16_t wh[MOST], xh[MOST];
static const int threads[] = {1, 2, 5};

typedef struct form {
    int64_t outer, reduced, inner;
    bool x_outer; /* x has an outer index of its own */
} form_t;
static const form_t forms[] = {
    {1, 16, 1, true},     {1, 17, 3, true},     {1, 100, 1, false},    {3, 127, 1, false},  {3, 128, 5, true},
    {4, 129, 16, false},  {2, 300, 1025, true}, {2, 300, 1025, false}, {1, 4096, 1, true},  {2, 4097, 1, true},
    {40, 1000, 1, false}, {40, 1000, 1, true},  {1, 1000, 129, true},  {1, 64, 2050, true}, {7, 63, 63, true},
    {5, 33, 700, false},  {1, 9000, 33, true},  {100, 40, 3, true},
};
enum { N_FORMS = sizeof forms / sizeof *forms };
enum { F32, BF16, MIXED, BF16_X, ROUNDED, KINDS };

static void fill(void) {
    uint64_t seed = 3;
    for (size_t i = 0; i < MOST; i++)
        w[i] = (float)(dice(&seed, 2001) - 1000) / 1000, x[i] = (float)(dice(&seed, 2001) - 1000) / 1000;
    td_convert_array(TD_F32, w, TD_BF16, wh, MOST);
    td_convert_array(TD_F32, x, TD_BF16, xh, MOST);
}
static void begin(void) {
    setup();
    fill();
}

static td_hlo_instr_t *widen(td_hlo_instr_t *i) {
    if (i->shape->type == TD_F32) return i;
    return NODE(TD_HLO_CONVERT, shape(TD_F32, i->shape->minor_to_major, i->shape->rank, i->shape->dims), i);
}
/* order 1: x * w. The second result, the products themselves, bars the form. */
static const td_hlo_comp_t *product(form_t f, int kind, int order, bool plain) {
    td_type_t wt = kind == F32 || kind == BF16_X ? TD_F32 : TD_BF16,
              xt = kind == F32 || kind == MIXED ? TD_F32 : TD_BF16;
    comp_begin();
    const td_shape_t *m = SHAPE(wt, f.outer, f.reduced, f.inner), *mx = SHAPE(xt, f.outer, f.reduced, f.inner);
    td_hlo_instr_t *a = param(0, m), *b = param(1, f.x_outer ? SHAPE(xt, f.outer, f.reduced) : SHAPE(xt, f.reduced)),
                   *init = param(2, SHAPE(TD_F32));
    b = broadcast(b, mx, f.x_outer ? LIST(0, 1) : LIST(1));
    if (kind != ROUNDED) a = widen(a), b = widen(b);
    td_hlo_instr_t *p = widen(NODE(TD_HLO_MULTIPLY, a->shape, order ? b : a, order ? a : b));
    td_hlo_instr_t *sum = reduce(p, init, TD_HLO_ADD, SHAPE(TD_F32, f.outer, f.inner), LIST(1));
    return comp_of(plain ? NODE(TD_HLO_TUPLE, TUPLE(sum->shape, p->shape), sum, p) : sum);
}
static double term(form_t f, int kind, int64_t o, int64_t r, int64_t i) {
    size_t at = (size_t)((o * f.reduced + r) * f.inner + i), xat = (size_t)((f.x_outer ? o * f.reduced : 0) + r);
    double a = kind == F32 || kind == BF16_X ? (double)w[at] : number(TD_BF16, wh, at);
    double b = kind == F32 || kind == MIXED ? (double)x[xat] : number(TD_BF16, xh, xat);
    if (kind != ROUNDED) return a * b;
    double p = a * b; /* exact */
    uint16_t h = td_bf16_from_f32((float)p);
    return number(TD_BF16, &h, 0);
}

START_TEST(products) {
    form_t f = forms[_i];
    ck_assert_int_le(f.outer * f.reduced * f.inner, MOST);
    for (int kind = F32; kind < KINDS; kind++)
        for (int k = 0; k < 3; k++) {
            int order = (kind + k) & 1;
            float init = 0.5f;
            void *wp = kind == F32 || kind == BF16_X ? (void *)w : wh,
                 *xp = kind == F32 || kind == MIXED ? (void *)x : xh;
            td_host_set_threads(threads[k]);
            kernel_t fast = kernel_of(product(f, kind, order, false), NULL),
                     slow = kernel_of(product(f, kind, order, true), NULL);
            bool none = f.inner == 1 && (f.x_outer || f.outer == 1); /* nothing is broadcast: two arrays alike */
            ck_assert_msg(!step_of(&fast, TD_STEP_GEMV, 0) == none && fast.k->n_steps == 1, "form %d kind %d", _i,
                          kind);
            ck_assert(!step_of(&slow, TD_STEP_GEMV, 0));
            size_t n = (size_t)(f.outer * f.inner);
            float *r = malloc(4 * n), *all = malloc(4 * n * (size_t)f.reduced);
            kernel_run(&fast, ON(wp, xp, &init, r));
            kernel_run(&slow, ON(wp, xp, &init, other, all));
            for (size_t i = 0; i < n; i++) {
                double want = (double)init, size = 1;
                for (int64_t j = 0; j < f.reduced; j++) {
                    double t = term(f, kind, (int64_t)i / f.inner, j, (int64_t)i % f.inner);
                    want += t, size += fabs(t);
                }
                ck_assert_msg(fabs((double)r[i] - want) <= 1e-6 * size &&
                                  fabs((double)r[i] - (double)other[i]) <= 1e-6 * size,
                              "form %d kind %d threads %d: element %zu is %.9g, not %.9g (%.9g unmatched)", _i, kind,
                              threads[k], i, (double)r[i], want, (double)other[i]);
            }
            free(r), free(all);
            td_arena_reset(&arena);
        }
}
END_TEST

/* Infinities and NaN arrive where they belong, and only there. */
START_TEST(odd_numbers) {
    enum { R = 200, C = 70 };
    for (int inner = 0; inner < 2; inner++) {
        form_t f = inner ? (form_t){1, R, C, true} : (form_t){C, R, 1, false};
        float init = 0, a[R * C], r[C];
        for (int i = 0; i < R * C; i++) a[i] = 1;
        a[inner ? 3 * C + 7 : 7 * R + 3] = INFINITY;
        a[inner ? 5 * C + 9 : 9 * R + 5] = NAN;
        for (int i = 0; i < R; i++) x[i] = 1;
        kernel_t k = kernel_of(product(f, F32, 0, false), NULL);
        ck_assert(step_of(&k, TD_STEP_GEMV, 0));
        kernel_run(&k, ON(a, x, &init, r));
        for (int i = 0; i < C; i++) ck_assert(i == 7 ? isinf(r[i]) && r[i] > 0 : i == 9 ? isnan(r[i]) : r[i] == R);
    }
}
END_TEST

/* Forms that only look alike must be right all the same: fewer than 16 terms, another reducer, a product read
 * twice, an operand by itself, an operand computed in the same loop, results over the vector's memory. */
START_TEST(look_alikes) {
    enum { R = 80, C = 40 };
    float init = 0, r[C], all[R * C];
    for (int mode = 0; mode < 7; mode++) {
        comp_begin();
        int64_t rows = mode == 0 ? 15 : R;
        const td_shape_t *m = SHAPE(TD_F32, rows, C), *v = SHAPE(TD_F32, C);
        td_hlo_instr_t *a = param(0, m), *b = param(1, SHAPE(TD_F32, rows)), *i = param(2, SHAPE(TD_F32)), *left = a;
        td_hlo_instr_t *bb = broadcast(b, m, LIST(0));
        if (mode == 4) left = NODE(TD_HLO_NEGATE, m, a);
        if (mode == 5) bb = NODE(TD_HLO_NEGATE, m, bb);
        td_hlo_instr_t *p = NODE(TD_HLO_MULTIPLY, m, left, mode == 3 ? a : bb);
        td_hlo_instr_t *sum = reduce(p, i, mode == 1 ? TD_HLO_MAXIMUM : TD_HLO_ADD, v, LIST(0));
        td_hlo_instr_t *root = mode == 2 ? NODE(TD_HLO_TUPLE, TUPLE(v, m), sum, NODE(TD_HLO_ADD, m, p, a)) : sum;
        kernel_t k = kernel_of(comp_of(root), NULL);
        ck_assert_msg(!step_of(&k, TD_STEP_GEMV, 0) == (mode < 6), "mode %d", mode);
        kernel_run(&k, ON(w, x, &init, r, all));
        for (int64_t c = 0; c < C; c++) {
            double want = 0;
            for (int64_t j = 0; j < rows; j++) {
                double t = (double)w[j * C + c] * (mode == 3 ? (double)w[j * C + c] : (double)x[j]);
                if (mode == 4 || mode == 5) t = -t;
                want = mode == 1 ? fmax(want, t) : want + t;
            }
            ck_assert_msg(fabs((double)r[c] - want) <= 1e-5, "mode %d: %g, not %g", mode, (double)r[c], want);
        }
    }
}
END_TEST

/* The result in the memory of x: x is read whole before anything is written, or the result goes through scratch. */
START_TEST(over_the_vector) {
    enum { R = 600, C = 600 };
    static float v[R];
    for (int k = 0; k < 6; k++) {
        td_host_set_threads(threads[k % 3]);
        int axis = k / 3;
        float init = 2;
        memcpy(v, x, sizeof v);
        form_t f = axis ? (form_t){1, R, C, false} : (form_t){C, R, 1, false};
        const td_hlo_comp_t *c = product(f, F32, 0, false);
        kernel_t g = kernel_of(c, SLOTS(0, 1, 2, 1));
        ck_assert(step_of(&g, TD_STEP_GEMV, 0));
        kernel_run(&g, ON(w, v, &init, v));
        for (int i = 0; i < C; i++) {
            double want = 2;
            for (int j = 0; j < R; j++) want += (double)w[axis ? j * C + i : i * R + j] * (double)x[j];
            ck_assert_msg(fabs((double)v[i] - want) <= 1e-4, "%d: %g, not %g", i, (double)v[i], want);
        }
    }
}
END_TEST

int main(void) {
    TCase *t = tcase_create("host_gemv");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, begin, teardown);
    tcase_add_loop_test(t, products, 0, N_FORMS);
    tcase_add_test(t, odd_numbers);
    tcase_add_test(t, look_alikes);
    tcase_add_test(t, over_the_vector);
    Suite *s = suite_create("host_gemv");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
