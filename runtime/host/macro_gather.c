/* SPDX-License-Identifier: Apache-2.0 */
/* gather: one clamped window of the operand per index vector. */
#include <string.h>

#include "runtime/host/macro_ops.h"
#include "runtime/host/pool.h"
#include "runtime/host/vec.h"

enum { TILE = 256 };

typedef struct gather {
    td_strided_t window;
    td_dims_t index;    /* batch positions in the indices, */
    td_dims_t result;   /* in the result, */
    td_dims_t operand;  /* and in the operand (batching dimensions) */
    int64_t count, elements; /* index vectors; of the result */
    uint32_t comps, size;
    td_type_t type;
    bool flat;          /* single elements, one after the other: index vectors by one stride */
    int64_t index_stride;
    int64_t comp_stride, max[TD_LIMIT_RANK], stride[TD_LIMIT_RANK]; /* per index component */
} gather_t;

static td_status_t check(const td_hlo_instr_t *instr, td_err_t *err) {
    const td_gather_dims_t *g = instr->gather;
    TD_NEED(g && instr->n_operands == 2, "no dimension numbers, or %u operands", instr->n_operands);
    const td_shape_t *a = td_operand(instr, 0), *ix = td_operand(instr, 1), *o = instr->shape;
    TD_NEED(td_type_is_array(o->type) && a->type == o->type && td_is_index_type(ix->type), "element types");
    td_status_t st = td_check_dims(instr, g->offset_dims, o->rank, err);
    if (!st) st = td_check_dims(instr, g->collapsed_slice_dims, a->rank, err);
    if (!st) st = td_check_dims(instr, g->operand_batching_dims, a->rank, err);
    if (!st) st = td_check_dims(instr, g->start_index_map, a->rank, err);
    if (!st) st = td_check_dims(instr, g->start_indices_batching_dims, ix->rank, err);
    if (st) return st;
    int64_t ivd = g->index_vector_dim;
    TD_NEED(ivd >= 0 && ivd <= ix->rank, "index_vector_dim %lld", (long long)ivd);
    TD_NEED((ivd == ix->rank ? 1 : ix->dims[ivd]) == g->start_index_map.n, "number of index components");
    TD_NEED(instr->gather_slice_sizes.n == a->rank, "number of slice sizes");
    TD_NEED(g->start_indices_batching_dims.n == g->operand_batching_dims.n, "number of batching dimensions");
    TD_NEED(o->rank == g->offset_dims.n + ix->rank - (ivd < ix->rank), "result rank %u", o->rank);
    for (uint32_t i = 0; i < a->rank; i++) {
        int64_t n = instr->gather_slice_sizes.v[i];
        TD_NEED(n >= 0 && n <= a->dims[i], "slice size %u", i);
    }
    return TD_OK;
}

/* The window: operand dimensions neither collapsed nor batching, in order, are the offset dimensions in order. */
static td_status_t window(const td_hlo_instr_t *instr, const int64_t *as, const int64_t *os, gather_t *x, td_err_t *err) {
    const td_gather_dims_t *g = instr->gather;
    const td_shape_t *a = td_operand(instr, 0), *o = instr->shape;
    int64_t dims[TD_LIMIT_RANK], dst[TD_LIMIT_RANK], src[TD_LIMIT_RANK];
    uint32_t n = 0, at;
    for (uint32_t i = 0; i < a->rank; i++) {
        int64_t size = instr->gather_slice_sizes.v[i];
        bool batch = td_ints_find(g->operand_batching_dims, i, &at);
        if (td_ints_find(g->collapsed_slice_dims, i, &at) || batch) {
            TD_NEED(size <= 1, "slice size %u is not 1", i);
            TD_NEED(size == 1 || !o->count, "slice size %u is 0", i);
            TD_NEED(!batch || !td_ints_find(g->start_index_map, i, &at), "dimension %u is batching and indexed", i);
            continue;
        }
        TD_NEED(n < g->offset_dims.n && o->dims[g->offset_dims.v[n]] == size, "offset dimension %u", n);
        dims[n] = size;
        dst[n] = os[g->offset_dims.v[n]];
        src[n++] = as[i];
    }
    TD_NEED(n == g->offset_dims.n, "%u offset dimensions", g->offset_dims.n);
    td_strided_plan(&x->window, td_elem(o), n, dims, dst, src);
    return TD_OK;
}

static td_status_t batches(const td_hlo_instr_t *instr, const int64_t *as, const int64_t *os, gather_t *x, td_err_t *err) {
    const td_gather_dims_t *g = instr->gather;
    const td_shape_t *a = td_operand(instr, 0), *ix = td_operand(instr, 1), *o = instr->shape;
    int64_t is[TD_LIMIT_RANK];
    uint32_t out = 0, at = 0;
    td_shape_strides(ix, is);
    for (uint32_t i = 0; i < ix->rank; i++) {
        if (i == g->index_vector_dim) continue;
        while (out < o->rank && td_ints_find(g->offset_dims, out, &at)) out++;
        TD_NEED(out < o->rank && o->dims[out] == ix->dims[i], "result dimension %u", out);
        int64_t step = 0;
        if (td_ints_find(g->start_indices_batching_dims, i, &at)) {
            int64_t d = g->operand_batching_dims.v[at];
            TD_NEED(a->dims[d] == ix->dims[i], "batching dimension %u", i);
            step = as[d];
        }
        td_dims_add(&x->index, ix->dims[i], is[i]);
        td_dims_add(&x->result, ix->dims[i], os[out++]);
        td_dims_add(&x->operand, ix->dims[i], step);
    }
    for (uint32_t i = 0; i < g->start_indices_batching_dims.n; i++)
        TD_NEED(g->start_indices_batching_dims.v[i] != g->index_vector_dim, "index_vector_dim is batching");
    x->count = td_dims_count(&x->index);
    x->comp_stride = g->index_vector_dim < ix->rank ? is[g->index_vector_dim] : 0;
    return TD_OK;
}

/* Elements [first, last) of a flat result. */
static void flat_run(const gather_t *x, const char *operand, const int32_t *indices, int64_t first, int64_t last, char *out) {
    int32_t at[TILE];
    for (int64_t t = first; t < last; t += TILE) {
        size_t n = last - t < TILE ? (size_t)(last - t) : TILE;
        memset(at, 0, sizeof at);
        for (uint32_t k = 0; k < x->comps; k++)
            td_vec()->add_index(indices + t * x->index_stride + k * x->comp_stride, x->index_stride, (int32_t)x->max[k], (int32_t)x->stride[k], at, n);
        if (x->size == 4) {
            td_vec()->take4((const uint32_t *)(const void *)operand, at, n, (uint32_t *)(void *)out + t);
            continue;
        }
        int64_t wide[TILE];
        for (size_t i = 0; i < n; i++) wide[i] = at[i];
        td_take(x->size, operand, wide, n, out + t * x->size);
    }
}

static void find_flat(gather_t *x, int64_t operand_count) {
    int64_t result, operand;
    x->flat = operand_count <= INT32_MAX && !x->window.rank && !x->window.empty && x->type == TD_S32 && td_dims_join(&x->index, 0, &x->index_stride) &&
              td_dims_join(&x->result, 0, &result) && (result == 1 || x->count == 1) && td_dims_join(&x->operand, 0, &operand) && !operand;
}

td_status_t td_gather_prepare(const td_hlo_instr_t *instr, td_arena_t *arena, void **out_state, uint64_t *out_scratch,
                              td_err_t *err) {
    td_status_t st = check(instr, err);
    if (st) return st;
    const td_shape_t *a = td_operand(instr, 0);
    int64_t as[TD_LIMIT_RANK], os[TD_LIMIT_RANK];
    gather_t *x = TD_NEW(arena, gather_t);
    if (!x) return td_arena_fail(arena, err);
    td_shape_strides(a, as);
    td_shape_strides(instr->shape, os);
    if ((st = window(instr, as, os, x, err)) || (st = batches(instr, as, os, x, err))) return st;
    x->comps = instr->gather->start_index_map.n;
    for (uint32_t i = 0; i < x->comps; i++) {
        int64_t d = instr->gather->start_index_map.v[i];
        x->max[i] = a->dims[d] - instr->gather_slice_sizes.v[d];
        x->stride[i] = as[d];
    }
    x->type = td_operand(instr, 1)->type;
    x->size = td_elem(a);
    x->elements = instr->shape->count;
    if (!instr->shape->count) x->count = 0;
    find_flat(x, a->count);
    *out_state = x;
    *out_scratch = 0;
    return TD_OK;
}

/* at[i] += the clamped component k of index vector i, in elements of the operand. */
static void add_component(const gather_t *x, uint32_t k, const void *indices, const int64_t *index, size_t n, int64_t *at) {
    int64_t from = k * x->comp_stride, max = x->max[k], stride = x->stride[k];
    if (x->type == TD_S32) {
        const int32_t *p = (const int32_t *)indices + from;
        for (size_t i = 0; i < n; i++) at[i] += td_clamp_index(p[index[i]], max) * stride;
        return;
    }
    for (size_t i = 0; i < n; i++) at[i] += td_clamp_index(td_index_at(x->type, indices, index[i] + from), max) * stride;
}

typedef struct work {
    const gather_t *x;
    const char *operand;
    const void *indices;
    char *out;
} work_t;

static void tiles(void *ctx, int64_t first_tile, int64_t last_tile, int worker) {
    const work_t *w = ctx;
    const gather_t *x = w->x;
    int64_t index[TILE], result[TILE], at[TILE];
    (void)worker;
    if (x->flat) {
        flat_run(x, w->operand, w->indices, first_tile * TILE, last_tile * TILE < x->count ? last_tile * TILE : x->count, w->out);
        return;
    }
    for (int64_t t = first_tile; t < last_tile; t++) {
        int64_t first = t * TILE;
        size_t n = x->count - first < TILE ? (size_t)(x->count - first) : TILE;
        td_dims_offsets(&x->index, first, n, index);
        td_dims_offsets(&x->result, first, n, result);
        td_dims_offsets(&x->operand, first, n, at);
        for (uint32_t k = 0; k < x->comps; k++) add_component(x, k, w->indices, index, n, at);
        if (!x->window.rank && !x->window.empty) { /* single elements */
            uint64_t taken[2 * TILE];
            td_take(x->size, w->operand, at, n, taken);
            td_put(x->size, taken, result, n, w->out);
            continue;
        }
        for (size_t i = 0; i < n; i++) td_strided_copy(&x->window, w->out + result[i] * x->size, w->operand + at[i] * x->size);
    }
}

void td_gather_run(const void *state, const void *const *in, void *const *out, void *scratch) {
    const gather_t *x = state;
    work_t w = {x, in[0], in[1], out[0]};
    int64_t n = (x->count + TILE - 1) / TILE;
    (void)scratch;
    if (x->elements >= 16384) td_pool_run(n, tiles, &w);
    else tiles(&w, 0, n, 0);
}
