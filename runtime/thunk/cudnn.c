/* SPDX-License-Identifier: Apache-2.0 */
/* cudnn: a graph that cuDNN compiled. The compiled graph is not read; the annotated instruction says everything:
 * attention and block-scaled dots by their custom-call target, fusions by their body (evaluated as a kernel).
 * Arguments are operand leaves, then result leaves; the last result may be a workspace.
 * Source: xla/backends/gpu/runtime/cudnn_thunk.cc. */
#include <string.h>

#include "executable.pb-c.h"
#include "runtime/thunk/attention.h"
#include "runtime/thunk/gemm_block.h"
#include "runtime/thunk/thunk.h"

/* What lower passes on; t->extra of all but fusions. */
typedef struct cudnn {
    td_library_op_t op;
    union {
        td_attention_desc_t attention;
        td_gemm_desc_t gemm;
    } desc;
} cudnn_t;

static td_status_t leaves(td_parse_t *c, td_thunk_t *t) {
    td_status_t st;
    uint32_t at = 0;
    for (uint32_t i = 0; i < t->instr->n_operands; i++)
        if ((st = td_thunk_leaves(c, t->instr->operands[i]->shape, false, t, &at))) return st;
    if ((st = td_thunk_leaves(c, t->instr->shape, false, t, &at))) return st;
    return at == t->n_args
               ? TD_OK
               : td_fail(c->err, TD_MISMATCH, "%u arguments, instruction '%s' has %u", t->n_args, t->instr->name, at);
}

/* A fusion that also returns its workspace (a custom call without operands, last in the root tuple), without it. */
static td_status_t drop_workspace(td_parse_t *c, td_thunk_t *t) {
    const td_hlo_comp_t *body = t->instr->called[0];
    const td_hlo_instr_t *root = body->root;
    if (root->opcode != TD_HLO_TUPLE || root->n_operands < 2) return TD_OK;
    const td_hlo_instr_t *last = root->operands[root->n_operands - 1];
    if (last->opcode != TD_HLO_CUSTOM_CALL || last->n_operands || !td_type_is_array(last->shape->type) ||
        t->instr->shape->rank != root->n_operands)
        return TD_OK;
    uint32_t n = root->n_operands - 1;
    td_hlo_instr_t *fusion = TD_NEW(c->arena, td_hlo_instr_t), *tuple = TD_NEW(c->arena, td_hlo_instr_t);
    td_hlo_comp_t *comp = TD_NEW(c->arena, td_hlo_comp_t);
    td_shape_t *shape = TD_NEW(c->arena, td_shape_t);
    td_hlo_instr_t **instrs = TD_NEW_N(c->arena, td_hlo_instr_t *, body->n_instrs);
    const td_hlo_comp_t **called = TD_NEW_N(c->arena, const td_hlo_comp_t *, 1);
    if (!fusion || !tuple || !comp || !shape || !instrs || !called) return td_arena_fail(c->arena, c->err);
    *shape = *root->shape, *tuple = *root, *comp = *body, *fusion = *t->instr;
    shape->rank = n, shape->bytes = 8ull * n;
    tuple->shape = shape, tuple->n_operands = n;
    memcpy(instrs, body->instrs, body->n_instrs * sizeof *instrs);
    instrs[root->index] = tuple;
    comp->instrs = instrs, comp->root = n == 1 ? root->operands[0] : tuple;
    called[0] = comp;
    fusion->called = called, fusion->shape = comp->root->shape;
    t->instr = fusion;
    t->n_args--;
    return TD_OK;
}

/* The product's buffers in the order that td_gemm_desc_t tells. */
static td_status_t block_scaled(td_parse_t *c, td_thunk_t *t, td_gemm_desc_t *d) {
    td_status_t st = td_gemm_block_describe(t->instr, d, c->err);
    if (st) return st;
    const td_kernel_arg_t *from = t->args, *result = from + t->instr->n_operands;
    if ((st = td_thunk_args(c, t, 6u + d->has_d_scale))) return st;
    td_kernel_arg_t *a = t->args;
    a[0] = from[0], a[1] = from[1], a[2] = a[3] = *result, a[4] = from[2], a[5] = from[3];
    if (d->has_d_scale) a[6] = from[4];
    return TD_OK;
}

static td_status_t custom_call(td_parse_t *c, td_thunk_t *t) {
    const char *target = t->instr->custom_call_target ? t->instr->custom_call_target : "";
    cudnn_t *x = TD_NEW(c->arena, cudnn_t);
    td_status_t st;
    if (!x) return td_arena_fail(c->arena, c->err);
    if (td_attention_target(target)) {
        x->op = TD_OP_ATTENTION;
        st = td_attention_describe(t->instr, &x->desc.attention, c->err);
    } else if (!strcmp(target, "__cudnn$blockScaledDot")) {
        x->op = TD_OP_GEMM;
        st = block_scaled(c, t, &x->desc.gemm);
    } else {
        return td_fail(c->err, TD_UNSUPPORTED, "'%s': cuDNN custom call %.60s is not supported", t->instr->name,
                       target);
    }
    t->extra = x;
    t->extra_bytes = sizeof *x;
    return st ? td_prefix(c->err, st, "'%s'", t->instr->name) : TD_OK;
}

td_status_t td_cudnn_parse(td_parse_t *c, const td_thunk_msg_t *msg, td_thunk_t *t) {
    const Xla__Gpu__CudnnThunkProto *p = msg->cudnn_thunk;
    td_status_t st;
    t->instr = td_hlo_find(c->m->hlo, t->annotation, strlen(t->annotation));
    if (!t->instr)
        return td_fail(c->err, TD_UNSUPPORTED,
                       "cuDNN graph of '%s': no such instruction, and compiled graphs are not read", t->annotation);
    if (p->n_args > TD_LIMIT_KERNEL_ARGS) return td_fail(c->err, TD_LIMIT, "%zu arguments", p->n_args);
    if ((st = td_thunk_args(c, t, (uint32_t)p->n_args))) return st;
    uint32_t n_in = 0;
    for (uint32_t i = 0; i < t->instr->n_operands; i++) n_in += td_shape_leaf_count(t->instr->operands[i]->shape);
    for (uint32_t i = 0; i < t->n_args; i++)
        if ((st = td_thunk_shaped(c, "args", p->args[i], i >= n_in, &t->args[i])))
            return td_prefix(c->err, st, "args[%u]", i);
    if ((st = leaves(c, t))) return st;
    t->kernel_name = t->annotation;
    if (t->instr->opcode == TD_HLO_CUSTOM_CALL) return custom_call(c, t);
    if (t->instr->opcode != TD_HLO_FUSION || t->instr->n_called != 1)
        return td_fail(c->err, TD_UNSUPPORTED, "'%s': cuDNN graph of a %s", t->instr->name, t->instr->opcode_name);
    return drop_workspace(c, t);
}

td_status_t td_cudnn_lower(td_device_t *dev, const td_hlo_module_t *hlo, const td_thunk_t *from, td_thunk_t *t,
                           td_arena_t *arena, uint64_t *out_scratch, td_err_t *err) {
    const cudnn_t *x = from->extra;
    if (!from->extra_bytes) return td_kernel_thunk_lower(dev, hlo, from, t, arena, out_scratch, err);
    return dev->ops->library_lower(dev, x->op, &x->desc, arena, &t->kernel, out_scratch, err);
}
td_status_t td_cudnn_enqueue(td_run_t *r, const td_thunk_t *t) { return td_thunk_launch(r, t); }
