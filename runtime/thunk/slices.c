/* SPDX-License-Identifier: Apache-2.0 */
/* dynamic_slice_fusion and dynamic_memcpy: addresses that move with a loop counter. */
#include "base/checked.h"
#include "executable.pb-c.h"
#include "runtime/shape_parse.h"
#include "runtime/thunk/thunk.h"

typedef struct move {
    uint32_t slot;     /* private slot that receives the address */
    int64_t loop;      /* -1: counter 0 */
    int64_t offset, stride;
    uint64_t size;
} move_t;

static int64_t counter(const td_run_t *r, int64_t loop) {
    return loop < 0 || loop >= r->n_loops ? 0 : r->loops[r->n_loops - 1 - loop];
}

static td_status_t config(td_parse_t *c, const Xla__Gpu__DynamicSliceConfig *p, move_t *v) {
    v->loop = -1;
    if (!p) return TD_OK;
    if (p->offsets_case == XLA__GPU__DYNAMIC_SLICE_CONFIG__OFFSETS_TABLE) return td_fail(c->err, TD_UNSUPPORTED, "slice offset tables are not supported");
    bool linear = p->offsets_case == XLA__GPU__DYNAMIC_SLICE_CONFIG__OFFSETS_LINEAR;
    if (p->has_loop_index) v->loop = p->loop_index;
    if (v->loop < -1 || v->loop > TD_LIMIT_THUNK_DEPTH) return td_fail(c->err, TD_MALFORMED, "loop index %lld", (long long)v->loop);
    /* Fallback slice-config-flat: offset and stride outside the oneof. Can be removed in April 2027. */
    v->offset = linear ? p->linear->byte_offset : p->byte_offset;
    v->stride = linear ? p->linear->byte_stride : p->byte_stride;
    return TD_OK;
}

td_status_t td_slice_fusion_parse(td_parse_t *c, const td_thunk_msg_t *msg, td_thunk_t *t) {
    const Xla__Gpu__DynamicSliceFusionThunkProto *p = msg->dynamic_slice_fusion_thunk;
    size_t n = p->n_parameters + p->n_results;
    td_module_t *m = c->m;
    td_status_t st;
    if (p->n_slice_allocations != n) return td_fail(c->err, TD_MISMATCH, "%zu slice allocations for %zu parameters and results", p->n_slice_allocations, n);
    if ((st = td_thunk_args(c, t, (uint32_t)n))) return st;
    move_t *mv = TD_NEW_N(c->arena, move_t, n);
    if (!mv || m->n_slots + n > c->slot_cap) return td_fail(c->err, TD_INTERNAL, "no room for private slots");
    uint32_t base = m->n_slots;
    for (size_t i = 0; i < n; i++) {
        bool res = i >= p->n_parameters;
        const Xla__Gpu__DynamicSliceFusionThunkProto__ParameterProto *pp = res ? NULL : p->parameters[i];
        const Xla__Gpu__DynamicSliceFusionThunkProto__ResultProto *rp = res ? p->results[i - p->n_parameters] : NULL;
        int64_t no = res ? rp->result_number : pp->parameter_number;
        size_t have = res ? p->n_result_buffers : p->n_parameter_buffers;
        const Xla__Gpu__DynamicSliceConfig *cfg = res ? rp->update_config : pp->slice_config;
        const td_shape_t *s;
        if (no < 0 || (uint64_t)no >= have) return td_fail(c->err, TD_MALFORMED, "buffer %lld of %zu", (long long)no, have);
        if ((st = td_thunk_slice(c, res ? "result" : "parameter", res ? p->result_buffers[no] : p->parameter_buffers[no], NULL, res, &t->args[i]))) return st;
        mv[i].slot = base + (uint32_t)i;
        mv[i].size = t->args[i].size;
        if ((st = config(c, cfg, &mv[i]))) return st;
        if (cfg) {
            if ((st = td_shape_parse(c->arena, res ? rp->update_shape : pp->slice_shape, &s, c->err))) return st;
            mv[i].size = s->bytes;
        }
        if (mv[i].size > t->args[i].size || p->slice_allocations[i]->size < 0 || (uint64_t)p->slice_allocations[i]->size > mv[i].size)
            return td_fail(c->err, TD_MISMATCH, "slice %zu: %llu bytes of %llu, its allocation %lld", i, (unsigned long long)mv[i].size,
                           (unsigned long long)t->args[i].size, (long long)p->slice_allocations[i]->size);
        m->buffers[base + i] = (td_buffer_t){.size = (uint64_t)p->slice_allocations[i]->size};
    }
    m->n_slots += (uint32_t)n;
    td_parse_t in = *c;
    in.slot_base = base;
    in.slot_count = (uint32_t)n;
    if ((st = td_thunk_seqs(c, t, 1))) return st;
    st = td_thunk_parse_seq(&in, "embedded", p->embedded_thunks ? p->embedded_thunks->thunks : NULL,
                            p->embedded_thunks ? p->embedded_thunks->n_thunks : 0, &t->seqs[0]);
    c->async = in.async, c->n_async = in.n_async, c->cap_async = in.cap_async;
    /* A write through a private slot is a write to what it stands for. */
    for (size_t i = 0; i < n; i++)
        if (m->buffers[base + i].written && !m->buffers[t->args[i].allocation].written) {
            if (m->buffers[t->args[i].allocation].is_constant && !st) st = td_fail(c->err, TD_MALFORMED, "writes a constant");
            m->buffers[t->args[i].allocation].written = true;
        }
    t->extra = mv;
    t->extra_bytes = n * sizeof *mv;
    return st;
}

void td_slice_fusion_move(td_run_t *r, const td_thunk_t *t) {
    const move_t *mv = t->extra;
    for (uint32_t i = 0; i < t->n_args; i++) {
        __int128 at = mv[i].offset + (__int128)counter(r, mv[i].loop) * mv[i].stride;
        __int128 max = (__int128)(t->args[i].size - mv[i].size);
        if (at > max) at = max;
        if (at < 0) at = 0;
        r->slots[mv[i].slot] = (char *)td_thunk_addr(r, &t->args[i]) + (uint64_t)at;
    }
}
uint32_t td_slice_fusion_slot(const td_thunk_t *t, uint32_t arg) { return ((const move_t *)t->extra)[arg].slot; }

td_status_t td_slice_fusion_enqueue(td_run_t *r, const td_thunk_t *t) {
    td_slice_fusion_move(r, t);
    return td_thunk_run_seq(r, "embedded", &t->seqs[0]);
}

typedef struct offsets {
    bool depends;
    uint32_t n;
    int64_t v[];
} offsets_t;

td_status_t td_dynamic_memcpy_parse(td_parse_t *c, const td_thunk_msg_t *msg, td_thunk_t *t) {
    const Xla__Gpu__DynamicMemcpyThunkProto *p = msg->dynamic_memcpy_thunk;
    td_status_t st = td_thunk_args(c, t, 2);
    if (st || (st = td_thunk_shaped(c, "source", p->source_buffer, false, &t->args[0])) ||
        (st = td_thunk_shaped(c, "destination", p->destination_buffer, true, &t->args[1]))) return st;
    if (!p->offsets || !p->offsets->n_src_offsets || p->offsets->n_src_offsets != p->offsets->n_dst_offsets)
        return td_fail(c->err, TD_MALFORMED, "offsets of source and destination differ in number");
    size_t n = p->offsets->n_src_offsets, size = sizeof(offsets_t) + 2 * n * sizeof(int64_t);
    offsets_t *o = td_arena_zalloc(c->arena, size);
    if (!o) return td_arena_fail(c->arena, c->err);
    o->depends = p->offsets->depends_on_loop;
    o->n = (uint32_t)n;
    for (size_t i = 0; i < n; i++) {
        o->v[2 * i] = p->offsets->src_offsets[i];
        o->v[2 * i + 1] = p->offsets->dst_offsets[i];
        if (p->mem_size < 0 || o->v[2 * i] < 0 || o->v[2 * i + 1] < 0 ||
            !td_range_ok((uint64_t)o->v[2 * i], (uint64_t)p->mem_size, t->args[0].size) ||
            !td_range_ok((uint64_t)o->v[2 * i + 1], (uint64_t)p->mem_size, t->args[1].size))
            return td_fail(c->err, TD_MALFORMED, "offsets[%zu] reach outside their buffers", i);
    }
    t->bytes = (uint64_t)p->mem_size;
    t->extra = o;
    t->extra_bytes = size;
    return TD_OK;
}

td_status_t td_dynamic_memcpy_enqueue(td_run_t *r, const td_thunk_t *t) {
    const offsets_t *o = t->extra;
    int64_t i = o->depends ? counter(r, 0) : 0;
    if (i < 0 || i >= o->n) return td_fail(r->err, TD_MALFORMED, "no offsets for iteration %lld of %u", (long long)i, o->n);
    if (!t->bytes) return TD_OK;
    return r->dev->ops->copy(r->stream, (char *)td_thunk_addr(r, &t->args[1]) + o->v[2 * i + 1],
                             (char *)td_thunk_addr(r, &t->args[0]) + o->v[2 * i], t->bytes, r->err);
}

td_status_t td_thunk_leaves(td_parse_t *c, const td_shape_t *s, bool exact, td_thunk_t *t, uint32_t *at) {
    if (s->type == TD_TUPLE) {
        for (uint32_t i = 0; i < s->rank; i++) {
            td_status_t st = td_thunk_leaves(c, s->elements[i], exact, t, at);
            if (st) return st;
        }
        return TD_OK;
    }
    if (!td_type_is_array(s->type)) return TD_OK;
    if (*at >= t->n_args)
        return td_fail(c->err, TD_MISMATCH, "%u arguments, instruction '%s' has more", t->n_args, t->instr->name);
    td_kernel_arg_t *a = &t->args[(*at)++];
    if (exact ? a->size != s->bytes : a->size < s->bytes)
        return td_fail(c->err, TD_MISMATCH, "args[%u]: slice has %llu bytes, the instruction's array %llu", *at - 1,
                       (unsigned long long)a->size, (unsigned long long)s->bytes);
    if (!a->shape || !exact) a->shape = s;
    return TD_OK;
}
