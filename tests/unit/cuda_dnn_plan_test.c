/* SPDX-License-Identifier: Apache-2.0 */
/* The graphs that thunkd describes, planned by the real cuDNN where that is installed: it takes them for what they are
 * and has an engine for each, for an H100 that need not be there (cuDNN 9.8 and newer plan for a GPU's properties
 * alone). Engines that are compiled when planned need the GPU's driver too and are not in here: leaky ReLU, GELU,
 * norms. Without the library the tests say so and pass. */
#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "runtime/cuda/dnn.h"
#include "tests/unit/cuda_dnn_case.h"

enum {
    DEVICEPROP = 38,
    DEVICEPROP_JSON = 2702,
    CHAR = 24,
    HEUR_DEVICEPROP = 204,
    PLAN_DEVICEPROP = 407,
    ENGINE_DEVICEPROP = 1307,
    VERSION_LEAST = 90800
};
static const char h100[] =
    "{\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],\"regsPerBlock\":65536,"
    "\"multiProcessorCount\":132,\"warpSize\":32,\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":"
    "232448,"
    "\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32,\"maxThreadsPerBlock\":1024,"
    "\"maxThreadsPerSM\":2048,\"pciDeviceId\":0,\"isTccDriver\":0,\"supportCoopLaunch\":1,\"totalGlobalMem\":"
    "85899345920,"
    "\"smClockRateKHz\":1980000,\"memClockRateKHz\":2619000,\"l2CacheSize\":52428800,\"cudaDeviceId\":0,\"deviceVer\":"
    "900,"
    "\"driverVer\":13000,\"deviceName\":\"NVIDIA H100 80GB HBM3\"}";

static td_dnn_t real, dnn; /* the library; what thunkd is given: the same, with properties where handles were */
static cudnnBackendDescriptor_t properties;
static td_cuda_device_t device = {.name = "H100"};
static td_err_t err;

static cudnnStatus_t set(cudnnBackendDescriptor_t d, int name, int type, int64_t n, const void *v) {
    if (name == CUDNN_ATTR_OPERATIONGRAPH_HANDLE) return 0;
    if (name == CUDNN_ATTR_EXECUTION_PLAN_HANDLE)
        name = PLAN_DEVICEPROP, type = CUDNN_TYPE_BACKEND_DESCRIPTOR, v = &properties;
    cudnnStatus_t r = real.cudnnBackendSetAttribute(d, name, type, n, v);
    int more = name == CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH ? HEUR_DEVICEPROP
               : name == CUDNN_ATTR_ENGINE_OPERATION_GRAPH   ? ENGINE_DEVICEPROP
                                                             : 0;
    return r || !more ? r : real.cudnnBackendSetAttribute(d, more, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &properties);
}

/* Instead of those of the device and the loader, which need a driver. */
td_status_t td_cuda_lib_get(td_cuda_device_t *d, const td_cuda_lib_t *lib, const char *what, void *out, td_err_t *e) {
    void *p = &dnn;
    (void)d, (void)lib, (void)what, (void)e;
    memcpy(out, &p, sizeof p);
    return TD_OK;
}
td_status_t td_cuda_lib_version(const td_cuda_lib_t *lib, const char *file, long version, long least, const char *have,
                                const char *want, td_err_t *e) {
    (void)lib, (void)file, (void)version, (void)least, (void)have, (void)want, (void)e;
    return TD_OK;
}
td_status_t td_cuda_enter(td_cuda_device_t *d, td_err_t *e) {
    (void)d, (void)e;
    return TD_OK;
}
td_status_t td_cuda_memset32(td_stream_t *s, void *dst, uint32_t value, uint64_t bytes, td_err_t *e) {
    (void)s, (void)dst, (void)value, (void)bytes, (void)e;
    return TD_OK;
}

static bool skip(const char *why) {
    printf("skip cuda_dnn_plan: %s\n", why);
    return false;
}
static bool open_library(void) {
    void *h = dlopen("libcudnn.so.9", RTLD_NOW);
    Dl_info from;
    if (!h) return skip("there is no libcudnn.so.9");
#if defined __SANITIZE_ADDRESS__
    return skip("cuDNN leaks memory of its own");
#endif
#define FIND(needed, type, name, args) memcpy(&real.name, &(void *){dlsym(h, #name)}, sizeof(void *));
    TD_DNN_SYMBOLS(FIND)
    if (dladdr(dlsym(h, "cudnnCreate"), &from) && strstr(from.dli_fname, "fakecuda"))
        return skip("only the stand-in is there");
    if (real.cudnnGetVersion() < VERSION_LEAST) return skip("cuDNN is older than 9.8");
    if (real.cudnnBackendCreateDescriptor(DEVICEPROP, &properties) ||
        real.cudnnBackendSetAttribute(properties, DEVICEPROP_JSON, CHAR, sizeof h100 - 1, h100) ||
        real.cudnnBackendFinalize(properties))
        return skip("this cuDNN takes other properties of GPUs");
    dnn = real;
    dnn.cudnnBackendSetAttribute = set;
    return true;
}

static td_status_t plan(const td_conv_desc_t *d, bool *out_planned, int64_t *out_bytes) {
    td_arena_t arena;
    td_kernel_t *k = NULL;
    uint64_t scratch = 0;
    td_arena_init(&arena, td_alloc_default(), 0);
    td_status_t st = td_cuda_conv_lower(&device, d, &arena, &k, &scratch, &err);
    *out_planned = !st && ((td_dnn_kernel_t *)k)->plan;
    *out_bytes = (int64_t)scratch;
    if (!st) k->release(k);
    td_arena_deinit(&arena);
    return st;
}
static void planned(td_conv_desc_t d, const char *what) {
    bool yes = false;
    int64_t bytes = 0;
    td_status_t st = plan(&d, &yes, &bytes);
    ck_assert_msg(!st && yes, "%s: %s", what, st ? err.text : "no plan");
}

static const dnn_conv_t wide = {
    .type = TD_F32, .n = 2, .batch = 8, .in = 64, .out = 64, .size = 28, .window = 3, .pad = 1};

START_TEST(test_kinds)
{
    static const td_type_t types[] = {TD_F32, TD_F16, TD_BF16, TD_F64};
    char what[60];
    if (!open_library()) return;
    for (int i = 0; i < 4 * 2 * 3; i++) {
        dnn_conv_t c = wide;
        c.type = types[i % 4], c.order = (dnn_order_t)(i / 4 % 2), c.kind = (td_conv_kind_t)(i / 8);
        snprintf(what, sizeof what, "%s, order %d, kind %d", td_type_name(c.type), c.order, c.kind);
        planned(dnn_conv(&c), what);
    }
}
END_TEST

START_TEST(test_forms)
{
    if (!open_library()) return;
    dnn_conv_t c = wide;
    c.groups = 4;
    planned(dnn_conv(&c), "groups");
    c.groups = 64, c.order = DNN_LAST;
    planned(dnn_conv(&c), "depthwise");
    c = wide, c.n = 1;
    planned(dnn_conv(&c), "one dimension");
    c.order = DNN_LAST, c.type = TD_BF16;
    planned(dnn_conv(&c), "one dimension, features last");
    c.n = 3, c.size = 10;
    planned(dnn_conv(&c), "three dimensions");
    c = wide, c.dilation = 2, c.stride = 2;
    planned(dnn_conv(&c), "strides and gaps");
    c = wide, c.batch = 2, c.in = 3, c.out = 5;
    planned(dnn_conv(&c), "odd sizes");
    td_conv_desc_t d = dnn_conv(&wide);
    d.exact = true;
    planned(d, "without TF32");
    d.window[0].reversal = d.window[1].reversal = true;
    planned(d, "reversed");
    d = dnn_conv(&wide);
    d.has_algorithm = true;
    planned(d, "engine 0");
    d.algorithm = 100000;
    planned(d, "an engine that is not there");
}
END_TEST

START_TEST(test_fused)
{
    static const td_activation_t all[] = {TD_ACT_NONE, TD_ACT_RELU,    TD_ACT_RELU6,
                                          TD_ACT_ELU,  TD_ACT_SIGMOID, TD_ACT_TANH};
    static const td_type_t types[] = {TD_F32, TD_BF16};
    char what[60];
    if (!open_library()) return;
    for (int i = 0; i < 6 * 2; i++) {
        dnn_conv_t c = wide;
        c.type = types[i / 6], c.order = (dnn_order_t)(i / 6);
        snprintf(what, sizeof what, "%s, activation %d", td_type_name(c.type), all[i % 6]);
        planned(dnn_fuse(dnn_conv(&c), all[i % 6], 1, i % 2), what);
    }
    planned(dnn_fuse(dnn_conv(&wide), TD_ACT_RELU, 0.5, 0), "a scale");
    planned(dnn_fuse(dnn_conv(&wide), TD_ACT_RELU, 0.5, 2), "two scales");
}
END_TEST

START_TEST(test_s8)
{
    if (!open_library()) return;
    for (int64_t vector = 4; vector <= 32; vector += 28)
        for (int reordered = 0; reordered <= (vector == 32); reordered++) {
            dnn_conv_t c = wide;
            c.type = TD_S8, c.vector = vector;
            td_conv_desc_t d = dnn_fuse(dnn_conv(&c), TD_ACT_RELU, 0.5, 0);
            d.reordered = reordered;
            planned(d, reordered ? "s8, reordered" : "s8 in blocks");
        }
    dnn_conv_t c = wide;
    c.type = TD_S8, c.order = DNN_LAST;
    td_conv_desc_t d = dnn_conv(&c);
    planned(d, "s8");
    d.y.type = TD_F32;
    planned(d, "s8 to f32");
}
END_TEST

int main(void) {
    Suite *s = suite_create("cuda_dnn_plan");
    TCase *t = tcase_create("cuda_dnn_plan");
    tcase_set_timeout(t, 300);
    tcase_add_test(t, test_kinds);
    tcase_add_test(t, test_forms);
    tcase_add_test(t, test_fused);
    tcase_add_test(t, test_s8);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
