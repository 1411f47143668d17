/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that have the store load or unload: answered when it has, cancelled when the client leaves or its deadline
 * passes. The answer is an empty message. Thread: the loop's. */
#ifndef TD_DAEMON_COMMAND_H
#define TD_DAEMON_COMMAND_H

#include "daemon/service.h"

/* what: kind, model, version and files; the rest is not looked at, and nothing of it is kept. */
void td_command_start(td_service_t *s, td_call_t *call, const td_command_t *what);

#endif
