/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "runtime/program_in.h"

struct td_binding {
    const td_program_t *p;
    const td_alloc_t *alloc;
    td_arena_t arena;
    void *block, *scratch;
    uint8_t *convert; /* host-side outputs, and staging of inputs */
    uint8_t *staging;
    uint64_t staging_bytes;
    td_run_t run;
};

static bool plain(const td_shape_t *s) { return s->default_layout && !s->packed; }

/* Between a host-side tensor (row-major, one element per byte or more) and an array as stored. */
static void convert(const td_shape_t *s, uint8_t *stored, uint8_t *host, bool to_host) {
    int64_t stride[TD_LIMIT_RANK], idx[TD_LIMIT_RANK] = {0};
    size_t hb = td_type_bytes(s->type);
    td_shape_strides(s, stride);
    if (!to_host && s->packed) memset(stored, 0, s->bytes);
    for (int64_t k = 0; k < s->count; k++) {
        int64_t at = 0;
        for (uint32_t i = 0; i < s->rank; i++) at += idx[i] * stride[i];
        if (s->packed) {
            unsigned sh = (unsigned)(at * s->bits % 8), mask = (1u << s->bits) - 1;
            uint8_t *b = &stored[at * s->bits / 8];
            if (!to_host) *b |= (uint8_t)((host[k] & mask) << sh);
            else {
                unsigned v = *b >> sh & mask;
                if (td_type_is_signed(s->type) && v >> (s->bits - 1)) v |= ~mask;
                host[k] = (uint8_t)v;
            }
        } else if (to_host) {
            memcpy(host + (size_t)k * hb, stored + (size_t)at * hb, hb);
        } else {
            memcpy(stored + (size_t)at * hb, host + (size_t)k * hb, hb);
        }
        for (uint32_t i = s->rank; i-- > 0;) {
            if (++idx[i] < s->dims[i]) break;
            idx[i] = 0;
        }
    }
}

static td_status_t create(td_binding_t *b, td_err_t *err) {
    const td_program_t *p = b->p;
    td_device_t *dev = p->dev;
    td_status_t st;
    for (uint32_t i = 0; i < p->n_inputs; i++)
        if (p->inputs[i].shape->bytes > b->staging_bytes) b->staging_bytes = p->inputs[i].shape->bytes;
    for (uint32_t i = 0; i < p->n_outputs; i++)
        if (p->outputs[i].shape->bytes > b->staging_bytes) b->staging_bytes = p->outputs[i].shape->bytes;
    if (p->host) b->staging_bytes = 0;
    b->run.dev = dev;
    b->run.slots = TD_NEW_N(&b->arena, void *, p->n_slots);
    b->run.bufs = TD_NEW_N(&b->arena, void *, p->max_args);
    b->convert = td_arena_align(&b->arena, p->convert_bytes + 64, 64);
    b->staging = td_arena_align(&b->arena, b->staging_bytes + 64, 64);
    if (!b->run.slots || !b->run.bufs || !b->convert || !b->staging) return td_arena_fail(&b->arena, err);
    if ((st = dev->ops->stream_create(dev, TD_STREAM_MAIN, &b->run.stream, err))) return st;
    if ((st = dev->ops->mem_get(dev, p->block_bytes + 256, &b->block, err))) return st;
    if ((st = dev->ops->mem_get(dev, p->scratch + 256, &b->scratch, err))) return st;
    b->run.scratch = b->scratch;
    for (uint32_t i = 0; i < p->n_slots; i++)
        b->run.slots[i] = p->slots[i].constant ? p->slots[i].constant : p->slots[i].owned ? (char *)b->block + p->slots[i].offset : NULL;
    return TD_OK;
}

td_status_t td_binding_create(const td_program_t *p, const td_alloc_t *alloc, td_binding_t **out, td_err_t *err) {
    td_binding_t *b = alloc->get(alloc->ctx, sizeof *b, 16);
    if (!b) return td_fail(err, TD_NOMEM, "out of memory");
    memset(b, 0, sizeof *b);
    b->p = p;
    b->alloc = alloc;
    td_arena_init(&b->arena, alloc, 0);
    td_status_t st = create(b, err);
    if (st) td_binding_destroy(b);
    else *out = b;
    return st;
}

void td_binding_destroy(td_binding_t *b) {
    if (!b) return;
    td_device_t *dev = b->p->dev;
    if (b->run.stream) dev->ops->stream_destroy(b->run.stream);
    dev->ops->mem_put(dev, b->block, b->p->block_bytes + 256);
    dev->ops->mem_put(dev, b->scratch, b->p->scratch + 256);
    td_arena_deinit(&b->arena);
    b->alloc->put(b->alloc->ctx, b, sizeof *b);
}

static td_status_t bind_input(td_binding_t *b, uint32_t i, const void *src, td_err_t *err) {
    const td_program_t *p = b->p;
    const td_shape_t *s = p->inputs[i].shape;
    uint32_t slot = p->input_slot[i];
    if (slot == UINT32_MAX) return TD_OK;
    void *own = (char *)b->block + p->slots[slot].offset;
    b->run.slots[slot] = own;
    if (!s->count) return TD_OK;
    if (!src) return td_fail(err, TD_USAGE, "input %u ('%s') is missing", i, p->inputs[i].name);
    if (p->input_direct[i] && ((uintptr_t)src & 15) == 0) {
        b->run.slots[slot] = (void *)(uintptr_t)src;
        return TD_OK;
    }
    if (p->host) {
        if (plain(s)) memcpy(own, src, s->bytes);
        else convert(s, own, (uint8_t *)(uintptr_t)src, false);
        return TD_OK;
    }
    if (plain(s)) return p->dev->ops->upload(b->run.stream, own, src, s->bytes, err);
    convert(s, b->staging, (uint8_t *)(uintptr_t)src, false);
    td_status_t st = p->dev->ops->upload(b->run.stream, own, b->staging, s->bytes, err);
    return st ? st : p->dev->ops->stream_sync(b->run.stream, err);
}

static td_status_t fetch_output(td_binding_t *b, uint32_t i, uint8_t *to, const void **out, td_err_t *err) {
    const td_program_t *p = b->p;
    const td_shape_t *s = p->outputs[i].shape;
    td_status_t st;
    *out = to;
    if (!td_type_is_array(s->type) || !s->count) return TD_OK;
    void *at = b->run.slots[p->output_slot[i]];
    if (p->host) {
        if (plain(s)) *out = at;
        else convert(s, at, to, true);
        return TD_OK;
    }
    uint8_t *raw = plain(s) ? to : b->staging;
    if ((st = p->dev->ops->download(b->run.stream, raw, at, s->bytes, err)) || (st = p->dev->ops->stream_sync(b->run.stream, err))) return st;
    if (!plain(s)) convert(s, raw, to, true);
    return TD_OK;
}

td_status_t td_program_run(td_binding_t *b, const void *const *inputs, const void **outputs, const _Atomic(int) *cancel, td_err_t *err) {
    const td_program_t *p = b->p;
    td_status_t st = TD_OK, sync;
    b->run.cancel = cancel;
    b->run.err = err;
    b->run.n_loops = 0;
    for (uint32_t i = 0; i < p->n_inputs && !st; i++) st = bind_input(b, i, inputs[i], err);
    if (!st) st = td_thunk_run_seq(&b->run, "thunks", &p->thunks);
    sync = p->dev->ops->stream_sync(b->run.stream, st ? NULL : err);
    if (!st) st = sync;
    uint8_t *to = b->convert;
    for (uint32_t i = 0; i < p->n_outputs && !st; i++) {
        st = fetch_output(b, i, to, &outputs[i], err);
        to += (td_io_host_bytes(p->outputs[i].shape) + 127) & ~63ull;
    }
    b->run.err = NULL;
    b->run.cancel = NULL;
    return st;
}
