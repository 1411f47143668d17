/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of streams that is told from a module, against what a program lowered from it has: lanes, the lane of every
 * body, pairs. Forms are made from the sample's chain of five kernels, and taken from a compiler's programs. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/artifact.h"
#include "runtime/host/plan.h"
#include "runtime/program_in.h"
#include "runtime/stream_plan.h"
#include "tests/unit/thunk_forms.h"

#define GOLDEN "tests/golden/executables/h100_sxm/v6/"
static const char sample[] = "samples/store/digits/1/h100_sxm.aot";
static td_payload_table_t *table;
static td_artifact_t *artifact;
static td_module_t *m;
static td_err_t err;

static void setup(void) {
    td_arena_init(&arena, td_alloc_default(), 0);
    ck_assert(!td_payload_table_create(td_alloc_default(), &table, &err));
}
static void teardown(void) {
    td_module_close(m);
    td_artifact_close(artifact);
    td_payload_table_destroy(table);
    td_arena_deinit(&arena);
}
static void load(const char *path) {
    ck_assert_msg(!td_artifact_open_file(path, table, td_alloc_default(), &artifact, &err), "%s", err.text);
}
static exe_t *exe(void) { return (exe_t *)(uintptr_t)artifact->exe; }
static void replace(size_t n, thunk_t **v) {
    exe()->thunks = seq(n, v)->thunks;
    exe()->n_thunks = n;
}
static const td_stream_plan_t *plan(uint64_t light) {
    const td_stream_plan_t *p = NULL;
    if (!m) ck_assert_msg(!td_module_open(artifact, td_alloc_default(), &m, &err), "%s", err.text);
    ck_assert_msg(!td_module_stream_plan(m, light, 0, &arena, &p, &err), "%s", err.text);
    return p;
}

/* Starts of a program in order, with the lanes of their bodies. */
static void compare(const td_stream_plan_t *p, const td_seq_t *s, uint32_t *at, uint32_t lane) {
    for (uint32_t i = 0; i < s->n; i++) {
        const td_thunk_t *t = &s->v[i];
        uint32_t me = (*at)++;
        ck_assert_uint_lt(me, p->n_steps);
        ck_assert_str_eq(p->steps[me].kind, t->kind->name);
        ck_assert_str_eq(p->steps[me].annotation, t->annotation);
        ck_assert_uint_eq(p->steps[me].lane, lane);
        bool start = t->kind->enqueue == td_async_start_enqueue;
        ck_assert(start == (p->steps[me].what == TD_PLAN_START));
        if (start) {
            ck_assert_uint_eq(p->pairs[t->pair].lane, t->lane);
            ck_assert_uint_eq(p->pairs[t->pair].start, me);
            ck_assert_uint_eq(p->pairs[t->pair].id, t->id);
        }
        for (uint32_t k = 0; k < t->n_seqs; k++) compare(p, &t->seqs[k], at, start ? t->lane : lane);
    }
}
static void against_program(const char *options, uint64_t light) {
    td_device_t *dev = NULL;
    td_program_t *program = NULL;
    uint32_t at = 0;
    ck_assert(!td_host_device_open(options, td_alloc_default(), &dev, &err));
    dev->light_bytes = light;
    const td_stream_plan_t *p = plan(light);
    ck_assert_msg(!td_program_create(m, &(td_program_opts_t){.dev = dev}, &program, &err), "%s", err.text);
    ck_assert_uint_eq(p->n_lanes, program->n_lanes);
    ck_assert_uint_eq(p->n_pairs, program->n_pairs);
    ck_assert_uint_eq(p->n_steps, program->n_thunks);
    for (uint32_t i = 0; i < p->n_lanes; i++) {
        ck_assert_int_eq(p->lanes[i].use, program->lanes[i].use);
        ck_assert_int_eq(p->lanes[i].id, program->lanes[i].id);
    }
    compare(p, &program->thunks, &at, 0);
    ck_assert_uint_eq(at, p->n_steps);
    td_program_destroy(program);
    td_device_destroy(dev);
}

/* Pairs, one in a loop, one in another pair's body. */
static void rewrite(void) {
    thunk_t **k = exe()->thunks, *v[64];
    size_t n = exe()->n_thunks, at = 0;
    ck_assert_uint_ge(n, 5);
    for (size_t i = 0; i < n; i++) {
        thunk_t *pair[] = {start_of(i, i, seq(1, &k[i])), done_of(i)};
        if (i == 1) v[at++] = loop_of(exe(), 3, seq(2, pair));
        else if (i == 2) v[at++] = start_of(100, 7, seq(2, pair)), v[at++] = done_of(100);
        else v[at++] = pair[0], v[at++] = pair[1];
    }
    replace(at, v);
}

START_TEST(made_forms) {
    load(sample);
    rewrite();
    const td_stream_plan_t *p = plan(0);
    /* 0 start(0) > 1 k, 2 done; 3 while > 4 start(1) > 5 k, 6 done; 7 start(100) > 8 start(2) > 9 k, 10 done;
     * 11 done; … */
    ck_assert_uint_ge(p->n_steps, 18);
    static const struct { td_plan_what_t what; uint32_t parent, depth; bool begins; } want[] = {
        {TD_PLAN_START, TD_NO_STEP, 0, true}, {TD_PLAN_WORK, 0, 1, true}, {TD_PLAN_DONE, TD_NO_STEP, 0, false},
        {TD_PLAN_WORK, TD_NO_STEP, 0, false}, {TD_PLAN_START, 3, 1, true}, {TD_PLAN_WORK, 4, 2, true},
        {TD_PLAN_DONE, 3, 1, false}, {TD_PLAN_START, TD_NO_STEP, 0, false}, {TD_PLAN_START, 7, 1, true},
        {TD_PLAN_WORK, 8, 2, true}, {TD_PLAN_DONE, 7, 1, false}, {TD_PLAN_DONE, TD_NO_STEP, 0, false},
    };
    for (uint32_t i = 0; i < sizeof want / sizeof *want; i++) {
        ck_assert_int_eq(p->steps[i].what, want[i].what);
        ck_assert_uint_eq(p->steps[i].parent, want[i].parent);
        ck_assert_uint_eq(p->steps[i].depth, want[i].depth);
        ck_assert(p->steps[i].begins == want[i].begins);
    }
    ck_assert_str_eq(p->steps[4].sequence_name, "body");
    ck_assert_uint_eq(p->n_events, p->n_pairs + 1);
    ck_assert_uint_eq(p->lanes[0].use, TD_STREAM_MAIN);
    const td_plan_pair_t *outer = &p->pairs[p->steps[7].pair];
    ck_assert_uint_eq(outer->first, 8);
    ck_assert_uint_eq(outer->last, 10);
    ck_assert_uint_eq(outer->done, 11);
    ck_assert_int_eq(outer->use, TD_STREAM_COMMUNICATION);
    ck_assert_int_eq(outer->stream, 3);
    ck_assert_uint_eq(p->steps[8].lane, outer->lane);
    against_program("", 0);
    against_program("", UINT64_MAX);
    for (uint32_t i = 0; i < p->n_pairs; i++) ck_assert(!p->pairs[i].light);
    ck_assert(plan(UINT64_MAX)->pairs[0].light);
}
END_TEST

START_TEST(an_empty_body) {
    load(sample);
    thunk_t *v[32];
    size_t n = exe()->n_thunks;
    v[0] = start_of(5, 2, seq(0, v));
    memcpy(v + 1, exe()->thunks, n * sizeof *v);
    v[n + 1] = done_of(5);
    replace(n + 2, v);
    const td_stream_plan_t *p = plan(0);
    ck_assert_uint_eq(p->n_pairs, 1);
    ck_assert_uint_eq(p->pairs[0].start, 0);
    ck_assert_uint_eq(p->pairs[0].done, p->n_steps - 1);
    ck_assert_uint_eq(p->pairs[0].first, TD_NO_STEP);
    ck_assert_uint_eq(p->pairs[0].last, TD_NO_STEP);
}
END_TEST

START_TEST(folded_streams_share) {
    load(sample);
    thunk_t *v[2 * TD_LIMIT_LANES + 32];
    size_t at = 0;
    for (uint64_t i = 0; i < TD_LIMIT_LANES + 4; i++) v[at++] = start_of(i, i * 2, seq(0, v)), v[at++] = done_of(i);
    replace(at, v);
    const td_stream_plan_t *p = plan(0);
    uint32_t bodies = 0;
    ck_assert_uint_eq(p->n_lanes, TD_LIMIT_LANES);
    for (uint32_t i = 0; i < p->n_lanes; i++) bodies += p->lanes[i].n_bodies;
    ck_assert_uint_eq(bodies, TD_LIMIT_LANES + 4);
    ck_assert_uint_eq(p->lanes[0].n_bodies, 0);
}
END_TEST

static const char *const programs[] = {GOLDEN "control/executable.aot", GOLDEN "streams/executable.aot",
                                       GOLDEN "attention/executable.aot"};
START_TEST(compiled_programs) {
    load(programs[_i]);
    against_program("", 0);
    against_program("", 1 << 16);
}
END_TEST

START_TEST(memory_ends) {
    td_counting_alloc_t c;
    const td_stream_plan_t *p = NULL;
    load(sample);
    rewrite();
    plan(0);
    for (uint64_t at = 1;; at++) {
        td_arena_t a;
        td_counting_alloc_init(&c, td_alloc_default());
        c.fail_at = at;
        td_arena_init(&a, &c.base, 0);
        td_status_t st = td_module_stream_plan(m, 0, 0, &a, &p, &err);
        td_arena_deinit(&a);
        if (!st) break;
        ck_assert_int_eq(st, TD_NOMEM);
        ck_assert_uint_lt(at, 100);
    }
    ck_assert_uint_eq(c.live_bytes, 0);
}
END_TEST

int main(void) {
    TCase *t = tcase_create("stream_plan");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, made_forms);
    tcase_add_test(t, an_empty_body);
    tcase_add_test(t, folded_streams_share);
    tcase_add_loop_test(t, compiled_programs, 0, sizeof programs / sizeof *programs);
    tcase_add_test(t, memory_ends);
    Suite *s = suite_create("stream_plan");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
