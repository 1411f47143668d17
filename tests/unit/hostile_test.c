/* SPDX-License-Identifier: Apache-2.0 */
/* Damaged artifacts: every prefix cut at each 97th byte and 2,000 single-byte flips
 * must end in an error or in a program that verifies; never in a crash, a hang or a
 * leak, and within a bounded amount of memory. Needs THUNKD_CORPUS. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "proto/artifact.h"
#include "runtime/program.h"

static const char *const samples[] = {
    "saxpy/0.10.1/h100_sxm.aot",         "saxpy/0.11.0/h100_sxm.ifrt", "saxpy/0.12.0.1/h100_sxm.jax-pickle",
    "while_newton/0.12.0.1/h100_sxm.aot", "switch_branches/0.10.2/h100_sxm.aot", "mlp_constants/0.11.2/h100_sxm.aot",
};
enum { N_SAMPLES = sizeof samples / sizeof *samples, FLIPS = 2000, STEP = 97 };
static const unsigned long long MEMORY_MAX = 1ull << 30;

static td_counting_alloc_t counter;
static td_payload_table_t *table;
static td_device_t *device;

static unsigned char *slurp(const char *name, size_t *size) {
    const char *root = getenv("THUNKD_CORPUS");
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", root, name);
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    unsigned char *p = malloc(*size + 1);
    ck_assert_uint_eq(fread(p, 1, *size, f), *size);
    fclose(f);
    return p;
}

/* Loads as far as the bytes allow; the copy is exact, so that a sanitizer sees an over-read. */
static td_status_t load(const unsigned char *data, size_t size) {
    unsigned char *copy = malloc(size ? size : 1);
    memcpy(copy, data, size);
    td_err_t err = {0};
    td_artifact_t *a = NULL;
    td_module_t *m = NULL;
    td_program_t *p = NULL;
    td_status_t s = td_artifact_open((td_span_t){copy, size}, table, &counter.base, &a, &err);
    free(copy);
    if (s == TD_OK) s = td_module_open(a, &counter.base, &m, &err);
    if (s == TD_OK && device) s = td_program_create(m, &(td_program_opts_t){.dev = device, .alloc = &counter.base}, &p, &err);
    if (s != TD_OK) ck_assert_msg(err.text[0] != '\0', "an error without a text, code %d", (int)s);
    td_program_destroy(p);
    td_module_close(m);
    td_artifact_close(a);
    return s;
}

static void setup(void) {
    td_err_t err = {0};
    td_counting_alloc_init(&counter, td_alloc_default());
    ck_assert_int_eq(td_payload_table_create(&counter.base, &table, &err), TD_OK);
    if (td_host_device_create(td_alloc_default(), &device, &err) != TD_OK) device = NULL;
}
static void teardown(void) {
    td_payload_table_destroy(table);
    ck_assert_uint_eq(counter.live_bytes, 0);
    ck_assert_uint_lt(counter.peak_bytes, MEMORY_MAX);
    td_device_destroy(device);
}

START_TEST(intact_loads) {
    size_t n = 0;
    unsigned char *p = slurp(samples[_i], &n);
    if (!p) return;
    ck_assert_int_eq(load(p, n), TD_OK);
    free(p);
}
END_TEST

START_TEST(prefixes_are_refused) {
    size_t n = 0;
    unsigned char *p = slurp(samples[_i], &n);
    if (!p) return;
    for (size_t cut = 0; cut < n; cut += STEP) {
        td_status_t s = load(p, cut);
        /* A pickle's last opcodes, and nothing else, may be missing without loss. */
        ck_assert_msg(s != TD_OK || n - cut < 4096, "%s cut to %zu of %zu bytes loads", samples[_i], cut, n);
    }
    free(p);
}
END_TEST

START_TEST(flips_do_no_harm) {
    size_t n = 0;
    unsigned char *p = slurp(samples[_i], &n);
    if (!p) return;
    uint64_t x = 88172645463325252ull + (uint64_t)_i;
    for (int k = 0; k < FLIPS; k++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        size_t at = (size_t)(x % n);
        unsigned char bit = (unsigned char)(1u << (x >> 61));
        p[at] ^= bit;
        (void)load(p, n);
        p[at] ^= bit;
    }
    free(p);
}
END_TEST

int main(void) {
    if (!getenv("THUNKD_CORPUS")) puts("THUNKD_CORPUS is unset: damaged-artifact tests skipped");
    TCase *t = tcase_create("hostile");
    tcase_set_timeout(t, 300);
    tcase_add_checked_fixture(t, setup, teardown);
    if (getenv("THUNKD_CORPUS")) {
        tcase_add_loop_test(t, intact_loads, 0, N_SAMPLES);
        tcase_add_loop_test(t, prefixes_are_refused, 0, N_SAMPLES);
        tcase_add_loop_test(t, flips_do_no_harm, 0, N_SAMPLES);
    }
    Suite *s = suite_create("hostile");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
