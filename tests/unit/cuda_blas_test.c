/* SPDX-License-Identifier: Apache-2.0 */
/* Triangular systems on the CUDA device through the stand-in for cuBLAS, and the loader of CUDA's libraries: what is
 * missing, too old or not whole is told by name, with what to install. */
#include "runtime/cuda/blas.h"
#include "tests/unit/cuda_op_case.h"

enum { WIDE = 6, OTHER = 5 };

static void setup(void) {
    op_library("libcuda.so.1");
    op_library("libcublas.so.13");
}

/* ---- triangular systems ---- */
static void *numbers(td_type_t type, uint64_t n, uint32_t seed, int64_t diagonal) {
    bool wide = type == TD_F64 || type == TD_C128;
    uint64_t per = td_type_is_complex(type) ? 2 : 1;
    double *d = malloc((n * per + 1) * sizeof *d);
    float *f = malloc((n * per + 1) * sizeof *f);
    for (uint64_t i = 0; i < n * per; i++) {
        seed = seed * 1664525u + 1013904223u;
        d[i] = (double)(seed >> 16) / 65536 - 0.5;
        uint64_t element = i / per;
        if (diagonal && element % (uint64_t)(diagonal * diagonal) % (uint64_t)(diagonal + 1) == 0) d[i] += 4;
        f[i] = (float)d[i];
    }
    free(wide ? (void *)f : d);
    return wide ? (void *)d : f;
}
static void solve(td_triangular_desc_t g, const char *what) {
    int64_t side = g.left ? g.m : g.n;
    uint64_t element = td_type_bytes(g.type), na = (uint64_t)(side * side * g.batch),
             nb = (uint64_t)(g.m * g.n * g.batch);
    op_buffer_t v[2] = {{.host = numbers(g.type, na, 1, side), .bytes = na * element},
                        {.host = numbers(g.type, nb, 2, 0), .bytes = nb * element}};
    op_same(TD_OP_TRIANGULAR_SOLVE, &g, v, 2, what);
    free(v[0].host);
    free(v[1].host);
}
START_TEST(test_all_forms) {
    static const td_type_t types[] = {TD_F32, TD_F64, TD_C64, TD_C128};
    op_open();
    for (int k = 0; k < 4 * 8 * 3 * 2; k++) {
        td_triangular_desc_t g = {.type = types[k % 4],
                                  .left = k / 4 & 1,
                                  .lower = k / 8 & 1,
                                  .unit_diagonal = k / 16 & 1,
                                  .transpose = (td_transpose_t)(1 + k / 32 % 3),
                                  .m = k / 4 & 1 ? WIDE : OTHER,
                                  .n = k / 4 & 1 ? OTHER : WIDE,
                                  .batch = k / 96 ? 3 : 1};
        char what[32];
        snprintf(what, sizeof what, "form %d", k);
        solve(g, what);
    }
    ck_assert_uint_eq(op_ask("fakecuda_calls", "cublasCreate_v2"), 1);
    op_close();
}
END_TEST

START_TEST(test_empty) { /* takes neither library nor scratch */
    const td_triangular_desc_t empty[] = {{.type = TD_F32, .transpose = TD_TRANSPOSE_NONE, .m = 0, .n = 3, .batch = 2},
                                          {.type = TD_F32, .transpose = TD_TRANSPOSE_NONE, .m = 3, .n = 3, .batch = 0}};
    op_open();
    for (int i = 0; i < 2; i++) {
        op_buffer_t v[2] = {{0}, {0}};
        op_t o;
        ck_assert_int_eq(op_lower(&o, gpu, TD_OP_TRIANGULAR_SOLVE, &empty[i]), 0);
        ck_assert_uint_eq(o.scratch_bytes, 0);
        ck_assert_int_eq(op_launch(&o, v, 2), 0);
        op_release(&o, gpu);
    }
    ck_assert_uint_eq(op_ask("fakecuda_calls", "cublasCreate_v2"), 0);
    op_close();
}
END_TEST

START_TEST(test_refused) {
    const struct {
        td_triangular_desc_t g;
        td_status_t st;
        const char *word;
    } v[] = {
        {{.type = TD_BF16, .transpose = TD_TRANSPOSE_NONE, .m = 2, .n = 2, .batch = 1}, TD_UNSUPPORTED, "of that type"},
        {{.type = TD_F32, .transpose = (td_transpose_t)7, .m = 2, .n = 2, .batch = 1}, TD_UNSUPPORTED, "transpose_a 7"},
        {{.type = TD_F32, .transpose = TD_TRANSPOSE_NONE, .m = 1ll << 33, .n = 2, .batch = 1}, TD_LIMIT, "too large"}};
    op_open();
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
        op_t o;
        ck_assert_int_eq(op_lower(&o, gpu, TD_OP_TRIANGULAR_SOLVE, &v[i].g), v[i].st);
        ck_assert_msg(strstr(err.text, v[i].word) != NULL, "%s", err.text);
    }
    op_close();
}
END_TEST

/* Every call fails once: while loading or while launching, always with the call's name, and the next try works. */
START_TEST(test_failures) {
    static const char *const calls[] = {"cublasCreate_v2", "cublasGetVersion_v2", "cublasSetStream_v2",
                                        "cublasSetWorkspace_v2", "cublasStrsmBatched"};
    char fail[64];
    snprintf(fail, sizeof fail, "%s:1:3", calls[_i]);
    setenv("FAKECUDA_FAIL", fail, 1);
    op_open();
    td_triangular_desc_t g = {.type = TD_F32, .left = true, .transpose = TD_TRANSPOSE_NONE, .m = 4, .n = 4, .batch = 2};
    op_buffer_t v[2] = {{.host = numbers(TD_F32, 32, 1, 4), .bytes = 128},
                        {.host = numbers(TD_F32, 32, 1, 0), .bytes = 128}};
    op_t o;
    bool early = _i < 2;
    td_status_t st = op_lower(&o, gpu, TD_OP_TRIANGULAR_SOLVE, &g);
    ck_assert_msg(st == (early ? TD_NOMEM : TD_OK), "%s: %s", fail, err.text);
    if (early) {
        ck_assert_msg(strstr(err.text, calls[_i]) != NULL, "%s", err.text);
        ck_assert_msg(!op_lower(&o, gpu, TD_OP_TRIANGULAR_SOLVE, &g), "%s", err.text);
    }
    op_up(v, 2);
    if (!early) {
        ck_assert_int_eq(op_launch(&o, v, 2), TD_NOMEM);
        ck_assert_msg(strstr(err.text, calls[_i]) != NULL || strstr(calls[_i], "_v2"), "%s", err.text);
    }
    ck_assert_msg(!op_launch(&o, v, 2), "%s", err.text);
    op_down(v, 2);
    op_free(v, 2);
    op_release(&o, gpu);
    free(v[0].host), free(v[1].host);
    op_close();
}
END_TEST

/* A library that is used without a workspace of ours takes its own memory: the stand-in tells. */
START_TEST(test_without_workspace) {
    td_blas_t *b = NULL;
    op_open();
    td_cuda_device_t *d = (td_cuda_device_t *)gpu;
    const float one = 1;
    void *p = NULL;
    ck_assert_int_eq(td_blas_get(d, "tests", &b, &err), 0);
    ck_assert_int_eq(gpu->ops->mem_get(gpu, 256, &p, &err), 0);
    ck_assert_int_eq(b->cublasSetStream_v2(b->handle, ((td_cuda_stream_t *)stream)->handle), 0);
    ck_assert_int_ne(b->cublasStrsm_v2(b->handle, 0, 0, 0, 0, 2, 2, &one, p, 2, p, 2), 0);
    op_expect("bad-arguments", "no workspace was set");
    gpu->ops->mem_put(gpu, p, 256);
    op_close();
}
END_TEST

/* ---- the loader ---- */
typedef struct fake {
    cublasStatus_t (*create)(void **);
    int started, *stopped;
} fake_t;
static int stopped, starts;
static td_status_t start_fake(td_cuda_device_t *d, void *lib, const char *file, td_err_t *e);
static void stop_fake(td_cuda_device_t *d, void *lib) {
    (void)d, (void)lib;
    stopped++;
}
static const td_cuda_symbol_t good[] = {{"cublasCreate_v2", offsetof(fake_t, create), true},
                                        {"cublasNope", offsetof(fake_t, stopped), false}};
static const td_cuda_symbol_t bad[] = {{"cublasNope", offsetof(fake_t, create), true}};
#define LIB(...)                                                                                                       \
    {                                                                                                                  \
        .name = "cuNothing", .package = "CUDA 99", .bytes = sizeof(fake_t), .start = start_fake, .stop = stop_fake,    \
        __VA_ARGS__                                                                                                    \
    }
static const td_cuda_lib_t works = LIB(.files = {{"libnothing.so.3", 0}, {"libcublas.so.13", 0}}, .symbols = good,
                                       .n_symbols = 2),
                           missing = LIB(.files = {{"libnothing.so.4", 0}, {"libnothing.so.3", 0}}),
                           not_whole = LIB(.files = {{"libcublas.so.13", 0}}, .symbols = bad, .n_symbols = 1),
                           newer = LIB(.files = {{"libcublas.so.13", 14000}, {"libnothing.so.2", 0}}),
                           old = LIB(.files = {{"libcublas.so.13", 0}}, .symbols = good, .n_symbols = 2);
static td_status_t start_fake(td_cuda_device_t *d, void *lib, const char *file, td_err_t *e) {
    fake_t *f = lib;
    (void)d;
    ck_assert(f->create && !f->stopped && !f->started);
    f->started = ++starts;
    return starts > 1 ? td_cuda_lib_version(&old, file, 120, 140, "1.2", "1.4", e) : TD_OK;
}
static void refuse(const td_cuda_lib_t *lib, const char *want) {
    void *out = NULL;
    ck_assert_int_eq(td_cuda_lib_get((td_cuda_device_t *)gpu, lib, "tests", &out, &err), TD_UNSUPPORTED);
    ck_assert_msg(strstr(err.text, want) != NULL, "'%s' has no '%s'", err.text, want);
    ck_assert_msg(strstr(err.text, "tests take cuNothing: ") == err.text && strstr(err.text, "install CUDA 99") != NULL,
                  "%s", err.text);
}
START_TEST(test_loader) {
    fake_t *f = NULL, *again = NULL;
    op_open();
    ck_assert_msg(!td_cuda_lib_get((td_cuda_device_t *)gpu, &works, "tests", &f, &err), "%s", err.text);
    ck_assert_int_eq(td_cuda_lib_get((td_cuda_device_t *)gpu, &works, "others", &again, &err), 0);
    ck_assert(f == again && starts == 1);
    refuse(&missing,
           "none of libnothing.so.4, libnothing.so.3 can be loaded (the driver serves CUDA 13.0): libnothing.so.4: ");
    refuse(&not_whole, "libcublas.so.13 has no cublasNope");
    refuse(&newer, "libcublas.so.13 (for drivers of CUDA 14 and newer), libnothing.so.2");
    refuse(&old, "libcublas.so.13 is cuNothing 1.2, needed is 1.4 or newer");
    ck_assert_int_eq(stopped, 0);
    op_close();
    ck_assert_int_eq(stopped, 1);
}
END_TEST

int main(void) {
    Suite *s = suite_create("cuda_blas");
    TCase *t = tcase_create("all");
    tcase_add_checked_fixture(t, setup, NULL);
    tcase_add_test(t, test_all_forms);
    tcase_add_test(t, test_empty);
    tcase_add_test(t, test_refused);
    tcase_add_loop_test(t, test_failures, 0, 5);
    tcase_add_test(t, test_without_workspace);
    tcase_add_test(t, test_loader);
    tcase_set_timeout(t, 60);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
