/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs of cuDNN: descriptors, and the engine that computes one.
 * Sources: cudnn_graph_v9.h; xla/stream_executor/cuda/cuda_dnn.cc (which engines are taken, and how a number and
 * settings from an artifact become a plan). */
#include <stdio.h>
#include <string.h>

#include "runtime/cuda/dnn.h"

enum {
    CANDIDATES = 24, /* of one list; the best come first */
    FIRST_UID = 1
};
/* A launch's scratch is planned for the whole program, so an engine that wants more than this comes last. */
#define WORKSPACE_LIKED (512ll << 20)

bool td_dnn_type(td_type_t t, int *out) {
    switch (t) {
    case TD_F32: *out = CUDNN_DATA_FLOAT; return true;
    case TD_F64: *out = CUDNN_DATA_DOUBLE; return true;
    case TD_F16: *out = CUDNN_DATA_HALF; return true;
    case TD_BF16: *out = CUDNN_DATA_BFLOAT16; return true;
    case TD_S8: *out = CUDNN_DATA_INT8; return true;
    case TD_PRED: *out = CUDNN_DATA_BOOLEAN; return true;
    case TD_S32: *out = CUDNN_DATA_INT32; return true;
    case TD_F8E4M3FN: *out = CUDNN_DATA_FP8_E4M3; return true;
    case TD_F8E5M2: *out = CUDNN_DATA_FP8_E5M2; return true;
    default: *out = 0; return false;
    }
}

/* ---- descriptors ---- */
static void check(td_dnn_build_t *b, cudnnStatus_t r, const char *what) {
    if (!b->st) b->st = td_dnn_check(b->k, r, what, b->err);
}

cudnnBackendDescriptor_t td_dnn_make(td_dnn_build_t *b, int type) {
    td_dnn_kernel_t *k = b->k;
    cudnnBackendDescriptor_t d = NULL;
    if (b->st) return NULL;
    if (k->n_made == TD_DNN_MADE) {
        b->st = td_fail(b->err, TD_INTERNAL, "%s: more than %d descriptors", k->text, TD_DNN_MADE);
        return NULL;
    }
    check(b, k->dnn->cudnnBackendCreateDescriptor(type, &d), "cudnnBackendCreateDescriptor");
    if (!b->st) k->made[k->n_made++] = d;
    return b->st ? NULL : d;
}
/* Gives back what was made since then. */
static void unmake(td_dnn_kernel_t *k, uint32_t from) {
    while (k->n_made > from) k->dnn->cudnnBackendDestroyDescriptor(k->made[--k->n_made]);
}

void td_dnn_set(td_dnn_build_t *b, cudnnBackendDescriptor_t to, int name, int type, int64_t count, const void *values) {
    char what[48];
    if (b->st) return;
    cudnnStatus_t r = b->k->dnn->cudnnBackendSetAttribute(to, name, type, count, values);
    if (!r) return;
    snprintf(what, sizeof what, "cudnnBackendSetAttribute(%d)", name);
    check(b, r, what);
}
void td_dnn_set_desc(td_dnn_build_t *b, cudnnBackendDescriptor_t to, int name, cudnnBackendDescriptor_t value) {
    td_dnn_set(b, to, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}
void td_dnn_finish(td_dnn_build_t *b, cudnnBackendDescriptor_t d, const char *what) {
    if (!b->st) check(b, b->k->dnn->cudnnBackendFinalize(d), what);
}
void td_dnn_op(td_dnn_build_t *b, cudnnBackendDescriptor_t op, const char *what) {
    td_dnn_finish(b, op, what);
    if (b->st) return;
    if (b->k->n_ops < TD_DNN_OPS)
        b->k->ops[b->k->n_ops++] = op;
    else
        b->st = td_fail(b->err, TD_INTERNAL, "%s: more than %d operations", b->k->text, TD_DNN_OPS);
}

static void keep_address(td_dnn_build_t *b, int64_t uid, int32_t from) {
    td_dnn_kernel_t *k = b->k;
    if (k->n_tensors == TD_DNN_TENSORS) {
        b->st = td_fail(b->err, TD_INTERNAL, "%s: more than %d tensors", k->text, TD_DNN_TENSORS);
        return;
    }
    k->uids[k->n_tensors] = uid;
    k->from[k->n_tensors++] = from;
}

cudnnBackendDescriptor_t td_dnn_tensor(td_dnn_build_t *b, const td_dnn_tensor_t *t) {
    int type = 0;
    if (b->st) return NULL;
    if (!td_dnn_type(t->type, &type)) {
        b->st = td_fail(b->err, TD_UNSUPPORTED, "%s: cuDNN has no %s", b->k->text, td_type_name(t->type));
        return NULL;
    }
    int64_t uid = FIRST_UID + b->k->n_made, alignment = TD_DNN_ALIGNMENT, dim = 1; /* no two have the same */
    bool yes = true;
    int32_t reordering = CUDNN_TENSOR_REORDERING_INT8x32;
    cudnnBackendDescriptor_t d = td_dnn_make(b, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    td_dnn_set(b, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    td_dnn_set(b, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, t->n, t->dims);
    td_dnn_set(b, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, t->n, t->strides);
    td_dnn_set(b, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid);
    td_dnn_set(b, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    if (t->vector > 1) {
        td_dnn_set(b, d, CUDNN_ATTR_TENSOR_VECTOR_COUNT, CUDNN_TYPE_INT64, 1, &t->vector);
        td_dnn_set(b, d, CUDNN_ATTR_TENSOR_VECTORIZED_DIMENSION, CUDNN_TYPE_INT64, 1, &dim);
    }
    if (t->reordered)
        td_dnn_set(b, d, CUDNN_ATTR_TENSOR_REORDERING_MODE, CUDNN_TYPE_TENSOR_REORDERING_MODE, 1, &reordering);
    if (t->from == TD_DNN_VIRTUAL) td_dnn_set(b, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes);
    if (t->from <= TD_DNN_VALUE) td_dnn_set(b, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &yes);
    td_dnn_finish(b, d, "tensor");
    if (!b->st && t->from != TD_DNN_VIRTUAL) keep_address(b, uid, t->from);
    return d;
}

int32_t td_dnn_number(td_dnn_build_t *b, const void *value, size_t bytes) {
    td_dnn_kernel_t *k = b->k;
    if (k->n_values == TD_DNN_VALUES || bytes > sizeof *k->values) {
        if (!b->st) b->st = td_fail(b->err, TD_INTERNAL, "%s: more than %d numbers", k->text, TD_DNN_VALUES);
        return TD_DNN_VALUE;
    }
    memcpy(&k->values[k->n_values], value, bytes);
    return TD_DNN_VALUE - (int32_t)k->n_values++;
}

/* ---- pointwise operations ---- */
void td_dnn_set_factor(td_dnn_build_t *b, cudnnBackendDescriptor_t op, int name, bool f64, double value) {
    float narrow = (float)value;
    td_dnn_set(b, op, name, f64 ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT, 1, f64 ? (const void *)&value : &narrow);
}

void td_dnn_pointwise(td_dnn_build_t *b, const td_dnn_pointwise_t *p) {
    const bool f64 = p->type == TD_F64;
    int type = 0;
    (void)td_dnn_type(p->type, &type);
    cudnnBackendDescriptor_t d = td_dnn_make(b, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    td_dnn_set(b, d, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &p->mode);
    td_dnn_set(b, d, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type);
    if (p->has_axis) td_dnn_set(b, d, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &p->axis);
    if (p->has_upper) td_dnn_set(b, d, CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, CUDNN_TYPE_DOUBLE, 1, &p->upper);
    if (p->has_slope) td_dnn_set(b, d, CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, CUDNN_TYPE_DOUBLE, 1, &p->slope);
    td_dnn_finish(b, d, "pointwise");
    cudnnBackendDescriptor_t op = td_dnn_make(b, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    td_dnn_set_desc(b, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, d);
    td_dnn_set_desc(b, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, p->x);
    if (p->b) td_dnn_set_desc(b, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, p->b);
    if (p->t) td_dnn_set_desc(b, op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, p->t);
    td_dnn_set_desc(b, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, p->y);
    if (p->scaled) {
        td_dnn_set_factor(b, op, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, f64, p->alpha1);
        td_dnn_set_factor(b, op, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, f64, p->alpha2);
    }
    td_dnn_op(b, op, "pointwise operation");
}

/* ---- engines ---- */
/* A plan of the configuration; NULL if the engine cannot do it after all. */
static cudnnBackendDescriptor_t plan_of(td_dnn_build_t *b, cudnnBackendDescriptor_t config, int64_t *workspace) {
    td_dnn_build_t t = {b->k, NULL, TD_OK};
    const td_dnn_t *dnn = b->k->dnn;
    uint32_t mark = b->k->n_made;
    int64_t n = 0;
    cudnnBackendDescriptor_t plan = td_dnn_make(&t, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    td_dnn_set(&t, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &dnn->handle);
    td_dnn_set_desc(&t, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    td_dnn_finish(&t, plan, "plan");
    *workspace = 0;
    if (!t.st)
        check(&t,
              dnn->cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &n,
                                            workspace),
              "workspace");
    if (!t.st && *workspace >= 0) return plan;
    unmake(b->k, mark);
    return NULL;
}

static bool take(td_dnn_build_t *b, cudnnBackendDescriptor_t config, int64_t most) {
    int64_t workspace = 0;
    uint32_t mark = b->k->n_made;
    cudnnBackendDescriptor_t plan = plan_of(b, config, &workspace);
    if (!plan || workspace > most) {
        unmake(b->k, mark);
        return false;
    }
    b->k->plan = plan;
    b->k->workspace = (uint64_t)workspace;
    return true;
}

/* The compiler's engine, with its settings. Another version of the library may not have it. */
static bool take_engine(td_dnn_build_t *b, cudnnBackendDescriptor_t graph, const td_dnn_wish_t *w) {
    td_dnn_build_t t = {b->k, NULL, TD_OK};
    uint32_t mark = b->k->n_made;
    cudnnBackendDescriptor_t knobs[TD_DNN_KNOBS], engine = td_dnn_make(&t, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    td_dnn_set_desc(&t, engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
    td_dnn_set(&t, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &w->engine);
    td_dnn_finish(&t, engine, "engine");
    for (uint32_t i = 0; i < w->n_knobs; i++) {
        int type = (int)w->knobs[i].type;
        knobs[i] = td_dnn_make(&t, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        td_dnn_set(&t, knobs[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type);
        td_dnn_set(&t, knobs[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &w->knobs[i].value);
        td_dnn_finish(&t, knobs[i], "setting");
    }
    cudnnBackendDescriptor_t config = td_dnn_make(&t, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    td_dnn_set_desc(&t, config, CUDNN_ATTR_ENGINECFG_ENGINE, engine);
    if (w->n_knobs)
        td_dnn_set(&t, config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, w->n_knobs, knobs);
    td_dnn_finish(&t, config, "configuration");
    if (!t.st && take(b, config, INT64_MAX)) return true;
    unmake(b->k, mark);
    return false;
}

/* What the configuration's engine does to numbers, a bit for each note. All of them if it does not say. */
static uint32_t notes_of(td_dnn_build_t *b, cudnnBackendDescriptor_t config) {
    const td_dnn_t *dnn = b->k->dnn;
    cudnnBackendDescriptor_t engine = NULL;
    int notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT] = {0};
    int64_t n = 0;
    uint32_t all = ~0u;
    if (dnn->cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine)) return all;
    if (!dnn->cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n,
                                       &engine) &&
        !dnn->cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                       CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &n, notes)) {
        all = 0;
        for (int64_t i = 0; i < n && i < CUDNN_NUMERICAL_NOTE_TYPE_COUNT; i++) all |= 1u << (notes[i] & 31);
    }
    dnn->cudnnBackendDestroyDescriptor(engine);
    return all;
}

/* The first that works of a list; the rest are given back. */
static bool take_first(td_dnn_build_t *b, cudnnBackendDescriptor_t *configs, int64_t n, uint32_t without,
                       int64_t most) {
    for (int64_t i = 0; i < n; i++) {
        if (notes_of(b, configs[i]) & without || !take(b, configs[i], most)) continue;
        if (b->k->n_made < TD_DNN_MADE) {
            b->k->made[b->k->n_made++] = configs[i];
            configs[i] = NULL;
        }
        return true;
    }
    return false;
}

static bool take_listed(td_dnn_build_t *b, cudnnBackendDescriptor_t graph, int mode, uint32_t without, int64_t most) {
    td_dnn_build_t t = {b->k, NULL, TD_OK};
    const td_dnn_t *dnn = b->k->dnn;
    cudnnBackendDescriptor_t configs[CANDIDATES] = {NULL};
    uint32_t mark = b->k->n_made;
    int64_t n = 0, made = 0;
    bool found = false;
    cudnnBackendDescriptor_t list = td_dnn_make(&t, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    td_dnn_set_desc(&t, list, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    td_dnn_set(&t, list, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    td_dnn_finish(&t, list, "list of engines");
    while (!t.st && made < CANDIDATES) {
        check(&t, dnn->cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configs[made]),
              "configuration");
        if (!t.st) made++;
    }
    if (!t.st)
        check(&t,
              dnn->cudnnBackendGetAttribute(list, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                            CANDIDATES, &n, configs),
              "list of engines");
    if (!t.st) found = take_first(b, configs, n < CANDIDATES ? n : CANDIDATES, without, most);
    for (int64_t i = 0; i < made; i++)
        if (configs[i]) dnn->cudnnBackendDestroyDescriptor(configs[i]);
    if (!found) unmake(b->k, mark);
    return found;
}

/* Inputs are never rounded to a narrower type; results that differ from run to run only if there is nothing else. */
static bool choose(td_dnn_build_t *b, cudnnBackendDescriptor_t graph, const td_dnn_wish_t *w) {
    static const int modes[] = {CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
    uint32_t never = 1u << CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS,
             varies = 1u << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
    if (w->exact) never |= 1u << CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    if (w->has_engine && take_engine(b, graph, w)) return true;
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
            if (take_listed(b, graph, modes[i], pass ? never : never | varies, pass ? INT64_MAX : WORKSPACE_LIKED))
                return true;
    return false;
}

void td_dnn_plan(td_dnn_build_t *b, const td_dnn_wish_t *wish) {
    td_dnn_kernel_t *k = b->k;
    char why[200];
    cudnnBackendDescriptor_t graph = td_dnn_make(b, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    td_dnn_set(b, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, k->n_ops, k->ops);
    td_dnn_set(b, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &k->dnn->handle);
    td_dnn_finish(b, graph, "graph");
    if (b->st || choose(b, graph, wish)) return;
    td_dnn_reason(k->dnn, why, sizeof why);
    b->st = td_fail(b->err, TD_UNSUPPORTED, "%s: cuDNN has no engine for it on %s%s", k->text, k->device->name, why);
}
