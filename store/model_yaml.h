/* SPDX-License-Identifier: Apache-2.0 */
/* model.yaml: what a model says about itself.
 *
 * It may lie in <store>/<model>/ and in <store>/<model>/<version>/; a key of the version's file replaces the model's
 * with all that is in it. Every key is optional; an unknown key, a repeated key and a wrong kind of value are errors
 * that name file, line and key.
 *
 *   the model's file only
 *   versions: all              or latest (the default: the newest), {latest: 2}, or a list: [1, 3]
 *   default: 2                 the version for requests that name none; else the highest that is ready
 *   labels: {stable: 1}        words that requests may use instead of a version
 *   load: startup              or on_demand (by the first request), explicit (only when told)
 *   pin: false                 true: never evicted
 *   priority: 0                0 to 9; higher ones load first, and lower ones never evict them
 *   idle_unload_ms: 0          unload after that long without a request; 0: only when others need the room
 *
 *   both
 *   concurrency: 1             executions at the same time; the daemon's `threads` is the default and the most
 *   inputs: [image]            names of the inputs that a request gives, in parameter order; instead of a name
 *                              also {name: image, shape: [1, 28, 28], datatype: FP32}, checked against the artifact;
 *                              a dim of -1 may be any
 *   outputs: [logits]          likewise
 *   weights: [1, params.w]     parameters (index, name or tree path) that must be bound; or a map:
 *     files: [a.safetensors]     instead of weights.safetensors or model.safetensors.index.json
 *     bind: {0: encoder.w}       parameter: name of the tensor
 *     only: [1]                  as the list above
 *   buckets: [b1, b8]          file names, without ".aot" or ".<target>.aot", of artifacts that differ in some dims
 *   axes: {tokens: [b, t]}     names of the dims of inputs and outputs; needed where it cannot be told from the
 *                              buckets which dim of an output belongs to which of an input. "": a fixed dim
 *   pad: {tokens: 0}           what fills an input up to the bucket's shape; default 0
 *   state:                     kept on the device for each sequence
 *     - {input: cache, output: new_cache}
 *   sequence: {idle_timeout_ms: 60000, max: 64}
 *
 * Thread: one. */
#ifndef TD_STORE_MODEL_YAML_H
#define TD_STORE_MODEL_YAML_H

#include "base/arena.h"
#include "base/limits.h"

/* A text of the file, and where it stands. */
typedef struct td_word {
    const char *text; /* NULL: not given */
    const char *file;
    uint32_t line;
} td_word_t;
typedef struct td_words {
    td_word_t *items;
    uint32_t n;
    bool given;
    td_word_t key; /* the key itself, for errors about the whole */
} td_words_t;
typedef struct td_word_pair {
    td_word_t key, value;
} td_word_pair_t;
typedef struct td_word_pairs {
    td_word_pair_t *items;
    uint32_t n;
    bool given;
} td_word_pairs_t;

typedef struct td_tensor_config { /* an entry of inputs or outputs */
    td_word_t name, datatype;
    int64_t *dims; /* -1: any */
    uint32_t rank;
    bool shaped;
    td_word_t shape; /* where the shape stands */
} td_tensor_config_t;
typedef struct td_tensor_configs {
    td_tensor_config_t *items;
    uint32_t n;
    bool given;
    td_word_t key;
} td_tensor_configs_t;

typedef struct td_state_config {
    td_word_t input, output;
} td_state_config_t;
typedef struct td_axes_config {
    td_word_t tensor;
    td_words_t names;
} td_axes_config_t;
typedef struct td_pad_config {
    td_word_t tensor, value;
    double number;
} td_pad_config_t;

typedef enum td_load_mode { TD_LOAD_STARTUP = 0, TD_LOAD_ON_DEMAND, TD_LOAD_EXPLICIT } td_load_mode_t;
typedef enum td_version_rule { TD_VERSIONS_LATEST = 0, TD_VERSIONS_ALL, TD_VERSIONS_LISTED } td_version_rule_t;

typedef struct td_model_yaml {
    /* of the model */
    td_version_rule_t versions;
    uint32_t latest; /* TD_VERSIONS_LATEST: how many, 1 or more */
    td_words_t listed;
    td_word_t default_version;
    td_word_pairs_t labels; /* label: version */
    td_load_mode_t load;
    bool load_given; /* else the daemon's setting holds */
    bool pin;
    uint32_t priority;
    uint64_t idle_unload_ms;
    /* of model and version */
    uint32_t concurrency; /* 0: not given */
    td_tensor_configs_t inputs, outputs;
    td_words_t weight_files, weights_only;
    td_word_pairs_t weights_bind; /* parameter: tensor */
    td_words_t buckets;
    td_axes_config_t *axes;
    uint32_t n_axes;
    td_pad_config_t *pads;
    uint32_t n_pads;
    td_state_config_t *states;
    uint32_t n_states;
    uint64_t sequence_idle_ms; /* default 60000 */
    uint32_t sequence_max;     /* default 64 */
} td_model_yaml_t;

/* Entries of one list. */
#define TD_MODEL_YAML_LIST_MAX TD_LIMIT_YAML_ENTRIES

void td_model_yaml_defaults(td_model_yaml_t *out);
/* Text in, strings in the arena; keys that the text gives replace those in *out, which is untouched on failure. path
 * is for messages; a copy stays in td_word_t.file. model_level: the file lies beside the versions. */
td_status_t td_model_yaml_parse(const char *text, size_t size, const char *path, bool model_level, td_arena_t *arena,
                                  td_model_yaml_t *out, td_err_t *err);
/* A file that is not there changes nothing. */
td_status_t td_model_yaml_read(const char *path, bool model_level, td_arena_t *arena, td_model_yaml_t *out,
                                 td_err_t *err);
/* "FILE:LINE: text"; for checks against the artifact. */
td_status_t td_word_fail(const td_word_t *w, td_err_t *err, td_status_t code, const char *fmt, ...) TD_PRINTF(4, 5);

#endif
