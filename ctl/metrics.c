/* SPDX-License-Identifier: Apache-2.0 */
/* thunkctl metrics: GET /metrics on the daemon's socket. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "ctl/admin.h"
#include "ctl/ctl.h"
#include "ctl/online.h"

#define PAGE_MAX (256u << 20)

static const struct argp_option options[] = {ADMIN_OPTIONS, {0}};
static const struct argp argp = {options, admin_parse_opt, "", "Print a daemon's metrics, as Prometheus reads them.",
                                 NULL, NULL, NULL};

/* HTTP/1.0: the answer ends where the connection does. */
static td_status_t get(int fd, td_pb_t *answer, td_err_t *err) {
    static const char request[] = "GET /metrics HTTP/1.0\r\n\r\n";
    uint8_t buf[65536];
    ssize_t n = send(fd, request, sizeof request - 1, MSG_NOSIGNAL);
    while (n > 0 && !answer->failed && answer->size < PAGE_MAX)
        if ((n = recv(fd, buf, sizeof buf, 0)) > 0) td_pb_raw(answer, buf, (size_t)n);
    if (n < 0)
        return td_fail(err, TD_IO, "no whole answer: %s", errno == EAGAIN ? "it takes too long" : strerror(errno));
    if (answer->size >= PAGE_MAX) return td_fail(err, TD_LIMIT, "the answer is over %u bytes", PAGE_MAX);
    td_pb_raw(answer, "", 1);
    return answer->failed ? td_fail(err, TD_NOMEM, "out of memory") : TD_OK;
}

static td_status_t print(const td_pb_t *answer, td_err_t *err) {
    int status = 0;
    const char *text = (const char *)answer->data, *body = strstr(text, "\r\n\r\n");
    if (!body || sscanf(text, "HTTP/1.%*1d %3d", &status) != 1) return td_fail(err, TD_MALFORMED, "no HTTP/1.1 answer");
    if (status != 200) return td_fail(err, TD_UNSUPPORTED, "HTTP status %d: %s", status, body + 4);
    fputs(body + 4, stdout);
    return TD_OK;
}

int ctl_metrics(int argc, char **argv) {
    admin_args_t a = {.timeout_ms = 10000};
    argp_parse(&argp, argc, argv, 0, NULL, &a);
    int fd = -1;
    td_err_t err = {0};
    td_pb_t answer = {0};
    const char *socket = admin_socket(&a);
    td_status_t s = grpc_connect(socket, &fd, &err);
    if (s == TD_OK) {
        struct timeval t = {a.timeout_ms / 1000, a.timeout_ms % 1000 * 1000};
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
        s = get(fd, &answer, &err);
        if (s == TD_OK) s = print(&answer, &err);
        if (s != TD_OK) td_prefix(&err, s, "%s", socket);
        close(fd);
    }
    td_pb_free(&answer);
    return s == TD_OK ? 0 : ctl_report(&err);
}
