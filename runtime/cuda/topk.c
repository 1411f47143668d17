/* SPDX-License-Identifier: Apache-2.0 */
/* Top-k: XLA has kernels linked in for it (and RAFT's select_k), which no artifact holds and no library offers, so this
 * is a kernel of the runtime's own (kernels.cu), for every type and k. */
#include <limits.h>
#include <string.h>

#include "base/checked.h"
#include "runtime/cuda/kernels_body.h"
#include "runtime/cuda/library.h"
#include "runtime/cuda/own.h"
#include "runtime/topk_desc.h"

enum { BLOCK = 256 };
typedef struct topk {
    td_kernel_t base;
    CUfunction kernel;
    uint64_t batch, n, k;
    uint32_t bytes, order;
} topk_t;

static td_status_t launch(td_stream_t *s, const td_kernel_t *base, void *const *bufs, uint32_t n, void *scratch,
                          td_err_t *err) {
    const topk_t *t = (const topk_t *)base;
    (void)scratch;
    if (n < 3) return td_fail(err, TD_INTERNAL, "top-k: %u buffers instead of 3", n);
    if (!t->kernel) return TD_OK;
    void *x = bufs[0], *values = bufs[1], *positions = bufs[2];
    uint64_t batch = t->batch, row = t->n, k = t->k;
    uint32_t bytes = t->bytes, order = t->order;
    void *params[] = {&x, &values, &positions, &batch, &row, &k, &bytes, &order};
    return td_cuda_own_launch(s, t->kernel, batch * BLOCK, params, "top-k", err); /* a block for each row */
}

static uint32_t order_of(const td_topk_desc_t *d) {
    uint32_t order = d->smallest ? TD_BODY_SMALLEST : 0;
    if (td_type_is_float(d->type) && d->type != TD_F8E8M0FNU)
        return order | TD_BODY_FLOAT | (d->zeros_equal ? TD_BODY_ZEROS_EQUAL : 0);
    return order | (td_type_is_signed(d->type) ? TD_BODY_SIGNED : 0);
}

static td_status_t check(const td_topk_desc_t *d, td_err_t *err) {
    uint32_t bits = td_type_bits(d->type);
    uint64_t all = 0;
    if (!td_type_is_array(d->type) || td_type_is_complex(d->type) ||
        (bits != 8 && bits != 16 && bits != 32 && bits != 64))
        return td_fail(err, TD_UNSUPPORTED, "top-k of element type %s", td_type_name(d->type));
    if (d->batch < 0 || d->k < 0 || d->n > INT_MAX || d->k > d->n ||
        !td_mul_u64((uint64_t)d->batch, (uint64_t)d->n * BLOCK, &all))
        return td_fail(err, TD_MALFORMED, "top-k: the first %lld of %lld", (long long)d->k, (long long)d->n);
    return TD_OK;
}

td_status_t td_cuda_topk_lower(td_cuda_device_t *d, const void *desc, td_arena_t *arena, td_kernel_t **out,
                               uint64_t *out_scratch, td_err_t *err) {
    const td_topk_desc_t *k = desc;
    td_status_t st = check(k, err);
    if (st) return st;
    topk_t *t = TD_NEW(arena, topk_t);
    if (!t) return td_arena_fail(arena, err);
    *t = (topk_t){.base = {.launch = launch}, .batch = (uint64_t)k->batch, .n = (uint64_t)k->n, .k = (uint64_t)k->k,
                  .bytes = td_type_bytes(k->type), .order = order_of(k)};
    if (t->batch && t->k && (st = td_cuda_own_get(d, "td_topk", &t->kernel, err))) return st;
    *out_scratch = 0;
    *out = &t->base;
    return TD_OK;
}

/* ---- XLA's linked-in kernels ---- */
static bool dense(const td_shape_t *s) { return s && td_type_is_array(s->type) && s->rank && s->default_layout; }

/* Input, values, positions and perhaps a workspace, as the instruction's operand and results. */
static td_status_t describe(const td_kernel_desc_t *k, td_topk_desc_t *d, td_err_t *err) {
    const td_shape_t *x = k->args[0].shape, *v = k->args[1].shape, *p = k->args[2].shape;
    if (!dense(x) || !dense(v) || !dense(p) || v->rank != x->rank || p->rank != x->rank || v->type != x->type ||
        p->type != TD_S32)
        return td_fail(err, TD_UNSUPPORTED, "top-k of arrays of another type, rank or layout");
    uint32_t last = x->rank - 1;
    *d = (td_topk_desc_t){.type = x->type, .batch = 1, .n = x->dims[last], .k = v->dims[last]};
    for (uint32_t i = 0; i < x->rank; i++) {
        if (v->dims[i] != p->dims[i] || (i < last && v->dims[i] != x->dims[i]))
            return td_fail(err, TD_MISMATCH, "top-k: dimension %u of the results", i);
        if (i < last && __builtin_mul_overflow(d->batch, x->dims[i], &d->batch))
            return td_fail(err, TD_LIMIT, "top-k: too many rows");
    }
    return td_topk_order(k->instr, d, err);
}

td_status_t td_cuda_symbol_lower(td_cuda_device_t *d, const td_kernel_desc_t *desc, td_arena_t *arena,
                                 td_kernel_t **out, uint64_t *out_scratch, td_err_t *err) {
    const char *name = desc->launch->symbol;
    td_topk_desc_t k;
    if (!desc->instr || !td_is_topk_call(desc->instr) || desc->n_args < 3)
        return td_fail(err, TD_UNSUPPORTED,
                       "kernel '%s' is linked into XLA itself: its code is not in the artifact, and this "
                       "build has none of that name",
                       name);
    td_status_t st = describe(desc, &k, err);
    if (!st) st = td_cuda_topk_lower(d, &k, arena, out, out_scratch, err);
    return st ? td_prefix(err, st, "kernel '%s'", name) : TD_OK;
}
