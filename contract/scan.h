/* SPDX-License-Identifier: Apache-2.0 */
/* What of the contract an artifact holds: every field and enum value in its messages, each with the place where it
 * was first met.
 *
 * The messages are walked through their descriptors; what our schema keeps as bytes (options, sharding, metadata) and
 * what it does not know is walked on the wire, as the ledger describes it. A place reads
 * "thunks[3].kernel_thunk.args_shape[0]"; places in the compile options begin with "compile_options".
 *
 * A construct is needed unless it stands in a field that a runtime may ignore without loss (ignorable.h).
 * Thread: one. The scan borrows from the artifact and dies before it. */
#ifndef TD_CONTRACT_SCAN_H
#define TD_CONTRACT_SCAN_H

#include <protobuf-c/protobuf-c.h>

#include "contract/ledger.h"
#include "proto/artifact.h"

typedef struct td_found {
    uint32_t count;     /* 0: absent */
    bool needed;        /* at least once */
    const char *path;   /* the first place, or the first one where it is needed */
} td_found_t;

/* Something that the ledger does not know. */
typedef struct td_scan_unknown {
    const td_ledger_type_t *type; /* NULL: the message is in our schema only */
    const char *type_name;        /* the message it stands in, or the enum that has no such value */
    int64_t number;
    bool is_value, needed;
    bool is_thunk_kind;           /* a thunk that holds nothing else */
    const char *path;
    uint32_t count;
} td_scan_unknown_t;

/* A scalar whose first value is wanted. */
typedef struct td_scan_watch {
    const char *field; /* "stream_executor.GpuDeviceInfoProto.name" */
    char text[96];     /* of a string or bytes field, cut */
    uint64_t number;   /* of the others */
    bool set;
} td_scan_watch_t;

typedef struct td_scan {
    td_arena_t arena;
    td_found_t *found; /* by ledger index */
    td_scan_unknown_t *unknown;
    uint32_t n_unknown;
    uint32_t n_unknown_left_out; /* more than TD_LIMIT_UNKNOWN_FIELDS */
    const char **handlers;       /* targets of custom-call thunks, each once */
    uint32_t n_handlers;
} td_scan_t;

/* watch: n fields of which the first value is filled in; may be NULL. On failure nothing is held. */
td_status_t td_scan_artifact(const td_artifact_t *a, td_scan_watch_t *watch, uint32_t n_watch, const td_alloc_t *alloc,
                             td_scan_t *out, td_err_t *err);
void td_scan_deinit(td_scan_t *s); /* fine on a zeroed one */

/* The finding for "xla.gpu.ThunkProto.kernel_thunk"; a static absent one for names that the ledger lacks. */
const td_found_t *td_scan_found(const td_scan_t *s, const char *full_name);

#endif
