/* SPDX-License-Identifier: Apache-2.0 */
#include "store/model_yaml.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/model_yaml_keys.h"

#define CONCURRENCY_MAX 256    /* as `threads` of the daemon */
#define SEQUENCES_MAX 1000000  /* each has a few hundred bytes beside its state */
#define VERSION_DIGITS_MAX 64

/* ---- single values ---- */

td_word_t td_yaml_word(const td_yaml_in_t *in, const td_yaml_node_t *v) {
    return (td_word_t){v->kind == TD_YAML_TEXT ? v->text : NULL, in->path, v->line};
}

td_status_t td_yaml_read_text(td_yaml_in_t *in, const char *key, const td_yaml_node_t *v, td_word_t *out) {
    if (v->kind != TD_YAML_TEXT) return TD_YAML_BAD(in, v, key, "expected one value");
    if (!*v->text) return TD_YAML_BAD(in, v, key, "no value");
    *out = td_yaml_word(in, v);
    return TD_OK;
}

td_status_t td_yaml_read_number(td_yaml_in_t *in, const char *key, const td_yaml_node_t *v, uint64_t min, uint64_t max,
                                uint64_t *out) {
    const char *text = v->kind == TD_YAML_TEXT ? v->text : "";
    char *end = NULL;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || n < min || n > max)
        return TD_YAML_BAD(in, v, key, "expected a number from %llu to %llu%s%.40s", (unsigned long long)min,
                           (unsigned long long)max, *text ? ", got " : "", text);
    *out = n;
    return TD_OK;
}

/* The place of the text in words. */
static td_status_t read_choice(td_yaml_in_t *in, const char *key, const td_yaml_node_t *v, const char *const *words,
                               uint32_t n, uint32_t *out) {
    char all[96] = "";
    for (uint32_t i = 0; i < n; i++) {
        if (v->kind == TD_YAML_TEXT && !strcmp(v->text, words[i])) {
            *out = i;
            return TD_OK;
        }
        strncat(all, !i ? "" : i + 1 < n ? ", " : " or ", sizeof all - strlen(all) - 1);
        strncat(all, words[i], sizeof all - strlen(all) - 1);
    }
    return TD_YAML_BAD(in, v, key, "expected %s%s%.40s", all, v->kind == TD_YAML_TEXT ? ", got " : "",
                       v->kind == TD_YAML_TEXT ? v->text : "");
}

td_status_t td_yaml_check_version(td_yaml_in_t *in, const char *key, const td_yaml_node_t *v) {
    const char *text = v->kind == TD_YAML_TEXT ? v->text : "";
    size_t n = strlen(text);
    if (n && n <= VERSION_DIGITS_MAX && strspn(text, "0123456789") == n) return TD_OK;
    return TD_YAML_BAD(in, v, key, "expected a version's number%s%.40s", *text ? ", got " : "", text);
}

/* ---- keys with a value of their own kind ---- */

static td_status_t read_latest(td_yaml_in_t *in, const td_yaml_node_t *key, const td_yaml_node_t *v, void *into) {
    uint64_t n = 0;
    td_status_t s = td_yaml_read_number(in, key->text, v, 1, UINT32_MAX, &n);
    if (s == TD_OK) ((td_model_yaml_t *)into)->latest = (uint32_t)n;
    return s;
}

static td_status_t read_versions(td_yaml_in_t *in, const td_yaml_node_t *key, const td_yaml_node_t *v, void *into) {
    static const char *const words[] = {"latest", "all"}; /* as td_version_rule_t */
    td_model_yaml_t *out = into;
    td_status_t s = TD_OK;
    uint32_t rule = TD_VERSIONS_LISTED;
    out->latest = 1;
    out->listed = (td_words_t){0};
    if (v->kind == TD_YAML_LIST) {
        s = td_yaml_read_words(in, key, v, &out->listed);
        for (const td_yaml_node_t *e = v->first; s == TD_OK && e; e = e->next)
            s = td_yaml_check_version(in, key->text, e);
        if (s == TD_OK && !v->n) s = TD_YAML_BAD(in, v, key->text, "names no version");
    } else if (v->kind == TD_YAML_MAP) {
        rule = TD_VERSIONS_LATEST;
        s = td_yaml_read_map(in, TD_MAP_VERSIONS, key->text, v, out);
    } else {
        s = read_choice(in, key->text, v, words, 2, &rule);
    }
    if (s == TD_OK) out->versions = (td_version_rule_t)rule;
    return s;
}

static td_status_t read_default(td_yaml_in_t *in, const td_yaml_node_t *key, const td_yaml_node_t *v, void *into) {
    td_status_t s = td_yaml_check_version(in, key->text, v);
    if (s == TD_OK) ((td_model_yaml_t *)into)->default_version = td_yaml_word(in, v);
    return s;
}

static td_status_t read_load(td_yaml_in_t *in, const td_yaml_node_t *key, const td_yaml_node_t *v, void *into) {
    static const char *const words[] = {"startup", "on_demand", "explicit"}; /* as td_load_mode_t */
    td_model_yaml_t *out = into;
    uint32_t mode = 0;
    td_status_t s = read_choice(in, key->text, v, words, 3, &mode);
    if (s == TD_OK) out->load = (td_load_mode_t)mode, out->load_given = true;
    return s;
}

static td_status_t read_pin(td_yaml_in_t *in, const td_yaml_node_t *key, const td_yaml_node_t *v, void *into) {
    static const char *const words[] = {"false", "true"};
    uint32_t on = 0;
    td_status_t s = read_choice(in, key->text, v, words, 2, &on);
    if (s == TD_OK) ((td_model_yaml_t *)into)->pin = on;
    return s;
}

static td_status_t read_sequence(td_yaml_in_t *in, const td_yaml_node_t *key, const td_yaml_node_t *v, void *into) {
    td_model_yaml_t *out = into, defaults;
    td_model_yaml_defaults(&defaults);
    out->sequence_idle_ms = defaults.sequence_idle_ms;
    out->sequence_max = defaults.sequence_max;
    return td_yaml_read_map(in, TD_MAP_SEQUENCE, key->text, v, out);
}

/* ---- the table of keys ---- */

typedef enum number_kind { NO_NUMBER, U32, U64 } number_kind_t;
typedef struct key {
    td_yaml_map_t map;
    const char *name;
    bool model_only;
    td_yaml_reader_t *read;
    number_kind_t number; /* without read: a number from min to max, … */
    size_t offset;        /* … or a text */
    uint64_t min, max;
} key_row_t;

#define READ(map, name, model_only, fn) {map, name, model_only, fn, NO_NUMBER, 0, 0, 0}
#define NUMBER(map, name, model_only, kind, field, min, max) \
    {map, name, model_only, NULL, kind, offsetof(td_model_yaml_t, field), min, max}
#define TEXT(map, name, type, field) {map, name, false, NULL, NO_NUMBER, offsetof(type, field), 0, 0}
static const key_row_t keys[] = {
    READ(TD_MAP_FILE, "versions", true, read_versions),
    READ(TD_MAP_FILE, "default", true, read_default),
    READ(TD_MAP_FILE, "labels", true, td_yaml_labels),
    READ(TD_MAP_FILE, "load", true, read_load),
    READ(TD_MAP_FILE, "pin", true, read_pin),
    NUMBER(TD_MAP_FILE, "priority", true, U32, priority, 0, 9),
    NUMBER(TD_MAP_FILE, "idle_unload_ms", true, U64, idle_unload_ms, 0, TD_LIMIT_YAML_MS),
    NUMBER(TD_MAP_FILE, "concurrency", false, U32, concurrency, 1, CONCURRENCY_MAX),
    READ(TD_MAP_FILE, "inputs", false, td_yaml_inputs),
    READ(TD_MAP_FILE, "outputs", false, td_yaml_outputs),
    READ(TD_MAP_FILE, "weights", false, td_yaml_weights),
    READ(TD_MAP_FILE, "buckets", false, td_yaml_buckets),
    READ(TD_MAP_FILE, "axes", false, td_yaml_axes),
    READ(TD_MAP_FILE, "pad", false, td_yaml_pad),
    READ(TD_MAP_FILE, "state", false, td_yaml_state),
    READ(TD_MAP_FILE, "sequence", false, read_sequence),
    READ(TD_MAP_VERSIONS, "latest", false, read_latest),
    READ(TD_MAP_WEIGHTS, "files", false, td_yaml_weight_files),
    READ(TD_MAP_WEIGHTS, "bind", false, td_yaml_weights_bind),
    READ(TD_MAP_WEIGHTS, "only", false, td_yaml_weights_only),
    NUMBER(TD_MAP_SEQUENCE, "idle_timeout_ms", false, U64, sequence_idle_ms, 1, TD_LIMIT_YAML_MS),
    NUMBER(TD_MAP_SEQUENCE, "max", false, U32, sequence_max, 1, SEQUENCES_MAX),
    TEXT(TD_MAP_TENSOR, "name", td_tensor_config_t, name),
    READ(TD_MAP_TENSOR, "shape", false, td_yaml_shape),
    TEXT(TD_MAP_TENSOR, "datatype", td_tensor_config_t, datatype),
    TEXT(TD_MAP_STATE, "input", td_state_config_t, input),
    TEXT(TD_MAP_STATE, "output", td_state_config_t, output),
};
#define N_KEYS (sizeof keys / sizeof *keys)

static td_status_t read_value(td_yaml_in_t *in, const key_row_t *k, const td_yaml_node_t *key, const td_yaml_node_t *v,
                              void *into) {
    void *at = (char *)into + k->offset;
    uint64_t n = 0;
    if (k->read) return k->read(in, key, v, into);
    if (k->number == NO_NUMBER) return td_yaml_read_text(in, key->text, v, at);
    td_status_t s = td_yaml_read_number(in, key->text, v, k->min, k->max, &n);
    if (s == TD_OK && k->number == U64) memcpy(at, &n, sizeof n);
    if (s == TD_OK && k->number == U32) memcpy(at, &(uint32_t){(uint32_t)n}, sizeof(uint32_t));
    return s;
}

/* ---- maps ---- */

#define NEAR_BYTES 24 /* over the longest key */

/* Letters to insert, remove or change to make b of a; a large number for long texts. */
static unsigned distance(const char *a, const char *b) {
    unsigned row[NEAR_BYTES + 1];
    size_t n = strlen(a), m = strlen(b);
    if (n > NEAR_BYTES || m > NEAR_BYTES) return NEAR_BYTES;
    for (size_t j = 0; j <= m; j++) row[j] = (unsigned)j;
    for (size_t i = 1; i <= n; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= m; j++) {
            unsigned best = diagonal + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[m];
}

static td_status_t unknown_key(td_yaml_in_t *in, td_yaml_map_t map, const char *of, const td_yaml_node_t *key) {
    const char *near = NULL;
    unsigned best = 3; /* two letters may be wrong, but not half of them */
    for (size_t i = 0; i < N_KEYS; i++) {
        unsigned d = keys[i].map == map ? distance(key->text, keys[i].name) : best;
        if (d < best && 2 * d < strlen(key->text)) best = d, near = keys[i].name;
    }
    return td_fail(in->err, TD_USAGE, "%s:%u: %.60s%sunknown key %.60s%s%s%s", in->path, key->line, of, *of ? ": " : "",
                   key->text, near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

td_status_t td_yaml_read_map(td_yaml_in_t *in, td_yaml_map_t map, const char *key, const td_yaml_node_t *v,
                             void *into) {
    td_status_t s = TD_OK;
    if (v->kind != TD_YAML_MAP) return TD_YAML_BAD(in, v, *key ? key : "the file", "expected 'key: value' lines");
    for (const td_yaml_node_t *k = v->first; s == TD_OK && k; k = k->next->next) {
        size_t i = 0;
        while (i < N_KEYS && (keys[i].map != map || strcmp(keys[i].name, k->text))) i++;
        if (i == N_KEYS) return unknown_key(in, map, key, k);
        if (keys[i].model_only && !in->model_level)
            return TD_YAML_BAD(in, k, k->text, "belongs in the model's own model.yaml, beside the versions");
        s = read_value(in, &keys[i], k, k->next, into);
    }
    return s;
}

/* ---- files ---- */

void td_model_yaml_defaults(td_model_yaml_t *out) {
    *out = (td_model_yaml_t){.latest = 1, .sequence_idle_ms = 60000, .sequence_max = 64};
}

td_status_t td_model_yaml_parse(const char *text, size_t size, const char *path, bool model_level, td_arena_t *arena,
                                td_model_yaml_t *out, td_err_t *err) {
    td_yaml_in_t in = {td_arena_strndup(arena, path, strlen(path)), model_level, arena, err};
    const td_yaml_node_t *root = NULL;
    td_model_yaml_t all = *out;
    if (!in.path) return td_arena_fail(arena, err);
    td_status_t s = td_yaml_parse(text, size, in.path, arena, &root, err);
    if (s == TD_OK && root) s = td_yaml_read_map(&in, TD_MAP_FILE, "", root, &all);
    if (s == TD_OK) *out = all;
    return s;
}

static td_status_t read_all(int fd, const char *path, td_arena_t *arena, char **out, size_t *out_n, td_err_t *err) {
    struct stat st;
    if (fstat(fd, &st)) return td_fail(err, TD_IO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode)) return td_fail(err, TD_IO, "%s: not a file", path);
    char *text = td_arena_align(arena, TD_LIMIT_YAML_BYTES + 1, 16);
    if (!text) return td_arena_fail(arena, err);
    size_t n = 0;
    for (ssize_t k = 1; k && n <= TD_LIMIT_YAML_BYTES;) {
        k = TEMP_FAILURE_RETRY(read(fd, text + n, TD_LIMIT_YAML_BYTES + 1 - n));
        if (k < 0) return td_fail(err, TD_IO, "%s: %s", path, strerror(errno));
        n += (size_t)k;
    }
    if (n > TD_LIMIT_YAML_BYTES) return td_fail(err, TD_LIMIT, "%s: over %u bytes", path, TD_LIMIT_YAML_BYTES);
    *out = text;
    *out_n = n;
    return TD_OK;
}

td_status_t td_model_yaml_read(const char *path, bool model_level, td_arena_t *arena, td_model_yaml_t *out,
                               td_err_t *err) {
    td_arena_t scratch; /* for the text, which is large */
    char *text = NULL;
    size_t n = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe does not hold us up */
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) return TD_OK;
    if (fd < 0) return td_fail(err, TD_IO, "%s: %s", path, strerror(errno));
    td_arena_init(&scratch, arena->alloc, 0);
    td_status_t s = read_all(fd, path, &scratch, &text, &n, err);
    if (s == TD_OK) s = td_model_yaml_parse(text, n, path, model_level, arena, out, err);
    td_arena_deinit(&scratch);
    close(fd);
    return s;
}

td_status_t td_word_fail(const td_word_t *w, td_err_t *err, td_status_t code, const char *fmt, ...) {
    char text[sizeof err->text];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (!w->file) return td_fail(err, code, "%s", text);
    return td_fail(err, code, "%s:%u: %s", w->file, w->line, text);
}
