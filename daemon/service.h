/* SPDX-License-Identifier: Apache-2.0 */
/* The methods: Open Inference Protocol and gRPC health. Thread: the loop's. */
#ifndef TD_DAEMON_SERVICE_H
#define TD_DAEMON_SERVICE_H

#include "daemon/server.h"
#include "daemon/stats.h"
#include "daemon/worker.h"
#include "runtime/ffi/registry.h"
#include "store/store.h"

#define TD_VERSION "0.1.0"

typedef struct td_service {
    uv_loop_t *loop;
    td_store_t *store;
    td_worker_t *worker;
    td_stats_t *stats;
    td_device_t *device;
    td_ffi_registry_t *ffi; /* NULL without libraries */
    int32_t contract_day;   /* yyyymmdd */
    bool metrics;           /* answer GET /metrics */
    int64_t started_s;      /* Unix time */
    uint64_t max_message_bytes;
    bool draining;
} td_service_t;

void td_service_call(td_service_t *s, td_call_t *call);

#endif
