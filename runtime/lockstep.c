/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/lockstep.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/program_in.h"
#include "runtime/tolerance.h"

/* What belongs together: a thunk of the module, and of both programs. By number. */
typedef struct row {
    const td_thunk_t *thunk, *mine, *twin; /* mine: of the reference */
    const struct row *parent;
    uint32_t seq, at;   /* place in the parent */
    bool begins, ends;  /* of a group of kernels that one device runs as one; else both */
    td_tolerance_t tolerance;
} row_t;

typedef struct td_lockstep {
    const td_module_t *m;
    const td_lockstep_opts_t *o;
    td_arena_t arena;
    td_program_t *programs[2]; /* reference, device */
    td_binding_t *bindings[2];
    row_t *rows;
    bool *fixed;         /* by slot of the device: what lies there is no array of the run */
    uint8_t *buffers[2]; /* arrays on the host, as large as the largest */
    td_lockstep_report_t *out;
} td_lockstep_t;

static const char *const roles[] = {"reference", "device"};

static double tolerance_of(const td_lockstep_t *l, const row_t *r, td_type_t t) {
    bool number = td_type_is_float(t) || td_type_is_complex(t);
    return number && l->o->tolerance >= 0 ? l->o->tolerance : td_tolerance_of(&r->tolerance, t);
}

/* ---- names ---- */
static void name(const row_t *r, char *out, size_t size) {
    char seq[24] = "thunks";
    size_t n = 0;
    if (r->parent) {
        name(r->parent, out, size);
        n = strlen(out);
        td_thunk_seq_name(r->parent->thunk, r->seq, seq);
    }
    snprintf(out + n, size - n, "%s%s[%u] (%s)", n ? " " : "", seq, r->at, r->thunk->kind->name);
}

static void describe(const row_t *r, const td_run_t *run, uint32_t arg, const td_shape_t *s, const td_difference_t *d,
                     td_finding_t *f) {
    *f = (td_finding_t){.argument = arg, .difference = *d, .n_loops = run->n_loops};
    name(r, f->thunk, sizeof f->thunk);
    snprintf(f->instruction, sizeof f->instruction, "%s", r->thunk->annotation);
    for (uint32_t i = 0; i < f->n_loops && i < TD_LIMIT_THUNK_DEPTH; i++) f->loops[i] = run->loops[i];
    td_shape_print(s, false, f->shape, sizeof f->shape);
    td_difference_index(d, s, f->index, sizeof f->index);
}

/* ---- memory ---- */
static td_status_t sync(td_lockstep_t *l, int k, td_err_t *err) {
    const td_binding_t *b = l->bindings[k];
    td_status_t st = TD_OK;
    for (uint32_t i = b->p->n_lanes; i-- > 0 && !st;) st = b->p->dev->ops->stream_sync(b->run.lanes[i].stream, err);
    return st ? td_prefix(err, st, "%s", roles[k]) : TD_OK;
}
static td_status_t fetch(td_lockstep_t *l, int k, const td_kernel_arg_t *a, uint64_t bytes, td_err_t *err) {
    td_run_t *r = &l->bindings[k]->run;
    td_status_t st = r->dev->ops->download(r->lanes[0].stream, l->buffers[k], td_thunk_addr(r, a), bytes, err);
    return st ? td_prefix(err, st, "%s", roles[k]) : sync(l, k, err);
}
/* The reference's arguments to the device. */
static td_status_t hand_over(td_lockstep_t *l, const row_t *row, td_err_t *err) {
    td_run_t *r = &l->bindings[1]->run;
    td_status_t st = TD_OK;
    for (uint32_t i = 0; i < row->thunk->n_args && !st; i++) {
        const td_kernel_arg_t *a = &row->mine->args[i], *b = &row->twin->args[i];
        if (!a->size || l->fixed[b->allocation] || (st = fetch(l, 0, a, a->size, err))) continue;
        st = r->dev->ops->upload(r->lanes[0].stream, td_thunk_addr(r, b), l->buffers[0], a->size, err);
        st = st ? td_prefix(err, st, "device") : sync(l, 1, err);
    }
    return st;
}

/* ---- comparing ---- */
/* A device may leave anything in a workspace, which is the last result of a cuDNN graph; seeds are each one's own. */
static bool judged(const row_t *r, uint32_t i) {
    const td_thunk_t *t = r->thunk;
    if (t->kind->enqueue == td_rng_seed_enqueue) return false;
    if (!t->args[i].shape) return t->kind->enqueue == td_memset32_enqueue;
    return !(t->kind->lower == td_cudnn_lower && i == t->n_args - 1 && t->args[i].shape->type == TD_U8);
}

static td_status_t compare_array(td_lockstep_t *l, const row_t *row, uint32_t i, td_difference_t *d,
                                 const td_shape_t **shape, td_err_t *err) {
    const td_kernel_arg_t *a = &row->mine->args[i];
    td_status_t st = fetch(l, 0, a, (*shape)->bytes, err);
    if (!st) st = fetch(l, 1, &row->twin->args[i], (*shape)->bytes, err);
    if (!st) td_compare(*shape, l->buffers[0], l->buffers[1], tolerance_of(l, row, (*shape)->type), d);
    return st;
}

static bool graver(const td_difference_t *a, const td_difference_t *b) { /* a than b, of one thunk or all */
    double x = a->tolerance > 0 ? a->error / a->tolerance : a->error > 0 ? INFINITY : 0;
    double y = b->tolerance > 0 ? b->error / b->tolerance : b->error > 0 ? INFINITY : 0;
    return x > y;
}

static td_status_t compare(td_lockstep_t *l, const row_t *row, td_err_t *err) {
    td_lockstep_report_t *out = l->out;
    const td_run_t *run = &l->bindings[0]->run;
    td_difference_t d, worst = {0};
    bool differs = false;
    td_status_t st = TD_OK;
    for (uint32_t i = 0; i < row->thunk->n_args && !st; i++) {
        const td_kernel_arg_t *a = &row->thunk->args[i];
        int64_t bytes = (int64_t)a->size;
        const td_shape_t raw = {.type = TD_U8, .rank = 1, .dims = &bytes, .default_layout = true, .bits = 8,
                                .count = bytes, .bytes = a->size};
        const td_shape_t *s = a->shape ? a->shape : &raw;
        if (!a->written || !a->size || !td_type_is_array(s->type)) continue;
        if (!judged(row, i) || s->bytes > a->size) {
            out->unjudged++;
            continue;
        }
        if ((st = compare_array(l, row, i, &d, &s, err))) break;
        out->arrays++, out->elements += d.elements;
        if (!d.wrong) {
            if (graver(&d, &out->worst.difference)) describe(row, run, i, s, &d, &out->worst);
            continue;
        }
        if (!out->differing && (!differs || graver(&d, &worst))) {
            worst = d;
            describe(row, run, i, s, &d, &out->first);
        }
        differs = true;
    }
    out->differing += differs;
    return st;
}

/* ---- running ---- */
static td_status_t enqueue_twin(td_lockstep_t *l, const row_t *row, td_err_t *err) {
    td_run_t *r = &l->bindings[1]->run;
    if (row->twin->skip) return TD_OK;
    r->err = err;
    td_status_t st = row->twin->kind->enqueue(r, row->twin);
    return st ? td_prefix(err, st, "device") : sync(l, 1, err);
}

static td_status_t leaf(td_lockstep_t *l, td_run_t *r, const row_t *row) {
    td_status_t st = TD_OK;
    if (row->begins && (st = hand_over(l, row, r->err))) return st;
    if (row->begins) l->out->thunks++;
    if ((st = row->mine->kind->enqueue(r, row->mine))) return td_prefix(r->err, st, "reference");
    if ((st = sync(l, 0, r->err)) || (st = enqueue_twin(l, row, r->err))) return st;
    while (!row->ends && row[1].mine->skip) /* the reference has done them already */
        if ((st = enqueue_twin(l, ++row, r->err))) return st;
    return row->ends ? compare(l, row, r->err) : TD_OK;
}

/* Its thunks come one by one; the device's stream and private slots must be the right ones meanwhile. */
static td_status_t container(td_lockstep_t *l, td_run_t *r, const row_t *row) {
    td_run_t *c = &l->bindings[1]->run;
    const td_thunk_t *t = row->twin;
    const uint32_t here = c->lane;
    if (t->kind->enqueue == td_async_start_enqueue && t->stream_use != TD_STREAM_MAIN)
        td_run_lane(c, t->lane);
    if (t->kind->enqueue == td_slice_fusion_enqueue) {
        td_slice_fusion_move(c, t);
        for (uint32_t i = 0; i < t->n_args; i++)
            l->fixed[td_slice_fusion_slot(t, i)] = l->fixed[t->args[i].allocation];
    }
    td_status_t st = row->mine->kind->enqueue(r, row->mine);
    td_run_lane(c, here);
    return st;
}

static td_status_t each(td_run_t *r, const td_thunk_t *t) {
    td_lockstep_t *l = r->lockstep;
    td_run_t *c = &l->bindings[1]->run;
    const row_t *row = &l->rows[t->number];
    memcpy(c->loops, r->loops, sizeof c->loops);
    c->n_loops = r->n_loops;
    if (t->n_seqs) return container(l, r, row);
    if (t->kind->enqueue == td_async_done_enqueue) return t->kind->enqueue(r, t);
    return leaf(l, r, row);
}

/* ---- preparing ---- */
static td_status_t pair(td_lockstep_t *l, const row_t *parent, uint32_t k, const td_seq_t *m, const td_seq_t *a,
                        const td_seq_t *b, td_err_t *err) {
    td_status_t st = TD_OK;
    for (uint32_t i = 0; i < m->n && !st; i++) {
        const td_thunk_t *t = &m->v[i], *x = &a->v[i], *y = &b->v[i];
        bool next = i + 1 < m->n && (a->v[i + 1].skip || b->v[i + 1].skip);
        if (a->n != m->n || b->n != m->n || x->kind != t->kind || y->kind != t->kind || x->n_args != t->n_args ||
            y->n_args != t->n_args || x->number != y->number)
            return td_fail(err, TD_INTERNAL, "the two programs differ in %s", t->annotation);
        row_t *r = &l->rows[x->number];
        *r = (row_t){t, x, y, parent, k, i, !x->skip && !y->skip, !next, {0}};
        td_tolerance_see(&r->tolerance, l->m->hlo, t);
        for (uint32_t s = 0; s < t->n_seqs && !st; s++) st = pair(l, r, s, &t->seqs[s], &x->seqs[s], &y->seqs[s], err);
    }
    return st;
}

static td_status_t lower(td_lockstep_t *l, int k, td_err_t *err) {
    const td_alloc_t *alloc = l->o->alloc ? l->o->alloc : td_alloc_default();
    td_device_t *dev = k ? l->o->device : l->o->reference;
    td_status_t st = td_program_create(l->m, &(td_program_opts_t){.dev = dev, .alloc = alloc, .apart = true},
                                       &l->programs[k], err);
    if (!st) st = td_binding_create(l->programs[k], alloc, &l->bindings[k], err);
    return st ? td_prefix(err, st, "%s (%s)", roles[k], dev->ops->name) : TD_OK;
}

/* The device has constants of its own, and of the caller's memory what it may use in place; neither is written. */
static td_status_t settle(td_lockstep_t *l, const void *const *inputs, td_err_t *err) {
    const td_program_t *p = l->programs[1];
    td_run_t *r = &l->bindings[1]->run;
    for (uint32_t i = 0; i < p->n_slots; i++) l->fixed[i] = p->slots[i].constant != NULL;
    for (uint32_t i = 0; i < p->n_inputs; i++) {
        if (p->input_slot[i] == UINT32_MAX || !p->input_direct[i]) continue;
        if (!inputs[i] && p->inputs[i].shape->count)
            return td_fail(err, TD_USAGE, "input %u ('%s') is missing", i, p->inputs[i].name);
        r->slots[p->input_slot[i]] = (void *)(uintptr_t)inputs[i];
        l->fixed[p->input_slot[i]] = true;
    }
    td_run_lane(r, 0);
    return TD_OK;
}

static td_status_t prepare(td_lockstep_t *l, td_err_t *err) {
    uint64_t largest = 0;
    td_status_t st = lower(l, 0, err);
    if (!st) st = lower(l, 1, err);
    if (st) return st;
    const td_program_t *p = l->programs[0];
    l->rows = TD_NEW_N(&l->arena, row_t, p->n_thunks + 1u);
    l->fixed = TD_NEW_N(&l->arena, bool, p->n_slots);
    for (uint32_t i = 0; i < p->n_slots; i++)
        if (p->slots[i].size > largest) largest = p->slots[i].size;
    for (int k = 0; k < 2; k++) l->buffers[k] = td_arena_align(&l->arena, (size_t)largest + 64, 64);
    if (!l->rows || !l->fixed || !l->buffers[0] || !l->buffers[1]) return td_arena_fail(&l->arena, err);
    return pair(l, NULL, 0, l->m->thunks, &p->thunks, &l->programs[1]->thunks, err);
}

static td_status_t run(td_lockstep_t *l, const void *const *inputs, td_err_t *err) {
    td_run_t *r = &l->bindings[0]->run;
    const void **outputs = TD_NEW_N(&l->arena, const void *, l->programs[0]->n_outputs + 1u);
    if (!outputs) return td_arena_fail(&l->arena, err);
    r->each = each;
    r->lockstep = l;
    return td_program_run(l->bindings[0], inputs, outputs, NULL, err);
}

td_status_t td_lockstep(const td_module_t *m, const td_lockstep_opts_t *opts, const void *const *inputs,
                        td_lockstep_report_t *out, td_err_t *err) {
    td_lockstep_t l = {.m = m, .o = opts, .out = out};
    *out = (td_lockstep_report_t){0};
    td_arena_init(&l.arena, opts->alloc ? opts->alloc : td_alloc_default(), 0);
    td_status_t st = prepare(&l, err);
    if (!st) st = settle(&l, inputs, err);
    if (!st) st = run(&l, inputs, err);
    for (int k = 0; k < 2; k++) {
        td_binding_destroy(l.bindings[k]);
        td_program_destroy(l.programs[k]);
    }
    td_arena_deinit(&l.arena);
    return st;
}
