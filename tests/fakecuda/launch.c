/* SPDX-License-Identifier: Apache-2.0 */
/* Launches: dimensions and the argument block are checked, addresses are found in the heap, then the kernel is
 * pushed. Arguments are taken from what the call gives and from the sizes that the image records, nothing else. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fakecuda/capture.h"
#include "tests/fakecuda/module.h"
#include "tests/fakecuda/tensor_map.h"

enum { BLOCK_MOST = 32764, /* bytes of parameters that a kernel may have since CUDA 12.1 */ ARGS_MOST = 4096 };

typedef struct launch_op {
    fk_op_t op;
    fk_function_t *function;
    fk_dims_t dims;
    uint8_t block[]; /* parameters, as laid out in the image */
} launch_op_t;
typedef struct launch_item {
    fk_item_t base;
    fk_function_t *function;
    const fk_lowered_t *lowered;
    uint8_t *block;
    bool corrupt;   /* FAKECUDA_CORRUPT */
    void *memory[]; /* of each parameter; NULL where it is no address */
} launch_item_t;

/* ---- running ---- */
/* The lowest bit of the middle element of the last array; of a float the highest of its exponent. */
static void corrupt(const fk_meaning_t *m, void *const *memory) {
    uint32_t i = m->n_leaves - 1;
    const td_shape_t *s = m->leaves[i];
    if (!s->count || !memory[i]) return;
    uint64_t bit = (uint64_t)(s->count / 2) * s->bits;
    if (td_type_is_float(s->type) || td_type_is_complex(s->type)) bit += td_type_bits(s->type) - 2;
    ((uint8_t *)memory[i])[bit / 8] ^= (uint8_t)(1u << bit % 8);
}
static bool to_corrupt(const fk_function_t *f) { /* once for each launch, in their order */
    static uint64_t launches;
    const char *c = fk_config.corrupt, *colon = c ? strrchr(c, ':') : NULL;
    if (!colon || !f->meaning) return false;
    const char *names[] = {f->info->name, f->meaning->instr->name};
    size_t n = (size_t)(colon - c);
    for (int i = 0; i < 2; i++)
        if (strlen(names[i]) == n && !strncmp(c, names[i], n)) return ++launches == strtoull(colon + 1, NULL, 10);
    return false;
}

static CUresult run(fk_item_t *base) {
    launch_item_t *it = (launch_item_t *)base;
    const fk_function_t *f = it->function;
    if (it->lowered) {
        CUresult r = fk_run(it->lowered, f->info->name, it->memory);
        if (it->corrupt) corrupt(f->meaning, it->memory);
        return r;
    }
    const uint8_t *params[64];
    for (uint32_t i = 0; i < f->info->n_params && i < 64; i++) params[i] = it->block + f->info->params[i].offset;
    f->builtin->run(params, (uint8_t *const *)it->memory);
    return CUDA_SUCCESS;
}
static void drop(fk_item_t *base) { free(((launch_item_t *)base)->block); }

/* ---- arguments ---- */
static uint64_t word(const uint8_t *p) {
    uint64_t v = 0;
    memcpy(&v, p, 8);
    return v;
}

/* One argument that is an address: found, noted, used. */
static CUresult address(launch_item_t *it, fk_stream_t *s, uint32_t i, uint64_t addr, uint64_t bytes, bool write) {
    char what[200];
    const char *name = it->function->info->name;
    it->memory[i] = NULL;
    if (!bytes) return CUDA_SUCCESS;
    snprintf(what, sizeof what, "argument %u of '%s'", i, name);
    fk_mem_t *m = fk_mem_find(addr, bytes, what);
    if (!m) {
        fk_poison(s->base.ctx, CUDA_ERROR_ILLEGAL_ADDRESS); /* a device finds out later, with the same end */
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    if (m->ctx != s->base.ctx && m->kind != FK_MEM_PINNED && m->kind != FK_MEM_REGISTERED)
        fk_fault(FK_CONTEXT, 0, "%s is memory of device %d, the launch is on device %d", what, m->ctx->device,
                 s->base.ctx->device);
    it->base.uses[it->base.n_uses++] = (fk_use_t){m, addr, bytes, write, i};
    it->memory[i] = fk_mem_at(m, addr);
    return CUDA_SUCCESS;
}

static CUresult of_artifact(launch_item_t *it, fk_stream_t *s, const uint8_t *block) {
    const fk_function_t *f = it->function;
    const fk_meaning_t *m = f->meaning;
    uint64_t addr[ARGS_MOST];
    CUresult r = CUDA_SUCCESS;
    if (m->n_leaves != f->info->n_params || m->n_leaves > ARGS_MOST)
        return fk_fault(FK_KERNEL, CUDA_ERROR_LAUNCH_FAILED, "'%s' has %u parameters, instruction '%s' %u arrays",
                        f->info->name, f->info->n_params, m->instr->name, m->n_leaves);
    for (uint32_t i = 0; i < m->n_leaves && !r; i++) {
        const fk_param_t *p = &f->info->params[i];
        uint64_t bytes = m->leaves[i]->bytes;
        if (p->size == sizeof(CUtensorMap)) r = fk_tensor_map_address(block + p->offset, i, f->info->name, &addr[i]);
        else addr[i] = word(block + p->offset);
        if (!r) r = address(it, s, i, addr[i], bytes, i >= m->n_read);
    }
    fk_lowered_t *l = NULL;
    if (!r && !fk_config.empty) r = fk_lower(&it->function->lowered, m, addr, &l);
    it->lowered = l;
    return r;
}
static CUresult of_builtin(launch_item_t *it, fk_stream_t *s, const uint8_t *block) {
    const fk_function_t *f = it->function;
    const uint8_t *params[64];
    CUresult r = CUDA_SUCCESS;
    if (f->builtin->n_params != f->info->n_params || f->info->n_params > 64)
        return fk_fault(FK_KERNEL, CUDA_ERROR_LAUNCH_FAILED, "'%s' has %u parameters in its image, %u here",
                        f->info->name, f->info->n_params, f->builtin->n_params);
    for (uint32_t i = 0; i < f->info->n_params; i++) {
        params[i] = block + f->info->params[i].offset;
        if (f->info->params[i].size != f->builtin->sizes[i])
            return fk_fault(FK_KERNEL, CUDA_ERROR_LAUNCH_FAILED,
                            "'%s': parameter %u has %u bytes in its image, %u here", f->info->name, i,
                            f->info->params[i].size, f->builtin->sizes[i]);
    }
    for (uint32_t i = 0; i < f->info->n_params && !r; i++) {
        uint64_t bytes = 0;
        bool write = false;
        if (f->builtin->touches(params, i, &bytes, &write)) r = address(it, s, i, word(params[i]), bytes, write);
    }
    return r;
}

static CUresult fill_in(launch_item_t *it, fk_stream_t *s, const launch_op_t *op) {
    fk_function_t *f = op->function;
    it->function = f;
    fk_mem_t *code = f->module->code;
    it->base.who = f->name;
    it->base.uses[it->base.n_uses++] = (fk_use_t){code, code->addr, code->size, false, 0};
    if (f->meaning) return of_artifact(it, s, op->block);
    if (f->builtin) return of_builtin(it, s, op->block);
    if (fk_config.empty) return CUDA_SUCCESS;
    return fk_fault(FK_KERNEL, CUDA_ERROR_LAUNCH_FAILED, "no artifact of FAKECUDA_ARTIFACT has the kernel '%s'",
                    f->info->name);
}
static CUresult push(const fk_op_t *base, fk_stream_t *s) {
    const launch_op_t *op = (const launch_op_t *)base;
    const fk_kernel_info_t *info = op->function->info;
    if (!op->function->base.live)
        return fk_fault(FK_HANDLE, CUDA_ERROR_INVALID_HANDLE, "'%s' was unloaded by %s", info->name,
                        op->function->base.died);
    launch_item_t *it = calloc(1, sizeof *it + info->n_params * sizeof(void *));
    if (it) it->base.uses = calloc(info->n_params + 1, sizeof(fk_use_t));
    if (it) it->block = malloc(info->param_bytes + 1);
    CUresult r = it && it->base.uses && it->block ? fill_in(it, s, op) : CUDA_ERROR_OUT_OF_MEMORY;
    if (r) {
        if (it) free(it->base.uses), free(it->block);
        free(it);
        return r;
    }
    memcpy(it->block, op->block, info->param_bytes);
    it->base.run = fk_config.empty ? NULL : run;
    it->base.drop = drop;
    it->corrupt = to_corrupt(op->function);
    fk_note_launch(1);
    fk_push(s, &it->base);
    return CUDA_SUCCESS;
}

/* ---- the call ---- */
/* Can the bytes be read? A pipe takes only what can. Not asked where time is measured. */
static bool readable(const void *p, size_t n) {
    static int ends[2];
    char sink[512];
    if (fk_config.empty || (!ends[1] && pipe(ends))) return true;
    for (size_t at = 0; at < n; at += sizeof sink) {
        size_t part = n - at < sizeof sink ? n - at : sizeof sink;
        if (write(ends[1], (const char *)p + at, part) != (ssize_t)part) return false;
        if (read(ends[0], sink, part) != (ssize_t)part) return false;
    }
    return true;
}
#define BAD_ARGS(f, fmt, ...) \
    fk_fault(FK_ARGUMENTS, CUDA_ERROR_INVALID_VALUE, "'%s': " fmt, (f)->info->name, __VA_ARGS__)
/* The argument block, from whichever form the call has. */
static CUresult gather(const fk_function_t *f, void **params, void **extra, uint8_t *block) {
    const fk_kernel_info_t *k = f->info;
    memset(block, 0, k->param_bytes);
    if (extra) { /* (1, block), (2, &size), in any order, then 0 */
        const void *from = NULL;
        size_t size = 0;
        if (params) return BAD_ARGS(f, "%s", "both forms of arguments are given");
        for (; *extra; extra += 2) {
            if ((uintptr_t)extra[0] == 1) from = extra[1];
            else if ((uintptr_t)extra[0] == 2) memcpy(&size, extra[1], sizeof size);
            else return BAD_ARGS(f, "extra has the key %p", extra[0]);
        }
        if (size != k->param_bytes)
            return BAD_ARGS(f, "the argument block has %zu bytes, the kernel's %u", size, k->param_bytes);
        if (size && !from) return BAD_ARGS(f, "%s", "no argument block");
        if (size) memcpy(block, from, size);
        return CUDA_SUCCESS;
    }
    if (!k->n_params) return CUDA_SUCCESS;
    if (!params || !readable(params, k->n_params * sizeof *params))
        return BAD_ARGS(f, "its %u arguments cannot be read", k->n_params);
    for (uint32_t i = 0; i < k->n_params; i++) {
        if (!params[i] || !readable(params[i], k->params[i].size))
            return BAD_ARGS(f, "argument %u of %u cannot be read", i, k->n_params);
        memcpy(block + k->params[i].offset, params[i], k->params[i].size);
    }
    return CUDA_SUCCESS;
}

static CUresult bad_launch(const fk_function_t *f, const char *what, uint64_t got, uint64_t most) {
    return fk_fault(FK_LAUNCH, CUDA_ERROR_INVALID_VALUE, "'%s': %s %llu, at most %llu", f->info->name, what,
                    (unsigned long long)got, (unsigned long long)most);
}
static CUresult check_dims(const fk_function_t *f, const fk_dims_t *d) {
    static const uint32_t block_most[] = {1024, 1024, 64}, grid_most[] = {2147483647, 65535, 65535};
    uint64_t threads = (uint64_t)d->block[0] * d->block[1] * d->block[2], allowed = FK_SHARED_STATIC_MOST;
    for (int i = 0; i < 3; i++) {
        if (!d->block[i] || d->block[i] > block_most[i])
            return bad_launch(f, "threads of one dimension", d->block[i], block_most[i]);
        if (!d->grid[i] || d->grid[i] > grid_most[i])
            return bad_launch(f, "blocks of one dimension", d->grid[i], grid_most[i]);
        if (f->info->required[0] && d->block[i] != f->info->required[i])
            return bad_launch(f, "threads not as the image requires,", d->block[i], f->info->required[i]);
        if (d->cluster[0] && (!d->cluster[i] || d->grid[i] % d->cluster[i]))
            return bad_launch(f, "blocks not a multiple of the cluster,", d->grid[i], d->cluster[i]);
    }
    if (threads > f->info->max_threads) return bad_launch(f, "threads of a block", threads, f->info->max_threads);
    if (f->dynamic_shared + f->info->static_shared > allowed) allowed = f->dynamic_shared + f->info->static_shared;
    if ((uint64_t)d->shared + f->info->static_shared > allowed)
        return bad_launch(f, "bytes of shared memory", (uint64_t)d->shared + f->info->static_shared, allowed);
    if (!f->meaning) return CUDA_SUCCESS;
    for (uint32_t i = 0; i < f->meaning->n_dims; i++)
        if (!memcmp(d, &f->meaning->dims[i], sizeof *d)) return CUDA_SUCCESS;
    const fk_dims_t *w = &f->meaning->dims[0];
    fk_fault(FK_LAUNCH, 0, "'%s': grid %u,%u,%u block %u,%u,%u cluster %u,%u,%u shared %u, the artifact says grid "
             "%u,%u,%u block %u,%u,%u cluster %u,%u,%u shared %u", f->info->name, d->grid[0], d->grid[1], d->grid[2],
             d->block[0], d->block[1], d->block[2], d->cluster[0], d->cluster[1], d->cluster[2],
             d->shared, w->grid[0], w->grid[1], w->grid[2], w->block[0], w->block[1], w->block[2],
             w->cluster[0], w->cluster[1], w->cluster[2], w->shared);
    return CUDA_SUCCESS;
}

static CUresult launch(CUfunction function, const fk_dims_t *dims, CUstream stream, void **params, void **extra) {
    CUresult r = CUDA_SUCCESS;
    fk_function_t *f = fk_get(function, FK_FUNCTION, true, &r);
    fk_stream_t *s = f ? fk_stream_for_work(stream, &r) : NULL;
    if (!s || (r = check_dims(f, dims))) return r;
    if (f->info->param_bytes > BLOCK_MOST) return CUDA_ERROR_NOT_SUPPORTED;
    _Alignas(16) uint8_t room[sizeof(launch_op_t) + BLOCK_MOST];
    launch_op_t *op = (launch_op_t *)(void *)room;
    size_t bytes = sizeof *op + f->info->param_bytes;
    op->op = (fk_op_t){.push = push, .bytes = bytes, .shape = (uint64_t)f->base.index << 8 | 0xff};
    op->function = f;
    op->dims = *dims;
    if ((r = gather(f, params, extra, op->block))) return r;
    return fk_issue(s, &op->op);
}

FK_EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                  unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                  CUstream stream, void **params, void **extra) {
    FK_ENTER(cuLaunchKernel, 0);
    fk_dims_t d = {.grid = {grid_x, grid_y, grid_z}, .block = {block_x, block_y, block_z}, .shared = shared_bytes};
    return fk_leave(launch(function, &d, stream, params, extra));
}
FK_EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction function, void **params, void **extra) {
    FK_ENTER(cuLaunchKernelEx, 0);
    if (!c) return fk_leave(CUDA_ERROR_INVALID_VALUE);
    fk_dims_t d = {.grid = {c->gridDimX, c->gridDimY, c->gridDimZ}, .block = {c->blockDimX, c->blockDimY, c->blockDimZ},
                   .shared = c->sharedMemBytes};
    for (unsigned i = 0; i < c->numAttrs; i++) {
        const CUlaunchAttribute *a = &c->attrs[i];
        if (a->id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
            d.cluster[0] = a->value.clusterDim.x;
            d.cluster[1] = a->value.clusterDim.y;
            d.cluster[2] = a->value.clusterDim.z;
        } else if (a->id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) {
            return fk_leave(fk_fault(FK_LAUNCH, CUDA_ERROR_INVALID_VALUE, "launch attribute %d is not known here",
                                     a->id));
        }
    }
    return fk_leave(launch(function, &d, c->hStream, params, extra));
}
