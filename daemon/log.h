/* SPDX-License-Identifier: Apache-2.0 */
/* The log is standard error, a line at a time; the service manager adds the time. Thread: any. */
#ifndef TD_DAEMON_LOG_H
#define TD_DAEMON_LOG_H

#include "base/status.h"

/* "thunkd: …", written whole; longer lines are cut. */
void td_log(const char *fmt, ...) TD_PRINTF(1, 2);

#endif
