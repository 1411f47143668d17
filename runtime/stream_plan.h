/* SPDX-License-Identifier: Apache-2.0 */
/* The streams of a program as they will be at run time, told from the module alone: which lane stands for which
 * logical streams, what runs on which lane in which order, and which events order lanes against each other.
 *
 * A lane is a stream of a binding; lane 0 is the main one. An async pair has two events: the body's stream waits for
 * what the starting stream has enqueued ("fork"), and the stream that stands at the done waits for the body's end.
 * Ownership: all of it lies in the arena given; strings live as long as the module. Thread: any, read only. */
#ifndef TD_RUNTIME_STREAM_PLAN_H
#define TD_RUNTIME_STREAM_PLAN_H

#include "runtime/program.h"

#define TD_NO_STEP UINT32_MAX

typedef struct td_plan_lane {
    td_stream_use_t use;
    int64_t id;         /* logical stream that it was made for; main: -1 */
    uint32_t n_steps;   /* thunks on it; nested ones count each, whatever a loop's trips */
    uint32_t n_bodies;  /* async bodies that run on it, of this or of folded logical streams */
} td_plan_lane_t;

typedef enum td_plan_what { TD_PLAN_WORK, TD_PLAN_START, TD_PLAN_DONE } td_plan_what_t;

typedef struct td_plan_step { /* a thunk; in the order in which the host enqueues them */
    const char *kind, *annotation;
    td_plan_what_t what;
    uint32_t depth;
    uint32_t lane;         /* on which it runs, or waits */
    uint32_t parent;       /* step whose sequence it stands in; TD_NO_STEP: none */
    uint32_t sequence;     /* which of the parent's, */
    char sequence_name[24]; /* "body", "branch 2"; "" without parent */
    bool begins;           /* the first of its sequence */
    bool skipped;          /* a repeat of the kernel before it on devices that compile instructions */
    uint32_t pair;         /* start, done */
} td_plan_step_t;

typedef struct td_plan_pair {
    uint64_t id; /* async execution id of the artifact */
    td_stream_use_t use;
    int64_t stream;        /* logical; -1: the artifact names none, so the body stays where it starts */
    uint32_t lane;         /* of the body */
    bool light;            /* stays on the starting stream, as it touches less than light_bytes */
    uint32_t start, done;  /* steps; done TD_NO_STEP: never waited for */
    uint32_t first, last;  /* steps of the body at its outermost level; TD_NO_STEP: empty */
} td_plan_pair_t;

typedef struct td_stream_plan {
    td_plan_lane_t *lanes;
    td_plan_step_t *steps;
    td_plan_pair_t *pairs;
    uint32_t n_lanes, n_steps, n_pairs;
    uint32_t n_events; /* of a binding: one for all forks, one for each body's end */
} td_stream_plan_t;

/* light_bytes: of the device (runtime/device.h); 0: every body runs on the stream that it names. lanes_most: so, too. */
td_status_t td_module_stream_plan(const td_module_t *m, uint64_t light_bytes, uint32_t lanes_most, td_arena_t *arena,
                                  const td_stream_plan_t **out, td_err_t *err);

#endif
