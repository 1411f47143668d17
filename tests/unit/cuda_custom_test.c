/* SPDX-License-Identifier: Apache-2.0 */
/* Custom calls on the CUDA device: users' handlers with the stream and the ordinal, targets and libraries that are
 * missing, calls that fail. What the built-in targets compute: cuda_handlers_test. */
#include <math.h>

#include "runtime/ffi/attrs.h"
#include "runtime/ffi/call.h"
#include "runtime/ffi/internal.h"
#include "tests/unit/cuda_op_case.h"

static void libraries(void) {
    op_library("libcuda.so.1");
    op_library("libcusolver.so.12");
    op_library("libcusparse.so.12");
}

static td_arena_t shapes;
static const td_shape_t *shape(td_type_t type, uint32_t rank, const int64_t *dims, bool column_major) {
    int32_t layout[4];
    const td_shape_t *s = NULL;
    for (uint32_t i = 0; i < rank; i++) layout[i] = (int32_t)(rank - 1 - i);
    if (column_major) layout[0]--, layout[1]++;
    ck_assert_int_eq(td_shape_make(&shapes, type, rank, dims, layout, &s, NULL), TD_OK);
    return s;
}
static const td_attrs_t *no_attrs(void) {
    td_attrs_t *a = TD_NEW(&shapes, td_attrs_t);
    a->struct_size = sizeof *a;
    return a;
}

/* ---- a user's handler ---- */
static CUstream seen_stream;
static int32_t seen_ordinal;
static uint32_t rounds = 1; /* how often it takes device memory and gives it back */

/* y = x, by way of memory that it gives back while the copies may still run. */
static td_ffi_error_t *copies(td_ffi_call_frame_t *f) {
    td_cuda_t *cu = &((td_cuda_device_t *)gpu)->cu;
    td_ffi_stream_get_t s = {.struct_size = sizeof s, .ctx = f->ctx};
    td_ffi_ordinal_t o = {.struct_size = sizeof o, .ctx = f->ctx};
    const td_ffi_buffer_t *x = f->args.args[0], *y = f->rets.args[0];
    td_ffi_error_t *e = f->api->stream_get(&s);
    if (!e) e = f->api->ordinal_get(&o);
    if (e) return e;
    seen_stream = s.stream, seen_ordinal = o.device_ordinal;
    for (uint32_t i = 0; i < rounds; i++) {
        td_ffi_mem_get_t m = {.struct_size = sizeof m, .ctx = f->ctx, .size = 4096, .alignment = 256};
        if ((e = f->api->mem_get(&m))) return e;
        cu->cuMemcpyDtoDAsync_v2(td_cuda_ptr(m.data), td_cuda_ptr(x->data), 4096, s.stream);
        cu->cuMemcpyDtoDAsync_v2(td_cuda_ptr(y->data), td_cuda_ptr(m.data), 4096, s.stream);
        td_ffi_mem_put_t p = {.struct_size = sizeof p, .ctx = f->ctx, .size = 4096, .data = m.data};
        if ((e = f->api->mem_put(&p))) return e;
    }
    cu->cuCtxSetCurrent(NULL); /* as a library might leave it */
    return NULL;
}
static td_ffi_error_t *refuses(td_ffi_call_frame_t *f) {
    (void)f;
    return td_ffi_errorf(TD_FFI_INVALID_ARGUMENT, "no");
}
static td_status_t user(td_ffi_bundle_t bundle) {
    td_ffi_handler_t h = {
        .target = "mine", .library = "l", .platform = "cuda", .bundle = bundle, .api = td_ffi_api(), .minor = 5};
    const td_shape_t *s = shape(TD_F32, 1, (int64_t[]){1024}, false);
    td_custom_call_desc_t d = {.target = "mine", .instruction = "i", .operands = &s, .results = &s, .n_operands = 1,
                               .n_results = 1, .attrs = no_attrs(), .handler = &h};
    static float x[1024], y[1024];
    for (int i = 0; i < 1024; i++) x[i] = (float)i, y[i] = -1;
    op_buffer_t v[2] = {{.host = x, .bytes = 4096}, {.host = y, .bytes = 4096}};
    op_t o;
    ck_assert_msg(!op_lower(&o, gpu, TD_OP_CUSTOM_CALL, &d), "%s", err.text);
    ck_assert_uint_eq(o.scratch_bytes, 0); /* the frame is host memory */
    op_up(v, 2);
    td_status_t st = op_launch(&o, v, 2);
    op_down(v, 2);
    for (int i = 0; i < 1024 && !st; i++) ck_assert(y[i] == (float)i);
    op_free(v, 2);
    op_release(&o, gpu);
    return st;
}
START_TEST(test_user_handler) {
    setenv("FAKECUDA_SEED", "5", 1);
    td_arena_init(&shapes, td_alloc_default(), 0);
    op_open();
    ck_assert_msg(!user((td_ffi_bundle_t){.execute = copies}), "%s", err.text);
    ck_assert(seen_stream == ((td_cuda_stream_t *)stream)->handle && seen_ordinal == 0);
    rounds = 200; /* more than are held at a time */
    ck_assert_msg(!user((td_ffi_bundle_t){.execute = copies}), "%s", err.text);
    ck_assert_int_eq(user((td_ffi_bundle_t){.execute = refuses}), TD_MISMATCH);
    ck_assert_str_eq(err.text, "mine: execute: no (INVALID_ARGUMENT)");
    op_close();
    td_arena_deinit(&shapes);
}
END_TEST
START_TEST(test_ordinal) {
    char spec[700];
    td_device_t *second = NULL;
    setenv("FAKECUDA_DEVICES", "2", 1);
    snprintf(spec, sizeof spec, "cuda:1,driver=%s", op_fake("libcuda.so.1"));
    ck_assert_msg(!td_device_open(spec, td_alloc_default(), &second, &err), "%s", err.text);
    ck_assert_int_eq(second->ordinal, 1);
    td_device_destroy(second);
}
END_TEST

/* ---- what is missing ---- */
/* A Cholesky factorization of n x n, a batch of them. */
static td_custom_call_desc_t cholesky(int64_t batch, int64_t n) {
    static const char *const lower_name = "lower";
    static const td_shape_t *in[1], *out[2];
    in[0] = out[0] = shape(TD_F64, 3, (int64_t[]){batch, n, n}, true);
    out[1] = shape(TD_S32, 1, (int64_t[]){batch}, false);
    td_attrs_t *a = TD_NEW(&shapes, td_attrs_t);
    td_ffi_span_t *name = TD_NEW(&shapes, td_ffi_span_t);
    td_ffi_scalar_t *value = TD_NEW(&shapes, td_ffi_scalar_t);
    static uint8_t yes = 1;
    *name = (td_ffi_span_t){lower_name, 5}, *value = (td_ffi_scalar_t){TD_PRED, &yes};
    *a = (td_attrs_t){.struct_size = sizeof *a,
                      .size = 1,
                      .types = TD_NEW(&shapes, int32_t),
                      .names = TD_NEW(&shapes, td_ffi_span_t *),
                      .attrs = TD_NEW(&shapes, void *)};
    a->types[0] = TD_FFI_ATTR_SCALAR, a->names[0] = name, a->attrs[0] = value;
    return (td_custom_call_desc_t){.target = "cusolver_potrf_ffi", .instruction = "i", .operands = in, .results = out,
                                   .n_operands = 1, .n_results = 2, .attrs = a};
}
START_TEST(test_missing) { /* no library is beside the driver, and the system's is none of a GPU that is not there */
    op_t o;
    td_arena_init(&shapes, td_alloc_default(), 0);
    op_open();
    td_custom_call_desc_t d = cholesky(1, 2), unknown = d;
    unknown.target = "nobody_knows";
    ck_assert_int_eq(op_lower(&o, gpu, TD_OP_CUSTOM_CALL, &unknown), TD_NOTFOUND);
    ck_assert_msg(strstr(err.text, "no handler for target 'nobody_knows' on the CUDA device") != NULL, "%s", err.text);
    ck_assert_int_ne(op_lower(&o, gpu, TD_OP_CUSTOM_CALL, &d), TD_OK);
    ck_assert_msg(strstr(err.text, "take cuSOLVER") != NULL, "%s", err.text);
    op_close();
    td_arena_deinit(&shapes);
}
END_TEST

/* ---- what fails ---- */
static double a[8] = {4, 2, 2, 3, 9, 3, 3, 5}, factor[8];
static int32_t info[2];
static const struct {
    const char *call;
    bool early;
    int64_t batch;
} calls[] = {{"cusolverDnCreate", true, 1},           {"cusolverDnCreateParams", true, 1},
             {"cusolverDnCreateSyevjInfo", true, 1},  {"cusolverDnCreateGesvdjInfo", true, 1},
             {"cusolverDnDpotrf_bufferSize", true, 1}, {"cusolverDnSetStream", false, 1},
             {"cusolverDnDpotrf", false, 1},          {"cusolverDnDpotrfBatched", false, 2},
             {"cuLaunchKernel", false, 2},            {"cuModuleGetFunction", true, 2},
             {"cuModuleLoadDataEx", true, 2}};
START_TEST(test_failures) {
    char fail[64];
    op_t o;
    snprintf(fail, sizeof fail, "%s:1:2", calls[_i].call); /* CUSOLVER_STATUS_ALLOC_FAILED, CUDA_ERROR_OUT_OF_MEMORY */
    setenv("FAKECUDA_FAIL", fail, 1);
    libraries();
    td_arena_init(&shapes, td_alloc_default(), 0);
    op_open();
    td_custom_call_desc_t d = cholesky(calls[_i].batch, 2);
    op_buffer_t v[3] = {{.host = a, .bytes = 32 * (uint64_t)calls[_i].batch},
                        {.host = factor, .bytes = 32 * (uint64_t)calls[_i].batch},
                        {.host = info, .bytes = 4 * (uint64_t)calls[_i].batch}};
    td_status_t st = op_lower(&o, gpu, TD_OP_CUSTOM_CALL, &d);
    ck_assert_msg(st == (calls[_i].early ? TD_NOMEM : TD_OK), "%s: %s", fail, err.text);
    if (st) ck_assert_msg(!op_lower(&o, gpu, TD_OP_CUSTOM_CALL, &d), "%s", err.text);
    op_up(v, 3);
    if (!calls[_i].early) ck_assert_int_eq(op_launch(&o, v, 3), TD_NOMEM);
    ck_assert_msg(!op_launch(&o, v, 3), "%s", err.text);
    op_down(v, 3);
    ck_assert(factor[0] == 2 && factor[1] == 1 && factor[3] == sqrt(2.0) && info[0] == 0);
    op_free(v, 3);
    op_release(&o, gpu);
    op_close();
    td_arena_deinit(&shapes);
}
END_TEST

/* Each allocation fails in turn: an error that says so, nothing lost, and in the end it works. */
START_TEST(test_allocations) {
    op_t o;
    libraries();
    td_arena_init(&shapes, td_alloc_default(), 0);
    op_open();
    td_custom_call_desc_t d = cholesky(2, 2);
    unsigned long long n = 0;
    td_status_t st = TD_NOMEM;
    for (n = 1; n < 100 && st; n++) {
        o = (op_t){0};
        td_arena_init(&o.arena, &op_counter.base, 0);
        op_counter.fail_at = op_counter.gets + n;
        st = gpu->ops->library_lower(gpu, TD_OP_CUSTOM_CALL, &d, &o.arena, &o.kernel, &o.scratch_bytes, &err);
        op_counter.fail_at = 0;
        ck_assert_msg(!st || st == TD_NOMEM, "%s", err.text);
        if (!st) gpu->ops->kernel_release(o.kernel);
        td_arena_deinit(&o.arena);
    }
    ck_assert(n > 2 && !st);
    op_close();
    td_arena_deinit(&shapes);
}
END_TEST

int main(void) {
    Suite *s = suite_create("cuda_custom");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, test_user_handler);
    tcase_add_test(t, test_ordinal);
    tcase_add_test(t, test_missing);
    tcase_add_loop_test(t, test_failures, 0, sizeof calls / sizeof *calls);
    tcase_add_test(t, test_allocations);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
