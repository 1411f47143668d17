/* SPDX-License-Identifier: Apache-2.0 */
/* A store in a folder of its own, for tests. Run from the repository's root. */
#ifndef TD_TESTS_STORE_FIXTURE_H
#define TD_TESTS_STORE_FIXTURE_H

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/store.h"

static char dir[64];
static td_device_t *device;
static td_arena_t list_arena;

__attribute__((unused)) static void shell(const char *fmt, ...) TD_PRINTF(1, 2);
__attribute__((unused)) static void shell(const char *fmt, ...) {
    char cmd[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(cmd, sizeof cmd, fmt, ap);
    va_end(ap);
    ck_assert_msg(system(cmd) == 0, "%s", cmd);
}

__attribute__((unused)) static void make_file(const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    ck_assert_msg(f != NULL, "%s", path);
    fputs(text, f);
    fclose(f);
}

/* <dir>/<where>/model.aot from tests/data, committed by rename. */
__attribute__((unused)) static void put(const char *artifact, const char *where, const char *yaml) {
    shell("mkdir -p %s/%s.partial && cp tests/data/%s.aot %s/%s.partial/model.aot", dir, where, artifact, dir, where);
    if (yaml) {
        char name[128];
        snprintf(name, sizeof name, "%s.partial/model.yaml", where);
        make_file(name, yaml);
    }
    shell("rm -rf %s/%s && mv -T %s/%s.partial %s/%s", dir, where, dir, where, dir, where);
}

__attribute__((unused)) static void setup(void) {
    td_err_t err = {0};
    strcpy(dir, "/tmp/td_store_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    ck_assert_msg(td_host_device_create(td_alloc_default(), &device, &err) == TD_OK, "%s", err.text);
    td_arena_init(&list_arena, td_alloc_default(), 0);
}

__attribute__((unused)) static void teardown(void) {
    td_device_destroy(device);
    td_arena_deinit(&list_arena);
    shell("chmod -R u+rwX %s && rm -rf %s", dir, dir);
}

__attribute__((unused)) static td_store_t *open_with(td_store_opts_t o) {
    td_store_t *s = NULL;
    td_err_t err = {0};
    o.dir = dir;
    o.device = device;
    ck_assert_msg(td_store_open(&o, &s, &err) == TD_OK, "%s", err.text);
    td_store_settle(s);
    ck_assert(td_store_started(s));
    return s;
}
__attribute__((unused)) static td_store_t *open_store(void) { return open_with((td_store_opts_t){0}); }

/* Looks again, and waits. */
__attribute__((unused)) static void again(td_store_t *s) {
    td_store_rescan(s);
    td_store_settle(s);
}

__attribute__((unused)) static const td_model_row_t *row(td_store_t *s, const char *name, const char *version) {
    td_model_row_t *rows = NULL;
    uint32_t n = 0;
    td_err_t err = {0};
    ck_assert_msg(td_store_list(s, &list_arena, &rows, &n, &err) == TD_OK, "%s", err.text);
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(rows[i].name, name) && !strcmp(rows[i].version, version)) return &rows[i];
    return NULL;
}

__attribute__((unused)) static void expect(td_store_t *s, const char *name, const char *version, td_model_state_t state,
                                           const char *reason) {
    const td_model_row_t *r = row(s, name, version);
    ck_assert_msg(r != NULL, "%s/%s is not listed", name, version);
    ck_assert_msg(r->state == state, "%s/%s is %s: %s", name, version, td_model_state_name(r->state), r->reason);
    ck_assert_msg(strstr(r->reason, reason) != NULL, "%s/%s: '%s' does not tell '%s'", name, version, r->reason,
                  reason);
}

/* ---- wants ---- */

typedef struct answer {
    td_want_t want; /* first */
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool there;
    td_status_t status;
    td_err_t err;
} answer_t;

__attribute__((unused)) static void answered(td_want_t *w, td_status_t st, const td_err_t *err) {
    answer_t *a = (answer_t *)(void *)w;
    pthread_mutex_lock(&a->lock);
    a->status = st;
    if (st != TD_OK) a->err = *err;
    a->there = true;
    pthread_cond_signal(&a->cond);
    pthread_mutex_unlock(&a->lock);
}

__attribute__((unused)) static td_status_t await(answer_t *a) {
    pthread_mutex_lock(&a->lock);
    while (!a->there) pthread_cond_wait(&a->cond, &a->lock);
    pthread_mutex_unlock(&a->lock);
    return a->status;
}

/* Asks, and waits for the answer. The lease is in a->want. */
__attribute__((unused)) static td_status_t ask(td_store_t *s, answer_t *a, const char *model, const char *version) {
    bool waits = false;
    a->want.model = model;
    a->want.version = version;
    a->want.done = answered;
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->cond, NULL);
    a->there = false;
    td_status_t st = td_store_want(s, &a->want, &waits, &a->err);
    return waits ? await(a) : (a->status = st);
}

__attribute__((unused)) static void let_go(answer_t *a) { td_lease_release(&a->want.lease); }

/* The version that a request for `version` would get now, loading nothing; "" for none. */
__attribute__((unused)) static const char *served(td_store_t *s, const char *model, const char *version) {
    static char text[64];
    answer_t a = {0};
    text[0] = 0;
    if (ask(s, &a, model, version) == TD_OK) {
        snprintf(text, sizeof text, "%s", td_resident_info(a.want.lease.resident)->version);
        let_go(&a);
    }
    return text;
}

/* ---- commands ---- */

typedef struct order {
    td_command_t command; /* first */
    answer_t answer;
} order_t;

__attribute__((unused)) static void ordered(td_command_t *c, td_status_t st, const td_err_t *err) {
    order_t *o = (order_t *)(void *)c;
    answered(&o->answer.want, st, err);
}

__attribute__((unused)) static td_status_t tell(td_store_t *s, order_t *o, td_command_kind_t kind, const char *model,
                                                const char *version) {
    o->command.kind = kind;
    o->command.model = model;
    o->command.version = version;
    o->command.done = ordered;
    pthread_mutex_init(&o->answer.lock, NULL);
    pthread_cond_init(&o->answer.cond, NULL);
    o->answer.there = false;
    td_status_t st = td_store_command(s, &o->command, &o->answer.err);
    return st == TD_OK ? await(&o->answer) : st;
}

#endif
