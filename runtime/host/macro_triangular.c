/* SPDX-License-Identifier: Apache-2.0 */
/* The opcode triangular-solve: A and B in any layout, f16 and smaller floats solved in f32. */
#include "runtime/host/macro_matrix.h"
#include "runtime/host/triangular.h"

typedef struct solve {
    td_triangular_desc_t d;
    td_matrices_t a, b, x;
    uint64_t a_at, x_at, raw_at;
} solve_t;

static td_status_t check(const td_hlo_instr_t *instr, solve_t *s, td_err_t *err) {
    TD_NEED(instr->n_operands == 2 && instr->shape->type != TD_TUPLE, "%u operands", instr->n_operands);
    const td_shape_t *a = td_operand(instr, 0), *b = td_operand(instr, 1);
    TD_NEED_AS(TD_UNSUPPORTED,
               td_matrices_init(&s->a, a) && td_matrices_init(&s->b, b) && td_matrices_init(&s->x, instr->shape),
               "element type %s or rank %u", td_type_name(b->type), b->rank);
    TD_NEED(a->type == b->type && td_shape_same_dims(b, instr->shape) && a->rank == b->rank,
            "operands and result differ");
    for (uint32_t i = 0; i + 2 < a->rank; i++) TD_NEED(a->dims[i] == b->dims[i], "batch dimension %u differs", i);
    int64_t side = instr->triangular.left_side ? s->b.rows : s->b.cols;
    TD_NEED(s->a.rows == side && s->a.cols == side, "A is %lldx%lld instead of %lldx%lld", (long long)s->a.rows,
            (long long)s->a.cols, (long long)side, (long long)side);
    int t = instr->triangular.transpose_a;
    TD_NEED_AS(TD_UNSUPPORTED, t >= 0 && t <= TD_TRANSPOSE_ADJOINT, "transpose_a %d", t);
    s->d = (td_triangular_desc_t){.type = s->b.work,
                                  .left = instr->triangular.left_side,
                                  .lower = instr->triangular.lower,
                                  .unit_diagonal = instr->triangular.unit_diagonal,
                                  .transpose = t ? (td_transpose_t)t : TD_TRANSPOSE_NONE,
                                  .m = s->b.rows,
                                  .n = s->b.cols,
                                  .batch = s->b.batch};
    td_status_t st = td_trsm_check(&s->d, err);
    return st ? td_prefix(err, st, "%s", instr->name) : TD_OK;
}

td_status_t td_triangular_prepare(const td_hlo_instr_t *instr, td_arena_t *arena, void **out_state,
                                  uint64_t *out_scratch, td_err_t *err) {
    solve_t *s = TD_NEW(arena, solve_t);
    if (!s) return td_arena_fail(arena, err);
    td_status_t st = check(instr, s, err);
    if (st) return st;
    uint64_t na = td_matrix_count(&s->a), nx = td_matrix_count(&s->x), elem = td_type_bytes(s->d.type);
    *out_scratch = 0;
    TD_NEED_AS(TD_LIMIT,
               td_reserve(out_scratch, na, elem, &s->a_at) && td_reserve(out_scratch, nx, elem, &s->x_at) &&
                   td_reserve(out_scratch, na > nx ? na : nx, elem, &s->raw_at),
               "scratch overflows");
    *out_state = s;
    return TD_OK;
}

void td_triangular_run(const void *state, const void *const *in, void *const *out, void *scratch) {
    const solve_t *s = state;
    char *a = (char *)scratch + s->a_at, *x = (char *)scratch + s->x_at, *raw = (char *)scratch + s->raw_at;
    for (int64_t i = 0; i < s->x.batch; i++) {
        td_matrix_load(&s->a, in[0], i, a, raw);
        td_matrix_load(&s->b, in[1], i, x, raw);
        td_trsm_one(&s->d, a, x);
        td_matrix_store(&s->x, out[0], i, x, raw);
    }
}
