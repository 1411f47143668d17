/* SPDX-License-Identifier: Apache-2.0 */
/* thunkctl run: an artifact on a device of this process, tensors from and to safetensors. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "ctl/program.h"
#include "ctl/times.h"

typedef struct run_args {
    ctl_source_t source;
    const char *outputs;
    long repeat;
    bool json, profile;
} run_args_t;

static const struct argp_option options[] = {
    CTL_SOURCE_OPTIONS,
    {"outputs", 'o', "FILE", 0, "Write the outputs there as safetensors, named \"0\", \"1\"…", 0},
    {"repeat", 'n', "N", 0, "Run N times and print the minimum and the median time", 0},
    {"profile", 'p', NULL, 0, "Print the thunks that took most of the time; of several runs, the first is left out", 0},
    {"json", 'j', NULL, 0, "Print the times, and the profile, as a JSON object", 0},
    {0},
};

static error_t parse_opt(int key, char *arg, struct argp_state *state) {
    run_args_t *a = state->input;
    switch (key) {
    case 'o': a->outputs = arg; return 0;
    case 'n': a->repeat = ctl_number(arg, 1000000, state, "--repeat"); return 0;
    case 'p': a->profile = true; return 0;
    case 'j': a->json = true; return 0;
    default: return ctl_source_option(&a->source, key, arg, state) ? 0 : ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {options, parse_opt, "ARTIFACT", "Run an artifact once, or N times for timing.",
                                 NULL, NULL, NULL};

typedef struct run {
    ctl_program_t p;
    double *ms, *cpu_ms;
} run_t;

static double cpu_now_ms(void) {
    struct timespec t = {0};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static td_status_t execute(run_t *r, const run_args_t *a, td_err_t *err) {
    td_status_t s = TD_OK;
    r->ms = calloc((size_t)a->repeat, sizeof *r->ms);
    r->cpu_ms = calloc((size_t)a->repeat, sizeof *r->cpu_ms);
    if (!r->ms || !r->cpu_ms) return td_fail(err, TD_NOMEM, "out of memory");
    for (long k = 0; k < a->repeat; k++) {
        bool warm = k == 1 || a->repeat == 1; /* of several runs, the first is not in the profile */
        if (a->profile && warm && (s = td_binding_profile(r->p.binding, err)) != TD_OK) return s;
        double cpu = cpu_now_ms();
        uint64_t t0 = td_now_ns(td_clock_system());
        if ((s = ctl_program_run(&r->p, &a->source, err)) != TD_OK) return s;
        r->ms[k] = (double)(td_now_ns(td_clock_system()) - t0) / 1e6;
        r->cpu_ms[k] = cpu_now_ms() - cpu;
    }
    return TD_OK;
}

static td_status_t write_outputs(const ctl_program_t *r, const char *path, td_err_t *err) {
    uint32_t n = td_program_output_count(r->program);
    td_st_tensor_t *t = calloc(n + 1u, sizeof *t);
    char(*names)[16] = calloc(n + 1u, sizeof *names);
    td_status_t s = t && names ? TD_OK : td_fail(err, TD_NOMEM, "out of memory");
    for (uint32_t i = 0; s == TD_OK && i < n; i++) {
        const td_shape_t *sh = td_program_output(r->program, i)->shape;
        const char *dtype = td_st_dtype(sh->type);
        snprintf(names[i], sizeof names[i], "%u", i);
        if (!dtype) s = td_fail(err, TD_UNSUPPORTED, "output %u: safetensors cannot hold %s", i,
                                td_type_name(sh->type));
        t[i] = (td_st_tensor_t){names[i], dtype, sh->rank, sh->dims, r->outputs[i], td_io_host_bytes(sh)};
    }
    if (s == TD_OK) s = td_st_write(path, t, n, err);
    free(t);
    free(names);
    return s;
}

static td_status_t tell_times(const run_t *r, const run_args_t *a, td_err_t *err) {
    ctl_times_t t = {.name = td_program_name(r->p.program), .ms = r->ms, .cpu_ms = r->cpu_ms, .n = (uint32_t)a->repeat};
    td_graph_stats_t graphs;
    td_binding_graphs(r->p.binding, &graphs);
    if (r->p.device->graphs) t.graphs = &graphs;
    t.rows = td_binding_profile_rows(r->p.binding, &t.n_rows);
    return a->json ? ctl_times_json(&t, err) : ctl_times_print(&t, err);
}

int ctl_run(int argc, char **argv) {
    run_args_t a = {.source.device = "host", .repeat = 1};
    argp_parse(&argp, argc, argv, 0, NULL, &a);
    run_t r = {0};
    td_err_t err = {0};
    td_status_t s = ctl_program_open(&r.p, &a.source, &err);
    if (s == TD_OK) s = execute(&r, &a, &err);
    if (s == TD_OK && a.outputs) s = write_outputs(&r.p, a.outputs, &err);
    if (s == TD_OK && (a.repeat > 1 || a.json || a.profile)) s = tell_times(&r, &a, &err);
    ctl_program_close(&r.p);
    free(r.ms);
    free(r.cpu_ms);
    ctl_source_close(&a.source);
    return s == TD_OK ? 0 : ctl_report(&err);
}
