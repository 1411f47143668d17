/* SPDX-License-Identifier: Apache-2.0 */
/* The residents: models of a directory, loaded within a budget, kept ready to run, and swapped while serving.
 *
 *   <dir>/<model>/model.yaml                     optional: store/model_yaml.h
 *   <dir>/<model>/<version>/<target>.aot          the artifact: model.aot, or one for each target
 *   <dir>/<model>/<version>/weights.safetensors   optional: store/weights.h
 *   <dir>/<model>/<version>/model.yaml            optional
 *
 * A version appears when its folder is renamed into place; names that end in ".partial" or begin with "." are
 * not looked at. What fails to load is kept as UNAVAILABLE with its reason and stops nothing else.
 *
 *   want -> lease -> run -> slot -> release
 *
 * A want asks for a model by name and version, number or label; it is answered at once when the model is ready,
 * else when a load that it may cause has ended. A lease keeps the loaded model ("resident") as it is: a newer one
 * may take its place meanwhile, but it goes only when its last lease has.
 *
 * Loads, unloads and looking at files are the store's own threads' work. Nothing here blocks, but for
 * td_store_open, _settle, _close and td_lease_run. Thread: any, unless said otherwise. */
#ifndef TD_STORE_STORE_H
#define TD_STORE_STORE_H

#include "base/clock.h"
#include "contract/verdict.h"
#include "store/budget.h"
#include "store/model_yaml.h"

typedef struct td_store td_store_t;
typedef struct td_resident td_resident_t;
typedef struct td_run_slot td_run_slot_t; /* one execution's buffers, with the outputs of its last run */

typedef enum td_model_state {
    TD_MODEL_UNAVAILABLE = 0, TD_MODEL_LOADING, TD_MODEL_READY, TD_MODEL_UNLOADING
} td_model_state_t;
const char *td_model_state_name(td_model_state_t s); /* "UNAVAILABLE" … */

typedef enum td_store_event_kind {
    TD_EVENT_LOADING, TD_EVENT_READY, TD_EVENT_FAILED, TD_EVENT_UNLOADED, TD_EVENT_EVICTED, TD_EVENT_STORE,
    TD_EVENT_STARTED, /* the first pass has ended */
    TD_EVENT_GRAPHS   /* once for each load, from the thread of a run: why not all of it is in graphs of the device */
} td_store_event_kind_t;
typedef struct td_store_event {
    td_store_event_kind_t kind;
    const char *model, *version; /* "" for TD_EVENT_STORE: something about the directory itself */
    const char *text;            /* the reason, the verdict, for what it was evicted; or "" */
    uint64_t bytes;              /* of the model */
    uint64_t ns;                 /* that the load took */
} td_store_event_t;

typedef struct td_store_opts {
    const char *dir;
    td_device_t *device;     /* must outlive the store */
    const td_alloc_t *alloc; /* NULL = the heap */
    const td_clock_t *clock; /* NULL = the system's */
    uint32_t concurrency;    /* executions at the same time; 0 = 1 */
    const char *target;      /* name of the artifacts to prefer, without ".aot"; NULL: what fits the device best */
    td_contract_policy_t contract; /* day 0: no verdicts. Its device is not used */
    uint64_t host_bytes, device_bytes; /* the budget; 0 = no limit. device_bytes counts only where devices have
                                          memory of their own */
    uint32_t load_threads;   /* 0 = 1 */
    uint32_t rescan_ms;      /* 0: only directory events and td_store_rescan */
    bool watch;              /* directory events */
    td_load_mode_t load;     /* for models that do not say */
    /* From the store's threads and those of runs, without locks held; the event lives during the call. NULL is fine. */
    void (*on_event)(void *ctx, const td_store_event_t *e);
    void *ctx;
} td_store_opts_t;

/* Looks at the directory and starts loading. Fails only when the directory cannot be read or memory is gone. */
td_status_t td_store_open(const td_store_opts_t *opts, td_store_t **out, td_err_t *err);
/* Blocks until nothing is left to look at or to load. */
void td_store_settle(td_store_t *s);
/* Has the first pass over the directory ended? */
bool td_store_started(const td_store_t *s);
/* Cancels loads, answers wants and commands (TD_CANCELLED), unloads. All leases must have been released. */
void td_store_close(td_store_t *s); /* NULL is fine */
/* Looks at the directory again, soon. */
void td_store_rescan(td_store_t *s);
td_budget_t *td_store_budget(td_store_t *s);

/* ---- what a model is ---- */

/* One tensor of a request or a response. Everything lives as long as the resident. */
typedef struct td_tensor_info {
    const char *name;
    const char *datatype; /* Open Inference Protocol: "FP32", "BF16", "INT64", "BOOL"…; 4-bit integers are INT8 and
                             UINT8; types the protocol lacks keep the safetensors name: "F8_E4M3", "C64" */
    td_type_t type;
    uint32_t rank;
    const int64_t *dims; /* -1: differs between the model's shape buckets */
    const int64_t *max_dims; /* of the largest bucket */
    uint64_t bytes;      /* host-side: row-major, dense, one element per byte at least; of the largest bucket */
} td_tensor_info_t;

/* Parameters bound to weights, and state, are not among inputs and outputs. */
typedef struct td_model_info {
    const char *name, *version, *artifact; /* file name, or names with commas */
    const char *verdict; /* the contract's, in a line, unless that is a plain "compatible" or there is none: "" */
    const td_tensor_info_t *inputs, *outputs, *states; /* states: of their inputs */
    uint32_t n_inputs, n_outputs, n_states, n_buckets;
    uint64_t bytes; /* charged to it: program, bindings, weights and payloads that came with it */
    int32_t leave_day; /* as in td_model_row_t */
} td_model_info_t;
const td_model_info_t *td_resident_info(const td_resident_t *r);

/* The protocol's name of an element type; "" for what no tensor can have. */
const char *td_datatype_name(td_type_t t);

/* ---- using one ---- */

typedef struct td_sequence td_sequence_t;
typedef struct td_lease { /* all zero: none */
    td_resident_t *resident;
    td_sequence_t *sequence; /* held by this lease alone; NULL without one */
} td_lease_t;

typedef struct td_want td_want_t;
struct td_want {
    /* Set by the caller. Texts are needed during the call of td_store_want only. */
    const char *model, *version;  /* version: number, label, or NULL or "": the default */
    const char *sequence;         /* NULL or "": none; else its id. Only for models with state */
    bool sequence_start, sequence_end;
    /* Called once if td_store_want said that it waits, unless td_store_unwant was in time; from a thread of the
     * store or of a release. On TD_OK the lease is there. */
    void (*done)(td_want_t *w, td_status_t s, const td_err_t *err);
    void *user;
    /* The store's. */
    td_lease_t lease;
    td_want_t *next;
    void *waits_for; /* model or sequence */
    uint64_t sequence_hash;
    char sequence_name[64];
};
/* TD_OK and !*out_waiting: w->lease is there. TD_OK and *out_waiting: done will tell. Else: TD_NOTFOUND (no such
 * model or version, or it is unavailable: the text has its reason), TD_LIMIT (the budget), TD_USAGE (sequences).
 * A READY model is answered without a wait and without allocation, unless its sequence is executing. */
td_status_t td_store_want(td_store_t *s, td_want_t *w, bool *out_waiting, td_err_t *err);
/* Stops waiting. True: done will not be called. False: it has been, or is just being called. */
bool td_store_unwant(td_store_t *s, td_want_t *w);
/* A sequence whose last request this was ends with it. Resets the lease. */
void td_lease_release(td_lease_t *l);
/* A sequence's state is undefined after a failed run: it ends with the lease. */
void td_lease_spoil(td_lease_t *l);

typedef struct td_run_tensor {
    const void *data;    /* host-side; aligned as td_io_align says */
    const int64_t *dims; /* NULL: the only ones */
} td_run_tensor_t;
typedef struct td_run_request {
    const td_run_tensor_t *inputs; /* n_inputs of the model's info; only read */
    const td_run_tensor_t *states; /* NULL, or n_states: initial values at the start of a sequence, data NULL: zeros */
    const _Atomic(int) *cancel;    /* as td_program_run */
} td_run_request_t;
/* Picks the smallest bucket that the inputs fit in, takes a free slot of it and runs there, synchronously.
 * TD_BUSY: no slot is free. TD_MISMATCH: no bucket fits. On success the caller owns *out until
 * td_run_slot_release, which comes before the lease's; on failure nothing is held. Allocates nothing. */
td_status_t td_lease_run(td_lease_t *l, const td_run_request_t *r, td_run_slot_t **out, td_err_t *err);
/* Output i: dims as the request's size makes them. Valid until the release. */
td_run_tensor_t td_run_slot_output(const td_run_slot_t *s, uint32_t i, uint64_t *out_bytes);
void td_run_slot_release(td_run_slot_t *s); /* NULL is fine */

/* Runs that are on for `ns` nanoseconds or longer and have not been told before: since when, and where they stand
 * (td_binding_where). With the store's lock held, so f calls nothing of the store. */
typedef void td_slow_run_fn(void *ctx, const char *model, const char *version, uint64_t ns, const char *where);
void td_store_slow_runs(td_store_t *s, uint64_t ns, td_slow_run_fn *f, void *ctx);

/* ---- telling it what to do ---- */

typedef enum td_command_kind { TD_COMMAND_LOAD, TD_COMMAND_UNLOAD, TD_COMMAND_RELOAD } td_command_kind_t;
typedef struct td_override { /* a file instead of the folder's: "1/model.aot" */
    const char *path;
    const void *data;
    uint64_t bytes;
} td_override_t;

typedef struct td_command td_command_t;
struct td_command {
    /* Set by the caller; needed during the call of td_store_command only. */
    td_command_kind_t kind;
    const char *model, *version; /* version NULL or "": what the model's rule for versions says; UNLOAD: all */
    const td_override_t *files;  /* LOAD: these versions are loaded from them, and from nothing else */
    uint32_t n_files;
    uint64_t deadline_ns; /* td_clock; then loads it caused are cancelled; 0: none */
    /* Called once, from a thread of the store: every version concerned has been loaded or unloaded. The first
     * failure is told. */
    void (*done)(td_command_t *c, td_status_t s, const td_err_t *err);
    void *user;
    /* The store's. */
    td_command_t *next;
    char model_name[256], version_name[40];
    struct td_files *kept;
    uint32_t pending;
    td_status_t status;
    td_err_t err;
};
/* Errors are told here (then done is not called): bad names, bad overrides, no memory for these. All others come
 * with done: no such model, what a load says. */
td_status_t td_store_command(td_store_t *s, td_command_t *c, td_err_t *err);
/* Cancels loads that only this command wants. True: done will not be called. */
bool td_store_cancel(td_store_t *s, td_command_t *c);
/* version NULL or "": all. Until the next start; model.yaml's `pin` is for good. */
td_status_t td_store_pin(td_store_t *s, const char *model, const char *version, bool pinned, td_err_t *err);

/* ---- looking at it ---- */

typedef struct td_model_row {
    const char *name, *version;
    td_model_state_t state;
    const char *reason;   /* "" when READY, unless a newer content of it failed to load */
    const char *verdict, *artifact, *labels; /* labels: with commas */
    bool is_default, pinned, on_disk;
    td_load_mode_t load;
    uint32_t priority, leases, sequences;
    uint64_t bytes;       /* charged to it */
    uint64_t done, total; /* LOADING: bytes of its files */
    uint64_t loads, evictions, idle_ms;
    uint64_t graph_replays, graph_captures, graph_refused; /* of its runs (td_binding_graphs), over all loads */
    int32_t leave_day; /* the last day on which its artifact is inside the window, yyyymmdd; 0: unknown */
} td_model_row_t;
/* Sorted by name, then by version from low to high; copied into the arena. */
td_status_t td_store_list(td_store_t *s, td_arena_t *arena, td_model_row_t **out, uint32_t *out_n, td_err_t *err);

typedef struct td_store_stats {
    uint64_t loads, failed_loads, unloads, evictions, refusals, rescans, load_ns, queued;
    uint64_t payloads, payload_bytes, payload_refs;
} td_store_stats_t;
td_store_stats_t td_store_stats(td_store_t *s);

#endif
