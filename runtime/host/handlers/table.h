/* SPDX-License-Identifier: Apache-2.0 */
/* Walks the table of built-in handlers, for the documentation and tests. Thread: any. */
#ifndef TD_RUNTIME_HOST_HANDLERS_TABLE_H
#define TD_RUNTIME_HOST_HANDLERS_TABLE_H

#include "runtime/host/handlers/handlers.h"

/* NULL past the last row. */
const td_handler_t *td_handler_at(uint32_t i);

#endif
