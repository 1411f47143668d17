/* SPDX-License-Identifier: Apache-2.0 */
/* Library calls of programs without thunks, from backend configurations. Expected values: numpy and scipy in f64 on the
 * inputs given here, printed with 7 digits (matmul, einsum, solve_triangular, cholesky; gelu in its tanh form; norm and
 * its gradients written out with mean and var over the columns). */
#include <math.h>

#include "tests/unit/scheduled_build.h"

#include "base/limits.h"
#include "runtime/module.h"

#define DOT(lb, lc, rb, rc)                                                                                        \
    "\"dot_dimension_numbers\":{\"lhs_batch_dimensions\":[" lb "],\"lhs_contracting_dimensions\":[" lc "],"         \
    "\"rhs_batch_dimensions\":[" rb "],\"rhs_contracting_dimensions\":[" rc "]}"
#define GEMM(rest) "{\"gemm_backend_config\":{" rest "}}"
#define PLAIN DOT("", "\"1\"", "", "\"0\"")
#define COUNT(v) (sizeof(v) / sizeof *(v))

static const float a6[] = {-2, -1, 0, 1, 2, 3}, b12[] = {-1, -.5f, 0, .5f, 1, 1.5f, 2, 2.5f, 3, 3.5f, 4, 4.5f};
static const float c8[] = {0, 1, 2, 3, 4, 5, 6, 7}, bias4[] = {1, -20, 3, .5f};
static const float ab[] = {1, -.5f, -2, -3.5f, 10, 13, 16, 19};

static void expect(const char *what, const float *got, const float *want, size_t n) {
    for (size_t k = 0; k < n; k++)
        ck_assert_msg(fabsf(got[k] - want[k]) <= 2e-6f * (1 + fabsf(want[k])), "%s[%zu] is %g, not %g", what, k,
                      (double)got[k], (double)want[k]);
}

/* ---- products ---- */
static const struct product {
    const char *target, *config;
    int third; /* 0: none, 1: c, 2: bias */
    bool turned; /* a column by column, d too */
    float want[8];
} products[] = {
    {"__cublas$lt$matmul", GEMM("\"alpha_real\":1,\"beta\":0," PLAIN), 0, false, {1, -.5f, -2, -3.5f, 10, 13, 16, 19}},
    {"__cublas$gemm", GEMM("\"alpha_real\":1.0,\"beta\":0.0," PLAIN), 0, true, {1, -.5f, -2, -3.5f, 10, 13, 16, 19}},
    {"__cublas$gemm", GEMM("\"alpha_real\":2,\"beta\":0.5,\"alpha_imag\":1," PLAIN), 1, false,
     {2, -.5f, -3, -5.5f, 22, 28.5f, 35, 41.5f}},
    {"__cublas$lt$matmul", GEMM("\"alpha_real\":2,\"beta\":0.5,\"epilogue\":\"DEFAULT\"," PLAIN), 1, true,
     {2, -.5f, -3, -5.5f, 22, 28.5f, 35, 41.5f}},
    {"__cublas$lt$matmul", GEMM("\"alpha_real\":1,\"epilogue\":\"BIAS_RELU\"," PLAIN), 2, false,
     {2, 0, 1, 0, 11, 0, 19, 19.5f}},
    {"__cublas$lt$matmul", GEMM("\"alpha_real\":1,\"epilogue\":\"GELU\"," PLAIN), 0, false,
     {0.841192f, -0.154286f, -0.04540231f, -0.0006161977f, 10, 13, 16, 19}},
};

START_TEST(product) {
    const struct product *p = &products[_i];
    float y[8];
    begin("entry", false);
    shape_t *sa = F32(2, 3), *sd = F32(2, 4), *sc = F32(2, 4);
    if (p->turned) LAYOUT(sa, 0, 1), LAYOUT(sd, 0, 1);
    instr_t *a = parameter(sa), *b = parameter(F32(3, 4));
    instr_t *third = p->third ? parameter(p->third == 1 ? sc : F32(4)) : NULL;
    instr_t *d = p->third ? OP("custom-call", TUPLE(sd, ARRAY(TD_S8, 64)), a, b, third)
                          : OP("custom-call", TUPLE(sd, ARRAY(TD_S8, 64)), a, b);
    custom(d, p->target, p->config);
    element(d, 0);
    finish();
    run_built((const void *[]){a6, b12, p->third == 1 ? c8 : bias4}, (void *[]){y}, (size_t[]){32}, 1);
    expect(p->config, y, p->want, 8);
}
END_TEST

/* d[b,m,n] = sum over k of a[b,k,m] b[b,n,k]. */
START_TEST(batched_product) {
    static const float want[] = {-1.25f, -8, -14.75f, -21.5f, -.5f, -5, -9.5f, -14,
                                 30.25f, 37, 43.75f,  50.5f,  40,   49, 58,    67};
    float a[12], b[24], y[16];
    for (int k = 0; k < 12; k++) a[k] = (float)k - 5;
    for (int k = 0; k < 24; k++) b[k] = .25f * (float)k;
    begin("entry", false);
    instr_t *x = parameter(F32(2, 3, 2)), *w = parameter(F32(2, 4, 3));
    custom(OP("custom-call", F32(2, 2, 4), x, w), "__cublas$lt$matmul",
           GEMM("\"alpha_real\":1," DOT("0", "1", "\"0\"", "\"2\"")));
    finish();
    run_built((const void *[]){a, b}, (void *[]){y}, (size_t[]){64}, 1);
    expect("batched", y, want, 16);
}
END_TEST

/* 1 * 0.5 + 2 * 4 in f8e4m3fn, times both scales. */
START_TEST(eight_bit_product) {
    static const uint8_t a[] = {0x38, 0x40}, b[] = {0x30, 0x48};
    static const float sa = 2, sb = .25f, want = 4.25f;
    float y = 0;
    begin("entry", false);
    instr_t *x = parameter(ARRAY(TD_F8E4M3FN, 1, 2)), *w = parameter(ARRAY(TD_F8E4M3FN, 2, 1));
    instr_t *p = parameter(F32()), *q = parameter(F32());
    instr_t *d = OP("custom-call", TUPLE(F32(1, 1), ARRAY(TD_S8, 8)), x, w, p, q);
    custom(d, "__cublas$lt$matmul$f8", GEMM("\"alpha_real\":1," PLAIN));
    element(d, 0);
    finish();
    run_built((const void *[]){a, b, &sa, &sb}, (void *[]){&y}, (size_t[]){4}, 1);
    expect("f8", &y, &want, 1);
}
END_TEST

/* A fusion around a product: a slice of a stack goes in, a row of another stack comes out. */
static void sliced_product(bool in_place) {
    float stack[18], other[24], y[24];
    static const int32_t at = 2;
    for (int k = 0; k < 18; k++) stack[k] = k < 12 ? 99 : a6[k - 12];
    for (int k = 0; k < 24; k++) other[k] = (float)k;
    begin("sliced", true);
    instr_t *s = parameter(F32(3, 2, 3)), *i = parameter(S32()), *b = parameter(F32(3, 4)),
            *o = parameter(F32(3, 2, 4));
    instr_t *zero = constant(0), *slice = OP("dynamic-slice", F32(1, 2, 3), s, i, zero, zero);
    slice->n_dynamic_slice_sizes = 3, slice->dynamic_slice_sizes = ints(3, (int64_t[]){1, 2, 3});
    instr_t *d = OP("custom-call", TUPLE(F32(2, 4), ARRAY(TD_S8, 64)), OP("bitcast", F32(2, 3), slice), b);
    custom(d, "__cublas$gemm", GEMM("\"alpha_real\":1," PLAIN));
    OP("dynamic-update-slice", F32(3, 2, 4), o, OP("bitcast", F32(1, 2, 4), element(d, 0)), i, zero, zero);
    begin("entry", false);
    s = parameter(F32(3, 2, 3)), i = parameter(S32()), b = parameter(F32(3, 4)), o = parameter(F32(3, 2, 4));
    instr_t *own = OP("copy", F32(3, 2, 4), o);
    instr_t *f = CALLS(OP("fusion", F32(3, 2, 4), s, i, b, own), 1);
    f->fusion_kind = (char *)(uintptr_t)"kCustom";
    config(f, "{\"fusion_backend_config\":{\"kind\":\"__custom_fusion\","
              "\"custom_fusion_config\":{\"name\":\"dynamic_address_computation\",\"kernel_index\":0}}}");
    if (in_place) same_place(f, 0, own, 0);
    finish();
    run_built((const void *[]){stack, &at, b12, other}, (void *[]){y}, (size_t[]){96}, 1);
    expect("untouched rows", y, other, 16);
    expect("the row", y + 16, ab, 8);
}
START_TEST(product_of_a_slice) { sliced_product(false); }
END_TEST
START_TEST(product_of_a_slice_in_place) { sliced_product(true); }
END_TEST

/* ---- the other libraries ---- */
START_TEST(triangular_solve) {
    static const float l[] = {2, 77, 1, 4}, r[] = {2, 4, 6, 3, 8, 1};
    static const float plain[] = {1, 2, 3, .5f, 1.5f, -.5f}, turned[] = {.625f, 1, 2.875f, .75f, 2, .25f};
    float y[6];
    begin("entry", false);
    shape_t *b = LAYOUT(F32(2, 3), 0, 1);
    instr_t *a = parameter(LAYOUT(F32(2, 2), 0, 1)), *x = parameter(b);
    instr_t *s = OP("custom-call", TUPLE(b, ARRAY(TD_S8, 16)), a, x);
    custom(s, "__cublas$triangularSolve",
           _i ? "{\"left_side\":true,\"lower\":true,\"transpose_a\":\"TRANSPOSE\"}"
              : "{\"left_side\":true,\"lower\":true,\"unit_diagonal\":false,\"transpose_a\":\"NO_TRANSPOSE\"}");
    element(s, 0);
    finish();
    run_built((const void *[]){l, r}, (void *[]){y}, (size_t[]){24}, 1);
    expect("solution", y, _i ? turned : plain, 6);
}
END_TEST

#define NORM(kind) "{\"cudnn_norm_backend_config\":{\"epsilon\":0.001,\"kind\":\"" kind "\"}}"
static const float nx[] = {1, 2, 3, 6, 4, -4, 0, 2}, ns[] = {1, 2, .5f, -1}, nb[] = {0, 1, 2, 3};
static const float mean[] = {3, .5f}, factor[] = {0.5344461f, 0.3380424f};

START_TEST(norm_forward) {
    static const float want[] = {-1.068892f, -0.06889228f, 2, 1.396662f, 1.183148f, -2.042381f, 1.915489f, 2.492936f};
    float y[8], m[2], f[2];
    begin("entry", false);
    instr_t *x = parameter(F32(2, 4)), *s = parameter(F32(1, 4)), *b = parameter(F32(1, 4));
    instr_t *n = OP("custom-call", TUPLE(F32(2, 4), F32(2, 1), F32(2, 1), ARRAY(TD_U8, 32)), x, s, b);
    custom(n, "__cudnn$norm", NORM("LAYER_FWD_TRAIN"));
    OP("tuple", TUPLE(F32(2, 4), F32(2, 1), F32(2, 1)), element(n, 0), element(n, 1), element(n, 2));
    finish();
    run_built((const void *[]){nx, ns, nb}, (void *[]){y, m, f}, (size_t[]){32, 8, 8}, 3);
    expect("y", y, want, 8);
    expect("mean", m, mean, 2);
    expect("factor", f, factor, 2);
}
END_TEST

START_TEST(norm_backward) {
    static const float dy[] = {1, 0, -1, 2, .5f, 1, 1, -2}, db[] = {1.5f, 1, 0, 0};
    static const float want[] = {0.1242423f,  -0.1048933f, -0.06680577f, 0.04745671f,
                                 -0.1014301f, 0.05797247f, -0.2752606f,  0.3187182f};
    static const float ds[] = {-0.4773181f, -1.521191f, -0.1690212f, 2.19255f};
    float dx[8], s4[4], b4[4];
    begin("entry", false);
    instr_t *x = parameter(F32(2, 4)), *s = parameter(F32(1, 4)), *g = parameter(F32(2, 4)), *m = parameter(F32(2, 1)),
            *f = parameter(F32(2, 1));
    instr_t *n = OP("custom-call", TUPLE(F32(2, 4), F32(1, 4), F32(1, 4), ARRAY(TD_U8, 32)), x, s, g, m, f);
    custom(n, "__cudnn$norm", NORM("LAYER_BWD"));
    OP("tuple", TUPLE(F32(2, 4), F32(1, 4), F32(1, 4)), element(n, 0), element(n, 1), element(n, 2));
    finish();
    run_built((const void *[]){nx, ns, dy, mean, factor}, (void *[]){dx, s4, b4}, (size_t[]){32, 16, 16}, 3);
    expect("dx", dx, want, 8);
    expect("dscale", s4, ds, 4);
    expect("dbias", b4, db, 4);
}
END_TEST

/* x[i,j] - x[i+1,j+1] of 0…15 is -5 everywhere; then relu(0.5 y + 3). */
START_TEST(fused_convolution) {
    static const float w[] = {1, 0, 0, -1}, bias = 3;
    float x[16], y[9];
    for (int k = 0; k < 16; k++) x[k] = (float)k;
    begin("entry", false);
    instr_t *px = parameter(F32(1, 4, 4, 1)), *pw = parameter(F32(1, 2, 2, 1)), *pb = parameter(F32(1));
    instr_t *c = OP("custom-call", TUPLE(F32(1, 3, 3, 1), ARRAY(TD_U8, 8)), px, pw, pb);
    custom(c, "__cudnn$convBiasActivationForward",
           "{\"cudnn_conv_backend_config\":{\"activation_mode\":\"kRelu\",\"conv_result_scale\":0.5,\"side_input_"
           "scale\":0,"
           "\"leakyrelu_alpha\":0,\"algorithm\":{\"algo_id\":\"-1\"}}}");
    c->window = NEW_MSG(Xla__Window, XLA__WINDOW__INIT);
    c->window->n_dimensions = 2;
    c->window->dimensions = td_arena_zalloc(&arena, 2 * sizeof(void *));
    for (int k = 0; k < 2; k++) {
        Xla__WindowDimension *d = NEW_MSG(Xla__WindowDimension, XLA__WINDOW_DIMENSION__INIT);
        SET(d, size, 2), SET(d, stride, 1), SET(d, window_dilation, 1), SET(d, base_dilation, 1);
        c->window->dimensions[k] = d;
    }
    Xla__ConvolutionDimensionNumbers *n =
        NEW_MSG(Xla__ConvolutionDimensionNumbers, XLA__CONVOLUTION_DIMENSION_NUMBERS__INIT);
    SET(n, input_feature_dimension, 3), SET(n, output_feature_dimension, 3), SET(n, kernel_input_feature_dimension, 3);
    n->n_input_spatial_dimensions = n->n_output_spatial_dimensions = n->n_kernel_spatial_dimensions = 2;
    n->input_spatial_dimensions = n->output_spatial_dimensions = n->kernel_spatial_dimensions =
        ints(2, (int64_t[]){1, 2});
    c->convolution_dimension_numbers = n;
    element(c, 0);
    finish();
    run_built((const void *[]){x, w, &bias}, (void *[]){y}, (size_t[]){36}, 1);
    for (int k = 0; k < 9; k++) ck_assert_float_eq(y[k], .5f);
}
END_TEST

START_TEST(cholesky) {
    static const float a[] = {4, 2, 2, 5};
    float y[4];
    int32_t info = 7;
    begin("entry", false);
    instr_t *c = OP("custom-call", TUPLE(F32(2, 2), ARRAY(TD_S8, 16), S32()), parameter(F32(2, 2)));
    c->shape->tuple_shapes[0] = LAYOUT(F32(2, 2), 0, 1);
    comps[0].msg->instructions[0]->shape = LAYOUT(F32(2, 2), 0, 1);
    custom(c, "__cusolver$cholesky", "{\"lower\":true}");
    OP("tuple", TUPLE(c->shape->tuple_shapes[0], S32()), element(c, 0), element(c, 2));
    finish();
    run_built((const void *[]){a}, (void *[]){y, &info}, (size_t[]){16, 4}, 2);
    ck_assert_int_eq(info, 0);
    ck_assert_float_eq(y[0], 2);
    ck_assert_float_eq(y[2], 1);
    ck_assert_float_eq(y[3], 2);
}
END_TEST

START_TEST(radix_sort) {
    static const float keys[] = {3, -1, 2, 0, 5, 4};
    static const int32_t values[] = {10, 11, 12, 13, 14, 15}, want[] = {10, 12, 11, 14, 15, 13};
    float k6[6];
    int32_t v6[6];
    begin("entry", false);
    instr_t *k = parameter(F32(2, 3)), *v = parameter(S32(2, 3));
    instr_t *s = OP("custom-call", TUPLE(F32(2, 3), S32(2, 3), ARRAY(TD_U8, 1)), k, v);
    custom(s, "__cub$DeviceRadixSort", "{\"descending\":true}");
    OP("tuple", TUPLE(F32(2, 3), S32(2, 3)), element(s, 0), element(s, 1));
    finish();
    run_built((const void *[]){keys, values}, (void *[]){k6, v6}, (size_t[]){24, 24}, 2);
    for (int i = 0; i < 6; i++) ck_assert_int_eq(v6[i], want[i]);
    ck_assert_float_eq(k6[3], 5);
}
END_TEST

/* ---- what does not fit ---- */
static const struct {
    const char *target, *config, *said;
} misfits[] = {
    {"__cublas$gemm", "", "no backend configuration"},
    {"__cublas$gemm", "[1]", "no JSON object"},
    {"__cublas$gemm", "{\"other\":{}}", "no gemm_backend_config"},
    {"__cublas$gemm", GEMM("\"alpha_real\":1"), "no dot_dimension_numbers"},
    {"__cublas$gemm", GEMM("\"alpha_real\":\"x\"," PLAIN), "alpha_real has a value of the wrong kind"},
    {"__cublas$gemm", GEMM("\"alpha_real\":1,\"beta\":1," PLAIN), "c is missing"},
    {"__cublas$gemm", GEMM("\"epilogue\":\"BIAS\"," PLAIN), "bias is missing"},
    {"__cublas$gemm", GEMM("\"epilogue\":\"SWISH\"," PLAIN), "SWISH"},
    {"__cublas$gemm", GEMM("\"epilogue\":\"GELU_AUX\"," PLAIN), "auxiliary result is missing"},
    {"__cublas$gemm", GEMM(DOT("", "2", "", "0")), "lhs_contracting_dimensions[0] is 2"},
    {"__cublas$gemm", GEMM(DOT("", "1,1", "", "0,0")), "lhs_contracting_dimensions[1] is 1"},
    {"__cublas$gemm", GEMM(DOT("", "0,1,0", "", "0")), "3 dimensions of 2"},
    {"__cublas$gemm", GEMM(DOT("", "0", "", "0")), "do not fit each other"},
    {"__cublas$gemm", GEMM(DOT("1", "1", "0", "0")), "one of batches"},
    {"__cublas$gemm", GEMM(DOT("", "", "", "")), "of an array of rank 2"},
    {"__cublas$lt$matmul$mx", "{}", "is not supported"},
    {"__cudnn$convForward", "{\"cudnn_conv_backend_config\":{}}", "without window"},
    {"__cudnn$other", "{}", "is not supported"},
    {"__cudnn$norm", NORM("LAYER_OTHER"), "LAYER_OTHER"},
    {"__cublas$triangularSolve", "{\"left_side\":1}", "left_side has a value of the wrong kind"},
    {"PadToStatic", "", "dynamic size"},
    {"__cusolver$cholesky", "{}", "2 operands and 1 results"},
    {"someone's", "", "interface"},
};

START_TEST(misfit) {
    td_err_t err = {0};
    td_module_t *m = NULL;
    begin("entry", false);
    instr_t *a = parameter(F32(2, 3)), *b = parameter(F32(3, 4));
    custom(OP("custom-call", F32(2, 4), a, b), misfits[_i].target, misfits[_i].config);
    finish();
    ck_assert_int_ne(td_module_open(&artifact, td_alloc_default(), &m, &err), TD_OK);
    ck_assert_msg(strstr(err.text, misfits[_i].said) != NULL, "'%s' does not say '%s'", err.text, misfits[_i].said);
    td_module_close(m);
}
END_TEST

int main(void) {
    Suite *s = suite_create("scheduled_calls");
    TCase *t = tcase_create("all");
    tcase_add_checked_fixture(t, build_setup, build_teardown);
    tcase_add_loop_test(t, product, 0, COUNT(products));
    tcase_add_test(t, batched_product);
    tcase_add_test(t, eight_bit_product);
    tcase_add_test(t, product_of_a_slice);
    tcase_add_test(t, product_of_a_slice_in_place);
    tcase_add_loop_test(t, triangular_solve, 0, 2);
    tcase_add_test(t, norm_forward);
    tcase_add_test(t, norm_backward);
    tcase_add_test(t, fused_convolution);
    tcase_add_test(t, cholesky);
    tcase_add_test(t, radix_sort);
    tcase_add_loop_test(t, misfit, 0, COUNT(misfits));
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int bad = srunner_ntests_failed(r);
    srunner_free(r);
    return bad != 0;
}
