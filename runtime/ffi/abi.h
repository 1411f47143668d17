/* SPDX-License-Identifier: Apache-2.0 */
/* The XLA FFI C ABI, versions 0.1 to 0.5, as this runtime and a handler see it (LP64).
 *
 * Every structure says its own size, so that old and new sides can talk: the receiver reads a field only if
 * struct_size reaches it. The size a sender writes is the end of the last field (td_ffi_*_SIZE), not sizeof.
 * Version 0.3 gave state calls a stage, 0.4 gave errors a code and bundles a record handler, 0.5 added custom
 * options; fields never moved since 0.3. The layouts are facts of xla/ffi/api/c_api.h; only their layout
 * matters, so a handler may be written against that header or against this one.
 *
 * The header is self-contained. Ownership: an error belongs to whoever receives it (error_destroy); ctx is valid
 * during the call only. */
#ifndef THUNKD_FFI_ABI_H
#define THUNKD_FFI_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define TD_FFI_ASSERT static_assert
#else
#define TD_FFI_ASSERT _Static_assert
#endif

#define TD_FFI_MAJOR 0
#define TD_FFI_MINOR 5     /* what is implemented */
#define TD_FFI_MIN_MINOR 1 /* what is accepted at least */

/* Size of a struct up to and with its last field. */
#define TD_FFI_SIZE(type, last) (offsetof(type, last) + sizeof(((type *)0)->last))

typedef struct td_ffi_api td_ffi_api_t;
typedef struct td_ffi_ctx td_ffi_ctx_t;       /* the runtime's: one invocation */
typedef struct td_ffi_error td_ffi_error_t;   /* the runtime's */
typedef struct td_ffi_future td_ffi_future_t; /* the runtime's */

enum { TD_FFI_EXTENSION_METADATA = 1 };
typedef struct td_ffi_extension { /* internal: only the metadata query uses it */
    size_t struct_size;
    int32_t type;
    struct td_ffi_extension *next;
} td_ffi_extension_t;

typedef struct td_ffi_api_version {
    size_t struct_size;
    td_ffi_extension_t *extension_start;
    int32_t major_version, minor_version;
} td_ffi_api_version_t;

typedef enum td_ffi_errc {
    TD_FFI_OK = 0, TD_FFI_CANCELLED, TD_FFI_UNKNOWN, TD_FFI_INVALID_ARGUMENT, TD_FFI_DEADLINE_EXCEEDED,
    TD_FFI_NOT_FOUND, TD_FFI_ALREADY_EXISTS, TD_FFI_PERMISSION_DENIED, TD_FFI_RESOURCE_EXHAUSTED,
    TD_FFI_FAILED_PRECONDITION,
    TD_FFI_ABORTED, TD_FFI_OUT_OF_RANGE, TD_FFI_UNIMPLEMENTED, TD_FFI_INTERNAL, TD_FFI_UNAVAILABLE, TD_FFI_DATA_LOSS,
    TD_FFI_UNAUTHENTICATED
} td_ffi_errc_t;

/* Element types carry XLA's PrimitiveType numbers (td_type_t). */
typedef struct td_ffi_buffer { /* logical dimensions; the memory layout is not told */
    size_t struct_size;
    td_ffi_extension_t *extension_start;
    int32_t dtype;
    void *data;
    int64_t rank;
    int64_t *dims;
} td_ffi_buffer_t;

typedef struct td_ffi_span {
    const char *ptr;
    size_t len;
} td_ffi_span_t;
typedef struct td_ffi_scalar { /* dtype PRED: one byte */
    int32_t dtype;
    void *value;
} td_ffi_scalar_t;
typedef struct td_ffi_array {
    int32_t dtype;
    size_t size;
    void *data;
} td_ffi_array_t;
typedef struct td_ffi_type_id {
    int64_t type_id; /* 0: none; process-wide */
} td_ffi_type_id_t;
typedef struct td_ffi_type_info {
    size_t struct_size;
    td_ffi_extension_t *extension_start;
    void (*deleter)(void *object);
} td_ffi_type_info_t;

enum { TD_FFI_ARG_BUFFER = 1, TD_FFI_RET_BUFFER = 1 };
typedef enum td_ffi_attr_type {
    TD_FFI_ATTR_ARRAY = 1, TD_FFI_ATTR_DICTIONARY = 2, TD_FFI_ATTR_SCALAR = 3, TD_FFI_ATTR_STRING = 4
} td_ffi_attr_type_t;
typedef enum td_ffi_stage {
    TD_FFI_INSTANTIATE = 0, TD_FFI_PREPARE = 1, TD_FFI_INITIALIZE = 2, TD_FFI_EXECUTE = 3, TD_FFI_RECORD = 4
} td_ffi_stage_t;

typedef struct td_ffi_args { /* operands, and in the same form results */
    size_t struct_size;
    td_ffi_extension_t *extension_start;
    int64_t size;
    int32_t *types;
    void **args; /* td_ffi_buffer_t * each */
} td_ffi_args_t;

/* Sorted by name. attrs[i]: td_ffi_array_t, td_ffi_attrs_t, td_ffi_scalar_t or td_ffi_span_t, as types[i] says. */
typedef struct td_ffi_attrs {
    size_t struct_size;
    td_ffi_extension_t *extension_start;
    int64_t size;
    int32_t *types;
    td_ffi_span_t **names;
    void **attrs;
} td_ffi_attrs_t;

typedef struct td_ffi_call_frame { /* handlers check struct_size for equality with the end of attrs: 168 */
    size_t struct_size;
    td_ffi_extension_t *extension_start;
    const td_ffi_api_t *api;
    td_ffi_ctx_t *ctx;
    int32_t stage;
    td_ffi_args_t args, rets;
    td_ffi_attrs_t attrs;
    td_ffi_future_t *future; /* out: set by an asynchronous handler that returns NULL */
} td_ffi_call_frame_t;

/* NULL: success. */
typedef td_ffi_error_t *td_ffi_handler_fn(td_ffi_call_frame_t *frame);
typedef struct td_ffi_bundle { /* all but execute may be NULL */
    td_ffi_handler_fn *instantiate, *prepare, *initialize, *execute, *record;
} td_ffi_bundle_t;
enum { TD_FFI_TRAIT_COMMAND_BUFFER = 1 };

/* The answer to a metadata query: a call whose extension_start is a td_ffi_metadata_extension_t. */
typedef struct td_ffi_metadata {
    size_t struct_size;
    td_ffi_api_version_t api_version;
    uint32_t traits;
    td_ffi_type_id_t state_type_id; /* instantiate handlers */
} td_ffi_metadata_t;
typedef struct td_ffi_metadata_extension {
    td_ffi_extension_t base;
    td_ffi_metadata_t *metadata;
} td_ffi_metadata_extension_t;

/* ---- arguments of the table's functions ---- */
#define TD_FFI_ARGS_HEAD             \
    size_t struct_size;              \
    td_ffi_extension_t *extension_start
typedef struct td_ffi_error_create {
    TD_FFI_ARGS_HEAD;
    const char *message;
    int32_t errc;
} td_ffi_error_create_t;
typedef struct td_ffi_error_details {
    TD_FFI_ARGS_HEAD;
    td_ffi_error_t *error;
    const char *message;
    int32_t errc;
} td_ffi_error_details_t; /* message, errc: out; errc since 0.4 */
typedef struct td_ffi_error_destroy {
    TD_FFI_ARGS_HEAD;
    td_ffi_error_t *error;
} td_ffi_error_destroy_t;
typedef struct td_ffi_handler_register { /* before 0.4 the bundle ends before record, traits follow at 80 */
    TD_FFI_ARGS_HEAD;
    td_ffi_span_t name, platform;
    td_ffi_bundle_t bundle;
    uint32_t traits;
} td_ffi_handler_register_t;
typedef struct td_ffi_type_register {
    TD_FFI_ARGS_HEAD;
    td_ffi_span_t name;
    td_ffi_type_id_t *type_id;
    const td_ffi_type_info_t *type_info;
} td_ffi_type_register_t; /* type_id: in, out */
typedef struct td_ffi_ctx_get {
    TD_FFI_ARGS_HEAD;
    td_ffi_ctx_t *ctx;
    td_ffi_type_id_t *type_id;
    void *data;
} td_ffi_ctx_get_t;
typedef struct td_ffi_ctx_extension {
    TD_FFI_ARGS_HEAD;
    td_ffi_ctx_t *ctx;
    int64_t type;
    const void *extension;
} td_ffi_ctx_extension_t;
typedef struct td_ffi_ctx_options {
    TD_FFI_ARGS_HEAD;
    td_ffi_ctx_t *ctx;
    const td_ffi_attrs_t *attrs;
} td_ffi_ctx_options_t;
/* Before 0.3 state calls had no stage: the fields lie elsewhere, and such calls are refused. */
typedef struct td_ffi_state {
    TD_FFI_ARGS_HEAD;
    td_ffi_ctx_t *ctx;
    int32_t stage;
    td_ffi_type_id_t *type_id;
    void *state;
} td_ffi_state_t;
typedef struct td_ffi_stream_get {
    TD_FFI_ARGS_HEAD;
    td_ffi_ctx_t *ctx;
    void *stream;
} td_ffi_stream_get_t;
typedef struct td_ffi_mem_get {
    TD_FFI_ARGS_HEAD;
    td_ffi_ctx_t *ctx;
    size_t size, alignment;
    void *data;
} td_ffi_mem_get_t;
typedef struct td_ffi_mem_put {
    TD_FFI_ARGS_HEAD;
    td_ffi_ctx_t *ctx;
    size_t size;
    void *data;
} td_ffi_mem_put_t;
typedef struct td_ffi_pool_schedule {
    TD_FFI_ARGS_HEAD;
    td_ffi_ctx_t *ctx;
    void (*task)(void *);
    void *data;
} td_ffi_pool_schedule_t;
typedef struct td_ffi_pool_threads {
    TD_FFI_ARGS_HEAD;
    td_ffi_ctx_t *ctx;
    int64_t *num_threads;
} td_ffi_pool_threads_t;
typedef struct td_ffi_future_args {
    TD_FFI_ARGS_HEAD;
    td_ffi_future_t *future;
} td_ffi_future_args_t; /* create (out) and set available */
typedef struct td_ffi_future_error {
    TD_FFI_ARGS_HEAD;
    td_ffi_future_t *future;
    td_ffi_error_t *error;
} td_ffi_future_error_t; /* error moves */
typedef struct td_ffi_run_id {
    TD_FFI_ARGS_HEAD;
    td_ffi_ctx_t *ctx;
    int64_t run_id;
} td_ffi_run_id_t;
typedef struct td_ffi_ordinal {
    TD_FFI_ARGS_HEAD;
    td_ffi_ctx_t *ctx;
    int32_t device_ordinal;
} td_ffi_ordinal_t;

struct td_ffi_api {
    size_t struct_size;
    td_ffi_extension_t *extension_start;
    td_ffi_api_version_t api_version;
    const void *internal_api; /* for handlers built from one tree with their runtime; NULL here */
    td_ffi_error_t *(*error_create)(td_ffi_error_create_t *);
    void (*error_details)(td_ffi_error_details_t *);
    void (*error_destroy)(td_ffi_error_destroy_t *);
    td_ffi_error_t *(*handler_register)(td_ffi_handler_register_t *);
    td_ffi_error_t *(*stream_get)(td_ffi_stream_get_t *);
    td_ffi_error_t *(*type_register)(td_ffi_type_register_t *);
    td_ffi_error_t *(*ctx_get)(td_ffi_ctx_get_t *);
    td_ffi_error_t *(*state_set)(td_ffi_state_t *);
    td_ffi_error_t *(*state_get)(td_ffi_state_t *);
    td_ffi_error_t *(*mem_get)(td_ffi_mem_get_t *);
    td_ffi_error_t *(*mem_put)(td_ffi_mem_put_t *);
    td_ffi_error_t *(*pool_schedule)(td_ffi_pool_schedule_t *);
    td_ffi_error_t *(*pool_threads)(td_ffi_pool_threads_t *);
    td_ffi_error_t *(*future_create)(td_ffi_future_args_t *);
    td_ffi_error_t *(*future_set_available)(td_ffi_future_args_t *);
    td_ffi_error_t *(*future_set_error)(td_ffi_future_error_t *);
    td_ffi_error_t *(*run_id_get)(td_ffi_run_id_t *);
    td_ffi_error_t *(*ordinal_get)(td_ffi_ordinal_t *);
    td_ffi_error_t *(*ctx_extension)(td_ffi_ctx_extension_t *); /* since 0.4 */
    td_ffi_error_t *(*ctx_options)(td_ffi_ctx_options_t *);     /* since 0.5 */
};

#define TD_FFI_AT(type, field, offset) TD_FFI_ASSERT(offsetof(type, field) == (offset), #type "." #field)
TD_FFI_AT(td_ffi_buffer_t, dims, 40);
TD_FFI_AT(td_ffi_call_frame_t, args, 40);
TD_FFI_AT(td_ffi_call_frame_t, rets, 80);
TD_FFI_AT(td_ffi_call_frame_t, attrs, 120);
TD_FFI_AT(td_ffi_call_frame_t, future, 168);
TD_FFI_AT(td_ffi_metadata_t, state_type_id, 40);
TD_FFI_AT(td_ffi_handler_register_t, traits, 88);
TD_FFI_AT(td_ffi_state_t, state, 40);
TD_FFI_AT(td_ffi_mem_get_t, data, 40);
TD_FFI_AT(td_ffi_api_t, error_create, 48);
TD_FFI_AT(td_ffi_api_t, ctx_options, 200);

#ifdef __cplusplus
}
#endif

#endif
