/* SPDX-License-Identifier: Apache-2.0 */
/* Constants by content: two versions of one model on one device hold its constants once; a budget is asked before
 * anything is taken, and gets all of it back. */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <unistd.h>

#include "base/guard.h"
#include "runtime/program_in.h"

#define GOLDEN(v) "tests/golden/executables/h100_sxm/" v "/mlp/executable.aot"
enum { CONSTANT_BYTES = 28160 }; /* of the golden model */

typedef struct budget {
    td_charge_t charge;
    uint64_t used, peak, limit;
} budget_t;
static bool take(void *ctx, uint64_t bytes) {
    budget_t *b = ctx;
    if (bytes > b->limit - b->used) return false;
    b->used += bytes;
    if (b->used > b->peak) b->peak = b->used;
    return true;
}
static void give(void *ctx, uint64_t bytes) {
    budget_t *b = ctx;
    ck_assert_uint_ge(b->used, bytes);
    b->used -= bytes;
}

static td_counting_alloc_t heap, device_heap;
static budget_t budget, shared_budget;
static td_payload_table_t *table;
static td_device_t *dev;
static td_constants_t *constants;

static void setup(const char *device) {
    td_err_t err = {0};
    budget = (budget_t){.charge = {take, give, &budget}, .limit = UINT64_MAX};
    shared_budget = (budget_t){.charge = {take, give, &shared_budget}, .limit = UINT64_MAX};
    td_counting_alloc_init(&heap, td_alloc_default());
    td_counting_alloc_init(&device_heap, td_alloc_default());
    ck_assert(!td_payload_table_create(&heap.base, &table, &err));
    ck_assert_msg(!td_host_device_open(device, &device_heap.base, &dev, &err), "%s", err.text);
    ck_assert(!td_constants_create(dev, table, &heap.base, &shared_budget.charge, &constants, &err));
}
static void teardown(void) {
    uint64_t n = 1;
    td_constants_stats(constants, &n, NULL);
    ck_assert_uint_eq(n, 0);
    td_constants_destroy(constants);
    td_payload_table_stats(table, &n, NULL, NULL);
    ck_assert_uint_eq(n, 0);
    td_payload_table_destroy(table);
    td_device_destroy(dev);
    ck_assert_uint_eq(heap.live_bytes, 0);
    ck_assert_uint_eq(device_heap.live_bytes, 0);
    ck_assert_uint_eq(budget.used, 0);
    ck_assert_uint_eq(shared_budget.used, 0);
}

static td_status_t load(const char *path, td_constants_t *c, td_program_t **out, td_err_t *err) {
    td_artifact_t *a = NULL;
    td_module_t *m = NULL;
    ck_assert_msg(!td_artifact_open_file(path, table, &heap.base, &a, err), "%s", err->text);
    ck_assert_msg(!td_module_open(a, &heap.base, &m, err), "%s", err->text);
    td_program_opts_t o = {.dev = dev, .alloc = &heap.base, .constants = c, .charge = &budget.charge};
    td_status_t st = td_program_create(m, &o, out, err);
    td_module_close(m);
    td_artifact_close(a);
    return st;
}
static uint64_t payload_bytes(void) {
    uint64_t bytes;
    td_payload_table_stats(table, NULL, &bytes, NULL);
    return bytes;
}
static void run(td_program_t *p, uint8_t *out, uint64_t *n) {
    td_err_t err = {0};
    td_binding_t *b = NULL;
    const td_shape_t *in = td_program_input(p, 0)->shape, *result = td_program_output(p, 0)->shape;
    float x[4096];
    const void *o[8];
    ck_assert(td_program_input_count(p) == 1 && in->type == TD_F32 && in->count <= 4096);
    for (int64_t i = 0; i < in->count; i++) x[i] = (float)(i % 13) * 0.125f - 0.7f;
    ck_assert_msg(!td_binding_create(p, &heap.base, &b, &err), "%s", err.text);
    ck_assert_msg(!td_program_run(b, (const void *[]){x}, o, NULL, &err), "%s", err.text);
    *n = td_io_host_bytes(result);
    ck_assert_uint_le(*n, 4096);
    memcpy(out, o[0], *n);
    td_binding_destroy(b);
}

START_TEST(payloads_in_place) {
    td_err_t err = {0};
    td_program_t *p[2] = {NULL};
    uint8_t x[4096], y[4096], z[4096];
    uint64_t n, count, bytes;
    setup("");
    ck_assert_msg(!load(GOLDEN("v6"), constants, &p[0], &err), "%s", err.text);
    ck_assert_uint_eq(td_program_constant_bytes(p[0]), CONSTANT_BYTES);
    ck_assert_uint_eq(payload_bytes(), CONSTANT_BYTES); /* they stay when the artifact goes, all else goes */
    ck_assert_uint_lt(device_heap.live_bytes, CONSTANT_BYTES); /* and are not copied */
    for (uint32_t i = 0; i < p[0]->n_shared; i++) {
        bool found = false;
        for (uint32_t k = 0; k < p[0]->n_slots; k++)
            found = found || p[0]->slots[k].constant == ((const td_payload_t *)p[0]->shared[i].what)->bytes.data;
        ck_assert(found);
    }
    run(p[0], x, &n);
    ck_assert_msg(!load(GOLDEN("v5"), constants, &p[1], &err), "%s", err.text);
    ck_assert_uint_eq(payload_bytes(), CONSTANT_BYTES);
    run(p[1], y, &n);
    ck_assert(!memcmp(x, y, n));
    td_program_destroy(p[0]);
    ck_assert_uint_eq(payload_bytes(), CONSTANT_BYTES);
    run(p[1], z, &n);
    ck_assert(!memcmp(y, z, n));
    td_constants_stats(constants, &count, &bytes);
    ck_assert(!count && !bytes);
    td_program_destroy(p[1]);
    ck_assert_uint_eq(payload_bytes(), 0);
    teardown();
}
END_TEST

START_TEST(one_copy_on_a_device) {
    td_err_t err = {0};
    td_program_t *p[3] = {NULL};
    uint8_t x[4096], y[4096];
    uint64_t n, count, bytes;
    setup("delay=5");
    ck_assert_msg(!load(GOLDEN("v6"), constants, &p[0], &err), "%s", err.text);
    td_constants_stats(constants, &count, &bytes);
    ck_assert_uint_eq(bytes, CONSTANT_BYTES);
    ck_assert_uint_eq(shared_budget.used, CONSTANT_BYTES);
    run(p[0], x, &n);
    ck_assert_msg(!load(GOLDEN("v6"), constants, &p[1], &err), "%s", err.text);
    ck_assert_msg(!load(GOLDEN("v4"), constants, &p[2], &err), "%s", err.text);
    td_constants_stats(constants, NULL, &bytes);
    ck_assert_uint_eq(bytes, CONSTANT_BYTES);
    ck_assert_uint_eq(shared_budget.used, CONSTANT_BYTES);
    td_program_destroy(p[0]);
    td_program_destroy(p[1]);
    run(p[2], y, &n);
    ck_assert(!memcmp(x, y, n));
    td_program_destroy(p[2]);
    ck_assert_uint_eq(shared_budget.used, 0);
    teardown();
}
END_TEST

/* The copy is the constant: the host's bytes go with the artifact, and are known again when they come. */
START_TEST(released_payloads) {
    td_err_t err = {0};
    td_program_t *p[2] = {NULL};
    uint8_t x[4096], y[4096];
    uint64_t n, count, bytes;
    setup("delay=4");
    ck_assert_msg(!load(GOLDEN("v6"), constants, &p[0], &err), "%s", err.text);
    ck_assert_uint_eq(payload_bytes(), 0);
    run(p[0], x, &n);
    td_constants_stats(constants, &count, NULL);
    ck_assert_msg(!load(GOLDEN("v6"), constants, &p[1], &err), "%s", err.text);
    ck_assert_uint_eq(payload_bytes(), 0);
    td_constants_stats(constants, &n, &bytes);
    ck_assert_uint_eq(n, count);
    ck_assert_uint_eq(bytes, CONSTANT_BYTES);
    td_program_destroy(p[0]);
    run(p[1], y, &n);
    ck_assert(!memcmp(x, y, n));
    td_program_destroy(p[1]);
    teardown();
}
END_TEST

static td_span_t span(const void *p, size_t n) { return (td_span_t){p, n}; }

/* Content names a copy: not where it lies on the host, not its first bytes, and its size does. */
START_TEST(by_content) {
    enum { SIZE = 10000 };
    td_err_t err = {0};
    uint8_t *a = malloc(SIZE), *b = malloc(SIZE);
    td_constant_t v[6];
    uint64_t count, bytes;
    setup("delay=7");
    for (int i = 0; i < SIZE; i++) a[i] = b[i] = (uint8_t)(i * 11 + i / 251);
    ck_assert(!td_constants_get_bytes(constants, (td_span_t[]){span(a, SIZE), span(a, SIZE)}, 2, NULL, v, &err));
    ck_assert(!td_constants_get_bytes(constants, (td_span_t[]){span(b, SIZE)}, 1, NULL, v + 2, &err));
    ck_assert(v[0].what == v[1].what && v[0].what == v[2].what && v[0].memory == v[2].memory);
    ck_assert_uint_eq(v[0].bytes, SIZE);
    b[SIZE - 1] ^= 1;
    td_span_t others[] = {span(b, SIZE), span(a, SIZE - 1), span(NULL, 0)};
    ck_assert(!td_constants_get_bytes(constants, others, 3, NULL, v + 3, &err));
    for (int i = 3; i < 6; i++)
        for (int k = 2; k < i; k++) ck_assert(v[i].what != v[k].what && v[i].memory != v[k].memory);
    ck_assert(!memcmp(v[3].memory, b, SIZE) && !memcmp(v[0].memory, a, SIZE));
    td_constants_stats(constants, &count, &bytes);
    ck_assert_uint_eq(count, 4);
    ck_assert_uint_eq(bytes, 3 * SIZE - 1);
    ck_assert(td_constants_seem_held(constants, SIZE, td_payload_head_hash(span(a, SIZE))));
    ck_assert(td_constants_seem_held(constants, SIZE, td_payload_head_hash(span(a, TD_PAYLOAD_HEAD_BYTES))));
    ck_assert(!td_constants_seem_held(constants, SIZE - 2, td_payload_head_hash(span(a, SIZE))));
    ck_assert(!td_constants_seem_held(constants, SIZE, td_payload_head_hash(span(a + 1, SIZE - 1))));
    td_constants_put(constants, v, 3);
    ck_assert_uint_eq(shared_budget.used, 2 * SIZE - 1);
    td_constants_put(constants, v + 3, 3);
    ck_assert(!td_constants_seem_held(constants, SIZE, td_payload_head_hash(span(a, SIZE))));
    free(a), free(b);
    teardown();
}
END_TEST

static unsigned draws;
static bool draw_take(void *ctx, uint64_t bytes) { return draws++, take(ctx, bytes); }

/* A user's charge is asked, the table's gets it back; a refusal in the middle leaves nothing. */
START_TEST(users_charge) {
    td_err_t err = {0};
    uint8_t a[3][500];
    td_constant_t v[3];
    td_span_t all[3];
    setup("delay=8");
    for (int i = 0; i < 3; i++) memset(a[i], i, sizeof a[i]), all[i] = span(a[i], sizeof a[i]);
    const td_charge_t draw = {draw_take, give, &shared_budget}; /* on the table's account */
    shared_budget.limit = 1200;
    ck_assert_int_eq(td_constants_get_bytes(constants, all, 3, &draw, v, &err), TD_LIMIT);
    ck_assert_uint_eq(draws, 3);
    ck_assert_uint_eq(shared_budget.used, 0);
    shared_budget.limit = 1500;
    ck_assert_msg(!td_constants_get_bytes(constants, all, 3, &draw, v, &err), "%s", err.text);
    ck_assert_uint_eq(draws, 6);
    ck_assert_msg(!td_constants_get_bytes(constants, all, 3, &draw, v, &err), "%s", err.text);
    ck_assert_uint_eq(draws, 6); /* nothing is new */
    ck_assert_uint_eq(shared_budget.used, 1500);
    td_constants_put(constants, v, 3);
    td_constants_put(constants, v, 3);
    teardown();
}
END_TEST

/* A mapped file that is written to while it is being uploaded. */
START_TEST(file_that_changes) {
    td_err_t err = {0};
    char path[] = "/tmp/td_constants_XXXXXX";
    td_constant_t v[1];
    td_guard_t *g = NULL;
    int fd = mkstemp(path);
    setup("delay=9");
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq((int)write(fd, "0123456789", 10), 10);
    ck_assert_msg(!td_guard_map(path, &g, &err), "%s", err.text);
    td_span_t b = td_guard_bytes(g);
    ck_assert_msg(!td_constants_get_bytes(constants, &b, 1, NULL, v, &err), "%s", err.text);
    ck_assert(!memcmp(v[0].memory, "0123456789", 10));
    td_constants_put(constants, v, 1);
    ck_assert_int_eq((int)pwrite(fd, "x", 1, 3), 1);
    ck_assert(!ftruncate(fd, 9));
    ck_assert_int_eq(td_constants_get_bytes(constants, &b, 1, NULL, v, &err), TD_IO);
    ck_assert_msg(strstr(err.text, path) != NULL, "%s", err.text);
    td_guard_release(g);
    close(fd);
    unlink(path);
    teardown();
}
END_TEST

/* A table of the program's own, made for want of a shared one: charged as the program is. */
START_TEST(without_a_table) {
    td_err_t err = {0};
    td_program_t *p = NULL;
    setup(_i ? "delay=1" : "");
    ck_assert_msg(!load(GOLDEN("v6"), NULL, &p, &err), "%s", err.text);
    ck_assert_uint_eq(td_program_constant_bytes(p), CONSTANT_BYTES);
    ck_assert_uint_eq(budget.used, _i ? CONSTANT_BYTES : 0);
    td_program_destroy(p);
    teardown();
}
END_TEST

START_TEST(other_payload_table) {
    td_err_t err = {0};
    td_program_t *p = NULL;
    td_payload_table_t *other = NULL;
    td_constants_t *c = NULL;
    setup("");
    ck_assert(!td_payload_table_create(&heap.base, &other, &err));
    ck_assert(!td_constants_create(dev, other, &heap.base, NULL, &c, &err));
    ck_assert_int_eq(load(GOLDEN("v6"), c, &p, &err), TD_USAGE);
    ck_assert_msg(strstr(err.text, "different payload tables") != NULL, "%s", err.text);
    td_constants_destroy(c);
    td_payload_table_destroy(other);
    teardown();
}
END_TEST

/* Every budget below what is needed is an error that says so, and nothing stays charged. */
START_TEST(budget_ends) {
    td_err_t err = {0};
    td_program_t *p = NULL;
    td_binding_t *b = NULL;
    uint64_t need, loaded;
    setup("delay=2");
    ck_assert(!load(GOLDEN("v6"), constants, &p, &err));
    loaded = budget.used;
    ck_assert(!td_binding_create(p, &heap.base, &b, &err));
    need = budget.used - loaded;
    ck_assert_uint_ge(need, p->layout.block_bytes);
    td_binding_destroy(b);
    ck_assert_uint_eq(budget.used, loaded);
    for (uint64_t less = 1; less <= need; less += need / 7) {
        budget.limit = loaded + need - less;
        ck_assert_int_eq(td_binding_create(p, &heap.base, &b, &err), TD_LIMIT);
        ck_assert_msg(strstr(err.text, "the budget has no ") != NULL, "%s", err.text);
        ck_assert_uint_eq(budget.used, loaded);
    }
    budget.limit = loaded + need;
    ck_assert(!td_binding_create(p, &heap.base, &b, &err));
    td_binding_destroy(b);
    td_program_destroy(p);
    for (uint64_t limit = 0; limit < CONSTANT_BYTES; limit += 4000) {
        shared_budget.limit = limit;
        ck_assert_int_eq(load(GOLDEN("v6"), constants, &p, &err), TD_LIMIT);
        ck_assert_msg(strstr(err.text, "for constants") != NULL, "%s", err.text);
        ck_assert_uint_eq(shared_budget.used, 0);
    }
    teardown();
}
END_TEST

START_TEST(memory_ends) {
    setup(_i ? "delay=2" : "");
    td_status_t st = TD_NOMEM;
    int failures = 0;
    for (unsigned long long k = 1; st; k++) {
        td_err_t err = {0};
        td_program_t *p = NULL;
        td_artifact_t *a = NULL;
        td_module_t *m = NULL;
        ck_assert(!td_artifact_open_file(GOLDEN("v6"), table, td_alloc_default(), &a, &err));
        ck_assert(!td_module_open(a, td_alloc_default(), &m, &err));
        td_counting_alloc_t *one = k % 2 ? &heap : &device_heap;
        one->fail_at = one->gets + (k + 1) / 2;
        td_program_opts_t o = {.dev = dev, .alloc = &heap.base, .constants = constants, .charge = &budget.charge};
        st = td_program_create(m, &o, &p, &err);
        heap.fail_at = device_heap.fail_at = 0;
        failures += st != TD_OK;
        ck_assert(!st || st == TD_NOMEM);
        td_program_destroy(p);
        td_module_close(m);
        td_artifact_close(a);
        ck_assert_uint_eq(budget.used, 0);
        ck_assert_uint_eq(shared_budget.used, 0);
        if (!st && k < 40) st = TD_NOMEM; /* one of the two may be used less */
    }
    ck_assert_int_ge(failures, 5);
    teardown();
}
END_TEST

/* Several loaders at once: each finds its bytes, and in the end nothing is left. */
enum { THREADS = 4, KINDS = 6, ROUNDS = 40 };
static const td_payload_t *kinds[KINDS];
static void *loader(void *arg) {
    unsigned x = (unsigned)(uintptr_t)arg;
    for (int k = 0; k < ROUNDS; k++) {
        const td_payload_t *v[3];
        td_constant_t at[3] = {{NULL}};
        td_err_t err = {0};
        for (int i = 0; i < 3; i++) v[i] = kinds[(x = x * 1664525u + 1013904223u) / 65536 % KINDS];
        ck_assert(!td_constants_get(constants, v, 3, NULL, at, &err));
        for (int i = 0; i < 3; i++) ck_assert(!memcmp(at[i].memory, v[i]->bytes.data, v[i]->bytes.size));
        td_constants_put(constants, at, 3);
    }
    return NULL;
}
START_TEST(loaders_at_once) {
    pthread_t t[THREADS];
    setup(_i ? "delay=6" : "");
    for (int k = 0; k < KINDS; k++) {
        uint8_t bytes[1000];
        td_err_t err = {0};
        memset(bytes, k + 1, sizeof bytes);
        ck_assert(!td_payload_intern(table, (td_span_t){bytes, 100 * (size_t)(k + 1)}, &kinds[k], &err));
    }
    for (uintptr_t k = 0; k < THREADS; k++) ck_assert(!pthread_create(&t[k], NULL, loader, (void *)(k + 1)));
    for (int k = 0; k < THREADS; k++) pthread_join(t[k], NULL);
    for (int k = 0; k < KINDS; k++) td_payload_release(table, kinds[k]);
    teardown();
}
END_TEST

int main(void) {
    Suite *s = suite_create("constants");
    TCase *c = tcase_create("constants");
    tcase_add_test(c, payloads_in_place);
    tcase_add_test(c, one_copy_on_a_device);
    tcase_add_test(c, released_payloads);
    tcase_add_test(c, by_content);
    tcase_add_test(c, users_charge);
    tcase_add_test(c, file_that_changes);
    tcase_add_loop_test(c, without_a_table, 0, 2);
    tcase_add_test(c, other_payload_table);
    tcase_add_test(c, budget_ends);
    tcase_add_loop_test(c, memory_ends, 0, 2);
    tcase_add_loop_test(c, loaders_at_once, 0, 2);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
