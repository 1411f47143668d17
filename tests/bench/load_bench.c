/* SPDX-License-Identifier: Apache-2.0 */
/* load-bench FILE [SIBLING]: what loading an artifact takes, each figure in a process of its own.
 *
 * growth   resident memory that stays, over the payloads' bytes
 * peak     resident memory at the worst moment of the load, over the payloads' bytes
 * speed    bytes per second over those of a bare loop that reads the file and decompresses it into memory that is
 *          there already: no hash, no check, no message
 * sibling  growth when SIBLING is loaded behind FILE into one table, over its payloads
 * headers  time to open for the headers only */
#include <brotli/decode.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <snappy-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zstd.h>

#include "proto/artifact.h"

enum { BLOCK = 65536, BLOCK_HEADER = 24, CHUNK_HEADER = 40, ROUNDS = 5 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
static void die(const char *what) {
    fprintf(stderr, "load-bench: %s\n", what);
    exit(1);
}

/* A line of /proc/self/status, in bytes. */
static uint64_t status(const char *name) {
    char line[256];
    unsigned long long v = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, name, strlen(name))) sscanf(line + strlen(name), ": %llu", &v);
    if (f) fclose(f);
    return v * 1024;
}

/* ---- the bare loop ---- */

static uint64_t load64(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}
static uint64_t varint(const uint8_t **p) {
    uint64_t v = 0;
    for (unsigned s = 0;; s += 7) {
        uint8_t b = *(*p)++;
        v |= (uint64_t)(b & 127) << s;
        if (!(b & 128)) return v;
    }
}

/* n bytes of the file from *pos, without the block headers. */
static void gather(const uint8_t *file, uint64_t *pos, uint8_t *out, uint64_t n) {
    while (n) {
        if (*pos % BLOCK == 0) *pos += BLOCK_HEADER;
        uint64_t k = BLOCK - *pos % BLOCK;
        if (k > n) k = n;
        memcpy(out, file + *pos, k);
        *pos += k, out += k, n -= k;
    }
}

static void decompress(char method, const uint8_t *in, size_t n, uint8_t *out, uint64_t size) {
    size_t got = size;
    bool ok = true;
    if (method == 's') ok = snappy_uncompress((const char *)in, n, (char *)out, &got) == SNAPPY_OK;
    else if (method == 'z') ok = ZSTD_decompress(out, size, in, n) == size;
    else if (method == 'b') ok = BrotliDecoderDecompress(n, in, &got, out) == BROTLI_DECODER_RESULT_SUCCESS;
    if (!ok) die("the bare loop cannot decompress the file");
}

/* All values of all chunks, one behind the other, into out. Returns where in it the second record begins. */
static uint64_t unpack(const uint8_t *file, uint64_t size, uint8_t *tmp, uint8_t *out, uint64_t *total,
                       uint64_t *second_size) {
    uint64_t pos = 0, second = 0, records = 0;
    *total = 0;
    while (pos < size) {
        uint8_t h[CHUNK_HEADER];
        uint64_t begin = pos;
        gather(file, &pos, h, sizeof h);
        uint64_t n = load64(h + 8), decoded = load64(h + 32), count = load64(h + 24) >> 8;
        gather(file, &pos, tmp, n);
        if (h[24] == 'r') {
            const uint8_t *p = tmp, *sizes;
            char method = (char)*p++;
            uint64_t sizes_bytes = varint(&p);
            uint8_t plain[4096];
            sizes = p;
            p += sizes_bytes;
            if (method) {
                uint64_t k = varint(&sizes);
                if (k > sizeof plain) die("too many records for the bare loop");
                decompress(method, sizes, (size_t)(p - sizes), plain, k);
                sizes = plain;
                (void)varint(&p);
            }
            for (uint64_t i = 0; i < count && records + i < 2; i++) {
                uint64_t k = varint(&sizes);
                if (records + i == 0) second = k;
                else *second_size = k;
            }
            records += count;
            if (method) decompress(method, p, n - (size_t)(p - tmp), out + *total, decoded);
            else memcpy(out + *total, p, decoded);
            *total += decoded;
        }
        uint64_t least = begin + count;
        if (pos < least) pos = least;
    }
    return second;
}

static uint8_t *touched(size_t n) {
    uint8_t *p = malloc(n);
    if (!p) die("out of memory");
    memset(p, 1, n);
    return p;
}

static double bare(const char *path, uint64_t size) {
    uint8_t *file = touched(size), *tmp = touched(size + (1 << 20)), *out = touched(size * 2 + (8 << 20)), *end;
    double best = 1e9;
    for (int i = 0; i < ROUNDS; i++) {
        double t = now();
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        for (uint64_t at = 0; at < size;) {
            ssize_t k = pread(fd, file + at, size - at, (off_t)at);
            if (k <= 0) die("cannot read the file");
            at += (uint64_t)k;
        }
        close(fd);
        uint64_t total = 0, inner = 0, inner_size = 0, none = 0;
        uint64_t second = unpack(file, size, tmp, out, &total, &inner_size);
        end = out + total;
        (void)unpack(out + second, inner_size, tmp, end, &inner, &none);
        t = now() - t;
        if (t < best) best = t;
    }
    free(file), free(tmp), free(out);
    return best;
}

/* ---- our reading ---- */

typedef struct result {
    double seconds;
    uint64_t payloads, growth, peak, second_growth, second_payloads, held;
} result_t;

static td_artifact_t *load(const char *path, td_payload_table_t *t, bool headers) {
    td_artifact_t *a = NULL;
    td_err_t err = {0};
    td_artifact_opts_t o = {.table = t, .alloc = td_alloc_default(), .headers_only = headers};
    if (td_artifact_open_path(path, &o, &a, &err) != TD_OK) die(err.text);
    return a;
}
static td_payload_table_t *table(void) {
    td_payload_table_t *t = NULL;
    if (td_payload_table_create(td_alloc_default(), &t, NULL) != TD_OK) die("out of memory");
    return t;
}

static void measure_memory(const char *path, const char *sibling, result_t *r) {
    td_payload_table_t *t = table();
    uint64_t before = status("VmRSS");
    td_artifact_t *a = load(path, t, false), *b = NULL;
    r->peak = status("VmHWM") - before;
    r->growth = status("VmRSS") - before;
    td_payload_table_stats(t, NULL, &r->payloads, NULL);
    if (sibling) {
        uint64_t rss = status("VmRSS"), bytes = r->payloads;
        b = load(sibling, t, false);
        r->second_growth = status("VmRSS") - rss;
        td_payload_table_stats(t, NULL, &r->second_payloads, NULL);
        r->second_payloads -= bytes;
    }
    td_artifact_close(b);
    td_artifact_close(a);
    td_payload_table_destroy(t);
}

static void measure_time(const char *path, bool headers, result_t *r) {
    r->seconds = 1e9;
    for (int i = 0; i < ROUNDS; i++) {
        td_payload_table_t *t = table();
        double start = now();
        td_artifact_t *a = load(path, t, headers);
        double s = now() - start;
        if (s < r->seconds) r->seconds = s;
        td_artifact_close(a);
        td_payload_table_destroy(t);
    }
}

/* What a child finds, in memory that both see. */
static result_t in_child(int what, const char *path, const char *sibling) {
    result_t *r = mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct stat st;
    if (r == MAP_FAILED || stat(path, &st) != 0) die(strerror(errno));
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        if (what == 0) measure_memory(path, sibling, r);
        else if (what == 3) r->seconds = bare(path, (uint64_t)st.st_size);
        else measure_time(path, what == 2, r);
        _exit(0);
    }
    int code = 0;
    if (pid < 0 || waitpid(pid, &code, 0) < 0 || code != 0) die("a measurement failed");
    result_t copy = *r;
    munmap(r, sizeof *r);
    return copy;
}

int main(int argc, char **argv) {
    if (argc != 2 && argc != 3) {
        fputs("usage: load-bench ARTIFACT [SIBLING]\n", stderr);
        return 2;
    }
    struct stat st;
    if (stat(argv[1], &st) != 0) die(strerror(errno));
    result_t m = in_child(0, argv[1], argc > 2 ? argv[2] : NULL), b = in_child(3, argv[1], NULL),
             l = in_child(1, argv[1], NULL), h = in_child(2, argv[1], NULL);
    double mib = 1 << 20, p = (double)m.payloads;
    printf("payloads    %.1f MiB\n", p / mib);
    printf("growth      %.1f MiB, %.3f\n", (double)m.growth / mib, (double)m.growth / p);
    printf("peak        %.1f MiB, %.3f\n", (double)m.peak / mib, (double)m.peak / p);
    printf("load        %.3f s, %.2f GB/s\n", l.seconds, (double)st.st_size / l.seconds / 1e9);
    printf("bare loop   %.3f s, %.2f GB/s\n", b.seconds, (double)st.st_size / b.seconds / 1e9);
    printf("speed       %.2f of the bare loop\n", b.seconds / l.seconds);
    printf("headers     %.4f s\n", h.seconds);
    if (argc > 2)
        printf("sibling     %.1f MiB, %.3f of its payloads (%.1f MiB of them new)\n", (double)m.second_growth / mib,
               (double)m.second_growth / p, (double)m.second_payloads / mib);
    return 0;
}
