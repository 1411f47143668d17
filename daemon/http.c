/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/http.h"

#include <http_parser.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/limits.h"

#define URL_MAX 2048
/* A client that asks on and on without reading: after so many bytes of answers to one read, the connection ends. */
#define PIPELINE_MAX (4u << 20)

struct td_http {
    http_parser parser; /* data: this object */
    td_http_fn *fn;
    void *ctx;
    td_pb_t *out; /* during td_http_read */
    td_pb_t body;
    char url[URL_MAX], name[20], value[20]; /* name and value: of a header, cut */
    size_t n_url, n_name, n_value;
    bool host, expects, closed;
    bool in_value; /* the next header name is a new header's */
    int status; /* of an error found before the end; 0: none */
    const char *error;
};

static const char *reason(int status) {
    switch (status) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 431: return "Request Header Fields Too Large";
    case 503: return "Service Unavailable";
    default: return "Internal Server Error";
    }
}

void td_http_error(td_http_answer_t *out, int status, const char *text) {
    td_pb_free(&out->body);
    out->status = status;
    out->type = "application/json";
    json_t *j = json_pack("{s:s}", "error", text);
    char *s = j ? json_dumps(j, JSON_COMPACT) : NULL;
    if (s) td_pb_raw(&out->body, s, strlen(s));
    free(s);
    json_decref(j);
}

static void put_head(td_http_t *h, const td_http_answer_t *a) {
    char head[512], date[40] = "";
    time_t now = time(NULL);
    struct tm tm;
    if (gmtime_r(&now, &tm)) strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", &tm);
    int n = snprintf(head, sizeof head,
                     "HTTP/1.1 %d %s\r\nDate: %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%s%s%s%s\r\n",
                     a->status, reason(a->status), date, a->type ? a->type : "text/plain", a->body.size,
                     a->allow ? "Allow: " : "", a->allow ? a->allow : "", a->allow ? "\r\n" : "",
                     h->closed ? "Connection: close\r\n" : h->parser.http_minor ? "" : "Connection: keep-alive\r\n");
    td_pb_raw(h->out, head, (size_t)n);
}

static void send_answer(td_http_t *h, td_http_answer_t *a) {
    if (a->body.failed) td_http_error(a, 500, "out of memory");
    h->out->failed |= a->body.failed;
    put_head(h, a);
    if (h->parser.method != HTTP_HEAD) td_pb_raw(h->out, a->body.data, a->body.size);
    td_pb_free(&a->body);
}

/* Remembers the first error; the rest of the request is read without use, or the parser ends it. */
static void refuse(td_http_t *h, int status, const char *error) {
    if (h->status) return;
    h->status = status;
    h->error = error;
}

static int on_begin(http_parser *p) {
    td_http_t *h = p->data;
    h->n_url = h->n_name = h->n_value = h->body.size = 0;
    h->host = h->expects = h->in_value = false;
    h->status = 0;
    return 0;
}

static int on_url(http_parser *p, const char *at, size_t n) {
    td_http_t *h = p->data;
    if (n >= URL_MAX - h->n_url) {
        refuse(h, 414, "the address is longer than 2047 bytes");
        return 1;
    }
    memcpy(h->url + h->n_url, at, n);
    h->n_url += n;
    return 0;
}

/* Into a buffer that holds what we look for; a longer text cannot be it. */
static void append(char *buf, size_t room, size_t *used, const char *at, size_t n) {
    for (size_t i = 0; i < n && *used < room - 1; i++) buf[(*used)++] = at[i];
    buf[*used] = 0;
}

static void end_header(td_http_t *h) {
    if (!h->in_value) return;
    h->host |= !strcasecmp(h->name, "host");
    h->expects |= !strcasecmp(h->name, "expect") && !strcasecmp(h->value, "100-continue");
    h->n_name = h->n_value = 0;
    h->in_value = false;
}

static int on_field(http_parser *p, const char *at, size_t n) {
    td_http_t *h = p->data;
    end_header(h);
    append(h->name, sizeof h->name, &h->n_name, at, n);
    return 0;
}

static int on_value(http_parser *p, const char *at, size_t n) {
    td_http_t *h = p->data;
    h->in_value = true;
    append(h->value, sizeof h->value, &h->n_value, at, n);
    return 0;
}

static int on_headers(http_parser *p) {
    td_http_t *h = p->data;
    end_header(h);
    p->upgrade = 0; /* to nothing: the answer is HTTP/1.1's */
    if (!h->host && p->http_minor && p->http_major == 1) refuse(h, 400, "the request has no Host header");
    if (!(p->flags & F_CHUNKED) && p->content_length != UINT64_MAX && p->content_length > TD_LIMIT_HTTP_BODY_BYTES)
        refuse(h, 413, "the body is over 65536 bytes");
    if (h->status) return -1; /* anything but 0, 1, 2 ends it */
    if (h->expects) td_pb_raw(h->out, "HTTP/1.1 100 Continue\r\n\r\n", 25);
    return 0;
}

static int on_body(http_parser *p, const char *at, size_t n) {
    td_http_t *h = p->data;
    if (n > TD_LIMIT_HTTP_BODY_BYTES - h->body.size) {
        refuse(h, 413, "the body is over 65536 bytes");
        return 1;
    }
    td_pb_raw(&h->body, at, n);
    return 0;
}

static int hex(int c) {
    if (c >= '0' && c <= '9') return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The path of the address, decoded. False: none, or a %00 or a broken escape in it. */
static bool get_path(const td_http_t *h, char out[URL_MAX]) {
    struct http_parser_url u;
    http_parser_url_init(&u);
    if (http_parser_parse_url(h->url, h->n_url, h->parser.method == HTTP_CONNECT, &u)) return false;
    if (!(u.field_set & 1 << UF_PATH)) return false;
    const char *p = h->url + u.field_data[UF_PATH].off, *end = p + u.field_data[UF_PATH].len;
    size_t k = 0;
    for (; p < end; p++) {
        int c = (unsigned char)*p;
        if (c == '%') {
            int a = end - p > 2 ? hex(p[1]) : -1, b = a < 0 ? -1 : hex(p[2]);
            c = b < 0 ? 0 : a << 4 | b;
            p += 2;
        }
        if (!c) return false;
        out[k++] = (char)c;
    }
    out[k] = 0;
    return true;
}

static int on_complete(http_parser *p) {
    td_http_t *h = p->data;
    char path[URL_MAX];
    td_http_answer_t a = {0};
    td_http_request_t r = {.path = path, .body = {h->body.data, h->body.size}};
    r.method = p->method == HTTP_GET || p->method == HTTP_HEAD ? TD_HTTP_GET
               : p->method == HTTP_POST                         ? TD_HTTP_POST
                                                                : TD_HTTP_OTHER;
    h->closed = !http_should_keep_alive(p) || h->out->size > PIPELINE_MAX;
    if (h->body.failed) td_http_error(&a, 500, "out of memory");
    else if (!get_path(h, path)) td_http_error(&a, 400, "the address has no path that can be read");
    else h->fn(h->ctx, &r, &a);
    send_answer(h, &a);
    return h->closed; /* an error ends the parser */
}

td_http_t *td_http_create(td_http_fn *fn, void *ctx) {
    td_http_t *h = calloc(1, sizeof *h);
    if (!h) return NULL;
    http_parser_set_max_header_size(TD_LIMIT_HTTP_HEADER_BYTES); /* of all parsers */
    http_parser_init(&h->parser, HTTP_REQUEST);
    h->parser.data = h;
    h->fn = fn;
    h->ctx = ctx;
    return h;
}

void td_http_free(td_http_t *h) {
    if (!h) return;
    td_pb_free(&h->body);
    free(h);
}

/* What the parser stopped at. */
static void send_error(td_http_t *h) {
    char text[160];
    td_http_answer_t a = {0};
    enum http_errno e = HTTP_PARSER_ERRNO(&h->parser);
    if (e == HPE_HEADER_OVERFLOW) refuse(h, 431, "the request line and headers are over 16384 bytes");
    snprintf(text, sizeof text, "not an HTTP/1.1 request: %s", http_errno_description(e));
    h->closed = true;
    h->parser.method = HTTP_GET; /* it may not be known */
    td_http_error(&a, h->status ? h->status : 400, h->status ? h->error : text);
    send_answer(h, &a);
}

bool td_http_read(td_http_t *h, const void *data, size_t size, td_pb_t *out) {
    static const http_parser_settings settings = {
        .on_message_begin = on_begin, .on_url = on_url, .on_header_field = on_field, .on_header_value = on_value,
        .on_headers_complete = on_headers, .on_body = on_body, .on_message_complete = on_complete};
    if (h->closed) return false;
    h->out = out;
    http_parser_execute(&h->parser, &settings, data, size);
    if (!h->closed && HTTP_PARSER_ERRNO(&h->parser) != HPE_OK) send_error(h);
    h->out = NULL;
    return !h->closed;
}
