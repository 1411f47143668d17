/* SPDX-License-Identifier: Apache-2.0 */
/* The walk over unpacked messages, by their descriptors. */
#include <string.h>

#include "contract/scan_in.h"
#include "executable.pb-c.h"
#include "proto/excise.h"
#include "proto/wire.h"

/* What the ledger says about a message type of our schema. */
struct td_scan_info {
    const ProtobufCMessageDescriptor *desc;
    const td_ledger_type_t *type; /* NULL: the ledger lacks it */
    td_scan_info_t *next;
    struct {
        const td_ledger_item_t *item; /* NULL: the ledger lacks it, or a payload field of ours */
        td_scan_info_t *sub; /* of a message field, once it was met */
        const ProtobufCFieldDescriptor *payload; /* where its large values are */
    } field[];
};

static td_scan_info_t *info_of(td_scan_walk_t *w, const ProtobufCMessageDescriptor *d) {
    for (td_scan_info_t *i = w->infos; i; i = i->next)
        if (i->desc == d) return i;
    td_scan_info_t *i = td_arena_zalloc(&w->scan->arena, sizeof *i + d->n_fields * sizeof i->field[0]);
    if (!i) return NULL;
    i->desc = d;
    i->type = td_ledger_type(d->name);
    i->next = w->infos;
    for (unsigned k = 0; k < d->n_fields; k++) {
        if (d->fields[k].id >= TD_PAYLOAD_FIELD_BASE) continue;
        i->field[k].item = i->type ? td_ledger_find(i->type, d->fields[k].id) : NULL;
        i->field[k].payload = protobuf_c_message_descriptor_get_field(d, TD_PAYLOAD_FIELD_BASE + d->fields[k].id);
    }
    return w->infos = i;
}

static const void *member(const ProtobufCMessage *m, unsigned offset) { return (const char *)m + offset; }

/* How often the field occurs. */
static size_t occurrences(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f) {
    const void *q = member(m, f->quantifier_offset), *v = member(m, f->offset);
    if (f->label == PROTOBUF_C_LABEL_REPEATED) return *(const size_t *)q;
    if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) return *(const uint32_t *)q == f->id;
    if (f->type == PROTOBUF_C_TYPE_MESSAGE || f->type == PROTOBUF_C_TYPE_STRING) {
        const void *p = *(const void *const *)v;
        return p && p != f->default_value;
    }
    return *(const protobuf_c_boolean *)q != 0;
}

/* The k-th value: of a message the message, of a string its text, of others the address of the value. */
static const void *value_at(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f, size_t k) {
    static const uint8_t sizes[] = {[PROTOBUF_C_TYPE_INT32] = 4,
                                    [PROTOBUF_C_TYPE_SINT32] = 4,
                                    [PROTOBUF_C_TYPE_SFIXED32] = 4,
                                    [PROTOBUF_C_TYPE_INT64] = 8,
                                    [PROTOBUF_C_TYPE_SINT64] = 8,
                                    [PROTOBUF_C_TYPE_SFIXED64] = 8,
                                    [PROTOBUF_C_TYPE_UINT32] = 4,
                                    [PROTOBUF_C_TYPE_FIXED32] = 4,
                                    [PROTOBUF_C_TYPE_UINT64] = 8,
                                    [PROTOBUF_C_TYPE_FIXED64] = 8,
                                    [PROTOBUF_C_TYPE_FLOAT] = 4,
                                    [PROTOBUF_C_TYPE_DOUBLE] = 8,
                                    [PROTOBUF_C_TYPE_BOOL] = sizeof(protobuf_c_boolean),
                                    [PROTOBUF_C_TYPE_ENUM] = 4,
                                    [PROTOBUF_C_TYPE_STRING] = sizeof(char *),
                                    [PROTOBUF_C_TYPE_BYTES] = sizeof(ProtobufCBinaryData),
                                    [PROTOBUF_C_TYPE_MESSAGE] = sizeof(void *)};
    const char *at = member(m, f->offset);
    if (f->label == PROTOBUF_C_LABEL_REPEATED) at = *(const char *const *)(const void *)at + k * sizes[f->type];
    bool pointer = f->type == PROTOBUF_C_TYPE_MESSAGE || f->type == PROTOBUF_C_TYPE_STRING;
    return pointer ? *(const void *const *)(const void *)at : at;
}

static uint64_t number_of(const ProtobufCFieldDescriptor *f, const void *v) {
    switch (f->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_ENUM: return (uint64_t)(int64_t)(*(const int32_t *)v);
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT: return *(const uint32_t *)v;
    case PROTOBUF_C_TYPE_BOOL: return *(const protobuf_c_boolean *)v != 0;
    default: return *(const uint64_t *)v;
    }
}

static bool has_fields(const ProtobufCMessage *m) {
    for (unsigned i = 0; i < m->descriptor->n_fields; i++)
        if (occurrences(m, &m->descriptor->fields[i])) return true;
    return m->n_unknown_fields != 0;
}

static bool is_empty(const ProtobufCFieldDescriptor *f, const void *v) {
    switch (f->type) {
    case PROTOBUF_C_TYPE_MESSAGE: return !has_fields(v);
    case PROTOBUF_C_TYPE_STRING: return !*(const char *)v;
    case PROTOBUF_C_TYPE_BYTES: return !((const ProtobufCBinaryData *)v)->len;
    default: return !number_of(f, v);
    }
}

static bool ignored(td_scan_walk_t *w, const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f, const void *v,
                    const td_ledger_item_t *it) {
    const td_ignorable_t *rule = w->rules[td_ledger_index(it)];
    if (!rule) return false;
    if (rule->when == TD_IGNORE_EMPTY) return v && is_empty(f, v);
    return td_ignorable_here(rule->when, m, w->computation, &w->look_ups);
}

static td_status_t message(td_scan_walk_t *w, const ProtobufCMessage *m, td_scan_info_t *info, bool needed);

/* What stands in a bytes field: nothing that we look into, or a message that the schema keeps as it is. */
static td_status_t bytes(td_scan_walk_t *w, const td_ledger_item_t *it, td_span_t b, bool needed) {
    td_scan_watch_bytes(w, it, b.data, b.size);
    bool is_message = it->type >= 0 && !td_ledger_types[it->type].is_enum;
    return is_message ? td_scan_wire(w, &td_ledger_types[it->type], b, needed) : TD_OK;
}

static td_status_t inside(td_scan_walk_t *w, td_scan_info_t *info, unsigned k, const void *v, bool needed) {
    const ProtobufCFieldDescriptor *f = &info->desc->fields[k];
    const td_ledger_item_t *it = info->field[k].item;
    if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
        td_scan_info_t **sub = &info->field[k].sub;
        if (!*sub && !(*sub = info_of(w, f->descriptor))) return td_arena_fail(&w->scan->arena, w->err);
        return message(w, v, *sub, needed);
    }
    if (!it) return TD_OK;
    if (f->type == PROTOBUF_C_TYPE_BYTES) {
        const ProtobufCBinaryData *b = v;
        return bytes(w, it, (td_span_t){b->data, b->len}, needed);
    }
    if (f->type == PROTOBUF_C_TYPE_STRING) {
        td_scan_watch_bytes(w, it, v, strlen(v));
        return TD_OK;
    }
    td_scan_watch_number(w, it, number_of(f, v));
    bool is_enum = it->type >= 0 && td_ledger_types[it->type].is_enum;
    return is_enum ? td_scan_value(w, &td_ledger_types[it->type], (int64_t)number_of(f, v), needed) : TD_OK;
}

/* The values of a repeated scalar that is no enum need no look. */
static bool plain(const ProtobufCFieldDescriptor *f, const td_ledger_item_t *it) {
    if (f->type == PROTOBUF_C_TYPE_MESSAGE) return false;
    return !it || (it->type < 0 && f->label == PROTOBUF_C_LABEL_REPEATED);
}

static td_status_t one(td_scan_walk_t *w, const ProtobufCMessage *m, td_scan_info_t *info, unsigned k, size_t i,
                       bool needed) {
    const ProtobufCFieldDescriptor *f = &info->desc->fields[k];
    const td_ledger_item_t *it = info->field[k].item;
    const void *v = value_at(m, f, i);
    needed = needed && !(it && ignored(w, m, f, v, it));
    int64_t index = f->label == PROTOBUF_C_LABEL_REPEATED ? (int64_t)i : -1;
    if (!td_scan_down(w, f->name, f->id, index)) return TD_LIMIT;
    td_status_t s = it ? td_scan_mark(w, it, NULL, -1, needed) : TD_OK;
    if (s == TD_OK) s = inside(w, info, k, v, needed);
    w->n_steps--;
    return s;
}

/* A value that the excise pass moved out of the message. */
static td_status_t moved(td_scan_walk_t *w, const ProtobufCMessage *m, td_scan_info_t *info, unsigned k, bool needed) {
    const ProtobufCFieldDescriptor *p = info->field[k].payload;
    const td_ledger_item_t *it = info->field[k].item;
    if (!p || !it || !occurrences(m, p)) return TD_OK;
    const ProtobufCFieldDescriptor *f = &info->desc->fields[k];
    bool repeated = p->label == PROTOBUF_C_LABEL_REPEATED;
    td_status_t s = TD_OK;
    for (size_t i = 0, n = occurrences(m, p); s == TD_OK && i < n; i++) {
        uint64_t id = number_of(p, value_at(m, p, i));
        bool here = needed && !ignored(w, m, f, NULL, it);
        if (id >= w->artifact->n_payloads) continue;
        if (!td_scan_down(w, f->name, f->id, repeated ? (int64_t)i : -1)) return TD_LIMIT;
        s = td_scan_mark(w, it, NULL, -1, here);
        if (s == TD_OK && f->type == PROTOBUF_C_TYPE_BYTES) s = bytes(w, it, w->artifact->payloads[id]->bytes, here);
        w->n_steps--;
    }
    return s;
}

static td_status_t unknown_fields(td_scan_walk_t *w, const ProtobufCMessage *m, const td_scan_info_t *info,
                                  bool needed) {
    td_status_t s = TD_OK;
    for (unsigned i = 0; s == TD_OK && i < m->n_unknown_fields; i++) {
        const ProtobufCMessageUnknownField *u = &m->unknown_fields[i];
        td_span_t v = {u->data, u->len};
        uint64_t n = 0;
        uint8_t type = u->wire_type == PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED ? TD_WIRE_LEN : TD_WIRE_VARINT;
        bool varint = u->wire_type == PROTOBUF_C_WIRE_TYPE_VARINT || type == TD_WIRE_LEN;
        if (varint && !td_wire_varint(&v, &n)) continue;
        s = td_scan_wire_field(w, info->type, info->desc->name, u->tag, type, v, n, needed);
    }
    return s;
}

static td_status_t add_handler(td_scan_walk_t *w, const char *target) {
    td_scan_t *s = w->scan;
    if (!target) return TD_OK;
    for (uint32_t i = 0; i < s->n_handlers; i++)
        if (!strcmp(s->handlers[i], target)) return TD_OK;
    if (s->n_handlers == w->cap_handlers) {
        uint32_t cap = w->cap_handlers ? 2 * w->cap_handlers : 8;
        const char **h = TD_NEW_N(&s->arena, const char *, cap);
        if (!h) return td_arena_fail(&s->arena, w->err);
        if (s->n_handlers) memcpy(h, s->handlers, s->n_handlers * sizeof *h);
        s->handlers = h;
        w->cap_handlers = cap;
    }
    s->handlers[s->n_handlers++] = target;
    return TD_OK;
}

/* A thunk without a kind that we know holds one in a field that we do not know. */
static void name_thunk_kind(td_scan_walk_t *w, const ProtobufCMessage *m) {
    const Xla__Gpu__ThunkProto *t = (const Xla__Gpu__ThunkProto *)m;
    if (t->impl_case != XLA__GPU__THUNK_PROTO__IMPL__NOT_SET) return;
    for (unsigned k = 0; k < m->n_unknown_fields; k++)
        for (uint32_t i = 0; i < w->scan->n_unknown; i++) {
            td_scan_unknown_t *u = &w->scan->unknown[i];
            if (!u->is_value && u->number == m->unknown_fields[k].tag && !strcmp(u->type_name, m->descriptor->name))
                u->is_thunk_kind = true;
        }
}

static td_status_t message(td_scan_walk_t *w, const ProtobufCMessage *m, td_scan_info_t *info, bool needed) {
    const ProtobufCMessage *outer = w->computation;
    td_status_t s = TD_OK;
    if (info->desc == &xla__hlo_computation_proto__descriptor) w->computation = m;
    if (info->desc == &xla__gpu__custom_call_thunk_proto__descriptor)
        s = add_handler(w, ((const Xla__Gpu__CustomCallThunkProto *)m)->target_name);
    for (unsigned k = 0; s == TD_OK && k < info->desc->n_fields; k++) {
        const ProtobufCFieldDescriptor *f = &info->desc->fields[k];
        if (f->id >= TD_PAYLOAD_FIELD_BASE) continue;
        size_t n = occurrences(m, f);
        if (plain(f, info->field[k].item)) {
            if (!n || !info->field[k].item) {
                s = moved(w, m, info, k, needed);
                continue;
            }
            s = td_scan_mark(w, info->field[k].item, f->name, -1,
                             needed && !ignored(w, m, f, NULL, info->field[k].item));
            continue;
        }
        for (size_t i = 0; s == TD_OK && i < n; i++) s = one(w, m, info, k, i, needed);
        if (s == TD_OK) s = moved(w, m, info, k, needed);
    }
    if (s == TD_OK && m->n_unknown_fields) s = unknown_fields(w, m, info, needed);
    if (info->desc == &xla__gpu__thunk_proto__descriptor && m->n_unknown_fields) name_thunk_kind(w, m);
    w->computation = outer;
    return s;
}

static td_status_t root(td_scan_walk_t *w, const ProtobufCMessage *m, const char *owner, const char *field) {
    const td_ledger_item_t *it = field ? td_ledger_path(owner) : NULL;
    bool needed = !(it && w->rules[td_ledger_index(it)]);
    td_scan_info_t *info = info_of(w, m->descriptor);
    if (!info) return td_arena_fail(&w->scan->arena, w->err);
    if (field && !td_scan_down(w, field, 0, -1)) return TD_LIMIT;
    td_status_t s = it ? td_scan_mark(w, it, NULL, -1, needed) : TD_OK;
    if (s == TD_OK) s = message(w, m, info, needed);
    w->n_steps = 0;
    return s;
}

static td_status_t prepare(td_scan_walk_t *w, uint32_t n_watch) {
    td_arena_t *arena = &w->scan->arena;
    w->scan->found = TD_NEW_N(arena, td_found_t, td_ledger_item_count);
    w->rules = TD_NEW_N(arena, const td_ignorable_t *, td_ledger_item_count);
    w->watched = TD_NEW_N(arena, uint8_t, td_ledger_item_count);
    if (!w->scan->found || !w->rules || !w->watched) return td_arena_fail(arena, w->err);
    for (uint32_t i = 0; i < td_ignorable_count; i++) {
        const td_ledger_item_t *it = td_ledger_path(td_ignorables[i].field);
        if (it) w->rules[td_ledger_index(it)] = &td_ignorables[i];
    }
    for (uint32_t i = 0; i < n_watch && i < UINT8_MAX; i++) {
        const td_ledger_item_t *it = td_ledger_path(w->watch[i].field);
        if (it) w->watched[td_ledger_index(it)] = (uint8_t)(i + 1);
    }
    return TD_OK;
}

td_status_t td_scan_artifact(const td_artifact_t *a, td_scan_watch_t *watch, uint32_t n_watch, const td_alloc_t *alloc,
                             td_scan_t *out, td_err_t *err) {
    td_scan_t scan = {0};
    td_arena_init(&scan.arena, alloc, 0);
    td_scan_walk_t w = {.scan = &scan, .artifact = a, .watch = watch, .look_ups = 1u << 26, .err = err};
    td_status_t s = prepare(&w, n_watch);
    if (s == TD_OK) s = root(&w, &a->exe->base, NULL, NULL);
    if (s == TD_OK && a->options)
        s = root(&w, &a->options->base, "xla.ExecutableAndOptionsProto.compile_options", "compile_options");
    if (s == TD_OK) *out = scan;
    else td_arena_deinit(&scan.arena);
    return s;
}

void td_scan_deinit(td_scan_t *s) {
    if (s->arena.alloc) td_arena_deinit(&s->arena);
    *s = (td_scan_t){0};
}

const td_found_t *td_scan_found(const td_scan_t *s, const char *full_name) {
    static const td_found_t absent = {0};
    const td_ledger_item_t *it = td_ledger_path(full_name);
    return it ? &s->found[td_ledger_index(it)] : &absent;
}
