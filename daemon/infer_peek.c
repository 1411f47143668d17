/* SPDX-License-Identifier: Apache-2.0 */
/* The head of a ModelInferRequest: model_name 1, model_version 2, parameters 4 (a map: key 1, value 2), where a value
 * is an InferParameter: bool 1, int64 2, string 3, double 4, uint64 5. The parameters of sequences are those of
 * Triton's sequence extension: sequence_id, an integer or a string (0 and "" mean none), sequence_start and
 * sequence_end, booleans. Others are for nobody here. */
#include <stdio.h>

#include "daemon/infer_in.h"
#include "proto/wire.h"

static td_status_t put_name(td_span_t from, const char *what, char *to, size_t room, td_err_t *err) {
    if (from.size >= room)
        return td_fail(err, TD_NOTFOUND, "no model: the %s has %zu bytes, of at most %zu", what, from.size, room - 1);
    if (from.size && memchr(from.data, 0, from.size))
        return td_fail(err, TD_NOTFOUND, "no model: the %s holds a NUL byte", what);
    if (from.size) memcpy(to, from.data, from.size);
    to[from.size] = 0;
    return TD_OK;
}

static td_status_t put_id(const td_wire_field_t *v, td_infer_head_t *out, td_err_t *err) {
    bool is_signed = v->number == 2 && v->type == TD_WIRE_VARINT;
    bool is_unsigned = v->number == 5 && v->type == TD_WIRE_VARINT;
    out->sequence[0] = 0;
    if (v->number == 3 && v->type == TD_WIRE_LEN) {
        size_t n = v->bytes.size;
        if (n >= sizeof out->sequence || (n && memchr(v->bytes.data, 0, n)))
            return td_fail(err, TD_USAGE, "sequence_id: expected at most %zu bytes without NUL, got %zu",
                           sizeof out->sequence - 1, n);
        if (n) memcpy(out->sequence, v->bytes.data, n);
        out->sequence[n] = 0;
        return TD_OK;
    }
    if (!is_signed && !is_unsigned) return td_fail(err, TD_USAGE, "sequence_id: expected an integer or a string");
    if (is_signed && v->value) snprintf(out->sequence, sizeof out->sequence, "%lld", (long long)v->value);
    if (is_unsigned && v->value) snprintf(out->sequence, sizeof out->sequence, "%llu", (unsigned long long)v->value);
    return TD_OK;
}

static td_status_t put_flag(const td_wire_field_t *v, const char *name, bool *out, td_err_t *err) {
    if (v->number != 1 || v->type != TD_WIRE_VARINT) return td_fail(err, TD_USAGE, "%s: expected a boolean", name);
    *out = v->value != 0;
    return TD_OK;
}

static td_status_t take_parameter(td_span_t entry, td_infer_head_t *out, td_err_t *err) {
    td_span_t key = {0}, value = {0};
    td_wire_field_t f, v = {.number = 1, .type = TD_WIRE_VARINT}; /* an empty value reads as false */
    while (entry.size) {
        if (!td_wire_next(&entry, &f)) return td_infer_broken(err);
        if (f.type == TD_WIRE_LEN && f.number == 1) key = f.bytes;
        if (f.type == TD_WIRE_LEN && f.number == 2) value = f.bytes;
    }
    bool is_id = td_infer_is(key, "sequence_id"), start = td_infer_is(key, "sequence_start");
    if (!is_id && !start && !td_infer_is(key, "sequence_end")) return TD_OK;
    while (value.size)
        if (!td_wire_next(&value, &v)) return td_infer_broken(err); /* the last one counts */
    if (is_id) return put_id(&v, out, err);
    if (start) return put_flag(&v, "sequence_start", &out->sequence_start, err);
    return put_flag(&v, "sequence_end", &out->sequence_end, err);
}

td_status_t td_infer_peek(td_span_t body, td_infer_head_t *out, td_err_t *err) {
    td_wire_field_t f;
    td_status_t s = TD_OK;
    *out = (td_infer_head_t){0};
    while (s == TD_OK && body.size) {
        if (!td_wire_next(&body, &f)) return td_infer_broken(err);
        if (f.type != TD_WIRE_LEN) continue;
        if (f.number == 1) s = put_name(f.bytes, "model's name", out->model, sizeof out->model, err);
        if (f.number == 2) s = put_name(f.bytes, "version", out->version, sizeof out->version, err);
        if (f.number == 4) s = take_parameter(f.bytes, out, err);
    }
    return s;
}
