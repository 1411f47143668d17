/* SPDX-License-Identifier: Apache-2.0 */
/* The runtime's own kernels (runtime/cuda/kernels.cu), their threads one after the other. */
#include <math.h>
#include <string.h>

#include "runtime/cuda/kernels_body.h"
#include "tests/fakecuda/kernel.h"

static uint64_t u64(const uint8_t *p) {
    uint64_t v = 0;
    memcpy(&v, p, 8);
    return v;
}
static int32_t s32(const uint8_t *p) {
    int32_t v = 0;
    memcpy(&v, p, 4);
    return v;
}

#define SCALE(T, name)                                                                                                 \
    static bool name##_touches(const uint8_t *const *params, uint32_t i, uint64_t *bytes, bool *write) {               \
        *bytes = u64(params[1]) * sizeof(T);                                                                           \
        *write = true;                                                                                                 \
        return i == 0;                                                                                                 \
    }                                                                                                                  \
    static void name(const uint8_t *const *params, uint8_t *const *memory) {                                           \
        T factor = 0, *p = (T *)(void *)memory[0];                                                                     \
        memcpy(&factor, params[2], sizeof factor);                                                                     \
        for (uint64_t i = 0, n = u64(params[1]); i < n; i++) p[i] *= factor;                                           \
    }
SCALE(float, scale_f32)
SCALE(double, scale_f64)

static bool pointers_touches(const uint8_t *const *params, uint32_t i, uint64_t *bytes, bool *write) {
    *bytes = u64(params[3]) * 8;
    *write = true;
    return i == 0;
}
static void pointers(const uint8_t *const *params, uint8_t *const *memory) {
    for (uint64_t i = 0, n = u64(params[3]); i < n; i++) {
        uint64_t v = u64(params[1]) + i * u64(params[2]);
        memcpy(memory[0] + 8 * i, &v, 8);
    }
}

static bool threefry_touches(const uint8_t *const *params, uint32_t i, uint64_t *bytes, bool *write) {
    *bytes = u64(params[6]) * 4;
    *write = i >= 4;
    return i < 6;
}
static void threefry(const uint8_t *const *params, uint8_t *const *memory) {
    uint32_t *m[6];
    for (int i = 0; i < 6; i++) m[i] = (uint32_t *)(void *)memory[i];
    for (uint64_t i = 0, n = u64(params[6]); i < n; i++)
        td_body_threefry(m[0][i], m[1][i], m[2][i], m[3][i], &m[4][i], &m[5][i]);
}

static bool pivots_touches(const uint8_t *const *params, uint32_t i, uint64_t *bytes, bool *write) {
    *bytes = i < 2 ? u64(params[2]) * (uint64_t)s32(params[3 + i]) * 4 : 0;
    *write = i == 1;
    return i < 2;
}
static void pivots(const uint8_t *const *params, uint8_t *const *memory) {
    int32_t p = s32(params[3]), q = s32(params[4]);
    for (uint64_t i = 0, n = u64(params[2]); i < n; i++)
        td_body_pivots((int32_t *)(void *)memory[0] + i * (uint64_t)p, (int32_t *)(void *)memory[1] + i * (uint64_t)q,
                       p, q);
}

#define UPDATE(T, HYPOT, name)                                                                                         \
    static bool name##_touches(const uint8_t *const *params, uint32_t i, uint64_t *bytes, bool *write) {               \
        *bytes = u64(params[2]) * sizeof(T) * (i ? 1 : u64(params[2]));                                                \
        *write = true;                                                                                                 \
        return i < 2;                                                                                                  \
    }                                                                                                                  \
    static void name(const uint8_t *const *params, uint8_t *const *memory) {                                           \
        T *r = (T *)(void *)memory[0], *x = (T *)(void *)memory[1];                                                    \
        for (uint64_t k = 0, n = u64(params[2]); k < n; k++) {                                                         \
            T *row = r + k * n, a = row[k], b = x[k], h = HYPOT(a, b), c = 1, s = 0;                                   \
            if (b != 0) c = a / h, s = b / h;                                                                          \
            for (uint64_t i = k; i < n; i++) TD_BODY_ROTATE(T, row, x, i, c, s);                                       \
        }                                                                                                              \
    }
UPDATE(float, hypotf, update_f32)
UPDATE(double, hypot, update_f64)

/* Sparse matrices: values, i1, i2, the rest of td_body_sparse_t, then what the kernel has of its own. */
static td_body_sparse_t sparse_of(const uint8_t *const *params, uint32_t at, uint8_t *const *memory) {
    td_body_sparse_t a;
    memcpy(&a, params[at], sizeof a);
    if (at && memory) a.values = memory[at - 3], a.i1 = memory[at - 2], a.i2 = memory[at - 1];
    return a;
}
/* Bytes of the array i, counted from the values. */
static uint64_t sparse_bytes(const td_body_sparse_t *a, uint32_t i, uint64_t entries) {
    if (i == 0) return entries * (uint64_t)a->elem;
    return (i == 2 && a->csr ? (uint64_t)a->rows + 1 : entries) * (uint64_t)a->index;
}
static uint64_t dense_bytes(const td_body_sparse_t *a) { return (uint64_t)(a->rows * a->cols) * (uint64_t)a->elem; }

static bool todense_touches(const uint8_t *const *params, uint32_t i, uint64_t *bytes, bool *write) {
    td_body_sparse_t a = sparse_of(params, 3, NULL);
    *bytes = i == 4 ? dense_bytes(&a) : sparse_bytes(&a, i, (uint64_t)a.nnz);
    *write = i == 4;
    return i != 3;
}
static void todense(const uint8_t *const *params, uint8_t *const *memory) {
    td_body_sparse_t a = sparse_of(params, 3, memory);
    for (int64_t i = 0, n = a.csr ? a.rows : a.nnz; i < n; i++) td_body_todense(&a, i, memory[4]);
}
static bool count_touches(const uint8_t *const *params, uint32_t i, uint64_t *bytes, bool *write) {
    td_body_sparse_t a = sparse_of(params, 0, NULL);
    *bytes = i == 1 ? dense_bytes(&a) : (uint64_t)a.rows * 8;
    *write = i == 2;
    return i > 0;
}
static void count(const uint8_t *const *params, uint8_t *const *memory) {
    td_body_sparse_t a = sparse_of(params, 0, NULL);
    for (int64_t r = 0; r < a.rows; r++) ((int64_t *)(void *)memory[2])[r] = td_body_count(&a, memory[1], r);
}
static bool starts_touches(const uint8_t *const *params, uint32_t i, uint64_t *bytes, bool *write) {
    td_body_sparse_t a = sparse_of(params, 3, NULL);
    *bytes = i == 4 ? ((uint64_t)a.rows + 1) * 8 : i == 2 && a.csr ? sparse_bytes(&a, 2, 0) : 0;
    *write = true;
    return i != 3;
}
static void starts(const uint8_t *const *params, uint8_t *const *memory) {
    td_body_sparse_t a = sparse_of(params, 3, memory);
    td_body_starts(&a, (int64_t *)(void *)memory[4]);
}
static bool fromdense_touches(const uint8_t *const *params, uint32_t i, uint64_t *bytes, bool *write) {
    td_body_sparse_t a = sparse_of(params, 3, NULL);
    *bytes = i == 4            ? dense_bytes(&a)
             : i == 5          ? ((uint64_t)a.rows + 1) * 8
             : i == 2 && a.csr ? 0
                               : sparse_bytes(&a, i, (uint64_t)a.nnz);
    *write = i < 3;
    return i != 3;
}
static void fromdense(const uint8_t *const *params, uint8_t *const *memory) {
    td_body_sparse_t a = sparse_of(params, 3, memory);
    const int64_t *at = (const int64_t *)(void *)memory[5];
    for (int64_t r = 0; r < a.rows; r++) td_body_fromdense(&a, memory[4], at, r);
    for (int64_t i = at[a.rows]; i < a.nnz; i++) td_body_entry(&a, i, a.rows, a.cols, NULL);
}
static bool clean_touches(const uint8_t *const *params, uint32_t i, uint64_t *bytes, bool *write) {
    td_body_sparse_t a = sparse_of(params, 3, NULL);
    *bytes = sparse_bytes(&a, i < 3 ? i : i - 4, u64(params[7]));
    *write = i > 3;
    return i != 3 && i != 7;
}
static void clean(const uint8_t *const *params, uint8_t *const *memory) {
    td_body_sparse_t a = sparse_of(params, 3, memory), to = {.values = memory[4], .i1 = memory[5], .i2 = memory[6]};
    for (uint64_t i = 0, n = u64(params[7]); i < n; i++) td_body_clean(&a, &to, (int64_t)i);
    for (int64_t r = 0; a.csr && r <= a.rows; r++) td_body_clean_offset(&a, &to, r);
}

/* td_topk(x, values, positions, batch, n, k, bytes, order) */
static bool topk_touches(const uint8_t *const *params, uint32_t i, uint64_t *bytes, bool *write) {
    *bytes = u64(params[3]) * u64(params[i ? 5 : 4]) * (i == 2 ? 4 : (uint64_t)s32(params[6]));
    *write = i != 0;
    return i < 3;
}
static void topk_row(const uint8_t *x, uint8_t *values, int32_t *positions, const uint8_t *const *params) {
    uint64_t n = u64(params[4]), k = u64(params[5]), last = 0;
    uint32_t bytes = (uint32_t)s32(params[6]), order = (uint32_t)s32(params[7]), last_at = TD_BODY_NOWHERE;
    for (uint64_t i = 0; i < k; i++) {
        uint64_t best = 0;
        uint32_t best_at = TD_BODY_NOWHERE;
        for (uint32_t j = 0; j < n; j++) {
            uint64_t v = td_body_key(x, j, bytes, order);
            bool after = last_at == TD_BODY_NOWHERE || td_body_before(last, last_at, v, j);
            if (after && td_body_before(v, j, best, best_at)) best = v, best_at = j;
        }
        last = best, last_at = best_at;
        memcpy(values + i * bytes, x + (uint64_t)last_at * bytes, bytes);
        positions[i] = (int32_t)last_at;
    }
}
static void topk(const uint8_t *const *params, uint8_t *const *memory) {
    uint64_t n = u64(params[4]), k = u64(params[5]), bytes = (uint64_t)s32(params[6]);
    for (uint64_t row = 0; row < u64(params[3]); row++)
        topk_row(memory[0] + row * n * bytes, memory[1] + row * k * bytes,
                 (int32_t *)(void *)memory[2] + row * k, params);
}

static const uint32_t w7[] = {8, 8, 8, 8, 8, 8, 8}, w884[] = {8, 8, 4}, w5[] = {8, 8, 8, 4, 4},
                      w8[] = {8, 8, 8, 8, 8, 8, 4, 4};
static const uint32_t w_todense[] = {8, 8, 8, 64, 8}, w_count[] = {64, 8, 8}, w_fill[] = {8, 8, 8, 64, 8, 8},
                      w_clean[] = {8, 8, 8, 64, 8, 8, 8, 8};
static const fk_builtin_t rows[] = {
    {"td_sparse_todense", 5, w_todense, todense_touches, todense},
    {"td_sparse_count", 3, w_count, count_touches, count},
    {"td_sparse_starts", 5, w_todense, starts_touches, starts},
    {"td_sparse_fromdense", 6, w_fill, fromdense_touches, fromdense},
    {"td_sparse_clean", 8, w_clean, clean_touches, clean},
    {"td_scale_f32", 3, w884, scale_f32_touches, scale_f32},
    {"td_scale_f64", 3, w7, scale_f64_touches, scale_f64},
    {"td_pointers", 4, w7, pointers_touches, pointers},
    {"td_threefry", 7, w7, threefry_touches, threefry},
    {"td_pivots", 5, w5, pivots_touches, pivots},
    {"td_topk", 8, w8, topk_touches, topk},
    {"td_cholesky_update_f32", 3, w7, update_f32_touches, update_f32},
    {"td_cholesky_update_f64", 3, w7, update_f64_touches, update_f64},
};

const fk_builtin_t *fk_builtin_cuda(const char *name) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].name, name)) return &rows[i];
    return NULL;
}
