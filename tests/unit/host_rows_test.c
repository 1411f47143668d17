/* SPDX-License-Identifier: Apache-2.0 */
/* reduce-window by whole rows, and gathers of single elements: the quick ways against plain loops, beside the
 * same work in forms that take the general way. */
#include "runtime/host/pool.h"
#include "runtime/host/window_rows.h"
#include "tests/unit/kernel_run.h"

static const int threads[] = {1, 2, 5};
static const td_type_t types[] = {TD_F32, TD_BF16, TD_S32, TD_F64, TD_U8};
static const td_opcode_t ops[] = {TD_HLO_ADD, TD_HLO_MAXIMUM, TD_HLO_MINIMUM};
typedef struct pool {
    int64_t n[4]; /* batch, height, width, channels */
    td_window_dim_t h, w;
} pool_t;
/* size, stride, low, high padding, window dilation, base dilation, reversed */
static const pool_t pools[] = {
    {{1, 4, 4, 8}, {2, 2, 0, 0, 1, 1, false}, {2, 2, 0, 0, 1, 1, false}},
    {{2, 9, 7, 64}, {3, 2, 1, 1, 1, 1, false}, {3, 1, 1, 1, 1, 1, false}},
    {{2, 8, 9, 33}, {3, 1, 2, 0, 2, 1, true}, {2, 3, 0, 2, 3, 1, true}},
    {{1, 5, 6, 1030}, {5, 1, 4, 4, 1, 1, false}, {2, 1, 1, 0, 1, 1, true}},
    {{1, 7, 5, 2000}, {3, 2, -1, 3, 1, 1, false}, {1, 1, 0, 0, 1, 1, false}},
    {{3, 20, 20, 16}, {4, 4, 3, 2, 1, 1, true}, {3, 2, -2, -1, 2, 1, false}},
    {{1, 3, 3, 7}, {2, 1, 0, 0, 1, 1, false}, {2, 1, 0, 0, 1, 1, false}},  /* rows too short for it */
    {{1, 4, 5, 16}, {3, 1, 2, 2, 1, 2, false}, {2, 1, 1, 1, 1, 3, false}}, /* a dilated base */
};
enum { POOLS = sizeof pools / sizeof *pools };

static int64_t places(const td_window_dim_t *d, int64_t n) {
    int64_t base = (n - 1) * d->base_dilation + 1 + d->pad_low + d->pad_high,
            size = (d->size - 1) * d->window_dilation + 1;
    return base < size ? 0 : (base - size) / d->stride + 1;
}
/* The element under window position `at` of place `o`; -1: none. */
static int64_t under(const td_window_dim_t *d, int64_t n, int64_t o, int64_t at) {
    int64_t p = o * d->stride - d->pad_low + (d->reversal ? d->size - 1 - at : at) * d->window_dilation;
    if (p < 0 || p % d->base_dilation || p / d->base_dilation >= n) return -1;
    return p / d->base_dilation;
}
static double fold(td_opcode_t op, double a, double b) {
    return op == TD_HLO_ADD ? a + b : op == TD_HLO_MAXIMUM ? fmax(a, b) : fmin(a, b);
}

/* order 0: channels last in memory; 1: channels first, so no row of channels. */
static void pool_case(const pool_t *p, td_type_t t, td_opcode_t op, int order) {
    const int64_t *n = p->n, oh = places(&p->h, n[1]), ow = places(&p->w, n[2]);
    size_t total = (size_t)(n[0] * n[1] * n[2] * n[3]), made_n = (size_t)(n[0] * oh * ow * n[3]);
    const int32_t *layout = order ? (const int32_t[]){2, 1, 3, 0} : (const int32_t[]){3, 2, 1, 0};
    int64_t is[4], os[4];
    uint64_t seed = total;
    double *x = malloc(total * sizeof *x), init = 3;
    for (size_t i = 0; i < total; i++) x[i] = (double)dice(&seed, 9) - (t == TD_U8 ? 0 : 4);
    comp_begin();
    const td_shape_t *from = shape(t, layout, DIMS(n[0], n[1], n[2], n[3])),
                     *to = shape(t, layout, DIMS(n[0], oh, ow, n[3]));
    td_hlo_instr_t *a = param(0, from), *b = param(1, SHAPE(t)), *r = NODE(TD_HLO_REDUCE_WINDOW, to, a, b);
    CALL(r, scalar2(op, t, t, 0, TD_CMP_EQ));
    td_window_dim_t plain = {1, 1, 0, 0, 1, 1, false}, *dims = TD_NEW_N(&arena, td_window_dim_t, 4);
    dims[0] = plain, dims[1] = p->h, dims[2] = p->w, dims[3] = plain;
    r->window = (td_window_t){dims, 4};
    td_shape_strides(from, is);
    td_shape_strides(to, os);
    void *in = array_of(t, x, total), *start = array_of(t, &init, 1);
    for (int k = 0; k < 3; k++) {
        td_host_set_threads(threads[k]);
        void *out = blank(t, made_n);
        ck_assert_int_eq(RUN(r, out, in, start), TD_OK);
        for (int64_t e = 0; e < (int64_t)made_n; e++) {
            int64_t c = e % n[3], w = e / n[3] % ow, h = e / n[3] / ow % oh, f = e / n[3] / ow / oh;
            double want = init;
            for (int64_t i = 0; i < p->h.size; i++)
                for (int64_t j = 0; j < p->w.size; j++) {
                    int64_t y = under(&p->h, n[1], h, i), z = under(&p->w, n[2], w, j);
                    if (y >= 0 && z >= 0) want = fold(op, want, x[f * is[0] + y * is[1] + z * is[2] + c * is[3]]);
                }
            double got = number(t, out, (size_t)(f * os[0] + h * os[1] + w * os[2] + c * os[3]));
            ck_assert_msg(got == want, "pool %d of %s: (%d,%d,%d,%d) is %g, not %g", (int)(p - pools), td_type_name(t),
                          (int)f, (int)h, (int)w, (int)c, got, want);
        }
        free(out);
    }
    free(x), free(in), free(start);
    td_arena_reset(&arena);
}
START_TEST(pooling) {
    for (int k = 0; k < POOLS; k++)
        for (int o = 0; o < 3; o++)
            for (int order = 0; order < 2; order++) pool_case(&pools[k], types[_i], ops[o], order);
}
END_TEST

/* A maximum over NaN, and over nothing but padding. */
START_TEST(odd_pools) {
    enum { CH = 20 };
    float x[3 * CH], got[3 * CH], init = -1;
    for (int i = 0; i < 3 * CH; i++) x[i] = (float)i;
    x[CH + 4] = NAN;
    comp_begin();
    td_hlo_instr_t *a = param(0, SHAPE(TD_F32, 3, CH)), *b = param(1, SHAPE(TD_F32)),
                   *r = NODE(TD_HLO_REDUCE_WINDOW, SHAPE(TD_F32, 3, CH), a, b);
    CALL(r, scalar2(TD_HLO_MAXIMUM, TD_F32, TD_F32, 0, TD_CMP_EQ));
    r->window = (td_window_t){(const td_window_dim_t[]){{2, 2, 2, 2, 1, 1, false}, {1, 1, 0, 0, 1, 1, false}}, 2};
    ck_assert_int_eq(RUN(r, got, x, &init), TD_OK);
    for (int i = 0; i < CH; i++) {
        ck_assert(got[i] == -1 && got[2 * CH + i] == x[2 * CH + i]);
        ck_assert(i == 4 ? isnan(got[CH + i]) : got[CH + i] == x[CH + i]);
    }
}
END_TEST

/* Single elements of [rows, cols] by index vectors; the same indices as s32 (flat), s64 and column-major (not). */
START_TEST(gathers) {
    static const int64_t counts[] = {0, 1, 2, 127, 128, 129, 1000, 40000};
    enum { ROWS = 37, COLS = 41 };
    static const td_type_t elements[] = {TD_U8, TD_BF16, TD_F32, TD_F64, TD_C128};
    static const struct {
        td_type_t type;
        int comps, order; /* components: rows and columns, rows only; index vectors contiguous or not */
    } forms[] = {{TD_S32, 2, 0}, {TD_S32, 2, 1}, {TD_S64, 2, 0}, {TD_S64, 2, 1},
                 {TD_S32, 1, 0}, {TD_U8, 1, 0},  {TD_U32, 2, 0}};
    td_type_t t = elements[_i];
    size_t size = td_type_bytes(t);
    uint8_t *x = malloc(ROWS * COLS * size);
    uint64_t seed = 2;
    for (size_t i = 0; i < ROWS * COLS * size; i++) x[i] = (uint8_t)dice(&seed, 256);
    for (size_t k = 0; k < 8 * 7 * 2; k++) {
        int64_t n = counts[k / 14], twice = k % 2, comps = forms[k / 2 % 7].comps;
        td_type_t it = forms[k / 2 % 7].type;
        int order = forms[k / 2 % 7].order;
        td_host_set_threads(threads[k % 3]);
        double *raw = malloc((size_t)(n * 2 + 1) * sizeof *raw);
        for (int64_t i = 0; i < n * comps; i++)
            raw[i] = (double)(dice(&seed, 60) - (td_type_is_signed(it) ? 10 : 0)); /* clamped */
        void *ix = array_of(it, raw, (size_t)(n * comps)), *out = blank(t, (size_t)n);
        comp_begin();
        int64_t dims[3] = {twice ? 2 : n, twice ? n / 2 : comps, comps};
        if (twice && n % 2) dims[0] = 1, dims[1] = n;
        const td_shape_t *is = shape(it,
                                     twice   ? order ? LAYOUT(1, 0, 2) : LAYOUT(2, 1, 0)
                                       : order ? LAYOUT(0, 1)
                                             : LAYOUT(1, 0),
                                     twice ? 3 : 2, dims);
        td_hlo_instr_t *a = param(0, SHAPE(t, ROWS, COLS)), *b = param(1, is);
        bool across = twice && k / 14 % 2; /* the result column-major */
        td_hlo_instr_t *g = NODE(TD_HLO_GATHER, shape(t, across ? LAYOUT(0, 1) : NULL, twice ? 2 : 1, dims), a, b);
        td_gather_dims_t d = {.collapsed_slice_dims = LIST(0, 1),
                              .start_index_map = comps == 2 ? LIST(1, 0) : LIST(0),
                              .index_vector_dim = twice ? 2 : 1};
        g->gather = &d, g->gather_slice_sizes = LIST(1, 1);
        ck_assert_int_eq(RUN(g, out, x, ix), TD_OK);
        for (int64_t i = 0; i < n; i++) {
            double c0 = raw[order ? i : i * comps], c1 = comps == 2 ? raw[order ? n + i : i * comps + 1] : 0;
            size_t to = (size_t)(across ? i % dims[1] * dims[0] + i / dims[1] : i);
            int64_t row = (int64_t)(comps == 2 ? c1 : c0), col = comps == 2 ? (int64_t)c0 : 0;
            row = row < 0 ? 0 : row >= ROWS ? ROWS - 1 : row, col = col < 0 ? 0 : col >= COLS ? COLS - 1 : col;
            ck_assert_msg(!memcmp((char *)out + to * size, x + (size_t)(row * COLS + col) * size, size),
                          "%s by %s, %d of %d, order %d", td_type_name(t), td_type_name(it), (int)i, (int)n, order);
        }
        free(raw), free(ix), free(out);
        td_arena_reset(&arena);
    }
    free(x);
}
END_TEST

int main(void) {
    TCase *t = tcase_create("host_rows");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, pooling, 0, sizeof types / sizeof *types);
    tcase_add_test(t, odd_pools);
    tcase_add_loop_test(t, gathers, 0, 5);
    Suite *s = suite_create("host_rows");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
