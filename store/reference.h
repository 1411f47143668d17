/* SPDX-License-Identifier: Apache-2.0 */
/* A model of the store once more, on another device, to hold its answers against. It is made from the same files, by
 * the same rules, on the store's budget, and gives way: it takes only what is free, leaves room for requests, and what
 * a load needs it gives back at once. One model at a time; it is kept until another one is asked for.
 *
 * It belongs to one thread, but for td_reference_cancel. Devices whose memory is the host's only. */
#ifndef TD_STORE_REFERENCE_H
#define TD_STORE_REFERENCE_H

#include "base/hash.h"
#include "store/store.h"

typedef struct td_reference td_reference_t;

/* One for a store. device outlives it, and it ends before the store is closed. */
td_status_t td_reference_create(td_store_t *s, td_device_t *device, td_reference_t **out, td_err_t *err);
void td_reference_destroy(td_reference_t *x); /* no run is held; NULL is fine */

/* What a resident was made from. */
td_hash_t td_resident_stamp(const td_resident_t *r);

/* Which content of which model. Texts are needed during the call only. */
typedef struct td_reference_ask {
    const char *model, *version;
    td_hash_t stamp;
    const td_run_tensor_t *inputs; /* as td_run_request_t */
} td_reference_ask_t;

/* One run, and what is known of the program that ran. */
typedef struct td_reference_run {
    td_run_slot_t *slot;         /* the outputs: td_run_slot_output */
    const td_model_info_t *info; /* inputs and outputs as the model's; its name is not */
    const char *artifact;        /* the path of the one that ran */
    const char *weights;         /* the path of its weights; "": none, or several */
    const double *tolerances;    /* by output: what the whole program allows (runtime/tolerance.h) */
} td_reference_run_t;

/* Makes the model, unless it is the one that is kept, and runs it. What out holds stays until td_reference_end, and is
 * there on TD_OK only. TD_NOTFOUND: that content is not what is served any more. TD_LIMIT: no room. TD_CANCELLED: it
 * had to give way. TD_USAGE: models that keep state or draw random numbers cannot be held against anything. All
 * others: it cannot be made or run on the device, and would not be the next time; *out_made tells which. */
td_status_t td_reference_run(td_reference_t *x, const td_reference_ask_t *ask, td_reference_run_t *out, bool *out_made,
                             td_err_t *err);
void td_reference_end(td_reference_t *x, td_reference_run_t *run);
/* Gives back what is kept; not while a run is held. */
void td_reference_drop(td_reference_t *x);
/* Ends what is on, and what comes. Thread: any. */
void td_reference_cancel(td_reference_t *x);

#endif
