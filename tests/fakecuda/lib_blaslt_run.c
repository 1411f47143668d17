/* SPDX-License-Identifier: Apache-2.0 */
/* The products of the stand-in for cuBLASLt. What the descriptors say is read anew here, from the library's own
 * documentation, and done by the host device. Rules checked: cublasLt.h and the cuBLAS guide (types, 8-bit floats want
 * K innermost in both operands and sizes of multiples of 16, D overlaps neither operand, workspace). */
#include <string.h>

#include "base/checked.h"
#include "tests/fakecuda/lib_blaslt.h"

enum { MAGIC = 0x1f4a, CHOICES = 5, F8_MULTIPLE = 16 };
typedef struct problem {
    const lt_desc_t *desc;
    const lt_layout_t *m[4]; /* A, B, C, D */
} problem_t;
/* What is inside an algorithm. */
enum { AT_MAGIC, AT_PROBLEM, AT_WORKSPACE, AT_ALIGNMENT, AT_NUMBER };

static td_type_t type_of(int t) {
    switch (t) {
    case CUDA_R_32F: return TD_F32;
    case CUDA_R_64F: return TD_F64;
    case CUDA_R_16F: return TD_F16;
    case CUDA_R_16BF: return TD_BF16;
    case CUDA_C_32F: return TD_C64;
    case CUDA_C_64F: return TD_C128;
    case CUDA_R_8I: return TD_S8;
    case CUDA_R_32I: return TD_S32;
    case CUDA_R_8F_E4M3: return TD_F8E4M3FN;
    case CUDA_R_8F_E5M2: return TD_F8E5M2;
    default: return TD_TYPE_INVALID;
    }
}
static bool is_f8(int t) { return t == CUDA_R_8F_E4M3 || t == CUDA_R_8F_E5M2; }

/* ---- what the library can do ---- */
static bool types_ok(const problem_t *p) {
    int a = p->m[0]->type, b = p->m[1]->type, c = p->m[2]->type, d = p->m[3]->type, s = p->desc->scale,
        k = p->desc->compute;
    bool wide = k == CUBLAS_COMPUTE_32F || (k >= CUBLAS_COMPUTE_32F_FAST_16F && k <= CUBLAS_COMPUTE_32F_FAST_TF32);
    if (is_f8(a) || is_f8(b)) {
        if (!is_f8(a) || !is_f8(b) || (a == CUDA_R_8F_E5M2 && b == a) || k != CUBLAS_COMPUTE_32F || s != CUDA_R_32F)
            return false;
        if (is_f8(d)) return (c == CUDA_R_16BF || c == CUDA_R_16F) && (d == CUDA_R_8F_E4M3 || a != b);
        return c == d && (d == CUDA_R_16BF || d == CUDA_R_16F || d == CUDA_R_32F);
    }
    if (a != b || c != d) return false;
    if (k == CUBLAS_COMPUTE_16F) return a == CUDA_R_16F && d == a && s == a;
    if (k == CUBLAS_COMPUTE_32I) return a == CUDA_R_8I && d == CUDA_R_32I && s == CUDA_R_32I;
    if (k == CUBLAS_COMPUTE_64F) return a == d && a == s && (a == CUDA_R_64F || a == CUDA_C_64F);
    if (!wide) return false;
    if (a == CUDA_C_32F) return d == a && s == a;
    if (s != CUDA_R_32F) return false;
    if (a == CUDA_R_8I) return d == CUDA_R_32F;
    return a == CUDA_R_32F ? d == a : (a == CUDA_R_16F || a == CUDA_R_16BF) && (d == a || d == CUDA_R_32F);
}

static bool f8_ok(const problem_t *p, const uint32_t *alignment) {
    if (p->desc->op[0] != CUBLAS_OP_T || p->desc->op[1] != CUBLAS_OP_N) return false;
    for (int i = 0; i < 4; i++)
        if (p->m[i]->rows % F8_MULTIPLE || p->m[i]->ld % F8_MULTIPLE || (alignment && alignment[i] < F8_MULTIPLE))
            return false;
    return true;
}
static bool epilogue_ok(const problem_t *p) {
    uint32_t e = p->desc->epilogue, activation = e & ~(uint32_t)(CUBLASLT_EPILOGUE_BIAS | CUBLASLT_EPILOGUE_AUX);
    int a = p->m[0]->type;
    if (activation > CUBLASLT_EPILOGUE_RELU && activation != CUBLASLT_EPILOGUE_GELU) return false;
    if ((e & CUBLASLT_EPILOGUE_AUX) && activation != CUBLASLT_EPILOGUE_GELU) return false;
    return e == CUBLASLT_EPILOGUE_DEFAULT || (a != CUDA_C_32F && a != CUDA_C_64F && a != CUDA_R_8I);
}
static cublasStatus_t supported(const problem_t *p, const uint32_t *alignment) {
    bool f8 = is_f8(p->m[0]->type);
    if (!types_ok(p) || !epilogue_ok(p) || (f8 && !f8_ok(p, alignment)) || p->desc->mode[0] || p->desc->mode[1])
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (!f8 && (p->desc->at[LT_A_SCALE] || p->desc->at[LT_B_SCALE] || p->desc->at[LT_AMAX]))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- sizes that agree ---- */
static cublasStatus_t wrong(const char *text, uint64_t a, uint64_t b) {
    return (cublasStatus_t)fk_fault(FK_ARGUMENTS, CUBLAS_STATUS_INVALID_VALUE, "%s: %llu and %llu", text,
                                    (unsigned long long)a, (unsigned long long)b);
}
static cublasStatus_t sizes_ok(const problem_t *p) {
    const lt_layout_t *a = p->m[0], *b = p->m[1], *c = p->m[2], *d = p->m[3];
    bool ta = p->desc->op[0] != CUBLAS_OP_N, tb = p->desc->op[1] != CUBLAS_OP_N;
    uint64_t m = ta ? a->cols : a->rows, ka = ta ? a->rows : a->cols, kb = tb ? b->cols : b->rows,
             n = tb ? b->rows : b->cols;
    if (ka != kb) return wrong("A's and B's sizes along K", ka, kb);
    if (m != d->rows) return wrong("rows of A and of D", m, d->rows);
    if (n != d->cols) return wrong("columns of B and of D", n, d->cols);
    if (c->rows != d->rows || c->cols != d->cols) return wrong("rows of C and of D", c->rows, d->rows);
    for (int i = 0; i < 3; i++)
        if (p->m[i]->batch != d->batch)
            return wrong("numbers of matrices", (uint64_t)p->m[i]->batch, (uint64_t)d->batch);
    if (d->batch > 1 && d->stride <= 0)
        return wrong("results in one place: matrices, stride", (uint64_t)d->batch, (uint64_t)d->stride);
    return CUBLAS_STATUS_SUCCESS;
}
static bool gather(problem_t *p, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                   cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d) {
    const void *h[4] = {a, b, c, d};
    p->desc = fk_library_get(desc, LT_DESC);
    for (int i = 0; i < 4 && p->desc; i++)
        if (!(p->m[i] = fk_library_get(h[i], LT_LAYOUT))) return false;
    return p->desc;
}

/* Tells one problem from another; pointers do not count, but whether they are there. */
static uint64_t mix(uint64_t h, const void *p, size_t n) {
    const uint8_t *v = p;
    for (size_t i = 0; i < n; i++) h = (h ^ v[i]) * 0x100000001b3u;
    return h;
}
static uint64_t fingerprint(const problem_t *p) {
    lt_desc_t d;
    memcpy(&d, p->desc, sizeof d);
    for (int i = 0; i < LT_POINTERS; i++) d.at[i] = d.at[i] != 0;
    uint64_t h = mix(0xcbf29ce484222325u, &d, sizeof d);
    for (int i = 0; i < 4; i++) h = mix(h, p->m[i], sizeof *p->m[i]);
    return h;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t *results, int *returned) {
    static const struct {
        uint64_t workspace; cublasStatus_t state;
    } choices[CHOICES] = {{1 << 16, CUBLAS_STATUS_NOT_SUPPORTED},
                          {1 << 14, 0},
                          {0, 0},
                          {1 << 16, CUBLAS_STATUS_NOT_SUPPORTED},
                          {1 << 20, 0}};
    FK_ENTER(cublasLtMatmulAlgoGetHeuristic, 0);
    problem_t p = {0};
    const lt_preference_t *want = fk_library_get(preference, LT_PREFERENCE);
    if (!fk_library_get(handle, LT_HANDLE) || !want || !gather(&p, desc, a, b, c, d))
        return fk_leave(CUBLAS_STATUS_INVALID_VALUE);
    cublasStatus_t r = sizes_ok(&p);
    *returned = 0;
    if (r || (r = supported(&p, want->alignment))) return fk_leave(r);
    for (int i = 0; i < CHOICES && *returned < requested; i++) {
        if (choices[i].workspace > want->workspace) continue;
        cublasLtMatmulHeuristicResult_t *o = &results[(*returned)++];
        memset(o, 0, sizeof *o);
        o->state = choices[i].state;
        o->workspaceSize = choices[i].workspace;
        o->algo.data[AT_MAGIC] = MAGIC, o->algo.data[AT_PROBLEM] = fingerprint(&p);
        o->algo.data[AT_WORKSPACE] = choices[i].workspace, o->algo.data[AT_NUMBER] = (uint64_t)i;
        for (int k = 0; k < 4; k++) o->algo.data[AT_ALIGNMENT] |= (uint64_t)want->alignment[k] << 16 * k;
    }
    return fk_leave(*returned ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED);
}

/* ---- multiplying ---- */
enum { R_A, R_B, R_C, R_D, R_MORE, R_WORKSPACE = R_MORE + LT_POINTERS, RANGES };
typedef struct work {
    td_gemm_desc_t d;
    int more[LT_POINTERS], n_more; /* ranges behind D, in the order of the description */
    uint64_t workspace;
} work_t;

static CUresult run(const void *args, void *const *memory) {
    const work_t *w = args;
    void *bufs[4 + LT_POINTERS];
    for (int i = 0; i < 4; i++) bufs[i] = memory[i];
    if (!bufs[R_C]) bufs[R_C] = bufs[R_D];
    for (int i = 0; i < w->n_more; i++) bufs[4 + i] = memory[w->more[i]];
    CUresult r = fk_host_run("cublasLtMatmul", TD_OP_GEMM, &w->d, bufs);
    if (memory[R_WORKSPACE]) memset(memory[R_WORKSPACE], 0x5a, w->workspace); /* whoever needs it after this is wrong */
    return r;
}

static td_matrix_t matrix(const lt_layout_t *l, bool turned) {
    return (td_matrix_t){.type = type_of(l->type),
                         .column_major = !turned,
                         .rows = (int64_t)(turned ? l->cols : l->rows),
                         .cols = (int64_t)(turned ? l->rows : l->cols),
                         .ld = l->ld,
                         .batch = l->batch,
                         .batch_stride = l->stride};
}
static fk_range_t range(const lt_layout_t *l, const void *p, bool write) {
    uint64_t n = (uint64_t)(l->batch - 1) * (uint64_t)l->stride + (l->cols - 1) * (uint64_t)l->ld + l->rows;
    return (fk_range_t){(uintptr_t)p, p ? n * td_type_bytes(type_of(l->type)) : 0, write};
}
static bool overlap(const fk_range_t *a, const fk_range_t *b) {
    return a->bytes && b->bytes && (a->addr < b->addr ? b->addr - a->addr < a->bytes : a->addr - b->addr < b->bytes);
}

static td_epilogue_t epilogue(uint32_t e) {
    bool bias = e & CUBLASLT_EPILOGUE_BIAS, auxiliary = e & CUBLASLT_EPILOGUE_AUX;
    if (e & CUBLASLT_EPILOGUE_RELU) return bias ? TD_EPI_BIAS_RELU : TD_EPI_RELU;
    if (!(e & CUBLASLT_EPILOGUE_GELU)) return bias ? TD_EPI_BIAS : TD_EPI_NONE;
    if (auxiliary) return bias ? TD_EPI_BIAS_GELU_AUX : TD_EPI_GELU_AUX;
    return bias ? TD_EPI_BIAS_GELU : TD_EPI_GELU;
}
static void scale_value(int type, const void *p, double *re, double *im) {
    float f[2] = {0};
    double v[2] = {0};
    int32_t i = 0;
    _Float16 h = 0;
    *im = 0;
    switch (type) {
    case CUDA_R_32F: memcpy(f, p, 4), *re = (double)f[0]; break;
    case CUDA_C_32F: memcpy(f, p, 8), *re = (double)f[0], *im = (double)f[1]; break;
    case CUDA_R_64F: memcpy(v, p, 8), *re = v[0]; break;
    case CUDA_C_64F: memcpy(v, p, 16), *re = v[0], *im = v[1]; break;
    case CUDA_R_32I: memcpy(&i, p, 4), *re = i; break;
    default: memcpy(&h, p, 2), *re = (double)h;
    }
}

/* Bias, scales, further results: a range each, in the order that the description has. */
static cublasStatus_t more(const problem_t *p, work_t *w, fk_range_t *ranges) {
    const lt_desc_t *d = p->desc;
    const lt_layout_t *m = p->m[3];
    uint64_t element = td_type_bytes(type_of(d->bias_type < 0 ? m->type : d->bias_type));
    bool *const has[LT_POINTERS] = {&w->d.has_bias, &w->d.has_a_scale, &w->d.has_b_scale, &w->d.has_c_scale,
                                    &w->d.has_d_scale, &w->d.has_aux, &w->d.has_amax};
    if ((d->at[LT_BIAS] != 0) != ((d->epilogue & CUBLASLT_EPILOGUE_BIAS) != 0))
        return wrong("epilogue and bias", d->epilogue, d->at[LT_BIAS]);
    if ((d->at[LT_AUX] != 0) != ((d->epilogue & CUBLASLT_EPILOGUE_AUX) != 0))
        return wrong("epilogue and aux", d->epilogue, d->at[LT_AUX]);
    if (d->at[LT_AUX] && (d->aux_ld != m->ld || (m->batch > 1 && d->aux_stride != m->stride)))
        return wrong("aux is not like D", (uint64_t)d->aux_ld, (uint64_t)m->ld);
    for (int i = 0; i < LT_POINTERS; i++) {
        if (!d->at[i]) continue;
        *has[i] = true;
        fk_range_t g = {d->at[i], i == LT_BIAS ? m->rows * element : 4, i == LT_AMAX};
        if (i == LT_AUX) g = range(m, (void *)(uintptr_t)d->at[i], true);
        ranges[R_MORE + i] = g;
        w->more[w->n_more++] = R_MORE + i;
    }
    w->d.bias_type = d->bias_type < 0 ? TD_TYPE_INVALID : type_of(d->bias_type);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t algorithm(const problem_t *p, const cublasLtMatmulAlgo_t *algo, const void *workspace,
                                size_t bytes, const fk_range_t *ranges) {
    if (!algo || algo->data[AT_MAGIC] != MAGIC) return wrong("no algorithm was chosen", 0, 0);
    if (algo->data[AT_PROBLEM] != fingerprint(p))
        return wrong("the algorithm is for another product", algo->data[AT_PROBLEM], 0);
    if (bytes < algo->data[AT_WORKSPACE] || (bytes && !workspace))
        return wrong("too small a workspace", bytes, algo->data[AT_WORKSPACE]);
    if ((uintptr_t)workspace % 256)
        return wrong("the workspace does not lie at a multiple of 256", (uintptr_t)workspace, 256);
    for (int i = 0; i < 4; i++) {
        uint64_t alignment = algo->data[AT_ALIGNMENT] >> 16 * i & 0xffff;
        if (ranges[i].bytes && ranges[i].addr % alignment)
            return wrong("address and the algorithm's alignment", ranges[i].addr, alignment);
    }
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t multiply(const problem_t *p, const void *alpha, const void *beta, const void *const *at,
                               const cublasLtMatmulAlgo_t *algo, void *workspace, size_t bytes, CUstream stream) {
    work_t w = {.workspace = bytes};
    fk_range_t ranges[RANGES] = {{0}};
    double none = 0;
    cublasStatus_t r;
    scale_value(p->desc->scale, alpha, &w.d.alpha_real, &w.d.alpha_imag);
    scale_value(p->desc->scale, beta, &w.d.beta, &none);
    w.d.a = matrix(p->m[0], p->desc->op[0] != CUBLAS_OP_N), w.d.b = matrix(p->m[1], p->desc->op[1] != CUBLAS_OP_N);
    w.d.c = matrix(p->m[2], false), w.d.d = matrix(p->m[3], false);
    w.d.conjugate_a = p->desc->op[0] == CUBLAS_OP_C, w.d.conjugate_b = p->desc->op[1] == CUBLAS_OP_C;
    w.d.epilogue = epilogue(p->desc->epilogue);
    for (int i = 0; i < 4; i++) {
        if (i == R_C && w.d.beta == 0) continue;
        if (!at[i]) return wrong("no address for matrix", (uint64_t)i, 4);
        ranges[i] = range(p->m[i], at[i], i == R_D);
    }
    if (overlap(&ranges[R_A], &ranges[R_D]) || overlap(&ranges[R_B], &ranges[R_D]))
        return wrong("D lies over an operand", 0, 0);
    if ((r = more(p, &w, ranges)) || (r = algorithm(p, algo, workspace, bytes, ranges))) return r;
    ranges[R_WORKSPACE] = (fk_range_t){(uintptr_t)workspace, bytes, true};
    return fk_library_enqueue(stream, "cublasLtMatmul", ranges, RANGES, run, &w, sizeof w)
               ? CUBLAS_STATUS_EXECUTION_FAILED
               : 0;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout,
                              const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo, void *workspace,
                              size_t workspace_bytes, CUstream stream) {
    FK_ENTER(cublasLtMatmul, 0);
    problem_t p = {0};
    const void *at[4] = {a, b, c, d};
    if (!fk_library_get(handle, LT_HANDLE) || !gather(&p, desc, a_layout, b_layout, c_layout, d_layout))
        return fk_leave(CUBLAS_STATUS_INVALID_VALUE);
    cublasStatus_t r = sizes_ok(&p);
    if (!r && (r = supported(&p, NULL)))
        wrong("a product that the library has not, though it chose an algorithm", 0, 0);
    return fk_leave(r ? r : multiply(&p, alpha, beta, at, algo, workspace, workspace_bytes, stream));
}
