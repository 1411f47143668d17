/* SPDX-License-Identifier: Apache-2.0 */
/* Programs run as graphs, on the CUDA device with the stand-in driver: the same bytes as thunk by thunk, what becomes a
 * piece, other addresses, and every call that makes graphs failing. Each test is a process of its own. */
#include <check.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/artifact.h"
#include "runtime/graph.h"
#include "tests/unit/thunk_forms.h"

#define GOLDEN "tests/golden/executables/h100_sxm/v6/"
static const char control[] = GOLDEN "control/executable.aot", attention[] = GOLDEN "attention/executable.aot";
static const char sample[] = "samples/store/digits/1/h100_sxm.aot";
static char driver[512];
static td_counting_alloc_t counter;
static td_payload_table_t *table;
static td_artifact_t *artifact;
static td_device_t *dev;
static td_program_t *program;
static td_binding_t *b;
static td_err_t err;
static const void *inputs[64], *outputs[64];

static uint64_t ask(const char *name, const char *arg) { /* fakecuda_faults, fakecuda_calls */
    uint64_t (*f)(const char *) = NULL;
    void *lib = dlopen(driver, RTLD_NOW | RTLD_NOLOAD);
    if (!lib) return 0;
    *(void **)&f = dlsym(lib, name);
    ck_assert_ptr_nonnull(f);
    return f(arg);
}
static uint64_t calls(const char *function) { return ask("fakecuda_calls", function); }

static void setup(void) {
    td_arena_init(&arena, td_alloc_default(), 0);
    td_counting_alloc_init(&counter, td_alloc_default());
    ck_assert(!td_payload_table_create(td_alloc_default(), &table, &err));
}
static void close_program(void) {
    td_binding_destroy(b);
    td_program_destroy(program);
    td_device_destroy(dev);
    b = NULL, program = NULL, dev = NULL;
}
static void teardown(void) {
    close_program();
    td_artifact_close(artifact);
    td_payload_table_destroy(table);
    td_arena_deinit(&arena);
    ck_assert_uint_eq(counter.live_bytes, 0);
    ck_assert_uint_eq(ask("fakecuda_faults", NULL), 0);
}
static void load(const char *path) {
    setenv("FAKECUDA_ARTIFACT", path, 1);
    ck_assert_msg(!td_artifact_open_file(path, table, td_alloc_default(), &artifact, &err), "%s", err.text);
}
static exe_t *exe(void) { return (exe_t *)(uintptr_t)artifact->exe; }
static void replace(size_t n, thunk_t **v) {
    exe()->thunks = seq(n, v)->thunks;
    exe()->n_thunks = n;
}

static void fill(const td_shape_t *s, unsigned i, uint8_t *to) {
    for (int64_t k = 0; k < s->count; k++) {
        float f = (float)((k * 7 + i * 3) % 19) / 16.0f - 0.5f;
        uint32_t v;
        memcpy(&v, &f, 4);
        if (s->type == TD_F32) memcpy(to + 4 * k, &f, 4);
        else if (s->type == TD_BF16) memcpy(to + 2 * k, (uint8_t *)&v + 2, 2);
        else if (s->type == TD_S32) memcpy(to + 4 * k, &(int32_t){(int32_t)(k % 3)}, 4);
    }
}
static void open_on(const char *spec) {
    td_module_t *m = NULL;
    td_status_t st = strncmp(spec, "cuda", 4) ? td_host_device_open(spec, &counter.base, &dev, &err)
                                              : td_device_open(spec, &counter.base, &dev, &err);
    ck_assert_msg(!st, "%s", err.text);
    dev->light_bytes = 0;
    ck_assert_msg(!td_module_open(artifact, td_alloc_default(), &m, &err), "%s", err.text);
    const td_program_opts_t opts = {.dev = dev, .alloc = &counter.base};
    ck_assert_msg(!td_program_create(m, &opts, &program, &err), "%s", err.text);
    td_module_close(m);
    for (uint32_t i = 0; i < td_program_input_count(program); i++) {
        const td_shape_t *s = td_program_input(program, i)->shape;
        uint8_t *to = td_arena_zalloc(&arena, td_io_host_bytes(s) + 64);
        fill(s, i, to);
        inputs[i] = to;
    }
    ck_assert_msg(!td_binding_create(program, &counter.base, &b, &err), "%s", err.text);
}
static void open_cuda(const char *options) {
    char spec[700];
    snprintf(spec, sizeof spec, "cuda:0%s,driver=%s", options, driver);
    open_on(spec);
}
static td_graph_stats_t stats(void) {
    td_graph_stats_t s;
    td_binding_graphs(b, &s);
    return s;
}

typedef struct answer {
    size_t n;
    uint8_t bytes[1 << 16];
} answer_t;
static answer_t want, got;
static void keep(answer_t *out) {
    out->n = 0;
    for (uint32_t i = 0; i < td_program_output_count(program); i++) {
        uint64_t n = outputs[i] ? td_io_host_bytes(td_program_output(program, i)->shape) : 0;
        ck_assert_uint_le(n, sizeof out->bytes - out->n);
        if (n) memcpy(out->bytes + out->n, outputs[i], n);
        out->n += n;
    }
}
static td_status_t run(answer_t *out) {
    td_status_t st = td_program_run(b, inputs, outputs, NULL, &err);
    if (!st) keep(out);
    return st;
}
static void right_run(void) {
    ck_assert_msg(!run(&got), "%s", err.text);
    ck_assert_uint_eq(got.n, want.n);
    ck_assert_mem_eq(got.bytes, want.bytes, want.n);
}
static void host_answer(void) {
    open_on("");
    ck_assert_msg(!run(&want), "%s", err.text);
    ck_assert_uint_gt(want.n, 0);
    ck_assert_uint_eq(stats().graphs, 0);
    ck_assert_str_eq(stats().reason, "the device has no graphs, or they are off");
    close_program();
}

/* The sample's chain of kernels; some in pairs, the second in a loop of three trips. */
static void pairs(void) {
    thunk_t **k = exe()->thunks, *v[64];
    size_t n = exe()->n_thunks, at = 0;
    for (size_t i = 0; i < n; i++) {
        thunk_t *pair[] = {start_of(i, i, seq(1, &k[i])), done_of(i)};
        if (i == 1) v[at++] = loop_of(exe(), 3, seq(2, pair));
        else if (i == 2) v[at++] = start_of(100, 7, seq(2, pair)), v[at++] = done_of(100);
        else v[at++] = pair[0], v[at++] = pair[1];
    }
    replace(at, v);
}

/* ---- the same answers ---- */
enum { SAMPLE, PAIRS, ATTENTION, CONTROL, PROGRAMS };
static void load_program(int which) {
    load(which == ATTENTION ? attention : which == CONTROL ? control : sample);
    if (which == PAIRS) pairs();
}
START_TEST(same_answers) {
    char seed[16];
    snprintf(seed, sizeof seed, "%d", _i / PROGRAMS);
    setenv("FAKECUDA_SEED", seed, 1);
    load_program(_i % PROGRAMS);
    host_answer();
    open_cuda("");
    right_run(); /* plainly */
    ck_assert_uint_eq(stats().launches, 0);
    ck_assert_uint_eq(calls("cuStreamBeginCapture_v2"), 0);
    right_run(); /* captured */
    td_graph_stats_t second = stats();
    unsigned long long gets = counter.gets;
    uint64_t kernels = calls("cuLaunchKernel") + calls("cuLaunchKernelEx");
    for (int i = 0; i < 4; i++) right_run();
    td_graph_stats_t s = stats();
    ck_assert_uint_ge(s.graphs, 1);
    ck_assert_uint_eq(second.captures, s.captures);
    ck_assert_uint_eq(s.updates + s.refused, 0);
    ck_assert_uint_eq(calls("cuGraphInstantiateWithFlags"), s.captures);
    ck_assert_uint_eq(calls("cuGraphLaunch"), s.launches);
    ck_assert_uint_eq(counter.gets, gets);
    if (_i % PROGRAMS == CONTROL) { /* loops and branches are decided between graphs */
        ck_assert_uint_ge(s.launches, 5 * s.graphs);
        ck_assert_msg(strstr(s.reason, "thunks[") == s.reason, "%s", s.reason);
    } else { /* the whole program is one */
        ck_assert_uint_eq(s.graphs, 1);
        ck_assert_str_eq(s.reason, "");
        ck_assert_uint_eq(s.launches, 5);
        ck_assert_uint_eq(calls("cuLaunchKernel") + calls("cuLaunchKernelEx"), kernels);
    }
}
END_TEST

START_TEST(off) {
    load(attention);
    host_answer();
    open_cuda(",graphs=off");
    for (int i = 0; i < 4; i++) right_run();
    ck_assert_uint_eq(calls("cuStreamBeginCapture_v2") + calls("cuGraphLaunch"), 0);
    ck_assert_uint_eq(stats().graphs, 0);
    ck_assert_str_eq(stats().reason, "the device has no graphs, or they are off");
    close_program();
    char spec[700];
    snprintf(spec, sizeof spec, "cuda:graphs=yes,driver=%s", driver);
    ck_assert_int_eq(td_device_open(spec, &counter.base, &dev, &err), TD_USAGE);
    ck_assert_ptr_nonnull(strstr(err.text, "graphs=yes"));
}
END_TEST

/* ---- what becomes a piece ---- */
static uint32_t size_of_piece(const td_thunk_t *t) {
    uint32_t k = b->graphs->piece_of[t->number];
    return k ? b->graphs->pieces[k - 1].n : 0;
}
START_TEST(a_branch_splits) { /* k0 k1 k2 branch(k3) k4, repeated: k4 begins the next round's piece */
    load(sample);
    thunk_t **k = exe()->thunks, *v[64];
    ck_assert_uint_ge(exe()->n_thunks, 5);
    for (int i = 0; i < 5; i++) v[i] = i == 3 ? branch_of(exe(), seq(1, &k[3])) : k[i];
    replace(5, v);
    host_answer();
    open_cuda("");
    ck_assert_uint_eq(stats().graphs, 1);
    ck_assert_uint_eq(size_of_piece(&program->thunks.v[0]), 3);
    char start[64];
    snprintf(start, sizeof start, "thunks[3] (conditional)");
    ck_assert_msg(!strncmp(stats().reason, start, strlen(start)), "%s", stats().reason);
    ck_assert_ptr_nonnull(strstr(stats().reason, "decided by the host"));
    for (int i = 0; i < 4; i++) right_run();
    ck_assert_uint_eq(stats().launches, 3);
}
END_TEST

START_TEST(a_pair_is_not_cut) { /* start(k0) k1 k2 branch() done k3 k4: the pair spans the branch */
    load(sample);
    thunk_t **k = exe()->thunks, *v[64];
    v[0] = start_of(1, 0, seq(1, k)), v[1] = done_of(1), v[2] = k[1];
    v[3] = start_of(2, 0, seq(0, k)), v[4] = branch_of(exe(), seq(1, k + 2)), v[5] = done_of(2);
    v[6] = k[3], v[7] = k[4], v[8] = k[4], v[9] = k[4];
    replace(10, v);
    host_answer();
    open_cuda("");
    for (int i = 0; i < 4; i++) right_run();
    const td_thunk_t *t = program->thunks.v;
    ck_assert_uint_eq(size_of_piece(&t[0]), 0); /* a pair and a kernel: two nodes are too few */
    ck_assert_uint_eq(size_of_piece(&t[3]), 0);
    ck_assert_uint_eq(size_of_piece(&t[6]), 4);
    ck_assert_uint_eq(stats().graphs, 1);
}
END_TEST

START_TEST(a_long_loop_is_not_unrolled) {
    load(sample);
    thunk_t **k = exe()->thunks, *v[64];
    for (int i = 0; i < 5; i++) v[i] = k[i];
    v[1] = loop_of(exe(), 20000, seq(1, &k[1])); /* as the loop's bodies change nothing, the answer stays */
    thunk_t *body[] = {k[2], k[2], k[2], k[2]};
    v[2] = loop_of(exe(), 5000, seq(4, body));
    replace(5, v);
    setenv("FAKECUDA_EMPTY", "1", 1);
    setenv("FAKECUDA_RACES", "0", 1);
    open_cuda("");
    const td_thunk_t *t = program->thunks.v;
    ck_assert_uint_eq(size_of_piece(&t[0]), 0);
    ck_assert_uint_eq(size_of_piece(&t[1]), 0);
    ck_assert_uint_eq(size_of_piece(&t[2]), 0);
    ck_assert_uint_eq(size_of_piece(t[2].seqs[1].v), 4); /* the body is a graph */
    ck_assert_uint_eq(stats().graphs, 1);
    ck_assert_msg(strstr(stats().reason, "unrolled") != NULL, "%s", stats().reason);
}
END_TEST

START_TEST(bodies_are_graphs) { /* a loop of three trips with a branch in it */
    load(sample);
    thunk_t **k = exe()->thunks, *v[64], *body[] = {k[2], k[2], k[2], branch_of(exe(), seq(1, &k[2]))};
    for (int i = 0; i < 5; i++) v[i] = k[i];
    v[2] = loop_of(exe(), 3, seq(4, body));
    replace(5, v);
    host_answer();
    open_cuda("");
    ck_assert_uint_eq(size_of_piece(program->thunks.v[2].seqs[1].v), 3);
    ck_assert_uint_eq(stats().graphs, 1);
    for (int i = 0; i < 4; i++) right_run();
    ck_assert_uint_eq(stats().captures, 1);
    ck_assert_uint_eq(stats().launches, 3 * 3);
}
END_TEST

/* ---- addresses ---- */
static bool find_state(uint32_t *in, uint32_t *out) {
    for (*in = 0; *in < td_program_input_count(program); ++*in)
        for (*out = 0; *out < td_program_output_count(program); ++*out)
            if (program->input_slot[*in] != UINT32_MAX && !td_program_state_check(program, *in, *out, NULL))
                return true;
    return false;
}
static void run_with_state(void *memory, uint32_t in, uint32_t out, answer_t *to) {
    const td_run_state_t s = {in, out, memory};
    ck_assert_msg(!td_state_reset(b, in, memory, inputs[in], &err), "%s", err.text);
    const td_run_args_t a = {.inputs = inputs, .outputs = outputs, .states = &s, .n_states = 1};
    ck_assert_msg(!td_program_run_with(b, &a, &err), "%s", err.text);
    keep(to);
}
START_TEST(other_addresses_are_updates) {
    uint32_t in = 0, out = 0;
    void *memory[2] = {NULL, NULL};
    bool refused = _i == 1; /* the driver refuses to update: the graph is made anew */
    if (refused) setenv("FAKECUDA_FAIL", "cuGraphExecUpdate_v2:1:910", 1);
    load(attention);
    open_cuda("");
    ck_assert(find_state(&in, &out));
    uint64_t bytes = td_program_state_bytes(program, in);
    for (int i = 0; i < 2; i++) ck_assert(!dev->ops->mem_get(dev, bytes, &memory[i], &err));
    run_with_state(memory[0], in, out, &want);
    static const struct { int which; uint64_t launches, captures, updates; } steps[] = {
        {0, 1, 1, 0}, {0, 2, 1, 0}, {1, 2, 1, 0}, {1, 3, 2, 1}, {1, 4, 2, 1}, {0, 4, 2, 1}, {1, 4, 2, 1}, {0, 4, 2, 1},
        {0, 5, 3, 2}, {0, 6, 3, 2},
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        run_with_state(memory[steps[i].which], in, out, &got);
        ck_assert_uint_eq(got.n, want.n);
        ck_assert_mem_eq(got.bytes, want.bytes, want.n);
        ck_assert_uint_eq(stats().launches, steps[i].launches);
        ck_assert_uint_eq(stats().captures, steps[i].captures);
        ck_assert_uint_eq(stats().updates, refused && steps[i].updates ? steps[i].updates - 1 : steps[i].updates);
    }
    ck_assert_uint_eq(calls("cuGraphInstantiateWithFlags"), refused ? 2 : 1);
    for (int i = 0; i < 2; i++) dev->ops->mem_put(dev, memory[i], bytes);
}
END_TEST

/* ---- failures ---- */
/* The call fails once: the piece is enqueued plainly for good, and the answer is right. */
static const struct { const char *fail, *reason; } refusals[] = {
    {"cuStreamBeginCapture_v2:1:801", "NOT_SUPPORTED"}, {"cuStreamEndCapture:1:901", "901"},
    {"cuGraphInstantiateWithFlags:1:2", "OUT_OF_MEMORY"}, {"cuLaunchKernelEx:9:1", "INVALID_VALUE"},
    {"cuEventRecord:20:1", "INVALID_VALUE"}, {"cuStreamWaitEvent:20:1", "INVALID_VALUE"},
};
START_TEST(refusals_are_told) {
    setenv("FAKECUDA_FAIL", refusals[_i].fail, 1);
    load(sample);
    pairs();
    host_answer();
    open_cuda("");
    for (int i = 0; i < 5; i++) right_run();
    td_graph_stats_t s = stats();
    ck_assert_uint_eq(s.graphs, 1);
    ck_assert_uint_eq(s.refused, 1);
    ck_assert_uint_eq(s.launches, 0);
    ck_assert_msg(strstr(s.reason, "thunks[0] (async_start)") == s.reason, "%s", s.reason);
    ck_assert_msg(strstr(s.reason, refusals[_i].reason) != NULL, "%s", s.reason);
}
END_TEST

START_TEST(a_launch_that_fails) {
    setenv("FAKECUDA_FAIL", "cuGraphLaunch:2:2", 1);
    load(attention);
    host_answer();
    open_cuda("");
    right_run();
    right_run();
    ck_assert_int_eq(run(&got), TD_NOMEM);
    ck_assert_msg(strstr(err.text, "thunks[0] to [10]: graph: cuGraphLaunch"), "%s", err.text);
    right_run(); /* plainly */
    right_run();
    right_run();
    ck_assert_uint_eq(stats().launches, 3);
}
END_TEST

START_TEST(a_context_that_dies) {
    setenv("FAKECUDA_FAIL", "cuLaunchKernelEx:14:700~", 1); /* in the capture */
    setenv("FAKECUDA_LEAKS", "0", 1);
    load(attention);
    host_answer();
    open_cuda("");
    right_run();
    ck_assert_int_eq(run(&got), TD_DEVICE);
    ck_assert_int_eq(run(&got), TD_DEVICE);
    ck_assert_msg(strstr(err.text, "failed before"), "%s", err.text);
}
END_TEST

START_TEST(cancelled_and_traced) {
    load(attention);
    host_answer();
    open_cuda("");
    _Atomic(int) cancel = 1;
    right_run();
    ck_assert_int_eq(td_program_run(b, inputs, outputs, &cancel, &err), TD_CANCELLED);
    ck_assert_uint_eq(stats().captures + stats().refused, 0);
    right_run();
    right_run();
    ck_assert_uint_eq(stats().launches, 1);
    ck_assert(!td_binding_trace(b, 100, &err));
    right_run();
    uint32_t n = 0;
    uint64_t left_out = 0;
    td_binding_trace_events(b, &n, &left_out);
    ck_assert_uint_eq(n, program->thunks.n + 2);
    ck_assert_uint_eq(stats().launches, 1);
}
END_TEST

/* Another thread allocates and frees while graphs are captured. */
static atomic_bool done;
static void *churn(void *unused) {
    (void)unused;
    while (!atomic_load(&done)) {
        void *p = NULL;
        td_stream_t *s = NULL;
        ck_assert(!dev->ops->mem_get(dev, 4 << 20, &p, NULL));
        ck_assert(!dev->ops->stream_create(dev, TD_STREAM_COMPUTE, &s, NULL));
        ck_assert(!dev->ops->memset32(s, p, 7, 4 << 20, NULL));
        ck_assert(!dev->ops->stream_sync(s, NULL));
        dev->ops->stream_destroy(s);
        dev->ops->mem_put(dev, p, 4 << 20);
    }
    return NULL;
}
START_TEST(other_threads_go_on) {
    pthread_t t;
    load(attention);
    host_answer();
    open_cuda("");
    ck_assert(!pthread_create(&t, NULL, churn, NULL));
    for (int i = 0; i < 20; i++) {
        right_run();
        right_run();
        right_run();
        ck_assert_uint_eq(stats().refused, 0);
        ck_assert_uint_ge(stats().launches, 2);
        td_binding_destroy(b);
        ck_assert(!td_binding_create(program, &counter.base, &b, &err));
    }
    atomic_store(&done, true);
    pthread_join(t, NULL);
}
END_TEST

START_TEST(memory_ends) {
    load(control);
    open_cuda("");
    td_binding_destroy(b);
    for (unsigned long long at = 1;; at++) {
        b = NULL;
        counter.fail_at = counter.gets + at;
        td_status_t st = td_binding_create(program, &counter.base, &b, &err);
        if (!st) break;
        ck_assert_int_eq(st, TD_NOMEM);
        ck_assert_uint_le(at, 200);
    }
    counter.fail_at = 0;
    ck_assert_uint_gt(stats().graphs, 1);
    for (int i = 0; i < 3; i++) ck_assert(!run(&got));
}
END_TEST

int main(void) {
    char path[400] = "";
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n > 0) path[n] = 0;
    if (strrchr(path, '/')) *strrchr(path, '/') = 0;
    snprintf(driver, sizeof driver, "%s/../fakecuda/libcuda.so.1", path);
    TCase *t = tcase_create("cuda_graph");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, same_answers, 0, 4 * PROGRAMS);
    tcase_add_test(t, off);
    tcase_add_test(t, a_branch_splits);
    tcase_add_test(t, a_pair_is_not_cut);
    tcase_add_test(t, bodies_are_graphs);
    tcase_add_test(t, a_long_loop_is_not_unrolled);
    tcase_add_loop_test(t, other_addresses_are_updates, 0, 2);
    tcase_add_loop_test(t, refusals_are_told, 0, sizeof refusals / sizeof *refusals);
    tcase_add_test(t, a_launch_that_fails);
    tcase_add_test(t, a_context_that_dies);
    tcase_add_test(t, cancelled_and_traced);
    tcase_add_test(t, other_threads_go_on);
    tcase_add_test(t, memory_ends);
    Suite *s = suite_create("cuda_graph");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
