/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA graphs: captured from streams, instantiated once, updated when addresses change. The capture is this thread's
 * alone: other threads go on allocating and loading meanwhile. */
#include "runtime/cuda/cuda.h"

struct td_graph {
    td_cuda_device_t *device;
    CUgraphExec exec; /* NULL: nothing captured yet, or lost */
};

bool td_cuda_graphs_ready(const td_cuda_device_t *d) {
    const td_cuda_t *c = &d->cu;
    return c->cuStreamBeginCapture_v2 && c->cuStreamEndCapture && c->cuGraphInstantiateWithFlags &&
           c->cuGraphExecUpdate_v2 && c->cuGraphLaunch && c->cuGraphExecDestroy && c->cuGraphDestroy;
}

td_status_t td_cuda_graph_create(td_device_t *dev, td_graph_t **out, td_err_t *err) {
    td_graph_t *g = dev->alloc->get(dev->alloc->ctx, sizeof *g, 16);
    if (!g) return td_fail(err, TD_NOMEM, "no memory for a graph");
    *g = (td_graph_t){.device = (td_cuda_device_t *)dev};
    *out = g;
    return TD_OK;
}

static void drop(td_graph_t *g) {
    if (g->exec) g->device->cu.cuGraphExecDestroy(g->exec);
    g->exec = NULL;
}

void td_cuda_graph_destroy(td_graph_t *g) {
    if (!g) return;
    (void)td_cuda_enter(g->device, NULL);
    drop(g);
    g->device->base.alloc->put(g->device->base.alloc->ctx, g, sizeof *g);
}

td_status_t td_cuda_graph_begin(td_graph_t *g, td_stream_t *s, td_err_t *err) {
    td_cuda_device_t *d = g->device;
    td_status_t st = td_cuda_enter(d, err);
    return st ? st : TD_CU(d, "graph", err, cuStreamBeginCapture_v2, ((td_cuda_stream_t *)s)->handle,
                           CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
}

/* In place if the driver can, else anew. */
static td_status_t instantiate(td_graph_t *g, CUgraph graph, bool *updated, td_err_t *err) {
    td_cuda_device_t *d = g->device;
    CUgraphExecUpdateResultInfo info = {0};
    *updated = g->exec && !d->cu.cuGraphExecUpdate_v2(g->exec, graph, &info);
    if (*updated) return TD_OK;
    drop(g);
    td_status_t st = TD_CU(d, "graph", err, cuGraphInstantiateWithFlags, &g->exec, graph, 0);
    if (st) g->exec = NULL;
    return st;
}

td_status_t td_cuda_graph_end(td_graph_t *g, td_stream_t *s, bool keep, bool *updated, td_err_t *err) {
    td_cuda_device_t *d = g->device;
    CUgraph graph = NULL;
    td_err_t dropped = {0};
    (void)td_cuda_enter(d, NULL); /* a poisoned device's streams end their capture, too */
    CUstream q = ((td_cuda_stream_t *)s)->handle;
    td_status_t st = TD_CU(d, "graph", keep ? err : &dropped, cuStreamEndCapture, q, &graph);
    if (!st && keep) st = instantiate(g, graph, updated, err);
    if (graph) d->cu.cuGraphDestroy(graph);
    return keep ? st : TD_OK;
}

td_status_t td_cuda_graph_launch(td_graph_t *g, td_stream_t *s, td_err_t *err) {
    td_cuda_device_t *d = g->device;
    td_status_t st = td_cuda_enter(d, err);
    if (!st && !g->exec) st = td_fail(err, TD_INTERNAL, "a graph that was never captured");
    return st ? st : TD_CU(d, "graph", err, cuGraphLaunch, g->exec, ((td_cuda_stream_t *)s)->handle);
}
