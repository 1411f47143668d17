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

#include "executable.pb-c.h"
#include "proto/write.h"
#include "store/safetensors.h"

enum { INPUT = 4 }; /* elements of the input */

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

/* ---- numbers ---- */

static uint64_t next(uint64_t *x) { /* splitmix64 */
    uint64_t z = *x += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Finite floats below 2 that no compressor finds anything in but the exponent's first bit. */
static void fill(float *v, uint64_t n, uint64_t seed, uint64_t constant) {
    uint64_t x = seed * 0x2545f4914f6cdd1du + constant * 0x9e3779b97f4a7c15u;
    uint32_t *w = (uint32_t *)v;
    for (uint64_t i = 0; i < n; i += 2) {
        uint64_t z = next(&x) & 0xbfffffffbfffffffu;
        memcpy(w + i, &z, i + 1 < n ? 8 : 4);
    }
}

/* ---- the program, as text ---- */

#define SHAPE "element_type: F32 dimensions: %llu layout { minor_to_major: 0 tail_padding_alignment_in_elements: 1 } " \
              "is_dynamic_dimension: false"
typedef unsigned long long ull;

static void shape(FILE *f, const char *field, uint64_t n) {
    fprintf(f, "%s { " SHAPE " }\n", field, (ull)n);
}
static void result(FILE *f, const char *field, uint32_t n) {
    fprintf(f, "%s { element_type: TUPLE\n", field);
    shape(f, "tuple_shapes", n);
    shape(f, "tuple_shapes", n);
    shape(f, "tuple_shapes", INPUT);
    fputs("}\n", f);
}
static void program_shape(FILE *f, const char *field, const char *parameter, uint32_t n) {
    fprintf(f, "%s {\n", field);
    shape(f, "parameters", INPUT);
    result(f, "result", n);
    if (parameter) fprintf(f, "parameter_names: \"%s\"\n", parameter);
    fputs("}\n", f);
}

/* Ids: 1 the input, 2 its copy, 3 the root, 4 and 5 the concatenations, then four to a constant. */
static ull id_of(uint32_t constant, unsigned what) { return 4294967296u + 8 + 4ull * constant + what; }
static ull fixed(unsigned what) { return 4294967296u + what; }

static void operand_list(FILE *f, uint32_t n, unsigned what) {
    for (uint32_t i = 0; i < n; i++) fprintf(f, "operand_ids: %llu\n", id_of(i, what));
}

static void instructions(FILE *f, uint32_t n, uint64_t m) {
    fputs("instructions { name: \"x\" opcode: \"parameter\"\n", f);
    shape(f, "shape", INPUT);
    fprintf(f, "id: %llu }\ninstructions { name: \"echo\" opcode: \"copy\"\n", fixed(1));
    shape(f, "shape", INPUT);
    fprintf(f, "id: %llu operand_ids: %llu }\n", fixed(2), fixed(1));
    for (uint32_t i = 0; i < n; i++) {
        fprintf(f, "instructions { name: \"constant_%u\" opcode: \"constant\"\n", i);
        shape(f, "shape", m);
        fputs("literal {\n", f);
        shape(f, "shape", m);
        fprintf(f, "}\nid: %llu }\n", id_of(i, 0));
        for (unsigned k = 1; k <= 2; k++) {
            uint64_t at = k == 1 ? 0 : m - 1;
            fprintf(f, "instructions { name: \"%s_%u\" opcode: \"slice\"\n", k == 1 ? "first" : "last", i);
            shape(f, "shape", 1);
            fprintf(f, "slice_dimensions { start: %llu limit: %llu stride: 1 }\nid: %llu operand_ids: %llu }\n", (ull)at,
                    (ull)at + 1, id_of(i, k), id_of(i, 0));
        }
    }
    for (unsigned k = 1; k <= 2; k++) {
        fprintf(f, "instructions { name: \"%s\" opcode: \"concatenate\" dimensions: 0\n", k == 1 ? "firsts" : "lasts");
        shape(f, "shape", n);
        operand_list(f, n, k);
        fprintf(f, "id: %llu }\n", fixed(3 + k));
    }
    result(f, "instructions { name: \"root\" opcode: \"tuple\" shape", n);
    fprintf(f, "id: %llu operand_ids: %llu operand_ids: %llu operand_ids: %llu }\n", fixed(3), fixed(4), fixed(5), fixed(2));
}

static void module(FILE *f, const char *name, uint32_t n, uint64_t m) {
    fprintf(f, "hlo_module_with_config { hlo_module { name: \"%s\" entry_computation_name: \"main\"\n"
               "computations { name: \"main\"\n", name);
    instructions(f, n, m);
    program_shape(f, "program_shape", "x", n);
    fprintf(f, "id: 1 root_id: %llu }\n", fixed(3));
    program_shape(f, "host_program_shape", "x", n);
    fputs("entry_computation_id: 1\n}\nconfig {\n", f);
    program_shape(f, "entry_computation_layout", NULL, n);
    fputs("replica_count: 1 num_partitions: 1\n} }\n", f);
}

static void copy(FILE *f, const char *name, uint32_t number, uint32_t from, uint64_t from_at, uint32_t to, uint64_t to_at,
                 uint64_t elements) {
    fprintf(f, "thunks { thunk_info { profile_annotation: \"%s\" thunk_id: %u } device_to_device_copy_thunk { copy_thunk {\n",
            name, number);
    fprintf(f, "source_buffer { slice { offset: %llu size: %llu buffer_allocation_index: %u element_type: F32 }\n",
            (ull)from_at, (ull)elements * 4, from);
    shape(f, "shape", elements);
    fprintf(f, "} destination_buffer { slice { offset: %llu size: %llu buffer_allocation_index: %u element_type: F32 }\n",
            (ull)to_at, (ull)elements * 4, to);
    shape(f, "shape", elements);
    fprintf(f, "} mem_size: %llu } } }\n", (ull)elements * 4);
}

/* Allocations: 0 the tuple, 1 to 3 the outputs, 4 the input, 5 + i constant i. */
static void executable(FILE *f, const char *name, uint32_t n, uint64_t m) {
    fputs("gpu_executable {\n", f);
    module(f, name, n, m);
    fprintf(f, "gpu_compute_capability { cuda_compute_capability { major: 9 feature_extension: ACCELERATED_FEATURES } }\n"
               "module_name: \"%s\"\n", name);
    program_shape(f, "program_shape", "x", n);
    fprintf(f, "buffer_allocations { values { size: 24 maybe_live_out: true is_tuple: true }\n"
               "values { index: 1 size: %llu maybe_live_out: true }\nvalues { index: 2 size: %llu maybe_live_out: true }\n"
               "values { index: 3 size: %d maybe_live_out: true }\n"
               "values { index: 4 size: %d is_entry_computation_parameter: true }\n",
            4ull * n, 4ull * n, 4 * INPUT, 4 * INPUT);
    for (uint32_t i = 0; i < n; i++)
        fprintf(f, "values { index: %u size: %llu is_constant: true }\n", 5 + i, (ull)m * 4);
    fputs("}\noutput_info_map { shape_index { } output_info { } }\n", f);
    for (int i = 0; i < 3; i++)
        fprintf(f, "output_info_map { shape_index { indexes: %d } output_info { allocation_index: %d } }\n", i, i + 1);
    for (uint32_t i = 0; i < n; i++)
        fprintf(f, "constants { symbol_name: \"buffer_for_constant_%u\" allocation_index: %u }\n", i, 5 + i);
    for (uint32_t i = 0; i < n; i++) {
        copy(f, "firsts", 2 * i + 1, 5 + i, 0, 1, 4ull * i, 1);
        copy(f, "lasts", 2 * i + 2, 5 + i, 4 * (m - 1), 2, 4ull * i, 1);
    }
    copy(f, "echo", 2 * n + 1, 4, 0, 3, 0, INPUT);
    fputs("executable_abi_version { platform_name: \"CUDA\" cuda_platform_version { cuda_toolkit_version: \"12.8.0\"\n"
          "cudnn_version: \"9.10.0\" cub_version: \"3.1.2\" } }\nbuffer_allocations_debug_summary: \"made\\n\"\n}\n", f);
}

static char *text(const args_t *a, uint64_t m, size_t *size) {
    char *p = NULL;
    FILE *f = open_memstream(&p, size);
    if (!f) die("out of memory");
    fputs("executable_and_options { compile_options { executable_build_options { device_ordinal: -1 num_replicas: 1\n"
          "num_partitions: 1 device_assignment { replica_count: 1 computation_count: 1\n"
          "computation_devices { replica_device_ids: 0 } } } profile_version: -1 }\n"
          "pjrt_client_name: \"PjRtStreamExecutorClient\" }\n", f);
    executable(f, a->name, a->n, m);
    if (fclose(f) != 0) die("out of memory");
    return p;
}

/* ---- putting the numbers in ---- */

/* The literal of each constant names a payload, as the reader would leave it. */
static void attach(const td_artifact_t *a, uint32_t n) {
    const Xla__HloModuleProto *mod = a->exe->hlo_module_with_config->hlo_module;
    uint32_t found = 0;
    for (size_t i = 0; i < mod->computations[0]->n_instructions; i++) {
        Xla__HloInstructionProto *in = mod->computations[0]->instructions[i];
        if (!in->literal) continue;
        in->literal->has_f32s_payload = 1;
        in->literal->f32s_payload = found++;
    }
    if (found != n) die("the program lost constants");
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

static void write_artifact(const args_t *args, td_artifact_t *a, float *const *numbers, uint64_t m) {
    td_err_t err = {0};
    td_compression_t c = {0};
    td_write_form_t form = TD_WRITE_RIEGELI_SPLIT;
    td_rope_t file;
    td_payload_t *p = calloc(args->n, sizeof *p);
    const td_payload_t **list = calloc(args->n, sizeof *list), *const *kept = a->payloads;
    if (!p || !list) die("out of memory");
    for (uint32_t i = 0; i < args->n; i++) {
        p[i].bytes = (td_span_t){(const uint8_t *)numbers[i], (size_t)m * 4};
        list[i] = &p[i];
    }
    check(td_compression_parse(args->compression, &c, &err), &err);
    check(td_write_form_parse(args->form, &form, &err), &err);
    uint32_t n_kept = a->n_payloads;
    a->payloads = list;
    a->n_payloads = args->n;
    td_rope_init(&file, td_alloc_default());
    check(td_artifact_write(a, form, c, &file, &err), &err);
    int fd = open(args->out, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0) die(strerror(errno));
    td_sink_t sink = {write_fd, &fd};
    check(td_rope_write(&file, &sink, &err), &err);
    close(fd);
    td_rope_deinit(&file);
    a->payloads = kept;
    a->n_payloads = n_kept;
    free(p);
    free(list);
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
    static const float x[INPUT] = {1.5f, -2.0f, 0.25f, 1024.0f};
    static const char *const names[3] = {"0", "1", "2"};
    float *first = malloc(a->n * sizeof *first), *last = malloc(a->n * sizeof *last);
    if (!first || !last) die("out of memory");
    for (uint32_t i = 0; i < a->n; i++) first[i] = numbers[i][0], last[i] = numbers[i][m - 1];
    const float *out[3] = {first, last, x}, *in[1] = {x};
    uint64_t n[3] = {a->n, a->n, INPUT}, n_in[1] = {INPUT};
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
        fill(numbers[i], m, i < shared ? args->of : args->seed, i);
    }
    size_t size = 0;
    char *program = text(args, m, &size);
    td_payload_table_t *table = NULL;
    td_artifact_t *a = NULL;
    td_err_t err = {0};
    check(td_payload_table_create(td_alloc_default(), &table, &err), &err);
    check(td_artifact_open((td_span_t){(const uint8_t *)program, size}, table, td_alloc_default(), &a, &err), &err);
    attach(a, args->n);
    write_artifact(args, a, numbers, m);
    write_expected(args, numbers, m);
    td_artifact_close(a);
    td_payload_table_destroy(table);
    for (uint32_t i = 0; i < args->n; i++) free(numbers[i]);
    free(numbers);
    free(program);
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
    args_t a = {.bytes = 64 << 20, .n = 16, .seed = 1, .compression = "snappy", .form = "riegeli-split", .name = "made"};
    const struct argp p = {options, parse, "RESULT", "Makes an artifact of constants.", NULL, NULL, NULL};
    argp_parse(&p, argc, argv, 0, NULL, &a);
    make(&a);
    return 0;
}
