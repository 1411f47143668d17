/* SPDX-License-Identifier: Apache-2.0 */
/* custom_call: a target, operands and results in order (an absent slice is a token), and typed attributes. Who runs it
 * is settled when a program is lowered: a user's handler first (device.ffi), then what the device has itself.
 * A serialized execution state is not read: the instantiate stage runs again.
 * Source: xla/backends/gpu/runtime/thunk.proto, custom_call_thunk.cc. */
#include <stdio.h>
#include <string.h>

#include "executable.pb-c.h"
#include "runtime/ffi/attrs.h"
#include "runtime/ffi/registry.h"
#include "runtime/thunk/thunk.h"

typedef struct call { /* module only; a program keeps one byte per argument instead: 1 for a token */
    const char *target;
    const td_attrs_t *attrs;
    const td_shape_t **shapes;
    uint32_t n_operands, n_results;
} call_t;

static td_status_t api_version(td_parse_t *c, const Xla__Gpu__CustomCallThunkProto *p, const char *target) {
    static const char *const names[] = {"unspecified", "original", "status-returning", "unified status-returning"};
    int v = p->has_api_version ? (int)p->api_version : 0;
    if (v != 4)
        return td_fail(
            c->err, TD_UNSUPPORTED,
            "custom call to '%.200s' with the %s interface (API version %d): only the typed FFI (4) is supported",
            target, v >= 0 && v < 4 ? names[v] : "unknown", v);
    if (p->has_opaque && p->opaque.len)
        return td_fail(c->err, TD_MALFORMED, "custom call to '%.200s': typed, but with %zu opaque bytes", target,
                       p->opaque.len);
    return TD_OK;
}

static td_status_t computation(td_parse_t *c, const char *name) {
    if (!name || !*name) return TD_OK;
    for (uint32_t i = 0; i < c->m->hlo->n_comps; i++)
        if (!strcmp(c->m->hlo->comps[i]->name, name)) return TD_OK;
    return td_fail(c->err, TD_MALFORMED, "called computation '%.200s' is not in the module", name);
}

static td_status_t buffers(td_parse_t *c, const char *what, Xla__NullableShapedSliceProto *const *v, size_t n,
                           bool written, td_kernel_arg_t *args, const td_shape_t **shapes) {
    static const td_shape_t token = {.type = TD_TOKEN};
    td_status_t st = TD_OK;
    for (size_t i = 0; i < n; i++) {
        td_kernel_arg_t *a = &args[i];
        if (!v[i]->shaped_slice) {
            *a = (td_kernel_arg_t){.shape = shapes[i] = &token};
            continue;
        }
        st = td_thunk_shaped(c, what, v[i]->shaped_slice, written, a);
        if (!st && (!a->shape || !td_type_is_array(a->shape->type) || a->shape->dynamic))
            st = td_fail(c->err, TD_UNSUPPORTED, "%s is no array of a fixed shape", what);
        if (!st && a->shape->bytes > a->size)
            st = td_fail(c->err, TD_MISMATCH, "%s: shape of %llu bytes in a slice of %llu", what,
                         (unsigned long long)a->shape->bytes, (unsigned long long)a->size);
        if (st) return td_prefix(c->err, st, "%ss[%zu]", what, i);
        shapes[i] = a->shape;
    }
    return TD_OK;
}

td_status_t td_custom_call_parse(td_parse_t *c, const td_thunk_msg_t *msg, td_thunk_t *t) {
    const Xla__Gpu__CustomCallThunkProto *p = msg->custom_call_thunk;
    const char *target = p->target_name ? p->target_name : "";
    td_status_t st;
    if (!*target) return td_fail(c->err, TD_MALFORMED, "custom call without a target");
    if ((st = api_version(c, p, target)) || (st = computation(c, p->called_computation))) return st;
    if (p->n_operands > TD_LIMIT_KERNEL_ARGS || p->n_results > TD_LIMIT_KERNEL_ARGS)
        return td_fail(c->err, TD_LIMIT, "%zu operands, %zu results over the limit of %u", p->n_operands, p->n_results,
                       TD_LIMIT_KERNEL_ARGS);
    if ((st = td_thunk_args(c, t, (uint32_t)(p->n_operands + p->n_results)))) return st;
    call_t *d = TD_NEW(c->arena, call_t);
    if (!d || !(d->target = td_arena_strndup(c->arena, target, strlen(target))) ||
        !(d->shapes = (const td_shape_t **)td_arena_array(c->arena, t->n_args, sizeof *d->shapes)))
        return td_arena_fail(c->arena, c->err);
    d->n_operands = (uint32_t)p->n_operands;
    d->n_results = (uint32_t)p->n_results;
    if ((st = buffers(c, "operand", p->operands, p->n_operands, false, t->args, d->shapes)) ||
        (st = buffers(c, "result", p->results, p->n_results, true, t->args + d->n_operands,
                      d->shapes + d->n_operands)) ||
        (st = td_attrs_parse(c->arena, p->attributes, &d->attrs, c->err)))
        return td_prefix(c->err, st, "custom call to '%.200s'", target);
    t->extra = d;
    t->extra_bytes = sizeof *d;
    return TD_OK;
}

/* The user's handler, if there is one for this device. */
static td_status_t describe(td_device_t *dev, const td_thunk_t *from, td_arena_t *arena, td_custom_call_desc_t *out,
                            td_err_t *err) {
    const call_t *c = from->extra;
    *out = (td_custom_call_desc_t){.target = c->target,
                                   .instruction = from->annotation,
                                   .operands = c->shapes,
                                   .results = c->shapes + c->n_operands,
                                   .n_operands = c->n_operands,
                                   .n_results = c->n_results,
                                   .attrs = c->attrs};
    return td_ffi_registry_find(dev->ffi, c->target, dev->ops->name, arena, &out->handler, err);
}

/* What the device says, and where else the target would run. */
static td_status_t refused(const td_device_t *dev, const td_custom_call_desc_t *d, td_status_t st, td_err_t *err) {
    char where[400];
    if (err && !d->handler && td_ffi_registry_elsewhere(dev->ffi, d->target, where, sizeof where)) {
        size_t n = strlen(err->text);
        snprintf(err->text + n, sizeof err->text - n, "; there is a handler %s", where);
    }
    return td_prefix(err, st, "custom call '%.120s'", d->instruction);
}

td_status_t td_custom_call_lower(td_device_t *dev, const td_hlo_module_t *hlo, const td_thunk_t *from, td_thunk_t *t,
                                 td_arena_t *arena, uint64_t *out_scratch, td_err_t *err) {
    td_custom_call_desc_t d = {0};
    (void)hlo;
    uint8_t *tokens = td_arena_zalloc(arena, from->n_args);
    if (!tokens) return td_arena_fail(arena, err);
    const call_t *c = from->extra;
    for (uint32_t i = 0; i < from->n_args; i++) tokens[i] = c->shapes[i]->type == TD_TOKEN;
    t->extra = tokens;
    t->extra_bytes = from->n_args;
    td_status_t st = describe(dev, from, arena, &d, err);
    if (!st) st = dev->ops->library_lower(dev, TD_OP_CUSTOM_CALL, &d, arena, &t->kernel, out_scratch, err);
    return st ? refused(dev, &d, st, err) : TD_OK;
}

td_status_t td_custom_call_enqueue(td_run_t *r, const td_thunk_t *t) {
    const uint8_t *tokens = t->extra;
    for (uint32_t i = 0; i < t->n_args; i++) r->bufs[i] = tokens[i] ? NULL : td_thunk_addr(r, &t->args[i]);
    td_status_t st = r->dev->ops->launch(r->stream, t->kernel, r->bufs, t->n_args, r->scratch, r->err);
    return st && st != TD_CANCELLED ? td_prefix(r->err, st, "custom call '%.120s'", t->annotation) : st;
}

/* Without running any of the user's stages; what the device has itself is lowered and dropped. */
static td_status_t check_one(const td_thunk_t *t, td_device_t *dev, td_arena_t *arena, td_err_t *err) {
    td_custom_call_desc_t d = {0};
    td_kernel_t *k = NULL;
    uint64_t scratch = 0;
    td_status_t st = describe(dev, t, arena, &d, err);
    if (!st && d.handler) return TD_OK;
    if (!st) st = dev->ops->library_lower(dev, TD_OP_CUSTOM_CALL, &d, arena, &k, &scratch, err);
    if (k) dev->ops->kernel_release(k);
    return st ? refused(dev, &d, st, err) : TD_OK;
}

static td_status_t check_seq(const td_seq_t *s, td_device_t *dev, td_arena_t *arena, td_err_t *err) {
    for (uint32_t i = 0; i < s->n; i++) {
        const td_thunk_t *t = &s->v[i];
        td_status_t st = t->kind->parse == td_custom_call_parse ? check_one(t, dev, arena, err) : TD_OK;
        for (uint32_t k = 0; k < t->n_seqs && !st; k++) st = check_seq(&t->seqs[k], dev, arena, err);
        if (st) return st;
    }
    return TD_OK;
}

static bool any_in(const td_seq_t *s) {
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->v[i].kind->parse == td_custom_call_parse) return true;
        for (uint32_t k = 0; k < s->v[i].n_seqs; k++)
            if (any_in(&s->v[i].seqs[k])) return true;
    }
    return false;
}

bool td_module_has_calls(const td_module_t *m) { return any_in(m->thunks); }

td_status_t td_module_check_calls(const td_module_t *m, td_device_t *dev, td_err_t *err) {
    td_arena_t arena;
    td_arena_init(&arena, m->alloc, 0);
    td_status_t s = check_seq(m->thunks, dev, &arena, err);
    td_arena_deinit(&arena);
    return s;
}
