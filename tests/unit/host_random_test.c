/* SPDX-License-Identifier: Apache-2.0 */
/* Random instructions: whatever passes the module's checks is compiled or refused, and what is compiled runs
 * within its arrays. A sanitizer build says whether it does. */
#include <stdio.h>

#include "hlo_build.h"
#include "runtime/hlo/hlo_parse.h"

enum { ROUNDS = 8000, MOST = 4096 };

static uint32_t seed = 1;
static uint32_t draw(uint32_t n) {
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

static const td_type_t types[] = {TD_F32, TD_F32, TD_F32, TD_S32, TD_S32, TD_PRED, TD_F64, TD_U8, TD_U64,
                                  TD_BF16, TD_S4, TD_C64, TD_F8E4M3FN, TD_U16, TD_F4E2M1FN, TD_S64};
static td_type_t common;
static int64_t sizes[4]; /* dimensions of one round are of few sizes, so that many fit together */

static const td_shape_t *array(void) {
    static const int32_t orders[4][3] = {{0}, {0}, {1, 0}, {1, 2, 0}};
    int64_t dims[4];
    uint32_t rank = draw(8) == 0 ? 0 : draw(4);
    for (uint32_t i = 0; i < rank; i++) dims[i] = sizes[draw(4)];
    td_type_t t = draw(5) ? common : types[draw(sizeof types / sizeof *types)];
    return shape(t, draw(3) ? NULL : orders[rank], rank, dims);
}
static const td_shape_t *any(int depth) {
    if (depth == 0 || draw(4)) return array();
    const td_shape_t *e[3];
    uint32_t n = draw(4);
    for (uint32_t i = 0; i < n; i++) e[i] = any(depth - 1);
    return tuple_of(n, e);
}
static td_ints_t list(void) {
    uint32_t n = draw(4);
    int64_t *v = TD_NEW_N(&arena, int64_t, n + 1);
    for (uint32_t i = 0; i < n; i++) v[i] = (int64_t)draw(5) - (draw(10) == 0);
    return (td_ints_t){v, n};
}

static void attributes(td_hlo_instr_t *i) {
    td_dot_dims_t *dot = TD_NEW(&arena, td_dot_dims_t);
    td_gather_dims_t *g = TD_NEW(&arena, td_gather_dims_t);
    td_scatter_dims_t *s = TD_NEW(&arena, td_scatter_dims_t);
    *dot = (td_dot_dims_t){list(), list(), list(), list(), list(), list()};
    *g = (td_gather_dims_t){list(), list(), list(), list(), list(), draw(4)};
    *s = (td_scatter_dims_t){list(), list(), list(), list(), list(), draw(4)};
    i->dot = draw(9) ? dot : NULL, i->gather = g, i->scatter = s;
    i->dimensions = list(), i->gather_slice_sizes = list(), i->dynamic_slice_sizes = list();
    i->window.n = i->n_pad = i->n_slice = draw(4);
    td_window_dim_t *w = TD_NEW_N(&arena, td_window_dim_t, 4);
    i->pad = TD_NEW_N(&arena, td_pad_dim_t, 4), i->slice = TD_NEW_N(&arena, td_slice_dim_t, 4), i->window.dims = w;
    for (int k = 0; k < 4; k++) {
        w[k] = (td_window_dim_t){1 + draw(3), 1 + draw(2), (int64_t)draw(4) - 1, draw(3), 1 + draw(2),
                                 1 + draw(2), draw(2)};
        i->pad[k] = (td_pad_dim_t){(int64_t)draw(4) - 1, (int64_t)draw(4) - 1, draw(2)};
        i->slice[k] = (td_slice_dim_t){draw(2), draw(4), 1 + draw(2)};
    }
    i->direction = (td_cmp_dir_t)draw(6);
    i->exponent_bits = (int32_t)draw(12), i->mantissa_bits = (int32_t)draw(60);
    i->rng_algorithm = (int32_t)draw(4), i->rng_distribution = (int32_t)draw(4), i->feature_index = draw(4),
    i->epsilon = 0.1f;
    i->scan.num_carries = draw(3), i->scan.is_reverse = draw(2), i->tuple_index = draw(2),
    i->fft_type = (int32_t)draw(4);
    i->fft_length = list(), i->triangular.left_side = draw(2), i->triangular.transpose_a = (int32_t)draw(4);
    i->custom_call_target = "";
}

/* A computation over scalars, or over these shapes. */
static const td_hlo_comp_t *callee(uint32_t n, const td_shape_t *const *shapes, const td_shape_t *out) {
    static const td_opcode_t ops[] = {TD_HLO_ADD, TD_HLO_MAXIMUM, TD_HLO_SUBTRACT, TD_HLO_COMPARE};
    comp_begin();
    if (draw(3)) {
        td_opcode_t op = ops[draw(4)];
        td_hlo_instr_t *p[8], *r;
        uint32_t k = draw(2) ? 2 : n;
        for (uint32_t i = 0; i < k; i++) p[i] = param(i, SHAPE(common));
        r = k < 2 ? k ? p[0] : constant(SHAPE(common), (char[16]){0})
                  : NODE(op, SHAPE(op == TD_HLO_COMPARE ? TD_PRED : common), p[0], p[k / 2]);
        return comp_of(r);
    }
    td_hlo_instr_t *p[8] = {0};
    for (uint32_t i = 0; i < n; i++) p[i] = param(i, shapes[i]);
    if (out->type != TD_TUPLE && draw(2))
        return comp_of(constant(out, memset(td_arena_align(&arena, out->bytes + 8, 8), 0, out->bytes + 8)));
    return comp_of(n ? p[draw(n)] : constant(SHAPE(TD_PRED), "\0"));
}

static uint64_t elements(const td_shape_t *s) {
    uint64_t n = (uint64_t)s->count;
    for (uint32_t i = 0; s->type == TD_TUPLE && i < s->rank; i++) n += elements(s->elements[i]);
    return n;
}

/* Each leaf in memory of its own size, filled with bytes that are small as indices. */
static void **buffers(const td_body_t *b) {
    void **v = calloc(b->n_in + b->n_out + 1, sizeof *v);
    for (uint32_t i = 0; i < b->n_in + b->n_out; i++) {
        size_t n = (size_t)b->shapes[i]->count * td_type_bytes(b->shapes[i]->type);
        v[i] = malloc(n ? n : 1);
        for (size_t k = 0; k < n; k++)
            ((uint8_t *)v[i])[k] =
                b->shapes[i]->type == TD_PRED ? (uint8_t)draw(2) : (uint8_t)(draw(3) ? 0 : draw(256));
    }
    return v;
}

/* Instructions that are right, of which one or two things are then changed. */
typedef struct form {
    td_opcode_t op;
    uint32_t n;
    const td_shape_t *in[5], *out;
    const td_hlo_comp_t *f[2];
    uint32_t n_f;
} form_t;

#define F(...) SHAPE(TD_F32, __VA_ARGS__)
#define S(...) SHAPE(TD_S32, __VA_ARGS__)
static const td_window_dim_t windows[2] = {{2, 1, 0, 1, 1, 1, false}, {2, 2, 1, 0, 1, 1, false}};

static void form(uint32_t which, form_t *f) {
    const td_shape_t *z = SHAPE(TD_F32), *v = F(3), *k = SHAPE(TD_U64, 2);
    const td_hlo_comp_t *add = scalar2(TD_HLO_ADD, TD_F32, TD_F32, 0, 0),
                        *ge = scalar2(TD_HLO_COMPARE, TD_F32, TD_PRED, 0, TD_CMP_GE);
    const form_t forms[] = {
        {TD_HLO_REDUCE, 2, {F(3, 4), z}, v, {add}, 1},
        {TD_HLO_REDUCE_WINDOW, 2, {F(3, 4), z}, F(3, 2), {add}, 1},
        {TD_HLO_SELECT_AND_SCATTER, 3, {F(3, 4), F(3, 2), z}, F(3, 4), {ge, add}, 2},
        {TD_HLO_DOT, 2, {F(3, 4), F(4, 2)}, F(3, 2), {NULL}, 0},
        {TD_HLO_RAGGED_DOT, 3, {F(3, 4), F(2, 4, 2), S(2)}, F(3, 2), {NULL}, 0},
        {TD_HLO_SCALED_DOT, 4, {F(3, 4), F(4, 2), F(1, 2), F(2, 2)}, F(3, 2), {NULL}, 0},
        {TD_HLO_GATHER, 2, {F(3, 4), S(5)}, F(5, 4), {NULL}, 0},
        {TD_HLO_SCATTER, 3, {F(3, 4), S(5), F(5, 4)}, F(3, 4), {add}, 1},
        {TD_HLO_SORT, 1, {F(3, 4)}, F(3, 4), {ge}, 1},
        {TD_HLO_BATCH_NORM_TRAINING, 3, {F(2, 3), v, v}, TUPLE(F(2, 3), v, v), {NULL}, 0},
        {TD_HLO_BATCH_NORM_INFERENCE, 5, {F(2, 3), v, v, v, v}, F(2, 3), {NULL}, 0},
        {TD_HLO_BATCH_NORM_GRAD, 5, {F(2, 3), v, v, v, F(2, 3)}, TUPLE(F(2, 3), v, v), {NULL}, 0},
        {TD_HLO_RNG_BIT_GENERATOR, 1, {k}, TUPLE(k, S(3, 5)), {NULL}, 0},
        {TD_HLO_STOCHASTIC_CONVERT, 2, {F(3, 4), SHAPE(TD_U32, 3, 4)}, SHAPE(TD_S8, 3, 4), {NULL}, 0},
        {TD_HLO_PAD, 2, {F(3, 4), z}, F(3, 5), {NULL}, 0},
        {TD_HLO_SLICE, 1, {F(3, 4)}, F(3, 2), {NULL}, 0},
        {TD_HLO_CONCATENATE, 2, {F(3, 4), F(3, 1)}, F(3, 5), {NULL}, 0},
        {TD_HLO_SELECT, 3, {SHAPE(TD_PRED, 3, 4), F(3, 4), F(3, 4)}, F(3, 4), {NULL}, 0},
        {TD_HLO_COPY_START, 1, {F(3, 4)}, TUPLE(F(3, 4), F(3, 4), SHAPE(TD_U32)), {NULL}, 0},
        {TD_HLO_ASYNC_START, 2, {z, z}, TUPLE(TUPLE(z, z), z), {add}, 1},
        {TD_HLO_FFT, 1, {SHAPE(TD_C64, 3, 4)}, SHAPE(TD_C64, 3, 4), {NULL}, 0},
        {TD_HLO_TRIANGULAR_SOLVE, 2, {F(3, 3), F(3, 4)}, F(3, 4), {NULL}, 0},
        {TD_HLO_MAP, 2, {F(3, 4), F(3, 4)}, F(3, 4), {add}, 1},
    };
    *f = forms[which % (sizeof forms / sizeof *forms)];
}
static void form_attributes(td_hlo_instr_t *i) {
    static td_pad_dim_t pad[2] = {{0, 0, 0}, {2, -1, 0}};
    static td_slice_dim_t cut[2] = {{0, 3, 1}, {0, 4, 2}};
    td_dot_dims_t *dot = TD_NEW(&arena, td_dot_dims_t);
    td_gather_dims_t *g = TD_NEW(&arena, td_gather_dims_t);
    td_scatter_dims_t *s = TD_NEW(&arena, td_scatter_dims_t);
    static const int64_t numbers[3] = {0, 1, 4};
    const td_ints_t zero = {numbers, 1}, one = {numbers + 1, 1}, none = {NULL, 0};
    bool rag = i->opcode == TD_HLO_RAGGED_DOT;
    *dot = (td_dot_dims_t){one, rag ? one : zero, none, none, zero, zero};
    *g = (td_gather_dims_t){one, zero, zero, none, none, 1};
    *s = (td_scatter_dims_t){one, zero, zero, none, none, 1};
    i->dot = dot, i->gather = g, i->scatter = s, i->dimensions = one;
    i->gather_slice_sizes = (td_ints_t){numbers + 1, 2}, i->fft_length = (td_ints_t){numbers + 2, 1};
    i->window = (td_window_t){windows, 2}, i->pad = pad, i->n_pad = 2, i->slice = cut, i->n_slice = 2,
    i->feature_index = 1, i->epsilon = 1;
    i->triangular.left_side = true, i->triangular.transpose_a = 1;
    if (i->opcode == TD_HLO_REDUCE_WINDOW || i->opcode == TD_HLO_SELECT_AND_SCATTER) return;
    if (draw(3)) return;
    td_hlo_instr_t old = *i; /* one list or number of another instruction */
    attributes(i);
    td_hlo_instr_t drawn = *i;
    *i = old;
    switch (draw(8)) {
    case 0: i->dimensions = drawn.dimensions; break;
    case 1: dot->lhs_contracting = drawn.dimensions; break;
    case 2: dot->lhs_ragged = drawn.dimensions; break;
    case 3: dot->rhs_group = drawn.dimensions; break;
    case 4: g->offset_dims = s->update_window_dims = drawn.dimensions; break;
    case 5: i->gather_slice_sizes = i->fft_length = drawn.dimensions; break;
    case 6:
        i->feature_index = drawn.feature_index, i->fft_type = drawn.fft_type, i->rng_algorithm = drawn.rng_algorithm;
        break;
    default: g->index_vector_dim = s->index_vector_dim = draw(4); break;
    }
}

static int finish(td_hlo_instr_t *x);

static int changed_form(uint32_t which, td_opcode_t *op) {
    form_t f;
    td_hlo_instr_t *p[5];
    form(which, &f);
    common = TD_F32;
    for (int i = 0; i < 4; i++) sizes[i] = (int64_t)draw(5);
    uint32_t changes = draw(3);
    for (uint32_t i = 0; i < changes; i++) *(draw(3) ? &f.in[draw(f.n)] : &f.out) = any(1);
    comp_begin();
    for (uint32_t i = 0; i < f.n; i++) p[i] = param(i, f.in[i]);
    td_hlo_instr_t *x = node(*op = f.op, f.out, f.n, p);
    form_attributes(x);
    call(x, f.n_f, f.f);
    return finish(x);
}

/* 1 if it ran. */
static int round_of(td_opcode_t op) {
    uint32_t n = draw(6);
    td_hlo_instr_t *p[8];
    const td_shape_t *shapes[8];
    common = types[draw(sizeof types / sizeof *types)];
    for (int i = 0; i < 4; i++) sizes[i] = (int64_t)draw(5);
    const td_shape_t *out = any(2);
    for (uint32_t i = 0; i < n; i++) shapes[i] = any(2);
    if (draw(2) && n) out = shapes[draw(n)];
    if (n > 1 && draw(2)) shapes[1] = shapes[0];
    const td_hlo_comp_t *f[2] = {callee(n, shapes, out), callee(n, shapes, out)};
    comp_begin();
    for (uint32_t i = 0; i < n; i++) p[i] = param(i, shapes[i]);
    td_hlo_instr_t *x = node(op, out, n, p);
    attributes(x);
    call(x, draw(3), f);
    return finish(x);
}

static int finish(td_hlo_instr_t *x) {
    const td_hlo_comp_t *c = comp_of(x);
    td_body_t b;
    td_err_t err = {0};
    if (td_hlo_check_instr(x, &err) || td_body_make(c, false, &arena, &b, &err)) {
        ck_assert(err.code != TD_OK && err.text[0]);
        return 0;
    }
    uint64_t all = elements(x->shape);
    for (uint32_t i = 0; i < x->n_operands; i++) all += elements(x->operands[i]->shape);
    if (all > MOST || b.scratch > 64u << 20 || x->opcode == TD_HLO_WHILE) return 0;
    void **v = buffers(&b), *s = aligned_alloc(64, b.scratch + 64);
    td_body_run(&b, (const void *const *)v, v + b.n_in, s);
    for (uint32_t i = 0; i < b.n_in + b.n_out; i++) free(v[i]);
    free(v);
    free(s);
    return 1;
}

START_TEST(random_instructions) {
    static int ran[TD_HLO_OPCODE_COUNT];
    int kinds = 0;
    if (getenv("SEED")) seed = (uint32_t)atoi(getenv("SEED"));
    for (int i = 0; i < ROUNDS; i++) {
        td_opcode_t op = (td_opcode_t)(1 + i % (TD_HLO_OPCODE_COUNT - 1));
        if (op == TD_HLO_PARAMETER || op == TD_HLO_CONSTANT) continue;
        ran[op] += round_of(op);
        int done = changed_form((uint32_t)i, &op);
        ran[op] += done;
        teardown();
        setup();
    }
    for (int op = 0; op < TD_HLO_OPCODE_COUNT; op++) kinds += ran[op] > 0;
    ck_assert_int_ge(kinds, 70);
    if (getenv("VERBOSE"))
        for (int op = 1; op < TD_HLO_OPCODE_COUNT; op++) printf("%s %d\n", td_opcode_name((td_opcode_t)op), ran[op]);
}
END_TEST

SUITE("host_random", random_instructions)
