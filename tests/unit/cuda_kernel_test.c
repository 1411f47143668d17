/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of the CUDA device on a driver of this file, which notes what it is told: parameters, tensor maps, launch
 * attributes, shared memory, modules, variables; and what is refused before anything is launched. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/cuda.h"

/* ---- the driver ---- */
static int n_loaded, n_live, function_shared, function_most, set_most, n_plain, n_ex, n_filled;
static char loaded_text[64], log_of_driver[64];
static CUresult load_result;
static CUlaunchConfig config;
static CUlaunchAttribute attributes[4];
static uint8_t seen[8][128]; /* bytes of the parameters */
static uint32_t n_seen, widths[8];
static struct { CUdeviceptr at; unsigned value; size_t n; int unit; } fills[4];
static struct { int type; uint32_t rank; void *address; uint64_t dims[5], strides[4]; uint32_t box[5]; int modes[4]; } map;
static uint8_t variable[64];

static CUresult set_current(CUcontext c) {
    (void)c;
    return 0;
}
static CUresult load(CUmodule *m, const void *image, unsigned n, int *options, void **values) {
    for (unsigned i = 0; i < n; i++)
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER) strcpy(values[i], log_of_driver);
    strncpy(loaded_text, image, sizeof loaded_text - 1);
    n_loaded++;
    if (load_result) return load_result;
    n_live++;
    *m = malloc(1);
    return 0;
}
static CUresult unload(CUmodule m) {
    n_live--;
    free(m);
    return 0;
}
static CUresult get_function(CUfunction *f, CUmodule m, const char *name) {
    (void)m;
    *f = (CUfunction)(uintptr_t)0x10;
    return strcmp(name, "missing") ? 0 : CUDA_ERROR_NOT_FOUND;
}
static CUresult get_attribute(int *v, int attribute, CUfunction f) {
    (void)f;
    *v = attribute == CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES ? function_shared : function_most;
    return 0;
}
static CUresult set_attribute(CUfunction f, int attribute, int v) {
    (void)f;
    ck_assert_int_eq(attribute, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
    set_most = function_most = v;
    return 0;
}
static CUresult param_info(CUfunction f, size_t i, size_t *offset, size_t *size) {
    (void)f;
    if (i >= n_seen) return CUDA_ERROR_INVALID_VALUE;
    *offset = 8 * i;
    *size = widths[i];
    return 0;
}
static void note(void **params) {
    for (uint32_t i = 0; i < n_seen; i++) memcpy(seen[i], params[i], widths[i]);
}
static CUresult plain(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned shared, CUstream q, void **params, void **extra) {
    ck_assert_ptr_null(extra);
    (void)f;
    n_plain++;
    config = (CUlaunchConfig){gx, gy, gz, bx, by, bz, shared, q, NULL, 0};
    note(params);
    return 0;
}
static CUresult ex(const CUlaunchConfig *c, CUfunction f, void **params, void **extra) {
    ck_assert_ptr_null(extra);
    (void)f;
    n_ex++;
    config = *c;
    ck_assert_uint_le(c->numAttrs, 4);
    memcpy(attributes, c->attrs, c->numAttrs * sizeof *attributes);
    note(params);
    return 0;
}
static CUresult fill32(CUdeviceptr at, unsigned v, size_t n, CUstream q) {
    (void)q;
    fills[n_filled].at = at, fills[n_filled].value = v, fills[n_filled].n = n, fills[n_filled++].unit = 4;
    return 0;
}
static CUresult fill8(CUdeviceptr at, unsigned char v, size_t n, CUstream q) {
    (void)q;
    fills[n_filled].at = at, fills[n_filled].value = v, fills[n_filled].n = n, fills[n_filled++].unit = 1;
    return 0;
}
static CUresult encode(CUtensorMap *m, int type, uint32_t rank, void *address, const uint64_t *dims, const uint64_t *strides,
                       const uint32_t *box, const uint32_t *element, int interleave, int swizzle, int l2, int oob) {
    ck_assert_uint_eq((uintptr_t)m % 64, 0);
    memset(m, 0xab, sizeof *m);
    map.type = type, map.rank = rank, map.address = address;
    memcpy(map.dims, dims, rank * 8);
    memcpy(map.strides, strides, (rank - 1) * 8);
    memcpy(map.box, box, rank * 4);
    ck_assert_uint_eq(element[0], 1);
    map.modes[0] = interleave, map.modes[1] = swizzle, map.modes[2] = l2, map.modes[3] = oob;
    return 0;
}
static CUresult error_name(CUresult r, const char **out) {
    *out = r == CUDA_ERROR_INVALID_PTX ? "CUDA_ERROR_INVALID_PTX" : "CUDA_ERROR_OTHER";
    return 0;
}
static CUresult error_string(CUresult r, const char **out) {
    *out = r ? "something" : "nothing";
    return 0;
}

static td_counting_alloc_t counter;
static td_cuda_device_t dev;
static td_cuda_stream_t stream = {.base.device = &dev.base};
static td_arena_t arena;
static td_err_t err;
static td_kernel_t *kernel;
static td_kernel_arg_t args[4];
static td_launch_param_t params[4];
static td_launch_t launch;
static td_kernel_desc_t desc;

static void setup(void) {
    td_counting_alloc_init(&counter, td_alloc_default());
    dev = (td_cuda_device_t){.base.alloc = &counter.base, .serial = 7, .major = 9, .name = "stand-in", .threads_most = 1024,
        .block_most = {1024, 1024, 64}, .grid_most = {0x7fffffff, 65535, 65535}, .shared_most = 232448};
    dev.cu = (td_cuda_t){.cuCtxSetCurrent = set_current, .cuModuleLoadDataEx = load, .cuModuleUnload = unload,
        .cuModuleGetFunction = get_function, .cuFuncGetAttribute = get_attribute, .cuFuncSetAttribute = set_attribute,
        .cuFuncGetParamInfo = param_info, .cuLaunchKernel = plain, .cuLaunchKernelEx = ex, .cuMemsetD32Async = fill32,
        .cuMemsetD8Async = fill8, .cuTensorMapEncodeTiled = encode, .cuGetErrorName = error_name,
        .cuGetErrorString = error_string};
    pthread_mutex_init(&dev.lock, NULL);
    td_arena_init(&arena, &counter.base, 0);
    n_seen = 3;
    for (int i = 0; i < 8; i++) widths[i] = 8;
    for (uint32_t i = 0; i < 4; i++) args[i] = (td_kernel_arg_t){.allocation = i, .size = 1000 + i}, params[i].arg = (int32_t)i;
    launch = (td_launch_t){.kind = TD_IMAGE_PTX, .image = {(const uint8_t *)".version 8.0!", 12}, .symbol = "f",
        .grid = {4, 2, 1}, .block = {128, 2, 1}, .params = params, .n_params = 3};
    desc = (td_kernel_desc_t){.name = "fusion", .args = args, .n_args = 3, .launch = &launch};
    function_most = 48 << 10;
    set_most = -1;
}
static void teardown(void) {
    if (kernel) kernel->release(kernel);
    td_arena_deinit(&arena);
    pthread_mutex_destroy(&dev.lock);
    ck_assert_int_eq(n_live, 0);
    ck_assert_ptr_null(dev.modules);
    ck_assert_uint_eq(counter.live_bytes, 0);
}

static td_status_t lower(void) {
    uint64_t scratch = 1;
    td_status_t st = td_cuda_kernel_lower(&dev.base, &desc, &arena, &kernel, &scratch, &err);
    if (!st) ck_assert_uint_eq(scratch, 0);
    return st;
}
static void *bufs[4] = {(void *)0x1000, (void *)0x2000, (void *)0x3002, (void *)0x4000};
static void run(void) {
    unsigned long long before = counter.gets;
    ck_assert_msg(!kernel->launch(&stream.base, kernel, bufs, desc.n_args, NULL, &err), "%s", err.text);
    ck_assert_uint_eq(counter.gets, before); /* nothing is allocated */
}
static uint64_t number(uint32_t i) {
    uint64_t v;
    memcpy(&v, seen[i], 8);
    return v;
}
#define REFUSED(code, part)                                            \
    do {                                                               \
        ck_assert_int_eq(lower(), (code));                             \
        ck_assert_msg(strstr(err.text, (part)) != NULL, "%s", err.text); \
        ck_assert_ptr_null(kernel);                                    \
        ck_assert_int_eq(n_live, 0);                                   \
    } while (0)

START_TEST(addresses) {
    ck_assert_msg(!lower(), "%s", err.text);
    ck_assert_str_eq(loaded_text, ".version 8.0"); /* with a NUL that the image does not have */
    run();
    ck_assert_int_eq(n_plain, 1);
    ck_assert_int_eq(n_ex, 0);
    ck_assert_int_eq(set_most, -1);
    for (uint32_t i = 0; i < 3; i++) ck_assert_uint_eq(number(i), (uintptr_t)bufs[i]);
    const unsigned got[] = {config.gridDimX, config.gridDimY, config.gridDimZ, config.blockDimX, config.blockDimY,
                            config.blockDimZ, config.sharedMemBytes}, want[] = {4, 2, 1, 128, 2, 1, 0};
    ck_assert_mem_eq(got, want, sizeof got);
}
END_TEST

/* ptr(arg 0), a constant wider than its parameter, arg 2, arg 2 again, a narrow constant; arg 1 is dropped. */
START_TEST(packing) {
    static const uint8_t wide[8] = {0x48, 0x13}, narrow[2] = {7, 0};
    const td_launch_param_t v[5] = {{.arg = 0}, {-1, {wide, 8}}, {.arg = 2}, {.arg = 2}, {-1, {narrow, 2}}};
    launch.params = v, launch.n_params = n_seen = 5;
    widths[1] = 4, widths[4] = 4;
    ck_assert_msg(!lower(), "%s", err.text);
    run();
    ck_assert_uint_eq(number(0), 0x1000);
    ck_assert_uint_eq((uint32_t)number(1), 0x1348);
    ck_assert_uint_eq(number(2), 0x3002);
    ck_assert_uint_eq(number(3), 0x3002);
    ck_assert_uint_eq((uint32_t)number(4), 7);
    kernel->release(kernel), kernel = NULL;
    widths[1] = 16; /* the driver would read past the constant */
    REFUSED(TD_MISMATCH, "parameter 1 of the code has 16 bytes, the thunk gives 8");
    widths[1] = 8, widths[2] = 128;
    REFUSED(TD_MISMATCH, "parameter 2 of the code has 128 bytes, the thunk gives 8");
    widths[2] = 8, n_seen = 6;
    REFUSED(TD_MISMATCH, "the code takes 6 parameters, the thunk gives 5");
    n_seen = 4;
    REFUSED(TD_MISMATCH, "the code takes 4 parameters, the thunk gives 5");
}
END_TEST

START_TEST(tensor_maps) {
    const td_tma_t m = {.arg = 1, .rank = 2, .element_bytes = 4, .dims = {1024, 512}, .strides = {4096}, .box = {16, 32},
                        .element_strides = {1, 1}, .swizzle = 2, .l2_promotion = 2};
    launch.tma = &m, launch.n_tma = 1;
    widths[1] = 128;
    ck_assert_msg(!lower(), "%s", err.text);
    run();
    ck_assert_int_eq(map.type, 2); /* unsigned, of 32 bits */
    ck_assert_uint_eq(map.rank, 2);
    ck_assert_ptr_eq(map.address, bufs[1]);
    ck_assert_uint_eq(map.dims[0], 1024);
    ck_assert_uint_eq(map.dims[1], 512);
    ck_assert_uint_eq(map.strides[0], 4096);
    ck_assert_uint_eq(map.box[1], 32);
    ck_assert_int_eq(map.modes[1], 2);
    ck_assert_uint_eq(number(0), 0x1000);
    for (int i = 0; i < 128; i++) ck_assert_int_eq(seen[1][i], 0xab);
    kernel->release(kernel), kernel = NULL;
    dev.cu.cuTensorMapEncodeTiled = NULL;
    dev.cu.version = 11080;
    REFUSED(TD_UNSUPPORTED, "takes tensor maps, which the driver does not have (CUDA 11.8)");
}
END_TEST

START_TEST(cluster_and_pdl) {
    launch.cluster[0] = 2, launch.cluster[1] = 2, launch.cluster[2] = 1;
    launch.pdl = true;
    ck_assert_msg(!lower(), "%s", err.text);
    run();
    ck_assert_int_eq(n_ex, 1);
    ck_assert_uint_eq(config.numAttrs, 2);
    ck_assert_int_eq(attributes[0].id, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
    ck_assert_uint_eq(attributes[0].value.clusterDim.x, 2);
    ck_assert_uint_eq(attributes[0].value.clusterDim.y, 2);
    ck_assert_uint_eq(attributes[0].value.clusterDim.z, 1);
    ck_assert_int_eq(attributes[1].id, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
    ck_assert_int_eq(attributes[1].value.programmaticStreamSerializationAllowed, 1);
    ck_assert_uint_eq(config.gridDimX, 4);
    kernel->release(kernel), kernel = NULL;
    launch.cluster[0] = 3;
    REFUSED(TD_MALFORMED, "4 blocks along x in clusters of 3");
    launch.cluster[0] = 4, launch.cluster[1] = 4, launch.grid[1] = 8;
    REFUSED(TD_UNSUPPORTED, "clusters of 16 blocks, more than 8");
    launch.cluster[0] = 2, launch.cluster[1] = 1;
    dev.major = 8;
    REFUSED(TD_UNSUPPORTED, "clusters of 2 blocks take compute capability 9.0");
    launch.cluster[0] = launch.cluster[2] = 0, launch.cluster[1] = 0; /* PDL is a leave, not a need */
    ck_assert_msg(!lower(), "%s", err.text);
    run();
    ck_assert_int_eq(n_plain, 1);
}
END_TEST

START_TEST(shared_memory) {
    launch.shared_bytes = 100000;
    ck_assert_msg(!lower(), "%s", err.text);
    ck_assert_int_eq(set_most, 100000);
    run();
    ck_assert_uint_eq(config.sharedMemBytes, 100000);
    kernel->release(kernel), kernel = NULL;
    launch.shared_bytes = 60000; /* another kernel with that function: it keeps what the first needs */
    ck_assert_msg(!lower(), "%s", err.text);
    ck_assert_int_eq(function_most, 100000);
    kernel->release(kernel), kernel = NULL;
    launch.shared_bytes = 232448, function_shared = 1;
    REFUSED(TD_MISMATCH, "232448 bytes of dynamic and 1 of static shared memory, stand-in has 232448");
}
END_TEST

START_TEST(dimensions) {
    launch.block[0] = 513;
    REFUSED(TD_MISMATCH, "1026 threads per block, stand-in allows 1024");
    launch.block[0] = 1, launch.block[2] = 65;
    REFUSED(TD_MISMATCH, "along z");
    launch.block[2] = 1, launch.grid[1] = 65536;
    REFUSED(TD_MISMATCH, "65536 blocks of 2 threads along y");
    launch.grid[1] = 0;
    REFUSED(TD_MALFORMED, "no launch dimensions");
    desc.launch = NULL;
    REFUSED(TD_MALFORMED, "kernel 'fusion': the thunk does not say what to launch");
}
END_TEST

/* Zeros come first, in whatever pieces the address allows. */
START_TEST(zeroed) {
    const uint32_t z[] = {0, 2};
    launch.zeroed = z, launch.n_zeroed = 2;
    ck_assert_msg(!lower(), "%s", err.text);
    run();
    ck_assert_int_eq(n_filled, 2);
    ck_assert_uint_eq(fills[0].at, 0x1000);
    ck_assert_int_eq(fills[0].unit, 4);
    ck_assert_uint_eq(fills[0].n, 250);
    ck_assert_uint_eq(fills[1].at, 0x3002); /* no multiple of 4 */
    ck_assert_int_eq(fills[1].unit, 1);
    ck_assert_uint_eq(fills[1].n, 1002);
    ck_assert_uint_eq(fills[0].value | fills[1].value, 0);
}
END_TEST

START_TEST(images) {
    launch.kind = TD_IMAGE_NONE;
    REFUSED(TD_MALFORMED, "kernel 'f': the artifact holds no code");
    launch.kind = TD_IMAGE_SYMBOL;
    REFUSED(TD_UNSUPPORTED, "linked into XLA");
    launch.kind = TD_IMAGE_CUBIN; /* the text is no cubin: the driver is not asked */
    REFUSED(TD_MALFORMED, "neither an ELF file nor a fat binary");
    ck_assert_int_eq(n_loaded, 0);
    launch.kind = TD_IMAGE_PTX;
    launch.symbol = "missing";
    REFUSED(TD_NOTFOUND, "kernel 'missing': missing: cuModuleGetFunction");
    load_result = CUDA_ERROR_INVALID_PTX;
    strcpy(log_of_driver, "line 1: syntax error");
    REFUSED(TD_MALFORMED, "line 1: syntax error: PTX: cuModuleLoadDataEx: CUDA_ERROR_INVALID_PTX (218)");
}
END_TEST

/* A stream that does everything at once. */
static CUresult stream_create(CUstream *s, unsigned flags, int priority) {
    ck_assert_uint_eq(flags, CU_STREAM_NON_BLOCKING);
    ck_assert_int_eq(priority, 0);
    *s = (CUstream)(uintptr_t)0x20;
    return 0;
}
static CUresult stream_done(CUstream s) {
    ck_assert_uint_eq((uintptr_t)s, 0x20);
    return 0;
}
static CUresult host_alloc(void **p, size_t n) {
    *p = malloc(n);
    return 0;
}
static CUresult host_free(void *p) {
    free(p);
    return 0;
}
static CUresult event_create(CUevent *e, unsigned flags) {
    (void)flags;
    *e = malloc(1);
    return 0;
}
static CUresult event_destroy(CUevent e) {
    free(e);
    return 0;
}
static CUresult up(CUdeviceptr dst, const void *src, size_t n, CUstream s) {
    (void)s;
    memcpy((void *)(uintptr_t)dst, src, n);
    return 0;
}

/* A module's variables, and who shares a module with whom. */
static CUresult get_global(CUdeviceptr *p, size_t *n, CUmodule m, const char *name) {
    (void)m;
    *p = (CUdeviceptr)(uintptr_t)variable;
    *n = sizeof variable;
    return strcmp(name, "buffer_for_c") ? CUDA_ERROR_NOT_FOUND : 0;
}
START_TEST(shared_modules) {
    static uint8_t fat[72] = {0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, 48};
    td_cuda_module_t *m[4] = {0};
    td_launch_t a = {.kind = TD_IMAGE_MODULE, .image = {fat, 64}}, b = a;
    b.kind = TD_IMAGE_CUBIN;
    dev.cu.cuModuleGetGlobal_v2 = get_global;
    dev.cu.cuStreamCreateWithPriority = stream_create;
    dev.cu.cuStreamSynchronize = dev.cu.cuStreamDestroy_v2 = stream_done;
    dev.cu.cuMemAllocHost_v2 = host_alloc, dev.cu.cuMemFreeHost = host_free;
    dev.cu.cuEventCreate = event_create, dev.cu.cuEventDestroy_v2 = event_destroy;
    dev.cu.cuMemcpyHtoDAsync_v2 = up;
    int p1 = 0, p2 = 0;
    ck_assert_int_eq(td_cuda_module_get(&dev, &a, &p1, &m[0], &err), TD_OK);
    ck_assert_int_eq(td_cuda_module_get(&dev, &a, &p1, &m[1], &err), TD_OK);
    ck_assert_int_eq(td_cuda_module_get(&dev, &a, &p2, &m[2], &err), TD_OK);
    ck_assert_ptr_eq(m[0], m[1]); /* one binary of one program */
    ck_assert_ptr_ne(m[0], m[2]); /* its variables are another program's no more */
    ck_assert_int_eq(n_live, 2);
    for (int i = 0; i < 3; i++) td_cuda_module_put(&dev, m[i]);
    ck_assert_int_eq(n_live, 0);
    ck_assert_int_eq(td_cuda_module_get(&dev, &b, &p1, &m[0], &err), TD_OK);
    ck_assert_int_eq(td_cuda_module_get(&dev, &b, &p1, &m[1], &err), TD_OK);
    ck_assert_ptr_ne(m[0], m[1]); /* each kernel has its own */
    td_cuda_module_put(&dev, m[0]);
    td_cuda_module_put(&dev, m[1]);
    /* Variables: filled once, found by name, no larger than their place. */
    td_global_t g = {"buffer_for_c", {fat, 64}};
    a.globals = &g, a.n_globals = 1;
    ck_assert_msg(!td_cuda_module_get(&dev, &a, &p1, &m[0], &err), "%s", err.text);
    ck_assert_mem_eq(variable, fat, 64);
    td_cuda_module_put(&dev, m[0]);
    g.bytes.size = 65;
    ck_assert_int_eq(td_cuda_module_get(&dev, &a, &p1, &m[0], &err), TD_MISMATCH);
    ck_assert_ptr_nonnull(strstr(err.text, "constant 'buffer_for_c' has 65 bytes, its variable in the binary 64"));
    g = (td_global_t){"other", {fat, 8}};
    ck_assert_int_eq(td_cuda_module_get(&dev, &a, &p1, &m[0], &err), TD_NOTFOUND);
    ck_assert_int_eq(n_live, 0);
    a.n_globals = 0;
    fat[8] = 49; /* longer than it is */
    ck_assert_int_eq(td_cuda_module_get(&dev, &a, &p1, &m[0], &err), TD_MALFORMED);
    fat[8] = 48;
}
END_TEST

START_TEST(memory_ends) {
    td_status_t st = TD_NOMEM;
    for (unsigned n = 1; st; n++) {
        ck_assert_uint_lt(n, 50);
        counter.fail_at = counter.gets + n;
        st = lower();
        ck_assert_msg(!st || st == TD_NOMEM, "%s", err.text);
        if (st) ck_assert_int_eq(n_live, 0);
        if (st) td_arena_deinit(&arena), td_arena_init(&arena, &counter.base, 0);
    }
    counter.fail_at = 0;
}
END_TEST

int main(void) {
    Suite *s = suite_create("cuda_kernel");
    TCase *t = tcase_create("kernels");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, addresses);
    tcase_add_test(t, packing);
    tcase_add_test(t, tensor_maps);
    tcase_add_test(t, cluster_and_pdl);
    tcase_add_test(t, shared_memory);
    tcase_add_test(t, dimensions);
    tcase_add_test(t, zeroed);
    tcase_add_test(t, images);
    tcase_add_test(t, shared_modules);
    tcase_add_test(t, memory_ends);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
