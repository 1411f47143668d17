/* SPDX-License-Identifier: Apache-2.0 */
/* Linear algebra targets on the CUDA device against the host device: all types, batches, sizes on both sides of where
 * another function of the libraries is taken. The numbers themselves: cuda_handlers_test. */
#define HANDLERS_ON_CUDA
#include "runtime/ffi/linalg.h"
#include "tests/unit/handler_case.h"

static const td_type_t types[] = {TD_F32, TD_F64, TD_C64, TD_C128};
static uint32_t seed = 1;
static double next(void) {
    seed = seed * 1664525u + 1013904223u;
    return (double)(seed >> 8) / (1 << 24) - 0.5;
}
static void set(td_type_t t, void *p, uint64_t i, double v) { /* real i */
    if (td_real_of(t) == TD_F32) ((float *)p)[i] = (float)v;
    else ((double *)p)[i] = v;
}
static uint64_t reals(td_type_t t) { return td_type_is_complex(t) ? 2 : 1; }
static void *numbers(td_type_t t, int64_t count) {
    void *p = malloc((uint64_t)count * td_type_bytes(t) + 16);
    for (uint64_t i = 0; i < (uint64_t)count * reals(t); i++) set(t, p, i, next());
    return p;
}
/* Hermitian and positive definite, a batch of them. */
static void *definite(td_type_t t, int64_t batch, int64_t n) {
    void *p = numbers(t, batch * n * n);
    for (int64_t b = 0; b < batch; b++)
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j <= i; j++) {
                uint64_t at = (uint64_t)(b * n * n + i * n + j) * reals(t),
                         other = (uint64_t)(b * n * n + j * n + i) * reals(t);
                double re = i == j ? (double)n + next() : next(), im = i == j ? 0 : next();
                set(t, p, at, re), set(t, p, other, re);
                if (reals(t) == 2) set(t, p, at + 1, im), set(t, p, other + 1, -im);
            }
    return p;
}

static double real_at(td_type_t t, const void *p, uint64_t i) {
    return td_real_of(t) == TD_F32 ? (double)((const float *)p)[i] : ((const double *)p)[i];
}
static void near(const char *what, const arr_t *a, const void *got, const void *want, uint64_t bytes) {
    td_type_t t = a->type;
    if (t == TD_S32) {
        ck_assert_msg(!memcmp(got, want, bytes), "%s: integers differ", what);
        return;
    }
    uint64_t n = bytes / td_type_bytes(t) * reals(t);
    double tolerance = td_real_of(t) == TD_F32 ? 2e-4 : 1e-10;
    for (uint64_t i = 0; i < n; i++) {
        double x = real_at(t, got, i), y = real_at(t, want, i);
        ck_assert_msg(fabs(x - y) <= tolerance * (1 + fabs(y)), "%s: [%llu] is %g, not %g", what, (unsigned long long)i,
                      x, y);
    }
}

/* The call on both devices; results that `junk` names (bit i: result i) may hold anything. */
static void both(const char *what, unsigned junk, const char *target, const attr_t *attrs, size_t n_attrs,
                 const arr_t *in, size_t n_in, const arr_t *out, size_t n_out) {
    const td_shape_t *shapes[16];
    op_buffer_t v[OP_BUFFERS] = {{0}};
    void *want[OP_BUFFERS];
    size_t n = n_in + n_out;
    td_arena_t arena;
    td_arena_init(&arena, td_alloc_default(), 0);
    for (size_t i = 0; i < n; i++) {
        const arr_t *a = i < n_in ? &in[i] : &out[i - n_in];
        shapes[i] = shape_of(&arena, a);
        v[i] = (op_buffer_t){.host = i < n_in ? a->data : calloc(1, shapes[i]->bytes + 1), .bytes = shapes[i]->bytes};
    }
    td_custom_call_desc_t d = {.target = target,
                               .instruction = "x",
                               .operands = shapes,
                               .n_operands = (uint32_t)n_in,
                               .results = shapes + n_in,
                               .n_results = (uint32_t)n_out,
                               .attrs = attrs_of(&arena, attrs, n_attrs)};
    op_t o;
    op_on_host(TD_OP_CUSTOM_CALL, &d, v, (uint32_t)n, want);
    ck_assert_msg(!op_lower(&o, gpu, TD_OP_CUSTOM_CALL, &d), "%s: %s", what, err.text);
    op_up(v, (uint32_t)n);
    ck_assert_msg(!op_launch(&o, v, (uint32_t)n), "%s: %s", what, err.text);
    op_down(v, (uint32_t)n);
    for (size_t i = 0; i < n; i++) {
        char place[80];
        snprintf(place, sizeof place, "%s, %s %zu", what, i < n_in ? "operand" : "result", i < n_in ? i : i - n_in);
        if (i < n_in || !(junk >> (i - n_in) & 1))
            near(place, i < n_in ? &in[i] : &out[i - n_in], v[i].host, want[i], v[i].bytes);
        free(want[i]);
    }
    op_free(v, (uint32_t)n);
    for (size_t i = n_in; i < n; i++) free(v[i].host);
    op_release(&o, gpu);
    td_arena_deinit(&arena);
    ck_assert_msg(!op_ask("fakecuda_faults", NULL), "%s: %s", what, op_fault());
}
#define BOTH(junk, ...)                                                                                        \
    do {                                                                                                       \
        char what_[80];                                                                                        \
        snprintf(what_, sizeof what_, "%s of %s, %lldx%lldx%lld", __func__, td_type_name(t), (long long)batch, \
                 (long long)m, (long long)n);                                                                  \
        both(what_, junk, __VA_ARGS__);                                                                        \
    } while (0)

static void setup(void) {
    setenv("FAKECUDA_SEED", "3", 1);
    open_libraries();
    op_open();
}
static uint64_t calls(const char *name) { return op_ask("fakecuda_calls", name); }

static void square(td_type_t t, int64_t batch, int64_t n) {
    int64_t m = n;
    td_type_t r = td_real_of(t);
    void *a = definite(t, batch, n), *free_form = numbers(t, batch * n * n);
    BOTH(0, "cusolver_potrf_ffi", ATTRS(YES("lower")), IN(COL(t, a, batch, n, n)),
         OUT(COL(t, NULL, batch, n, n), ROW(TD_S32, NULL, batch)));
    BOTH(0, "cusolver_potrf_ffi", ATTRS(NO("lower")), IN(COL(t, a, batch, n, n)),
         OUT(COL(t, NULL, batch, n, n), ROW(TD_S32, NULL, batch)));
    BOTH(0, "cusolver_getrf_ffi", NO_ATTRS, IN(COL(t, free_form, batch, n, n)),
         OUT(COL(t, NULL, batch, n, n), ROW(TD_S32, NULL, batch, n), ROW(TD_S32, NULL, batch)));
    for (uint8_t algorithm = 0; algorithm < 3; algorithm++)
        BOTH(0, "cusolver_syevd_ffi", ATTRS(U8("algorithm", algorithm), NO("lower")), IN(COL(t, a, batch, n, n)),
             OUT(COL(t, NULL, batch, n, n), ROW(r, NULL, batch, n), ROW(TD_S32, NULL, batch)));
    BOTH(0, "cusolver_sytrd_ffi", ATTRS(YES("lower")), IN(COL(t, a, batch, n, n)),
         OUT(COL(t, NULL, batch, n, n), ROW(r, NULL, batch, n), ROW(r, NULL, batch, n - 1), ROW(t, NULL, batch, n - 1),
             ROW(TD_S32, NULL, batch)));
    td_type_t c = r == TD_F32 ? TD_C64 : TD_C128;
    BOTH(1, "cusolver_geev_ffi", ATTRS(NO("left"), YES("right")), IN(COL(t, free_form, batch, n, n)),
         OUT(COL(t, NULL, batch, n, n), ROW(c, NULL, batch, n), COL(t, NULL, batch, n, n), COL(t, NULL, batch, n, n),
             ROW(TD_S32, NULL, batch)));
    free(a), free(free_form);
}
START_TEST(test_square) {
    square(types[_i], 1, 6);
    square(types[_i], 3, 5);
    square(types[_i], 2, 40);
    ck_assert(calls("cusolverDnXsyevd") && calls("cusolverDnXgeev"));
    op_close();
}
END_TEST

static void tall(td_type_t t, int64_t batch, int64_t m, int64_t n) {
    int64_t k = m < n ? m : n;
    td_type_t r = td_real_of(t);
    void *a = numbers(t, batch * m * n), *tau = numbers(t, batch * k), *c = numbers(t, batch * m * 4),
         *d = numbers(t, batch * m * 4);
    BOTH(0, "cusolver_getrf_ffi", NO_ATTRS, IN(COL(t, a, batch, m, n)),
         OUT(COL(t, NULL, batch, m, n), ROW(TD_S32, NULL, batch, k), ROW(TD_S32, NULL, batch)));
    BOTH(0, "cusolver_geqrf_ffi", NO_ATTRS, IN(COL(t, a, batch, m, n)),
         OUT(COL(t, NULL, batch, m, n), ROW(t, NULL, batch, k)));
    if (m >= n)
        BOTH(0, "cusolver_orgqr_ffi", NO_ATTRS, IN(COL(t, a, batch, m, n), ROW(t, tau, batch, k)),
             OUT(COL(t, NULL, batch, m, n)));
    BOTH(0, "cusolver_ormqr_ffi", ATTRS(YES("left"), YES("transpose")),
         IN(COL(t, a, batch, m, n), ROW(t, tau, batch, k), COL(t, c, batch, m, 4)), OUT(COL(t, NULL, batch, m, 4)));
    BOTH(0, "cusolver_ormqr_ffi", ATTRS(NO("left"), NO("transpose")),
         IN(COL(t, a, batch, m, n), ROW(t, tau, batch, k), COL(t, d, batch, 4, m)), OUT(COL(t, NULL, batch, 4, m)));
    for (int full = 0; full < 2; full++)
        for (int wanted = 0; wanted < 2; wanted++) {
            int64_t u = full ? m : k, v = full ? n : k;
            attr_t attrs[] = {YES("compute_uv"), full ? (attr_t)YES("full_matrices") : (attr_t)NO("full_matrices"),
                              NO("transposed")};
            if (!wanted) attrs[0] = (attr_t)NO("compute_uv");
            static const char *const targets[] = {"cusolver_gesvdj_ffi", "cusolver_gesvdp_ffi"};
            for (int i = 0; i < 2; i++)
                BOTH(1, targets[i], attrs, 2, IN(COL(t, a, batch, m, n)),
                     OUT(COL(t, NULL, batch, m, n), ROW(r, NULL, batch, k), COL(t, NULL, batch, m, u),
                         COL(t, NULL, batch, n, v), ROW(TD_S32, NULL, batch)));
            if (m < n) continue;
            BOTH(1, "cusolver_gesvd_ffi", attrs, 3, IN(COL(t, a, batch, m, n)),
                 OUT(COL(t, NULL, batch, m, n), ROW(r, NULL, batch, k), COL(t, NULL, batch, m, u),
                     COL(t, NULL, batch, n, n), ROW(TD_S32, NULL, batch)));
            attrs[2] = (attr_t)YES("transposed");
            BOTH(1, "cusolver_gesvd_ffi", attrs, 3, IN(ROW(t, a, batch, n, m)),
                 OUT(ROW(t, NULL, batch, n, m), ROW(r, NULL, batch, k), ROW(t, NULL, batch, u, m),
                     ROW(t, NULL, batch, n, n), ROW(TD_S32, NULL, batch)));
        }
    free(a), free(tau), free(c), free(d);
}
START_TEST(test_rectangular) {
    tall(types[_i], 1, 7, 4);
    tall(types[_i], 3, 6, 5);
    tall(types[_i], 2, 4, 6);
    tall(types[_i], 2, 34, 33);
    char name[40];
    snprintf(name, sizeof name, "cublas%cgeqrfBatched", "SDCZ"[_i]);
    ck_assert_uint_gt(calls(name), 0);
    snprintf(name, sizeof name, "cusolverDn%cgesvdjBatched", "SDCZ"[_i]);
    ck_assert(calls(name) && calls("cusolverDnXgesvdp") && calls("cusolverDnXgesvd"));
    op_close();
}
END_TEST
/* Larger than what a batch's function is for: a call each. */
START_TEST(test_large_batch) {
    td_type_t t = TD_F64;
    int64_t batch = 2, m = 300, n = 300;
    void *a = numbers(t, batch * m * n);
    BOTH(0, "cusolver_getrf_ffi", NO_ATTRS, IN(COL(t, a, batch, n, n)),
         OUT(COL(t, NULL, batch, n, n), ROW(TD_S32, NULL, batch, n), ROW(TD_S32, NULL, batch)));
    ck_assert(calls("cusolverDnDgetrf") == 2 && !calls("cublasDgetrfBatched"));
    free(a);
    op_close();
}
END_TEST

START_TEST(test_updates) {
    td_type_t t = types[_i];
    int64_t batch = 2, m = 5, n = 3;
    void *a = numbers(t, batch * m * n), *c = numbers(t, batch * m * m), *alpha = numbers(t, 1), *beta = numbers(t, 1);
    BOTH(0, "cusolver_syrk_ffi", ATTRS(NO("transpose")),
         IN(ROW(t, a, batch, m, n), ROW(t, c, batch, m, m), ROW(t, alpha), ROW(t, beta)),
         OUT(ROW(t, NULL, batch, m, m)));
    BOTH(0, "cusolver_syrk_ffi", ATTRS(YES("transpose")),
         IN(ROW(t, a, batch, n, m), ROW(t, c, batch, m, m), ROW(t, alpha), ROW(t, beta)),
         OUT(ROW(t, NULL, batch, m, m)));
    BOTH(0, "cusolver_syrk_ffi", ATTRS(NO("transpose")),
         IN(ROW(t, a, batch, m, 0), ROW(t, c, batch, m, m), ROW(t, alpha), ROW(t, beta)),
         OUT(ROW(t, NULL, batch, m, m)));
    void *dl = numbers(t, 12), *d = numbers(t, 12), *du = numbers(t, 12), *b = numbers(t, 24);
    for (uint64_t i = 0; i < 12; i++) set(t, d, i * reals(t), 3);
    m = 6, n = 2;
    BOTH(0, "cusparse_gtsv2_ffi", NO_ATTRS, IN(ROW(t, dl, 2, 6), ROW(t, d, 2, 6), ROW(t, du, 2, 6), COL(t, b, 2, 6, 2)),
         OUT(COL(t, NULL, 2, 6, 2)));
    m = 2, n = 6;
    BOTH(0, "cusparse_gtsv2_ffi", NO_ATTRS, IN(ROW(t, dl, 2, 2), ROW(t, d, 2, 2), ROW(t, du, 2, 2), COL(t, b, 2, 2, 6)),
         OUT(COL(t, NULL, 2, 2, 6)));
    free(a), free(c), free(alpha), free(beta), free(dl), free(d), free(du), free(b);
    op_close();
}
END_TEST

/* A 3 x 4 matrix of five entries, two of them outside; products with 2 columns, the COO one a batch of two. */
START_TEST(test_sparse) {
    static const int32_t data[] = {0, 1, 4, 5};
    td_type_t t = types[_i];
    int64_t batch = 2, m = 3, n = 4;
    int32_t cuda = data[_i], rows[] = {0, 2, 7, 1, 2, 1, 0, 2, 2, -1}, cols[] = {3, 0, 1, 1, 9, 0, 1, 2, 3, 0},
            offsets[] = {0, 2, 3, 5};
    void *v = numbers(t, 10), *x = numbers(t, 16), *work = calloc(1, 16);
    for (int32_t op = 0; op < 3; op++) {
        int32_t in = op ? 3 : 4, out = op ? 4 : 3;
        int32_t vec[] = {cuda, 2, 3, 4, 5, 1, 0, cuda, in, cuda, out, op};
        BOTH(2, "cusparse_csr_matvec_ffi", ATTRS(STR("opaque", vec, sizeof vec)),
             IN(ROW(t, v, 5), ROW(TD_S32, cols, 5), ROW(TD_S32, offsets, 4), ROW(t, x, in)),
             OUT(ROW(t, NULL, out), ROW(TD_S8, NULL, 4)));
        BOTH(2, "cusparse_coo_matvec_ffi", ATTRS(STR("opaque", vec, sizeof vec)),
             IN(ROW(t, v, 5), ROW(TD_S32, rows, 5), ROW(TD_S32, cols, 5), ROW(t, x, in)),
             OUT(ROW(t, NULL, out), ROW(TD_S8, NULL, 4)));
        int32_t csr[] = {cuda, 2, 3, 4, 5, 1, 0, cuda, in, 2, 1, 0, cuda, out, 2, 1, 0, op};
        BOTH(2, "cusparse_csr_matmat_ffi", ATTRS(STR("opaque", csr, sizeof csr)),
             IN(ROW(t, v, 5), ROW(TD_S32, cols, 5), ROW(TD_S32, offsets, 4), ROW(t, x, in, 2)),
             OUT(ROW(t, NULL, out, 2), ROW(TD_S8, NULL, 4)));
        int32_t coo[] = {cuda, 2, 3, 4, 5, 2, 5, cuda, in, 2, 2, in * 2, cuda, out, 2, 2, out * 2, op};
        BOTH(2, "cusparse_coo_matmat_ffi", ATTRS(STR("opaque", coo, sizeof coo)),
             IN(ROW(t, v, 10), ROW(TD_S32, rows, 10), ROW(TD_S32, cols, 10), ROW(t, x, 2, in, 2)),
             OUT(ROW(t, NULL, 2, out, 2), ROW(TD_S8, NULL, 4)));
    }
    for (uint64_t i = 0; i < 12; i += 3)
        for (uint64_t k = 0; k < reals(t); k++) set(t, x, i * reals(t) + k, k ? -0.0 : 0);
    for (int32_t nnz = 5; nnz < 14; nnz += 4) { /* fewer than there are, as many and more */
        int32_t matrix[] = {cuda, 2, 3, 4, nnz, 1, 0};
        BOTH(8, "cusparse_csr_fromdense_ffi", ATTRS(STR("opaque", matrix, sizeof matrix)), IN(ROW(t, x, 3, 4)),
             OUT(ROW(t, NULL, nnz), ROW(TD_S32, NULL, nnz), ROW(TD_S32, NULL, 4), ROW(TD_S8, NULL, 4)));
        BOTH(8, "cusparse_coo_fromdense_ffi", ATTRS(STR("opaque", matrix, sizeof matrix)), IN(ROW(t, x, 3, 4)),
             OUT(ROW(t, NULL, nnz), ROW(TD_S32, NULL, nnz), ROW(TD_S32, NULL, nnz), ROW(TD_S8, NULL, 4)));
    }
    free(v), free(x), free(work);
    op_close();
}
END_TEST

int main(void) {
    Suite *s = suite_create("cuda_solver");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, NULL);
    tcase_add_loop_test(t, test_square, 0, 4);
    tcase_add_loop_test(t, test_rectangular, 0, 4);
    tcase_add_test(t, test_large_batch);
    tcase_add_loop_test(t, test_updates, 0, 4);
    tcase_add_loop_test(t, test_sparse, 0, 4);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
