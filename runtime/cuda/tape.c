/* SPDX-License-Identifier: Apache-2.0 */
/* Stamps of traces: events that keep the time, made when they are first needed and used again by later runs. */
#include <string.h>

#include "runtime/cuda/cuda.h"

struct td_tape {
    td_cuda_device_t *device;
    uint32_t most;
    CUevent events[];
};
static size_t tape_bytes(uint32_t most) { return sizeof(td_tape_t) + most * sizeof(CUevent); }

td_status_t td_cuda_tape_create(td_device_t *dev, uint32_t most, td_tape_t **out, td_err_t *err) {
    td_tape_t *t = dev->alloc->get(dev->alloc->ctx, tape_bytes(most), 16);
    if (!t) return td_fail(err, TD_NOMEM, "no memory for a trace of %u stamps", most);
    memset(t, 0, tape_bytes(most));
    t->device = (td_cuda_device_t *)dev, t->most = most;
    *out = t;
    return TD_OK;
}

void td_cuda_tape_destroy(td_tape_t *t) {
    if (!t) return;
    td_cuda_device_t *d = t->device;
    (void)td_cuda_enter(d, NULL);
    for (uint32_t i = 0; i < t->most; i++)
        if (t->events[i]) d->cu.cuEventDestroy_v2(t->events[i]);
    d->base.alloc->put(d->base.alloc->ctx, t, tape_bytes(t->most));
}

td_status_t td_cuda_stamp(td_stream_t *s, td_tape_t *t, uint32_t i, td_err_t *err) {
    td_cuda_device_t *d = t->device;
    td_status_t st = td_cuda_enter(d, err);
    if (!st && !t->events[i]) st = TD_CU(d, "stamp", err, cuEventCreate, &t->events[i], CU_EVENT_DEFAULT);
    return st ? st : TD_CU(d, "stamp", err, cuEventRecord, t->events[i], ((td_cuda_stream_t *)s)->handle);
}

td_status_t td_cuda_tape_read(td_tape_t *t, uint32_t n, uint64_t *out_ns, td_err_t *err) {
    td_cuda_device_t *d = t->device;
    td_status_t st = td_cuda_enter(d, err);
    for (uint32_t i = 0; i < n && !st; i++) {
        float ms = 0;
        out_ns[i] = TD_NO_TIME;
        if (!t->events[0] || !t->events[i]) continue;
        st = TD_CU(d, "stamp", err, cuEventElapsedTime, &ms, t->events[0], t->events[i]);
        if (!st) out_ns[i] = ms > 0 ? (uint64_t)((double)ms * 1e6 + 0.5) : 0;
    }
    return st;
}
