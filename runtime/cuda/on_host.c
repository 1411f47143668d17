/* SPDX-License-Identifier: Apache-2.0 */
/* Custom calls that the host device computes for the GPU, as jaxlib's hybrid handlers do with LAPACK: the arrays go
 * through pinned memory, made when the call is lowered, and the launch waits for the stream. */
#include "runtime/cuda/custom.h"

typedef struct on_host {
    td_kernel_t base;
    td_cuda_device_t *device;
    td_device_t *host;
    td_kernel_t *kernel; /* of the host device */
    td_stream_t *stream;
    pthread_mutex_t lock; /* the memory below */
    bool locked;
    void *memory; /* pinned: the arrays, then the scratch */
    uint32_t n, n_operands;
    void **bufs;
    uint64_t *bytes;
    void *scratch;
} on_host_t;

static void release(td_kernel_t *k) {
    on_host_t *h = (on_host_t *)k;
    if (h->kernel) h->host->ops->kernel_release(h->kernel);
    if (h->stream) h->host->ops->stream_destroy(h->stream);
    if (h->memory) {
        (void)td_cuda_enter(h->device, NULL);
        h->device->cu.cuMemFreeHost(h->memory);
    }
    if (h->locked) pthread_mutex_destroy(&h->lock);
    *h = (on_host_t){.base = h->base};
}

static td_status_t compute(on_host_t *h, td_stream_t *s, void *const *bufs, td_err_t *err) {
    td_cuda_device_t *d = h->device;
    CUstream q = ((td_cuda_stream_t *)s)->handle;
    td_status_t st = TD_OK;
    for (uint32_t i = 0; i < h->n_operands && !st; i++)
        if (h->bytes[i])
            st = TD_CU(d, "operand", err, cuMemcpyDtoHAsync_v2, h->bufs[i], td_cuda_ptr(bufs[i]), h->bytes[i], q);
    if (!st) st = TD_CU(d, "stream", err, cuStreamSynchronize, q);
    if (!st) st = h->host->ops->launch(h->stream, h->kernel, h->bufs, h->n, h->scratch, err);
    if (!st) st = h->host->ops->stream_sync(h->stream, err);
    for (uint32_t i = h->n_operands; i < h->n && !st; i++)
        if (h->bytes[i])
            st = TD_CU(d, "result", err, cuMemcpyHtoDAsync_v2, td_cuda_ptr(bufs[i]), h->bufs[i], h->bytes[i], q);
    return st ? st : TD_CU(d, "stream", err, cuStreamSynchronize, q); /* the memory is free for the next launch */
}
static td_status_t launch(td_stream_t *s, const td_kernel_t *k, void *const *bufs, uint32_t n, void *scratch,
                          td_err_t *err) {
    on_host_t *h = (on_host_t *)(uintptr_t)k;
    (void)n, (void)scratch;
    pthread_mutex_lock(&h->lock);
    td_status_t st = compute(h, s, bufs, err);
    pthread_mutex_unlock(&h->lock);
    return st;
}

static uint64_t bytes_of(const td_custom_call_desc_t *c, uint32_t i) {
    const td_shape_t *s = i < c->n_operands ? c->operands[i] : c->results[i - c->n_operands];
    return td_type_is_array(s->type) ? s->bytes : 0;
}
static td_status_t memory(on_host_t *h, const td_custom_call_desc_t *c, td_arena_t *arena, uint64_t scratch,
                          td_err_t *err) {
    uint64_t total = 0, at = 0;
    td_status_t st = TD_OK;
    h->n_operands = c->n_operands;
    h->n = c->n_operands + c->n_results;
    h->bufs = TD_NEW_N(arena, void *, h->n + 1);
    h->bytes = TD_NEW_N(arena, uint64_t, h->n + 1);
    uint64_t *places = TD_NEW_N(arena, uint64_t, h->n + 1);
    if (!h->bufs || !h->bytes || !places) return td_arena_fail(arena, err);
    for (uint32_t i = 0; i < h->n && !st; i++) {
        h->bytes[i] = bytes_of(c, i);
        st = td_hc_scratch(&total, h->bytes[i], 1, &places[i], err);
    }
    if (!st) st = td_hc_scratch(&total, scratch, 1, &at, err);
    if (st) return st;
    st = TD_CU(h->device, "pinned memory of a custom call", err, cuMemAllocHost_v2, &h->memory, total ? total : 1);
    if (st) {
        h->memory = NULL;
        return st;
    }
    for (uint32_t i = 0; i < h->n; i++) h->bufs[i] = h->bytes[i] ? td_at(h->memory, places[i]) : NULL;
    h->scratch = td_at(h->memory, at);
    return TD_OK;
}

/* The one host device of this device, opened when first needed. */
static td_status_t host_of(td_cuda_device_t *d, td_device_t **out, td_err_t *err) {
    pthread_mutex_lock(&d->lib_lock);
    td_status_t st = d->host ? TD_OK : td_device_open("host", d->base.alloc, &d->host, err);
    *out = d->host;
    pthread_mutex_unlock(&d->lib_lock);
    return st;
}

TD_CUDA_TARGET(on_host) {
    uint64_t scratch = 0;
    on_host_t *h = TD_NEW(arena, on_host_t);
    if (!h) return td_arena_fail(arena, err);
    h->base = (td_kernel_t){.launch = launch, .release = release};
    h->device = d;
    td_status_t st = host_of(d, &h->host, err);
    if (st) return td_prefix(err, st, "'%s' is computed on the host", desc->target);
    pthread_mutex_init(&h->lock, NULL);
    h->locked = true;
    st = h->host->ops->library_lower(h->host, TD_OP_CUSTOM_CALL, desc, arena, &h->kernel, &scratch, err);
    if (!st) st = h->host->ops->stream_create(h->host, TD_STREAM_MAIN, &h->stream, err);
    if (!st) st = memory(h, desc, arena, scratch, err);
    if (st) {
        release(&h->base);
        return st;
    }
    *out = &h->base;
    *out_scratch = 0;
    return TD_OK;
}
