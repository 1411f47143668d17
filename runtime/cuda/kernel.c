/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels: a function of a loaded image, and how the arguments of a launch become its parameters. Everything that can
 * be is checked and prepared when the kernel is lowered; a launch fills an array of addresses on the stack. */
#include <string.h>

#include "base/limits.h"
#include "runtime/cuda/library.h"

/* Tensor maps are of unsigned integers as wide as an element, as XLA's. */
enum { MAP_U8 = 0, MAP_U16 = 1, MAP_U32 = 2, MAP_U64 = 4 };
enum { PORTABLE_CLUSTER = 8, CLUSTER_MAJOR = 9 };

typedef struct parameter {
    int32_t arg, map;  /* -1: none; a map stands for its argument */
    void *bytes;       /* constants: in the arena */
} parameter_t;

typedef struct zero {
    uint32_t arg;
    uint64_t bytes;
} zero_t;

typedef struct kernel {
    td_kernel_t base;
    td_cuda_device_t *device;
    td_cuda_module_t *module;
    const char *name;
    CUfunction function;
    uint32_t grid[3], block[3], shared_bytes;
    CUlaunchAttribute attributes[2];
    uint32_t n_attributes; /* none: the plain call */
    uint32_t n_args, n_params, n_maps, n_zeroed;
    const parameter_t *params;
    const td_tma_t *maps;
    const zero_t *zeroed;
} kernel_t;

/* ---- launch ---- */
static td_status_t encode(const kernel_t *k, const td_tma_t *m, void *address, CUtensorMap *out, td_err_t *err) {
    static const int types[] = {[1] = MAP_U8, [2] = MAP_U16, [4] = MAP_U32, [8] = MAP_U64};
    return TD_CU(k->device, k->name, err, cuTensorMapEncodeTiled, out, types[m->element_bytes], m->rank, address,
                 m->dims,
                 m->strides, m->box, m->element_strides, m->interleave, m->swizzle, m->l2_promotion, m->oob_fill);
}

static td_status_t start(td_stream_t *s, const kernel_t *k, void **params, td_err_t *err) {
    td_cuda_device_t *d = k->device;
    CUstream q = ((td_cuda_stream_t *)s)->handle;
    if (!k->n_attributes)
        return TD_CU(d, k->name, err, cuLaunchKernel, k->function, k->grid[0], k->grid[1], k->grid[2], k->block[0],
                     k->block[1], k->block[2], k->shared_bytes, q, params, NULL);
    CUlaunchAttribute attributes[2] = {k->attributes[0], k->attributes[1]};
    CUlaunchConfig c = {.gridDimX = k->grid[0], .gridDimY = k->grid[1], .gridDimZ = k->grid[2],
                        .blockDimX = k->block[0],
                        .blockDimY = k->block[1], .blockDimZ = k->block[2], .sharedMemBytes = k->shared_bytes,
                        .hStream = q, .attrs = attributes, .numAttrs = k->n_attributes};
    return TD_CU(d, k->name, err, cuLaunchKernelEx, &c, k->function, params, NULL);
}

static td_status_t launch(td_stream_t *s, const td_kernel_t *base, void *const *bufs, uint32_t n, void *scratch,
                          td_err_t *err) {
    const kernel_t *k = (const kernel_t *)base;
    CUtensorMap maps[TD_LIMIT_TMA_ARGS];
    void *params[TD_LIMIT_KERNEL_ARGS];
    td_status_t st = TD_OK;
    (void)scratch;
    if (n != k->n_args) return td_fail(err, TD_INTERNAL, "%s: %u buffers for %u arguments", k->name, n, k->n_args);
    for (uint32_t i = 0; i < k->n_zeroed && !st; i++)
        st = td_cuda_memset32(s, bufs[k->zeroed[i].arg], 0, k->zeroed[i].bytes, err);
    for (uint32_t i = 0; i < k->n_maps && !st; i++) st = encode(k, &k->maps[i], bufs[k->maps[i].arg], &maps[i], err);
    if (st) return st;
    for (uint32_t i = 0; i < k->n_params; i++) {
        const parameter_t *p = &k->params[i];
        params[i] = p->map >= 0 ? (void *)&maps[p->map] : p->arg >= 0 ? (void *)(uintptr_t)&bufs[p->arg] : p->bytes;
    }
    return start(s, k, params, err);
}

static void release(td_kernel_t *base) {
    kernel_t *k = (kernel_t *)base;
    if (!k->module) return;
    (void)td_cuda_enter(k->device, NULL);
    td_cuda_module_put(k->device, k->module);
    k->module = NULL;
}

/* ---- lowering ---- */
static uint32_t parameter_bytes(const td_launch_t *l, const parameter_t *p, uint32_t i) {
    return p->map >= 0 ? (uint32_t)sizeof(CUtensorMap) : p->arg >= 0 ? 8 : (uint32_t)l->params[i].bytes.size;
}

static td_status_t parameters(kernel_t *k, const td_launch_t *l, td_arena_t *arena, td_err_t *err) {
    parameter_t *v = TD_NEW_N(arena, parameter_t, l->n_params);
    td_tma_t *maps = TD_NEW_N(arena, td_tma_t, l->n_tma);
    if (!v || !maps) return td_arena_fail(arena, err);
    if (l->n_tma) memcpy(maps, l->tma, l->n_tma * sizeof *maps);
    for (uint32_t i = 0; i < l->n_params; i++) {
        v[i] = (parameter_t){.arg = l->params[i].arg, .map = -1};
        for (uint32_t m = 0; m < l->n_tma; m++)
            if (v[i].arg >= 0 && maps[m].arg == (uint32_t)v[i].arg) v[i].map = (int32_t)m;
        if (v[i].arg >= 0) continue;
        /* Eight bytes at least: constants may be narrower than the parameter that is read. */
        v[i].bytes = td_arena_zalloc(arena, l->params[i].bytes.size + 8);
        if (!v[i].bytes) return td_arena_fail(arena, err);
        memcpy(v[i].bytes, l->params[i].bytes.data, l->params[i].bytes.size);
    }
    k->params = v, k->n_params = l->n_params;
    k->maps = maps, k->n_maps = l->n_tma;
    if (k->n_maps && !k->device->cu.cuTensorMapEncodeTiled)
        return td_fail(err, TD_UNSUPPORTED, "takes tensor maps, which the driver does not have (CUDA %d.%d)",
                       k->device->cu.version / 1000, k->device->cu.version % 1000 / 10);
    return TD_OK;
}

static td_status_t check_one(const td_launch_t *l, const kernel_t *k, uint32_t i, uint64_t size, td_err_t *err) {
    uint32_t have = parameter_bytes(l, &k->params[i], i);
    bool constant = k->params[i].arg < 0;
    if (size <= have || (constant && size <= 8)) return TD_OK;
    return td_fail(err, TD_MISMATCH, "parameter %u of the code has %llu bytes, the thunk gives %u", i,
                   (unsigned long long)size, have);
}

/* The driver reads as many bytes per parameter as the code says, whatever it is given. */
static td_status_t check_parameters(const kernel_t *k, const td_launch_t *l, const td_cubin_kernel_t *c,
                                    td_err_t *err) {
    td_status_t st = TD_OK;
    uint32_t n = 0;
    if (c && c->params_known) {
        n = c->n_params;
        for (uint32_t i = 0; i < n && i < k->n_params && !st; i++) st = check_one(l, k, i, c->params[i].size, err);
    } else if (k->device->cu.cuFuncGetParamInfo) {
        for (size_t offset = 0, size = 0; n <= TD_LIMIT_KERNEL_ARGS && !st; n++) {
            if (k->device->cu.cuFuncGetParamInfo(k->function, n, &offset, &size)) break; /* past the last */
            if (n < k->n_params) st = check_one(l, k, n, size, err);
        }
    } else {
        return TD_OK; /* an older driver, and code that says nothing */
    }
    if (st || n == k->n_params) return st;
    return td_fail(err, TD_MISMATCH, "the code takes %u parameters, the thunk gives %u", n, k->n_params);
}

static td_status_t dimensions(kernel_t *k, const td_launch_t *l, const td_cubin_kernel_t *c, td_err_t *err) {
    const td_cuda_device_t *d = k->device;
    uint64_t threads = 1;
    for (int i = 0; i < 3; i++) {
        if (!l->grid[i] || !l->block[i]) return td_fail(err, TD_MALFORMED, "the thunk has no launch dimensions");
        if (l->grid[i] > (uint32_t)d->grid_most[i] || l->block[i] > (uint32_t)d->block_most[i])
            return td_fail(err, TD_MISMATCH, "%u blocks of %u threads along %c, %s allows %d of %d", l->grid[i],
                           l->block[i],
                           'x' + i, d->name, d->grid_most[i], d->block_most[i]);
        if (c && c->block[0] && c->block[i] != l->block[i])
            return td_fail(err, TD_MISMATCH, "blocks of %ux%ux%u threads, the code was compiled for %ux%ux%u",
                           l->block[0],
                           l->block[1], l->block[2], c->block[0], c->block[1], c->block[2]);
        threads *= l->block[i]; /* the limits keep this below 2^64 */
        k->grid[i] = l->grid[i], k->block[i] = l->block[i];
    }
    if (threads > (uint64_t)d->threads_most)
        return td_fail(err, TD_MISMATCH, "%llu threads per block, %s allows %d", (unsigned long long)threads, d->name,
                       d->threads_most);
    return TD_OK;
}

/* Cluster and PDL are attributes of the newer call. */
static td_status_t attributes(kernel_t *k, const td_launch_t *l, td_err_t *err) {
    td_cuda_device_t *d = k->device;
    bool newer = d->major >= CLUSTER_MAJOR && d->cu.cuLaunchKernelEx;
    uint64_t blocks = 1;
    for (int i = 0; i < 3 && l->cluster[0]; i++) {
        if (!l->cluster[i] || l->grid[i] % l->cluster[i])
            return td_fail(err, TD_MALFORMED, "%u blocks along %c in clusters of %u", l->grid[i], 'x' + i,
                           l->cluster[i]);
        if (blocks <= UINT32_MAX) blocks *= l->cluster[i];
    }
    if (blocks > 1 && !newer)
        return td_fail(err, TD_UNSUPPORTED, "clusters of %llu blocks take compute capability 9.0, %s has %d.%d",
                       (unsigned long long)blocks, d->name, d->major, d->minor);
    if (blocks > PORTABLE_CLUSTER)
        return td_fail(err, TD_UNSUPPORTED, "clusters of %llu blocks, more than %d", (unsigned long long)blocks,
                       PORTABLE_CLUSTER);
    if (l->cluster[0] && newer) {
        CUlaunchAttribute *a = &k->attributes[k->n_attributes++];
        a->id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        a->value.clusterDim.x = l->cluster[0], a->value.clusterDim.y = l->cluster[1], a->value.clusterDim.z = l->cluster[2];
    }
    if (l->pdl && newer) {
        CUlaunchAttribute *a = &k->attributes[k->n_attributes++];
        a->id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        a->value.programmaticStreamSerializationAllowed = 1;
    }
    return TD_OK;
}

/* More dynamic shared memory than the default 48 KiB must be asked for; kernels may share the function, so never less. */
static td_status_t shared_memory(kernel_t *k, const td_launch_t *l, td_err_t *err) {
    td_cuda_device_t *d = k->device;
    int fixed = 0, most = 0;
    td_status_t st = TD_CU(d, k->name, err, cuFuncGetAttribute, &fixed, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
                           k->function);
    if (st) return st;
    if (fixed < 0 || (uint64_t)l->shared_bytes + (uint64_t)fixed > (uint64_t)d->shared_most)
        return td_fail(err, TD_MISMATCH, "%u bytes of dynamic and %d of static shared memory, %s has %d for a block",
                       l->shared_bytes, fixed, d->name, d->shared_most);
    k->shared_bytes = l->shared_bytes;
    if ((st = TD_CU(d, k->name, err, cuFuncGetAttribute, &most, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                    k->function)))
        return st;
    if (most >= 0 && (uint32_t)most >= l->shared_bytes) return TD_OK;
    return TD_CU(d, k->name, err, cuFuncSetAttribute, k->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                 (int)l->shared_bytes);
}

static td_status_t zeroes(kernel_t *k, const td_kernel_desc_t *desc, td_arena_t *arena, td_err_t *err) {
    const td_launch_t *l = desc->launch;
    zero_t *v = TD_NEW_N(arena, zero_t, l->n_zeroed);
    if (!v) return td_arena_fail(arena, err);
    for (uint32_t i = 0; i < l->n_zeroed; i++) {
        if (l->zeroed[i] >= desc->n_args) return td_fail(err, TD_INTERNAL, "zeroed argument %u of %u", l->zeroed[i],
                                                         desc->n_args);
        v[i] = (zero_t){l->zeroed[i], desc->args[l->zeroed[i]].size};
    }
    k->zeroed = v, k->n_zeroed = l->n_zeroed;
    return TD_OK;
}

static td_status_t function(kernel_t *k, const td_launch_t *l, const td_cubin_kernel_t **out, td_err_t *err) {
    td_cuda_module_t *m = k->module;
    *out = td_cubin_find(&m->cubin, l->symbol);
    if (m->cubin.sm && !*out)
        return td_fail(err, TD_NOTFOUND, "the code has no kernel of that name; it has %u%s%s", m->cubin.n_kernels,
                       m->cubin.n_kernels ? ", the first is " : "", m->cubin.n_kernels ? m->cubin.kernels[0].name : "");
    return TD_CU(k->device, k->name, err, cuModuleGetFunction, &k->function, m->handle, l->symbol);
}

static td_status_t lower(kernel_t *k, const td_kernel_desc_t *desc, td_arena_t *arena, td_err_t *err) {
    const td_launch_t *l = desc->launch;
    const td_cubin_kernel_t *c = NULL;
    td_status_t st;
    if (l->kind == TD_IMAGE_NONE) return td_fail(err, TD_MALFORMED, "the artifact holds no code for it");
    if (l->n_tma > TD_LIMIT_TMA_ARGS || l->n_params > TD_LIMIT_KERNEL_ARGS)
        return td_fail(err, TD_INTERNAL, "%u tensor maps, %u parameters", l->n_tma, l->n_params);
    if ((st = parameters(k, l, arena, err)) || (st = zeroes(k, desc, arena, err)) ||
        (st = td_cuda_module_get(k->device, l, arena, &k->module, err)))
        return st;
    if ((st = function(k, l, &c, err)) || (st = check_parameters(k, l, c, err)) || (st = dimensions(k, l, c, err)) ||
        (st = attributes(k, l, err)))
        return st;
    return shared_memory(k, l, err);
}

td_status_t td_cuda_kernel_lower(td_device_t *dev, const td_kernel_desc_t *desc, td_arena_t *arena, td_kernel_t **out,
                                 uint64_t *out_scratch, td_err_t *err) {
    td_cuda_device_t *d = (td_cuda_device_t *)dev;
    td_status_t st = td_cuda_enter(d, err);
    if (st) return st;
    if (!desc->launch)
        return td_fail(err, TD_MALFORMED, "kernel '%s': the thunk does not say what to launch",
                       desc->name ? desc->name : "");
    if (desc->launch->kind == TD_IMAGE_SYMBOL) return td_cuda_symbol_lower(d, desc, arena, out, out_scratch, err);
    kernel_t *k = TD_NEW(arena, kernel_t);
    if (!k) return td_arena_fail(arena, err);
    k->base = (td_kernel_t){.launch = launch, .release = release};
    k->device = d;
    k->n_args = desc->n_args;
    k->name = td_arena_strndup(arena, desc->launch->symbol, strlen(desc->launch->symbol));
    if (!k->name) return td_arena_fail(arena, err);
    if ((st = lower(k, desc, arena, err))) {
        release(&k->base);
        return td_prefix(err, st, "kernel '%s'", k->name);
    }
    *out = &k->base;
    *out_scratch = 0;
    return TD_OK;
}
