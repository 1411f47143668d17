/* SPDX-License-Identifier: Apache-2.0 */
/* Async pairs on streams. The sample is a chain of five kernels; its thunk list is rewritten so that each of
 * them stands in an async body, on streams that alternate, and its answer must stay what it was. Then the
 * mutation test: for each single wait that is left out, some run with random delays must give another answer.
 * With THUNKD_CORPUS the same is done with artifacts whose compiler put work on streams. */
#include <check.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/artifact.h"
#include "runtime/host/plan.h"
#include "runtime/program_in.h"
#include "tests/unit/thunk_forms.h"

static const char sample[] = "samples/store/digits/1/h100_sxm.aot";

/* ---- memory that starts as NaN, so that no old answer is found in it ---- */
static void *get_spoilt(void *ctx, size_t size, size_t align) {
    td_counting_alloc_t *c = ctx;
    void *p = c->base.get(c->base.ctx, size, align);
    return p ? memset(p, 0xff, size) : NULL;
}
static void put_spoilt(void *ctx, void *p, size_t size) {
    td_counting_alloc_t *c = ctx;
    c->base.put(c->base.ctx, p, size);
}
static td_counting_alloc_t counter;
static const td_alloc_t spoilt = {get_spoilt, put_spoilt, &counter};

static td_payload_table_t *table;
static td_artifact_t *artifact;

static void setup(void) {
    td_err_t err = {0};
    td_counting_alloc_init(&counter, td_alloc_default());
    td_arena_init(&arena, td_alloc_default(), 0);
    ck_assert_int_eq(td_payload_table_create(&counter.base, &table, &err), TD_OK);
}
static void load(const char *path) {
    td_err_t err = {0};
    ck_assert_msg(td_artifact_open_file(path, table, &counter.base, &artifact, &err) == TD_OK, "%s", err.text);
}
static void setup_sample(void) {
    setup();
    load(sample);
}
static void teardown(void) {
    td_artifact_close(artifact);
    td_payload_table_destroy(table);
    td_arena_deinit(&arena);
    ck_assert_uint_eq(counter.live_bytes, 0);
    artifact = NULL;
}

/* ---- rewriting the thunk list ---- */
static exe_t *exe(void) { return (exe_t *)(uintptr_t)artifact->exe; }
static void replace(size_t n, thunk_t **v) {
    exe()->thunks = seq(n, v)->thunks;
    exe()->n_thunks = n;
}

/* The forms of a chain of n kernels. */
enum { PAIRS, WITH_LOOPS, NESTED, FORMS };
static void rewrite(int form) {
    size_t n = exe()->n_thunks, at = 0;
    thunk_t *v[64];
    ck_assert_uint_le(n, 16);
    for (size_t i = 0; i < n; i++) {
        thunk_t *k = exe()->thunks[i];
        thunk_t *pair[] = {start_of(i, i, seq(1, &k)), done_of(i)};
        if (form == WITH_LOOPS && i % 2) {
            /* Repeating these kernels changes nothing: they write what they do not read. */
            v[at++] = i % 4 == 1 ? loop_of(exe(), 3, seq(2, pair)) : branch_of(exe(), seq(2, pair));
        } else if (form == NESTED && i % 2) {
            v[at++] = start_of(100 + i, 7, seq(2, pair));
            v[at++] = done_of(100 + i);
        } else {
            v[at++] = pair[0];
            v[at++] = pair[1];
        }
    }
    replace(at, v);
}

/* ---- running ---- */
typedef struct answer {
    uint64_t n;
    uint8_t bytes[1 << 16];
} answer_t;
static const void *inputs[64];
static td_device_t *dev;
static td_program_t *program;

static void make_inputs(void) {
    for (uint32_t i = 0; i < td_program_input_count(program); i++) {
        const td_shape_t *s = td_program_input(program, i)->shape;
        float *f = td_arena_align(&arena, td_io_host_bytes(s) + 64, 64);
        ck_assert(i < 64 && f && s->type == TD_F32);
        for (int64_t k = 0; k < s->count; k++) f[k] = 0.3f * sinf((float)(k * 7 + i * 3 + 1));
        inputs[i] = f;
    }
}
static uint64_t light; /* 0: every body on the stream that it names */

static void open_program(const char *options) { /* of the host device */
    td_err_t err = {0};
    td_module_t *m = NULL;
    ck_assert_msg(!td_host_device_open(options, &spoilt, &dev, &err), "%s", err.text);
    dev->light_bytes = light;
    ck_assert_msg(!td_module_open(artifact, &counter.base, &m, &err), "%s", err.text);
    ck_assert_msg(!td_program_create(m, &(td_program_opts_t){.dev = dev, .alloc = &counter.base}, &program, &err), "%s", err.text);
    td_module_close(m);
    make_inputs();
}
static void close_program(void) {
    td_program_destroy(program);
    td_device_destroy(dev);
    program = NULL;
}
static td_status_t run_once(td_binding_t *b, answer_t *out, const _Atomic(int) *cancel, td_err_t *err) {
    const void *o[8] = {0};
    td_status_t st = td_program_run(b, inputs, o, cancel, err);
    out->n = 0;
    for (uint32_t i = 0; i < td_program_output_count(program) && !st; i++) {
        uint64_t n = td_io_host_bytes(td_program_output(program, i)->shape);
        ck_assert_uint_le(out->n + n, sizeof out->bytes);
        memcpy(out->bytes + out->n, o[i], n);
        out->n += n;
    }
    return st;
}
static bool same(const answer_t *x, const answer_t *y) { return x->n == y->n && !memcmp(x->bytes, y->bytes, x->n); }
/* Each on a binding of its own: streams with other delays, memory without an answer. */
static void answer(answer_t *out) {
    td_err_t err = {0};
    td_binding_t *b = NULL;
    ck_assert_msg(!td_binding_create(program, &spoilt, &b, &err), "%s", err.text);
    ck_assert_msg(!run_once(b, out, NULL, &err), "%s", err.text);
    td_binding_destroy(b);
}
static answer_t want, got;
static void ask_original(void) {
    open_program("");
    answer(&want);
    close_program();
}

START_TEST(answers_stay_the_same) {
    ask_original();
    rewrite(_i);
    open_program("");
    ck_assert_uint_gt(program->n_lanes, 2);
    for (int k = 0; k < 20; k++) {
        answer(&got);
        ck_assert(same(&got, &want));
    }
    close_program();
    open_program("delay=1");
    for (int k = 0; k < 20; k++) {
        answer(&got);
        ck_assert(same(&got, &want));
    }
    close_program();
}
END_TEST

/* Small bodies stay on the stream that starts them, and nothing changes. */
START_TEST(light_bodies_stay) {
    ask_original();
    rewrite(_i);
    light = UINT64_MAX;
    open_program("");
    ck_assert_uint_le(program->n_lanes, _i == 2 ? 2 : 1); /* a body that starts another counts as long */
    answer(&got);
    ck_assert(same(&got, &want));
    close_program();
    light = 0;
}
END_TEST

static void drop_each_wait(void) {
    #ifdef __SANITIZE_THREAD__
    return; /* these runs race, and are meant to */
#endif
    enum { TRIES = 300 };
    open_program("delay=2");
    uint32_t n = td_program_wait_count(program);
    ck_assert_uint_gt(n, 0);
    for (uint32_t k = 0; k < n; k++) {
        int tries = 0;
        td_program_drop_wait(program, k);
        do answer(&got);
        while (same(&got, &want) && ++tries < TRIES);
        ck_assert_msg(tries < TRIES, "wait %u of %u is left out and %d runs are right", k, n, tries);
    }
    td_program_drop_wait(program, TD_NO_WAIT);
    for (int k = 0; k < 10; k++) {
        answer(&got);
        ck_assert(same(&got, &want));
    }
    close_program();
}

/* Nested pairs repeat an order that the outer pair gives, so only the plain chain needs every single wait. */
START_TEST(every_wait_is_needed) {
    ask_original();
    rewrite(PAIRS);
    drop_each_wait();
}
END_TEST

START_TEST(every_wait_of_a_compiler_is_needed) {
    static const char *const models[] = {"parallel_branches", "stream_annotated"};
    char path[4096];
    const char *corpus = getenv("THUNKD_CORPUS");
    if (!corpus) return;
    snprintf(path, sizeof path, "%s/%s/0.12.0.1/h100_sxm+streams.aot", corpus, models[_i]);
    load(path);
    ask_original();
    drop_each_wait();
}
END_TEST

/* More logical streams than lanes: they share. */
START_TEST(streams_are_folded) {
    ask_original();
    size_t n = exe()->n_thunks, at = 0;
    thunk_t *v[2 * TD_LIMIT_LANES + 32], *k = exe()->thunks[0];
    for (uint64_t i = 0; i < TD_LIMIT_LANES + 4; i++) v[at++] = start_of(i, i * 3, seq(0, &k)), v[at++] = done_of(i);
    for (size_t i = 0; i < n; i++) {
        k = exe()->thunks[i];
        v[at++] = start_of(1000 + i, 300 + i, seq(1, &k));
        v[at++] = done_of(1000 + i);
    }
    replace(at, v);
    open_program("delay=3");
    ck_assert_uint_eq(program->n_lanes, TD_LIMIT_LANES);
    answer(&got);
    ck_assert(same(&got, &want));
    close_program();
}
END_TEST

/* Fewer streams than the program names: the same answer. */
START_TEST(lanes_are_limited) {
    static const uint32_t most[] = {1, 2, 3, 16};
    static const char *const delays[] = {"", ",delay=7"};
    ask_original();
    rewrite(_i);
    open_program("");
    uint32_t all = program->n_lanes;
    close_program();
    for (int k = 0; k < 8; k++) {
        char options[40];
        uint32_t n = most[k % 4];
        snprintf(options, sizeof options, "lanes=%u%s", n, delays[k / 4]);
        open_program(options);
        ck_assert_uint_eq(program->n_lanes, n < all ? n : all);
        for (int round = 0; round < 5; round++) {
            answer(&got);
            ck_assert(same(&got, &want));
        }
        close_program();
    }
}
END_TEST

START_TEST(lanes_out_of_range) {
    static const char *const bad[] = {"lanes=0", "lanes=17", "lanes=", "lanes=x", "lanes=4294967297"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        td_err_t err = {0};
        dev = NULL;
        ck_assert_int_eq(td_host_device_open(bad[i], &spoilt, &dev, &err), TD_USAGE);
        ck_assert_ptr_nonnull(strstr(err.text, "lanes=N (1 to 16)"));
        ck_assert_ptr_null(dev);
    }
}
END_TEST

START_TEST(running_takes_no_memory) {
    rewrite(WITH_LOOPS);
    open_program(_i ? "delay=4" : "");
    td_binding_t *b = NULL;
    unsigned long long live = counter.live_bytes;
    ck_assert(!td_binding_create(program, &spoilt, &b, NULL));
    ck_assert_uint_le(counter.live_bytes - live, td_program_binding_bytes(program) + 65536);
    unsigned long long gets = counter.gets;
    for (int k = 0; k < 3; k++) ck_assert(!run_once(b, &got, NULL, NULL));
    ck_assert_uint_eq(counter.gets, gets);
    td_binding_destroy(b);
    close_program();
}
END_TEST

/* ---- a launch that goes wrong, and one that cancels ---- */
static td_device_ops_t hooked;
static const td_device_ops_t *real;
static int launches, special;
static atomic_int cancelled;
static td_status_t bad_run(const td_kernel_t *k, void *const *bufs, void *scratch, td_err_t *err) {
    (void)k, (void)bufs, (void)scratch;
    return td_fail(err, TD_DEVICE, "kernel gave up");
}
static td_status_t cancel_run(const td_kernel_t *k, void *const *bufs, void *scratch, td_err_t *err) {
    (void)k, (void)bufs, (void)scratch, (void)err;
    atomic_store(&cancelled, 1);
    return TD_OK;
}
static const td_kernel_t bad = {.run = bad_run}, canceller = {.run = cancel_run};
static const td_kernel_t *instead;
static td_status_t launch_hook(td_stream_t *s, const td_kernel_t *k, void *const *bufs, uint32_t n, void *scratch,
                               td_err_t *err) {
    return real->launch(s, launches++ == special ? instead : k, bufs, n, scratch, err);
}
static td_binding_t *hook(const td_kernel_t *k) {
    td_binding_t *b = NULL;
    real = dev->ops;
    hooked = *real;
    hooked.launch = launch_hook;
    dev->ops = &hooked;
    instead = k;
    ck_assert(!td_binding_create(program, &spoilt, &b, NULL));
    return b;
}

START_TEST(failure_in_a_body_ends_the_run) {
    static const char *const options[] = {"", "delay=5"};
    ask_original();
    rewrite(_i % FORMS);
    open_program(options[_i / FORMS]);
    td_binding_t *b = hook(&bad);
    for (special = 0; special < 5; special++) {
        td_err_t err = {0};
        launches = 0;
        ck_assert_int_eq(run_once(b, &got, NULL, &err), TD_DEVICE);
        ck_assert_msg(strstr(err.text, "kernel gave up") != NULL, "%s", err.text);
        launches = 100; /* the binding is as good as new */
        ck_assert(!run_once(b, &got, NULL, &err));
        ck_assert(same(&got, &want));
    }
    td_binding_destroy(b);
    close_program();
}
END_TEST

START_TEST(cancelling_leaves_streams_empty) {
    ask_original();
    rewrite(_i);
    open_program("");
    td_binding_t *b = hook(&canceller);
    for (special = 0; special < 4; special++) { /* not the last one: there is nothing to cancel behind it */
        td_err_t err = {0};
        launches = 0;
        atomic_store(&cancelled, 0);
        ck_assert_int_eq(run_once(b, &got, &cancelled, &err), TD_CANCELLED);
        launches = 100;
        ck_assert(!run_once(b, &got, NULL, &err));
        ck_assert(same(&got, &want));
    }
    td_binding_destroy(b);
    close_program();
}
END_TEST

START_TEST(errors_name_the_branch) {
    td_err_t err = {0};
    td_module_t *m = NULL;
    thunk_t *k = exe()->thunks[2], *b = branch_of(exe(), seq(1, &k));
    k->thunk_info->profile_annotation = (char *)(uintptr_t)"no_such_instruction";
    exe()->thunks[2] = b;
    ck_assert_int_eq(td_host_device_create(&counter.base, &dev, &err), TD_OK);
    td_status_t st = td_module_open(artifact, &counter.base, &m, &err);
    if (!st) st = td_program_create(m, &(td_program_opts_t){.dev = dev, .alloc = &counter.base}, &program, &err);
    ck_assert(st && strstr(err.text, "branch 0") && !strstr(err.text, "condition["));
    td_module_close(m);
    td_device_destroy(dev);
}
END_TEST

START_TEST(misaligned_inputs_are_refused) {
    td_err_t err = {0};
    td_binding_t *b = NULL;
    open_program("");
    inputs[0] = (const char *)inputs[0] + 2;
    ck_assert(!td_binding_create(program, &spoilt, &b, &err));
    ck_assert_int_eq(run_once(b, &got, NULL, &err), TD_USAGE);
    ck_assert(strstr(err.text, "aligned") != NULL);
    td_binding_destroy(b);
    close_program();
}
END_TEST

int main(void) {
    TCase *t = tcase_create("streams"), *c = tcase_create("corpus");
    tcase_set_timeout(t, 120);
    tcase_set_timeout(c, 120);
    tcase_add_checked_fixture(t, setup_sample, teardown);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(t, answers_stay_the_same, 0, FORMS);
    tcase_add_loop_test(t, light_bodies_stay, 0, FORMS);
    tcase_add_test(t, every_wait_is_needed);
    tcase_add_loop_test(c, every_wait_of_a_compiler_is_needed, 0, 2);
    tcase_add_test(t, streams_are_folded);
    tcase_add_loop_test(t, lanes_are_limited, 0, FORMS);
    tcase_add_test(t, lanes_out_of_range);
    tcase_add_loop_test(t, running_takes_no_memory, 0, 2);
    tcase_add_loop_test(t, failure_in_a_body_ends_the_run, 0, 2 * FORMS);
    tcase_add_loop_test(t, cancelling_leaves_streams_empty, 0, FORMS);
    tcase_add_test(t, errors_name_the_branch);
    tcase_add_test(t, misaligned_inputs_are_refused);
    Suite *s = suite_create("streams");
    suite_add_tcase(s, t);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
