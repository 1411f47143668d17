/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in driver: work comes out right in any order that events allow, and each planted fault is caught. */
#include "tests/unit/fakecuda_case.h"

#include <pthread.h>

#ifdef __SANITIZE_THREAD__
enum { PLANT_RACES = 0 }; /* it finds them, too */
#else
enum { PLANT_RACES = 1 };
#endif
enum { N = 1000 };
static CUmodule module;
static CUfunction kernel;
static CUstream a, b;
static CUdeviceptr x, y, z;
static CUevent event;
static float *pinned;

static void prepare(void) {
    open_context();
    module = load_scale(&kernel);
    a = new_stream(), b = new_stream();
    x = new_floats(N), y = new_floats(N), z = new_floats(N);
    CU(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
    CU(cuMemAllocHost_v2, (void **)&pinned, N * sizeof *pinned);
}
static void setup(void) {
    setenv("FAKECUDA_SEED", "1", 1);
    prepare();
}
static void setup_races_off(void) { /* what goes wrong is then seen in the numbers only */
    setenv("FAKECUDA_RACES", "0", 1);
    setup();
}
static void setup_inline(void) {
    setenv("FAKECUDA_INLINE", "1", 1);
    prepare();
}
static void teardown(void) {
    CU(cuStreamSynchronize, a);
    CU(cuStreamSynchronize, b);
    CU(cuStreamDestroy_v2, a);
    CU(cuStreamDestroy_v2, b);
    CU(cuMemFree_v2, x);
    CU(cuMemFree_v2, y);
    CU(cuMemFree_v2, z);
    CU(cuMemFreeHost, pinned);
    CU(cuEventDestroy_v2, event);
    CU(cuModuleUnload, module);
    close_context();
}

static void upload(CUdeviceptr to, float first) {
    float v[N];
    for (int i = 0; i < N; i++) v[i] = first + (float)i;
    CU(cuMemcpyHtoDAsync_v2, to, v, sizeof v, a); /* pageable: v may go at once */
    memset(v, 0, sizeof v);
}
static bool holds(CUdeviceptr from, float first, float factor) {
    float v[N];
    CU(cuMemcpyDtoHAsync_v2, v, from, sizeof v, b); /* pageable: done when it returns */
    for (int i = 0; i < N; i++)
        if (v[i] != (first + (float)i) * factor) return false;
    return true;
}
static void a_before_b(void) {
    CU(cuEventRecord, event, a);
    CU(cuStreamWaitEvent, b, event, 0);
}

START_TEST(test_events_order) {
    for (int i = 0; i < 20; i++) {
        upload(x, (float)i);
        CU(cuMemsetD32Async, y, 0, N, a);
        ck_assert_int_eq(scale(kernel, a, x, y, 3, N), 0);
        a_before_b();
        ck_assert_int_eq(scale(kernel, b, y, z, 2, N), 0);
        ck_assert(holds(z, (float)i, 6));
        CU(cuEventRecord, event, b);
        CU(cuStreamWaitEvent, a, event, 0);
    }
    ck_assert_uint_eq(fakecuda_calls("cuMemsetD32Async"), 20);
}
END_TEST

/* ---- ordering ---- */
START_TEST(test_missing_wait) {
    upload(x, 1);
    ck_assert_int_eq(scale(kernel, a, x, y, 3, N), 0);
    ck_assert_int_eq(scale(kernel, b, y, z, 2, N), 0);
    expect_fault("race", "nothing orders them");
}
END_TEST
START_TEST(test_missing_wait_shows) { /* in the numbers, with some seed of a few */
    bool wrong = false;
    for (int i = 1; i < 30 && !wrong; i++) {
        upload(x, (float)i);
        ck_assert_int_eq(scale(kernel, a, x, y, 3, N), 0);
        ck_assert_int_eq(scale(kernel, b, y, z, 2, N), 0);
        wrong = !holds(z, (float)i, 6);
        CU(cuStreamSynchronize, a);
    }
    ck_assert(wrong);
    ck_assert_uint_eq(fakecuda_faults(NULL), 0);
}
END_TEST
START_TEST(test_record_before_work) { /* an event stands for what was enqueued before its record */
    upload(x, 1);
    CU(cuEventRecord, event, a);
    ck_assert_int_eq(scale(kernel, a, x, y, 3, N), 0);
    CU(cuStreamWaitEvent, b, event, 0);
    CU(cuMemcpyDtoDAsync_v2, z, x, N * 4, b);
    ck_assert_uint_eq(fakecuda_faults(NULL), 0);
    CU(cuMemcpyDtoDAsync_v2, z, y, N * 4, b);
    expect_fault("race", "allocation");
}
END_TEST
START_TEST(test_write_after_read) {
    upload(x, 1);
    CU(cuStreamSynchronize, a);
    CU(cuMemcpyDtoDAsync_v2, y, x, N * 4, a);
    CU(cuMemsetD8Async, x + 2000, 0, 4, b);
    expect_fault("race", "[2000, 2004)");
}
END_TEST
START_TEST(test_disjoint_parts) {
    CU(cuMemsetD8Async, x, 1, 2000, a);
    CU(cuMemsetD8Async, x + 2000, 2, 2000, b);
    CU(cuMemsetD8Async, y, 2, 8, a);
    CU(cuStreamSynchronize, a); /* the host knows: before all that it enqueues later */
    CU(cuMemsetD8Async, y, 3, 8, b);
}
END_TEST
START_TEST(test_pinned_reuse) { /* read when the copy runs, so an early change shows */
    bool wrong = false;
    for (int i = 0; i < 30 && !wrong; i++) {
        for (int k = 0; k < N; k++) pinned[k] = (float)(i + k);
        CU(cuMemcpyHtoDAsync_v2, x, pinned, N * 4, a);
        for (int k = 0; k < N; k++) *(volatile float *)&pinned[k] = -1;
        CU(cuStreamSynchronize, a);
        wrong = !holds(x, (float)i, 1);
    }
    ck_assert(wrong);
}
END_TEST
START_TEST(test_null_stream) { /* waits for blocking streams, not for the others */
    CUstream blocking = NULL;
    CU(cuStreamCreateWithPriority, &blocking, CU_STREAM_DEFAULT, 0);
    CU(cuMemsetD8Async, x, 1, 100, blocking);
    CU(cuMemsetD8Async, x, 2, 100, NULL);
    CU(cuMemsetD8Async, x, 3, 100, blocking);
    CU(cuStreamSynchronize, blocking);
    unsigned char v[100];
    CU(cuMemcpyDtoHAsync_v2, v, x, 100, a);
    ck_assert(v[0] == 3 && v[99] == 3);
    CU(cuMemsetD8Async, y, 1, 100, NULL);
    CU(cuMemsetD8Async, y, 1, 100, a);
    expect_fault("race", "cuMemsetD8Async");
    CU(cuCtxSynchronize);
    CU(cuStreamDestroy_v2, blocking);
}
END_TEST

/* ---- memory ---- */
START_TEST(test_out_of_bounds) {
    CUdeviceptr small = new_floats(N - 1);
    ck_assert_int_eq(cu.cuMemcpyDtoDAsync_v2(small, x, N * 4, a), CUDA_ERROR_INVALID_VALUE);
    expect_fault("out-of-bounds", "4000 bytes");
    ck_assert_int_eq(cu.cuMemsetD8Async(x + 3999, 0, 2, a), CUDA_ERROR_INVALID_VALUE);
    expect_fault("out-of-bounds", "offset 3999");
    CU(cuMemsetD8Async, x + 3999, 0, 1, a);
    CU(cuStreamSynchronize, a);
    CU(cuMemFree_v2, small);
}
END_TEST
START_TEST(test_bad_pointer) {
    int here = 0;
    ck_assert_int_eq(cu.cuMemsetD8Async((uintptr_t)&here, 0, 1, a), CUDA_ERROR_INVALID_VALUE);
    expect_fault("bad-pointer", "no device address");
    ck_assert_int_eq(cu.cuMemcpyHtoDAsync_v2(x, (void *)(uintptr_t)y, 4, a), CUDA_ERROR_INVALID_VALUE);
    expect_fault("bad-pointer", "device address where host memory belongs");
    CU(cuMemcpyHtoDAsync_v2, 0, NULL, 0, a); /* nothing is copied */
}
END_TEST
START_TEST(test_use_after_free) {
    CUdeviceptr p = new_floats(4);
    CU(cuMemFree_v2, p);
    ck_assert_int_eq(cu.cuMemsetD8Async(p, 0, 4, a), CUDA_ERROR_INVALID_VALUE);
    expect_fault("use-after-free", "freed by cuMemFree_v2");
    CUdeviceptr q = new_floats(4); /* never the address again */
    ck_assert(p != q);
    CU(cuMemFree_v2, q);
}
END_TEST
START_TEST(test_double_free) {
    CUdeviceptr p = new_floats(4);
    ck_assert_int_eq(cu.cuMemFree_v2(p + 4), CUDA_ERROR_INVALID_VALUE);
    expect_fault("bad-pointer", "not the begin");
    CU(cuMemFree_v2, p);
    ck_assert_int_eq(cu.cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
    expect_fault("double-free", "freed again");
    ck_assert_int_eq(cu.cuMemFreeHost((void *)(uintptr_t)x), CUDA_ERROR_INVALID_VALUE);
    expect_fault("bad-pointer", "of another kind");
}
END_TEST
START_TEST(test_freed_in_use) {
    CUdeviceptr p = new_floats(N);
    CU(cuMemcpyDtoDAsync_v2, p, x, N * 4, a);
    CU(cuMemFree_v2, p);
    expect_fault("freed-in-use", "may still run");
    float *host = NULL;
    CU(cuMemAllocHost_v2, (void **)&host, 64);
    CU(cuMemcpyHtoDAsync_v2, x, host, 64, a);
    CU(cuMemFreeHost, host);
    expect_fault("freed-in-use", "pinned host allocation");
}
END_TEST
START_TEST(test_registered) {
    float *v = calloc(N, sizeof *v);
    CU(cuMemHostRegister_v2, v, N * 4, 0);
    ck_assert_int_eq(cu.cuMemHostRegister_v2(v + 10, 4, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    CUdeviceptr seen = 0;
    CU(cuMemHostGetDevicePointer_v2, &seen, v + 1, 0);
    CU(cuMemsetD32Async, seen, 0x40000000, N - 1, a); /* 2.0f */
    CU(cuMemHostUnregister, v);
    expect_fault("freed-in-use", "registered");
    CU(cuStreamSynchronize, a);
    ck_assert(v[0] == 0 && v[1] == 2 && v[N - 1] == 2);
    ck_assert_int_eq(cu.cuMemHostUnregister(v), CUDA_ERROR_INVALID_VALUE);
    expect_fault("double-free", "registered");
    free(v);
}
END_TEST
START_TEST(test_memory_ends) {
    size_t left = 0, total = 0;
    CUdeviceptr p = 0;
    CU(cuMemGetInfo_v2, &left, &total);
    ck_assert_int_eq(cu.cuMemAlloc_v2(&p, left + 1), CUDA_ERROR_OUT_OF_MEMORY);
    ck_assert_int_eq(cu.cuMemAlloc_v2(&p, 0), CUDA_ERROR_INVALID_VALUE);
    ck_assert_uint_lt(left, total);
    CU(cuMemAlloc_v2, &p, 512);
    size_t less = 0;
    CU(cuMemGetInfo_v2, &less, &total);
    ck_assert_uint_eq(left - less, 512);
    CU(cuMemFree_v2, p);
}
END_TEST

/* ---- arguments ---- */
START_TEST(test_undersized_argument) {
    CUdeviceptr small = new_floats(N - 1);
    ck_assert_int_eq(scale(kernel, a, x, small, 1, N), CUDA_ERROR_ILLEGAL_ADDRESS);
    expect_fault("out-of-bounds", "argument 1 of 'fakecuda_scale'");
    ck_assert_int_eq(cu.cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS); /* as after a device's fault: for good */
    CUdeviceptr p = 0;
    ck_assert_int_eq(cu.cuMemAlloc_v2(&p, 4), CUDA_ERROR_ILLEGAL_ADDRESS);
    CU(cuDevicePrimaryCtxRelease_v2, 0); /* no leaks are told of a context that failed */
    ck_assert_uint_eq(fakecuda_faults(NULL), 0);
    open_context(); /* a new one is as good as new */
    CU(cuMemAlloc_v2, &p, 4);
    CU(cuMemFree_v2, p);
    close_context();
}
END_TEST
START_TEST(test_swapped_arguments) { /* the kernel reads y and writes x */
    upload(x, 5);
    CU(cuMemsetD32Async, y, 0, N, a);
    ck_assert_int_eq(scale(kernel, a, y, x, 2, N), 0);
    CU(cuStreamSynchronize, a);
    ck_assert(!holds(y, 5, 2));
}
END_TEST
START_TEST(test_argument_block) {
    struct __attribute__((packed)) {
        CUdeviceptr from, to;
        float factor;
        uint32_t n, more;
    } block = {x, y, 2, N, 0};
    size_t size = sizeof block - 4, wrong = sizeof block;
    void *extra[] = {(void *)1, &block, (void *)2, &size, NULL}, *bad[] = {(void *)1, &block, (void *)2, &wrong, NULL};
    upload(x, 5);
    CU(cuLaunchKernel, kernel, 1, 1, 1, 1, 1, 1, 0, a, NULL, extra);
    a_before_b();
    ck_assert(holds(y, 5, 2));
    ck_assert_int_eq(cu.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, a, NULL, bad), CUDA_ERROR_INVALID_VALUE);
    expect_fault("bad-arguments", "28 bytes, the kernel's 24");
    void *too_few[] = {&block.from, &block.to, &block.factor, NULL};
    ck_assert_int_eq(cu.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, a, too_few, NULL), CUDA_ERROR_INVALID_VALUE);
    expect_fault("bad-arguments", "argument 3 of 4");
    void *wild[] = {&block.from, &block.to, (void *)16, &block.n};
    ck_assert_int_eq(cu.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, a, wild, NULL), CUDA_ERROR_INVALID_VALUE);
    expect_fault("bad-arguments", "argument 2 of 4");
    ck_assert_int_eq(cu.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, a, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    expect_fault("bad-arguments", "cannot be read");
}
END_TEST
START_TEST(test_launch_limits) {
    float f = 1;
    uint32_t n = N;
    void *params[] = {&x, &y, &f, &n};
    ck_assert_int_eq(cu.cuLaunchKernel(kernel, 0, 1, 1, 1, 1, 1, 0, a, params, NULL), CUDA_ERROR_INVALID_VALUE);
    expect_fault("bad-launch", "blocks of one dimension 0");
    ck_assert_int_eq(cu.cuLaunchKernel(kernel, 1, 1, 1, 257, 1, 1, 0, a, params, NULL), CUDA_ERROR_INVALID_VALUE);
    expect_fault("bad-launch", "threads of a block 257, at most 256");
    ck_assert_int_eq(cu.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 60000, a, params, NULL), CUDA_ERROR_INVALID_VALUE);
    expect_fault("bad-launch", "shared memory 60000");
    CU(cuFuncSetAttribute, kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 60000);
    CU(cuLaunchKernel, kernel, 1, 1, 1, 1, 1, 1, 60000, a, params, NULL);
    CUresult r = cu.cuFuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 300000);
    ck_assert_int_eq(r, CUDA_ERROR_INVALID_VALUE);
}
END_TEST

/* ---- handles and contexts ---- */
START_TEST(test_stale_handle) {
    CUevent e = NULL;
    CU(cuEventCreate, &e, 0);
    CU(cuEventDestroy_v2, e);
    ck_assert_int_eq(cu.cuEventRecord(e, a), CUDA_ERROR_INVALID_HANDLE);
    expect_fault("bad-handle", "ended by cuEventDestroy_v2");
    ck_assert_int_eq(cu.cuEventRecord((CUevent)(void *)a, a), CUDA_ERROR_INVALID_HANDLE);
    expect_fault("bad-handle", "handle of stream");
    ck_assert_int_eq(cu.cuStreamSynchronize((CUstream)(void *)&e), CUDA_ERROR_INVALID_HANDLE);
    expect_fault("bad-handle", "no handle of a stream");
}
END_TEST
START_TEST(test_unload_in_use) {
    CUfunction f = NULL;
    CUmodule m = load_scale(&f);
    upload(x, 1);
    ck_assert_int_eq(scale(f, a, x, y, 2, N), 0);
    CU(cuModuleUnload, m);
    expect_fault("freed-in-use", "module");
    ck_assert_int_eq(scale(f, a, x, y, 2, N), CUDA_ERROR_INVALID_HANDLE);
    expect_fault("bad-handle", "ended by cuModuleUnload");
}
END_TEST
static void *without_context(void *arg) {
    (void)arg;
    CUdeviceptr p = 0;
    return (void *)(intptr_t)cu.cuMemAlloc_v2(&p, 4);
}
START_TEST(test_no_context) { /* current is a matter of each thread */
    pthread_t t;
    void *r = NULL;
    ck_assert_int_eq(pthread_create(&t, NULL, without_context, NULL), 0);
    pthread_join(t, &r);
    ck_assert_int_eq((int)(intptr_t)r, CUDA_ERROR_INVALID_CONTEXT);
    expect_fault("wrong-context", "no current context");
}
END_TEST

static void add(TCase *t, const TTest *const *tests, size_t n) {
    for (size_t i = 0; i < n; i++) tcase_add_test(t, tests[i]);
}
#define LIST(...) (const TTest *const[]){__VA_ARGS__}
#define ADD(t, ...) add(t, LIST(__VA_ARGS__), sizeof(LIST(__VA_ARGS__)) / sizeof(TTest *))

int main(void) {
    Suite *s = suite_create("fakecuda");
    TCase *order = tcase_create("order"), *numbers = tcase_create("numbers"), *at_once = tcase_create("inline");
    tcase_add_checked_fixture(order, setup, teardown);
    ADD(order, test_events_order, test_disjoint_parts);
    tcase_add_checked_fixture(numbers, setup_races_off, teardown);
    ADD(numbers, test_events_order);
    tcase_add_checked_fixture(at_once, setup_inline, teardown);
    ADD(at_once, test_events_order, test_missing_wait, test_record_before_work, test_freed_in_use,
        test_swapped_arguments);
    if (PLANT_RACES) {
        ADD(order, test_missing_wait, test_record_before_work, test_write_after_read, test_pinned_reuse,
            test_null_stream);
        ADD(numbers, test_missing_wait_shows);
    }
    TCase *memory = tcase_create("memory"), *args = tcase_create("arguments"), *failing = tcase_create("failing");
    tcase_add_checked_fixture(memory, setup, teardown);
    ADD(memory, test_out_of_bounds, test_bad_pointer, test_use_after_free, test_double_free, test_freed_in_use,
        test_registered, test_memory_ends);
    tcase_add_checked_fixture(args, setup, teardown);
    ADD(args, test_swapped_arguments, test_argument_block, test_launch_limits, test_stale_handle, test_unload_in_use,
        test_no_context);
    tcase_add_checked_fixture(failing, setup, NULL);
    ADD(failing, test_undersized_argument);
    TCase *all[] = {order, numbers, at_once, memory, args, failing};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) suite_add_tcase(s, all[i]);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
