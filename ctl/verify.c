/* SPDX-License-Identifier: Apache-2.0 */
/* thunkctl verify: an artifact on two devices of this process, thunk by thunk. */
#include <argp.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/ctl.h"
#include "ctl/print.h"
#include "ctl/random.h"
#include "runtime/lockstep.h"
#include "runtime/module.h"

typedef struct verify_args {
    const char *artifact, *device, *against;
    const char *inputs[CTL_FILES_MAX];
    uint32_t n_inputs;
    double tolerance;
    unsigned long long seed;
    bool json;
    ctl_ffi_t ffi;
} verify_args_t;

enum { KEY_AGAINST = 256, KEY_TOLERANCE, KEY_SEED };

static const struct argp_option options[] = {
    {"inputs", 'i', "FILE", 0,
     "Inputs as for `thunkctl run'; may be repeated. What no file has is made of random numbers", 0},
    {"device", 'd', "DEVICE", 0, "The device that is tried: as for `thunkctl run' (cuda)", 0},
    {"against", KEY_AGAINST, "DEVICE", 0, "The one that is trusted (host)", 0},
    {"tolerance", KEY_TOLERANCE, "X", 0,
     "Relative error that floats of all types may have; else what suits the type", 0},
    {"seed", KEY_SEED, "N", 0, "Other random numbers (1)", 0},
    {"json", 'j', NULL, 0, "Print the result as a JSON object", 0},
    CTL_FFI_OPTION,
    {0},
};

static error_t parse_opt(int key, char *arg, struct argp_state *state) {
    verify_args_t *a = state->input;
    char *end = NULL;
    switch (key) {
    case 'i':
        if (a->n_inputs == CTL_FILES_MAX) argp_error(state, "more than %d input files", CTL_FILES_MAX);
        a->inputs[a->n_inputs++] = arg;
        return 0;
    case 'd': a->device = arg; return 0;
    case KEY_AGAINST: a->against = arg; return 0;
    case KEY_TOLERANCE:
        a->tolerance = strtod(arg, &end);
        if (end == arg || *end || !(a->tolerance >= 0) || isinf(a->tolerance))
            argp_error(state, "--tolerance %s is not a number from 0", arg);
        return 0;
    case KEY_SEED:
        a->seed = strtoull(arg, &end, 10);
        if (end == arg || *end || *arg == '-') argp_error(state, "--seed %s is not a number", arg);
        return 0;
    case 'j': a->json = true; return 0;
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

static const struct argp argp = {options, parse_opt, "ARTIFACT",
                                 "Run an artifact on two devices and compare what each of its thunks writes.\vExits "
                                 "with 0 if all is equal, 1 if something differs or cannot run, 2 for wrong usage.",
                                 NULL, NULL, NULL};

/* Everything that is held; freed in verify_close. */
typedef struct verify {
    ctl_load_t load;
    ctl_tensors_t tensors;
    td_device_t *devices[2]; /* trusted, tried */
    void **inputs;
    uint32_t n_made; /* of random numbers */
    td_lockstep_report_t report;
} verify_t;

static void verify_close(verify_t *v) {
    for (uint32_t i = 0; v->inputs && i < v->load.module->n_inputs; i++) free(v->inputs[i]);
    free(v->inputs);
    td_device_destroy(v->devices[0]);
    td_device_destroy(v->devices[1]);
    ctl_tensors_close(&v->tensors);
    ctl_load_close(&v->load);
}

/* ---- inputs ---- */
static td_status_t copy_input(const td_st_tensor_t *t, const td_shape_t *s, uint8_t *to, td_err_t *err) {
    td_status_t st = td_st_match(t, s, err);
    if (st) return td_prefix(err, st, "input \"%s\"", t->name);
    for (uint64_t k = 0; k < t->bytes; k++) /* booleans other than 0 count as 1 */
        to[k] = s->type == TD_PRED ? ((const uint8_t *)t->data)[k] != 0 : ((const uint8_t *)t->data)[k];
    return TD_OK;
}

static td_status_t make_inputs(verify_t *v, const verify_args_t *a, td_err_t *err) {
    const td_module_t *m = v->load.module;
    td_status_t st = TD_OK;
    if (!(v->inputs = calloc(m->n_inputs + 1u, sizeof *v->inputs))) return td_fail(err, TD_NOMEM, "out of memory");
    for (uint32_t i = 0; i < m->n_inputs && !st; i++) {
        const td_shape_t *s = m->inputs[i].shape;
        char key[16];
        snprintf(key, sizeof key, "%u", i);
        v->inputs[i] = calloc(1, (size_t)td_io_host_bytes(s) + 64);
        if (!v->inputs[i]) return td_fail(err, TD_NOMEM, "out of memory");
        const td_st_tensor_t *t = ctl_tensors_find(&v->tensors, key);
        if (!t && *m->inputs[i].name) t = ctl_tensors_find(&v->tensors, m->inputs[i].name);
        if (t) {
            st = copy_input(t, s, v->inputs[i], err);
        } else if (td_type_is_array(s->type)) {
            ctl_random_fill(s, a->seed * 1000003 + i, v->inputs[i]);
            v->n_made++;
        }
    }
    return st;
}

/* ---- what is said ---- */
static void print_finding(const char *what, const td_finding_t *f) {
    char loops[160] = "";
    size_t n = 0;
    for (uint32_t i = 0; i < f->n_loops && n < sizeof loops; i++)
        n += (size_t)snprintf(loops + n, sizeof loops - n, "%s%" PRId64, i ? ", " : ", iteration ", f->loops[i]);
    printf("%s: %s '%s'%s\n", what, f->thunk, f->instruction, loops);
    printf("  argument %u, %s: at %s %s, the reference has %s; error %.3g, tolerance %.3g; %" PRIu64 " of %" PRIu64
           " elements differ\n",
           f->argument, f->shape, f->index, f->difference.got, f->difference.want, f->difference.error,
           f->difference.tolerance, f->difference.wrong, f->difference.elements);
}

static void print_report(const verify_t *v, const verify_args_t *a) {
    const td_lockstep_report_t *r = &v->report;
    printf("%s: %s against %s: %" PRIu64 " thunks, %" PRIu64 " arrays of %" PRIu64 " elements compared", a->artifact,
           a->device, a->against, r->thunks, r->arrays, r->elements);
    if (r->unjudged) printf(", %" PRIu64 " workspaces, seeds and arrays of unknown type not", r->unjudged);
    if (v->n_made) printf("; %u inputs of random numbers, seed %llu", v->n_made, a->seed);
    printf("\n");
    if (r->differing) {
        printf("%" PRIu64 " thunks differ\n", r->differing);
        print_finding("first", &r->first);
        return;
    }
    if (r->worst.difference.error > 0) print_finding("largest error", &r->worst);
    printf("equal\n");
}

static json_t *json_real_or_text(double d) {
    return isfinite(d) ? json_real(d) : json_string(isnan(d) ? "nan" : "inf");
}

static json_t *json_finding(const td_finding_t *f) {
    json_t *loops = json_array();
    for (uint32_t i = 0; i < f->n_loops; i++) json_array_append_new(loops, json_integer(f->loops[i]));
    return json_pack("{s:o, s:o, s:o, s:i, s:s, s:s, s:s, s:s, s:o, s:f, s:I, s:I}", "thunk", ctl_json_text(f->thunk),
                     "instruction", ctl_json_text(f->instruction), "iterations", loops, "argument", (int)f->argument,
                     "shape", f->shape, "index", f->index, "got", f->difference.got, "want", f->difference.want,
                     "error", json_real_or_text(f->difference.error), "tolerance", f->difference.tolerance,
                     "elements_wrong", (json_int_t)f->difference.wrong, "elements", (json_int_t)f->difference.elements);
}

static td_status_t print_json(const verify_t *v, const verify_args_t *a, td_err_t *err) {
    const td_lockstep_report_t *r = &v->report;
    json_t *j = json_pack("{s:o, s:s, s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:i}", "artifact", ctl_json_text(a->artifact),
                          "device", a->device, "against", a->against, "equal", !r->differing, "thunks",
                          (json_int_t)r->thunks, "arrays", (json_int_t)r->arrays, "elements", (json_int_t)r->elements,
                          "not_compared", (json_int_t)r->unjudged, "thunks_differing", (json_int_t)r->differing,
                          "random_inputs", (int)v->n_made);
    if (j && r->differing) json_object_set_new(j, "first", json_finding(&r->first));
    if (j && r->worst.difference.error > 0) json_object_set_new(j, "largest_error", json_finding(&r->worst));
    int bad = j ? json_dumpf(j, stdout, JSON_REAL_PRECISION(6) | JSON_COMPACT) : -1;
    json_decref(j);
    if (bad) return td_fail(err, TD_NOMEM, "out of memory");
    putchar('\n');
    return TD_OK;
}

static td_status_t verify(verify_t *v, verify_args_t *a, td_err_t *err) {
    const char *const specs[] = {a->against, a->device};
    td_status_t st = ctl_ffi_open(&a->ffi, err);
    for (uint32_t i = 0; i < a->n_inputs && !st; i++) st = ctl_tensors_add(&v->tensors, a->inputs[i], err);
    if (!st) st = ctl_load_open(&v->load, a->artifact, err);
    for (int i = 0; i < 2 && !st; i++) {
        st = td_device_open(specs[i], td_alloc_default(), &v->devices[i], err);
        if (!st) v->devices[i]->ffi = a->ffi.registry;
    }
    if (!st) st = make_inputs(v, a, err);
    if (st) return st;
    const td_lockstep_opts_t opts = {.reference = v->devices[0], .device = v->devices[1], .tolerance = a->tolerance};
    st = td_lockstep(v->load.module, &opts, (const void *const *)v->inputs, &v->report, err);
    if (st) return td_prefix(err, st, "%s", a->artifact);
    if (a->json) return print_json(v, a, err);
    print_report(v, a);
    return TD_OK;
}

int ctl_verify(int argc, char **argv) {
    verify_args_t a = {.device = "cuda", .against = "host", .tolerance = -1, .seed = 1};
    argp_parse(&argp, argc, argv, 0, NULL, &a);
    verify_t v = {0};
    td_err_t err = {0};
    td_status_t s = verify(&v, &a, &err);
    int code = s ? ctl_report(&err) : v.report.differing ? 1 : 0;
    verify_close(&v);
    ctl_ffi_close(&a.ffi);
    return code;
}
