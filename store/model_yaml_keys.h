/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of model.yaml's parser: what reads the value of a key. Thread: one. */
#ifndef TD_STORE_MODEL_YAML_KEYS_H
#define TD_STORE_MODEL_YAML_KEYS_H

#include "store/model_yaml.h"
#include "store/yaml_tree.h"

typedef struct td_yaml_in {
    const char *path; /* in the arena */
    bool model_level;
    td_arena_t *arena;
    td_err_t *err;
} td_yaml_in_t;

/* The maps of the schema: each has keys of its own. */
typedef enum td_yaml_map {
    TD_MAP_FILE, TD_MAP_VERSIONS, TD_MAP_WEIGHTS, TD_MAP_SEQUENCE, TD_MAP_TENSOR, TD_MAP_STATE, TD_MAPS
} td_yaml_map_t;

/* Reads the value v of the key into *into, the struct that its map fills. */
typedef td_status_t td_yaml_reader_t(td_yaml_in_t *in, const td_yaml_node_t *key, const td_yaml_node_t *v, void *into);

/* Reads a map by the table of keys. key: what the map is the value of, for messages. */
td_status_t td_yaml_read_map(td_yaml_in_t *in, td_yaml_map_t map, const char *key, const td_yaml_node_t *v, void *into);

td_word_t td_yaml_word(const td_yaml_in_t *in, const td_yaml_node_t *v);
/* "FILE:LINE: key: what". */
#define TD_YAML_BAD(in, at, key, fmt, ...)                                                             \
    td_fail((in)->err, TD_USAGE, "%s:%u: %.60s: " fmt, (in)->path, (at)->line, (key) __VA_OPT__(, ) __VA_ARGS__)
/* The text of v, not empty. */
td_status_t td_yaml_read_text(td_yaml_in_t *in, const char *key, const td_yaml_node_t *v, td_word_t *out);
td_status_t td_yaml_read_number(td_yaml_in_t *in, const char *key, const td_yaml_node_t *v, uint64_t min, uint64_t max,
                                uint64_t *out);
/* A version's folder: digits. */
td_status_t td_yaml_check_version(td_yaml_in_t *in, const char *key, const td_yaml_node_t *v);

/* store/model_yaml_lists.c. into: td_model_yaml_t; td_tensor_config_t of td_yaml_shape */
td_yaml_reader_t td_yaml_inputs, td_yaml_outputs, td_yaml_weights, td_yaml_buckets, td_yaml_axes, td_yaml_pad,
    td_yaml_state, td_yaml_weight_files, td_yaml_weights_bind, td_yaml_weights_only, td_yaml_labels, td_yaml_shape;
/* A list of texts, none twice. */
td_status_t td_yaml_read_words(td_yaml_in_t *in, const td_yaml_node_t *key, const td_yaml_node_t *v, td_words_t *out);

#endif
