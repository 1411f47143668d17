/* SPDX-License-Identifier: Apache-2.0 */
/* A literal's elements come in its own layout's order; here they are put into the instruction's. */
#include <string.h>

#include "base/limits.h"
#include "executable.pb-c.h"
#include "runtime/hlo/hlo_parse.h"
#include "runtime/shape_parse.h"

static unsigned sub_get(const uint8_t *p, int64_t i, unsigned bits) {
    return p[i * bits / 8] >> (i * bits % 8) & ((1u << bits) - 1);
}

static td_status_t relayout(td_arena_t *arena, const td_shape_t *from, const td_shape_t *to, td_span_t *bytes,
                            td_err_t *err) {
    uint8_t *d = td_arena_align(arena, to->bytes ? to->bytes : 1, 64);
    int64_t sf[TD_LIMIT_RANK], st[TD_LIMIT_RANK], idx[TD_LIMIT_RANK] = {0};
    if (!d) return td_arena_fail(arena, err);
    memset(d, 0, to->bytes);
    td_shape_strides(from, sf);
    td_shape_strides(to, st);
    size_t eb = to->bits / 8;
    for (int64_t k = 0; k < to->count; k++) {
        int64_t a = 0, b = 0;
        for (uint32_t i = 0; i < to->rank; i++) {
            a += idx[i] * sf[i];
            b += idx[i] * st[i];
        }
        if (to->packed) d[b * to->bits / 8] |= (uint8_t)(sub_get(bytes->data, a, to->bits) << (b * to->bits % 8));
        else memcpy(d + (size_t)b * eb, bytes->data + (size_t)a * eb, eb);
        for (uint32_t i = to->rank; i-- > 0;) {
            if (++idx[i] < to->dims[i]) break;
            idx[i] = 0;
        }
    }
    *bytes = (td_span_t){d, to->bytes};
    return TD_OK;
}

static td_status_t array_bytes(td_arena_t *arena, const td_artifact_t *a, const Xla__LiteralProto *p,
                               const td_shape_t *s, td_literal_t *out, td_err_t *err) {
    td_span_t b = {NULL, 0};
    const td_payload_t *payload = NULL;
#define PAYLOAD(f) \
    if (p->has_##f##_payload && p->f##_payload < a->n_payloads) payload = a->payloads[p->f##_payload]
#define BYTES(T, f)                                                                          \
    case T:                                                                                  \
        PAYLOAD(f);                                                                          \
        b = td_artifact_bytes(a, p->has_##f##_payload, p->f##_payload, p->f.data, p->f.len); \
        break;
#define WORDS(T, f)                                                                                       \
    case T:                                                                                               \
        PAYLOAD(f);                                                                                       \
        b = td_artifact_bytes(a, p->has_##f##_payload, p->f##_payload, p->f, p->n_##f * sizeof *p->f);    \
        break;
    switch (s->type) {
    case TD_PRED:
        if (p->has_preds_payload) {
            PAYLOAD(preds);
            b = td_artifact_bytes(a, 1, p->preds_payload, NULL, 0);
        } else {
            uint8_t *v = td_arena_zalloc(arena, p->n_preds);
            if (!v) return td_arena_fail(arena, err);
            for (size_t i = 0; i < p->n_preds; i++) v[i] = p->preds[i] != 0;
            b = (td_span_t){v, p->n_preds};
        }
        break;
    BYTES(TD_S1, s1s) BYTES(TD_S2, s2s) BYTES(TD_S4, s4s) BYTES(TD_S8, s8s)
    BYTES(TD_U1, u1s) BYTES(TD_U2, u2s) BYTES(TD_U4, u4s) BYTES(TD_U8, u8s)
    BYTES(TD_F16, f16s) BYTES(TD_BF16, bf16s) BYTES(TD_U16, u16s) BYTES(TD_S16, s16s)
    BYTES(TD_F4E2M1FN, f4e2m1fns) BYTES(TD_F8E3M4, f8e3m4s) BYTES(TD_F8E4M3B11FNUZ, f8e4m3b11fnuzs)
    BYTES(TD_F8E4M3FN, f8e4m3fns) BYTES(TD_F8E4M3FNUZ, f8e4m3fnuzs) BYTES(TD_F8E4M3, f8e4m3s)
    BYTES(TD_F8E5M2FNUZ, f8e5m2fnuzs) BYTES(TD_F8E5M2, f8e5m2s) BYTES(TD_F8E8M0FNU, f8e8m0fnus)
    WORDS(TD_S32, s32s) WORDS(TD_S64, s64s) WORDS(TD_U32, u32s) WORDS(TD_U64, u64s)
    WORDS(TD_F32, f32s) WORDS(TD_F64, f64s) WORDS(TD_C64, c64s) WORDS(TD_C128, c128s)
    default: return td_fail(err, TD_UNSUPPORTED, "literal of type %s", td_type_name(s->type));
    }
    if (b.size != s->bytes)
        return td_fail(err, TD_MALFORMED, "literal has %zu bytes, its shape %llu", b.size, (unsigned long long)s->bytes);
    out->bytes = b;
    out->payload = payload;
    return TD_OK;
}

static td_status_t parse(td_arena_t *arena, const td_artifact_t *a, const Xla__LiteralProto *p, const td_shape_t *want,
                         unsigned depth, td_literal_t *l, td_err_t *err) {
    const td_shape_t *own;
    td_status_t st;
    if (!p) return td_fail(err, TD_MALFORMED, "literal is missing");
    if (depth > TD_LIMIT_TUPLE_DEPTH) return td_fail(err, TD_LIMIT, "literal nested deeper than %u", TD_LIMIT_TUPLE_DEPTH);
    l->shape = want;
    if (want->type == TD_TUPLE) {
        if (p->n_tuple_literals != want->rank)
            return td_fail(err, TD_MALFORMED, "literal has %zu elements, its shape %u", p->n_tuple_literals, want->rank);
        td_literal_t *e = TD_NEW_N(arena, td_literal_t, want->rank);
        if (!e) return td_arena_fail(arena, err);
        l->elements = e;
        for (uint32_t i = 0; i < want->rank; i++)
            if ((st = parse(arena, a, p->tuple_literals[i], want->elements[i], depth + 1, &e[i], err))) return st;
        return TD_OK;
    }
    if (!td_type_is_array(want->type)) return TD_OK;
    if ((st = td_shape_parse(arena, p->shape, &own, err))) return st;
    if (!td_shape_same_dims(own, want)) {
        char x[96], y[96];
        return td_fail(err, TD_MALFORMED, "literal is %s, instruction %s", td_shape_print(own, 0, x, sizeof x),
                       td_shape_print(want, 0, y, sizeof y));
    }
    if ((st = array_bytes(arena, a, p, own, l, err))) return st;
    if (own->count > 1 && own->rank &&
        memcmp(own->minor_to_major, want->minor_to_major, own->rank * sizeof *own->minor_to_major)) {
        l->payload = NULL;
        if (a->headers_only && l->bytes.size >= TD_PAYLOAD_MAP_BYTES) return TD_OK; /* zeros in any order */
        return relayout(arena, own, want, &l->bytes, err);
    }
    return TD_OK;
}

td_status_t td_hlo_parse_literal(td_arena_t *arena, const td_artifact_t *a, const Xla__LiteralProto *p,
                                 const td_shape_t *want, const td_literal_t **out, td_err_t *err) {
    td_literal_t *l = TD_NEW(arena, td_literal_t);
    if (!l) return td_arena_fail(arena, err);
    td_status_t st = parse(arena, a, p, want, 0, l, err);
    if (!st) *out = l;
    return st;
}
