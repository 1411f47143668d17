/* SPDX-License-Identifier: Apache-2.0 */
/* Running a compiled kernel: no allocation, no locks. */
#include <string.h>

#include "base/limits.h"
#include "runtime/host/plan.h"
#include "runtime/host/types.h"

static void *address(td_buf_t b, void *const *bufs, void *scratch) {
    if (b.space == TD_BUF_SCRATCH) return (char *)scratch + b.offset;
    if (b.space == TD_BUF_ARG) return bufs[b.offset];
    return (void *)(uintptr_t)b.bytes;
}

typedef struct { uint64_t lo, hi; } u128_t;
#define STRIDED(T)                                                                       \
    static void strided_##T(T *d, const T *s, int64_t stride, size_t n) {                \
        for (size_t i = 0; i < n; i++) d[i] = s[(int64_t)i * stride];                    \
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

/* Elements [at, at+n) of the mapped array. */
static void gather(const td_map_t *m, const char *src, uint32_t bytes, int64_t at, size_t n, char *dst) {
    int64_t index[TD_LIMIT_RANK + 1], rest = at, from = 0;
    if (!m->rank) {
        run_of(dst, src, 0, n, bytes);
        return;
    }
    uint32_t last = m->rank - 1;
    for (uint32_t i = m->rank; i-- > 0;) {
        index[i] = rest % m->sizes[i], rest /= m->sizes[i];
        from += index[i] * m->strides[i];
    }
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
}

static void iota(const td_gen_t *g, int64_t at, size_t n, void *dst) {
    int64_t v[TD_PW_TILE], cur = at / g->iota_inner % g->iota_size, left = g->iota_inner - at % g->iota_inner;
    for (size_t i = 0; i < n; i++) {
        v[i] = cur;
        if (--left == 0) {
            left = g->iota_inner;
            if (++cur == g->iota_size) cur = 0;
        }
    }
    td_convert_array(TD_S64, v, g->type, dst, n);
}

static void run_loop(const td_step_t *s, void *const *bufs, void *scratch) {
    char *own = (char *)scratch + s->scratch_at;
    const void **in = (const void **)(void *)(own + s->scratch - ((s->n_gens + s->n_out) * sizeof(void *) + 63) / 64 * 64);
    void **out = (void **)(uintptr_t)(in + s->n_gens);
    for (int64_t at = 0; at < s->count; at += TD_PW_TILE) {
        size_t n = (size_t)(s->count - at < TD_PW_TILE ? s->count - at : TD_PW_TILE);
        for (uint32_t i = 0; i < s->n_gens; i++) {
            const td_gen_t *g = &s->gens[i];
            const char *src = g->kind == TD_GEN_IOTA ? NULL : address(g->buf, bufs, scratch);
            char *tile = own + g->tile;
            in[i] = tile;
            switch (g->kind) {
            case TD_GEN_LINEAR: in[i] = src + at * (int64_t)g->bytes; break;
            case TD_GEN_SPLAT:
                if (!at) run_of(tile, src, 0, n, g->bytes);
                break;
            case TD_GEN_MAP: gather(g->map, src, g->bytes, at, n, tile); break;
            case TD_GEN_IOTA: iota(g, at, n, tile); break;
            }
        }
        for (uint32_t i = 0; i < s->n_out; i++) out[i] = (char *)address(s->out[i], bufs, scratch) + at * (int64_t)s->out_bytes[i];
        td_pw_run(s->pw, in, out, n, own);
    }
}

static void run_macro(const td_step_t *s, void *const *bufs, void *scratch) {
    char *own = (char *)scratch + s->scratch_at;
    const void **in = (const void **)(void *)(own + (s->macro->scratch + 63) / 64 * 64);
    void **out = (void **)(uintptr_t)(in + s->n_in);
    for (uint32_t i = 0; i < s->n_in; i++) in[i] = address(s->in[i], bufs, scratch);
    for (uint32_t i = 0; i < s->n_out; i++) out[i] = address(s->out[i], bufs, scratch);
    if (s->copy_first) {
        if (s->bytes) memmove(out[0], in[0], s->bytes);
        in[0] = out[0];
    }
    s->macro->kind->run(s->macro->state, in, out, own);
}

td_status_t td_host_kernel_run(const td_kernel_t *k, void *const *bufs, void *scratch, td_err_t *err) {
    (void)err;
    for (uint32_t i = 0; i < k->n_steps; i++) {
        const td_step_t *s = &k->steps[i];
        if (s->kind == TD_STEP_PW) {
            run_loop(s, bufs, scratch);
            continue;
        }
        if (s->kind == TD_STEP_MACRO) {
            run_macro(s, bufs, scratch);
            continue;
        }
        void *d = address(*s->out, bufs, scratch);
        const void *a = address(*s->in, bufs, scratch);
        if (s->kind == TD_STEP_UNPACK) td_subbyte_unpack(s->type, a, d, (size_t)s->count);
        else if (s->kind == TD_STEP_PACK) td_subbyte_pack(s->type, a, d, (size_t)s->count);
        else if (s->bytes) memmove(d, a, s->bytes);
    }
    return TD_OK;
}
