/* SPDX-License-Identifier: Apache-2.0 */
/* The libraries of CUDA (cuBLASLt, cuFFT ...), each opened when a program first needs it.
 *
 * A library is one td_cuda_lib_t: names to try, functions to find, and what to do once they are found. The file that
 * calls it declares the functions itself (facts of the public headers), so that none of them is needed to build:
 *
 *     #define SYMBOLS(X) X(1, int, fooCreate, (foo_t *out)) X(0, int, fooNew, (foo_t h))
 *     typedef struct foo_lib {
 *         SYMBOLS(TD_CUDA_LIB_MEMBER)
 *         foo_t handle;
 *     } foo_lib_t;
 *     #define ROW(needed, type, name, args) TD_CUDA_LIB_ROW(foo_lib_t, needed, name)
 *     static const td_cuda_symbol_t symbols[] = {SYMBOLS(ROW)};
 *
 * An open library belongs to the device and is closed with it; its file stays loaded for the life of the process, as
 * these libraries do not survive dlclose. Thread: any (a lock of the device's own inside); the context is current. */
#ifndef TD_RUNTIME_CUDA_LIB_H
#define TD_RUNTIME_CUDA_LIB_H

#include "runtime/cuda/cuda.h"

#define TD_CUDA_LIB_MEMBER(needed, type, name, args) type(*name) args;
#define TD_CUDA_LIB_ROW(lib, needed, name) {#name, offsetof(lib, name), needed},

typedef struct td_cuda_symbol {
    const char *name;
    size_t at;   /* the member in the library's struct */
    bool needed; /* else NULL is fine */
} td_cuda_symbol_t;

typedef struct td_cuda_soname {
    const char *file; /* "libcublasLt.so.13" */
    int driver;       /* the oldest driver that serves it, as td_cuda_t.version; 0: any */
} td_cuda_soname_t;

typedef struct td_cuda_lib {
    const char *name;    /* "cuBLASLt" */
    const char *package; /* what to install: "the cuBLAS libraries of CUDA 12 or 13" */
    td_cuda_soname_t files[4]; /* newest first */
    const td_cuda_symbol_t *symbols;
    size_t n_symbols;
    size_t bytes;        /* of the struct: zeroed, then its functions are filled in */
    /* Checks the version, makes handles. Not TD_OK: the library is not open, what start made it has destroyed. */
    td_status_t (*start)(td_cuda_device_t *d, void *lib, const char *file, td_err_t *err);
    void (*stop)(td_cuda_device_t *d, void *lib); /* NULL: nothing to do; all work of the device is done */
} td_cuda_lib_t;

/* The open library's struct. what: who asks, "matrix products". TD_UNSUPPORTED when there is no such library, or one
 * that lacks a function or is too old: names the files tried, and what to install. */
td_status_t td_cuda_lib_get(td_cuda_device_t *d, const td_cuda_lib_t *lib, const char *what, void *out, td_err_t *err);
/* For start: TD_OK unless version is below least. The two texts are for the message: "12.1", "12.0". */
td_status_t td_cuda_lib_version(const td_cuda_lib_t *lib, const char *file, long version, long least, const char *have,
                                const char *want, td_err_t *err);
/* With the device: stops and forgets all of them. */
void td_cuda_libs_close(td_cuda_device_t *d);

#endif
