/* SPDX-License-Identifier: Apache-2.0 */
/* Fields that a runtime may leave unread without loss: the answer stays the same, at most it comes later. What such
 * a field holds is not needed either. Facts: what each construct means to a reader that lacks it.
 * Constant data. Thread: any. */
#ifndef TD_CONTRACT_IGNORABLE_H
#define TD_CONTRACT_IGNORABLE_H

#include <protobuf-c/protobuf-c.h>

#include "contract/ledger.h"

typedef enum td_ignore_when {
    TD_IGNORE_ALWAYS,
    TD_IGNORE_EMPTY,  /* zero, false, "", or a message without fields */
    TD_IGNORE_LINEAR, /* a slice's offsets, when the former fields beside them say the same */
    TD_IGNORE_ORDER,  /* a comparison's order, when it is the default of the operands, or the former field is there */
} td_ignore_when_t;

typedef struct td_ignorable {
    const char *field; /* full name */
    td_ignore_when_t when;
    const char *why;
} td_ignorable_t;

extern const td_ignorable_t td_ignorables[];
extern const uint32_t td_ignorable_count;

/* LINEAR: parent is the slice config. ORDER: parent is the instruction, scope its computation or NULL; looking for
 * the operand takes from *steps, and without any left the answer is no. */
bool td_ignorable_here(td_ignore_when_t when, const ProtobufCMessage *parent, const ProtobufCMessage *scope,
                       uint64_t *steps);

#endif
