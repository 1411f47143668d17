/* SPDX-License-Identifier: Apache-2.0 */
/* An nghttp2 client session pumped with poll until its one stream closes. */
#include "ctl/grpc_client.h"

#include <errno.h>
#include <fcntl.h>
#include <nghttp2/nghttp2.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"

/* gRPC's own largest message, plus its frame. */
#define REPLY_MAX ((2ull << 30) + 5)

typedef struct call {
    int fd;
    nghttp2_session *session;
    td_pb_t request;
    size_t sent;
    grpc_reply_t *reply;
    int http_status;
    bool closed, too_large;
    uint32_t h2_error;
} call_t;

const char *grpc_code_name(int code) {
    static const char *const names[] = {
        "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
        "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
        "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"};
    return code >= 0 && (size_t)code < sizeof names / sizeof *names ? names[code] : "status unknown";
}

static int hex(int c) {
    if (c >= '0' && c <= '9') return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* grpc-message is percent-encoded. */
static void decode_message(const uint8_t *v, size_t n, char *out, size_t size) {
    size_t k = 0;
    for (size_t i = 0; i < n && k + 1 < size; i++) {
        if (v[i] == '%' && i + 2 < n && hex(v[i + 1]) >= 0 && hex(v[i + 2]) >= 0) {
            out[k++] = (char)(hex(v[i + 1]) << 4 | hex(v[i + 2]));
            i += 2;
        } else
            out[k++] = (char)v[i];
    }
    out[k] = 0;
}

static int on_header(nghttp2_session *s, const nghttp2_frame *frame, const uint8_t *name, size_t namelen,
                     const uint8_t *value, size_t valuelen, uint8_t flags, void *user) {
    call_t *c = user;
    (void)s, (void)frame, (void)flags;
    /* nghttp2 puts a NUL behind names and values */
    if (namelen == 7 && !memcmp(name, ":status", 7))
        c->http_status = atoi((const char *)value);
    else if (namelen == 11 && !memcmp(name, "grpc-status", 11))
        c->reply->code = atoi((const char *)value);
    else if (namelen == 12 && !memcmp(name, "grpc-message", 12))
        decode_message(value, valuelen, c->reply->message, sizeof c->reply->message);
    return 0;
}

static int on_data(nghttp2_session *s, uint8_t flags, int32_t stream, const uint8_t *data, size_t len, void *user) {
    call_t *c = user;
    (void)s, (void)flags, (void)stream;
    if (c->reply->body.size + len > REPLY_MAX) c->too_large = true;
    if (!c->too_large) td_pb_raw(&c->reply->body, data, len);
    return c->too_large ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static int on_close(nghttp2_session *s, int32_t stream, uint32_t error_code, void *user) {
    call_t *c = user;
    (void)s, (void)stream;
    c->closed = true;
    c->h2_error = error_code;
    return 0;
}

static ssize_t read_request(nghttp2_session *s, int32_t stream, uint8_t *buf, size_t length, uint32_t *flags,
                            nghttp2_data_source *source, void *user) {
    call_t *c = user;
    (void)s, (void)stream, (void)source;
    size_t n = c->request.size - c->sent;
    if (n > length) n = length;
    memcpy(buf, c->request.data + c->sent, n);
    c->sent += n;
    if (c->sent == c->request.size) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n;
}

td_status_t grpc_connect(const char *path, int *out_fd, td_err_t *err) {
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    if (!strncmp(path, "unix:", 5)) path += 5;
    if (strlen(path) >= sizeof sa.sun_path) return td_fail(err, TD_USAGE, "%s: socket path too long", path);
    strcpy(sa.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return td_fail(err, TD_IO, "socket: %s", strerror(errno));
    if (connect(fd, (struct sockaddr *)&sa, sizeof sa) < 0) {
        int e = errno;
        close(fd);
        return td_fail(err, TD_IO, "%s: %s", path, strerror(e));
    }
    *out_fd = fd;
    return TD_OK;
}

static nghttp2_session *make_session(call_t *c) {
    nghttp2_session_callbacks *cb;
    nghttp2_session *s = NULL;
    if (nghttp2_session_callbacks_new(&cb) != 0) return NULL;
    nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_close);
    if (nghttp2_session_client_new(&s, cb, c) != 0) s = NULL;
    nghttp2_session_callbacks_del(cb);
    return s;
}

#define HEADER(n, v) {(uint8_t *)(n), (uint8_t *)(v), strlen(n), strlen(v), NGHTTP2_NV_FLAG_NONE}

static td_status_t submit(call_t *c, const char *rpc_path, td_span_t message, int timeout_ms, td_err_t *err) {
    char timeout[24];
    snprintf(timeout, sizeof timeout, "%dm", timeout_ms);
    uint8_t frame[5] = {0, (uint8_t)(message.size >> 24), (uint8_t)(message.size >> 16), (uint8_t)(message.size >> 8),
                        (uint8_t)message.size};
    td_pb_raw(&c->request, frame, 5);
    td_pb_raw(&c->request, message.data, message.size);
    if (c->request.failed) return td_fail(err, TD_NOMEM, "out of memory");
    nghttp2_nv headers[] = {HEADER(":method", "POST"), HEADER(":scheme", "http"), HEADER(":path", rpc_path),
                            HEADER(":authority", "localhost"), HEADER("content-type", "application/grpc"),
                            HEADER("te", "trailers"), HEADER("grpc-timeout", timeout),
                            HEADER("user-agent", "thunkctl")};
    nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, INT32_MAX},
                                         {NGHTTP2_SETTINGS_ENABLE_PUSH, 0}};
    nghttp2_data_provider body = {.read_callback = read_request};
    if (nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, settings, 2) != 0 ||
        nghttp2_session_set_local_window_size(c->session, NGHTTP2_FLAG_NONE, 0, INT32_MAX) != 0 ||
        nghttp2_submit_request(c->session, NULL, headers, sizeof headers / sizeof *headers, &body, NULL) < 0)
        return td_fail(err, TD_INTERNAL, "nghttp2 refused the request");
    return TD_OK;
}

/* Sends what the session has ready; *pending tells whether the socket was full. out/left carry a partial write. */
static td_status_t flush_out(call_t *c, const uint8_t **out, size_t *left, td_err_t *err) {
    for (;;) {
        if (!*left) {
            ssize_t n = nghttp2_session_mem_send(c->session, out);
            if (n < 0) return td_fail(err, TD_INTERNAL, "http/2: %s", nghttp2_strerror((int)n));
            if (n == 0) return TD_OK;
            *left = (size_t)n;
        }
        ssize_t n = send(c->fd, *out, *left, MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return TD_OK;
        if (n < 0) return td_fail(err, TD_DEVICE, "the daemon closed the connection: %s", strerror(errno));
        *out += n;
        *left -= (size_t)n;
    }
}

static td_status_t drain_in(call_t *c, td_err_t *err) {
    uint8_t buf[65536];
    ssize_t n = recv(c->fd, buf, sizeof buf, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return TD_OK;
    if (n < 0) return td_fail(err, TD_DEVICE, "the connection broke: %s", strerror(errno));
    if (n == 0) return td_fail(err, TD_DEVICE, "the daemon closed the connection before it answered");
    ssize_t k = nghttp2_session_mem_recv(c->session, buf, (size_t)n);
    if (c->too_large) return td_fail(err, TD_LIMIT, "the answer is over 2 GiB");
    if (k < 0) return td_fail(err, TD_MALFORMED, "http/2: %s", nghttp2_strerror((int)k));
    return TD_OK;
}

static td_status_t pump(call_t *c, int timeout_ms, td_err_t *err) {
    const uint8_t *out = NULL;
    size_t left = 0;
    uint64_t end = td_now_ns(td_clock_system()) + (uint64_t)timeout_ms * 1000000u;
    while (!c->closed) {
        td_status_t s = flush_out(c, &out, &left, err);
        if (s != TD_OK) return s;
        uint64_t now = td_now_ns(td_clock_system());
        if (now >= end) return td_fail(err, TD_DEADLINE, "no answer within %d ms", timeout_ms);
        struct pollfd p = {c->fd, (short)(POLLIN | (left ? POLLOUT : 0)), 0};
        if (poll(&p, 1, (int)((end - now) / 1000000u) + 1) > 0 && (p.revents & (POLLIN | POLLHUP | POLLERR)))
            s = drain_in(c, err);
        if (s != TD_OK) return s;
    }
    return TD_OK;
}

static td_status_t verdict(const call_t *c, td_err_t *err) {
    if (c->reply->body.failed) return td_fail(err, TD_NOMEM, "out of memory");
    if (c->reply->code >= 0) return TD_OK;
    if (c->http_status && c->http_status != 200) return td_fail(err, TD_MALFORMED, "HTTP status %d", c->http_status);
    return td_fail(err, TD_MALFORMED, "the stream ended without a gRPC status (%s)",
                   nghttp2_http2_strerror(c->h2_error));
}

td_status_t grpc_call(const char *socket_path, const char *rpc_path, td_span_t message, int timeout_ms,
                      grpc_reply_t *reply, td_err_t *err) {
    *reply = (grpc_reply_t){.code = -1};
    if (message.size > INT32_MAX) return td_fail(err, TD_LIMIT, "the request is over 2 GiB");
    call_t c = {.fd = -1, .reply = reply};
    td_status_t s = grpc_connect(socket_path, &c.fd, err);
    if (s != TD_OK) return s;
    fcntl(c.fd, F_SETFL, fcntl(c.fd, F_GETFL) | O_NONBLOCK);
    c.session = make_session(&c);
    s = c.session ? submit(&c, rpc_path, message, timeout_ms, err) : td_fail(err, TD_NOMEM, "out of memory");
    if (s == TD_OK) s = pump(&c, timeout_ms, err);
    if (s == TD_OK) s = verdict(&c, err);
    if (s != TD_OK) td_prefix(err, s, "%s", socket_path);
    nghttp2_session_del(c.session);
    td_pb_free(&c.request);
    close(c.fd);
    return s;
}

td_status_t grpc_reply_message(const grpc_reply_t *reply, td_span_t *out, td_err_t *err) {
    const td_pb_t *b = &reply->body;
    if (b->size < 5) return td_fail(err, TD_MALFORMED, "the answer holds no message");
    uint64_t n = (uint64_t)b->data[1] << 24 | (uint64_t)b->data[2] << 16 | (uint64_t)b->data[3] << 8 | b->data[4];
    if (b->data[0] != 0) return td_fail(err, TD_UNSUPPORTED, "the answer is compressed, which we did not ask for");
    if (n != b->size - 5)
        return td_fail(err, TD_MALFORMED, "message of %llu bytes in an answer of %zu", (unsigned long long)n, b->size);
    *out = (td_span_t){b->data + 5, (size_t)n};
    return TD_OK;
}

void grpc_reply_free(grpc_reply_t *reply) {
    td_pb_free(&reply->body);
}
