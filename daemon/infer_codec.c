/* SPDX-License-Identifier: Apache-2.0 */
/* ModelInferRequest and ModelInferResponse. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/limits.h"
#include "daemon/infer.h"
#include "proto/wire.h"

#define ALIGN 16
#define TEXT(s) (int)((s).size < 64 ? (s).size : 64), (s).size ? (const char *)(s).data : ""

typedef struct tensor {
    td_span_t name, datatype, contents;
    bool has_contents;
    uint32_t rank;
    int64_t dims[TD_LIMIT_RANK];
} tensor_t;

static td_status_t broken(td_err_t *err) {
    return td_fail(err, TD_MALFORMED, "the request is not a ModelInferRequest");
}

static bool span_is(td_span_t s, const char *text) {
    return s.size == strlen(text) && (!s.size || !memcmp(s.data, text, s.size));
}

static bool add_dim(tensor_t *t, uint64_t d) {
    if (t->rank == TD_LIMIT_RANK) return false;
    t->dims[t->rank++] = (int64_t)d;
    return true;
}

static bool read_tensor(td_span_t in, tensor_t *t) {
    td_wire_field_t f;
    uint64_t d;
    *t = (tensor_t){0};
    while (in.size) {
        if (!td_wire_next(&in, &f)) return false;
        if (f.number == 3 && f.type == TD_WIRE_VARINT && !add_dim(t, f.value)) return false;
        if (f.type != TD_WIRE_LEN) continue;
        if (f.number == 1) t->name = f.bytes;
        if (f.number == 2) t->datatype = f.bytes;
        if (f.number == 5) t->contents = f.bytes, t->has_contents = true;
        while (f.number == 3 && f.bytes.size)
            if (!td_wire_varint(&f.bytes, &d) || !add_dim(t, d)) return false;
    }
    return true;
}

/* ---- typed contents ---- */
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
    uint64_t left; /* bytes */
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
                       (unsigned long long)(w->info->bytes / n));
    if (!fits(w, v))
        return td_fail(err, TD_MISMATCH, "input '%s': %lld is out of %s's range", w->info->name, (long long)v, types[w->type].name);
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
            if (!td_wire_varint(&in, &v)) return broken(err);
        } else {
            if (in.size < n) return broken(err);
            memcpy(&v, in.data, n);
            in.data += n;
            in.size -= n;
        }
        s = put(w, v, err);
    }
    return s;
}

static td_status_t fill_typed(const td_tensor_info_t *info, td_span_t in, uint8_t *at, td_err_t *err) {
    filler_t w = {info, 0, at, info->bytes};
    while (w.type < N_TYPES && strcmp(types[w.type].name, info->datatype)) w.type++;
    if (w.type == N_TYPES)
        return td_fail(err, TD_MISMATCH, "input '%s': %s goes into raw_input_contents only", info->name, info->datatype);
    td_status_t s = TD_OK;
    td_wire_field_t f;
    while (s == TD_OK && in.size) {
        if (!td_wire_next(&in, &f)) return broken(err);
        if (f.number != types[w.type].field)
            return td_fail(err, TD_MISMATCH, "input '%s': %s belongs into contents field %u, got field %u", info->name,
                           info->datatype, types[w.type].field, f.number);
        if (f.type == TD_WIRE_LEN) s = put_packed(&w, f.bytes, err);
        else if (f.type == types[w.type].wire) s = put(&w, f.value, err);
        else return broken(err);
    }
    if (s == TD_OK && w.left)
        return td_fail(err, TD_MISMATCH, "input '%s': expected %llu elements, got %llu", info->name,
                       (unsigned long long)(info->bytes / types[w.type].size),
                       (unsigned long long)((info->bytes - w.left) / types[w.type].size));
    return s;
}

/* ---- inputs ---- */
static void put_shape(char *out, size_t room, const int64_t *dims, uint32_t rank) {
    size_t n = 0;
    out[n++] = '[';
    for (uint32_t i = 0; i < rank && room - n > 26; i++)
        n += (size_t)snprintf(out + n, room - n, "%s%lld", i ? "," : "", (long long)dims[i]);
    snprintf(out + n, room - n, "]");
}

static td_status_t check(const td_tensor_info_t *info, const tensor_t *t, td_err_t *err) {
    if (!span_is(t->datatype, info->datatype))
        return td_fail(err, TD_MISMATCH, "input '%s': expected datatype %s, got %.*s", info->name, info->datatype, TEXT(t->datatype));
    if (t->rank == info->rank && (!t->rank || !memcmp(t->dims, info->dims, t->rank * sizeof *t->dims))) return TD_OK;
    char want[160], got[160];
    put_shape(want, sizeof want, info->dims, info->rank);
    put_shape(got, sizeof got, t->dims, t->rank);
    return td_fail(err, TD_MISMATCH, "input '%s': expected shape %s, got %s", info->name, want, got);
}

typedef struct pass {
    td_infer_msg_t *m;
    uint32_t n_inputs, n_raw, n_given;
    td_span_t raws; /* the whole request, cut behind the last raw content taken */
    size_t used;    /* of packed */
} pass_t;

static bool next_raw(pass_t *p, td_span_t *out) {
    td_wire_field_t f;
    while (p->raws.size && td_wire_next(&p->raws, &f))
        if (f.number == 7 && f.type == TD_WIRE_LEN) {
            *out = f.bytes;
            return true;
        }
    return false;
}

static td_status_t take_input(pass_t *p, td_span_t msg, td_err_t *err) {
    tensor_t t;
    td_span_t raw = {0};
    uint32_t i = 0;
    if (!read_tensor(msg, &t)) return broken(err);
    while (i < p->n_inputs && !span_is(t.name, td_model_input(p->m->model, i)->name)) i++;
    if (i == p->n_inputs) return td_fail(err, TD_MISMATCH, "the model has no input '%.*s'", TEXT(t.name));
    const td_tensor_info_t *info = td_model_input(p->m->model, i);
    if (p->m->inputs[i]) return td_fail(err, TD_MISMATCH, "input '%s' is given twice", info->name);
    td_status_t s = check(info, &t, err);
    if (s != TD_OK) return s;
    uint8_t *at = (uint8_t *)p->m->packed + p->used; /* room for every input once */
    p->used += td_align_up(info->bytes, ALIGN);
    p->m->inputs[i] = at;
    if (!p->n_raw) return fill_typed(info, t.contents, at, err);
    if (t.has_contents) return td_fail(err, TD_MISMATCH, "input '%s' has contents besides raw_input_contents", info->name);
    if (!next_raw(p, &raw)) return td_fail(err, TD_MISMATCH, "expected one raw_input_contents per input, got %u", p->n_raw);
    if (raw.size != info->bytes)
        return td_fail(err, TD_MISMATCH, "input '%s': expected %llu bytes, got %zu", info->name,
                       (unsigned long long)info->bytes, raw.size);
    bool is_bool = !strcmp(info->datatype, "BOOL");
    if (!is_bool && raw.size && (uintptr_t)raw.data % ALIGN == 0) p->m->inputs[i] = raw.data;
    else if (raw.size) memcpy(at, raw.data, raw.size);
    for (size_t k = 0; is_bool && k < raw.size; k++) at[k] = at[k] != 0;
    return TD_OK;
}

static td_status_t take_output(td_infer_msg_t *m, td_span_t msg, td_err_t *err) {
    td_span_t name = {0};
    uint32_t n = td_model_output_count(m->model), i = 0;
    if (!td_wire_scan(msg, 1, &name)) return broken(err);
    while (i < n && !span_is(name, td_model_output(m->model, i)->name)) i++;
    if (i == n) return td_fail(err, TD_MISMATCH, "the model has no output '%.*s'", TEXT(name));
    for (uint32_t k = 0; k < m->n_outputs; k++)
        if (m->outputs[k] == i) return td_fail(err, TD_MISMATCH, "output '%.*s' is asked for twice", TEXT(name));
    m->outputs[m->n_outputs++] = i;
    return TD_OK;
}

static td_status_t find_model(td_store_t *store, td_span_t name, td_span_t version, td_model_t **out, td_err_t *err) {
    char n[256] = "", v[256] = "";
    bool fit = name.size < sizeof n && version.size < sizeof v;
    if (fit && name.size) memcpy(n, name.data, name.size);
    if (fit && version.size) memcpy(v, version.data, version.size);
    *out = fit ? td_store_find(store, n, v) : NULL;
    if (!*out)
        return td_fail(err, TD_NOTFOUND, "no model '%.*s'%s%.*s", TEXT(name), version.size ? " of version " : "", TEXT(version));
    if (td_model_state(*out) == TD_MODEL_READY) return TD_OK;
    return td_fail(err, TD_UNSUPPORTED, "model '%.*s' is not ready: %s", TEXT(name), td_model_reason(*out));
}

static td_status_t prepare(pass_t *p, td_err_t *err) {
    td_infer_msg_t *m = p->m;
    uint64_t total = ALIGN;
    p->n_inputs = td_model_input_count(m->model);
    for (uint32_t i = 0; i < p->n_inputs; i++)
        if (!td_add_u64(total, td_align_up(td_model_input(m->model, i)->bytes, ALIGN), &total))
            return td_fail(err, TD_LIMIT, "the inputs are too large");
    m->inputs = calloc(p->n_inputs + 1u, sizeof *m->inputs);
    m->outputs = calloc(td_model_output_count(m->model) + 1u, sizeof *m->outputs);
    m->packed = aligned_alloc(ALIGN, total);
    return m->inputs && m->outputs && m->packed ? TD_OK : td_fail(err, TD_NOMEM, "out of memory");
}

td_status_t td_infer_decode(td_store_t *store, td_span_t body, td_infer_msg_t *out, td_err_t *err) {
    pass_t p = {.m = out, .raws = body};
    td_span_t name = {0}, version = {0};
    td_wire_field_t f;
    *out = (td_infer_msg_t){0};
    for (td_span_t in = body; in.size;) {
        if (!td_wire_next(&in, &f)) return broken(err);
        if (f.type != TD_WIRE_LEN) continue;
        if (f.number == 1) name = f.bytes;
        if (f.number == 2) version = f.bytes;
        if (f.number == 3) out->id = f.bytes;
        if (f.number == 5) p.n_given++;
        if (f.number == 7) p.n_raw++;
    }
    td_status_t s = find_model(store, name, version, &out->model, err);
    if (s == TD_OK) s = prepare(&p, err);
    if (s == TD_OK && p.n_raw && p.n_raw != p.n_given)
        s = td_fail(err, TD_MISMATCH, "expected %u raw_input_contents, one per input, got %u", p.n_given, p.n_raw);
    for (td_span_t in = body; s == TD_OK && in.size && td_wire_next(&in, &f);) {
        if (f.type == TD_WIRE_LEN && f.number == 5) s = take_input(&p, f.bytes, err);
        if (f.type == TD_WIRE_LEN && f.number == 6) s = take_output(out, f.bytes, err);
    }
    for (uint32_t i = 0; s == TD_OK && i < p.n_inputs; i++)
        if (!out->inputs[i])
            s = td_fail(err, TD_MISMATCH, "expected %u inputs, got %u: '%s' is missing", p.n_inputs, p.n_given,
                        td_model_input(out->model, i)->name);
    if (s == TD_OK && !out->n_outputs)
        while (out->n_outputs < td_model_output_count(out->model)) out->outputs[out->n_outputs] = out->n_outputs, out->n_outputs++;
    return s;
}

uint64_t td_infer_output_bytes(const td_infer_msg_t *m) {
    uint64_t n = 0;
    for (uint32_t k = 0; k < m->n_outputs; k++)
        if (!td_add_u64(n, td_model_output(m->model, m->outputs[k])->bytes, &n)) return UINT64_MAX;
    return n;
}

void td_infer_encode(const td_infer_msg_t *m, const td_slot_t *slot, td_pb_t *out) {
    td_pb_string(out, 1, td_model_name(m->model));
    td_pb_string(out, 2, td_model_version(m->model));
    if (m->id.size) td_pb_bytes(out, 3, m->id.data, m->id.size);
    for (uint32_t k = 0; k < m->n_outputs; k++) {
        const td_tensor_info_t *t = td_model_output(m->model, m->outputs[k]);
        td_pb_t x = {0};
        td_pb_string(&x, 1, t->name);
        td_pb_string(&x, 2, t->datatype);
        td_pb_packed_i64(&x, 3, t->dims, t->rank);
        td_pb_message(out, 5, &x);
    }
    for (uint32_t k = 0; k < m->n_outputs; k++)
        td_pb_bytes(out, 6, td_slot_output(slot, m->outputs[k]), td_model_output(m->model, m->outputs[k])->bytes);
}

void td_infer_msg_free(td_infer_msg_t *m) {
    free(m->inputs);
    free(m->outputs);
    free(m->packed);
    *m = (td_infer_msg_t){0};
}
