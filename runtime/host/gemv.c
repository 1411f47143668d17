/* SPDX-License-Identifier: Apache-2.0 */
/* A one-row matrix product that a compiler wrote as multiply and reduce: read the matrix where it lies,
 * f32 or bf16, with no array of products. */
#include <string.h>

#include "base/checked.h"
#include "runtime/host/loop.h"
#include "runtime/host/pool.h"
#include "runtime/host/types.h"
#include "runtime/host/vec.h"

enum { WIDTH = 4096 }; /* columns at a time: whole rows where it can be, which memory likes best */

/* How often the value is read, by loops, maps, macro ops or as a result. */
static uint32_t uses(const td_plan_t *p, uint32_t id) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n_vals; i++)
        for (uint32_t k = 0; k < p->vals[i].n_src; k++) n += p->vals[i].src[k] == id;
    for (uint32_t i = 0; i < p->n_macros; i++)
        for (uint32_t k = 0; k < p->macros[i].n_in; k++) n += p->macros[i].in[k] == id;
    for (uint32_t i = 0; i < p->n_roots; i++) n += p->roots[i] == id;
    return n;
}

/* An operand as f32 or bf16 in memory, seen through one conversion: the base value, and the conversion or itself. */
static bool base_of(const td_compiler_t *c, uint32_t id, uint32_t *base) {
    const td_plan_t *p = &c->plan;
    const td_val_t *v = &p->vals[id];
    *base = id;
    if (v->kind == TD_VAL_PW && v->instr->opcode == TD_HLO_CONVERT && v->type == TD_F32 && p->vals[v->src[0]].type == TD_BF16 &&
        !c->done[id] && uses(p, id) == 1)
        *base = v->src[0];
    td_type_t t = p->vals[*base].type;
    return t == TD_F32 || t == TD_BF16;
}

/* Is it read straight from memory when this stage's loops run? */
static bool in_memory(const td_plan_t *p, uint32_t id, uint32_t stage) {
    const td_val_t *v = &p->vals[id];
    if (v->kind == TD_VAL_PARAM || v->kind == TD_VAL_CONST || v->kind == TD_VAL_MACRO) return true;
    return v->kind == TD_VAL_PW && v->mat && v->stage < stage;
}

/* The map without its last `inner` positions, which must all be the same element. */
static bool drop_inner(const td_map_t *m, int64_t inner, td_arena_t *a, td_map_t *out, td_status_t *st, td_err_t *err) {
    uint32_t rank = m->rank;
    *out = (td_map_t){.sizes = TD_NEW_N(a, int64_t, rank + 1), .strides = TD_NEW_N(a, int64_t, rank + 1)};
    if (!out->sizes || !out->strides) {
        *st = td_arena_fail(a, err);
        return false;
    }
    while (rank && inner > 1) {
        if (m->strides[rank - 1] || inner % m->sizes[rank - 1]) return false;
        inner /= m->sizes[--rank];
    }
    if (inner != 1 || !rank) return false;
    memcpy(out->sizes, m->sizes, rank * sizeof *m->sizes);
    memcpy(out->strides, m->strides, rank * sizeof *m->strides);
    out->rank = rank;
    return true;
}

/* Is x the same for every outer index? */
static bool repeats(const td_map_t *m, int64_t reduced) {
    int64_t n = 1;
    uint32_t i = m->rank;
    while (i && n < reduced) n *= m->sizes[--i];
    if (n != reduced) return false;
    while (i && m->strides[i - 1] == 0) i--;
    return i == 0;
}

td_status_t td_gemv_match(td_compiler_t *c, const td_macro_t *m, td_gemv_t **out, td_err_t *err) {
    td_plan_t *p = &c->plan;
    uint32_t product = m->in[0], sum = product, base[2];
    const td_val_t *v = &p->vals[product], *r = &p->vals[m->first_out];
    td_status_t st = TD_OK;
    bool rounded = v->kind == TD_VAL_PW && v->instr->opcode == TD_HLO_CONVERT && p->vals[v->src[0]].kind == TD_VAL_PW &&
                   p->vals[v->src[0]].type == TD_BF16; /* products of bf16, then widened */
    if (rounded) {
        if (v->mat || c->done[product] || uses(p, product) != 1) return TD_OK;
        product = v->src[0], v = &p->vals[product];
    }
    if (m->op != TD_HLO_ADD || v->kind != TD_VAL_PW || v->instr->opcode != TD_HLO_MULTIPLY || v->type != (rounded ? TD_BF16 : TD_F32) || r->type != TD_F32 ||
        v->mat || c->done[product] || uses(p, product) != 1 || v->src[0] == v->src[1] || m->reduced < 16)
        return TD_OK;
    if (rounded) base[0] = v->src[0], base[1] = v->src[1];
    else if (!base_of(c, v->src[0], &base[0]) || !base_of(c, v->src[1], &base[1])) return TD_OK;
    for (int i = 0; i < 2; i++) {
        const td_val_t *x = &p->vals[base[!i]];
        if (!in_memory(p, base[i], m->stage) || p->vals[base[i]].count != v->count || x->kind != TD_VAL_MAP || !in_memory(p, x->src[0], m->stage)) continue;
        td_gemv_t *g = TD_NEW(p->arena, td_gemv_t);
        if (!g) return td_arena_fail(p->arena, err);
        *g = (td_gemv_t){.rounded = rounded, .w_type = p->vals[base[i]].type, .x_type = x->type, .reduced = m->reduced, .inner = m->inner,
                         .outer = v->count / m->reduced / m->inner, .w_val = base[i], .x_val = x->src[0], .init_val = m->in[1]};
        if (!drop_inner(&x->map, m->inner, p->arena, &g->x_map, &st, err)) {
            if (st) return st;
            continue;
        }
        g->x_once = repeats(&g->x_map, g->reduced);
        int64_t parts = (g->inner + WIDTH - 1) / WIDTH, want = (td_host_threads() + g->outer - 1) / g->outer;
        if (parts < want && g->inner / want >= 64) parts = want;
        g->tile = g->inner == 1 ? 1 : ((g->inner + parts - 1) / parts + 15) & ~15ll;
        g->units = g->inner == 1 ? g->outer : g->outer * ((g->inner + g->tile - 1) / g->tile);
        g->x_at = (uint64_t)WIDTH * 12; /* after a unit's sums */
        g->scratch = g->x_at + td_align_up((size_t)g->reduced * 4 + (size_t)TD_PW_TILE * 4, 64);
        for (int k = 0; k < 2; k++) c->done[v->src[k]] |= base[k] != v->src[k]; /* conversions: nobody else's */
        c->done[product] = c->done[sum] = true;
        *out = g;
        uint64_t each = g->scratch;
        g->scratch = each * (uint64_t)td_host_threads();
        return TD_OK;
    }
    return TD_OK;
}

typedef struct work {
    const td_gemv_t *g;
    void *const *bufs;
    char *scratch;
} work_t;

/* x for one outer index, as f32 in order. */
static const float *vector(const work_t *w, int64_t outer, char *own) {
    const td_gemv_t *g = w->g;
    float *x = (float *)(void *)(own + g->x_at);
    char *tile = (char *)(x + g->reduced);
    uint32_t bytes = (uint32_t)td_type_bytes(g->x_type);
    const void *src = td_buf_address(g->x, w->bufs, w->scratch);
    for (int64_t at = 0; at < g->reduced; at += TD_PW_TILE) {
        size_t n = (size_t)(g->reduced - at < TD_PW_TILE ? g->reduced - at : TD_PW_TILE);
        td_convert_array(g->x_type, td_map_read(&g->x_map, src, bytes, outer * g->reduced + at, n, tile), TD_F32, x + at, n);
    }
    return x;
}

enum { BLOCK = 128 }; /* rows summed in f32 before they join the f64 sums */

static void columns(const work_t *w, const float *x, int64_t outer, int64_t first, size_t n, char *own) {
    const td_gemv_t *g = w->g;
    double *total = (double *)(void *)own;
    float *acc = (float *)(void *)(own + (uint64_t)WIDTH * 8);
    size_t size = td_type_bytes(g->w_type);
    const char *m = (const char *)td_buf_address(g->w, w->bufs, w->scratch) + (size_t)(outer * g->reduced * g->inner + first) * size;
    for (int64_t r = 0; r < g->reduced; r += BLOCK) {
        memset(acc, 0, n * sizeof *acc);
        for (int64_t k = r; k < r + BLOCK && k < g->reduced; k++) {
            const char *row = m + (size_t)(k * g->inner) * size;
            if (g->w_type == TD_F32) td_vec()->axpy(x[k], (const float *)(const void *)row, acc, n);
            else if (g->rounded) td_vec()->axpy_bf16_rounded(x[k], (const uint16_t *)(const void *)row, acc, n);
            else td_vec()->axpy_bf16(x[k], (const uint16_t *)(const void *)row, acc, n);
        }
        if (!r)
            for (size_t i = 0; i < n; i++) total[i] = (double)acc[i];
        else
            for (size_t i = 0; i < n; i++) total[i] += (double)acc[i];
    }
    double init = (double)*(const float *)td_buf_address(g->init, w->bufs, w->scratch);
    float *out = (float *)td_buf_address(g->out, w->bufs, w->scratch) + outer * g->inner + first;
    for (size_t i = 0; i < n; i++) out[i] = (float)(init + total[i]);
}

static void row(const work_t *w, const float *x, int64_t outer) {
    const td_gemv_t *g = w->g;
    const char *m = (const char *)td_buf_address(g->w, w->bufs, w->scratch) + (size_t)(outer * g->reduced) * td_type_bytes(g->w_type);
    double total = (double)*(const float *)td_buf_address(g->init, w->bufs, w->scratch);
    enum { RUN = 4096 };
    for (int64_t at = 0; at < g->reduced; at += RUN) {
        size_t n = (size_t)(g->reduced - at < RUN ? g->reduced - at : RUN);
        const uint16_t *half = (const uint16_t *)(const void *)m + at;
        total += (double)(g->w_type == TD_F32 ? td_vec()->dot(x + at, (const float *)(const void *)m + at, n)
                          : g->rounded        ? td_vec()->dot_bf16_rounded(x + at, half, n)
                                              : td_vec()->dot_bf16(x + at, half, n));
    }
    ((float *)td_buf_address(g->out, w->bufs, w->scratch))[outer] = (float)total;
}

static void units(void *ctx, int64_t first, int64_t last, int worker) {
    const work_t *w = ctx;
    const td_gemv_t *g = w->g;
    char *own = w->scratch + g->scratch_at + g->scratch / (uint64_t)td_host_threads() * (uint64_t)worker;
    const float *x = NULL;
    int64_t of = -1, parts = g->inner == 1 ? 1 : (g->inner + g->tile - 1) / g->tile;
    for (int64_t u = first; u < last; u++) {
        int64_t outer = u / parts, at = u % parts * g->tile;
        if (!x || (outer != of && !g->x_once)) x = vector(w, outer, own), of = outer;
        if (g->inner == 1) row(w, x, outer);
        else columns(w, x, outer, at, (size_t)(g->inner - at < g->tile ? g->inner - at : g->tile), own);
    }
}

void td_gemv_run(const td_gemv_t *g, void *const *bufs, void *scratch) {
    work_t w = {g, bufs, scratch};
    if (g->outer * g->reduced * g->inner >= 65536) td_pool_run(g->units, units, &w);
    else units(&w, 0, g->units, 0);
}
