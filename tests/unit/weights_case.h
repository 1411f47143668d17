/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of weights: a folder of files, a counting budget, a payload table, four parameters. */
#ifndef TD_TESTS_WEIGHTS_CASE_H
#define TD_TESTS_WEIGHTS_CASE_H

#include <check.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/safetensors.h"
#include "store/weights.h"

const char *__asan_default_options(void); /* ASan's SIGBUS handler must let ours in */
const char *__asan_default_options(void) { return "handle_sigbus=1:allow_user_segv_handler=1"; }

enum { BIG = 20000, PAGE = 4096 }; /* floats of a tensor that has pages of its own */

static char dir[32], paths[4][128];
static td_counting_alloc_t counter;
static td_payload_table_t *table;
static td_err_t err;
static _Atomic(uint64_t) taken, most, limit;
static float big[BIG];

static bool take(void *ctx, uint64_t bytes) {
    (void)ctx;
    uint64_t now = atomic_fetch_add(&taken, bytes) + bytes;
    if (now > limit) atomic_fetch_sub(&taken, bytes);
    else if (now > most) most = now;
    return now <= limit;
}
static void give(void *ctx, uint64_t bytes) {
    (void)ctx;
    ck_assert_uint_ge(taken, bytes);
    atomic_fetch_sub(&taken, bytes);
}
static const td_charge_t charge = {take, give, NULL};

static const char *in_dir(const char *name) {
    static int i;
    char *p = paths[i++ & 3];
    snprintf(p, sizeof paths[0], "%s/%s", dir, name);
    return p;
}

/* ---- parameters: x f32[4], w f32[20000], b bf16[3], flag pred[2] ---- */

static const int64_t dims_x[] = {4}, dims_w[] = {BIG}, dims_b[] = {3}, dims_f[] = {2};
static const td_shape_t shapes[4] = {{.type = TD_F32, .rank = 1, .dims = dims_x, .default_layout = true},
                                     {.type = TD_F32, .rank = 1, .dims = dims_w, .default_layout = true},
                                     {.type = TD_BF16, .rank = 1, .dims = dims_b, .default_layout = true},
                                     {.type = TD_PRED, .rank = 1, .dims = dims_f, .default_layout = true}};
static const td_io_t params[4] = {{.name = "x", .path = "", .shape = &shapes[0]},
                                  {.name = "Arg_1.2", .path = "params['w']", .shape = &shapes[1]},
                                  {.name = "bias", .path = "params['b']", .shape = &shapes[2]},
                                  {.name = "flag", .path = NULL, .shape = &shapes[3]}};

static const float x_data[4] = {1, 2, 3, 4};
static const uint16_t b_data[3] = {0x3f80, 0x4000, 0x4040};
static const uint8_t f_data[2] = {1, 0};

static td_st_tensor_t tensor_x(const char *name) { return (td_st_tensor_t){name, "F32", 1, dims_x, x_data, 16}; }
static td_st_tensor_t tensor_w(const char *name) { return (td_st_tensor_t){name, "F32", 1, dims_w, big, 4 * BIG}; }
static td_st_tensor_t tensor_b(const char *name) { return (td_st_tensor_t){name, "BF16", 1, dims_b, b_data, 6}; }
static td_st_tensor_t tensor_f(const char *name) { return (td_st_tensor_t){name, "BOOL", 1, dims_f, f_data, 2}; }

static void write_st(const char *name, const td_st_tensor_t *t, uint32_t n) {
    ck_assert_msg(td_st_write(in_dir(name), t, n, &err) == TD_OK, "%s", err.text);
}
#define WRITE(name, ...) \
    write_st(name, (const td_st_tensor_t[]){__VA_ARGS__}, \
             sizeof((const td_st_tensor_t[]){__VA_ARGS__}) / sizeof(td_st_tensor_t))

static void setup(void) {
    strcpy(dir, "/tmp/td_weights_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    for (int i = 0; i < BIG; i++) big[i] = (float)i / 7;
    td_counting_alloc_init(&counter, td_alloc_default());
    ck_assert_int_eq(td_payload_table_create(&counter.base, &table, NULL), TD_OK);
    td_payload_table_set_charge(table, &charge);
    atomic_store(&taken, 0);
    atomic_store(&most, 0);
    limit = UINT64_MAX;
    err = (td_err_t){0};
}

static void teardown(void) {
    uint64_t n = 1, bytes = 1, refs = 1;
    td_payload_table_stats(table, &n, &bytes, &refs);
    ck_assert_uint_eq(n + bytes + refs, 0);
    ck_assert_uint_eq(taken, 0);
    td_payload_table_destroy(table);
    ck_assert_uint_eq(counter.live_bytes, 0);
    char cmd[64];
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", dir);
    ck_assert_int_eq(system(cmd), 0);
}

static td_status_t try_open(const td_model_yaml_t *c, const char *file, td_weights_t **out) {
    *out = NULL;
    td_weights_opts_t o = {.dir = dir, .config = c, .files_override = file, .payloads = table, .alloc = &counter.base,
                           .charge = &charge};
    return td_weights_open(&o, out, &err);
}
static td_weights_t *open_with(const td_model_yaml_t *c, const char *file) {
    td_weights_t *w = NULL;
    ck_assert_msg(try_open(c, file, &w) == TD_OK, "%s", err.text);
    return w;
}

static void bind(td_weights_t *w, const void *out[4]) {
    ck_assert_msg(td_weights_bind(w, params, 4, out, &err) == TD_OK, "%s", err.text);
}

static void expect_text(const char *a, const char *b, const char *c) {
    const char *all[] = {a, b, c};
    for (int i = 0; i < 3; i++)
        ck_assert_msg(strstr(err.text, all[i]) != NULL, "'%s' does not tell '%s'", err.text, all[i]);
}

__attribute__((unused)) static void write_text(const char *name, const char *text) {
    FILE *f = fopen(in_dir(name), "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

#endif
