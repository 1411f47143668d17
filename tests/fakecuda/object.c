/* SPDX-License-Identifier: Apache-2.0 */
/* Handles: kind and index in a number that no memory lies at. The lock is held. */
#include <stdlib.h>

#include "tests/fakecuda/fake.h"

/* Above the 47 bits of user addresses, so no pointer is taken for a handle, nor read through one. */
#define HANDLE_TAG 0xfcull
static fk_obj_t **objects;
static uint32_t n_objects, cap_objects;
static uint32_t of_kind[FK_KINDS];

const char *fk_kind_name(fk_kind_t k) {
    static const char *const names[FK_KINDS] = {
        [FK_CONTEXT_OBJ] = "context", [FK_STREAM] = "stream", [FK_EVENT] = "event", [FK_MODULE] = "module",
        [FK_FUNCTION] = "function", [FK_GRAPH] = "graph", [FK_EXEC] = "executable graph",
        [FK_LIBRARY] = "library object"};
    return k > 0 && k < FK_KINDS ? names[k] : "object";
}

void *fk_obj_new(fk_kind_t kind, size_t size, fk_ctx_t *ctx) {
    if (n_objects == cap_objects) {
        uint32_t cap = cap_objects ? 2 * cap_objects : 256;
        fk_obj_t **v = realloc(objects, cap * sizeof *v);
        if (!v) return NULL;
        objects = v, cap_objects = cap;
    }
    fk_obj_t *o = calloc(1, size);
    if (!o) return NULL;
    *o = (fk_obj_t){.kind = kind, .live = true, .number = ++of_kind[kind], .index = n_objects, .ctx = ctx};
    objects[n_objects++] = o;
    return o;
}

void fk_obj_end(fk_obj_t *o) {
    o->live = false;
    o->died = fk_call();
}

void *fk_handle(const fk_obj_t *o) {
    return (void *)(uintptr_t)(HANDLE_TAG << 56 | (uint64_t)o->kind << 40 | (uint64_t)o->index << 4);
}

fk_obj_t *fk_obj_at(uint32_t i) { return i < n_objects ? objects[i] : NULL; }

void *fk_get(const void *handle, fk_kind_t kind, bool own, CUresult *r) {
    uint64_t h = (uintptr_t)handle;
    fk_obj_t *o = h >> 56 == HANDLE_TAG && !(h & 15) ? fk_obj_at((uint32_t)(h >> 4)) : NULL;
    if (!o || fk_handle(o) != handle) {
        *r = fk_fault(FK_HANDLE, CUDA_ERROR_INVALID_HANDLE, "%p is no handle of a %s", handle, fk_kind_name(kind));
        return NULL;
    }
    if (o->kind != kind) {
        *r = fk_fault(FK_HANDLE, CUDA_ERROR_INVALID_HANDLE, "handle of %s %u where a %s belongs", fk_kind_name(o->kind),
                      o->number, fk_kind_name(kind));
        return NULL;
    }
    if (!o->live) {
        *r = fk_fault(FK_HANDLE, CUDA_ERROR_INVALID_HANDLE, "%s %u was ended by %s", fk_kind_name(kind), o->number,
                      o->died);
        return NULL;
    }
    if (own && o->ctx != fk_current()) {
        *r = fk_fault(FK_CONTEXT, CUDA_ERROR_INVALID_CONTEXT,
                      "%s %u belongs to the context of device %d, current is %d", fk_kind_name(kind), o->number,
                      o->ctx->device, fk_current() ? fk_current()->device : -1);
        return NULL;
    }
    return o;
}
