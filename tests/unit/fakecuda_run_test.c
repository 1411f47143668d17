/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of an artifact on the stand-in driver: the sample's answer is the host device's, in any order of the
 * streams' work; and a launch that is not what the artifact says is a fault. */
#include <math.h>

#include "executable.pb-c.h"
#include "proto/artifact.h"
#include "runtime/device.h"
#include "runtime/program_in.h"
#include "tests/unit/fakecuda_case.h"
#include "tests/unit/thunk_forms.h"

static const char sample[] = "samples/store/digits/1/h100_sxm.aot";
static td_payload_table_t *table;
static td_artifact_t *artifact;

static void open_file(const char *path) {
    td_err_t err = {0};
    setenv("FAKECUDA_ARTIFACT", path, 1);
    ck_assert_int_eq(td_payload_table_create(td_alloc_default(), &table, &err), TD_OK);
    ck_assert_msg(td_artifact_open_file(path, table, td_alloc_default(), &artifact, &err) == TD_OK, "%s", err.text);
}
static void open_sample(void) { open_file(sample); }
static void close_sample(void) {
    td_artifact_close(artifact);
    td_payload_table_destroy(table);
}

/* ---- whole runs ---- */
static td_device_t *dev;
static td_program_t *program;
static const void *inputs[16];
static void *memory[16];

static void open_program(const char *spec) {
    td_err_t err = {0};
    td_module_t *m = NULL;
    td_status_t st = strncmp(spec, "cuda:", 5) ? td_host_device_open(spec, td_alloc_default(), &dev, &err)
                                               : td_device_open(spec, td_alloc_default(), &dev, &err);
    ck_assert_msg(!st, "%s", err.text);
    ck_assert_msg(!td_module_open(artifact, td_alloc_default(), &m, &err), "%s", err.text);
    ck_assert_msg(!td_program_create(m, &(td_program_opts_t){.dev = dev}, &program, &err), "%s", err.text);
    td_module_close(m);
    for (uint32_t i = 0; i < td_program_input_count(program); i++) {
        const td_shape_t *s = td_program_input(program, i)->shape;
        ck_assert(i < 16 && s->type == TD_F32);
        float *v = calloc((size_t)s->count + 16, sizeof *v);
        for (int64_t k = 0; k < s->count; k++) v[k] = 0.3f * sinf((float)(k * 7 + i * 3 + 1));
        inputs[i] = memory[i] = v;
    }
}
static void close_program(void) {
    td_program_destroy(program);
    td_device_destroy(dev);
    for (int i = 0; i < 16; i++) free(memory[i]);
    memset(memory, 0, sizeof memory);
}
static void run(float *out, size_t n) { /* the first output; NULL: not wanted */
    td_err_t err = {0};
    td_binding_t *b = NULL;
    const void *o[16] = {0};
    ck_assert_uint_le(td_program_output_count(program), 16);
    ck_assert_msg(!td_binding_create(program, td_alloc_default(), &b, &err), "%s", err.text);
    ck_assert_msg(!td_program_run(b, inputs, o, NULL, &err), "%s", err.text);
    if (out) {
        ck_assert_uint_eq(td_io_host_bytes(td_program_output(program, 0)->shape), n * sizeof(float));
        memcpy(out, o[0], n * sizeof(float));
    }
    td_binding_destroy(b);
}
static void answer(const char *spec, float *out, size_t n) {
    open_program(spec);
    for (int round = 0; round < 3; round++) run(out, n);
    close_program();
}
static const char *cuda(void) {
    static char spec[600];
    snprintf(spec, sizeof spec, "cuda:0,driver=%s", fake_path());
    return spec;
}
START_TEST(test_sample) {
    static const char *const settings[][2] = {
        {"FAKECUDA_SEED", "0"}, {"FAKECUDA_SEED", "1"}, {"FAKECUDA_SEED", "2"}, {"FAKECUDA_INLINE", "1"}};
    float want[10], got[10];
    open_sample();
    answer("threads=1", want, 10);
    setenv(settings[_i][0], settings[_i][1], 1);
    answer(cuda(), got, 10);
    for (int i = 0; i < 10; i++) ck_assert_float_eq(got[i], want[i]);
    close_sample();
    open_driver(); /* the same library, to look for faults */
    ck_assert_msg(fakecuda_faults(NULL) == 0, "%s", fakecuda_last_fault());
    ck_assert_uint_eq(fakecuda_calls("cuLaunchKernel") + fakecuda_calls("cuLaunchKernelEx"), 15); /* 3 runs of 5 */
}
END_TEST

/* Each of the chain's kernels on a stream of its own, or on fewer: the same answer, and no access without an order. */
START_TEST(test_lanes) {
    static const uint32_t most[] = {1, 2, 3, 16};
    static const char *const bad[] = {"lanes=0", "lanes=17", "lanes=-1", "lanes=2,lanes=3"};
    float want[10], got[10];
    char spec[700];
    thunk_t *v[10];
    setenv("FAKECUDA_SEED", "3", 1);
    open_sample();
    answer("threads=1", want, 10);
    exe_t *exe = (exe_t *)(uintptr_t)artifact->exe;
    ck_assert_uint_eq(exe->n_thunks, 5);
    td_arena_init(&arena, td_alloc_default(), 0);
    for (uint64_t i = 0; i < 5; i++) {
        v[2 * i] = start_of(i, i, seq(1, &exe->thunks[i]));
        v[2 * i + 1] = done_of(i);
    }
    exe->thunks = seq(10, v)->thunks;
    exe->n_thunks = 10;
    open_driver();
    for (int i = 0; i < 4; i++) {
        snprintf(spec, sizeof spec, "%s,lanes=%u", cuda(), most[i]);
        open_program(spec);
        ck_assert_uint_eq(program->n_lanes, most[i] < 6 ? most[i] : 6);
        for (int round = 0; round < 3; round++) {
            run(got, 10);
            for (int k = 0; k < 10; k++) ck_assert_float_eq(got[k], want[k]);
        }
        close_program();
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(spec, sizeof spec, "%s,%s", cuda(), bad[i]);
        ck_assert_int_eq(td_device_open(spec, td_alloc_default(), &dev, &(td_err_t){0}), TD_USAGE);
    }
    close_sample();
    td_arena_deinit(&arena);
    ck_assert_msg(fakecuda_faults(NULL) == 0, "%s", fakecuda_last_fault());
}
END_TEST

/* Each wait between streams is needed: without it some accesses have no order, whatever the seed. */
START_TEST(test_dropped_waits) {
    const char *corpus = getenv("THUNKD_CORPUS");
    char path[512];
    if (!corpus) {
        fprintf(stderr, "fakecuda_run_test: THUNKD_CORPUS is not set: no waits are left out\n");
        return;
    }
    snprintf(path, sizeof path, "%s/parallel_branches/0.12.0.1/h100_sxm+streams.aot", corpus);
    setenv("FAKECUDA_INLINE", "1", 1);
    open_file(path);
    open_driver();
    open_program(cuda());
    run(NULL, 0);
    ck_assert_msg(fakecuda_faults(NULL) == 0, "%s", fakecuda_last_fault());
    ck_assert_uint_gt(td_program_wait_count(program), 2);
    for (uint32_t k = 0; k < td_program_wait_count(program); k++) {
        td_program_drop_wait(program, k);
        run(NULL, 0);
        ck_assert_msg(fakecuda_faults("race") > 0, "wait %u is not missed", k);
        fakecuda_forgive();
    }
    close_program();
    close_sample();
}
END_TEST

/* ---- one kernel: loop_concatenate_fusion.1 pads f32[..] of 256 bytes into 2304 ---- */
typedef struct one {
    CUmodule module;
    CUfunction kernel;
    uint32_t grid[3], block[3];
    const char *name;
} one_t;
static td_span_t cubin(const StreamExecutor__CudaCubinProto *p) {
    return td_artifact_bytes(artifact, p->has_data_payload, p->data_payload, p->data.data, p->data.len);
}
static void load_first(one_t *k) {
    const Xla__Gpu__CustomKernelProto *c = NULL;
    open_sample();
    open_context();
    ck_assert_uint_ge(artifact->exe->n_thunks, 1);
    c = artifact->exe->thunks[0]->custom_kernel_thunk->custom_kernel;
    td_span_t bytes = cubin(c->kernel_spec->cubin);
    const StreamExecutor__Dim3DProto *g = c->block_dims->coordinates, *b = c->thread_dims->coordinates;
    *k = (one_t){.grid = {(uint32_t)g->x, (uint32_t)g->y, (uint32_t)g->z}, .name = c->kernel_spec->kernel_name,
                 .block = {(uint32_t)b->x, (uint32_t)b->y, (uint32_t)b->z}};
    CU(cuModuleLoadDataEx, &k->module, bytes.data, 0, NULL, NULL);
    CU(cuModuleGetFunction, &k->kernel, k->module, k->name);
}
static CUresult launch(const one_t *k, uint32_t grid_x, CUdeviceptr from, CUdeviceptr to) {
    void *params[] = {&from, &to};
    CUlaunchAttribute early = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};
    early.value.programmaticStreamSerializationAllowed = 1;
    CUlaunchConfig c = {grid_x, k->grid[1], k->grid[2], k->block[0], k->block[1], k->block[2], 0, NULL, &early, 1};
    return cu.cuLaunchKernelEx(&c, k->kernel, params, NULL);
}
START_TEST(test_cubin) {
    one_t k = {0};
    load_first(&k);
    size_t at = 0, size = 0;
    CU(cuFuncGetParamInfo, k.kernel, 1, &at, &size);
    ck_assert(at == 8 && size == 8);
    ck_assert_int_eq(cu.cuFuncGetParamInfo(k.kernel, 2, &at, &size), CUDA_ERROR_INVALID_VALUE);
    int v = 0;
    CU(cuFuncGetAttribute, &v, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, k.kernel);
    ck_assert_int_eq(v, (int)(k.block[0] * k.block[1] * k.block[2]));
    CU(cuFuncGetAttribute, &v, CU_FUNC_ATTRIBUTE_NUM_REGS, k.kernel);
    ck_assert_int_gt(v, 0);
    float in[64], out[576];
    for (int i = 0; i < 64; i++) in[i] = (float)i;
    CUdeviceptr from = new_floats(64), to = new_floats(576);
    CU(cuMemcpyHtoDAsync_v2, from, in, sizeof in, NULL);
    ck_assert_int_eq(launch(&k, k.grid[0], from, to), 0);
    CU(cuMemcpyDtoHAsync_v2, out, to, sizeof out, NULL);
    int found[64] = {0};
    for (int i = 0; i < 576; i++) { /* windows of the input: its values and zeros, nothing else */
        ck_assert(out[i] >= 0 && out[i] < 64 && out[i] == (float)(int)out[i]);
        found[(int)out[i]]++;
    }
    for (int i = 1; i < 64; i++) ck_assert_int_ge(found[i], 4);
    ck_assert_int_eq(launch(&k, k.grid[0] + 1, from, to), 0);
    expect_fault("bad-launch", "the artifact says");
    CU(cuCtxSynchronize);
    CU(cuMemFree_v2, from);
    CU(cuMemFree_v2, to);
    CU(cuModuleUnload, k.module);
    close_context();
    close_sample();
}
END_TEST
START_TEST(test_cubin_swapped) { /* found by the sizes that the instruction has */
    one_t k = {0};
    load_first(&k);
    CUdeviceptr from = new_floats(64), to = new_floats(576);
    ck_assert_int_eq(launch(&k, k.grid[0], to, from), CUDA_ERROR_ILLEGAL_ADDRESS);
    expect_fault("out-of-bounds", "argument 1 of");
    close_sample();
    CU(cuDevicePrimaryCtxRelease_v2, 0);
}
END_TEST
START_TEST(test_cubin_elsewhere) {
    setenv("FAKECUDA_CC", "8.0", 1);
    open_sample();
    open_context();
    td_span_t bytes = cubin(artifact->exe->thunks[0]->custom_kernel_thunk->custom_kernel->kernel_spec->cubin);
    CUmodule m = NULL;
    ck_assert_int_eq(cu.cuModuleLoadDataEx(&m, bytes.data, 0, NULL, NULL), CUDA_ERROR_NO_BINARY_FOR_GPU);
    /* Damaged it is refused or read, nothing worse; but where the sections are must be right, for a driver is not
     * told where the image ends. */
    uint64_t sections = 0;
    memcpy(&sections, bytes.data + 0x28, 8);
    uint8_t *copy = malloc(bytes.size + 8);
    for (size_t i = 4; i < sections; i += i < 64 ? 1 : 61) {
        memcpy(copy, bytes.data, bytes.size);
        memset(copy + bytes.size, 0, 8);
        copy[i] ^= 0x15;
        if (i >= 0x20 && i < 0x40) continue;
        if (!cu.cuModuleLoadDataEx(&m, copy, 0, NULL, NULL)) CU(cuModuleUnload, m);
    }
    free(copy);
    close_context();
    close_sample();
}
END_TEST

int main(void) {
    Suite *s = suite_create("fakecuda_run");
    TCase *t = tcase_create("all");
    tcase_add_loop_test(t, test_sample, 0, 4);
    tcase_add_test(t, test_lanes);
    tcase_add_test(t, test_dropped_waits);
    tcase_add_test(t, test_cubin);
    tcase_add_test(t, test_cubin_swapped);
    tcase_add_test(t, test_cubin_elsewhere);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
