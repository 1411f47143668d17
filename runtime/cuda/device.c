/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA device: opening, contexts, memory, events, and the table of functions. */
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/lib.h"

static atomic_uint_fast64_t serials;
static _Thread_local uint64_t current; /* serial of the device whose context is current here */

td_status_t td_cuda_enter(td_cuda_device_t *d, td_err_t *err) {
    if (current != d->serial) {
        CUresult r = d->cu.cuCtxSetCurrent(d->context);
        if (!r) current = d->serial;
        else if (!atomic_load(&d->poisoned)) return td_cuda_check(d, r, "cuCtxSetCurrent", "context", err);
    }
    if (!atomic_load_explicit(&d->poisoned, memory_order_acquire)) return TD_OK;
    if (err) *err = d->cause;
    return td_prefix(err, TD_DEVICE, "the device failed before, so nothing runs on it any more");
}

void td_cuda_leave(td_cuda_device_t *d) {
    d->cu.cuCtxSetCurrent(NULL);
    current = 0;
}

td_status_t td_cuda_check(td_cuda_device_t *d, CUresult r, const char *call, const char *what, td_err_t *err) {
    td_err_t own = {0};
    if (!r) return TD_OK;
    if (!err) err = &own;
    td_status_t st = td_cuda_fail(&d->cu, r, call, what, err);
    if (!td_cuda_sticky(r)) return st;
    pthread_mutex_lock(&d->lock);
    if (!atomic_load(&d->poisoned)) {
        d->cause = *err;
        atomic_store_explicit(&d->poisoned, true, memory_order_release);
    }
    pthread_mutex_unlock(&d->lock);
    return st;
}

static bool failed(td_device_t *dev, td_err_t *cause) {
    td_cuda_device_t *d = (td_cuda_device_t *)dev;
    if (!atomic_load_explicit(&d->poisoned, memory_order_acquire)) return false;
    if (cause) *cause = d->cause; /* never changes any more */
    return true;
}

static td_status_t mem_get(td_device_t *dev, uint64_t bytes, void **out, td_err_t *err) {
    td_status_t st = td_cuda_enter((td_cuda_device_t *)dev, err);
    return st ? st : td_cuda_pool_get((td_cuda_device_t *)dev, bytes, out, err);
}
static void mem_put(td_device_t *dev, void *p, uint64_t bytes) {
    (void)td_cuda_enter((td_cuda_device_t *)dev, NULL); /* a poisoned device's memory is given back too */
    td_cuda_pool_put((td_cuda_device_t *)dev, p, bytes);
}

static td_status_t event_create(td_device_t *dev, td_event_t **out, td_err_t *err) {
    td_cuda_device_t *d = (td_cuda_device_t *)dev;
    td_status_t st = td_cuda_enter(d, err);
    if (st) return st;
    td_event_t *e = dev->alloc->get(dev->alloc->ctx, sizeof *e, 16);
    if (!e) return td_fail(err, TD_NOMEM, "no memory for an event");
    *e = (td_event_t){.device = d};
    st = TD_CU(d, "event", err, cuEventCreate, &e->handle, CU_EVENT_DISABLE_TIMING);
    if (st) dev->alloc->put(dev->alloc->ctx, e, sizeof *e);
    else *out = e;
    return st;
}
static void event_destroy(td_event_t *e) {
    if (!e) return;
    (void)td_cuda_enter(e->device, NULL);
    e->device->cu.cuEventDestroy_v2(e->handle);
    e->device->base.alloc->put(e->device->base.alloc->ctx, e, sizeof *e);
}
static td_status_t event_record(td_stream_t *s, td_event_t *e, td_err_t *err) {
    td_status_t st = td_cuda_enter(e->device, err);
    return st ? st : TD_CU(e->device, "event", err, cuEventRecord, e->handle, ((td_cuda_stream_t *)s)->handle);
}
static td_status_t stream_wait(td_stream_t *s, td_event_t *e, td_err_t *err) {
    td_status_t st = td_cuda_enter(e->device, err);
    if (st) return st;
    return TD_CU(e->device, "event", err, cuStreamWaitEvent, ((td_cuda_stream_t *)s)->handle, e->handle,
                 CU_EVENT_WAIT_DEFAULT);
}

static td_status_t launch(td_stream_t *s, const td_kernel_t *k, void *const *bufs, uint32_t n, void *scratch,
                          td_err_t *err) {
    td_status_t st = td_cuda_enter(td_cuda_of(s), err);
    return st ? st : k->launch(s, k, bufs, n, scratch, err);
}
static void kernel_release(td_kernel_t *k) {
    if (k && k->release) k->release(k);
}

static void destroy(td_device_t *dev) {
    td_cuda_device_t *d = (td_cuda_device_t *)dev;
    if (d->context) {
        (void)td_cuda_enter(d, NULL);
        d->cu.cuCtxSynchronize();
        td_cuda_libs_close(d);
        if (d->own) d->cu.cuModuleUnload(d->own);
        td_device_destroy(d->host);
        while (d->modules) td_cuda_module_put(d, d->modules); /* there are none when all programs are gone */
        td_cuda_pool_destroy(d);
        td_cuda_leave(d);
        d->cu.cuDevicePrimaryCtxRelease_v2(d->handle);
    }
    pthread_mutex_destroy(&d->lock);
    pthread_mutex_destroy(&d->lib_lock);
    dev->alloc->put(dev->alloc->ctx, d, sizeof *d);
}

static const td_device_ops_t ops = {
    .name = "cuda", .destroy = destroy, .mem_get = mem_get, .mem_put = mem_put,
    .stream_create = td_cuda_stream_create, .stream_destroy = td_cuda_stream_destroy, .stream_sync = td_cuda_stream_sync,
    .event_create = event_create, .event_destroy = event_destroy, .event_record = event_record, .stream_wait = stream_wait,
    .copy = td_cuda_copy, .upload = td_cuda_upload, .download = td_cuda_download, .memset32 = td_cuda_memset32,
    .kernel_lower = td_cuda_kernel_lower, .library_lower = td_cuda_library_lower, .launch = launch,
    .kernel_release = kernel_release,
    .failed = failed,
    .tape_create = td_cuda_tape_create, .tape_destroy = td_cuda_tape_destroy, .stamp = td_cuda_stamp,
    .tape_read = td_cuda_tape_read,
    .graph_create = td_cuda_graph_create, .graph_destroy = td_cuda_graph_destroy, .graph_begin = td_cuda_graph_begin,
    .graph_end = td_cuda_graph_end, .graph_launch = td_cuda_graph_launch,
};

/* ---- opening ---- */
enum { SELECTOR = 64, CAPABILITY = 8, GRAPHS = 8, LANES = 8, DRIVER = 512 };
typedef struct options {
    char selector[SELECTOR], capability[CAPABILITY], graphs[GRAPHS], lanes[LANES], driver[DRIVER];
} options_t;

static td_status_t option(char *to, size_t room, const char *text, size_t n, td_err_t *err) {
    if (*to) return td_fail(err, TD_USAGE, "option '%.*s' of the CUDA device occurs twice", (int)n, text);
    if (n >= room) return td_fail(err, TD_USAGE, "option '%.*s' of the CUDA device is longer than %zu bytes", (int)n,
                                  text, room - 1);
    memcpy(to, text, n);
    to[n] = 0;
    return TD_OK;
}

static uint32_t lanes_of(const options_t *o) { return (uint32_t)strtoul(o->lanes, NULL, 10); }

static td_status_t parse(const char *text, options_t *o, td_err_t *err) {
    *o = (options_t){0};
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, ",");
        td_status_t st;
        if (n > 7 && !strncmp(p, "driver=", 7)) st = option(o->driver, DRIVER, p + 7, n - 7, err);
        else if (n > 7 && !strncmp(p, "graphs=", 7)) st = option(o->graphs, GRAPHS, p + 7, n - 7, err);
        else if (n > 6 && !strncmp(p, "lanes=", 6)) st = option(o->lanes, LANES, p + 6, n - 6, err);
        else if (n > 3 && !strncmp(p, "cc=", 3)) st = option(o->capability, CAPABILITY, p + 3, n - 3, err);
        else if (n && p == text && !memchr(p, '=', n)) st = option(o->selector, SELECTOR, p, n, err);
        else st = td_fail(err, TD_USAGE,
                          "option '%.*s' of the CUDA device is none of: a number, a UUID or 'auto' (first), "
                          "cc=MAJOR.MINOR (of that capability), graphs=auto|off, lanes=N (1 to %d), driver=FILE "
                          "(instead of libcuda.so.1)", (int)n, p, TD_LIMIT_LANES);
        if (st) return st;
        p += n + (p[n] == ',');
    }
    if (*o->graphs && strcmp(o->graphs, "auto") && strcmp(o->graphs, "off"))
        return td_fail(err, TD_USAGE, "option 'graphs=%s' of the CUDA device is neither auto nor off", o->graphs);
    if (*o->lanes && (strspn(o->lanes, "0123456789") != strlen(o->lanes) || !lanes_of(o) ||
                      lanes_of(o) > TD_LIMIT_LANES))
        return td_fail(err, TD_USAGE, "option 'lanes=%s' of the CUDA device is no number from 1 to %d", o->lanes,
                       TD_LIMIT_LANES);
    return TD_OK;
}

static td_status_t attributes(td_cuda_device_t *d, td_err_t *err) {
    const struct { int attribute, *to; } v[] = {
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &d->threads_most},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, &d->block_most[0]},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, &d->block_most[1]},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, &d->block_most[2]},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, &d->grid_most[0]},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, &d->grid_most[1]}, {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, &d->grid_most[2]},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &d->shared_most},
    };
    td_status_t st = TD_OK;
    for (size_t i = 0; i < sizeof v / sizeof *v && !st; i++)
        st = TD_CU(d, d->name, err, cuDeviceGetAttribute, v[i].to, v[i].attribute, d->handle);
    return st;
}

static td_status_t open_in(td_cuda_device_t *d, const char *text, td_err_t *err) {
    options_t o;
    int least = 0;
    td_status_t st = parse(text, &o, err);
    if (st || (st = td_cuda_open(*o.driver ? o.driver : NULL, &d->cu, err)) ||
        (st = td_cuda_choose(d, o.selector, *o.capability ? o.capability : NULL, err)) || (st = attributes(d, err)))
        return st;
    d->base.graphs = strcmp(o.graphs, "off") && td_cuda_graphs_ready(d);
    d->base.lanes_most = lanes_of(&o);
    d->base.ordinal = d->ordinal;
    st = TD_CU(d, d->name, err, cuDevicePrimaryCtxRetain, &d->context, d->handle);
    if (st) {
        d->context = NULL;
        return st;
    }
    if ((st = td_cuda_enter(d, err)) || (st = td_cuda_pool_create(d, err))) return st;
    return TD_CU(d, d->name, err, cuCtxGetStreamPriorityRange, &least, &d->priority);
}

td_status_t td_cuda_device_open(const char *options, const td_alloc_t *alloc, td_device_t **out, td_err_t *err) {
    td_cuda_device_t *d = alloc->get(alloc->ctx, sizeof *d, 16);
    if (!d) return td_fail(err, TD_NOMEM, "no memory for the CUDA device");
    memset(d, 0, sizeof *d);
    d->base.ops = &ops;
    d->base.alloc = alloc;
    d->base.stream_bytes = td_cuda_stream_bytes();
    d->serial = atomic_fetch_add(&serials, 1) + 1;
    pthread_mutex_init(&d->lock, NULL);
    pthread_mutex_init(&d->lib_lock, NULL);
    td_status_t st = open_in(d, options, err);
    if (st) destroy(&d->base);
    else *out = &d->base;
    return st;
}

const char *td_cuda_device_choice(const td_device_t *dev) {
    return dev->ops == &ops ? ((const td_cuda_device_t *)dev)->choice : "";
}
