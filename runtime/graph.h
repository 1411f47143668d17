/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of a program that a device runs as graphs: captured once, then launched as a whole.
 *
 * A piece is a stretch of a sequence whose enqueuing asks nothing of the device and nothing of the run: no conditions
 * read back, no random seeds, no handlers of users. Asynchronous pairs are in it as a whole. Loops without a known trip
 * count and branches are decided here, between pieces; their bodies may be pieces of their own.
 *
 * A graph holds addresses. The binding's own never change; parameters that are states may bring others. A piece is
 * enqueued plainly when the addresses are not those of the run before, so that the first run, in which libraries and
 * the driver set themselves up, is plain; else it is captured, in place of what was captured for other addresses, and
 * launched. What cannot be captured stays plain for good, and the reason is told (td_binding_graphs). Runs with a
 * trace or a profile have no graphs. Thread: that of the binding. Planning and capturing allocate, launching does
 * not. */
#ifndef TD_RUNTIME_GRAPH_H
#define TD_RUNTIME_GRAPH_H

#include "runtime/program_in.h"

typedef struct td_piece {
    uint32_t n;          /* thunks of the sequence */
    bool refused;
    uint64_t generation; /* of the addresses that its graph has; 0: it has nothing yet */
    td_graph_t *graph;
} td_piece_t;

typedef struct td_graphs {
    const td_program_t *p;
    uint32_t *piece_of; /* by a thunk's number: piece that it begins, from 1; 0: none */
    td_piece_t *pieces;
    uint32_t n_pieces;
    void **addresses;    /* of the parameters in the latest run */
    uint64_t generation; /* of these addresses, from 1 */
    bool fresh;          /* they were others in the run before, or that failed */
    bool spoilt;         /* the latest run failed */
    td_graph_stats_t stats;
} td_graphs_t;

/* Host memory for so many thunks; the driver's own, of graphs, is not known. */
static inline uint64_t td_graphs_bytes(uint64_t n_thunks) {
    return sizeof(td_graphs_t) + n_thunks * (2 * sizeof(uint32_t) + sizeof(td_piece_t));
}
/* In the arena. *out NULL: the device has no graphs. */
td_status_t td_graphs_create(const td_program_t *p, td_arena_t *arena, td_graphs_t **out, td_err_t *err);
void td_graphs_destroy(td_graphs_t *g); /* the streams are synced; NULL is fine */
/* A run begins, with these addresses of the slots. */
void td_graphs_start(td_graphs_t *g, void *const *slots);
/* As td_thunk_run_seq, with r->graphs. */
td_status_t td_graphs_run_seq(td_run_t *r, const char *what, const td_seq_t *s);

/* where.c: "thunks[3] (while).body[1] (kernel) 'fusion.2'"; "" if it is none of the program's. */
void td_thunk_path(const td_program_t *p, const td_thunk_t *t, char *text, size_t size);

#endif
