/* SPDX-License-Identifier: Apache-2.0 */
/* cublas_lt_matmul: matrices are read only through gemm_config's layouts; the slices' own shapes are those of
 * whatever produced the buffers.
 * Sources: xla/stream_executor/gpu/gpu_blas_lt.proto, gpu_blas_lt.cc (compute types), cuda/cuda_blas_lt.cc (epilogues,
 * scales), xla/service/algorithm_util.cc. */
#include "runtime/thunk/gemm.h"

#include "base/checked.h"
#include "executable.pb-c.h"

static td_status_t matrix(td_parse_t *c, const char *what, const Xla__GemmConfigProto__MatrixLayout *p, td_matrix_t *m,
                          bool *conjugate) {
    if (!p) return td_fail(c->err, TD_MALFORMED, "%s: layout is missing", what);
    int turn = (int)p->transpose;
    if ((int)p->order != 1 && (int)p->order != 2)
        return td_fail(c->err, TD_MALFORMED, "%s: order %d", what, (int)p->order);
    if (turn < 0 || turn > 2) return td_fail(c->err, TD_MALFORMED, "%s: transpose %d", what, turn);
    bool column = (int)p->order == 2;
    *m = (td_matrix_t){(td_type_t)p->dtype,
                       turn ? !column : column,
                       turn ? p->num_cols : p->num_rows,
                       turn ? p->num_rows : p->num_cols,
                       p->leading_dim_stride,
                       p->batch_size ? p->batch_size : 1,
                       p->batch_stride};
    *conjugate = turn == 2;
    if (!td_type_is_array(m->type)) return td_fail(c->err, TD_UNSUPPORTED, "%s: element type %d", what, (int)m->type);
    if (m->rows < 0 || m->cols < 0 || m->ld < 0 || m->batch < 0 || m->batch_stride < 0)
        return td_fail(c->err, TD_MALFORMED, "%s: negative size", what);
    return TD_OK;
}

td_status_t td_gemm_fits(td_parse_t *c, const char *what, const td_matrix_t *m, const td_kernel_arg_t *a) {
    if (!m->rows || !m->cols || !m->batch) return TD_OK;
    uint64_t major = (uint64_t)(m->column_major ? m->cols : m->rows),
             minor = (uint64_t)(m->column_major ? m->rows : m->cols), x, y, end;
    if (!td_mul_u64(major - 1, (uint64_t)m->ld, &x) ||
        !td_mul_u64((uint64_t)m->batch - 1, (uint64_t)m->batch_stride, &y) || !td_add_u64(x, y, &end) ||
        !td_add_u64(end, minor, &end) || !td_mul_u64(end, td_type_bits(m->type), &end) ||
        end / 8 + (end % 8 != 0) > a->size)
        return td_fail(c->err, TD_MALFORMED, "%s: matrix reaches past its slice of %llu bytes", what,
                       (unsigned long long)a->size);
    return TD_OK;
}

/* One matrix serves all batch entries. */
static td_status_t batches(td_parse_t *c, const char *what, td_matrix_t *m, int64_t n) {
    if (m->batch != n && m->batch != 1)
        return td_fail(c->err, TD_MISMATCH, "%s: %lld matrices for %lld results", what, (long long)m->batch,
                       (long long)n);
    if (m->batch == 1) m->batch_stride = 0;
    m->batch = n;
    return TD_OK;
}

/* Numbers of PrecisionConfig.Algorithm. */
enum { ALG_UNSET = 0, ALG_F8_FAST = 2, ALG_F16 = 3, ALG_BF16_F32 = 6, ALG_TF32 = 9 };
enum { PRECISION_HIGHEST = 2 };

/* Without an algorithm, f32 products of the default precision are rounded to TF32, as XLA has it. */
static td_compute_t compute(const Xla__GemmConfigProto *g, const td_gemm_desc_t *d) {
    int alg = g->precision_algorithm, given = (int)g->compute_type;
    if (given >= TD_COMPUTE_F16 && given <= TD_COMPUTE_F32_BY_TF32) return (td_compute_t)given;
    switch (d->d.type) {
    case TD_F64: case TD_C128: return TD_COMPUTE_F64;
    case TD_S32: return TD_COMPUTE_S32;
    default: break;
    }
    if (alg == ALG_F16) return TD_COMPUTE_F16;
    if (alg == ALG_BF16_F32) return TD_COMPUTE_F32_BY_BF16;
    if (alg == ALG_TF32) return TD_COMPUTE_F32_BY_TF32;
    bool wide = d->d.type == TD_F32 || d->d.type == TD_C64;
    if (alg == ALG_UNSET && wide && d->a.type == d->d.type && g->compute_precision < PRECISION_HIGHEST)
        return TD_COMPUTE_F32_BY_TF32;
    return TD_COMPUTE_F32;
}
static void choices(const Xla__GemmConfigProto *g, td_gemm_desc_t *d) {
    bool f8 = td_type_bits(d->a.type) == 8 && !td_type_is_integer(d->a.type);
    d->compute = compute(g, d);
    d->fast_sums = g->precision_algorithm == ALG_UNSET ? f8 && !g->compute_precision : g->precision_algorithm == ALG_F8_FAST;
}

td_status_t td_gemm_config(td_parse_t *c, const Xla__GemmConfigProto *g, td_gemm_desc_t *d) {
    td_status_t st;
    bool other = false;
    if ((st = matrix(c, "a", g->lhs_layout, &d->a, &d->conjugate_a)) ||
        (st = matrix(c, "b", g->rhs_layout, &d->b, &d->conjugate_b)) ||
        (st = matrix(c, "d", g->output_layout, &d->d, &other)))
        return st;
    d->alpha_real = g->alpha_real, d->alpha_imag = g->alpha_imag, d->beta = g->beta;
    if (d->beta != 0 && (st = matrix(c, "c", g->c_layout, &d->c, &other))) return st;
    if (other) return td_fail(c->err, TD_UNSUPPORTED, "c or d is conjugated");
    if ((st = batches(c, "a", &d->a, d->d.batch)) || (st = batches(c, "b", &d->b, d->d.batch)) ||
        (d->beta != 0 && (st = batches(c, "c", &d->c, d->d.batch)))) return st;
    if (d->d.batch > 1 && !d->d.batch_stride)
        return td_fail(c->err, TD_MALFORMED, "d: %lld results in one place", (long long)d->d.batch);
    if (d->a.rows != d->d.rows || d->b.cols != d->d.cols || d->a.cols != d->b.rows ||
        (d->beta != 0 && (d->c.rows != d->d.rows || d->c.cols != d->d.cols)))
        return td_fail(c->err, TD_MISMATCH, "matrices %lldx%lld, %lldx%lld and %lldx%lld do not fit",
                       (long long)d->a.rows, (long long)d->a.cols, (long long)d->b.rows, (long long)d->b.cols,
                       (long long)d->d.rows, (long long)d->d.cols);
    if (g->scale_mode == 2) return td_fail(c->err, TD_UNSUPPORTED, "block-scaled product of a ROCm program");
    choices(g, d);
    return TD_OK;
}

static bool with_bias(int e) { return e == 2 || e == 3 || e >= 8; }
static bool with_aux(int e) { return e == 6 || e == 7 || e == 10 || e == 11; }

/* The bias' type is its array's, if that has one element per value; else D's. */
static td_status_t bias(td_parse_t *c, const td_kernel_arg_t *a, td_gemm_desc_t *d) {
    uint64_t len = (uint64_t)(d->d.column_major ? d->d.rows : d->d.cols), own = 0, like_d = 0;
    bool ok = td_mul_u64(len, td_type_bytes(d->d.type), &like_d);
    if (ok && a->shape && td_type_is_array(a->shape->type) && td_type_bits(a->shape->type) >= 8 &&
        td_mul_u64(len, td_type_bytes(a->shape->type), &own) && own == a->size) {
        d->bias_type = a->shape->type;
        return TD_OK;
    }
    d->bias_type = d->d.type;
    if (!ok || a->size < like_d)
        return td_fail(c->err, TD_MISMATCH, "bias has %llu bytes for %llu values", (unsigned long long)a->size,
                       (unsigned long long)len);
    return TD_OK;
}

static td_status_t scalar(td_parse_t *c, const char *what, const Xla__ShapedSliceProto *s, bool written, td_thunk_t *t,
                          uint32_t *at) {
    if (!s) return TD_OK;
    td_kernel_arg_t *a = &t->args[(*at)++];
    td_status_t st = td_thunk_shaped(c, what, s, written, a);
    return st || a->size >= 4
               ? st
               : td_fail(c->err, TD_MISMATCH, "%s has %llu bytes instead of 4", what, (unsigned long long)a->size);
}

td_status_t td_gemm_parse(td_parse_t *c, const td_thunk_msg_t *msg, td_thunk_t *t) {
    const Xla__Gpu__CublasLtMatmulThunkProto *p = msg->cublas_lt_matmul_thunk;
    td_status_t st;
    if (p->impl_case == XLA__GPU__CUBLAS_LT_MATMUL_THUNK_PROTO__IMPL_GROUPED_GEMM_CONFIG)
        return td_fail(c->err, TD_UNSUPPORTED, "grouped matrix products are for ROCm programs; cuBLASLt has none");
    if (p->impl_case != XLA__GPU__CUBLAS_LT_MATMUL_THUNK_PROTO__IMPL_GEMM_CONFIG || !p->gemm_config)
        return td_fail(c->err, TD_MALFORMED, "gemm config is missing");
    int e = (int)p->epilogue;
    if (e < 0 || e > 11) return td_fail(c->err, TD_UNSUPPORTED, "epilogue %d", e);
    td_gemm_desc_t *d = TD_NEW(c->arena, td_gemm_desc_t);
    if (!d) return td_arena_fail(c->arena, c->err);
    d->epilogue = (td_epilogue_t)e;
    d->has_bias = p->bias, d->has_aux = p->aux, d->has_amax = p->d_amax;
    d->has_a_scale = p->a_scale, d->has_b_scale = p->b_scale, d->has_c_scale = p->c_scale, d->has_d_scale = p->d_scale;
    if (d->has_bias != with_bias(e)) return td_fail(c->err, TD_MALFORMED, "epilogue %d and bias do not agree", e);
    if (d->has_aux != with_aux(e))
        return td_fail(c->err, TD_MALFORMED, "epilogue %d and auxiliary output do not agree", e);
    if ((st = td_gemm_config(c, p->gemm_config, d))) return st;
    if ((st = td_thunk_args(c, t,
                            4u + d->has_bias + d->has_aux + d->has_amax + d->has_a_scale + d->has_b_scale +
                                d->has_c_scale + d->has_d_scale)))
        return st;
    td_kernel_arg_t *a = t->args;
    if ((st = td_thunk_shaped(c, "a", p->a, false, a)) || (st = td_thunk_shaped(c, "b", p->b, false, a + 1)) ||
        (st = td_thunk_shaped(c, "c", p->c, false, a + 2)) || (st = td_thunk_shaped(c, "d", p->d, true, a + 3)))
        return st;
    if ((st = td_gemm_fits(c, "a", &d->a, a)) || (st = td_gemm_fits(c, "b", &d->b, a + 1)) ||
        (st = td_gemm_fits(c, "d", &d->d, a + 3)) || (d->beta != 0 && (st = td_gemm_fits(c, "c", &d->c, a + 2))))
        return st;
    if (p->algorithm_idx > 0) d->algorithm = p->algorithm_idx;
    if (p->autotune_workspace_size > 0) d->workspace = (uint64_t)p->autotune_workspace_size;
    uint32_t at = 4;
    if (d->has_bias && ((st = td_thunk_shaped(c, "bias", p->bias, false, a + at)) || (st = bias(c, a + at++, d))))
        return st;
    if ((st = scalar(c, "a_scale", p->a_scale, false, t, &at)) ||
        (st = scalar(c, "b_scale", p->b_scale, false, t, &at)) ||
        (st = scalar(c, "c_scale", p->c_scale, false, t, &at)) ||
        (st = scalar(c, "d_scale", p->d_scale, false, t, &at)))
        return st;
    if (d->has_aux &&
        ((st = td_thunk_shaped(c, "aux", p->aux, true, a + at)) || (st = td_gemm_fits(c, "aux", &d->d, a + at++))))
        return st;
    if ((st = scalar(c, "d_amax", p->d_amax, true, t, &at))) return st;
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
