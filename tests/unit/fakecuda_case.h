/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of the stand-in driver: its functions, a context, and a kernel of its own, y[i] = x[i] * factor. */
#ifndef TESTS_UNIT_FAKECUDA_CASE_H
#define TESTS_UNIT_FAKECUDA_CASE_H

#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/cuda/driver.h"

static td_cuda_t cu;
static CUcontext context;
static uint64_t (*fakecuda_faults)(const char *kind);
static const char *(*fakecuda_last_fault)(void);
static void (*fakecuda_forgive)(void);
static uint64_t (*fakecuda_calls)(const char *function);

#define CU(name, ...) ck_assert_int_eq(cu.name(__VA_ARGS__), CUDA_SUCCESS)

static const char *fake_path(void) { /* beside the folder of the tests */
    static char path[512];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 40);
    ck_assert_int_gt(n, 0);
    path[n] = 0;
    for (int up = 0; up < 2; up++) *strrchr(path, '/') = 0;
    strcat(path, "/fakecuda/libcuda.so.1");
    return path;
}
static void open_driver(void) {
    td_err_t err = {0};
    ck_assert_msg(td_cuda_open(fake_path(), &cu, &err) == TD_OK, "%s", err.text);
    *(void **)&fakecuda_faults = dlsym(cu.library, "fakecuda_faults");
    *(void **)&fakecuda_last_fault = dlsym(cu.library, "fakecuda_last_fault");
    *(void **)&fakecuda_forgive = dlsym(cu.library, "fakecuda_forgive");
    *(void **)&fakecuda_calls = dlsym(cu.library, "fakecuda_calls");
    ck_assert(fakecuda_faults && fakecuda_last_fault && fakecuda_forgive && fakecuda_calls);
}
static void open_context(void) {
    open_driver();
    CU(cuDevicePrimaryCtxRetain, &context, 0);
    CU(cuCtxSetCurrent, context);
}
/* Nothing is left, and nothing was wrong that the test has not asked for. */
static void close_context(void) {
    CU(cuDevicePrimaryCtxRelease_v2, 0);
    ck_assert_msg(fakecuda_faults(NULL) == 0, "%s", fakecuda_last_fault());
}
/* The one fault so far is of that kind and its text holds the word; it is forgiven. */
static inline void expect_fault(const char *kind, const char *word) {
    ck_assert_msg(fakecuda_faults(kind) == 1 && fakecuda_faults(NULL) == 1,
                  "not one fault '%s' but %llu of all; last: %s", kind,
                  (unsigned long long)fakecuda_faults(NULL), fakecuda_last_fault());
    ck_assert_msg(strstr(fakecuda_last_fault(), word) != NULL, "'%s' does not tell '%s'", fakecuda_last_fault(), word);
    fakecuda_forgive();
}

static const char scale_ptx[] =
    "// a kernel\n.version 8.0\n.target sm_80\n.address_size 64\n"
    ".visible .global .align 4 .b8 counter[12];\n"
    ".visible .entry fakecuda_scale(\n\t.param .u64 from,\n\t.param .u64 .ptr .global .align 4 to,\n"
    "\t.param .f32 factor,\n\t.param .u32 n\n)\n.maxntid 256, 1, 1\n{\n\tret;\n}\n";

static inline CUmodule load_scale(CUfunction *f) {
    CUmodule m = NULL;
    CU(cuModuleLoadDataEx, &m, scale_ptx, 0, NULL, NULL);
    CU(cuModuleGetFunction, f, m, "fakecuda_scale");
    return m;
}
static inline CUresult scale(CUfunction f, CUstream s, CUdeviceptr from, CUdeviceptr to, float factor, uint32_t n) {
    void *params[] = {&from, &to, &factor, &n};
    return cu.cuLaunchKernel(f, 1, 1, 1, 128, 1, 1, 0, s, params, NULL);
}
static inline CUstream new_stream(void) {
    CUstream s = NULL;
    CU(cuStreamCreateWithPriority, &s, CU_STREAM_NON_BLOCKING, 0);
    return s;
}
static inline CUdeviceptr new_floats(uint32_t n) {
    CUdeviceptr p = 0;
    CU(cuMemAlloc_v2, &p, n * sizeof(float));
    return p;
}

#endif
