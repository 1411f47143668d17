/* SPDX-License-Identifier: Apache-2.0 */
/* What the contract says about an artifact, with evidence: will it load, which release wrote it, when does it leave
 * the window, which former forms does it use, what does it need. Computed from the messages, without loading.
 *
 * A verdict owns its scan; strings are the scan's, the artifact's or constant, so it dies before the artifact.
 * Thread: one. */
#ifndef TD_CONTRACT_VERDICT_H
#define TD_CONTRACT_VERDICT_H

#include "contract/fallbacks.h"
#include "runtime/program.h"

typedef enum td_verdict_kind {
    TD_VERDICT_COMPATIBLE,
    TD_VERDICT_WITH_FALLBACK,       /* loads, through former forms that will go */
    TD_VERDICT_OUTSIDE_WINDOW,      /* written too long ago; loads where all its forms are still read */
    TD_VERDICT_NEEDS_NEWER_RUNTIME, /* holds something that the runtime (of that day) does not know */
    TD_VERDICT_NEEDS_CAPABILITY,    /* a handler of a custom call, more devices */
    TD_VERDICT_WRONG_TARGET,        /* compiled for another compute capability */
    TD_VERDICT_ENVIRONMENT_TOO_OLD, /* toolkit, cuDNN or CUB older than the recorded minimum */
    TD_VERDICT_UNSUPPORTED,         /* known to the contract, and this build cannot do it */
    TD_VERDICT_DAMAGED,
    TD_VERDICT_UNREADABLE,          /* the file could not be read at all, or memory ended */
    TD_VERDICT_COUNT
} td_verdict_kind_t;
const char *td_verdict_name(td_verdict_kind_t k); /* "compatible-with-fallback" */

/* What the artifact would run on. Fields that are not given are not compared. */
typedef struct td_contract_env {
    int major, minor;      /* compute capability; major 0: not given */
    char feature;          /* 'a', 'f' or 0 */
    const char *toolkit, *cudnn, *cub; /* "X.Y.Z" */
    uint32_t devices;      /* 0: not given */
} td_contract_env_t;

typedef struct td_contract_policy {
    int32_t day;    /* yyyymmdd, of the window */
    bool play;      /* be the runtime of that day: later constructs are unknown, fallbacks past their month are off */
    bool strict;    /* outside the window is refused */
    const td_contract_env_t *env; /* NULL: nothing is compared */
    td_device_t *device;          /* asked who handles the custom calls; NULL: nobody is */
} td_contract_policy_t;

typedef struct td_verdict_release {
    int at_least, at_most; /* release indices; -1: no evidence */
    const td_ledger_item_t *newest, *oldest; /* the newest construct, and the one that went first; NULL: none */
    const char *newest_place;
    const char *oldest_place; /* NULL: the evidence is that something is missing */
} td_verdict_release_t;

/* A construct that came after the day. */
typedef struct td_verdict_missing {
    const td_ledger_item_t *item;
    const char *place;
} td_verdict_missing_t;

typedef struct td_verdict_fallback {
    const td_fallback_t *row;
    const char *place;
    bool off; /* its month has passed on the day that is played */
} td_verdict_fallback_t;

enum { TD_WATCH_MAJOR, TD_WATCH_MINOR, TD_WATCH_FEATURE, TD_WATCH_TOOLKIT, TD_WATCH_CUDNN, TD_WATCH_CUB, TD_WATCH_NAME,
       TD_WATCH_DESCRIPTION, TD_WATCH_DRIVER, TD_WATCH_PLATFORM, TD_WATCH_REPLICAS, TD_WATCH_PARTITIONS,
       TD_WATCH_COUNT };

typedef struct td_verdict {
    td_verdict_kind_t kind;
    bool loads;
    td_status_t status; /* TD_OK when it loads */
    char reason[512];   /* "" when it loads inside the window */
    bool scanned;       /* what follows is filled in */
    td_scan_t scan;
    td_verdict_release_t release;
    int32_t day, built, leaves; /* built: of the release; leaves: the last day inside; 0: unknown */
    bool played;
    td_scan_watch_t watch[TD_WATCH_COUNT];
    char target[16];            /* "9.0a"; "" when the artifact names none */
    uint32_t devices;           /* that it runs on at the same time; at least 1 */
    td_verdict_missing_t *missing; /* the needed ones first */
    uint32_t n_missing, n_missing_needed;
    td_verdict_fallback_t *fallbacks;
    uint32_t n_fallbacks;
    uint64_t duplicate_bytes;   /* of payloads that occur more than once, beyond the first time */
    uint32_t n_duplicates;
} td_verdict_t;

/* module: NULL when td_module_open failed; then module_err says why. On failure (memory) *out is untouched. */
td_status_t td_verdict_make(const td_artifact_t *a, const td_module_t *module, const td_err_t *module_err,
                            const td_contract_policy_t *policy, const td_alloc_t *alloc, td_verdict_t *out,
                            td_err_t *err);
/* The verdict on what td_artifact_open refused. */
void td_verdict_unopened(const td_err_t *why, td_verdict_t *out);
void td_verdict_deinit(td_verdict_t *v);
/* TD_OK when it loads, else its status and "VERDICT: REASON". */
td_status_t td_verdict_enforce(const td_verdict_t *v, td_err_t *err);
/* "compatible-with-fallback: release 0.10.2 (built 2026-06-17), inside the window until 2026-12-17". Returns out. */
char *td_verdict_line(const td_verdict_t *v, char *out, size_t size);

/* estimate.c: the release from what the scan found and misses. */
void td_estimate_release(const td_artifact_t *a, const td_scan_t *s, td_verdict_release_t *out);
/* needs.c: names the runtime library that the thunks need, k-th of them; NULL at the end. */
const char *td_needed_library(const td_scan_t *s, uint32_t k);

#endif
