/* SPDX-License-Identifier: Apache-2.0 */
/* The host device. Work runs inline, in the order it is enqueued: streams and
 * events keep their place in the interface but have nothing to wait for. */
#include "runtime/device.h"

#include <cblas.h>
#include <string.h>

#include "runtime/host/plan.h"

enum { ALIGN = 256 };
struct td_event {
    td_device_t *device;
};

static void destroy(td_device_t *dev) { dev->alloc->put(dev->alloc->ctx, dev, sizeof *dev); }

static td_status_t mem_get(td_device_t *dev, uint64_t bytes, void **out, td_err_t *err) {
    *out = bytes > SIZE_MAX / 2 ? NULL : dev->alloc->get(dev->alloc->ctx, bytes ? (size_t)bytes : 1, ALIGN);
    return *out ? TD_OK : td_fail(err, TD_NOMEM, "no %llu bytes of device memory", (unsigned long long)bytes);
}
static void mem_put(td_device_t *dev, void *p, uint64_t bytes) {
    if (p) dev->alloc->put(dev->alloc->ctx, p, bytes ? (size_t)bytes : 1);
}

static td_status_t stream_create(td_device_t *dev, int priority, td_stream_t **out, td_err_t *err) {
    (void)priority;
    td_stream_t *s = dev->alloc->get(dev->alloc->ctx, sizeof *s, 16);
    if (!s) return td_fail(err, TD_NOMEM, "no memory for a stream");
    s->device = dev;
    *out = s;
    return TD_OK;
}
static void stream_destroy(td_stream_t *s) {
    if (s) s->device->alloc->put(s->device->alloc->ctx, s, sizeof *s);
}
static td_status_t stream_sync(td_stream_t *s, td_err_t *err) {
    (void)s, (void)err;
    return TD_OK;
}
static td_status_t event_create(td_device_t *dev, td_event_t **out, td_err_t *err) {
    td_event_t *e = dev->alloc->get(dev->alloc->ctx, sizeof *e, 16);
    if (!e) return td_fail(err, TD_NOMEM, "no memory for an event");
    e->device = dev;
    *out = e;
    return TD_OK;
}
static void event_destroy(td_event_t *e) {
    if (e) e->device->alloc->put(e->device->alloc->ctx, e, sizeof *e);
}
static td_status_t event_record(td_stream_t *s, td_event_t *e, td_err_t *err) {
    (void)s, (void)e, (void)err;
    return TD_OK;
}

static td_status_t copy(td_stream_t *s, void *dst, const void *src, uint64_t bytes, td_err_t *err) {
    (void)s, (void)err;
    if (bytes && dst != src) memmove(dst, src, bytes);
    return TD_OK;
}
static td_status_t memset32(td_stream_t *s, void *dst, uint32_t value, uint64_t bytes, td_err_t *err) {
    (void)s, (void)err;
    uint32_t *d = dst;
    for (uint64_t i = 0; i < bytes / 4; i++) d[i] = value;
    if (bytes % 4) memcpy(d + bytes / 4, &value, bytes % 4);
    return TD_OK;
}

static td_status_t launch(td_stream_t *s, const td_kernel_t *k, void *const *bufs, void *scratch, td_err_t *err) {
    (void)s;
    return k->run(k, bufs, scratch, err);
}
static void kernel_release(td_kernel_t *k) {
    if (k && k->release) k->release(k);
}

static const td_device_ops_t ops = {
    .name = "host", .destroy = destroy, .mem_get = mem_get, .mem_put = mem_put, .stream_create = stream_create,
    .stream_destroy = stream_destroy, .stream_sync = stream_sync, .event_create = event_create,
    .event_destroy = event_destroy, .event_record = event_record, .stream_wait = event_record, .copy = copy,
    .upload = copy, .download = copy, .memset32 = memset32, .kernel_lower = td_host_kernel_lower,
    .library_lower = td_host_library_lower, .launch = launch, .kernel_release = kernel_release,
};

__attribute__((visibility("default"))) td_status_t td_host_device_create(const td_alloc_t *alloc, td_device_t **out, td_err_t *err) {
    td_device_t *d = alloc->get(alloc->ctx, sizeof *d, 16);
    if (!d) return td_fail(err, TD_NOMEM, "no memory for the host device");
    openblas_set_num_threads(1);
    *d = (td_device_t){.ops = &ops, .alloc = alloc};
    *out = d;
    return TD_OK;
}
