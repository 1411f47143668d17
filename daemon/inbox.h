/* SPDX-License-Identifier: Apache-2.0 */
/* Notes from other threads to the loop: put into a list, and one handle wakes the loop for all of them. */
#ifndef TD_DAEMON_INBOX_H
#define TD_DAEMON_INBOX_H

#include <uv.h>

#include "base/status.h"

typedef struct td_note td_note_t;
struct td_note { /* part of what it tells of */
    void (*read)(td_note_t *n); /* on the loop's thread, in the order of posting; may free the note */
    td_note_t *next;            /* the inbox's */
};

typedef struct td_inbox td_inbox_t;

/* Thread: the loop's. */
td_status_t td_inbox_create(uv_loop_t *loop, td_inbox_t **out, td_err_t *err);
/* Thread: any. Never fails and never blocks for long. */
void td_inbox_post(td_inbox_t *b, td_note_t *n);
/* Reads what is there, then closes the handle; nobody posts any more. The loop must run once more. NULL is fine. */
void td_inbox_close(td_inbox_t *b);
/* After the loop has ended. NULL is fine. */
void td_inbox_free(td_inbox_t *b);

#endif
