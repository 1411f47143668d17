/* SPDX-License-Identifier: Apache-2.0 */
/* What all kinds share: slices, argument lists, sequences. */
#include "runtime/thunk/thunk.h"

#include <stdatomic.h>
#include <string.h>

#include "base/checked.h"
#include "executable.pb-c.h"
#include "runtime/graph.h"
#include "runtime/shape_parse.h"

td_status_t td_thunk_slice(td_parse_t *c, const char *what, const Xla__BufferAssignment__BufferAllocationSliceProto *s,
                           const Xla__ShapeProto *shape, bool written, td_kernel_arg_t *out) {
    if (!s) return td_fail(c->err, TD_MALFORMED, "%s: slice is missing", what);
    if (s->buffer_allocation_index < 0 || (uint64_t)s->buffer_allocation_index >= c->slot_count)
        return td_fail(c->err, TD_MALFORMED, "%s: allocation %lld of %u", what, (long long)s->buffer_allocation_index, c->slot_count);
    if (s->offset < 0 || s->size < 0)
        return td_fail(c->err, TD_MALFORMED, "%s: offset %lld, size %lld", what, (long long)s->offset, (long long)s->size);
    uint32_t slot = c->slot_base + (uint32_t)s->buffer_allocation_index;
    td_buffer_t *b = &c->m->buffers[slot];
    if (!td_range_ok((uint64_t)s->offset, (uint64_t)s->size, b->size))
        return td_fail(c->err, TD_MALFORMED, "%s: slice [%lld, +%lld) outside allocation %lld of %llu bytes", what,
                       (long long)s->offset, (long long)s->size, (long long)s->buffer_allocation_index, (unsigned long long)b->size);
    if (s->size && b->is_thread_local) return td_fail(c->err, TD_MALFORMED, "%s: allocation %u is thread-local", what, slot);
    if (s->size && b->is_constant && !b->literal)
        return td_fail(c->err, TD_MALFORMED, "%s: constant allocation %u has no bytes", what, slot);
    if (written && s->size && b->is_constant) return td_fail(c->err, TD_MALFORMED, "%s: writes constant allocation %u", what, slot);
    if (written) b->written = true;
    *out = (td_kernel_arg_t){.allocation = slot, .offset = (uint64_t)s->offset, .size = (uint64_t)s->size, .written = written};
    if (shape) {
        td_status_t st = td_shape_parse(c->arena, shape, &out->shape, c->err);
        if (st) return td_prefix(c->err, st, "%s", what);
    }
    return TD_OK;
}

td_status_t td_thunk_shaped(td_parse_t *c, const char *what, const Xla__ShapedSliceProto *s, bool written,
                            td_kernel_arg_t *out) {
    if (!s) return td_fail(c->err, TD_MALFORMED, "%s: slice is missing", what);
    return td_thunk_slice(c, what, s->slice, s->shape, written, out);
}

td_status_t td_thunk_args(td_parse_t *c, td_thunk_t *t, uint32_t n) {
    if (n > TD_LIMIT_KERNEL_ARGS) return td_fail(c->err, TD_LIMIT, "%u arguments over the limit of %u", n, TD_LIMIT_KERNEL_ARGS);
    t->n_args = n;
    t->args = TD_NEW_N(c->arena, td_kernel_arg_t, n);
    return t->args ? TD_OK : td_arena_fail(c->arena, c->err);
}

td_status_t td_thunk_seqs(td_parse_t *c, td_thunk_t *t, uint32_t n) {
    t->n_seqs = n;
    t->seqs = TD_NEW_N(c->arena, td_seq_t, n);
    return t->seqs ? TD_OK : td_arena_fail(c->arena, c->err);
}

/* A large sort is several kernels with one annotation and the same arguments; the first does it all. */
static bool repeats(const td_thunk_t *a, const td_thunk_t *b) {
    if (!a->instr || a->instr != b->instr || a->kind != b->kind || a->n_args != b->n_args) return false;
    for (uint32_t i = 0; i < a->n_args; i++)
        if (a->args[i].allocation != b->args[i].allocation || a->args[i].offset != b->args[i].offset ||
            a->args[i].size != b->args[i].size) return false;
    if (a->instr->opcode == TD_HLO_SORT) return true;
    if (a->instr->opcode != TD_HLO_FUSION) return false;
    for (uint32_t i = 0; i < a->instr->called[0]->n_instrs; i++)
        if (a->instr->called[0]->instrs[i]->opcode == TD_HLO_SORT) return true;
    return false;
}

td_status_t td_thunk_parse_seq(td_parse_t *c, const char *what, td_thunk_msg_t *const *msgs, size_t n, td_seq_t *out) {
    td_status_t st = TD_OK;
    if (c->depth > TD_LIMIT_THUNK_DEPTH) return td_fail(c->err, TD_LIMIT, "thunks nested deeper than %u", TD_LIMIT_THUNK_DEPTH);
    td_thunk_t *v = TD_NEW_N(c->arena, td_thunk_t, n);
    if (!v) return td_arena_fail(c->arena, c->err);
    c->depth++;
    for (size_t i = 0; i < n && !st; i++) {
        const td_thunk_msg_t *p = msgs[i];
        td_thunk_t *t = &v[i];
        const char *a = p->thunk_info && p->thunk_info->profile_annotation ? p->thunk_info->profile_annotation : "";
        t->depth = c->depth - 1;
        t->stream = -1;
        t->annotation = td_arena_strndup(c->arena, a, strlen(a));
        t->kind = td_thunk_kind_find((unsigned)p->impl_case);
        if (!t->annotation) {
            st = td_arena_fail(c->arena, c->err);
        } else if (!t->kind) {
            const char *name = "unknown";
            for (unsigned k = 0; k < p->base.descriptor->n_fields; k++)
                if (p->base.descriptor->fields[k].id == (uint32_t)p->impl_case) name = p->base.descriptor->fields[k].name;
            st = p->impl_case ? td_fail(c->err, TD_UNSUPPORTED, "thunk kind %s ('%s') is not supported", name, t->annotation)
                              : td_fail(c->err, TD_UNSUPPORTED, "thunk '%s' is of a kind this build does not know", t->annotation);
        } else {
            st = t->kind->parse(c, p, t);
        }
        if (st) st = td_prefix(c->err, st, t->kind ? "%s[%zu] (%s)" : "%s[%zu]%s", what, i, t->kind ? t->kind->name : "");
        else if (i && (t->kind->lower == td_kernel_thunk_lower) && repeats(&v[i - 1], t)) t->skip = true;
    }
    c->depth--;
    *out = (td_seq_t){v, (uint32_t)n};
    return st;
}

td_status_t td_thunk_run_one(td_run_t *r, const char *what, const td_seq_t *s, uint32_t i) {
    const td_thunk_t *t = &s->v[i];
    if (t->skip) return TD_OK;
    if (r->cancel && *r->cancel) return td_fail(r->err, TD_CANCELLED, "cancelled");
    atomic_store_explicit(&r->lanes[r->lane].at, t, memory_order_relaxed);
    td_status_t st = r->each ? r->each(r, t) : t->kind->enqueue(r, t);
    return !st || st == TD_CANCELLED ? st : td_prefix(r->err, st, "%s[%u] (%s)", what, i, t->kind->name);
}

td_status_t td_thunk_run_seq(td_run_t *r, const char *what, const td_seq_t *s) {
    td_status_t st = TD_OK;
    if (r->graphs) return td_graphs_run_seq(r, what, s);
    for (uint32_t i = 0; i < s->n && !st; i++) st = td_thunk_run_one(r, what, s, i);
    return st;
}
