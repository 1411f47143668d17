/* SPDX-License-Identifier: Apache-2.0 */
/* A module's parts for display. Strings live as long as the module. Thread: any, read only. */
#ifndef TD_RUNTIME_INSPECT_H
#define TD_RUNTIME_INSPECT_H

#include "runtime/program.h"

typedef struct td_module_summary {
    const char *name;
    uint32_t n_allocations, n_constants, n_inputs, n_outputs, n_thunks; /* thunks: nested ones included */
    uint32_t n_computations;
    uint64_t allocation_bytes;
    int64_t replica_count, num_partitions;
    bool scheduled; /* the artifact holds no thunks: they were made from the scheduled module */
    int compute_major, compute_minor; /* 0 when the artifact names none */
} td_module_summary_t;

typedef struct td_allocation_view {
    uint32_t index;
    uint64_t size;
    const char *kind; /* "parameter", "constant", "output", "thread-local", "temp" */
} td_allocation_view_t;

typedef struct td_thunk_view {
    uint32_t depth;
    const char *kind, *annotation;
    const char *slices; /* "0:[0,64) 1:[0,64)w"; valid during the callback */
    int64_t stream;     /* -1: the main one */
} td_thunk_view_t;

void td_module_summarize(const td_module_t *m, td_module_summary_t *out);
void td_module_each_allocation(const td_module_t *m, void (*f)(void *ctx, const td_allocation_view_t *v), void *ctx);
void td_module_each_thunk(const td_module_t *m, void (*f)(void *ctx, const td_thunk_view_t *v), void *ctx);

#endif
