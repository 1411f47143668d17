/* SPDX-License-Identifier: Apache-2.0 */
/* Traces of runs, on the host device, its delayed streams and the stand-in CUDA driver: every thunk that ran is told,
 * in its place and nested as the program nests it; and where a run stands while it is on. */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "proto/artifact.h"
#include "runtime/host/plan.h"
#include "runtime/program_in.h"
#include "tests/unit/thunk_forms.h"

#define GOLDEN "tests/golden/executables/h100_sxm/v6/"
static const char sample[] = "samples/store/digits/1/h100_sxm.aot", control[] = GOLDEN "control/executable.aot";
static char driver[512];
static td_counting_alloc_t counter;
static td_payload_table_t *table;
static td_artifact_t *artifact;
static td_device_t *dev;
static td_program_t *program;
static td_binding_t *b;
static td_err_t err;
static const void *inputs[64], *outputs[64];

static void setup(void) {
    td_arena_init(&arena, td_alloc_default(), 0);
    td_counting_alloc_init(&counter, td_alloc_default());
    ck_assert(!td_payload_table_create(td_alloc_default(), &table, &err));
}
static void teardown(void) {
    td_binding_destroy(b);
    td_program_destroy(program);
    td_device_destroy(dev);
    td_artifact_close(artifact);
    td_payload_table_destroy(table);
    td_arena_deinit(&arena);
    ck_assert_uint_eq(counter.live_bytes, 0);
}
static void load(const char *path) {
    setenv("FAKECUDA_ARTIFACT", path, 1);
    ck_assert_msg(!td_artifact_open_file(path, table, td_alloc_default(), &artifact, &err), "%s", err.text);
}

static const char *const devices[] = {"", "delay=3", "cuda"};
static void open_program(const char *device) {
    td_module_t *m = NULL;
    char spec[600];
    snprintf(spec, sizeof spec, "cuda:driver=%s", driver);
    td_status_t st = strcmp(device, "cuda") ? td_host_device_open(device, &counter.base, &dev, &err)
                                            : td_device_open(spec, &counter.base, &dev, &err);
    ck_assert_msg(!st, "%s", err.text);
    dev->light_bytes = 0; /* bodies on their own streams */
    ck_assert_msg(!td_module_open(artifact, td_alloc_default(), &m, &err), "%s", err.text);
    const td_program_opts_t opts = {.dev = dev, .alloc = &counter.base};
    ck_assert_msg(!td_program_create(m, &opts, &program, &err), "%s", err.text);
    td_module_close(m);
    for (uint32_t i = 0; i < td_program_input_count(program); i++)
        inputs[i] = td_arena_zalloc(&arena, td_io_host_bytes(td_program_input(program, i)->shape) + 64);
    ck_assert_msg(!td_binding_create(program, &counter.base, &b, &err), "%s", err.text);
}
static td_status_t run(void) { return td_program_run(b, inputs, outputs, NULL, &err); }

/* ---- what must be in a trace ---- */
typedef struct reader {
    const td_trace_event_t *v;
    uint32_t n, at;
} reader_t;
static const td_trace_event_t *next(reader_t *r, const char *kind, const char *name, uint32_t lane, uint32_t depth) {
    ck_assert_uint_lt(r->at, r->n);
    const td_trace_event_t *e = &r->v[r->at++];
    ck_assert_str_eq(e->kind, kind);
    ck_assert_str_eq(e->name, name);
    ck_assert_uint_eq(e->lane, lane);
    ck_assert_uint_eq(e->depth, depth);
    return e;
}
#define END(e) ((e)->start_ns + (e)->ns)
/* Clocks of devices are rounded to a few ns, float milliseconds. */
#define SLACK 200

/* The events of a sequence that ran once; loops say themselves how often their sequences did. */
static void follow(reader_t *r, const td_seq_t *s, uint32_t lane, uint32_t depth, const td_trace_event_t *around) {
    const td_trace_event_t *before = NULL;
    for (uint32_t i = 0; i < s->n; i++) {
        const td_thunk_t *t = &s->v[i];
        if (t->skip) continue;
        const td_trace_event_t *e = next(r, t->kind->name, t->annotation, lane, depth);
        bool start = t->kind->enqueue == td_async_start_enqueue, wait = t->kind->enqueue == td_while_enqueue;
        if (around && around->lane == lane) {
            ck_assert_uint_ge(e->start_ns + SLACK, around->start_ns);
            ck_assert_uint_le(END(e), END(around) + SLACK);
        }
        if (around && around->lane != lane) ck_assert_uint_ge(e->start_ns + SLACK, around->start_ns);
        if (before) ck_assert_uint_ge(e->start_ns + SLACK, END(before));
        if (wait) {
            for (bool go = true; go;) { /* a condition, and a body unless it was the last */
                if (!t->has_trip_count) follow(r, &t->seqs[0], lane, depth + 1, e);
                const td_thunk_t *first = t->seqs[1].n ? &t->seqs[1].v[0] : NULL;
                const td_trace_event_t *now = r->at < r->n ? &r->v[r->at] : NULL;
                go = first && now && now->depth == depth + 1 && !strcmp(now->name, first->annotation);
                if (go) follow(r, &t->seqs[1], lane, depth + 1, e);
            }
        } else if (t->kind->enqueue == td_conditional_enqueue) {
            for (uint32_t k = 0; k < t->n_seqs; k++)
                if (t->seqs[k].n && r->at < r->n && r->v[r->at].depth == depth + 1 &&
                    !strcmp(r->v[r->at].name, t->seqs[k].v[0].annotation)) {
                    follow(r, &t->seqs[k], lane, depth + 1, e);
                    break;
                }
        } else {
            for (uint32_t k = 0; k < t->n_seqs; k++) follow(r, &t->seqs[k], start ? t->lane : lane, depth + 1, e);
        }
        before = e;
    }
}
static void check_trace(void) {
    reader_t r = {0};
    uint64_t left_out = 1;
    r.v = td_binding_trace_events(b, &r.n, &left_out);
    ck_assert_uint_eq(left_out, 0);
    ck_assert_ptr_eq(next(&r, "copy", "inputs", 0, 0), r.v);
    follow(&r, &program->thunks, 0, 0, NULL);
    const td_trace_event_t *last = next(&r, "copy", "outputs", 0, 0);
    ck_assert_uint_eq(r.at, r.n);
    for (uint32_t i = 0; i < r.n; i++)
        if (!r.v[i].lane) ck_assert_uint_le(END(&r.v[i]), END(last) + SLACK);
}

START_TEST(programs_are_told) {
    load(_i % 2 ? sample : control);
    open_program(devices[_i / 2]);
    ck_assert(!run());
    ck_assert(!td_binding_trace(b, 4096, &err));
    ck_assert(!td_binding_trace(b, 7, &err)); /* once more changes nothing */
    for (int k = 0; k < 3; k++) {
        ck_assert_msg(!run(), "%s", err.text);
        check_trace();
    }
}
END_TEST

/* The sample's kernels in pairs, and one in a loop. */
static void rewrite(void) {
    exe_t *exe = (exe_t *)(uintptr_t)artifact->exe;
    thunk_t **k = exe->thunks, *v[64];
    size_t n = exe->n_thunks, at = 0;
    for (size_t i = 0; i < n; i++) {
        thunk_t *pair[] = {start_of(i, i, seq(1, &k[i])), done_of(i)};
        if (i == 1) v[at++] = loop_of(exe, 3, seq(2, pair));
        else v[at++] = pair[0], v[at++] = pair[1];
    }
    exe->thunks = seq(at, v)->thunks;
    exe->n_thunks = at;
}

/* What waits for a body ends after it. */
START_TEST(pairs_are_ordered) {
    load(sample);
    rewrite();
    open_program(devices[_i]);
    ck_assert(!td_binding_trace(b, 4096, &err));
    for (int k = 0; k < 3; k++) {
        ck_assert_msg(!run(), "%s", err.text);
        check_trace();
        uint32_t n;
        uint64_t left_out;
        const td_trace_event_t *v = td_binding_trace_events(b, &n, &left_out);
        uint64_t body_end = 0, bodies = 0;
        for (uint32_t i = 0; i < n; i++) {
            if (v[i].lane) body_end = END(&v[i]), bodies++;
            if (!strcmp(v[i].kind, "async_done")) ck_assert_uint_ge(END(&v[i]) + SLACK, body_end);
        }
        ck_assert_uint_eq(bodies, program->n_pairs + 2); /* one of them three times */
    }
}
END_TEST

START_TEST(what_finds_no_room_is_counted) {
    load(sample);
    open_program(devices[_i]);
    uint32_t n;
    uint64_t left_out;
    ck_assert(!td_binding_trace(b, 3, &err));
    for (int k = 0; k < 2; k++) {
        ck_assert(!run());
        const td_trace_event_t *v = td_binding_trace_events(b, &n, &left_out);
        ck_assert_uint_eq(n, 3);
        uint32_t ran = 0;
        for (uint32_t i = 0; i < program->thunks.n; i++) ran += !program->thunks.v[i].skip;
        ck_assert_uint_eq(left_out, ran + 2 - 3); /* inputs, outputs */
        ck_assert_str_eq(v[0].name, "inputs");
    }
}
END_TEST

START_TEST(a_run_that_fails_has_none) {
    load(sample);
    open_program(devices[_i]);
    _Atomic(int) cancel = 1;
    uint32_t n = 1;
    uint64_t left_out = 1;
    ck_assert_ptr_null(td_binding_trace_events(b, &n, &left_out));
    ck_assert(!n && !left_out);
    ck_assert_int_eq(td_binding_trace(b, 0, &err), TD_USAGE);
    ck_assert_int_eq(td_binding_trace(b, TD_LIMIT_TRACE_EVENTS + 1, &err), TD_USAGE);
    ck_assert(!td_binding_trace(b, 100, &err));
    ck_assert_int_eq(td_program_run(b, inputs, outputs, &cancel, &err), TD_CANCELLED);
    td_binding_trace_events(b, &n, &left_out);
    ck_assert_uint_eq(n, 0);
    ck_assert(!run());
    check_trace();
}
END_TEST

START_TEST(memory_ends) {
    load(sample);
    open_program(devices[_i]);
    for (unsigned long long at = 1;; at++) {
        counter.fail_at = counter.gets + at;
        td_status_t st = td_binding_trace(b, 100, &err);
        if (!st) break;
        ck_assert_int_eq(st, TD_NOMEM);
        ck_assert_uint_le(at, 8);
    }
    counter.fail_at = 0;
    ck_assert(!run());
    check_trace();
}
END_TEST

/* ---- where a run stands ---- */
static atomic_int gate, arrived;
static td_status_t gated(const td_kernel_t *k, void *const *bufs, void *scratch, td_err_t *e) {
    (void)k, (void)bufs, (void)scratch, (void)e;
    atomic_store(&arrived, 1);
    while (!atomic_load(&gate)) nanosleep(&(struct timespec){0, 100000}, NULL);
    return TD_OK;
}
static void *run_in_thread(void *st) {
    *(td_status_t *)st = td_program_run(b, inputs, outputs, NULL, NULL);
    return NULL;
}
static char text[1024];
static void hold(const td_thunk_t *t) {
    pthread_t thread;
    td_status_t st = TD_INTERNAL;
    td_status_t (*real)(const td_kernel_t *, void *const *, void *, td_err_t *) = t->kernel->run;
    atomic_store(&gate, 0), atomic_store(&arrived, 0);
    t->kernel->run = gated;
    ck_assert(!td_binding_where(b, text, sizeof text));
    ck_assert_str_eq(text, "");
    ck_assert(!pthread_create(&thread, NULL, run_in_thread, &st));
    while (!atomic_load(&arrived)) nanosleep(&(struct timespec){0, 100000}, NULL);
    nanosleep(&(struct timespec){0, 20000000}, NULL); /* for what the other streams do meanwhile */
    ck_assert(td_binding_where(b, text, sizeof text));
    char cut[24];
    ck_assert(td_binding_where(b, cut, sizeof cut));
    ck_assert_uint_le(strlen(cut), sizeof cut - 1);
    atomic_store(&gate, 1);
    pthread_join(thread, NULL);
    ck_assert_int_eq(st, TD_OK);
    t->kernel->run = real;
    ck_assert(!td_binding_where(b, cut, sizeof cut));
}

START_TEST(where_the_main_stream_stands) {
    load(sample);
    open_program("");
    const td_thunk_t *t = &program->thunks.v[2];
    ck_assert(t->kernel && !t->skip);
    hold(t);
    char want[200];
    snprintf(want, sizeof want, "thunks are enqueued; main stream at thunks[2] (%s) '%s'", t->kind->name,
             t->annotation);
    ck_assert_str_eq(text, want);
}
END_TEST

START_TEST(where_another_stream_stands) {
    load(sample);
    rewrite();
    open_program(_i ? "delay=5" : "");
    /* the third pair: start, done, while, start */
    const td_thunk_t *start = &program->thunks.v[3], *t = &start->seqs[0].v[0];
    ck_assert_ptr_eq(start->kind->enqueue, td_async_start_enqueue);
    hold(t);
    char want[200];
    snprintf(want, sizeof want, "; %s stream %d at thunks[3] (async_start).thunks[0] (%s) '%s', running",
             td_stream_use_name(start->stream_use), (int)start->stream, t->kind->name, t->annotation);
    ck_assert_msg(strstr(text, want), "'%s' is not in '%s'", want, text);
}
END_TEST

int main(void) {
    char exe[400] = "";
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (n > 0) exe[n] = 0;
    if (strrchr(exe, '/')) *strrchr(exe, '/') = 0;
    snprintf(driver, sizeof driver, "%s/../fakecuda/libcuda.so.1", exe);
    TCase *t = tcase_create("trace");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, programs_are_told, 0, 6);
    tcase_add_loop_test(t, pairs_are_ordered, 0, 3);
    tcase_add_loop_test(t, what_finds_no_room_is_counted, 0, 3);
    tcase_add_loop_test(t, a_run_that_fails_has_none, 0, 3);
    tcase_add_loop_test(t, memory_ends, 0, 2);
    tcase_add_test(t, where_the_main_stream_stands);
    tcase_add_loop_test(t, where_another_stream_stands, 0, 2);
    Suite *s = suite_create("trace");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
