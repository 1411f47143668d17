/* SPDX-License-Identifier: Apache-2.0 */
/* model.yaml: what one model says about itself.
 *
 *   inputs: [image]       names of the inputs that a request gives, in parameter order
 *   outputs: [logits]     names of the outputs, in order
 *   weights: [1, 2]       parameters that weights.safetensors must bind
 *
 * Every key is optional; an unknown key, a repeated key and a wrong kind of value
 * are errors that name file, line and key. Thread: one. */
#ifndef TD_STORE_MODEL_CONFIG_H
#define TD_STORE_MODEL_CONFIG_H

#include "base/arena.h"

typedef struct td_name_list {
    const char **items;
    uint32_t n;
    bool given;
} td_name_list_t;

typedef struct td_model_config {
    td_name_list_t inputs, outputs;
    td_name_list_t weights; /* decimal parameter indices, checked to be such */
} td_model_config_t;

/* Entries of one list; a program cannot have more arguments. */
#define TD_MODEL_CONFIG_LIST_MAX 4096

/* Text in, strings in the arena. path is only for messages. */
td_status_t td_model_config_parse(const char *text, size_t size, const char *path, td_arena_t *arena,
                                  td_model_config_t *out, td_err_t *err);
/* A file that is not there gives an empty configuration. */
td_status_t td_model_config_read(const char *path, td_arena_t *arena, td_model_config_t *out, td_err_t *err);

#endif
