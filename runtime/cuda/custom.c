/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cuda/custom.h"

#include <string.h>

#include "runtime/cuda/library.h"
#include "runtime/ffi/call.h"

/* Built-in targets, sorted by name; docs/handlers.md is made from this table too. */
#define SOLVER(target, name, how) {target, td_cuda_##name, NULL, how}
#define OTHER(target, name, how) {target, NULL, td_cuda_##name, how}
static const td_cuda_target_t rows[] = {
    OTHER("__xla_gpu_assert", on_host, "host; waits"),
    OTHER("cu_cholesky_update_ffi", cholesky_update, "own kernel"),
    OTHER("cu_lu_pivots_to_permutation", lu_pivots, "own kernel"),
    OTHER("cu_threefry2x32_ffi", threefry, "own kernel"),
    OTHER("cu_tridiagonal_solve_perturbed", on_host, "host; waits"),
    OTHER("cuhybrid_eig_comp", on_host, "host; waits"),
    OTHER("cuhybrid_eig_real", on_host, "host; waits"),
    OTHER("cuhybrid_geqp3", on_host, "host; waits"),
    OTHER("cusolver_csrlsvqr_ffi", on_host, "host; waits"),
    OTHER("cusolver_geev_ffi", geev_or_host, "cuSOLVER Xgeev (CUDA 12.6); left vectors: host; waits"),
    OTHER("cusolver_geqrf_ffi", geqrf_any, "cuSOLVER geqrf, cuBLAS geqrfBatched"),
    SOLVER("cusolver_gesvd_ffi", gesvd, "cuSOLVER Xgesvd"),
    SOLVER("cusolver_gesvdj_ffi", gesvdj, "cuSOLVER gesvdj, gesvdjBatched"),
    SOLVER("cusolver_gesvdp_ffi", gesvdp, "cuSOLVER Xgesvdp"),
    OTHER("cusolver_getrf_ffi", getrf_any, "cuSOLVER getrf, cuBLAS getrfBatched"),
    SOLVER("cusolver_orgqr_ffi", orgqr, "cuSOLVER orgqr, ungqr"),
    SOLVER("cusolver_ormqr_ffi", ormqr, "cuSOLVER ormqr, unmqr"),
    SOLVER("cusolver_potrf_ffi", potrf, "cuSOLVER potrf, potrfBatched"),
    SOLVER("cusolver_syevd_ffi", syevd, "cuSOLVER syevj, syevjBatched, Xsyevd"),
    OTHER("cusolver_syrk_ffi", syrk, "cuBLAS syrk"),
    SOLVER("cusolver_sytrd_ffi", sytrd, "cuSOLVER sytrd, hetrd"),
    OTHER("cusparse_coo_fromdense_ffi", sparse_convert, "own kernels"),
    OTHER("cusparse_coo_matmat_ffi", sparse_product, "cuSPARSE SpMM"),
    OTHER("cusparse_coo_matvec_ffi", sparse_product, "cuSPARSE SpMV"),
    OTHER("cusparse_coo_todense_ffi", sparse_convert, "own kernels"),
    OTHER("cusparse_csr_fromdense_ffi", sparse_convert, "own kernels"),
    OTHER("cusparse_csr_matmat_ffi", sparse_product, "cuSPARSE SpMM"),
    OTHER("cusparse_csr_matvec_ffi", sparse_product, "cuSPARSE SpMV"),
    OTHER("cusparse_csr_todense_ffi", sparse_convert, "own kernels"),
    OTHER("cusparse_gtsv2_ffi", gtsv2, "cuSPARSE gtsv2"),
    OTHER("dce_sink", nothing, "nothing"),
    OTHER("xla.gpu.ext.cub_scan", on_host, "host; waits"),
    OTHER("xla.gpu.ext.cub_sort_keys", on_host, "host; waits"),
    OTHER("xla.gpu.ext.cub_sort_pairs", on_host, "host; waits"),
};

const td_cuda_target_t *td_cuda_target_at(uint32_t i) { return i < sizeof rows / sizeof *rows ? &rows[i] : NULL; }

/* ---- a user's handler ---- */
typedef struct user {
    td_kernel_t base;
    td_ffi_call_t *call;
    td_cuda_device_t *device;
    pthread_mutex_t lock; /* all below */
    void *frame;          /* the call's scratch, which is host memory */
    td_ffi_held_t held;
    CUstream stream; /* of the launch */
} user_t;
enum { HELD = 64 };

static void flush(td_ffi_held_t *h) {
    user_t *u = (user_t *)((char *)h - offsetof(user_t, held));
    u->device->cu.cuCtxSetCurrent(u->device->context); /* the handler may have left another one */
    (void)TD_CU(u->device, "stream", NULL, cuStreamSynchronize, u->stream);
    for (uint32_t i = 0; i < h->n; i++) u->device->base.ops->mem_put(&u->device->base, h->v[i].p, h->v[i].bytes);
    h->n = 0;
}

static void release_user(td_kernel_t *k) {
    user_t *u = (user_t *)k;
    td_ffi_call_destroy(u->call);
    pthread_mutex_destroy(&u->lock);
}
static td_status_t launch_user(td_stream_t *s, const td_kernel_t *k, void *const *bufs, uint32_t n, void *scratch,
                               td_err_t *err) {
    user_t *u = (user_t *)(uintptr_t)k;
    (void)n, (void)scratch;
    pthread_mutex_lock(&u->lock);
    u->stream = ((td_cuda_stream_t *)s)->handle;
    td_status_t st = td_ffi_call_run(u->call, u->stream, &u->held, bufs, u->frame, err);
    if (u->held.n) flush(&u->held);
    pthread_mutex_unlock(&u->lock);
    CUresult r = u->device->cu.cuCtxSetCurrent(u->device->context);
    return st ? st : td_cuda_check(u->device, r, "cuCtxSetCurrent", "context", err);
}
static td_status_t lower_user(td_cuda_device_t *d, const td_custom_call_desc_t *desc, td_arena_t *arena,
                              td_kernel_t **out, td_err_t *err) {
    uint64_t bytes = 0;
    user_t *u = TD_NEW(arena, user_t);
    if (!u) return td_arena_fail(arena, err);
    u->base = (td_kernel_t){.launch = launch_user, .release = release_user};
    u->device = d;
    u->held = (td_ffi_held_t){.v = td_arena_zalloc(arena, HELD * sizeof *u->held.v), .most = HELD, .flush = flush};
    if (!u->held.v) return td_arena_fail(arena, err);
    td_status_t st = td_ffi_call_create(&d->base, desc, arena, &u->call, &bytes, err);
    if (st) return st;
    u->frame = td_arena_align(arena, bytes, 64);
    pthread_mutex_init(&u->lock, NULL);
    if (!u->frame) {
        release_user(&u->base);
        return td_arena_fail(arena, err);
    }
    *out = &u->base;
    return TD_OK;
}

td_status_t td_cuda_custom_lower(td_cuda_device_t *d, const void *desc, td_arena_t *arena, td_kernel_t **out,
                                 uint64_t *out_scratch, td_err_t *err) {
    const td_custom_call_desc_t *c = desc;
    *out_scratch = 0;
    if (c->handler) return lower_user(d, c, arena, out, err);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].target, c->target)) continue;
        return rows[i].solver ? td_cuda_solver_lower(d, rows[i].solver, c, arena, out, out_scratch, err)
                              : rows[i].lower(d, c, arena, out, out_scratch, err);
    }
    return td_fail(err, TD_NOTFOUND, "no handler for target '%.200s' on the CUDA device", c->target);
}
