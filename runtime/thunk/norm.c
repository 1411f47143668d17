/* SPDX-License-Identifier: Apache-2.0 */
/* norm: cuDNN layer norm, forward (inference and training). Mean and biased variance over
 * dimensions 1… of x; backward is refused. Source: xla/service/gpu/gpu_norm_runner.proto. */
#include "executable.pb-c.h"
#include "runtime/shape_parse.h"
#include "runtime/thunk/thunk.h"

static td_status_t array(td_parse_t *c, const char *what, const Xla__ShapeProto *shape,
                         const Xla__BufferAssignment__BufferAllocationSliceProto *slice, bool written, td_kernel_arg_t *a) {
    if (!shape || !slice) return td_fail(c->err, TD_MALFORMED, "%s: shape or slice is missing", what);
    td_status_t s = td_thunk_slice(c, what, slice, shape, written, a);
    if (s != TD_OK) return s;
    if (!a->shape || !td_type_is_array(a->shape->type) || a->shape->rank == 0 || a->shape->bytes > a->size)
        return td_fail(c->err, TD_MISMATCH, "%s: shape of %llu bytes in a slice of %llu", what,
                       (unsigned long long)(a->shape ? a->shape->bytes : 0), (unsigned long long)a->size);
    return TD_OK;
}

/* Rows lie one after the other and their elements in the same order everywhere. */
static bool rows_fit(const td_shape_t *x, const td_shape_t *s, int64_t leading) {
    if (s->rank != x->rank || s->dims[0] != leading || x->minor_to_major[x->rank - 1] != 0) return false;
    for (uint32_t i = 0; i < x->rank; i++)
        if ((i && s->dims[i] != x->dims[i]) || s->minor_to_major[i] != x->minor_to_major[i]) return false;
    return true;
}

td_status_t td_norm_parse(td_parse_t *c, const td_thunk_msg_t *msg, td_thunk_t *t) {
    const Xla__Gpu__NormThunkProto *p = msg->norm_thunk;
    const Xla__Gpu__GpuNormDescriptorProto *n = p->norm_descriptor;
    if (!n || !n->backend_config) return td_fail(c->err, TD_MALFORMED, "norm descriptor is missing");
    int kind = n->backend_config->has_kind ? (int)n->backend_config->kind : 0;
    if (kind != 0 && kind != 1) return td_fail(c->err, TD_UNSUPPORTED, "norm kind %d (only forward norms are supported)", kind);
    bool training = kind == 1;
    td_norm_desc_t *d = TD_NEW(c->arena, td_norm_desc_t);
    if (!d) return td_arena_fail(c->arena, c->err);
    td_status_t s = td_thunk_args(c, t, training ? 6 : 4);
    td_kernel_arg_t *a = t->args;
    if (s || (s = array(c, "x", n->x_shape, p->x, false, a)) || (s = array(c, "scale", n->scale_shape, p->scale, false, a + 1)) ||
        (s = array(c, "bias", n->bias_shape, p->bias, false, a + 2)) || (s = array(c, "y", n->y_or_dx_shape, p->y_or_dx, true, a + 3)))
        return s;
    if (training && ((s = array(c, "expectation", n->expectation_shape, p->expectation, true, a + 4)) ||
                     (s = array(c, "norm factor", n->norm_factor_shape, p->norm_factor, true, a + 5))))
        return s;
    const td_shape_t *x = a[0].shape;
    if (!rows_fit(x, a[3].shape, x->dims[0]) || !rows_fit(x, a[1].shape, 1) || !rows_fit(x, a[2].shape, 1))
        return td_fail(c->err, TD_UNSUPPORTED, "norm: shapes or layouts of x, scale, bias and y do not fit each other");
    *d = (td_norm_desc_t){.x = x->type, .scale = a[1].shape->type, .bias = a[2].shape->type, .y = a[3].shape->type,
                          .rows = x->dims[0], .cols = x->dims[0] ? x->count / x->dims[0] : 0,
                          .epsilon = n->backend_config->epsilon, .training = training};
    for (uint32_t i = 4; i < t->n_args; i++)
        if (a[i].shape->type != TD_F32 || a[i].shape->count != d->rows)
            return td_fail(c->err, TD_MISMATCH, "norm: statistics of %lld elements for %lld rows", (long long)a[i].shape->count, (long long)d->rows);
    t->extra = d;
    t->extra_bytes = sizeof *d;
    return TD_OK;
}
td_status_t td_norm_lower(td_device_t *dev, const td_hlo_module_t *hlo, const td_thunk_t *from, td_thunk_t *t, td_arena_t *arena,
                          uint64_t *out_scratch, td_err_t *err) {
    (void)hlo;
    return dev->ops->library_lower(dev, TD_OP_NORM, from->extra, arena, &t->kernel, out_scratch, err);
}
td_status_t td_norm_enqueue(td_run_t *r, const td_thunk_t *t) { return td_thunk_launch(r, t); }
