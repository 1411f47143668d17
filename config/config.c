/* SPDX-License-Identifier: Apache-2.0 */
#include "config/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/libraries.h"

typedef enum kind { TEXT, U32, U64, MODE, DAY, POLICY } kind_t;

typedef struct setting {
    const char *name;
    kind_t kind;
    size_t offset;
    uint64_t min, max;
    const char *text; /* default of a TEXT */
    uint64_t number;  /* default of the others */
} setting_t;

#define AT(f) offsetof(td_config_t, f)
static const setting_t settings[] = {
    {"socket", TEXT, AT(socket), 1, 107, "/run/thunkd/thunkd.sock", 0},
    {"socket_mode", MODE, AT(socket_mode), 0, 0777, NULL, 0660},
    {"store", TEXT, AT(store), 1, 4095, "/var/lib/thunkd/store", 0},
    {"device", TEXT, AT(device), 1, 255, "host", 0},
    {"threads", U32, AT(threads), 1, 256, NULL, 1},
    {"queue_depth", U32, AT(queue_depth), 1, 65536, NULL, 64},
    {"max_message_bytes", U64, AT(max_message_bytes), 1024, INT32_MAX, NULL, 64u << 20},
    {"max_concurrent_streams", U32, AT(max_concurrent_streams), 1, 65536, NULL, 128},
    {"drain_timeout_ms", U32, AT(drain_timeout_ms), 0, 3600000, NULL, 30000},
    {"contract_date", DAY, AT(contract_date), 0, 0, NULL, 0},
    {"enforce", POLICY, AT(enforce_strict), 0, 0, NULL, 0},
};
#define N_SETTINGS (sizeof settings / sizeof *settings)

typedef struct loader {
    const char *path;
    td_config_t *config;
    td_err_t *err;
    yaml_document_t *doc;
    bool seen[N_SETTINGS + 1]; /* the last: ffi_libraries */
} loader_t;

static td_status_t put_text(td_config_t *c, const setting_t *s, const char *text, td_err_t *err) {
    char **at = (char **)(void *)((char *)c + s->offset);
    char *copy = strdup(text);
    if (!copy) return td_fail(err, TD_NOMEM, "out of memory");
    free(*at);
    *at = copy;
    return TD_OK;
}

static void put_number(td_config_t *c, const setting_t *s, uint64_t v) {
    if (s->kind == U64) {
        memcpy((char *)c + s->offset, &v, sizeof v);
    } else {
        uint32_t v32 = (uint32_t)v;
        memcpy((char *)c + s->offset, &v32, sizeof v32);
    }
}

/* "2026-11-30" as 20261130; 0: it is no such day. */
static uint32_t day(const char *text) {
    static const uint8_t days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    unsigned y, m, d;
    int end = 0;
    if (strlen(text) != 10 || sscanf(text, "%4u-%2u-%2u%n", &y, &m, &d, &end) != 3 || end != 10) return 0;
    bool leap = (y % 4 == 0 && y % 100) || y % 400 == 0;
    if (y < 1970 || m < 1 || m > 12 || d < 1 || d > days[m - 1] || (m == 2 && d == 29 && !leap)) return 0;
    return y * 10000 + m * 100 + d;
}

static td_status_t set_word(loader_t *l, const setting_t *s, unsigned long line, const char *text) {
    bool strict = !strcmp(text, "strict");
    uint32_t n = s->kind == DAY ? day(text) : strict;
    bool good = s->kind == DAY ? n || !*text : strict || !strcmp(text, "warn");
    if (!good) return td_fail(l->err, TD_USAGE, "%s:%lu: %s: expected %s, got '%.64s'", l->path, line, s->name,
                              s->kind == DAY ? "a day as YYYY-MM-DD" : "warn or strict", text);
    put_number(l->config, s, n);
    return TD_OK;
}

static td_status_t set(loader_t *l, const setting_t *s, const yaml_node_t *v) {
    unsigned long line = v->start_mark.line + 1;
    const char *text = (const char *)v->data.scalar.value;
    size_t n = v->data.scalar.length;
    if (strlen(text) != n) return td_fail(l->err, TD_USAGE, "%s:%lu: %s holds a NUL byte", l->path, line, s->name);
    if (s->kind == TEXT) {
        if (n < s->min || n > s->max)
            return td_fail(l->err, TD_USAGE, "%s:%lu: %s: expected %llu to %llu bytes, got %zu", l->path, line, s->name,
                           (unsigned long long)s->min, (unsigned long long)s->max, n);
        return put_text(l->config, s, text, l->err);
    }
    if (s->kind == DAY || s->kind == POLICY) return set_word(l, s, line, text);
    char *end;
    errno = 0;
    unsigned long long x = strtoull(text, &end, s->kind == MODE ? 8 : 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno)
        return td_fail(l->err, TD_USAGE, "%s:%lu: %s: expected %s number, got '%.64s'", l->path, line, s->name,
                       s->kind == MODE ? "an octal" : "a", text);
    if (x < s->min || x > s->max)
        return td_fail(l->err, TD_USAGE, s->kind == MODE ? "%s:%lu: %s: expected %llo to %llo, got %s"
                                                         : "%s:%lu: %s: expected %llu to %llu, got %s",
                       l->path, line, s->name, (unsigned long long)s->min, (unsigned long long)s->max, text);
    put_number(l->config, s, x);
    return TD_OK;
}

/* The key that a misspelt one is near to: one letter more, less or other. NULL: none. */
static const char *near_key(const char *name) {
    for (size_t i = 0; i <= N_SETTINGS; i++) {
        const char *key = i < N_SETTINGS ? settings[i].name : "ffi_libraries", *a = name, *b = key;
        while (*a && *a == *b) a++, b++;
        if ((*a && !strcmp(a + 1, b)) || (*b && !strcmp(a, b + 1)) || (*a && *b && !strcmp(a + 1, b + 1)))
            return key;
    }
    return NULL;
}

static td_status_t set_pair(loader_t *l, const yaml_node_t *k, const yaml_node_t *v) {
    unsigned long line = k->start_mark.line + 1;
    if (k->type != YAML_SCALAR_NODE) return td_fail(l->err, TD_USAGE, "%s:%lu: the key is not a word", l->path, line);
    const char *name = (const char *)k->data.scalar.value;
    for (size_t i = 0; i < N_SETTINGS; i++) {
        if (strcmp(name, settings[i].name)) continue;
        if (l->seen[i]) return td_fail(l->err, TD_USAGE, "%s:%lu: %s is set twice", l->path, line, name);
        l->seen[i] = true;
        if (v->type != YAML_SCALAR_NODE)
            return td_fail(l->err, TD_USAGE, "%s:%lu: %s takes one value", l->path, line, name);
        return set(l, &settings[i], v);
    }
    if (!strcmp(name, "ffi_libraries")) {
        if (l->seen[N_SETTINGS]) return td_fail(l->err, TD_USAGE, "%s:%lu: %s is set twice", l->path, line, name);
        l->seen[N_SETTINGS] = true;
        return td_config_libraries(l->config, l->path, l->doc, v, l->err);
    }
    const char *near = near_key(name);
    return td_fail(l->err, TD_USAGE, "%s:%lu: unknown key '%.64s'%s%s%s", l->path, line, name, near ? " (did you mean '" : "",
                   near ? near : "", near ? "'?)" : "");
}

static td_status_t walk(loader_t *l, yaml_document_t *doc) {
    yaml_node_t *root = yaml_document_get_root_node(doc);
    l->doc = doc;
    if (!root) return TD_OK;
    if (root->type == YAML_SCALAR_NODE && !root->data.scalar.length) return TD_OK;
    if (root->type != YAML_MAPPING_NODE)
        return td_fail(l->err, TD_USAGE, "%s:%zu: expected 'key: value' lines", l->path, root->start_mark.line + 1);
    td_status_t s = TD_OK;
    yaml_node_pair_t *p = root->data.mapping.pairs.start;
    for (; s == TD_OK && p < root->data.mapping.pairs.top; p++)
        s = set_pair(l, yaml_document_get_node(doc, p->key), yaml_document_get_node(doc, p->value));
    return s;
}

static td_status_t parse(loader_t *l, FILE *f) {
    yaml_parser_t parser;
    yaml_document_t doc;
    td_status_t s;
    if (!yaml_parser_initialize(&parser)) return td_fail(l->err, TD_NOMEM, "out of memory");
    yaml_parser_set_input_file(&parser, f);
    if (yaml_parser_load(&parser, &doc)) {
        s = walk(l, &doc);
        yaml_document_delete(&doc);
    } else {
        s = td_fail(l->err, TD_USAGE, "%s:%zu: %s", l->path, parser.problem_mark.line + 1,
                    parser.problem ? parser.problem : "not YAML");
    }
    yaml_parser_delete(&parser);
    return s;
}

static td_status_t defaults(td_config_t *c, td_err_t *err) {
    td_status_t s = TD_OK;
    for (size_t i = 0; s == TD_OK && i < N_SETTINGS; i++) {
        if (settings[i].kind == TEXT) s = put_text(c, &settings[i], settings[i].text, err);
        else put_number(c, &settings[i], settings[i].number);
    }
    return s;
}

td_status_t td_config_load(const char *path, td_config_t *out, td_err_t *err) {
    *out = (td_config_t){0};
    FILE *f = fopen(path, "re");
    if (!f) return td_fail(err, TD_IO, "%s: %s", path, strerror(errno));
    loader_t l = {.path = path, .config = out, .err = err};
    td_status_t s = defaults(out, err);
    if (s == TD_OK) s = parse(&l, f);
    fclose(f);
    if (s != TD_OK) td_config_free(out);
    return s;
}

void td_config_free(td_config_t *c) {
    td_config_libraries_free(c);
    free(c->socket);
    free(c->store);
    free(c->device);
    *c = (td_config_t){0};
}
