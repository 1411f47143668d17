/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in driver, continued: contexts, leaks, injected failures and the end of the process; images; graphs. */
#include <sys/wait.h>

#include "tests/unit/fakecuda_case.h"

/* ---- contexts and leaks ---- */
START_TEST(test_two_devices) {
    setenv("FAKECUDA_DEVICES", "2", 1);
    setenv("FAKECUDA_CC", "8.0", 1);
    setenv("FAKECUDA_MEM", "1M", 1);
    open_context();
    int n = 0, major = 0, minor = -1;
    CU(cuDeviceGetCount, &n);
    CU(cuDeviceGetAttribute, &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 1);
    CU(cuDeviceGetAttribute, &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 1);
    ck_assert(n == 2 && major == 8 && minor == 0);
    CUstream s = new_stream();
    CUdeviceptr p = new_floats(4), q = 0;
    ck_assert_int_eq(cu.cuMemAlloc_v2(&q, 1 << 20), CUDA_ERROR_OUT_OF_MEMORY);
    CUcontext other = NULL;
    CU(cuDevicePrimaryCtxRetain, &other, 1);
    ck_assert(other != context);
    CU(cuCtxSetCurrent, other);
    ck_assert_int_eq(cu.cuMemsetD8Async(p, 0, 16, s), CUDA_ERROR_INVALID_CONTEXT);
    expect_fault("wrong-context", "stream 2 belongs to the context of device 0, current is 1");
    CU(cuMemAlloc_v2, &q, 1 << 20); /* its own memory */
    CU(cuMemFree_v2, q);
    CU(cuDevicePrimaryCtxRelease_v2, 1);
    ck_assert_int_eq(cu.cuMemAlloc_v2(&q, 4), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    expect_fault("wrong-context", "ended by cuDevicePrimaryCtxRelease_v2");
    ck_assert_int_eq(cu.cuDevicePrimaryCtxRelease_v2(1), CUDA_ERROR_INVALID_CONTEXT);
    expect_fault("wrong-context", "no primary context");
    CU(cuCtxSetCurrent, context);
    CU(cuMemFree_v2, p);
    CU(cuStreamDestroy_v2, s);
    close_context();
}
END_TEST
START_TEST(test_leaks) {
    open_context();
    CUevent e = NULL;
    void *host = NULL;
    CU(cuEventCreate, &e, 0);
    new_floats(100);
    CU(cuMemAllocHost_v2, &host, 64);
    CU(cuDevicePrimaryCtxRelease_v2, 0);
    ck_assert_uint_eq(fakecuda_faults("leak"), 3);
    ck_assert_uint_eq(fakecuda_faults(NULL), 3);
    fakecuda_forgive();
    ck_assert_int_eq(cu.cuEventQuery(e), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    fakecuda_forgive();
}
END_TEST

/* ---- failures on demand, and the end of the process ---- */
START_TEST(test_injected) {
    setenv("FAKECUDA_FAIL", "cuMemAlloc_v2:2,cuMemAlloc_v2:4:1,cuEventCreate:1:999", 1);
    open_context();
    CUdeviceptr p = new_floats(1), q = 0;
    CUevent e = NULL;
    ck_assert_int_eq(cu.cuMemAlloc_v2(&q, 4), CUDA_ERROR_OUT_OF_MEMORY);
    ck_assert_int_eq(cu.cuEventCreate(&e, 0), CUDA_ERROR_UNKNOWN);
    CU(cuMemAlloc_v2, &q, 4);
    CU(cuMemFree_v2, q);
    ck_assert_int_eq(cu.cuMemAlloc_v2(&q, 4), CUDA_ERROR_INVALID_VALUE);
    CU(cuMemFree_v2, p);
    close_context();
}
END_TEST
START_TEST(test_injected_any) { /* the fifth call, whatever it is */
    setenv("FAKECUDA_FAIL", "5:46", 1);
    open_context(); /* init, version, retain, current */
    CUevent e = NULL;
    ck_assert_int_eq(cu.cuEventCreate(&e, 0), CUDA_ERROR_DEVICE_UNAVAILABLE);
    CU(cuEventCreate, &e, 0);
    CU(cuEventDestroy_v2, e);
    close_context();
}
END_TEST
START_TEST(test_sticky) {
    setenv("FAKECUDA_FAIL", "cuMemsetD8Async:1:700~", 1);
    open_context();
    CUdeviceptr p = new_floats(1);
    CUstream s = new_stream();
    CU(cuMemsetD8Async, p, 0, 4, s); /* found out later */
    ck_assert_int_eq(cu.cuStreamSynchronize(s), CUDA_ERROR_ILLEGAL_ADDRESS);
    ck_assert_int_eq(cu.cuMemFree_v2(p), CUDA_ERROR_ILLEGAL_ADDRESS);
    CU(cuDevicePrimaryCtxRelease_v2, 0);
    ck_assert_uint_eq(fakecuda_faults(NULL), 0);
    CU(cuDevicePrimaryCtxRetain, &context, 0);
    CU(cuCtxSetCurrent, context);
    s = new_stream();
    CU(cuStreamSynchronize, s);
    CU(cuStreamDestroy_v2, s);
    close_context();
}
END_TEST

static int child(void (*body)(void)) { /* its exit status */
    int status = 0;
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (!pid) {
        body();
        exit(7);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}
static void good(void) {
    open_context();
    close_context();
}
static void leaky(void) {
    open_context();
    new_floats(1);
    if (cu.cuDevicePrimaryCtxRelease_v2(0)) exit(1);
}
static void unreleased(void) { open_context(); }
static char report[64];
static void reported(void) {
    setenv("FAKECUDA_REPORT", report, 1);
    leaky();
}
static void touched(void) {
    if (!freopen("/dev/null", "w", stderr)) exit(0);
    open_context();
    volatile float *p = (float *)(uintptr_t)new_floats(1);
    exit((int)*p);
}
START_TEST(test_exit_status) {
    ck_assert_int_eq(child(good), 7);
    ck_assert_int_eq(child(leaky), 99);
    ck_assert_int_eq(child(unreleased), 99);
    setenv("FAKECUDA_EXIT", "0", 1);
    ck_assert_int_eq(child(leaky), 7);
    snprintf(report, sizeof report, "/tmp/td_fakecuda_%ld.json", (long)getpid());
    ck_assert_int_eq(child(reported), 7);
    char line[4096] = "";
    FILE *f = fopen(report, "r");
    ck_assert_ptr_nonnull(f);
    ck_assert_ptr_nonnull(fgets(line, sizeof line, f));
    fclose(f);
    unlink(report);
    ck_assert_ptr_nonnull(strstr(line, "\"faults\":1,"));
    ck_assert_ptr_nonnull(strstr(line, "\"leak\":1}"));
    ck_assert_ptr_nonnull(strstr(line, "\"cuMemAlloc_v2\":1"));
    ck_assert_int_ne(child(touched), 0); /* device memory is not the host's */
    ck_assert_int_ne(child(touched), 7);
}
END_TEST
START_TEST(test_no_device) {
    setenv("FAKECUDA_DEVICES", "0", 1);
    td_err_t err = {0};
    ck_assert_int_eq(td_cuda_open(fake_path(), &cu, &err), TD_NOTFOUND);
    setenv("FAKECUDA_DEVICES", "1", 1);
}
END_TEST

/* ---- images ---- */
START_TEST(test_ptx) {
    open_context();
    CUfunction f = NULL, g = NULL;
    CUmodule m = load_scale(&f);
    const size_t want[][2] = {{0, 8}, {8, 8}, {16, 4}, {20, 4}};
    size_t at = 99, size = 99;
    for (size_t i = 0; i < 4; i++) {
        CU(cuFuncGetParamInfo, f, i, &at, &size);
        ck_assert(at == want[i][0] && size == want[i][1]);
    }
    ck_assert_int_eq(cu.cuFuncGetParamInfo(f, 4, &at, &size), CUDA_ERROR_INVALID_VALUE);
    CU(cuModuleGetFunction, &g, m, "fakecuda_scale");
    ck_assert(f == g);
    ck_assert_int_eq(cu.cuModuleGetFunction(&g, m, "fakecuda_scal"), CUDA_ERROR_NOT_FOUND);
    CUdeviceptr p = 0;
    CU(cuModuleGetGlobal_v2, &p, &size, m, "counter");
    ck_assert_uint_eq(size, 12);
    unsigned char v[12] = {1};
    CU(cuMemcpyDtoHAsync_v2, v, p, 12, NULL);
    ck_assert(!v[0] && !v[11]);
    ck_assert_int_eq(cu.cuModuleGetGlobal_v2(&p, &size, m, "fakecuda_scale"), CUDA_ERROR_NOT_FOUND);
    CU(cuModuleUnload, m);
    close_context();
}
END_TEST
START_TEST(test_bad_images) {
    open_context();
    char log[64] = "";
    int keys[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)sizeof log};
    CUmodule m = NULL;
    ck_assert_int_eq(cu.cuModuleLoadDataEx(&m, "hello", 2, keys, values), CUDA_ERROR_INVALID_IMAGE);
    ck_assert_str_eq(log, "neither a cubin nor PTX");
    CUresult r = cu.cuModuleLoadDataEx(&m, ".version 8.0\n.target sm_100\n", 2, keys, values);
    ck_assert_int_eq(r, CUDA_ERROR_NO_BINARY_FOR_GPU);
    ck_assert_str_eq(log, "made for another architecture");
    ck_assert_int_eq(cu.cuModuleLoadDataEx(&m, ".version 8.0\n", 0, NULL, NULL), CUDA_ERROR_INVALID_PTX);
    unsigned char elf[64] = {0x7f, 'E', 'L', 'F', 2, 1, 1};
    elf[0x3a] = 64; /* size of a section header; no sections, and for no machine */
    ck_assert_int_eq(cu.cuModuleLoadDataEx(&m, elf, 0, NULL, NULL), CUDA_ERROR_INVALID_IMAGE);
    ck_assert_int_eq(cu.cuModuleLoadDataEx(&m, NULL, 0, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    close_context();
}
END_TEST
START_TEST(test_unknown_kernel) { /* nobody says what it computes */
    open_context();
    CUmodule m = NULL;
    CUfunction f = NULL;
    CU(cuModuleLoadDataEx, &m, ".version 8.0\n.target sm_80\n.visible .entry other()\n{ ret; }\n", 0, NULL, NULL);
    CU(cuModuleGetFunction, &f, m, "other");
    ck_assert_int_eq(cu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_LAUNCH_FAILED);
    expect_fault("kernel", "'other'");
    CU(cuModuleUnload, m);
    close_context();
}
END_TEST

/* ---- graphs ---- */
enum { N = 500 };
typedef struct work {
    CUmodule module;
    CUfunction kernel;
    CUstream a, b;
    CUevent fork, join;
    CUdeviceptr x, y, z;
} work_t;
static void work_begin(work_t *w) {
    setenv("FAKECUDA_SEED", "5", 1);
    open_context();
    w->module = load_scale(&w->kernel);
    w->a = new_stream(), w->b = new_stream();
    w->x = new_floats(N), w->y = new_floats(N), w->z = new_floats(N);
    CU(cuEventCreate, &w->fork, CU_EVENT_DISABLE_TIMING);
    CU(cuEventCreate, &w->join, CU_EVENT_DISABLE_TIMING);
}
static void work_end(work_t *w) {
    CU(cuCtxSynchronize);
    CU(cuMemFree_v2, w->x);
    CU(cuMemFree_v2, w->y);
    CU(cuMemFree_v2, w->z);
    CU(cuStreamDestroy_v2, w->a);
    CU(cuStreamDestroy_v2, w->b);
    CU(cuEventDestroy_v2, w->fork);
    CU(cuEventDestroy_v2, w->join);
    CU(cuModuleUnload, w->module);
    close_context();
}
/* y = x * factor on b, then z = y * 2 on a; without `wait` the second does not wait for the first. */
static CUgraph capture(work_t *w, float factor, bool wait) {
    CUgraph g = NULL;
    int status = 0;
    CU(cuStreamBeginCapture_v2, w->a, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    CU(cuEventRecord, w->fork, w->a);
    CU(cuStreamWaitEvent, w->b, w->fork, 0);
    CU(cuStreamIsCapturing, w->b, &status);
    ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    ck_assert_int_eq(scale(w->kernel, w->b, w->x, w->y, factor, N), 0);
    CU(cuEventRecord, w->join, w->b);
    if (wait) CU(cuStreamWaitEvent, w->a, w->join, 0);
    ck_assert_int_eq(scale(w->kernel, w->a, w->y, w->z, 2, N), 0);
    if (!wait) CU(cuStreamWaitEvent, w->a, w->join, 0);
    CU(cuStreamEndCapture, w->a, &g);
    CU(cuStreamIsCapturing, w->b, &status);
    ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_NONE);
    return g;
}
static void launch_and_check(work_t *w, CUgraphExec x, float first, float factor) {
    float v[N];
    for (int i = 0; i < N; i++) v[i] = first + (float)i;
    CU(cuMemcpyHtoDAsync_v2, w->x, v, sizeof v, w->a);
    CU(cuGraphLaunch, x, w->a);
    CU(cuMemcpyDtoHAsync_v2, v, w->z, sizeof v, w->a);
    for (int i = 0; i < N; i++) ck_assert_float_eq(v[i], (first + (float)i) * factor);
}
START_TEST(test_graph) {
    work_t w = {0};
    work_begin(&w);
    CUgraph g = capture(&w, 3, true), h = capture(&w, 4, true), one = NULL;
    CUgraphExec x = NULL;
    CU(cuGraphInstantiateWithFlags, &x, g, 0);
    CU(cuGraphDestroy, g);
    for (int i = 0; i < 5; i++) launch_and_check(&w, x, (float)i, 6);
    CUgraphExecUpdateResultInfo info = {.result = 9};
    CU(cuGraphExecUpdate_v2, x, h, &info);
    ck_assert_int_eq(info.result, 0);
    for (int i = 0; i < 5; i++) launch_and_check(&w, x, (float)i, 8);
    CU(cuStreamBeginCapture_v2, w.a, CU_STREAM_CAPTURE_MODE_GLOBAL);
    CU(cuMemsetD8Async, w.z, 0, 4, w.a);
    CU(cuStreamEndCapture, w.a, &one);
    ck_assert_int_eq(cu.cuGraphExecUpdate_v2(x, one, &info), 910); /* another shape */
    ck_assert_int_ne(info.result, 0);
    launch_and_check(&w, x, 7, 8);
    CU(cuGraphDestroy, one);
    CU(cuGraphDestroy, h);
    CU(cuGraphExecDestroy, x);
    work_end(&w);
}
END_TEST
START_TEST(test_graph_missing_wait) {
    work_t w = {0};
    work_begin(&w);
    CUgraph g = capture(&w, 3, false);
    CUgraphExec x = NULL;
    CU(cuGraphInstantiateWithFlags, &x, g, 0);
    CU(cuGraphLaunch, x, w.a);
    expect_fault("race", "fakecuda_scale");
    CU(cuGraphDestroy, g);
    CU(cuGraphExecDestroy, x);
    work_end(&w);
}
END_TEST
START_TEST(test_graph_freed_memory) { /* addresses are part of a graph, and are checked when it is launched */
    work_t w = {0};
    work_begin(&w);
    CUgraph g = NULL;
    CUgraphExec x = NULL;
    CUdeviceptr p = new_floats(4);
    CU(cuStreamBeginCapture_v2, w.a, CU_STREAM_CAPTURE_MODE_RELAXED);
    CU(cuMemsetD8Async, p, 0, 16, w.a);
    CU(cuStreamEndCapture, w.a, &g);
    CU(cuGraphInstantiateWithFlags, &x, g, 0);
    CU(cuGraphLaunch, x, w.a);
    CU(cuStreamSynchronize, w.a);
    CU(cuMemFree_v2, p);
    ck_assert_int_ne(cu.cuGraphLaunch(x, w.a), CUDA_SUCCESS);
    expect_fault("use-after-free", "freed by cuMemFree_v2");
    CU(cuGraphDestroy, g);
    CU(cuGraphExecDestroy, x);
    work_end(&w);
}
END_TEST
/* Some calls make a capture come to nothing; the stream then works as before. */
START_TEST(test_graph_invalidated) {
    work_t w = {0};
    work_begin(&w);
    CUgraph g = NULL;
    CUdeviceptr p = 0;
    int status = 9;
    for (int k = 0; k < 3; k++) {
        CU(cuStreamBeginCapture_v2, w.a, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
        CU(cuMemsetD8Async, w.x, 0, 4, w.a);
        CU(cuEventRecord, w.fork, w.a);
        CU(cuStreamWaitEvent, w.b, w.fork, 0);
        CUresult r = !k ? cu.cuStreamSynchronize(w.b) : k == 1 ? cu.cuMemAlloc_v2(&p, 4) : cu.cuStreamQuery(w.a);
        ck_assert_int_eq(r, 900);
        expect_fault("bad-arguments", "is capturing");
        ck_assert_int_eq(cu.cuMemsetD8Async(w.x, 0, 4, w.a), 901);
        ck_assert_int_eq(cu.cuEventRecord(w.fork, w.b), 901);
        CU(cuStreamIsCapturing, w.b, &status);
        ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
        ck_assert_int_eq(cu.cuStreamEndCapture(w.a, &g), 901);
        ck_assert_ptr_null(g);
        CU(cuMemsetD8Async, w.x, 0, 4, w.a);
        CU(cuStreamSynchronize, w.a);
        CU(cuStreamSynchronize, w.b);
    }
    CU(cuStreamBeginCapture_v2, w.a, CU_STREAM_CAPTURE_MODE_RELAXED);
    CU(cuMemAlloc_v2, &p, 4); /* allowed in this mode */
    CU(cuMemFree_v2, p);
    CU(cuStreamEndCapture, w.a, &g);
    CU(cuGraphDestroy, g);
    work_end(&w);
}
END_TEST
START_TEST(test_graph_end_fails) {
    work_t w = {0};
    setenv("FAKECUDA_FAIL", "cuStreamEndCapture:1:901", 1);
    work_begin(&w);
    CUgraph g = NULL;
    CU(cuStreamBeginCapture_v2, w.a, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    CU(cuMemsetD8Async, w.x, 0, 4, w.a);
    ck_assert_int_eq(cu.cuStreamEndCapture(w.a, &g), 901);
    ck_assert_ptr_null(g);
    CU(cuStreamSynchronize, w.a);
    work_end(&w);
}
END_TEST
START_TEST(test_graph_unjoined) {
    work_t w = {0};
    work_begin(&w);
    CUgraph g = NULL;
    CU(cuStreamBeginCapture_v2, w.a, CU_STREAM_CAPTURE_MODE_GLOBAL);
    CU(cuEventRecord, w.fork, w.a);
    CU(cuStreamWaitEvent, w.b, w.fork, 0);
    CU(cuMemsetD8Async, w.x, 0, 4, w.b);
    ck_assert_int_eq(cu.cuStreamEndCapture(w.a, &g), 904);
    expect_fault("bad-arguments", "not joined");
    ck_assert_ptr_null(g);
    work_end(&w);
}
END_TEST

int main(void) {
    Suite *s = suite_create("fakecuda_more");
    TCase *t = tcase_create("all");
    const TTest *const tests[] = {
        test_two_devices, test_leaks, test_injected, test_injected_any, test_sticky, test_exit_status, test_no_device,
        test_ptx, test_bad_images, test_unknown_kernel, test_graph, test_graph_missing_wait, test_graph_freed_memory,
        test_graph_unjoined, test_graph_invalidated, test_graph_end_fails};
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) tcase_add_test(t, tests[i]);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
