/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/ffi/attrs.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "ffi.pb-c.h"
#include "runtime/shape.h"

typedef Xla__Ffi__AttributesMapProto__AttrsEntry entry_t;

/* The parts of a dictionary of n entries; every name and value is still to come. */
static td_ffi_attrs_t *dict_new(td_arena_t *arena, size_t n) {
    td_ffi_attrs_t *d = TD_NEW(arena, td_ffi_attrs_t);
    if (!d) return NULL;
    *d = (td_ffi_attrs_t){.struct_size = TD_FFI_SIZE(td_ffi_attrs_t, attrs),
                          .size = (int64_t)n,
                          .types = TD_NEW_N(arena, int32_t, n),
                          .names = TD_NEW_N(arena, td_ffi_span_t *, n),
                          .attrs = TD_NEW_N(arena, void *, n)};
    return d->types && d->names && d->attrs ? d : NULL;
}

static td_ffi_span_t *span_new(td_arena_t *arena, const void *bytes, size_t n) {
    td_ffi_span_t *s = TD_NEW(arena, td_ffi_span_t);
    char *copy = td_arena_strndup(arena, n ? bytes : "", n);
    if (!s || !copy) return NULL;
    *s = (td_ffi_span_t){copy, n};
    return s;
}

static td_ffi_array_t *array_new(td_arena_t *arena, int32_t dtype, const void *data, size_t n) {
    td_ffi_array_t *a = TD_NEW(arena, td_ffi_array_t);
    size_t bytes = td_type_bytes((td_type_t)dtype);
    void *copy = td_arena_array(arena, n, bytes);
    if (!a || !copy) return NULL;
    if (n && data) memcpy(copy, data, n * bytes);
    *a = (td_ffi_array_t){dtype, n, copy};
    return a;
}

static td_ffi_scalar_t *scalar_new(td_arena_t *arena, int32_t dtype, const void *value) {
    td_ffi_scalar_t *s = TD_NEW(arena, td_ffi_scalar_t);
    void *copy = td_arena_zalloc(arena, 8);
    if (!s || !copy) return NULL;
    memcpy(copy, value, td_type_bytes((td_type_t)dtype));
    *s = (td_ffi_scalar_t){dtype, copy};
    return s;
}

static td_status_t narrow(int64_t v, int64_t lo, int64_t hi, const char *type, td_err_t *err) {
    if (v >= lo && v <= hi) return TD_OK;
    return td_fail(err, TD_MALFORMED, "%lld is out of the range of %s", (long long)v, type);
}

/* Narrow integers travel as 32-bit ones. little-endian: the low bytes come first. */
static td_status_t scalar(td_arena_t *arena, const Xla__Ffi__ScalarProto *p, void **out, td_err_t *err) {
    union {
        uint64_t u;
        int64_t i;
        double d;
        float f;
        uint8_t b;
    } v = {0};
    td_type_t t = TD_TYPE_INVALID;
    td_status_t st = TD_OK;
    switch ((int)p->value_case) {
    case XLA__FFI__SCALAR_PROTO__VALUE_B: t = TD_PRED, v.b = p->b != 0; break;
    case XLA__FFI__SCALAR_PROTO__VALUE_I8:
        t = TD_S8, v.i = p->i8, st = narrow(p->i8, INT8_MIN, INT8_MAX, "s8", err);
        break;
    case XLA__FFI__SCALAR_PROTO__VALUE_I16:
        t = TD_S16, v.i = p->i16, st = narrow(p->i16, INT16_MIN, INT16_MAX, "s16", err);
        break;
    case XLA__FFI__SCALAR_PROTO__VALUE_I32: t = TD_S32, v.i = p->i32; break;
    case XLA__FFI__SCALAR_PROTO__VALUE_I64: t = TD_S64, v.i = p->i64; break;
    case XLA__FFI__SCALAR_PROTO__VALUE_U8: t = TD_U8, v.u = p->u8, st = narrow(p->u8, 0, UINT8_MAX, "u8", err); break;
    case XLA__FFI__SCALAR_PROTO__VALUE_U16:
        t = TD_U16, v.u = p->u16, st = narrow(p->u16, 0, UINT16_MAX, "u16", err);
        break;
    case XLA__FFI__SCALAR_PROTO__VALUE_U32: t = TD_U32, v.u = p->u32; break;
    case XLA__FFI__SCALAR_PROTO__VALUE_U64: t = TD_U64, v.u = p->u64; break;
    case XLA__FFI__SCALAR_PROTO__VALUE_F32: t = TD_F32, v.f = p->f32; break;
    case XLA__FFI__SCALAR_PROTO__VALUE_F64: t = TD_F64, v.d = p->f64; break;
    default: return td_fail(err, TD_MALFORMED, "scalar without a value of a known type");
    }
    if (st) return st;
    *out = scalar_new(arena, t, &v);
    return *out ? TD_OK : td_arena_fail(arena, err);
}

/* 32-bit carriers of 1- or 2-byte elements. */
static td_status_t narrow_array(td_arena_t *arena, td_type_t t, const void *data, size_t n, void **out, td_err_t *err) {
    td_ffi_array_t *a = array_new(arena, t, NULL, n);
    if (!a) return td_arena_fail(arena, err);
    size_t bytes = td_type_bytes(t);
    bool is_signed = t == TD_S8 || t == TD_S16;
    int64_t hi = (1ll << (8 * bytes - is_signed)) - 1, lo = is_signed ? -hi - 1 : 0;
    for (size_t i = 0; i < n; i++) {
        int64_t v = is_signed ? ((const int32_t *)data)[i] : (int64_t)((const uint32_t *)data)[i];
        td_status_t st = narrow(v, lo, hi, td_type_name(t), err);
        if (st) return td_prefix(err, st, "element %zu", i);
        memcpy((char *)a->data + i * bytes, &v, bytes);
    }
    *out = a;
    return TD_OK;
}

static td_status_t array(td_arena_t *arena, const Xla__Ffi__ArrayProto *p, void **out, td_err_t *err) {
    switch ((int)p->value_case) {
#define NARROW(CASE, f, type) \
    case XLA__FFI__ARRAY_PROTO__VALUE_##CASE: return narrow_array(arena, type, p->f->values, p->f->n_values, out, err)
#define WIDE(CASE, f, type)                                          \
    case XLA__FFI__ARRAY_PROTO__VALUE_##CASE:                        \
        *out = array_new(arena, type, p->f->values, p->f->n_values); \
        return *out ? TD_OK : td_arena_fail(arena, err)
        NARROW(I8, i8, TD_S8);
        NARROW(I16, i16, TD_S16);
        NARROW(U8, u8, TD_U8);
        NARROW(U16, u16, TD_U16);
        WIDE(I32, i32, TD_S32);
        WIDE(I64, i64, TD_S64);
        WIDE(U32, u32, TD_U32);
        WIDE(U64, u64, TD_U64);
        WIDE(F32, f32, TD_F32);
        WIDE(F64, f64, TD_F64);
    default: return td_fail(err, TD_MALFORMED, "array without values of a known type");
    }
}

static td_status_t value(td_arena_t *arena, const Xla__Ffi__AttributeProto *p, int32_t *type, void **out,
                         td_err_t *err) {
    switch (p ? (int)p->value_case : 0) {
    case XLA__FFI__ATTRIBUTE_PROTO__VALUE_SCALAR: *type = TD_FFI_ATTR_SCALAR; return scalar(arena, p->scalar, out, err);
    case XLA__FFI__ATTRIBUTE_PROTO__VALUE_ARRAY: *type = TD_FFI_ATTR_ARRAY; return array(arena, p->array, out, err);
    case XLA__FFI__ATTRIBUTE_PROTO__VALUE_STR:
        *type = TD_FFI_ATTR_STRING;
        *out = span_new(arena, p->str.data, p->str.len);
        return *out ? TD_OK : td_arena_fail(arena, err);
    case XLA__FFI__ATTRIBUTE_PROTO__VALUE_DICT: {
        const td_attrs_t *d = NULL;
        td_status_t st = td_attrs_parse(arena, p->dict, &d, err);
        *type = TD_FFI_ATTR_DICTIONARY;
        *out = (void *)(uintptr_t)d;
        return st;
    }
    default: return td_fail(err, TD_MALFORMED, "no value of a known kind");
    }
}

static const char *key(const entry_t *e) { return e->key ? e->key : ""; }
/* By name, then by position on the wire. */
typedef struct ranked {
    const entry_t *e;
    size_t at;
} ranked_t;
static int by_name(const void *pa, const void *pb) {
    const ranked_t *a = pa, *b = pb;
    int c = strcmp(key(a->e), key(b->e));
    return c ? c : (a->at > b->at) - (a->at < b->at);
}

td_status_t td_attrs_parse(td_arena_t *arena, const Xla__Ffi__AttributesMapProto *map, const td_attrs_t **out,
                           td_err_t *err) {
    size_t n = map ? map->n_attrs : 0, kept = 0;
    ranked_t *sorted = TD_NEW_N(arena, ranked_t, n);
    td_ffi_attrs_t *d = dict_new(arena, n);
    if (!sorted || !d) return td_arena_fail(arena, err);
    for (size_t i = 0; i < n; i++) sorted[i] = (ranked_t){map->attrs[i], i};
    if (n) qsort(sorted, n, sizeof *sorted, by_name);
    for (size_t i = 0; i < n; i++) {
        const char *name = key(sorted[i].e);
        if (i + 1 < n && !strcmp(name, key(sorted[i + 1].e))) continue;
        d->names[kept] = span_new(arena, name, strlen(name));
        if (!d->names[kept]) return td_arena_fail(arena, err);
        td_status_t st = value(arena, sorted[i].e->value, &d->types[kept], &d->attrs[kept], err);
        if (st) return td_prefix(err, st, "attribute '%.64s'", name);
        kept++;
    }
    d->size = (int64_t)kept;
    *out = d;
    return TD_OK;
}

td_status_t td_attrs_copy(td_arena_t *arena, const td_attrs_t *a, const td_attrs_t **out, td_err_t *err) {
    td_ffi_attrs_t *d = dict_new(arena, (size_t)a->size);
    if (!d) return td_arena_fail(arena, err);
    for (int64_t i = 0; i < a->size; i++) {
        const void *from = a->attrs[i];
        void *to = NULL;
        if (a->types[i] == TD_FFI_ATTR_DICTIONARY) {
            const td_attrs_t *sub = NULL;
            td_status_t st = td_attrs_copy(arena, from, &sub, err);
            if (st) return st;
            to = (void *)(uintptr_t)sub;
        } else if (a->types[i] == TD_FFI_ATTR_STRING) {
            const td_ffi_span_t *s = from;
            to = span_new(arena, s->ptr, s->len);
        } else if (a->types[i] == TD_FFI_ATTR_ARRAY) {
            const td_ffi_array_t *x = from;
            to = array_new(arena, x->dtype, x->data, x->size);
        } else {
            const td_ffi_scalar_t *x = from;
            to = scalar_new(arena, x->dtype, x->value);
        }
        d->types[i] = a->types[i];
        d->attrs[i] = to;
        d->names[i] = span_new(arena, a->names[i]->ptr, a->names[i]->len);
        if (!to || !d->names[i]) return td_arena_fail(arena, err);
    }
    *out = d;
    return TD_OK;
}

int64_t td_attr_find(const td_attrs_t *a, const char *name) {
    for (int64_t i = 0; i < a->size; i++)
        if (!strcmp(a->names[i]->ptr, name)) return i;
    return -1;
}

static const void *find(const td_attrs_t *a, const char *name, td_ffi_attr_type_t type) {
    int64_t i = td_attr_find(a, name);
    return i >= 0 && a->types[i] == (int32_t)type ? a->attrs[i] : NULL;
}

bool td_attr_bool(const td_attrs_t *a, const char *name, bool *out) {
    const td_ffi_scalar_t *s = find(a, name, TD_FFI_ATTR_SCALAR);
    if (!s || s->dtype != TD_PRED) return false;
    *out = *(const uint8_t *)s->value != 0;
    return true;
}

bool td_attr_int(const td_attrs_t *a, const char *name, int64_t *out) {
    const td_ffi_scalar_t *s = find(a, name, TD_FFI_ATTR_SCALAR);
    if (!s || !td_type_is_integer((td_type_t)s->dtype)) return false;
    switch (s->dtype) {
    case TD_S8: *out = *(const int8_t *)s->value; return true;
    case TD_S16: *out = *(const int16_t *)s->value; return true;
    case TD_S32: *out = *(const int32_t *)s->value; return true;
    case TD_S64: *out = *(const int64_t *)s->value; return true;
    case TD_U64:
        if (*(const uint64_t *)s->value > INT64_MAX) return false;
        *out = (int64_t)*(const uint64_t *)s->value;
        return true;
    case TD_U8: *out = *(const uint8_t *)s->value; return true;
    case TD_U16: *out = *(const uint16_t *)s->value; return true;
    default: *out = *(const uint32_t *)s->value; return true;
    }
}

bool td_attr_f64(const td_attrs_t *a, const char *name, double *out) {
    const td_ffi_scalar_t *s = find(a, name, TD_FFI_ATTR_SCALAR);
    if (!s || (s->dtype != TD_F32 && s->dtype != TD_F64)) return false;
    *out = s->dtype == TD_F32 ? (double)*(const float *)s->value : *(const double *)s->value;
    return true;
}

bool td_attr_string(const td_attrs_t *a, const char *name, td_span_t *out) {
    const td_ffi_span_t *s = find(a, name, TD_FFI_ATTR_STRING);
    if (!s) return false;
    *out = (td_span_t){(const uint8_t *)s->ptr, s->len};
    return true;
}

bool td_attr_array(const td_attrs_t *a, const char *name, td_ffi_array_t *out) {
    const td_ffi_array_t *x = find(a, name, TD_FFI_ATTR_ARRAY);
    if (!x) return false;
    *out = *x;
    return true;
}

bool td_attr_dict(const td_attrs_t *a, const char *name, const td_attrs_t **out) {
    const td_attrs_t *d = find(a, name, TD_FFI_ATTR_DICTIONARY);
    if (!d) return false;
    *out = d;
    return true;
}
