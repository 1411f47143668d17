/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/inspect.h"

#include <stdio.h>

#include "executable.pb-c.h"
#include "runtime/thunk/thunk.h"

static uint32_t count(const td_seq_t *s) {
    uint32_t n = s->n;
    for (uint32_t i = 0; i < s->n; i++)
        for (uint32_t k = 0; k < s->v[i].n_seqs; k++) n += count(&s->v[i].seqs[k]);
    return n;
}

void td_module_summarize(const td_module_t *m, td_module_summary_t *out) {
    *out = (td_module_summary_t){.name = m->hlo->name, .n_allocations = m->n_allocations, .n_inputs = m->n_inputs,
                                 .n_outputs = m->n_outputs, .n_thunks = count(m->thunks), .n_computations = m->hlo->n_comps,
                                 .replica_count = m->hlo->replica_count, .num_partitions = m->hlo->num_partitions};
    out->scheduled = m->scheduled;
    for (uint32_t i = 0; i < m->n_allocations; i++) {
        out->allocation_bytes += m->buffers[i].size;
        out->n_constants += m->buffers[i].literal != NULL;
    }
    const StreamExecutor__GpuComputeCapabilityProto *g = m->artifact->exe->gpu_compute_capability;
    if (g && g->compute_capability_case == STREAM_EXECUTOR__GPU_COMPUTE_CAPABILITY_PROTO__COMPUTE_CAPABILITY_CUDA_COMPUTE_CAPABILITY) {
        out->compute_major = g->cuda_compute_capability->major;
        out->compute_minor = g->cuda_compute_capability->minor;
    }
}

void td_module_each_allocation(const td_module_t *m, void (*f)(void *ctx, const td_allocation_view_t *v), void *ctx) {
    for (uint32_t i = 0; i < m->n_allocations; i++) {
        const td_buffer_t *b = &m->buffers[i];
        td_allocation_view_t v = {i, b->size, b->is_thread_local ? "thread-local" : b->is_param ? "parameter" : b->is_constant ? "constant" : b->output ? "output" : "temp"};
        f(ctx, &v);
    }
}

static void each(const td_seq_t *s, void (*f)(void *ctx, const td_thunk_view_t *v), void *ctx) {
    for (uint32_t i = 0; i < s->n; i++) {
        const td_thunk_t *t = &s->v[i];
        char text[1024] = "";
        size_t at = 0;
        for (uint32_t k = 0; k < t->n_args && at < sizeof text; k++)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%u:[%llu,%llu)%s", k ? " " : "", t->args[k].allocation, (unsigned long long)t->args[k].offset,
                                   (unsigned long long)(t->args[k].offset + t->args[k].size), t->args[k].written ? "w" : "");
        td_thunk_view_t v = {t->depth, t->kind->name, t->annotation, text, t->stream};
        f(ctx, &v);
        for (uint32_t k = 0; k < t->n_seqs; k++) each(&t->seqs[k], f, ctx);
    }
}

void td_module_each_thunk(const td_module_t *m, void (*f)(void *ctx, const td_thunk_view_t *v), void *ctx) { each(m->thunks, f, ctx); }
