/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of the runtime's own, for what no library does. kernels.ptx is made from this file by tools/gen_kernels.sh,
 * which needs nvcc; building thunkd does not. */
#include "runtime/cuda/kernels_body.h"

#define KERNEL extern "C" __global__ void
#define INDEX ((uint64_t)blockIdx.x * blockDim.x + threadIdx.x)
#define STRIDE ((uint64_t)gridDim.x * blockDim.x)

KERNEL __launch_bounds__(256) td_scale_f32(float *p, uint64_t n, float factor) {
    for (uint64_t i = INDEX; i < n; i += STRIDE) p[i] *= factor;
}
KERNEL __launch_bounds__(256) td_scale_f64(double *p, uint64_t n, double factor) {
    for (uint64_t i = INDEX; i < n; i += STRIDE) p[i] *= factor;
}

/* out[i] = base + i * step */
KERNEL __launch_bounds__(256) td_pointers(uint64_t *out, uint64_t base, uint64_t step, uint64_t n) {
    for (uint64_t i = INDEX; i < n; i += STRIDE) out[i] = base + i * step;
}

KERNEL __launch_bounds__(256) td_threefry(const uint32_t *k0, const uint32_t *k1, const uint32_t *x, const uint32_t *y,
                                          uint32_t *out0, uint32_t *out1, uint64_t n) {
    for (uint64_t i = INDEX; i < n; i += STRIDE) {
        uint32_t a, b;
        td_body_threefry(k0[i], k1[i], x[i], y[i], &a, &b);
        out0[i] = a;
        out1[i] = b;
    }
}

/* One thread for each matrix. */
KERNEL __launch_bounds__(256)
    td_pivots(const int32_t *pivots, int32_t *permutations, uint64_t batch, int32_t p, int32_t q) {
    for (uint64_t i = INDEX; i < batch; i += STRIDE)
        td_body_pivots(pivots + i * (uint64_t)p, permutations + i * (uint64_t)q, p, q);
}

/* One block: a rotation for each row, from the first on, makes x vanish. All threads know the rotation before one of
 * them changes what it came from. */
template <typename T> static __device__ void update(T *r, T *x, uint64_t n) {
    for (uint64_t k = 0; k < n; k++) {
        T *row = r + k * n, a = row[k], b = x[k], h = hypot(a, b), c = 1, s = 0;
        if (b != 0) c = a / h, s = b / h;
        __syncthreads();
        for (uint64_t i = k + threadIdx.x; i < n; i += blockDim.x) TD_BODY_ROTATE(T, row, x, i, c, s);
        __syncthreads();
    }
}
KERNEL __launch_bounds__(256) td_cholesky_update_f32(float *r, float *x, uint64_t n) { update(r, x, n); }
KERNEL __launch_bounds__(256) td_cholesky_update_f64(double *r, double *x, uint64_t n) { update(r, x, n); }

/* A block for each row: the next best again and again, each time the best of those that come after the last one. That
 * is k * n / 256 steps, little for the k of sampling and beam search; no scratch, no sorting. */
KERNEL __launch_bounds__(256) td_topk(const uint8_t *x, uint8_t *values, int32_t *positions, uint64_t batch, uint64_t n,
                                      uint64_t k, uint32_t bytes, uint32_t order) {
    __shared__ uint64_t keys[256];
    __shared__ uint32_t at[256];
    uint32_t t = threadIdx.x;
    for (uint64_t row = blockIdx.x; row < batch; row += gridDim.x) {
        const uint8_t *from = x + row * n * bytes;
        uint64_t last = 0;
        uint32_t last_at = TD_BODY_NOWHERE;
        for (uint64_t i = row * k; i < (row + 1) * k; i++) {
            uint64_t best = 0;
            uint32_t best_at = TD_BODY_NOWHERE;
            for (uint32_t j = t; j < n; j += 256) {
                uint64_t v = td_body_key(from, j, bytes, order);
                bool after = last_at == TD_BODY_NOWHERE || td_body_before(last, last_at, v, j);
                if (after && td_body_before(v, j, best, best_at)) best = v, best_at = j;
            }
            keys[t] = best, at[t] = best_at;
            for (uint32_t s = 128; s; s >>= 1) {
                __syncthreads();
                if (t < s && td_body_before(keys[t + s], at[t + s], keys[t], at[t]))
                    keys[t] = keys[t + s], at[t] = at[t + s];
            }
            __syncthreads();
            last = keys[0], last_at = at[0];
            if (t < bytes) values[i * bytes + t] = from[(uint64_t)last_at * bytes + t];
            if (!t) positions[i] = (int32_t)last_at;
            __syncthreads();
        }
    }
}

/* ---- sparse matrices: their arrays, then the rest of td_body_sparse_t ---- */
#define SPARSE uint8_t *values, void *i1, void *i2, td_body_sparse_t a
#define SPARSE_ARRAYS a.values = values, a.i1 = i1, a.i2 = i2
KERNEL __launch_bounds__(256) td_sparse_todense(SPARSE, uint8_t *dense) {
    SPARSE_ARRAYS;
    for (uint64_t i = INDEX, n = a.csr ? a.rows : a.nnz; i < n; i += STRIDE) td_body_todense(&a, (int64_t)i, dense);
}
KERNEL __launch_bounds__(256) td_sparse_count(td_body_sparse_t a, const uint8_t *dense, int64_t *counts) {
    for (uint64_t r = INDEX; r < (uint64_t)a.rows; r += STRIDE) counts[r] = td_body_count(&a, dense, (int64_t)r);
}
KERNEL __launch_bounds__(256) td_sparse_starts(SPARSE, int64_t *counts) {
    SPARSE_ARRAYS;
    if (INDEX == 0) td_body_starts(&a, counts);
}
/* Rows, then entries behind the last. */
KERNEL __launch_bounds__(256) td_sparse_fromdense(SPARSE, const uint8_t *dense, const int64_t *starts) {
    SPARSE_ARRAYS;
    for (uint64_t r = INDEX; r < (uint64_t)a.rows; r += STRIDE) td_body_fromdense(&a, dense, starts, (int64_t)r);
    for (uint64_t i = INDEX; i < (uint64_t)a.nnz; i += STRIDE)
        if ((int64_t)i >= starts[a.rows]) td_body_entry(&a, (int64_t)i, a.rows, a.cols, 0);
}
KERNEL __launch_bounds__(256) td_sparse_clean(SPARSE, uint8_t *to_values, void *to_i1, void *to_i2, uint64_t entries) {
    td_body_sparse_t to = {to_values, to_i1, to_i2};
    SPARSE_ARRAYS;
    for (uint64_t i = INDEX; i < entries; i += STRIDE) td_body_clean(&a, &to, (int64_t)i);
    for (uint64_t r = INDEX; a.csr && r <= (uint64_t)a.rows; r += STRIDE) td_body_clean_offset(&a, &to, (int64_t)r);
}
