/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_STORE_STORE_INTERNAL_H
#define TD_STORE_STORE_INTERNAL_H

#include <pthread.h>

#include "store/model_config.h"
#include "store/safetensors.h"
#include "store/store.h"

struct td_slot {
    td_model_t *model;
    td_binding_t *binding;
    const void **inputs;  /* by parameter; weights are set once */
    const void **outputs; /* of the last run */
    uint8_t **bools;      /* by parameter: room for normalised booleans, NULL for other types */
    bool busy;            /* under model->lock */
};

struct td_model {
    const char *name, *version, *dir;
    td_model_state_t state;
    char reason[600], verdict[600];
    td_arena_t arena;
    const td_alloc_t *alloc;
    td_program_t *program;
    td_st_t *weights;
    const void **bound; /* by parameter: the weight, or NULL for a request's input */
    uint32_t *visible;  /* input i of a request is parameter visible[i] */
    td_tensor_info_t *inputs, *outputs;
    uint32_t n_inputs, n_outputs;
    td_slot_t *slots;
    uint32_t n_slots;
    pthread_mutex_t lock; /* guards slots[].busy */
};

struct td_store {
    td_store_opts_t opts;
    td_arena_t arena;
    td_payload_table_t *payloads;
    td_model_t **models;
    uint32_t n_models, capacity;
};

/* Loads m->dir; on failure the model keeps what it has, for td_model_unload. */
td_status_t td_model_load(td_store_t *s, td_model_t *m, td_err_t *err);
/* Frees everything that loading took, but not the arena. */
void td_model_unload(td_model_t *m);
/* Finds the models under opts.dir and appends them, not loaded. */
td_status_t td_store_scan(td_store_t *s, td_err_t *err);

#endif
