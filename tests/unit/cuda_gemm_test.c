/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products on the CUDA device through the stand-in for cuBLASLt: what the host device computes, for every type,
 * layout and epilogue that the library has; what it has not is refused when a program is loaded; and mistakes that the
 * stand-in must notice, made on purpose. */
#include "runtime/cuda/gemm.h"
#include "runtime/host/host_op.h"
#include "tests/unit/cuda_op_case.h"

enum { M = 32, K = 16, N = 48, PAD = 16 };

static void setup(void) {
    op_library("libcuda.so.1");
    op_library("libcublasLt.so.13");
}

/* ---- matrices ---- */
static td_matrix_t matrix(td_type_t type, bool column_major, int64_t rows, int64_t cols, int64_t batch) {
    int64_t minor = column_major ? rows : cols, major = column_major ? cols : rows, ld = minor + PAD;
    return (td_matrix_t){type, column_major, rows, cols, ld, batch, ld * major + PAD};
}
static uint64_t bytes_of(const td_matrix_t *m) {
    int64_t minor = m->column_major ? m->rows : m->cols, major = m->column_major ? m->cols : m->rows;
    return (uint64_t)((m->batch - 1) * m->batch_stride + (major - 1) * m->ld + minor) * td_type_bytes(m->type);
}
/* Small numbers, exact in all types: sums are, too. */
static void *fill(td_type_t type, uint64_t bytes, uint32_t seed) {
    bool parts = td_type_is_complex(type), wide = type == TD_F64 || type == TD_C128;
    td_type_t real = parts ? (type == TD_C128 ? TD_F64 : TD_F32) : type;
    uint64_t n = bytes / td_type_bytes(real);
    float *f = malloc((n + 1) * sizeof *f);
    void *p = calloc(1, bytes + 16);
    for (uint64_t i = 0; i < n; i++) seed = seed * 1664525u + 1013904223u, f[i] = (float)(int)(seed >> 24) / 64 - 2;
    for (uint64_t i = 0; i < n; i++) f[i] = (float)(int)(f[i] * 2) / (td_type_is_integer(type) ? 1 : 2);
    if (wide)
        for (uint64_t i = 0; i < n; i++) ((double *)p)[i] = (double)f[i];
    else if (type == TD_S8)
        for (uint64_t i = 0; i < n; i++) ((int8_t *)p)[i] = (int8_t)f[i];
    else if (type == TD_S32)
        for (uint64_t i = 0; i < n; i++) ((int32_t *)p)[i] = (int32_t)f[i];
    else td_convert_array(TD_F32, f, real, p, n);
    free(f);
    return p;
}

static td_gemm_desc_t product(td_type_t a, td_type_t b, td_type_t d, int order, int64_t batch) {
    return (td_gemm_desc_t){.a = matrix(a, order & 1, M, K, batch),
                            .b = matrix(b, order & 2, K, N, batch),
                            .c = matrix(d, order & 4, M, N, batch),
                            .d = matrix(d, order & 4, M, N, batch),
                            .alpha_real = 1};
}
/* The buffers of a product, filled. in_place: C is D. */
static uint32_t buffers(const td_gemm_desc_t *g, op_buffer_t *v, bool in_place) {
    uint32_t n = 4;
    const td_matrix_t *m[] = {&g->a, &g->b, &g->c, &g->d};
    uint64_t line = (uint64_t)(g->d.column_major ? g->d.rows : g->d.cols);
    td_type_t bias = g->bias_type ? g->bias_type : g->d.type;
    static float scales[5][1];
    memset(v, 0, OP_BUFFERS * sizeof *v);
    for (uint32_t i = 0; i < 4; i++)
        v[i] = (op_buffer_t){.host = fill(m[i]->type, bytes_of(m[i]), i + 1), .bytes = bytes_of(m[i])};
    if (in_place || g->beta == 0) {
        free(v[3].host);
        v[3] = (op_buffer_t){.same = 3};
    }
    if (g->has_bias)
        v[n++] = (op_buffer_t){.host = fill(bias, line * td_type_bytes(bias), 5), .bytes = line * td_type_bytes(bias)};
    const bool has[] = {g->has_a_scale, g->has_b_scale, g->has_c_scale, g->has_d_scale};
    for (int i = 0; i < 4; i++) {
        scales[i][0] = (float)(1 << i) / 2;
        if (has[i]) v[n++] = (op_buffer_t){.host = memcpy(malloc(4), scales[i], 4), .bytes = 4};
    }
    if (g->has_aux) v[n++] = (op_buffer_t){.host = fill(g->d.type, bytes_of(&g->d), 9), .bytes = bytes_of(&g->d)};
    if (g->has_amax) v[n++] = (op_buffer_t){.host = calloc(1, 4), .bytes = 4};
    return n;
}
static void drop(op_buffer_t *v, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) free(v[i].host);
}
static void check_product(const td_gemm_desc_t *g, bool in_place, uint32_t shift, const char *what) {
    op_buffer_t v[OP_BUFFERS];
    uint32_t n = buffers(g, v, in_place);
    v[0].shift = shift;
    op_same(TD_OP_GEMM, g, v, n, what);
    drop(v, n);
}

/* ---- all that works ---- */
static const struct { td_type_t a, b, d; } types[] = {
    {TD_F32, TD_F32, TD_F32}, {TD_F64, TD_F64, TD_F64}, {TD_F16, TD_F16, TD_F16}, {TD_BF16, TD_BF16, TD_BF16},
    {TD_F16, TD_F16, TD_F32}, {TD_BF16, TD_BF16, TD_F32}, {TD_C64, TD_C64, TD_C64}, {TD_C128, TD_C128, TD_C128},
    {TD_S8, TD_S8, TD_S32}, {TD_S8, TD_S8, TD_F32}};
START_TEST(test_types_and_orders) {
    char what[64];
    op_open();
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int order = 0; order < 8; order++)
            for (int batch = 1; batch <= 3; batch += 2) {
                td_gemm_desc_t g = product(types[t].a, types[t].b, types[t].d, order, batch);
                bool complex_ = td_type_is_complex(g.d.type);
                snprintf(what, sizeof what, "types %zu, order %d, %d times", t, order, batch);
                check_product(&g, false, 0, what);
                g.beta = 2, g.alpha_real = 3, g.alpha_imag = complex_ ? -1 : 0;
                check_product(&g, order & 1, 0, what);
                g.conjugate_a = complex_ && (order & 1) != (order & 4) >> 2;
                g.conjugate_b = complex_ && (order & 2) >> 1 != (order & 4) >> 2;
                if (batch > 1) g.a.batch_stride = 0; /* one for all */
                check_product(&g, false, 0, what);
            }
    op_close();
}
END_TEST

START_TEST(test_epilogues) {
    static const td_epilogue_t all[] = {TD_EPI_RELU, TD_EPI_BIAS, TD_EPI_BIAS_RELU, TD_EPI_GELU, TD_EPI_GELU_AUX,
                                        TD_EPI_BIAS_GELU, TD_EPI_BIAS_GELU_AUX};
    op_open();
    for (size_t e = 0; e < sizeof all / sizeof *all; e++)
        for (int k = 0; k < 8; k++) {
            td_type_t in = k & 1 ? TD_BF16 : TD_F32;
            td_gemm_desc_t g = product(in, in, k & 2 ? TD_F32 : in, k & 4, 1 + 2 * (k & 1));
            g.epilogue = all[e], g.beta = k & 1 ? 1 : 0;
            g.has_bias = all[e] == TD_EPI_BIAS || all[e] == TD_EPI_BIAS_RELU || all[e] >= TD_EPI_BIAS_GELU;
            g.has_aux = all[e] == TD_EPI_GELU_AUX || all[e] == TD_EPI_BIAS_GELU_AUX;
            if (g.has_bias && k & 1 && k & 2) g.bias_type = TD_BF16;
            check_product(&g, false, 0, "epilogue");
        }
    td_gemm_desc_t wide = product(TD_F64, TD_F64, TD_F64, 0, 1), whole = product(TD_S8, TD_S8, TD_F32, 0, 1);
    op_t o;
    wide.epilogue = whole.epilogue = TD_EPI_BIAS_RELU, wide.has_bias = whole.has_bias = true;
    check_product(&wide, false, 0, "f64");
    ck_assert_int_eq(op_lower(&o, gpu, TD_OP_GEMM, &whole), TD_UNSUPPORTED);
    op_close();
}
END_TEST

/* 8-bit floats: K lies innermost in both operands; A's and B's scales change places with a row-major D. */
START_TEST(test_f8) {
    static const struct { td_type_t a, b, d, c; } v[] = {
        {TD_F8E4M3FN, TD_F8E4M3FN, TD_BF16, TD_BF16}, {TD_F8E4M3FN, TD_F8E5M2, TD_F16, TD_F16},
        {TD_F8E5M2, TD_F8E4M3FN, TD_F32, TD_F32}, {TD_F8E4M3FN, TD_F8E4M3FN, TD_F8E4M3FN, TD_BF16},
        {TD_F8E5M2, TD_F8E4M3FN, TD_F8E5M2, TD_F16}};
    op_open();
    for (size_t i = 0; i < sizeof v / sizeof *v; i++)
        for (int k = 0; k < 4; k++) {
            bool eight = td_type_bytes(v[i].d) == 1;
            td_gemm_desc_t g = product(v[i].a, v[i].b, v[i].d, k & 1 ? 6 : 2, 1);
            g.c.type = v[i].c;
            g.has_a_scale = true, g.has_b_scale = k & 2, g.has_d_scale = g.has_amax = eight, g.fast_sums = true;
            if (k & 2) g.epilogue = TD_EPI_BIAS, g.has_bias = true, g.bias_type = v[i].c;
            if (k & 2 && !eight) g.beta = 1;
            if (eight && k & 2) g.beta = 0.5;
            op_buffer_t b[OP_BUFFERS];
            if (g.beta == 0) g.c = g.d;
            uint32_t n = buffers(&g, b, false);
            op_same(TD_OP_GEMM, &g, b, n, "8-bit floats");
            drop(b, n);
        }
    td_gemm_desc_t g = product(TD_F8E4M3FN, TD_F8E4M3FN, TD_BF16, 0, 1);
    op_t o;
    ck_assert_int_eq(op_lower(&o, gpu, TD_OP_GEMM, &g), TD_UNSUPPORTED);
    ck_assert_msg(strstr(err.text, "no algorithm for it on Stand-in 9.0"), "%s", err.text);
    op_close();
}
END_TEST

START_TEST(test_alignment) { /* a second algorithm for slices that lie anywhere */
    op_open();
    td_gemm_desc_t g = product(TD_F32, TD_F32, TD_F32, 0, 1);
    check_product(&g, false, 4, "at a multiple of 4");
    td_gemm_desc_t f = product(TD_F8E4M3FN, TD_F8E4M3FN, TD_BF16, 2, 1);
    op_buffer_t v[OP_BUFFERS];
    uint32_t n = buffers(&f, v, false);
    op_t o;
    v[0].shift = 4;
    ck_assert_int_eq(op_lower(&o, gpu, TD_OP_GEMM, &f), 0);
    op_up(v, n);
    ck_assert_int_eq(op_launch(&o, v, n), TD_UNSUPPORTED);
    ck_assert_msg(strstr(err.text, "multiples of 16 bytes") != NULL, "%s", err.text);
    op_down(v, n);
    op_free(v, n);
    op_release(&o, gpu);
    drop(v, n);
    op_close();
}
END_TEST

START_TEST(test_edges) {
    op_open();
    td_gemm_desc_t g = product(TD_BF16, TD_BF16, TD_BF16, 0, 1);
    g.a.rows = g.c.rows = g.d.rows = 0; /* empty */
    g.has_amax = true;
    float amax = 7;
    op_buffer_t v[5] = {{0}, {0}, {0}, {0}, {.host = &amax, .bytes = 4}};
    op_t o;
    ck_assert_msg(!op_lower(&o, gpu, TD_OP_GEMM, &g), "%s", err.text);
    ck_assert_uint_eq(o.scratch_bytes, 0);
    op_up(v, 5);
    ck_assert_int_eq(op_launch(&o, v, 5), 0);
    op_down(v, 5);
    ck_assert_float_eq(amax, 0);
    op_free(v, 5);
    op_release(&o, gpu);
    /* lines: their leading dimension says nothing, and C may lie either way */
    for (int k = 0; k < 4; k++) {
        td_gemm_desc_t l = product(TD_F32, TD_F32, TD_F32, k & 1 ? 4 : 0, 1);
        if (k & 2) l.a.rows = l.c.rows = l.d.rows = 1, l.c.ld = l.c.column_major ? 1 : N;
        else l.b.cols = l.c.cols = l.d.cols = 1, l.c.ld = l.c.column_major ? M : 1, l.b.ld = l.b.cols;
        l.c.column_major = !l.c.column_major;
        l.c.ld = l.c.column_major ? l.c.rows : l.c.cols;
        l.d.ld = l.d.column_major ? l.d.rows : l.d.cols;
        l.a.ld = k & 2 ? 1 : l.a.ld;
        l.beta = 1;
        check_product(&l, false, 0, "a line");
    }
    op_close();
}
END_TEST

/* ---- choices ---- */
static uint64_t scratch_of(int64_t algorithm, uint64_t workspace) {
    td_gemm_desc_t g = product(TD_F32, TD_F32, TD_F32, 0, 1);
    g.algorithm = algorithm, g.workspace = workspace;
    op_t o;
    ck_assert_msg(!op_lower(&o, gpu, TD_OP_GEMM, &g), "%s", err.text);
    uint64_t n = o.scratch_bytes;
    op_release(&o, gpu);
    return n;
}
START_TEST(test_algorithm) { /* the stand-in's that work: 16 KiB, none, 1 MiB */
    op_open();
    ck_assert_uint_eq(scratch_of(0, 0), (1 << 14) + 256);
    ck_assert_uint_eq(scratch_of(1, 0), 0);
    ck_assert_uint_eq(scratch_of(2, 0), (1 << 20) + 256);
    ck_assert_uint_eq(scratch_of(3, 0), (1 << 14) + 256); /* no such number: the first */
    ck_assert_uint_eq(scratch_of(2, 1 << 16), (1 << 14) + 256);
    ck_assert_uint_eq(scratch_of(0, 1), 0); /* what needs no workspace */
    op_close();
}
END_TEST

START_TEST(test_refused) {
    static const char *const words[] = {
        "SiLU", "has no u8", "conjugates only", "lie differently", "sums of nothing", "no algorithm"};
    op_open();
    for (int i = 0; i < 6; i++) {
        td_gemm_desc_t g = product(TD_C64, TD_C64, TD_C64, 0, 1);
        if (i == 0) g = product(TD_F32, TD_F32, TD_F32, 0, 1), g.epilogue = TD_EPI_SILU;
        if (i == 1) g.a.type = TD_U8;
        if (i == 2) g.conjugate_a = true;
        if (i == 3) g.beta = 1, g.c = matrix(TD_C64, true, M, N, 1);
        if (i == 4) g.a.cols = g.b.rows = 0;
        if (i == 5) g.a.type = TD_F32;
        op_t o;
        ck_assert_int_eq(op_lower(&o, gpu, TD_OP_GEMM, &g), TD_UNSUPPORTED);
        ck_assert_msg(strstr(err.text, words[i]) != NULL, "%d: %s", i, err.text);
    }
    op_close();
}
END_TEST

/* ---- mistakes made on purpose ---- */
static void mistake(int which, td_cuda_gemm_t *g, op_buffer_t *v) {
    switch (which) {
    case 0: g->choices[0].workspace = 1000; break;
    case 1: g->choices[0].algo.data[1]++; break;
    case 2: g->n_pointers = 0; break;
    case 3: v[0].device = v[3].device; break; /* D over A */
    case 4: v[1].device = (char *)v[1].device + 8, g->choices[1] = g->choices[0]; break;
    default: break;
    }
}
START_TEST(test_mistakes) {
    static const struct {
        const char *kind, *word;
    } v[] = {{"bad-arguments", "too small a workspace"},
             {"bad-arguments", "for another product"},
             {"bad-pointer", "range 4"},
             {"bad-arguments", "D lies over"},
             {"bad-arguments", "alignment"}};
    op_open();
    td_gemm_desc_t g = product(TD_F32, TD_F32, TD_F32, 0, 1);
    g.epilogue = TD_EPI_BIAS, g.has_bias = true;
    op_buffer_t b[OP_BUFFERS];
    uint32_t n = buffers(&g, b, false);
    b[3] = (op_buffer_t){.host = fill(TD_F32, b[2].bytes, 3), .bytes = b[2].bytes};
    op_t o;
    ck_assert_int_eq(op_lower(&o, gpu, TD_OP_GEMM, &g), 0);
    op_up(b, n);
    op_buffer_t wrong[OP_BUFFERS];
    memcpy(wrong, b, sizeof b);
    mistake(_i, (td_cuda_gemm_t *)o.kernel, wrong);
    ck_assert_int_eq(op_launch(&o, wrong, n), TD_DEVICE);
    op_expect(v[_i].kind, v[_i].word);
    (void)gpu->ops->stream_sync(stream, &err);
    op_free(b, n);
    op_release(&o, gpu);
    drop(b, n);
    op_close();
}
END_TEST

START_TEST(test_missing_wait) {
    td_stream_t *other = NULL;
    op_open();
    td_gemm_desc_t g = product(TD_F32, TD_F32, TD_F32, 0, 1);
    op_buffer_t b[OP_BUFFERS];
    uint32_t n = buffers(&g, b, false);
    op_t o;
    ck_assert_int_eq(op_lower(&o, gpu, TD_OP_GEMM, &g), 0);
    op_up(b, n);
    ck_assert_int_eq(gpu->ops->stream_sync(stream, &err), 0);
    ck_assert_int_eq(op_launch(&o, b, n), 0);
    ck_assert_int_eq(gpu->ops->stream_create(gpu, TD_STREAM_COMPUTE, &other, &err), 0);
    void *bufs[] = {b[0].device, b[1].device, b[2].device, b[2].device};
    void *scratch = NULL;
    ck_assert_int_eq(gpu->ops->mem_get(gpu, o.scratch_bytes, &scratch, &err), 0);
    ck_assert_int_eq(gpu->ops->launch(other, o.kernel, bufs, n, scratch, &err), 0);
    op_expect("race", "cublasLtMatmul (argument 3, written)");
    ck_assert_int_eq(gpu->ops->stream_sync(other, &err), 0);
    op_down(b, n);
    gpu->ops->mem_put(gpu, scratch, o.scratch_bytes);
    gpu->ops->stream_destroy(other);
    op_free(b, n);
    op_release(&o, gpu);
    drop(b, n);
    op_close();
}
END_TEST

/* Every call of the library fails once while a product is loaded: an error, and nothing is left. */
START_TEST(test_failures) {
    static const struct {
        const char *call; int times;
    } v[] = {{"cublasLtCreate", 1},
             {"cublasLtMatmulDescCreate", 1},
             {"cublasLtMatmulDescSetAttribute", 4},
             {"cublasLtMatrixLayoutCreate", 4},
             {"cublasLtMatrixLayoutSetAttribute", 8},
             {"cublasLtMatmulPreferenceCreate", 1},
             {"cublasLtMatmulPreferenceSetAttribute", 5},
             {"cublasLtMatmulAlgoGetHeuristic", 1}};
    char fail[80];
    int k = _i;
    size_t i = 0;
    while (k >= v[i].times) k -= v[i++].times;
    snprintf(fail, sizeof fail, "%s:%d:3", v[i].call, k + 1);
    setenv("FAKECUDA_FAIL", fail, 1);
    op_open();
    td_gemm_desc_t g = product(TD_F32, TD_F32, TD_F32, 0, 2);
    g.epilogue = TD_EPI_BIAS_GELU, g.has_bias = true;
    op_t o;
    ck_assert_msg(op_lower(&o, gpu, TD_OP_GEMM, &g) == TD_NOMEM, "%s: %s", fail, err.text);
    ck_assert_msg(strstr(err.text, v[i].call) != NULL, "%s: %s", fail, err.text);
    ck_assert_msg(!op_lower(&o, gpu, TD_OP_GEMM, &g), "%s: %s", fail, err.text); /* the next time it works */
    op_release(&o, gpu);
    op_close();
}
END_TEST
START_TEST(test_launch_failure) {
    setenv("FAKECUDA_FAIL", "cublasLtMatmul:1:13", 1);
    op_open();
    td_gemm_desc_t g = product(TD_F32, TD_F32, TD_F32, 0, 1);
    op_buffer_t b[OP_BUFFERS];
    uint32_t n = buffers(&g, b, false);
    op_t o;
    ck_assert_int_eq(op_lower(&o, gpu, TD_OP_GEMM, &g), 0);
    op_up(b, n);
    ck_assert_int_eq(op_launch(&o, b, n), TD_DEVICE);
    ck_assert_msg(strstr(err.text, "matrix product f32[32,16] x f32[16,48] -> f32: cublasLtMatmul") != NULL, "%s",
                  err.text);
    op_down(b, n);
    op_free(b, n);
    op_release(&o, gpu);
    drop(b, n);
    op_close();
}
END_TEST

int main(void) {
    Suite *s = suite_create("cuda_gemm");
    TCase *t = tcase_create("all");
    tcase_add_checked_fixture(t, setup, NULL);
    tcase_add_test(t, test_types_and_orders);
    tcase_add_test(t, test_epilogues);
    tcase_add_test(t, test_f8);
    tcase_add_test(t, test_alignment);
    tcase_add_test(t, test_edges);
    tcase_add_test(t, test_algorithm);
    tcase_add_test(t, test_refused);
    tcase_add_loop_test(t, test_mistakes, 0, 5);
    tcase_add_test(t, test_missing_wait);
    tcase_add_loop_test(t, test_failures, 0, 25);
    tcase_add_test(t, test_launch_failure);
    tcase_set_timeout(t, 60);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
