/* SPDX-License-Identifier: Apache-2.0 */
/* What one thread of each kernel of kernels.cu computes, in the language that C and CUDA C++ share, so that tests run
 * the same code without a GPU (tests/fakecuda/builtin_cuda.c). Facts: Salmon et al., "Parallel random numbers: as easy
 * as 1, 2, 3" (2011); jaxlib/gpu/prng_kernels.cu.cc, linalg_kernels.cu.cc. */
#ifndef TD_RUNTIME_CUDA_KERNELS_BODY_H
#define TD_RUNTIME_CUDA_KERNELS_BODY_H

#include <stdint.h>

#ifdef __CUDACC__
#define TD_BODY static __device__ __forceinline__
#define TD_BODY_ROLLED _Pragma("unroll 1")
#else
#define TD_BODY static inline
#define TD_BODY_ROLLED
#endif

/* Threefry 2x32, 20 rounds. */
TD_BODY void td_body_threefry(uint32_t k0, uint32_t k1, uint32_t x, uint32_t y, uint32_t *out0, uint32_t *out1) {
    const unsigned rotations[8] = {13, 15, 26, 6, 17, 29, 16, 24};
    uint32_t key[3] = {k0, k1, 0x1BD11BDAu ^ k0 ^ k1};
    x += k0;
    y += k1;
#ifdef __CUDACC__
#pragma unroll
#endif
    for (uint32_t r = 0; r < 20; r++) {
        x += y;
        y = (y << rotations[r % 8] | y >> (32 - rotations[r % 8])) ^ x;
        if (r % 4 == 3) {
            uint32_t group = r / 4 + 1;
            x += key[group % 3];
            y += key[(group + 1) % 3] + group;
        }
    }
    *out0 = x;
    *out1 = y;
}

/* The transpositions in ascending order, applied to 0 ... q-1; a pivot outside changes nothing. */
TD_BODY void td_body_pivots(const int32_t *pivots, int32_t *permutation, int32_t p, int32_t q) {
    for (int32_t i = 0; i < q; i++) permutation[i] = i;
    for (int32_t i = 0; i < p; i++) {
        int32_t j = pivots[i];
        if (j < 0 || j >= q) continue;
        int32_t was = permutation[i];
        permutation[i] = permutation[j];
        permutation[j] = was;
    }
}

/* Order of top-k: an element's bits become a number, larger = earlier; equal ones by position. */
enum { TD_BODY_SIGNED = 1, TD_BODY_FLOAT = 2, TD_BODY_SMALLEST = 4, TD_BODY_ZEROS_EQUAL = 8 };
#define TD_BODY_NOWHERE 0xffffffffu
TD_BODY uint64_t td_body_key(const uint8_t *p, uint64_t i, uint32_t bytes, uint32_t order) {
    uint64_t sign = 1ull << (8 * bytes - 1), mask = sign | (sign - 1);
    uint64_t v = bytes == 1   ? p[i]
                 : bytes == 2 ? ((const uint16_t *)(const void *)p)[i]
                 : bytes == 4 ? ((const uint32_t *)(const void *)p)[i]
                              : ((const uint64_t *)(const void *)p)[i];
    if (order & TD_BODY_SIGNED) v ^= sign;
    if (order & TD_BODY_FLOAT) {
        if (order & TD_BODY_ZEROS_EQUAL && v == sign) v = 0;
        v = v & sign ? ~v & mask : v | sign;
    }
    return order & TD_BODY_SMALLEST ? ~v & mask : v;
}
/* Does a, at position i, come before b, at j? What is nowhere comes last. */
TD_BODY int td_body_before(uint64_t a, uint32_t i, uint64_t b, uint32_t j) {
    return i != TD_BODY_NOWHERE && (j == TD_BODY_NOWHERE || a > b || (a == b && i < j));
}

/* ---- sparse matrices: runtime/ffi/sparse.c tells their forms ---- */
/* What the kernels need of one. CSR: i1 columns, i2 row offsets; COO: i1 rows, i2 columns. */
typedef struct td_body_sparse {
    const uint8_t *values;
    const void *i1, *i2;
    int64_t rows, cols, nnz;
    int32_t csr, elem, index; /* 0 or 1; bytes of a value; bytes of an index: 2 (unsigned), 4, 8 */
    int32_t part;             /* bytes of a number with a sign bit that zeros may have; 0: none has */
} td_body_sparse_t;

TD_BODY int64_t td_body_index(const void *p, int32_t bytes, int64_t i) {
    return bytes == 4 ? ((const int32_t *)p)[i] : bytes == 8 ? ((const int64_t *)p)[i] : ((const uint16_t *)p)[i];
}
TD_BODY void td_body_set_index(void *p, int32_t bytes, int64_t i, int64_t v) {
    if (bytes == 4) ((int32_t *)p)[i] = (int32_t)v;
    else if (bytes == 8) ((int64_t *)p)[i] = v;
    else ((uint16_t *)p)[i] = (uint16_t)v;
}
TD_BODY void td_body_value(uint8_t *to, const uint8_t *from, int32_t bytes) {
    TD_BODY_ROLLED
    for (int32_t k = 0; k < bytes; k++) to[k] = from ? from[k] : 0;
}
TD_BODY int64_t td_body_clamp(int64_t v, int64_t least, int64_t most) {
    return v < least ? least : v > most ? most : v;
}

/* Row r of a CSR matrix: its entries, as far as there are such. */
TD_BODY void td_body_csr_row(const td_body_sparse_t *a, int64_t r, int64_t *from, int64_t *to) {
    *from = td_body_clamp(td_body_index(a->i2, a->index, r), 0, a->nnz);
    *to = td_body_clamp(td_body_index(a->i2, a->index, r + 1), 0, a->nnz);
}
TD_BODY void td_body_place(const td_body_sparse_t *a, int64_t i, int64_t r, int64_t c, uint8_t *dense) {
    if (r >= 0 && r < a->rows && c >= 0 && c < a->cols)
        td_body_value(dense + (uint64_t)(r * a->cols + c) * (uint64_t)a->elem,
                      a->values + (uint64_t)i * (uint64_t)a->elem, a->elem);
}
/* Item i: a row of a CSR matrix, an entry of a COO one. */
TD_BODY void td_body_todense(const td_body_sparse_t *a, int64_t i, uint8_t *dense) {
    int64_t from = 0, to = 0;
    if (!a->csr) {
        td_body_place(a, i, td_body_index(a->i1, a->index, i), td_body_index(a->i2, a->index, i), dense);
        return;
    }
    td_body_csr_row(a, i, &from, &to);
    TD_BODY_ROLLED
    for (int64_t k = from; k < to; k++) td_body_place(a, k, i, td_body_index(a->i1, a->index, k), dense);
}

TD_BODY int32_t td_body_is_zero(const uint8_t *p, int32_t elem, int32_t part) {
    uint32_t any = 0;
    TD_BODY_ROLLED
    for (int32_t k = 0; k < elem; k++) any |= part && k % part == part - 1 ? p[k] & 0x7fu : p[k];
    return any == 0;
}
TD_BODY int64_t td_body_count(const td_body_sparse_t *a, const uint8_t *dense, int64_t r) {
    int64_t n = 0;
    TD_BODY_ROLLED
    for (int64_t c = 0; c < a->cols; c++)
        n += !td_body_is_zero(dense + (uint64_t)(r * a->cols + c) * (uint64_t)a->elem, a->elem, a->part);
    return n;
}
/* The counts become where each row begins; counts[rows] is the sum. CSR: the offsets too. */
TD_BODY void td_body_starts(const td_body_sparse_t *a, int64_t *counts) {
    int64_t at = 0;
    TD_BODY_ROLLED
    for (int64_t r = 0; r <= a->rows; r++) {
        int64_t n = r < a->rows ? counts[r] : 0;
        counts[r] = at;
        if (a->csr) td_body_set_index((void *)(uintptr_t)a->i2, a->index, r, at < a->nnz ? at : a->nnz);
        at += n;
    }
}
TD_BODY void td_body_entry(const td_body_sparse_t *a, int64_t i, int64_t r, int64_t c, const uint8_t *value) {
    td_body_value((uint8_t *)(uintptr_t)a->values + (uint64_t)i * (uint64_t)a->elem, value, a->elem);
    td_body_set_index((void *)(uintptr_t)a->i1, a->index, i, a->csr ? c : r);
    if (!a->csr) td_body_set_index((void *)(uintptr_t)a->i2, a->index, i, c);
}
/* Row r's entries, up to nnz of all. */
TD_BODY void td_body_fromdense(const td_body_sparse_t *a, const uint8_t *dense, const int64_t *starts, int64_t r) {
    int64_t at = starts[r];
    TD_BODY_ROLLED
    for (int64_t c = 0; c < a->cols && at < a->nnz; c++) {
        const uint8_t *p = dense + (uint64_t)(r * a->cols + c) * (uint64_t)a->elem;
        if (!td_body_is_zero(p, a->elem, a->part)) td_body_entry(a, at++, r, c, p);
    }
}

/* Entry i of a copy for a product, whose library trusts indices: one that is outside becomes a zero inside. */
TD_BODY void td_body_clean(const td_body_sparse_t *a, const td_body_sparse_t *to, int64_t i) {
    const void *cols = a->csr ? a->i1 : a->i2;
    int64_t c = td_body_index(cols, a->index, i), r = a->csr ? 0 : td_body_index(a->i1, a->index, i);
    int32_t outside = c < 0 || c >= a->cols || r < 0 || r >= a->rows;
    td_body_value((uint8_t *)(uintptr_t)to->values + (uint64_t)i * (uint64_t)a->elem,
                  outside ? 0 : a->values + (uint64_t)i * (uint64_t)a->elem, a->elem);
    td_body_set_index((void *)(uintptr_t)(a->csr ? to->i1 : to->i2), a->index, i, td_body_clamp(c, 0, a->cols - 1));
    if (!a->csr) td_body_set_index((void *)(uintptr_t)to->i1, a->index, i, td_body_clamp(r, 0, a->rows - 1));
}
/* Offset r of 0 ... rows. */
TD_BODY void td_body_clean_offset(const td_body_sparse_t *a, const td_body_sparse_t *to, int64_t r) {
    td_body_set_index((void *)(uintptr_t)to->i2, a->index, r,
                      td_body_clamp(td_body_index(a->i2, a->index, r), 0, a->nnz));
}

/* A rotation applied to element i of a row and of x. */
#define TD_BODY_ROTATE(T, row, x, i, c, s)                                   \
    do {                                                                     \
        T was_ = (row)[i];                                                   \
        (row)[i] = (c) * was_ + (s) * (x)[i];                                \
        (x)[i] = (c) * (x)[i] - (s) * was_;                                  \
    } while (0)

#endif
