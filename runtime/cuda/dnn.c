/* SPDX-License-Identifier: Apache-2.0 */
/* cuDNN: the library, and launches of its plans. */
#include "runtime/cuda/dnn.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"

enum {
    VERSION_LEAST = 90000, /* 10000 * major + 100 * minor + patch; older ones count and name errors otherwise */
    AREA_ALIGNMENT = 256
};

/* ---- the library ---- */
static td_status_t status_of(cudnnStatus_t r) {
    if (r == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
        r == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED)
        return TD_NOMEM;
    return r < 4000 ? TD_UNSUPPORTED : TD_DEVICE; /* no such library part, not so, not at all */
}
/* The reason on the first line that has one, else the last line; lines are calls inside of cuDNN, innermost first. */
void td_dnn_reason(const td_dnn_t *dnn, char *out, size_t room) {
    char all[2048] = "";
    dnn->cudnnGetLastErrorString(all, sizeof all);
    all[sizeof all - 1] = 0;
    char *end = all + strlen(all), *at = strstr(all, "Reason: ");
    while (end > all && end[-1] == '\n') *--end = 0;
    if (at)
        at += strlen("Reason: ");
    else
        at = strrchr(all, '\n') ? strrchr(all, '\n') + 1 : all;
    at[strcspn(at, "\n")] = 0;
    snprintf(out, room, "%s%.*s", *at ? ": " : "", (int)room - 3, at);
}
static td_status_t fail(const td_dnn_t *dnn, cudnnStatus_t r, const char *who, const char *what, td_err_t *err) {
    char why[200];
    const char *name = dnn->cudnnGetErrorString(r);
    td_dnn_reason(dnn, why, sizeof why);
    return td_fail(err, status_of(r), "%s: %s: %s (%d)%s", who, what, name ? name : "an error without a name", r, why);
}
td_status_t td_dnn_check(const td_dnn_kernel_t *k, cudnnStatus_t r, const char *what, td_err_t *err) {
    return r ? fail(k->dnn, r, k->text, what, err) : TD_OK;
}

extern const td_cuda_lib_t td_dnn_lib;
static td_status_t start(td_cuda_device_t *d, void *lib, const char *file, td_err_t *err) {
    td_dnn_t *dnn = lib;
    char have[32];
    size_t v = dnn->cudnnGetVersion();
    (void)d;
    if (v < 10000)
        snprintf(have, sizeof have, "%zu.%zu", v / 1000, v / 100 % 10); /* before 9: 1000 * major */
    else
        snprintf(have, sizeof have, "%zu.%zu.%zu", v / 10000, v / 100 % 100, v % 100);
    td_status_t st = td_cuda_lib_version(&td_dnn_lib, file, (long)v, VERSION_LEAST, have, "9.0", err);
    if (st) return st;
    cudnnStatus_t r = dnn->cudnnCreate(&dnn->handle);
    if (r) return fail(dnn, r, file, "cudnnCreate", err);
    pthread_mutex_init(&dnn->lock, NULL);
    return TD_OK;
}
static void stop(td_cuda_device_t *d, void *lib) {
    td_dnn_t *dnn = lib;
    (void)d;
    dnn->cudnnDestroy(dnn->handle);
    pthread_mutex_destroy(&dnn->lock);
}

#define ROW(needed, type, name, args) TD_CUDA_LIB_ROW(td_dnn_t, needed, name)
static const td_cuda_symbol_t symbols[] = {TD_DNN_SYMBOLS(ROW)};
const td_cuda_lib_t td_dnn_lib = {
    .name = "cuDNN",
    .package = "cuDNN 9 for the driver's CUDA release",
    .files = {{"libcudnn.so.9", 12000}},
    .symbols = symbols,
    .n_symbols = sizeof symbols / sizeof *symbols,
    .bytes = sizeof(td_dnn_t),
    .start = start,
    .stop = stop,
};

/* ---- the launch ---- */
static uint64_t area(uint64_t bytes) { return td_align_up(bytes, AREA_ALIGNMENT); }
uint64_t td_dnn_scratch(const td_dnn_kernel_t *k) {
    uint64_t bytes = area(k->zeros) + area(k->spare) + k->workspace;
    return bytes ? bytes + AREA_ALIGNMENT : 0;
}

/* Addresses in the order of uids, then the workspace. */
static td_status_t addresses(const td_dnn_kernel_t *k, void *const *bufs, char *base, const void **out, td_err_t *err) {
    for (uint32_t i = 0; i < k->n_tensors; i++) {
        int32_t f = k->from[i];
        out[i] = f >= 0 ? bufs[f] : f == TD_DNN_ZEROS ? base : base + area(k->zeros);
        if (f <= TD_DNN_VALUE) out[i] = &k->values[TD_DNN_VALUE - f];
        if (f >= 0 && (uintptr_t)out[i] % TD_DNN_ALIGNMENT)
            return td_fail(err, TD_UNSUPPORTED, "%s: buffer %d lies at %p; cuDNN takes multiples of %d bytes", k->text,
                           f, out[i], TD_DNN_ALIGNMENT);
    }
    out[k->n_tensors] = k->workspace ? base + area(k->zeros) + area(k->spare) : NULL;
    return TD_OK;
}

static void drop_pack(td_dnn_kernel_t *k) {
    if (k->pack) k->dnn->cudnnBackendDestroyDescriptor(k->pack);
    k->pack = NULL;
}
/* A finished pack cannot be changed. That of the latest launch serves again while the addresses are the same, as they
 * are from run to run of one binding. */
static td_status_t make_pack(td_dnn_kernel_t *k, const void *const *at, td_err_t *err) {
    const td_dnn_t *dnn = k->dnn;
    if (k->pack && !memcmp(at, k->packed, (k->n_tensors + 1) * sizeof *at)) return TD_OK;
    drop_pack(k);
    cudnnStatus_t r = dnn->cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &k->pack);
    if (r) k->pack = NULL;
    if (!r)
        r = dnn->cudnnBackendSetAttribute(k->pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, k->n_tensors,
                                          k->uids);
    if (!r)
        r = dnn->cudnnBackendSetAttribute(k->pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
                                          k->n_tensors, at);
    if (!r)
        r = dnn->cudnnBackendSetAttribute(k->pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
                                          &at[k->n_tensors]);
    if (!r) r = dnn->cudnnBackendFinalize(k->pack);
    if (!r) {
        memcpy(k->packed, at, (k->n_tensors + 1) * sizeof *at);
        return TD_OK;
    }
    td_status_t st = td_dnn_check(k, r, "variant pack", err);
    drop_pack(k);
    return st;
}

static td_status_t execute(td_stream_t *s, td_dnn_kernel_t *k, void *const *bufs, void *scratch, td_err_t *err) {
    const void *at[TD_DNN_TENSORS + 1];
    char *base = (char *)area((uintptr_t)scratch);
    td_status_t st = addresses(k, bufs, base, at, err);
    if (!st && k->zeros) st = td_cuda_memset32(s, base, 0, k->zeros, err);
    for (uint32_t i = 0; i < k->n_clear && !st; i++)
        st = td_cuda_memset32(s, bufs[k->clear[i].buffer], 0, k->clear[i].bytes, err);
    if (st) return st;
    pthread_mutex_lock(&k->dnn->lock);
    st = make_pack(k, at, err);
    if (!st)
        st = td_dnn_check(k, k->dnn->cudnnSetStream(k->dnn->handle, ((td_cuda_stream_t *)s)->handle), "cudnnSetStream",
                          err);
    if (!st)
        st = td_dnn_check(k, k->dnn->cudnnBackendExecute(k->dnn->handle, k->plan, k->pack), "cudnnBackendExecute", err);
    pthread_mutex_unlock(&k->dnn->lock);
    return st;
}

static td_status_t launch(td_stream_t *s, const td_kernel_t *base, void *const *bufs, uint32_t n, void *scratch,
                          td_err_t *err) {
    td_dnn_kernel_t *k = (td_dnn_kernel_t *)(uintptr_t)base; /* its pack changes */
    if (n < k->n_bufs) return td_fail(err, TD_INTERNAL, "%s: %u buffers instead of %u", k->text, n, k->n_bufs);
    if (k->plan) return execute(s, k, bufs, scratch, err);
    return td_cuda_memset32(s, bufs[k->fill_buffer], 0, k->fill, err);
}

void td_dnn_release(td_kernel_t *base) {
    td_dnn_kernel_t *k = (td_dnn_kernel_t *)base;
    if (!k->dnn) return;
    (void)td_cuda_enter(k->device, NULL);
    drop_pack(k);
    while (k->n_made) k->dnn->cudnnBackendDestroyDescriptor(k->made[--k->n_made]);
    if (k->filter) k->dnn->cudnnDestroyFilterDescriptor(k->filter);
    k->filter = NULL;
    k->plan = NULL;
}

td_status_t td_dnn_new(td_cuda_device_t *d, const char *who, td_arena_t *arena, td_dnn_kernel_t **out, td_err_t *err) {
    td_dnn_kernel_t *k = TD_NEW(arena, td_dnn_kernel_t);
    if (!k) return td_arena_fail(arena, err);
    k->base = (td_kernel_t){.launch = launch, .release = td_dnn_release};
    k->device = d;
    td_status_t st = td_cuda_lib_get(d, &td_dnn_lib, who, &k->dnn, err);
    *out = k;
    return st;
}
