/* SPDX-License-Identifier: Apache-2.0 */
/* The descriptors of a matrix product, and the algorithms chosen for it.
 * Sources: cublasLt.h; xla/stream_executor/cuda/cuda_blas_lt.cc (scale types, dummy addresses while choosing). */
#include "runtime/cuda/gemm.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum {
    REQUEST_FIRST = 8,   /* choices looked at for the first that works */
    REQUEST_NUMBER = 128, /* as many as XLA asks for when it gives a number in the list */
    WORKSPACE = 4 << 20, WORKSPACE_HOPPER = 32 << 20, HOPPER = 9, /* XLA's own, of devices from that major version on */
    DUMMY_ADDRESS = 0x100 /* never read; the library looks at its alignment */
};

static td_status_t type_of(const td_cuda_gemm_t *g, td_type_t t, int *out, td_err_t *err) {
    switch (t) {
    case TD_F32: *out = CUDA_R_32F; return TD_OK;
    case TD_F64: *out = CUDA_R_64F; return TD_OK;
    case TD_F16: *out = CUDA_R_16F; return TD_OK;
    case TD_BF16: *out = CUDA_R_16BF; return TD_OK;
    case TD_C64: *out = CUDA_C_32F; return TD_OK;
    case TD_C128: *out = CUDA_C_64F; return TD_OK;
    case TD_S8: *out = CUDA_R_8I; return TD_OK;
    case TD_S32: *out = CUDA_R_32I; return TD_OK;
    case TD_F8E4M3FN: *out = CUDA_R_8F_E4M3; return TD_OK;
    case TD_F8E5M2: *out = CUDA_R_8F_E5M2; return TD_OK;
    case TD_F4E2M1FN: *out = CUDA_R_4F_E2M1; return TD_OK;
    default: return td_fail(err, TD_UNSUPPORTED, "%s: cuBLASLt has no %s", g->text, td_type_name(t));
    }
}
static td_status_t set(const td_cuda_gemm_t *g, int attribute, const void *value, size_t bytes, td_err_t *err) {
    return TD_LT(g, err, cublasLtMatmulDescSetAttribute, g->desc, attribute, value, bytes);
}
static bool is_f8(td_type_t t) { return t == TD_F8E4M3FN || t == TD_F8E5M2; }

static int64_t minor_of(const td_matrix_t *m) { return m->column_major ? m->rows : m->cols; }
static int64_t major_of(const td_matrix_t *m) { return m->column_major ? m->cols : m->rows; }

static void describe(td_cuda_gemm_t *g, const td_gemm_desc_t *d) {
    char times[40] = "";
    if (d->d.batch != 1) snprintf(times, sizeof times, ", %lld times", (long long)d->d.batch);
    snprintf(g->text, sizeof g->text, "matrix product %s[%lld,%lld] x %s[%lld,%lld] -> %s%s", td_type_name(d->a.type),
             (long long)d->a.rows, (long long)d->a.cols, td_type_name(d->b.type), (long long)d->b.rows,
             (long long)d->b.cols, td_type_name(d->d.type), times);
}

/* ---- compute and scale types ---- */
static int compute_type(const td_gemm_desc_t *d) {
    switch (d->compute) {
    case TD_COMPUTE_F16: return CUBLAS_COMPUTE_16F;
    case TD_COMPUTE_F32: return CUBLAS_COMPUTE_32F;
    case TD_COMPUTE_F64: return CUBLAS_COMPUTE_64F;
    case TD_COMPUTE_S32: return CUBLAS_COMPUTE_32I;
    case TD_COMPUTE_F32_BY_F16: return CUBLAS_COMPUTE_32F_FAST_16F;
    case TD_COMPUTE_F32_BY_BF16: return CUBLAS_COMPUTE_32F_FAST_16BF;
    case TD_COMPUTE_F32_BY_TF32: return CUBLAS_COMPUTE_32F_FAST_TF32;
    }
    return d->d.type == TD_F64 || d->d.type == TD_C128 ? CUBLAS_COMPUTE_64F
           : d->d.type == TD_S32                       ? CUBLAS_COMPUTE_32I
                                                       : CUBLAS_COMPUTE_32F;
}

static int scale_type(const td_gemm_desc_t *d, int compute) {
    if (compute == CUBLAS_COMPUTE_32I) return CUDA_R_32I;
    if (compute == CUBLAS_COMPUTE_16F) return CUDA_R_16F;
    bool complex_ = td_type_is_complex(d->d.type);
    if (compute == CUBLAS_COMPUTE_64F) return complex_ ? CUDA_C_64F : CUDA_R_64F;
    return complex_ ? CUDA_C_32F : CUDA_R_32F;
}

static void scale_value(char *to, int type, double re, double im) {
    const float f[2] = {(float)re, (float)im};
    const double v[2] = {re, im};
    const int32_t i = (int32_t)re;
    const _Float16 h = (_Float16)re;
    switch (type) {
    case CUDA_R_32I: memcpy(to, &i, sizeof i); break;
    case CUDA_R_16F: memcpy(to, &h, sizeof h); break;
    case CUDA_R_32F: memcpy(to, f, sizeof *f); break;
    case CUDA_C_32F: memcpy(to, f, sizeof f); break;
    case CUDA_R_64F: memcpy(to, v, sizeof *v); break;
    default: memcpy(to, v, sizeof v); break;
    }
}

/* ---- layouts ---- */
static td_status_t layout(td_cuda_gemm_t *g, uint32_t which, const td_matrix_t *m, int type, td_err_t *err) {
    int64_t ld = m->ld > minor_of(m) ? m->ld : minor_of(m); /* of a single line it says nothing */
    int32_t batch = (int32_t)m->batch;
    td_status_t st = TD_LT(g, err, cublasLtMatrixLayoutCreate, &g->layouts[which], type, (uint64_t)minor_of(m),
                           (uint64_t)major_of(m), ld);
    if (st || batch == 1) return st;
    if ((st = TD_LT(g, err, cublasLtMatrixLayoutSetAttribute, g->layouts[which], CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                    &batch, sizeof batch)))
        return st;
    return TD_LT(g, err, cublasLtMatrixLayoutSetAttribute, g->layouts[which],
                 CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &m->batch_stride, sizeof m->batch_stride);
}

/* C has to lie as D does; a single line or column may be said to. */
static bool turn_like(td_matrix_t *c, const td_matrix_t *d) {
    if (c->column_major == d->column_major) return true;
    if (major_of(c) <= 1) c->ld = 1;                          /* a line: its elements are neighbours */
    else if (minor_of(c) <= 1 && c->ld == 1) c->ld = major_of(c); /* a column without gaps */
    else return false;
    c->column_major = d->column_major;
    return true;
}

/* What C is called when it is not read: of D's type, but there are no 8-bit ones. */
static td_type_t unread_c(const td_gemm_desc_t *d) {
    if (!is_f8(d->d.type)) return d->d.type;
    return d->has_bias && d->bias_type == TD_F16 ? TD_F16 : TD_BF16;
}

static td_status_t one_operand(td_cuda_gemm_t *g, uint32_t which, const td_gemm_desc_t *d, td_err_t *err) {
    bool is_a = g->operands[which] == 0, conjugate = is_a ? d->conjugate_a : d->conjugate_b;
    const td_matrix_t *m = is_a ? &d->a : &d->b;
    int type = 0;
    bool turned = m->column_major != d->d.column_major;
    conjugate = conjugate && td_type_is_complex(m->type);
    if (conjugate && !turned)
        return td_fail(err, TD_UNSUPPORTED, "%s: cuBLASLt conjugates only what it transposes", g->text);
    int32_t op = conjugate ? CUBLAS_OP_C : turned ? CUBLAS_OP_T : CUBLAS_OP_N;
    td_status_t st = type_of(g, m->type, &type, err);
    if (!st) st = set(g, which ? CUBLASLT_MATMUL_DESC_TRANSB : CUBLASLT_MATMUL_DESC_TRANSA, &op, sizeof op, err);
    return st ? st : layout(g, which, m, type, err);
}

static td_status_t layouts(td_cuda_gemm_t *g, const td_gemm_desc_t *d, td_err_t *err) {
    td_matrix_t c = d->c;
    int type = 0;
    td_status_t st;
    g->operands[d->d.column_major ? 0 : 1] = 0;
    g->operands[d->d.column_major ? 1 : 0] = 1;
    if (!g->reads_c) c = d->d, c.type = unread_c(d);
    if (!turn_like(&c, &d->d)) return td_fail(err, TD_UNSUPPORTED, "%s: C and D lie differently", g->text);
    if ((st = one_operand(g, 0, d, err)) || (st = one_operand(g, 1, d, err))) return st;
    if ((st = type_of(g, c.type, &type, err)) || (st = layout(g, 2, &c, type, err)) ||
        (st = type_of(g, d->d.type, &type, err)))
        return st;
    return layout(g, 3, &d->d, type, err);
}

/* ---- epilogue, scales ---- */
static td_status_t epilogue_of(const td_cuda_gemm_t *g, const td_gemm_desc_t *d, uint32_t *out, td_err_t *err) {
    static const uint32_t rows[] = {
        [TD_EPI_NONE] = CUBLASLT_EPILOGUE_DEFAULT, [TD_EPI_RELU] = CUBLASLT_EPILOGUE_RELU,
        [TD_EPI_BIAS] = CUBLASLT_EPILOGUE_BIAS, [TD_EPI_BIAS_RELU] = CUBLASLT_EPILOGUE_BIAS | CUBLASLT_EPILOGUE_RELU,
        [TD_EPI_GELU] = CUBLASLT_EPILOGUE_GELU, [TD_EPI_GELU_AUX] = CUBLASLT_EPILOGUE_GELU | CUBLASLT_EPILOGUE_AUX,
        [TD_EPI_BIAS_GELU] = CUBLASLT_EPILOGUE_BIAS | CUBLASLT_EPILOGUE_GELU,
        [TD_EPI_BIAS_GELU_AUX] = CUBLASLT_EPILOGUE_BIAS | CUBLASLT_EPILOGUE_GELU | CUBLASLT_EPILOGUE_AUX,
        [TD_EPI_BIAS_SILU_AUX] = 0, /* SiLU has none */
    };
    *out = (unsigned)d->epilogue < sizeof rows / sizeof *rows ? rows[d->epilogue] : 0;
    if (*out) return TD_OK;
    return td_fail(err, TD_UNSUPPORTED, "%s: cuBLASLt has no epilogue %d (SiLU)", g->text, (int)d->epilogue);
}

/* The attribute is the address of a buffer of the launch. */
static td_status_t pointer(td_cuda_gemm_t *g, int attribute, uint32_t buffer, td_err_t *err) {
    void *dummy = (void *)(uintptr_t)DUMMY_ADDRESS;
    g->pointers[g->n_pointers].attribute = attribute;
    g->pointers[g->n_pointers++].buffer = buffer;
    return set(g, attribute, &dummy, sizeof dummy, err);
}

static td_status_t bias(td_cuda_gemm_t *g, const td_gemm_desc_t *d, uint32_t buffer, td_err_t *err) {
    int type = 0;
    td_status_t st = pointer(g, CUBLASLT_MATMUL_DESC_BIAS_POINTER, buffer, err);
    if (st || d->bias_type == TD_TYPE_INVALID || d->bias_type == d->d.type) return st;
    st = type_of(g, d->bias_type, &type, err);
    return st ? st : set(g, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof(int32_t), err);
}

static td_status_t aux(td_cuda_gemm_t *g, const td_gemm_desc_t *d, uint32_t buffer, td_err_t *err) {
    int64_t ld = d->d.ld > minor_of(&d->d) ? d->d.ld : minor_of(&d->d);
    td_status_t st = pointer(g, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, buffer, err);
    if (!st) st = set(g, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &ld, sizeof ld, err);
    if (st || d->d.batch == 1) return st;
    return TD_LT(g, err, cublasLtMatmulDescSetAttribute, g->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE,
                 &d->d.batch_stride, sizeof d->d.batch_stride);
}

/* Scales for each block of K instead of one for all. */
static td_status_t blocks(td_cuda_gemm_t *g, const td_gemm_desc_t *d, td_err_t *err) {
    bool e8 = d->scale_type == TD_F8E8M0FNU;
    int32_t mode = e8 ? CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0 : CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3;
    if (d->scale_block != (e8 ? 32 : 16) || d->has_d_scale)
        return td_fail(err, TD_UNSUPPORTED, "%s: blocks of %lld with scales of %s%s", g->text,
                       (long long)d->scale_block, td_type_name(d->scale_type), d->has_d_scale ? ", and one of D" : "");
    td_status_t st = set(g, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, &mode, sizeof mode, err);
    return st ? st : set(g, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, &mode, sizeof mode, err);
}

/* In the order of the launch's buffers. */
static td_status_t extras(td_cuda_gemm_t *g, const td_gemm_desc_t *d, td_err_t *err) {
    const int of_a = g->operands[0] == 0 ? CUBLASLT_MATMUL_DESC_A_SCALE_POINTER : CUBLASLT_MATMUL_DESC_B_SCALE_POINTER;
    const int of_b = g->operands[0] == 0 ? CUBLASLT_MATMUL_DESC_B_SCALE_POINTER : CUBLASLT_MATMUL_DESC_A_SCALE_POINTER;
    uint32_t next = 4, epilogue = 0;
    td_status_t st = epilogue_of(g, d, &epilogue, err);
    if (!st) st = set(g, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue, err);
    if (!st && d->has_bias) st = bias(g, d, next++, err);
    if (!st && d->has_a_scale) st = pointer(g, of_a, next++, err);
    if (!st && d->has_b_scale) st = pointer(g, of_b, next++, err);
    if (!st && d->has_c_scale) st = pointer(g, CUBLASLT_MATMUL_DESC_C_SCALE_POINTER, next++, err);
    if (!st && d->has_d_scale) st = pointer(g, CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, next++, err);
    if (!st && d->has_aux) st = aux(g, d, next++, err);
    if (!st && d->has_amax) g->amax = next, st = pointer(g, CUBLASLT_MATMUL_DESC_AMAX_D_POINTER, next++, err);
    if (!st && d->scale_block) st = blocks(g, d, err);
    int8_t fast = 1;
    if (!st && d->fast_sums && is_f8(d->a.type))
        st = set(g, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof fast, err);
    g->n_bufs = next;
    return st;
}

/* ---- algorithms ---- */
static td_status_t prefer(const td_cuda_gemm_t *g, const td_gemm_desc_t *d, bool any, cublasLtMatmulPreference_t p,
                          td_err_t *err) {
    const td_matrix_t *m[] = {g->operands[0] ? &d->b : &d->a, g->operands[0] ? &d->a : &d->b,
                              g->reads_c ? &d->c : &d->d, &d->d};
    uint64_t most = d->workspace ? d->workspace : g->device->major >= HOPPER ? WORKSPACE_HOPPER : WORKSPACE;
    td_status_t st = TD_LT(g, err, cublasLtMatmulPreferenceSetAttribute, p, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                           &most, sizeof most);
    for (int i = 0; i < 4 && !st; i++) {
        uint32_t alignment = any ? (uint32_t)(td_type_bits(m[i]->type) + 7) / 8 : TD_GEMM_ALIGNMENT;
        st = TD_LT(g, err, cublasLtMatmulPreferenceSetAttribute, p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i,
                   &alignment, sizeof alignment);
    }
    return st;
}

/* The compiler's choice by its number among those that work, else the first. The list is another one with another
 * version of the library, so a number behind its end counts as none. */
static td_status_t pick(const td_cuda_gemm_t *g, const td_gemm_desc_t *d, cublasLtMatmulPreference_t p,
                        td_gemm_choice_t *out, td_err_t *err) {
    cublasLtMatmulHeuristicResult_t v[REQUEST_NUMBER];
    int n = 0;
    int64_t good = 0;
    cublasStatus_t r = g->lt->cublasLtMatmulAlgoGetHeuristic(g->lt->handle, g->desc, g->layouts[0], g->layouts[1],
        g->layouts[2], g->layouts[3], p, d->algorithm ? REQUEST_NUMBER : REQUEST_FIRST, v, &n);
    if (r == CUBLAS_STATUS_NOT_SUPPORTED || (!r && n < 1))
        return td_fail(err, TD_UNSUPPORTED, "%s: cuBLASLt has no algorithm for it on %s", g->text, g->device->name);
    td_status_t st = td_cuda_gemm_check(g, r, "cublasLtMatmulAlgoGetHeuristic", err);
    for (int i = 0; i < n && !st; i++) {
        if (v[i].state) continue;
        if (!good || good == d->algorithm) *out = (td_gemm_choice_t){true, v[i].algo, v[i].workspaceSize};
        if (good++ == d->algorithm) break;
    }
    if (st || out->valid) return st;
    return td_fail(err, TD_UNSUPPORTED, "%s: none of cuBLASLt's %d algorithms works on %s", g->text, n,
                   g->device->name);
}

static td_status_t choose(td_cuda_gemm_t *g, const td_gemm_desc_t *d, bool any, td_err_t *err) {
    cublasLtMatmulPreference_t p = NULL;
    td_status_t st = TD_LT(g, err, cublasLtMatmulPreferenceCreate, &p);
    if (st) return st;
    st = prefer(g, d, any, p, err);
    if (!st) st = pick(g, d, p, &g->choices[any], err);
    g->lt->cublasLtMatmulPreferenceDestroy(p);
    return st;
}

static td_status_t sizes(const td_cuda_gemm_t *g, const td_gemm_desc_t *d, td_err_t *err) {
    const td_matrix_t *m[] = {&d->a, &d->b, &d->d, &d->c};
    for (int i = 0; i < (g->reads_c ? 4 : 3); i++)
        if (m[i]->rows < 0 || m[i]->cols < 0 || m[i]->batch < 0 || m[i]->rows > INT32_MAX || m[i]->cols > INT32_MAX ||
            m[i]->batch > INT32_MAX || m[i]->ld < 0 || (m[i]->ld < minor_of(m[i]) && major_of(m[i]) > 1))
            return td_fail(err, TD_UNSUPPORTED, "%s: %c has %lld rows, %lld columns, leading dimension %lld", g->text,
                           "abdc"[i], (long long)m[i]->rows, (long long)m[i]->cols, (long long)m[i]->ld);
    if (!g->empty && !d->a.cols) return td_fail(err, TD_UNSUPPORTED, "%s: sums of nothing", g->text);
    return TD_OK;
}

td_status_t td_cuda_gemm_plan(td_cuda_gemm_t *g, const td_gemm_desc_t *d, td_err_t *err) {
    int compute = compute_type(d), scale = scale_type(d, compute);
    describe(g, d);
    g->reads_c = d->beta != 0;
    g->empty = !d->d.rows || !d->d.cols || !d->d.batch;
    scale_value(g->alpha, scale, d->alpha_real, d->alpha_imag);
    scale_value(g->beta, scale, d->beta, 0);
    td_status_t st = sizes(g, d, err);
    if (st) return st;
    if (g->empty) { /* only its largest value is written */
        g->n_bufs = 4u + d->has_bias + d->has_a_scale + d->has_b_scale + d->has_c_scale + d->has_d_scale + d->has_aux +
                    d->has_amax;
        g->amax = d->has_amax ? g->n_bufs - 1 : 0;
        return TD_OK;
    }
    if ((st = TD_LT(g, err, cublasLtMatmulDescCreate, &g->desc, compute, scale)) || (st = layouts(g, d, err)) ||
        (st = extras(g, d, err)) || (st = choose(g, d, false, err)))
        return st;
    (void)choose(g, d, true, NULL); /* else such addresses are refused when they come */
    return TD_OK;
}
