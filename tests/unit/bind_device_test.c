/* SPDX-License-Identifier: Apache-2.0 */
/* Bound inputs on devices with memory of their own: uploaded once, whatever their stored form; found again by content;
 * no upload in runs. A built program on the host device with delayed streams, where uploads are counted and made to
 * fail; an artifact on the CUDA device with the stand-in driver. */
#include <dlfcn.h>
#include <unistd.h>

#include "runtime/need.h"
#include "runtime/program_in.h"
#include "tests/unit/scheduled_build.h"

enum { N = 6, PARAMS = 5 };
static const float w[N] = {1, 2, 3, 4, 5, 6}, v[N] = {0.5f, -1, 7, 8, -9, 0.25f}, d[N] = {10, 20, 30, 40, 50, 60};
static const int8_t q[N] = {-8, 7, 0, -1, 3, 5};
static const bool all_fixed[PARAMS] = {false, true, true, true, true};

static td_counting_alloc_t counter;
static td_device_t *dev;
static td_device_ops_t counted;
static const td_device_ops_t *real;
static td_constants_t *constants;
static uint64_t taken, limit, uploads, upload_bytes, fail_at;
static td_err_t err;

static bool take(void *ctx, uint64_t n) {
    (void)ctx;
    if (n > limit - taken) return false;
    taken += n;
    return true;
}
static void give(void *ctx, uint64_t n) {
    (void)ctx;
    ck_assert_uint_ge(taken, n);
    taken -= n;
}
static const td_charge_t charge = {take, give, NULL};

static td_status_t upload(td_stream_t *s, void *dst, const void *host, uint64_t bytes, td_err_t *e) {
    uploads++, upload_bytes += bytes;
    if (uploads == fail_at) return td_fail(e, TD_DEVICE, "planted: upload %llu", (unsigned long long)uploads);
    return real->upload(s, dst, host, bytes, e);
}

/* x, w plain; v column-major; q packed; d overwritten by the first result.
 * (d + x, x * w, row-major v, q as s32) */
static void build(void) {
    build_setup();
    begin("entry", false);
    instr_t *px = parameter(F32(2, 3)), *pw = parameter(F32(2, 3)), *pv = parameter(LAYOUT(F32(2, 3), 0, 1));
    instr_t *pq = parameter(ARRAY(TD_S4, 2, 3)), *pd = parameter(F32(2, 3));
    instr_t *a = OP("add", F32(2, 3), pd, px), *b = OP("multiply", F32(2, 3), px, pw);
    instr_t *c = OP("copy", F32(2, 3), pv), *e = OP("convert", S32(2, 3), pq);
    same_place(a, 0, pd, 0);
    OP("tuple", TUPLE(F32(2, 3), F32(2, 3), F32(2, 3), S32(2, 3)), a, b, c, e);
    finish();
}

static void setup(void) {
    td_counting_alloc_init(&counter, td_alloc_default());
    ck_assert_msg(!td_host_device_open("delay=3", &counter.base, &dev, &err), "%s", err.text);
    real = dev->ops;
    counted = *real;
    counted.upload = upload;
    dev->ops = &counted;
    taken = uploads = upload_bytes = fail_at = 0;
    limit = UINT64_MAX;
    ck_assert(!td_constants_create(dev, NULL, &counter.base, &charge, &constants, &err));
    build();
}
static void teardown(void) {
    uint64_t n = 1;
    td_constants_stats(constants, &n, NULL);
    ck_assert_uint_eq(n, 0);
    ck_assert_uint_eq(taken, 0);
    td_constants_destroy(constants);
    td_device_destroy(dev);
    build_teardown();
    ck_assert_uint_eq(counter.live_bytes, 0);
}

static td_program_t *create(void) {
    td_module_t *m = NULL;
    td_program_t *p = NULL;
    ck_assert_msg(!td_module_open(&artifact, td_alloc_default(), &m, &err), "%s", err.text);
    const td_program_opts_t o = {.dev = dev, .alloc = &counter.base, .constants = constants};
    ck_assert_msg(!td_program_create(m, &o, &p, &err), "%s", err.text);
    td_module_close(m);
    return p;
}
/* The weights' memory is another thing afterwards. */
static td_status_t bind(td_program_t *p, const float *pd) {
    uint8_t memory[PARAMS][32];
    const void *in[PARAMS] = {NULL, memory[1], memory[2] + 3, memory[3], memory[4]}; /* one lies anyhow */
    memcpy(memory[1], w, sizeof w), memcpy(memory[2] + 3, v, sizeof v), memcpy(memory[3], q, sizeof q);
    memcpy(memory[4], pd, sizeof d);
    td_status_t st = td_program_bind(p, in, all_fixed, &err);
    memset(memory, 0xee, sizeof memory);
    return st;
}
static void check_run(td_binding_t *b, float x0) {
    float x[N];
    const void *in[PARAMS] = {x}, *out[4];
    for (int i = 0; i < N; i++) x[i] = x0 + (float)i;
    ck_assert_msg(!td_program_run(b, in, out, NULL, &err), "%s", err.text);
    for (int i = 0; i < N; i++) {
        ck_assert(((const float *)out[0])[i] == d[i] + x[i]);
        ck_assert(((const float *)out[1])[i] == x[i] * w[i]);
        ck_assert(((const float *)out[2])[i] == v[i]);
        ck_assert_int_eq(((const int32_t *)out[3])[i], q[i]);
    }
}

START_TEST(uploaded_once) {
    td_program_t *p = create();
    td_binding_t *b[2] = {NULL};
    uint64_t before = td_program_binding_bytes(p), count, bytes;
    ck_assert_msg(!bind(p, d), "%s", err.text);
    ck_assert_uint_eq(uploads, 4);
    ck_assert_uint_eq(upload_bytes, 24 + 24 + 3 + 24); /* the packed one takes half a byte each */
    td_constants_stats(constants, &count, &bytes);
    ck_assert_uint_eq(count, 4);
    ck_assert_uint_eq(bytes, 75);
    ck_assert_uint_eq(taken, 75);
    ck_assert_uint_eq(td_program_constant_bytes(p), 75);
    /* blocks of w, v and q; what v and q take on their way */
    ck_assert_uint_ge(before - td_program_binding_bytes(p), 3 * 256 + 2 * 64);
    for (int k = 0; k < 2; k++) ck_assert(!td_binding_create(p, &counter.base, &b[k], &err));
    uploads = 0;
    unsigned long long gets = counter.gets;
    for (int k = 0; k < 6; k++) check_run(b[k % 2], (float)k); /* d is as it was, though the program writes over it */
    ck_assert_uint_eq(uploads, 6);
    ck_assert_uint_eq(counter.gets, gets);
    for (int k = 0; k < 2; k++) td_binding_destroy(b[k]);
    td_program_destroy(p);
}
END_TEST

START_TEST(found_by_content) {
    td_program_t *p[3];
    td_binding_t *b = NULL;
    uint64_t count;
    for (int k = 0; k < 3; k++) {
        p[k] = create();
        ck_assert_msg(!bind(p[k], k < 2 ? d : w), "%s", err.text);
        td_constants_stats(constants, &count, NULL);
        ck_assert_uint_eq(count, 4); /* the third has w twice, and no d */
    }
    uint32_t n, m;
    const td_constant_t *x = td_program_constants(p[0], &n), *y = td_program_constants(p[1], &m);
    ck_assert_uint_eq(n, 4);
    ck_assert_uint_eq(m, 4);
    for (uint32_t i = 0; i < n; i++) ck_assert(x[i].what == y[i].what && x[i].memory == y[i].memory);
    td_program_destroy(p[2]);
    td_program_destroy(p[0]);
    ck_assert(!td_binding_create(p[1], &counter.base, &b, &err));
    check_run(b, 3);
    td_binding_destroy(b);
    td_program_destroy(p[1]);
}
END_TEST

START_TEST(told_before) {
    td_module_t *m = NULL;
    td_need_t need;
    uint64_t device = 0, host = 0, sum = 0;
    ck_assert(!td_module_open(&artifact, td_alloc_default(), &m, &err));
    ck_assert(!td_module_need(m, dev, &need, &err));
    for (uint32_t i = 0; i < PARAMS; i++) {
        td_bind_need_t n = td_module_bind_need(m, dev, i);
        if (all_fixed[i]) device += n.spared_device_bytes, host += n.spared_bytes, sum += n.constant_bytes;
        ck_assert_uint_eq(n.convert_bytes, i == 2 ? 24 : i == 3 ? 3 : 0);
    }
    ck_assert_uint_eq(sum, 75);
    td_program_t *p = create();
    uint64_t before = td_program_binding_bytes(p);
    ck_assert(!bind(p, d));
    ck_assert_uint_eq(before - td_program_binding_bytes(p), device + host);
    ck_assert_uint_le(td_program_binding_bytes(p), need.binding_bytes - device - host);
    td_program_destroy(p);
    td_module_close(m);
}
END_TEST

START_TEST(refused) {
    td_program_t *p = create();
    ck_assert_int_eq(td_program_bind(p, (const void *[PARAMS]){NULL}, all_fixed, &err), TD_USAGE);
    ck_assert_msg(strstr(err.text, "input 1 (") && strstr(err.text, "is missing"), "%s", err.text);
    ck_assert(!bind(p, d));
    ck_assert_int_eq(bind(p, d), TD_USAGE);
    td_program_destroy(p);
    for (limit = 0; limit < 75; limit += 6) { /* every budget below what they need */
        p = create();
        ck_assert_int_eq(bind(p, d), TD_LIMIT);
        ck_assert_msg(strstr(err.text, "weights: ") && strstr(err.text, "budget"), "%s", err.text);
        td_program_destroy(p);
        ck_assert_uint_eq(taken, 0);
    }
    p = create();
    limit = 75;
    ck_assert_msg(!bind(p, d), "%s", err.text);
    td_program_destroy(p);
}
END_TEST

START_TEST(uploads_fail) {
    for (uint64_t k = 1; k <= 4; k++) {
        td_program_t *p = create();
        uploads = 0, fail_at = k;
        ck_assert_int_eq(bind(p, d), TD_DEVICE);
        ck_assert_msg(strstr(err.text, "planted") != NULL, "%s", err.text);
        td_program_destroy(p);
        ck_assert_uint_eq(taken, 0);
    }
    fail_at = 0;
}
END_TEST

START_TEST(memory_ends) {
    td_status_t st = TD_NOMEM;
    for (unsigned long long k = 1; st; k++) {
        td_program_t *p = create();
        counter.fail_at = counter.gets + k;
        st = bind(p, d);
        counter.fail_at = 0;
        ck_assert(!st || (st == TD_NOMEM && k < 100));
        td_program_destroy(p);
        ck_assert_uint_eq(taken, 0);
    }
}
END_TEST

/* ---- on the stand-in driver ---- */

static uint64_t fake(const char *function, const char *arg) {
    uint64_t (*f)(const char *) = NULL;
    *(void **)&f = dlsym(RTLD_DEFAULT, function);
    ck_assert_ptr_nonnull(f);
    return f(arg);
}

START_TEST(on_cuda) {
    char path[512], spec[600], seed[8];
    const char *file = "tests/data/rows_b1t4.aot"; /* (x, m) -> (2 x + m, sum of x m) */
    float m[4] = {1, 2, 3, 4}, x[4];
    const void *in[2] = {NULL, m}, *out[2];
    td_device_t *cuda = NULL;
    td_payload_table_t *table = NULL;
    td_artifact_t *a = NULL;
    td_module_t *mod = NULL;
    td_program_t *p = NULL;
    td_binding_t *b = NULL;
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 40);
    ck_assert_int_gt(n, 0);
    path[n] = 0;
    for (int up = 0; up < 2; up++) *strrchr(path, '/') = 0;
    strcat(path, "/fakecuda/libcuda.so.1");
    ck_assert_ptr_nonnull(dlopen(path, RTLD_NOW | RTLD_GLOBAL));
    snprintf(seed, sizeof seed, "%d", _i);
    setenv("FAKECUDA_SEED", seed, 1);
    setenv("FAKECUDA_ARTIFACT", file, 1);
    snprintf(spec, sizeof spec, "cuda:driver=%s", path);
    ck_assert_msg(!td_device_open(spec, &counter.base, &cuda, &err), "%s", err.text);
    ck_assert(!td_payload_table_create(&counter.base, &table, &err));
    ck_assert_msg(!td_artifact_open_file(file, table, &counter.base, &a, &err), "%s", err.text);
    ck_assert(!td_module_open(a, &counter.base, &mod, &err));
    const td_program_opts_t o = {.dev = cuda, .alloc = &counter.base};
    ck_assert_msg(!td_program_create(mod, &o, &p, &err), "%s", err.text);
    ck_assert_msg(!td_program_bind(p, in, (const bool[]){false, true}, &err), "%s", err.text);
    for (int i = 0; i < 4; i++) m[i] = -100;
    ck_assert(!td_binding_create(p, &counter.base, &b, &err));
    td_module_close(mod);
    td_artifact_close(a);
    uint64_t before = fake("fakecuda_calls", "cuMemcpyHtoDAsync_v2");
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < 4; i++) x[i] = (float)(k + i);
        ck_assert_msg(!td_program_run(b, (const void *[]){x, NULL}, out, NULL, &err), "%s", err.text);
        for (int i = 0; i < 4; i++) ck_assert(((const float *)out[0])[i] == 2 * x[i] + (float)(i + 1));
        ck_assert(((const float *)out[1])[0] == x[0] + 2 * x[1] + 3 * x[2] + 4 * x[3]);
    }
    ck_assert_uint_eq(fake("fakecuda_calls", "cuMemcpyHtoDAsync_v2") - before, 3);
    td_binding_destroy(b);
    td_program_destroy(p);
    td_payload_table_destroy(table);
    td_device_destroy(cuda);
    ck_assert_uint_eq(fake("fakecuda_faults", NULL), 0);
}
END_TEST

int main(void) {
    Suite *s = suite_create("bind_device");
    TCase *c = tcase_create("bind_device");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, uploaded_once);
    tcase_add_test(c, found_by_content);
    tcase_add_test(c, told_before);
    tcase_add_test(c, refused);
    tcase_add_test(c, uploads_fail);
    tcase_add_test(c, memory_ends);
    tcase_add_loop_test(c, on_cuda, 0, 3);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
