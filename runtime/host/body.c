/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/host/body.h"

#include "base/checked.h"
#include "base/limits.h"
#include "runtime/host/plan.h"
#include "runtime/host/types.h"

static void add_leaves(const td_shape_t *s, const td_shape_t **list, uint32_t *n) {
    if (s->type == TD_TUPLE)
        for (uint32_t i = 0; i < s->rank; i++) add_leaves(s->elements[i], list, n);
    else if (td_type_is_array(s->type)) list[(*n)++] = s;
}

static td_status_t shapes_of(const td_hlo_comp_t *comp, td_arena_t *arena, td_body_t *b, td_err_t *err) {
    uint64_t n = td_shape_leaf_count(comp->root->shape);
    for (uint32_t i = 0; i < comp->n_params; i++) n += td_shape_leaf_count(comp->params[i]->shape);
    if (n > TD_LIMIT_KERNEL_ARGS) return td_fail(err, TD_LIMIT, "%s: %llu arrays", comp->name, (unsigned long long)n);
    b->shapes = TD_NEW_N(arena, const td_shape_t *, n + 1);
    b->leaves = TD_NEW_N(arena, td_body_leaf_t, n + 1);
    if (!b->shapes || !b->leaves) return td_arena_fail(arena, err);
    for (uint32_t i = 0; i < comp->n_params; i++) add_leaves(comp->params[i]->shape, b->shapes, &b->n_in);
    uint32_t all = b->n_in;
    add_leaves(comp->root->shape, b->shapes, &all);
    b->n_out = all - b->n_in;
    return TD_OK;
}

/* A call of the computation by its own parameters; leaves lie in allocations of their own, or in pairs of one. */
static td_status_t describe(const td_hlo_comp_t *comp, bool state, td_arena_t *arena, const td_body_t *b,
                            td_kernel_desc_t *d, td_err_t *err) {
    uint32_t n = b->n_in + b->n_out;
    td_hlo_instr_t *call = TD_NEW(arena, td_hlo_instr_t);
    const td_hlo_comp_t **called = TD_NEW_N(arena, const td_hlo_comp_t *, 1);
    td_kernel_arg_t *args = TD_NEW_N(arena, td_kernel_arg_t, n + 1);
    if (!call || !called || !args) return td_arena_fail(arena, err);
    called[0] = comp;
    *call = (td_hlo_instr_t){.opcode = TD_HLO_CALL,
                             .opcode_name = "call",
                             .name = comp->name,
                             .shape = comp->root->shape,
                             .operands = comp->params,
                             .n_operands = comp->n_params,
                             .called = called,
                             .n_called = 1};
    for (uint32_t i = 0; i < n; i++) {
        bool out = i >= b->n_in;
        args[i] = (td_kernel_arg_t){.allocation = out && state ? i - b->n_in : i, .size = b->shapes[i]->bytes,
                                    .shape = b->shapes[i], .written = out};
    }
    *d = (td_kernel_desc_t){.instr = call, .name = comp->name, .args = args, .n_args = n};
    return TD_OK;
}

td_status_t td_body_make(const td_hlo_comp_t *comp, bool state, td_arena_t *arena, td_body_t *b, td_err_t *err) {
    td_kernel_desc_t d;
    td_kernel_t *k = NULL;
    uint64_t need = 0;
    *b = (td_body_t){0};
    td_status_t st = shapes_of(comp, arena, b, err);
    if (st) return st;
    uint32_t n = b->n_in + b->n_out;
    if (state && b->n_in != b->n_out)
        return td_fail(err, TD_MALFORMED, "%s: %u arrays in, %u out", comp->name, b->n_in, b->n_out);
    for (uint32_t i = 0; state && i < b->n_in; i++)
        if (!td_shape_equal(b->shapes[i], b->shapes[b->n_in + i]))
            return td_fail(err, TD_MALFORMED, "%s: array %u leaves with another shape", comp->name, i);
    if ((st = describe(comp, state, arena, b, &d, err)) || (st = td_host_kernel_lower(NULL, &d, arena, &k, &need, err)))
        return td_prefix(err, st, "%s", comp->name);
    b->kernel = k;
    if (need > 1ull << 60) return td_fail(err, TD_LIMIT, "%s: scratch overflows", comp->name);
    uint64_t at = (need + 63) & ~63ull;
    b->table_at = at;
    at += (uint64_t)(n + 1) * sizeof(void *);
    for (uint32_t i = 0; i < n; i++) {
        const td_shape_t *s = b->shapes[i];
        b->leaves[i] = (td_body_leaf_t){s->type, (size_t)s->count, TD_BODY_PLAIN};
        if (s->bits >= 8) continue;
        if (state && i >= b->n_in) {
            b->leaves[i].packed_at = b->leaves[i - b->n_in].packed_at;
            continue;
        }
        at = (at + 63) & ~63ull;
        b->leaves[i].packed_at = at;
        if (!td_add_u64(at, s->bytes, &at) || at > 1ull << 60)
            return td_fail(err, TD_LIMIT, "%s: scratch overflows", comp->name);
    }
    b->scratch = (at + 63) & ~63ull;
    return TD_OK;
}

void td_body_run(const td_body_t *b, const void *const *in, void *const *out, void *scratch) {
    char *s = scratch;
    void **args = (void **)(void *)(s + b->table_at);
    for (uint32_t i = 0; i < b->n_in + b->n_out; i++) {
        const td_body_leaf_t *l = &b->leaves[i];
        bool is_in = i < b->n_in;
        args[i] = is_in ? (void *)(uintptr_t)in[i] : out[i - b->n_in];
        if (l->packed_at == TD_BODY_PLAIN) continue;
        args[i] = s + l->packed_at;
        if (is_in) td_subbyte_pack(l->type, in[i], args[i], l->count);
    }
    (void)b->kernel->run(b->kernel, args, scratch, NULL); /* kernels of HLO cannot fail */
    for (uint32_t i = b->n_in; i < b->n_in + b->n_out; i++) {
        const td_body_leaf_t *l = &b->leaves[i];
        if (l->packed_at != TD_BODY_PLAIN) td_subbyte_unpack(l->type, args[i], out[i - b->n_in], l->count);
    }
}
