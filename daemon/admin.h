/* SPDX-License-Identifier: Apache-2.0 */
/* thunkd.v1.Admin (proto/schema/admin.proto): what the Open Inference Protocol lacks. Methods that only look are
 * for every peer, those that change something for peers with td_call_admin. Thread: the loop's. */
#ifndef TD_DAEMON_ADMIN_H
#define TD_DAEMON_ADMIN_H

#include "daemon/service.h"

/* Is the path one of the service's methods? Then the call is answered, now or later. */
bool td_admin_call(td_service_t *s, td_call_t *call, const char *path);

#endif
