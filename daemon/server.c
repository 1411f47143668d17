/* SPDX-License-Identifier: Apache-2.0 */
/* The listener and its connections. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/server_internal.h"

#define MAX_CONNS 1024
#define READ_BYTES (256u << 10)
/* How long a drained connection waits for the other side's end. */
#define LINGER_MS 500

static uint8_t read_buf[READ_BYTES]; /* one loop, one read at a time */

static void check_drained(td_server_t *s) {
    if (!s->draining || s->told || s->conns) return;
    s->told = true;
    if (s->has_linger) uv_close((uv_handle_t *)&s->linger, NULL);
    s->opts.on_drained(s->opts.ctx);
}

static void on_conn_closed(uv_handle_t *h) {
    td_conn_t *c = h->data;
    td_server_t *s = c->server;
    if (c->prev) c->prev->next = c->next;
    else s->conns = c->next;
    if (c->next) c->next->prev = c->prev;
    s->n_conns--;
    nghttp2_session_del(c->session);
    td_http_free(c->http);
    while (c->calls) td_call_free(c->calls);
    td_pb_free(&c->out);
    free(c);
    check_drained(s);
}

static void conn_close(td_conn_t *c) {
    if (c->closing) return;
    c->closing = true;
    for (td_call_t *x = c->calls; x; x = x->next) td_call_gone(x);
    uv_close((uv_handle_t *)&c->pipe, on_conn_closed);
}

static void on_lingered(uv_timer_t *t) {
    td_server_t *s = t->data;
    for (td_conn_t *c = s->conns; c; c = c->next)
        if (c->lingering) conn_close(c);
}

/* A Unix socket that is closed with something unread resets the other side, which may then not read the last answers. */
static void conn_end(td_conn_t *c) {
    td_server_t *s = c->server;
    uv_os_fd_t fd;
    if (!s->draining || !s->has_linger || uv_fileno((uv_handle_t *)&c->pipe, &fd) || shutdown(fd, SHUT_WR)) {
        conn_close(c);
        return;
    }
    c->lingering = true;
    if (!uv_is_active((uv_handle_t *)&s->linger)) uv_timer_start(&s->linger, on_lingered, LINGER_MS, 0);
}

/* False: memory is gone. */
static bool out_start(td_conn_t *c) {
    c->out = (td_pb_t){0};
    td_pb_reserve(&c->out, TD_SERVER_OUT);
    c->out.charge = td_memory_charge(c->server->opts.memory);
    return !c->out.failed;
}

/* A connection without calls holds nothing that is charged. */
static void out_shrink(td_conn_t *c) {
    if (c->writing || c->closing || c->calls || !c->out.charged) return;
    td_pb_free(&c->out);
    if (!out_start(c)) conn_close(c);
}

static void on_alloc(uv_handle_t *h, size_t hint, uv_buf_t *out);
static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf);

static void on_written(uv_write_t *w, int status) {
    td_conn_t *c = w->data;
    c->writing = false;
    c->out.size = 0;
    bool end = status < 0 || c->last;
    if (!end && c->http && !c->closing) end = uv_read_start((uv_stream_t *)&c->pipe, on_alloc, on_read) != 0;
    if (end) conn_close(c);
    else if (c->session) td_conn_flush(c);
    out_shrink(c);
}

static void write_out(td_conn_t *c) {
    uv_buf_t b = uv_buf_init((char *)c->out.data, (unsigned)c->out.size);
    c->writing = true;
    c->write.data = c;
    if (uv_write(&c->write, (uv_stream_t *)&c->pipe, &b, 1, on_written)) {
        c->writing = false;
        conn_close(c);
    }
}

void td_conn_flush(td_conn_t *c) {
    if (c->closing || c->writing || c->lingering) return;
    c->in_callback = true; /* sending may close streams, and those may fail others */
    ssize_t n = 0;
    const uint8_t *p;
    while (c->out.size < TD_SERVER_BATCH && td_pb_try(&c->out, TD_SERVER_FRAME) &&
           (n = nghttp2_session_mem_send(c->session, &p)) > 0)
        td_pb_raw(&c->out, p, (size_t)n);
    c->in_callback = false;
    bool over = !nghttp2_session_want_read(c->session) && !nghttp2_session_want_write(c->session);
    if (n < 0 || c->out.failed) conn_close(c);
    else if (c->out.size) write_out(c);
    else if (over) conn_end(c);
}

static void on_alloc(uv_handle_t *h, size_t hint, uv_buf_t *out) {
    (void)h;
    (void)hint;
    *out = uv_buf_init((char *)read_buf, sizeof read_buf);
}

/* Answers before more is read: what a client does not fetch must not pile up. */
static void read_http1(td_conn_t *c, const void *data, size_t n) {
    if (!td_http_read(c->http, data, n, &c->out)) c->last = true;
    bool end = c->out.failed || (c->last && !c->out.size);
    if (end) conn_close(c);
    else if (c->out.size && !uv_read_stop((uv_stream_t *)&c->pipe)) write_out(c);
}

static void read_http2(td_conn_t *c, const uint8_t *data, size_t n) {
    c->in_callback = true;
    ssize_t k = n ? nghttp2_session_mem_recv(c->session, data, n) : 0;
    c->in_callback = false;
    if (k < 0) conn_close(c);
    else td_conn_flush(c);
}

/* HTTP/2 begins with "PRI * HTTP/2.0", and no HTTP/1 method with "PRI". False: not told yet, or closed. */
static bool tell_protocol(td_conn_t *c, const uint8_t *data, size_t n) {
    uint8_t head[sizeof c->first];
    size_t k = c->n_first, take = n < sizeof head - k ? n : sizeof head - k;
    memcpy(head, c->first, k);
    memcpy(head + k, data, take);
    k += take;
    bool h2 = !c->server->opts.on_http || !memcmp(head, "PRI", k);
    if (h2 && c->server->opts.on_http && k < sizeof head) {
        memcpy(c->first, head, k);
        c->n_first = (uint32_t)k;
        return false;
    }
    if (h2) c->session = td_call_session(c);
    else c->http = td_http_create(c->server->opts.on_http, c->server->opts.ctx);
    if (c->session || c->http) return true;
    conn_close(c);
    return false;
}

static void on_bytes(td_conn_t *c, const uint8_t *data, size_t n) {
    if (c->http) read_http1(c, data, n);
    else read_http2(c, data, n);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf) {
    td_conn_t *c = stream->data;
    const uint8_t *data = (const uint8_t *)buf->base;
    if (n == 0 || c->closing) return;
    if (n < 0) conn_close(c);
    if (n < 0 || c->lingering) return;
    uint32_t held = c->n_first;
    if (!c->session && !c->http) {
        if (!tell_protocol(c, data, (size_t)n)) return;
        c->n_first = 0;
        if (held) on_bytes(c, c->first, held); /* too short for an answer, so reading goes on */
    }
    if (!c->closing) on_bytes(c, data, (size_t)n);
}

static void on_accept_closed(uv_handle_t *h) {
    free(h->data);
}

/* Whom the kernel says is at the other end. */
static bool is_admin(td_conn_t *c) {
    struct ucred who;
    socklen_t n = sizeof who;
    uv_os_fd_t fd;
    if (c->server->opts.admin) return true;
    if (uv_fileno((uv_handle_t *)&c->pipe, &fd) || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n)) return false;
    return who.uid == 0 || who.uid == geteuid();
}

static void on_connection(uv_stream_t *listener, int status) {
    td_server_t *s = listener->data;
    td_conn_t *c = status < 0 ? NULL : calloc(1, sizeof *c);
    if (!c) return;
    c->server = s;
    uv_pipe_init(s->opts.loop, &c->pipe, 0);
    c->pipe.data = c;
    bool ok = !uv_accept(listener, (uv_stream_t *)&c->pipe) && s->n_conns < MAX_CONNS && out_start(c);
    if (!ok) {
        uv_close((uv_handle_t *)&c->pipe, on_accept_closed);
        return;
    }
    c->admin = is_admin(c);
    c->next = s->conns;
    if (c->next) c->next->prev = c;
    s->conns = c;
    s->n_conns++;
    if (uv_read_start((uv_stream_t *)&c->pipe, on_alloc, on_read)) conn_close(c);
}

td_status_t td_server_create(const td_server_opts_t *opts, td_server_t **out, td_err_t *err) {
    *out = NULL;
    td_server_t *s = calloc(1, sizeof *s);
    if (!s) {
        close(opts->fd);
        return td_fail(err, TD_NOMEM, "out of memory");
    }
    s->opts = *opts;
    *out = s;
    uv_pipe_init(opts->loop, &s->listener, 0);
    s->listener.data = s;
    int e = uv_pipe_open(&s->listener, opts->fd);
    if (e) close(opts->fd);
    if (!e) e = uv_listen((uv_stream_t *)&s->listener, MAX_CONNS, on_connection);
    return e ? td_fail(err, TD_IO, "listening: %s", uv_strerror(e)) : TD_OK;
}

void td_server_drain(td_server_t *s) {
    if (s->draining) return;
    s->draining = true;
    uv_close((uv_handle_t *)&s->listener, NULL);
    s->has_linger = !uv_timer_init(s->opts.loop, &s->linger);
    s->linger.data = s;
    for (td_conn_t *c = s->conns, *next; c; c = next) {
        next = c->next;
        if (c->closing) continue;
        if (!c->session) {
            c->last = true; /* an answer that is being written goes out */
            if (!c->writing) conn_close(c);
            continue;
        }
        int32_t last = nghttp2_session_get_last_proc_stream_id(c->session);
        if (nghttp2_submit_goaway(c->session, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR, NULL, 0)) conn_close(c);
        else td_conn_flush(c);
    }
    check_drained(s);
}

void td_server_abort(td_server_t *s) {
    for (td_conn_t *c = s->conns; c; c = c->next) conn_close(c);
}

void td_server_free(td_server_t *s) {
    free(s);
}
