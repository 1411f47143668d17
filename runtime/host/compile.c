/* SPDX-License-Identifier: Apache-2.0 */
/* Values into steps: macro ops in stages, and between them one tile loop per
 * (stage, element count) that runs every element-wise value of it and the
 * reductions of those. Within a stage the macro ops come first. */
#include <string.h>

#include "base/checked.h"
#include "runtime/host/loop.h"
#include "runtime/host/types.h"

static uint32_t max_u32(uint32_t a, uint32_t b) { return a > b ? a : b; }
bool td_val_computed(const td_val_t *v) { return v->kind == TD_VAL_PW || v->kind == TD_VAL_MAP || v->kind == TD_VAL_IOTA; }
bool td_val_late(const td_plan_t *p, const td_val_t *v) {
    return td_val_computed(v) || (v->kind == TD_VAL_MACRO && p->macros[v->macro].fused);
}
bool td_val_same_width(const td_plan_t *p, const td_val_t *v) {
    return td_type_bytes(v->type) == td_type_bytes(p->vals[v->src[0]].type);
}
uint32_t td_val_owner(const td_plan_t *p, uint32_t id) {
    return p->vals[id].kind == TD_VAL_ALIAS ? p->vals[id].src[0] : id;
}

/* First stage whose loops can read the value's memory. */
static uint32_t memory_stage(const td_plan_t *p, uint32_t id) {
    const td_val_t *v = &p->vals[td_val_owner(p, id)];
    return td_val_late(p, v) ? v->stage + 1 : v->stage;
}
/* First stage whose macro ops can. */
static uint32_t macro_stage(const td_plan_t *p, uint32_t id) {
    const td_val_t *v = &p->vals[td_val_owner(p, id)];
    return v->kind == TD_VAL_PARAM || v->kind == TD_VAL_CONST ? 0 : v->stage + 1;
}
/* First stage whose loop over as many elements can use the value, in a register or from memory. */
static uint32_t loop_stage(const td_plan_t *p, uint32_t id) {
    const td_val_t *v = &p->vals[id];
    if (v->kind == TD_VAL_ALIAS && !td_val_same_width(p, v)) return memory_stage(p, id);
    const td_val_t *o = &p->vals[td_val_owner(p, id)];
    return o->kind == TD_VAL_MACRO ? memory_stage(p, id) : o->stage;
}

static void set_stages(td_compiler_t *c) {
    td_plan_t *p = &c->plan;
    for (uint32_t i = 0; i < p->n_vals; i++) {
        td_val_t *v = &p->vals[i];
        if (v->kind == TD_VAL_MAP) v->stage = memory_stage(p, v->src[0]);
        if (v->kind == TD_VAL_PW)
            for (uint32_t k = 0; k < v->n_src; k++) v->stage = max_u32(v->stage, loop_stage(p, v->src[k]));
        if (v->kind == TD_VAL_MACRO) {
            td_macro_t *m = &p->macros[v->macro];
            if (td_loop_fuse(c, m, max_u32(loop_stage(p, m->in[0]), m->n_in > 1 ? memory_stage(p, m->in[1]) : 0))) {
                v->stage = m->stage;
                continue;
            }
            for (uint32_t k = 0; k < m->n_in; k++) m->stage = max_u32(m->stage, macro_stage(p, m->in[k]));
            v->stage = m->stage;
        }
    }
}

static void need(td_plan_t *p, uint32_t id) { p->vals[td_val_owner(p, id)].mat = true; }

/* Read by a loop of that stage: from memory, unless the loop computes it itself. */
static void need_elsewhere(td_plan_t *p, uint32_t id, uint32_t stage) {
    const td_val_t *s = &p->vals[id], *o = &p->vals[td_val_owner(p, id)];
    bool wide = s->kind == TD_VAL_ALIAS && !td_val_same_width(p, s);
    if (wide || (o->kind == TD_VAL_PW && o->stage != stage)) need(p, id);
}

/* Which values must lie in memory: whatever leaves its loop. */
static void set_memory(td_plan_t *p) {
    for (uint32_t i = 0; i < p->n_vals; i++) {
        td_val_t *v = &p->vals[i];
        if (v->kind == TD_VAL_MAP) need(p, v->src[0]);
        if (v->kind != TD_VAL_PW) continue;
        for (uint32_t k = 0; k < v->n_src; k++) need_elsewhere(p, v->src[k], v->stage);
    }
    for (uint32_t i = 0; i < p->n_macros; i++) {
        const td_macro_t *m = &p->macros[i];
        if (m->fused) need_elsewhere(p, m->in[0], m->stage);
        for (uint32_t k = m->fused; k < m->n_in; k++) need(p, m->in[k]);
    }
    for (uint32_t i = 0; i < p->n_roots; i++) need(p, p->roots[i]);
}

td_step_t *td_compile_step(td_compiler_t *c, int kind) {
    if (c->n_steps == c->cap_steps) {
        uint32_t cap = c->cap_steps ? 2 * c->cap_steps : 16;
        td_step_t *s = TD_NEW_N(c->plan.arena, td_step_t, cap);
        if (!s) return NULL;
        if (c->n_steps) memcpy(s, c->steps, c->n_steps * sizeof *s);
        c->steps = s, c->cap_steps = cap;
    }
    td_step_t *s = &c->steps[c->n_steps++];
    *s = (td_step_t){.kind = (unsigned)kind};
    return s;
}

td_step_t *td_compile_move(td_compiler_t *c, int kind, td_type_t type, int64_t count, td_buf_t from, td_buf_t to) {
    td_step_t *s = td_compile_step(c, kind);
    if (!s) return NULL;
    s->type = type, s->count = count, s->bytes = (uint64_t)count * td_type_bytes(type);
    s->in = TD_NEW(c->plan.arena, td_buf_t), s->out = TD_NEW(c->plan.arena, td_buf_t);
    if (!s->in || !s->out) return NULL;
    *s->in = from, *s->out = to;
    return s;
}

static td_status_t emit_macro(td_compiler_t *c, const td_macro_t *m, td_err_t *err) {
    td_plan_t *p = &c->plan;
    td_step_t *s = td_compile_step(c, TD_STEP_MACRO);
    if (!s) return td_arena_fail(p->arena, err);
    s->macro = m, s->n_in = m->n_in, s->n_out = m->n_out;
    s->in_vals = TD_NEW_N(p->arena, uint32_t, m->n_in + 1), s->out_vals = TD_NEW_N(p->arena, uint32_t, m->n_out + 1);
    s->in = TD_NEW_N(p->arena, td_buf_t, m->n_in + 1), s->out = TD_NEW_N(p->arena, td_buf_t, m->n_out + 1);
    if (!s->in_vals || !s->out_vals || !s->in || !s->out) return td_arena_fail(p->arena, err);
    for (uint32_t i = 0; i < m->n_in; i++) s->in_vals[i] = td_val_owner(p, m->in[i]);
    for (uint32_t i = 0; i < m->n_out; i++) s->out_vals[i] = m->first_out + i;
    s->scratch = td_align_up(m->scratch, 64) + td_align_up((size_t)(m->n_in + m->n_out) * sizeof(void *), 64);
    return TD_OK;
}

static td_status_t emit_all(td_compiler_t *c, td_err_t *err) {
    td_plan_t *p = &c->plan;
    uint32_t top = 0;
    for (uint32_t i = 0; i < p->n_vals; i++) {
        top = max_u32(top, p->vals[i].stage);
        td_val_t *v = &p->vals[i];
        if (v->kind != TD_VAL_PARAM || !v->packed) continue;
        td_step_t *s = td_compile_move(c, TD_STEP_UNPACK, v->type, v->count, v->buf, (td_buf_t){0});
        if (!s) return td_arena_fail(p->arena, err);
        s->out_vals = TD_NEW(p->arena, uint32_t), s->n_out = 1;
        if (!s->out_vals) return td_arena_fail(p->arena, err);
        s->out_vals[0] = i;
    }
    for (uint32_t stage = 0; stage <= top; stage++) {
        td_status_t s;
        for (uint32_t i = 0; i < p->n_macros; i++)
            if (p->macros[i].stage == stage && !p->macros[i].fused && (s = emit_macro(c, &p->macros[i], err))) return s;
        for (uint32_t i = 0; i < p->n_vals; i++) {
            const td_val_t *v = &p->vals[i];
            if (td_val_computed(v) && v->stage == stage && !c->done[i] && (v->kind == TD_VAL_PW || v->mat) && (s = td_loop_emit(c, stage, v->count, err))) return s;
        }
        for (uint32_t i = 0; i < p->n_macros; i++) {
            const td_macro_t *m = &p->macros[i];
            if (m->fused && m->stage == stage && !c->done[m->first_out] && (s = td_loop_emit(c, stage, p->vals[m->in[0]].count, err))) return s;
        }
    }
    return TD_OK;
}

td_status_t td_host_kernel_lower(td_device_t *dev, const td_kernel_desc_t *d, td_arena_t *arena, td_kernel_t **out, uint64_t *out_scratch, td_err_t *err) {
    (void)dev;
    if (!d->instr) return td_fail(err, TD_UNSUPPORTED, "kernel %s names no HLO instruction", d->name ? d->name : "");
    td_compiler_t c = {.desc = d};
    td_status_t s = td_plan_build(d, arena, &c.plan, err);
    if (s) return s;
    td_plan_t *p = &c.plan;
    if (p->n_params + p->n_roots != d->n_args)
        return td_fail(err, TD_MISMATCH, "%s: kernel has %u arguments, its instruction %u operands and %u results", d->instr->name, d->n_args, p->n_params, p->n_roots);
    c.done = TD_NEW_N(arena, bool, p->n_vals + 1);
    td_kernel_t *k = TD_NEW(arena, td_kernel_t);
    if (!c.done || !k) return td_arena_fail(arena, err);
    c.shapes = td_arena_array(arena, p->n_macros + 1, sizeof *c.shapes);
    if (!c.shapes) return td_arena_fail(arena, err);
    set_stages(&c);
    set_memory(p);
    if ((s = emit_all(&c, err)) || (s = td_compile_buffers(&c, out_scratch, err))) return s;
    k->run = td_host_kernel_run, k->steps = c.steps, k->n_steps = c.n_steps;
    *out = k;
    return TD_OK;
}
