/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by server.c (connections) and call.c (streams). */
#ifndef TD_DAEMON_SERVER_INTERNAL_H
#define TD_DAEMON_SERVER_INTERNAL_H

#include <nghttp2/nghttp2.h>

#include "daemon/server.h"

#define TD_SERVER_PATH_MAX 128
#define TD_SERVER_BATCH (1u << 20) /* bytes of one write */
/* Room for one HTTP/2 frame that we send: 16 KiB of data, its head, padding. */
#define TD_SERVER_FRAME ((16u << 10) + 512)
/* Every connection's own, charged to nobody: so that what is there can be sent when the budget is full. */
#define TD_SERVER_OUT (32u << 10)

typedef struct td_conn td_conn_t;
struct td_conn {
    uv_pipe_t pipe;
    td_server_t *server;
    td_conn_t *prev, *next;
    td_call_t *calls;
    nghttp2_session *session; /* NULL until the first bytes have told the protocol, and with HTTP/1.1 */
    td_http_t *http;          /* NULL unless it is HTTP/1.1 */
    uint8_t first[3];         /* bytes that have not told yet */
    uint32_t n_first;
    bool admin; /* its calls may change things */
    uv_write_t write;
    td_pb_t out; /* what the write in flight sends; beyond TD_SERVER_OUT it is charged */
    bool writing, in_callback, closing;
    bool lingering; /* all is said; what still comes is thrown away until the other side closes */
    bool last; /* HTTP/1.1: close after the write */
};

struct td_call {
    td_conn_t *conn;
    td_call_t *prev, *next;
    int32_t stream;
    char path[TD_SERVER_PATH_MAX];
    bool post, grpc, path_cut, bad_timeout, answered;
    uint64_t timeout_ns;
    td_pb_t body, message;
    size_t announced; /* bytes of the body, with its prefix; 0: not known yet */
    size_t counted;   /* in server.unfinished_bytes */
    size_t read, sent; /* of message: put into frames, put into the batch */
    td_grpc_code_t code;
    void (*gone)(void *user);
    void *user;
};

struct td_server {
    td_server_opts_t opts;
    uv_pipe_t listener;
    td_conn_t *conns;
    uint32_t n_conns;
    uint64_t unfinished_bytes; /* announced by requests that have not come whole */
    uv_timer_t linger;
    bool draining, told, has_linger;
};

/* call.c: the session's callbacks. NULL when memory is gone. */
nghttp2_session *td_call_session(td_conn_t *c);
void td_call_gone(td_call_t *c);
void td_call_free(td_call_t *c);
/* server.c: sends what the session has. May close the connection. */
void td_conn_flush(td_conn_t *c);

#endif
