/* SPDX-License-Identifier: Apache-2.0 */
/* A request that has run, kept with its answer to be checked later. Thread: any. */
#ifndef TD_DAEMON_SAMPLE_H
#define TD_DAEMON_SAMPLE_H

#include "base/hash.h"
#include "store/store.h"

typedef struct td_sample {
    const char *model, *version;
    td_hash_t stamp; /* td_resident_stamp */
    td_run_tensor_t *inputs, *outputs; /* all of the model's; with dims */
    uint64_t *output_bytes;
    uint32_t n_inputs, n_outputs;
    const td_charge_t *charge;
    uint64_t charged;
} td_sample_t;

/* Is the n-th request one of that share (0 to 1) of all? The same for the same n, and spread as if drawn by lot. */
bool td_sample_due(double share, uint64_t n);
/* Copies what the slot has been given and has answered. charge lives as long. TD_LIMIT, TD_NOMEM: no room. */
td_status_t td_sample_keep(const td_resident_t *r, const td_run_tensor_t *inputs, const td_run_slot_t *slot,
                           const td_charge_t *charge, td_sample_t **out, td_err_t *err);
void td_sample_free(td_sample_t *s); /* NULL is fine */

#endif
