/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, and what is enqueued on them besides kernels. They do not wait for the default stream; those for
 * communication have the highest priority, as XLA's. */
#include "runtime/cuda/cuda.h"

/* Pinned bytes: the main stream carries a request's tensors, the others at most a loop's condition. */
enum { MAIN_STAGE = 2 << 20, OTHER_STAGE = 8 << 10 };

static td_cuda_stream_t *own(td_stream_t *s) { return (td_cuda_stream_t *)s; }

uint64_t td_cuda_stream_bytes(void) { return sizeof(td_cuda_stream_t) + MAIN_STAGE + (16 << 10); }

td_status_t td_cuda_stream_create(td_device_t *dev, td_stream_use_t use, td_stream_t **out, td_err_t *err) {
    td_cuda_device_t *d = (td_cuda_device_t *)dev;
    td_status_t st = td_cuda_enter(d, err);
    if (st) return st;
    td_cuda_stream_t *s = dev->alloc->get(dev->alloc->ctx, sizeof *s, 16);
    if (!s) return td_fail(err, TD_NOMEM, "no memory for a stream");
    *s = (td_cuda_stream_t){.base.device = dev};
    st = TD_CU(d, "stream", err, cuStreamCreateWithPriority, &s->handle, CU_STREAM_NON_BLOCKING,
               use == TD_STREAM_COMMUNICATION ? d->priority : 0);
    if (!st) st = td_cuda_stage_create(d, use == TD_STREAM_MAIN ? MAIN_STAGE : OTHER_STAGE, &s->stage, err);
    if (st) td_cuda_stream_destroy(&s->base);
    else *out = &s->base;
    return st;
}

void td_cuda_stream_destroy(td_stream_t *s) {
    if (!s) return;
    td_cuda_device_t *d = td_cuda_of(s);
    (void)td_cuda_enter(d, NULL); /* handles of a poisoned device go too */
    if (own(s)->handle) {
        d->cu.cuStreamSynchronize(own(s)->handle);
        d->cu.cuStreamDestroy_v2(own(s)->handle);
    }
    td_cuda_stage_destroy(d, own(s)->stage);
    d->base.alloc->put(d->base.alloc->ctx, s, sizeof(td_cuda_stream_t));
}

td_status_t td_cuda_stream_sync(td_stream_t *s, td_err_t *err) {
    td_cuda_device_t *d = td_cuda_of(s);
    td_status_t st = td_cuda_enter(d, err);
    if (!st) st = TD_CU(d, "stream", err, cuStreamSynchronize, own(s)->handle);
    td_cuda_stage_flush(own(s)->stage, st != TD_OK);
    return st;
}

td_status_t td_cuda_upload(td_stream_t *s, void *dst, const void *host, uint64_t bytes, td_err_t *err) {
    td_status_t st = td_cuda_enter(td_cuda_of(s), err);
    return st ? st : td_cuda_stage_up(td_cuda_of(s), own(s)->stage, own(s)->handle, td_cuda_ptr(dst), host, bytes, err);
}

td_status_t td_cuda_download(td_stream_t *s, void *host, const void *src, uint64_t bytes, td_err_t *err) {
    td_status_t st = td_cuda_enter(td_cuda_of(s), err);
    return st ? st : td_cuda_stage_down(td_cuda_of(s), own(s)->stage, own(s)->handle, host, td_cuda_ptr(src), bytes,
                                        err);
}

td_status_t td_cuda_copy(td_stream_t *s, void *dst, const void *src, uint64_t bytes, td_err_t *err) {
    td_cuda_device_t *d = td_cuda_of(s);
    td_status_t st = td_cuda_enter(d, err);
    if (st || !bytes || dst == src) return st;
    return TD_CU(d, "copy", err, cuMemcpyDtoDAsync_v2, td_cuda_ptr(dst), td_cuda_ptr(src), bytes, own(s)->handle);
}

/* Words where address and size allow it; else bytes, which takes a value whose bytes are equal, or few of them. */
td_status_t td_cuda_memset32(td_stream_t *s, void *dst, uint32_t value, uint64_t bytes, td_err_t *err) {
    td_cuda_device_t *d = td_cuda_of(s);
    CUdeviceptr at = td_cuda_ptr(dst);
    CUstream q = own(s)->handle;
    td_status_t st = td_cuda_enter(d, err);
    if (st || !bytes) return st;
    if (at % 4 && value != (value & 0xff) * 0x01010101u)
        return td_fail(err, TD_MALFORMED, "memset32 of %#x at %#llx, which is no multiple of 4", value,
                       (unsigned long long)at);
    if (at % 4) return TD_CU(d, "fill", err, cuMemsetD8Async, at, (unsigned char)value, bytes, q);
    if (bytes / 4) st = TD_CU(d, "fill", err, cuMemsetD32Async, at, value, bytes / 4, q);
    for (uint64_t i = bytes & ~3ull; i < bytes && !st; i++)
        st = TD_CU(d, "fill", err, cuMemsetD8Async, at + i, (unsigned char)(value >> i % 4 * 8), 1, q);
    return st;
}
