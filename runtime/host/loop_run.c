/* SPDX-License-Identifier: Apache-2.0 */
/* Running tile loops: reading tiles, computing, and folding what is reduced. */
#include <string.h>

#include "base/limits.h"

#include "runtime/host/loop.h"
#include "runtime/host/pool.h"
#include "runtime/host/types.h"
#include "runtime/host/vec.h"

typedef struct { uint64_t lo, hi; } u128_t;
#define STRIDED(T)                                                                       \
    static void strided_##T(T *d, const T *s, int64_t stride, size_t n) {                \
        T x = *s;                                                                        \
        if (!stride)                                                                     \
            for (size_t i = 0; i < n; i++) d[i] = x;                                     \
        else                                                                             \
            for (size_t i = 0; i < n; i++) d[i] = s[(int64_t)i * stride];                \
    }
STRIDED(uint8_t) STRIDED(uint16_t) STRIDED(uint32_t) STRIDED(uint64_t) STRIDED(u128_t)

static void run_of(void *d, const void *s, int64_t stride, size_t n, uint32_t bytes) {
    if (stride == 1) {
        memcpy(d, s, n * bytes);
        return;
    }
    switch (bytes) {
    case 1: strided_uint8_t(d, s, stride, n); break;
    case 2: strided_uint16_t(d, s, stride, n); break;
    case 4: strided_uint32_t(d, s, stride, n); break;
    case 8: strided_uint64_t(d, s, stride, n); break;
    default: strided_u128_t(d, s, stride, n); break;
    }
}

const void *td_map_read(const td_map_t *m, const void *source, uint32_t bytes, int64_t at, size_t n, void *tile) {
    const char *src = source;
    char *dst = tile;
    int64_t index[TD_LIMIT_RANK + 1], rest = at, from = 0;
    if (!m->rank) {
        run_of(dst, src, 0, n, bytes);
        return tile;
    }
    uint32_t last = m->rank - 1;
    for (uint32_t i = m->rank; i-- > 0;) {
        index[i] = rest % m->sizes[i], rest /= m->sizes[i];
        from += index[i] * m->strides[i];
    }
    if (m->strides[last] == 1 && m->sizes[last] - index[last] >= (int64_t)n) return src + from * (int64_t)bytes;
    while (n) {
        size_t row = (size_t)(m->sizes[last] - index[last]);
        if (row > n) row = n;
        run_of(dst, src + from * (int64_t)bytes, m->strides[last], row, bytes);
        dst += row * bytes, n -= row;
        from -= index[last] * m->strides[last], index[last] = 0;
        for (uint32_t i = last; n && i-- > 0;) {
            from += m->strides[i];
            if (++index[i] < m->sizes[i]) break;
            from -= m->sizes[i] * m->strides[i], index[i] = 0;
        }
    }
    return tile;
}

static void iota(const td_gen_t *g, int64_t at, size_t n, void *dst) {
    int64_t v[TD_PW_TILE], cur = at / g->iota_inner % g->iota_size, left = g->iota_inner - at % g->iota_inner;
    for (size_t i = 0; i < n;) {
        if (g->iota_inner == 1) { /* one run up to the end of the dimension */
            size_t run = (size_t)(g->iota_size - cur) < n - i ? (size_t)(g->iota_size - cur) : n - i;
            for (size_t k = 0; k < run; k++) v[i + k] = cur + (int64_t)k;
            cur = 0, i += run;
        } else {
            size_t run = (size_t)left < n - i ? (size_t)left : n - i;
            for (size_t k = 0; k < run; k++) v[i + k] = cur;
            left = g->iota_inner, i += run;
            if (++cur == g->iota_size) cur = 0;
        }
    }
    td_convert_array(TD_S64, v, g->type, dst, n);
}

typedef struct work {
    const td_loop_t *l;
    void *const *bufs;
    char *scratch;
} work_t;

/* What does not change from tile to tile. */
static void prepare(const work_t *w, char *own) {
    const td_loop_t *l = w->l;
    const void **in = (const void **)(void *)(own + l->tables);
    size_t n = (size_t)(l->tile < l->count ? l->tile : l->count);
    for (uint32_t i = 0; i < l->n_gens; i++) {
        const td_gen_t *g = &l->gens[i];
        const char *src = g->kind == TD_GEN_IOTA ? NULL : td_buf_address(g->buf, w->bufs, w->scratch);
        in[i] = own + g->tile;
        if (g->kind == TD_GEN_SPLAT) run_of(own + g->tile, src, 0, n, g->bytes);
        if (g->once) in[i] = td_map_read(g->map, src, g->bytes, 0, n, own + g->tile);
    }
}

static void run_tile(const work_t *w, char *own, int64_t at, size_t n) {
    const td_loop_t *l = w->l;
    const void **in = (const void **)(void *)(own + l->tables);
    void **out = (void **)(uintptr_t)(in + l->n_gens);
    for (uint32_t i = 0; i < l->n_gens; i++) {
        const td_gen_t *g = &l->gens[i];
        if (g->kind == TD_GEN_SPLAT || g->once) continue;
        if (g->kind == TD_GEN_IOTA) {
            iota(g, at, n, own + g->tile);
            continue;
        }
        const char *src = td_buf_address(g->buf, w->bufs, w->scratch);
        if (g->kind == TD_GEN_LINEAR) in[i] = src + at * (int64_t)g->bytes;
        else in[i] = td_map_read(g->map, src, g->bytes, at, n, own + g->tile);
    }
    for (uint32_t i = 0; i < l->n_out; i++) out[i] = (char *)td_buf_address(l->out[i], w->bufs, w->scratch) + at * (int64_t)l->out_bytes[i];
    td_pw_run(l->pw, in, out, n, own);
}

enum { SINK_INITS = 16 * TD_PW_TILE }; /* where in a sink's area initial values stand */

/* f(init, acc[i]) for n registers, stored as results from `at` on. inits: the initial value, n times. */
static void store(const work_t *w, const td_sink_t *s, uint32_t k, void *acc, int64_t at, size_t n, char *inits) {
    size_t size = td_type_bytes(s->reg);
    _Alignas(16) char init[16];
    td_convert_array(s->type, td_buf_address(s->init, w->bufs, w->scratch), s->reg, init, 1);
    run_of(inits, init, 0, n, (uint32_t)size);
    char *out = (char *)td_buf_address(w->l->out[w->l->n_out + k], w->bufs, w->scratch) + at * (int64_t)td_type_bytes(s->type);
    if (s->type == s->reg) {
        s->fn(out, inits, acc, NULL, n);
        return;
    }
    s->fn(acc, inits, acc, NULL, n);
    td_convert_array(s->reg, acc, s->type, out, n);
}

/* One run of n registers to one. */
static void fold_run(const td_sink_t *s, const void *x, size_t n, char *acc, void *one) {
    size_t size = td_type_bytes(s->reg);
    if (s->wide) {
        *(float *)one = td_vec()->sum(x, n);
        return;
    }
    if (s->reg == TD_F32 && s->op == TD_HLO_MAXIMUM) {
        *(float *)one = td_vec()->max(x, n);
        return;
    }
    if (n == 1) {
        memcpy(one, x, size);
        return;
    }
    size_t h = n / 2;
    s->fn(acc, x, (const char *)x + (n - h) * size, NULL, h);
    if (n & 1) memcpy(acc + h * size, (const char *)x + h * size, size);
    for (n -= h; n > 1; n -= h) {
        h = n / 2;
        s->fn(acc, acc, acc + (n - h) * size, NULL, h);
    }
    memcpy(one, acc, size);
}

/* Units of whole rows: short ones several to a tile, long ones in parts. */
static void rows_unit(const work_t *w, char *own, int64_t unit) {
    const td_loop_t *l = w->l;
    if (l->row <= TD_PW_TILE) {
        int64_t at = unit * l->tile, n = l->count - at < l->tile ? l->count - at : l->tile, rows = n / l->row;
        run_tile(w, own, at, (size_t)n);
        for (uint32_t k = 0; k < l->n_sinks; k++) {
            const td_sink_t *s = &l->sinks[k];
            size_t size = td_type_bytes(s->reg);
            const char *x = td_pw_tapped(l->pw, s->tap, own);
            char *acc = own + s->acc, *to = acc + TD_PW_TILE * 8;
            for (int64_t r = 0; r < rows; r++) fold_run(s, x + (size_t)(r * l->row) * size, (size_t)l->row, acc, to + (size_t)r * size);
            store(w, s, k, to, at / l->row, (size_t)rows, acc + SINK_INITS);
        }
        return;
    }
    for (int64_t done = 0; done < l->row; done += l->tile) {
        int64_t n = l->row - done < l->tile ? l->row - done : l->tile;
        run_tile(w, own, unit * l->row + done, (size_t)n);
        for (uint32_t k = 0; k < l->n_sinks; k++) {
            const td_sink_t *s = &l->sinks[k];
            char *acc = own + s->acc, *total = acc + TD_PW_TILE * 16 - 64, *part = total + 32;
            fold_run(s, td_pw_tapped(l->pw, s->tap, own), (size_t)n, acc, part);
            if (s->wide) *(double *)(void *)total = (double)*(float *)(void *)part + (done ? *(double *)(void *)total : -0.0);
            else if (done) s->fn(total, total, part, NULL, 1);
            else memcpy(total, part, td_type_bytes(s->reg));
            if (done + n < l->row) continue;
            if (s->wide) *(float *)(void *)total = (float)*(double *)(void *)total;
            store(w, s, k, total, unit, 1, acc + SINK_INITS);
        }
    }
}

/* Some columns of one outer index, all their rows, several at a time where rows are short. */
static void columns_unit(const work_t *w, char *own, int64_t unit) {
    const td_loop_t *l = w->l;
    int64_t step = l->tile > l->row ? l->tile / l->row : 1, cols = l->tile / step;
    int64_t parts = (l->row + cols - 1) / cols, outer = unit / parts, first = unit % parts * cols;
    int64_t n_cols = l->row - first < cols ? l->row - first : cols;
    for (int64_t r = 0; r < l->reduced; r += step) {
        int64_t rows = l->reduced - r < step ? l->reduced - r : step;
        size_t n = (size_t)(rows * n_cols);
        run_tile(w, own, (outer * l->reduced + r) * l->row + first, n);
        for (uint32_t k = 0; k < l->n_sinks; k++) {
            const td_sink_t *s = &l->sinks[k];
            const void *x = td_pw_tapped(l->pw, s->tap, own);
            char *acc = own + s->acc;
            if (s->wide) {
                for (size_t i = 0; !r && i < n; i++) ((double *)(void *)acc)[i] = -0.0;
                td_vec()->add_wide(x, (double *)(void *)acc, n);
            } else if (!r) {
                memcpy(acc, x, n * td_type_bytes(s->reg));
            } else {
                s->fn(acc, acc, x, NULL, n);
            }
        }
    }
    int64_t lanes = step < l->reduced ? step : l->reduced;
    for (uint32_t k = 0; k < l->n_sinks; k++) {
        const td_sink_t *s = &l->sinks[k];
        char *acc = own + s->acc;
        double *a = (double *)(void *)acc;
        size_t size = td_type_bytes(s->reg), n = (size_t)n_cols;
        for (int64_t i = 1; i < lanes; i++) {
            if (!s->wide) s->fn(acc, acc, acc + (size_t)i * n * size, NULL, n);
            else
                for (size_t j = 0; j < n; j++) a[j] += a[(size_t)i * n + j];
        }
        char *inits = acc + SINK_INITS;
        if (s->wide) {
            acc += TD_PW_TILE * 8;
            for (size_t j = 0; j < n; j++) ((float *)(void *)acc)[j] = (float)a[j];
        }
        store(w, s, k, acc, outer * l->row + first, n, inits);
    }
}

static void plain_unit(const work_t *w, char *own, int64_t unit) {
    const td_loop_t *l = w->l;
    int64_t at, n;
    if (l->row <= TD_PW_TILE) {
        at = unit * l->tile, n = l->count - at;
    } else {
        int64_t parts = (l->row + l->tile - 1) / l->tile, done = unit % parts * l->tile;
        at = unit / parts * l->row + done, n = l->row - done;
    }
    run_tile(w, own, at, (size_t)(n < l->tile ? n : l->tile));
}

static void units(void *ctx, int64_t first, int64_t last, int worker) {
    const work_t *w = ctx;
    const td_loop_t *l = w->l;
    char *own = w->scratch + l->scratch_at + l->scratch * (uint64_t)worker;
    if (first < last) prepare(w, own);
    for (int64_t u = first; u < last; u++) {
        if (!l->n_sinks) plain_unit(w, own, u);
        else if (l->inner == 1) rows_unit(w, own, u);
        else columns_unit(w, own, u);
    }
}

enum { WORTH_A_TEAM = 32768 }; /* elements: some microseconds of work */

void td_loop_run(const td_loop_t *l, void *const *bufs, void *scratch) {
    work_t w = {l, bufs, scratch};
    if (l->count >= WORTH_A_TEAM) td_pool_run(l->units, units, &w);
    else units(&w, 0, l->units, 0);
}
