/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "runtime/cuda/cuda.h"

enum { LOG = 1024 }; /* what the driver's compiler says of PTX */

/* PTX goes to the driver with a NUL behind it, which the artifact does not have. */
static td_status_t load_ptx(td_cuda_device_t *d, td_span_t image, CUmodule *out, td_err_t *err) {
    char log[LOG] = "", *text = d->base.alloc->get(d->base.alloc->ctx, image.size + 1, 16);
    if (!text) return td_fail(err, TD_NOMEM, "no memory for %zu bytes of PTX", image.size);
    memcpy(text, image.data, image.size);
    text[image.size] = 0;
    int options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)LOG};
    CUresult r = d->cu.cuModuleLoadDataEx(out, text, 2, options, values);
    d->base.alloc->put(d->base.alloc->ctx, text, image.size + 1);
    log[LOG - 1] = 0;
    td_status_t st = td_cuda_check(d, r, "cuModuleLoadDataEx", "PTX", err);
    return st && *log ? td_prefix(err, st, "%.200s", log) : st;
}

static td_status_t load(td_cuda_device_t *d, const td_launch_t *l, td_cuda_module_t *m, td_err_t *err) {
    td_status_t st;
    if (l->kind == TD_IMAGE_PTX) return load_ptx(d, l->image, &m->handle, err);
    if ((st = td_cubin_fits(&m->cubin, d->major, d->minor, err))) return st;
    return TD_CU(d, "code", err, cuModuleLoadDataEx, &m->handle, l->image.data, 0, NULL, NULL);
}

/* The constants that the artifact names are variables of its binary; code may use them by name. */
static td_status_t fill(td_cuda_device_t *d, const td_launch_t *l, td_cuda_module_t *m, td_err_t *err) {
    td_stream_t *q = NULL;
    td_status_t st = l->n_globals ? td_cuda_stream_create(&d->base, TD_STREAM_MAIN, &q, err) : TD_OK;
    for (uint32_t i = 0; i < l->n_globals && !st; i++) {
        const td_global_t *g = &l->globals[i];
        CUdeviceptr at = 0;
        size_t room = 0;
        CUresult r = d->cu.cuModuleGetGlobal_v2(&at, &room, m->handle, g->symbol);
        if (r) st = td_cuda_check(d, r, "cuModuleGetGlobal_v2", g->symbol, err);
        else if (g->bytes.size > room)
            st = td_fail(err, TD_MISMATCH, "constant '%s' has %zu bytes, its variable in the binary %zu", g->symbol,
                         g->bytes.size, room);
        else st = td_cuda_upload(q, (void *)(uintptr_t)at, g->bytes.data, g->bytes.size, err);
    }
    if (q) {
        td_status_t sync = td_cuda_stream_sync(q, st ? NULL : err);
        if (!st) st = sync;
        td_cuda_stream_destroy(q);
    }
    return st;
}

/* Names code and what its variables are filled with. */
static td_status_t name_of(const td_launch_t *l, td_content_t *out, td_err_t *err) {
    td_content_t v[3] = {{{0}}};
    td_status_t st = td_content_of(l->image, &v[0], err);
    for (uint32_t i = 0; i < l->n_globals && !st; i++) {
        const td_global_t *g = &l->globals[i];
        st = td_content_of((td_span_t){(const uint8_t *)g->symbol, strlen(g->symbol)}, &v[1], err);
        if (!st) st = td_content_of(g->bytes, &v[2], err);
        if (!st) st = td_content_of((td_span_t){(const uint8_t *)v, sizeof v}, &v[0], err);
    }
    *out = v[0];
    return st;
}

static void release(td_cuda_device_t *d, td_cuda_module_t *m) {
    if (m->handle) d->cu.cuModuleUnload(m->handle);
    td_arena_deinit(&m->arena);
    d->base.alloc->put(d->base.alloc->ctx, m, sizeof *m);
}

/* What a module is shared within: the device, the program, or nothing (then, it is itself). */
static const void *scope_of(const td_cuda_module_t *m, const void *program) {
    if (!m->cubin.state) return NULL;
    return m->kind == TD_IMAGE_MODULE ? program : m;
}

static td_status_t add(td_cuda_device_t *d, const td_launch_t *l, const td_content_t *name, const void *program,
                       td_cuda_module_t **out, td_err_t *err) {
    td_cuda_module_t *m = d->base.alloc->get(d->base.alloc->ctx, sizeof *m, 16);
    if (!m) return td_fail(err, TD_NOMEM, "no memory for a module");
    *m = (td_cuda_module_t){.content = *name, .kind = l->kind, .refs = 1};
    td_arena_init(&m->arena, d->base.alloc, 0);
    td_status_t st = TD_OK;
    if (l->kind == TD_IMAGE_PTX) m->cubin.state = true; /* not looked into */
    else st = td_cubin_read(l->image, &m->arena, &m->cubin, err);
    if (!st) st = load(d, l, m, err);
    if (!st) st = fill(d, l, m, err);
    if (st) {
        release(d, m);
        return st;
    }
    m->scope = scope_of(m, program);
    *out = m;
    return TD_OK;
}

static td_cuda_module_t *find(td_cuda_device_t *d, const td_launch_t *l, const td_content_t *name,
                              const void *program) {
    for (td_cuda_module_t *m = d->modules; m; m = m->next)
        if (m->kind == l->kind && td_content_equal(&m->content, name) && (!m->scope || m->scope == program)) return m;
    return NULL;
}

/* Loading goes on outside the lock: it takes long, and errors take the lock. Two that load the same keep one. */
td_status_t td_cuda_module_get(td_cuda_device_t *d, const td_launch_t *l, const void *program, td_cuda_module_t **out,
                               td_err_t *err) {
    td_content_t name = {{0}};
    td_cuda_module_t *mine = NULL;
    td_status_t st = name_of(l, &name, err);
    if (st) return st;
    pthread_mutex_lock(&d->lock);
    td_cuda_module_t *m = find(d, l, &name, program);
    if (m) m->refs++;
    pthread_mutex_unlock(&d->lock);
    if (m) {
        *out = m;
        return TD_OK;
    }
    st = add(d, l, &name, program, &mine, err);
    if (st) return st;
    pthread_mutex_lock(&d->lock);
    if ((m = find(d, l, &name, program))) {
        m->refs++;
    } else {
        mine->next = d->modules;
        d->modules = m = mine;
        mine = NULL;
    }
    pthread_mutex_unlock(&d->lock);
    if (mine) release(d, mine);
    *out = m;
    return TD_OK;
}

void td_cuda_module_put(td_cuda_device_t *d, td_cuda_module_t *m) {
    pthread_mutex_lock(&d->lock);
    bool last = !--m->refs;
    for (td_cuda_module_t **p = &d->modules; last && *p; p = &(*p)->next)
        if (*p == m) {
            *p = m->next;
            break;
        }
    pthread_mutex_unlock(&d->lock);
    if (last) release(d, m);
}
