/* SPDX-License-Identifier: Apache-2.0 */
/* cublas_lt_matmul: matrices are read only through gemm_config's layouts. */
#include "base/checked.h"
#include "executable.pb-c.h"
#include "runtime/thunk/thunk.h"

static td_status_t matrix(td_parse_t *c, const char *what, const Xla__GemmConfigProto__MatrixLayout *p,
                          const td_kernel_arg_t *a, td_matrix_t *m) {
    if (!p) return td_fail(c->err, TD_MALFORMED, "%s: layout is missing", what);
    *m = (td_matrix_t){(td_type_t)p->dtype, (int)p->order == 2, p->num_rows, p->num_cols, p->leading_dim_stride,
                       p->batch_size ? p->batch_size : 1, p->batch_stride};
    if (!td_type_is_array(m->type) || td_type_bits(m->type) < 8) return td_fail(c->err, TD_UNSUPPORTED, "%s: element type %d", what, (int)m->type);
    if ((int)p->transpose > 1) return td_fail(c->err, TD_UNSUPPORTED, "%s: transposed layout", what);
    if (m->rows < 0 || m->cols < 0 || m->ld < 0 || m->batch < 0 || m->batch_stride < 0)
        return td_fail(c->err, TD_MALFORMED, "%s: negative size", what);
    if (!m->rows || !m->cols || !m->batch) return TD_OK;
    uint64_t major = (uint64_t)(m->column_major ? m->cols : m->rows), minor = (uint64_t)(m->column_major ? m->rows : m->cols), x, y, end;
    if (!td_mul_u64(major - 1, (uint64_t)m->ld, &x) || !td_mul_u64((uint64_t)m->batch - 1, (uint64_t)m->batch_stride, &y) ||
        !td_add_u64(x, y, &end) || !td_add_u64(end, minor, &end) || !td_mul_u64(end, td_type_bytes(m->type), &end) || end > a->size)
        return td_fail(c->err, TD_MALFORMED, "%s: matrix reaches past its slice of %llu bytes", what, (unsigned long long)a->size);
    return TD_OK;
}

td_status_t td_gemm_parse(td_parse_t *c, const td_thunk_msg_t *msg, td_thunk_t *t) {
    const Xla__Gpu__CublasLtMatmulThunkProto *p = msg->cublas_lt_matmul_thunk;
    const Xla__GemmConfigProto *g;
    td_status_t st;
    if (p->impl_case != XLA__GPU__CUBLAS_LT_MATMUL_THUNK_PROTO__IMPL_GEMM_CONFIG || !(g = p->gemm_config))
        return td_fail(c->err, TD_UNSUPPORTED, "grouped matrix products are not supported");
    if (p->aux || p->c_scale || p->d_scale || p->d_amax) return td_fail(c->err, TD_UNSUPPORTED, "aux, c_scale, d_scale and d_amax are not supported");
    int e = (int)p->epilogue;
    if (e != 0 && e != 1 && e != 2 && e != 3 && e != 4 && e != 8) return td_fail(c->err, TD_UNSUPPORTED, "epilogue %d is not supported", e);
    td_gemm_desc_t *d = TD_NEW(c->arena, td_gemm_desc_t);
    if (!d) return td_arena_fail(c->arena, c->err);
    d->epilogue = (td_epilogue_t)e;
    d->has_bias = p->bias != NULL;
    d->has_a_scale = p->a_scale != NULL;
    d->has_b_scale = p->b_scale != NULL;
    if (d->has_bias != (e == 2 || e == 3 || e == 8)) return td_fail(c->err, TD_MALFORMED, "epilogue %d and bias do not agree", e);
    d->alpha_real = g->alpha_real;
    d->alpha_imag = g->alpha_imag;
    d->beta = g->beta;
    if ((st = td_thunk_args(c, t, 4u + d->has_bias + d->has_a_scale + d->has_b_scale))) return st;
    td_kernel_arg_t *a = t->args;
    if ((st = td_thunk_shaped(c, "a", p->a, false, a)) || (st = td_thunk_shaped(c, "b", p->b, false, a + 1)) ||
        (st = td_thunk_shaped(c, "c", p->c, false, a + 2)) || (st = td_thunk_shaped(c, "d", p->d, true, a + 3))) return st;
    a += 4;
    if (d->has_bias && (st = td_thunk_shaped(c, "bias", p->bias, false, a++))) return st;
    if (d->has_a_scale && (st = td_thunk_shaped(c, "a_scale", p->a_scale, false, a++))) return st;
    if (d->has_b_scale && (st = td_thunk_shaped(c, "b_scale", p->b_scale, false, a++))) return st;
    a = t->args;
    if ((st = matrix(c, "a", g->lhs_layout, a, &d->a)) || (st = matrix(c, "b", g->rhs_layout, a + 1, &d->b)) ||
        (st = matrix(c, "c", g->c_layout, a + 2, &d->c)) || (st = matrix(c, "d", g->output_layout, a + 3, &d->d))) return st;
    if (d->a.rows != d->d.rows || d->b.cols != d->d.cols || d->a.cols != d->b.rows || d->c.rows != d->d.rows || d->c.cols != d->d.cols ||
        (d->a.batch != d->d.batch && d->a.batch != 1) || (d->b.batch != d->d.batch && d->b.batch != 1))
        return td_fail(c->err, TD_MISMATCH, "matrices %lldx%lld, %lldx%lld and %lldx%lld do not fit", (long long)d->a.rows, (long long)d->a.cols,
                       (long long)d->b.rows, (long long)d->b.cols, (long long)d->d.rows, (long long)d->d.cols);
    if (d->has_bias && a[4].size < (uint64_t)d->d.cols * td_type_bytes(d->d.type))
        return td_fail(c->err, TD_MISMATCH, "bias has %llu bytes for %lld columns", (unsigned long long)a[4].size, (long long)d->d.cols);
    for (uint32_t i = 4 + d->has_bias; i < t->n_args; i++)
        if (a[i].size < 4) return td_fail(c->err, TD_MISMATCH, "scale has %llu bytes instead of 4", (unsigned long long)a[i].size);
    t->extra = d;
    t->extra_bytes = sizeof *d;
    return TD_OK;
}
td_status_t td_gemm_lower(td_device_t *dev, const td_hlo_module_t *hlo, const td_thunk_t *from, td_thunk_t *t,
                          td_arena_t *arena, uint64_t *out_scratch, td_err_t *err) {
    (void)hlo;
    return dev->ops->library_lower(dev, TD_OP_GEMM, from->extra, arena, &t->kernel, out_scratch, err);
}
td_status_t td_gemm_enqueue(td_run_t *r, const td_thunk_t *t) { return td_thunk_launch(r, t); }
