/* SPDX-License-Identifier: Apache-2.0 */
/* Targets that kernels of the runtime's own compute. */
#include "runtime/cuda/custom.h"
#include "runtime/cuda/own.h"

typedef struct builtin {
    td_kernel_t base;
    CUfunction f;
    uint64_t n;            /* elements, matrices, or the order of the matrix */
    td_pivots_t pivots;
    uint64_t r_bytes, x_bytes;
} builtin_t;

static td_status_t make(td_cuda_device_t *d, const char *name, const builtin_t *b, td_arena_t *arena, td_kernel_t **out,
                        uint64_t *out_scratch, td_err_t *err) {
    builtin_t *k = TD_NEW(arena, builtin_t);
    if (!k) return td_arena_fail(arena, err);
    *k = *b;
    *out = &k->base;
    *out_scratch = 0;
    return name && b->n ? td_cuda_own_get(d, name, &k->f, err) : TD_OK;
}

static td_status_t launch_threefry(td_stream_t *s, const td_kernel_t *k, void *const *bufs, uint32_t n, void *scratch,
                                   td_err_t *err) {
    builtin_t b = *(const builtin_t *)k;
    void *params[7] = {[6] = &b.n};
    (void)n, (void)scratch;
    for (int i = 0; i < 6; i++) params[i] = (void *)(uintptr_t)&bufs[i];
    return td_cuda_own_launch(s, b.f, b.n, params, "cu_threefry2x32_ffi", err);
}
TD_CUDA_TARGET(threefry) {
    int64_t n = 0;
    td_status_t st = td_linalg_threefry(desc, &n, err);
    builtin_t b = {.base.launch = launch_threefry, .n = (uint64_t)n};
    return st ? st : make(d, "td_threefry", &b, arena, out, out_scratch, err);
}

static td_status_t launch_pivots(td_stream_t *s, const td_kernel_t *k, void *const *bufs, uint32_t n, void *scratch,
                                 td_err_t *err) {
    builtin_t b = *(const builtin_t *)k;
    int32_t p = (int32_t)b.pivots.p, q = (int32_t)b.pivots.q;
    void *params[] = {(void *)(uintptr_t)&bufs[0], (void *)(uintptr_t)&bufs[1], &b.n, &p, &q};
    (void)n, (void)scratch;
    return q ? td_cuda_own_launch(s, b.f, b.n, params, "cu_lu_pivots_to_permutation", err) : TD_OK;
}
TD_CUDA_TARGET(lu_pivots) {
    builtin_t b = {.base.launch = launch_pivots};
    td_status_t st = td_linalg_pivots(desc, &b.pivots, err);
    b.n = (uint64_t)b.pivots.batch;
    return st ? st : make(d, "td_pivots", &b, arena, out, out_scratch, err);
}

static td_status_t launch_update(td_stream_t *s, const td_kernel_t *k, void *const *bufs, uint32_t n, void *scratch,
                                 td_err_t *err) {
    builtin_t b = *(const builtin_t *)k;
    void *params[] = {(void *)(uintptr_t)&bufs[2], (void *)(uintptr_t)&bufs[3], &b.n};
    (void)n, (void)scratch;
    td_status_t st = b.n ? td_cuda_copy(s, bufs[2], bufs[0], b.r_bytes, err) : TD_OK;
    if (st || !b.n || (st = td_cuda_copy(s, bufs[3], bufs[1], b.x_bytes, err))) return st;
    return td_cuda_own_launch_block(s, b.f, params, "cu_cholesky_update_ffi", err);
}
TD_CUDA_TARGET(cholesky_update) {
    td_linalg_t l = {0};
    td_status_t st = td_linalg_cholesky_update(desc, &l, err);
    builtin_t b = {.base.launch = launch_update, .n = l.a.batch ? (uint64_t)l.a.rows : 0};
    b.x_bytes = b.n * td_type_bytes(l.a.type);
    b.r_bytes = b.n * b.x_bytes;
    return st ? st : make(d, l.a.type == TD_F32 ? "td_cholesky_update_f32" : "td_cholesky_update_f64", &b, arena, out,
                          out_scratch, err);
}

static td_status_t launch_nothing(td_stream_t *s, const td_kernel_t *k, void *const *bufs, uint32_t n, void *scratch,
                                  td_err_t *err) {
    (void)s, (void)k, (void)bufs, (void)n, (void)scratch, (void)err;
    return TD_OK;
}
TD_CUDA_TARGET(nothing) {
    builtin_t b = {.base.launch = launch_nothing};
    td_status_t st = td_hc_arity(desc, 1, 0, err);
    return st ? st : make(d, NULL, &b, arena, out, out_scratch, err);
}
