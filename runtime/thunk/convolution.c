/* SPDX-License-Identifier: Apache-2.0 */
/* convolution: what cuDNN is asked for, and convolution_reorder, the permutation of a filter that its
 * int8x32 convolutions want. Shapes come from conv_descriptor alone: those beside the slices are the
 * buffers' own, from before bitcasts. window and dnums describe the forward relation of input, filter
 * and output in every kind. The scratch buffer has no meaning here.
 * Source: xla/service/gpu/gpu_conv_runner.proto and .cc, xla/backends/gpu/runtime/convolution_thunk.cc. */
#include <string.h>

#include "base/checked.h"
#include "executable.pb-c.h"
#include "runtime/conv_desc.h"
#include "runtime/shape_parse.h"
#include "runtime/thunk/thunk.h"

typedef Xla__Gpu__GpuConvDescriptorProto descriptor_t;
enum { FORWARD = 1, BACKWARD_FILTER = 2, BACKWARD_DATA = 3, FUSED = 4, GRAPH = 5 };

/* An operand whose shape the descriptor says. */
static td_status_t array(td_parse_t *c, const char *what, const Xla__ShapeProto *shape, const Xla__ShapedSliceProto *s,
                         bool written, td_kernel_arg_t *a) {
    if (!s || !shape) return td_fail(c->err, TD_MALFORMED, "%s: shape or slice is missing", what);
    td_status_t st = td_thunk_slice(c, what, s->slice, shape, written, a);
    if (st) return st;
    if (!td_type_is_array(a->shape->type) || td_type_bits(a->shape->type) < 8)
        return td_fail(c->err, TD_UNSUPPORTED, "%s: element type %s", what, td_type_name(a->shape->type));
    if (a->shape->bytes > a->size)
        return td_fail(c->err, TD_MISMATCH, "%s: shape of %llu bytes in a slice of %llu", what,
                       (unsigned long long)a->shape->bytes, (unsigned long long)a->size);
    return TD_OK;
}

/* One value per output feature, flat; float for integer inputs unless its own shape says more. */
static td_status_t bias(td_parse_t *c, const Xla__ShapedSliceProto *s, td_conv_desc_t *d, td_kernel_arg_t *a) {
    td_status_t st = td_thunk_shaped(c, "bias", s, false, a);
    if (st) return st;
    bool own = a->shape && td_type_is_array(a->shape->type) && a->shape->count == d->y.feature;
    d->bias = own ? a->shape->type : td_type_is_integer(d->x.type) ? TD_F32 : d->y.type;
    uint64_t bytes;
    if (td_type_bits(d->bias) < 8 || !td_mul_u64((uint64_t)d->y.feature, td_type_bytes(d->bias), &bytes) ||
        bytes > a->size)
        return td_fail(c->err, TD_MISMATCH, "bias of %s in %llu bytes for %lld output features", td_type_name(d->bias),
                       (unsigned long long)a->size, (long long)d->y.feature);
    return TD_OK;
}

static td_status_t window(td_parse_t *c, const Xla__Window *w, td_conv_desc_t *d) {
    td_window_dim_t dims[TD_CONV_SPATIAL];
    if (w->n_dimensions > TD_CONV_SPATIAL)
        return td_fail(c->err, TD_UNSUPPORTED, "convolution over %zu spatial dimensions (at most %d)", w->n_dimensions,
                       TD_CONV_SPATIAL);
    for (size_t i = 0; i < w->n_dimensions; i++) {
        const Xla__WindowDimension *p = w->dimensions[i];
        dims[i] = (td_window_dim_t){p->size,
                                    p->stride ? p->stride : 1,
                                    p->padding_low,
                                    p->padding_high,
                                    p->window_dilation ? p->window_dilation : 1,
                                    p->base_dilation ? p->base_dilation : 1,
                                    p->window_reversal};
    }
    return td_conv_set_window(d, dims, (uint32_t)w->n_dimensions, c->err);
}

static td_conv_dims_t dimension_numbers(const Xla__ConvolutionDimensionNumbers *p) {
    return (td_conv_dims_t){p->input_batch_dimension, p->input_feature_dimension, p->kernel_input_feature_dimension,
                            p->kernel_output_feature_dimension, p->output_batch_dimension, p->output_feature_dimension,
                            {p->input_spatial_dimensions, (uint32_t)p->n_input_spatial_dimensions},
                            {p->kernel_spatial_dimensions, (uint32_t)p->n_kernel_spatial_dimensions},
                            {p->output_spatial_dimensions, (uint32_t)p->n_output_spatial_dimensions}};
}

/* The engine that was chosen when the program was compiled with a GPU at hand; -1 stands for none. */
static void algorithm(const StreamExecutor__Dnn__AlgorithmProto *p, td_conv_desc_t *d) {
    if (!p || p->algo_id < 0 || p->n_tuning_knobs > TD_CONV_KNOBS) return;
    d->has_algorithm = true;
    d->algorithm = p->algo_id;
    for (size_t i = 0; i < p->n_tuning_knobs; i++)
        d->knobs[d->n_knobs++] = (td_conv_knob_t){p->tuning_knobs[i]->key, p->tuning_knobs[i]->value};
}

static td_status_t config(td_parse_t *c, const Xla__Gpu__CudnnConvBackendConfig *b, size_t n_operands,
                          td_conv_desc_t *d) {
    d->scale = 1;
    d->saturate = true;
    if (!b) return d->fused ? td_fail(c->err, TD_MALFORMED, "fused convolution without a configuration") : TD_OK;
    if (b->serialized_graph && b->serialized_graph[0])
        return td_fail(c->err, TD_UNSUPPORTED, "convolution with a serialized graph is not supported");
    algorithm(b->algorithm, d);
    d->reordered = b->filter_and_bias_reordering_oneof_case && b->reordered_int8_nchw_vect;
    int act = (int)b->activation_mode;
    if (!d->fused) {
        if (act != TD_ACT_NONE || (b->conv_result_scale != 1 && b->conv_result_scale != 0) || b->side_input_scale != 0)
            return td_fail(c->err, TD_UNSUPPORTED,
                           "plain convolution with activation %d, scale %g and side input scale %g", act,
                           b->conv_result_scale, b->side_input_scale);
        return TD_OK;
    }
    if (act < 0 || act > TD_ACT_GELU || act == 4 || act == 6)
        return td_fail(c->err, TD_UNSUPPORTED, "activation mode %d of a convolution is not supported", act);
    d->activation = (td_activation_t)act;
    d->scale = b->conv_result_scale;
    d->side_scale = b->side_input_scale;
    d->leaky_alpha = b->leakyrelu_alpha;
    d->has_bias = true;
    d->has_side = n_operands > 3 && b->side_input_scale != 0;
    if (n_operands < 4 && b->side_input_scale != 0)
        return td_fail(c->err, TD_MALFORMED, "side input scale %g without a side input", b->side_input_scale);
    return TD_OK;
}

/* Arguments in the order of their roles: input, filter, output, whichever is computed. */
static td_status_t roles(td_parse_t *c, const descriptor_t *p, const Xla__Gpu__ConvolutionThunkProto *m,
                         td_thunk_t *t) {
    int kind = (int)p->kind, result = kind == BACKWARD_DATA ? 0 : kind == BACKWARD_FILTER ? 1 : 2;
    int first = kind == BACKWARD_DATA ? 2 : 0, second = kind == BACKWARD_FILTER ? 2 : 1;
    td_status_t st = array(c, "operand 0", p->operand0_shape, m->operand_buffers[0], false, t->args + first);
    if (!st) st = array(c, "operand 1", p->operand1_shape, m->operand_buffers[1], false, t->args + second);
    if (!st) st = array(c, "result", p->result_shape, m->result_buffers[0], true, t->args + result);
    return st;
}

static td_status_t describe(td_parse_t *c, const descriptor_t *p, const Xla__Gpu__ConvolutionThunkProto *m,
                            td_thunk_t *t, td_conv_desc_t *d) {
    const td_conv_dims_t dims = dimension_numbers(p->dnums);
    td_status_t st;
    td_kernel_arg_t *a = t->args;
    d->groups = p->feature_group_count ? p->feature_group_count : 1;
    d->batch_groups = 1;
    if ((st = window(c, p->window, d)) || (st = roles(c, p, m, t)) ||
        (st = td_conv_set_array(d, TD_CONV_X, a[0].shape, &dims, c->err)) ||
        (st = td_conv_set_array(d, TD_CONV_W, a[1].shape, &dims, c->err)) ||
        (st = td_conv_set_array(d, TD_CONV_Y, a[2].shape, &dims, c->err)) || (st = td_conv_check(d, c->err)))
        return st;
    if (d->reordered && (!a[1].shape->default_layout || dims.kernel_output_feature != 0 ||
                         dims.kernel_input_feature != 1 || dims.kernel_spatial.v[0] != 2))
        return td_fail(c->err, TD_UNSUPPORTED,
                       "reordered filter whose dimensions are not output, input, height, width, vector");
    if (d->has_bias && (st = bias(c, m->operand_buffers[2], d, a + 3))) return st;
    d->side = d->y.type;
    return d->has_side ? array(c, "side input", p->result_shape, m->operand_buffers[3], false, a + 4) : TD_OK;
}

td_status_t td_convolution_parse(td_parse_t *c, const td_thunk_msg_t *msg, td_thunk_t *t) {
    const Xla__Gpu__ConvolutionThunkProto *m = msg->convolution_thunk;
    const descriptor_t *p = m->conv_descriptor;
    if (!p || !p->window || !p->dnums)
        return td_fail(c->err, TD_MALFORMED, "convolution without descriptor, window or dimension numbers");
    int kind = (int)p->kind;
    if (kind == GRAPH) return td_fail(c->err, TD_UNSUPPORTED, "convolution with a serialized graph is not supported");
    if (kind < FORWARD || kind > FUSED)
        return td_fail(c->err, TD_UNSUPPORTED, "convolution kind %d is not supported", kind);
    size_t n = m->n_operand_buffers;
    if (n < 2 || n > 4 || (kind == FUSED) != (n > 2) || m->n_result_buffers != 1)
        return td_fail(c->err, TD_MALFORMED, "convolution of kind %d with %zu operands and %zu results", kind, n,
                       m->n_result_buffers);
    td_conv_desc_t *d = TD_NEW(c->arena, td_conv_desc_t);
    if (!d) return td_arena_fail(c->arena, c->err);
    td_kernel_arg_t unused;
    td_status_t st;
    if (m->scratch_buffer && (st = td_thunk_slice(c, "scratch", m->scratch_buffer, NULL, false, &unused))) return st;
    d->kind = kind == BACKWARD_FILTER ? TD_CONV_BACKWARD_FILTER
              : kind == BACKWARD_DATA ? TD_CONV_BACKWARD_DATA
                                      : TD_CONV_FORWARD;
    d->fused = kind == FUSED;
    const td_hlo_instr_t *instr =
        t->annotation && c->m->hlo ? td_hlo_find(c->m->hlo, t->annotation, strlen(t->annotation)) : NULL;
    d->exact = instr && instr->precision == 2;
    if ((st = config(c, p->backend_config, n, d)) || (st = td_thunk_args(c, t, 3u + d->has_bias + d->has_side)) ||
        (st = describe(c, p, m, t, d)))
        return st;
    t->extra = d;
    t->extra_bytes = sizeof *d;
    return TD_OK;
}

/* Filter [O, I/32, H, W, 32] and bias [O]; the output arrays have the same sizes. */
td_status_t td_convolution_reorder_parse(td_parse_t *c, const td_thunk_msg_t *msg, td_thunk_t *t) {
    const Xla__Gpu__ConvolutionReorderThunkProto *m = msg->convolution_reorder_thunk;
    const Xla__Gpu__ConvolutionReorderBiasBuffers *b = m->biases;
    td_conv_desc_t *d = TD_NEW(c->arena, td_conv_desc_t);
    if (!d) return td_arena_fail(c->arena, c->err);
    td_status_t st = td_thunk_args(c, t, b ? 4 : 2);
    td_kernel_arg_t *a = t->args;
    if (st || (st = array(c, "filter output", m->filter_output ? m->filter_output->shape : NULL, m->filter_output, true,
                          a + 1)))
        return st;
    const td_shape_t *s = a[1].shape;
    if (s->rank != 5 || s->dims[4] != 32 || s->dims[0] % 32 || !s->default_layout || td_type_bytes(s->type) != 1)
        return td_fail(c->err, TD_UNSUPPORTED,
                       "reordering of a filter that is not [O,I/32,H,W,32] of bytes with O a multiple of 32");
    if ((st = td_thunk_slice(c, "filter input", m->filter_input ? m->filter_input->slice : NULL, NULL, false, a)))
        return st;
    if (a[0].size < s->bytes)
        return td_fail(c->err, TD_MISMATCH, "filter input of %llu bytes, output of %llu", (unsigned long long)a[0].size,
                       (unsigned long long)s->bytes);
    *d = (td_conv_desc_t){
        .kind = TD_CONV_REORDER, .n = 2, .groups = 1, .batch_groups = 1, .has_bias = b != NULL, .bias = TD_F32};
    d->w = (td_conv_array_t){.type = s->type,
                             .count = s->count,
                             .outer = s->dims[0],
                             .feature = s->dims[1] * 32,
                             .vector = 32,
                             .spatial = {s->dims[2], s->dims[3]}};
    for (uint32_t i = 2; b && i < 4; i++) {
        if ((st = td_thunk_shaped(c, i == 2 ? "bias input" : "bias output", i == 2 ? b->bias_input : b->bias_output,
                                  i == 3, a + i)))
            return st;
        if (a[i].size / 4 < (uint64_t)s->dims[0])
            return td_fail(c->err, TD_MISMATCH, "bias of %llu bytes for %lld output features",
                           (unsigned long long)a[i].size, (long long)s->dims[0]);
    }
    t->extra = d;
    t->extra_bytes = sizeof *d;
    return TD_OK;
}

td_status_t td_convolution_lower(td_device_t *dev, const td_hlo_module_t *hlo, const td_thunk_t *from, td_thunk_t *t,
                                 td_arena_t *arena, uint64_t *out_scratch, td_err_t *err) {
    (void)hlo;
    return dev->ops->library_lower(dev, TD_OP_CONV, from->extra, arena, &t->kernel, out_scratch, err);
}
td_status_t td_convolution_enqueue(td_run_t *r, const td_thunk_t *t) { return td_thunk_launch(r, t); }
td_status_t td_convolution_reorder_enqueue(td_run_t *r, const td_thunk_t *t) { return td_thunk_launch(r, t); }
