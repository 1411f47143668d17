/* SPDX-License-Identifier: Apache-2.0 */
/* norm: cuDNN layer norm, forward (inference and training) and backward. Mean and biased variance over
 * dimensions 1… of x. Source: xla/service/gpu/gpu_norm_runner.proto, transforms/cudnn_norm_rewriter.cc. */
#include "executable.pb-c.h"
#include "runtime/shape_parse.h"
#include "runtime/thunk/thunk.h"

static td_status_t array(td_parse_t *c, const char *what, const Xla__ShapeProto *shape,
                         const Xla__BufferAssignment__BufferAllocationSliceProto *slice, bool written,
                         td_kernel_arg_t *a) {
    if (!shape || !slice) return td_fail(c->err, TD_MALFORMED, "%s: shape or slice is missing", what);
    td_status_t s = td_thunk_slice(c, what, slice, shape, written, a);
    if (s != TD_OK) return s;
    if (!a->shape || !td_type_is_array(a->shape->type) || a->shape->rank == 0 || a->shape->bytes > a->size)
        return td_fail(c->err, TD_MISMATCH, "%s: shape of %llu bytes in a slice of %llu", what,
                       (unsigned long long)(a->shape ? a->shape->bytes : 0), (unsigned long long)a->size);
    return TD_OK;
}

/* Rows lie one after the other and their elements in the same order as x's; dimensions of size 1 do not matter. */
static td_status_t rows_fit(td_parse_t *c, const char *what, const td_shape_t *x, const td_shape_t *s,
                            int64_t leading) {
    int64_t sx[TD_LIMIT_RANK], ss[TD_LIMIT_RANK];
    bool ok = s->rank == x->rank && s->dims[0] == leading;
    if (ok) td_shape_strides(x, sx), td_shape_strides(s, ss);
    for (uint32_t i = 1; i < x->rank && ok; i++) ok = s->dims[i] == x->dims[i] && (s->dims[i] == 1 || ss[i] == sx[i]);
    if (ok && leading > 1) ok = ss[0] == s->count / leading;
    return ok ? TD_OK : td_fail(c->err, TD_UNSUPPORTED, "norm: shape or layout of %s does not fit that of x", what);
}

static td_status_t statistics(td_parse_t *c, const char *what, const td_kernel_arg_t *a, int64_t rows) {
    if (a->shape->type == TD_F32 && a->shape->count == rows) return TD_OK;
    return td_fail(c->err, TD_MISMATCH, "norm: %s are %lld elements of %s for %lld rows", what,
                   (long long)a->shape->count, td_type_name(a->shape->type), (long long)rows);
}

static td_status_t forward(td_parse_t *c, const Xla__Gpu__NormThunkProto *p, td_thunk_t *t, td_norm_desc_t *d) {
    const Xla__Gpu__GpuNormDescriptorProto *n = p->norm_descriptor;
    td_status_t s = td_thunk_args(c, t, d->training ? 6 : 4);
    td_kernel_arg_t *a = t->args;
    d->has_bias = p->bias != NULL;
    if (s || (s = array(c, "x", n->x_shape, p->x, false, a)) ||
        (s = array(c, "scale", n->scale_shape, p->scale, false, a + 1)) ||
        (s = array(c, "y", n->y_or_dx_shape, p->y_or_dx, true, a + 3)))
        return s;
    a[2] = a[1];
    if (d->has_bias && (s = array(c, "bias", n->bias_shape, p->bias, false, a + 2))) return s;
    const td_shape_t *x = a[0].shape;
    if ((s = rows_fit(c, "x", x, x, x->dims[0])) || (s = rows_fit(c, "y", x, a[3].shape, x->dims[0])) ||
        (s = rows_fit(c, "scale", x, a[1].shape, 1)) || (s = rows_fit(c, "bias", x, a[2].shape, 1))) return s;
    if (!d->training) return TD_OK;
    if ((s = array(c, "expectation", n->expectation_shape, p->expectation, true, a + 4)) ||
        (s = array(c, "norm factor", n->norm_factor_shape, p->norm_factor, true, a + 5)) ||
        (s = statistics(c, "expectations", a + 4, x->dims[0]))) return s;
    return statistics(c, "norm factors", a + 5, x->dims[0]);
}

static td_status_t backward(td_parse_t *c, const Xla__Gpu__NormThunkProto *p, td_thunk_t *t, td_norm_desc_t *d) {
    const Xla__Gpu__GpuNormDescriptorProto *n = p->norm_descriptor;
    td_status_t s = td_thunk_args(c, t, 8);
    td_kernel_arg_t *a = t->args;
    if (s || (s = array(c, "x", n->x_shape, p->x, false, a)) ||
        (s = array(c, "scale", n->scale_shape, p->scale, false, a + 1)) ||
        (s = array(c, "dy", n->dy_shape, p->dy, false, a + 2)) ||
        (s = array(c, "expectation", n->expectation_shape, p->expectation, false, a + 3)) ||
        (s = array(c, "norm factor", n->norm_factor_shape, p->norm_factor, false, a + 4)) ||
        (s = array(c, "dx", n->y_or_dx_shape, p->y_or_dx, true, a + 5)) ||
        (s = array(c, "dscale", n->dscale_shape, p->dscale, true, a + 6)) ||
        (s = array(c, "dbias", n->dbias_shape, p->dbias, true, a + 7)))
        return s;
    const td_shape_t *x = a[0].shape;
    int64_t rows = x->dims[0];
    if ((s = rows_fit(c, "x", x, x, rows)) || (s = rows_fit(c, "dy", x, a[2].shape, rows)) ||
        (s = rows_fit(c, "dx", x, a[5].shape, rows)) || (s = rows_fit(c, "scale", x, a[1].shape, 1)) ||
        (s = rows_fit(c, "dscale", x, a[6].shape, 1)) || (s = rows_fit(c, "dbias", x, a[7].shape, 1)) ||
        (s = statistics(c, "expectations", a + 3, rows)))
        return s;
    d->dy = a[2].shape->type, d->dscale = a[6].shape->type, d->dbias = a[7].shape->type;
    return statistics(c, "norm factors", a + 4, rows);
}

td_status_t td_norm_parse(td_parse_t *c, const td_thunk_msg_t *msg, td_thunk_t *t) {
    const Xla__Gpu__NormThunkProto *p = msg->norm_thunk;
    const Xla__Gpu__GpuNormDescriptorProto *n = p->norm_descriptor;
    if (!n || !n->backend_config) return td_fail(c->err, TD_MALFORMED, "norm descriptor is missing");
    int kind = n->backend_config->has_kind ? (int)n->backend_config->kind : 0;
    if (kind < 0 || kind > 2) return td_fail(c->err, TD_UNSUPPORTED, "norm kind %d", kind);
    td_norm_desc_t *d = TD_NEW(c->arena, td_norm_desc_t);
    if (!d) return td_arena_fail(c->arena, c->err);
    d->training = kind == 1, d->backward = kind == 2, d->epsilon = n->backend_config->epsilon;
    td_status_t s = d->backward ? backward(c, p, t, d) : forward(c, p, t, d);
    if (s) return s;
    const td_kernel_arg_t *a = t->args;
    d->x = a[0].shape->type, d->scale = a[1].shape->type, d->bias = a[2].shape->type,
    d->y = a[d->backward ? 5 : 3].shape->type;
    d->rows = a[0].shape->dims[0], d->cols = d->rows ? a[0].shape->count / d->rows : 0;
    t->extra = d;
    t->extra_bytes = sizeof *d;
    return TD_OK;
}
td_status_t td_norm_lower(td_device_t *dev, const td_hlo_module_t *hlo, const td_thunk_t *from, td_thunk_t *t,
                          td_arena_t *arena, uint64_t *out_scratch, td_err_t *err) {
    (void)hlo;
    return dev->ops->library_lower(dev, TD_OP_NORM, from->extra, arena, &t->kernel, out_scratch, err);
}
td_status_t td_norm_enqueue(td_run_t *r, const td_thunk_t *t) { return td_thunk_launch(r, t); }
