/* SPDX-License-Identifier: Apache-2.0 */
/* Moves without arithmetic: transpose, slice, reverse, broadcast, copy, reshape. Each
 * is one strided box, decided at prepare. */
#include <string.h>

#include "base/limits.h"
#include "runtime/host/box.h"

/* ---- the box ---- */

static int64_t absolute(int64_t x) {
    return x < 0 ? -x : x;
}

/* Dimensions of size 1 go; the rest is ordered by destination stride, largest first; neighbours that
 * continue each other on both sides become one. */
static uint32_t normalise(uint32_t rank, int64_t *d, int64_t *dst, int64_t *src) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < rank; i++)
        if (d[i] != 1) d[n] = d[i], dst[n] = dst[i], src[n] = src[i], n++;
    for (uint32_t i = 1; i < n; i++)
        for (uint32_t k = i; k > 0 && absolute(dst[k - 1]) < absolute(dst[k]); k--) {
            int64_t t;
            t = d[k], d[k] = d[k - 1], d[k - 1] = t;
            t = dst[k], dst[k] = dst[k - 1], dst[k - 1] = t;
            t = src[k], src[k] = src[k - 1], src[k - 1] = t;
        }
    uint32_t m = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (m && dst[m - 1] == dst[i] * d[i] && src[m - 1] == src[i] * d[i]) {
            d[m - 1] *= d[i], dst[m - 1] = dst[i], src[m - 1] = src[i];
        } else {
            d[m] = d[i], dst[m] = dst[i], src[m] = src[i], m++;
        }
    }
    return m;
}

td_status_t td_box_make(td_arena_t *arena, uint32_t rank, const int64_t *dims, uint32_t elem, const int64_t *dst, const int64_t *src,
                        int64_t dst_offset, int64_t src_offset, const td_box_t **out, td_err_t *err) {
    if (rank > TD_BOX_RANK_MAX) return td_fail(err, TD_LIMIT, "rank %u, at most %d", rank, TD_BOX_RANK_MAX);
    td_box_t *b = TD_NEW(arena, td_box_t);
    int64_t *v = TD_NEW_N(arena, int64_t, 3 * ((size_t)rank + 1));
    if (!b || !v) return td_arena_fail(arena, err);
    int64_t *d = v, *ds = v + rank + 1, *ss = v + 2 * (rank + 1);
    bool empty = false;
    for (uint32_t i = 0; i < rank; i++) {
        d[i] = dims[i], ds[i] = dst[i] * elem, ss[i] = src[i] * elem;
        empty |= dims[i] == 0;
    }
    uint32_t n = empty ? 1 : normalise(rank, d, ds, ss);
    if (empty) d[0] = 0, ds[0] = ss[0] = elem;
    if (n == 0) d[0] = 1, ds[0] = ss[0] = elem, n = 1;
    *b = (td_box_t){n, elem, d, ds, ss, dst_offset * elem, src_offset * elem};
    *out = b;
    return TD_OK;
}

#define RUN(T)                                                                                                   \
    for (int64_t i = 0; i < n; i++) {                                                                            \
        T v;                                                                                                     \
        memcpy(&v, src + i * ss, sizeof v);                                                                      \
        memcpy(dst + i * ds, &v, sizeof v);                                                                      \
    }
typedef struct pair {
    uint64_t a, b;
} pair_t;

static void run_elements(char *dst, int64_t ds, const char *src, int64_t ss, int64_t n, uint32_t elem) {
    if (ds == elem && ss == elem) {
        memcpy(dst, src, (size_t)n * elem);
        return;
    }
    switch (elem) {
    case 1: RUN(uint8_t) break;
    case 2: RUN(uint16_t) break;
    case 4: RUN(uint32_t) break;
    case 8: RUN(uint64_t) break;
    default: RUN(pair_t) break;
    }
}

void td_box_copy(const td_box_t *b, void *dst_v, const void *src_v) {
    char *dst = (char *)dst_v + b->dst_offset;
    const char *src = (const char *)src_v + b->src_offset;
    uint32_t last = b->rank - 1;
    int64_t idx[TD_BOX_RANK_MAX + 1] = {0};
    if (b->dims[last] == 0) return;
    for (;;) {
        run_elements(dst, b->dst[last], src, b->src[last], b->dims[last], b->elem);
        uint32_t k = last;
        for (;;) {
            if (k == 0) return;
            k--;
            dst += b->dst[k], src += b->src[k];
            if (++idx[k] < b->dims[k]) break;
            dst -= b->dst[k] * b->dims[k], src -= b->src[k] * b->dims[k];
            idx[k] = 0;
        }
    }
}

static void run_box(const void *state, const void *const *in, void *const *out, void *scratch) {
    (void)scratch;
    td_box_copy(state, out[0], in[0]);
}

/* ---- the opcodes ---- */

static td_status_t wrong(const td_hlo_instr_t *instr, const char *what, td_err_t *err) {
    return td_fail(err, TD_MALFORMED, "%s %s: %s", instr->opcode_name, instr->name, what);
}

typedef struct sides {
    const td_shape_t *from, *to;
    int64_t src[TD_BOX_RANK_MAX], dst[TD_BOX_RANK_MAX];
} sides_t;

static td_status_t sides(const td_hlo_instr_t *instr, sides_t *s, td_err_t *err) {
    if (instr->n_operands < 1) return wrong(instr, "no operand", err);
    s->from = instr->operands[0]->shape;
    s->to = instr->shape;
    if (!td_type_is_array(s->from->type) || !td_type_is_array(s->to->type) ||
        td_type_bytes(s->from->type) != td_type_bytes(s->to->type))
        return wrong(instr, "operand and result types differ in size", err);
    if (s->from->rank > TD_BOX_RANK_MAX || s->to->rank > TD_BOX_RANK_MAX) return wrong(instr, "rank is too high", err);
    td_shape_strides(s->from, s->src);
    td_shape_strides(s->to, s->dst);
    return TD_OK;
}

static td_status_t make(const sides_t *s, td_arena_t *arena, const int64_t *src, int64_t src_offset, void **out_state, uint64_t *out_scratch,
                        td_err_t *err) {
    const td_box_t *b;
    td_status_t st = td_box_make(arena, s->to->rank, s->to->dims, td_type_bytes(s->to->type), s->dst, src, 0, src_offset, &b, err);
    if (st != TD_OK) return st;
    *out_state = (void *)(uintptr_t)b;
    *out_scratch = 0;
    return TD_OK;
}

static td_status_t prepare_transpose(const td_hlo_instr_t *instr, td_arena_t *arena, void **state, uint64_t *scratch, td_err_t *err) {
    sides_t s;
    td_status_t st = sides(instr, &s, err);
    if (st != TD_OK) return st;
    int64_t src[TD_BOX_RANK_MAX];
    uint64_t seen = 0;
    if (s.from->rank != s.to->rank || instr->dimensions.n != s.to->rank) return wrong(instr, "ranks differ", err);
    for (uint32_t i = 0; i < s.to->rank; i++) {
        int64_t d = instr->dimensions.v[i];
        if (d < 0 || d >= (int64_t)s.from->rank || (seen >> d & 1) || s.from->dims[d] != s.to->dims[i])
            return wrong(instr, "dimensions do not fit", err);
        seen |= 1ull << d;
        src[i] = s.src[d];
    }
    return make(&s, arena, src, 0, state, scratch, err);
}

static td_status_t prepare_slice(const td_hlo_instr_t *instr, td_arena_t *arena, void **state, uint64_t *scratch, td_err_t *err) {
    sides_t s;
    td_status_t st = sides(instr, &s, err);
    if (st != TD_OK) return st;
    int64_t src[TD_BOX_RANK_MAX], offset = 0;
    if (s.from->rank != s.to->rank || instr->n_slice != s.to->rank) return wrong(instr, "ranks differ", err);
    for (uint32_t i = 0; i < s.to->rank; i++) {
        td_slice_dim_t d = instr->slice[i];
        int64_t stride = d.stride ? d.stride : 1;
        if (d.start < 0 || stride < 1 || d.limit < d.start || d.limit > s.from->dims[i] ||
            s.to->dims[i] != (d.limit - d.start) / stride + ((d.limit - d.start) % stride != 0))
            return wrong(instr, "bounds do not fit the operand", err);
        src[i] = s.src[i] * stride;
        offset += s.src[i] * d.start;
    }
    return make(&s, arena, src, offset, state, scratch, err);
}

static td_status_t prepare_reverse(const td_hlo_instr_t *instr, td_arena_t *arena, void **state, uint64_t *scratch, td_err_t *err) {
    sides_t s;
    td_status_t st = sides(instr, &s, err);
    if (st != TD_OK) return st;
    if (!td_shape_same_dims(s.from, s.to)) return wrong(instr, "shapes differ", err);
    int64_t src[TD_BOX_RANK_MAX], offset = 0;
    uint64_t seen = 0;
    memcpy(src, s.src, sizeof src);
    for (uint32_t i = 0; i < instr->dimensions.n; i++) {
        int64_t d = instr->dimensions.v[i];
        if (d < 0 || d >= (int64_t)s.to->rank || (seen >> d & 1)) return wrong(instr, "bad dimension", err);
        seen |= 1ull << d;
        src[d] = -s.src[d];
        if (s.to->dims[d] > 0) offset += s.src[d] * (s.to->dims[d] - 1);
    }
    return make(&s, arena, src, offset, state, scratch, err);
}

static td_status_t prepare_broadcast(const td_hlo_instr_t *instr, td_arena_t *arena, void **state, uint64_t *scratch, td_err_t *err) {
    sides_t s;
    td_status_t st = sides(instr, &s, err);
    if (st != TD_OK) return st;
    int64_t src[TD_BOX_RANK_MAX] = {0};
    if (instr->dimensions.n != s.from->rank) return wrong(instr, "one dimension per operand dimension is needed", err);
    for (uint32_t i = 0; i < s.from->rank; i++) {
        int64_t d = instr->dimensions.v[i];
        if (d < 0 || d >= (int64_t)s.to->rank || src[d] || (s.from->dims[i] != s.to->dims[d] && s.from->dims[i] != 1))
            return wrong(instr, "dimensions do not fit", err);
        src[d] = s.from->dims[i] == 1 ? 0 : s.src[i];
    }
    return make(&s, arena, src, 0, state, scratch, err);
}

static td_status_t prepare_copy(const td_hlo_instr_t *instr, td_arena_t *arena, void **state, uint64_t *scratch, td_err_t *err) {
    sides_t s;
    td_status_t st = sides(instr, &s, err);
    if (st != TD_OK) return st;
    if (!td_shape_same_dims(s.from, s.to)) return wrong(instr, "shapes differ", err);
    return make(&s, arena, s.src, 0, state, scratch, err);
}

/* ---- reshape: the elements in logical order; through scratch when no single box does it ---- */

typedef struct reshape {
    const td_box_t *gather, *spread; /* operand -> logical order, logical order -> result */
} reshape_t;

static void row_major(const td_shape_t *s, int64_t *strides) {
    int64_t n = 1;
    for (uint32_t i = s->rank; i-- > 0;) {
        strides[i] = n;
        n *= s->dims[i];
    }
}
static td_status_t prepare_reshape(const td_hlo_instr_t *instr, td_arena_t *arena, void **state, uint64_t *scratch, td_err_t *err) {
    sides_t s;
    td_status_t st = sides(instr, &s, err);
    if (st != TD_OK) return st;
    if (s.from->count != s.to->count) return wrong(instr, "element counts differ", err);
    reshape_t *r = TD_NEW(arena, reshape_t);
    if (!r) return td_arena_fail(arena, err);
    int64_t lin[TD_BOX_RANK_MAX];
    uint32_t elem = td_type_bytes(s.to->type);
    row_major(s.from, lin);
    st = td_box_make(arena, s.from->rank, s.from->dims, elem, lin, s.src, 0, 0, &r->gather, err);
    if (st != TD_OK) return st;
    row_major(s.to, lin);
    st = td_box_make(arena, s.to->rank, s.to->dims, elem, s.dst, lin, 0, 0, &r->spread, err);
    if (st != TD_OK) return st;
    *state = r;
    *scratch = (uint64_t)s.to->count * elem;
    return TD_OK;
}
static void run_reshape(const void *state, const void *const *in, void *const *out, void *scratch) {
    const reshape_t *r = state;
    td_box_copy(r->gather, scratch, in[0]);
    td_box_copy(r->spread, out[0], scratch);
}

const td_host_op_kind_t td_macro_transpose = {TD_HLO_TRANSPOSE, prepare_transpose, run_box, false};
const td_host_op_kind_t td_macro_slice = {TD_HLO_SLICE, prepare_slice, run_box, false};
const td_host_op_kind_t td_macro_reverse = {TD_HLO_REVERSE, prepare_reverse, run_box, false};
const td_host_op_kind_t td_macro_broadcast = {TD_HLO_BROADCAST, prepare_broadcast, run_box, false};
const td_host_op_kind_t td_macro_copy = {TD_HLO_COPY, prepare_copy, run_box, false};
const td_host_op_kind_t td_macro_reshape = {TD_HLO_RESHAPE, prepare_reshape, run_reshape, false};
