/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/schema.h"

#include <string.h>

#include "proto/wire.h"

/* google/protobuf/descriptor.proto */
enum {
    SET_FILE = 1,
    FILE_PACKAGE = 2,
    FILE_MESSAGE = 4,
    FILE_ENUM = 5,
    MESSAGE_NESTED = 3,
    MESSAGE_ENUM = 4,
    TYPE_NAME = 1,
    TYPE_ITEM = 2 /* a message's fields, an enum's values */,
    ITEM_NAME = 1,
    FIELD_NUMBER = 3,
    VALUE_NUMBER = 2
};
enum { DEPTH = 32 };

static td_span_t text(td_span_t message, uint32_t number) {
    td_span_t v = {0};
    return td_wire_scan(message, number, &v) ? v : (td_span_t){0};
}

/* What of `rest` is left behind this part of a full name; NULL if the part is another one. */
static const char *behind(const char *rest, td_span_t part) {
    if (!part.size) return NULL;
    if (strncmp(rest, (const char *)part.data, part.size)) return NULL;
    rest += part.size;
    return *rest == '.' ? rest + 1 : *rest ? NULL : rest;
}

static td_span_t item_name(td_span_t type, int64_t number, bool is_value) {
    td_wire_field_t f, g;
    while (type.size && td_wire_next(&type, &f)) {
        if (f.number != TYPE_ITEM || f.type != TD_WIRE_LEN) continue;
        td_span_t item = f.bytes, in = item;
        int64_t n = 0;
        while (in.size && td_wire_next(&in, &g))
            if (g.number == (is_value ? VALUE_NUMBER : FIELD_NUMBER) && g.type == TD_WIRE_VARINT) n = (int32_t)g.value;
        if (n == number) return text(item, ITEM_NAME);
    }
    return (td_span_t){0};
}

/* In a file or a message: the types in it have these field numbers. */
static td_span_t among(td_span_t in, uint32_t messages, uint32_t enums, const char *rest, int64_t number, bool is_value,
                       int depth) {
    td_wire_field_t f;
    while (in.size && depth < DEPTH && td_wire_next(&in, &f)) {
        if (f.type != TD_WIRE_LEN || (f.number != messages && f.number != enums)) continue;
        const char *more = behind(rest, text(f.bytes, TYPE_NAME));
        if (!more) continue;
        if (!*more && f.number == (is_value ? enums : messages)) return item_name(f.bytes, number, is_value);
        if (!*more || f.number != messages) continue;
        td_span_t found = among(f.bytes, MESSAGE_NESTED, MESSAGE_ENUM, more, number, is_value, depth + 1);
        if (found.size) return found;
    }
    return (td_span_t){0};
}

td_span_t td_schema_name(td_span_t set, const char *type, int64_t number, bool is_value) {
    td_wire_field_t f;
    while (set.size && td_wire_next(&set, &f)) {
        if (f.number != SET_FILE || f.type != TD_WIRE_LEN) continue;
        td_span_t package = text(f.bytes, FILE_PACKAGE);
        const char *rest = package.size ? behind(type, package) : type;
        if (!rest || !*rest) continue;
        td_span_t found = among(f.bytes, FILE_MESSAGE, FILE_ENUM, rest, number, is_value, 0);
        if (found.size) return found;
    }
    return (td_span_t){0};
}

td_status_t td_schema_check(td_span_t set, td_err_t *err) {
    uint32_t files = 0;
    td_wire_field_t f;
    while (set.size) {
        if (!td_wire_next(&set, &f))
            return td_fail(err, TD_MALFORMED, "no FileDescriptorSet: broken behind %u files", files);
        td_span_t name;
        files += f.number == SET_FILE && f.type == TD_WIRE_LEN && td_wire_scan(f.bytes, TYPE_NAME, &name) && name.size;
    }
    return files ? TD_OK : td_fail(err, TD_MALFORMED, "no FileDescriptorSet: it holds no file");
}
