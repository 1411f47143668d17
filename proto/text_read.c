/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "proto/canonical.h"
#include "proto/text.h"
#include "proto/text_lex.h"
#include "proto/wire.h"

typedef struct reader {
    td_lex_t s;
    td_buffer_t *out;
    td_text_notes_t *notes;
} reader_t;

/* A message that is being written; elements of one packed field that follow each other share a length. */
typedef struct level {
    const ProtobufCMessageDescriptor *desc; /* NULL: fields by number only, of an unknown message */
    const ProtobufCFieldDescriptor *run;    /* the packed field whose elements come, or NULL */
    size_t run_start;
    unsigned depth;
} level_t;

static td_status_t fields(reader_t *r, const ProtobufCMessageDescriptor *desc, char close, unsigned depth,
                          td_err_t *err);

static td_status_t put_varint(reader_t *r, uint64_t v, td_err_t *err) {
    uint8_t b[10];
    return td_buffer_append(r->out, b, td_wire_put_varint(b, v), err);
}
static td_status_t put_tag(reader_t *r, uint32_t number, uint8_t type, td_err_t *err) {
    return put_varint(r, (uint64_t)number << 3 | type, err);
}

/* Puts the length of what was appended since start in front of it. */
static td_status_t close_length(reader_t *r, size_t start, td_err_t *err) {
    uint8_t b[10];
    size_t len = r->out->size - start, n = td_wire_put_varint(b, len);
    if (len > INT32_MAX) return td_fail(err, TD_LIMIT, "a value of %zu bytes", len);
    td_status_t st = td_buffer_reserve(r->out, n, err);
    if (st != TD_OK) return st;
    memmove(r->out->data + start + n, r->out->data + start, len);
    memcpy(r->out->data + start, b, n);
    r->out->size += n;
    return TD_OK;
}

static td_status_t end_run(reader_t *r, level_t *l, td_err_t *err) {
    td_status_t st = l->run ? close_length(r, l->run_start, err) : TD_OK;
    l->run = NULL;
    return st;
}

static void note_skipped(reader_t *r, td_span_t name) {
    td_text_notes_t *n = r->notes;
    if (!n) return;
    if (!n->n_skipped++) {
        int len = name.size < TD_TEXT_NAME_MAX ? (int)name.size : TD_TEXT_NAME_MAX - 1;
        snprintf(n->first, sizeof n->first, "%.*s", len, (const char *)name.data);
        n->first_line = r->s.line;
    }
}

/* Copies a word for the descriptors' look-ups; false when it is too long to be a name. */
static bool copy_word(td_span_t w, char *buf, size_t size) {
    if (w.size >= size) return false;
    memcpy(buf, w.data, w.size);
    buf[w.size] = '\0';
    return true;
}

/* ---- values that nobody keeps ---- */

static td_status_t skip_value(reader_t *r, unsigned depth, td_err_t *err);

static td_status_t skip_scalar(reader_t *r, td_err_t *err) {
    char c = td_lex_peek(&r->s);
    if (c == '"' || c == '\'') {
        size_t before = r->out->size;
        td_status_t st = td_lex_string(&r->s, r->out, err);
        r->out->size = before;
        return st;
    }
    td_lex_take(&r->s, '-');
    return td_lex_word(&r->s, true).size ? TD_OK : td_lex_fail(&r->s, err, "expected a value");
}

static td_status_t skip_list(reader_t *r, unsigned depth, td_err_t *err) {
    if (td_lex_take(&r->s, ']')) return TD_OK;
    do {
        td_status_t st = skip_value(r, depth, err);
        if (st != TD_OK) return st;
    } while (td_lex_take(&r->s, ','));
    return td_lex_take(&r->s, ']') ? TD_OK : td_lex_fail(&r->s, err, "expected , or ] in a list");
}

static td_status_t skip_value(reader_t *r, unsigned depth, td_err_t *err) {
    if (depth > TD_LIMIT_PROTO_DEPTH)
        return td_lex_fail(&r->s, err, "messages nest deeper than %d", TD_LIMIT_PROTO_DEPTH);
    if (td_lex_take(&r->s, '[')) return skip_list(r, depth + 1, err);
    char open = td_lex_peek(&r->s);
    if (open != '{' && open != '<') return skip_scalar(r, err);
    td_lex_take(&r->s, open);
    size_t before = r->out->size;
    td_text_notes_t *notes = r->notes;
    r->notes = NULL; /* the names inside are no news */
    td_status_t st = fields(r, NULL, open == '{' ? '}' : '>', depth + 1, err);
    r->notes = notes;
    r->out->size = before;
    return st;
}

/* ---- scalars ---- */

static td_status_t bad_value(reader_t *r, const ProtobufCFieldDescriptor *d, td_span_t w, td_err_t *err) {
    return td_lex_fail(&r->s, err, "\"%.*s\" is no value of %s", (int)(w.size < 40 ? w.size : 40), (const char *)w.data,
                       d->name);
}

static td_status_t integer(reader_t *r, const ProtobufCFieldDescriptor *d, bool negative, td_span_t w, uint64_t *out,
                           td_err_t *err) {
    uint64_t v = 0, most = UINT64_MAX;
    bool is_signed = true;
    switch (d->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_ENUM: most = INT32_MAX; break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64: most = INT64_MAX; break;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32: most = UINT32_MAX, is_signed = false; break;
    default: is_signed = false;
    }
    if (!td_lex_integer(w, &v) || (negative && !is_signed) || v > most + (negative ? 1 : 0))
        return bad_value(r, d, w, err);
    v = negative ? 0 - v : v;
    if (d->type == PROTOBUF_C_TYPE_SINT32 || d->type == PROTOBUF_C_TYPE_SINT64)
        v = v << 1 ^ (uint64_t)((int64_t)v >> 63);
    *out = v;
    return TD_OK;
}

static td_status_t floating(reader_t *r, const ProtobufCFieldDescriptor *d, bool negative, td_span_t w, uint64_t *out,
                            td_err_t *err) {
    double v;
    float single;
    uint64_t whole;
    if (td_lex_integer(w, &whole) && w.size > 1 && w.data[0] == '0' && (w.data[1] | 32) == 'x')
        v = (double)whole, single = (float)whole;
    else if (!td_lex_float(w, &v, &single)) return bad_value(r, d, w, err);
    if (negative) v = -v, single = -single;
    *out = 0;
    if (d->type == PROTOBUF_C_TYPE_DOUBLE) memcpy(out, &v, sizeof v);
    else memcpy(out, &single, sizeof single); /* little-endian hosts only */
    return TD_OK;
}

static td_status_t boolean(reader_t *r, const ProtobufCFieldDescriptor *d, td_span_t w, uint64_t *out, td_err_t *err) {
    static const char *const words[] = {"false", "False", "f", "0", "0x0", "true", "True", "t", "1", "0x1"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == w.size && memcmp(words[i], w.data, w.size) == 0) {
            *out = i >= 5;
            return TD_OK;
        }
    return bad_value(r, d, w, err);
}

/* Reads one number, bool or enum value. *known is false for an enum name that the schema does not have. */
static td_status_t number(reader_t *r, const ProtobufCFieldDescriptor *d, uint64_t *out, bool *known, td_err_t *err) {
    char name[128];
    bool negative = td_lex_take(&r->s, '-');
    td_span_t w = td_lex_word(&r->s, true);
    *known = true;
    if (!w.size) return td_lex_fail(&r->s, err, "expected a value of %s", d->name);
    if (d->type == PROTOBUF_C_TYPE_BOOL && !negative) return boolean(r, d, w, out, err);
    if (d->type == PROTOBUF_C_TYPE_FLOAT || d->type == PROTOBUF_C_TYPE_DOUBLE)
        return floating(r, d, negative, w, out, err);
    if (d->type != PROTOBUF_C_TYPE_ENUM || negative || (w.data[0] >= '0' && w.data[0] <= '9'))
        return d->type == PROTOBUF_C_TYPE_BOOL ? bad_value(r, d, w, err) : integer(r, d, negative, w, out, err);
    const ProtobufCEnumValue *v = NULL;
    if (copy_word(w, name, sizeof name)) v = protobuf_c_enum_descriptor_get_value_by_name(d->descriptor, name);
    *known = v != NULL;
    if (v) *out = (uint64_t)(int64_t)v->value;
    else note_skipped(r, w);
    return TD_OK;
}

static td_status_t put_number(reader_t *r, level_t *l, const ProtobufCFieldDescriptor *d, td_err_t *err) {
    uint64_t v = 0;
    bool known;
    uint8_t type = td_proto_wire_type(d->type);
    td_status_t st = number(r, d, &v, &known, err);
    if (st != TD_OK || !known) return st;
    bool packed = d->flags & PROTOBUF_C_FIELD_FLAG_PACKED;
    if (!packed || l->run != d) {
        st = end_run(r, l, err);
        if (st == TD_OK) st = put_tag(r, d->id, packed ? TD_WIRE_LEN : type, err);
        if (st != TD_OK) return st;
        l->run = packed ? d : NULL;
        l->run_start = r->out->size;
    }
    if (type == TD_WIRE_VARINT) return put_varint(r, v, err);
    return td_buffer_append(r->out, &v, type == TD_WIRE_I64 ? 8 : 4, err); /* little-endian hosts only */
}

/* ---- fields ---- */

static td_status_t submessage(reader_t *r, const ProtobufCMessageDescriptor *desc, uint32_t number_, unsigned depth,
                              td_err_t *err) {
    char open = td_lex_peek(&r->s);
    if (open != '{' && open != '<') return td_lex_fail(&r->s, err, "expected { or < of a message");
    td_lex_take(&r->s, open);
    td_status_t st = put_tag(r, number_, TD_WIRE_LEN, err);
    size_t start = r->out->size;
    if (st == TD_OK) st = fields(r, desc, open == '{' ? '}' : '>', depth + 1, err);
    return st == TD_OK ? close_length(r, start, err) : st;
}

static td_status_t string_value(reader_t *r, uint32_t number_, td_err_t *err) {
    td_status_t st = put_tag(r, number_, TD_WIRE_LEN, err);
    size_t start = r->out->size;
    if (st == TD_OK) st = td_lex_string(&r->s, r->out, err);
    return st == TD_OK ? close_length(r, start, err) : st;
}

static td_status_t value(reader_t *r, level_t *l, const ProtobufCFieldDescriptor *d, td_err_t *err) {
    if (td_proto_wire_type(d->type) != TD_WIRE_LEN) return put_number(r, l, d, err);
    td_status_t st = end_run(r, l, err);
    if (st != TD_OK) return st;
    if (d->type == PROTOBUF_C_TYPE_MESSAGE) return submessage(r, d->descriptor, d->id, l->depth, err);
    return string_value(r, d->id, err);
}

static td_status_t value_or_list(reader_t *r, level_t *l, const ProtobufCFieldDescriptor *d, td_err_t *err) {
    if (!td_lex_take(&r->s, '[')) return value(r, l, d, err);
    if (d->label != PROTOBUF_C_LABEL_REPEATED)
        return td_lex_fail(&r->s, err, "a list for %s, which is not repeated", d->name);
    if (td_lex_take(&r->s, ']')) return TD_OK;
    do {
        td_status_t st = value(r, l, d, err);
        if (st != TD_OK) return st;
    } while (td_lex_take(&r->s, ','));
    return td_lex_take(&r->s, ']') ? TD_OK : td_lex_fail(&r->s, err, "expected , or ] in the list of %s", d->name);
}

/* A field that the schema does not have, by its number: its wire type follows from how the value is written. */
static td_status_t by_number(reader_t *r, level_t *l, uint32_t number_, td_err_t *err) {
    td_status_t st = end_run(r, l, err);
    if (st != TD_OK) return st;
    char c = td_lex_peek(&r->s);
    if (c == '{' || c == '<') return submessage(r, NULL, number_, l->depth, err);
    if (c == '"' || c == '\'') return string_value(r, number_, err);
    bool negative = td_lex_take(&r->s, '-');
    td_span_t w = td_lex_word(&r->s, true);
    uint64_t v = 0;
    if (!w.size || !td_lex_integer(w, &v)) return td_lex_fail(&r->s, err, "expected an integer, a string or a message");
    bool hex = w.size > 2 && w.data[0] == '0' && w.data[1] == 'x';
    uint8_t type = hex && w.size == 10 ? TD_WIRE_I32 : hex && w.size == 18 ? TD_WIRE_I64 : TD_WIRE_VARINT;
    st = put_tag(r, number_, type, err);
    if (st != TD_OK) return st;
    if (negative) v = 0 - v;
    return type == TD_WIRE_VARINT ? put_varint(r, v, err)
                                  : td_buffer_append(r->out, &v, type == TD_WIRE_I64 ? 8 : 4, err);
}

/* [extension.name] or [type.googleapis.com/full.Name]: skipped with its value. */
static td_status_t bracketed(reader_t *r, level_t *l, td_err_t *err) {
    const char *begin = r->s.p;
    while (r->s.p < r->s.end && *r->s.p != ']' && *r->s.p != '\n') r->s.p++;
    td_span_t name = {(const uint8_t *)begin, (size_t)(r->s.p - begin)};
    if (!td_lex_take(&r->s, ']')) return td_lex_fail(&r->s, err, "a name in brackets does not end");
    note_skipped(r, name);
    char c = td_lex_peek(&r->s);
    if (!td_lex_take(&r->s, ':') && c != '{' && c != '<') return td_lex_fail(&r->s, err, "expected : or a message");
    return skip_value(r, l->depth + 1, err);
}

static td_status_t one_field(reader_t *r, level_t *l, td_err_t *err) {
    char name[128] = "";
    if (td_lex_take(&r->s, '[')) return bracketed(r, l, err);
    td_span_t w = td_lex_word(&r->s, false);
    if (!w.size) return td_lex_fail(&r->s, err, "expected a field's name");
    uint64_t n;
    const ProtobufCFieldDescriptor *d = NULL;
    bool numbered = w.data[0] >= '0' && w.data[0] <= '9';
    if (numbered && (!td_lex_integer(w, &n) || n == 0 || n > 0x1fffffff))
        return td_lex_fail(&r->s, err, "bad field number");
    if (numbered && l->desc) d = protobuf_c_message_descriptor_get_field(l->desc, (unsigned)n);
    if (!numbered && l->desc && copy_word(w, name, sizeof name))
        d = protobuf_c_message_descriptor_get_field_by_name(l->desc, name);
    bool colon = td_lex_take(&r->s, ':');
    char c = td_lex_peek(&r->s);
    if (!colon && c != '{' && c != '<') return td_lex_fail(&r->s, err, "expected : behind the field's name");
    if (d) return value_or_list(r, l, d, err);
    if (numbered) return by_number(r, l, (uint32_t)n, err);
    note_skipped(r, w);
    return skip_value(r, l->depth, err);
}

static td_status_t fields(reader_t *r, const ProtobufCMessageDescriptor *desc, char close, unsigned depth,
                          td_err_t *err) {
    if (depth > TD_LIMIT_PROTO_DEPTH)
        return td_lex_fail(&r->s, err, "messages nest deeper than %d", TD_LIMIT_PROTO_DEPTH);
    level_t l = {.desc = desc, .depth = depth};
    td_status_t st = TD_OK;
    for (;;) {
        char c = td_lex_peek(&r->s);
        bool at_end = r->s.p == r->s.end;
        if (close ? c == close && !at_end : at_end) break;
        if (at_end) return td_lex_fail(&r->s, err, "text ends inside a message");
        if ((st = one_field(r, &l, err)) != TD_OK) return st;
        if (r->out->size > TD_LIMIT_ARTIFACT_BYTES)
            return td_fail(err, TD_LIMIT, "message larger than %llu bytes", TD_LIMIT_ARTIFACT_BYTES);
        if (!td_lex_take(&r->s, ',')) td_lex_take(&r->s, ';');
    }
    if (close) r->s.p++;
    return end_run(r, &l, err);
}

td_status_t td_text_read(const ProtobufCMessageDescriptor *desc, td_span_t text, td_buffer_t *out,
                         td_text_notes_t *notes, td_err_t *err) {
    reader_t r = {.out = out, .notes = notes};
    td_lex_init(&r.s, text);
    if (notes) *notes = (td_text_notes_t){0};
    return fields(&r, desc, 0, 0, err);
}
