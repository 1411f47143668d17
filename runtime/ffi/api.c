/* SPDX-License-Identifier: Apache-2.0 */
/* The function table handed to handlers: errors, types, registration, futures. Source of the rules:
 * xla/ffi/ffi_api.cc, xla/ffi/type_registry.cc. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/ffi/internal.h"

/* ---- errors ---- */
static const char *const errc_names[] = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};
const char *td_ffi_errc_name(int code) {
    return code >= 0 && code <= TD_FFI_UNAUTHENTICATED ? errc_names[code] : "error of an unknown code";
}

/* Handed out when memory is gone; never freed. */
static td_ffi_error_t no_memory = {.code = TD_FFI_RESOURCE_EXHAUSTED, .text = {0}};

static td_ffi_error_t *error_new(td_ffi_errc_t code, const char *text) {
    size_t n = strlen(text);
    td_ffi_error_t *e = malloc(sizeof *e + n + 1);
    if (!e) return &no_memory;
    e->code = code;
    memcpy(e->text, text, n + 1);
    return e;
}

td_ffi_error_t *td_ffi_errorf(td_ffi_errc_t code, const char *fmt, ...) {
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return error_new(code, text);
}

static td_ffi_error_t *error_create(td_ffi_error_create_t *a) {
    TD_FFI_CHECK(a, td_ffi_error_create_t, errc);
    return error_new((td_ffi_errc_t)a->errc, a->message ? a->message : "");
}
static void error_details(td_ffi_error_details_t *a) {
    if (!a || a->struct_size < TD_FFI_SIZE(td_ffi_error_details_t, message)) return;
    a->message = a->error ? a->error->text : "";
    if (a->struct_size >= TD_FFI_SIZE(td_ffi_error_details_t, errc)) a->errc = a->error ? (int32_t)a->error->code : 0;
}
static void error_destroy(td_ffi_error_destroy_t *a) {
    if (a && a->error != &no_memory) free(a->error);
}

/* ---- state types: process-wide, never removed ---- */
typedef struct type {
    struct type *next;
    int64_t id;
    void (*deleter)(void *);
    size_t len;
    char name[];
} type_t;
static pthread_mutex_t types_lock = PTHREAD_MUTEX_INITIALIZER;
static type_t *types;
static int64_t next_type = 1;

bool td_ffi_type_find(int64_t type_id, void (**out_deleter)(void *)) {
    pthread_mutex_lock(&types_lock);
    type_t *t = types;
    while (t && t->id != type_id) t = t->next;
    if (t) *out_deleter = t->deleter;
    pthread_mutex_unlock(&types_lock);
    return t != NULL;
}

/* Under the lock. A known name must keep its id, a known id its name. */
static td_ffi_error_t *type_add(const td_ffi_span_t *name, int64_t *id, void (*deleter)(void *)) {
    for (type_t *t = types; t; t = t->next) {
        bool same_name = t->len == name->len && !memcmp(t->name, name->ptr, name->len);
        if (same_name && *id == t->id) {
            if (!t->deleter) t->deleter = deleter;
            return NULL;
        }
        if (same_name || *id == t->id)
            return td_ffi_errorf(TD_FFI_INTERNAL, "type '%.*s' is already registered with id %lld, not %lld",
                                 (int)t->len, t->name, (long long)t->id, (long long)*id);
    }
    type_t *t = malloc(sizeof *t + name->len);
    if (!t) return td_ffi_errorf(TD_FFI_RESOURCE_EXHAUSTED, "out of memory");
    if (!*id) *id = next_type;
    if (*id >= next_type && *id < INT64_MAX) next_type = *id + 1;
    *t = (type_t){.next = types, .id = *id, .deleter = deleter, .len = name->len};
    memcpy(t->name, name->ptr, name->len);
    types = t;
    return NULL;
}

/* While a library is loaded its refused registrations fail the load, whether it looks at them or not. */
static void note(td_status_t s, const char *text) {
    td_ffi_loading_t *l = td_ffi_loading;
    if (!l || l->status) return;
    l->status = s;
    td_fail(l->err, s, "%s", text);
}

static td_ffi_error_t *type_register(td_ffi_type_register_t *a) {
    TD_FFI_CHECK(a, td_ffi_type_register_t, type_id);
    if (!a->type_id || !a->name.ptr || !a->name.len || a->name.len > 4096)
        return td_ffi_errorf(TD_FFI_INVALID_ARGUMENT,
                             "a type is registered with a name of 1 to 4096 bytes and a place for its id");
    /* The macro for this struct's size ends at type_id although the field behind it belongs to it. */
    const td_ffi_type_info_t *info = a->type_info;
    bool has = info && info->struct_size >= TD_FFI_SIZE(td_ffi_type_info_t, deleter);
    pthread_mutex_lock(&types_lock);
    td_ffi_error_t *e = type_add(&a->name, &a->type_id->type_id, has ? info->deleter : NULL);
    pthread_mutex_unlock(&types_lock);
    if (e && td_ffi_loading) {
        char text[400];
        snprintf(text, sizeof text, "%.200s: %.180s", td_ffi_loading->path, e->text);
        note(TD_MISMATCH, text);
    }
    return e;
}

/* ---- registration while a library is loaded ---- */
_Thread_local td_ffi_loading_t *td_ffi_loading;

typedef struct register_old { /* before 0.4: a bundle of four */
    TD_FFI_ARGS_HEAD;
    td_ffi_span_t name, platform;
    td_ffi_handler_fn *bundle[4];
    uint32_t traits;
} register_old_t;
TD_FFI_AT(register_old_t, traits, 80);

static td_ffi_error_t *handler_register(td_ffi_handler_register_t *a) {
    td_ffi_loading_t *l = td_ffi_loading;
    TD_FFI_CHECK(a, register_old_t, traits);
    if (!l)
        return td_ffi_errorf(TD_FFI_FAILED_PRECONDITION, "handlers are registered while their library is being loaded");
    td_ffi_bundle_t b = {0};
    bool with_record = a->struct_size >= TD_FFI_SIZE(td_ffi_handler_register_t, traits);
    memcpy(&b, &a->bundle, with_record ? sizeof b : sizeof b - sizeof b.record);
    uint32_t traits = with_record ? a->traits : ((const register_old_t *)(const void *)a)->traits;
    td_err_t err = {0};
    td_status_t s = td_ffi_registry_add(l->registry, l->path, a->name, a->platform, &b, traits, &err);
    if (!s) {
        l->registered++;
        return NULL;
    }
    note(s, err.text);
    return td_ffi_errorf(TD_FFI_INVALID_ARGUMENT, "%s", err.text);
}

/* ---- futures ---- */
static void future_drop(td_ffi_future_t *f) { /* with the lock held */
    bool last = --f->owners == 0;
    pthread_mutex_unlock(&f->lock);
    if (!last) return;
    pthread_mutex_destroy(&f->lock);
    pthread_cond_destroy(&f->settled);
    if (f->error) error_destroy(&(td_ffi_error_destroy_t){.error = f->error});
    free(f);
}

static td_ffi_error_t *future_create(td_ffi_future_args_t *a) {
    TD_FFI_CHECK(a, td_ffi_future_args_t, extension_start); /* the macro for its size leaves the field out */
    td_ffi_future_t *f = calloc(1, sizeof *f);
    if (!f) return td_ffi_errorf(TD_FFI_RESOURCE_EXHAUSTED, "out of memory");
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->settled, NULL);
    f->owners = 2;
    a->future = f;
    return NULL;
}

static td_ffi_error_t *settle(td_ffi_future_t *f, td_ffi_error_t *error) {
    if (!f) return td_ffi_errorf(TD_FFI_INVALID_ARGUMENT, "there is no future");
    pthread_mutex_lock(&f->lock);
    if (f->done) {
        pthread_mutex_unlock(&f->lock);
        return td_ffi_errorf(TD_FFI_FAILED_PRECONDITION, "the future is settled already");
    }
    f->done = true;
    f->error = error;
    pthread_cond_broadcast(&f->settled);
    future_drop(f);
    return NULL;
}
static td_ffi_error_t *future_set_available(td_ffi_future_args_t *a) {
    TD_FFI_CHECK(a, td_ffi_future_args_t, future);
    return settle(a->future, NULL);
}
static td_ffi_error_t *future_set_error(td_ffi_future_error_t *a) {
    TD_FFI_CHECK(a, td_ffi_future_error_t, error);
    if (!a->error || a->error->code == TD_FFI_OK)
        return td_ffi_errorf(TD_FFI_INVALID_ARGUMENT, "a future's error is not one");
    return settle(a->future, a->error);
}

td_ffi_error_t *td_ffi_future_wait(td_ffi_future_t *f) {
    pthread_mutex_lock(&f->lock);
    while (!f->done) pthread_cond_wait(&f->settled, &f->lock);
    td_ffi_error_t *e = f->error;
    f->error = NULL;
    future_drop(f);
    return e;
}

/* ---- the table ---- */
static const td_ffi_api_t table = {
    .struct_size = TD_FFI_SIZE(td_ffi_api_t, ctx_options),
    .api_version = {.struct_size = TD_FFI_SIZE(td_ffi_api_version_t, minor_version),
                    .major_version = TD_FFI_MAJOR,
                    .minor_version = TD_FFI_MINOR},
    .error_create = error_create,
    .error_details = error_details,
    .error_destroy = error_destroy,
    .handler_register = handler_register,
    .stream_get = td_ffi_stream_get,
    .type_register = type_register,
    .ctx_get = td_ffi_ctx_get,
    .state_set = td_ffi_state_set,
    .state_get = td_ffi_state_get,
    .mem_get = td_ffi_mem_get,
    .mem_put = td_ffi_mem_put,
    .pool_schedule = td_ffi_pool_schedule,
    .pool_threads = td_ffi_pool_threads,
    .future_create = future_create,
    .future_set_available = future_set_available,
    .future_set_error = future_set_error,
    .run_id_get = td_ffi_run_id_get,
    .ordinal_get = td_ffi_ordinal_get,
    .ctx_extension = td_ffi_ctx_extension,
    .ctx_options = td_ffi_ctx_options,
};
const td_ffi_api_t *td_ffi_api(void) { return &table; }

/* What libraries with static registration link against. */
__attribute__((visibility("default"))) const td_ffi_api_t *XLA_FFI_GetApi(void);
const td_ffi_api_t *XLA_FFI_GetApi(void) { return &table; }
