/* SPDX-License-Identifier: Apache-2.0 */
/* Bound parameters: shared by whom, charged once, and files that are lost. */
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "weights_case.h"

/* ---- sharing and budget ---- */

static uint64_t payloads(void) {
    uint64_t n = 0;
    td_payload_table_stats(table, &n, NULL, NULL);
    return n;
}

START_TEST(shared_by_content) {
    WRITE("weights.safetensors", tensor_w("1"), tensor_x("0"));
    if (_i) /* elsewhere in the file, and not aligned */
        WRITE("other.safetensors", tensor_b("2"), tensor_f("3"), {"pad", "U8", 0, NULL, f_data, 1}, tensor_w("1"));
    else
        WRITE("other.safetensors", tensor_b("2"), tensor_f("3"), tensor_w("1"));
    td_weights_t *a = open_with(NULL, NULL), *b = open_with(NULL, NULL);
    td_weights_t *c = open_with(NULL, in_dir("other.safetensors"));
    const void *pa[4], *pb[4], *pc[4];
    bind(a, pa);
    uint64_t first = taken;
    ck_assert_uint_eq(first, td_payload_cost(sizeof big) + td_payload_cost(16));
    bool bound[4];
    uint64_t bytes = 0, resident = 0;
    ck_assert_int_eq(td_weights_match(c, params, 4, bound, &err), TD_OK);
    td_weights_need(c, &bytes, &resident);
    ck_assert_uint_eq(bytes - resident, td_payload_cost(6) + td_payload_cost(2));
    bind(b, pb);
    ck_assert_mem_eq(pa, pb, sizeof pa);
    ck_assert_uint_eq(taken, first);
    ck_assert_uint_eq(payloads(), 2);
    bind(c, pc);
    ck_assert_ptr_eq(pc[1], pa[1]);
    ck_assert_uint_eq(payloads(), 4);
    ck_assert_uint_eq(taken, first + td_payload_cost(6) + td_payload_cost(2));
    ck_assert_uint_eq(td_weights_bytes(c), sizeof big + 8);
    td_weights_close(a);
    unlink(in_dir("weights.safetensors"));
    ck_assert_mem_eq(pc[1], big, sizeof big); /* in the first one's mapping, which stays */
    td_weights_close(b);
    ck_assert_mem_eq(pc[1], big, sizeof big);
    ck_assert_uint_eq(taken, bytes);
    ck_assert(!td_weights_damaged(c, &err));
    td_weights_close(c);
}
END_TEST

START_TEST(equal_tensors_of_one_model) {
    int64_t dims[] = {BIG};
    td_shape_t s = {.type = TD_F32, .rank = 1, .dims = dims};
    td_io_t two[2] = {{.name = "in", .path = "", .shape = &s}, {.name = "out", .path = "", .shape = &s}};
    WRITE("weights.safetensors", tensor_w("in"), tensor_w("out"));
    td_weights_t *w = open_with(NULL, NULL);
    const void *at[2];
    ck_assert_int_eq(td_weights_bind(w, two, 2, at, &err), TD_OK);
    ck_assert_ptr_eq(at[0], at[1]);
    ck_assert_uint_eq(td_weights_bytes(w), sizeof big);
    ck_assert_uint_eq(taken, td_payload_cost(sizeof big));
    td_weights_close(w);
}
END_TEST

START_TEST(not_aligned_is_copied) {
    WRITE("weights.safetensors", tensor_f("3"), tensor_b("2"), {"pad", "U8", 0, NULL, f_data, 1}, tensor_w("1"));
    td_weights_t *w = open_with(NULL, NULL);
    const void *at[4];
    bind(w, at);
    ck_assert_uint_eq((uintptr_t)at[1] % 64, 0);
    ck_assert_mem_eq(at[1], big, sizeof big);
    ck_assert_uint_eq(taken, td_payload_cost(sizeof big) + td_payload_cost(6) + td_payload_cost(2));
    td_weights_close(w);
}
END_TEST

START_TEST(the_budget_refuses) {
    WRITE("weights.safetensors", tensor_x("0"), tensor_w("1"), tensor_b("2"));
    td_weights_t *w = open_with(NULL, NULL);
    const void *at[4];
    limit = td_payload_cost(sizeof big);
    ck_assert_int_eq(td_weights_bind(w, params, 4, at, &err), TD_LIMIT);
    expect_text("parameter 1", "weights.safetensors: tensor 1", "budget");
    ck_assert_uint_le(most, limit);
    limit = UINT64_MAX; /* room was made */
    bind(w, at);
    ck_assert_mem_eq(at[1], big, sizeof big);
    td_weights_close(w);
}
END_TEST

START_TEST(out_of_memory) {
    WRITE("a.safetensors", tensor_x("0"), tensor_b("2"));
    WRITE("b.safetensors", tensor_f("3"), tensor_w("1"));
    write_text("m.index.json", "{\"weight_map\": {\"0\": \"a.safetensors\", \"2\": \"a.safetensors\", "
                               "\"1\": \"b.safetensors\", \"3\": \"b.safetensors\"}}");
    td_status_t s = TD_NOMEM;
    for (unsigned k = 1; s != TD_OK && k < 200; k++) {
        td_weights_t *w = NULL;
        const void *at[4];
        counter.fail_at = counter.gets + k;
        s = try_open(NULL, in_dir("m.index.json"), &w);
        if (s == TD_OK) s = td_weights_bind(w, params, 4, at, &err);
        counter.fail_at = 0;
        td_weights_close(w);
        ck_assert(s == TD_OK || s == TD_NOMEM);
        ck_assert_uint_eq(taken, 0);
        ck_assert_uint_eq(payloads(), 0);
    }
    ck_assert_int_eq(s, TD_OK);
}
END_TEST

/* ---- files that are lost ---- */

START_TEST(cut_after_loading) {
    WRITE("weights.safetensors", tensor_w("1"));
    WRITE("other.safetensors", tensor_x("0"));
    td_weights_t *w = open_with(NULL, NULL), *other = open_with(NULL, in_dir("other.safetensors"));
    const void *at[4], *po[4];
    bind(w, at);
    bind(other, po);
    ck_assert(!td_weights_damaged(w, &err));
    ck_assert_int_eq(truncate(in_dir("weights.safetensors"), 2 * PAGE), 0);
    ck_assert(td_weights_damaged(w, &err));
    expect_text("weights.safetensors", "has 8192 bytes now", "");
    const float *f = at[1];
    float sum = 0;
    for (int i = BIG - 1000; i < BIG; i++) sum += f[i]; /* zeros, no signal */
    ck_assert(sum == 0);
    ck_assert(td_weights_damaged(w, &err));
    ck_assert(!td_weights_damaged(other, &err));
    ck_assert_mem_eq(po[0], x_data, 16);
    td_weights_close(w);
    td_weights_close(other);
}
END_TEST

START_TEST(cut_between_opening_and_binding) {
    WRITE("weights.safetensors", tensor_w("1"));
    td_weights_t *w = open_with(NULL, NULL);
    ck_assert_int_eq(truncate(in_dir("weights.safetensors"), PAGE), 0);
    bool bound[4];
    uint64_t bytes, resident;
    ck_assert_int_eq(td_weights_match(w, params, 4, bound, &err), TD_OK);
    td_weights_need(w, &bytes, &resident);
    const void *at[4];
    ck_assert_int_eq(td_weights_bind(w, params, 4, at, &err), TD_IO);
    expect_text("weights.safetensors", "has 4096 bytes now", "");
    td_weights_close(w);
}
END_TEST

/* A file that is overwritten in place harms those that lie in it; a model that loads then does not lean on it. */
START_TEST(overwritten_in_place) {
    WRITE("weights.safetensors", tensor_w("1"));
    WRITE("other.safetensors", tensor_w("1"));
    td_weights_t *a = open_with(NULL, NULL), *b = open_with(NULL, in_dir("other.safetensors"));
    const void *pa[4], *pb[4];
    bind(a, pa);
    bind(b, pb);
    ck_assert_ptr_eq(pa[1], pb[1]);
    int fd = open(in_dir("weights.safetensors"), O_WRONLY);
    struct timespec t[2] = {{1, 0}, {1, 0}};
    ck_assert_int_eq(futimens(fd, t), 0);
    ck_assert(td_weights_damaged(a, &err) && td_weights_damaged(b, &err));
    expect_text("weights.safetensors", "was written to", "");
    td_weights_t *c = open_with(NULL, in_dir("other.safetensors"));
    const void *pc[4];
    bind(c, pc);
    ck_assert_ptr_ne(pc[1], pa[1]);
    float wrong = -1;
    ck_assert_int_eq(pwrite(fd, &wrong, sizeof wrong, 20000), sizeof wrong);
    close(fd);
    ck_assert_mem_eq(pc[1], big, sizeof big);
    ck_assert(!td_weights_damaged(c, &err));
    td_weights_close(a);
    td_weights_close(b);
    td_weights_close(c);
}
END_TEST

/* ---- threads ---- */

static void *load_often(void *file) {
    for (int i = 0; i < 20; i++) {
        td_weights_t *w = NULL;
        td_weights_opts_t o = {.dir = dir, .files_override = file, .payloads = table, .alloc = &counter.base,
                               .charge = &charge};
        const void *at[4];
        td_err_t e;
        if (td_weights_open(&o, &w, &e) != TD_OK || td_weights_bind(w, params, 4, at, &e) != TD_OK) abort();
        if (memcmp(at[1], big, sizeof big) || memcmp(at[2], b_data, 6)) abort();
        if (td_weights_damaged(w, &e) || td_weights_bytes(w) != sizeof big + 6) abort();
        td_weights_close(w);
    }
    return NULL;
}

typedef struct user {
    td_weights_t *w;
    const void *at[4];
} user_t;
static void *bind_one(void *ctx) {
    user_t *u = ctx;
    bool bound[4];
    uint64_t bytes;
    if (td_weights_match(u->w, params, 4, bound, NULL) != TD_OK) abort();
    td_weights_need(u->w, &bytes, NULL);
    if (td_weights_bind(u->w, params, 4, u->at, NULL) != TD_OK || td_weights_damaged(u->w, NULL)) abort();
    return NULL;
}

START_TEST(many_threads) {
    WRITE("a.safetensors", tensor_w("1"), tensor_b("2"));
    WRITE("b.safetensors", tensor_b("2"), {"pad", "U8", 1, dims_f, f_data, 2}, tensor_w("1"));
    char names[2][64];
    for (int i = 0; i < 2; i++) snprintf(names[i], sizeof names[i], "%s/%c.safetensors", dir, "ab"[i]);
    pthread_t t[4];
    for (int i = 0; i < 4; i++) ck_assert_int_eq(pthread_create(&t[i], NULL, load_often, names[i & 1]), 0);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    td_weights_t *w = open_with(NULL, names[0]);
    user_t u[4];
    for (int i = 0; i < 4; i++) {
        u[i].w = w;
        ck_assert_int_eq(pthread_create(&t[i], NULL, bind_one, &u[i]), 0);
    }
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    for (int i = 1; i < 4; i++) ck_assert_mem_eq(u[i].at, u[0].at, sizeof u[0].at);
    td_weights_close(w);
}
END_TEST

int main(void) {
    Suite *s = suite_create("weights_share");
    TCase *t = tcase_create("weights");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, shared_by_content, 0, 2);
    tcase_add_test(t, equal_tensors_of_one_model);
    tcase_add_test(t, not_aligned_is_copied);
    tcase_add_test(t, the_budget_refuses);
    tcase_add_test(t, out_of_memory);
    tcase_add_test(t, cut_after_loading);
    tcase_add_test(t, cut_between_opening_and_binding);
    tcase_add_test(t, overwritten_in_place);
    tcase_add_test(t, many_threads);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
