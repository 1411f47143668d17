/* SPDX-License-Identifier: Apache-2.0 */
/* cusparse_{csr,coo}_{todense,fromdense}_ffi by kernels of the runtime's own, which drop entries outside the matrix,
 * never write more than nnz entries and pad as JAX does; cuSPARSE trusts what it reads. */
#include "runtime/cuda/custom.h"
#include "runtime/cuda/own.h"
#include "runtime/cuda/sparse.h"

typedef struct convert {
    td_kernel_t base;
    td_body_sparse_t a;
    bool from;
    uint64_t dense_bytes;
    CUfunction todense, count, starts, fromdense;
} convert_t;

static td_status_t to_dense(td_stream_t *s, const convert_t *k, void *const *bufs, td_err_t *err) {
    td_body_sparse_t a = k->a;
    void *params[] = {(void *)(uintptr_t)&bufs[0], (void *)(uintptr_t)&bufs[1], (void *)(uintptr_t)&bufs[2], &a,
                      (void *)(uintptr_t)&bufs[3]};
    td_status_t st = td_cuda_memset32(s, bufs[3], 0, k->dense_bytes, err);
    if (st || !k->dense_bytes) return st;
    return td_cuda_own_launch(s, k->todense, (uint64_t)(a.csr ? a.rows : a.nnz), params, "sparse to dense", err);
}
static td_status_t from_dense(td_stream_t *s, const convert_t *k, void *const *bufs, void *counts, td_err_t *err) {
    td_body_sparse_t a = k->a;
    void *count[] = {&a, (void *)(uintptr_t)&bufs[0], &counts};
    void *starts[] = {(void *)(uintptr_t)&bufs[1], (void *)(uintptr_t)&bufs[2], (void *)(uintptr_t)&bufs[3], &a,
                      &counts};
    void *fill[] = {(void *)(uintptr_t)&bufs[1], (void *)(uintptr_t)&bufs[2], (void *)(uintptr_t)&bufs[3], &a,
                    (void *)(uintptr_t)&bufs[0], &counts};
    uint64_t rows = (uint64_t)a.rows, nnz = (uint64_t)a.nnz;
    td_status_t st = td_cuda_own_launch(s, k->count, rows, count, "dense to sparse", err);
    if (!st) st = td_cuda_own_launch(s, k->starts, 1, starts, "dense to sparse", err);
    return st ? st : td_cuda_own_launch(s, k->fromdense, rows > nnz ? rows : nnz, fill, "dense to sparse", err);
}
static td_status_t launch(td_stream_t *s, const td_kernel_t *base, void *const *bufs, uint32_t n, void *scratch,
                          td_err_t *err) {
    const convert_t *k = (const convert_t *)base;
    (void)n;
    return k->from ? from_dense(s, k, bufs, scratch, err) : to_dense(s, k, bufs, err);
}

TD_CUDA_TARGET(sparse_convert) {
    td_sparse_t v = {0};
    uint64_t at = 0;
    td_status_t st = td_linalg_sparse(desc, &v, err);
    if (st) return st;
    convert_t *k = TD_NEW(arena, convert_t);
    if (!k) return td_arena_fail(arena, err);
    *k = (convert_t){.base.launch = launch, .a = td_sparse_body(&v), .from = v.op == TD_SPARSE_FROMDENSE};
    k->dense_bytes = (uint64_t)(v.rows * v.cols) * td_type_bytes(v.type);
    *out = &k->base;
    *out_scratch = 0;
    if (!k->from) return td_cuda_own_get(d, "td_sparse_todense", &k->todense, err);
    if ((st = td_hc_scratch(out_scratch, (uint64_t)v.rows + 1, 8, &at, err)) ||
        (st = td_cuda_own_get(d, "td_sparse_count", &k->count, err)) ||
        (st = td_cuda_own_get(d, "td_sparse_starts", &k->starts, err)))
        return st;
    return td_cuda_own_get(d, "td_sparse_fromdense", &k->fromdense, err);
}
