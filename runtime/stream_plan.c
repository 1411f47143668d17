/* SPDX-License-Identifier: Apache-2.0 */
/* The same walk as lowering (program.c): thunks in order, lanes handed out at first use. */
#include "runtime/stream_plan.h"

#include "runtime/program_in.h"

typedef struct walk {
    td_stream_plan_t *plan;
    td_device_t rules; /* light_bytes and lanes_most of the device that is asked about; nothing else is looked at */
    td_lane_plan_t lanes[TD_LIMIT_LANES];
    uint32_t n_lanes;
} walk_t;

static void count(const td_seq_t *s, uint32_t *steps, uint32_t *pairs) {
    *steps += s->n;
    for (uint32_t i = 0; i < s->n; i++) {
        const td_thunk_t *t = &s->v[i];
        bool async = t->kind->enqueue == td_async_start_enqueue || t->kind->enqueue == td_async_done_enqueue;
        if (async && t->pair >= *pairs) *pairs = t->pair + 1;
        for (uint32_t k = 0; k < t->n_seqs; k++) count(&t->seqs[k], steps, pairs);
    }
}

static void visit(walk_t *w, const td_seq_t *s, uint32_t lane, uint32_t parent, uint32_t sequence, const char *name);

static void start(walk_t *w, const td_thunk_t *t, uint32_t step, uint32_t lane) {
    td_stream_plan_t *p = w->plan;
    td_plan_pair_t *pair = &p->pairs[t->pair];
    bool light = td_thunk_light(&w->rules, t);
    uint32_t body = lane;
    if (!light && t->stream_use != TD_STREAM_MAIN) body = td_lane_of(&w->rules, w->lanes, &w->n_lanes, t);
    *pair = (td_plan_pair_t){.id = t->id, .use = t->stream_use, .stream = t->stream, .lane = body, .light = light,
                             .start = step, .done = TD_NO_STEP, .first = TD_NO_STEP, .last = TD_NO_STEP};
    p->lanes[body].n_bodies++;
    uint32_t first = p->n_steps;
    visit(w, &t->seqs[0], body, step, 0, "body");
    if (p->n_steps == first) return;
    pair->first = first;
    for (uint32_t i = first; i < p->n_steps; i++)
        if (p->steps[i].parent == step) pair->last = i;
}

static void visit(walk_t *w, const td_seq_t *s, uint32_t lane, uint32_t parent, uint32_t sequence, const char *name) {
    td_stream_plan_t *p = w->plan;
    for (uint32_t i = 0; i < s->n; i++) {
        const td_thunk_t *t = &s->v[i];
        uint32_t at = p->n_steps++;
        td_plan_step_t *step = &p->steps[at];
        *step = (td_plan_step_t){.kind = t->kind->name, .annotation = t->annotation, .depth = t->depth, .lane = lane,
                                 .parent = parent, .sequence = sequence, .begins = !i, .skipped = t->skip};
        for (size_t c = 0; name[c] && c + 1 < sizeof step->sequence_name; c++) step->sequence_name[c] = name[c];
        p->lanes[lane].n_steps++;
        if (t->kind->enqueue == td_async_start_enqueue) {
            step->what = TD_PLAN_START;
            step->pair = t->pair;
            start(w, t, at, lane);
            continue;
        }
        if (t->kind->enqueue == td_async_done_enqueue) {
            step->what = TD_PLAN_DONE;
            step->pair = t->pair;
            p->pairs[t->pair].done = at;
        }
        for (uint32_t k = 0; k < t->n_seqs; k++) {
            char inner[24];
            td_thunk_seq_name(t, k, inner);
            visit(w, &t->seqs[k], lane, at, k, inner);
        }
    }
}

td_status_t td_module_stream_plan(const td_module_t *m, uint64_t light_bytes, uint32_t lanes_most, td_arena_t *arena,
                                  const td_stream_plan_t **out, td_err_t *err) {
    walk_t w = {.rules = {.light_bytes = light_bytes, .lanes_most = lanes_most}, .lanes = {{TD_STREAM_MAIN, -1, 0}}, .n_lanes = 1};
    td_stream_plan_t *p = TD_NEW(arena, td_stream_plan_t);
    uint32_t steps = 0;
    if (!p) return td_arena_fail(arena, err);
    count(m->thunks, &steps, &p->n_pairs);
    p->lanes = TD_NEW_N(arena, td_plan_lane_t, TD_LIMIT_LANES);
    p->steps = TD_NEW_N(arena, td_plan_step_t, steps);
    p->pairs = TD_NEW_N(arena, td_plan_pair_t, p->n_pairs);
    if (!p->lanes || !p->steps || !p->pairs) return td_arena_fail(arena, err);
    w.plan = p;
    visit(&w, m->thunks, 0, TD_NO_STEP, 0, "");
    p->n_lanes = w.n_lanes;
    for (uint32_t i = 0; i < w.n_lanes; i++) p->lanes[i].use = w.lanes[i].use, p->lanes[i].id = w.lanes[i].id;
    p->n_events = p->n_pairs ? p->n_pairs + 1 : 0;
    *out = p;
    return TD_OK;
}
