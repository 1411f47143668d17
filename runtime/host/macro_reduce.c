/* SPDX-License-Identifier: Apache-2.0 */
/* reduce with any computation and several operands.
 *
 * Vectors run over kept elements ("down": acc[n] = f(acc[n], x[n]) for each
 * reduced index) or, where a reduced dimension is contiguous or little is kept,
 * over reduced elements ("along": lanes, folded at the end). A reducer is
 * associative and commutative, as XLA asks of it. f32 sums are held in f64. */
#include <string.h>

#include "runtime/host/macro_ops.h"

typedef struct lane {
    td_type_t type;
    uint32_t size, reg_size;
    td_dims_t kept, reduced, result;
    uint64_t acc_at, x_at, raw_at;
} lane_t;

typedef struct reduce {
    td_combiner_t f;
    lane_t *lanes;
    int64_t kept, reduced;
    bool along, convert; /* convert: registers differ from the array's type */
    bool sum_f32;        /* add of f32 in f64 */
    uint64_t off_at, red_at, pw_at;
} reduce_t;

/* Reduced dimensions from slow to fast, so that runs are contiguous where they can be. */
static void sort_dims(td_dims_t *d) {
    for (uint32_t i = 1; i < d->rank; i++)
        for (uint32_t k = i; k && d->stride[k - 1] < d->stride[k]; k--) {
            int64_t n = d->n[k], s = d->stride[k];
            d->n[k] = d->n[k - 1], d->stride[k] = d->stride[k - 1];
            d->n[k - 1] = n, d->stride[k - 1] = s;
        }
}

static void merge(td_dims_t *d) {
    uint32_t to = 0;
    for (uint32_t i = 0; i < d->rank; i++) {
        if (d->n[i] == 1) continue;
        if (to && d->stride[to - 1] == d->stride[i] * d->n[i]) {
            d->n[to - 1] *= d->n[i];
            d->stride[to - 1] = d->stride[i];
        } else {
            d->n[to] = d->n[i];
            d->stride[to++] = d->stride[i];
        }
    }
    d->rank = to;
}

static td_status_t lane_dims(const td_hlo_instr_t *instr, uint32_t k, lane_t *l, td_err_t *err) {
    const td_shape_t *a = td_operand(instr, k), *o = td_result(instr, k);
    int64_t as[TD_LIMIT_RANK], os[TD_LIMIT_RANK];
    uint64_t red = 0;
    uint32_t at = 0;
    TD_NEED(td_type_is_array(a->type) && a->type == o->type && td_operand(instr, instr->n_operands / 2 + k)->type == a->type &&
                td_operand(instr, instr->n_operands / 2 + k)->rank == 0, "operand, initial value and result %u differ in type", k);
    TD_NEED(a->rank == td_operand(instr, 0)->rank, "rank of operand %u", k);
    for (uint32_t i = 0; i < instr->dimensions.n; i++) {
        int64_t d = instr->dimensions.v[i];
        TD_NEED(d >= 0 && d < a->rank && !(red >> d & 1), "dimension %lld of rank %u", (long long)d, a->rank);
        red |= 1ull << d;
    }
    TD_NEED(o->rank + instr->dimensions.n == a->rank, "result rank %u", o->rank);
    td_shape_strides(a, as);
    td_shape_strides(o, os);
    for (uint32_t i = 0; i < a->rank; i++) {
        TD_NEED(a->dims[i] == td_operand(instr, 0)->dims[i], "dimension %u of operand %u", i, k);
        if (red >> i & 1) {
            td_dims_add(&l->reduced, a->dims[i], as[i]);
            continue;
        }
        TD_NEED(o->dims[at] == a->dims[i], "result dimension %u", at);
        td_dims_add(&l->kept, a->dims[i], as[i]);
        td_dims_add(&l->result, a->dims[i], os[at++]);
    }
    l->type = a->type;
    l->size = td_elem(a);
    return TD_OK;
}

static void choose(reduce_t *r, uint32_t n) {
    lane_t *l = r->lanes;
    r->kept = td_dims_count(&l->kept);
    r->reduced = td_dims_count(&l->reduced);
    if (n == 1 && r->kept && r->reduced) { /* order is free; several operands must stay in step */
        sort_dims(&l->reduced);
        merge(&l->reduced);
    }
    bool unit = l->reduced.rank && l->reduced.stride[l->reduced.rank - 1] == 1;
    if (r->f.fn) r->along = r->reduced >= 16 && (unit || r->kept < 16);
    else r->along = r->reduced >= 32 && r->kept < 64;
}

td_status_t td_reduce_prepare(const td_hlo_instr_t *instr, td_arena_t *arena, void **out_state, uint64_t *out_scratch,
                              td_err_t *err) {
    uint32_t n = 0;
    td_status_t arity = td_reduction_arity(instr, &n, err);
    if (arity) return arity;
    td_type_t types[TD_MACRO_ARRAYS];
    reduce_t *r = TD_NEW(arena, reduce_t);
    if (!r || !(r->lanes = TD_NEW_N(arena, lane_t, n))) return td_arena_fail(arena, err);
    for (uint32_t k = 0; k < n; k++) {
        td_status_t st = lane_dims(instr, k, &r->lanes[k], err);
        if (st) return st;
        types[k] = r->lanes[k].type;
    }
    td_status_t st = td_combiner_make(&r->f, instr->called[0], n, types, true, arena, err);
    if (st) return td_prefix(err, st, "%s", instr->name);
    r->convert = r->f.fn && r->f.reg != types[0];
    r->sum_f32 = r->convert && types[0] == TD_F32;
    choose(r, n);
    *out_scratch = 0;
    bool ok = td_reserve(out_scratch, TD_PW_TILE, 8, &r->off_at) && td_reserve(out_scratch, TD_PW_TILE, 8, &r->red_at) &&
              td_reserve(out_scratch, r->f.scratch, 1, &r->pw_at);
    for (uint32_t k = 0; k < n && ok; k++) {
        lane_t *l = &r->lanes[k];
        l->reg_size = r->f.fn ? td_type_bytes(r->f.reg) : l->size;
        ok = td_reserve(out_scratch, TD_PW_TILE, 16, &l->acc_at) && td_reserve(out_scratch, TD_PW_TILE, 16, &l->x_at) &&
             td_reserve(out_scratch, TD_PW_TILE, 16, &l->raw_at);
    }
    TD_NEED_AS(TD_LIMIT, ok, "scratch overflows");
    *out_state = r;
    return TD_OK;
}

/* The n elements at base + off as registers: the array itself when it can be used where it lies. */
static const void *fetch(const reduce_t *r, const lane_t *l, const char *base, const int64_t *off, size_t n, char *s) {
    const char *p = base + off[0] * l->size;
    int64_t broken = 0;
    for (size_t i = 1; i < n; i++) broken |= (off[i] - off[i - 1]) ^ 1;
    if (broken) {
        td_take(l->size, base, off, n, s + l->raw_at);
        p = s + l->raw_at;
    }
    if (!r->convert) return p;
    td_convert_array(l->type, p, r->f.reg, s + l->x_at, n);
    return s + l->x_at;
}

static void combine(const reduce_t *r, char *s, size_t at, const void *const *x, size_t n) {
    void *acc[TD_MACRO_ARRAYS];
    for (uint32_t k = 0; k < r->f.n; k++) acc[k] = s + r->lanes[k].acc_at + at * r->lanes[k].reg_size;
    td_combine(&r->f, acc, x, acc, n, s + r->pw_at);
}

/* The initial values in acc[0..n). */
static void start(const reduce_t *r, const void *const *in, size_t n, char *s) {
    for (uint32_t k = 0; k < r->f.n; k++) {
        const lane_t *l = &r->lanes[k];
        const void *init = in[r->f.n + k];
        char one[16];
        if (r->convert) {
            td_convert_array(l->type, init, r->f.reg, one, 1);
            init = one;
        }
        td_fill(l->reg_size, init, n, s + l->acc_at);
    }
}

static void finish(const reduce_t *r, void *const *out, int64_t first, size_t n, char *s) {
    int64_t *off = (int64_t *)(void *)(s + r->off_at);
    for (uint32_t k = 0; k < r->f.n; k++) {
        const lane_t *l = &r->lanes[k];
        const char *p = s + l->acc_at;
        if (r->convert) {
            td_convert_array(r->f.reg, p, l->type, s + l->raw_at, n);
            p = s + l->raw_at;
        }
        td_dims_offsets(&l->result, first, n, off);
        td_put(l->size, p, off, n, out[k]);
    }
}

static void down(const reduce_t *r, const void *const *in, int64_t first, size_t n, char *s) {
    int64_t *off = (int64_t *)(void *)(s + r->off_at);
    const void *x[TD_MACRO_ARRAYS];
    start(r, in, n, s);
    if (r->f.n == 1) td_dims_offsets(&r->lanes[0].kept, first, n, off);
    for (int64_t i = 0; i < r->reduced; i++) {
        for (uint32_t k = 0; k < r->f.n; k++) {
            const lane_t *l = &r->lanes[k];
            int64_t red;
            if (r->f.n > 1) td_dims_offsets(&l->kept, first, n, off);
            td_dims_offsets(&l->reduced, i, 1, &red);
            x[k] = fetch(r, l, (const char *)in[k] + red * l->size, off, n, s);
        }
        combine(r, s, 0, x, n);
    }
}

/* -0 is what adding does not change: sums of -0 stay -0. */
static double sum_run(const float *x, int64_t n) {
    double a[16], t = -0.0;
    for (int k = 0; k < 16; k++) a[k] = -0.0;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int k = 0; k < 16; k++) a[k] += (double)x[i + k];
    for (; i < n; i++) t += (double)x[i];
    for (int k = 0; k < 16; k++) t += a[k];
    return t;
}

/* f32 sums over contiguous runs. */
static double sum_all(const reduce_t *r, const float *base) {
    const td_dims_t *d = &r->lanes[0].reduced;
    int64_t run = d->n[d->rank - 1], off;
    double t = -0.0;
    for (int64_t i = 0; i < r->reduced; i += run) {
        td_dims_offsets(d, i, 1, &off);
        t += sum_run(base + off, run);
    }
    return t;
}

/* Folds lanes [0, n) of the accumulators into lane 0, n a power of two. */
static void fold(const reduce_t *r, size_t n, char *s) {
    const void *x[TD_MACRO_ARRAYS];
    while (n > 1) {
        n /= 2;
        for (uint32_t k = 0; k < r->f.n; k++) x[k] = s + r->lanes[k].acc_at + n * r->lanes[k].reg_size;
        combine(r, s, 0, x, n);
    }
}

static void along(const reduce_t *r, const void *const *in, int64_t kept, char *s) {
    int64_t *off = (int64_t *)(void *)(s + r->red_at), at[TD_MACRO_ARRAYS];
    const void *x[TD_MACRO_ARRAYS];
    size_t lanes = TD_PW_TILE;
    while ((int64_t)lanes > r->reduced) lanes /= 2;
    for (uint32_t k = 0; k < r->f.n; k++) td_dims_offsets(&r->lanes[k].kept, kept, 1, &at[k]);
    for (int64_t i = 0; i < r->reduced; i += (int64_t)lanes) {
        size_t n = r->reduced - i < (int64_t)lanes ? (size_t)(r->reduced - i) : lanes;
        for (uint32_t k = 0; k < r->f.n; k++) {
            const lane_t *l = &r->lanes[k];
            td_dims_offsets(&l->reduced, i, n, off);
            x[k] = fetch(r, l, (const char *)in[k] + at[k] * l->size, off, n, s);
            if (!i) memcpy(s + l->acc_at, x[k], n * l->reg_size);
        }
        if (i) combine(r, s, 0, x, n);
    }
    fold(r, lanes, s);
    /* The initial value is the left operand: f(init, lane 0). */
    void *acc[TD_MACRO_ARRAYS];
    for (uint32_t k = 0; k < r->f.n; k++) {
        const lane_t *l = &r->lanes[k];
        memcpy(s + l->x_at, s + l->acc_at, l->reg_size);
        x[k] = s + l->x_at;
        acc[k] = s + l->acc_at;
    }
    start(r, in, 1, s);
    td_combine(&r->f, acc, x, acc, 1, s + r->pw_at);
}

void td_reduce_run(const void *state, const void *const *in, void *const *out, void *scratch) {
    const reduce_t *r = state;
    char *s = scratch;
    const lane_t *l = &r->lanes[0];
    bool sums = r->sum_f32 && r->along && l->reduced.rank && l->reduced.stride[l->reduced.rank - 1] == 1;
    for (int64_t i = 0; i < r->kept;) {
        size_t n = r->along ? 1 : r->kept - i < TD_PW_TILE ? (size_t)(r->kept - i) : TD_PW_TILE;
        if (sums) {
            int64_t off;
            td_dims_offsets(&l->kept, i, 1, &off);
            *(double *)(void *)(s + l->acc_at) = (double)*(const float *)in[1] + sum_all(r, (const float *)in[0] + off);
        } else if (r->along) {
            along(r, in, i, s);
        } else {
            down(r, in, i, n, s);
        }
        finish(r, out, i, n, s);
        i += (int64_t)n;
    }
}
