/* SPDX-License-Identifier: Apache-2.0 */
/* Whole programs on the CUDA device with the stand-in driver (tests/fakecuda): the same bytes as on the host device,
 * whatever order events leave open; which GPU is chosen; every call failing once; errors that the context does not
 * survive; nothing allocated while running. Each test is a process of its own, which loads the driver anew. */
#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "executable.pb-c.h"
#include "proto/artifact.h"
#include "runtime/program_in.h"

#define GOLDEN "tests/golden/executables/h100_sxm/v6/"
static const char control[] = GOLDEN "control/executable.aot", attention[] = GOLDEN "attention/executable.aot";

/* Sanitizers make processes slow to start: of the calls that may fail, every seventh. What the stand-in keeps of an
 * artifact until the end is no leak. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { STEP = 7 };
const char *__lsan_default_suppressions(void);
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void) { return "leak:fk_meaning_find\n"; }
#else
enum { STEP = 1 };
#endif

static char driver[512];
static td_counting_alloc_t counter;
static td_payload_table_t *table;
static td_artifact_t *artifact;
static td_module_t *module;
static td_err_t err;
static void *lib;

static uint64_t ask(const char *name, const char *arg) { /* fakecuda_faults, fakecuda_calls */
    uint64_t (*f)(const char *) = NULL;
    if (!lib) lib = dlopen(driver, RTLD_NOW | RTLD_NOLOAD);
    ck_assert_ptr_nonnull(lib);
    *(void **)&f = dlsym(lib, name);
    ck_assert_ptr_nonnull(f);
    return f(arg);
}
static uint64_t calls(const char *function) { return ask("fakecuda_calls", function); }

static void setup(void) {
    td_counting_alloc_init(&counter, td_alloc_default());
    ck_assert_int_eq(td_payload_table_create(&counter.base, &table, &err), TD_OK);
}
static void teardown(void) {
    td_module_close(module);
    td_artifact_close(artifact);
    td_payload_table_destroy(table);
    ck_assert_uint_eq(counter.live_bytes, 0);
    if (lib) ck_assert_uint_eq(ask("fakecuda_faults", NULL), 0);
}
static void load(const char *path) {
    setenv("FAKECUDA_ARTIFACT", path, 1);
    ck_assert_msg(!td_artifact_open_file(path, table, &counter.base, &artifact, &err), "%s", err.text);
    ck_assert_msg(!td_module_open(artifact, &counter.base, &module, &err), "%s", err.text);
}
static td_status_t open_device(const char *options, td_device_t **out) {
    char spec[700];
    snprintf(spec, sizeof spec, "cuda:%s%sdriver=%s", options, *options ? "," : "", driver);
    return td_device_open(spec, &counter.base, out, &err);
}

/* ---- one run: inputs made from numbers, outputs in one block ---- */
typedef struct answer {
    size_t n;
    uint8_t bytes[1 << 16];
} answer_t;
static uint8_t numbers[32][1 << 16];
static const void *inputs[32];
static void make_inputs(const td_program_t *p) {
    ck_assert_uint_le(td_program_input_count(p), 32);
    for (uint32_t i = 0; i < td_program_input_count(p); i++) {
        const td_shape_t *s = td_program_input(p, i)->shape;
        ck_assert_uint_le(td_io_host_bytes(s), sizeof numbers[i]);
        for (int64_t k = 0; k < s->count; k++) {
            float f = (float)((k * 7 + i * 3) % 19) / 16.0f - 0.5f;
            uint32_t v;
            memcpy(&v, &f, 4);
            if (s->type == TD_F32) memcpy(numbers[i] + 4 * k, &f, 4);
            else if (s->type == TD_BF16) memcpy(numbers[i] + 2 * k, (uint8_t *)&v + 2, 2);
            else if (s->type == TD_S32) memcpy(numbers[i] + 4 * k, &(int32_t){(int32_t)(k % 3)}, 4);
        }
        inputs[i] = numbers[i];
    }
}
static td_status_t create(td_device_t *dev, td_program_t **p, td_binding_t **b) {
    const td_program_opts_t opts = {.dev = dev, .alloc = &counter.base};
    td_status_t st = td_program_create(module, &opts, p, &err);
    return st ? st : td_binding_create(*p, &counter.base, b, &err);
}
static td_status_t run_once(const td_program_t *p, td_binding_t *b, answer_t *out) {
    const void *outputs[32];
    ck_assert_uint_le(td_program_output_count(p), 32);
    make_inputs(p);
    td_status_t st = td_program_run(b, inputs, outputs, NULL, &err);
    out->n = 0;
    for (uint32_t i = 0; i < td_program_output_count(p) && !st; i++) {
        uint64_t n = td_io_host_bytes(td_program_output(p, i)->shape);
        ck_assert_uint_le(n, sizeof out->bytes - out->n);
        memcpy(out->bytes + out->n, outputs[i], n);
        out->n += n;
    }
    return st;
}
static td_status_t run_on(td_device_t *dev, answer_t *out) {
    td_program_t *p = NULL;
    td_binding_t *b = NULL;
    td_status_t st = create(dev, &p, &b);
    if (!st) st = run_once(p, b, out);
    td_binding_destroy(b);
    td_program_destroy(p);
    return st;
}

static answer_t want, got;
static void host_answer(void) {
    td_device_t *dev = NULL;
    ck_assert_int_eq(td_host_device_create(&counter.base, &dev, &err), TD_OK);
    ck_assert_msg(!run_on(dev, &want), "%s", err.text);
    td_device_destroy(dev);
    ck_assert_uint_gt(want.n, 0);
}
#define SAME()                                      \
    do {                                            \
        ck_assert_uint_eq(got.n, want.n);           \
        ck_assert_mem_eq(got.bytes, want.bytes, want.n); \
    } while (0)

/* Loops and branches read their conditions back; streams with random delays show a missing order. */
static const char *const seeds[] = {"0", "1", "2", "3", "4"};
START_TEST(same_as_host) {
    td_device_t *dev = NULL;
    setenv("FAKECUDA_SEED", seeds[_i / 2], 1);
    load(_i % 2 ? control : attention);
    host_answer();
    ck_assert_msg(!open_device("", &dev), "%s", err.text);
    ck_assert_str_eq(dev->ops->name, "cuda");
    for (int i = 0; i < 2; i++) {
        ck_assert_msg(!run_on(dev, &got), "%s", err.text);
        SAME();
    }
    td_device_destroy(dev);
}
END_TEST

START_TEST(nothing_is_taken_while_running) {
    static const char *const functions[] = {"cuMemAlloc_v2", "cuMemFree_v2", "cuMemAllocHost_v2", "cuStreamCreateWithPriority",
                                            "cuEventCreate", "cuModuleLoadDataEx", "cuFuncSetAttribute"};
    td_device_t *dev = NULL;
    td_program_t *p = NULL;
    td_binding_t *b = NULL;
    uint64_t before[7];
    load(control);
    host_answer();
    ck_assert_int_eq(open_device("", &dev), TD_OK);
    ck_assert_msg(!create(dev, &p, &b), "%s", err.text);
    for (int i = 0; i < 7; i++) before[i] = calls(functions[i]);
    unsigned long long gets = counter.gets;
    for (int i = 0; i < 3; i++) {
        ck_assert_msg(!run_once(p, b, &got), "%s", err.text);
        SAME();
    }
    ck_assert_uint_eq(counter.gets, gets);
    for (int i = 0; i < 7; i++) ck_assert_msg(calls(functions[i]) == before[i], "%s", functions[i]);
    td_binding_destroy(b);
    td_program_destroy(p);
    td_device_destroy(dev);
}
END_TEST

/* Compiled code computes addresses with the alignment of what it is given. */
START_TEST(alignment) {
    td_device_t *dev = NULL;
    td_program_t *p = NULL;
    td_binding_t *b = NULL;
    uint32_t n = 0;
    load(control);
    ck_assert_int_eq(open_device("", &dev), TD_OK);
    ck_assert_msg(!create(dev, &p, &b), "%s", err.text);
    for (uint32_t i = 0; i < p->n_slots; i++) {
        ck_assert_uint_eq((uintptr_t)p->slots[i].constant % 256, 0);
        ck_assert_uint_eq(p->slots[i].offset % 256, 0);
        n += p->slots[i].constant != NULL;
    }
    ck_assert_uint_ge(n, 1);
    td_binding_destroy(b);
    td_program_destroy(p);
    td_device_destroy(dev);
}
END_TEST

/* Two devices at a time, one thread: each call finds its own context. */
START_TEST(two_devices) {
    td_device_t *dev[2] = {NULL, NULL};
    setenv("FAKECUDA_DEVICES", "2", 1);
    load(attention);
    host_answer();
    ck_assert_int_eq(open_device("0", &dev[0]), TD_OK);
    ck_assert_int_eq(open_device("auto", &dev[1]), TD_OK); /* looks into contexts of its own */
    td_device_destroy(dev[1]);
    ck_assert_msg(!run_on(dev[0], &got), "%s", err.text);
    SAME();
    ck_assert_int_eq(open_device("1", &dev[1]), TD_OK);
    for (int i = 0; i < 4; i++) {
        ck_assert_msg(!run_on(dev[i % 2], &got), "%s", err.text);
        SAME();
    }
    td_device_destroy(dev[0]);
    ck_assert_msg(!run_on(dev[1], &got), "%s", err.text);
    SAME();
    td_device_destroy(dev[1]);
}
END_TEST

/* Two programs of one artifact load its code once, and the last one takes it away. */
START_TEST(code_is_shared) {
    td_device_t *dev = NULL;
    td_program_t *p[2] = {NULL, NULL};
    td_binding_t *b[2] = {NULL, NULL};
    load(attention);
    host_answer();
    ck_assert_int_eq(open_device("", &dev), TD_OK);
    ck_assert_msg(!create(dev, &p[0], &b[0]), "%s", err.text);
    uint64_t n = calls("cuModuleLoadDataEx");
    ck_assert_uint_ge(n, 1);
    ck_assert_msg(!create(dev, &p[1], &b[1]), "%s", err.text);
    ck_assert_uint_eq(calls("cuModuleLoadDataEx"), n);
    td_binding_destroy(b[0]);
    td_program_destroy(p[0]);
    ck_assert_uint_eq(calls("cuModuleUnload"), 0);
    ck_assert_msg(!run_once(p[1], b[1], &got), "%s", err.text);
    SAME();
    td_binding_destroy(b[1]);
    td_program_destroy(p[1]);
    ck_assert_uint_eq(calls("cuModuleUnload"), n);
    td_device_destroy(dev);
}
END_TEST

/* ---- which GPU ---- */
START_TEST(choice) {
    td_device_t *dev = NULL;
    setenv("FAKECUDA_DEVICES", "3", 1);
    ck_assert_int_eq(open_device("", &dev), TD_OK);
    ck_assert_ptr_nonnull(strstr(td_cuda_device_choice(dev), "cuda:0"));
    td_device_destroy(dev);
    ck_assert_int_eq(open_device("2", &dev), TD_OK);
    ck_assert_ptr_nonnull(strstr(td_cuda_device_choice(dev), "cuda:2"));
    ck_assert_ptr_nonnull(strstr(td_cuda_device_choice(dev), "asked for"));
    char uuid[41] = "";
    const char *at = strstr(td_cuda_device_choice(dev), "GPU-");
    ck_assert_ptr_nonnull(at);
    memcpy(uuid, at, 40);
    td_device_destroy(dev);
    ck_assert_msg(!open_device(uuid, &dev), "%s", err.text);
    ck_assert_ptr_nonnull(strstr(td_cuda_device_choice(dev), "cuda:2"));
    td_device_destroy(dev);
    ck_assert_msg(!open_device("auto", &dev), "%s", err.text);
    ck_assert_ptr_nonnull(strstr(td_cuda_device_choice(dev), "the best of 3"));
    td_device_destroy(dev);
    ck_assert_msg(!open_device("cc=9.0", &dev), "%s", err.text);
    td_device_destroy(dev);
    dev = NULL;
    ck_assert_int_eq(open_device("3", &dev), TD_NOTFOUND);
    ck_assert_ptr_nonnull(strstr(err.text, "no device cuda:3: there are 3"));
    ck_assert_int_eq(open_device("99999999999999999999", &dev), TD_NOTFOUND);
    ck_assert_int_eq(open_device("GPU-00000000-0000-0000-0000-00000000ffff", &dev), TD_NOTFOUND);
    ck_assert_int_eq(open_device("auto,cc=8.0", &dev), TD_NOTFOUND);
    ck_assert_ptr_nonnull(strstr(err.text, "cuda:2"));
    ck_assert_ptr_nonnull(strstr(err.text, "not that capability"));
    ck_assert_int_eq(open_device("1,cc=8.0", &dev), TD_MISMATCH);
    ck_assert_ptr_null(dev);
}
END_TEST

START_TEST(mig_instance) {
    td_device_t *dev = NULL;
    setenv("FAKECUDA_MIG", "1g.18gb", 1);
    ck_assert_msg(!open_device("MIG-fafafafa-fafa-fafa-fafa-fafafafafa00", &dev), "%s", err.text);
    ck_assert_ptr_nonnull(strstr(td_cuda_device_choice(dev), " MIG 1g.18gb, "));
    ck_assert_ptr_nonnull(strstr(td_cuda_device_choice(dev), ", MIG-fafafafa-fafa-fafa-fafa-fafafafafa00: asked for"));
    ck_assert_ptr_null(strstr(td_cuda_device_choice(dev), "GPU-"));
    td_device_destroy(dev);
    dev = NULL;
    ck_assert_int_eq(open_device("MIG-fafafafa-fafa-fafa-fafa-fafafafafa01", &dev), TD_NOTFOUND);
    ck_assert_ptr_nonnull(strstr(err.text, "CUDA_VISIBLE_DEVICES"));
    ck_assert_int_eq(open_device("MIG-", &dev), TD_NOTFOUND);
    ck_assert_ptr_null(dev);
}
END_TEST

START_TEST(other_gpu) {
    td_device_t *dev = NULL;
    setenv("FAKECUDA_CC", "10.0", 1);
    load(attention);
    ck_assert_int_eq(open_device("", &dev), TD_OK);
    ck_assert_int_eq(run_on(dev, &got), TD_MISMATCH);
    ck_assert_msg(strstr(err.text, "code for sm_90a, device of compute capability 10.0") != NULL, "%s", err.text);
    td_device_destroy(dev);
}
END_TEST

START_TEST(old_driver) {
    td_device_t *dev = NULL;
    setenv("FAKECUDA_DRIVER", "11080", 1);
    ck_assert_int_eq(open_device("", &dev), TD_UNSUPPORTED);
    ck_assert_msg(strstr(err.text, "serves CUDA 11.8, needed is 12.0") != NULL, "%s", err.text);
}
END_TEST

START_TEST(little_memory) {
    td_device_t *dev = NULL;
    setenv("FAKECUDA_MEM", "1M", 1);
    load(attention);
    ck_assert_int_eq(open_device("", &dev), TD_OK);
    ck_assert_int_eq(run_on(dev, &got), TD_NOMEM);
    ck_assert_msg(strstr(err.text, "bytes of device memory") != NULL, "%s", err.text);
    td_device_destroy(dev);
}
END_TEST

/* ---- failures ---- */
/* The N-th call of the driver fails; the rest of the process goes on. Each is a process of its own. */
enum { CALLS_MOST = 330 }; /* more than there are, from cuInit to the release */
START_TEST(each_call_fails) {
    char which[32];
    td_device_t *dev = NULL;
    int call = 1 + _i * STEP;
    snprintf(which, sizeof which, "%d", call);
    setenv("FAKECUDA_FAIL", which, 1);
    setenv("FAKECUDA_LEAKS", "0", 1); /* a free that was made to fail leaks */
    setenv("FAKECUDA_MEM", "64M", 1);
    load(control);
    host_answer();
    td_status_t st = open_device("", &dev);
    if (!st) st = run_on(dev, &got);
    if (!st) SAME();
    else ck_assert_uint_gt(strlen(err.text), 20);
    td_device_destroy(dev);
    dev = NULL;
    ck_assert_uint_lt(calls(NULL), CALLS_MOST - 1);
    if (calls(NULL) < (uint64_t)call) { /* it was not reached */
        ck_assert_int_eq(st, TD_OK);
        return;
    }
    ck_assert_msg(!open_device("", &dev), "%s", err.text); /* the next one succeeds */
    ck_assert_msg(!run_on(dev, &got), "%s", err.text);
    SAME();
    td_device_destroy(dev);
}
END_TEST

/* Memory of the host's ends instead. */
START_TEST(each_allocation_fails) {
    td_device_t *dev = NULL;
    td_status_t st = TD_NOMEM;
    load(control);
    host_answer();
    for (unsigned n = 1; st; n++) {
        ck_assert_uint_lt(n, 1000);
        unsigned long long live = counter.live_bytes;
        counter.fail_at = counter.gets + n;
        dev = NULL;
        st = open_device("", &dev);
        if (!st) st = run_on(dev, &got);
        td_device_destroy(dev);
        counter.fail_at = 0;
        ck_assert_msg(!st || st == TD_NOMEM || st == TD_LIMIT, "%s", err.text);
        ck_assert_uint_eq(counter.live_bytes, live);
    }
    SAME();
}
END_TEST

/* A kernel faults: the run says so, and so does all that comes later on this device. */
START_TEST(poisoned) {
    td_device_t *dev = NULL;
    td_program_t *p = NULL;
    td_binding_t *b = NULL;
    void *memory = NULL;
    setenv("FAKECUDA_FAIL", "cuLaunchKernelEx:2:700~", 1);
    load(attention);
    ck_assert_int_eq(open_device("", &dev), TD_OK);
    ck_assert_msg(!create(dev, &p, &b), "%s", err.text);
    td_err_t cause = {0};
    ck_assert(!td_device_failed(dev, &cause));
    td_status_t st = TD_OK;
    for (int i = 0; i < 4 && !st; i++) st = run_once(p, b, &got);
    ck_assert_int_eq(st, TD_DEVICE);
    ck_assert(td_device_failed(dev, NULL) && td_device_failed(dev, &cause));
    ck_assert_ptr_nonnull(strstr(cause.text, "(700)"));
    ck_assert_msg(strstr(err.text, "CUDA_ERROR_ILLEGAL_ADDRESS (700)") != NULL, "%s", err.text);
    ck_assert_int_eq(run_once(p, b, &got), TD_DEVICE);
    ck_assert_msg(strstr(err.text, "failed before") && strstr(err.text, "(700)"), "%s", err.text);
    ck_assert_int_eq(dev->ops->mem_get(dev, 16, &memory, &err), TD_DEVICE);
    ck_assert_ptr_nonnull(strstr(err.text, "(700)"));
    td_binding_destroy(b);
    td_program_destroy(p);
    td_device_destroy(dev);
}
END_TEST

/* ---- thunks that do not fit their code ---- */
static Xla__Gpu__CustomKernelThunkProto *first_kernel(void) {
    for (size_t i = 0; i < artifact->exe->n_thunks; i++)
        if (artifact->exe->thunks[i]->impl_case == XLA__GPU__THUNK_PROTO__IMPL_CUSTOM_KERNEL_THUNK)
            return artifact->exe->thunks[i]->custom_kernel_thunk;
    ck_abort_msg("no kernel");
    return NULL;
}
static td_status_t reopened(td_device_t *dev) { /* parsed and lowered anew; err tells */
    td_program_t *p = NULL;
    td_binding_t *b = NULL;
    td_module_close(module);
    module = NULL;
    td_status_t st = td_module_open(artifact, &counter.base, &module, &err);
    if (!st) st = create(dev, &p, &b);
    td_binding_destroy(b);
    td_program_destroy(p);
    return st;
}
START_TEST(wrong_thunks) {
    td_device_t *dev = NULL;
    load(attention);
    ck_assert_int_eq(open_device("", &dev), TD_OK);
    ck_assert_msg(!reopened(dev), "%s", err.text);
    Xla__Gpu__CustomKernelProto *k = first_kernel()->custom_kernel;
    StreamExecutor__KernelLoaderSpecProto *s = k->kernel_spec;
#define WRONG(place, value, code, part)                                    \
    do {                                                                   \
        __typeof__(place) kept = (place);                                  \
        (place) = (value);                                                 \
        ck_assert_msg(reopened(dev) == (code), "%s", err.text);            \
        ck_assert_msg(strstr(err.text, (part)) != NULL, "%s", err.text);   \
        (place) = kept;                                                    \
    } while (0)
    WRONG(k->thread_dims->coordinates->x, 32, TD_MISMATCH, "the code was compiled for");
    WRONG(k->thread_dims->coordinates->x, 0, TD_MALFORMED, "threads: dimension x is 0");
    WRONG(k->block_dims->coordinates->y, 1ll << 33, TD_MALFORMED, "blocks: dimension y is 8589934592");
    WRONG(k->block_dims->coordinates->y, 70000, TD_MISMATCH, "70000 blocks");
    WRONG(k->shared_memory_bytes, -1, TD_MALFORMED, "-1 bytes of shared memory");
    WRONG(k->shared_memory_bytes, 1 << 20, TD_MISMATCH, "1048576 bytes of dynamic");
    WRONG(s->arity, 1, TD_MISMATCH, "the kernel takes 1 parameters");
    WRONG(s->kernel_name, (char *)"nothing", TD_NOTFOUND, "the code has no kernel of that name; it has 1, the first is");
    WRONG(s->payload_case, 0, TD_MALFORMED, "the artifact holds no code for it");
    WRONG(s->kernel_args_packing_spec->n_kernel_arguments, s->kernel_args_packing_spec->n_kernel_arguments - 1, TD_MISMATCH, "parameters, the thunk makes");
    size_t n = s->kernel_args_packing_spec->n_kernel_arguments--;
    s->arity--;
    ck_assert_int_eq(reopened(dev), TD_MISMATCH);
    ck_assert_ptr_nonnull(strstr(err.text, "the code takes"));
    s->kernel_args_packing_spec->n_kernel_arguments = n;
    s->arity++;
    ck_assert_msg(!reopened(dev), "%s", err.text);
    td_device_destroy(dev);
}
END_TEST

int main(int argc, char **argv) {
    (void)argc;
    char self[400] = "";
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) strncpy(self, argv[0], sizeof self - 1);
    for (int i = 0; i < 2; i++)
        if (strrchr(self, '/')) *strrchr(self, '/') = 0;
    snprintf(driver, sizeof driver, "%s/fakecuda/libcuda.so.1", self);
    if (access(driver, R_OK)) {
        printf("cuda_test: %s is not there: skipped\n", driver);
        return 0;
    }
    Suite *s = suite_create("cuda");
    TCase *t = tcase_create("programs");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, same_as_host, 0, 10);
    tcase_add_test(t, nothing_is_taken_while_running);
    tcase_add_test(t, alignment);
    tcase_add_test(t, two_devices);
    tcase_add_test(t, code_is_shared);
    tcase_add_test(t, choice);
    tcase_add_test(t, mig_instance);
    tcase_add_test(t, other_gpu);
    tcase_add_test(t, old_driver);
    tcase_add_test(t, little_memory);
    tcase_add_loop_test(t, each_call_fails, 0, CALLS_MOST / STEP);
    tcase_add_test(t, each_allocation_fails);
    tcase_add_test(t, poisoned);
    tcase_add_test(t, wrong_thunks);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
