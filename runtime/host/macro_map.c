/* SPDX-License-Identifier: Apache-2.0 */
/* map: a scalar computation over the elements of any number of arrays. */
#include "runtime/host/macro_ops.h"

typedef struct array {
    uint32_t size;
    bool linear; /* lies as the result does */
    td_dims_t dims;
    uint64_t tile_at;
} array_t;
typedef struct map {
    td_pw_t *pw;
    array_t *in, out;
    uint32_t n;
    int64_t count;
    uint64_t off_at, pw_at;
} map_t;

static bool same_order(const td_shape_t *a, const td_shape_t *b) {
    for (uint32_t i = 0; i < a->rank; i++)
        if (a->minor_to_major[i] != b->minor_to_major[i]) return false;
    return true;
}

/* Elements in the order in which the result lies. */
static bool array(const td_shape_t *s, const td_shape_t *o, array_t *a, uint64_t *total) {
    int64_t strides[TD_LIMIT_RANK];
    a->size = td_elem(s);
    a->linear = same_order(s, o);
    a->dims.rank = 0;
    td_shape_strides(s, strides);
    for (uint32_t i = o->rank; i-- > 0;)
        td_dims_add(&a->dims, s->dims[o->minor_to_major[i]], strides[o->minor_to_major[i]]);
    return a->linear || td_reserve(total, TD_PW_TILE, a->size, &a->tile_at);
}

td_status_t td_map_prepare(const td_hlo_instr_t *instr, td_arena_t *arena, void **out_state, uint64_t *out_scratch,
                           td_err_t *err) {
    uint32_t n = instr->n_operands;
    const td_shape_t *o = instr->shape;
    TD_NEED(n && instr->n_called == 1 && instr->called[0]->n_params == n, "%u operands", n);
    TD_NEED_AS(TD_UNSUPPORTED, n <= TD_MACRO_ARRAYS, "%u arrays at once", n);
    const td_hlo_comp_t *f = instr->called[0];
    TD_NEED(td_type_is_array(o->type) && f->root->shape->type == o->type && f->root->shape->rank == 0, "result of %s",
            f->name);
    map_t *m = TD_NEW(arena, map_t);
    if (!m || !(m->in = TD_NEW_N(arena, array_t, n))) return td_arena_fail(arena, err);
    *out_scratch = 0;
    bool ok = array(o, o, &m->out, out_scratch);
    for (uint32_t i = 0; i < n; i++) {
        const td_shape_t *s = td_operand(instr, i), *p = f->params[i]->shape;
        TD_NEED(td_type_is_array(s->type) && s->rank == o->rank, "rank of operand %u", i);
        for (uint32_t d = 0; d < s->rank; d++) TD_NEED(s->dims[d] == o->dims[d], "dimension %u of operand %u", d, i);
        TD_NEED(p->type == s->type && p->rank == 0, "parameter %u of %s", i, f->name);
        ok = ok && array(s, o, &m->in[i], out_scratch);
    }
    td_status_t st = td_pw_compile_scalar(f, arena, &m->pw, err);
    if (st) return td_prefix(err, st, "%s", instr->name);
    m->n = n;
    m->count = o->count;
    ok = ok && td_reserve(out_scratch, TD_PW_TILE, 8, &m->off_at) &&
         td_reserve(out_scratch, td_pw_scratch(m->pw), 1, &m->pw_at);
    TD_NEED_AS(TD_LIMIT, ok, "scratch overflows");
    *out_state = m;
    return TD_OK;
}

void td_map_run(const void *state, const void *const *in, void *const *out, void *scratch) {
    const map_t *m = state;
    char *s = scratch;
    int64_t *off = (int64_t *)(void *)(s + m->off_at);
    for (int64_t first = 0; first < m->count; first += TD_PW_TILE) {
        size_t n = m->count - first < TD_PW_TILE ? (size_t)(m->count - first) : TD_PW_TILE;
        const void *x[TD_MACRO_ARRAYS];
        for (uint32_t i = 0; i < m->n; i++) {
            const array_t *a = &m->in[i];
            x[i] = (const char *)in[i] + first * a->size;
            if (a->linear) continue;
            td_dims_offsets(&a->dims, first, n, off);
            td_take(a->size, in[i], off, n, s + a->tile_at);
            x[i] = s + a->tile_at;
        }
        td_pw_run(m->pw, x, (void *[]){(char *)out[0] + first * m->out.size}, n, s + m->pw_at);
    }
}
