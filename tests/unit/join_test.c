/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of products joined to the kernels that sum them up: what is joined gives what the two give one after the
 * other, and what must not be joined is not. Sequences are built as parsing leaves them. */
#include "executable.pb-c.h"
#include "runtime/join.h"
#include "runtime/thunk/thunk.h"
#include "tests/unit/kernel_run.h"

enum { R = 96, C = 40, SLOTS_N = 9, FAR = 17 };
enum { M, X, INIT, P, V, OTHER, W, M2, P2 }; /* allocations: matrix, vector, scalar, products, sums, something else */

typedef struct scene {
    const char *what;
    bool joined, early; /* early: in the first kernel's place */
    bool bitcast, converted, add, sum_twice, twice, root, second_reader, second_result, no_sum;
    uint32_t p_slot, v_slot; /* 0: P, V */
    int64_t read_offset;
    uint32_t between;   /* thunks of another kernel between the two, */
    int between_writes; /* into this allocation, from this byte on; OTHER unless set */
    uint64_t between_at;
    int between_reads; /* from that allocation; W unless set */
    bool between_async, between_empty, between_copy, first_skipped, short_args;
} scene_t;
static const scene_t scenes[] = {
    {.what = "one after the other", .joined = true},
    {.what = "a bitcast between", .joined = true, .bitcast = true},
    {.what = "products rounded and widened", .joined = true, .converted = true},
    {.what = "an unrelated kernel between", .joined = true, .between = 1},
    {.what = "an unrelated copy between", .joined = true, .between = 1, .between_copy = true},
    {.what = "products over the matrix", .joined = true, .p_slot = M + 1},
    {.what = "sums over the vector", .joined = true, .v_slot = X + 1},
    {.what = "as far as may be", .joined = true, .between = FAR - 2},
    {.what = "the sums also as squares", .joined = true, .second_result = true},
    {.what = "too far", .between = FAR - 1},
    {.what = "another reader", .second_reader = true},
    {.what = "the products are a result", .root = true},
    {.what = "the products are read twice by the kernel", .twice = true},
    {.what = "and inside it", .sum_twice = true},
    {.what = "no products", .add = true},
    {.what = "no sum", .no_sum = true},
    {.what = "another place is read", .read_offset = 64},
    {.what = "the matrix is overwritten", .joined = true, .early = true, .between = 1, .between_writes = M + 1},
    {.what = "its end is",
     .joined = true,
     .early = true,
     .between = 1,
     .between_writes = M + 1,
     .between_at = 4 * (R * C - 1)},
    {.what = "the vector is overwritten", .joined = true, .early = true, .between = 3, .between_writes = X + 1},
    {.what = "a copy overwrites it",
     .joined = true,
     .early = true,
     .between = 1,
     .between_writes = X + 1,
     .between_copy = true},
    {.what = "the sums' memory is written", .joined = true, .between = 1, .between_writes = V + 1},
    {.what = "the initial value is written", .joined = true, .between = 1, .between_writes = INIT + 1},
    {.what = "the sums' memory is read by what overwrites",
     .between = 1,
     .between_writes = M + 1,
     .between_reads = V + 1},
    {.what = "the sums lie over what is overwritten", .between = 1, .between_writes = X + 1, .v_slot = X + 1},
    {.what = "a body of thunks between", .between = 1, .between_async = true},
    {.what = "a thunk without arguments between", .between = 1, .between_empty = true},
    {.what = "a repeat", .first_skipped = true},
    {.what = "an argument too few", .short_args = true},
};
enum { SCENES = sizeof scenes / sizeof *scenes };

static float memory[SLOTS_N][R * C + 64];
static td_thunk_t list[32];
static uint32_t n_list;

static td_kernel_arg_t arg(uint32_t slot, uint64_t offset, const td_shape_t *s, bool written) {
    return (td_kernel_arg_t){.allocation = slot, .offset = offset, .size = s->bytes, .shape = s, .written = written};
}
static td_thunk_t *thunk(unsigned wire, const td_hlo_instr_t *in, uint32_t n, const td_kernel_arg_t *args) {
    td_thunk_t *t = &list[n_list++];
    *t =
        (td_thunk_t){.kind = td_thunk_kind_find(wire), .instr = in, .kernel_name = "k", .annotation = "k", .n_args = n};
    ck_assert_ptr_nonnull(t->kind);
    t->args = TD_NEW_N(&arena, td_kernel_arg_t, n + 1);
    memcpy(t->args, args, n * sizeof *args);
    return t;
}
#define KERNEL(in, ...)                                 \
    thunk(XLA__GPU__THUNK_PROTO__IMPL_KERNEL_THUNK, in, \
          sizeof((td_kernel_arg_t[]){__VA_ARGS__}) / sizeof(td_kernel_arg_t), (td_kernel_arg_t[]){__VA_ARGS__})

static const td_hlo_comp_t *multiply_body(const scene_t *s) {
    comp_begin();
    const td_shape_t *m = SHAPE(TD_F32, R, C), *h = SHAPE(TD_BF16, R, C);
    td_hlo_instr_t *a = param(0, m), *b = param(1, SHAPE(TD_F32, R)), *p;
    p = NODE(s->add ? TD_HLO_ADD : TD_HLO_MULTIPLY, m, a, broadcast(b, m, LIST(0)));
    return comp_of(s->converted ? NODE(TD_HLO_CONVERT, h, p) : p);
}
static const td_hlo_comp_t *sum_body(const scene_t *s, const td_shape_t *in) {
    comp_begin();
    const td_shape_t *m = SHAPE(TD_F32, R, C), *v = SHAPE(TD_F32, C);
    td_hlo_instr_t *p = param(0, in), *init = param(1, SHAPE(TD_F32)), *again = s->twice ? param(2, in) : NULL;
    td_hlo_instr_t *wide = s->bitcast ? NODE(TD_HLO_BITCAST, m, p) : p;
    if (s->converted) wide = NODE(TD_HLO_CONVERT, m, wide);
    if (s->no_sum) wide = NODE(TD_HLO_NEGATE, m, wide);
    td_hlo_instr_t *sum = reduce(wide, init, TD_HLO_ADD, v, LIST(0));
    if (s->sum_twice) sum = NODE(TD_HLO_ADD, v, sum, reduce(p, init, TD_HLO_MAXIMUM, v, LIST(0)));
    if (again) sum = NODE(TD_HLO_ADD, v, sum, reduce(again, init, TD_HLO_MAXIMUM, v, LIST(0)));
    return comp_of(s->second_result ? NODE(TD_HLO_TUPLE, TUPLE(v, v), sum, NODE(TD_HLO_MULTIPLY, v, sum, sum)) : sum);
}
static const td_hlo_comp_t *negate_body(const td_shape_t *s) {
    comp_begin();
    td_hlo_instr_t *p = param(0, s);
    return comp_of(NODE(TD_HLO_NEGATE, s, p));
}

static void between(const scene_t *s, const td_hlo_instr_t *other, const td_shape_t *o) {
    uint32_t into = s->between_writes ? (uint32_t)s->between_writes - 1 : OTHER;
    for (uint32_t i = 0; i < s->between; i++) {
        td_kernel_arg_t from = arg(s->between_reads ? (uint32_t)s->between_reads - 1 : W, 0, o, false),
                        to = arg(into, s->between_at, o, true);
        td_thunk_t *t = s->between_copy ? thunk(XLA__GPU__THUNK_PROTO__IMPL_DEVICE_TO_DEVICE_COPY_THUNK, other, 2,
                                                (td_kernel_arg_t[]){from, to})
                                        : KERNEL(other, from, to);
        if (s->between_empty) t->n_args = 0;
        if (s->between_async) t->seqs = TD_NEW(&arena, td_seq_t), t->n_seqs = 1;
    }
}
/* The entry computation of a scene, and its thunks. */
static td_seq_t sequence(const scene_t *s) {
    n_list = 0;
    const td_shape_t *m = SHAPE(TD_F32, R, C), *flat = SHAPE(TD_F32, R, C, 1), *v = SHAPE(TD_F32, C),
                     *o = SHAPE(TD_F32, 1);
    const td_shape_t *product = s->converted ? SHAPE(TD_BF16, R, C) : m, *read = s->bitcast ? flat : product,
                     *r = s->second_result ? TUPLE(v, v) : v;
    const td_hlo_comp_t *f = multiply_body(s), *g = sum_body(s, read), *h = negate_body(o), *k = negate_body(product);
    comp_begin();
    td_hlo_instr_t *a = param(0, m), *b = param(1, SHAPE(TD_F32, R)), *init = param(2, SHAPE(TD_F32)), *w = param(3, o);
    td_hlo_instr_t *first = NODE(TD_HLO_FUSION, product, a, b),
                   *seen = s->bitcast ? NODE(TD_HLO_BITCAST, flat, first) : first;
    td_hlo_instr_t *other = NODE(TD_HLO_FUSION, o, w),
                   *second = s->twice ? NODE(TD_HLO_FUSION, r, seen, init, seen) : NODE(TD_HLO_FUSION, r, seen, init);
    td_hlo_instr_t *third = s->second_reader ? NODE(TD_HLO_FUSION, product, first) : NULL;
    CALL(first, f);
    CALL(other, h);
    CALL(second, g);
    if (third) CALL(third, k);
    (void)comp_of(s->root ? first : s->second_result ? second : NODE(TD_HLO_TUPLE, TUPLE(v, o), second, other));
    uint32_t p = s->p_slot ? s->p_slot - 1 : P, q = s->v_slot ? s->v_slot - 1 : V;
    td_kernel_arg_t init_arg = arg(INIT, 0, init->shape, false), in = arg(p, (uint64_t)s->read_offset, read, false),
                    out = arg(q, 0, v, true);
    td_thunk_t *t = KERNEL(first, arg(M, 0, m, false), arg(X, 0, b->shape, false), arg(p, 0, product, true));
    if (s->short_args) t->n_args--;
    t->skip = s->first_skipped;
    between(s, other, o);
    if (s->twice) KERNEL(second, in, init_arg, in, out);
    else if (s->second_result) KERNEL(second, in, init_arg, out, arg(OTHER, 0, v, true));
    else KERNEL(second, in, init_arg, out);
    if (third) KERNEL(third, arg(p, 0, product, false), arg(OTHER, 0, product, true));
    return (td_seq_t){list, n_list};
}

static void fill(void) {
    uint64_t seed = 12;
    for (int i = 0; i < SLOTS_N; i++)
        for (int k = 0; k < R * C + 64; k++) memory[i][k] = (float)(dice(&seed, 2001) - 1000) / 512;
}
/* Runs the sequence, kernels and copies. */
static void run_all(td_device_t *dev, const td_seq_t *s) {
    td_err_t err = {0};
    td_stream_t *q = NULL;
    ck_assert(!dev->ops->stream_create(dev, TD_STREAM_MAIN, &q, &err));
    for (uint32_t i = 0; i < s->n; i++) {
        const td_thunk_t *t = &s->v[i];
        td_thunk_t low = *t;
        uint64_t bytes = 0;
        if (t->skip) continue;
        if (t->kind->lower != td_kernel_thunk_lower) {
            memcpy((char *)memory[t->args[1].allocation] + t->args[1].offset,
                   (char *)memory[t->args[0].allocation] + t->args[0].offset, t->args[0].size);
            continue;
        }
        ck_assert_msg(!t->kind->lower(dev, NULL, t, &low, &arena, &bytes, &err), "%s", err.text);
        void *bufs[8], *scratch = NULL;
        for (uint32_t k = 0; k < t->n_args; k++) bufs[k] = (char *)memory[t->args[k].allocation] + t->args[k].offset;
        ck_assert(!posix_memalign(&scratch, 64, bytes + 1));
        ck_assert(!dev->ops->launch(q, low.kernel, bufs, t->n_args, scratch, &err));
        free(scratch);
    }
    dev->ops->stream_destroy(q);
}

/* Runs both sequences from the same memory and compares what matters of it. */
static void compare(const td_seq_t *seq, const td_seq_t *out, uint32_t n, const uint32_t (*places)[2],
                    const char *what) {
    static float want[SLOTS_N][R * C + 64];
    td_device_t *dev = NULL;
    ck_assert(!td_host_device_create(td_alloc_default(), &dev, NULL));
    ck_assert(dev->ops->joins_kernels);
    fill();
    run_all(dev, seq);
    memcpy(want, memory, sizeof want);
    fill();
    run_all(dev, out);
    td_device_destroy(dev);
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t i = places[k][1]; i < places[k][1] + C; i++) {
            double g = (double)memory[places[k][0]][i], w = (double)want[places[k][0]][i];
            ck_assert_msg(fabs(g - w) <= 1e-4 * (1 + fabs(w)), "%s: result %u element %u is %g, not %g", what, k, i, g,
                          w);
        }
}

START_TEST(scene) {
    const scene_t *s = &scenes[_i];
    td_seq_t seq = sequence(s), out = {0};
    td_err_t err = {0};
    ck_assert_msg(!td_join_products(&seq, &arena, &out, &err), "%s", err.text);
    uint32_t at = s->early ? 0 : 1 + s->between;
    bool joined = out.v != seq.v;
    ck_assert_msg(joined == s->joined, "%s: joined %d", s->what, joined);
    ck_assert_uint_eq(out.n, seq.n);
    for (uint32_t i = 0; i < seq.n; i++) /* the module's stay */
        ck_assert(!seq.v[i].producer && seq.v[i].skip == (s->first_skipped && !i));
    if (!joined) return;
    const td_thunk_t *b = &out.v[at];
    ck_assert_msg(!b->skip && b->producer == seq.v[0].instr && b->producer_operand == 0, "%s: not at %u", s->what, at);
    ck_assert(out.v[s->early ? 1 + s->between : 0].skip);
    ck_assert_uint_eq(b->n_args, seq.v[1 + s->between].n_args + 2);
    uint32_t places[2][2] = {{s->v_slot ? s->v_slot - 1 : V, 0}, {OTHER, 0}};
    compare(&seq, &out, 1 + s->second_result, places, s->what);
}
END_TEST

/* One kernel that makes two products of the same vector, and a kernel to sum up each. */
typedef struct couple {
    const char *what;
    bool joined, swapped, read_twice;
    uint32_t v0[2], v1[2]; /* allocation and element of the sums */
    int between_writes;
} couple_t;
static const couple_t couples[] = {
    {.what = "two products", .joined = true, .v0 = {V, 0}, .v1 = {V, 512}},
    {.what = "the second is summed up first", .joined = true, .swapped = true, .v0 = {V, 0}, .v1 = {V, 512}},
    {.what = "sums over the vector", .joined = true, .v0 = {X, 0}, .v1 = {V, 0}},
    {.what = "sums over the vector, swapped", .joined = true, .swapped = true, .v0 = {V, 0}, .v1 = {X, 0}},
    {.what = "the vector is overwritten first", .v0 = {V, 0}, .v1 = {V, 512}, .between_writes = X + 1},
    {.what = "both sums over the vector", .v0 = {X, 0}, .v1 = {X, C}},
    {.what = "both sums over the vector, swapped", .swapped = true, .v0 = {X, 0}, .v1 = {X, C}},
    {.what = "sums over the vector and a matrix", .v0 = {X, 0}, .v1 = {M, 64}},
    {.what = "a product read twice", .read_twice = true, .v0 = {V, 0}, .v1 = {V, 512}},
};
enum { COUPLES = sizeof couples / sizeof *couples };

static const td_hlo_instr_t *other_of_couple;
static td_seq_t couple_sequence(const couple_t *s) {
    n_list = 0;
    const td_shape_t *m = SHAPE(TD_F32, R, C), *r = SHAPE(TD_F32, R), *v = SHAPE(TD_F32, C), *o = SHAPE(TD_F32, 1);
    comp_begin();
    td_hlo_instr_t *a = param(0, m), *b = param(1, m), *x = broadcast(param(2, r), m, LIST(0));
    td_hlo_instr_t *p0 = NODE(TD_HLO_MULTIPLY, m, a, x), *p1 = NODE(TD_HLO_MULTIPLY, m, x, b);
    const td_hlo_comp_t *f = comp_of(NODE(TD_HLO_TUPLE, TUPLE(m, m), p0, p1));
    const scene_t plain = {0};
    const td_hlo_comp_t *g = sum_body(&plain, m), *h = negate_body(o), *e = negate_body(m);
    comp_begin();
    a = param(0, m), b = param(1, m), x = param(2, r);
    td_hlo_instr_t *init = param(3, SHAPE(TD_F32)), *w = param(4, o),
                   *first = NODE(TD_HLO_FUSION, TUPLE(m, m), a, b, x);
    td_hlo_instr_t *e0 = element(first, 0), *e1 = element(first, 1);
    td_hlo_instr_t *s0 = NODE(TD_HLO_FUSION, v, e0, init), *s1 = NODE(TD_HLO_FUSION, v, e1, init),
                   *other = NODE(TD_HLO_FUSION, o, w);
    td_hlo_instr_t *again = s->read_twice ? NODE(TD_HLO_FUSION, m, e1) : NULL;
    CALL(first, f);
    CALL(s0, g);
    CALL(s1, g);
    CALL(other, h);
    other_of_couple = other;
    if (again) CALL(again, e);
    (void)comp_of(NODE(TD_HLO_TUPLE, TUPLE(v, v), s0, s1));
    td_kernel_arg_t c = arg(INIT, 0, init->shape, false), q0 = arg(P, 0, m, true), q1 = arg(P2, 0, m, true);
    KERNEL(first, arg(M, 0, m, false), arg(M2, 0, m, false), arg(X, 0, r, false), q0, q1);
    q0.written = q1.written = false;
    if (s->between_writes) KERNEL(other, arg(W, 0, o, false), arg((uint32_t)s->between_writes - 1, 0, o, true));
    for (int k = 0; k < 2; k++) {
        if ((k == 0) != s->swapped) KERNEL(s0, q0, c, arg(s->v0[0], 4 * s->v0[1], v, true));
        else KERNEL(s1, q1, c, arg(s->v1[0], 4 * s->v1[1], v, true));
    }
    if (again) KERNEL(again, q1, arg(OTHER, 0, m, true));
    return (td_seq_t){list, n_list};
}
START_TEST(couple) {
    const couple_t *s = &couples[_i];
    td_seq_t seq = couple_sequence(s), out = {0};
    td_err_t err = {0};
    ck_assert_msg(!td_join_products(&seq, &arena, &out, &err), "%s", err.text);
    const uint32_t places[2][2] = {{s->v0[0], s->v0[1]}, {s->v1[0], s->v1[1]}};
    compare(&seq, &out, 2, places, s->what);
    uint32_t n = 0;
    for (uint32_t i = 0; i < out.n; i++) n += out.v[i].producer && !out.v[i].skip;
    ck_assert_msg(n == (s->joined ? 2 : 0), "%s: %u joined", s->what, n);
}
END_TEST

/* Couples with anything around them: whatever is joined, all memory but the products is as if nothing were. */
START_TEST(random_couples) {
    uint64_t seed = 21 + (uint64_t)_i;
    static const uint32_t slots[] = {M, X, INIT, V, OTHER, W, M2};
    static const uint32_t places[][2] = {{M, 0},     {X, 0}, {X, C},  {INIT, 0}, {V, 0}, {V, C},
                                         {OTHER, 0}, {W, 0}, {M2, 0}, {M2, 64},  {M, 64}};
    uint32_t all[21][2], joined = 0;
    for (uint32_t i = 0; i < 21; i++) all[i][0] = slots[i / 3], all[i][1] = i % 3 * C;
    for (int round = 0; round < 60; round++) {
        couple_t s = {.what = "random", .swapped = dice(&seed, 2)};
        memcpy(s.v0, places[dice(&seed, 11)], sizeof s.v0), memcpy(s.v1, places[dice(&seed, 11)], sizeof s.v1);
        td_seq_t seq = couple_sequence(&s), out = {0};
        const td_hlo_instr_t *in = other_of_couple;
        for (int64_t k = dice(&seed, 4); k > 0; k--) { /* somewhere behind the first kernel */
            uint32_t at = 1 + (uint32_t)dice(&seed, n_list), from = slots[dice(&seed, 7)], to = slots[dice(&seed, 7)];
            uint64_t read = 4 * (uint64_t)dice(&seed, 90), written = 4 * (uint64_t)dice(&seed, 90);
            td_thunk_t t = *KERNEL(in, arg(from, read, in->shape, false), arg(to, written, in->shape, true));
            memmove(&list[at + 1], &list[at], (n_list - 1 - at) * sizeof *list);
            list[at] = t;
        }
        seq.n = n_list;
        ck_assert(!td_join_products(&seq, &arena, &out, NULL));
        joined += out.v != seq.v;
        if (out.v != seq.v) compare(&seq, &out, 21, all, "random");
        td_arena_reset(&arena);
    }
    ck_assert_uint_gt(joined, 5);
}
END_TEST

/* Joined kernels that do not fit together are refused, not run. */
START_TEST(misfits) {
    for (int mode = 0; mode < 2; mode++) {
        td_seq_t seq = sequence(&scenes[0]), out;
        td_device_t *dev = NULL;
        td_err_t err = {0};
        ck_assert(!td_join_products(&seq, &arena, &out, &err) && out.v != seq.v);
        ck_assert(!td_host_device_create(td_alloc_default(), &dev, &err));
        td_thunk_t low = out.v[1];
        uint64_t bytes = 0;
        if (mode == 0) ((td_hlo_instr_t *)(uintptr_t)out.v[1].instr->operands[0])->shape = SHAPE(TD_F32, R, C + 1);
        if (mode == 1) out.v[1].n_args--;
        ck_assert_int_eq(low.kind->lower(dev, NULL, &out.v[1], &low, &arena, &bytes, &err), TD_MISMATCH);
        ck_assert(err.text[0]);
        td_device_destroy(dev);
    }
}
END_TEST

int main(void) {
    TCase *t = tcase_create("join");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, scene, 0, SCENES);
    tcase_add_loop_test(t, couple, 0, COUPLES);
    tcase_add_loop_test(t, random_couples, 0, 12);
    tcase_add_test(t, misfits);
    Suite *s = suite_create("join");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
