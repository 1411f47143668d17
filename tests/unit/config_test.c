/* SPDX-License-Identifier: Apache-2.0 */
#include "config/config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const keys[] = {
    "socket", "socket_mode", "admin_socket", "admin_socket_mode", "metrics", "store", "  path", "  budget", "    host",
    "    device", "    requests", "  load_threads", "  rescan_ms", "  load", "device", "cuda", "  graphs", "threads",
    "queue_depth", "max_message_bytes", "max_concurrent_streams", "slow_run_ms", "verify_sample", "drain_timeout_ms",
    "contract_date", "enforce", "ffi_libraries"};
#define N_KEYS (sizeof keys / sizeof *keys)

/* On success the caller frees *c. The file's name, for messages, is in path. */
static td_status_t load_text(const char *text, size_t size, td_config_t *c, char path[64], td_err_t *err) {
    strcpy(path, "/tmp/thunkd-config-XXXXXX");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, size), (ssize_t)size);
    close(fd);
    td_status_t s = td_config_load(path, c, err);
    unlink(path);
    return s;
}

/* The documented file lists every key with its default value. */
START_TEST(shipped_file) {
    char path[64];
    td_config_t a, b;
    td_err_t err = {0};
    ck_assert_msg(td_config_load("config/thunkd.yaml", &a, &err) == TD_OK, "%s", err.text);
    ck_assert_int_eq(load_text("", 0, &b, path, &err), TD_OK);
    ck_assert_str_eq(a.socket, b.socket);
    ck_assert_str_eq(a.store, b.store);
    ck_assert_str_eq(a.device, b.device);
    ck_assert_uint_eq(a.socket_mode, b.socket_mode);
    ck_assert_str_eq(a.admin_socket, b.admin_socket);
    ck_assert_uint_eq(a.admin_socket_mode, b.admin_socket_mode);
    ck_assert_uint_eq(a.metrics, b.metrics);
    ck_assert_str_eq(a.store_budget_host, b.store_budget_host);
    ck_assert_str_eq(a.store_budget_device, b.store_budget_device);
    ck_assert_uint_eq(a.load_threads, b.load_threads);
    ck_assert_uint_eq(a.rescan_ms, b.rescan_ms);
    ck_assert_uint_eq(a.store_load, b.store_load);
    ck_assert_uint_eq(a.cuda_graphs_off, b.cuda_graphs_off);
    ck_assert_uint_eq(a.threads, b.threads);
    ck_assert_uint_eq(a.queue_depth, b.queue_depth);
    ck_assert_uint_eq(a.max_message_bytes, b.max_message_bytes);
    ck_assert_uint_eq(a.max_concurrent_streams, b.max_concurrent_streams);
    ck_assert_uint_eq(a.slow_run_ms, b.slow_run_ms);
    ck_assert(a.verify_sample == 0 && b.verify_sample == 0);
    ck_assert_uint_eq(a.drain_timeout_ms, b.drain_timeout_ms);
    ck_assert_uint_eq(a.contract_date, b.contract_date);
    ck_assert_uint_eq(a.enforce_strict, b.enforce_strict);
    ck_assert_uint_eq(a.n_ffi_libraries, b.n_ffi_libraries);
    td_config_free(&a);
    td_config_free(&b);
}
END_TEST

START_TEST(shipped_file_names_every_key) {
    static char text[8192];
    char want[64];
    FILE *f = fopen("config/thunkd.yaml", "r");
    ck_assert_ptr_nonnull(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    snprintf(want, sizeof want, "\n%s:", keys[_i]);
    ck_assert_ptr_nonnull(strstr(text, want));
}
END_TEST

START_TEST(values) {
    static const char text[] = "socket: \"/run/a b.sock\"\nsocket_mode: 0600\nthreads: 4\nmax_message_bytes: 65536\n"
                               "contract_date: 2028-02-29\nenforce: strict\ncuda: {graphs: off}\n";
    char path[64];
    td_config_t c;
    td_err_t err = {0};
    ck_assert_msg(load_text(text, strlen(text), &c, path, &err) == TD_OK, "%s", err.text);
    ck_assert_str_eq(c.socket, "/run/a b.sock");
    ck_assert_uint_eq(c.socket_mode, 0600);
    ck_assert_uint_eq(c.threads, 4);
    ck_assert_uint_eq(c.max_message_bytes, 65536);
    ck_assert_uint_eq(c.contract_date, 20280229);
    ck_assert_uint_eq(c.enforce_strict, 1);
    ck_assert_uint_eq(c.cuda_graphs_off, 1);
    ck_assert_str_eq(c.device, "host");
    td_config_free(&c);
    ck_assert_ptr_null(c.socket);
}
END_TEST

START_TEST(store_is_a_folder_or_a_map) {
    static const char folder[] = "store: /models\nadmin_socket: \"\"\nmetrics: false\n";
    static const char map[] = "store:\n  budget: {host: 1.5 GiB, device: 70%}\n  load: explicit\n  path: /models\n"
                              "  rescan_ms: 0\n  load_threads: 4\nadmin_socket_mode: 0640\n";
    char path[64];
    td_config_t c;
    td_err_t err = {0};
    ck_assert_msg(load_text(folder, strlen(folder), &c, path, &err) == TD_OK, "%s", err.text);
    ck_assert_str_eq(c.store, "/models");
    ck_assert_str_eq(c.store_budget_host, "auto");
    ck_assert_str_eq(c.store_budget_device, "auto");
    ck_assert_uint_eq(c.load_threads, 1);
    ck_assert_uint_eq(c.rescan_ms, 10000);
    ck_assert_uint_eq(c.store_load, TD_CONFIG_LOAD_STARTUP);
    ck_assert_str_eq(c.admin_socket, "");
    ck_assert_uint_eq(c.metrics, 0);
    td_config_free(&c);
    ck_assert_msg(load_text(map, strlen(map), &c, path, &err) == TD_OK, "%s", err.text);
    ck_assert_str_eq(c.store, "/models");
    ck_assert_str_eq(c.store_budget_host, "1.5 GiB");
    ck_assert_str_eq(c.store_budget_device, "70%");
    ck_assert_uint_eq(c.load_threads, 4);
    ck_assert_uint_eq(c.rescan_ms, 0);
    ck_assert_uint_eq(c.store_load, TD_CONFIG_LOAD_EXPLICIT);
    ck_assert_str_eq(c.admin_socket, "/run/thunkd/admin.sock");
    ck_assert_uint_eq(c.admin_socket_mode, 0640);
    ck_assert_uint_eq(c.metrics, 1);
    td_config_free(&c);
    ck_assert_ptr_null(c.store_budget_host);
    ck_assert_int_eq(load_text("store: {}\n", 10, &c, path, &err), TD_OK);
    ck_assert_str_eq(c.store, "/var/lib/thunkd/store");
    td_config_free(&c);
}
END_TEST

START_TEST(libraries) {
    static const char text[] = "ffi_libraries:\n- /a.so\n- path: b.so\n  handlers: {t: S, \"t@instantiate\": I}\n"
                               "- {path: c.so, handlers: {}}\n";
    char path[64];
    td_config_t c;
    td_err_t err = {0};
    ck_assert_msg(load_text(text, strlen(text), &c, path, &err) == TD_OK, "%s", err.text);
    ck_assert_uint_eq(c.n_ffi_libraries, 3);
    ck_assert_str_eq(c.ffi_libraries[0].path, "/a.so");
    ck_assert_uint_eq(c.ffi_libraries[0].n_handlers, 0);
    ck_assert_str_eq(c.ffi_libraries[1].path, "b.so");
    ck_assert_uint_eq(c.ffi_libraries[1].n_handlers, 2);
    ck_assert_str_eq(c.ffi_libraries[1].handlers[1].target, "t@instantiate");
    ck_assert_str_eq(c.ffi_libraries[1].handlers[1].symbol, "I");
    ck_assert_uint_eq(c.ffi_libraries[2].n_handlers, 0);
    td_config_free(&c);
    ck_assert_ptr_null(c.ffi_libraries);
}
END_TEST

static const struct {
    const char *text, *message; /* after "FILE:" */
} broken[] = {
    {"socket: /a\nthreads: 1\nstor: /b\n", "3: unknown key 'stor' (did you mean 'store'?)"},
    {"# c\n\nxyzzy: 1\n", "3: unknown key 'xyzzy'"},
    {"contract_date: 2026-02-29\n", "1: contract_date: expected a day as YYYY-MM-DD, got '2026-02-29'"},
    {"contract_date: 2026-2-9\n", "1: contract_date: expected a day as YYYY-MM-DD, got '2026-2-9'"},
    {"enforce: maybe\n", "1: enforce: expected warn or strict, got 'maybe'"},
    {"cuda: {graphs: on}\n", "1: cuda.graphs: expected auto or off, got 'on'"},
    {"cuda: off\n", "1: cuda: expected 'key: value' lines"},
    {"threads: 0\n", "1: threads: expected 1 to 256, got 0"},
    {"threads: 257\n", "1: threads: expected 1 to 256, got 257"},
    {"\nthreads: four\n", "2: threads: expected a number, got 'four'"},
    {"threads: -1\n", "1: threads: expected a number, got '-1'"},
    {"threads: 99999999999999999999999\n", "1: threads: expected a number, got '99999999999999999999999'"},
    {"socket_mode: 0888\n", "1: socket_mode: expected an octal number, got '0888'"},
    {"socket_mode: 7777\n", "1: socket_mode: expected 0 to 777, got 7777"},
    {"threads: 1\nthreads: 2\n", "2: threads is set twice"},
    {"threads: [1]\n", "1: threads takes one value"},
    {"- threads\n", "1: expected 'key: value' lines"},
    {"[a]: 1\n", "1: the key is not a word"},
    {"socket: \"\"\n", "1: socket: expected 1 to 107 bytes, got 0"},
    {"socket: \"a\\0b\"\n", "1: socket holds a NUL byte"},
    {"threads: 1\nstore: \"x\n", "3: "},
    {"threads: 1\n  store: x\n", "2: "},
    {"a: \xff\n", "1: "},
    {"store: [/a]\n", "1: store: expected a path or 'key: value' lines"},
    {"store: \"\"\n", "1: store.path: expected 1 to 4095 bytes, got 0"},
    {"store:\n", "1: store.path: expected 1 to 4095 bytes, got 0"},
    {"store: /a\nstore: {path: /b}\n", "2: store is set twice"},
    {"store: {path: /b}\nstore: {load: explicit}\n", "2: store is set twice"},
    {"store:\n  path: /b\n  path: /c\n", "3: store.path is set twice"},
    {"store:\n  pth: /b\n", "2: unknown key 'store.pth' (did you mean 'store.path'?)"},
    {"store:\n  threads: 1\n", "2: unknown key 'store.threads'"},
    {"store.path: /b\n", "1: unknown key 'store.path'"},
    {"store: {[a]: /b}\n", "1: the key is not a word"},
    {"store:\n  budget: 12GiB\n", "2: store.budget: expected 'key: value' lines"},
    {"store:\n  budget:\n    disk: 1\n", "3: unknown key 'store.budget.disk'"},
    {"store:\n  budget: {host: [1]}\n", "2: store.budget.host takes one value"},
    {"store:\n  budget:\n    host: 12 G\n",
     "3: store.budget.host: '12 G': unknown unit 'G'; KiB, MiB, GiB, TiB, KB, MB, GB, TB or %"},
    {"store: {budget: {device: 101%}}\n", "1: store.budget.device: '101%' is over 100%"},
    {"store: {budget: {host: 0}}\n", "1: store.budget.host: '0' leaves nothing; for no limit say none"},
    {"store: {load_threads: 0}\n", "1: store.load_threads: expected 1 to 64, got 0"},
    {"store: {rescan_ms: 86400001}\n", "1: store.rescan_ms: expected 0 to 86400000, got 86400001"},
    {"store: {load: never}\n", "1: store.load: expected startup, on_demand or explicit, got 'never'"},
    {"store: &a {budget: *a}\n", "1: unknown key 'store.budget.budget'"},
    {"metrics: 1\n", "1: metrics: expected false or true, got '1'"},
    {"admin_socket_mode: 0888\n", "1: admin_socket_mode: expected an octal number, got '0888'"},
    {"ffi_library: 1\n", "1: unknown key 'ffi_library'"},
    {"ffi_librarie: 1\n", "1: unknown key 'ffi_librarie' (did you mean 'ffi_libraries'?)"},
    {"ffi_libraries: /a.so\n", "1: ffi_libraries: expected a list"},
    {"ffi_libraries: []\nffi_libraries: []\n", "2: ffi_libraries is set twice"},
    {"ffi_libraries:\n- [a]\n", "2: a library is a path, or 'path:' and 'handlers:'"},
    {"ffi_libraries:\n- \"\"\n", "2: a library's path: expected 1 to 4095 bytes, got 0"},
    {"ffi_libraries:\n- \"a\\0b\"\n", "2: a library's path: expected 1 to 4095 bytes, got 3"},
    {"ffi_libraries:\n- handlers: {t: S}\n", "2: a library without a path"},
    {"ffi_libraries:\n- path: [a]\n", "2: path takes one value"},
    {"ffi_libraries:\n- path: a\n  path: b\n", "3: path is set twice"},
    {"ffi_libraries:\n- path: a\n  xyzzy: b\n", "3: unknown key 'xyzzy' of a library"},
    {"ffi_libraries:\n- path: a\n  handlers: [t]\n", "3: handlers: expected 'target: symbol' lines"},
    {"ffi_libraries:\n- path: a\n  handlers: {t: [S]}\n", "3: a handler's symbol takes one value"},
    {"ffi_libraries:\n- path: a\n  handlers: {t: S, t: T}\n", "3: target 't' is set twice"},
    {"ffi_libraries:\n- path: a\n  handlers: {t: S}\n  handlers: {u: S}\n", "4: handlers is set twice"},
};

START_TEST(errors_name_the_line) {
    char path[64], want[256];
    td_config_t c;
    td_err_t err = {0};
    ck_assert_int_eq(load_text(broken[_i].text, strlen(broken[_i].text), &c, path, &err), TD_USAGE);
    snprintf(want, sizeof want, "%s:%s", path, broken[_i].message);
    size_t n = strlen(want);
    if (want[n - 1] == ' ') ck_assert_msg(!strncmp(err.text, want, n), "%s", err.text);
    else ck_assert_str_eq(err.text, want);
}
END_TEST

START_TEST(no_file) {
    td_config_t c;
    td_err_t err = {0};
    ck_assert_int_eq(td_config_load("/nonexistent/thunkd.yaml", &c, &err), TD_IO);
    ck_assert_str_eq(err.text, "/nonexistent/thunkd.yaml: No such file or directory");
}
END_TEST

int main(void) {
    Suite *s = suite_create("config");
    TCase *t = tcase_create("config");
    tcase_add_test(t, shipped_file);
    tcase_add_loop_test(t, shipped_file_names_every_key, 0, N_KEYS);
    tcase_add_test(t, values);
    tcase_add_test(t, store_is_a_folder_or_a_map);
    tcase_add_test(t, libraries);
    tcase_add_loop_test(t, errors_name_the_line, 0, sizeof broken / sizeof *broken);
    tcase_add_test(t, no_file);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
