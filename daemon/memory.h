/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of requests and responses, within the store's budget: an account "requests", with nothing in it when the
 * daemon is idle. Loads must not take what requests need: `aside` bytes stand reserved for them; beyond it they take
 * what is free. A budget that is full must not shut out the calls that make room, so a little more is set aside for
 * small buffers (account "small requests").
 * Thread: any, but for create and destroy. */
#ifndef TD_DAEMON_MEMORY_H
#define TD_DAEMON_MEMORY_H

#include "store/budget.h"

typedef struct td_memory td_memory_t;

/* aside: less where the budget has not that much. */
td_status_t td_memory_create(td_budget_t *budget, uint64_t aside, td_memory_t **out, td_err_t *err);
/* Before the budget goes. NULL is fine. */
void td_memory_destroy(td_memory_t *m);
/* Lives as long as m. */
const td_charge_t *td_memory_charge(td_memory_t *m);
/* TD_LIMIT with the numbers: `what` ("the request") wanted so many bytes more. */
td_status_t td_memory_refuse(const td_memory_t *m, const char *what, uint64_t bytes, td_err_t *err);

#endif
