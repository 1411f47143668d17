/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the weights: what opening, matching and bringing in share. */
#ifndef TD_STORE_WEIGHTS_IN_H
#define TD_STORE_WEIGHTS_IN_H

#include <pthread.h>

#include "store/st_set.h"
#include "store/weights.h"

/* A tensor that some program uses. */
typedef struct td_weight {
    const td_st_tensor_t *tensor;
    uint32_t file;
    bool boolean;   /* 0 and 1 only */
    uint64_t align; /* what its parameters need */
    const td_payload_t *payload; /* NULL: not brought in; never set with constants */
    bool checked;                /* with constants: brought in */
} td_weight_t;

struct td_weights {
    const td_alloc_t *alloc;
    const td_charge_t *charge;
    const td_model_yaml_t *config; /* never NULL */
    const char *dir;
    td_payload_table_t *payloads;
    td_constants_t *constants; /* NULL: the table keeps them */
    td_arena_t arena;
    td_st_set_t *set;
    pthread_mutex_t lock;   /* over all below; what is atomic is read without it */
    uint32_t **weight_of;   /* [file][tensor of the file]: 1 + its place in weights; 0: nobody uses it */
    td_weight_t **weights;
    uint32_t n_weights;
    td_guard_t **guards;    /* mappings that payloads of ours lie in; the payloads keep them. Only grows */
    _Atomic(uint32_t) n_guards;
    _Atomic(uint64_t) bytes;
};

/* The tensor of each parameter, NULL where none is bound, checked for type and shape. With the lock held. */
td_status_t td_weights_resolve(td_weights_t *w, const td_io_t *params, uint32_t n, td_weight_t **out, td_err_t *err);
/* The entry for a tensor, made when it is new. With the lock held. */
td_status_t td_weights_use(td_weights_t *w, const td_st_tensor_t *t, uint32_t file, const td_shape_t *shape,
                           td_weight_t **out, td_err_t *err);

#endif
