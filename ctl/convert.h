/* SPDX-License-Identifier: Apache-2.0 */
/* thunkctl convert's output side: a file written whole or not at all, and the bar of a slow conversion. Thread: one. */
#ifndef TD_CTL_CONVERT_H
#define TD_CTL_CONVERT_H

#include "base/clock.h"
#include "proto/rope.h"

/* Writes the bytes to a new file beside path and moves it there; "-" is standard output. Errors name the path. */
td_status_t ctl_out_write(const char *path, const td_rope_t *bytes, td_err_t *err);

/* A bar on standard error, when that is a terminal and the work takes longer than a second. */
typedef struct ctl_bar {
    uint64_t total, done; /* bytes */
    uint64_t begin_ns, drawn_ns;
    bool terminal, drawn;
} ctl_bar_t;
void ctl_bar_begin(ctl_bar_t *b, uint64_t total);
void ctl_bar_tick(void *bar, uint64_t bytes); /* fits td_compression_t.tick */
void ctl_bar_end(ctl_bar_t *b);               /* wipes it */

#endif
