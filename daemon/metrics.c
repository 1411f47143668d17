/* SPDX-License-Identifier: Apache-2.0 */
/* One row per family: name, type, help, and who writes its samples. */
#include "daemon/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "contract/day.h"

typedef struct family family_t;
typedef void samples_fn(const td_metrics_t *m, const family_t *f, td_pb_t *out);
struct family {
    const char *name, *type, *help;
    samples_fn *samples;
    uint64_t (*number)(const void *row); /* of a model's row, or of a domain's totals */
    double scale;                        /* of number; 0: an integer */
};

const char *td_domain_name(uint32_t domain, char out[24]) {
    if (domain) snprintf(out, 24, "device%u", domain - 1);
    else strcpy(out, "host");
    return out;
}

static void text(td_pb_t *out, const char *s) {
    td_pb_raw(out, s, strlen(s));
}

/* name{a="…",b="…" with the values escaped; names of the labels come in pairs with them, NULL ends. */
static void begin(td_pb_t *out, const char *name, const char *suffix, const char *const labels[]) {
    text(out, name);
    text(out, suffix);
    for (uint32_t i = 0; labels && labels[i]; i += 2) {
        text(out, i ? "," : "{");
        text(out, labels[i]);
        text(out, "=\"");
        for (const char *p = labels[i + 1]; *p; p++) {
            if (*p == '\n') text(out, "\\n");
            else if (*p == '\\' || *p == '"') td_pb_raw(out, (char[]){'\\', *p}, 2);
            else td_pb_raw(out, p, 1);
        }
        text(out, "\"");
    }
    text(out, labels && labels[0] ? "} " : " ");
}

static void integer(td_pb_t *out, uint64_t v) {
    char buf[24];
    snprintf(buf, sizeof buf, "%" PRIu64 "\n", v);
    text(out, buf);
}

static void real(td_pb_t *out, double v) {
    char buf[32];
    snprintf(buf, sizeof buf, "%.9g\n", v);
    text(out, buf);
}

static void value(td_pb_t *out, const family_t *f, uint64_t v) {
    if (f->scale != 0) real(out, (double)v * f->scale);
    else integer(out, v);
}

static void per_model(const td_metrics_t *m, const family_t *f, td_pb_t *out) {
    for (uint32_t i = 0; i < m->n_models; i++) {
        const td_model_row_t *r = &m->models[i];
        begin(out, f->name, "", (const char *[]){"model", r->name, "version", r->version, NULL});
        value(out, f, f->number(r));
    }
}

static void states(const td_metrics_t *m, const family_t *f, td_pb_t *out) {
    for (uint32_t i = 0; i < m->n_models; i++)
        for (uint32_t k = TD_MODEL_UNAVAILABLE; k <= TD_MODEL_UNLOADING; k++) {
            const td_model_row_t *r = &m->models[i];
            const char *state = td_model_state_name((td_model_state_t)k);
            begin(out, f->name, "", (const char *[]){"model", r->name, "version", r->version, "state", state, NULL});
            integer(out, r->state == k);
        }
}

static void per_domain(const td_metrics_t *m, const family_t *f, td_pb_t *out) {
    char name[24];
    for (uint32_t d = 0; d < m->n_domains; d++) {
        begin(out, f->name, "", (const char *[]){"domain", td_domain_name(d, name), NULL});
        uint64_t v = f->number(&m->domains[d]);
        if (v == UINT64_MAX) text(out, "+Inf\n");
        else integer(out, v);
    }
}

static void accounts(const td_metrics_t *m, const family_t *f, td_pb_t *out) {
    char name[24];
    for (uint32_t i = 0; i < m->n_accounts; i++) {
        const td_budget_row_t *r = &m->accounts[i];
        begin(out, f->name, "", (const char *[]){"domain", td_domain_name(r->domain, name), "owner", r->owner, "kind",
                                                 td_charge_kind_name(r->kind), NULL});
        integer(out, r->bytes);
    }
}

static void of_store(const td_metrics_t *m, const family_t *f, td_pb_t *out) {
    begin(out, f->name, "", NULL);
    value(out, f, f->number(&m->store));
}

static void of_process(const td_metrics_t *m, const family_t *f, td_pb_t *out) {
    begin(out, f->name, "", NULL);
    value(out, f, f->number(&m->process));
}

static void build_info(const td_metrics_t *m, const family_t *f, td_pb_t *out) {
    begin(out, f->name, "", (const char *[]){"version", m->version, NULL});
    integer(out, 1);
}

static void start_time(const td_metrics_t *m, const family_t *f, td_pb_t *out) {
    begin(out, f->name, "", NULL);
    integer(out, (uint64_t)m->started_s);
}

static void ready(const td_metrics_t *m, const family_t *f, td_pb_t *out) {
    begin(out, f->name, "", NULL);
    integer(out, m->ready);
}

static void slow_runs(const td_metrics_t *m, const family_t *f, td_pb_t *out) {
    begin(out, f->name, "", NULL);
    integer(out, m->slow_runs);
}

static void requests(const td_metrics_t *m, const family_t *f, td_pb_t *out) {
    static const char *const codes[TD_STATS_CODES] = {
        "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
        "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
        "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"};
    const td_stats_entry_t *e;
    for (uint32_t at = 0; m->requests && (e = td_stats_next(m->requests, &at));)
        for (uint32_t c = 0; c < TD_STATS_CODES; c++) {
            uint64_t n = e->requests[c];
            if (!n) continue;
            begin(out, f->name, "", (const char *[]){"model", e->model, "version", e->version, "code", codes[c], NULL});
            integer(out, n);
        }
}

static void histogram(const family_t *f, const td_stats_entry_t *e, const td_stats_times_t *t, td_pb_t *out) {
    uint64_t sum_ns = t->sum_ns, n = 0;
    for (uint32_t i = 0; i < TD_STATS_BUCKETS; i++) {
        char le[32] = "+Inf";
        if (i < TD_STATS_BUCKETS - 1) snprintf(le, sizeof le, "%g", (double)td_stats_bounds_ns[i] / 1e9);
        n += t->buckets[i];
        begin(out, f->name, "_bucket", (const char *[]){"model", e->model, "version", e->version, "le", le, NULL});
        integer(out, n);
    }
    const char *const labels[] = {"model", e->model, "version", e->version, NULL};
    begin(out, f->name, "_sum", labels);
    real(out, (double)sum_ns / 1e9);
    begin(out, f->name, "_count", labels);
    integer(out, n);
}

static void queue_times(const td_metrics_t *m, const family_t *f, td_pb_t *out) {
    const td_stats_entry_t *e;
    for (uint32_t at = 0; m->requests && (e = td_stats_next(m->requests, &at));)
        if (*e->model) histogram(f, e, &e->queue, out);
}

static void run_times(const td_metrics_t *m, const family_t *f, td_pb_t *out) {
    const td_stats_entry_t *e;
    for (uint32_t at = 0; m->requests && (e = td_stats_next(m->requests, &at));)
        if (*e->model) histogram(f, e, &e->run, out);
}

/* Models that no request was chosen of have no samples. */
static bool sampled(const td_stats_entry_t *e) {
    uint64_t n = e->checked;
    for (uint32_t k = 0; k < TD_SKIPS; k++) n += e->skipped[k];
    return n != 0;
}

static void checks(const td_metrics_t *m, const family_t *f, td_pb_t *out) {
    const td_stats_entry_t *e;
    for (uint32_t at = 0; m->requests && (e = td_stats_next(m->requests, &at));) {
        if (!sampled(e)) continue;
        begin(out, f->name, "", (const char *[]){"model", e->model, "version", e->version, NULL});
        integer(out, f->number(e));
    }
}

static void skipped_checks(const td_metrics_t *m, const family_t *f, td_pb_t *out) {
    static const char *const reasons[TD_SKIPS] = {"busy", "memory", "state", "random", "host", "gone", "yielded"};
    const td_stats_entry_t *e;
    for (uint32_t at = 0; m->requests && (e = td_stats_next(m->requests, &at));)
        for (uint32_t k = 0; k < TD_SKIPS; k++) {
            uint64_t n = e->skipped[k];
            if (!n) continue;
            begin(out, f->name, "",
                  (const char *[]){"model", e->model, "version", e->version, "reason", reasons[k], NULL});
            integer(out, n);
        }
}

/* 00:00 UTC of the first day outside. */
static uint64_t leaves(const void *row) {
    int32_t day = ((const td_model_row_t *)row)->leave_day;
    struct tm tm = {.tm_year = day / 10000 - 1900, .tm_mon = day / 100 % 100 - 1, .tm_mday = day % 100};
    time_t t = day ? timegm(&tm) : 0;
    return t > 0 ? (uint64_t)t : 0;
}

#define NUMBER(fn, type, expr)                                                                                       \
    static uint64_t fn(const void *row) {                                                                            \
        const type *r = row;                                                                                         \
        return expr;                                                                                                 \
    }
NUMBER(v_checked, td_stats_entry_t, r->checked)
NUMBER(v_differed, td_stats_entry_t, r->differed)
NUMBER(m_default, td_model_row_t, r->is_default)
NUMBER(m_pinned, td_model_row_t, r->pinned)
NUMBER(m_bytes, td_model_row_t, r->bytes)
NUMBER(m_leases, td_model_row_t, r->leases)
NUMBER(m_sequences, td_model_row_t, r->sequences)
NUMBER(m_done, td_model_row_t, r->state == TD_MODEL_LOADING ? r->done : 0)
NUMBER(m_total, td_model_row_t, r->state == TD_MODEL_LOADING ? r->total : 0)
NUMBER(m_loads, td_model_row_t, r->loads)
NUMBER(m_evictions, td_model_row_t, r->evictions)
NUMBER(m_replays, td_model_row_t, r->graph_replays)
NUMBER(m_captures, td_model_row_t, r->graph_captures)
NUMBER(m_refused, td_model_row_t, r->graph_refused)
NUMBER(m_idle, td_model_row_t, r->state == TD_MODEL_READY ? r->idle_ms : 0)
NUMBER(s_loads, td_store_stats_t, r->loads)
NUMBER(s_failed, td_store_stats_t, r->failed_loads)
NUMBER(s_unloads, td_store_stats_t, r->unloads)
NUMBER(s_evictions, td_store_stats_t, r->evictions)
NUMBER(s_refusals, td_store_stats_t, r->refusals)
NUMBER(s_rescans, td_store_stats_t, r->rescans)
NUMBER(s_load_ns, td_store_stats_t, r->load_ns)
NUMBER(s_queued, td_store_stats_t, r->queued)
NUMBER(s_payloads, td_store_stats_t, r->payloads)
NUMBER(s_payload_bytes, td_store_stats_t, r->payload_bytes)
NUMBER(s_payload_refs, td_store_stats_t, r->payload_refs)
NUMBER(b_limit, td_budget_totals_t, r->limit)
NUMBER(b_charged, td_budget_totals_t, r->charged)
NUMBER(b_reserved, td_budget_totals_t, r->reserved)
NUMBER(b_peak, td_budget_totals_t, r->peak)
NUMBER(p_resident, td_process_t, r->resident)
NUMBER(p_shared, td_process_t, r->shared)
NUMBER(p_allocated, td_process_t, r->heap_allocated)
NUMBER(p_heap, td_process_t, r->heap_resident)
NUMBER(p_metadata, td_process_t, r->heap_metadata)

static const family_t families[] = {
    {"thunkd_build_info", "gauge", "Always 1; the version is a label.", build_info, NULL, 0},
    {"thunkd_start_time_seconds", "gauge", "Unix time at which the daemon started.", start_time, NULL, 0},
    {"thunkd_ready", "gauge", "1 when requests are served, 0 while starting and while finishing.", ready, NULL, 0},
    {"thunkd_slow_runs_total", "counter", "Runs that took longer than slow_run_ms; the log says where they stood.",
     slow_runs, NULL, 0},
    {"thunkd_requests_total", "counter",
     "Answered inference requests by gRPC code; without a model: requests that came to none.", requests, NULL, 0},
    {"thunkd_request_queue_seconds", "histogram", "Time from the whole request to the start of its run.", queue_times,
     NULL, 0},
    {"thunkd_request_run_seconds", "histogram", "Time that the run took.", run_times, NULL, 0},
    {"thunkd_verify_checked_total", "counter", "Requests that verify_sample has checked on the host device.", checks,
     v_checked, 0},
    {"thunkd_verify_differed_total", "counter", "Of these, requests whose answer differed; the log says in what.",
     checks, v_differed, 0},
    {"thunkd_verify_skipped_total", "counter", "Requests that verify_sample chose but did not check, by reason.",
     skipped_checks, NULL, 0},
    {"thunkd_model_state", "gauge", "1 for the state that the version is in, 0 for the others.", states, NULL, 0},
    {"thunkd_model_default", "gauge", "1 for the version that requests without one get.", per_model, m_default, 0},
    {"thunkd_model_pinned", "gauge", "1 when the version is never evicted.", per_model, m_pinned, 0},
    {"thunkd_model_charged_bytes", "gauge", "Bytes of the budget that the version holds.", per_model, m_bytes, 0},
    {"thunkd_model_leases", "gauge", "Requests that use the version now.", per_model, m_leases, 0},
    {"thunkd_model_sequences", "gauge", "Sequences whose state the version keeps.", per_model, m_sequences, 0},
    {"thunkd_model_loading_done_bytes", "gauge", "While loading, bytes of its files that have been read.", per_model,
     m_done, 0},
    {"thunkd_model_loading_total_bytes", "gauge", "While loading, bytes of its files.", per_model, m_total, 0},
    {"thunkd_model_loads_total", "counter", "Successful loads of the version.", per_model, m_loads, 0},
    {"thunkd_model_evictions_total", "counter", "Times the version was unloaded to make room for others.", per_model,
     m_evictions, 0},
    {"thunkd_model_idle_seconds", "gauge", "Time since its last request ended; 0 when it is not ready.", per_model,
     m_idle, 1e-3},
    {"thunkd_model_leaves_window_timestamp_seconds", "gauge",
     "Unix time at which the artifact leaves the contract's window; 0: not known.", per_model, leaves, 0},
    {"thunkd_graph_replays_total", "counter", "Graphs of the device that the version's runs launched.", per_model,
     m_replays, 0},
    {"thunkd_graph_captures_total", "counter",
     "Times that a part of the version was captured in a graph, or captured anew.", per_model,
     m_captures, 0},
    {"thunkd_graph_refused_total", "counter",
     "Parts of the version that could not be captured in a graph; the log says why.", per_model,
     m_refused, 0},
    {"thunkd_store_loads_total", "counter", "Successful loads.", of_store, s_loads, 0},
    {"thunkd_store_failed_loads_total", "counter", "Loads that failed.", of_store, s_failed, 0},
    {"thunkd_store_unloads_total", "counter", "Unloads, for whatever reason.", of_store, s_unloads, 0},
    {"thunkd_store_evictions_total", "counter", "Unloads to make room for others.", of_store, s_evictions, 0},
    {"thunkd_store_refusals_total", "counter", "Loads refused because the budget had no room.", of_store, s_refusals,
     0},
    {"thunkd_store_rescans_total", "counter", "Passes over the store's folder.", of_store, s_rescans, 0},
    {"thunkd_store_load_seconds_total", "counter", "Time spent in loads.", of_store, s_load_ns, 1e-9},
    {"thunkd_store_queued_loads", "gauge", "Loads that wait for a thread.", of_store, s_queued, 0},
    {"thunkd_payloads", "gauge", "Different large constants, kernels and weights in memory.", of_store, s_payloads, 0},
    {"thunkd_payload_bytes", "gauge", "Bytes of them.", of_store, s_payload_bytes, 0},
    {"thunkd_payload_references", "gauge", "Uses of them; more than payloads where models share.", of_store,
     s_payload_refs, 0},
    {"thunkd_budget_limit_bytes", "gauge", "The budget; +Inf: none.", per_domain, b_limit, 0},
    {"thunkd_budget_charged_bytes", "gauge", "Bytes in use.", per_domain, b_charged, 0},
    {"thunkd_budget_reserved_bytes", "gauge", "Bytes set aside for loads.", per_domain, b_reserved, 0},
    {"thunkd_budget_peak_bytes", "gauge", "The most that was charged and reserved at one time.", per_domain, b_peak, 0},
    {"thunkd_budget_account_bytes", "gauge", "Bytes in use by owner and kind.", accounts, NULL, 0},
    {"thunkd_process_resident_bytes", "gauge", "Memory of the process as the kernel counts it.", of_process, p_resident,
     0},
    {"thunkd_process_file_bytes", "gauge", "Of the resident memory, pages of files and shared memory.", of_process,
     p_shared, 0},
    {"thunkd_heap_allocated_bytes", "gauge", "Live blocks of the allocator.", of_process, p_allocated, 0},
    {"thunkd_heap_resident_bytes", "gauge", "Memory that the allocator has from the system, at most.", of_process,
     p_heap, 0},
    {"thunkd_heap_metadata_bytes", "gauge", "Memory that the allocator needs for itself.", of_process, p_metadata, 0},
};

void td_metrics_write(const td_metrics_t *m, td_pb_t *out) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const family_t *f = &families[i];
        const char *const parts[] = {"# HELP ", f->name, " ", f->help, "\n# TYPE ", f->name, " ", f->type, "\n"};
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) text(out, parts[k]);
        f->samples(m, f, out);
    }
}
