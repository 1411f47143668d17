/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes of a typed custom call as text: an MLIR dictionary. What XLA takes from one: bools, integers, f32 and
 * f64, strings, dense arrays and dictionaries (xla/ffi/attribute_map.cc, BuildAttributesMap); the grammar is MLIR's
 * (mlir/docs, "Builtin dialect attributes"; mlir/lib/AsmParser/AttributeParser.cpp).
 * A number without a type is i64 or f64; floats may be given by their bits (0x7FC00000 : f32). */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/scheduled_in.h"

typedef Xla__Ffi__AttributeProto attribute_t;
typedef Xla__Ffi__AttributesMapProto map_t;

typedef struct text {
    td_sched_t *s;
    const char *start, *p; /* NUL at the end */
    uint32_t depth;
} text_t;

typedef struct type {
    char kind; /* i, u, f */
    unsigned bits;
} type_t;

typedef struct number {
    bool real, hex;
    uint64_t bits; /* integers, two's complement, and what is given by its bits */
    double value;
} number_t;

static td_status_t bad(const text_t *x, const char *what) {
    return td_fail(x->s->err, TD_MALFORMED, "attributes, character %zu: %s", (size_t)(x->p - x->start), what);
}

static void space(text_t *x) {
    while (isspace((unsigned char)*x->p)) x->p++;
}

/* Takes a token if it comes next; words end at their last letter. */
static bool take(text_t *x, const char *token) {
    size_t n = strlen(token);
    space(x);
    if (strncmp(x->p, token, n)) return false;
    if (isalnum((unsigned char)token[n - 1]) && (isalnum((unsigned char)x->p[n]) || x->p[n] == '_')) return false;
    x->p += n;
    return true;
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* "…" with \n, \t, \", \\ and \XX; the opening quote is taken. */
static td_status_t string(text_t *x, char **out, size_t *out_n) {
    size_t n = 0, room = 0;
    while (x->p[room] && x->p[room] != '"') room += x->p[room] == '\\' && x->p[room + 1] ? 2 : 1;
    char *v = td_arena_zalloc(x->s->arena, room + 1);
    if (!v) return td_arena_fail(x->s->arena, x->s->err);
    for (; *x->p && *x->p != '"'; x->p++) {
        char c = *x->p;
        if (c == '\\') {
            c = *++x->p;
            int hi = hex_digit(c), lo = hi < 0 ? -1 : hex_digit(x->p[1]);
            if (c == 'n') c = '\n';
            else if (c == 't') c = '\t';
            else if (lo >= 0) c = (char)(hi * 16 + lo), x->p++;
            else if (c != '"' && c != '\\') return bad(x, "unknown escape");
        }
        v[n++] = c;
    }
    if (*x->p++ != '"') return x->p--, bad(x, "a string does not end");
    *out = v, *out_n = n;
    return TD_OK;
}

static td_status_t number(text_t *x, number_t *out) {
    char *end = NULL;
    space(x);
    const char *p = x->p;
    bool minus = *p == '-';
    *out = (number_t){0};
    if (minus) p++;
    if (!isdigit((unsigned char)*p)) return bad(x, "no number");
    errno = 0;
    out->hex = p[0] == '0' && (p[1] == 'x' || p[1] == 'X');
    out->bits = strtoull(p, &end, out->hex ? 16 : 10);
    if (!out->hex && (*end == '.' || *end == 'e' || *end == 'E')) {
        out->real = true;
        errno = 0;
        out->value = strtod(p, &end);
        if (errno == ERANGE && fabs(out->value) < 1) errno = 0; /* a subnormal */
        if (minus) out->value = -out->value;
    } else if (minus) {
        if (out->bits > 1ull << 63) return bad(x, "a number over 64 bits");
        out->bits = -out->bits;
    }
    if (errno) return bad(x, "a number over 64 bits");
    x->p = end;
    return TD_OK;
}

/* i32, si32, ui8, f64, index. */
static td_status_t type(text_t *x, type_t *out) {
    if (take(x, "index")) return *out = (type_t){'i', 64}, TD_OK;
    space(x);
    const char *p = x->p;
    if (*p != 's' && *p != 'u' && *p != 'i' && *p != 'f') return bad(x, "a type that is not supported");
    out->kind = *p == 's' ? 'i' : *p;
    if ((*p == 's' || *p == 'u') && *++p != 'i') return bad(x, "a type that is not supported");
    char *end = NULL;
    unsigned long n = isdigit((unsigned char)p[1]) ? strtoul(p + 1, &end, 10) : 0;
    bool ok = out->kind == 'f' ? n == 32 || n == 64 : n == 1 || n == 8 || n == 16 || n == 32 || n == 64;
    if (!ok) return bad(x, "a type that is not supported");
    out->bits = (unsigned)n;
    x->p = end;
    return TD_OK;
}

/* A number as its type has it. Integers must fit, signed ones also as unsigned of their width (0xFF : i8). */
static td_status_t fit(const text_t *x, number_t n, type_t t, int64_t *out_int, double *out_real) {
    if (t.kind == 'f') {
        if (n.real) *out_real = n.value;
        else if (n.hex && t.bits == 64) memcpy(out_real, &n.bits, 8);
        else if (n.hex && n.bits <= UINT32_MAX) {
            float f;
            uint32_t b = (uint32_t)n.bits;
            memcpy(&f, &b, 4);
            *out_real = (double)f;
        } else return bad(x, "an integer where a float is expected");
        return TD_OK;
    }
    if (n.real) return bad(x, "a float where an integer is expected");
    int64_t v = (int64_t)n.bits;
    if (t.bits < 64) {
        int64_t half = (int64_t)1 << (t.bits - 1);
        bool ok = t.kind == 'u' ? v >= 0 && v < 2 * half : v >= -half && v < 2 * half;
        if (!ok) return bad(x, "an integer that does not fit its type");
        if (t.kind == 'i' && t.bits > 1 && v >= half) v -= 2 * half;
    }
    *out_int = v;
    return TD_OK;
}

static td_status_t scalar(text_t *x, number_t n, type_t t, attribute_t *a) {
    Xla__Ffi__ScalarProto *v = TD_NEW(x->s->arena, Xla__Ffi__ScalarProto);
    int64_t i = 0;
    double d = 0;
    if (!v) return td_arena_fail(x->s->arena, x->s->err);
    td_status_t st = fit(x, n, t, &i, &d);
    if (st) return st;
    xla__ffi__scalar_proto__init(v);
#define SCALAR(CASE, field, value) v->value_case = XLA__FFI__SCALAR_PROTO__VALUE_##CASE, v->field = (value)
    if (t.kind == 'f' && t.bits == 32) SCALAR(F32, f32, (float)d);
    else if (t.kind == 'f') SCALAR(F64, f64, d);
    else if (t.bits == 1) SCALAR(B, b, i != 0);
    else if (t.kind == 'u' && t.bits == 8) SCALAR(U8, u8, (uint32_t)i);
    else if (t.kind == 'u' && t.bits == 16) SCALAR(U16, u16, (uint32_t)i);
    else if (t.kind == 'u' && t.bits == 32) SCALAR(U32, u32, (uint32_t)i);
    else if (t.kind == 'u') SCALAR(U64, u64, (uint64_t)i);
    else if (t.bits == 8) SCALAR(I8, i8, (int32_t)i);
    else if (t.bits == 16) SCALAR(I16, i16, (int32_t)i);
    else if (t.bits == 32) SCALAR(I32, i32, (int32_t)i);
    else SCALAR(I64, i64, i);
#undef SCALAR
    a->value_case = XLA__FFI__ATTRIBUTE_PROTO__VALUE_SCALAR;
    a->scalar = v;
    return TD_OK;
}

/* Numbers of one type. splat: v[0], n times. */
static td_status_t array(text_t *x, const number_t *v, size_t n, bool splat, type_t t, attribute_t *a) {
    td_arena_t *arena = x->s->arena;
    Xla__Ffi__ArrayProto *p = TD_NEW(arena, Xla__Ffi__ArrayProto);
    if (!p) return td_arena_fail(arena, x->s->err);
    xla__ffi__array_proto__init(p);
#define ARRAY(CASE, Name, name, field, ctype, value)                                                  \
    do {                                                                                              \
        Xla__Ffi__ArrayProto__##Name##ArrayProto *q = TD_NEW(arena, Xla__Ffi__ArrayProto__##Name##ArrayProto); \
        if (!q) return td_arena_fail(arena, x->s->err);                                               \
        xla__ffi__array_proto__##name##_array_proto__init(q);                                         \
        if (!(q->values = TD_NEW_N(arena, ctype, n))) return td_arena_fail(arena, x->s->err);         \
        q->n_values = n;                                                                              \
        for (size_t k = 0; k < n; k++) {                                                              \
            int64_t i = 0;                                                                            \
            double d = 0;                                                                             \
            td_status_t st = fit(x, v[splat ? 0 : k], t, &i, &d);                                     \
            if (st) return st;                                                                        \
            (void)i, (void)d;                                                                         \
            q->values[k] = (ctype)(value);                                                            \
        }                                                                                             \
        p->value_case = XLA__FFI__ARRAY_PROTO__VALUE_##CASE;                                          \
        p->field = q;                                                                                 \
    } while (0)
    if (t.kind == 'f' && t.bits == 32) ARRAY(F32, Float, float, f32, float, d);
    else if (t.kind == 'f') ARRAY(F64, Double, double, f64, double, d);
    else if (t.bits == 1) return bad(x, "an array of bools, which is not supported");
    else if (t.kind == 'u' && t.bits == 8) ARRAY(U8, Uint8, uint8, u8, uint32_t, i);
    else if (t.kind == 'u' && t.bits == 16) ARRAY(U16, Uint16, uint16, u16, uint32_t, i);
    else if (t.kind == 'u' && t.bits == 32) ARRAY(U32, Uint32, uint32, u32, uint32_t, i);
    else if (t.kind == 'u') ARRAY(U64, Uint64, uint64, u64, uint64_t, i);
    else if (t.bits == 8) ARRAY(I8, Int8, int8, i8, int32_t, i);
    else if (t.bits == 16) ARRAY(I16, Int16, int16, i16, int32_t, i);
    else if (t.bits == 32) ARRAY(I32, Int32, int32, i32, int32_t, i);
    else ARRAY(I64, Int64, int64, i64, int64_t, i);
#undef ARRAY
    a->value_case = XLA__FFI__ATTRIBUTE_PROTO__VALUE_ARRAY;
    a->array = p;
    return TD_OK;
}

/* Room for as many numbers as the commas up to the closing bracket part. */
static number_t *room(text_t *x, size_t *cap) {
    *cap = 1;
    for (const char *p = x->p; *p && *p != '>'; p++) *cap += *p == ',';
    return TD_NEW_N(x->s->arena, number_t, *cap);
}

/* array<i64: 1, 2>; "array<" is taken. */
static td_status_t dense_array(text_t *x, attribute_t *a) {
    type_t t;
    size_t n = 0, cap = 0;
    number_t *v = room(x, &cap);
    if (!v) return td_arena_fail(x->s->arena, x->s->err);
    td_status_t st = type(x, &t);
    if (st) return st;
    if (take(x, ":"))
        do { /* as many as room counted: each but the first comes behind a comma */
            if ((st = number(x, &v[n++]))) return st;
        } while (n < cap && take(x, ","));
    if (!take(x, ">")) return bad(x, "an array does not end");
    return array(x, v, n, false, t, a);
}

/* dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>, dense<0> : tensor<4xi32>; "dense<" is taken. Brackets only group. */
static td_status_t dense_elements(text_t *x, attribute_t *a) {
    size_t n = 0, cap = 0;
    number_t *v = room(x, &cap);
    uint64_t want = 1;
    type_t t;
    td_status_t st;
    bool splat = true;
    if (!v) return td_arena_fail(x->s->arena, x->s->err);
    while (!take(x, ">")) {
        if (take(x, "[")) splat = false;
        else if (take(x, "]") || take(x, ",")) continue;
        else if (n == cap) return bad(x, "numbers without commas");
        else if ((st = number(x, &v[n++]))) return st;
    }
    if (!take(x, ":") || !take(x, "tensor<")) return bad(x, "no tensor type");
    for (;;) {
        char *end = NULL;
        space(x);
        if (!isdigit((unsigned char)*x->p)) break;
        uint64_t d = strtoull(x->p, &end, 10);
        if (*end != 'x' || d > UINT32_MAX || want > UINT32_MAX) return bad(x, "a tensor type that is not supported");
        want *= d;
        x->p = end + 1;
    }
    if ((st = type(x, &t))) return st;
    if (!take(x, ">")) return bad(x, "a tensor type does not end");
    if (splat ? n != 1 || want > 1u << 20 : n != want) return bad(x, "elements that do not fill their tensor");
    return array(x, v, (size_t)want, splat, t, a);
}

static td_status_t dictionary(text_t *x, map_t **out);

static td_status_t value(text_t *x, attribute_t *a) {
    size_t n = 0;
    char *text = NULL;
    number_t v;
    type_t t;
    td_status_t st;
    if (take(x, "true")) return scalar(x, (number_t){.bits = 1}, (type_t){'i', 1}, a);
    if (take(x, "false")) return scalar(x, (number_t){.bits = 0}, (type_t){'i', 1}, a);
    if (take(x, "array<")) return dense_array(x, a);
    if (take(x, "dense<")) return dense_elements(x, a);
    if (*x->p == '{') {
        a->value_case = XLA__FFI__ATTRIBUTE_PROTO__VALUE_DICT;
        return dictionary(x, &a->dict);
    }
    if (take(x, "\"")) {
        if ((st = string(x, &text, &n))) return st;
        a->value_case = XLA__FFI__ATTRIBUTE_PROTO__VALUE_STR;
        a->str = (ProtobufCBinaryData){n, (uint8_t *)text};
        return TD_OK;
    }
    if (*x->p != '-' && !isdigit((unsigned char)*x->p)) return bad(x, "a kind of attribute that is not supported");
    if ((st = number(x, &v))) return st;
    t = (type_t){v.real ? 'f' : 'i', 64};
    if (take(x, ":") && (st = type(x, &t))) return st;
    return scalar(x, v, t, a);
}

static td_status_t key(text_t *x, char **out) {
    size_t n = 0;
    if (take(x, "\"")) {
        td_status_t st = string(x, out, &n);
        return !st && memchr(*out, 0, n) ? bad(x, "a name with a NUL") : st;
    }
    while (isalnum((unsigned char)x->p[n]) || (x->p[n] && strchr("_$.-", x->p[n]))) n++;
    if (!n) return bad(x, "no name");
    if (!(*out = td_arena_strndup(x->s->arena, x->p, n))) return td_arena_fail(x->s->arena, x->s->err);
    x->p += n;
    return TD_OK;
}

static td_status_t entry(text_t *x, map_t *m, size_t *cap) {
    Xla__Ffi__AttributesMapProto__AttrsEntry *e = TD_NEW(x->s->arena, Xla__Ffi__AttributesMapProto__AttrsEntry);
    attribute_t *a = TD_NEW(x->s->arena, attribute_t);
    if (!e || !a) return td_arena_fail(x->s->arena, x->s->err);
    if (m->n_attrs == *cap) {
        size_t n = *cap ? 2 * *cap : 8;
        Xla__Ffi__AttributesMapProto__AttrsEntry **v =
            TD_NEW_N(x->s->arena, Xla__Ffi__AttributesMapProto__AttrsEntry *, n);
        if (!v) return td_arena_fail(x->s->arena, x->s->err);
        if (*cap) memcpy(v, m->attrs, *cap * sizeof *v);
        m->attrs = v, *cap = n;
    }
    xla__ffi__attributes_map_proto__attrs_entry__init(e);
    xla__ffi__attribute_proto__init(a);
    td_status_t st = key(x, &e->key);
    if (st) return st;
    if (!take(x, "=")) return bad(x, "a name without a value");
    e->value = a;
    m->attrs[m->n_attrs++] = e;
    space(x);
    return value(x, a);
}

static td_status_t dictionary(text_t *x, map_t **out) {
    map_t *m = TD_NEW(x->s->arena, map_t);
    size_t cap = 0;
    if (!m) return td_arena_fail(x->s->arena, x->s->err);
    xla__ffi__attributes_map_proto__init(m);
    if (++x->depth > TD_LIMIT_TUPLE_DEPTH) return td_fail(x->s->err, TD_LIMIT, "attributes nested too deep");
    if (!take(x, "{")) return bad(x, "no dictionary");
    if (!take(x, "}")) {
        do {
            space(x);
            td_status_t st = entry(x, m, &cap);
            if (st) return st;
        } while (take(x, ","));
        if (!take(x, "}")) return bad(x, "a dictionary does not end");
    }
    x->depth--;
    *out = m;
    return TD_OK;
}

td_status_t td_sched_attributes(td_sched_t *s, const char *text, Xla__Ffi__AttributesMapProto **out) {
    text_t x = {.s = s, .start = text, .p = text};
    td_status_t st = dictionary(&x, out);
    space(&x);
    return st || !*x.p ? st : bad(&x, "text behind the dictionary");
}
