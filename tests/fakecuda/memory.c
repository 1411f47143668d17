/* SPDX-License-Identifier: Apache-2.0 */
/* cuMem*: allocation, pinning. */
#include "tests/fakecuda/capture.h"

FK_EXPORT CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
    FK_ENTER(cuMemGetInfo_v2, 0);
    *total_bytes = fk_config.memory;
    *free_bytes = fk_config.memory - fk_current()->used;
    return fk_leave(CUDA_SUCCESS);
}
FK_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t bytes) {
    FK_ENTER(cuMemAlloc_v2, 0);
    fk_mem_t *m = NULL;
    CUresult r = fk_capture_unsafe();
    if (!r) r = fk_mem_new(FK_MEM_DEVICE, fk_current(), bytes, &m);
    if (!r) *p = m->addr;
    return fk_leave(r);
}
FK_EXPORT CUresult cuMemFree_v2(CUdeviceptr p) {
    FK_ENTER(cuMemFree_v2, 0);
    CUresult r = fk_capture_unsafe();
    return fk_leave(r || !p ? r : fk_mem_end(FK_MEM_DEVICE, p));
}
FK_EXPORT CUresult cuMemAllocHost_v2(void **p, size_t bytes) {
    FK_ENTER(cuMemAllocHost_v2, 0);
    fk_mem_t *m = NULL;
    CUresult r = fk_capture_unsafe();
    if (!r) r = fk_mem_new(FK_MEM_PINNED, fk_current(), bytes, &m);
    if (!r) *p = m->alias;
    return fk_leave(r);
}
FK_EXPORT CUresult cuMemFreeHost(void *p) {
    FK_ENTER(cuMemFreeHost, 0);
    return fk_leave(fk_mem_end(FK_MEM_PINNED, (uintptr_t)p));
}
FK_EXPORT CUresult cuMemHostRegister_v2(void *p, size_t bytes, unsigned flags) {
    FK_ENTER(cuMemHostRegister_v2, 0);
    (void)flags;
    return fk_leave(fk_mem_register(fk_current(), p, bytes));
}
FK_EXPORT CUresult cuMemHostUnregister(void *p) {
    FK_ENTER(cuMemHostUnregister, 0);
    return fk_leave(fk_mem_end(FK_MEM_REGISTERED, (uintptr_t)p));
}
FK_EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *p, unsigned flags) {
    FK_ENTER(cuMemHostGetDevicePointer_v2, 0);
    if (flags || !fk_mem_host(p, 1)) return fk_leave(CUDA_ERROR_INVALID_VALUE);
    *device = (uintptr_t)p; /* one address space for both, as in all 64-bit drivers */
    return fk_leave(CUDA_SUCCESS);
}
