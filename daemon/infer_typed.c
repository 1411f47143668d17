/* SPDX-License-Identifier: Apache-2.0 */
/* InferTensorContents: bool 1, int32 2 (INT8, INT16, INT32), int64 3, uint32 4 (UINT8, UINT16, UINT32), uint64 5,
 * float 6, double 7; all repeated, packed or not. Types without a field of their own go raw only. */
#include "daemon/infer_in.h"
#include "proto/wire.h"

static const struct {
    const char *name;
    uint8_t size, field, wire, is_signed;
} types[] = {
    {"BOOL", 1, 1, TD_WIRE_VARINT, 0},   {"INT8", 1, 2, TD_WIRE_VARINT, 1},   {"INT16", 2, 2, TD_WIRE_VARINT, 1},
    {"INT32", 4, 2, TD_WIRE_VARINT, 1},  {"INT64", 8, 3, TD_WIRE_VARINT, 1},  {"UINT8", 1, 4, TD_WIRE_VARINT, 0},
    {"UINT16", 2, 4, TD_WIRE_VARINT, 0}, {"UINT32", 4, 4, TD_WIRE_VARINT, 0}, {"UINT64", 8, 5, TD_WIRE_VARINT, 0},
    {"FP32", 4, 6, TD_WIRE_I32, 0},      {"FP64", 8, 7, TD_WIRE_I64, 0},
};
#define N_TYPES (sizeof types / sizeof *types)

typedef struct filler {
    const td_tensor_info_t *info;
    size_t type;
    uint8_t *at;
    uint64_t bytes, left;
} filler_t;

static bool fits(const filler_t *w, uint64_t v) {
    unsigned bits = 8u * types[w->type].size;
    if (types[w->type].field == 1) return v <= 1;
    if (bits == 64 || types[w->type].wire != TD_WIRE_VARINT) return true;
    if (!types[w->type].is_signed) return v >> bits == 0;
    int64_t x = (int64_t)v, half = (int64_t)1 << (bits - 1);
    return x >= -half && x < half;
}

static td_status_t put(filler_t *w, uint64_t v, td_err_t *err) {
    unsigned n = types[w->type].size;
    if (w->left < n)
        return td_fail(err, TD_MISMATCH, "input '%s': expected %llu elements, got more", w->info->name,
                       (unsigned long long)(w->bytes / n));
    if (!fits(w, v))
        return td_fail(err, TD_MISMATCH, "input '%s': %lld is out of %s's range", w->info->name, (long long)v,
                       types[w->type].name);
    memcpy(w->at, &v, n); /* little-endian */
    w->at += n;
    w->left -= n;
    return TD_OK;
}

static td_status_t put_packed(filler_t *w, td_span_t in, td_err_t *err) {
    unsigned n = types[w->type].wire == TD_WIRE_I32 ? 4 : 8;
    td_status_t s = TD_OK;
    while (s == TD_OK && in.size) {
        uint64_t v = 0;
        if (types[w->type].wire == TD_WIRE_VARINT) {
            if (!td_wire_varint(&in, &v)) return td_infer_broken(err);
        } else {
            if (in.size < n) return td_infer_broken(err);
            memcpy(&v, in.data, n);
            in.data += n;
            in.size -= n;
        }
        s = put(w, v, err);
    }
    return s;
}

td_status_t td_infer_fill(const td_tensor_info_t *info, td_span_t in, void *at, uint64_t bytes, td_err_t *err) {
    filler_t w = {info, 0, at, bytes, bytes};
    while (w.type < N_TYPES && strcmp(types[w.type].name, info->datatype)) w.type++;
    if (w.type == N_TYPES)
        return td_fail(err, TD_MISMATCH, "input '%s': %s goes into raw_input_contents only", info->name,
                       info->datatype);
    td_status_t s = TD_OK;
    td_wire_field_t f;
    while (s == TD_OK && in.size) {
        if (!td_wire_next(&in, &f)) return td_infer_broken(err);
        if (f.number != types[w.type].field)
            return td_fail(err, TD_MISMATCH, "input '%s': %s belongs into contents field %u, got field %u", info->name,
                           info->datatype, types[w.type].field, f.number);
        if (f.type == TD_WIRE_LEN) s = put_packed(&w, f.bytes, err);
        else if (f.type == types[w.type].wire) s = put(&w, f.value, err);
        else return td_infer_broken(err);
    }
    if (s == TD_OK && w.left)
        return td_fail(err, TD_MISMATCH, "input '%s': expected %llu elements, got %llu", info->name,
                       (unsigned long long)(bytes / types[w.type].size),
                       (unsigned long long)((bytes - w.left) / types[w.type].size));
    return s;
}
