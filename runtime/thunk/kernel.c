/* SPDX-License-Identifier: Apache-2.0 */
/* kernel and custom_kernel: arguments are operand leaves, then output leaves, of the annotated instruction. */
#include <string.h>

#include "executable.pb-c.h"
#include "runtime/thunk/thunk.h"

static td_status_t finish(td_parse_t *c, td_thunk_t *t, const char *name) {
    td_status_t st;
    uint32_t at = 0;
    t->kernel_name = td_arena_strndup(c->arena, name ? name : "", name ? strlen(name) : 0);
    if (!t->kernel_name) return td_arena_fail(c->arena, c->err);
    for (uint32_t i = 0; i < t->n_args; i++)
        if (t->args[i].shape && t->args[i].shape->bytes != t->args[i].size)
            return td_fail(c->err, TD_MISMATCH, "args[%u]: slice has %llu bytes, its shape %llu", i,
                           (unsigned long long)t->args[i].size, (unsigned long long)t->args[i].shape->bytes);
    t->instr = td_hlo_find(c->m->hlo, t->annotation, strlen(t->annotation));
    if (!t->instr) return TD_OK;
    for (uint32_t i = 0; i < t->instr->n_operands; i++)
        if ((st = td_thunk_leaves(c, t->instr->operands[i]->shape, true, t, &at))) return st;
    uint32_t first_result = at;
    if ((st = td_thunk_leaves(c, t->instr->shape, true, t, &at))) return st;
    /* What is only read may be a constant that others share, or the caller's memory. */
    for (uint32_t i = first_result; i < at; i++)
        if (t->args[i].size && !t->args[i].written)
            return td_fail(c->err, TD_MALFORMED, "args[%u]: a result of '%s' that is not marked as written", i,
                           t->instr->name);
    if (at != t->n_args)
        return td_fail(c->err, TD_MISMATCH, "kernel has %u arguments, instruction '%s' %u", t->n_args, t->instr->name, at);
    return TD_OK;
}

td_status_t td_kernel_parse(td_parse_t *c, const td_thunk_msg_t *msg, td_thunk_t *t) {
    const Xla__Gpu__KernelThunkProto *k = msg->kernel_thunk;
    td_status_t st;
    if (k->n_written != k->n_args) return td_fail(c->err, TD_MALFORMED, "%zu arguments, %zu written flags", k->n_args, k->n_written);
    if (k->n_args_shape && k->n_args_shape != k->n_args)
        return td_fail(c->err, TD_MALFORMED, "%zu arguments, %zu shapes", k->n_args, k->n_args_shape);
    if ((st = td_thunk_args(c, t, (uint32_t)k->n_args))) return st;
    for (uint32_t i = 0; i < t->n_args; i++)
        if ((st = td_thunk_slice(c, "args", k->args[i], k->n_args_shape ? k->args_shape[i] : NULL, k->written[i], &t->args[i])))
            return td_prefix(c->err, st, "args[%u]", i);
    if ((st = td_launch_parse_kernel(c, k, t))) return st;
    return finish(c, t, k->kernel_name);
}

td_status_t td_custom_kernel_parse(td_parse_t *c, const td_thunk_msg_t *msg, td_thunk_t *t) {
    const Xla__Gpu__CustomKernelThunkProto *k = msg->custom_kernel_thunk;
    td_status_t st;
    if (k->n_written != k->n_args) return td_fail(c->err, TD_MALFORMED, "%zu arguments, %zu written flags", k->n_args, k->n_written);
    if ((st = td_thunk_args(c, t, (uint32_t)k->n_args))) return st;
    for (uint32_t i = 0; i < t->n_args; i++)
        if ((st = td_thunk_shaped(c, "args", k->args[i], k->written[i], &t->args[i]))) return td_prefix(c->err, st, "args[%u]", i);
    if ((st = td_launch_parse_custom(c, k, t))) return st;
    return finish(c, t, k->custom_kernel ? k->custom_kernel->name : NULL);
}

td_status_t td_kernel_thunk_lower(td_device_t *dev, const td_hlo_module_t *hlo, const td_thunk_t *from, td_thunk_t *t,
                                  td_arena_t *arena, uint64_t *out_scratch, td_err_t *err) {
    /* One kernel that is compiled does what several do that were: a device that loads them runs them all. */
    if (from->skip && dev->ops->compiles) return TD_OK;
    t->skip = false;
    td_kernel_desc_t d = {.module = hlo, .instr = from->instr, .name = from->kernel_name, .args = from->args,
                          .n_args = from->n_args, .launch = from->launch, .producer = from->producer,
                          .producer_operand = from->producer_operand, .producer_output = from->producer_output};
    return dev->ops->kernel_lower(dev, &d, arena, &t->kernel, out_scratch, err);
}

td_status_t td_thunk_launch(td_run_t *r, const td_thunk_t *t) {
    for (uint32_t i = 0; i < t->n_args; i++) r->bufs[i] = td_thunk_addr(r, &t->args[i]);
    return r->dev->ops->launch(r->stream, t->kernel, r->bufs, t->n_args, r->scratch, r->err);
}
td_status_t td_kernel_enqueue(td_run_t *r, const td_thunk_t *t) { return td_thunk_launch(r, t); }
td_status_t td_custom_kernel_enqueue(td_run_t *r, const td_thunk_t *t) { return td_thunk_launch(r, t); }
