/* SPDX-License-Identifier: Apache-2.0 */
/* Attribute dictionaries as text, typed custom calls of programs without thunks, and a real artifact without its
 * thunks. What numbers mean is MLIR's; the bits of floats are IEEE's. */
#include "tests/unit/scheduled_build.h"

#include <math.h>

#include "base/limits.h"
#include "runtime/ffi/attrs.h"
#include "runtime/scheduled_in.h"

static td_err_t err;
static const td_attrs_t *parse(const char *text) {
    td_sched_t s = {.arena = &arena, .err = &err};
    Xla__Ffi__AttributesMapProto *map = NULL;
    const td_attrs_t *a = NULL;
    ck_assert_msg(td_sched_attributes(&s, text, &map) == TD_OK, "%s: %s", text, err.text);
    ck_assert_msg(td_attrs_parse(&arena, map, &a, &err) == TD_OK, "%s: %s", text, err.text);
    return a;
}

START_TEST(integers) {
    static const struct {
        const char *text;
        int64_t want;
    } rows[] = {
        {"{x = 5}", 5}, {"{x = -5 : i64}", -5}, {"{ x=7:i32 }", 7}, {"{x = 255 : ui8}", 255}, {"{x = 255 : i8}", -1},
        {"{x = 0xFF : i16}", 255}, {"{x = -128 : si8}", -128}, {"{x = 65535 : ui16}", 65535},
        {"{x = 4294967295 : ui32}", UINT32_MAX}, {"{x = -9223372036854775808 : i64}", INT64_MIN},
        {"{x = 3 : index}", 3},
        {"{\"x\" = 9}", 9}, {"{y = 1, x = 2}", 2},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        int64_t v = 77;
        ck_assert_msg(td_attr_int(parse(rows[k].text), "x", &v), "%s", rows[k].text);
        ck_assert_msg(v == rows[k].want, "%s is %lld", rows[k].text, (long long)v);
    }
}
END_TEST

START_TEST(floats) {
    static const struct {
        const char *text;
        double want;
    } rows[] = {
        {"{x = 1.5}", 1.5}, {"{x = -1.5e-3 : f64}", -1.5e-3}, {"{x = 0.25 : f32}", 0.25}, {"{x = 1e3}", 1000},
        {"{x = 0x3FC00000 : f32}", 1.5}, {"{x = 0x7FF0000000000000 : f64}", INFINITY}, {"{x = 5.0e-324}", 5e-324},
    };
    double v = 0;
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        ck_assert_msg(td_attr_f64(parse(rows[k].text), "x", &v), "%s", rows[k].text);
        ck_assert_msg(v == rows[k].want, "%s is %g", rows[k].text, v);
    }
    ck_assert(td_attr_f64(parse("{x = 0x7FC00000 : f32}"), "x", &v) && isnan(v));
}
END_TEST

START_TEST(others) {
    const td_attrs_t *a = parse("{a.b-c = true, f = false, s = \"tab\\09, \\\"q\\\" \\\\ \\C3\\A4\\n\", "
                                "d = {inner = 3 : i32, e = {}}, \"odd name\" = 1}"), *d = NULL;
    bool b = false;
    td_span_t s = {0};
    int64_t v = 0;
    ck_assert(td_attr_bool(a, "a.b-c", &b) && b);
    ck_assert(td_attr_bool(a, "f", &b) && !b);
    ck_assert(td_attr_string(a, "s", &s));
    ck_assert_uint_eq(s.size, strlen("tab\t, \"q\" \\ \xC3\xA4\n"));
    ck_assert_mem_eq(s.data, "tab\t, \"q\" \\ \xC3\xA4\n", s.size);
    ck_assert(td_attr_dict(a, "d", &d) && td_attr_int(d, "inner", &v));
    ck_assert_int_eq(v, 3);
    ck_assert(td_attr_int(a, "odd name", &v));
    ck_assert_int_eq(td_attr_find(parse("{}"), "x"), -1);
}
END_TEST

START_TEST(arrays) {
    td_ffi_array_t v = {0};
    ck_assert(td_attr_array(parse("{x = array<i64: 1, -2, 3>}"), "x", &v));
    ck_assert_int_eq(v.dtype, TD_S64);
    ck_assert_uint_eq(v.size, 3);
    ck_assert_int_eq(((int64_t *)v.data)[1], -2);
    ck_assert(td_attr_array(parse("{x = array<i32>, y = 1}"), "x", &v) && v.size == 0);
    ck_assert(td_attr_array(parse("{x = array<f32: 1.5, 0x3FC00000>}"), "x", &v));
    ck_assert(v.dtype == TD_F32 && ((float *)v.data)[1] == 1.5f);
    ck_assert(td_attr_array(parse("{x = dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>}"), "x", &v));
    ck_assert(v.dtype == TD_S32 && v.size == 4 && ((int32_t *)v.data)[3] == 4);
    ck_assert(td_attr_array(parse("{x = dense<7> : tensor<5xui8>}"), "x", &v));
    ck_assert(v.dtype == TD_U8 && v.size == 5 && ((uint8_t *)v.data)[4] == 7);
}
END_TEST

static const char *const wrong[] = {
    "", "x", "{", "{x}", "{x = }", "{x = 1", "{x = 1,}", "{x = 1} y", "{= 1}", "{x = 1 : i7}", "{x = 1 : f16}",
    "{x = 300 : ui8}", "{x = -129 : i8}", "{x = -1 : ui32}", "{x = 1.5 : i32}", "{x = 2 : f32}",
    "{x = 18446744073709551616}", "{x = \"no end}", "{x = \"\\q\"}", "{x = [1, 2]}", "{x = #foo.bar}", "{x = @symbol}",
    "{x = array<i64: 1, >}", "{x = array<i64: 1 2>}", "{x = array<i64: 1}", "{x = array<i1: true>}", "{x = array<>}",
    "{x = dense<[1 2]> : tensor<2xi32>}", "{x = dense<[1, 2]> : tensor<3xi32>}",
    "{x = dense<1> : tensor<9999999999xi32>}",
    "{x = dense<1> : tensor<4194304x4xi32>}", "{x = dense<[1]>}", "{x = dense<[1", "{\"a\\00b\" = 1}", "{x = truely}",
    "{x={x={x={x={x={x={x={x={x={x={x={x={x={x={x={x={x={x={}}}}}}}}}}}}}}}}}}}",
};

START_TEST(malformed) {
    td_sched_t s = {.arena = &arena, .err = &err};
    Xla__Ffi__AttributesMapProto *map = NULL;
    ck_assert_msg(td_sched_attributes(&s, wrong[_i], &map) != TD_OK, "accepted: %s", wrong[_i]);
    ck_assert_str_ne(err.text, "");
}
END_TEST

/* A handler of the host's own, by name and attributes. */
static void build_call(const char *attributes) {
    begin("entry", false);
    instr_t *c = OP("custom-call", TUPLE(LAYOUT(F32(2, 2), 0, 1), S32()), parameter(LAYOUT(F32(2, 2), 0, 1)));
    custom(c, "cusolver_potrf_ffi", attributes);
    SET(c, custom_call_api_version, XLA__CUSTOM_CALL_API_VERSION__API_VERSION_TYPED_FFI);
    OP("tuple", c->shape, element(c, 0), element(c, 1));
    finish();
}

/* Cholesky of [[4, 2], [2, 5]]: lower [[2, 0], [1, 2]], upper its transpose; the other half is a's. */
START_TEST(typed_call) {
    static const struct {
        const char *text;
        bool lower;
    } rows[] = {
        {"{lower = true}", true}, {"{lower = false}", false},
        {"{\"custom_call_backend_config\":{\"opaque\":\"\",\"attributes\":\"{lower = true}\"}}", true},
    };
    static const float a[] = {4, 2, 2, 5};
    float y[4];
    int32_t info = 7;
    build_call(rows[_i].text);
    run_built((const void *[]){a}, (void *[]){y, &info}, (size_t[]){16, 4}, 2);
    ck_assert_int_eq(info, 0);
    ck_assert_float_eq(y[0], 2);
    ck_assert_float_eq(y[1], rows[_i].lower ? 2 : 1);
    ck_assert_float_eq(y[2], rows[_i].lower ? 1 : 2);
    ck_assert_float_eq(y[3], 2);
}
END_TEST

START_TEST(typed_call_with_bad_attributes) {
    td_module_t *m = NULL;
    build_call("{lower = }");
    ck_assert_int_eq(td_module_open(&artifact, td_alloc_default(), &m, &err), TD_MALFORMED);
    ck_assert_ptr_nonnull(strstr(err.text, "attributes, character 9"));
}
END_TEST

static const char sample[] = "samples/store/digits/1/h100_sxm.aot";
/* The sample with its thunks and without: the same answers. */
START_TEST(sample_without_thunks) {
    td_payload_table_t *table = NULL;
    td_device_t *dev = NULL;
    float y[2][64];
    ck_assert_int_eq(td_payload_table_create(td_alloc_default(), &table, &err), TD_OK);
    ck_assert_int_eq(td_host_device_create(td_alloc_default(), &dev, &err), TD_OK);
    for (int k = 0; k < 2; k++) {
        td_artifact_t *a = NULL;
        td_module_t *m = NULL;
        td_program_t *p = NULL;
        td_binding_t *b = NULL;
        const void *in[8], *out[8];
        ck_assert_msg(td_artifact_open_file(sample, table, td_alloc_default(), &a, &err) == TD_OK, "%s", err.text);
        Xla__Gpu__GpuExecutableProto *e = (Xla__Gpu__GpuExecutableProto *)(uintptr_t)a->exe;
        if (k) e->n_thunks = e->n_output_info_map = e->n_constants = 0, e->buffer_allocations = NULL;
        ck_assert_msg(td_module_open(a, td_alloc_default(), &m, &err) == TD_OK, "%s", err.text);
        ck_assert_int_eq(m->scheduled, k);
        ck_assert_msg(td_program_create(m, &(td_program_opts_t){.dev = dev}, &p, &err) == TD_OK, "%s", err.text);
        ck_assert_int_eq(td_binding_create(p, td_alloc_default(), &b, &err), TD_OK);
        uint32_t n = td_program_input_count(p);
        ck_assert_uint_le(n, 8);
        for (uint32_t i = 0; i < n; i++) {
            const td_shape_t *s = td_program_input(p, i)->shape;
            float *v = td_arena_zalloc(&arena, td_io_host_bytes(s));
            for (int64_t j = 0; s->type == TD_F32 && j < s->count; j++) v[j] = (float)((j * 37 + i) % 19) / 19;
            in[i] = v;
        }
        ck_assert_msg(td_program_run(b, in, out, NULL, &err) == TD_OK, "%s", err.text);
        uint64_t bytes = td_io_host_bytes(td_program_output(p, 0)->shape);
        memset(y[k], 0, sizeof y[k]);
        memcpy(y[k], out[0], bytes < sizeof y[k] ? bytes : sizeof y[k]);
        td_binding_destroy(b);
        td_program_destroy(p);
        td_module_close(m);
        td_artifact_close(a);
    }
    ck_assert_mem_eq(y[0], y[1], sizeof y[0]);
    td_device_destroy(dev);
    td_payload_table_destroy(table);
}
END_TEST

int main(void) {
    Suite *s = suite_create("scheduled_attrs");
    TCase *t = tcase_create("all");
    tcase_add_checked_fixture(t, build_setup, build_teardown);
    tcase_add_test(t, integers);
    tcase_add_test(t, floats);
    tcase_add_test(t, others);
    tcase_add_test(t, arrays);
    tcase_add_loop_test(t, malformed, 0, sizeof wrong / sizeof *wrong);
    tcase_add_loop_test(t, typed_call, 0, 3);
    tcase_add_test(t, typed_call_with_bad_attributes);
    tcase_add_test(t, sample_without_thunks);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int bad = srunner_ntests_failed(r);
    srunner_free(r);
    return bad != 0;
}
