/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/inspect_streams.h"

#include <inttypes.h>
#include <stdio.h>

#include "ctl/print.h"
#include "runtime/stream_plan.h"

/* ---- names ---- */
static char *stream_name(td_stream_use_t use, int64_t id, char out[40]) {
    if (id < 0) snprintf(out, 40, "%s", td_stream_use_name(use));
    else snprintf(out, 40, "%s %" PRId64, td_stream_use_name(use), id);
    return out;
}
static char *lane_name(const td_stream_plan_t *p, uint32_t lane, char out[40]) {
    return stream_name(p->lanes[lane].use, p->lanes[lane].id, out);
}

/* Why a body is not on a lane of its own stream's; "" if it is. */
static const char *remark(const td_stream_plan_t *p, const td_plan_pair_t *pair) {
    const td_plan_lane_t *l = &p->lanes[pair->lane];
    if (pair->light) return ", light: stays";
    if (pair->use == TD_STREAM_MAIN) return ", names no stream: stays";
    return l->use == pair->use && l->id == pair->stream ? "" : ", shares a lane";
}

/* ---- text ---- */
static void print_lanes(const td_stream_plan_t *p) {
    char name[40];
    printf("lane  stream               thunks  async bodies\n");
    for (uint32_t i = 0; i < p->n_lanes; i++)
        printf("%4" PRIu32 "  %-18s %8" PRIu32 "  %12" PRIu32 "\n", i, lane_name(p, i, name), p->lanes[i].n_steps,
               p->lanes[i].n_bodies);
}

static void print_pairs(const td_stream_plan_t *p) {
    char name[40];
    if (!p->n_pairs) return;
    printf("pair  execution id  stream              lane  start   done  events\n");
    for (uint32_t i = 0; i < p->n_pairs; i++) {
        const td_plan_pair_t *q = &p->pairs[i];
        printf("%4" PRIu32 "  %12" PRIu64 "  %-18s %5" PRIu32 "  %5" PRIu32 "  ", i, q->id,
               stream_name(q->use, q->stream, name), q->lane, q->start);
        if (q->done == TD_NO_STEP) printf("    -  ");
        else printf("%5" PRIu32 "  ", q->done);
        printf("fork, end %" PRIu32 "%s\n", i, remark(p, q));
    }
}

static void print_step(const td_stream_plan_t *p, uint32_t at) {
    const td_plan_step_t *s = &p->steps[at];
    if (s->begins && *s->sequence_name) printf("%13s%*s%s:\n", "", 2 * (int)s->depth - 1, "", s->sequence_name);
    printf("%5" PRIu32 "  %4" PRIu32 "  %*s%s", at, s->lane, 2 * (int)s->depth, "", s->kind);
    if (*s->annotation) printf(" %s", s->annotation);
    if (s->what == TD_PLAN_START)
        printf("  -> lane %" PRIu32 " (pair %" PRIu32 ")", p->pairs[s->pair].lane, s->pair);
    if (s->what == TD_PLAN_DONE)
        printf("  <- lane %" PRIu32 " (pair %" PRIu32 ")", p->pairs[s->pair].lane, s->pair);
    puts(s->skipped ? "  (repeats the one before)" : "");
}

static void print_text(const td_stream_plan_t *p) {
    printf("streams     %" PRIu32 "\npairs       %" PRIu32 "\nevents      %" PRIu32 "\n\n", p->n_lanes, p->n_pairs,
           p->n_events);
    print_lanes(p);
    if (p->n_pairs) putchar('\n');
    print_pairs(p);
    printf("\nstep  lane  thunk\n");
    for (uint32_t i = 0; i < p->n_steps; i++) print_step(p, i);
}

/* ---- Graphviz ---- */
static void quoted(const char *s) {
    putchar('"');
    for (; *s; s++) {
        if (*s == '"' || *s == '\\') putchar('\\');
        putchar(*s >= ' ' && *s < 127 ? *s : '?');
    }
    putchar('"');
}

static void dot_nodes(const td_stream_plan_t *p, uint32_t lane) {
    char name[40];
    printf("  subgraph cluster_%" PRIu32 " {\n    label=\"lane %" PRIu32 ": %s\";\n", lane, lane,
           lane_name(p, lane, name));
    for (uint32_t i = 0; i < p->n_steps; i++) {
        const td_plan_step_t *s = &p->steps[i];
        if (s->lane != lane) continue;
        printf("    s%" PRIu32 " [tooltip=\"%s\", label=", i, s->kind);
        quoted(*s->annotation ? s->annotation : s->kind);
        puts(s->what == TD_PLAN_WORK ? "];" : ", shape=oval];");
    }
    puts("  }");
}

/* Solid: the order on a lane. Dotted: into a loop's or a branch's sequence. Dashed: an event. */
static td_status_t dot_edges(const td_stream_plan_t *p, td_arena_t *arena, td_err_t *err) {
    uint32_t *latest = TD_NEW_N(arena, uint32_t, p->n_steps + 1u); /* by parent; the last: of the program itself */
    if (!latest) return td_arena_fail(arena, err);
    for (uint32_t i = 0; i <= p->n_steps; i++) latest[i] = TD_NO_STEP;
    for (uint32_t i = 0; i < p->n_steps; i++) {
        const td_plan_step_t *s = &p->steps[i];
        uint32_t *before = &latest[s->parent == TD_NO_STEP ? p->n_steps : s->parent];
        if (*before != TD_NO_STEP && p->steps[*before].sequence == s->sequence)
            printf("  s%" PRIu32 " -> s%" PRIu32 ";\n", *before, i);
        else if (s->parent != TD_NO_STEP && p->steps[s->parent].what == TD_PLAN_START)
            printf("  s%" PRIu32 " -> s%" PRIu32 " [style=dashed, label=\"fork\"];\n", s->parent, i);
        else if (s->parent != TD_NO_STEP)
            printf("  s%" PRIu32 " -> s%" PRIu32 " [style=dotted, label=\"%s\"];\n", s->parent, i, s->sequence_name);
        *before = i;
    }
    for (uint32_t i = 0; i < p->n_pairs; i++)
        if (p->pairs[i].done != TD_NO_STEP)
            printf("  s%" PRIu32 " -> s%" PRIu32 " [style=dashed, label=\"end %" PRIu32 "\"];\n",
                   p->pairs[i].last == TD_NO_STEP ? p->pairs[i].start : p->pairs[i].last, p->pairs[i].done, i);
    return TD_OK;
}

static td_status_t print_dot(const td_stream_plan_t *p, const char *name, td_arena_t *arena, td_err_t *err) {
    printf("digraph ");
    quoted(name);
    puts(" {\n  node [shape=box];");
    for (uint32_t i = 0; i < p->n_lanes; i++) dot_nodes(p, i);
    td_status_t st = dot_edges(p, arena, err);
    puts("}");
    return st;
}

/* ---- JSON ---- */
static json_t *lane_json(const td_plan_lane_t *l) {
    return json_pack("{s:s, s:I, s:I, s:I}", "use", td_stream_use_name(l->use), "stream", (json_int_t)l->id, "thunks",
                     (json_int_t)l->n_steps, "bodies", (json_int_t)l->n_bodies);
}
static json_int_t step_number(uint32_t step) { return step == TD_NO_STEP ? -1 : (json_int_t)step; }
static json_t *pair_json(const td_plan_pair_t *q) {
    return json_pack("{s:I, s:s, s:I, s:I, s:b, s:I, s:I}", "id", (json_int_t)q->id, "use", td_stream_use_name(q->use),
                     "stream", (json_int_t)q->stream, "lane", (json_int_t)q->lane, "light", q->light, "start",
                     (json_int_t)q->start, "done", step_number(q->done));
}
static json_t *step_json(const td_plan_step_t *s) {
    json_t *j = json_pack("{s:s, s:o, s:I, s:I, s:I}", "kind", s->kind, "name", ctl_json_text(s->annotation), "lane",
                          (json_int_t)s->lane, "depth", (json_int_t)s->depth, "parent", step_number(s->parent));
    if (j && *s->sequence_name) json_object_set_new(j, "sequence", json_string(s->sequence_name));
    if (j && s->what != TD_PLAN_WORK) json_object_set_new(j, "pair", json_integer((json_int_t)s->pair));
    return j;
}

static td_status_t print_json(const td_stream_plan_t *p, const char *name, td_err_t *err) {
    json_t *lanes = json_array(), *pairs = json_array(), *steps = json_array();
    for (uint32_t i = 0; i < p->n_lanes; i++) json_array_append_new(lanes, lane_json(&p->lanes[i]));
    for (uint32_t i = 0; i < p->n_pairs; i++) json_array_append_new(pairs, pair_json(&p->pairs[i]));
    for (uint32_t i = 0; i < p->n_steps; i++) json_array_append_new(steps, step_json(&p->steps[i]));
    json_t *root = json_pack("{s:o, s:I, s:o, s:o, s:o}", "module", ctl_json_text(name), "events",
                             (json_int_t)p->n_events, "lanes", lanes, "pairs", pairs, "steps", steps);
    int rc = root ? json_dumpf(root, stdout, JSON_INDENT(2)) : -1;
    putchar('\n');
    json_decref(root);
    return rc ? td_fail(err, TD_NOMEM, "out of memory") : TD_OK;
}

td_status_t ctl_inspect_streams(const td_module_t *m, const char *name, const char *device, ctl_streams_form_t form,
                                td_err_t *err) {
    const td_stream_plan_t *p = NULL;
    td_device_t *dev = NULL;
    td_arena_t arena;
    td_status_t st = device ? td_device_open(device, td_alloc_default(), &dev, err) : TD_OK;
    if (st) return st;
    td_arena_init(&arena, td_alloc_default(), 0);
    st = td_module_stream_plan(m, dev ? dev->light_bytes : 0, dev ? dev->lanes_most : 0, &arena, &p, err);
    if (!st && form == CTL_STREAMS_TEXT) print_text(p);
    if (!st && form == CTL_STREAMS_DOT) st = print_dot(p, name, &arena, err);
    if (!st && form == CTL_STREAMS_JSON) st = print_json(p, name, err);
    td_arena_deinit(&arena);
    td_device_destroy(dev);
    return st;
}
