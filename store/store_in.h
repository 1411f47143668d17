/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the store.
 *
 * One lock (td_store.lock) guards the catalog: models, versions, sequences, wants, the queue of tasks, and every
 * field below that does not say otherwise. Nothing that takes long is done under it. Files are read, memory is
 * taken and residents are made and unmade by the load threads; the keeper's thread looks at directories and
 * clocks. A resident is immutable once it is in the catalog, but for its counts. */
#ifndef TD_STORE_STORE_IN_H
#define TD_STORE_STORE_IN_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/heap.h"
#include "runtime/program.h"
#include "store/store.h"
#include "store/weights.h"

#define TD_STORE_REASON 600

typedef struct td_version td_version_t;
typedef struct td_named td_named_t;
typedef struct td_reference td_reference_t;

/* ---- residents: resident.c, describe.c, bucket_axes.c, run.c ---- */

/* Dims that differ between the buckets and take their size from the request belong to an axis each. */
#define TD_AXES_MOST 32
#define TD_NO_AXIS UINT8_MAX

typedef struct td_graph_counts {
    uint64_t replays, captures, refused;
} td_graph_counts_t;

struct td_run_slot {
    td_resident_t *resident;
    struct td_bucket *bucket;
    td_binding_t *binding;
    const void **inputs;   /* by parameter; weights are set once */
    const void **outputs;  /* of the last run, by result */
    uint8_t **room;        /* by parameter: for normalised booleans and padded inputs; NULL if never needed */
    uint8_t **cut;         /* by visible output: room for a sliced answer, NULL if never needed */
    td_run_state_t *states;
    int64_t **dims;        /* by visible output: of the last run */
    td_run_tensor_t *answers; /* by visible output */
    uint64_t *answer_bytes;
    _Atomic(bool) busy;
    td_graph_counts_t graphs; /* of the binding, as its latest run left them */
    uint32_t runs;            /* 0, 1, 2: that or more */
    _Atomic(uint64_t) since_ns; /* when its run began; 0: none is on, or it has been told (td_store_slow_runs) */
};

/* One artifact of the model: all of it, or one size of it. */
typedef struct td_bucket {
    td_program_t *program;
    const bool *bound;     /* by parameter: a weight */
    const void **weights;  /* by parameter: its address, or NULL; all NULL where the device has copies */
    td_run_slot_t *slots;
    uint32_t n_slots;
    uint64_t size;         /* bytes of all inputs: what "smallest" means */
} td_bucket_t;

typedef struct td_held { /* a constant or a weight: a payload, or its copy on the device */
    const void *what; /* equal for equal ones */
    uint64_t bytes;
} td_held_t;

struct td_resident {
    td_model_info_t info;
    td_store_t *store;
    td_version_t *version; /* which stays while it has residents, dying ones too */
    td_hash_t stamp;       /* of the files it was made from */
    td_heap_t *heap;
    td_arena_t arena;
    td_account_t *programs, *bindings, *state;
    td_draw_t program_draw, binding_draw, payload_draw, constant_draw;
    td_weights_t *weights;
    td_bucket_t *buckets; /* by size, smallest first */
    uint32_t n_buckets;
    uint32_t *visible_inputs, *visible_outputs; /* parameter and result of each */
    uint32_t *state_inputs, *state_outputs;
    uint64_t *state_bytes;
    uint8_t **input_axes, **output_axes; /* by visible tensor, by dim: an axis, or TD_NO_AXIS */
    uint32_t n_axes;
    uint8_t (*pads)[16];              /* by visible input: the element that fills up */
    td_held_t *held;                  /* what it shares with others */
    uint32_t n_held;
    uint32_t held_domain;             /* of the budget */
    bool linked;
    uint64_t sequence_idle_ns;
    uint32_t sequence_max;
    _Atomic(bool) graphs_told;        /* TD_EVENT_GRAPHS has been */
    /* the store's lock */
    uint32_t refs;      /* the catalog's, one of each lease and of each sequence */
    uint32_t leases, sequences;
    uint64_t used_ns;   /* when it was last leased or given back */
    td_resident_t *next_dead, *prev_live, *next_live;
};

/* What making one needs to know; taken from the catalog under the lock. */
typedef struct td_load_order {
    const char *model, *version, *dir, *model_dir;
    td_hash_t stamp;
    const struct td_files *files; /* overrides; NULL: the folder's */
    bool may_evict;
    uint32_t priority;
    _Atomic(uint64_t) *done;
    _Atomic(uint64_t) *total;
    const _Atomic(int) *cancel;
} td_load_order_t;
td_status_t td_resident_create(td_store_t *s, const td_load_order_t *o, td_resident_t **out, td_err_t *err);
void td_resident_destroy(td_resident_t *r); /* no lock held; NULL is fine */

/* Is it called so: by index, name or tree path? */
bool td_io_is(const td_io_t *io, uint32_t index, const char *word);
/* describe.c: names and dims of programs that are there. Fills info and the arrays above. */
td_status_t td_resident_describe(td_resident_t *r, const td_model_yaml_t *c, td_err_t *err);
/* n slots for each bucket. */
td_status_t td_resident_make_slots(td_resident_t *r, uint32_t n, td_err_t *err);
/* The smallest bucket that takes these inputs; sizes: of the axes, TD_AXES_MOST of them. */
td_status_t td_bucket_pick(const td_resident_t *r, const td_run_tensor_t *inputs, int64_t *sizes, td_bucket_t **out,
                           td_err_t *err);
/* bucket_axes.c, once the visible tensors are known. */
td_status_t td_resident_find_axes(td_resident_t *r, const td_model_yaml_t *c, td_err_t *err);
/* dst of dims `to` gets src of dims `from` in its corner; the rest is the byte pattern of one element at fill, or
 * left as it is (NULL). Either may be the larger one, dim by dim. */
void td_corner_copy(void *dst, const int64_t *to, const void *src, const int64_t *from, uint32_t rank, uint64_t elem,
                    const void *fill);

/* ---- files: files.c ---- */

typedef struct td_file {
    char *name; /* "1/model.aot" */
    int fd;     /* memory */
    uint64_t bytes;
    struct td_file *next;
} td_file_t;
typedef struct td_files { /* reference counted */
    const td_alloc_t *alloc;
    td_account_t *account;
    td_file_t *first;
    _Atomic(uint32_t) refs;
} td_files_t;
td_status_t td_files_create(td_store_t *s, const td_override_t *v, uint32_t n, td_files_t **out, td_err_t *err);
td_files_t *td_files_retain(td_files_t *f);
void td_files_release(td_files_t *f);

/* The artifacts of a version's folder. names: without the folder, sorted; files NULL: the folder's. */
td_status_t td_artifact_names(const char *dir, const char *version, const td_files_t *files, td_arena_t *a,
                              const char ***out, uint32_t *out_n, td_err_t *err);
/* Where that file can be opened. NULL: memory is gone. */
const char *td_file_path(const char *dir, const char *version, const td_files_t *files, const char *name,
                         td_arena_t *a);

/* ---- the catalog: catalog.c ---- */

typedef struct td_task {
    td_version_t *version;
    struct td_task *next;
    uint32_t priority;
    uint64_t order;
    bool running, may_evict;
    bool again; /* it was cancelled while it ran, and has been asked for since */
    bool commanded; /* some command asked for it; else a request or the store itself */
    uint64_t deadline_ns; /* of the commands that asked for it, the last; 0: none */
    _Atomic(int) cancel;
} td_task_t;

struct td_version {
    td_named_t *model;
    const char *name; /* decimal digits */
    char *dir;
    td_model_state_t state;
    bool on_disk, wanted, stopped, evicted, failed, pinned, asked; /* asked: a command or request wants it loaded */
    td_hash_t stamp, tried; /* of the files: as last seen, and of the last load */
    td_files_t *files;
    td_status_t code; /* of the failure */
    char reason[TD_STORE_REASON], verdict[TD_STORE_REASON], trouble[200]; /* trouble: of the folder itself */
    td_resident_t *resident;
    td_task_t task; /* queued or running while has_task */
    bool has_task;
    td_want_t *wants;
    uint32_t dying; /* residents of it that wait for their last lease or for their end */
    uint64_t loads, evictions;
    _Atomic(uint64_t) done, total;
    _Atomic(uint64_t) graph_replays, graph_captures, graph_refused; /* by runs, which keep the version alive */
};

struct td_named { /* a model */
    const char *name;
    char *dir;
    td_version_t **versions; /* from low to high */
    uint32_t n, cap;
    td_hash_t stamp;      /* of its own model.yaml */
    td_arena_t arena;     /* of config */
    td_model_yaml_t config;
    char trouble[TD_STORE_REASON]; /* its folder or config could not be read; "" */
    bool on_disk;
    td_sequence_t *sequences;
};

struct td_sequence {
    td_resident_t *resident; /* one reference */
    td_named_t *model;
    uint64_t hash;
    char name[64];
    void **memory; /* by state; NULL before its first run */
    uint32_t n_memory;
    bool busy, ends, fresh, spoiled, ran; /* ran: since it was handed over */
    uint64_t used_ns;
    td_want_t *wants; /* first come, first served */
    td_sequence_t *next;
};

typedef struct td_pending { /* a command's share in a version */
    td_command_t *command;
    td_version_t *version;
    bool unload; /* done when the version has no resident, else when it has no task */
    bool overtaken; /* an unload: a load has begun since; done when what it told to go has gone */
    struct td_pending *next;
} td_pending_t;

struct td_store {
    td_store_opts_t opts;
    td_budget_t *budget;
    td_account_t *payload_account, *constant_account, *loading_account, *file_account;
    td_reservation_t survey_memory; /* stands as long as the store: a full budget must not keep it from finding out */
    td_draw_t survey_draw;          /* what a load would need, and making room */
    td_payload_table_t *payloads;
    td_constants_t *constants;
    const td_clock_t *clock;
    pthread_mutex_t lock;
    pthread_mutex_t admission; /* one plan at a time; taken before lock */
    pthread_cond_t work;  /* for load threads */
    pthread_cond_t quiet; /* for td_store_settle */
    td_named_t **models;  /* by name */
    uint32_t n_models, cap_models;
    td_task_t *queue;     /* by priority, then by order */
    td_resident_t *dead;  /* to be destroyed */
    td_resident_t *live;  /* all there are */
    td_pending_t *pending;
    uint64_t order;
    uint32_t running, n_threads, cap_threads;
    pthread_t *threads, keeper;
    int wake_fd, watch_fd; /* eventfd, inotify; -1 */
    int last_watch;
    bool closing, scan_wanted, scanning, looked, has_keeper; /* looked: at least once */
    td_command_t *commands; /* not begun */
    pthread_mutex_t reference_lock; /* over the next; taken alone, or after admission */
    td_reference_t *reference;      /* reference.c; NULL: none */
    pthread_cond_t reference_free;
    _Atomic(bool) started;
    td_store_stats_t stats;
};

/* The domain of the device's memory. */
static inline uint32_t td_store_device_domain(const td_store_t *s) { return s->opts.device->host_memory ? 0 : 1; }

static inline uint64_t td_store_now(const td_store_t *s) { return td_now_ns(s->clock); }

/* All with the lock held. */
td_named_t *td_catalog_find(td_store_t *s, const char *name);
td_status_t td_catalog_add(td_store_t *s, const char *name, td_named_t **out, td_err_t *err);
td_version_t *td_named_find(td_named_t *m, const char *version);
td_status_t td_named_add(td_store_t *s, td_named_t *m, const char *version, td_version_t **out, td_err_t *err);
/* The version that a request means: number, label, or the default. NULL: none. */
td_version_t *td_named_resolve(td_named_t *m, const char *version);
/* Starts and stops what the model's rules want; after every change. */
void td_named_plan(td_store_t *s, td_named_t *m);
/* Drops what is neither on disk nor loaded. */
void td_catalog_tidy(td_store_t *s);
void td_catalog_free(td_store_t *s);
/* May a request, or a command that asked for it, have it loaded? */
bool td_version_loadable(const td_version_t *v);
bool td_version_pinned(const td_version_t *v);

/* ---- tasks: load.c ---- */
td_status_t td_load_start_threads(td_store_t *s, td_err_t *err);
/* Queues a load of v, or raises the one that is queued. Lock held. */
void td_load_queue(td_store_t *s, td_version_t *v, bool may_evict, bool commanded);
void td_load_unqueue(td_store_t *s, td_version_t *v); /* one that does not run yet */
void td_version_set_state(td_version_t *v); /* from what it has; lock held */
/* The catalog gives its resident up. Lock held. */
void td_version_retire(td_store_t *s, td_version_t *v);
void td_resident_unref(td_resident_t *r); /* lock held */
/* Work may have ended: answers commands, wakes td_store_settle. Takes the lock. */
void td_store_quiet(td_store_t *s);
void td_store_event(td_store_t *s, td_store_event_kind_t kind, const char *model, const char *version,
                    const char *text, uint64_t bytes, uint64_t ns);

/* evict.c: makes room for need[] and reserves it. No lock held. */
td_status_t td_admit(td_store_t *s, const td_load_order_t *o, const uint64_t need[TD_BUDGET_DOMAINS],
                     td_reservation_t *out, td_err_t *err);

/* reference.c: what a check holds goes, so that loads have its memory. False: there was none, or not in time. No lock
 * held but admission. */
bool td_reference_give_way(td_store_t *s);

/* keeper.c, scan.c */
td_status_t td_keeper_start(td_store_t *s, td_err_t *err);
void td_keeper_stop(td_store_t *s);
void td_keeper_wake(td_store_t *s);
td_status_t td_store_scan(td_store_t *s, td_err_t *err);
bool td_version_name_ok(const char *s);
int td_version_order(const char *a, const char *b); /* as numbers of any length */

/* sequence.c. Lock held. A want that goes on with a sequence gets its lease here (*found). */
td_status_t td_sequence_want(td_store_t *s, td_named_t *m, td_want_t *w, bool *found, bool *out_waiting, td_err_t *err);
/* A lease that has come begins its sequence. */
td_status_t td_sequence_join(td_store_t *s, td_want_t *w, bool *out_waiting, td_err_t *err);
td_want_t *td_sequence_release(td_store_t *s, td_sequence_t *q);
void td_sequence_expire(td_store_t *s, uint64_t now, uint64_t *next);
void td_sequence_drop_all(td_store_t *s);
/* Memory for the first run, and its initial values; the lease's owner. No lock held. */
td_status_t td_sequence_prepare(td_sequence_t *q, td_binding_t *b, const td_run_tensor_t *initial, td_err_t *err);

/* want.c */
void td_want_answer(td_store_t *s, td_want_t *list, td_status_t st, const td_err_t *err); /* no lock held */
void td_want_lease(td_store_t *s, td_want_t *w, td_resident_t *r); /* lock held */
/* command.c, lock held: moves the commands that are through into *out. */
void td_command_collect(td_store_t *s, td_command_t **out);
/* Begins those that wait. */
void td_command_run_all(td_store_t *s, td_command_t **out_done);
void td_command_done(td_command_t *list); /* no lock held */
void td_command_failed(td_store_t *s, td_version_t *v, td_status_t st, const td_err_t *err);

#endif
