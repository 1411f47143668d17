/* SPDX-License-Identifier: Apache-2.0 */
/* Which stretches of a program are pieces. */
#include <stdio.h>

#include "base/checked.h"
#include "runtime/graph.h"

enum {
    LEAST_NODES = 3,         /* a graph costs about as much to launch as two kernels */
    MOST_NODES = 16384,      /* of one graph, loops unrolled: capturing them takes some ten ms */
    MOST_STEPS = 4 << 20,    /* of planning: programs of compilers need some ten for each thunk */
};

typedef struct plan {
    td_graphs_t *g;
    uint32_t *began; /* by pair: number of the stretch in which it starts */
    uint32_t stretch, open;
    uint64_t steps;
    const td_thunk_t *why; /* the first that is in no piece, */
    const char *cause;     /* and what speaks against it */
} plan_t;

static bool no(plan_t *p, const td_thunk_t *t, const char *cause) {
    if (!p->why) p->why = t, p->cause = cause;
    return false;
}

static bool fits(plan_t *p, const td_thunk_t *t, bool in_loop, uint64_t *nodes);

static bool all_fit(plan_t *p, const td_seq_t *s, bool in_loop, uint64_t *nodes) {
    for (uint32_t i = 0; i < s->n; i++)
        if (!fits(p, &s->v[i], in_loop, nodes)) return false;
    return true;
}

/* May the thunk be captured? nodes: what it adds to a graph, more or less. in_loop: in a loop that is run here, whose
 * counter a graph would keep as it was. Pairs that begin and end are noted. */
static bool fits(plan_t *p, const td_thunk_t *t, bool in_loop, uint64_t *nodes) {
    uint64_t inner = 0;
    if (++p->steps > MOST_STEPS) return no(p, t, "comes after more thunks than are looked at");
    if (t->skip) return true;
    if (t->kind->on_host) return no(p, t, "is decided by the host");
    if (t->kind->enqueue == td_async_start_enqueue) p->began[t->pair] = p->stretch, p->open++;
    if (t->kind->enqueue == td_async_done_enqueue) {
        if (p->began[t->pair] != p->stretch) return no(p, t, "waits for what begins outside a graph");
        p->open--;
        return true;
    }
    if (in_loop && (t->kind->enqueue == td_slice_fusion_enqueue || t->kind->enqueue == td_dynamic_memcpy_enqueue))
        return no(p, t, "moves with the counter of a loop that the host runs");
    if (t->kind->enqueue == td_while_enqueue) {
        if (!t->has_trip_count) return no(p, t, "asks the device whether it goes on");
        if (!all_fit(p, &t->seqs[1], in_loop, &inner)) return false;
        if (!td_mul_u64(inner, (uint64_t)t->trip_count, &inner) || inner > MOST_NODES)
            return no(p, t, "is too long to be unrolled");
    } else {
        for (uint32_t k = 0; k < t->n_seqs; k++)
            if (!all_fit(p, &t->seqs[k], in_loop, &inner)) return false;
        if (!t->n_seqs) inner = 1;
    }
    *nodes += inner;
    return *nodes <= MOST_NODES || no(p, t, "makes a graph too large");
}

/* The longest stretch from `from` on that fits and in which no pair is left open: its length. */
static uint32_t stretch(plan_t *p, const td_seq_t *s, uint32_t from, bool in_loop, uint64_t *nodes) {
    uint32_t length = 0;
    uint64_t n = 0;
    p->stretch++;
    p->open = 0;
    for (uint32_t i = from; i < s->n && fits(p, &s->v[i], in_loop, &n); i++)
        if (!p->open) length = i + 1 - from, *nodes = n;
    return length;
}

static void plan_seq(plan_t *p, const td_seq_t *s, bool in_loop) {
    td_graphs_t *g = p->g;
    for (uint32_t i = 0; i < s->n;) {
        uint64_t nodes = 0;
        uint32_t n = p->steps > MOST_STEPS ? 0 : stretch(p, s, i, in_loop, &nodes);
        const td_thunk_t *t = &s->v[i];
        if (n && nodes >= LEAST_NODES) {
            g->pieces[g->n_pieces].n = n;
            g->piece_of[t->number] = ++g->n_pieces;
        } else if (!n) {
            bool inner = in_loop || t->kind->enqueue == td_while_enqueue;
            for (uint32_t k = 0; k < t->n_seqs; k++) plan_seq(p, &t->seqs[k], inner);
        } else if (!p->why) {
            no(p, t, "is too little for a graph");
        }
        i += n ? n : 1;
    }
}

/* A piece has two thunks at least, or one that holds others, and none is in two: so there are fewer than thunks. */
td_status_t td_graphs_create(const td_program_t *prog, td_arena_t *arena, td_graphs_t **out, td_err_t *err) {
    *out = NULL;
    if (!prog->dev->graphs || !prog->n_thunks) return TD_OK;
    td_graphs_t *g = TD_NEW(arena, td_graphs_t);
    plan_t p = {.g = g, .began = TD_NEW_N(arena, uint32_t, prog->n_pairs)};
    if (!g || !p.began) return td_arena_fail(arena, err);
    g->p = prog;
    g->piece_of = TD_NEW_N(arena, uint32_t, prog->n_thunks);
    g->pieces = TD_NEW_N(arena, td_piece_t, prog->n_thunks);
    g->addresses = TD_NEW_N(arena, void *, prog->n_inputs);
    if (!g->piece_of || !g->pieces || !g->addresses) return td_arena_fail(arena, err);
    *out = g;
    plan_seq(&p, &prog->thunks, false);
    g->stats.graphs = g->n_pieces;
    if (p.why) {
        char path[160];
        td_thunk_path(prog, p.why, path, sizeof path);
        snprintf(g->stats.reason, sizeof g->stats.reason, "%s %s", path, p.cause);
    }
    td_status_t st = TD_OK;
    for (uint32_t i = 0; i < g->n_pieces && !st; i++)
        st = prog->dev->ops->graph_create(prog->dev, &g->pieces[i].graph, err);
    return st;
}
