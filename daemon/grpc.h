/* SPDX-License-Identifier: Apache-2.0 */
/* gRPC over HTTP/2, the part without a connection. Pure functions; thread: any. */
#ifndef TD_DAEMON_GRPC_H
#define TD_DAEMON_GRPC_H

#include "base/span.h"
#include "base/status.h"

typedef enum td_grpc_code {
    TD_GRPC_OK = 0, TD_GRPC_CANCELLED = 1, TD_GRPC_INVALID_ARGUMENT = 3, TD_GRPC_DEADLINE_EXCEEDED = 4,
    TD_GRPC_NOT_FOUND = 5, TD_GRPC_PERMISSION_DENIED = 7, TD_GRPC_RESOURCE_EXHAUSTED = 8,
    TD_GRPC_FAILED_PRECONDITION = 9, TD_GRPC_UNIMPLEMENTED = 12, TD_GRPC_INTERNAL = 13, TD_GRPC_UNAVAILABLE = 14
} td_grpc_code_t;

#define TD_GRPC_PREFIX 5

td_grpc_code_t td_grpc_code(td_status_t s);
/* A unary body holds exactly one uncompressed message. TD_UNSUPPORTED: compressed. */
td_status_t td_grpc_unframe(td_span_t body, td_span_t *out_message, td_err_t *err);
void td_grpc_prefix(uint8_t out[TD_GRPC_PREFIX], uint32_t message_size);
/* "100m" -> nanoseconds, saturating at UINT64_MAX. False if the text is no timeout. */
bool td_grpc_timeout(const char *text, size_t size, uint64_t *out_ns);
/* Percent-encodes a status message; cuts it where `room` (with the NUL) ends, never inside an escape. */
size_t td_grpc_encode(const char *text, char *out, size_t room);

#endif
