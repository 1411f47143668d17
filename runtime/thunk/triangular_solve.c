/* SPDX-License-Identifier: Apache-2.0 */
/* triangular_solve: cuBLAS trsm. B's shape gives type and sizes; all matrices are column-major whatever the
 * recorded layouts say, and A's recorded shape is that of whatever produced the buffer, so only its size counts.
 * Source: xla/backends/gpu/runtime/triangular_solve_thunk.cc and thunk.proto. */
#include "base/checked.h"
#include "executable.pb-c.h"
#include "runtime/thunk/thunk.h"

/* Sizes from B, with A's side checked against its slice. */
static td_status_t describe(td_parse_t *c, const td_kernel_arg_t *a, const td_kernel_arg_t *b,
                            td_triangular_desc_t *d) {
    const td_shape_t *s = b->shape;
    if (!s || !td_type_is_array(s->type) || s->rank < 2)
        return td_fail(c->err, TD_MALFORMED, "b: no shape of rank 2 or more");
    if (s->type != TD_F32 && s->type != TD_F64 && s->type != TD_C64 && s->type != TD_C128)
        return td_fail(c->err, TD_UNSUPPORTED, "b: element type %s", td_type_name(s->type));
    if (s->bytes != b->size)
        return td_fail(c->err, TD_MISMATCH, "b: shape of %llu bytes in a slice of %llu", (unsigned long long)s->bytes,
                       (unsigned long long)b->size);
    uint64_t batch = 1, bytes = 0;
    for (uint32_t i = 0; i + 2 < s->rank; i++)
        if (!td_mul_u64(batch, (uint64_t)s->dims[i], &batch)) return td_fail(c->err, TD_LIMIT, "b: too many matrices");
    d->type = s->type;
    d->m = s->dims[s->rank - 2];
    d->n = s->dims[s->rank - 1];
    d->batch = (int64_t)batch;
    uint64_t side = (uint64_t)(d->left ? d->m : d->n);
    if (!td_mul_u64(side, side, &bytes) || !td_mul_u64(bytes, batch, &bytes) ||
        !td_mul_u64(bytes, td_type_bytes(d->type), &bytes) || batch > INT64_MAX || bytes != a->size)
        return td_fail(c->err, TD_MISMATCH, "a: slice of %llu bytes is not %llu matrices of %llux%llu %s",
                       (unsigned long long)a->size, (unsigned long long)batch, (unsigned long long)side,
                       (unsigned long long)side, td_type_name(d->type));
    return TD_OK;
}

td_status_t td_triangular_solve_parse(td_parse_t *c, const td_thunk_msg_t *msg, td_thunk_t *t) {
    const Xla__Gpu__TriangularSolveThunkProto *p = msg->triangular_solve_thunk;
    const Xla__TriangularSolveOptions *o = p->options;
    td_kernel_arg_t temp;
    td_triangular_desc_t *d = TD_NEW(c->arena, td_triangular_desc_t);
    if (!d) return td_arena_fail(c->arena, c->err);
    td_status_t s = td_thunk_args(c, t, 2);
    if (s || (s = td_thunk_shaped(c, "a", p->a_buffer, false, &t->args[0])) ||
        (s = td_thunk_shaped(c, "b", p->b_buffer, true, &t->args[1])) ||
        (p->temp_buffer && (s = td_thunk_shaped(c, "temp", p->temp_buffer, false, &temp)))) /* not used here */
        return s;
    int transpose = o ? (int)o->transpose_a : 0;
    if (transpose < 0 || transpose > TD_TRANSPOSE_ADJOINT)
        return td_fail(c->err, TD_UNSUPPORTED, "transpose_a %d", transpose);
    d->transpose = transpose ? (td_transpose_t)transpose : TD_TRANSPOSE_NONE; /* invalid counts as none */
    d->left = o && o->left_side;
    d->lower = o && o->lower;
    d->unit_diagonal = o && o->unit_diagonal;
    if ((s = describe(c, &t->args[0], &t->args[1], d))) return s;
    t->extra = d;
    t->extra_bytes = sizeof *d;
    return TD_OK;
}

td_status_t td_triangular_solve_lower(td_device_t *dev, const td_hlo_module_t *hlo, const td_thunk_t *from,
                                      td_thunk_t *t, td_arena_t *arena, uint64_t *out_scratch, td_err_t *err) {
    (void)hlo;
    return dev->ops->library_lower(dev, TD_OP_TRIANGULAR_SOLVE, from->extra, arena, &t->kernel, out_scratch, err);
}
td_status_t td_triangular_solve_enqueue(td_run_t *r, const td_thunk_t *t) { return td_thunk_launch(r, t); }
