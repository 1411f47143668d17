/* SPDX-License-Identifier: Apache-2.0 */
#include "base/guard.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ASan has a SIGBUS handler of its own and must let it be replaced. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "handle_sigbus=1:allow_user_segv_handler=1"; }

enum { PAGE = 4096, PAGES = 64 };
static char path[64];
static td_err_t err;

/* A file of `pages` pages, page i full of the byte i + 1. */
static void write_file(const char *name, int pages) {
    FILE *f = fopen(name, "wb");
    ck_assert_ptr_nonnull(f);
    for (int i = 0; i < pages; i++) {
        uint8_t b[PAGE];
        memset(b, i + 1, sizeof b);
        ck_assert_uint_eq(fwrite(b, 1, sizeof b, f), sizeof b);
    }
    ck_assert_int_eq(fclose(f), 0);
}

static void setup(void) {
    strcpy(path, "/tmp/td_guard_XXXXXX");
    close(mkstemp(path));
    write_file(path, PAGES);
    err = (td_err_t){0};
}
static void teardown(void) { unlink(path); }

static td_guard_t *map(const char *name) {
    td_guard_t *g = NULL;
    ck_assert_msg(td_guard_map(name, &g, &err) == TD_OK, "%s", err.text);
    return g;
}

START_TEST(maps_a_file) {
    td_guard_t *g = map(path);
    td_span_t b = td_guard_bytes(g);
    ck_assert_uint_eq(b.size, PAGE * PAGES);
    ck_assert_uint_eq(b.data[0], 1);
    ck_assert_uint_eq(b.data[b.size - 1], PAGES);
    ck_assert_ptr_eq(td_guard_find(b.data), g);
    ck_assert_ptr_eq(td_guard_find(b.data + b.size - 1), g);
    ck_assert_ptr_ne(td_guard_find(b.data + b.size), g);
    ck_assert_str_eq(td_guard_path(g), path);
    td_guard_want(g, b.data + 5, 9000);
    td_guard_drop(g, b.data + 5, 9000);
    ck_assert_uint_eq(b.data[5000], 2);
    ck_assert_int_eq(td_guard_check(g, &err), TD_OK);
    td_guard_release(g);
    ck_assert_ptr_null(td_guard_find(b.data));
    td_guard_release(NULL);
}
END_TEST

START_TEST(one_file_is_mapped_once) {
    char link_path[80];
    snprintf(link_path, sizeof link_path, "%s.link", path);
    ck_assert_int_eq(symlink(path, link_path), 0);
    td_guard_t *a = map(path), *b = map(link_path);
    unlink(link_path);
    ck_assert_ptr_eq(a, b);
    td_guard_t *c = td_guard_retain(a);
    td_guard_release(a);
    td_guard_release(b);
    ck_assert_uint_eq(td_guard_bytes(c).data[0], 1);
    int fd = open(path, O_WRONLY); /* a different time: a different mapping */
    struct timespec t[2] = {{1, 0}, {1, 0}};
    ck_assert_int_eq(futimens(fd, t), 0);
    close(fd);
    td_guard_t *d = map(path);
    ck_assert_ptr_ne(c, d);
    ck_assert_int_eq(td_guard_check(d, &err), TD_OK);
    ck_assert_int_eq(td_guard_check(c, &err), TD_IO);
    ck_assert_ptr_nonnull(strstr(err.text, "was written to"));
    td_guard_release(c);
    td_guard_release(d);
}
END_TEST

START_TEST(a_cut_file_reads_zeros) {
    td_guard_t *g = map(path);
    td_span_t b = td_guard_bytes(g);
    uint64_t before = td_guard_faults();
    ck_assert_int_eq(truncate(path, PAGE + 100), 0);
    ck_assert(!td_guard_faulted(g));
    ck_assert_uint_eq(b.data[0], 1); /* what is still there */
    ck_assert_uint_eq(b.data[PAGE + 99], 2);
    ck_assert_uint_eq(b.data[PAGE + 100], 0); /* within the last page the system itself gives zeros */
    ck_assert_uint_eq(td_guard_faults(), before);
    ck_assert_int_eq(td_guard_check(g, &err), TD_IO); /* seen without running into it */
    ck_assert_ptr_nonnull(strstr(err.text, path));
    errno = 77;
    ck_assert_uint_eq(*(volatile const uint8_t *)(b.data + 40 * PAGE + 3), 0);
    ck_assert_int_eq(errno, 77);
    ck_assert(td_guard_faulted(g));
    ck_assert_uint_eq(td_guard_faults(), before + 1);
    for (size_t i = 2 * PAGE; i < b.size; i += PAGE) ck_assert_uint_eq(b.data[i], 0);
    ck_assert_uint_eq(td_guard_faults(), before + 1); /* one for all that is gone */
    ck_assert_int_eq(td_guard_check(g, &err), TD_IO);
    write_file(path, PAGES); /* back again, but not in this mapping */
    ck_assert_int_eq(td_guard_check(g, &err), TD_IO);
    ck_assert_uint_eq(b.data[10 * PAGE], 0);
    td_guard_t *h = map(path);
    ck_assert_ptr_ne(g, h);
    ck_assert_uint_eq(td_guard_bytes(h).data[10 * PAGE], 11);
    ck_assert_int_eq(td_guard_check(h, &err), TD_OK);
    td_guard_release(h);
    td_guard_release(g);
}
END_TEST

typedef struct reader {
    pthread_t thread;
    td_guard_t *g;
    uint64_t sum;
} reader_t;

static void *read_all(void *ctx) {
    reader_t *r = ctx;
    td_span_t b = td_guard_bytes(r->g);
    for (size_t i = 0; i < b.size; i += PAGE) r->sum += *(volatile const uint8_t *)(b.data + i);
    for (int i = 0; i < 50; i++) { /* the table changes meanwhile */
        td_guard_t *g = NULL;
        if (td_guard_map("/proc/self/exe", &g, NULL) != TD_OK) return NULL;
        r->sum += td_guard_find(td_guard_bytes(g).data + 1) != g;
        td_guard_release(g);
    }
    return NULL;
}

START_TEST(many_threads_fault_at_once) {
    for (int round = 0; round < 10; round++) {
        write_file(path, PAGES);
        td_guard_t *g = map(path);
        ck_assert_int_eq(truncate(path, 0), 0);
        reader_t r[8] = {0};
        for (int i = 0; i < 8; i++) {
            r[i].g = g;
            ck_assert_int_eq(pthread_create(&r[i].thread, NULL, read_all, &r[i]), 0);
        }
        for (int i = 0; i < 8; i++) {
            pthread_join(r[i].thread, NULL);
            ck_assert_uint_eq(r[i].sum, 0);
        }
        ck_assert(td_guard_faulted(g));
        td_guard_release(g);
    }
}
END_TEST

static sigjmp_buf jump;
static volatile sig_atomic_t others;
static void *volatile other_address;

static void other_handler(int sig, siginfo_t *info, void *context) {
    (void)sig, (void)context;
    others++;
    other_address = info->si_addr;
    if (info->si_code > 0) siglongjmp(jump, 1);
}

START_TEST(other_addresses_go_to_the_other_handler) {
    struct sigaction sa = {.sa_sigaction = other_handler, .sa_flags = SA_SIGINFO};
    ck_assert_int_eq(sigaction(SIGBUS, &sa, NULL), 0);
    td_guard_t *g = map(path);
    char name[] = "/tmp/td_guard_other_XXXXXX";
    int fd = mkstemp(name);
    ck_assert_int_eq(ftruncate(fd, PAGE), 0);
    uint8_t *p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(p, MAP_FAILED);
    ck_assert_int_eq(ftruncate(fd, 0), 0);
    if (!sigsetjmp(jump, 1)) {
        (void)*(volatile uint8_t *)p;
        ck_abort_msg("no fault");
    }
    ck_assert_int_eq(others, 1);
    ck_assert_ptr_eq(other_address, p);
    ck_assert_int_eq(raise(SIGBUS), 0); /* sent, not raised by an address */
    ck_assert_int_eq(others, 2);
    ck_assert(!td_guard_faulted(g));
    td_guard_release(g);
    munmap(p, PAGE);
    close(fd), unlink(name);
}
END_TEST

#ifndef __SANITIZE_ADDRESS__ /* which has a handler there */
START_TEST(without_another_handler_it_kills) {
    struct sigaction dfl = {.sa_handler = SIG_DFL};
    ck_assert_int_eq(sigaction(SIGBUS, &dfl, NULL), 0);
    td_guard_t *g = map(path);
    (void)g;
    int fd = open(path, O_RDONLY);
    uint8_t *p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(p, MAP_FAILED);
    ck_assert_int_eq(truncate(path, 0), 0);
    unlink(path);
    (void)*(volatile uint8_t *)p;
}
END_TEST
#endif

static void expect(const char *name, td_status_t code, const char *cause) {
    td_guard_t *g = NULL;
    ck_assert_int_eq(td_guard_map(name, &g, &err), code);
    ck_assert_ptr_null(g);
    ck_assert_msg(strstr(err.text, cause) != NULL, "%s: '%s' does not tell '%s'", name, err.text, cause);
}

START_TEST(what_cannot_be_mapped) {
    char name[80];
    snprintf(name, sizeof name, "%s.x", path);
    expect("/nonexistent/x", TD_IO, "No such file");
    expect("/tmp", TD_IO, "not a regular file");
    expect("/dev/null", TD_IO, "not a regular file");
    ck_assert_int_eq(mkfifo(name, 0600), 0);
    expect(name, TD_IO, "not a regular file"); /* and does not wait for a writer */
    unlink(name);
    ck_assert_int_eq(symlink("/tmp", name), 0);
    expect(name, TD_IO, "not a regular file");
    unlink(name);
    ck_assert_int_eq(symlink(name, name), 0);
    expect(name, TD_IO, "symbolic links");
    unlink(name);
    ck_assert_int_eq(truncate(path, 0), 0);
    expect(path, TD_MALFORMED, "empty");
    if (truncate(path, (off_t)1 << 47) == 0) expect(path, TD_LIMIT, "more than one file may have");
}
END_TEST

int main(void) {
    Suite *s = suite_create("guard");
    TCase *t = tcase_create("guard");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, maps_a_file);
    tcase_add_test(t, one_file_is_mapped_once);
    tcase_add_test(t, a_cut_file_reads_zeros);
    tcase_add_test(t, many_threads_fault_at_once);
    tcase_add_test(t, other_addresses_go_to_the_other_handler);
#ifndef __SANITIZE_ADDRESS__
    tcase_add_test_raise_signal(t, without_another_handler_it_kills, SIGBUS);
#endif
    tcase_add_test(t, what_cannot_be_mapped);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
