/* SPDX-License-Identifier: Apache-2.0 */
#include "store/model_config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

/* A list of 4096 long names fits many times. */
#define FILE_MAX (1u << 20)

typedef struct reader {
    yaml_parser_t yaml;
    yaml_event_t event;
    bool held; /* event must be deleted */
    const char *path;
    td_arena_t *arena;
    td_err_t *err;
} reader_t;

static size_t line_of(const reader_t *r) {
    return r->event.start_mark.line + 1;
}

static td_status_t next(reader_t *r) {
    if (r->held) yaml_event_delete(&r->event);
    r->held = false;
    if (!yaml_parser_parse(&r->yaml, &r->event))
        return td_fail(r->err, TD_USAGE, "%s:%zu: %s", r->path, r->yaml.problem_mark.line + 1,
                       r->yaml.problem ? r->yaml.problem : "not YAML");
    r->held = true;
    return TD_OK;
}

static bool is_index(const char *s) {
    size_t n = strlen(s);
    return n > 0 && n <= 9 && strspn(s, "0123456789") == n && (n == 1 || s[0] != '0');
}

static td_status_t add_item(reader_t *r, const char *key, td_name_list_t *list, bool indices) {
    const char *v = (const char *)r->event.data.scalar.value;
    size_t n = r->event.data.scalar.length;
    if (!n || strlen(v) != n) return td_fail(r->err, TD_USAGE, "%s:%zu: %s: empty entry", r->path, line_of(r), key);
    if (indices && !is_index(v))
        return td_fail(r->err, TD_USAGE, "%s:%zu: %s: %.60s is not a parameter index", r->path, line_of(r), key, v);
    for (uint32_t i = 0; i < list->n; i++)
        if (!strcmp(list->items[i], v))
            return td_fail(r->err, TD_USAGE, "%s:%zu: %s: %.60s stands twice", r->path, line_of(r), key, v);
    if (list->n == TD_MODEL_CONFIG_LIST_MAX)
        return td_fail(r->err, TD_LIMIT, "%s:%zu: %s: more than %d entries", r->path, line_of(r), key,
                       TD_MODEL_CONFIG_LIST_MAX);
    list->items[list->n] = td_arena_strndup(r->arena, v, n);
    if (!list->items[list->n]) return td_arena_fail(r->arena, r->err);
    list->n++;
    return TD_OK;
}

static td_status_t read_list(reader_t *r, const char *key, td_name_list_t *list, bool indices) {
    if (list->given) return td_fail(r->err, TD_USAGE, "%s:%zu: %s stands twice", r->path, line_of(r), key);
    list->given = true;
    list->items = TD_NEW_N(r->arena, const char *, TD_MODEL_CONFIG_LIST_MAX);
    if (!list->items) return td_arena_fail(r->arena, r->err);
    td_status_t s = next(r);
    if (s != TD_OK) return s;
    if (r->event.type != YAML_SEQUENCE_START_EVENT)
        return td_fail(r->err, TD_USAGE, "%s:%zu: %s is not a list", r->path, line_of(r), key);
    while ((s = next(r)) == TD_OK && r->event.type != YAML_SEQUENCE_END_EVENT) {
        if (r->event.type != YAML_SCALAR_EVENT)
            return td_fail(r->err, TD_USAGE, "%s:%zu: %s: an entry is not a plain value", r->path, line_of(r), key);
        s = add_item(r, key, list, indices);
        if (s != TD_OK) return s;
    }
    return s;
}

static td_status_t read_key(reader_t *r, td_model_config_t *out) {
    if (r->event.type != YAML_SCALAR_EVENT)
        return td_fail(r->err, TD_USAGE, "%s:%zu: a key is not a plain value", r->path, line_of(r));
    const char *key = (const char *)r->event.data.scalar.value;
    if (!strcmp(key, "inputs")) return read_list(r, "inputs", &out->inputs, false);
    if (!strcmp(key, "outputs")) return read_list(r, "outputs", &out->outputs, false);
    if (!strcmp(key, "weights")) return read_list(r, "weights", &out->weights, true);
    return td_fail(r->err, TD_USAGE, "%s:%zu: unknown key %.60s", r->path, line_of(r), key);
}

static td_status_t read_document(reader_t *r, td_model_config_t *out) {
    td_status_t s;
    while ((s = next(r)) == TD_OK &&
           (r->event.type == YAML_STREAM_START_EVENT || r->event.type == YAML_DOCUMENT_START_EVENT)) continue;
    if (s != TD_OK || r->event.type == YAML_STREAM_END_EVENT) return s;
    if (r->event.type == YAML_SCALAR_EVENT && !r->event.data.scalar.length) return TD_OK;
    if (r->event.type != YAML_MAPPING_START_EVENT)
        return td_fail(r->err, TD_USAGE, "%s:%zu: not a map of keys", r->path, line_of(r));
    while ((s = next(r)) == TD_OK && r->event.type != YAML_MAPPING_END_EVENT)
        if ((s = read_key(r, out)) != TD_OK) return s;
    if (s == TD_OK) s = next(r); /* end of document */
    if (s == TD_OK) s = next(r);
    if (s == TD_OK && r->event.type != YAML_STREAM_END_EVENT)
        return td_fail(r->err, TD_USAGE, "%s:%zu: more than one document", r->path, line_of(r));
    return s;
}

td_status_t td_model_config_parse(const char *text, size_t size, const char *path, td_arena_t *arena,
                                  td_model_config_t *out, td_err_t *err) {
    reader_t r = {.path = path, .arena = arena, .err = err};
    if (!yaml_parser_initialize(&r.yaml)) return td_fail(err, TD_NOMEM, "out of memory");
    yaml_parser_set_input_string(&r.yaml, (const unsigned char *)text, size);
    *out = (td_model_config_t){0};
    td_status_t s = read_document(&r, out);
    if (r.held) yaml_event_delete(&r.event);
    yaml_parser_delete(&r.yaml);
    return s;
}

td_status_t td_model_config_read(const char *path, td_arena_t *arena, td_model_config_t *out, td_err_t *err) {
    *out = (td_model_config_t){0};
    FILE *f = fopen(path, "rbe");
    if (!f && errno == ENOENT) return TD_OK;
    if (!f) return td_fail(err, TD_IO, "%s: %s", path, strerror(errno));
    char *text = td_arena_zalloc(arena, FILE_MAX + 1);
    size_t n = text ? fread(text, 1, FILE_MAX + 1, f) : 0;
    bool bad = ferror(f) != 0;
    fclose(f);
    if (!text) return td_arena_fail(arena, err);
    if (bad) return td_fail(err, TD_IO, "%s: cannot be read", path);
    if (n > FILE_MAX) return td_fail(err, TD_LIMIT, "%s: over 1 MiB", path);
    return td_model_config_parse(text, n, path, arena, out, err);
}
