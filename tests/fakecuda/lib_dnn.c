/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for cuDNN: descriptors, and the engines that it says it has. lib_dnn_rows.c knows their
 * attributes, lib_dnn_graph.c understands graphs, lib_dnn_run.c computes them.
 *
 * Engines by their number: 0 rounds its inputs to a narrower type, 1 is listed but has no plan, 2 takes TF32 and a
 * workspace, 3 does neither, 4 gives other results each time. There are no more. */
#include <stdio.h>
#include <string.h>

#include "tests/fakecuda/lib_dnn.h"

enum { ENGINE_NARROW, ENGINE_NO_PLAN, ENGINE_TENSOR_CORE, ENGINE_PLAIN, ENGINE_VARIES, ENGINES, WORKSPACE = 1 << 14 };
const char DN_HANDLE[] = "cuDNN handle", DN_DESC[] = "cuDNN descriptor", DN_FILTER[] = "cuDNN filter descriptor";

static char last[200];
size_t cudnnGetVersion(void) { return FAKE_DNN_VERSION; }
const char *cudnnGetErrorString(cudnnStatus_t status) {
    switch (status) {
    case CUDNN_STATUS_SUCCESS: return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_BAD_PARAM: return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED: return "CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED";
    case CUDNN_STATUS_NOT_SUPPORTED: return "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_EXECUTION_FAILED: return "CUDNN_STATUS_EXECUTION_FAILED";
    case CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED:
        return "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED";
    default: return "CUDNN_STATUS_OTHER";
    }
}
void cudnnGetLastErrorString(char *message, size_t bytes) {
    if (bytes) snprintf(message, bytes, "%s", last);
    *last = 0;
}
cudnnStatus_t dn_refuse(cudnnStatus_t code, const char *reason) {
    snprintf(last, sizeof last, "Warning: %s; Reason: %s\n", cudnnGetErrorString(code), reason);
    return code;
}
cudnnStatus_t dn_fault(const char *text, int64_t a, int64_t b) {
    return dn_refuse((cudnnStatus_t)fk_fault(FK_ARGUMENTS, CUDNN_STATUS_BAD_PARAM, "%s: %lld and %lld", text,
                                             (long long)a, (long long)b),
                     text);
}

static cudnnStatus_t made(void *handle, void *out) {
    if (!handle) return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    memcpy(out, &handle, sizeof handle);
    return CUDNN_STATUS_SUCCESS;
}
static cudnnStatus_t ended(void *handle, const char *what) {
    return fk_library_end(handle, what) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
    FK_ENTER(cudnnCreate, 0);
    return fk_leave(made(fk_library_new(DN_HANDLE, sizeof(dn_handle_t)), handle));
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
    FK_ENTER(cudnnDestroy, 0);
    return fk_leave(ended(handle, DN_HANDLE));
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, CUstream stream) {
    FK_ENTER(cudnnSetStream, 0);
    dn_handle_t *h = fk_library_get(handle, DN_HANDLE);
    if (h) h->stream = stream;
    return fk_leave(h ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM);
}

/* ---- descriptors ---- */
static dn_desc_t *any(const void *handle) { return fk_library_get(handle, DN_DESC); }
const dn_desc_t *dn_get(const void *handle, int kind) {
    const dn_desc_t *d = any(handle);
    if (!d) return NULL;
    if (!d->finished)
        dn_fault("a descriptor that is not finished", d->kind, kind);
    else if (kind >= 0 && d->kind != kind)
        dn_fault("a descriptor of another kind", d->kind, kind);
    else
        return d;
    return NULL;
}
const dn_attr_t *dn_attr(const dn_desc_t *d, int name) {
    for (uint32_t i = 0; i < d->n; i++)
        if (d->a[i].name == name) return &d->a[i];
    return NULL;
}
int64_t dn_int(const dn_desc_t *d, int name, int64_t otherwise) {
    const dn_attr_t *a = dn_attr(d, name);
    return a ? (int64_t)a->v[0] : otherwise;
}
double dn_real(const dn_desc_t *d, int name, double otherwise) {
    const dn_attr_t *a = dn_attr(d, name);
    float f = 0;
    if (!a) return otherwise;
    if (a->type == CUDNN_TYPE_FLOAT)
        memcpy(&f, a->v, sizeof f), otherwise = (double)f;
    else
        memcpy(&otherwise, a->v, sizeof otherwise);
    return otherwise;
}
const void *dn_ptr(const dn_desc_t *d, int name) { return (const void *)(uintptr_t)dn_int(d, name, 0); }

cudnnStatus_t cudnnBackendCreateDescriptor(int type, cudnnBackendDescriptor_t *descriptor) {
    FK_ENTER(cudnnBackendCreateDescriptor, 0);
    void *h = fk_library_new(DN_DESC, sizeof(dn_desc_t));
    dn_desc_t *d = h ? any(h) : NULL;
    if (d) d->kind = type;
    return fk_leave(made(h, descriptor));
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
    FK_ENTER(cudnnBackendDestroyDescriptor, 0);
    return fk_leave(ended(descriptor, DN_DESC));
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, int name, int type, int64_t count,
                                       const void *values) {
    FK_ENTER(cudnnBackendSetAttribute, 0);
    dn_desc_t *d = any(descriptor);
    return fk_leave(d ? dn_take(d, name, type, count, values) : CUDNN_STATUS_BAD_PARAM);
}

/* ---- finishing ---- */
static cudnnStatus_t finish_tensor(const dn_desc_t *d) {
    const dn_attr_t *dims = dn_attr(d, CUDNN_ATTR_TENSOR_DIMENSIONS), *strides = dn_attr(d, CUDNN_ATTR_TENSOR_STRIDES);
    if (dims->n != strides->n) return dn_fault("numbers of dimensions and strides", dims->n, strides->n);
    for (int64_t i = 0; i < dims->n; i++)
        if ((int64_t)dims->v[i] < 1 || (int64_t)strides->v[i] < 1)
            return dn_fault("dimension and stride", (int64_t)dims->v[i], (int64_t)strides->v[i]);
    return CUDNN_STATUS_SUCCESS;
}
static cudnnStatus_t finish_graph(const dn_desc_t *d) {
    dn_work_t w;
    return dn_work(d, &w);
}
static cudnnStatus_t finish_engine(dn_desc_t *d) {
    d->engine = dn_int(d, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, -1);
    d->graph = dn_ptr(d, CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
    if (!dn_get(d->graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)) return CUDNN_STATUS_BAD_PARAM;
    return d->engine >= 0 && d->engine < ENGINES ? 0
                                                 : dn_refuse(CUDNN_STATUS_NOT_SUPPORTED, "no engine has that number");
}
static cudnnStatus_t finish_config(dn_desc_t *d) {
    const dn_desc_t *e = dn_get(dn_ptr(d, CUDNN_ATTR_ENGINECFG_ENGINE), CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    if (!e) return CUDNN_STATUS_BAD_PARAM;
    d->engine = e->engine, d->graph = e->graph;
    return CUDNN_STATUS_SUCCESS;
}
static cudnnStatus_t finish_plan(dn_desc_t *d) {
    const dn_desc_t *c = dn_get(dn_ptr(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG), CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (!c) return CUDNN_STATUS_BAD_PARAM;
    d->engine = c->engine, d->graph = c->graph;
    return d->engine == ENGINE_NO_PLAN ? dn_refuse(CUDNN_STATUS_NOT_SUPPORTED, "the engine has no plan for it") : 0;
}
static cudnnStatus_t finish_pack(const dn_desc_t *d) {
    const dn_attr_t *ids = dn_attr(d, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS),
                    *at = dn_attr(d, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    return ids->n == at->n ? CUDNN_STATUS_SUCCESS : dn_fault("numbers of tensors and pointers", ids->n, at->n);
}
static cudnnStatus_t finish(dn_desc_t *d) {
    cudnnStatus_t r = dn_complete(d);
    if (r) return r;
    switch (d->kind) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR: r = finish_tensor(d); break;
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: r = finish_graph(d); break;
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR: r = finish_engine(d); break;
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR: r = finish_config(d); break;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: r = finish_plan(d); break;
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR: r = finish_pack(d); break;
    default: break;
    }
    d->finished = !r;
    return r;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
    FK_ENTER(cudnnBackendFinalize, 0);
    dn_desc_t *d = any(descriptor);
    return fk_leave(d ? finish(d) : CUDNN_STATUS_BAD_PARAM);
}

/* ---- what may be asked ---- */
static cudnnStatus_t list(const dn_desc_t *d, int64_t room, int64_t *count, void *values) {
    static const int64_t of_b[] = {ENGINE_NARROW, ENGINE_VARIES, ENGINE_NO_PLAN, ENGINE_TENSOR_CORE, ENGINE_PLAIN};
    static const int64_t plain[] = {ENGINE_PLAIN};
    bool b = dn_int(d, CUDNN_ATTR_ENGINEHEUR_MODE, 0) == CUDNN_HEUR_MODE_B;
    const int64_t *engines = b ? of_b : plain;
    *count = b ? (int64_t)(sizeof of_b / sizeof *of_b) : 1;
    if (*count > room) *count = room;
    for (int64_t i = 0; i < *count; i++) {
        dn_desc_t *c = any(((void **)values)[i]);
        if (!c || c->kind != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR || c->finished)
            return dn_fault("not a new configuration, result", i, *count);
        c->engine = engines[i], c->graph = dn_ptr(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH), c->finished = true;
    }
    return CUDNN_STATUS_SUCCESS;
}
static cudnnStatus_t engine_of(const dn_desc_t *d, void *values) {
    dn_desc_t *e = any(*(void **)values);
    if (!e || e->kind != CUDNN_BACKEND_ENGINE_DESCRIPTOR || e->finished)
        return dn_fault("not a new engine", d->kind, 0);
    e->engine = d->engine, e->graph = d->graph, e->finished = true;
    return CUDNN_STATUS_SUCCESS;
}
static cudnnStatus_t notes_of(const dn_desc_t *d, int64_t *count, void *values) {
    static const int notes[ENGINES] = {[ENGINE_NARROW] = CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS,
                                       [ENGINE_TENSOR_CORE] = CUDNN_NUMERICAL_NOTE_TENSOR_CORE,
                                       [ENGINE_VARIES] = CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC};
    *count = d->engine != ENGINE_PLAIN && d->engine != ENGINE_NO_PLAN;
    if (*count) memcpy(values, &notes[d->engine], sizeof *notes);
    return CUDNN_STATUS_SUCCESS;
}
int64_t dn_workspace(const dn_desc_t *plan) { return plan->engine == ENGINE_TENSOR_CORE ? WORKSPACE : 0; }
static cudnnStatus_t get(const dn_desc_t *d, int name, int type, int64_t room, int64_t *count, void *values) {
    int64_t workspace = dn_workspace(d);
    if (!d->finished) return dn_refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "not finished");
    if (room < 1 || !values || !count) return dn_fault("room for the values of attribute", name, room);
    *count = 1;
    if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS && type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
        return list(d, room, count, values);
    if (name == CUDNN_ATTR_ENGINECFG_ENGINE && type == CUDNN_TYPE_BACKEND_DESCRIPTOR) return engine_of(d, values);
    if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE && type == CUDNN_TYPE_NUMERICAL_NOTE)
        return notes_of(d, count, values);
    if (name != CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE || type != CUDNN_TYPE_INT64)
        return dn_fault("asked for attribute", name, type);
    memcpy(values, &workspace, sizeof workspace);
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, int name, int type, int64_t requested,
                                       int64_t *count, void *values) {
    FK_ENTER(cudnnBackendGetAttribute, 0);
    const dn_desc_t *d = any(descriptor);
    return fk_leave(d ? get(d, name, type, requested, count, values) : CUDNN_STATUS_BAD_PARAM);
}
