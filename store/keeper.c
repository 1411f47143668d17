/* SPDX-License-Identifier: Apache-2.0 */
/* The keeper's thread: looks at the directory when it has changed and from time to time, unloads what has been
 * idle for long, ends sequences and loads whose time is over. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "store/store_in.h"

/* After an event, wait that long for more: a copy or a rename makes several. */
#define SETTLE_NS 30000000ull
#define MASK (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_CLOSE_WRITE | IN_ATTRIB | IN_ONLYDIR)

static void signal_fd(int fd) {
    uint64_t one = 1;
    if (fd >= 0 && write(fd, &one, sizeof one) < 0) return; /* it is signalled already */
}

void td_keeper_wake(td_store_t *s) { signal_fd(s->wake_fd); }

void td_store_rescan(td_store_t *s) {
    pthread_mutex_lock(&s->lock);
    s->scan_wanted = true;
    pthread_mutex_unlock(&s->lock);
    td_keeper_wake(s);
}

static void watch_one(td_store_t *s, const char *dir, bool *fresh) {
    int wd = inotify_add_watch(s->watch_fd, dir, MASK); /* numbers rise; a folder that is watched keeps its own */
    if (wd <= s->last_watch) return;
    s->last_watch = wd;
    *fresh = true;
}

/* Is any of them new? */
static bool watch_all(td_store_t *s) {
    bool fresh = false;
    if (s->watch_fd < 0) return false;
    watch_one(s, s->opts.dir, &fresh);
    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < s->n_models; i++) {
        const td_named_t *m = s->models[i];
        if (!m->on_disk) continue;
        watch_one(s, m->dir, &fresh);
        for (uint32_t k = 0; k < m->n; k++)
            if (m->versions[k]->on_disk) watch_one(s, m->versions[k]->dir, &fresh);
    }
    pthread_mutex_unlock(&s->lock);
    return fresh;
}

static bool drain_events(td_store_t *s) {
    char buf[4096] __attribute__((aligned(8)));
    bool any = false;
    while (s->watch_fd >= 0 && read(s->watch_fd, buf, sizeof buf) > 0) any = true;
    return any;
}

/* Once more where a folder was new: what came into it before it was watched made no event. */
static void look(td_store_t *s) {
    td_err_t err = {0};
    td_command_t *done = NULL;
    bool again = true;
    td_status_t st = TD_OK;
    watch_all(s);
    for (int i = 0; i < 4 && again && st == TD_OK; i++) {
        st = td_store_scan(s, &err);
        again = watch_all(s);
    }
    if (st != TD_OK) td_store_event(s, TD_EVENT_STORE, "", "", err.text, 0, 0);
    pthread_mutex_lock(&s->lock);
    s->looked = true;
    td_command_run_all(s, &done);
    pthread_mutex_unlock(&s->lock);
    td_command_done(done);
    td_store_quiet(s);
}

/* Models that nobody has used for their idle_unload_ms; lock held. */
static void unload_idle(td_store_t *s, uint64_t now, uint64_t *next) {
    for (uint32_t i = 0; i < s->n_models; i++) {
        td_named_t *m = s->models[i];
        uint64_t idle = m->config.idle_unload_ms * 1000000u;
        for (uint32_t k = 0; idle && k < m->n; k++) {
            td_version_t *v = m->versions[k];
            if (!v->resident || td_version_pinned(v)) continue;
            bool busy = v->resident->refs != 1;
            uint64_t used = busy ? now : v->resident->used_ns;
            if (!busy && now - used >= idle) {
                v->evicted = true;
                snprintf(v->reason, sizeof v->reason, "unloaded, as nobody used it; the next request loads it again");
                td_version_retire(s, v);
            } else if (used + idle < *next) {
                *next = used + idle;
            }
        }
    }
}

static void cancel_late(td_store_t *s, uint64_t now, uint64_t *next) {
    for (uint32_t i = 0; i < s->n_models; i++)
        for (uint32_t k = 0; k < s->models[i]->n; k++) {
            td_version_t *v = s->models[i]->versions[k];
            uint64_t deadline = v->has_task ? v->task.deadline_ns : 0;
            if (!deadline || v->wants) continue; /* a request waits for it too */
            if (deadline <= now) td_load_unqueue(s, v);
            else if (deadline < *next) *next = deadline;
        }
}

static uint64_t look_after(td_store_t *s) {
    uint64_t next = UINT64_MAX;
    pthread_mutex_lock(&s->lock);
    uint64_t now = td_store_now(s); /* with the lock: no use is later */
    unload_idle(s, now, &next);
    td_sequence_expire(s, now, &next);
    cancel_late(s, now, &next);
    pthread_mutex_unlock(&s->lock);
    return next;
}

static int wait_ms(uint64_t until, uint64_t now) {
    if (until == UINT64_MAX) return 60000;
    uint64_t ms = until > now ? (until - now) / 1000000u + 1 : 0;
    return ms > 60000 ? 60000 : (int)ms;
}

static void *keeper_main(void *arg) {
    td_store_t *s = arg;
    uint64_t scan_at = 0, every = (uint64_t)s->opts.rescan_ms * 1000000u;
    for (bool first = true;; first = false) {
        pthread_mutex_lock(&s->lock);
        bool closing = s->closing, wanted = s->scan_wanted;
        if (wanted || first) s->scan_wanted = false, s->scanning = true;
        pthread_mutex_unlock(&s->lock);
        if (closing) return NULL;
        if (first || wanted || scan_at <= td_store_now(s)) {
            drain_events(s);
            look(s);
            scan_at = every ? td_store_now(s) + every : UINT64_MAX;
        }
        pthread_mutex_lock(&s->lock);
        s->scanning = false;
        pthread_cond_broadcast(&s->quiet);
        pthread_mutex_unlock(&s->lock);
        uint64_t next = look_after(s);
        td_store_quiet(s);
        struct pollfd p[2] = {{.fd = s->wake_fd, .events = POLLIN}, {.fd = s->watch_fd, .events = POLLIN}};
        poll(p, 2, wait_ms(next < scan_at ? next : scan_at, td_store_now(s)));
        uint64_t count;
        if (p[0].revents && read(s->wake_fd, &count, sizeof count) < 0) continue;
        if (p[1].revents && drain_events(s) &&
            scan_at > td_store_now(s) + SETTLE_NS) scan_at = td_store_now(s) + SETTLE_NS;
    }
}

td_status_t td_keeper_start(td_store_t *s, td_err_t *err) {
    sigset_t all, old;
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->wake_fd < 0) return td_fail(err, TD_IO, "eventfd: %s", strerror(errno));
    if (s->opts.watch) s->watch_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK); /* without it there are rescans */
    s->scanning = true;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int e = pthread_create(&s->keeper, NULL, keeper_main, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    s->has_keeper = !e;
    return e ? td_fail(err, TD_NOMEM, "the store's thread: %s", strerror(e)) : TD_OK;
}

void td_keeper_stop(td_store_t *s) {
    td_keeper_wake(s);
    if (s->has_keeper) pthread_join(s->keeper, NULL);
    if (s->wake_fd >= 0) close(s->wake_fd);
    if (s->watch_fd >= 0) close(s->watch_fd);
    s->has_keeper = false;
    s->wake_fd = s->watch_fd = -1;
}
