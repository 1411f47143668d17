/* SPDX-License-Identifier: Apache-2.0 */
/* select_k: the k largest of each row, descending. Arguments input, values, positions (s32) and, in newer
 * artifacts, scratch, which nothing here needs; sizes are those of the proto.
 * Sources: xla/backends/gpu/runtime/select_k_thunk.cc, select_k_thunk_proto_deserialization.cc, thunk.proto. */
#include "base/checked.h"
#include "executable.pb-c.h"
#include "runtime/thunk/thunk.h"

static td_status_t array(td_parse_t *c, const char *what,
                         const Xla__BufferAssignment__BufferAllocationSliceProto *slice, bool written, uint64_t rows,
                         uint64_t row, uint64_t elem, td_kernel_arg_t *a) {
    uint64_t bytes;
    td_status_t s = td_thunk_slice(c, what, slice, NULL, written, a);
    if (s) return s;
    if (!td_mul_u64(rows, row, &bytes) || !td_mul_u64(bytes, elem, &bytes) || bytes != a->size)
        return td_fail(c->err, TD_MISMATCH, "%s: slice of %llu bytes for %llu x %llu elements of %llu", what,
                       (unsigned long long)a->size, (unsigned long long)rows, (unsigned long long)row,
                       (unsigned long long)elem);
    return TD_OK;
}

td_status_t td_select_k_parse(td_parse_t *c, const td_thunk_msg_t *msg, td_thunk_t *t) {
    const Xla__Gpu__SelectKThunkProto *p = msg->select_k_thunk;
    td_kernel_arg_t scratch;
    td_topk_desc_t *d = TD_NEW(c->arena, td_topk_desc_t);
    if (!d) return td_arena_fail(c->arena, c->err);
    if (p->n_args != 3 && p->n_args != 4)
        return td_fail(c->err, TD_MALFORMED, "%zu arguments instead of 3 or 4", p->n_args);
    *d = (td_topk_desc_t){.type = (td_type_t)p->dtype, .batch = p->batch_size, .n = p->num_elements, .k = p->k};
    if (!td_type_is_array(d->type) || td_type_is_complex(d->type) || td_type_bits(d->type) < 8)
        return td_fail(c->err, TD_UNSUPPORTED, "element type %s (%d)", td_type_name(d->type), (int)p->dtype);
    if (d->k > d->n) return td_fail(c->err, TD_MALFORMED, "the first %lld of %lld", (long long)d->k, (long long)d->n);
    uint64_t elem = td_type_bytes(d->type);
    td_status_t s = td_thunk_args(c, t, 3);
    if (s || (s = array(c, "input", p->args[0], false, p->batch_size, p->num_elements, elem, &t->args[0])) ||
        (s = array(c, "values", p->args[1], true, p->batch_size, p->k, elem, &t->args[1])) ||
        (s = array(c, "positions", p->args[2], true, p->batch_size, p->k, 4, &t->args[2])) ||
        (p->n_args == 4 && (s = td_thunk_slice(c, "scratch", p->args[3], NULL, false, &scratch))))
        return s;
    t->extra = d;
    t->extra_bytes = sizeof *d;
    return TD_OK;
}

td_status_t td_select_k_lower(td_device_t *dev, const td_hlo_module_t *hlo, const td_thunk_t *from, td_thunk_t *t,
                              td_arena_t *arena, uint64_t *out_scratch, td_err_t *err) {
    (void)hlo;
    return dev->ops->library_lower(dev, TD_OP_TOPK, from->extra, arena, &t->kernel, out_scratch, err);
}
td_status_t td_select_k_enqueue(td_run_t *r, const td_thunk_t *t) { return td_thunk_launch(r, t); }
