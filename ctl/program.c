/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/program.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the command line ---- */
long ctl_number(const char *arg, long most, struct argp_state *state, const char *what) {
    char *end;
    long v = strtol(arg, &end, 10);
    if (end == arg || *end || v < 1 || v > most)
        argp_error(state, "%s %s is not a number from 1 to %ld", what, arg, most);
    return v;
}

static void add(const char **files, uint32_t *n, const char *arg, struct argp_state *state, const char *what) {
    if (*n == CTL_FILES_MAX) argp_error(state, "more than %d %s files", CTL_FILES_MAX, what);
    files[(*n)++] = arg;
}

bool ctl_source_option(ctl_source_t *s, int key, char *arg, struct argp_state *state) {
    switch (key) {
    case 'i': add(s->inputs, &s->n_inputs, arg, state, "input"); return true;
    case 'w': add(s->weights, &s->n_weights, arg, state, "weight"); return true;
    case 'd': s->device = arg; return true;
    case 't': s->threads = ctl_number(arg, 1000000, state, "--threads"); return true;
    case 'D': ctl_judge_date(&s->judge, arg, state); return true;
    case 'f': ctl_ffi_option(&s->ffi, arg, state); return true;
    case ARGP_KEY_ARG:
        if (s->artifact) argp_error(state, "more than one artifact");
        s->artifact = arg;
        return true;
    case ARGP_KEY_END:
        if (!s->artifact) argp_error(state, "no artifact given");
        return true;
    default: return false;
    }
}

void ctl_source_close(ctl_source_t *s) {
    ctl_judge_close(&s->judge);
    ctl_ffi_close(&s->ffi);
}

/* ---- inputs ---- */
/* Booleans other than 0 and 1 are normalised in a copy. */
static td_status_t bind_bool(ctl_program_t *r, uint32_t i, const td_st_tensor_t *t, td_err_t *err) {
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
static td_status_t bind_aligned(ctl_program_t *r, uint32_t i, const td_st_tensor_t *t, uint64_t align, td_err_t *err) {
    if (!t->bytes || (uintptr_t)t->data % align == 0) return TD_OK;
    void *q = malloc(t->bytes);
    if (!q) return td_fail(err, TD_NOMEM, "out of memory");
    r->inputs[i] = r->copies[i] = memcpy(q, t->data, t->bytes);
    return TD_OK;
}

static td_status_t bind_input(ctl_program_t *r, uint32_t i, td_err_t *err) {
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

static td_status_t bind_inputs(ctl_program_t *r, td_err_t *err) {
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

/* ---- the program ---- */
static td_status_t open_device(const ctl_source_t *a, td_device_t **out, td_err_t *err) {
    char spec[256];
    if (!a->threads) return td_device_open(a->device, td_alloc_default(), out, err);
    int n = snprintf(spec, sizeof spec, "%s%cthreads=%ld", a->device, strchr(a->device, ':') ? ',' : ':', a->threads);
    if (n < 0 || (size_t)n >= sizeof spec) return td_fail(err, TD_USAGE, "the name of the device is too long");
    return td_device_open(spec, td_alloc_default(), out, err);
}

/* Playing the runtime of a day, it opens what that one would have. */
static td_status_t open_artifact(ctl_source_t *a, ctl_load_t *l, td_err_t *err) {
    if (!a->judge.policy.play) return ctl_load_open(l, a->artifact, err);
    td_verdict_t v = {0};
    ctl_judge_file(&a->judge, a->artifact, l, &v);
    td_status_t s = td_verdict_enforce(&v, err);
    td_verdict_deinit(&v);
    return s == TD_OK ? s : td_prefix(err, s, "%s", a->artifact);
}

/* The program needs neither artifact nor module once it is lowered, only its constants. */
static td_status_t lower(ctl_program_t *r, ctl_source_t *a, td_err_t *err) {
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

td_status_t ctl_program_open(ctl_program_t *r, ctl_source_t *a, td_err_t *err) {
    td_status_t s = ctl_ffi_open(&a->ffi, err);
    for (uint32_t i = 0; s == TD_OK && i < a->n_inputs; i++) s = ctl_tensors_add(&r->tensors, a->inputs[i], err);
    for (uint32_t i = 0; s == TD_OK && i < a->n_weights; i++) s = ctl_tensors_add(&r->weights, a->weights[i], err);
    if (s == TD_OK) s = lower(r, a, err);
    if (s == TD_OK) s = bind_inputs(r, err);
    return s == TD_OK ? td_binding_create(r->program, td_alloc_default(), &r->binding, err) : s;
}

td_status_t ctl_program_run(ctl_program_t *r, const ctl_source_t *a, td_err_t *err) {
    td_status_t s = td_program_run(r->binding, r->inputs, r->outputs, NULL, err);
    return s == TD_OK ? s : td_prefix(err, s, "%s", a->artifact);
}

void ctl_program_close(ctl_program_t *r) {
    uint32_t n = r->program ? td_program_input_count(r->program) : 0;
    for (uint32_t i = 0; r->copies && i < n; i++) free(r->copies[i]);
    free(r->copies);
    free(r->inputs);
    free(r->fixed);
    free(r->outputs);
    td_binding_destroy(r->binding);
    td_program_destroy(r->program);
    td_payload_table_destroy(r->payloads);
    td_device_destroy(r->device);
    ctl_tensors_close(&r->tensors);
    ctl_tensors_close(&r->weights);
}
