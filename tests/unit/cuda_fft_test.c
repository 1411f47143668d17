/* SPDX-License-Identifier: Apache-2.0 */
/* Fourier transforms on the CUDA device through the stand-in for cuFFT, against sums written out. */
#include <complex.h>
#include <math.h>

#include "tests/unit/cuda_op_case.h"

static void setup(void) {
    op_library("libcuda.so.1");
    op_library("libcufft.so.12");
}

/* ---- geometries ---- */
typedef struct shape {
    td_fft_kind_t kind;
    uint32_t rank;
    int64_t n[3];
    int64_t batch[3]; /* 0 ends */
    bool inner;       /* the batch is the fastest dimension, not the slowest */
} shape_t;
/* Row-major arrays of batch x n, or n x batch; strides and counts as the descriptor has them. */
static td_fft_desc_t describe(const shape_t *s, bool f64) {
    td_fft_desc_t d = {.kind = s->kind, .f64 = f64, .rank = s->rank};
    int64_t in = 1, out = 1;
    for (int pass = 0; pass < 2; pass++) {
        bool batches = pass == (s->inner ? 0 : 1);
        for (int i = 2; i >= 0 && batches; i--) {
            if (!s->batch[i]) continue;
            d.batch[i] = s->batch[i], d.in_batch[i] = in, d.out_batch[i] = out;
            in *= s->batch[i], out *= s->batch[i];
            if (d.n_batches < (uint32_t)i + 1) d.n_batches = (uint32_t)i + 1;
        }
        for (int i = (int)s->rank - 1; i >= 0 && !batches; i--) {
            bool last = i == (int)s->rank - 1;
            d.n[i] = s->n[i], d.in_stride[i] = in, d.out_stride[i] = out;
            in *= last && s->kind == TD_FFT_REAL_INVERSE ? s->n[i] / 2 + 1 : s->n[i];
            out *= last && s->kind == TD_FFT_REAL ? s->n[i] / 2 + 1 : s->n[i];
        }
    }
    d.in_count = in, d.out_count = out;
    return d;
}

static double complex value(const td_fft_desc_t *d, const void *p, int64_t i, bool real) {
    if (d->f64) return real ? ((const double *)p)[i] : ((const double complex *)p)[i];
    return real ? (double)((const float *)p)[i] : (double complex)((const float complex *)p)[i];
}
/* Element k of the transform, batch element at in_at: the sum over all inputs. */
static double complex sum(const td_fft_desc_t *d, const void *in, int64_t in_at, const int64_t k[3]) {
    double sign = d->kind == TD_FFT_FORWARD || d->kind == TD_FFT_REAL ? -1 : 1, scale = 1;
    double complex total = 0;
    int64_t n[3] = {1, 1, 1}, j[3];
    for (uint32_t i = 0; i < d->rank; i++) n[i] = d->n[i], scale *= sign > 0 ? (double)n[i] : 1;
    for (j[0] = 0; j[0] < n[0]; j[0]++)
        for (j[1] = 0; j[1] < n[1]; j[1]++)
            for (j[2] = 0; j[2] < n[2]; j[2]++) {
                double angle = 0;
                int64_t at = in_at, mirror = in_at;
                int64_t last = d->rank - 1;
                bool flip = d->kind == TD_FFT_REAL_INVERSE && j[last] > n[last] / 2;
                for (uint32_t i = 0; i < d->rank; i++) {
                    angle += (double)(j[i] * k[i] % n[i]) / (double)n[i];
                    at += j[i] * d->in_stride[i];
                    mirror += (n[i] - j[i]) % n[i] * d->in_stride[i];
                }
                double complex x = value(d, in, flip ? mirror : at, d->kind == TD_FFT_REAL);
                total += (flip ? conj(x) : x) * cexp(sign * 2 * M_PI * I * angle);
            }
    return total / scale;
}
static void *numbers(const td_fft_desc_t *d, uint64_t *bytes) {
    bool real = d->kind == TD_FFT_REAL;
    int64_t n = d->in_count * (real ? 1 : 2);
    uint32_t seed = 7;
    *bytes = (uint64_t)n * (d->f64 ? 8 : 4);
    double *v = malloc(*bytes + 8);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        double x = (double)(seed >> 8) / (1 << 24) - 0.5;
        if (d->f64) v[i] = x;
        else ((float *)v)[i] = (float)x;
    }
    return v;
}
/* The numbers that a real array's transform can be: symmetric where the sum is its own mirror image. */
static void symmetric(const td_fft_desc_t *d, void *in) {
    td_fft_desc_t forward = *d;
    if (d->kind != TD_FFT_REAL_INVERSE) return;
    int64_t last = d->rank - 1;
    forward.kind = TD_FFT_REAL, forward.in_count = d->out_count, forward.out_count = d->in_count;
    memcpy(forward.in_stride, d->out_stride, sizeof d->out_stride),
        memcpy(forward.out_stride, d->in_stride, sizeof d->in_stride);
    uint64_t bytes = 0;
    void *x = numbers(&forward, &bytes);
    int64_t n[3] = {1, 1, 1}, k[3], b[3] = {0}, most[3] = {1, 1, 1};
    for (uint32_t i = 0; i < d->rank; i++) n[i] = i == (uint32_t)last ? d->n[i] / 2 + 1 : d->n[i];
    for (uint32_t i = 0; i < d->n_batches; i++) most[i] = d->batch[i];
    for (b[0] = 0; b[0] < most[0]; b[0]++)
        for (b[1] = 0; b[1] < most[1]; b[1]++)
            for (b[2] = 0; b[2] < most[2]; b[2]++)
                for (k[0] = 0; k[0] < n[0]; k[0]++)
                    for (k[1] = 0; k[1] < n[1]; k[1]++)
                        for (k[2] = 0; k[2] < n[2]; k[2]++) {
                            int64_t to = 0, from = 0;
                            for (int i = 0; i < 3; i++)
                                to += k[i] * d->in_stride[i] + b[i] * d->in_batch[i], from += b[i] * d->out_batch[i];
                            double complex v = sum(&forward, x, from, k);
                            if (d->f64) ((double complex *)in)[to] = v;
                            else ((float complex *)in)[to] = (float complex)v;
                        }
    free(x);
}

static void transform(const shape_t *s, bool f64, const char *what) {
    td_fft_desc_t d = describe(s, f64);
    uint64_t in_bytes = 0, out_bytes = (uint64_t)d.out_count * (f64 ? 8 : 4) * (d.kind == TD_FFT_REAL_INVERSE ? 1 : 2);
    void *in = numbers(&d, &in_bytes), *out = malloc(out_bytes + 1), *kept = malloc(in_bytes);
    symmetric(&d, in);
    memcpy(kept, in, in_bytes);
    memset(out, 0x55, out_bytes);
    op_buffer_t v[2] = {{.host = in, .bytes = in_bytes}, {.host = out, .bytes = out_bytes}};
    op_t o;
    ck_assert_msg(!op_lower(&o, gpu, TD_OP_FFT, &d), "%s: %s", what, err.text);
    op_up(v, 2);
    ck_assert_msg(!op_launch(&o, v, 2), "%s: %s", what, err.text);
    op_down(v, 2);
    op_free(v, 2);
    op_release(&o, gpu);
    ck_assert_msg(!memcmp(in, kept, in_bytes), "%s: the input was changed", what);
    int64_t n[3] = {1, 1, 1}, k[3], b[3] = {0}, most[3] = {1, 1, 1};
    for (uint32_t i = 0; i < d.rank; i++) n[i] = i == d.rank - 1 && d.kind == TD_FFT_REAL ? d.n[i] / 2 + 1 : d.n[i];
    for (uint32_t i = 0; i < d.n_batches; i++) most[i] = d.batch[i];
    for (b[0] = 0; b[0] < most[0]; b[0]++)
        for (b[1] = 0; b[1] < most[1]; b[1]++)
            for (b[2] = 0; b[2] < most[2]; b[2]++)
                for (k[0] = 0; k[0] < n[0]; k[0]++)
                    for (k[1] = 0; k[1] < n[1]; k[1]++)
                        for (k[2] = 0; k[2] < n[2]; k[2]++) {
                            int64_t at = 0, from = 0;
                            for (int i = 0; i < 3; i++)
                                at += k[i] * d.out_stride[i] + b[i] * d.out_batch[i], from += b[i] * d.in_batch[i];
                            double complex want = sum(&d, in, from, k),
                                           got = value(&d, out, at, d.kind == TD_FFT_REAL_INVERSE);
                            if (d.kind == TD_FFT_REAL_INVERSE) want = creal(want);
                            ck_assert_msg(cabs(want - got) < (f64 ? 1e-11 : 2e-5),
                                          "%s: element %lld is %g%+gi, not %g%+gi", what, (long long)at, creal(got),
                                          cimag(got), creal(want), cimag(want));
                        }
    free(in), free(out), free(kept);
}

static const shape_t shapes[] = {
    {TD_FFT_FORWARD, 1, {16}, {0}, false},         {TD_FFT_INVERSE, 1, {15}, {3}, false},
    {TD_FFT_REAL, 1, {12}, {2, 3}, false},         {TD_FFT_REAL, 1, {7}, {5}, false},
    {TD_FFT_REAL_INVERSE, 1, {10}, {4}, false},    {TD_FFT_REAL_INVERSE, 1, {9}, {2}, false},
    {TD_FFT_FORWARD, 2, {4, 6}, {3}, false},       {TD_FFT_INVERSE, 2, {5, 4}, {2}, false},
    {TD_FFT_REAL, 2, {4, 6}, {3}, false},          {TD_FFT_REAL_INVERSE, 2, {4, 6}, {3}, false},
    {TD_FFT_FORWARD, 3, {2, 3, 4}, {2}, false},    {TD_FFT_INVERSE, 3, {3, 2, 5}, {0}, false},
    {TD_FFT_REAL, 3, {2, 3, 4}, {2}, false},       {TD_FFT_REAL_INVERSE, 3, {3, 2, 6}, {2}, false},
    {TD_FFT_FORWARD, 1, {1}, {5}, false},          {TD_FFT_REAL, 2, {1, 4}, {2}, false},
    {TD_FFT_REAL, 2, {4, 1}, {2}, false},          {TD_FFT_FORWARD, 2, {1, 1}, {3}, false},
    {TD_FFT_FORWARD, 1, {8}, {3}, true},           {TD_FFT_REAL, 1, {8}, {3, 2}, true},
    {TD_FFT_REAL_INVERSE, 2, {4, 6}, {3}, true},   {TD_FFT_INVERSE, 2, {3, 5}, {2, 2}, true},
};
START_TEST(test_all_forms) {
    op_open();
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int f64 = 0; f64 < 2; f64++) {
            char what[40];
            snprintf(what, sizeof what, "form %zu of f%d", i, f64 ? 64 : 32);
            transform(&shapes[i], f64, what);
        }
    op_close();
}
END_TEST

/* Batches that no single stride describes: the rows and the columns of a block inside a larger array. */
START_TEST(test_loops) {
    td_fft_desc_t d = {.kind = TD_FFT_FORWARD, .rank = 1, .n_batches = 2, .n = {4}, .in_stride = {1}, .out_stride = {1},
                       .batch = {2, 3}, .in_batch = {20, 4}, .out_batch = {4, 8}, .in_count = 32, .out_count = 24};
    float complex in[40], out[24];
    for (int i = 0; i < 40; i++) in[i] = (float)(i % 7) - 3 + (float)(i % 5) * I;
    op_buffer_t v[2] = {{.host = in, .bytes = sizeof in}, {.host = out, .bytes = sizeof out}};
    op_t o;
    op_open();
    ck_assert_msg(!op_lower(&o, gpu, TD_OP_FFT, &d), "%s", err.text);
    op_up(v, 2);
    ck_assert_msg(!op_launch(&o, v, 2), "%s", err.text);
    op_down(v, 2);
    for (int64_t a = 0; a < 2; a++)
        for (int64_t b = 0; b < 3; b++)
            for (int64_t k = 0; k < 4; k++) {
                double complex want = sum(&d, in, 20 * a + 4 * b, (int64_t[]){k, 0, 0});
                ck_assert(cabs(want - (double complex)out[4 * a + 8 * b + k]) < 1e-5);
            }
    ck_assert_uint_eq(op_ask("fakecuda_calls", "cufftExecC2C"), 2);
    op_free(v, 2);
    op_release(&o, gpu);
    op_close();
}
END_TEST

START_TEST(test_empty_and_refused) {
    td_fft_desc_t none = describe(&(shape_t){TD_FFT_INVERSE, 1, {4}, {2}, false}, false);
    op_t o;
    op_buffer_t v[2] = {{0}, {0}};
    op_open();
    none.batch[0] = 0, none.in_count = none.out_count = 0;
    ck_assert_int_eq(op_lower(&o, gpu, TD_OP_FFT, &none), 0);
    ck_assert_uint_eq(o.scratch_bytes, 0);
    ck_assert_int_eq(op_launch(&o, v, 2), 0);
    op_release(&o, gpu);
    ck_assert_uint_eq(op_ask("fakecuda_calls", "cufftCreate"), 0);
    td_fft_desc_t large = none, crossed = describe(&(shape_t){TD_FFT_REAL, 2, {4, 6}, {0}, false}, false);
    large.in_count = 1ll << 41;
    ck_assert_int_eq(op_lower(&o, gpu, TD_OP_FFT, &large), TD_LIMIT);
    crossed.in_stride[0] = 1, crossed.in_stride[1] = 4; /* the halved axis is not the fastest */
    ck_assert_int_eq(op_lower(&o, gpu, TD_OP_FFT, &crossed), TD_UNSUPPORTED);
    ck_assert_msg(strstr(err.text, "not nested") != NULL, "%s", err.text);
    op_close();
}
END_TEST

/* Every call fails once, while loading or while launching, and the next try works. */
START_TEST(test_failures) {
    static const struct { const char *call; bool early; } calls[] = {
        {"cufftCreate", true}, {"cufftSetAutoAllocation", true}, {"cufftMakePlanMany64", true},
        {"cufftSetStream", false}, {"cufftSetWorkArea", false}, {"cufftExecZ2D", false}};
    td_fft_desc_t d = describe(&(shape_t){TD_FFT_REAL_INVERSE, 1, {8}, {2}, false}, true);
    double in[20] = {1}, out[16];
    op_buffer_t v[2] = {{.host = in, .bytes = sizeof in}, {.host = out, .bytes = sizeof out}};
    char fail[64];
    op_t o;
    snprintf(fail, sizeof fail, "%s:1:2", calls[_i].call); /* CUFFT_ALLOC_FAILED */
    setenv("FAKECUDA_FAIL", fail, 1);
    op_open();
    td_status_t st = op_lower(&o, gpu, TD_OP_FFT, &d);
    ck_assert_msg(st == (calls[_i].early ? TD_NOMEM : TD_OK), "%s: %s", fail, err.text);
    if (st) ck_assert_msg(strstr(err.text, calls[_i].call) && strstr(err.text, "CUFFT_ALLOC_FAILED"), "%s", err.text);
    if (st) ck_assert_msg(!op_lower(&o, gpu, TD_OP_FFT, &d), "%s", err.text);
    op_up(v, 2);
    if (!calls[_i].early) ck_assert_int_eq(op_launch(&o, v, 2), TD_NOMEM);
    ck_assert_msg(!op_launch(&o, v, 2), "%s", err.text);
    op_down(v, 2);
    ck_assert(fabs(out[0] - 0.125) < 1e-12);
    op_free(v, 2);
    op_release(&o, gpu);
    op_close();
}
END_TEST

/* What the stand-in sees: scratch that is too small, arrays that overlap, a stream that does not wait. */
START_TEST(test_planted) {
    td_fft_desc_t d = describe(&(shape_t){TD_FFT_FORWARD, 1, {64}, {4096}, false}, true);
    uint64_t bytes = (uint64_t)d.in_count * 16;
    double *data = calloc(1, bytes);
    op_buffer_t v[2] = {{.host = data, .bytes = bytes}, {.host = data, .bytes = bytes}};
    op_t o;
    td_stream_t *other = NULL;
    void *bufs[2];
    op_open();
    ck_assert_int_eq(op_lower(&o, gpu, TD_OP_FFT, &d), 0);
    op_up(v, 2);
    bufs[0] = bufs[1] = v[0].device;
    ck_assert_int_eq(gpu->ops->launch(stream, o.kernel, bufs, 2, o.scratch, &err), TD_MISMATCH);
    ck_assert_msg(strstr(err.text, "share memory") != NULL, "%s", err.text);
    bufs[1] = v[1].device;
    ck_assert_int_eq(gpu->ops->stream_create(gpu, TD_STREAM_COMPUTE, &other, &err), 0);
    ck_assert_int_eq(gpu->ops->launch(stream, o.kernel, bufs, 2, o.scratch, &err), 0);
    ck_assert_int_eq(gpu->ops->launch(other, o.kernel, bufs, 2, o.scratch, &err), 0); /* same output, same scratch */
    ck_assert_int_eq(gpu->ops->stream_sync(other, &err), 0);
    ck_assert_int_eq(gpu->ops->stream_sync(stream, &err), 0);
    op_expect("race", "cufftExecZ2Z");
    gpu->ops->stream_destroy(other);
    char *tail = (char *)o.scratch + o.scratch_bytes - 256; /* of an allocation of its own, as it is large */
    ck_assert_int_ne(gpu->ops->launch(stream, o.kernel, bufs, 2, tail, &err), 0);
    op_expect("out-of-bounds", "cufftExecZ2Z");
    (void)gpu->ops->stream_sync(stream, &err);
    free(data);
    _exit(0); /* the context is lost */
}
END_TEST

int main(void) {
    Suite *s = suite_create("cuda_fft");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, NULL);
    tcase_add_test(t, test_all_forms);
    tcase_add_test(t, test_loops);
    tcase_add_test(t, test_empty_and_refused);
    tcase_add_loop_test(t, test_failures, 0, 6);
    tcase_add_test(t, test_planted);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
