/* SPDX-License-Identifier: Apache-2.0 */
/* fft: cuFFT transforms of the innermost dimensions. Layouts are those of the shapes.
 * Source: xla/backends/gpu/runtime/fft_thunk.cc and thunk.proto. */
#include "executable.pb-c.h"
#include "runtime/fft_desc.h"
#include "runtime/thunk/thunk.h"

static td_status_t array(td_parse_t *c, const char *what, const Xla__ShapeProto *shape,
                         const Xla__BufferAssignment__BufferAllocationSliceProto *slice, bool written,
                         td_kernel_arg_t *a) {
    if (!shape || !slice) return td_fail(c->err, TD_MALFORMED, "%s: shape or slice is missing", what);
    td_status_t s = td_thunk_slice(c, what, slice, shape, written, a);
    if (s) return s;
    if (!a->shape || !td_type_is_array(a->shape->type) || a->shape->bytes != a->size)
        return td_fail(c->err, TD_MISMATCH, "%s: shape of %llu bytes in a slice of %llu", what,
                       (unsigned long long)(a->shape ? a->shape->bytes : 0), (unsigned long long)a->size);
    return TD_OK;
}

td_status_t td_fft_parse(td_parse_t *c, const td_thunk_msg_t *msg, td_thunk_t *t) {
    const Xla__Gpu__FftThunkProto *p = msg->fft_thunk;
    td_fft_desc_t *d = TD_NEW(c->arena, td_fft_desc_t);
    if (!d) return td_arena_fail(c->arena, c->err);
    td_status_t s = td_thunk_args(c, t, 2);
    if (s || (s = array(c, "input", p->input_shape, p->input_buffer, false, &t->args[0])) ||
        (s = array(c, "output", p->output_shape, p->output_buffer, true, &t->args[1])) ||
        (s = td_fft_describe((int)p->fft_type, p->fft_length, p->n_fft_length, t->args[0].shape, t->args[1].shape, d,
                             c->err)))
        return s;
    t->extra = d;
    t->extra_bytes = sizeof *d;
    return TD_OK;
}

td_status_t td_fft_lower(td_device_t *dev, const td_hlo_module_t *hlo, const td_thunk_t *from, td_thunk_t *t,
                         td_arena_t *arena, uint64_t *out_scratch, td_err_t *err) {
    (void)hlo;
    return dev->ops->library_lower(dev, TD_OP_FFT, from->extra, arena, &t->kernel, out_scratch, err);
}
td_status_t td_fft_enqueue(td_run_t *r, const td_thunk_t *t) { return td_thunk_launch(r, t); }
