/* SPDX-License-Identifier: Apache-2.0 */
/* batch-norm-training, -inference and -grad over all dimensions but the feature's. Everything in f64, rounded once.
 *
 * training: x, scale, offset -> y, mean, biased variance. inference: x, scale, offset, mean, variance -> y.
 * grad: x, scale, mean, variance, dy -> dx, dscale, doffset. */
#include <math.h>

#include "runtime/host/macro_ops.h"

typedef struct norm {
    td_opcode_t opcode;
    td_type_t type;
    uint32_t size;
    int64_t features, each; /* elements per feature */
    int64_t x_step, y_step, d_step; /* from feature to feature: x, the large result, dy */
    td_dims_t x, y, d;      /* the other dimensions, walked alike */
    double epsilon;
} norm_t;

static bool vector(const td_shape_t *s, td_type_t t, int64_t n) {
    return s->type == t && s->rank == 1 && s->dims[0] == n;
}

/* s has x's dimensions; its walk leaves out dimension f. */
static bool walk(const td_shape_t *x, const td_shape_t *s, int64_t f, td_dims_t *d, int64_t *step) {
    int64_t strides[TD_LIMIT_RANK];
    if (!td_shape_same_dims(x, s)) return false;
    td_shape_strides(s, strides);
    *step = strides[f];
    for (uint32_t i = 0; i < s->rank; i++)
        if (i != f) td_dims_add(d, s->dims[i], strides[i]);
    return true;
}

td_status_t td_batch_norm_prepare(const td_hlo_instr_t *instr, td_arena_t *arena, void **out_state,
                                  uint64_t *out_scratch, td_err_t *err) {
    bool training = instr->opcode == TD_HLO_BATCH_NORM_TRAINING, grad = instr->opcode == TD_HLO_BATCH_NORM_GRAD;
    TD_NEED(instr->n_operands == (training ? 3 : 5), "%u operands", instr->n_operands);
    TD_NEED(instr->shape->type == TD_TUPLE ? instr->shape->rank == 3 && (training || grad) : !training && !grad,
            "result");
    const td_shape_t *x = td_operand(instr, 0), *y = td_result(instr, 0);
    int64_t f = instr->feature_index;
    TD_NEED(td_type_is_float(x->type) && f >= 0 && f < x->rank, "feature %lld of rank %u", (long long)f, x->rank);
    norm_t *n = TD_NEW(arena, norm_t);
    if (!n) return td_arena_fail(arena, err);
    n->opcode = instr->opcode, n->type = x->type, n->size = td_elem(x), n->features = x->dims[f],
    n->epsilon = (double)instr->epsilon;
    TD_NEED(walk(x, x, f, &n->x, &n->x_step) && walk(x, y, f, &n->y, &n->y_step), "operand and result differ");
    if (grad) TD_NEED(walk(x, td_operand(instr, 4), f, &n->d, &n->d_step), "operand and gradient differ");
    for (uint32_t i = 1; i < instr->n_operands - grad; i++)
        TD_NEED(vector(td_operand(instr, i), x->type, n->features), "operand %u", i);
    for (uint32_t i = 1; instr->shape->type == TD_TUPLE && i < 3; i++)
        TD_NEED(vector(td_result(instr, i), x->type, n->features), "result %u", i);
    n->each = x->count ? td_dims_count(&n->x) : 0;
    if (!x->count && !training && !grad) n->features = 0;
    *out_state = n;
    *out_scratch = 0;
    return TD_OK;
}

enum { TILE = 512 };

/* n elements at base + feature * step, from the first-th on, as f64. */
static void load(const norm_t *b, const td_dims_t *d, const void *base, int64_t at, int64_t first, size_t n,
                 double *x) {
    int64_t off[TILE];
    uint64_t raw[TILE];
    td_dims_offsets(d, first, n, off);
    td_take(b->size, (const char *)base + at * b->size, off, n, raw);
    td_convert_array(b->type, raw, TD_F64, x, n);
}
static void store(const norm_t *b, void *base, int64_t at, int64_t first, size_t n, const double *y) {
    int64_t off[TILE];
    uint64_t raw[TILE];
    td_dims_offsets(&b->y, first, n, off);
    td_convert_array(TD_F64, y, b->type, raw, n);
    td_put(b->size, raw, off, n, (char *)base + at * b->size);
}
static double get(const norm_t *b, const void *base, int64_t i) {
    double x;
    td_convert_array(b->type, (const char *)base + i * b->size, TD_F64, &x, 1);
    return x;
}
static void put(const norm_t *b, void *base, int64_t i, double x) {
    td_convert_array(TD_F64, &x, b->type, (char *)base + i * b->size, 1);
}

#define TILES(b, first, n) \
    for (int64_t first = 0, n; first < (b)->each && (n = (b)->each - first < TILE ? (b)->each - first : TILE, true); \
         first += TILE)

static void moments(const norm_t *b, const void *in, int64_t f, double *mean, double *variance) {
    double x[TILE], sum = 0, squares = 0;
    TILES(b, first, n) {
        load(b, &b->x, in, f * b->x_step, first, (size_t)n, x);
        for (int64_t i = 0; i < n; i++) sum += x[i];
    }
    *mean = sum / (double)b->each;
    TILES(b, first, n) {
        load(b, &b->x, in, f * b->x_step, first, (size_t)n, x);
        for (int64_t i = 0; i < n; i++) squares += (x[i] - *mean) * (x[i] - *mean);
    }
    *variance = squares / (double)b->each;
}

static void forward(const norm_t *b, const void *const *in, void *const *out, int64_t f) {
    double x[TILE], mean, variance;
    if (b->opcode == TD_HLO_BATCH_NORM_TRAINING) {
        moments(b, in[0], f, &mean, &variance);
        put(b, out[1], f, mean);
        put(b, out[2], f, variance);
    } else {
        mean = get(b, in[3], f), variance = get(b, in[4], f);
    }
    double scale = get(b, in[1], f) / sqrt(variance + b->epsilon), offset = get(b, in[2], f);
    TILES(b, first, n) {
        load(b, &b->x, in[0], f * b->x_step, first, (size_t)n, x);
        for (int64_t i = 0; i < n; i++) x[i] = (x[i] - mean) * scale + offset;
        store(b, out[0], f * b->y_step, first, (size_t)n, x);
    }
}

static void backward(const norm_t *b, const void *const *in, void *const *out, int64_t f) {
    double x[TILE], dy[TILE], sum = 0, product = 0, count = (double)b->each;
    double scale = get(b, in[1], f), mean = get(b, in[2], f), r = 1 / sqrt(get(b, in[3], f) + b->epsilon);
    TILES(b, first, n) {
        load(b, &b->x, in[0], f * b->x_step, first, (size_t)n, x);
        load(b, &b->d, in[4], f * b->d_step, first, (size_t)n, dy);
        for (int64_t i = 0; i < n; i++) sum += dy[i], product += dy[i] * (x[i] - mean);
    }
    put(b, out[1], f, product * r);
    put(b, out[2], f, sum);
    TILES(b, first, n) {
        load(b, &b->x, in[0], f * b->x_step, first, (size_t)n, x);
        load(b, &b->d, in[4], f * b->d_step, first, (size_t)n, dy);
        for (int64_t i = 0; i < n; i++)
            x[i] = scale * r / count * (count * dy[i] - sum - (x[i] - mean) * r * r * product);
        store(b, out[0], f * b->y_step, first, (size_t)n, x);
    }
}

void td_batch_norm_run(const void *state, const void *const *in, void *const *out, void *scratch) {
    const norm_t *b = state;
    (void)scratch;
    for (int64_t f = 0; f < b->features; f++)
        if (b->opcode == TD_HLO_BATCH_NORM_GRAD) backward(b, in, out, f);
        else forward(b, in, out, f);
}
