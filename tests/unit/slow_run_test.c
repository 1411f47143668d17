/* SPDX-License-Identifier: Apache-2.0 */
/* Runs that take long are told once each, with the thunk they stand at, while others come and go. */
#include <pthread.h>
#include <time.h>

#include "runtime/host/plan.h"
#include "runtime/program_in.h"
#include "store/store_in.h"
#include "tests/unit/store_fixture.h"

static atomic_int gate, arrived;
static td_status_t gated(const td_kernel_t *k, void *const *bufs, void *scratch, td_err_t *err) {
    (void)k, (void)bufs, (void)scratch, (void)err;
    atomic_store(&arrived, 1);
    while (!atomic_load(&gate)) nanosleep(&(struct timespec){0, 100000}, NULL);
    return TD_OK;
}

static td_lease_t lease;
static void *run(void *st) {
    static float numbers[4096];
    td_run_tensor_t in[8];
    td_run_slot_t *slot = NULL;
    td_err_t err = {0};
    for (int i = 0; i < 8; i++) in[i] = (td_run_tensor_t){numbers, NULL};
    *(td_status_t *)st = td_lease_run(&lease, &(td_run_request_t){.inputs = in}, &slot, &err);
    td_run_slot_release(slot);
    return NULL;
}

typedef struct told {
    int n;
    uint64_t ns;
    char model[64], version[16], where[256];
} told_t;
static void note(void *ctx, const char *model, const char *version, uint64_t ns, const char *where) {
    told_t *t = ctx;
    t->n++;
    t->ns = ns;
    snprintf(t->model, sizeof t->model, "%s", model);
    snprintf(t->version, sizeof t->version, "%s", version);
    snprintf(t->where, sizeof t->where, "%s", where);
}

START_TEST(told_once) {
    put("rows_b1t4", "m/3", NULL);
    td_store_t *s = open_store();
    td_want_t w = {.model = "m"};
    bool waiting = true;
    ck_assert(!td_store_want(s, &w, &waiting, NULL) && !waiting);
    lease = w.lease;
    const td_program_t *p = lease.resident->buckets[0].program;
    const td_thunk_t *t = NULL;
    for (uint32_t i = 0; i < p->thunks.n && !t; i++)
        if (p->thunks.v[i].kernel && !p->thunks.v[i].skip) t = &p->thunks.v[i];
    ck_assert_ptr_nonnull(t);
    t->kernel->run = gated; /* the program goes with the test */
    for (int round = 0; round < 2; round++) {
        td_status_t st = TD_INTERNAL;
        pthread_t thread;
        told_t told = {0};
        atomic_store(&gate, 0), atomic_store(&arrived, 0);
        td_store_slow_runs(s, 0, note, &told);
        ck_assert_int_eq(told.n, 0); /* nothing runs */
        ck_assert(!pthread_create(&thread, NULL, run, &st));
        while (!atomic_load(&arrived)) nanosleep(&(struct timespec){0, 100000}, NULL);
        td_store_slow_runs(s, 3600000000000ull, note, &told);
        ck_assert_int_eq(told.n, 0); /* not for so long */
        nanosleep(&(struct timespec){0, 2000000}, NULL);
        td_store_slow_runs(s, 1000000, note, &told);
        td_store_slow_runs(s, 1000000, note, &told);
        ck_assert_int_eq(told.n, 1);
        ck_assert_uint_ge(told.ns, 1000000);
        ck_assert_str_eq(told.model, "m");
        ck_assert_str_eq(told.version, "3");
        ck_assert_msg(strstr(told.where, "main stream at thunks[") != NULL, "%s", told.where);
        ck_assert_ptr_nonnull(strstr(told.where, t->annotation));
        atomic_store(&gate, 1);
        pthread_join(thread, NULL);
        ck_assert_int_eq(st, TD_OK);
    }
    td_lease_release(&lease);
    td_store_close(s);
}
END_TEST

int main(void) {
    TCase *t = tcase_create("slow_run");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, told_once);
    Suite *s = suite_create("slow_run");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
