/* SPDX-License-Identifier: Apache-2.0 */
/* cuDNN convolutions, and the permutation of int8 filters, from custom calls. Window and dimension numbers stand on
 * the instruction, the rest in cudnn_conv_backend_config. Results end with a scratch array.
 * Source: xla/service/gpu/thunk_emitter.cc, xla/service/gpu/gpu_conv_runner.cc (GetGpuConvConfig). */
#include <string.h>

#include "runtime/scheduled_in.h"

typedef Xla__Gpu__GpuConvDescriptorProto descriptor_t;

static const struct {
    const char *target;
    StreamExecutor__Dnn__ConvolutionKind kind;
} rows[] = {
    {"__cudnn$convForward", (StreamExecutor__Dnn__ConvolutionKind)1},
    {"__cudnn$convBackwardFilter", (StreamExecutor__Dnn__ConvolutionKind)2},
    {"__cudnn$convBackwardInput", (StreamExecutor__Dnn__ConvolutionKind)3},
    {"__cudnn$convBiasActivationForward", (StreamExecutor__Dnn__ConvolutionKind)4},
    {"__cudnn$convForwardGraph", (StreamExecutor__Dnn__ConvolutionKind)5},
};

/* Numbers of stream_executor.dnn.ActivationMode. */
static const char *const activations[] = {"kNone", "kSigmoid",  "kRelu", "kRelu6",     "kReluX",
                                          "kTanh", "kBandPass", "kElu",  "kLeakyRelu", "kGeluExact"};

static td_status_t config(td_sched_t *s, const td_sched_instr_t *i, Xla__Gpu__CudnnConvBackendConfig *c) {
    json_t *j = NULL;
    int activation = 0;
    bool reordered = false;
    td_status_t st = td_sched_config(s, i, "cudnn_conv_backend_config", &j);
    if (st) return st;
    const char *graph = json_string_value(json_object_get(j, "serialized_graph"));
    if (!(st = td_sched_enum(s, j, "activation_mode", activations, 10, 0, &activation)) &&
        !(st = td_sched_number(s, j, "conv_result_scale", 0, &c->conv_result_scale)) &&
        !(st = td_sched_number(s, j, "side_input_scale", 0, &c->side_input_scale)) &&
        !(st = td_sched_number(s, j, "leakyrelu_alpha", 0, &c->leakyrelu_alpha)))
        st = td_sched_bool(s, j, "reordered_int8_nchw_vect", false, &reordered);
    if (!st && graph && *graph && !(c->serialized_graph = td_arena_strndup(s->arena, graph, strlen(graph))))
        st = td_arena_fail(s->arena, s->err);
    if (json_object_get(j, "reordered_int8_nchw_vect")) {
        c->filter_and_bias_reordering_oneof_case =
            XLA__GPU__CUDNN_CONV_BACKEND_CONFIG__FILTER_AND_BIAS_REORDERING_ONEOF_REORDERED_INT8_NCHW_VECT;
        c->reordered_int8_nchw_vect = reordered;
    }
    json_decref(j);
    c->has_activation_mode = c->has_conv_result_scale = c->has_side_input_scale = c->has_leakyrelu_alpha = true;
    c->activation_mode = (StreamExecutor__Dnn__ActivationMode)activation;
    return st;
}

static td_status_t describe(td_sched_t *s, const td_sched_instr_t *i, StreamExecutor__Dnn__ConvolutionKind kind,
                            descriptor_t **out) {
    descriptor_t *d = TD_NEW(s->arena, descriptor_t);
    Xla__Gpu__CudnnConvBackendConfig *c = TD_NEW(s->arena, Xla__Gpu__CudnnConvBackendConfig);
    if (!d || !c) return td_arena_fail(s->arena, s->err);
    xla__gpu__gpu_conv_descriptor_proto__init(d);
    xla__gpu__cudnn_conv_backend_config__init(c);
    if (!i->msg->window || !i->msg->convolution_dimension_numbers)
        return td_fail(s->err, TD_MALFORMED, "convolution '%s' without window or dimension numbers", i->in->name);
    if (i->in->batch_group_count > 1)
        return td_fail(s->err, TD_UNSUPPORTED, "convolution '%s' with batch groups", i->in->name);
    d->has_kind = true, d->kind = kind;
    d->operand0_shape = (Xla__ShapeProto *)(uintptr_t)td_sched_shape(td_sched_instr(s, i->in->operands[0]), 0);
    d->operand1_shape = (Xla__ShapeProto *)(uintptr_t)td_sched_shape(td_sched_instr(s, i->in->operands[1]), 0);
    d->result_shape = (Xla__ShapeProto *)(uintptr_t)td_sched_shape(i, 0);
    d->window = i->msg->window;
    d->dnums = i->msg->convolution_dimension_numbers;
    d->has_feature_group_count = true;
    d->feature_group_count = i->in->feature_group_count;
    d->backend_config = c;
    *out = d;
    return config(s, i, c);
}

/* (filter) -> filter, or (filter, bias) -> (filter, bias). */
static td_status_t reorder(td_sched_t *s, td_sched_out_t *out, const td_sched_instr_t *i, bool with_bias) {
    Xla__Gpu__ConvolutionReorderThunkProto *p = TD_NEW(s->arena, Xla__Gpu__ConvolutionReorderThunkProto);
    Xla__Gpu__ConvolutionReorderBiasBuffers *b = TD_NEW(s->arena, Xla__Gpu__ConvolutionReorderBiasBuffers);
    Xla__Gpu__ThunkProto *t;
    td_status_t st;
    if (!p || !b) return td_arena_fail(s->arena, s->err);
    xla__gpu__convolution_reorder_thunk_proto__init(p);
    xla__gpu__convolution_reorder_bias_buffers__init(b);
    if (i->in->n_operands < 1u + with_bias || i->n_leaves < 1u + with_bias)
        return td_fail(s->err, TD_MALFORMED, "'%s': reordering of %u operands to %u results", i->in->name,
                       i->in->n_operands, i->n_leaves);
    if ((st = td_sched_shaped(s, td_sched_instr(s, i->in->operands[0]), 0, &p->filter_input)) ||
        (st = td_sched_shaped(s, i, 0, &p->filter_output)))
        return st;
    if (with_bias) {
        if ((st = td_sched_shaped(s, td_sched_instr(s, i->in->operands[1]), 0, &b->bias_input)) ||
            (st = td_sched_shaped(s, i, 1, &b->bias_output)))
            return st;
        p->biases = b;
    }
    if ((st = td_sched_add(s, out, i->in->name, XLA__GPU__THUNK_PROTO__IMPL_CONVOLUTION_REORDER_THUNK, &t))) return st;
    t->convolution_reorder_thunk = p;
    return TD_OK;
}

static td_status_t convolution(td_sched_t *s, td_sched_out_t *out, const td_sched_instr_t *i,
                               StreamExecutor__Dnn__ConvolutionKind kind) {
    Xla__Gpu__ConvolutionThunkProto *p = TD_NEW(s->arena, Xla__Gpu__ConvolutionThunkProto);
    Xla__Gpu__ThunkProto *t;
    td_status_t st;
    uint32_t n = i->in->n_operands;
    if (!p) return td_arena_fail(s->arena, s->err);
    xla__gpu__convolution_thunk_proto__init(p);
    if (n < 2 || n > 4 || !i->n_leaves)
        return td_fail(s->err, TD_MALFORMED, "convolution '%s' with %u operands and %u results", i->in->name, n,
                       i->n_leaves);
    p->operand_buffers = TD_NEW_N(s->arena, Xla__ShapedSliceProto *, n);
    p->result_buffers = TD_NEW_N(s->arena, Xla__ShapedSliceProto *, 1);
    if (!p->operand_buffers || !p->result_buffers) return td_arena_fail(s->arena, s->err);
    p->n_operand_buffers = n, p->n_result_buffers = 1;
    if ((st = describe(s, i, kind, &p->conv_descriptor))) return st;
    for (uint32_t k = 0; k < n; k++)
        if ((st = td_sched_shaped(s, td_sched_instr(s, i->in->operands[k]), 0, &p->operand_buffers[k]))) return st;
    if ((st = td_sched_shaped(s, i, 0, &p->result_buffers[0])) ||
        (st = td_sched_add(s, out, i->in->name, XLA__GPU__THUNK_PROTO__IMPL_CONVOLUTION_THUNK, &t)))
        return st;
    t->convolution_thunk = p;
    return TD_OK;
}

td_status_t td_sched_convolution(td_sched_t *s, td_sched_out_t *out, const td_sched_instr_t *i) {
    const char *target = i->in->custom_call_target;
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (!strcmp(rows[k].target, target)) return convolution(s, out, i, rows[k].kind);
    if (!strcmp(target, "__cudnn$convReorderFilter")) return reorder(s, out, i, false);
    if (!strcmp(target, "__cudnn$convReorderFilterAndBias")) return reorder(s, out, i, true);
    return td_fail(s->err, TD_UNSUPPORTED, "'%s': custom call %.100s is not supported", i->in->name, target);
}
