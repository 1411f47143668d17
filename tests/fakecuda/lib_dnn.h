/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the stand-in for cuDNN. The lock is held. */
#ifndef FAKECUDA_LIB_DNN_H
#define FAKECUDA_LIB_DNN_H

#include "runtime/cuda/dnn.h"
#include "tests/fakecuda/library.h"

#ifndef FAKE_DNN_VERSION
#define FAKE_DNN_VERSION 91900
#endif

#define DECLARE(needed, type, name, args) FK_EXPORT type name args;
TD_DNN_SYMBOLS(DECLARE)

extern const char DN_HANDLE[], DN_DESC[], DN_FILTER[];
typedef struct dn_handle {
    CUstream stream;
} dn_handle_t;
typedef struct dn_filter {
    int type, format, n, dims[8];
} dn_filter_t;

/* A descriptor: what was set, each value in eight bytes. */
enum { DN_ATTRS = 20, DN_VALUES = 32, DN_BUFFERS = 12, DN_NUMBERS = 6 };
typedef struct dn_attr {
    int name, type;
    int64_t n;
    uint64_t v[DN_VALUES];
} dn_attr_t;
typedef struct dn_desc {
    int kind; /* cudnnBackendDescriptorType_t */
    bool finished;
    uint32_t n;
    int64_t engine;    /* of engines, configurations, plans */
    const void *graph; /* likewise: the handle */
    dn_attr_t a[DN_ATTRS];
} dn_desc_t;

/* What a graph computes, as the host device does it. Buffers in the order of runtime/library.h. */
typedef struct dn_buffer {
    int64_t uid;
    uint64_t bytes;
    bool write;
} dn_buffer_t;
typedef enum dn_meaning { DN_EPSILON, DN_SCALE, DN_WINDOW, DN_LOWEST } dn_meaning_t;
typedef struct dn_number {
    int64_t uid;
    dn_meaning_t meaning;
} dn_number_t;
typedef struct dn_work {
    td_library_op_t op;
    union {
        td_conv_desc_t conv;
        td_norm_desc_t norm;
        td_attention_desc_t attention;
    } d;
    uint32_t n;
    dn_buffer_t b[DN_BUFFERS];
    uint32_t n_numbers;
    dn_number_t numbers[DN_NUMBERS]; /* given by value at an execution */
} dn_work_t;

/* The finished descriptor of that kind; NULL after a fault. kind < 0: any. */
const dn_desc_t *dn_get(const void *handle, int kind);
const dn_attr_t *dn_attr(const dn_desc_t *d, int name); /* NULL: not set */
int64_t dn_int(const dn_desc_t *d, int name, int64_t otherwise);
double dn_real(const dn_desc_t *d, int name, double otherwise);
const void *dn_ptr(const dn_desc_t *d, int name); /* NULL: not set */
int64_t dn_workspace(const dn_desc_t *plan);
/* A status, and what cudnnGetLastErrorString says of it. */
cudnnStatus_t dn_refuse(cudnnStatus_t code, const char *reason);
cudnnStatus_t dn_fault(const char *text, int64_t a, int64_t b); /* a program must never do this */

/* lib_dnn_rows.c: sets an attribute that the descriptor may have; are all there that it needs? */
cudnnStatus_t dn_take(dn_desc_t *d, int name, int type, int64_t count, const void *values);
cudnnStatus_t dn_complete(const dn_desc_t *d);
/* ---- lib_dnn_graph.c: tensors ---- */
const dn_desc_t *dn_tensor(const dn_desc_t *op, int name); /* NULL: not set, or no finished tensor */
td_type_t dn_type(const dn_desc_t *t);
bool dn_virtual(const dn_desc_t *t);
int64_t dn_dim(const dn_desc_t *t, uint32_t i);
int64_t dn_stride(const dn_desc_t *t, uint32_t i);
uint32_t dn_rank(const dn_desc_t *t);
/* The next buffer of the work. */
void dn_buffer(dn_work_t *w, const dn_desc_t *t, bool write);
/* A tensor that is one number of that type, given by value. */
bool dn_by_value(dn_work_t *w, const dn_desc_t *t, td_type_t type, dn_meaning_t meaning);
/* lib_dnn_attention.c */
cudnnStatus_t dn_attention(const dn_attr_t *ops, dn_work_t *w);
/* lib_dnn_graph.c: operations to work. 0, or a status: not a graph that the library knows. */
cudnnStatus_t dn_work(const dn_desc_t *graph, dn_work_t *w);

#endif
