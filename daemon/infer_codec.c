/* SPDX-License-Identifier: Apache-2.0 */
/* ModelInferRequest and ModelInferResponse. */
#include <stdio.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/limits.h"
#include "daemon/infer_in.h"
#include "proto/wire.h"

#define ALIGN 16

typedef struct tensor {
    td_span_t name, datatype, contents;
    bool has_contents;
    uint32_t rank;
    int64_t dims[TD_LIMIT_RANK];
} tensor_t;

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

/* ---- shapes ---- */
static void put_shape(char *out, size_t room, const int64_t *dims, uint32_t rank) {
    size_t n = 0;
    out[n++] = '[';
    for (uint32_t i = 0; i < rank && room - n > 26; i++)
        n += (size_t)snprintf(out + n, room - n, "%s%lld", i ? "," : "", (long long)dims[i]);
    snprintf(out + n, room - n, "]");
}

static bool is_open(const td_tensor_info_t *t) {
    for (uint32_t i = 0; i < t->rank; i++)
        if (t->dims[i] < 0) return true;
    return false;
}

/* Of an array within max_dims, whose own bytes are known. */
static uint64_t bytes_of(const td_tensor_info_t *info, const int64_t *dims) {
    uint64_t of_max = 1, of_dims = 1;
    for (uint32_t i = 0; i < info->rank; i++) {
        of_max *= (uint64_t)info->max_dims[i];
        of_dims *= (uint64_t)dims[i];
    }
    return of_max ? info->bytes / of_max * of_dims : 0;
}

static bool shape_fits(const td_tensor_info_t *info, const tensor_t *t) {
    if (t->rank != info->rank) return false;
    for (uint32_t i = 0; i < t->rank; i++) {
        bool open = info->dims[i] < 0;
        if (open ? t->dims[i] < 0 || t->dims[i] > info->max_dims[i] : t->dims[i] != info->dims[i]) return false;
    }
    return true;
}

static td_status_t check(const td_tensor_info_t *info, const tensor_t *t, td_err_t *err) {
    if (!td_infer_is(t->datatype, info->datatype))
        return td_fail(err, TD_MISMATCH, "input '%s': expected datatype %s, got %.*s", info->name, info->datatype,
                       TD_INFER_TEXT(t->datatype));
    if (shape_fits(info, t)) return TD_OK;
    char want[120], most[120], got[120];
    put_shape(want, sizeof want, info->dims, info->rank);
    put_shape(most, sizeof most, info->max_dims, info->rank);
    put_shape(got, sizeof got, t->dims, t->rank);
    bool open = is_open(info);
    return td_fail(err, TD_MISMATCH, "input '%s': expected shape %s%s%s, got %s", info->name, want,
                   open ? ", at most " : "", open ? most : "", got);
}

/* ---- inputs ---- */
typedef struct pass {
    td_infer_msg_t *m;
    bool start; /* of a sequence: states may be given */
    uint32_t n_raw, n_given;
    td_span_t raws; /* the whole request, cut behind the last raw content taken */
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

/* The slot that the name stands for, with its description; dims: where its dims go. */
static td_status_t find_input(const pass_t *p, td_span_t name, td_run_tensor_t **out, int64_t **dims,
                              const td_tensor_info_t **info, td_err_t *err) {
    const td_model_info_t *m = p->m->info;
    int64_t *at = p->m->dims;
    for (uint32_t i = 0; i < m->n_inputs + m->n_states; i++) {
        bool state = i >= m->n_inputs;
        *info = state ? &m->states[i - m->n_inputs] : &m->inputs[i];
        if (!td_infer_is(name, (*info)->name)) {
            at += (*info)->rank;
            continue;
        }
        if (state && !p->start)
            return td_fail(err, TD_MISMATCH, "input '%s' is state: it can be given only with sequence_start",
                           (*info)->name);
        if (state) p->m->has_states = true;
        *out = &p->m->inputs[i];
        *dims = at;
        return (*out)->data ? td_fail(err, TD_MISMATCH, "input '%s' is given twice", (*info)->name) : TD_OK;
    }
    return td_fail(err, TD_MISMATCH, "the model has no input '%.*s'", TD_INFER_TEXT(name));
}

/* Memory for a copy of a tensor; NULL: the error is set. */
static void *room_for(td_infer_msg_t *m, uint64_t bytes, td_err_t *err) {
    uint64_t size;
    if (!td_add_u64(bytes ? bytes : 1, ALIGN - 1, &size)) {
        td_fail(err, TD_LIMIT, "the inputs are too large");
        return NULL;
    }
    size -= size % ALIGN;
    if (m->memory && !td_charge_take(td_memory_charge(m->memory), size)) {
        td_memory_refuse(m->memory, "the request's tensors", size, err);
        return NULL;
    }
    m->charged += m->memory ? size : 0;
    void *p = aligned_alloc(ALIGN, size);
    if (p) m->owned[m->n_owned++] = p;
    else td_fail(err, TD_NOMEM, "out of memory");
    return p;
}

static td_status_t take_raw(pass_t *p, const td_tensor_info_t *info, uint64_t bytes, td_run_tensor_t *out,
                            td_err_t *err) {
    td_span_t raw = {0};
    if (!next_raw(p, &raw))
        return td_fail(err, TD_MISMATCH, "expected one raw_input_contents per input, got %u", p->n_raw);
    if (raw.size != bytes)
        return td_fail(err, TD_MISMATCH, "input '%s': expected %llu bytes, got %zu", info->name,
                       (unsigned long long)bytes, raw.size);
    bool is_bool = !strcmp(info->datatype, "BOOL");
    if (!is_bool && raw.size && (uintptr_t)raw.data % ALIGN == 0) {
        out->data = raw.data;
        return TD_OK;
    }
    uint8_t *at = room_for(p->m, bytes, err);
    if (!at) return err ? err->code : TD_NOMEM;
    if (raw.size) memcpy(at, raw.data, raw.size);
    for (size_t k = 0; is_bool && k < raw.size; k++) at[k] = at[k] != 0;
    out->data = at;
    return TD_OK;
}

static td_status_t take_input(pass_t *p, td_span_t msg, td_err_t *err) {
    tensor_t t;
    const td_tensor_info_t *info = NULL;
    td_run_tensor_t *to = NULL;
    int64_t *dims = NULL;
    if (!read_tensor(msg, &t)) return td_infer_broken(err);
    td_status_t s = find_input(p, t.name, &to, &dims, &info, err);
    if (s == TD_OK) s = check(info, &t, err);
    if (s != TD_OK) return s;
    if (t.rank) memcpy(dims, t.dims, t.rank * sizeof *dims);
    uint64_t bytes = bytes_of(info, dims);
    to->dims = is_open(info) ? dims : NULL;
    if (p->n_raw && t.has_contents)
        return td_fail(err, TD_MISMATCH, "input '%s' has contents besides raw_input_contents", info->name);
    if (p->n_raw) return take_raw(p, info, bytes, to, err);
    void *at = room_for(p->m, bytes, err);
    if (!at) return err ? err->code : TD_NOMEM;
    to->data = at;
    return td_infer_fill(info, t.contents, at, bytes, err);
}

static td_status_t take_output(td_infer_msg_t *m, td_span_t msg, td_err_t *err) {
    td_span_t name = {0};
    uint32_t n = m->info->n_outputs, i = 0;
    if (!td_wire_scan(msg, 1, &name)) return td_infer_broken(err);
    while (i < n && !td_infer_is(name, m->info->outputs[i].name)) i++;
    if (i == n) return td_fail(err, TD_MISMATCH, "the model has no output '%.*s'", TD_INFER_TEXT(name));
    for (uint32_t k = 0; k < m->n_outputs; k++)
        if (m->outputs[k] == i)
            return td_fail(err, TD_MISMATCH, "output '%.*s' is asked for twice", TD_INFER_TEXT(name));
    m->outputs[m->n_outputs++] = i;
    return TD_OK;
}

static td_status_t prepare(td_infer_msg_t *m, td_err_t *err) {
    const td_model_info_t *x = m->info;
    size_t n = (size_t)x->n_inputs + x->n_states, ranks = 0;
    for (uint32_t i = 0; i < x->n_inputs; i++) ranks += x->inputs[i].rank;
    for (uint32_t i = 0; i < x->n_states; i++) ranks += x->states[i].rank;
    m->inputs = calloc(n + 1, sizeof *m->inputs);
    m->states = m->inputs ? m->inputs + x->n_inputs : NULL;
    m->dims = calloc(ranks + 1, sizeof *m->dims);
    m->owned = calloc(n + 1, sizeof *m->owned);
    m->outputs = calloc(x->n_outputs + 1u, sizeof *m->outputs);
    return m->inputs && m->dims && m->owned && m->outputs ? TD_OK : td_fail(err, TD_NOMEM, "out of memory");
}

static td_status_t check_all(const pass_t *p, td_err_t *err) {
    const td_model_info_t *x = p->m->info;
    for (uint32_t i = 0; i < x->n_inputs; i++)
        if (!p->m->inputs[i].data)
            return td_fail(err, TD_MISMATCH, "expected %u inputs, got %u: '%s' is missing", x->n_inputs, p->n_given,
                           x->inputs[i].name);
    return TD_OK;
}

td_status_t td_infer_decode(const td_model_info_t *info, const td_infer_head_t *head, td_span_t body,
                            td_memory_t *memory, td_infer_msg_t *out, td_err_t *err) {
    pass_t p = {.m = out, .start = head && head->sequence_start, .raws = body};
    td_wire_field_t f;
    *out = (td_infer_msg_t){.info = info, .memory = memory};
    for (td_span_t in = body; in.size;) {
        if (!td_wire_next(&in, &f)) return td_infer_broken(err);
        if (f.type != TD_WIRE_LEN) continue;
        if (f.number == 3) out->id = f.bytes;
        if (f.number == 5) p.n_given++;
        if (f.number == 7) p.n_raw++;
    }
    td_status_t s = prepare(out, err);
    if (s == TD_OK && p.n_raw && p.n_raw != p.n_given)
        s = td_fail(err, TD_MISMATCH, "expected %u raw_input_contents, one per input, got %u", p.n_given, p.n_raw);
    for (td_span_t in = body; s == TD_OK && in.size && td_wire_next(&in, &f);) {
        if (f.type == TD_WIRE_LEN && f.number == 5) s = take_input(&p, f.bytes, err);
        if (f.type == TD_WIRE_LEN && f.number == 6) s = take_output(out, f.bytes, err);
    }
    if (s == TD_OK) s = check_all(&p, err);
    if (s == TD_OK && !out->n_outputs)
        while (out->n_outputs < info->n_outputs) out->outputs[out->n_outputs] = out->n_outputs, out->n_outputs++;
    return s;
}

/* ---- the answer ---- */
uint64_t td_infer_output_bytes(const td_infer_msg_t *m, const td_run_slot_t *slot) {
    uint64_t n = 0;
    for (uint32_t k = 0; k < m->n_outputs; k++) {
        uint64_t bytes = m->info->outputs[m->outputs[k]].bytes;
        if (slot) td_run_slot_output(slot, m->outputs[k], &bytes);
        if (!td_add_u64(n, bytes, &n)) return UINT64_MAX;
    }
    return n;
}

uint64_t td_infer_other_bytes(const td_infer_msg_t *m) {
    uint64_t n = 64 + strlen(m->info->name) + strlen(m->info->version) + m->id.size;
    for (uint32_t k = 0; k < m->n_outputs; k++) {
        const td_tensor_info_t *t = &m->info->outputs[m->outputs[k]];
        n += 64 + strlen(t->name) + strlen(t->datatype) + 10ull * t->rank;
    }
    return n;
}

void td_infer_encode(const td_infer_msg_t *m, const td_run_slot_t *slot, td_pb_t *out) {
    td_pb_string(out, 1, m->info->name);
    td_pb_string(out, 2, m->info->version);
    if (m->id.size) td_pb_bytes(out, 3, m->id.data, m->id.size);
    uint64_t bytes = 0;
    for (uint32_t k = 0; k < m->n_outputs; k++) {
        const td_tensor_info_t *t = &m->info->outputs[m->outputs[k]];
        td_run_tensor_t o = td_run_slot_output(slot, m->outputs[k], &bytes);
        td_pb_t x = {0};
        td_pb_string(&x, 1, t->name);
        td_pb_string(&x, 2, t->datatype);
        td_pb_packed_i64(&x, 3, o.dims ? o.dims : t->dims, t->rank);
        td_pb_message(out, 5, &x);
    }
    for (uint32_t k = 0; k < m->n_outputs; k++) {
        td_run_tensor_t o = td_run_slot_output(slot, m->outputs[k], &bytes);
        td_pb_bytes(out, 6, o.data, bytes);
    }
}

void td_infer_msg_free(td_infer_msg_t *m) {
    for (uint32_t i = 0; i < m->n_owned; i++) free(m->owned[i]);
    if (m->charged) td_charge_give(td_memory_charge(m->memory), m->charged);
    free(m->inputs);
    free(m->dims);
    free(m->owned);
    free(m->outputs);
    *m = (td_infer_msg_t){0};
}
