/* SPDX-License-Identifier: Apache-2.0 */
/* Reading convolution messages: what a good one becomes, that each spoilt field is refused, and that reordering a
 * filter gives the permutation that reordered convolutions read. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "executable.pb-c.h"
#include "runtime/hlo/hlo_parse.h"
#include "runtime/thunk/thunk.h"

typedef Xla__BufferAssignment__BufferAllocationSliceProto slice_t;
typedef struct array {
    slice_t slice;
    Xla__ShapeProto shape;
    Xla__ShapedSliceProto shaped;
    int64_t dims[5];
} array_t;

/* A forward convolution with bias and side input: f32 [1,4,4,2] * [3,2,2,2] -> [1,3,3,3], features last. */
typedef struct message {
    array_t x, w, y, bias, side;
    Xla__WindowDimension dims[2], *dim_list[2];
    Xla__Window window;
    Xla__ConvolutionDimensionNumbers dnums;
    Xla__Gpu__CudnnConvBackendConfig config;
    Xla__Gpu__GpuConvDescriptorProto desc;
    Xla__Gpu__ConvolutionThunkProto thunk;
    Xla__ShapedSliceProto *operands[4], *results[1];
    int64_t spatial[3][2];
} message_t;

static td_arena_t arena;
static td_buffer_t buffers[5];
static td_module_t module;
static td_err_t err;
static td_parse_t parse;
static message_t m;

#define SET(obj, field, value) ((obj)->has_##field = 1, (obj)->field = (value))

static void make_array(array_t *a, int64_t buffer, int type, size_t rank, const int64_t *dims, int64_t bytes) {
    *a = (array_t){XLA__BUFFER_ASSIGNMENT__BUFFER_ALLOCATION_SLICE_PROTO__INIT,
                   XLA__SHAPE_PROTO__INIT,
                   XLA__SHAPED_SLICE_PROTO__INIT,
                   {0}};
    SET(&a->slice, buffer_allocation_index, buffer);
    SET(&a->slice, size, bytes);
    SET(&a->shape, element_type, (Xla__PrimitiveType)type);
    memcpy(a->dims, dims, rank * sizeof *dims);
    a->shape.n_dimensions = rank;
    a->shape.dimensions = a->dims;
    a->shaped.slice = &a->slice;
    a->shaped.shape = &a->shape;
}
#define ARRAY(a, buffer, type, bytes, ...) \
    make_array(a, buffer, type, sizeof((int64_t[]){__VA_ARGS__}) / 8, (const int64_t[]){__VA_ARGS__}, bytes)

static void good(void) {
    memset(&m, 0, sizeof m);
    ARRAY(&m.x, 0, TD_F32, 128, 1, 4, 4, 2);
    ARRAY(&m.w, 1, TD_F32, 96, 3, 2, 2, 2);
    ARRAY(&m.y, 2, TD_F32, 108, 1, 3, 3, 3);
    ARRAY(&m.bias, 3, TD_F32, 12, 3);
    ARRAY(&m.side, 4, TD_F32, 108, 9, 3); /* as its producer had it */
    m.window = (Xla__Window)XLA__WINDOW__INIT;
    for (int i = 0; i < 2; i++) {
        m.dims[i] = (Xla__WindowDimension)XLA__WINDOW_DIMENSION__INIT;
        SET(&m.dims[i], size, 2);
        SET(&m.dims[i], stride, 1);
        m.dim_list[i] = &m.dims[i];
        for (int k = 0; k < 3; k++) m.spatial[k][i] = i + 1;
    }
    m.window.n_dimensions = 2;
    m.window.dimensions = m.dim_list;
    m.dnums = (Xla__ConvolutionDimensionNumbers)XLA__CONVOLUTION_DIMENSION_NUMBERS__INIT;
    SET(&m.dnums, input_feature_dimension, 3);
    SET(&m.dnums, kernel_input_feature_dimension, 3);
    SET(&m.dnums, output_feature_dimension, 3);
    m.dnums.n_input_spatial_dimensions = m.dnums.n_kernel_spatial_dimensions = m.dnums.n_output_spatial_dimensions = 2;
    m.dnums.input_spatial_dimensions = m.spatial[0];
    m.dnums.kernel_spatial_dimensions = m.spatial[1];
    m.dnums.output_spatial_dimensions = m.spatial[2];
    m.config = (Xla__Gpu__CudnnConvBackendConfig)XLA__GPU__CUDNN_CONV_BACKEND_CONFIG__INIT;
    SET(&m.config, conv_result_scale, 1);
    SET(&m.config, side_input_scale, 0.5);
    SET(&m.config, activation_mode, STREAM_EXECUTOR__DNN__ACTIVATION_MODE__kRelu);
    m.desc = (Xla__Gpu__GpuConvDescriptorProto)XLA__GPU__GPU_CONV_DESCRIPTOR_PROTO__INIT;
    SET(&m.desc, kind, STREAM_EXECUTOR__DNN__CONVOLUTION_KIND__FORWARD_BIAS_ACTIVATION);
    SET(&m.desc, feature_group_count, 1);
    m.desc.backend_config = &m.config;
    m.desc.operand0_shape = &m.x.shape;
    m.desc.operand1_shape = &m.w.shape;
    m.desc.result_shape = &m.y.shape;
    m.desc.window = &m.window;
    m.desc.dnums = &m.dnums;
    m.thunk = (Xla__Gpu__ConvolutionThunkProto)XLA__GPU__CONVOLUTION_THUNK_PROTO__INIT;
    m.thunk.conv_descriptor = &m.desc;
    Xla__ShapedSliceProto *operands[4] = {&m.x.shaped, &m.w.shaped, &m.bias.shaped, &m.side.shaped};
    memcpy(m.operands, operands, sizeof operands);
    m.results[0] = &m.y.shaped;
    m.thunk.n_operand_buffers = 4;
    m.thunk.operand_buffers = m.operands;
    m.thunk.n_result_buffers = 1;
    m.thunk.result_buffers = m.results;
}
static void setup(void) {
    td_arena_init(&arena, td_alloc_default(), 0);
    for (int i = 0; i < 5; i++) buffers[i] = (td_buffer_t){.size = 256};
    module = (td_module_t){.buffers = buffers, .n_allocations = 5, .n_slots = 5};
    err = (td_err_t){0};
    parse = (td_parse_t){.m = &module, .arena = &arena, .slot_count = 5, .slot_cap = 5, .err = &err};
    good();
}
static void teardown(void) { td_arena_deinit(&arena); }

static td_status_t read_message(td_thunk_t *t) {
    td_thunk_msg_t msg = XLA__GPU__THUNK_PROTO__INIT;
    msg.impl_case = XLA__GPU__THUNK_PROTO__IMPL_CONVOLUTION_THUNK;
    msg.convolution_thunk = &m.thunk;
    *t = (td_thunk_t){0};
    return td_convolution_parse(&parse, &msg, t);
}

START_TEST(fused_message) {
    td_thunk_t t;
    ck_assert_msg(read_message(&t) == TD_OK, "%s", err.text);
    const td_conv_desc_t *d = t.extra;
    ck_assert_uint_eq(t.n_args, 5);
    ck_assert(t.args[2].written && !t.args[0].written && !t.args[4].written);
    ck_assert(d->fused && d->has_bias && d->has_side && d->bias == TD_F32 && d->side == TD_F32 &&
              d->activation == TD_ACT_RELU);
    ck_assert(d->scale == 1 && d->side_scale == 0.5);
    ck_assert_int_eq(d->x.spatial_stride[0], 8);
    ck_assert_int_eq(d->w.outer_stride, 8);
    m.config.side_input_scale = 0; /* a side input that counts nothing */
    ck_assert_int_eq(read_message(&t), TD_OK);
    ck_assert_uint_eq(t.n_args, 4);
}
END_TEST

/* The computed array is written, whichever role it has. */
START_TEST(gradients) {
    td_thunk_t t;
    m.thunk.n_operand_buffers = 2;
    m.desc.backend_config = NULL;
    m.desc.kind = STREAM_EXECUTOR__DNN__CONVOLUTION_KIND__BACKWARD_DATA;
    m.operands[0] = &m.y.shaped, m.results[0] = &m.x.shaped;
    m.desc.operand0_shape = &m.y.shape, m.desc.result_shape = &m.x.shape;
    ck_assert_msg(read_message(&t) == TD_OK, "%s", err.text);
    ck_assert(t.args[0].written && t.args[0].allocation == 0 && t.args[2].allocation == 2 && !t.args[2].written);
    m.desc.kind = STREAM_EXECUTOR__DNN__CONVOLUTION_KIND__BACKWARD_FILTER;
    m.operands[0] = &m.x.shaped, m.operands[1] = &m.y.shaped, m.results[0] = &m.w.shaped;
    m.desc.operand0_shape = &m.x.shape, m.desc.operand1_shape = &m.y.shape, m.desc.result_shape = &m.w.shape;
    ck_assert_msg(read_message(&t) == TD_OK, "%s", err.text);
    ck_assert(t.args[1].written && t.args[1].allocation == 1 && t.args[2].allocation == 2);
}
END_TEST

static Xla__Gpu__CudnnConvBackendConfig *config(void) { return &m.config; }
static void no_descriptor(void) { m.thunk.conv_descriptor = NULL; }
static void no_window(void) { m.desc.window = NULL; }
static void no_dnums(void) { m.desc.dnums = NULL; }
static void no_config(void) { m.desc.backend_config = NULL; }
static void no_shape(void) { m.desc.operand1_shape = NULL; }
static void no_slice(void) { m.w.shaped.slice = NULL; }
static void no_operands(void) { m.thunk.n_operand_buffers = 0; }
static void no_bias(void) { m.thunk.n_operand_buffers = 2; }
static void no_side(void) { m.thunk.n_operand_buffers = 3; }
static void no_result(void) { m.thunk.n_result_buffers = 0; }
static void graph(void) { m.desc.kind = STREAM_EXECUTOR__DNN__CONVOLUTION_KIND__FORWARD_GRAPH; }
static void unknown_kind(void) { m.desc.kind = (StreamExecutor__Dnn__ConvolutionKind)77; }
static void invalid_kind(void) { m.desc.kind = STREAM_EXECUTOR__DNN__CONVOLUTION_KIND__INVALID; }
static void plain_with_activation(void) {
    m.desc.kind = STREAM_EXECUTOR__DNN__CONVOLUTION_KIND__FORWARD, m.thunk.n_operand_buffers = 2;
}
static void activation(void) { config()->activation_mode = STREAM_EXECUTOR__DNN__ACTIVATION_MODE__kBandPass; }
static void negative_activation(void) { config()->activation_mode = (StreamExecutor__Dnn__ActivationMode)-1; }
static void serialized_graph(void) { config()->serialized_graph = (char *)(uintptr_t) "1:[f32]conv()"; }
static void window_size(void) { m.dims[0].size = 3; }
static void window_huge(void) { m.dims[0].size = INT64_MAX; }
static void window_padding(void) { SET(&m.dims[1], padding_low, 1); }
static void window_negative_stride(void) { m.dims[1].stride = -1; }
static void window_too_many(void) { m.window.n_dimensions = 1000; }
static void window_too_few(void) { m.window.n_dimensions = 1; }
static void dimension_twice(void) { m.dnums.input_feature_dimension = 1; }
static void dimension_far(void) { m.spatial[1][0] = 1000; }
static void dimension_negative(void) { m.spatial[2][0] = -1; }
static void groups(void) { m.desc.feature_group_count = 2; }
static void groups_negative(void) { m.desc.feature_group_count = -1; }
static void rank(void) { m.x.shape.n_dimensions = 3; }
static void dimension_size(void) { m.y.dims[3] = 4; }
static void element_type(void) { SET(&m.w.shape, element_type, XLA__PRIMITIVE_TYPE__TUPLE); }
static void small_slice(void) { m.x.slice.size = 64; }
static void small_bias(void) { m.bias.slice.size = 8; }
static void small_side(void) { m.side.slice.size = 4; }
static void far_slice(void) { SET(&m.y.slice, offset, 1 << 20); }
static void constant_result(void) { buffers[2].is_constant = true; }
static void reordered_floats(void) {
    config()->filter_and_bias_reordering_oneof_case =
        XLA__GPU__CUDNN_CONV_BACKEND_CONFIG__FILTER_AND_BIAS_REORDERING_ONEOF_REORDERED_INT8_NCHW_VECT;
    config()->reordered_int8_nchw_vect = 1;
}

#define CASE(f) {#f, f}
static const struct { const char *name; void (*spoil)(void);
} spoilt[] = {
    CASE(no_descriptor),
    CASE(no_window),
    CASE(no_dnums),
    CASE(no_config),
    CASE(no_shape),
    CASE(no_slice),
    CASE(no_operands),
    CASE(no_bias),
    CASE(no_side),
    CASE(no_result),
    CASE(graph),
    CASE(unknown_kind),
    CASE(invalid_kind),
    CASE(plain_with_activation),
    CASE(activation),
    CASE(negative_activation),
    CASE(serialized_graph),
    CASE(window_size),
    CASE(window_huge),
    CASE(window_padding),
    CASE(window_negative_stride),
    CASE(window_too_many),
    CASE(window_too_few),
    CASE(dimension_twice),
    CASE(dimension_far),
    CASE(dimension_negative),
    CASE(groups),
    CASE(groups_negative),
    CASE(rank),
    CASE(dimension_size),
    CASE(element_type),
    CASE(small_slice),
    CASE(small_bias),
    CASE(small_side),
    CASE(far_slice),
    CASE(constant_result),
    CASE(reordered_floats),
};

START_TEST(spoilt_messages) {
    td_thunk_t t;
    spoilt[_i].spoil();
    td_status_t st = read_message(&t);
    ck_assert_msg(st != TD_OK && st != TD_INTERNAL && err.text[0], "%s: status %d '%s'", spoilt[_i].name, (int)st,
                  err.text);
}
END_TEST

START_TEST(reorder_message) {
    Xla__Gpu__ConvolutionReorderThunkProto p = XLA__GPU__CONVOLUTION_REORDER_THUNK_PROTO__INIT;
    Xla__Gpu__ConvolutionReorderBiasBuffers b = XLA__GPU__CONVOLUTION_REORDER_BIAS_BUFFERS__INIT;
    td_thunk_msg_t msg = XLA__GPU__THUNK_PROTO__INIT;
    msg.impl_case = XLA__GPU__THUNK_PROTO__IMPL_CONVOLUTION_REORDER_THUNK;
    msg.convolution_reorder_thunk = &p;
    for (int i = 0; i < 5; i++) buffers[i].size = 4096;
    ARRAY(&m.w, 0, TD_S8, 2048, 32, 1, 2, 1, 32);
    ARRAY(&m.y, 1, TD_S8, 2048, 32, 1, 2, 1, 32);
    ARRAY(&m.bias, 2, TD_F32, 128, 32);
    ARRAY(&m.side, 3, TD_F32, 128, 32);
    p.filter_input = &m.w.shaped, p.filter_output = &m.y.shaped, p.biases = &b;
    b.bias_input = &m.bias.shaped, b.bias_output = &m.side.shaped;
    td_thunk_t t = {0};
    ck_assert_msg(td_convolution_reorder_parse(&parse, &msg, &t) == TD_OK, "%s", err.text);
    const td_conv_desc_t *d = t.extra;
    ck_assert(t.n_args == 4 && !t.args[0].written && t.args[1].written && t.args[3].written &&
              d->kind == TD_CONV_REORDER);

    td_device_t *dev = NULL;
    td_kernel_t *k = NULL;
    uint64_t scratch = 1;
    td_stream_t *stream = NULL;
    int8_t *in = calloc(2, 2048), *out = in + 2048;
    float bias[32], moved[32];
    for (int i = 0; i < 2048; i++) in[i] = (int8_t)(i * 7 + i / 32);
    for (int i = 0; i < 32; i++) bias[i] = (float)i;
    ck_assert_int_eq(td_host_device_create(td_alloc_default(), &dev, &err), TD_OK);
    ck_assert_int_eq(dev->ops->library_lower(dev, TD_OP_CONV, d, &arena, &k, &scratch, &err), TD_OK);
    ck_assert_int_eq(dev->ops->stream_create(dev, 0, &stream, &err), TD_OK);
    ck_assert_int_eq(dev->ops->launch(stream, k, (void *[]){in, out, bias, moved}, 4, NULL, &err), TD_OK);
    ck_assert_int_eq(dev->ops->stream_sync(stream, &err), TD_OK);
    for (int o = 0; o < 32;
         o++) /* to [I/32, H, W, O/8, 2, 8, 4, 4], o = 8a + 2b + c, i = 4d + e; bias 4 x 2 x 4 to 2 x 4 x 4 */
        for (int i = 0; i < 64; i++) {
            int h = i / 32, f = i % 32;
            ck_assert_int_eq(out[(((h * 4 + o / 8) * 2 + o % 2) * 8 + f / 4) * 16 + o % 8 / 2 * 4 + f % 4],
                             in[o * 64 + i]);
            ck_assert(moved[o / 4 % 2 * 16 + o / 8 * 4 + o % 4] == bias[o]);
        }
    dev->ops->stream_destroy(stream);
    dev->ops->kernel_release(k);
    td_device_destroy(dev);
    free(in);

    m.y.dims[4] = 16;
    ck_assert_int_ne(td_convolution_reorder_parse(&parse, &msg, &t), TD_OK);
    m.y.dims[4] = 32, m.w.slice.size = 100;
    ck_assert_int_ne(td_convolution_reorder_parse(&parse, &msg, &t), TD_OK);
    m.w.slice.size = 2048, m.side.slice.size = 100;
    ck_assert_int_ne(td_convolution_reorder_parse(&parse, &msg, &t), TD_OK);
    m.side.slice.size = 128, p.filter_output = NULL;
    ck_assert_int_ne(td_convolution_reorder_parse(&parse, &msg, &t), TD_OK);
}
END_TEST

/* What a compiler with a GPU at hand chose; -1 says that it had none. */
START_TEST(algorithms) {
    td_thunk_t t;
    StreamExecutor__Dnn__AlgorithmProto a = STREAM_EXECUTOR__DNN__ALGORITHM_PROTO__INIT;
    StreamExecutor__Dnn__AlgorithmProto__TuningKnobsEntry knob =
        STREAM_EXECUTOR__DNN__ALGORITHM_PROTO__TUNING_KNOBS_ENTRY__INIT, *knobs[TD_CONV_KNOBS + 1];
    for (int i = 0; i <= TD_CONV_KNOBS; i++) knobs[i] = &knob;
    m.config.algorithm = &a;
    SET(&a, algo_id, -1);
    ck_assert_int_eq(read_message(&t), TD_OK);
    ck_assert(!((const td_conv_desc_t *)t.extra)->has_algorithm);
    SET(&a, algo_id, 34);
    SET(&knob, key, 15);
    SET(&knob, value, -2);
    a.n_tuning_knobs = TD_CONV_KNOBS, a.tuning_knobs = knobs;
    ck_assert_int_eq(read_message(&t), TD_OK);
    const td_conv_desc_t *d = t.extra;
    ck_assert(d->has_algorithm && d->algorithm == 34 && d->n_knobs == TD_CONV_KNOBS && !d->exact);
    ck_assert(d->knobs[TD_CONV_KNOBS - 1].type == 15 && d->knobs[TD_CONV_KNOBS - 1].value == -2);
    a.n_tuning_knobs++;
    ck_assert_int_eq(read_message(&t), TD_OK);
    ck_assert(!((const td_conv_desc_t *)t.extra)->has_algorithm);
}
END_TEST

/* The highest of the operands': packed, one by one, with more behind, cut off. */
START_TEST(precision) {
    static const struct {
        uint8_t bytes[8];
        size_t n;
        int32_t want;
    } v[] = {{{0x0a, 2, 0, 0}, 4, 0}, {{0x0a, 2, 2, 1}, 4, 2},       {{0x08, 1, 0x08, 0}, 4, 1}, {{0}, 0, 0},
             {{0x0a, 9, 2}, 3, 0},    {{0x0a, 1, 2, 0x10, 5}, 5, 2}, {{0x10, 5}, 2, 0},
             {{0x0a, 2, 3, 1}, 4, 1},
             {{0x0a}, 1, 0},          {{0x08}, 1, 0}};
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
        Xla__HloInstructionProto p = XLA__HLO_INSTRUCTION_PROTO__INIT;
        td_hlo_instr_t in = {0};
        SET(&p, precision_config, ((ProtobufCBinaryData){v[i].n, (uint8_t *)(uintptr_t)v[i].bytes}));
        ck_assert_msg(!td_hlo_parse_attrs(&arena, &p, &in, &err), "%s", err.text);
        ck_assert_msg(in.precision == v[i].want, "%zu: %d", i, in.precision);
    }
}
END_TEST

int main(void) {
    TCase *t = tcase_create("thunk_conv");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, fused_message);
    tcase_add_test(t, gradients);
    tcase_add_test(t, algorithms);
    tcase_add_test(t, precision);
    tcase_add_loop_test(t, spoilt_messages, 0, sizeof spoilt / sizeof *spoilt);
    tcase_add_test(t, reorder_message);
    Suite *s = suite_create("thunk_conv");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
