/* SPDX-License-Identifier: Apache-2.0 */
/* Copies and fills. Pinned host memory is read and written when the copy runs; pageable memory is read before the
 * call returns, and written before it returns, as the driver does. */
#include <stdlib.h>
#include <string.h>

#include "tests/fakecuda/capture.h"

typedef enum way { TO_DEVICE = 1, TO_HOST, BETWEEN, FILL8, FILL32 } way_t;
typedef struct copy_op {
    fk_op_t op;
    way_t way;
    uint64_t dst, src, bytes;
    uint32_t value;
    const char *call;
} copy_op_t;
typedef struct copy_item {
    fk_item_t base;
    way_t way;
    uint8_t *dst;
    const uint8_t *src;
    void *staged;
    uint64_t bytes;
    uint32_t value;
} copy_item_t;

static CUresult run(fk_item_t *base) {
    copy_item_t *it = (copy_item_t *)base;
    if (it->way == FILL8) memset(it->dst, (int)it->value, it->bytes);
    else if (it->way == FILL32)
        for (uint64_t i = 0; i < it->bytes; i += 4) memcpy(it->dst + i, &it->value, 4);
    else memmove(it->dst, it->src, it->bytes);
    return CUDA_SUCCESS;
}
static void drop(fk_item_t *base) { free(((copy_item_t *)base)->staged); }

static void use(copy_item_t *it, fk_mem_t *m, uint64_t addr, bool write) {
    it->base.uses[it->base.n_uses++] = (fk_use_t){m, addr, it->bytes, write, !write};
}
/* One side of the copy: its bytes, and the use of its memory. */
static CUresult device_side(copy_item_t *it, const copy_op_t *op, uint64_t addr, bool write, uint8_t **p) {
    fk_mem_t *m = fk_mem_find(addr, op->bytes, write ? "destination" : "source");
    if (!m) return CUDA_ERROR_INVALID_VALUE;
    use(it, m, addr, write);
    *p = fk_mem_at(m, addr);
    return CUDA_SUCCESS;
}
static CUresult host_side(copy_item_t *it, const copy_op_t *op, uint64_t addr, bool write, uint8_t **p,
                          bool *pageable) {
    fk_mem_t *m = fk_mem_host((void *)(uintptr_t)addr, op->bytes);
    if (m) {
        use(it, m, addr, write);
    } else if (fk_mem_is_device(addr)) {
        return fk_fault(FK_POINTER, CUDA_ERROR_INVALID_VALUE, "%#llx is a device address where host memory belongs",
                        (unsigned long long)addr);
    } else if (!addr) {
        return fk_fault(FK_POINTER, CUDA_ERROR_INVALID_VALUE, "no host memory for %llu bytes",
                        (unsigned long long)op->bytes);
    }
    *pageable = !m;
    *p = (uint8_t *)(uintptr_t)addr;
    return CUDA_SUCCESS;
}

static CUresult fill_in(copy_item_t *it, const copy_op_t *op, bool *pageable) {
    uint8_t *src = NULL;
    CUresult r = op->way == TO_HOST ? host_side(it, op, op->dst, true, &it->dst, pageable)
                                    : device_side(it, op, op->dst, true, &it->dst);
    if (!r && op->way == TO_DEVICE) r = host_side(it, op, op->src, false, &src, pageable);
    else if (!r && (op->way == TO_HOST || op->way == BETWEEN)) r = device_side(it, op, op->src, false, &src);
    if (!r && op->way == TO_DEVICE && *pageable && !op->op.replayed) {
        it->staged = malloc(op->bytes);
        if (!it->staged) return CUDA_ERROR_OUT_OF_MEMORY;
        memcpy(it->staged, src, op->bytes);
        src = it->staged;
    }
    it->src = src;
    return r;
}

static CUresult push(const fk_op_t *base, fk_stream_t *s) {
    const copy_op_t *op = (const copy_op_t *)base;
    bool pageable = false;
    if (!op->bytes) return CUDA_SUCCESS;
    copy_item_t *it = calloc(1, sizeof *it);
    if (it) it->base.uses = calloc(2, sizeof *it->base.uses);
    CUresult r = it && it->base.uses ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    if (!r) {
        it->base.run = run;
        it->base.drop = drop;
        it->base.who = op->call;
        it->way = op->way;
        it->bytes = op->bytes;
        it->value = op->value;
        r = fill_in(it, op, &pageable);
    }
    if (r) {
        if (it) free(it->base.uses);
        free(it);
        return r;
    }
    fk_push(s, &it->base);
    if (!pageable || op->way != TO_HOST || op->op.replayed) return CUDA_SUCCESS;
    fk_mark_t *m = fk_stream_mark(s);
    if (!m) return CUDA_ERROR_OUT_OF_MEMORY;
    fk_mark_await(m);
    fk_clock_seen(s->base.ctx, m->clock);
    fk_mark_put(m);
    return s->base.ctx->sticky;
}

static CUresult issue(way_t way, uint64_t dst, uint64_t src, uint64_t bytes, uint32_t value, CUstream stream) {
    CUresult r = CUDA_SUCCESS;
    fk_stream_t *s = fk_stream_for_work(stream, &r);
    copy_op_t op = {.op = {.push = push, .bytes = sizeof op, .shape = way}, .way = way, .dst = dst, .src = src,
                    .bytes = bytes, .value = value, .call = fk_call()};
    return fk_leave(s ? fk_issue(s, &op.op) : r);
}

FK_EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t bytes, CUstream stream) {
    FK_ENTER(cuMemcpyHtoDAsync_v2, 0);
    return issue(TO_DEVICE, dst, (uintptr_t)src, bytes, 0, stream);
}
FK_EXPORT CUresult cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t bytes, CUstream stream) {
    FK_ENTER(cuMemcpyDtoHAsync_v2, 0);
    return issue(TO_HOST, (uintptr_t)dst, src, bytes, 0, stream);
}
FK_EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) {
    FK_ENTER(cuMemcpyDtoDAsync_v2, 0);
    return issue(BETWEEN, dst, src, bytes, 0, stream);
}
FK_EXPORT CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t count, CUstream stream) {
    FK_ENTER(cuMemsetD8Async, 0);
    return issue(FILL8, dst, 0, count, value, stream);
}
FK_EXPORT CUresult cuMemsetD32Async(CUdeviceptr dst, unsigned value, size_t count, CUstream stream) {
    FK_ENTER(cuMemsetD32Async, 0);
    if (dst % 4 || count > SIZE_MAX / 4) return fk_leave(CUDA_ERROR_INVALID_VALUE);
    return issue(FILL32, dst, 0, 4 * count, value, stream);
}
