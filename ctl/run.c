/* SPDX-License-Identifier: Apache-2.0 */
/* thunkctl run: an artifact on a device of this process, tensors from and to safetensors. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "ctl/judge.h"
#include "ctl/times.h"

typedef struct run_args {
    const char *artifact;
    const char *inputs[CTL_FILES_MAX];
    const char *weights[CTL_FILES_MAX];
    uint32_t n_inputs, n_weights;
    const char *outputs;
    const char *device;
    long repeat, threads;
    bool json, profile;
    ctl_judge_t judge;
    ctl_ffi_t ffi;
} run_args_t;

static const struct argp_option options[] = {
    {"inputs", 'i', "FILE", 0, "Inputs as safetensors, named \"0\", \"1\"… in parameter order or by parameter name; "
                               "may be repeated", 0},
    {"weights", 'w', "FILE", 0, "Like --inputs, for tensors that are the same in every run: what depends on them alone "
                                "is computed once, before the runs; may be repeated", 0},
    {"outputs", 'o', "FILE", 0, "Write the outputs there as safetensors, named \"0\", \"1\"…", 0},
    {"device", 'd', "DEVICE", 0, "host (default), or host:OPTIONS, with commas between them: threads=N; delay=SEED: streams "
                                 "with random delays, for tests of ordering. cuda, or cuda:OPTIONS: the number or UUID of a GPU, or auto; "
                                 "cc=MAJOR.MINOR: one of that compute capability; driver=FILE: instead of libcuda.so.1", 0},
    {"repeat", 'n', "N", 0, "Run N times and print the minimum and the median time", 0},
    {"threads", 't', "N", 0, "Threads that the host device may use: host:threads=N; else one for each CPU", 0},
    {"profile", 'p', NULL, 0, "Print the thunks that took most of the time; of several runs, the first is left out", 0},
    {"json", 'j', NULL, 0, "Print the times, and the profile, as a JSON object", 0},
    CTL_CONTRACT_DATE,
    CTL_FFI_OPTION,
    {0},
};

static long number(const char *arg, struct argp_state *state, const char *what) {
    char *end;
    long v = strtol(arg, &end, 10);
    if (end == arg || *end || v < 1 || v > 1000000) argp_error(state, "%s %s is not a number from 1 to 1000000", what, arg);
    return v;
}

static error_t parse_opt(int key, char *arg, struct argp_state *state) {
    run_args_t *a = state->input;
    switch (key) {
    case 'i':
        if (a->n_inputs == CTL_FILES_MAX) argp_error(state, "more than %d input files", CTL_FILES_MAX);
        a->inputs[a->n_inputs++] = arg;
        return 0;
    case 'w':
        if (a->n_weights == CTL_FILES_MAX) argp_error(state, "more than %d weight files", CTL_FILES_MAX);
        a->weights[a->n_weights++] = arg;
        return 0;
    case 'o': a->outputs = arg; return 0;
    case 'd': a->device = arg; return 0;
    case 'n': a->repeat = number(arg, state, "--repeat"); return 0;
    case 't': a->threads = number(arg, state, "--threads"); return 0;
    case 'p': a->profile = true; return 0;
    case 'j': a->json = true; return 0;
    case 'D': ctl_judge_date(&a->judge, arg, state); return 0;
    case 'f': ctl_ffi_option(&a->ffi, arg, state); return 0;
    case ARGP_KEY_ARG:
        if (a->artifact) argp_error(state, "more than one artifact");
        a->artifact = arg;
        return 0;
    case ARGP_KEY_END:
        if (!a->artifact) argp_error(state, "no artifact given");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {options, parse_opt, "ARTIFACT", "Run an artifact once, or N times for timing.", NULL, NULL, NULL};

/* Everything a run holds; freed in run_close. */
typedef struct run {
    ctl_tensors_t tensors, weights;
    td_device_t *device;
    td_payload_table_t *payloads; /* holds the program's constants */
    td_program_t *program;
    td_binding_t *binding;
    const void **inputs;
    bool *fixed;   /* inputs that are weights */
    void **copies; /* normalised booleans, misaligned tensors */
    const void **outputs;
    double *ms, *cpu_ms;
} run_t;

static void run_close(run_t *r) {
    uint32_t n = r->program ? td_program_input_count(r->program) : 0;
    for (uint32_t i = 0; r->copies && i < n; i++) free(r->copies[i]);
    free(r->copies);
    free(r->inputs);
    free(r->fixed);
    free(r->outputs);
    free(r->ms);
    free(r->cpu_ms);
    td_binding_destroy(r->binding);
    td_program_destroy(r->program);
    td_payload_table_destroy(r->payloads);
    td_device_destroy(r->device);
    ctl_tensors_close(&r->tensors);
    ctl_tensors_close(&r->weights);
}

/* Booleans other than 0 and 1 are normalised in a copy. */
static td_status_t bind_bool(run_t *r, uint32_t i, const td_st_tensor_t *t, td_err_t *err) {
    const uint8_t *p = t->data;
    uint64_t k = 0;
    while (k < t->bytes && p[k] <= 1) k++;
    if (k == t->bytes) return TD_OK;
    uint8_t *q = malloc(t->bytes);
    if (!q) return td_fail(err, TD_NOMEM, "out of memory");
    for (k = 0; k < t->bytes; k++) q[k] = p[k] != 0;
    r->inputs[i] = r->copies[i] = q;
    return TD_OK;
}

/* A file may hold a tensor at any offset. */
static td_status_t bind_aligned(run_t *r, uint32_t i, const td_st_tensor_t *t, uint64_t align, td_err_t *err) {
    if (!t->bytes || (uintptr_t)t->data % align == 0) return TD_OK;
    void *q = malloc(t->bytes);
    if (!q) return td_fail(err, TD_NOMEM, "out of memory");
    r->inputs[i] = r->copies[i] = memcpy(q, t->data, t->bytes);
    return TD_OK;
}

static td_status_t bind_input(run_t *r, uint32_t i, td_err_t *err) {
    const td_io_t *io = td_program_input(r->program, i);
    const char *param = io->name ? io->name : "";
    char key[16];
    snprintf(key, sizeof key, "%u", i);
    const td_st_tensor_t *t = ctl_tensors_find(&r->tensors, key);
    if (!t && *param) t = ctl_tensors_find(&r->tensors, param);
    if (!t) {
        t = ctl_tensors_find(&r->weights, key);
        if (!t && *param) t = ctl_tensors_find(&r->weights, param);
        r->fixed[i] = t != NULL;
    }
    if (!t) {
        char shape[160];
        return td_fail(err, TD_MISMATCH, "input \"%u\" (parameter %s, %s) is missing", i, param,
                       td_shape_print(io->shape, false, shape, sizeof shape));
    }
    td_status_t s = td_st_match(t, io->shape, err);
    if (s != TD_OK) return td_prefix(err, s, "input \"%s\" (parameter %s)", t->name, param);
    r->inputs[i] = t->data;
    return io->shape->type == TD_PRED ? bind_bool(r, i, t, err) : bind_aligned(r, i, t, td_io_align(io->shape), err);
}

static td_status_t bind_inputs(run_t *r, td_err_t *err) {
    uint32_t n = td_program_input_count(r->program), m = td_program_output_count(r->program);
    r->inputs = calloc(n + 1u, sizeof *r->inputs);
    r->copies = calloc(n + 1u, sizeof *r->copies);
    r->outputs = calloc(m + 1u, sizeof *r->outputs);
    r->fixed = calloc(n + 1u, sizeof *r->fixed);
    if (!r->inputs || !r->fixed || !r->copies || !r->outputs) return td_fail(err, TD_NOMEM, "out of memory");
    td_status_t s = TD_OK;
    for (uint32_t i = 0; s == TD_OK && i < n; i++) s = bind_input(r, i, err);
    return s == TD_OK && r->weights.n ? td_program_bind(r->program, r->inputs, r->fixed, err) : s;
}

static td_status_t open_device(const run_args_t *a, td_device_t **out, td_err_t *err) {
    char spec[256];
    if (!a->threads) return td_device_open(a->device, td_alloc_default(), out, err);
    int n = snprintf(spec, sizeof spec, "%s%cthreads=%ld", a->device, strchr(a->device, ':') ? ',' : ':', a->threads);
    if (n < 0 || (size_t)n >= sizeof spec) return td_fail(err, TD_USAGE, "the name of the device is too long");
    return td_device_open(spec, td_alloc_default(), out, err);
}

/* Playing the runtime of a day, it opens what that one would have. */
static td_status_t open_artifact(run_args_t *a, ctl_load_t *l, td_err_t *err) {
    if (!a->judge.policy.play) return ctl_load_open(l, a->artifact, err);
    td_verdict_t v = {0};
    ctl_judge_file(&a->judge, a->artifact, l, &v);
    td_status_t s = td_verdict_enforce(&v, err);
    td_verdict_deinit(&v);
    return s == TD_OK ? s : td_prefix(err, s, "%s", a->artifact);
}

/* The program needs neither artifact nor module once it is lowered, only its constants. */
static td_status_t lower(run_t *r, run_args_t *a, td_err_t *err) {
    ctl_load_t l = {0};
    td_status_t s = open_artifact(a, &l, err);
    if (s == TD_OK) s = open_device(a, &r->device, err);
    if (s == TD_OK) {
        r->device->ffi = a->ffi.registry;
        s = td_program_create(l.module, &(td_program_opts_t){.dev = r->device}, &r->program, err);
        if (s != TD_OK) td_prefix(err, s, "%s", a->artifact);
    }
    r->payloads = l.table;
    l.table = NULL;
    ctl_load_close(&l);
    return s;
}

static double cpu_now_ms(void) {
    struct timespec t = {0};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static td_status_t execute(run_t *r, const run_args_t *a, td_err_t *err) {
    td_status_t s = td_binding_create(r->program, td_alloc_default(), &r->binding, err);
    if (s != TD_OK) return s;
    r->ms = calloc((size_t)a->repeat, sizeof *r->ms);
    r->cpu_ms = calloc((size_t)a->repeat, sizeof *r->cpu_ms);
    if (!r->ms || !r->cpu_ms) return td_fail(err, TD_NOMEM, "out of memory");
    for (long k = 0; k < a->repeat; k++) {
        bool warm = k == 1 || a->repeat == 1; /* of several runs, the first is not in the profile */
        if (a->profile && warm && (s = td_binding_profile(r->binding, err)) != TD_OK) return s;
        double cpu = cpu_now_ms();
        uint64_t t0 = td_now_ns(td_clock_system());
        s = td_program_run(r->binding, r->inputs, r->outputs, NULL, err);
        if (s != TD_OK) return td_prefix(err, s, "%s", a->artifact);
        r->ms[k] = (double)(td_now_ns(td_clock_system()) - t0) / 1e6;
        r->cpu_ms[k] = cpu_now_ms() - cpu;
    }
    return TD_OK;
}

static td_status_t write_outputs(const run_t *r, const char *path, td_err_t *err) {
    uint32_t n = td_program_output_count(r->program);
    td_st_tensor_t *t = calloc(n + 1u, sizeof *t);
    char(*names)[16] = calloc(n + 1u, sizeof *names);
    td_status_t s = t && names ? TD_OK : td_fail(err, TD_NOMEM, "out of memory");
    for (uint32_t i = 0; s == TD_OK && i < n; i++) {
        const td_shape_t *sh = td_program_output(r->program, i)->shape;
        const char *dtype = td_st_dtype(sh->type);
        snprintf(names[i], sizeof names[i], "%u", i);
        if (!dtype) s = td_fail(err, TD_UNSUPPORTED, "output %u: safetensors cannot hold %s", i, td_type_name(sh->type));
        t[i] = (td_st_tensor_t){names[i], dtype, sh->rank, sh->dims, r->outputs[i], td_io_host_bytes(sh)};
    }
    if (s == TD_OK) s = td_st_write(path, t, n, err);
    free(t);
    free(names);
    return s;
}

static td_status_t tell_times(const run_t *r, const run_args_t *a, td_err_t *err) {
    ctl_times_t t = {.name = td_program_name(r->program), .ms = r->ms, .cpu_ms = r->cpu_ms, .n = (uint32_t)a->repeat};
    t.rows = td_binding_profile_rows(r->binding, &t.n_rows);
    return a->json ? ctl_times_json(&t, err) : ctl_times_print(&t, err);
}

static td_status_t run_all(run_t *r, run_args_t *a, td_err_t *err) {
    td_status_t s = TD_OK;
    for (uint32_t i = 0; s == TD_OK && i < a->n_inputs; i++) s = ctl_tensors_add(&r->tensors, a->inputs[i], err);
    for (uint32_t i = 0; s == TD_OK && i < a->n_weights; i++) s = ctl_tensors_add(&r->weights, a->weights[i], err);
    if (s == TD_OK) s = lower(r, a, err);
    if (s == TD_OK) s = bind_inputs(r, err);
    if (s == TD_OK) s = execute(r, a, err);
    if (s == TD_OK && a->outputs) s = write_outputs(r, a->outputs, err);
    return s;
}

int ctl_run(int argc, char **argv) {
    run_args_t a = {.device = "host", .repeat = 1};
    argp_parse(&argp, argc, argv, 0, NULL, &a);
    run_t r = {0};
    td_err_t err = {0};
    td_status_t s = ctl_ffi_open(&a.ffi, &err);
    if (s == TD_OK) s = run_all(&r, &a, &err);
    if (s == TD_OK && (a.repeat > 1 || a.json || a.profile)) s = tell_times(&r, &a, &err);
    run_close(&r);
    ctl_judge_close(&a.judge);
    ctl_ffi_close(&a.ffi);
    return s == TD_OK ? 0 : ctl_report(&err);
}
