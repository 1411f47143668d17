/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes of a typed custom call: the artifact's map as the dictionary that handlers read.
 *
 * Entries are sorted by name bytes and unique (of a repeated key the last one counts, as on the wire). Values are
 * aligned to 16 and live in the arena; a string has a NUL behind it that its length does not count. Immutable.
 * Source: xla/ffi/attribute_map.proto, xla/ffi/call_frame.cc. Thread: any. */
#ifndef TD_RUNTIME_FFI_ATTRS_H
#define TD_RUNTIME_FFI_ATTRS_H

#include "base/arena.h"
#include "base/span.h"
#include "runtime/ffi/abi.h"

typedef struct td_ffi_attrs td_attrs_t;
struct Xla__Ffi__AttributesMapProto;

/* NULL map: an empty dictionary. Errors name the path: "attribute 'a.b': …". */
td_status_t td_attrs_parse(td_arena_t *arena, const struct Xla__Ffi__AttributesMapProto *map, const td_attrs_t **out,
                           td_err_t *err);
/* A deep copy into another arena. */
td_status_t td_attrs_copy(td_arena_t *arena, const td_attrs_t *a, const td_attrs_t **out, td_err_t *err);

/* Each returns false, and leaves *out, when the name is absent or its value is of another kind. */
bool td_attr_bool(const td_attrs_t *a, const char *name, bool *out);
bool td_attr_int(const td_attrs_t *a, const char *name, int64_t *out); /* any integer scalar that fits */
bool td_attr_f64(const td_attrs_t *a, const char *name, double *out);  /* f32 or f64 */
bool td_attr_string(const td_attrs_t *a, const char *name, td_span_t *out);
bool td_attr_array(const td_attrs_t *a, const char *name, td_ffi_array_t *out); /* dtype: td_type_t */
bool td_attr_dict(const td_attrs_t *a, const char *name, const td_attrs_t **out);
/* Position of the name, or -1. */
int64_t td_attr_find(const td_attrs_t *a, const char *name);

#endif
