/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products of every type, with operands and results in either order and with gaps between rows, against
 * plain loops. Numbers are small integers, so that results are exact (and of bf16 rounded once). */
#include <pthread.h>
#include <unistd.h>

#include "runtime/host/matmul.h"
#include "runtime/host/pool.h"
#include "tests/unit/kernel_run.h"

static const struct {
    td_type_t in, out;
} types[] = {{TD_F32, TD_F32},   {TD_F64, TD_F64},  {TD_C64, TD_C64},
             {TD_C128, TD_C128}, {TD_BF16, TD_F32}, {TD_BF16, TD_BF16}};
enum { N_TYPES = sizeof types / sizeof *types };
static const int64_t sizes[][3] = {{1, 1, 1},  {1, 1, 7}, {1, 9, 1},  {8, 1, 1},    {1, 5, 33},
                                   {6, 1, 20}, {4, 5, 1}, {3, 2, 64}, {17, 33, 65}, {64, 40, 96}};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

static bool complex_type(td_type_t t) { return t == TD_C64 || t == TD_C128; }
static double part(td_type_t t, const void *p, int64_t i, int im) {
    if (t == TD_C64) return (double)((const float *)p)[2 * i + im];
    if (t == TD_C128) return ((const double *)p)[2 * i + im];
    return im ? 0 : number(t, p, (size_t)i);
}
static void *matrix(td_type_t t, size_t n, uint64_t seed) {
    size_t k = complex_type(t) ? 2 : 1;
    double *x = malloc(n * k * sizeof *x);
    for (size_t i = 0; i < n * k; i++) x[i] = (double)(dice(&seed, 9) - 4);
    void *p = array_of(t == TD_C64 ? TD_F32 : t == TD_C128 ? TD_F64 : t, x, n * k);
    free(x);
    return p;
}
/* kind: row-major, column-major, each dense or with a gap of 3 elements. */
static td_mat_t mat(int64_t rows, int64_t cols, int kind) {
    int64_t gap = kind & 2 ? 3 : 0;
    return kind & 1 ? (td_mat_t){rows, cols, 1, rows + gap} : (td_mat_t){rows, cols, cols + gap, 1};
}
static size_t room(const td_mat_t *m) {
    return (size_t)((m->rows - 1) * m->row_stride + (m->cols - 1) * m->col_stride) + 1;
}
static int64_t at(const td_mat_t *m, int64_t r, int64_t c) { return r * m->row_stride + c * m->col_stride; }

static void check(td_type_t t, td_type_t o, const td_mat_t *a, const td_mat_t *b, const td_mat_t *c, const void *pa,
                  const void *pb, const void *pc) {
    for (int64_t i = 0; i < c->rows; i++)
        for (int64_t j = 0; j < c->cols; j++) {
            double re = 0, im = 0;
            for (int64_t k = 0; k < a->cols; k++) {
                double x = part(t, pa, at(a, i, k), 0), xi = part(t, pa, at(a, i, k), 1);
                double y = part(t, pb, at(b, k, j), 0), yi = part(t, pb, at(b, k, j), 1);
                re += x * y - xi * yi, im += x * yi + xi * y;
            }
            uint16_t h = td_bf16_from_f32((float)re);
            if (o == TD_BF16) re = number(TD_BF16, &h, 0);
            ck_assert_msg(part(o, pc, at(c, i, j), 0) == re && part(o, pc, at(c, i, j), 1) == im,
                          "%s [%d,%d]x[%d,%d] strides %d %d, %d %d, %d %d: (%d,%d) is %g, not %g", td_type_name(t),
                          (int)a->rows, (int)a->cols, (int)b->rows, (int)b->cols, (int)a->row_stride,
                          (int)a->col_stride, (int)b->row_stride, (int)b->col_stride, (int)c->row_stride,
                          (int)c->col_stride, (int)i, (int)j, part(o, pc, at(c, i, j), 0), re);
        }
}
static void *scratch_of(uint64_t bytes) {
    void *s = NULL;
    ck_assert_int_eq(posix_memalign(&s, 64, bytes + 1), 0);
    return s;
}

START_TEST(orders) {
    td_type_t t = types[_i].in, o = types[_i].out;
    for (int k = 0; k < N_SIZES; k++)
        for (int form = 0; form < 64; form++) {
            const int64_t *n = sizes[k];
            td_mat_t a = mat(n[0], n[2], form & 3), b = mat(n[2], n[1], form >> 2 & 3), c = mat(n[0], n[1], form >> 4);
            td_matmul_t *m = NULL;
            uint64_t bytes = 0;
            td_err_t err = {0};
            ck_assert_msg(!td_matmul_make(t, o, &a, &b, &c, &arena, &m, &bytes, &err), "%s", err.text);
            if (!m) continue; /* no such kernel on this machine */
            void *pa = matrix(t, room(&a), 1), *pb = matrix(t, room(&b), 2), *pc = blank(o, room(&c)),
                 *before = blank(o, room(&c)), *s = scratch_of(bytes);
            td_matmul_run(m, pa, pb, pc, s);
            check(t, o, &a, &b, &c, pa, pb, pc);
            size_t size = td_type_bytes(o); /* gaps of the result are nobody's */
            for (int64_t i = 0; i < c.rows; i++)
                for (int64_t j = 0; j < c.cols; j++)
                    memcpy((char *)before + (size_t)at(&c, i, j) * size, (char *)pc + (size_t)at(&c, i, j) * size,
                           size);
            ck_assert_mem_eq(before, pc, room(&c) * size);
            free(pa), free(pb), free(pc), free(before), free(s);
            td_arena_reset(&arena);
        }
}
END_TEST

START_TEST(other_types) {
    td_mat_t a = mat(2, 3, 0), b = mat(3, 4, 0), c = mat(2, 4, 0);
    td_matmul_t *m = NULL;
    uint64_t bytes = 1;
    static const td_type_t none[][2] = {
        {TD_S32, TD_S32}, {TD_F16, TD_F16}, {TD_F32, TD_F64}, {TD_BF16, TD_F64}, {TD_F32, TD_BF16}};
    for (int i = 0; i < 5; i++) {
        ck_assert_int_eq(td_matmul_make(none[i][0], none[i][1], &a, &b, &c, &arena, &m, &bytes, NULL), TD_OK);
        ck_assert(!m && !bytes);
    }
}
END_TEST

/* One product run by eight threads at a time, and by more than it has places for. */
typedef struct shared {
    const td_matmul_t *m;
    uint64_t bytes;
    td_type_t in, out;
    td_mat_t a, b, c;
} shared_t;
typedef struct mine {
    const shared_t *of;
    int no;
    bool wrong;
} mine_t;
static void *many_runs(void *arg) {
    mine_t *me = arg;
    const shared_t *s = me->of;
    void *pa = matrix(s->in, room(&s->a), (uint64_t)me->no + 10),
         *pb = matrix(s->in, room(&s->b), (uint64_t)me->no + 30);
    void *pc = blank(s->out, room(&s->c)), *first = blank(s->out, room(&s->c)), *scratch = NULL;
    size_t bytes = room(&s->c) * td_type_bytes(s->out);
    me->wrong = posix_memalign(&scratch, 64, s->bytes + 1) != 0;
    for (int i = 0; i < 20 && !me->wrong; i++) {
        memset(pc, 0x5a, bytes);
        td_matmul_run(s->m, pa, pb, pc, scratch);
        if (!i) memcpy(first, pc, bytes);
        me->wrong = memcmp(first, pc, bytes) != 0;
    }
    for (int64_t i = 0; i < s->c.rows; i += 7)
        for (int64_t j = 0; j < s->c.cols; j++) {
            double sum = 0;
            for (int64_t k = 0; k < s->a.cols; k++)
                sum += part(s->in, pa, at(&s->a, i, k), 0) * part(s->in, pb, at(&s->b, k, j), 0);
            uint16_t h = td_bf16_from_f32((float)sum);
            me->wrong |= part(s->out, pc, at(&s->c, i, j), 0) != (s->out == TD_BF16 ? number(TD_BF16, &h, 0) : sum);
        }
    free(pa), free(pb), free(pc), free(first), free(scratch);
    return NULL;
}
START_TEST(at_the_same_time) {
    enum { THREADS = 11 };
    static const struct {
        td_type_t in, out;
    } kinds[] = {{TD_BF16, TD_F32}, {TD_BF16, TD_BF16}, {TD_F32, TD_F32}, {TD_F64, TD_F64}};
    for (int k = 0; k < 4; k++)
        for (int n = 8; n <= THREADS; n += 3) {
            shared_t s = {
                .in = kinds[k].in, .out = kinds[k].out, .a = mat(40, 50, 0), .b = mat(50, 30, 1), .c = mat(40, 30, 0)};
            td_matmul_t *m = NULL;
            ck_assert(!td_matmul_make(s.in, s.out, &s.a, &s.b, &s.c, &arena, &m, &s.bytes, NULL));
            if (!m) continue;
            s.m = m;
            pthread_t thread[THREADS];
            mine_t mine[THREADS];
            for (int i = 0; i < n; i++) {
                mine[i] = (mine_t){.of = &s, .no = i};
                ck_assert(!pthread_create(&thread[i], NULL, many_runs, &mine[i]));
            }
            for (int i = 0; i < n; i++) pthread_join(thread[i], NULL);
            for (int i = 0; i < n; i++) ck_assert_msg(!mine[i].wrong, "%s: thread %d of %d", td_type_name(s.in), i, n);
        }
}
END_TEST

int main(int argc, char **argv) {
    (void)argc, (void)argv;
#ifdef __SANITIZE_THREAD__
    /* the team that oneDNN makes for itself is nothing that TSan sees */
    if (!getenv("OMP_NUM_THREADS") && !setenv("OMP_NUM_THREADS", "1", 1)) execv("/proc/self/exe", argv);
#endif
    TCase *t = tcase_create("host_matmul");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, orders, 0, N_TYPES);
    tcase_add_test(t, other_types);
    tcase_add_test(t, at_the_same_time);
    Suite *s = suite_create("host_matmul");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
