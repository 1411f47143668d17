/* SPDX-License-Identifier: Apache-2.0 */
/* cuBLAS: one handle for the device, whose stream and workspace are those of the call. */
#include "runtime/cuda/blas.h"

#include <stdio.h>

enum { VERSION_LEAST = 120000 }; /* 10000 * major + 100 * minor */

static td_status_t status_of(cublasStatus_t r) {
    switch (r) {
    case CUBLAS_STATUS_ALLOC_FAILED: return TD_NOMEM;
    case CUBLAS_STATUS_ARCH_MISMATCH: case CUBLAS_STATUS_NOT_SUPPORTED: return TD_UNSUPPORTED;
    default: return TD_DEVICE;
    }
}
td_status_t td_blas_check(cublasStatus_t r, const char *name, const char *call, const char *what, td_err_t *err) {
    if (!r) return TD_OK;
    return td_fail(err, status_of(r), "%s: %s: %s (%d)", what, call, name ? name : "an error without a name", r);
}
td_status_t td_blas_call(const td_blas_t *b, cublasStatus_t r, const char *call, const char *what, td_err_t *err) {
    return r ? td_blas_check(r, b->cublasGetStatusName(r), call, what, err) : TD_OK;
}

extern const td_cuda_lib_t td_blas_lib;
static td_status_t check_version(td_blas_t *b, const char *file, td_err_t *err) {
    char have[32];
    int v = 0;
    td_status_t st = TD_BLAS(b, file, err, cublasGetVersion_v2, b->handle, &v);
    if (st) return st;
    snprintf(have, sizeof have, "%d.%d", v / 10000, v / 100 % 100);
    return td_cuda_lib_version(&td_blas_lib, file, v, VERSION_LEAST, have, "12.0", err);
}
static td_status_t start(td_cuda_device_t *d, void *lib, const char *file, td_err_t *err) {
    td_blas_t *b = lib;
    (void)d;
    td_status_t st = TD_BLAS(b, file, err, cublasCreate_v2, &b->handle);
    if (st) return st;
    if ((st = check_version(b, file, err))) {
        b->cublasDestroy_v2(b->handle);
        return st;
    }
    pthread_mutex_init(&b->lock, NULL);
    return TD_OK;
}
static void stop(td_cuda_device_t *d, void *lib) {
    td_blas_t *b = lib;
    (void)d;
    b->cublasDestroy_v2(b->handle);
    pthread_mutex_destroy(&b->lock);
}

#define ROW(needed, type, name, args) TD_CUDA_LIB_ROW(td_blas_t, needed, name)
static const td_cuda_symbol_t symbols[] = {TD_BLAS_SYMBOLS(ROW)};
const td_cuda_lib_t td_blas_lib = {
    .name = "cuBLAS", .package = "the cuBLAS library of CUDA 12 or 13",
    .files = {{"libcublas.so.13", 13000}, {"libcublas.so.12", 12000}},
    .symbols = symbols, .n_symbols = sizeof symbols / sizeof *symbols, .bytes = sizeof(td_blas_t),
    .start = start, .stop = stop,
};
td_status_t td_blas_get(td_cuda_device_t *d, const char *what, td_blas_t **out, td_err_t *err) {
    return td_cuda_lib_get(d, &td_blas_lib, what, out, err);
}

/* Setting the stream takes the workspace away, so that comes second. */
td_status_t td_blas_begin(td_blas_t *b, td_stream_t *s, void *workspace, const char *what, td_err_t *err) {
    pthread_mutex_lock(&b->lock);
    td_status_t st = TD_BLAS(b, what, err, cublasSetStream_v2, b->handle, ((td_cuda_stream_t *)s)->handle);
    if (!st) st = TD_BLAS(b, what, err, cublasSetWorkspace_v2, b->handle, workspace, TD_BLAS_WORKSPACE);
    if (st) pthread_mutex_unlock(&b->lock);
    return st;
}
void td_blas_end(td_blas_t *b) { pthread_mutex_unlock(&b->lock); }
