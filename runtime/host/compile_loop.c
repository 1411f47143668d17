/* SPDX-License-Identifier: Apache-2.0 */
/* Which values make a tile loop, what it reads and writes, and its geometry. */
#include <string.h>

#include "base/checked.h"
#include "base/limits.h"
#include "runtime/host/loop.h"
#include "runtime/host/pool.h"
#include "runtime/host/types.h"

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
static int32_t number_of(td_plan_t *p, loop_t *l, uint32_t id) {
    if (l->number[id] >= 0) return l->number[id];
    const td_val_t *v = &p->vals[id];
    int32_t n;
    if (v->kind == TD_VAL_ALIAS && td_val_same_width(p, v)) {
        uint32_t o = v->src[0];
        const td_val_t *s = &p->vals[o];
        if (l->number[o] < 0 && td_val_computed(s) && s->kind != TD_VAL_PW)
            l->number[o] = input(p, l, o, s->kind == TD_VAL_IOTA ? TD_GEN_IOTA : s->map.splat ? TD_GEN_SPLAT : TD_GEN_MAP);
        n = l->number[o] >= 0 ? td_pw_bitcast(&l->b, v->type, l->number[o]) : input(p, l, id, TD_GEN_LINEAR);
    } else if (v->kind == TD_VAL_CONST && v->count == 1) {
        n = td_pw_const(&l->b, v->type, v->buf.bytes);
    } else if (v->kind == TD_VAL_MAP && v->map.splat && p->vals[v->src[0]].kind == TD_VAL_CONST) {
        n = td_pw_const(&l->b, v->type, p->vals[v->src[0]].buf.bytes);
    } else if (v->kind == TD_VAL_MAP) {
        n = input(p, l, id, v->map.splat ? TD_GEN_SPLAT : TD_GEN_MAP);
    } else {
        n = input(p, l, id, v->kind == TD_VAL_IOTA ? TD_GEN_IOTA : TD_GEN_LINEAR);
    }
    return l->number[id] = n;
}

/* The operand's memory as [outer][reduced][inner], the result's as [outer][inner]; false if it is not so. */
static bool split_memory(const td_hlo_instr_t *in, int64_t *reduced, int64_t *inner) {
    const td_shape_t *a = in->operands[0]->shape, *o = in->shape;
    uint32_t kept[TD_LIMIT_RANK], n_kept = 0, at = 0, out_dim[TD_LIMIT_RANK], next = 0;
    bool red[TD_LIMIT_RANK] = {false};
    int64_t r = 1, tail = 1;
    for (uint32_t i = 0; i < in->dimensions.n; i++) red[in->dimensions.v[i]] = true;
    for (uint32_t i = 0; i < a->rank; i++) out_dim[i] = red[i] ? 0 : next++;
    int phase = 0;
    for (uint32_t i = a->rank; i-- > 0;) {
        int32_t d = a->minor_to_major[i];
        if (a->dims[d] == 1) continue;
        if (red[d]) {
            if (phase == 2) return false;
            phase = 1, r *= a->dims[d];
        } else {
            if (phase) phase = 2, tail *= a->dims[d];
            kept[n_kept++] = out_dim[d];
        }
    }
    for (uint32_t i = o->rank; i-- > 0;) {
        int32_t d = o->minor_to_major[i];
        if (o->dims[d] == 1) continue;
        if (at >= n_kept || kept[at++] != (uint32_t)d) return false;
    }
    *reduced = r, *inner = tail;
    return true;
}

static bool sink_op(td_opcode_t op) {
    return op == TD_HLO_ADD || op == TD_HLO_MULTIPLY || op == TD_HLO_MAXIMUM || op == TD_HLO_MINIMUM || op == TD_HLO_AND || op == TD_HLO_OR;
}

bool td_loop_fuse(td_compiler_t *c, td_macro_t *m, uint32_t stage) {
    const td_hlo_instr_t *in = m->instr;
    int64_t reduced, inner;
    if (in->opcode != TD_HLO_REDUCE || m->n_in != 2 || m->n_out != 1) return false;
    const td_shape_t *a = in->operands[0]->shape;
    td_opcode_t op = td_pw_simple_op(in->called[0]);
    const td_pw_table_t *t = td_pw_table(td_type_register(a->type));
    if (!sink_op(op) || !t || !t->fn[op] || a->rank > TD_LIMIT_RANK || (td_type_bits(a->type) < 8 && a->type != TD_PRED) || a->count < 2) return false;
    if (!split_memory(in, &reduced, &inner) || reduced < 2) return false;
    for (uint32_t i = 0; i < c->n_shapes; i++)
        if (c->shapes[i].stage == stage && c->shapes[i].count == a->count &&
            (c->shapes[i].reduced != reduced || c->shapes[i].inner != inner))
            return false;
    c->shapes[c->n_shapes].stage = stage, c->shapes[c->n_shapes].count = a->count;
    c->shapes[c->n_shapes].reduced = reduced, c->shapes[c->n_shapes++].inner = inner;
    m->fused = true, m->stage = stage, m->reduced = reduced, m->inner = inner, m->op = op;
    return true;
}

/* The positions after which a map repeats itself. */
static int64_t period(const td_map_t *m) {
    int64_t n = 1;
    uint32_t first = 0;
    while (first < m->rank && m->strides[first] == 0) first++;
    for (uint32_t i = first; i < m->rank; i++) n *= m->sizes[i];
    return n ? n : 1;
}

static int64_t whole(int64_t n, int64_t by) { return (n + by - 1) / by; }

static void size_columns(td_loop_t *l) {
    int64_t outer = l->count / l->reduced / l->inner, parts = whole(l->inner, TD_PW_TILE), want = whole(td_host_threads(), outer);
    if (parts < want && l->inner / want >= 64 && l->inner * l->reduced >= 65536) parts = want;
    l->row = l->inner;
    l->tile = parts == 1 ? l->inner : (whole(l->inner, parts) + 15) & ~15ll;
    parts = whole(l->inner, l->tile);
    if (parts == 1) {
        int64_t k = TD_PW_TILE / l->inner;
        l->tile *= k < l->reduced ? k : l->reduced;
    }
    l->units = outer * parts;
}

td_status_t td_loop_size(td_loop_t *l, td_err_t *err) {
    if (l->n_sinks && l->inner > 1) {
        size_columns(l);
    } else {
        l->row = l->n_sinks ? l->reduced : l->count;
        if (!l->n_sinks)
            for (uint32_t i = 0, any = 0; i < l->n_gens; i++) {
                const td_map_t *m = l->gens[i].kind == TD_GEN_MAP ? l->gens[i].map : NULL;
                int64_t last = m && m->rank ? m->sizes[m->rank - 1] : 0;
                if (last > 1 && l->count % last == 0 && (!any++ || last > l->row)) l->row = last;
            }
        if (l->row < 1) l->row = 1;
        if (l->row <= TD_PW_TILE) {
            l->tile = TD_PW_TILE / l->row * l->row;
            l->units = whole(l->count, l->tile);
        } else {
            int64_t parts = whole(l->row, TD_PW_TILE);
            l->tile = (whole(l->row, parts) + 15) & ~15ll;
            l->units = l->count / l->row * (l->n_sinks ? 1 : whole(l->row, l->tile));
        }
    }
    uint64_t s = td_align_up(td_pw_scratch(l->pw), 64);
    for (uint32_t i = 0; i < l->n_gens; i++) {
        td_gen_t *g = &l->gens[i];
        if (g->kind == TD_GEN_LINEAR) continue;
        g->once = g->kind == TD_GEN_MAP && l->tile % l->row == 0 && l->row % period(g->map) == 0;
        g->tile = s, s += (uint64_t)TD_PW_TILE * g->bytes;
    }
    for (uint32_t i = 0; i < l->n_sinks; i++) l->sinks[i].acc = s, s += (uint64_t)TD_PW_TILE * 32;
    l->tables = s;
    l->scratch = s + td_align_up((size_t)(l->n_gens + l->n_out) * sizeof(void *), 64);
    if (l->scratch > (1ull << 40)) return td_fail(err, TD_LIMIT, "scratch of a loop overflows");
    return TD_OK;
}

enum { FEW = 64 }; /* terms that f32 sums up well enough one by one */

static void add_sink(td_compiler_t *c, loop_t *l, td_loop_t *t, const td_macro_t *m, bool outs) {
    td_plan_t *p = &c->plan;
    td_type_t type = p->vals[m->first_out].type, reg = td_type_register(type);
    int32_t n = td_pw_copied(&l->b, number_of(p, l, m->in[0]), outs ? 2 : 1);
    t->sinks[t->n_sinks++] = (td_sink_t){.type = type, .reg = reg, .op = m->op, .fn = td_pw_table(reg)->fn[m->op],
                                         .wide = reg == TD_F32 && m->op == TD_HLO_ADD && (m->inner == 1 || m->reduced > FEW), .tap = td_pw_tap(&l->b, n), .init_val = m->in[1]};
    t->reduced = m->reduced, t->inner = m->inner;
}

/* The step that runs the loop, with every value it touches. */
static td_status_t add_step(td_compiler_t *c, td_loop_t *t, const uint32_t *outs, const uint32_t *results, td_err_t *err) {
    td_plan_t *p = &c->plan;
    td_step_t *s = td_compile_step(c, TD_STEP_LOOP);
    if (!s) return td_arena_fail(p->arena, err);
    uint32_t n_out = t->n_out + t->n_sinks, n_in = t->n_gens + t->n_sinks;
    s->loop = t, s->count = t->count;
    s->scratch = t->scratch * (uint64_t)td_host_threads();
    s->in_vals = TD_NEW_N(p->arena, uint32_t, n_in + 1), s->out_vals = TD_NEW_N(p->arena, uint32_t, n_out + 1);
    s->out = TD_NEW_N(p->arena, td_buf_t, n_out + 1);
    t->out_bytes = TD_NEW_N(p->arena, uint32_t, t->n_out + 1);
    if (!s->in_vals || !s->out_vals || !s->out || !t->out_bytes) return td_arena_fail(p->arena, err);
    t->out = s->out;
    for (uint32_t i = 0; i < t->n_gens; i++)
        if (t->gens[i].kind != TD_GEN_IOTA) s->in_vals[s->n_in++] = td_val_owner(p, t->gens[i].val);
    for (uint32_t i = 0; i < t->n_sinks; i++) s->in_vals[s->n_in++] = td_val_owner(p, t->sinks[i].init_val);
    for (uint32_t i = 0; i < t->n_out; i++) t->out_bytes[i] = (uint32_t)td_type_bytes(p->vals[outs[i]].type), s->out_vals[s->n_out++] = outs[i];
    for (uint32_t i = 0; i < t->n_sinks; i++) s->out_vals[s->n_out++] = results[i];
    return TD_OK;
}

static td_status_t emit_gemv(td_compiler_t *c, const td_macro_t *m, td_err_t *err) {
    td_plan_t *p = &c->plan;
    td_gemv_t *g = NULL;
    td_status_t st = td_gemv_match(c, m, &g, err);
    if (st || !g) return st;
    td_step_t *s = td_compile_step(c, TD_STEP_GEMV);
    if (!s) return td_arena_fail(p->arena, err);
    s->gemv = g, s->n_in = 3, s->n_out = 1, s->scratch = g->scratch;
    s->in_vals = TD_NEW_N(p->arena, uint32_t, 3), s->out_vals = TD_NEW(p->arena, uint32_t), s->out = TD_NEW(p->arena, td_buf_t);
    if (!s->in_vals || !s->out_vals || !s->out) return td_arena_fail(p->arena, err);
    s->in_vals[0] = td_val_owner(p, g->w_val), s->in_vals[1] = td_val_owner(p, g->x_val), s->in_vals[2] = td_val_owner(p, g->init_val);
    s->out_vals[0] = m->first_out;
    c->done[m->first_out] = true;
    return TD_OK;
}

td_status_t td_loop_emit(td_compiler_t *c, uint32_t stage, int64_t count, td_err_t *err) {
    td_plan_t *p = &c->plan;
    td_status_t st;
    for (uint32_t i = 0; i < p->n_macros; i++) {
        const td_macro_t *m = &p->macros[i];
        if (m->fused && m->stage == stage && p->vals[m->in[0]].count == count && !c->done[m->first_out] && (st = emit_gemv(c, m, err))) return st;
    }
    loop_t l = {.number = TD_NEW_N(p->arena, int32_t, p->n_vals + 1), .gens = TD_NEW_N(p->arena, td_gen_t, 2 * p->n_vals + 1)};
    uint32_t *outs = TD_NEW_N(p->arena, uint32_t, p->n_vals + 1), *results = TD_NEW_N(p->arena, uint32_t, p->n_macros + 1);
    td_loop_t *t = TD_NEW(p->arena, td_loop_t);
    if (!l.number || !l.gens || !outs || !results || !t || !(t->sinks = TD_NEW_N(p->arena, td_sink_t, p->n_macros + 1))) return td_arena_fail(p->arena, err);
    memset(l.number, 0xff, p->n_vals * sizeof *l.number);
    td_pw_begin(&l.b, p->arena);
    for (uint32_t i = 0; i < p->n_vals; i++) {
        td_val_t *v = &p->vals[i];
        if (!td_val_computed(v) || v->stage != stage || v->count != count || c->done[i]) continue;
        if (v->kind == TD_VAL_PW) {
            int32_t src[3] = {-1, -1, -1};
            for (uint32_t k = 0; k < v->n_src; k++) src[k] = number_of(p, &l, v->src[k]);
            if ((st = td_pw_add(&l.b, v->instr, src, &l.number[i], err))) return st;
        } else if (v->mat) {
            (void)number_of(p, &l, i);
        } else {
            continue;
        }
        c->done[i] = true;
        if (v->mat) {
            td_pw_output(&l.b, td_pw_copied(&l.b, l.number[i], 2));
            outs[t->n_out++] = i;
        }
    }
    for (uint32_t i = 0; i < p->n_macros; i++) {
        const td_macro_t *m = &p->macros[i];
        if (!m->fused || m->stage != stage || p->vals[m->in[0]].count != count || c->done[m->first_out]) continue;
        results[t->n_sinks] = m->first_out;
        add_sink(c, &l, t, m, t->n_out != 0);
        c->done[m->first_out] = true;
    }
    if (!t->n_out && !t->n_sinks) return TD_OK;
    td_pw_t *pw;
    if ((st = td_pw_finish(&l.b, &pw, err))) return st;
    t->pw = pw, t->gens = l.gens, t->n_gens = l.n_gens, t->count = count;
    if ((st = td_loop_size(t, err))) return st;
    return add_step(c, t, outs, results, err);
}
