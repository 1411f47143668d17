/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/shape.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/limits.h"

static const struct {
    const char *name;
    uint8_t bits;
    char kind; /* p pred, s signed, u unsigned, f float, c complex, - not an array */
} types[TD_TYPE_COUNT] = {
    [TD_TYPE_INVALID] = {"invalid", 0, '-'},
    [TD_PRED] = {"pred", 8, 'p'}, [TD_S8] = {"s8", 8, 's'}, [TD_S16] = {"s16", 16, 's'}, [TD_S32] = {"s32", 32, 's'},
    [TD_S64] = {"s64", 64, 's'}, [TD_U8] = {"u8", 8, 'u'}, [TD_U16] = {"u16", 16, 'u'}, [TD_U32] = {"u32", 32, 'u'},
    [TD_U64] = {"u64", 64, 'u'}, [TD_F16] = {"f16", 16, 'f'}, [TD_F32] = {"f32", 32, 'f'}, [TD_F64] = {"f64", 64, 'f'},
    [TD_TUPLE] = {"tuple", 0, '-'}, [TD_OPAQUE] = {"opaque", 0, '-'}, [TD_C64] = {"c64", 64, 'c'},
    [TD_BF16] = {"bf16", 16, 'f'}, [TD_TOKEN] = {"token", 0, '-'}, [TD_C128] = {"c128", 128, 'c'},
    [TD_F8E5M2] = {"f8e5m2", 8, 'f'}, [TD_F8E4M3FN] = {"f8e4m3fn", 8, 'f'}, [TD_S4] = {"s4", 4, 's'},
    [TD_U4] = {"u4", 4, 'u'}, [TD_F8E4M3B11FNUZ] = {"f8e4m3b11fnuz", 8, 'f'},
    [TD_F8E5M2FNUZ] = {"f8e5m2fnuz", 8, 'f'}, [TD_F8E4M3FNUZ] = {"f8e4m3fnuz", 8, 'f'}, [TD_S2] = {"s2", 2, 's'},
    [TD_U2] = {"u2", 2, 'u'}, [TD_F8E4M3] = {"f8e4m3", 8, 'f'}, [TD_F8E3M4] = {"f8e3m4", 8, 'f'},
    [TD_S1] = {"s1", 1, 's'}, [TD_U1] = {"u1", 1, 'u'}, [TD_F4E2M1FN] = {"f4e2m1fn", 4, 'f'},
    [TD_F8E8M0FNU] = {"f8e8m0fnu", 8, 'f'}, [TD_BUFFER] = {"buffer", 0, '-'},
    [TD_F6E3M2FN] = {"f6e3m2fn", 6, 'f'}, [TD_F6E2M3FN] = {"f6e2m3fn", 6, 'f'},
};

static bool known(td_type_t t) { return (unsigned)t < TD_TYPE_COUNT; }
const char *td_type_name(td_type_t t) { return known(t) ? types[t].name : "invalid"; }
unsigned td_type_bits(td_type_t t) { return known(t) ? types[t].bits : 0; }
unsigned td_type_bytes(td_type_t t) { return (td_type_bits(t) + 7) / 8; }
bool td_type_is_float(td_type_t t) { return known(t) && types[t].kind == 'f'; }
bool td_type_is_complex(td_type_t t) { return known(t) && types[t].kind == 'c'; }
bool td_type_is_signed(td_type_t t) { return known(t) && types[t].kind == 's'; }
bool td_type_is_integer(td_type_t t) { return known(t) && (types[t].kind == 's' || types[t].kind == 'u'); }
bool td_type_is_array(td_type_t t) { return known(t) && types[t].kind != '-'; }

td_status_t td_shape_make(td_arena_t *arena, td_type_t type, uint32_t rank, const int64_t *dims,
                          const int32_t *minor_to_major, const td_shape_t **out_shape, td_err_t *err) {
    if (!td_type_is_array(type)) return td_fail(err, TD_MALFORMED, "element type %d is not that of an array", (int)type);
    if (rank > TD_LIMIT_RANK) return td_fail(err, TD_LIMIT, "rank %u over the limit of %u", rank, TD_LIMIT_RANK);
    td_shape_t *s = TD_NEW(arena, td_shape_t);
    int64_t *d = TD_NEW_N(arena, int64_t, rank);
    int32_t *l = TD_NEW_N(arena, int32_t, rank);
    if (!s || !d || !l) return td_arena_fail(arena, err);
    uint64_t count = 1, seen = 0, bits = 0;
    bool empty = false;
    s->default_layout = true;
    for (uint32_t i = 0; i < rank; i++) {
        if (dims[i] < 0) return td_fail(err, TD_MALFORMED, "dimension %u is %lld", i, (long long)dims[i]);
        d[i] = dims[i];
        if (!dims[i]) empty = true;
        else if (!td_mul_u64(count, (uint64_t)dims[i], &count) || count > (1ull << 56))
            return td_fail(err, TD_MALFORMED, "product of the dimensions overflows at dimension %u", i);
        int32_t m = minor_to_major ? minor_to_major[i] : (int32_t)(rank - 1 - i);
        if (m < 0 || (uint32_t)m >= rank || (seen >> m & 1))
            return td_fail(err, TD_MALFORMED, "layout is not a permutation: entry %u is %d of rank %u", i, m, rank);
        seen |= 1ull << m;
        l[i] = m;
        if (m != (int32_t)(rank - 1 - i)) s->default_layout = false;
    }
    if (empty) count = 0;
    unsigned tb = td_type_bits(type);
    s->packed = tb == 1 || tb == 2 || tb == 4;
    s->bits = s->packed ? tb : 8 * td_type_bytes(type);
    if (!td_mul_u64(count, s->bits, &bits)) return td_fail(err, TD_MALFORMED, "size of the array overflows");
    s->type = type;
    s->rank = rank;
    s->dims = d;
    s->minor_to_major = l;
    s->count = (int64_t)count;
    s->bytes = bits / 8 + (bits % 8 != 0);
    *out_shape = s;
    return TD_OK;
}

td_status_t td_shape_with_default_layout(td_arena_t *arena, const td_shape_t *s, const td_shape_t **out_shape,
                                         td_err_t *err) {
    const td_shape_t *r = NULL;
    if (!td_type_is_array(s->type) || s->default_layout) {
        *out_shape = s;
        return TD_OK;
    }
    td_status_t st = td_shape_make(arena, s->type, s->rank, s->dims, NULL, &r, err);
    if (st) return st;
    td_shape_t *w = (td_shape_t *)r;
    w->packed = s->packed;
    w->bits = s->bits;
    w->bytes = s->bytes;
    w->memory_space = s->memory_space;
    w->dynamic = s->dynamic;
    *out_shape = r;
    return TD_OK;
}

bool td_shape_same_dims(const td_shape_t *a, const td_shape_t *b) {
    if (a->type != b->type || a->rank != b->rank) return false;
    if (a->type == TD_TUPLE) {
        for (uint32_t i = 0; i < a->rank; i++)
            if (!td_shape_same_dims(a->elements[i], b->elements[i])) return false;
        return true;
    }
    return !a->rank || !memcmp(a->dims, b->dims, a->rank * sizeof *a->dims);
}

bool td_shape_equal(const td_shape_t *a, const td_shape_t *b) {
    if (a->type != b->type || a->rank != b->rank) return false;
    if (a->type == TD_TUPLE) {
        for (uint32_t i = 0; i < a->rank; i++)
            if (!td_shape_equal(a->elements[i], b->elements[i])) return false;
        return true;
    }
    return td_shape_same_dims(a, b) && a->bits == b->bits &&
           (!a->rank || !memcmp(a->minor_to_major, b->minor_to_major, a->rank * sizeof *a->minor_to_major));
}

static void put(char *buf, size_t size, size_t *at, const char *text) {
    size_t n = strlen(text);
    for (size_t i = 0; i < n && *at + 1 < size; i++) buf[(*at)++] = text[i];
    if (size) buf[*at] = 0;
}

static void print(const td_shape_t *s, bool with_layout, char *buf, size_t size, size_t *at) {
    char num[32];
    if (s->type == TD_TUPLE) {
        put(buf, size, at, "(");
        for (uint32_t i = 0; i < s->rank; i++) {
            if (i) put(buf, size, at, ", ");
            print(s->elements[i], with_layout, buf, size, at);
        }
        put(buf, size, at, ")");
        return;
    }
    put(buf, size, at, td_type_name(s->type));
    if (!td_type_is_array(s->type)) return;
    put(buf, size, at, "[");
    for (uint32_t i = 0; i < s->rank; i++) {
        snprintf(num, sizeof num, i ? ",%lld" : "%lld", (long long)s->dims[i]);
        put(buf, size, at, num);
    }
    put(buf, size, at, "]");
    if (s->rank && (with_layout || !s->default_layout)) {
        put(buf, size, at, "{");
        for (uint32_t i = 0; i < s->rank; i++) {
            snprintf(num, sizeof num, i ? ",%d" : "%d", s->minor_to_major[i]);
            put(buf, size, at, num);
        }
        put(buf, size, at, "}");
    }
}

char *td_shape_print(const td_shape_t *s, bool with_layout, char *buf, size_t size) {
    size_t at = 0;
    if (size) buf[0] = 0;
    print(s, with_layout, buf, size, &at);
    return buf;
}

void td_shape_strides(const td_shape_t *s, int64_t *out_strides) {
    int64_t stride = 1;
    for (uint32_t i = 0; i < s->rank; i++) {
        int32_t d = s->minor_to_major[i];
        out_strides[d] = stride;
        stride *= s->dims[d] ? s->dims[d] : 1;
    }
}

uint32_t td_shape_leaf_count(const td_shape_t *s) {
    if (s->type != TD_TUPLE) return td_type_is_array(s->type);
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->rank; i++) n += td_shape_leaf_count(s->elements[i]);
    return n;
}
