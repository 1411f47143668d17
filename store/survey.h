/* SPDX-License-Identifier: Apache-2.0 */
/* What a load would need, found out from headers: settings, which artifacts, the contract's verdict, their inputs
 * and outputs, bytes. Nothing large is read. Thread: one. */
#ifndef TD_STORE_SURVEY_H
#define TD_STORE_SURVEY_H

#include "runtime/need.h"
#include "store/store_in.h"

typedef struct td_surveyed { /* one artifact: a bucket of the model */
    const char *path, *name;
    td_io_t *inputs;  /* shapes and names live in the survey's arena */
    uint32_t n_inputs;
    bool *bound;      /* by parameter: a weight */
    bool *states;     /* by parameter: kept for each sequence */
    td_need_t need;   /* binding: of one execution */
    td_bind_need_t *bind; /* by parameter: should it be a weight */
    uint64_t held_constants; /* of need.constant_bytes: the device seems to have them */
    uint64_t payloads, resident_payloads; /* resident: the payload table seems to have them */
} td_surveyed_t;

typedef struct td_survey {
    td_arena_t arena; /* on the loading account */
    td_heap_t *heap;
    td_model_yaml_t config;
    td_surveyed_t *artifacts;
    uint32_t n;
    const char *names; /* of the artifacts, with commas */
    char verdict[TD_STORE_REASON];
    int32_t leave_day;
    uint32_t concurrency;
    td_weights_t *weights; /* matched; moves to the resident */
    uint64_t file_bytes;
} td_survey_t;

/* On failure too the survey must be ended. */
td_status_t td_survey_make(td_store_t *s, const td_load_order_t *o, const td_charge_t *weight_charge,
                           const td_alloc_t *weight_alloc, td_survey_t *out, td_err_t *err);
void td_survey_end(td_survey_t *v);
/* What to reserve. trust_shared false: as if nothing of it were resident already. */
void td_survey_need(const td_store_t *s, const td_survey_t *v, bool trust_shared, uint64_t need[TD_BUDGET_DOMAINS]);

#endif
