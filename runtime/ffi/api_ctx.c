/* SPDX-License-Identifier: Apache-2.0 */
/* The table's functions that a handler calls with its context. */
#include <signal.h>
#include <string.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/ffi/call.h"
#include "runtime/ffi/internal.h"

#define CHECK_CTX(a, type, last) \
    TD_FFI_CHECK(a, type, last); \
    if (!(a)->ctx) return td_ffi_errorf(TD_FFI_INVALID_ARGUMENT, #type ": no invocation context")

static const char *const stage_names[] = {"instantiate", "prepare", "initialize", "execute", "record"};
static const char *stage_name(int32_t s) { return s >= 0 && s <= TD_FFI_RECORD ? stage_names[s] : "unknown"; }
static bool is_host(const td_device_t *d) { return !strcmp(d->ops->name, "host"); }

td_ffi_error_t *td_ffi_stream_get(td_ffi_stream_get_t *a) {
    CHECK_CTX(a, td_ffi_stream_get_t, stream);
    if (a->ctx->stage == TD_FFI_INSTANTIATE || a->ctx->stage == TD_FFI_PREPARE)
        return td_ffi_errorf(TD_FFI_UNIMPLEMENTED, "the %s stage has no stream", stage_name(a->ctx->stage));
    a->stream = a->ctx->stream;
    return NULL;
}

td_ffi_error_t *td_ffi_ctx_get(td_ffi_ctx_get_t *a) {
    CHECK_CTX(a, td_ffi_ctx_get_t, data);
    return td_ffi_errorf(TD_FFI_NOT_FOUND, "user data of type id %lld: executions carry none here",
                         (long long)(a->type_id ? a->type_id->type_id : 0));
}

/* ---- state ---- */
void td_ffi_slot_clear(td_ffi_slot_t *s) {
    if (s->state && s->deleter) s->deleter(s->state);
    *s = (td_ffi_slot_t){0};
}

static td_ffi_error_t *slot(td_ffi_state_t *a, td_ffi_slot_t **out) {
    td_ffi_ctx_t *c = a->ctx;
    if (c->handler->major == 0 && c->handler->minor < 3)
        return td_ffi_errorf(TD_FFI_UNIMPLEMENTED,
                             "state of a handler built for FFI %d.%d; 0.3 is the first with stages", c->handler->major,
                             c->handler->minor);
    *out = a->stage == TD_FFI_INSTANTIATE  ? c->instantiated
           : a->stage == TD_FFI_PREPARE    ? &c->prepared
           : a->stage == TD_FFI_INITIALIZE ? &c->initialized
                                           : NULL;
    if (!*out) return td_ffi_errorf(TD_FFI_INVALID_ARGUMENT, "the %s stage has no state", stage_name(a->stage));
    if (!a->type_id) return td_ffi_errorf(TD_FFI_INVALID_ARGUMENT, "state without a type id");
    return NULL;
}

td_ffi_error_t *td_ffi_state_set(td_ffi_state_t *a) {
    td_ffi_slot_t *s = NULL;
    void (*deleter)(void *) = NULL;
    CHECK_CTX(a, td_ffi_state_t, type_id); /* before 0.3 the struct is this short; slot() refuses it by version */
    td_ffi_error_t *e = slot(a, &s);
    if (e) return e;
    TD_FFI_CHECK(a, td_ffi_state_t, state);
    if (a->stage != (int32_t)a->ctx->stage)
        return td_ffi_errorf(TD_FFI_INVALID_ARGUMENT, "state of the %s stage is set in the %s stage",
                             stage_name(a->stage), stage_name(a->ctx->stage));
    if (!td_ffi_type_find(a->type_id->type_id, &deleter))
        return td_ffi_errorf(TD_FFI_NOT_FOUND, "state type id %lld is not registered", (long long)a->type_id->type_id);
    if (!deleter)
        return td_ffi_errorf(TD_FFI_INVALID_ARGUMENT, "state type id %lld has no deleter",
                             (long long)a->type_id->type_id);
    if (s->type_id)
        return td_ffi_errorf(TD_FFI_FAILED_PRECONDITION, "state of the %s stage is set twice", stage_name(a->stage));
    *s = (td_ffi_slot_t){a->type_id->type_id, a->state, deleter};
    return NULL;
}

td_ffi_error_t *td_ffi_state_get(td_ffi_state_t *a) {
    td_ffi_slot_t *s = NULL;
    CHECK_CTX(a, td_ffi_state_t, type_id);
    td_ffi_error_t *e = slot(a, &s);
    if (e) return e;
    TD_FFI_CHECK(a, td_ffi_state_t, state);
    if (!s->type_id) return td_ffi_errorf(TD_FFI_NOT_FOUND, "the %s stage set no state", stage_name(a->stage));
    if (s->type_id != a->type_id->type_id)
        return td_ffi_errorf(TD_FFI_INVALID_ARGUMENT, "state is of type id %lld, not %lld", (long long)s->type_id,
                             (long long)a->type_id->type_id);
    a->state = s->state;
    return NULL;
}

/* ---- device memory ---- */
td_ffi_error_t *td_ffi_mem_get(td_ffi_mem_get_t *a) {
    td_err_t err = {0};
    CHECK_CTX(a, td_ffi_mem_get_t, data);
    if (a->ctx->stage == TD_FFI_INSTANTIATE || a->ctx->stage == TD_FFI_PREPARE)
        return td_ffi_errorf(TD_FFI_UNIMPLEMENTED, "the %s stage has no allocator", stage_name(a->ctx->stage));
    if (!a->alignment || (a->alignment & (a->alignment - 1)) || a->alignment > 256)
        return td_ffi_errorf(TD_FFI_INVALID_ARGUMENT, "alignment %zu is not a power of two up to 256", a->alignment);
    a->data = NULL;
    if (a->size && a->ctx->dev->ops->mem_get(a->ctx->dev, a->size, &a->data, &err))
        return td_ffi_errorf(TD_FFI_RESOURCE_EXHAUSTED, "%s", err.text);
    return NULL;
}
td_ffi_error_t *td_ffi_mem_put(td_ffi_mem_put_t *a) {
    CHECK_CTX(a, td_ffi_mem_put_t, data);
    td_ffi_held_t *h = a->ctx->held;
    if (!h || !a->data) {
        a->ctx->dev->ops->mem_put(a->ctx->dev, a->data, a->size);
        return NULL;
    }
    if (h->n == h->most) h->flush(h);
    h->v[h->n].p = a->data;
    h->v[h->n++].bytes = a->size;
    return NULL;
}

/* ---- tasks: a thread each, so that one may wait for another ---- */
typedef struct task {
    void (*run)(void *);
    void *data;
} task_t;
static void *task_main(void *p) {
    task_t t = *(task_t *)p;
    free(p);
    t.run(t.data);
    return NULL;
}

/* Signals belong to the program's own threads. */
static bool start(task_t *t) {
    sigset_t all, old;
    pthread_attr_t attr;
    pthread_t id;
    if (pthread_attr_init(&attr)) return false;
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int e = pthread_create(&id, &attr, task_main, t);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    return e == 0;
}

td_ffi_error_t *td_ffi_pool_schedule(td_ffi_pool_schedule_t *a) {
    CHECK_CTX(a, td_ffi_pool_schedule_t, data);
    if (!is_host(a->ctx->dev)) return td_ffi_errorf(TD_FFI_UNIMPLEMENTED, "only the host device has a thread pool");
    if (!a->task) return td_ffi_errorf(TD_FFI_INVALID_ARGUMENT, "there is no task");
    task_t *t = malloc(sizeof *t);
    if (t) *t = (task_t){a->task, a->data};
    if (t && start(t)) return NULL;
    free(t);
    return td_ffi_errorf(TD_FFI_RESOURCE_EXHAUSTED, "no thread for a task");
}
td_ffi_error_t *td_ffi_pool_threads(td_ffi_pool_threads_t *a) {
    CHECK_CTX(a, td_ffi_pool_threads_t, num_threads);
    if (!is_host(a->ctx->dev)) return td_ffi_errorf(TD_FFI_UNIMPLEMENTED, "only the host device has a thread pool");
    if (!a->num_threads) return td_ffi_errorf(TD_FFI_INVALID_ARGUMENT, "no place for the number of threads");
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    *a->num_threads = n > 0 ? n : 1;
    return NULL;
}

/* ---- the execution ---- */
td_ffi_error_t *td_ffi_run_id_get(td_ffi_run_id_t *a) {
    CHECK_CTX(a, td_ffi_run_id_t, run_id);
    a->run_id = a->ctx->run_id;
    return NULL;
}
td_ffi_error_t *td_ffi_ordinal_get(td_ffi_ordinal_t *a) {
    CHECK_CTX(a, td_ffi_ordinal_t, device_ordinal);
    a->device_ordinal = a->ctx->dev->ordinal;
    return NULL;
}
td_ffi_error_t *td_ffi_ctx_extension(td_ffi_ctx_extension_t *a) {
    CHECK_CTX(a, td_ffi_ctx_extension_t, extension);
    a->extension = NULL; /* no error: there is none of that type */
    return NULL;
}
td_ffi_error_t *td_ffi_ctx_options(td_ffi_ctx_options_t *a) {
    static const td_ffi_attrs_t none = {.struct_size = TD_FFI_SIZE(td_ffi_attrs_t, attrs)};
    CHECK_CTX(a, td_ffi_ctx_options_t, attrs);
    a->attrs = &none;
    return NULL;
}
