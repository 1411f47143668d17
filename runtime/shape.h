/* SPDX-License-Identifier: Apache-2.0 */
/* Element types, shapes and layouts as compact structs.
 *
 * Numbers of td_type_t are those of XLA's PrimitiveType (xla/xla_data.proto), so
 * that a wire value needs a range check and no table. Shapes are immutable and
 * live in the arena of whoever parsed them. A shape with a layout here is always
 * dense: minor_to_major is a permutation of 0..rank-1 (first = fastest varying);
 * a missing layout on the wire is the default one, {rank-1, …, 0}. */
#ifndef TD_RUNTIME_SHAPE_H
#define TD_RUNTIME_SHAPE_H

#include "base/arena.h"

typedef enum td_type {
    TD_TYPE_INVALID = 0,
    TD_PRED = 1, TD_S8 = 2, TD_S16 = 3, TD_S32 = 4, TD_S64 = 5,
    TD_U8 = 6, TD_U16 = 7, TD_U32 = 8, TD_U64 = 9,
    TD_F16 = 10, TD_F32 = 11, TD_F64 = 12,
    TD_TUPLE = 13, TD_OPAQUE = 14, TD_C64 = 15, TD_BF16 = 16, TD_TOKEN = 17, TD_C128 = 18,
    TD_F8E5M2 = 19, TD_F8E4M3FN = 20, TD_S4 = 21, TD_U4 = 22,
    TD_F8E4M3B11FNUZ = 23, TD_F8E5M2FNUZ = 24, TD_F8E4M3FNUZ = 25,
    TD_S2 = 26, TD_U2 = 27, TD_F8E4M3 = 28, TD_F8E3M4 = 29, TD_S1 = 30, TD_U1 = 31,
    TD_F4E2M1FN = 32, TD_F8E8M0FNU = 33, TD_BUFFER = 34, TD_F6E3M2FN = 35, TD_F6E2M3FN = 36,
    TD_TYPE_COUNT
} td_type_t;

/* "f32", "bf16", "pred", "f8e4m3fn"…; "invalid" for anything else. */
const char *td_type_name(td_type_t t);
/* Bits of one element as XLA counts them (pred is stored in 8); 0 for tuple, token, opaque. */
unsigned td_type_bits(td_type_t t);
/* Bytes of one element when each has its own (sub-byte types: 1). */
unsigned td_type_bytes(td_type_t t);
bool td_type_is_float(td_type_t t);   /* every floating format, f4 to f64 */
bool td_type_is_complex(td_type_t t);
bool td_type_is_signed(td_type_t t);  /* signed integers */
bool td_type_is_integer(td_type_t t); /* signed and unsigned integers, not pred */
bool td_type_is_array(td_type_t t);   /* may be the type of an array */

typedef struct td_shape td_shape_t;
struct td_shape {
    td_type_t type;
    uint32_t rank;                 /* arrays: number of dimensions; tuples: number of elements */
    const int64_t *dims;           /* arrays: rank sizes, each >= 0 */
    const int32_t *minor_to_major; /* arrays: rank entries */
    const td_shape_t *const *elements; /* tuples: rank shapes */
    bool default_layout;           /* minor_to_major is rank-1 … 0 */
    bool packed;                   /* sub-byte elements packed, first element in the low bits */
    bool dynamic;                  /* some dimension is dynamic */
    uint32_t bits;                 /* stored bits per element (packed: 1, 2 or 4; else 8*bytes) */
    int32_t memory_space;          /* 0 default, 5 host */
    int64_t count;                 /* elements; product of dims, checked. 0 for non-arrays */
    uint64_t bytes;                /* stored bytes; tuples: 8 * rank; tokens: 0 */
};

/* A dense array shape in the arena; minor_to_major NULL = default. Sub-byte types are packed. */
td_status_t td_shape_make(td_arena_t *arena, td_type_t type, uint32_t rank, const int64_t *dims,
                          const int32_t *minor_to_major, const td_shape_t **out_shape, td_err_t *err);
/* The same with the default layout. */
td_status_t td_shape_with_default_layout(td_arena_t *arena, const td_shape_t *s, const td_shape_t **out_shape,
                                         td_err_t *err);
/* Same type and dimensions (layouts may differ). Tuples element by element. */
bool td_shape_same_dims(const td_shape_t *a, const td_shape_t *b);
/* Same type, dimensions and layout. */
bool td_shape_equal(const td_shape_t *a, const td_shape_t *b);
/* "f32[2,3]{1,0}" into buf (layout printed only when not default, unless with_layout). Returns buf. */
char *td_shape_print(const td_shape_t *s, bool with_layout, char *buf, size_t size);
/* Strides in elements per dimension for the shape's layout; out_strides has rank entries. */
void td_shape_strides(const td_shape_t *s, int64_t *out_strides);
/* Number of array leaves (depth first); a token counts as none. */
uint32_t td_shape_leaf_count(const td_shape_t *s);

#endif
