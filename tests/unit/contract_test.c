/* SPDX-License-Identifier: Apache-2.0 */
/* contract/: the ledger's table, days, what a scan finds, and verdicts on the sample with its messages changed.
 * Dates and releases are the ledger's. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "contract/day.h"
#include "contract/ignorable.h"
#include "contract/schema.h"
#include "contract/verdict.h"
#include "executable.pb-c.h"
#include "proto/pb.h"

static const char sample[] = "samples/store/digits/1/h100_sxm.aot";
typedef Xla__Gpu__GpuExecutableProto exe_t;

static td_counting_alloc_t counter;
static td_payload_table_t *table;
static td_artifact_t *artifact;
static td_verdict_t v;

static void setup(void) {
    td_err_t err = {0};
    td_counting_alloc_init(&counter, td_alloc_default());
    ck_assert_int_eq(td_payload_table_create(&counter.base, &table, &err), TD_OK);
    ck_assert_msg(td_artifact_open_file(sample, table, &counter.base, &artifact, &err) == TD_OK, "%s", err.text);
    v = (td_verdict_t){0};
}
static void teardown(void) {
    td_verdict_deinit(&v);
    td_artifact_close(artifact);
    td_payload_table_destroy(table);
    ck_assert_uint_eq(counter.live_bytes, 0);
}
static exe_t *exe(void) { return (exe_t *)(uintptr_t)artifact->exe; }

static void judge(const td_contract_policy_t *p) {
    td_module_t *m = NULL;
    td_err_t module_err = {0}, err = {0};
    td_verdict_deinit(&v);
    (void)td_module_open(artifact, &counter.base, &m, &module_err);
    ck_assert_msg(td_verdict_make(artifact, m, &module_err, p, &counter.base, &v, &err) == TD_OK, "%s", err.text);
    td_module_close(m);
}
static void judge_on(int32_t day) { judge(&(td_contract_policy_t){.day = day}); }
static void play(int32_t day) { judge(&(td_contract_policy_t){.day = day, .play = true}); }

#define HOLDS(text, part) ck_assert_msg(strstr(text, part) != NULL, "'%s' lacks '%s'", text, part)
#define VERDICT(k, l)                                                                                                  \
    ck_assert_msg(v.kind == (k) && v.loads == (l), "%s %d: %s", td_verdict_name(v.kind), v.loads, v.reason)

static Xla__Gpu__CustomKernelThunkProto *kernel(void) {
    for (size_t i = 0; i < exe()->n_thunks; i++)
        if (exe()->thunks[i]->impl_case == XLA__GPU__THUNK_PROTO__IMPL_CUSTOM_KERNEL_THUNK)
            return exe()->thunks[i]->custom_kernel_thunk;
    ck_abort_msg("the sample has no kernel");
    return NULL;
}

START_TEST(ledger) {
    const td_ledger_type_t *thunk = td_ledger_type("xla.gpu.ThunkProto");
    ck_assert_ptr_nonnull(thunk);
    const td_ledger_item_t *kind = td_ledger_find(thunk, 48);
    ck_assert_str_eq(kind->name, "dynamic_memcpy_thunk");
    ck_assert_str_eq(td_ledger_releases[kind->last].name, "0.10.1");
    ck_assert_int_eq(kind->removed, 20260612);
    ck_assert_ptr_eq(td_ledger_owner(kind), thunk);
    ck_assert_str_eq(td_ledger_find(thunk, 28)->name, "memset32bit_value_thunk"); /* the newer meaning */
    ck_assert_ptr_null(td_ledger_find(thunk, 29));
    ck_assert_ptr_null(td_ledger_find(thunk, -1));
    ck_assert_ptr_null(td_ledger_type("xla.gpu.Thunk"));
    ck_assert_ptr_null(td_ledger_path("ThunkProto"));
    ck_assert_int_eq(td_ledger_release("0.11.3"), -1);
    for (uint32_t i = 1; i < td_ledger_type_count; i++)
        ck_assert_int_lt(strcmp(td_ledger_types[i - 1].name, td_ledger_types[i].name), 0);
    for (uint32_t i = 0; i < td_ledger_type_count; i++)
        for (uint32_t k = 0; k < td_ledger_types[i].n_items; k++)
            ck_assert_ptr_eq(td_ledger_owner(&td_ledger_items[td_ledger_types[i].item + k]), &td_ledger_types[i]);
}
END_TEST

START_TEST(days) {
    char text[16];
    ck_assert_int_eq(td_day_parse("2026-02-29"), 0);
    ck_assert_int_eq(td_day_parse("2028-02-29"), 20280229);
    const char *const bad[] = {"",           "2026",       "2026-1-01",   "2026-13-01",
                               "2026-00-10", "2026-01-32", "2026-01-01x", "x026-01-01"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) ck_assert_int_eq(td_day_parse(bad[i]), 0);
    ck_assert_int_eq(td_day_of(0), 19700101);
    ck_assert_int_eq(td_day_of(1796083199), 20261130); /* date -u -d @1796083199 */
    ck_assert_int_eq(td_day_of(1796083200), 20261201);
    ck_assert_int_eq(td_day_between(20260518, 20261130), 196);
    ck_assert_int_eq(td_day_between(20240301, 20240228), -2);
    ck_assert_int_eq(td_day_add_months(20260831, 6), 20270228);
    ck_assert_int_eq(td_day_add_months(20260131, -2), 20251130);
    ck_assert_str_eq(td_month_text(202702, text), "February 2027");
    ck_assert_str_eq(td_day_text(20270203, text), "2027-02-03");
}
END_TEST

START_TEST(tables) {
    for (uint32_t i = 0; i < td_ignorable_count; i++)
        ck_assert_msg(td_ledger_path(td_ignorables[i].field) != NULL, "%s", td_ignorables[i].field);
    for (uint32_t i = 0; i < td_fallback_count; i++) {
        const td_fallback_t *f = &td_fallbacks[i];
        ck_assert_msg(td_ledger_path(f->construct) != NULL, "%s: %s", f->name, f->construct);
        ck_assert_int_eq(f->month, td_fallback_month(f->last));
    }
    ck_assert_int_eq(td_fallback_month("0.10.2"), 202701);
    ck_assert_int_eq(td_fallback_month("9.9"), 0);
}
END_TEST

START_TEST(finds) {
    judge_on(20261130);
    HOLDS(td_scan_found(&v.scan, "xla.gpu.ThunkProto.custom_kernel_thunk")->path, "thunks[");
    HOLDS(td_scan_found(&v.scan, "xla.gpu.CustomKernelThunkProto.args")->path, ".custom_kernel_thunk.args[0]");
    /* in what the schema keeps as bytes */
    HOLDS(td_scan_found(&v.scan, "xla.GpuTopologyProto.gpu_target_config")->path, "gpu_topology.gpu_target_config");
    ck_assert(!td_scan_found(&v.scan, "xla.GpuTopologyProto.gpu_target_config")->needed);
    ck_assert(td_scan_found(&v.scan, "xla.gpu.GpuExecutableProto.thunks")->needed);
    ck_assert_uint_eq(td_scan_found(&v.scan, "xla.gpu.ThunkProto.cub_sort_thunk")->count, 0);
    ck_assert_uint_eq(td_scan_found(&v.scan, "xla.no.such")->count, 0);
    ck_assert_uint_eq(v.scan.n_unknown, 0);
    ck_assert_str_eq(td_ledger_releases[v.release.at_least].name, "0.12.0.1");
    ck_assert_int_eq(v.release.at_most, -1);
    ck_assert_str_eq(v.target, "9.0a");
}
END_TEST

START_TEST(window) {
    judge_on(20261130);
    VERDICT(TD_VERDICT_COMPATIBLE, true);
    ck_assert_int_eq(v.leaves, 20270420);
    judge_on(20270420);
    VERDICT(TD_VERDICT_COMPATIBLE, true);
    judge_on(20270421);
    VERDICT(TD_VERDICT_OUTSIDE_WINDOW, true);
    HOLDS(v.reason, "left the window on 2027-04-20, 1 days ago");
    judge(&(td_contract_policy_t){.day = 20270421, .strict = true});
    VERDICT(TD_VERDICT_OUTSIDE_WINDOW, false);
    td_err_t err = {0};
    ck_assert_int_eq(td_verdict_enforce(&v, &err), TD_UNSUPPORTED);
    HOLDS(err.text, "outside-window: written by release 0.12.0.1");
}
END_TEST

START_TEST(plays_a_day) {
    play(20260917);
    VERDICT(TD_VERDICT_COMPATIBLE, true);
    ck_assert_uint_eq(v.n_missing_needed, 0);
    ck_assert_uint_gt(v.n_missing, 0);
    play(20260120);
    VERDICT(TD_VERDICT_NEEDS_NEWER_RUNTIME, false);
    int64_t zeroed[1] = {0};
    kernel()->zeroed_output_buffer_indices = zeroed;
    kernel()->n_zeroed_output_buffer_indices = 1;
    play(20260518); /* the release that brought the field */
    VERDICT(TD_VERDICT_COMPATIBLE, true);
    play(20260517);
    VERDICT(TD_VERDICT_NEEDS_NEWER_RUNTIME, false);
    HOLDS(
        v.reason,
        "custom_kernel_thunk.zeroed_output_buffer_indices: xla.gpu.CustomKernelThunkProto.zeroed_output_buffer_indices "
        "(first released in 0.10.1, 2026-05-18) is unknown on 2026-05-17");
}
END_TEST

START_TEST(former_forms) {
    exe()->buffer_allocations_debug_summary = NULL;
    judge_on(20261130);
    VERDICT(TD_VERDICT_WITH_FALLBACK, true);
    ck_assert_uint_eq(v.n_fallbacks, 1);
    ck_assert_str_eq(v.fallbacks[0].row->name, "no-debug-summary");
    play(20270131);
    VERDICT(TD_VERDICT_WITH_FALLBACK, true);
    play(20270201);
    VERDICT(TD_VERDICT_OUTSIDE_WINDOW, false);
    HOLDS(v.reason, "(fallback no-debug-summary) is no longer read after January 2027");
    judge_on(20270201);
    VERDICT(TD_VERDICT_WITH_FALLBACK, true);
}
END_TEST

START_TEST(unknown_things) {
    uint8_t one[] = {1};
    ProtobufCMessageUnknownField field = {.tag = 900, .wire_type = PROTOBUF_C_WIRE_TYPE_VARINT, .len = 1, .data = one};
    kernel()->base.unknown_fields = &field;
    kernel()->base.n_unknown_fields = 1;
    judge_on(20261130);
    VERDICT(TD_VERDICT_COMPATIBLE, true); /* kept and reported */
    ck_assert_uint_eq(v.scan.n_unknown, 1);
    ck_assert_str_eq(v.scan.unknown[0].type_name, "xla.gpu.CustomKernelThunkProto");
    HOLDS(v.scan.unknown[0].path, "custom_kernel_thunk.900");
    kernel()->base.n_unknown_fields = 0;

    Xla__ShapeProto *shape = kernel()->args[0]->shape;
    Xla__PrimitiveType was = shape->element_type;
    shape->element_type = (Xla__PrimitiveType)200;
    judge_on(20261130);
    VERDICT(TD_VERDICT_NEEDS_NEWER_RUNTIME, false);
    HOLDS(v.reason, ".args[0].shape.element_type: xla.PrimitiveType has no value 200");
    shape->element_type = was;

    exe()->thunks[0]->impl_case = XLA__GPU__THUNK_PROTO__IMPL__NOT_SET;
    exe()->thunks[0]->base.unknown_fields = &field;
    exe()->thunks[0]->base.n_unknown_fields = 1;
    judge_on(20261130);
    VERDICT(TD_VERDICT_NEEDS_NEWER_RUNTIME, false);
    HOLDS(v.reason, "thunks[0].900: thunk kind 900 is unknown");
    field.tag = 31; /* removed, and the ledger's */
    judge_on(20261130);
    ck_assert_uint_eq(td_scan_found(&v.scan, "xla.gpu.ThunkProto.cub_sort_thunk")->count, 1);
    ck_assert(!v.loads);
}
END_TEST

START_TEST(damage) {
    exe()->n_output_info_map = 0;
    judge_on(20261130);
    VERDICT(TD_VERDICT_DAMAGED, false);
    td_verdict_t u = {0};
    td_verdict_unopened(&(td_err_t){.code = TD_IO, .text = "gone"}, &u);
    ck_assert_int_eq(u.kind, TD_VERDICT_UNREADABLE);
    td_verdict_unopened(&(td_err_t){.code = TD_MALFORMED, .text = "broken"}, &u);
    ck_assert_int_eq(u.kind, TD_VERDICT_DAMAGED);
    td_verdict_deinit(&u);
}
END_TEST

START_TEST(environment) {
    const struct {
        td_contract_env_t env;
        td_verdict_kind_t want;
        const char *text;
    } cases[] = {
        {{.major = 9, .feature = 'a', .toolkit = "12.8.0", .cudnn = "9.10.0", .cub = "3.1.2", .devices = 1},
         TD_VERDICT_COMPATIBLE,
         ""},
        {{.major = 9}, TD_VERDICT_WRONG_TARGET, "capability 9.0a, the device has 9.0"},
        {{.major = 10, .feature = 'a'}, TD_VERDICT_WRONG_TARGET, "the device has 10.0a"},
        {{.toolkit = "12.7.99"}, TD_VERDICT_ENVIRONMENT_TOO_OLD, "CUDA toolkit 12.7.99 is older than 12.8.0"},
        {{.cudnn = "9.9.1"}, TD_VERDICT_ENVIRONMENT_TOO_OLD, "cuDNN 9.9.1 is older than 9.10.0"},
        {{.cub = "3.1.1"}, TD_VERDICT_ENVIRONMENT_TOO_OLD, "CUB 3.1.1 is older than 3.1.2"},
        {{.toolkit = "13.0.0", .cub = "garbage"}, TD_VERDICT_COMPATIBLE, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        judge(&(td_contract_policy_t){.day = 20261130, .env = &cases[i].env});
        VERDICT(cases[i].want, cases[i].want == TD_VERDICT_COMPATIBLE);
        HOLDS(v.reason, cases[i].text);
    }
    exe()->hlo_module_with_config->config->has_num_partitions = 1;
    exe()->hlo_module_with_config->config->num_partitions = 4;
    judge(&(td_contract_policy_t){.day = 20261130, .env = &(td_contract_env_t){.devices = 2}});
    ck_assert_uint_eq(v.devices, 4);
    VERDICT(TD_VERDICT_NEEDS_CAPABILITY, false);
}
END_TEST

/* A slice's offsets in both spellings, and comparisons of each order. */
START_TEST(ignorable_values) {
    uint64_t steps = 100;
    Xla__Gpu__DynamicSliceConfig c = XLA__GPU__DYNAMIC_SLICE_CONFIG__INIT;
    Xla__Gpu__DynamicSliceConfig__Linear l = XLA__GPU__DYNAMIC_SLICE_CONFIG__LINEAR__INIT;
    c.offsets_case = XLA__GPU__DYNAMIC_SLICE_CONFIG__OFFSETS_LINEAR;
    c.linear = &l;
    c.byte_stride = l.byte_stride = 64;
    ck_assert(td_ignorable_here(TD_IGNORE_LINEAR, &c.base, NULL, &steps));
    l.byte_offset = 8;
    ck_assert(!td_ignorable_here(TD_IGNORE_LINEAR, &c.base, NULL, &steps));

    Xla__HloInstructionProto in = XLA__HLO_INSTRUCTION_PROTO__INIT, op = XLA__HLO_INSTRUCTION_PROTO__INIT;
    Xla__ShapeProto shape = XLA__SHAPE_PROTO__INIT;
    Xla__HloComputationProto comp = XLA__HLO_COMPUTATION_PROTO__INIT;
    Xla__HloInstructionProto *all[] = {&op, &in};
    int64_t ids[] = {7};
    op.id = 7, op.shape = &shape, in.id = 8, in.operand_ids = ids, in.n_operand_ids = 1;
    comp.instructions = all, comp.n_instructions = 2;
    const struct {
        Xla__PrimitiveType type;
        const char *order;
        bool may;
    } cases[] = {{XLA__PRIMITIVE_TYPE__S32, "TOTAL", true},
                 {XLA__PRIMITIVE_TYPE__F32, "PARTIAL", true},
                 {XLA__PRIMITIVE_TYPE__F32, "TOTAL", false},
                 {XLA__PRIMITIVE_TYPE__BF16, "WEAK", false},
                 {XLA__PRIMITIVE_TYPE__PRED, "TOTAL", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        shape.element_type = cases[i].type;
        in.comparison_order = (char *)(uintptr_t)cases[i].order;
        ck_assert_int_eq(td_ignorable_here(TD_IGNORE_ORDER, &in.base, &comp.base, &steps), cases[i].may);
    }
    steps = 0; /* nothing left to look with */
    ck_assert(!td_ignorable_here(TD_IGNORE_ORDER, &in.base, &comp.base, &steps));
}
END_TEST

/* A set with package p, message M { message N { field "later" = 9 } } and enum E { "NEW" = 5 }. */
START_TEST(names_from_a_schema) {
    td_pb_t field = {0}, n = {0}, m = {0}, value = {0}, e = {0}, file = {0}, set = {0};
    td_pb_string(&field, 1, "later");
    td_pb_varint(&field, 3, 9);
    td_pb_string(&n, 1, "N");
    td_pb_message(&n, 2, &field);
    td_pb_string(&m, 1, "M");
    td_pb_message(&m, 3, &n);
    td_pb_string(&value, 1, "NEW");
    td_pb_varint(&value, 2, 5);
    td_pb_string(&e, 1, "E");
    td_pb_message(&e, 2, &value);
    td_pb_string(&file, 1, "a.proto");
    td_pb_string(&file, 2, "p.q");
    td_pb_message(&file, 4, &m);
    td_pb_message(&file, 5, &e);
    td_pb_message(&set, 1, &file);
    td_span_t s = {set.data, set.size};
    ck_assert_int_eq(td_schema_check(s, NULL), TD_OK);
    td_span_t a = td_schema_name(s, "p.q.M.N", 9, false), b = td_schema_name(s, "p.q.E", 5, true);
    ck_assert(a.size == 5 && !memcmp(a.data, "later", 5));
    ck_assert(b.size == 3 && !memcmp(b.data, "NEW", 3));
    ck_assert_uint_eq(td_schema_name(s, "p.q.M.N", 8, false).size, 0);
    ck_assert_uint_eq(td_schema_name(s, "p.q.M", 9, false).size, 0);
    ck_assert_uint_eq(td_schema_name(s, "p.qM.N", 9, false).size, 0);
    ck_assert_uint_eq(td_schema_name(s, "p.q.M.N", 9, true).size, 0);
    ck_assert_int_eq(td_schema_check((td_span_t){(const uint8_t *)"\x0a\x7f", 2}, NULL), TD_MALFORMED);
    ck_assert_int_eq(td_schema_check((td_span_t){0}, NULL), TD_MALFORMED);
    td_pb_free(&set);
}
END_TEST

/* Every allocation fails in turn: an error, and nothing is left. */
START_TEST(out_of_memory) {
    td_contract_policy_t p = {.day = 20261130, .play = true};
    unsigned long long start = counter.gets, live = counter.live_bytes, k = 1;
    for (;; k++) {
        td_err_t err = {0};
        td_verdict_t w = {0};
        counter.fail_at = counter.gets + k;
        td_status_t s =
            td_verdict_make(artifact, NULL, &(td_err_t){.code = TD_UNSUPPORTED}, &p, &counter.base, &w, &err);
        if (s == TD_OK) {
            td_verdict_deinit(&w);
            break;
        }
        ck_assert_int_eq(s, TD_NOMEM);
        ck_assert_uint_eq(counter.live_bytes, live);
    }
    counter.fail_at = 0;
    ck_assert_uint_gt(k, 1);
    ck_assert_uint_gt(counter.gets, start);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("contract");
    TCase *t = tcase_create("contract");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, ledger);
    tcase_add_test(t, days);
    tcase_add_test(t, tables);
    tcase_add_test(t, finds);
    tcase_add_test(t, window);
    tcase_add_test(t, plays_a_day);
    tcase_add_test(t, former_forms);
    tcase_add_test(t, unknown_things);
    tcase_add_test(t, damage);
    tcase_add_test(t, environment);
    tcase_add_test(t, ignorable_values);
    tcase_add_test(t, names_from_a_schema);
    tcase_add_test(t, out_of_memory);
    suite_add_tcase(suite, t);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
