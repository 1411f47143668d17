/* SPDX-License-Identifier: Apache-2.0 */
/* Layer norm through cuDNN: rows are samples, columns features of one position. The epsilon is a value of the
 * launch's, in host memory. Source: cudnn_graph_v9.h; xla/stream_executor/cuda/cuda_dnn.cc (GetCudnnNormGraph...). */
#include <stdio.h>

#include "base/checked.h"
#include "runtime/cuda/dnn.h"

typedef struct norm {
    td_dnn_build_t b;
    const td_norm_desc_t *d;
    cudnnBackendDescriptor_t op;
    int32_t epsilon;
} norm_t;

/* rows x cols as features of rows samples; 1 x cols; rows x 1. */
static cudnnBackendDescriptor_t array(norm_t *n, td_type_t type, int64_t rows, int64_t cols, int32_t from) {
    td_dnn_tensor_t t = {
        .type = type, .n = 4, .dims = {rows, cols, 1, 1}, .strides = {cols, 1, cols, cols}, .vector = 1, .from = from};
    return td_dnn_tensor(&n->b, &t);
}
static void part(norm_t *n, int name, td_type_t type, int64_t rows, int64_t cols, int32_t from) {
    td_dnn_set_desc(&n->b, n->op, name, array(n, type, rows, cols, from));
}

/* cuDNN's layer norm always adds a bias. */
static void forward(norm_t *n) {
    const td_norm_desc_t *d = n->d;
    int mode = CUDNN_LAYER_NORM, phase = d->training ? CUDNN_NORM_FWD_TRAINING : CUDNN_NORM_FWD_INFERENCE;
    n->op = td_dnn_make(&n->b, CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR);
    td_dnn_set(&n->b, n->op, CUDNN_ATTR_OPERATION_NORM_FWD_MODE, CUDNN_TYPE_NORM_MODE, 1, &mode);
    td_dnn_set(&n->b, n->op, CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_TYPE_NORM_FWD_PHASE, 1, &phase);
    part(n, CUDNN_ATTR_OPERATION_NORM_FWD_XDESC, d->x, d->rows, d->cols, 0);
    part(n, CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, d->scale, 1, d->cols, 1);
    part(n, CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, d->has_bias ? d->bias : d->scale, 1, d->cols,
         d->has_bias ? 2 : TD_DNN_ZEROS);
    part(n, CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, d->y, d->rows, d->cols, 3);
    if (d->training) {
        part(n, CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, TD_F32, d->rows, 1, 4);
        part(n, CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, TD_F32, d->rows, 1, 5);
    }
    part(n, CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, TD_F64, 1, 1, n->epsilon);
    td_dnn_op(&n->b, n->op, "layer norm");
}

static void backward(norm_t *n) {
    const td_norm_desc_t *d = n->d;
    int mode = CUDNN_LAYER_NORM;
    n->op = td_dnn_make(&n->b, CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR);
    td_dnn_set(&n->b, n->op, CUDNN_ATTR_OPERATION_NORM_BWD_MODE, CUDNN_TYPE_NORM_MODE, 1, &mode);
    part(n, CUDNN_ATTR_OPERATION_NORM_BWD_XDESC, d->x, d->rows, d->cols, 0);
    part(n, CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, d->scale, 1, d->cols, 1);
    part(n, CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC, d->dy, d->rows, d->cols, 2);
    part(n, CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, TD_F32, d->rows, 1, 3);
    part(n, CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, TD_F32, d->rows, 1, 4);
    part(n, CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, d->y, d->rows, d->cols, 5);
    part(n, CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, d->dscale, 1, d->cols, 6);
    part(n, CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, d->dbias, 1, d->cols, 7);
    part(n, CUDNN_ATTR_OPERATION_NORM_BWD_EPSILON_DESC, TD_F64, 1, 1, n->epsilon);
    td_dnn_op(&n->b, n->op, "gradient of a layer norm");
}

static td_status_t prepare(td_dnn_kernel_t *k, const td_norm_desc_t *d, td_err_t *err) {
    norm_t n = {.b = {k, err, TD_OK}, .d = d};
    const td_dnn_wish_t wish = {0};
    snprintf(k->text, sizeof k->text, "%s of %s[%lld,%lld]", d->backward ? "gradient of a layer norm" : "layer norm",
             td_type_name(d->x), (long long)d->rows, (long long)d->cols);
    k->n_bufs = d->backward ? 8 : d->training ? 6 : 4;
    n.epsilon = td_dnn_number(&n.b, &d->epsilon, sizeof d->epsilon);
    if (d->rows < 0 || d->cols < 0) return td_fail(err, TD_MALFORMED, "%s: sizes below 0", k->text);
    if (!d->rows || !d->cols) {
        if (!d->backward && !(d->training && d->rows)) return TD_OK;
        return td_fail(err, TD_UNSUPPORTED, "%s: nothing to normalise", k->text);
    }
    if (!d->backward && !d->has_bias && (!td_mul_u64((uint64_t)d->cols, td_type_bytes(d->scale), &k->zeros)))
        return td_fail(err, TD_LIMIT, "%s: so many columns", k->text);
    if (d->backward)
        backward(&n);
    else
        forward(&n);
    td_dnn_plan(&n.b, &wish);
    return n.b.st;
}

td_status_t td_cuda_norm_lower(td_cuda_device_t *d, const void *desc, td_arena_t *arena, td_kernel_t **out,
                               uint64_t *out_scratch, td_err_t *err) {
    td_dnn_kernel_t *k = NULL;
    td_status_t st = td_dnn_new(d, "normalisations", arena, &k, err);
    if (!st) st = prepare(k, desc, err);
    if (st) {
        if (k) td_dnn_release(&k->base);
        return st;
    }
    *out_scratch = td_dnn_scratch(k);
    *out = &k->base;
    return TD_OK;
}
