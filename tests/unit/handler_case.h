/* SPDX-License-Identifier: Apache-2.0 */
/* One call of a built-in custom-call handler: arrays with layouts, attributes, guarded scratch. */
#ifndef TD_TESTS_HANDLER_CASE_H
#define TD_TESTS_HANDLER_CASE_H

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/host/handlers/handlers.h"

typedef struct arr {
    td_type_t type;
    const char *order; /* "row", "col" (the last two dimensions swapped in memory) */
    uint32_t rank;
    const int64_t *dims;
    void *data; /* NULL for a token */
} arr_t;
#define DIMS(...) (uint32_t)(sizeof((int64_t[]){0, ##__VA_ARGS__}) / 8 - 1), (const int64_t[]){0, ##__VA_ARGS__} + 1
#define ROW(type, data, ...) {type, "row", DIMS(__VA_ARGS__), data}
#define COL(type, data, ...) {type, "col", DIMS(__VA_ARGS__), data}
#define F(...) (double[]){__VA_ARGS__}
#define F32(...) (float[]){__VA_ARGS__}
#define I(...) (int32_t[]){__VA_ARGS__}

typedef struct attr {
    const char *name;
    td_type_t type; /* TD_OPAQUE: a string */
    const void *value;
    size_t size;
} attr_t;
#define YES(name) {name, TD_PRED, "\1", 1}
#define NO(name) {name, TD_PRED, "\0", 1}
#define INT(name, v) {name, TD_S64, &(int64_t){v}, 8}
#define U8(name, v) {name, TD_U8, &(uint8_t){v}, 1}
#define S32(name, v) {name, TD_S32, &(int32_t){v}, 4}
#define F64(name, v) {name, TD_F64, &(double){v}, 8}
#define STR(name, p, n) {name, TD_OPAQUE, p, n}
#define IN(...) (arr_t[]){__VA_ARGS__}, sizeof((arr_t[]){__VA_ARGS__}) / sizeof(arr_t)
#define OUT IN
#define ATTRS(...) (attr_t[]){__VA_ARGS__}, sizeof((attr_t[]){__VA_ARGS__}) / sizeof(attr_t)
#define NO_ATTRS NULL, 0

static const td_shape_t *shape_of(td_arena_t *arena, const arr_t *a) {
    int32_t layout[8];
    const td_shape_t *s = NULL;
    for (uint32_t i = 0; i < a->rank; i++) layout[i] = (int32_t)(a->rank - 1 - i);
    if (a->order[0] == 'c') layout[0]--, layout[1]++;
    ck_assert_int_eq(td_shape_make(arena, a->type, a->rank, a->dims, layout, &s, NULL), TD_OK);
    return s;
}

static const td_attrs_t *attrs_of(td_arena_t *arena, const attr_t *v, size_t n) {
    td_attrs_t *a = TD_NEW(arena, td_attrs_t);
    a->struct_size = sizeof *a;
    a->size = (int64_t)n;
    a->types = TD_NEW_N(arena, int32_t, n);
    a->names = TD_NEW_N(arena, td_ffi_span_t *, n);
    a->attrs = TD_NEW_N(arena, void *, n);
    for (size_t i = 0; i < n; i++) {
        td_ffi_span_t *name = TD_NEW(arena, td_ffi_span_t), *text = TD_NEW(arena, td_ffi_span_t);
        td_ffi_scalar_t *scalar = TD_NEW(arena, td_ffi_scalar_t);
        *name = (td_ffi_span_t){v[i].name, strlen(v[i].name)};
        *text = (td_ffi_span_t){v[i].value, v[i].size};
        *scalar = (td_ffi_scalar_t){(int32_t)v[i].type, (void *)(uintptr_t)v[i].value};
        ck_assert_msg(i == 0 || strcmp(v[i - 1].name, v[i].name) < 0, "attributes out of order: %s", v[i].name);
        a->names[i] = name;
        a->types[i] = v[i].type == TD_OPAQUE ? TD_FFI_ATTR_STRING : TD_FFI_ATTR_SCALAR;
        a->attrs[i] = v[i].type == TD_OPAQUE ? (void *)text : (void *)scalar;
    }
    return a;
}

#ifdef HANDLERS_ON_CUDA
/* The CUDA device with its stand-in driver and libraries: arrays that share memory here share it there. */
#include "tests/unit/cuda_op_case.h"

static void open_libraries(void) {
    static bool open;
    const char *const files[] = {"libcuda.so.1", "libcublas.so.13", "libcusolver.so.12", "libcusparse.so.12"};
    for (size_t i = 0; i < sizeof files / sizeof *files && !open; i++) op_library(files[i]);
    open = true;
}
static td_status_t try_lowered(const td_custom_call_desc_t *d, void *const *data, size_t n) {
    op_buffer_t v[OP_BUFFERS] = {{0}};
    op_t o;
    td_status_t s = op_lower(&o, gpu, TD_OP_CUSTOM_CALL, d);
    if (s) return s;
    for (uint32_t i = 0; i < n; i++) {
        const td_shape_t *a = i < d->n_operands ? d->operands[i] : d->results[i - d->n_operands];
        v[i] = (op_buffer_t){.host = data[i], .bytes = td_type_is_array(a->type) && data[i] ? a->bytes : 0};
        for (uint32_t k = 0; k < i && data[i]; k++)
            if (data[k] == data[i]) v[i].same = k + 1;
    }
    op_up(v, (uint32_t)n);
    s = op_launch(&o, v, (uint32_t)n);
    if (!s) op_down(v, (uint32_t)n);
    op_free(v, (uint32_t)n);
    op_release(&o, gpu);
    return s;
}
static inline td_status_t try_on(const td_custom_call_desc_t *d, void *const *data, size_t n, td_err_t *out_err) {
    open_libraries();
    op_open();
    td_status_t s = try_lowered(d, data, n);
    *out_err = err;
    op_close();
    return s;
}
#else
/* The scratch is full of 0xff and has a guard behind it. */
static inline td_status_t try_on(const td_custom_call_desc_t *d, void *const *data, size_t n, td_err_t *err) {
    void *state = NULL;
    uint64_t scratch = 0;
    td_arena_t arena;
    const td_handler_t *h = td_handler_find(d->target);
    ck_assert_ptr_nonnull(h);
    (void)n;
    td_arena_init(&arena, td_alloc_default(), 0);
    td_status_t s = h->prepare(d, &arena, &state, &scratch, err);
    if (s == TD_OK) {
        char *p = aligned_alloc(64, (scratch + 127) / 64 * 64);
        memset(p, 0xff, (scratch + 127) / 64 * 64);
        s = h->run(state, data, p, err);
        ck_assert_msg(p[scratch] == (char)0xff, "%s writes behind its scratch", d->target);
        free(p);
    }
    td_arena_deinit(&arena);
    return s;
}
#endif

/* Prepares and runs. */
static inline td_status_t try_call(const char *target, const attr_t *attrs, size_t n_attrs, const arr_t *in, size_t n_in,
                            const arr_t *out, size_t n_out, td_err_t *error) {
    const td_shape_t *shapes[16];
    void *bufs[16];
    td_arena_t arena;
    td_arena_init(&arena, td_alloc_default(), 0);
    for (size_t i = 0; i < n_in + n_out; i++) {
        const arr_t *a = i < n_in ? &in[i] : &out[i - n_in];
        shapes[i] = shape_of(&arena, a);
        bufs[i] = a->data;
    }
    td_custom_call_desc_t d = {.target = target, .instruction = "x", .operands = shapes, .n_operands = (uint32_t)n_in,
                               .results = shapes + n_in, .n_results = (uint32_t)n_out,
                               .attrs = attrs_of(&arena, attrs, n_attrs)};
    td_status_t s = try_on(&d, bufs, n_in + n_out, error);
    td_arena_deinit(&arena);
    return s;
}

#define CALL(...)                                                          \
    do {                                                                   \
        td_err_t err_ = {0};                                               \
        ck_assert_msg(try_call(__VA_ARGS__, &err_) == TD_OK, "%s", err_.text); \
    } while (0)
/* Fails with this status and these words in the message. */
#define REFUSED(status, words, ...)                                        \
    do {                                                                   \
        td_err_t err_ = {0};                                               \
        ck_assert_int_eq(try_call(__VA_ARGS__, &err_), status);            \
        ck_assert_msg(strstr(err_.text, words) != NULL, "%s", err_.text);  \
    } while (0)

static inline void near_f64(const double *got, const double *want, size_t n, double tolerance) {
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(fabs(got[i] - want[i]) <= tolerance, "[%zu] is %.12g, not %.12g", i, got[i], want[i]);
}
#define NEAR(got, ...) near_f64(got, F(__VA_ARGS__), sizeof(F(__VA_ARGS__)) / 8, 1e-8)
/* These elements, bit by bit. */
#define SAME(got, T, ...) \
    ck_assert_msg(memcmp(got, (T[]){__VA_ARGS__}, sizeof((T[]){__VA_ARGS__})) == 0, "%s", #got)

#endif
