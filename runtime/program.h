/* SPDX-License-Identifier: Apache-2.0 */
/* parse -> verify -> lower -> run.
 *
 * td_module_open turns an artifact's messages into arena structs and checks every
 * cross-reference; td_module_need (need.h) tells what running it will take;
 * td_program_create asks the device for kernels and yields an immutable program.
 * td_binding holds what one execution at a time needs: buffer addresses, temps,
 * outputs, scratch. Running allocates nothing. */
#ifndef TD_RUNTIME_PROGRAM_H
#define TD_RUNTIME_PROGRAM_H

#include "proto/artifact.h"
#include "runtime/constants.h"
#include "runtime/device.h"

typedef struct td_module td_module_t;     /* parsed and verified; owns its arena, needs the artifact alive */
typedef struct td_program td_program_t;   /* lowered; independent of artifact and module, not of the payload table */
typedef struct td_binding td_binding_t;   /* one concurrent execution */

typedef struct td_io {
    const char *name;        /* entry parameter's name, or "output_<i>" */
    const char *path;        /* parameters: what the framework calls it (JAX: its place in the arguments' tree, as
                              * "params['dense']['kernel']"); "" if the artifact does not say, and for outputs */
    const td_shape_t *shape; /* logical shape, with the artifact's layout */
} td_io_t;

/* Thread for all: one; the results are immutable (program) or single-owner (binding). */
td_status_t td_module_open(const td_artifact_t *a, const td_alloc_t *alloc, td_module_t **out, td_err_t *err);
void td_module_close(td_module_t *m);
/* Is there a custom call that needs a handler? */
bool td_module_has_calls(const td_module_t *m);
/* Every custom call has a handler on the device, a user's or the device's own; the first without is the error.
 * No stage of a user's handler is run. */
td_status_t td_module_check_calls(const td_module_t *m, td_device_t *dev, td_err_t *err);

/* All of them outlive the program and its bindings. */
typedef struct td_program_opts {
    td_device_t *dev;
    const td_alloc_t *alloc;    /* NULL: the heap */
    td_constants_t *constants;  /* of the device, with the artifact's payload table; NULL: one of the program's own */
    const td_charge_t *charge;  /* asked before the program, or a binding of it, takes memory of the device: blocks,
                                 * scratch, what td_program_bind makes. Shared constants are charged to their table.
                                 * TD_LIMIT when it refuses. NULL: no budget */
    const td_charge_t *constant_charge; /* asked for constants that are new to the table (td_constants_get); NULL: the
                                         * table's */
    const bool *states;         /* by parameter: it will always be a state (td_run_args_t), so bindings have no memory
                                 * for it. Read by td_program_create only. NULL: none */
    bool apart;                 /* no kernels are joined, so that each thunk is one of the module's, on any device */
} td_program_opts_t;
/* Keeps references on the payloads of the constants where the device's memory is the host's, so the payload table
 * outlives the program too. On other devices all payloads may go once it has been made. */
td_status_t td_program_create(const td_module_t *m, const td_program_opts_t *opts, td_program_t **out, td_err_t *err);
void td_program_destroy(td_program_t *p);
uint32_t td_program_input_count(const td_program_t *p);
uint32_t td_program_output_count(const td_program_t *p);
const td_io_t *td_program_input(const td_program_t *p, uint32_t i);
const td_io_t *td_program_output(const td_program_t *p, uint32_t i);
const char *td_program_name(const td_program_t *p);
/* Bytes: the program itself with what td_program_bind made; the constants it refers to and what td_program_bind
 * uploaded, which others may share (each use counted: two equal ones twice); one binding. */
uint64_t td_program_bytes(const td_program_t *p);
uint64_t td_program_constant_bytes(const td_program_t *p);
uint64_t td_program_binding_bytes(const td_program_t *p);
/* Of a binding's, what the device takes on the host for its streams, with an allocator of its own. */
uint64_t td_program_stream_bytes(const td_program_t *p);
/* What it shares with others through the table of constants, *out_n of them (one may occur twice); lives as long. */
const td_constant_t *td_program_constants(const td_program_t *p, uint32_t *out_n);

/* Before any binding, at most once: the inputs with fixed[i] set (none that is a state) will be these in every run.
 * Where the device's memory is the host's, theirs stays as it is while the program lives, and td_program_run still gets
 * their addresses; what depends on them alone is computed now and kept, and arguments that kernels want in a form of
 * their own are brought into it (adds to td_program_bytes).
 * On other devices they are uploaded now, through the table of constants: equal ones are there once, whichever program
 * they belong to. Their memory need not be aligned and may go after this; runs do not look at their addresses. They
 * add to td_program_constant_bytes, and bindings need no memory for those that the program does not write over.
 * After an error the program can only be destroyed. */
td_status_t td_program_bind(td_program_t *p, const void *const *inputs, const bool *fixed, td_err_t *err);

td_status_t td_binding_create(const td_program_t *p, const td_alloc_t *alloc, td_binding_t **out, td_err_t *err);
void td_binding_destroy(td_binding_t *b);

/* Time spent in one thunk, summed over the runs: the host's, while it enqueues. That is the work itself on streams
 * that run at once, as the host device's main stream does; on all others it is the launch alone. What thunks
 * inside it took (a loop's body) counts in their rows only. */
typedef struct td_profile_row {
    const char *kind, *name; /* thunk kind, instruction; live as long as the program */
    uint64_t calls, ns;
} td_profile_row_t;
/* Measures all runs from now on. Allocates. */
td_status_t td_binding_profile(td_binding_t *b, td_err_t *err);
/* A row for each thunk in the order of the program, *n of them; 0 without td_binding_profile. */
const td_profile_row_t *td_binding_profile_rows(const td_binding_t *b, uint32_t *n);

/* What was at work when, in the latest run: a row for each thunk, a loop's for each iteration, and for what brings
 * inputs and outputs. Times are the stream's; on one that waits for another, the wait is the time of the thunk that
 * waits. */
typedef struct td_trace_event {
    const char *kind, *name; /* live as long as the program */
    uint32_t lane, depth;    /* td_program_lane; thunks that it is nested in */
    uint64_t start_ns, ns;   /* since the run began; how long */
    uint64_t enqueue_ns;     /* that the host took to enqueue it */
} td_trace_event_t;
/* Traces all runs from now on, up to `most` rows each (TD_LIMIT_TRACE_EVENTS at most). Such runs allocate, and are
 * slower. TD_UNSUPPORTED: the device tells no times. */
td_status_t td_binding_trace(td_binding_t *b, uint32_t most, td_err_t *err);
/* In the order of enqueuing; *left_out: rows that there was no room for. 0 rows without td_binding_trace, and after a
 * run that failed. */
const td_trace_event_t *td_binding_trace_events(const td_binding_t *b, uint32_t *n, uint64_t *left_out);
/* The streams of the program's bindings; 0 is the main one. id: of the logical stream, -1 for the main one. */
uint32_t td_program_lane_count(const td_program_t *p);
td_stream_use_t td_program_lane(const td_program_t *p, uint32_t lane, int64_t *id);
const char *td_stream_use_name(td_stream_use_t use); /* "main", "compute", "communication", "memcpy" */

/* Graphs of the device (td_device_t.graphs) that a binding's runs are made of: runtime/graph.h. */
typedef struct td_graph_stats {
    uint32_t graphs;    /* parts of the program that are or may become graphs; all of it in one: 1, and no reason */
    uint32_t refused;   /* of them: could not be captured, and are enqueued thunk by thunk for good */
    uint64_t launches;  /* of graphs, since the binding is there */
    uint64_t captures, updates; /* updates: of captures, those that only brought new addresses */
    char reason[400];   /* why something is in no graph: of the latest refusal, or of the first such thunk; "" */
} td_graph_stats_t;
/* Thread: that of the binding, between its runs. */
void td_binding_graphs(const td_binding_t *b, td_graph_stats_t *out);

/* Where the run that is on stands, stream by stream, as text: "thunks[3] (while).body[1] (kernel) 'fusion.2'". False:
 * no run is on. What a GPU works on is not known, only what was enqueued last. Thread: any; the binding must live. */
bool td_binding_where(const td_binding_t *b, char *text, size_t size);

/* Bytes of a host-side tensor: row-major, dense, sub-byte elements one per byte. */
uint64_t td_io_host_bytes(const td_shape_t *s);
/* What the address of such a tensor must be a multiple of: an element, 8 at most. */
uint64_t td_io_align(const td_shape_t *s);

/* Runs once, synchronously. inputs[i]: host-side tensor of parameter i (td_io_host_bytes bytes, aligned as
 * td_io_align says, for it may be used in place); never written. outputs[i] receives the address of a
 * host-side tensor valid until the binding runs again or is destroyed. cancel (may be NULL): set non-zero from any
 * thread to stop between thunks (TD_CANCELLED). Allocates nothing. */
td_status_t td_program_run(td_binding_t *b, const void *const *inputs, const void **outputs,
                           const _Atomic(int) *cancel, td_err_t *err);

/* A parameter that is kept on the device from one run to the next: it reads from `memory`, and after the run `memory`
 * holds the output. Device memory of td_program_state_bytes, 256-byte aligned, of nothing else that the run is given;
 * it holds the array as stored, and may go from one binding of the program to another. */
typedef struct td_run_state {
    uint32_t input, output; /* td_program_state_check accepts them */
    void *memory;
} td_run_state_t;

typedef struct td_run_args {
    const void *const *inputs;    /* as td_program_run; not read for the states' inputs */
    const void **outputs;         /* as td_program_run; NULL for the states' outputs, which stay on the device */
    const td_run_state_t *states; /* each input at most once */
    uint32_t n_states;
    const _Atomic(int) *cancel; /* NULL is fine */
} td_run_args_t;

/* As td_program_run, with states. After an error (cancelled ones too) what the states hold is undefined: the program
 * may have changed them in part. */
td_status_t td_program_run_with(td_binding_t *b, const td_run_args_t *args, td_err_t *err);
/* Can the output be the input of the next run? Both exist, with one type, shape and layout (else TD_MISMATCH,
 * TD_NOTFOUND), and the input is not bound for good (TD_USAGE). */
td_status_t td_program_state_check(const td_program_t *p, uint32_t input, uint32_t output, td_err_t *err);
/* Does the program write the output over the input, so that keeping it costs nothing? Else it is copied. */
bool td_program_aliased(const td_program_t *p, uint32_t input, uint32_t output);
/* What the state's memory takes, 0 if there is no such input. */
uint64_t td_program_state_bytes(const td_program_t *p, uint32_t input);
/* Sets a state's memory: from a host-side tensor, as an input of td_program_run, or to zeros when it is NULL. Done
 * when it returns. Thread: that of the binding, between its runs. */
td_status_t td_state_reset(td_binding_t *b, uint32_t input, void *memory, const void *tensor, td_err_t *err);

#endif
