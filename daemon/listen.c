/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define FIRST_FD 3
#define INHERITED_MAX 16

static bool is_listening(int fd) {
    int accepts = 0;
    socklen_t n = sizeof accepts;
    return !getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &n) && accepts;
}

void td_listen_inherited(int *out_infer, int *out_admin) {
    const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS"), *names = getenv("LISTEN_FDNAMES");
    long n = pid && fds && strtol(pid, NULL, 10) == (long)getpid() ? strtol(fds, NULL, 10) : 0;
    *out_infer = *out_admin = -1;
    for (int i = 0; i < n && i < INHERITED_MAX; i++) {
        size_t k = names ? strcspn(names, ":") : 0;
        bool admin = k == 5 && !memcmp(names, "admin", 5);
        int *at = admin ? out_admin : out_infer;
        if (names) names += k + (names[k] == ':');
        if (!is_listening(FIRST_FD + i) || *at >= 0) continue;
        fcntl(FIRST_FD + i, F_SETFD, FD_CLOEXEC);
        *at = FIRST_FD + i;
    }
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
}

static bool make_address(const char *path, struct sockaddr_un *a) {
    *a = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t n = strlen(path);
    if (!n || n >= sizeof a->sun_path) return false;
    memcpy(a->sun_path, path, n);
    return true;
}

/* Is it a socket file whose daemon is gone? */
static bool is_stale(const struct sockaddr_un *a) {
    struct stat st;
    if (lstat(a->sun_path, &st) || !S_ISSOCK(st.st_mode)) return false;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool stale = fd >= 0 && connect(fd, (const struct sockaddr *)a, sizeof *a) && errno == ECONNREFUSED;
    if (fd >= 0) close(fd);
    return stale;
}

td_status_t td_listen_bind(const char *path, uint32_t mode, int *out_fd, td_err_t *err) {
    struct sockaddr_un a;
    if (!make_address(path, &a)) return td_fail(err, TD_USAGE, "socket %s: the path is longer than 107 bytes", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return td_fail(err, TD_IO, "socket: %s", strerror(errno));
    mode_t old = umask((mode_t)(0777 & ~mode));
    int e = bind(fd, (struct sockaddr *)&a, sizeof a) ? errno : 0;
    if (e == EADDRINUSE && is_stale(&a) && !unlink(path)) e = bind(fd, (struct sockaddr *)&a, sizeof a) ? errno : 0;
    umask(old);
    if (!e) {
        *out_fd = fd;
        return TD_OK;
    }
    close(fd);
    return td_fail(err, TD_IO, "socket %s: %s", path,
                   e == EADDRINUSE ? "in use by another process, or not a socket file" : strerror(e));
}

void td_notify(const char *state) {
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un a;
    if (!path || (path[0] != '/' && path[0] != '@') || !make_address(path, &a)) return;
    size_t n = offsetof(struct sockaddr_un, sun_path) + strlen(path);
    if (path[0] == '@') a.sun_path[0] = 0;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return;
    /* Nobody to tell if this fails. */
    (void)sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&a, (socklen_t)n);
    close(fd);
}
