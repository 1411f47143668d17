/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "proto/canonical.h"
#include "proto/text.h"
#include "proto/wire.h"

static void put(td_rope_t *out, const char *s) {
    td_rope_copy(out, s, strlen(s));
}

static void indent(td_rope_t *out, unsigned depth) {
    for (; depth; depth--) td_rope_copy(out, "  ", 2);
}

/* Printable ASCII as it is, the rest as the escapes that protobuf's own printer uses. */
static void put_string(td_rope_t *out, td_span_t in) {
    char buf[4096];
    size_t n = 0;
    buf[n++] = '"';
    for (size_t i = 0; i < in.size; i++) {
        if (n > sizeof buf - 8) {
            td_rope_copy(out, buf, n);
            n = 0;
        }
        uint8_t c = in.data[i];
        const char *known = c ? strchr("\nn\rr\tt\"\"''\\\\", c) : NULL;
        if (c == '\n' || c == '\r' || c == '\t' || c == '"' || c == '\'' || c == '\\') {
            buf[n++] = '\\';
            buf[n++] = known[1];
        } else if (c < 0x20 || c >= 0x7f) {
            buf[n++] = '\\';
            buf[n++] = (char)('0' + (c >> 6));
            buf[n++] = (char)('0' + (c >> 3 & 7));
            buf[n++] = (char)('0' + (c & 7));
        } else {
            buf[n++] = (char)c;
        }
    }
    buf[n++] = '"';
    td_rope_copy(out, buf, n);
}

/* The shortest decimal that reads back equal. */
static void put_float(td_rope_t *out, double v, bool single) {
    char text[40];
    if (isnan(v) || isinf(v)) {
        put(out, signbit(v) ? "-" : "");
        put(out, isnan(v) ? "nan" : "inf");
        return;
    }
    int most = single ? 9 : 17;
    for (int digits = single ? 6 : 15; digits <= most; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (single ? strtof(text, NULL) == (float)v : strtod(text, NULL) == v) break;
    }
    put(out, text);
}

static void put_number(td_rope_t *out, const ProtobufCFieldDescriptor *d, uint64_t v) {
    char text[24] = "";
    float f;
    double g;
    uint32_t low = (uint32_t)v;
    const ProtobufCEnumValue *e;
    switch (d->type) {
    case PROTOBUF_C_TYPE_FLOAT:
        memcpy(&f, &low, 4);
        put_float(out, (double)f, true);
        return;
    case PROTOBUF_C_TYPE_DOUBLE:
        memcpy(&g, &v, 8);
        put_float(out, g, false);
        return;
    case PROTOBUF_C_TYPE_BOOL: put(out, v ? "true" : "false"); return;
    case PROTOBUF_C_TYPE_ENUM:
        e = protobuf_c_enum_descriptor_get_value(d->descriptor, (int)low);
        if (e) put(out, e->name);
        else snprintf(text, sizeof text, "%" PRId32, (int32_t)low);
        break;
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SFIXED32: snprintf(text, sizeof text, "%" PRId32, (int32_t)low); break;
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SINT64: snprintf(text, sizeof text, "%" PRId64, (int64_t)(v >> 1) ^ -(int64_t)(v & 1)); break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SFIXED64: snprintf(text, sizeof text, "%" PRId64, (int64_t)v); break;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32: snprintf(text, sizeof text, "%" PRIu32, low); break;
    default: snprintf(text, sizeof text, "%" PRIu64, v);
    }
    put(out, text);
}

static void one_number(td_rope_t *out, const ProtobufCFieldDescriptor *d, uint64_t v, unsigned depth) {
    indent(out, depth);
    put(out, d->name);
    put(out, ": ");
    put_number(out, d, v);
    put(out, "\n");
}

static td_status_t packed(td_rope_t *out, const ProtobufCFieldDescriptor *d, td_span_t in, unsigned depth,
                          td_err_t *err) {
    uint8_t type = td_proto_wire_type(d->type);
    size_t n = type == TD_WIRE_I64 ? 8 : 4;
    while (in.size) {
        uint64_t v = 0;
        if (type == TD_WIRE_VARINT) {
            if (!td_wire_varint(&in, &v)) return td_fail(err, TD_MALFORMED, "%s: broken varint", d->name);
        } else {
            if (in.size < n) return td_fail(err, TD_MALFORMED, "%s: %zu bytes of an element", d->name, in.size);
            memcpy(&v, in.data, n);
            in.data += n;
            in.size -= n;
        }
        one_number(out, d, v, depth);
    }
    return TD_OK;
}

static void unknown(td_rope_t *out, const td_wire_field_t *f, unsigned depth) {
    char text[48];
    indent(out, depth);
    snprintf(text, sizeof text, "%" PRIu32 ": ", f->number);
    put(out, text);
    if (f->type == TD_WIRE_LEN) {
        put_string(out, f->bytes);
    } else {
        if (f->type == TD_WIRE_I32) snprintf(text, sizeof text, "0x%08" PRIx64, f->value);
        else if (f->type == TD_WIRE_I64) snprintf(text, sizeof text, "0x%016" PRIx64, f->value);
        else snprintf(text, sizeof text, "%" PRIu64, f->value);
        put(out, text);
    }
    put(out, "\n");
}

static td_status_t message(td_rope_t *out, const ProtobufCMessageDescriptor *desc, td_span_t in, unsigned depth,
                           td_err_t *err);

static td_status_t field(td_rope_t *out, const ProtobufCMessageDescriptor *desc, const td_wire_field_t *f,
                         unsigned depth, td_err_t *err) {
    const ProtobufCFieldDescriptor *d = protobuf_c_message_descriptor_get_field(desc, f->number);
    if (!d) {
        unknown(out, f, depth);
        return TD_OK;
    }
    uint8_t own = td_proto_wire_type(d->type);
    if (own != f->type) {
        if (d->label == PROTOBUF_C_LABEL_REPEATED && own != TD_WIRE_LEN && f->type == TD_WIRE_LEN)
            return packed(out, d, f->bytes, depth, err);
        return td_fail(err, TD_MALFORMED, "%s.%s has wire type %u, expected %u", desc->name, d->name, f->type, own);
    }
    if (own != TD_WIRE_LEN) {
        one_number(out, d, td_proto_varint(d->type, f->value), depth);
        return TD_OK;
    }
    indent(out, depth);
    put(out, d->name);
    if (d->type != PROTOBUF_C_TYPE_MESSAGE) {
        put(out, ": ");
        put_string(out, f->bytes);
        put(out, "\n");
        return TD_OK;
    }
    put(out, " {\n");
    td_status_t s = message(out, d->descriptor, f->bytes, depth + 1, err);
    indent(out, depth);
    put(out, "}\n");
    return s;
}

static td_status_t message(td_rope_t *out, const ProtobufCMessageDescriptor *desc, td_span_t in, unsigned depth,
                           td_err_t *err) {
    if (depth > TD_LIMIT_PROTO_DEPTH)
        return td_fail(err, TD_LIMIT, "messages nest deeper than %d", TD_LIMIT_PROTO_DEPTH);
    td_wire_field_t f;
    while (in.size) {
        if (!td_wire_next(&in, &f)) return td_fail(err, TD_MALFORMED, "broken field in %s", desc->name);
        td_status_t s = field(out, desc, &f, depth, err);
        if (s == TD_OK) s = td_rope_status(out, err);
        if (s != TD_OK) return s;
    }
    return TD_OK;
}

td_status_t td_text_print(const ProtobufCMessageDescriptor *desc, td_span_t wire, td_rope_t *out, td_err_t *err) {
    td_status_t s = message(out, desc, wire, 0, err);
    return s == TD_OK ? td_rope_status(out, err) : s;
}
