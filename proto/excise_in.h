/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the excise pass: what the walk in memory and the walk over a stream share. */
#ifndef TD_PROTO_EXCISE_IN_H
#define TD_PROTO_EXCISE_IN_H

#include "proto/excise.h"
#include "proto/wire.h"

typedef struct td_seen {
    const ProtobufCMessageDescriptor *desc;
    uint64_t *inline_seen, *moved_seen;
} td_seen_t;

/* Looks at a field's number and wire type. *out NULL: unknown, noted. */
td_status_t td_excise_known(td_excise_t *x, const td_seen_t *m, uint32_t number, uint8_t type,
                            const ProtobufCFieldDescriptor **out, td_err_t *err);
bool td_excise_is_movable(const td_seen_t *m, const ProtobufCFieldDescriptor *d);
/* May this field, of that many bytes if it is length-delimited, stand here? *out_move: into a payload. */
td_status_t td_excise_moves(const td_seen_t *m, const ProtobufCFieldDescriptor *d, uint8_t type, uint64_t size,
                            bool *out_move, td_err_t *err);
/* Moves n bytes of a stream into a payload and writes the field that names it. */
td_status_t td_excise_move(td_excise_t *x, const ProtobufCFieldDescriptor *d, td_feed_t *in, uint64_t n,
                           td_buffer_t *out, td_err_t *err);
td_status_t td_excise_enter(td_excise_t *x, const ProtobufCMessageDescriptor *desc, unsigned depth, td_err_t *err);
/* A field that lies whole in memory. */
td_status_t td_excise_field(td_excise_t *x, const td_seen_t *m, const td_wire_field_t *f, unsigned depth,
                            td_buffer_t *out, td_err_t *err);
/* Begin and end of a submessage whose length is not known before: *start for the end. */
td_status_t td_excise_open(const ProtobufCFieldDescriptor *d, td_buffer_t *out, size_t *start, td_err_t *err);
td_status_t td_excise_close(const ProtobufCFieldDescriptor *d, td_buffer_t *out, size_t start, td_err_t *err);

#endif
