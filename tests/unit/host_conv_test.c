/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions of the host device, each by the direct path and by oneDNN where that applies. Expected values:
 * numpy, by loops over outputs and taps (gradients: by the map's columns), activations by scipy.special; inputs are
 * pattern(a, m, o): element i = (i * a) mod m - o. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/host/conv.h"

static td_arena_t arena;
static void setup(void) { td_arena_init(&arena, td_alloc_default(), 0); }
static void teardown(void) { td_arena_deinit(&arena); }

#define DIMS(...) (sizeof((int64_t[]){0, ##__VA_ARGS__}) / 8 - 1), (const int64_t[]){0, ##__VA_ARGS__} + 1
#define INTS(...) ((td_ints_t){(const int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / 8})
#define N(v) (sizeof(v) / sizeof *(v))

static const td_shape_t *shape(td_type_t t, size_t rank, const int64_t *dims) {
    const td_shape_t *s = NULL;
    ck_assert_int_eq(td_shape_make(&arena, t, (uint32_t)rank, dims, NULL, &s, NULL), TD_OK);
    return s;
}
static void pattern(double *v, int n, int a, int m, int o) {
    for (int i = 0; i < n; i++) v[i] = i * a % m - o;
}
static void *buffer(const td_shape_t *s, const double *v) {
    void *p = td_arena_align(&arena, (size_t)s->count * 16 + 64, 64);
    memset(p, 0x5a, (size_t)s->count * 16 + 64);
    if (v) td_convert_array(TD_F64, v, s->type, p, (size_t)s->count);
    return p;
}

typedef struct conv {
    td_conv_desc_t d;
    td_conv_dims_t dims;
    const td_shape_t *x, *w, *y;
    td_conv_bufs_t b;
} conv_t;

/* Channels last, filter [O, spatial, I]. */
static td_conv_dims_t last(uint32_t n) {
    static const int64_t spatial[3] = {1, 2, 3};
    return (td_conv_dims_t){0, n + 1, n + 1, 0, 0, n + 1, {spatial, n}, {spatial, n}, {spatial, n}};
}

static td_status_t describe(conv_t *c, uint32_t n, const td_window_dim_t *window, td_err_t *err) {
    td_status_t st;
    if (!c->d.groups) c->d.groups = 1;
    if (!c->d.batch_groups) c->d.batch_groups = 1;
    if ((st = td_conv_set_window(&c->d, window, n, err)) ||
        (st = td_conv_set_array(&c->d, TD_CONV_X, c->x, &c->dims, err)) ||
        (st = td_conv_set_array(&c->d, TD_CONV_W, c->w, &c->dims, err)) ||
        (st = td_conv_set_array(&c->d, TD_CONV_Y, c->y, &c->dims, err)))
        return st;
    return td_conv_check(&c->d, err);
}

/* Runs it, with the filter packed beforehand if `packed`, and compares the n results within eps. */
static void expect(conv_t *c, bool library, bool packed, const double *want, int n, double eps) {
    td_conv_plan_t *p = NULL;
    uint64_t scratch = 0;
    td_err_t err = {0};
    double got[256];
    const td_shape_t *s = c->d.kind == TD_CONV_BACKWARD_DATA     ? c->x
                          : c->d.kind == TD_CONV_BACKWARD_FILTER ? c->w
                                                                 : c->y;
    ck_assert_msg(td_conv_plan_make(&c->d, library, &arena, &p, &scratch, &err) == TD_OK, "%s", err.text);
    void *tmp = td_arena_align(&arena, scratch + 64, 64),
         *pack = td_arena_align(&arena, td_conv_packed_bytes(p) + 64, 64);
    memset(tmp, 0xff, scratch);
    c->b.packed_w = NULL;
    if (packed && td_conv_packed_bytes(p)) {
        ck_assert_int_eq(td_conv_pack(p, c->b.w, pack, tmp, &err), TD_OK);
        c->b.packed_w = pack;
    }
    ck_assert_int_eq(td_conv_run(p, &c->b, tmp, &err), TD_OK);
    td_conv_plan_release(p);
    td_convert_array(s->type,
                     c->d.kind == TD_CONV_BACKWARD_DATA     ? c->b.x
                     : c->d.kind == TD_CONV_BACKWARD_FILTER ? c->b.w
                                                            : c->b.y,
                     TD_F64, got, (size_t)n);
    for (int i = 0; i < n; i++)
        ck_assert_msg(fabs(got[i] - want[i]) <= eps, "[%d] is %.9g, not %.9g (library %d)", i, got[i], want[i],
                      library);
}
static void expect_all(conv_t *c, const double *want, int n, double eps) {
    for (int i = 0; i < 4; i++) expect(c, i & 1, i & 2, want, n, eps);
}

/* Groups, strides, uneven padding, dilation; then both gradients of the same map. */
START_TEST(two_groups) {
    const td_window_dim_t window[2] = {{2, 2, 1, 0, 1, 1, false}, {2, 1, 0, 2, 2, 1, false}};
    const double y[] = {-18, 11, -15, 26, 4, -6, 6,  -14, -18, 10, 16, 1,  4,   4,  -8, -13, -5, -7, 12,  -8,
                        -7,  -7, -5,  -2, 8, -6, -5, 19,  -10, -5, -5, -4, -16, -9, 20, -17, -9, 14, -16, 5};
    const double dx[] = {-5, -3, -5, 7, -2, 2, 2, -5, 5,  10, -3, 4, 5,  -7, 8, -2, 0,  -4, -6, -8,
                         8,  -4, -4, 8, -4, 0, 2, -5, -8, 11, -3, 4, 11, -8, 6, -4, -5, -2, -5, -7,
                         -5, -3, -5, 7, -2, 2, 2, -5, 5,  10, -3, 4, 5,  -7, 8, -2, 0,  -4, -6, -8,
                         0,  0,  0,  0, 0,  0, 0, 0,  0,  0,  0,  0, 0,  0,  0, 0,  0,  0,  0,  0};
    const double dw[] = {8, 8,  2,  2,   5, 5, 4,  4, 0,   -22, 6,   10, 0,  0, 1, -2,
                         8, -3, 12, -13, 5, 5, -9, 7, -19, 14,  -13, 12, -5, 6, 7, -9};
    static const td_type_t types[] = {TD_F32, TD_F64, TD_BF16, TD_F16};
    double xv[80], wv[32], yv[40];
    pattern(xv, 80, 7, 11, 5), pattern(wv, 32, 5, 7, 3), pattern(yv, 40, 3, 5, 2);
    for (size_t i = 0; i < N(types); i++)
        for (int kind = 0; kind < 3; kind++) {
            td_type_t t = types[i];
            conv_t c = {.d = {.kind = (td_conv_kind_t)kind, .groups = 2},
                        .dims = last(2),
                        .x = shape(t, DIMS(1, 4, 5, 4)),
                        .w = shape(t, DIMS(4, 2, 2, 2)),
                        .y = shape(t, DIMS(1, 2, 5, 4))};
            c.b = (td_conv_bufs_t){.x = buffer(c.x, xv), .w = buffer(c.w, wv), .y = buffer(c.y, yv)};
            td_err_t err = {0};
            ck_assert_msg(describe(&c, 2, window, &err) == TD_OK, "%s", err.text);
            expect_all(&c,
                       kind == TD_CONV_FORWARD         ? y
                       : kind == TD_CONV_BACKWARD_DATA ? dx
                                                       : dw,
                       kind == TD_CONV_FORWARD         ? 40
                       : kind == TD_CONV_BACKWARD_DATA ? 80
                                                       : 32,
                       1e-5);
        }
}
END_TEST

static td_hlo_instr_t *node(td_conv_dims_t *dims, const td_window_dim_t *window, uint32_t n, const td_shape_t *x,
                            const td_shape_t *w, const td_shape_t *y) {
    td_hlo_instr_t *i = TD_NEW_N(&arena, td_hlo_instr_t, 3);
    td_hlo_instr_t **operands = TD_NEW_N(&arena, td_hlo_instr_t *, 2);
    operands[0] = &i[1], operands[1] = &i[2];
    i[1].shape = x, i[2].shape = w;
    *i = (td_hlo_instr_t){.opcode = TD_HLO_CONVOLUTION,
                          .name = "c",
                          .shape = y,
                          .operands = operands,
                          .n_operands = 2,
                          .window = {window, n},
                          .conv = dims,
                          .feature_group_count = 1,
                          .batch_group_count = 1};
    return i;
}
static td_status_t run(const td_hlo_instr_t *i, const void *x, const void *w, void *y) {
    const td_host_op_kind_t *k = td_host_op_find(i->opcode);
    void *state = NULL;
    uint64_t scratch = 0;
    td_status_t st = k->prepare(i, &arena, &state, &scratch, NULL);
    if (st) return st;
    k->run(state, (const void *[]){x, w}, (void *[]){y}, td_arena_align(&arena, scratch + 64, 64));
    return TD_OK;
}

/* The opcode: batch groups, a dilated base, a reversed window and negative padding; x [b,f,s], w [s,i,o], y [b,f,s]. */
START_TEST(opcode) {
    const float want[] = {-15, 1,  18, 0,  -15, 10,  0, 1,  3,  0,   -4, 10,  0,  0,  1,  -5, 5,  15, -2,
                          2,   0,  -5, 10, 15,  -10, 2, -8, 0,  -15, 4,  18,  3,  18, -9, 0,  4,  2,  3,
                          -5,  -9, -1, 0,  0,   -10, 4, 10, -3, -3,  0,  -10, 15, 10, -5, -3, -3, 0};
    const td_window_dim_t window[1] = {{2, 1, -1, 2, 1, 2, true}};
    td_conv_dims_t dims = {0, 1, 1, 2, 0, 1, INTS(2), INTS(0), INTS(2)};
    double xv[32], wv[16];
    float y[56];
    pattern(xv, 32, 7, 11, 5), pattern(wv, 16, 5, 7, 3);
    const td_shape_t *x = shape(TD_F32, DIMS(4, 2, 4)), *w = shape(TD_F32, DIMS(2, 2, 4));
    td_hlo_instr_t *i = node(&dims, window, 1, x, w, shape(TD_F32, DIMS(2, 4, 7)));
    i->batch_group_count = 2;
    ck_assert_int_eq(run(i, buffer(x, xv), buffer(w, wv), y), TD_OK);
    ck_assert_mem_eq(y, want, sizeof want);
    i->batch_group_count = 3;
    ck_assert_int_eq(run(i, xv, wv, y), TD_MISMATCH);
    i->batch_group_count = 2, i->feature_group_count = 2;
    ck_assert_int_eq(run(i, xv, wv, y), TD_MALFORMED);
    i = node(&dims, window, 1, x, w, shape(TD_F32, DIMS(2, 4, 8)));
    i->batch_group_count = 2;
    ck_assert_int_eq(run(i, xv, wv, y), TD_MISMATCH);
}
END_TEST

START_TEST(opcode_complex_matrix) {
    const float x[] = {-5, -3, 2, 2, -2, 0, 5, -2, 1, 3, -3, 1}, want[] = {5, 7, 8, -6, -14, -7, 18, 6};
    const float w[] = {-2, -1, 1, 1, -1, 0, 2, -1, 0, 1, -2, 0};
    td_conv_dims_t dims = {0, 1, 0, 1, 0, 1, {0}, {0}, {0}};
    float y[8];
    ck_assert_int_eq(
        run(node(&dims, NULL, 0, shape(TD_C64, DIMS(2, 3)), shape(TD_C64, DIMS(3, 2)), shape(TD_C64, DIMS(2, 2))), x, w,
            y),
        TD_OK);
    ck_assert_mem_eq(y, want, sizeof want);
}
END_TEST

/* s8 over three dimensions, channels first: into s32 and f32; into s8 saturated (library) and wrapped (opcode). */
START_TEST(integers) {
    const double sums[] = {6020, 30112, -6702, -12299, -35789, -9763}, saturated[] = {127, 127, -128, -128, -128, -128},
                 wrapped[] = {-124, -96, -46, -11, 51, -35};
    const td_window_dim_t window[3] = {{2, 1, 0, 0, 1, 1, false}, {2, 1, 1, 0, 1, 1, false}, {1, 2, 0, 0, 1, 1, false}};
    static const struct {
        td_type_t type;
        bool saturate;
        int want;
    } cases[] = {{TD_S32, false, 0}, {TD_F32, true, 0}, {TD_S8, true, 1}, {TD_S8, false, 2}, {TD_S64, false, 0}};
    const double *const want[] = {sums, saturated, wrapped};
    double xv[24], wv[16];
    pattern(xv, 24, 37, 251, 125), pattern(wv, 16, 53, 241, 120);
    for (size_t i = 0; i < N(cases); i++) {
        conv_t c = {.d = {.saturate = cases[i].saturate, .scale = 1},
                    .dims = {0, 1, 1, 0, 0, 1, INTS(2, 3, 4), INTS(2, 3, 4), INTS(2, 3, 4)},
                    .x = shape(TD_S8, DIMS(1, 2, 2, 3, 2)),
                    .w = shape(TD_S8, DIMS(2, 2, 2, 2, 1)),
                    .y = shape(cases[i].type, DIMS(1, 2, 1, 3, 1))};
        c.b = (td_conv_bufs_t){.x = buffer(c.x, xv), .w = buffer(c.w, wv), .y = buffer(c.y, NULL)};
        ck_assert_int_eq(describe(&c, 3, window, NULL), TD_OK);
        expect_all(&c, want[cases[i].want], 6, 0);
    }
}
END_TEST

/* act(scale * conv + 2 * side + bias), all eight activations; scale 2, and 1 with the input doubled. */
START_TEST(fused) {
    static const td_activation_t acts[] = {TD_ACT_NONE, TD_ACT_SIGMOID, TD_ACT_RELU,       TD_ACT_RELU6,
                                           TD_ACT_TANH, TD_ACT_ELU,     TD_ACT_LEAKY_RELU, TD_ACT_GELU};
    static const double want[8][18] = {
        {4, -4, -4.5, 5, 3.5, -7, -5, 2, 3, 0, 1, -2, -7.5, 7, 0.5, -5, 8.5, -7}, /* none */
        {0.9820138, 0.01798621, 0.01098694, 0.9933071, 0.9706878, 0.0009110512, 0.006692851, 0.8807971, 0.9525741, 0.5,
         0.7310586, 0.1192029, 0.0005527786, 0.9990889, 0.6224593, 0.006692851, 0.9997966, 0.0009110512}, /* sigmoid */
        {4, 0, 0, 5, 3.5, 0, 0, 2, 3, 0, 1, 0, 0, 7, 0.5, 0, 8.5, 0},                                     /* relu */
        {4, 0, 0, 5, 3.5, 0, 0, 2, 3, 0, 1, 0, 0, 6, 0.5, 0, 6, 0},                                       /* relu6 */
        {0.9993293, -0.9993293, -0.9997532, 0.9999092, 0.9981779, -0.9999983, -0.9999092, 0.9640276, 0.9950548, 0,
         0.7615942, -0.9640276, -0.9999994, 0.9999983, 0.4621172, -0.9999092, 0.9999999, -0.9999983}, /* tanh */
        {4, -0.9816844, -0.988891, 5, 3.5, -0.9990881, -0.9932621, 2, 3, 0, 1, -0.8646647, -0.9994469, 7, 0.5,
         -0.9932621, 8.5, -0.9990881},                                                              /* elu */
        {4, -1, -1.125, 5, 3.5, -1.75, -1.25, 2, 3, 0, 1, -0.5, -1.875, 7, 0.5, -1.25, 8.5, -1.75}, /* leaky */
        {3.999873, -0.000126685, -1.528953e-05, 4.999999, 3.499186, -8.958667e-12, -1.433258e-06, 1.9545, 2.99595, 0,
         0.8413447, -0.04550026, -2.393918e-13, 7, 0.3457312, -1.433258e-06, 8.5, -8.958667e-12}, /* gelu */
    };
    const td_window_dim_t window[2] = {{1, 1, 0, 0, 1, 1, false}, {1, 1, 0, 0, 1, 1, false}};
    double xv[9], wv[2], side[18], bias[2] = {0.5, -1};
    pattern(xv, 9, 7, 11, 5), pattern(wv, 2, 5, 7, 3), pattern(side, 18, 3, 5, 2);
    for (int i = 0; i < 9; i++) xv[i] /= 4;
    for (int doubled = 0; doubled < 2; doubled++) {
        for (int i = 0; i < 9 && doubled; i++) xv[i] *= 2;
        for (size_t a = 0; a < N(acts); a++) {
            conv_t c = {.d = {.fused = true,
                              .has_bias = true,
                              .has_side = true,
                              .bias = TD_F32,
                              .side = TD_F32,
                              .activation = acts[a],
                              .scale = doubled ? 1 : 2,
                              .side_scale = 2,
                              .leaky_alpha = 0.25},
                        .dims = last(2),
                        .x = shape(TD_F32, DIMS(1, 3, 3, 1)),
                        .w = shape(TD_F32, DIMS(2, 1, 1, 1)),
                        .y = shape(TD_F32, DIMS(1, 3, 3, 2))};
            c.b = (td_conv_bufs_t){.x = buffer(c.x, xv),
                                   .w = buffer(c.w, wv),
                                   .y = buffer(c.y, NULL),
                                   .bias = buffer(shape(TD_F32, DIMS(2)), bias),
                                   .side = buffer(c.y, side)};
            ck_assert_int_eq(describe(&c, 2, window, NULL), TD_OK);
            expect_all(&c, want[a], 18, 2e-6);
        }
    }
}
END_TEST

/* int8x32: features in blocks of 32, plain and reordered filter and bias, give the same result. */
START_TEST(reordered) {
    const td_window_dim_t window[2] = {{2, 1, 0, 0, 1, 1, false}, {1, 1, 0, 0, 1, 1, false}};
    double xv[2 * 64], wv[64 * 64 * 2], bias[64], want[64];
    pattern(xv, 128, 7, 11, 5), pattern(wv, 8192, 5, 7, 3), pattern(bias, 64, 3, 97, 40);
    conv_t c = {.d = {.fused = true, .has_bias = true, .bias = TD_F32, .scale = 1, .saturate = true},
                .dims = {0, 1, 1, 0, 0, 1, INTS(2, 3), INTS(2, 3), INTS(2, 3)},
                .x = shape(TD_S8, DIMS(1, 2, 2, 1, 32)),
                .w = shape(TD_S8, DIMS(64, 2, 2, 1, 32)),
                .y = shape(TD_F32, DIMS(1, 2, 1, 1, 32))};
    const td_shape_t *bs = shape(TD_F32, DIMS(64));
    c.b =
        (td_conv_bufs_t){.x = buffer(c.x, xv), .w = buffer(c.w, wv), .y = buffer(c.y, NULL), .bias = buffer(bs, bias)};
    for (int o = 0; o < 64; o++) { /* x [i/32][h][i%32], w [o][i/32][h][i%32]: the same order */
        want[o] = bias[o];
        for (int i = 0; i < 128; i++) want[o] += xv[i] * wv[o * 128 + i];
    }
    ck_assert_int_eq(describe(&c, 2, window, NULL), TD_OK);
    expect_all(&c, want, 64, 0);
    int8_t *plain = c.b.w, *permuted = buffer(c.w, NULL);
    const float *b = c.b.bias;
    float *pb = buffer(bs, NULL);
    for (int o = 0; o < 64; o++) {
        for (int i = 0; i < 64; i++) /* [I/32, H, W, O/8, 2, 8, 4, 4] of o = 8a + 2b + c, i = 32d + 4e + f */
            for (int h = 0; h < 2; h++)
                permuted[((((i / 32 * 2 + h) * 8 + o / 8) * 2 + o % 2) * 8 + i % 32 / 4) * 16 + o % 8 / 2 * 4 + i % 4] =
                    plain[((o * 2 + i / 32) * 2 + h) * 32 + i % 32];
        pb[o / 32 * 32 + o % 8 / 4 * 16 + o % 32 / 8 * 4 + o % 4] = b[o];
    }
    c.b.w = permuted, c.b.bias = pb;
    c.d.reordered = true;
    expect_all(&c, want, 64, 0);
}
END_TEST

START_TEST(refusals) {
    td_window_dim_t window[2] = {{2, 1, 0, 0, 1, 1, false}, {2, 1, 0, 0, 1, 1, false}};
    td_err_t err = {0};
    conv_t c = {.dims = last(2),
                .x = shape(TD_F32, DIMS(1, 4, 4, 4)),
                .w = shape(TD_F32, DIMS(4, 2, 2, 4)),
                .y = shape(TD_F32, DIMS(1, 3, 3, 4))};
    ck_assert_int_eq(describe(&c, 2, window, &err), TD_OK);
    c.d.groups = 2; /* the filter has the features of one group */
    ck_assert_int_eq(describe(&c, 2, window, &err), TD_MISMATCH);
    c.d.groups = -1;
    ck_assert_int_eq(describe(&c, 2, window, &err), TD_MALFORMED);
    c.d.groups = 1;
    window[1].size = 1;
    ck_assert_int_eq(describe(&c, 2, window, &err), TD_MISMATCH);
    window[1].size = 0;
    ck_assert_int_eq(describe(&c, 2, window, &err), TD_MALFORMED);
    window[1].size = 2, window[1].stride = 0;
    ck_assert_int_eq(describe(&c, 2, window, &err), TD_MALFORMED);
    window[1].stride = 1, window[1].pad_low = INT64_MAX;
    ck_assert_int_eq(describe(&c, 2, window, &err), TD_MALFORMED);
    window[1].pad_low = 0;
    ck_assert_int_eq(describe(&c, 1, window, &err), TD_MALFORMED);
    ck_assert_int_eq(describe(&c, 9, window, &err), TD_UNSUPPORTED);
    c.dims.input_feature = 4;
    ck_assert_int_eq(describe(&c, 2, window, &err), TD_MALFORMED);
    c.dims.input_feature = 0; /* the batch's */
    ck_assert_int_eq(describe(&c, 2, window, &err), TD_MALFORMED);
    c.dims = last(2);
    c.y = shape(TD_S32, DIMS(1, 3, 3, 4)); /* floats into integers */
    ck_assert_int_eq(describe(&c, 2, window, &err), TD_OK);
    td_conv_plan_t *p = NULL;
    uint64_t scratch;
    ck_assert_int_eq(td_conv_plan_make(&c.d, true, &arena, &p, &scratch, &err), TD_UNSUPPORTED);
}
END_TEST

int main(void) {
    TCase *t = tcase_create("host_conv");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, two_groups);
    tcase_add_test(t, opcode);
    tcase_add_test(t, opcode_complex_matrix);
    tcase_add_test(t, integers);
    tcase_add_test(t, fused);
    tcase_add_test(t, reordered);
    tcase_add_test(t, refusals);
    Suite *s = suite_create("host_conv");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
