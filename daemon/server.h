/* SPDX-License-Identifier: Apache-2.0 */
/* gRPC calls over HTTP/2 on a Unix socket, and HTTP/1.1 beside them. Thread: the loop's. */
#ifndef TD_DAEMON_SERVER_H
#define TD_DAEMON_SERVER_H

#include <uv.h>

#include "daemon/grpc.h"
#include "daemon/http.h"
#include "daemon/memory.h"
#include "proto/pb.h"

typedef struct td_server td_server_t;
typedef struct td_call td_call_t; /* a request whose body is complete; answer it exactly once or drop it */

typedef struct td_server_opts {
    uv_loop_t *loop;
    int fd; /* bound; becomes the server's */
    bool admin; /* every peer may change things: the socket's mode decides who that is */
    td_memory_t *memory; /* what bodies, answers and batches are charged to */
    uint64_t max_message_bytes;
    uint32_t max_concurrent_streams;
    /* A request is complete. May answer at once or keep the call. */
    void (*on_call)(void *ctx, td_call_t *call);
    /* Answers HTTP/1.1. NULL: HTTP/2 only. */
    td_http_fn *on_http;
    /* After td_server_drain: the last connection has closed. */
    void (*on_drained)(void *ctx);
    void *ctx;
} td_server_opts_t;

td_status_t td_server_create(const td_server_opts_t *opts, td_server_t **out, td_err_t *err);
/* Stops accepting, sends GOAWAY, lets open calls finish. */
void td_server_drain(td_server_t *s);
/* Closes every connection; their calls are gone. */
void td_server_abort(td_server_t *s);
/* After the loop has ended. NULL is fine. */
void td_server_free(td_server_t *s);

const char *td_call_path(const td_call_t *c);
/* May the peer change things? Through the admin socket, or as root or as the daemon's own user. */
bool td_call_admin(const td_call_t *c);
/* An empty answer that is charged as the body is. */
td_pb_t td_call_answer(const td_call_t *c);
/* The body moves to the caller, who frees it. */
td_pb_t td_call_take_body(td_call_t *c);
/* Nanoseconds from the arrival of the headers; UINT64_MAX: none. */
uint64_t td_call_timeout(const td_call_t *c);
/* Called once if the client leaves before the answer; the call is then invalid. NULL: nobody is called. */
void td_call_on_gone(td_call_t *c, void (*gone)(void *user), void *user);
/* message begins with TD_GRPC_PREFIX bytes of room; it moves to the call. */
void td_call_reply(td_call_t *c, td_pb_t *message);
void td_call_fail(td_call_t *c, td_grpc_code_t code, const char *text);

#endif
