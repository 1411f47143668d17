/* SPDX-License-Identifier: Apache-2.0 */
#include "config/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "config/libraries.h"

typedef enum kind { TEXT, SIZE, U32, U64, MODE, DAY, WORD, SHARE } kind_t;

typedef struct setting {
    const char *name;
    kind_t kind;
    size_t offset;
    uint64_t min, max;
    const char *text; /* default of a TEXT or SIZE */
    uint64_t number;  /* default of the others */
    const char *const *words; /* of a WORD: its value is the place in here */
} setting_t;

static const char *const policies[] = {"warn", "strict", NULL};
static const char *const switches[] = {"false", "true", NULL};
static const char *const graph_words[] = {"auto", "off", NULL};
static const char *const load_words[] = {"startup", "on_demand", "explicit", NULL};

#define AT(f) offsetof(td_config_t, f)
/* A point stands for a map: {store: {budget: {host: auto}}}. A map's `path` may stand for the map. */
static const setting_t settings[] = {
    {"socket", TEXT, AT(socket), 1, 107, "/run/thunkd/thunkd.sock", 0, NULL},
    {"socket_mode", MODE, AT(socket_mode), 0, 0777, NULL, 0660, NULL},
    {"admin_socket", TEXT, AT(admin_socket), 0, 107, "/run/thunkd/admin.sock", 0, NULL},
    {"admin_socket_mode", MODE, AT(admin_socket_mode), 0, 0777, NULL, 0600, NULL},
    {"metrics", WORD, AT(metrics), 0, 0, NULL, 1, switches},
    {"store.path", TEXT, AT(store), 1, 4095, "/var/lib/thunkd/store", 0, NULL},
    {"store.budget.host", SIZE, AT(store_budget_host), 1, 64, "auto", 0, NULL},
    {"store.budget.device", SIZE, AT(store_budget_device), 1, 64, "auto", 0, NULL},
    {"store.budget.requests", SIZE, AT(store_budget_requests), 1, 64, "auto", 0, NULL},
    {"store.load_threads", U32, AT(load_threads), 1, 64, NULL, 1, NULL},
    {"store.rescan_ms", U32, AT(rescan_ms), 0, 86400000, NULL, 10000, NULL},
    {"store.load", WORD, AT(store_load), 0, 0, NULL, TD_CONFIG_LOAD_STARTUP, load_words},
    {"device", TEXT, AT(device), 1, 255, "host", 0, NULL},
    {"cuda.graphs", WORD, AT(cuda_graphs_off), 0, 0, NULL, 0, graph_words},
    {"threads", U32, AT(threads), 1, 256, NULL, 1, NULL},
    {"queue_depth", U32, AT(queue_depth), 1, 65536, NULL, 64, NULL},
    {"max_message_bytes", U64, AT(max_message_bytes), 1024, INT32_MAX, NULL, 64u << 20, NULL},
    {"max_concurrent_streams", U32, AT(max_concurrent_streams), 1, 65536, NULL, 128, NULL},
    {"slow_run_ms", U32, AT(slow_run_ms), 0, 86400000, NULL, 10000, NULL},
    {"verify_sample", SHARE, AT(verify_sample), 0, 0, NULL, 0, NULL},
    {"drain_timeout_ms", U32, AT(drain_timeout_ms), 0, 3600000, NULL, 30000, NULL},
    {"contract_date", DAY, AT(contract_date), 0, 0, NULL, 0, NULL},
    {"enforce", WORD, AT(enforce_strict), 0, 0, NULL, 0, policies},
};
#define N_SETTINGS (sizeof settings / sizeof *settings)
/* What is no single setting; the first is read elsewhere, the others are maps. */
static const char *const others[] = {"ffi_libraries", "store", "store.budget", "cuda"};
#define N_OTHERS (sizeof others / sizeof *others)
#define NAME_BYTES 96 /* over the longest name, so that a cut one is unknown */

typedef struct loader {
    const char *path;
    td_config_t *config;
    td_err_t *err;
    yaml_document_t *doc;
    bool seen[N_SETTINGS + N_OTHERS];
} loader_t;

static char **text_at(td_config_t *c, const setting_t *s) { return (char **)(void *)((char *)c + s->offset); }

static td_status_t put_text(td_config_t *c, const setting_t *s, const char *text, td_err_t *err) {
    char **at = text_at(c, s);
    char *copy = strdup(text);
    if (!copy) return td_fail(err, TD_NOMEM, "out of memory");
    free(*at);
    *at = copy;
    return TD_OK;
}

static void put_number(td_config_t *c, const setting_t *s, uint64_t v) {
    if (s->kind == SHARE) {
        double x = (double)v;
        memcpy((char *)c + s->offset, &x, sizeof x);
        return;
    }
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

static td_status_t set_day(loader_t *l, const setting_t *s, unsigned long line, const char *text) {
    uint32_t n = day(text);
    if (!n && *text)
        return td_fail(l->err, TD_USAGE, "%s:%lu: %s: expected a day as YYYY-MM-DD, got '%.64s'", l->path, line,
                       s->name, text);
    put_number(l->config, s, n);
    return TD_OK;
}

static td_status_t set_share(loader_t *l, const setting_t *s, unsigned long line, const char *text) {
    char *end;
    double x = strtod(text, &end);
    if (text[0] < '0' || text[0] > '9' || text[strspn(text, "0123456789.e-")] || *end || !(x >= 0 && x <= 1))
        return td_fail(l->err, TD_USAGE, "%s:%lu: %s: expected a share from 0 to 1, got '%.64s'", l->path, line,
                       s->name, text);
    memcpy((char *)l->config + s->offset, &x, sizeof x);
    return TD_OK;
}

static td_status_t set_word(loader_t *l, const setting_t *s, unsigned long line, const char *text) {
    char all[96] = "";
    uint32_t i = 0;
    while (s->words[i] && strcmp(s->words[i], text)) i++;
    if (s->words[i]) {
        put_number(l->config, s, i);
        return TD_OK;
    }
    for (i = 0; s->words[i]; i++) {
        strncat(all, !i ? "" : s->words[i + 1] ? ", " : " or ", sizeof all - strlen(all) - 1);
        strncat(all, s->words[i], sizeof all - strlen(all) - 1);
    }
    return td_fail(l->err, TD_USAGE, "%s:%lu: %s: expected %s, got '%.64s'", l->path, line, s->name, all, text);
}

static td_status_t set_text(loader_t *l, const setting_t *s, unsigned long line, const char *text, size_t n) {
    uint64_t bytes;
    if (n < s->min || n > s->max)
        return td_fail(l->err, TD_USAGE, "%s:%lu: %s: expected %llu to %llu bytes, got %zu", l->path, line, s->name,
                       (unsigned long long)s->min, (unsigned long long)s->max, n);
    if (s->kind == SIZE && td_size_parse(text, INT64_MAX, &bytes, l->err) != TD_OK) /* of how much is told later */
        return td_prefix(l->err, TD_USAGE, "%s:%lu: %s", l->path, line, s->name);
    return put_text(l->config, s, text, l->err);
}

static td_status_t set(loader_t *l, const setting_t *s, const yaml_node_t *v) {
    unsigned long line = v->start_mark.line + 1;
    const char *text = (const char *)v->data.scalar.value;
    size_t n = v->data.scalar.length;
    if (strlen(text) != n) return td_fail(l->err, TD_USAGE, "%s:%lu: %s holds a NUL byte", l->path, line, s->name);
    if (s->kind == TEXT || s->kind == SIZE) return set_text(l, s, line, text, n);
    if (s->kind == DAY) return set_day(l, s, line, text);
    if (s->kind == SHARE) return set_share(l, s, line, text);
    if (s->kind == WORD) return set_word(l, s, line, text);
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

static const char *name_of(size_t i) { return i < N_SETTINGS ? settings[i].name : others[i - N_SETTINGS]; }

/* The place of a name in settings and, behind them, others; N_SETTINGS + N_OTHERS: it is unknown. */
static size_t place_of(const char *name) {
    size_t i = 0;
    while (i < N_SETTINGS + N_OTHERS && strcmp(name, name_of(i))) i++;
    return i;
}

/* The key that a misspelt one is near to: one letter more, less or other. NULL: none. */
static const char *near_key(const char *name) {
    for (size_t i = 0; i < N_SETTINGS + N_OTHERS; i++) {
        const char *a = name, *b = name_of(i);
        while (*a && *a == *b) a++, b++;
        if ((*a && !strcmp(a + 1, b)) || (*b && !strcmp(a, b + 1)) || (*a && *b && !strcmp(a + 1, b + 1)))
            return name_of(i);
    }
    return NULL;
}

static td_status_t unknown_key(loader_t *l, unsigned long line, const char *name) {
    const char *near = near_key(name);
    return td_fail(l->err, TD_USAGE, "%s:%lu: unknown key '%.64s'%s%s%s", l->path, line, name,
                   near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
}

static td_status_t set_map(loader_t *l, const char *prefix, const yaml_node_t *map);

/* v is a map of settings, or the path that stands for it. */
static td_status_t set_group(loader_t *l, const char *name, const yaml_node_t *v) {
    char path[NAME_BYTES + 8];
    snprintf(path, sizeof path, "%s.path", name);
    size_t i = place_of(path);
    if (v->type == YAML_MAPPING_NODE) return set_map(l, name, v);
    if (v->type == YAML_SCALAR_NODE && i < N_SETTINGS) return set(l, &settings[i], v);
    return td_fail(l->err, TD_USAGE, "%s:%zu: %s: expected %s'key: value' lines", l->path, v->start_mark.line + 1, name,
                   i < N_SETTINGS ? "a path or " : "");
}

static td_status_t set_pair(loader_t *l, const char *prefix, const yaml_node_t *k, const yaml_node_t *v) {
    char name[NAME_BYTES];
    unsigned long line = k->start_mark.line + 1;
    if (k->type != YAML_SCALAR_NODE) return td_fail(l->err, TD_USAGE, "%s:%lu: the key is not a word", l->path, line);
    snprintf(name, sizeof name, "%s%s%s", prefix, *prefix ? "." : "", (const char *)k->data.scalar.value);
    size_t i = *prefix || !strchr(name, '.') ? place_of(name) : N_SETTINGS + N_OTHERS;
    if (i == N_SETTINGS + N_OTHERS) return unknown_key(l, line, name);
    if (l->seen[i]) return td_fail(l->err, TD_USAGE, "%s:%lu: %s is set twice", l->path, line, name);
    l->seen[i] = true;
    if (i == N_SETTINGS) return td_config_libraries(l->config, l->path, l->doc, v, l->err);
    if (i > N_SETTINGS) return set_group(l, name, v);
    if (v->type != YAML_SCALAR_NODE)
        return td_fail(l->err, TD_USAGE, "%s:%lu: %s takes one value", l->path, line, name);
    return set(l, &settings[i], v);
}

static td_status_t set_map(loader_t *l, const char *prefix, const yaml_node_t *map) {
    td_status_t s = TD_OK;
    const yaml_node_pair_t *p = map->data.mapping.pairs.start;
    for (; s == TD_OK && p < map->data.mapping.pairs.top; p++)
        s = set_pair(l, prefix, yaml_document_get_node(l->doc, p->key), yaml_document_get_node(l->doc, p->value));
    return s;
}

static td_status_t walk(loader_t *l, yaml_document_t *doc) {
    yaml_node_t *root = yaml_document_get_root_node(doc);
    l->doc = doc;
    if (!root) return TD_OK;
    if (root->type == YAML_SCALAR_NODE && !root->data.scalar.length) return TD_OK;
    if (root->type != YAML_MAPPING_NODE)
        return td_fail(l->err, TD_USAGE, "%s:%zu: expected 'key: value' lines", l->path, root->start_mark.line + 1);
    return set_map(l, "", root);
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
        if (settings[i].text) s = put_text(c, &settings[i], settings[i].text, err);
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
    for (size_t i = 0; i < N_SETTINGS; i++)
        if (settings[i].text) free(*text_at(c, &settings[i]));
    *c = (td_config_t){0};
}
