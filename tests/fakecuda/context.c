/* SPDX-License-Identifier: Apache-2.0 */
/* Devices and their primary contexts; what is left when one ends is a leak. */
#include <string.h>

#include "tests/fakecuda/fake.h"
#include "tests/fakecuda/stream.h"

bool fk_initialised;
static fk_ctx_t *primary[64];
static _Thread_local fk_ctx_t *current;

fk_ctx_t *fk_current(void) { return current; }

bool fk_is_sticky(CUresult r) {
    return r == CUDA_ERROR_ECC_UNCORRECTABLE || r == CUDA_ERROR_CONTAINED || r == CUDA_ERROR_ILLEGAL_ADDRESS ||
           r == CUDA_ERROR_LAUNCH_TIMEOUT || r == CUDA_ERROR_ASSERT ||
           (r >= CUDA_ERROR_HARDWARE_STACK_ERROR && r <= CUDA_ERROR_LAUNCH_FAILED);
}

void fk_poison(fk_ctx_t *c, CUresult r) {
    if (!c->sticky) c->sticky = r;
}

/* ---- the driver and its devices ---- */
FK_EXPORT CUresult cuInit(unsigned flags) {
    FK_ENTER(cuInit, FK_NO_INIT | FK_NO_CONTEXT);
    if (flags) return fk_leave(CUDA_ERROR_INVALID_VALUE);
    if (!fk_config.devices) return fk_leave(CUDA_ERROR_NO_DEVICE);
    fk_initialised = true;
    return fk_leave(CUDA_SUCCESS);
}
FK_EXPORT CUresult cuDriverGetVersion(int *version) {
    FK_ENTER(cuDriverGetVersion, FK_NO_INIT | FK_NO_CONTEXT);
    *version = fk_config.driver;
    return fk_leave(CUDA_SUCCESS);
}

static const struct {
    CUresult code;
    const char *name;
} errors[] = {
#define E(x) {CUDA_##x, "CUDA_" #x}
    E(SUCCESS), E(ERROR_INVALID_VALUE), E(ERROR_OUT_OF_MEMORY), E(ERROR_NOT_INITIALIZED), E(ERROR_DEINITIALIZED),
    E(ERROR_STUB_LIBRARY), E(ERROR_DEVICE_UNAVAILABLE), E(ERROR_NO_DEVICE), E(ERROR_INVALID_DEVICE),
    E(ERROR_INVALID_IMAGE), E(ERROR_INVALID_CONTEXT), E(ERROR_NO_BINARY_FOR_GPU), E(ERROR_ECC_UNCORRECTABLE),
    E(ERROR_INVALID_PTX), E(ERROR_JIT_COMPILER_NOT_FOUND), E(ERROR_UNSUPPORTED_PTX_VERSION), E(ERROR_CONTAINED),
    E(ERROR_INVALID_HANDLE), E(ERROR_NOT_FOUND), E(ERROR_NOT_READY), E(ERROR_ILLEGAL_ADDRESS),
    E(ERROR_LAUNCH_OUT_OF_RESOURCES), E(ERROR_LAUNCH_TIMEOUT), E(ERROR_CONTEXT_IS_DESTROYED), E(ERROR_ASSERT),
    E(ERROR_HOST_MEMORY_ALREADY_REGISTERED), E(ERROR_HARDWARE_STACK_ERROR), E(ERROR_ILLEGAL_INSTRUCTION),
    E(ERROR_MISALIGNED_ADDRESS), E(ERROR_INVALID_ADDRESS_SPACE), E(ERROR_INVALID_PC), E(ERROR_LAUNCH_FAILED),
    E(ERROR_NOT_SUPPORTED), E(ERROR_SYSTEM_DRIVER_MISMATCH), E(ERROR_UNKNOWN),
#undef E
};
static CUresult error_name(CUresult error, const char **out) {
    *out = NULL;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == error) *out = errors[i].name;
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
FK_EXPORT CUresult cuGetErrorName(CUresult error, const char **out) {
    FK_ENTER(cuGetErrorName, FK_NO_INIT | FK_NO_CONTEXT);
    return fk_leave(error_name(error, out));
}
FK_EXPORT CUresult cuGetErrorString(CUresult error, const char **out) {
    FK_ENTER(cuGetErrorString, FK_NO_INIT | FK_NO_CONTEXT);
    CUresult r = error_name(error, out);
    if (!r) *out = "as the stand-in driver says";
    return fk_leave(r);
}

static bool device_ok(CUdevice d) { return d >= 0 && d < fk_config.devices; }
FK_EXPORT CUresult cuDeviceGetCount(int *count) {
    FK_ENTER(cuDeviceGetCount, FK_NO_CONTEXT);
    *count = fk_config.devices;
    return fk_leave(CUDA_SUCCESS);
}
FK_EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    FK_ENTER(cuDeviceGet, FK_NO_CONTEXT);
    if (!device_ok(ordinal)) return fk_leave(CUDA_ERROR_INVALID_DEVICE);
    *device = ordinal;
    return fk_leave(CUDA_SUCCESS);
}
FK_EXPORT CUresult cuDeviceGetName(char *name, int size, CUdevice device) {
    FK_ENTER(cuDeviceGetName, FK_NO_CONTEXT);
    if (!device_ok(device) || size <= 0) return fk_leave(CUDA_ERROR_INVALID_DEVICE);
    snprintf(name, (size_t)size, "Stand-in %d.%d%s%s", fk_config.cc_major, fk_config.cc_minor,
             fk_config.mig ? " MIG " : "", fk_config.mig ? fk_config.mig : "");
    return fk_leave(CUDA_SUCCESS);
}
FK_EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
    FK_ENTER(cuDeviceGetUuid_v2, FK_NO_CONTEXT);
    if (!device_ok(device)) return fk_leave(CUDA_ERROR_INVALID_DEVICE);
    memset(uuid, 0xfa, sizeof *uuid);
    uuid->bytes[15] = (unsigned char)device;
    return fk_leave(CUDA_SUCCESS);
}
FK_EXPORT CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
    FK_ENTER(cuDeviceGetAttribute, FK_NO_CONTEXT);
    if (!device_ok(device)) return fk_leave(CUDA_ERROR_INVALID_DEVICE);
    CUresult r = CUDA_SUCCESS;
    switch (attribute) { /* of an H100; the capability is what was asked for */
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = 1024; break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X: *value = 1024; break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: *value = 1024; break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: *value = 64; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: *value = 2147483647; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y: *value = 65535; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: *value = 65535; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: *value = 49152; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 132; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE: *value = CU_COMPUTEMODE_DEFAULT; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = fk_config.cc_major; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = fk_config.cc_minor; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = 232448; break;
    case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH: *value = fk_config.cc_major >= 9; break;
    default: r = CUDA_ERROR_INVALID_VALUE;
    }
    return fk_leave(r);
}
FK_EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    FK_ENTER(cuDeviceTotalMem_v2, FK_NO_CONTEXT);
    if (!device_ok(device)) return fk_leave(CUDA_ERROR_INVALID_DEVICE);
    *bytes = fk_config.memory;
    return fk_leave(CUDA_SUCCESS);
}

/* ---- contexts ---- */
FK_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    FK_ENTER(cuDevicePrimaryCtxRetain, FK_NO_CONTEXT);
    if (!device_ok(device)) return fk_leave(CUDA_ERROR_INVALID_DEVICE);
    fk_ctx_t *c = primary[device];
    if (!c) {
        c = fk_obj_new(FK_CONTEXT_OBJ, sizeof *c, NULL);
        if (!c) return fk_leave(CUDA_ERROR_OUT_OF_MEMORY);
        c->base.ctx = c;
        c->device = device;
        c->null_stream = fk_stream_new(c, CU_STREAM_DEFAULT, true);
        if (!c->null_stream) {
            fk_obj_end(&c->base);
            return fk_leave(CUDA_ERROR_OUT_OF_MEMORY);
        }
        primary[device] = c;
    }
    if (c->sticky) return fk_leave(c->sticky);
    c->refs++;
    *context = fk_handle(&c->base);
    return fk_leave(CUDA_SUCCESS);
}

/* Tells what of the context is left; with `end` it is ended too. */
static void leaks(fk_ctx_t *c, bool end) {
    uint32_t n[FK_KINDS] = {0};
    fk_obj_t *o;
    bool told = fk_config.leaks && !c->sticky; /* who gives up after a failed device need not tidy up */
    for (uint32_t i = 0; (o = fk_obj_at(i)); i++) {
        if (o->ctx != c || !o->live || o == &c->base || o == &c->null_stream->base) continue;
        n[o->kind]++;
        if (end) o->kind == FK_STREAM ? fk_stream_end((fk_stream_t *)o) : fk_obj_end(o);
    }
    for (int k = FK_STREAM; k < FK_KINDS && told; k++)
        if (n[k] && k != FK_FUNCTION)
            fk_fault(FK_LEAK, 0, "device %d: %u of the kind %s were never destroyed", c->device, n[k],
                     fk_kind_name((fk_kind_t)k));
    fk_mem_t *m;
    for (uint32_t i = 0; (m = fk_mem_at_index(i)); i++) {
        if (m->ctx != c || !m->live) continue;
        if (told && m->kind != FK_MEM_GLOBAL)
            fk_fault(FK_LEAK, 0, "device %d: %s allocation %u of %llu bytes was never freed", c->device,
                     fk_mem_kind_name(m->kind), m->number, (unsigned long long)m->size);
        if (end) fk_mem_end(m->kind, m->addr);
    }
}

FK_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    FK_ENTER(cuDevicePrimaryCtxRelease_v2, FK_NO_CONTEXT);
    if (!device_ok(device)) return fk_leave(CUDA_ERROR_INVALID_DEVICE);
    fk_ctx_t *c = primary[device];
    if (!c)
        return fk_leave(fk_fault(FK_CONTEXT, CUDA_ERROR_INVALID_CONTEXT, "device %d has no primary context", device));
    if (--c->refs) return fk_leave(CUDA_SUCCESS);
    primary[device] = NULL;
    fk_ctx_drain(c);
    leaks(c, true);
    fk_stream_end(c->null_stream);
    while (c->threads) pthread_cond_wait(&fk_change, &fk_lock);
    fk_obj_end(&c->base);
    return fk_leave(CUDA_SUCCESS);
}

void fk_leaks_at_exit(void);
void fk_leaks_at_exit(void) {
    for (int i = 0; i < 64; i++) {
        if (!primary[i]) continue;
        if (fk_config.leaks && !primary[i]->sticky)
            fk_fault(FK_LEAK, 0, "device %d: its primary context was not released", i);
        leaks(primary[i], false);
    }
}

FK_EXPORT CUresult cuCtxSetCurrent(CUcontext context) {
    FK_ENTER(cuCtxSetCurrent, FK_NO_CONTEXT);
    CUresult r = CUDA_SUCCESS;
    fk_ctx_t *c = context ? fk_get(context, FK_CONTEXT_OBJ, false, &r) : NULL;
    if (!r) current = c;
    return fk_leave(r);
}
FK_EXPORT CUresult cuCtxGetCurrent(CUcontext *context) {
    FK_ENTER(cuCtxGetCurrent, FK_NO_CONTEXT);
    *context = current ? fk_handle(&current->base) : NULL;
    return fk_leave(CUDA_SUCCESS);
}
FK_EXPORT CUresult cuCtxSynchronize(void) {
    FK_ENTER(cuCtxSynchronize, 0);
    fk_ctx_t *c = current;
    fk_ctx_drain(c);
    return fk_leave(c->sticky);
}
FK_EXPORT CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    FK_ENTER(cuCtxGetStreamPriorityRange, 0);
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return fk_leave(CUDA_SUCCESS);
}
