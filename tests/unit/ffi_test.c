/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes from the wire, and calls of handlers that live in this process. The ranges and the order of names are
 * those of xla/ffi/attribute_map_test.cc and call_frame.cc. */
#include "runtime/ffi/attrs.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "ffi.pb-c.h"
#include "runtime/ffi/call.h"
#include "runtime/ffi/internal.h"

static td_arena_t arena;
static td_err_t err;
static void setup(void) {
    td_arena_init(&arena, td_alloc_default(), 0);
    err = (td_err_t){0};
}
static void teardown(void) { td_arena_deinit(&arena); }

/* ---- messages made by hand ---- */
typedef Xla__Ffi__AttributeProto attr_t;
typedef Xla__Ffi__AttributesMapProto map_t;
typedef Xla__Ffi__AttributesMapProto__AttrsEntry entry_t;

static attr_t *attr(int value_case) {
    attr_t *a = TD_NEW(&arena, attr_t);
    xla__ffi__attribute_proto__init(a);
    a->value_case = (Xla__Ffi__AttributeProto__ValueCase)value_case;
    return a;
}
static attr_t *str(const char *s) {
    attr_t *a = attr(XLA__FFI__ATTRIBUTE_PROTO__VALUE_STR);
    a->str = (ProtobufCBinaryData){strlen(s), (uint8_t *)(uintptr_t)s};
    return a;
}
static attr_t *scalar(int value_case) {
    attr_t *a = attr(XLA__FFI__ATTRIBUTE_PROTO__VALUE_SCALAR);
    a->scalar = TD_NEW(&arena, Xla__Ffi__ScalarProto);
    xla__ffi__scalar_proto__init(a->scalar);
    a->scalar->value_case = (Xla__Ffi__ScalarProto__ValueCase)value_case;
    return a;
}
static map_t *map_new(void) {
    map_t *m = TD_NEW(&arena, map_t);
    xla__ffi__attributes_map_proto__init(m);
    m->attrs = TD_NEW_N(&arena, entry_t *, 64);
    return m;
}
static void put(map_t *m, const char *key, attr_t *value) {
    entry_t *e = TD_NEW(&arena, entry_t);
    xla__ffi__attributes_map_proto__attrs_entry__init(e);
    e->key = key ? td_arena_strndup(&arena, key, strlen(key)) : NULL;
    e->value = value;
    m->attrs[m->n_attrs++] = e;
}
static const td_attrs_t *parsed(const map_t *m) {
    const td_attrs_t *a = NULL, *b = NULL;
    ck_assert_msg(td_attrs_parse(&arena, m, &a, &err) == TD_OK, "%s", err.text);
    ck_assert_int_eq(td_attrs_copy(&arena, a, &b, &err), TD_OK);
    ck_assert_int_eq(a->size, b->size);
    return b; /* the copy: what a program keeps */
}

START_TEST(sorted_and_unique) {
    map_t *m = map_new();
    const td_attrs_t *a = parsed(NULL);
    ck_assert_int_eq(a->size, 0);
    put(m, "b", str("1"));
    put(m, "ab", str("2"));
    put(m, "B", str("3"));
    put(m, "a", str("4"));
    put(m, "b", str("5"));        /* of a repeated key the last value counts */
    put(m, NULL, str("6"));       /* an absent key is the empty one */
    put(m, "\xc3\xa4", str("7")); /* bytes, not signed characters */
    a = parsed(m);
    static const char *const want[][2] = {{"", "6"},   {"B", "3"}, {"a", "4"},
                                          {"ab", "2"}, {"b", "5"}, {"\xc3\xa4", "7"}};
    ck_assert_int_eq(a->size, 6);
    ck_assert_uint_eq(a->struct_size, 48);
    for (int i = 0; i < 6; i++) {
        const td_ffi_span_t *v = a->attrs[i];
        ck_assert_str_eq(a->names[i]->ptr, want[i][0]);
        ck_assert_uint_eq(a->names[i]->len, strlen(want[i][0]));
        ck_assert_int_eq(a->types[i], TD_FFI_ATTR_STRING);
        ck_assert_str_eq(v->ptr, want[i][1]);
    }
}
END_TEST

START_TEST(accessors) {
    map_t *m = map_new(), *sub = map_new();
    attr_t *s;
    put(m, "b", s = scalar(XLA__FFI__SCALAR_PROTO__VALUE_B)), s->scalar->b = 1;
    put(m, "i8", s = scalar(XLA__FFI__SCALAR_PROTO__VALUE_I8)), s->scalar->i8 = -128;
    put(m, "u64", s = scalar(XLA__FFI__SCALAR_PROTO__VALUE_U64)), s->scalar->u64 = UINT64_MAX;
    put(m, "u32", s = scalar(XLA__FFI__SCALAR_PROTO__VALUE_U32)), s->scalar->u32 = UINT32_MAX;
    put(m, "f32", s = scalar(XLA__FFI__SCALAR_PROTO__VALUE_F32)), s->scalar->f32 = 0.5f;
    put(m, "f64", s = scalar(XLA__FFI__SCALAR_PROTO__VALUE_F64)), s->scalar->f64 = 1e300;
    put(m, "s", str("text"));
    put(m, "d", s = attr(XLA__FFI__ATTRIBUTE_PROTO__VALUE_DICT)), s->dict = sub;
    put(sub, "x", str("inner"));
    const td_attrs_t *a = parsed(m), *d = NULL;
    bool b = false;
    int64_t i = 0;
    double f = 0;
    td_span_t t = {0};
    td_ffi_array_t x = {0};
    ck_assert(td_attr_bool(a, "b", &b) && b);
    ck_assert(!td_attr_int(a, "b", &i) && !td_attr_bool(a, "i8", &b) && !td_attr_bool(a, "none", &b));
    ck_assert(td_attr_int(a, "i8", &i) && i == -128);
    ck_assert(td_attr_int(a, "u32", &i) && i == UINT32_MAX);
    ck_assert(!td_attr_int(a, "u64", &i)); /* does not fit */
    ck_assert(td_attr_f64(a, "f32", &f) && f == 0.5 && td_attr_f64(a, "f64", &f) && f == 1e300);
    ck_assert(!td_attr_f64(a, "i8", &f) && !td_attr_int(a, "f64", &i));
    ck_assert(td_attr_string(a, "s", &t) && t.size == 4 && !memcmp(t.data, "text", 5));
    ck_assert(!td_attr_string(a, "d", &t) && !td_attr_array(a, "s", &x));
    ck_assert(td_attr_dict(a, "d", &d) && td_attr_string(d, "x", &t) && t.size == 5);
}
END_TEST

/* Every case that a message cannot name, and values out of range. */
START_TEST(refused) {
    static const struct {
        int which;
        int64_t v;
        const char *text;
    } bad[] = {
        {XLA__FFI__SCALAR_PROTO__VALUE_I8, 128, "attribute 'k': 128 is out of the range of s8"},
        {XLA__FFI__SCALAR_PROTO__VALUE_I8, -129, "attribute 'k': -129 is out of the range of s8"},
        {XLA__FFI__SCALAR_PROTO__VALUE_I16, 32768, "attribute 'k': 32768 is out of the range of s16"},
        {XLA__FFI__SCALAR_PROTO__VALUE_U8, 256, "attribute 'k': 256 is out of the range of u8"},
        {XLA__FFI__SCALAR_PROTO__VALUE_U16, 65536, "attribute 'k': 65536 is out of the range of u16"},
        {XLA__FFI__SCALAR_PROTO__VALUE__NOT_SET, 0, "attribute 'k': scalar without a value of a known type"},
        {12, 0, "attribute 'k': scalar without a value of a known type"},
    };
    const td_attrs_t *a = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        map_t *m = map_new();
        attr_t *s = scalar(bad[i].which);
        s->scalar->i32 = (int32_t)bad[i].v; /* one union */
        put(m, "k", s);
        ck_assert_int_eq(td_attrs_parse(&arena, m, &a, &err), TD_MALFORMED);
        ck_assert_str_eq(err.text, bad[i].text);
    }
    attr_t *shapeless[] = {NULL, attr(0), attr(5), attr(XLA__FFI__ATTRIBUTE_PROTO__VALUE_ARRAY)};
    shapeless[3]->array = TD_NEW(&arena, Xla__Ffi__ArrayProto);
    xla__ffi__array_proto__init(shapeless[3]->array);
    for (int i = 0; i < 4; i++) {
        map_t *m = map_new();
        put(m, "k", shapeless[i]);
        ck_assert_int_eq(td_attrs_parse(&arena, m, &a, &err), TD_MALFORMED);
        ck_assert_msg(strstr(err.text, "attribute 'k': ") == err.text, "%s", err.text);
    }
}
END_TEST

/* Random messages of the right form, cut and flipped: parsed or refused, and what is parsed can be copied. */
START_TEST(damaged) {
    map_t *m = map_new(), *sub = map_new();
    int32_t v[] = {1, -2, 300};
    attr_t *x = attr(XLA__FFI__ATTRIBUTE_PROTO__VALUE_ARRAY), *d = attr(XLA__FFI__ATTRIBUTE_PROTO__VALUE_DICT);
    Xla__Ffi__ArrayProto__Int16ArrayProto i16 = XLA__FFI__ARRAY_PROTO__INT16_ARRAY_PROTO__INIT;
    Xla__Ffi__ArrayProto array = XLA__FFI__ARRAY_PROTO__INIT;
    i16.n_values = 3, i16.values = v;
    array.value_case = XLA__FFI__ARRAY_PROTO__VALUE_I16, array.i16 = &i16;
    x->array = &array;
    d->dict = sub;
    put(sub, "s", str("abc"));
    put(sub, "k", scalar(XLA__FFI__SCALAR_PROTO__VALUE_U8));
    put(m, "array", x);
    put(m, "dict", d);
    uint8_t wire[256], bytes[256];
    size_t n = xla__ffi__attributes_map_proto__get_packed_size(m);
    ck_assert_uint_le(n, sizeof wire);
    xla__ffi__attributes_map_proto__pack(m, wire);
    unsigned rng = 12345, parsed_ok = 0;
    for (int round = 0; round < 20000; round++) {
        memcpy(bytes, wire, n);
        rng = rng * 1664525u + 1013904223u;
        size_t len = round % 3 ? n : (rng >> 8) % (n + 1);
        for (int k = 0; k < round % 4; k++) {
            rng = rng * 1664525u + 1013904223u;
            bytes[(rng >> 8) % n] ^= (uint8_t)(rng >> 24);
        }
        map_t *got = xla__ffi__attributes_map_proto__unpack(NULL, len, bytes);
        td_arena_t scratch;
        const td_attrs_t *a = NULL, *b = NULL;
        td_arena_init(&scratch, td_alloc_default(), 1 << 20);
        if (got && td_attrs_parse(&scratch, got, &a, &err) == TD_OK) {
            ck_assert_int_eq(td_attrs_copy(&scratch, a, &b, &err), TD_OK);
            parsed_ok++;
        }
        td_arena_deinit(&scratch);
        if (got) xla__ffi__attributes_map_proto__free_unpacked(got, NULL);
    }
    ck_assert_uint_gt(parsed_ok, 1000);
}
END_TEST

/* ---- calls ---- */
static int calls[5];
static int live;
static void drop(void *p) {
    live--;
    free(p);
}
static td_ffi_type_id_t state_id;

static td_ffi_error_t *note_stage(td_ffi_call_frame_t *f) {
    calls[f->stage]++;
    td_ffi_buffer_t *x = f->args.args[0], *y = f->rets.args[0];
    ck_assert_int_eq(f->args.size, 1);
    ck_assert_int_eq(x->dtype, TD_F32);
    ck_assert_int_eq(x->rank, 2);
    ck_assert_int_eq(x->dims[1], 3);
    ck_assert((x->data == NULL) == (f->stage == TD_FFI_INSTANTIATE));
    if (f->stage == TD_FFI_EXECUTE)
        for (int i = 0; i < 6; i++) ((float *)y->data)[i] = 2 * ((float *)x->data)[i];
    td_ffi_state_t s = {.struct_size = 48, .ctx = f->ctx, .stage = f->stage, .type_id = &state_id};
    if (f->stage == TD_FFI_EXECUTE) return NULL;
    s.state = malloc(4);
    live++;
    return f->api->state_set(&s);
}
static td_ffi_error_t *fails(td_ffi_call_frame_t *f) {
    return f->api->error_create(
        &(td_ffi_error_create_t){.struct_size = 28, .message = "no", .errc = TD_FFI_RESOURCE_EXHAUSTED});
}
/* A future that another thread settles, with an error. */
static td_ffi_future_t *pending;
static td_ffi_error_t *late;
static void settle(void *api) {
    td_ffi_future_error_t a = {.struct_size = 32, .future = pending, .error = late};
    ck_assert_ptr_null(((const td_ffi_api_t *)api)->future_set_error(&a));
}
static td_ffi_error_t *later(td_ffi_call_frame_t *f) {
    td_ffi_future_args_t a = {.struct_size = 16};
    ck_assert_ptr_null(f->api->future_create(&a));
    f->future = pending = a.future;
    late =
        f->api->error_create(&(td_ffi_error_create_t){.struct_size = 28, .message = "late", .errc = TD_FFI_INTERNAL});
    return f->api->pool_schedule(
        &(td_ffi_pool_schedule_t){.struct_size = 40, .ctx = f->ctx, .task = settle, .data = (void *)(uintptr_t)f->api});
}

static td_status_t call(td_ffi_bundle_t bundle, int times) {
    static const int64_t dims[] = {2, 3};
    td_device_t *dev = NULL;
    td_ffi_call_t *c = NULL;
    const td_shape_t *s = NULL;
    uint64_t scratch = 0;
    float x[6] = {1, 2, 3, 4, 5, 6}, y[6] = {0};
    void *bufs[] = {x, y};
    td_ffi_handler_t h = {
        .target = "t", .library = "l", .platform = "", .bundle = bundle, .api = td_ffi_api(), .minor = 5};
    ck_assert_int_eq(td_host_device_create(td_alloc_default(), &dev, &err), TD_OK);
    ck_assert_int_eq(td_shape_make(&arena, TD_F32, 2, dims, NULL, &s, &err), TD_OK);
    td_custom_call_desc_t d = {.target = "t",
                               .instruction = "i",
                               .operands = &s,
                               .results = &s,
                               .n_operands = 1,
                               .n_results = 1,
                               .attrs = parsed(NULL),
                               .handler = &h};
    td_status_t st = td_ffi_call_create(dev, &d, &arena, &c, &scratch, &err);
    void *memory = aligned_alloc(64, (scratch + 63) & ~63ull);
    for (int i = 0; i < times && !st; i++) st = td_ffi_call_run(c, NULL, NULL, bufs, memory, &err);
    for (int i = 0; i < 6 && !st; i++) ck_assert_float_eq(y[i], 2 * x[i]);
    td_ffi_call_destroy(c);
    free(memory);
    td_device_destroy(dev);
    return st;
}

START_TEST(stages_and_states) {
    static const td_ffi_type_info_t info = {.struct_size = 24, .deleter = drop};
    ck_assert_ptr_null(td_ffi_api()->type_register(
        &(td_ffi_type_register_t){.struct_size = 40, .name = {"state", 5}, .type_id = &state_id, .type_info = &info}));
    ck_assert_int_gt(state_id.type_id, 0);
    td_ffi_bundle_t b = {note_stage, note_stage, note_stage, note_stage, NULL};
    ck_assert_msg(call(b, 3) == TD_OK, "%s", err.text);
    ck_assert_int_eq(calls[TD_FFI_INSTANTIATE], 1);
    ck_assert_int_eq(calls[TD_FFI_PREPARE], 3);
    ck_assert_int_eq(calls[TD_FFI_INITIALIZE], 3);
    ck_assert_int_eq(calls[TD_FFI_EXECUTE], 3);
    ck_assert_int_eq(live, 0);
    b.execute = fails; /* states of an execution that fails end with it */
    ck_assert_int_eq(call(b, 1), TD_NOMEM);
    ck_assert_str_eq(err.text, "t: execute: no (RESOURCE_EXHAUSTED)");
    ck_assert_int_eq(live, 0);
    b.instantiate = fails;
    ck_assert_int_eq(call(b, 1), TD_NOMEM);
    ck_assert_str_eq(err.text, "t: instantiate: no (RESOURCE_EXHAUSTED)");
}
END_TEST

START_TEST(late_error) {
    for (int i = 0; i < 50; i++) {
        ck_assert_int_eq(call((td_ffi_bundle_t){.execute = later}, 1), TD_INTERNAL);
        ck_assert_str_eq(err.text, "t: execute: late (INTERNAL)");
    }
}
END_TEST

/* What the table answers to a caller without context, with a short struct, or with a type it does not know. */
START_TEST(misuse) {
    const td_ffi_api_t *api = td_ffi_api();
    td_ffi_state_t s = {.struct_size = 48};
    td_ffi_run_id_t r = {.struct_size = 24};
    td_ffi_type_id_t id = {0}, other = {777};
    td_ffi_future_error_t fe = {.struct_size = 32};
    td_ffi_type_register_t t = {.struct_size = 40, .name = {"a type", 6}, .type_id = &id};
    ck_assert_ptr_null(api->type_register(&t));
    ck_assert_ptr_null(api->type_register(&t)); /* the same again */
    t.type_id = &other;
    td_ffi_error_t *e[] = {api->state_set(&s),
                           api->state_get(&s),
                           api->run_id_get(&r),
                           api->future_set_error(&fe),
                           api->future_set_available(NULL),
                           api->handler_register(NULL),
                           api->type_register(&t),
                           api->error_create(NULL),
                           api->stream_get(NULL)};
    for (size_t i = 0; i < sizeof e / sizeof *e; i++) {
        td_ffi_error_details_t d = {.struct_size = 36, .error = e[i]};
        ck_assert_ptr_nonnull(e[i]);
        api->error_details(&d);
        ck_assert_uint_gt(strlen(d.message), 10);
        ck_assert_int_ne(d.errc, TD_FFI_OK);
        api->error_destroy(&(td_ffi_error_destroy_t){.struct_size = 24, .error = e[i]});
    }
    api->error_destroy(NULL);
    api->error_details(NULL);
}
END_TEST

int main(void) {
    Suite *s = suite_create("ffi");
    TCase *t = tcase_create("attributes");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, sorted_and_unique);
    tcase_add_test(t, accessors);
    tcase_add_test(t, refused);
    tcase_add_test(t, damaged);
    suite_add_tcase(s, t);
    t = tcase_create("calls");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, stages_and_states);
    tcase_add_test(t, late_error);
    tcase_add_test(t, misuse);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
