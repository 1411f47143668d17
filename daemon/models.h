/* SPDX-License-Identifier: Apache-2.0 */
/* What is served, as the configuration says: handlers, device, store. Thread: the loop's. */
#ifndef TD_DAEMON_MODELS_H
#define TD_DAEMON_MODELS_H

#include "config/config.h"
#include "daemon/service.h"

typedef struct td_models {
    td_service_t *service;  /* set by the caller, with its inbox */
    void (*started)(void *ctx); /* on the loop: the store has looked at everything for the first time */
    void *ctx;
    td_note_t note;
} td_models_t;

/* Loading goes on in the background. On failure what is open stays for td_models_close. m must not move. */
td_status_t td_models_open(td_models_t *m, const td_config_t *c, td_err_t *err);
/* All leases have been released. */
void td_models_close(td_models_t *m);

#endif
