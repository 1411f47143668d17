/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products and layer norms of the host device. Expected values: numpy in f64 on
 * x[i] = ((37 i + 11 seed) mod 23 - 11) / 8 with seeds a 1, b 2, c 3, bias 4 (norm: x 1, scale 2, bias 3, dy 4);
 * D = act(1.5 A B + 0.5 C + bias), A 2x4, B 4x3. The norm's gradient was compared with differences. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/host/library.h"
#include "runtime/host/types.h"

enum { M = 2, K = 4, N = 3 };
static td_arena_t arena;
static void setup(void) { td_arena_init(&arena, td_alloc_default(), 0); }
static void teardown(void) { td_arena_deinit(&arena); }

static void fill(float *x, int n, int seed) {
    for (int i = 0; i < n; i++) x[i] = (float)((i * 37 + seed * 11) % 23 - 11) / 8;
}
static void near(const char *what, const float *got, const float *want, size_t n, float tolerance) {
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(fabsf(got[i] - want[i]) <= tolerance, "%s[%zu]: %g, not %g", what, i, (double)got[i],
                      (double)want[i]);
}
static td_status_t try_gemm(const td_gemm_desc_t *d, void *const *bufs, td_err_t *err) {
    td_kernel_t *k = NULL;
    uint64_t scratch = 0;
    td_status_t st = td_host_gemm_lower(NULL, d, &arena, &k, &scratch, err);
    if (st) return st;
    void *mem = aligned_alloc(64, (scratch + 127) & ~63ull);
    memset(mem, 0xff, scratch);
    st = k->run(k, bufs, mem, err);
    free(mem);
    return st;
}
static void gemm(const td_gemm_desc_t *d, void *const *bufs) {
    td_err_t err = {0};
    ck_assert_msg(!try_gemm(d, bufs, &err), "%s", err.text);
}
#define GEMM(d, ...) gemm(d, (void *[]){__VA_ARGS__})
static td_matrix_t rows(td_type_t t, int64_t m, int64_t n) { return (td_matrix_t){t, false, m, n, n, 1, 0}; }
static td_matrix_t columns(td_type_t t, int64_t m, int64_t n) { return (td_matrix_t){t, true, m, n, m, 1, 0}; }
static void transpose(const float *x, int m, int n, float *y) {
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) y[j * m + i] = x[i * n + j];
}

static const float before[6] = {-1.09375f, 0.03125f, 3.132812f, 1.726562f, 0.703125f, -2.835938f};
static const float biased[6] = {0.15625f, 0.15625f, 2.132812f, 2.976562f, 0.828125f, -3.835938f};
static const float gelu[6] = {-0.1500634f, 0.01601453f, 3.130459f, 1.653718f, 0.5336235f, -0.006019658f};
static const float silu[6] = {-0.2744359f, 0.01586912f, 3.001943f, 1.465804f, 0.4703064f, -0.1571472f};
static const float biased_gelu[6] = {0.08782512f, 0.08782512f, 2.097897f, 2.972645f, 0.6592602f, -0.0001500687f};
static const float biased_silu[6] = {0.08421613f, 0.08421613f, 1.906845f, 2.832211f, 0.5763405f, -0.08103492f};
static const float relu[6] = {0, 0.03125f, 3.132812f, 1.726562f, 0.703125f, 0};
static const float biased_relu[6] = {0.15625f, 0.15625f, 2.132812f, 2.976562f, 0.828125f, 0};
static const float *const results[12] = {before, relu, biased,      biased_relu, gelu,        silu,
                                         silu,   gelu, biased_gelu, biased_silu, biased_gelu, biased_silu};

/* Every epilogue, every order of A, B, C and D, and D in place of C. The bias is as long as D's fastest dimension,
 * so column-major results only take those without. */
START_TEST(epilogues_and_orders) {
    float a[8], b[12], c[6], bias[3], t[12], u[12], w[6], d[6], aux[6], back[6];
    fill(a, 8, 1), fill(b, 12, 2), fill(c, 6, 3), fill(bias, 3, 4);
    transpose(a, M, K, t), transpose(b, K, N, u), transpose(c, M, N, w);
    for (int e = 0; e < 12; e++)
        for (int order = 0; order < 32; order++) {
            bool has_bias = e == 2 || e == 3 || e >= 8, has_aux = e == 6 || e == 7 || e >= 10, in_place = order & 16;
            if ((order & 8 && has_bias) || (in_place && !(order & 4) != !(order & 8))) continue;
            td_gemm_desc_t g = {.a = order & 1 ? columns(TD_F32, M, K) : rows(TD_F32, M, K),
                                .b = order & 2 ? columns(TD_F32, K, N) : rows(TD_F32, K, N),
                                .c = order & 4 ? columns(TD_F32, M, N) : rows(TD_F32, M, N),
                                .d = order & 8 ? columns(TD_F32, M, N) : rows(TD_F32, M, N),
                                .alpha_real = 1.5,
                                .beta = 0.5,
                                .epilogue = (td_epilogue_t)e,
                                .has_bias = has_bias,
                                .has_aux = has_aux};
            memcpy(d, order & 4 ? w : c, sizeof d);
            void *bufs[6] = {
                order & 1 ? t : a, order & 2 ? u : b, in_place ? d : order & 4 ? w : c, d, has_bias ? bias : aux, aux};
            gemm(&g, bufs);
            if (order & 8) transpose(d, N, M, back), memcpy(d, back, sizeof d);
            near("d", d, results[e], 6, 1e-5f);
            if (order & 8 && has_aux) transpose(aux, N, M, back), memcpy(aux, back, sizeof aux);
            if (has_aux) near("aux", aux, has_bias ? biased : before, 6, 1e-6f);
        }
    /* column-major with a bias per row: seed 6 */
    const float want[6] = {0.03125f, 1.15625f, 4.257812f, 1.726562f, 0.703125f, 0};
    float per_row[2];
    fill(per_row, 2, 6);
    td_gemm_desc_t g = {.a = rows(TD_F32, M, K),
                        .b = rows(TD_F32, K, N),
                        .c = rows(TD_F32, M, N),
                        .d = columns(TD_F32, M, N),
                        .alpha_real = 1.5,
                        .beta = 0.5,
                        .epilogue = TD_EPI_BIAS_RELU,
                        .has_bias = true};
    GEMM(&g, a, b, c, d, per_row);
    transpose(d, N, M, back);
    near("column bias", back, want, 6, 1e-6f);
}
END_TEST

/* The same numbers through small floats, with C, bias and D of other types. All values are exact in bf16. */
START_TEST(mixed_types) {
    float a[8], b[12], c[6], bias[3], d[6], aux[6];
    uint16_t ha[8], hb[12], hc[6], hd[6], haux[6];
    uint16_t hbias[3];
    fill(a, 8, 1), fill(b, 12, 2), fill(c, 6, 3), fill(bias, 3, 4);
    td_convert_array(TD_F32, a, TD_BF16, ha, 8);
    td_convert_array(TD_F32, b, TD_F16, hb, 12);
    td_convert_array(TD_F32, c, TD_F16, hc, 6);
    td_convert_array(TD_F32, bias, TD_F16, hbias, 3);
    td_gemm_desc_t g = {.a = rows(TD_BF16, M, K),
                        .b = rows(TD_F16, K, N),
                        .c = rows(TD_F16, M, N),
                        .d = rows(TD_BF16, M, N),
                        .alpha_real = 1.5,
                        .beta = 0.5,
                        .epilogue = TD_EPI_BIAS_GELU_AUX,
                        .has_bias = true,
                        .bias_type = TD_F16,
                        .has_aux = true};
    GEMM(&g, ha, hb, hc, hd, hbias, haux);
    td_convert_array(TD_BF16, hd, TD_F32, d, 6);
    td_convert_array(TD_BF16, haux, TD_F32, aux, 6);
    near("d", d, biased_gelu, 6, 0.01f);
    near("aux", aux, biased, 6, 0.01f);
    g.d.type = TD_F32;
    GEMM(&g, ha, hb, hc, d, hbias, aux);
    near("d", d, biased_gelu, 6, 1e-5f);
}
END_TEST

START_TEST(scales) {
    float a[8], b[12], c[6], d[6], sa = 0.5f, sb = 4, sc = 2, sd = 16, amax = -1;
    uint8_t qa[8], qb[12], qd[6];
    fill(a, 8, 1), fill(b, 12, 2), fill(c, 6, 3);
    for (int i = 0; i < 6; i++)
        c[i] /= 2; /* A and B are exact in 8 bits; scales make 1.5 A B + 0.5 C of 0.75 (A B) + 0.5 (C / 2) */
    td_convert_array(TD_F32, a, TD_F8E4M3FN, qa, 8);
    td_convert_array(TD_F32, b, TD_F8E5M2, qb, 12);
    td_convert_array(TD_F8E4M3FN, qa, TD_F32, a, 8);
    td_convert_array(TD_F8E5M2, qb, TD_F32, b, 12);
    td_gemm_desc_t g = {.a = rows(TD_F8E4M3FN, M, K),
                        .b = rows(TD_F8E5M2, K, N),
                        .c = rows(TD_F32, M, N),
                        .d = rows(TD_F32, M, N),
                        .alpha_real = 0.75,
                        .beta = 0.5,
                        .has_a_scale = true,
                        .has_b_scale = true,
                        .has_c_scale = true,
                        .has_d_scale = true,
                        .has_amax = true};
    GEMM(&g, qa, qb, c, d, &sa, &sb, &sc, &sd, &amax);
    float top = 0;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float x = c[i * N + j];
            for (int k = 0; k < K; k++) x += 1.5f * a[i * K + k] * b[k * N + j];
            ck_assert_msg(fabsf(d[i * N + j] - 16 * x) < 1e-4f, "%g, not %g", (double)d[i * N + j], (double)(16 * x));
            top = fmaxf(top, fabsf(x));
        }
    ck_assert_msg(fabsf(amax - top) < 1e-5f, "%g, not %g", (double)amax, (double)top);
    g.d.type = TD_F8E4M3FN;
    sd = 1e6f; /* saturates */
    GEMM(&g, qa, qb, c, qd, &sa, &sb, &sc, &sd, &amax);
    td_convert_array(TD_F8E4M3FN, qd, TD_F32, a, 6);
    for (int i = 0; i < 6; i++) ck_assert(fabsf(a[i]) == 448);
}
END_TEST

/* Two batch entries share B; A is column-major; between rows of D lies something that stays. */
START_TEST(batches_and_strides) {
    const float want[2][6] = {{1.140625f, 0.15625f, -0.109375f, -2.03125f, -1.1875f, 2.171875f},
                              {0.203125f, 0.90625f, 0.171875f, 0.984375f, 0.28125f, -0.0625f}};
    float a[16], b[12], d[32], got[6];
    for (int pass = 0; pass < 2; pass++) {
        uint16_t ha[16];
        fill(a, 16, 1), fill(b, 12, 2);
        td_convert_array(TD_F32, a, TD_F16, ha, 16);
        for (int i = 0; i < 32; i++) d[i] = 77;
        td_gemm_desc_t g = {.a = {pass ? TD_F16 : TD_F32, true, M, K, M, 2, M * K},
                            .b = {TD_F32, false, K, N, N, 2, 0},
                            .d = {TD_F32, false, M, N, 5, 2, 15},
                            .alpha_real = 1};
        GEMM(&g, pass ? (void *)ha : a, b, NULL, d);
        for (int i = 0; i < 2; i++) {
            for (int j = 0; j < 6; j++) got[j] = d[i * 15 + j / 3 * 5 + j % 3];
            near("batch", got, want[i], 6, 1e-6f);
        }
        for (int i = 0; i < 32; i++) ck_assert((i % 15 < 3 || (i % 15 >= 5 && i % 15 < 8)) || d[i] == 77);
    }
    td_gemm_desc_t empty = {.a = rows(TD_F32, M, 0),
                            .b = rows(TD_F32, 0, N),
                            .c = rows(TD_F32, M, N),
                            .d = rows(TD_F32, M, N),
                            .alpha_real = 1};
    GEMM(&empty, a, b, d, got);
    for (int i = 0; i < 6; i++) ck_assert(got[i] == 0);
    empty.beta = 2;
    fill(d, 6, 3);
    GEMM(&empty, a, b, d, got);
    for (int i = 0; i < 6; i++) ck_assert(got[i] == 2 * d[i]);
}
END_TEST

START_TEST(complex_numbers) {
    const float want[8] = {4,         -9.015625f, 5.5f,      5.796875f,
                           0.359375f, 0.21875f,   1.546875f, -0.515625f}; /* (1 - 2i) A^H B */
    float re[6], im[6], a[12], b[12], d[8];
    double wide[2][12], wd[8];
    for (int k = 0; k < 2; k++) {
        fill(re, 6, 1 + 2 * k), fill(im, 6, 2 + 2 * k);
        for (int i = 0; i < 6; i++) (k ? b : a)[2 * i] = re[i], (k ? b : a)[2 * i + 1] = im[i];
    }
    td_gemm_desc_t g = {.a = columns(TD_C64, 2, 3),
                        .b = rows(TD_C64, 3, 2),
                        .d = rows(TD_C64, 2, 2),
                        .alpha_real = 1,
                        .alpha_imag = -2,
                        .conjugate_a = true};
    GEMM(&g, a, b, NULL, d);
    near("c64", d, want, 8, 1e-5f);
    for (int i = 0; i < 12; i++) wide[0][i] = (double)a[i], wide[1][i] = (double)b[i];
    g.a.type = g.b.type = g.d.type = TD_C128;
    GEMM(&g, wide[0], wide[1], NULL, wd);
    for (int i = 0; i < 8; i++) ck_assert(fabs(wd[i] - (double)want[i]) < 1e-12);
    g.epilogue = TD_EPI_RELU;
    ck_assert_int_eq(try_gemm(&g, (void *[]){wide[0], wide[1], NULL, wd}, NULL), TD_UNSUPPORTED);
}
END_TEST

/* 8-bit integers over more k than f32 holds exactly in one sum; wider ones; all orders. */
START_TEST(integers) {
    enum { L = 5000 };
    static int8_t a[3 * L], b[2 * L], t[2 * L];
    static int16_t wide[3 * L];
    int32_t d[6], c[6] = {1, 2, 3, 4, 5, -6};
    float f[6];
    for (int i = 0; i < 3 * L; i++) wide[i] = a[i] = (int8_t)(i % 7 == 3 ? 77 : -128);
    for (int i = 0; i < 2 * L; i++) b[i] = (int8_t)(i % 11 == 5 ? i % 128 : -127);
    for (int k = 0; k < L; k++)
        for (int j = 0; j < 2; j++) t[j * L + k] = b[k * 2 + j];
    for (int pass = 0; pass < 4; pass++) {
        td_gemm_desc_t g = {.a = rows(pass & 2 ? TD_S16 : TD_S8, 3, L),
                            .b = pass & 1 ? columns(TD_S8, L, 2) : rows(TD_S8, L, 2),
                            .c = rows(TD_S32, 3, 2),
                            .d = rows(TD_S32, 3, 2),
                            .alpha_real = 2,
                            .beta = 3,
                            .epilogue = TD_EPI_RELU};
        GEMM(&g, pass & 2 ? (void *)wide : a, pass & 1 ? t : b, c, d);
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 2; j++) {
                int32_t want = 0;
                for (int k = 0; k < L; k++) want += a[i * L + k] * b[k * 2 + j];
                want = 2 * want + 3 * c[i * 2 + j];
                ck_assert_int_eq(d[i * 2 + j], want < 0 ? 0 : want);
            }
    }
    td_gemm_desc_t g = {.a = rows(TD_S8, 3, 4), .b = rows(TD_S8, 4, 2), .d = rows(TD_F32, 3, 2), .alpha_real = 0.5};
    GEMM(&g, a, b, NULL, f);
    float want = 0;
    for (int k = 0; k < 4; k++) want += (float)a[k] * (float)b[2 * k];
    ck_assert(f[0] == want / 2);
    g.d.type = TD_S32, g.epilogue = TD_EPI_GELU;
    ck_assert_int_eq(try_gemm(&g, (void *[]){a, b, NULL, d}, NULL), TD_UNSUPPORTED);
}
END_TEST

/* A 2x64 by the transpose of B 2x64, both e4m3, one scale 2^e for 32 values each. */
START_TEST(block_scales) {
    const float want[4] = {-11.007812f, -62.40625f, -21.921875f, -131.6875f};
    static const uint8_t sa[4] = {126, 128, 127, 129}, sb[4] = {127, 125, 130, 127}; /* 0.5 2 1 4; 1 0.25 8 1 */
    float a[128], b[128], d[4];
    uint8_t qa[128], qb[128], ta[512] = {0}, tb[512] = {0};
    fill(a, 128, 1), fill(b, 128, 2);
    td_convert_array(TD_F32, a, TD_F8E4M3FN, qa, 128);
    td_convert_array(TD_F32, b, TD_F8E4M3FN, qb, 128);
    for (int r = 0; r < 2; r++)
        for (int k = 0; k < 2; k++) ta[r * 16 + k] = sa[r * 2 + k], tb[r * 16 + k] = sb[r * 2 + k];
    td_gemm_desc_t g = {.a = rows(TD_F8E4M3FN, 2, 64),
                        .b = columns(TD_F8E4M3FN, 64, 2),
                        .d = rows(TD_F32, 2, 2),
                        .alpha_real = 1,
                        .has_a_scale = true,
                        .has_b_scale = true,
                        .scale_block = 32,
                        .scale_type = TD_F8E8M0FNU};
    GEMM(&g, qa, qb, NULL, d, ta, tb);
    near("block", d, want, 4, 1e-3f);
    g.b = rows(TD_F8E4M3FN, 64, 2);
    ck_assert_int_eq(try_gemm(&g, (void *[]){qa, qb, NULL, d, ta, tb}, NULL), TD_UNSUPPORTED);
}
END_TEST

static void norm(const td_norm_desc_t *d, void *const *bufs) {
    td_kernel_t *k = NULL;
    uint64_t scratch = 0;
    td_err_t err = {0};
    ck_assert_msg(!td_host_norm_lower(NULL, d, &arena, &k, &scratch, &err), "%s", err.text);
    void *mem = aligned_alloc(64, (scratch + 127) & ~63ull);
    ck_assert(!k->run(k, bufs, mem, &err));
    free(mem);
}

START_TEST(layer_norm) {
    const float want_y[12] = {0.402871f, -1.585918f,  -0.6757126f, -0.9609179f, 1.449133f,  -1.296162f,
                              1.824856f, -0.1402964f, -0.8866771f, -0.8714696f, 0.3384321f, -1.626721f};
    const float without_bias[4] = {0.527871f, -0.3359179f, -1.175713f, -0.3359179f};
    const float want_mean[3] = {-0.25f, 0.28125f, 0.09375f}, want_factor[3] = {1.535625f, 1.181754f, 1.181754f};
    const float want_dx[12] = {1.152452f,   -0.4164671f, -0.7112572f, -0.02472793f, -0.0151972f, 0.7070955f,
                               -0.2509175f, -0.4409808f, 0.4827436f,  -0.454111f,   0.6823158f,  -0.7109485f};
    const float want_dscale[4] = {-0.4341298f, -0.8003817f, -1.976094f, -1.201942f},
                want_dbias[4] = {1.75f, 1.25f, -2.125f, 0.25f};
    float x[12], scale[4], bias[4], dy[12], y[12], mean[3], factor[3], dx[12], dscale[4], dbias[4];
    uint16_t h[12], hy[12];
    fill(x, 12, 1), fill(scale, 4, 2), fill(bias, 4, 3), fill(dy, 12, 4);
    td_norm_desc_t d = {.x = TD_F32,
                        .scale = TD_F32,
                        .bias = TD_F32,
                        .y = TD_F32,
                        .rows = 3,
                        .cols = 4,
                        .epsilon = 0.01,
                        .training = true,
                        .has_bias = true};
    norm(&d, (void *[]){x, scale, bias, y, mean, factor});
    near("y", y, want_y, 12, 1e-6f), near("mean", mean, want_mean, 3, 1e-6f),
        near("factor", factor, want_factor, 3, 1e-6f);
    d.has_bias = d.training = false;
    norm(&d, (void *[]){x, scale, scale, y});
    near("y without bias", y, without_bias, 4, 1e-6f);
    d.x = d.y = TD_BF16;
    td_convert_array(TD_F32, x, TD_BF16, h, 12);
    norm(&d, (void *[]){h, scale, scale, hy});
    td_convert_array(TD_BF16, hy, TD_F32, y, 4);
    near("bf16", y, without_bias, 4, 0.01f);
    d = (td_norm_desc_t){.x = TD_F32,
                         .scale = TD_F32,
                         .bias = TD_F32,
                         .y = TD_F32,
                         .dy = TD_F32,
                         .dscale = TD_F32,
                         .dbias = TD_F32,
                         .rows = 3,
                         .cols = 4,
                         .epsilon = 0.01,
                         .backward = true};
    norm(&d, (void *[]){x, scale, dy, mean, factor, dx, dscale, dbias});
    near("dx", dx, want_dx, 12, 2e-6f), near("dscale", dscale, want_dscale, 4, 2e-6f),
        near("dbias", dbias, want_dbias, 4, 1e-6f);
    td_kernel_t *k;
    uint64_t scratch;
    d.dy = TD_S32;
    ck_assert_int_eq(td_host_norm_lower(NULL, &d, &arena, &k, &scratch, NULL), TD_UNSUPPORTED);
}
END_TEST

int main(void) {
    Suite *s = suite_create("gemm");
    TCase *t = tcase_create("all");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, epilogues_and_orders);
    tcase_add_test(t, mixed_types);
    tcase_add_test(t, scales);
    tcase_add_test(t, batches_and_strides);
    tcase_add_test(t, complex_numbers);
    tcase_add_test(t, integers);
    tcase_add_test(t, block_scales);
    tcase_add_test(t, layer_norm);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
