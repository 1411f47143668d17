/* SPDX-License-Identifier: Apache-2.0 */
/* Launch records of kernel and custom_kernel (runtime/launch.h), from their messages.
 * Source: xla/backends/gpu/runtime/kernel_thunk.cc, custom_kernel_thunk.cc, xla/stream_executor/gpu/tma_metadata.cc. */
#include <limits.h>
#include <string.h>

#include "executable.pb-c.h"
#include "runtime/thunk/thunk.h"

typedef StreamExecutor__Dim3DProto dim3_t;

static td_status_t dims(td_parse_t *c, const char *what, const dim3_t *p, uint32_t out[3]) {
    if (!p) return TD_OK;
    const int64_t v[3] = {p->x, p->y, p->z};
    for (int i = 0; i < 3; i++) {
        if (v[i] < 1 || v[i] > INT_MAX)
            return td_fail(c->err, TD_MALFORMED, "%s: dimension %c is %lld", what, 'x' + i, (long long)v[i]);
        out[i] = (uint32_t)v[i];
    }
    return TD_OK;
}

static td_status_t shared(td_parse_t *c, int64_t bytes, td_launch_t *l) {
    if (bytes < 0 || bytes > INT_MAX)
        return td_fail(c->err, TD_MALFORMED, "%lld bytes of shared memory", (long long)bytes);
    l->shared_bytes = (uint32_t)bytes;
    return TD_OK;
}

static td_status_t zeroed(td_parse_t *c, const td_thunk_t *t, size_t n, const int64_t *v, td_launch_t *l) {
    uint32_t *z = TD_NEW_N(c->arena, uint32_t, n);
    if (!z) return td_arena_fail(c->arena, c->err);
    for (size_t i = 0; i < n; i++) {
        if (v[i] < 0 || v[i] >= t->n_args)
            return td_fail(c->err, TD_MALFORMED, "zeroed_output_buffer_indices[%zu] is %lld of %u arguments", i,
                           (long long)v[i], t->n_args);
        z[i] = (uint32_t)v[i];
    }
    l->zeroed = z;
    l->n_zeroed = (uint32_t)n;
    return TD_OK;
}

/* ---- tensor maps ---- */
#define TMA_FAIL(...) td_fail(c->err, TD_MALFORMED, "tensor map of argument " __VA_ARGS__)

static td_status_t tma_box(td_parse_t *c, const StreamExecutor__Gpu__TmaDescriptorProto *p, td_tma_t *m) {
    for (uint32_t i = 0; i < m->rank; i++) {
        if (p->box_dims[i] < 1 || p->box_dims[i] > 256)
            return TMA_FAIL("%u: box dimension %u is %d, not 1 to 256", m->arg, i, p->box_dims[i]);
        if (p->element_strides[i] < 1 || p->element_strides[i] > 8 || (!i && p->element_strides[i] != 1))
            return TMA_FAIL("%u: element stride %u is %d, not 1 to 8, or not 1 at first", m->arg, i,
                            p->element_strides[i]);
        m->box[i] = (uint32_t)p->box_dims[i];
        m->element_strides[i] = (uint32_t)p->element_strides[i];
    }
    uint32_t row = m->box[0] * m->element_bytes, widest = m->swizzle ? 16u << m->swizzle : 0;
    if (!m->interleave && row % 16) return TMA_FAIL("%u: a row of the box has %u bytes, no multiple of 16", m->arg,
                                                    row);
    if (!m->interleave && widest && row > widest)
        return TMA_FAIL("%u: a row of the box has %u bytes, the swizzle takes %u", m->arg, row, widest);
    if (m->interleave == 2 && m->swizzle != 1) return TMA_FAIL("%u: interleaving 32 bytes needs that swizzle", m->arg);
    return TD_OK;
}

static td_status_t tma_array(td_parse_t *c, const StreamExecutor__Gpu__TmaDescriptorProto *p, td_tma_t *m) {
    const uint64_t unit = m->interleave == 2 ? 32 : 16;
    for (uint32_t i = 0; i < m->rank; i++) {
        if (p->global_dims[i] < 1 || p->global_dims[i] > 1ll << 32)
            return TMA_FAIL("%u: dimension %u is %lld", m->arg, i, (long long)p->global_dims[i]);
        m->dims[i] = (uint64_t)p->global_dims[i];
    }
    for (uint32_t i = 0; i + 1 < m->rank; i++) {
        uint64_t s = (uint64_t)p->global_strides[i];
        if (p->global_strides[i] < 1 || s >= 1ull << 40 || s % unit || (i && s % m->strides[i - 1]))
            return TMA_FAIL("%u: stride %u of %lld bytes, allowed are multiples of %llu and of the one before", m->arg,
                            i,
                            (long long)p->global_strides[i], (unsigned long long)unit);
        m->strides[i] = s;
    }
    return TD_OK;
}

static td_status_t tma_one(td_parse_t *c, const td_thunk_t *t, int64_t arg,
                           const StreamExecutor__Gpu__TmaDescriptorProto *p, td_tma_t *m) {
    if (arg < 0 || arg >= t->n_args)
        return td_fail(c->err, TD_MALFORMED, "tensor map of argument %lld of %u", (long long)arg, t->n_args);
    m->arg = (uint32_t)arg;
    if (!p) return TMA_FAIL("%u is missing", m->arg);
    if (p->n_global_dims < 1 || p->n_global_dims > TD_TMA_RANK)
        return TMA_FAIL("%u has %zu dimensions, not 1 to %d", m->arg, p->n_global_dims, TD_TMA_RANK);
    m->rank = (uint32_t)p->n_global_dims;
    if (p->n_global_strides != m->rank - 1u || p->n_box_dims != m->rank || p->n_element_strides != m->rank)
        return TMA_FAIL("%u: %u dimensions, %zu strides, %zu of the box, %zu element strides", m->arg, m->rank,
                        p->n_global_strides, p->n_box_dims, p->n_element_strides);
    if (p->element_size != 1 && p->element_size != 2 && p->element_size != 4 && p->element_size != 8)
        return TMA_FAIL("%u: elements of %lld bytes", m->arg, (long long)p->element_size);
    m->element_bytes = (uint32_t)p->element_size;
    m->interleave = (int)p->interleave, m->swizzle = (int)p->swizzle;
    m->l2_promotion = (int)p->l2_promotion, m->oob_fill = (int)p->float_oob_fill;
    if ((unsigned)m->interleave > 2 || (unsigned)m->swizzle > 3 || (unsigned)m->l2_promotion > 3 ||
        (unsigned)m->oob_fill > 1)
        return TMA_FAIL("%u: interleave %d, swizzle %d, promotion %d or fill %d is unknown", m->arg, m->interleave,
                        m->swizzle, m->l2_promotion, m->oob_fill);
    if (m->interleave && m->rank < 3) return TMA_FAIL("%u: interleaving takes 3 dimensions, not %u", m->arg, m->rank);
    td_status_t st = tma_array(c, p, m);
    return st ? st : tma_box(c, p, m);
}

static td_status_t tma(td_parse_t *c, const td_thunk_t *t, const StreamExecutor__Gpu__TmaMetadataProto *p,
                       td_launch_t *l) {
    size_t n = p ? p->n_arg_index_to_tma_info : 0;
    if (n > TD_LIMIT_TMA_ARGS)
        return td_fail(c->err, TD_LIMIT, "%zu tensor maps over the limit of %d", n, TD_LIMIT_TMA_ARGS);
    td_tma_t *v = TD_NEW_N(c->arena, td_tma_t, n);
    if (!v) return td_arena_fail(c->arena, c->err);
    for (size_t i = 0; i < n; i++) {
        td_status_t st = tma_one(c, t, p->arg_index_to_tma_info[i]->key, p->arg_index_to_tma_info[i]->value, &v[i]);
        if (st) return st;
        for (size_t k = 0; k < i; k++)
            if (v[k].arg == v[i].arg) return TMA_FAIL("%u occurs twice", v[i].arg);
    }
    l->tma = v;
    l->n_tma = (uint32_t)n;
    return TD_OK;
}

/* ---- parameters ---- */
static td_status_t packing(td_parse_t *c, const td_thunk_t *t, const StreamExecutor__KernelArgsPackingSpecProto *p,
                           td_launch_t *l) {
    size_t n = p ? p->n_kernel_arguments : t->n_args;
    if (n > TD_LIMIT_KERNEL_ARGS)
        return td_fail(c->err, TD_LIMIT, "%zu parameters over the limit of %d", n, TD_LIMIT_KERNEL_ARGS);
    td_launch_param_t *v = TD_NEW_N(c->arena, td_launch_param_t, n);
    if (!v) return td_arena_fail(c->arena, c->err);
    for (size_t i = 0; i < n; i++) {
        if (!p) {
            v[i].arg = (int32_t)i;
            continue;
        }
        const StreamExecutor__KernelArgPackingSpecProto *a = p->kernel_arguments[i];
        bool bytes = a->has_data && a->data.len;
        if (a->n_relocations > 1 || bytes == (a->n_relocations == 1))
            return td_fail(c->err, TD_MALFORMED,
                           "kernel_arguments[%zu]: %zu relocations and %zu bytes, not one of them", i,
                           a->n_relocations, bytes ? a->data.len : 0);
        v[i].arg = -1;
        if (bytes) {
            v[i].bytes = (td_span_t){a->data.data, a->data.len};
            continue;
        }
        if (a->relocations[0]->kind != 1)
            return td_fail(c->err, TD_UNSUPPORTED, "kernel_arguments[%zu]: relocation of kind %d", i,
                           (int)a->relocations[0]->kind);
        if (a->relocations[0]->argument_index < 0 || (uint32_t)a->relocations[0]->argument_index >= t->n_args)
            return td_fail(c->err, TD_MALFORMED, "kernel_arguments[%zu]: argument %d of %u", i,
                           a->relocations[0]->argument_index, t->n_args);
        v[i].arg = a->relocations[0]->argument_index;
    }
    l->params = v;
    l->n_params = (uint32_t)n;
    return TD_OK;
}

/* ---- the module-wide image and its variables ---- */
static const td_literal_t *literal_of(const td_module_t *m, const char *symbol) {
    static const char prefix[] = "buffer_for_";
    if (strncmp(symbol, prefix, sizeof prefix - 1)) return NULL;
    symbol += sizeof prefix - 1;
    for (uint32_t k = 0; k < m->hlo->n_comps; k++)
        for (uint32_t i = 0; i < m->hlo->comps[k]->n_instrs; i++) {
            const td_hlo_instr_t *in = m->hlo->comps[k]->instrs[i];
            size_t at = 0;
            if (in->opcode != TD_HLO_CONSTANT || !in->literal) continue;
            while (symbol[at] && (in->name[at] == '.' || in->name[at] == '-' ? '_' : in->name[at]) == symbol[at]) at++;
            if (!symbol[at] && !in->name[at]) return in->literal;
        }
    return NULL;
}

/* Once for all kernels of the module. */
static td_status_t globals(td_parse_t *c) {
    const Xla__Gpu__GpuExecutableProto *e = c->a->exe;
    td_global_t *v = TD_NEW_N(c->arena, td_global_t, e->n_constants);
    if (!v) return td_arena_fail(c->arena, c->err);
    for (size_t i = 0; i < e->n_constants; i++) {
        const Xla__Gpu__GpuExecutableProto__ConstantInfoProto *p = e->constants[i];
        const td_literal_t *l = NULL; /* indices were checked with the buffers */
        if (p->allocation_index >= 0 &&
            p->allocation_index < c->m->n_allocations) l = c->m->buffers[p->allocation_index].literal;
        if (!l && p->symbol_name) l = literal_of(c->m, p->symbol_name);
        if (!l || !p->symbol_name) continue;
        v[c->n_globals++] = (td_global_t){td_arena_strndup(c->arena, p->symbol_name, strlen(p->symbol_name)), l->bytes};
        if (!v[c->n_globals - 1].symbol) return td_arena_fail(c->arena, c->err);
    }
    c->globals = v;
    return TD_OK;
}

static td_status_t new_launch(td_parse_t *c, const char *symbol, td_launch_t **out) {
    td_launch_t *l = TD_NEW(c->arena, td_launch_t);
    if (!l) return td_arena_fail(c->arena, c->err);
    l->symbol = td_arena_strndup(c->arena, symbol ? symbol : "", symbol ? strlen(symbol) : 0);
    *out = l;
    return l->symbol ? TD_OK : td_arena_fail(c->arena, c->err);
}

td_status_t td_launch_parse_kernel(td_parse_t *c, const struct Xla__Gpu__KernelThunkProto *k, td_thunk_t *t) {
    const Xla__Gpu__GpuExecutableProto *e = c->a->exe;
    const Xla__Gpu__LaunchDimensionsProto *d = k->launch_dimensions;
    td_launch_t *l = NULL;
    td_status_t st = new_launch(c, k->kernel_name, &l);
    if (st || (st = dims(c, "blocks", d && d->block_counts ? d->block_counts->coordinates : NULL, l->grid)) ||
        (st = dims(c, "threads", d && d->thread_counts_per_block ? d->thread_counts_per_block->coordinates : NULL,
                   l->block)) ||
        (st = dims(c, "cluster", k->cluster_dim ? k->cluster_dim->coordinates : NULL, l->cluster)) ||
        (st = shared(c, k->shmem_bytes, l)) || (st = tma(c, t, k->tma_metadata, l)) || (st = packing(c, t, NULL, l)) ||
        (st = zeroed(c, t, k->n_zeroed_output_buffer_indices, k->zeroed_output_buffer_indices, l)) ||
        (!c->globals && (st = globals(c))))
        return st;
    l->pdl = k->use_pdl;
    l->image = td_artifact_bytes(c->a, e->has_binary_payload, e->binary_payload, e->binary.data, e->binary.len);
    if (l->image.size) l->kind = TD_IMAGE_MODULE;
    l->globals = c->globals;
    l->n_globals = c->n_globals;
    t->launch = l;
    return TD_OK;
}

static void image_of(const td_parse_t *c, const StreamExecutor__KernelLoaderSpecProto *s, td_launch_t *l) {
    switch (s->payload_case) {
    case STREAM_EXECUTOR__KERNEL_LOADER_SPEC_PROTO__PAYLOAD_PTX:
        l->image = td_artifact_bytes(c->a, s->ptx->has_data_payload, s->ptx->data_payload, s->ptx->data.data,
                                     s->ptx->data.len);
        if (l->image.size) l->kind = TD_IMAGE_PTX;
        break;
    case STREAM_EXECUTOR__KERNEL_LOADER_SPEC_PROTO__PAYLOAD_CUBIN:
        l->image = td_artifact_bytes(c->a, s->cubin->has_data_payload, s->cubin->data_payload, s->cubin->data.data,
                                     s->cubin->data.len);
        if (l->image.size) l->kind = TD_IMAGE_CUBIN;
        break;
    case STREAM_EXECUTOR__KERNEL_LOADER_SPEC_PROTO__PAYLOAD_IN_PROCESS_SYMBOL: l->kind = TD_IMAGE_SYMBOL; break;
    default: break;
    }
}

td_status_t td_launch_parse_custom(td_parse_t *c, const struct Xla__Gpu__CustomKernelThunkProto *k, td_thunk_t *t) {
    const Xla__Gpu__CustomKernelProto *p = k->custom_kernel;
    const StreamExecutor__KernelLoaderSpecProto *s = p ? p->kernel_spec : NULL;
    td_launch_t *l = NULL;
    td_status_t st = new_launch(c, s ? s->kernel_name : NULL, &l);
    if (st || !p) return st;
    if ((st = dims(c, "blocks", p->block_dims ? p->block_dims->coordinates : NULL, l->grid)) ||
        (st = dims(c, "threads", p->thread_dims ? p->thread_dims->coordinates : NULL, l->block)) ||
        (st = dims(c, "cluster", p->cluster_dim ? p->cluster_dim->coordinates : NULL, l->cluster)) ||
        (st = shared(c, p->shared_memory_bytes, l)) || (st = tma(c, t, k->tma_metadata, l)) ||
        (st = packing(c, t, s ? s->kernel_args_packing_spec : NULL, l)) ||
        (st = zeroed(c, t, k->n_zeroed_output_buffer_indices, k->zeroed_output_buffer_indices, l)))
        return st;
    if (s && s->arity != (int32_t)l->n_params)
        return td_fail(c->err, TD_MISMATCH, "the kernel takes %d parameters, the thunk makes %u", s->arity,
                       l->n_params);
    l->pdl = k->use_pdl;
    if (s) image_of(c, s, l);
    t->launch = l;
    return TD_OK;
}
