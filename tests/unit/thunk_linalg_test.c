/* SPDX-License-Identifier: Apache-2.0 */
/* Reading fft, triangular_solve and select_k messages: what a good one becomes, and that spoilt ones are refused. */
#include <check.h>
#include <string.h>

#include "executable.pb-c.h"
#include "runtime/thunk/thunk.h"

typedef Xla__BufferAssignment__BufferAllocationSliceProto slice_t;
typedef struct array { /* a slice, its shape, and both together */
    slice_t slice;
    Xla__ShapeProto shape;
    Xla__LayoutProto layout;
    Xla__ShapedSliceProto shaped;
    int64_t dims[4], order[4];
} array_t;

static td_arena_t arena;
static td_buffer_t buffers[4];
static td_module_t module;
static td_err_t err;
static td_parse_t parse;

static void setup(void) {
    td_arena_init(&arena, td_alloc_default(), 0);
    for (int i = 0; i < 4; i++) buffers[i] = (td_buffer_t){.size = 4096};
    module = (td_module_t){.buffers = buffers, .n_allocations = 4, .n_slots = 4};
    err = (td_err_t){0};
    parse = (td_parse_t){.m = &module, .arena = &arena, .slot_count = 4, .slot_cap = 4, .err = &err};
}
static void teardown(void) { td_arena_deinit(&arena); }

#define SET(obj, field, value) ((obj)->has_##field = 1, (obj)->field = (value))

static void make_array(array_t *a, int64_t buffer, int type, size_t rank, const int64_t *dims, int64_t bytes) {
    *a = (array_t){XLA__BUFFER_ASSIGNMENT__BUFFER_ALLOCATION_SLICE_PROTO__INIT,
                   XLA__SHAPE_PROTO__INIT,
                   XLA__LAYOUT_PROTO__INIT,
                   XLA__SHAPED_SLICE_PROTO__INIT,
                   {0},
                   {0}};
    SET(&a->slice, buffer_allocation_index, buffer);
    SET(&a->slice, size, bytes);
    SET(&a->shape, element_type, (Xla__PrimitiveType)type);
    for (size_t i = 0; i < rank; i++) a->dims[i] = dims[i], a->order[i] = (int64_t)(rank - 1 - i);
    a->shape.n_dimensions = rank;
    a->shape.dimensions = a->dims;
    a->layout.n_minor_to_major = rank;
    a->layout.minor_to_major = a->order;
    a->shape.layout = &a->layout;
    a->shaped.slice = &a->slice;
    a->shaped.shape = &a->shape;
}
#define ARRAY(a, buffer, type, bytes, ...) \
    make_array(a, buffer, type, sizeof((int64_t[]){__VA_ARGS__}) / 8, (const int64_t[]){__VA_ARGS__}, bytes)

static array_t x, y, z;
static Xla__Gpu__FftThunkProto fft;
static int64_t lengths[4];

static td_status_t read_fft(td_thunk_t *t) {
    td_thunk_msg_t msg = XLA__GPU__THUNK_PROTO__INIT;
    msg.impl_case = XLA__GPU__THUNK_PROTO__IMPL_FFT_THUNK;
    msg.fft_thunk = &fft;
    *t = (td_thunk_t){0};
    return td_fft_parse(&parse, &msg, t);
}
static void good_fft(void) { /* rfft of f32[8,64] */
    ARRAY(&x, 0, TD_F32, 2048, 8, 64);
    ARRAY(&y, 1, TD_C64, 2112, 8, 33);
    fft = (Xla__Gpu__FftThunkProto)XLA__GPU__FFT_THUNK_PROTO__INIT;
    SET(&fft, fft_type, XLA__FFT_TYPE__RFFT);
    lengths[0] = 64;
    fft.n_fft_length = 1;
    fft.fft_length = lengths;
    fft.input_buffer = &x.slice, fft.input_shape = &x.shape;
    fft.output_buffer = &y.slice, fft.output_shape = &y.shape;
}

START_TEST(fft_good) {
    td_thunk_t t;
    good_fft();
    ck_assert_msg(read_fft(&t) == TD_OK, "%s", err.text);
    const td_fft_desc_t *d = t.extra;
    ck_assert_uint_eq(t.n_args, 2);
    ck_assert(!t.args[0].written && t.args[1].written && buffers[1].written);
    ck_assert(d->kind == TD_FFT_REAL && !d->f64 && d->rank == 1 && d->n[0] == 64 && d->in_stride[0] == 1);
    ck_assert(d->n_batches == 1 && d->batch[0] == 8 && d->in_batch[0] == 64 && d->out_batch[0] == 33);
    ck_assert(d->in_count == 512 && d->out_count == 264);
    y.order[0] = 0, y.order[1] = 1; /* column-major output */
    ck_assert_int_eq(read_fft(&t), TD_OK);
    d = t.extra;
    ck_assert(d->out_stride[0] == 8 && d->out_batch[0] == 1);
}
END_TEST

START_TEST(fft_spoilt) {
    td_thunk_t t;
#define SPOIL(want, ...) \
    do { \
        good_fft(); \
        __VA_ARGS__; \
        ck_assert_int_eq(read_fft(&t), want); \
    } while (0)
    SPOIL(TD_MALFORMED, fft.input_buffer = NULL);
    SPOIL(TD_MALFORMED, fft.output_shape = NULL);
    SPOIL(TD_UNSUPPORTED, fft.n_fft_length = 0);
    SPOIL(TD_UNSUPPORTED, fft.n_fft_length = 4);
    SPOIL(TD_UNSUPPORTED, SET(&fft, fft_type, (Xla__FftType)9));
    SPOIL(TD_MISMATCH, lengths[0] = 62);
    SPOIL(TD_MISMATCH, lengths[0] = INT64_MIN);
    SPOIL(TD_MISMATCH, SET(&x.slice, size, 2044));
    SPOIL(TD_MALFORMED, SET(&x.slice, size, INT64_MAX));
    SPOIL(TD_MALFORMED, SET(&y.slice, buffer_allocation_index, 4));
    SPOIL(TD_UNSUPPORTED, SET(&x.shape, element_type, XLA__PRIMITIVE_TYPE__S32));
    SPOIL(TD_UNSUPPORTED, ARRAY(&y, 1, TD_C128, 4096, 8, 32));
    SPOIL(TD_MALFORMED, ARRAY(&x, 0, TD_F32, 2048, 512));
    SPOIL(TD_MALFORMED, x.order[0] = 0);
    SPOIL(TD_MALFORMED, x.dims[0] = -8);
#undef SPOIL
}
END_TEST

static Xla__Gpu__TriangularSolveThunkProto tri;
static Xla__TriangularSolveOptions options;

static td_status_t read_tri(td_thunk_t *t) {
    td_thunk_msg_t msg = XLA__GPU__THUNK_PROTO__INIT;
    msg.impl_case = XLA__GPU__THUNK_PROTO__IMPL_TRIANGULAR_SOLVE_THUNK;
    msg.triangular_solve_thunk = &tri;
    *t = (td_thunk_t){0};
    return td_triangular_solve_parse(&parse, &msg, t);
}
static void good_tri(void) { /* three of A[8,8] X = B[8,2] */
    ARRAY(&x, 0, TD_F32, 768, 3, 8, 8);
    ARRAY(&y, 1, TD_F32, 192, 3, 8, 2);
    ARRAY(&z, 2, TD_S8, 48, 48);
    options = (Xla__TriangularSolveOptions)XLA__TRIANGULAR_SOLVE_OPTIONS__INIT;
    SET(&options, left_side, 1);
    SET(&options, lower, 1);
    SET(&options, transpose_a, (int)TD_TRANSPOSE_ADJOINT);
    tri = (Xla__Gpu__TriangularSolveThunkProto)XLA__GPU__TRIANGULAR_SOLVE_THUNK_PROTO__INIT;
    tri.options = &options;
    tri.a_buffer = &x.shaped, tri.b_buffer = &y.shaped, tri.temp_buffer = &z.shaped;
}

START_TEST(triangular_good) {
    td_thunk_t t;
    good_tri();
    ck_assert_msg(read_tri(&t) == TD_OK, "%s", err.text);
    const td_triangular_desc_t *d = t.extra;
    ck_assert(d->left && d->lower && !d->unit_diagonal && d->transpose == TD_TRANSPOSE_ADJOINT && d->type == TD_F32);
    ck_assert(d->m == 8 && d->n == 2 && d->batch == 3);
    ck_assert(!t.args[0].written && t.args[1].written && !buffers[2].written);
    ARRAY(&x, 0, TD_F32, 768, 192); /* the shape of what made the buffer */
    tri.temp_buffer = NULL;
    SET(&options, transpose_a, (Xla__TriangularSolveOptions__Transpose)0);
    ck_assert_int_eq(read_tri(&t), TD_OK);
    d = t.extra;
    ck_assert_int_eq(d->transpose, TD_TRANSPOSE_NONE);
    tri.options = NULL; /* all defaults: from the right, so A is 2 x 2 */
    SET(&x.slice, size, 48);
    x.dims[0] = 12;
    ck_assert_int_eq(read_tri(&t), TD_OK);
}
END_TEST

START_TEST(triangular_spoilt) {
    td_thunk_t t;
#define SPOIL(want, ...) \
    do { \
        good_tri(); \
        __VA_ARGS__; \
        ck_assert_int_eq(read_tri(&t), want); \
    } while (0)
    SPOIL(TD_MALFORMED, tri.a_buffer = NULL);
    SPOIL(TD_MALFORMED, tri.b_buffer = NULL);
    SPOIL(TD_MALFORMED, y.shaped.shape = NULL);
    SPOIL(TD_MALFORMED, y.shape.n_dimensions = y.layout.n_minor_to_major = 0);
    SPOIL(TD_UNSUPPORTED, SET(&y.shape, element_type, XLA__PRIMITIVE_TYPE__S32));
    SPOIL(TD_MISMATCH, SET(&x.slice, size, 764));
    SPOIL(TD_MISMATCH, SET(&y.slice, size, 188));
    SPOIL(TD_MISMATCH, SET(&options, left_side, 0));
    SPOIL(TD_UNSUPPORTED, SET(&options, transpose_a, (Xla__TriangularSolveOptions__Transpose)7));
    SPOIL(TD_MALFORMED, SET(&z.slice, buffer_allocation_index, 9));
    SPOIL(TD_MALFORMED, buffers[1].is_constant = true);
#undef SPOIL
}
END_TEST

static Xla__Gpu__SelectKThunkProto select_k;
static slice_t *arguments[4];

static td_status_t read_select(td_thunk_t *t) {
    td_thunk_msg_t msg = XLA__GPU__THUNK_PROTO__INIT;
    msg.impl_case = XLA__GPU__THUNK_PROTO__IMPL_SELECT_K_THUNK;
    msg.select_k_thunk = &select_k;
    *t = (td_thunk_t){0};
    return td_select_k_parse(&parse, &msg, t);
}
static void good_select(void) { /* 3 of 2 x 5 */
    ARRAY(&x, 0, TD_BF16, 20, 2, 5);
    ARRAY(&y, 1, TD_BF16, 12, 2, 3);
    ARRAY(&z, 2, TD_S32, 24, 2, 3);
    select_k = (Xla__Gpu__SelectKThunkProto)XLA__GPU__SELECT_KTHUNK_PROTO__INIT;
    arguments[0] = &x.slice, arguments[1] = &y.slice, arguments[2] = &z.slice, arguments[3] = &x.slice;
    select_k.args = arguments;
    select_k.n_args = 3;
    SET(&select_k, batch_size, 2);
    SET(&select_k, num_elements, 5);
    SET(&select_k, k, 3);
    SET(&select_k, dtype, XLA__PRIMITIVE_TYPE__BF16);
}

START_TEST(select_k_good) {
    td_thunk_t t;
    good_select();
    ck_assert_msg(read_select(&t) == TD_OK, "%s", err.text);
    const td_topk_desc_t *d = t.extra;
    ck_assert(d->type == TD_BF16 && d->batch == 2 && d->n == 5 && d->k == 3 && !d->smallest && !d->zeros_equal);
    ck_assert(!t.args[0].written && t.args[1].written && t.args[2].written);
    select_k.n_args = 4; /* newer: with scratch */
    ck_assert_int_eq(read_select(&t), TD_OK);
    ck_assert_uint_eq(t.n_args, 3);
}
END_TEST

START_TEST(select_k_spoilt) {
    td_thunk_t t;
#define SPOIL(want, ...) \
    do { \
        good_select(); \
        __VA_ARGS__; \
        ck_assert_int_eq(read_select(&t), want); \
    } while (0)
    SPOIL(TD_MALFORMED, select_k.n_args = 2);
    SPOIL(TD_MALFORMED, SET(&select_k, k, 6));
    SPOIL(TD_MISMATCH, SET(&select_k, k, 2));
    SPOIL(TD_MISMATCH, SET(&select_k, batch_size, UINT32_MAX));
    SPOIL(TD_MISMATCH, SET(&select_k, num_elements, UINT32_MAX));
    SPOIL(TD_MISMATCH, SET(&select_k, dtype, XLA__PRIMITIVE_TYPE__U64));
    SPOIL(TD_UNSUPPORTED, SET(&select_k, dtype, XLA__PRIMITIVE_TYPE__C64));
    SPOIL(TD_UNSUPPORTED, SET(&select_k, dtype, (Xla__PrimitiveType)1000));
    SPOIL(TD_UNSUPPORTED, SET(&select_k, dtype, XLA__PRIMITIVE_TYPE__S4));
    SPOIL(TD_MISMATCH, SET(&z.slice, size, 48));
    SPOIL(TD_MALFORMED, (select_k.n_args = 4, arguments[3] = NULL));
    SPOIL(TD_MALFORMED, arguments[0] = NULL);
#undef SPOIL
}
END_TEST

int main(void) {
    const TTest *const tests[] = {fft_good,          fft_spoilt,    triangular_good,
                                  triangular_spoilt, select_k_good, select_k_spoilt};
    Suite *s = suite_create("thunk linear algebra");
    TCase *t = tcase_create("all");
    tcase_add_checked_fixture(t, setup, teardown);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) tcase_add_test(t, tests[i]);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
