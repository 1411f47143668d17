/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for cuBLAS: triangular systems, done by the host device. Every call has a stream and a workspace that were
 * given for it: without, the library takes memory of its own, which no budget knows. */
#include <string.h>

#include "tests/fakecuda/lib_blas.h"

enum { VERSION = 130100 };
const char BLAS_HANDLE[] = "cuBLAS handle";

const char *cublasGetStatusName(cublasStatus_t status) {
    return status == CUBLAS_STATUS_SUCCESS         ? "CUBLAS_STATUS_SUCCESS"
           : status == CUBLAS_STATUS_INVALID_VALUE ? "CUBLAS_STATUS_INVALID_VALUE"
                                                   : "CUBLAS_STATUS_OTHER";
}
cublasStatus_t cublasCreate_v2(cublasHandle_t *handle) {
    FK_ENTER(cublasCreate_v2, 0);
    void *h = fk_library_new(BLAS_HANDLE, sizeof(blas_handle_t));
    if (!h) return fk_leave(CUBLAS_STATUS_ALLOC_FAILED);
    memcpy(handle, &h, sizeof h);
    return fk_leave(CUBLAS_STATUS_SUCCESS);
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
    FK_ENTER(cublasDestroy_v2, 0);
    return fk_leave(fk_library_end(handle, BLAS_HANDLE) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE);
}
cublasStatus_t cublasGetVersion_v2(cublasHandle_t handle, int *version) {
    FK_ENTER(cublasGetVersion_v2, 0);
    *version = VERSION;
    return fk_leave(fk_library_get(handle, BLAS_HANDLE) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE);
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, CUstream stream) {
    FK_ENTER(cublasSetStream_v2, 0);
    blas_handle_t *h = fk_library_get(handle, BLAS_HANDLE);
    if (!h) return fk_leave(CUBLAS_STATUS_INVALID_VALUE);
    *h = (blas_handle_t){.stream = stream, .has_stream = true, .pointer_mode = h->pointer_mode};
    return fk_leave(CUBLAS_STATUS_SUCCESS);
}
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t bytes) {
    FK_ENTER(cublasSetWorkspace_v2, 0);
    blas_handle_t *h = fk_library_get(handle, BLAS_HANDLE);
    if (!h || (uintptr_t)workspace % 256) return fk_leave(CUBLAS_STATUS_INVALID_VALUE);
    h->workspace = workspace;
    h->workspace_bytes = bytes;
    return fk_leave(CUBLAS_STATUS_SUCCESS);
}

/* ---- triangular systems ---- */
typedef struct work {
    td_triangular_desc_t d; /* of one matrix */
    uint64_t a_bytes, b_bytes, workspace;
    int batch; /* 0: the ranges are the matrices, else arrays of addresses */
} work_t;

static CUresult run(const void *args, void *const *memory) {
    const work_t *w = args;
    CUresult r = CUDA_SUCCESS;
    if (!w->batch) r = fk_host_run("trsm", TD_OP_TRIANGULAR_SOLVE, &w->d, (void *const[]){memory[0], memory[1]});
    for (int i = 0; i < w->batch && !r; i++) {
        uint64_t at[2];
        void *bufs[2];
        for (int k = 0; k < 2; k++) {
            memcpy(&at[k], (char *)memory[k] + 8 * i, 8);
            bufs[k] =
                fk_library_memory(at[k], k ? w->b_bytes : w->a_bytes, k ? "B of trsmBatched" : "A of trsmBatched");
            if (!bufs[k]) return CUDA_ERROR_ILLEGAL_ADDRESS;
        }
        r = fk_host_run("trsmBatched", TD_OP_TRIANGULAR_SOLVE, &w->d, bufs);
    }
    memset(memory[2], 0x5a, w->workspace);
    return r;
}

static cublasStatus_t wrong(const char *text, uint64_t a, uint64_t b) {
    return (cublasStatus_t)fk_fault(FK_ARGUMENTS, CUBLAS_STATUS_INVALID_VALUE, "%s: %llu and %llu", text,
                                    (unsigned long long)a, (unsigned long long)b);
}
static bool one_is_one(td_type_t type, const void *alpha) {
    static const float f[2] = {1, 0};
    static const double d[2] = {1, 0};
    bool wide = type == TD_F64 || type == TD_C128;
    return !memcmp(alpha, wide ? (const void *)d : f, td_type_bytes(type));
}

static cublasStatus_t trsm(td_type_t type, cublasHandle_t handle, int side, int uplo, int trans, int diag, int m, int n,
                           const void *alpha, const void *a, int lda, const void *b, int ldb, int batch) {
    const blas_handle_t *h = fk_library_get(handle, BLAS_HANDLE);
    int wide = side == CUBLAS_SIDE_LEFT ? m : n;
    if (!h) return CUBLAS_STATUS_INVALID_VALUE;
    if (!h->has_stream || !h->workspace)
        return wrong("no stream or no workspace was set", h->has_stream, h->workspace_bytes);
    if (h->pointer_mode != CUBLAS_POINTER_MODE_HOST) return wrong("pointer mode", (uint64_t)h->pointer_mode, 0);
    if (m < 1 || n < 1 || side < 0 || side > 1 || uplo < 0 || uplo > 1 || diag < 0 || diag > 1 || trans < 0 ||
        trans > 2)
        return wrong("sizes or options", (uint64_t)m, (uint64_t)n);
    if (lda != wide || ldb != m) return wrong("leading dimensions that are not dense", (uint64_t)lda, (uint64_t)ldb);
    if (!one_is_one(type, alpha)) return wrong("alpha is not 1", 0, 0);
    work_t w = {.d = {.type = type,
                      .left = side == CUBLAS_SIDE_LEFT,
                      .lower = uplo == CUBLAS_FILL_MODE_LOWER,
                      .unit_diagonal = diag == CUBLAS_DIAG_UNIT,
                      .transpose = (td_transpose_t)(trans + 1),
                      .m = m,
                      .n = n,
                      .batch = 1},
                .batch = batch,
                .workspace = h->workspace_bytes};
    w.a_bytes = (uint64_t)wide * (uint64_t)wide * td_type_bytes(type);
    w.b_bytes = (uint64_t)m * (uint64_t)n * td_type_bytes(type);
    uint64_t list = 8 * (uint64_t)batch;
    fk_range_t ranges[3] = {{(uintptr_t)a, batch ? list : w.a_bytes, false},
                            {(uintptr_t)b, batch ? list : w.b_bytes, !batch},
                            {(uintptr_t)h->workspace, h->workspace_bytes, true}};
    return fk_library_enqueue(h->stream, batch ? "trsmBatched" : "trsm", ranges, 3, run, &w, sizeof w)
               ? CUBLAS_STATUS_EXECUTION_FAILED
               : CUBLAS_STATUS_SUCCESS;
}

#define TRSM(letter, type)                                                                                             \
    cublasStatus_t cublas##letter##trsm_v2 TD_BLAS_TRSM {                                                              \
        FK_ENTER(cublas##letter##trsm_v2, 0);                                                                          \
        return fk_leave(trsm(type, handle, side, uplo, trans, diag, m, n, alpha, a, lda, b, ldb, 0));                  \
    }                                                                                                                  \
    cublasStatus_t cublas##letter##trsmBatched TD_BLAS_TRSM_BATCHED {                                                  \
        FK_ENTER(cublas##letter##trsmBatched, 0);                                                                      \
        if (batch < 1) return fk_leave(CUBLAS_STATUS_INVALID_VALUE);                                                   \
        return fk_leave(trsm(type, handle, side, uplo, trans, diag, m, n, alpha, a, lda, b, ldb, batch));              \
    }
TRSM(S, TD_F32)
TRSM(D, TD_F64)
TRSM(C, TD_C64)
TRSM(Z, TD_C128)
