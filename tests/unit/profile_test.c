/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles: own time of nested thunks by a clock of the test's, and the rows of a real program. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "proto/artifact.h"
#include "runtime/profile.h"
#include "runtime/program_in.h"
#include "tests/unit/thunk_forms.h"

/* ---- made-up thunks ---- */
static uint64_t now;
static uint64_t read_now(void *ctx) {
    (void)ctx;
    return now;
}
static const td_clock_t clock_of_test = {read_now, NULL};

static td_status_t leaf_enqueue(td_run_t *r, const td_thunk_t *t) {
    (void)r;
    now += t->bytes;
    return TD_OK;
}
static td_status_t twice_enqueue(td_run_t *r, const td_thunk_t *t) {
    now += 1;
    td_status_t st = td_thunk_run_seq(r, "body", &t->seqs[0]);
    if (!st) st = td_thunk_run_seq(r, "body", &t->seqs[0]);
    now += 2;
    return st;
}
static td_status_t bad_enqueue(td_run_t *r, const td_thunk_t *t) {
    now += t->bytes;
    return td_fail(r->err, TD_DEVICE, "bad");
}
static const td_thunk_kind_t leaf = {.name = "leaf", .enqueue = leaf_enqueue};
static const td_thunk_kind_t twice = {.name = "twice", .enqueue = twice_enqueue};
static const td_thunk_kind_t bad = {.name = "bad", .enqueue = bad_enqueue};

static void setup(void) {
    td_arena_init(&arena, td_alloc_default(), 0);
    now = 1000;
}
static void teardown(void) { td_arena_deinit(&arena); }

START_TEST(nested_thunks_have_their_own_time) {
    td_err_t err = {0};
    td_thunk_t inner[2] = {{.kind = &leaf, .number = 2, .annotation = "c", .bytes = 50},
                           {.kind = &leaf, .number = 3, .annotation = "d", .skip = true, .bytes = 7}};
    td_seq_t body = {inner, 2};
    td_thunk_t middle = {.kind = &twice, .number = 1, .annotation = "b", .seqs = &body, .n_seqs = 1};
    td_seq_t middle_body = {&middle, 1};
    td_thunk_t outer[2] = {{.kind = &twice, .number = 0, .annotation = "a", .seqs = &middle_body, .n_seqs = 1},
                           {.kind = &leaf, .number = 4, .annotation = "e", .bytes = 9}};
    td_seq_t all = {outer, 2};
    td_lane_t lane = {0};
    td_run_t r = {.err = &err, .lanes = &lane};
    ck_assert_int_eq(td_thunk_run_seq(&r, "thunks", &all), TD_OK); /* not asked for */
    ck_assert_int_eq(td_profile_create(&all, 5, &arena, &r.profile, &err), TD_OK);
    r.profile->clock = &clock_of_test;
    r.each = td_profile_enqueue;
    ck_assert_int_eq(td_thunk_run_seq(&r, "thunks", &all), TD_OK);
    ck_assert_int_eq(td_thunk_run_seq(&r, "thunks", &all), TD_OK);
    static const struct { const char *kind, *name; uint64_t calls, ns; } want[] = {
        {"twice", "a", 2, 6}, {"twice", "b", 4, 12}, {"leaf", "c", 8, 400}, {"leaf", "d", 0, 0}, {"leaf", "e", 2, 18},
    };
    ck_assert_uint_eq(r.profile->n, 5);
    for (int i = 0; i < 5; i++) {
        const td_profile_row_t *row = &r.profile->rows[i];
        ck_assert_str_eq(row->kind, want[i].kind);
        ck_assert_str_eq(row->name, want[i].name);
        ck_assert_uint_eq(row->calls, want[i].calls);
        ck_assert_uint_eq(row->ns, want[i].ns);
    }
}
END_TEST

START_TEST(a_failure_counts_and_is_passed_on) {
    td_err_t err = {0};
    td_thunk_t inner = {.kind = &bad, .number = 1, .annotation = "x", .bytes = 3};
    td_seq_t body = {&inner, 1};
    td_thunk_t outer = {.kind = &twice, .number = 0, .annotation = "y", .seqs = &body, .n_seqs = 1};
    td_seq_t all = {&outer, 1};
    td_lane_t lane = {0};
    td_run_t r = {.err = &err, .lanes = &lane};
    ck_assert_int_eq(td_profile_create(&all, 2, &arena, &r.profile, &err), TD_OK);
    r.profile->clock = &clock_of_test;
    r.each = td_profile_enqueue;
    ck_assert_int_eq(td_thunk_run_seq(&r, "thunks", &all), TD_DEVICE);
    ck_assert_str_eq(err.text, "thunks[0] (twice): body[0] (bad): bad");
    ck_assert_uint_eq(r.profile->rows[0].ns, 3);
    ck_assert_uint_eq(r.profile->rows[1].ns, 3);
    ck_assert_uint_eq(r.profile->rows[1].calls, 1);
}
END_TEST

/* ---- the sample, all of it as a loop's body ---- */
START_TEST(a_program_tells_its_thunks) {
    td_err_t err = {0};
    td_payload_table_t *table = NULL;
    td_artifact_t *artifact = NULL;
    td_module_t *m = NULL;
    td_device_t *dev = NULL;
    td_program_t *program = NULL;
    td_binding_t *b = NULL;
    const void *inputs[64] = {0}, *outputs[8] = {0};
    ck_assert(!td_payload_table_create(td_alloc_default(), &table, &err));
    static const char sample[] = "samples/store/digits/1/h100_sxm.aot";
    ck_assert(!td_artifact_open_file(sample, table, td_alloc_default(), &artifact, &err));
    exe_t *exe = (exe_t *)(uintptr_t)artifact->exe;
    size_t n = exe->n_thunks;
    thunk_t *loop = loop_of(exe, 3, seq(n, exe->thunks));
    exe->thunks = seq(1, &loop)->thunks;
    exe->n_thunks = 1;
    ck_assert(!td_host_device_create(td_alloc_default(), &dev, &err));
    ck_assert_msg(!td_module_open(artifact, td_alloc_default(), &m, &err), "%s", err.text);
    ck_assert_msg(!td_program_create(m, &(td_program_opts_t){.dev = dev}, &program, &err), "%s", err.text);
    td_module_close(m);
    for (uint32_t i = 0; i < td_program_input_count(program); i++)
        inputs[i] = td_arena_zalloc(&arena, td_io_host_bytes(td_program_input(program, i)->shape) + 64);
    ck_assert(!td_binding_create(program, td_alloc_default(), &b, &err));
    uint32_t rows = 1;
    ck_assert_ptr_null(td_binding_profile_rows(b, &rows));
    ck_assert_uint_eq(rows, 0);
    ck_assert(!td_program_run(b, inputs, outputs, NULL, &err));
    ck_assert(!td_binding_profile(b, &err));
    ck_assert(!td_binding_profile(b, &err)); /* once more changes nothing */
    for (int k = 0; k < 2; k++) ck_assert(!td_program_run(b, inputs, outputs, NULL, &err));
    const td_profile_row_t *row = td_binding_profile_rows(b, &rows);
    ck_assert_uint_eq(rows, n + 1);
    ck_assert_str_eq(row[0].kind, "while");
    ck_assert_uint_eq(row[0].calls, 2);
    for (uint32_t i = 1; i < rows; i++) {
        ck_assert(row[i].calls == 6 || !row[i].calls); /* 0: joined to another */
        ck_assert(row[i].name[0]);
    }
    td_binding_destroy(b);
    td_program_destroy(program);
    td_device_destroy(dev);
    td_artifact_close(artifact);
    td_payload_table_destroy(table);
}
END_TEST

int main(void) {
    TCase *t = tcase_create("profile");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, nested_thunks_have_their_own_time);
    tcase_add_test(t, a_failure_counts_and_is_passed_on);
    tcase_add_test(t, a_program_tells_its_thunks);
    Suite *s = suite_create("profile");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
