/* SPDX-License-Identifier: Apache-2.0 */
/* Loading holds an artifact's payloads once and little else: resident memory of a process that loads, at the end and
 * at the worst moment; and a second version that shares most of its constants takes the rest only. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/made.h"

enum { N = 20, M = 1 << 20, PAYLOADS = N * M * 4, MIB = 1 << 20 }; /* 80 MiB */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 }; /* then memory is not what it is */
#else
enum { SANITIZED = 0 };
#endif

static uint64_t status(const char *name) {
    char line[256];
    unsigned long long v = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, name, strlen(name))) sscanf(line + strlen(name), ": %llu", &v);
    if (f) fclose(f);
    return v * 1024;
}

static td_status_t write_fd(void *ctx, const void *data, size_t size, td_err_t *err) {
    ck_assert_int_eq(write(*(int *)ctx, data, size), (ssize_t)size);
    (void)err;
    return TD_OK;
}

/* The first `shared` constants are those of seed 1. */
static void make(char *path, const char *compression, uint64_t seed, uint32_t shared) {
    float *numbers[N];
    td_compression_t c = {0};
    td_rope_t rope;
    td_err_t err = {0};
    int fd = mkstemp(path);
    td_sink_t sink = {write_fd, &fd};
    ck_assert_int_ge(fd, 0);
    for (uint32_t i = 0; i < N; i++) {
        numbers[i] = malloc(M * 4);
        made_fill(numbers[i], M, i < shared ? 1 : seed, i);
    }
    td_rope_init(&rope, td_alloc_default());
    ck_assert_int_eq(td_compression_parse(compression, &c, &err), TD_OK);
    td_status_t s = made_write("made", numbers, N, M, TD_WRITE_RIEGELI_SPLIT, c, &rope, &err);
    ck_assert_msg(s == TD_OK && td_rope_write(&rope, &sink, &err) == TD_OK, "%s", err.text);
    td_rope_deinit(&rope);
    close(fd);
    for (uint32_t i = 0; i < N; i++) free(numbers[i]);
}

typedef struct found {
    uint64_t growth, peak, second, bytes;
} found_t;

static td_artifact_t *load(const char *path, td_payload_table_t *t) {
    td_artifact_t *a = NULL;
    td_err_t err = {0};
    if (td_artifact_open_file(path, t, td_alloc_default(), &a, &err) != TD_OK) {
        fprintf(stderr, "%s\n", err.text);
        _exit(1);
    }
    return a;
}

/* In a process of its own, whose highest mark is its own. */
static found_t measure(const char *one, const char *two) {
    found_t *f = mmap(NULL, sizeof *f, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(f != MAP_FAILED);
    pid_t pid = fork();
    if (pid == 0) {
        td_payload_table_t *t = NULL;
        if (td_payload_table_create(td_alloc_default(), &t, NULL) != TD_OK) _exit(1);
        uint64_t before = status("VmRSS"), high = status("VmHWM");
        td_artifact_t *a = load(one, t);
        f->growth = status("VmRSS") - before;
        f->peak = status("VmHWM") > high ? status("VmHWM") - before : 0;
        uint64_t rss = status("VmRSS");
        td_artifact_t *b = load(two, t);
        f->second = status("VmRSS") > rss ? status("VmRSS") - rss : 0;
        td_payload_table_stats(t, NULL, &f->bytes, NULL);
        td_artifact_close(a);
        td_artifact_close(b);
        td_payload_table_destroy(t);
        _exit(0);
    }
    int code = 1;
    ck_assert(pid > 0 && waitpid(pid, &code, 0) == pid);
    ck_assert_int_eq(code, 0);
    found_t copy = *f;
    munmap(f, sizeof *f);
    return copy;
}

static const char *const compressions[] = {"snappy", "none", "zstd:1"};

START_TEST(memory_of_a_load) {
    char one[] = "/tmp/thunkd-load-XXXXXX", two[] = "/tmp/thunkd-load-XXXXXX";
    make(one, compressions[_i], 1, 0);
    make(two, compressions[_i], 2, N - 1);
    found_t f = measure(one, two);
    unlink(one);
    unlink(two);
    ck_assert_uint_eq(f.bytes, PAYLOADS + M * 4ull);
    if (SANITIZED) return;
    ck_assert_uint_ge(f.growth, PAYLOADS - 4 * MIB); /* the measure measures */
    ck_assert_uint_le(f.growth, PAYLOADS / 100 * 102ull + 16 * MIB);
    ck_assert_uint_le(f.peak, PAYLOADS / 100 * 110ull + 32 * MIB);
    ck_assert_uint_le(f.second, PAYLOADS / 100 * 7ull + 4 * MIB);
}
END_TEST

int main(void) {
    TCase *t = tcase_create("load_memory");
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, memory_of_a_load, 0, 3);
    Suite *s = suite_create("load_memory");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
