/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/graph.h"

#include <stdio.h>

void td_graphs_destroy(td_graphs_t *g) {
    for (uint32_t i = 0; g && i < g->n_pieces; i++) g->p->dev->ops->graph_destroy(g->pieces[i].graph);
}

void td_binding_graphs(const td_binding_t *b, td_graph_stats_t *out) {
    *out = b->graphs ? b->graphs->stats : (td_graph_stats_t){0};
    if (!b->graphs)
        snprintf(out->reason, sizeof out->reason, b->p->dev->graphs ? "the program has no thunks"
                                                                    : "the device has no graphs, or they are off");
}

void td_graphs_start(td_graphs_t *g, void *const *slots) {
    const td_program_t *p = g->p;
    g->fresh = !g->generation || g->spoilt;
    for (uint32_t i = 0; i < p->n_inputs; i++) {
        if (p->input_slot[i] == UINT32_MAX) continue;
        void *at = slots[p->input_slot[i]];
        if (g->addresses[i] != at) g->fresh = true;
        g->addresses[i] = at;
    }
    g->generation += g->fresh;
}

/* It will never be tried again. */
static void refuse(td_graphs_t *g, td_piece_t *k, const td_thunk_t *first, const td_err_t *why) {
    char path[96];
    k->refused = true;
    k->generation = 0;
    g->stats.refused++;
    td_thunk_path(g->p, first, path, sizeof path);
    snprintf(g->stats.reason, sizeof g->stats.reason, "%s and %u more are no graph: %.231s", path, k->n - 1, why->text);
}

/* What goes wrong will show again, or not, when the piece is enqueued plainly. */
static void capture(td_run_t *r, td_graphs_t *g, td_piece_t *k, const char *what, const td_seq_t *s, uint32_t at) {
    const td_device_ops_t *ops = r->dev->ops;
    const _Atomic(int) *cancel = r->cancel;
    td_err_t why = {0}, *err = r->err;
    bool updated = false;
    td_status_t st = ops->graph_begin(k->graph, r->stream, &why);
    if (st) {
        refuse(g, k, &s->v[at], &why);
        return;
    }
    r->graphs = NULL;
    r->cancel = NULL;
    r->err = &why;
    for (uint32_t i = 0; i < k->n && !st; i++) st = td_thunk_run_one(r, what, s, at + i);
    r->graphs = g;
    r->cancel = cancel;
    r->err = err;
    td_status_t end = ops->graph_end(k->graph, r->stream, !st, &updated, st ? NULL : &why);
    if (st || end) {
        refuse(g, k, &s->v[at], &why);
        return;
    }
    k->generation = g->generation;
    g->stats.captures++;
    g->stats.updates += updated;
}

/* *done: the piece is on its way. */
static td_status_t launch(td_run_t *r, td_graphs_t *g, td_piece_t *k, const char *what, const td_seq_t *s, uint32_t at,
                          bool *done) {
    td_status_t st = TD_OK;
    *done = false;
    if (k->refused || g->fresh) return TD_OK;
    if (r->cancel && *r->cancel) return td_fail(r->err, TD_CANCELLED, "cancelled");
    if (k->generation != g->generation) capture(r, g, k, what, s, at);
    if (k->refused) return TD_OK;
    atomic_store_explicit(&r->lanes[r->lane].at, &s->v[at], memory_order_relaxed);
    if ((st = r->dev->ops->graph_launch(k->graph, r->stream, r->err)))
        return td_prefix(r->err, st, "%s[%u] to [%u]", what, at, at + k->n - 1);
    g->stats.launches++;
    *done = true;
    return TD_OK;
}

td_status_t td_graphs_run_seq(td_run_t *r, const char *what, const td_seq_t *s) {
    td_graphs_t *g = r->graphs;
    for (uint32_t i = 0; i < s->n;) {
        uint32_t number = g->piece_of[s->v[i].number];
        bool done = false;
        td_status_t st = number ? launch(r, g, &g->pieces[number - 1], what, s, i, &done) : TD_OK;
        if (!st && !done) st = td_thunk_run_one(r, what, s, i);
        if (st) return st;
        i += done ? g->pieces[number - 1].n : 1;
    }
    return TD_OK;
}
