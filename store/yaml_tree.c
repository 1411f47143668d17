/* SPDX-License-Identifier: Apache-2.0 */
#include "store/yaml_tree.h"

#include <string.h>
#include <yaml.h>

#include "base/limits.h"

typedef struct reader {
    yaml_parser_t yaml;
    yaml_event_t event;
    bool held; /* event must be deleted */
    uint32_t n_nodes;
    const char *path;
    td_arena_t *arena;
    td_err_t *err;
} reader_t;

#define BAD(r, code, fmt, ...) \
    td_fail((r)->err, (code), "%s:%zu: " fmt, (r)->path, (r)->event.start_mark.line + 1 __VA_OPT__(,) __VA_ARGS__)

static td_status_t next(reader_t *r) {
    if (r->held) yaml_event_delete(&r->event);
    r->held = false;
    if (yaml_parser_parse(&r->yaml, &r->event)) {
        r->held = true;
        return TD_OK;
    }
    if (r->yaml.error == YAML_MEMORY_ERROR) return td_fail(r->err, TD_NOMEM, "%s: out of memory", r->path);
    return td_fail(r->err, TD_USAGE, "%s:%zu: %s", r->path, r->yaml.problem_mark.line + 1,
                   r->yaml.problem ? r->yaml.problem : "not YAML");
}

static td_status_t no_extras(reader_t *r, const yaml_char_t *anchor, const yaml_char_t *tag) {
    if (anchor) return BAD(r, TD_USAGE, "anchors are not read: &%.60s", (const char *)anchor);
    if (tag) return BAD(r, TD_USAGE, "tags are not read: %.60s", (const char *)tag);
    return TD_OK;
}

static td_status_t read_text(reader_t *r, td_yaml_node_t *out) {
    const char *text = (const char *)r->event.data.scalar.value;
    size_t n = r->event.data.scalar.length;
    td_status_t s = no_extras(r, r->event.data.scalar.anchor, r->event.data.scalar.tag);
    if (s != TD_OK) return s;
    if (memchr(text, 0, n)) return BAD(r, TD_USAGE, "a NUL byte");
    out->text = td_arena_strndup(r->arena, text, n);
    return out->text ? TD_OK : td_arena_fail(r->arena, r->err);
}

/* A key that the map has not had; the list of its nodes begins at first. */
static td_status_t check_key(reader_t *r, const td_yaml_node_t *first, const td_yaml_node_t *key) {
    if (key->kind != TD_YAML_TEXT) return BAD(r, TD_USAGE, "a key is not a plain value");
    for (; first != key; first = first->next->next)
        if (!strcmp(first->text, key->text))
            return td_fail(r->err, TD_USAGE, "%s:%u: %.60s: stands twice, first in line %u", r->path, key->line,
                           key->text, first->line);
    return TD_OK;
}

static td_status_t read_node(reader_t *r, const char *under, unsigned depth, td_yaml_node_t **out);

/* The entries of the list or map that the event began, up to its end. */
static td_status_t read_entries(reader_t *r, td_yaml_node_t *of, const char *under, unsigned depth) {
    const td_yaml_node_t **end = &of->first;
    const char *child = under; /* in a map the key */
    bool map = of->kind == TD_YAML_MAP, at_key = map;
    if (depth == TD_LIMIT_YAML_DEPTH) return BAD(r, TD_LIMIT, "%.60s: over %d levels deep", under, TD_LIMIT_YAML_DEPTH);
    for (;;) {
        td_yaml_node_t *node = NULL;
        td_status_t s = next(r);
        if (s != TD_OK) return s;
        if (r->event.type == YAML_SEQUENCE_END_EVENT || r->event.type == YAML_MAPPING_END_EVENT) return TD_OK;
        if ((!map || at_key) && of->n++ == TD_LIMIT_YAML_ENTRIES)
            return BAD(r, TD_LIMIT, "%.60s: more than %d entries", under, TD_LIMIT_YAML_ENTRIES);
        s = read_node(r, child, depth + 1, &node);
        if (s != TD_OK) return s;
        *end = node;
        end = &node->next;
        if (at_key && (s = check_key(r, of->first, node)) != TD_OK) return s;
        if (at_key) child = node->text;
        at_key = map && !at_key;
    }
}

static td_status_t read_node(reader_t *r, const char *under, unsigned depth, td_yaml_node_t **out) {
    td_yaml_node_t *node = TD_NEW(r->arena, td_yaml_node_t);
    td_status_t s;
    if (!node) return td_arena_fail(r->arena, r->err);
    if (r->n_nodes++ == TD_LIMIT_YAML_NODES) return BAD(r, TD_LIMIT, "more than %u values", TD_LIMIT_YAML_NODES);
    node->line = (uint32_t)r->event.start_mark.line + 1;
    *out = node;
    switch (r->event.type) {
    case YAML_SCALAR_EVENT: return read_text(r, node);
    case YAML_SEQUENCE_START_EVENT:
        node->kind = TD_YAML_LIST;
        s = no_extras(r, r->event.data.sequence_start.anchor, r->event.data.sequence_start.tag);
        return s == TD_OK ? read_entries(r, node, under, depth) : s;
    case YAML_MAPPING_START_EVENT:
        node->kind = TD_YAML_MAP;
        s = no_extras(r, r->event.data.mapping_start.anchor, r->event.data.mapping_start.tag);
        return s == TD_OK ? read_entries(r, node, under, depth) : s;
    case YAML_ALIAS_EVENT: return BAD(r, TD_USAGE, "aliases are not read: *%.60s", (char *)r->event.data.alias.anchor);
    default: return BAD(r, TD_USAGE, "%.60s: no value", under);
    }
}

static td_status_t read_document(reader_t *r, const td_yaml_node_t **out) {
    td_yaml_node_t *root = NULL;
    td_status_t s;
    while ((s = next(r)) == TD_OK &&
           (r->event.type == YAML_STREAM_START_EVENT || r->event.type == YAML_DOCUMENT_START_EVENT)) continue;
    if (s != TD_OK || r->event.type == YAML_STREAM_END_EVENT) return s;
    s = read_node(r, "the file", 0, &root);
    if (s == TD_OK) s = next(r); /* end of document */
    if (s == TD_OK) s = next(r);
    if (s == TD_OK && r->event.type != YAML_STREAM_END_EVENT) s = BAD(r, TD_USAGE, "more than one document");
    if (s == TD_OK && (root->kind != TD_YAML_TEXT || *root->text)) *out = root;
    return s;
}

td_status_t td_yaml_parse(const char *text, size_t size, const char *path, td_arena_t *arena,
                          const td_yaml_node_t **out, td_err_t *err) {
    reader_t r = {.path = path, .arena = arena, .err = err};
    *out = NULL;
    if (!yaml_parser_initialize(&r.yaml)) return td_fail(err, TD_NOMEM, "out of memory");
    yaml_parser_set_input_string(&r.yaml, (const unsigned char *)text, size);
    td_status_t s = read_document(&r, out);
    if (r.held) yaml_event_delete(&r.event);
    yaml_parser_delete(&r.yaml);
    return s;
}
