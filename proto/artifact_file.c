/* SPDX-License-Identifier: Apache-2.0 */
/* An artifact from a file: read with pread, so that a file that shrinks is an error and not a signal. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "proto/artifact.h"

static td_status_t read_at(void *ctx, uint64_t offset, void *dst, size_t size, size_t *got, td_err_t *err) {
    for (;;) {
        ssize_t n = pread(*(const int *)ctx, dst, size, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return td_fail(err, TD_IO, "%s", strerror(errno));
        *got = (size_t)n;
        return TD_OK;
    }
}

static bool same(const struct stat *a, const struct stat *b) {
    return a->st_size == b->st_size && a->st_ino == b->st_ino && a->st_dev == b->st_dev &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static td_status_t open_fd(int fd, const td_artifact_opts_t *opts, td_artifact_t **out, td_err_t *err) {
    struct stat before, after;
    td_artifact_t *a = NULL;
    if (fstat(fd, &before) != 0) return td_fail(err, TD_IO, "%s", strerror(errno));
    if (!S_ISREG(before.st_mode)) return td_fail(err, TD_IO, "not a regular file");
    td_source_t source = {read_at, &fd, (uint64_t)before.st_size};
    td_status_t s = td_artifact_open_source(&source, opts, &a, err);
    /* What a file that changed seemed to hold is no finding. */
    if (s != TD_CANCELLED && s != TD_NOMEM && (fstat(fd, &after) != 0 || !same(&before, &after)))
        s = td_fail(err, TD_IO, "changed while being read (%lld bytes before, %lld after)", (long long)before.st_size,
                    (long long)after.st_size);
    if (s == TD_OK) *out = a;
    else td_artifact_close(a);
    return s;
}

td_status_t td_artifact_open_path(const char *path, const td_artifact_opts_t *opts, td_artifact_t **out,
                                  td_err_t *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return td_fail(err, errno == ENOENT ? TD_NOTFOUND : TD_IO, "%s: %s", path, strerror(errno));
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    td_status_t s = open_fd(fd, opts, out, err);
    close(fd);
    return s == TD_OK ? s : td_prefix(err, s, "%s", path);
}
