/* SPDX-License-Identifier: Apache-2.0 */
/* A ring of pinned memory in segments. Bytes that go up are copied into it and on from there; what comes down lands in
 * it and is copied out when its segment is used again, or the stream is synced. An event per segment tells when the
 * device is done with it, so large copies flow while the host fills the next segment. Nothing is allocated after
 * creation: when the list of what came down is full, the stream is waited for. */
#include <string.h>

#include "runtime/cuda/cuda.h"

enum { SEGMENTS = 4, PENDING = 256 };

typedef struct pending {
    void *host;
    const uint8_t *from;
    uint64_t bytes;
    uint32_t segment;
} pending_t;

struct td_cuda_stage {
    uint8_t *pinned;
    uint64_t segment_bytes, at; /* at: in the current segment */
    uint32_t segment;
    CUevent events[SEGMENTS];
    bool busy[SEGMENTS]; /* the event is recorded, and not waited for */
    pending_t pending[PENDING];
    uint32_t head, n; /* oldest first */
};

td_status_t td_cuda_stage_create(td_cuda_device_t *d, uint64_t bytes, td_cuda_stage_t **out, td_err_t *err) {
    td_cuda_stage_t *s = d->base.alloc->get(d->base.alloc->ctx, sizeof *s, 16);
    if (!s) return td_fail(err, TD_NOMEM, "no memory for a stream");
    memset(s, 0, sizeof *s);
    s->segment_bytes = bytes / SEGMENTS;
    void *p = NULL;
    td_status_t st = TD_CU(d, "pinned host memory", err, cuMemAllocHost_v2, &p, s->segment_bytes * SEGMENTS);
    s->pinned = p;
    for (int i = 0; i < SEGMENTS && !st; i++)
        st = TD_CU(d, "event", err, cuEventCreate, &s->events[i], CU_EVENT_DISABLE_TIMING);
    if (st) td_cuda_stage_destroy(d, s);
    else *out = s;
    return st;
}

void td_cuda_stage_destroy(td_cuda_device_t *d, td_cuda_stage_t *s) {
    if (!s) return;
    for (int i = 0; i < SEGMENTS; i++)
        if (s->events[i]) d->cu.cuEventDestroy_v2(s->events[i]);
    if (s->pinned) d->cu.cuMemFreeHost(s->pinned);
    d->base.alloc->put(d->base.alloc->ctx, s, sizeof *s);
}

/* What came down through a segment; the device is done with it. */
static void deliver(td_cuda_stage_t *s, uint32_t segment) {
    while (s->n && s->pending[s->head].segment == segment) {
        const pending_t *p = &s->pending[s->head];
        memcpy(p->host, p->from, p->bytes);
        s->head = (s->head + 1) % PENDING;
        s->n--;
    }
}

void td_cuda_stage_flush(td_cuda_stage_t *s, bool failed) {
    for (uint32_t i = 1; i <= SEGMENTS && !failed; i++) deliver(s, (s->segment + i) % SEGMENTS); /* the oldest first */
    s->head = s->n = 0;
    s->segment = 0;
    s->at = 0;
    memset(s->busy, 0, sizeof s->busy);
}

static td_status_t next_segment(td_cuda_device_t *d, td_cuda_stage_t *s, CUstream q, td_err_t *err) {
    td_status_t st = TD_CU(d, "stream", err, cuEventRecord, s->events[s->segment], q);
    if (st) return st;
    s->busy[s->segment] = true;
    uint32_t k = (s->segment + 1) % SEGMENTS;
    if (s->busy[k]) {
        if ((st = TD_CU(d, "stream", err, cuEventSynchronize, s->events[k]))) return st;
        deliver(s, k);
        s->busy[k] = false;
    }
    s->segment = k;
    s->at = 0;
    return TD_OK;
}

/* Room for up to `bytes`, at least one; *n: how many. */
static td_status_t room(td_cuda_device_t *d, td_cuda_stage_t *s, CUstream q, uint64_t bytes, uint8_t **out, uint64_t *n,
                        td_err_t *err) {
    /* A small copy is not split: its bytes stay together in the next segment. */
    uint64_t least = bytes < s->segment_bytes ? bytes : s->segment_bytes;
    if (s->segment_bytes - s->at < least) {
        td_status_t st = next_segment(d, s, q, err);
        if (st) return st;
    }
    *n = least;
    *out = s->pinned + s->segment * s->segment_bytes + s->at;
    s->at += least;
    s->at = (s->at + 63) & ~63ull;
    if (s->at > s->segment_bytes) s->at = s->segment_bytes;
    return TD_OK;
}

td_status_t td_cuda_stage_up(td_cuda_device_t *d, td_cuda_stage_t *s, CUstream q, CUdeviceptr dst, const void *host,
                             uint64_t bytes, td_err_t *err) {
    const uint8_t *from = host;
    td_status_t st = TD_OK;
    for (uint64_t n = 0; bytes && !st; bytes -= n, from += n, dst += n) {
        uint8_t *to = NULL;
        if ((st = room(d, s, q, bytes, &to, &n, err))) break;
        memcpy(to, from, n);
        st = TD_CU(d, "upload", err, cuMemcpyHtoDAsync_v2, dst, to, n, q);
    }
    return st;
}

td_status_t td_cuda_stage_down(td_cuda_device_t *d, td_cuda_stage_t *s, CUstream q, void *host, CUdeviceptr src,
                               uint64_t bytes, td_err_t *err) {
    uint8_t *to = host;
    td_status_t st = TD_OK;
    for (uint64_t n = 0; bytes && !st; bytes -= n, to += n, src += n) {
        uint8_t *at = NULL;
        if (s->n == PENDING) {
            if ((st = TD_CU(d, "stream", err, cuStreamSynchronize, q))) break;
            td_cuda_stage_flush(s, false);
        }
        if ((st = room(d, s, q, bytes, &at, &n, err))) break;
        if ((st = TD_CU(d, "download", err, cuMemcpyDtoHAsync_v2, at, src, n, q))) break;
        s->pending[(s->head + s->n++) % PENDING] = (pending_t){to, at, n, s->segment};
    }
    return st;
}
