/* SPDX-License-Identifier: Apache-2.0 */
/* The entry point through which a shared library tells its handlers; self-contained, C17 or C++17.
 *
 * Include xla/ffi/api/c_api.h (or api.h, ffi.h) first, or nothing: then abi.h beside this file is used.
 *
 *     THUNKD_FFI_EXPORT const thunkd_ffi_entry_t *thunkd_ffi_handlers(const thunkd_ffi_api_t *api, size_t *n);
 *
 * is called once, when the library is loaded. It returns an array of *n entries that stays valid, or NULL and 0.
 * `api` lets it register state types, which must come before the handlers that use them. */
#ifndef THUNKD_FFI_ENTRY_H
#define THUNKD_FFI_ENTRY_H

#ifdef XLA_FFI_API_MAJOR
typedef XLA_FFI_Handler thunkd_ffi_handler_t;
typedef XLA_FFI_Api thunkd_ffi_api_t;
#else
#include "abi.h"
typedef td_ffi_handler_fn thunkd_ffi_handler_t;
typedef td_ffi_api_t thunkd_ffi_api_t;
#endif

#ifdef __cplusplus
#define THUNKD_FFI_EXPORT extern "C" __attribute__((visibility("default")))
#else
#define THUNKD_FFI_EXPORT __attribute__((visibility("default")))
#endif

typedef struct thunkd_ffi_entry {
    size_t struct_size;   /* sizeof(thunkd_ffi_entry_t); the array's stride is the first entry's */
    const char *target;   /* the custom call's target */
    const char *platform; /* "Host" or "CUDA" in any case; NULL: any */
    thunkd_ffi_handler_t *instantiate, *prepare, *initialize; /* NULL: none */
    thunkd_ffi_handler_t *execute;
} thunkd_ffi_entry_t;

typedef const thunkd_ffi_entry_t *thunkd_ffi_handlers_fn(const thunkd_ffi_api_t *api, size_t *n);

#endif
