/* SPDX-License-Identifier: Apache-2.0 */
/* The forward form of every kind of convolution, the working type, and the choice of path. */
#include <string.h>

#include "runtime/host/conv.h"

static td_conv_view_t view(const td_conv_array_t *a) {
    td_conv_view_t v = {.type = a->type,
                        .outer = a->outer_stride,
                        .feature = a->feature_stride,
                        .vector = a->vector,
                        .lane = a->vector_stride};
    memcpy(v.spatial, a->spatial_stride, sizeof v.spatial);
    return v;
}
static int64_t feature_offset(const td_conv_array_t *a, int64_t f) {
    return f / a->vector * a->feature_stride + f % a->vector * a->vector_stride;
}

static void turn(td_conv_view_t *v, uint32_t s, int64_t size) {
    v->base += (size - 1) * v->spatial[s];
    v->spatial[s] = -v->spatial[s];
}

static void swap_features(td_conv_view_t *v) {
    int64_t outer = v->outer;
    v->outer = v->feature;
    v->feature = outer;
}

static void forward(const td_conv_desc_t *d, td_conv_form_t *f) {
    int64_t b = d->batch_groups;
    f->groups = d->groups * b, f->batch = d->y.outer, f->in = d->w.feature, f->out = d->w.outer / f->groups;
    f->x = view(&d->x), f->w = view(&d->w), f->y = view(&d->y);
    f->x.group = b > 1 ? d->y.outer * d->x.outer_stride : feature_offset(&d->x, f->in);
    f->w.group = f->out * d->w.outer_stride;
    f->y.group = feature_offset(&d->y, f->out);
    for (uint32_t s = 0; s < d->n; s++) {
        const td_window_dim_t *w = &d->window[s];
        f->taps[s] = w->size, f->positions[s] = d->y.spatial[s], f->input[s] = d->x.spatial[s];
        f->step[s] = w->stride, f->dilate[s] = w->window_dilation, f->hole[s] = w->base_dilation,
        f->pad[s] = w->pad_low;
        if (w->reversal) turn(&f->w, s, w->size);
    }
}

/* dX[n,c,i] = sum over o and taps of dY[n,o,p] W[o,c,k] where p * stride + k * dilation - pad = i * base dilation. */
static void backward_data(const td_conv_desc_t *d, td_conv_form_t *f) {
    f->groups = d->groups, f->batch = d->x.outer, f->in = d->w.outer / d->groups, f->out = d->w.feature;
    f->x = view(&d->y), f->w = view(&d->w), f->y = view(&d->x);
    f->x.group = f->in * d->y.feature_stride;
    f->w.group = f->in * d->w.outer_stride;
    f->y.group = f->out * d->x.feature_stride;
    swap_features(&f->w);
    for (uint32_t s = 0; s < d->n; s++) {
        const td_window_dim_t *w = &d->window[s];
        f->taps[s] = w->size, f->positions[s] = d->x.spatial[s], f->input[s] = d->y.spatial[s];
        f->step[s] = w->base_dilation, f->dilate[s] = w->window_dilation, f->hole[s] = w->stride;
        f->pad[s] = (w->size - 1) * w->window_dilation - w->pad_low;
        if (!w->reversal) turn(&f->w, s, w->size);
    }
}

/* dW[o,c,k] = sum over n and p of X[n,c,(p * stride + k * dilation - pad) / base dilation] dY[n,o,p]. */
static void backward_filter(const td_conv_desc_t *d, td_conv_form_t *f) {
    f->groups = d->groups, f->batch = d->w.feature, f->in = d->x.outer, f->out = d->w.outer / d->groups;
    f->x = view(&d->x), f->w = view(&d->y), f->y = view(&d->w);
    f->x.group = d->w.feature * d->x.feature_stride;
    f->w.group = f->out * d->y.feature_stride;
    f->y.group = f->out * d->w.outer_stride;
    swap_features(&f->x), swap_features(&f->w), swap_features(&f->y);
    for (uint32_t s = 0; s < d->n; s++) {
        const td_window_dim_t *w = &d->window[s];
        f->taps[s] = d->y.spatial[s], f->positions[s] = w->size, f->input[s] = d->x.spatial[s];
        f->step[s] = w->window_dilation, f->dilate[s] = w->stride, f->hole[s] = w->base_dilation,
        f->pad[s] = w->pad_low;
        if (w->reversal) turn(&f->y, s, w->size);
    }
}

void td_conv_form_make(const td_conv_desc_t *d, td_conv_form_t *f) {
    *f = (td_conv_form_t){.n = d->n};
    if (d->kind == TD_CONV_BACKWARD_DATA) backward_data(d, f);
    else if (d->kind == TD_CONV_BACKWARD_FILTER) backward_filter(d, f);
    else forward(d, f);
}

/* Of int8x32 filters [O, I/32, H, W, 32]: the eight dimensions O/8, 4, 2, I/32, 8, 4, H, W with their strides in the
 * permuted array, which lies as [I/32, H, W, O/8, 2, 8, 4, 4], and in the plain one. */
void td_conv_permutation(const td_conv_array_t *w, int64_t dims[8], int64_t permuted[8], int64_t plain[8]) {
    int64_t o = w->outer, i = w->feature / 32, hh = w->spatial[0], ww = w->spatial[1], line = i * hh * ww * 32;
    const int64_t n[8] = {o / 8, 4, 2, i, 8, 4, hh, ww};
    const int64_t to[8] = {256, 4, 128, hh * ww * o * 32, 16, 1, ww * o * 32, o * 32};
    const int64_t from[8] = {8 * line, 2 * line, line, hh * ww * 32, 4, 1, ww * 32, 32};
    memcpy(dims, n, sizeof n);
    memcpy(permuted, to, sizeof to);
    memcpy(plain, from, sizeof from);
}

static bool exact(td_type_t t) { return td_type_is_integer(t) || t == TD_PRED; }

/* Sums of integers wrap where the result does; into floats and before saturation they must not. */
static td_status_t work_type(const td_conv_desc_t *d, td_type_t *out, td_err_t *err) {
    const td_type_t x = d->x.type, w = d->w.type, y = d->y.type;
    const td_type_t r = d->kind == TD_CONV_BACKWARD_DATA ? x : d->kind == TD_CONV_BACKWARD_FILTER ? w : y;
    const td_type_t a = d->kind == TD_CONV_BACKWARD_DATA ? y : x, b = d->kind == TD_CONV_BACKWARD_FILTER ? y : w;
    bool arrays = td_type_is_array(x) && td_type_is_array(w) && td_type_is_array(y);
    bool ints = exact(a) && exact(b), complex = td_type_is_complex(a) || td_type_is_complex(b) || td_type_is_complex(r);
    if (!arrays || x == TD_F8E8M0FNU || w == TD_F8E8M0FNU || y == TD_F8E8M0FNU || (exact(r) && !ints) ||
        (complex && !td_type_is_complex(r)))
        return td_fail(err, TD_UNSUPPORTED, "convolution of %s with %s into %s", td_type_name(a), td_type_name(b),
                       td_type_name(r));
    bool wide = a == TD_F64 || b == TD_F64 || r == TD_F64 || a == TD_C128 || b == TD_C128 || r == TD_C128;
    bool long_sums = td_type_bits(a) + td_type_bits(b) > 16;
    if (complex) *out = wide ? TD_C128 : TD_C64;
    else if (ints && exact(r)) *out = td_type_bits(r) > 32 || (d->saturate && long_sums) ? TD_S64 : TD_S32;
    else if (ints) *out = long_sums ? TD_S64 : TD_S32;
    else *out = wide ? TD_F64 : TD_F32;
    return TD_OK;
}

td_status_t td_conv_plan_make(const td_conv_desc_t *d, bool library, td_arena_t *arena, td_conv_plan_t **out,
                              uint64_t *out_scratch, td_err_t *err) {
    td_conv_plan_t *p = TD_NEW(arena, td_conv_plan_t);
    if (!p) return td_arena_fail(arena, err);
    td_status_t st = work_type(d, &p->work, err);
    if (st) return st;
    if (d->fused && (td_type_is_complex(p->work) || (d->has_bias && td_type_is_complex(d->bias))))
        return td_fail(err, TD_UNSUPPORTED, "fused convolution of complex values");
    if (d->reordered && (d->groups > 1 || td_type_bytes(d->w.type) != 1))
        return td_fail(err, TD_UNSUPPORTED, "reordered filter of %s in %lld groups", td_type_name(d->w.type),
                       (long long)d->groups);
    p->d = *d;
    td_conv_form_make(d, &p->form);
    *out_scratch = 0;
    if (library && (st = td_conv_dnnl_make(p, arena, out_scratch, err))) return st;
    if (!p->dnnl) {
        *out_scratch = 0;
        st = td_conv_direct_make(p, out_scratch, err);
    }
    if (!st) *out = p;
    return st;
}

void td_conv_plan_release(td_conv_plan_t *p) {
    if (!p) return;
    td_conv_dnnl_release(p->dnnl);
    p->dnnl = NULL;
}

td_status_t td_conv_run(const td_conv_plan_t *p, const td_conv_bufs_t *b, void *scratch, td_err_t *err) {
    if (p->dnnl) return td_conv_dnnl_run(p, b, scratch, err);
    td_conv_direct_run(p, b, scratch);
    return TD_OK;
}

uint64_t td_conv_packed_bytes(const td_conv_plan_t *p) {
    if (p->d.kind == TD_CONV_BACKWARD_FILTER) return 0;
    return p->dnnl ? td_conv_dnnl_packed_bytes(p->dnnl) : p->direct.packed_bytes;
}

td_status_t td_conv_pack(const td_conv_plan_t *p, const void *w, void *packed, void *scratch, td_err_t *err) {
    if (p->dnnl) return td_conv_dnnl_pack(p, w, packed, scratch, err);
    td_conv_direct_pack(p, w, packed, scratch);
    return TD_OK;
}
