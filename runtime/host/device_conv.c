/* SPDX-License-Identifier: Apache-2.0 */
/* The convolution of libraries, and the permutation of filters for int8x32 convolutions. */
#include <string.h>

#include "runtime/host/conv.h"
#include "runtime/host/library.h"
#include "runtime/host/pool.h"

typedef struct reorder {
    td_strided_t filter;
    int64_t out;
    bool has_bias;
} reorder_t;

static double work_of(const td_conv_form_t *f) {
    double work = (double)f->groups * (double)f->batch * (double)f->in * (double)f->out;
    for (uint32_t i = 0; i < f->n; i++) work *= (double)f->taps[i] * (double)f->positions[i];
    return work;
}

static td_status_t run(const td_kernel_t *k, void *const *bufs, void *scratch, td_err_t *err) {
    const td_conv_plan_t *p = k->library;
    const td_conv_desc_t *d = &p->d;
    td_conv_bufs_t b = {.x = bufs[0], .w = bufs[1], .y = bufs[2], .bias = d->has_bias ? bufs[3] : NULL,
                        .side = d->has_side ? bufs[3 + d->has_bias] : NULL};
    if (k->packed) b.packed_w = bufs[1];
    int team = td_pool_enter(work_of(&p->form));
    td_status_t st = td_conv_run(p, &b, scratch, err);
    td_pool_leave(team);
    return st;
}

/* The filter, unless it is what the kernel computes. */
static uint64_t pack_bytes(const td_kernel_t *k, uint32_t arg) {
    return arg == 1 ? td_conv_packed_bytes(k->library) : 0;
}
static td_status_t pack(td_kernel_t *k, uint32_t arg, const void *from, void *to, void *scratch, td_err_t *err) {
    (void)arg;
    k->packed = true;
    return td_conv_pack(k->library, from, to, scratch, err);
}

static void release(td_kernel_t *k) { td_conv_plan_release((td_conv_plan_t *)(uintptr_t)k->library); }

static td_status_t run_reorder(const td_kernel_t *k, void *const *bufs, void *scratch, td_err_t *err) {
    (void)scratch, (void)err;
    const reorder_t *r = k->library;
    td_strided_copy(&r->filter, bufs[1], bufs[0]);
    for (int64_t o = 0; r->has_bias && o < r->out; o++) /* blocks of 32: 4 x 2 x 4 to 2 x 4 x 4 */
        memcpy((char *)bufs[3] + 4 * (o / 32 * 32 + o / 4 % 2 * 16 + o / 8 % 4 * 4 + o % 4),
               (const char *)bufs[2] + 4 * o, 4);
    return TD_OK;
}

static td_status_t lower_reorder(const td_conv_desc_t *d, td_kernel_t *k, td_arena_t *arena, uint64_t *out_scratch,
                                 td_err_t *err) {
    reorder_t *r = TD_NEW(arena, reorder_t);
    int64_t n[8], permuted[8], plain[8];
    if (!r) return td_arena_fail(arena, err);
    td_conv_permutation(&d->w, n, permuted, plain);
    td_strided_plan(&r->filter, td_type_bytes(d->w.type), 8, n, permuted, plain);
    r->out = d->w.outer;
    r->has_bias = d->has_bias;
    k->library = r;
    k->run = run_reorder;
    *out_scratch = 0;
    return TD_OK;
}

td_status_t td_host_conv_lower(td_device_t *dev, const void *desc, td_arena_t *arena, td_kernel_t **out,
                               uint64_t *out_scratch, td_err_t *err) {
    (void)dev;
    const td_conv_desc_t *d = desc;
    td_conv_plan_t *p = NULL;
    td_kernel_t *k = TD_NEW(arena, td_kernel_t);
    if (!k) return td_arena_fail(arena, err);
    td_status_t st = d->kind == TD_CONV_REORDER ? lower_reorder(d, k, arena, out_scratch, err)
                                                : td_conv_plan_make(d, true, arena, &p, out_scratch, err);
    if (st) return st;
    if (p) {
        k->library = p;
        k->run = run;
        k->release = release;
        k->pack_bytes = pack_bytes, k->pack = pack;
    }
    *out = k;
    return TD_OK;
}
