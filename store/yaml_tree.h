/* SPDX-License-Identifier: Apache-2.0 */
/* A small YAML file as a tree with line numbers: maps, lists and texts. What configuration has no use for is refused:
 * anchors and aliases (which also make a small file a large tree), tags, several documents, keys that are no texts
 * or stand twice, NUL bytes. Nesting and the number of entries are bounded (base/limits.h).
 * Syntax: YAML 1.1, by libyaml.
 * Thread: one. */
#ifndef TD_STORE_YAML_TREE_H
#define TD_STORE_YAML_TREE_H

#include "base/arena.h"

typedef enum td_yaml_kind { TD_YAML_TEXT, TD_YAML_LIST, TD_YAML_MAP } td_yaml_kind_t;
typedef struct td_yaml_node td_yaml_node_t;
struct td_yaml_node {
    td_yaml_kind_t kind;
    uint32_t line;               /* 1-based */
    uint32_t n;                  /* entries of a list, pairs of a map */
    const char *text;            /* of a TEXT */
    const td_yaml_node_t *first; /* entries; of a map key, value, key, value … */
    const td_yaml_node_t *next;
};

/* *out: the root, in the arena; NULL for a text without content. Errors read "FILE:LINE: …". */
td_status_t td_yaml_parse(const char *text, size_t size, const char *path, td_arena_t *arena,
                          const td_yaml_node_t **out, td_err_t *err);

#endif
