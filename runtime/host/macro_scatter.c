/* SPDX-License-Identifier: Apache-2.0 */
/* scatter: updates windows of the operands with any combiner; windows that do not fit are dropped whole. */
#include <string.h>

#include "runtime/host/macro_ops.h"

typedef struct target {
    uint32_t size;
    size_t whole;                        /* bytes of the operand */
    td_dims_t batch_update, batch_place; /* per index vector: start in the updates; batching offset in the operand */
    td_dims_t update, place;             /* the window in both */
    int64_t stride[TD_LIMIT_RANK];       /* of the operand, per index component */
    td_strided_t assign;
    uint64_t acc_at, x_at;
} target_t;

typedef struct scatter {
    td_combiner_t f;
    bool assign; /* one operand, and the combiner returns the update */
    uint32_t n, comps;
    target_t *targets;
    td_dims_t index;
    td_type_t type;
    int64_t count, window, comp_stride, max[TD_LIMIT_RANK]; /* max: last start that fits, per component; may be negative */
    bool fits;                                             /* false: the window is larger where nothing is indexed */
    uint64_t place_at, update_at, pw_at;
} scatter_t;

static td_status_t check(const td_hlo_instr_t *instr, uint32_t n, td_err_t *err) {
    const td_scatter_dims_t *g = instr->scatter;
    TD_NEED(g && instr->n_operands == 2 * n + 1 && n && instr->n_called == 1, "%u operands", instr->n_operands);
    TD_NEED_AS(TD_UNSUPPORTED, n <= TD_MACRO_ARRAYS, "%u arrays at once", n);
    TD_NEED(instr->shape->type == TD_TUPLE ? instr->shape->rank == n : n == 1, "result does not have %u arrays", n);
    const td_shape_t *a = td_operand(instr, 0), *ix = td_operand(instr, n), *u = td_operand(instr, n + 1);
    TD_NEED(td_is_index_type(ix->type), "indices are not integers");
    td_status_t st = td_check_dims(instr, g->update_window_dims, u->rank, err);
    if (!st) st = td_check_dims(instr, g->inserted_window_dims, a->rank, err);
    if (!st) st = td_check_dims(instr, g->input_batching_dims, a->rank, err);
    if (!st) st = td_check_dims(instr, g->scatter_dims_to_operand_dims, a->rank, err);
    if (!st) st = td_check_dims(instr, g->scatter_indices_batching_dims, ix->rank, err);
    if (st) return st;
    int64_t ivd = g->index_vector_dim;
    TD_NEED(ivd >= 0 && ivd <= ix->rank, "index_vector_dim %lld", (long long)ivd);
    TD_NEED((ivd == ix->rank ? 1 : ix->dims[ivd]) == g->scatter_dims_to_operand_dims.n, "number of index components");
    TD_NEED(g->scatter_indices_batching_dims.n == g->input_batching_dims.n, "number of batching dimensions");
    TD_NEED(u->rank == g->update_window_dims.n + ix->rank - (ivd < ix->rank), "rank of the updates");
    for (uint32_t k = 0; k < n; k++) {
        const td_shape_t *ak = td_operand(instr, k), *uk = td_operand(instr, n + 1 + k), *o = td_result(instr, k);
        TD_NEED(td_type_is_array(ak->type) && ak->type == uk->type && td_shape_same_dims(ak, o), "types of operand %u", k);
        TD_NEED(ak->rank == a->rank && uk->rank == u->rank, "ranks of operand %u", k);
        for (uint32_t i = 0; i < a->rank; i++)
            TD_NEED(ak->dims[i] == a->dims[i] && ak->minor_to_major[i] == o->minor_to_major[i], "dimension %u of operand %u", i, k);
        for (uint32_t i = 0; i < u->rank; i++) TD_NEED(uk->dims[i] == u->dims[i], "dimension %u of update %u", i, k);
    }
    return TD_OK;
}

/* Window dimensions of target k; sizes[d] = the window's size along operand dimension d. */
static td_status_t window(const td_hlo_instr_t *instr, uint32_t k, target_t *t, int64_t *sizes, td_err_t *err) {
    const td_scatter_dims_t *g = instr->scatter;
    uint32_t n = instr->n_operands / 2, w = 0, at;
    const td_shape_t *a = td_operand(instr, k), *u = td_operand(instr, n + 1 + k);
    int64_t as[TD_LIMIT_RANK], us[TD_LIMIT_RANK];
    td_shape_strides(a, as);
    td_shape_strides(u, us);
    for (uint32_t i = 0; i < a->rank; i++) {
        bool batch = td_ints_find(g->input_batching_dims, i, &at);
        sizes[i] = 1;
        TD_NEED(!batch || (!td_ints_find(g->scatter_dims_to_operand_dims, i, &at) && !td_ints_find(g->inserted_window_dims, i, &at)), "dimension %u twice", i);
        if (batch || td_ints_find(g->inserted_window_dims, i, &at)) continue;
        TD_NEED(w < g->update_window_dims.n, "%u window dimensions", g->update_window_dims.n);
        int64_t d = g->update_window_dims.v[w++];
        sizes[i] = u->dims[d];
        td_dims_add(&t->update, sizes[i], us[d]);
        td_dims_add(&t->place, sizes[i], as[i]);
    }
    TD_NEED(w == g->update_window_dims.n, "%u window dimensions", g->update_window_dims.n);
    for (uint32_t i = 0; i < g->scatter_dims_to_operand_dims.n; i++) t->stride[i] = as[g->scatter_dims_to_operand_dims.v[i]];
    t->size = td_elem(a);
    t->whole = (size_t)a->count * t->size;
    td_strided_plan(&t->assign, t->size, t->place.rank, t->place.n, t->place.stride, t->update.stride);
    return TD_OK;
}

static td_status_t batches(const td_hlo_instr_t *instr, uint32_t k, target_t *t, scatter_t *s, td_err_t *err) {
    const td_scatter_dims_t *g = instr->scatter;
    uint32_t n = instr->n_operands / 2, d = 0, at = 0;
    const td_shape_t *a = td_operand(instr, k), *ix = td_operand(instr, n), *u = td_operand(instr, n + 1 + k);
    int64_t as[TD_LIMIT_RANK], us[TD_LIMIT_RANK], is[TD_LIMIT_RANK];
    td_shape_strides(a, as);
    td_shape_strides(u, us);
    td_shape_strides(ix, is);
    for (uint32_t i = 0; i < ix->rank; i++) {
        bool batch = td_ints_find(g->scatter_indices_batching_dims, i, &at);
        TD_NEED(!batch || i != g->index_vector_dim, "index_vector_dim is batching");
        if (i == g->index_vector_dim) continue;
        int64_t step = 0;
        if (batch) {
            TD_NEED(a->dims[g->input_batching_dims.v[at]] == ix->dims[i], "batching dimension %u", i);
            step = as[g->input_batching_dims.v[at]];
        }
        while (d < u->rank && td_ints_find(g->update_window_dims, d, &at)) d++;
        TD_NEED(d < u->rank && u->dims[d] == ix->dims[i], "dimension %u of the updates", d);
        if (!k) td_dims_add(&s->index, ix->dims[i], is[i]);
        td_dims_add(&t->batch_update, ix->dims[i], us[d++]);
        td_dims_add(&t->batch_place, ix->dims[i], step);
    }
    s->comp_stride = g->index_vector_dim < ix->rank ? is[g->index_vector_dim] : 0;
    return TD_OK;
}

static void limits(const td_hlo_instr_t *instr, const int64_t *sizes, scatter_t *s) {
    const td_shape_t *a = td_operand(instr, 0);
    const td_ints_t m = instr->scatter->scatter_dims_to_operand_dims;
    s->comps = m.n;
    s->fits = true;
    for (uint32_t i = 0; i < a->rank; i++)
        if (sizes[i] > a->dims[i]) s->fits = false;
    for (uint32_t i = 0; i < m.n; i++) s->max[i] = a->dims[m.v[i]] - sizes[m.v[i]];
}

td_status_t td_scatter_prepare(const td_hlo_instr_t *instr, td_arena_t *arena, void **out_state, uint64_t *out_scratch,
                               td_err_t *err) {
    uint32_t n = instr->n_operands / 2;
    int64_t sizes[TD_LIMIT_RANK];
    td_type_t types[TD_MACRO_ARRAYS];
    td_status_t st = check(instr, n, err);
    if (st) return st;
    scatter_t *s = TD_NEW(arena, scatter_t);
    if (!s || !(s->targets = TD_NEW_N(arena, target_t, n))) return td_arena_fail(arena, err);
    *out_scratch = 0;
    bool ok = td_reserve(out_scratch, TD_PW_TILE, 8, &s->place_at) && td_reserve(out_scratch, TD_PW_TILE, 8, &s->update_at);
    for (uint32_t k = 0; k < n; k++) {
        target_t *t = &s->targets[k];
        types[k] = td_operand(instr, k)->type;
        if ((st = window(instr, k, t, sizes, err)) || (st = batches(instr, k, t, s, err))) return st;
        ok = ok && td_reserve(out_scratch, TD_PW_TILE, t->size, &t->acc_at) && td_reserve(out_scratch, TD_PW_TILE, t->size, &t->x_at);
    }
    if ((st = td_combiner_make(&s->f, instr->called[0], n, types, false, arena, err))) return td_prefix(err, st, "%s", instr->name);
    TD_NEED_AS(TD_LIMIT, ok && td_reserve(out_scratch, s->f.scratch, 1, &s->pw_at), "scratch overflows");
    const td_hlo_instr_t *root = instr->called[0]->root;
    s->assign = n == 1 && root->opcode == TD_HLO_PARAMETER && root->parameter_number == 1;
    s->n = n;
    s->type = td_operand(instr, n)->type;
    limits(instr, sizes, s);
    s->window = td_dims_count(&s->targets[0].update);
    s->count = s->window && s->fits ? td_dims_count(&s->index) : 0;
    *out_state = s;
    return TD_OK;
}

static void update(const scatter_t *s, const int64_t *place, const int64_t *from, const void *const *in, void *const *out, char *m) {
    int64_t *po = (int64_t *)(void *)(m + s->place_at), *uo = (int64_t *)(void *)(m + s->update_at);
    void *acc[TD_MACRO_ARRAYS];
    const void *x[TD_MACRO_ARRAYS];
    for (int64_t first = 0; first < s->window; first += TD_PW_TILE) {
        size_t n = s->window - first < TD_PW_TILE ? (size_t)(s->window - first) : TD_PW_TILE;
        for (uint32_t k = 0; k < s->n; k++) {
            const target_t *t = &s->targets[k];
            td_dims_offsets(&t->place, first, n, po);
            td_dims_offsets(&t->update, first, n, uo);
            td_take(t->size, (const char *)out[k] + place[k] * t->size, po, n, m + t->acc_at);
            td_take(t->size, (const char *)in[s->n + 1 + k] + from[k] * t->size, uo, n, m + t->x_at);
            acc[k] = m + t->acc_at;
            x[k] = m + t->x_at;
        }
        td_combine(&s->f, acc, x, acc, n, m + s->pw_at);
        for (uint32_t k = 0; k < s->n; k++) {
            const target_t *t = &s->targets[k];
            td_dims_offsets(&t->place, first, n, po);
            td_put(t->size, acc[k], po, n, (char *)out[k] + place[k] * t->size);
        }
    }
}

void td_scatter_run(const void *state, const void *const *in, void *const *out, void *scratch) {
    const scatter_t *s = state;
    int64_t place[TD_MACRO_ARRAYS], from[TD_MACRO_ARRAYS], at, start[TD_LIMIT_RANK];
    for (uint32_t k = 0; k < s->n; k++)
        if (out[k] != in[k]) memcpy(out[k], in[k], s->targets[k].whole);
    for (int64_t i = 0; i < s->count; i++) {
        bool fits = true;
        td_dims_offsets(&s->index, i, 1, &at);
        for (uint32_t c = 0; c < s->comps; c++) {
            start[c] = td_index_at(s->type, in[s->n], at + c * s->comp_stride);
            if (start[c] < 0 || start[c] > s->max[c]) fits = false;
        }
        if (!fits) continue;
        for (uint32_t k = 0; k < s->n; k++) {
            const target_t *t = &s->targets[k];
            td_dims_offsets(&t->batch_place, i, 1, &place[k]);
            td_dims_offsets(&t->batch_update, i, 1, &from[k]);
            for (uint32_t c = 0; c < s->comps; c++) place[k] += start[c] * t->stride[c];
        }
        if (s->assign) td_strided_copy(&s->targets[0].assign, (char *)out[0] + place[0] * s->targets[0].size, (const char *)in[2] + from[0] * s->targets[0].size);
        else update(s, place, from, in, out, scratch);
    }
}
