/* SPDX-License-Identifier: Apache-2.0 */
/* Operations, and their capture into graphs. An operation is a flat struct that says how to push its work on a
 * stream; a capturing stream keeps a copy of it instead. A graph is the list of what was captured: operations,
 * records and waits, each of one of the streams (lanes) that took part. Launching goes through the list again: lane 0
 * on the stream of the launch, the others on streams of the executable graph's own, so that a dependency which the
 * capture lacks shows as it would without a graph. The lock is held. */
#ifndef FAKECUDA_CAPTURE_H
#define FAKECUDA_CAPTURE_H

#include "tests/fakecuda/stream.h"

typedef struct fk_op fk_op_t;
struct fk_op { /* first member of each */
    CUresult (*push)(const fk_op_t *op, fk_stream_t *s);
    size_t bytes;   /* of the whole struct, which may be copied */
    uint64_t shape; /* what an update of an executable graph may not change: kind of operation, function */
    bool replayed;
};

/* Pushes the operation on the stream, or captures it. */
CUresult fk_issue(fk_stream_t *s, const fk_op_t *op);
/* Captures a record of the stream; its number. */
CUresult fk_capture_record(fk_stream_t *s, uint32_t *number);
/* Captures a wait for record `number` of that capture (NULL: the event was recorded outside one), which the stream
 * joins if it was not part of it. */
CUresult fk_capture_wait(fk_stream_t *s, struct fk_capture *c, uint32_t number);
/* For calls that no capture allows: fails if the stream captures, which then comes to nothing; */
CUresult fk_capture_forbids(fk_stream_t *s);
/* and for calls that change memory: if this thread captures in any mode but the relaxed one, or another one in the
 * global mode. */
CUresult fk_capture_unsafe(void);
/* A call of this thread was made to fail: its captures come to nothing. */
void fk_capture_spoil(void);

#endif
