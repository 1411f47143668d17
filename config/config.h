/* SPDX-License-Identifier: Apache-2.0 */
/* thunkd's configuration: one YAML mapping, of scalars but for `store`, which may be a folder or a map, and
 * ffi_libraries. Thread: one. */
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

typedef enum td_config_load_when {
    TD_CONFIG_LOAD_STARTUP = 0,
    TD_CONFIG_LOAD_ON_DEMAND,
    TD_CONFIG_LOAD_EXPLICIT
} td_config_load_when_t;

/* Texts are never NULL after td_config_load. */
typedef struct td_config {
    char *socket;
    uint32_t socket_mode;
    char *admin_socket; /* "": none */
    uint32_t admin_socket_mode;
    char *store; /* store.path, or just store */
    char *store_budget_host, *store_budget_device, *store_budget_requests; /* as base/size.h reads them, checked */
    uint32_t load_threads;
    uint32_t rescan_ms; /* 0: never */
    uint32_t store_load; /* td_config_load_when_t: of models that do not say it themselves */
    uint32_t metrics;   /* 1: served */
    char *device;
    uint32_t cuda_graphs_off; /* 1: runs are not captured in CUDA graphs */
    uint32_t threads;
    uint32_t queue_depth;
    uint64_t max_message_bytes;
    uint32_t max_concurrent_streams;
    uint32_t slow_run_ms; /* 0: never told */
    double verify_sample; /* share of the requests that is checked, 0 to 1 */
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
