/* SPDX-License-Identifier: Apache-2.0 */
/* Values into steps: macro ops in stages, and between them one tile loop per
 * (stage, element count) that runs every element-wise value of it.
 * Within a stage the macro ops come first. */
#include <string.h>

#include "base/checked.h"
#include "runtime/host/compile.h"
#include "runtime/host/types.h"

static uint32_t max_u32(uint32_t a, uint32_t b) { return a > b ? a : b; }
static bool computed(const td_val_t *v) { return v->kind == TD_VAL_PW || v->kind == TD_VAL_MAP || v->kind == TD_VAL_IOTA; }
static bool same_width(const td_plan_t *p, const td_val_t *v) {
    return td_type_bytes(v->type) == td_type_bytes(p->vals[v->src[0]].type);
}
uint32_t td_val_owner(const td_plan_t *p, uint32_t id) {
    return p->vals[id].kind == TD_VAL_ALIAS ? p->vals[id].src[0] : id;
}

/* First stage whose loops can read the value's memory. */
static uint32_t memory_stage(const td_plan_t *p, uint32_t id) {
    const td_val_t *v = &p->vals[td_val_owner(p, id)];
    return computed(v) ? v->stage + 1 : v->stage;
}
/* First stage whose macro ops can. */
static uint32_t macro_stage(const td_plan_t *p, uint32_t id) {
    const td_val_t *v = &p->vals[td_val_owner(p, id)];
    return v->kind == TD_VAL_PARAM || v->kind == TD_VAL_CONST ? 0 : v->stage + 1;
}
/* First stage whose loop over as many elements can use the value, in a register or from memory. */
static uint32_t loop_stage(const td_plan_t *p, uint32_t id) {
    const td_val_t *v = &p->vals[id];
    if (v->kind == TD_VAL_ALIAS && !same_width(p, v)) return memory_stage(p, id);
    return p->vals[td_val_owner(p, id)].stage;
}

static void set_stages(td_plan_t *p) {
    for (uint32_t i = 0; i < p->n_vals; i++) {
        td_val_t *v = &p->vals[i];
        if (v->kind == TD_VAL_MAP) v->stage = memory_stage(p, v->src[0]);
        if (v->kind == TD_VAL_PW)
            for (uint32_t k = 0; k < v->n_src; k++) v->stage = max_u32(v->stage, loop_stage(p, v->src[k]));
        if (v->kind == TD_VAL_MACRO) {
            td_macro_t *m = &p->macros[v->macro];
            for (uint32_t k = 0; k < m->n_in; k++) m->stage = max_u32(m->stage, macro_stage(p, m->in[k]));
            v->stage = m->stage;
        }
    }
}

static void need(td_plan_t *p, uint32_t id) { p->vals[td_val_owner(p, id)].mat = true; }

/* Which values must lie in memory: whatever leaves its loop. */
static void set_memory(td_plan_t *p) {
    for (uint32_t i = 0; i < p->n_vals; i++) {
        td_val_t *v = &p->vals[i];
        if (v->kind == TD_VAL_MAP) need(p, v->src[0]);
        if (v->kind != TD_VAL_PW) continue;
        for (uint32_t k = 0; k < v->n_src; k++) {
            const td_val_t *s = &p->vals[v->src[k]], *o = &p->vals[td_val_owner(p, v->src[k])];
            bool wide = s->kind == TD_VAL_ALIAS && !same_width(p, s);
            if (wide || (o->kind == TD_VAL_PW && o->stage != v->stage)) need(p, v->src[k]);
        }
    }
    for (uint32_t i = 0; i < p->n_macros; i++)
        for (uint32_t k = 0; k < p->macros[i].n_in; k++) need(p, p->macros[i].in[k]);
    for (uint32_t i = 0; i < p->n_roots; i++) need(p, p->roots[i]);
}

static td_step_t *new_step(td_compiler_t *c, int kind) {
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
    td_step_t *s = new_step(c, kind);
    if (!s) return NULL;
    s->type = type, s->count = count, s->bytes = (uint64_t)count * td_type_bytes(type);
    s->in = TD_NEW(c->plan.arena, td_buf_t), s->out = TD_NEW(c->plan.arena, td_buf_t);
    if (!s->in || !s->out) return NULL;
    *s->in = from, *s->out = to;
    return s;
}

typedef struct loop {
    td_pw_builder_t b;
    td_gen_t *gens;
    uint32_t n_gens;
    int32_t *number; /* by value; -1 none yet */
} loop_t;

static int32_t input(td_plan_t *p, loop_t *l, uint32_t id, int kind) {
    const td_val_t *v = &p->vals[id];
    td_gen_t *g = &l->gens[l->n_gens++];
    *g = (td_gen_t){.kind = (unsigned)kind, .val = id, .type = v->type, .bytes = (uint32_t)td_type_bytes(v->type)};
    if (v->kind == TD_VAL_MAP) g->map = &v->map, g->val = v->src[0];
    g->iota_inner = v->iota_inner, g->iota_size = v->iota_size;
    return td_pw_input(&l->b, v->type);
}

/* The number of a value inside a loop, reading it if it is not computed there. */
static int32_t number_of(td_plan_t *p, loop_t *l, uint32_t id, uint32_t stage) {
    if (l->number[id] >= 0) return l->number[id];
    const td_val_t *v = &p->vals[id];
    int32_t n;
    if (v->kind == TD_VAL_ALIAS && same_width(p, v)) {
        uint32_t o = v->src[0];
        const td_val_t *s = &p->vals[o];
        if (l->number[o] < 0 && computed(s) && s->kind != TD_VAL_PW) l->number[o] = input(p, l, o, s->kind == TD_VAL_IOTA ? TD_GEN_IOTA : s->map.splat ? TD_GEN_SPLAT : TD_GEN_MAP);
        n = l->number[o] >= 0 ? td_pw_bitcast(&l->b, v->type, l->number[o]) : input(p, l, id, TD_GEN_LINEAR);
    } else if (v->kind == TD_VAL_CONST && v->count == 1) {
        n = td_pw_const(&l->b, v->type, v->buf.bytes);
    } else if (v->kind == TD_VAL_MAP && v->map.splat && p->vals[v->src[0]].kind == TD_VAL_CONST) {
        n = td_pw_const(&l->b, v->type, p->vals[v->src[0]].buf.bytes);
    } else if (v->kind == TD_VAL_MAP) {
        n = input(p, l, id, v->map.splat ? TD_GEN_SPLAT : TD_GEN_MAP);
    } else if (v->kind == TD_VAL_IOTA) {
        n = input(p, l, id, TD_GEN_IOTA);
    } else {
        n = input(p, l, id, TD_GEN_LINEAR);
    }
    (void)stage;
    return l->number[id] = n;
}

static td_status_t emit_loop(td_compiler_t *c, uint32_t stage, int64_t count, td_err_t *err) {
    td_plan_t *p = &c->plan;
    loop_t l = {.number = TD_NEW_N(p->arena, int32_t, p->n_vals + 1), .gens = TD_NEW_N(p->arena, td_gen_t, 2 * p->n_vals + 1)};
    if (!l.number || !l.gens) return td_arena_fail(p->arena, err);
    memset(l.number, 0xff, p->n_vals * sizeof *l.number);
    td_pw_begin(&l.b, p->arena);
    uint32_t n_out = 0, *outs = TD_NEW_N(p->arena, uint32_t, p->n_vals + 1);
    if (!outs) return td_arena_fail(p->arena, err);
    for (uint32_t i = 0; i < p->n_vals; i++) {
        td_val_t *v = &p->vals[i];
        if (!computed(v) || v->stage != stage || v->count != count || c->done[i]) continue;
        if (v->kind == TD_VAL_PW) {
            int32_t src[3];
            for (uint32_t k = 0; k < v->n_src; k++) src[k] = number_of(p, &l, v->src[k], stage);
            td_status_t s = td_pw_add(&l.b, v->instr, src, &l.number[i], err);
            if (s) return s;
        } else if (v->mat) {
            (void)number_of(p, &l, i, stage);
        } else {
            continue;
        }
        c->done[i] = true;
        if (v->mat) {
            td_pw_output(&l.b, td_pw_copied(&l.b, l.number[i], 2));
            outs[n_out++] = i;
        }
    }
    if (!n_out) return TD_OK;
    td_step_t *s = new_step(c, TD_STEP_PW);
    td_pw_t *pw;
    if (!s) return td_arena_fail(p->arena, err);
    td_status_t st = td_pw_finish(&l.b, &pw, err);
    if (st) return st;
    s->pw = pw, s->gens = l.gens, s->n_gens = l.n_gens, s->count = count, s->out_vals = outs, s->n_out = n_out;
    s->scratch = td_align_up(td_pw_scratch(pw), 64);
    for (uint32_t i = 0; i < l.n_gens; i++) {
        if (l.gens[i].kind == TD_GEN_LINEAR) continue;
        l.gens[i].tile = s->scratch;
        s->scratch += (uint64_t)TD_PW_TILE * l.gens[i].bytes;
    }
    s->scratch += td_align_up((size_t)(l.n_gens + n_out) * sizeof(void *), 64);
    s->in_vals = TD_NEW_N(p->arena, uint32_t, l.n_gens + 1), s->out_bytes = TD_NEW_N(p->arena, uint32_t, n_out);
    s->in = TD_NEW_N(p->arena, td_buf_t, l.n_gens + 1), s->out = TD_NEW_N(p->arena, td_buf_t, n_out);
    if (!s->in_vals || !s->out_bytes || !s->in || !s->out) return td_arena_fail(p->arena, err);
    for (uint32_t i = 0; i < l.n_gens; i++)
        if (l.gens[i].kind != TD_GEN_IOTA) s->in_vals[s->n_in++] = td_val_owner(p, l.gens[i].val);
    for (uint32_t i = 0; i < n_out; i++) s->out_bytes[i] = (uint32_t)td_type_bytes(p->vals[outs[i]].type);
    return TD_OK;
}

static td_status_t emit_macro(td_compiler_t *c, const td_macro_t *m, td_err_t *err) {
    td_plan_t *p = &c->plan;
    td_step_t *s = new_step(c, TD_STEP_MACRO);
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
            if (p->macros[i].stage == stage && (s = emit_macro(c, &p->macros[i], err))) return s;
        for (uint32_t i = 0; i < p->n_vals; i++) {
            const td_val_t *v = &p->vals[i];
            if (computed(v) && v->stage == stage && !c->done[i] && (v->kind == TD_VAL_PW || v->mat) && (s = emit_loop(c, stage, v->count, err))) return s;
        }
    }
    return TD_OK;
}

td_status_t td_host_kernel_lower(td_device_t *dev, const td_kernel_desc_t *d, td_arena_t *arena, td_kernel_t **out, uint64_t *out_scratch, td_err_t *err) {
    (void)dev;
    if (!d->instr) return td_fail(err, TD_UNSUPPORTED, "kernel %s names no HLO instruction", d->name ? d->name : "");
    td_compiler_t c = {.desc = d};
    td_status_t s = td_plan_build(d->instr, arena, &c.plan, err);
    if (s) return s;
    td_plan_t *p = &c.plan;
    if (p->n_params + p->n_roots != d->n_args)
        return td_fail(err, TD_MISMATCH, "%s: kernel has %u arguments, its instruction %u operands and %u results", d->instr->name, d->n_args, p->n_params, p->n_roots);
    c.done = TD_NEW_N(arena, bool, p->n_vals + 1);
    td_kernel_t *k = TD_NEW(arena, td_kernel_t);
    if (!c.done || !k) return td_arena_fail(arena, err);
    set_stages(p);
    set_memory(p);
    if ((s = emit_all(&c, err)) || (s = td_compile_buffers(&c, out_scratch, err))) return s;
    k->run = td_host_kernel_run, k->steps = c.steps, k->n_steps = c.n_steps;
    *out = k;
    return TD_OK;
}
