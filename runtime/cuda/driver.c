/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cuda/driver.h"

#include <dlfcn.h>
#include <string.h>

static const struct symbol {
    const char *name;
    size_t at; /* the member in td_cuda_t */
    bool needed;
} symbols[] = {
#define SYMBOL(needed, name, args) {#name, offsetof(td_cuda_t, name), needed},
    TD_CUDA_SYMBOLS(SYMBOL)
#undef SYMBOL
};

static td_status_t resolve(void *library, const char *path, td_cuda_t *out, td_err_t *err) {
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *p = dlsym(library, symbols[i].name);
        if (!p && symbols[i].needed)
            return td_fail(err, TD_UNSUPPORTED, "the CUDA driver %s has no %s; a driver of CUDA %d.%d or newer does",
                           path,
                           symbols[i].name, TD_CUDA_DRIVER_LEAST / 1000, TD_CUDA_DRIVER_LEAST % 1000 / 10);
        memcpy((char *)out + symbols[i].at, &p, sizeof p);
    }
    return TD_OK;
}

static td_status_t start(td_cuda_t *out, const char *path, td_err_t *err) {
    CUresult r = out->cuInit(0);
    if (r == CUDA_ERROR_NO_DEVICE) return td_fail(err, TD_NOTFOUND, "the CUDA driver %s finds no GPU in this machine",
                                                  path);
    if (r == CUDA_ERROR_STUB_LIBRARY)
        return td_fail(err, TD_NOTFOUND, "%s is a stub to link with, not a driver; install the NVIDIA driver", path);
    if (r) return td_cuda_fail(out, r, "cuInit", path, err);
    if ((r = out->cuDriverGetVersion(&out->version))) return td_cuda_fail(out, r, "cuDriverGetVersion", path, err);
    if (out->version < TD_CUDA_DRIVER_LEAST)
        return td_fail(err, TD_UNSUPPORTED, "the CUDA driver %s serves CUDA %d.%d, needed is %d.%d or newer", path,
                       out->version / 1000, out->version % 1000 / 10, TD_CUDA_DRIVER_LEAST / 1000,
                       TD_CUDA_DRIVER_LEAST % 1000 / 10);
    return TD_OK;
}

td_status_t td_cuda_open(const char *path, td_cuda_t *out, td_err_t *err) {
    td_cuda_t cu = {0};
    if (!path) path = "libcuda.so.1";
    cu.library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!cu.library) {
        const char *why = dlerror();
        return td_fail(err, TD_NOTFOUND, "no CUDA driver: %s", why ? why : path);
    }
    td_status_t st = resolve(cu.library, path, &cu, err);
    if (!st) st = start(&cu, path, err);
    if (!st) *out = cu;
    return st;
}

static td_status_t status_of(CUresult r) {
    switch (r) {
    case CUDA_ERROR_OUT_OF_MEMORY: return TD_NOMEM;
    case CUDA_ERROR_INVALID_IMAGE: case CUDA_ERROR_INVALID_PTX: return TD_MALFORMED;
    case CUDA_ERROR_NO_BINARY_FOR_GPU: case CUDA_ERROR_UNSUPPORTED_PTX_VERSION: return TD_MISMATCH;
    case CUDA_ERROR_NOT_SUPPORTED: case CUDA_ERROR_JIT_COMPILER_NOT_FOUND: return TD_UNSUPPORTED;
    case CUDA_ERROR_NOT_FOUND: return TD_NOTFOUND;
    default: return TD_DEVICE;
    }
}

td_status_t td_cuda_fail(const td_cuda_t *cu, CUresult r, const char *call, const char *what, td_err_t *err) {
    const char *name = NULL, *text = NULL;
    if (cu->cuGetErrorName(r, &name) || !name) name = "an error without a name";
    if (cu->cuGetErrorString(r, &text) || !text) text = "no description";
    return td_fail(err, status_of(r), "%s: %s: %s (%d): %s", what, call, name, r, text);
}

bool td_cuda_sticky(CUresult r) {
    switch (r) {
    case CUDA_ERROR_DEINITIALIZED: case CUDA_ERROR_ECC_UNCORRECTABLE: case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_ILLEGAL_ADDRESS: case CUDA_ERROR_LAUNCH_TIMEOUT: case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT: case CUDA_ERROR_HARDWARE_STACK_ERROR: case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS: case CUDA_ERROR_INVALID_ADDRESS_SPACE: case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED: case CUDA_ERROR_UNKNOWN: return true;
    default: return false;
    }
}
