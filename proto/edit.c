/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/edit.h"

#include "proto/excise.h"

static void *member(ProtobufCMessage *m, unsigned offset) {
    return (char *)m + offset;
}
static const void *member_of(const ProtobufCMessage *m, unsigned offset) {
    return (const char *)m + offset;
}

static size_t own_count(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f) {
    const void *quantifier = member_of(m, f->quantifier_offset);
    if (f->label == PROTOBUF_C_LABEL_REPEATED) return *(const size_t *)quantifier;
    if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) return *(const uint32_t *)quantifier == f->id;
    if (f->type == PROTOBUF_C_TYPE_MESSAGE || f->type == PROTOBUF_C_TYPE_STRING) {
        const void *p = *(const void *const *)member_of(m, f->offset);
        return p && p != f->default_value;
    }
    return *(const protobuf_c_boolean *)quantifier != 0;
}

static const ProtobufCFieldDescriptor *payload_of(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f) {
    if (f->id >= TD_PAYLOAD_FIELD_BASE) return NULL;
    return protobuf_c_message_descriptor_get_field(m->descriptor, TD_PAYLOAD_FIELD_BASE + f->id);
}

size_t td_edit_count(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f) {
    const ProtobufCFieldDescriptor *p = payload_of(m, f);
    return own_count(m, f) + (p ? own_count(m, p) : 0);
}

size_t td_edit_clear(ProtobufCMessage *m, const ProtobufCFieldDescriptor *f) {
    size_t n = own_count(m, f);
    const ProtobufCFieldDescriptor *p = payload_of(m, f);
    void *quantifier = member(m, f->quantifier_offset);
    if (!n) return p ? td_edit_clear(m, p) : 0;
    if (f->label == PROTOBUF_C_LABEL_REPEATED) *(size_t *)quantifier = 0;
    else if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) *(uint32_t *)quantifier = 0;
    else if (f->type == PROTOBUF_C_TYPE_MESSAGE || f->type == PROTOBUF_C_TYPE_STRING)
        *(const void **)member(m, f->offset) = f->default_value;
    else *(protobuf_c_boolean *)quantifier = 0;
    return n + (p ? td_edit_clear(m, p) : 0);
}

td_status_t td_edit_each(ProtobufCMessage *m, td_edit_fn fn, void *ctx, td_err_t *err) {
    td_status_t s = fn(ctx, m, err);
    for (unsigned i = 0; s == TD_OK && i < m->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
        if (f->type != PROTOBUF_C_TYPE_MESSAGE) continue;
        size_t n = own_count(m, f);
        void *at = member(m, f->offset);
        bool repeated = f->label == PROTOBUF_C_LABEL_REPEATED;
        for (size_t k = 0; s == TD_OK && k < n; k++) {
            ProtobufCMessage *sub = repeated ? (*(ProtobufCMessage ***)at)[k] : *(ProtobufCMessage **)at;
            if (sub) s = td_edit_each(sub, fn, ctx, err);
        }
    }
    return s;
}
