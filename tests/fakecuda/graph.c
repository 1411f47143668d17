/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "tests/fakecuda/capture.h"

enum {
    LANES = 16,
    CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901, CAPTURE_UNJOINED = 904, CAPTURE_ISOLATION = 905,
    CAPTURE_WRONG_STREAM = 908, UPDATE_FAILURE = 910
};

typedef struct entry {
    enum { OP, RECORD, WAIT } kind;
    uint32_t lane, record; /* record: number of the record made or waited for */
    fk_op_t *op;
} entry_t;
typedef struct fk_program { /* of a graph, or being captured */
    entry_t *v;
    uint32_t n, cap, n_lanes, n_records;
} fk_program_t;
struct fk_capture { /* never freed: events may still name it */
    struct fk_capture *next;
    bool ended, invalid; /* invalid: something was called that no capture allows */
    int mode;
    pthread_t thread; /* that began it */
    fk_program_t program;
    fk_stream_t *lanes[LANES];
};
static struct fk_capture *captures;
typedef struct fk_graph {
    fk_obj_t base;
    fk_program_t program;
} fk_graph_t;
typedef struct fk_exec {
    fk_obj_t base;
    fk_program_t program;
    fk_stream_t *lanes[LANES]; /* 0: none, it is the stream of the launch */
    fk_mark_t *last;           /* launches come one after the other */
} fk_exec_t;

static bool add(fk_program_t *p, entry_t e) {
    if (p->n == p->cap) {
        uint32_t cap = p->cap ? 2 * p->cap : 32;
        entry_t *v = realloc(p->v, cap * sizeof *v);
        if (!v) return false;
        p->v = v, p->cap = cap;
    }
    p->v[p->n++] = e;
    return true;
}
static void program_free(fk_program_t *p) {
    for (uint32_t i = 0; i < p->n; i++) free(p->v[i].op);
    free(p->v);
    *p = (fk_program_t){0};
}
static fk_op_t *op_copy(const fk_op_t *op) {
    fk_op_t *c = malloc(op->bytes);
    if (!c) return NULL;
    memcpy(c, op, op->bytes);
    c->replayed = true;
    return c;
}
static CUresult program_copy(const fk_program_t *from, fk_program_t *to) {
    *to = (fk_program_t){.n_lanes = from->n_lanes, .n_records = from->n_records};
    for (uint32_t i = 0; i < from->n; i++) {
        entry_t e = from->v[i];
        if (e.kind == OP) e.op = op_copy(e.op);
        if ((e.kind == OP && !e.op) || !add(to, e)) {
            free(e.op);
            program_free(to);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    return CUDA_SUCCESS;
}

/* ---- capturing ---- */
static uint32_t lane_of(const struct fk_capture *c, const fk_stream_t *s) {
    uint32_t i = 0;
    while (i < c->program.n_lanes && c->lanes[i] != s) i++;
    return i;
}
CUresult fk_issue(fk_stream_t *s, const fk_op_t *op) {
    if (!s->capture) return op->push(op, s);
    if (s->capture->invalid) return CAPTURE_INVALIDATED;
    fk_op_t *c = op_copy(op);
    if (c && add(&s->capture->program, (entry_t){.kind = OP, .lane = lane_of(s->capture, s), .op = c}))
        return CUDA_SUCCESS;
    free(c);
    return CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult fk_capture_record(fk_stream_t *s, uint32_t *number) {
    fk_program_t *p = &s->capture->program;
    if (s->capture->invalid) return CAPTURE_INVALIDATED;
    *number = p->n_records;
    if (!add(p, (entry_t){.kind = RECORD, .lane = lane_of(s->capture, s), .record = *number}))
        return CUDA_ERROR_OUT_OF_MEMORY;
    p->n_records++;
    return CUDA_SUCCESS;
}
CUresult fk_capture_wait(fk_stream_t *s, struct fk_capture *c, uint32_t number) {
    const char *why = !c ? "a capturing stream waits for an event recorded outside"
                      : c->ended ? "the event was recorded in a capture that has ended"
                      : s->capture && s->capture != c ? "two captures wait for each other" : NULL;
    if (why) return fk_fault(FK_ARGUMENTS, CAPTURE_ISOLATION, "%s", why);
    if (c->invalid) return CAPTURE_INVALIDATED;
    if (!s->capture) {
        if (c->program.n_lanes == LANES) return CUDA_ERROR_NOT_SUPPORTED;
        c->lanes[c->program.n_lanes++] = s;
        s->capture = c;
    }
    if (!add(&c->program, (entry_t){.kind = WAIT, .lane = lane_of(c, s), .record = number}))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return CUDA_SUCCESS;
}

void fk_capture_spoil(void) {
    for (struct fk_capture *c = captures; c; c = c->next)
        if (!c->ended && pthread_equal(c->thread, pthread_self())) c->invalid = true;
}
CUresult fk_capture_forbids(fk_stream_t *s) {
    if (!s->capture) return CUDA_SUCCESS;
    s->capture->invalid = true;
    return fk_fault(FK_ARGUMENTS, CAPTURE_UNSUPPORTED, "stream %u is capturing", s->base.number);
}
CUresult fk_capture_unsafe(void) {
    for (struct fk_capture *c = captures; c; c = c->next) {
        bool mine = pthread_equal(c->thread, pthread_self());
        if (c->ended || c->mode == CU_STREAM_CAPTURE_MODE_RELAXED) continue;
        if (!mine && c->mode != CU_STREAM_CAPTURE_MODE_GLOBAL) continue;
        c->invalid = true;
        return fk_fault(FK_ARGUMENTS, CAPTURE_UNSUPPORTED, "memory changes while stream %u is capturing",
                        c->lanes[0]->base.number);
    }
    return CUDA_SUCCESS;
}

FK_EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, int mode) {
    FK_ENTER(cuStreamBeginCapture_v2, 0);
    CUresult r = CUDA_SUCCESS;
    fk_stream_t *s = fk_stream_get(stream, &r);
    if (!s) return fk_leave(r);
    if (s->null || s->capture) return fk_leave(CUDA_ERROR_INVALID_VALUE);
    struct fk_capture *c = calloc(1, sizeof *c);
    if (!c) return fk_leave(CUDA_ERROR_OUT_OF_MEMORY);
    c->program.n_lanes = 1;
    c->lanes[0] = s;
    c->mode = mode;
    c->thread = pthread_self();
    c->next = captures;
    captures = c;
    s->capture = c;
    return fk_leave(CUDA_SUCCESS);
}

/* Does lane 0 come after every operation? */
static bool joined(const fk_program_t *p) {
    uint32_t seen[LANES][LANES] = {{0}}, ops[LANES] = {0};
    uint32_t(*records)[LANES] = calloc(p->n_records + 1, sizeof *records);
    if (!records) return true;
    for (uint32_t i = 0; i < p->n; i++) {
        const entry_t *e = &p->v[i];
        if (e->kind == OP) seen[e->lane][e->lane] = ++ops[e->lane];
        else if (e->kind == RECORD) memcpy(records[e->record], seen[e->lane], sizeof seen[0]);
        else
            for (int k = 0; k < LANES; k++)
                if (records[e->record][k] > seen[e->lane][k]) seen[e->lane][k] = records[e->record][k];
    }
    free(records);
    return !memcmp(seen[0], ops, sizeof ops);
}
/* Whatever comes of it, the streams do not capture any more. NULL: none did. */
static struct fk_capture *end(fk_stream_t *s) {
    struct fk_capture *c = s->capture;
    for (uint32_t i = 0; c && i < c->program.n_lanes; i++) c->lanes[i]->capture = NULL;
    if (c) c->ended = true;
    return c;
}
static void forget(struct fk_capture *c) {
    if (c) program_free(&c->program);
}
FK_EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
    static fk_fn_t fn = {.name = "cuStreamEndCapture"};
    CUresult failed = fk_enter(&fn, 0), r = CUDA_SUCCESS;
    *graph = NULL;
    if (failed) { /* a call that fails ends the capture, too */
        pthread_mutex_lock(&fk_lock);
        fk_stream_t *s = fk_current() && fk_current()->base.live ? fk_stream_get(stream, &r) : NULL;
        if (s) forget(end(s));
        fk_leave(CUDA_SUCCESS);
        return failed;
    }
    fk_stream_t *s = fk_stream_get(stream, &r);
    if (!s) return fk_leave(r);
    if (!s->capture) return fk_leave(CUDA_ERROR_INVALID_VALUE);
    if (s->capture->lanes[0] != s) return fk_leave(CAPTURE_WRONG_STREAM);
    struct fk_capture *c = end(s);
    fk_graph_t *g = NULL;
    if (c->invalid) r = CAPTURE_INVALIDATED;
    else if (!joined(&c->program))
        r = fk_fault(FK_ARGUMENTS, CAPTURE_UNJOINED, "a captured stream was not joined to the first");
    else if (!(g = fk_obj_new(FK_GRAPH, sizeof *g, s->base.ctx))) r = CUDA_ERROR_OUT_OF_MEMORY;
    if (g) {
        g->program = c->program;
        memset(&c->program, 0, sizeof c->program);
        *graph = fk_handle(&g->base);
    }
    forget(c);
    return fk_leave(r);
}
FK_EXPORT CUresult cuStreamIsCapturing(CUstream stream, int *status) {
    FK_ENTER(cuStreamIsCapturing, 0);
    CUresult r = CUDA_SUCCESS;
    fk_stream_t *s = fk_stream_get(stream, &r);
    if (s)
        *status = !s->capture ? CU_STREAM_CAPTURE_STATUS_NONE
                  : s->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return fk_leave(r);
}

/* ---- graphs ---- */
static void exec_drop(fk_exec_t *x) {
    for (int i = 1; i < LANES; i++)
        if (x->lanes[i]) fk_stream_end(x->lanes[i]);
    program_free(&x->program);
    fk_mark_put(x->last);
    x->last = NULL;
    fk_obj_end(&x->base);
}
FK_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, uint64_t flags) {
    FK_ENTER(cuGraphInstantiateWithFlags, 0);
    CUresult r = CUDA_SUCCESS;
    (void)flags;
    fk_graph_t *g = fk_get(graph, FK_GRAPH, true, &r);
    fk_exec_t *x = g ? fk_obj_new(FK_EXEC, sizeof *x, g->base.ctx) : NULL;
    if (!x) return fk_leave(r ? r : CUDA_ERROR_OUT_OF_MEMORY);
    r = program_copy(&g->program, &x->program);
    for (uint32_t i = 1; i < g->program.n_lanes && !r; i++)
        if (!(x->lanes[i] = fk_stream_new(g->base.ctx, CU_STREAM_NON_BLOCKING, false))) r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r) exec_drop(x);
    else *exec = fk_handle(&x->base);
    return fk_leave(r);
}
FK_EXPORT CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info) {
    FK_ENTER(cuGraphExecUpdate_v2, 0);
    CUresult r = CUDA_SUCCESS;
    fk_exec_t *x = fk_get(exec, FK_EXEC, true, &r);
    fk_graph_t *g = x ? fk_get(graph, FK_GRAPH, true, &r) : NULL;
    if (!g) return fk_leave(r);
    const fk_program_t *a = &x->program, *b = &g->program;
    bool same = a->n == b->n && a->n_lanes == b->n_lanes;
    for (uint32_t i = 0; i < a->n && same; i++)
        same = a->v[i].kind == b->v[i].kind && a->v[i].lane == b->v[i].lane && a->v[i].record == b->v[i].record &&
               (a->v[i].kind != OP || a->v[i].op->shape == b->v[i].op->shape);
    if (info) *info = (CUgraphExecUpdateResultInfo){.result = same ? 0 : 1};
    if (!same) return fk_leave(UPDATE_FAILURE);
    fk_program_t p;
    if ((r = program_copy(b, &p))) return fk_leave(r);
    program_free(&x->program);
    x->program = p;
    return fk_leave(CUDA_SUCCESS);
}

static CUresult wait_for(fk_stream_t *s, fk_mark_t *m) {
    if (m->stream == s) return CUDA_SUCCESS;
    fk_clock_join(&s->clock, m->clock);
    fk_item_t *it = calloc(1, sizeof *it);
    if (!it) return CUDA_ERROR_OUT_OF_MEMORY;
    it->wait = m;
    m->refs++;
    fk_push(s, it);
    return CUDA_SUCCESS;
}
static CUresult replay(fk_exec_t *x, fk_stream_t *s) {
    const fk_program_t *p = &x->program;
    CUresult r = CUDA_SUCCESS;
    fk_mark_t **marks = calloc(p->n_records + 1, sizeof *marks);
    if (!marks) return CUDA_ERROR_OUT_OF_MEMORY;
    if (x->last) r = wait_for(s, x->last);
    for (uint32_t i = 0; i < p->n && !r; i++) {
        const entry_t *e = &p->v[i];
        fk_stream_t *on = e->lane ? x->lanes[e->lane] : s;
        if (e->kind == OP) r = e->op->push(e->op, on);
        else if (e->kind == WAIT) r = wait_for(on, marks[e->record]);
        else if (!(marks[e->record] = fk_stream_mark(on))) r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    for (uint32_t i = 0; i < p->n_records; i++) fk_mark_put(marks[i]);
    free(marks);
    fk_mark_put(x->last);
    x->last = fk_stream_mark(s);
    return r;
}
FK_EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
    FK_ENTER(cuGraphLaunch, 0);
    CUresult r = CUDA_SUCCESS;
    fk_exec_t *x = fk_get(exec, FK_EXEC, true, &r);
    fk_stream_t *s = x ? fk_stream_for_work(stream, &r) : NULL;
    if (s && s->capture) r = CUDA_ERROR_NOT_SUPPORTED;
    return fk_leave(r || !s ? r : replay(x, s));
}
FK_EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec) {
    FK_ENTER(cuGraphExecDestroy, 0);
    CUresult r = CUDA_SUCCESS;
    fk_exec_t *x = fk_get(exec, FK_EXEC, true, &r);
    if (x) exec_drop(x);
    return fk_leave(r);
}
FK_EXPORT CUresult cuGraphDestroy(CUgraph graph) {
    FK_ENTER(cuGraphDestroy, 0);
    CUresult r = CUDA_SUCCESS;
    fk_graph_t *g = fk_get(graph, FK_GRAPH, true, &r);
    if (g) {
        program_free(&g->program);
        fk_obj_end(&g->base);
    }
    return fk_leave(r);
}
