/* SPDX-License-Identifier: Apache-2.0 */
/* One HTTP/2 stream: a gRPC call. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/server_internal.h"

#define WINDOW (16 << 20)
/* Unfinished requests together may be as large as this many of the largest. */
#define UNFINISHED_MAX 4
#define NV(n, v) {(uint8_t *)(n), (uint8_t *)(v), sizeof(n) - 1, strlen(v), NGHTTP2_NV_FLAG_NONE}

const char *td_call_path(const td_call_t *c) {
    return c->path;
}

td_pb_t td_call_take_body(td_call_t *c) {
    td_pb_t b = c->body;
    c->body = (td_pb_t){0};
    return b;
}

uint64_t td_call_timeout(const td_call_t *c) {
    return c->timeout_ns;
}

bool td_call_admin(const td_call_t *c) {
    return c->conn->admin;
}

td_pb_t td_call_answer(const td_call_t *c) {
    return (td_pb_t){.charge = td_memory_charge(c->conn->server->opts.memory)};
}

void td_call_on_gone(td_call_t *c, void (*gone)(void *user), void *user) {
    c->gone = gone;
    c->user = user;
}

void td_call_gone(td_call_t *c) {
    void (*gone)(void *) = c->answered ? NULL : c->gone;
    c->answered = true;
    c->gone = NULL;
    if (gone) gone(c->user);
}

static void uncount(td_call_t *c) {
    c->conn->server->unfinished_bytes -= c->counted;
    c->counted = 0;
}

void td_call_free(td_call_t *c) {
    uncount(c);
    if (c->prev) c->prev->next = c->next;
    else c->conn->calls = c->next;
    if (c->next) c->next->prev = c->prev;
    td_pb_free(&c->body);
    td_pb_free(&c->message);
    free(c);
}

/* A session that cannot take the answer is broken: reset the stream. */
static void settle(td_call_t *c, int rv) {
    td_conn_t *conn = c->conn;
    if (rv) nghttp2_submit_rst_stream(conn->session, NGHTTP2_FLAG_NONE, c->stream, NGHTTP2_INTERNAL_ERROR);
    if (!conn->in_callback) td_conn_flush(conn);
}

static ssize_t read_message(nghttp2_session *s, int32_t stream, uint8_t *buf, size_t room, uint32_t *flags,
                            nghttp2_data_source *source, void *ctx) {
    td_call_t *c = source->ptr;
    (void)ctx, (void)buf;
    size_t n = c->message.size - c->read;
    if (n > room) n = room;
    c->read += n;
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (c->read < c->message.size) return (ssize_t)n;
    nghttp2_nv trailer[] = {NV("grpc-status", "0")};
    *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    if (nghttp2_submit_trailer(s, stream, trailer, 1)) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    return (ssize_t)n;
}

/* The frame that read_message has measured; straight into the batch. */
static int send_message(nghttp2_session *s, nghttp2_frame *f, const uint8_t *head, size_t n,
                        nghttp2_data_source *source, void *ctx) {
    td_call_t *c = source->ptr;
    td_conn_t *conn = ctx;
    (void)s;
    if (conn->out.size >= TD_SERVER_BATCH || !td_pb_try(&conn->out, TD_SERVER_FRAME)) return NGHTTP2_ERR_WOULDBLOCK;
    uint8_t pad = (uint8_t)(f->data.padlen ? f->data.padlen - 1 : 0);
    td_pb_raw(&conn->out, head, 9);
    if (f->data.padlen) td_pb_raw(&conn->out, &pad, 1);
    td_pb_raw(&conn->out, c->message.data + c->sent, n);
    for (; pad; pad--) td_pb_raw(&conn->out, "", 1);
    c->sent += n;
    return conn->out.failed ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

void td_call_reply(td_call_t *c, td_pb_t *message) {
    if (c->answered) {
        td_pb_free(message);
        return;
    }
    size_t n = message->size - TD_GRPC_PREFIX;
    if (message->failed || message->size < TD_GRPC_PREFIX) {
        td_err_t err = {0};
        if (message->refused) td_memory_refuse(c->conn->server->opts.memory, "the response", message->size, &err);
        else td_fail(&err, TD_NOMEM, "out of memory for the response");
        td_pb_free(message);
        td_call_fail(c, td_grpc_code(err.code), err.text);
        return;
    }
    if (n > c->conn->server->opts.max_message_bytes) {
        char text[128];
        snprintf(text, sizeof text, "the response is %zu bytes, over max_message_bytes %llu", n,
                 (unsigned long long)c->conn->server->opts.max_message_bytes);
        td_pb_free(message);
        td_call_fail(c, TD_GRPC_RESOURCE_EXHAUSTED, text);
        return;
    }
    td_grpc_prefix(message->data, (uint32_t)n);
    c->message = *message;
    *message = (td_pb_t){0};
    c->answered = true;
    nghttp2_nv head[] = {NV(":status", "200"), NV("content-type", "application/grpc"),
                         NV("grpc-accept-encoding", "identity")};
    nghttp2_data_provider body = {.source.ptr = c, .read_callback = read_message};
    settle(c, nghttp2_submit_response(c->conn->session, c->stream, head, 3, &body));
}

/* The whole answer is one header block; the rest of the request is not wanted. */
static void fail_http(td_call_t *c, const char *http, td_grpc_code_t code, const char *text) {
    if (c->answered) return;
    c->answered = true;
    char number[12], message[1024];
    snprintf(number, sizeof number, "%d", (int)code);
    td_grpc_encode(text, message, sizeof message);
    nghttp2_nv head[] = {NV(":status", http), NV("content-type", "application/grpc"),
                         NV("grpc-accept-encoding", "identity"), NV("grpc-status", number),
                         NV("grpc-message", message)};
    int rv = nghttp2_submit_response(c->conn->session, c->stream, head, 5, NULL);
    uncount(c);
    td_pb_free(&c->body);
    settle(c, rv);
}

void td_call_fail(td_call_t *c, td_grpc_code_t code, const char *text) {
    fail_http(c, "200", code, text);
}

static int on_begin(nghttp2_session *s, const nghttp2_frame *f, void *ctx) {
    td_conn_t *conn = ctx;
    if (f->hd.type != NGHTTP2_HEADERS || f->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
    td_call_t *c = calloc(1, sizeof *c);
    if (!c) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    c->conn = conn;
    c->stream = f->hd.stream_id;
    c->timeout_ns = UINT64_MAX;
    c->body.charge = td_memory_charge(conn->server->opts.memory);
    c->next = conn->calls;
    if (c->next) c->next->prev = c;
    conn->calls = c;
    nghttp2_session_set_stream_user_data(s, c->stream, c);
    return 0;
}

static bool is(const uint8_t *p, size_t n, const char *text) {
    return n == strlen(text) && !memcmp(p, text, n);
}

static int on_header(nghttp2_session *s, const nghttp2_frame *f, const uint8_t *name, size_t nn, const uint8_t *value,
                     size_t nv, uint8_t flags, void *ctx) {
    td_call_t *c = nghttp2_session_get_stream_user_data(s, f->hd.stream_id);
    (void)flags;
    (void)ctx;
    if (!c || f->hd.type != NGHTTP2_HEADERS || f->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
    if (is(name, nn, ":method")) {
        c->post = is(value, nv, "POST");
    } else if (is(name, nn, ":path")) {
        c->path_cut = nv >= sizeof c->path || memchr(value, 0, nv);
        size_t n = c->path_cut ? 0 : nv;
        if (n) memcpy(c->path, value, n);
        c->path[n] = 0;
    } else if (is(name, nn, "content-type")) {
        bool begins = nv >= 16 && !memcmp(value, "application/grpc", 16);
        c->grpc = begins && (nv == 16 || value[16] == '+' || value[16] == ';');
    } else if (is(name, nn, "grpc-timeout")) {
        c->bad_timeout = !td_grpc_timeout((const char *)value, nv, &c->timeout_ns);
    }
    return 0;
}

/* The prefix has come: is what it announces allowed, and is there room for it? The room is taken at once. */
static td_status_t announce(td_call_t *c, td_err_t *err) {
    td_server_t *s = c->conn->server;
    const uint8_t *p = c->body.data;
    uint64_t size = (uint64_t)p[1] << 24 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 8 | p[4];
    uint64_t whole = size + TD_GRPC_PREFIX, max = s->opts.max_message_bytes;
    uint64_t all = UNFINISHED_MAX * (max + TD_GRPC_PREFIX);
    if (size > max)
        return td_fail(err, TD_LIMIT, "the request is over max_message_bytes %llu", (unsigned long long)max);
    if (whole > all - s->unfinished_bytes)
        return td_fail(err, TD_LIMIT, "too many bytes of unfinished requests: %llu besides these %llu, at most %llu",
                       (unsigned long long)s->unfinished_bytes, (unsigned long long)whole, (unsigned long long)all);
    td_pb_reserve(&c->body, size);
    if (c->body.refused) return td_memory_refuse(s->opts.memory, "the request", whole, err);
    if (c->body.failed) return td_fail(err, TD_NOMEM, "out of memory for the request");
    c->announced = c->counted = whole;
    s->unfinished_bytes += whole;
    return TD_OK;
}

static td_status_t take_data(td_call_t *c, const uint8_t *data, size_t n, td_err_t *err) {
    size_t head = c->body.size < TD_GRPC_PREFIX ? TD_GRPC_PREFIX - c->body.size : 0;
    if (head > n) head = n;
    td_pb_raw(&c->body, data, head);
    if (c->body.refused) return td_memory_refuse(c->conn->server->opts.memory, "the request", n, err);
    if (c->body.failed) return td_fail(err, TD_NOMEM, "out of memory for the request");
    if (c->body.size < TD_GRPC_PREFIX) return TD_OK;
    td_status_t s = c->announced ? TD_OK : announce(c, err);
    if (s != TD_OK) return s;
    if (n - head > c->announced - c->body.size)
        return td_fail(err, TD_MALFORMED, "the message's prefix says %zu bytes, got more",
                       c->announced - TD_GRPC_PREFIX);
    td_pb_raw(&c->body, data + head, n - head);
    return TD_OK;
}

static int on_data(nghttp2_session *s, uint8_t flags, int32_t stream, const uint8_t *data, size_t n, void *ctx) {
    td_call_t *c = nghttp2_session_get_stream_user_data(s, stream);
    td_err_t err = {0};
    (void)flags, (void)ctx;
    if (!c || c->answered) return 0;
    if (take_data(c, data, n, &err) != TD_OK) td_call_fail(c, td_grpc_code(err.code), err.text);
    return 0;
}

static void complete(td_conn_t *conn, td_call_t *c) {
    if (c->answered) return;
    uncount(c);
    if (!c->post) fail_http(c, "405", TD_GRPC_INTERNAL, "expected method POST");
    else if (!c->grpc) fail_http(c, "415", TD_GRPC_INTERNAL, "expected content-type application/grpc");
    else if (c->bad_timeout) td_call_fail(c, TD_GRPC_INTERNAL, "grpc-timeout: expected digits and one of HMSmun");
    else if (c->path_cut) td_call_fail(c, TD_GRPC_UNIMPLEMENTED, "no such method: the path is too long");
    else conn->server->opts.on_call(conn->server->opts.ctx, c);
}

static int on_frame(nghttp2_session *s, const nghttp2_frame *f, void *ctx) {
    bool ends = f->hd.flags & NGHTTP2_FLAG_END_STREAM;
    bool last = ends && (f->hd.type == NGHTTP2_DATA || f->hd.type == NGHTTP2_HEADERS);
    td_call_t *c = last ? nghttp2_session_get_stream_user_data(s, f->hd.stream_id) : NULL;
    if (c) complete(ctx, c);
    return 0;
}

/* An answer before the request's end: the rest is refused, without an error. */
static int on_sent(nghttp2_session *s, const nghttp2_frame *f, void *ctx) {
    (void)ctx;
    if (f->hd.type != NGHTTP2_HEADERS || !(f->hd.flags & NGHTTP2_FLAG_END_STREAM)) return 0;
    if (nghttp2_session_get_stream_remote_close(s, f->hd.stream_id) == 0)
        nghttp2_submit_rst_stream(s, NGHTTP2_FLAG_NONE, f->hd.stream_id, NGHTTP2_NO_ERROR);
    return 0;
}

static int on_close(nghttp2_session *s, int32_t stream, uint32_t code, void *ctx) {
    td_call_t *c = nghttp2_session_get_stream_user_data(s, stream);
    (void)code;
    (void)ctx;
    if (!c) return 0;
    td_call_gone(c);
    td_call_free(c);
    return 0;
}

static int start(nghttp2_session *s, uint32_t streams) {
    nghttp2_settings_entry set[] = {{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, streams},
                                    {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW},
                                    {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, 16384}};
    int rv = nghttp2_submit_settings(s, NGHTTP2_FLAG_NONE, set, 3);
    return rv ? rv : nghttp2_session_set_local_window_size(s, NGHTTP2_FLAG_NONE, 0, WINDOW);
}

nghttp2_session *td_call_session(td_conn_t *conn) {
    nghttp2_session_callbacks *cb = NULL;
    nghttp2_option *opt = NULL;
    nghttp2_session *s = NULL;
    if (!nghttp2_session_callbacks_new(&cb) && !nghttp2_option_new(&opt)) {
        nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin);
        nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
        nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
        nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_sent);
        nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_close);
        nghttp2_session_callbacks_set_send_data_callback(cb, send_message);
        nghttp2_option_set_no_http_messaging(opt, 1); /* clients on Unix sockets send odd :authority values */
        if (!nghttp2_session_server_new2(&s, cb, conn, opt) && start(s, conn->server->opts.max_concurrent_streams)) {
            nghttp2_session_del(s);
            s = NULL;
        }
    }
    nghttp2_option_del(opt);
    nghttp2_session_callbacks_del(cb);
    return s;
}
