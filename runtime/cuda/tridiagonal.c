/* SPDX-License-Identifier: Apache-2.0 */
/* cusparse_gtsv2_ffi: tridiagonal systems through cuSPARSE, which overwrites the right-hand sides; a call for each
 * system of the batch. dl[0] and du[m-1] must be zero there and may be anything in a call, so the diagonals are
 * copied. */
#include "runtime/cuda/custom.h"
#include "runtime/cuda/sparse.h"

enum { ROWS_LEAST = 3, WORK_ALIGN = 256 };

typedef struct gtsv2 {
    td_kernel_t base;
    td_cuda_device_t *device;
    td_sparse_lib_t *lib;
    td_mats_t b;
    int t;
    uint64_t elem, d_bytes, b_bytes; /* of one element, diagonal, matrix */
    uint64_t dl_at, du_at, work_at;
} gtsv2_t;

static td_status_t solve(td_stream_t *s, const gtsv2_t *g, void *const *bufs, int64_t i, char *scratch, td_err_t *err) {
    uint64_t vec = (uint64_t)i * g->d_bytes;
    char *dl = scratch + g->dl_at, *du = scratch + g->du_at;
    td_status_t st = td_cuda_copy(s, dl, (char *)bufs[0] + vec, g->d_bytes, err);
    if (!st) st = td_cuda_copy(s, du, (char *)bufs[2] + vec, g->d_bytes, err);
    if (!st) st = td_cuda_memset32(s, dl, 0, g->elem, err);
    if (!st) st = td_cuda_memset32(s, du + g->d_bytes - g->elem, 0, g->elem, err);
    if (st) return st;
    int m = g->b.rows, n = g->b.cols;
    return td_sparse_check(g->lib,
                           g->lib->gtsv2[g->t](g->lib->handle, m, n, dl, (char *)bufs[1] + vec, du,
                                               (char *)bufs[4] + (uint64_t)i * g->b_bytes, m, scratch + g->work_at),
                           "gtsv2", err);
}
static td_status_t launch(td_stream_t *s, const td_kernel_t *k, void *const *bufs, uint32_t n, void *scratch,
                          td_err_t *err) {
    const gtsv2_t *g = (const gtsv2_t *)k;
    (void)n;
    if (!g->lib) return TD_OK;
    char *at = (char *)td_align_up((uintptr_t)scratch, WORK_ALIGN);
    td_status_t st = td_cuda_copy(s, bufs[4], bufs[3], g->b_bytes * (uint64_t)g->b.batch, err);
    if (st) return st;
    pthread_mutex_lock(&g->lib->lock);
    st = td_sparse_check(g->lib, g->lib->cusparseSetStream(g->lib->handle, ((td_cuda_stream_t *)s)->handle),
                         "cusparseSetStream", err);
    for (int64_t i = 0; i < g->b.batch && !st; i++) st = solve(s, g, bufs, i, at, err);
    pthread_mutex_unlock(&g->lib->lock);
    return st;
}

static td_status_t prepare(gtsv2_t *g, uint64_t *out_scratch, td_err_t *err) {
    uint64_t total = 0;
    size_t work = 0;
    pthread_mutex_lock(&g->lib->lock);
    td_status_t st = td_sparse_check(
        g->lib,
        g->lib->gtsv2_size[g->t](g->lib->handle, g->b.rows, g->b.cols, NULL, NULL, NULL, NULL, g->b.rows, &work),
        "gtsv2_bufferSizeExt", err);
    pthread_mutex_unlock(&g->lib->lock);
    if (st || (st = td_hc_scratch(&total, work, 1, &g->work_at, err)) ||
        (st = td_hc_scratch(&total, g->d_bytes, 1, &g->dl_at, err)) ||
        (st = td_hc_scratch(&total, g->d_bytes, 1, &g->du_at, err)))
        return st;
    *out_scratch = total + WORK_ALIGN;
    return TD_OK;
}

TD_CUDA_TARGET(gtsv2) {
    td_linalg_t l = {0};
    td_status_t st = td_linalg_tridiagonal(desc, &l, err);
    if (st) return st;
    gtsv2_t *g = TD_NEW(arena, gtsv2_t);
    if (!g) return td_arena_fail(arena, err);
    *g = (gtsv2_t){.base.launch = launch, .device = d, .b = l.a};
    g->t = l.a.type == TD_F32 ? 0 : l.a.type == TD_F64 ? 1 : l.a.type == TD_C64 ? 2 : 3;
    g->elem = td_type_bytes(l.a.type);
    g->d_bytes = (uint64_t)l.a.rows * g->elem;
    g->b_bytes = g->d_bytes * (uint64_t)l.a.cols;
    *out = &g->base;
    *out_scratch = 0;
    if (!l.a.batch || !l.a.rows || !l.a.cols) return TD_OK;
    if (l.a.rows < ROWS_LEAST) /* cuSPARSE wants three; JAX solves smaller ones itself */
        return td_cuda_on_host(d, desc, arena, out, out_scratch, err);
    st = td_sparse_lib_get(d, "tridiagonal systems", &g->lib, err);
    return st ? st : prepare(g, out_scratch, err);
}
