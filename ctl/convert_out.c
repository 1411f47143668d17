/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl/convert.h"

typedef struct out_file {
    int fd;
    const char *path;
} out_file_t;

static td_status_t to_fd(void *ctx, const void *data, size_t size, td_err_t *err) {
    const out_file_t *f = ctx;
    const char *p = data;
    while (size) {
        ssize_t n = write(f->fd, p, size);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return td_fail(err, TD_IO, "%s: %s", f->path, strerror(errno));
        p += n;
        size -= (size_t)n;
    }
    return TD_OK;
}

/* Pieces are often small: they are gathered before they go to the file. */
enum { GATHER = 1 << 16 };
typedef struct gathering {
    out_file_t file;
    size_t n;
    char *buf;
} gathering_t;

static td_status_t flush(gathering_t *g, td_err_t *err) {
    td_status_t s = to_fd(&g->file, g->buf, g->n, err);
    g->n = 0;
    return s;
}
static td_status_t gather(void *ctx, const void *data, size_t size, td_err_t *err) {
    gathering_t *g = ctx;
    td_status_t s = size > GATHER - g->n ? flush(g, err) : TD_OK;
    if (s != TD_OK || size > GATHER) return s == TD_OK ? to_fd(&g->file, data, size, err) : s;
    memcpy(g->buf + g->n, data, size);
    g->n += size;
    return TD_OK;
}

static td_status_t write_fd(int fd, const char *path, const td_rope_t *bytes, td_err_t *err) {
    gathering_t g = {.file = {fd, path}, .buf = malloc(GATHER)};
    if (!g.buf) return td_fail(err, TD_NOMEM, "out of memory");
    td_sink_t sink = {gather, &g};
    td_status_t s = td_rope_write(bytes, &sink, err);
    if (s == TD_OK) s = flush(&g, err);
    free(g.buf);
    return s;
}

td_status_t ctl_out_write(const char *path, const td_rope_t *bytes, td_err_t *err) {
    if (!strcmp(path, "-")) return write_fd(STDOUT_FILENO, "standard output", bytes, err);
    size_t n = strlen(path) + sizeof ".XXXXXX";
    char *tmp = malloc(n);
    if (!tmp) return td_fail(err, TD_NOMEM, "out of memory");
    snprintf(tmp, n, "%s.XXXXXX", path);
    int fd = mkstemp(tmp);
    td_status_t s = fd < 0 ? td_fail(err, TD_IO, "%s: %s", path, strerror(errno)) : write_fd(fd, path, bytes, err);
    mode_t mask = umask(0);
    umask(mask);
    if (s == TD_OK && fchmod(fd, 0666 & ~mask) != 0) s = td_fail(err, TD_IO, "%s: %s", path, strerror(errno));
    if (fd >= 0 && close(fd) != 0 && s == TD_OK) s = td_fail(err, TD_IO, "%s: %s", path, strerror(errno));
    if (s == TD_OK && rename(tmp, path) != 0) s = td_fail(err, TD_IO, "%s: %s", path, strerror(errno));
    if (s != TD_OK && fd >= 0) unlink(tmp);
    free(tmp);
    return s;
}

/* ---- the bar ---- */

enum { WIDTH = 40 };
#define SECOND_NS 1000000000ull
#define REDRAW_NS 100000000ull

void ctl_bar_begin(ctl_bar_t *b, uint64_t total) {
    *b = (ctl_bar_t){.total = total ? total : 1, .terminal = isatty(STDERR_FILENO) != 0};
    b->begin_ns = td_now_ns(td_clock_system());
}

void ctl_bar_tick(void *bar, uint64_t bytes) {
    ctl_bar_t *b = bar;
    b->done += bytes;
    if (!b->terminal) return;
    uint64_t now = td_now_ns(td_clock_system());
    if (now - b->begin_ns < SECOND_NS || now - b->drawn_ns < REDRAW_NS) return;
    double part = b->done < b->total ? (double)b->done / (double)b->total : 1;
    int full = (int)(part * WIDTH);
    fprintf(stderr, "\r[%.*s%*s] %3d %%", full, "########################################", WIDTH - full, "",
            (int)(part * 100));
    fflush(stderr);
    b->drawn_ns = now;
    b->drawn = true;
}

void ctl_bar_end(ctl_bar_t *b) {
    if (b->drawn) fprintf(stderr, "\r%*s\r", WIDTH + 10, "");
    b->drawn = false;
}
