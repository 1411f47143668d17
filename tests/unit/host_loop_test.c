/* SPDX-License-Identifier: Apache-2.0 */
/* Tile loops with reductions in them: every type and operation over memory seen as [outer][reduced][inner], with
 * 1, 2 and 5 threads. The numbers are such that no order of operations rounds, so results are compared bit for
 * bit with a plain loop's. */
#include "runtime/host/pool.h"
#include "tests/unit/kernel_run.h"

typedef struct geometry {
    int64_t outer, reduced, inner;
} geometry_t;
static const geometry_t geometries[] = {
    {3, 2, 1},     {3, 3, 1},     {200, 8, 1},   {70, 63, 1},   {70, 64, 1},   {70, 65, 1},  {40, 1000, 1},
    {33, 1024, 1}, {33, 1025, 1}, {9, 5000, 1},  {1, 40000, 1}, {1, 3, 2},     {3, 2, 2},    {2, 8, 64},
    {2, 63, 65},   {5, 64, 100},  {1, 65, 17},   {40, 1000, 2}, {2, 1024, 3},  {3, 1025, 7}, {4, 5000, 2},
    {2, 2, 1024},  {2, 3, 1025},  {1, 64, 1000}, {1, 65, 1023}, {1, 300, 128}, {1, 5, 3000}, {1, 12, 5000},
};
enum { N_GEOMETRIES = sizeof geometries / sizeof *geometries };
static const int threads[] = {1, 2, 5};

/* Integers wrap, numbers of floats are exact, complex ones have two parts. */
typedef struct value {
    double re, im;
    uint64_t bits;
} value_t;

static bool is_int(td_type_t t) { return td_type_is_integer(t) || t == TD_PRED; }
static bool is_complex(td_type_t t) { return t == TD_C64 || t == TD_C128; }

static value_t get(td_type_t t, const void *p, size_t i) {
    value_t v = {0};
    if (t == TD_C64) v.re = (double)((const float *)p)[2 * i], v.im = (double)((const float *)p)[2 * i + 1];
    else if (t == TD_C128) v.re = ((const double *)p)[2 * i], v.im = ((const double *)p)[2 * i + 1];
    else if (t == TD_S8) v.bits = (uint64_t)(int64_t)((const int8_t *)p)[i];
    else if (t == TD_S32) v.bits = (uint64_t)(int64_t)((const int32_t *)p)[i];
    else if (t == TD_U8 || t == TD_PRED) v.bits = ((const uint8_t *)p)[i];
    else if (t == TD_S64) v.bits = ((const uint64_t *)p)[i];
    else v.re = number(t, p, i);
    return v;
}
static void put(td_type_t t, void *p, size_t i, value_t v) {
    size_t size = td_type_bytes(t);
    if (t == TD_C64) ((float *)p)[2 * i] = (float)v.re, ((float *)p)[2 * i + 1] = (float)v.im;
    else if (t == TD_C128) ((double *)p)[2 * i] = v.re, ((double *)p)[2 * i + 1] = v.im;
    else if (is_int(t)) memcpy((char *)p + i * size, &v.bits, size);
    else td_convert_array(TD_F64, &v.re, t, (char *)p + i * size, 1);
}
static value_t combine(td_type_t t, td_opcode_t op, value_t a, value_t b) {
    bool sig = td_type_is_signed(t), less = sig ? (int64_t)a.bits < (int64_t)b.bits : a.bits < b.bits;
    switch (op) {
    case TD_HLO_ADD: return (value_t){a.re + b.re, a.im + b.im, t == TD_PRED ? a.bits | b.bits : a.bits + b.bits};
    case TD_HLO_MULTIPLY:
        if (is_complex(t)) return (value_t){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re, 0};
        return (value_t){a.re * b.re, 0, a.bits * b.bits};
    case TD_HLO_MAXIMUM: return is_int(t) ? less ? b : a : a.re < b.re ? b : a;
    case TD_HLO_MINIMUM: return is_int(t) ? less ? a : b : a.re < b.re ? a : b;
    case TD_HLO_AND: return (value_t){0, 0, a.bits & b.bits};
    default: return (value_t){0, 0, a.bits | b.bits};
    }
}
/* Sums stay small; products are of +-1 and now and then 2, or of the units of complex numbers. */
static value_t draw(td_type_t t, td_opcode_t op, uint64_t *seed) {
    if (t == TD_PRED)
        return (value_t){0, 0,
                         (uint64_t)(op == TD_HLO_AND || op == TD_HLO_MINIMUM || op == TD_HLO_MULTIPLY
                                        ? dice(seed, 30) > 0
                                        : dice(seed, 30) == 0)};
    if (is_int(t)) return (value_t){0, 0, (uint64_t)(td_type_is_signed(t) ? dice(seed, 200) - 100 : dice(seed, 200))};
    if (op != TD_HLO_MULTIPLY)
        return (value_t){(double)(dice(seed, 17) - 8), is_complex(t) ? (double)(dice(seed, 9) - 4) : 0, 0};
    double sign = dice(seed, 2) ? -1 : 1;
    if (is_complex(t)) return dice(seed, 2) ? (value_t){sign, 0, 0} : (value_t){0, sign, 0};
    return (value_t){dice(seed, 400) ? sign : 2 * sign, 0, 0};
}

/* The memory order [outer][reduced][inner] under several shapes that have it. */
static td_hlo_instr_t *reduction(int form, td_type_t t, td_opcode_t op, geometry_t g) {
    comp_begin();
    const td_shape_t *from, *to;
    td_ints_t dims;
    if (form == 0) { /* as it is */
        from = SHAPE(t, g.outer, g.reduced, g.inner), to = SHAPE(t, g.outer, g.inner), dims = LIST(1);
    } else if (form == 1 && g.reduced % 2 == 0) { /* two reduced dimensions, named first and last */
        from = shape(t, LAYOUT(2, 0, 3, 1), DIMS(2, g.outer, g.inner, g.reduced / 2)), dims = LIST(0, 3);
        if (g.inner == 1) from = shape(t, LAYOUT(0, 2, 1), DIMS(2, g.outer, g.reduced / 2)), dims = LIST(0, 2);
        to = g.inner == 1 ? SHAPE(t, g.outer) : SHAPE(t, g.outer, g.inner);
    } else { /* logical order inner, outer, reduced; the result's memory still outer, inner */
        from = shape(t, LAYOUT(0, 2, 1), DIMS(g.inner, g.outer, g.reduced)),
        to = shape(t, LAYOUT(0, 1), DIMS(g.inner, g.outer)), dims = LIST(2);
    }
    td_hlo_instr_t *x = param(0, from), *init = param(1, SHAPE(t));
    return reduce(x, init, op, to, dims);
}

static void reduce_case(td_type_t t, td_opcode_t op, geometry_t g, int form) {
    size_t n = (size_t)(g.outer * g.reduced * g.inner), kept = (size_t)(g.outer * g.inner), size = td_type_bytes(t);
    uint64_t seed = n + op;
    char *x = malloc(n * size), *want = malloc(kept * size), *got = malloc(kept * size), init[16];
    value_t start =
        is_int(t) ? (value_t){0, 0, t == TD_PRED ? op == TD_HLO_AND : 5} : (value_t){2, 0, 0}; /* no identity */
    put(t, init, 0, start);
    for (size_t i = 0; i < n; i++) put(t, x, i, draw(t, op, &seed));
    for (int64_t o = 0; o < g.outer; o++)
        for (int64_t c = 0; c < g.inner; c++) {
            value_t v = get(t, init, 0);
            for (int64_t r = 0; r < g.reduced; r++)
                v = combine(t, op, v, get(t, x, (size_t)((o * g.reduced + r) * g.inner + c)));
            put(t, want, (size_t)(o * g.inner + c), v);
        }
    const td_hlo_comp_t *c = comp_of(reduction(form, t, op, g));
    for (int k = 0; k < 3; k++) {
        td_host_set_threads(threads[k]);
        kernel_t f = kernel_of(c, NULL);
        const td_step_t *s = step_of(&f, TD_STEP_LOOP, 0);
        ck_assert(s && s->loop->n_sinks == 1 && s->loop->inner == g.inner && s->loop->reduced == g.reduced);
        memset(got, 0x5a, kept * size);
        kernel_run(&f, ON(x, init, got));
        for (size_t i = 0; i < kept; i++) {
            value_t a = get(t, got, i), b = get(t, want, i);
            ck_assert_msg(a.bits == b.bits && a.re == b.re && a.im == b.im,
                          "%s %s [%lld][%lld][%lld] form %d threads %d: element %zu is %g %g %llx, not %g %g %llx",
                          td_opcode_name(op), td_type_name(t), (long long)g.outer, (long long)g.reduced,
                          (long long)g.inner, form, threads[k], i, a.re, a.im, (unsigned long long)a.bits, b.re, b.im,
                          (unsigned long long)b.bits);
        }
    }
    free(x), free(want), free(got);
    td_arena_reset(&arena);
}

static const td_type_t types[] = {TD_F32, TD_F64, TD_BF16, TD_F16, TD_S32, TD_S64,
                                  TD_S8,  TD_U8,  TD_PRED, TD_C64, TD_C128};
START_TEST(reductions) {
    static const td_opcode_t ops[] = {TD_HLO_ADD,     TD_HLO_MULTIPLY, TD_HLO_MAXIMUM,
                                      TD_HLO_MINIMUM, TD_HLO_AND,      TD_HLO_OR};
    td_type_t t = types[_i];
    for (size_t k = 0; k < 6; k++) {
        if ((ops[k] == TD_HLO_AND || ops[k] == TD_HLO_OR) && !is_int(t)) continue;
        if ((ops[k] == TD_HLO_MAXIMUM || ops[k] == TD_HLO_MINIMUM) && is_complex(t)) continue;
        for (size_t i = 0; i < N_GEOMETRIES; i++) reduce_case(t, ops[k], geometries[i], (int)((i + k) % 3));
    }
}
END_TEST

/* Sums of negative zeros keep their sign only from an initial value of negative zero; a NaN is the greatest. */
START_TEST(odd_numbers) {
    static float x[5 * 1100];
    for (size_t i = 0; i < N_GEOMETRIES; i++) {
        geometry_t g = {2, geometries[i].reduced, geometries[i].inner};
        if (g.outer * g.reduced * g.inner > 5500) continue;
        size_t n = (size_t)(g.outer * g.reduced * g.inner), kept = (size_t)(g.outer * g.inner);
        float *r = malloc(4 * kept);
        for (int sign = 0; sign < 2; sign++) {
            float init = sign ? -0.0f : 0.0f;
            for (size_t k = 0; k < n; k++) x[k] = -0.0f;
            run_slots(comp_of(reduction(0, TD_F32, TD_HLO_ADD, g)), NULL, ON(x, &init, r));
            for (size_t k = 0; k < kept; k++)
                ck_assert_msg(r[k] == 0 && !!signbit(r[k]) == sign, "[%d][%d] sign", (int)g.reduced, (int)g.inner);
        }
        for (int op = 0; op < 2; op++) {
            float init = 1;
            size_t at = kept / 2 / (size_t)g.inner * (size_t)(g.reduced * g.inner) +
                        (size_t)(g.reduced - 1) * (size_t)g.inner + kept / 2 % (size_t)g.inner;
            for (size_t k = 0; k < n; k++) x[k] = (float)k;
            x[at] = NAN;
            run_slots(comp_of(reduction(0, TD_F32, op ? TD_HLO_MAXIMUM : TD_HLO_MINIMUM, g)), NULL, ON(x, &init, r));
            for (size_t k = 0; k < kept; k++)
                ck_assert_msg(!isnan(r[k]) == (k != kept / 2), "[%d][%d] %zu", (int)g.reduced, (int)g.inner, k);
        }
        free(r);
        td_arena_reset(&arena);
    }
}
END_TEST

/* Every element count zero, or nothing to reduce. */
START_TEST(empty_arrays) {
    float init = 7, r[4] = {0}, x[1];
    comp_begin();
    td_hlo_instr_t *a = param(0, SHAPE(TD_F32, 4, 0)), *i = param(1, SHAPE(TD_F32));
    run_slots(comp_of(reduce(a, i, TD_HLO_ADD, SHAPE(TD_F32, 4), LIST(1))), NULL, ON(x, &init, r));
    EXPECT(r, 7, 7, 7, 7);
    comp_begin();
    a = param(0, SHAPE(TD_F32, 0, 4)), i = param(1, SHAPE(TD_F32));
    td_hlo_instr_t *neg = NODE(TD_HLO_NEGATE, a->shape, a),
                   *sum = reduce(neg, i, TD_HLO_ADD, SHAPE(TD_F32, 0), LIST(1));
    run_slots(comp_of(NODE(TD_HLO_TUPLE, TUPLE(neg->shape, sum->shape), neg, sum)), NULL, ON(x, &init, x, x));
    comp_begin();
    a = param(0, SHAPE(TD_F32, 2, 1)), i = param(1, SHAPE(TD_F32));
    run_slots(comp_of(reduce(a, i, TD_HLO_ADD, SHAPE(TD_F32, 2), LIST(1))), NULL, ON(((float[]){1, 2}), &init, r));
    EXPECT(((float[]){r[0], r[1]}), 8, 9);
}
END_TEST

int main(void) {
    TCase *t = tcase_create("host_loop");
    tcase_set_timeout(t, 300);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, reductions, 0, sizeof types / sizeof *types);
    tcase_add_test(t, odd_numbers);
    tcase_add_test(t, empty_arrays);
    Suite *s = suite_create("host_loop");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
