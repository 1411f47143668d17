/* SPDX-License-Identifier: Apache-2.0 */
/* All mappings stand in one static table that the signal handler reads without a lock: a slot is in use while `end`
 * is not 0. Slots change under the lock only, and `end` is cleared before and set after the rest, so a reader that
 * sees the same end twice has seen the begin that belongs to it. */
#include "base/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/limits.h"

struct td_guard {
    _Atomic(uintptr_t) begin, end; /* of whole pages */
    _Atomic(bool) faulted;
    _Atomic(int) fd;
    uint64_t refs;                 /* under the lock */
    struct stat sb;                /* as mapped */
    char path[256];
};

static td_guard_t guards[TD_LIMIT_GUARDS];
static _Atomic(size_t) used; /* slots from here on were never used */
static _Atomic(uint64_t) faults;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction previous;
static bool installed; /* under the lock */
static size_t page;    /* set before the first mapping */

td_guard_t *td_guard_find(const void *p) {
    uintptr_t at = (uintptr_t)p;
    size_t n = atomic_load(&used);
    for (size_t i = 0; i < n; i++) {
        td_guard_t *g = &guards[i];
        uintptr_t end = atomic_load(&g->end);
        if (end && at < end && at >= atomic_load(&g->begin) && atomic_load(&g->end) == end) return g;
    }
    return NULL;
}

/* ---- the handler: only async-signal-safe calls ---- */

/* The bare system call: a sanitizer's mmap notes a write, which would race with the readers. */
static bool zero_pages(uintptr_t from, uintptr_t to) {
    return syscall(SYS_mmap, from, to - from, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == (long)from;
}

/* Zero pages where the file has none: all behind its end at once, for a fault each would take a mapping each; a page
 * that cannot be read though the file has it goes alone. */
static bool put_zeros(td_guard_t *g, uintptr_t at) {
    uintptr_t begin = atomic_load(&g->begin), end = atomic_load(&g->end), from = at & ~(uintptr_t)(page - 1);
    uintptr_t to = from + page;
    struct stat sb;
    if (fstat(atomic_load(&g->fd), &sb) == 0 && sb.st_size >= 0 && (uint64_t)sb.st_size <= from - begin)
        from = begin + td_align_up((size_t)sb.st_size, page), to = end;
    return zero_pages(from, to) || zero_pages(begin, end); /* too many mappings: one for all */
}

static void pass_on(int sig, siginfo_t *info, void *context) {
    if (previous.sa_flags & SA_SIGINFO) {
        previous.sa_sigaction(sig, info, context);
        return;
    }
    bool sent = info->si_code <= 0; /* by a process: it does not come again by itself */
    if (previous.sa_handler == SIG_IGN && sent) return;
    if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
        previous.sa_handler(sig);
        return;
    }
    struct sigaction dfl = {.sa_handler = SIG_DFL};
    sigaction(sig, &dfl, NULL);
    if (sent) raise(sig); /* else the same instruction faults again */
}

static void on_sigbus(int sig, siginfo_t *info, void *context) {
    int e = errno;
    td_guard_t *g = info->si_code > 0 ? td_guard_find(info->si_addr) : NULL;
    if (g) {
        atomic_store(&g->faulted, true); /* before a reader can see zeros */
        atomic_fetch_add(&faults, 1);
    }
    if (!g || !put_zeros(g, (uintptr_t)info->si_addr)) pass_on(sig, info, context);
    errno = e;
}

static td_status_t install(td_err_t *err) {
    if (installed) return TD_OK;
    page = (size_t)sysconf(_SC_PAGESIZE);
    struct sigaction sa = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    sigemptyset(&sa.sa_mask);
    if (sigaction(SIGBUS, NULL, &previous) < 0 || sigaction(SIGBUS, &sa, NULL) < 0)
        return td_fail(err, TD_IO, "SIGBUS handler: %s", strerror(errno));
    installed = true;
    return TD_OK;
}

/* ---- mappings; all static functions with the lock held ---- */

static bool same_file(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static td_guard_t *find_file(const struct stat *sb) {
    for (size_t i = 0, n = atomic_load(&used); i < n; i++)
        if (atomic_load(&guards[i].end) && same_file(&guards[i].sb, sb) && !td_guard_faulted(&guards[i]))
            return &guards[i];
    return NULL;
}

static td_guard_t *free_slot(void) {
    size_t n = atomic_load(&used);
    for (size_t i = 0; i < n; i++)
        if (!atomic_load(&guards[i].end)) return &guards[i];
    return n < TD_LIMIT_GUARDS ? &guards[n] : NULL;
}

static td_status_t map_new(const char *path, int fd, const struct stat *sb, td_guard_t **out, td_err_t *err) {
    td_guard_t *g = free_slot();
    if (!g) return td_fail(err, TD_LIMIT, "%d files are mapped already, and no more may be", TD_LIMIT_GUARDS);
    if ((uint64_t)sb->st_size > TD_LIMIT_ALLOCATION_BYTES)
        return td_fail(err, TD_LIMIT, "%lld bytes are more than one file may have (%llu)", (long long)sb->st_size,
                       (unsigned long long)TD_LIMIT_ALLOCATION_BYTES);
    void *p = mmap(NULL, (size_t)sb->st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED) return td_fail(err, TD_IO, "mapping %lld bytes: %s", (long long)sb->st_size, strerror(errno));
    size_t n = strlen(path), skip = n >= sizeof g->path ? n - sizeof g->path + 1 : 0;
    memcpy(g->path, path + skip, n - skip + 1);
    g->sb = *sb;
    g->refs = 1;
    atomic_store(&g->faulted, false);
    atomic_store(&g->fd, fd);
    atomic_store(&g->begin, (uintptr_t)p);
    atomic_store(&g->end, (uintptr_t)p + td_align_up((size_t)sb->st_size, page));
    if (g == &guards[atomic_load(&used)]) atomic_fetch_add(&used, 1);
    *out = g;
    return TD_OK;
}

/* Takes fd over when it succeeds with a new mapping. */
static td_status_t map_fd(const char *path, int *fd, td_guard_t **out, td_err_t *err) {
    struct stat sb;
    if (fstat(*fd, &sb) < 0) return td_fail(err, TD_IO, "%s", strerror(errno));
    if (!S_ISREG(sb.st_mode)) return td_fail(err, TD_IO, "not a regular file");
    if (sb.st_size <= 0) return td_fail(err, TD_MALFORMED, "the file is empty");
    td_status_t s = install(err);
    if (s != TD_OK) return s;
    td_guard_t *g = find_file(&sb);
    if (g) {
        g->refs++;
        *out = g;
        return TD_OK;
    }
    s = map_new(path, *fd, &sb, out, err);
    if (s == TD_OK) *fd = -1;
    return s;
}

td_status_t td_guard_map(const char *path, td_guard_t **out, td_err_t *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return td_fail(err, TD_IO, "%s", strerror(errno));
    pthread_mutex_lock(&lock);
    td_status_t s = map_fd(path, &fd, out, err);
    pthread_mutex_unlock(&lock);
    if (fd >= 0) close(fd);
    return s;
}

td_guard_t *td_guard_retain(td_guard_t *g) {
    pthread_mutex_lock(&lock);
    g->refs++;
    pthread_mutex_unlock(&lock);
    return g;
}

void td_guard_release(td_guard_t *g) {
    if (!g) return;
    pthread_mutex_lock(&lock);
    if (--g->refs == 0) {
        uintptr_t begin = atomic_load(&g->begin), end = atomic_load(&g->end);
        atomic_store(&g->end, 0); /* first: what is mapped there next is not ours */
        munmap((void *)begin, end - begin);
        close(atomic_load(&g->fd));
    }
    pthread_mutex_unlock(&lock);
}

td_span_t td_guard_bytes(const td_guard_t *g) {
    return (td_span_t){(const uint8_t *)atomic_load(&g->begin), (size_t)g->sb.st_size};
}

const char *td_guard_path(const td_guard_t *g) {
    return g->path;
}

bool td_guard_faulted(const td_guard_t *g) {
    return atomic_load(&g->faulted);
}

uint64_t td_guard_faults(void) {
    return atomic_load(&faults);
}

td_status_t td_guard_check(const td_guard_t *g, td_err_t *err) {
    struct stat sb;
    bool known = fstat(atomic_load(&g->fd), &sb) == 0;
    if (known && sb.st_size != g->sb.st_size)
        return td_fail(err, TD_IO, "%s: has %lld bytes now, had %lld when it was mapped; put a new file in its place "
                       "by renaming", g->path, (long long)sb.st_size, (long long)g->sb.st_size);
    if (td_guard_faulted(g)) return td_fail(err, TD_IO, "%s: a part of the file could not be read", g->path);
    if (!known || !same_file(&sb, &g->sb))
        return td_fail(err, TD_IO, "%s: was written to after it was mapped; put a new file in its place by renaming",
                       g->path);
    return TD_OK;
}

/* ---- advice ---- */

static void advise(const td_guard_t *g, uintptr_t from, uintptr_t to, int advice) {
    int e = errno;
    if (from < to && from >= atomic_load(&g->begin) && to <= atomic_load(&g->end))
        madvise((void *)from, to - from, advice);
    errno = e;
}

void td_guard_want(const td_guard_t *g, const void *p, size_t size) {
    advise(g, (uintptr_t)p & ~(uintptr_t)(page - 1), td_align_up((uintptr_t)p + size, page), MADV_WILLNEED);
}

void td_guard_drop(const td_guard_t *g, const void *p, size_t size) {
    advise(g, td_align_up((uintptr_t)p, page), ((uintptr_t)p + size) & ~(uintptr_t)(page - 1), MADV_DONTNEED);
}
