/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/content.h"

#include <errno.h>
#include <pthread.h>
#include <sys/random.h>

#include "proto/highway.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t secret[4];
static bool there; /* both by the lock */

static td_status_t get_secret(uint64_t out[4], td_err_t *err) {
    pthread_mutex_lock(&lock);
    int reason = 0;
    while (!there && !reason) {
        ssize_t n = getrandom(secret, sizeof secret, 0); /* so few bytes come all at once */
        there = n == (ssize_t)sizeof secret;
        if (!there && (n >= 0 || errno != EINTR)) reason = n < 0 ? errno : EIO;
    }
    memcpy(out, secret, sizeof secret);
    pthread_mutex_unlock(&lock);
    return reason ? td_fail(err, TD_IO, "the system gives no random bytes: %s", strerror(reason)) : TD_OK;
}

td_status_t td_content_of(td_span_t bytes, td_content_t *out, td_err_t *err) {
    uint64_t key[4];
    td_highway_t h;
    td_status_t st = get_secret(key, err);
    if (st) return st;
    td_highway_init_key(&h, key);
    if (bytes.size) td_highway_add(&h, bytes.data, bytes.size);
    td_highway_end256(&h, out->name);
    return TD_OK;
}
