/* SPDX-License-Identifier: Apache-2.0 */
/* One blocking unary gRPC call over a Unix socket. Thread: one. */
#ifndef TD_CTL_GRPC_CLIENT_H
#define TD_CTL_GRPC_CLIENT_H

#include "ctl/pb.h"

typedef enum grpc_code {
    GRPC_OK = 0, GRPC_NOT_FOUND = 5, GRPC_UNIMPLEMENTED = 12, GRPC_UNAVAILABLE = 14
} grpc_code_t;

typedef struct grpc_reply {
    int code;          /* grpc-status */
    char message[400]; /* grpc-message, decoded */
    td_pb_t body;     /* framed as it came; the message is grpc_reply_message */
} grpc_reply_t;

/* A socket connected to the daemon; blocking. TD_IO: no daemon there. "unix:" in front of the path is fine. */
td_status_t grpc_connect(const char *path, int *out_fd, td_err_t *err);
const char *grpc_code_name(int code); /* "NOT_FOUND" */
/* Fails on connection errors and broken protocol; an RPC that answers with an error status is TD_OK here.
 * timeout_ms bounds the whole call (also sent as grpc-timeout). Free with grpc_reply_free in either case. */
td_status_t grpc_call(const char *socket_path, const char *rpc_path, td_span_t message, int timeout_ms,
                      grpc_reply_t *reply, td_err_t *err);
/* The one message of a reply with code 0. */
td_status_t grpc_reply_message(const grpc_reply_t *reply, td_span_t *out, td_err_t *err);
void grpc_reply_free(grpc_reply_t *reply);

#endif
