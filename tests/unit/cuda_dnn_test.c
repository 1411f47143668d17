/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions and layer norms on the CUDA device through the stand-in for cuDNN: what the host device computes, for
 * every type, layout, kind and activation; which engine is taken; what is refused when a program is loaded; and
 * mistakes that the stand-in must notice, made on purpose. */
#include "runtime/cuda/dnn.h"
#include "runtime/host/host_op.h"
#include "tests/unit/cuda_dnn_case.h"
#include "tests/unit/cuda_op_case.h"

enum { WORKSPACE = 1 << 14, ROOM = 256 }; /* of the stand-in's first engine; to align it */
static const dnn_conv_t small = {
    .type = TD_F32, .n = 2, .batch = 2, .in = 4, .out = 6, .size = 7, .window = 3, .pad = 1};

static void setup(void) {
    op_library("libcuda.so.1");
    op_library("libcudnn.so.9");
}

/* ---- buffers ---- */
/* Small numbers, so that sums are exact in any order. */
static op_buffer_t fill(td_type_t type, int64_t count, uint32_t seed) {
    uint64_t n = (uint64_t)count, bytes = n * td_type_bytes(type);
    float *f = malloc((n + 1) * sizeof *f);
    void *p = calloc(1, bytes + 16);
    for (uint64_t i = 0; i < n; i++)
        seed = seed * 1664525u + 1013904223u, f[i] = (float)((int)(seed >> 24) % 9 - 4) / (type == TD_S8 ? 1 : 2);
    if (type == TD_S8)
        for (uint64_t i = 0; i < n; i++) ((int8_t *)p)[i] = (int8_t)f[i];
    else
        td_convert_array(TD_F32, f, type, p, n);
    free(f);
    return (op_buffer_t){.host = p, .bytes = bytes};
}
static void drop(op_buffer_t *v, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) free(v[i].host);
}
static uint32_t conv_buffers(const td_conv_desc_t *d, op_buffer_t *v) {
    uint32_t n = 3;
    memset(v, 0, OP_BUFFERS * sizeof *v);
    v[0] = fill(d->x.type, d->x.count, 1), v[1] = fill(d->w.type, d->w.count, 2), v[2] = fill(d->y.type, d->y.count, 3);
    if (d->has_bias) v[n++] = fill(d->bias, d->y.feature, 4);
    if (d->has_side) v[n++] = fill(d->side, d->y.count, 5);
    return n;
}
static void check_conv(const td_conv_desc_t *d, const char *what) {
    op_buffer_t v[OP_BUFFERS];
    uint32_t n = conv_buffers(d, v);
    op_same(TD_OP_CONV, d, v, n, what);
    drop(v, n);
}
static uint64_t scratch_of(const td_conv_desc_t *d) {
    op_t o;
    ck_assert_msg(!op_lower(&o, gpu, TD_OP_CONV, d), "%s", err.text);
    uint64_t n = o.scratch_bytes;
    op_release(&o, gpu);
    return n;
}

/* ---- convolutions ---- */
START_TEST(test_kinds)
{
    static const td_type_t types[] = {TD_F32, TD_F64, TD_F16, TD_BF16};
    char what[80];
    op_open();
    for (int i = 0; i < 4 * 2 * 3 * 3; i++) {
        dnn_conv_t c = small;
        c.type = types[i % 4], c.order = (dnn_order_t)(i / 4 % 2), c.kind = (td_conv_kind_t)(i / 8 % 3),
        c.n = 1 + (uint32_t)(i / 24);
        td_conv_desc_t d = dnn_conv(&c);
        snprintf(what, sizeof what, "%s, order %d, kind %d, %u dimensions", td_type_name(c.type), c.order, c.kind, c.n);
        check_conv(&d, what);
        c.groups = 2, c.stride = 2, c.dilation = 2, c.pad = 2;
        d = dnn_conv(&c);
        check_conv(&d, what);
        for (uint32_t k = 0; k < d.n; k++) d.window[k].reversal = true;
        check_conv(&d, what);
    }
    op_close();
}
END_TEST

START_TEST(test_shapes)
{ /* padding on one side, no spatial dimension, depthwise */
    op_open();
    td_conv_desc_t d = dnn_conv(&small);
    d.window[0].pad_high = 0, d.y.spatial[0]--;
    d.y = dnn_array(TD_F32, DNN_FIRST, d.y.outer, d.y.feature, d.n, d.y.spatial, 1);
    check_conv(&d, "one-sided padding");
    for (int order = 0; order < 2; order++) {
        dnn_conv_t c = small;
        c.n = 0, c.order = (dnn_order_t)order;
        d = dnn_conv(&c);
        check_conv(&d, "no spatial dimension");
        c = small;
        c.groups = c.in = 4, c.out = 8, c.order = (dnn_order_t)order;
        d = dnn_conv(&c);
        check_conv(&d, "depthwise");
    }
    op_close();
}
END_TEST

START_TEST(test_fused)
{
    static const td_type_t types[] = {TD_F32, TD_F64, TD_F16, TD_BF16};
    static const td_activation_t all[] = {TD_ACT_NONE,       TD_ACT_RELU,    TD_ACT_RELU6, TD_ACT_ELU,
                                          TD_ACT_LEAKY_RELU, TD_ACT_SIGMOID, TD_ACT_TANH,  TD_ACT_GELU};
    static const double scales[][2] = {{1, 0}, {0.5, 0}, {1, 1}, {2, 0.5}};
    char what[80];
    op_open();
    for (int i = 0; i < 4 * 8 * 4; i++) {
        dnn_conv_t c = small;
        c.type = types[i % 4], c.order = (dnn_order_t)(i / 4 % 2);
        td_conv_desc_t d = dnn_fuse(dnn_conv(&c), all[i / 4 % 8], scales[i / 32][0], scales[i / 32][1]);
        snprintf(what, sizeof what, "%s, order %d, activation %d, scales %d", td_type_name(c.type), c.order,
                 d.activation, i / 32);
        check_conv(&d, what);
        d.has_bias = false;
        check_conv(&d, what);
    }
    op_close();
}
END_TEST

/* Features in blocks of 4 and 32, results of s8 and f32, filters that were permuted. */
START_TEST(test_s8)
{
    op_open();
    for (int i = 0; i < 3 * 2 * 2; i++) {
        dnn_conv_t c = small;
        c.type = TD_S8, c.in = 64, c.out = 32, c.vector = i % 3 == 0 ? 1 : i % 3 == 1 ? 4 : 32;
        td_conv_desc_t d = dnn_conv(&c);
        if (i / 3 % 2) d.y.type = TD_F32;
        if (i / 6) d = dnn_fuse(d, TD_ACT_RELU, 0.125, i / 3 % 2 ? 0 : 0.5);
        check_conv(&d, "s8");
        if (c.vector != 32 || !d.fused) continue;
        d.reordered = true;
        check_conv(&d, "s8, reordered");
    }
    op_close();
}
END_TEST
START_TEST(test_reorder)
{
    op_open();
    for (int bias = 0; bias < 2; bias++) {
        td_conv_desc_t d = {
            .kind = TD_CONV_REORDER, .n = 2, .groups = 1, .batch_groups = 1, .has_bias = bias, .bias = TD_F32};
        d.w = (td_conv_array_t){
            .type = TD_S8, .count = 64 * 32 * 6, .outer = 64, .feature = 32, .vector = 32, .spatial = {2, 3}};
        op_buffer_t v[OP_BUFFERS] = {fill(TD_S8, d.w.count, 1), fill(TD_S8, d.w.count, 2), fill(TD_F32, 64, 3),
                                     fill(TD_F32, 64, 4)};
        op_same(TD_OP_CONV, &d, v, bias ? 4 : 2, "reordering");
        drop(v, 4);
    }
    op_close();
}
END_TEST

START_TEST(test_empty)
{ /* no result; sums of nothing */
    op_open();
    dnn_conv_t c = small;
    c.batch = 0;
    td_conv_desc_t d = dnn_conv(&c);
    check_conv(&d, "no result");
    d.kind = TD_CONV_BACKWARD_FILTER;
    op_buffer_t v[OP_BUFFERS];
    uint32_t n = conv_buffers(&d, v);
    op_t o;
    ck_assert_int_eq(op_lower(&o, gpu, TD_OP_CONV, &d), 0);
    op_up(v, n);
    ck_assert_int_eq(op_launch(&o, v, n), 0);
    op_down(v, n);
    for (uint64_t i = 0; i < v[1].bytes; i++) ck_assert_uint_eq(((uint8_t *)v[1].host)[i], 0);
    op_free(v, n);
    op_release(&o, gpu);
    drop(v, n);
    op_close();
}
END_TEST

/* ---- norms ---- */
static void check_norm(const td_norm_desc_t *d) {
    op_buffer_t v[OP_BUFFERS];
    int64_t all = d->rows * d->cols;
    uint32_t n = 4;
    v[0] = fill(d->x, all, 1), v[1] = fill(d->scale, d->cols, 2);
    if (d->backward) {
        v[2] = fill(d->dy, all, 3), v[3] = fill(TD_F32, d->rows, 4), v[4] = fill(TD_F32, d->rows, 5);
        v[5] = fill(d->y, all, 6), v[6] = fill(d->dscale, d->cols, 7), v[7] = fill(d->dbias, d->cols, 8);
        n = 8;
    } else {
        v[2] = fill(d->bias, d->cols, 3), v[3] = fill(d->y, all, 4);
        if (d->training) v[n++] = fill(TD_F32, d->rows, 5), v[n++] = fill(TD_F32, d->rows, 6);
    }
    op_same(TD_OP_NORM, d, v, n, "norm");
    drop(v, n);
}
START_TEST(test_norm)
{
    static const td_type_t types[][2] = {{TD_F32, TD_F32}, {TD_BF16, TD_BF16}, {TD_BF16, TD_F32}, {TD_F16, TD_F32}};
    op_open();
    for (int i = 0; i < 4 * 4; i++) {
        td_norm_desc_t d = dnn_norm(types[i % 4][0], types[i % 4][1], 5, 24);
        d.training = i / 4 == 1, d.has_bias = i / 4 != 2, d.backward = i / 4 == 3;
        check_norm(&d);
    }
    td_norm_desc_t none = dnn_norm(TD_F32, TD_F32, 0, 24);
    check_norm(&none);
    op_close();
}
END_TEST

/* ---- which engine ---- */
START_TEST(test_engine)
{ /* the stand-in's list: narrow, varying, without a plan, TF32 with a workspace, plain */
    op_open();
    td_conv_desc_t d = dnn_conv(&small);
    ck_assert_uint_eq(scratch_of(&d), WORKSPACE + ROOM);
    d.exact = true;
    ck_assert_uint_eq(scratch_of(&d), 0);
    d.exact = false, d.has_algorithm = true, d.algorithm = 3; /* the compiler's choice */
    d.n_knobs = 2, d.knobs[0] = (td_conv_knob_t){2, 5}, d.knobs[1] = (td_conv_knob_t){14, 3};
    ck_assert_uint_eq(scratch_of(&d), 0);
    check_conv(&d, "a given engine");
    d.algorithm = 1; /* which has no plan here */
    ck_assert_uint_eq(scratch_of(&d), WORKSPACE + ROOM);
    d.algorithm = 77; /* nor is there such a one */
    ck_assert_uint_eq(scratch_of(&d), WORKSPACE + ROOM);
    check_conv(&d, "an engine that is not there");
    op_close();
}
END_TEST

START_TEST(test_refused)
{
    static const char *const words[] = {"no batch groups",
                                        "gaps in its input",
                                        "cuts nothing off",
                                        "some dimensions of the window",
                                        "cuDNN has no u8",
                                        "up to 3 spatial",
                                        "more to do with them",
                                        "activation 4",
                                        "CUDNN_STATUS_NOT_SUPPORTED (3000): data type"};
    op_open();
    for (int i = 0; i < 9; i++) {
        dnn_conv_t c = small;
        if (i == 4) c.type = TD_U8;
        if (i == 8) c.type = TD_F8E4M3FN;
        if (i == 5) c.n = 4;
        if (i == 6) c.in = 0;
        td_conv_desc_t d = dnn_conv(&c);
        if (i == 0) d.batch_groups = 2;
        if (i == 1) d.window[1].base_dilation = 2;
        if (i == 2) d.window[0].pad_low = -1;
        if (i == 3) d.window[1].reversal = true;
        if (i == 6) d = dnn_fuse(d, TD_ACT_RELU, 1, 0);
        if (i == 7) d = dnn_fuse(d, (td_activation_t)4, 1, 0);
        op_t o;
        ck_assert_int_eq(op_lower(&o, gpu, TD_OP_CONV, &d), TD_UNSUPPORTED);
        ck_assert_msg(strstr(err.text, words[i]) != NULL, "%d: %s", i, err.text);
    }
    op_close();
}
END_TEST

START_TEST(test_unaligned)
{
    op_open();
    td_conv_desc_t d = dnn_conv(&small);
    op_buffer_t v[OP_BUFFERS];
    uint32_t n = conv_buffers(&d, v);
    op_t o;
    v[1].shift = 4;
    ck_assert_int_eq(op_lower(&o, gpu, TD_OP_CONV, &d), 0);
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

START_TEST(test_memory_ends)
{ /* every call that makes something fails once: nothing is left behind */
    static const char *const calls[] = {"cudnnBackendCreateDescriptor", "cudnnBackendFinalize",
                                        "cudnnBackendGetAttribute"};
    char text[80];
    snprintf(text, sizeof text, "%s:%d:4003", calls[_i % 3], 1 + _i / 3);
    setenv("FAKECUDA_FAIL", text, 1);
    op_open();
    td_conv_desc_t d = dnn_fuse(dnn_conv(&small), TD_ACT_RELU, 2, 0.5);
    op_t o;
    td_status_t st = op_lower(&o, gpu, TD_OP_CONV, &d);
    if (!st)
        op_release(&o, gpu);
    else
        ck_assert_msg(st == TD_NOMEM || st == TD_UNSUPPORTED, "%d: %s", (int)st, err.text);
    op_close();
}
END_TEST

/* ---- mistakes made on purpose ---- */
static void mistake(int which, td_dnn_kernel_t *k, op_buffer_t *v) {
    switch (which) {
    case 0: k->workspace = 0; break;
    case 1: k->n_tensors--; break;                                      /* one without an address */
    case 2: v[2].device = (char *)v[0].device + 16; break;              /* the result partly over an input */
    case 3: v[1].device = (char *)v[1].device + v[1].bytes - 64; break; /* the filter ends behind its memory */
    default: break;
    }
}
START_TEST(test_mistakes)
{
    static const struct {
        const char *kind, *word;
    } v[] = {{"bad-arguments", "no workspace"},
             {"bad-arguments", "no address for tensor"},
             {"bad-arguments", "partly over"},
             {"out-of-bounds", "range 1"}};
    op_open();
    dnn_conv_t c = small;
    if (_i == 3) c.in = 64, c.out = 2048; /* the filter is larger than blocks of small memory */
    td_conv_desc_t d = dnn_conv(&c);
    op_buffer_t b[OP_BUFFERS], wrong[OP_BUFFERS];
    uint32_t n = conv_buffers(&d, b);
    op_t o;
    ck_assert_int_eq(op_lower(&o, gpu, TD_OP_CONV, &d), 0);
    op_up(b, n);
    memcpy(wrong, b, sizeof b);
    mistake(_i, (td_dnn_kernel_t *)o.kernel, wrong);
    ck_assert_int_ne(op_launch(&o, wrong, n), 0);
    op_expect(v[_i].kind, v[_i].word);
    (void)gpu->ops->stream_sync(stream, &err);
    op_free(b, n);
    op_release(&o, gpu);
    drop(b, n);
    op_close();
}
END_TEST

START_TEST(test_missing_wait)
{
    td_stream_t *other = NULL;
    void *scratch = NULL;
    op_open();
    td_conv_desc_t d = dnn_conv(&small);
    op_buffer_t b[OP_BUFFERS];
    uint32_t n = conv_buffers(&d, b);
    op_t o;
    ck_assert_int_eq(op_lower(&o, gpu, TD_OP_CONV, &d), 0);
    op_up(b, n);
    ck_assert_int_eq(gpu->ops->stream_sync(stream, &err), 0);
    ck_assert_int_eq(op_launch(&o, b, n), 0);
    ck_assert_int_eq(gpu->ops->stream_create(gpu, TD_STREAM_COMPUTE, &other, &err), 0);
    ck_assert_int_eq(gpu->ops->mem_get(gpu, o.scratch_bytes, &scratch, &err), 0);
    void *bufs[] = {b[0].device, b[1].device, b[2].device};
    ck_assert_int_eq(gpu->ops->launch(other, o.kernel, bufs, n, scratch, &err), 0);
    op_expect("race", "cudnnBackendExecute (argument 2, written)");
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

/* The pack of the latest launch serves again while the addresses are the same. */
START_TEST(test_launches)
{
    op_open();
    td_conv_desc_t d = dnn_conv(&small);
    op_buffer_t b[OP_BUFFERS];
    uint32_t n = conv_buffers(&d, b);
    op_t o;
    ck_assert_int_eq(op_lower(&o, gpu, TD_OP_CONV, &d), 0);
    op_up(b, n);
    uint64_t before = op_ask("fakecuda_calls", "cudnnBackendCreateDescriptor");
    for (int i = 0; i < 5; i++) ck_assert_int_eq(op_launch(&o, b, n), 0);
    ck_assert_uint_eq(op_ask("fakecuda_calls", "cudnnBackendCreateDescriptor"), before + 1);
    op_down(b, n);
    op_free(b, n);
    op_release(&o, gpu);
    drop(b, n);
    op_close();
}
END_TEST

int main(void) {
    Suite *s = suite_create("cuda_dnn");
    TCase *t = tcase_create("cuda_dnn");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, NULL);
    tcase_add_test(t, test_kinds);
    tcase_add_test(t, test_shapes);
    tcase_add_test(t, test_fused);
    tcase_add_test(t, test_s8);
    tcase_add_test(t, test_reorder);
    tcase_add_test(t, test_empty);
    tcase_add_test(t, test_norm);
    tcase_add_test(t, test_engine);
    tcase_add_test(t, test_refused);
    tcase_add_test(t, test_unaligned);
    tcase_add_loop_test(t, test_memory_ends, 0, 60);
    tcase_add_loop_test(t, test_mistakes, 0, 4);
    tcase_add_test(t, test_missing_wait);
    tcase_add_test(t, test_launches);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
