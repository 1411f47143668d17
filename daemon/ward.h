/* SPDX-License-Identifier: Apache-2.0 */
/* Looks after the device: tells of runs that take long, and notices when the device has failed for good. From then on
 * the daemon does not serve: `failed` is called once, whose daemon answers what is pending and ends. Thread: the
 * loop's, unless said otherwise. */
#ifndef TD_DAEMON_WARD_H
#define TD_DAEMON_WARD_H

#include <stdatomic.h>
#include <uv.h>

#include "daemon/inbox.h"
#include "store/store.h"

typedef struct td_ward {
    /* Set by the caller; store and device, when there are some, before the loop runs. */
    td_store_t *store;
    td_device_t *device;
    td_inbox_t *inbox;
    uint32_t slow_run_ms; /* 0: runs may take as long as they like */
    void (*failed)(void *ctx, const char *cause);
    void *ctx;
    /* The ward's. */
    td_note_t note;
    atomic_bool noted;
    _Atomic(uint64_t) n_slow;
    td_err_t cause; /* once failed */
    bool has_failed, ticking;
    uv_timer_t tick;
} td_ward_t;

void td_ward_start(td_ward_t *w, uv_loop_t *loop);
/* Closes the timer; the loop must run once more. Twice is fine. */
void td_ward_stop(td_ward_t *w);
/* Something went wrong that may be the device's end. True: it is. Thread: any. */
bool td_ward_suspect(td_ward_t *w);
/* Why nothing runs any more; NULL: all is well. */
const char *td_ward_cause(const td_ward_t *w);

#endif
