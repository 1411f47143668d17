/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products through cuBLASLt: the library, and the launch. gemm.c makes the descriptors.
 * A descriptor holds the addresses of bias, scales and further results, so a launch that has any sets them and calls
 * the library under the kernel's lock; the library is done with the descriptor when its call returns. */
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "runtime/cuda/gemm.h"

enum { VERSION_LEAST = 120000 }; /* 10000 * major + 100 * minor; 12.0 is the first that CUDA 12 has */

/* ---- the library ---- */
extern const td_cuda_lib_t td_blaslt_lib;
static td_status_t start(td_cuda_device_t *d, void *lib, const char *file, td_err_t *err) {
    td_blaslt_t *lt = lib;
    char have[32];
    size_t v = lt->cublasLtGetVersion();
    (void)d;
    snprintf(have, sizeof have, "%zu.%zu", v / 10000, v / 100 % 100);
    td_status_t st = td_cuda_lib_version(&td_blaslt_lib, file, (long)v, VERSION_LEAST, have, "12.0", err);
    if (st) return st;
    cublasStatus_t r = lt->cublasLtCreate(&lt->handle);
    return td_blas_check(r, lt->cublasLtGetStatusName(r), "cublasLtCreate", file, err);
}
static void stop(td_cuda_device_t *d, void *lib) {
    td_blaslt_t *lt = lib;
    (void)d;
    lt->cublasLtDestroy(lt->handle);
}

#define ROW(needed, type, name, args) TD_CUDA_LIB_ROW(td_blaslt_t, needed, name)
static const td_cuda_symbol_t symbols[] = {TD_BLASLT_SYMBOLS(ROW)};
const td_cuda_lib_t td_blaslt_lib = {
    .name = "cuBLASLt", .package = "the cuBLAS library of CUDA 12 or 13",
    .files = {{"libcublasLt.so.13", 13000}, {"libcublasLt.so.12", 12000}},
    .symbols = symbols, .n_symbols = sizeof symbols / sizeof *symbols, .bytes = sizeof(td_blaslt_t),
    .start = start, .stop = stop,
};
td_status_t td_blaslt_get(td_cuda_device_t *d, td_blaslt_t **out, td_err_t *err) {
    return td_cuda_lib_get(d, &td_blaslt_lib, "matrix products", out, err);
}

/* ---- the launch ---- */
static td_status_t set_pointers(const td_cuda_gemm_t *g, void *const *bufs, td_err_t *err) {
    td_status_t st = TD_OK;
    for (uint32_t i = 0; i < g->n_pointers && !st; i++)
        st = TD_LT(g, err, cublasLtMatmulDescSetAttribute, g->desc, g->pointers[i].attribute,
                   &bufs[g->pointers[i].buffer], sizeof(void *));
    return st;
}

static bool aligned(const td_cuda_gemm_t *g, void *const *bufs) {
    uintptr_t all = (uintptr_t)bufs[0] | (uintptr_t)bufs[1] | (uintptr_t)bufs[3];
    if (g->reads_c) all |= (uintptr_t)bufs[2];
    return !(all % TD_GEMM_ALIGNMENT);
}

static td_status_t multiply(td_stream_t *s, const td_cuda_gemm_t *g, void *const *bufs, void *scratch, td_err_t *err) {
    const td_gemm_choice_t *c = &g->choices[aligned(g, bufs) ? 0 : 1];
    if (!c->valid)
        return td_fail(err, TD_UNSUPPORTED,
                       "%s: cuBLASLt takes these matrices only at multiples of %d bytes; they lie at %p, "
                       "%p, %p",
                       g->text, TD_GEMM_ALIGNMENT, bufs[0], bufs[1], bufs[3]);
    void *workspace = (void *)(((uintptr_t)scratch + TD_GEMM_WORKSPACE_ALIGNMENT - 1) &
                               ~(uintptr_t)(TD_GEMM_WORKSPACE_ALIGNMENT - 1));
    return TD_LT(g, err, cublasLtMatmul, g->lt->handle, g->desc, g->alpha, bufs[g->operands[0]], g->layouts[0],
                 bufs[g->operands[1]], g->layouts[1], g->beta, g->reads_c ? bufs[2] : NULL, g->layouts[2], bufs[3],
                 g->layouts[3], &c->algo, c->workspace ? workspace : NULL, c->workspace,
                 ((td_cuda_stream_t *)s)->handle);
}

static td_status_t launch(td_stream_t *s, const td_kernel_t *k, void *const *bufs, uint32_t n, void *scratch,
                          td_err_t *err) {
    td_cuda_gemm_t *g = (td_cuda_gemm_t *)(uintptr_t)k; /* its lock changes */
    if (n != g->n_bufs) return td_fail(err, TD_INTERNAL, "%s: %u buffers instead of %u", g->text, n, g->n_bufs);
    if (g->empty) return g->amax ? td_cuda_memset32(s, bufs[g->amax], 0, 4, err) : TD_OK;
    if (!g->n_pointers) return multiply(s, g, bufs, scratch, err);
    pthread_mutex_lock(&g->lock);
    td_status_t st = set_pointers(g, bufs, err);
    if (!st) st = multiply(s, g, bufs, scratch, err);
    pthread_mutex_unlock(&g->lock);
    return st;
}

static void release(td_kernel_t *k) {
    td_cuda_gemm_t *g = (td_cuda_gemm_t *)k;
    (void)td_cuda_enter(g->device, NULL);
    for (int i = 0; i < 4; i++)
        if (g->layouts[i]) g->lt->cublasLtMatrixLayoutDestroy(g->layouts[i]);
    if (g->desc) g->lt->cublasLtMatmulDescDestroy(g->desc);
    memset(g->layouts, 0, sizeof g->layouts);
    g->desc = NULL;
    pthread_mutex_destroy(&g->lock);
}

td_status_t td_cuda_gemm_lower(td_cuda_device_t *d, const void *desc, td_arena_t *arena, td_kernel_t **out,
                               uint64_t *out_scratch, td_err_t *err) {
    td_cuda_gemm_t *g = TD_NEW(arena, td_cuda_gemm_t);
    if (!g) return td_arena_fail(arena, err);
    g->base = (td_kernel_t){.launch = launch, .release = release};
    g->device = d;
    pthread_mutex_init(&g->lock, NULL);
    td_status_t st = td_blaslt_get(d, &g->lt, err);
    if (!st) st = td_cuda_gemm_plan(g, desc, err);
    if (st) {
        release(&g->base);
        return st;
    }
    uint64_t most = 0;
    for (int i = 0; i < 2; i++)
        if (g->choices[i].valid && g->choices[i].workspace > most) most = g->choices[i].workspace;
    *out_scratch = most ? most + TD_GEMM_WORKSPACE_ALIGNMENT : 0;
    *out = &g->base;
    return TD_OK;
}
