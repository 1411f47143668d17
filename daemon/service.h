/* SPDX-License-Identifier: Apache-2.0 */
/* The methods: Open Inference Protocol and gRPC health. Thread: the loop's. */
#ifndef TD_DAEMON_SERVICE_H
#define TD_DAEMON_SERVICE_H

#include "daemon/memory.h"
#include "daemon/server.h"
#include "daemon/stats.h"
#include "daemon/ward.h"
#include "daemon/worker.h"
#include "runtime/ffi/registry.h"
#include "store/store.h"

#define TD_VERSION "0.1.0"

/* infer.c: requests that are not answered. */
typedef struct td_infer_queue {
    struct td_request *first, *last; /* the oldest, the newest */
    uint32_t n_waiting;              /* for the store */
    uint32_t n_full;                 /* for a free slot of their model */
} td_infer_queue_t;

typedef struct td_service {
    uv_loop_t *loop;
    td_store_t *store;
    td_worker_t *worker;
    td_inbox_t *inbox;   /* from threads of the store and of the worker */
    td_memory_t *memory; /* of requests and responses */
    td_stats_t *stats;
    td_device_t *device;
    td_ward_t ward; /* of the device */
    struct td_verifier *verifier; /* NULL: no request is checked */
    td_ffi_registry_t *ffi; /* NULL without libraries */
    int32_t contract_day;   /* yyyymmdd */
    bool metrics;           /* answer GET /metrics */
    int64_t started_s;      /* Unix time */
    uint64_t max_message_bytes;
    uint32_t queue_depth;
    const char *admin_socket; /* its path, for messages; NULL: none */
    uint32_t n_pending;       /* calls that are not answered at once: objects that live */
    td_infer_queue_t infer;
    bool draining;
} td_service_t;

void td_service_call(td_service_t *s, td_call_t *call);
/* Has the store looked at everything, and are we not stopping? */
bool td_service_ready(const td_service_t *s);
/* gRPC's code for work that has ended so. A device that has failed for good makes us end, and another process will
 * serve: UNAVAILABLE then. Thread: any. */
td_grpc_code_t td_service_failure_code(td_service_t *s, td_status_t status);
/* gRPC's code for a want that failed: a model that is there but cannot be had is UNAVAILABLE. */
td_grpc_code_t td_service_want_code(td_service_t *s, const char *model, const char *version, td_status_t status);

#endif
