/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/inbox.h"

#include <pthread.h>
#include <stdlib.h>

struct td_inbox {
    pthread_mutex_t lock;
    td_note_t *head, *tail; /* by lock */
    uv_async_t async;
};

static void read_all(td_inbox_t *b) {
    pthread_mutex_lock(&b->lock);
    td_note_t *n = b->head;
    b->head = b->tail = NULL;
    pthread_mutex_unlock(&b->lock);
    for (td_note_t *next; n; n = next) {
        next = n->next;
        n->read(n);
    }
}

static void on_async(uv_async_t *a) {
    read_all(a->data);
}

td_status_t td_inbox_create(uv_loop_t *loop, td_inbox_t **out, td_err_t *err) {
    *out = NULL;
    td_inbox_t *b = calloc(1, sizeof *b);
    if (!b) return td_fail(err, TD_NOMEM, "out of memory");
    pthread_mutex_init(&b->lock, NULL);
    int e = uv_async_init(loop, &b->async, on_async);
    if (e) {
        td_inbox_free(b);
        return td_fail(err, TD_INTERNAL, "async handle: %s", uv_strerror(e));
    }
    b->async.data = b;
    *out = b;
    return TD_OK;
}

void td_inbox_post(td_inbox_t *b, td_note_t *n) {
    n->next = NULL;
    pthread_mutex_lock(&b->lock);
    bool first = !b->head;
    if (first) b->head = n;
    else b->tail->next = n;
    b->tail = n;
    if (first) uv_async_send(&b->async); /* by the lock, so that the handle cannot be closed meanwhile */
    pthread_mutex_unlock(&b->lock);
}

void td_inbox_close(td_inbox_t *b) {
    if (!b) return;
    read_all(b);
    uv_close((uv_handle_t *)&b->async, NULL);
}

void td_inbox_free(td_inbox_t *b) {
    if (!b) return;
    pthread_mutex_destroy(&b->lock);
    free(b);
}
