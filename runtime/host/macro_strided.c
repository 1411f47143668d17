/* SPDX-License-Identifier: Apache-2.0 */
/* Strided copies, element offsets, gathering and scattering of single elements. */
#include <string.h>

#include "runtime/host/macro_ops.h"
#include "runtime/host/pool.h"
#include "runtime/host/vec.h"

#define ANY __attribute__((aligned(1), may_alias))
typedef uint8_t any1_t;
typedef uint16_t ANY any2_t;
typedef uint32_t ANY any4_t;
typedef uint64_t ANY any8_t;
typedef struct { uint64_t lo, hi; } ANY any16_t;

#define BY_SIZE(size, DO)      \
    switch (size) {            \
    case 1: DO(any1_t); break; \
    case 2: DO(any2_t); break; \
    case 4: DO(any4_t); break; \
    case 8: DO(any8_t); break; \
    default: DO(any16_t);      \
    }

static void order_dims(td_strided_t *p, uint32_t rank, const int64_t *dims, const int64_t *dst, const int64_t *src) {
    for (uint32_t i = 0; i < rank; i++) {
        if (dims[i] == 1) continue;
        uint32_t at = p->rank++;
        for (; at && p->dst[at - 1] < dst[i] * p->size; at--) {
            p->n[at] = p->n[at - 1];
            p->dst[at] = p->dst[at - 1];
            p->src[at] = p->src[at - 1];
        }
        p->n[at] = dims[i];
        p->dst[at] = dst[i] * p->size;
        p->src[at] = src[i] * p->size;
    }
}

static void merge_dims(td_strided_t *p) {
    uint32_t to = 0;
    for (uint32_t i = 1; i < p->rank; i++) {
        if (p->dst[to] == p->dst[i] * p->n[i] && p->src[to] == p->src[i] * p->n[i]) {
            p->n[to] *= p->n[i];
        } else {
            to++;
            p->n[to] = p->n[i];
        }
        p->dst[to] = p->dst[i];
        p->src[to] = p->src[i];
    }
    if (p->rank) p->rank = to + 1;
}

/* Brings the source's contiguous dimension next to the destination's. */
static void find_tile(td_strided_t *p) {
    if (p->rank < 2 || p->src[p->rank - 1] == p->size) return;
    for (uint32_t i = 0; i + 1 < p->rank; i++) {
        if (p->src[i] != p->size) continue;
        int64_t n = p->n[i], d = p->dst[i], s = p->src[i];
        for (uint32_t k = i; k + 2 < p->rank; k++) {
            p->n[k] = p->n[k + 1];
            p->dst[k] = p->dst[k + 1];
            p->src[k] = p->src[k + 1];
        }
        p->n[p->rank - 2] = n;
        p->dst[p->rank - 2] = d;
        p->src[p->rank - 2] = s;
        p->tiled = true;
        return;
    }
}

void td_strided_plan(td_strided_t *p, uint32_t size, uint32_t rank, const int64_t *dims, const int64_t *dst,
                     const int64_t *src) {
    p->rank = 0;
    p->size = size;
    p->tiled = p->empty = false;
    for (uint32_t i = 0; i < rank; i++)
        if (!dims[i]) p->empty = true;
    if (p->empty) return;
    order_dims(p, rank, dims, dst, src);
    merge_dims(p);
    find_tile(p);
    p->bytes = size;
    for (uint32_t i = 0; i < p->rank; i++) p->bytes *= (uint64_t)p->n[i]; /* an array's, so it cannot overflow */
}

static void copy_run(uint32_t size, int64_t n, int64_t ds, int64_t ss, char *dst, const char *src) {
    if (ds == size && ss == size) {
        memcpy(dst, src, (size_t)n * size);
        return;
    }
    if (ds == size && ss == 0) {
        td_fill(size, src, (size_t)n, dst);
        return;
    }
#define RUN(T) for (int64_t i = 0; i < n; i++) *(T *)(dst + i * ds) = *(const T *)(src + i * ss)
    BY_SIZE(size, RUN)
#undef RUN
}

enum { BLOCK = 8, ROWS = 32 };

/* Rows [first, last) of the transposition. Blocks of 8 x 8 pass through registers. */
static void copy_tile(const td_strided_t *p, int64_t first, int64_t last, char *dst, const char *src) {
    uint32_t r = p->rank - 2;
    int64_t n1 = p->n[r + 1], ds = p->dst[r], ss = p->src[r + 1];
    bool blocks = p->dst[r + 1] == p->size && p->src[r] == p->size && p->size >= 2 && p->size <= 8;
    int64_t i = first;
    for (; blocks && i + BLOCK <= last; i += BLOCK) {
        int64_t j = 0;
        for (; j + BLOCK <= n1; j += BLOCK) td_vec()->transpose8(p->size, src + i * p->size + j * ss, ss, dst + i * ds + j * p->size, ds);
        for (int64_t k = i; j < n1 && k < i + BLOCK; k++)
            copy_run(p->size, n1 - j, p->size, ss, dst + k * ds + j * p->size, src + k * p->size + j * ss);
    }
    for (; i < last; i += ROWS)
        for (int64_t j = 0; j < n1; j += ROWS) {
            int64_t m = n1 - j < ROWS ? n1 - j : ROWS;
            for (int64_t k = i; k < last && k < i + ROWS; k++)
                copy_run(p->size, m, p->dst[r + 1], ss, dst + k * ds + j * p->dst[r + 1], src + k * p->src[r] + j * ss);
        }
}

static void copy_level(const td_strided_t *p, uint32_t d, char *dst, const char *src) {
    uint32_t left = p->rank - d;
    if (left == 2 && p->tiled) {
        copy_tile(p, 0, p->n[d], dst, src);
    } else if (left == 1) {
        copy_run(p->size, p->n[d], p->dst[d], p->src[d], dst, src);
    } else {
        for (int64_t i = 0; i < p->n[d]; i++) copy_level(p, d + 1, dst + i * p->dst[d], src + i * p->src[d]);
    }
}

typedef struct work {
    const td_strided_t *p;
    char *dst;
    const char *src;
} work_t;

/* Units: indices of the outermost dimension; of a plain transposition groups of its rows. */
static void part(void *ctx, int64_t first, int64_t last, int worker) {
    const work_t *w = ctx;
    const td_strided_t *p = w->p;
    (void)worker;
    if (p->rank == 2 && p->tiled) {
        int64_t end = last * ROWS < p->n[0] ? last * ROWS : p->n[0];
        copy_tile(p, first * ROWS, end, w->dst, w->src);
        return;
    }
    for (int64_t i = first; i < last; i++) copy_level(p, 1, w->dst + i * p->dst[0], w->src + i * p->src[0]);
}

void td_strided_copy(const td_strided_t *p, void *dst, const void *src) {
    enum { WORTH_A_TEAM = 1 << 18 }; /* bytes */
    if (p->empty) return;
    if (!p->rank) {
        memcpy(dst, src, p->size);
        return;
    }
    if (p->rank < 2 || p->bytes < WORTH_A_TEAM) {
        copy_level(p, 0, dst, src);
        return;
    }
    work_t w = {p, dst, src};
    td_pool_run(p->rank == 2 && p->tiled ? (p->n[0] + ROWS - 1) / ROWS : p->n[0], part, &w);
}

void td_dims_add(td_dims_t *d, int64_t n, int64_t stride) {
    d->n[d->rank] = n;
    d->stride[d->rank++] = stride;
}

int64_t td_dims_count(const td_dims_t *d) {
    int64_t c = 1;
    for (uint32_t i = 0; i < d->rank; i++)
        if (!d->n[i]) return 0;
    for (uint32_t i = 0; i < d->rank; i++) c *= d->n[i];
    return c;
}

bool td_dims_join(const td_dims_t *d, int64_t single, int64_t *stride) {
    int64_t expect = -1;
    *stride = single;
    for (uint32_t i = d->rank; i-- > 0;) {
        if (d->n[i] == 1) continue;
        if (expect < 0) *stride = d->stride[i];
        else if (d->stride[i] != expect) return false;
        expect = d->stride[i] * d->n[i];
    }
    return true;
}

td_status_t td_check_dims(const td_hlo_instr_t *instr, td_ints_t v, uint32_t rank, td_err_t *err) {
    uint64_t seen = 0;
    for (uint32_t i = 0; i < v.n; i++) {
        TD_NEED(v.v[i] >= 0 && v.v[i] < rank && !(seen >> v.v[i] & 1), "dimension %lld of rank %u", (long long)v.v[i], rank);
        seen |= 1ull << v.v[i];
    }
    return TD_OK;
}

td_status_t td_dims_take(const td_hlo_instr_t *instr, td_ints_t v, const td_shape_t *s, const int64_t *strides,
                             uint64_t *seen, td_dims_t *out, td_err_t *err) {
    for (uint32_t i = 0; i < v.n; i++) {
        TD_NEED(v.v[i] >= 0 && v.v[i] < s->rank && !(*seen >> v.v[i] & 1), "dimension number %lld", (long long)v.v[i]);
        *seen |= 1ull << v.v[i];
        td_dims_add(out, s->dims[v.v[i]], strides[v.v[i]]);
    }
    return TD_OK;
}

void td_dims_offsets(const td_dims_t *d, int64_t first, size_t n, int64_t *out) {
    int64_t at[TD_LIMIT_RANK], base = 0;
    if (!d->rank) {
        for (size_t i = 0; i < n; i++) out[i] = 0;
        return;
    }
    for (uint32_t i = d->rank; i-- > 0;) {
        at[i] = first % d->n[i];
        first /= d->n[i];
        base += at[i] * d->stride[i];
    }
    uint32_t last = d->rank - 1;
    for (size_t i = 0; i < n;) {
        int64_t step = d->stride[last];
        for (; i < n && at[last] < d->n[last]; at[last]++, base += step) out[i++] = base;
        uint32_t k = last;
        while (at[k] == d->n[k]) {
            base -= at[k] * d->stride[k];
            at[k] = 0;
            if (!k) break;
            k--;
            at[k]++;
            base += d->stride[k];
        }
    }
}

void td_take(uint32_t size, const void *src, const int64_t *off, size_t n, void *dst) {
#define TAKE(T) for (size_t i = 0; i < n; i++) ((T *)dst)[i] = ((const T *)src)[off[i]]
    BY_SIZE(size, TAKE)
#undef TAKE
}

void td_put(uint32_t size, const void *src, const int64_t *off, size_t n, void *dst) {
#define PUT(T) for (size_t i = 0; i < n; i++) ((T *)dst)[off[i]] = ((const T *)src)[i]
    BY_SIZE(size, PUT)
#undef PUT
}

void td_fill(uint32_t size, const void *element, size_t n, void *dst) {
#define FILL(T) do { T x = *(const T *)element; for (size_t i = 0; i < n; i++) ((T *)dst)[i] = x; } while (0)
    BY_SIZE(size, FILL)
#undef FILL
}

bool td_is_index_type(td_type_t t) { return td_type_is_integer(t); }

int64_t td_index_at(td_type_t t, const void *base, int64_t at) {
    switch (td_type_bytes(t)) {
    case 1: return td_type_is_signed(t) ? ((const int8_t *)base)[at] : ((const uint8_t *)base)[at];
    case 2: return td_type_is_signed(t) ? ((const int16_t *)base)[at] : ((const uint16_t *)base)[at];
    case 4: return td_type_is_signed(t) ? ((const int32_t *)base)[at] : (int64_t)((const uint32_t *)base)[at];
    default: break;
    }
    if (td_type_is_signed(t)) return ((const int64_t *)base)[at];
    uint64_t u = ((const uint64_t *)base)[at];
    return u > INT64_MAX ? INT64_MAX : (int64_t)u;
}
