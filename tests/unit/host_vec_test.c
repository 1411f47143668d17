/* SPDX-License-Identifier: Apache-2.0 */
/* Vector functions of each instruction set that the machine has, at every length around their widths, and the
 * strided copies made of them. */
#include "runtime/host/macro_ops.h"
#include "runtime/host/pool.h"
#include "runtime/host/vec.h"
#include "tests/unit/kernel_run.h"

static const char *const sets[] = {"base", "v3", "v4"};
enum { MOST = 1024, GUARD = 4 };

START_TEST(transposed_blocks) {
    static const uint32_t sizes[] = {2, 4, 8};
    static const int64_t gaps[] = {0, 8, 24, -1}; /* bytes between rows; -1: rows go backwards */
    if (!td_vec_use(sets[_i])) return;
    for (int k = 0; k < 3; k++)
        for (int a = 0; a < 4; a++)
            for (int b = 0; b < 3; b++) {
                uint32_t n = sizes[k];
                int64_t ss = gaps[a] < 0 ? -(int64_t)(8 * n) : 8 * n + gaps[a], ds = 8 * n + gaps[b];
                uint8_t src[8 * 88], dst[8 * 88 + 1];
                for (size_t i = 0; i < sizeof src; i++) src[i] = (uint8_t)(i * 7 + i / 256);
                memset(dst, 0xee, sizeof dst);
                const uint8_t *from = ss < 0 ? src + 7 * 8 * n : src;
                td_vec()->transpose8(n, (const char *)from, ss, (char *)dst, ds);
                for (int64_t i = 0; i < 8; i++)
                    for (int64_t j = 0; j < 8; j++) ck_assert_mem_eq(dst + i * ds + j * n, from + j * ss + i * n, n);
                for (int64_t i = 0; i < 8; i++)
                    for (int64_t j = 8 * n; i < 7 && j < ds; j++) ck_assert_uint_eq(dst[i * ds + j], 0xee);
                ck_assert_uint_eq(dst[7 * ds + 8 * n], 0xee);
            }
}
END_TEST

/* Copies of 2 to 4 dimensions in random orders; source strides of any sign, and zero. */
START_TEST(strided_copies) {
    static const uint32_t sizes[] = {1, 2, 4, 8, 16};
    uint64_t seed = 9 + (uint64_t)_i;
    if (!td_vec_use(sets[_i])) return;
    for (int round = 0; round < 500; round++) {
        uint32_t size = sizes[dice(&seed, 5)], rank = 2 + (uint32_t)dice(&seed, 3),
                 order[2][4] = {{0, 1, 2, 3}, {0, 1, 2, 3}};
        int64_t dims[4], stride[2][4], total = 1, low = 0, high = 0, span[2] = {1, 1};
        for (uint32_t i = 0; i < rank; i++)
            dims[i] = 1 + dice(&seed, rank == 2 ? 40 : rank == 3 ? 17 : 9), total *= dims[i];
        for (int side = 0; side < 2; side++) {
            for (uint32_t i = rank; i > 1; i--) {
                uint32_t j = (uint32_t)dice(&seed, i), swap = order[side][i - 1];
                order[side][i - 1] = order[side][j], order[side][j] = swap;
            }
            for (uint32_t i = 0; i < rank; i++) {
                uint32_t d = order[side][i];
                int64_t step = span[side] + (dice(&seed, 6) ? 0 : dice(&seed, 3));
                stride[side][d] = step;
                span[side] = step * dims[d];
            }
        }
        for (uint32_t i = 0; i < rank; i++) { /* 0: destination, 1: source */
            int64_t kind = dice(&seed, 8);
            if (kind == 0) stride[1][i] = 0;
            if (kind == 1) stride[1][i] = -stride[1][i];
            if (stride[1][i] < 0) low += stride[1][i] * (dims[i] - 1);
            else high += stride[1][i] * (dims[i] - 1);
        }
        size_t bytes = (size_t)(high - low + 1) * size, out = (size_t)span[0] * size;
        uint8_t *src = malloc(bytes), *dst = malloc(out), *want = malloc(out), *origin = src - low * (int64_t)size;
        for (size_t i = 0; i < bytes; i++) src[i] = (uint8_t)dice(&seed, 256);
        memset(dst, 0xcc, out), memset(want, 0xcc, out);
        for (int64_t i = 0; i < total; i++) {
            int64_t rest = i, to = 0, from = 0;
            for (uint32_t d = 0; d < rank; d++)
                to += rest % dims[d] * stride[0][d], from += rest % dims[d] * stride[1][d], rest /= dims[d];
            memcpy(want + to * size, origin + from * (int64_t)size, size);
        }
        td_strided_t p;
        td_strided_plan(&p, size, rank, dims, stride[0], stride[1]);
        td_strided_copy(&p, dst, origin);
        ck_assert_msg(!memcmp(dst, want, out), "size %u rank %u dims %d %d %d %d", size, rank, (int)dims[0],
                      (int)dims[1], rank > 2 ? (int)dims[2] : 0, rank > 3 ? (int)dims[3] : 0);
        free(src), free(dst), free(want);
    }
}
END_TEST

/* Large enough for several cores: transpositions and copies of rows. */
START_TEST(parallel_copies) {
    static const int64_t dims[][3] = {{301, 1, 517}, {1030, 1, 263}, {37, 65, 129}, {3, 333, 301}};
    for (int k = 0; k < 4; k++)
        for (uint32_t size = 1; size <= 8; size *= 2)
            for (int form = 0; form < 3; form++) {
                td_host_set_threads(form == 1 ? 5 : 2);
                const int64_t *n = dims[k], src[3] = {1, n[0], n[0] * n[1]},
                              dst[2][3] = {{n[1] * n[2], n[2], 1}, {n[2], n[0] * n[2], 1}};
                size_t total = (size_t)(n[0] * n[1] * n[2]);
                uint8_t *a = malloc(total * size), *b = malloc(total * size);
                uint64_t seed = 4;
                for (size_t i = 0; i < total * size; i++) a[i] = (uint8_t)dice(&seed, 256);
                td_strided_t p;
                td_strided_plan(&p, size, 3, n, dst[form & 1], src);
                td_strided_copy(&p, b, a);
                for (int64_t i = 0; i < (int64_t)total; i++) {
                    int64_t x = i % n[0], y = i / n[0] % n[1], z = i / n[0] / n[1];
                    const int64_t *d = dst[form & 1];
                    ck_assert(!memcmp(a + i * size, b + (x * d[0] + y * d[1] + z * d[2]) * size, size));
                }
                free(a), free(b);
            }
}
END_TEST

static void near(double got, double want, double size, const char *what, size_t n) {
    ck_assert_msg(fabs(got - want) <= 1e-6 * (1 + size), "%s of %zu: %.9g, not %.9g", what, n, got, want);
}
START_TEST(sums) {
    float x[MOST], y[MOST];
    uint16_t h[MOST];
    if (!td_vec_use(sets[_i])) return;
    const td_vec_t *v = td_vec();
    uint64_t seed = 8;
    for (size_t i = 0; i < MOST; i++)
        x[i] = (float)(dice(&seed, 2001) - 1000) / 512, y[i] = (float)(dice(&seed, 2001) - 1000) / 512;
    td_convert_array(TD_F32, y, TD_BF16, h, MOST);
    for (size_t n = 0; n <= MOST; n += n < 300 ? 1 : 181) {
        /* memory of exactly n elements, at odd places too */
        float *a = malloc(4 * n + 4 * (n & 1) + (n == 0)), *b = malloc(4 * n + 4 * (n & 1) + (n == 0)),
              *p = a + (n & 1), *q = b + (n & 1);
        uint16_t *c = malloc(2 * n + 2 * (n & 1) + (n == 0)), *r = c + (n & 1);
        memcpy(p, x, 4 * n), memcpy(q, y, 4 * n), memcpy(r, h, 2 * n);
        double sum = 0, dot = 0, half = 0, rounded = 0, size = 0, max = n ? (double)x[0] : 0;
        for (size_t i = 0; i < n; i++) {
            double t = number(TD_BF16, h, i), e = (double)x[i] * t;
            uint16_t one = td_bf16_from_f32((float)e);
            sum += (double)x[i], dot += (double)x[i] * (double)y[i], half += e, rounded += number(TD_BF16, &one, 0);
            size += fabs((double)x[i]) * 2, max = fmax(max, (double)x[i]);
        }
        near((double)v->sum(p, n), sum, size, "sum", n);
        near((double)v->dot(p, q, n), dot, size, "dot", n);
        near((double)v->dot_bf16(p, r, n), half, size, "dot_bf16", n);
        near((double)v->dot_bf16_rounded(p, r, n), rounded, size, "dot_bf16_rounded", n);
        if (n) ck_assert((double)v->max(p, n) == max);
        for (size_t i = 0; i < n; i += 1 + n / 9) { /* NaN at any place; a sum of zeros keeps its sign */
            p[i] = NAN;
            ck_assert(isnan(v->max(p, n)) && isnan(v->sum(p, n)));
            p[i] = x[i];
        }
        for (size_t i = 0; i < n; i++) p[i] = -0.0f;
        ck_assert(v->sum(p, n) == 0 && signbit(v->sum(p, n)));
        free(a), free(b), free(c);
    }
}
END_TEST

START_TEST(additions) {
    float x[MOST], y[MOST + GUARD], d[MOST + GUARD];
    double w[MOST + GUARD];
    uint16_t h[MOST];
    if (!td_vec_use(sets[_i])) return;
    const td_vec_t *v = td_vec();
    uint64_t seed = 6;
    for (size_t i = 0; i < MOST; i++) x[i] = (float)(dice(&seed, 2001) - 1000) / 512;
    td_convert_array(TD_F32, x, TD_BF16, h, MOST);
    for (size_t n = 0; n <= MOST; n += n < 140 ? 1 : 221) {
        for (size_t i = 0; i < MOST + GUARD; i++) y[i] = (float)i / 64, w[i] = (double)i / 64;
        v->add_wide(x, w, n);
        for (size_t i = 0; i < MOST + GUARD; i++) ck_assert(w[i] == (double)i / 64 + (i < n ? (double)x[i] : 0));
        for (int kind = 0; kind < 3; kind++) {
            memcpy(d, y, sizeof d);
            if (kind == 0) v->axpy(0.3f, x, d, n);
            if (kind == 1) v->axpy_bf16(0.3f, h, d, n);
            if (kind == 2) v->axpy_bf16_rounded(0.3f, h, d, n);
            for (size_t i = 0; i < MOST + GUARD; i++) {
                double t = i >= n ? 0 : (double)0.3f * (kind ? number(TD_BF16, h, i) : (double)x[i]);
                uint16_t one = td_bf16_from_f32((float)t);
                if (kind == 2) t = number(TD_BF16, &one, 0);
                if (i >= n) ck_assert(d[i] == y[i]);
                else near((double)d[i], (double)y[i] + t, 4, "axpy", n);
            }
        }
    }
}
END_TEST

int main(void) {
    TCase *t = tcase_create("host_vec");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, transposed_blocks, 0, 3);
    tcase_add_loop_test(t, strided_copies, 0, 3);
    tcase_add_test(t, parallel_copies);
    tcase_add_loop_test(t, sums, 0, 3);
    tcase_add_loop_test(t, additions, 0, 3);
    Suite *s = suite_create("host_vec");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
