/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cuda/lib.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

struct td_cuda_lib_open {
    td_cuda_lib_open_t *next;
    const td_cuda_lib_t *lib;
    size_t bytes; /* of all this */
    _Alignas(16) char body[]; /* the library's struct */
};

static td_status_t resolve(const td_cuda_lib_t *lib, void *handle, const char *file, char *body, td_err_t *err) {
    for (size_t i = 0; i < lib->n_symbols; i++) {
        void *p = dlsym(handle, lib->symbols[i].name);
        if (!p && lib->symbols[i].needed)
            return td_fail(err, TD_UNSUPPORTED, "%s has no %s; install %s", file, lib->symbols[i].name, lib->package);
        memcpy(body + lib->symbols[i].at, &p, sizeof p);
    }
    return TD_OK;
}

/* The newest file that loads, among those that the driver serves. */
static td_status_t find(const td_cuda_device_t *d, const td_cuda_lib_t *lib, void **out, const char **file,
                        td_err_t *err) {
    char tried[256] = "", why[256] = "";
    for (size_t i = 0; i < sizeof lib->files / sizeof *lib->files && lib->files[i].file; i++) {
        const td_cuda_soname_t *f = &lib->files[i];
        size_t n = strlen(tried);
        if (f->driver > d->cu.version) {
            snprintf(tried + n, sizeof tried - n, "%s%s (for drivers of CUDA %d and newer)", n ? ", " : "", f->file,
                     f->driver / 1000);
            continue;
        }
        *out = dlopen(f->file, RTLD_NOW | RTLD_LOCAL);
        *file = f->file;
        if (*out) return TD_OK;
        const char *text = dlerror();
        /* A library that is there but does not load says more than one that is not. */
        if (text && (!*why || !strstr(text, "cannot open shared object file"))) snprintf(why, sizeof why, "%s", text);
        snprintf(tried + n, sizeof tried - n, "%s%s", n ? ", " : "", f->file);
    }
    return td_fail(err, TD_UNSUPPORTED, "none of %s can be loaded (the driver serves CUDA %d.%d)%s%s; install %s",
                   tried, d->cu.version / 1000, d->cu.version % 1000 / 10, *why ? ": " : "", why, lib->package);
}

static td_status_t open_one(td_cuda_device_t *d, const td_cuda_lib_t *lib, td_cuda_lib_open_t *o, td_err_t *err) {
    void *handle = NULL;
    const char *file = "";
    td_status_t st = find(d, lib, &handle, &file, err);
    if (!st) st = resolve(lib, handle, file, o->body, err);
    return st ? st : lib->start(d, o->body, file, err);
}

static td_status_t get(td_cuda_device_t *d, const td_cuda_lib_t *lib, td_cuda_lib_open_t **out, td_err_t *err) {
    for (*out = d->libs; *out; *out = (*out)->next)
        if ((*out)->lib == lib) return TD_OK;
    const td_alloc_t *a = d->base.alloc;
    size_t bytes = sizeof(td_cuda_lib_open_t) + lib->bytes;
    td_cuda_lib_open_t *o = a->get(a->ctx, bytes, 16);
    if (!o) return td_fail(err, TD_NOMEM, "no memory for the table of its functions");
    memset(o, 0, bytes);
    o->lib = lib;
    o->bytes = bytes;
    td_status_t st = open_one(d, lib, o, err);
    if (st) {
        a->put(a->ctx, o, bytes);
        return st;
    }
    o->next = d->libs;
    *out = d->libs = o;
    return TD_OK;
}

td_status_t td_cuda_lib_get(td_cuda_device_t *d, const td_cuda_lib_t *lib, const char *what, void *out, td_err_t *err) {
    td_cuda_lib_open_t *o = NULL;
    pthread_mutex_lock(&d->lib_lock);
    td_status_t st = get(d, lib, &o, err);
    pthread_mutex_unlock(&d->lib_lock);
    if (st) return td_prefix(err, st, "%s take %s", what, lib->name);
    void *body = o->body;
    memcpy(out, &body, sizeof body);
    return TD_OK;
}

td_status_t td_cuda_lib_version(const td_cuda_lib_t *lib, const char *file, long version, long least, const char *have,
                                const char *want, td_err_t *err) {
    if (version >= least) return TD_OK;
    return td_fail(err, TD_UNSUPPORTED, "%s is %s %s, needed is %s or newer; install %s", file, lib->name, have, want,
                   lib->package);
}

void td_cuda_libs_close(td_cuda_device_t *d) {
    while (d->libs) {
        td_cuda_lib_open_t *o = d->libs;
        d->libs = o->next;
        if (o->lib->stop) o->lib->stop(d, o->body);
        d->base.alloc->put(d->base.alloc->ctx, o, o->bytes);
    }
}
