/* SPDX-License-Identifier: Apache-2.0 */
/* thunkctl inspect: what is in an artifact, on one screen or as JSON. */
#include "runtime/inspect.h"

#include <argp.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "contract/day.h"
#include "ctl/inspect_streams.h"
#include "ctl/judge.h"

typedef struct inspect_args {
    const char *artifact, *device;
    bool json, streams, dot;
} inspect_args_t;

static const struct argp_option options[] = {
    {"json", 'j', NULL, 0, "Print one JSON object", 0},
    {"streams", 's', NULL, 0, "Print the streams that runs have: what runs on which, and which events order them", 0},
    {"dot", 'g', NULL, 0, "With --streams: as a graph for Graphviz", 0},
    {"device", 'd', "DEVICE", 0, "With --streams: as on that device; else every asynchronous body is on the "
                                 "stream it names", 0},
    {0},
};

static error_t parse_opt(int key, char *arg, struct argp_state *state) {
    inspect_args_t *a = state->input;
    switch (key) {
    case 'j': a->json = true; return 0;
    case 's': a->streams = true; return 0;
    case 'g': a->dot = true; return 0;
    case 'd': a->device = arg; return 0;
    case ARGP_KEY_ARG:
        if (a->artifact) argp_error(state, "more than one artifact");
        a->artifact = arg;
        return 0;
    case ARGP_KEY_END:
        if (!a->artifact) argp_error(state, "no artifact given");
        if ((a->dot || a->device) && !a->streams) argp_error(state, "--dot and --device go with --streams");
        if (a->dot && a->json) argp_error(state, "--dot and --json are two forms");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {options, parse_opt, "ARTIFACT", "Show what is in an artifact.", NULL, NULL, NULL};

static uint64_t payload_bytes(const td_artifact_t *a) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < a->n_payloads; i++) n += a->payloads[i]->bytes.size;
    return n;
}

/* Nothing is known when memory ends. */
static td_verdict_release_t estimate(const td_artifact_t *a, td_scan_t *scan) {
    td_verdict_release_t r = {.at_least = -1, .at_most = -1};
    if (td_scan_artifact(a, NULL, 0, td_alloc_default(), scan, NULL) == TD_OK) td_estimate_release(a, scan, &r);
    return r;
}

static void print_release(const td_artifact_t *a) {
    td_scan_t scan = {0};
    td_verdict_release_t r = estimate(a, &scan);
    char day[12];
    if (r.newest)
        printf("release     %s%s, built %s, by %s.%s\n", td_ledger_releases[r.at_least].name,
               r.at_most == r.at_least ? "" : " or later", td_day_text(td_ledger_releases[r.at_least].built, day),
               td_ledger_owner(r.newest)->name, r.newest->name);
    td_scan_deinit(&scan);
}

static json_t *release_json(const td_artifact_t *a) {
    td_scan_t scan = {0};
    td_verdict_release_t r = estimate(a, &scan);
    td_scan_deinit(&scan);
    return json_pack("{s:s?, s:s?}", "at_least", r.at_least < 0 ? NULL : td_ledger_releases[r.at_least].name, "at_most",
                     r.at_most < 0 ? NULL : td_ledger_releases[r.at_most].name);
}

static void print_container(const td_artifact_t *a) {
    printf("forms       ");
    for (uint32_t i = 0; i < a->n_forms; i++) printf("%s%s", i ? " > " : "", td_form_name(a->forms[i]));
    for (int i = 0; i < 2; i++)
        if (a->compression[i]) printf("%s%c", i && a->compression[0] ? "" : ", compression ", a->compression[i]);
    printf("\nsize        %" PRIu64 " bytes, %" PRIu32 " payloads of %" PRIu64 " bytes\n", a->input_bytes,
           a->n_payloads,
           payload_bytes(a));
    print_release(a);
    if (a->pjrt_client_name && *a->pjrt_client_name) printf("client      %s\n", a->pjrt_client_name);
    for (uint32_t i = 0; i < a->n_unknown; i++)
        printf("unknown     %s field %" PRIu32 ", %" PRIu32 " times\n", a->unknown[i].message, a->unknown[i].number,
               a->unknown[i].count);
}

static void print_allocation(void *ctx, const td_allocation_view_t *v) {
    (void)ctx;
    printf("  %4" PRIu32 " %12" PRIu64 "  %s\n", v->index, v->size, v->kind);
}

static void print_thunk(void *ctx, const td_thunk_view_t *v) {
    (void)ctx;
    printf("  %*s%s", 2 * (int)v->depth, "", v->kind);
    if (v->annotation && *v->annotation) printf(" %s", v->annotation);
    if (v->stream >= 0) printf(" @%" PRId64, v->stream);
    printf("%s%s\n", v->slices && *v->slices ? "  " : "", v->slices ? v->slices : "");
}

static void print_text(const ctl_load_t *l) {
    td_module_summary_t s = {0};
    td_module_summarize(l->module, &s);
    printf("module      %s\n", s.name);
    print_container(l->artifact);
    if (s.compute_major)
        printf("target      compute capability %d.%d\n", s.compute_major, s.compute_minor);
    printf("devices     %" PRId64 " replicas, %" PRId64 " partitions\n", s.replica_count, s.num_partitions);
    printf("interface   %" PRIu32 " inputs, %" PRIu32 " outputs, %" PRIu32 " constants\n", s.n_inputs, s.n_outputs,
           s.n_constants);
    printf("allocations %" PRIu32 ", %" PRIu64 " bytes\n", s.n_allocations, s.allocation_bytes);
    td_module_each_allocation(l->module, print_allocation, NULL);
    printf("thunks      %" PRIu32 ", %" PRIu32 " computations\n", s.n_thunks, s.n_computations);
    if (s.scheduled) printf("note        no thunks: program made from the scheduled module\n");
    td_module_each_thunk(l->module, print_thunk, NULL);
}

static void add_allocation(void *ctx, const td_allocation_view_t *v) {
    json_array_append_new(ctx, json_pack("{s:I, s:I, s:s}", "index", (json_int_t)v->index, "bytes", (json_int_t)v->size,
                                         "kind", v->kind));
}

/* Text from an artifact may be no UTF-8; jansson takes none other. */
static json_t *text(const char *s) {
    json_t *j = s ? json_string(s) : json_null();
    return j ? j : json_string("(not UTF-8)");
}

static void add_thunk(void *ctx, const td_thunk_view_t *v) {
    json_array_append_new(ctx, json_pack("{s:I, s:s, s:o, s:o, s:I}", "depth", (json_int_t)v->depth, "kind", v->kind,
                                         "annotation", text(v->annotation), "slices", text(v->slices), "stream",
                                         (json_int_t)v->stream));
}

static json_t *forms_json(const td_artifact_t *a) {
    json_t *forms = json_array();
    for (uint32_t i = 0; i < a->n_forms; i++) json_array_append_new(forms, json_string(td_form_name(a->forms[i])));
    return forms;
}

static json_t *unknown_json(const td_artifact_t *a) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < a->n_unknown; i++)
        json_array_append_new(list, json_pack("{s:s, s:I, s:I}", "message", a->unknown[i].message, "field",
                                              (json_int_t)a->unknown[i].number, "count", (json_int_t)a->unknown[i].count));
    return list;
}

static int print_json(const ctl_load_t *l) {
    td_module_summary_t s = {0};
    td_module_summarize(l->module, &s);
    json_t *allocations = json_array(), *thunks = json_array();
    td_module_each_allocation(l->module, add_allocation, allocations);
    td_module_each_thunk(l->module, add_thunk, thunks);
    json_t *root = json_pack(
        "{s:o, s:o, s:I, s:I, s:I, s:o, s:o, s:[i,i], s:I, s:I, s:I, s:I, s:I, s:b, s:o, s:o}", "module", text(s.name), "forms",
        forms_json(l->artifact), "bytes", (json_int_t)l->artifact->input_bytes, "payloads",
        (json_int_t)l->artifact->n_payloads, "payload_bytes", (json_int_t)payload_bytes(l->artifact), "client",
        text(l->artifact->pjrt_client_name), "unknown_fields", unknown_json(l->artifact), "compute_capability",
        s.compute_major, s.compute_minor, "replicas", (json_int_t)s.replica_count, "partitions",
        (json_int_t)s.num_partitions, "inputs", (json_int_t)s.n_inputs, "outputs", (json_int_t)s.n_outputs, "constants",
        (json_int_t)s.n_constants, "made_from_schedule", s.scheduled, "allocations", allocations, "thunks", thunks);
    if (root) json_object_set_new(root, "release", release_json(l->artifact));
    int rc = root ? json_dumpf(root, stdout, JSON_INDENT(2)) : -1;
    putchar('\n');
    json_decref(root);
    return rc ? 1 : 0;
}

static td_status_t print_streams(const inspect_args_t *a, const td_module_t *m, td_err_t *err) {
    td_module_summary_t s = {0};
    td_module_summarize(m, &s);
    ctl_streams_form_t form = a->dot ? CTL_STREAMS_DOT : a->json ? CTL_STREAMS_JSON : CTL_STREAMS_TEXT;
    return ctl_inspect_streams(m, s.name, a->device, form, err);
}

int ctl_inspect(int argc, char **argv) {
    inspect_args_t a = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &a);
    ctl_load_t l = {0};
    td_err_t err = {0};
    td_status_t s = ctl_load_open(&l, a.artifact, &err);
    int rc = 0;
    if (s == TD_OK && a.streams)
        s = print_streams(&a, l.module, &err);
    else if (s == TD_OK && a.json)
        rc = print_json(&l);
    else if (s == TD_OK)
        print_text(&l);
    else if (l.artifact && !a.json && !a.streams) /* it decodes but does not verify */
        print_container(l.artifact);
    ctl_load_close(&l);
    return s == TD_OK ? rc : ctl_report(&err);
}
