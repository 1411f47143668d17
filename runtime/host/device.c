/* SPDX-License-Identifier: Apache-2.0 */
/* The host device. Main streams run their work in the thread that enqueues, as it is enqueued; all others
 * are queues with a worker (queue.h). With delays, main streams are queues too. */
#include "runtime/device.h"

#include <cblas.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "runtime/host/plan.h"
#include "runtime/host/pool.h"
#include "runtime/host/queue.h"

enum { ALIGN = 256 };
typedef struct host_device {
    td_device_t base;
    bool delayed;
    uint64_t seed;
    atomic_uint_fast64_t streams; /* created so far: each has delays of its own */
} host_device_t;

typedef struct host_stream {
    td_stream_t base;
    td_queue_t *queue; /* NULL: runs at once */
} host_stream_t;

struct td_event {
    td_device_t *device;
    td_position_t at; /* of the latest record */
};

static td_queue_t *queue_of(td_stream_t *s) { return ((host_stream_t *)s)->queue; }

static void destroy(td_device_t *dev) {
    td_host_threads_drop();
    dev->alloc->put(dev->alloc->ctx, dev, sizeof(host_device_t));
}

static td_status_t mem_get(td_device_t *dev, uint64_t bytes, void **out, td_err_t *err) {
    *out = bytes > SIZE_MAX / 2 ? NULL : dev->alloc->get(dev->alloc->ctx, bytes ? (size_t)bytes : 1, ALIGN);
    return *out ? TD_OK : td_fail(err, TD_NOMEM, "no %llu bytes of device memory", (unsigned long long)bytes);
}
static void mem_put(td_device_t *dev, void *p, uint64_t bytes) {
    if (p) dev->alloc->put(dev->alloc->ctx, p, bytes ? (size_t)bytes : 1);
}

static uint64_t next_seed(host_device_t *d) {
    uint64_t n = atomic_fetch_add(&d->streams, 1) + 1;
    uint64_t x = (d->seed + 1) * 0x9e3779b97f4a7c15u + n * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 31) * 0x94d049bb133111ebu;
    return (x ^ x >> 29) | 1;
}

static td_status_t stream_create(td_device_t *dev, td_stream_use_t use, td_stream_t **out, td_err_t *err) {
    host_device_t *d = (host_device_t *)dev;
    host_stream_t *s = dev->alloc->get(dev->alloc->ctx, sizeof *s, 16);
    if (!s) return td_fail(err, TD_NOMEM, "no memory for a stream");
    *s = (host_stream_t){.base.device = dev};
    td_status_t st = TD_OK;
    if (use != TD_STREAM_MAIN || d->delayed)
        st = td_queue_create(dev->alloc, d->delayed ? next_seed(d) : 0, &s->queue, err);
    if (st) dev->alloc->put(dev->alloc->ctx, s, sizeof *s);
    else *out = &s->base;
    return st;
}
static void stream_destroy(td_stream_t *s) {
    if (!s) return;
    td_queue_destroy(queue_of(s));
    s->device->alloc->put(s->device->alloc->ctx, s, sizeof(host_stream_t));
}
static td_status_t stream_sync(td_stream_t *s, td_err_t *err) {
    return queue_of(s) ? td_queue_sync(queue_of(s), err) : TD_OK;
}

static td_status_t event_create(td_device_t *dev, td_event_t **out, td_err_t *err) {
    td_event_t *e = dev->alloc->get(dev->alloc->ctx, sizeof *e, 16);
    if (!e) return td_fail(err, TD_NOMEM, "no memory for an event");
    *e = (td_event_t){.device = dev};
    *out = e;
    return TD_OK;
}
static void event_destroy(td_event_t *e) {
    if (e) e->device->alloc->put(e->device->alloc->ctx, e, sizeof *e);
}
static td_status_t event_record(td_stream_t *s, td_event_t *e, td_err_t *err) {
    (void)err;
    e->at = queue_of(s) ? td_queue_record(queue_of(s)) : (td_position_t){0};
    return TD_OK;
}

static td_status_t enqueue(td_stream_t *s, const td_item_t *item, void *const *bufs, uint32_t n, td_err_t *err) {
    if (queue_of(s)) return td_queue_push(queue_of(s), item, bufs, n, err);
    if (item->kind != TD_ITEM_WAIT) td_queue_turn(NULL);
    return td_item_run(item, bufs, err);
}
static td_status_t stream_wait(td_stream_t *s, td_event_t *e, td_err_t *err) {
    if (!e->at.queue || e->at.queue == queue_of(s)) return TD_OK;
    return enqueue(s, &(td_item_t){.kind = TD_ITEM_WAIT, .u.wait = e->at}, NULL, 0, err);
}
static td_status_t copy(td_stream_t *s, void *dst, const void *src, uint64_t bytes, td_err_t *err) {
    return enqueue(s, &(td_item_t){.kind = TD_ITEM_COPY, .u.move = {dst, src, bytes}}, NULL, 0, err);
}
static td_status_t memset32(td_stream_t *s, void *dst, uint32_t value, uint64_t bytes, td_err_t *err) {
    return enqueue(s, &(td_item_t){.kind = TD_ITEM_FILL, .value = value, .u.move = {dst, NULL, bytes}}, NULL, 0, err);
}
static td_status_t launch(td_stream_t *s, const td_kernel_t *k, void *const *bufs, uint32_t n, void *scratch,
                          td_err_t *err) {
    if (!queue_of(s)) {
        td_queue_turn(NULL);
        return k->run(k, bufs, scratch, err);
    }
    return td_queue_push(queue_of(s), &(td_item_t){.kind = TD_ITEM_LAUNCH, .u.launch = {k, scratch}}, bufs, n, err);
}
/* ---- traces ---- */
struct td_tape {
    const td_alloc_t *alloc;
    uint32_t most;
    uint64_t at[]; /* 0: not reached */
};
static size_t tape_bytes(uint32_t most) { return sizeof(td_tape_t) + most * sizeof(uint64_t); }

static td_status_t tape_create(td_device_t *dev, uint32_t most, td_tape_t **out, td_err_t *err) {
    td_tape_t *t = dev->alloc->get(dev->alloc->ctx, tape_bytes(most), 16);
    if (!t) return td_fail(err, TD_NOMEM, "no memory for a trace of %u stamps", most);
    memset(t, 0, tape_bytes(most));
    t->alloc = dev->alloc, t->most = most;
    *out = t;
    return TD_OK;
}
static void tape_destroy(td_tape_t *t) {
    if (t) t->alloc->put(t->alloc->ctx, t, tape_bytes(t->most));
}
static td_status_t stamp(td_stream_t *s, td_tape_t *t, uint32_t i, td_err_t *err) {
    t->at[i] = 0;
    const td_item_t item = {.kind = TD_ITEM_STAMP, .u.stamp = &t->at[i]};
    return queue_of(s) ? td_queue_push(queue_of(s), &item, NULL, 0, err) : td_item_run(&item, NULL, err);
}
static td_status_t tape_read(td_tape_t *t, uint32_t n, uint64_t *out_ns, td_err_t *err) {
    (void)err;
    for (uint32_t i = 0; i < n; i++)
        out_ns[i] = !t->at[0] || !t->at[i] ? TD_NO_TIME : t->at[i] < t->at[0] ? 0 : t->at[i] - t->at[0];
    return TD_OK;
}
static bool stream_running(td_stream_t *s, const td_kernel_t **out) {
    *out = NULL;
    return queue_of(s) && td_queue_running(queue_of(s), out);
}

static uint64_t pack_bytes(const td_kernel_t *k, uint32_t arg) { return k->pack_bytes ? k->pack_bytes(k, arg) : 0; }
static td_status_t pack(td_stream_t *s, td_kernel_t *k, uint32_t arg, const void *from, void *to, void *scratch, td_err_t *err) {
    td_status_t st = stream_sync(s, err);
    return st ? st : k->pack(k, arg, from, to, scratch, err);
}
static void kernel_release(td_kernel_t *k) {
    if (k && k->release) k->release(k);
}

static const td_device_ops_t ops = {
    .name = "host", .joins_kernels = true, .compiles = true, .destroy = destroy, .mem_get = mem_get, .mem_put = mem_put,
    .stream_create = stream_create, .stream_destroy = stream_destroy, .stream_sync = stream_sync,
    .event_create = event_create,
    .event_destroy = event_destroy, .event_record = event_record, .stream_wait = stream_wait, .copy = copy,
    .upload = copy, .download = copy, .memset32 = memset32, .kernel_lower = td_host_kernel_lower,
    .library_lower = td_host_library_lower, .launch = launch, .pack_bytes = pack_bytes, .pack = pack, .kernel_release = kernel_release,
    .tape_create = tape_create, .tape_destroy = tape_destroy, .stamp = stamp, .tape_read = tape_read,
    .stream_running = stream_running,
};

/* Is the option NAME=NUMBER? Its value then, with *end behind it. */
static bool number(const char *option, const char *name, uint64_t *v, const char **end) {
    size_t n = strlen(name);
    if (strncmp(option, name, n) || option[n] != '=' || option[n + 1] < '0' || option[n + 1] > '9') return false;
    char *e = NULL;
    errno = 0;
    *v = strtoull(option + n + 1, &e, 10);
    *end = e;
    return !errno && (!*e || *e == ',');
}

static td_status_t parse(const char *options, host_device_t *d, int *threads, td_err_t *err) {
    const char *end = options;
    for (const char *o = options; *end; o = end + 1) {
        uint64_t v = 0;
        if (number(o, "delay", &v, &end)) {
            d->seed = v;
            d->delayed = true;
        } else if (number(o, "threads", &v, &end) && v >= 1 && v <= TD_HOST_THREADS_MOST) {
            *threads = (int)v;
        } else if (number(o, "lanes", &v, &end) && v >= 1 && v <= TD_LIMIT_LANES) {
            d->base.lanes_most = (uint32_t)v;
        } else {
            return td_fail(err, TD_USAGE,
                           "option '%s' of the host device is none of: delay=SEED (64 bits), threads=N (1 to %d), "
                           "lanes=N (1 to %d)", o, TD_HOST_THREADS_MOST, TD_LIMIT_LANES);
        }
    }
    return TD_OK;
}

__attribute__((visibility("default"))) td_status_t td_host_device_open(const char *options, const td_alloc_t *alloc,
                                                                       td_device_t **out, td_err_t *err) {
    host_device_t *d = alloc->get(alloc->ctx, sizeof *d, 16);
    if (!d) return td_fail(err, TD_NOMEM, "no memory for the host device");
    *d = (host_device_t){.base = {.ops = &ops, .alloc = alloc, .stream_bytes = td_queue_bytes()}};
    int threads = 0;
    td_status_t st = parse(options, d, &threads, err);
    if (!st && !td_host_threads_hold(threads))
        st = td_fail(err, TD_USAGE, "a host device with %d threads is open, so there cannot be one with %d",
                     td_host_threads(), threads);
    if (st) {
        alloc->put(alloc->ctx, d, sizeof *d);
        return st;
    }
    openblas_set_num_threads(1);
    d->base.host_memory = !d->delayed;
    if (!d->delayed) d->base.light_bytes = 1 << 16; /* some microseconds, as waking a thread takes */
    *out = &d->base;
    return TD_OK;
}

td_status_t td_host_device_create(const td_alloc_t *alloc, td_device_t **out, td_err_t *err) {
    return td_host_device_open("", alloc, out, err);
}
