/* SPDX-License-Identifier: Apache-2.0 */
/* The store's models as they are at this moment. Thread: one. */
#ifndef TD_DAEMON_ROWS_H
#define TD_DAEMON_ROWS_H

#include "store/store.h"

typedef struct td_rows {
    td_arena_t arena;
    td_model_row_t *v; /* by name, then by version from low to high */
    uint32_t n;
} td_rows_t;

/* Free with td_rows_free, also after a failure. */
td_status_t td_rows_read(td_store_t *s, td_rows_t *out, td_err_t *err);
void td_rows_free(td_rows_t *r);
/* version: number or label; "": the default, else the highest. NULL: there is none. */
const td_model_row_t *td_rows_find(const td_rows_t *r, const char *name, const char *version);

#endif
