/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in for cuDNN computes: plans by what their graphs mean, and the permutation of int8x32 filters. */
#include <string.h>

#include "tests/fakecuda/lib_dnn.h"

enum { WORKSPACE_ALIGNMENT = 16, R_WORKSPACE = DN_BUFFERS, RANGES };
typedef struct task {
    td_library_op_t op;
    uint64_t workspace;
    union {
        td_conv_desc_t conv;
        td_norm_desc_t norm;
        td_attention_desc_t attention;
    } d;
} task_t;

static CUresult run(const void *args, void *const *memory) {
    const task_t *t = args;
    CUresult r = fk_host_run("cudnnBackendExecute", t->op, &t->d, memory);
    if (memory[R_WORKSPACE]) memset(memory[R_WORKSPACE], 0x5a, t->workspace); /* whoever needs it after this is wrong */
    return r;
}

static const void *address(const dn_desc_t *pack, int64_t uid) {
    const dn_attr_t *ids = dn_attr(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS),
                    *at = dn_attr(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    for (int64_t i = 0; i < ids->n; i++)
        if ((int64_t)ids->v[i] == uid) return (const void *)(uintptr_t)at->v[i];
    return NULL;
}
static bool overlap(const fk_range_t *a, const fk_range_t *b) {
    return a->bytes && b->bytes && (a->addr < b->addr ? b->addr - a->addr < a->bytes : a->addr - b->addr < b->bytes);
}

static cudnnStatus_t ranges_of(const dn_work_t *w, const dn_desc_t *pack, fk_range_t *ranges) {
    for (uint32_t i = 0; i < w->n; i++) {
        uintptr_t at = (uintptr_t)address(pack, w->b[i].uid);
        if (!at) return dn_fault("no address for tensor", w->b[i].uid, w->n);
        if (at % TD_DNN_ALIGNMENT) return dn_fault("tensor is not aligned", w->b[i].uid, (int64_t)at);
        ranges[i] = (fk_range_t){at, w->b[i].bytes, w->b[i].write};
    }
    for (uint32_t i = 0; i < w->n; i++)
        for (uint32_t k = 0; k < w->n; k++)
            if (i != k && ranges[i].write && overlap(&ranges[i], &ranges[k]) &&
                !(ranges[i].addr == ranges[k].addr && ranges[i].bytes == ranges[k].bytes))
                return dn_fault("a result lies partly over another tensor", w->b[i].uid, w->b[k].uid);
    return 0;
}

/* Those of host memory are read now. */
static cudnnStatus_t numbers_of(const dn_work_t *w, const dn_desc_t *pack, task_t *t) {
    for (uint32_t i = 0; i < w->n_numbers; i++) {
        const void *value = address(pack, w->numbers[i].uid);
        float f = 0;
        int32_t n = 0;
        if (!value) return dn_fault("no address for tensor", w->numbers[i].uid, w->n);
        switch (w->numbers[i].meaning) {
        case DN_EPSILON: memcpy(&t->d.norm.epsilon, value, sizeof(double)); break;
        case DN_SCALE: memcpy(&f, value, sizeof f), t->d.attention.scale = (double)f; break;
        case DN_WINDOW: memcpy(&n, value, sizeof n), t->d.attention.window = n; break;
        case DN_LOWEST:
            memcpy(&f, value, sizeof f);
            if (f > -1e37f) return dn_fault("a mask with a value that is not very low", w->numbers[i].uid, 0);
        }
    }
    return 0;
}

static cudnnStatus_t execute(const dn_handle_t *h, const dn_desc_t *plan, const dn_desc_t *pack) {
    dn_work_t w;
    task_t t = {0};
    fk_range_t ranges[RANGES] = {{0}};
    const dn_desc_t *graph = dn_get(plan->graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    cudnnStatus_t r = graph ? dn_work(graph, &w) : CUDNN_STATUS_BAD_PARAM;
    if (r || (r = ranges_of(&w, pack, ranges))) return r;
    t.op = w.op, t.workspace = (uint64_t)dn_workspace(plan);
    memcpy(&t.d, &w.d, sizeof t.d);
    if ((r = numbers_of(&w, pack, &t))) return r;
    if (t.workspace) {
        uintptr_t at = (uintptr_t)dn_ptr(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
        if (!at || at % WORKSPACE_ALIGNMENT)
            return dn_fault("no workspace, or not aligned", (int64_t)t.workspace, (int64_t)at);
        ranges[R_WORKSPACE] = (fk_range_t){at, t.workspace, true};
    }
    return fk_library_enqueue(h->stream, "cudnnBackendExecute", ranges, RANGES, run, &t, sizeof t)
               ? CUDNN_STATUS_EXECUTION_FAILED
               : 0;
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
    FK_ENTER(cudnnBackendExecute, 0);
    const dn_handle_t *h = fk_library_get(handle, DN_HANDLE);
    const dn_desc_t *p = dn_get(plan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR),
                    *v = dn_get(pack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    return fk_leave(h && p && v ? execute(h, p, v) : CUDNN_STATUS_BAD_PARAM);
}

/* ---- reordering ---- */
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t *filter) {
    FK_ENTER(cudnnCreateFilterDescriptor, 0);
    void *h = fk_library_new(DN_FILTER, sizeof(dn_filter_t));
    memcpy(filter, &h, sizeof h);
    return fk_leave(h ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t filter) {
    FK_ENTER(cudnnDestroyFilterDescriptor, 0);
    return fk_leave(fk_library_end(filter, DN_FILTER) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM);
}
cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t filter, int type, int format, int n, const int *dims) {
    FK_ENTER(cudnnSetFilterNdDescriptor, 0);
    dn_filter_t *f = fk_library_get(filter, DN_FILTER);
    if (!f || n < 3 || n > 8) return fk_leave(CUDNN_STATUS_BAD_PARAM);
    *f = (dn_filter_t){.type = type, .format = format, .n = n};
    memcpy(f->dims, dims, (size_t)n * sizeof *dims);
    return fk_leave(CUDNN_STATUS_SUCCESS);
}

static CUresult run_reorder(const void *args, void *const *memory) {
    return fk_host_run("cudnnReorderFilterAndBias", TD_OP_CONV, args, memory);
}

cudnnStatus_t cudnnReorderFilterAndBias(cudnnHandle_t handle, cudnnFilterDescriptor_t filter, int reorder,
                                        const void *filter_data, void *filter_out, int with_bias, const void *bias,
                                        void *bias_out) {
    FK_ENTER(cudnnReorderFilterAndBias, 0);
    const dn_handle_t *h = fk_library_get(handle, DN_HANDLE);
    const dn_filter_t *f = fk_library_get(filter, DN_FILTER);
    if (!h || !f) return fk_leave(CUDNN_STATUS_BAD_PARAM);
    if (f->n != 4 || f->type != CUDNN_DATA_INT8x32 || f->format != CUDNN_TENSOR_NCHW_VECT_C ||
        reorder != CUDNN_DEFAULT_REORDER || f->dims[0] % 32 || f->dims[1] % 32)
        return fk_leave(dn_fault("no filter of int8x32", f->type, f->dims[0]));
    td_conv_desc_t d = {
        .kind = TD_CONV_REORDER, .n = 2, .groups = 1, .batch_groups = 1, .has_bias = with_bias, .bias = TD_F32};
    d.w = (td_conv_array_t){
        .type = TD_S8, .outer = f->dims[0], .feature = f->dims[1], .vector = 32, .spatial = {f->dims[2], f->dims[3]}};
    d.w.count = d.w.outer * d.w.feature * d.w.spatial[0] * d.w.spatial[1];
    uint64_t bytes = (uint64_t)d.w.count, bias_bytes = with_bias ? 4 * (uint64_t)d.w.outer : 0;
    const fk_range_t ranges[] = {{(uintptr_t)filter_data, bytes, false},
                                 {(uintptr_t)filter_out, bytes, true},
                                 {(uintptr_t)bias, bias_bytes, false},
                                 {(uintptr_t)bias_out, bias_bytes, true}};
    return fk_leave(fk_library_enqueue(h->stream, "cudnnReorderFilterAndBias", ranges, 4, run_reorder, &d, sizeof d)
                        ? CUDNN_STATUS_EXECUTION_FAILED
                        : CUDNN_STATUS_SUCCESS);
}
