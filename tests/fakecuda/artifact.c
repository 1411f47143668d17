/* SPDX-License-Identifier: Apache-2.0 */
/* From the artifacts of FAKECUDA_ARTIFACT to a table (image, kernel name) -> instruction. Read here, with the
 * library's own reader, so that nothing depends on what the code under test made of them. */
#include <stdlib.h>
#include <string.h>

#include "executable.pb-c.h"
#include "proto/artifact.h"
#include "runtime/module.h"
#include "tests/fakecuda/kernel.h"

static fk_meaning_t *meanings;
static struct opened { /* both stay open: instructions lie in them */
    struct opened *next;
    td_artifact_t *artifact;
    td_module_t *module;
} *opened;
static td_payload_table_t *payloads;
static td_arena_t arena;

static void *must(void *p) {
    if (p) return p;
    fprintf(stderr, "fakecuda: out of memory\n");
    abort();
}

typedef struct kernel_of { /* of one thunk */
    const char *name, *annotation;
    td_span_t image;
    fk_dims_t dims;
} kernel_of_t;
typedef struct reading {
    const td_artifact_t *artifact;
    const td_hlo_module_t *hlo;
    const char *path;
    uint32_t n_kernels, n_unknown;
} reading_t;

/* ---- thunks ---- */
static void dims_of(const StreamExecutor__Dim3DProto *d, uint32_t out[3]) {
    out[0] = d ? (uint32_t)d->x : 0, out[1] = d ? (uint32_t)d->y : 0, out[2] = d ? (uint32_t)d->z : 0;
}
static td_span_t image_of(const td_artifact_t *a, const StreamExecutor__KernelLoaderSpecProto *s) {
    if (s->payload_case == STREAM_EXECUTOR__KERNEL_LOADER_SPEC_PROTO__PAYLOAD_CUBIN)
        return td_artifact_bytes(a, s->cubin->has_data_payload, s->cubin->data_payload, s->cubin->data.data,
                                 s->cubin->data.len);
    if (s->payload_case != STREAM_EXECUTOR__KERNEL_LOADER_SPEC_PROTO__PAYLOAD_PTX) return (td_span_t){0};
    return td_artifact_bytes(a, s->ptx->has_data_payload, s->ptx->data_payload, s->ptx->data.data, s->ptx->data.len);
}
static bool custom_kernel(const reading_t *r, const Xla__Gpu__CustomKernelThunkProto *t, kernel_of_t *k) {
    const Xla__Gpu__CustomKernelProto *c = t->custom_kernel;
    if (!c || !c->kernel_spec) return false;
    k->name = c->kernel_spec->kernel_name;
    k->image = image_of(r->artifact, c->kernel_spec);
    dims_of(c->block_dims ? c->block_dims->coordinates : NULL, k->dims.grid);
    dims_of(c->thread_dims ? c->thread_dims->coordinates : NULL, k->dims.block);
    dims_of(c->cluster_dim ? c->cluster_dim->coordinates : NULL, k->dims.cluster);
    k->dims.shared = (uint32_t)c->shared_memory_bytes;
    return true;
}
static bool module_kernel(const reading_t *r, const Xla__Gpu__KernelThunkProto *t, kernel_of_t *k) {
    const Xla__Gpu__GpuExecutableProto *e = r->artifact->exe;
    const Xla__Gpu__LaunchDimensionsProto *l = t->launch_dimensions;
    k->name = t->kernel_name;
    k->image = td_artifact_bytes(r->artifact, e->has_binary_payload, e->binary_payload, e->binary.data, e->binary.len);
    if (!k->image.size)
        k->image = td_artifact_bytes(r->artifact, e->has_asm_text_payload, e->asm_text_payload, e->asm_text.data,
                                     e->asm_text.len);
    dims_of(l && l->block_counts ? l->block_counts->coordinates : NULL, k->dims.grid);
    dims_of(l && l->thread_counts_per_block ? l->thread_counts_per_block->coordinates : NULL, k->dims.block);
    dims_of(t->cluster_dim ? t->cluster_dim->coordinates : NULL, k->dims.cluster);
    k->dims.shared = (uint32_t)t->shmem_bytes;
    return true;
}

/* ---- the table ---- */
static void leaves_of(const td_shape_t *s, const td_shape_t **out, uint32_t *n) {
    if (s->type == TD_TUPLE)
        for (uint32_t i = 0; i < s->rank; i++) leaves_of(s->elements[i], out, n);
    else if (td_type_is_array(s->type)) out[(*n)++] = s;
}
static fk_meaning_t *meaning_of(const reading_t *r, const kernel_of_t *k, td_hash_t image, const td_hlo_instr_t *in) {
    for (fk_meaning_t *m = meanings; m; m = m->next)
        if (td_hash_equal(m->image, image) && !strcmp(m->name, k->name)) return m; /* one code, one function */
    fk_meaning_t *m = must(TD_NEW(&arena, fk_meaning_t));
    uint32_t n = td_shape_leaf_count(in->shape);
    for (uint32_t i = 0; i < in->n_operands; i++) n += td_shape_leaf_count(in->operands[i]->shape);
    *m = (fk_meaning_t){.next = meanings, .image = image, .name = k->name, .hlo = r->hlo, .instr = in,
                        .leaves = must(TD_NEW_N(&arena, const td_shape_t *, n))};
    for (uint32_t i = 0; i < in->n_operands; i++) leaves_of(in->operands[i]->shape, m->leaves, &m->n_leaves);
    m->n_read = m->n_leaves;
    leaves_of(in->shape, m->leaves, &m->n_leaves);
    return meanings = m;
}
static void note(reading_t *r, const kernel_of_t *k) {
    const td_hlo_instr_t *in = td_hlo_find(r->hlo, k->annotation, strlen(k->annotation));
    size_t elf = k->image.size ? fk_elf_bytes(k->image.data, k->image.size) : 0;
    if (!in || !k->name || !k->image.size) {
        r->n_unknown++;
        return;
    }
    r->n_kernels++;
    fk_meaning_t *m = meaning_of(r, k, td_hash_bytes(k->image.data, elf ? elf : k->image.size), in);
    for (uint32_t i = 0; i < m->n_dims; i++)
        if (!memcmp(&m->dims[i], &k->dims, sizeof k->dims)) return;
    m->dims = must(realloc(m->dims, (m->n_dims + 1) * sizeof *m->dims));
    m->dims[m->n_dims++] = k->dims;
}

static void walk(reading_t *r, Xla__Gpu__ThunkProto *const *v, size_t n, unsigned depth);
static void walk_seq(reading_t *r, const Xla__Gpu__ThunkSequenceProto *s, unsigned depth) {
    if (s) walk(r, s->thunks, s->n_thunks, depth + 1);
}
static void walk(reading_t *r, Xla__Gpu__ThunkProto *const *v, size_t n, unsigned depth) {
    for (size_t i = 0; i < n && depth < 64; i++) {
        const Xla__Gpu__ThunkProto *t = v[i];
        const char *annotation = t->thunk_info ? t->thunk_info->profile_annotation : NULL;
        kernel_of_t k = {.annotation = annotation ? annotation : ""};
        switch (t->impl_case) {
        case XLA__GPU__THUNK_PROTO__IMPL_CUSTOM_KERNEL_THUNK:
            if (custom_kernel(r, t->custom_kernel_thunk, &k)) note(r, &k);
            break;
        case XLA__GPU__THUNK_PROTO__IMPL_KERNEL_THUNK:
            if (module_kernel(r, t->kernel_thunk, &k)) note(r, &k);
            break;
        case XLA__GPU__THUNK_PROTO__IMPL_SEQUENTIAL_THUNK:
            walk(r, t->sequential_thunk->thunks, t->sequential_thunk->n_thunks, depth + 1);
            break;
        case XLA__GPU__THUNK_PROTO__IMPL_WHILE_THUNK:
            walk_seq(r, t->while_thunk->condition_thunk_sequence, depth);
            walk_seq(r, t->while_thunk->body_thunk_sequence, depth);
            break;
        case XLA__GPU__THUNK_PROTO__IMPL_CONDITIONAL_THUNK:
            for (size_t b = 0; b < t->conditional_thunk->n_branch_thunks; b++)
                walk_seq(r, t->conditional_thunk->branch_thunks[b], depth);
            break;
        case XLA__GPU__THUNK_PROTO__IMPL_ASYNC_START_THUNK: walk_seq(r, t->async_start_thunk->thunks, depth); break;
        case XLA__GPU__THUNK_PROTO__IMPL_DYNAMIC_SLICE_FUSION_THUNK:
            walk_seq(r, t->dynamic_slice_fusion_thunk->embedded_thunks, depth);
            break;
        default: break;
        }
    }
}

static void read_one(const char *path) {
    td_err_t err = {0};
    td_artifact_t *a = NULL;
    td_module_t *m = NULL;
    if (td_artifact_open_file(path, payloads, td_alloc_default(), &a, &err) ||
        td_module_open(a, td_alloc_default(), &m, &err)) {
        fprintf(stderr, "fakecuda: FAKECUDA_ARTIFACT: %s: %s\n", path, err.text);
        td_artifact_close(a);
        return;
    }
    struct opened *o = must(TD_NEW(&arena, struct opened));
    *o = (struct opened){opened, a, m};
    opened = o;
    reading_t r = {.artifact = m->artifact, .hlo = m->hlo, .path = path};
    walk(&r, m->artifact->exe->thunks, m->artifact->exe->n_thunks, 0);
    if (r.n_unknown) fprintf(stderr, "fakecuda: %s: %u kernels without an instruction or image\n", path, r.n_unknown);
}
static void read_all(void) {
    td_err_t err = {0};
    if (payloads) return;
    if (td_payload_table_create(td_alloc_default(), &payloads, &err)) abort();
    td_arena_init(&arena, td_alloc_default(), 0);
    char *list = fk_config.artifacts ? must(strdup(fk_config.artifacts)) : NULL, *rest = NULL;
    for (char *p = list ? strtok_r(list, ":", &rest) : NULL; p; p = strtok_r(NULL, ":", &rest)) read_one(p);
    free(list);
}

const fk_meaning_t *fk_meaning_find(td_hash_t image, const char *name) {
    read_all();
    for (const fk_meaning_t *m = meanings; m; m = m->next)
        if (td_hash_equal(m->image, image) && !strcmp(m->name, name)) return m;
    return NULL;
}
