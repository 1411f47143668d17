/* SPDX-License-Identifier: Apache-2.0 */
/* The opcode topk and the custom call __gpu$TopK: k from the result's shape, along the last dimension, any layout.
 * A third result is a workspace and left alone. */
#include "runtime/host/macro_ops.h"
#include "runtime/host/topk.h"
#include "runtime/topk_desc.h"

typedef struct topk {
    td_topk_desc_t d;
    td_dims_t x, values, positions; /* where rows start */
    int64_t x_step, value_step, position_step;
} topk_t;

/* All but the last dimension, and the last one's stride. */
static int64_t rows(const td_shape_t *s, td_dims_t *out) {
    int64_t strides[TD_LIMIT_RANK];
    td_shape_strides(s, strides);
    for (uint32_t i = 0; i + 1 < s->rank; i++) td_dims_add(out, s->dims[i], strides[i]);
    return strides[s->rank - 1];
}

td_status_t td_topk_prepare(const td_hlo_instr_t *instr, td_arena_t *arena, void **out_state, uint64_t *out_scratch,
                            td_err_t *err) {
    uint32_t results = instr->shape->type == TD_TUPLE ? instr->shape->rank : 0;
    TD_NEED(instr->n_operands == 1 && results >= 2 && results <= 3, "%u operands, %u results", instr->n_operands,
            results);
    const td_shape_t *x = td_operand(instr, 0), *v = td_result(instr, 0), *p = td_result(instr, 1);
    TD_NEED(td_type_is_array(x->type) && x->rank && v->type == x->type && v->rank == x->rank && p->rank == x->rank,
            "operand and results differ");
    TD_NEED_AS(TD_UNSUPPORTED, p->type == TD_S32, "positions of type %s", td_type_name(p->type));
    uint32_t last = x->rank - 1;
    for (uint32_t i = 0; i <= last; i++)
        TD_NEED(v->dims[i] == p->dims[i] && (i == last || v->dims[i] == x->dims[i]), "dimension %u of the results", i);
    topk_t *t = TD_NEW(arena, topk_t);
    if (!t) return td_arena_fail(arena, err);
    t->d = (td_topk_desc_t){.type = x->type, .n = x->dims[last], .k = v->dims[last]};
    td_status_t s = td_topk_order(instr, &t->d, err);
    if (s) return s;
    t->x_step = rows(x, &t->x);
    t->value_step = rows(v, &t->values);
    t->position_step = rows(p, &t->positions);
    t->d.batch = v->count ? td_dims_count(&t->x) : 0;
    if ((s = td_topk_check(&t->d, out_scratch, err))) return td_prefix(err, s, "%s", instr->name);
    *out_state = t;
    return TD_OK;
}

void td_topk_run(const void *state, const void *const *in, void *const *out, void *scratch) {
    const topk_t *t = state;
    int64_t bytes = td_type_bytes(t->d.type), x = 0, v = 0, p = 0;
    for (int64_t i = 0; i < t->d.batch; i++) {
        td_dims_offsets(&t->x, i, 1, &x);
        td_dims_offsets(&t->values, i, 1, &v);
        td_dims_offsets(&t->positions, i, 1, &p);
        td_topk_row(&t->d, (const char *)in[0] + x * bytes, t->x_step, (char *)out[0] + v * bytes, t->value_step,
                    (int32_t *)out[1] + p, t->position_step, scratch);
    }
}
