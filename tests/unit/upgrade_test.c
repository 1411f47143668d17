/* SPDX-License-Identifier: Apache-2.0 */
/* contract/upgrade and proto/strip on artifacts written as text: each row of the tables, what it leaves alone, and
 * what is refused. Old and new forms are those that the releases' compilers write. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "contract/upgrade.h"
#include "executable.pb-c.h"
#include "proto/strip.h"
#include "proto/write.h"

static td_counting_alloc_t counter;
static td_payload_table_t *table;
static td_artifact_t *a;

static void setup(void) {
    td_counting_alloc_init(&counter, td_alloc_default());
    ck_assert_int_eq(td_payload_table_create(&counter.base, &table, NULL), TD_OK);
    a = NULL;
}
static void teardown(void) {
    td_artifact_close(a);
    td_payload_table_destroy(table);
    ck_assert_uint_eq(counter.live_bytes, 0);
}

/* One thunk, one instruction, further fields of the executable. */
static void open_text(const char *thunk, const char *instruction, const char *more) {
    char text[4096];
    td_err_t err = {0};
    int n = snprintf(text, sizeof text,
                     "executable_and_options { compile_options { executable_build_options { debug_options {"
                     " xla_gpu_command_buffer_update_mode: 1 xla_gpu_autotune_level: 4 } } } }\n"
                     "gpu_executable { hlo_module_with_config { hlo_module { name: \"m\" stack_frame_index {}"
                     " computations { name: \"c\" instructions { name: \"i\" %s } } } } thunks { %s } %s }\n",
                     instruction, thunk, more);
    td_status_t s = td_artifact_open((td_span_t){(const uint8_t *)text, (size_t)n}, table, &counter.base, &a, &err);
    ck_assert_msg(s == TD_OK, "%s", err.text);
    ck_assert_uint_eq(a->n_skipped_names, 0);
}

static uint32_t row(const char *name) {
    for (uint32_t i = 0; i < td_upgrade_count(); i++)
        if (!strcmp(td_upgrade_row(i)->name, name)) return i;
    ck_abort_msg("no row %s", name);
    return 0;
}

/* Upgrades and returns how often the row changed something. */
static uint32_t changed(const char *release, const char *name) {
    td_err_t err = {0};
    td_upgrade_report_t r;
    ck_assert_msg(td_upgrade_artifact(a, release, &r, &err) == TD_OK, "%s", err.text);
    return r.applied[row(name)];
}
static void refused(const char *release, const char *part) {
    td_err_t err = {0};
    td_upgrade_report_t r;
    ck_assert_int_eq(td_upgrade_artifact(a, release, &r, &err), TD_UNSUPPORTED);
    ck_assert_msg(strstr(err.text, part) != NULL, "%s", err.text);
}

#define SUMMARY "buffer_allocations_debug_summary: \"s\""
#define MEMZERO "memzero_thunk { dest_buffer { } }"

static const Xla__HloInstructionProto *instruction(void) {
    return a->exe->hlo_module_with_config->hlo_module->computations[0]->instructions[0];
}

START_TEST(comparison) {
    static const char *const pairs[][2] = {{"SIGNED", "TOTAL"},
                                           {"UNSIGNED", "TOTAL"},
                                           {"FLOAT", "PARTIAL"},
                                           {"TOTALORDER", "TOTAL"},
                                           {"WEAKORDER", "WEAK"}};
    char text[64];
    snprintf(text, sizeof text, "comparison_type: \"%s\"", pairs[_i][0]);
    open_text(MEMZERO, text, SUMMARY);
    ck_assert_uint_eq(changed("0.11.1", "comparison-order"), 0); /* not known there */
    ck_assert_uint_eq(changed("0.11.2", "comparison-order"), 1); /* both are written */
    ck_assert_str_eq(instruction()->comparison_order, pairs[_i][1]);
    ck_assert_str_eq(instruction()->comparison_type, pairs[_i][0]);
    ck_assert_uint_eq(changed("0.12.0.1", "comparison-order"), 1);
    ck_assert_ptr_null(instruction()->comparison_type);
    ck_assert_uint_eq(changed("0.12.0.1", "comparison-order"), 0);
}
END_TEST

START_TEST(comparison_unknown) {
    open_text(MEMZERO, "comparison_type: \"LEXICAL\"", SUMMARY);
    refused("0.12.0.1", "LEXICAL");
}
END_TEST

START_TEST(summary_and_update_mode) {
    open_text(MEMZERO, "", "");
    td_upgrade_report_t r;
    ck_assert_int_eq(td_upgrade_artifact(a, "0.11.0", &r, NULL), TD_OK);
    ck_assert_uint_eq(r.applied[row("debug-summary")], 1);
    ck_assert_uint_eq(r.applied[row("update-mode")], 1);
    ck_assert_str_ne(a->exe->buffer_allocations_debug_summary, "");
    /* xla_gpu_autotune_level = 123 is left of the options */
    const ProtobufCBinaryData *o = &a->options->executable_build_options->debug_options;
    ck_assert_uint_eq(o->len, 3);
    ck_assert_mem_eq(o->data, "\xd8\x07\x04", 3);
}
END_TEST

/* Where a summary is written the numbers have their new meaning. */
START_TEST(update_mode_of_later_releases) {
    open_text(MEMZERO, "", SUMMARY);
    ck_assert_uint_eq(changed("0.12.0.1", "update-mode"), 0);
    ck_assert_uint_eq(changed("0.12.0.1", "debug-summary"), 0);
    ck_assert_uint_gt(a->options->executable_build_options->debug_options.len, 3);
}
END_TEST

START_TEST(all_reduce) {
    open_text("all_reduce_thunk { reduction_kind: REDUCTION_KIND_SUM kernel_name: \"k\" is_async: true use_pdl: true }",
              "", "");
    ck_assert_uint_eq(changed("0.12.0.1", "all-reduce-kernel"), 1);
    const Xla__Gpu__AllReduceThunkProto *t = a->exe->thunks[0]->all_reduce_thunk;
    ck_assert(t->has_reduction_kind && !t->kernel_name && !t->has_is_async && !t->has_use_pdl);
}
END_TEST

START_TEST(collective_kernel) {
    open_text("collective_kernel_thunk { reduction_kind: REDUCTION_KIND_SUM is_async: true kernel_spec { } }", "",
              SUMMARY);
    td_upgrade_report_t r;
    td_err_t err = {0};
    ck_assert_msg(td_upgrade_artifact(a, "0.12.0.1", &r, &err) == TD_OK, "%s", err.text);
    ck_assert_uint_eq(r.applied[row("collective-kernel")], 1);
    ck_assert_uint_eq(r.n_dropped, 1); /* is_async */
    const Xla__Gpu__CollectiveKernelThunkProto *t = a->exe->thunks[0]->collective_kernel_thunk;
    ck_assert(!t->has_reduction_kind && !t->has_is_async);
}
END_TEST

START_TEST(collective_kernel_without_spec) {
    open_text("collective_kernel_thunk { kernel_name: \"kk\" }", "", SUMMARY);
    refused("0.12.0.1", "kk");
}
END_TEST

START_TEST(ragged_fallback) {
    open_text("ragged_all_to_all_thunk { num_total_updates: 1 }", "", "");
    ck_assert_uint_eq(changed("0.12.0.1", "ragged-fallback"), 1);
    ck_assert(a->exe->thunks[0]->ragged_all_to_all_thunk->allow_fallback_to_nccl);
}
END_TEST

#define FUSION(config) "dynamic_slice_fusion_thunk { parameters { slice_config { " config " } } }"
static const Xla__Gpu__DynamicSliceConfig *config(void) {
    return a->exe->thunks[0]->dynamic_slice_fusion_thunk->parameters[0]->slice_config;
}
START_TEST(linear) {
    open_text(FUSION("loop_index: 0 byte_offset: 8 byte_stride: 16"), "", SUMMARY);
    ck_assert_uint_eq(changed("0.11.2", "linear-offsets"), 0);
    ck_assert_uint_eq(changed("0.12.0.1", "linear-offsets"), 1);
    ck_assert_int_eq(config()->linear->byte_offset, 8);
    ck_assert_int_eq(config()->linear->byte_stride, 16);
    ck_assert_int_eq(config()->byte_offset, 8);
}
END_TEST
START_TEST(linear_leaves_tables) {
    open_text(FUSION("loop_index: 0 table { offsets: [1, 2] }"), "", SUMMARY);
    ck_assert_uint_eq(changed("0.12.0.1", "linear-offsets"), 0);
    ck_assert_uint_eq(config()->table->n_offsets, 2);
}
END_TEST

START_TEST(refusals) {
    static const char *const kinds[] = {"dynamic_memcpy_thunk", "copy_done_thunk", "dynamic_slice_thunk",
                                        "collective_done_thunk", "nvshmem_send_thunk"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char thunk[128];
        snprintf(thunk, sizeof thunk, "%s { }", kinds[i]);
        open_text(thunk, "", "");
        refused("0.12.0.1", kinds[i]);
        td_artifact_close(a);
        a = NULL;
    }
    open_text(MEMZERO, "", "");
    td_upgrade_report_t r;
    ck_assert_int_eq(td_upgrade_artifact(a, "0.13.0", &r, NULL), TD_USAGE);
    ck_assert_int_eq(td_upgrade_artifact(a, "", &r, NULL), TD_USAGE);
    ck_assert_int_eq(td_upgrade_artifact(a, "0.8.0", &r, NULL), TD_UNSUPPORTED);
    ck_assert_int_eq(td_upgrade_artifact(a, "0.12.0", &r, NULL), TD_OK);
}
END_TEST

/* Backwards only what the older release knows. */
START_TEST(to_an_older_release) {
    open_text(FUSION("loop_index: 0 table { offsets: 1 }"), "", SUMMARY);
    refused("0.11.2", "table");
}
END_TEST

START_TEST(no_thunks) {
    open_text("", "", "");
    ((Xla__Gpu__GpuExecutableProto *)(uintptr_t)a->exe)->n_thunks = 0;
    refused("0.12.0.1", "no thunks");
}
END_TEST

START_TEST(rows_name_releases) {
    for (uint32_t i = 0; i < td_upgrade_count(); i++) ck_assert_int_ge(td_ledger_release(td_upgrade_row(i)->since), 0);
}
END_TEST

/* ---- strip ---- */

START_TEST(strip_classes) {
    uint32_t mask = 0;
    td_strip_report_t r;
    open_text(MEMZERO, "metadata { op_name: \"f\" } original_value { }", SUMMARY " asm_text: \"x\"");
    ck_assert_int_eq(td_strip_parse("all", &mask, NULL), TD_OK);
    ck_assert_uint_eq(mask, (1u << td_strip_class_count()) - 1);
    static const uint64_t fields[] = {2, 2, 1}; /* metadata, stack frames; original value, summary; text */
    for (uint32_t i = 0; i < td_strip_class_count(); i++) {
        ck_assert_int_eq(td_strip(a, i, &r, NULL), TD_OK);
        ck_assert_uint_eq(r.fields, fields[i]);
    }
    ck_assert(!instruction()->has_metadata && !instruction()->has_original_value && !a->exe->has_asm_text);
    ck_assert_str_eq(a->exe->buffer_allocations_debug_summary, "(stripped)\n");
    ck_assert_str_eq(instruction()->name, "i");
}
END_TEST

START_TEST(strip_words) {
    uint32_t mask = 77;
    static const char *const bad[] = {"", "debug,", ",debug", "debu", "debugs", "all,x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_int_eq(td_strip_parse(bad[i], &mask, NULL), TD_USAGE);
    ck_assert_uint_eq(mask, 77);
    ck_assert_int_eq(td_strip_parse("debug,hlo-metadata,debug", &mask, NULL), TD_OK);
    ck_assert_uint_eq(mask, 3);
}
END_TEST

int main(void) {
    Suite *s = suite_create("upgrade");
    TCase *t = tcase_create("all");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, comparison, 0, 5);
    tcase_add_test(t, comparison_unknown);
    tcase_add_test(t, summary_and_update_mode);
    tcase_add_test(t, update_mode_of_later_releases);
    tcase_add_test(t, all_reduce);
    tcase_add_test(t, collective_kernel);
    tcase_add_test(t, collective_kernel_without_spec);
    tcase_add_test(t, ragged_fallback);
    tcase_add_test(t, linear);
    tcase_add_test(t, linear_leaves_tables);
    tcase_add_test(t, refusals);
    tcase_add_test(t, to_an_older_release);
    tcase_add_test(t, no_thunks);
    tcase_add_test(t, rows_name_releases);
    tcase_add_test(t, strip_classes);
    tcase_add_test(t, strip_words);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
