/* SPDX-License-Identifier: Apache-2.0 */
/* Merged operations of element-wise programs give bit for bit what the single ones give: every pair of add,
 * subtract and multiply, every operation with a constant, rounding to bf16; NaN, infinities and both zeros among
 * the numbers. Of two NaNs either may come out. The reference runs one operation at a time from memory. */
#include "tests/unit/kernel_run.h"
#include "runtime/host/vec.h"

enum { N = 1500, OPS = 3 };
static const td_opcode_t ops[] = {TD_HLO_ADD, TD_HLO_SUBTRACT, TD_HLO_MULTIPLY};
static const char *const sets[] = {"base", "v3", "v4"};
static const float odd[] = {0.0f,   -0.0f,  1,       -1,   INFINITY, -INFINITY,  NAN,   3e38f,
                            -3e38f, 1e-40f, -1e-40f, 0.1f, -7.25f,   1.0000001f, 65504, 1e-20f};
enum { ODD = sizeof odd / sizeof *odd };
static const float constants[] = {0.0f, -0.0f, 1.5f, -3e38f, INFINITY, NAN};
enum { CONSTANTS = sizeof constants / sizeof *constants };
static float in[3][N];
static uint16_t half[3][N];

static void fill(void) {
    uint64_t seed = 5;
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; i < N; i++) {
            size_t at = i / (k == 0 ? 1 : k == 1 ? ODD : 3) + (k == 2);
            in[k][i] = i < ODD * ODD ? odd[at % ODD] : (float)(dice(&seed, 2000000) - 1000000) / 77777;
        }
    for (int k = 0; k < 3; k++) {
        td_convert_array(TD_F32, in[k], TD_BF16, half[k], N);
    }
}
static void begin(void) {
    setup();
    fill();
}

/* What a single operation makes of two arrays, through memory; bf16 is rounded. */
static void alone(td_opcode_t op, td_type_t t, const float *a, const float *b, float *d) {
    uint16_t h[N];
    for (size_t i = 0; i < N; i++) {
        volatile float x = a[i], y = b[i], r; /* no contraction across operations */
        switch (op) {
        case TD_HLO_ADD: r = x + y; break;
        case TD_HLO_SUBTRACT: r = x - y; break;
        case TD_HLO_MULTIPLY: r = x * y; break;
        case TD_HLO_DIVIDE: r = x / y; break;
        case TD_HLO_MAXIMUM: r = x != x ? x : y != y ? y : x >= y ? x : y; break;
        default: r = x != x ? x : y != y ? y : x <= y ? x : y; break;
        }
        d[i] = r;
    }
    if (t == TD_F32) return;
    td_small_store(t, d, h, N);
    td_small_load(t, h, d, N);
}
static void compare(const float *got, const float *want, const char *what, int f, int g, int form) {
    for (size_t i = 0; i < N; i++)
        ck_assert_msg(
            same((double)got[i], (double)want[i]) && (isnan(want[i]) || td_f32_bits(got[i]) == td_f32_bits(want[i])),
            "%s %d %d form %d: element %zu is %.9g, not %.9g", what, f, g, form, i, (double)got[i], (double)want[i]);
}
static td_hlo_instr_t *operand(int number, float c, bool is_const, const td_shape_t *s) {
    return is_const ? SPLAT(scalar(s->type, (double)c), s) : param(number, s);
}
static const float *values(int number, float c, bool is_const, float *room) {
    for (size_t i = 0; i < N && is_const; i++) room[i] = c;
    return is_const ? room : in[number];
}
/* Runs the computation with the three arrays as parameters, those it has. */
static void run3(const td_hlo_comp_t *c, float *out, uint32_t n_params) {
    ck_assert_uint_eq(c->n_params, n_params);
    void *bufs[5] = {0};
    uint32_t k = 0;
    for (uint32_t i = 0; i < n_params; i++) bufs[k++] = in[i];
    bufs[k] = out;
    run_slots(c, NULL, bufs);
}

/* g(f(a, b), c) and g(c, f(a, b)); b, c or a a constant. Parameters are numbered in the order of their making. */
START_TEST(pairs) {
    static float got[N], t[N], want[N], room[3][N];
    ck_assert(td_vec_use("base"));
    if (!td_vec_use(sets[_i])) return;
    for (int f = 0; f < OPS; f++)
        for (int g = 0; g < OPS; g++)
            for (int form = 0; form < 16; form++)
                for (int k = 0; k < CONSTANTS; k += form & 7 ? 1 : CONSTANTS) {
                    bool right = form & 8, fixed[3] = {form & 1, form & 2, form & 4};
                    float c = constants[k];
                    comp_begin();
                    const td_shape_t *s = SHAPE(TD_F32, N);
                    td_hlo_instr_t *v[3];
                    const float *w[3];
                    int n = 0;
                    for (int i = 0; i < 3; i++) {
                        v[i] = operand(n, c, fixed[i], s);
                        w[i] = values(n, c, fixed[i], room[i]);
                        n += !fixed[i];
                    }
                    td_hlo_instr_t *first = NODE(ops[f], s, v[0], v[1]);
                    td_hlo_instr_t *root = NODE(ops[g], s, right ? v[2] : first, right ? first : v[2]);
                    run3(comp_of(root), got, (uint32_t)n);
                    alone(ops[f], TD_F32, w[0], w[1], t);
                    alone(ops[g], TD_F32, right ? w[2] : t, right ? t : w[2], want);
                    compare(got, want, "pair", f, g, form);
                    td_arena_reset(&arena);
                }
}
END_TEST

/* One operation with a constant on either side. */
START_TEST(scalars) {
    static const td_opcode_t all[] = {TD_HLO_ADD,    TD_HLO_SUBTRACT, TD_HLO_MULTIPLY,
                                      TD_HLO_DIVIDE, TD_HLO_MAXIMUM,  TD_HLO_MINIMUM};
    static float got[N], want[N], room[N];
    if (!td_vec_use(sets[_i])) return;
    for (int f = 0; f < 6; f++)
        for (int left = 0; left < 2; left++)
            for (int k = 0; k < CONSTANTS; k++) {
                comp_begin();
                const td_shape_t *s = SHAPE(TD_F32, N);
                td_hlo_instr_t *a = param(0, s), *c = SPLAT(scalar(TD_F32, (double)constants[k]), s);
                run3(comp_of(NODE(all[f], s, left ? c : a, left ? a : c)), got, 1);
                const float *w = values(1, constants[k], true, room);
                alone(all[f], TD_F32, left ? w : in[0], left ? in[0] : w, want);
                compare(got, want, td_opcode_name(all[f]), left, k, 0);
                td_arena_reset(&arena);
            }
}
END_TEST

/* bf16: each operation rounds, also in chains of two and with constants. */
START_TEST(rounded) {
    static uint16_t got[N];
    static float a[3][N], t[N], want[N], g32[N], c[N];
    if (!td_vec_use(sets[_i])) return;
    for (int i = 0; i < 3; i++) td_convert_array(TD_BF16, half[i], TD_F32, a[i], N);
    for (size_t i = 0; i < N; i++) c[i] = 1.5f;
    for (int f = 0; f < OPS; f++)
        for (int g = 0; g < OPS; g++)
            for (int form = 0; form < 4; form++) {
                comp_begin();
                const td_shape_t *s = SHAPE(TD_BF16, N);
                td_hlo_instr_t *p = param(0, s), *q = param(1, s),
                               *r = form & 2 ? SPLAT(scalar(TD_BF16, 1.5), s) : param(2, s);
                td_hlo_instr_t *first = NODE(ops[f], s, p, q);
                td_hlo_instr_t *root = NODE(ops[g], s, form & 1 ? r : first, form & 1 ? first : r);
                void *bufs[4] = {half[0], half[1], half[2], got};
                if (form & 2) bufs[2] = got;
                run_slots(comp_of(root), NULL, bufs);
                td_convert_array(TD_BF16, got, TD_F32, g32, N);
                const float *third = form & 2 ? c : a[2];
                alone(ops[f], TD_BF16, a[0], a[1], t);
                alone(ops[g], TD_BF16, form & 1 ? third : t, form & 1 ? t : third, want);
                compare(g32, want, "bf16", f, g, form);
                td_arena_reset(&arena);
            }
}
END_TEST

/* A value that is read twice, or is a result or summed up itself, stays. */
START_TEST(several_users) {
    static float got[4][N], t[N], want[N];
    float sum = 0;
    for (int f = 0; f < OPS; f++)
        for (int g = 0; g < OPS; g++)
            for (int form = 0; form < 6; form++) {
                comp_begin();
                const td_shape_t *s = SHAPE(TD_F32, N);
                td_hlo_instr_t *a = param(0, s), *b = param(1, s), *c = param(2, s), *first = NODE(ops[f], s, a, b),
                               *root;
                void *bufs[6] = {in[0], in[1], in[2], got[0], got[1], got[2]};
                bool self = form == 0;
                td_hlo_instr_t *second = self ? NODE(ops[g], s, first, first) : NODE(ops[g], s, first, c);
                if (form == 1) root = NODE(TD_HLO_TUPLE, TUPLE(s, s), first, second);
                else if (form == 2) root = NODE(TD_HLO_TUPLE, TUPLE(s, s), NODE(TD_HLO_ADD, s, first, second), second);
                else if (form == 3)
                    root = NODE(TD_HLO_TUPLE, TUPLE(SHAPE(TD_F32), s),
                                reduce(first, scalar(TD_F32, 0), TD_HLO_MAXIMUM, SHAPE(TD_F32), LIST(0)), second),
                    bufs[3] = &sum;
                else if (form == 4) root = NODE(TD_HLO_TUPLE, TUPLE(s, s), NODE(TD_HLO_NEGATE, s, first), second);
                else if (form == 5)
                    root = NODE(TD_HLO_TUPLE, TUPLE(SHAPE(TD_F32), s),
                                reduce(second, scalar(TD_F32, 0), TD_HLO_MAXIMUM, SHAPE(TD_F32), LIST(0)), second),
                    bufs[3] = &sum;
                else root = second;
                run_slots(comp_of(root), NULL, bufs);
                alone(ops[f], TD_F32, in[0], in[1], t);
                alone(ops[g], TD_F32, t, self ? t : in[2], want);
                compare(self ? got[0] : got[1], want, "second", f, g, form);
                if (form == 1) compare(got[0], t, "first", f, g, form);
                if (form == 4)
                    for (size_t i = 0; i < N; i++) ck_assert(same((double)got[0][i], -(double)t[i]) || isnan(t[i]));
                if (form == 2) {
                    alone(TD_HLO_ADD, TD_F32, t, want, want);
                    compare(got[0], want, "sum", f, g, form);
                }
                if (form == 3 || form == 5) ck_assert(isnan(sum)); /* there are NaNs among the numbers */
                td_arena_reset(&arena);
            }
}
END_TEST

/* Long chains: merged two by two, in any shape of tree, with constants among them. */
START_TEST(chains) {
    static float got[N], value[24][N];
    uint64_t seed = 77 + (uint64_t)_i;
    if (!td_vec_use(sets[_i % 3])) return;
    for (int round = 0; round < 150; round++) {
        comp_begin();
        const td_shape_t *s = SHAPE(TD_F32, N);
        td_hlo_instr_t *v[24];
        int n = 0;
        for (; n < 3; n++) v[n] = param(n, s), memcpy(value[n], in[n], sizeof in[n]);
        for (; n < 5; n++) {
            float c = constants[dice(&seed, 4)];
            v[n] = SPLAT(scalar(TD_F32, (double)c), s);
            for (size_t i = 0; i < N; i++) value[n][i] = c;
        }
        for (; n < 24; n++) {
            int64_t i = dice(&seed, 3) ? n - 1 : dice(&seed, n), j = dice(&seed, n);
            if (n == 5) i = 0;
            if (dice(&seed, 2)) {
                int64_t k = i;
                i = j, j = k;
            }
            td_opcode_t op = ops[dice(&seed, OPS)];
            v[n] = NODE(op, s, v[i], v[j]);
            alone(op, TD_F32, value[i], value[j], value[n]);
        }
        run3(comp_of(v[23]), got, 3);
        compare(got, value[23], "chain", round, _i, 0);
        td_arena_reset(&arena);
    }
}
END_TEST

int main(void) {
    TCase *t = tcase_create("host_fuse");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, begin, teardown);
    tcase_add_loop_test(t, pairs, 0, 3);
    tcase_add_loop_test(t, scalars, 0, 3);
    tcase_add_loop_test(t, rounded, 0, 3);
    tcase_add_test(t, several_users);
    tcase_add_loop_test(t, chains, 0, 3);
    Suite *s = suite_create("host_fuse");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
