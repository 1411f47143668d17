/* SPDX-License-Identifier: Apache-2.0 */
/* Programs made from a schedule and a buffer assignment: control flow, what only passes values on, and everything that
 * does not fit. */
#include "tests/unit/scheduled_build.h"

#include "base/limits.h"
#include "runtime/module.h"

static const float x4[] = {1, -2, 0.5f, 3};

/* while (i < 3) x += x, or as often as known. comps: body, condition, entry. */
static void build_loop(const char *known, bool apart) {
    shape_t *state = TUPLE(S32(), F32(4));
    begin("body", false);
    instr_t *p = parameter(state);
    instr_t *i = OP("add", S32(), element(p, 0), constant(1)), *x = element(p, 1);
    x = OP("add", F32(4), x, x);
    OP("tuple", state, i, x);
    begin("condition", false);
    p = parameter(state);
    instr_t *less = OP("compare", ARRAY(TD_PRED), element(p, 0), constant(3));
    less->comparison_direction = (char *)(uintptr_t)"LT";
    SET(comps[1].msg, root_id, less->id);
    begin("entry", false);
    instr_t *in = parameter(F32(4)), *i0 = OP("copy", S32(), constant(0)), *x0 = OP("copy", F32(4), in);
    instr_t *loop = CALLS(OP("while", state, OP("tuple", state, i0, x0)), 1, 2);
    if (known) config(loop, known);
    OP("tuple", state, element(loop, 0), element(loop, 1));
    same_place(i, 0, i0, 0);
    if (!apart) same_place(x, 0, x0, 0);
    finish();
}

static void run_loop(const char *known, int32_t trips) {
    int32_t n = 0;
    float y[4];
    build_loop(known, false);
    run_built((const void *[]){x4}, (void *[]){&n, y}, (size_t[]){4, 16}, 2);
    ck_assert_int_eq(n, trips);
    for (int k = 0; k < 4; k++) ck_assert_float_eq(y[k], x4[k] * (float)(1 << trips));
}
START_TEST(loop_by_condition) { run_loop(NULL, 3); }
END_TEST
START_TEST(loop_by_trip_count) { run_loop("{\"known_trip_count\":{\"n\":\"5\"},\"known_init_step\":{}}", 5); }
END_TEST

START_TEST(branches) {
    static const int32_t index[] = {0, 1, 7, -1};
    begin("negated", false);
    instr_t *a = OP("negate", F32(4), parameter(F32(4)));
    begin("doubled", false);
    instr_t *p = parameter(F32(4)), *b = OP("add", F32(4), p, p);
    begin("entry", false);
    instr_t *i = parameter(S32()), *x = parameter(F32(4));
    CALLS(OP("conditional", F32(4), i, x, x), 1, 2);
    same_place(a, 0, b, 0);
    finish();
    for (int k = 0; k < 4; k++) {
        float y[4];
        run_built((const void *[]){&index[k], x4}, (void *[]){y}, (size_t[]){16}, 1);
        for (int j = 0; j < 4; j++) ck_assert_float_eq(y[j], index[k] == 0 ? -x4[j] : 2 * x4[j]);
    }
}
END_TEST

START_TEST(calls_and_pairs) {
    float y[4], z[4];
    begin("squared", false);
    instr_t *p = parameter(F32(4));
    OP("multiply", F32(4), p, p);
    begin("doubled", false);
    p = parameter(F32(4));
    OP("add", F32(4), p, p);
    begin("entry", false);
    instr_t *x = parameter(F32(4)), *square = CALLS(OP("call", F32(4), x), 1);
    instr_t *started = CALLS(OP("async-start", TUPLE(TUPLE(F32(4)), F32(4)), x), 2);
    instr_t *copy = OP("copy-start", TUPLE(F32(4), F32(4), ARRAY(TD_U32)), square);
    instr_t *updated = OP("async-update", started->shape, started), *copied = OP("copy-done", F32(4), copy);
    instr_t *done = OP("async-done", F32(4), updated);
    instr_t *held = OP("opt-barrier", TUPLE(F32(4), F32(4)), OP("tuple", TUPLE(F32(4), F32(4)), copied, done));
    instr_t *flat = OP("bitcast", F32(2, 2), element(held, 0));
    OP("tuple", TUPLE(F32(2, 2), F32(4)), flat, element(held, 1));
    finish();
    run_built((const void *[]){x4}, (void *[]){y, z}, (size_t[]){16, 16}, 2);
    for (int k = 0; k < 4; k++) {
        ck_assert_float_eq(y[k], x4[k] * x4[k]);
        ck_assert_float_eq(z[k], 2 * x4[k]);
    }
}
END_TEST

/* A copy that changes the layout: [[1,-2],[0.5,3]] column by column, seen as a row again. */
START_TEST(copy_to_another_layout) {
    float y[4];
    uint32_t id = 7;
    begin("entry", false);
    instr_t *turned = OP("copy", LAYOUT(F32(2, 2), 0, 1), parameter(F32(2, 2)));
    OP("tuple", TUPLE(F32(4), ARRAY(TD_U32)), OP("bitcast", F32(4), turned), OP("partition-id", ARRAY(TD_U32)));
    finish();
    run_built((const void *[]){x4}, (void *[]){y, &id}, (size_t[]){16, 4}, 2);
    ck_assert_float_eq(y[1], 0.5f);
    ck_assert_float_eq(y[2], -2);
    ck_assert_uint_eq(id, 0);
}
END_TEST

/* ---- what does not fit ---- */
static instr_t *sum, *product;
static void build_sum(const char *opcode) {
    begin("entry", false);
    instr_t *x = parameter(F32(4)), *y = parameter(F32(4));
    sum = OP(opcode, F32(4), x, y);
    product = OP("multiply", F32(4), sum, x);
    finish();
}
static Xla__LogicalBufferProto *logical(const instr_t *i) {
    for (size_t k = 0; k < assignment->n_logical_buffers; k++)
        if (assignment->logical_buffers[k]->defined_at->instruction_id == i->id) return assignment->logical_buffers[k];
    return NULL;
}
static Xla__BufferAllocationProto *allocation(const instr_t *i) {
    for (size_t k = 0; k < n_places; k++)
        if (places[k].i == i) return assignment->buffer_allocations[places[k].allocation];
    return NULL;
}
static void order(uint32_t n, const int64_t *ids) { module->schedule = schedule_of(n, ids); }
enum { ENTRY_ID = 1 };
#define AT(k) ((int64_t)ENTRY_ID << 32 | (k))

static void no_schedule(void) { module->has_schedule = 0, module->schedule.len = 0; }
static void schedule_cut_off(void) { module->schedule.len -= 3; }
static void schedule_too_short(void) { order(3, (int64_t[]){AT(0), AT(1), AT(2)}); }
static void schedule_twice(void) { order(4, (int64_t[]){AT(0), AT(1), AT(1), AT(3)}); }
static void schedule_unknown(void) { order(4, (int64_t[]){AT(0), AT(1), AT(9), AT(3)}); }
static void schedule_backwards(void) { order(4, (int64_t[]){AT(0), AT(1), AT(3), AT(2)}); }
static void schedule_of_nobody(void) {
    static uint8_t entry[] = {0x0a, 0x02, 0x08, 0x63};
    module->schedule = (ProtobufCBinaryData){sizeof entry, entry};
}
static void no_place(void) { allocation(sum)->n_assigned = 0; }
static void place_outside(void) { allocation(sum)->assigned[0]->offset = 4; }
static void place_before(void) { SET(allocation(sum)->assigned[0], offset, -4); }
static void place_too_small(void) { SET(allocation(sum)->assigned[0], size, 12), logical(sum)->size = 12; }
static void place_and_value(void) { SET(allocation(sum)->assigned[0], size, 12); }
static void place_of_nobody(void) { SET(allocation(sum)->assigned[0], logical_buffer_id, 99); }
static void value_of_nobody(void) { logical(sum)->defined_at->instruction_id = 99ll << 32; }
static void value_nowhere(void) { logical(sum)->defined_at = NULL; }
static void value_in_no_tuple(void) {
    logical(sum)->defined_at->n_shape_index = 1;
    logical(sum)->defined_at->shape_index = ints(1, (int64_t[]){0});
}
static void value_twice(void) { logical(sum)->id = logical(product)->id; }
static void two_places(void) { logical(sum)->defined_at->instruction_id = product->id; }
static void wrong_index(void) { allocation(sum)->index = 7; }
static void output_inside(void) {
    SET(allocation(product), size, 32);
    SET(allocation(product)->assigned[0], offset, 16);
}
static void nothing_assigned(void) { assignment->n_buffer_allocations = 0; }
static void no_assignment(void) { exe->buffer_assignment = NULL; }

static const struct {
    const char *opcode;
    void (*spoil)(void);
    const char *said;
} cases[] = {
    {"add", no_schedule, "is not scheduled"}, {"add", schedule_cut_off, "cut off"},
    {"add", schedule_too_short, "has 3 of its 4"}, {"add", schedule_twice, "occurs twice"},
    {"add", schedule_unknown, "has no instruction"}, {"add", schedule_backwards, "before its operand 'add.1.2'"},
    {"add", schedule_of_nobody, "which the module has not"}, {"add", no_place, "no place for array 0 of 'add.1.2'"},
    {"add", place_outside, "outside"}, {"add", place_before, "outside"}, {"add", place_too_small, "12 bytes"},
    {"add", place_and_value, "12 bytes for logical buffer"}, {"add", place_of_nobody, "no logical buffer 99"},
    {"add", value_of_nobody, "not there"}, {"add", value_nowhere, "not there"},
    {"add", value_in_no_tuple, "shape index does not fit"}, {"add", value_twice, "occurs twice"},
    {"add", two_places, "at 0 of allocation"}, {"add", wrong_index, "its index is 7"},
    {"add", output_inside, "instead of its start"}, {"add", nothing_assigned, "neither thunks nor"},
    {"add", no_assignment, "neither thunks nor"}, {"no-such-opcode", NULL, "opcode that this build does not know"},
    {"infeed", NULL, "infeed queue"}, {"outfeed", NULL, "outfeed queue"}, {"send", NULL, "not supported"},
    {"all-reduce", NULL, "is a collective"}, {"collective-permute-start", NULL, "is a collective"},
    {"while", NULL, "0 computations"}, {"conditional", NULL, "branches"}, {"call", NULL, "0 called computations"},
    {"async-start", NULL, "async-start without"}, {"copy-start", NULL, "copy-start without"},
    {"async-done", NULL, "no element 1"}, {"fusion", NULL, "fusion"},
};
enum { N_CASES = sizeof cases / sizeof *cases };

static void refused(const char *said) {
    td_err_t err = {0};
    td_module_t *m = NULL;
    td_status_t s = td_module_open(&artifact, td_alloc_default(), &m, &err);
    td_module_close(m);
    ck_assert_msg(s != TD_OK, "accepted: %s", said);
    ck_assert_msg(strstr(err.text, said) != NULL, "'%s' does not say '%s'", err.text, said);
}

START_TEST(misfits_are_refused) {
    build_sum(cases[_i].opcode);
    if (cases[_i].spoil) cases[_i].spoil();
    refused(cases[_i].said);
}
END_TEST

START_TEST(the_intact_one_runs) {
    static const float y4[] = {1, 1, 1, 1};
    float z[4];
    build_sum("add");
    run_built((const void *[]){x4, y4}, (void *[]){z}, (size_t[]){16}, 1);
    for (int k = 0; k < 4; k++) ck_assert_float_eq(z[k], (x4[k] + 1) * x4[k]);
}
END_TEST

/* The schedule alone says the order: the sum may be made before the second parameter is named. */
START_TEST(other_orders_run) {
    static const float y4[] = {1, 1, 1, 1};
    float z[4];
    build_sum("add");
    order(4, (int64_t[]){AT(1), AT(0), AT(2), AT(3)});
    run_built((const void *[]){x4, y4}, (void *[]){z}, (size_t[]){16}, 1);
    ck_assert_float_eq(z[3], 12);
}
END_TEST

START_TEST(loop_state_in_two_places) {
    build_loop(NULL, true);
    refused("array 1 of the body lies at");
}
END_TEST
START_TEST(negative_trip_count) {
    build_loop("{\"known_trip_count\":{\"n\":\"-2\"}}", false);
    refused("trip count -2");
}
END_TEST
START_TEST(trip_count_of_the_wrong_kind) {
    build_loop("{\"known_trip_count\":{\"n\":\"many\"}}", false);
    refused("wrong kind");
}
END_TEST
START_TEST(computation_called_twice) {
    begin("negated", false);
    OP("negate", F32(4), parameter(F32(4)));
    begin("entry", false);
    instr_t *x = parameter(F32(4)), *a = CALLS(OP("call", F32(4), x), 1);
    OP("tuple", TUPLE(F32(4), F32(4)), a, CALLS(OP("call", F32(4), x), 1));
    finish();
    refused("called from two places");
}
END_TEST

/* A device that takes only compiled code. */
START_TEST(device_without_compiler) {
    td_err_t err = {0};
    td_device_t *dev = NULL;
    td_module_t *m = NULL;
    td_program_t *p = NULL;
    build_sum("add");
    ck_assert_int_eq(td_host_device_create(td_alloc_default(), &dev, &err), TD_OK);
    ck_assert_int_eq(td_module_open(&artifact, td_alloc_default(), &m, &err), TD_OK);
    ck_assert(m->scheduled);
    td_device_ops_t ops = *dev->ops;
    const td_device_ops_t *own = dev->ops;
    ops.name = "other", ops.compiles = false;
    dev->ops = &ops;
    ck_assert_int_eq(td_program_create(m, &(td_program_opts_t){.dev = dev}, &p, &err), TD_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.text, "export the model anew"));
    dev->ops = own;
    td_module_close(m);
    td_device_destroy(dev);
}
END_TEST

int main(void) {
    Suite *s = suite_create("scheduled");
    TCase *t = tcase_create("all");
    tcase_add_checked_fixture(t, build_setup, build_teardown);
    tcase_add_test(t, loop_by_condition);
    tcase_add_test(t, loop_by_trip_count);
    tcase_add_test(t, branches);
    tcase_add_test(t, calls_and_pairs);
    tcase_add_test(t, copy_to_another_layout);
    tcase_add_loop_test(t, misfits_are_refused, 0, N_CASES);
    tcase_add_test(t, the_intact_one_runs);
    tcase_add_test(t, other_orders_run);
    tcase_add_test(t, loop_state_in_two_places);
    tcase_add_test(t, negative_trip_count);
    tcase_add_test(t, trip_count_of_the_wrong_kind);
    tcase_add_test(t, computation_called_twice);
    tcase_add_test(t, device_without_compiler);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int bad = srunner_ntests_failed(r);
    srunner_free(r);
    return bad != 0;
}
