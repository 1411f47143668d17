/* SPDX-License-Identifier: Apache-2.0 */
/* Decoding what a daemon answers. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "ctl/online.h"

static const struct {
    const char *oip, *dtype;
    unsigned size;
} types[] = {
    {"BOOL", "BOOL", 1}, {"INT8", "I8", 1}, {"UINT8", "U8", 1}, {"INT16", "I16", 2}, {"UINT16", "U16", 2},
    {"INT32", "I32", 4}, {"UINT32", "U32", 4}, {"INT64", "I64", 8}, {"UINT64", "U64", 8}, {"FP16", "F16", 2},
    {"BF16", "BF16", 2}, {"FP32", "F32", 4}, {"FP64", "F64", 8}, {"C64", "C64", 8}, {"C128", "C128", 16},
    {"F8_E4M3", "F8_E4M3", 1}, {"F8_E5M2", "F8_E5M2", 1}, {"F8_E8M0", "F8_E8M0", 1},
    {"F8_E4M3FNUZ", "F8_E4M3FNUZ", 1}, {"F8_E5M2FNUZ", "F8_E5M2FNUZ", 1},
};
#define N_TYPES (sizeof types / sizeof *types)

const char *oip_to_dtype(const char *datatype) {
    for (size_t i = 0; i < N_TYPES; i++)
        if (!strcmp(types[i].oip, datatype)) return types[i].dtype;
    return NULL;
}

const char *oip_from_dtype(const char *dtype) {
    for (size_t i = 0; i < N_TYPES; i++)
        if (!strcmp(types[i].dtype, dtype)) return types[i].oip;
    return NULL;
}

bool oip_bytes(const oip_tensor_t *t, uint64_t *out) {
    uint64_t n = 0;
    for (size_t i = 0; i < N_TYPES; i++)
        if (!strcmp(types[i].oip, t->datatype)) n = types[i].size;
    if (!n) return false;
    for (uint32_t i = 0; i < t->rank; i++)
        if (t->dims[i] < 0 || !td_mul_u64(n, (uint64_t)t->dims[i], &n)) return false;
    *out = n;
    return true;
}

static bool add_dim(oip_tensor_t *t, uint64_t d) {
    if (t->rank == TD_LIMIT_RANK) return false;
    t->dims[t->rank++] = (int64_t)d;
    return true;
}

static bool add_dims(oip_tensor_t *t, const td_wire_field_t *f) {
    if (f->type == 0) return add_dim(t, f->value);
    td_span_t in = f->bytes;
    uint64_t d;
    while (in.size)
        if (!td_wire_varint(&in, &d) || !add_dim(t, d)) return false;
    return f->type == 2;
}

static char *take_string(char *old, const td_wire_field_t *f) {
    free(old);
    return f->type == 2 ? strndup((const char *)f->bytes.data, f->bytes.size) : NULL;
}

static td_status_t decode(oip_tensor_t *t, td_span_t msg, td_err_t *err) {
    td_wire_field_t f;
    bool bad = false;
    t->name = strdup("");
    t->datatype = strdup("");
    while (t->name && t->datatype && pb_next(&msg, &f, &bad)) {
        if (f.number == 1) t->name = take_string(t->name, &f);
        if (f.number == 2) t->datatype = take_string(t->datatype, &f);
        if (f.number == 3 && !add_dims(t, &f)) bad = true;
        if (bad) break;
    }
    if (bad || !t->name || !t->datatype) return td_fail(err, TD_MALFORMED, "the daemon's answer: broken tensor");
    return TD_OK;
}

td_status_t oip_tensors_add(oip_tensors_t *t, td_span_t msg, td_err_t *err) {
    if (t->n == OIP_TENSORS_MAX) return td_fail(err, TD_LIMIT, "more than %d tensors", OIP_TENSORS_MAX);
    if (t->n == t->capacity) {
        uint32_t cap = t->capacity ? 2 * t->capacity : 8;
        oip_tensor_t *p = realloc(t->items, cap * sizeof *p);
        if (!p) return td_fail(err, TD_NOMEM, "out of memory");
        t->items = p;
        t->capacity = cap;
    }
    t->items[t->n] = (oip_tensor_t){0};
    return decode(&t->items[t->n++], msg, err);
}

void oip_tensors_free(oip_tensors_t *t) {
    for (uint32_t i = 0; i < t->n; i++) {
        free(t->items[i].name);
        free(t->items[i].datatype);
    }
    free(t->items);
    *t = (oip_tensors_t){0};
}

td_status_t oip_call(const char *socket, const char *rpc, td_span_t request, int timeout_ms, grpc_reply_t *reply,
                     td_span_t *out_message, td_err_t *err) {
    td_status_t s = grpc_call(socket, rpc, request, timeout_ms, reply, err);
    if (s != TD_OK) return s;
    if (reply->code != GRPC_OK)
        return td_fail(err, reply->code == GRPC_NOT_FOUND ? TD_NOTFOUND : TD_UNSUPPORTED, "%s (%d): %s",
                       grpc_code_name(reply->code), reply->code, reply->message);
    return grpc_reply_message(reply, out_message, err);
}
