/* SPDX-License-Identifier: Apache-2.0 */
/* What td_module_need says, against what programs then take: the golden executables, and all of THUNKD_CORPUS when it
 * is set. An artifact opened for its headers gives the same answer. */
#include <check.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/module.h"
#include "runtime/need.h"

enum { SLACK = 1 << 20 };
static td_counting_alloc_t heap; /* of programs, bindings and the device: what is really taken */
static td_payload_table_t *table;
static td_device_t *dev;
static uint64_t on_device;

static bool take(void *ctx, uint64_t bytes) {
    (void)ctx;
    on_device += bytes;
    return true;
}
static void give(void *ctx, uint64_t bytes) {
    (void)ctx;
    on_device -= bytes;
}
static const td_charge_t charge = {take, give, NULL};

static unsigned n_programs, n_below, n_above, n_program_below;

static void open_device(const char *options) {
    td_err_t err = {0};
    td_counting_alloc_init(&heap, td_alloc_default());
    n_programs = n_below = n_above = n_program_below = 0;
    ck_assert(!td_payload_table_create(td_alloc_default(), &table, &err));
    ck_assert_msg(!td_host_device_open(options, &heap.base, &dev, &err), "%s", err.text);
}
static void close_device(void) {
    td_device_destroy(dev);
    td_payload_table_destroy(table);
    ck_assert_uint_eq(heap.live_bytes, 0);
}

static td_status_t need_of(const char *path, bool headers, td_need_t *out) {
    td_artifact_opts_t o = {.table = table, .alloc = td_alloc_default(), .headers_only = headers};
    td_err_t err = {0};
    td_artifact_t *a = NULL;
    td_module_t *m = NULL;
    td_status_t st = td_artifact_open_path(path, &o, &a, &err);
    if (!st) st = td_module_open(a, td_alloc_default(), &m, &err);
    if (!st) st = td_module_need(m, dev, out, &err);
    td_module_close(m);
    td_artifact_close(a);
    return st;
}

/* Makes the program and one binding and compares. */
static void compare(const char *path, const td_need_t *n) {
    td_err_t err = {0};
    td_artifact_t *a = NULL;
    td_module_t *m = NULL;
    td_program_t *p = NULL;
    td_binding_t *b = NULL;
    unsigned long long before = heap.live_bytes;
    ck_assert(!td_artifact_open_file(path, table, td_alloc_default(), &a, &err));
    ck_assert(!td_module_open(a, td_alloc_default(), &m, &err));
    td_program_opts_t o = {.dev = dev, .alloc = &heap.base, .charge = &charge};
    td_status_t st = td_program_create(m, &o, &p, &err);
    td_module_close(m);
    td_artifact_close(a);
    if (st) return; /* not for this device */
    uint64_t constants = td_program_constant_bytes(p), copies = dev->host_memory ? 0 : constants;
    uint64_t program = heap.live_bytes - before - copies;
    ck_assert_uint_eq(n->constant_bytes, constants);
    ck_assert_uint_ge(n->program_device_bytes, on_device - copies);
    ck_assert_msg(!td_binding_create(p, &heap.base, &b, &err), "%s", err.text);
    uint64_t binding = heap.live_bytes - before - copies - program;
    ck_assert_uint_ge(n->binding_bytes, n->binding_device_bytes);
    uint64_t sum = n->constant_bytes + n->program_bytes + n->binding_bytes, is = constants + program + binding;
    n_programs++;
    n_program_below += n->program_bytes < program * 4 / 5;
    if (sum < is) {
        n_below++;
        printf("%s: takes %llu bytes, need was %llu\n", path, (unsigned long long)is, (unsigned long long)sum);
    }
    if (sum > 2 * is + SLACK) {
        n_above++;
        printf("%s: takes only %llu bytes, need was %llu\n", path, (unsigned long long)is, (unsigned long long)sum);
    }
    td_binding_destroy(b);
    td_program_destroy(p);
    ck_assert_uint_eq(on_device, 0);
}

static void each(const char *pattern, unsigned stride) {
    glob_t g;
    ck_assert_int_eq(glob(pattern, 0, NULL, &g), 0);
    for (size_t i = 0; i < g.gl_pathc; i += stride) {
        td_need_t full, headers;
        td_status_t st = need_of(g.gl_pathv[i], false, &full);
        ck_assert_int_eq(need_of(g.gl_pathv[i], true, &headers), st);
        if (st) continue;
        ck_assert_msg(!memcmp(&full, &headers, sizeof full), "%s", g.gl_pathv[i]);
        compare(g.gl_pathv[i], &full);
    }
    globfree(&g);
}
static void judge(unsigned at_least) {
    ck_assert_uint_ge(n_programs, at_least);
    ck_assert_uint_eq(n_program_below, 0);
    ck_assert_uint_le(20 * n_below, n_programs);
    ck_assert_uint_le(20 * n_above, n_programs);
}

START_TEST(goldens) {
    open_device(_i ? "delay=1" : "");
    each("tests/golden/executables/h100_sxm/*/*/executable.aot", _i ? 5 : 1);
    judge(_i ? 8 : 40);
    close_device();
}
END_TEST

START_TEST(corpus) {
    char pattern[512];
    const char *root = getenv("THUNKD_CORPUS");
    if (!root) return;
    open_device(_i ? "delay=1" : "");
    snprintf(pattern, sizeof pattern, "%s/*/*/*.aot", root);
    each(pattern, _i ? 7 : 1);
    judge(20);
    close_device();
}
END_TEST

/* By hand: the sample's four weights and one input in place, nothing constant, f32 in and out. */
START_TEST(exact_parts) {
    td_need_t n, d;
    open_device("");
    ck_assert(!need_of("samples/store/digits/1/h100_sxm.aot", false, &n));
    close_device();
    open_device("delay=1");
    ck_assert(!need_of("samples/store/digits/1/h100_sxm.aot", false, &d));
    close_device();
    ck_assert_uint_eq(n.constant_bytes, 0);
    ck_assert_uint_eq(n.input_bytes, d.input_bytes);
    ck_assert_uint_eq(n.output_bytes, d.output_bytes);
    /* With memory of its own the device has the inputs in the block (in 256-byte steps), and outputs are downloaded. */
    ck_assert_uint_ge(d.binding_device_bytes, n.binding_device_bytes + n.input_bytes);
    ck_assert_uint_ge(d.binding_bytes - d.binding_device_bytes,
                      n.binding_bytes - n.binding_device_bytes + n.output_bytes);
}
END_TEST

START_TEST(states_take_no_block) {
    td_err_t err = {0};
    td_artifact_t *a = NULL;
    td_module_t *m = NULL;
    td_need_t all, less;
    bool states[64] = {true};
    open_device("delay=1");
    ck_assert(!td_artifact_open_file("samples/store/digits/1/h100_sxm.aot", table, td_alloc_default(), &a, &err));
    ck_assert(!td_module_open(a, td_alloc_default(), &m, &err));
    ck_assert(!td_module_need(m, dev, &all, &err));
    ck_assert(!td_module_need_states(m, dev, states, &less, &err));
    uint64_t in = td_io_host_bytes(m->inputs[0].shape);
    ck_assert_uint_ge(all.binding_device_bytes - less.binding_device_bytes, in);
    ck_assert_uint_le(all.binding_device_bytes - less.binding_device_bytes, in + 512);
    td_module_close(m);
    td_artifact_close(a);
    close_device();
}
END_TEST

START_TEST(no_program_from_headers) {
    td_err_t err = {0};
    td_artifact_t *a = NULL;
    td_module_t *m = NULL;
    td_program_t *p = NULL;
    open_device("");
    td_artifact_opts_t o = {.table = table, .alloc = td_alloc_default(), .headers_only = true};
    ck_assert(!td_artifact_open_path("samples/store/digits/1/h100_sxm.aot", &o, &a, &err));
    ck_assert(!td_module_open(a, td_alloc_default(), &m, &err));
    ck_assert_int_eq(td_program_create(m, &(td_program_opts_t){.dev = dev}, &p, &err), TD_USAGE);
    ck_assert_msg(strstr(err.text, "headers") != NULL, "%s", err.text);
    td_module_close(m);
    td_artifact_close(a);
    close_device();
}
END_TEST

int main(void) {
    if (!getenv("THUNKD_CORPUS")) puts("THUNKD_CORPUS is not set: needs of the corpus are not compared");
    Suite *s = suite_create("need");
    TCase *c = tcase_create("need");
    tcase_set_timeout(c, 300);
    tcase_add_loop_test(c, goldens, 0, 2);
    tcase_add_loop_test(c, corpus, 0, 2);
    tcase_add_test(c, exact_parts);
    tcase_add_test(c, states_take_no_block);
    tcase_add_test(c, no_program_from_headers);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
