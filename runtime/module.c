/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/module.h"

#include <string.h>

#include "executable.pb-c.h"
#include "runtime/hlo/hlo_parse.h"
#include "runtime/scheduled.h"
#include "runtime/thunk/thunk.h"

/* Upper bound of private slots: what nested dynamic-slice fusions declare, found by walking the messages. */
static size_t slots_in(Xla__Gpu__ThunkProto *const *v, size_t n, unsigned depth);
static size_t slots_seq(const Xla__Gpu__ThunkSequenceProto *s, unsigned depth) { return s ? slots_in(s->thunks, s->n_thunks, depth) : 0; }
static size_t slots_in(Xla__Gpu__ThunkProto *const *v, size_t n, unsigned depth) {
    size_t sum = 0;
    if (depth > TD_LIMIT_THUNK_DEPTH) return 0;
    for (size_t i = 0; i < n; i++) {
        switch (v[i]->impl_case) {
        case XLA__GPU__THUNK_PROTO__IMPL_SEQUENTIAL_THUNK:
            sum += slots_in(v[i]->sequential_thunk->thunks, v[i]->sequential_thunk->n_thunks, depth + 1);
            break;
        case XLA__GPU__THUNK_PROTO__IMPL_WHILE_THUNK:
            sum += slots_seq(v[i]->while_thunk->condition_thunk_sequence, depth + 1) + slots_seq(v[i]->while_thunk->body_thunk_sequence, depth + 1);
            break;
        case XLA__GPU__THUNK_PROTO__IMPL_CONDITIONAL_THUNK:
            for (size_t k = 0; k < v[i]->conditional_thunk->n_branch_thunks; k++) sum += slots_seq(v[i]->conditional_thunk->branch_thunks[k], depth + 1);
            break;
        case XLA__GPU__THUNK_PROTO__IMPL_ASYNC_START_THUNK: sum += slots_seq(v[i]->async_start_thunk->thunks, depth + 1); break;
        case XLA__GPU__THUNK_PROTO__IMPL_DYNAMIC_SLICE_FUSION_THUNK:
            sum += v[i]->dynamic_slice_fusion_thunk->n_parameters + v[i]->dynamic_slice_fusion_thunk->n_results +
                   slots_seq(v[i]->dynamic_slice_fusion_thunk->embedded_thunks, depth + 1);
            break;
        default: break;
        }
    }
    return sum;
}

static td_status_t scheduled_constants(td_module_t *m, td_err_t *err) {
    for (uint32_t i = 0; i < m->n_allocations; i++) {
        td_buffer_t *b = &m->buffers[i];
        b->literal = m->literals[i];
        if (b->literal && b->literal->bytes.size != b->size)
            return td_fail(err, TD_MISMATCH, "allocations[%u]: literal has %zu bytes, allocation %llu", i,
                           b->literal->bytes.size, (unsigned long long)b->size);
    }
    return TD_OK;
}

static td_status_t open_in(td_module_t *m, const td_artifact_t *a, td_err_t *err) {
    const Xla__Gpu__GpuExecutableProto *e = a->exe;
    td_status_t st;
    /* Fallback no-thunks: a scheduled module and its buffer assignment, without thunks. Can be removed in February 2027. */
    if ((m->scheduled = td_scheduled_is(a))) {
        if ((st = td_hlo_parse(&m->arena, a, &m->hlo, err)) || (st = td_scheduled_make(m, a, &m->artifact, err))) return st;
        a = m->artifact, e = a->exe;
    }
    if (!e->n_thunks && !e->buffer_allocations) return td_fail(err, TD_MALFORMED, "holds neither thunks nor a buffer assignment");
    if (!e->buffer_allocations) return td_fail(err, TD_MALFORMED, "artifact has thunks but no buffer allocations");
    /* Fallback no-debug-summary: the summary of the allocations is not asked for. Can be removed in January 2027. */
    if (!m->hlo && (st = td_hlo_parse(&m->arena, a, &m->hlo, err))) return st;
    size_t cap = e->buffer_allocations->n_values + slots_in(e->thunks, e->n_thunks, 0);
    if (cap >= UINT32_MAX) return td_fail(err, TD_LIMIT, "%zu buffers", cap);
    m->n_allocations = m->n_slots = (uint32_t)e->buffer_allocations->n_values;
    m->buffers = TD_NEW_N(&m->arena, td_buffer_t, cap);
    m->thunks = TD_NEW(&m->arena, td_seq_t);
    if (!m->buffers || !m->thunks) return td_arena_fail(&m->arena, err);
    if ((st = td_verify_buffers(m, err)) || (m->scheduled && (st = scheduled_constants(m, err)))) return st;
    td_parse_t c = {.m = m, .arena = &m->arena, .a = a, .slot_count = m->n_allocations, .slot_cap = (uint32_t)cap, .err = err};
    if ((st = td_thunk_parse_seq(&c, "thunks", e->thunks, e->n_thunks, m->thunks))) return st;
    for (uint32_t i = 0; i < c.n_async; i++)
        if (!c.async[i].done) return td_fail(err, TD_MALFORMED, "async execution id %llu is never done", (unsigned long long)c.async[i].id);
    return TD_OK;
}

td_status_t td_module_open(const td_artifact_t *a, const td_alloc_t *alloc, td_module_t **out, td_err_t *err) {
    td_module_t *m = alloc->get(alloc->ctx, sizeof *m, 16);
    if (!m) return td_fail(err, TD_NOMEM, "out of memory");
    memset(m, 0, sizeof *m);
    m->alloc = alloc;
    m->artifact = a;
    td_arena_init(&m->arena, alloc, 0);
    td_status_t st = open_in(m, a, err);
    if (st) td_module_close(m);
    else *out = m;
    return st;
}

void td_module_close(td_module_t *m) {
    if (!m) return;
    td_arena_deinit(&m->arena);
    m->alloc->put(m->alloc->ctx, m, sizeof *m);
}
