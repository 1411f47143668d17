/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers of users' shared libraries, by custom-call target and platform.
 *
 * A library's targets come from: a map given with it (target -> symbol), else from its entry point
 * thunkd_ffi_handlers (runtime/ffi/entry.h), also from handlers it registers through the table while it is being
 * loaded (xla/ffi/api's static registration), and, only if it has none of these, any function named as a target.
 * Each handler is asked for its metadata when it is registered: one whose API version is not accepted fails the
 * load by name. Libraries stay loaded for ever: their threads, types and states may outlive the registry.
 *
 * Thread: loading one at a time, before use; finding: any. */
#ifndef TD_RUNTIME_FFI_REGISTRY_H
#define TD_RUNTIME_FFI_REGISTRY_H

#include "base/arena.h"
#include "runtime/ffi/abi.h"

/* One entry of a map. A stage is named in the key: "scale" or "scale@execute", "scale@instantiate", "@prepare",
 * "@initialize". "scale=Sym" in text. */
typedef struct td_ffi_symbol {
    const char *target, *symbol;
} td_ffi_symbol_t;
typedef struct td_ffi_library {
    const char *path;
    const td_ffi_symbol_t *symbols;
    uint32_t n_symbols; /* 0: the library tells itself */
} td_ffi_library_t;

/* What a target resolves to; immutable, lives as long as the registry (or the arena given to find). */
typedef struct td_ffi_handler {
    const char *target, *platform; /* platform: lower case; "" for any */
    const char *library;           /* path */
    td_ffi_bundle_t bundle;        /* execute is never NULL */
    const td_ffi_api_t *api;       /* the table that its calls are given */
    int32_t major, minor;          /* of the headers it was built with */
    uint32_t traits;
    bool mapped;     /* by the map, not by the library */
    struct td_ffi_handler *next;
} td_ffi_handler_t;

typedef struct td_ffi_registry td_ffi_registry_t;

td_status_t td_ffi_registry_create(const td_alloc_t *alloc, td_ffi_registry_t **out, td_err_t *err);
/* Strings are copied. Errors name the library and the target. After an error the registry is still usable, without
 * the library's remaining handlers. */
td_status_t td_ffi_registry_load(td_ffi_registry_t *r, const td_ffi_library_t *lib, td_err_t *err);
/* "LIB.so", "LIB.so:target=symbol,target2=symbol2". A path with a colon in it needs the configuration file. */
td_status_t td_ffi_registry_load_text(td_ffi_registry_t *r, const char *text, td_err_t *err);
/* The handler for a device of this name ("host", "cuda"); *out NULL if there is none (also with r NULL).
 * An error if a symbol fits but is no handler of an accepted version. `arena` may hold the result. */
td_status_t td_ffi_registry_find(const td_ffi_registry_t *r, const char *target, const char *device, td_arena_t *arena,
                                 const td_ffi_handler_t **out, td_err_t *err);
/* "for CUDA only, in /x/lib.so" for a target that exists, but not for this device; else NULL. Into buf. */
const char *td_ffi_registry_elsewhere(const td_ffi_registry_t *r, const char *target, char *buf, size_t size);
/* The handlers known by name, the latest first. */
const td_ffi_handler_t *td_ffi_registry_list(const td_ffi_registry_t *r);
/* NULL is fine. No program that uses a handler may be left. */
void td_ffi_registry_destroy(td_ffi_registry_t *r);

#endif
