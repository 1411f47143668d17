/* SPDX-License-Identifier: Apache-2.0 */
/* thunkctl trace: one run of an artifact as a trace that Perfetto and chrome://tracing show, a row for each stream.
 * Source of the format: "Trace Event Format" of Chrome; times are microseconds. */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/print.h"
#include "ctl/program.h"

enum { KEY_EVENTS = 256, PID = 1, EVENTS = 65536, WARM_MOST = 1000000 };
typedef struct trace_args {
    ctl_source_t source;
    const char *out;
    long warm, events;
} trace_args_t;

static const struct argp_option options[] = {
    CTL_SOURCE_OPTIONS,
    {"out", 'o', "FILE", 0, "Write the trace there; - is standard output", 0},
    {"after", 'n', "N", 0, "Run N times before, so that nothing happens for the first time (1)", 0},
    {"events", KEY_EVENTS, "N", 0, "Tell up to N thunks, a loop's once for each iteration (65536)", 0},
    {0},
};

static error_t parse_opt(int key, char *arg, struct argp_state *state) {
    trace_args_t *a = state->input;
    switch (key) {
    case 'o': a->out = arg; return 0;
    case 'n': a->warm = strcmp(arg, "0") ? ctl_number(arg, WARM_MOST, state, "--after") : 0; return 0;
    case KEY_EVENTS: a->events = ctl_number(arg, TD_LIMIT_TRACE_EVENTS, state, "--events"); return 0;
    case ARGP_KEY_END:
        if (!a->out) argp_error(state, "no --out given");
        break;
    default: break;
    }
    return ctl_source_option(&a->source, key, arg, state) ? 0 : ARGP_ERR_UNKNOWN;
}

static const struct argp argp = {options, parse_opt, "ARTIFACT",
                                 "Run an artifact and write when each thunk was at work, and on which stream, for "
                                 "Perfetto or chrome://tracing.", NULL, NULL, NULL};

typedef struct writer {
    FILE *f;
    bool more, bad; /* events were written; something could not be */
} writer_t;

/* Takes the object over. */
static void write_event(writer_t *w, json_t *j) {
    if (w->more) fputs(",\n", w->f);
    w->more = true;
    if (!j || json_dumpf(j, w->f, JSON_COMPACT | JSON_REAL_PRECISION(15))) w->bad = true;
    json_decref(j);
}

static json_t *about(const char *what, int64_t tid, json_t *value, const char *key) {
    return json_pack("{s:s, s:s, s:i, s:I, s:{s:o}}", "ph", "M", "name", what, "pid", PID, "tid", (json_int_t)tid,
                     "args", key, value);
}

static void write_streams(writer_t *w, const td_program_t *p) {
    write_event(w, about("process_name", 0, ctl_json_text(td_program_name(p)), "name"));
    for (uint32_t i = 0; i < td_program_lane_count(p); i++) {
        char name[64];
        int64_t id = -1;
        td_stream_use_t use = td_program_lane(p, i, &id);
        if (id < 0) snprintf(name, sizeof name, "stream %" PRIu32 ": %s", i, td_stream_use_name(use));
        else snprintf(name, sizeof name, "stream %" PRIu32 ": %s %" PRId64, i, td_stream_use_name(use), id);
        write_event(w, about("thread_name", i, json_string(name), "name"));
        write_event(w, about("thread_sort_index", i, json_integer(i), "sort_index"));
    }
}

static json_t *event(const td_trace_event_t *e) {
    return json_pack("{s:s, s:o, s:s, s:i, s:I, s:f, s:f, s:{s:I, s:f}}", "ph", "X", "name",
                     ctl_json_text(*e->name ? e->name : e->kind), "cat", e->kind, "pid", PID, "tid",
                     (json_int_t)e->lane, "ts", (double)e->start_ns / 1e3, "dur", (double)e->ns / 1e3, "args", "depth", (json_int_t)e->depth,
                     "enqueue_us", (double)e->enqueue_ns / 1e3);
}

static void write_trace(writer_t *w, const ctl_program_t *p, const trace_args_t *a) {
    uint32_t n = 0;
    uint64_t left_out = 0;
    const td_trace_event_t *v = td_binding_trace_events(p->binding, &n, &left_out);
    fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", w->f);
    write_streams(w, p->program);
    for (uint32_t i = 0; i < n; i++) write_event(w, event(&v[i]));
    fputs("\n],\"otherData\":", w->f);
    w->more = false;
    write_event(w, json_pack("{s:o, s:o, s:o, s:I, s:I}", "artifact", ctl_json_text(a->source.artifact), "device",
                             ctl_json_text(a->source.device), "module", ctl_json_text(td_program_name(p->program)),
                             "events", (json_int_t)n, "left_out", (json_int_t)left_out));
    fputs("}\n", w->f);
    if (left_out)
        fprintf(stderr, "thunkctl: %" PRIu64 " thunks are left out: --events %ld\n", left_out, a->events);
}

static td_status_t write_file(const ctl_program_t *p, const trace_args_t *a, td_err_t *err) {
    bool out = !strcmp(a->out, "-");
    writer_t w = {.f = out ? stdout : fopen(a->out, "w")};
    if (!w.f) return td_fail(err, TD_IO, "%s: %s", a->out, strerror(errno));
    write_trace(&w, p, a);
    bool failed = ferror(w.f) != 0;
    if ((out ? fflush(w.f) : fclose(w.f)) || failed) return td_fail(err, TD_IO, "%s: %s", a->out, strerror(errno));
    return w.bad ? td_fail(err, TD_NOMEM, "%s: out of memory", a->out) : TD_OK;
}

static td_status_t trace(ctl_program_t *p, const trace_args_t *a, td_err_t *err) {
    td_status_t s = TD_OK;
    for (long k = 0; k < a->warm && s == TD_OK; k++) s = ctl_program_run(p, &a->source, err);
    if (s == TD_OK) s = td_binding_trace(p->binding, (uint32_t)a->events, err);
    if (s == TD_OK) s = ctl_program_run(p, &a->source, err);
    return s == TD_OK ? write_file(p, a, err) : s;
}

int ctl_trace(int argc, char **argv) {
    trace_args_t a = {.source.device = "host", .warm = 1, .events = EVENTS};
    argp_parse(&argp, argc, argv, 0, NULL, &a);
    ctl_program_t p = {0};
    td_err_t err = {0};
    td_status_t s = ctl_program_open(&p, &a.source, &err);
    if (s == TD_OK) s = trace(&p, &a, &err);
    ctl_program_close(&p);
    ctl_source_close(&a.source);
    return s == TD_OK ? 0 : ctl_report(&err);
}
