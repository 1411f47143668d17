/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters kept on the device. A built program of three parameters and four outputs, with every way in which outputs
 * can lie in the parameters' allocations and every pairing of the two, is run several times and compared with the same
 * sums done here. */
#include "tests/unit/scheduled_build.h"

enum { N = 5, PARAMS = 3, OUTPUTS = 4, STEPS = 3, NONE = -1 };
typedef float vec_t[N];

static td_counting_alloc_t counter;
static td_device_t *dev;
static td_program_t *program;
static td_binding_t *binding;
static void *memory[PARAMS];

/* place[k]: the parameter in whose allocation output k lies, or NONE. */
static void build(const int *place) {
    instr_t *p[PARAMS], *o[OUTPUTS];
    build_setup();
    begin("entry", false);
    for (int k = 0; k < PARAMS; k++) p[k] = parameter(F32(N));
    o[0] = OP("add", F32(N), p[0], p[1]);
    o[1] = OP("multiply", F32(N), p[1], p[2]);
    o[2] = OP("subtract", F32(N), p[2], p[0]);
    o[3] = OP("maximum", F32(N), p[0], p[2]);
    for (int k = 0; k < OUTPUTS; k++) {
        o[k] = OP("copy", F32(N), o[k]);
        if (place[k] != NONE) same_place(o[k], 0, p[place[k]], 0);
    }
    OP("tuple", TUPLE(F32(N), F32(N), F32(N), F32(N)), o[0], o[1], o[2], o[3]);
    finish();
}
static void expect(vec_t *p, vec_t *o) {
    for (int i = 0; i < N; i++) {
        o[0][i] = p[0][i] + p[1][i];
        o[1][i] = p[1][i] * p[2][i];
        o[2][i] = p[2][i] - p[0][i];
        o[3][i] = p[0][i] > p[2][i] ? p[0][i] : p[2][i];
    }
}

static const bool *state_only;

static void open_built(const int *place, const char *device) {
    td_err_t err = {0};
    td_module_t *m = NULL;
    build(place);
    td_counting_alloc_init(&counter, td_alloc_default());
    ck_assert_msg(!td_host_device_open(device, &counter.base, &dev, &err), "%s", err.text);
    ck_assert_msg(!td_module_open(&artifact, &counter.base, &m, &err), "%s", err.text);
    ck_assert_msg(!td_program_create(m, &(td_program_opts_t){.dev = dev, .alloc = &counter.base, .states = state_only},
                                     &program, &err), "%s", err.text);
    td_module_close(m);
    ck_assert_msg(!td_binding_create(program, &counter.base, &binding, &err), "%s", err.text);
    for (uint32_t k = 0; k < PARAMS; k++) {
        ck_assert_uint_eq(td_program_state_bytes(program, k), 256);
        ck_assert(!dev->ops->mem_get(dev, 256, &memory[k], &err));
    }
}
static void close_built(void) {
    for (int k = 0; k < PARAMS; k++) dev->ops->mem_put(dev, memory[k], 256);
    td_binding_destroy(binding);
    td_program_destroy(program);
    td_device_destroy(dev);
    build_teardown();
    ck_assert_uint_eq(counter.live_bytes, 0);
}

static void start_values(vec_t *p) {
    for (int k = 0; k < PARAMS; k++)
        for (int i = 0; i < N; i++) p[k][i] = (float)(k + 1) + 0.25f * (float)(i * (k + 2) % 7);
}

/* pair[i]: the output that parameter i becomes, or NONE. */
static void run_steps(const int *place, const int *pair) {
    vec_t p[PARAMS], o[OUTPUTS], given[PARAMS];
    const void *in[PARAMS], *out[OUTPUTS];
    td_run_state_t s[PARAMS];
    td_err_t err = {0};
    uint32_t n = 0;
    start_values(p);
    memcpy(given, p, sizeof p);
    for (uint32_t k = 0; k < PARAMS; k++) {
        in[k] = pair[k] == NONE ? given[k] : NULL;
        if (pair[k] == NONE) continue;
        s[n++] = (td_run_state_t){k, (uint32_t)pair[k], memory[k]};
        ck_assert_int_eq(td_program_aliased(program, k, (uint32_t)pair[k]), place[pair[k]] == (int)k);
        ck_assert(!td_state_reset(binding, k, memory[k], p[k], &err));
    }
    unsigned long long gets = counter.gets;
    for (int step = 0; step < STEPS; step++) {
        td_run_args_t a = {.inputs = in, .outputs = out, .states = s, .n_states = n};
        ck_assert_msg(!td_program_run_with(binding, &a, &err), "%s", err.text);
        expect(p, o);
        for (int k = 0; k < OUTPUTS; k++) {
            bool kept = pair[0] == k || pair[1] == k || pair[2] == k;
            ck_assert_msg(kept ? !out[k] : !memcmp(out[k], o[k], sizeof(vec_t)),
                          "output %d in step %d: places %d %d %d %d, pairs %d %d %d", k, step, place[0], place[1],
                          place[2], place[3], pair[0], pair[1], pair[2]);
        }
        for (int k = 0; k < PARAMS; k++) {
            if (pair[k] == NONE) continue;
            memcpy(p[k], o[pair[k]], sizeof(vec_t));
            ck_assert_msg(!memcmp(memory[k], p[k], sizeof(vec_t)),
                          "state of %d in step %d: places %d %d %d %d, pairs %d %d %d", k, step, place[0], place[1],
                          place[2], place[3], pair[0], pair[1], pair[2]);
        }
        for (int k = 0; k < PARAMS; k++)
            if (pair[k] == NONE) ck_assert(!memcmp(given[k], p[k], sizeof(vec_t)));
    }
    ck_assert_uint_eq(counter.gets, gets);
    if (state_only) return;
    /* Without states it is as ever. */
    start_values(p);
    expect(p, o);
    ck_assert(!td_program_run(binding, (const void *[]){p[0], p[1], p[2]}, out, NULL, &err));
    for (int k = 0; k < OUTPUTS; k++) ck_assert(!memcmp(out[k], o[k], sizeof(vec_t)));
}

static bool next(int *v, int n, int most) { /* counts, each place from NONE to most */
    for (int k = 0; k < n; k++) {
        if (++v[k] <= most) return true;
        v[k] = NONE;
    }
    return false;
}
static bool distinct(const int *v, int n) {
    for (int k = 0; k < n; k++)
        for (int j = 0; j < k; j++)
            if (v[k] != NONE && v[k] == v[j]) return false;
    return true;
}

/* Every `stride`-th of all cases. */
static unsigned run_all(const char *device, unsigned stride) {
    int place[OUTPUTS] = {NONE, NONE, NONE, NONE};
    unsigned at = 0, done = 0;
    do {
        int pair[PARAMS] = {NONE, NONE, NONE};
        if (!distinct(place, OUTPUTS)) continue;
        open_built(place, device);
        do {
            if (at++ % stride) continue;
            run_steps(place, pair);
            done++;
        } while (next(pair, PARAMS, OUTPUTS - 1));
        close_built();
    } while (next(place, OUTPUTS, PARAMS - 1));
    return done;
}
START_TEST(every_place_and_pair) { ck_assert_uint_eq(run_all("", 1), 73 * 125); }
END_TEST
START_TEST(every_place_on_delayed_streams) { ck_assert_uint_ge(run_all("delay=7", 97), 90); }
END_TEST

static const int apart[OUTPUTS] = {NONE, NONE, NONE, NONE};

START_TEST(zeros) {
    td_err_t err = {0};
    open_built(apart, _i ? "delay=1" : "");
    memset(memory[1], 0x55, 256);
    ck_assert(!td_state_reset(binding, 1, memory[1], NULL, &err));
    for (int i = 0; i < 256; i++) ck_assert_int_eq(((uint8_t *)memory[1])[i], 0);
    close_built();
}
END_TEST

START_TEST(refused) {
    td_err_t err = {0};
    vec_t p[PARAMS];
    const void *in[] = {p[0], p[1], p[2]}, *out[OUTPUTS];
    open_built(apart, "");
    start_values(p);
    struct {
        td_run_state_t s[2];
        td_status_t want;
        const char *text;
    } cases[] = {
        {{{3, 0, memory[0]}, {1, 1, memory[1]}}, TD_NOTFOUND, "no input 3"},
        {{{0, 0, memory[0]}, {1, 4, memory[1]}}, TD_NOTFOUND, "no output 4"},
        {{{0, 0, memory[0]}, {0, 1, memory[1]}}, TD_USAGE, "two states"},
        {{{0, 0, memory[0]}, {1, 1, NULL}}, TD_USAGE, "missing or not aligned"},
        {{{0, 0, memory[0]}, {1, 1, (char *)memory[1] + 64}}, TD_USAGE, "not aligned to 256"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        td_run_args_t a = {.inputs = in, .outputs = out, .states = cases[k].s, .n_states = 2};
        ck_assert_int_eq(td_program_run_with(binding, &a, &err), cases[k].want);
        ck_assert_msg(strstr(err.text, cases[k].text) != NULL, "%s", err.text);
        run_steps(apart, (const int[]){0, NONE, 2}); /* the binding is as it was */
    }
    _Atomic(int) stop = 1;
    td_run_args_t a = {.inputs = in, .outputs = out, .states = cases[0].s + 1, .n_states = 1, .cancel = &stop};
    ck_assert_int_eq(td_program_run_with(binding, &a, &err), TD_CANCELLED);
    run_steps(apart, (const int[]){1, 2, 0});
    ck_assert_int_eq(td_state_reset(binding, 0, (char *)memory[0] + 8, NULL, &err), TD_USAGE);
    ck_assert_int_eq(td_state_reset(binding, 9, memory[0], NULL, &err), TD_NOTFOUND);
    ck_assert(!td_program_aliased(program, 9, 0) && !td_program_aliased(program, 0, 9));
    ck_assert_uint_eq(td_program_state_bytes(program, 9), 0);
    close_built();
}
END_TEST

/* Parameters without memory in bindings: less is taken, and what would need it is refused. */
START_TEST(no_memory_beside) {
    static const int in_place[] = {0, 2, NONE, NONE};
    vec_t p[PARAMS];
    const void *in[] = {p[0], p[1], p[2]}, *out[OUTPUTS];
    td_err_t err = {0};
    start_values(p);
    open_built(in_place, _i ? "delay=9" : "");
    uint64_t all = td_program_binding_bytes(program);
    close_built();
    state_only = (const bool[]){true, false, true};
    open_built(in_place, _i ? "delay=9" : "");
    ck_assert_uint_le(td_program_binding_bytes(program), all - 2 * 256);
    run_steps(in_place, (const int[]){0, NONE, 1});
    run_steps(in_place, (const int[]){0, 2, 1});
    ck_assert_int_eq(td_program_run(binding, in, out, NULL, &err), TD_USAGE);
    ck_assert_msg(strstr(err.text, "runs need a state") != NULL, "%s", err.text);
    ck_assert_int_eq(td_program_bind(program, in, (const bool[]){false, false, true}, &err), TD_USAGE);
    ck_assert_msg(strstr(err.text, "cannot be bound") != NULL, "%s", err.text);
    td_run_state_t crossed[] = {{0, 1, memory[0]}, {2, 0, memory[2]}}, other[] = {{0, 2, memory[0]}, {2, 1, memory[2]}};
    td_run_args_t a = {.inputs = in, .outputs = out, .states = crossed, .n_states = 2};
    ck_assert_int_eq(td_program_run_with(binding, &a, &err), TD_UNSUPPORTED);
    a.states = other;
    ck_assert_int_eq(td_program_run_with(binding, &a, &err), TD_UNSUPPORTED);
    ck_assert_msg(strstr(err.text, "puts another output than 2 over it") != NULL, "%s", err.text);
    run_steps(in_place, (const int[]){0, NONE, 1});
    close_built();
    state_only = NULL;
}
END_TEST

START_TEST(unlike_shapes) {
    td_err_t err = {0};
    td_module_t *m = NULL;
    build_setup();
    begin("entry", false);
    instr_t *x = parameter(F32(2, 3)), *y = parameter(F32(6));
    instr_t *t = OP("negate", F32(2, 3), x), *u = OP("negate", F32(6), y);
    instr_t *v = OP("copy", LAYOUT(F32(2, 3), 0, 1), x);
    OP("tuple", TUPLE(F32(2, 3), F32(6), LAYOUT(F32(2, 3), 0, 1)), t, u, v);
    finish();
    ck_assert_msg(!td_host_device_create(td_alloc_default(), &dev, &err), "%s", err.text);
    ck_assert_msg(!td_module_open(&artifact, td_alloc_default(), &m, &err), "%s", err.text);
    ck_assert_msg(!td_program_create(m, &(td_program_opts_t){.dev = dev}, &program, &err), "%s", err.text);
    ck_assert_int_eq(td_program_state_check(program, 0, 0, &err), TD_OK);
    ck_assert_int_eq(td_program_state_check(program, 0, 1, &err), TD_MISMATCH);
    ck_assert_msg(strstr(err.text, "f32[2,3]{1,0}") && strstr(err.text, "f32[6]{0}"), "%s", err.text);
    ck_assert_int_eq(td_program_state_check(program, 0, 2, &err), TD_MISMATCH);
    ck_assert_msg(strstr(err.text, "f32[2,3]{0,1}") != NULL, "%s", err.text);
    /* A weight is no state. */
    float w[6] = {1, 2, 3, 4, 5, 6};
    ck_assert(!td_program_bind(program, (const void *[]){NULL, w}, (const bool[]){false, true}, &err));
    ck_assert_int_eq(td_program_state_check(program, 1, 1, &err), TD_USAGE);
    ck_assert_msg(strstr(err.text, "weight") != NULL, "%s", err.text);
    ck_assert_int_eq(td_program_state_check(program, 0, 0, &err), TD_OK);
    td_program_destroy(program);
    td_module_close(m);
    td_device_destroy(dev);
    build_teardown();
}
END_TEST

int main(void) {
    Suite *s = suite_create("state");
    TCase *c = tcase_create("state");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, every_place_and_pair);
    tcase_add_test(c, every_place_on_delayed_streams);
    tcase_add_loop_test(c, zeros, 0, 2);
    tcase_add_test(c, refused);
    tcase_add_loop_test(c, no_memory_beside, 0, 2);
    tcase_add_test(c, unlike_shapes);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
