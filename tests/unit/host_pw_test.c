/* SPDX-License-Identifier: Apache-2.0 */
/* Element types and the pointwise engine. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/host/pw.h"
#include "runtime/host/vec.h"
#include "runtime/host/types.h"

static float bits(uint32_t u) { return td_bits_f32(u); }

START_TEST(small_floats_round_trip) {
    const td_type_t types[] = {TD_F16, TD_BF16, TD_F8E5M2, TD_F8E4M3FN, TD_F8E4M3B11FNUZ, TD_F8E5M2FNUZ, TD_F8E4M3FNUZ,
                               TD_F8E4M3, TD_F8E3M4, TD_F4E2M1FN, TD_F6E3M2FN, TD_F6E2M3FN, TD_F8E8M0FNU};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        uint32_t n = 1u << td_type_bits(types[t]);
        for (uint32_t u = 0; u < n; u++) {
            float f = td_small_decode(types[t], u), g;
            uint16_t stored = 0;
            td_small_store(types[t], &f, &stored, 1);
            td_small_load(types[t], &stored, &g, 1);
            if (f != f) ck_assert_msg(g != g, "%s %x", td_type_name(types[t]), u);
            else ck_assert_msg(stored == u && f == g, "%s %x is %g, back %x", td_type_name(types[t]), u, (double)f, stored);
            ck_assert_msg(f != f || td_small_encode(types[t], (double)f) == u, "%s %x", td_type_name(types[t]), u);
        }
    }
}
END_TEST

START_TEST(small_floats_table) {
    static const struct { td_type_t t; float in; uint32_t out; } rows[] = {
        {TD_BF16, 1.0f, 0x3f80}, {TD_BF16, 1.00390625f, 0x3f80}, {TD_BF16, 1.01171875f, 0x3f82}, {TD_BF16, 3.4e38f, 0x7f80},
        {TD_F16, 65504, 0x7bff}, {TD_F16, 65519, 0x7bff}, {TD_F16, 65520, 0x7c00}, {TD_F16, 0x1p-24f, 1}, {TD_F16, 0x1p-25f, 0},
        {TD_F16, 0x1.8p-24f, 2}, {TD_F16, 1.00048828125f, 0x3c00}, {TD_F16, -0.0f, 0x8000}, {TD_F16, 0x1.ffep-15f, 0x400},
        {TD_F8E4M3FN, 448, 0x7e}, {TD_F8E4M3FN, 464, 0x7e}, {TD_F8E4M3FN, 465, 0x7f}, {TD_F8E4M3FN, -1e9f, 0xff},
        {TD_F8E4M3FN, 0x1p-9f, 1}, {TD_F8E4M3FN, 0x1p-10f, 0}, {TD_F8E5M2, 57344, 0x7b}, {TD_F8E5M2, 61440, 0x7c},
        {TD_F8E5M2, 1e9f, 0x7c}, {TD_F8E4M3FNUZ, 240, 0x7f}, {TD_F8E4M3FNUZ, 256, 0x80}, {TD_F8E4M3FNUZ, -0.0f, 0},
        {TD_F8E4M3FNUZ, -1e-30f, 0}, {TD_F8E5M2FNUZ, 57344, 0x7f}, {TD_F4E2M1FN, 100, 7}, {TD_F4E2M1FN, -2.5f, 0xc},
        {TD_F6E3M2FN, 28, 0x1f}, {TD_F6E2M3FN, 7.5f, 0x1f}, {TD_F8E8M0FNU, 1, 127}, {TD_F8E8M0FNU, -1, 255},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint16_t got = 0;
        td_small_store(rows[i].t, &rows[i].in, &got, 1);
        ck_assert_msg(got == rows[i].out, "%s of %a: %x, want %x", td_type_name(rows[i].t), (double)rows[i].in, got, rows[i].out);
        if (td_type_bits(rows[i].t) == 16) ck_assert_uint_eq(td_small_encode(rows[i].t, (double)rows[i].in), rows[i].out);
    }
    /* 1 + 2^-11 + 2^-40 is above the tie in f64; through f32 it would be the tie and round down */
    double d = 1 + 0x1p-11 + 0x1p-40;
    uint16_t h;
    td_convert_array(TD_F64, &d, TD_F16, &h, 1);
    ck_assert_uint_eq(h, 0x3c01);
}
END_TEST

START_TEST(conversions) {
    float f[6] = {NAN, INFINITY, -INFINITY, 2.9f, -2.9f, 300};
    int8_t s8[6];
    uint8_t u8[6], s4[6];
    int32_t s32[6];
    td_convert_array(TD_F32, f, TD_S8, s8, 6);
    ck_assert(!memcmp(s8, (int8_t[]){0, 127, -128, 2, -2, 127}, 6));
    td_convert_array(TD_F32, f, TD_U8, u8, 6);
    ck_assert(!memcmp(u8, (uint8_t[]){0, 255, 0, 2, 0, 255}, 6));
    td_convert_array(TD_F32, f, TD_S4, s4, 6);
    ck_assert(!memcmp(s4, (int8_t[]){0, 7, -8, 2, -2, 7}, 6));
    td_convert_array(TD_F32, f, TD_S32, s32, 6);
    ck_assert(!memcmp(s32, (int32_t[]){0, INT32_MAX, INT32_MIN, 2, -2, 300}, 24));
    td_convert_array(TD_F32, f, TD_PRED, u8, 6);
    ck_assert(!memcmp(u8, (uint8_t[]){1, 1, 1, 1, 1, 1}, 6));
    const int64_t big[2] = {300, -1};
    td_convert_array(TD_S64, big, TD_S8, s8, 2);
    ck_assert(s8[0] == 44 && s8[1] == -1);
    td_convert_array(TD_S64, big, TD_U4, u8, 2);
    ck_assert(u8[0] == 12 && u8[1] == 15);
    const float z[4] = {1.5f, 2, -3, 4};
    double w[4];
    td_convert_array(TD_C64, z, TD_C128, w, 2);
    ck_assert(w[3] == 4);
    td_convert_array(TD_C64, z, TD_S32, s32, 2);
    ck_assert(s32[0] == 1 && s32[1] == -3);
    uint8_t packed[2], back[3], nib[3] = {(uint8_t)-1, 3, (uint8_t)-8};
    td_subbyte_pack(TD_S4, nib, packed, 3);
    ck_assert(packed[0] == 0x3f && packed[1] == 0x08);
    td_subbyte_unpack(TD_S4, packed, back, 3);
    ck_assert(!memcmp(nib, back, 3));
}
END_TEST

#define TBL(t) (*td_pw_table(TD_##t))
#define OP2(table, op, T, x, y) ({ T a_ = (x), b_ = (y), d_; table.fn[op](&d_, &a_, &b_, NULL, 1); d_; })
START_TEST(integer_edges) {
    ck_assert_int_eq(OP2(TBL(S32), TD_HLO_DIVIDE, int32_t, 7, 0), -1);
    ck_assert_int_eq(OP2(TBL(S32), TD_HLO_DIVIDE, int32_t, INT32_MIN, -1), INT32_MIN);
    ck_assert_int_eq(OP2(TBL(S32), TD_HLO_REMAINDER, int32_t, INT32_MIN, -1), 0);
    ck_assert_int_eq(OP2(TBL(S32), TD_HLO_REMAINDER, int32_t, -7, 0), -7);
    ck_assert_int_eq(OP2(TBL(S32), TD_HLO_REMAINDER, int32_t, -7, 3), -1);
    ck_assert_uint_eq(OP2(TBL(U32), TD_HLO_DIVIDE, uint32_t, 7, 0), UINT32_MAX);
    ck_assert_int_eq(OP2(TBL(S64), TD_HLO_DIVIDE, int64_t, INT64_MIN, -1), INT64_MIN);
    ck_assert_uint_eq(OP2(TBL(U32), TD_HLO_SHIFT_LEFT, uint32_t, 1, 32), 0);
    ck_assert_int_eq(OP2(TBL(S32), TD_HLO_SHIFT_RIGHT_ARITHMETIC, int32_t, -5, 99), -1);
    ck_assert_int_eq(OP2(TBL(S32), TD_HLO_SHIFT_RIGHT_LOGICAL, int32_t, -1, 31), 1);
    ck_assert_int_eq(OP2(TBL(S8), TD_HLO_ADD, int8_t, 127, 1), -128);
    ck_assert_int_eq(OP2(TBL(S16), TD_HLO_MULTIPLY, int16_t, 300, 300), (int16_t)90000);
    ck_assert_int_eq(OP2(TBL(S32), TD_HLO_ABS, int32_t, INT32_MIN, 0), INT32_MIN);
    ck_assert_int_eq(OP2(TBL(S32), TD_HLO_POWER, int32_t, 3, 4), 81);
    ck_assert_int_eq(OP2(TBL(S16), TD_HLO_CLZ, int16_t, 1, 0), 15);
    ck_assert_int_eq(OP2(TBL(S8), TD_HLO_POPCNT, int8_t, -1, 0), 8);
}
END_TEST

START_TEST(float_rules) {
    ck_assert(isnan(OP2(TBL(F32), TD_HLO_MAXIMUM, float, 1, NAN)) && isnan(OP2(TBL(F32), TD_HLO_MINIMUM, float, NAN, 1)));
    ck_assert(isnan(OP2(TBL(F64), TD_HLO_SIGN, double, NAN, 0)) && signbit(OP2(TBL(F64), TD_HLO_SIGN, double, -0.0, 0)));
    ck_assert(OP2(TBL(F32), TD_HLO_REMAINDER, float, -7, 3) == -1);
    ck_assert(OP2(TBL(F32), TD_HLO_ROUND_EVEN, float, 2.5f, 0) == 2 && OP2(TBL(F32), TD_HLO_ROUND_AFZ, float, 2.5f, 0) == 3);
    ck_assert(OP2(TBL(F32), TD_HLO_ADD, float, 1e-40f, 0) == 1e-40f);
    float lo = 0, x = NAN, hi = 1, d;
    TBL(F32).fn[TD_HLO_CLAMP](&d, &lo, &x, &hi, 1);
    ck_assert(isnan(d));
    uint8_t p;
    float m = -0.0f, z = 0;
    TBL(F32).total[TD_CMP_LT](&p, &m, &z, NULL, 1);
    ck_assert(p);
    TBL(F32).compare[TD_CMP_LT](&p, &m, &z, NULL, 1);
    ck_assert(!p);
    float r;
    td_pw_reduce_precision_f32(&r, &(float){1e30f}, 1, 5, 10);
    ck_assert(isinf(r));
    td_pw_reduce_precision_f32(&r, &(float){1e-6f}, 1, 5, 10);
    ck_assert(r == 0);
    (void)bits;
}
END_TEST

/* max(a * b, b) in bf16, on tiles of awkward sizes, with the result over an input. */
START_TEST(scalar_program) {
    td_arena_t arena;
    td_arena_init(&arena, td_alloc_default(), 0);
    const td_shape_t *s;
    ck_assert(!td_shape_make(&arena, TD_BF16, 0, NULL, NULL, &s, NULL));
    td_hlo_instr_t p[4] = {{.opcode = TD_HLO_PARAMETER, .name = "a"}, {.opcode = TD_HLO_PARAMETER, .name = "b", .parameter_number = 1},
                           {.opcode = TD_HLO_MULTIPLY, .name = "m"}, {.opcode = TD_HLO_MAXIMUM, .name = "x"}};
    td_hlo_instr_t *list[4] = {&p[0], &p[1], &p[2], &p[3]}, *mul[2] = {&p[0], &p[1]}, *max[2] = {&p[2], &p[1]};
    for (uint32_t i = 0; i < 4; i++) p[i].index = i, p[i].shape = s;
    p[2].operands = mul, p[2].n_operands = 2, p[3].operands = max, p[3].n_operands = 2;
    td_hlo_comp_t c = {.name = "f", .instrs = list, .n_instrs = 4, .root = &p[3], .params = list, .n_params = 2};
    td_pw_t *pw;
    td_err_t err;
    ck_assert_msg(td_pw_compile_scalar(&c, &arena, &pw, &err) == TD_OK, "%s", err.text);
    ck_assert_int_eq(td_pw_simple_op(&c), TD_HLO_UNKNOWN);
    c.root = &p[2];
    ck_assert_int_eq(td_pw_simple_op(&c), TD_HLO_MULTIPLY);
    void *scratch = aligned_alloc(64, td_pw_scratch(pw) + 64 - td_pw_scratch(pw) % 64);
    static const size_t sizes[] = {0, 1, 1023, 1024};
    for (size_t k = 0; k < 4; k++) {
        uint16_t *a = malloc(2 * sizes[k] + 1), *b = malloc(2 * sizes[k] + 1);
        for (size_t i = 0; i < sizes[k]; i++) a[i] = td_bf16_from_f32((float)i / 7), b[i] = td_bf16_from_f32(1.7f - (float)i);
        const void *in[2] = {a, b};
        uint16_t *want = malloc(2 * sizes[k] + 1);
        for (size_t i = 0; i < sizes[k]; i++) {
            float x = td_small_decode(TD_BF16, a[i]), y = td_small_decode(TD_BF16, b[i]);
            float m = td_small_decode(TD_BF16, td_bf16_from_f32(x * y));
            want[i] = td_bf16_from_f32(m > y ? m : y);
        }
        td_pw_run(pw, in, (void *[]){a}, sizes[k], scratch);
        ck_assert(!memcmp(a, want, 2 * sizes[k]));
        free(a), free(b), free(want);
    }
    free(scratch);
    td_arena_deinit(&arena);
}
END_TEST

/* SLEEF's vectors against libm's f64, at every width and tail. */
START_TEST(vector_functions) {
    static const struct { td_opcode_t op; double (*f)(double); float lo, hi; } fns[] = {
        {TD_HLO_EXP, exp, -80, 80}, {TD_HLO_LOG, log, 1e-3f, 1e6f}, {TD_HLO_TANH, tanh, -9, 9}, {TD_HLO_ERF, erf, -4, 4},
        {TD_HLO_SIN, sin, -50, 50}, {TD_HLO_COS, cos, -50, 50}, {TD_HLO_EXPM1, expm1, -1, 3}, {TD_HLO_LOG1P, log1p, -0.9f, 9},
        {TD_HLO_CBRT, cbrt, -9, 9}, {TD_HLO_TAN, tan, -1, 1}, {TD_HLO_ASIN, asin, -1, 1}, {TD_HLO_ACOSH, acosh, 1, 90}};
    enum { N = 77 };
    for (size_t k = 0; k < sizeof fns / sizeof *fns; k++)
        for (size_t n = 1; n <= N; n += 19) {
            float x[N], y[N];
            double xd[N], yd[N];
            for (size_t i = 0; i < n; i++) xd[i] = x[i] = fns[k].lo + (fns[k].hi - fns[k].lo) * (float)i / (float)N;
            TBL(F32).fn[fns[k].op](y, x, NULL, NULL, n);
            TBL(F64).fn[fns[k].op](yd, xd, NULL, NULL, n);
            for (size_t i = 0; i < n; i++) {
                double want = fns[k].f(xd[i]);
                ck_assert_double_le(fabs(y[i] - want), 2e-7 * fabs(want) + 1e-30);
                ck_assert_double_le(fabs(yd[i] - want), 4e-16 * fabs(want) + 1e-30);
            }
        }
}
END_TEST

/* Sums of small integers are exact in any order. */
START_TEST(vector_sums) {
    enum { N = 1000 };
    float x[N], y[N], acc[N];
    uint16_t h[N];
    for (size_t n = 0; n <= N; n += 111) {
        double sum = 0, dot = 0;
        float top = -100;
        for (size_t i = 0; i < n; i++) {
            x[i] = (float)((int)(i * 7 % 23) - 11), y[i] = (float)(i % 5), acc[i] = 1;
            h[i] = td_bf16_from_f32(y[i]);
            sum += x[i], dot += x[i] * y[i];
            if (x[i] > top) top = x[i];
        }
        ck_assert(td_vec()->sum(x, n) == (float)sum && td_vec()->dot(x, y, n) == (float)dot);
        ck_assert(td_vec()->dot_bf16(x, h, n) == (float)dot);
        if (!n) continue;
        ck_assert(td_vec()->max(x, n) == top);
        td_vec()->axpy(2, x, acc, n);
        td_vec()->axpy_bf16(3, h, acc, n);
        for (size_t i = 0; i < n; i++) ck_assert(acc[i] == 1 + 2 * x[i] + 3 * y[i]);
        x[n / 2] = NAN;
        ck_assert(isnan(td_vec()->max(x, n)));
    }
}
END_TEST

static void use_base(void) { ck_assert(td_vec_use("base")); }
static void use_v3(void) { (void)td_vec_use("v3"); }
static void use_best(void) {}

static void add(Suite *s, const char *name, void (*use)(void)) { /* all of it per instruction set */
    TCase *t = tcase_create(name);
    tcase_add_checked_fixture(t, use, NULL);
    tcase_add_test(t, small_floats_round_trip);
    tcase_add_test(t, small_floats_table);
    tcase_add_test(t, conversions);
    tcase_add_test(t, integer_edges);
    tcase_add_test(t, float_rules);
    tcase_add_test(t, scalar_program);
    tcase_add_test(t, vector_functions);
    tcase_add_test(t, vector_sums);
    suite_add_tcase(s, t);
}

int main(void) {
    Suite *s = suite_create("host_pw");
    add(s, "base", use_base);
    add(s, "v3", use_v3);
    add(s, "best", use_best);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
