/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "executable.pb-c.h"
#include "runtime/hlo/hlo_parse.h"

static bool ints(td_arena_t *arena, const int64_t *v, size_t n, td_ints_t *out) {
    int64_t *d = TD_NEW_N(arena, int64_t, n);
    if (!d) return false;
    if (n) memcpy(d, v, n * sizeof *d);
    *out = (td_ints_t){d, (uint32_t)n};
    return true;
}
#define INTS(dst, msg, field)                                          \
    do {                                                               \
        if (!ints(arena, (msg)->field, (msg)->n_##field, &(dst)))      \
            return td_arena_fail(arena, err);                          \
    } while (0)

static td_status_t window(td_arena_t *arena, const Xla__Window *w, td_hlo_instr_t *in, td_err_t *err) {
    td_window_dim_t *d = TD_NEW_N(arena, td_window_dim_t, w->n_dimensions);
    if (!d) return td_arena_fail(arena, err);
    in->window = (td_window_t){d, (uint32_t)w->n_dimensions};
    for (size_t i = 0; i < w->n_dimensions; i++) {
        const Xla__WindowDimension *p = w->dimensions[i];
        d[i] = (td_window_dim_t){p->size, p->stride ? p->stride : 1, p->padding_low, p->padding_high,
                                 p->window_dilation ? p->window_dilation : 1, p->base_dilation ? p->base_dilation : 1,
                                 p->window_reversal};
        if (d[i].size < 0 || d[i].stride < 1 || d[i].window_dilation < 1 || d[i].base_dilation < 1 ||
            d[i].size > (1ll << 40) || d[i].stride > (1ll << 40) || d[i].window_dilation > (1ll << 40) ||
            d[i].base_dilation > (1ll << 40) || d[i].pad_low > (1ll << 40) || d[i].pad_low < -(1ll << 40) ||
            d[i].pad_high > (1ll << 40) || d[i].pad_high < -(1ll << 40))
            return td_fail(err, TD_MALFORMED, "window dimension %zu is out of range", i);
    }
    return TD_OK;
}

static td_status_t dims(td_arena_t *arena, const Xla__HloInstructionProto *p, td_hlo_instr_t *in, td_err_t *err) {
    const Xla__DotDimensionNumbers *dd = p->dot_dimension_numbers;
    if (!dd && p->ragged_dot_dimension_numbers) dd = p->ragged_dot_dimension_numbers->dot_dimension_numbers;
    if (dd) {
        td_dot_dims_t *d = TD_NEW(arena, td_dot_dims_t);
        if (!d) return td_arena_fail(arena, err);
        INTS(d->lhs_contracting, dd, lhs_contracting_dimensions);
        INTS(d->rhs_contracting, dd, rhs_contracting_dimensions);
        INTS(d->lhs_batch, dd, lhs_batch_dimensions);
        INTS(d->rhs_batch, dd, rhs_batch_dimensions);
        if (p->ragged_dot_dimension_numbers) {
            INTS(d->lhs_ragged, p->ragged_dot_dimension_numbers, lhs_ragged_dimensions);
            INTS(d->rhs_group, p->ragged_dot_dimension_numbers, rhs_group_dimensions);
        }
        in->dot = d;
    }
    if (p->gather_dimension_numbers) {
        const Xla__GatherDimensionNumbers *g = p->gather_dimension_numbers;
        td_gather_dims_t *d = TD_NEW(arena, td_gather_dims_t);
        if (!d) return td_arena_fail(arena, err);
        INTS(d->offset_dims, g, offset_dims);
        INTS(d->collapsed_slice_dims, g, collapsed_slice_dims);
        INTS(d->start_index_map, g, start_index_map);
        INTS(d->operand_batching_dims, g, operand_batching_dims);
        INTS(d->start_indices_batching_dims, g, start_indices_batching_dims);
        d->index_vector_dim = g->index_vector_dim;
        in->gather = d;
    }
    if (p->scatter_dimension_numbers) {
        const Xla__ScatterDimensionNumbers *s = p->scatter_dimension_numbers;
        td_scatter_dims_t *d = TD_NEW(arena, td_scatter_dims_t);
        if (!d) return td_arena_fail(arena, err);
        INTS(d->update_window_dims, s, update_window_dims);
        INTS(d->inserted_window_dims, s, inserted_window_dims);
        INTS(d->scatter_dims_to_operand_dims, s, scatter_dims_to_operand_dims);
        INTS(d->input_batching_dims, s, input_batching_dims);
        INTS(d->scatter_indices_batching_dims, s, scatter_indices_batching_dims);
        d->index_vector_dim = s->index_vector_dim;
        in->scatter = d;
    }
    if (p->convolution_dimension_numbers) {
        const Xla__ConvolutionDimensionNumbers *c = p->convolution_dimension_numbers;
        td_conv_dims_t *d = TD_NEW(arena, td_conv_dims_t);
        if (!d) return td_arena_fail(arena, err);
        d->input_batch = c->input_batch_dimension;
        d->input_feature = c->input_feature_dimension;
        d->kernel_input_feature = c->kernel_input_feature_dimension;
        d->kernel_output_feature = c->kernel_output_feature_dimension;
        d->output_batch = c->output_batch_dimension;
        d->output_feature = c->output_feature_dimension;
        INTS(d->input_spatial, c, input_spatial_dimensions);
        INTS(d->kernel_spatial, c, kernel_spatial_dimensions);
        INTS(d->output_spatial, c, output_spatial_dimensions);
        in->conv = d;
    }
    return TD_OK;
}

static const char *text(td_arena_t *arena, const char *s) {
    return s ? td_arena_strndup(arena, s, strlen(s)) : "";
}

/* The largest element of field 1, operand_precision, of a PrecisionConfig: small numbers, each of one byte. Anything
 * else says nothing. Source: xla_data.proto. */
static int32_t precision_of(const uint8_t *p, size_t n) {
    int32_t most = 0;
    for (size_t i = 0; i + 1 < n;) {
        const bool packed = p[i] == 0x0a;
        size_t count = 1;
        if (!packed && p[i] != 0x08) return most;
        i++;
        if (packed) count = p[i++];
        if (count > n - i) return most;
        for (; count; count--, i++)
            if (p[i] > most && p[i] <= 2) most = p[i];
    }
    return most;
}

td_status_t td_hlo_parse_attrs(td_arena_t *arena, const Xla__HloInstructionProto *p, td_hlo_instr_t *in,
                               td_err_t *err) {
    td_status_t st;
    INTS(in->dimensions, p, dimensions);
    INTS(in->dynamic_slice_sizes, p, dynamic_slice_sizes);
    INTS(in->gather_slice_sizes, p, gather_slice_sizes);
    INTS(in->fft_length, p, fft_length);
    in->parameter_number = p->parameter_number;
    in->tuple_index = p->tuple_index;
    in->feature_group_count = p->feature_group_count > 0 ? p->feature_group_count : 1;
    in->batch_group_count = p->batch_group_count > 0 ? p->batch_group_count : 1;
    in->precision = precision_of(p->precision_config.data, p->precision_config.len);
    in->is_stable = p->is_stable;
    in->largest = p->largest;
    in->exponent_bits = p->exponent_bits;
    in->mantissa_bits = p->mantissa_bits;
    in->fft_type = (int32_t)p->fft_type;
    in->rng_algorithm = (int32_t)p->rng_algorithm;
    in->rng_distribution = (int32_t)p->distribution;
    in->delta = p->delta;
    in->epsilon = p->epsilon;
    in->feature_index = p->feature_index;
    in->scan.num_carries = p->num_carries;
    in->scan.is_reverse = p->is_reverse;
    if (p->n_slice_dimensions) {
        in->slice = TD_NEW_N(arena, td_slice_dim_t, p->n_slice_dimensions);
        if (!in->slice) return td_arena_fail(arena, err);
        in->n_slice = (uint32_t)p->n_slice_dimensions;
        for (uint32_t i = 0; i < in->n_slice; i++)
            in->slice[i] = (td_slice_dim_t){p->slice_dimensions[i]->start, p->slice_dimensions[i]->limit,
                                            p->slice_dimensions[i]->stride ? p->slice_dimensions[i]->stride : 1};
    }
    if (p->padding_config) {
        in->n_pad = (uint32_t)p->padding_config->n_dimensions;
        in->pad = TD_NEW_N(arena, td_pad_dim_t, in->n_pad);
        if (!in->pad) return td_arena_fail(arena, err);
        for (uint32_t i = 0; i < in->n_pad; i++) {
            const Xla__PaddingConfig__PaddingConfigDimension *d = p->padding_config->dimensions[i];
            in->pad[i] = (td_pad_dim_t){d->edge_padding_low, d->edge_padding_high, d->interior_padding};
        }
    }
    if (p->window && (st = window(arena, p->window, in, err))) return st;
    if ((st = dims(arena, p, in, err))) return st;
    if (in->opcode == TD_HLO_COMPARE) {
        static const char *const names[] = {"EQ", "NE", "GE", "GT", "LE", "LT"};
        unsigned i = 0;
        while (i < 6 && (!p->comparison_direction || strcmp(p->comparison_direction, names[i]))) i++;
        if (i == 6) return td_fail(err, TD_MALFORMED, "comparison direction '%.16s'", p->comparison_direction ? p->comparison_direction : "");
        in->direction = (td_cmp_dir_t)i;
        /* Fallback comparison-type: the order in the type. Can be removed in March 2027. */
        in->total_order = (p->comparison_type && strstr(p->comparison_type, "TOTALORDER")) ||
                          (p->comparison_order && !strcmp(p->comparison_order, "TOTAL"));
    }
    if (p->cholesky_options) in->cholesky_lower = p->cholesky_options->lower;
    if (p->triangular_solve_options) {
        in->triangular.left_side = p->triangular_solve_options->left_side;
        in->triangular.lower = p->triangular_solve_options->lower;
        in->triangular.unit_diagonal = p->triangular_solve_options->unit_diagonal;
        in->triangular.transpose_a = (int32_t)p->triangular_solve_options->transpose_a;
    }
    in->fusion_kind = text(arena, p->fusion_kind);
    if (in->opcode == TD_HLO_CUSTOM_CALL) in->custom_call_target = text(arena, p->custom_call_target);
    if (!in->fusion_kind || (in->opcode == TD_HLO_CUSTOM_CALL && !in->custom_call_target))
        return td_arena_fail(arena, err);
    return TD_OK;
}
