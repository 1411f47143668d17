/* SPDX-License-Identifier: Apache-2.0 */
/* Running a convolution in oneDNN. Allocates nothing itself. */
#include <sched.h>
#include <string.h>

#include "runtime/host/conv_dnnl.h"

static td_conv_set_t *take(const td_conv_dnnl_t *k) {
    for (;;) {
        for (uint32_t i = 0; i < k->n_sets; i++)
            if (!atomic_exchange_explicit(&k->sets[i].busy, true, memory_order_acquire)) return &k->sets[i];
        sched_yield();
    }
}
static void give(td_conv_set_t *s) { atomic_store_explicit(&s->busy, false, memory_order_release); }

/* The array as the kernel reads it: itself, or a copy in scratch. */
static void *stage_in(const td_conv_stage_t *s, const void *src, char *scratch) {
    if (!s->used) return (void *)(uintptr_t)src;
    size_t size = td_type_bytes(s->to);
    if (s->convert) {
        char *to = scratch + (s->move ? s->raw_at : s->at);
        td_convert_array(s->from, src, s->to, to, (size_t)s->count);
        src = to;
    }
    if (s->move || !s->convert) td_strided_copy(&s->plan, scratch + s->at, (const char *)src + (size_t)s->base * size);
    return scratch + s->at;
}

static dnnl_status_t point(const td_conv_set_t *s, int m, const void *p) {
    return s->mem[m] ? dnnl_memory_set_data_handle_v2(s->mem[m], (void *)(uintptr_t)p, s->stream) : dnnl_success;
}

/* Between the filter as it lies and as the kernel has it. */
static dnnl_status_t reorder(const td_conv_dnnl_t *k, const td_conv_set_t *s, const void *plain, const void *packed,
                             char *scratch) {
    bool back = k->result == TD_CONV_W;
    const dnnl_exec_arg_t args[3] = {{back ? DNNL_ARG_TO : DNNL_ARG_FROM, s->mem[TD_CONV_MEM_PLAIN]},
                                     {back ? DNNL_ARG_FROM : DNNL_ARG_TO, s->mem[TD_CONV_MEM_W]},
                                     {DNNL_ARG_SCRATCHPAD, s->mem[TD_CONV_MEM_REORDER_PAD]}};
    dnnl_status_t st = point(s, TD_CONV_MEM_PLAIN, plain);
    if (!back && st == dnnl_success) st = point(s, TD_CONV_MEM_W, packed);
    if (st == dnnl_success) st = point(s, TD_CONV_MEM_REORDER_PAD, scratch + k->reorder_pad_at);
    return st == dnnl_success ? dnnl_primitive_execute(k->reorder, s->stream, 3, args) : st;
}

static dnnl_status_t convolve(const td_conv_dnnl_t *k, const td_conv_set_t *s, const void *x, const void *y,
                              const void *bias, char *scratch) {
    dnnl_exec_arg_t args[5] = {
        {k->result == TD_CONV_X ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, s->mem[TD_CONV_MEM_X]},
        {k->result == TD_CONV_W ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, s->mem[TD_CONV_MEM_W]},
        {k->result == TD_CONV_Y ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, s->mem[TD_CONV_MEM_Y]},
        {DNNL_ARG_SCRATCHPAD, s->mem[TD_CONV_MEM_PAD]},
        {DNNL_ARG_BIAS, s->mem[TD_CONV_MEM_BIAS]}};
    dnnl_status_t st = point(s, TD_CONV_MEM_X, x);
    if (st == dnnl_success) st = point(s, TD_CONV_MEM_Y, y);
    if (st == dnnl_success) st = point(s, TD_CONV_MEM_BIAS, bias);
    if (st == dnnl_success) st = point(s, TD_CONV_MEM_PAD, scratch + k->pad_at);
    return st == dnnl_success ? dnnl_primitive_execute(k->conv, s->stream, k->bias ? 5 : 4, args) : st;
}

static dnnl_status_t run_filter(const td_conv_plan_t *p, const td_conv_set_t *s, const td_conv_bufs_t *b,
                                char *scratch) {
    const td_conv_dnnl_t *k = p->dnnl;
    void *x = stage_in(&k->x, b->x, scratch), *y = stage_in(&k->y, b->y, scratch),
         *w = k->w.used ? scratch + k->w.at : b->w;
    dnnl_status_t st = point(s, TD_CONV_MEM_W, k->reorder ? scratch + k->packed_at : w);
    if (st == dnnl_success) st = convolve(k, s, x, y, NULL, scratch);
    if (st == dnnl_success && k->reorder) st = reorder(k, s, w, scratch + k->packed_at, scratch);
    if (st == dnnl_success && k->w.used) td_convert_array(TD_F32, w, p->d.w.type, b->w, (size_t)k->w.count);
    return st;
}

/* Rows in the kernel's layout to the result's. */
static void store(const td_conv_plan_t *p, const td_conv_stage_t *st, const td_conv_bufs_t *b, void *result,
                  char *scratch) {
    const td_conv_store_t *s = &p->store;
    char *rows = scratch + st->at;
    int64_t n = s->batch;
    if (!s->fused) {
        void *lies = st->move ? scratch + st->raw_at : result;
        if (st->convert) td_convert_array(st->to, rows, st->from, lies, (size_t)st->count);
        if (st->move) td_strided_copy(&st->back, result, st->convert ? lies : rows);
        return;
    }
    for (uint32_t i = 0; i < s->n; i++) n *= s->positions[i];
    for (int64_t at = 0; at < n; at += s->rows_max)
        td_conv_store_rows(s, 0, at, n - at < s->rows_max ? n - at : s->rows_max, rows + (size_t)(at * s->out) * 4, b,
                           result, scratch);
}

static dnnl_status_t run_rows(const td_conv_plan_t *p, const td_conv_set_t *s, const td_conv_bufs_t *b, char *scratch) {
    const td_conv_dnnl_t *k = p->dnnl;
    bool data = k->result == TD_CONV_X;
    const td_conv_stage_t *in = data ? &k->y : &k->x, *out = data ? &k->x : &k->y;
    void *result = data ? b->x : b->y, *from = stage_in(in, data ? b->y : b->x, scratch),
         *to = out->used ? scratch + out->at : result;
    const void *bias = b->bias;
    dnnl_status_t st = dnnl_success;
    if (k->side_sum && out->used) stage_in(out, b->side, scratch);
    else if (k->side_sum && b->side != to) memcpy(to, b->side, (size_t)out->count * td_type_bytes(out->to));
    if (k->bias_convert) {
        td_convert_array(p->d.bias, bias, TD_F32, scratch + k->bias_at, (size_t)p->d.y.feature);
        bias = scratch + k->bias_at;
    }
    if (b->packed_w && k->reorder) {
        st = point(s, TD_CONV_MEM_W, b->packed_w);
    } else {
        void *w = stage_in(&k->w, b->w, scratch);
        st = k->reorder ? reorder(k, s, w, scratch + k->packed_at, scratch) : point(s, TD_CONV_MEM_W, w);
    }
    if (st == dnnl_success) st = convolve(k, s, data ? to : from, data ? from : to, bias, scratch);
    if (st == dnnl_success && out->used) store(p, out, b, result, scratch);
    return st;
}

td_status_t td_conv_dnnl_run(const td_conv_plan_t *p, const td_conv_bufs_t *b, char *scratch, td_err_t *err) {
    const td_conv_dnnl_t *k = p->dnnl;
    td_conv_set_t *s = take(k);
    int before = td_conv_dnnl_enter(k->threads);
    dnnl_status_t st = k->result == TD_CONV_W ? run_filter(p, s, b, scratch) : run_rows(p, s, b, scratch);
    td_conv_dnnl_leave(before);
    give(s);
    return st == dnnl_success ? TD_OK
                              : td_fail(err, TD_DEVICE, "oneDNN failed in a convolution with status %d", (int)st);
}

uint64_t td_conv_dnnl_packed_bytes(const td_conv_dnnl_t *k) { return k->packed_bytes; }

td_status_t td_conv_dnnl_pack(const td_conv_plan_t *p, const void *w, void *packed, char *scratch, td_err_t *err) {
    const td_conv_dnnl_t *k = p->dnnl;
    if (!k->reorder) return TD_OK;
    td_conv_set_t *s = take(k);
    int before = td_conv_dnnl_enter(k->threads);
    dnnl_status_t st = reorder(k, s, stage_in(&k->w, w, scratch), packed, scratch);
    td_conv_dnnl_leave(before);
    give(s);
    return st == dnnl_success ? TD_OK
                              : td_fail(err, TD_DEVICE, "oneDNN failed to pack a filter with status %d", (int)st);
}
