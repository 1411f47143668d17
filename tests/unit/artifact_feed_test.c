/* SPDX-License-Identifier: Apache-2.0 */
/* Artifacts read as streams: every form and compression through reads of odd sizes, cut, damaged, changed while they
 * are read, with failing memory, refusing budgets and cancels. */
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "feed_case.h"

static void opens(file_t *f, const char *what) {
    static const size_t steps[] = {0, 1009, 65536};
    for (size_t k = 0; k < sizeof steps / sizeof *steps; k++) {
        td_artifact_t *a = NULL, *b = NULL;
        td_err_t err = {0};
        _Atomic(uint64_t) progress = 0;
        f->step = steps[k];
        budget.takes = 0;
        ck_assert_msg(open_with(f, (td_artifact_opts_t){.charge = &charge, .progress = &progress}, &a, &err) == TD_OK,
                      "%s, reads of %zu: %s", what, steps[k], err.text);
        holds_numbers(a);
        ck_assert_uint_eq(progress, f->size);
        ck_assert_uint_eq(budget.taken, N * td_payload_cost(M * 4));
        uint64_t takes = budget.takes, total = 0, resident = 0;
        ck_assert_int_eq(open_with(f, (td_artifact_opts_t){.charge = &charge}, &b, &err), TD_OK);
        ck_assert_uint_eq(budget.takes, takes); /* the second took no payload memory, not even for a moment */
        td_artifact_payloads(b, &total, &resident);
        ck_assert_uint_eq(total, N * td_payload_cost(M * 4));
        ck_assert_uint_eq(resident, total);
        td_artifact_close(b);
        ck_assert_msg(td_artifact_open((td_span_t){f->data, f->size}, table, &counter.base, &b, &err) == TD_OK, "%s",
                      err.text);
        ck_assert_ptr_eq(b->payloads[0], a->payloads[0]);
        td_artifact_close(b);
        td_artifact_close(a);
        nothing_left();
    }
}

START_TEST(forms_and_compressions) {
    file_t f = file_of(forms[_i / COMPRESSIONS], compressions[_i % COMPRESSIONS]);
    opens(&f, td_write_form_name(forms[_i / COMPRESSIONS]));
    free(f.data);
}
END_TEST

/* ---- envelopes ---- */

static file_t wrapped(const file_t *f, const void *head, size_t head_size, const void *tail, size_t tail_size) {
    file_t w = {.size = head_size + f->size + tail_size, .cut = SIZE_MAX};
    w.data = malloc(w.size);
    memcpy(w.data, head, head_size);
    memcpy(w.data + head_size, f->data, f->size);
    memcpy(w.data + head_size + f->size, tail, tail_size);
    return w;
}
static file_t in_pickle(const file_t *f) {
    uint8_t head[] = "\x80\x04\x8c\x04" "exec\x94\x8e________";
    uint64_t n = f->size;
    memcpy(head + sizeof head - 9, &n, 8);
    return wrapped(f, head, sizeof head - 1, "\x94\x86\x94Q.", 5);
}
static file_t in_ifrt(const file_t *f) {
    return wrapped(f, "\x06\x0a\x04" "meta", 7, "", 0);
}
static file_t in_cache(const file_t *f, bool zstd) {
    file_t plain = wrapped(f, "\0\0\0\1\x06\x0a\x04" "meta", 11, "", 0), w = {.cut = SIZE_MAX};
    uLongf n = compressBound(plain.size) + 1000;
    w.data = malloc(n);
    if (zstd) w.size = ZSTD_compress(w.data, n, plain.data, plain.size, 1);
    else ck_assert_int_eq(compress2(w.data, &n, plain.data, plain.size, 1), Z_OK);
    if (!zstd) w.size = n;
    free(plain.data);
    return w;
}

START_TEST(envelopes) {
    file_t f = file_of(_i & 1 ? TD_WRITE_PLAIN : TD_WRITE_RIEGELI_SPLIT, "snappy");
    file_t w[5] = {in_pickle(&f), in_ifrt(&f), in_cache(&f, true), in_cache(&f, false)};
    w[4] = in_pickle(&w[1]);
    for (int i = 0; i < 5; i++) {
        opens(&w[i], i < 2 ? (i ? "ifrt" : "pickle") : i < 4 ? "cache" : "ifrt in pickle");
        td_artifact_t *a = NULL;
        td_err_t err = {0};
        for (size_t cut = w[i].size - 1; cut; cut /= 3) { /* cut short, as a file of that size */
            size_t whole = w[i].size;
            w[i].size = cut;
            ck_assert_int_ne(open_with(&w[i], (td_artifact_opts_t){0}, &a, &err), TD_OK);
            w[i].size = whole;
        }
        free(w[i].data);
    }
    free(f.data);
}
END_TEST

/* ---- damage ---- */

START_TEST(truncated_files) {
    file_t f = file_of(forms[_i / COMPRESSIONS], compressions[_i % COMPRESSIONS]);
    size_t whole = f.size, step = 97 * 13;
    for (size_t cut = (size_t)_i * 97; cut < whole; cut += cut < 5000 || whole - cut < 5000 ? 97 : step) {
        td_artifact_t *a = NULL;
        td_err_t err = {0};
        f.size = cut;
        td_status_t s = open_with(&f, (td_artifact_opts_t){.charge = &charge}, &a, &err);
        ck_assert_msg(s == TD_MALFORMED, "%zu of %zu bytes: %s: %s", cut, whole, td_status_name(s), err.text);
        ck_assert_ptr_null(a);
        f.size = whole;
        f.cut = cut; /* the same file, whose end goes away while it is read */
        s = open_with(&f, (td_artifact_opts_t){.charge = &charge}, &a, &err);
        ck_assert_msg(s == TD_IO && strstr(err.text, "shrank"), "%zu of %zu bytes: %s", cut, whole, err.text);
        f.cut = SIZE_MAX;
        nothing_left();
    }
    free(f.data);
}
END_TEST

/* Any damaged byte of a chunk's data is found out, and named as what it is. */
START_TEST(damaged_chunks) {
    file_t f = file_of(TD_WRITE_RIEGELI_SPLIT, compressions[_i]);
    for (size_t at = 70; at < f.size; at += at < 3000 || f.size - at < 3000 ? 29 : 4999) {
        td_artifact_t *a = NULL;
        td_err_t err = {0};
        f.data[at] ^= 0x04;
        td_status_t s = open_with(&f, (td_artifact_opts_t){.charge = &charge}, &a, &err);
        bool named = strstr(err.text, "hash") && strstr(err.text, "not match");
        ck_assert_msg(s == TD_MALFORMED && named, "byte %zu: %s", at, err.text);
        f.data[at] ^= 0x04;
        nothing_left();
    }
    free(f.data);
}
END_TEST

/* ---- what fails on the way ---- */

START_TEST(failing_memory) {
    file_t f = file_of(TD_WRITE_RIEGELI_SPLIT, compressions[_i]);
    td_status_t s = TD_NOMEM;
    for (unsigned n = 1; s != TD_OK; n++) {
        td_artifact_t *a = NULL;
        td_err_t err = {0};
        unsigned long long live = counter.live_bytes;
        counter.fail_at = counter.gets + n;
        s = open_with(&f, (td_artifact_opts_t){.charge = &charge}, &a, &err);
        counter.fail_at = 0;
        ck_assert_msg(s == TD_OK || s == TD_NOMEM || s == TD_LIMIT, "allocation %u: %s", n, err.text);
        td_artifact_close(a);
        ck_assert_uint_eq(counter.live_bytes, live);
        nothing_left();
        ck_assert_uint_lt(n, 1000);
    }
    free(f.data);
}
END_TEST

START_TEST(refusing_budget) {
    file_t f = file_of(TD_WRITE_RIEGELI_SPLIT, "snappy");
    td_status_t s = TD_LIMIT;
    for (unsigned n = 1; s != TD_OK; n++) {
        td_artifact_t *a = NULL;
        td_err_t err = {0};
        budget.takes = 0;
        budget.refuse_at = n;
        s = open_with(&f, (td_artifact_opts_t){.charge = &charge}, &a, &err);
        ck_assert(s == TD_OK ? n == N + 1 : s == TD_LIMIT && strstr(err.text, "budget") && n <= N);
        td_artifact_close(a);
        nothing_left();
    }
    free(f.data);
}
END_TEST

static _Atomic(int) cancel;
static void set_cancel(void) {
    cancel = 1;
}
START_TEST(cancelled) {
    file_t f = file_of(TD_WRITE_RIEGELI_SPLIT, "snappy");
    td_artifact_t *a = NULL;
    td_err_t err = {0};
    f.step = 5000;
    cancel = 1;
    ck_assert_int_eq(open_with(&f, (td_artifact_opts_t){.cancel = &cancel}, &a, &err), TD_CANCELLED);
    ck_assert_uint_eq(f.read_to, 0);
    cancel = 0;
    budget.on_take = set_cancel;
    ck_assert_int_eq(open_with(&f, (td_artifact_opts_t){.cancel = &cancel, .charge = &charge}, &a, &err), TD_CANCELLED);
    ck_assert_uint_lt(f.read_to, f.size);
    budget.on_take = NULL;
    free(f.data);
}
END_TEST

/* ---- real files ---- */

static char path[] = "/tmp/thunkd-feed-XXXXXX";
static void truncate_file(void) {
    ck_assert_int_eq(truncate(path, 100000), 0);
}
static void touch_file(void) {
    struct timespec t[2] = {{1, 0}, {1, 0}};
    ck_assert_int_eq(utimensat(AT_FDCWD, path, t, 0), 0);
}
static void grow_file(void) {
    ck_assert_int_eq(truncate(path, 10 << 20), 0);
}
START_TEST(files_that_change) {
    static void (*const changes[])(void) = {truncate_file, touch_file, grow_file};
    file_t f = file_of(TD_WRITE_RIEGELI_SPLIT, "snappy");
    int fd = mkstemp(path);
    for (int i = 0; i < 4; i++) {
        td_artifact_opts_t o = {.table = table, .alloc = &counter.base, .charge = &charge};
        td_artifact_t *a = NULL;
        td_err_t err = {0};
        ck_assert_int_eq(ftruncate(fd, 0), 0);
        ck_assert_int_eq(pwrite(fd, f.data, f.size, 0), (ssize_t)f.size);
        budget.on_take = i < 3 ? changes[i] : NULL;
        td_status_t s = td_artifact_open_path(path, &o, &a, &err);
        if (i < 3)
            ck_assert_msg(s == TD_IO && strstr(err.text, "changed while being read") && strstr(err.text, path), "%s",
                          err.text);
        else ck_assert_msg(s == TD_OK, "%s", err.text);
        td_artifact_close(a);
        nothing_left();
    }
    close(fd);
    unlink(path);
    free(f.data);
}
END_TEST

int main(void) {
    TCase *t = tcase_create("feed");
    tcase_set_timeout(t, 300);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, forms_and_compressions, 0, FORMS * COMPRESSIONS);
    tcase_add_loop_test(t, envelopes, 0, 2);
    tcase_add_loop_test(t, truncated_files, 0, FORMS * COMPRESSIONS);
    tcase_add_loop_test(t, damaged_chunks, 0, COMPRESSIONS);
    tcase_add_loop_test(t, failing_memory, 0, COMPRESSIONS);
    tcase_add_test(t, refusing_budget);
    tcase_add_test(t, cancelled);
    tcase_add_test(t, files_that_change);
    Suite *s = suite_create("artifact_feed");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
