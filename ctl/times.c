/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/times.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/print.h"

enum { SLOWEST = 20 };

static int by_value(const void *pa, const void *pb) {
    double a = *(const double *)pa, b = *(const double *)pb;
    return (a > b) - (a < b);
}

static int by_time(const void *pa, const void *pb) {
    const td_profile_row_t *a = pa, *b = pb;
    return (a->ns < b->ns) - (a->ns > b->ns);
}

typedef struct summary {
    double min, median;
    td_profile_row_t *rows; /* those that ran, slowest first */
    uint32_t n_rows;
    uint64_t ns;            /* of all rows */
} summary_t;

static td_status_t summarize(const ctl_times_t *t, summary_t *out, td_err_t *err) {
    double *ms = malloc(t->n * sizeof *ms);
    *out = (summary_t){.rows = malloc((t->n_rows + 1u) * sizeof *out->rows)};
    if (!ms || !out->rows) {
        free(ms);
        return td_fail(err, TD_NOMEM, "out of memory");
    }
    memcpy(ms, t->ms, t->n * sizeof *ms);
    qsort(ms, t->n, sizeof *ms, by_value);
    out->min = ms[0];
    out->median = t->n % 2 ? ms[t->n / 2] : (ms[t->n / 2 - 1] + ms[t->n / 2]) / 2;
    free(ms);
    for (uint32_t i = 0; i < t->n_rows; i++) {
        out->ns += t->rows[i].ns;
        if (t->rows[i].calls) out->rows[out->n_rows++] = t->rows[i];
    }
    qsort(out->rows, out->n_rows, sizeof *out->rows, by_time);
    return TD_OK;
}

static double share(const summary_t *s, const td_profile_row_t *r) {
    return s->ns ? (double)r->ns / (double)s->ns : 0;
}

td_status_t ctl_times_print(const ctl_times_t *t, td_err_t *err) {
    summary_t s;
    td_status_t st = summarize(t, &s, err);
    if (st == TD_OK) printf("%u runs: min %.4f ms, median %.4f ms\n", t->n, s.min, s.median);
    if (st == TD_OK && t->rows) {
        printf("%-24s %-40s %10s %12s %7s\n", "thunk", "instruction", "calls", "total ms", "share");
        for (uint32_t i = 0; i < s.n_rows && i < SLOWEST; i++)
            printf("%-24s %-40s %10llu %12.4f %6.1f%%\n", s.rows[i].kind, s.rows[i].name,
                   (unsigned long long)s.rows[i].calls, (double)s.rows[i].ns / 1e6, 100 * share(&s, &s.rows[i]));
        printf("all thunks: %.4f ms\n", (double)s.ns / 1e6);
    }
    free(s.rows);
    return st;
}

static json_t *profile(const summary_t *s) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < s->n_rows; i++) {
        const td_profile_row_t *r = &s->rows[i];
        json_t *j = json_pack("{s:s, s:o, s:I, s:f, s:f}", "kind", r->kind, "instruction", ctl_json_text(r->name),
                              "calls", (json_int_t)r->calls, "total_ms", (double)r->ns / 1e6, "share", share(s, r));
        json_array_append_new(list, j);
    }
    return list;
}

static json_t *graphs(const td_graph_stats_t *g) {
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:o}", "graphs", (json_int_t)g->graphs, "refused",
                     (json_int_t)g->refused, "launches", (json_int_t)g->launches, "captures", (json_int_t)g->captures, "updates",
                     (json_int_t)g->updates, "reason", ctl_json_text(g->reason));
}

static json_t *reals(const double *v, uint32_t n) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < n; i++) json_array_append_new(list, json_real(v[i]));
    return list;
}

td_status_t ctl_times_json(const ctl_times_t *t, td_err_t *err) {
    summary_t s;
    td_status_t st = summarize(t, &s, err);
    if (st == TD_OK) {
        json_t *j = json_pack("{s:o, s:i, s:f, s:f, s:o, s:o}", "name", ctl_json_text(t->name), "runs", (int)t->n,
                              "min_ms", s.min, "median_ms", s.median, "times_ms", reals(t->ms, t->n), "cpu_ms",
                              reals(t->cpu_ms, t->n));
        if (j && t->graphs) json_object_set_new(j, "graphs", graphs(t->graphs));
        if (j && t->rows) json_object_set_new(j, "profile", profile(&s));
        int bad = j ? json_dumpf(j, stdout, JSON_REAL_PRECISION(6) | JSON_COMPACT) : -1;
        if (bad) st = td_fail(err, TD_NOMEM, "out of memory");
        else putchar('\n');
        json_decref(j);
    }
    free(s.rows);
    return st;
}
