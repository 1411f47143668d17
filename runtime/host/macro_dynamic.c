/* SPDX-License-Identifier: Apache-2.0 */
/* dynamic-slice and dynamic-update-slice: starts are clamped so that the window fits. */
#include <string.h>

#include "runtime/host/macro_ops.h"

typedef struct dynamic {
    td_strided_t window;
    uint32_t rank, first_index; /* operand number of the first index */
    bool vector;                /* one index operand of rank 1 */
    td_type_t *types;           /* of the index operands */
    int64_t *max, *stride;      /* last start; bytes */
    size_t whole;               /* update: bytes of operand 0 */
} dynamic_t;

static td_status_t index_operands(const td_hlo_instr_t *instr, uint32_t first, uint32_t rank, dynamic_t *d, td_err_t *err) {
    uint32_t n = instr->n_operands - first;
    d->vector = n == 1 && td_operand(instr, first)->rank == 1;
    d->first_index = first;
    TD_NEED(d->vector ? td_operand(instr, first)->dims[0] == rank : n == rank, "%u index operands for rank %u", n, rank);
    for (uint32_t i = 0; i < n; i++) {
        const td_shape_t *s = td_operand(instr, first + i);
        TD_NEED(td_is_index_type(s->type) && (d->vector || s->rank == 0), "index %u is not an integer", i);
        d->types[i] = s->type;
    }
    return TD_OK;
}

/* big is indexed into, small is the window's shape. */
static td_status_t make(const td_hlo_instr_t *instr, td_arena_t *arena, const td_shape_t *big, const td_shape_t *small,
                        uint32_t first, bool update, dynamic_t **out, td_err_t *err) {
    int64_t bs[TD_LIMIT_RANK], ss[TD_LIMIT_RANK];
    TD_NEED(td_type_is_array(big->type) && big->type == small->type && big->rank == small->rank, "operand and window differ");
    uint32_t rank = big->rank;
    dynamic_t *d = TD_NEW(arena, dynamic_t);
    if (!d) return td_arena_fail(arena, err);
    d->types = TD_NEW_N(arena, td_type_t, instr->n_operands);
    d->max = TD_NEW_N(arena, int64_t, rank);
    d->stride = TD_NEW_N(arena, int64_t, rank);
    if (!d->types || !d->max || !d->stride) return td_arena_fail(arena, err);
    td_status_t st = index_operands(instr, first, rank, d, err);
    if (st) return st;
    td_shape_strides(big, bs);
    td_shape_strides(small, ss);
    for (uint32_t i = 0; i < rank; i++) {
        TD_NEED(small->dims[i] <= big->dims[i], "dimension %u of the window is larger than the operand", i);
        d->max[i] = big->dims[i] - small->dims[i];
        d->stride[i] = small->count ? bs[i] * td_elem(big) : 0;
    }
    d->rank = rank;
    td_strided_plan(&d->window, td_elem(big), rank, small->dims, update ? bs : ss, update ? ss : bs);
    *out = d;
    return TD_OK;
}

static int64_t start_offset(const dynamic_t *d, const void *const *in) {
    int64_t off = 0;
    for (uint32_t i = 0; i < d->rank; i++) {
        int64_t x = d->vector ? td_index_at(d->types[0], in[d->first_index], i)
                              : td_index_at(d->types[i], in[d->first_index + i], 0);
        off += td_clamp_index(x, d->max[i]) * d->stride[i];
    }
    return off;
}

td_status_t td_dynamic_slice_prepare(const td_hlo_instr_t *instr, td_arena_t *arena, void **out_state,
                                     uint64_t *out_scratch, td_err_t *err) {
    dynamic_t *d = NULL;
    TD_NEED(instr->n_operands >= 1, "%u operands", instr->n_operands);
    td_status_t st = make(instr, arena, td_operand(instr, 0), instr->shape, 1, false, &d, err);
    if (st) return st;
    *out_state = d;
    *out_scratch = 0;
    return TD_OK;
}

void td_dynamic_slice_run(const void *state, const void *const *in, void *const *out, void *scratch) {
    const dynamic_t *d = state;
    (void)scratch;
    td_strided_copy(&d->window, out[0], (const char *)in[0] + start_offset(d, in));
}

td_status_t td_dynamic_update_prepare(const td_hlo_instr_t *instr, td_arena_t *arena, void **out_state,
                                      uint64_t *out_scratch, td_err_t *err) {
    dynamic_t *d = NULL;
    TD_NEED(instr->n_operands >= 2, "%u operands", instr->n_operands);
    TD_NEED(td_shape_same_dims(td_operand(instr, 0), instr->shape), "operand and result differ");
    td_status_t st = make(instr, arena, instr->shape, td_operand(instr, 1), 2, true, &d, err);
    if (st) return st;
    TD_NEED(!memcmp(instr->shape->minor_to_major, td_operand(instr, 0)->minor_to_major,
                    instr->shape->rank * sizeof(int32_t)), "operand and result differ in layout");
    d->whole = (size_t)instr->shape->count * td_elem(instr->shape);
    *out_state = d;
    *out_scratch = 0;
    return TD_OK;
}

void td_dynamic_update_run(const void *state, const void *const *in, void *const *out, void *scratch) {
    const dynamic_t *d = state;
    (void)scratch;
    if (out[0] != in[0]) memcpy(out[0], in[0], d->whole);
    td_strided_copy(&d->window, (char *)out[0] + start_offset(d, in), in[1]);
}
