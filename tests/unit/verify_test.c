/* SPDX-License-Identifier: Apache-2.0 */
/* Verification: each case spoils one field of the sample's messages and expects a refusal that names
 * the place. Then lowering and running under a counting allocator. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "executable.pb-c.h"
#include "proto/artifact.h"
#include "runtime/program.h"

static const char sample[] = "samples/store/digits/1/h100_sxm.aot";
typedef Xla__Gpu__GpuExecutableProto exe_t;

static td_counting_alloc_t counter;
static td_payload_table_t *table;
static td_artifact_t *artifact;

static void setup(void) {
    td_err_t err = {0};
    td_counting_alloc_init(&counter, td_alloc_default());
    ck_assert_int_eq(td_payload_table_create(&counter.base, &table, &err), TD_OK);
    ck_assert_msg(td_artifact_open_file(sample, table, &counter.base, &artifact, &err) == TD_OK, "%s", err.text);
}
static void teardown(void) {
    td_artifact_close(artifact);
    td_payload_table_destroy(table);
    ck_assert_uint_eq(counter.live_bytes, 0);
}

static Xla__BufferAllocationProto *allocation(exe_t *e, size_t i) { return e->buffer_allocations->values[i]; }
static Xla__Gpu__CustomKernelThunkProto *kernel(exe_t *e) {
    for (size_t i = 0; i < e->n_thunks; i++)
        if (e->thunks[i]->impl_case == XLA__GPU__THUNK_PROTO__IMPL_CUSTOM_KERNEL_THUNK) return e->thunks[i]->custom_kernel_thunk;
    ck_abort_msg("the sample has no kernel");
    return NULL;
}
static Xla__BufferAssignment__BufferAllocationSliceProto *slice(exe_t *e) { return kernel(e)->args[0]->slice; }
static Xla__BufferAllocationProto *parameter(exe_t *e) {
    for (size_t i = 0; i < e->buffer_allocations->n_values; i++)
        if (allocation(e, i)->is_entry_computation_parameter) return allocation(e, i);
    ck_abort_msg("the sample has no parameter");
    return NULL;
}
#define SET(obj, field, value) ((obj)->has_##field = 1, (obj)->field = (value))

static void index_not_position(exe_t *e) { SET(allocation(e, 1), index, 2); }
static void negative_size(exe_t *e) { SET(allocation(e, 1), size, -1); }
static void huge_size(exe_t *e) { SET(allocation(e, 1), size, INT64_MAX); }
static void slice_of_no_allocation(exe_t *e) { SET(slice(e), buffer_allocation_index, 100000); }
static void slice_of_negative_allocation(exe_t *e) { SET(slice(e), buffer_allocation_index, -1); }
static void slice_past_the_end(exe_t *e) { SET(slice(e), offset, 1ll << 40); }
static void slice_offset_overflows(exe_t *e) { SET(slice(e), offset, INT64_MAX); }
static void slice_negative_offset(exe_t *e) { SET(slice(e), offset, -16); }
static void slice_too_large(exe_t *e) { SET(slice(e), size, INT64_MAX); }
static void slice_negative_size(exe_t *e) { SET(slice(e), size, -4); }
static void slice_smaller_than_array(exe_t *e) { SET(slice(e), size, 1); }
static void parameter_number_out_of_range(exe_t *e) { SET(parameter(e), parameter_number, 1000); }
static void parameter_number_negative(exe_t *e) { SET(parameter(e), parameter_number, -1); }
static void parameter_too_small(exe_t *e) { SET(parameter(e), size, 1); }
static void outputs_missing(exe_t *e) { e->n_output_info_map = 0; }
static void output_of_no_allocation(exe_t *e) {
    for (size_t i = 0; i < e->n_output_info_map; i++) SET(e->output_info_map[i]->output_info, allocation_index, 1 << 20);
}
static void output_negative(exe_t *e) {
    for (size_t i = 0; i < e->n_output_info_map; i++) SET(e->output_info_map[i]->output_info, allocation_index, -1);
}
static void written_count(exe_t *e) { kernel(e)->n_written = kernel(e)->n_args - 1; }
static void arguments_dropped(exe_t *e) { kernel(e)->n_args = 1, kernel(e)->n_written = 1; }
static void empty_thunk(exe_t *e) { e->thunks[0]->impl_case = XLA__GPU__THUNK_PROTO__IMPL__NOT_SET; }
static void unknown_annotation(exe_t *e) { e->thunks[0]->thunk_info->profile_annotation = (char *)(uintptr_t)"no_such_instruction"; }
static void no_module(exe_t *e) { e->hlo_module_with_config = NULL; }
static void no_allocations(exe_t *e) { e->buffer_allocations = NULL; }
static Xla__HloComputationProto *computation(exe_t *e) { return e->hlo_module_with_config->hlo_module->computations[0]; }
static void operand_of_nobody(exe_t *e) {
    Xla__HloComputationProto *c = computation(e);
    for (size_t i = 0; i < c->n_instructions; i++)
        if (c->instructions[i]->n_operand_ids) {
            c->instructions[i]->operand_ids[0] = 1ll << 60;
            return;
        }
}
static void root_of_nobody(exe_t *e) { SET(computation(e), root_id, 1ll << 60); }
static void negative_dimension(exe_t *e) {
    Xla__ShapeProto *s = kernel(e)->args[0]->shape;
    s->dimensions[0] = -1;
}
static void overflowing_dimension(exe_t *e) {
    Xla__HloComputationProto *c = computation(e);
    for (size_t i = 0; i < c->n_instructions; i++)
        if (c->instructions[i]->shape->n_dimensions >= 2) {
            c->instructions[i]->shape->dimensions[0] = c->instructions[i]->shape->dimensions[1] = 1ll << 40;
            return;
        }
    kernel(e)->args[0]->shape->dimensions[0] = INT64_MAX;
}
static void recursive_call(exe_t *e) {
    Xla__HloModuleProto *m = e->hlo_module_with_config->hlo_module;
    for (size_t k = 0; k < m->n_computations; k++)
        for (size_t i = 0; i < m->computations[k]->n_instructions; i++)
            if (m->computations[k]->instructions[i]->n_called_computation_ids) {
                m->computations[k]->instructions[i]->called_computation_ids[0] = m->computations[k]->id;
                return;
            }
}

/* Turns the first thunks into async ones around the kernel that stood there. */
static Xla__Gpu__AsyncStartThunkProto start = XLA__GPU__ASYNC_START_THUNK_PROTO__INIT;
static Xla__Gpu__AsyncDoneThunkProto done = XLA__GPU__ASYNC_DONE_THUNK_PROTO__INIT;
static Xla__Gpu__ThunkSequenceProto body = XLA__GPU__THUNK_SEQUENCE_PROTO__INIT;
static void as_start(exe_t *e, size_t i, uint64_t id, uint64_t stream) {
    SET(&start, async_execution_id, id);
    start.thunks = &body;
    start.execution_stream_id_case = XLA__GPU__ASYNC_START_THUNK_PROTO__EXECUTION_STREAM_ID_COMPUTATION_STREAM_ID;
    start.computation_stream_id = stream;
    e->thunks[i]->impl_case = XLA__GPU__THUNK_PROTO__IMPL_ASYNC_START_THUNK;
    e->thunks[i]->async_start_thunk = &start;
}
static void as_done(exe_t *e, size_t i, uint64_t id) {
    SET(&done, async_execution_id, id);
    e->thunks[i]->impl_case = XLA__GPU__THUNK_PROTO__IMPL_ASYNC_DONE_THUNK;
    e->thunks[i]->async_done_thunk = &done;
}
static void async_stream_out_of_range(exe_t *e) { as_start(e, 0, 1, UINT64_MAX), as_done(e, 1, 1); }
static void async_never_done(exe_t *e) { as_start(e, 0, 1, 0); }
static void async_done_without_start(exe_t *e) { as_done(e, 0, 1); }
static void async_started_twice(exe_t *e) { as_start(e, 0, 1, 0), as_start(e, 1, 1, 0), as_done(e, 2, 1); }
static void async_done_before_start(exe_t *e) { as_done(e, 0, 1), as_start(e, 1, 1, 0); }

static Xla__HloInputOutputAliasProto__AliasEntryProto alias = XLA__HLO_INPUT_OUTPUT_ALIAS_PROTO__ALIAS_ENTRY_PROTO__INIT;
static void alias_entry(exe_t *e, int kind, int64_t number) {
    SET(&alias, kind, (Xla__Kind)kind);
    SET(&alias, parameter_number, number);
    for (size_t i = 0; i < e->n_output_info_map; i++) e->output_info_map[i]->output_info->alias_config = &alias;
}
static void alias_without_kind(exe_t *e) { alias_entry(e, 0, 0); }
static void alias_of_another_parameter(exe_t *e) { alias_entry(e, 1, 77); }
static void devices_missing(exe_t *e) {
    static Xla__DeviceAssignmentProto d = XLA__DEVICE_ASSIGNMENT_PROTO__INIT;
    SET(&d, replica_count, 1);
    SET(&d, computation_count, 2);
    e->hlo_module_with_config->config->static_device_assignment = &d;
}
static void constant_without_symbol(exe_t *e) {
    static Xla__Gpu__GpuExecutableProto__ConstantInfoProto info = XLA__GPU__GPU_EXECUTABLE_PROTO__CONSTANT_INFO_PROTO__INIT;
    static Xla__Gpu__GpuExecutableProto__ConstantInfoProto *list[] = {&info};
    for (size_t i = 0; i < e->buffer_allocations->n_values; i++)
        if (!allocation(e, i)->is_entry_computation_parameter) {
            SET(allocation(e, i), is_constant, 1);
            SET(&info, allocation_index, (int64_t)i);
        }
    e->constants = list;
    e->n_constants = 1;
}
static void constant_of_no_allocation(exe_t *e) {
    static Xla__Gpu__GpuExecutableProto__ConstantInfoProto info = XLA__GPU__GPU_EXECUTABLE_PROTO__CONSTANT_INFO_PROTO__INIT;
    static Xla__Gpu__GpuExecutableProto__ConstantInfoProto *list[] = {&info};
    info.symbol_name = (char *)(uintptr_t)"buffer_for_nothing";
    SET(&info, allocation_index, 1ll << 33);
    e->constants = list;
    e->n_constants = 1;
}

static const struct {
    const char *name;
    void (*spoil)(exe_t *e);
} cases[] = {
#define CASE(f) {#f, f}
    CASE(index_not_position), CASE(negative_size), CASE(huge_size), CASE(slice_of_no_allocation), CASE(slice_of_negative_allocation),
    CASE(slice_past_the_end), CASE(slice_offset_overflows), CASE(slice_negative_offset), CASE(slice_too_large), CASE(slice_negative_size),
    CASE(slice_smaller_than_array), CASE(parameter_number_out_of_range), CASE(parameter_number_negative), CASE(parameter_too_small),
    CASE(outputs_missing), CASE(output_of_no_allocation), CASE(output_negative), CASE(written_count), CASE(arguments_dropped),
    CASE(empty_thunk), CASE(no_module), CASE(no_allocations), CASE(operand_of_nobody), CASE(root_of_nobody), CASE(negative_dimension),
    CASE(overflowing_dimension), CASE(recursive_call), CASE(unknown_annotation),
    CASE(async_stream_out_of_range), CASE(async_never_done), CASE(async_done_without_start), CASE(async_started_twice),
    CASE(async_done_before_start), CASE(alias_without_kind), CASE(alias_of_another_parameter), CASE(constant_of_no_allocation),
    CASE(constant_without_symbol), CASE(devices_missing),
};
enum { N_CASES = sizeof cases / sizeof *cases };

START_TEST(spoilt_field_is_refused) {
    td_err_t err = {0};
    td_module_t *m = NULL;
    td_program_t *p = NULL;
    td_device_t *dev = NULL;
    ck_assert_int_eq(td_host_device_create(&counter.base, &dev, &err), TD_OK);
    cases[_i].spoil((exe_t *)(uintptr_t)artifact->exe);
    td_status_t s = td_module_open(artifact, &counter.base, &m, &err);
    /* What only the device needs (the instruction of a kernel) is found missing at lowering. */
    if (s == TD_OK && cases[_i].spoil == unknown_annotation) s = td_program_create(m, &(td_program_opts_t){.dev = dev, .alloc = &counter.base}, &p, &err);
    ck_assert_msg(s != TD_OK, "%s is accepted", cases[_i].name);
    ck_assert_msg(err.text[0], "%s: no text", cases[_i].name);
    td_program_destroy(p);
    td_module_close(m);
    td_device_destroy(dev);
}
END_TEST

/* The intact sample verifies; lowering takes a few blocks, not one per thunk; running takes nothing. */
START_TEST(memory_is_planned) {
    td_err_t err = {0};
    td_module_t *m = NULL;
    td_program_t *p = NULL;
    td_binding_t *b = NULL;
    td_device_t *dev = NULL;
    ck_assert_int_eq(td_host_device_create(&counter.base, &dev, &err), TD_OK);
    ck_assert_msg(td_module_open(artifact, &counter.base, &m, &err) == TD_OK, "%s", err.text);
    unsigned long long before = counter.gets;
    ck_assert_msg(td_program_create(m, &(td_program_opts_t){.dev = dev, .alloc = &counter.base}, &p, &err) == TD_OK, "%s", err.text);
    ck_assert_uint_lt(counter.gets - before, 24);
    ck_assert_int_eq(td_binding_create(p, &counter.base, &b, &err), TD_OK);
    td_module_close(m);
    const void *in[64] = {0}, *out[8] = {0};
    uint32_t n = td_program_input_count(p);
    ck_assert_uint_le(n, 64);
    void *held[64];
    for (uint32_t i = 0; i < n; i++) {
        uint64_t bytes = td_io_host_bytes(td_program_input(p, i)->shape);
        ck_assert_int_eq(posix_memalign(&held[i], 64, bytes + 64), 0);
        memset(held[i], 0, bytes);
        in[i] = held[i];
    }
    before = counter.gets;
    for (int k = 0; k < 3; k++) ck_assert_msg(td_program_run(b, in, out, NULL, &err) == TD_OK, "%s", err.text);
    ck_assert_uint_eq(counter.gets, before);
    float sum = 0; /* softmax of the answer */
    for (int i = 0; i < 10; i++) sum += ((const float *)out[0])[i];
    ck_assert_float_eq_tol(sum, 1, 1e-5f);
    for (uint32_t i = 0; i < n; i++) free(held[i]);
    td_binding_destroy(b);
    td_program_destroy(p);
    td_device_destroy(dev);
}
END_TEST

/* Every allocation of load and lowering fails once: an error each time, and nothing leaks. */
START_TEST(each_allocation_may_fail) {
    td_err_t err = {0};
    td_device_t *dev = NULL;
    ck_assert_int_eq(td_host_device_create(td_alloc_default(), &dev, &err), TD_OK);
    for (unsigned n = 1; n < 2000; n++) {
        td_counting_alloc_t c;
        td_counting_alloc_init(&c, td_alloc_default());
        c.fail_at = n;
        td_payload_table_t *t = NULL;
        td_artifact_t *a = NULL;
        td_module_t *m = NULL;
        td_program_t *p = NULL;
        td_binding_t *b = NULL;
        td_status_t s = td_payload_table_create(&c.base, &t, &err);
        if (s == TD_OK) s = td_artifact_open_file(sample, t, &c.base, &a, &err);
        if (s == TD_OK) s = td_module_open(a, &c.base, &m, &err);
        if (s == TD_OK) s = td_program_create(m, &(td_program_opts_t){.dev = dev, .alloc = &c.base}, &p, &err);
        if (s == TD_OK) s = td_binding_create(p, &c.base, &b, &err);
        bool reached = c.gets >= n;
        td_binding_destroy(b);
        td_program_destroy(p);
        td_module_close(m);
        td_artifact_close(a);
        td_payload_table_destroy(t);
        ck_assert_msg(c.live_bytes == 0, "allocation %u: %llu bytes leak", n, (unsigned long long)c.live_bytes);
        if (!reached) {
            ck_assert_int_eq(s, TD_OK);
            td_device_destroy(dev);
            return;
        }
    }
    ck_abort_msg("the sweep never got through");
}
END_TEST

int main(void) {
    TCase *t = tcase_create("verify");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, spoilt_field_is_refused, 0, N_CASES);
    tcase_add_test(t, memory_is_planned);
    tcase_add_test(t, each_allocation_may_fail);
    Suite *s = suite_create("verify");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
