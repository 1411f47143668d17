/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for cuBLASLt: objects, and what may be asked of them. lib_blaslt_run.c multiplies. */
#include <string.h>

#include "tests/fakecuda/lib_blaslt.h"

const char LT_HANDLE[] = "cuBLASLt handle", LT_LAYOUT[] = "matrix layout", LT_DESC[] = "matmul descriptor",
           LT_PREFERENCE[] = "matmul preference";

size_t cublasLtGetVersion(void) { return FAKE_BLASLT_VERSION; }
const char *cublasLtGetStatusName(cublasStatus_t status) {
    switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return "CUBLAS_STATUS_OTHER";
    }
}

static cublasStatus_t made(void *handle, void *out) {
    if (!handle) return CUBLAS_STATUS_ALLOC_FAILED;
    memcpy(out, &handle, sizeof handle);
    return CUBLAS_STATUS_SUCCESS;
}
static cublasStatus_t ended(void *handle, const char *what) {
    return fk_library_end(handle, what) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
/* An attribute's value, which must have exactly the size that the header names. */
static cublasStatus_t take(void *to, size_t want, int attribute, const void *value, size_t bytes) {
    if (value && bytes == want) {
        memcpy(to, value, bytes);
        return CUBLAS_STATUS_SUCCESS;
    }
    return (cublasStatus_t)fk_fault(FK_ARGUMENTS, CUBLAS_STATUS_INVALID_VALUE,
                                    "attribute %d has %zu bytes, given are %zu", attribute, want, bytes);
}
static cublasStatus_t unknown(int attribute) {
    return (cublasStatus_t)fk_fault(FK_ARGUMENTS, CUBLAS_STATUS_INVALID_VALUE, "attribute %d is not known here",
                                    attribute);
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
    FK_ENTER(cublasLtCreate, 0);
    return fk_leave(made(fk_library_new(LT_HANDLE, 8), handle));
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    FK_ENTER(cublasLtDestroy, 0);
    return fk_leave(ended(handle, LT_HANDLE));
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, int type, uint64_t rows, uint64_t cols,
                                          int64_t ld) {
    FK_ENTER(cublasLtMatrixLayoutCreate, 0);
    if (!rows || !cols || ld < (int64_t)rows)
        return fk_leave(fk_fault(FK_ARGUMENTS, CUBLAS_STATUS_INVALID_VALUE,
                                 "a matrix of %llu rows and %llu columns with leading "
                                 "dimension %lld",
                                 (unsigned long long)rows, (unsigned long long)cols, (long long)ld));
    void *h = fk_library_new(LT_LAYOUT, sizeof(lt_layout_t));
    lt_layout_t *l = h ? fk_library_get(h, LT_LAYOUT) : NULL;
    if (l) *l = (lt_layout_t){type, 1, rows, cols, ld, 0};
    return fk_leave(made(h, out));
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
    FK_ENTER(cublasLtMatrixLayoutDestroy, 0);
    return fk_leave(ended(layout, LT_LAYOUT));
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, int attribute, const void *value,
                                                size_t bytes) {
    FK_ENTER(cublasLtMatrixLayoutSetAttribute, 0);
    lt_layout_t *l = fk_library_get(layout, LT_LAYOUT);
    if (!l) return fk_leave(CUBLAS_STATUS_INVALID_VALUE);
    switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: return fk_leave(take(&l->batch, 4, attribute, value, bytes));
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: return fk_leave(take(&l->stride, 8, attribute, value, bytes));
    default: return fk_leave(unknown(attribute));
    }
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, int compute_type, int scale_type) {
    FK_ENTER(cublasLtMatmulDescCreate, 0);
    void *h = fk_library_new(LT_DESC, sizeof(lt_desc_t));
    lt_desc_t *d = h ? fk_library_get(h, LT_DESC) : NULL;
    if (d)
        *d = (lt_desc_t){
            .compute = compute_type, .scale = scale_type, .epilogue = CUBLASLT_EPILOGUE_DEFAULT, .bias_type = -1};
    return fk_leave(made(h, out));
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
    FK_ENTER(cublasLtMatmulDescDestroy, 0);
    return fk_leave(ended(desc, LT_DESC));
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, int a, const void *value, size_t bytes) {
    FK_ENTER(cublasLtMatmulDescSetAttribute, 0);
    lt_desc_t *d = fk_library_get(desc, LT_DESC);
    if (!d) return fk_leave(CUBLAS_STATUS_INVALID_VALUE);
    switch (a) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return fk_leave(take(&d->op[0], 4, a, value, bytes));
    case CUBLASLT_MATMUL_DESC_TRANSB: return fk_leave(take(&d->op[1], 4, a, value, bytes));
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return fk_leave(take(&d->epilogue, 4, a, value, bytes));
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return fk_leave(take(&d->at[LT_BIAS], 8, a, value, bytes));
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: return fk_leave(take(&d->at[LT_AUX], 8, a, value, bytes));
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: return fk_leave(take(&d->aux_ld, 8, a, value, bytes));
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE: return fk_leave(take(&d->aux_stride, 8, a, value, bytes));
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER: return fk_leave(take(&d->at[LT_A_SCALE], 8, a, value, bytes));
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER: return fk_leave(take(&d->at[LT_B_SCALE], 8, a, value, bytes));
    case CUBLASLT_MATMUL_DESC_C_SCALE_POINTER: return fk_leave(take(&d->at[LT_C_SCALE], 8, a, value, bytes));
    case CUBLASLT_MATMUL_DESC_D_SCALE_POINTER: return fk_leave(take(&d->at[LT_D_SCALE], 8, a, value, bytes));
    case CUBLASLT_MATMUL_DESC_AMAX_D_POINTER: return fk_leave(take(&d->at[LT_AMAX], 8, a, value, bytes));
    case CUBLASLT_MATMUL_DESC_FAST_ACCUM: return fk_leave(take(&d->fast, 1, a, value, bytes));
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return fk_leave(take(&d->bias_type, 4, a, value, bytes));
    case CUBLASLT_MATMUL_DESC_A_SCALE_MODE: return fk_leave(take(&d->mode[0], 4, a, value, bytes));
    case CUBLASLT_MATMUL_DESC_B_SCALE_MODE: return fk_leave(take(&d->mode[1], 4, a, value, bytes));
    default: return fk_leave(unknown(a));
    }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out) {
    FK_ENTER(cublasLtMatmulPreferenceCreate, 0);
    void *h = fk_library_new(LT_PREFERENCE, sizeof(lt_preference_t));
    lt_preference_t *p = h ? fk_library_get(h, LT_PREFERENCE) : NULL;
    if (p) *p = (lt_preference_t){0, {256, 256, 256, 256}};
    return fk_leave(made(h, out));
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
    FK_ENTER(cublasLtMatmulPreferenceDestroy, 0);
    return fk_leave(ended(preference, LT_PREFERENCE));
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference, int a, const void *value,
                                                    size_t bytes) {
    FK_ENTER(cublasLtMatmulPreferenceSetAttribute, 0);
    lt_preference_t *p = fk_library_get(preference, LT_PREFERENCE);
    if (!p) return fk_leave(CUBLAS_STATUS_INVALID_VALUE);
    if (a == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) return fk_leave(take(&p->workspace, 8, a, value, bytes));
    if (a >= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES && a < CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + 4)
        return fk_leave(take(&p->alignment[a - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], 4, a, value, bytes));
    return fk_leave(unknown(a));
}
