/* SPDX-License-Identifier: Apache-2.0 */
/* Random fusions: element-wise operations, broadcasts, changes of layout, reductions and updates over a few shapes,
 * with results in the memory of operands. Each instruction is also run alone, as a kernel of its own; both must
 * agree bit for bit (numbers are small integers, so that no order of operations rounds). HOST_RANDOM_SEED and
 * HOST_RANDOM_ROUNDS give other cases than the usual ones. */
#include "runtime/host/pool.h"
#include "tests/unit/kernel_run.h"

enum { NODES = 20, PARAMS = 5 };
typedef struct graph {
    td_hlo_instr_t *v[NODES];
    void *bytes[NODES]; /* the values */
    uint32_t n;
    int64_t rows, cols;
    td_type_t type;
    uint64_t seed;
} graph_t;
enum { MATRIX, COLUMN_MAJOR, TRANSPOSED, ROW, COLUMN, ONE, SHAPES }; /* ROW: one element per column */

static const td_shape_t *shape_no(const graph_t *g, int k) {
    switch (k) {
    case MATRIX: return SHAPE(g->type, g->rows, g->cols);
    case COLUMN_MAJOR: return shape(g->type, LAYOUT(0, 1), DIMS(g->rows, g->cols));
    case TRANSPOSED: return SHAPE(g->type, g->cols, g->rows);
    case ROW: return SHAPE(g->type, g->cols);
    case COLUMN: return SHAPE(g->type, g->rows);
    default: return SHAPE(g->type);
    }
}
static int kind_of(const graph_t *g, const td_hlo_instr_t *i) {
    for (int k = 0; k < SHAPES; k++)
        if (td_shape_equal(i->shape, shape_no(g, k))) return k;
    return SHAPES;
}
/* A value of that shape among those made; NULL if there is none. */
static td_hlo_instr_t *pick(graph_t *g, int kind) {
    td_hlo_instr_t *of[NODES];
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n; i++)
        if (kind_of(g, g->v[i]) == kind) of[n++] = g->v[i];
    return n ? of[dice(&g->seed, n)] : NULL;
}

static td_hlo_instr_t *elementwise(graph_t *g, int kind) {
    static const td_opcode_t all[] = {TD_HLO_ADD,      TD_HLO_SUBTRACT, TD_HLO_MAXIMUM, TD_HLO_MINIMUM,
                                      TD_HLO_MULTIPLY, TD_HLO_AND,      TD_HLO_XOR};
    td_hlo_instr_t *a = pick(g, kind), *b = pick(g, kind);
    if (!a) return NULL;
    if (!dice(&g->seed, 5)) return NODE(TD_HLO_NEGATE, a->shape, a);
    return NODE(all[dice(&g->seed, g->type == TD_S32 ? 7 : 5)], a->shape, a, b);
}
static td_hlo_instr_t *moved(graph_t *g) {
    td_hlo_instr_t *a = NULL, *r;
    switch (dice(&g->seed, 7)) {
    case 0: return (a = pick(g, MATRIX)) ? NODE(TD_HLO_COPY, shape_no(g, COLUMN_MAJOR), a) : NULL;
    case 1: return (a = pick(g, COLUMN_MAJOR)) ? NODE(TD_HLO_COPY, shape_no(g, MATRIX), a) : NULL;
    case 2:
        if (!(a = pick(g, MATRIX))) return NULL;
        r = NODE(TD_HLO_TRANSPOSE, shape_no(g, TRANSPOSED), a);
        r->dimensions = LIST(1, 0);
        return r;
    case 3: return (a = pick(g, ROW)) ? broadcast(a, shape_no(g, MATRIX), LIST(1)) : NULL;
    case 4:
        return (a = pick(g, COLUMN)) ? broadcast(a, shape_no(g, dice(&g->seed, 2) ? MATRIX : COLUMN_MAJOR), LIST(0))
                                     : NULL;
    case 5: return (a = pick(g, ONE)) ? SPLAT(a, shape_no(g, (int)dice(&g->seed, 5))) : NULL;
    default:
        r = node(TD_HLO_IOTA, shape_no(g, (int)dice(&g->seed, 3)), 0, NULL);
        r->dimensions = LIST(dice(&g->seed, 2));
        return r;
    }
}
static td_hlo_instr_t *reduced(graph_t *g) {
    static const td_opcode_t all[] = {TD_HLO_MAXIMUM, TD_HLO_MINIMUM, TD_HLO_ADD};
    int from = (int)dice(&g->seed, 5), dim = (int)dice(&g->seed, 3);
    td_hlo_instr_t *a = pick(g, from), *init = pick(g, ONE);
    td_opcode_t op = all[dice(&g->seed, g->type == TD_BF16 ? 2 : 3)];
    if (!a || !init) return NULL;
    if (from == ROW || from == COLUMN) return reduce(a, init, op, shape_no(g, ONE), LIST(0));
    if (dim == 2) return reduce(a, init, op, shape_no(g, ONE), LIST(0, 1));
    bool columns = (from == TRANSPOSED) != (dim == 1);
    td_hlo_instr_t *r = reduce(a, init, op, shape_no(g, columns ? COLUMN : ROW), LIST(dim));
    return r;
}
/* The matrix with a row written somewhere (the place is a value, clamped). */
static td_hlo_instr_t *updated(graph_t *g) {
    td_hlo_instr_t *a = pick(g, ROW), *b = pick(g, ROW), *at = g->type == TD_S32 ? pick(g, ONE) : NULL;
    return a && at ? NODE(TD_HLO_DYNAMIC_UPDATE_SLICE, a->shape, a, b, at) : NULL;
}

/* The instruction alone, its operands parameters. */
static void evaluate(graph_t *g, uint32_t no) {
    td_hlo_instr_t *in = g->v[no], *saved[64];
    uint32_t n = n_made;
    memcpy(saved, made, sizeof saved);
    comp_begin();
    td_hlo_instr_t *p[3] = {NULL}, *root;
    void *bufs[4];
    for (uint32_t i = 0; i < in->n_operands; i++) {
        p[i] = param(i, in->operands[i]->shape);
        for (uint32_t k = 0; k < no; k++)
            if (g->v[k] == in->operands[i]) bufs[i] = g->bytes[k];
    }
    root = node(in->opcode, in->shape, in->n_operands, p);
    root->dimensions = in->dimensions, root->called = in->called, root->n_called = in->n_called;
    bufs[in->n_operands] = g->bytes[no] = blank(g->type, (size_t)in->shape->count);
    run_slots(comp_of(root), NULL, bufs);
    memcpy(made, saved, sizeof saved);
    n_made = n;
}

static void grow(graph_t *g) {
    static const int params[PARAMS] = {MATRIX, ROW, COLUMN, ONE, MATRIX};
    comp_begin();
    for (; g->n < PARAMS; g->n++) {
        td_hlo_instr_t *p = g->v[g->n] = param(g->n, shape_no(g, params[g->n]));
        size_t n = (size_t)p->shape->count;
        double *x = malloc(n * sizeof *x);
        for (size_t i = 0; i < n; i++) x[i] = (double)(dice(&g->seed, 7) - 3);
        g->bytes[g->n] = array_of(g->type, x, n);
        free(x);
    }
    for (int tries = 0; g->n < NODES && tries < 60; tries++) {
        int64_t what = dice(&g->seed, 10);
        td_hlo_instr_t *i = what < 5   ? elementwise(g, (int)dice(&g->seed, SHAPES))
                            : what < 7 ? moved(g)
                            : what < 9 ? reduced(g)
                                       : updated(g);
        if (!i) continue;
        g->v[g->n] = i;
        evaluate(g, g->n);
        double most = 0;
        for (int64_t k = 0; k < i->shape->count; k++)
            most = fmax(most, fabs(number(g->type, g->bytes[g->n], (size_t)k)));
        if (g->type != TD_S32 &&
            most > (g->type == TD_BF16 ? 100 : 1 << 14)) { /* would round soon: dropped, dead code */
            free(g->bytes[g->n]);
            continue;
        }
        g->n++;
    }
}

/* Some of the values as results, some of those over operands of their size. */
static void random_case(uint64_t seed, int n_threads) {
    static const int64_t sides[] = {1, 2, 7, 33, 64, 200, 1025, 1500};
    static const td_type_t types[] = {TD_F32, TD_S32, TD_BF16};
    graph_t g = {.seed = seed * 7919 + 13};
    g.type = types[dice(&g.seed, 3)], g.rows = sides[dice(&g.seed, 8)],
    g.cols = sides[dice(&g.seed, g.rows > 100 ? 5 : 8)] + 1;
    if (g.rows == g.cols) g.cols++; /* shapes tell what a value is */
    td_host_set_threads(n_threads);
    grow(&g);
    uint32_t n_out = 1 + (uint32_t)dice(&g.seed, 4), of[4], slots[PARAMS + 4];
    td_hlo_instr_t *outs[4];
    const td_shape_t *shapes[4];
    bool taken[PARAMS] = {false};
    for (uint32_t i = 0; i < PARAMS; i++) slots[i] = i;
    void *bufs[PARAMS + 4];
    for (uint32_t i = 0; i < PARAMS; i++) {
        size_t bytes = g.v[i]->shape->bytes;
        memcpy(bufs[i] = malloc(bytes), g.bytes[i], bytes);
    }
    for (uint32_t k = 0; k < n_out; k++) {
        of[k] = g.n - 1 - (uint32_t)dice(&g.seed, k ? g.n - PARAMS + 1 : 2); /* now and then an operand */
        outs[k] = g.v[of[k]], shapes[k] = outs[k]->shape;
        slots[PARAMS + k] = PARAMS + k;
        bufs[PARAMS + k] = NULL;
        uint32_t p = (uint32_t)dice(&g.seed, PARAMS);
        if (!taken[p] && g.v[p]->shape->bytes == shapes[k]->bytes && dice(&g.seed, 3))
            taken[p] = true, slots[PARAMS + k] = p, bufs[PARAMS + k] = bufs[p];
        else bufs[PARAMS + k] = blank(g.type, (size_t)shapes[k]->count);
    }
    td_hlo_instr_t *root = n_out == 1 ? outs[0] : node(TD_HLO_TUPLE, tuple_of(n_out, shapes), n_out, outs);
    run_slots(comp_of(root), slots, bufs);
    for (uint32_t k = 0; k < n_out; k++)
        for (int64_t i = 0; i < shapes[k]->count; i++)
            ck_assert_msg(number(g.type, bufs[PARAMS + k], (size_t)i) == number(g.type, g.bytes[of[k]], (size_t)i),
                          "seed %llu threads %d, %s [%d,%d]: result %u (%s) element %d is %g, not %g",
                          (unsigned long long)seed, n_threads, td_type_name(g.type), (int)g.rows, (int)g.cols, k,
                          td_opcode_name(outs[k]->opcode), (int)i, number(g.type, bufs[PARAMS + k], (size_t)i),
                          number(g.type, g.bytes[of[k]], (size_t)i));
    for (uint32_t i = 0; i < g.n; i++) free(g.bytes[i]);
    for (uint32_t i = 0; i < PARAMS + n_out; i++)
        if (i < PARAMS || slots[i] == i) free(bufs[i]);
    td_arena_reset(&arena);
}

START_TEST(fusions) {
    static const int threads[] = {1, 2, 5};
    const char *from = getenv("HOST_RANDOM_SEED"), *rounds = getenv("HOST_RANDOM_ROUNDS");
    uint64_t first = from ? strtoull(from, NULL, 10) : 1, n = rounds ? strtoull(rounds, NULL, 10) : 300;
    for (uint64_t i = first; i < first + n; i++) random_case(i, threads[i % 3]);
}
END_TEST

int main(void) {
    TCase *t = tcase_create("host_random");
    tcase_set_timeout(t, 600);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, fusions);
    Suite *s = suite_create("host_random");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
