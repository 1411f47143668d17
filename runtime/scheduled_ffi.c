/* SPDX-License-Identifier: Apache-2.0 */
/* Custom calls that an FFI handler runs. Attributes stand in the backend configuration, as MLIR writes a dictionary, or
 * as text inside its JSON (custom_call_backend_config). Two calls of the compiler's own that newer releases make by
 * such handlers too, cuSOLVER's Cholesky and CUB's radix sort, become calls of those.
 * Source: xla/service/gpu/thunk_emitter.cc (EmitCustomCallThunk), xla/service/gpu/cublas_cudnn.h. */
#include <stdio.h>
#include <string.h>

#include "runtime/scheduled_in.h"

static td_status_t buffers(td_sched_t *s, const td_sched_instr_t *i, const td_shape_t *shape, uint32_t *leaf,
                           Xla__NullableShapedSliceProto **v, size_t *n) {
    if (shape->type == TD_TUPLE) {
        for (uint32_t k = 0; k < shape->rank; k++) {
            td_status_t st = buffers(s, i, shape->elements[k], leaf, v, n);
            if (st) return st;
        }
        return TD_OK;
    }
    Xla__NullableShapedSliceProto *m = TD_NEW(s->arena, Xla__NullableShapedSliceProto);
    if (!m) return td_arena_fail(s->arena, s->err);
    xla__nullable_shaped_slice_proto__init(m);
    v[(*n)++] = m;
    /* A token takes part without an array. */
    return td_type_is_array(shape->type) ? td_sched_shaped(s, i, (*leaf)++, &m->shaped_slice) : TD_OK;
}

/* Arrays and tokens. */
static size_t count(const td_shape_t *s) {
    size_t n = 0;
    if (s->type != TD_TUPLE) return 1;
    for (uint32_t k = 0; k < s->rank; k++) n += count(s->elements[k]);
    return n;
}

static td_status_t slices(td_sched_t *s, const td_sched_instr_t *i, Xla__Gpu__CustomCallThunkProto *p) {
    size_t n = 0;
    uint32_t leaf;
    td_status_t st;
    for (uint32_t k = 0; k < i->in->n_operands; k++) n += count(i->in->operands[k]->shape);
    p->operands = TD_NEW_N(s->arena, Xla__NullableShapedSliceProto *, n);
    p->results = TD_NEW_N(s->arena, Xla__NullableShapedSliceProto *, count(i->in->shape));
    if (!p->operands || !p->results) return td_arena_fail(s->arena, s->err);
    for (uint32_t k = 0; k < i->in->n_operands; k++) {
        leaf = 0;
        if ((st = buffers(s, td_sched_instr(s, i->in->operands[k]), i->in->operands[k]->shape, &leaf, p->operands,
                          &p->n_operands)))
            return st;
    }
    leaf = 0;
    return buffers(s, i, i->in->shape, &leaf, p->results, &p->n_results);
}

/* The options of one of the compiler's own calls: a JSON object with one bool. */
static td_status_t option(td_sched_t *s, const td_sched_instr_t *i, const char *name, bool *out) {
    json_t *j = NULL;
    td_status_t st = *i->in->backend_config ? td_sched_config(s, i, NULL, &j) : TD_OK;
    if (!st && j) st = td_sched_bool(s, j, name, false, out);
    json_decref(j);
    return st;
}

static td_status_t attributes(td_sched_t *s, const td_sched_instr_t *i, Xla__Ffi__AttributesMapProto **out) {
    const char *text = i->in->backend_config;
    json_t *j = json_loads(text, 0, NULL), *c = json_object_get(j, "custom_call_backend_config");
    if (c) text = json_string_value(json_object_get(c, "attributes"));
    else if (json_object_size(j)) text = ""; /* what the compiler notes about scheduling */
    td_status_t st = text && *text ? td_sched_attributes(s, text, out) : TD_OK;
    json_decref(j);
    return st;
}

/* (a) -> (a, scratch, info) as cusolver_potrf_ffi: (a) -> (a, info). */
static td_status_t cholesky(td_sched_t *s, const td_sched_instr_t *i, Xla__Gpu__CustomCallThunkProto *p) {
    if (p->n_operands != 1 || p->n_results != 3)
        return td_fail(s->err, TD_MALFORMED, "%zu operands and %zu results", p->n_operands, p->n_results);
    p->target_name = (char *)(uintptr_t)"cusolver_potrf_ffi";
    p->results[1] = p->results[2];
    p->n_results = 2;
    bool lower = false;
    td_status_t st = option(s, i, "lower", &lower);
    return st ? st : td_sched_attributes(s, lower ? "{lower = true}" : "{lower = false}", &p->attributes);
}

/* (keys, [values]) -> (keys, [values], scratch); the last dimension is sorted. */
static td_status_t sort(td_sched_t *s, const td_sched_instr_t *i, Xla__Gpu__CustomCallThunkProto *p) {
    if (p->n_operands < 1 || p->n_operands > 2 || p->n_results != p->n_operands + 1)
        return td_fail(s->err, TD_MALFORMED, "%zu operands and %zu results", p->n_operands, p->n_results);
    p->target_name =
        (char *)(uintptr_t)(p->n_operands == 1 ? "xla.gpu.ext.cub_sort_keys" : "xla.gpu.ext.cub_sort_pairs");
    const td_shape_t *keys = i->in->operands[0]->shape;
    int64_t n = td_type_is_array(keys->type) && keys->rank ? keys->dims[keys->rank - 1] : 1;
    bool descending = false;
    char text[96];
    td_status_t st = option(s, i, "descending", &descending);
    snprintf(text, sizeof text, "{batch_size = %lld : i64, descending = %s}", (long long)(n ? keys->count / n : 1),
             descending ? "true" : "false");
    return st ? st : td_sched_attributes(s, text, &p->attributes);
}

td_status_t td_sched_ffi(td_sched_t *s, td_sched_out_t *out, const td_sched_instr_t *i) {
    Xla__Gpu__CustomCallThunkProto *p = TD_NEW(s->arena, Xla__Gpu__CustomCallThunkProto);
    const char *target = i->in->custom_call_target ? i->in->custom_call_target : "";
    Xla__Gpu__ThunkProto *t;
    td_status_t st;
    if (!p) return td_arena_fail(s->arena, s->err);
    xla__gpu__custom_call_thunk_proto__init(p);
    if ((st = slices(s, i, p))) return st;
    p->target_name = (char *)(uintptr_t)target;
    p->has_api_version = true;
    p->api_version = i->msg->custom_call_api_version;
    if (!strcmp(target, "__cusolver$cholesky")) {
        st = cholesky(s, i, p);
        p->api_version = XLA__CUSTOM_CALL_API_VERSION__API_VERSION_TYPED_FFI;
    } else if (!strcmp(target, "__cub$DeviceRadixSort")) {
        st = sort(s, i, p);
        p->api_version = XLA__CUSTOM_CALL_API_VERSION__API_VERSION_TYPED_FFI;
    } else if ((int)p->api_version == XLA__CUSTOM_CALL_API_VERSION__API_VERSION_TYPED_FFI) {
        st = attributes(s, i, &p->attributes);
    }
    if (st) return td_prefix(s->err, st, "'%s': custom call %.100s", i->in->name, target);
    if (i->in->n_called) p->called_computation = (char *)(uintptr_t)i->in->called[0]->name;
    if ((st = td_sched_add(s, out, i->in->name, XLA__GPU__THUNK_PROTO__IMPL_CUSTOM_CALL_THUNK, &t))) return st;
    t->custom_call_thunk = p;
    return TD_OK;
}
