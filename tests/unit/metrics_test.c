/* SPDX-License-Identifier: Apache-2.0 */
/* The exposition: its syntax, its values, and that docs/metrics.md lists just what is exported. */
#include "daemon/metrics.c"
#include "daemon/stats.c"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>

static td_stats_t *stats;
static char *page;

static void setup(void) {
    static const td_model_row_t models[] = {
        {.name = "mlp", .version = "2", .state = TD_MODEL_READY, .bytes = 1234567890123u, .leases = 3, .idle_ms = 1500,
         .is_default = true, .leave_day = 20270101, .loads = 1, .graph_replays = 12, .graph_captures = 2, .graph_refused = 1},
        {.name = "a\"b\\c\nd", .version = "1", .state = TD_MODEL_LOADING, .done = 10, .total = 40},
    };
    static const td_budget_row_t accounts[] = {{0, TD_CHARGE_WEIGHTS, "mlp/2", 77},
                                               {2, TD_CHARGE_PROGRAMS, "mlp/2", 5}};
    ck_assert_int_eq(td_stats_create(&stats, NULL), TD_OK);
    td_stats_infer(stats, "mlp", "2", 0, 5000, 30000);      /* buckets 0.00001 and 0.00005 */
    td_stats_infer(stats, "mlp", "2", 0, 10001, 100000000); /* 0.000025 and 0.1 */
    td_stats_infer(stats, "mlp", "2", 0, 10000, 60000000000u);
    td_stats_infer(stats, "mlp", "2", 4, 9, 0);
    td_stats_infer(stats, "mlp", "2", 99, 9, 0);
    td_stats_infer(stats, NULL, NULL, 5, 0, 0);
    td_stats_entry(stats, "mlp", "2")->checked = 9;
    td_stats_entry(stats, "mlp", "2")->skipped[TD_SKIP_MEMORY] = 4;
    td_metrics_t m = {.version = "1.2", .started_s = 1700000000, .ready = true, .slow_runs = 3, .models = models, .n_models = 2,
                      .n_domains = 2, .n_accounts = 2, .accounts = accounts, .requests = stats};
    m.store = (td_store_stats_t){.loads = 4, .load_ns = 2500000000u};
    m.domains[0] = (td_budget_totals_t){.limit = UINT64_MAX, .charged = 77};
    m.domains[1] = (td_budget_totals_t){.limit = 1000, .peak = 6};
    td_pb_t out = {0};
    td_metrics_write(&m, &out);
    td_pb_raw(&out, "", 1);
    ck_assert(!out.failed);
    page = (char *)out.data;
}

static void teardown(void) {
    free(page);
    td_stats_destroy(stats);
}

/* Is it a line of the page? */
static bool has(const char *line) {
    size_t n = strlen(line);
    for (const char *p = page; (p = strstr(p, line)); p++)
        if ((p == page || p[-1] == '\n') && p[n] == '\n') return true;
    return false;
}

START_TEST(values) {
    static const char *const lines[] = {
        "# HELP thunkd_build_info Always 1; the version is a label.",
        "# TYPE thunkd_build_info gauge",
        "thunkd_build_info{version=\"1.2\"} 1",
        "thunkd_start_time_seconds 1700000000",
        "thunkd_ready 1",
        "thunkd_slow_runs_total 3",
        "thunkd_verify_checked_total{model=\"mlp\",version=\"2\"} 9",
        "thunkd_verify_differed_total{model=\"mlp\",version=\"2\"} 0",
        "thunkd_verify_skipped_total{model=\"mlp\",version=\"2\",reason=\"memory\"} 4",
        "thunkd_requests_total{model=\"mlp\",version=\"2\",code=\"OK\"} 3",
        "thunkd_requests_total{model=\"mlp\",version=\"2\",code=\"DEADLINE_EXCEEDED\"} 1",
        "thunkd_requests_total{model=\"mlp\",version=\"2\",code=\"UNKNOWN\"} 1",
        "thunkd_requests_total{model=\"\",version=\"\",code=\"NOT_FOUND\"} 1",
        "# TYPE thunkd_request_run_seconds histogram",
        "thunkd_request_run_seconds_bucket{model=\"mlp\",version=\"2\",le=\"2.5e-05\"} 0",
        "thunkd_request_run_seconds_bucket{model=\"mlp\",version=\"2\",le=\"5e-05\"} 1",
        "thunkd_request_run_seconds_bucket{model=\"mlp\",version=\"2\",le=\"0.1\"} 2",
        "thunkd_request_run_seconds_bucket{model=\"mlp\",version=\"2\",le=\"10\"} 2",
        "thunkd_request_run_seconds_bucket{model=\"mlp\",version=\"2\",le=\"+Inf\"} 3",
        "thunkd_request_run_seconds_sum{model=\"mlp\",version=\"2\"} 60.10003",
        "thunkd_request_run_seconds_count{model=\"mlp\",version=\"2\"} 3",
        "thunkd_request_queue_seconds_bucket{model=\"mlp\",version=\"2\",le=\"1e-05\"} 2",
        "thunkd_request_queue_seconds_bucket{model=\"mlp\",version=\"2\",le=\"2.5e-05\"} 3",
        "thunkd_model_state{model=\"mlp\",version=\"2\",state=\"READY\"} 1",
        "thunkd_model_state{model=\"mlp\",version=\"2\",state=\"LOADING\"} 0",
        "thunkd_model_state{model=\"a\\\"b\\\\c\\nd\",version=\"1\",state=\"LOADING\"} 1",
        "thunkd_model_charged_bytes{model=\"mlp\",version=\"2\"} 1234567890123",
        "thunkd_model_loading_total_bytes{model=\"a\\\"b\\\\c\\nd\",version=\"1\"} 40",
        "thunkd_model_idle_seconds{model=\"mlp\",version=\"2\"} 1.5",
        "thunkd_model_leaves_window_timestamp_seconds{model=\"mlp\",version=\"2\"} 1798761600", /* 2027-01-01T00:00Z */
        "thunkd_model_leaves_window_timestamp_seconds{model=\"a\\\"b\\\\c\\nd\",version=\"1\"} 0",
        "thunkd_graph_replays_total{model=\"mlp\",version=\"2\"} 12",
        "thunkd_graph_captures_total{model=\"mlp\",version=\"2\"} 2",
        "thunkd_graph_refused_total{model=\"mlp\",version=\"2\"} 1",
        "thunkd_store_load_seconds_total 2.5",
        "thunkd_budget_limit_bytes{domain=\"host\"} +Inf",
        "thunkd_budget_limit_bytes{domain=\"device0\"} 1000",
        "thunkd_budget_peak_bytes{domain=\"device0\"} 6",
        "thunkd_budget_account_bytes{domain=\"host\",owner=\"mlp/2\",kind=\"weights\"} 77",
        "thunkd_budget_account_bytes{domain=\"device1\",owner=\"mlp/2\",kind=\"programs\"} 5",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        ck_assert_msg(has(lines[i]), "%s not in\n%s", lines[i], page);
    ck_assert_ptr_null(strstr(page, "request_run_seconds_bucket{model=\"\""));
}
END_TEST

/* Names, units and kinds as Prometheus wants them; each family once. */
START_TEST(families_are_well_named) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const char *n = families[i].name;
        size_t k = strlen(n);
        bool total = k > 6 && !strcmp(n + k - 6, "_total");
        ck_assert_msg(!strncmp(n, "thunkd_", 7) && strspn(n, "abcdefghijklmnopqrstuvwxyz_") == k, "%s", n);
        ck_assert_msg(total == !strcmp(families[i].type, "counter"), "%s", n);
        ck_assert_msg(!strpbrk(families[i].help, "\n\\"), "%s", n);
        for (size_t j = 0; j < i; j++) ck_assert_str_ne(n, families[j].name);
    }
}
END_TEST

/* A row of docs/metrics.md: | `name` | type | labels | meaning | */
START_TEST(documented) {
    char line[1024], name[128], type[32];
    size_t rows = 0;
    bool found[sizeof families / sizeof *families] = {0};
    FILE *f = fopen("docs/metrics.md", "r");
    ck_assert_msg(f != NULL, "docs/metrics.md: run the test in the source folder");
    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, "| `%127[a-z_]` | %31[a-z] |", name, type) != 2) continue;
        rows++;
        bool known = false;
        for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
            if (strcmp(families[i].name, name)) continue;
            known = found[i] = true;
            ck_assert_msg(!strcmp(families[i].type, type), "docs/metrics.md: %s is a %s", name, families[i].type);
        }
        ck_assert_msg(known, "docs/metrics.md: %s is not exported", name);
    }
    fclose(f);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        ck_assert_msg(found[i], "docs/metrics.md lacks %s", families[i].name);
    ck_assert_uint_eq(rows, sizeof families / sizeof *families);
}
END_TEST

static void *count(void *arg) {
    char model[8];
    for (int i = 0; i < 2000; i++) {
        snprintf(model, sizeof model, "m%d", i % 50);
        td_stats_infer(arg, model, "1", 0, 1, 1);
    }
    return NULL;
}

START_TEST(counted_by_many) {
    pthread_t t[4];
    for (int i = 0; i < 4; i++) ck_assert_int_eq(pthread_create(&t[i], NULL, count, stats), 0);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    uint32_t at = 0, models = 0;
    uint64_t n = 0;
    for (const td_stats_entry_t *e; (e = td_stats_next(stats, &at));)
        if (*e->model == 'm' && e->model[1] != 'l') {
            models++;
            n += e->requests[0];
            ck_assert_uint_eq(e->requests[0], 160);
            ck_assert_uint_eq(e->run.buckets[0], 160);
        }
    ck_assert_uint_eq(models, 50);
    ck_assert_uint_eq(n, 8000);
}
END_TEST

/* What is beyond the table is counted without a model. */
START_TEST(many_models) {
    char model[16];
    for (int i = 0; i < 5000; i++) {
        snprintf(model, sizeof model, "x%d", i);
        td_stats_infer(stats, model, "1", 0, 1, 1);
    }
    uint32_t at = 0;
    uint64_t n = 0, none = 0, entries = 0;
    for (const td_stats_entry_t *e; (e = td_stats_next(stats, &at)); entries++) {
        if (*e->model == 'x') n += e->requests[0];
        if (!*e->model) none += e->requests[0];
    }
    ck_assert_uint_eq(entries, 2048 + 1);
    ck_assert_uint_eq(n, 2047); /* and mlp/2 */
    ck_assert_uint_eq(n + none, 5000);
}
END_TEST

int main(void) {
    Suite *s = suite_create("metrics");
    TCase *t = tcase_create("metrics");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, values);
    tcase_add_test(t, families_are_well_named);
    tcase_add_test(t, documented);
    tcase_add_test(t, counted_by_many);
    tcase_add_test(t, many_models);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
