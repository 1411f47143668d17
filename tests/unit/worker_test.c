/* SPDX-License-Identifier: Apache-2.0 */
/* Notes to the loop from many threads, and the worker's bounded queue. */
#include "daemon/inbox.c"
#include "daemon/worker.c"

#include <check.h>

static uv_loop_t loop;
static td_inbox_t *inbox;

static void setup(void) {
    td_err_t err = {0};
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_msg(td_inbox_create(&loop, &inbox, &err) == TD_OK, "%s", err.text);
}

static void teardown(void) {
    td_inbox_close(inbox);
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    td_inbox_free(inbox);
}

/* ---- notes ---- */
#define THREADS 4
#define NOTES 20000

typedef struct numbered {
    td_note_t note; /* first */
    int thread, number;
} numbered_t;

static int next_number[THREADS], n_read;

static void read_numbered(td_note_t *n) {
    numbered_t *x = (numbered_t *)(void *)n;
    ck_assert_int_eq(x->number, next_number[x->thread]++); /* in the order of posting */
    n_read++;
    free(x);
}

static void *post_many(void *arg) {
    for (int i = 0; i < NOTES; i++) {
        numbered_t *x = malloc(sizeof *x);
        *x = (numbered_t){.note.read = read_numbered, .thread = *(int *)arg, .number = i};
        td_inbox_post(inbox, &x->note);
    }
    return NULL;
}

START_TEST(notes_of_many_threads) {
    pthread_t t[THREADS];
    int ids[THREADS];
    n_read = 0;
    for (int i = 0; i < THREADS; i++) {
        next_number[i] = 0;
        ids[i] = i;
        ck_assert_int_eq(pthread_create(&t[i], NULL, post_many, &ids[i]), 0);
    }
    while (n_read < THREADS * NOTES) uv_run(&loop, UV_RUN_ONCE);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    ck_assert_int_eq(n_read, THREADS * NOTES);
}
END_TEST

START_TEST(closing_reads_the_rest) {
    numbered_t *x = malloc(sizeof *x);
    *x = (numbered_t){.note.read = read_numbered};
    next_number[0] = 0;
    n_read = 0;
    td_inbox_post(inbox, &x->note);
    read_all(inbox); /* as td_inbox_close does */
    ck_assert_int_eq(n_read, 1);
}
END_TEST

/* ---- the worker ---- */
typedef struct task {
    td_job_t job; /* first */
    int runs, reads;
} task_t;

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void run_task(td_job_t *j) {
    pthread_mutex_lock(&gate);
    ((task_t *)(void *)j)->runs++;
    pthread_mutex_unlock(&gate);
}

static void read_task(td_note_t *n) {
    ((task_t *)(void *)n)->reads++;
}

static uint32_t waiting(td_worker_t *w, bool idle) {
    pthread_mutex_lock(&w->lock);
    uint32_t n = idle ? w->n_idle : w->n_waiting;
    pthread_mutex_unlock(&w->lock);
    return n;
}

START_TEST(bounded_queue) {
    td_err_t err = {0};
    td_worker_t *w = NULL;
    task_t t[5];
    for (int i = 0; i < 5; i++) t[i] = (task_t){.job = {.done.read = read_task, .run = run_task}};
    ck_assert_int_eq(td_worker_create(inbox, 1, 2, &w, &err), TD_OK);
    while (!waiting(w, true)) sched_yield();
    pthread_mutex_lock(&gate); /* the one thread stops in its first job */
    ck_assert_int_eq(td_worker_submit(w, &t[0].job, 0, &err), TD_OK);
    while (waiting(w, false)) sched_yield();
    ck_assert_int_eq(td_worker_submit(w, &t[1].job, 1, &err), TD_OK);
    ck_assert_int_eq(td_worker_submit(w, &t[2].job, 1, &err), TD_BUSY); /* with one that waits elsewhere */
    ck_assert_str_eq(err.text, "the queue is full: 2 requests wait");
    ck_assert_int_eq(td_worker_submit(w, &t[2].job, 0, &err), TD_OK);
    ck_assert_int_eq(td_worker_submit(w, &t[3].job, 0, &err), TD_BUSY);
    td_worker_resubmit(w, &t[4].job); /* has its place */
    pthread_mutex_unlock(&gate);
    td_worker_stop(w);
    read_all(inbox);
    for (int i = 0; i < 5; i++) {
        ck_assert_int_eq(t[i].runs, i != 3);
        ck_assert_int_eq(t[i].reads, i != 3);
    }
    ck_assert_int_eq(td_worker_submit(w, &t[3].job, 0, &err), TD_BUSY); /* it has stopped */
    td_worker_free(w);
}
END_TEST

int main(void) {
    Suite *s = suite_create("worker");
    TCase *t = tcase_create("worker");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, notes_of_many_threads);
    tcase_add_test(t, closing_reads_the_rest);
    tcase_add_test(t, bounded_queue);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
