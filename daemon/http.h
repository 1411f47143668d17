/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1.1 for people with curl and for metrics, without a connection: bytes in, bytes out (RFC 9112). Requests are
 * answered one after the other, at once. Errors are answered as JSON; what breaks the protocol ends the connection.
 * Thread: the loop's. */
#ifndef TD_DAEMON_HTTP_H
#define TD_DAEMON_HTTP_H

#include "base/span.h"
#include "proto/pb.h"

typedef enum td_http_method { TD_HTTP_GET, TD_HTTP_POST, TD_HTTP_OTHER } td_http_method_t; /* HEAD counts as GET */

typedef struct td_http_request {
    td_http_method_t method;
    const char *path; /* decoded, without the query */
    td_span_t body;
} td_http_request_t;

typedef struct td_http_answer {
    int status;       /* 200 */
    const char *type; /* of the body; constant */
    const char *allow; /* of a 405: the methods; constant */
    td_pb_t body;
} td_http_answer_t;

/* Fills the answer in; out is zero before. */
typedef void td_http_fn(void *ctx, const td_http_request_t *request, td_http_answer_t *out);

typedef struct td_http td_http_t;
/* NULL when memory is gone. */
td_http_t *td_http_create(td_http_fn *fn, void *ctx);
void td_http_free(td_http_t *h); /* NULL is fine */
/* Takes what came, and puts the answers behind what is in out. False: the connection ends after them. out->failed:
 * memory is gone. */
bool td_http_read(td_http_t *h, const void *data, size_t size, td_pb_t *out);
/* {"error": text} with a status; for handlers. */
void td_http_error(td_http_answer_t *out, int status, const char *text);

#endif
