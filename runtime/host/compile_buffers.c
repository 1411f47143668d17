/* SPDX-License-Identifier: Apache-2.0 */
/* Where each value lies. A result is written straight to its argument unless an
 * operand in the same memory is still read at or after that step by anything but
 * the same position of the same loop; then it goes through scratch. */
#include <string.h>

#include "base/checked.h"
#include "runtime/host/loop.h"
#include "runtime/host/types.h"

static const td_kernel_arg_t *arg_of_root(const td_compiler_t *c, uint32_t root) { return &c->desc->args[c->plan.n_params + root]; }

static bool equal(const td_kernel_arg_t *a, const td_kernel_arg_t *b) { return a->allocation == b->allocation && a->offset == b->offset; }

static uint32_t reads(const td_step_t *s, uint32_t val) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_in; i++) n += s->in_vals[i] == val;
    return n;
}

/* Does the step itself read the operand in a way that bars a result of `bytes` an element in its memory? */
static bool reads_elsewhere(const td_plan_t *p, const td_step_t *s, uint32_t val, uint32_t root, uint64_t bytes) {
    if (s->kind == TD_STEP_MACRO) return !s->macro->kind->in_place || s->in_vals[0] != val || reads(s, val) != 1;
    if (s->kind != TD_STEP_LOOP) return true;
    const td_loop_t *l = s->loop;
    bool sink = true; /* a reduction's result lies at other positions than its operand */
    for (uint32_t i = 0; i < l->n_out; i++) sink = sink && s->out_vals[i] != root;
    for (uint32_t i = 0; i < l->n_sinks; i++) sink = sink || td_val_owner(p, l->sinks[i].init_val) == val;
    for (uint32_t i = 0; i < l->n_gens; i++)
        if (l->gens[i].kind != TD_GEN_IOTA && td_val_owner(p, l->gens[i].val) == val)
            if (sink || l->gens[i].kind != TD_GEN_LINEAR || l->gens[i].bytes != bytes) return true;
    return sink;
}

/* May step `at` write the result `root`, given that operand `val` shares its memory? */
static bool safe_beside(const td_compiler_t *c, uint32_t val, uint32_t root, int32_t at) {
    const td_plan_t *p = &c->plan;
    const td_val_t *v = &p->vals[val];
    const td_kernel_arg_t *a = &c->desc->args[v->buf.offset], *o = arg_of_root(c, root);
    if (v->packed || !td_args_overlap(a, o)) return true; /* packed ones are unpacked before everything */
    for (uint32_t i = 0; i < p->n_roots; i++)
        if (td_val_owner(p, p->roots[i]) == val && !equal(a, arg_of_root(c, i))) return false;
    for (uint32_t i = (uint32_t)at; i < c->n_steps; i++) {
        const td_step_t *s = &c->steps[i];
        if (!reads(s, val)) continue;
        if (i > (uint32_t)at || !equal(a, o)) return false;
        uint32_t owner = td_val_owner(p, p->roots[root]);
        if (reads_elsewhere(p, s, val, owner, td_type_bytes(p->vals[owner].type))) return false;
    }
    return true;
}

static void place_results(td_compiler_t *c) {
    td_plan_t *p = &c->plan;
    for (uint32_t r = 0; r < p->n_roots; r++) {
        uint32_t id = td_val_owner(p, p->roots[r]);
        td_val_t *v = &p->vals[id];
        if (v->kind == TD_VAL_PARAM || v->kind == TD_VAL_CONST || v->buf.space != TD_BUF_NONE || td_type_bits(v->type) < 8) continue;
        bool ok = v->def >= 0;
        for (uint32_t i = 0; ok && i < p->n_vals; i++)
            if (p->vals[i].kind == TD_VAL_PARAM) ok = safe_beside(c, i, r, v->def);
        if (ok) v->buf = (td_buf_t){.space = TD_BUF_ARG, .offset = p->n_params + r};
    }
}

typedef struct slot {
    uint64_t offset, size;
    int32_t from, to;
} slot_t;
typedef struct slots {
    slot_t *v;
    uint32_t n;
    uint64_t total;
} slots_t;

/* The lowest offset free during [from, to]. */
static uint64_t take(slots_t *s, uint64_t size, int32_t from, int32_t to) {
    uint64_t at = 0;
    size = td_align_up(size ? size : 1, 64);
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t i = 0; i < s->n; i++) {
            const slot_t *o = &s->v[i];
            if (o->from <= to && from <= o->to && at < o->offset + o->size && o->offset < at + size) at = o->offset + o->size, moved = true;
        }
    }
    s->v[s->n++] = (slot_t){at, size, from, to};
    if (at + size > s->total) s->total = at + size;
    return at;
}

/* Operand 0 of an in-place op that ends there: the result takes over its memory. */
static bool inherit(td_compiler_t *c, slots_t *slots, td_val_t *v) {
    const td_step_t *s = &c->steps[v->def];
    if (s->kind != TD_STEP_MACRO || !s->macro->kind->in_place || s->n_out != 1) return false;
    const td_val_t *o = &c->plan.vals[s->in_vals[0]];
    if (o->buf.space != TD_BUF_SCRATCH || o->last != v->def || reads(s, s->in_vals[0]) != 1) return false;
    for (uint32_t i = 0; i < slots->n; i++)
        if (slots->v[i].offset == o->buf.offset && slots->v[i].from <= v->def && slots->v[i].to >= v->def) slots->v[i].to = v->last;
    v->buf = o->buf;
    return true;
}

static td_buf_t buf_of(const td_plan_t *p, uint32_t val) { return p->vals[val].buf; }

static void loop_buffers(const td_plan_t *p, td_loop_t *l) {
    for (uint32_t k = 0; k < l->n_gens; k++)
        if (l->gens[k].kind != TD_GEN_IOTA) l->gens[k].buf = buf_of(p, td_val_owner(p, l->gens[k].val));
    for (uint32_t k = 0; k < l->n_sinks; k++) l->sinks[k].init = buf_of(p, td_val_owner(p, l->sinks[k].init_val));
}

/* Results that are not yet where they belong. A parameter that some result overwrites is saved first. */
static td_status_t finish_results(td_compiler_t *c, slots_t *slots, uint32_t *n_saved, td_step_t **saved, td_err_t *err) {
    td_plan_t *p = &c->plan;
    int32_t end = (int32_t)c->n_steps;
    *n_saved = 0;
    td_step_t *list = TD_NEW_N(p->arena, td_step_t, p->n_roots + 1);
    if (!list) return td_arena_fail(p->arena, err);
    *saved = list;
    for (uint32_t r = 0; r < p->n_roots; r++) {
        const td_val_t *v = &p->vals[td_val_owner(p, p->roots[r])];
        td_buf_t from = v->buf, to = {.space = TD_BUF_ARG, .offset = p->n_params + r};
        if (from.space == TD_BUF_ARG && from.offset == to.offset) continue;
        if (v->kind == TD_VAL_PARAM && !v->packed && equal(&c->desc->args[from.offset], arg_of_root(c, r))) continue;
        bool save = false;
        for (uint32_t i = 0; v->kind == TD_VAL_PARAM && !v->packed && i < p->n_roots; i++)
            save = save || td_args_overlap(&c->desc->args[from.offset], arg_of_root(c, i));
        if (save) {
            td_buf_t keep = {.space = TD_BUF_SCRATCH, .offset = take(slots, (uint64_t)v->count * td_type_bytes(v->type), -1, end + 1)};
            td_step_t *s = td_compile_move(c, TD_STEP_COPY, v->type, v->count, from, keep);
            if (!s) return td_arena_fail(p->arena, err);
            list[(*n_saved)++] = *s;
            c->n_steps--;
            from = keep;
        }
        bool pack = td_type_bits(v->type) < 8;
        if (!td_compile_move(c, pack ? TD_STEP_PACK : TD_STEP_COPY, v->type, v->count, from, to)) return td_arena_fail(p->arena, err);
    }
    return TD_OK;
}

td_status_t td_compile_buffers(td_compiler_t *c, uint64_t *out_scratch, td_err_t *err) {
    td_plan_t *p = &c->plan;
    uint32_t n = c->n_steps, n_saved;
    td_step_t *saved;
    for (uint32_t i = 0; i < p->n_params + p->n_roots; i++) { /* no slice shorter than what lies in it */
        const td_shape_t *s = NULL;
        for (uint32_t k = 0; k < p->n_vals && i < p->n_params; k++)
            if (p->vals[k].kind == TD_VAL_PARAM && p->vals[k].buf.offset == i) s = p->vals[k].shape;
        const td_val_t *r = i < p->n_params ? NULL : &p->vals[p->roots[i - p->n_params]];
        unsigned bits = r ? (td_type_bits(r->type) < 8 && td_type_bits(r->type) != 6 ? td_type_bits(r->type) : 8 * td_type_bytes(r->type)) : 0;
        uint64_t bytes = r ? ((uint64_t)r->count * bits + 7) / 8 : s ? s->bytes : 0;
        if (c->desc->args[i].size < bytes)
            return td_fail(err, TD_MISMATCH, "%s: argument %u has %llu bytes, its array %llu", c->desc->instr->name, i, (unsigned long long)c->desc->args[i].size, (unsigned long long)bytes);
    }
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < c->steps[i].n_out; k++) {
            td_val_t *v = &p->vals[c->steps[i].out_vals[k]];
            v->def = (int32_t)i;
            if (v->last < (int32_t)i) v->last = (int32_t)i;
        }
        for (uint32_t k = 0; k < c->steps[i].n_in; k++) p->vals[c->steps[i].in_vals[k]].last = (int32_t)i;
    }
    for (uint32_t i = 0; i < p->n_roots; i++) p->vals[td_val_owner(p, p->roots[i])].last = (int32_t)n + 1;
    place_results(c);
    slots_t slots = {.v = TD_NEW_N(p->arena, slot_t, p->n_vals + n + p->n_roots + 1)};
    if (!slots.v) return td_arena_fail(p->arena, err);
    for (uint32_t i = 0; i < n; i++) {
        td_step_t *s = &c->steps[i];
        if (s->scratch) s->scratch_at = take(&slots, s->scratch, (int32_t)i, (int32_t)i);
        if (s->kind == TD_STEP_LOOP) s->loop->scratch_at = s->scratch_at;
        if (s->kind == TD_STEP_GEMV) s->gemv->scratch_at = s->scratch_at;
        for (uint32_t k = 0; k < s->n_out; k++) {
            td_val_t *v = &p->vals[s->out_vals[k]];
            bool unpack = s->kind == TD_STEP_UNPACK;
            if ((v->buf.space != TD_BUF_NONE && !unpack) || (!unpack && inherit(c, &slots, v))) continue;
            uint64_t bytes = (uint64_t)v->count * td_type_bytes(v->type);
            v->buf = (td_buf_t){.space = TD_BUF_SCRATCH, .offset = take(&slots, bytes, unpack ? 0 : (int32_t)i, v->last)};
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        td_step_t *s = &c->steps[i];
        if (s->kind == TD_STEP_LOOP) loop_buffers(p, s->loop);
        if (s->kind == TD_STEP_GEMV) {
            td_gemv_t *g = s->gemv;
            g->w = buf_of(p, s->in_vals[0]), g->x = buf_of(p, s->in_vals[1]), g->init = buf_of(p, s->in_vals[2]), g->out = buf_of(p, s->out_vals[0]);
        }
        for (uint32_t k = 0; s->kind == TD_STEP_MACRO && k < s->n_in; k++) s->in[k] = buf_of(p, s->in_vals[k]);
        for (uint32_t k = 0; k < s->n_out; k++) s->out[k] = buf_of(p, s->out_vals[k]);
        if (s->kind == TD_STEP_MACRO && s->macro->kind->in_place && s->n_out == 1) {
            const td_val_t *v = &p->vals[s->out_vals[0]];
            bool same = !memcmp(&s->in[0].space, &s->out[0].space, sizeof s->in[0].space) && s->in[0].offset == s->out[0].offset && s->in[0].space != TD_BUF_CONST;
            if (s->in[0].space == TD_BUF_ARG && s->out[0].space == TD_BUF_ARG) same = equal(&c->desc->args[s->in[0].offset], &c->desc->args[s->out[0].offset]);
            s->copy_first = !same;
            s->bytes = (uint64_t)v->count * td_type_bytes(v->type);
        }
    }
    td_status_t st = finish_results(c, &slots, &n_saved, &saved, err);
    if (st) return st;
    if (n_saved) {
        td_step_t *all = TD_NEW_N(p->arena, td_step_t, c->n_steps + n_saved);
        if (!all) return td_arena_fail(p->arena, err);
        memcpy(all, saved, n_saved * sizeof *all);
        memcpy(all + n_saved, c->steps, c->n_steps * sizeof *all);
        c->steps = all, c->n_steps += n_saved;
    }
    *out_scratch = slots.total;
    return TD_OK;
}
