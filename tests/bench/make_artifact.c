/* SPDX-License-Identifier: Apache-2.0 */
/* make-artifact: a large artifact that is made, not compiled, and runs on the host device with a known answer.
 *
 * The program has N constants of f32, as XLA writes them (literals of the HLO module, an entry each in `constants`),
 * and copies: output 0 holds each constant's first element, output 1 each one's last, output 2 the input. What the
 * outputs must be is written beside it (--expect), from the generated numbers and not by the runtime. */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/safetensors.h"
#include "tests/bench/made.h"

typedef struct args {
    const char *out, *expect, *inputs, *compression, *form, *name;
    uint64_t bytes, seed, of;
    uint32_t n;
    double share;
} args_t;

static void die(const char *what) {
    fprintf(stderr, "make-artifact: %s\n", what);
    exit(1);
}
static void check(td_status_t s, const td_err_t *err) {
    if (s != TD_OK) die(err->text);
}

static td_status_t write_fd(void *ctx, const void *data, size_t size, td_err_t *err) {
    const char *p = data;
    while (size) {
        ssize_t k = write(*(int *)ctx, p, size);
        if (k < 0 && errno != EINTR) return td_fail(err, TD_IO, "write: %s", strerror(errno));
        if (k > 0) p += k, size -= (size_t)k;
    }
    return TD_OK;
}

static void write_artifact(const args_t *args, float *const *numbers, uint64_t m) {
    td_err_t err = {0};
    td_compression_t c = {0};
    td_write_form_t form = TD_WRITE_RIEGELI_SPLIT;
    td_rope_t file;
    check(td_compression_parse(args->compression, &c, &err), &err);
    check(td_write_form_parse(args->form, &form, &err), &err);
    td_rope_init(&file, td_alloc_default());
    check(made_write(args->name, numbers, args->n, m, form, c, &file, &err), &err);
    int fd = open(args->out, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0) die(strerror(errno));
    td_sink_t sink = {write_fd, &fd};
    check(td_rope_write(&file, &sink, &err), &err);
    close(fd);
    td_rope_deinit(&file);
}

static void write_tensors(const char *path, const char *const *names, const float *const *data, const uint64_t *n,
                          uint32_t count) {
    td_st_tensor_t t[3] = {0};
    int64_t dims[3];
    td_err_t err = {0};
    for (uint32_t i = 0; i < count; i++) {
        dims[i] = (int64_t)n[i];
        t[i].name = names[i];
        t[i].dtype = "F32";
        t[i].rank = 1;
        t[i].dims = &dims[i];
        t[i].data = data[i];
        t[i].bytes = n[i] * 4;
    }
    check(td_st_write(path, t, count, &err), &err);
}

static void write_expected(const args_t *a, float *const *numbers, uint64_t m) {
    static const float x[MADE_INPUT] = {1.5f, -2.0f, 0.25f, 1024.0f};
    static const char *const names[3] = {"0", "1", "2"};
    float *first = malloc(a->n * sizeof *first), *last = malloc(a->n * sizeof *last);
    if (!first || !last) die("out of memory");
    for (uint32_t i = 0; i < a->n; i++) first[i] = numbers[i][0], last[i] = numbers[i][m - 1];
    const float *out[3] = {first, last, x}, *in[1] = {x};
    uint64_t n[3] = {a->n, a->n, MADE_INPUT}, n_in[1] = {MADE_INPUT};
    if (a->expect) write_tensors(a->expect, names, out, n, 3);
    if (a->inputs) write_tensors(a->inputs, names, in, n_in, 1);
    free(first);
    free(last);
}

static void make(const args_t *args) {
    uint64_t m = args->bytes / args->n / 4;
    float **numbers = calloc(args->n, sizeof *numbers);
    uint32_t shared = (uint32_t)(args->share * args->n + 0.5);
    if (!numbers) die("out of memory");
    for (uint32_t i = 0; i < args->n; i++) {
        numbers[i] = malloc((size_t)m * 4);
        if (!numbers[i]) die("out of memory");
        made_fill(numbers[i], m, i < shared ? args->of : args->seed, i);
    }
    write_artifact(args, numbers, m);
    write_expected(args, numbers, m);
    for (uint32_t i = 0; i < args->n; i++) free(numbers[i]);
    free(numbers);
}

enum { EXPECT = 256, INPUTS, OF, NAME };
static const struct argp_option options[] = {
    {"bytes", 'b', "N[K|M|G]", 0, "Of all constants together (64M)", 0},
    {"constants", 'n', "N", 0, "How many (16)", 0},
    {"seed", 's', "N", 0, "Of the numbers (1)", 0},
    {"share", 'S', "FRACTION", 0, "So many of the first constants are those of another seed", 0},
    {"of", OF, "SEED", 0, "That seed", 0},
    {"compression", 'c', "METHOD", 0, "snappy (default), none, zstd[:L], brotli[:L]", 0},
    {"form", 'f', "FORM", 0, "As of thunkctl convert (riegeli-split)", 0},
    {"name", NAME, "NAME", 0, "Of the module (made)", 0},
    {"expect", EXPECT, "FILE", 0, "Write the right outputs there, as safetensors", 0},
    {"inputs", INPUTS, "FILE", 0, "Write the input there", 0},
    {0},
};

static uint64_t number(const char *s, struct argp_state *st) {
    char *end;
    uint64_t v = strtoull(s, &end, 10);
    unsigned shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    if (end == s || end[shift != 0]) argp_error(st, "\"%s\" is no number", s);
    return v << shift;
}

static error_t parse(int key, char *arg, struct argp_state *st) {
    args_t *a = st->input;
    switch (key) {
    case 'b': a->bytes = number(arg, st); break;
    case 'n': a->n = (uint32_t)number(arg, st); break;
    case 's': a->seed = number(arg, st); break;
    case 'S': a->share = atof(arg); break;
    case OF: a->of = number(arg, st); break;
    case 'c': a->compression = arg; break;
    case 'f': a->form = arg; break;
    case NAME: a->name = arg; break;
    case EXPECT: a->expect = arg; break;
    case INPUTS: a->inputs = arg; break;
    case ARGP_KEY_ARG: a->out = arg; break;
    case ARGP_KEY_END:
        if (!a->out || !a->n || a->bytes / 4 < a->n || a->share < 0 || a->share > 1) argp_usage(st);
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

int main(int argc, char **argv) {
    args_t a = {.bytes = 64 << 20, .n = 16, .seed = 1, .compression = "snappy", .form = "riegeli-split",
                .name = "made"};
    const struct argp p = {options, parse, "RESULT", "Makes an artifact of constants.", NULL, NULL, NULL};
    argp_parse(&p, argc, argv, 0, NULL, &a);
    make(&a);
    return 0;
}
