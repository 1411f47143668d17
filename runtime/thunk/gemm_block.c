/* SPDX-License-Identifier: Apache-2.0 */
/* __cudnn$blockScaledDot: [batch,] rows x K times the transpose of [batch,] columns x K, both with one scale per
 * block of K, scales as the tensor cores want them (tiles of 128 x 4, see td_gemm_desc_t). E8M0 scales: blocks of
 * 32; E4M3 scales: blocks of 16. A fifth operand scales the result.
 * Source: xla/service/gpu/transforms/block_scaling_rewriter.cc, cudnn_custom_call_compiler.cc. */
#include "base/checked.h"
#include "runtime/thunk/gemm_block.h"

/* One operand or the result as a matrix of its last two dimensions. */
static td_status_t matrix(const char *what, const td_shape_t *s, td_matrix_t *m, td_err_t *err) {
    int64_t strides[3];
    if (!td_type_is_array(s->type) || s->rank < 2 || s->rank > 3)
        return td_fail(err, TD_UNSUPPORTED, "block-scaled dot: %s of rank %u", what, s->rank);
    td_shape_strides(s, strides);
    uint32_t r = s->rank - 2, c = s->rank - 1;
    bool column = s->dims[c] > 1 && (strides[c] != 1 || s->dims[r] == 1);
    if (column && s->dims[r] > 1 && strides[r] != 1)
        return td_fail(err, TD_UNSUPPORTED, "block-scaled dot: layout of %s", what);
    if (column && s->dims[r] == 1) column = false; /* one line: both orders are the same if dense */
    *m = (td_matrix_t){
        s->type,           column, s->dims[r], s->dims[c], column ? strides[c] : strides[r], r ? s->dims[0] : 1,
        r ? strides[0] : 0};
    if (!column && s->dims[c] > 1 && strides[c] != 1)
        return td_fail(err, TD_UNSUPPORTED, "block-scaled dot: layout of %s", what);
    return TD_OK;
}

static td_status_t scales(const char *what, const td_shape_t *s, td_type_t type, int64_t batch, int64_t rows, int64_t k,
                          int64_t block, td_err_t *err) {
    int64_t blocks = k / block + (k % block != 0), down = rows / 128 + (rows % 128 != 0),
            across = blocks / 4 + (blocks % 4 != 0), need;
    if (s->type != type || __builtin_mul_overflow(down * 512, across, &need) ||
        __builtin_mul_overflow(need, batch, &need) || s->count < need)
        return td_fail(err, TD_MISMATCH, "block-scaled dot: %s are %lld of %s for %lld x %lld values", what,
                       (long long)s->count, td_type_name(s->type), (long long)rows, (long long)k);
    return TD_OK;
}

td_status_t td_gemm_block_describe(const td_hlo_instr_t *in, td_gemm_desc_t *d, td_err_t *err) {
    td_status_t st;
    if (in->n_operands < 4 || in->n_operands > 5 || in->shape->type != TD_TUPLE || in->shape->rank != 2)
        return td_fail(err, TD_UNSUPPORTED, "block-scaled dot with %u operands", in->n_operands);
    *d =
        (td_gemm_desc_t){.alpha_real = 1, .has_a_scale = true, .has_b_scale = true, .has_d_scale = in->n_operands == 5};
    td_matrix_t b;
    if ((st = matrix("lhs", in->operands[0]->shape, &d->a, err)) ||
        (st = matrix("rhs", in->operands[1]->shape, &b, err)) ||
        (st = matrix("result", in->shape->elements[0], &d->d, err)))
        return st;
    d->b = b; /* its transpose */
    d->b.rows = b.cols, d->b.cols = b.rows, d->b.column_major = !b.column_major;
    const td_shape_t *sa = in->operands[2]->shape, *sb = in->operands[3]->shape;
    d->scale_type = sa->type;
    d->scale_block = sa->type == TD_F8E8M0FNU ? 32 : sa->type == TD_F8E4M3FN ? 16 : 0;
    if (!d->scale_block)
        return td_fail(err, TD_UNSUPPORTED, "block-scaled dot with scales of %s", td_type_name(sa->type));
    if (d->a.rows != d->d.rows || d->b.cols != d->d.cols || d->a.cols != d->b.rows || d->a.batch != d->d.batch ||
        d->b.batch != d->d.batch)
        return td_fail(err, TD_MISMATCH, "block-scaled dot: sizes do not agree");
    if ((st = scales("lhs scales", sa, d->scale_type, d->d.batch, d->a.rows, d->a.cols, d->scale_block, err)) ||
        (st = scales("rhs scales", sb, d->scale_type, d->d.batch, d->b.cols, d->a.cols, d->scale_block, err)))
        return st;
    if (d->has_d_scale && (in->operands[4]->shape->type != TD_F32 || in->operands[4]->shape->count != 1))
        return td_fail(err, TD_MISMATCH, "block-scaled dot: the global scale is no f32");
    return TD_OK;
}
