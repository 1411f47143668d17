/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers in C, against abi.h: attributes of every kind, states of every stage, errors, callers of other sizes.
 * -DOLD: registers as a library of FFI 0.3 does. -DVERSION=n: claims to be built for 0.n. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "entry.h"

#ifndef VERSION
#define VERSION TD_FFI_MINOR
#endif

/* Answers the metadata query. */
static int is_query(td_ffi_call_frame_t *f) {
    if (!f->extension_start || f->extension_start->type != TD_FFI_EXTENSION_METADATA) return 0;
    td_ffi_metadata_t *m = ((td_ffi_metadata_extension_t *)(void *)f->extension_start)->metadata;
    m->api_version = (td_ffi_api_version_t){.struct_size = 24, .major_version = TD_FFI_MAJOR, .minor_version = VERSION};
    return 1;
}
static td_ffi_error_t *fail(td_ffi_call_frame_t *f, int code, const char *fmt, ...) {
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return f->api->error_create(&(td_ffi_error_create_t){
        .struct_size = TD_FFI_SIZE(td_ffi_error_create_t, errc), .message = text, .errc = code});
}
static td_ffi_buffer_t *ret(td_ffi_call_frame_t *f, int i) { return f->rets.args[i]; }

/* ---- dump: operands, results and attributes as text, NUL-padded, into a u8 result ---- */
typedef struct text {
    char *at, *end;
} text_t;
static void put(text_t *t, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(t->at, (size_t)(t->end - t->at), fmt, ap);
    va_end(ap);
    t->at += n < t->end - t->at ? n : t->end - t->at - 1;
}
static void put_value(text_t *t, int dtype, const void *p, size_t i) {
    switch (dtype) {
    case 1: put(t, "%s", ((const uint8_t *)p)[i] ? "true" : "false"); break;
    case 2: put(t, "%d", ((const int8_t *)p)[i]); break;
    case 3: put(t, "%d", ((const int16_t *)p)[i]); break;
    case 4: put(t, "%d", ((const int32_t *)p)[i]); break;
    case 5: put(t, "%" PRId64, ((const int64_t *)p)[i]); break;
    case 6: put(t, "%d", ((const uint8_t *)p)[i]); break;
    case 7: put(t, "%d", ((const uint16_t *)p)[i]); break;
    case 8: put(t, "%u", ((const uint32_t *)p)[i]); break;
    case 9: put(t, "%" PRIu64, ((const uint64_t *)p)[i]); break;
    case 11: put(t, "%.9g", (double)((const float *)p)[i]); break;
    case 12: put(t, "%.17g", ((const double *)p)[i]); break;
    default: put(t, "?%d", dtype); break;
    }
}
static void put_attrs(text_t *t, const td_ffi_attrs_t *a) {
    if (a->struct_size != 48) put(t, "!");
    for (int64_t i = 0; i < a->size; i++) {
        put(t, "%.*s:", (int)a->names[i]->len, a->names[i]->ptr);
        if (a->types[i] == TD_FFI_ATTR_SCALAR) {
            const td_ffi_scalar_t *s = a->attrs[i];
            put(t, "%d=", s->dtype);
            put_value(t, s->dtype, s->value, 0);
        } else if (a->types[i] == TD_FFI_ATTR_ARRAY) {
            const td_ffi_array_t *s = a->attrs[i];
            put(t, "%d[%zu]=", s->dtype, s->size);
            for (size_t k = 0; k < s->size; k++) {
                if (k) put(t, ",");
                put_value(t, s->dtype, s->data, k);
            }
        } else if (a->types[i] == TD_FFI_ATTR_STRING) {
            const td_ffi_span_t *s = a->attrs[i];
            put(t, "s%zu=", s->len);
            for (size_t k = 0; k < s->len; k++) put(t, "%02x", (unsigned char)s->ptr[k]);
        } else {
            put(t, "{");
            put_attrs(t, a->attrs[i]);
            put(t, "}");
        }
        put(t, ";");
    }
}
static void put_buffers(text_t *t, const td_ffi_args_t *a) {
    for (int64_t i = 0; i < a->size; i++) {
        const td_ffi_buffer_t *b = a->args[i];
        put(t, "%d", b->dtype);
        for (int64_t k = 0; k < b->rank; k++) put(t, k ? "x%" PRId64 : ":%" PRId64, b->dims[k]);
        put(t, a->types[i] == 1 && b->struct_size == 48 && (b->dtype == 17) == !b->data ? " " : "! ");
    }
    put(t, "| ");
}
static td_ffi_error_t *dump(td_ffi_call_frame_t *f) {
    if (is_query(f)) return NULL;
    td_ffi_buffer_t *out = ret(f, 0);
    memset(out->data, 0, (size_t)out->dims[0]);
    text_t t = {out->data, (char *)out->data + out->dims[0]};
    if (f->struct_size != 168 || f->stage != TD_FFI_EXECUTE) put(&t, "!");
    put_buffers(&t, &f->args);
    put_buffers(&t, &f->rets);
    put_attrs(&t, &f->attrs);
    return NULL;
}

/* ---- states: instantiate 100, prepare 20, initialize 3; execute writes their sum, and how many live ---- */
static td_ffi_type_id_t counter_id;
static int alive;
static void drop(void *p) {
    alive--;
    free(p);
}
static const td_ffi_type_info_t counter_info = {.struct_size = TD_FFI_SIZE(td_ffi_type_info_t, deleter),
                                                .deleter = drop};
static td_ffi_error_t *set(td_ffi_call_frame_t *f, int value) {
    int *p = malloc(sizeof *p);
    *p = value;
    alive++;
    return f->api->state_set(
        &(td_ffi_state_t){.struct_size = 48, .ctx = f->ctx, .stage = f->stage, .type_id = &counter_id, .state = p});
}
static td_ffi_error_t *instantiate(td_ffi_call_frame_t *f) { return is_query(f) ? NULL : set(f, 100); }
static td_ffi_error_t *prepare(td_ffi_call_frame_t *f) { return is_query(f) ? NULL : set(f, 20); }
static td_ffi_error_t *initialize(td_ffi_call_frame_t *f) {
    td_ffi_error_t *e = is_query(f) ? NULL : set(f, 3);
    /* A second state of the stage is refused; the error is this side's to destroy. */
    if (f->ctx && !e) {
        int one = 1;
        e = f->api->state_set(&(td_ffi_state_t){
            .struct_size = 48, .ctx = f->ctx, .stage = f->stage, .type_id = &counter_id, .state = &one});
        if (!e) return fail(f, TD_FFI_INTERNAL, "a state was set twice");
        td_ffi_error_details_t d = {.struct_size = 36, .error = e};
        f->api->error_details(&d);
        if (d.errc != TD_FFI_FAILED_PRECONDITION) return e;
        f->api->error_destroy(&(td_ffi_error_destroy_t){.struct_size = 24, .error = e});
        return NULL;
    }
    return e;
}
static td_ffi_error_t *states(td_ffi_call_frame_t *f) {
    if (is_query(f)) return NULL;
    int sum = 0;
    for (int stage = 0; stage < 3; stage++) {
        td_ffi_state_t g = {.struct_size = 48, .ctx = f->ctx, .stage = stage, .type_id = &counter_id};
        td_ffi_error_t *e = f->api->state_get(&g);
        if (e) return e;
        sum += *(int *)g.state;
    }
    ((int32_t *)ret(f, 0)->data)[0] = sum;
    ((int32_t *)ret(f, 0)->data)[1] = alive;
    return NULL;
}

/* ---- errors, by attribute "code": negative numbers are misuse of the table ---- */
static td_ffi_error_t *refuse(td_ffi_call_frame_t *f) {
    if (is_query(f)) return NULL;
    int64_t code = *(int64_t *)((td_ffi_scalar_t *)f->attrs.attrs[0])->value;
    td_ffi_mem_get_t m = {.struct_size = 48, .ctx = f->ctx, .size = 64, .alignment = 24};
    td_ffi_stream_get_t s = {.struct_size = 24, .ctx = f->ctx};
    td_ffi_ctx_get_t g = {.struct_size = 40, .ctx = f->ctx, .type_id = &counter_id};
    td_ffi_state_t st = {.struct_size = 48, .ctx = f->ctx, .stage = TD_FFI_INSTANTIATE, .type_id = &counter_id};
    td_ffi_error_details_t old = {.struct_size = 32, .errc = 77};
    switch (code) {
    case -1: return f->api->mem_get(&m);
    case -2: return f->api->stream_get(&s);
    case -3: return f->api->ctx_get(&g);
    case -4: return f->api->state_get(&st);
    case -5: /* the struct before 0.4: the code is not written */
        old.error = fail(f, 3, "text");
        f->api->error_details(&old);
        if (strcmp(old.message, "text") || old.errc != 77)
            return fail(f, 13, "error_details wrote past its caller's struct");
        return old.error;
    case -6: return f->api->handler_register(&(td_ffi_handler_register_t){.struct_size = 92});
    default: return fail(f, (int)code, "code %d", (int)code);
    }
}

#ifdef OLD
static td_ffi_error_t *reg(const td_ffi_api_t *api, const char *target, td_ffi_handler_fn *execute) {
    struct {
        TD_FFI_ARGS_HEAD;
        td_ffi_span_t name, platform;
        td_ffi_handler_fn *bundle[4];
        uint32_t traits;
    } a = {.struct_size = 84,
           .name = {target, strlen(target)},
           .platform = {"cpu", 3},
           .bundle = {0, 0, 0, execute},
           .traits = 1};
    return api->handler_register((td_ffi_handler_register_t *)(void *)&a);
}
THUNKD_FFI_EXPORT const thunkd_ffi_entry_t *thunkd_ffi_handlers(const thunkd_ffi_api_t *api, size_t *n) {
    *n = 0;
    if (api->api_version.minor_version < 5 || api->struct_size < 208) abort();
    reg(api, "dump", dump);
    reg(api, "refuse", refuse);
    (void)states, (void)instantiate, (void)prepare, (void)initialize, (void)counter_info;
    return NULL;
}
#else
#ifndef PLATFORM
#define PLATFORM "Host"
#endif
THUNKD_FFI_EXPORT const thunkd_ffi_entry_t *thunkd_ffi_handlers(const thunkd_ffi_api_t *api, size_t *n) {
    static const thunkd_ffi_entry_t entries[] = {
        {.struct_size = sizeof *entries, .target = "dump", .platform = PLATFORM, .execute = dump},
        {.struct_size = sizeof *entries,
         .target = "states",
         .platform = PLATFORM,
         .instantiate = instantiate,
         .prepare = prepare,
         .initialize = initialize,
         .execute = states},
        {.struct_size = sizeof *entries, .target = "refuse", .platform = NULL, .execute = refuse},
    };
    static const char name[] = "test counter";
    if (api->type_register(&(td_ffi_type_register_t){
            .struct_size = 40, .name = {name, sizeof name - 1}, .type_id = &counter_id, .type_info = &counter_info}))
        return NULL;
    *n = sizeof entries / sizeof *entries;
    return entries;
}
#endif
