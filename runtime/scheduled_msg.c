/* SPDX-License-Identifier: Apache-2.0 */
/* Thunk messages and what they are made of. */
#include <string.h>

#include "runtime/scheduled_in.h"

td_status_t td_sched_add(td_sched_t *s, td_sched_out_t *out, const char *name, Xla__Gpu__ThunkProto__ImplCase impl,
                         Xla__Gpu__ThunkProto **thunk) {
    if (out->n == out->cap) {
        size_t cap = out->cap ? 2 * out->cap : 8;
        Xla__Gpu__ThunkProto **v = TD_NEW_N(s->arena, Xla__Gpu__ThunkProto *, cap);
        if (!v) return td_arena_fail(s->arena, s->err);
        if (out->n) memcpy(v, out->v, out->n * sizeof *v);
        out->v = v, out->cap = cap;
    }
    Xla__Gpu__ThunkProto *t = TD_NEW(s->arena, Xla__Gpu__ThunkProto);
    Xla__Gpu__ThunkInfoProto *info = TD_NEW(s->arena, Xla__Gpu__ThunkInfoProto);
    if (!t || !info) return td_arena_fail(s->arena, s->err);
    xla__gpu__thunk_proto__init(t);
    xla__gpu__thunk_info_proto__init(info);
    info->profile_annotation = (char *)(uintptr_t)name;
    t->thunk_info = info;
    t->impl_case = impl;
    out->v[out->n++] = t;
    *thunk = t;
    return TD_OK;
}

td_status_t td_sched_slice(td_sched_t *s, const td_sched_instr_t *i, uint32_t leaf,
                           Xla__BufferAssignment__BufferAllocationSliceProto **out) {
    if (!i->places || leaf >= i->n_leaves || !i->places[leaf].set)
        return td_fail(s->err, TD_MALFORMED, "the buffer assignment has no place for array %u of '%s'", leaf,
                       i->in->name);
    const td_place_t *p = &i->places[leaf];
    Xla__BufferAssignment__BufferAllocationSliceProto *m =
        TD_NEW(s->arena, Xla__BufferAssignment__BufferAllocationSliceProto);
    if (!m) return td_arena_fail(s->arena, s->err);
    xla__buffer_assignment__buffer_allocation_slice_proto__init(m);
    m->has_buffer_allocation_index = m->has_offset = m->has_size = true;
    m->buffer_allocation_index = p->allocation;
    m->offset = (int64_t)p->offset;
    m->size = (int64_t)p->size;
    *out = m;
    return TD_OK;
}

static const Xla__ShapeProto *leaf_shape(const Xla__ShapeProto *m, const td_shape_t *s, uint32_t leaf) {
    while (s->type == TD_TUPLE) {
        uint32_t k = 0, n = 0;
        while (k < s->rank && leaf >= (n = td_shape_leaf_count(s->elements[k]))) leaf -= n, k++;
        if (k == s->rank || k >= m->n_tuple_shapes) return NULL;
        m = m->tuple_shapes[k];
        s = s->elements[k];
    }
    return m;
}
const Xla__ShapeProto *td_sched_shape(const td_sched_instr_t *i, uint32_t leaf) {
    return i->msg->shape ? leaf_shape(i->msg->shape, i->in->shape, leaf) : NULL;
}

td_status_t td_sched_shaped(td_sched_t *s, const td_sched_instr_t *i, uint32_t leaf, Xla__ShapedSliceProto **out) {
    Xla__ShapedSliceProto *m = TD_NEW(s->arena, Xla__ShapedSliceProto);
    if (!m) return td_arena_fail(s->arena, s->err);
    xla__shaped_slice_proto__init(m);
    m->shape = (Xla__ShapeProto *)(uintptr_t)td_sched_shape(i, leaf);
    *out = m;
    return td_sched_slice(s, i, leaf, &m->slice);
}

typedef struct arg {
    const td_sched_instr_t *of;
    uint32_t leaf;
    bool written;
} arg_t;

/* Operand leaves, then result leaves. */
static td_status_t arguments(td_sched_t *s, const td_sched_instr_t *i, arg_t **out, uint32_t *out_n) {
    uint64_t n = i->n_leaves;
    for (uint32_t k = 0; k < i->in->n_operands; k++) n += td_sched_instr(s, i->in->operands[k])->n_leaves;
    if (n > TD_LIMIT_KERNEL_ARGS)
        return td_fail(s->err, TD_LIMIT, "'%s': %llu arrays over the limit of %u", i->in->name, (unsigned long long)n,
                       TD_LIMIT_KERNEL_ARGS);
    arg_t *v = TD_NEW_N(s->arena, arg_t, n);
    if (!v) return td_arena_fail(s->arena, s->err);
    uint32_t at = 0;
    for (uint32_t k = 0; k <= i->in->n_operands; k++) {
        bool result = k == i->in->n_operands;
        const td_sched_instr_t *of = result ? i : td_sched_instr(s, i->in->operands[k]);
        for (uint32_t leaf = 0; leaf < of->n_leaves; leaf++) v[at++] = (arg_t){of, leaf, result};
    }
    *out = v, *out_n = at;
    return TD_OK;
}

td_status_t td_sched_kernel(td_sched_t *s, td_sched_out_t *out, const td_sched_instr_t *i) {
    uint32_t n = 0;
    arg_t *v = NULL;
    Xla__Gpu__KernelThunkProto *k = TD_NEW(s->arena, Xla__Gpu__KernelThunkProto);
    Xla__Gpu__ThunkProto *t;
    td_status_t st = arguments(s, i, &v, &n);
    if (!st) st = td_sched_add(s, out, i->in->name, XLA__GPU__THUNK_PROTO__IMPL_KERNEL_THUNK, &t);
    if (st) return st;
    if (!k) return td_arena_fail(s->arena, s->err);
    xla__gpu__kernel_thunk_proto__init(k);
    t->kernel_thunk = k;
    k->kernel_name = (char *)(uintptr_t)i->in->name;
    k->n_args = k->n_written = n;
    k->args = TD_NEW_N(s->arena, Xla__BufferAssignment__BufferAllocationSliceProto *, n);
    k->written = TD_NEW_N(s->arena, protobuf_c_boolean, n);
    if (!k->args || !k->written) return td_arena_fail(s->arena, s->err);
    for (uint32_t a = 0; a < n; a++) {
        if ((st = td_sched_slice(s, v[a].of, v[a].leaf, &k->args[a]))) return st;
        k->written[a] = v[a].written;
    }
    return TD_OK;
}

td_status_t td_sched_cudnn(td_sched_t *s, td_sched_out_t *out, const td_sched_instr_t *i) {
    uint32_t n = 0;
    arg_t *v = NULL;
    Xla__Gpu__CudnnThunkProto *k = TD_NEW(s->arena, Xla__Gpu__CudnnThunkProto);
    Xla__Gpu__ThunkProto *t;
    td_status_t st = arguments(s, i, &v, &n);
    if (!st) st = td_sched_add(s, out, i->in->name, XLA__GPU__THUNK_PROTO__IMPL_CUDNN_THUNK, &t);
    if (st) return st;
    if (!k) return td_arena_fail(s->arena, s->err);
    xla__gpu__cudnn_thunk_proto__init(k);
    t->cudnn_thunk = k;
    k->n_args = n;
    k->args = TD_NEW_N(s->arena, Xla__ShapedSliceProto *, n);
    if (!k->args) return td_arena_fail(s->arena, s->err);
    for (uint32_t a = 0; a < n; a++)
        if ((st = td_sched_shaped(s, v[a].of, v[a].leaf, &k->args[a]))) return st;
    return TD_OK;
}

td_status_t td_sched_copy(td_sched_t *s, td_sched_out_t *out, const td_sched_instr_t *a, uint32_t from,
                          const td_sched_instr_t *b, uint32_t to) {
    Xla__Gpu__CopyThunkProto *c = TD_NEW(s->arena, Xla__Gpu__CopyThunkProto);
    Xla__Gpu__DeviceToDeviceCopyThunkProto *d = TD_NEW(s->arena, Xla__Gpu__DeviceToDeviceCopyThunkProto);
    Xla__Gpu__ThunkProto *t;
    td_status_t st;
    if (!c || !d) return td_arena_fail(s->arena, s->err);
    xla__gpu__copy_thunk_proto__init(c);
    xla__gpu__device_to_device_copy_thunk_proto__init(d);
    d->copy_thunk = c;
    if ((st = td_sched_shaped(s, a, from, &c->source_buffer)) ||
        (st = td_sched_shaped(s, b, to, &c->destination_buffer)))
        return st;
    const td_place_t *p = &a->places[from], *q = &b->places[to];
    if (p->size != q->size)
        return td_fail(s->err, TD_MISMATCH, "'%s': copy of %llu bytes to %llu", b->in->name,
                       (unsigned long long)p->size, (unsigned long long)q->size);
    if (p->allocation == q->allocation && p->offset == q->offset) return TD_OK;
    c->has_mem_size = true;
    c->mem_size = (int64_t)p->size;
    if ((st = td_sched_add(s, out, b->in->name, XLA__GPU__THUNK_PROTO__IMPL_DEVICE_TO_DEVICE_COPY_THUNK, &t)))
        return st;
    t->device_to_device_copy_thunk = d;
    return TD_OK;
}
