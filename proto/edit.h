/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacked messages changed in place, by descriptor. Memory of what is dropped stays in the arena. Thread: one. */
#ifndef TD_PROTO_EDIT_H
#define TD_PROTO_EDIT_H

#include <protobuf-c/protobuf-c.h>

#include "base/status.h"

/* Calls fn for m and every message below it, parents first. Not TD_OK from fn ends the walk. */
typedef td_status_t (*td_edit_fn)(void *ctx, ProtobufCMessage *m, td_err_t *err);
td_status_t td_edit_each(ProtobufCMessage *m, td_edit_fn fn, void *ctx, td_err_t *err);

/* Is the field there? Elements of a repeated one; its payload counts, too. */
size_t td_edit_count(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f);
/* Takes the field and its payload off. Returns how many there were. */
size_t td_edit_clear(ProtobufCMessage *m, const ProtobufCFieldDescriptor *f);

#endif
