/* SPDX-License-Identifier: Apache-2.0 */
/* Sparse matrices; runtime/ffi/sparse.c tells the buffers and checks them.
 * Entries outside the matrix are dropped, as JAX does (it pads so); of repeated ones todense keeps the last.
 * fromdense writes at most nnz entries and pads with zeros outside the matrix. The buffer is not used. */
#include <complex.h>
#include <string.h>

#include "runtime/host/handlers/common.h"
#include "runtime/host/handlers/families.h"

td_status_t td_sparse_prepare(const td_custom_call_desc_t *d, td_arena_t *arena, void **state, uint64_t *scratch,
                              td_err_t *err) {
    td_sparse_t a = {0};
    td_status_t s = td_linalg_sparse(d, &a, err);
    *scratch = 0;
    return s ? s : td_hc_state(arena, &a, sizeof a, state, err);
}

static int64_t load(td_type_t t, const void *p, int64_t i) {
    return t == TD_S32 ? ((const int32_t *)p)[i] : t == TD_S64 ? ((const int64_t *)p)[i] : ((const uint16_t *)p)[i];
}
static void store(td_type_t t, void *p, int64_t i, int64_t v) {
    if (t == TD_S32) ((int32_t *)p)[i] = (int32_t)v;
    else if (t == TD_S64) ((int64_t *)p)[i] = v;
    else ((uint16_t *)p)[i] = (uint16_t)v;
}

/* Walks the entries inside the matrix in the order of storage. */
typedef struct walk {
    const td_sparse_t *a;
    const void *i1, *i2;
    int64_t at, end, row, col, next_row;
} walk_t;
static walk_t walk_start(const td_sparse_t *a, const void *i1, const void *i2) {
    return (walk_t){.a = a, .i1 = i1, .i2 = i2, .at = -1, .end = a->csr ? 0 : a->nnz};
}
static bool walk(walk_t *w) {
    const td_sparse_t *a = w->a;
    for (;;) {
        w->at++;
        while (w->at >= w->end) {
            if (!a->csr || w->next_row == a->rows) return false;
            w->row = w->next_row++;
            w->at = load(a->index, w->i2, w->row);
            w->end = load(a->index, w->i2, w->row + 1);
            if (w->at < 0) w->at = 0;
            if (w->end > a->nnz) w->end = a->nnz;
        }
        if (!a->csr) w->row = load(a->index, w->i1, w->at);
        w->col = load(a->index, a->csr ? w->i1 : w->i2, w->at);
        if (w->row >= 0 && w->row < a->rows && w->col >= 0 && w->col < a->cols) return true;
    }
}

#define PRODUCT(T, CONJ)                                                                       \
    do {                                                                                       \
        const T *v = values, *in = b;                                                          \
        T *out = c;                                                                            \
        while (walk(&w)) {                                                                     \
            T f = a->conjugate ? CONJ(v[w.at]) : v[w.at];                                      \
            const T *from = in + (a->transpose ? w.row : w.col) * a->k;                        \
            T *to = out + (a->transpose ? w.col : w.row) * a->k;                               \
            for (int64_t j = 0; j < a->k; j++) to[j] += f * from[j];                           \
        }                                                                                      \
    } while (0)

static void product(const td_sparse_t *a, const void *values, const void *i1, const void *i2, const void *b, void *c) {
    walk_t w = walk_start(a, i1, i2);
    switch (a->type) {
    case TD_F32: PRODUCT(float, ); break;
    case TD_F64: PRODUCT(double, ); break;
    case TD_C64: PRODUCT(float complex, conjf); break;
    default: PRODUCT(double complex, conj); break;
    }
}

static void products(const td_sparse_t *a, void *const *bufs) {
    uint64_t size = td_type_bytes(a->type), isize = td_type_bytes(a->index);
    int64_t m = a->transpose ? a->cols : a->rows;
    for (int64_t i = 0; i < a->batch; i++) {
        uint64_t at = (uint64_t)(i * a->a_stride);
        void *c = td_at(bufs[4], (uint64_t)(i * a->c_stride) * size);
        if (m * a->k > 0) memset(c, 0, (size_t)(m * a->k) * size);
        product(a, td_at(bufs[0], at * size), td_at(bufs[1], at * isize), td_at(bufs[2], at * (a->csr ? 0 : isize)),
                td_at(bufs[3], (uint64_t)(i * a->b_stride) * size), c);
    }
}

static void to_dense(const td_sparse_t *a, void *const *bufs) {
    size_t size = td_type_bytes(a->type);
    walk_t w = walk_start(a, bufs[1], bufs[2]);
    if (a->rows * a->cols > 0) memset(bufs[3], 0, (size_t)(a->rows * a->cols) * size);
    while (walk(&w)) memcpy((char *)bufs[3] + (size_t)(w.row * a->cols + w.col) * size,
                            (char *)bufs[0] + (size_t)w.at * size, size);
}

/* -0 is a zero too. */
static bool is_zero(td_type_t t, const unsigned char *p) {
    unsigned size = td_type_bytes(t), part = td_type_is_complex(t) ? size / 2 : size, any = 0;
    bool sign = td_type_is_float(t) || td_type_is_complex(t);
    for (unsigned i = 0; i < size; i++) any |= sign && i % part == part - 1 ? p[i] & 0x7fu : p[i]; /* little-endian */
    return any == 0;
}

static void from_dense(const td_sparse_t *a, void *const *bufs) {
    size_t size = td_type_bytes(a->type);
    int64_t n = 0;
    for (int64_t r = 0; r < a->rows; r++) {
        if (a->csr) store(a->index, bufs[3], r, n);
        for (int64_t c = 0; c < a->cols && n < a->nnz; c++) {
            const unsigned char *p = (const unsigned char *)bufs[0] + (size_t)(r * a->cols + c) * size;
            if (is_zero(a->type, p)) continue;
            memcpy((char *)bufs[1] + (size_t)n * size, p, size);
            store(a->index, bufs[2], n, a->csr ? c : r);
            if (!a->csr) store(a->index, bufs[3], n, c);
            n++;
        }
    }
    if (a->csr) store(a->index, bufs[3], a->rows, n);
    for (; n < a->nnz; n++) {
        memset((char *)bufs[1] + (size_t)n * size, 0, size);
        store(a->index, bufs[2], n, a->csr ? a->cols : a->rows);
        if (!a->csr) store(a->index, bufs[3], n, a->cols);
    }
}

td_status_t td_sparse_run(const void *state, void *const *bufs, void *scratch, td_err_t *err) {
    const td_sparse_t *a = state;
    (void)scratch, (void)err;
    switch (a->op) {
    case TD_SPARSE_TODENSE: to_dense(a, bufs); break;
    case TD_SPARSE_FROMDENSE: from_dense(a, bufs); break;
    default: products(a, bufs); break;
    }
    return TD_OK;
}
