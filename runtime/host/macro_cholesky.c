/* SPDX-License-Identifier: Apache-2.0 */
/* The opcode cholesky on LAPACK. As XLA's expansion of it: reads the `lower` or upper triangle only, the other one of
 * the result is zero, and where there is no factor every element of that matrix is NaN.
 * Source: xla/hlo/transforms/expanders/cholesky_expander.cc. */
#include <lapacke.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "runtime/host/macro_matrix.h"

typedef struct cholesky {
    td_matrices_t a, l;
    bool lower;
    uint64_t l_at, raw_at;
} cholesky_t;

td_status_t td_cholesky_prepare(const td_hlo_instr_t *instr, td_arena_t *arena, void **out_state, uint64_t *out_scratch,
                                td_err_t *err) {
    cholesky_t *c = TD_NEW(arena, cholesky_t);
    if (!c) return td_arena_fail(arena, err);
    TD_NEED(instr->n_operands == 1 && instr->shape->type != TD_TUPLE, "%u operands", instr->n_operands);
    const td_shape_t *a = td_operand(instr, 0);
    TD_NEED_AS(TD_UNSUPPORTED, td_matrices_init(&c->a, a) && td_matrices_init(&c->l, instr->shape),
               "element type %s or rank %u", td_type_name(a->type), a->rank);
    TD_NEED(td_shape_same_dims(a, instr->shape) && c->a.rows == c->a.cols, "matrices of %lldx%lld",
            (long long)c->a.rows, (long long)c->a.cols);
    TD_NEED_AS(TD_LIMIT, c->a.rows <= INT_MAX, "matrices of %lld rows", (long long)c->a.rows);
    c->lower = instr->cholesky_lower;
    uint64_t n = td_matrix_count(&c->a), elem = td_type_bytes(c->a.work);
    *out_scratch = 0;
    TD_NEED_AS(TD_LIMIT, td_reserve(out_scratch, n, elem, &c->l_at) && td_reserve(out_scratch, n, elem, &c->raw_at),
               "scratch overflows");
    *out_state = c;
    return TD_OK;
}

static lapack_int factor(td_type_t t, char uplo, lapack_int n, void *a) {
    switch (t) {
    case TD_F32: return LAPACKE_spotrf_work(LAPACK_COL_MAJOR, uplo, n, a, n);
    case TD_F64: return LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, uplo, n, a, n);
    case TD_C64: return LAPACKE_cpotrf_work(LAPACK_COL_MAJOR, uplo, n, a, n);
    default: return LAPACKE_zpotrf_work(LAPACK_COL_MAJOR, uplo, n, a, n);
    }
}

/* Parts: real numbers, two for each complex element. A NaN anywhere reaches the diagonal. */
#define TIDY(T)                                                                                             \
    static void tidy_##T(T *l, size_t n, size_t parts, bool lower, bool failed) {                           \
        for (size_t j = 0; j < n && !failed; j++) failed = isnan(l[(j * n + j) * parts]);                   \
        for (size_t i = 0; failed && i < n * n * parts; i++) l[i] = i % parts ? 0 : (T)NAN;                 \
        for (size_t j = 0; j < n && !failed; j++) {                                                         \
            T *column = l + j * n * parts;                                                                  \
            if (lower) memset(column, 0, j * parts * sizeof(T));                                            \
            else memset(column + (j + 1) * parts, 0, (n - j - 1) * parts * sizeof(T));                      \
        }                                                                                                   \
    }
TIDY(float) TIDY(double)

void td_cholesky_run(const void *state, const void *const *in, void *const *out, void *scratch) {
    const cholesky_t *c = state;
    char *l = (char *)scratch + c->l_at, *raw = (char *)scratch + c->raw_at;
    size_t n = (size_t)c->a.rows, parts = td_type_is_complex(c->a.work) ? 2 : 1;
    for (int64_t i = 0; i < c->a.batch; i++) {
        td_matrix_load(&c->a, in[0], i, l, raw);
        bool failed = factor(c->a.work, c->lower ? 'L' : 'U', (lapack_int)n, l) != 0;
        if (c->a.work == TD_F32 || c->a.work == TD_C64) tidy_float((float *)(void *)l, n, parts, c->lower, failed);
        else tidy_double((double *)(void *)l, n, parts, c->lower, failed);
        td_matrix_store(&c->l, out[0], i, l, raw);
    }
}
