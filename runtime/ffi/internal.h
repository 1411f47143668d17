/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of runtime/ffi share. The structs here are the opaque ones of abi.h. */
#ifndef TD_RUNTIME_FFI_INTERNAL_H
#define TD_RUNTIME_FFI_INTERNAL_H

#include <pthread.h>

#include "runtime/device.h"
#include "runtime/ffi/registry.h"

struct td_ffi_error {
    td_ffi_errc_t code;
    char text[]; /* NUL at the end */
};

/* Two owners: who creates it and will settle it, and the runtime that waits. */
struct td_ffi_future {
    pthread_mutex_t lock;
    pthread_cond_t settled;
    bool done;
    uint32_t owners;
    td_ffi_error_t *error;
};

typedef struct td_ffi_slot { /* a state and who deletes it */
    int64_t type_id;
    void *state;
    void (*deleter)(void *);
} td_ffi_slot_t;
void td_ffi_slot_clear(td_ffi_slot_t *s);

struct td_ffi_ctx {
    td_device_t *dev;
    const td_ffi_handler_t *handler;
    td_ffi_stage_t stage;
    void *stream; /* the device's; NULL on a host */
    struct td_ffi_held *held; /* call.h; NULL: memory goes back at once */
    int64_t run_id;
    td_ffi_slot_t *instantiated; /* outlives the invocation */
    td_ffi_slot_t prepared, initialized;
};

/* The table of this process. Never NULL. */
const td_ffi_api_t *td_ffi_api(void);
td_ffi_error_t *td_ffi_errorf(td_ffi_errc_t code, const char *fmt, ...) TD_PRINTF(2, 3);
const char *td_ffi_errc_name(int code);
/* Destroys e and waits. NULL: success. */
td_ffi_error_t *td_ffi_future_wait(td_ffi_future_t *f);
/* The deleter of a registered type; false: unknown. */
bool td_ffi_type_find(int64_t type_id, void (**out_deleter)(void *));

/* Where handler_register puts what it gets; set while a library is loaded, by its thread. */
typedef struct td_ffi_loading {
    td_ffi_registry_t *registry;
    const char *path;
    uint32_t registered;
    td_status_t status; /* of the first refusal */
    td_err_t *err;
} td_ffi_loading_t;
extern _Thread_local td_ffi_loading_t *td_ffi_loading;
td_status_t td_ffi_registry_add(td_ffi_registry_t *r, const char *path, td_ffi_span_t target, td_ffi_span_t platform,
                                const td_ffi_bundle_t *bundle, uint32_t traits, td_err_t *err);

/* api_ctx.c */
td_ffi_error_t *td_ffi_stream_get(td_ffi_stream_get_t *a);
td_ffi_error_t *td_ffi_ctx_get(td_ffi_ctx_get_t *a);
td_ffi_error_t *td_ffi_state_set(td_ffi_state_t *a);
td_ffi_error_t *td_ffi_state_get(td_ffi_state_t *a);
td_ffi_error_t *td_ffi_mem_get(td_ffi_mem_get_t *a);
td_ffi_error_t *td_ffi_mem_put(td_ffi_mem_put_t *a);
td_ffi_error_t *td_ffi_pool_schedule(td_ffi_pool_schedule_t *a);
td_ffi_error_t *td_ffi_pool_threads(td_ffi_pool_threads_t *a);
td_ffi_error_t *td_ffi_run_id_get(td_ffi_run_id_t *a);
td_ffi_error_t *td_ffi_ordinal_get(td_ffi_ordinal_t *a);
td_ffi_error_t *td_ffi_ctx_extension(td_ffi_ctx_extension_t *a);
td_ffi_error_t *td_ffi_ctx_options(td_ffi_ctx_options_t *a);

/* Leaves the function with an error when the caller's struct ends before its field `last`. */
#define TD_FFI_CHECK(a, type, last)                                                                               \
    do {                                                                                                          \
        if (!(a) || (a)->struct_size < TD_FFI_SIZE(type, last))                                                   \
            return td_ffi_errorf(TD_FFI_INVALID_ARGUMENT, #type ": struct_size %zu, expected at least %zu",       \
                                 (a) ? (a)->struct_size : (size_t)0, TD_FFI_SIZE(type, last));                    \
    } while (0)

#endif
