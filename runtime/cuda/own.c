/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cuda/own.h"

/* The text, with the NUL that the driver wants. */
__asm__(".section .rodata\n"
        ".type td_cuda_own_ptx, @object\n"
        "td_cuda_own_ptx:\n"
        ".incbin \"runtime/cuda/kernels.ptx\"\n"
        ".byte 0\n"
        ".size td_cuda_own_ptx, . - td_cuda_own_ptx\n"
        ".text\n");
extern const char td_cuda_own_ptx[] __attribute__((visibility("hidden")));

enum { BLOCK = 256, GRID_MOST = 1 << 16 };

td_status_t td_cuda_own_get(td_cuda_device_t *d, const char *name, CUfunction *out, td_err_t *err) {
    CUresult r = CUDA_SUCCESS;
    pthread_mutex_lock(&d->lib_lock);
    if (!d->own) r = d->cu.cuModuleLoadDataEx(&d->own, td_cuda_own_ptx, 0, NULL, NULL);
    pthread_mutex_unlock(&d->lib_lock);
    if (r) return td_cuda_check(d, r, "cuModuleLoadDataEx", "the runtime's own kernels", err);
    return TD_CU(d, name, err, cuModuleGetFunction, out, d->own, name);
}

static td_status_t launch(td_stream_t *s, CUfunction f, unsigned grid, void **params, const char *what, td_err_t *err) {
    return TD_CU(td_cuda_of(s), what, err, cuLaunchKernel, f, grid, 1, 1, BLOCK, 1, 1, 0,
                 ((td_cuda_stream_t *)s)->handle, params, NULL);
}
td_status_t td_cuda_own_launch(td_stream_t *s, CUfunction f, uint64_t count, void **params, const char *what,
                               td_err_t *err) {
    uint64_t blocks = count / BLOCK + (count % BLOCK != 0);
    if (!count) return TD_OK;
    return launch(s, f, (unsigned)(blocks < GRID_MOST ? blocks : GRID_MOST), params, what, err);
}
td_status_t td_cuda_own_launch_block(td_stream_t *s, CUfunction f, void **params, const char *what, td_err_t *err) {
    return launch(s, f, 1, params, what, err);
}
