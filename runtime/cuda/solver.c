/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cuda/solver.h"

#include <stdio.h>

enum { LEAST = 11400, /* of CUDA 12.0, as 1000 * major + 100 * minor + patch */ WORK_ALIGN = 256 };

#define ROW(needed, type, name, args) TD_CUDA_LIB_ROW(td_solver_lib_t, needed, name)
#define FOUR(member, real, complex, args)                                     \
    {"cusolverDnS" #real, offsetof(td_solver_lib_t, member[0]), true},        \
    {"cusolverDnD" #real, offsetof(td_solver_lib_t, member[1]), true},        \
    {"cusolverDnC" #complex, offsetof(td_solver_lib_t, member[2]), true},     \
    {"cusolverDnZ" #complex, offsetof(td_solver_lib_t, member[3]), true},
static const td_cuda_symbol_t symbols[] = {TD_SOLVER_SYMBOLS(ROW) TD_SOLVER_TYPED(FOUR)};

static td_status_t start(td_cuda_device_t *d, void *lib, const char *file, td_err_t *err);
static void stop(td_cuda_device_t *d, void *lib);
static const td_cuda_lib_t library = {
    .name = "cuSOLVER", .package = "the cuSOLVER, cuSPARSE and cuBLAS libraries of CUDA 12 or 13",
    .files = {{"libcusolver.so.12", 13000}, {"libcusolver.so.11", 0}},
    .symbols = symbols, .n_symbols = sizeof symbols / sizeof *symbols, .bytes = sizeof(td_solver_lib_t),
    .start = start, .stop = stop};

static const char *name_of(int r) {
    static const char *const names[] = {"SUCCESS", "NOT_INITIALIZED", "ALLOC_FAILED", "INVALID_VALUE", "ARCH_MISMATCH",
                                        "MAPPING_ERROR", "EXECUTION_FAILED", "INTERNAL_ERROR",
                                        "MATRIX_TYPE_NOT_SUPPORTED", "NOT_SUPPORTED", "ZERO_PIVOT", "INVALID_LICENSE",
                                        [31] = "INVALID_WORKSPACE"};
    const char *s = r >= 0 && r < (int)(sizeof names / sizeof *names) ? names[r] : NULL;
    return s ? s : "without a name";
}
td_status_t td_solver_check(int r, const char *call, td_err_t *err) {
    if (!r) return TD_OK;
    td_status_t st = r == CUSOLVER_STATUS_ALLOC_FAILED    ? TD_NOMEM
                     : r == CUSOLVER_STATUS_NOT_SUPPORTED ? TD_UNSUPPORTED
                                                          : TD_DEVICE;
    return td_fail(err, st, "%s: CUSOLVER_STATUS_%s (%d)", call, name_of(r), r);
}

static void stop(td_cuda_device_t *d, void *lib) {
    td_solver_lib_t *l = lib;
    (void)d;
    if (l->gesvdj_info) l->cusolverDnDestroyGesvdjInfo(l->gesvdj_info);
    if (l->syevj_info) l->cusolverDnDestroySyevjInfo(l->syevj_info);
    if (l->params) l->cusolverDnDestroyParams(l->params);
    if (l->handle) l->cusolverDnDestroy(l->handle);
    pthread_mutex_destroy(&l->lock);
}
static td_status_t start(td_cuda_device_t *d, void *lib, const char *file, td_err_t *err) {
    td_solver_lib_t *l = lib;
    int version = 0;
    char have[24];
    if (l->cusolverGetVersion(&version)) version = 0;
    snprintf(have, sizeof have, "%d.%d", version / 1000, version % 1000 / 100);
    td_status_t st = td_cuda_lib_version(&library, file, version, LEAST, have, "11.4", err);
    if (st) return st;
    pthread_mutex_init(&l->lock, NULL);
    st = td_solver_check(l->cusolverDnCreate(&l->handle), "cusolverDnCreate", err);
    if (!st) st = td_solver_check(l->cusolverDnCreateParams(&l->params), "cusolverDnCreateParams", err);
    if (!st) st = td_solver_check(l->cusolverDnCreateSyevjInfo(&l->syevj_info), "cusolverDnCreateSyevjInfo", err);
    if (!st) st = td_solver_check(l->cusolverDnCreateGesvdjInfo(&l->gesvdj_info), "cusolverDnCreateGesvdjInfo", err);
    if (st) stop(d, l);
    return st;
}

void td_solver_sizes(td_solver_call_t *c, const td_custom_call_desc_t *d) {
    static const int data[4] = {0, 1, 4, 5}; /* CUDA_R_32F, CUDA_R_64F, CUDA_C_32F, CUDA_C_64F */
    td_type_t t = c->l.a.type;
    c->t = t == TD_F32 ? 0 : t == TD_F64 ? 1 : t == TD_C64 ? 2 : 3;
    c->data = data[c->t];
    c->real = data[c->t & 1];
    c->elem = td_type_bytes(t);
    c->real_bytes = td_type_bytes(td_real_of(t));
    c->a_bytes = (uint64_t)c->l.a.rows * (uint64_t)c->l.a.cols * c->elem;
    c->from = 0;
    c->to = (int)d->n_operands;
    c->copy_bytes = c->a_bytes * (uint64_t)c->l.a.batch;
}
td_status_t td_solver_work(td_solver_call_t *c, uint64_t *scratch, td_err_t *err) {
    if (c->lwork < 0) return td_fail(err, TD_DEVICE, "a workspace of %d elements", c->lwork);
    td_status_t st = td_hc_scratch(scratch, (uint64_t)c->lwork, c->elem, &c->work_at, err);
    if (st || (st = td_hc_scratch(scratch, 1, 4, &c->more_at, err))) return st;
    return TD_OK;
}
td_status_t td_solver_work64(td_solver_call_t *c, td_arena_t *arena, uint64_t *scratch, td_err_t *err) {
    c->host = td_arena_align(arena, c->host_bytes ? c->host_bytes : 1, 64);
    return c->host ? td_hc_scratch(scratch, c->device_bytes, 1, &c->work_at, err) : td_arena_fail(arena, err);
}

static td_status_t launch(td_stream_t *s, const td_kernel_t *k, void *const *bufs, uint32_t n, void *scratch,
                          td_err_t *err) {
    const td_solver_call_t *c = (const td_solver_call_t *)k;
    void *work = (void *)td_align_up((uintptr_t)scratch, WORK_ALIGN);
    td_status_t st = TD_OK;
    (void)n;
    if (!c->l.a.batch) return TD_OK;
    st = td_cuda_copy(s, bufs[c->to], bufs[c->from], c->copy_bytes, err);
    if (st || !c->run) return st;
    pthread_mutex_lock(&c->lib->lock);
    st = td_solver_check(c->lib->cusolverDnSetStream(c->lib->handle, ((td_cuda_stream_t *)s)->handle),
                         "cusolverDnSetStream", err);
    if (!st) st = c->run(c, s, bufs, work, err);
    pthread_mutex_unlock(&c->lib->lock);
    return st;
}

td_status_t td_cuda_solver_lower(td_cuda_device_t *d, td_solver_prepare_fn prepare, const td_custom_call_desc_t *desc,
                                 td_arena_t *arena, td_kernel_t **out, uint64_t *out_scratch, td_err_t *err) {
    uint64_t scratch = 0;
    td_solver_call_t *c = TD_NEW(arena, td_solver_call_t);
    if (!c) return td_arena_fail(arena, err);
    *c = (td_solver_call_t){.base = {.launch = launch}, .device = d};
    td_status_t st = td_cuda_lib_get(d, &library, "linear systems and decompositions", &c->lib, err);
    if (st) return st;
    pthread_mutex_lock(&c->lib->lock);
    st = prepare(c, desc, arena, &scratch, err);
    pthread_mutex_unlock(&c->lib->lock);
    if (st) return st;
    *out_scratch = scratch ? scratch + WORK_ALIGN : 0;
    *out = &c->base;
    return TD_OK;
}
