/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/conv_desc.h"

#include "base/checked.h"
#include "base/limits.h"

#define LL(x) ((long long)(x))
static const char *const role_names[3] = {"input", "filter", "output"};

td_status_t td_conv_set_window(td_conv_desc_t *d, const td_window_dim_t *dims, uint32_t n, td_err_t *err) {
    const int64_t far = 1ll << 40;
    if (n > TD_CONV_SPATIAL)
        return td_fail(err, TD_UNSUPPORTED, "convolution over %u spatial dimensions (at most %d)", n, TD_CONV_SPATIAL);
    d->n = n;
    for (uint32_t i = 0; i < n; i++) {
        const td_window_dim_t *w = &dims[i];
        if (w->size < 1 || w->size > far || w->stride < 1 || w->stride > far || w->window_dilation < 1 ||
            w->window_dilation > far || w->base_dilation < 1 || w->base_dilation > far || w->pad_low < -far ||
            w->pad_low > far || w->pad_high < -far || w->pad_high > far)
            return td_fail(err, TD_MALFORMED, "window dimension %u is out of range", i);
        d->window[i] = *w;
    }
    return TD_OK;
}

/* Takes dimension `dim` out of the set of those not yet named. */
static td_status_t name_dim(const td_shape_t *s, const char *role, int64_t dim, uint64_t *left, td_err_t *err) {
    if (dim < 0 || dim >= (int64_t)s->rank || !(*left >> dim & 1))
        return td_fail(err, TD_MALFORMED, "%s: dimension number %lld of rank %u is out of range or repeated", role,
                       LL(dim), s->rank);
    *left &= ~(1ull << dim);
    return TD_OK;
}

td_status_t td_conv_set_array(td_conv_desc_t *d, td_conv_role_t role, const td_shape_t *shape,
                              const td_conv_dims_t *dims, td_err_t *err) {
    const char *name = role_names[role];
    const int64_t outer[3] = {dims->input_batch, dims->kernel_output_feature, dims->output_batch};
    const int64_t feature[3] = {dims->input_feature, dims->kernel_input_feature, dims->output_feature};
    const td_ints_t *spatial = role == TD_CONV_X   ? &dims->input_spatial
                               : role == TD_CONV_W ? &dims->kernel_spatial
                                                   : &dims->output_spatial;
    td_conv_array_t *a = role == TD_CONV_X ? &d->x : role == TD_CONV_W ? &d->w : &d->y;
    int64_t strides[TD_CONV_SPATIAL + 3];
    td_status_t st;
    if (spatial->n != d->n)
        return td_fail(err, TD_MALFORMED, "%s: %u spatial dimensions for a window of %u", name, spatial->n, d->n);
    if (!td_type_is_array(shape->type) || (shape->rank != d->n + 2 && shape->rank != d->n + 3))
        return td_fail(err, TD_MALFORMED, "%s: rank %u for %u spatial dimensions", name, shape->rank, d->n);
    uint64_t left = (1ull << shape->rank) - 1;
    if ((st = name_dim(shape, name, outer[role], &left, err)) ||
        (st = name_dim(shape, name, feature[role], &left, err)))
        return st;
    for (uint32_t i = 0; i < d->n; i++)
        if ((st = name_dim(shape, name, spatial->v[i], &left, err))) return st;
    td_shape_strides(shape, strides);
    *a = (td_conv_array_t){.type = shape->type, .count = shape->count, .outer = shape->dims[outer[role]],
                           .outer_stride = strides[outer[role]], .feature = shape->dims[feature[role]],
                           .feature_stride = strides[feature[role]], .vector = 1};
    for (uint32_t i = 0; i < d->n; i++) {
        a->spatial[i] = shape->dims[spatial->v[i]];
        a->spatial_stride[i] = strides[spatial->v[i]];
    }
    if (!left) return TD_OK;
    uint32_t v = (uint32_t)__builtin_ctzll(left);
    uint64_t features;
    if (shape->minor_to_major[0] != (int32_t)v || shape->dims[v] < 1)
        return td_fail(err, TD_UNSUPPORTED, "%s: dimension %u is in no role and not the fastest varying one", name, v);
    if (!td_mul_u64((uint64_t)a->feature, (uint64_t)shape->dims[v], &features) || features > INT64_MAX)
        return td_fail(err, TD_LIMIT, "%s: %lld blocks of %lld features", name, LL(a->feature), LL(shape->dims[v]));
    a->vector = shape->dims[v];
    a->vector_stride = strides[v];
    a->feature = (int64_t)features;
    return TD_OK;
}

/* What the window makes of `in` positions; all factors are below 2^40 or sizes of arrays. */
static __int128 window_count(const td_window_dim_t *w, int64_t in) {
    __int128 base = in ? (__int128)(in - 1) * w->base_dilation + 1 : 0;
    base += (__int128)w->pad_low + w->pad_high;
    __int128 size = (__int128)(w->size - 1) * w->window_dilation + 1;
    return base < size ? 0 : (base - size) / w->stride + 1;
}

static td_status_t check_spatial(const td_conv_desc_t *d, td_err_t *err) {
    for (uint32_t i = 0; i < d->n; i++) {
        const td_window_dim_t *w = &d->window[i];
        const __int128 far = (__int128)1 << 60;
        if (d->w.spatial[i] != w->size)
            return td_fail(err, TD_MISMATCH, "filter has size %lld in dimension %u, window %lld", LL(d->w.spatial[i]),
                           i, LL(w->size));
        __int128 n = window_count(w, d->x.spatial[i]);
        if (n != d->y.spatial[i])
            return td_fail(err, TD_MISMATCH, "output has size %lld in dimension %u, the window gives %lld",
                           LL(d->y.spatial[i]), i, n > INT64_MAX ? -1 : LL(n));
        if ((__int128)d->x.spatial[i] * w->base_dilation > far || (__int128)d->y.spatial[i] * w->stride > far ||
            (__int128)w->size * w->window_dilation > far)
            return td_fail(err, TD_LIMIT, "window positions of dimension %u overflow", i);
    }
    return TD_OK;
}

static td_status_t check_work(const td_conv_desc_t *d, td_err_t *err) {
    uint64_t steps = 1;
    bool ok = td_mul_u64(steps, (uint64_t)d->y.count, &steps) && td_mul_u64(steps, (uint64_t)d->w.feature, &steps);
    for (uint32_t i = 0; i < d->n; i++) ok = ok && td_mul_u64(steps, (uint64_t)d->window[i].size, &steps);
    if (!ok || steps > TD_LIMIT_CONV_STEPS)
        return td_fail(err, TD_LIMIT, "convolution of more than %llu multiplications", TD_LIMIT_CONV_STEPS);
    return TD_OK;
}

/* A feature dimension kept in blocks must not be cut by a group. */
static td_status_t check_vectors(const td_conv_desc_t *d, td_err_t *err) {
    const td_conv_array_t *const a[3] = {&d->x, &d->w, &d->y};
    for (int i = 0; i < 3; i++) {
        if (a[i]->vector == 1) continue;
        if (d->kind != TD_CONV_FORWARD || d->batch_groups > 1)
            return td_fail(err, TD_UNSUPPORTED, "%s: features in blocks of %lld outside a forward convolution",
                           role_names[i], LL(a[i]->vector));
        int64_t per_group = i == TD_CONV_W ? a[i]->feature : a[i]->feature / d->groups;
        if (per_group % a[i]->vector)
            return td_fail(err, TD_UNSUPPORTED, "%s: groups of %lld features in blocks of %lld", role_names[i],
                           LL(per_group), LL(a[i]->vector));
    }
    if (d->reordered && (d->n != 2 || d->w.vector != 32 || d->w.outer % 32))
        return td_fail(err, TD_UNSUPPORTED, "reordered filter with %lld output features in blocks of %lld",
                       LL(d->w.outer), LL(d->w.vector));
    return TD_OK;
}

td_status_t td_conv_check(const td_conv_desc_t *d, td_err_t *err) {
    td_status_t st;
    int64_t g = d->groups, b = d->batch_groups;
    if (g < 1 || b < 1 || (g > 1 && b > 1))
        return td_fail(err, TD_MALFORMED, "%lld feature groups and %lld batch groups", LL(g), LL(b));
    if (d->w.feature != 0 && (d->x.feature % g || d->x.feature / g != d->w.feature))
        return td_fail(err, TD_MISMATCH, "input has %lld features in %lld groups, filter %lld", LL(d->x.feature), LL(g),
                       LL(d->w.feature));
    if (d->w.feature == 0 && d->x.feature != 0)
        return td_fail(err, TD_MISMATCH, "input has %lld features, filter none", LL(d->x.feature));
    if (d->w.outer != d->y.feature || d->w.outer % g || d->w.outer % b)
        return td_fail(err, TD_MISMATCH, "filter has %lld output features, output %lld, in %lld groups", LL(d->w.outer),
                       LL(d->y.feature), LL(g > b ? g : b));
    if (d->x.outer % b || d->x.outer / b != d->y.outer)
        return td_fail(err, TD_MISMATCH, "input has batch %lld in %lld groups, output %lld", LL(d->x.outer), LL(b),
                       LL(d->y.outer));
    if ((st = check_spatial(d, err)) || (st = check_work(d, err))) return st;
    return check_vectors(d, err);
}
