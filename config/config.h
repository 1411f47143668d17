/* SPDX-License-Identifier: Apache-2.0 */
/* thunkd's configuration: one YAML mapping, of scalars but for ffi_libraries. Thread: one. */
#ifndef TD_CONFIG_CONFIG_H
#define TD_CONFIG_CONFIG_H

#include "base/status.h"

typedef struct td_config_handler {
    char *target, *symbol;
} td_config_handler_t;
typedef struct td_config_library { /* of custom-call handlers */
    char *path;
    td_config_handler_t *handlers;
    uint32_t n_handlers; /* 0: the library tells its targets itself */
} td_config_library_t;

typedef struct td_config {
    char *socket;
    uint32_t socket_mode;
    char *store; /* never NULL after td_config_load */
    char *device;
    uint32_t threads;
    uint32_t queue_depth;
    uint64_t max_message_bytes;
    uint32_t max_concurrent_streams;
    uint32_t drain_timeout_ms;
    uint32_t contract_date;  /* yyyymmdd; 0: today, with everything that this build knows */
    uint32_t enforce_strict; /* 1: what is outside the window does not load */
    td_config_library_t *ffi_libraries;
    uint32_t n_ffi_libraries;
} td_config_t;

/* Defaults plus the file. Errors read "FILE:LINE: …". On failure nothing is held. */
td_status_t td_config_load(const char *path, td_config_t *out, td_err_t *err);
void td_config_free(td_config_t *c);

#endif
