/* SPDX-License-Identifier: Apache-2.0 */
/* Messages back to wire bytes: protobuf-c packs what it holds (unknown fields included),
 * then every payload index that excise put in is replaced by the bytes it stands for,
 * referred to and not copied where the wire form allows (all but packed varints). */
#ifndef TD_PROTO_PACK_H
#define TD_PROTO_PACK_H

#include <protobuf-c/protobuf-c.h>

#include "proto/payload.h"
#include "proto/rope.h"

/* Appends the message's wire bytes to out, fields in the order of their numbers, unknown ones last.
 * Payloads must outlive out. TD_MALFORMED for an index without a payload. */
td_status_t td_pack(const ProtobufCMessage *m, const td_payload_t *const *payloads, uint32_t n_payloads, td_rope_t *out,
                    td_err_t *err);

#endif
